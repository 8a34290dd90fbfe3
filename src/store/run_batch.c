#include "store/run_inside.h"

#include <time.h>

#include "base/error.h"
#include "store/checksum.h"

/* A commit costs several syncs of the disk, some milliseconds each; a cell may be done in less. So
 * cells that follow a commit by less than a second are collected, and what a kill can take is at
 * most a second of finished work. A cell that took longer finds its commit due at once. */

enum { MUCH = 1 << 20 }; /* bytes that are not kept waiting: the cache should not grow */

void es_run_enter(const es_run *run) { sqlite3_mutex_enter(sqlite3_db_mutex(run->sql.db)); }
void es_run_leave(const es_run *run) { sqlite3_mutex_leave(sqlite3_db_mutex(run->sql.db)); }

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static es_status begin(es_run *run, es_error *err)
{
    if (run->pending)
        return ES_OK;
    ES_TRY(es_sql_exec(&run->sql, "BEGIN IMMEDIATE", err));
    run->pending = true;
    run->pending_bytes = 0;
    return ES_OK;
}

/* A reader may hold the file for longer than we like to wait. Unless the caller must know that all
 * is on disk, the transaction then stays open and the next cell tries again. */
static es_status commit(es_run *run, bool must, es_error *err)
{
    char now[32];
    es_run_now(now);
    const uint64_t checksum = es_crc_text(es_crc_text(run->identity, run->created), now);
    ES_TRY(es_sql_run(&run->sql, err, "UPDATE run SET updated = ?, checksum = ?", "ti", now,
                      (int64_t)checksum));
    const int code = sqlite3_exec(run->sql.db, "COMMIT", NULL, NULL, NULL);
    run->last_commit = seconds();
    if (code == SQLITE_OK) {
        run->pending = false;
        return ES_OK;
    }
    return (code & 0xff) == SQLITE_BUSY && !must ? ES_OK : es_sql_fail(&run->sql, code, err);
}

static es_status write_one(es_run *run, es_run_write_fn fn, const void *job, size_t bytes,
                           bool flush, es_error *err)
{
    ES_TRY(begin(run, err));
    if (fn)
        ES_TRY(fn(run, job, err));
    run->pending_bytes += bytes;
    const bool due =
        seconds() - run->last_commit >= ES_RUN_BATCH_SECONDS || run->pending_bytes >= MUCH;
    return flush || due ? commit(run, flush, err) : ES_OK;
}

es_status es_run_write(es_run *run, es_run_write_fn fn, const void *job, size_t bytes, bool flush,
                       es_error *err)
{
    if (!run->writable)
        return es_fail_file(err, ES_E_ARGUMENT, run->path, -1, "run.readonly",
                            "open it with es_run_resume()", "the run was opened for reading");
    es_run_enter(run);
    if (run->failed == ES_OK && (fn || run->pending)) {
        run->failed = write_one(run, fn, job, bytes, flush, &run->failure);
        if (run->failed != ES_OK) {
            sqlite3_exec(run->sql.db, "ROLLBACK", NULL, NULL, NULL); /* or SQLite did it already */
            run->pending = false;
        }
    }
    const es_status status = run->failed;
    if (status != ES_OK && err)
        *err = run->failure;
    es_run_leave(run);
    return status;
}

es_status es_run_flush(es_run *run, es_error *err)
{
    return es_run_write(run, NULL, NULL, 0, true, err);
}
