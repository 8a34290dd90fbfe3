/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.c : Gaussian tokens through layers x + V Gamma(x) of n tokens, without and with a
 * norm: horizons, covariances and rates layer by layer (THEORY 9, 15).
 *
 * A cell is a stack, a number of tokens and a replicate. Limits are made before the first cell:
 * closed without a norm; with one, sets of tokens that every process draws for itself.
 *
 * Without a norm Gaussian tokens stay Gaussian, with S' = (I + VSA) S (I + VSA)', and the horizon
 * usually grows with depth. Layer norm bounds it: H_l <= (d-1) H_0 (D2). K sets of N tokens stand
 * for the limit with a norm; the mean over pairs of sets a != b of <x - x_a, x - x_b> has the
 * mean |x - x_inf|^2 up to 1/N^2 (D3), so the error of the sets does not count as error of x. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/depth/depth.h"
#include "experiments/kit/answer_kit.h"
#include "head/head.h"
#include "linalg/linalg.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "stats/fit.h"

enum { MATRICES = ES_EXPERIMENT_DEPTH + 5 }; /* cell: 3 layer + 0, 1, 2: Wq, Wk, Wv */
enum { SETS = 4 };                           /* that stand for a limit */
enum { BOTH = 2 };                           /* of --norm */

/* ---- matrices ---- */

/* The covariance of tokens before the first layer: I, or that of the uniform law on the sphere of
 * radius sqrt(d) in the d - 1 dimensions orthogonal to (1, ..., 1), where a norm puts Gaussian
 * tokens. */
static void first_covariance(es_stack_norm norm, int64_t d, double *S)
{
    const double scale = norm == ES_STACK_NONE ? 1.0 : (double)d / (double)(d - 1);
    const double mean = norm == ES_STACK_NONE ? 0.0 : scale / (double)d;
    for (int64_t i = 0; i < d * d; i++)
        S[i] = (i / d == i % d ? scale : 0.0) - mean;
}

/* A and V of a head of this kind, times what makes the horizon over S and the norm of V as asked.
 */
static es_status draw_layer(es_job *job, int64_t layer, const double *S, double asked, double *A,
                            double *V, es_error *err)
{
    const depth_params *p = job->params;
    const int64_t d = p->dim;
    const es_address at = {
        .seed = job->seed, .experiment = MATRICES, .cell = (uint64_t)(3 * layer)};
    const es_view view = es_view_f64(V, d, d);
    es_head_data drawn = {0};
    double horizon;
    es_num norm;
    es_status status = es_head_draw((es_head_kind)p->head, &at, d, job->exec.budget, &drawn, err);
    if (status == ES_OK)
        status = es_head_write(&drawn.head, d, A, V, err);
    es_head_data_free(&drawn);
    ES_TRY(status);
    ES_TRY(es_stack_horizon(S, A, d, job->exec.budget, &horizon, err));
    ES_TRY(es_norm_spectral(&view, job->exec.budget, &norm, err));
    for (int64_t i = 0; i < d * d; i++) {
        A[i] *= asked / horizon;
        V[i] *= p->value / norm.val;
    }
    return ES_OK;
}

/* Draws the matrices of a stack. A is scaled to the wanted horizon, |S^1/2 A S^1/2|, at the first
 * layer. */
static es_status make_stack(es_job *job, es_stack_norm norm, double asked, depth_stack *out,
                            es_error *err)
{
    const depth_params *p = job->params;
    const int64_t d = p->dim, size = d * d;
    double *S;
    ES_TRY(ES_JOB_NEW(job, S, size, err));
    ES_TRY(ES_JOB_NEW_2D(job, out->A, p->depth, size, err));
    ES_TRY(ES_JOB_NEW_2D(job, out->V, p->depth, size, err));
    ES_TRY(ES_JOB_NEW(job, out->horizon, p->depth + 1, err));
    first_covariance(norm, d, S);
    for (int64_t layer = 0; layer < p->depth; layer++) {
        ES_TRY(draw_layer(job, p->fresh ? layer : 0, S, asked, out->A + layer * size,
                          out->V + layer * size, err));
    }
    out->asked = asked;
    out->stack = (es_stack){.dim = d,
                            .depth = p->depth,
                            .A = out->A,
                            .V = out->V,
                            .norm = norm,
                            .precision = job->precision,
                            .seed = job->seed};
    return ES_OK;
}

