/* esscher tails : are real tokens as light-tailed as the theory asks? */
#include "tails.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "input.h"
#include "pool_options.h"
#include "run_file.h"
#include "talk.h"

typedef struct tails_options {
    cli_pool_options pool;
    const char *tokens;
    int64_t principal, random, queries, draws;
    cli_run_options run;
} tails_options;

static const tails_options defaults = {
    .pool = {.special = -1, .store = -1}, .principal = 8, .random = 8, .queries = 4, .draws = 32};

static const cli_option options[] = {
    CLI_POOL_OPTIONS(tails_options, pool),
    {"tokens", 0, CLI_STRING, "FILE",
     ".npy file (n, d) of tokens of any origin, instead of a model and a text",
     .field = offsetof(tails_options, tokens)},
    {"principal", 0, CLI_WHOLE, "P", "leading principal components (default: 8)",
     .field = offsetof(tails_options, principal), .min = 1, .max = 4096},
    {"random", 0, CLI_WHOLE, "R", "random directions, for comparison (default: 8)",
     .field = offsetof(tails_options, random), .min = 1, .max = 4096},
    {"queries", 0, CLI_WHOLE, "M", "tokens whose scores are looked at, for each head (default: 4)",
     .field = offsetof(tails_options, queries), .min = 1, .max = 4096},
    {"draws", 0, CLI_WHOLE, "R", "Gaussian samples a control is made of (default: 32)",
     .field = offsetof(tails_options, draws), .min = 4, .max = 65536},
    CLI_RUN_OPTIONS(tails_options, run),
    {0}};

static const cli_table *const views[] = {&cli_cost_table, &tails_rows_table, &tails_kinds_table,
                                         &tails_verdicts_table, NULL};

/* What is looked at: layers of pools, or one matrix. */
typedef struct tails_job {
    cli_session *session;
    es_tails_spec spec;
    const cli_pools *pools; /* NULL: spec.tokens */
    int64_t layers, n_domains;
    es_tails_control gaussian; /* of so many tokens, once it is known; 0: not yet */
    int64_t gaussian_tokens;
} tails_job;

/* ---- measuring ---- */

static int64_t tokens_of(const tails_job *job)
{
    return job->spec.pool ? es_pool_about(job->spec.pool).tokens : job->spec.tokens->rows;
}

static es_status tails_one(tails_job *job, const cli_run_file *file, int64_t stage, int64_t domain,
                           int64_t layer, es_error *err)
{
    const int64_t cell = domain * job->layers + layer;
    const char *name = NULL;
    bool done;
    if (job->pools) {
        job->spec.pool = job->pools->domains[domain].pool;
        if (job->n_domains > 1)
            name = job->pools->domains[domain].name;
    }
    es_tails_row *rows = cli_alloc_array((size_t)es_tails_rows(&job->spec), sizeof *rows);
    job->session->progress.part = (double)cell;
    es_status status = cli_run_find(file, stage, cell, (double *)rows, &done, err);
    if (status == ES_OK && !done) {
        /* texts of a domain may be a special token shorter than those of another */
        job->spec.gaussian = job->gaussian_tokens == tokens_of(job) ? &job->gaussian : NULL;
        status = es_tails_measure(&job->spec, layer, rows, err);
        if (status == ES_OK)
            status = cli_run_keep(file, stage, cell, (const double *)rows, err);
        if (status == ES_E_INTERRUPTED)
            status = cli_run_interrupted(file, cell, job->layers * job->n_domains, "layers", err);
    }
    if (status == ES_OK) { /* the first direction is compared with numbers, as all but norms are */
        job->gaussian = rows[0].control;
        job->gaussian_tokens = tokens_of(job);
    }
    if (status == ES_OK)
        tails_answer_layer(job->session, &job->spec, name, job->pools ? layer : -1, rows);
    free(rows);
    return status;
}

/* Columns of a cell: the members of es_tails_row, in order. */
static const char *const numbers[] = {
    "count",       "mean",          "variance", "kurtosis",     "proxy",      "tilt",
    "psi2",        "hill",          "hill_se",  "hill_half",    "hill_twice", "kurtosis_control",
    "kurtosis_sd", "proxy_control", "proxy_sd", "psi2_control", "psi2_sd",    "hill_control",
    "hill_sd"};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };
_Static_assert(sizeof(es_tails_row) == NUMBERS * sizeof(double), "a row is its numbers");

static es_status tails_all(tails_job *job, const tails_options *o, es_error *err)
{
    cli_run_file file;
    int64_t stage = 0;
    if (job->pools)
        job->spec.pool = job->pools->domains[0].pool;
    es_status status = cli_run_open(job->session, o, &o->run, &file, err);
    if (status == ES_OK)
        status =
            cli_run_stage(&file, "layer", es_tails_rows(&job->spec), NUMBERS, numbers, &stage, err);
    job->session->progress.parts = (double)(job->layers * job->n_domains);
    json_object_set_new(job->session->answer, "rows", json_array());
    json_object_set_new(job->session->answer, "kinds", json_array());
    for (int64_t d = 0; d < job->n_domains; d++)
        for (int64_t l = 0; l < job->layers && status == ES_OK; l++)
            status = tails_one(job, &file, stage, d, l, err);
    if (status == ES_OK)
        tails_answer_verdicts(job->session);
    return cli_run_close(&file, job->session, status, err);
}

/* ---- what it takes ---- */

/* The budget of the library: what --max-memory leaves beside `others`, which it does not count. */
static void set_budget(cli_session *session, double others)
{
    const double limit = (double)session->common.max_memory;
    if (limit > 0.0)
        session->budget.limit = limit > others ? (size_t)(limit - others) : 1;
}

