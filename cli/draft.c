/* SPDX-License-Identifier: Apache-2.0 */
/* draft.c : checks output files before a command computes for hours. */
#include "draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "talk.h"

/* The folder part of a path with its slash, "./" if there is none, as new text. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) + 1 : 2;
    char *folder = cli_alloc(length + 1);
    memcpy(folder, slash ? path : "./", length);
    return folder;
}

es_status cli_target_check(const char *path, bool overwrite, es_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 && !overwrite)
        return cli_fail(err, ES_E_EXISTS, path, "file.exists",
                        "choose another name, or overwrite it with --force",
                        "the file exists already");
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return cli_fail(err, ES_E_IO, path, "file.regular", "name a regular file",
                        "cannot write: it is no regular file");
    char *folder = folder_of(path);
    const int denied = access(folder, W_OK | X_OK);
    free(folder);
    return denied ? cli_fail(err, ES_E_IO, path, "file.create",
                             "check the folder and the space left on the disk", "cannot create: %s",
                             strerror(errno))
                  : ES_OK;
}
