/* exponent_study.c : how near keys come to a query, and when the head freezes. */
#include <math.h>
#include <stdio.h>

#include <esscher/attend.h>
#include <esscher/exponent.h>

#include "base/error.h"
#include "driver/job.h"
#include "study/answer_kit.h"

typedef struct exponent_params {
    const char *keys, *query;
    int64_t k, sample;
    es_grid n;
    double beta, scale;
} exponent_params;

typedef struct exponent_state {
    es_matrix keys, queries; /* no queries: the first keys */
    int64_t count;           /* of queries */
    bool self;
} exponent_state;

#define FIELD(member) .field = offsetof(exponent_params, member)
static const es_param params[] = {
    {"keys", 0, ES_PARAM_FILE, "FILE", "keys, .npy (n, d); lengths do not matter, directions do",
     FIELD(keys)},
    {"query", 0, ES_PARAM_FILE, "FILE", "queries, .npy (d) or (m, d)", FIELD(query),
     .otherwise = "keys are the queries, each without itself", .was = "queries"},
    {"sample", 0, ES_PARAM_WHOLE, "M", "without queries: the first M keys are taken", FIELD(sample),
     .min = 1, .max = 1e9, .standard = "256"},
    {"nearest", 0, ES_PARAM_WHOLE, "K", "nearest keys that an estimate uses", FIELD(k), .min = 3,
     .max = 1e9, .otherwise = "sqrt(n)", .was = "k"},
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "contexts to predict for", FIELD(n), .min = 1, .max = 1e15,
     .increasing = true, .otherwise = "n of the keys, and 10 and 100 times that", .unit = "tokens"},
    {"beta", 0, ES_PARAM_NUMBER, "B", "inverse temperature the head runs at: score = B cosine",
     FIELD(beta), .min = 1e-9, .max = 1e12},
    {"scale", 0, ES_PARAM_NUMBER, "S",
     "the same from the lengths: score = S q.k, so beta = S mean|q| mean|k|", FIELD(scale),
     .min = 1e-12, .max = 1e12},
    {0}};

/* ---- tables ---- */

static const es_column estimate_columns[] = {
    {"method", "method", "", ES_FORMAT_TEXT},
    {"alpha", "alpha", "", ES_FORMAT_REAL, "P(1 - cosine <= t) ~ c t^alpha for small t",
     .error = "alpha_se"},
    {"dimension", "dimension", "", ES_FORMAT_REAL,
     "2 alpha: of the surface that the keys near a query fill", .error = "dimension_se"},
    {0}};
static const es_table_spec estimate_table = {
    "estimates", estimate_columns,
    ES_VIEW("Local exponent", NULL,
            "corrected: maximum likelihood on a great sphere, where Hill's estimate (Levina and "
            "Bickel's dimension) takes the curvature for a lower dimension. two nearest: TwoNN, "
            "from many queries. With several queries errors come from the scatter between them.")};

static const es_column freezing_columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"critical", "critical", "beta", ES_FORMAT_SHORT,
     "(n c)^(1/alpha): one key is expected within 1/beta of the query",
     .standing = ES_STANDING_HEURISTIC},
    {"frozen", "frozen", "beta", ES_FORMAT_SHORT,
     "2 alpha times that: the nearest key has half of the weight or more",
     .standing = ES_STANDING_HEURISTIC},
    {"relative_se", "error", "relative", ES_FORMAT_SHORT, "standard error of both"},
    {"verdict", "at --beta", "", ES_FORMAT_TEXT,
     "what the head does there: averages (below critical), selects a few (between), frozen"},
    {0}};
static const es_table_spec freezing_table = {"freezing", freezing_columns,
                                             ES_VIEW("Where it freezes")};

