/* probe_study.c : every head of a BERT checkpoint on real text. */
#include "study/probe_study.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"

static const char *const draw_choices[] = {"with", "without", NULL};

#define FIELD(member) .field = offsetof(probe_params, member)
static const es_param params[] = {
    ES_POOL_PARAMS(probe_params, pool),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens that are drawn", FIELD(sizes), .min = 2,
     .max = 1e7, .increasing = true, .otherwise = "100..10000*7, at most half of the pool",
     .unit = "tokens"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws", FIELD(replicates), .min = 2,
     .max = 65536, .standard = "8"},
    {"control", 0, ES_PARAM_WHOLE, "R",
     "draws of Gaussian tokens of the same covariance, to compare with; 0: none", FIELD(control),
     .min = 0, .max = 65536, .standard = "4"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "tokens of the pool whose outputs are compared",
     FIELD(queries), .min = 2, .max = 1e6, .standard = "1024", .unit = "tokens", .was = "queries"},
    {"draw", 0, ES_PARAM_CHOICE, "HOW", "tokens with or without replacement", FIELD(draw),
     .choices = draw_choices, .standard = "with"},
    {0}};

/* ---- what was asked ---- */

static es_status complete(es_job *job, const probe_params *p, int64_t tokens, es_error *err)
{
    char text[64];
    if (p->sizes.count)
        return ES_OK;
    const int64_t most = tokens / 2 < 10000 ? tokens / 2 : 10000;
    snprintf(text, sizeof text, "%d..%lld*7", most > 200 ? 100 : 4,
             (long long)(most < 16 ? 16 : most));
    return es_params_set(job->given, "n", text, err);
}

static es_status open_study(es_job *job, es_error *err)
{
    probe_params *p = job->params;
    probe_state *s = job->state;
    s->pools.scratch.fd = -1;
    if (p->control == 1)
        return es_refuse(err, "probe.control", "0, or 2 and more",
                         "one draw of Gaussian tokens has no standard error");
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    ES_TRY(complete(job, p, s->pools.cost.tokens, err));
    s->layers = s->pools.config->layers;
    s->heads = s->pools.config->heads;
    s->spec = (es_probe_spec){.model = s->pools.model,
                              .sizes = p->sizes.counts,
                              .n_sizes = p->sizes.count,
                              .queries = p->queries < s->pools.cost.tokens ? p->queries
                                                                           : s->pools.cost.tokens,
                              .without_replacement = p->draw == 1,
                              .seed = job->seed};
    es_answer_text(job->answer, "draw", draw_choices[p->draw]);
    es_answer_count(job->answer, "queries", s->spec.queries);
    es_answer_count(job->answer, "replicates", p->replicates);
    es_answer_count(job->answer, "control", p->control);
    return es_probe_cost_of(&s->spec, s->pools.cost.tokens, &s->cost, err);
}

static int64_t places_of(const probe_state *s) { return s->pools.n_domains * s->layers; }

/* The pool is on disk; its checksums are in memory, and so are the model and all cells: of a limit
 * a covariance and the outputs of all queries, in f64. */
static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_pool_cost *pools = &s->pools.cost;
    const double places = (double)places_of(s), hidden = (double)s->pools.config->hidden;
    const double points = (double)(s->heads * s->spec.n_sizes);
    const double R = (double)p->replicates, C = (double)p->control;
    const double limit = hidden * (1.0 + hidden + (double)s->spec.queries) + 16.0 * points;
    const double draws = R * PROBE_COLUMNS * (points + (double)s->spec.n_sizes);
    const double cells = 8.0 * places * (limit + draws + C * PROBE_ERRORS * points);
    (void)err;
    *out = (es_cost){.flops = pools->flops +
                              places * (s->cost.limit_flops + s->cost.open_flops +
                                        R * s->cost.replicate_flops + C * s->cost.control_flops),
                     .disk_bytes = pools->disk_bytes,
                     .output_bytes = 512.0 * places * points,
                     .work_bytes = (job->exec.budget ? (double)job->exec.budget->used : 0.0) +
                                   pools->held_bytes +
                                   fmax((double)s->cost.bytes, (double)pools->bytes) + cells};
    return ES_OK;
}

/* ---- layers ---- */

static es_probe_spec spec_at(const probe_state *s, int64_t place, const es_exec *exec)
{
    es_probe_spec spec = s->spec;
    spec.pool = s->pools.domains[place / s->layers].pool;
    spec.exec = exec;
    return spec;
}

es_status probe_open_layer(const es_job *job, int64_t place, bool draws_only, const es_exec *exec,
                           es_error *err)
{
    probe_state *s = job->state;
    s->exec = *exec;
    if (s->probe && s->place == place && s->spec.draws_only == draws_only)
        return ES_OK;
    es_probe_close(s->probe);
    s->probe = NULL;
    s->place = place;
    s->spec.draws_only = draws_only;
    const es_probe_spec spec = spec_at(s, place, &s->exec);
    return es_probe_open(&spec, place % s->layers, es_job_cell(job, PROBE_LIMIT, place), &s->probe,
                         err);
}

static es_status run_limit(es_job *job, int64_t cell, const es_exec *exec, double *out,
                           es_error *err)
{
    const probe_state *s = job->state;
    const es_probe_spec spec = spec_at(s, cell, exec);
    return es_probe_measure(&spec, cell % s->layers, out, err);
}

/* ---- draws ---- */

