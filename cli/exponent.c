/* esscher exponent : how near keys come to a query, and when the head freezes. */
#include <esscher/attend.h>
#include <esscher/exponent.h>

#include <math.h>
#include <stdlib.h>

#include "answer.h"
#include "grid.h"
#include "input.h"
#include "run_file.h"
#include "talk.h"

typedef struct exponent_options {
    const char *keys, *query, *queries;
    int64_t k, sample;
    cli_grid n;
    double beta, scale;
    cli_run_options run;
} exponent_options;

static const exponent_options defaults = {.sample = 256, .beta = NAN, .scale = NAN};

static const cli_option options[] = {
    {"keys", 0, CLI_STRING, "FILE", "keys, .npy (n, d); lengths do not matter, directions do",
     .field = offsetof(exponent_options, keys)},
    {"query", 'q', CLI_STRING, "FILE", "one query, .npy (d)",
     .field = offsetof(exponent_options, query)},
    {"queries", 0, CLI_STRING, "FILE",
     "many queries, .npy (m, d) (default: keys are the queries, each without itself)",
     .field = offsetof(exponent_options, queries)},
    {"sample", 0, CLI_WHOLE, "M", "without queries: the first M keys are taken (default: 256)",
     .field = offsetof(exponent_options, sample), .min = 1, .max = 1e9},
    {"k", 'k', CLI_WHOLE, "K", "nearest keys that an estimate uses (default: sqrt(n))",
     .field = offsetof(exponent_options, k), .min = 3, .max = 1e9},
    {"n", 'n', CLI_COUNTS, "GRID",
     "contexts to predict for (default: n of the keys, and 10 and 100 times that)",
     .field = offsetof(exponent_options, n), .min = 1, .max = 1e15, .increasing = true},
    {"beta", 'b', CLI_NUMBER, "B", "inverse temperature the head runs at: score = B cosine",
     .field = offsetof(exponent_options, beta), .min = 1e-9, .max = 1e12},
    {"scale", 0, CLI_NUMBER, "S",
     "the same from the lengths: score = S q.k, so beta = S mean|q| mean|k|",
     .field = offsetof(exponent_options, scale), .min = 1e-12, .max = 1e12},
    CLI_RUN_OPTIONS(exponent_options, run),
    {0}};

/* ---- views ---- */

static const cli_column estimate_columns[] = {
    {"method", "method", "", .format = CLI_TEXT},
    {"alpha", "alpha", "", .format = CLI_REAL, .error = "alpha_se",
     .definition = "P(1 - cosine <= t) ~ c t^alpha for small t"},
    {"alpha_se", "error of alpha", "", .format = CLI_SHORT, .hidden = true},
    {"dimension", "dimension", "", .format = CLI_REAL, .error = "dimension_se",
     .definition = "2 alpha: of the surface that the keys near a query fill"},
    {"dimension_se", "error of dimension", "", .format = CLI_SHORT, .hidden = true},
    {0}};
static const cli_table estimate_table = {
    .rows = "estimates",
    .title = "Local exponent",
    .columns = estimate_columns,
    .note = "corrected: maximum likelihood on a great sphere, where Hill's estimate (Levina and "
            "Bickel's dimension) takes the curvature for a lower dimension. two nearest: TwoNN, "
            "from many queries. With several queries errors come from the scatter between them."};

static const cli_column freezing_columns[] = {
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"critical", "critical", "beta", .format = CLI_SHORT,
     .definition = "(n c)^(1/alpha): one key is expected within 1/beta of the query"},
    {"frozen", "frozen", "beta", .format = CLI_SHORT,
     .definition = "2 alpha times that: the nearest key has half of the weight or more"},
    {"relative_se", "error", "relative", .format = CLI_SHORT,
     .definition = "standard error of both"},
    {"verdict", "at --beta", "", .format = CLI_TEXT,
     .definition = "what the head does there: averages (below critical), selects a few (between), "
                   "frozen"},
    {0}};
static const cli_table freezing_table = {
    .rows = "freezing", .title = "Where it freezes", .columns = freezing_columns};

static const cli_column scan_columns[] = {
    {"k", "k", "keys", .format = CLI_COUNT},
    {"hill", "Hill", "", .format = CLI_REAL, .error = "hill_se"},
    {"hill_se", "error of Hill", "", .format = CLI_SHORT, .hidden = true},
    {"alpha", "corrected", "", .format = CLI_REAL, .error = "alpha_se"},
    {"alpha_se", "error of corrected", "", .format = CLI_SHORT, .hidden = true},
    {0}};
