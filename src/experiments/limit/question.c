/* question.c : what a head does to infinitely many tokens. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/setting_params.h"
#include "limit/limit.h"

typedef struct limit_params {
    es_law_params law;
    es_head_params head;
    const char *x, *draws;
    bool moments;
} limit_params;

typedef struct limit_state {
    es_law_data law;
    es_head_data files;
    es_matrix x, draws;
    es_limit_head head; /* A is NULL for the identity, V likewise */
    int64_t dv;
} limit_state;

#define FIELD(member) .field = offsetof(limit_params, member)
static const es_param params[] = {
    ES_LAW_PARAMS(limit_params, law, NULL),
    ES_HEAD_FILE_PARAMS(limit_params, head, "the identity"),
    {"x", 0, ES_PARAM_FILE, "FILE", "queries, .npy (d) or (m, d)", FIELD(x)},
    {"moments", 0, ES_PARAM_FLAG, NULL,
     "mean and covariance of the output when the query is a token, too", FIELD(moments)},
    {"draws", 0, ES_PARAM_FILE, "FILE",
     "with --moments: independent draws from the law, .npy (n, d), for laws whose output moments "
     "have no closed form; the error is then a standard error",
     FIELD(draws)},
    {0}};

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"row", "query", "", ES_FORMAT_COUNT},
    {"log_mgf", "K(Ax)", "nats", ES_FORMAT_REAL,
     "ln E exp<Ax, Y>, Y a token: n exp(K) is the softmax's sum over n tokens",
     .standing = ES_STANDING_PROVED},
    {"error", "error", "", ES_FORMAT_SHORT, "bound on the error of K and of the map, by rounding"},
    {"norm", "|map|", "", ES_FORMAT_REAL, "norm of the output V grad K(Ax)",
     .standing = ES_STANDING_PROVED},
    {"map", "map", "", ES_FORMAT_REAL, .each = true},
    {0}};
enum { CHANNELS_SHOWN = 8 }; /* what a table for people has room for */
static const char narrow_title[] = "Attention over infinitely many tokens",
                  wide_title[] = "Attention over infinitely many tokens, without its channels";
static const es_table_view row_views[] = {
    {narrow_title},
    {wide_title, "row log_mgf error norm", "Channels are in the CSV (--csv) and JSON (--json)."},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views, .keys = "row"};

static const es_column moment_columns[] = {{"channel", "channel", "", ES_FORMAT_COUNT},
                                           {"mean", "mean", "", ES_FORMAT_REAL},
                                           {"variance", "variance", "", ES_FORMAT_REAL},
                                           {0}};
static const es_table_spec moments_table = {"channel_moments", moment_columns,
                                            ES_VIEW("Output for a query that is itself a token",
                                                    NULL,
                                                    "The full covariance is in the JSON (--json)."),
                                            .keys = "channel"};

static const es_column accuracy_columns[] = {
    {"method", "method", "", ES_FORMAT_TEXT},
    {"mean_error", "error of a mean", "", ES_FORMAT_SHORT},
    {"cov_error", "error of a covariance", "", ES_FORMAT_SHORT},
    {0}};
static const es_table_spec accuracy_table = {
    "accuracy", accuracy_columns,
    ES_VIEW("Accuracy", NULL,
            "exact: rounding only; quadrature: change by the last refinement; sampled: largest "
            "standard error over the draws.",
            .only_with_full = true),
    .record = true};

/* ---- what is asked ---- */

/* The dimension that a file beside the law's own speaks of, 0: none. */
static es_status find_dim(const limit_params *p, int64_t *dim, es_error *err)
{
    *dim = 0;
    if (p->x)
        return es_matrix_cols(p->x, dim, err);
    ES_TRY(es_head_dim(&p->head, dim, err));
    return *dim == 0 && p->draws ? es_matrix_cols(p->draws, dim, err) : ES_OK;
}

/* Numbers of a matrix of the head, which es_head_make() has made row-major f64; NULL: none. */
static const double *numbers(const es_view *v) { return v ? v->data : NULL; }

/* The limit asks for A itself; of --Wq and --Wk it is the product. */
static es_status make_head(es_job *job, limit_state *s, es_error *err)
{
    limit_params *p = job->params;
    const int64_t d = s->law.law.dim;
    const es_head *given = &s->files.head;
    double *A;
    ES_TRY(es_head_make(job, &p->head, d, ES_HEAD_NONE, false, &s->files, err));
    s->dv = given->V ? given->V->rows : d;
    s->head = (es_limit_head){numbers(given->A), numbers(given->V), given->V ? s->dv : 0};
    if (!given->Wq)
        return ES_OK;
    ES_TRY(ES_JOB_NEW_2D(job, A, d, d, err));
    s->head.A = A;
    return es_head_write(given, d, A, NULL, err);
}

