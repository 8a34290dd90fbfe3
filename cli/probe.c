/* esscher probe : every head of a BERT checkpoint on real text. */
#include "probe.h"

#include <stdlib.h>

#include "answer.h"
#include "draft.h"
#include "grid.h"
#include "run_file.h"
#include "talk.h"

typedef struct probe_options {
    cli_pool_options pool;
    int64_t replicates, control, queries;
    cli_grid sizes;
    int draw;
    cli_run_options run;
} probe_options;

static const char *const draw_choices[] = {"with", "without", NULL};

static const probe_options defaults = {
    .pool = {.store = -1}, .replicates = 8, .control = 4, .queries = 1024};

static const cli_option options[] = {
    CLI_POOL_OPTIONS(probe_options, pool),
    {"n", 0, CLI_COUNTS, "GRID",
     "numbers of tokens that are drawn (default: 100..10000*7, at most half of the pool)",
     .field = offsetof(probe_options, sizes), .min = 2, .max = 1e7, .increasing = true},
    {"replicates", 0, CLI_WHOLE, "R", "independent draws (default: 8)",
     .field = offsetof(probe_options, replicates), .min = 2, .max = 65536},
    {"control", 0, CLI_WHOLE, "R",
     "draws of Gaussian tokens of the same covariance, to compare with; 0: none (default: 4)",
     .field = offsetof(probe_options, control), .min = 0, .max = 65536},
    {"queries", 0, CLI_WHOLE, "M", "tokens of the pool whose outputs are compared (default: 1024)",
     .field = offsetof(probe_options, queries), .min = 2, .max = 1e6},
    {"draw", 0, CLI_CHOICE, "HOW", "tokens with or without replacement (default: with)",
     .field = offsetof(probe_options, draw), .choices = draw_choices},
    CLI_RUN_OPTIONS(probe_options, run),
    {0}};

static const cli_table *const views[] = {
    &cli_cost_table,      &probe_layers_table,  &probe_heads_table, &probe_weights_table,
    &probe_context_table, &probe_domains_table, &probe_rows_table,  NULL};

static void default_sizes(probe_options *o, int64_t tokens)
{
    const cli_grid_rule rule = {.min = 2, .max = 1e9, .increasing = true};
    char text[64], why[128];
    if (o->sizes.count)
        return;
    const int64_t most = tokens / 2 < 10000 ? tokens / 2 : 10000;
    snprintf(text, sizeof text, "%d..%lld*7", most > 200 ? 100 : 4,
             (long long)(most < 16 ? 16 : most));
    cli_grid_parse(text, true, &rule, &o->sizes, why, (int)sizeof why);
}

/* ---- measuring ---- */

enum { LIMIT, REPLICATE, JOINT, CONTROL, STAGES };

typedef struct probe_stages {
    const cli_run_file *file;
    int64_t at[STAGES];
} probe_stages;

static es_probe_spec probe_spec(const probe_job *job, int64_t domain)
{
    return (es_probe_spec){.model = job->model,
                           .pool = job->domains[domain].pool,
                           .sizes = job->sizes,
                           .n_sizes = job->n_sizes,
                           .queries = job->queries,
                           .without_replacement = job->without_replacement,
                           .seed = job->session->common.seed,
                           .exec = &job->session->exec};
}

static es_status open_stages(const probe_job *job, cli_run_file *file, probe_stages *s,
                             es_error *err)
{
    static const char *const number[] = {"number"};
    static const char *const errors[] = {"mean_error", "cov_error", "map_error"};
    static const char *const joint[] = {"map_error", "coherence"};
    const es_probe_spec spec = probe_spec(job, 0);
    s->file = file;
    es_status status =
        cli_run_stage(file, "limit", es_probe_numbers(&spec), 1, number, &s->at[LIMIT], err);
    if (status == ES_OK)
        status = cli_run_stage(file, "replicate", job->config->heads * job->n_sizes, 3, errors,
                               &s->at[REPLICATE], err);
    if (status == ES_OK)
        status = cli_run_stage(file, "joint", job->n_sizes, 2, joint, &s->at[JOINT], err);
    if (status == ES_OK)
        status = cli_run_stage(file, "control", job->config->heads * job->n_sizes, 3, errors,
                               &s->at[CONTROL], err);
    return status;
}