static void pack_errors(const es_probe_cell *cell, double *out)
{
    out[PROBE_MEAN] = cell->mean_error;
    out[PROBE_COV] = cell->cov_error;
    out[PROBE_MAP] = cell->map_error;
}

static es_status run_draw(es_job *job, int64_t cell, const es_exec *exec, double *out,
                          es_error *err)
{
    const int64_t R = ((const probe_params *)job->params)->replicates;
    probe_state *s = job->state;
    const int64_t sizes = s->spec.n_sizes, points = s->heads * sizes;
    ES_TRY(probe_open_layer(job, cell / R, true, exec, err));
    ES_TRY(es_probe_replicate(s->probe, cell % R, s->cells, s->joint, err));
    for (int64_t i = 0; i < points; i++, out += PROBE_COLUMNS) {
        pack_errors(&s->cells[i], out);
        out[PROBE_COHERENCE] = (double)NAN;
    }
    for (int64_t i = 0; i < sizes; i++, out += PROBE_COLUMNS) {
        out[PROBE_MEAN] = out[PROBE_COV] = (double)NAN;
        out[PROBE_MAP] = s->joint[i].map_error;
        out[PROBE_COHERENCE] = s->joint[i].coherence;
    }
    return ES_OK;
}

static es_status run_control(es_job *job, int64_t cell, const es_exec *exec, double *out,
                             es_error *err)
{
    const int64_t C = ((const probe_params *)job->params)->control;
    probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / C, true, exec, err));
    ES_TRY(es_probe_control(s->probe, cell % C, s->cells, err));
    for (int64_t i = 0; i < s->heads * s->spec.n_sizes; i++)
        pack_errors(&s->cells[i], out + i * PROBE_ERRORS);
    return ES_OK;
}

/* ---- all together ---- */

static es_status add_stages(es_job *job, es_error *err)
{
    static const char *const number[] = {"number"};
    static const char *const columns[PROBE_COLUMNS] = {"mean_error", "cov_error", "map_error",
                                                       "coherence"};
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_probe_spec spec = spec_at(s, 0, &job->exec);
    const int64_t sizes = s->spec.n_sizes, points = s->heads * sizes;
    es_stage stage = {.name = "limit",
                      .phase = "attending over the pool",
                      .noun = "layers",
                      .cells = places_of(s),
                      .rows = es_probe_numbers(&spec),
                      .cols = 1,
                      .columns = number,
                      .tells = true,
                      .flops = s->cost.limit_flops,
                      .run = run_limit};
    ES_TRY(es_job_stage(job, &stage, err));
    stage = (es_stage){.name = "draw",
                       .phase = "drawing tokens",
                       .noun = "draws",
                       .cells = places_of(s) * p->replicates,
                       .rows = points + sizes,
                       .cols = PROBE_COLUMNS,
                       .columns = columns,
                       .tells = true,
                       .flops = s->cost.replicate_flops,
                       .run = run_draw};
    ES_TRY(es_job_stage(job, &stage, err));
    stage = (es_stage){.name = "control",
                       .phase = "drawing Gaussian tokens",
                       .noun = "draws of Gaussian tokens",
                       .cells = places_of(s) * p->control,
                       .rows = points,
                       .cols = PROBE_ERRORS,
                       .columns = columns,
                       .tells = true,
                       .flops = s->cost.control_flops,
                       .run = run_control};
    return es_job_stage(job, &stage, err);
}

static es_status begin(es_job *job, es_error *err)
{
    probe_state *s = job->state;
    ES_TRY(es_pools_build(job, &s->pools, err));
    ES_TRY(es_job_array(job, s->heads, s->spec.n_sizes, sizeof *s->cells, &s->cells, err));
    ES_TRY(es_job_array(job, s->spec.n_sizes, 1, sizeof *s->joint, &s->joint, err));
    return add_stages(job, err);
}

static void close_study(es_job *job)
{
    probe_state *s = job->state;
    es_probe_close(s->probe);
    es_pools_close(&s->pools);
}

static const char *const examples[] = {
    "esscher probe --model models/minilm --text alice.txt",
    "esscher probe --model models/minilm --text alice.txt --pool 20480 --json",
    "esscher probe --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher probe --model models/minilm --text wiki.txt --pool 1000000 --n 1e3..1e5*12 "
    "--pool-dir pool --out probe.run",
    NULL};

const es_study es_study_probe = {
    .name = "probe",
    .summary = "every head of a BERT checkpoint on real text: horizons, freezing, convergence",
    .usage = "--model MODEL --text FILE [options]",
    .about =
        "Runs text through the model and keeps what every layer is given: the pool, a sample of "
        "real tokens. Attention of some of them over the whole pool stands for infinitely many "
        "tokens; attention over n tokens drawn from the pool is measured against it, head by head, "
        "with rates, their intervals, and the pool's own error. Beside it: horizons and the "
        "exponents they predict, how many tokens a head needs, how many queries are frozen, what "
        "Gaussian tokens of the same covariance would do, entropy and sinks of attention in the "
        "text's own blocks, and how independently the heads of a layer err.\n\n"
        "The pool is on disk; with --pool-dir it is kept, and building it can be killed and goes "
        "on. Layers and heads count from 0.",
    .examples = examples,
    .params = params,
    .size = sizeof(probe_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(probe_state),
    .open = open_study,
    .cost = cost_of,
    .begin = begin,
    .summarise = probe_summarise,
    .close = close_study,
};
