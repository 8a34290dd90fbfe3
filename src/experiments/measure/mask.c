/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c : which keys the queries see: --causal, --window.
 *
 * The last query stands at the last key: fewer queries than keys are those of the last keys, as
 * where a model decodes with a cache, and as flash-attention has it since its version 2.1. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/measure.h"

bool measure_masked(const measure_params *p) { return p->causal || p->window; }

int64_t measure_shift(const measure_state *s) { return measure_masked(s->p) ? s->n - s->m : 0; }

es_status measure_mask_start(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    int64_t *places;
    if (!measure_masked(s->p))
        return ES_OK;
    ES_TRY(ES_JOB_NEW(job, places, s->m, err));
    for (int64_t i = 0; i < s->m; i++)
        places[i] = i + measure_shift(s);
    s->mask = (es_mask){.positions = places, .causal = s->p->causal, .window = s->p->window};
    s->opts.mask = &s->mask;
    return ES_OK;
}

int64_t measure_seen(const measure_state *s, int64_t query, int64_t p)
{
    const int64_t n = s->opts.prefixes[p], place = query + measure_shift(s), W = s->p->window;
    int64_t first = 0, end = n;
    if (!measure_masked(s->p))
        return n;
    if (s->p->causal && place + 1 < end)
        end = place + 1;
    if (W && place - W + s->p->causal > 0)
        first = place - W + s->p->causal;
    if (W && !s->p->causal && place + W + 1 < end)
        end = place + W + 1;
    return end - first;
}

double measure_mean_seen(const measure_state *s, int64_t p, double (*f)(double))
{
    const int64_t queries = measure_masked(s->p) ? measure_queries(s, p) : 1;
    double sum = 0.0;
    for (int64_t i = 0; i < queries; i++) {
        const double seen = (double)measure_seen(s, i, p);
        sum += f ? f(seen) : seen;
    }
    return sum / (double)queries;
}

/* ---- findings ---- */

/* The row about the mask. */
typedef struct mask_row {
    bool causal;
    double window; /* NaN: none */
    int64_t first_place;
    double seen;
} mask_row;

static const es_column mask_columns[] = {
    ES_COL(mask_row, causal, ES_FORMAT_FLAG, "causal", "", "no query sees a key behind its own"),
    ES_COL(mask_row, window, ES_FORMAT_COUNT, "window", "keys",
           "to either side of a query's own key; causal: the last ones, its own included"),
    ES_COL(mask_row, first_place, ES_FORMAT_COUNT, "first query at key", "",
           "the last one stands at the last"),
    ES_COL(mask_row, seen, ES_FORMAT_REAL, "keys seen", "keys",
           "by a query at the longest prefix, mean"),
    {0}};
static const es_table_spec mask_table = {"mask", mask_columns,
                                         ES_VIEW("Which keys queries see", .only_with_full = true),
                                         ES_ROW(mask_row), .record = true};

void measure_mask_put(const measure_state *s, es_answer *a)
{
    if (!measure_masked(s->p))
        return;
    mask_row *r = es_rows_add(es_answer_table(a, &mask_table), mask_row);
    if (!r)
        return;
    r->causal = s->p->causal;
    r->window = s->p->window ? (double)s->p->window : (double)NAN;
    r->first_place = measure_shift(s);
    r->seen = measure_mean_seen(s, s->P - 1, NULL);
}
