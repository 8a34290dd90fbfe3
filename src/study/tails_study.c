/* tails_study.c : are real tokens as light-tailed as the theory asks? */
#include "study/tails_study.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

#define FIELD(member) .field = offsetof(tails_params, member)
static const es_param params[] = {
    ES_POOL_PARAMS(tails_params, pool),
    {"tokens", 0, ES_PARAM_FILE, "FILE",
     ".npy file (n, d) of tokens of any origin, instead of a model and a text", FIELD(tokens)},
    {"principal", 0, ES_PARAM_WHOLE, "P", "leading principal components", FIELD(principal),
     .min = 1, .max = 4096, .standard = "8"},
    {"random", 0, ES_PARAM_WHOLE, "R", "random directions, for comparison", FIELD(random), .min = 1,
     .max = 4096, .standard = "8"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "tokens whose scores are looked at, for each head",
     FIELD(queries), .min = 1, .max = 4096, .standard = "4", .unit = "tokens", .was = "queries"},
    {"draws", 0, ES_PARAM_WHOLE, "R", "Gaussian samples a control is made of", FIELD(draws),
     .min = 4, .max = 65536, .standard = "32"},
    {0}};

/* ---- what was asked ---- */

/* Tokens of a file are no pool, and take none of the parameters that make one. */
static es_status refuse_pool(const es_job *job, const es_pool_params *p, es_error *err)
{
    static const char *const of_pools[] = {"pool",   "pool-dir", "special",
                                           "repeat", "store",    "allow-trailing"};
    if (p->model || p->texts.count || p->domains.count)
        return es_refuse(err, "tails.options", "one or the other",
                         "--tokens goes without a model and texts");
    for (size_t i = 0; i < sizeof of_pools / sizeof of_pools[0]; i++)
        if (es_params_given(job->given, of_pools[i]))
            return es_refuse(err, "tails.options",
                             "leave it out: tokens of a file are taken as they are",
                             "--%s is for a model and texts, not for --tokens", of_pools[i]);
    return ES_OK;
}

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

static es_status open_pools(es_job *job, tails_params *p, tails_state *s, es_error *err)
{
    if (!p->pool.model)
        return es_refuse(err, "tails.options", "--model MODEL --text FILE, or --tokens FILE",
                         "there are no tokens");
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    s->spec.model = s->pools.model;
    s->layers = s->pools.config->layers;
    s->n_domains = s->pools.n_domains;
    s->count = s->pools.cost.tokens;
    s->dim = s->pools.config->hidden;
    s->heads = s->pools.config->heads;
    return ES_OK;
}

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
    return p->tokens ? open_tokens(job, p, s, err) : open_pools(job, p, s, err);
}

/* ---- what it takes ---- */

/* What the study takes from the job's budget after this, beside what a layer takes: its cells, room
 * for one of them, the summary's, and what the driver notes down. */
static double room_of(const tails_state *s, double rows)
{
    const double layers = (double)(s->layers * s->n_domains);
    return 8.0 * TAILS_NUMBERS * rows * (layers + 1.0) + 32.0 * rows + 262144.0;
}

/* How many directions are projected at a time depends on what the budget leaves, so the layer's
 * part of it is set before it is asked for. The driver sets it anew for the run, when the cells
 * are made and counted, and es_pools_build() takes off what pools hold. */
static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const tails_state *s = job->state;
    const es_pool_cost *pools = &s->pools.cost; /* of tokens of a file: nothing */
    es_budget *budget = job->exec.budget;
    es_tails_spec spec = s->spec;
    spec.exec = &job->exec;
    const double layers = (double)(s->layers * s->n_domains), limit = (double)job->max_memory;
    const double rows = (double)es_tails_cost_of(&spec, s->count, s->dim, s->heads).rows;
    const double output = 2048.0 * layers * rows, room = room_of(s, rows);
    const double input = 8.0 * (double)s->tokens.rows * (double)s->tokens.cols;
    const double others = output + room + pools->held_bytes;
    (void)err;
    if (budget && limit > 0.0)
        budget->limit = limit > others ? (size_t)(limit - others) : 1;
    const es_tails_cost layer = es_tails_cost_of(&spec, s->count, s->dim, s->heads);
    const double used = budget ? (double)budget->used - input : 0.0; /* tokens are in it */
    *out = (es_cost){.flops = pools->flops + layers * layer.flops,
                     .disk_bytes = pools->disk_bytes,
                     .input_bytes = input,
                     .output_bytes = output,
                     .work_bytes =
                         used + room + pools->held_bytes + fmax(layer.bytes, (double)pools->bytes)};
    return ES_OK;
}

/* ---- layers ---- */

