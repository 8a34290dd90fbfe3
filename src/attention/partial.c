/* SPDX-License-Identifier: Apache-2.0 */
/* partial.c : the state of queries after some of the keys. Two states over different keys merge
 * exactly: with offsets a and b and m = max(a, b), every sum becomes e^(a-m) sum_a + e^(b-m)
 * sum_b. Outputs and statistics follow from the final sums: lse = m + ln Z, entropy = lse - mean
 * score. */
#include "attention/partial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attend.h"
#include "base/error.h"
#include "base/memory.h"
#include "stats/moments.h"

void es_sums_close(es_sums *s, double open)
{
    double power = open;
    for (int i = 0; i < 3; i++)
        s->blocks[i] += power *= open;
    s->open = 0.0;
}

/* Moves the offset of the sums and returns the factor by which the caller multiplies everything
 * else that is relative to it. */
double es_sums_move(es_sums *s, double offset)
{
    if (s->offset == offset)
        return 1.0;
    if (s->offset == -INFINITY) {
        s->offset = offset;
        return 0.0; /* nothing has been summed yet */
    }
    const double up = s->offset - offset; /* an integer, mostly negative */
    const double factor = exp2(up);
    s->tilted = factor * (s->tilted + up * s->weight);
    if (factor == 0.0)
        s->tilted = 0.0; /* up may be infinite */
    s->weight *= factor;
    s->squares *= factor * factor;
    s->top *= factor;
    s->open *= factor;
    for (int i = 0; i < 3; i++)
        s->blocks[i] *= pow(factor, 2 + i); /* a power of two: exact */
    s->offset = offset;
    return factor;
}

/* Offers a score to the heap of the largest ones; the smallest of them is at the root and leaves
 * first. */
