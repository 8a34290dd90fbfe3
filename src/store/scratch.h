/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h : a temporary directory that a killed process does not leave behind for good.
 *
 * Files that need names cannot be anonymous, and no code runs after kill -9 or a power cut. So the
 * operating system locks the directory for as long as its process lives, and the next process
 * removes the directories whose lock is free. The lock is on the directory itself, so there is no
 * stale lock file. A name does not prove that a directory is ours: it must have mode 0700 and our
 * marker, a file created under the lock; a directory with anything but files of pools is left
 * alone. The name contains the host, because locks of other machines on a shared file system may
 * be invisible here.
 *
 *     es_scratch scratch;
 *     status = es_scratch_make("pool", &scratch, err);       scratch.path: /tmp/esscher-pool-...
 *     ... pools in it, each in its directory ...
 *     es_scratch_remove(&scratch);                           fine if there is none
 */
#ifndef ES_STORE_SCRATCH_H
#define ES_STORE_SCRATCH_H

#include <esscher/status.h>

/* A directory of temporary files that ends with the process. */
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
