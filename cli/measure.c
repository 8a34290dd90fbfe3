/* esscher measure : what attention does with queries, keys and values that the user brings. */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

static const measure_options defaults = {.scale = NAN, .tolerance = NAN};

static const cli_option options[] = {
    {"q", 0, CLI_STRING, "FILE",
     "queries of shape (m, d) or (heads, m, d), f16, bf16, f32 or f64: a .npy file, or "
     "FILE.safetensors:TENSOR",

     .field = offsetof(measure_options, paths[MEASURE_Q])},
    {"k", 0, CLI_STRING, "FILE",
     "keys, (n, d) or (heads, n, d). Fewer heads than Q has, if they "
     "divide them, are shared by groups of query heads",
     .field = offsetof(measure_options, paths[MEASURE_K])},
    {"v", 0, CLI_STRING, "FILE", "values, (n, dv) or (heads, n, dv)",
     .field = offsetof(measure_options, paths[MEASURE_V])},
    {"tokens", 0, CLI_STRING, "FILE",
     "tokens (n, d) instead of queries, keys and values, which are x Wq', x Wk', x Wv'; implies "
     "--self",
     .field = offsetof(measure_options, tokens)},
    {"Wq", 0, CLI_STRING, "FILE", "with --tokens: (k, d) or (heads, k, d) (default: the identity)",
     .field = offsetof(measure_options, weights[MEASURE_Q])},
    {"Wk", 0, CLI_STRING, "FILE", "the same for keys; heads may be shared as above",
     .field = offsetof(measure_options, weights[MEASURE_K])},
    {"Wv", 0, CLI_STRING, "FILE", "the same for values, (dv, d) or (heads, dv, d)",
     .field = offsetof(measure_options, weights[MEASURE_V])},
    {"scale", 0, CLI_NUMBER, "B", "score scale b of exp(b q.k) (default: 1/sqrt(d))",
     .field = offsetof(measure_options, scale), .min = 0.0, .max = 1e30},
    {"scales", 0, CLI_REALS, "GRID", "several score scales in one pass",
     .field = offsetof(measure_options, scales), .min = 0.0, .max = 1e30},
    {"prefixes", 0, CLI_COUNTS, "GRID",
     "results on the first n keys, for each n of the grid, in "
     "one pass (default: all keys)",
     .field = offsetof(measure_options, prefixes), .min = 1, .max = 0x1p40, .increasing = true},
    {"self", 0, CLI_FLAG, NULL,
     "the queries are the tokens: with prefix n only the first n of "
     "them ask; rows of the others are NaN in files",
     .field = offsetof(measure_options, self)},
    {"exclude-self", 0, CLI_FLAG, NULL, "query i does not see key i",
     .field = offsetof(measure_options, exclude_self)},
    {"top-k", 0, CLI_COUNTS, "GRID", "also the mass of the k largest weights, for each k",
     .field = offsetof(measure_options, top_k), .min = 1, .max = 65536, .increasing = true},
    {"moments", 0, CLI_FLAG, NULL, "mean and covariance of the outputs in full, in the JSON",
     .field = offsetof(measure_options, moments)},
    {"out", 'o', CLI_STRING, "FILE",
     "write the outputs as .npy, ([heads,] [scales,] [prefixes,] "
     "m, dv), in the precision of V, or f64 with --precision f64",
     .field = offsetof(measure_options, out)},
    {"per-query", 0, CLI_STRING, "FILE",
     "write statistics of every query: .csv with a header, or "
     ".npy (..., m, 5 + k) with columns lse, entropy, top weight, top index, sum of squares, "
     "top-k masses",
     .field = offsetof(measure_options, per_query)},
    {"compare", 0, CLI_STRING, "FILE",
     "an output for the same inputs, (m, dv) or (heads, m, dv), "
     "made by another program: report how far it is from the f64 engine's",
     .field = offsetof(measure_options, compare)},
    {"tolerance", 0, CLI_NUMBER, "X",
     "with --compare: exit with code 1 if the relative L2 error "
     "is above X",
     .field = offsetof(measure_options, tolerance), .min = 0.0, .max = 1e30},
    {"force", 0, CLI_FLAG, NULL, "overwrite files that exist",
     .field = offsetof(measure_options, force)},
    {0}};

