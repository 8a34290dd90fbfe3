/* SPDX-License-Identifier: Apache-2.0 */
/* test_layers.c : layers of a model that differ: which kind each is, by the rules of its family,
 * and that masks, policies and caps hold in every layer as they do in the forward pass. */
#include "golden.h"

#include <esscher/model.h>
#include <esscher/npy.h>

#include "model/arch.h"
#include "model/model.h"
#include "model/sparse_head.h"

/* ---- kinds by rule ---- */

#define SIZES                                                                                      \
    "\"hidden_size\":16,\"num_hidden_layers\":6,\"num_attention_heads\":4,"                        \
    "\"num_key_value_heads\":2,\"intermediate_size\":32,\"vocab_size\":30,"                        \
    "\"max_position_embeddings\":64"

static es_status parse(const char *model_type, const char *rest, es_model_config *c)
{
    char text[2048];
    snprintf(text, sizeof text, "{\"model_type\":\"%s\",%s%s}", model_type, SIZES, rest);
    return es_config_parse((const unsigned char *)text, strlen(text), "config.json", c, &err);
}

/* Windows as digits times 8, and '-', 0 or 1 for the rotation, layer by layer. */
static void expect_kinds(const char *model_type, const char *rest, const char *windows,
                         const char *rotations)
{
    static const char words[] = "-01";
    es_model_config c;
    if (parse(model_type, rest, &c) != ES_OK)
        fail_msg("%s%s: %s", model_type, rest, err.message);
    for (int64_t l = 0; l < c.layers; l++) {
        const es_layer_kind *kind = es_model_layer(&c, l);
        if (kind->window != 8 * (windows[l] - '0') || words[kind->rotary + 1] != rotations[l])
            fail_msg("%s%s: layer %lld has window %lld and rotation %d", model_type, rest,
                     (long long)l, (long long)kind->window, kind->rotary);
    }
}

#define WINDOW  ",\"sliding_window\":8"
#define FULL    "\"full_attention\""
#define SLIDING "\"sliding_attention\""

static void kinds_of_layers_by_family(void **state)
{
    (void)state;
    expect_kinds("llama", "", "000000", "000000");
    expect_kinds("mistral", WINDOW, "111111", "000000");
    expect_kinds("mistral",
                 WINDOW ",\"layer_types\":[" SLIDING "," FULL "," FULL "," SLIDING "," FULL
                        "," SLIDING "," FULL "]",
                 "100101", "000000");
    expect_kinds("qwen2", WINDOW, "000000", "000000");
    expect_kinds("qwen2", WINDOW ",\"use_sliding_window\":true,\"max_window_layers\":4", "000011",
                 "000000");
    expect_kinds("gemma3_text", WINDOW ",\"sliding_window_pattern\":3", "110110", "110110");
    expect_kinds("gemma3_text", WINDOW, "111110", "111110");
    expect_kinds("gemma2", WINDOW, "101010", "000000");
    expect_kinds("olmo3", WINDOW, "111011", "111011");
    expect_kinds("cohere2", WINDOW, "111011", "000-00");
    expect_kinds("exaone4", WINDOW ",\"sliding_window_pattern\":\"LG\"", "101010", "0-0-0-");
    expect_kinds("exaone4", ",\"sliding_window\":null", "000000", "000000");
    expect_kinds("smollm3", "", "000000", "000-00");
    expect_kinds("smollm3", ",\"no_rope_layers\":[0,1,1,0,0,1]", "000000", "-00--0");
    expect_kinds("smollm3", WINDOW ",\"use_sliding_window\":true", "000100", "000-00");
    expect_kinds("mistral",
                 WINDOW ",\"rope_parameters\":{" FULL ":{\"rope_theta\":1e6}," SLIDING
                        ":{\"rope_theta\":1e4}}",
                 "111111", "111111");
}

/* Tokens that see those after them have half of the stated window to each side. */
static void windows_to_both_sides(void **state)
{
    es_model_config c;
    (void)state;
    assert_ok(
        parse("gemma3_text", ",\"sliding_window\":16,\"use_bidirectional_attention\":true", &c));
    assert_false(c.causal);
    assert_int_equal(es_model_layer(&c, 0)->window, 8);
    assert_int_equal(
        parse("gemma3_text", ",\"sliding_window\":1,\"use_bidirectional_attention\":true", &c),
        ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "config.window");
}

/* Counts the keys that a query sees by the definition of a window. */
static void keys_that_queries_see(void **state)
{
    enum { N = 13 };
    (void)state;
    for (int64_t window = 0; window <= N + 1; window++) {
        for (int causal = 0; causal < 2; causal++) {
            const es_past past = {causal != 0, window};
            double sum = 0.0;
            for (int64_t i = 0; i < N; i++) {
                int64_t count = 0;
                for (int64_t j = 0; j < N; j++) {
                    const bool near = !window || (causal ? i - j < window : llabs(i - j) <= window);
                    const bool seen = near && (!causal || j <= i);
                    count += seen;
                    assert_int_equal(seen,
                                     j >= es_past_begin(past, i) && j < es_past_end(past, i, N));
                }
                sum += (double)count;
            }
            assert_near(es_past_keys(past, N), sum / N, 1e-12);
        }
    }
}

