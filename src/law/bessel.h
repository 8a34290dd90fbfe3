/* SPDX-License-Identifier: Apache-2.0 */
/* bessel.h : one coordinate U_1 of a uniform point of the unit sphere in R^d, tilted by r >= 0.
 *
 * 1 <= d <= 4098. d = 1 is a fair sign (tanh), d = 3 a uniform number (coth r - 1/r), d + 2 the
 * ball in R^d. (THEORY.md 1.1.) Constant time, no memory, thread-safe. Errors are bounds on
 * rounding and truncation together: a few ulp, tested for r up to 1e12.
 *  @return : ES_OK; ES_E_RANGE if d or r is outside.
 */
#ifndef ES_LAW_BESSEL_H
#define ES_LAW_BESSEL_H

#include <stdint.h>

#include <esscher/view.h>
#include <esscher/status.h>

/*! es_bessel_ratio() : A_d(r) = I_{d/2}(r) / I_{d/2-1}(r), the tilted mean of U_1. */
es_status es_bessel_ratio(int64_t d, double r, es_num *out, es_error *err);

/*! es_bessel_slope() : A_d'(r), the tilted variance of U_1. */
es_status es_bessel_slope(int64_t d, double r, es_num *out, es_error *err);

/*! es_bessel_log_mgf() : K_d(r) = ln E exp(r U_1), whose derivative is A_d(r). */
es_status es_bessel_log_mgf(int64_t d, double r, es_num *out, es_error *err);

#endif