static const es_column run_columns[] = {
    {"beta", "beta", "", ES_FORMAT_REAL},
    {"top_weight", "largest weight", "", ES_FORMAT_SHORT,
     "of a query over these keys, mean over queries"},
    {"ess", "ESS", "keys", ES_FORMAT_SHORT, "1/sum of squared weights, mean over queries"},
    {"tokens", "freezes below", "tokens", ES_FORMAT_SHORT,
     "with fewer tokens than this it is frozen at this beta"},
    {"statement", "in words", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_spec run_table = {"runs", run_columns, ES_VIEW("As it runs"), .record = true};

static const es_column scan_columns[] = {
    {"k", "k", "keys", ES_FORMAT_COUNT},
    {"hill", "Hill", "", ES_FORMAT_REAL, .error = "hill_se"},
    {"alpha", "corrected", "", ES_FORMAT_REAL, .error = "alpha_se"},
    {0}};
static const es_table_spec scan_table = {
    "scan", scan_columns,
    ES_VIEW("Does it depend on k?", NULL,
            "An exponent that keeps changing with k is not one: the keys have structure at every "
            "distance.")};

/* ---- what is asked ---- */

static es_status open_study(es_job *job, es_error *err)
{
    const exponent_params *p = job->params;
    exponent_state *s = job->state;
    if (!p->keys)
        return es_refuse(err, "exponent.options", "name a .npy file (n, d)", "--keys is missing");
    if (!isnan(p->beta) && !isnan(p->scale))
        return es_refuse(err, "exponent.options", "leave one of them out",
                         "--beta and --scale are both given");
    ES_TRY(es_job_matrix(job, "keys", p->keys, -1, -1, &s->keys, err));
    ES_TRY(es_job_matrix(job, "query", p->query, -1, s->keys.cols, &s->queries, err));
    s->self = !p->query;
    s->count = p->query ? s->queries.rows : p->sample < s->keys.rows ? p->sample : s->keys.rows;
    return ES_OK;
}

/* ---- estimates, THEORY 6 ----
 * Given T_(k+1), the k nearest gaps T = 1 - cosine are independent with P(T <= t) ~ t^alpha, so
 * ln(T_(k+1)/T_(i)) are exponential with rate alpha: Hill's (k-1)/sum ln(T_(k+1)/T_(i)). On a great
 * sphere the density is (x(1-x))^(alpha-1) in x = T/2, and the corrected estimate maximises that.
 */

/* All queries with k nearest keys: the pool, and as one estimate. One query has its own errors. */
static es_status estimate(es_job *job, int64_t k, es_exponent_pool *pool, es_exponent *one,
                          es_error *err)
{
    const exponent_state *s = job->state;
    const es_exponent_opts opts = {.k = k, .self = s->self, .count = s->count, .exec = &job->exec};
    es_exponent *each;
    ES_TRY(es_job_array(job, s->count, 1, sizeof *each, &each, err));
    ES_TRY(es_exponent_queries(&s->keys.view, s->self ? NULL : &s->queries.view, &opts, each, pool,
                               err));
    int64_t first = 0; /* there is one: a pool without any is refused */
    while (isnan(each[first].alpha))
        first++;
    *one = each[first];
    if (pool->queries > 1) {
        one->alpha = pool->alpha;
        one->alpha_se = pool->alpha_se;
        one->hill = pool->hill;
        one->hill_se = pool->hill_se;
        one->log_c = pool->log_c;
    }
    return ES_OK;
}

static void put_estimate(es_table *t, const char *method, double alpha, double se)
{
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "method", method);
    es_put(t, row, {"alpha", alpha}, {"alpha_se", se}, {"dimension", 2.0 * alpha},
           {"dimension_se", 2.0 * se});
}

static void put_estimates(const exponent_state *s, const es_exponent_pool *pool,
                          const es_exponent *e, es_answer *a)
{
    es_table *t = es_answer_table(a, &estimate_table);
    put_estimate(t, "corrected", e->alpha, e->alpha_se);
    put_estimate(t, "Hill", e->hill, e->hill_se);
    if (!isnan(pool->two_nn))
        put_estimate(t, "two nearest", 0.5 * pool->two_nn, 0.5 * pool->two_nn_se);
    es_answer_count(a, "keys", s->keys.rows);
    es_answer_count(a, "dim", s->keys.cols);
    es_answer_count(a, "queries", pool->queries);
    es_answer_count(a, "refused", pool->refused);
    es_answer_count(a, "k", e->k);
    es_answer_count(a, "copies", e->copies);
    es_answer_real(a, "log_c", e->log_c);
}

/* The same with fewer and more neighbours. */
static es_status put_scan(es_job *job, const es_exponent *at, es_table *t, es_error *err)
{
    const exponent_state *s = job->state;
    const int64_t most = s->keys.rows - 2 - at->copies;
    for (int64_t step = -2; step <= 2; step++) {
        const int64_t k = step < 0 ? at->k >> -step : at->k << step;
        es_exponent_pool pool;
        es_exponent e;
        if (k < 3 || k > most)
            continue;
        const es_status status = estimate(job, k, &pool, &e, err);
        if (status == ES_E_RANGE || status == ES_E_NUMERIC)
            break; /* a k too many */
        ES_TRY(status);
        const int64_t row = es_table_row(t);
        es_put(t, row, {"k", (double)k}, {"hill", e.hill}, {"hill_se", e.hill_se},
               {"alpha", e.alpha}, {"alpha_se", e.alpha_se});
    }
    return ES_OK;
}

/* ---- what it means, THEORY 6 ----
 * Of n keys, n c t^alpha are expected within t of the query. Scores beta (1 - cosine) tell the
 * nearest ones apart once one key is expected within 1/beta: n c beta^-alpha = 1 gives the critical
 * beta (n c)^(1/alpha). The second key is farther by some 1/alpha of that, so at 2 alpha times
 * the critical beta its weight is some e^-2 of the first's: a heuristic. */

/* Rows become unit vectors; the mean of their lengths is kept. No row is zero by now. The largest
 * entry is divided out first, so that no square overflows. */
static double normalise(es_matrix *x)
{
    double mean = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double *row = x->data + i * x->cols, most = 0.0, sum = 0.0;
        for (int64_t c = 0; c < x->cols; c++)
            most = fmax(most, fabs(row[c]));
        for (int64_t c = 0; c < x->cols; c++) {
            row[c] /= most;
            sum += row[c] * row[c];
        }
        mean += most * sqrt(sum) / (double)x->rows;
        for (int64_t c = 0; c < x->cols; c++)
            row[c] /= sqrt(sum);
    }
    return mean;
}

