/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_kernels.c : mistakes of attention kernels with one unknown number of a few: a size of
 * tiles, an offset, a head, a probability. Each number is tried on a few rows, and the nearest is
 * kept. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "experiments/measure/oracle.h"

/* Sets number `at` of a list in *v. Returns false if it says nothing new. */
typedef bool (*set_number)(const compare_case *c, compare_variant *v, int64_t at);

enum { GLANCED_ROWS = 13 }; /* of a head: enough to distinguish sizes of blocks */

/* Compares a few rows with the variant, and the row that is furthest from what was asked for. */
static es_status glance(compare_case *c, const compare_variant *v, compare_sum *sum, es_error *err)
{
    c->glance = true;
    const es_status status = compare_rows(c, v, GLANCED_ROWS, sum, err);
    c->glance = false;
    ES_TRY(status);
    return compare_row_at(c, v, c->furthest, sum, err);
}

/* Keeps the number of `count` whose rows are nearest; *applies is false if none is set. */
static es_status choose(compare_case *c, compare_variant *v, set_number set, int64_t count,
                        bool *applies, es_error *err)
{
    const compare_variant before = *v;
    double least = INFINITY;
    *applies = false;
    for (int64_t at = 0; at < count; at++) {
        compare_variant tried = before;
        compare_sum sum;
        if (!set(c, &tried, at))
            continue;
        /* one row that is further off than all rows of the best so far decides */
        sum = (compare_sum){0};
        ES_TRY(compare_row_at(c, &tried, c->furthest, &sum, err));
        if (*applies && sum.rows > 0 && sum.ratio >= least)
            continue;
        ES_TRY(glance(c, &tried, &sum, err));
        if (sum.rows > 0 && (sum.ratio < least || !*applies)) {
            least = sum.ratio;
            *applies = true;
            *v = tried;
        }
    }
    return ES_OK;
}

#define NUMBERS(list) ((int64_t)(sizeof(list) / sizeof *(list)))

/* ---- keys under a causal mask ---- */

enum { MOST_AHEAD = 4 };

static bool set_next(const compare_case *c, compare_variant *v, int64_t at)
{
    const long long ahead = (long long)at + 1;
    (void)c;
    v->shift += ahead;
    if (ahead == 1)
        snprintf(v->note, sizeof v->note, "one future key, j <= i + 1");
    else
        snprintf(v->note, sizeof v->note, "%lld future keys, j <= i + %lld", ahead, ahead);
    return v->mask == COMPARE_CAUSAL && v->shift < v->keys;
}

es_status compare_causal_next(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_next, MOST_AHEAD, applies, err);
}

static const int64_t firsts[] = {1, 2, 3, 4, 8, 16, 32, 64, 128};

static bool set_first(const compare_case *c, compare_variant *v, int64_t at)
{
    (void)c;
    v->skipped = firsts[at];
    snprintf(v->note, sizeof v->note, "%lld", (long long)firsts[at]);
    return v->mask == COMPARE_CAUSAL && firsts[at] < v->keys;
}

es_status compare_first_dropped(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_first, NUMBERS(firsts), applies, err);
}

static const int64_t blocks[] = {128, 64, 32, 16, 8, 4, 256, 512, 96, 48, 24, 192};

/* Sets a size of blocks; `whole`: a block is seen by its own last query. */
static bool set_block(compare_variant *v, int64_t at, bool whole)
{
    v->block = blocks[at];
    v->whole = whole;
    snprintf(v->note, sizeof v->note, "%lld", (long long)blocks[at]);
    return v->mask == COMPARE_CAUSAL && blocks[at] < v->keys;
}

static bool set_own_block(const compare_case *c, compare_variant *v, int64_t at)
{
    (void)c;
    return set_block(v, at, false);
}

static bool set_whole_blocks(const compare_case *c, compare_variant *v, int64_t at)
{
    (void)c;
    return set_block(v, at, true);
}

es_status compare_own_block(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_own_block, NUMBERS(blocks), applies, err);
}

es_status compare_whole_blocks(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_whole_blocks, NUMBERS(blocks), applies, err);
}

static bool set_block_ahead(const compare_case *c, compare_variant *v, int64_t at)
{
    (void)c;
    v->ahead = true;
    return set_block(v, at, false);
}

/* The mask inside the blocks of the diagonal is forgotten. */
es_status compare_block_ahead(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_block_ahead, NUMBERS(blocks), applies, err);
}

static bool set_last_block(const compare_case *c, compare_variant *v, int64_t at)
{
    const int64_t rest = v->keys % blocks[at], left = rest ? rest : blocks[at];
    (void)c;
    snprintf(v->note, sizeof v->note, "%lld", (long long)blocks[at]);
    v->keys -= left;
    return v->mask == COMPARE_CAUSAL && v->keys > 0;
}

es_status compare_last_block(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_last_block, NUMBERS(blocks), applies, err);
}

/* ---- heads, positions, values ---- */

