/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_join.c : the run files of shards as one, and what does not fit together. */
#include "testing.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "shard_study.h"
#include "store/run.h"

static const es_study other = {.name = "other",
                               .params = params,
                               .size = sizeof(small_params),
                               .takes = ES_TAKES_SEED,
                               .open = open_small,
                               .summarise = summarise};

/* ---- what is refused ---- */

static void refused(int count, es_status status, const char *rule, const char *message)
{
    assert_int_equal(join(count, &(es_run_join_opts){0}, NULL), status);
    assert_string_equal(err.rule, rule);
    if (!strstr(err.message, message))
        fail_msg("\"%s\" does not say \"%s\"", err.message, message);
    assert_int_not_equal(access(all_of_it(), F_OK), 0);
    count_files(false);
}

static void make_two(void)
{
    run_shard(1, 2, (es_study_opts){.seed = 3, .force = true});
    run_shard(2, 2, (es_study_opts){.seed = 3, .force = true});
}

static void gaps_are_named(void **state)
{
    (void)state;
    es_run_joined joined;
    for (int shard = 1; shard <= 3; shard++)
        run_shard(shard, 5, (es_study_opts){0});
    run_shard(4, 5, (es_study_opts){.out = NULL});
    remove(part(2));
    rename(part(3), part(2)); /* 1, 3 and 4 of five: files 1, 2 and 4 */
    rename(part(4), part(3));
    /* sums 6-8 of shard 4 need all squares up to 8 */
    refused(3, ES_E_EMPTY, "merge.gaps",
            "6 cells are in none of the files: squares 9-10, sums 2-3");
    assert_non_null(strstr(err.message, "sums 2-3, sums 9-10"));
    assert_ok(join(3, &(es_run_join_opts){.partial = true}, &joined));
    assert_int_equal(joined.missing, 6);
    assert_string_equal(joined.gaps, "squares 9-10, sums 2-3, sums 9-10");
    /* a partial join is a part itself */
    rename(all_of_it(), part(1));
    refused(1, ES_E_EMPTY, "merge.gaps", "squares 9-10, sums 2-3, sums 9-10");
    /* and goes on as a whole: two squares and four sums */
    es_answer *a;
    squared = summed = 0;
    assert_ok(run_study(&small, NULL, (es_study_opts){.out = part(1), .resume = true}, &a));
    assert_int_equal(squared, 2);
    assert_int_equal(summed, 4);
    es_answer_free(a);
    count_files(true);
}

static void files_that_do_not_fit(void **state)
{
    (void)state;
    es_answer *a;
    make_two();
    /* one of another seed, of another command, of other cells */
    run_shard(2, 2, (es_study_opts){.seed = 4, .force = true});
    refused(2, ES_E_ARGUMENT, "merge.parameters", "seed: 4 in the file, 3 in ");
    assert_string_equal(err.file, part(2));
    const es_study_opts again = {.seed = 3, .shard = 2, .shards = 2, .out = part(2), .force = true};
    assert_ok(run_study(&other, NULL, again, &a));
    es_answer_free(a);
    refused(2, ES_E_ARGUMENT, "merge.command", "command: other in the file, small in ");
    assert_ok(run_study(&small, "12", again, &a));
    es_answer_free(a);
    refused(2, ES_E_ARGUMENT, "merge.parameters", "cells: 12 in the file, 11 in ");
    /* finished */
    const es_study_opts whole = {.seed = 3, .out = part(2), .force = true};
    assert_ok(run_study(&small, NULL, whole, &a));
    es_answer_free(a);
    refused(2, ES_E_ARGUMENT, "merge.finished", "the run is already complete");
    /* not a run at all, not there, empty */
    remove(part(2));
    refused(2, ES_E_IO, "file.open", "");
    write_file("part-2.run", "x", 0);
    refused(2, ES_E_FORMAT, "run.empty", "");
    write_file("part-2.run", "no database, and longer than a header of one would be", 50);
    refused(2, ES_E_FORMAT, "run.magic", "");
    count_files(true);
}

/* A whole run that was stopped has cells, but does not say how many there are in all. */
static void an_unfinished_whole_run_is_no_shard(void **state)
{
    (void)state;
    es_answer *a;
    int left = 1;
    const es_study_opts opts = {.seed = 3, .out = part(2), .progress = stop_soon, .user = &left};
    run_shard(1, 2, (es_study_opts){.seed = 3});
    assert_int_equal(run_study(&small, NULL, opts, &a), ES_E_INTERRUPTED);
    refused(2, ES_E_ARGUMENT, "merge.whole", "not a shard");
    count_files(true);
}

