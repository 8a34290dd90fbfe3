#include <esscher/peak.h>

#include <time.h>

#include "attention/kernels.h"
#include "base/error.h"
#include "base/threads.h"

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct job {
    const es_kernels *kernels;
    double seconds;
    double rate[1024]; /* steps per second of each unit */
} job;

enum { STEPS = 100000 }; /* about 0.2 ms */

static es_status burn(void *job_, int64_t unit, int thread, es_error *err)
{
    job *j = job_;
    volatile double keep = 0.0;
    (void)thread;
    (void)err;
    const double start = seconds_now();
    double now = start;
    int64_t steps = 0;
    for (; now - start < j->seconds; now = seconds_now(), steps += STEPS)
        keep = keep + j->kernels->burn(STEPS);
    j->rate[unit] = (double)steps / (now - start);
    return ES_OK;
}

es_status es_peak_measure(const es_exec *exec, es_dtype dtype, double seconds, double *gflops,
                          es_error *err)
{
    es_isa isa;
    if (!es_dtype_size(dtype) || !(seconds > 0.0) || seconds > 60.0)
        return es_fail(err, ES_E_ARGUMENT, "peak.arguments", "f32 or f64, up to a minute",
                       "cannot measure this peak");
    ES_TRY(es_isa_resolve(exec ? exec->isa : ES_ISA_AUTO, &isa, err));
    job j = {.kernels = es_kernels_find(isa, dtype), .seconds = seconds};
    if (!j.kernels)
        return es_fail(err, ES_E_UNSUPPORTED, "isa.built", "use ESSCHER_ISA=portable",
                       "no %s kernels in this build", es_isa_name(isa));
    const int threads = es_parallel_threads(exec, 1024);
    const es_exec quiet = {.threads = threads};
    ES_TRY(es_parallel_run(&quiet, threads, burn, &j, err));
    *gflops = 0.0;
    for (int t = 0; t < threads; t++)
        *gflops += 2e-9 * 12.0 * (double)(j.kernels->lanes / 3) * j.rate[t];
    return ES_OK;
}
