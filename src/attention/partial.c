#include "attention/partial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

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
    s->offset = offset;
    return factor;
}

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
    const double per_scale = (double)(sizeof(es_sums) + (size_t)p->dv * sizeof(double));
    return (double)queries * ((double)p->n_scales * per_scale + 16.0 + 8.0 * (double)p->kept);
}

es_status es_partial_init(es_partial *partial, const es_problem *p, int64_t queries, es_error *err)
{
    *partial = (es_partial){.queries = queries,
                            .channels = p->dv,
                            .scales = p->n_scales,
                            .kept = p->kept,
                            .budget = p->budget};
    static const char what[] = "partial attention states";
    void *sums = NULL, *output = NULL, *best = NULL, *index = NULL, *kept = NULL;
    es_status status =
        es_mem_array(p->budget, p->n_scales, queries, sizeof(es_sums), what, &sums, err);
    if (status == ES_OK)
        status = es_mem_array(p->budget, p->n_scales * p->dv, queries, sizeof(double), what,
                              &output, err);
    if (status == ES_OK)
        status = es_mem_array(p->budget, queries, 1, sizeof(double), what, &best, err);
    if (status == ES_OK)
        status = es_mem_array(p->budget, queries, 1, sizeof(int64_t), what, &index, err);
    if (status == ES_OK)
        status = es_mem_array(p->budget, queries, p->kept, sizeof(double), what, &kept, err);
    partial->sums = sums;
    partial->output = output;
    partial->best = best;
    partial->best_index = index;
    partial->kept_scores = kept;
    if (status != ES_OK)
        es_partial_clear(partial);
    else
        es_partial_forget(partial);
    return status;
}

void es_partial_clear(es_partial *partial)
{
    es_mem_free(partial->budget, partial->sums);
    es_mem_free(partial->budget, partial->output);
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
    for (int64_t i = 0; i < partial->queries; i++) {
        partial->best[i] = -INFINITY;
        partial->best_index[i] = -1;
    }
    for (int64_t i = 0; i < partial->queries * partial->kept; i++)
        partial->kept_scores[i] = -INFINITY;
}

/* One query at one scale: bring both states to the higher offset, then add. */
static void join_sums(es_sums *a, double *out_a, es_sums b, const double *out_b, int64_t channels,
                      bool b_is_best)
{
    if (b.offset == -INFINITY)
        return;
    const double offset = fmax(a->offset, b.offset);
    const double factor_a = es_sums_move(a, offset), factor_b = es_sums_move(&b, offset);
    a->weight += b.weight;
    a->tilted += b.tilted;
    a->squares += b.squares;
    if (b_is_best)
        a->top = b.top;
    for (int64_t c = 0; c < channels; c++)
        out_a[c] = factor_a * out_a[c] + factor_b * out_b[c];
}

void es_partial_join(es_partial *into, int64_t row, const es_partial *from, int64_t from_row,
                     int64_t count)
{
    const int64_t channels = into->channels, kept = into->kept;
    for (int64_t i = 0; i < count; i++) {
        const int64_t a = row + i, b = from_row + i;
        const bool b_is_best = from->best[b] > into->best[a];
        for (int64_t s = 0; s < into->scales; s++) {
            const int64_t at_a = s * into->queries + a, at_b = s * from->queries + b;
            join_sums(&into->sums[at_a], into->output + at_a * channels, from->sums[at_b],
                      from->output + at_b * channels, channels, b_is_best);
        }
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
    void *rows = NULL, *sorted = NULL;
    es_status status =
        es_mem_array(p->budget, queries, p->dv, sizeof(double), "outputs of a block", &rows, err);
    if (status == ES_OK)
        status =
            es_mem_array(p->budget, p->kept, 1, sizeof(double), "largest scores", &sorted, err);
    *scratch = (es_emit_scratch){.rows = rows, .sorted = sorted};
    if (status != ES_OK)
        es_emit_scratch_free(scratch, p->budget);
    return status;
}

void es_emit_scratch_free(es_emit_scratch *scratch, es_budget *budget)
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

/* Mass of the k largest weights for each wanted k: a running sum over the kept scores, largest
 * first. */
static void emit_top_mass(const es_problem *p, const es_sums *s, double relative_scale,
                          const double *sorted, double *mass)
{
    for (int64_t i = 0; i < p->n_top_k; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < p->top_k[i] && sorted[j] > -INFINITY; j++)
            sum += exp2(es_problem_rescale(p, relative_scale, sorted[j]) - s->offset);
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

void es_partial_emit(const es_partial *partial, const es_problem *p, int64_t row, int64_t count,
                     int64_t first, int64_t prefix, const es_attend_out *out, es_moments *moments,
                     const es_emit_scratch *scratch)
{
    const int64_t channels = partial->channels;
    const bool wants_output = out->output || moments;
    for (int64_t s = 0; s < partial->scales; s++) {
        const double relative_scale = es_problem_relative_scale(p, s);
        for (int64_t i = 0; i < count; i++) {
            const es_sums *sums = &partial->sums[s * partial->queries + row + i];
            const int64_t at = (s * p->n_prefixes + prefix) * p->m + first + i;
            emit_scalars(sums, partial->best_index[row + i], at, out);
            if (out->top_mass) {
                memcpy(scratch->sorted, partial->kept_scores + (row + i) * partial->kept,
                       (size_t)partial->kept * sizeof *scratch->sorted);
                qsort(scratch->sorted, (size_t)partial->kept, sizeof *scratch->sorted,
                      es_by_falling_value);
                emit_top_mass(p, sums, relative_scale, scratch->sorted,
                              out->top_mass + at * p->n_top_k);
            }
            if (wants_output) {
                const double *o = partial->output + (s * partial->queries + row + i) * channels;
                double *y = scratch->rows + i * channels;
                for (int64_t c = 0; c < channels; c++)
                    y[c] = o[c] / sums->weight;
                if (out->output)
                    memcpy(out->output + at * channels, y, (size_t)channels * sizeof *y);
            }
        }
        if (moments)
            es_moments_add(&moments[s], scratch->rows, count);
    }
}
