/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c : temporary directories that are reclaimed after a kill (scratch.h). */
#define _DEFAULT_SOURCE /* flock */
#include "store/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/* Opens a directory and follows no link. */
static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- recognising our directories ---- */

/* A file that says so, its name and how it begins; then comes the process that made it. */
static const char marker[] = ".esscher-scratch";
static const char magic[] = "esscher scratch folder, removed when this process is gone: ";

/* Creates the marker file, which says that the directory is ours. */
static bool sign(int folder)
{
    char text[sizeof magic + 32];
    const int size = snprintf(text, sizeof text, "%s%ld\n", magic, (long)getpid());
    const int fd = openat(folder, marker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    const bool written = write(fd, text, (size_t)size) == size; /* too little for a signal */
    return close(fd) == 0 && written;
}

/* Returns true if the directory has our marker. */
static bool is_signed(int folder)
{
    char text[sizeof magic + 32];
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const int fd = openat(folder, marker, flags);
    const ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    if (strncmp(text, magic, sizeof magic - 1) != 0)
        return false;
    const char *process = text + sizeof magic - 1;
    const size_t digits = strspn(process, "0123456789");
    return digits > 0 && strcmp(process + digits, "\n") == 0;
}

/* Returns whether `name` consists of `before`, a number and `after`. */
static bool is_numbered(const char *name, const char *before, const char *after)
{
    const size_t length = strlen(before);
    if (strncmp(name, before, length) != 0)
        return false;
    const size_t digits = strspn(name + length, "0123456789");
    return digits > 0 && strcmp(name + length + digits, after) == 0;
}

/* The files of a pool (model/pool.h), and those that are to become one of them. */
static bool is_of_pool(const char *name)
{
    static const char *const names[] = {"pool.run", "pool.run-journal", "pool.run.lock",
                                        "pool.nonce"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    const char *serial = strrchr(name, '-'); /* a draft, as file.c names them */
    return is_numbered(name, "layer-", ".npy") ||
           (strncmp(name, ".esscher-", strlen(".esscher-")) == 0 &&
            is_numbered(serial, "-", ".tmp"));
}

/* ---- looking and removing ---- */

/* What is done with each entry of a folder, by its name; false: it is none of ours, or stays. */
typedef bool visitor(int folder, const char *name);

/* Every entry, even after one that is refused. Were all accepted? */
static bool visit(int folder, visitor *each)
{
    const int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own >= 0 ? fdopendir(own) : NULL; /* closedir() closes it */
    bool all = dir != NULL;
    if (!dir && own >= 0)
        close(own);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            all = each(folder, entry->d_name) && all;
    if (dir)
        closedir(dir);
    return all;
}

/* Visits the entries of a directory inside `folder`. */
static bool visit_inner(int folder, const char *name, visitor *each)
{
    const int inner = open_folder(folder, name);
    const bool all = inner >= 0 && visit(inner, each);
    if (inner >= 0)
        close(inner);
    return all;
}

/* Returns true for a regular file with the name of a pool's file. */
static bool know_file(int folder, const char *name)
{
    struct stat st;
    return is_of_pool(name) && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode);
}

/* The marker, or the folder of a domain with nothing but a pool in it. */
static bool know(int folder, const char *name)
{
    return strcmp(name, marker) == 0 || visit_inner(folder, name, know_file);
}

/* Removes a file of a pool; false for any other. */
static bool remove_file(int folder, const char *name)
{
    return know_file(folder, name) && unlinkat(folder, name, 0) == 0;
}

/* Removes the directory of a pool with its files. */
static bool remove_pool(int folder, const char *name)
{
    return strcmp(name, marker) == 0 ||
           (visit_inner(folder, name, remove_file) && unlinkat(folder, name, AT_REMOVEDIR) == 0);
}

/* The marker is removed last: a process killed before leaves a directory that is still recognised.
 */
static bool empty(int folder)
{
    return visit(folder, remove_pool) && (unlinkat(folder, marker, 0) == 0 || errno == ENOENT);
}

void es_scratch_remove(es_scratch *scratch)
{
    if (!scratch->path[0])
        return;
    /* before the lock is released, so that no other process tries to */
    if (!empty(scratch->fd) || rmdir(scratch->path) != 0)
        return;
    close(scratch->fd);
    *scratch = (es_scratch){.fd = -1};
}

/* ---- of killed processes ---- */

/* Ours, with nothing in it but what we put there, and not in use? Then it is gone. */
static void reclaim(int parent, const char *name)
{
    struct stat st;
    const int fd = open_folder(parent, name);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0077) == 0 &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && is_signed(fd) && visit(fd, know) && empty(fd))
        unlinkat(parent, name, AT_REMOVEDIR);
    if (fd >= 0)
        close(fd);
}

/* Removes the directories that killed processes of this machine left. */
static void reclaim_all(const char *where, const char *prefix)
{
    DIR *dir = opendir(where);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            strlen(entry->d_name) == strlen(prefix) + strlen("XXXXXX"))
            reclaim(dirfd(dir), entry->d_name);
    if (dir)
        closedir(dir);
}

/* ---- making ---- */

/* Where directories cannot be locked, as on NFS, the directory is used without a lock: no other
 * process can lock it, either, and take it for abandoned. Without its marker it is not taken, so
 * that it cannot be lost in between. A process that examines it holds the lock for a moment, for
 * which this waits. */
static bool make_one(es_scratch *s)
{
    if (!mkdtemp(s->path))
        return false;
    s->fd = open_folder(AT_FDCWD, s->path);
    while (s->fd >= 0 && flock(s->fd, LOCK_EX) != 0 && errno == EINTR)
        continue;
    if (s->fd >= 0 && sign(s->fd))
        return true;
    const int number = errno;
    if (s->fd >= 0) {
        unlinkat(s->fd, marker, 0);
        close(s->fd);
    }
    rmdir(s->path);
    errno = number;
    return false;
}

es_status es_scratch_make(const char *what, es_scratch *out, es_error *err)
{
    char host[64] = "", prefix[128];
    const char *where = getenv("TMPDIR");
    where = where && *where ? where : "/tmp";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, "/")] = '\0';
    snprintf(prefix, sizeof prefix, "esscher-%s-%s-", what, host);
    reclaim_all(where, prefix);
    *out = (es_scratch){.fd = -1};
    if (snprintf(out->path, sizeof out->path, "%s/%sXXXXXX", where, prefix) >=
        (int)sizeof out->path)
        errno = ENAMETOOLONG;
    else if (make_one(out))
        return ES_OK;
    const int number = errno;
    *out = (es_scratch){.fd = -1};
    return es_fail_file(err, ES_E_IO, where, -1, "scratch.folder",
                        "set TMPDIR to a writable directory with free space",
                        "cannot create a temporary directory: %s", strerror(number));
}
