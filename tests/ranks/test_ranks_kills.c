/* SPDX-License-Identifier: Apache-2.0 */
/* test_ranks_kills.c : ranks killed at random events, and the run resumed: MP01. Half of the kills
 * hit rank 0, which has the run file. An event is a message or a flush of the run file, so that a
 * kill is at the same place on a busy machine.
 *
 * ESSCHER_KILLS=100 kills that many times; the default keeps the test short. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, usleep */
#include "testing.h"

#include <esscher/random.h>
#include <esscher/run.h>

#include "fork_fabric.h"

/* SQLite flushes the run file with these instead of the C library's. A killed process loses nothing
 * for want of a flush: only a power cut would. */
__attribute__((visibility("default"))) int fsync(int fd)
{
    (void)fd;
    fork_event();
    return 0;
}

__attribute__((visibility("default"))) int fdatasync(int fd) { return fsync(fd); }

static const char *const converge[] = {"converge", "dim",     "6",          "n",  "100..2000*5",
                                       "scales",   "0.5,1,2", "replicates", "60", NULL};

/* A file that a kill left is either not there yet, or whole. */
static void check_file(const char *path)
{
    es_run *run;
    if (access(path, F_OK) != 0)
        return;
    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_close(run, &err));
}

/* Runs the study on three ranks, resuming `out`; one may kill itself. codes, events (3). */
static void run_ranks(char *json, char *out, fork_kill who, int *codes, int64_t *events)
{
    fork_study a = {converge, 5, 1, json, out};
    fork_ranks_killing(3, fork_run_study, &a, who, codes, events);
}

static void MP01_kills_of_any_rank_lose_nothing(void **state)
{
    (void)state;
    const char *asked = getenv("ESSCHER_KILLS");
    const int wanted = asked ? atoi(asked) : 12;
    int codes[3], kills = 0, of_rank_0 = 0, finished = 0;
    int64_t whole[3], events[3]; /* of an undisturbed run, of the last run */
    char out[512], json[512];
    snprintf(out, sizeof out, "%s", in_folder("kills.run"));
    snprintf(json, sizeof json, "%s", in_folder("kills.json"));
    char *expected = fork_json(converge, 5, 1, 1);
    run_ranks(json, out, (fork_kill){0, 0}, codes, whole);
    assert_int_equal(unlink(out), 0);
    for (uint32_t i = 0; kills < wanted || of_rank_0 == 0 || finished == 0; i++) {
        const bool more = kills < wanted || of_rank_0 == 0;
        double chance[2];
        assert_ok(es_uniform_rows(&(es_address){.seed = 1, .cell = i}, 1, 2, chance, &err));
        const int rank = chance[0] < 0.5 ? 0 : chance[0] < 0.75 ? 1 : 2;
        const int64_t at = more ? 1 + (int64_t)(chance[1] * (double)whole[rank]) : 0;
        run_ranks(json, out, (fork_kill){rank, at}, codes, events);
        check_file(out);
        if (codes[0] != 0) { /* unfinished: only a kill ends a run, and only the one asked for */
            kills++;
            of_rank_0 += rank == 0;
            assert_int_equal(codes[rank], 128 + SIGKILL);
            assert_equals(events[rank], at);
            for (int r = 0; r < 3; r++)
                assert_int_equal(codes[r] == 128 + SIGKILL, r == rank);
            continue;
        }
        char *found = fork_read_answer(json);
        assert_string_equal(found, expected);
        free(found);
        finished++;
        assert_int_equal(unlink(out), 0);
    }
    print_message("%d kills, %d of rank 0; %d runs finished after them\n", kills, of_rank_0,
                  finished);
    free(expected);
}

TEST_FILE(ranks_kills)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(MP01_kills_of_any_rank_lose_nothing)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
