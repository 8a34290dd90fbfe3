/* SPDX-License-Identifier: Apache-2.0 */
/* test_engines.c : what is exported to other engines: settings by hand, never less than planned,
 * and comments that say what is lost. */
#include "folder.h"
#include "numbers.h"

#include <esscher/plan_export.h>

#include "engines/engine.h"
#include "model/plan.h"

static const es_model_config small = {.hidden = 128,
                                      .layers = 3,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = 32,
                                      .vocab = 100,
                                      .positions = 256,
                                      .causal = true,
                                      .model_type = "llama"};

/* A unit of a plan, by texts. */
static void set_unit(es_plan *p, int64_t unit, const char *policy, int64_t keys, const char *k,
                     const char *v)
{
    es_plan_unit *u = &p->unit[unit];
    snprintf(u->policy, sizeof u->policy, "%s", policy);
    snprintf(u->k_type, sizeof u->k_type, "%s", k);
    snprintf(u->v_type, sizeof u->v_type, "%s", v);
    u->keys = keys;
    u->risk = 0.25;
}

/* A plan of 6 units of one policy, number of keys and type. */
static es_plan *same_units(es_plan_mode mode, const char *policy, int64_t keys, const char *type)
{
    es_plan *p;
    assert_ok(
        es_plan_new_cache(&small, mode, mode == ES_PLAN_PROMPT ? 64 : 0, 100, NULL, &p, &err));
    for (int64_t u = 0; u < 6; u++)
        set_unit(p, u, policy, keys, type, type);
    return p;
}

/* The text for an engine holds `says`. */
static void expect(const es_plan *p, const char *engine, const char *says)
{
    char *text;
    size_t size;
    assert_ok(es_plan_export(p, "p.json", engine, &text, &size, &err));
    assert_int_equal(strlen(text), size);
    if (!strstr(text, says))
        fail_msg("%s: not found: %s\n%s", engine, says, text);
    es_plan_export_free(text);
}

/* The text for an engine does not hold `says`. */
static void expect_not(const es_plan *p, const char *engine, const char *says)
{
    char *text;
    size_t size;
    assert_ok(es_plan_export(p, "p.json", engine, &text, &size, &err));
    if (strstr(text, says))
        fail_msg("%s: found: %s\n%s", engine, says, text);
    es_plan_export_free(text);
}

/* ---- the registry ---- */

static void every_engine_is_listed_once(void **state)
{
    static const char *const names[] = {ES_PLAN_ENGINES};
    (void)state;
    int64_t count = 0;
    for (; es_engine_at(count); count++)
        assert_string_equal(es_engine_at(count)->name, names[count]);
    assert_int_equal(count, sizeof names / sizeof *names);
    assert_null(es_engine_at(-1));
}

/* ---- types ---- */

/* Errors of normal rows: f16 has 11 bits, of which rounding leaves a relative error near
 * 2^-12/sqrt(3) = 1.4e-4 times at most 2; the others in the order of their steps. */
static void types_are_ordered_by_their_errors(void **state)
{
    static const char *const order[] = {"f16", "bf16", "q8_0", "fp8", "q5_1", "q5_0", "q4_0"};
    double last = 0.0;
    (void)state;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const es_kv_format format = {.type = es_kv_type_find(order[i]), .scale = 1.0};
        const double error = es_type_error(&format, ES_KV_KEYS, 64);
        assert_above(error, last);
        last = error;
        if (i == 0)
            assert_between(error, 1.2e-4, 2.8e-4);
    }
    assert_below(last, 0.15);
    assert_near(es_type_error(&(es_kv_format){0}, ES_KV_KEYS, 64), 0.0, 0.0);
}

/* One type for all: the finest of the plan, or the next finer one that the engine has. */
static void llama_cpp_takes_the_finest_type(void **state)
{
    (void)state;
    es_plan *p = same_units(ES_PLAN_NONE, "full", 100, "q4_0");
    expect(p, "llama.cpp", "\n-ctk q4_0 -ctv q4_0 -fa on\n");
    expect(p, "llama.cpp", "1.5, as in the plan"); /* 6 risks of 1/4 */
    strcpy(p->unit[3].k_type, "q5_0");
    strcpy(p->unit[5].v_type, "fp8");
    expect(p, "llama.cpp", "\n-ctk q5_0 -ctv q8_0 -fa on\n");
    expect(p, "llama.cpp", "0 of 6 key-value heads run as planned");
    strcpy(p->unit[5].v_type, "f32");
    expect(p, "llama.cpp", "\n-ctk q5_0 -ctv f32\n");
    expect(p, "llama.cpp", "takes 117 % of the bytes of f16"); /* (5.5 + 32) / (16 + 16) */
    es_plan_free(p);
    es_model_config narrow = small;
    narrow.head_dim = 24; /* no block of 32 */
    assert_ok(es_plan_new_cache(&narrow, ES_PLAN_NONE, 0, 100, NULL, &p, &err));
    for (int64_t u = 0; u < 6; u++)
        set_unit(p, u, "full", 100, "q4_0", "q4_0");
    expect(p, "llama.cpp", "\n-ctk f16 -ctv f16\n");
    es_plan_free(p);
}