static es_status open_study(es_job *job, es_error *err)
{
    const limit_params *p = job->params;
    limit_state *s = job->state;
    int64_t dim;
    if (!p->x && !p->moments)
        return es_refuse(err, "limit.options", "esscher limit --law sphere --x x.npy",
                         "--x or --moments is needed");
    if (p->draws && !p->moments)
        return es_refuse(err, "limit.options", "add --moments, or leave it out",
                         "--draws without --moments");
    ES_TRY(find_dim(p, &dim, err));
    ES_TRY(es_law_make(job, &p->law, dim, &s->law, err));
    ES_TRY(make_head(job, s, err));
    ES_TRY(es_job_matrix(job, "x", p->x, -1, s->law.law.dim, &s->x, err));
    return es_job_matrix(job, "draws", p->draws, -1, s->law.law.dim, &s->draws, err);
}

/* ---- the map, THEORY 1 ----
 * Softmax weights of n tokens y_i with scores <Ax, y_i> are exp<Ax, y_i> over their sum. By the law
 * of large numbers both sums over tokens, divided by n, become expectations, and E Y exp<t, Y> over
 * E exp<t, Y> is the gradient of K(t) = ln E exp<t, Y>: Gamma(x) = V grad K(Ax). */

typedef struct limit_map {
    double *out;   /* (m, dv) */
    double *error; /* (m) bound, of K too */
    double *norm;  /* (m) */
    es_num *K;     /* (m) */
} limit_map;

static es_status make_map(es_job *job, limit_map *map, es_error *err)
{
    const limit_state *s = job->state;
    const int64_t m = s->x.rows;
    ES_TRY(ES_JOB_NEW_2D(job, map->out, m, s->dv, err));
    ES_TRY(ES_JOB_NEW(job, map->error, m, err));
    ES_TRY(ES_JOB_NEW(job, map->norm, m, err));
    ES_TRY(ES_JOB_NEW(job, map->K, m, err));
    ES_TRY(es_limit_map(&s->law.law, &s->head, &s->x.view, &job->exec, map->out, map->K, map->error,
                        err));
    for (int64_t i = 0; i < m; i++) {
        double norm2 = 0.0;
        for (int64_t c = 0; c < s->dv; c++)
            norm2 += map->out[i * s->dv + c] * map->out[i * s->dv + c];
        map->norm[i] = sqrt(norm2);
        map->error[i] = fmax(map->K[i].err, map->error[i]);
    }
    return ES_OK;
}

/* Columns map_0, map_1, ...; people see them if there is room. */
static es_status put_channels(es_job *job, es_answer *a, es_table *t, es_error *err)
{
    const int64_t dv = ((const limit_state *)job->state)->dv;
    const bool shown = dv <= CHANNELS_SHOWN;
    const char *const views[] = {shown ? narrow_title : wide_title, NULL};
    double *channels;
    ES_TRY(ES_JOB_NEW(job, channels, dv, err));
    for (int64_t c = 0; c < dv; c++)
        channels[c] = (double)c;
    es_answer_counts(a, "channels", (const int64_t[CHANNELS_SHOWN]){0, 1, 2, 3, 4, 5, 6, 7},
                     shown ? dv : 0);
    es_table_show(t, views);
    return es_put_each(job, t, "map", channels, dv, err);
}

static void put_row(es_table *t, const limit_map *map, int64_t i, int64_t dv)
{
    const int64_t row = es_table_row(t);
    es_put(t, row, {"row", (double)i}, {"log_mgf", map->K[i].val}, {"error", map->error[i]},
           {"norm", map->norm[i]});
    for (int64_t c = 0; c < dv; c++)
        es_put_at(t, row, "map", c, map->out[i * dv + c]);
}

static void tell_map(es_answer *a, const limit_map *map, int64_t m)
{
    double low = map->norm[0], high = low, error = 0.0;
    for (int64_t i = 0; i < m; i++) {
        low = fmin(low, map->norm[i]);
        high = fmax(high, map->norm[i]);
        error = fmax(error, map->error[i]);
    }
    if (m == 1)
        es_answer_add_finding(
            a,
            "Over infinitely many tokens this query's output has norm %.6g, and K(Ax) = "
            "%.6g; neither is off by more than %.2g.",
            high, map->K[0].val, error);
    else
        es_answer_add_finding(
            a,
            "Over infinitely many tokens the outputs of these %lld queries have norms "
            "from %.6g to %.6g, none off by more than %.2g.",
            (long long)m, low, high, error);
}

