/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_rows.c : which rows of attention with something changed are compared with another
 * program's output, over all heads and all widths.
 *
 * Plain f64 loops over one head at a time: the fast kernels support few of the changes, and a few
 * rows are enough. Rows are computed in parallel and added in their order. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "experiments/measure/oracle_row.h"

/* ---- which rows ---- */

/* Returns the heads of the variant: swapped arrays have rows for heads. */
static int64_t heads_of(const compare_case *c, const compare_variant *v)
{
    return v->swapped ? measure_queries(c->s, 0) : c->s->heads;
}

int64_t compare_queries(const compare_case *c, const compare_variant *v)
{
    return v->swapped ? c->s->heads : measure_queries(c->s, 0);
}

/* Returns the distance from one head that is looked at to the next. */
static int64_t head_step(const compare_case *c, const compare_variant *v)
{
    enum { GLANCED = 4 };
    const int64_t heads = heads_of(c, v);
    return c->glance && heads > GLANCED ? (heads + GLANCED - 1) / GLANCED : 1;
}

double compare_row_flops(const compare_case *c)
{
    const measure_state *s = c->s;
    return (double)s->opts.prefixes[0] * (2.0 * (double)s->d + 8.0 * (double)s->dv + 20.0);
}

compare_variant compare_asked(const compare_case *c)
{
    const measure_params *p = c->s->p;
    return (compare_variant){.scale = c->s->opts.scales[0],
                             .mask = p->causal   ? (p->window ? COMPARE_WINDOW : COMPARE_CAUSAL)
                                     : p->window ? COMPARE_BAND
                                                 : COMPARE_ALL,
                             .shift = measure_shift(c->s),
                             .width = p->window,
                             .keys = c->s->opts.prefixes[0],
                             .exclude_self = c->s->opts.exclude_self,
                             .own = measure_shift(c->s),
                             .sinks = c->s->sinks,
                             .cap = c->s->opts.score_cap,
                             .factor = 1.0};
}

bool compare_as_asked(const compare_case *c, const compare_variant *v)
{
    const compare_variant asked = compare_asked(c);
    return v->mask == asked.mask && v->shift == asked.shift && v->width == asked.width &&
           v->keys == asked.keys && v->skipped == asked.skipped;
}

/* Returns row `at` of `count` that are spread evenly over `rows`. */
static int64_t spread_row(int64_t at, int64_t count, int64_t rows)
{
    return count < 2 ? rows - 1 : at * (rows - 1) / (count - 1);
}

/* ---- one of them ---- */

/* Computes and compares row `at` of those looked at. */
static es_status do_row(void *job, int64_t at, int thread, es_error *err)
{
    compare_head_rows *h = job;
    const int64_t d = h->c->s->d, dv = h->c->s->dv;
    double *w = h->scratch + thread * h->each, *q = w + h->keys, *o = q + d;
    const compare_row_work r = {spread_row(at, h->count, h->rows), w, q, o, o + dv, o + 2 * dv};
    int64_t first, last;
    (void)err;
    h->found[at] = (compare_row_found){0};
    compare_read_query(h, r.i, r.q);
    compare_read_theirs(h, r.i, r.y);
    if (h->v->zero_rows && compare_is_zero(r.y, dv))
        return ES_OK;
    compare_seen_by(h, r.i, &first, &last);
    if (!compare_over_keys(h, &r, first, last, &h->found[at])) {
        if (h->v->block || h->v->skipped)
            compare_lost_row(h, &r, &h->found[at]);
        return ES_OK;
    }
    if (h->ours) {
        memcpy(h->ours + at * dv, r.o, (size_t)dv * sizeof *r.o);
        memcpy(h->theirs + at * dv, r.y, (size_t)dv * sizeof *r.y);
    }
    return ES_OK;
}

/* ---- all heads ---- */

/* Allocates a matrix. */
static es_status new_matrix(es_arena *arena, int64_t rows, int64_t cols, double **out,
                            es_error *err)
{
    ES_TRY(ES_ARENA_NEW_2D(arena, *out, rows, cols, "rows to compare", err));
    return ES_OK;
}

