/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : attention of one head, and statistics over its queries. */
#include <math.h>

#include "base/error.h"
#include "experiments/measure/oracle.h"

const es_cell_field measure_fields[] = {
    ES_FIELD(measure_numbers, entropy),
    ES_FIELD(measure_numbers, perplexity),
    ES_FIELD(measure_numbers, ess),
    ES_FIELD(measure_numbers, sum_squares),
    ES_FIELD(measure_numbers, top_weight),
    ES_FIELD(measure_numbers, lse),
    ES_FIELD(measure_numbers, output_mean_norm),
    ES_FIELD(measure_numbers, output_cov_trace),
    ES_FIELD(measure_numbers, check_output),
    ES_FIELD(measure_numbers, check_lse),
    ES_FIELD(measure_numbers, check_entropy),
    ES_FIELD_AS(measure_numbers, their.error, "compare_error"),
    ES_FIELD_AS(measure_numbers, their.total, "compare_total"),
    ES_FIELD_AS(measure_numbers, their.max_abs, "compare_max_abs"),
    ES_FIELD_AS(measure_numbers, their.max_ulps, "compare_max_ulps"),
    ES_FIELD_AS(measure_numbers, their.worst, "compare_worst"),
    ES_FIELD_AS(measure_numbers, their.worst_row, "compare_worst_row"),
    ES_FIELD_AS(measure_numbers, their.nonfinite, "compare_nonfinite"),
    ES_FIELD_AS(measure_numbers, their.nonfinite_row, "compare_nonfinite_row"),
    ES_FIELD_AS(measure_numbers, their.nonfinite_col, "compare_nonfinite_col"),
    ES_FIELD_AS(measure_numbers, their.largest, "compare_largest"),
    ES_FIELD_AS(measure_numbers, their.ratio, "compare_ratio"),
    ES_FIELD_AS(measure_numbers, their.expected, "compare_expected"),
    ES_FIELD_AS(measure_numbers, their.expected_row, "compare_expected_row"),
    ES_FIELD_AS(measure_numbers, their.beyond, "compare_beyond"),
    ES_FIELD_AS(measure_numbers, their.allowed, "compare_allowed"),
    ES_FIELD_AS(measure_numbers, bars.error_bar, "error_bar"),
    ES_FIELD_AS(measure_numbers, bars.error_bar_independent, "error_bar_independent"),
    ES_FIELD_AS(measure_numbers, bars.design_effect, "design_effect"),
    ES_FIELD_AS(measure_numbers, bars.error_bar_relative, "error_bar_relative"),
    ES_FIELD_AS(measure_numbers, bars.error_bar_t, "error_bar_t"),
    ES_FIELD_AS(measure_numbers, bars.error_bar_valid, "error_bar_valid"),
    {0}};

/* ---- progress ---- */

bool measure_stop(const es_exec *exec)
{
    return exec->progress && exec->progress(exec->progress_user, 1.0, 1.0);
}

bool measure_stop_only(void *user, double done, double total)
{
    (void)done;
    (void)total;
    return measure_stop(user);
}

/* ---- statistics over queries ---- */

/* Returns x: the scale on which entropies are averaged. */
static double same(double x) { return x; }
/* Returns 1/x: sum w^2 to the effective number of keys and back. */
static double inverse(double x) { return 1.0 / x; }
static double decay(double x) { return exp(-x); }

/* Returns the mean of f(x - from) and its standard error, NaN for one query; x has `stride` doubles
 * from one query to the next. */
static es_measured mean_from(double from, const double *x, int64_t count, int64_t stride,
                             double (*f)(double))
{
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += f(x[i * stride] - from);
    const double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double off = f(x[i * stride] - from) - mean;
        squares += off * off;
    }
    return (es_measured){mean, sqrt(squares / (double)(count - 1) / (double)count)};
}

/* Returns the mean of f(x), as mean_from(). */
static es_measured mean_of(const double *x, int64_t count, int64_t stride, double (*f)(double))
{
    return mean_from(0.0, x, count, stride, f);
}

/* Computes the norm of the mean output with its error to first order, |grad|^2 = u' C u / queries
 * for u = mean / |mean|, and the trace of the covariance C; `full` (dv + dv dv) gets mean and
 * covariance unless it is NULL. */
static void fill_moments(const es_moments *moments, double *cov, measure_numbers *out, double *full)
{
    const int64_t d = moments->dim;
    es_moments_covariance(moments, 0, cov);
    double norm2 = 0.0, trace = 0.0, spread = 0.0;
    for (int64_t i = 0; i < d; i++) {
        norm2 += moments->mean[i] * moments->mean[i];
        trace += cov[i * d + i];
        for (int64_t j = 0; j < d; j++)
            spread += moments->mean[i] * cov[i * d + j] * moments->mean[j];
    }
    out->output_mean_norm.value = sqrt(norm2);
    out->output_mean_norm.se = sqrt(fmax(spread, 0.0) / norm2 / (double)(moments->count - 1));
    out->output_cov_trace = trace;
    for (int64_t i = 0; full && i < d; i++)
        full[i] = moments->mean[i];
    for (int64_t i = 0; full && i < d * d; i++)
        full[d + i] = cov[i];
}

