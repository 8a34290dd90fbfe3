/* SPDX-License-Identifier: Apache-2.0 */
/* far_walk.c : the far field of all heads of a block: sizes, forecasts, and how queries and keys
 * move with their place (THEORY 20). */
#include "experiments/probe/far_inside.h"

#include <math.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "model/model.h"
#include "model/model_inside.h"
#include "random/random.h"
#include "risk/far_risk.h"

enum { TOKENS = 128 }; /* of random numbers that a query may use */

/* ---- places ---- */

/* Writes the mean (width) of the rows of a range and returns their mean square. */
static double mean_rows(const far_work *w, const es_view *rows, int64_t from, int64_t to,
                        double *mean)
{
    double squares = 0.0;
    for (int64_t c = 0; c < rows->cols; c++)
        mean[c] = 0.0;
    for (int64_t i = from; i < to; i++) {
        es_view_read_row(rows, i, w->row);
        squares += es_dot(w->row, w->row, rows->cols);
        for (int64_t c = 0; c < rows->cols; c++)
            mean[c] += w->row[c] / (double)(to - from);
    }
    return squares / (double)(to - from);
}

/* Finds |y - mean y|^2 over places n/2 to n. */
static es_status spread_of(far_work *w, int64_t n, double *out, es_error *err)
{
    const es_view outputs = es_view_f64(w->seen->output, w->n, w->dv);
    double *mean;
    ES_TRY(ES_MEM_NEW(w->budget, mean, w->dv, "means", err));
    const double squares = mean_rows(w, &outputs, n / 2, n, mean);
    *out = squares - es_dot(mean, mean, w->dv);
    es_mem_free(w->budget, mean);
    return ES_OK;
}

/* ---- one context length ---- */

/* Returns place number m of the queries that see up to n keys: one at random in each of equal parts
 * of the last eighth. */
static int64_t place_of(const far_work *w, int64_t n, int64_t m, uint64_t token)
{
    const es_address at = {.seed = w->spec->seed,
                           .experiment = ES_EXPERIMENT_FAR_KEYS,
                           .cell = w->cell,
                           .token = token + TOKENS - 1};
    const double part = (double)n / 8.0 / (double)w->spec->queries;
    return n - 1 - (int64_t)(((double)m + es_uniform_at(&at)) * part);
}

/* Parts of the pool that query m draws from: one of each half, all pairs equally often. */
typedef struct parts {
    int of[ES_FAR_DRAWS], pair;
} parts;

static parts parts_of(int64_t m)
{
    const int first = (int)(m % 2), second = (int)(m / 2 % 2);
    return (parts){{first, 2 + second}, first + 2 * second};
}

/* Weighs the two far fields that are drawn for query m into stats (ES_FAR_PARTS, ES_FAR_STATS) and
 * windows (ES_FAR_WINDOWS), and their outputs into w->y from 1 on. */
static es_status weigh_draws(far_work *w, const far_query *q, int64_t m, const es_far_pool *pool,
                             double *stats, double *windows, es_error *err)
{
    const parts p = parts_of(m);
    for (int d = 0; d < ES_FAR_DRAWS; d++) {
        ES_TRY(far_draw(w, q, pool, p.of[d], err));
        far_weigh(w, q, stats + p.of[d] * ES_FAR_STATS, windows, w->y + (1 + d) * w->dv);
    }
    return ES_OK;
}

/* Returns |y - E y'|^2, y' the outputs of drawn far fields, as the product of the differences from
 * two of them: they come from different blocks, so that their errors, and those of the pool,
 * cancel on average. */
static double apart_of(const far_work *w)
{
    double sum = 0.0;
    for (int64_t c = 0; c < w->dv; c++)
        sum += (w->y[c] - w->y[w->dv + c]) * (w->y[c] - w->y[2 * w->dv + c]);
    return sum;
}

/* Adds what drawn far fields do to query m that ran, and the error of the limit of the first one.
 */
