/* quadrature.c : Gauss-Legendre rules by Newton's method. */
#include "theory/quadrature.h"

#include <math.h>

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
    return exp((1.0 - half) * log(2.0) - lgamma(half) + (double)(d - 1) * log(r) - 0.5 * r * r);
}
