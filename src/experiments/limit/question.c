/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the output of a head over infinitely many tokens, by formula.
 *
 * With K(t) = ln E exp<t, Y> of a token Y, attention over n tokens tends to V grad K(Ax), because
 * the softmax is a ratio of means: sum v e^{<Ax,y>} / sum e^{<Ax,y>}. THEORY 1 has K of every law,
 * 1.2 mean and covariance of the outputs over queries of the same law. Each number has a bound of
 * its error: rounding, and where there is no closed form, quadrature or the sample of --draws. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/setting_params.h"
#include "limit/limit.h"
#include "table/table.h"

/* The options. */
typedef struct limit_params {
    es_law_params law;
    es_head_params head;
    const char *x, *draws;
    bool moments;
} limit_params;

/* What the options make: law, head and queries. */
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
     "mean and covariance of the output for a query that is itself a token", FIELD(moments)},
    {"draws", 0, ES_PARAM_FILE, "FILE",
     "with --moments: independent draws from the law, .npy (n, d), for laws whose output moments "
     "have no closed form; the error is then a standard error",
     FIELD(draws)},
    {0}};

/* ---- inputs ---- */

/* Finds the dimension d in the files beside the law's own; 0 if there are none. */
static es_status find_dim(const limit_params *p, int64_t *dim, es_error *err)
{
    *dim = 0;
    if (p->x)
        return es_matrix_cols(p->x, dim, err);
    ES_TRY(es_head_dim(&p->head, dim, err));
    return *dim == 0 && p->draws ? es_matrix_cols(p->draws, dim, err) : ES_OK;
}

/* Returns the numbers of a matrix of the head, which es_head_make() stored as row-major f64; NULL
 * without a matrix. */
static const double *numbers(const es_view *v) { return v ? v->data : NULL; }

/* Makes the head. The limit needs A itself, which is a product if --Wq and --Wk were given. */
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