/* ---- cells ---- */

static const es_cell_field cell_fields[] = {ES_FIELD(es_stack_state, error2),
                                            ES_FIELD(es_stack_state, limit_error2),
                                            ES_FIELD(es_stack_state, spread2),
                                            ES_FIELD(es_stack_state, horizon),
                                            ES_FIELD(es_stack_state, agreement),
                                            ES_FIELD(es_stack_state, cov_error),
                                            {0}};

/* Runs one replicate of n tokens through one stack. */
static es_status run_cell(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const int64_t stack = cell / (p->n.count * p->replicates),
                  of = cell % (p->n.count * p->replicates);
    const depth_stack *t = &s->stacks[stack];
    return es_stack_measure(&t->stack, t->limit, p->n.counts[of / p->replicates],
                            of % p->replicates, exec, record, err);
}

/* Scores, weights and values of all pairs; a weight takes as long as 20 operations. */
static double pair_flops(const depth_params *p) { return 4.0 * (double)p->dim + 20.0; }

/* Of one replicate with n tokens; with a norm some queries meet the sets, too. */
static double measure_flops(const depth_params *p, es_stack_norm norm, double n)
{
    const double sets = norm == ES_STACK_NONE ? 0.0 : SETS * (double)p->reference;
    return (double)p->depth * pair_flops(p) * (n * n + ES_STACK_QUERIES * sets);
}

/* Makes the stacks of all norms and horizons and adds their stage. */
static es_status open_stacks(es_job *job, es_error *err)
{
    const depth_params *p = job->params;
    depth_state *s = job->state;
    const int64_t kinds = p->norm == BOTH ? 2 : 1, H = p->horizon.count;
    double flops = 0.0;
    if (!job->precision_given)
        job->precision = ES_F64;
    ES_TRY(ES_JOB_NEW_2D(job, s->stacks, kinds, H, err));
    for (int64_t i = 0; i < kinds * H; i++) {
        const es_stack_norm norm = (es_stack_norm)(p->norm == BOTH ? i / H : p->norm);
        ES_TRY(make_stack(job, norm, p->horizon.reals[i % H], &s->stacks[i], err));
        s->n_stacks++;
        for (int64_t k = 0; k < p->n.count; k++)
            flops += measure_flops(p, norm, p->n.reals[k]) / (double)(kinds * H * p->n.count);
    }
    es_answer_count(job->answer, "dim", p->dim);
    es_answer_count(job->answer, "depth", p->depth);
    es_answer_real(job->answer, "value", p->value);
    return es_job_stage(job,
                        &(es_stage){.name = "stack",
                                    .phase = "running stacks",
                                    .noun = "stacks, sizes and replicates",
                                    .cells = s->n_stacks * p->n.count * p->replicates,
                                    .rows = p->depth + 1,
                                    ES_RECORD(es_stack_state, cell_fields),
                                    .one_thread_per_cell = true,
                                    .flops = flops,
                                    .run = run_cell},
                        err);
}

/* ---- limits ---- */

/* Returns the operations of the samples that stand for the limit; without a norm the limit is
 * exact. */
static double limit_flops(const depth_params *p, const depth_stack *t)
{
    const double N = (double)p->reference;
    return t->stack.norm == ES_STACK_NONE ? 0.0 : SETS * (double)p->depth * pair_flops(p) * N * N;
}

/* Returns the cost of limits and cells. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    (void)err;
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const double most = p->n.reals[p->n.count - 1], d = (double)p->dim;
    double begin = 0.0, held = 0.0;
    for (int64_t i = 0; i < s->n_stacks; i++) {
        begin += limit_flops(p, &s->stacks[i]);
        if (s->stacks[i].stack.norm != ES_STACK_NONE)
            held += 8.0 * SETS * (double)((p->depth + 1) * p->reference) * d;
    }
    const double rows = (double)(s->n_stacks * (p->depth + 1));
    const double cells = (double)job->stages[0].cells;
    const double tokens = fmax(most, (double)p->reference);
    *out =
        (es_cost){.flops = cells * job->stages[0].flops + begin,
                  .begin_flops = begin,
                  .output_bytes = 512.0 * rows * (double)(p->n.count + 1),
                  .thread_bytes = 64.0 * tokens * d + 8e6,
                  .work_bytes = held + 8.0 * (double)p->depth * d * d * 4.0 * (double)s->n_stacks +
                                8.0 * (double)p->n.count * (double)(p->replicates + 16) + 65536.0};
    return ES_OK;
}

/* Computes the horizons of the limit: layer l's A with the covariance before it, and after the last
 * layer with its own A once more. NaN where the covariance is above 1e100. */
