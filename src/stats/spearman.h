/* SPDX-License-Identifier: Apache-2.0 */
/* spearman.h : do two numbers rise together? Correlation of ranks, whatever the scale. */
#ifndef ES_STATS_SPEARMAN_H
#define ES_STATS_SPEARMAN_H

#include <stdint.h>

#include <esscher/exec.h>

/* Spearman's rank correlation with its interval and p-value. */
typedef struct es_spearman {
    int64_t count;
    double value;     /* correlation of the ranks, tied values sharing the mean of theirs */
    double low, high; /* 95 %: atanh has standard error sqrt((1 + r^2/2)/(freedom - 1)) (Bonett and
                         Wright 2000) */
    double p;         /* of none, two-sided: r sqrt(freedom/(1 - r^2)) by Student's t, good to about
                         0.01 from 10 pairs on */
} es_spearman;

/*! es_spearman_of() : of x and y (count). With `groups` (count), numbers from 0 on, ranks over all
 *  pairs are counted from their group's mean: the correlation inside groups, of which each takes
 *  one degree of freedom beyond the first. NaN where one of the two does not vary or there are
 *  fewer than 4 pairs beyond the groups. O(count ln count + count groups). @return : ES_OK;
 * ES_E_NONFINITE (spearman.finite) with err->row; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_spearman_of(const double *x, const double *y, const int64_t *groups, int64_t count,
                         es_mem_limit *budget, es_spearman *out, es_error *err);

#endif