static const cli_table scan_table = {
    .rows = "scan",
    .title = "Does it depend on k?",
    .columns = scan_columns,
    .note = "An exponent that keeps changing with k is not one: the keys have structure at every "
            "distance."};

static const cli_column run_columns[] = {
    {"beta", "beta", "", .format = CLI_REAL},
    {"top_weight", "largest weight", "", .format = CLI_SHORT,
     .definition = "of a query over these keys, mean over queries"},
    {"ess", "ESS", "keys", .format = CLI_SHORT,
     .definition = "1/sum of squared weights, mean over queries"},
    {"tokens", "freezes below", "tokens", .format = CLI_SHORT,
     .definition = "with fewer tokens than this it is frozen at this beta"},
    {"statement", "in words", "", .format = CLI_TEXT},
    {0}};
static const cli_table run_table = {.rows = "runs", .title = "As it runs", .columns = run_columns};
static const cli_table *const views[] = {&estimate_table, &freezing_table, &run_table, &scan_table,
                                         NULL};

/* ---- what is asked ---- */

typedef struct exponent_job {
    cli_session *session;
    const exponent_options *o;
    cli_input keys, queries;
    es_exponent_opts opts;
    int64_t count;      /* of queries */
    es_exponent pooled; /* all queries as one, for predictions */
} exponent_job;

static es_status read_inputs(exponent_job *job, es_error *err)
{
    const exponent_options *o = job->o;
    const char *file = o->query ? o->query : o->queries;
    if (!o->keys)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "exponent.options", "name a .npy file (n, d)",
                        "--keys is missing");
    if (o->query && o->queries)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "exponent.options", "leave one of them out",
                        "--query and --queries are both given");
    if (!isnan(o->beta) && !isnan(o->scale))
        return cli_fail(err, ES_E_ARGUMENT, NULL, "exponent.options", "leave one of them out",
                        "--beta and --scale are both given");
    es_status status = cli_input_read(job->session, "keys", o->keys, -1, -1, &job->keys, err);
    if (status == ES_OK && file)
        status = cli_input_read(job->session, o->query ? "query" : "queries", file,
                                o->query ? 1 : -1, job->keys.cols, &job->queries, err);
    const int64_t keys = job->keys.rows;
    job->opts = (es_exponent_opts){.k = o->k,
                                   .self = !file,
                                   .count = o->sample < keys ? o->sample : keys,
                                   .exec = &job->session->exec};
    job->count = file ? job->queries.rows : job->opts.count;
    return status;
}

