/* SPDX-License-Identifier: Apache-2.0 */
/* test_shards.c : shares of the cells, each into a run file of its own. */
#include "testing.h"

#include <sys/wait.h>

#include "driver/driver.h"
#include "shard_study.h"

/* ---- which cells ---- */

static double uneven(void *user, int64_t cell)
{
    (void)user;
    return (double)(1 + cell * cell % 7);
}

static double nothing(void *user, int64_t cell)
{
    (void)user, (void)cell;
    return 0.0;
}

static double weighed(double (*weight)(void *, int64_t), int64_t cell)
{
    return weight && weight != nothing ? weight(NULL, cell) : 1.0;
}

/* Shares follow each other from the first cell to the last. A cell goes where its middle is, so
 * what is beyond a cut is at most half of the first and half of the last cell. */
static void check_shares(int64_t cells, double (*weight)(void *, int64_t), int64_t shards)
{
    double all = 0.0;
    int64_t next = 0;
    for (int64_t i = 0; i < cells; i++)
        all += weighed(weight, i);
    for (int64_t shard = 1; shard <= shards; shard++) {
        es_share own;
        double here = 0.0;
        es_share_of(cells, weight, NULL, shard, shards, &own);
        if (own.from == own.to)
            continue;
        assert_int_equal(own.from, next);
        for (; next < own.to; next++)
            here += weighed(weight, next);
        const double ends = weighed(weight, own.from) + weighed(weight, own.to - 1);
        assert_at_most(here, all / (double)shards + 0.5 * ends + 1e-9);
    }
    assert_int_equal(next, cells);
}

static void every_cell_is_in_one_share(void **state)
{
    (void)state;
    for (int64_t cells = 0; cells <= 30; cells++)
        for (int64_t shards = 1; shards <= 40; shards++) {
            check_shares(cells, NULL, shards);
            check_shares(cells, uneven, shards);
            check_shares(cells, nothing, shards); /* as if they were alike */
        }
}

/* Draws are cells place * R + r: a shard has draws of places whose limit it has, or the neighbour's
 * at either end. */
static void stages_are_cut_at_the_same_places(void **state)
{
    enum { R = 8 };
    (void)state;
    for (int64_t places = 1; places <= 12; places++)
        for (int64_t shards = 1; shards <= places; shards++)
            for (int64_t shard = 1; shard <= shards; shard++) {
                es_share limit, draw;
                es_share_of(places, NULL, NULL, shard, shards, &limit);
                es_share_of(places * R, NULL, NULL, shard, shards, &draw);
                assert_at_least(draw.from / R, limit.from - 1);
                assert_at_most((draw.to - 1) / R, limit.to);
            }
}

/* ---- shards ---- */

static void shards_make_the_whole(void **state)
{
    (void)state;
    for (int shards = 1; shards <= 5; shards += shards == 1 ? 1 : 3)
        for (int threads = 1; threads <= 3; threads += 2) {
            es_run_joined joined;
            for (int shard = 1; shard <= shards; shard++)
                run_shard(shard, shards, (es_study_opts){.seed = 5, .exec.threads = threads});
            assert_ok(join(shards, &(es_run_join_opts){0}, &joined));
            assert_int_equal(joined.files, shards);
            assert_int_equal(joined.cells, 22);
            assert_int_equal(joined.missing, 0);
            check_joined(11, 5.0);
            count_files(true);
        }
}

/* The last of five shards has two sums, which need all squares: nine of others and its own two. */
static void cells_of_others_are_computed_once_and_kept(void **state)
{
    (void)state;
    es_run *run;
    es_run_stage stage;
    for (int threads = 1; threads <= 3; threads += 2) {
        squared = summed = 0;
        run_shard(5, 5, (es_study_opts){.exec.threads = threads});
        assert_int_equal(squared, 11);
        assert_int_equal(summed, 2);
        assert_ok(es_run_open(part(5), &run, &err));
        assert_ok(es_run_get_stage(run, 0, &stage, &err));
        assert_int_equal(stage.cells, 11);
        assert_ok(es_run_close(run, &err));
        squared = summed = 0;
        run_shard(5, 5, (es_study_opts){.exec.threads = threads, .resume = true});
        assert_int_equal(squared + summed, 0);
        count_files(true);
    }
}

static void a_shard_says_what_it_is(void **state)
{
    (void)state;
    es_answer *a;
    es_run *run;
    int64_t shard, shards;
    const es_study_opts opts = {.shard = 2, .shards = 5, .out = part(2)};
    assert_ok(run_study(&small, NULL, opts, &a));
    const char *told = es_answer_finding(a, 0);
    assert_non_null(strstr(told, "Shard 2 of 5: 2 of 11 squares, 2 of 11 sums are in "));
    assert_non_null(strstr(told, "/part-*.run -o all.run joins them."));
    es_answer_free(a);
    assert_ok(es_run_open(part(2), &run, &err));
    assert_true(es_run_shard(run, &shard, &shards));
    assert_int_equal(shard, 2);
    assert_int_equal(shards, 5);
    const es_run_about about = es_run_info(run);
    assert_string_equal(about.facts[about.facts_count - 1].key, "cells");
    assert_string_equal(about.facts[about.facts_count - 1].text, "squares 11, sums 11");
    assert_ok(es_run_close(run, &err));
    /* gone on with as a whole, it is one */
    const es_study_opts whole = {.out = part(2), .resume = true};
    assert_ok(run_study(&small, NULL, whole, &a));
    assert_int_equal(es_table_rows(es_answer_find(a, "rows")), 11);
    es_answer_free(a);
    assert_ok(es_run_open(part(2), &run, &err));
    assert_false(es_run_shard(run, &shard, &shards));
    assert_ok(es_run_close(run, &err));
    count_files(true);
}

