/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_model.c : GGUF files as models. tests/golden/gguf has checkpoints and the files that
 * llama.cpp would make of them, written by a program of its own: all are the same function to the
 * last bit. */
#include "golden.h"
#include "gguf_writer.h"

#include <esscher/model.h>
#include <esscher/tokenizer.h>

#include "model/gguf_arch.h"
#include "model/gguf_model.h"
#include "model/model.h"

enum { N = 24, MOST = 1 << 16 };

/* ---- the same function ---- */

typedef struct results {
    unsigned char hidden[MOST], logits[MOST];
    size_t hidden_bytes, logits_bytes;
    es_model_config config;
} results;

static results want, got;

static void run_model(const char *path, es_dtype precision, results *out)
{
    const es_model_opts opts = {.precision = precision};
    es_model *m;
    int32_t ids[N];
    assert_ok(es_model_open(path, &opts, &m, &err));
    const es_model_config *c = es_model_config_of(m);
    const size_t item = es_dtype_size(precision);
    for (int i = 0; i < N; i++)
        ids[i] = (int32_t)((i * 17 + i * i) % c->vocab);
    out->hidden_bytes = (size_t)(c->layers + 1) * N * (size_t)c->hidden * item;
    out->logits_bytes = N * (size_t)c->vocab * item;
    assert_at_most(out->hidden_bytes, MOST);
    assert_at_most(out->logits_bytes, MOST);
    es_model_block block = {.ids = ids, .n = N, .hidden = out->hidden, .token_logits = out->logits};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    out->config = *c;
    es_model_close(m);
}

static void check_config(const es_model_config *a, const es_model_config *b)
{
    assert_equals(a->hidden, b->hidden);
    assert_equals(a->layers, b->layers);
    assert_equals(a->heads, b->heads);
    assert_equals(a->kv_heads, b->kv_heads);
    assert_equals(a->head_dim, b->head_dim);
    assert_equals(a->vocab, b->vocab);
    assert_equals(a->intermediate, b->intermediate);
    assert_equals(a->positions, b->positions);
    assert_int_equal(a->tied, b->tied);
    assert_true(a->predicts && b->predicts && a->causal && b->causal);
    assert_near(a->layer_norm_eps, b->layer_norm_eps, 0);
    assert_near(a->rotary.theta, b->rotary.theta, 0);
    assert_string_equal(a->model_type, b->model_type);
}

static void check_same(const char *checkpoint, const char *gguf, es_dtype precision)
{
    char first[4096];
    snprintf(first, sizeof first, "%s", checkpoint);
    run_model(first, precision, &want);
    run_model(gguf, precision, &got);
    check_config(&got.config, &want.config);
    assert_memory_equal(got.hidden, want.hidden, want.hidden_bytes);
    assert_memory_equal(got.logits, want.logits, want.logits_bytes);
}

static void check_golden(const char *arch, const char *kind)
{
    char folder_[4096], file[64];
    snprintf(file, sizeof file, "gguf/%s", arch);
    snprintf(folder_, sizeof folder_, "%s", golden_path(file));
    snprintf(file, sizeof file, "gguf/%s/%s.gguf", arch, kind);
    check_same(folder_, golden_path(file), ES_F32);
    check_same(folder_, golden_path(file), ES_F64);
}

static void files_of_every_kind_are_the_checkpoint(void **state)
{
    (void)state;
    check_golden("llama", "f32");
    check_golden("llama", "f16");
    check_golden("llama", "bf16");
    check_golden("llama", "q8_0");
    check_golden("qwen2", "q8_0");
    check_golden("qwen3", "q8_0"); /* heads of 16 channels, 4 of them in a width of 32 */
}

/* The hidden states are no constants: the check above could fail. */
static void other_weights_are_another_function(void **state)
{
    (void)state;
    run_model(golden_path("gguf/llama/q8_0.gguf"), ES_F32, &want);
    run_model(golden_path("gguf/qwen2/q8_0.gguf"), ES_F32, &got);
    assert_memory_not_equal(got.hidden, want.hidden, want.hidden_bytes);
}