/* With --compare the comparison is what was asked for: it comes first, and is the CSV. */
static const cli_table *const views[] = {&cli_cost_table,
                                         &measure_compare_table,
                                         &measure_verdict_table,
                                         &measure_rows_table,
                                         &measure_heads_table,
                                         &measure_accuracy_table,
                                         NULL};

static es_status fail_usage(const char *hint, const char *message, es_error *err)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "measure.options", hint, "%s", message);
}

/* Options that contradict each other. */
static es_status check_options(const cli_session *session, const measure_options *o, es_error *err)
{
    const bool any = o->paths[0] || o->paths[1] || o->paths[2];
    if (o->tokens ? any : !o->paths[0] || !o->paths[1] || !o->paths[2])
        return fail_usage("esscher measure --q Q.npy --k K.npy --v V.npy",
                          any && o->tokens ? "--tokens excludes --q, --k and --v"
                                           : "--q, --k and --v are needed, or --tokens",
                          err);
    if (!o->tokens && (o->weights[0] || o->weights[1] || o->weights[2]))
        return fail_usage("name the tokens with --tokens", "--Wq, --Wk and --Wv go with --tokens",
                          err);
    if (!o->weights[MEASURE_Q] != !o->weights[MEASURE_K])
        return fail_usage("give both, or neither", "--Wq and --Wk belong together", err);
    if (!isnan(o->scale) && o->scales.count)
        return fail_usage("choose one", "--scale and --scales at once", err);
    if (o->compare && (o->scales.count > 1 || o->prefixes.count > 1))
        return fail_usage("run the comparison for one of them",
                          "--compare works with one scale and one prefix", err);
    if (o->compare && session->common.precision == 0)
        return fail_usage("leave --precision f32 out", "--compare is judged by the f64 engine",
                          err);
    if (!isnan(o->tolerance) && !o->compare)
        return fail_usage("name their output with --compare", "--tolerance without --compare", err);
    if (o->out && o->per_query && strcmp(o->out, o->per_query) == 0)
        return fail_usage("give two names", "--out and --per-query name the same file", err);
    return ES_OK;
}

/* ---- one head ---- */

static void alloc_results(measure_job *job)
{
    const size_t cells = (size_t)(job->S * job->P), each = cells * (size_t)job->m;
    job->out = (es_attend_out){.lse = cli_alloc_array(each, sizeof(double)),
                               .entropy = cli_alloc_array(each, sizeof(double)),
                               .top_weight = cli_alloc_array(each, sizeof(double)),
                               .top_index = cli_alloc_array(each, sizeof(int64_t)),
                               .sum_squares = cli_alloc_array(each, sizeof(double)),
                               .moments = cli_alloc_array(cells, sizeof(es_moments))};
    if (job->K)
        job->out.top_mass = cli_alloc_array(each, (size_t)job->K * sizeof(double));
    if (job->keeps_output)
        job->out.output = cli_alloc_array(each, (size_t)job->dv * sizeof(double));
}

static void free_results(measure_job *job)
{
    free(job->out.output);
    free(job->out.lse);
    free(job->out.entropy);
    free(job->out.top_weight);
    free(job->out.top_index);
    free(job->out.sum_squares);
    free(job->out.top_mass);
    free(job->out.moments);
    for (int i = 0; i < MEASURE_FILES; i++)
        es_array_free(&job->arrays[i]);
    measure_tokens_free(job);
    measure_files_free(job);
}

static es_status run_head(measure_job *job, int64_t head, json_t *rows, json_t *heads,
                          json_t *compared, es_error *err)
{
    es_view v[3];
    measure_views(job, head, v);
    job->session->progress.part = (double)head;
    es_status status =
        es_attend(&v[MEASURE_Q], &v[MEASURE_K], &v[MEASURE_V], &job->opts, &job->out, err);
    if (status != ES_OK)
        return status;
    measure_rows(job, head, rows);
    for (int64_t i = 0; i < job->S * job->P; i++)
        es_moments_free(&job->out.moments[i]);
    status = measure_heads(job, head, rows, heads);
    if (status == ES_OK)
        status = measure_check(job, head, err);
    if (status == ES_OK && job->o->compare)
        status = measure_compare(job, head, compared, err);
    if (status == ES_OK)
        measure_files_head(job, head);
    if (status == ES_OK && cli_interrupted())
        status = ES_E_INTERRUPTED;
    return status;
}

/* ---- all of it ---- */

