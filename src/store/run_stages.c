/* SPDX-License-Identifier: Apache-2.0 */
/* run_stages.c : the stages of a run: names, shapes and columns of its cells. */
#include "store/run_inside.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"
#include "store/checksum.h"
#include "store/run.h"

/* Checks that a cell has numbers and is not too large for one row of the database. */
static es_status check_shape(int64_t rows, int64_t cols, es_error *err)
{
    size_t bytes;
    if (rows < 1 || cols < 1)
        return es_fail(err, ES_E_SHAPE, "run.stage", "", "cells of %lld x %lld numbers",
                       (long long)rows, (long long)cols);
    if (cols > ES_RUN_COLUMNS || !es_size_of_array(rows, cols, 1, 8, &bytes) ||
        bytes > ES_RUN_BLOCK)
        return es_fail(err, ES_E_LIMIT, "run.stage", "cut the work into smaller cells",
                       "cells of %lld x %lld numbers are more than 256 MiB", (long long)rows,
                       (long long)cols);
    return ES_OK;
}

/* A stage in one piece of memory: the struct, pointers to the names, the bytes of the names
 * (cols + 1 strings: its own name first). */
static es_status new_stage(const char *names, size_t size, int64_t rows, int64_t cols,
                           es_run_stage **out, es_error *err)
{
    const size_t pointers = (size_t)cols * sizeof(char *);
    es_run_stage *stage;
    ES_TRY(ES_MEM_BYTES(NULL, stage, sizeof **out + pointers + size, "a stage", err));
    const char **columns = (const char **)(void *)(stage + 1);
    char *text = (char *)(columns + cols);
    memcpy(text, names, size);
    *stage = (es_run_stage){
        .name = text, .rows = rows, .cols = cols, .columns = columns, .scratch = text[0] == '_'};
    for (int64_t i = 0; i < cols; i++) {
        text += strlen(text) + 1;
        columns[i] = text;
    }
    *out = stage;
    return ES_OK;
}

/* Appends a stage to the list of the run. */
static es_status keep_stage(es_run *run, es_run_stage *stage, es_error *err)
{
    ES_TRY(ES_MEM_GROW(NULL, run->stages, &run->stages_capacity, run->stages_count + 1, "stages",
                       err));
    run->stages[run->stages_count++] = stage;
    return ES_OK;
}

/* Returns the checksum of a stage: its names and shape. */
static uint64_t stage_checksum(const es_run *run, int64_t id, const void *names, size_t size,
                               int64_t rows, int64_t cols)
{
    uint64_t crc = es_crc_i64(es_crc_i64(es_crc_i64(run->identity, id), rows), cols);
    return es_crc(crc, names, size);
}

/* Returns true if the bytes are exactly `count` strings, each with its NUL. */
static bool holds_strings(const unsigned char *bytes, size_t size, int64_t count)
{
    int64_t ends = 0;
    for (size_t i = 0; i < size; i++)
        ends += bytes[i] == '\0';
    return size > 0 && bytes[size - 1] == '\0' && ends == count;
}

/* Stages are numbered without gaps. */
static es_status load_stage(es_run *run, sqlite3_stmt *s, es_error *err)
{
    const int64_t id = sqlite3_column_int64(s, 0);
    const int64_t rows = sqlite3_column_int64(s, 1), cols = sqlite3_column_int64(s, 2);
    const size_t size = (size_t)sqlite3_column_bytes(s, 3);
    const unsigned char *names = es_sql_blob(s, 3, size);
    es_run_stage *stage;
    if (id != run->stages_count || !names || check_shape(rows, cols, NULL) != ES_OK ||
        !holds_strings(names, size, cols + 1) ||
        stage_checksum(run, id, names, size, rows, cols) != (uint64_t)sqlite3_column_int64(s, 4))
        return es_sql_corrupt(&run->sql, "run.checksum", err, "stage %lld is invalid",
                              (long long)id);
    ES_TRY(new_stage((const char *)names, size, rows, cols, &stage, err));
    const es_status status = keep_stage(run, stage, err);
    if (status != ES_OK)
        es_mem_free(NULL, stage);
    return status;
}

es_status es_run_stages_load(es_run *run, es_error *err)
{
    sqlite3_stmt *s;
    bool row;
    ES_TRY(es_sql_prepare(&run->sql, err, &s,
                          "SELECT id, rows, cols, columns, checksum FROM stage ORDER BY id", ""));
    es_status status = es_sql_step(&run->sql, s, &row, err);
    while (status == ES_OK && row) {
        status = load_stage(run, s, err);
        if (status == ES_OK)
            status = es_sql_step(&run->sql, s, &row, err);
    }
    sqlite3_finalize(s);
    return status;
}

void es_run_stages_free(es_run *run)
{
    for (int64_t i = 0; i < run->stages_count; i++)
        es_mem_free(NULL, run->stages[i]);
    es_mem_free(NULL, run->stages);
}

/* Returns the number of a stage; -1 if the run does not have it. */
static int64_t find_stage(const es_run *run, const char *name)
{
    for (int64_t i = 0; i < run->stages_count; i++)
        if (strcmp(run->stages[i]->name, name) == 0)
            return i;
    return -1;
}

