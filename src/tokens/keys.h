/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h : laws of keys on the unit sphere, as a query sees them.
 *
 * What matters of a key k to a query q is how far it is from it, T = 1 - <q, k> in [0, 2]: near the
 * query P(T <= t) ~ c t^alpha, where alpha = (dim-1)/2 for keys that are uniform (THEORY.md 6).
 *
 * Every function is thread-safe. Logarithms are natural.
 */
#ifndef ES_TOKENS_KEYS_H
#define ES_TOKENS_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/view.h>
#include <esscher/status.h>

#define ES_KEYS_MOST_DIM   INT64_C(4096)
#define ES_KEYS_MOST_N     INT64_C(1000000000000000000)
#define ES_KEYS_MOST_KAPPA 1e4
#define ES_KEYS_MOST_BETA  1e60

/* A von Mises-Fisher part: density proportional to exp(kappa <mu, k>), <mu, q> = cosine. */
typedef struct es_keys_part {
    double weight; /* > 0, used after division by the sum */
    double kappa;  /* 0 .. 10^4; 0: uniform */
    double cosine; /* -1 .. 1 */
} es_keys_part;

/* A law of keys on S^{dim-1}, as seen from q. Keys that fill only a sphere S^m through q have
 * dim = m + 1, whatever space that sphere is in. */
typedef struct es_keys {
    int64_t dim;               /* 2 .. 4096 */
    double vanish;             /* p in [0, 1000]: density proportional to |k - q|^p */
    const es_keys_part *parts; /* (n_parts) a mixture; NULL: uniform, or as `vanish` says */
    int64_t n_parts;
    bool planted; /* one of the n keys is q itself */
} es_keys;

/*! es_keys_check() : fails unless this is a law. O(n_parts).
 *  @return : ES_OK; ES_E_ARGUMENT (keys.parts: parts together with `vanish`);
 *  ES_E_RANGE (keys.dim, keys.vanish, keys.weight, keys.kappa, keys.cosine), NaN included. */
es_status es_keys_check(const es_keys *keys, es_error *err);

/* P(T <= t) ~ c t^alpha. A planted key is not counted. */
typedef struct es_cap_exponent {
    double alpha;
    double log_c; /* c itself overflows from dimension 2100 on */
} es_cap_exponent;

/*! es_keys_exponent() : alpha = (dim-1)/2 + vanish/2 and ln c, to 1e-14 (1 + |ln c|). O(n_parts).
 *  @return : as es_keys_check(). */
es_status es_keys_exponent(const es_keys *keys, es_cap_exponent *out, es_error *err);

/*! es_cap_constant() : c_d of uniform keys, 2^{(d-3)/2} Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)).
 * Infinite from d = 2100 on, NaN for d < 2. */
double es_cap_constant(int64_t dim);

/*! es_cap_probability() : P(T <= t) of uniform keys, t in [0, 2], with a bound on its error that is
 * relative also where the probability is 1e-300.
 *  @return : ES_OK; ES_E_RANGE. */
es_status es_cap_probability(int64_t dim, double t, es_num *out, es_error *err);

#endif