/* A refusal of the library is about the file it was given. */
static es_status blame(const exponent_job *job, es_status status, es_error *err)
{
    if (status != ES_OK && status != ES_E_INTERRUPTED && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", job->o->keys);
    return status;
}

/* ---- estimates ---- */

static void put_estimate(json_t *list, const char *method, double alpha, double se)
{
    json_t *row = json_object();
    json_object_set_new(row, "method", json_string(method));
    json_object_set_new(row, "alpha", cli_real(alpha));
    json_object_set_new(row, "alpha_se", cli_real(se));
    json_object_set_new(row, "dimension", cli_real(2.0 * alpha));
    json_object_set_new(row, "dimension_se", cli_real(2.0 * se));
    json_array_append_new(list, row);
}

/* All queries with k nearest keys: the pool, and as one estimate. One query has its own errors. */
static es_status estimate(const exponent_job *job, int64_t k, es_exponent_pool *pool,
                          es_exponent *one, es_error *err)
{
    const es_view keys = es_view_f64(job->keys.data, job->keys.rows, job->keys.cols);
    const es_view queries = es_view_f64(job->queries.data, job->queries.rows, job->keys.cols);
    es_exponent *each = cli_alloc_array((size_t)job->count, sizeof *each);
    es_exponent_opts opts = job->opts;
    opts.k = k;
    const es_status status =
        es_exponent_queries(&keys, opts.self ? NULL : &queries, &opts, each, pool, err);
    int64_t first = 0;
    while (status == ES_OK && isnan(each[first].alpha))
        first++;
    if (status == ES_OK) {
        *one = each[first];
        if (pool->queries > 1) {
            one->alpha = pool->alpha;
            one->alpha_se = pool->alpha_se;
            one->hill = pool->hill;
            one->hill_se = pool->hill_se;
            one->log_c = pool->log_c;
        }
    }
    free(each);
    return status;
}

static void put_estimates(exponent_job *job, const es_exponent_pool *pool)
{
    json_t *list = json_array(), *answer = job->session->answer;
    const es_exponent *e = &job->pooled;
    put_estimate(list, "corrected", e->alpha, e->alpha_se);
    put_estimate(list, "Hill", e->hill, e->hill_se);
    if (!isnan(pool->two_nn))
        put_estimate(list, "two nearest", 0.5 * pool->two_nn, 0.5 * pool->two_nn_se);
    json_object_set_new(answer, "keys", json_integer(job->keys.rows));
    json_object_set_new(answer, "dim", json_integer(job->keys.cols));
    json_object_set_new(answer, "queries", json_integer(pool->queries));
    json_object_set_new(answer, "refused", json_integer(pool->refused));
    json_object_set_new(answer, "k", json_integer(e->k));
    json_object_set_new(answer, "copies", json_integer(e->copies));
    json_object_set_new(answer, "log_c", cli_real(e->log_c));
    json_object_set_new(answer, "estimates", list);
}

/* The same with fewer and more neighbours. */
static es_status put_scan(exponent_job *job, es_error *err)
{
    json_t *list = json_array();
    const int64_t k = job->pooled.k, most = job->keys.rows - 2 - job->pooled.copies;
    es_status status = ES_OK;
    json_object_set_new(job->session->answer, "scan", list);
    for (int64_t step = -2; step <= 2 && status == ES_OK; step++) {
        const int64_t at = step < 0 ? k >> -step : k << step;
        es_exponent_pool pool;
        es_exponent e;
        if (at < 3 || at > most)
            continue;
        status = estimate(job, at, &pool, &e, err);
        if (status != ES_OK)
            break;
        json_t *row = json_object();
        json_object_set_new(row, "k", json_integer(at));
        json_object_set_new(row, "hill", cli_real(e.hill));
        json_object_set_new(row, "hill_se", cli_real(e.hill_se));
        json_object_set_new(row, "alpha", cli_real(e.alpha));
        json_object_set_new(row, "alpha_se", cli_real(e.alpha_se));
        json_array_append_new(list, row);
    }
    return status == ES_E_RANGE || status == ES_E_NUMERIC ? ES_OK : status; /* a k too many */
}

/* ---- what it means ---- */

/* Rows become unit vectors; the mean of their lengths is kept. No row is zero by now. */
static void normalise(cli_input *x, double *mean)
{
    *mean = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double *row = x->data + i * x->cols, most = 0.0, sum = 0.0;
        for (int64_t c = 0; c < x->cols; c++)
            most = fmax(most, fabs(row[c]));
        for (int64_t c = 0; c < x->cols; c++) {
            row[c] /= most;
            sum += row[c] * row[c];
        }
        *mean += most * sqrt(sum) / (double)x->rows;
        for (int64_t c = 0; c < x->cols; c++)
            row[c] /= sqrt(sum);
    }
}

static const char *verdict(const es_freezing *f, double beta)
{
    return beta >= f->frozen ? "frozen" : beta >= f->critical ? "selects a few" : "averages";
}

static void put_freezing(exponent_job *job, double beta)
{
    json_t *list = json_array();
    const cli_grid *grid = &job->o->n;
    for (int64_t i = 0; i < (grid->count ? grid->count : 3); i++) {
        const double n = grid->count ? grid->reals[i] : (double)job->keys.rows * pow(10.0, (int)i);
        const es_freezing f = es_exponent_freezing(&job->pooled, n);
        json_t *row = json_object();
        json_object_set_new(row, "n", json_integer((json_int_t)n));
        json_object_set_new(row, "critical", cli_real(f.critical));
        json_object_set_new(row, "frozen", cli_real(f.frozen));
        json_object_set_new(row, "relative_se", cli_real(f.log_se));
        if (!isnan(beta))
            json_object_set_new(row, "verdict", json_string(verdict(&f, beta)));
        json_array_append_new(list, row);
    }
    json_object_set_new(job->session->answer, "freezing", list);
}

static json_t *statement(const exponent_job *job, double beta)
{
    const es_freezing f = es_exponent_freezing(&job->pooled, (double)job->keys.rows);
    return json_sprintf(
        "over %lld tokens this head freezes at beta = %.3g, give or take %.0f %%; it "
        "runs at %.3g: %s",
        (long long)job->keys.rows, f.frozen, 100.0 * f.log_se, beta, verdict(&f, beta));
}

