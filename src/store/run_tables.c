/* SPDX-License-Identifier: Apache-2.0 */
/* run_tables.c : final tables. */
#include "store/run_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"
#include "store/checksum.h"
#include "store/run.h"

/* ---- the same tables for plain SQL ---- */

/*     sqlite3 x.run 'SELECT n, mean_error FROM rows WHERE scale = 1'
 *
 * A table NAME of the run is the view "NAME", over a table "NAME:data" with a column for each
 * column of it: REAL, with NULL for NaN, or TEXT. They are written with the checked columns, in the
 * same transaction, and we never read them: what we believe has a checksum. */

enum { WIDEST = 1900 }; /* columns: SQLite's own limit, less some */

/* Text of a statement under way. sqlite3_str grows by itself and remembers when it could not. */
static es_status run_text(const es_run *run, sqlite3_str *s, es_error *err)
{
    char *text = sqlite3_str_finish(s);
    if (!text)
        return es_fail_file(err, ES_E_MEMORY, run->path, -1, "run.memory", "",
                            "out of memory for a statement");
    const es_status status = es_sql_exec(&run->sql, text, err);
    sqlite3_free(text);
    return status;
}

/* Creates the SQL table of a result, for readers that know SQL only; the data with checksums are
 * stored beside it. */
static es_status make_table(es_run *run, const es_run_table *t, es_error *err)
{
    sqlite3_str *s = sqlite3_str_new(NULL);
    sqlite3_str_appendf(s,
                        "DROP VIEW IF EXISTS \"%w\"; DROP TABLE IF EXISTS \"%w:data\";"
                        "CREATE TABLE \"%w:data\"(",
                        t->name, t->name, t->name);
    for (int64_t j = 0; j < t->cols; j++)
        sqlite3_str_appendf(s, "%s\"%w\" %s", j ? ", " : "", t->columns[j].name,
                            t->columns[j].kind == ES_RUN_REAL ? "REAL" : "TEXT");
    sqlite3_str_appendf(s, "); CREATE VIEW \"%w\" AS SELECT * FROM \"%w:data\"", t->name, t->name);
    return run_text(run, s, err);
}

/* Prepares the insertion of a row. */
static es_status prepare_insert(es_run *run, const es_run_table *t, sqlite3_stmt **out,
                                es_error *err)
{
    sqlite3_str *s = sqlite3_str_new(NULL);
    sqlite3_str_appendf(s, "INSERT INTO \"%w:data\" VALUES(", t->name);
    for (int64_t j = 0; j < t->cols; j++)
        sqlite3_str_appendall(s, j ? ", ?" : "?");
    sqlite3_str_appendall(s, ")");
    char *text = sqlite3_str_finish(s);
    const es_status status = text ? es_sql_prepare(&run->sql, err, out, text, "")
                                  : es_fail_file(err, ES_E_MEMORY, run->path, -1, "run.memory", "",
                                                 "out of memory for a statement");
    sqlite3_free(text);
    return status;
}

/* Binds one row; NaN and missing texts become NULL. */
static int bind_row(sqlite3_stmt *s, const es_run_table *t, int64_t row)
{
    int code = sqlite3_reset(s);
    for (int64_t j = 0; code == SQLITE_OK && j < t->cols; j++) {
        const es_run_column *c = &t->columns[j];
        const int at = (int)j + 1;
        if (c->kind == ES_RUN_TEXT)
            code = sqlite3_bind_text(s, at, c->texts[row], -1, SQLITE_STATIC);
        else if (isnan(c->reals[row]))
            code = sqlite3_bind_null(s, at);
        else
            code = sqlite3_bind_double(s, at, c->reals[row]);
    }
    return code;
}