/* fp8 where it is fine enough, by layer. Bytes by hand: 4 of 6 units in 8 of 16 bits. */
static void vllm_skips_layers(void **state)
{
    (void)state;
    es_plan *p = same_units(ES_PLAN_NONE, "full", 100, "q4_0");
    expect(p, "vllm", "\n--kv-cache-dtype fp8\n");
    strcpy(p->unit[2].v_type, "q8_0");
    expect(p, "vllm", "\n--kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 1\n");
    expect(p, "vllm", "takes 66.7 % of the bytes of f16");
    strcpy(p->unit[0].k_type, "f16");
    strcpy(p->unit[4].k_type, "f32");
    expect(p, "vllm", "\n--kv-cache-dtype auto\n");
    es_plan_free(p);
}

/* ---- windows ---- */

/* A query of decode mode sees one key more than is held; a window of prompt mode has also what
 * follows the prompt. A layer has the window of its largest head, and full has the context. */
static void tensorrt_llm_has_windows(void **state)
{
    (void)state;
    es_plan *p = same_units(ES_PLAN_DECODE, "stream:sinks=4", 20, "fp8");
    expect(p, "tensorrt-llm", "max_attention_window: [21, 21, 21]\n");
    expect(p, "tensorrt-llm", "sink_token_length: 4\n  dtype: fp8\n");
    set_unit(p, 3, "stream:sinks=2", 30, "f16", "f16");
    set_unit(p, 5, "h2o", 10, "q8_0", "q8_0");
    expect(p, "tensorrt-llm", "max_attention_window: [21, 33, 100]\n"); /* 30 + 2 more sinks + 1 */
    expect(p, "tensorrt-llm", "dtype: auto\n");
    expect(p, "tensorrt-llm", "policy h2o: 1 of 6 key-value heads keep every key");
    es_plan_free(p);
    p = same_units(ES_PLAN_PROMPT, "stream:sinks=4", 20, "f16");
    expect(p, "tensorrt-llm", "max_attention_window: [56, 56, 56]\n"); /* 20 + 100 - 64 */
    expect(p, "tensorrt-llm", "takes 31.2 % of the bytes of f16, the plan 31.2 %"); /* 20 of 64 */
    es_plan_free(p);
}

/* ---- Python ---- */

static void python_files_hold_the_plan(void **state)
{
    (void)state;
    es_plan *p = same_units(ES_PLAN_PROMPT, "snapkv:window=8", 20, "q8_0");
    expect(p, "transformers",
           "{\"policy\": \"snapkv:sinks=0:window=8:kernel=5:pooling=avg\", \"keys\": 20, "
           "\"k_type\": \"q8_0\", \"v_type\": \"q8_0\"}");
    expect(p, "transformers", "transformers can run all of it");
    expect(p, "transformers", "def esscher_plan_attention(");
    set_unit(p, 1, "expected", 20, "q4_0+hadamard", "f16");
    expect(p, "transformers", "policy expected: 1 of 6 key-value heads keep every key");
    expect(p, "transformers", "number types: 1 of 12 sides");
    expect(p, "transformers",
           "{\"policy\": \"full\", \"keys\": 64, \"k_type\": \"f32\", \"v_type\": \"f16\"}");
    expect(p, "kvpress", "def plan_press():");
    set_unit(p, 2, "snapkv:window=8:pooling=max", 20, "f32", "f32");
    expect(p, "kvpress", "pooling=max or alpha: 1 key-value heads keep every key");
    set_unit(p, 2, "random:seed=1", 20, "f32", "f32");
    expect(p, "kvpress", "policy random: 1 of 6 key-value heads keep every key");
    es_plan_free(p);
}

/* ---- comments, files, refusals ---- */

/* Risks of heads that run as planned, and of others; names of files stay on their line. */
static void comments_say_what_is_lost(void **state)
{
    char *text;
    size_t size;
    (void)state;
    es_plan *p = same_units(ES_PLAN_PROMPT, "stream:sinks=4", 20, "f16");
    set_unit(p, 0, "full", 64, "f16", "f16");
    expect(p, "llama.cpp", "0.25 of heads that run as planned; of the others\n# at most 1.25,");
    expect(p, "llama.cpp", "\n# A risk is the mean square error of a key-value head's part of ");
    p->unit[1].risk = (double)NAN;
    expect(p, "llama.cpp", "Predicted risk: unknown");
    expect_not(p, "llama.cpp", "A risk is");
    assert_ok(es_plan_export(p, "a\nimport os", "kvpress", &text, &size, &err));
    assert_non_null(strstr(text, "# Plan a?import os for kvpress"));
    es_plan_export_free(text);
    es_plan_free(p);
}