static void the_tokenizer_comes_with_it(void **state)
{
    (void)state;
    static const int llama[] = {1, 33, 38, 5}, qwen2[] = {98, 64, 96};
    static const char *const texts[] = {"the anda", " thea\xc4\xa0"};
    for (int i = 0; i < 2; i++) {
        es_tokenizer *t;
        es_token_list list = {0};
        es_model *m;
        const char *path = golden_path(i ? "gguf/qwen2/q8_0.gguf" : "gguf/llama/q8_0.gguf");
        const int *ids = i ? qwen2 : llama;
        assert_ok(es_model_open(path, NULL, &m, &err));
        assert_string_equal(es_model_folder(m), path);
        assert_ok(es_tokenizer_open(es_model_folder(m), NULL, &t, &err));
        assert_ok(es_model_check_tokenizer(es_model_config_of(m), path, t, &err));
        assert_ok(es_tokenizer_encode(t, texts[i], i ? 6 : 8, NULL, &list, &err));
        assert_at_least(list.count, 2);
        for (int k = 0; k < (i ? 2 : 4); k++)
            assert_int_equal(list.tokens[k].id, ids[k]);
        es_token_list_free(&list);
        es_tokenizer_free(t);
        es_model_close(m);
    }
}

/* ---- files that are changed ---- */

static gguf_draft original, changed;

static void read_golden(const char *arch)
{
    char file[64];
    snprintf(file, sizeof file, "gguf/%s/q8_0.gguf", arch);
    FILE *f = fopen(golden_path(file), "rb");
    assert_non_null(f);
    original.size = fread(original.bytes, 1, sizeof original.bytes, f);
    assert_true(feof(f));
    fclose(f);
}

static void read_original(void) { read_golden("llama"); }

static unsigned char *find_bytes(gguf_draft *g, const char *text)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i + length <= g->size; i++)
        if (memcmp(g->bytes + i, text, length) == 0)
            return g->bytes + i;
    fail_msg("there is no %s", text);
    return NULL;
}

/* How much data the file has: where one more tensor's begins. */
static uint64_t data_size(void)
{
    const es_st_opts opts = {0};
    es_gguf_header h;
    uint64_t wanted;
    assert_ok(
        es_gguf_parse(original.bytes, original.size, original.size, "x", &opts, &h, &wanted, &err));
    const uint64_t size = original.size - h.data;
    es_gguf_header_free(&h);
    assert_int_equal(size % 32, 0);
    return size;
}

/* The file with `values` more values and `tensors` more tensors, whose data comes last. */
static void insert(const gguf_draft *value, uint64_t values, const gguf_draft *tensor,
                   uint64_t tensors, const gguf_draft *data)
{
    const es_st_opts opts = {0};
    es_gguf_header h;
    uint64_t wanted;
    assert_ok(
        es_gguf_parse(original.bytes, original.size, original.size, "x", &opts, &h, &wanted, &err));
    put_begin(&changed, 3, (uint64_t)h.count + tensors, (uint64_t)h.values_count + values);
    if (value)
        put_bytes(&changed, value->bytes, value->size);
    put_bytes(&changed, original.bytes + 24, h.end - 24);
    if (tensor)
        put_bytes(&changed, tensor->bytes, tensor->size);
    put_padding(&changed, 32);
    put_bytes(&changed, original.bytes + h.data, original.size - h.data);
    if (data)
        put_bytes(&changed, data->bytes, data->size);
    es_gguf_header_free(&h);
}

static void refuse_model(es_status status, const char *rule, const char *word)
{
    es_mem_limit budget = {0};
    const es_model_opts opts = {.budget = &budget};
    es_model *m;
    const es_status got_ = es_model_open(save_gguf(&changed), &opts, &m, &err);
    if (got_ != status || strcmp(err.rule, rule) != 0 || !strstr(err.message, word))
        fail_msg("%s %s (%s), expected %s %s with %s", es_status_name(got_), err.rule, err.message,
                 es_status_name(status), rule, word);
    assert_null(m);
    assert_true(err.hint[0] && err.file[0]);
    assert_int_equal(budget.used, 0);
}

static gguf_draft part;

/* One more value. */
#define WITH(...)                                                                                  \
    do {                                                                                           \
        part.size = 0;                                                                             \
        __VA_ARGS__;                                                                               \
        insert(&part, 1, NULL, 0, NULL);                                                           \
    } while (0)