static es_status limit_horizons(es_job *job, depth_stack *t, es_error *err)
{
    const int64_t d = t->stack.dim, depth = t->stack.depth;
    for (int64_t l = 0; l <= depth; l++) {
        const double *S = es_stack_limit_cov(t->limit, l);
        const double *A = t->A + (l < depth ? l : depth - 1) * d * d;
        bool sound = true;
        for (int64_t i = 0; i < d * d; i++)
            sound = sound && fabs(S[i]) < 1e100;
        t->horizon[l] = (double)NAN;
        if (sound)
            ES_TRY(es_stack_horizon(S, A, d, job->exec.budget, &t->horizon[l], err));
    }
    return ES_OK;
}

/* Makes the limit of each stack: exact without a norm, otherwise from large samples. */
static es_status make_limits(es_job *job, es_error *err)
{
    const depth_params *p = job->params;
    depth_state *s = job->state;
    es_exec exec = job->exec;
    double flops = 0.0;
    exec.progress = NULL;
    for (int64_t i = 0; i < s->n_stacks; i++)
        flops += limit_flops(p, &s->stacks[i]);
    es_job_phase(job, "drawing tokens that stand for infinitely many", flops);
    for (int64_t i = 0; i < s->n_stacks; i++) {
        depth_stack *t = &s->stacks[i];
        const int64_t sets = t->stack.norm == ES_STACK_NONE ? 0 : SETS;
        ES_TRY(es_stack_limit_new(&t->stack, sets, p->reference, &exec, &t->limit, err));
        ES_TRY(limit_horizons(job, t, err));
        ES_TRY(es_job_tick(job, i + 1, s->n_stacks));
    }
    return ES_OK;
}

/* ---- averages over replicates ---- */

/* Returns the stored state of a replicate at a layer. */
static const es_stack_state *state_of(const es_job *job, int64_t stack, int64_t size,
                                      int64_t replicate, int64_t layer)
{
    const depth_params *p = job->params;
    const es_stack_state *cell =
        es_job_cell(job, 0, (stack * p->n.count + size) * p->replicates + replicate);
    return cell + layer;
}

/* Errors at one layer for all replicates and sizes, their line, and what sets leave open. */
typedef struct layer_fit {
    double *errors;          /* (replicates, sizes) */
    es_fit_summary *summary; /* (sizes) */
    double *open;            /* (sizes) of the mean error: one standard deviation by the sets */
    unsigned *flags;         /* (sizes) */
    es_rate rate;
    bool good;
} layer_fit;

/* Allocates what the fit of one layer needs. */
static es_status fit_new(es_job *job, layer_fit *f, es_error *err)
{
    const depth_params *p = job->params;
    const int64_t P = p->n.count;
    ES_TRY(ES_JOB_NEW_2D(job, f->errors, p->replicates, P, err));
    ES_TRY(ES_JOB_NEW(job, f->summary, P, err));
    ES_TRY(ES_JOB_NEW(job, f->open, P, err));
    return ES_JOB_NEW(job, f->flags, P, err);
}

/* Returns the uncertainty of the error that the sets cause. Products of the errors of two of K sets
 * average out; if all tokens were off in the same way, each of the K(K-1)/2 pairs would leave a
 * set's error squared. So the square of the error is uncertain by at most that over the root of
 * their number, and the error by d sqrt(x) = dx / (2 sqrt(x)). */
static double left_open(double error, double limit_error2)
{
    const double pairs = 0.5 * SETS * (SETS - 1);
    return error > 0.0 ? fmax(limit_error2, 0.0) / sqrt(pairs) / (2.0 * error) : 0.0;
}

/* Fits error ~ n^-rate at one layer; points whose error is mostly that of the limit are flagged and
 * left out. */
