/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h : how long something takes. Results never depend on it. */
#ifndef ES_BASE_CLOCK_H
#define ES_BASE_CLOCK_H

#include <time.h>

/*! es_seconds() : of a clock that only goes forward, and begins anywhere. Thread-safe. */
static inline double es_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