static void values_that_change_the_function_are_refused_by_name(void **state)
{
    (void)state;
    read_original();
    WITH(put_u32(&part, "llama.expert_used_count", 8));
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "llama.expert_used_count");
    WITH(put_f32(&part, "llama.final_logit_softcapping", 30));
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "llama.final_logit_softcapping");
    WITH(put_u32(&part, "llama.attention.sliding_window", 4096));
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "llama.attention.sliding_window");
    WITH(put_u32(&part, "llama.rope.dimension_count", 4));
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "llama.rope.dimension_count");
    WITH(put_u32(&part, "llama.attention.value_length", 16));
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "llama.attention.value_length");
    WITH(put_string(&part, "llama.rope.scaling.type", "longrope"));
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "llama.rope.scaling.type");
    WITH(put_flag(&part, "llama.attention.causal", false));
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "llama.attention.causal");
    WITH(put_string(&part, "general.type", "adapter"));
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "general.type");
    insert(NULL, 0, NULL, 0, NULL);
    memcpy(find_bytes(&changed, "llama"), "rwkv7", 5);
    refuse_model(ES_E_UNSUPPORTED, "gguf.architecture", "rwkv7");
    assert_non_null(strstr(err.hint, "modern-bert")); /* the last of the table */
    WITH(put_u32(&part, "llama.expert_count", 0));    /* and what does not, is not */
    es_model *m;
    assert_ok(es_model_open(save_gguf(&changed), NULL, &m, &err));
    es_model_close(m);
}

static void GG07_models_whose_values_do_not_fit(void **state)
{
    (void)state;
    static const char *const required[] = {"llama.block_count", "llama.context_length",
                                           "llama.embedding_length", "llama.feed_forward_length",
                                           "llama.attention.layer_norm_rms_epsilon"};
    read_original();
    for (int i = 0; i < 5; i++) {
        insert(NULL, 0, NULL, 0, NULL);
        find_bytes(&changed, required[i])[0] = 'x';
        refuse_model(ES_E_FORMAT, "gguf.missing", required[i]);
    }
    insert(NULL, 0, NULL, 0, NULL);
    find_bytes(&changed, "llama.block_count")[17] = ES_GGUF_F32;
    refuse_model(ES_E_FORMAT, "gguf.value", "llama.block_count");
    insert(NULL, 0, NULL, 0, NULL);
    find_bytes(&changed, "llama.attention.head_count_kv")[29 + 4] = 3;
    refuse_model(ES_E_FORMAT, "gguf.heads", "llama.attention.head_count_kv");
    insert(NULL, 0, NULL, 0, NULL);
    find_bytes(&changed, "llama.embedding_length")[22 + 4] = 30;
    refuse_model(ES_E_FORMAT, "gguf.heads", "llama.embedding_length");
    insert(NULL, 0, NULL, 0, NULL);
    find_bytes(&changed, "llama.attention.head_count_kv")[29 + 4] = 0;
    refuse_model(ES_E_FORMAT, "gguf.value", "llama.attention.head_count_kv");
    insert(NULL, 0, NULL, 0, NULL);
    find_bytes(&changed, "llama.feed_forward_length")[25 + 4] = 96;
    refuse_model(ES_E_FORMAT, "gguf.tensor", "ffn_");
    insert(NULL, 0, NULL, 0, NULL);
    find_bytes(&changed, "llama.block_count")[17 + 4] = 3;
    refuse_model(ES_E_FORMAT, "gguf.tensor", "blk.2.attn_norm.weight");
    insert(NULL, 0, NULL, 0, NULL);
    find_bytes(&changed, "llama.block_count")[17 + 4] = 1;
    refuse_model(ES_E_UNSUPPORTED, "gguf.tensor", "blk.1.");
    insert(NULL, 0, NULL, 0, NULL);
    memcpy(find_bytes(&changed, "blk.1.ffn_up.weight"), "blk.1.ffn_pu.weight", 19);
    refuse_model(ES_E_FORMAT, "gguf.tensor", "blk.1.ffn_up.weight");
    insert(NULL, 0, NULL, 0, NULL);
    memcpy(find_bytes(&changed, "token_embd.weight"), "token_embd.thgiew", 17);
    refuse_model(ES_E_FORMAT, "gguf.tensor", "token_embd.weight");
}

/* Tensors that a Llama does not have, factors of tensors that have none, and a tensor of a type
 * that is not read. */
