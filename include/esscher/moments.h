/* SPDX-License-Identifier: Apache-2.0 */
/* moments.h : count, mean and covariance of rows that are seen once and not kept.
 *
 * Rows are added in batches; a batch is reduced around its own mean and then merged (Chan, Golub
 * and LeVeque's update), so that a mean a million times larger than the spread costs no accuracy.
 * Merging is how results of several threads become one: always in the same order, so always the
 * same bits.
 */
#ifndef ESSCHER_MOMENTS_H
#define ESSCHER_MOMENTS_H

#include <esscher/exec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct es_moments {
    int64_t count;        /* rows seen */
    int64_t dim;          /* columns */
    double *mean;         /* (dim) */
    double *scatter;      /* (dim, dim), lower triangle: sum of (row - mean)(row - mean)' */
    double *scratch;      /* (ES_MOMENTS_STRIP + 1, dim), working space of es_moments_add() */
    es_mem_limit *budget; /* that the memory counts against */
} es_moments;

enum { ES_MOMENTS_STRIP = 8 }; /* rows reduced together */

/*! es_moments_free() : frees what a function that fills moments allocated; zeroed ones need no
 *  freeing, and may be freed. */
ES_API void es_moments_free(es_moments *m);

/*! es_moments_covariance() : scatter / (count - ddof) as a full symmetric (dim, dim) matrix; ddof 0
 * is the population covariance that the papers use. With count <= ddof every element is NaN. */
ES_API void es_moments_covariance(const es_moments *m, int ddof, double *out);

#ifdef __cplusplus
}
#endif
#endif