/* A plan that an engine runs as it is has no note about what it cannot do. */
static void comments_list_no_loss_that_is_none(void **state)
{
    (void)state;
    es_plan *p = same_units(ES_PLAN_DECODE, "stream:sinks=4", 20, "fp8");
    expect(p, "tensorrt-llm", "# TensorRT-LLM can run all of it.\n");
    set_unit(p, 2, "stream:sinks=4", 16, "fp8", "fp8");
    expect(p, "tensorrt-llm", "numbers of keys by head: a layer has one window");
    expect_not(p, "tensorrt-llm", "number types");
    set_unit(p, 2, "stream:sinks=3", 20, "fp8", "fp8");
    set_unit(p, 3, "stream:sinks=3", 20, "fp8", "fp8");
    expect(p, "tensorrt-llm", "and all layers as many sinks");
    es_plan_free(p);
    p = same_units(ES_PLAN_PROMPT, "full", 64, "f16");
    expect(p, "tensorrt-llm", "# TensorRT-LLM can run all of it.\n");
    expect(p, "vllm", "# vLLM can run all of it.\n");
    expect(p, "llama.cpp", "# llama.cpp can run all of it.\n");
    es_plan_free(p);
    p = same_units(ES_PLAN_NONE, "full", 100, "fp8");
    expect(p, "vllm", "# vLLM can run all of it.\n");
    strcpy(p->unit[0].k_type, "q4_0");
    expect(p, "vllm", "number types: fp8 (e4m3, scale 1) for K and V of a layer, or 16 bits\n");
    expect_not(p, "vllm", "skipped");
    strcpy(p->unit[0].k_type, "f16");
    expect(p, "vllm", "1 of 3 layers have a head that needs more than fp8 and are skipped\n");
    es_plan_free(p);
}

static void files_are_written_once(void **state)
{
    (void)state;
    es_plan *p = same_units(ES_PLAN_NONE, "full", 100, "q4_0");
    const char *path = in_folder("args.txt");
    assert_ok(es_plan_export_file(p, "p", "vllm", path, false, &err));
    assert_int_equal(es_plan_export_file(p, "p", "vllm", path, false, &err), ES_E_EXISTS);
    assert_ok(es_plan_export_file(p, "p", "vllm", path, true, &err));
    assert_int_equal(count_files(false), 1);
    es_plan_free(p);
}

static void what_an_engine_cannot_run_is_refused(void **state)
{
    static const struct {
        es_plan_mode mode;
        const char *engine;
    } cases[] = {
        {ES_PLAN_DECODE, "transformers"}, {ES_PLAN_DECODE, "kvpress"}, {ES_PLAN_NONE, "kvpress"}};
    char *text;
    size_t size;
    es_plan *p;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p = same_units(cases[i].mode, "full", 100, "f16");
        assert_int_equal(es_plan_export(p, "p", cases[i].engine, &text, &size, &err),
                         ES_E_UNSUPPORTED);
        assert_string_equal(err.rule, "plan.mode");
        assert_null(text);
        assert_int_equal(es_plan_export(p, "p", "vlm", &text, &size, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "plan.engine");
        es_plan_free(p);
    }
    assert_ok(es_plan_new(&small, 100, NULL, &p, &err)); /* ideal */
    assert_int_equal(es_plan_export(p, "p", "vllm", &text, &size, &err), ES_E_UNSUPPORTED);
    es_plan_free(p);
    p = same_units(ES_PLAN_NONE, "full", 99, "f16"); /* breaks a rule of plans */
    assert_int_equal(es_plan_export(p, "p", "vllm", &text, &size, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.keys");
    es_plan_free(p);
}

TEST_FILE(engines)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_is_listed_once),
        cmocka_unit_test(types_are_ordered_by_their_errors),
        cmocka_unit_test(llama_cpp_takes_the_finest_type),
        cmocka_unit_test(vllm_skips_layers),
        cmocka_unit_test(tensorrt_llm_has_windows),
        cmocka_unit_test(python_files_hold_the_plan),
        cmocka_unit_test(comments_say_what_is_lost),
        cmocka_unit_test(comments_list_no_loss_that_is_none),
        cmocka_unit_test_setup_teardown(files_are_written_once, make_folder, remove_folder),
        cmocka_unit_test(what_an_engine_cannot_run_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
