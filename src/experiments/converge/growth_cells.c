/* SPDX-License-Identifier: Apache-2.0 */
/* growth_cells.c : one cell of the experiment without a limit: attention over tokens whose
 * exponential moments are infinite.
 *
 * A query x weighs token y by e^s, s = <t, y>, t = Ax. Where E e^s is infinite the sum over n
 * tokens is close to its few largest terms, not to n times a mean (THEORY 9, laws without a limit):
 *
 *     Student's t    s has a power tail: the largest score runs away from the second, its weight
 *                    tends to 1, and the output is the token that has it: n^{1/freedom}
 *     exponential    e^s has a power tail of index alpha = edge/(size max|B't|) <= 1: weights are
 *     tails          those of a Poisson-Dirichlet law, sum w^2 has mean 1 - alpha, and the output
 *                    grows like ln n
 *
 * Queries below the edge of an exponential tail have a limit and are left out. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "experiments/converge/converge.h"
#include "law/law_row.h"
#include "random/experiment.h"

bool es_converge_fails(const es_law *law) { return !(es_law_traits(law->kind) & ES_LAW_ENTIRE); }

/* Memory of a replicate beside its sample: m queries, S scales, P sizes. */
typedef struct failing {
    es_converge_sample sample;
    double *a, *v;   /* (dim, dim), (channels, dim) */
    double *tilts;   /* (m, dim) B'Ax at scale 1 */
    double *output;  /* (S, P, m, channels) */
    double *top;     /* (S, P, m) */
    double *squares; /* (S, P, m) */
    int64_t m;
    es_arena arena;
} failing;

/* Allocates one replicate of a law without a limit. */
static es_status failing_new(failing *f, const es_converge_spec *spec, es_error *err)
{
    const int64_t d = spec->law->dim, dv = channels_of(spec);
    const int64_t sets = spec->n_scales * spec->n_sizes;
    *f = (failing){.m = map_queries_of(spec), .arena = {.budget = budget_of(spec)}};
    const struct {
        double **at;
        int64_t rows, cols;
    } parts[] = {{&f->a, d, d},         {&f->v, dv, d},
                 {&f->tilts, f->m, d},  {&f->output, sets * f->m, dv},
                 {&f->top, sets, f->m}, {&f->squares, sets, f->m}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ES_TRY(ES_ARENA_NEW_2D(&f->arena, *parts[i].at, parts[i].rows, parts[i].cols, "a replicate",
                               err));
    return ES_OK;
}

/* Frees the replicate. */
static void failing_free(failing *f)
{
    es_converge_sample_free(&f->sample);
    es_arena_free(&f->arena);
}

/* ---- tilts ---- */

/* Computes B'Ax of every query, which multiplies the independent coordinates of the law. */
static void make_tilts(const es_law *law, failing *f)
{
    const int64_t d = law->dim;
    const double *B = law->factor;
    for (int64_t q = 0; q < f->m; q++) {
        const double *x = f->sample.asking + q * d;
        double *t = f->tilts + q * d;
        for (int64_t i = 0; i < d; i++)
            t[i] = 0.0;
        for (int64_t i = 0; i < d; i++) {
            double ax = 0.0;
            for (int64_t j = 0; j < d; j++)
                ax += f->a[i * d + j] * x[j];
            for (int64_t j = 0; j < d && B; j++)
                t[j] += B[i * d + j] * ax;
            if (!B)
                t[i] = ax;
        }
    }
}

/* Returns |V B e_i|: how far an output moves with coordinate i of the base law. */
static double step_of(const es_law *law, const failing *f, int64_t channels, int64_t i)
{
    const int64_t d = law->dim;
    double sum = 0.0;
    for (int64_t c = 0; c < channels; c++) {
        double along = 0.0;
        for (int64_t j = 0; j < d; j++)
            along += f->v[c * d + j] * (law->factor ? law->factor[j * d + i] : i == j ? 1.0 : 0.0);
        sum += along * along;
    }
    return sqrt(sum);
}

/* What theory predicts for one query at one scale. */
typedef struct prediction {
    bool fails;
    double squares; /* mean of sum w^2 for n to infinity */
    double step;    /* growth of |output| when ln n grows by 1; 0 for a power tail */
} prediction;

/* Predicts for one query: exponential tails fail where the tilt passes the edge, alpha <= 1.
 * Weights then have tail index alpha, E sum w^2 -> 1 - alpha, and the output grows by `step` per ln
 * n. */
static prediction predict(const es_converge_spec *spec, const failing *f, int64_t q, double scale)
{
    const es_law *law = spec->law;
    const double *t = f->tilts + q * law->dim, edge = es_law_row_of(law->kind)->edge;
    int64_t at = 0;
    if (edge == 0.0) /* infinite at every tilt */
        return (prediction){.fails = true, .squares = 1.0};
    for (int64_t i = 1; i < law->dim; i++)
        if (fabs(t[i]) > fabs(t[at]))
            at = i;
    const double alpha = edge / (law->size * scale * fabs(t[at]));
    return (prediction){.fails = alpha <= 1.0,
                        .squares = 1.0 - alpha,
                        .step = law->size / edge * step_of(law, f, channels_of(spec), at)};
}

/* ---- measurements ---- */

/* Returns the norm of a vector. */
static double norm_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Averages over the queries without a limit, at one scale and size; all 0 if there are none. */
static void average(const es_converge_spec *spec, const failing *f, int64_t set,
                    es_converge_failure *out)
{
    const double scale = spec->scales[set / spec->n_sizes];
    const int64_t dv = channels_of(spec);
    double count = 0.0;
    *out = (es_converge_failure){0};
    for (int64_t q = 0; q < f->m; q++) {
        const int64_t at = set * f->m + q;
        const prediction x = predict(spec, f, q, scale);
        if (!x.fails)
            continue;
        const double norm = norm_of(f->output + at * dv, dv);
        count += 1.0;
        out->log_norm += log(norm);
        out->norm += norm;
        out->top_weight += f->top[at];
        out->sum_squares += f->squares[at];
        out->ess += 1.0 / f->squares[at];
        out->predicted_squares += x.squares;
        out->predicted_step += x.step;
    }
    double *numbers[] = {&out->log_norm,      &out->norm, &out->top_weight,
                         &out->sum_squares,   &out->ess,  &out->predicted_squares,
                         &out->predicted_step};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && count > 0.0; i++)
        *numbers[i] /= count;
    out->beyond = count / (double)f->m;
}