/* The layer's limit, from the run file or from the pool. */
static es_status open_layer(const probe_job *job, const probe_stages *s, int64_t domain,
                            int64_t layer, es_probe **out, es_error *err)
{
    const es_probe_spec spec = probe_spec(job, domain);
    const int64_t cell = domain * job->config->layers + layer;
    double *numbers = cli_alloc_array((size_t)es_probe_numbers(&spec), sizeof *numbers);
    bool done;
    es_status status = cli_run_find(s->file, s->at[LIMIT], cell, numbers, &done, err);
    if (status == ES_OK && !done) {
        status = es_probe_measure(&spec, layer, numbers, err);
        if (status == ES_OK)
            status = cli_run_keep(s->file, s->at[LIMIT], cell, numbers, err);
    }
    if (status == ES_OK)
        status = es_probe_open(&spec, layer, numbers, out, err);
    free(numbers);
    return status;
}

static es_status replicate(const probe_stages *s, const es_probe *probe, int64_t cell, int64_t r,
                           es_probe_cell *cells, es_probe_joint *joint, es_error *err)
{
    bool done, joined;
    es_status status = cli_run_find(s->file, s->at[REPLICATE], cell, (double *)cells, &done, err);
    if (status == ES_OK)
        status = cli_run_find(s->file, s->at[JOINT], cell, (double *)joint, &joined, err);
    if (status != ES_OK || (done && joined))
        return status;
    status = es_probe_replicate(probe, r, cells, joint, err);
    if (status == ES_OK)
        status = cli_run_keep(s->file, s->at[REPLICATE], cell, (const double *)cells, err);
    if (status == ES_OK)
        status = cli_run_keep(s->file, s->at[JOINT], cell, (const double *)joint, err);
    return status;
}

static es_status control(const probe_stages *s, const es_probe *probe, int64_t cell, int64_t r,
                         es_probe_cell *cells, es_error *err)
{
    bool done;
    es_status status = cli_run_find(s->file, s->at[CONTROL], cell, (double *)cells, &done, err);
    if (status == ES_OK && !done) {
        status = es_probe_control(probe, r, cells, err);
        if (status == ES_OK)
            status = cli_run_keep(s->file, s->at[CONTROL], cell, (const double *)cells, err);
    }
    return status;
}

/* Draws of a layer, those of the text first. */
static int64_t draws_of(const probe_job *job) { return job->replicates + job->control; }

/* Every draw of one layer; *finished counts them. */
static es_status draw_all(probe_job *job, const probe_stages *s, const es_probe *probe,
                          int64_t place, es_probe_cell *cells, es_probe_joint *joint,
                          int64_t *finished, es_error *err)
{
    const int64_t R = job->replicates, per = job->config->heads * job->n_sizes;
    cli_progress *progress = &job->session->progress;
    es_status status = ES_OK;
    for (int64_t r = 0; r < draws_of(job) && status == ES_OK; r++) {
        progress->part = (double)(place * (draws_of(job) + 1) + r + 1);
        status = r < R
                     ? replicate(s, probe, place * R + r, r, cells + r * per,
                                 joint + r * job->n_sizes, err)
                     : control(s, probe, place * job->control + r - R, r - R, cells + r * per, err);
        *finished += status == ES_OK;
        if (status == ES_OK && cli_progress_tell(progress, 1.0, 1.0))
            status = ES_E_INTERRUPTED;
    }
    return status;
}

static es_status probe_one(probe_job *job, const probe_stages *s, int64_t domain, int64_t layer,
                           es_error *err)
{
    const int64_t draws = draws_of(job), per = job->config->heads * job->n_sizes;
    const int64_t place = domain * job->config->layers + layer;
    es_probe *probe = NULL;
    int64_t finished = place * draws;
    job->session->progress.part = (double)(place * (draws + 1));
    es_status status = open_layer(job, s, domain, layer, &probe, err);
    es_probe_cell *cells = cli_alloc_array((size_t)(draws * per), sizeof *cells);
    es_probe_joint *joint =
        cli_alloc_array((size_t)(job->replicates * job->n_sizes), sizeof *joint);
    if (status == ES_OK)
        status = draw_all(job, s, probe, place, cells, joint, &finished, err);
    if (status == ES_E_INTERRUPTED)
        status = cli_run_interrupted(s->file, finished,
                                     job->n_domains * job->config->layers * draws, "draws", err);
    if (status == ES_OK)
        status = probe_answer_layer(
            job, &(probe_layer){probe, domain, layer, cells, joint, cells + job->replicates * per},
            err);
    free(cells);
    free(joint);
    es_probe_close(probe);
    return status;
}

