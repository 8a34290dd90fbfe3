/* SPDX-License-Identifier: Apache-2.0 */
/* average.c : means and their errors, spreads, slopes; then order and medians. */
#include "stats/average.h"

#include <math.h>
#include <stdlib.h>

#include "stats/special.h"

es_measured es_average_column(const double *x, int64_t count, int64_t stride)
{
    const double R = (double)count;
    double sum = 0.0, squares = 0.0;
    for (int64_t r = 0; r < count; r++)
        sum += x[r * stride];
    const double mean = sum / R;
    for (int64_t r = 0; r < count; r++)
        squares += (x[r * stride] - mean) * (x[r * stride] - mean);
    return (es_measured){mean, count > 1 ? sqrt(squares / (R - 1.0) / R) : (double)NAN};
}

void es_average_rows(const double *draws, int64_t count, int64_t rows, int64_t numbers, double *out)
{
    const int64_t width = rows * numbers;
    for (int64_t e = 0; e < width; e++) {
        const es_measured m = es_average_column(draws + e, count, width);
        double *to = out + (e / numbers) * 2 * numbers + e % numbers;
        to[0] = m.value;
        to[numbers] = m.se;
    }
}

double es_block_se(double scatter, double weight, int64_t count)
{
    const double blocks = (double)count;
    return count > 1 ? sqrt(fmax(scatter, 0.0) * blocks / (blocks - 1.0)) / weight : (double)NAN;
}

es_spread es_spread_of(const double *x, int64_t count, int64_t stride)
{
    es_spread s = {0.0, 0.0};
    for (int64_t r = 0; r < count; r++)
        s.mean += x[r * stride] / (double)count;
    for (int64_t r = 0; r < count; r++)
        s.squares += (x[r * stride] - s.mean) * (x[r * stride] - s.mean);
    return s;
}

es_measured es_measured_mean(const double *x, int64_t count)
{
    const double R = (double)count;
    const es_spread s = es_spread_of(x, count, 1);
    return (es_measured){s.mean, sqrt(s.squares / (R - 1.0) / R)};
}

es_measured es_measured_rms(const double *x, int64_t count, int64_t stride)
{
    const double R = (double)count;
    double mean = 0.0, spread = 0.0;
    for (int64_t r = 0; r < count; r++)
        mean += x[r * stride] * x[r * stride] / R;
    for (int64_t r = 0; r < count; r++) {
        const double off = x[r * stride] * x[r * stride] - mean;
        spread += off * off / (R * (R - 1.0));
    }
    const double rms = sqrt(mean);
    return (es_measured){rms, sqrt(spread) / (2.0 * rms)};
}

es_mean_ratio es_ratio_of_means(es_measured above, double n_above, es_measured below,
                                double n_below)
{
    const double value = above.value / below.value;
    const double a = pow(above.se / above.value, 2.0), b = pow(below.se / below.value, 2.0);
    const double freedom = (a + b) * (a + b) / (a * a / (n_above - 1.0) + b * b / (n_below - 1.0));
    const double reach = exp(sqrt(a + b) * es_student_quantile(freedom, 0.025));
    return (es_mean_ratio){value, value * sqrt(a + b), value / reach, value * reach};
}

es_measured es_measured_slope(const double *x, const double *y, int64_t count)
{
    const es_spread in_x = es_spread_of(x, count, 1), in_y = es_spread_of(y, count, 1);
    double xy = 0.0, rest = 0.0;
    for (int64_t r = 0; r < count; r++)
        xy += (x[r] - in_x.mean) * (y[r] - in_y.mean);
    const double slope = xy / in_x.squares;
    for (int64_t r = 0; r < count; r++) {
        const double off = y[r] - in_y.mean - slope * (x[r] - in_x.mean);
        rest += off * off;
    }
    return (es_measured){slope, sqrt(rest / (double)(count - 2) / in_x.squares)};
}

/* ---- order ---- */

/* Compares two doubles for qsort(), the smaller first. */
static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void es_sort_reals(double *values, int64_t count)
{
    if (count > 1) /* there may be no values at all */
        qsort(values, (size_t)count, sizeof *values, ascending);
}

double es_median_of(const double *sorted, int64_t count)
{
    return count > 0 ? 0.5 * (sorted[count / 2] + sorted[(count - 1) / 2]) : (double)NAN;
}