static es_status fit_layer(es_job *job, int64_t stack, int64_t layer, layer_fit *f, es_error *err)
{
    const depth_params *p = job->params;
    const int64_t P = p->n.count, R = p->replicates;
    es_error why;
    for (int64_t k = 0; k < P; k++) {
        double theirs = 0.0, mean = 0.0;
        for (int64_t r = 0; r < R; r++) {
            const es_stack_state *x = state_of(job, stack, k, r, layer);
            f->errors[r * P + k] = sqrt(isnan(x->error2) ? x->error2 : fmax(x->error2, 0.0));
            mean += f->errors[r * P + k] / (double)R;
            theirs += x->limit_error2 / (double)R;
        }
        f->open[k] = left_open(mean, theirs);
        f->flags[k] = es_fit_flags_of(mean, 0.0, f->open[k]);
    }
    const es_status status =
        es_fit_replicates(f->errors, R, P, p->n.reals, f->flags,
                          &(es_rate_opts){.budget = job->exec.budget}, f->summary, &f->rate, &why);
    f->good = status == ES_OK;
    if (status == ES_E_MEMORY || status == ES_E_LIMIT || status == ES_E_INTERRUPTED) {
        *err = why;
        return status;
    }
    return ES_OK;
}

/* Returns the mean over replicates of one member of a layer's state, given by its offset. Cells of
 * replicates follow each other. */
#define MEMBER(member) offsetof(es_stack_state, member)

/* Returns mean and error over replicates of one number. */
static es_measured mean_of(const es_job *job, int64_t stack, int64_t size, int64_t layer,
                           size_t member)
{
    const depth_params *p = job->params;
    const es_stack_state *first = state_of(job, stack, size, 0, layer);
    const int64_t numbers = sizeof(es_stack_state) / sizeof(double);
    return es_average_column((const double *)(const void *)((const char *)first + member),
                             p->replicates, (p->depth + 1) * numbers);
}

/* ---- growth ---- */

static const char *const norm_names[] = {"none", "layer"};

/* A row of the table of layers: horizon, agreement with the limit and rate of the error. */
typedef struct growth_row {
    const char *norm;
    double start;
    int64_t layer;
    es_measured horizon;
    double horizon_exact, horizon_sets;
    es_measured agreement, rate;
    double rate_low, rate_high, power_p;
} growth_row;

static const es_column growth_columns[] = {
    ES_COL(growth_row, norm, ES_FORMAT_TEXT, "norm", ""),
    ES_COL(growth_row, start, ES_FORMAT_SHORT, "H at first", "", "horizon before the first layer"),
    ES_COL(growth_row, layer, ES_FORMAT_COUNT, "layers", "", "that tokens have been through"),
    ES_COL(
        growth_row, horizon, ES_FORMAT_REAL, "H measured", "",
        "`|C^1/2 A C^1/2|`, C the covariance of the largest number of tokens, A of the next layer"),
    ES_COL(growth_row, horizon_exact, ES_FORMAT_REAL, "exact", "",
           "of infinitely many tokens without a norm, by `S' = (I + V S A) S (I + V S A)'`",
           .standing = ES_STANDING_PROVED),
    ES_COL(growth_row, horizon_sets, ES_FORMAT_REAL, "of the sets", "",
           "with a norm: of the sets of tokens that approximate the limit"),
    ES_COL(growth_row, agreement, ES_FORMAT_REAL, "C on S", "",
           "`<C, S>/<S, S>`, S the covariance of the limit: 1 if they agree on average"),
    ES_COL(growth_row, rate, ES_FORMAT_REAL, "rate", "",
           "of the error of tokens: it falls like `n^-rate`"),
    ES_COL_KEY(growth_row, rate_low, "rate_ci.0", ES_FORMAT_REAL, "rate from", "",
               "95 % interval, Student's t over replicates"),
    ES_COL_KEY(growth_row, rate_high, "rate_ci.1", ES_FORMAT_REAL, "rate to", ""),
    ES_COL(growth_row, power_p, ES_FORMAT_SHORT, "power law p", "",
           "probability that errors of a power law bend more"),
    {0}};
static const es_table_spec growth_table = {
    "growth", growth_columns,
    ES_VIEW("Horizon and rate by layer",
            "norm start layer horizon horizon_exact horizon_sets rate rate_ci.0 rate_ci.1 "
            "agreement",
            "The horizon H measures how sharp attention is. With layer norm and d dimensions it "
            "grows by a factor of at most d - 1 [proved]."),
    ES_ROW(growth_row), .keys = "norm start layer"};

