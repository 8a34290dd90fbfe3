/* SPDX-License-Identifier: Apache-2.0 */
/* run_inside.h : what an es_run is made of, for the files run*.c.
 *
 * The file is an SQLite database with application_id ES_RUN_MAGIC and user_version ES_RUN_SCHEMA:
 *
 *     run         one row: command, times; identity = CRC of the command and all parameters
 *     parameter   key and text, in the order of the spec
 *     fact        key and text of each session
 *     stage       names and shapes; column names as strings that end in a zero byte
 *     cell        (stage, index) with its numbers, f64, least significant byte first
 *     result      final tables; result_column holds one column: numbers as in a cell, or strings
 *     NAME        a view of final table NAME over "NAME:data", since schema 2: for others to read
 *
 * Each row has a checksum of its content that starts from the identity: a row of another run does
 * not pass for one of this.
 */
#ifndef ES_STORE_RUN_INSIDE_H
#define ES_STORE_RUN_INSIDE_H

#include <sqlite3.h>

#include <esscher/run.h>

#include "store/file.h"

#define ES_RUN_MAGIC 1165185646 /* "EsRn" */

enum {
    ES_RUN_NAME = 255,      /* bytes of a name or key */
    ES_RUN_LINE = 1 << 20,  /* bytes of a text */
    ES_RUN_BLOCK = 1 << 28, /* bytes of a cell, or of a column of a table */
    ES_RUN_COLUMNS = 4096
};

/* ---- run_sql.c : SQLite, as run files use it: strict settings, our errors ---- */

enum { ES_SQL_BUSY_MS = 3000 }; /* how long we wait for a reader or a writer to finish */

/* A connection; `path` is how messages call the file, and is the caller's string. */
typedef struct es_sql {
    sqlite3 *db;
    const char *path;
} es_sql;

/*! es_sql_open() : a connection to `file`, which must exist. The file itself is not looked at yet.
 *  After a failure there is nothing to close. */
es_status es_sql_open(const char *file, const char *path, es_sql *out, es_error *err);
void es_sql_close(es_sql *sql);

/*! es_sql_fail() : the last failure of the connection, in our words. `code` is SQLite's. */
es_status es_sql_fail(const es_sql *sql, int code, es_error *err);

/*! es_sql_corrupt() : the file breaks one of our own rules: ES_E_FORMAT. */
es_status es_sql_corrupt(const es_sql *sql, const char *rule, es_error *err, const char *fmt, ...)
    ES_PRINTF(4, 5);

/*! es_sql_exec() : statements without parameters and rows. */
es_status es_sql_exec(const es_sql *sql, const char *text, es_error *err);

/*! es_sql_prepare() : a statement with its parameters, one letter each in `types`: 'i' int64_t,
 *  't' const char *, 'b' const void * and size_t. Texts and blobs must live until it is finalized.
 */
es_status es_sql_prepare(const es_sql *sql, es_error *err, sqlite3_stmt **out, const char *text,
                         const char *types, ...);

/*! es_sql_step() : *row says whether there is a row to read, or the statement is done. */
es_status es_sql_step(const es_sql *sql, sqlite3_stmt *statement, bool *row, es_error *err);

/*! es_sql_run() : prepare, step to the end, finalize. */
es_status es_sql_run(const es_sql *sql, es_error *err, const char *text, const char *types, ...);

/*! es_sql_number() : the one number that a query without parameters gives. */
es_status es_sql_number(const es_sql *sql, const char *text, int64_t *out, es_error *err);

/*! es_sql_text() : a copy of a text of the current row, to be freed with es_mem_free(NULL, ).
 *  ES_E_FORMAT if the column holds no text of at most `longest` bytes, or one with a zero byte. */
es_status es_sql_text(const es_sql *sql, sqlite3_stmt *statement, int column, size_t longest,
                      char **out, es_error *err);

/*! es_sql_blob() : a blob of the current row, valid until the next step; NULL unless it is one and
 *  has exactly `size` bytes. */
const unsigned char *es_sql_blob(sqlite3_stmt *statement, int column, size_t size);

/* ---- run_file.c : one writer per run file ---- */

/* The lock is flock() on PATH.lock, so that it ends with its process, however that dies; the file
 * only gives the lock a place and names its owner. The run file itself is not locked, because
 * SQLite has its own locks there. On a network file system other machines may not see the lock: a
 * warning says so, and the owner's name in the file is a second lock that works without the first.
 * A later process writes its own name, and a process that finds another name than its own before it
 * writes to the run stops. */
enum { ES_LOCK_NAME = 224 };
/* The lock file of a writer. */
typedef struct es_run_lock {
    int fd; /* -1: not held */
    char *path;
    char name[ES_LOCK_NAME]; /* ours: process, host and a random number */
} es_run_lock;

/*! es_run_lock_take() : the lock of the run file `file`; messages call it `path`.
 *  @return : ES_OK; ES_E_IO: run.locked with process and host of the holder; run.lock if the file
 *  system cannot lock; file.create. */
