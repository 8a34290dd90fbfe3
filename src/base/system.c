/* SPDX-License-Identifier: Apache-2.0 */
/* system.c : everything that depends on the operating system beyond POSIX: processors, program
 * file, build id, file systems. */
#define _GNU_SOURCE /* sched_getaffinity, dl_iterate_phdr */
#include "base/system.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __APPLE__
#include <crt_externs.h>
#include <dlfcn.h>
#include <mach-o/dyld.h>
#include <mach-o/loader.h>
#include <sys/mount.h>
#include <sys/sysctl.h>
#else
#include <elf.h>
#include <link.h>
#include <sched.h>
#include <sys/vfs.h>
#endif

/* ---- processors ---- */

/* Copies the value of a line "NAME: VALUE", as in /proc files; false for other names. */
static bool value_of(const char *line, const char *name, char *value, size_t size)
{
    const char *colon = strchr(line, ':');
    if (strncmp(line, name, strlen(name)) != 0 || !colon)
        return false;
    colon += 1 + strspn(colon + 1, " \t");
    snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    return value[0] != '\0';
}

bool es_system_cpu_listed(FILE *list, char *name, size_t size)
{
    char line[256], maker[32] = "", part[32] = "";
    while (fgets(line, sizeof line, list)) {
        if (value_of(line, "model name", name, size))
            return true;
        value_of(line, "CPU implementer", maker, sizeof maker);
        if (value_of(line, "CPU part", part, sizeof part) && maker[0]) {
            snprintf(name, size, "Arm, implementer %s, part %s", maker, part);
            return true;
        }
    }
    return false;
}

#ifdef __APPLE__
int es_system_processors(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

void es_system_cpu(char *name, size_t size)
{
    size_t length = size;
    if (sysctlbyname("machdep.cpu.brand_string", name, &length, NULL, 0) != 0)
        snprintf(name, size, "unknown");
}
#else
int es_system_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

void es_system_cpu(char *name, size_t size)
{
    FILE *list = fopen("/proc/cpuinfo", "r");
    if (!list || !es_system_cpu_listed(list, name, size))
        snprintf(name, size, "unknown");
    if (list)
        fclose(list);
}
#endif

/* ---- the program and its files ---- */

/* Writes bytes as hexadecimal digits. */
static void write_digits(const unsigned char *bytes, size_t count, char *out, size_t size)
{
    for (size_t i = 0; i < count && 2 * count < size; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

#ifdef __APPLE__
char **es_system_environment(void) { return *_NSGetEnviron(); } /* a library has no `environ` */

bool es_system_program(char *path, size_t size)
{
    uint32_t capacity = (uint32_t)size;
    return _NSGetExecutablePath(path, &capacity) == 0;
}

void es_system_mark(const void *within, char *mark, size_t size)
{
    Dl_info file;
    mark[0] = '\0';
    if (dladdr(within, &file) == 0)
        return;
    const struct mach_header_64 *header = file.dli_fbase;
    const char *at = (const char *)(header + 1);
    for (uint32_t i = 0; i < header->ncmds; i++) {
        const struct load_command *command = (const void *)at;
        if (command->cmd == LC_UUID)
            write_digits(((const struct uuid_command *)(const void *)at)->uuid, 16, mark, size);
        at += command->cmdsize;
    }
}
#else
char **es_system_environment(void) { return environ; }

bool es_system_program(char *path, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", path, size);
    if (length <= 0 || (size_t)length >= size)
        return false;
    path[length] = '\0';
    return true;
}

/* The mapping that is looked for in /proc/self/maps. */
typedef struct search {
    uintptr_t within;
    char *mark;
    size_t size;
} search;

/* The mark in a segment of notes: name and description follow the header, padded to 4 bytes each.
 */
static bool read_notes(const char *at, size_t left, search *s)
{
    ElfW(Nhdr) note;
    while (left >= sizeof note) {
        memcpy(&note, at, sizeof note);
        const size_t name = (note.n_namesz + 3u) & ~(size_t)3, mark = note.n_descsz;
        const size_t all = sizeof note + name + ((mark + 3u) & ~(size_t)3);
        if (all > left)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(at + sizeof note, "GNU", 4) == 0) {
            write_digits((const unsigned char *)at + sizeof note + name, mark, s->mark, s->size);
            return true;
        }
        at += all;
        left -= all;
    }
    return false;
}

/* Copies the build id of the file if it holds the address. */
static int look_at(struct dl_phdr_info *file, size_t size, void *search_)
{
    search *s = search_;
    bool ours = false;
    (void)size;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &file->dlpi_phdr[i];
        const uintptr_t from = file->dlpi_addr + p->p_vaddr;
        ours = ours || (p->p_type == PT_LOAD && s->within >= from && s->within - from < p->p_memsz);
    }
    for (int i = 0; ours && i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &file->dlpi_phdr[i];
        if (p->p_type == PT_NOTE &&
            read_notes((const char *)(file->dlpi_addr + p->p_vaddr), p->p_memsz, s))
            return 1;
    }
    return ours;
}

void es_system_mark(const void *within, char *mark, size_t size)
{
    search s = {.within = (uintptr_t)within, .mark = mark, .size = size};
    mark[0] = '\0';
    dl_iterate_phdr(look_at, &s);
}
#endif

/* ---- file systems ---- */

#ifdef __APPLE__
uint32_t es_system_volume(int fd)
{
    static const struct {
        const char *name;
        uint32_t type;
    } networks[] = {{"nfs", 0x6969},        {"smbfs", 0xfe534d42},   {"afpfs", 0x5346414f},
                    {"webdav", 0x65735546}, {"macfuse", 0x65735546}, {"osxfuse", 0x65735546}};
    struct statfs st;
    for (size_t i = 0; fstatfs(fd, &st) == 0 && i < sizeof networks / sizeof networks[0]; i++)
        if (strcmp(st.f_fstypename, networks[i].name) == 0)
            return networks[i].type;
    return 0;
}

/* fsync() of this system leaves bytes in the drive's own memory; the other way is not known to all
 * file systems. */
int es_system_flush(int fd) { return fcntl(fd, F_FULLFSYNC) == 0 ? 0 : fsync(fd); }
#else
uint32_t es_system_volume(int fd)
{
    struct statfs st;
    return fstatfs(fd, &st) == 0 ? (uint32_t)st.f_type : 0;
}

int es_system_flush(int fd) { return fdatasync(fd); }
#endif
