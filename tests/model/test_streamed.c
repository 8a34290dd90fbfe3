/* SPDX-License-Identifier: Apache-2.0 */
/* test_streamed.c : models whose weights stay in the file. The resident model is the reference: all
 * results must have its bits. */
#include "model/pool_files.h" /* before folder.h, whose `folder` its parameters would hide */

#include "golden.h"
#include "tiny_model.h"

#include <esscher/model.h>

#include "model/layer_heads.h"
#include "model/weights_inside.h"

/* ---- results of a model ---- */

enum { BLOCKS = 4, MOST = 600 };

/* Everything that a forward pass gives of a few blocks, as bytes. */
typedef struct results {
    int64_t bytes;
    char *data;
} results;

/* Moves *at behind `bytes` bytes and returns where they begin; NULL if data is NULL. */
static void *take(const results *r, int64_t *at, int64_t bytes)
{
    void *begin = r->data ? r->data + *at : NULL;
    *at += (bytes + 63) / 64 * 64;
    return begin;
}

/* Points the results of a block of n tokens into r; returns where the next ones begin. */
static int64_t place_block(const results *r, int64_t at, const es_model_config *c, size_t item_,
                           es_model_block *b)
{
    const int64_t item = (int64_t)item_, heads = c->layers * c->heads * 8;
    b->hidden = take(r, &at, (c->layers + 1) * b->n * c->hidden * item);
    b->inputs = take(r, &at, c->layers * b->n * c->hidden * item);
    b->last = take(r, &at, b->n * c->hidden * item);
    b->entropy = take(r, &at, heads);
    b->top_weight = take(r, &at, heads);
    b->sum_squares = take(r, &at, heads);
    b->ess = take(r, &at, heads);
    if (c->pooler)
        b->pooled = take(r, &at, c->hidden * 8);
    if (c->predicts) {
        b->nll = take(r, &at, b->n * 8);
        if (b->n < 100) /* of long blocks, logits are made in pieces */
            b->token_logits = take(r, &at, b->n * c->vocab * item);
    }
    return at;
}

/* Runs blocks of 1, 7, 33 and, where the model has as many positions, 600 tokens. */
static results run_blocks(const es_model *m, int threads, es_mem_limit *budget)
{
    static const int64_t lengths[BLOCKS] = {1, 7, 33, MOST};
    const es_model_config *c = es_model_config_of(m);
    int32_t ids[MOST];
    es_model_block blocks[BLOCKS] = {{0}};
    results r = {0};
    int64_t count = 0;
    for (int i = 0; i < MOST; i++)
        ids[i] = (int32_t)((int64_t)i * 7919 % c->vocab);
    ids[3] = 1; /* padding of a RoBERTa, which has a position of its own */
    for (int64_t i = 0; i < BLOCKS && lengths[i] <= c->positions; i++)
        blocks[count++] = (es_model_block){.ids = ids, .n = lengths[i]};
    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;
        for (int64_t i = 0; i < count; i++)
            at = place_block(&r, at, c, es_dtype_size(es_model_precision(m)), &blocks[i]);
        r.bytes = at;
        if (!pass)
            assert_non_null(r.data = calloc((size_t)at, 1));
    }
    const es_exec exec = {.threads = threads, .budget = budget};
    assert_ok(es_model_forward(m, blocks, count, &exec, &err));
    return r;
}

static es_model *open_as(const char *path, es_dtype precision, es_weights_mode weights,
                         es_mem_limit *budget)
{
    es_model *m;
    const es_model_opts opts = {
        .precision = precision, .weights = weights, .threads = 2, .budget = budget};
    assert_ok(es_model_open(path, &opts, &m, &err));
    assert_int_equal(es_model_config_of(m)->weights, weights);
    return m;
}

/* Compares two matrices number by number. */
static void check_view(const es_view *got, const es_view *want)
{
    assert_int_equal(got->rows, want->rows);
    assert_int_equal(got->cols, want->cols);
    for (int64_t i = 0; i < want->rows; i++)
        for (int64_t j = 0; j < want->cols; j++)
            assert_near(es_view_get(got, i, j), es_view_get(want, i, j), 0.0);
}

/* Compares the matrices of all heads, and holds their memory to what is stated. */
static void check_heads(const es_model *resident, const es_model *streamed, int threads)
{
    const es_model_config *c = es_model_config_of(streamed);
    for (int64_t l = 0; l < c->layers; l++) {
        es_mem_limit call = {0};
        const es_exec exec = {.threads = threads, .budget = &call};
        es_layer_heads *heads;
        assert_ok(es_layer_heads_open(streamed, l, &exec, &heads, &err));
        for (int64_t h = 0; h < c->heads; h++) {
            const es_model_head got = es_layer_heads_at(heads, h);
            es_model_head want;
            assert_ok(es_model_head_of(resident, l, h, &want, &err));
            const es_view *const a[] = {&got.wq, &got.wk, &got.wv, &got.wo,
                                        &got.bq, &got.bk, &got.bv};
            const es_view *const b[] = {&want.wq, &want.wk, &want.wv, &want.wo,
                                        &want.bq, &want.bk, &want.bv};
            for (int i = 0; i < 7; i++)
                check_view(a[i], b[i]);
        }
        es_layer_heads_close(heads);
        assert_int_equal(call.used, 0);
        assert_below((double)call.peak, 1.0 + es_layer_heads_bytes(c, streamed->precision, &exec));
    }
}

