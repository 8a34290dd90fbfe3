/* SPDX-License-Identifier: Apache-2.0 */
/* text.h : a text that may have to be waited for: a FIFO, a terminal, a slow pipe.
 *
 * Meanwhile Ctrl-C and the other signals of progress.h stop the run: the system then ends the
 * waiting with EINTR, which is no failure of the file. Any other signal is no reason to stop. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include <esscher/status.h>

/* fopen() for reading. @return : ES_OK; ES_E_INTERRUPTED; ES_E_IO (file.open). */
es_status cli_text_open(const char *name, FILE **out, es_error *err);

/* fread(): *got is less than `size` at the end. @return : ES_OK; ES_E_INTERRUPTED; ES_E_IO
 * (file.read). */
es_status cli_text_read(FILE *file, const char *name, void *out, size_t size, size_t *got,
                        es_error *err);

#endif
