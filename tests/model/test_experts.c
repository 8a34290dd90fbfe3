/* SPDX-License-Identifier: Apache-2.0 */
/* test_experts.c : models with experts and learned sinks beyond their values, which decoders2
 * tests: choices of experts, threads, costs, blocks of MXFP4, configurations, and policies beside a
 * sink. */
#include "folder.h"
#include "golden.h"

#include <esscher/model.h>
#include <esscher/policy.h>

#include "base/memory.h"
#include "experiments/kit/pool_layer.h"
#include "model/model.h"
#include "model/model_inside.h"
#include "model/packed.h"
#include "random/experiment.h"
#include "store/file.h"

static es_model *open_golden(const char *name, es_dtype precision)
{
    char rest[128], path[4096];
    es_model *model;
    snprintf(rest, sizeof rest, "decoders2/%s", name);
    snprintf(path, sizeof path, "%s", golden_path(rest));
    assert_ok(es_model_open(path, &(es_model_opts){.precision = precision}, &model, &err));
    return model;
}

/* ---- routing ---- */

/* Of equal logits the lowest numbers are chosen, from the largest logit on. Shares are those of the
 * softmax over all experts, or over the chosen ones: e^0, e^-1, e^-2 over their sums. */
static void experts_are_chosen_by_their_logits(void **state)
{
    (void)state;
    const double logits[] = {0.0, 1.0, 1.0, -1.0, 1.0, 0.0, -5.0, 2.0, 0.0, 2.0};
    es_model_config c = {.experts = 5, .experts_used = 3};
    int32_t chosen[6];
    double share[6];
    es_row_kernels_f64.route(&c, logits, 2, chosen, share);
    const int32_t want[] = {1, 2, 4, 2, 4, 0};
    for (int i = 0; i < 6; i++)
        assert_int_equal(chosen[i], want[i]);
    const double all = 3.0 + exp(-1.0) + exp(-2.0), second = 2.0 + 2.0 * exp(-2.0) + exp(-7.0);
    assert_near(share[0], 1.0 / all, 1e-15); /* a few roundings of numbers below 1 */
    assert_near(share[5], exp(-2.0) / second, 1e-15);
    c.shares_sum = true;
    es_row_kernels_f64.route(&c, logits, 2, chosen, share);
    assert_near(share[0], 1.0 / 3.0, 1e-15);
    assert_near(share[5], exp(-2.0) / (2.0 + exp(-2.0)), 1e-15);
}

enum { LONG = 700 }; /* more than a strip */

/* A long block that threads share has the same bits on one and on three threads. */
static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    es_model *m = open_golden("gpt_oss", ES_F32);
    const es_model_config *c = es_model_config_of(m);
    const size_t bytes = (size_t)(LONG * c->hidden) * sizeof(float);
    float *one = malloc(bytes), *three = malloc(bytes);
    int32_t ids[LONG];
    for (int i = 0; i < LONG; i++)
        ids[i] = (int32_t)((i * 31 + i * i * 7) % c->vocab);
    es_model_block b = {.ids = ids, .n = LONG, .last = one};
    assert_ok(es_model_forward(m, &b, 1, &(es_exec){.threads = 1}, &err));
    b.last = three;
    assert_ok(es_model_forward(m, &b, 1, &(es_exec){.threads = 3}, &err));
    assert_memory_equal(one, three, bytes);
    free(one);
    free(three);
    es_model_close(m);
}

/* ---- costs ---- */

/* Products are those of the experts that a token uses, weights those of all; counted by hand from
 * qwen3_moe's config: 3 of 8 experts of width 24 in layers 0 and 2, a plain mlp of 64 in layer 1.
 */
static void costs_count_the_experts_in_use(void **state)
{
    (void)state;
    es_model *m = open_golden("qwen3_moe", ES_F32);
    const es_model_config *c = es_model_config_of(m);
    const double attention = 40.0 * (64.0 + 2.0 * 32.0) + 64.0 * 40.0;
    const double experts = 8.0 * 40.0 + 3.0 * 3.0 * 40.0 * 24.0, plain = 3.0 * 40.0 * 64.0;
    const es_model_cost cost = es_model_cost_of(c, ES_F32, 10, 1, false);
    assert_near(cost.products, 2.0 * 10.0 * (3.0 * attention + 2.0 * experts + plain), 0.0);
    const double held =
        2.0 * 97.0 * 40.0 + 3.0 * attention + 2.0 * 8.0 * (40.0 + 3.0 * 40.0 * 24.0);
    assert_at_least(cost.weights, held + plain);
    assert_below(cost.weights, 1.2 * (held + plain));
    assert_ok(es_model_products(m, 10, 2, &(es_exec){.threads = 1}, &err));
    es_model_close(m);
}

