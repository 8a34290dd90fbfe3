/* esscher collapse : nearly equiangular tokens, beta = gamma log n. */
#include "collapse.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/experiment.h>

#include "answer.h"
#include "talk.h"

enum { EXPERIMENT = ES_EXPERIMENT_COLLAPSE, NUMBERS = 6 };

static const collapse_options defaults = {.dim = 128,
                                          .replicates = -1,
                                          .tokens = 64,
                                          .train = 4096,
                                          .square = 1.0,
                                          .train_gamma = NAN,
                                          .yarn = 0.1};

static const cli_option options[] = {
    {"n", 'n', CLI_COUNTS, "GRID", "tokens (default: 1000). The random model is drawn up to 1e6",
     .field = offsetof(collapse_options, n), .min = 2, .max = 1e15, .increasing = true},
    {"rho", 0, CLI_REALS, "GRID",
     "cosine between tokens, 0 <= rho < 1 (default: 0.3; 0,0.1,...,0.9 with --phase)",
     .field = offsetof(collapse_options, rho), .min = 0.0, .max = 0.999999, .increasing = true},
    {"times", 0, CLI_REALS, "GRID",
     "score scales as multiples of gamma_c = 1/(1-rho) (default: 0.5,0.8,0.9,1,1.1,1.2,1.5,2)",
     .field = offsetof(collapse_options, times), .min = 0.0, .max = 1e6, .increasing = true},
    {"gamma", 'g', CLI_REALS, "GRID",
     "score scales gamma themselves, beta = gamma ln n (default with --phase: 0.5..16*16)",
     .field = offsetof(collapse_options, gamma), .min = 0.0, .max = 1e6, .increasing = true},
    {"replicates", 'r', CLI_WHOLE, "R",
     "samples of the random model; 0: closed form alone (default: 16; 0 with --phase)",
     .field = offsetof(collapse_options, replicates), .min = 0, .max = 1e6},
    {"dim", 'd', CLI_WHOLE, "D", "dimensions of a token of the random model (default: 128)",
     .field = offsetof(collapse_options, dim), .min = 2, .max = 4096},
    {"tokens", 0, CLI_WHOLE, "M",
     "of the n tokens, how many are looked at as queries (default: 64)",
     .field = offsetof(collapse_options, tokens), .min = 2, .max = 65536},
    {"alpha", 0, CLI_NUMBER, "X", "residual: x' = attention + alpha x (default: 0)",
     .field = offsetof(collapse_options, alpha), .min = 0.0, .max = 1e6},
    {"square", 0, CLI_NUMBER, "Q", "squared norm of a token, q (default: 1)",
     .field = offsetof(collapse_options, square), .min = 1e-6, .max = 1e12},
    {"phase", 0, CLI_FLAG, NULL, "the phase diagram: angle ratio over gamma and rho",
     .field = offsetof(collapse_options, phase)},
    {"curves", 0, CLI_FLAG, NULL,
     "what score scalings in use make of gamma beyond the context trained for",
     .field = offsetof(collapse_options, curves)},
    {"contexts", 0, CLI_COUNTS, "GRID", "contexts of --curves (default: 1024..1048576*11)",
     .field = offsetof(collapse_options, contexts), .min = 2, .max = 1e15, .increasing = true},
    {"train", 0, CLI_WHOLE, "N", "of --curves: tokens a head was trained with (default: 4096)",
     .field = offsetof(collapse_options, train), .min = 2, .max = 1e15},
    {"train-gamma", 0, CLI_NUMBER, "G",
     "of --curves: its gamma there, beta/ln N (default: 1.2 times gamma_c of the first rho)",
     .field = offsetof(collapse_options, train_gamma), .min = 0.0, .max = 1e6},
    {"yarn", 0, CLI_NUMBER, "C",
     "of --curves: scores grow like (C ln(n/N) + 1)^2 (default: 0.1, as YaRN has it)",
     .field = offsetof(collapse_options, yarn), .min = 0.0, .max = 10.0},
    CLI_RUN_OPTIONS(collapse_options, run),
    {0}};

/* ---- what is asked ---- */

