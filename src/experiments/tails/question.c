/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : are real tokens as light-tailed as the theory asks? Parameters, help, cost, and a
 * layer as a cell. There are two sources of tokens, layers of pools or one file, chosen once in
 * open_study(). */
#include <math.h>

#include "base/error.h"
#include "experiments/tails/tails.h"

#define FIELD(member) .field = offsetof(tails_params, member)
static const es_param params[] = {
    ES_POOL_PARAMS(tails_params, pool),
    {"tokens", 0, ES_PARAM_FILE, "FILE",
     ".npy file (n, d) of tokens of any origin, instead of a model and a text", FIELD(tokens)},
    {"principal", 0, ES_PARAM_WHOLE, "P", "leading principal components to test", FIELD(principal),
     .min = 1, .max = 4096, .default_value = "8"},
    {"random", 0, ES_PARAM_WHOLE, "R", "random directions to test, for comparison", FIELD(random),
     .min = 1, .max = 4096, .default_value = "8"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "tokens whose scores are measured, for each head",
     FIELD(queries), .min = 1, .max = 4096, .default_value = "4", .unit = "tokens",
     .renamed_from = "queries"},
    {"control", 0, ES_PARAM_WHOLE, "R", "number of Gaussian samples of a control", FIELD(draws),
     .min = 4, .max = 65536, .default_value = "64", .renamed_from = "draws"},
    {0}};

/* ---- sources of tokens ---- */

/* Refuses parameters of pools, which tokens of a file would silently ignore. */
static es_status refuse_pool(const es_job *job, const es_pool_params *p, es_error *err)
{
    static const char *const of_pools[] = {"pool",   "pool-dir", "special",       "blocks-from",
                                           "repeat", "store",    "allow-trailing"};
    if (p->model || p->texts.count || p->domains.count)
        return es_refuse(err, "tails.options", "give one or the other",
                         "--tokens is instead of a model and texts");
    for (size_t i = 0; i < sizeof of_pools / sizeof of_pools[0]; i++)
        if (es_params_given(job->given, of_pools[i]))
            return es_refuse(err, "tails.options",
                             "leave it out: tokens of a file are taken as they are",
                             "--%s is for a model and texts, not for --tokens", of_pools[i]);
    return ES_OK;
}

/* Reads the file: one layer of one domain, without heads. */
static es_status open_tokens(es_job *job, tails_params *p, tails_state *s, es_error *err)
{
    ES_TRY(refuse_pool(job, &p->pool, err));
    ES_TRY(es_job_matrix(job, "tokens", p->tokens, -1, -1, &s->tokens, err));
    s->spec.tokens = &s->tokens.view;
    s->layers = s->n_domains = 1;
    s->count = s->tokens.rows;
    s->dim = s->tokens.cols;
    return ES_OK;
}

/* Does nothing: tokens of a file are already in memory. */
static es_status begin_tokens(es_job *job, tails_state *s, es_error *err)
{
    (void)job;
    (void)s;
    (void)err;
    return ES_OK;
}

/* Returns the number of tokens in the file. */
static int64_t tokens_of_file(const tails_state *s, int64_t cell, es_tails_spec *spec)
{
    (void)cell;
    (void)spec;
    return s->count;
}

static const tails_source file_source = {open_tokens, begin_tokens, tokens_of_file};

/* Returns the operations of the directions of all layers and domains. */
static double directions_work(const es_job *job, const es_pools *pools, int64_t tokens,
                              int64_t block)
{
    const tails_state *s = job->state;
    const es_model_config *c = pools->config;
    es_tails_spec spec = s->spec;
    (void)block;
    spec.exec = &job->exec;
    return (double)(pools->n_domains * c->layers) *
           es_tails_cost_of(&spec, tokens, c->hidden, c->heads).flops;
}

/* Opens model and texts; pools are built in begin_pools(). */
static es_status open_pools(es_job *job, tails_params *p, tails_state *s, es_error *err)
{
    if (!p->pool.model)
        return es_refuse(err, "tails.options", "--model MODEL --text FILE, or --tokens FILE",
                         "missing --model or --tokens");
    p->pool.work = directions_work;
    p->pool.streams = true;
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    s->spec.model = s->pools.model;
    s->layers = s->pools.config->layers;
    s->n_domains = s->pools.n_domains;
    s->count = s->pools.cost.tokens;
    s->dim = s->pools.config->hidden;
    s->heads = s->pools.config->heads;
    return ES_OK;
}

/* Builds the pools from the text. */
static es_status begin_pools(es_job *job, tails_state *s, es_error *err)
{
    return es_pools_build(job, &s->pools, err);
}

/* Sets the pool of a cell's domain and returns its number of tokens. */
static int64_t tokens_of_pool(const tails_state *s, int64_t cell, es_tails_spec *spec)
{
    spec->pool = s->pools.domains[cell / s->layers].pool;
    return es_pool_about(spec->pool).tokens;
}