static es_status add_draws(far_work *w, const far_query *q, int64_t m, es_far_cell *cell,
                           es_error *err)
{
    double ignored[ES_FAR_WINDOWS] = {0};
    ES_TRY(weigh_draws(w, q, m, w->text->pool, cell->drawn, cell->drawn_window, err));
    cell->apart[parts_of(m).pair] += apart_of(w);
    if (w->text->other) {
        ES_TRY(weigh_draws(w, q, m, w->text->other, cell->other, ignored, err));
        cell->apart_other[parts_of(m).pair] += apart_of(w);
    }
    return m || w->spec->no_exact ? ES_OK : far_limit_error(w, q, &cell->pool_error, err);
}

/* Adds query m that ran: real and drawn far fields; every other one also has its exact error. */
static es_status add_query(far_work *w, const far_query *q, int64_t m, es_far_cell *cell,
                           es_error *err)
{
    far_real(w, q);
    far_weigh(w, q, cell->real, cell->real_window, w->y);
    if (!w->spec->no_draws)
        ES_TRY(add_draws(w, q, m, cell, err));
    return m % 2 || w->spec->no_exact ? ES_OK : far_exact(w, q, cell, err);
}

/* Divides the sums of a cell by the numbers of queries. */
static void divide(const far_work *w, es_far_cell *cell)
{
    const double count = (double)w->spec->queries;
    for (int s = 0; s < ES_FAR_STATS; s++)
        cell->real[s] /= count;
    for (int c = 0; c < ES_FAR_WINDOWS; c++) {
        cell->real_window[c] /= count;
        cell->drawn_window[c] /= ES_FAR_DRAWS * count;
    }
    for (int s = 0; s < ES_FAR_PARTS * ES_FAR_STATS; s++) {
        cell->drawn[s] /= 0.5 * count;
        cell->other[s] = w->text->other ? cell->other[s] / (0.5 * count) : (double)NAN;
    }
    const double exact = w->spec->no_exact ? (double)NAN : 0.5 * count;
    cell->exact /= exact;
    cell->exact_bias /= exact;
    cell->sampling /= exact;
    cell->gaussian /= exact;
    for (int p = 0; p < ES_FAR_PARTS; p++) {
        cell->exact_part[p] /= exact;
        cell->bias_part[p] /= exact;
    }
    for (int p = 0; p < ES_FAR_PAIRS; p++) {
        const double queries = count / ES_FAR_PAIRS;
        cell->apart[p] /= queries;
        cell->apart_other[p] = w->text->other ? cell->apart_other[p] / queries : (double)NAN;
    }
}

/* Measures queries of n keys as they ran. */
static es_status add_size(far_work *w, int64_t n, uint64_t token, es_far_cell *cell, es_error *err)
{
    *cell = (es_far_cell){{0}};
    for (int64_t m = 0; m < w->spec->queries; m++, token += TOKENS) {
        const int64_t i = place_of(w, n, m, token);
        const far_query q = far_query_begin(w, i, i, w->spec->length, 0, token);
        ES_TRY(add_query(w, &q, m, cell, err));
    }
    divide(w, cell);
    return ES_OK;
}

/* A cell without numbers. */
static void clear(es_far_cell *cell)
{
    double *numbers = (double *)cell;
    for (size_t i = 0; i < sizeof *cell / sizeof *numbers; i++)
        numbers[i] = (double)NAN;
}

/* Forecasts contexts of n keys, with queries that saw `base` keys and far keys from the places that
 * these saw. */