static void GG06_tensors_that_are_not_known(void **state)
{
    (void)state;
    static gguf_draft data;
    read_original();
    const uint64_t end = data_size();
    part.size = 0;
    put_tensor(&part, "blk.0.attn_q_norm.weight", 8, 0, 0, end);
    data.size = 32;
    insert(NULL, 0, &part, 1, &data);
    refuse_model(ES_E_UNSUPPORTED, "gguf.tensor", "blk.0.attn_q_norm.weight");
    part.size = 0;
    put_tensor(&part, "blk.0.attn_norm.scale", 1, 0, 0, end);
    insert(NULL, 0, &part, 1, &data);
    refuse_model(ES_E_UNSUPPORTED, "gguf.tensor", "blk.0.attn_norm.scale");
    part.size = 0;
    put_tensor(&part, "token_embd.scale", 1, 0, 0, end);
    insert(NULL, 0, &part, 1, &data);
    refuse_model(ES_E_UNSUPPORTED, "gguf.tensor", "token_embd.scale");
    part.size = 0;
    put_tensor(&part, "blk.0.ffn_up.scale", 2, 0, 0, end);
    insert(NULL, 0, &part, 1, &data);
    refuse_model(ES_E_FORMAT, "gguf.tensor", "blk.0.ffn_up.scale");
    part.size = 0;
    put_tensor(&part, "blk.0.ffn_up.scale", 1, 0, 0, end); /* it is 0 */
    insert(NULL, 0, &part, 1, &data);
    refuse_model(ES_E_NONFINITE, "model.finite", "blk.0.ffn_up.scale");
    part.size = 0;
    put_tensor(&part, "extra.weight", 20, 0, 28, end);
    data.size = 160;
    insert(NULL, 0, &part, 1, &data);
    refuse_model(ES_E_UNSUPPORTED, "gguf.kind", "F64");
    assert_non_null(strstr(err.message, "extra.weight"));
}

/* Runs the file with factors of matrices, as files have them that were made from NVFP4. */
static void run_scaled(const char *const *names, const float *factors, int count)
{
    static gguf_draft data;
    const uint64_t end = data_size();
    part.size = data.size = 0;
    for (int i = 0; i < count; i++) {
        put_tensor(&part, names[i], 1, 0, 0, end + 32 * (uint64_t)i);
        put_bytes(&data, &factors[i], sizeof *factors);
        put_padding(&data, 32);
    }
    insert(NULL, 0, &part, (uint64_t)count, &data);
    run_model(save_gguf(&changed), ES_F64, &got);
}

/* Factors of two matrices in a row whose product is 1 leave the function as it is, to the last bit,
 * because they are powers of two; one of them alone does not, and a factor of inputs has no effect.
 */
static void factors_of_matrices_are_applied(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_q.scale", "blk.0.attn_k.scale",
                                        "blk.1.ffn_up.scale", "blk.1.ffn_down.scale",
                                        "blk.1.ffn_up.input_scale"};
    static const float factors[] = {4.0f, 0.25f, 2.0f, 0.5f, 3.0f};
    read_original();
    run_model(golden_path("gguf/llama/q8_0.gguf"), ES_F64, &want);
    run_scaled(names, factors, 5);
    assert_memory_equal(got.logits, want.logits, want.logits_bytes);
    for (int i = 0; i < 4; i++) {
        run_scaled(names + i, factors + i, 1);
        assert_memory_not_equal(got.logits, want.logits, want.logits_bytes);
    }
}

