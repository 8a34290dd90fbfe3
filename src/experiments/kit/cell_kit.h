/* SPDX-License-Identifier: Apache-2.0 */
/* cell_kit.h : what several experiments share, and the few parts of small ones that tests look
 * at. */
#ifndef ES_EXPERIMENTS_KIT_CELL_KIT_H
#define ES_EXPERIMENTS_KIT_CELL_KIT_H

#include <math.h>
#include <string.h>

#include <esscher/exec.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/vectors.h"
#include "random/experiment.h"

/*! es_check_range() : fails unless low <= value <= high. `rule` is "experiment.name", by whose
 * second half the failure calls the number. */
static inline es_status es_check_range(int64_t value, int64_t low, int64_t high, const char *rule,
                                       es_error *error)
{
    if (value >= low && value <= high)
        return ES_OK;
    return es_fail(error, ES_E_RANGE, rule, "", "%s is %lld; it must be from %lld to %lld",
                   strchr(rule, '.') + 1, (long long)value, (long long)low, (long long)high);
}

/*! es_exec_quiet() : returns exec without progress reports, for short parts of a cell. */
static inline es_exec es_exec_quiet(const es_exec *exec)
{
    es_exec quiet = exec ? *exec : (es_exec){0};
    quiet.progress = NULL;
    return quiet;
}

/*! es_exec_one_thread() : for what one unit of parallel work calls: its own thread and no more. */
static inline es_exec es_exec_one_thread(const es_exec *exec)
{
    return exec ? (es_exec){.threads = 1, .isa = exec->isa, .budget = exec->budget}
                : (es_exec){.threads = 1};
}

/* Progress of a part of some work, from one share of the whole to another. */
typedef struct es_exec_part {
    const es_exec *exec;
    double from, to;
} es_exec_part;

static inline bool es_exec_part_progress(void *user, double done, double total)
{
    const es_exec_part *p = (const es_exec_part *)user;
    return p->exec->progress(p->exec->progress_user, p->from + (p->to - p->from) * done / total,
                             1.0);
}

/*! es_exec_of_part() : the same threads and budget, with progress that counts as that part. */
static inline es_exec es_exec_of_part(es_exec_part *part)
{
    es_exec exec = part->exec ? *part->exec : (es_exec){0};
    exec.progress = exec.progress ? es_exec_part_progress : NULL;
    exec.progress_user = part;
    return exec;
}

/*! es_exec_report_progress() : progress of a loop that is not units. @return : ES_OK;
 * ES_E_INTERRUPTED. */
static inline es_status es_exec_report_progress(const es_exec *exec, int64_t done, int64_t total,
                                                es_error *error)
{
    if (exec && exec->progress && exec->progress(exec->progress_user, (double)done, (double)total))
        return es_fail(error, ES_E_INTERRUPTED, "exec.progress", "", "interrupted");
    return ES_OK;
}

/*! es_policy_query_bytes() : returns a bound on the memory in which the errors of policies are
 *  computed for a query over n keys (n, d) and values (n, dv), with the attention of earlier
 * queries for `count` queries. Counts the values twice and a few columns of the risk's query, the
 * keys of a choice and of an outcome, and the nodes of integrals. */
static inline double es_policy_query_bytes(int64_t n, int64_t d, int64_t dv, int64_t count)
{
    return 8.0 * (double)n * (2.0 * (double)dv + 2.0 * (double)count + 40.0) +
           64.0 * (double)(d + dv) + 1e6;
}

/* ---- hardmax/cells.c ---- */

/*! es_coins_draw() : how many of n fair coins show heads, 1 <= n <= 10^18, exact up to the rounding
 * of the logarithm of a probability. Uses up to 64 lanes from at.lane on. */
es_status es_coins_draw(es_address at, int64_t n, int64_t *heads, es_error *err);

/* ---- tails/cells.c ---- */

/* Experiments of the address space beside those of stats/tails_control.c. */
enum { ES_TAILS_SPHERE = ES_EXPERIMENT_TAILS + 2, ES_TAILS_QUERIES = ES_EXPERIMENT_TAILS + 3 };

enum { ES_TAILS_PANEL = 8 }; /* directions of one product; fixed, for the same bits in any group */

#endif
