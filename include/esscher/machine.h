/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h : what the library was built with, and the CPU it runs on. */
#ifndef ESSCHER_MACHINE_H
#define ESSCHER_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include <esscher/exec.h>
#include <esscher/status.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What this build stands on, for `esscher info` and the provenance of results. Strings are static.
 */
typedef struct es_build {
    const char *version;  /* of the library */
    const char *compiler; /* e.g. "gcc 12.2.0" */
    const char *flags;    /* build type and instruction sets that were compiled in */
    const char *blas;     /* what OpenBLAS says of itself */
    const char *id;       /* of this very file, as its linker marked it; "" where it did not */
    bool openmp;
} es_build;

/*! es_build_info() : how this library was built. */
ES_API es_build es_build_info(void);

/*! es_cpu_name() : the processor's own name, or "unknown". Static string; not thread-safe the first
 * time. */
ES_API const char *es_cpu_name(void);

/*! es_program_path() : the file of the running program, with its folder. @return : false if the
 * system does not provide it, or it is longer than `size` bytes. */
ES_API bool es_program_path(char *path, size_t size);

/* ---- what the machine can do, so that speed can be stated as a share of it ---- */

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