/* Names a rule and a word of the message for what may not be stated. */
static void what_is_refused(void **state)
{
    static const struct {
        const char *model_type, *rest, *rule, *word;
    } cases[] = {
        {"gemma3_text", ",\"attn_logit_softcapping\":50.0", "config.function", "softcapping"},
        {"llama", ",\"final_logit_softcapping\":30.0", "config.function", "softcapping"},
        {"llama", ",\"no_rope_layers\":[1,1,0,1,1,1]", "config.function", "no_rope_layers"},
        {"smollm3", ",\"no_rope_layers\":[1,1]", "config.layers", "2 entries"},
        {"smollm3", ",\"no_rope_layers\":[1,2,1,1,1,1]", "config.range", "no_rope_layers"},
        {"exaone4", ",\"sliding_window_pattern\":\"LGLG\"", "config.range", "pattern"},
        {"qwen2", ",\"layer_types\":[" SLIDING "," FULL "," FULL "," FULL "," FULL "," FULL "]",
         "config.window", "sliding_attention"},
        {"phi3",
         ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1.0],"
         "\"long_factor\":[1.0,2.0]}",
         "config.rotary", "1 and 2"},
        {"mistral",
         ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2.0,"
         "\"llama_4_scaling_beta\":0.1}",
         "config.rotary", "llama_4_scaling_beta"},
        {"cohere", ",\"attn_logit_softcapping\":5.0", "config.function", "softcapping"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        es_model_config c;
        assert_int_not_equal(parse(cases[i].model_type, cases[i].rest, &c), ES_OK);
        if (strcmp(err.rule, cases[i].rule) != 0 || !strstr(err.message, cases[i].word))
            fail_msg("%s%s: %s (%s)", cases[i].model_type, cases[i].rest, err.rule, err.message);
    }
}

/* ---- in the forward pass ---- */

enum { MOST = 128, HEADS = 64 };

/* A model of tests/golden/decoders2 and its tokens. */
typedef struct golden_model {
    es_model *model;
    int32_t ids[MOST];
    int64_t n;
} golden_model;

static golden_model open_golden(const char *name)
{
    golden_model g;
    es_array ids;
    char rest[128];
    snprintf(rest, sizeof rest, "decoders2/%s", name);
    assert_ok(
        es_model_open(golden_path(rest), &(es_model_opts){.precision = ES_F64}, &g.model, &err));
    snprintf(rest, sizeof rest, "decoders2/%s/ids.npy", name);
    assert_ok(es_npy_load_as(golden_path(rest), ES_NPY_RAW_WHOLE, NULL, &ids, &err));
    g.n = ids.shape[0];
    for (int64_t i = 0; i < g.n; i++)
        g.ids[i] = (int32_t)((double *)ids.data)[i];
    es_array_free(&ids);
    return g;
}

static void run(const golden_model *g, const es_mask *mask, const es_policy_spec *specs,
                double *nll)
{
    const es_model_sparse sparse = {.heads = specs};
    const es_model_block block = {
        .ids = g->ids, .n = g->n, .nll = nll, .mask = mask, .sparse = specs ? &sparse : NULL};
    assert_ok(es_model_forward(g->model, &block, 1, &(es_exec){.threads = 1}, &err));
}

static double largest_difference(const golden_model *g, const double *a, const double *b)
{
    double most = 0.0;
    for (int64_t i = 0; i + 1 < g->n; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* A mask wider than the block changes nothing, in layers with and without a window; one as wide as
 * the window is what a policy of that many last keys is in every layer. Queries and keys of
 * gemma2's layers of both kinds turn alike, so that the layers differ in their window only. */
static void a_mask_narrows_what_layers_see(void **state)
{
    static const char *const names[] = {"gemma2", "gemma3", "qwen2-window-v5", "exaone4"};
    double own[MOST], wide[MOST], narrow[MOST], kept[MOST];
    es_policy_spec specs[HEADS];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        golden_model g = open_golden(names[i]);
        const es_model_config *c = es_model_config_of(g.model);
        const int64_t window = es_model_narrowest(c);
        assert_between(window, 0, g.n);
        assert_int_equal(es_model_widest(c), 0);
        assert_at_most(c->layers * c->heads, HEADS);
        run(&g, NULL, NULL, own);
        run(&g, &(es_mask){.causal = true, .window = g.n}, NULL, wide);
        assert_memory_equal(own, wide, (size_t)(g.n - 1) * sizeof(double));
        run(&g, &(es_mask){.causal = true, .window = window}, NULL, narrow);
        assert_above(largest_difference(&g, own, narrow), 1e-3);
        for (int64_t h = 0; h < c->layers * c->heads; h++) {
            es_policy_spec_init(&specs[h], es_policy_find("window"));
            specs[h].window = window;
        }
        run(&g, NULL, specs, kept);
        assert_below(largest_difference(&g, narrow, kept), 1e-9);
        es_model_close(g.model);
    }
}

/* A policy that keeps all keys is the forward pass, with its windows, scales and caps. */
static void policies_keep_what_layers_see(void **state)
{
    static const char *const names[] = {"gemma2", "gemma3", "granite", "olmo3", "ministral3"};
    double own[MOST], kept[MOST];
    es_policy_spec specs[HEADS];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        golden_model g = open_golden(names[i]);
        const es_model_config *c = es_model_config_of(g.model);
        assert_at_most(c->layers * c->heads, HEADS);
        for (int64_t h = 0; h < c->layers * c->heads; h++) {
            es_policy_spec_init(&specs[h], es_policy_find("top"));
            specs[h].keys = g.n;
        }
        run(&g, NULL, NULL, own);
        run(&g, NULL, specs, kept);
        assert_below(largest_difference(&g, own, kept), 1e-9);
        es_model_close(g.model);
    }
}

TEST_FILE(layers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_layers_by_family),
        cmocka_unit_test(windows_to_both_sides),
        cmocka_unit_test(keys_that_queries_see),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(a_mask_narrows_what_layers_see),
        cmocka_unit_test(policies_keep_what_layers_see),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