static void fill_in(cli_grid *grid, const char *text, bool whole, const cli_grid_rule *rule)
{
    char why[64];
    if (!grid->count)
        cli_grid_parse(text, whole, rule, grid, why, (int)sizeof why);
}

static es_status complete(collapse_options *o, es_error *err)
{
    const cli_grid_rule counts = {.min = 2, .max = 1e15, .increasing = true};
    const cli_grid_rule reals = {.min = 0.0, .max = 1e6, .increasing = true};
    if (o->gamma.count && o->times.count)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "collapse.options", "leave one of them out",
                        "--gamma and --times both name the score scales");
    if (o->phase && o->times.count)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "collapse.options", "use --gamma",
                        "--phase has gamma itself as its axis, not --times");
    fill_in(&o->n, "1000", true, &counts);
    fill_in(&o->rho, o->phase ? "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9" : "0.3", false, &reals);
    if (o->phase)
        fill_in(&o->gamma, "0.5..16*16", false, &reals);
    if (!o->gamma.count)
        fill_in(&o->times, "0.5,0.8,0.9,1,1.1,1.2,1.5,2", false, &reals);
    fill_in(&o->contexts, "1024..1048576*11", true, &counts);
    if (o->replicates < 0)
        o->replicates = o->phase ? 0 : 16;
    if (isnan(o->train_gamma))
        o->train_gamma = 1.2 * es_collapse_threshold(o->train, o->rho.reals[0], 0);
    return ES_OK;
}

double collapse_gamma(const collapse_job *job, double rho, int64_t g)
{
    const collapse_options *o = job->o;
    return o->gamma.count ? o->gamma.reals[g] : o->times.reals[g] / (1.0 - rho);
}

/* ---- the random model ---- */

/* (n, rho) pairs that are drawn: n is in increasing order, so these come first. */
static int64_t drawn_pairs(const collapse_job *job)
{
    int64_t sizes = 0;
    while (sizes < job->o->n.count && job->o->n.counts[sizes] <= COLLAPSE_MOST_DRAWN)
        sizes++;
    return job->o->replicates ? sizes * job->o->rho.count : 0;
}

static cli_cost estimate(const collapse_job *job)
{
    const collapse_options *o = job->o;
    const double R = (double)o->replicates, G = (double)job->gammas, d = (double)o->dim;
    cli_cost cost = {.work_bytes = 4096.0};
    double most = 0.0;
    for (int64_t i = 0; i < drawn_pairs(job); i++) {
        const double n = o->n.reals[i / o->rho.count], M = fmin(n, (double)o->tokens);
        cost.flops += R * n * d * (2.0 * M * (1.0 + G) + 40.0 * G);
        most = fmax(most, n * d + G * M * (d + 2.0) + 3.0 * d);
    }
    const double threads = fmin((double)job->session->exec.threads, R);
    cost.work_bytes += threads * (8.0 * most * 2.0 + 4e6);
    cost.output_bytes = (double)(o->n.count * o->rho.count) * G * (R * 8.0 * NUMBERS + 2048.0);
    return cost;
}

/* One (n, rho): all its draws, from the run file or computed. */
static es_status measure_pair(collapse_job *job, const cli_run_file *file, int64_t stage,
                              int64_t pair, es_collapse_draw *draws, double *beta, es_error *err)
{
    const collapse_options *o = job->o;
    const int64_t n = o->n.counts[pair / o->rho.count];
    const double rho = o->rho.reals[pair % o->rho.count];
    const es_collapse_opts opts = {.seed = job->session->common.seed,
                                   .experiment = EXPERIMENT,
                                   .dim = o->dim,
                                   .tokens = o->tokens < n ? o->tokens : n,
                                   .alpha = o->alpha,
                                   .square = o->square,
                                   .exec = &job->session->exec};
    bool done = false;
    es_status status = cli_run_find(file, stage, pair, (double *)draws, &done, err);
    for (int64_t g = 0; g < job->gammas; g++)
        beta[g] = collapse_gamma(job, rho, g) * log((double)n);
    if (status == ES_OK && !done) {
        status = es_collapse_sample(&opts, n, rho, beta, job->gammas, 0, o->replicates, draws, err);
        if (status == ES_OK)
            status = cli_run_keep(file, stage, pair, (const double *)draws, err);
    }
    if (status == ES_OK)
        es_collapse_average(draws, o->replicates, job->gammas, job->rows + pair * job->gammas);
    return status;
}

