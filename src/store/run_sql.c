/* SPDX-License-Identifier: Apache-2.0 */
/* run_sql.c : the few SQLite calls that run files need, with errors of this library. */
#include "store/run_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"

/* ---- failures ---- */

static const char resume_later[] =
    "check the disk and the space left on it, then resume: finished cells are kept";

/* Reading or writing failed below SQLite: the system's own words say most, where it kept them. */
static es_status fail_io(const es_sql *sql, es_error *err)
{
    int number = sql->db ? sqlite3_system_errno(sql->db) : 0;
    if (sql->db && !number)
        sqlite3_file_control(sql->db, "main", SQLITE_FCNTL_LAST_ERRNO, &number);
    if (number)
        return es_file_fail(err, sql->path, "run.io", resume_later, "read or write", number);
    return es_fail_file(err, ES_E_IO, sql->path, -1, "run.io", resume_later,
                        "cannot read or write: %s", sqlite3_errmsg(sql->db));
}

es_status es_sql_fail(const es_sql *sql, int code, es_error *err)
{
    const char *text = sql->db ? sqlite3_errmsg(sql->db) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return es_fail_file(err, ES_E_MEMORY, sql->path, -1, "run.memory",
                            "end other programs, or raise the limit on memory",
                            "the system refused memory to SQLite");
    case SQLITE_FULL:
        return es_fail_file(err, ES_E_IO, sql->path, -1, "run.full", resume_later,
                            "cannot write: the disk is full");
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return fail_io(sql, err);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return es_fail_file(err, ES_E_IO, sql->path, -1, "run.readonly",
                            code == SQLITE_READONLY_ROLLBACK
                                ? "its writer was killed: make file and folder writable, so that "
                                  "the last step can be undone"
                                : "make file and folder writable, or copy the run elsewhere",
                            "the file or its folder is write-protected: %s", text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return es_fail_file(err, ES_E_IO, sql->path, -1, "run.busy",
                            "wait until other programs have closed the file",
                            "another process has locked the file for more than %d s",
                            ES_SQL_BUSY_MS / 1000);
    case SQLITE_NOTADB:
        return es_fail_file(err, ES_E_FORMAT, sql->path, -1, "run.magic",
                            "name a file that --out has written", "this is not a run file");
    case SQLITE_TOOBIG:
        return es_fail_file(err, ES_E_LIMIT, sql->path, -1, "run.size", "", "too large: %s", text);
    default:
        return es_sql_corrupt(sql, "run.corrupt", err, "%s", text);
    }
}

es_status es_sql_corrupt(const es_sql *sql, const char *rule, es_error *err, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return es_fail_file(err, ES_E_FORMAT, sql->path, -1, rule,
                        "restore the file from a copy, or compute the run again",
                        "the run file is damaged: %s", text);
}

/* ---- connections ---- */

/* The last of these reads what tables there are; none writes. Nothing in its schema may call
 * functions with side effects; no memory map, which a file that shrinks would turn into a signal; a
 * batch stays in memory until it is committed, so that readers are not locked out in between. */
static const char settings[] = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
                               "PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;"
                               "PRAGMA cache_spill = OFF; PRAGMA synchronous = FULL;";

/* SQLite says that it has no memory when it cannot parse what should be the text of a table. That
 * text takes a few pages: where there is space for a thousand, it is the text. */
static bool memory_is_left(void)
{
    char *memory;
    es_error ignored;
    const bool left = ES_MEM_NEW(NULL, memory, 1 << 22, "", &ignored) == ES_OK;
    es_mem_free(NULL, memory);
    return left;
}

