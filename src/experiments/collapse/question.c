/* question.c : nearly equiangular tokens, beta = gamma ln n: who stays apart (THEORY 7).
 *
 * What is asked, and cells: the random model at one n and rho. The answer is in
 * collapse/rows.c. */
#include <math.h>

#include "base/error.h"
#include "experiments/collapse/question.h"
#include "random/experiment.h"

enum { MOST_DRAWN = 1000000 }; /* tokens of the random model */

#define FIELD(member) .field = offsetof(collapse_params, member)
static const es_param params[] = {
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "tokens. The random model is drawn up to 1e6", FIELD(n),
     .min = 2, .max = 1e15, .increasing = true, .default_value = "1000", .unit = "tokens"},
    {"rho", 0, ES_PARAM_REALS, "GRID", "cosine between tokens, 0 <= rho < 1", FIELD(rho),
     .min = 0.0, .max = 0.999999, .increasing = true,
     .default_note = "0.3; 0,0.1,...,0.9 with --phase"},
    {"times", 0, ES_PARAM_REALS, "GRID", "score scales as multiples of gamma_c = 1/(1-rho)",
     FIELD(times), .min = 0.0, .max = 1e6, .increasing = true,
     .default_note = "0.5,0.8,0.9,1,1.1,1.2,1.5,2"},
    {"gamma", 0, ES_PARAM_REALS, "GRID", "score scales gamma themselves, beta = gamma ln n",
     FIELD(gamma), .min = 0.0, .max = 1e6, .increasing = true,
     .default_note = "as --times says; 0.5..16*16 with --phase"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "samples of the random model; 0: closed form alone",
     FIELD(replicates), .min = 0, .max = 1e6, .default_note = "16; 0 with --phase"},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimensions of a token of the random model", FIELD(dim),
     .min = 2, .max = 4096, .default_value = "128", .alias = "d"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "of the n tokens, how many are looked at as queries",
     FIELD(queries), .min = 2, .max = 65536, .default_value = "64", .renamed_from = "tokens"},
    {"alpha", 0, ES_PARAM_NUMBER, "X", "residual: x' = attention + alpha x", FIELD(alpha),
     .min = 0.0, .max = 1e6, .default_value = "0"},
    {"square", 0, ES_PARAM_NUMBER, "Q", "squared norm of a token, q", FIELD(square), .min = 1e-6,
     .max = 1e12, .default_value = "1"},
    {"phase", 0, ES_PARAM_FLAG, NULL, "the phase diagram: angle ratio over gamma and rho",
     FIELD(phase)},
    {"curves", 0, ES_PARAM_FLAG, NULL,
     "what score scalings in use make of gamma beyond the context trained for", FIELD(curves)},
    {"contexts", 0, ES_PARAM_COUNTS, "GRID", "contexts of --curves", FIELD(contexts), .min = 2,
     .max = 1e15, .increasing = true, .default_value = "1024..1048576*11", .unit = "tokens"},
    {"train", 0, ES_PARAM_WHOLE, "N", "of --curves: tokens a head was trained with", FIELD(train),
     .min = 2, .max = 1e15, .default_value = "4096", .unit = "tokens"},
    {"train-gamma", 0, ES_PARAM_NUMBER, "G", "of --curves: its gamma there, beta/ln N",
     FIELD(train_gamma), .min = 0.0, .max = 1e6,
     .default_note = "1.2 times gamma_c of the first rho"},
    {"yarn", 0, ES_PARAM_NUMBER, "C",
     "of --curves: scores grow like (C ln(n/N) + 1)^2, with 0.1 as YaRN has it", FIELD(yarn),
     .min = 0.0, .max = 10.0, .default_value = "0.1"},
    {0}};

double collapse_gamma(const collapse_params *p, double rho, int64_t g)
{
    return p->gamma.count ? p->gamma.reals[g] : p->times.reals[g] / (1.0 - rho);
}

/* ---- what is asked ---- */

/* The phase diagram has gamma itself as an axis, because lines of one gamma/gamma_c would be
 * straight whatever happens; elsewhere multiples of gamma_c make rho comparable. */
static es_status complete(es_job *job, collapse_params *p, es_error *err)
{
    if (p->gamma.count && p->times.count)
        return es_refuse(err, "collapse.options", "leave one of them out",
                         "--gamma and --times both name the score scales");
    if (p->phase && p->times.count)
        return es_refuse(err, "collapse.options", "use --gamma",
                         "--phase has gamma itself as its axis, not --times");
    if (!p->rho.count)
        ES_TRY(es_params_set(job->given, "rho",
                             p->phase ? "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9" : "0.3", err));
    if (p->phase && !p->gamma.count)
        ES_TRY(es_params_set(job->given, "gamma", "0.5..16*16", err));
    if (!p->gamma.count && !p->times.count)
        ES_TRY(es_params_set(job->given, "times", "0.5,0.8,0.9,1,1.1,1.2,1.5,2", err));
    if (!es_params_given(job->given, "replicates"))
        p->replicates = p->phase ? 0 : 16;
    if (isnan(p->train_gamma))
        p->train_gamma = 1.2 * es_collapse_threshold(p->train, p->rho.reals[0], 0);
    return ES_OK;
}

static void put_question(const collapse_params *p, es_answer *a)
{
    es_answer_count(a, "dim", p->dim);
    es_answer_real(a, "alpha", p->alpha);
    es_answer_real(a, "square", p->square);
    es_answer_count(a, "replicates", p->replicates);
    es_answer_reals(a, "rho", p->rho.reals, p->rho.count);
}

/* ---- cells: the random model at one n and rho ---- */