/* Biases of norms, of embeddings, and of an output, tied or not. */
static void GG06_biases_that_are_not_known(void **state)
{
    (void)state;
    static gguf_draft data;
    static const struct {
        const char *file, *tensor, *known_as;
        uint64_t count;
    } all[] = {{"llama", "blk.1.attn_norm.bias", "layers.1.input_layernorm.bias", 32},
               {"llama", "output_norm.bias", "model.norm.bias", 32},
               {"llama", "token_embd.bias", "embed_tokens.bias", 0},
               {"llama", "output.bias", "lm_head.bias", 0},
               {"qwen2", "output.bias", "lm_head.bias", 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        read_golden(all[i].file);
        run_model(golden_path(i == 4 ? "gguf/qwen2/q8_0.gguf" : "gguf/llama/q8_0.gguf"), ES_F32,
                  &want);
        const uint64_t count = all[i].count ? all[i].count : (uint64_t)want.config.vocab;
        part.size = data.size = 0;
        put_tensor(&part, all[i].tensor, count, 0, 0, data_size());
        data.size = (size_t)count * 4;
        put_padding(&data, 32);
        insert(NULL, 0, &part, 1, &data);
        refuse_model(ES_E_FORMAT, "model.tensor", all[i].known_as);
        assert_true(i != 4 || want.config.tied);
    }
}

/* ---- rotary positions ---- */

/* The golden checkpoint with another line in its config.json. */
static const char *write_checkpoint(const char *more)
{
    static char path[512];
    char text[2048], name[600];
    FILE *f = fopen(golden_path("gguf/llama/config.json"), "rb");
    assert_non_null(f);
    const size_t size = fread(text, 1, 1024, f);
    fclose(f);
    char *brace = text + size;
    while (*--brace != '}')
        ;
    snprintf(brace, 1024, ",%s}", more);
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    mkdir(path, 0755);
    snprintf(name, sizeof name, "%s/config.json", path);
    f = fopen(name, "wb");
    fputs(text, f);
    fclose(f);
    snprintf(name, sizeof name, "%s/model.safetensors", path);
    unlink(name);
    assert_int_equal(symlink(golden_path("gguf/llama/model.safetensors"), name), 0);
    return path;
}

static void remove_checkpoint(void)
{
    char name[600];
    snprintf(name, sizeof name, "%s/checkpoint/config.json", folder);
    unlink(name);
    snprintf(name, sizeof name, "%s/checkpoint/model.safetensors", folder);
    unlink(name);
    snprintf(name, sizeof name, "%s/checkpoint", folder);
    rmdir(name);
}

static void stretched_positions_are_those_of_the_checkpoint(void **state)
{
    (void)state;
    read_original();
    part.size = 0;
    put_string(&part, "llama.rope.scaling.type", "linear");
    put_f32(&part, "llama.rope.scaling.factor", 4);
    insert(&part, 2, NULL, 0, NULL);
    check_same(write_checkpoint("\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}"),
               save_gguf(&changed), ES_F64);
    part.size = 0;
    put_string(&part, "llama.rope.scaling.type", "yarn");
    put_f32(&part, "llama.rope.scaling.factor", 4);
    put_u32(&part, "llama.rope.scaling.original_context_length", 32);
    insert(&part, 3, NULL, 0, NULL);
    check_same(write_checkpoint("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,"
                                "\"original_max_position_embeddings\":32}"),
               save_gguf(&changed), ES_F64);
    /* what else YaRN may have: two edges, which count, and factors that do nothing */
    part.size = 0;
    put_string(&part, "llama.rope.scaling.type", "yarn");
    put_f32(&part, "llama.rope.scaling.factor", 4);
    put_u32(&part, "llama.rope.scaling.original_context_length", 32);
    put_f32(&part, "llama.rope.scaling.yarn_beta_fast", 3);
    put_f32(&part, "llama.rope.scaling.yarn_beta_slow", 0.5f);
    put_f32(&part, "llama.rope.scaling.yarn_ext_factor", 1);
    put_f32(&part, "llama.rope.scaling.yarn_attn_factor", 1);
    put_f32(&part, "llama.rope.scaling.yarn_log_multiplier", 0);
    insert(&part, 8, NULL, 0, NULL);
    check_same(
        write_checkpoint("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,\"beta_fast\":3,"
                         "\"beta_slow\":0.5,\"original_max_position_embeddings\":32}"),
        save_gguf(&changed), ES_F64);
    assert_equals(got.config.rotary.fast, 3);
    assert_equals(got.config.rotary.slow, 0.5);
    remove_checkpoint();
}

/* Of YaRN's factors one that does something is refused by name. */
static void GG07_factors_of_yarn_that_are_not_built_in(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        float value;
    } bad[] = {{"llama.rope.scaling.yarn_attn_factor", 0.5f},
               {"llama.rope.scaling.yarn_ext_factor", 1}, /* and no YaRN */
               {"llama.rope.scaling.yarn_log_multiplier", 0.1f},
               {"llama.rope.scaling.yarn_other", 1}};
    read_original();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        WITH(put_f32(&part, bad[i].key, bad[i].value));
        refuse_model(ES_E_UNSUPPORTED, "gguf.function", bad[i].key);
    }
    WITH(put_f32(&part, "llama.rope.scaling.yarn_beta_fast", -1));
    refuse_model(ES_E_FORMAT, "gguf.value", "yarn_beta_fast");
}

/* A list of two numbers in place of the one of this key. */
static void insert_list(const char *key, es_gguf_value_type item, int64_t first, int64_t second)
{
    read_original();
    find_bytes(&original, key)[0] = 'x';
    part.size = 0;
    put_array(&part, key, item, 2);
    put_number(&part, (uint64_t)first, 4);
    put_number(&part, (uint64_t)second, 4);
    insert(&part, 1, NULL, 0, NULL);
}

