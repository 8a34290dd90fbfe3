/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h : the small experiment that the tests of run files do over and over. */
#ifndef ES_TESTS_RUNS_H
#define ES_TESTS_RUNS_H

#include "testing.h"

#include <stdbool.h>

#include <esscher/run.h>

#include "store/run.h"

enum { ROWS = 3, COLS = 2, CELL = ROWS * COLS };

static const char *const cell_columns[COLS] = {"mean", "se"};
static const es_run_pair spec_params[] = {
    {"seed", "7"}, {"law", "gaussian"}, {"n", "1000,2000,4000"}};
static const es_run_pair spec_facts[] = {{"version", "0.1.0"}, {"cpu", "a quick one"}};
static const es_run_spec spec = {"converge", spec_params, 3, spec_facts, 2};

/* Numbers whose every bit counts, NaN with payloads among them. */
static inline void compute_cell(int64_t index, double *out)
{
    for (int i = 0; i < CELL; i++) {
        uint64_t bits = (uint64_t)(index * CELL + i + 1) * 0x9e3779b97f4a7c15u;
        if (i == 4)
            bits |= 0x7ff0000000000000u;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

typedef struct table_maker {
    int64_t cells, most;
    double *index, *first, *last;
} table_maker;

static inline es_status collect_cell(void *user, int64_t index, const double *values, es_error *e)
{
    table_maker *m = user;
    (void)e;
    if (m->cells == m->most)
        return ES_E_RANGE;
    m->index[m->cells] = (double)index;
    memcpy(&m->first[m->cells], &values[0], 8);
    memcpy(&m->last[m->cells++], &values[CELL - 1], 8);
    return ES_OK;
}

/* The final table, from the cells alone. */
static inline es_status finish_experiment(es_run *run, int64_t stage, int64_t cells, es_error *e)
{
    table_maker m = {.most = cells};
    double *memory = malloc((size_t)cells * 3 * sizeof *memory);
    m.index = memory;
    m.first = memory + cells;
    m.last = memory + 2 * cells;
    es_status status = es_run_each_cell(run, stage, collect_cell, &m, e);
    const es_run_column columns[] = {{"index", ES_RUN_REAL, m.index, NULL},
                                     {"first", ES_RUN_REAL, m.first, NULL},
                                     {"last", ES_RUN_REAL, m.last, NULL}};
    const es_run_table table = {.name = "rates", .rows = m.cells, .cols = 3, .columns = columns};
    if (status == ES_OK)
        status = es_run_put_table(run, &table, e);
    free(memory);
    return status;
}

/* Cells [0, cells) that are not there yet, flushed after every `flush`th of them (0: never). */
static inline es_status do_cells(es_run *run, int64_t cells, int flush, int64_t *stage, es_error *e)
{
    double values[CELL];
    es_status status = es_run_add_stage(run, "error", ROWS, COLS, cell_columns, stage, e);
    for (int64_t i = 0; i < cells && status == ES_OK; i++) {
        bool done;
        status = es_run_has_cell(run, *stage, i, &done, e);
        if (status != ES_OK || done)
            continue;
        compute_cell(i, values);
        status = es_run_put_cell(run, *stage, i, values, e);
        if (status == ES_OK && flush && i % flush == 0)
            status = es_run_flush(run, e);
    }
    return status;
}

/* The whole experiment as a command does it: create the run, or go on with it. */
static inline es_status do_experiment(const char *path, int64_t cells, int flush, bool resume,
                                      es_error *e)
{
    es_run *run;
    int64_t stage;
    es_status status =
        resume ? es_run_resume(path, &spec, &run, e) : es_run_create(path, &spec, false, &run, e);
    if (status != ES_OK)
        return status;
    status = do_cells(run, cells, flush, &stage, e);
    if (status == ES_OK)
        status = finish_experiment(run, stage, cells, e);
    const es_status closed = es_run_close(run, status == ES_OK ? e : NULL);
    return status == ES_OK ? closed : status;
}

static inline bool same_tables(const es_run_table *a, const es_run_table *b)
{
    bool same = a->rows == b->rows && a->cols == b->cols;
    for (int64_t j = 0; same && j < a->cols; j++)
        same = strcmp(a->columns[j].name, b->columns[j].name) == 0 &&
               memcmp(a->columns[j].reals, b->columns[j].reals, (size_t)a->rows * 8) == 0;
    return same;
}

#endif
