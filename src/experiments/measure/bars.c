/* bars.c : how far outputs are from those of infinitely many such keys, from the spread of
 * blocks of keys in this one context (stats/error_bar.h, THEORY 9 (E2), (E3)). */
#include <math.h>

#include "base/error.h"
#include "experiments/measure/question.h"
#include "stats/average.h"
#include "stats/error_bar.h"

const char *const measure_bar_names[MEASURE_BARS] = {"error_bar",     "error_bar_independent",
                                                     "design_effect", "error_bar_relative",
                                                     "error_bar_t",   "error_bar_told"};

/* The bars of query `at` of es_attend()'s results: (MEASURE_BARS). */
static void bars_of(const measure_state *s, const es_attend_out *o, int64_t at, int64_t n,
                    double *to)
{
    const es_error_bar bar = es_error_bar_of(o->block_powers + 3 * at, n, o->entropy[at]);
    double blocks2 = 0.0, length2 = 0.0;
    for (int64_t c = at * s->dv; c < (at + 1) * s->dv; c++) {
        blocks2 += o->block_spread2[c];
        length2 += o->output[c] * o->output[c];
    }
    const double spread2 = bar.factor * blocks2;
    to[MEASURE_BAR] = sqrt(spread2);
    to[MEASURE_BAR_INDEPENDENT] = sqrt(o->spread2[at] / (1.0 - o->sum_squares[at]));
    to[MEASURE_BAR_DESIGN] = blocks2 / o->spread2[at]; /* (E2)/(E1): neither is corrected */
    to[MEASURE_BAR_RELATIVE] = sqrt(spread2 / length2);
    to[MEASURE_BAR_T] = bar.t;
    to[MEASURE_BAR_TOLD] = bar.told;
}

/* Medians over the queries that can tell, and their share. `values` (m) is working space. */
static void put_medians(const double *bars, int64_t count, double *values, double *out)
{
    int64_t told = 0;
    for (int bar = 0; bar < MEASURE_BAR_TOLD; bar++) {
        told = 0;
        for (int64_t i = 0; i < count; i++)
            if (bars[i * MEASURE_BARS + MEASURE_BAR_TOLD] == 1.0 &&
                isfinite(bars[i * MEASURE_BARS + bar]))
                values[told++] = bars[i * MEASURE_BARS + bar];
        es_sort_reals(values, told);
        out[bar] = es_median_of(values, told);
    }
    told = 0;
    for (int64_t i = 0; i < count; i++)
        told += bars[i * MEASURE_BARS + MEASURE_BAR_TOLD] == 1.0;
    out[MEASURE_BAR_TOLD] = (double)told / (double)count;
}

es_status measure_bars(const measure_state *s, const es_attend_out *ours, es_arena *scratch,
                       double *cell, double **bars, es_error *err)
{
    double *memory, *values;
    *bars = NULL;
    if (!s->p->block)
        return ES_OK;
    ES_TRY(ES_ARENA_NEW_2D(scratch, memory, s->S * s->P * s->m, MEASURE_BARS, "error bars", err));
    ES_TRY(ES_ARENA_NEW(scratch, values, s->m, "error bars", err));
    *bars = memory;
    for (int64_t at = 0; at < s->S * s->P; at++) {
        const int64_t count = measure_queries(s, at % s->P);
        double *here = *bars + at * s->m * MEASURE_BARS;
        for (int64_t i = 0; i < s->m; i++)
            for (int bar = 0; bar < MEASURE_BARS; bar++)
                here[i * MEASURE_BARS + bar] = (double)NAN;
        for (int64_t i = 0; i < count; i++)
            bars_of(s, ours, at * s->m + i, measure_seen(s, i, at % s->P), here + i * MEASURE_BARS);
        put_medians(here, count, values, cell + at * s->numbers + MEASURE_FIRST_BAR);
    }
    return ES_OK;
}
