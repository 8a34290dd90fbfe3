/* SPDX-License-Identifier: Apache-2.0 */
/* law_gaussian.c : N(0, size^2 I).
 *
 * Completing the square in E e^{<s,Z>} gives K(s) = size^2 |s|^2 / 2 (THEORY 1): the only law whose
 * tilt moves the mean and leaves the covariance alone, hence the closed forms elsewhere. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "law/law_row.h"

#define EPS DBL_EPSILON

/* Beyond this many standard deviations there is no mass that f64 could see. */
#define TAIL 9.0

/* Draws rows with independent N(0, size^2) coordinates. */
static es_status rows(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    ES_TRY(es_normal_rows(first, count, s->law.dim, z, err));
    for (int64_t i = 0; s->law.size != 1.0 && i < count * s->law.dim; i++)
        z[i] *= s->law.size;
    return ES_OK;
}

/* Computes K(s) = size^2 |s|^2 / 2, its gradient size^2 s and Hessian size^2 I: exact. */
static es_status tilt(const es_law *law, const double *s, double *work, es_mem_limit *budget,
                      es_tilt *out, es_error *err)
{
    (void)work, (void)budget, (void)err;
    const int64_t d = law->dim;
    const double variance = law->size * law->size;
    double sum = 0.0;
    if (out->hess)
        memset(out->hess, 0, (size_t)(d * d) * sizeof(double));
    for (int64_t i = 0; i < d; i++) {
        sum += s[i] * s[i];
        out->grad[i] = variance * s[i];
        if (out->hess)
            out->hess[i * d + i] = variance;
    }
    out->K = 0.5 * variance * sum;
    out->K_err = (double)(d + 3) * EPS * out->K;
    out->grad_err = 2.0 * EPS * variance * sqrt(sum);
    out->hess_err = EPS * variance;
    out->curvature = variance;
    out->third = 0.0;
    return ES_OK;
}

/* Returns the normal density at TAIL z, without its constant, which quadrature divides out. */
static double density(double z) { return exp(-0.5 * TAIL * TAIL * z * z); }

const es_law_row es_law_row_gaussian = {.kind = ES_LAW_GAUSSIAN,
                                        .name = "gaussian",
                                        .title = "Gaussian",
                                        .uses = ES_LAW_USES_SIZE,
                                        .traits = ES_LAW_BASE | ES_LAW_ENTIRE | ES_LAW_QUADRATIC |
                                                  ES_LAW_PRODUCT | ES_LAW_ROUND,
                                        .rows = rows,
                                        .tilt = tilt,
                                        .reach = TAIL,
                                        .density = density};
