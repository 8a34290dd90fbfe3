/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_hypotheses.c : known mistakes of attention kernels and their callers, one description
 * each. Each function changes the variant that was asked for. Those without a fitted number come
 * first. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/measure/oracle.h"

/* ---- which keys are seen ---- */

/* Makes the variant causal: the first query stands at key `shift`, and no key behind a query's own
 * is seen. */
static es_status see_causally(compare_case *c, compare_variant *v, int64_t shift, bool *applies)
{
    v->mask = COMPARE_CAUSAL;
    v->shift = shift;
    v->width = 0;
    *applies = v->keys > 1 && compare_queries(c, v) > 0 && !compare_as_asked(c, v);
    return ES_OK;
}

/* Causal, the first query at the first key. */
static es_status causal(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)err;
    return see_causally(c, v, 0, applies);
}

/* Causal, the last query at the last key. */
static es_status causal_end(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    const int64_t shift = v->keys - compare_queries(c, v);
    (void)err;
    *applies = shift > 0 && !v->swapped; /* else the same as causal, or rows that see nothing */
    return *applies ? see_causally(c, v, shift, applies) : ES_OK;
}

/* Causal without a query's own key. */
static es_status causal_strict(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    const bool alone = compare_as_asked(c, v) && !v->width;
    (void)err;
    ES_TRY(see_causally(c, v, v->shift - 1, applies));
    *applies = *applies && alone;
    return ES_OK;
}

/* Every key, although only some were asked for. */
static es_status unmasked(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    *applies = compare_as_asked(c, v) && v->mask != COMPARE_ALL;
    v->mask = COMPARE_ALL;
    v->shift = v->width = 0;
    return ES_OK;
}

/* Own key seen although excluded, or the reverse. */
static es_status other_self(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    v->exclude_self = !v->exclude_self;
    *applies = v->keys > 1;
    snprintf(v->note, sizeof v->note,
             v->exclude_self ? "does not see its own key" : "sees its own key");
    return ES_OK;
}

/* The last key is not seen. */
static es_status last_missing(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    *applies = v->keys > 1 && v->mask == COMPARE_ALL;
    v->keys -= *applies;
    return ES_OK;
}

/* ---- the scale ---- */

/* Sets another scale. */
static es_status to_scale(compare_variant *v, double scale, bool *applies)
{
    *applies = scale != v->scale && isfinite(scale);
    v->scale = scale;
    snprintf(v->note, sizeof v->note, "%.4g", scale);
    return ES_OK;
}

#define SCALE(name, value)                                                                         \
    static es_status name(compare_case *c, compare_variant *v, bool *applies, es_error *err)       \
    {                                                                                              \
        const double d = (double)c->s->d, b = v->scale, heads = (double)c->s->heads;               \
        (void)d, (void)b, (void)heads, (void)err;                                                  \
        return to_scale(v, value, applies);                                                        \
    }
SCALE(scale_usual, 1.0 / sqrt(d))
SCALE(scale_dim, 1.0 / d)
SCALE(scale_twice, b *b)
SCALE(scale_inverse, sqrt(d))
SCALE(scale_model, 1.0 / sqrt(heads * d))
SCALE(scale_base_two, b *log(2.0))
SCALE(scale_base_e, b / log(2.0))

/* No scale. The sentences of this and the next name the scale: no note. */
static es_status scale_none(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    ES_TRY(to_scale(v, 1.0, applies));
    v->note[0] = '\0';
    return ES_OK;
}

/* All weights are equal. */
static es_status scale_zero(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    ES_TRY(to_scale(v, 0.0, applies));
    v->note[0] = '\0';
    return ES_OK;
}

/* ---- the softmax ---- */

/* sum exp(s) v is not divided by sum exp(s). */
static es_status not_divided(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    v->norm = COMPARE_SUM;
    *applies = true;
    return ES_OK;
}

/* sum exp(s - max s) v is not divided by its weights. */
static es_status not_divided_max(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    v->norm = COMPARE_MAX;
    *applies = true;
    return ES_OK;
}

/* Tests attention with one more key of score 0 and value 0, as "softmax plus one" has. */
static es_status sink(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    v->sink = 1.0;
    *applies = true;
    return ES_OK;
}

/* Learned sinks that were asked for are left out. */
static es_status sinks_missing(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    *applies = v->sinks != NULL;
    v->sinks = NULL;
    return ES_OK;
}

/* Scores are not capped, although that was asked for. */
static es_status uncapped(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)c;
    (void)err;
    *applies = v->cap > 0.0;
    v->cap = 0.0;
    return ES_OK;
}

enum { FIRST_TILE = 16 }; /* of those in the list; 8 comes last */

