/* SPDX-License-Identifier: Apache-2.0 */
/* quadrature.c : one fixed Gauss rule for integrals of given functions, any rule by Newton's method
 * for tables. */
#include "theory/quadrature.h"

#include <math.h>

#include "stats/special.h"

enum { HALF = 8 };

/* Gauss-Legendre, 16 points on [-1,1]: the positive nodes and their weights. */
static const double nodes[HALF] = {
    0.095012509837637440185, 0.28160355077925891323, 0.45801677765722738634, 0.61787624440264374845,
    0.7554044083550030339,   0.86563120238783174388, 0.94457502307323257608, 0.9894009349916499326};
static const double weights[HALF] = {0.18945061045506849629,  0.18260341504492358887,
                                     0.16915651939500253819,  0.14959598881657673208,
                                     0.12462897125553387205,  0.09515851168249278481,
                                     0.062253523938647892863, 0.027152459411754094852};

/* Integrates f by Gauss-Legendre quadrature over equal panels. */
double es_integrate(es_integrand f, const void *context, double low, double high, int panels)
{
    const double half = 0.5 * (high - low) / panels;
    double sum = 0.0;
    for (int p = 0; p < panels; p++) {
        const double centre = low + half * (2 * p + 1);
        double panel = 0.0;
        for (int i = 0; i < HALF; i++)
            panel += weights[i] *
                     (f(context, centre - half * nodes[i]) + f(context, centre + half * nodes[i]));
        sum += panel;
    }
    return half * sum;
}

/* P_count and its derivative at z. */
static double legendre(int count, double z, double *derivative)
{
    double now = 1.0, before = 0.0;
    for (int j = 0; j < count; j++) {
        const double next = ((2 * j + 1) * z * now - j * before) / (j + 1);
        before = now;
        now = next;
    }
    *derivative = count * (z * now - before) / (z * z - 1.0);
    return now;
}

/* Computes Gauss-Legendre nodes and weights on [a, b]: Newton's method from Tricomi's start, w
 * = 2/((1 - z^2) P'(z)^2). */
void es_legendre(int count, double a, double b, double *x, double *w)
{
    for (int i = 0; i < count; i++) {
        double z = cos(3.14159265358979323846 * (i + 0.75) / (count + 0.5)), slope;
        for (int step = 0; step < 6; step++) /* quadratic: the start is good to 1e-3 */
            z -= legendre(count, z, &slope) / slope;
        legendre(count, z, &slope);
        x[i] = 0.5 * (a + b) - 0.5 * (b - a) * z;
        w[i] = (b - a) / ((1.0 - z * z) * slope * slope);
    }
}

double es_chi_density(double r, int64_t d)
{
    const double half = 0.5 * (double)d;
    return exp((1.0 - half) * log(2.0) - es_log_gamma(half) + (double)(d - 1) * log(r) -
               0.5 * r * r);
}