/* What is said of a single query stands at the top level as well. */
static es_status answer_map(es_job *job, es_answer *a, es_error *err)
{
    const limit_state *s = job->state;
    limit_map map;
    ES_TRY(make_map(job, &map, err));
    if (s->x.rows == 1) {
        es_answer_reals(a, "map", map.out, s->dv);
        es_answer_real(a, "log_mgf", map.K[0].val);
        es_answer_real(a, "error", map.error[0]);
        es_answer_real(a, "norm", map.norm[0]);
    }
    es_table *t = es_answer_table(a, &rows_table);
    ES_TRY(put_channels(job, a, t, err));
    for (int64_t i = 0; i < s->x.rows; i++)
        put_row(t, &map, i, s->dv);
    tell_map(a, &map, s->x.rows);
    return ES_OK;
}

/* ---- moments, THEORY 1.2 ----
 * Of Gamma(X) for a token X. For N(m, S) the map is affine, V(m + SAx), so mean and covariance are
 * V(m + SAm) and V SASA'S V'; other laws need an integral over X. */

static void put_moments(es_answer *a, const limit_state *s, const double *mean, const double *cov,
                        const es_limit_accuracy *accuracy)
{
    const int64_t dv = s->dv;
    const char *method = es_limit_method_name(accuracy->method);
    double norm2 = 0.0, trace = 0.0;
    es_answer_reals(a, "mean", mean, dv);
    es_answer_matrix(a, "cov", cov, dv, dv);
    es_answer_real(a, s->x.rows == 1 ? "moments_error" : "error",
                   fmax(accuracy->mean, accuracy->cov));
    es_table *t = es_answer_table(a, &moments_table), *how = es_answer_table(a, &accuracy_table);
    for (int64_t i = 0; i < dv; i++) {
        const int64_t row = es_table_row(t);
        es_put(t, row, {"channel", (double)i}, {"mean", mean[i]}, {"variance", cov[i * dv + i]});
        norm2 += mean[i] * mean[i];
        trace += cov[i * dv + i];
    }
    es_table_row(how);
    es_table_text(how, 0, "method", method);
    es_put(how, 0, {"mean_error", accuracy->mean}, {"cov_error", accuracy->cov});
    es_answer_add_finding(
        a,
        "For a query that is a token the output's mean has norm %.6g and its variances "
        "add up to %.6g (%s: an element is off by %s %.2g and %.2g).",
        sqrt(norm2), trace, method,
        accuracy->method == ES_LIMIT_SAMPLED ? "standard errors of" : "at most", accuracy->mean,
        accuracy->cov);
}

static es_status answer_moments(es_job *job, es_answer *a, es_error *err)
{
    const limit_state *s = job->state;
    double *mean, *cov;
    es_limit_accuracy accuracy;
    ES_TRY(ES_JOB_NEW(job, mean, s->dv, err));
    ES_TRY(ES_JOB_NEW_2D(job, cov, s->dv, s->dv, err));
    const es_status status =
        es_limit_moments(&s->law.law, &s->head, s->draws.data ? &s->draws.view : NULL, &job->exec,
                         mean, cov, &accuracy, err);
    if (status == ES_E_UNSUPPORTED) { /* it was the user who left --draws out */
        snprintf(err->hint, sizeof err->hint, "give draws from the law with --draws FILE");
        return err->code = ES_E_ARGUMENT;
    }
    if (status == ES_OK)
        put_moments(a, s, mean, cov, &accuracy);
    return status;
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const limit_params *p = job->params;
    if (p->x)
        ES_TRY(answer_map(job, answer, err));
    return p->moments ? answer_moments(job, answer, err) : ES_OK;
}

static const char *const examples[] = {
    "esscher limit --law sphere --x x.npy --A A.npy --json",
    "esscher limit --law gaussian --cov S.npy --Wq Wq.npy --Wk Wk.npy --Wv Wv.npy --moments",
    "esscher limit --law cube --A A.npy --moments --draws points.npy", NULL};

const es_study es_study_limit = {
    "limit",
    .summary = "the closed-form limit of attention over infinitely many tokens",
    .group = ES_GROUP_LAB,
    .main_options = "law dim cov Wq Wk A x moments",
    .usage = "--law LAW (--x x.npy | --moments) [options]",
    .about =
        "Evaluates Gamma(x) = V grad K(Ax), what softmax attention with score matrix A (the "
        "identity unless --A, or --Wq and --Wk, are given) and value matrix V gives for query "
        "x when the number of tokens goes to infinity [proved]; K is the log-MGF of the law of "
        "the tokens. Every number comes with its error.\n\n"
        "--moments gives mean and covariance of Gamma(X) for a query X that is itself a token: "
        "in closed form for gaussian and empirical, by quadrature for sphere and ball around 0 "
        "and for every law in one dimension; other laws need --draws. Laplace and student have "
        "no such moments, and student no limit at all.",
    .examples = examples,
    .params = params,
    .size = sizeof(limit_params),
    .takes = ES_TAKES_THREADS,
    .keeps_nothing = true,
    .state = sizeof(limit_state),
    .open = open_study,
    .summarise = summarise};