static es_status measure(collapse_job *job, cli_run_file *file, es_error *err)
{
    static const char *const columns[] = {"rho",         "cosine", "angle_ratio",
                                          "self_weight", "ess",    "gradient"};
    const int64_t pairs = drawn_pairs(job), cells = job->o->replicates * job->gammas;
    cli_progress *progress = &job->session->progress;
    int64_t stage;
    if (!pairs)
        return ES_OK;
    es_status status = cli_run_stage(file, "model", cells, NUMBERS, columns, &stage, err);
    es_collapse_draw *draws = cli_alloc_array((size_t)cells, sizeof *draws);
    double *beta = cli_alloc_array((size_t)job->gammas, sizeof *beta);
    job->rows = cli_alloc_array((size_t)(pairs * job->gammas), sizeof *job->rows);
    progress->parts = (double)pairs;
    for (int64_t i = 0; i < pairs && status == ES_OK; i++) {
        progress->part = (double)i;
        status = measure_pair(job, file, stage, i, draws, beta, err);
        if (status == ES_E_INTERRUPTED || (status == ES_OK && cli_interrupted() && i + 1 < pairs))
            status = cli_run_interrupted(file, status == ES_OK ? i + 1 : i, pairs, "pairs (n, rho)",
                                         err);
    }
    free(draws);
    free(beta);
    return status;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    collapse_options *o = given;
    es_status status = complete(o, err);
    if (status != ES_OK)
        return status;
    collapse_job job = {
        .session = session, .o = o, .gammas = o->gamma.count ? o->gamma.count : o->times.count};
    const cli_cost cost = estimate(&job);
    cli_run_file file;
    status = cli_cost_admit(session, &cost, err);
    if (status == ES_OK)
        status = cli_run_open(session, o, &o->run, &file, err);
    if (status != ES_OK)
        return status;
    if (o->phase && !session->common.csv && !o->run.out)
        session->views = collapse_phase_views;
    status = measure(&job, &file, err);
    if (status == ES_OK)
        status = collapse_answer(&job, err);
    free(job.rows);
    return cli_run_close(&file, session, status, err);
}

static const char *const examples[] = {
    "esscher collapse",
    "esscher collapse --phase --n 1e5",
    "esscher collapse --n 1e3..1e12*4 --rho 0.3,0.7 --replicates 0 --csv",
    "esscher collapse --curves --rho 0.6 --train 4096 --contexts 4096..1048576*9",
    "esscher collapse --dim 32 --n 1000 --replicates 64 --json",
    NULL};

const cli_command cli_collapse = {
    .name = "collapse",
    .summary = "tokens at nearly equal angles, beta = gamma log n: who stays apart",
    .usage = "[options]",
    .about =
        "n tokens with cosine rho between any two attend to one another with score scale beta = "
        "gamma ln n. Below gamma_c = 1/(1-rho) attention averages them into one direction; above "
        "it each sees itself alone and nothing happens; between lies a window of relative width "
        "about 4/ln n. Shows the exact values at n, and beside them measurements of the random "
        "model, tokens along sqrt(rho) z_0 + sqrt(1-rho) z_i, whose cosines spread like 1/sqrt(d) "
        "around a realised mean.\n\n"
        "--curves starts from a head that had beta = G ln N with its N tokens of training, and "
        "follows gamma = beta/ln n to other contexts n: with scores as they are, with scores that "
        "grow like (C ln(n/N) + 1)^2 (YaRN: queries and keys times 0.1 ln s + 1 each), and with "
        "scores that grow like ln n/ln N (log n scaling, as Qwen has it). These are the factors "
        "on scores alone: what else those methods do, to positions, is not modelled.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA | CLI_TAKES_SEED |
              CLI_TAKES_MEMORY | CLI_TAKES_PROGRESS,
    .defaults = &defaults,
    .size = sizeof(collapse_options),
    .views = collapse_views,
    .run = run,
};
