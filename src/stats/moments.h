/* SPDX-License-Identifier: Apache-2.0 */
/* moments.h : what the library alone needs beside <esscher/moments.h>. */
#ifndef ES_STATS_MOMENTS_H
#define ES_STATS_MOMENTS_H

#include <esscher/moments.h>

/*! es_moments_new() : no rows yet, dim columns. Owns its memory; release with es_moments_free().
 *  @return : ES_OK, ES_E_LIMIT, ES_E_MEMORY, ES_E_OVERFLOW. */
es_status es_moments_new(int64_t dim, es_mem_limit *budget, es_moments *out, es_error *err);

/*! es_moments_add() : a batch of `count` contiguous rows (count, dim). O(count dim^2). Not
 * thread-safe. */
void es_moments_add(es_moments *m, const double *rows, int64_t count);

/*! es_moments_merge() : what `from` has seen is added to `into`. Same dim. O(dim^2). */
void es_moments_merge(es_moments *into, const es_moments *from);

/*! es_moments_bytes() : memory es_moments_new() takes for this many columns. */
size_t es_moments_bytes(int64_t dim);

/*! es_moments_numbers() : returns the length of the array that stores moments of `dim` columns.
 *  es_moments_save() : stores them in out. es_moments_load() : restores them, bit for bit, in m,
 *  which has as many columns. @return : ES_OK; ES_E_FORMAT (moments.numbers) if the count of rows
 *  in the array is not valid. */
int64_t es_moments_numbers(int64_t dim);
void es_moments_save(const es_moments *m, double *out);
es_status es_moments_load(es_moments *m, const double *numbers, es_error *err);

#endif
