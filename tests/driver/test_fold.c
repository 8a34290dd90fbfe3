/* SPDX-License-Identifier: Apache-2.0 */
/* test_fold.c : cells made of parts that are folded in order, whoever computes them and whatever
 * comes in between; and states of attention and of moments that travel as numbers. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/attend.h>
#include <esscher/run.h>
#include <esscher/study.h>

#include "attention/attend.h"
#include "base/executor.h"
#include "driver/job.h"
#include "folder.h"
#include "stats/moments.h"

/* ---- a study of 5 cells in groups of 2, 7 parts each ----
 * A state is (s, t) -> (s/3 + part, t + 1): the order of parts is in every bit. Cell c of group g
 * is s + 100 g + c. */

enum { CELLS = 5, GROUP = 2, PARTS = 7 };
#define SCRATCH "_parts-2-7-2" /* where states are kept: group, parts, numbers */

static int computed, fail_at = -1;
static int break_at = -1; /* part of the second group whose folding ends half way, once */

static es_status run_part(es_job *job, int64_t group, int64_t part, const es_exec *exec,
                          double *state, es_error *e)
{
    (void)job, (void)exec;
    if (group * PARTS + part == fail_at) {
        *e = (es_error){.code = ES_E_NUMERIC, .message = "as asked"};
        return ES_E_NUMERIC;
    }
    computed++;
    state[0] = (double)part + 0.1 * (double)group;
    state[1] = 1.0;
    return ES_OK;
}

static es_status fold(es_job *job, int64_t group, double *into, const double *state, es_error *e)
{
    (void)job;
    into[0] = into[0] / 3.0 + state[0];
    if (group == 1 && (int)into[1] == break_at) {
        break_at = -1;
        *e = (es_error){.code = ES_E_MEMORY, .message = "as asked"};
        return ES_E_MEMORY;
    }
    into[1] += state[1];
    return ES_OK;
}

static es_status finish(es_job *job, int64_t group, const double *state, void *record, es_error *e)
{
    double *out = record;
    (void)job, (void)e;
    assert_equals(state[1], PARTS);
    for (int64_t c = 0; c < (group == 2 ? 1 : GROUP); c++)
        out[c] = state[0] + 100.0 * (double)group + (double)c;
    return ES_OK;
}

static double expected(int64_t cell)
{
    const double g = (double)(cell / GROUP);
    double s = 0.1 * g;
    for (int part = 1; part < PARTS; part++)
        s = s / 3.0 + (part + 0.1 * g);
    return s + 100.0 * g + (double)(cell % GROUP);
}

/* The same without parts: a group's cells at once, two groups. */
static es_status run_whole(es_job *job, int64_t group, int64_t part, const es_exec *exec,
                           double *state, es_error *e)
{
    (void)job, (void)exec, (void)e;
    assert_int_equal(part, 0);
    computed++;
    for (int64_t c = 0; c < (group ? 2 : 3); c++)
        state[c] = expected(3 * group + c);
    return ES_OK;
}

static const char *const columns[] = {"number"};

/* Cells are in a file; those of the stages after it are in memory. */
static const es_stage parts_stage = {
    "parts",           .phase = "folding",   .noun = "cells", .cells = CELLS,   .rows = 1,
    .cols = 1,         .columns = columns,   .flops = 1.0,    .group = GROUP,   .parts = PARTS,
    .part_numbers = 2, .run_part = run_part, .fold = fold,    .finish = finish, .on_disk = true};

static es_status open_parts(es_job *job, es_error *e)
{
    const es_stage whole = {"whole",    .phase = "together", .noun = "cells",      .cells = CELLS,
                            .rows = 1,  .cols = 1,           .columns = columns,   .flops = 1.0,
                            .group = 3, .part_numbers = 3,   .run_part = run_whole};
    const es_status status = es_job_stage(job, &parts_stage, e);
    return status == ES_OK ? es_job_stage(job, &whole, e) : status;
}

