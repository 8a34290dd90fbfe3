#include "stats/ks.h"

#include <math.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 2 sum (-1)^{k-1} e^{-2 k^2 z^2}, or below 1 its image under the theta transformation, which is
 * the one that converges there. */
double es_ks_tail(double z)
{
    const double pi = 3.14159265358979323846;
    double sum = 0.0;
    if (!(z > 0.04)) /* e^{-pi^2/(8 z^2)} is 0 */
        return isnan(z) ? z : 1.0;
    if (z < 1.0) {
        for (int k = 1; k <= 7; k += 2)
            sum += exp(-k * k * pi * pi / (8.0 * z * z));
        return 1.0 - sqrt(2.0 * pi) / z * sum;
    }
    for (int k = 1; k <= 5; k++)
        sum += (k % 2 ? 2.0 : -2.0) * exp(-2.0 * k * k * z * z);
    return sum;
}

static es_ks judge(double distance, double size)
{
    const double root = sqrt(size);
    return (es_ks){.distance = distance, .p = es_ks_tail((root + 0.12 + 0.11 / root) * distance)};
}

es_ks es_ks_two(double *x, int64_t m, double *y, int64_t n)
{
    qsort(x, (size_t)m, sizeof *x, by_size);
    qsort(y, (size_t)n, sizeof *y, by_size);
    double most = 0.0;
    for (int64_t i = 0, j = 0; i < m && j < n;) {
        const double at = fmin(x[i], y[j]); /* step over all that are equal before looking */
        while (i < m && x[i] == at)
            i++;
        while (j < n && y[j] == at)
            j++;
        most = fmax(most, fabs((double)i / (double)m - (double)j / (double)n));
    }
    return judge(most, (double)m * (double)n / (double)(m + n));
}

es_ks es_ks_normal(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    double most = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double below = 0.5 * erfc(-x[i] * 0.70710678118654752440);
        most = fmax(most, fmax(below - (double)i / (double)n, (double)(i + 1) / (double)n - below));
    }
    return judge(most, (double)n);
}
