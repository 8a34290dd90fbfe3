/* SPDX-License-Identifier: Apache-2.0 */
/* kv_type_kivi.c : KIVI's cache numbers of 4 and 2 bits, which share scales over places for keys
 * and over channels for values.
 *
 * x = f16(row). A group has lo = min, s = f16(f16(max - lo)/(2^b - 1)) and codes
 * c = round-half-even(clamp(f16(f16(x - lo)/s), 0, 2^b - 1)); back c s + lo in f32. A group of keys
 * is some places of one channel, a group of values is 32 channels of one place. Groups with NaN or
 * Inf give back NaN: their lo is set to it. */
#include <math.h>

#include "cache/kv_row.h"

/* Returns s of a group. */
static inline float step(float low, float high, float most)
{
    return es_kv_f16(es_kv_f16(high - low) / most);
}

/* Returns what comes back of x. For s = 0 any code gives lo. Codes are below 2^22, so a sum with
 * 1.5 2^23 rounds them to integers, ties to even. */
static inline float rounded(float x, float low, float s, float most)
{
    const float c = es_kv_clamp(es_kv_f16(es_kv_f16(x - low) / s), 0.0f, most);
    return ((c + 0x1.8p23f) - 0x1.8p23f) * s + low;
}

/* Returns lo of a group whose largest number has the bits `top`: its minimum, or NaN. */
static inline float base(float low, int32_t top) { return top < ES_KV_INF_BITS ? low : NAN; }

/* Rounds n channels of one place. */
static inline void round_block(float *x, int64_t n, float most)
{
    float low = x[0], high = x[0];
    for (int64_t i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    const float s = step(low, high, most);
    low = base(low, es_kv_top_bits(x, n));
    for (int64_t i = 0; i < n; i++)
        x[i] = rounded(x[i], low, s, most);
}

/* Rounds a row of values to f16 and then block by block. */
static inline void round_values(float *x, int64_t n, float most)
{
    es_kv_round_f16(x, n, 1.0f);
    for (; n >= ES_KV_BLOCK; n -= ES_KV_BLOCK, x += ES_KV_BLOCK)
        round_block(x, ES_KV_BLOCK, most);
    if (n > 0)
        round_block(x, n, most);
}

enum { STRIP = 64 }; /* channels that are in work at a time */

/* The statistics of a group of places, for each channel of a strip. */
typedef struct group_stats {
    float low[STRIP], high[STRIP], s[STRIP];
    int32_t top[STRIP];
} group_stats;

/* Computes lo and s of n channels, from channel `first` on. */
static inline void look(const es_view *group, int64_t first, int64_t n, float most, group_stats *g)
{
    float x[STRIP];
    es_kv_load(group, 0, first, n, x);
    for (int64_t i = 0; i < n; i++) {
        g->low[i] = g->high[i] = x[i];
        g->top[i] = es_kv_bits(x[i]) & ES_KV_SIZE_BITS;
    }
    for (int64_t place = 1; place < group->rows; place++) {
        es_kv_load(group, place, first, n, x);
        for (int64_t i = 0; i < n; i++) {
            const int32_t size = es_kv_bits(x[i]) & ES_KV_SIZE_BITS;
            g->low[i] = x[i] < g->low[i] ? x[i] : g->low[i];
            g->high[i] = x[i] > g->high[i] ? x[i] : g->high[i];
            g->top[i] = size > g->top[i] ? size : g->top[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        g->s[i] = step(g->low[i], g->high[i], most);
        g->low[i] = base(g->low[i], g->top[i]);
    }
}

/* Rounds the places of a group, each channel with its own lo and s. */
static inline void round_keys(const es_view *group, float most)
{
    group_stats g;
    float x[STRIP];
    for (int64_t first = 0; first < group->cols; first += STRIP) {
        const int64_t n = group->cols - first < STRIP ? group->cols - first : STRIP;
        look(group, first, n, most, &g);
        for (int64_t place = 0; place < group->rows; place++) {
            es_kv_load(group, place, first, n, x);
            for (int64_t i = 0; i < n; i++)
                x[i] = rounded(x[i], g.low[i], g.s[i], most);
            es_kv_store(group, place, first, n, x);
        }
    }
}

/* Defines the functions of a type with codes from 0 to `most`. */
#define ROUND_GROUPS(type, most)                                                                   \
    static void values_##type(float *x, int64_t n, float scale)                                    \
    {                                                                                              \
        (void)scale;                                                                               \
        round_values(x, n, most);                                                                  \
    }                                                                                              \
    static void keys_##type(const es_view *group) { round_keys(group, most); }
ROUND_GROUPS(kivi4, 15.0f)
ROUND_GROUPS(kivi2, 3.0f)

const es_kv_type es_kv_row_kivi4 = {.name = "kivi4",
                                    .about = "KIVI (arXiv 2402.02750), 4 bits: scales of keys per "
                                             "channel and :group=32 places; the newest "
                                             ":residual=128 places in f16",
                                    .bits = 4,
                                    .scale_bits = 32,
                                    .round = values_kivi4,
                                    .round_keys = keys_kivi4};

const es_kv_type es_kv_row_kivi2 = {.name = "kivi2",
                                    .about = "KIVI, 2 bits: as kivi4",
                                    .bits = 2,
                                    .scale_bits = 32,
                                    .round = values_kivi2,
                                    .round_keys = keys_kivi2};