/* Draws a replicate, computes attention at every scale and size, and compares it with the
 * predictions. */
static es_status measure(const es_converge_spec *spec, int64_t number, failing *f,
                         es_converge_failure *out, es_error *err)
{
    ES_TRY(es_head_write(spec->head, spec->law->dim, f->a, f->v, err));
    ES_TRY(es_converge_sample_draw(spec, ES_EXPERIMENT_CONVERGE_TOKENS, (uint64_t)number,
                                   &f->sample, err));
    const es_view few = es_view_rows(&f->sample.q_view, 0, f->m);
    const es_attend_opts opts = es_converge_attend_opts(spec, f->sample.scales);
    const es_attend_out results = {
        .output = f->output, .top_weight = f->top, .sum_squares = f->squares};
    ES_TRY(es_attend(&few, &f->sample.k_view, &f->sample.v_view, &opts, &results, err));
    make_tilts(spec->law, f);
    for (int64_t set = 0; set < spec->n_scales * spec->n_sizes; set++)
        average(spec, f, set, &out[set]);
    return ES_OK;
}

es_status es_converge_failing(const es_converge_spec *spec, int64_t number,
                              es_converge_failure *out, es_error *err)
{
    failing f;
    ES_TRY(es_converge_check(spec, err));
    if (!es_converge_fails(spec->law))
        return es_fail(err, ES_E_ARGUMENT, "converge.failing", "use es_converge_replicate()",
                       "attention over tokens of this law has a limit");
    if (number < 0)
        return es_fail(err, ES_E_RANGE, "converge.replicate", "replicates count from 0",
                       "replicate %lld", (long long)number);
    es_status status = failing_new(&f, spec, err);
    if (status == ES_OK)
        status = measure(spec, number, &f, out, err);
    failing_free(&f);
    return status;
}

es_status es_converge_failing_cost(const es_converge_spec *spec, es_converge_cost *out,
                                   es_error *err)
{
    const int64_t d = spec->law->dim, dv = channels_of(spec), m = map_queries_of(spec);
    const es_attend_opts opts = es_converge_attend_opts(spec, spec->scales);
    const double sets = (double)(spec->n_scales * spec->n_sizes);
    es_attend_plan plan;
    ES_TRY(es_converge_check(spec, err));
    ES_TRY(
        es_attend_plan_for(m, largest_size(spec), key_dim_of(spec), dv, &opts, false, &plan, err));
    const double kept = (double)(d * d + dv * d + m * d) + sets * (double)(m * (dv + 2));
    *out = (es_converge_cost){.flops = plan.flops,
                              .bytes = (size_t)((double)plan.bytes + 8.0 * kept +
                                                es_converge_sample_bytes(spec) + 16.0 * ES_ALIGN)};
    return ES_OK;
}