/* Adds the row of a layer: its horizon at the largest n, exact or from samples, and the fitted
 * rate. */
static void add_growth(const es_job *job, int64_t stack, int64_t layer, const layer_fit *f,
                       es_table *t)
{
    const depth_params *p = job->params;
    const depth_stack *about = &((const depth_state *)job->state)->stacks[stack];
    growth_row *r = es_rows_add(t, growth_row);
    if (!r)
        return;
    r->norm = norm_names[about->stack.norm];
    r->start = about->asked;
    r->layer = layer;
    r->horizon = mean_of(job, stack, p->n.count - 1, layer, MEMBER(horizon));
    *(about->stack.norm == ES_STACK_NONE ? &r->horizon_exact : &r->horizon_sets) =
        about->horizon[layer];
    r->agreement = mean_of(job, stack, p->n.count - 1, layer, MEMBER(agreement));
    if (layer && f->good) {
        r->rate = (es_measured){f->rate.mean.rate, f->rate.se};
        r->rate_low = f->rate.low;
        r->rate_high = f->rate.high;
        r->power_p = f->rate.power_p;
    }
}

/* ---- stack: errors by layer and n ---- */

/* A row of the table of sizes: the error at one layer and n. */
typedef struct size_row {
    const char *norm;
    double start;
    int64_t layer, n;
    es_measured error;
    double open, spread, cov_error;
    bool used;
} size_row;

