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

#include <esscher/run.h>

#include "store/run_lock.h"
#include "store/run_sql.h"

#define ES_RUN_MAGIC 1165185646 /* "EsRn" */

enum {
    ES_RUN_NAME = 255,      /* bytes of a name or key */
    ES_RUN_LINE = 1 << 20,  /* bytes of a text */
    ES_RUN_BLOCK = 1 << 28, /* bytes of a cell, or of a column of a table */
    ES_RUN_COLUMNS = 4096
};

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
    int64_t stages_count, stages_room;

    /* The transaction that collects cells: run_batch.c. */
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

/*! es_run_now() : the time of day as text, "" if the system does not tell. */
void es_run_now(char out[32]);

/*! es_run_name_ok() : can this be a name or a key? */
bool es_run_name_ok(const char *name);

/* ---- run_batch.c : writing ---- */

typedef es_status (*es_run_write_fn)(es_run *run, const void *job, es_error *err);

/*! es_run_write() : fn(job) inside the current transaction, one caller at a time; `bytes` is about
 *  what it adds. The transaction is committed if `flush`, or when it is due. A failure takes the
 *  whole batch back, and the run writes no more. */
es_status es_run_write(es_run *run, es_run_write_fn fn, const void *job, size_t bytes, bool flush,
                       es_error *err);

void es_run_enter(const es_run *run); /* one thread at a time; may be entered again from inside */
void es_run_leave(const es_run *run);

/* ---- run_views.c ---- */

/*! es_run_mirror() : the table as a view with real columns, for plain SQL; inside a transaction. */
es_status es_run_mirror(es_run *run, const es_run_table *table, es_error *err);

/* ---- run_stages.c, run_cells.c ---- */

es_status es_run_stages_load(es_run *run, es_error *err);
void es_run_stages_free(es_run *run);

/*! es_run_stage_at() : stage `id`, which stays where it is until the run is closed; ES_E_RANGE. */
es_status es_run_stage_at(const es_run *run, int64_t id, const es_run_stage **out, es_error *err);

/* Numbers as the file has them, and back. */
void es_run_encode(const double *values, size_t count, unsigned char *out);
void es_run_decode(const unsigned char *bytes, size_t count, double *out);

#endif