/* ---- blocks of MXFP4 ---- */

static void numbers_of_four_bits_are_as_published(void **state)
{
    (void)state;
    static const double want[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
    unsigned char blocks[32] = {0}, scales[2] = {127, 126};
    double out[64];
    float narrow[64];
    for (int i = 0; i < 8; i++)
        blocks[i] = (unsigned char)(i | (i + 8) << 4); /* the lower bits come first */
    memcpy(blocks + 16, blocks, 16);
    assert_int_equal(es_packed_decode(blocks, scales, 2, ES_F64, out), -1);
    assert_int_equal(es_packed_decode(blocks, scales, 2, ES_F32, narrow), -1);
    for (int i = 0; i < 8; i++) {
        assert_near(out[2 * i], want[i], 0.0);
        assert_near(out[2 * i + 1], -want[i], 0.0);
        assert_near(out[32 + 2 * i], want[i] / 2.0, 0.0);
        assert_near((double)narrow[32 + 2 * i + 1], -want[i] / 2.0, 0.0);
    }
    scales[1] = 254; /* 6 times 2^127 is beyond f32 */
    assert_int_equal(es_packed_decode(blocks, scales, 2, ES_F32, narrow), 1);
    assert_int_equal(es_packed_decode(blocks, scales, 2, ES_F64, out), -1);
    scales[0] = 255; /* NaN by definition */
    assert_int_equal(es_packed_decode(blocks, scales, 2, ES_F64, out), 0);
}

/* ---- damaged files ---- */

static void copy_patched(const char *name, const char *file, const char *from, const char *to)
{
    char rest[128], path[4096];
    void *bytes;
    size_t size;
    snprintf(rest, sizeof rest, "decoders2/%s/%s", name, file);
    assert_ok(es_file_load(golden_path(rest), 1 << 24, NULL, &bytes, &size, &err));
    if (from) {
        char *at = strstr((char *)bytes + 8, from); /* the header is text */
        assert_non_null(at);
        memcpy(at, to, strlen(to)); /* as long as `from` */
    }
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    es_mem_free(NULL, bytes);
}

/* The first `from` of the weights' header is `to`: opening the model fails by this rule. */
static void damaged(const char *name, const char *from, const char *to, const char *rule)
{
    es_model *m;
    copy_patched(name, "config.json", NULL, NULL);
    copy_patched(name, "model.safetensors", from, to);
    assert_int_not_equal(es_model_open(folder, NULL, &m, &err), ES_OK);
    assert_string_equal(err.rule, rule);
}

static void damaged_weights_are_refused(void **state)
{
    (void)state;
    damaged("mixtral", "experts.5.w2.weight", "experts.5.w4.weight", "model.unknown");
    damaged("mixtral", "experts.5.w2.weight", "experts.9.w2.weight", "model.tensor");
    damaged("mixtral-fused", "experts.down_proj", "experts.down_pro_", "model.unknown");
    damaged("qwen3_moe", "experts.5.up_proj", "experts.9.up_proj", "model.tensor");
    damaged("gpt_oss", "self_attn.sinks", "self_attn.sinkz", "model.unknown");
    damaged("gpt_oss-mxfp4", "\"U8\"", "\"I8\"", "model.shape");
    damaged("gpt_oss-mxfp4", "down_proj_scales", "down_proj_scale_", "model.unknown");
}

/* Writes the weights of a golden model with every `from` of their header replaced by `to`. */
static void copy_renamed(const char *name, const char *from, const char *to)
{
    char rest[128], header[1 << 16];
    void *bytes;
    size_t size, used = 0;
    uint64_t length;
    snprintf(rest, sizeof rest, "decoders2/%s/model.safetensors", name);
    assert_ok(es_file_load(golden_path(rest), 1 << 24, NULL, &bytes, &size, &err));
    memcpy(&length, bytes, sizeof length);
    const char *at = (const char *)bytes + sizeof length, *const end = at + length;
    while (at < end && used + strlen(to) + 1 < sizeof header) {
        const bool here = strncmp(at, from, strlen(from)) == 0;
        header[used] = *at;
        if (here)
            memcpy(header + used, to, strlen(to));
        used += here ? strlen(to) : 1;
        at += here ? strlen(from) : 1;
    }
    assert_true(at == end);
    snprintf(path_of_file, sizeof path_of_file, "%s/model.safetensors", folder);
    FILE *f = fopen(path_of_file, "wb");
    assert_non_null(f);
    const uint64_t now = used;
    assert_int_equal(fwrite(&now, sizeof now, 1, f), 1);
    assert_int_equal(fwrite(header, 1, used, f), used);
    const size_t data = size - sizeof length - length;
    assert_int_equal(fwrite(end, 1, data, f), data);
    fclose(f);
    es_mem_free(NULL, bytes);
}

/* Computes logits (n, vocab) of the first n words. */
static void logits_of(const es_model *m, int32_t n, float *out)
{
    int32_t ids[16];
    for (int32_t i = 0; i < n; i++)
        ids[i] = i;
    es_model_block block = {.ids = ids, .n = n, .token_logits = out};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
}

/* Fused experts may keep the name that Mixtral has for its experts in files. */
static void fused_experts_may_have_either_name(void **state)
{
    (void)state;
    enum { N = 16, VOCAB = 97 };
    static float want[N * VOCAB], got[N * VOCAB];
    es_model *plain = open_golden("mixtral-fused", ES_F32), *renamed;
    copy_patched("mixtral-fused", "config.json", NULL, NULL);
    copy_renamed("mixtral-fused", ".mlp.", ".block_sparse_moe.");
    assert_ok(es_model_open(folder, NULL, &renamed, &err));
    assert_int_equal(es_model_config_of(plain)->vocab, VOCAB);
    logits_of(plain, N, want);
    logits_of(renamed, N, got);
    assert_memory_equal(got, want, sizeof want);
    es_model_close(plain);
    es_model_close(renamed);
}

/* ---- configurations ---- */

static es_status parse(const char *name, const char *key, const char *value, es_model_config *c)
{
    char rest[128];
    snprintf(rest, sizeof rest, "decoders2/%s/config.json", name);
    json_t *config = golden_file(rest);
    if (value)
        json_object_set_new(config, key, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(config, key);
    char *text = json_dumps(config, 0);
    const es_status status =
        es_config_parse((const unsigned char *)text, strlen(text), "config.json", c, &err);
    free(text);
    json_decref(config);
    return status;
}

static void layers_have_experts_as_stated(void **state)
{
    (void)state;
    es_model_config c;
    assert_ok(parse("qwen3_moe", "mlp_only_layers", "[0, 7]", &c));
    assert_false(es_model_layer(&c, 0)->experts);
    assert_true(es_model_layer(&c, 1)->experts && es_model_layer(&c, 2)->experts);
    assert_ok(parse("qwen3_moe", "decoder_sparse_step", "2", &c));
    assert_false(es_model_layer(&c, 0)->experts || es_model_layer(&c, 2)->experts);
    assert_false(es_model_layer(&c, 1)->experts); /* it is in mlp_only_layers */
    assert_ok(parse("qwen3_moe", "use_sliding_window", "true", &c));
    for (int64_t l = 0; l < c.layers; l++)
        assert_int_equal(es_model_layer(&c, l)->window, 16);
    assert_ok(parse("qwen3_moe", "num_experts", "0", &c));
    assert_int_equal(c.kinds, 1);
    assert_ok(parse("qwen3_moe", "norm_topk_prob", NULL, &c));
    assert_false(c.shares_sum);
    assert_ok(parse("mixtral", "num_experts_per_tok", NULL, &c));
    assert_int_equal(c.experts_used, 2);
    assert_ok(parse("gpt_oss", "layer_types", NULL, &c));
    assert_int_equal(es_model_layer(&c, 0)->window, 12);
    assert_int_equal(es_model_layer(&c, 1)->window, 0);
    assert_ok(parse("gpt_oss", "num_experts_per_tok", NULL, &c));
    assert_int_equal(c.experts_used, 4);
}

static void refused(const char *name, const char *key, const char *value, const char *rule)
{
    es_model_config c;
    assert_int_not_equal(parse(name, key, value, &c), ES_OK);
    assert_string_equal(err.rule, rule);
}

static void what_is_not_built_is_refused(void **state)
{
    (void)state;
    refused("mixtral", "num_experts_per_tok", "7", "config.experts");
    refused("mixtral", "num_local_experts", "0", "config.range");
    refused("mixtral", "attention_bias", "true", "config.function");
    refused("mixtral", "quantization_config", "{\"quant_method\": \"mxfp4\"}", "config.quantised");
    refused("qwen3_moe", "decoder_sparse_step", "0", "config.range");
    refused("qwen3_moe", "mlp_only_layers", "[-1]", "config.range");
    refused("qwen3_moe", "hidden_act", "\"gelu\"", "config.activation");
    refused("gpt_oss", "quantization_config", "{\"quant_method\": \"awq\"}", "config.quantised");
    refused("gpt_oss", "quantization_config", "{\"bits\": 4}", "config.quantised");
    refused("gpt_oss", "rope_scaling", "{\"rope_type\": \"yarn\", \"beta\": 1}", "config.rotary");
}

/* ---- sinks ---- */

enum { N = 40, WINDOW = 6 };

typedef struct found {
    double last[N * 40], stats[3][4 * 6];
} found;

static void run(const es_model *m, const es_model_sparse *sparse, const es_mask *mask, found *out)
{
    int32_t ids[N];
    for (int i = 0; i < N; i++)
        ids[i] = (int32_t)((i * i * 5 + 3 * i) % 97);
    const es_model_block b = {.ids = ids,
                              .n = N,
                              .last = out->last,
                              .entropy = out->stats[0],
                              .top_weight = out->stats[1],
                              .sum_squares = out->stats[2],
                              .sparse = sparse,
                              .mask = mask};
    assert_ok(es_model_forward(m, &b, 1, &(es_exec){.threads = 1}, &err));
}

static void same(const found *a, const found *b)
{
    for (int i = 0; i < N * 40; i++) /* f64: a few hundred roundings of 1e-16 in each layer */
        assert_near(a->last[i], b->last[i], 1e-11);
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < 4 * 6; i++)
            assert_near(a->stats[s][i], b->stats[s][i], 1e-11);
}

/* Policies compute the softmax by another path than the engine: where they keep all keys, or those
 * of a window, outputs and statistics are the engine's, which has the sink as one more outcome. */
static void policies_keep_the_sink(void **state)
{
    (void)state;
    static const char *const names[] = {"full", "top", "heavy", "observe", "limit"};
    es_model *m = open_golden("gpt_oss", ES_F64);
    es_policy_spec specs[4 * 6];
    const es_model_sparse sparse = {specs,
                                    {.seed = 5, .experiment = ES_EXPERIMENT_FREE, .cell = 7000}};
    found plain, kept;
    run(m, NULL, NULL, &plain);
    for (size_t p = 0; p < sizeof names / sizeof names[0]; p++) {
        const es_policy *policy = es_policy_find(names[p]);
        assert_non_null(policy);
        for (int i = 0; i < 4 * 6; i++) {
            es_policy_spec_init(&specs[i], policy);
            specs[i].keys = p ? N : ES_POLICY_UNSET;
        }
        run(m, &sparse, NULL, &kept);
        same(&plain, &kept);
    }
    for (int i = 0; i < 4 * 6; i++) {
        es_policy_spec_init(&specs[i], es_policy_find("window"));
        specs[i].keys = WINDOW;
    }
    run(m, NULL, &(es_mask){.causal = true, .window = WINDOW}, &plain);
    run(m, &sparse, NULL, &kept);
    same(&plain, &kept);
    es_model_close(m);
}

/* The limit of a head with a sink is not known here. */
static void limits_refuse_sinks(void **state)
{
    (void)state;
    es_model *m = open_golden("gpt_oss", ES_F32);
    const int64_t sizes[] = {4, 8};
    const es_probe_spec spec = {.model = m, .sizes = sizes, .n_sizes = 2};
    assert_int_equal(es_probe_check_question(&spec, 100, &err), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "probe.sinks");
    es_model_close(m);
}

TEST_FILE(experts)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_chosen_by_their_logits),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(costs_count_the_experts_in_use),
        cmocka_unit_test(numbers_of_four_bits_are_as_published),
        cmocka_unit_test_setup_teardown(damaged_weights_are_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(fused_experts_may_have_either_name, make_folder,
                                        remove_folder),
        cmocka_unit_test(layers_have_experts_as_stated),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(policies_keep_the_sink),
        cmocka_unit_test(limits_refuse_sinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