static const es_column size_columns[] = {
    ES_COL(size_row, norm, ES_FORMAT_TEXT, "norm", ""),
    ES_COL(size_row, start, ES_FORMAT_SHORT, "H at first", "", "horizon before the first layer"),
    ES_COL(size_row, layer, ES_FORMAT_COUNT, "layers", "", "that tokens have been through"),
    ES_COL(size_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(size_row, error, ES_FORMAT_REAL, "error", "",
           "root mean square distance of tokens from their limit, mean over replicates"),
    ES_COL(size_row, open, ES_FORMAT_SHORT, "left open", "",
           "by the sets that approximate the limit, one standard deviation at most"),
    ES_COL(size_row, spread, ES_FORMAT_SHORT, "spread", "",
           "root of the trace of the tokens' covariance"),
    ES_COL(size_row, cov_error, ES_FORMAT_SHORT, "covariance off by", "",
           "`|C - S|/|S|`, Frobenius, mean over replicates"),
    ES_COL(size_row, used, ES_FORMAT_FLAG, "used", "", "for the rate"),
    {0}};
static const es_table_spec size_table = {"stack", size_columns,
                                         ES_VIEW("Error by layer and n", .only_with_full = true),
                                         ES_ROW(size_row), .keys = "norm start layer n"};

/* Adds the errors of a layer at each n. */
static void add_sizes(const es_job *job, int64_t stack, int64_t layer, const layer_fit *f,
                      es_table *t)
{
    const depth_params *p = job->params;
    const depth_stack *about = &((const depth_state *)job->state)->stacks[stack];
    for (int64_t k = 0; k < p->n.count; k++) {
        size_row *r = es_rows_add(t, size_row);
        if (!r)
            return;
        *r = (size_row){.norm = norm_names[about->stack.norm],
                        .start = about->asked,
                        .layer = layer,
                        .n = p->n.counts[k],
                        .error = {f->summary[k].mean, f->summary[k].se},
                        .open = f->open[k],
                        .spread = sqrt(mean_of(job, stack, k, layer, MEMBER(spread2)).value),
                        .cov_error = mean_of(job, stack, k, layer, MEMBER(cov_error)).value,
                        .used = !f->flags[k]};
    }
}

/* ---- findings ---- */

/* Writes "after layer 1 like n^-0.5", or that nothing could be fitted. */
static const char *say_rate(es_measured rate, int64_t layer, char out[2 * ES_SAY_SIZE])
{
    char power[ES_SAY_SIZE];
    if (isfinite(rate.value))
        snprintf(out, 2 * ES_SAY_SIZE, "after layer %lld like %s", (long long)layer,
                 es_say_power(rate.value, rate.se, power));
    else
        snprintf(out, 2 * ES_SAY_SIZE, "after layer %lld no power could be fitted",
                 (long long)layer);
    return out;
}

/* Reports the horizon of a stack after the last layer at which that of the limit and that of n
 * tokens are finite, and the rates there and after the first layer; rows (depth + 1) are those of
 * the stack. */
static void report_stack(const depth_stack *t, const depth_params *p, const growth_row *rows,
                         es_answer *a)
{
    int64_t last = p->depth;
    char first_rate[2 * ES_SAY_SIZE], last_rate[2 * ES_SAY_SIZE];
    while (last > 1 && !(isfinite(rows[last].horizon.value) && isfinite(t->horizon[last])))
        last--;
    es_answer_add_finding(a,
                          "%s: the horizon goes from %.3g to %.3g in %lld layers. "
                          "How errors fall with the number of tokens: %s, %s.",
                          t->stack.norm == ES_STACK_NONE ? "Without a norm" : "With layer norm",
                          t->horizon[0], t->horizon[last], (long long)last,
                          say_rate(rows[1].rate, 1, first_rate),
                          say_rate(rows[last].rate, last, last_rate));
}

/* Returns the largest horizon over the layers; infinite where the stack diverges. */
static double largest_horizon(const depth_stack *t)
{
    double most = 0.0;
    for (int64_t l = 0; l <= t->stack.depth; l++)
        most = isfinite(t->horizon[l]) ? fmax(most, t->horizon[l]) : (double)INFINITY;
    return most;
}

/* Returns what the norm does to the growth of the horizon; less than 5 % counts as no growth. */
static const char *norm_effect(const depth_stack *none, const depth_stack *layer)
{
    const double with = largest_horizon(layer), without = largest_horizon(none), no_growth = 1.05;
    if (with <= no_growth * layer->horizon[0])
        return without <= no_growth * none->horizon[0] ? "has no growth of the horizon to stop"
                                                       : "stops the growth of the horizon";
    if (!isfinite(without))
        return "bounds the growth of the horizon";
    return with < without ? "slows the growth of the horizon"
                          : "does not slow the growth of the horizon";
}

/* Reports whether the norm stops the growth, for the largest horizon. Its tokens have |x|^2 = d, so
 * |S| <= tr S <= d, where |S| = d/(d-1) at first: H grows by at most the factor d - 1. */
static void report_norm(const depth_params *p, const depth_state *s, es_answer *a)
{
    const depth_stack *none = &s->stacks[p->horizon.count - 1];
    const depth_stack *layer = &s->stacks[s->n_stacks - 1];
    const double without = largest_horizon(none);
    char other[ES_SAY_SIZE] = "without bound";
    if (isfinite(without))
        snprintf(other, sizeof other, "%.3g", without);
    es_answer_add_finding(
        a, "Layer norm %s: in %lld layers it is at most %.3g with the norm, and %s without it.",
        norm_effect(none, layer), (long long)p->depth, largest_horizon(layer), other);
}

/* Reports the largest horizon of each norm, or the smallest and the largest of a single norm. */
static void report_stacks(const es_job *job, const es_table *growth, es_answer *a)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const growth_row *rows = es_rows(growth, growth_row);
    const int64_t H = p->horizon.count;
    const int64_t first = p->norm == BOTH ? H - 1 : 0, step = p->norm == BOTH ? H : es_say_step(H);
    if (p->norm == BOTH)
        report_norm(p, s, a);
    for (int64_t i = first; i < s->n_stacks; i += step)
        report_stack(&s->stacks[i], p, rows + i * (p->depth + 1), a);
}

/* Fills both tables and adds the findings. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    es_table *growth = es_answer_table(answer, &growth_table);
    es_table *sizes = es_answer_table(answer, &size_table);
    layer_fit fit;
    ES_TRY(fit_new(job, &fit, err));
    for (int64_t i = 0; i < s->n_stacks; i++)
        for (int64_t l = 0; l <= p->depth; l++) {
            ES_TRY(fit_layer(job, i, l, &fit, err));
            add_growth(job, i, l, &fit, growth);
            if (l)
                add_sizes(job, i, l, &fit, sizes);
        }
    ES_TRY(es_answer_status(answer, err));
    report_stacks(job, growth, answer);
    return ES_OK;
}

const depth_question depth_synthetic = {
    .open = open_stacks, .cost = cost, .begin = make_limits, .summarise = summarise};
