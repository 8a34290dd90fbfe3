/* build.c : what the library was built with; here because OpenBLAS is asked. */
#include <esscher/machine.h>

#include <stdio.h>
#include <string.h>

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
#else
#define KERNELS "portable"
#endif

#ifdef __OPTIMIZE__
#define OPTIMISED "optimised"
#else
#define OPTIMISED "not optimised"
#endif

es_build es_build_info(void)
{
    return (es_build){.version = es_version(),
                      .compiler = COMPILER,
                      .flags = OPTIMISED ", kernels: " KERNELS,
                      .blas = openblas_get_config ? openblas_get_config()
                                                  : "a CBLAS that does not say which",
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
    snprintf(name, sizeof name, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f)
        return name;
    char line[256];
    while (fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon && colon[1]) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, sizeof name, "%.120s", colon + 2);
            break;
        }
    }
    fclose(f);
    return name;
}