/* A number for each of the two layers: the same, or refused by name. */
static void GG07_numbers_of_each_layer(void **state)
{
    (void)state;
    read_original();
    run_model(golden_path("gguf/llama/q8_0.gguf"), ES_F64, &want);
    const struct {
        const char *key;
        int64_t value;
    } all[] = {{"llama.attention.head_count", want.config.heads},
               {"llama.attention.head_count_kv", want.config.kv_heads},
               {"llama.feed_forward_length", want.config.intermediate}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int k = 0; k < 2; k++) {
            insert_list(all[i].key, k ? ES_GGUF_I32 : ES_GGUF_U32, all[i].value, all[i].value);
            run_model(save_gguf(&changed), ES_F64, &got);
            assert_memory_equal(got.logits, want.logits, want.logits_bytes);
        }
        insert_list(all[i].key, ES_GGUF_U32, all[i].value, all[i].value + 1);
        refuse_model(ES_E_UNSUPPORTED, "gguf.function", all[i].key);
        insert_list(all[i].key, ES_GGUF_I32, -1, -1);
        refuse_model(ES_E_FORMAT, "gguf.value", all[i].key);
        insert_list(all[i].key, ES_GGUF_F32, 0, 0);
        refuse_model(ES_E_FORMAT, "gguf.value", all[i].key);
        insert_list(all[i].key, ES_GGUF_U32, all[i].value, all[i].value);
        find_bytes(&changed, "llama.block_count")[17 + 4] = 1;
        refuse_model(ES_E_FORMAT, "gguf.value", all[i].key);
    }
}

/* What llama.cpp's converter makes of Llama 3's rule, for the four channels of a head of 8 with
 * theta 10000: wavelengths 6.3, 62.8, 628, 6283, of which 32 positions leave the first as it is. */
static void put_rates(uint64_t offset, double original_positions, double factor, gguf_draft *data)
{
    part.size = data->size = 0;
    put_tensor(&part, "rope_freqs.weight", 4, 0, 0, offset);
    for (int i = 0; i < 4; i++) {
        const double wave = 6.283185307179586 * pow(10000, i / 4.0);
        double rate = factor;
        if (wave < original_positions / 4)
            rate = 1;
        else if (wave <= original_positions) {
            const double smooth = (original_positions / wave - 1) / 3;
            rate = 1 / ((1 - smooth) / factor + smooth);
        }
        const float single = (float)rate;
        put_bytes(data, &single, sizeof single);
    }
    put_padding(data, 32);
}

static void frequencies_of_llama_3_are_recognised(void **state)
{
    (void)state;
    static gguf_draft data;
    read_original();
    const uint64_t end = data_size();
    put_rates(end, 128, 8, &data);
    insert(NULL, 0, &part, 1, &data);
    run_model(save_gguf(&changed), ES_F64, &got);
    assert_string_equal(got.config.rotary.type, "llama3");
    run_model(write_checkpoint("\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
                               "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                               "\"original_max_position_embeddings\":128}"),
              ES_F64, &want);
    assert_memory_equal(got.hidden, want.hidden, want.hidden_bytes);
    assert_memory_equal(got.logits, want.logits, want.logits_bytes);
    run_model(golden_path("gguf/llama/q8_0.gguf"), ES_F64, &want); /* it does make a difference */
    assert_memory_not_equal(got.hidden, want.hidden, want.hidden_bytes);
    remove_checkpoint();
    put_rates(end, 96, 8, &data);
    insert(NULL, 0, &part, 1, &data);
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "rope_freqs.weight");
}

/* ---- numbers of config.json ---- */

/* 1e-5 and 500000 in f32 are what the checkpoint said in decimal. */
static void f32_values_are_read_as_the_decimals_they_were(void **state)
{
    (void)state;
    static const struct {
        float eps, theta;
        double eps_, theta_;
    } cases[] = {{1e-5f, 500000.0f, 1e-5, 500000.0},
                 {1e-6f, 1000000.0f, 1e-6, 1000000.0},
                 {1.5e-7f, 12345.678f, 1.5e-7, 12345.678}};
    read_original();
    for (int i = 0; i < 3; i++) {
        insert(NULL, 0, NULL, 0, NULL);
        memcpy(find_bytes(&changed, "llama.attention.layer_norm_rms_epsilon") + 38 + 4,
               &cases[i].eps, 4);
        memcpy(find_bytes(&changed, "llama.rope.freq_base") + 20 + 4, &cases[i].theta, 4);
        es_gguf *g = open_gguf(&changed);
        assert_ok(es_gguf_config(g, &got.config, &err));
        assert_near(got.config.layer_norm_eps, cases[i].eps_, 0);
        assert_near(got.config.rotary.theta, cases[i].theta_, 0);
        es_gguf_close(g);
    }
}

/* ---- cut and flipped ---- */

/* A model, or a record of why not. */
static bool survive(const char *path)
{
    es_mem_limit budget = {0};
    const es_model_opts opts = {.budget = &budget, .allow_nonfinite = true};
    es_model *m;
    err = (es_error){0};
    const es_status status = es_model_open(path, &opts, &m, &err);
    if (status != ES_OK) {
        assert_int_equal(err.code, status);
        assert_true(err.rule[0] && err.message[0] && err.hint[0]);
    }
    es_model_close(m);
    assert_int_equal(budget.used, 0);
    return status == ES_OK;
}

