/* SPDX-License-Identifier: Apache-2.0 */
/* law_laplace.c : independent coordinates of density e^{-|z|/b} / (2b), b = size.
 *
 * int e^{sz - |z|/b} dz / (2b) = 1/(1 - b^2 s^2) for |b s| < 1 and infinite beyond, so
 * K(s) = -sum ln(1 - b^2 s_i^2), with derivatives 2 b^2 s/w, 2 b^2 (1 + b^2 s^2)/w^2 and
 * 4 b^4 s (3 + b^2 s^2)/w^3, w = 1 - b^2 s^2 (THEORY 1). */
#include <float.h>
#include <math.h>

#include "base/error.h"
#include "law/law_row.h"
#include "random/elementary.h"

#define EPS DBL_EPSILON

/* u < 1/2 gives log(2u), else -log(2(1-u)). Both arguments are exact and below 1. */
static es_status rows(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    ES_TRY(es_uniform_rows(first, count, s->law.dim, z, err));
    for (int64_t i = 0; i < count * s->law.dim; i++) {
        const double u = z[i], tail = u < 0.5 ? 2.0 * u : 2.0 * (1.0 - u);
        const double size = u < 0.5 ? -s->law.size : s->law.size;
        z[i] = size * es_negative_log(tail);
    }
    return ES_OK;
}

/* Computes K(s) = -ln(1 - z^2), z = size s, |z| < 1, and its derivatives for one coordinate. */
static void coordinate(const es_law *law, double s, es_coordinate *out)
{
    const double b = law->size, z = b * s, w = (1.0 - z) * (1.0 + z);
    const double grad = 2.0 * b * z / w, hess = 2.0 * b * b * (1.0 + z * z) / (w * w);
    const double third = 4.0 * b * b * b * fabs(z) * (3.0 + z * z) / (w * w * w);
    *out = (es_coordinate){.K = -(log1p(-z) + log1p(z)),
                           .K_err = EPS * (4.0 * fabs(log1p(-fabs(z))) + fabs(grad * s)),
                           .grad = grad,
                           .grad_err = EPS * (6.0 * fabs(grad) + hess * fabs(s)),
                           .hess = hess,
                           .hess_err = EPS * (8.0 * hess + third * fabs(s)),
                           .third = third};
}

const es_law_row es_law_row_laplace = {.kind = ES_LAW_LAPLACE,
                                       .name = "laplace",
                                       .title = "Laplace",
                                       .uses = ES_LAW_USES_SIZE,
                                       .traits = ES_LAW_BASE | ES_LAW_PRODUCT,
                                       .edge = 1.0,
                                       .rows = rows,
                                       .tilt = es_tilt_product,
                                       .coordinate = coordinate};
