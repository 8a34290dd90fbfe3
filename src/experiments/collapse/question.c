/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `collapse`: parameters, help and cost. */
#include "experiments/collapse/collapse.h"

#include <math.h>

#include "base/error.h"

enum { MOST_DRAWN = 1000000 }; /* largest n at which the random model is drawn */

#define FIELD(member) .field = offsetof(collapse_params, member)
static const es_param params[] = {
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "number of tokens; the random model is drawn up to 1e6",
     FIELD(n), .min = 2, .max = 1e15, .increasing = true, .default_value = "1000",
     .unit = "tokens"},
    {"rho", 0, ES_PARAM_REALS, "GRID", "cosine between tokens, 0 <= rho < 1", FIELD(rho),
     .min = 0.0, .max = 0.999999, .increasing = true,
     .default_note = "0.3; 0,0.1,...,0.9 with --phase"},
    {"times", 0, ES_PARAM_REALS, "GRID", "score scales as multiples of gamma_c = 1/(1-rho)",
     FIELD(times), .min = 0.0, .max = 1e6, .increasing = true,
     .default_note = "0.5,0.8,0.9,1,1.1,1.2,1.5,2"},
    {"gamma", 0, ES_PARAM_REALS, "GRID",
     "score scales gamma, instead of --times: beta = gamma ln n", FIELD(gamma), .min = 0.0,
     .max = 1e6, .increasing = true, .default_note = "as --times says; 0.5..16*16 with --phase"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "samples of the random model; 0: closed form only",
     FIELD(replicates), .min = 0, .max = 1e6, .default_note = "16; 0 with --phase"},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimensions of a token of the random model", FIELD(dim),
     .min = 2, .max = 4096, .default_value = "128", .alias = "d"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "number of tokens that serve as queries",
     FIELD(queries), .min = 2, .max = 65536, .default_value = "64", .renamed_from = "tokens"},
    {"alpha", 0, ES_PARAM_NUMBER, "X", "residual: x' = attention + alpha x", FIELD(alpha),
     .min = 0.0, .max = 1e6, .default_value = "0"},
    {"realised-rho", 0, ES_PARAM_FLAG, NULL,
     "random model: use the mean cosine of each sample, not --rho, to set its score scales",
     FIELD(realised)},
    {"square", 0, ES_PARAM_NUMBER, "Q", "squared norm of a token", FIELD(square), .min = 1e-6,
     .max = 1e12, .default_value = "1"},
    {"phase", 0, ES_PARAM_FLAG, NULL, "show the phase diagram: angle ratio over gamma and rho",
     FIELD(phase)},
    {"curves", 0, ES_PARAM_FLAG, NULL,
     "show how score scalings in use change gamma beyond the training context", FIELD(curves)},
    {"contexts", 0, ES_PARAM_COUNTS, "GRID", "--curves: context lengths", FIELD(contexts), .min = 2,
     .max = 1e15, .increasing = true, .default_value = "1024..1048576*11", .unit = "tokens"},
    {"train", 0, ES_PARAM_WHOLE, "N", "--curves: training context", FIELD(train), .min = 2,
     .max = 1e15, .default_value = "4096", .unit = "tokens"},
    {"train-gamma", 0, ES_PARAM_NUMBER, "G", "--curves: gamma in training, beta/ln N",
     FIELD(train_gamma), .min = 0.0, .max = 1e6,
     .default_note = "1.2 times gamma_c of the first rho"},
    {"yarn", 0, ES_PARAM_NUMBER, "C", "--curves: scores grow like (C ln(n/N) + 1)^2; YaRN has 0.1",
     FIELD(yarn), .min = 0.0, .max = 10.0, .default_value = "0.1"},
    {0}};

double collapse_gamma(const collapse_params *p, double rho, int64_t g)
{
    return p->gamma.count ? p->gamma.reals[g] : p->times.reals[g] / (1.0 - rho);
}

/* Fills in the defaults. The phase diagram has gamma as its axis, because in gamma/gamma_c the
 * boundary would be straight by definition; elsewhere multiples of gamma_c make rho comparable. */
