/* SPDX-License-Identifier: Apache-2.0 */
/* test_downstream_cache.c : the study `downstream` with caches of a decoder. Embeddings are
 * compared with means of hidden states that the model gives with a cache of the public functions,
 * text by text, whose prompt and keys are written down here. */
#include "golden.h"

#include <esscher/cache.h>
#include <esscher/study.h>

#include "experiments/downstream/downstream.h"
#include "table/table.h"

enum { TEXTS = 3, H = 48 };

static es_model *decoder;
static int32_t ids[120];
static int64_t start[TEXTS + 1] = {0, 30, 71, 83}; /* texts of 30, 41 and 12 tokens */

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < 120; i++)
        ids[i] = (31 * i + 7) % 96;
    return es_model_open(golden_path("decoders/llama"), &(es_model_opts){.precision = ES_F64},
                         &decoder, &err) == ES_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    es_model_close(decoder);
    return 0;
}

/* What the cache of one text is asked for. */
typedef struct request {
    const char *evict, *policy, *k_type, *v_type;
    double share;
    int64_t prompt[TEXTS], keys[TEXTS]; /* of each text; prompt 0: nothing is dropped */
} request;

/* Returns the mean of the last hidden states of text t. */
static void embed(const request *w, int t, double out[H])
{
    static double last[64 * H];
    const int64_t n = start[t + 1] - start[t];
    const bool drops = w->evict && (strcmp(w->evict, "decode") == 0 || w->prompt[t]);
    const es_cache_opts opts = {.evict = drops ? w->evict : NULL,
                                .policy = drops ? w->policy : NULL,
                                .prompt = w->prompt[t],
                                .keys = w->keys[t],
                                .k_type = w->k_type,
                                .v_type = w->v_type};
    es_cache *cache;
    assert_ok(es_cache_new(es_model_config_of(decoder), &opts, n, NULL, &cache, &err));
    assert_ok(es_cache_look_ahead(cache, decoder, ids + start[t], NULL, &err));
    const es_model_block b = {.ids = ids + start[t], .n = n, .last = last, .cache = cache};
    assert_ok(es_model_forward(decoder, &b, 1, NULL, &err));
    es_cache_free(cache);
    memset(out, 0, H * sizeof *out);
    for (int64_t i = 0; i < n * H; i++)
        out[i % H] += last[i] / (double)n;
}

/* Prompts are half of each text, rounded down, or 20 tokens, which the last text has not; shares
 * are of the prompt or of the text, to the nearest whole number. */
static void embeddings_are_those_of_each_text(void **state)
{
    (void)state;
    static const request cases[] = {
        {"prompt", "h2o", NULL, NULL, 0.25, {15, 20, 6}, {4, 5, 2}}, /* 3.75, 5, 1.5 */
        {"prompt", "oracle", NULL, NULL, 0.25, {15, 20, 6}, {4, 5, 2}},
        {"prompt", "stream", NULL, NULL, 0.0, {20, 20, 0}, {6, 6, 6}},
        {"decode", "tova", NULL, NULL, 0.25, {0}, {8, 10, 3}}, /* 7.5, 10.25, 3 */
        {"decode", "h2o", "q4_0", "q8_0", 0.0, {0}, {9, 9, 9}},
        {NULL, NULL, "q4_0", "q4_0", 0.0, {0}, {0}},
    };
    const es_blocks texts = {.ids = ids, .start = start, .count = TEXTS};
    const es_downstream lab = {.model = decoder, .texts = &texts, .embed = true};
    double full[TEXTS * (H + 1)], found[TEXTS * (H + 1)], mean[H];
    assert_ok(es_downstream_run(&lab, NULL, 0, TEXTS, NULL, full, &err));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const request *w = &cases[c];
        es_cache_setting setting = {.mode = !w->evict                         ? ES_EVICT_NOTHING
                                            : strcmp(w->evict, "prompt") == 0 ? ES_EVICT_PROMPT
                                                                              : ES_EVICT_DECODE,
                                    .prompt = 20};
        if (w->policy)
            assert_ok(es_evict_parse(w->policy, &setting.unit.evict, &err));
        setting.unit.evict.keys = w->keys[0];
        if (w->k_type) {
            assert_ok(es_kv_format_parse(w->k_type, &setting.unit.k, &err));
            assert_ok(es_kv_format_parse(w->v_type, &setting.unit.v, &err));
        }
        const es_thinning thinning = {
            .cache = &setting, .half = w->share > 0.0, .share = w->share, .layer = -1};
        assert_ok(es_downstream_run(&lab, &thinning, 0, TEXTS, NULL, found, &err));
        for (int t = 0; t < TEXTS; t++) {
            double off = 0.0;
            embed(w, t, mean);
            for (int j = 0; j < H; j++) {
                const double x = found[t * (H + 1) + j];
                assert_near(x, mean[j], 1e-12); /* the same pass of the model: sums of 41 rows */
                off = fmax(off, fabs(x - full[t * (H + 1) + j]));
            }
            if (c == 2 && t == 2) /* the text ends before the prompt does */
                assert_below(off, 1e-12);
            else
                assert_above(off, 1e-5);
        }
    }
    assert_close(full[H], 15.5, 1e-12); /* keys of a query, mean of 1 .. 30 */
}