static const char *const draw_columns[] = {"rho",         "cosine", "angle_ratio",
                                           "self_weight", "ess",    "gradient"};
enum { DRAW_NUMBERS = 6 };
_Static_assert(sizeof(es_collapse_draw) == DRAW_NUMBERS * sizeof(double), "a draw is its numbers");

static es_status run_pair(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    double *out = record;
    const collapse_params *p = job->params;
    const collapse_state *s = job->state;
    const int64_t n = p->n.counts[cell / p->rho.count];
    const double rho = p->rho.reals[cell % p->rho.count];
    const es_collapse_opts opts = {job->seed,         .experiment = ES_EXPERIMENT_COLLAPSE,
                                   .dim = p->dim,     .tokens = p->queries < n ? p->queries : n,
                                   .alpha = p->alpha, .square = p->square,
                                   .exec = exec};
    es_arena scratch = {.budget = exec->budget};
    double *beta;
    ES_TRY(ES_ARENA_NEW(&scratch, beta, s->gammas, "scales", err));
    for (int64_t g = 0; g < s->gammas; g++)
        beta[g] = collapse_gamma(p, rho, g) * log((double)n);
    const es_status status = es_collapse_sample(&opts, n, rho, beta, s->gammas, 0, p->replicates,
                                                (es_collapse_draw *)(void *)out, err);
    es_arena_free(&scratch);
    return status;
}

/* A pair is one cell because its replicates share the threads: a single one is too little work for
 * several. Operations of all replicates at one n: the queries' scores, an output for each gamma,
 * and three rows' gradients. */
static double pair_flops(const collapse_params *p, const collapse_state *s, double n)
{
    const double M = fmin(n, (double)p->queries), G = (double)s->gammas;
    return (double)p->replicates * n * (double)p->dim * (2.0 * M * (1.0 + G) + 40.0 * G);
}

/* Cells differ in n; for progress each counts as much as their mean. */
static double all_flops(const collapse_params *p, const collapse_state *s)
{
    double flops = 0.0;
    for (int64_t i = 0; i < s->pairs; i++)
        flops += pair_flops(p, s, p->n.reals[i / p->rho.count]);
    return flops;
}

/* ---- all of it ---- */

static es_status open_study(es_job *job, es_error *err)
{
    collapse_params *p = job->params;
    collapse_state *s = job->state;
    int64_t sizes = 0; /* n increases, so those that are drawn come first */
    ES_TRY(complete(job, p, err));
    put_question(p, job->answer);
    while (p->replicates && sizes < p->n.count && p->n.counts[sizes] <= MOST_DRAWN)
        sizes++;
    s->gammas = p->gamma.count ? p->gamma.count : p->times.count;
    s->pairs = sizes * p->rho.count;
    return es_job_stage(
        job,
        &(es_stage){"model", .phase = "drawing tokens", .noun = "pairs (n, rho)", .cells = s->pairs,
                    .rows = p->replicates * s->gammas, .cols = DRAW_NUMBERS,
                    .columns = draw_columns, .reports_progress = true,
                    .flops = s->pairs ? all_flops(p, s) / (double)s->pairs : 0.0, .run = run_pair},
        err);
}

static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const collapse_params *p = job->params;
    const collapse_state *s = job->state;
    const double R = (double)p->replicates, G = (double)s->gammas, d = (double)p->dim;
    const double n = s->pairs ? p->n.reals[(s->pairs - 1) / p->rho.count] : 0.0;
    const double most = n * d + G * fmin(n, (double)p->queries) * (d + 2.0) + 3.0 * d;
    (void)err;
    *out = (es_cost){.flops = all_flops(p, s),
                     .work_bytes = 4096.0,
                     .thread_bytes = R > 0.0 ? 16.0 * most + 4e6 : 0.0,
                     .output_bytes = (double)(p->n.count * p->rho.count) * G * 2048.0};
    return ES_OK;
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher collapse",
    "esscher collapse --phase --n 1e5",
    "esscher collapse --n 1e3..1e12*4 --rho 0.3,0.7 --replicates 0 --csv",
    "esscher collapse --curves --rho 0.6 --train 4096 --contexts 4096..1048576*9",
    "esscher collapse --dim 32 --n 1000 --replicates 64 --json",
    NULL};

const es_study es_study_collapse = {
    "collapse",
    .summary = "which tokens stay apart at nearly equal angles when beta = gamma log n",
    .group = ES_GROUP_LAB,
    .usage = "[options]",
    .about =
        "n tokens with cosine rho between any two attend to one another with score scale beta "
        "= gamma ln n. Below gamma_c = 1/(1-rho) attention averages them into one direction; "
        "above it each sees itself alone and nothing happens; between lies a window of "
        "relative width about 4/ln n [proved]. Shows the exact values at n, and beside them "
        "measurements of the random model, tokens along sqrt(rho) z_0 + sqrt(1-rho) z_i, whose "
        "cosines spread like 1/sqrt(d) around a realised mean; what that does to the threshold "
        "is [heuristic].\n\n"
        "--curves starts from a head that had beta = G ln N with its N tokens of training, and "
        "follows gamma = beta/ln n to other contexts n: with scores as they are, with scores "
        "that grow like (C ln(n/N) + 1)^2 (YaRN: queries and keys times 0.1 ln s + 1 each), "
        "and with scores that grow like ln n/ln N (log n scaling, as Qwen has it). These are "
        "the factors on scores alone: what else those methods do, to positions, is not "
        "modelled.",
    .examples = examples,
    .params = params,
    .size = sizeof(collapse_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(collapse_state),
    .open = open_study,
    .cost = cost,
    .summarise = collapse_summarise};