/* Tests whether zero keys that pad the last tile were left unmasked. */
static es_status padded_to(compare_variant *v, int64_t tile, bool *applies)
{
    const int64_t more = (tile - v->keys % tile) % tile;
    const int64_t before = tile < FIRST_TILE ? FIRST_TILE : tile / 2;
    v->sink = (double)more;
    /* a tile that comes to the same has been tried */
    const bool tried = tile != FIRST_TILE && more == (before - v->keys % before) % before;
    *applies = more > 0 && v->mask == COMPARE_ALL && !tried;
    snprintf(v->note, sizeof v->note, "%lld key%s to a multiple of %lld", (long long)more,
             more == 1 ? "" : "s", (long long)tile);
    return ES_OK;
}

#define PADDED(tile)                                                                               \
    static es_status padded_##tile(compare_case *c, compare_variant *v, bool *applies,             \
                                   es_error *err)                                                  \
    {                                                                                              \
        (void)c, (void)err;                                                                        \
        return padded_to(v, tile, applies);                                                        \
    }
PADDED(16)
PADDED(32)
PADDED(64)
PADDED(128)
PADDED(8)

#define CAPPED(at)                                                                                 \
    static es_status capped_##at(compare_case *c, compare_variant *v, bool *applies,               \
                                 es_error *err)                                                    \
    {                                                                                              \
        (void)c, (void)err;                                                                        \
        *applies = v->cap != (double)(at);                                                         \
        v->cap = at;                                                                               \
        return ES_OK;                                                                              \
    }
CAPPED(50)
CAPPED(30)

/* ---- rounding before the softmax ---- */

/* Scores are rounded to the format. */
static es_status scores_rounded(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)err;
    v->round_scores = true;
    *applies = c->format->weights;
    snprintf(v->note, sizeof v->note, "%s", c->format->name);
    return ES_OK;
}

/* Q, K, V and then scores are rounded. */
static es_status both_rounded(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    v->inputs = c->format;
    return scores_rounded(c, v, applies, err);
}

/* ---- heads ---- */

/* Query head h has key head h mod kv_heads. */
static es_status tiled(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)err;
    v->tiled = true;
    *applies = c->s->kv_heads > 1 && c->s->kv_heads < c->s->heads;
    return ES_OK;
}

/* (n, heads, d) was written, (heads, n, d) is read. */
static es_status swapped_output(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)err;
    v->swapped_output = true;
    *applies = c->s->heads > 1 && c->s->m > 1 && measure_queries(c->s, 0) == c->s->m;
    return ES_OK;
}

/* (heads, n, d) was written, (n, heads, d) is read: a forgotten transposition. */
static es_status flat_output(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)err;
    v->flat_output = true;
    *applies = c->s->heads > 1 && c->s->m > 1 && measure_queries(c->s, 0) == c->s->m &&
               c->s->heads != c->s->m; /* there it is the same */
    return ES_OK;
}

/* All arrays are (n, heads, d), read as (heads, n, d). */
static es_status swapped(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    const measure_state *s = c->s;
    (void)err;
    v->swapped = true;
    *applies = !s->p->tokens && s->heads > 1 && s->heads == s->kv_heads && s->m == s->n &&
               v->keys == s->n && !v->sinks;
    return ES_OK;
}

/* Each row has a factor of its own; with few columns that would explain any output. */
static es_status row_factors(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    (void)err;
    v->row_factor = true;
    *applies = c->s->dv >= 4;
    return ES_OK;
}

/* Rows that nothing was written to: zeros. */
static es_status rows_zero(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    const int64_t rows = c->s->heads * measure_queries(c->s, 0);
    int64_t zero;
    ES_TRY(compare_zero_rows(c, &zero, err));
    v->zero_rows = true;
    *applies = zero > 0 && zero < rows;
    snprintf(v->note, sizeof v->note, "%lld of %lld", (long long)zero, (long long)rows);
    return ES_OK;
}

/* ---- a coarser format than its numbers have ---- */

/* Computed in a coarser format than the numbers have. */
static es_status computed_in(compare_case *c, compare_variant *v, const char *name, bool *applies)
{
    v->format = compare_format_named(name);
    *applies = v->format->unit > c->format->unit;
    /* errors of some sizes have two usual causes */
    const char *also = v->format->weights && c->format->weights ? " or summed in f16"
                       : strcmp(name, "f16") == 0 && strcmp(c->format->name, "f32") == 0
                           ? " or TF32"
                           : "";
    snprintf(v->note, sizeof v->note, "%s%s and stored", name, also);
    return ES_OK;
}

