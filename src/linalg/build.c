/* SPDX-License-Identifier: Apache-2.0 */
/* build.c : what the library was built with; here because OpenBLAS is asked. */
#include <esscher/machine.h>

#include <string.h>

#include "base/system.h"

/* Weak, so that another CBLAS can stand in for OpenBLAS. */
extern char *openblas_get_config(void) __attribute__((weak));

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

#if defined(__x86_64__)
#define KERNELS "portable avx2 avx512"
#elif defined(__aarch64__)
#define KERNELS "portable neon"
#else
#define KERNELS "portable"
#endif

#ifdef __OPTIMIZE__
#define OPTIMISED "optimised"
#else
#define OPTIMISED "not optimised"
#endif

enum { ID = 2 * 32 + 1 }; /* hexadecimal digits of the longest mark, and an end */

/* Returns the build id of the library's file, read once. */
static const char *file_id(void)
{
    static char id[ID];
    char found[ID] = "";
    es_system_mark((const void *)&es_version, found, sizeof found);
    memcpy(id, found, sizeof id); /* concurrent first calls write the same bytes */
    return id;
}

es_build es_build_info(void)
{
    return (es_build){.version = es_version(),
                      .compiler = COMPILER,
                      .flags = OPTIMISED ", kernels: " KERNELS,
                      .blas = openblas_get_config ? openblas_get_config()
                                                  : "a CBLAS that does not say which",
                      .id = file_id(),
#ifdef _OPENMP
                      .openmp = true
#else
                      .openmp = false
#endif
    };
}

const char *es_cpu_name(void)
{
    static char name[128];
    if (name[0])
        return name;
    es_system_cpu(name, sizeof name);
    return name;
}

bool es_program_path(char *path, size_t size) { return es_system_program(path, size); }