static const tails_source pool_source = {open_pools, begin_pools, tokens_of_pool};

/* Opens the study for tokens of a file or of a model's layers. */
static es_status open_study(es_job *job, es_error *err)
{
    tails_params *p = job->params;
    tails_state *s = job->state;
    s->pools.scratch.fd = -1;
    s->spec = (es_tails_spec){.principal = p->principal,
                              .random = p->random,
                              .queries = p->queries,
                              .draws = p->draws,
                              .seed = job->seed};
    s->source = p->tokens ? &file_source : &pool_source;
    return s->source->open(job, p, s, err);
}

/* ---- cost ---- */

/* Memory that exists once, beside cells and what a layer takes: one cell, the rows of a layer and
 * the p-values of the summary. */
static double scratch_of(const tails_state *s, double rows)
{
    const double layers = (double)(s->layers * s->n_domains);
    const double tests = 4.0 * layers; /* two p of each direction, as they are and corrected */
    return rows * ((double)sizeof(tails_cell) + 8.0 * tests) +
           ((double)sizeof(es_tails_row) + 64.0) * rows + 262144.0;
}

/* The number of directions that are projected together depends on the memory that is left, so the
 * limit is set before the cost of a layer is computed. The driver sets it again for the run, and
 * es_pools_build() subtracts what pools hold. */
static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const tails_state *s = job->state;
    const es_pool_cost *pools = &s->pools.cost; /* of tokens of a file: nothing */
    es_mem_limit *budget = job->exec.budget;
    es_tails_spec spec = s->spec;
    spec.exec = &job->exec;
    const double layers = (double)(s->layers * s->n_domains), limit = (double)job->max_memory;
    const double rows = (double)es_tails_cost_of(&spec, s->count, s->dim, s->heads).rows;
    const double output = 2048.0 * layers * rows, scratch = scratch_of(s, rows);
    const double cells = layers * (rows * (double)sizeof(tails_cell) + 8.0); /* the driver's */
    const double others = output + cells + scratch + pools->held_bytes;
    (void)err;
    if (budget && limit > 0.0)
        budget->limit = limit > others ? (size_t)(limit - others) : 1;
    const es_tails_cost layer = es_tails_cost_of(&spec, s->count, s->dim, s->heads);
    *out = (es_cost){.flops = pools->flops + layers * layer.flops,
                     .disk_bytes = pools->disk_bytes,
                     .output_bytes = output,
                     .work_bytes = cells + scratch + pools->held_bytes +
                                   fmax(layer.bytes, (double)pools->bytes)};
    return ES_OK;
}

/* ---- layers ---- */

static const es_cell_field cell_fields[] = {ES_FIELD(tails_cell, count),
                                            ES_FIELD(tails_cell, mean),
                                            ES_FIELD(tails_cell, variance),
                                            ES_FIELD(tails_cell, kurtosis),
                                            ES_FIELD(tails_cell, proxy),
                                            ES_FIELD(tails_cell, tilt),
                                            ES_FIELD(tails_cell, psi2),
                                            ES_FIELD(tails_cell, hill),
                                            ES_FIELD(tails_cell, hill_half),
                                            ES_FIELD(tails_cell, hill_twice),
                                            ES_FIELD(tails_cell, kurtosis_control),
                                            ES_FIELD(tails_cell, kurtosis_sd),
                                            ES_FIELD(tails_cell, proxy_control),
                                            ES_FIELD(tails_cell, proxy_sd),
                                            ES_FIELD(tails_cell, psi2_control),
                                            ES_FIELD(tails_cell, psi2_sd),
                                            ES_FIELD(tails_cell, hill_control),
                                            ES_FIELD(tails_cell, hill_sd),
                                            ES_FIELD(tails_cell, design),
                                            ES_FIELD(tails_cell, p_heavier),
                                            ES_FIELD(tails_cell, p_lighter),
                                            {0}};

/* A direction as run files have it, without the order statistics of its control. */
static tails_cell cell_of(const es_tails_row *r)
{
    const es_tails *s = &r->sample;
    const es_tails_control *c = &r->control;
    return (tails_cell){.count = s->count,
                        .mean = s->mean,
                        .variance = s->variance,
                        .kurtosis = s->kurtosis,
                        .proxy = s->proxy,
                        .tilt = s->tilt,
                        .psi2 = s->psi2,
                        .hill = {s->hill, s->hill_se},
                        .hill_half = s->hill_half,
                        .hill_twice = s->hill_twice,
                        .kurtosis_control = c->kurtosis.mean,
                        .kurtosis_sd = c->kurtosis.sd,
                        .proxy_control = c->proxy.mean,
                        .proxy_sd = c->proxy.sd,
                        .psi2_control = c->psi2.mean,
                        .psi2_sd = c->psi2.sd,
                        .hill_control = c->hill.mean,
                        .hill_sd = c->hill.sd,
                        .design = s->design,
                        .p_heavier = r->p.heavier,
                        .p_lighter = r->p.lighter};
}

