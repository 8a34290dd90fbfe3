/* SPDX-License-Identifier: Apache-2.0 */
/* test_depth_cache.c : the study `depth` with caches. Errors are compared with hidden states of two
 * runs of the model through the public functions of caches, whose logits golden/cache checks. */
#include "golden.h"

#include <esscher/cache.h>
#include <esscher/study.h>

#include "experiments/depth/depth.h"
#include "table/table.h"

enum { N = 68, PROMPT = 40 };

static es_model *decoder;
static int32_t ids[N];

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        ids[i] = (31 * i + 7) % 96; /* 96 words, each once in 96 places */
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

/* Makes the setting that the options describe. */
static es_cache_setting setting_of(const es_cache_opts *o)
{
    es_cache_setting s = {.mode = !o->evict                         ? ES_EVICT_NOTHING
                                  : strcmp(o->evict, "prompt") == 0 ? ES_EVICT_PROMPT
                                                                    : ES_EVICT_DECODE,
                          .prompt = o->prompt};
    if (o->policy) {
        assert_ok(es_evict_parse(o->policy, &s.unit.evict, &err));
        s.unit.evict.keys = o->keys;
    }
    if (o->k_type)
        assert_ok(es_kv_format_parse(o->k_type, &s.unit.k, &err));
    if (o->v_type)
        assert_ok(es_kv_format_parse(o->v_type, &s.unit.v, &err));
    return s;
}

/* Runs the full model and one with a cache; returns all hidden states of both. */
static double *run_states(const es_cache_opts *o, int64_t all)
{
    double *x = malloc((size_t)(2 * all) * sizeof *x);
    es_cache *cache;
    assert_non_null(x);
    assert_ok(es_cache_new(es_model_config_of(decoder), o, N, NULL, &cache, &err));
    assert_ok(es_cache_look_ahead(cache, decoder, ids, NULL, &err));
    es_model_block full = {.ids = ids, .n = N, .hidden = x};
    es_model_block held = {.ids = ids, .n = N, .hidden = x + all, .cache = cache};
    assert_ok(es_model_forward(decoder, &full, 1, NULL, &err));
    assert_ok(es_model_forward(decoder, &held, 1, NULL, &err));
    es_cache_free(cache);
    return x;
}

/* Errors after the prompt by layer, of every mode, a policy that looks ahead, and types. Both sides
 * are f64: layers run one by one or together differ in the last bits, 1e-13 of states of order 1,
 * and a dropped or rounded key changes them by 1e-3 or more. */
static void errors_are_differences_of_states(void **state)
{
    (void)state;
    static const es_cache_opts cases[] = {
        {.evict = "prompt", .prompt = PROMPT, .policy = "h2o", .keys = 12},
        {.evict = "prompt", .prompt = PROMPT, .policy = "snapkv:window=8:sinks=2", .keys = 16},
        {.evict = "prompt", .prompt = PROMPT, .policy = "expected", .keys = 12},
        {.evict = "prompt", .prompt = PROMPT, .policy = "oracle", .keys = 12},
        {.evict = "prompt", .prompt = PROMPT, .policy = "snapkv:window=4:beta=4", .keys = 12},
        {.evict = "decode", .policy = "h2o", .keys = 16},
        {.evict = "decode", .policy = "tova", .keys = 16},
        {.evict = "prompt",
         .prompt = PROMPT,
         .policy = "stream",
         .keys = 12,
         .k_type = "q4_0",
         .v_type = "q8_0"},
        {.k_type = "q4_0", .v_type = "q4_0"},
    };
    const es_model_config *c = es_model_config_of(decoder);
    const int64_t H = c->hidden, all = (c->layers + 1) * N * H;
    es_depth_state *s = malloc((size_t)(c->layers + 1) * sizeof *s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double *x = run_states(&cases[i], all), *y = x + all;
        es_cache_setting setting = setting_of(&cases[i]);
        const es_depth_spec spec = {
            .model = decoder, .cache = &setting, .from = PROMPT, .layer = -1, .seed = 1};
        assert_ok(es_depth_block(&spec, ids, N, 0, NULL, s, &err));
        assert_equals(s[0].error2, 0.0);
        for (int64_t l = 1; l <= c->layers; l++) {
            double error2 = 0.0;
            for (int64_t at = (l * N + PROMPT) * H; at < (l + 1) * N * H; at++)
                error2 += (y[at] - x[at]) * (y[at] - x[at]) / (N - PROMPT);
            assert_above(error2, 1e-8);
            assert_close(s[l].error2, error2, 1e-8);
            assert_above(s[l].own2, 0.0);
        }
        /* the first layer gets the same state, and a cache chooses the same keys again */
        assert_close(s[1].own2, s[1].error2, 1e-12);
        free(x);
    }
    free(s);
}

