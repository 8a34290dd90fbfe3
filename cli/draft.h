/* SPDX-License-Identifier: Apache-2.0 */
/* draft.h : a file that is about to be written. */
#ifndef CLI_DRAFT_H
#define CLI_DRAFT_H

#include <stdbool.h>

#include <esscher/status.h>

/* Checks before a run that `path` may be created, so that hours of work do not end in a refusal.
 * @return : ES_OK; ES_E_EXISTS unless `overwrite`; ES_E_IO if the folder cannot be written. */
es_status cli_target_check(const char *path, bool overwrite, es_error *err);

#endif
