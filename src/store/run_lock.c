#include "store/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"
#include "store/network.h"

/* Is the file we have open still the one that the name leads to? */
static bool has_name(int fd, const char *path)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && lstat(path, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

/* Who holds the lock is only talk: a disk too full for it is no reason to refuse. */
static void sign(int fd)
{
    char host[128] = "", text[192];
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, strlen(text), 0) < 0)
        return;
}

static es_status fail_locked(int fd, const char *path, es_error *err)
{
    char holder[192];
    const ssize_t got = pread(fd, holder, sizeof holder - 1, 0);
    holder[got > 0 ? got : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    return es_fail_file(err, ES_E_IO, path, -1, "run.locked",
                        "wait for it or stop it; a lock left by a killed process does not count",
                        "%s is writing this run", *holder ? holder : "another process");
}

/* A holder removes the file before it lets go, so whoever waited for the old file may hold the
 * lock of a name that is gone, and tries again. */
static es_status take(es_run_lock *lock, const char *path, es_error *err)
{
    for (;;) {
        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (lock->fd < 0)
            return es_file_fail(err, path, "file.create",
                                "check that the folder exists and is writable", "create its lock",
                                errno);
        if (flock(lock->fd, LOCK_EX | LOCK_NB) != 0) {
            const int number = errno;
            const es_status status =
                number == EWOULDBLOCK
                    ? fail_locked(lock->fd, path, err)
                    : es_file_fail(err, path, "run.lock", "use a file system that has locks",
                                   "lock", number);
            close(lock->fd);
            lock->fd = -1;
            return status;
        }
        if (has_name(lock->fd, lock->path))
            break;
        close(lock->fd);
    }
    sign(lock->fd);
    return ES_OK;
}

/* The journal is one that network file systems can keep, and one writer is all we allow; but
 * whether a process on another machine sees our lock is up to theirs. */
static void warn_of_network(int fd, const char *path)
{
    const char *network = es_network_of(fd);
    if (network)
        es_log(ES_LOG_WARN,
               "%s is on a network file system (%s): let one machine at a time write it, or use a "
               "local disk and copy it when it is finished",
               path, network);
}

es_status es_run_lock_take(const char *file, const char *path, es_run_lock *out, es_error *err)
{
    static const char suffix[] = ".lock";
    void *name;
    *out = (es_run_lock){.fd = -1};
    ES_TRY(es_mem_new(NULL, strlen(file) + sizeof suffix, "a file name", &name, err));
    out->path = name;
    memcpy(out->path, file, strlen(file));
    memcpy(out->path + strlen(file), suffix, sizeof suffix);
    const es_status status = take(out, path, err);
    if (status == ES_OK)
        warn_of_network(out->fd, path);
    else
        es_run_lock_drop(out);
    return status;
}

void es_run_lock_drop(es_run_lock *lock)
{
    if (lock->fd >= 0 && has_name(lock->fd, lock->path))
        unlink(lock->path);
    if (lock->fd >= 0)
        close(lock->fd);
    es_mem_free(NULL, lock->path);
    *lock = (es_run_lock){.fd = -1};
}
