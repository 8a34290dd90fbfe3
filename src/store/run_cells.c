/* SPDX-License-Identifier: Apache-2.0 */
/* run_cells.c : the transaction in which everything is written, and the cells, most of the data. */
#include "store/run_inside.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "store/checksum.h"
#include "store/run.h"

/* ---- batches ---- */

/* A commit costs several syncs of the disk, some milliseconds each; a cell may be done in less. So
 * cells that follow a commit by less than a second are collected, and what a kill can take is at
 * most a second of finished work. A cell that took longer finds its commit due at once. */

enum { MUCH = 1 << 20 }; /* bytes that are not kept waiting: the cache should not grow */

void es_run_enter(const es_run *run) { sqlite3_mutex_enter(sqlite3_db_mutex(run->sql.db)); }
void es_run_leave(const es_run *run) { sqlite3_mutex_leave(sqlite3_db_mutex(run->sql.db)); }

/* Begins a transaction if none is open, after checking that the lock is still ours. */
static es_status begin(es_run *run, es_error *err)
{
    if (run->pending)
        return ES_OK;
    ES_TRY(es_run_lock_check(&run->lock, run->path, err));
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
    ES_TRY(es_run_lock_check(&run->lock, run->path, err)); /* the batch may be old by now */
    es_run_now(now);
    const uint64_t checksum = es_crc_text(es_crc_text(run->identity, run->created), now);
    ES_TRY(es_sql_run(&run->sql, err, "UPDATE run SET updated = ?, checksum = ?", "ti", now,
                      (int64_t)checksum));
    const int code = sqlite3_exec(run->sql.db, "COMMIT", NULL, NULL, NULL);
    run->last_commit = es_seconds();
    if (code == SQLITE_OK) {
        run->pending = false;
        return ES_OK;
    }
    return (code & 0xff) == SQLITE_BUSY && !must ? ES_OK : es_sql_fail(&run->sql, code, err);
}

/* Writes inside a transaction and commits when enough bytes or seconds have passed: a commit
 * waits for the disk. */
static es_status write_one(es_run *run, es_run_write_fn fn, const void *job, size_t bytes,
                           bool flush, es_error *err)
{
    ES_TRY(begin(run, err));
    if (fn)
        ES_TRY(fn(run, job, err));
    run->pending_bytes += bytes;
    const bool due =
        es_seconds() - run->last_commit >= ES_RUN_BATCH_SECONDS || run->pending_bytes >= MUCH;
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

/* ---- cells ---- */

void es_run_encode(const double *values, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bits; /* never through a floating-point register: NaN keeps its payload */
        memcpy(&bits, &values[i], sizeof bits);
        es_encode_u64(bits, out + 8 * i);
    }
}

void es_run_decode(const unsigned char *bytes, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = es_decode_u64(bytes + 8 * i);
        memcpy(&out[i], &bits, sizeof bits);
    }
}

/* Returns how many numbers a cell holds. */
static size_t count_of(const es_run_stage *stage) { return (size_t)(stage->rows * stage->cols); }

/* ---- writing ---- */

/* Returns the checksum of a cell. It covers run, stage and index, so that a cell cannot be
 * mistaken for another. */
static uint64_t cell_checksum(const es_run *run, const es_run_stage *stage, int64_t index,
                              const void *data)
{
    const uint64_t crc = es_crc_i64(es_crc_text(run->identity, stage->name), index);
    return es_crc(crc, data, 8 * count_of(stage));
}

/* A cell that is written or read inside a transaction. */
typedef struct cell_job {
    int64_t stage, index;
    const es_run_stage *shape;
    const void *bytes;
} cell_job;

/* Inserts a cell. */
static es_status write_cell(es_run *run, const void *job, es_error *err)
{
    const cell_job *j = job;
    return es_sql_run(&run->sql, err, "INSERT OR REPLACE INTO cell VALUES(?, ?, ?, ?)", "iiib",
                      j->stage, j->index, (int64_t)cell_checksum(run, j->shape, j->index, j->bytes),
                      j->bytes, 8 * count_of(j->shape));
}

es_status es_run_put_cell(es_run *run, int64_t stage, int64_t index, const double *values,
                          es_error *err)
{
    cell_job job = {.stage = stage, .index = index};
    unsigned char *bytes;
    ES_TRY(es_run_stage_at(run, stage, &job.shape, err));
    const size_t count = count_of(job.shape);
    ES_TRY(ES_MEM_BYTES(NULL, bytes, 8 * count, "a cell", err));
    es_run_encode(values, count, bytes);
    job.bytes = bytes;
    const es_status status = es_run_write(run, write_cell, &job, 8 * count, false, err);
    es_mem_free(NULL, bytes);
    return status;
}