/* Compares the two ways to hold the weights of a model, in f32 and f64, on 1, 2 and 3 threads. */
static void check_bits(const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s", path);
    for (int wide = 0; wide < 2; wide++) {
        const es_dtype precision = wide ? ES_F64 : ES_F32;
        es_model *resident = open_as(name, precision, ES_WEIGHTS_RESIDENT, NULL);
        es_model *streamed = open_as(name, precision, ES_WEIGHTS_STREAMED, NULL);
        results want = run_blocks(resident, 1, NULL);
        for (int threads = 1; threads <= 3; threads++) {
            results got = run_blocks(streamed, threads, NULL);
            assert_int_equal(got.bytes, want.bytes);
            if (memcmp(got.data, want.data, (size_t)want.bytes) != 0)
                fail_msg("%s: streamed on %d threads differs from resident", name, threads);
            free(got.data);
        }
        free(want.data);
        check_heads(resident, streamed, 2);
        uint64_t a, b;
        assert_ok(es_pool_hash_model(resident, NULL, &a, &err));
        assert_ok(es_pool_hash_model(streamed, NULL, &b, &err));
        assert_int_equal(a, b);
        es_model_close(resident);
        es_model_close(streamed);
    }
}

/* ---- checkpoints ---- */

/* Writes a Llama with more words than a panel of the language head has rows, and positions for
 * blocks of more than one strip. */
static void write_llama(const char *dtype, int64_t vocab)
{
    enum { H = 16, KV = 8, I = 24, LAYERS = 2 };
    const struct {
        const char *name;
        int64_t rows, cols;
    } parts[] = {{"self_attn.q_proj", H, H},        {"self_attn.k_proj", KV, H},
                 {"self_attn.v_proj", KV, H},       {"self_attn.o_proj", H, H},
                 {"mlp.gate_proj", I, H},           {"mlp.up_proj", I, H},
                 {"mlp.down_proj", H, I},           {"input_layernorm", H, 0},
                 {"post_attention_layernorm", H, 0}};
    tiny t = {.dtype = dtype, .state = 7};
    char name[128];
    tiny_add(&t, "model.", "embed_tokens.weight", vocab, H);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 9; i++) {
            snprintf(name, sizeof name, "layers.%d.%s.weight", l, parts[i].name);
            tiny_add(&t, "model.", name, parts[i].rows, parts[i].cols);
        }
    tiny_add(&t, "model.", "norm.weight", H, 0);
    tiny_add(&t, "", "lm_head.weight", vocab, H);
    tiny_write_part(&t, "model.safetensors", 0, t.count);
    tiny_free(&t);
    FILE *f = fopen(in_folder("config.json"), "w");
    assert_non_null(f);
    fprintf(f,
            "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], "
            "\"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
            "\"num_key_value_heads\": 2, \"intermediate_size\": 24, \"vocab_size\": %lld, "
            "\"max_position_embeddings\": 700, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
            "\"tie_word_embeddings\": false}",
            (long long)vocab);
    assert_int_equal(fclose(f), 0);
}

static void streamed_safetensors_have_the_bits_of_resident_ones(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"F32", "F16", "BF16"};
    for (int i = 0; i < 3; i++) {
        write_llama(dtypes[i], 4500);
        check_bits(folder);
    }
    tiny t = tiny_default(); /* an encoder: biases, tables of positions and types, a pooler */
    tiny_draw(&t);
    tiny_write(&t);
    check_bits(folder);
    tiny_free(&t);
}

/* Rows lie otherwise in gpt2 (transposed) and neox (by head); gemma3 has norms from one and layers
 * of two kinds; olmo2 norms over all heads; phi3 matrices that are stacked in the file. */
