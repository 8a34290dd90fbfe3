/* machine.h : what the machine can do, so that speed can be stated as a share of it. */
#ifndef ESSCHER_MACHINE_H
#define ESSCHER_MACHINE_H

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

/* What this build stands on, for `esscher info` and the provenance of results. Strings are static.
 */
typedef struct es_build {
    const char *version;  /* of the library */
    const char *compiler; /* e.g. "gcc 12.2.0" */
    const char *flags;    /* build type and instruction sets that were compiled in */
    const char *blas;     /* what OpenBLAS says of itself */
    bool openmp;
} es_build;

/*! es_build_info() : how this library was built. */
ES_API es_build es_build_info(void);

/*! es_cpu_name() : the processor's own name, or "unknown". Static string; not thread-safe the first
 * time. */
ES_API const char *es_cpu_name(void);

#ifdef __cplusplus
}
#endif
#endif
