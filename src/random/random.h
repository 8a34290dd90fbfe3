/* SPDX-License-Identifier: Apache-2.0 */
/* random.h : what the library alone needs beside <esscher/random.h>. */
#ifndef ES_RANDOM_RANDOM_H
#define ES_RANDOM_RANDOM_H

#include <esscher/random.h>

/*! es_address_check() : fails unless every field fits its bits. @return : ES_OK; ES_E_RANGE, naming
 * it. */
es_status es_address_check(const es_address *address, es_error *err);

/*! es_uniform_at() : the first element of the row of uniforms that starts at this address; NaN if
 * the address does not fit. Scalar code, some tens of nanoseconds; same bits as the rows. */
double es_uniform_at(const es_address *address);

/*! es_sphere_rows() : each row uniform on the unit sphere S^{dim-1}: the normal row at the same
 * address divided by its norm, which is never 0. The norm is 1 within (2 + dim/16) 2^-53. For
 * dim = 1 the row is +1 or -1. A row is a whole: fewer elements are another point. */
es_status es_sphere_rows(const es_address *first, int64_t tokens, int64_t dim, double *out,
                         es_error *err);

/*! es_exponential_rows() : exponential with mean 1, -log of the uniform at the same address.
 * Within 1 ulp of it; largest value 36.7. */
es_status es_exponential_rows(const es_address *first, int64_t tokens, int64_t dim, double *out,
                              es_error *err);

/*! es_gamma_rows() : gamma with this shape and scale 1, by Marsaglia and Tsang (2000); shape below
 * 1 by a power of a uniform. shape in [1e-9, 1e9]. A small shape may give 0, where the exact value
 * is below the smallest double. An element may try 62 times, each with success above 0.95. */
es_status es_gamma_rows(const es_address *first, int64_t tokens, int64_t dim, double shape,
                        double *out, es_error *err);

/*! es_chi_rows() : the norm of a standard normal vector of `freedom` dimensions, which need not be
 * a whole number: the root of twice the gamma of shape freedom/2 at the same address. freedom in
 * [2e-9, 2e9]. */
es_status es_chi_rows(const es_address *first, int64_t tokens, int64_t dim, double freedom,
                      double *out, es_error *err);

/*! es_beta_rows() : beta with shapes a, b in [1e-9, 1e9], from two gammas compared by their
 * logarithms, so that small shapes do not end in 0/0. In (0,1]; 1 is the nearest double to values
 * that close to it. */
es_status es_beta_rows(const es_address *first, int64_t tokens, int64_t dim, double a, double b,
                       double *out, es_error *err);

/*! es_integer_rows() : integers in [0, count), each exactly equally likely, by Lemire's (2019)
 * multiplication with rejection. count >= 1. An element may try 128 times, each with success above
 * 1/2. */
es_status es_integer_rows(const es_address *first, int64_t tokens, int64_t dim, int64_t count,
                          int64_t *out, es_error *err);

/* A random permutation of [0, count) that is never written down. Numbers are written as (l, r) in
 * a rows x columns rectangle hardly larger than count; a Feistel network adds to l a keyed function
 * of r, to r one of l, and so on; results outside [0, count) are sent through again. The members
 * are the library's. */
typedef struct es_permutation {
    int64_t count, rows, columns;
    int rounds;
    uint64_t key[2];
} es_permutation;

/*! es_permutation_init() : the permutation of [0, count) at this address; one block. Different
 * lanes, tokens, ... give unrelated permutations, as do different counts.
 *  @return : ES_OK; ES_E_ARGUMENT if a pointer is NULL; ES_E_RANGE if the address does not fit or
 * count is not in [1, 2^40]. */
es_status es_permutation_init(const es_address *address, int64_t count, es_permutation *out,
                              es_error *err);

/*! es_permutation_at() : where `index` goes; -1 if it is not in [0, count). Pure function; O(1)
 * time (about 50 ns; 0.25 microseconds for a count below 256) and memory, so that any slice of a
 * shuffle of 2^40 tokens is at hand. The law is that of a Feistel network of 12 rounds (48 below
 * 256): for up to 6 things within about 10^-6 of a uniform shuffle in total variation, if the keyed
 * functions are ideal; beyond that not known, but tested on places and pairs of places. */
int64_t es_permutation_at(const es_permutation *permutation, int64_t index);

#endif