/* Attention itself at this beta, over unit vectors. */
static es_status put_run(exponent_job *job, double beta, es_error *err)
{
    const es_view keys = es_view_f64(job->keys.data, job->keys.rows, job->keys.cols);
    const es_view all = job->opts.self
                            ? es_view_rows(&keys, 0, job->count)
                            : es_view_f64(job->queries.data, job->queries.rows, job->keys.cols);
    const es_attend_opts opts = {.precision = ES_F64,
                                 .scales = &beta,
                                 .n_scales = 1,
                                 .exclude_self = job->opts.self,
                                 .exec = &job->session->exec};
    const size_t m = (size_t)job->count;
    double *top = cli_alloc_array(m, sizeof *top), *squares = cli_alloc_array(m, sizeof *squares);
    const es_attend_out out = {.top_weight = top, .sum_squares = squares};
    const es_status status = es_attend(&all, &keys, &keys, &opts, &out, err);
    double weight = 0.0, ess = 0.0;
    for (size_t i = 0; i < m && status == ES_OK; i++) {
        weight += top[i] / (double)m;
        ess += 1.0 / squares[i] / (double)m;
    }
    if (status == ES_OK) {
        json_t *row = json_object();
        json_object_set_new(row, "beta", cli_real(beta));
        json_object_set_new(row, "top_weight", cli_real(weight));
        json_object_set_new(row, "ess", cli_real(ess));
        json_object_set_new(row, "tokens", cli_real(es_exponent_tokens(&job->pooled, beta)));
        json_object_set_new(row, "statement", statement(job, beta));
        json_object_set_new(job->session->answer, "runs", row);
    }
    free(top);
    free(squares);
    return status;
}

/* ---- all of it ---- */

static es_status answer(exponent_job *job, es_error *err)
{
    es_exponent_pool pool;
    es_status status = estimate(job, job->o->k, &pool, &job->pooled, err);
    if (status == ES_OK) {
        put_estimates(job, &pool);
        status = put_scan(job, err);
    }
    if (status != ES_OK)
        return blame(job, status, err);
    double of_keys, of_queries;
    normalise(&job->keys, &of_keys);
    normalise(&job->queries, &of_queries);
    const double beta = isnan(job->o->scale)
                            ? job->o->beta
                            : job->o->scale * of_keys * (job->opts.self ? of_keys : of_queries);
    put_freezing(job, beta);
    return isnan(beta) ? ES_OK : put_run(job, beta, err);
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    exponent_job job = {.session = session, .o = given};
    cli_run_file file = {0};
    session->budget.limit = (size_t)session->common.max_memory;
    es_status status = read_inputs(&job, err);
    if (status == ES_OK)
        status = cli_run_open(session, job.o, &job.o->run, &file, err);
    if (status == ES_OK)
        status = cli_run_close(&file, session, answer(&job, err), err);
    cli_input_free(&job.keys);
    cli_input_free(&job.queries);
    return status;
}

static const char *const examples[] = {
    "esscher exponent --keys K.npy --query q.npy",
    "esscher exponent --keys K.npy --queries Q.npy --scale 0.125 --n 4096,131072,1048576",
    "esscher exponent --keys K.npy --beta 20 --json",
    "esscher exponent --keys K.npy --beta 20 --out exponent.run", NULL};

const cli_command cli_exponent = {
    .name = "exponent",
    .summary = "how near keys come to a query, and at which beta the head freezes",
    .usage = "--keys K.npy [--query q.npy | --queries Q.npy] [options]",
    .about =
        "Estimates the local exponent alpha of keys that you bring, from the nearest ones: the "
        "probability that a key has 1 - cosine below t is c t^alpha. From it follows the inverse "
        "temperature at which attention over n such keys stops averaging: at (n c)^(1/alpha) a few "
        "keys are selected, at 2 alpha times that the nearest one has half of the weight. With "
        "--beta, or with --scale and the lengths of the vectors, also what the head does where "
        "it runs. These are predictions to leading order in large n, for more keys of the same "
        "law.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA | CLI_TAKES_MEMORY |
              CLI_TAKES_PROGRESS,
    .defaults = &defaults,
    .size = sizeof(exponent_options),
    .views = views,
    .run = run,
};