#define COMPUTED_IN(format)                                                                        \
    static es_status in_##format(compare_case *c, compare_variant *v, bool *applies,               \
                                 es_error *err)                                                    \
    {                                                                                              \
        (void)err;                                                                                 \
        return computed_in(c, v, #format, applies);                                                \
    }
COMPUTED_IN(f32)
COMPUTED_IN(f16)
COMPUTED_IN(bf16)

/* ---- the list ---- */

const compare_hypothesis compare_hypotheses[] = {
    {"causal", "causal attention", causal, "causal"},
    {"causal-end", "causal attention, the last query at the last key,", causal_end,
     "causal with the last query at the last key"},
    {"causal-strict", "causal attention without a query's own key", causal_strict},
    {"causal-next", "causal attention that sees", compare_causal_next},
    {"block-ahead", "causal attention that sees all keys of a query's own block of",
     compare_block_ahead},
    {"unmasked", "attention over all keys", unmasked},
    {"sinks-missing", "attention without the learned sinks", sinks_missing},
    {"uncapped", "attention without a cap of scores", uncapped},
    {"inputs-rounded", "attention of Q, K and V rounded to", compare_inputs_rounded},
    {"scale-none", "attention without a scale", scale_none},
    {"scale-usual", "attention with the scale 1/sqrt(d) =", scale_usual},
    {"scale-1/d", "attention with the scale 1/d =", scale_dim},
    {"scale-twice", "attention with its scale applied twice, that is with", scale_twice},
    {"scale-inverse", "attention with the scale sqrt(d) =", scale_inverse},
    {"scale-model", "attention with the scale 1/sqrt(heads d) =", scale_model},
    {"scale-base-2", "attention with 2^s for e^s, that is with the scale", scale_base_two},
    {"scale-base-e", "attention with e^(s log2 e) for e^s, that is with the scale", scale_base_e},
    {"uniform", "the average of all values, whatever the scores,", scale_zero},
    {"not-divided", "sum exp(s) v, not divided by sum exp(s),", not_divided},
    {"not-divided-max", "sum exp(s - max s) v, not divided by its weights,", not_divided_max},
    {"other-self", "attention where a query", other_self},
    {"groups-tiled",
     "attention where query head h has key head h mod the key heads, not "
     "neighbours one key head,",
     tiled},
    {"one-head", "attention where all query heads have one key head, number", compare_one_head},
    {"rows-first", "attention written as (n, heads, d) and read as (heads, n, d)", swapped_output},
    {"heads-first",
     "attention written as (heads, n, d) and read as (n, heads, d), a transposition forgotten,",
     flat_output},
    {"all-rows-first", "attention of (n, heads, d) arrays, all of them read as (heads, n, d),",
     swapped},
    {"heads-moved", "attention with its heads in another order", compare_fit_order},
    {"last-key", "attention without the last key", last_missing},
    {"values-shifted", "attention with shifted values:", compare_values_shifted},
    {"alibi", "attention with ALiBi's slopes by distance", compare_alibi},
    {"first-dropped", "attention without the first keys (#)", compare_first_dropped},
    {"last-block", "attention without the last block of # keys", compare_last_block},
    {"own-block", "attention without the keys of a query's own block of", compare_own_block},
    {"block-tail", "attention without the keys of a query's last block, unless it is whole, of",
     compare_whole_blocks},
    {"sink", "attention with one more in the denominator", sink},
    {"padded-16", "attention that also sees padding, keys of zeros:", padded_16},
    {"padded-32", "attention that also sees padding, keys of zeros:", padded_32},
    {"padded-64", "attention that also sees padding, keys of zeros:", padded_64},
    {"padded-128", "attention that also sees padding, keys of zeros:", padded_128},
    {"padded-8", "attention that also sees padding, keys of zeros:", padded_8},
    {"cap-50", "attention with scores capped as 50 tanh(s/50)", capped_50},
    {"cap-30", "attention with scores capped as 30 tanh(s/30)", capped_30},
    /* after what is exact: (C6) is wide */
    {"scores-rounded", "attention with scores rounded before the softmax to", scores_rounded,
     .noise = true, .ordinary = true},
    {"all-rounded", "attention with Q, K, V and then scores rounded to", both_rounded,
     .noise = true},
    {"window", "causal attention over a window of # keys", compare_fit_window},
    {"band", "attention over a band of # keys to either side", compare_fit_band},
    {"last-keys", "attention without the last keys (#)", compare_fit_firsts},
    {"first-keys", "attention without the first keys (#)", compare_fit_lasts},
    {"factor", "attention times", compare_fit_factor},
    {"scale-fitted", "attention with another scale:", compare_fit_scale},
    {"cap-fitted", "attention with scores capped as c tanh(s/c), c =", compare_fit_cap},
    {"overflow", "attention without subtracting the maximum, which overflows in",
     compare_overflows},
    {"rows-zero", "attention, but for rows of zeros:", rows_zero},
    {"row-factors", "attention with rows multiplied by numbers of their own", row_factors},
    {"dropout", "attention with dropout left on:", compare_dropout},
    {"in-f32", "attention computed in", in_f32},
    {"in-f16", "attention computed in", in_f16, .noise = true},
    {"in-bf16", "attention computed in", in_bf16, .noise = true},
    {"narrow-sums", "attention with sums in", compare_narrow_sums, .noise = true},
    {0}};