static es_status forecast(far_work *w, int64_t base, int64_t n, int64_t table, uint64_t token,
                          es_far_cell *cell, es_error *err)
{
    es_far_cell sums = {{0}};
    const double count = (double)w->spec->queries;
    clear(cell);
    if (w->spec->no_draws || !es_far_forecasts(w->spec, base))
        return ES_OK;
    for (int64_t m = 0; m < w->spec->queries; m++, token += TOKENS) {
        const int64_t i = place_of(w, base, m, token);
        const int64_t at = (int64_t)((double)(i + 1) * (double)n / (double)base) - 1;
        const far_query q = far_query_begin(w, i, at, base, table, token);
        ES_TRY(weigh_draws(w, &q, m, w->text->pool, sums.drawn, sums.drawn_window, err));
        if (es_far_exact_later(w->spec) && m % 2 == 0)
            ES_TRY(far_exact(w, &q, &sums, err));
    }
    for (int s = 0; s < ES_FAR_PARTS * ES_FAR_STATS; s++)
        cell->drawn[s] = sums.drawn[s] / (0.5 * count);
    for (int c = 0; c < ES_FAR_WINDOWS; c++)
        cell->drawn_window[c] = sums.drawn_window[c] / (ES_FAR_DRAWS * count);
    if (es_far_exact_later(w->spec))
        cell->exact = sums.exact / (0.5 * count);
    return spread_of(w, base, &cell->spread, err);
}

/* ---- drift ---- */

/* Returns the cosine of two vectors. */
static double cosine(const double *a, const double *b, int64_t k)
{
    return es_dot(a, b, k) / sqrt(es_dot(a, a, k) * es_dot(b, b, k));
}

/* Finds length and direction of queries or keys over the places (n/2, n], and the turn since the
 * places before. */
static void drift_of(const far_work *w, const es_view *rows, int64_t n, double *norm, double *turn,
                     double *scratch)
{
    double *now = scratch, *before = scratch + w->k;
    mean_rows(w, rows, n / 4, n / 2, before);
    *norm = sqrt(mean_rows(w, rows, n / 2, n, now));
    *turn = cosine(now, before, w->k);
}

/* Adds how queries and keys move at places n/2 to n. */
static es_status add_drift(far_work *w, int64_t n, es_far_cell *cell, es_error *err)
{
    const es_model_seen *s = w->seen;
    double *scratch;
    ES_TRY(ES_MEM_NEW_2D(w->budget, scratch, 2, w->k, "means", err));
    drift_of(w, s->plain_q.data ? &s->plain_q : &s->q, n, &cell->q_norm, &cell->q_cos, scratch);
    drift_of(w, s->plain_k.data ? &s->plain_k : &s->k, n, &cell->k_norm, &cell->k_cos, scratch);
    es_mem_free(w->budget, scratch);
    return ES_OK;
}

/* ---- a head ---- */

/* Returns the longest context: the length, or the largest forecast. */
static int64_t longest_of(const es_far_spec *spec)
{
    int64_t most = spec->length;
    for (int64_t t = 0; t < spec->targets; t++)
        most = spec->target[t] > most ? spec->target[t] : most;
    return most;
}

/* Reads a matrix as floats. */
static void read_rows(far_work *w, const es_view *v, float *out)
{
    for (int64_t i = 0; i < w->n; i++) {
        es_view_read_row(v, i, w->row);
        for (int64_t c = 0; c < v->cols; c++)
            out[i * v->cols + c] = (float)w->row[c];
    }
}