/* Returns true if a stored stage has this shape and these columns. */
static bool same_stage(const es_run_stage *stage, int64_t rows, int64_t cols,
                       const char *const *columns)
{
    bool same = stage->rows == rows && stage->cols == cols;
    for (int64_t i = 0; same && i < cols; i++)
        same = strcmp(stage->columns[i], columns[i]) == 0;
    return same;
}

/* Its name and those of its columns, one after the other, each with its end. */
static es_status join_names(const char *name, int64_t cols, const char *const *columns, char **out,
                            size_t *size, es_error *err)
{
    *size = es_run_name_ok(name) ? strlen(name) + 1 : 0;
    bool good = *size && columns;
    for (int64_t i = 0; good && i < cols; i++) {
        good = es_run_name_ok(columns[i]);
        *size += good ? strlen(columns[i]) + 1 : 0;
    }
    if (!good)
        return es_fail(err, ES_E_ARGUMENT, "run.stage", "names have 1 to 255 bytes",
                       "a stage or a column of it has no name, or one too long");
    ES_TRY(ES_MEM_BYTES(NULL, *out, *size, "names", err));
    char *to = *out;
    memcpy(to, name, strlen(name));
    to += strlen(name) + 1;
    for (int64_t i = 0; i < cols; i++) {
        memcpy(to, columns[i], strlen(columns[i]));
        to += strlen(columns[i]) + 1;
    }
    return ES_OK;
}

/* A stage that is written or read inside a transaction. */
typedef struct stage_job {
    const void *names;
    size_t size;
    es_run_stage *stage;
} stage_job;

/* Inserts a stage. */
static es_status write_stage(es_run *run, const void *job, es_error *err)
{
    const stage_job *j = job;
    const int64_t id = run->stages_count, rows = j->stage->rows, cols = j->stage->cols;
    ES_TRY(es_sql_run(&run->sql, err, "INSERT INTO stage VALUES(?, ?, ?, ?, ?, ?)", "itiibi", id,
                      j->stage->name, rows, cols, j->names, j->size,
                      (int64_t)stage_checksum(run, id, j->names, j->size, rows, cols)));
    return keep_stage(run, j->stage, err);
}

/* Adds a stage to the file and to the list. */
static es_status add_stage(es_run *run, const char *name, int64_t rows, int64_t cols,
                           const char *const *columns, es_error *err)
{
    char *names;
    stage_job job = {0};
    ES_TRY(join_names(name, cols, columns, &names, &job.size, err));
    job.names = names;
    const int64_t before = run->stages_count;
    es_status status = new_stage(names, job.size, rows, cols, &job.stage, err);
    if (status == ES_OK)
        status = es_run_write(run, write_stage, &job, job.size, true, err);
    if (status != ES_OK) { /* written, but not committed: its number has not been given out */
        run->stages_count = before;
        es_mem_free(NULL, job.stage);
    }
    es_mem_free(NULL, names);
    return status;
}

es_status es_run_add_stage(es_run *run, const char *name, int64_t rows, int64_t cols,
                           const char *const *columns, int64_t *id, es_error *err)
{
    *id = -1;
    ES_TRY(check_shape(rows, cols, err));
    es_run_enter(run);
    int64_t at = name ? find_stage(run, name) : -1;
    es_status status = ES_OK;
    if (at < 0) {
        at = run->stages_count;
        status = add_stage(run, name, rows, cols, columns, err);
    } else if (!columns || !same_stage(run->stages[at], rows, cols, columns)) {
        status = es_fail_file(err, ES_E_ARGUMENT, run->path, -1, "run.stage",
                              "another version of the command wrote it: take another --out, or "
                              "replace the file with --force",
                              "stage %s has another shape or other columns in the file", name);
    }
    es_run_leave(run);
    if (status == ES_OK)
        *id = at;
    return status;
}

/* ---- which there are ---- */

es_status es_run_stage_at(const es_run *run, int64_t id, const es_run_stage **out, es_error *err)
{
    es_run_enter(run);
    const bool known = id >= 0 && id < run->stages_count;
    *out = known ? run->stages[id] : NULL;
    const long long count = run->stages_count;
    es_run_leave(run);
    return known ? ES_OK
                 : es_fail_file(err, ES_E_RANGE, run->path, -1, "run.stage", "count from 0",
                                "stage %lld of %lld", (long long)id, count);
}

es_status es_run_get_stage(es_run *run, int64_t id, es_run_stage *out, es_error *err)
{
    const es_run_stage *stage;
    sqlite3_stmt *s;
    bool row;
    ES_TRY(es_run_stage_at(run, id, &stage, err));
    *out = *stage;
    es_run_enter(run);
    es_status status =
        es_sql_prepare(&run->sql, err, &s, "SELECT count(*) FROM cell WHERE stage = ?", "i", id);
    if (status == ES_OK)
        status = es_sql_step(&run->sql, s, &row, err);
    if (status == ES_OK)
        out->cells = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    es_run_leave(run);
    return status;
}