static void names_are_looked_at(void **state)
{
    (void)state;
    const char *paths[3] = {part(1), part(2), part(3)};
    make_two();
    assert_int_equal(es_run_join(paths, 0, all_of_it(), &(es_run_join_opts){0}, NULL, &err),
                     ES_E_EMPTY);
    assert_string_equal(err.rule, "merge.none");
    assert_int_equal(es_run_join(paths, 2, NULL, &(es_run_join_opts){0}, NULL, &err),
                     ES_E_ARGUMENT);
    /* the same file under another name is the same file */
    assert_int_equal(symlink(part(1), part(3)), 0);
    refused(3, ES_E_ARGUMENT, "merge.twice", "twice");
    const es_run_join_opts force = {.overwrite = true};
    assert_int_equal(es_run_join(paths, 2, part(3), &force, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "merge.output");
    /* what is there stays, unless it may go */
    write_file("all.run", "precious", 8);
    assert_int_equal(join(2, &(es_run_join_opts){0}, NULL), ES_E_EXISTS);
    assert_ok(join(2, &force, NULL));
    check_joined(11, 3.0);
    count_files(true);
}

/* ---- cells that are not what they should be ---- */

static void change_file(int which, const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(part(which), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* One bit of one cell that both shards have, with a checksum that is right. */
static void flip_bit(int which, int64_t cell)
{
    es_run *run, *writer;
    double values[2];
    uint64_t bits;
    assert_ok(es_run_open(part(which), &run, &err));
    const es_run_about about = es_run_info(run);
    const es_run_spec spec = {about.command, about.params, about.params_count, NULL, 0};
    assert_ok(es_run_resume(part(which), &spec, &writer, &err));
    assert_ok(es_run_get_cell(writer, 0, cell, values, &err));
    memcpy(&bits, &values[1], sizeof bits);
    bits ^= 1;
    memcpy(&values[1], &bits, sizeof bits);
    assert_ok(es_run_put_cell(writer, 0, cell, values, &err));
    assert_ok(es_run_close(writer, &err));
    assert_ok(es_run_close(run, &err));
}

static void overlaps_have_the_same_bits(void **state)
{
    (void)state;
    es_run_joined joined;
    make_two(); /* squares 0-4 and, because its sums need them all, 0-10 */
    assert_ok(join(2, &(es_run_join_opts){0}, &joined));
    assert_int_equal(joined.twice, 5);
    remove(all_of_it());
    flip_bit(2, 3);
    refused(2, ES_E_FORMAT, "merge.overlap", "cell 3 of stage squares differs from the one in ");
    assert_string_equal(err.file, part(2));
    assert_non_null(strstr(err.message, "part-1.run"));
    /* what only one of them has is its own business */
    make_two();
    flip_bit(2, 7);
    assert_ok(join(2, &(es_run_join_opts){0}, &joined));
    count_files(true);
}

static void damage_is_named_and_mended(void **state)
{
    (void)state;
    make_two();
    change_file(2, "UPDATE cell SET data = zeroblob(length(data)) WHERE stage = 1 AND idx = 6");
    refused(2, ES_E_FORMAT, "run.checksum", "cell 6 of stage sums is invalid");
    assert_string_equal(err.file, part(2));
    squared = summed = 0;
    run_shard(2, 2, (es_study_opts){.seed = 3, .resume = true});
    assert_int_equal(summed, 1);
    assert_ok(join(2, &(es_run_join_opts){0}, NULL));
    check_joined(11, 3.0);
    count_files(true);
}

/* ---- a join that cannot end (FS07) ---- */

static bool stop_at_once(void *user, double done, double total)
{
    (void)user;
    return total > 0.0 && done > 0.5;
}

static void nothing_is_left_of_half_a_join(void **state)
{
    (void)state;
    struct rlimit before, tiny;
    es_answer *a;
    es_run_joined joined;
    for (int shard = 1; shard <= 2; shard++) {
        const es_study_opts opts = {.shard = shard, .shards = 2, .out = part(shard)};
        assert_ok(run_study(&small, "1500", opts, &a));
        es_answer_free(a);
    }
    const int files = count_files(false);
    const es_run_join_opts stop = {.progress = stop_at_once};
    assert_int_equal(join(2, &stop, NULL), ES_E_INTERRUPTED);
    assert_int_equal(count_files(false), files);
    /* a disk that is full after so many bytes: while the file is made, or its cells are written */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    for (rlim_t capacity = 8192; capacity <= 65536; capacity *= 2) {
        tiny = (struct rlimit){capacity, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &tiny);
        const es_status status = join(2, &(es_run_join_opts){0}, NULL);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(status, ES_E_IO);
        assert_string_equal(err.file, all_of_it());
        assert_int_equal(count_files(false), files);
    }
    assert_ok(join(2, &(es_run_join_opts){0}, &joined));
    assert_int_equal(joined.cells, 3000);
    count_files(true);
}

static bool die_midway(void *user, double done, double total)
{
    (void)user;
    if (total > 0.0 && done > 0.5)
        raise(SIGKILL);
    return false;
}

static void a_killed_join_is_done_again(void **state)
{
    (void)state;
    int code;
    make_two();
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        join(2, &(es_run_join_opts){.progress = die_midway}, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFSIGNALED(code));
    assert_int_not_equal(access(all_of_it(), F_OK), 0);
    assert_ok(join(2, &(es_run_join_opts){0}, NULL));
    check_joined(11, 3.0);
    count_files(true);
}

TEST_FILE(run_join)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_named),
        cmocka_unit_test(files_that_do_not_fit),
        cmocka_unit_test(an_unfinished_whole_run_is_no_shard),
        cmocka_unit_test(names_are_looked_at),
        cmocka_unit_test(overlaps_have_the_same_bits),
        cmocka_unit_test(damage_is_named_and_mended),
        cmocka_unit_test(nothing_is_left_of_half_a_join),
        cmocka_unit_test(a_killed_join_is_done_again),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