es_status es_run_lock_take(const char *file, const char *path, es_run_lock *out, es_error *err);

/*! es_run_lock_check() : checks that the lock is still ours; one that was removed is taken again.
 *  @return : ES_OK; ES_E_IO: run.stolen, with process and host that have taken it. */
es_status es_run_lock_check(es_run_lock *lock, const char *path, es_error *err);

/*! es_run_lock_drop() : fine if it is not held. */
void es_run_lock_drop(es_run_lock *lock);

/* ---- the run ---- */

struct es_run {
    es_sql sql;
    char *path; /* as the caller spelt it */
    bool writable;
    int schema; /* of the file, as it was when opened */
    es_run_lock lock;

    uint64_t identity;
    char *command, *created, *updated;
    es_run_pair *params;
    int64_t params_count;
    es_run_fact *facts;
    int64_t facts_count;

    es_run_stage **stages; /* each its own memory, so that names stay where they are */
    int64_t stages_count, stages_capacity;

    /* The transaction that collects cells: run_cells.c. */
    bool pending;
    double last_commit; /* seconds of a clock that never jumps */
    size_t pending_bytes;
    es_status failed; /* not ES_OK: no more is written */
    es_error failure;
};

/* ---- run_file.c : the database ---- */

/*! es_run_file_write() : the content of a new run in the empty file `file`. */
es_status es_run_file_write(const char *file, const char *path, const es_run_spec *spec,
                            es_error *err);

/*! es_run_file_check() : magic, schema, soundness of the whole. */
es_status es_run_file_check(const es_sql *sql, es_error *err);

/* ---- run.c : a run that gets its name when it is whole ---- */

/* Cells go to a draft with a temporary name; the lock is that of the final file. */
typedef struct es_run_draft {
    es_draft file;
    es_run_lock lock;
    es_run *run; /* NULL: there is none */
} es_run_draft;

/*! es_run_draft_open() : begin; end with es_run_draft_end(). @return : as es_run_create(). */
es_status es_run_draft_open(const char *path, const es_run_spec *spec, bool overwrite,
                            es_run_draft *out, es_error *err);

/*! es_run_draft_end() : if `status` is ES_OK everything is put on disk and gets its name, else no
 *  trace remains. @return : `status`, or what went wrong at the end. */
es_status es_run_draft_end(es_run_draft *draft, es_status status, es_error *err);

/* ---- run_spec.c : parameters and facts ---- */

es_status es_run_spec_check(const es_run_spec *spec, es_error *err);
uint64_t es_run_spec_identity(const es_run_spec *spec);

/*! es_run_spec_write() : parameters of a new run. */
es_status es_run_spec_write(const es_sql *sql, const es_run_spec *spec, es_error *err);
/*! es_run_facts_write() : facts of the spec as one more session, with the time. */
es_status es_run_facts_write(const es_sql *sql, const es_run_spec *spec, uint64_t identity,
                             es_error *err);

/*! es_run_spec_load(), es_run_spec_free() : command, times, parameters, facts of the run. */
es_status es_run_spec_load(es_run *run, es_error *err);
void es_run_spec_free(es_run *run);

/*! es_run_spec_compare() : ES_E_ARGUMENT with the first differences, if there are any. */
es_status es_run_spec_compare(const es_run *run, const es_run_spec *spec, es_error *err);

/*! es_run_spec_join() : the same where `spec` is that of another file, `other`: merge.parameters or
 *  merge.command. */
es_status es_run_spec_join(const es_run *run, const es_run_spec *spec, const char *other,
                           es_error *err);

/*! es_run_now() : returns the time of day as text, "" if unknown. */
void es_run_now(char out[32]);

/*! es_run_name_ok() : returns whether this can be a name or a key. */
bool es_run_name_ok(const char *name);

/* ---- run_cells.c : writing ---- */

typedef es_status (*es_run_write_fn)(es_run *run, const void *job, es_error *err);

/*! es_run_write() : fn(job) inside the current transaction, one caller at a time; `bytes` is about
 *  what it adds. The transaction is committed if `flush`, or when it is due. A failure takes the
 *  whole batch back, and the run writes no more. */
es_status es_run_write(es_run *run, es_run_write_fn fn, const void *job, size_t bytes, bool flush,
                       es_error *err);

void es_run_enter(const es_run *run); /* one thread at a time; may be entered again from inside */
void es_run_leave(const es_run *run);

/* ---- run_tables.c ---- */

/* ---- run_stages.c, run_cells.c ---- */

es_status es_run_stages_load(es_run *run, es_error *err);
void es_run_stages_free(es_run *run);

/*! es_run_stage_at() : stage `id`, which stays where it is until the run is closed; ES_E_RANGE. */
es_status es_run_stage_at(const es_run *run, int64_t id, const es_run_stage **out, es_error *err);

/* Numbers as the file has them, and back. */
void es_run_encode(const double *values, size_t count, unsigned char *out);
void es_run_decode(const unsigned char *bytes, size_t count, double *out);

#endif