/* Allocates what one head needs and reads its rows. */
static es_status allocate(far_work *w, es_arena *arena, es_error *err)
{
    const int64_t longest = longest_of(w->spec);
    const int64_t draws = longest > w->spec->atoms ? longest : w->spec->atoms;
    ES_TRY(ES_ARENA_NEW(arena, w->row, w->k > w->dv ? w->k : w->dv, "a row", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->key, w->n, w->k, "keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->value, w->n, w->dv, "values", err));
    ES_TRY(ES_ARENA_NEW(arena, w->query, w->k, "a query", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->turned, longest, w->k, "turned queries", err));
    ES_TRY(ES_ARENA_NEW(arena, w->score, longest + 1, "scores", err));
    ES_TRY(ES_ARENA_NEW(arena, w->value_of, longest + 1, "values", err));
    ES_TRY(ES_ARENA_NEW(arena, w->uniform, 2 * draws, "random numbers", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->y, 1 + ES_FAR_DRAWS, w->dv, "outputs", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->window, ES_FAR_WINDOWS, w->dv, "outputs", err));
    read_rows(w, w->seen->plain_k.data ? &w->seen->plain_k : &w->seen->k, w->key);
    read_rows(w, &w->seen->v, w->value);
    return ES_OK;
}

/* Measures sizes, forecasts and backtests of one head. */
static es_status measure(far_work *w, es_far_cell *cells, es_error *err)
{
    const es_far_spec *spec = w->spec;
    const uint64_t stride = (uint64_t)(spec->queries * TOKENS);
    uint64_t token = 0;
    for (int64_t s = 0; s < spec->sizes; s++, token += stride) {
        ES_TRY(add_size(w, spec->size[s], token, cells, err));
        ES_TRY(spread_of(w, spec->size[s], &cells->spread, err));
        ES_TRY(add_drift(w, spec->size[s], cells++, err));
    }
    for (int64_t t = 0; t < spec->targets; t++, token += stride)
        ES_TRY(forecast(w, spec->length, spec->target[t], 1 + t, token, cells++, err));
    for (int b = 0; b < ES_FAR_BACKTESTS; b++, token += stride) {
        const es_far_backtest test = es_far_backtest_of(spec, b);
        ES_TRY(forecast(w, test.from, test.to, 0, token, cells++, err));
    }
    return ES_OK;
}

/* ---- a block ---- */

/* The state of a visit of the heads of one block. */
typedef struct visitor {
    const es_far_spec *spec;
    const es_far_text *text;
    const es_model_config *c;
    es_mem_limit *budget;
    far_angles angles[1 + ES_FAR_MOST];
    double *query_factor;
    es_far_cell *out; /* (layers, heads, rows) */
} visitor;

/* Receives a head of the forward pass. */
static es_status visit(void *user, const es_model_seen *seen, es_error *err)
{
    const visitor *v = user;
    const es_model_config *c = v->c;
    const int64_t head = seen->layer * c->heads + seen->head;
    es_arena arena = {.budget = v->budget};
    far_work w = {.spec = v->spec,
                  .text = v->text,
                  .seen = seen,
                  .c = c,
                  .angles = v->angles,
                  .query_factor = v->query_factor,
                  .budget = v->budget,
                  .cell = (uint64_t)(v->text->number * c->layers * c->heads + head),
                  .n = v->spec->length,
                  .k = seen->q.cols,
                  .dv = seen->v.cols,
                  .kv_head = seen->head / (c->heads / c->kv_heads)};
    const es_rotary *rotary = es_model_rotary(c, es_model_layer(c, seen->layer));
    w.rotary = seen->plain_k.data && rotary && rotary->width ? rotary : NULL;
    w.by_place =
        v->spec->model->position.w != NULL; /* config.position_rows is set for all models */
    es_status status = allocate(&w, &arena, err);
    if (status == ES_OK)
        status = measure(&w, v->out + head * es_far_rows(v->spec), err);
    es_arena_free(&arena);
    return status;
}

/* Computes the angles of all distances, for blocks as long as each context that is asked. */
static es_status find_angles(visitor *v, es_arena *arena, es_error *err)
{
    const es_rotary *const both[2] = {&v->c->rotary, &v->c->rotary_local};
    for (int64_t t = 0; t <= v->spec->targets; t++) {
        far_angles *a = &v->angles[t];
        a->n = t ? v->spec->target[t - 1] : v->spec->length;
        for (int i = 0; i < 2; i++) {
            if (!both[i]->width)
                continue;
            const int64_t half = both[i]->width / 2;
            ES_TRY(ES_ARENA_NEW_2D(arena, a->cosines[i], a->n, half, "angles", err));
            ES_TRY(ES_ARENA_NEW_2D(arena, a->sines[i], a->n, half, "angles", err));
            es_rotary_angles(both[i], a->n, a->cosines[i], a->sines[i]);
        }
    }
    if (v->c->rotary.query_beta == 0.0)
        return ES_OK;
    ES_TRY(ES_ARENA_NEW(arena, v->query_factor, longest_of(v->spec), "factors", err));
    es_rotary_query_factors(&v->c->rotary, longest_of(v->spec), v->query_factor);
    return ES_OK;
}

es_status es_far_block(const es_far_spec *spec, const es_far_text *text, const es_exec *exec,
                       es_far_cell *cells, es_error *err)
{
    es_mem_limit *budget = exec ? exec->budget : NULL;
    es_arena arena = {.budget = budget};
    visitor v = {.spec = spec,
                 .text = text,
                 .c = es_model_config_of(spec->model),
                 .budget = budget,
                 .out = cells};
    const es_model_visit visits = {.head = visit, .context = &v, .plain = true};
    const es_model_block block = {.ids = text->ids, .n = spec->length, .visit = &visits};
    es_status status = find_angles(&v, &arena, err);
    if (status == ES_OK)
        status = es_model_forward(spec->model, &block, 1, exec, err);
    es_arena_free(&arena);
    return status;
}

/* ---- cost ---- */

/* Operations of attention in the time of one key of a query, turned, drawn and weighed, and of one
 * key of a stratum at one node: measured for heads of 32 and 64 channels, with AVX-512 and with
 * portable kernels. */
static double key_work(double k) { return 3000.0 + 125.0 * k; }
static double atom_work(double k) { return 330.0 + 10.0 * k; }

/* Nodes of the integral at its tolerance. */
#define NODES 30.0

/* Returns the number of strata of a query of n keys. */
static double strata_of(const es_far_spec *spec, double n)
{
    return 2.0 * fmax(log2(n / (double)spec->near), 0.0);
}

/* Returns the keys of all strata of a query of n keys, by all of them, without each part, and as
 * Gaussian ones. */
static double atoms_of(const es_far_spec *spec, double n)
{
    return (double)(ES_FAR_PARTS + 1) * (double)spec->atoms * strata_of(spec, n);
}

es_far_cost es_far_cost_of(const es_far_spec *spec, bool other, int64_t pool_keys)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const double k = (double)c->head_dim, longest = (double)longest_of(spec);
    const double queries = (double)spec->queries, draws = ES_FAR_DRAWS;
    double keys = 0.0, atoms = 0.0, pool = 0.0; /* pool: keys of parts of the pool, weighed */
    for (int64_t s = 0; s < spec->sizes; s++) {
        const double n = (double)spec->size[s];
        keys += n * (2.0 + (spec->no_draws ? 0.0 : draws * (other ? 2.0 : 1.0)));
        atoms += spec->no_exact ? 0.0 : atoms_of(spec, n);
        pool += spec->no_exact || spec->no_draws ? 0.0 : strata_of(spec, n) * (double)pool_keys;
    }
    for (int64_t t = 0; t < spec->targets; t++) {
        keys += (double)spec->target[t] * (1.0 + draws);
        atoms += es_far_exact_later(spec) ? atoms_of(spec, (double)spec->target[t]) : 0.0;
    }
    for (int b = 0; b < ES_FAR_BACKTESTS; b++) {
        const es_far_backtest test = es_far_backtest_of(spec, b);
        keys += spec->no_draws ? 0.0 : (double)test.to * (1.0 + draws);
        atoms += es_far_exact_later(spec) ? atoms_of(spec, (double)test.to) : 0.0;
    }
    const double head =
        queries * (keys * key_work(k) + 0.5 * atoms * NODES * atom_work(k)) + pool * key_work(k);
    const es_model_cost forward =
        es_model_cost_of(c, es_model_precision(spec->model), spec->length, 1, false);
    return (es_far_cost){
        .flops = (double)(c->layers * c->heads) * head + es_model_work(&forward),
        .bytes = forward.bytes + longest * (8.0 * k + 64.0) + 16.0 * (double)spec->length * k +
                 24.0 * fmax((double)spec->atoms, ES_FAR_NODES) * strata_of(spec, longest) * k +
                 (double)(1 + spec->targets) * 16.0 * k * longest + 2e6};
}