/* Opens the study: law and head, queries or draws. */
static es_status open_study(es_job *job, es_error *err)
{
    const limit_params *p = job->params;
    limit_state *s = job->state;
    int64_t dim;
    if (!p->x && !p->moments)
        return es_refuse(err, "limit.options", "esscher limit --law sphere --x x.npy",
                         "missing --x or --moments");
    if (p->draws && !p->moments)
        return es_refuse(err, "limit.options", "add --moments, or leave out --draws",
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

/* One query. */
typedef struct limit_row {
    int64_t row;
    double log_mgf, error, norm;
    double *map; /* (dv) */
} limit_row;

static const es_column row_columns[] = {
    ES_COL(limit_row, row, ES_FORMAT_COUNT, "query", ""),
    ES_COL(limit_row, log_mgf, ES_FORMAT_REAL, "K(Ax)", "nats",
           "`ln E exp<Ax, Y>`, Y a token: the softmax's sum over n tokens is `n exp(K)`",
           .standing = ES_STANDING_PROVED),
    ES_COL(limit_row, error, ES_FORMAT_SHORT, "error", "",
           "bound on the rounding error of K and of the map"),
    ES_COL(limit_row, norm, ES_FORMAT_REAL, "|map|", "", "norm of the output `V grad K(Ax)`",
           .standing = ES_STANDING_PROVED),
    ES_COL(limit_row, map, ES_FORMAT_REAL, "map", ""),
    {0}};
enum { CHANNELS_SHOWN = 8 }; /* wider outputs are in no view */
static const char narrow_title[] = "Attention over infinitely many tokens",
                  wide_title[] = "Attention over infinitely many tokens, without its channels";
static const es_table_view row_views[] = {
    {narrow_title},
    {wide_title, "row log_mgf error norm", "Channels are in the CSV (--csv) and JSON (--json)."},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views, ES_ROW(limit_row),
                                         .keys = "row"};

/* The map at m queries. */
typedef struct limit_map {
    double *out;   /* (m, dv) */
    double *error; /* (m) bound on the error of the map and of K */
    es_num *K;     /* (m) */
} limit_map;

/* Computes the limit V grad K(Ax) at each query, K the log-MGF of the tokens, with its error. */
static es_status compute_map(es_job *job, limit_map *map, es_error *err)
{
    const limit_state *s = job->state;
    const int64_t m = s->x.rows;
    ES_TRY(ES_JOB_NEW_2D(job, map->out, m, s->dv, err));
    ES_TRY(ES_JOB_NEW(job, map->error, m, err));
    ES_TRY(ES_JOB_NEW(job, map->K, m, err));
    ES_TRY(es_limit_map(&s->law.law, &s->head, &s->x.view, &job->exec, map->out, map->K, map->error,
                        err));
    for (int64_t i = 0; i < m; i++)
        map->error[i] = fmax(map->K[i].err, map->error[i]);
    return ES_OK;
}

/* Returns the norm of a vector. */
static double norm_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Makes the columns map_0, map_1, ...; the view shows them if they are few. */
static es_status add_channels(es_job *job, es_answer *a, es_table *t, es_error *err)
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
    return es_label_columns(job, t, "map", channels, dv, err);
}

/* Says how large the outputs of m queries are. */
static void report_map(es_answer *a, const limit_row *rows, int64_t m)
{
    double low = rows[0].norm, high = low, error = 0.0;
    for (int64_t i = 0; i < m; i++) {
        low = fmin(low, rows[i].norm);
        high = fmax(high, rows[i].norm);
        error = fmax(error, rows[i].error);
    }
    if (m == 1)
        es_answer_add_finding(
            a, "Over infinitely many tokens the output has norm %.6g (error at most %.2g).", high,
            error);
    else
        es_answer_add_finding(a,
                              "Over infinitely many tokens the outputs of %lld queries have norms "
                              "from %.6g to %.6g (error at most %.2g).",
                              (long long)m, low, high, error);
}

/* Fills a row for each query. The numbers of a single query are also results that stand alone. */
static es_status answer_map(es_job *job, es_answer *a, es_error *err)
{
    const limit_state *s = job->state;
    limit_map map;
    ES_TRY(compute_map(job, &map, err));
    if (s->x.rows == 1) {
        es_answer_reals(a, "map", map.out, s->dv);
        es_answer_real(a, "log_mgf", map.K[0].val);
        es_answer_real(a, "error", map.error[0]);
        es_answer_real(a, "norm", norm_of(map.out, s->dv));
    }
    es_table *t = es_answer_table(a, &rows_table);
    ES_TRY(add_channels(job, a, t, err));
    for (int64_t i = 0; i < s->x.rows; i++) {
        const double *out = map.out + i * s->dv;
        limit_row *r = es_rows_add(t, limit_row);
        if (!r)
            return es_answer_status(a, err);
        r->row = i;
        r->log_mgf = map.K[i].val;
        r->error = map.error[i];
        r->norm = norm_of(out, s->dv);
        memcpy(r->map, out, (size_t)s->dv * sizeof *out);
    }
    report_map(a, es_rows(t, limit_row), s->x.rows);
    return ES_OK;
}

/* ---- moments, THEORY 1.2 ----
 * Of Gamma(X) for a token X. For N(m, S) the map is affine, V(m + SAx), so mean and covariance are
 * V(m + SAm) and V SASA'S V'; other laws need an integral over X. */

/* A row of the table of moments: one channel of the output. */
typedef struct moment_row {
    int64_t channel;
    double mean, variance;
} moment_row;

static const es_column moment_columns[] = {
    ES_COL(moment_row, channel, ES_FORMAT_COUNT, "channel", ""),
    ES_COL(moment_row, mean, ES_FORMAT_REAL, "mean", ""),
    ES_COL(moment_row, variance, ES_FORMAT_REAL, "variance", ""),
    {0}};
static const es_table_spec moments_table = {"channel_moments", moment_columns,
                                            ES_VIEW("Output for a query that is itself a token",
                                                    NULL,
                                                    "The full covariance is in the JSON (--json)."),
                                            ES_ROW(moment_row), .keys = "channel"};

/* How the moments were computed, and the largest error of an element. */
typedef struct accuracy_row {
    const char *method;
    double mean_error, cov_error;
} accuracy_row;

static const es_column accuracy_columns[] = {
    ES_COL(accuracy_row, method, ES_FORMAT_TEXT, "method", ""),
    ES_COL(accuracy_row, mean_error, ES_FORMAT_SHORT, "error of a mean", ""),
    ES_COL(accuracy_row, cov_error, ES_FORMAT_SHORT, "error of a covariance", ""),
    {0}};
static const es_table_spec accuracy_table = {
    "accuracy", accuracy_columns,
    ES_VIEW("Accuracy", NULL,
            "exact: rounding only; quadrature: change by the last refinement; sampled: largest "
            "standard error over the draws.",
            .only_with_full = true),
    ES_ROW(accuracy_row), .record = true};

/* Fills both tables from mean (dv) and covariance (dv, dv), and says how large they are. */
static es_status put_moments(es_answer *a, const limit_state *s, const double *mean,
                             const double *cov, const es_limit_accuracy *accuracy, es_error *err)
{
    const int64_t dv = s->dv;
    double trace = 0.0;
    es_answer_reals(a, "mean", mean, dv);
    es_answer_matrix(a, "cov", cov, dv, dv);
    es_answer_real(a, s->x.rows == 1 ? "moments_error" : "error",
                   fmax(accuracy->mean, accuracy->cov));
    es_table *t = es_answer_table(a, &moments_table);
    accuracy_row *how = es_rows_add(es_answer_table(a, &accuracy_table), accuracy_row);
    for (int64_t i = 0; i < dv && how; i++) {
        moment_row *r = es_rows_add(t, moment_row);
        if (!r)
            break;
        *r = (moment_row){.channel = i, .mean = mean[i], .variance = cov[i * dv + i]};
        trace += r->variance;
    }
    ES_TRY(es_answer_status(a, err));
    *how = (accuracy_row){es_limit_method_name(accuracy->method), accuracy->mean, accuracy->cov};
    es_answer_add_finding(
        a,
        "For a query that is itself a token, the output's mean has norm %.6g and its variances add "
        "up to %.6g (%s; %s of an element %.2g).",
        norm_of(mean, dv), trace, how->method,
        accuracy->method == ES_LIMIT_SAMPLED ? "standard error" : "largest error",
        fmax(accuracy->mean, accuracy->cov));
    return ES_OK;
}

/* Computes mean and covariance of the outputs over queries of the law; laws without a closed form
 * need --draws. */
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
    if (status == ES_E_UNSUPPORTED) { /* an option is missing, so the error is the user's */
        snprintf(err->hint, sizeof err->hint, "give draws from the law with --draws FILE");
        return err->code = ES_E_ARGUMENT;
    }
    return status == ES_OK ? put_moments(a, s, mean, cov, &accuracy, err) : status;
}

/* Fills the answer for --x, for --moments, or both. */
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
    .name = "limit",
    .summary = "the closed-form limit of attention over infinitely many tokens",
    .group = ES_GROUP_LAB,
    .main_options = "law dim cov Wq Wk A x moments",
    .usage = "--law LAW (--x x.npy | --moments) [options]",
    .about =
        "Evaluates Gamma(x) = V grad K(Ax): the output of softmax attention for query x as the "
        "number of tokens goes to infinity [proved]. A is the score matrix (the identity unless "
        "--A, or --Wq and --Wk, are given), V the value matrix, K(a) = ln E exp<a, Y> for a "
        "token Y. Every number comes with its error.\n\n"
        "--moments gives mean and covariance of Gamma(X) for a query X that is itself a token: "
        "in closed form for gaussian and empirical, by quadrature for sphere and ball around 0 "
        "and for every law in one dimension; other laws need --draws. Laplace and student have "
        "no such moments, and student has no limit at all.",
    .examples = examples,
    .params = params,
    .size = sizeof(limit_params),
    .takes = ES_TAKES_THREADS,
    .keeps_nothing = true,
    .state = sizeof(limit_state),
    .open = open_study,
    .summarise = summarise};
