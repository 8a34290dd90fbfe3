/* SPDX-License-Identifier: Apache-2.0 */
/* test_downstream_cache.c : the study `downstream` with caches of a decoder. Embeddings are
 * compared with means of hidden states that the model gives with a cache of the public functions,
 * text by text, whose prompt and keys are written down here. */
#include "folder.h"
#include "golden.h"

#include <esscher/cache.h>
#include <esscher/plan.h>
#include <esscher/study.h>

#include "experiments/downstream/downstream.h"
#include "table/table.h"

enum { TEXTS = 3, H = 48 };

static es_model *decoder;
static int32_t ids[120];
static int64_t start[TEXTS + 1] = {0, 30, 71, 83}; /* texts of 30, 41 and 12 tokens */

static int set_up(void **state)
{
    for (int i = 0; i < 120; i++)
        ids[i] = (31 * i + 7) % 96;
    return make_folder(state) != 0 ? -1
           : es_model_open(golden_path("decoders/llama"), &(es_model_opts){.precision = ES_F64},
                           &decoder, &err) == ES_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    es_model_close(decoder);
    return remove_folder(state);
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

/* A text that ends before the prompt does loses no keys by a plan, whose types it keeps. */
static void short_texts_have_the_types_of_a_plan(void **state)
{
    (void)state;
    enum { UNITS = 64 };
    const es_model_config *c = es_model_config_of(decoder);
    const es_blocks texts = {.ids = ids, .start = start + 2, .count = 1};
    const es_downstream lab = {.model = decoder, .texts = &texts, .embed = true};
    es_cache_unit units[2][UNITS] = {0};
    double found[2][H + 1];
    assert_true(c->layers * c->kv_heads <= UNITS);
    for (int i = 0; i < 2; i++) {
        es_cache_setting setting = {
            .mode = i ? ES_EVICT_NOTHING : ES_EVICT_PROMPT, .prompt = 20, .units = units[i]};
        for (int64_t u = 0; u < c->layers * c->kv_heads; u++) {
            if (!i)
                assert_ok(es_evict_parse("h2o", &units[i][u].evict, &err));
            units[i][u].evict.keys = i ? 0 : 3;
            assert_ok(es_kv_format_parse(u % 2 ? "q4_0" : "f16", &units[i][u].k, &err));
            assert_ok(es_kv_format_parse(u % 3 ? "q4_0" : "q8_0", &units[i][u].v, &err));
        }
        setting.unit = units[i][0];
        const es_thinning t = {.cache = &setting, .layer = -1};
        assert_ok(es_downstream_run(&lab, &t, 0, 1, NULL, found[i], &err));
    }
    assert_memory_equal(found[0], found[1], H * sizeof *found[0]);
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

/* Returns whether a finding has these words. */
static bool is_found(const es_answer *a, const char *words)
{
    for (int64_t k = 0; es_answer_finding(a, k); k++)
        if (strstr(es_answer_finding(a, k), words))
            return true;
    return false;
}

/* Writes a plan for pebble in which each head keeps 8 keys of h2o in q8_0. Layers from `first` on
 * keep everything. */
static void write_plan(const char *file, es_plan_mode mode, int64_t first)
{
    es_model_config c;
    char config[512];
    es_plan *p;
    snprintf(config, sizeof config, "%s/config.json", pebble);
    assert_ok(es_model_config_load(config, &c, &err));
    assert_ok(es_plan_new_cache(&c, mode, mode == ES_PLAN_PROMPT ? 40 : 0, 80, NULL, &p, &err));
    for (int64_t u = 0; u < first * c.kv_heads; u++) {
        es_plan_unit *unit = &p->unit[u];
        snprintf(unit->policy, sizeof unit->policy, "h2o:sinks=0:recent=4");
        snprintf(unit->k_type, sizeof unit->k_type, "q8_0");
        snprintf(unit->v_type, sizeof unit->v_type, "q8_0");
        unit->keys = 8;
    }
    assert_ok(es_plan_save(p, file, true, &err));
    es_plan_free(p);
}

/* A plan of a cache runs in its mode, as the same options do; one that keeps the keys of a layer
 * changes less. */
static void plans_of_caches_run_in_their_mode(void **state)
{
    (void)state;
    static const char *const modes[] = {"prompt", "decode"};
    char file[512];
    snprintf(file, sizeof file, "%s", in_folder("p.plan.json"));
    for (int i = 0; i < 2; i++) {
        const es_plan_mode mode = i ? ES_PLAN_DECODE : ES_PLAN_PROMPT;
        const char *const options[] = {"evict", modes[i],  "policy", "h2o:recent=4",      "keys",
                                       "8",     "kv-type", "q8_0",   i ? NULL : "prompt", "40",
                                       NULL};
        es_answer *asked = ask(options, 1, ES_OK), *planned[2];
        for (int k = 0; k < 2; k++) {
            write_plan(file, mode, 4 - k);
            planned[k] = ask((const char *const[]){"plan", file, NULL}, 2, ES_OK);
        }
        const es_table *t = es_answer_find(planned[0], "rows");
        const double cosine = es_table_get(t, 1, "cosine"),
                     other = es_table_get(es_answer_find(planned[1], "rows"), 1, "cosine");
        assert_int_equal(es_table_rows(t), 2);
        assert_equals(cosine, es_table_get(es_answer_find(asked, "rows"), 1, "cosine"));
        assert_below(cosine, 1.0 - 1e-4);
        assert_above(other, cosine);
        assert_string_equal(es_table_get_text(t, 1, "policy"), "plan p.plan.json");
        assert_string_equal(es_table_get_text(t, 1, "evict"), modes[i]);
        assert_int_equal(is_found(planned[0], "after the first 40 tokens of each text"), !i);
        assert_true(is_found(planned[0], "made for 80 tokens and texts have up to "));
        es_answer_free(asked);
        es_answer_free(planned[0]);
        es_answer_free(planned[1]);
    }
    ask((const char *const[]){"plan", file, "ablate", "yes", NULL}, 1, ES_E_ARGUMENT);
    assert_string_equal(err.rule, "downstream.options");
}

/* Texts that end before the prompt does lose nothing, which a mean over texts does not show. */
static void short_texts_are_a_caution(void **state)
{
    (void)state;
    static const char *const prompts[] = {"1", "100", "1000"};
    for (int i = 0; i < 3; i++) {
        const char *const options[] = {
            "evict",    "prompt", "policy", "stream", "keys", "1", i == 2 ? NULL : "prompt",
            prompts[i], NULL};
        es_answer *a = ask(options, 1, ES_OK);
        assert_int_equal(is_found(a, "texts are not longer than the prompt and lose no keys"),
                         i == 1);
        es_answer_free(a);
    }
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
        cmocka_unit_test(short_texts_have_the_types_of_a_plan),
        cmocka_unit_test(rows_name_the_cache),
        cmocka_unit_test(plans_of_caches_run_in_their_mode),
        cmocka_unit_test(short_texts_are_a_caution),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
