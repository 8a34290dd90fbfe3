/* run_lock.h : one writer per run file.
 *
 * The lock is the operating system's (flock on PATH.lock), so it ends with the process that holds
 * it, however that dies; the file beside the run only gives it a place and says who holds it. It
 * is not taken on the run file itself, where SQLite keeps its own locks. On a network file system
 * other machines may not see it: a warning says so. */
#ifndef ES_STORE_RUN_LOCK_H
#define ES_STORE_RUN_LOCK_H

#include <esscher/status.h>

typedef struct es_run_lock {
    int fd; /* -1: not held */
    char *path;
} es_run_lock;

/*! es_run_lock_take() : the lock of the run file `file`; messages call it `path`.
 *  @return : ES_OK; ES_E_IO: run.locked with process and host of the holder; run.lock if the file
 *  system cannot lock; file.create. */
es_status es_run_lock_take(const char *file, const char *path, es_run_lock *out, es_error *err);

/*! es_run_lock_drop() : fine if it is not held. */
void es_run_lock_drop(es_run_lock *lock);

#endif