/* Fills the numbers of scale `at` / P and prefix `at` % P. ESS and perplexity are means of
 * 1/sum w^2 and exp(entropy) over queries, not these functions of means: a few queries with
 * spread-out weights would vanish in the latter (Jensen). */
static void fill_numbers(const measure_state *s, int64_t head, const es_attend_out *o, int64_t at,
                         double *cov, double *cell)
{
    const int64_t count = measure_queries(s, at % s->P), first = at * s->m;
    measure_numbers *out = measure_at(s, cell, at);
    double *mass = (double *)(void *)(out + 1), *sink = (double *)(void *)out + s->numbers - 2;
    out->entropy = mean_of(o->entropy + first, count, 1, same);
    out->perplexity = mean_of(o->entropy + first, count, 1, exp);
    out->ess = mean_of(o->sum_squares + first, count, 1, inverse);
    out->sum_squares = mean_of(o->sum_squares + first, count, 1, same);
    out->top_weight = mean_of(o->top_weight + first, count, 1, same);
    out->lse = mean_of(o->lse + first, count, 1, same);
    for (int64_t k = 0; k < s->K; k++) {
        const es_measured m = mean_of(o->top_mass + first * s->K + k, count, s->K, same);
        mass[k] = m.value;
        mass[s->K + k] = m.se;
    }
    fill_moments(&o->moments[at], cov, out, s->p->moments ? mass + 2 * s->K : NULL);
    if (s->sinks) {
        const es_measured m = mean_from(s->sinks[head], o->lse + first, count, 1, decay);
        sink[0] = m.value;
        sink[1] = m.se;
    }
}

/* ---- a head ---- */

/* Allocates the results of es_attend() for one head, which the cost counts as results. */
static es_status allocate_results(const measure_state *s, es_arena *scratch, es_attend_out *out,
                                  double **cov, es_error *err)
{
    const int64_t cells = s->S * s->P, each = cells * s->m;
    const char *what = "statistics of a head";
    ES_TRY(ES_ARENA_NEW(scratch, out->lse, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->entropy, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->top_weight, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->top_index, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->sum_squares, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->moments, cells, what, err));
    ES_TRY(ES_ARENA_NEW_2D(scratch, *cov, s->dv, s->dv, what, err));
    if (s->K)
        ES_TRY(ES_ARENA_NEW_2D(scratch, out->top_mass, each, s->K, what, err));
    if (s->opts.spread)
        ES_TRY(ES_ARENA_NEW(scratch, out->spread2, each, what, err));
    if (s->p->block) {
        ES_TRY(ES_ARENA_NEW_2D(scratch, out->block_powers, each, 3, what, err));
        ES_TRY(ES_ARENA_NEW_2D(scratch, out->block_spread2, each, s->dv, what, err));
    }
    if (s->keeps_output)
        ES_TRY(ES_ARENA_NEW_2D(scratch, out->output, each, s->dv, what, err));
    return ES_OK;
}

/* Computes attention of one head: numbers of the cell, and what goes to files. */
static es_status attend(measure_state *s, int64_t head, const es_exec *exec, es_arena *scratch,
                        double *cell, es_error *err)
{
    es_attend_out out = {0};
    es_attend_opts opts = measure_opts_of(s, head);
    es_view v[3];
    measure_bar *bars;
    double *cov;
    opts.exec = exec;
    ES_TRY(allocate_results(s, scratch, &out, &cov, err));
    measure_views(s, head, v);
    ES_TRY(es_attend(&v[MEASURE_Q], &v[MEASURE_K], &v[MEASURE_V], &opts, &out, err));
    for (int64_t at = 0; at < s->S * s->P; at++) {
        fill_numbers(s, head, &out, at, cov, cell);
        es_moments_free(&out.moments[at]);
    }
    ES_TRY(measure_check(s, head, &out, exec, cell, err));
    if (s->p->compare)
        measure_at(s, cell, 0)->their = compare_head(s, head, &out);
    ES_TRY(measure_bars(s, &out, scratch, cell, &bars, err));
    measure_files_head(s, head, &out, bars);
    return ES_OK;
}

es_status measure_head(es_job *job, int64_t head, const es_exec *exec, void *record, es_error *err)
{
    double *out = record;
    es_arena scratch = {0};
    const es_status status = attend(job->state, head, exec, &scratch, out, err);
    es_arena_free(&scratch);
    return status;
}
