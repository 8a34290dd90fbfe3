/* SPDX-License-Identifier: Apache-2.0 */
/* reject.c : laws with rejection methods: gamma, chi, beta, bounded integers.
 *
 * Each element has its own OWN lanes and uses them in order, so that its rejections do not change
 * any other element. The kernels compute the first lanes of many elements together, which is nearly
 * always enough; only an element that needs further lanes uses scalar blocks.
 */
#include <esscher/random.h>

#include <math.h>

#include "base/error.h"
#include "random/blocks.h"
#include "random/elementary.h"
#include "random/random.h"

enum {
    OWN = 64,           /* lanes of an element */
    ATTEMPTS = 62,      /* of a gamma: lanes 0..61, two lanes for two attempts */
    BOOST = 62,         /* the lane whose uniform brings a shape below 1 back */
    CHUNK = 8 * ES_TILE /* elements made together */
};

/* ---- gamma ---- */

/* Constants of the gamma sampler. */
typedef struct gamma_law {
    double d, c;  /* Marsaglia and Tsang's: gamma = d (1 + c x)^3 for some normal x */
    double power; /* 1/shape below shape 1, where gamma(shape) = gamma(shape+1) u^(1/shape); or 0 */
} gamma_law;

/* Prepares Marsaglia and Tsang's method for gamma variables; shapes below 1 are drawn at shape +
 * 1 and multiplied by U^(1/shape). */
static es_status gamma_init(const char *name, double shape, gamma_law *law, es_error *err)
{
    if (!(shape >= 1e-9 && shape <= 1e9))
        return es_fail(err, ES_E_RANGE, "random.shape_parameter", "use 1e-9 to 1e9",
                       "%s gives a gamma of shape %g", name, shape);
    law->power = shape < 1.0 ? 1.0 / shape : 0.0;
    law->d = (shape < 1.0 ? shape + 1.0 : shape) - 1.0 / 3.0;
    law->c = 1.0 / (3.0 * sqrt(law->d));
    return ES_OK;
}

/* One attempt with normal x and uniform u. Returns the gamma variate, or 0 for a rejection. */
static double gamma_attempt(const gamma_law *law, double x, double u)
{
    const double root = 1.0 + law->c * x;
    if (!(root > 0.0))
        return 0.0;
    const double v = root * root * root, x2 = x * x;
    /* The first test implies the second and spares two logarithms nearly every time. */
    if (u < 1.0 - 0.0331 * (x2 * x2) ||
        -es_negative_log(u) < 0.5 * x2 + law->d * (1.0 - v - es_negative_log(v)))
        return law->d * v;
    return 0.0;
}

/* The element at (seed, high, low), whose first two lanes hold normals x[2] and uniforms u[2]. If
 * all attempts fail (probability below 1e-80) it is d, the value for x = 0. */
static double gamma_element(const gamma_law *law, uint64_t seed, uint64_t high, uint64_t low,
                            const double x[2], const double u[2])
{
    double more_x[2] = {x[0], x[1]}, more_u[2] = {u[0], u[1]};
    for (uint64_t k = 0; k < ATTEMPTS; k++) {
        if (k >= 2 && k % 2 == 0) {
            uint64_t words[2];
            es_block_words(seed, high, low + k, words);
            es_block_normals(words, more_x);
            es_block_words(seed, high, low + k + 1, words);
            more_u[0] = es_open_unit(words[0]);
            more_u[1] = es_open_unit(words[1]);
        }
        const double gamma = gamma_attempt(law, more_x[k % 2], more_u[k % 2]);
        if (gamma > 0.0)
            return gamma;
    }
    return law->d;
}

/* Gamma variates as (g, h): the variate is g exp(-h), with h > 0 below shape 1 only, where the
 * variate itself may underflow. Elements are those of the next `count` blocks of the cursor. */
static void gamma_chunk(const gamma_law *law, const es_address *first, es_block_cursor *cursor,
                        int64_t count, double *g, double *h)
{
    const es_block_kernels *kernels = es_blocks_best();
    const uint64_t seed = first->seed, high = es_address_high(first);
    uint64_t at[CHUNK];
    double x[2 * CHUNK], u[2 * CHUNK];
    const int64_t padded = es_blocks_list(cursor, count, at);
    kernels->normals(seed, high, at, padded, x);
    for (int64_t i = 0; i < padded; i++)
        at[i] += 1;
    kernels->uniforms(seed, high, at, padded, u);
    for (int64_t i = 0; i < count; i++)
        g[i] = gamma_element(law, seed, high, at[i] - 1, x + 2 * i, u + 2 * i);
    for (int64_t i = 0; i < count; i++)
        h[i] = 0.0;
    if (law->power == 0.0)
        return;
    for (int64_t i = 0; i < padded; i++)
        at[i] += BOOST - 1;
    kernels->exponentials(seed, high, at, padded, u);
    for (int64_t i = 0; i < count; i++)
        h[i] = u[2 * i] * law->power;
}

