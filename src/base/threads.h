/* SPDX-License-Identifier: Apache-2.0 */
/* threads.h : the only place where Esscher runs in parallel.
 *
 * Work is cut into units whose number and content depend on the problem alone, never on the number
 * of threads; a unit is done by one thread, start to end; results of units are combined afterwards
 * in unit order. That is the whole recipe for "same bits for any number of threads". */
#ifndef ES_BASE_THREADS_H
#define ES_BASE_THREADS_H

#include <esscher/exec.h>

/* One unit of work. `thread` (0 <= thread < es_parallel_threads()) picks scratch memory and nothing
 * else. */
typedef es_status (*es_unit_fn)(void *job, int64_t unit, int thread, es_error *err);

/*! es_parallel_threads() : how many threads es_parallel_run() will use for `units` units. */
int es_parallel_threads(const es_exec *exec, int64_t units);

/*! es_parallel_run() : call fn for every unit in [0, units), handed out in increasing order.
 *  After a unit fails no further unit starts. @return : the status of the failed unit with the
 * lowest number (err is its record), so that even a failure is the same for any number of threads;
 * or ES_E_INTERRUPTED if exec->progress asked to stop. Progress counts units. A unit below a
 * failing one has always been started, because units are handed out in order. */
es_status es_parallel_run(const es_exec *exec, int64_t units, es_unit_fn fn, void *job,
                          es_error *err);

/*! es_part() : the half-open range of part `part` of `parts` nearly equal parts of [0, count). */
static inline void es_part(int64_t count, int64_t parts, int64_t part, int64_t *first,
                           int64_t *last)
{
    const int64_t base = count / parts, extra = count % parts;
    *first = part * base + (part < extra ? part : extra);
    *last = *first + base + (part < extra ? 1 : 0);
}

#endif
