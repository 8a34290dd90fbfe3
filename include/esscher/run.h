/* SPDX-License-Identifier: Apache-2.0 */
/* run.h : run files, in which an experiment survives being killed.
 *
 * A run is the work of one command. Its file holds what was asked (the command and its parameters),
 * who computed it when and on what (provenance), every cell that is finished, and the final tables.
 * Report and export read nothing else.
 *
 * es_study_run() writes them (es_study_opts.out) and resumes them (es_study_opts.resume).
 *
 *     es_run_open("converge.run", &run, &err);
 *     es_run_answer(run, NULL, NULL, &answer, &err);       what the command answered (table.h)
 *     es_run_close(run, &err);
 *
 * A program may store tables of its own:
 *
 *     const es_run_spec spec = {"mine", params, nparams, facts, nfacts};
 *     es_run_create(path, &spec, false, &run, &err);
 *     es_run_put_table(run, &table, &err);
 *     status = es_run_close(run, &err);
 *
 * Parameters are everything that determines the numbers, as canonical text: seed, law, dimensions,
 * grid, precision, instruction set; never the number of threads. A run is resumed only with the
 * parameters it was created with. Facts are recorded and never compared; each start adds its own.
 *
 * What a kill -9 or a power cut may take: the cells being computed, and those put within the last
 * second (ES_RUN_BATCH_SECONDS), because cells that come fast share a transaction. The file is
 * never half written: it is an SQLite database with a rollback journal, synced in full.
 *
 * One writer: a lock beside the file, PATH.lock, held by the operating system, which also drops it
 * when the process dies; a lock file left by a kill blocks no writer. Readers need no lock and may
 * look while a run is going on. Network file systems may hide the lock from other machines: writing
 * to one is remarked on (es_log_set()), and it is refused where there are no locks at all. A writer
 * that finds another's name in the lock file before it writes stops (run.stolen): of two writers
 * that both got the lock the later one goes on.
 *
 * Nothing in the file is trusted. It is checked as a whole when opened, in time O(file), and each
 * cell, table, parameter and fact carries a CRC-64. Numbers come back with the bits they had,
 * payloads of NaN included. Clocks are written down and never compared, so they may jump.
 *
 * An es_run may be used by several threads at once, except for es_run_close(). Names and keys are
 * 1 to 255 bytes, texts at most 1 MiB; a cell or a column of a table takes at most 256 MiB, and
 * either has at most 4096 columns, those of a table with different names.
 */
#ifndef ESSCHER_RUN_H
#define ESSCHER_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ES_RUN_SCHEMA = 2,       /* of files we write; newer ones are refused, older ones are read */
    ES_RUN_BATCH_SECONDS = 1 /* at most so much finished work waits for the disk */
};

typedef struct es_run es_run;

/* ---- what a run is ---- */

typedef struct es_run_pair {
    const char *key, *text;
} es_run_pair;

typedef struct es_run_fact {
    int64_t session; /* 0: the start that created the run, then one more for each resumption */
    const char *key, *text;
} es_run_fact;

typedef struct es_run_spec {
    const char *command;
    const es_run_pair *params; /* keys are unique */
    int64_t params_count;
    const es_run_pair *facts; /* the library adds "started", a UTC time */
    int64_t facts_count;
} es_run_spec;

/* Everything but the numbers, as it was when the run was opened. Strings belong to the run and live
 * until it is closed. */
typedef struct es_run_about {
    const char *command;
    int schema;
    const char *created, *updated; /* UTC, ISO 8601 */
    const es_run_pair *params;     /* in the order of the spec */
    int64_t params_count;
    const es_run_fact *facts; /* in order of session */
    int64_t facts_count;
    int64_t stages_count;
} es_run_about;

/* ---- opening and closing ---- */

/*! es_run_create() : a new run file. It takes its name only when it holds everything in `spec`;
 *  with `overwrite` it then replaces what was there, unless a process is writing to it.
 *  @return : ES_OK; ES_E_EXISTS (file.exists); ES_E_ARGUMENT (run.spec) for a bad spec;
 *  ES_E_IO (file.create, file.regular, run.lock, run.locked, run.full, run.io, ...). */
ES_API es_status es_run_create(const char *path, const es_run_spec *spec, bool overwrite,
                               es_run **out, es_error *err);

/*! es_run_open() : for reading only; works while another process writes. A transaction that a
 *  killed writer left behind is undone first where the folder is writable.
 *  @return : ES_OK;
 *   ES_E_IO: file.open, file.regular; run.busy; run.io;
 *   ES_E_FORMAT: run.empty (no bytes), run.magic (something else), run.corrupt, run.checksum;
 *   ES_E_UNSUPPORTED: run.schema, written by a newer Esscher. */
ES_API es_status es_run_open(const char *path, es_run **out, es_error *err);

/*! es_run_close() : flush, give up the lock, free. NULL is fine. Whatever it returns, the run is
 *  gone and the file can be resumed; after a failure cells of the last batch may be missing. */
ES_API es_status es_run_close(es_run *run, es_error *err);

ES_API es_run_about es_run_info(const es_run *run);

/* ---- cells ---- */

/* A kind of cell: each holds (rows, cols) numbers. Strings belong to the run. A name that begins
 * with "_" is that of a *scratch* stage: work under way, which goes on from it, and no result. It
 * is not listed to people, and es_run_join() leaves it where it is. */
typedef struct es_run_stage {
    const char *name;
    int64_t rows, cols;
    const char *const *columns; /* cols names */
    int64_t cells;              /* finished, or damaged */
    bool scratch;
} es_run_stage;