static void every_kind_of_decoder_has_the_bits_of_the_resident_one(void **state)
{
    (void)state;
    static const char *const models[] = {
        "decoders/llama", "decoders/gpt2",           "decoders/neox",    "decoders/qwen3",
        "decoders/qwen2", "decoders/mistral-window", "decoders2/gemma3", "decoders2/olmo2",
        "decoders2/phi3", "decoders2/cohere"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        check_bits(golden_path(models[i]));
}

/* Experts are read one at a time: from a tensor each (mixtral, qwen3_moe, whose second layer has
 * none), from one of all (mixtral-fused), transposed (gpt_oss), and in blocks of MXFP4. */
static const char *const expert_models[] = {"decoders2/mixtral", "decoders2/mixtral-fused",
                                            "decoders2/qwen3_moe", "decoders2/gpt_oss",
                                            "decoders2/gpt_oss-mxfp4"};

static void experts_have_the_bits_of_resident_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof expert_models / sizeof expert_models[0]; i++)
        check_bits(golden_path(expert_models[i]));
}

/* roberta counts positions from one on, without padding; modernbert has a norm that its first layer
 * has not and a norm of the last state; its classifier has a part in place of the pooler. */
static void every_kind_of_encoder_has_the_bits_of_the_resident_one(void **state)
{
    (void)state;
    static const char *const models[] = {"roberta",    "roberta-pad",        "xlm-roberta",
                                         "modernbert", "modernbert-classes", "nomic_bert",
                                         "big_bird",   "gemma3-embedding"};
    char rest[128];
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        snprintf(rest, sizeof rest, "decoders2/%s", models[i]);
        check_bits(golden_path(rest));
    }
}