/* A number of a direction: its name in run files, and where it is. */
#define NUMBER(name, member)                                                                       \
    {                                                                                              \
        name, offsetof(es_tails_row, member)                                                       \
    }
static const struct {
    const char *name;
    size_t at;
} numbers[TAILS_NUMBERS] = {NUMBER("count", sample.count),
                            NUMBER("mean", sample.mean),
                            NUMBER("variance", sample.variance),
                            NUMBER("kurtosis", sample.kurtosis),
                            NUMBER("proxy", sample.proxy),
                            NUMBER("tilt", sample.tilt),
                            NUMBER("psi2", sample.psi2),
                            NUMBER("hill", sample.hill),
                            NUMBER("hill_se", sample.hill_se),
                            NUMBER("hill_half", sample.hill_half),
                            NUMBER("hill_twice", sample.hill_twice),
                            NUMBER("kurtosis_control", control.kurtosis.mean),
                            NUMBER("kurtosis_sd", control.kurtosis.sd),
                            NUMBER("proxy_control", control.proxy.mean),
                            NUMBER("proxy_sd", control.proxy.sd),
                            NUMBER("psi2_control", control.psi2.mean),
                            NUMBER("psi2_sd", control.psi2.sd),
                            NUMBER("hill_control", control.hill.mean),
                            NUMBER("hill_sd", control.hill.sd)};

static void pack(const es_tails_row *row, double *out)
{
    for (int i = 0; i < TAILS_NUMBERS; i++)
        memcpy(&out[i], (const char *)row + numbers[i].at, sizeof *out);
}

es_tails_row tails_unpack(const double *values)
{
    es_tails_row row = {0};
    for (int i = 0; i < TAILS_NUMBERS; i++)
        memcpy((char *)&row + numbers[i].at, &values[i], sizeof *values);
    return row;
}

es_tails_spec tails_spec_at(const tails_state *s, int64_t cell)
{
    es_tails_spec spec = s->spec;
    if (!s->tokens.data)
        spec.pool = s->pools.domains[cell / s->layers].pool;
    return spec;
}

/* The control depends on the number of tokens alone, which texts of one domain may have a special
 * token less of than those of another: what the cell before has drawn is drawn once. */
static es_status run_layer(es_job *job, int64_t cell, const es_exec *exec, double *out,
                           es_error *err)
{
    tails_state *s = job->state;
    es_tails_spec spec = tails_spec_at(s, cell);
    const int64_t tokens = spec.pool ? es_pool_about(spec.pool).tokens : s->count;
    spec.exec = exec;
    spec.gaussian = s->gaussian_tokens == tokens ? &s->gaussian : NULL;
    ES_TRY(es_tails_measure(&spec, cell % s->layers, s->rows, err));
    for (int64_t i = 0; i < es_tails_rows(&spec); i++)
        pack(&s->rows[i], out + i * TAILS_NUMBERS);
    s->gaussian = s->rows[0].control; /* compared with numbers, as all but norms are */
    s->gaussian_tokens = tokens;
    return ES_OK;
}

/* ---- all together ---- */

static es_status begin(es_job *job, es_error *err)
{
    tails_state *s = job->state;
    const char **columns;
    if (!s->tokens.data)
        ES_TRY(es_pools_build(job, &s->pools, err));
    es_tails_spec spec = tails_spec_at(s, 0);
    spec.exec = &job->exec;
    const int64_t rows = es_tails_rows(&spec);
    ES_TRY(es_job_array(job, rows, 1, sizeof *s->rows, &s->rows, err));
    ES_TRY(es_job_array(job, TAILS_NUMBERS, 1, sizeof *columns, &columns, err));
    for (int i = 0; i < TAILS_NUMBERS; i++)
        columns[i] = numbers[i].name;
    return es_job_stage(
        job,
        &(es_stage){.name = "layer",
                    .phase = "looking along directions",
                    .noun = "layers",
                    .cells = s->layers * s->n_domains,
                    .rows = rows,
                    .cols = TAILS_NUMBERS,
                    .columns = columns,
                    .tells = true,
                    .flops = es_tails_cost_of(&spec, s->count, s->dim, s->heads).flops,
                    .run = run_layer},
        err);
}

static void close_study(es_job *job) { es_pools_close(&((tails_state *)job->state)->pools); }

static const char *const examples[] = {
    "esscher tails --model models/minilm --text alice.txt",
    "esscher tails --model models/minilm --text alice.txt --pool 20480 --out tails.run",
    "esscher tails --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher tails --tokens X.npy --csv", NULL};

const es_study es_study_tails = {
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
    .params = params,
    .size = sizeof(tails_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(tails_state),
    .open = open_study,
    .cost = cost_of,
    .begin = begin,
    .summarise = tails_summarise,
    .close = close_study,
};
