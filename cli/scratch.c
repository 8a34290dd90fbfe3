#define _DEFAULT_SOURCE /* flock */
#include "scratch.h"

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

#include "talk.h"

enum { DEPTH = 2, TRIES = 16 }; /* a folder and those in it */

static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- removing ---- */

/* Everything in the folder `fd`, which stays open. */
static void empty(int fd, int depth)
{
    const int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* closedir() closes it */
    DIR *dir = own >= 0 ? fdopendir(own) : NULL;
    if (!dir && own >= 0)
        close(own);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(fd, name, 0) == 0)
            continue;
        const int inner = depth > 1 ? open_folder(fd, name) : -1;
        if (inner >= 0) {
            empty(inner, depth - 1);
            close(inner);
            unlinkat(fd, name, AT_REMOVEDIR);
        }
    }
    if (dir)
        closedir(dir);
}

void cli_scratch_remove(cli_scratch *scratch)
{
    if (!scratch->path[0])
        return;
    empty(scratch->fd, DEPTH);
    if (rmdir(scratch->path) != 0) /* before the lock is gone, so that nobody else wants to */
        return;
    close(scratch->fd);
    *scratch = (cli_scratch){.fd = -1};
}

/* ---- of killed processes ---- */

/* Ours, and not in use? Then it is gone. */
static void reclaim(int parent, const char *name)
{
    struct stat st;
    const int fd = open_folder(parent, name);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0077) == 0 &&
        flock(fd, LOCK_EX | LOCK_NB) == 0) {
        empty(fd, DEPTH);
        unlinkat(parent, name, AT_REMOVEDIR);
    }
    if (fd >= 0)
        close(fd);
}

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

/* Is the folder that we have locked still the one of that name? Another process may have taken it,
 * between our making it and our locking it, for one whose maker was killed. */
static bool is_there(const cli_scratch *s)
{
    struct stat ours, named;
    return fstat(s->fd, &ours) == 0 && lstat(s->path, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

/* Where folders cannot be locked, as on NFS, it is used unlocked: nobody else can lock it, either,
 * and take it for abandoned. */
static bool make_one(cli_scratch *s)
{
    if (!mkdtemp(s->path))
        return false;
    s->fd = open_folder(AT_FDCWD, s->path);
    if (s->fd >= 0 && (flock(s->fd, LOCK_EX) == 0 || errno != EINTR) && is_there(s))
        return true;
    if (s->fd >= 0)
        close(s->fd);
    rmdir(s->path);
    errno = EAGAIN;
    return false;
}

es_status cli_scratch_make(const char *what, cli_scratch *out, es_error *err)
{
    char host[64] = "", prefix[128];
    const char *where = getenv("TMPDIR");
    where = where && *where ? where : "/tmp";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, "/")] = '\0';
    snprintf(prefix, sizeof prefix, "esscher-%s-%s-", what, host);
    reclaim_all(where, prefix);
    errno = EAGAIN;
    for (int i = 0; i < TRIES && errno == EAGAIN; i++) {
        *out = (cli_scratch){.fd = -1};
        if (snprintf(out->path, sizeof out->path, "%s/%sXXXXXX", where, prefix) >=
            (int)sizeof out->path)
            errno = ENAMETOOLONG;
        else if (make_one(out))
            return ES_OK;
    }
    const int number = errno;
    *out = (cli_scratch){.fd = -1};
    return cli_fail(err, ES_E_IO, where, "scratch.folder",
                    "set TMPDIR to a folder that is writable and has room",
                    "cannot make a temporary folder: %s", strerror(number));
}
