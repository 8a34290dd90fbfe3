/* SPDX-License-Identifier: Apache-2.0 */
/* law_logistic.c : independent coordinates of density e^{-z/b} / (b (1 + e^{-z/b})^2), b = size.
 *
 * E e^{zZ} = int u^z (1-u)^{-z} du = Gamma(1+z) Gamma(1-z) = pi z / sin(pi z) for |z| < 1, b = 1,
 * with the logit Z = ln(u/(1-u)) of a uniform u; so K(s) = sum ln(pi z_i / sin(pi z_i)), z_i = b
 * s_i, with derivatives 1/z - pi cot(pi z) and pi^2/sin^2(pi z) - 1/z^2 (THEORY 1). Euler's product
 * sin(pi z) = pi z prod_k (1 - z^2/k^2) makes it a sum of Laplace's K at z, z/2, z/3, ...: terms of
 * one sign, so nothing cancels, neither at 0 nor at the edge. Four are taken as they are; the rest
 * is sum_j c_j z^{2j}/j, c_j = sum_{k>4} k^{-2j}, whose terms fall like 25^{-j}. */
#include <float.h>
#include <math.h>

#include "base/error.h"
#include "law/law_row.h"
#include "random/elementary.h"

#define EPS DBL_EPSILON

/* The logit of the smaller of u and 1 - u, which is exact, then the sign: a law that is symmetric
 * to the bit. */
static es_status rows(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    ES_TRY(es_uniform_rows(first, count, s->law.dim, z, err));
    for (int64_t i = 0; i < count * s->law.dim; i++) {
        const double u = z[i], tail = u < 0.5 ? u : 1.0 - u;
        const double size = u < 0.5 ? -s->law.size : s->law.size;
        z[i] = size * es_negative_log(tail / (1.0 - tail));
    }
    return ES_OK;
}

/* c_1 .. c_12; the next term is below 1e-18 of the whole. */
static const double rest[] = {
    0.22132295573711532536,    3.5713046987925125037e-3,  1.0217924696628649092e-4,
    3.4316186059667982859e-6,  1.2386569324880043492e-7,  4.6472401139872673273e-9,
    1.7836027759837274141e-10, 6.9423827990883046711e-12, 2.7266789829242784795e-13,
    1.0772765096092468543e-14, 4.2729837984770751420e-16, 1.6993703662169744929e-17};
enum { REST = sizeof rest / sizeof *rest, POLES = 4 };

/* K and its first three derivatives at |z| < 1 into k[0..3]. */
static void derivatives(double z, double k[4])
{
    const double z2 = z * z;
    k[0] = k[1] = k[2] = k[3] = 0.0;
    for (int j = REST; j >= 1; j--) { /* Horner, in z^2 */
        const double c = rest[j - 1], even = 2.0 * j;
        k[0] = k[0] * z2 + c / j;
        k[1] = k[1] * z2 + 2.0 * c;
        k[2] = k[2] * z2 + 2.0 * (even - 1.0) * c;
        k[3] = k[3] * z2 + (j > 1 ? 2.0 * (even - 1.0) * (even - 2.0) * c : 0.0);
    }
    k[0] *= z2;
    k[1] *= z;
    k[3] = z != 0.0 ? k[3] / z : 0.0; /* its series begins with z */
    for (int pole = POLES; pole >= 1; pole--) {
        const double x = z / pole, w = (1.0 - x) * (1.0 + x), scale = 1.0 / pole;
        k[0] -= fabs(x) < 0.5 ? log1p(-x * x) : log(w);
        k[1] += scale * (2.0 * x / w);
        k[2] += scale * scale * (2.0 * (1.0 + x * x) / (w * w));
        k[3] += scale * scale * scale * (4.0 * x * (3.0 + x * x) / (w * w * w));
    }
}

/* Computes K(s) = ln(pi z / sin(pi z)), z = size s, |z| < 1, and its derivatives for one
 * coordinate. */
static void coordinate(const es_law *law, double s, es_coordinate *out)
{
    const double b = law->size;
    double k[4];
    derivatives(b * s, k);
    const double grad = b * k[1], hess = b * b * k[2], third = b * b * b * fabs(k[3]);
    *out = (es_coordinate){.K = k[0],
                           .K_err = EPS * (6.0 * k[0] + fabs(grad * s)),
                           .grad = grad,
                           .grad_err = EPS * (8.0 * fabs(grad) + hess * fabs(s)),
                           .hess = hess,
                           .hess_err = EPS * (10.0 * hess + third * fabs(s)),
                           .third = third};
}

const es_law_row es_law_row_logistic = {.kind = ES_LAW_LOGISTIC,
                                        .name = "logistic",
                                        .title = "logistic",
                                        .uses = ES_LAW_USES_SIZE,
                                        .traits = ES_LAW_BASE | ES_LAW_PRODUCT,
                                        .edge = 1.0,
                                        .rows = rows,
                                        .tilt = es_tilt_product,
                                        .coordinate = coordinate};
