/* SPDX-License-Identifier: Apache-2.0 */
/* freezing.h : from which beta on attention over n keys is selective, and from which single-key.
 *
 * Attention over n keys is averaging, selective or single-key (key_weights.h has the cut-offs, on
 * the exact E sum w^2 for n keys). Here those cut-offs become inverse temperatures: the beta at
 * which E sum w^2 passes them, for any law of keys on the sphere, and for keys of a user, of which
 * only the local exponent is known (exponent.h). Nothing is asymptotic: E sum w^2 is the integral
 * of THEORY 4.2, exact for every n, and it grows with beta.
 *
 * Keys of a user. Near a query P(T <= t) = c t^alpha (1 + ...), and on a great sphere of 2 alpha
 * dimensions the density of x = T/2 is that of Beta(alpha, alpha). n keys of exponent alpha and
 * constant c are, near the query, n c/c_alpha keys that are uniform on such a sphere, c_alpha its
 * own constant. That is exact for uniform keys, and a model of others (a heuristic), good where the
 * keys that share the weight are among those that the estimate was made from.
 *
 * Functions are thread-safe.
 */
#ifndef ES_THEORY_FREEZING_H
#define ES_THEORY_FREEZING_H

#include <stdint.h>

#include <esscher/exec.h>

#include "stats/exponent.h"
#include "theory/key_weights.h"
#include "tokens/keys.h"

/* Where one word becomes the next. NaN: at no beta up to 1e50. */
typedef struct es_scales {
    double averages; /* up to this beta it is averaging; up to the next selective */
    double frozen;   /* from this beta on it is single-key: the freezing scale */
} es_scales;

/*! es_scales_of() : for n keys of a law, to 1e-6 of each. 10 to 100 ms.
 *  @return : ES_OK; as es_keys_check(); ES_E_RANGE unless 2 <= n <= 10^18; ES_E_LIMIT,
 *  ES_E_MEMORY. */
es_status es_scales_of(const es_keys *keys, int64_t n, es_mem_limit *budget, es_scales *out,
                       es_error *err);

/*! es_scales_round() : for n keys, any number from 2 to 10^18, on a sphere of 2 alpha dimensions,
 *  alpha in [1/16, 4096].
 *  @return : ES_OK; ES_E_RANGE; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_scales_round(double alpha, double n, es_mem_limit *budget, es_scales *out,
                          es_error *err);

/*! es_exponent_keys() : n c/c_alpha of an estimate: as many keys on a sphere of 2 alpha dimensions
 *  lie as densely near a query as n of these do. Pure function. */
double es_exponent_keys(const es_exponent *e, double n);

/*! es_exponent_scales() : for n keys of the law that e was estimated from; log_se, which may be
 *  NULL, gets the standard errors of their logarithms that those of alpha and c give.
 *  @return : ES_OK, with NaN where es_exponent_keys() is not in [2, 10^18] or alpha not in
 *  [1/16, 4096]; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_exponent_scales(const es_exponent *e, double n, es_mem_limit *budget, es_scales *out,
                             es_scales *log_se, es_error *err);

/* What n such keys do at one beta. */
typedef struct es_local_weights {
    double top, squares; /* E w_max, E sum w^2 */
    double log_se;       /* standard error of ln squares, as above */
} es_local_weights;

/*! es_exponent_weights() : @return : as es_exponent_scales(), n from 1 on; ES_E_RANGE for beta. */
es_status es_exponent_weights(const es_exponent *e, double n, double beta, es_mem_limit *budget,
                              es_local_weights *out, es_error *err);

/*! es_exponent_tokens() : the n up to which attention over such keys is single-key at this beta:
 *  the same equation, solved for n. 0: never from 3 keys on; infinite: beyond 10^18. NaN as
 *  es_exponent_scales().
 *  @return : ES_OK; ES_E_RANGE for beta; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_exponent_tokens(const es_exponent *e, double beta, es_mem_limit *budget, double *out,
                             es_error *err);

#endif
