/* run_sql.h : SQLite, as run files use it: strict settings, our errors. */
#ifndef ES_STORE_RUN_SQL_H
#define ES_STORE_RUN_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include <esscher/status.h>

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

#endif