/* A cache in one layer: nothing before it, its own error in it, no new one after it. */
static void one_layer_has_a_cache(void **state)
{
    (void)state;
    const es_cache_opts o = {.evict = "prompt", .prompt = PROMPT, .policy = "h2o", .keys = 8};
    es_cache_setting setting = setting_of(&o);
    es_depth_state s[4];
    for (int mode = 0; mode < 2; mode++) {
        const es_depth_spec spec = {
            .model = decoder, .cache = &setting, .from = PROMPT, .layer = 1, .seed = 1};
        assert_ok(es_depth_block(&spec, ids, N, 0, NULL, s, &err));
        assert_at_most(s[1].error2, 1e-24);
        assert_equals(s[1].own2, 0.0);
        assert_close(s[1].kept, (N + 1) / 2.0, 1e-12);
        assert_above(s[2].error2, 1e-8);
        assert_close(s[2].own2, s[2].error2, 1e-8);
        assert_below(s[2].kept, (N + 1) / 2.0 - 1.0);
        assert_at_most(s[3].fresh2, 1e-24);
        setting.mode = ES_EVICT_DECODE;
    }
}

/* If only the last token may differ, noise like its error is its error times a number. So the gain
 * of noise is that of the error, made small: to first order in the size, 1e-6. Noise on other
 * tokens, which are its keys, would change it. */
static void noise_is_where_errors_are(void **state)
{
    (void)state;
    const es_cache_opts o = {.evict = "prompt", .prompt = N - 1, .policy = "h2o", .keys = 12};
    const es_cache_setting setting = setting_of(&o);
    const es_depth_spec spec = {
        .model = decoder, .cache = &setting, .from = N / 2, .layer = -1, .size = 1e-6, .seed = 1};
    es_depth_state s[4];
    assert_ok(es_depth_block(&spec, ids, N, 0, NULL, s, &err));
    for (int l = 2; l < 4; l++) {
        assert_above(s[l].along2, 0.1);
        assert_close(s[l].gain2, s[l].along2, 1e-4);
    }
}

/* A cache that holds everything changes nothing, and an encoder has none. */
static void what_changes_nothing_and_what_cannot_be(void **state)
{
    (void)state;
    const es_cache_opts o = {.evict = "decode", .policy = "h2o", .keys = N};
    const es_cache_setting setting = setting_of(&o);
    es_depth_spec spec = {.model = decoder, .cache = &setting, .from = PROMPT, .layer = -1};
    es_depth_state s[4];
    assert_ok(es_depth_block(&spec, ids, N, 0, NULL, s, &err));
    for (int l = 1; l < 4; l++)
        assert_at_most(s[l].error2, 1e-24);
    spec.from = N;
    assert_int_equal(es_depth_block(&spec, ids, N, 0, NULL, s, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "depth.from");
}

/* ---- the study ---- */

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";
static const char alice[] = ES_TESTS_DIR "/../models/pebble/alice.txt";

/* Asks with pairs of texts; NULL ends them. */
static es_answer *ask(const char *const *settings, int threads, es_status want)
{
    const es_study *study = es_study_find("depth");
    es_params *p;
    es_answer *a = NULL;
    es_status status = ES_OK;
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; settings[0] && status == ES_OK; settings += 2)
        status = es_params_set(p, settings[0], settings[1], &err);
    if (status == ES_OK)
        status = es_study_run(study, p, &(es_study_opts){.exec.threads = threads}, &a, &err);
    assert_int_equal(status, want);
    es_params_free(p);
    return a;
}