void es_heap_offer(double *heap, int64_t kept, double score)
{
    if (kept == 0 || !(score > heap[0]))
        return;
    int64_t hole = 0;
    for (;;) {
        int64_t child = 2 * hole + 1;
        if (child >= kept)
            break;
        if (child + 1 < kept && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= score)
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = score;
}

double es_partial_bytes(const es_problem *p, int64_t queries)
{
    const double channels = (double)p->dv, spread = p->spread ? channels + 1.0 : 0.0;
    const double per_scale =
        (double)sizeof(es_sums) + 8.0 * (channels + spread + (p->block ? 2.0 * channels : 0.0));
    return (double)queries * ((double)p->n_scales * per_scale + 16.0 + 8.0 * (double)p->kept);
}

es_status es_partial_init(es_partial *partial, const es_problem *p, int64_t queries, es_error *err)
{
    *partial = (es_partial){.queries = queries,
                            .channels = p->dv,
                            .scales = p->n_scales,
                            .kept = p->kept,
                            .around = p->spread ? p->dv + 1 : 0,
                            .in_blocks = p->block ? p->dv : 0,
                            .budget = p->budget};
    const struct {
        void *to;
        int64_t each; /* per query */
        size_t element;
    } arrays[] = {{&partial->sums, p->n_scales, sizeof(es_sums)},
                  {&partial->output, p->n_scales * p->dv, sizeof(double)},
                  {&partial->spread, p->n_scales * partial->around, sizeof(double)},
                  {&partial->cross, p->n_scales * partial->in_blocks, sizeof(double)},
                  {&partial->square, p->n_scales * partial->in_blocks, sizeof(double)},
                  {&partial->best, 1, sizeof(double)},
                  {&partial->best_index, 1, sizeof(int64_t)},
                  {&partial->kept_scores, p->kept, sizeof(double)}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        const es_status status = es_mem_array(p->budget, arrays[i].each, queries, arrays[i].element,
                                              "partial attention states", arrays[i].to, err);
        if (status != ES_OK) {
            es_partial_clear(partial);
            return status;
        }
    }
    es_partial_forget(partial);
    return ES_OK;
}

void es_partial_clear(es_partial *partial)
{
    es_mem_free(partial->budget, partial->sums);
    es_mem_free(partial->budget, partial->output);
    es_mem_free(partial->budget, partial->spread);
    es_mem_free(partial->budget, partial->cross);
    es_mem_free(partial->budget, partial->square);
    es_mem_free(partial->budget, partial->best);
    es_mem_free(partial->budget, partial->best_index);
    es_mem_free(partial->budget, partial->kept_scores);
    *partial = (es_partial){0};
}

void es_partial_forget(es_partial *partial)
{
    for (int64_t i = 0; i < partial->scales * partial->queries; i++)
        partial->sums[i] = (es_sums){.offset = -INFINITY};
    memset(partial->output, 0,
           (size_t)(partial->scales * partial->queries * partial->channels) *
               sizeof *partial->output);
    const size_t rows = (size_t)(partial->scales * partial->queries) * sizeof(double);
    memset(partial->spread, 0, rows * (size_t)partial->around);
    memset(partial->cross, 0, rows * (size_t)partial->in_blocks);
    memset(partial->square, 0, rows * (size_t)partial->in_blocks);
    for (int64_t i = 0; i < partial->queries; i++) {
        partial->best[i] = -INFINITY;
        partial->best_index[i] = -1;
    }
    for (int64_t i = 0; i < partial->queries * partial->kept; i++)
        partial->kept_scores[i] = -INFINITY;
}

/* Computes a = factor_a a + factor_b b. */
static void add_scaled(double *a, double factor_a, const double *b, double factor_b, int64_t count)
{
    for (int64_t c = 0; c < count; c++)
        a[c] = factor_a * a[c] + factor_b * b[c];
}

/* Row a of `into` and row b of `from`, one query at one scale: bring both states to the higher
 * offset, then add. What is quadratic in weights goes with the factor's square. */
static void join_row(es_partial *into, int64_t a, const es_partial *from, int64_t b, bool b_is_best)
{
    es_sums *x = &into->sums[a], y = from->sums[b];
    if (y.offset == -INFINITY)
        return;
    const int64_t channels = into->channels;
    const double offset = fmax(x->offset, y.offset);
    const double fx = es_sums_move(x, offset), fy = es_sums_move(&y, offset);
    x->weight += y.weight;
    x->tilted += y.tilted;
    x->squares += y.squares;
    for (int i = 0; i < 3; i++)
        x->blocks[i] += y.blocks[i];
    if (b_is_best)
        x->top = y.top;
    add_scaled(into->output + a * channels, fx, from->output + b * channels, fy, channels);
    const int64_t around = into->around, in_blocks = into->in_blocks;
    add_scaled(into->spread + a * around, fx * fx, from->spread + b * around, fy * fy, around);
    add_scaled(into->cross + a * in_blocks, fx * fx, from->cross + b * in_blocks, fy * fy,
               in_blocks);
    add_scaled(into->square + a * in_blocks, fx * fx, from->square + b * in_blocks, fy * fy,
               in_blocks);
}

void es_partial_join(es_partial *into, int64_t row, const es_partial *from, int64_t from_row,
                     int64_t count)
{
    const int64_t kept = into->kept;
    for (int64_t i = 0; i < count; i++) {
        const int64_t a = row + i, b = from_row + i;
        const bool b_is_best = from->best[b] > into->best[a];
        for (int64_t s = 0; s < into->scales; s++)
            join_row(into, s * into->queries + a, from, s * from->queries + b, b_is_best);
        if (b_is_best) {
            into->best[a] = from->best[b];
            into->best_index[a] = from->best_index[b];
        }
        for (int64_t j = 0; j < kept; j++)
            es_heap_offer(into->kept_scores + a * kept, kept, from->kept_scores[b * kept + j]);
    }
}

/* ---- results ---- */

es_status es_emit_scratch_new(es_emit_scratch *scratch, const es_problem *p, int64_t queries,
                              es_error *err)
{
    double *rows = NULL, *sorted = NULL;
    es_status status = ES_MEM_NEW_2D(p->budget, rows, queries, p->dv, "outputs of a block", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(p->budget, sorted, p->kept, "largest scores", err);
    *scratch = (es_emit_scratch){.rows = rows, .sorted = sorted};
    if (status != ES_OK)
        es_emit_scratch_free(scratch, p->budget);
    return status;
}

void es_emit_scratch_free(es_emit_scratch *scratch, es_mem_limit *budget)
{
    es_mem_free(budget, scratch->rows);
    es_mem_free(budget, scratch->sorted);
    *scratch = (es_emit_scratch){0};
}

int es_by_falling_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* A query at one scale with its sink: one more key of value 0. */
typedef struct emitted {
    es_sums sums;       /* of the keys and the sink */
    double factor;      /* on what the state holds of the keys, to bring it to the same offset */
    double key_squares; /* sum w^2 of the keys alone */
    int64_t top_index;
} emitted;

/* Adds the sink to the sums of a query whose largest score is `best` (THEORY 9 (S1)). This is the
 * only place that does: states of keys merge without it, so that it counts once. */
static emitted with_sink(const es_problem *p, const es_sums *keys, double best, int64_t index)
{
    emitted e = {.sums = *keys, .factor = 1.0, .key_squares = keys->squares, .top_index = index};
    if (p->sink == -INFINITY)
        return e;
    es_sums *s = &e.sums;
    const double offset = fmax(s->offset, ceil(p->sink)), x = p->sink - offset, w = exp2(x);
    e.factor = es_sums_move(s, offset);
    e.key_squares = s->squares;
    s->weight += w;
    s->tilted += w * x;
    s->squares += w * w;
    if (!(best > p->sink)) { /* or no key has been seen */
        s->top = w;
        e.top_index = -1;
    }
    return e;
}

/* Mass of the k largest weights for each wanted k: a running sum over the kept scores and the sink,
 * largest first. */
static void emit_top_mass(const es_problem *p, const es_sums *s, double relative_scale,
                          const double *kept, double *sorted, double *mass)
{
    for (int64_t j = 0; j < p->kept; j++) /* -inf where fewer keys were met, at scale 0, too */
        sorted[j] =
            kept[j] > -INFINITY ? es_problem_rescale(p, relative_scale, kept[j]) : -INFINITY;
    es_heap_offer(sorted, p->kept, p->sink);
    qsort(sorted, (size_t)p->kept, sizeof *sorted, es_by_falling_value);
    for (int64_t i = 0; i < p->n_top_k; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < p->top_k[i] && sorted[j] > -INFINITY; j++)
            sum += exp2(sorted[j] - s->offset);
        mass[i] = fmin(1.0, sum / s->weight);
    }
}

/* The scalars of one query. Where rounding could push a result past a bound that holds exactly, the
 * bound wins. */
static void emit_scalars(const es_sums *s, int64_t index, int64_t at, const es_attend_out *out)
{
    const double log2_weight = log2(s->weight);
    if (out->lse)
        out->lse[at] = ES_LN_2 * (s->offset + log2_weight);
    if (out->entropy)
        out->entropy[at] =
            fmax(0.0, ES_LN_2 * (log2_weight - s->tilted / s->weight)); /* H = lse - E[score] */
    if (out->top_weight)
        out->top_weight[at] = fmin(1.0, s->top / s->weight);
    if (out->top_index)
        out->top_index[at] = index;
    if (out->sum_squares)
        out->sum_squares[at] = fmin(1.0, s->squares / (s->weight * s->weight));
}

/* sum w^2 |v - y|^2 / (sum w)^2 of row `row` with output y: around the centre c, where v - c is
 * small, sum w^2 |v-c|^2 - 2 (y-c).sum w^2 (v-c) + |y-c|^2 sum w^2 loses little. */
static double spread_of(const es_partial *partial, const es_problem *p, int64_t row,
                        const emitted *e, const double *y)
{
    const double *x = partial->spread + row * partial->around, factor2 = e->factor * e->factor;
    double sum = factor2 * x[partial->channels];
    for (int64_t c = 0; c < partial->channels; c++) {
        const double off = y[c] - p->centre[c];
        sum += off * (off * e->key_squares - 2.0 * factor2 * x[c]);
    }
    return fmax(0.0, sum / (e->sums.weight * e->sums.weight));
}

/* The same of blocks, by channel; sums of a block are added in f64, so that no centre is needed. */
static void emit_spreads(const es_partial *partial, const es_problem *p, int64_t row,
                         const emitted *e, int64_t at, const double *y, const es_attend_out *out)
{
    const es_sums *s = &e->sums;
    const int64_t channels = partial->channels;
    const double whole = s->weight * s->weight, factor2 = e->factor * e->factor;
    if (out->spread2)
        out->spread2[at] = spread_of(partial, p, row, e, y);
    for (int i = 0; out->block_powers && i < 3; i++)
        out->block_powers[3 * at + i] = fmin(1.0, s->blocks[i] / pow(s->weight, 2 + i));
    const double *cross = partial->cross + row * partial->in_blocks,
                 *square = partial->square + row * partial->in_blocks;
    for (int64_t c = 0; out->block_spread2 && c < channels; c++)
        out->block_spread2[at * channels + c] = fmax(
            0.0, (factor2 * square[c] + y[c] * (y[c] * s->blocks[0] - 2.0 * factor2 * cross[c])) /
                     whole);
}

/* Emits everything of one query at one scale: row `row` of the state goes to place `at` of *out,
 * and its output to y unless that is NULL. */
static void emit_query(const es_partial *partial, const es_problem *p, int64_t row,
                       double relative_scale, int64_t at, const es_attend_out *out,
                       const es_emit_scratch *scratch, double *y)
{
    const int64_t channels = partial->channels, query = row % partial->queries;
    const double best = es_problem_rescale(p, relative_scale, partial->best[query]);
    const emitted e = with_sink(p, &partial->sums[row], best, partial->best_index[query]);
    emit_scalars(&e.sums, e.top_index, at, out);
    if (out->top_mass)
        emit_top_mass(p, &e.sums, relative_scale, partial->kept_scores + query * partial->kept,
                      scratch->sorted, out->top_mass + at * p->n_top_k);
    if (!y)
        return;
    for (int64_t c = 0; c < channels; c++)
        y[c] = e.factor * partial->output[row * channels + c] / e.sums.weight;
    if (out->output)
        memcpy(out->output + at * channels, y, (size_t)channels * sizeof *y);
    emit_spreads(partial, p, row, &e, at, y, out);
}

void es_partial_emit(const es_partial *partial, const es_problem *p, int64_t row, int64_t count,
                     int64_t first, int64_t prefix, const es_attend_out *out, es_moments *moments,
                     const es_emit_scratch *scratch)
{
    const bool wants_output =
        out->output || moments || out->spread2 || out->block_spread2 || out->block_powers;
    for (int64_t s = 0; s < partial->scales; s++) {
        for (int64_t i = 0; i < count; i++)
            emit_query(partial, p, s * partial->queries + row + i, es_problem_relative_scale(p, s),
                       (s * p->n_prefixes + prefix) * p->m + first + i, out, scratch,
                       wants_output ? scratch->rows + i * partial->channels : NULL);
        if (moments)
            es_moments_add(&moments[s], scratch->rows, count);
    }
}