/* Allocates what rows of a head need. */
static es_status start_rows(compare_case *c, const compare_variant *v, int64_t per_head,
                            es_arena *arena, compare_head_rows *h, es_error *err)
{
    const int64_t d = c->s->d, dv = c->s->dv, rows = compare_queries(c, v);
    *h = (compare_head_rows){.c = c,
                             .v = v,
                             .keys = v->swapped ? c->s->kv_heads : v->keys,
                             .rows = rows,
                             .count = per_head < rows ? per_head : rows};
    h->each = (h->keys + d + 3 * dv + 7) / 8 * 8;
    ES_TRY(new_matrix(arena, h->keys, d, &h->k, err));
    ES_TRY(new_matrix(arena, h->keys, dv, &h->values, err));
    ES_TRY(new_matrix(arena, es_parallel_threads(&c->exec, h->count), h->each, &h->scratch, err));
    ES_TRY(ES_ARENA_NEW(arena, h->found, h->count, "rows to compare", err));
    return ES_OK;
}

/* Adds the rows of a head to the sums, in their order. */
static void add_rows(const compare_head_rows *h, compare_sum *sum)
{
    const double dv = (double)h->c->s->dv;
    for (int64_t at = 0; at < h->count; at++) {
        const compare_row_found *f = &h->found[at];
        const double error = f->nonfinite ? (double)INFINITY : sqrt(f->squares / dv);
        if (!f->seen)
            continue;
        const double ratio = error == 0.0 ? 0.0 : isinf(error) ? error : error / f->expected;
        if (ratio > sum->ratio || sum->rows == 0) {
            sum->ratio = ratio;
            sum->expected = f->expected;
            sum->head = h->head;
            sum->row = spread_row(at, h->count, h->rows);
        }
        sum->rows++;
        sum->rounded += error >= f->expected / 50.0;
        sum->elements += h->c->s->dv;
        sum->nonfinite += f->nonfinite;
        sum->squares += f->squares;
        sum->largest = fmax(sum->largest, error);
        sum->along += f->along;
        sum->slope2 += f->slope2;
        sum->theirs_ours += f->theirs_ours;
        sum->ours2 += f->ours2;
        sum->allowed += f->expected * f->expected * dv;
    }
}

/* Computes and compares rows of all heads. */
static es_status each_head(compare_case *c, const compare_variant *v, int64_t per_head,
                           es_arena *arena, compare_sum *out, double *ours, double *theirs,
                           es_error *err)
{
    compare_head_rows h;
    es_exec exec = c->exec;
    *out = (compare_sum){0};
    ES_TRY(start_rows(c, v, per_head, arena, &h, err));
    if ((double)h.count * compare_row_flops(c) < 2e7) /* waking threads would take longer */
        exec.threads = 1;
    for (int64_t head = 0; head < heads_of(c, v); head += head_step(c, v)) {
        ES_TRY(compare_load_head(&h, head, err));
        h.ours = ours ? ours + head * h.count * c->s->dv : NULL;
        h.theirs = ours ? theirs + head * h.count * c->s->dv : NULL;
        ES_TRY(es_parallel_run(&exec, h.count, do_row, &h, err));
        add_rows(&h, out);
    }
    return ES_OK;
}

es_status compare_rows(compare_case *c, const compare_variant *v, int64_t per_head,
                       compare_sum *out, es_error *err)
{
    es_arena arena = {.budget = c->arena.budget};
    const es_status status = each_head(c, v, per_head, &arena, out, NULL, NULL, err);
    es_arena_free(&arena);
    return status;
}

/* Returns our row for theirs: the inverse of compare_read_theirs(). */
static compare_place ours_for(const compare_case *c, const compare_variant *v, compare_place theirs)
{
    const int64_t heads = c->s->heads;
    compare_place ours = theirs;
    if (v->swapped)
        return (compare_place){theirs.row, theirs.head};
    if (v->swapped_output) {
        const int64_t flat = theirs.head * c->s->at[MEASURE_Y].rows + theirs.row;
        return (compare_place){flat % heads, flat / heads};
    }
    if (v->flat_output) {
        const int64_t flat = theirs.row * heads + theirs.head, rows = c->s->at[MEASURE_Y].rows;
        return (compare_place){flat / rows, flat % rows};
    }
    for (int64_t h = 0; v->place && h < heads; h++)
        if (v->place[h] == theirs.head)
            ours.head = h;
    return ours;
}