enum { MOST_HEADS = 64 };

static bool set_one_head(const compare_case *c, compare_variant *v, int64_t at)
{
    v->one_head = 1 + at;
    snprintf(v->note, sizeof v->note, "%lld", (long long)at);
    return c->s->kv_heads > 1 && at < c->s->kv_heads;
}

es_status compare_one_head(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_one_head, MOST_HEADS, applies, err);
}

es_status compare_alibi(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)err;
    v->alibi = true;
    *applies = !v->swapped && c->s->n > 1;
    return ES_OK;
}

static const struct {
    int64_t by;
    compare_edge edge;
    const char *note;
} shifts[] = {{1, COMPARE_ROLL, "key j has the value of key j + 1"},
              {-1, COMPARE_ROLL, "key j has the value of key j - 1"},
              {1, COMPARE_ZERO, "key j has the value of key j + 1, the last none"},
              {-1, COMPARE_ZERO, "key j has the value of key j - 1, the first none"},
              {1, COMPARE_CLAMP, "key j has the value of key j + 1, the last its own"},
              {-1, COMPARE_CLAMP, "key j has the value of key j - 1, the first its own"},
              {2, COMPARE_ROLL, "key j has the value of key j + 2"},
              {-2, COMPARE_ROLL, "key j has the value of key j - 2"},
              {2, COMPARE_ZERO, "key j has the value of key j + 2, the last two none"},
              {-2, COMPARE_ZERO, "key j has the value of key j - 2, the first two none"}};

static bool set_shift(const compare_case *c, compare_variant *v, int64_t at)
{
    (void)c;
    v->values_by = shifts[at].by;
    v->edge = shifts[at].edge;
    snprintf(v->note, sizeof v->note, "%s", shifts[at].note);
    return v->keys > llabs(shifts[at].by);
}

es_status compare_values_shifted(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_shift, NUMBERS(shifts), applies, err);
}

/* ---- numbers ---- */

/* Logarithms of the largest numbers of f16 and of f32, whose exponents bf16 has, too. Weights in
 * f16 may be stored wider afterwards. */
static const struct {
    double limit;
    const char *note, *weights;
} overflows[] = {{11.0898, "f16 (scores above 11.09)", NULL},
                 {88.7228, "f32 (scores above 88.72)", NULL},
                 {11.0898, "f16 (scores above 11.09)", "f16"}};

static bool set_overflow(const compare_case *c, compare_variant *v, int64_t at)
{
    v->overflow = overflows[at].limit;
    snprintf(v->note, sizeof v->note, "%s", overflows[at].note);
    if (overflows[at].weights)
        v->format = compare_format_named(overflows[at].weights);
    return !v->format || v->format->unit > c->format->unit;
}

es_status compare_overflows(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    compare_sum lost = {0};
    ES_TRY(choose(c, v, set_overflow, NUMBERS(overflows), applies, err));
    if (!*applies || !v->format)
        return ES_OK;
    /* of a coarser format anything small would fit: the worst row must be lost, which expects no
     * error */
    ES_TRY(compare_row_at(c, v, c->furthest, &lost, err));
    *applies = lost.rows > 0 && lost.nonfinite == 0 && lost.expected == 0.0;
    return ES_OK;
}

/* Formats that inputs may have been rounded to: the output's own, or if that is wider a narrower
 * one; fp8. */
static bool set_inputs(const compare_case *c, compare_variant *v, int64_t at)
{
    static const char *const names[] = {"bf16", "f16"};
    v->inputs = at < 2 ? compare_format_named(names[at]) : compare_format_of_eight(at - 2);
    snprintf(v->note, sizeof v->note, "%s", v->inputs->name);
    return at >= 2 || !c->format->weights || v->inputs->unit == c->format->unit;
}

es_status compare_inputs_rounded(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_inputs, 4, applies, err);
}

/* Sums in the format of the output, of 16 bits, instead of f32. */
es_status compare_narrow_sums(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    static const compare_format narrow[] = {{"bf16", 0x1p-8, 0x1p-134, 0x1p-8, true},
                                            {"f16", 0x1p-11, 0x1p-25, 0x1p-11, true}};
    (void)err;
    *applies = c->format->weights;
    v->format = &narrow[c->format->unit == 0x1p-11];
    snprintf(v->note, sizeof v->note, "%s and stored", v->format->name);
    return ES_OK;
}

static const double probabilities[] = {0.1, 0.2, 0.05, 0.3, 0.25, 0.15};

static bool set_dropout(const compare_case *c, compare_variant *v, int64_t at)
{
    (void)c;
    v->dropout = probabilities[at];
    snprintf(v->note, sizeof v->note, "p = %.2g", probabilities[at]);
    return v->mask == COMPARE_CAUSAL; /* only rows of few keys show which weights were dropped */
}

es_status compare_dropout(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return choose(c, v, set_dropout, NUMBERS(probabilities), applies, err);
}
