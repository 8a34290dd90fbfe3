/* SPDX-License-Identifier: Apache-2.0 */
/* file.h : reads regular files and writes files that are either complete or absent; recognises
 * other formats by their first bytes, and network file systems. */
#ifndef ES_STORE_FILE_H
#define ES_STORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>

/*! es_file_fail() : "cannot open: Permission denied", with the text of the given errno; ES_E_IO. */
es_status es_file_fail(es_error *err, const char *path, const char *rule, const char *hint,
                       const char *verb, int number);

/*! es_file_examine() : the size of a regular file, found out without opening it.
 *  @return : ES_OK; ES_E_ARGUMENT without a name; ES_E_IO with rule file.open or file.regular. */
es_status es_file_examine(const char *path, uint64_t *size, es_error *err);

/*! es_file_same() : returns whether both names lead to one file. Links do; a name that leads
 * nowhere does not. */
bool es_file_same(const char *a, const char *b);

/* A regular file, open for reading. `path` is the caller's string. */
typedef struct es_file {
    int fd;
    uint64_t size; /* when it was opened */
    const char *path;
} es_file;

/*! es_file_open() : never blocks and never reads from a terminal, a FIFO or a device, which a user
 *  may well name by mistake. @return : ES_OK; ES_E_IO with rule file.open or file.regular. */
es_status es_file_open(const char *path, es_file *out, es_error *err);

/*! es_file_read() : exactly `size` bytes from `offset`; ES_E_IO if there are fewer
 *  (file.changed: the caller has compared with file->size) or the system fails (file.read). */
es_status es_file_read(const es_file *file, uint64_t offset, void *out, size_t size, es_error *err);

void es_file_close(es_file *file);

/*! es_file_move() : reads `size` bytes at `at` of an open file into data, or writes them, all of
 *  them, whatever pieces the system moves them in; `path` is for messages.
 *  @return : ES_OK; ES_E_IO (file.read, file.write, file.changed). */
es_status es_file_move(int fd, const char *path, uint64_t at, void *data, size_t size, bool writing,
                       es_error *err);

/*! es_file_load() : a whole file of at most `most` bytes as new memory of `budget`, followed by a
 *  NUL that does not count; release with es_mem_free(). @return : ES_OK; as es_file_open() and
 *  es_file_read(); ES_E_LIMIT (file.size) if it is larger; ES_E_MEMORY. */
es_status es_file_load(const char *path, uint64_t most, es_mem_limit *budget, void **out,
                       size_t *size, es_error *err);

/*! es_file_may_create() : fails unless `path` may be created, or replaced if `overwrite`. Looked at
 *  before a run, so that hours of work do not end in a refusal. @return : ES_OK; ES_E_EXISTS;
 *  ES_E_IO if it is no regular file or the folder cannot be written. */
es_status es_file_may_create(const char *path, bool overwrite, es_error *err);

/* A file being written under a temporary name in the folder of its final one. */
typedef struct es_draft {
    const char *path; /* the final name: the caller's string */
    char *temp;       /* NULL when there is no draft */
    int fd;
    bool overwrite;
    bool hasty; /* set after es_draft_open(): do not wait for the disk; for many files that are
                   quickly made again */
} es_draft;

/*! es_draft_open() : begin, after drafts of the same file that killed processes left are removed.
 * On success end with es_draft_publish() or es_draft_discard().
 *  @return : ES_OK; ES_E_EXISTS if `path` exists and overwrite is false; ES_E_IO. */
es_status es_draft_open(const char *path, bool overwrite, es_draft *out, es_error *err);

es_status es_draft_write(es_draft *draft, const void *data, size_t size, es_error *err);

/*! es_draft_publish() : put everything on disk, then give it its final name in one step. After a
 *  failure the draft is gone and `path` is what it was. */
es_status es_draft_publish(es_draft *draft, es_error *err);

/*! es_draft_discard() : remove every trace; fine after es_draft_publish(). */
void es_draft_discard(es_draft *draft);

/*! es_file_store() : writes a whole file in one call, as a draft that is published.
 *  @return : as es_draft_open(), es_draft_write() and es_draft_publish(). */
es_status es_file_store(const char *path, bool overwrite, const void *data, size_t size,
                        es_error *err);

/*! es_file_nameless() : a file for reading and writing, in $TMPDIR or /tmp, that has no name and is
 *  gone when it is closed. Its descriptor is 10 or more: 0 to 9 are for programs to be started.
 *  @return : ES_OK; ES_E_IO (file.create). */
es_status es_file_nameless(int *fd, es_error *err);

enum { ES_FOREIGN_PREFIX = 32 }; /* bytes that always suffice for es_foreign_of() */

/* What a file is that was expected to be another one, for the error message. */
typedef struct es_foreign {
    const char *name; /* "a zip archive ..."; NULL: nothing that is known */
    const char *hint; /* what to do with one */
} es_foreign;

/*! es_foreign_of() : what begins with these `have` bytes; fewer than ES_FOREIGN_PREFIX only if the
 *  file has no more. */
es_foreign es_foreign_of(const unsigned char *bytes, size_t have);

/*! es_network_of() : "NFS", "Lustre", ... if the open file `fd` is on a file system whose files
 *  other machines may see at the same time; NULL for any other, or if unknown. */
const char *es_network_of(int fd);

#endif