static const es_column table_columns[] = {
    {"a", "a", "", ES_FORMAT_REAL}, {"b", "b", "", ES_FORMAT_REAL}, {0}};
static const es_table_view views[] = {{"Cells"}, {0}};
static const es_table_spec table = {"rows", table_columns, views};

static es_status summarise(es_job *job, es_answer *a, es_error *e)
{
    es_table *t = es_answer_table(a, &table);
    for (int64_t i = 0; i < CELLS; i++) {
        const int64_t row = es_table_row(t);
        double number;
        const es_status status = es_job_read(job, 0, i, 0, 1, &job->exec, &number, e);
        if (status != ES_OK)
            return status;
        es_table_real(t, row, "a", number);
        es_table_real(t, row, "b", es_job_numbers(job, 1, i)[0]);
    }
    return ES_OK;
}

static const es_param params[] = {{0}};
static const es_study study = {
    .name = "fold", .params = params, .size = 1, .open = open_parts, .summarise = summarise};

static es_status run_with(es_study_opts asked, es_answer **a)
{
    es_params *p;
    assert_ok(es_params_new(params, 1, &p, &err));
    const es_status status = es_study_run(&study, p, &asked, a, &err);
    es_params_free(p);
    return status;
}

static void check(es_answer *a)
{
    const es_table *t = es_answer_find(a, "rows");
    for (int64_t i = 0; i < CELLS; i++) {
        assert_equals(es_table_get(t, i, "a"), expected(i)); /* to the bit */
        assert_equals(es_table_get(t, i, "b"), expected(i));
    }
    es_answer_free(a);
}

static int64_t widest; /* pieces that came before their turn, at most */