static void streamed_gguf_files_have_the_bits_of_resident_ones(void **state)
{
    (void)state;
    static const char *const models[] = {"gguf/llama/f32.gguf",   "gguf/llama/f16.gguf",
                                         "gguf/llama/bf16.gguf",  "gguf/llama/q8_0.gguf",
                                         "gguf/wide/Q4_K_M.gguf", "gguf/wide/qwen3-Q4_K.gguf",
                                         "gguf/narrow/Q4_0.gguf"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        check_bits(golden_path(models[i]));
}

/* ---- memory and failures ---- */

static void a_streamed_model_takes_the_memory_that_is_stated(void **state)
{
    (void)state;
    es_mem_limit few = {0}, many = {0};
    write_llama("BF16", 4500);
    es_model *streamed = open_as(folder, ES_F32, ES_WEIGHTS_STREAMED, &few);
    es_model *resident = open_as(folder, ES_F32, ES_WEIGHTS_RESIDENT, &many);
    /* the two tables of 4500 x 16 numbers stay in the file */
    assert_above(many.used, few.used + 2 * 4500 * 16 * 4);
    for (int threads = 1; threads <= 3; threads++) {
        es_mem_limit call = {0};
        results r = run_blocks(streamed, threads, &call);
        const es_model_cost cost =
            es_model_cost_of(es_model_config_of(streamed), ES_F32, MOST, threads, true);
        assert_below((double)call.peak, cost.bytes);
        assert_int_equal(call.used, 0);
        assert_above(
            es_model_cost_of(es_model_config_of(resident), ES_F32, MOST, threads, true).weights,
            cost.weights + 2 * 4500 * 16);
        free(r.data);
    }
    es_model_close(streamed);
    es_model_close(resident);
    assert_int_equal(few.used, 0);
    assert_int_equal(many.used, 0);
}

/* Blocks of all lengths that run_blocks() has fit into the bound for the longest of them, and what
 * the model holds into the one for weights. */
static void streamed_experts_take_the_memory_that_is_stated(void **state)
{
    (void)state;
    char path[4096];
    for (size_t i = 0; i < sizeof expert_models / sizeof expert_models[0]; i++) {
        es_mem_limit held = {0};
        snprintf(path, sizeof path, "%s", golden_path(expert_models[i]));
        es_model *m = open_as(path, ES_F32, ES_WEIGHTS_STREAMED, &held);
        const es_model_config *c = es_model_config_of(m);
        const int64_t most = c->positions < MOST ? 33 : MOST;
        for (int threads = 1; threads <= 3; threads++) {
            es_mem_limit call = {0};
            results r = run_blocks(m, threads, &call);
            assert_below((double)call.peak, es_model_cost_of(c, ES_F32, most, threads, true).bytes);
            assert_int_equal(call.used, 0);
            free(r.data);
        }
        assert_below((double)m->source->small, es_model_cost_of(c, ES_F32, most, 1, true).weights);
        es_model_close(m);
        assert_int_equal(held.used, 0);
    }
}

/* A block of 22 layers with 2048 tokens of 2048 numbers has 352 MiB of hidden states, of which 512
 * MiB hold one; threads have a block of 256 tokens each, whatever they take. */
static void pools_compute_few_large_blocks_at_a_time(void **state)
{
    (void)state;
    const es_model_config large = {.hidden = 2048}, small = {.hidden = 192};
    assert_int_equal(es_pool_together(&large, 22, 2048, 8), 1);
    assert_int_equal(es_pool_together(&large, 22, 256, 8), 11); /* 44 MiB each */
    assert_int_equal(es_pool_together(&large, 22, 512, 8), 8);  /* 88 MiB each: 5 would fit */
    assert_int_equal(es_pool_together(&large, 22, 512, 64), 32);
    assert_int_equal(es_pool_together(&small, 4, 2048, 8), 32);
}

/* The choice is by size: 1 GiB is 2^28 numbers of f32. */
static void large_models_are_streamed(void **state)
{
    (void)state;
    es_model_config c;
    write_llama("F32", 4500);
    assert_ok(es_model_config_load(folder, &c, &err));
    assert_int_equal(c.weights, ES_WEIGHTS_AUTO);
    assert_int_equal(es_model_weights_mode(&c, ES_F32), ES_WEIGHTS_RESIDENT);
    c.vocab = (int64_t)1 << 22; /* twice, times 16 numbers: 2^27 numbers and some */
    assert_int_equal(es_model_weights_mode(&c, ES_F32), ES_WEIGHTS_RESIDENT);
    assert_int_equal(es_model_weights_mode(&c, ES_F64), ES_WEIGHTS_STREAMED);
    c.weights = ES_WEIGHTS_RESIDENT;
    assert_int_equal(es_model_weights_mode(&c, ES_F64), ES_WEIGHTS_RESIDENT);
}

static void a_file_that_shrinks_is_an_error(void **state)
{
    (void)state;
    struct stat before;
    write_llama("F32", 4500);
    es_model *m = open_as(folder, ES_F32, ES_WEIGHTS_STREAMED, NULL);
    assert_int_equal(stat(in_folder("model.safetensors"), &before), 0);
    const int32_t ids[] = {1, 2, 3};
    double nll[2];
    const es_model_block block = {.ids = ids, .n = 3, .nll = nll};
    for (int64_t part = 0; part < 4; part++) {
        assert_int_equal(truncate(in_folder("model.safetensors"), before.st_size * part / 4), 0);
        assert_int_equal(es_model_forward(m, &block, 1, NULL, &err), ES_E_IO);
        assert_string_equal(err.rule, "file.changed");
        assert_int_equal(truncate(in_folder("model.safetensors"), before.st_size), 0);
    }
    es_model_close(m);
}

/* A tensor that stays in the file is looked at when the model is opened. */
static void nonfinite_weights_are_found_when_a_streamed_model_is_opened(void **state)
{
    (void)state;
    es_error want;
    es_model *m;
    tiny t = tiny_default();
    tiny_draw(&t);
    double *w = (double *)(uintptr_t)tiny_find(&t, "", "encoder.layer.1.output.dense.weight");
    w[7] = (double)NAN;
    w[9] = (double)INFINITY;
    tiny_write(&t);
    const es_model_opts resident = {.weights = ES_WEIGHTS_RESIDENT},
                        streamed = {.weights = ES_WEIGHTS_STREAMED};
    assert_int_equal(es_model_open(folder, &resident, &m, &want), ES_E_NONFINITE);
    assert_int_equal(es_model_open(folder, &streamed, &m, &err), ES_E_NONFINITE);
    assert_null(m);
    assert_string_equal(err.rule, "model.finite");
    assert_string_equal(err.message, want.message);
    tiny_free(&t);
}

static void single_heads_of_a_streamed_model_are_refused(void **state)
{
    (void)state;
    es_model_head head;
    write_llama("F32", 4500);
    es_model *m = open_as(folder, ES_F32, ES_WEIGHTS_STREAMED, NULL);
    assert_int_equal(es_model_head_of(m, 0, 0, &head, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "model.streamed");
    es_layer_heads *heads;
    assert_int_equal(es_layer_heads_open(m, -1, NULL, &heads, &err), ES_E_RANGE);
    assert_int_equal(es_layer_heads_open(m, 2, NULL, &heads, &err), ES_E_RANGE);
    assert_null(heads);
    es_model_close(m);
}

TEST_FILE(streamed)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_safetensors_have_the_bits_of_resident_ones),
        cmocka_unit_test(every_kind_of_decoder_has_the_bits_of_the_resident_one),
        cmocka_unit_test(experts_have_the_bits_of_resident_ones),
        cmocka_unit_test(every_kind_of_encoder_has_the_bits_of_the_resident_one),
        cmocka_unit_test(streamed_gguf_files_have_the_bits_of_resident_ones),
        cmocka_unit_test(a_streamed_model_takes_the_memory_that_is_stated),
        cmocka_unit_test(streamed_experts_take_the_memory_that_is_stated),
        cmocka_unit_test(pools_compute_few_large_blocks_at_a_time),
        cmocka_unit_test(large_models_are_streamed),
        cmocka_unit_test(a_file_that_shrinks_is_an_error),
        cmocka_unit_test(nonfinite_weights_are_found_when_a_streamed_model_is_opened),
        cmocka_unit_test(single_heads_of_a_streamed_model_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