/* Admits the run, or answers a dry one: then *dry. */
static es_status admit(const tails_job *job, int64_t tokens, int64_t dim, int64_t heads, bool *dry,
                       es_error *err)
{
    cli_session *session = job->session;
    const es_pool_cost none = {0}, *pools = job->pools ? &job->pools->cost : &none;
    const double layers = (double)(job->layers * job->n_domains);
    const double input = job->pools ? 0.0 : 8.0 * (double)tokens * (double)dim;
    const double output =
        2048.0 * layers * (double)es_tails_cost_of(&job->spec, tokens, dim, heads).rows;
    const double others = input + output + pools->held_bytes;
    set_budget(session, others); /* it decides what a layer takes; the model is in it already */
    const es_tails_cost layer = es_tails_cost_of(&job->spec, tokens, dim, heads);
    const cli_cost cost = {.flops = pools->flops + layers * layer.flops,
                           .disk_bytes = pools->disk_bytes,
                           .input_bytes = input,
                           .output_bytes = output,
                           .work_bytes = (double)session->budget.used + pools->held_bytes +
                                         fmax(layer.bytes, (double)pools->bytes)};
    *dry = session->common.dry_run;
    if (*dry)
        return cli_cost_answer(session, &cost, err);
    const es_status status = cli_cost_admit(session, &cost, err);
    set_budget(session, others);
    return status;
}

/* ---- all together ---- */

/* Tokens of a file are no pool, and take none of the options that make one. */
static es_status refuse_pool(const cli_pool_options *o, es_error *err)
{
    const struct {
        const char *name;
        bool given;
    } of_pools[] = {{"--pool", o->tokens > 0},      {"--pool-dir", o->folder},
                    {"--special", o->special >= 0}, {"--repeat", o->repeat},
                    {"--store", o->store >= 0},     {"--allow-trailing", o->allow_trailing}};
    if (o->model || o->texts.count || o->domains.count)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "tails.options", "one or the other",
                        "--tokens goes without a model and texts");
    for (size_t i = 0; i < sizeof of_pools / sizeof of_pools[0]; i++)
        if (of_pools[i].given)
            return cli_fail(err, ES_E_ARGUMENT, NULL, "tails.options",
                            "leave it out: tokens of a file are taken as they are",
                            "%s is for a model and texts, not for --tokens", of_pools[i].name);
    return ES_OK;
}

static es_status of_tokens(tails_job *job, tails_options *o, es_error *err)
{
    cli_input x;
    bool dry;
    es_status status = refuse_pool(&o->pool, err);
    if (status != ES_OK)
        return status;
    o->pool.special = o->pool.store = 0; /* there is no pool */
    status = cli_input_read(job->session, "tokens", o->tokens, -1, -1, &x, err);
    if (status != ES_OK)
        return status;
    const es_view view = es_view_f64(x.data, x.rows, x.cols);
    job->spec.tokens = &view;
    job->layers = job->n_domains = 1;
    status = admit(job, x.rows, x.cols, 0, &dry, err);
    if (status == ES_OK && !dry)
        status = tails_all(job, o, err);
    cli_input_free(&x);
    return status;
}

static es_status of_pools(tails_job *job, tails_options *o, es_error *err)
{
    cli_pools pools;
    bool dry = false;
    if (!o->pool.model)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "tails.options",
                        "--model MODEL --text FILE, or --tokens FILE", "there are no tokens");
    o->pool.special = o->pool.special < 0 ? 0 : o->pool.special; /* keep them */
    es_status status = cli_pools_open(job->session, &o->pool, &pools, err);
    if (status == ES_OK) {
        job->pools = &pools;
        job->spec.model = pools.model;
        job->layers = pools.config->layers;
        job->n_domains = pools.n_domains;
        status =
            admit(job, pools.cost.tokens, pools.config->hidden, pools.config->heads, &dry, err);
    }
    if (status == ES_OK && !dry)
        status = cli_pools_build(&pools, err);
    if (status == ES_OK && !dry)
        status = tails_all(job, o, err);
    cli_pools_close(&pools);
    return status;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    tails_options *o = given;
    tails_job job = {.session = session,
                     .spec = {.principal = o->principal,
                              .random = o->random,
                              .queries = o->queries,
                              .draws = o->draws,
                              .seed = session->common.seed,
                              .exec = &session->exec}};
    return o->tokens ? of_tokens(&job, o, err) : of_pools(&job, o, err);
}

static const char *const examples[] = {
    "esscher tails --model models/minilm --text alice.txt",
    "esscher tails --model models/minilm --text alice.txt --pool 20480 --out tails.run",
    "esscher tails --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher tails --tokens X.npy --csv", NULL};

const cli_command cli_tails = {
    .name = "tails",
    .summary = "are real tokens as light-tailed as the theory asks?",
    .usage = "(--model MODEL --text FILE | --tokens FILE) [options]",
    .about =
        "The theory asks for sub-Gaussian tokens: a variance proxy that bounds their log-MGF in "
        "every direction. For every layer of a BERT checkpoint on real text, or for tokens of "
        "your own, this measures the proxy, the psi2 norm and Hill's tail index in the directions "
        "that matter: principal components, the direction to which each head is most sensitive, "
        "scores of real queries, norms, and random directions for comparison. A finite sample "
        "bends all of them, so each stands beside a control, the same numbers of Gaussian samples "
        "of the same size, and the verdict follows from the distance between the two.\n\n"
        "Layers and heads count from 0.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA | CLI_TAKES_MEMORY |
              CLI_TAKES_DRY_RUN | CLI_TAKES_PROGRESS | CLI_TAKES_SEED,
    .defaults = &defaults,
    .size = sizeof(tails_options),
    .views = views,
    .run = run,
};
