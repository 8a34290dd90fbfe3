/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c : runs units of work on a team of threads. Units are numbered, taken in order, and
 * must not depend on which thread runs them; the error of the lowest unit is the one reported, so
 * that failures are as deterministic as results. */
#include "base/threads.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/error.h"
#include "base/system.h"

enum { MOST_THREADS = 1024 };

/* A whole number in [1, MOST_THREADS] or 0: OMP_NUM_THREADS may hold anything, including a list. */
static int threads_from_environment(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    if (!text || !*text)
        return 0;
    char *end;
    const long n = strtol(text, &end, 10);
    return (*end == '\0' || *end == ',') && n >= 1 && n <= MOST_THREADS ? (int)n : 0;
}

int es_threads_available(void)
{
    const int wanted = threads_from_environment();
    if (wanted)
        return wanted;
    const int count = es_system_processors();
    return count >= 1 && count <= MOST_THREADS ? count : 1;
}

int es_parallel_threads(const es_exec *exec, int64_t units)
{
#ifdef _OPENMP
    int threads = exec && exec->threads > 0 ? exec->threads : es_threads_available();
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    return units < threads ? (units < 1 ? 1 : (int)units) : threads;
#else
    (void)exec;
    (void)units;
    return 1;
#endif
}

/* What the threads of one region share. */
typedef struct team {
    const es_exec *exec;
    int64_t units;
    es_unit_fn fn;
    void *job;
    int64_t next;     /* next unit to hand out */
    int64_t done;     /* finished units, for progress */
    int64_t failed;   /* lowest failed unit, or units */
    es_status status; /* its status */
    es_error error;   /* its record */
    bool interrupted;
    char lock; /* guards failed, status, error and the progress callback */
} team;

/* Takes the lock of a team. Critical sections are a few instructions long, so threads spin. */
static void lock_team(team *t)
{
    while (__atomic_test_and_set(&t->lock, __ATOMIC_ACQUIRE))
        sched_yield();
}

/* Releases the lock. */
static void unlock_team(team *t) { __atomic_clear(&t->lock, __ATOMIC_RELEASE); }

/* Returns true once a unit has failed or the caller has asked to stop. */
static bool stopped(team *t)
{
    return __atomic_load_n(&t->failed, __ATOMIC_RELAXED) < t->units ||
           __atomic_load_n(&t->interrupted, __ATOMIC_RELAXED);
}

/* Takes the next unit until none is left. Errors are kept by the lowest unit number, so that the
 * same error is reported for any number of threads. */
static void work(team *t, int thread)
{
    while (!stopped(t)) {
        const int64_t unit = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);
        if (unit >= t->units)
            return;
        es_error error;
        memset(&error, 0, sizeof error);
        const es_status status = t->fn(t->job, unit, thread, &error);

        lock_team(t);
        t->done++;
        if (status != ES_OK && unit < t->failed) {
            __atomic_store_n(&t->failed, unit, __ATOMIC_RELAXED);
            t->status = status;
            t->error = error;
        }
        const es_exec *exec = t->exec;
        if (exec && exec->progress && !t->interrupted &&
            exec->progress(exec->progress_user, (double)t->done, (double)t->units))
            __atomic_store_n(&t->interrupted, true, __ATOMIC_RELAXED);
        unlock_team(t);
    }
}

/* ThreadSanitizer does not see the barriers inside libgomp: tell it that a region begins after its
 * caller and ends before it. Everything between is checked as usual. */
#if defined(__SANITIZE_THREAD__)
#define ES_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ES_TSAN 1
#endif
#endif
#ifdef ES_TSAN
void __tsan_acquire(void *);
void __tsan_release(void *);
#define REGION_ACQUIRE(p) __tsan_acquire(p)
#define REGION_RELEASE(p) __tsan_release(p)
#define REGION_UNCHECKED  __attribute__((no_sanitize("thread")))
#else
#define REGION_ACQUIRE(p) ((void)(p))
#define REGION_RELEASE(p) ((void)(p))
#define REGION_UNCHECKED
#endif

/* Runs work() on `threads` threads; the annotations tell thread sanitizers about the barriers of
 * OpenMP. */
REGION_UNCHECKED static void run_team(team *t, int threads)
{
    REGION_RELEASE(t);
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
    {
        REGION_ACQUIRE(t);
        work(t, omp_get_thread_num());
        REGION_RELEASE(t);
    }
#else
    (void)threads;
    work(t, 0);
#endif
    REGION_ACQUIRE(t);
}

es_status es_parallel_run(const es_exec *exec, int64_t units, es_unit_fn fn, void *job,
                          es_error *err)
{
    team t = {.exec = exec, .units = units, .fn = fn, .job = job, .failed = units, .status = ES_OK};
    const int threads = es_parallel_threads(exec, units);
    if (threads == 1)
        work(&t, 0);
    else
        run_team(&t, threads);
    if (t.failed < units) {
        if (err)
            *err = t.error;
        return t.status;
    }
    if (t.interrupted && t.done < units)
        return es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request");
    return ES_OK;
}
