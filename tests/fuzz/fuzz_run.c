/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_run.c : any bytes at all, opened as a run file. What is accepted must read to its end, twice
 * the same; nothing may be left beside the file. SQLite reads files, so the bytes become one: in
 * $TMPDIR, best a folder in memory (TMPDIR=/dev/shm). */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <esscher/run.h>
#include <esscher/table.h>

#include "store/checksum.h"
#include "store/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* ---- the file ---- */

static char folder[512], path[600];

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

static void write_file(const uint8_t *data, size_t size)
{
    if (!folder[0]) {
        const char *where = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/esscher-fuzz-XXXXXX", where ? where : "/tmp");
        require(mkdtemp(folder) != NULL);
        snprintf(path, sizeof path, "%s/a.run", folder);
        atexit(remove_folder);
    }
    FILE *file = fopen(path, "wb");
    require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

/* No journal, no log, no lock. */
static void check_alone(void)
{
    DIR *dir = opendir(folder);
    require(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));)
        require(entry->d_name[0] == '.' || strcmp(entry->d_name, "a.run") == 0);
    closedir(dir);
}

/* ---- everything in it ---- */

static void check_refusal(es_status status, const es_error *err)
{
    require(status == err->code && err->rule[0] && err->message[0]);
    require(status == ES_E_FORMAT || status == ES_E_UNSUPPORTED || status == ES_E_LIMIT ||
            status == ES_E_IO);
}

typedef struct reading {
    uint64_t sum;
    int64_t numbers; /* of a cell */
} reading;

static es_status add_cell(void *user, int64_t index, const double *values, es_error *err)
{
    reading *r = user;
    (void)err;
    r->sum = es_crc_i64(r->sum, index);
    r->sum = es_crc(r->sum, values, (size_t)r->numbers * sizeof *values);
    return ES_OK;
}

static void read_stages(es_run *run, int64_t count, reading *r)
{
    es_error err = {0};
    for (int64_t s = 0; s < count; s++) {
        es_run_stage stage;
        require(es_run_get_stage(run, s, &stage, &err) == ES_OK);
        require(stage.rows >= 1 && stage.cols >= 1 && stage.cells >= 0);
        r->sum = es_crc_text(r->sum, stage.name);
        for (int64_t c = 0; c < stage.cols; c++)
            r->sum = es_crc_text(r->sum, stage.columns[c]);
        r->numbers = stage.rows * stage.cols;
        const es_status status = es_run_each_cell(run, s, add_cell, r, &err);
        if (status != ES_OK)
            check_refusal(status, &err);
    }
}

static void read_table(es_run *run, const char *name, reading *r)
{
    es_error err = {0};
    es_run_table table = {0};
    const es_status status = es_run_get_table(run, name, NULL, &table, &err);
    if (status != ES_OK) {
        check_refusal(status, &err);
        return;
    }
    for (int64_t c = 0; c < table.cols; c++) {
        const es_run_column *column = &table.columns[c];
        require(column->kind == ES_RUN_REAL || column->kind == ES_RUN_TEXT);
        r->sum = es_crc_text(r->sum, column->name);
        for (int64_t i = 0; i < table.rows; i++)
            r->sum = column->kind == ES_RUN_REAL ? es_crc(r->sum, &column->reals[i], sizeof(double))
                                                 : es_crc_text(r->sum, column->texts[i]);
    }
    es_run_table_free(&table);
}

static bool add_bytes(void *user, const char *bytes, size_t count)
{
    uint64_t *sum = user;
    *sum = es_crc(*sum, bytes, count);
    return true;
}

/* The answer that the tables make, in every view of it. */
static void read_answer(es_run *run, reading *r)
{
    const es_answer_opts opts = {.full = true};
    es_error err = {0};
    es_answer *answer;
    es_status status = es_run_answer(run, NULL, NULL, &answer, &err);
    if (status != ES_OK) {
        check_refusal(status, &err);
        return;
    }
    for (es_answer_form form = ES_ANSWER_TEXT; form <= ES_ANSWER_LATEX; form++) {
        status = es_answer_write(answer, form, &opts, add_bytes, &r->sum, &err);
        require(status == ES_OK || (form == ES_ANSWER_CSV && !es_answer_at(answer, 0)));
    }
    es_answer_free(answer);
}

/* A sum of all that a reader is given; 0: refused. */
static uint64_t read_run(void)
{
    es_error err = {0};
    es_run *run;
    const es_status status = es_run_open(path, &run, &err);
    if (status != ES_OK) {
        require(run == NULL && err.hint[0]);
        check_refusal(status, &err);
        return 0;
    }
    reading r = {.sum = 1};
    const es_run_about about = es_run_info(run);
    r.sum = es_crc_text(r.sum, about.command);
    for (int64_t i = 0; i < about.params_count; i++)
        r.sum = es_crc_text(es_crc_text(r.sum, about.params[i].key), about.params[i].text);
    for (int64_t i = 0; i < about.facts_count; i++)
        r.sum = es_crc_text(es_crc_text(r.sum, about.facts[i].key), about.facts[i].text);
    read_stages(run, about.stages_count, &r);
    int64_t tables = 0;
    if (es_run_tables_count(run, &tables, &err) == ES_OK)
        for (int64_t t = 0; t < tables; t++) {
            char name[256];
            if (es_run_table_name(run, t, name, &err) == ES_OK)
                read_table(run, name, &r);
        }
    read_answer(run, &r);
    require(es_run_close(run, &err) == ES_OK);
    return r.sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    write_file(data, size);
    const uint64_t first = read_run();
    check_alone();
    require(read_run() == first);
    return 0;
}