es_status es_gamma_rows(const es_address *first, int64_t tokens, int64_t dim, double shape,
                        double *out, es_error *err)
{
    gamma_law law;
    double h[CHUNK];
    ES_TRY(es_rows_check(first, tokens, dim, 2 * OWN, out, err));
    ES_TRY(gamma_init("es_gamma_rows", shape, &law, err));
    es_block_cursor cursor = es_blocks_begin(first, dim, OWN);
    for (int64_t left = tokens * dim, n; left > 0; left -= n, out += n) {
        n = left < CHUNK ? left : CHUNK;
        gamma_chunk(&law, first, &cursor, n, out, h);
        if (law.power > 0.0)
            for (int64_t i = 0; i < n; i++)
                out[i] *= es_exp(-h[i]);
    }
    return ES_OK;
}

es_status es_chi_rows(const es_address *first, int64_t tokens, int64_t dim, double freedom,
                      double *out, es_error *err)
{
    ES_TRY(es_gamma_rows(first, tokens, dim, 0.5 * freedom, out, err));
    for (int64_t i = 0; i < tokens * dim; i++)
        out[i] = sqrt(2.0 * out[i]);
    return ES_OK;
}

/* a/(a+b) for a = ga exp(-ha), b = gb exp(-hb), none of which need be representable. */
static double beta_of(double ga, double ha, double gb, double hb)
{
    const double log_ratio = (es_negative_log(ga) + ha) - (es_negative_log(gb) + hb);
    return 1.0 / (1.0 + es_exp(log_ratio));
}

es_status es_beta_rows(const es_address *first, int64_t tokens, int64_t dim, double a, double b,
                       double *out, es_error *err)
{
    gamma_law law_a, law_b;
    ES_TRY(es_rows_check(first, tokens, dim, 4 * OWN, out, err));
    ES_TRY(gamma_init("a of es_beta_rows", a, &law_a, err));
    ES_TRY(gamma_init("b of es_beta_rows", b, &law_b, err));
    es_address second = *first;
    second.lane += OWN;
    es_block_cursor cursor_a = es_blocks_begin(first, dim, 2 * OWN);
    es_block_cursor cursor_b = es_blocks_begin(&second, dim, 2 * OWN);
    double ga[CHUNK], ha[CHUNK], gb[CHUNK], hb[CHUNK];
    for (int64_t left = tokens * dim, n; left > 0; left -= n, out += n) {
        n = left < CHUNK ? left : CHUNK;
        gamma_chunk(&law_a, first, &cursor_a, n, ga, ha);
        gamma_chunk(&law_b, first, &cursor_b, n, gb, hb);
        for (int64_t i = 0; i < n; i++)
            out[i] = beta_of(ga[i], ha[i], gb[i], hb[i]);
    }
    return ES_OK;
}

/* ---- integers ---- */

__extension__ typedef unsigned __int128 wide;

/* The element at (seed, high, low), whose first lane holds words[2].
 *
 * word*count / 2^64 lies in [0, count). Each integer is hit by floor or ceiling of 2^64/count
 * words; dropping those whose product has a lower half below 2^64 mod count leaves the floor for
 * every one. */
static int64_t integer_element(uint64_t count, uint64_t seed, uint64_t high, uint64_t low,
                               const uint64_t words[2])
{
    uint64_t more[2] = {words[0], words[1]};
    wide product = (wide)more[0] * count;
    if ((uint64_t)product < count) { /* rare for a small count; only now is the division needed */
        const uint64_t least = (0 - count) % count;
        for (uint64_t k = 1; (uint64_t)product < least && k < 2 * OWN; k++) {
            if (k % 2 == 0)
                es_block_words(seed, high, low + k / 2, more);
            product = (wide)more[k % 2] * count;
        }
    }
    return (int64_t)(product >> 64);
}

es_status es_integer_rows(const es_address *first, int64_t tokens, int64_t dim, int64_t count,
                          int64_t *out, es_error *err)
{
    ES_TRY(es_rows_check(first, tokens, dim, 2 * OWN, out, err));
    if (count < 1)
        return es_fail(err, ES_E_RANGE, "random.count", "use a count of 1 or more",
                       "no integer in [0, %lld)", (long long)count);
    const uint64_t high = es_address_high(first);
    es_block_cursor cursor = es_blocks_begin(first, dim, OWN);
    uint64_t at[CHUNK], words[2 * CHUNK];
    for (int64_t left = tokens * dim, n; left > 0; left -= n, out += n) {
        n = left < CHUNK ? left : CHUNK;
        const int64_t padded = es_blocks_list(&cursor, n, at);
        es_blocks_best()->words(first->seed, high, at, padded, words);
        for (int64_t i = 0; i < n; i++)
            out[i] = integer_element((uint64_t)count, first->seed, high, at[i], words + 2 * i);
    }
    return ES_OK;
}