/* Deletes a cell. */
static es_status delete_cell(es_run *run, const void *job, es_error *err)
{
    const cell_job *j = job;
    return es_sql_run(&run->sql, err, "DELETE FROM cell WHERE stage = ? AND idx = ?", "ii",
                      j->stage, j->index);
}

es_status es_run_drop_cell(es_run *run, int64_t stage, int64_t index, es_error *err)
{
    cell_job job = {.stage = stage, .index = index};
    ES_TRY(es_run_stage_at(run, stage, &job.shape, err));
    return es_run_write(run, delete_cell, &job, 0, false, err);
}

/* ---- reading ---- */

/* The numbers of the current row (index, checksum, data), or NULL if they are damaged. A search in
 * a damaged tree may lead to another row: `index` is the one that was asked for. */
static const unsigned char *sound_cell(const es_run *run, const es_run_stage *stage, int64_t index,
                                       sqlite3_stmt *s)
{
    const unsigned char *data = es_sql_blob(s, 2, 8 * count_of(stage));
    const uint64_t checksum = (uint64_t)sqlite3_column_int64(s, 1);
    const bool sound = data && checksum == cell_checksum(run, stage, index, data);
    return sound ? data : NULL;
}

/* Fails because a stored cell does not match its checksum. */
static es_status fail_cell(const es_run *run, const es_run_stage *stage, int64_t index,
                           es_error *err)
{
    return es_sql_corrupt(&run->sql, "run.checksum", err, "cell %lld of stage %s is invalid",
                          (long long)index, stage->name);
}

/* Find cell `index` of stage `id`; out may be NULL. */
static es_status read_cell(es_run *run, int64_t id, const es_run_stage *stage, int64_t index,
                           bool *found, bool *sound, double *out, es_error *err)
{
    sqlite3_stmt *s;
    *found = *sound = false;
    es_run_enter(run);
    es_status status = es_sql_prepare(
        &run->sql, err, &s, "SELECT idx, checksum, data FROM cell WHERE stage = ? AND idx = ?",
        "ii", id, index);
    if (status == ES_OK)
        status = es_sql_step(&run->sql, s, found, err);
    if (status == ES_OK && *found) {
        const unsigned char *data = sound_cell(run, stage, index, s);
        *sound = data != NULL;
        if (data && out)
            es_run_decode(data, count_of(stage), out);
    }
    sqlite3_finalize(s);
    es_run_leave(run);
    return status;
}

es_status es_run_has_cell(es_run *run, int64_t stage, int64_t index, bool *out, es_error *err)
{
    const es_run_stage *shape;
    bool found;
    *out = false;
    ES_TRY(es_run_stage_at(run, stage, &shape, err));
    return read_cell(run, stage, shape, index, &found, out, NULL, err);
}

es_status es_run_get_cell(es_run *run, int64_t stage, int64_t index, double *out, es_error *err)
{
    const es_run_stage *shape;
    bool found, sound;
    ES_TRY(es_run_stage_at(run, stage, &shape, err));
    ES_TRY(read_cell(run, stage, shape, index, &found, &sound, out, err));
    if (!found)
        return es_fail_file(err, ES_E_EMPTY, run->path, -1, "run.cell", "resume the run",
                            "stage %s has no cell %lld", shape->name, (long long)index);
    return sound ? ES_OK : fail_cell(run, shape, index, err);
}

/* Every row of the statement, decoded into `values`. */
static es_status walk(es_run *run, const es_run_stage *stage, sqlite3_stmt *s, double *values,
                      es_run_cell_fn fn, void *user, es_error *err)
{
    bool row;
    int64_t before = INT64_MIN;
    ES_TRY(es_sql_step(&run->sql, s, &row, err));
    for (bool first = true; row; first = false) {
        const int64_t index = sqlite3_column_int64(s, 0);
        const unsigned char *data = sound_cell(run, stage, index, s);
        if (!data || (!first && index <= before))
            return fail_cell(run, stage, index, err);
        es_run_decode(data, count_of(stage), values);
        ES_TRY(fn(user, index, values, err));
        before = index;
        ES_TRY(es_sql_step(&run->sql, s, &row, err));
    }
    return ES_OK;
}

es_status es_run_each_cell(es_run *run, int64_t id, es_run_cell_fn fn, void *user, es_error *err)
{
    const es_run_stage *stage;
    sqlite3_stmt *s;
    double *values;
    ES_TRY(es_run_stage_at(run, id, &stage, err));
    ES_TRY(ES_MEM_NEW(NULL, values, (int64_t)count_of(stage), "a cell", err));
    es_run_enter(run);
    es_status status = es_sql_prepare(
        &run->sql, err, &s, "SELECT idx, checksum, data FROM cell WHERE stage = ? ORDER BY idx",
        "i", id);
    if (status == ES_OK)
        status = walk(run, stage, s, values, fn, user, err);
    sqlite3_finalize(s);
    es_run_leave(run);
    es_mem_free(NULL, values);
    return status;
}