static const char *verdict(const es_freezing *f, double beta)
{
    return beta >= f->frozen ? "frozen" : beta >= f->critical ? "selects a few" : "averages";
}

static void put_freezing(const es_job *job, const es_exponent *e, double beta, es_answer *a)
{
    const es_grid *grid = &((const exponent_params *)job->params)->n;
    const double keys = (double)((const exponent_state *)job->state)->keys.rows;
    es_table *t = es_answer_table(a, &freezing_table);
    for (int64_t i = 0; i < (grid->count ? grid->count : 3); i++) {
        const double n = grid->count ? grid->reals[i] : keys * pow(10.0, (int)i);
        const es_freezing f = es_exponent_freezing(e, n);
        const int64_t row = es_table_row(t);
        es_put(t, row, {"n", (double)((int64_t)n)}, {"critical", f.critical}, {"frozen", f.frozen},
               {"relative_se", f.log_se});
        if (!isnan(beta))
            es_table_text(t, row, "verdict", verdict(&f, beta));
    }
}

/* Attention itself at this beta, over unit vectors. */
/* A prediction to leading order may be off by a factor; attention over these very keys is cheap
 * and exact, so it stands beside it. */
static es_status put_run(es_job *job, const es_exponent *e, double beta, const char *statement,
                         es_answer *a, es_error *err)
{
    const exponent_state *s = job->state;
    const es_view all = s->self ? es_view_rows(&s->keys.view, 0, s->count) : s->queries.view;
    const es_attend_opts opts = {ES_F64, .scales = &beta, .n_scales = 1, .exclude_self = s->self,
                                 .exec = &job->exec};
    const double m = (double)s->count;
    double *top, *squares, weight = 0.0, ess = 0.0;
    ES_TRY(es_job_array(job, s->count, 1, sizeof *top, &top, err));
    ES_TRY(es_job_array(job, s->count, 1, sizeof *squares, &squares, err));
    const es_attend_out out = {.top_weight = top, .sum_squares = squares};
    ES_TRY(es_attend(&all, &s->keys.view, &s->keys.view, &opts, &out, err));
    for (int64_t i = 0; i < s->count; i++) {
        weight += top[i] / m;
        ess += 1.0 / squares[i] / m;
    }
    es_table *t = es_answer_table(a, &run_table);
    es_table_row(t);
    es_put(t, 0, {"beta", beta}, {"top_weight", weight}, {"ess", ess},
           {"tokens", es_exponent_tokens(e, beta)});
    es_table_text(t, 0, "statement", statement);
    return ES_OK;
}