static void GG08_a_model_cut_anywhere_is_refused(void **state)
{
    (void)state;
    const off_t step = getenv("ESSCHER_QUICK_TESTS") ? 41 : 1;
    read_original();
    const char *path = save_gguf(&original);
    assert_true(survive(path));
    for (off_t size = (off_t)original.size - 1; size >= 0; size -= step) {
        assert_int_equal(truncate(path, size), 0);
        if (survive(path))
            fail_msg("cut to %lld of %zu bytes it is a model", (long long)size, original.size);
    }
}

static void write_byte(FILE *f, size_t at, int byte)
{
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    fputc(byte, f);
    assert_int_equal(fflush(f), 0);
}

static void GG08_a_model_with_a_bit_flipped(void **state)
{
    (void)state;
    const size_t step = getenv("ESSCHER_QUICK_TESTS") ? 61 : 1;
    int models = 0;
    read_original();
    const char *path = save_gguf(&original);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    for (size_t bit = 0; bit < 8 * 4096; bit += step) {
        const int byte = original.bytes[bit / 8];
        write_byte(f, bit / 8, byte ^ 1 << bit % 8);
        models += survive(path);
        write_byte(f, bit / 8, byte);
    }
    fclose(f);
    assert_above(models, 0); /* texts of tokens and the data may be anything */
}

/* Fails unless a file was opened, or refused for want of memory without leaving an object. */
static void check_refusal(es_status status, const void *opened)
{
    if (status == ES_OK)
        return;
    assert_int_equal(status, ES_E_LIMIT);
    assert_null(opened);
}

/* Wherever memory ends, nothing is left behind: of the model, and of its tokenizer. */
static void memory_that_ends_is_an_error(void **state)
{
    (void)state;
    const char *path = golden_path("gguf/llama/q8_0.gguf");
    size_t models = 0, tokenizers = 0;
    for (size_t limit = 1; limit < 600000; limit += limit < 40000 ? 613 : 9973) {
        es_mem_limit budget = {.limit = limit};
        const es_model_opts opts = {.budget = &budget};
        es_model *m;
        es_tokenizer *t;
        es_status status = es_model_open(path, &opts, &m, &err);
        check_refusal(status, m);
        models += status == ES_OK;
        es_model_close(m);
        assert_int_equal(budget.used, 0);
        status = es_tokenizer_open(path, &budget, &t, &err);
        check_refusal(status, t);
        tokenizers += status == ES_OK;
        es_tokenizer_free(t);
        assert_int_equal(budget.used, 0);
    }
    assert_above(models, 0);
    assert_above(tokenizers, 0);
}

/* ---- other architectures ---- */

/* Reads a seed of the fuzzer: a model of a few kilobytes (tests/fuzz/make_corpus_gguf_archs.py). */
static void read_seed(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, ES_TESTS_DIR "/fuzz/corpus_gguf/%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    changed.size = fread(changed.bytes, 1, sizeof changed.bytes, f);
    assert_true(feof(f));
    fclose(f);
}

