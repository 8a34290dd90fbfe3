/* SPDX-License-Identifier: Apache-2.0 */
/* text.c : reads texts that may have to be waited for; a signal ends the waiting. */
#include "text.h"

#include <errno.h>
#include <string.h>

#include "progress.h"
#include "talk.h"

es_status cli_text_open(const char *name, FILE **out, es_error *err)
{
    do
        *out = fopen(name, "rb");
    while (!*out && errno == EINTR && !cli_interrupted());
    if (*out)
        return ES_OK;
    if (errno == EINTR)
        return cli_fail(err, ES_E_INTERRUPTED, name, "", "", "interrupted; nothing was read");
    return cli_fail(err, ES_E_IO, name, "file.open", "check the name and its permissions",
                    "cannot open: %s", strerror(errno));
}

es_status cli_text_read(FILE *file, const char *name, void *out, size_t size, size_t *got,
                        es_error *err)
{
    for (*got = 0; *got < size;) {
        *got += fread((char *)out + *got, 1, size - *got, file);
        if (!ferror(file))
            return ES_OK; /* all, or all there is */
        if (errno != EINTR)
            return cli_fail(err, ES_E_IO, name, "file.read", "name a file with text",
                            "cannot read: %s", strerror(errno));
        if (cli_interrupted())
            return cli_fail(err, ES_E_INTERRUPTED, name, "", "", "interrupted while reading");
        clearerr(file);
    }
    return ES_OK;
}
