/* SPDX-License-Identifier: Apache-2.0 */
/* kill_after.c : a library to preload (LD_PRELOAD) that kills its process at a flush to disk, which
 * is the same one on a fast machine and on a slow one. Used through the script kill_after.
 *
 *   KILL_AFTER=N         at the N-th flush (fsync, fdatasync), which is not done; 0: never
 *   KILL_AFTER_SIGNAL=STOP  stops the process instead, until somebody sends SIGCONT
 *   KILL_AFTER_FILE=END  counts flushes of files whose names end so; without it all flushes
 *   KILL_AFTER_LOG=FILE  the number of flushes, written when the process ends by itself
 *   KILL_AFTER_OPEN=END  sends SIGTERM when a file whose name ends so is about to be opened
 *
 * A run writes its finished cells once a second. Here each look of Esscher's at the clock is two
 * seconds later than its last, so that a run writes every cell as soon as it is finished. Other
 * libraries, such as those of MPI, have the true time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long flushes, looks;

static int ends_with(const char *text, size_t length, const char *end)
{
    const size_t size = strlen(end);
    return length >= size && memcmp(text + length - size, end, size) == 0;
}

static int is_counted(int fd)
{
    char link[64], path[4096];
    const char *end = getenv("KILL_AFTER_FILE");
    if (!end)
        return 1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path);
    return length > 0 && ends_with(path, (size_t)length, end);
}

static void count_flush(int fd)
{
    const char *last = getenv("KILL_AFTER");
    if (is_counted(fd) && atomic_fetch_add(&flushes, 1) + 1 == (last ? atol(last) : 0))
        kill(getpid(), getenv("KILL_AFTER_SIGNAL") ? SIGSTOP : SIGKILL);
}

/* What a killed process has written is there without a flush: only a power cut would lose it. */
int fsync(int fd)
{
    count_flush(fd);
    return 0;
}

int fdatasync(int fd)
{
    count_flush(fd);
    return 0;
}

int open(const char *path, int flags, ...)
{
    const char *end = getenv("KILL_AFTER_OPEN");
    va_list more;
    va_start(more, flags);
    const int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    if (end && ends_with(path, strlen(path), end))
        kill(getpid(), SIGTERM);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* Returns whether code at this address is of the library or of the program. */
static int is_esscher(const void *code)
{
    Dl_info in;
    if (!dladdr(code, &in) || !in.dli_fname)
        return 0;
    const char *slash = strrchr(in.dli_fname, '/'), *name = slash ? slash + 1 : in.dli_fname;
    return strcmp(name, "esscher") == 0 || strncmp(name, "libesscher.so", 13) == 0;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    const long code = syscall(SYS_clock_gettime, id, t);
    if (code == 0 && id == CLOCK_MONOTONIC && is_esscher(__builtin_return_address(0)))
        t->tv_sec += 2 * (atomic_fetch_add(&looks, 1) + 1);
    return (int)code;
}

__attribute__((destructor)) static void write_log(void)
{
    const char *path = getenv("KILL_AFTER_LOG");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", (long)flushes);
        fclose(file);
    }
}
