/* scratch.h : a temporary folder that a killed process does not leave behind for good.
 *
 * Files that have to have names while they are made cannot be anonymous, and nothing runs after
 * kill -9 or a power cut. So the folder is locked, by the operating system, for as long as its
 * process lives; whoever makes the next one first removes those whose lock is free. The lock is on
 * the folder itself: no file says who holds it, none can be stale. A name is no proof that a folder
 * is ours: it must have our mode, 0700, and our marker, a file made under the lock, and if there is
 * anything in it but the files of pools, it is left alone as it is. The name of the host is part of
 * the folder's, so that those of other machines in a shared folder, whose locks are not seen
 * everywhere, stay.
 *
 *     es_scratch scratch;
 *     status = es_scratch_make("pool", &scratch, err);       scratch.path: /tmp/esscher-pool-...
 *     ... pools in it, each in its folder ...
 *     es_scratch_remove(&scratch);                           fine if there is none
 */
#ifndef ES_STORE_SCRATCH_H
#define ES_STORE_SCRATCH_H

#include <esscher/status.h>

typedef struct es_scratch {
    char path[4000]; /* "": there is none */
    int fd;          /* of the folder, locked */
} es_scratch;

/* A new folder in $TMPDIR, or /tmp, after those of killed processes are removed.
 * @return : ES_OK; ES_E_IO (scratch.folder). */
es_status es_scratch_make(const char *what, es_scratch *out, es_error *err);

/* Remove the folder with the pools in it. Files that are open stay readable until they are closed;
 * a network file system may keep their folder as long, so ask again then. What is not of a pool
 * stays, and the folder with it. */
void es_scratch_remove(es_scratch *scratch);

#endif
