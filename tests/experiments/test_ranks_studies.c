/* SPDX-License-Identifier: Apache-2.0 */
/* test_ranks_studies.c : the same answer, to the last bit, for any number of ranks and threads
 * (MP04), also after the disk of rank 0 was full. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, usleep */
#include "testing.h"

#include <sys/resource.h>

#include "fork_fabric.h"
#include "tiny_model.h"

static char model[512], text[512], tasks[512];

static int make_model(void **state)
{
    tiny t = tiny_default();
    if (make_folder(state) != 0)
        return -1;
    t.labels = 2;
    tiny_draw(&t);
    tiny_write(&t);
    tiny_write_vocab(&t);
    tiny_free(&t);
    snprintf(model, sizeof model, "%s", folder);
    snprintf(tasks, sizeof tasks, "%s", in_folder("tasks.tsv"));
    FILE *f = fopen(tasks, "w");
    for (int i = 0; f && i < 40; i++)
        fprintf(f, "word%d the cat word%d\t%d\n", 15 + i % 16, 15 + i * i % 16, i % 2);
    if (!f || fclose(f))
        return -1;
    snprintf(text, sizeof text, "%s", in_folder("text"));
    f = fopen(text, "w");
    for (int i = 0; f && i < 400; i++)
        fprintf(f, "%c%s", 'a' + i * i % 17, i % 11 ? " " : ". ");
    return f ? fclose(f) : -1;
}

/* What is measured must not depend on ranks; a different seed must differ, or nothing was. Quick
 * tests, which look for what sanitizers find, have 3 ranks alone. */
static void check_study(const char *const *words)
{
    const int ranks[] = {3, 2, 7}, counts = getenv("ESSCHER_QUICK_TESTS") ? 1 : 3;
    char *alone = fork_json(words, 7, 1, 1);
    for (int r = 0; r < counts; r++)
        for (int threads = ranks[r] == 7 ? 2 : 1; threads <= (ranks[r] == 3 ? 1 : 2); threads++) {
            char *json = fork_json(words, 7, ranks[r], threads);
            if (strcmp(json, alone) != 0)
                fail_msg("%s differs on %d ranks of %d threads", words[0], ranks[r], threads);
            free(json);
        }
    char *other = fork_json(words, 8, 2, 1);
    assert_string_not_equal(other, alone);
    free(other);
    free(alone);
}

static void MP04_synthetic_studies_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const all[][16] = {
        {"converge", "dim", "4", "n", "50..400*4", "scales", "0.5,1", "replicates", "9"},
        {"ball", "dim", "2", "n", "50..200*3", "replicates", "5"},
        {"regimes", "dim", "3", "n", "100,1000", "b", "1", "replicates", "8"},
        {"collapse", "n", "20,30", "rho", "0.2,0.4", "replicates", "4"},
        {"hardmax", "n", "100..1000*3", "replicates", "50"},
        {"picture", "n", "20,60", "query-count", "20", "perplexity", "9", "steps", "40"},
        {"depth", "synthetic", "yes", "n", "20,40,80", "replicates", "3", "depth", "2", "horizon",
         "0.5", "reference", "64"},
        {"claims", "only", "rope-decay"},
        {"claims", "only", "local-exponent"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check_study(all[i]);
}

static void MP04_studies_of_models_have_the_same_bits(void **state)
{
    (void)state;
    const char *const probe[] = {
        "probe", "model",       model,  "text",          text,         "n", "5,10,20",
        "pool",  "300",         "draw", "contiguous",    "replicates", "3", "control",
        "2",     "query-count", "8",    "exact-queries", "4",          NULL};
    const char *const tails[] = {"tails", "model",     model, "text",   text, "pool",
                                 "300",   "principal", "2",   "random", "2",  "query-count",
                                 "2",     "control",   "4",   NULL};
    const char *const stream[] = {
        "probe", "model",       model,    "text",          text,         "n", "5,10,20",
        "pool",  "300",         "stream", "yes",           "replicates", "2", "control",
        "2",     "query-count", "8",      "exact-queries", "4",          NULL};
    const char *const depth[] = {"depth",      "model",      model, "text", text, "policy",
                                 "random,top", "blocks",     "5",   "keys", "6",  "length",
                                 "24",         "directions", "2",   NULL};
    const char *const downstream[] = {"downstream", "model",  model,  "tasks",    tasks,
                                      "policy",     "random", "keep", "0.5,0.25", "strata",
                                      "yes",        "ablate", "yes",  NULL};
    check_study(probe);
    check_study(depth);
    check_study(stream);
    check_study(tails);
    const char *const loss[] = {"loss",
                                "model",
                                ES_TESTS_DIR "/../models/pebble",
                                "text",
                                text,
                                "block",
                                "48",
                                "blocks",
                                "3",
                                "policy",
                                "random,window",
                                "keys",
                                "8",
                                "score-scale",
                                "none,yarn",
                                NULL};
    const char *const budget[] = {"budget",
                                  "model",
                                  ES_TESTS_DIR "/../models/pebble",
                                  "text",
                                  text,
                                  "verify",
                                  text,
                                  "context",
                                  "32",
                                  "blocks",
                                  "3",
                                  "query-count",
                                  "4",
                                  "ratio",
                                  "0.25",
                                  "policy",
                                  "random,stream",
                                  NULL};
    check_study(downstream);
    check_study(loss);
    check_study(budget);
}

/* ---- a disk that is full ---- */

/* Rank 0 may not write more than some bytes into a file. */
static int run_on_a_small_disk(const es_fabric *fabric, void *user)
{
    if (fabric->rank == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, 100000});
    }
    return fork_run_study(fabric, user);
}

static void MP01_a_full_disk_on_rank_0_ends_the_job(void **state)
{
    (void)state;
    static const char *const words[] = {"converge",  "dim",        "4",    "n",
                                        "50..400*4", "replicates", "3000", NULL};
    char out[512], json[512];
    int codes[FORK_RANKS];
    snprintf(out, sizeof out, "%s", in_folder("full.run"));
    snprintf(json, sizeof json, "%s", in_folder("full.json"));
    fork_study a = {words, 7, 1, json, out};
    fork_ranks(3, run_on_a_small_disk, &a, codes);
    for (int r = 0; r < 3; r++)
        assert_int_equal(codes[r], 1); /* none hangs, none says that all is well */
    fork_ranks(2, fork_run_study, &a, codes);
    assert_int_equal(codes[0] + codes[1], 0);
    char *resumed = fork_read_answer(json), *whole = fork_json(words, 7, 1, 1);
    assert_string_equal(resumed, whole);
    free(whole);
    free(resumed);
}

TEST_FILE(ranks_studies)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(MP04_synthetic_studies_have_the_same_bits),
        cmocka_unit_test(MP04_studies_of_models_have_the_same_bits),
        cmocka_unit_test(MP01_a_full_disk_on_rank_0_ends_the_job),
    };
    return cmocka_run_group_tests(tests, make_model, remove_folder);
}
