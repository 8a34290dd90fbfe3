/* average.h : means over replicates with their standard errors. */
#ifndef ES_STATS_AVERAGE_H
#define ES_STATS_AVERAGE_H

#include <stdint.h>

/*! es_average_rows() : draws (count, rows, numbers) to out (rows, 2, numbers): of each number its
 * mean over the first index and the standard error of that, NaN of one draw. Two passes. */
void es_average_rows(const double *draws, int64_t count, int64_t rows, int64_t numbers,
                     double *out);

#endif
