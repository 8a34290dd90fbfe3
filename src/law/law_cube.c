/* SPDX-License-Identifier: Apache-2.0 */
/* law_cube.c : independent coordinates that are uniform on [-size, size], or signs +-size.
 *
 * A coordinate of the unit sphere in R^3 is uniform on [-1, 1] (Archimedes), in R^1 it is a fair
 * sign: K is a sum of K_3(size |s_i|) = ln(sinh z/z) or K_1 = ln cosh z, gradient and Hessian the
 * Langevin function coth z - 1/z or tanh z and their slopes (THEORY 1, 1.1). */
#include <float.h>
#include <math.h>

#include "base/error.h"
#include "law/law_row.h"

#define EPS DBL_EPSILON

/* Draws rows with independent coordinates, uniform on [-size, size]. */
static es_status cube_rows(const es_source *s, const es_address *first, int64_t count,
                           const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    ES_TRY(es_uniform_rows(first, count, s->law.dim, z, err));
    for (int64_t i = 0; i < count * s->law.dim; i++)
        z[i] = s->law.size * (2.0 * z[i] - 1.0); /* the bracket is exact */
    return ES_OK;
}

/* Draws rows with independent coordinates, -size or size with probability 1/2 each. */
static es_status sign_rows(const es_source *s, const es_address *first, int64_t count,
                           const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    ES_TRY(es_uniform_rows(first, count, s->law.dim, z, err));
    for (int64_t i = 0; i < count * s->law.dim; i++)
        z[i] = z[i] < 0.5 ? -s->law.size : s->law.size;
    return ES_OK;
}

/* `size` times a coordinate of the sphere in R^q. |E (Z-EZ)^3| <= 2 size E (Z-EZ)^2. */
static void coordinate(int64_t q, double R, double s, es_coordinate *out)
{
    es_num A, slope;
    const double r = fabs(R * s);
    es_bessel_ratio_slope(q, r, &A, &slope);
    const es_num K = es_bessel_log(q, r);
    *out = (es_coordinate){.K = K.val,
                           .K_err = K.err + EPS * A.val * r,
                           .grad = copysign(R * A.val, s),
                           .grad_err = R * (A.err + EPS * (A.val + slope.val * r)),
                           .hess = R * R * slope.val,
                           .hess_err = R * R * (slope.err + 2.0 * EPS * slope.val * (1.0 + r)),
                           .third = 2.0 * R * (R * R * slope.val)};
}

/* Computes K(s) = ln(sinh z / z), z = size s, and its derivatives for one coordinate of the cube.
 */
static void cube_coordinate(const es_law *law, double s, es_coordinate *out)
{
    coordinate(3, law->size, s, out);
}

/* Computes K(s) = ln cosh(size s) and its derivatives for one coordinate of the signs. */
static void sign_coordinate(const es_law *law, double s, es_coordinate *out)
{
    coordinate(1, law->size, s, out);
}

const es_law_row es_law_row_cube = {.kind = ES_LAW_CUBE,
                                    .name = "cube",
                                    .title = "cube",
                                    .uses = ES_LAW_USES_SIZE,
                                    .traits = ES_LAW_BASE | ES_LAW_ENTIRE | ES_LAW_PRODUCT,
                                    .rows = cube_rows,
                                    .tilt = es_tilt_product,
                                    .coordinate = cube_coordinate,
                                    .reach = 1.0};

const es_law_row es_law_row_rademacher = {.kind = ES_LAW_RADEMACHER,
                                          .name = "rademacher",
                                          .title = "Rademacher",
                                          .uses = ES_LAW_USES_SIZE,
                                          .traits = ES_LAW_BASE | ES_LAW_ENTIRE | ES_LAW_PRODUCT,
                                          .rows = sign_rows,
                                          .tilt = es_tilt_product,
                                          .coordinate = sign_coordinate};