es_tails_row tails_row_of(const tails_cell *c)
{
    return (es_tails_row){.sample = {.count = c->count,
                                     .mean = c->mean,
                                     .variance = c->variance,
                                     .kurtosis = c->kurtosis,
                                     .proxy = c->proxy,
                                     .tilt = c->tilt,
                                     .psi2 = c->psi2,
                                     .hill = c->hill.value,
                                     .hill_se = c->hill.se,
                                     .hill_half = c->hill_half,
                                     .hill_twice = c->hill_twice,
                                     .design = c->design},
                          .control = {.kurtosis = {c->kurtosis_control, c->kurtosis_sd},
                                      .proxy = {c->proxy_control, c->proxy_sd},
                                      .psi2 = {c->psi2_control, c->psi2_sd},
                                      .hill = {c->hill_control, c->hill_sd}},
                          .p = {c->p_heavier, c->p_lighter}};
}

es_tails_spec tails_spec_at(const tails_state *s, int64_t cell)
{
    es_tails_spec spec = s->spec;
    s->source->tokens_of(s, cell, &spec);
    return spec;
}

/* The control depends on the number of tokens alone, which may differ by a special token between
 * domains: it is drawn again only where that number changes. */
static es_status run_layer(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err)
{
    tails_state *s = job->state;
    tails_cell *to = out;
    es_tails_spec spec = s->spec;
    const int64_t tokens = s->source->tokens_of(s, cell, &spec);
    spec.exec = exec;
    spec.gaussian = s->gaussian_tokens == tokens ? &s->gaussian : NULL;
    ES_TRY(es_tails_measure(&spec, cell % s->layers, s->rows, err));
    for (int64_t i = 0; i < es_tails_rows(&spec); i++)
        to[i] = cell_of(&s->rows[i]);
    s->gaussian = s->rows[0].control; /* that of all directions but norms */
    s->gaussian_tokens = tokens;
    return ES_OK;
}

/* Prepares the tokens and adds the stage, whose rows depend on the number of heads and
 * directions. */
static es_status begin(es_job *job, es_error *err)
{
    tails_state *s = job->state;
    ES_TRY(s->source->begin(job, s, err));
    es_tails_spec spec = tails_spec_at(s, 0);
    spec.exec = &job->exec;
    const int64_t rows = es_tails_rows(&spec);
    ES_TRY(ES_JOB_NEW(job, s->rows, rows, err));
    const es_stage stage = {.name = "layer",
                            .phase = "measuring directions",
                            .noun = "layers",
                            .cells = s->layers * s->n_domains,
                            .rows = rows,
                            ES_RECORD(tails_cell, cell_fields),
                            .reports_progress = true,
                            .flops = es_tails_cost_of(&spec, s->count, s->dim, s->heads).flops,
                            .run = run_layer};
    return es_job_stage(job, &stage, err);
}

/* Frees the pools. */
static void close_study(es_job *job) { es_pools_close(&((tails_state *)job->state)->pools); }

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher tails --model models/minilm --text alice.txt",
    "esscher tails --model models/minilm --text alice.txt --pool 20480 --out tails.run",
    "esscher tails --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher tails --tokens X.npy --csv", NULL};

const es_study es_study_tails = {
    "tails",
    .summary = "whether real tokens are as light-tailed as the theory assumes",
    .group = ES_GROUP_MODEL,
    .main_options = "model text domain tokens pool pool-dir principal random",
    .usage = "(--model MODEL --text FILE | --tokens FILE) [options]",
    .about =
        "Tests whether hidden states have heavier tails than a Gaussian law: more values far from "
        "the mean than it has. The papers' bounds on convergence assume that they do not "
        "(sub-Gaussian tokens [cited]); in directions with heavier tails, these bounds need not "
        "hold.\n\n"
        "For every layer of a model on real text, or for your own tokens, it looks at the "
        "directions that matter: principal components, the direction to which each head is most "
        "sensitive, scores of real queries, norms, and random directions for comparison. In each "
        "it measures three numbers. The variance proxy is the smallest variance of a Gaussian law "
        "whose exponential moments E exp(t x) are nowhere smaller than those of the tokens; it is "
        "given in units of their own variance, and 1 is Gaussian. The psi2 norm and Hill's tail "
        "index are two more measures of tails. A finite sample biases all three, so each is "
        "compared with a control, the same number for Gaussian samples of the same size. The "
        "verdict follows from the distance between the two, with p-values corrected for the number "
        "of directions and for the dependence of neighbouring tokens.\n\n"
        "Layers and heads count from 0.",
    .examples = examples,
    .params = params,
    .size = sizeof(tails_params),
    .takes = ES_TAKES_HEADS | ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(tails_state),
    .open = open_study,
    .cost = cost_of,
    .begin = begin,
    .summarise = tails_summarise,
    .close = close_study};
