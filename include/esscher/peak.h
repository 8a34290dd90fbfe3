/* peak.h : what the machine can do, so that speed can be stated as a share of it. */
#ifndef ESSCHER_PEAK_H
#define ESSCHER_PEAK_H

#include <esscher/exec.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! es_peak_measure() : multiply-adds per second, in registers only, with the kernels of exec->isa
 * on exec->threads threads at once; counted as 2 flops each. Takes about `seconds`. The ceiling
 * that no attention kernel can pass. It moves with the clock of the machine: measure it beside what
 * it is compared with, in the same run.
 *  @return : ES_OK with *gflops; ES_E_UNSUPPORTED; ES_E_ARGUMENT. */
ES_API es_status es_peak_measure(const es_exec *exec, es_dtype dtype, double seconds,
                                 double *gflops, es_error *err);

/*! es_bandwidth_measure() : gigabytes (1e9 bytes) per second at which exec->threads threads read
 * `data`, `bytes` aligned for floats, from front to back, again and again for about `seconds`, at
 * least once, with the widest loads of this CPU; an untimed reading comes first. The ceiling for
 * work that reads memory once. What is small enough to stay in a cache is read from there: measure
 * with what the work reads, beside it.
 *  @return : ES_OK with *gigabytes; ES_E_UNSUPPORTED; ES_E_ARGUMENT. */
ES_API es_status es_bandwidth_measure(const es_exec *exec, const void *data, size_t bytes,
                                      double seconds, double *gigabytes, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
