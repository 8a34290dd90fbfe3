/* SPDX-License-Identifier: Apache-2.0 */
/* nameless.c : files without a name. A separate file, because file.c needs strerror_r() of POSIX,
 * which _GNU_SOURCE replaces by another function. */
#define _GNU_SOURCE /* mkostemp: no child of another thread shall have the file */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/file.h"

es_status es_file_nameless(int *fd, es_error *err)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/esscher-XXXXXX", folder && *folder ? folder : "/tmp");
    const int made = mkostemp(path, O_CLOEXEC);
    if (made >= 0)
        unlink(path);
    *fd = made >= 0 ? fcntl(made, F_DUPFD_CLOEXEC, 10) : -1;
    const int number = errno;
    if (made >= 0)
        close(made);
    if (*fd < 0)
        return es_file_fail(err, path, "file.create", "check $TMPDIR", "create", number);
    return ES_OK;
}
