/* build.c : what the library was built with; here because OpenBLAS is asked. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <esscher/machine.h>

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdint.h>
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

/* ---- which file this is ---- */

enum { ID = 2 * 32 + 1 }; /* hexadecimal digits of the longest mark, and an end */

/* The mark in a segment of notes: name and description follow the header, padded to 4 bytes each.
 */
static bool read_notes(const char *at, size_t size, char out[ID])
{
    ElfW(Nhdr) note;
    while (size >= sizeof note) {
        memcpy(&note, at, sizeof note);
        const size_t name = (note.n_namesz + 3u) & ~(size_t)3, mark = note.n_descsz;
        const size_t all = sizeof note + name + ((mark + 3u) & ~(size_t)3);
        if (all > size)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(at + sizeof note, "GNU", 4) == 0 && 2 * mark < ID) {
            for (size_t i = 0; i < mark; i++)
                snprintf(out + 2 * i, 3, "%02x", (unsigned char)at[sizeof note + name + i]);
            return true;
        }
        at += all;
        size -= all;
    }
    return false;
}

/* Is this the file that holds this function? Then its mark. */
static int look_at(struct dl_phdr_info *file, size_t size, void *out)
{
    const uintptr_t here = (uintptr_t)(void *)&es_version;
    bool ours = false;
    (void)size;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &file->dlpi_phdr[i];
        const uintptr_t from = file->dlpi_addr + p->p_vaddr;
        ours = ours || (p->p_type == PT_LOAD && here >= from && here - from < p->p_memsz);
    }
    for (int i = 0; ours && i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &file->dlpi_phdr[i];
        if (p->p_type == PT_NOTE &&
            read_notes((const char *)(file->dlpi_addr + p->p_vaddr), p->p_memsz, out))
            return 1;
    }
    return ours;
}

static const char *file_id(void)
{
    static char id[ID];
    char found[ID] = "";
    dl_iterate_phdr(look_at, found);
    memcpy(id, found, sizeof id); /* the same bytes whoever comes first */
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
