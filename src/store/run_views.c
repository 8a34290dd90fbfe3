/* run_views.c : final tables once more, for whoever reads a run file with plain SQL.
 *
 *     sqlite3 x.run 'SELECT n, mean_error FROM rows WHERE scale = 1'
 *
 * A table NAME of the run is the view "NAME", over a table "NAME:data" with a column for each
 * column of it: REAL, with NULL for NaN, or TEXT. They are written with the checked columns, in the
 * same transaction, and we never read them: what we believe has a checksum (run_tables.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/run_inside.h"

enum { WIDEST = 1900 }; /* columns: SQLite's own limit, less some */

/* Text of a statement under way. sqlite3_str grows by itself and remembers when it could not. */
static es_status run_text(const es_run *run, sqlite3_str *s, es_error *err)
{
    char *text = sqlite3_str_finish(s);
    if (!text)
        return es_fail_file(err, ES_E_MEMORY, run->path, -1, "run.memory", "",
                            "there is no memory for a statement");
    const es_status status = es_sql_exec(&run->sql, text, err);
    sqlite3_free(text);
    return status;
}

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
                                                 "there is no memory for a statement");
    sqlite3_free(text);
    return status;
}

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

es_status es_run_mirror(es_run *run, const es_run_table *t, es_error *err)
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