/* Rows name the setting, the recursion holds, and two threads find the same bits. */
static void rows_name_the_cache(void **state)
{
    (void)state;
    const char *const settings[] = {"model",  pebble,   "text",    alice,    "length",  "96",
                                    "blocks", "2",      "policy",  "stream", "keys",    "24",
                                    "prompt", "40",     "kv-type", "q8_0",   "kv-type", "f32,q4_0",
                                    "evict",  "prompt", NULL};
    es_answer *a = ask(settings, 1, ES_OK), *b = ask(settings, 2, ES_OK);
    const es_table *t = es_answer_find(a, "rows"), *u = es_answer_find(b, "rows");
    assert_int_equal(es_table_rows(t), 8);
    for (int64_t r = 0; r < 8; r++) {
        const double error = es_table_get(t, r, "error"), own = es_table_get(t, r, "own");
        const double same = es_table_get(u, r, "error"), gain = es_table_get(t, r, "gain");
        assert_memory_equal(&error, &same, sizeof error);
        assert_string_equal(es_table_get_text(t, r, "evict"), "prompt");
        assert_string_equal(es_table_get_text(t, r, "policy"), "stream");
        assert_string_equal(es_table_get_text(t, r, "k_type"), r < 4 ? "q8_0" : "f32");
        assert_string_equal(es_table_get_text(t, r, "v_type"), r < 4 ? "q8_0" : "q4_0");
        assert_string_equal(es_table_get_text(t, r, "setting"),
                            r < 4 ? "stream, 24 keys, q8_0" : "stream, 24 keys, f32,q4_0");
        assert_near(es_table_get(t, r, "keys"), 24.0, 0.0);
        assert_near(es_table_get(t, r, "prompt"), 40.0, 0.0);
        const double before = r % 4 ? es_table_get(t, r - 1, "predicted") : 0.0;
        const double want = sqrt((r % 4 ? gain * gain * before * before : 0.0) + own * own);
        assert_close(es_table_get(t, r, "predicted"), want, 1e-6);
    }
    es_answer_free(a);
    es_answer_free(b);
}

/* Without a cache a decoder's rows are ideal, and --prompt says which tokens count. */
static void sparse_attention_is_ideal(void **state)
{
    (void)state;
    const char *const settings[] = {"model",  pebble, "text",   alice,   "length", "96",
                                    "blocks", "1",    "evict",  "ideal", "policy", "stream",
                                    "keys",   "24",   "prompt", "60",    NULL};
    es_answer *a = ask(settings, 1, ES_OK);
    const es_table *t = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(t), 4);
    assert_string_equal(es_table_get_text(t, 0, "evict"), "ideal");
    assert_near(es_table_get(t, 0, "prompt"), 60.0, 0.0);
    es_answer_free(a);
}

static void options_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *options[9];
    } cases[] = {
        {"cache.options", {"evict", "prompt", "keys", "8"}},     /* no policy */
        {"cache.options", {"evict", "prompt", "policy", "h2o"}}, /* no number */
        {"cache.options", {"evict", "decode", "policy", "h2o", "ratio", "0.5", "keys", "8"}},
        {"cache.options", {"policy", "h2o", "ratio", "0.5"}},
        {"cache.options", {"kv-type", "q4_0", "window", "8"}},
        {"cache.options", {"kv-type", "q4_0", "policy", "top"}},
        {"evict.mode", {"evict", "decode", "policy", "snapkv", "ratio", "0.5"}},
        {"evict.policy", {"evict", "prompt", "policy", "bigbird", "ratio", "0.5"}},
        {"cache.prompt", {"kv-type", "q4_0", "prompt", "95"}},
        {"cache.prompt", {"policy", "top", "prompt", "96"}},
        {"cache.together", {"evict", "decode", "policy", "h2o", "kv-type", "kivi2", "keys", "8"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *all[24] = {"model", pebble, "text", alice, "length", "96", "blocks", "1"};
        int used = 8;
        for (int k = 0; k < 9 && cases[i].options[k]; k++)
            all[used++] = cases[i].options[k];
        assert_null(ask(all, 1, ES_E_ARGUMENT));
        assert_string_equal(err.rule, cases[i].rule);
    }
}

TEST_FILE(depth_cache)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_differences_of_states),
        cmocka_unit_test(one_layer_has_a_cache),
        cmocka_unit_test(noise_is_where_errors_are),
        cmocka_unit_test(what_changes_nothing_and_what_cannot_be),
        cmocka_unit_test(rows_name_the_cache),
        cmocka_unit_test(sparse_attention_is_ideal),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