static es_status complete(es_job *job, collapse_params *p, es_error *err)
{
    if (p->gamma.count && p->times.count)
        return es_refuse(err, "collapse.options", "leave one of them out",
                         "--gamma and --times both set the score scales");
    if (p->phase && p->times.count)
        return es_refuse(err, "collapse.options", "use --gamma",
                         "--phase does not take --times: its axis is gamma");
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

/* Adds the parameters to the answer. */
static void answer_params(const collapse_params *p, es_answer *a)
{
    es_answer_count(a, "dim", p->dim);
    es_answer_real(a, "alpha", p->alpha);
    es_answer_real(a, "square", p->square);
    es_answer_count(a, "replicates", p->replicates);
    es_answer_reals(a, "rho", p->rho.reals, p->rho.count);
}

/* Opens the study. Sizes above MOST_DRAWN have predictions but no draws. */
static es_status open_study(es_job *job, es_error *err)
{
    collapse_params *p = job->params;
    collapse_state *s = job->state;
    int64_t sizes = 0; /* values of n that are drawn; they come first, because n increases */
    ES_TRY(complete(job, p, err));
    answer_params(p, job->answer);
    while (p->replicates && sizes < p->n.count && p->n.counts[sizes] <= MOST_DRAWN)
        sizes++;
    s->gammas = p->gamma.count ? p->gamma.count : p->times.count;
    s->pairs = sizes * p->rho.count;
    return collapse_stage(job, err);
}

/* States the memory of a thread: its tokens and the outputs of all gammas, at the largest n
 * drawn. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const collapse_params *p = job->params;
    const collapse_state *s = job->state;
    const double R = (double)p->replicates, G = (double)s->gammas, d = (double)p->dim;
    const double n = s->pairs ? p->n.reals[(s->pairs - 1) / p->rho.count] : 0.0;
    const double most = n * d + G * fmin(n, (double)p->queries) * (d + 2.0) + 3.0 * d + G;
    (void)err;
    *out = (es_cost){.flops = collapse_flops(p, s),
                     .work_bytes = 4096.0,
                     .thread_bytes = R > 0.0 ? 16.0 * most + 4e6 : 0.0,
                     .output_bytes = (double)(p->n.count * p->rho.count) * G * 2048.0};
    return ES_OK;
}

/* ---- summary ---- */

/* Averages the replicates of all pairs, once for all tables. */
static es_status average(summary_ctx *m, es_error *err)
{
    es_collapse_row *rows;
    ES_TRY(ES_JOB_NEW_2D(m->job, rows, m->s->pairs, m->s->gammas, err));
    for (int64_t i = 0; i < m->s->pairs; i++)
        es_collapse_average(es_job_cell(m->job, 0, i), m->p->replicates, m->s->gammas,
                            rows + i * m->s->gammas);
    m->measured = rows;
    return ES_OK;
}

/* Fills the tables; phase diagram and curves only if asked for. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const collapse_params *p = job->params;
    summary_ctx m = {.job = job, .p = p, .s = job->state, .answer = answer};
    ES_TRY(average(&m, err));
    ES_TRY(collapse_fill_rows(&m, err));
    ES_TRY(collapse_fill_thresholds(&m, err));
    if (p->phase)
        ES_TRY(collapse_fill_phase(&m, err));
    if (p->curves)
        ES_TRY(collapse_fill_curves(&m, err));
    return es_answer_status(answer, err);
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
    .summary = "at which score scale, growing like log n, tokens merge into one direction",
    .group = ES_GROUP_LAB,
    .usage = "[options]",
    .about =
        "n tokens with cosine rho between any two attend to one another with score scale beta "
        "= gamma ln n. Below gamma_c = 1/(1-rho) attention averages them into one direction. "
        "Above it each token sees only itself and nothing changes. Between lies a window of "
        "relative width about 4/ln n [proved]. Shows the exact values at n beside measurements of "
        "the random model: tokens along sqrt(rho) z_0 + sqrt(1-rho) z_i, whose cosines scatter "
        "like 1/sqrt(d) around the mean of their draw. The effect of this scatter on the threshold "
        "is "
        "[heuristic].\n\n"
        "--curves starts from a head with beta = G ln N at its training context N and follows "
        "gamma = beta/ln n to other contexts n: with unchanged scores; with scores that grow like "
        "(C ln(n/N) + 1)^2 (YaRN multiplies queries and keys by 0.1 ln s + 1 each); and with "
        "scores that grow like ln n/ln N (log n scaling, as in Qwen). Only these factors are "
        "modelled, not what the methods do to positions.",
    .examples = examples,
    .params = params,
    .size = sizeof(collapse_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(collapse_state),
    .open = open_study,
    .cost = cost,
    .summarise = summarise};