es_status es_sql_open(const char *file, const char *path, es_sql *out, es_error *err)
{
    *out = (es_sql){.path = path};
    if (!sqlite3_threadsafe())
        return es_fail(err, ES_E_UNSUPPORTED, "run.threads", "install SQLite as Debian builds it",
                       "this SQLite was built without threads");
    const int code = sqlite3_open_v2(
        file, &out->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_PRIVATECACHE,
        NULL);
    es_status status = code == SQLITE_OK ? ES_OK : es_sql_fail(out, code, err);
    if (status == ES_OK) {
        sqlite3_extended_result_codes(out->db, 1);
        sqlite3_busy_timeout(out->db, ES_SQL_BUSY_MS);
        sqlite3_db_config(out->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
        status = es_sql_exec(out, settings, err);
    }
    if (status == ES_E_MEMORY && out->db && memory_is_left())
        status = es_sql_corrupt(out, "run.corrupt", err, "its list of tables cannot be read");
    if (status != ES_OK)
        es_sql_close(out);
    return status;
}

void es_sql_close(es_sql *sql)
{
    sqlite3_close_v2(sql->db);
    sql->db = NULL;
}

/* ---- statements ---- */

es_status es_sql_exec(const es_sql *sql, const char *text, es_error *err)
{
    const int code = sqlite3_exec(sql->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? ES_OK : es_sql_fail(sql, code, err);
}

/* Prepares a statement and binds its arguments by a string of types: i integer, t text, b blob, r
 * real. */
static es_status prepare(const es_sql *sql, es_error *err, sqlite3_stmt **out, const char *text,
                         const char *types, va_list args)
{
    int code = sqlite3_prepare_v2(sql->db, text, -1, out, NULL);
    for (int i = 1; code == SQLITE_OK && *types; i++, types++) {
        if (*types == 'i') {
            code = sqlite3_bind_int64(*out, i, va_arg(args, int64_t));
        } else if (*types == 't') {
            code = sqlite3_bind_text(*out, i, va_arg(args, const char *), -1, SQLITE_STATIC);
        } else {
            const void *data = va_arg(args, const void *);
            code = sqlite3_bind_blob64(*out, i, data, va_arg(args, size_t), SQLITE_STATIC);
        }
    }
    if (code == SQLITE_OK)
        return ES_OK;
    const es_status status = es_sql_fail(sql, code, err);
    sqlite3_finalize(*out);
    *out = NULL;
    return status;
}

es_status es_sql_prepare(const es_sql *sql, es_error *err, sqlite3_stmt **out, const char *text,
                         const char *types, ...)
{
    va_list args;
    va_start(args, types);
    const es_status status = prepare(sql, err, out, text, types, args);
    va_end(args);
    return status;
}

es_status es_sql_step(const es_sql *sql, sqlite3_stmt *statement, bool *row, es_error *err)
{
    const int code = sqlite3_step(statement);
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? ES_OK : es_sql_fail(sql, code, err);
}

es_status es_sql_run(const es_sql *sql, es_error *err, const char *text, const char *types, ...)
{
    sqlite3_stmt *statement;
    va_list args;
    va_start(args, types);
    es_status status = prepare(sql, err, &statement, text, types, args);
    va_end(args);
    bool row = true;
    while (status == ES_OK && row)
        status = es_sql_step(sql, statement, &row, err);
    sqlite3_finalize(statement);
    return status;
}

es_status es_sql_number(const es_sql *sql, const char *text, int64_t *out, es_error *err)
{
    sqlite3_stmt *statement;
    bool row = false;
    ES_TRY(es_sql_prepare(sql, err, &statement, text, ""));
    const es_status status = es_sql_step(sql, statement, &row, err);
    *out = row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return status;
}

/* ---- values ---- */

es_status es_sql_text(const es_sql *sql, sqlite3_stmt *statement, int column, size_t longest,
                      char **out, es_error *err)
{
    *out = NULL;
    const bool is_text = sqlite3_column_type(statement, column) == SQLITE_TEXT;
    const unsigned char *text = is_text ? sqlite3_column_text(statement, column) : NULL;
    const size_t size = is_text ? (size_t)sqlite3_column_bytes(statement, column) : 0;
    if (!text || size > longest || memchr(text, 0, size))
        return es_sql_corrupt(sql, "run.corrupt", err, "a text is missing");
    ES_TRY(ES_MEM_BYTES(NULL, *out, size + 1, "a text of a run file", err));
    memcpy(*out, text, size);
    return ES_OK;
}

const unsigned char *es_sql_blob(sqlite3_stmt *statement, int column, size_t size)
{
    static const unsigned char none[1];
    if (sqlite3_column_type(statement, column) != SQLITE_BLOB)
        return NULL;
    const unsigned char *data = sqlite3_column_blob(statement, column);
    if ((size_t)sqlite3_column_bytes(statement, column) != size)
        return NULL;
    return size ? data : none;
}
