#include "store/run_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* The texts are kept in the file as they are here, and compared: a file whose tables are not
 * exactly these was not written by us. In order of their names. */
static const char *const schema[] = {
    "CREATE TABLE cell(stage INTEGER NOT NULL, idx INTEGER NOT NULL, checksum INTEGER NOT NULL, "
    "data BLOB NOT NULL, PRIMARY KEY(stage, idx)) WITHOUT ROWID",
    "CREATE TABLE fact(position INTEGER PRIMARY KEY, session INTEGER NOT NULL, key TEXT NOT NULL, "
    "text TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE parameter(position INTEGER PRIMARY KEY, key TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE TABLE result(name TEXT PRIMARY KEY, rows INTEGER NOT NULL, cols INTEGER NOT NULL, "
    "checksum INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE result_column(result TEXT NOT NULL, position INTEGER NOT NULL, "
    "name TEXT NOT NULL, kind INTEGER NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL, "
    "PRIMARY KEY(result, position)) WITHOUT ROWID",
    "CREATE TABLE run(id INTEGER PRIMARY KEY, command TEXT NOT NULL, created TEXT NOT NULL, "
    "updated TEXT NOT NULL, identity INTEGER NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE stage(id INTEGER PRIMARY KEY, name TEXT NOT NULL, rows INTEGER NOT NULL, "
    "cols INTEGER NOT NULL, columns BLOB NOT NULL, checksum INTEGER NOT NULL)"};
enum { TABLES = sizeof schema / sizeof schema[0] };

/* ---- writing ---- */

static es_status write_content(const es_sql *sql, const es_run_spec *spec, es_error *err)
{
    char kind[96];
    snprintf(kind, sizeof kind, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             ES_RUN_MAGIC, ES_RUN_SCHEMA);
    /* A draft that nobody else knows is thrown away if this fails: it needs no journal. */
    ES_TRY(es_sql_exec(sql, "PRAGMA journal_mode = MEMORY; PRAGMA encoding = 'UTF-8'", err));
    ES_TRY(es_sql_exec(sql, kind, err));
    ES_TRY(es_sql_exec(sql, "BEGIN", err));
    for (int i = 0; i < TABLES; i++)
        ES_TRY(es_sql_exec(sql, schema[i], err));
    ES_TRY(es_run_spec_write(sql, spec, err));
    ES_TRY(es_run_facts_write(sql, spec, es_run_spec_identity(spec), err));
    return es_sql_exec(sql, "COMMIT", err);
}

es_status es_run_file_write(const char *file, const char *path, const es_run_spec *spec,
                            es_error *err)
{
    es_sql sql;
    ES_TRY(es_sql_open(file, path, &sql, err));
    const es_status status = write_content(&sql, spec, err);
    es_sql_close(&sql);
    return status;
}

/* ---- checking ---- */

static es_status check_kind(const es_sql *sql, es_error *err)
{
    int64_t magic, version;
    ES_TRY(es_sql_number(sql, "PRAGMA application_id", &magic, err));
    ES_TRY(es_sql_number(sql, "PRAGMA user_version", &version, err));
    if (magic != ES_RUN_MAGIC)
        return es_fail_file(err, ES_E_FORMAT, sql->path, 68, "run.magic",
                            "name a file that --out has written",
                            "this is an SQLite database, but no run file");
    if (version > ES_RUN_SCHEMA)
        return es_fail_file(err, ES_E_UNSUPPORTED, sql->path, 60, "run.schema",
                            "use the version of Esscher that wrote it, or a newer one",
                            "the file has schema %lld; this version knows schemas up to %d",
                            (long long)version, ES_RUN_SCHEMA);
    if (version < 1)
        return es_sql_corrupt(sql, "run.corrupt", err, "schema %lld", (long long)version);
    return ES_OK;
}

/* Views for other readers and the tables under them (run_views.c), which we never read ourselves: a
 * plain table or a view, nothing that acts when the file is written to. */
static bool is_mirror(const char *type, const char *name, const char *text)
{
    static const char suffix[] = ":data", start[] = "CREATE TABLE \"";
    const size_t length = strlen(name), tail = sizeof suffix - 1;
    if (strcmp(type, "view") == 0)
        return true;
    return strcmp(type, "table") == 0 && length > tail &&
           strcmp(name + length - tail, suffix) == 0 && strncmp(text, start, sizeof start - 1) == 0;
}

static const char *text_of(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? text : "";
}

static es_status check_tables(const es_sql *sql, es_error *err)
{
    sqlite3_stmt *s;
    int64_t version;
    bool row, same = true;
    ES_TRY(es_sql_number(sql, "PRAGMA user_version", &version, err));
    ES_TRY(es_sql_prepare(sql, err, &s,
                          "SELECT sql, type, name FROM sqlite_master WHERE name NOT LIKE "
                          "'sqlite~_%' ESCAPE '~' ORDER BY name",
                          ""));
    int own = 0;
    es_status status = es_sql_step(sql, s, &row, err);
    while (status == ES_OK && row) {
        const char *text = text_of(s, 0);
        if (own < TABLES && strcmp(text, schema[own]) == 0)
            own++;
        else
            same = same && version > 1 && is_mirror(text_of(s, 1), text_of(s, 2), text);
        status = es_sql_step(sql, s, &row, err);
    }
    sqlite3_finalize(s);
    if (status == ES_OK && (!same || own != TABLES))
        return es_sql_corrupt(sql, "run.corrupt", err, "its tables are not those of a run");
    return status;
}

/* Every page and every row. quick_check would not see keys that are out of order, and has little
 * to gain where tables have no indices beside them. */
static es_status check_pages(const es_sql *sql, es_error *err)
{
    sqlite3_stmt *statement;
    bool row;
    ES_TRY(es_sql_prepare(sql, err, &statement, "PRAGMA integrity_check(1)", ""));
    es_status status = es_sql_step(sql, statement, &row, err);
    if (status == ES_OK) {
        const char *text = row ? (const char *)sqlite3_column_text(statement, 0) : NULL;
        if (!text || strcmp(text, "ok") != 0)
            status = es_sql_corrupt(sql, "run.corrupt", err, "%s", text ? text : "no answer");
    }
    sqlite3_finalize(statement);
    return status;
}

es_status es_run_file_check(const es_sql *sql, es_error *err)
{
    ES_TRY(check_kind(sql, err));
    ES_TRY(check_tables(sql, err));
    return check_pages(sql, err);
}
