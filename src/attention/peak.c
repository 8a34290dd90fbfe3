/* SPDX-License-Identifier: Apache-2.0 */
/* peak.c : the multiply-add peak and the memory bandwidth of this machine, measured with the same
 * kernels, to state speeds as shares of them. */
#include <esscher/machine.h>

#include "attention/kernels.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/exec.h"
#include "base/threads.h"

/* The measurement of arithmetic speed. */
typedef struct job {
    const es_kernels *kernels;
    double seconds;
    double rate[1024]; /* steps per second of each unit */
} job;

enum { STEPS = 100000 }; /* about 0.2 ms */

/* Runs multiply-adds for a while and counts them: the peak of one thread. */
static es_status burn(void *job_, int64_t unit, int thread, es_error *err)
{
    job *j = job_;
    volatile double keep = 0.0;
    (void)thread;
    (void)err;
    const double start = es_seconds();
    double now = start;
    int64_t steps = 0;
    for (; now - start < j->seconds; now = es_seconds(), steps += STEPS)
        keep = keep + j->kernels->burn(STEPS);
    j->rate[unit] = (double)steps / (now - start);
    return ES_OK;
}

/* Returns the kernels that the options choose. */
static es_status find_kernels(const es_exec *exec, es_dtype dtype, const es_kernels **kernels,
                              es_error *err)
{
    es_isa isa;
    ES_TRY(es_isa_resolve(exec ? exec->isa : ES_ISA_AUTO, &isa, err));
    *kernels = es_kernels_find(isa, dtype);
    if (!*kernels)
        return es_fail(err, ES_E_UNSUPPORTED, "isa.built", "use ESSCHER_ISA=portable",
                       "no %s kernels in this build", es_isa_name(isa));
    return ES_OK;
}

es_status es_peak_measure(const es_exec *exec, es_dtype dtype, double seconds, double *gflops,
                          es_error *err)
{
    if (!es_dtype_size(dtype) || !(seconds > 0.0) || seconds > 60.0)
        return es_fail(err, ES_E_ARGUMENT, "peak.arguments", "f32 or f64, up to a minute",
                       "cannot measure this peak");
    job j = {.seconds = seconds};
    ES_TRY(find_kernels(exec, dtype, &j.kernels, err));
    const int threads = es_parallel_threads(exec, 1024);
    const es_exec quiet = {.threads = threads};
    ES_TRY(es_parallel_run(&quiet, threads, burn, &j, err));
    *gflops = 0.0;
    for (int t = 0; t < threads; t++)
        *gflops += 2e-9 * 12.0 * (double)(j.kernels->lanes / 3) * j.rate[t];
    return ES_OK;
}

/* ---- memory ---- */

enum { PARTS = 16 }; /* as many as the engine cuts many keys into */

/* The measurement of memory speed. */
typedef struct reading {
    const es_kernels *kernels;
    const float *data;
    int64_t count;
    volatile double keep[PARTS]; /* keeps the compiler from removing the loop */
} reading;

/* Reads one part of a large array: the memory bandwidth of one thread. */
static es_status read_part(void *reading_, int64_t part, int thread, es_error *err)
{
    reading *r = reading_;
    int64_t first, last;
    (void)thread;
    (void)err;
    es_part(r->count, PARTS, part, &first, &last);
    r->keep[part] = r->kernels->squares(r->data + first, 0, 1, last - first);
    return ES_OK;
}

es_status es_bandwidth_measure(const es_exec *exec, const void *data, size_t bytes, double seconds,
                               double *gigabytes, es_error *err)
{
    if (!data || (uintptr_t)data % sizeof(float) || bytes < sizeof(float) || !(seconds > 0.0) ||
        seconds > 60.0)
        return es_fail(err, ES_E_ARGUMENT, "peak.arguments", "aligned memory, up to a minute",
                       "cannot measure this bandwidth");
    reading r = {.data = data, .count = (int64_t)(bytes / sizeof(float))};
    /* the bandwidth does not depend on the kernels */
    const es_exec widest = {.isa = es_isa_best()};
    ES_TRY(find_kernels(&widest, ES_F32, &r.kernels, err));
    const es_exec quiet = {.threads = es_parallel_threads(exec, PARTS)};
    ES_TRY(es_parallel_run(&quiet, PARTS, read_part, &r, err));
    const double start = es_seconds();
    double now = start, times = 0.0;
    for (; times < 1.0 || now - start < seconds; now = es_seconds(), times += 1.0)
        ES_TRY(es_parallel_run(&quiet, PARTS, read_part, &r, err));
    *gigabytes = 1e-9 * times * (double)bytes / (now - start);
    return ES_OK;
}
