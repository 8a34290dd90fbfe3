/* SPDX-License-Identifier: Apache-2.0 */
/* run_file.c : the database of a run, made and checked; the lock beside it. */
#include "store/run_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"

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

/* Writes schema, parameters and facts of a new run. */
static es_status write_content(const es_sql *sql, const es_run_spec *spec, es_error *err)
{
    char kind[96];
    snprintf(kind, sizeof kind, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             ES_RUN_MAGIC, ES_RUN_SCHEMA);
    /* A draft is thrown away if this fails: it needs no journal. */
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

/* Checks that the database is a run of a known schema. */
static es_status check_kind(const es_sql *sql, es_error *err)
{
    int64_t magic, version;
    ES_TRY(es_sql_number(sql, "PRAGMA application_id", &magic, err));
    ES_TRY(es_sql_number(sql, "PRAGMA user_version", &version, err));
    if (magic != ES_RUN_MAGIC)
        return es_fail_file(err, ES_E_FORMAT, sql->path, 68, "run.magic",
                            "name a file that --out has written",
                            "this is an SQLite database, but not a run file");
    if (version > ES_RUN_SCHEMA)
        return es_fail_file(err, ES_E_UNSUPPORTED, sql->path, 60, "run.schema",
                            "use the version of Esscher that wrote it, or a newer one",
                            "the file has schema %lld; this version knows schemas up to %d",
                            (long long)version, ES_RUN_SCHEMA);
    if (version < 1)
        return es_sql_corrupt(sql, "run.corrupt", err, "schema %lld", (long long)version);
    return ES_OK;
}

/* Views for other readers and the tables under them (run_tables.c), which we never read ourselves:
 * a plain table or a view, nothing that acts when the file is written to. */
static bool is_mirror(const char *type, const char *name, const char *text)
{
    static const char suffix[] = ":data", start[] = "CREATE TABLE \"";
    const size_t length = strlen(name), tail = sizeof suffix - 1;
    if (strcmp(type, "view") == 0)
        return true;
    return strcmp(type, "table") == 0 && length > tail &&
           strcmp(name + length - tail, suffix) == 0 && strncmp(text, start, sizeof start - 1) == 0;
}

/* Returns a text column, "" for NULL. */
static const char *text_of(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? text : "";
}

/* Compares the tables of the file with the schema of its version. */
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

/* ---- one writer at a time ---- */

/* Returns whether the name still leads to the open file. */
static bool has_name(int fd, const char *path)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && lstat(path, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

/* A disk that is too full for the name is no reason to fail: an empty lock file names no owner. */
static void sign(es_run_lock *lock)
{
    char host[128] = "";
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    gethostname(host, sizeof host - 1);
    snprintf(lock->name, sizeof lock->name, "process %ld on %s, %llx", (long)getpid(), host,
             (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec);
    const ssize_t length = (ssize_t)strlen(lock->name);
    const bool whole =
        ftruncate(lock->fd, 0) == 0 && pwrite(lock->fd, lock->name, (size_t)length, 0) == length;
    if (!whole && ftruncate(lock->fd, 0) != 0)
        return;
}

/* The name in an open lock file. */
static void read_name(int fd, char out[ES_LOCK_NAME])
{
    const ssize_t got = pread(fd, out, ES_LOCK_NAME - 1, 0);
    out[got > 0 ? got : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* "process 7 on host", without the number; "another process" where there is none. */
static const char *holder_of(char name[ES_LOCK_NAME])
{
    name[strcspn(name, ",")] = '\0';
    return *name ? name : "another process";
}

/* Fails because another process writes the run, and names it. */
static es_status fail_locked(int fd, const char *path, es_error *err)
{
    char name[ES_LOCK_NAME];
    read_name(fd, name);
    return es_fail_file(err, ES_E_IO, path, -1, "run.locked",
                        "wait for it or stop it; locks of killed processes are ignored",
                        "%s is writing this run", holder_of(name));
}

/* A holder removes the lock file before it releases it. A process that waited may therefore hold
 * the lock of a removed file, and tries again. */
static es_status take(es_run_lock *lock, const char *path, es_error *err)
{
    for (;;) {
        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (lock->fd < 0)
            return es_file_fail(err, path, "file.create",
                                "check that the folder exists and is writable", "create its lock",
                                errno);
        if (flock(lock->fd, LOCK_EX | LOCK_NB) != 0) {
            const int number = errno;
            const es_status status =
                number == EWOULDBLOCK
                    ? fail_locked(lock->fd, path, err)
                    : es_file_fail(err, path, "run.lock", "use a file system with file locks",
                                   "lock", number);
            close(lock->fd);
            lock->fd = -1;
            return status;
        }
        if (has_name(lock->fd, lock->path))
            break;
        close(lock->fd);
    }
    sign(lock);
    return ES_OK;
}

/* The journal is one that network file systems can keep, and one writer is all we allow; but
 * whether a process on another machine sees our lock is up to theirs. */
static void warn_of_network(int fd, const char *path)
{
    const char *network = es_network_of(fd);
    if (network)
        es_log(ES_LOG_WARN,
               "%s is on a network file system (%s): let one machine at a time write it, or use a "
               "local disk and copy it when it is finished",
               path, network);
}

es_status es_run_lock_take(const char *file, const char *path, es_run_lock *out, es_error *err)
{
    static const char suffix[] = ".lock";
    *out = (es_run_lock){.fd = -1};
    ES_TRY(ES_MEM_BYTES(NULL, out->path, strlen(file) + sizeof suffix, "a file name", err));
    memcpy(out->path, file, strlen(file));
    memcpy(out->path + strlen(file), suffix, sizeof suffix);
    const es_status status = take(out, path, err);
    if (status == ES_OK)
        warn_of_network(out->fd, path);
    else
        es_run_lock_drop(out);
    return status;
}

es_status es_run_lock_check(es_run_lock *lock, const char *path, es_error *err)
{
    char name[ES_LOCK_NAME];
    if (lock->fd < 0) /* a draft, which other processes do not know, has no lock */
        return ES_OK;
    const int fd = open(lock->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        close(lock->fd);
        return take(lock, path, err);
    }
    if (fd < 0)
        return ES_OK; /* nothing is known, and the operating system's lock is ours */
    read_name(fd, name);
    close(fd);
    if (*name == '\0' || strcmp(name, lock->name) == 0)
        return ES_OK;
    return es_fail_file(err, ES_E_IO, path, -1, "run.stolen",
                        "let one process at a time write it; resume when the other has ended",
                        "%s is writing this run, too: file locks do not work here",
                        holder_of(name));
}

void es_run_lock_drop(es_run_lock *lock)
{
    es_error ignored;
    if (lock->fd >= 0 && has_name(lock->fd, lock->path) &&
        es_run_lock_check(lock, "", &ignored) == ES_OK)
        unlink(lock->path);
    if (lock->fd >= 0)
        close(lock->fd);
    es_mem_free(NULL, lock->path);
    *lock = (es_run_lock){.fd = -1};
}
