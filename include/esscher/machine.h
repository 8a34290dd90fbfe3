/* machine.h : what the library was built with, and the CPU it runs on. */
#ifndef ESSCHER_MACHINE_H
#define ESSCHER_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include <esscher/status.h>

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
 * system does not tell, or `size` bytes do not hold it. */
ES_API bool es_program_path(char *path, size_t size);

#ifdef __cplusplus
}
#endif
#endif