static void check_hint(int64_t shard, int64_t shards, const char *name, const char *hint)
{
    es_answer *a;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const es_study_opts opts = {.shard = shard, .shards = shards, .out = path};
    assert_ok(run_study(&small, NULL, opts, &a));
    if (!strstr(es_answer_finding(a, 0), hint))
        fail_msg("%s: %s", name, es_answer_finding(a, 0));
    es_answer_free(a);
    count_files(true);
}

/* Where the number of a shard is in a name once, all of them are told by a pattern. */
static void all_files_are_named_if_that_is_possible(void **state)
{
    (void)state;
    check_hint(1, 2, "shard-1-of-2.run", "/shard-*-of-2.run -o");
    check_hint(2, 2, "shard-2-of-2.run", "merge FILES -o");
    check_hint(2, 12, "2-of-12.run", "/*-of-12.run -o");
    check_hint(3, 12, "x007y03.run", "/x007y*.run -o");
    check_hint(3, 12, "x13.run", "merge FILES -o");
}

/* ---- stopped and killed ---- */

static void a_stopped_shard_goes_on(void **state)
{
    (void)state;
    es_answer *a;
    int left = 1;
    const es_study_opts opts = {
        .shard = 1, .shards = 2, .out = part(1), .progress = stop_soon, .user = &left};
    assert_int_equal(run_study(&small, NULL, opts, &a), ES_E_INTERRUPTED);
    assert_string_equal(err.rule, "run.interrupted");
    assert_non_null(strstr(err.message, "of 5 squares")); /* of its share, not of all */
    run_shard(1, 2, (es_study_opts){.resume = true});
    run_shard(2, 2, (es_study_opts){0});
    assert_ok(join(2, &(es_run_join_opts){0}, NULL));
    check_joined(11, 0.0);
    count_files(true);
}

static void a_killed_shard_goes_on(void **state)
{
    (void)state;
    int code;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dies_at = 8;
        run_shard(2, 2, (es_study_opts){0});
        _exit(0);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFSIGNALED(code));
    run_shard(2, 2, (es_study_opts){.resume = true});
    run_shard(1, 2, (es_study_opts){0});
    assert_ok(join(2, &(es_run_join_opts){0}, NULL));
    check_joined(11, 0.0);
    count_files(true);
}

/* ---- what is refused ---- */

static es_status run_pieces(const es_executor *self, const es_work *work, const es_exec *exec,
                            es_error *e)
{
    (void)self, (void)work, (void)exec, (void)e;
    return ES_OK;
}

static es_status agree(const es_executor *self, es_status status, const char *same, es_error *e)
{
    (void)self, (void)same, (void)e;
    return status;
}

static void shards_that_make_no_sense(void **state)
{
    (void)state;
    const es_executor two = {.name = "two", .ranks = 2, .run = run_pieces, .agree = agree};
    const es_study quick = {.name = "quick",
                            .params = params,
                            .size = sizeof(small_params),
                            .keeps_nothing = true,
                            .open = open_small,
                            .summarise = summarise};
    const es_study_opts bad[] = {{.shard = 0, .shards = 4, .out = part(1)},
                                 {.shard = 5, .shards = 4, .out = part(1)},
                                 {.shard = -1, .shards = 4, .out = part(1)},
                                 {.shard = 1, .shards = 0, .out = part(1)},
                                 {.shard = 1, .shards = 4},
                                 {.shard = 1, .shards = 4, .out = part(1), .exec.executor = &two}};
    es_answer *a;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(run_study(&small, NULL, bad[i], &a), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "run.shard");
        assert_true(err.hint[0]);
    }
    assert_int_equal(run_study(&quick, NULL, (es_study_opts){.shard = 1, .shards = 2}, &a),
                     ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.shard");
    assert_int_equal(count_files(true), 0);
}

TEST_FILE(shards)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_is_in_one_share),
        cmocka_unit_test(stages_are_cut_at_the_same_places),
        cmocka_unit_test(shards_make_the_whole),
        cmocka_unit_test(cells_of_others_are_computed_once_and_kept),
        cmocka_unit_test(a_shard_says_what_it_is),
        cmocka_unit_test(all_files_are_named_if_that_is_possible),
        cmocka_unit_test(a_stopped_shard_goes_on),
        cmocka_unit_test(a_killed_shard_goes_on),
        cmocka_unit_test(shards_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
