/* SPDX-License-Identifier: Apache-2.0 */
/* text.c : reads texts that may have to be waited for; a signal ends the waiting. */
#include "text.h"

#include <errno.h>
#include <string.h>

#include "progress.h"
#include "talk.h"

/* A signal that has come before the waiting does not end it: each wait begins with a look. */

es_status cli_text_open(const char *name, FILE **out, es_error *err)
{
    do {
        if (cli_interrupted())
            return cli_fail(err, ES_E_INTERRUPTED, name, "", "", "interrupted; nothing was read");
        *out = fopen(name, "rb");
    } while (!*out && errno == EINTR);
    if (*out)
        return ES_OK;
    return cli_fail(err, ES_E_IO, name, "file.open", "check the name and its permissions",
                    "cannot open: %s", strerror(errno));
}

es_status cli_text_read(FILE *file, const char *name, void *out, size_t size, size_t *got,
                        es_error *err)
{
    for (*got = 0; *got < size;) {
        if (cli_interrupted())
            return cli_fail(err, ES_E_INTERRUPTED, name, "", "", "interrupted while reading");
        *got += fread((char *)out + *got, 1, size - *got, file);
        if (!ferror(file))
            return ES_OK; /* all, or all there is */
        if (errno != EINTR)
            return cli_fail(err, ES_E_IO, name, "file.read", "name a file with text",
                            "cannot read: %s", strerror(errno));
        clearerr(file);
    }
    return ES_OK;
}