static void tell_exponent(es_answer *a, const es_exponent *e, int64_t queries)
{
    char alpha[ES_FORMAT_ROOM], dimension[ES_FORMAT_ROOM];
    es_format_number(ES_FORMAT_REAL, e->alpha, e->alpha_se, alpha, sizeof alpha);
    es_format_number(ES_FORMAT_REAL, 2.0 * e->alpha, 2.0 * e->alpha_se, dimension,
                     sizeof dimension);
    es_answer_tell(a,
                   "The local exponent is alpha = %s: near a query the keys lie as on a surface of "
                   "dimension %s (%lld nearest keys, %lld %s).",
                   alpha, dimension, (long long)e->k, (long long)queries,
                   queries == 1 ? "query" : "queries");
}

/* ---- all of it ---- */

/* A refusal of the library is about the file it was given. */
static es_status blame(const es_job *job, es_status status, es_error *err)
{
    if (status != ES_OK && status != ES_E_INTERRUPTED && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", ((const exponent_params *)job->params)->keys);
    return status;
}

/* What the exponent means for a head: after the estimates, which are made of the vectors as they
 * came, because normalise() rounds. */
static es_status sum_up_head(es_job *job, const es_exponent *e, es_answer *a, es_error *err)
{
    const exponent_params *p = job->params;
    exponent_state *s = job->state;
    const double of_keys = normalise(&s->keys), of_queries = normalise(&s->queries);
    const double beta =
        isnan(p->scale) ? p->beta : p->scale * of_keys * (s->self ? of_keys : of_queries);
    const es_freezing f = es_exponent_freezing(e, (double)s->keys.rows);
    char statement[200];
    put_freezing(job, e, beta, a);
    if (isnan(beta)) {
        es_answer_tell(a,
                       "Attention over %lld such tokens averages below beta = %.3g and is frozen "
                       "from %.3g on, give or take %.0f %%.",
                       (long long)s->keys.rows, f.critical, f.frozen, 100.0 * f.log_se);
        return ES_OK;
    }
    snprintf(statement, sizeof statement,
             "over %lld tokens this head freezes at beta = %.3g, give or take %.0f %%; it runs at "
             "%.3g: %s",
             (long long)s->keys.rows, f.frozen, 100.0 * f.log_se, beta, verdict(&f, beta));
    es_answer_tell(a, "O%s.", statement + 1);
    return put_run(job, e, beta, statement, a, err);
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const exponent_params *p = job->params;
    const exponent_state *s = job->state;
    es_exponent_pool pool;
    es_exponent pooled; /* all queries as one */
    const es_table_spec *const order[] = {&estimate_table, &freezing_table, &run_table,
                                          &scan_table}; /* as people read them */
    for (int i = 0; i < 4; i++)
        es_answer_table(answer, order[i]);
    ES_TRY(blame(job, estimate(job, p->k, &pool, &pooled, err), err));
    put_estimates(s, &pool, &pooled, answer);
    tell_exponent(answer, &pooled, pool.queries);
    ES_TRY(blame(job, put_scan(job, &pooled, es_answer_table(answer, &scan_table), err), err));
    return sum_up_head(job, &pooled, answer, err);
}

static const char *const examples[] = {
    "esscher exponent --keys K.npy --query q.npy",
    "esscher exponent --keys K.npy --query Q.npy --scale 0.125 --n 4096,131072,1048576",
    "esscher exponent --keys K.npy --beta 20 --json",
    "esscher exponent --keys K.npy --beta 20 --out exponent.run", NULL};

const es_study es_study_exponent = {
    "exponent",
    .summary = "how near keys come to a query, and at which beta the head freezes",
    .usage = "--keys K.npy [--query Q.npy] [options]",
    .about =
        "Estimates the local exponent alpha of keys that you bring, from the nearest ones: the "
        "probability that a key has 1 - cosine below t is c t^alpha. From it follows the "
        "inverse temperature at which attention over n such keys stops averaging: at (n "
        "c)^(1/alpha) a few keys are selected, at 2 alpha times that the nearest one has half "
        "of the weight [heuristic]. With --beta, or with --scale and the lengths of the "
        "vectors, also what the head does where it runs. These are predictions to leading "
        "order in large n, for more keys of the same law.",
    .examples = examples,
    .params = params,
    .size = sizeof(exponent_params),
    .takes = ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "estimates",
    .state = sizeof(exponent_state),
    .open = open_study,
    .summarise = summarise};
