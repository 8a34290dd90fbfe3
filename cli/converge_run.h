/* converge_run.h : the run file of `esscher converge`; without --out every function does nothing.
 */
#ifndef CLI_CONVERGE_RUN_H
#define CLI_CONVERGE_RUN_H

#include <esscher/run.h>

#include "converge.h"

typedef struct converge_run {
    es_run *run; /* NULL: no run file */
    int64_t stage;
} converge_run;

/* Create or resume the run file `path` (NULL: none). What determines the numbers becomes its
 * parameters: matrices by a hash of their numbers. */
es_status converge_run_open(converge_run *r, const converge_job *job, const char *path, bool resume,
                            bool force, es_error *err);

/* A replicate that is there already; *done says whether. */
es_status converge_run_find(const converge_run *r, int64_t replicate, es_converge_cell *out,
                            bool *done, es_error *err);

es_status converge_run_keep(const converge_run *r, int64_t replicate, const es_converge_cell *cells,
                            es_error *err);

/* The tables "rows" and "fits" of the answer. */
es_status converge_run_tables(const converge_run *r, const json_t *answer, es_error *err);

es_status converge_run_close(converge_run *r, es_error *err);

#endif