/* The test gguf_archs compares what models compute; here one thing is wrong with each. */
static void GG07_architectures_that_lack_something(void **state)
{
    (void)state;
    static const struct {
        const char *seed, *text, *instead;
        es_status status;
        const char *rule, *word;
    } bad[] = {{"arch_gpt_oss", "blk.1.ffn_up_exps.weight", "blk.1.ffn_up_exps.thgiew", ES_E_FORMAT,
                "gguf.tensor", "blk.1.ffn_up_exps.weight"},
               {"arch_gpt_oss", "blk.1.attn_sinks.weight", "blk.2.attn_sinks.weight", ES_E_FORMAT,
                "gguf.tensor", "blk.1.attn_sinks.weight"},
               {"arch_gpt_oss", "gpt-oss.attention.sliding_window",
                "gpt-oss.attention.sliding_windOw", ES_E_UNSUPPORTED, "gguf.function",
                "sliding_windOw"},
               {"arch_mixtral", "blk.1.ffn_gate_inp.weight", "blk.1.ffn_gate_pin.weight",
                ES_E_FORMAT, "gguf.tensor", "blk.1.ffn_gate_inp.weight"},
               {"arch_mixtral", "blk.1.ffn_down_exps.weight", "blk.9.ffn_down_exps.weight",
                ES_E_UNSUPPORTED, "gguf.tensor", "blk.9.ffn_down_exps.weight"},
               {"arch_mixtral", "blk.1.ffn_down_exps.weight", "blk.01.ffn_down_exp.weight",
                ES_E_UNSUPPORTED, "gguf.tensor", "blk.01.ffn_down_exp.weight"},
               {"arch_mixtral", "llama.expert_used_count", "llama.expert_used_cOunt",
                ES_E_UNSUPPORTED, "gguf.function", "expert_used_cOunt"},
               {"arch_stablelm", "stablelm.rope.dimension_count", "stablelm_rope.dimension_count",
                ES_E_FORMAT, "gguf.missing", "stablelm.rope.dimension_count"},
               {"arch_phi4-mini", "rope_factors_short.weight", "rope_factors_shOrt.weight",
                ES_E_FORMAT, "gguf.tensor", "rope_factors_short.weight"},
               {"arch_granite", "granite.attention.scale", "granite_attention.scale", ES_E_FORMAT,
                "gguf.missing", "granite.attention.scale"},
               {"arch_gpt2", "blk.0.attn_qkv.bias", "blk.0.attn_qkv.siab", ES_E_FORMAT,
                "gguf.tensor", "blk.0.attn_qkv.bias"},
               {"arch_roberta", "position_embd.weight", "position_embd.thgiew", ES_E_FORMAT,
                "gguf.tensor", "position_embd.weight"},
               {"arch_cohere2", "cohere2.logit_scale", "cohere2_logit_scale", ES_E_FORMAT,
                "gguf.missing", "cohere2.logit_scale"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        es_model *m;
        read_seed(bad[i].seed);
        assert_ok(es_model_open(save_gguf(&changed), NULL, &m, &err));
        es_model_close(m);
        assert_int_equal(strlen(bad[i].text), strlen(bad[i].instead));
        memcpy(find_bytes(&changed, bad[i].text), bad[i].instead, strlen(bad[i].text));
        refuse_model(bad[i].status, bad[i].rule, bad[i].word);
    }
}

/* An encoder whose file says that it is causal. */
static void GG07_an_encoder_that_is_causal(void **state)
{
    (void)state;
    read_seed("arch_modernbert");
    unsigned char *key = find_bytes(&changed, "modern-bert.attention.causal");
    key[strlen("modern-bert.attention.causal") + 4] = 1;
    refuse_model(ES_E_UNSUPPORTED, "gguf.function", "modern-bert.attention.causal");
}

/* docs/MODELS.md names every architecture. */
static void the_document_names_every_architecture(void **state)
{
    (void)state;
    static char text[1 << 17];
    FILE *f = fopen(ES_TESTS_DIR "/../docs/MODELS.md", "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    char *row = strstr(text, "| `general.architecture` |"), word[64];
    assert_non_null(row);
    row[strcspn(row, "\n")] = '\0';
    for (int i = 0; es_gguf_archs[i]; i++) {
        const es_gguf_arch *a = es_gguf_archs[i];
        snprintf(word, sizeof word, "`%s`", a->name);
        if (!strstr(row, word))
            fail_msg("docs/MODELS.md does not name %s", a->name);
        assert_non_null(es_arch_find(a->model_type, ""));
    }
}

TEST_FILE(gguf_model)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_every_kind_are_the_checkpoint),
        cmocka_unit_test(other_weights_are_another_function),
        cmocka_unit_test(the_tokenizer_comes_with_it),
        cmocka_unit_test(values_that_change_the_function_are_refused_by_name),
        cmocka_unit_test(GG07_models_whose_values_do_not_fit),
        cmocka_unit_test(GG06_tensors_that_are_not_known),
        cmocka_unit_test(factors_of_matrices_are_applied),
        cmocka_unit_test(GG06_biases_that_are_not_known),
        cmocka_unit_test(GG07_factors_of_yarn_that_are_not_built_in),
        cmocka_unit_test(GG07_numbers_of_each_layer),
        cmocka_unit_test(GG07_architectures_that_lack_something),
        cmocka_unit_test(GG07_an_encoder_that_is_causal),
        cmocka_unit_test(stretched_positions_are_those_of_the_checkpoint),
        cmocka_unit_test(frequencies_of_llama_3_are_recognised),
        cmocka_unit_test(f32_values_are_read_as_the_decimals_they_were),
        cmocka_unit_test(memory_that_ends_is_an_error),
        cmocka_unit_test(GG08_a_model_cut_anywhere_is_refused),
        cmocka_unit_test(GG08_a_model_with_a_bit_flipped),
        cmocka_unit_test(the_document_names_every_architecture),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
