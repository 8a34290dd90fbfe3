/* SPDX-License-Identifier: Apache-2.0 */
/* test_ranks_kills.c : ranks killed at random moments, and the run resumed: MP01. Half of the kills
 * hit rank 0, which has the run file.
 *
 * ESSCHER_KILLS=100 kills that many times; the default keeps the test short. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, usleep */
#include "testing.h"

#include <esscher/random.h>
#include <esscher/run.h>

#include "fork_fabric.h"

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

static void MP01_kills_of_any_rank_lose_nothing(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    const char *asked = getenv("ESSCHER_KILLS");
    const int wanted = asked ? atoi(asked) : 12;
    char out[512], json[512];
    snprintf(out, sizeof out, "%s", in_folder("kills.run"));
    snprintf(json, sizeof json, "%s", in_folder("kills.json"));
    char *expected = fork_json(converge, 5, 1, 1);
    int kills = 0, of_rank_0 = 0, finished = 0;
    for (uint32_t i = 0; kills < wanted || finished == 0; i++) {
        double chance[2];
        int codes[FORK_RANKS] = {0};
        assert_ok(es_uniform_rows(&(es_address){.seed = 1, .cell = i}, 1, 2, chance, &err));
        const int rank = chance[0] < 0.5 ? 0 : chance[0] < 0.75 ? 1 : 2;
        fork_study a = {converge, 5, 1, json, out};
        fork_kill who = {kills < wanted ? rank : -1, (int)(400.0 * chance[1])};
        fork_ranks_killing(RANKS, fork_run_study, &a, who, codes);
        int killed = 0;
        for (int r = 0; r < RANKS; r++)
            killed += codes[r] == 128 + SIGKILL;
        check_file(out);
        if (codes[0] != 0) { /* a run that was unfinished: of others it was no kill */
            kills++;
            of_rank_0 += codes[0] == 128 + SIGKILL;
            assert_int_equal(killed, 1); /* nothing else ends a run */
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
