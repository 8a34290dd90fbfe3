/* SPDX-License-Identifier: Apache-2.0 */
/* run.h : what the library alone needs beside <esscher/run.h>. */
#ifndef ES_STORE_RUN_H
#define ES_STORE_RUN_H

#include <esscher/run.h>

/*! es_run_resume() : go on with a run. Its damage, if any, is found now.
 *  @return : ES_OK;
 *   ES_E_ARGUMENT: run.parameters, with the first differences in the message (es_run_diff() on a
 *     run opened with es_run_open() gives all of them); run.command; run.spec;
 *   ES_E_IO: file.open, file.regular; run.locked, naming process and host of the writer;
 *     run.readonly: file or folder are write-protected; run.busy; run.full; run.io;
 *   ES_E_FORMAT: run.empty (no bytes), run.magic (something else), run.corrupt, run.checksum;
 *   ES_E_UNSUPPORTED: run.schema, written by a newer Esscher. */
es_status es_run_resume(const char *path, const es_run_spec *spec, es_run **out, es_error *err);

/*! es_run_flush() : everything put so far is on disk when this returns ES_OK. */
es_status es_run_flush(es_run *run, es_error *err);

/*! es_run_diff() : how `spec` differs from what the run was created with, one line each,
 *  "seed: 7 in the file, 8 now\n", cut at `size` bytes with its end (size 0: only counted).
 *  Facts are not compared, nor is the order of parameters. @return : the number of differences. */
int64_t es_run_diff(const es_run *run, const es_run_spec *spec, char *out, size_t size);

/*! es_run_note() : one more fact of this start, once it is known; es_run_info() has it when the run
 *  is opened again. @return : ES_OK; ES_E_ARGUMENT (run.spec); as es_run_put_cell(). */
es_status es_run_note(es_run *run, const char *key, const char *text, es_error *err);

/*! es_run_add_stage() : declare a stage, or find it again in a resumed run. `*id` counts from 0.
 *  @return : ES_OK; ES_E_ARGUMENT (run.stage) if the run has it with another shape or columns;
 *  ES_E_SHAPE unless rows, cols >= 1; ES_E_LIMIT; ES_E_IO. */
es_status es_run_add_stage(es_run *run, const char *name, int64_t rows, int64_t cols,
                           const char *const *columns, int64_t *id, es_error *err);

/*! es_run_put_cell() : a finished cell, values (rows, cols); one that is there is replaced. It is
 * on disk when this returns, unless the last transaction was less than ES_RUN_BATCH_SECONDS ago.
 *  @return : ES_OK; ES_E_RANGE for a stage that is none; ES_E_ARGUMENT (run.readonly) if opened for
 *  reading; ES_E_IO. After a failed write the run takes no more: the same error comes back from
 *  every put, and the file keeps what earlier transactions brought. */
es_status es_run_put_cell(es_run *run, int64_t stage, int64_t index, const double *values,
                          es_error *err);

/*! es_run_has_cell() : returns whether the cell is stored and undamaged. A damaged one counts as
 *  missing, so that a resumed run computes it again. O(its size). */
es_status es_run_has_cell(es_run *run, int64_t stage, int64_t index, bool *out, es_error *err);

/*! es_run_drop_cell() : it is there no longer; fine if it never was. Its space in the file is used
 *  again. @return : as es_run_put_cell(). */
es_status es_run_drop_cell(es_run *run, int64_t stage, int64_t index, es_error *err);

/*! es_run_get_cell() : the cell into out (rows, cols).
 *  @return : ES_OK; ES_E_EMPTY (run.cell) if there is none; ES_E_FORMAT (run.checksum) if it is
 *  damaged; ES_E_RANGE; ES_E_IO. */
es_status es_run_get_cell(es_run *run, int64_t stage, int64_t index, double *out, es_error *err);

/* Called with each cell; `values` (rows, cols) is valid during the call. Anything but ES_OK ends
 * the walk and is returned from it. Must not put into the run. */
typedef es_status (*es_run_cell_fn)(void *user, int64_t index, const double *values, es_error *err);

/*! es_run_each_cell() : calls `fn` for every stored cell of a stage, in increasing order of index.
 *  Cells may be missing; callers that need all of them count the calls.
 *  @return : ES_OK; what `fn` returned; ES_E_FORMAT at the first damaged cell; ES_E_IO. */
es_status es_run_each_cell(es_run *run, int64_t stage, es_run_cell_fn fn, void *user,
                           es_error *err);

/*! es_run_column_of() : the column of that name; NULL if there is none. */
const es_run_column *es_run_column_of(const es_run_table *table, const char *name);

#endif
