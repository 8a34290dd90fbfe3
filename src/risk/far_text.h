/* SPDX-License-Identifier: Apache-2.0 */
/* far_text.h : sums over the keys of a stratum (far_sums.h), compiled once per instruction set by
 * the rules of random/elementary.h: the same operations in the same order everywhere.
 *
 * The including file defines ES_FAR_SUMS, the function's name. A chunk of keys at a time: first
 * every key by itself, in a loop without branches that vectorises; then sums, in lanes of which the
 * order is fixed. */
#include "risk/far_sums.h"

#include "random/elementary.h"
#include "risk/lanes_text.h"

_Static_assert((int)LANES == (int)ES_FAR_LANES, "strata are filled up to whole lanes");

enum { STEPS = ES_FAR_STEPS };

/* Keys of a chunk, times their probabilities. */
typedef struct chunk {
    double kept[CHUNK], some[CHUNK], once[CHUNK], square[CHUNK];
} chunk;

/* Sums side by side. */
typedef struct lanes {
    double kept[LANES], some[LANES], once[LANES], square[LANES];
} lanes;

/* Computes e^{-x} and its products at x = x0 times. e^{-708} and less count as 0. */
static void meet_chunk(const double *share, const double *u2, const double *x0, double times,
                       int64_t count, chunk *c)
{
    for (int64_t j = 0; j < count; j++) {
        const double all = x0[j] * times, x = all > 708.0 ? 708.0 : all;
        const double damped = es_exp_normal(-x);
        const double kept = share[j] * (all > 708.0 ? 0.0 : damped), once = x * kept;
        c->kept[j] = kept;
        c->some[j] = x > 0.0 ? kept : 0.0;
        c->once[j] = once;
        c->square[j] = once * x * u2[j];
    }
}

static void add_chunk(const chunk *c, int64_t count, lanes *to)
{
    for (int64_t j = 0; j < count; j += LANES)
        for (int64_t l = 0; l < LANES; l++) {
            to->kept[l] += c->kept[j + l];
            to->some[l] += c->some[j + l];
            to->once[l] += c->once[j + l];
            to->square[l] += c->square[j + l];
        }
}

static void mix_chunk(const double *u, int64_t width, const chunk *c, int64_t count,
                      es_far_sums *out)
{
    for (int64_t j = 0; j < count; j += KEYS)
        for (int64_t i = 0; i < STEPS; i += 2)
            mix_two(u + j * width, width, c[i].once + j, c[i + 1].once + j, out[i].mean,
                    out[i + 1].mean);
}

void ES_FAR_SUMS(const es_far_terms *r, double t, double step, es_far_sums *out)
{
    lanes sums[STEPS] = {0};
    chunk c[STEPS];
    double x[CHUNK];
    for (int64_t i = 0; i < STEPS; i++)
        for (int64_t l = 0; l < r->width; l++)
            out[i].mean[l] = 0.0;
    for (int64_t j = 0; j < r->count; j += CHUNK) {
        const int64_t count = r->count - j < CHUNK ? r->count - j : CHUNK;
        begin_chunk(r->s + j, t, count, x);
        for (int64_t i = 0; i < STEPS; i++) {
            meet_chunk(r->share + j, r->u2 + j, x, es_exp_normal(step * (double)i), count, &c[i]);
            add_chunk(&c[i], count, &sums[i]);
        }
        mix_chunk(r->u + j * r->width, r->width, c, count, out);
    }
    for (int64_t i = 0; i < STEPS; i++) {
        out[i].kept = sum_of(sums[i].kept);
        out[i].some = sum_of(sums[i].some);
        out[i].once = sum_of(sums[i].once);
        out[i].square = sum_of(sums[i].square);
    }
}
