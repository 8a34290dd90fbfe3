/* draft.h : a text file that is either whole or not there.
 *
 * Lines go to a hidden file in the same folder, which takes the final name only when all of it is
 * on disk. (es_npy_save() does the same for arrays.)
 */
#ifndef CLI_DRAFT_H
#define CLI_DRAFT_H

#include <stdbool.h>
#include <stdio.h>

#include <esscher/status.h>

typedef struct cli_draft {
    FILE *file; /* NULL: no draft */
    char *temp;
    const char *path;
    bool overwrite;
} cli_draft;

/* May `path` be created? Looked at before a run, so that hours of work do not end in a refusal.
 * @return : ES_OK; ES_E_EXISTS unless `overwrite`; ES_E_IO if the folder cannot be written. */
es_status cli_target_check(const char *path, bool overwrite, es_error *err);

es_status cli_draft_open(cli_draft *draft, const char *path, bool overwrite, es_error *err);
es_status cli_draft_publish(cli_draft *draft, es_error *err);
void cli_draft_discard(cli_draft *draft); /* fine without a draft */

#endif
