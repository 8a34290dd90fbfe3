/* SPDX-License-Identifier: Apache-2.0 */
/* each_text.h : nodes of keys that are kept independently, compiled once per instruction set by the
 * rules of random/elementary.h: the same operations in the same order everywhere. Only log() is
 * always that of the C library.
 *
 * The including file defines ES_EACH, the function's name. A few nodes go through the keys
 * together, a chunk of keys at a time. First every key by itself, in loops without branches that
 * vectorise; then sums, in lanes of which the order is fixed.
 *
 * A key is kept with the tilted probability q = p e^{-x}/d, d = 1 - p + p e^{-x}: the square of the
 * mean of l N, and the variance sum q (1 - q) |x u|^2. ln E e^{-lZ} is the sum of ln d, taken of
 * products: e^{-708} and less count as 0, and so does a product of such numbers. */
#include "risk/policy_terms.h"

#include <math.h>

#include "random/elementary.h"
#include "risk/lanes_text.h"

_Static_assert((int)LANES == (int)ES_RISK_LANES, "terms are filled up to whole lanes");

enum { NODES = ES_RISK_NODES };

/* Keys of a chunk at one node. */
typedef struct chunk {
    double d[CHUNK], some[CHUNK], once[CHUNK], square[CHUNK];
} chunk;

/* Sums of several nodes side by side. */
typedef struct lanes {
    double log_mean, some[LANES], once[LANES], square[LANES];
} lanes;

static void meet_chunk(const double *p, const double *u2, const double *x0, double times,
                       int64_t count, chunk *c)
{
    for (int64_t j = 0; j < count; j++) {
        const double all = x0[j] * times, x = all > 708.0 ? 708.0 : all;
        const double e = es_exp_normal(-x), kept = all > 708.0 ? 0.0 : e;
        const double lost = 1.0 - p[j], d = lost + p[j] * kept;
        const double per_d = 1.0 / (d > 1e-300 ? d : 1.0);
        const double q = p[j] * kept * per_d, qx = q * x;
        c->d[j] = d;
        c->some[j] = x > 0.0 ? q : 0.0;
        c->once[j] = qx;
        c->square[j] = qx * x * u2[j] * (lost * per_d);
    }
}

static void add_chunk(const chunk *c, int64_t count, lanes *to)
{
    double product[LANES], all = 1.0;
    for (int64_t l = 0; l < LANES; l++)
        product[l] = 1.0;
    for (int64_t j = 0; j < count; j += LANES)
        for (int64_t l = 0; l < LANES; l++) {
            product[l] *= c->d[j + l];
            to->some[l] += c->some[j + l];
            to->once[l] += c->once[j + l];
            to->square[l] += c->square[j + l];
        }
    for (int64_t l = 0; l < LANES; l++)
        all *= product[l];
    to->log_mean += log(all);
}

static void mix_chunk(const double *u, int64_t width, const chunk *c, int64_t count,
                      es_risk_node *out)
{
    for (int64_t j = 0; j < count; j += KEYS)
        for (int64_t i = 0; i < NODES; i += 2)
            mix_two(u + j * width, width, c[i].once + j, c[i + 1].once + j, out[i].mean,
                    out[i + 1].mean);
}

void ES_EACH(const es_risk_terms *r, double t, double step, es_risk_node *out)
{
    lanes sums[NODES] = {0};
    chunk c[NODES];
    double x[CHUNK];
    for (int64_t j = 0; j < r->padded; j += CHUNK) {
        const int64_t count = r->padded - j < CHUNK ? r->padded - j : CHUNK;
        begin_chunk(r->s + j, t, count, x);
        for (int64_t i = 0; i < NODES; i++) {
            meet_chunk(r->p + j, r->u2 + j, x, es_exp_normal(step * (double)i), count, &c[i]);
            add_chunk(&c[i], count, &sums[i]);
        }
        mix_chunk(r->u + j * r->width, r->width, c, count, out);
    }
    for (int64_t i = 0; i < NODES; i++) {
        out[i].log_mean = sums[i].log_mean;
        out[i].some = sum_of(sums[i].some);
        out[i].once = sum_of(sums[i].once);
        out[i].square = sum_of(sums[i].square);
    }
}