/* The cache of one layer changes what that layer makes, and less than the caches of all. */
static void one_layer_has_a_cache(void **state)
{
    (void)state;
    const es_blocks texts = {.ids = ids, .start = start, .count = TEXTS};
    const es_downstream lab = {.model = decoder, .texts = &texts, .embed = true};
    es_cache_setting setting = {.mode = ES_EVICT_DECODE};
    assert_ok(es_evict_parse("h2o", &setting.unit.evict, &err));
    setting.unit.evict.keys = 5;
    double found[4][TEXTS * (H + 1)];
    for (int layer = -1; layer < 3; layer++) {
        const es_thinning t = {.cache = &setting, .layer = layer};
        assert_ok(es_downstream_run(&lab, &t, 0, TEXTS, NULL, found[layer + 1], &err));
    }
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < a; b++)
            assert_differs(found[a][0], found[b][0]);
    assert_above(found[1][H], found[0][H]); /* other layers see all keys */
}

/* ---- the study ---- */

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";
static const char alice[] = ES_TESTS_DIR "/../models/pebble/alice.txt";

/* Asks with pairs of texts; NULL ends them. */
static es_answer *ask(const char *const *options, int threads, es_status want)
{
    const es_study *study = es_study_find("downstream");
    es_params *p;
    es_answer *a = NULL;
    es_status status = ES_OK;
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    assert_ok(es_params_set(p, "model", pebble, &err));
    assert_ok(es_params_set(p, "text", alice, &err));
    assert_ok(es_params_set(p, "most", "4", &err));
    for (; options[0] && status == ES_OK; options += 2)
        status = es_params_set(p, options[0], options[1], &err);
    if (status == ES_OK)
        status = es_study_run(study, p, &(es_study_opts){.exec.threads = threads}, &a, &err);
    assert_int_equal(status, want);
    es_params_free(p);
    return a;
}

/* Rows name the setting, two threads find the same bits, and fewer keys are further away. */
static void rows_name_the_cache(void **state)
{
    (void)state;
    const char *const options[] = {"evict",     "prompt",  "policy", "h2o,stream", "ratio",
                                   "0.125,0.5", "kv-type", "q8_0",   NULL};
    es_answer *a = ask(options, 1, ES_OK), *b = ask(options, 2, ES_OK);
    const es_table *t = es_answer_find(a, "rows"), *u = es_answer_find(b, "rows");
    assert_int_equal(es_table_rows(t), 5);
    for (int64_t r = 1; r < 5; r++) {
        const double cosine = es_table_get(t, r, "cosine"), same = es_table_get(u, r, "cosine");
        assert_memory_equal(&cosine, &same, sizeof cosine);
        assert_string_equal(es_table_get_text(t, r, "evict"), "prompt");
        assert_string_equal(es_table_get_text(t, r, "policy"), r < 3 ? "h2o" : "stream");
        assert_string_equal(es_table_get_text(t, r, "k_type"), "q8_0");
        assert_string_equal(es_table_get_text(t, r, "v_type"), "q8_0");
        assert_near(es_table_get(t, r, "keep"), r % 2 ? 0.125 : 0.5, 0.0);
    }
    for (int64_t r = 1; r < 5; r += 2)
        assert_below(es_table_get(t, r, "cosine"), es_table_get(t, r + 1, "cosine"));
    assert_non_null(strstr(es_answer_finding(a, 0), "1/8 of the prompt's keys"));
    es_answer_free(a);
    es_answer_free(b);
}

static void options_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *options[9];
    } cases[] = {
        {"cache.options", {"evict", "prompt", "ratio", "0.5"}},
        {"cache.options", {"evict", "prompt", "policy", "h2o"}},
        {"cache.options", {"kv-type", "q8_0", "policy", "top"}},
        {"cache.options", {"kv-type", "q8_0", "window", "4"}},
        {"downstream.options", {"evict", "prompt", "policy", "h2o", "keep", "0.5"}},
        {"downstream.options",
         {"evict", "prompt", "policy", "h2o", "ratio", "0.5", "strata", "yes"}},
        {"downstream.options", {"kv-type", "q8_0", "ablate", "yes"}},
        {"evict.mode", {"evict", "decode", "policy", "knorm", "ratio", "0.5"}},
        {"cache.prompt", {"evict", "prompt", "policy", "h2o", "ratio", "0.5", "prompt", "4000"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(ask(cases[i].options, 1, ES_E_ARGUMENT));
        assert_string_equal(err.rule, cases[i].rule);
    }
}

TEST_FILE(downstream_cache)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_those_of_each_text),
        cmocka_unit_test(one_layer_has_a_cache),
        cmocka_unit_test(rows_name_the_cache),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