/* A name that one of our own tables has cannot be a view's. */
static bool is_own(const char *name)
{
    static const char *const own[] = {"cell",          "fact", "parameter", "result",
                                      "result_column", "run",  "stage"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (sqlite3_stricmp(own[i], name) == 0)
            return true;
    return sqlite3_strnicmp(name, "sqlite_", 7) == 0;
}

/* SQL takes two columns for one whose names differ in case alone. */
static bool has_twins(const es_run_table *t)
{
    for (int64_t j = 0; j < t->cols; j++)
        for (int64_t k = 0; k < j; k++)
            if (sqlite3_stricmp(t->columns[j].name, t->columns[k].name) == 0)
                return true;
    return false;
}

/* Makes a view of the table with real columns, for plain SQL; inside a transaction. */
static es_status mirror(es_run *run, const es_run_table *t, es_error *err)
{
    sqlite3_stmt *insert = NULL;
    bool more;
    char version[64];
    if (t->cols > WIDEST || is_own(t->name) || has_twins(t))
        return ES_OK; /* such a table is read through the library alone */
    snprintf(version, sizeof version, "PRAGMA user_version = %d", ES_RUN_SCHEMA);
    ES_TRY(es_sql_exec(&run->sql, version, err)); /* a file of an earlier version is now of this */
    ES_TRY(make_table(run, t, err));
    es_status status = prepare_insert(run, t, &insert, err);
    for (int64_t i = 0; status == ES_OK && i < t->rows; i++) {
        const int code = bind_row(insert, t, i);
        status = code == SQLITE_OK ? es_sql_step(&run->sql, insert, &more, err)
                                   : es_sql_fail(&run->sql, code, err);
    }
    sqlite3_finalize(insert);
    return status;
}

/* ---- writing ---- */

/* Returns true if a column has a name, a known kind and its data. */
static bool column_complete(const es_run_column *c, int64_t rows)
{
    if (!es_run_name_ok(c->name) || (c->kind != ES_RUN_REAL && c->kind != ES_RUN_TEXT))
        return false;
    if (rows > 0 && !(c->kind == ES_RUN_REAL ? (const void *)c->reals : (const void *)c->texts))
        return false;
    for (int64_t i = 0; c->kind == ES_RUN_TEXT && i < rows; i++)
        if (!c->texts[i])
            return false;
    return true;
}

/* Bytes that the column takes in the file; false if they are more than we allow. */
static bool column_size(const es_run_column *c, int64_t rows, size_t *out)
{
    *out = 0;
    if (c->kind == ES_RUN_REAL)
        return es_size_of_array(rows, 1, 1, 8, out) && *out <= ES_RUN_BLOCK;
    for (int64_t i = 0; i < rows && *out <= ES_RUN_BLOCK; i++)
        *out += strlen(c->texts[i]) + 1;
    return *out <= ES_RUN_BLOCK;
}

/* Checks a table before it is written: names differ, every column is complete. */
static es_status check_table(const es_run_table *t, es_error *err)
{
    bool good = t && es_run_name_ok(t->name) && t->rows >= 0 && t->cols >= 1 && t->columns &&
                t->cols <= ES_RUN_COLUMNS;
    for (int64_t j = 0; good && j < t->cols; j++) {
        good = column_complete(&t->columns[j], t->rows);
        for (int64_t k = 0; good && k < j; k++) /* names will be keys of objects */
            good = strcmp(t->columns[j].name, t->columns[k].name) != 0;
    }
    if (!good)
        return es_fail(err, ES_E_ARGUMENT, "run.table",
                       "names differ and have 1 to 255 bytes; every column needs its data",
                       "the table %s is not complete", t && t->name ? t->name : "");
    for (int64_t j = 0; j < t->cols; j++) {
        size_t size;
        if (!column_size(&t->columns[j], t->rows, &size))
            return es_fail(err, ES_E_LIMIT, "run.table", "cut the table",
                           "column %s is more than 256 MiB", t->columns[j].name);
    }
    return ES_OK;
}

/* Writes a column as bytes: little-endian doubles, or texts with their NUL. */
static void encode_column(const es_run_column *c, int64_t rows, unsigned char *out)
{
    if (c->kind == ES_RUN_REAL) {
        es_run_encode(c->reals, (size_t)rows, out);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        const size_t size = strlen(c->texts[i]) + 1;
        memcpy(out, c->texts[i], size);
        out += size;
    }
}

/* Returns the checksum of the head of a table. */
static uint64_t table_checksum(const es_run *run, const char *name, int64_t rows, int64_t cols)
{
    return es_crc_i64(es_crc_i64(es_crc_text(run->identity, name), rows), cols);
}

/* Returns the checksum of a column, which covers its place, name and kind. */
static uint64_t column_checksum(uint64_t of_table, int64_t position, const es_run_column *c,
                                const void *data, size_t size)
{
    const uint64_t crc = es_crc_i64(es_crc_text(es_crc_i64(of_table, position), c->name), c->kind);
    return es_crc(crc, data, size);
}

/* Inserts the bytes of a column with their checksum. */
static es_status write_column(es_run *run, const es_run_table *t, int64_t position, es_error *err)
{
    const es_run_column *c = &t->columns[position];
    unsigned char *data;
    size_t size;
    column_size(c, t->rows, &size);
    ES_TRY(ES_MEM_BYTES(NULL, data, size, "a column", err));
    encode_column(c, t->rows, data);
    const uint64_t checksum =
        column_checksum(table_checksum(run, t->name, t->rows, t->cols), position, c, data, size);
    const es_status status =
        es_sql_run(&run->sql, err, "INSERT INTO result_column VALUES(?, ?, ?, ?, ?, ?)", "titiib",
                   t->name, position, c->name, (int64_t)c->kind, (int64_t)checksum, data, size);
    es_mem_free(NULL, data);
    return status;
}

/* Writes a whole table: head, columns and the SQL view. */
static es_status write_table(es_run *run, const void *job, es_error *err)
{
    const es_run_table *t = job;
    const int64_t checksum = (int64_t)table_checksum(run, t->name, t->rows, t->cols);
    ES_TRY(es_sql_run(&run->sql, err, "DELETE FROM result_column WHERE result = ?", "t", t->name));
    ES_TRY(es_sql_run(&run->sql, err, "INSERT OR REPLACE INTO result VALUES(?, ?, ?, ?)", "tiii",
                      t->name, t->rows, t->cols, checksum));
    for (int64_t j = 0; j < t->cols; j++)
        ES_TRY(write_column(run, t, j, err));
    return mirror(run, t, err);
}

es_status es_run_put_table(es_run *run, const es_run_table *table, es_error *err)
{
    ES_TRY(check_table(table, err));
    return es_run_write(run, write_table, table, 0, true, err);
}

/* ---- which there are ---- */

es_status es_run_tables_count(es_run *run, int64_t *out, es_error *err)
{
    *out = 0;
    es_run_enter(run);
    const es_status status = es_sql_number(&run->sql, "SELECT count(*) FROM result", out, err);
    es_run_leave(run);
    return status;
}

es_status es_run_table_name(es_run *run, int64_t at, char out[256], es_error *err)
{
    sqlite3_stmt *s;
    bool row = false;
    char *name = NULL;
    out[0] = '\0';
    es_run_enter(run);
    es_status status = es_sql_prepare(
        &run->sql, err, &s, "SELECT name FROM result ORDER BY name LIMIT 1 OFFSET ?", "i", at);
    if (status == ES_OK && at >= 0)
        status = es_sql_step(&run->sql, s, &row, err);
    if (status == ES_OK)
        status = row ? es_sql_text(&run->sql, s, 0, ES_RUN_NAME, &name, err)
                     : es_fail_file(err, ES_E_RANGE, run->path, -1, "run.table", "count from 0",
                                    "there is no table %lld", (long long)at);
    sqlite3_finalize(s);
    es_run_leave(run);
    if (name)
        memcpy(out, name, strlen(name) + 1);
    es_mem_free(NULL, name);
    return status;
}

/* ---- reading ---- */

const es_run_column *es_run_column_of(const es_run_table *table, const char *name)
{
    for (int64_t j = 0; j < table->cols; j++)
        if (strcmp(table->columns[j].name, name) == 0)
            return &table->columns[j];
    return NULL;
}

void es_run_table_free(es_run_table *table)
{
    for (int64_t j = 0; table->columns && j < table->cols; j++) {
        es_mem_free(NULL, (void *)(uintptr_t)table->columns[j].name);
        es_mem_free(table->budget, (void *)(uintptr_t)table->columns[j].reals);
        es_mem_free(table->budget, (void *)(uintptr_t)table->columns[j].texts);
    }
    es_mem_free(NULL, (void *)(uintptr_t)table->columns);
    es_mem_free(NULL, (void *)(uintptr_t)table->name);
    *table = (es_run_table){0};
}

/* Reads a column of doubles; the size must be exact. */
static es_status decode_reals(const unsigned char *data, size_t size, int64_t rows,
                              es_mem_limit *budget, es_run_column *c, es_error *err)
{
    double *reals;
    size_t expected;
    if (!es_size_of_array(rows, 1, 1, 8, &expected) || expected != size)
        return ES_E_FORMAT;
    ES_TRY(ES_MEM_NEW(budget, reals, rows, "a column", err));
    es_run_decode(data, (size_t)rows, reals);
    c->reals = reals;
    return ES_OK;
}

/* Pointers and the strings they lead to, in one piece of memory. */
static es_status decode_texts(const unsigned char *data, size_t size, int64_t rows,
                              es_mem_limit *budget, es_run_column *c, es_error *err)
{
    const char **texts;
    size_t ends = 0;
    for (size_t i = 0; i < size; i++)
        ends += data[i] == '\0';
    if (rows < 0 || ends != (size_t)rows || (size && data[size - 1] != '\0'))
        return ES_E_FORMAT;
    ES_TRY(ES_MEM_BYTES(budget, texts, ends * sizeof(char *) + size, "a column", err));
    char *text = (char *)(texts + rows);
    memcpy(text, data, size);
    for (int64_t i = 0; i < rows; i++) {
        texts[i] = text;
        text += strlen(text) + 1;
    }
    c->texts = texts;
    return ES_OK;
}

/* Fails because a stored table does not match its checksum. */
static es_status fail_table(const es_run *run, const char *name, es_error *err)
{
    return es_sql_corrupt(&run->sql, "run.checksum", err, "table %s is invalid", name);
}

/* The checksum is looked at before anything is allocated by what it covers. */
static es_status read_column(es_run *run, sqlite3_stmt *s, int64_t at, es_run_table *t,
                             es_run_column *c, es_error *err)
{
    char *name;
    ES_TRY(es_sql_text(&run->sql, s, 1, ES_RUN_NAME, &name, err));
    c->name = name;
    const int64_t kind = sqlite3_column_int64(s, 2);
    const size_t size = (size_t)sqlite3_column_bytes(s, 4);
    const unsigned char *data = es_sql_blob(s, 4, size);
    if (sqlite3_column_int64(s, 0) != at || (kind != ES_RUN_REAL && kind != ES_RUN_TEXT) || !data)
        return fail_table(run, t->name, err);
    c->kind = (es_run_kind)kind;
    const uint64_t of_table = table_checksum(run, t->name, t->rows, t->cols);
    if (column_checksum(of_table, at, c, data, size) != (uint64_t)sqlite3_column_int64(s, 3))
        return fail_table(run, t->name, err);
    const es_status status =
        (kind == ES_RUN_REAL ? decode_reals : decode_texts)(data, size, t->rows, t->budget, c, err);
    return status == ES_E_FORMAT ? fail_table(run, t->name, err) : status;
}

/* Reads all columns of a table in order. */
static es_status read_columns(es_run *run, es_run_table *t, es_error *err)
{
    sqlite3_stmt *s;
    bool row;
    es_run_column *columns;
    ES_TRY(ES_MEM_NEW(NULL, columns, t->cols, "columns", err));
    t->columns = columns;
    ES_TRY(es_sql_prepare(&run->sql, err, &s,
                          "SELECT position, name, kind, checksum, data FROM result_column "
                          "WHERE result = ? ORDER BY position",
                          "t", t->name));
    int64_t j = 0;
    es_status status = es_sql_step(&run->sql, s, &row, err);
    for (; status == ES_OK && row; j++) {
        status = j < t->cols ? read_column(run, s, j, t, &columns[j], err)
                             : fail_table(run, t->name, err);
        if (status == ES_OK)
            status = es_sql_step(&run->sql, s, &row, err);
    }
    sqlite3_finalize(s);
    return status == ES_OK && j != t->cols ? fail_table(run, t->name, err) : status;
}

/* Reads name, shape and checksum of a table. */
static es_status read_head(es_run *run, const char *name, es_run_table *t, es_error *err)
{
    sqlite3_stmt *s;
    bool row;
    ES_TRY(es_sql_prepare(&run->sql, err, &s,
                          "SELECT name, rows, cols, checksum FROM result WHERE name = ?", "t",
                          name));
    char *text = NULL;
    es_status status = es_sql_step(&run->sql, s, &row, err);
    if (status == ES_OK && !row)
        status = es_fail_file(err, ES_E_EMPTY, run->path, -1, "run.table",
                              "tables are written when a run is complete",
                              "the run has no table %s", name);
    if (status == ES_OK)
        status = es_sql_text(&run->sql, s, 0, ES_RUN_NAME, &text, err);
    if (status == ES_OK) {
        const int64_t rows = sqlite3_column_int64(s, 1), cols = sqlite3_column_int64(s, 2);
        t->name = text;
        t->rows = rows;
        if (table_checksum(run, text, rows, cols) != (uint64_t)sqlite3_column_int64(s, 3) ||
            cols < 1 || cols > ES_RUN_COLUMNS)
            status = fail_table(run, text, err);
        else
            t->cols = cols;
    }
    sqlite3_finalize(s);
    return status;
}

es_status es_run_get_table(es_run *run, const char *name, es_mem_limit *budget, es_run_table *out,
                           es_error *err)
{
    *out = (es_run_table){.budget = budget};
    if (!es_run_name_ok(name))
        return es_fail(err, ES_E_ARGUMENT, "run.table", "", "no name of a table");
    es_run_enter(run);
    es_status status = read_head(run, name, out, err);
    if (status == ES_OK)
        status = read_columns(run, out, err);
    es_run_leave(run);
    if (status != ES_OK)
        es_run_table_free(out);
    return status;
}