static es_status backwards(const es_executor *self, const es_work *w, const es_exec *exec,
                           es_error *e)
{
    (void)self;
    for (int64_t i = w->count - 1; i >= 0; i--) {
        double values[3];
        es_status status = w->compute(w->user, w->pieces[i], exec, values, e);
        if (status == ES_OK)
            status = w->done(w->user, w->pieces[i], values, e);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

static void parts_are_folded_in_order(void **state)
{
    (void)state;
    es_answer *a;
    es_mem_limit budget = {0};
    es_executor other = es_executor_threads;
    other.run = backwards;
    assert_ok(run_with((es_study_opts){.exec.budget = &budget}, &a));
    check(a);
    assert_ok(run_with((es_study_opts){.exec = {.executor = &other, .budget = &budget}}, &a));
    check(a);
    assert_int_equal(budget.used, 0);
}

/* As late as a window lets them come: each stretch of so many pieces backwards. */
static es_status late(const es_executor *self, const es_work *w, const es_exec *exec, es_error *e)
{
    const int64_t window = w->window ? w->window : w->count;
    widest = window > widest ? window : widest;
    for (int64_t at = 0; at < w->count; at += window) {
        es_work some = *w;
        some.pieces = w->pieces + at;
        some.count = w->count - at < window ? w->count - at : window;
        const es_status status = backwards(self, &some, exec, e);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

/* Two for each rank and two more; groups of one part have nothing to wait for. */
static void few_parts_wait(void **state)
{
    (void)state;
    es_answer *a;
    es_executor other = es_executor_threads;
    other.run = late;
    other.ranks = 3;
    widest = 0;
    assert_ok(run_with((es_study_opts){.exec.executor = &other}, &a));
    check(a);
    assert_int_equal(widest, 2 * 3 + 2);
}

/* ---- ends that come early ---- */

static int64_t cells_in(const char *path, const char *name)
{
    es_run *run;
    es_run_stage stage;
    int64_t cells = -1;
    assert_ok(es_run_open(path, &run, &err));
    for (int64_t i = 0; i < es_run_info(run).stages_count; i++) {
        assert_ok(es_run_get_stage(run, i, &stage, &err));
        if (strcmp(stage.name, name) == 0)
            cells = stage.cells;
    }
    assert_ok(es_run_close(run, &err));
    return cells;
}

static void a_run_that_failed_goes_on_where_it_was(void **state)
{
    (void)state;
    char path[512];
    es_answer *a;
    snprintf(path, sizeof path, "%s", in_folder("fold.run"));
    es_study_opts asked = {.out = path};
    computed = 0;
    fail_at = PARTS + 4; /* the first group is there, and four parts of the second */
    assert_int_equal(run_with(asked, &a), ES_E_NUMERIC);
    assert_int_equal(computed, PARTS + 4);
    assert_int_equal(cells_in(path, "parts"), GROUP);
    assert_int_equal(cells_in(path, SCRATCH), 1);
    fail_at = PARTS + 6;
    asked.resume = true;
    assert_int_equal(run_with(asked, &a), ES_E_NUMERIC);
    assert_int_equal(computed, PARTS + 6);
    assert_int_equal(cells_in(path, SCRATCH), 2); /* places take turns */
    fail_at = -1;
    assert_ok(run_with(asked, &a));
    check(a);
    assert_int_equal(computed, 3 * PARTS + 2); /* nothing twice */
    assert_int_equal(cells_in(path, SCRATCH), 0);
    assert_ok(run_with(asked, &a)); /* and nothing again */
    check(a);
    assert_int_equal(computed, 3 * PARTS + 2);
}

/* What is half folded is not kept, what was kept before is. */
static void a_state_that_is_half_folded_is_forgotten(void **state)
{
    (void)state;
    char path[512];
    es_answer *a;
    snprintf(path, sizeof path, "%s", in_folder("half.run"));
    es_study_opts asked = {.out = path};
    break_at = 3;
    assert_int_equal(run_with(asked, &a), ES_E_MEMORY);
    asked.resume = true;
    fail_at = PARTS + 2; /* parts 0 and 1 are kept */
    assert_int_equal(run_with(asked, &a), ES_E_NUMERIC);
    fail_at = -1;
    break_at = 4;
    computed = 0;
    assert_int_equal(run_with(asked, &a), ES_E_MEMORY);
    assert_int_equal(computed, 3); /* parts 2, 3 and 4, the last of which was lost */
    assert_ok(run_with(asked, &a));
    check(a);
    assert_int_equal(computed, 3 + PARTS - 2 + PARTS + 2); /* from part 2 on once more */
}

static bool stop_soon(void *user, const es_progress *now)
{
    (void)user;
    return now->share > 0.3;
}

static void a_run_that_was_stopped_says_so(void **state)
{
    (void)state;
    char path[512];
    es_answer *a;
    snprintf(path, sizeof path, "%s", in_folder("stopped.run"));
    computed = 0;
    assert_int_equal(run_with((es_study_opts){.out = path, .progress = stop_soon}, &a),
                     ES_E_INTERRUPTED);
    assert_string_equal(err.rule, "run.interrupted");
    assert_between(computed, PARTS, 3 * PARTS);
    assert_int_equal(cells_in(path, SCRATCH), 1);
    assert_ok(run_with((es_study_opts){.out = path, .resume = true}, &a));
    check(a);
    assert_int_equal(computed, 3 * PARTS + 2);
}

/* ---- shards ---- */

static es_status run_shard(int64_t shard, int64_t shards, const char *path, es_study_opts asked)
{
    es_answer *a;
    asked.out = path;
    asked.shard = shard;
    asked.shards = shards;
    const es_status status = run_with(asked, &a);
    es_answer_free(a);
    return status;
}

/* Files of shards are joined, scratch stages apart. */
static void shards_of_folded_stages_are_joined(void **state)
{
    (void)state;
    char one[512], two[512], all[512];
    const char *const paths[] = {one, two};
    es_run_joined joined;
    es_answer *a;
    snprintf(one, sizeof one, "%s", in_folder("one.run"));
    snprintf(two, sizeof two, "%s", in_folder("two.run"));
    snprintf(all, sizeof all, "%s", in_folder("all.run"));
    for (int64_t shard = 1; shard <= 2; shard++)
        assert_ok(run_shard(shard, 2, paths[shard - 1], (es_study_opts){0}));
    assert_ok(es_run_join(paths, 2, all, &(es_run_join_opts){0}, &joined, &err));
    assert_int_equal(joined.missing, 0);
    assert_int_equal(joined.cells, 2 * CELLS);
    assert_int_equal(cells_in(all, SCRATCH), -1); /* nothing of it */
    computed = 0;
    assert_ok(run_with((es_study_opts){.out = all, .resume = true}, &a));
    check(a);
    assert_int_equal(computed, 0);
}

/* One that was stopped leaves a state behind, which others do not care for. */
static void a_shard_that_was_stopped_is_joined_in_part(void **state)
{
    (void)state;
    char one[512], all[512];
    const char *const paths[] = {one};
    es_run_joined joined;
    snprintf(one, sizeof one, "%s", in_folder("stopped-one.run"));
    snprintf(all, sizeof all, "%s", in_folder("stopped-all.run"));
    fail_at = 2 * PARTS + 4; /* the second shard has the second group and the third */
    assert_int_equal(run_shard(2, 2, one, (es_study_opts){0}), ES_E_NUMERIC);
    fail_at = -1;
    assert_int_equal(cells_in(one, SCRATCH), 1);
    assert_ok(es_run_join(paths, 1, all, &(es_run_join_opts){.partial = true}, &joined, &err));
    assert_int_equal(joined.cells, GROUP);
    assert_int_equal(cells_in(all, SCRATCH), -1);
}

typedef struct watch {
    double first; /* share of the phase that was told first, beyond 0 */
    int left;     /* tellings until it stops */
} watch;

static bool look(void *user, const es_progress *now)
{
    watch *w = user;
    if (now->phase_share > 0.0 && w->first == 0.0)
        w->first = now->phase_share;
    return now->phase_share > 0.0 && --w->left < 0;
}

/* Three shards of three groups: each makes one, and counts what it has of that. */
static void shares_are_cut_between_groups(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("share.run"));
    watch w = {.left = 2};
    const es_study_opts watched = {.progress = look, .user = &w};
    computed = 0;
    assert_int_equal(run_shard(2, 3, path, watched), ES_E_INTERRUPTED);
    assert_non_null(strstr(err.message, "after 0 of 2 cells"));
    assert_near(w.first, 1.0 / PARTS, 1e-12);
    assert_int_equal(computed, 3);
    assert_ok(run_shard(2, 3, path, (es_study_opts){.resume = true}));
    assert_int_equal(cells_in(path, "parts"), GROUP);
    assert_at_most(computed, PARTS + 1);
}

/* Cell i needs cell i + 1 of the parts: that of another shard at the end of a share. */
static es_status run_after(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *e)
{
    return es_job_read(job, 0, (cell + 1) % CELLS, 0, 1, exec, record, e);
}

static es_status open_after(es_job *job, es_error *e)
{
    const es_stage after = {"after",        .phase = "needing", .noun = "cells",
                            .cells = CELLS, .rows = 1,          .cols = 1,
                            .flops = 1.0,   .columns = columns, .run = run_after};
    const es_status status = es_job_stage(job, &parts_stage, e);
    return status == ES_OK ? es_job_stage(job, &after, e) : status;
}

/* A group that is needed and fails half way goes on from there, like any other. */
static void a_group_that_is_needed_goes_on_where_it_was(void **state)
{
    (void)state;
    char path[512];
    es_answer *a;
    es_params *p;
    const es_study needing = {
        .name = "need", .params = params, .size = 1, .open = open_after, .summarise = summarise};
    snprintf(path, sizeof path, "%s", in_folder("need.run"));
    es_study_opts asked = {.out = path, .shard = 1, .shards = 2};
    assert_ok(es_params_new(params, 1, &p, &err));
    computed = 0;
    fail_at = PARTS + 4;
    assert_int_equal(es_study_run(&needing, p, &asked, &a, &err), ES_E_NUMERIC);
    assert_int_equal(computed, PARTS + 4);
    assert_int_equal(cells_in(path, SCRATCH), 1);
    fail_at = -1;
    asked.resume = true;
    assert_ok(es_study_run(&needing, p, &asked, &a, &err));
    es_answer_free(a);
    assert_int_equal(computed, 2 * PARTS);
    assert_int_equal(cells_in(path, "parts"), 2 * GROUP);
    asked = (es_study_opts){.out = path, .resume = true};
    assert_ok(es_study_run(&needing, p, &asked, &a, &err));
    const es_table *t = es_answer_find(a, "rows");
    for (int64_t i = 0; i < CELLS; i++)
        assert_equals(es_table_get(t, i, "b"), expected((i + 1) % CELLS));
    es_answer_free(a);
    es_params_free(p);
}

/* ---- cells on disk ---- */

static es_status open_without_parts(es_job *job, es_error *e)
{
    const es_stage stage = {.name = "stage",
                            .phase = "failing",
                            .noun = "cells",
                            .cells = CELLS,
                            .rows = 1,
                            .cols = 1,
                            .columns = columns,
                            .on_disk = true,
                            .run = run_after};
    return es_job_stage(job, &stage, e);
}

static void cells_on_disk_are_made_in_parts(void **state)
{
    (void)state;
    es_answer *a;
    es_params *p;
    const es_study plain = {.name = "plain",
                            .params = params,
                            .size = 1,
                            .open = open_without_parts,
                            .summarise = summarise};
    const es_study_opts asked = {0};
    assert_ok(es_params_new(params, 1, &p, &err));
    assert_int_equal(es_study_run(&plain, p, &asked, &a, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "study.disk");
    es_params_free(p);
}

static void a_missing_temporary_folder_is_an_error(void **state)
{
    (void)state;
    es_answer *a;
    const char *was = getenv("TMPDIR");
    char kept[512];
    snprintf(kept, sizeof kept, "%s", was ? was : "");
    assert_int_equal(setenv("TMPDIR", in_folder("missing"), 1), 0);
    const es_status status = run_with((es_study_opts){0}, &a);
    was ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR");
    assert_int_equal(status, ES_E_IO);
    assert_string_equal(err.rule, "file.create");
}

/* ---- states that travel ---- */

enum { M = 5, N = 40, D = 3, DV = 4 };

static void fill(float *x, int64_t count, double by)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)sin(by * (double)(i + 1));
}

static const double scales[2] = {0.5, 3.0};
static const int64_t top[1] = {3};
static const es_attend_opts opts = {.scales = scales, .n_scales = 2, .top_k = top, .n_top_k = 1};

/* Queries that met keys [from, to). */
static es_partial *met(const float *q, const float *k, const float *v, int64_t from, int64_t to)
{
    es_partial *p;
    assert_ok(es_partial_new(M, DV, &opts, &p, &err));
    const es_view Q = es_view_f32(q, M, D), K = es_view_f32(k + from * D, to - from, D);
    const es_view V = es_view_f32(v + from * DV, to - from, DV);
    if (to > from)
        assert_ok(es_partial_attend(p, &Q, &K, &V, from, &err));
    return p;
}

enum { RESULTS = 2 * M * (DV + 5) };

/* All that a state tells, and the keys it prefers. */
static void tell(const es_partial *p, double *numbers, int64_t *index)
{
    double *at = numbers + 2 * M * DV;
    const es_attend_out out = {.output = numbers,
                               .lse = at,
                               .entropy = at + 2 * M,
                               .top_weight = at + 4 * M,
                               .sum_squares = at + 6 * M,
                               .top_mass = at + 8 * M,
                               .top_index = index};
    assert_ok(es_partial_finish(p, &out, &err));
}

static void states_come_back_bit_for_bit(void **state)
{
    (void)state;
    float q[M * D], k[N * D], v[N * DV];
    fill(q, M * D, 1.3), fill(k, N * D, 0.7), fill(v, N * DV, 2.1);
    es_partial *a = met(q, k, v, 0, 17), *b = met(q, k, v, 17, N), *none = met(q, k, v, 0, 0);
    es_partial *c = met(q, k, v, 3, 9), *e = met(q, k, v, 5, 8);
    const int64_t numbers = es_partial_numbers(M, DV, &opts);
    double *saved = malloc((size_t)numbers * sizeof *saved), one[RESULTS], two[RESULTS];
    int64_t first[2 * M], second[2 * M];
    /* c and e forget what they met */
    es_partial_save(a, saved);
    assert_ok(es_partial_load(c, saved, &err));
    es_partial_save(b, saved);
    assert_ok(es_partial_load(e, saved, &err));
    tell(e, one, first), tell(b, two, second);
    assert_memory_equal(one, two, sizeof one);
    assert_memory_equal(first, second, sizeof first);
    assert_ok(es_partial_merge(a, b, &err));
    assert_ok(es_partial_merge(c, e, &err));
    tell(a, one, first), tell(c, two, second);
    assert_memory_equal(one, two, sizeof one);
    assert_memory_equal(first, second, sizeof first);
    /* one that met nothing travels, too */
    es_partial_save(none, saved);
    assert_ok(es_partial_load(e, saved, &err));
    assert_int_equal(es_partial_finish(e, &(es_attend_out){.lse = one}, &err), ES_E_EMPTY);
    assert_ok(es_partial_merge(c, e, &err));
    tell(c, one, first);
    assert_memory_equal(one, two, sizeof one);
    saved[numbers - M * 3 - 1] = NAN; /* the best key of the last query; 3 scores are kept each */
    assert_int_equal(es_partial_load(e, saved, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "partial.numbers");
    es_partial *const all[] = {a, b, c, e, none};
    for (int i = 0; i < 5; i++)
        es_partial_free(all[i]);
    free(saved);
}

static void moments_come_back_bit_for_bit(void **state)
{
    (void)state;
    double rows[11 * D], numbers[64], a[D * D], b[D * D];
    es_moments m, n;
    for (int i = 0; i < 11 * D; i++)
        rows[i] = cos(3.1 * i);
    assert_ok(es_moments_new(D, NULL, &m, &err));
    assert_ok(es_moments_new(D, NULL, &n, &err));
    es_moments_add(&m, rows, 11);
    es_moments_add(&n, rows, 2);
    assert_int_equal(es_moments_numbers(D), 1 + D + D * (D + 1) / 2);
    es_moments_save(&m, numbers);
    assert_ok(es_moments_load(&n, numbers, &err));
    assert_int_equal(n.count, 11);
    assert_memory_equal(m.mean, n.mean, D * sizeof *a);
    es_moments_covariance(&m, 0, a);
    es_moments_covariance(&n, 0, b);
    assert_memory_equal(a, b, sizeof a);
    numbers[0] = -1.0;
    assert_int_equal(es_moments_load(&n, numbers, &err), ES_E_FORMAT);
    es_moments_free(&m);
    es_moments_free(&n);
}

TEST_FILE(fold)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_folded_in_order),
        cmocka_unit_test(few_parts_wait),
        cmocka_unit_test(a_run_that_failed_goes_on_where_it_was),
        cmocka_unit_test(a_state_that_is_half_folded_is_forgotten),
        cmocka_unit_test(a_run_that_was_stopped_says_so),
        cmocka_unit_test(shards_of_folded_stages_are_joined),
        cmocka_unit_test(a_shard_that_was_stopped_is_joined_in_part),
        cmocka_unit_test(shares_are_cut_between_groups),
        cmocka_unit_test(a_group_that_is_needed_goes_on_where_it_was),
        cmocka_unit_test(cells_on_disk_are_made_in_parts),
        cmocka_unit_test(a_missing_temporary_folder_is_an_error),
        cmocka_unit_test(states_come_back_bit_for_bit),
        cmocka_unit_test(moments_come_back_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