static es_status probe_all(probe_job *job, const probe_options *o, es_error *err)
{
    cli_run_file file;
    probe_stages stages;
    json_t *answer = job->session->answer;
    es_status status = cli_run_open(job->session, o, &o->run, &file, err);
    if (status == ES_OK)
        status = open_stages(job, &file, &stages, err);
    job->session->progress.parts =
        (double)(job->n_domains * job->config->layers * (draws_of(job) + 1));
    json_object_set_new(answer, "layers", json_array());
    json_object_set_new(answer, "heads", json_array());
    json_object_set_new(answer, "rows", json_array());
    for (int64_t d = 0; d < job->n_domains; d++)
        for (int64_t l = 0; l < job->config->layers && status == ES_OK; l++)
            status = probe_one(job, &stages, d, l, err);
    if (status == ES_OK && job->n_domains > 1)
        probe_answer_domains(job);
    return cli_run_close(&file, job->session, status, err);
}

/* ---- all together ---- */

/* The pool is on disk; its checksums are in memory, and so is the model. */
static es_status cost_of(const probe_job *job, const es_pool_cost *pools, cli_cost *out,
                         es_error *err)
{
    es_probe_spec spec = probe_spec(job, 0);
    es_probe_cost cost;
    const es_status status = es_probe_cost_of(&spec, pools->tokens, &cost, err);
    if (status != ES_OK)
        return status;
    const double layers = (double)(job->n_domains * job->config->layers);
    const size_t bytes = cost.bytes > pools->bytes ? cost.bytes : pools->bytes;
    *out = (cli_cost){
        .flops = pools->flops +
                 layers * (cost.limit_flops + (double)job->replicates * cost.replicate_flops +
                           (double)job->control * cost.control_flops),
        .disk_bytes = pools->disk_bytes,
        .output_bytes = 512.0 * layers * (double)(job->config->heads * job->n_sizes),
        .work_bytes = (double)job->session->budget.used + pools->held_bytes + (double)bytes};
    return ES_OK;
}

/* With the model open and the texts counted. */
static es_status with_pools(probe_job *job, probe_options *o, cli_pools *pools, es_error *err)
{
    json_t *answer = job->session->answer;
    default_sizes(o, pools->cost.tokens);
    job->model = pools->model;
    job->config = pools->config;
    job->domains = pools->domains;
    job->n_domains = pools->n_domains;
    job->sizes = o->sizes.counts;
    job->n_sizes = o->sizes.count;
    job->queries = o->queries < pools->cost.tokens ? o->queries : pools->cost.tokens;
    cli_cost cost;
    es_status status = cost_of(job, &pools->cost, &cost, err);
    if (status == ES_OK && job->session->common.dry_run)
        return cli_cost_answer(job->session, &cost, err);
    if (status == ES_OK)
        status = cli_cost_admit(job->session, &cost, err);
    if (status == ES_OK)
        status = cli_pools_build(pools, err);
    if (status != ES_OK)
        return status;
    json_object_set_new(answer, "draw", json_string(draw_choices[o->draw]));
    json_object_set_new(answer, "queries", json_integer(job->queries));
    json_object_set_new(answer, "replicates", json_integer(job->replicates));
    json_object_set_new(answer, "control", json_integer(job->control));
    job->rates = cli_alloc_array(
        (size_t)(2 * job->n_domains * job->config->layers * job->config->heads), sizeof(double));
    status = probe_all(job, o, err);
    free(job->rates);
    return status;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    probe_options *o = given;
    probe_job job = {.session = session,
                     .quiet = session->exec,
                     .replicates = o->replicates,
                     .control = o->control,
                     .without_replacement = o->draw == 1};
    cli_pools pools;
    if (o->control == 1)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "probe.control", "0, or 2 and more",
                        "one draw of Gaussian tokens has no standard error");
    /* before a pool is made, which may take hours */
    if (o->run.out && !o->run.resume && !session->common.dry_run) {
        const es_status free_name = cli_target_check(o->run.out, o->run.force, err);
        if (free_name != ES_OK)
            return free_name;
    }
    job.quiet.progress = cli_progress_silent;
    es_status status = cli_pools_open(session, &o->pool, &pools, err);
    if (status == ES_OK)
        status = with_pools(&job, o, &pools, err);
    cli_pools_close(&pools);
    return status;
}

static const char *const examples[] = {
    "esscher probe --model models/minilm --text alice.txt",
    "esscher probe --model models/minilm --text alice.txt --pool 20480 --json",
    "esscher probe --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher probe --model models/minilm --text wiki.txt --pool 1000000 --n 1e3..1e5*12 "
    "--pool-dir pool --out probe.run",
    NULL};

const cli_command cli_probe = {
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
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA | CLI_TAKES_MEMORY |
              CLI_TAKES_DRY_RUN | CLI_TAKES_PROGRESS | CLI_TAKES_SEED,
    .defaults = &defaults,
    .size = sizeof(probe_options),
    .views = views,
    .csv = &probe_rows_table,
    .run = run,
};