/*! es_run_get_stage() : stage `id` of [0, stages_count). ES_E_RANGE otherwise. */
ES_API es_status es_run_get_stage(es_run *run, int64_t id, es_run_stage *out, es_error *err);

/* ---- shards ---- */

/* Several processes that cannot see each other may do a run together, each its share of the cells
 * into a file of its own: es_study_opts.shard. Such a file has two facts more: "shard", "3 of 16",
 * and "cells", how many of each stage the whole run has: "limit 6, draw 48". */

/*! es_run_shard() : returns whether this is the file of a shard, and its number; false, and 0 of 0,
 *  for a run that was last worked on as a whole. */
ES_API bool es_run_shard(const es_run *run, int64_t *shard, int64_t *shards);

typedef struct es_run_join_opts {
    const es_run_pair *facts; /* of the file that is made, beside "cells" */
    int64_t facts_count;
    bool overwrite;
    bool partial; /* gaps are allowed */
    es_progress_fn progress;
    void *progress_user;
} es_run_join_opts;

typedef struct es_run_joined {
    int64_t files, cells; /* files, and cells that the new file has */
    int64_t twice;        /* cells that several files had, with the same bits */
    int64_t missing;      /* cells that none has */
    char gaps[256];       /* which, "limit 4-5, draw 32-47"; cut with "..." */
} es_run_joined;

/*! es_run_join() : the cells of all shards of a run into one file, which can be resumed: es_run_
 *  resume() finds the parameters of the shards. They are streamed: memory is one cell and 4 bytes
 *  for each. The new file takes its name when it has everything; before that, and after a failure,
 *  `out` is what it was. *joined may be NULL; it is filled as far as it came.
 *  @return : ES_OK;
 *   ES_E_ARGUMENT: merge.twice, a file is given twice; merge.output, `out` is one of them;
 *     merge.command, merge.parameters, naming the differences; merge.whole for a run that is no
 *     shard; merge.finished for one that has its tables; merge.stage for shards of another version;
 *   ES_E_EMPTY: merge.none, no files; merge.gaps, naming them, unless opts->partial;
 *   ES_E_FORMAT: merge.overlap for a cell that has other bits in another file; run.checksum for one
 *     that is damaged; ES_E_INTERRUPTED; and what es_run_open() and es_run_create() return. */
ES_API es_status es_run_join(const char *const *paths, int64_t count, const char *out,
                             const es_run_join_opts *opts, es_run_joined *joined, es_error *err);

/* ---- final tables ---- */

typedef enum es_run_kind { ES_RUN_REAL = 1, ES_RUN_TEXT = 2 } es_run_kind;

typedef struct es_run_column {
    const char *name;
    es_run_kind kind;
    const double *reals;      /* rows numbers if ES_RUN_REAL */
    const char *const *texts; /* rows strings if ES_RUN_TEXT */
} es_run_column;

typedef struct es_run_table {
    const char *name;
    int64_t rows, cols; /* rows may be 0 */
    const es_run_column *columns;
    es_mem_limit *budget; /* of a table that was read; must outlive it */
} es_run_table;

/*! es_run_put_table() : write a table, or replace the one of that name, and flush. For readers
 *  without this library the file gets a view of that name with a column for each column: REAL,
 *  NULL for NaN, or TEXT.
 *  @return : ES_OK; ES_E_ARGUMENT (run.table; run.readonly if opened for reading); ES_E_LIMIT;
 *  ES_E_IO. After a failed write the run takes no more: the same error comes back from every put,
 *  and the file keeps what earlier transactions brought. */
ES_API es_status es_run_put_table(es_run *run, const es_run_table *table, es_error *err);

/*! es_run_tables_count() : how many tables the run has. */
ES_API es_status es_run_tables_count(es_run *run, int64_t *out, es_error *err);

/*! es_run_table_name() : name of table `at`, in order of names, for es_run_get_table().
 *  @return : ES_OK; ES_E_RANGE. */
ES_API es_status es_run_table_name(es_run *run, int64_t at, char out[256], es_error *err);

/*! es_run_get_table() : read a table; release it with es_run_table_free().
 *  @return : ES_OK; ES_E_EMPTY (run.table) if there is none of that name; ES_E_FORMAT if it is
 *  damaged; ES_E_LIMIT over the budget; ES_E_MEMORY; ES_E_IO. */
ES_API es_status es_run_get_table(es_run *run, const char *name, es_mem_limit *budget,
                                  es_run_table *out, es_error *err);

/*! es_run_answer() : reads the answer of a run: its tables with titles, units, definitions and
 *  views, single results, findings, provenance, command and seed. es_answer_write() then gives the
 *  same text, CSV, Markdown, LaTeX and JSON as when the study ended; cells that are lists are not
 *  in run files. `table`: NULL: everything; a name: that table alone, "_columns" and its like
 *  included, with every view shown; "": everything but the tables. Release *out with
 *  es_answer_free(); it does not need the run any more. O(size of what is read).
 *  @return : ES_OK; ES_E_EMPTY (run.table) if there is no table of that name; ES_E_FORMAT
 *  (run.answer) if the file describes its tables in a way that makes no sense; else as
 *  es_run_get_table(). */
struct es_answer;
ES_API es_status es_run_answer(es_run *run, const char *table, es_mem_limit *budget,
                               struct es_answer **out, es_error *err);

/*! es_run_table_free() : free what es_run_get_table() gave; fine on an empty table. */
ES_API void es_run_table_free(es_run_table *table);

#ifdef __cplusplus
}
#endif
#endif
