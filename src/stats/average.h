/* SPDX-License-Identifier: Apache-2.0 */
/* average.h : means over replicates, medians, and lines through points, with standard errors.
 *
 * Two orders of rounding live here, and results know which one they were made with: draws of many
 * numbers are added and then divided; a single column is divided and then added. */
#ifndef ES_STATS_AVERAGE_H
#define ES_STATS_AVERAGE_H

#include <stdint.h>

#include <esscher/format.h>

/*! es_average_column() : mean of x (count), `stride` apart, and its standard error, NaN of one
 * number. Two passes. */
es_measured es_average_column(const double *x, int64_t count, int64_t stride);

/*! es_average_rows() : draws (count, rows, numbers) to out (rows, 2, numbers): of each number its
 * mean over the first index and the standard error of that. */
void es_average_rows(const double *draws, int64_t count, int64_t rows, int64_t numbers,
                     double *out);

/*! es_block_se() : the standard error of m = sum w x / sum w over `count` independent blocks, such
 * as a mean over queries of which block b has w_b and the average x_b. Blocks are drawn with their
 *  weights, so this is a ratio, and to first order its variance is that of sum w (x - m) / sum w:
 *
 *      count / (count - 1)  sum (w (x - m))^2 / (sum w)^2
 *
 *  `scatter` is sum (w (x - m))^2, below 0 taken for 0 (it may be a difference of sums); `weight`
 * is sum w. NaN of one block. */
double es_block_se(double scatter, double weight, int64_t count);

/* Mean of a column, and the sum of squared deviations from it. */
typedef struct es_spread {
    double mean, squares;
} es_spread;

/*! es_spread_of() : of x (count), `stride` apart. */
es_spread es_spread_of(const double *x, int64_t count, int64_t stride);

/*! es_measured_mean() : of x (count); the error of one number is NaN. */
es_measured es_measured_mean(const double *x, int64_t count);

/*! es_measured_rms() : root mean square of x (count), `stride` apart. Its error is that of the mean
 *  square, through d sqrt(x) = dx / (2 sqrt(x)). */
es_measured es_measured_rms(const double *x, int64_t count, int64_t stride);

/*! es_measured_slope() : least squares of y on x (count), every point weighs the same; the error is
 *  from the residuals, NaN of two points. */
es_measured es_measured_slope(const double *x, const double *y, int64_t count);

/* A ratio of two means of positive numbers; its 95 % interval. */
typedef struct es_mean_ratio {
    double value, se, low, high;
} es_mean_ratio;

/*! es_ratio_of_means() : returns above/below, each a mean over the given number of independent
 * replicates (not a whole number where some overlap), with its interval. Positive numbers whose
 * standard deviation is about their mean, such as squared errors, have nearly normal logarithms. So
 * the interval is computed for the logarithm, by Student's t with Welch and Satterthwaite's degrees
 * of freedom. For numbers distributed like chi^2 of 2 to 20 degrees it covers 93 to 97 % from 4
 * replicates on. NaN for one replicate. */
es_mean_ratio es_ratio_of_means(es_measured above, double n_above, es_measured below,
                                double n_below);

/*! es_sort_reals() : increasing; there must be no NaN among them. */
void es_sort_reals(double *values, int64_t count);

/*! es_median_of() : of values that are in order, the mean of the middle two where their number is
 *  even; NaN of none. */
double es_median_of(const double *sorted, int64_t count);

#endif
