/* SPDX-License-Identifier: Apache-2.0 */
/* proportion.h : how often something is the case: shares of n independent trials, and the
 * difference of two shares that were counted on the same trials. */
#ifndef ES_STATS_PROPORTION_H
#define ES_STATS_PROPORTION_H

#include <stdint.h>

/* A proportion with its error and interval. */
typedef struct es_proportion {
    double value, se; /* k/n, sqrt(p (1 - p) / n) */
    double low, high; /* Wilson's (1927) 95 % interval: within [0, 1], and no point at k = 0 or n */
} es_proportion;

/*! es_proportion_of() : `count` of n trials. All NaN without trials. */
es_proportion es_proportion_of(int64_t count, int64_t n);

/* Of n trials `lost` were right before and not after, `gained` the other way round. */
typedef struct es_change {
    double value;     /* (lost - gained)/n */
    double se;        /* of that */
    double low, high; /* 95 % interval of Bonett and Price (2012), which adds one to both counts, so
                         that it has a width even if nothing changed */
    double p;         /* of no change, two-sided, exact given how many differ (McNemar): both ways
                         alike, lost is a number of heads among fair coins */
} es_change;

/*! es_change_of() : 0 <= lost, gained; lost + gained <= n. All NaN without trials. O(lost +
 *  gained). */
es_change es_change_of(int64_t lost, int64_t gained, int64_t n);

#endif