/* Computes and compares one row of ours. */
static es_status one_row(compare_case *c, const compare_variant *v, compare_place at,
                         es_arena *arena, compare_sum *out, es_error *err)
{
    compare_head_rows h;
    ES_TRY(start_rows(c, v, 1, arena, &h, err));
    h.rows = at.row + 1; /* so that row at.row is the last one */
    ES_TRY(compare_load_head(&h, at.head, err));
    ES_TRY(do_row(&h, 0, 0, err));
    add_rows(&h, out);
    return ES_OK;
}

es_status compare_row_at(compare_case *c, const compare_variant *v, compare_place theirs,
                         compare_sum *out, es_error *err)
{
    es_arena arena = {.budget = c->arena.budget};
    const es_status status = one_row(c, v, ours_for(c, v, theirs), &arena, out, err);
    es_arena_free(&arena);
    return status;
}

es_status compare_outputs(compare_case *c, const compare_variant *v, int64_t per_head, double *ours,
                          double *theirs, es_error *err)
{
    es_arena arena = {.budget = c->arena.budget};
    compare_sum ignored;
    const es_status status = each_head(c, v, per_head, &arena, &ignored, ours, theirs, err);
    es_arena_free(&arena);
    return status;
}

/* ---- windows ---- */

/* Adds the distances of row i from attention over ever more keys: a key is added to numerator and
 * denominator, so that all widths cost as much as one. */
static void add_widths(const compare_head_rows *h, int64_t i, compare_growth growth, double *out)
{
    const int64_t d = h->c->s->d, dv = h->c->s->dv;
    const int64_t at = growth == COMPARE_FIRSTS  ? 0
                       : growth == COMPARE_LASTS ? h->keys - 1
                                                 : i + h->v->shift;
    const int64_t way = growth == COMPARE_FIRSTS ? 1 : -1;
    double *w = h->scratch, *q = w + h->keys, *sum = q + d, *y = sum + dv;
    double total, most = compare_sink_logit(h), squares = 0.0;
    compare_read_query(h, i, q);
    compare_read_theirs(h, i, y);
    memset(sum, 0, (size_t)dv * sizeof *sum);
    for (int64_t j = 0; j < h->keys; j++) {
        w[j] = compare_score(h, q, j);
        most = fmax(most, w[j]);
    }
    total = exp(compare_sink_logit(h) - most);
    for (int64_t step = 0; step < h->keys; step++) {
        for (int side = 0; side < (growth == COMPARE_AROUND && step ? 2 : 1); side++) {
            const int64_t j = at + (side ? step : way * step);
            if (j < 0 || j >= h->keys || (h->v->exclude_self && j == i + h->v->own))
                continue;
            const double p = exp(w[j] - most);
            total += p;
            for (int64_t c = 0; c < dv; c++)
                sum[c] += p * h->values[j * dv + c];
        }
        squares = 0.0;
        for (int64_t c = 0; c < dv; c++) {
            const double off = y[c] - (total > 0.0 ? sum[c] / total : 0.0);
            squares += off * off;
        }
        out[step] += squares;
    }
}

/* Adds up add_widths() over late rows of the heads. */
static es_status widths_in(compare_case *c, const compare_variant *v, compare_growth growth,
                           es_arena *arena, double *out, es_error *err)
{
    enum { LATE = 3 };
    compare_head_rows h;
    ES_TRY(start_rows(c, v, LATE, arena, &h, err));
    for (int64_t head = 0; head < heads_of(c, v); head += head_step(c, v)) {
        ES_TRY(compare_load_head(&h, head, err));
        /* late rows see most keys: only they tell wide windows apart */
        for (int64_t at = 0; at < h.count; at++)
            add_widths(&h, h.rows - 1 - at * (h.rows / 4), growth, out);
    }
    return ES_OK;
}

es_status compare_widths(compare_case *c, const compare_variant *v, compare_growth growth,
                         double *out, es_error *err)
{
    es_arena arena = {.budget = c->arena.budget};
    memset(out, 0, (size_t)v->keys * sizeof *out);
    const es_status status = widths_in(c, v, growth, &arena, out, err);
    es_arena_free(&arena);
    return status;
}