static void describe(measure_job *job)
{
    json_t *shape = json_object();
    json_object_set_new(shape, "heads", json_integer(job->heads));
    json_object_set_new(shape, "kv_heads", json_integer(job->kv_heads));
    json_object_set_new(shape, "queries", json_integer(job->m));
    json_object_set_new(shape, "keys", json_integer(job->n));
    json_object_set_new(shape, "dim", json_integer(job->d));
    json_object_set_new(shape, "value_dim", json_integer(job->dv));
    json_object_set_new(job->session->answer, "shape", shape);
    if (job->K)
        json_object_set_new(job->session->answer, "top_k", cli_counts(job->opts.top_k, job->K));
    json_object_set_new(json_object_get(job->session->answer, "provenance"), "precision",
                        json_string(es_dtype_name(job->opts.precision)));
}

static es_status compute(measure_job *job, es_error *err)
{
    es_status status = measure_load(job, err);
    if (status == ES_OK)
        status = measure_files_start(job, err);
    if (status != ES_OK)
        return status;
    alloc_results(job);
    json_t *rows = json_array(), *heads = json_array(), *compared = json_array();
    const double start = cli_seconds();
    job->session->progress.parts = (double)job->heads;
    for (int64_t head = 0; head < job->heads && status == ES_OK; head++)
        status = run_head(job, head, rows, heads, compared, err);
    const double seconds = cli_seconds() - start;
    if (status == ES_OK)
        status = measure_files_finish(job, err);
    if (status != ES_OK) {
        json_decref(rows);
        json_decref(heads);
        json_decref(compared);
        return status;
    }
    measure_heads_answer(job, heads);
    json_object_set_new(job->session->answer, "rows", rows);
    measure_check_answer(job);
    if (job->o->compare)
        measure_compare_answer(job, compared);
    else
        json_decref(compared);
    json_object_set_new(json_object_get(job->session->answer, "provenance"), "seconds",
                        cli_real(seconds));
    if (job->session->common.verbose)
        fprintf(stderr, "esscher measure: %.3g s, %.3g GF/s\n", seconds,
                1e-9 * (job->cost.flops - job->tokens.flops) / seconds);
    return ES_OK;
}

static es_status run(cli_session *session, void *opts, es_error *err)
{
    const measure_options *o = opts;
    measure_job job = {.session = session,
                       .o = o,
                       .paths = {o->paths[0], o->paths[1], o->paths[2], o->compare},
                       .keeps_output = o->out || o->compare};
    es_status status = check_options(session, o, err);
    /* Refuse existing outputs before looking at the inputs: the cheapest mistake first. */
    if (status == ES_OK && o->out)
        status = cli_target_check(o->out, o->force, err);
    if (status == ES_OK && o->per_query)
        status = cli_target_check(o->per_query, o->force, err);
    if (status == ES_OK)
        status = measure_inspect(&job, err);
    if (status != ES_OK)
        return status;
    describe(&job);
    if (session->common.dry_run)
        return cli_cost_answer(session, &job.cost, err);
    status = cli_cost_admit(session, &job.cost, err);
    if (status == ES_OK)
        status = compute(&job, err);
    free_results(&job);
    return status;
}

static const char *const examples[] = {
    "esscher measure --q Q.npy --k K.npy --v V.npy",
    "esscher measure --q Q.npy --k K.npy --v V.npy --prefixes 1e3..3e4*12 --json",
    "esscher measure --q Q.npy --k K.npy --v V.npy --compare Y.npy --tolerance 1e-5",
    "esscher measure --tokens X.npy --Wq Wq.npy --Wk Wk.npy --Wv Wv.npy --json", NULL};

const cli_command cli_measure = {
    .name = "measure",
    .summary = "attention statistics of Q, K, V in files; an oracle for other kernels",
    .usage = "(--q Q.npy --k K.npy --v V.npy | --tokens X.npy) [options]",
    .about =
        "Computes exact softmax attention of every query against every key, streamed, and reports "
        "per head, score scale and prefix of the keys: entropy, effective number of keys, largest "
        "weight, log-sum-exp, mean and covariance of the outputs; and per head the horizon that "
        "covariances of queries and keys imply, with reach and coupling where --tokens are given. "
        "Some queries are computed again "
        "in higher precision, so that the accuracy of the run is measured and not assumed.\n\n"
        "Grids are numbers, lists 64,128,256 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_COMPUTE,
    .defaults = &defaults,
    .size = sizeof(measure_options),
    .views = views,
    .run = run,
};
