/* SPDX-License-Identifier: Apache-2.0 */
/* hadamard.h : rotation of rows by the orthonormal Walsh-Hadamard matrix. */
#ifndef ES_CACHE_HADAMARD_H
#define ES_CACHE_HADAMARD_H

#include <stdint.h>

/*! es_hadamard() : multiplies a row of n >= 1 numbers in place by H_m / sqrt(m), where H_1 = 1 and
 *  H_2m = [H_m H_m; H_m -H_m], and m is the largest power of 2 that divides n; where m < n, each
 *  stretch of m numbers on its own. The matrix is its own inverse. O(n log m), thread-safe. */
void es_hadamard(double *x, int64_t n);

#endif
