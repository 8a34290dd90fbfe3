/* SPDX-License-Identifier: Apache-2.0 */
/* position_cells.c : bins of places, windows and distances; a block of text through a causal model,
 * head by head. What is summed over a head is in probe/position_walk.c. */
#include "experiments/probe/positions.h"

#include <math.h>

#include "base/error.h"
#include "experiments/kit/cell_kit.h"
#include "model/model.h"

/* ---- grids ---- */

/* Edge `i` of the scale of half octaves: 1, 1, 2, 3, 4, 6, 8, 11, 16, ... */
static int64_t edge(int64_t i) { return (int64_t)llround(exp2(0.5 * (double)i)); }

/* A last bin shorter than this times its beginning is joined to the one before: it would have few
 * queries and stand beside one of nearly the same n. */
#define SHORTEST 1.1

/* Fails for a length or window outside its range. */
static es_status check(const es_positions_spec *spec, es_error *err)
{
    ES_TRY(es_check_range(spec->length, 2, INT64_C(1) << 24, "positions.length", err));
    return es_check_range(spec->window, 0, INT64_C(1) << 40, "positions.window", err);
}

es_status es_positions_grid_of(const es_positions_spec *spec, es_positions_grid *out, es_error *err)
{
    const int64_t n = spec->length;
    const int64_t seen = spec->window && spec->window < n ? spec->window : n;
    es_positions_grid grid = {.seen = seen};
    ES_TRY(check(spec, err));
    for (int64_t i = 0; edge(i) < n; i++) {
        if (edge(i + 1) == edge(i)) /* 1 comes twice */
            continue;
        if (SHORTEST * (double)edge(i) < (double)n)
            grid.to[grid.bins++] = edge(i);
        if (edge(i) < seen)
            grid.window[grid.windows++] = edge(i);
    }
    grid.to[grid.bins++] = n;
    grid.numbers = es_positions_horizon_at(&grid, true) + 1;
    *out = grid;
    return ES_OK;
}

/* ---- a block ---- */

/* The state of a visit of the heads of one block. */
typedef struct visitor {
    const es_positions_spec *spec;
    es_exec exec;
    int64_t heads, numbers;
    double *out; /* (layers, heads, numbers) */
} visitor;

/* Receives a head of the forward pass and measures it position by position. */
static es_status visit(void *user, const es_model_seen *seen, es_error *err)
{
    const visitor *v = user;
    double *out = v->out + (seen->layer * v->heads + seen->head) * v->numbers;
    return es_positions_head(v->spec, seen, &v->exec, out, err);
}

es_status es_positions_block(const es_positions_spec *spec, const int32_t *ids, const es_exec *exec,
                             double *numbers, es_error *err)
{
    const es_model_config *c = es_model_config_of(spec->model);
    es_positions_grid grid;
    ES_TRY(es_positions_grid_of(spec, &grid, err));
    if (!c->causal)
        return es_fail(err, ES_E_ARGUMENT, "positions.causal", "a decoder",
                       "tokens of this model see those after them: n is the same for all places");
    visitor v = {spec, es_exec_quiet(exec), c->heads, grid.numbers, numbers};
    const es_model_visit visits = {.head = visit, .context = &v, .statistics = true, .plain = true};
    const es_model_block block = {.ids = ids, .n = spec->length, .visit = &visits};
    return es_model_forward(spec->model, &block, 1, exec, err);
}

/* ---- cost ---- */

/* Queries of a tile are computed together, over the keys that any of them sees: keys more for each.
 */
#define TOGETHER 64.0

/* What a pair takes beside its products: an exponential, and masks at the edges of windows. */
#define BESIDE 160.0

/* Rows of scores of gap counting in units of the longest: 16 of each half octave, twice; and what a
 * score takes to be sorted. */
#define GAP_ROWS 110.0
#define GAP_SORT 150.0

/* Pairs of query and key that windows make, all of them. */
static double pairs(const es_positions_spec *spec, const es_positions_grid *grid)
{
    const double n = (double)spec->length;
    double sum = 0.0;
    for (int64_t c = 0; c < grid->windows; c++) {
        const double keys = (double)(grid->window[c] + ES_POSITIONS_SINKS);
        sum += (keys + TOGETHER) * fmax(n - keys, 0.0);
    }
    return sum + n * fmin(n, ES_POSITIONS_LOCAL + TOGETHER);
}

es_status es_positions_cost_of(const es_positions_spec *spec, es_positions_cost *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const double n = (double)spec->length, k = (double)c->head_dim;
    es_positions_grid grid;
    ES_TRY(es_positions_grid_of(spec, &grid, err));
    /* products of windows; covariances, running squares of keys, sums of keys at all distances */
    const double head = (4.0 * k + BESIDE) * pairs(spec, &grid) + 10.0 * n * k * k +
                        4.0 * n * k * (double)(grid.windows + 2) +
                        GAP_ROWS * n * (4.0 * k + GAP_SORT);
    const es_model_cost forward =
        es_model_cost_of(c, es_model_precision(spec->model), spec->length, 1, false);
    *out = (es_positions_cost){
        .flops = (double)(c->layers * c->heads) * head,
        /* rows of queries, keys, their sums and outputs in f64; what es_attend() takes */
        .bytes = (size_t)(8.0 * (n * (8.0 * k + 8.0) + 8.0 * k * k) + forward.bytes + 32e6)};
    return ES_OK;
}
