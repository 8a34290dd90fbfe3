/* SPDX-License-Identifier: Apache-2.0 */
/* test_stream.c : `probe` on a pool that is stored and on one that is streamed, by one process and
 * by several: the same answers, to the bit. The process that compares computes nothing itself:
 * threads of BLAS do not outlive a fork. */
#define _DEFAULT_SOURCE /* for fork_fabric.h */
#include "testing.h"

#include <esscher/run.h>

#include "fork_fabric.h"
#include "tiny_pool.h"

enum { WORDS = 1500 };
static char text[2][1100];

static int set_up(void **state)
{
    static int32_t ids[WORDS];
    if (make_model_folder(state) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "b.txt" : "a.txt";
        snprintf(text[i], sizeof text[i], "%.1s=%s", name,
                 write_words(name, (uint64_t)(17 + i), WORDS, ids));
    }
    return 0;
}

enum { MOST_WORDS = 48 };

static void add(const char **to, const char *const *words)
{
    while (*to)
        to++;
    while (*words)
        *to++ = *words++;
}

static void common_words(const char **to)
{
    add(to,
        (const char *const[]){"probe", "model", folder, "n", "10..60*3", "control", "0",
                              "replicates", "2", "query-count", "12", "exact-queries", "2", NULL});
}

/* The answer of a probe with these words, of a stored pool or a streamed one. */
static char *answer(const char *const *words, bool streamed, int ranks)
{
    const char *all[MOST_WORDS] = {0};
    common_words(all);
    add(all, words);
    if (streamed)
        add(all, (const char *const[]){"stream", "yes", NULL});
    return fork_json(all, 5, ranks, 1);
}

typedef struct way {
    bool streamed;
    int ranks;
} way;

static void compare(const char *const *words, const way *ways, int count)
{
    char *stored = answer(words, false, 1);
    for (int i = 0; i < count; i++) {
        char *other = answer(words, ways[i].streamed, ways[i].ranks);
        assert_string_equal(other, stored);
        free(other);
    }
    free(stored);
}

static void draws_of_domains_are_the_same(void **state)
{
    (void)state;
    const char *const words[] = {"domain", text[0], "domain", text[1],   "special",
                                 "drop",   "store", "f16",    "shuffle", "word",
                                 "repeat", "yes",   "pool",   "20000",   NULL};
    compare(words, (const way[]){{true, 3}, {false, 2}}, 2);
}

/* Larger than the keys among which neighbours are sought: most rows are not kept. */
static void windows_and_passages_are_the_same(void **state)
{
    (void)state;
    const char *const words[] = {"text",   text[0] + 2, "draw", "contiguous", "protocol", "paper",
                                 "repeat", "yes",       "pool", "30000",      NULL};
    compare(words, (const way[]){{true, 2}}, 1);
}

static void draws_without_replacement_are_the_same(void **state)
{
    (void)state;
    const char *const words[] = {"text", text[0] + 2, "draw", "without", "pool", "800", NULL};
    compare(words, (const way[]){{true, 1}}, 1);
}

/* ---- shards ---- */

typedef struct shard_of {
    const char *const *words;
    int64_t shard, shards;
    const char *out;
} shard_of;

static int run_shard(const es_fabric *fabric, void *user)
{
    const shard_of *s = user;
    const es_study *probe = es_study_find("probe");
    const es_study_opts opts = {
        .seed = 5, .exec.threads = 1, .shard = s->shard, .shards = s->shards, .out = s->out};
    es_params *params;
    es_answer *a = NULL;
    es_error e = {0};
    (void)fabric;
    es_status status = es_params_new(probe->params, probe->size, &params, &e);
    for (int i = 1; status == ES_OK && s->words[i]; i += 2)
        status = es_params_set(params, s->words[i], s->words[i + 1], &e);
    if (status == ES_OK)
        status = es_study_run(probe, params, &opts, &a, &e);
    es_answer_free(a);
    es_params_free(params);
    return status == ES_OK ? 0 : 1;
}

static void check_cells(const char *path, const char *name, int64_t cells)
{
    es_run *run;
    es_run_stage stage = {0};
    assert_ok(es_run_open(path, &run, &err));
    for (int64_t i = 0; i < es_run_info(run).stages_count; i++) {
        assert_ok(es_run_get_stage(run, i, &stage, &err));
        if (strcmp(stage.name, name) == 0)
            break;
    }
    assert_string_equal(stage.name, name);
    assert_int_equal(stage.cells, cells);
    assert_ok(es_run_close(run, &err));
}

/* Three layers, three shards: each walks for its own layer, and for no other. */
static void shards_divide_the_walks(void **state)
{
    (void)state;
    enum { SHARDS = 3 };
    char files[SHARDS + 1][512];
    const char *const paths[] = {files[0], files[1], files[2]};
    int code;
    const char *words[MOST_WORDS] = {0};
    common_words(words);
    add(words, (const char *const[]){"text", text[0] + 2, "pool", "800", "stream", "yes", NULL});
    for (int i = 0; i <= SHARDS; i++)
        snprintf(files[i], sizeof files[i], "%s/shard-%d.run", folder, i);
    for (int i = 0; i < SHARDS; i++) {
        shard_of one = {words, i + 1, SHARDS, files[i]};
        fork_ranks(1, run_shard, &one, &code);
        assert_int_equal(code, 0);
        check_cells(files[i], "limit", 1);
        check_cells(files[i], "exact-slices", 1);
    }
    assert_ok(es_run_join(paths, SHARDS, files[SHARDS], &(es_run_join_opts){0}, NULL, &err));
    char json[512];
    snprintf(json, sizeof json, "%s", in_folder("joined.json"));
    fork_study all = {words, 5, 1, json, files[SHARDS]};
    fork_ranks(1, fork_run_study, &all, &code);
    assert_int_equal(code, 0);
    char *joined = fork_read_answer(json), *whole = fork_json(words, 5, 1, 1);
    assert_string_equal(joined, whole);
    free(joined);
    free(whole);
}

/* ---- folders ---- */

/* Ranks that do not see one folder: rank 1 looks elsewhere, as on another machine. */
static int build_elsewhere(const es_fabric *fabric, void *user)
{
    es_executor *executor;
    es_error e = {0};
    (void)user;
    if (es_ranks_new(fabric, &executor, &e) != ES_OK)
        return 2;
    const es_exec exec = {.threads = 1, .executor = executor};
    es_pool_spec spec = pool_spec_of("a.txt", fabric->rank ? "there" : "here");
    spec.tokens = 100;
    const es_status status = es_pool_build(&spec, &exec, &e);
    es_ranks_free(executor);
    return status == ES_E_IO && strcmp(e.rule, "pool.shared") == 0 && strstr(e.message, "rank 1")
               ? 0
               : 1;
}

static void ranks_that_see_another_folder_are_named(void **state)
{
    (void)state;
    int codes[FORK_RANKS];
    fork_ranks(2, build_elsewhere, NULL, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
    assert_int_equal(access(in_folder("there"), F_OK), -1); /* nothing was begun there */
    remove_pool("here");
}

TEST_FILE(stream)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_of_domains_are_the_same),
        cmocka_unit_test(windows_and_passages_are_the_same),
        cmocka_unit_test(draws_without_replacement_are_the_same),
        cmocka_unit_test(shards_divide_the_walks),
        cmocka_unit_test(ranks_that_see_another_folder_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, remove_model_folder);
}
