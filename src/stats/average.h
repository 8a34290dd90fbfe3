/* average.h : means over replicates with their standard errors. */
#ifndef ES_STATS_AVERAGE_H
#define ES_STATS_AVERAGE_H

#include <stdint.h>

/*! es_average_rows() : draws (count, rows, numbers) to out (rows, 2, numbers): of each number its
 * mean over the first index and the standard error of that, NaN of one draw. Two passes. */
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

#endif
