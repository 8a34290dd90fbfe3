/* SPDX-License-Identifier: Apache-2.0 */
/* shard_study.h : a study small enough to know every number of, its shards, and their files. */
#ifndef ES_TESTS_SHARD_STUDY_H
#define ES_TESTS_SHARD_STUDY_H

#include "testing.h"

#include <signal.h>

#include <esscher/run.h>
#include <esscher/study.h>

#include "driver/job.h"
#include "folder.h"

/* ---- a study: cell i of `squares` is i^2 + seed, of `sums` the sum of those up to i ---- */

typedef struct small_params {
    int64_t cells;
    bool alone;
} small_params;

static const es_param params[] = {
    {"cells", 0, ES_PARAM_WHOLE, "N", "how many", .field = offsetof(small_params, cells),
     .default_value = "11", .min = 0, .max = 1e6},
    {"alone", 0, ES_PARAM_FLAG, NULL, "side by side", .field = offsetof(small_params, alone),
     .not_in_fingerprint = true},
    {0}};

static int squared, summed, dies_at = -1; /* cells that were computed; the square that kills */

static inline es_status square(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *e)
{
    double *out = record;
    (void)exec, (void)e;
    if (cell == dies_at)
        raise(SIGKILL);
    __atomic_add_fetch(&squared, 1, __ATOMIC_RELAXED);
    out[0] = (double)(cell * cell) + (double)job->seed;
    out[1] = (double)cell / 3.0;
    return ES_OK;
}

static inline es_status sum(es_job *job, int64_t cell, const es_exec *exec, void *record,
                            es_error *e)
{
    double *out = record;
    __atomic_add_fetch(&summed, 1, __ATOMIC_RELAXED);
    out[0] = 0.0;
    for (int64_t i = 0; i <= cell; i++) {
        const double *one;
        const es_status status = es_job_fetch(job, 0, i, exec, &one, e);
        if (status != ES_OK)
            return status;
        out[0] += one[0];
    }
    return ES_OK;
}

static const char *const square_columns[] = {"square", "third"}, *const sum_columns[] = {"sum"};

static inline es_status open_small(es_job *job, es_error *e)
{
    const small_params *p = job->params;
    const es_stage squares = {.name = "squares",
                              .phase = "squaring",
                              .noun = "squares",
                              .cells = p->cells,
                              .rows = 1,
                              .cols = 2,
                              .columns = square_columns,
                              .one_thread_per_cell = p->alone,
                              .run = square};
    const es_stage sums = {.name = "sums",
                           .phase = "summing",
                           .noun = "sums",
                           .cells = p->cells,
                           .rows = 1,
                           .cols = 1,
                           .columns = sum_columns,
                           .one_thread_per_cell = p->alone,
                           .run = sum};
    const es_status status = es_job_stage(job, &squares, e);
    return status == ES_OK ? es_job_stage(job, &sums, e) : status;
}

static const es_column columns[] = {
    {"cell", "cell", "", ES_FORMAT_COUNT}, {"sum", "sum", "", ES_FORMAT_REAL, "of squares"}, {0}};
static const es_table_view views[] = {{"Sums"}, {0}};
static const es_table_spec table = {"rows", columns, views};

static inline es_status summarise(es_job *job, es_answer *a, es_error *e)
{
    const small_params *p = job->params;
    (void)e;
    es_table *t = es_answer_table(a, &table);
    for (int64_t i = 0; i < p->cells; i++) {
        es_table_count(t, es_table_row(t), "cell", i);
        es_table_real(t, i, "sum", es_job_numbers(job, 1, i)[0]);
    }
    return ES_OK;
}

static const es_study small = {.name = "small",
                               .params = params,
                               .size = sizeof(small_params),
                               .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
                               .open = open_small,
                               .summarise = summarise};
static inline es_status run_study(const es_study *study, const char *cells, es_study_opts opts,
                                  es_answer **a)
{
    es_params *p;
    es_error *e = &err;
    assert_ok(es_params_new(params, sizeof(small_params), &p, e));
    if (cells)
        assert_ok(es_params_set(p, "cells", cells, e));
    if (opts.exec.threads > 1)
        assert_ok(es_params_set(p, "alone", NULL, e));
    const es_status status = es_study_run(study, p, &opts, a, e);
    es_params_free(p);
    return status;
}

/* Names of files that stay: in_folder() has one place for all. */
static inline const char *part(int which)
{
    static char names[8][512];
    snprintf(names[which], sizeof names[which], "%s/part-%d.run", folder, which);
    return names[which];
}

static inline const char *all_of_it(void)
{
    static char name[512];
    snprintf(name, sizeof name, "%s/all.run", folder);
    return name;
}

static inline void run_shard(int shard, int shards, es_study_opts opts)
{
    es_answer *a;
    opts.shard = shard;
    opts.shards = shards;
    opts.out = part(shard);
    assert_ok(run_study(&small, NULL, opts, &a));
    assert_null(es_answer_find(a, "rows"));
    es_answer_free(a);
}

static inline es_status join(int count, const es_run_join_opts *opts, es_run_joined *joined)
{
    const char *paths[8];
    for (int i = 0; i < count; i++)
        paths[i] = part(i + 1);
    return es_run_join(paths, count, all_of_it(), opts, joined, &err);
}

/* The joined file has everything: nothing is computed, and the numbers are those of the formula. */
static inline void check_joined(int64_t cells, double seed)
{
    es_answer *a;
    double expected = 0.0;
    squared = summed = 0;
    const es_study_opts opts = {.seed = (uint64_t)seed, .out = all_of_it(), .resume = true};
    assert_ok(run_study(&small, NULL, opts, &a));
    assert_int_equal(squared + summed, 0);
    const es_table *t = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(t), cells);
    for (int64_t i = 0; i < cells; i++) {
        expected += (double)(i * i) + seed;
        assert_equals(es_table_get(t, i, "sum"), expected);
    }
    es_answer_free(a);
}

/* Asks to stop after *left cells. */
static inline bool stop_soon(void *user, const es_progress *now)
{
    int *left = user;
    return now->phase_share > 0.0 && --*left < 0;
}

#endif
