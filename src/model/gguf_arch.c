/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch.c : the table of GGUF architectures, and lists of keys and tensors that they share.
 *
 * To add one: a description in the file of its relatives, an entry in the table. */
#include "model/gguf_arch.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/gguf_model.h"

#define AT(member)  ES_GGUF_AT(member)
#define LAYER(name) ES_GGUF_LAYER(name)

/* ---- keys ---- */

const es_gguf_key es_gguf_size_keys[] = {
    {"embedding_length", ES_GGUF_USE_WHOLE, AT(hidden), 1, 65536, true},
    {"feed_forward_length", ES_GGUF_USE_PER_LAYER, AT(intermediate), 1, 1 << 20, true},
    {"context_length", ES_GGUF_USE_WHOLE, AT(positions), 1, 1 << 24, true},
    {"attention.head_count", ES_GGUF_USE_PER_LAYER, AT(heads), 1, 65536, true},
    {"block_count", ES_GGUF_USE_CODE},
    {"attention.causal", ES_GGUF_USE_CODE},
    {"vocab_size", ES_GGUF_USE_CODE},
    {"tensor_data_layout", ES_GGUF_USE_CODE},
    {"expert_count", ES_GGUF_USE_ZERO},
    {"expert_used_count", ES_GGUF_USE_ZERO},
    {"attention.sliding_window", ES_GGUF_USE_ZERO},
    {"pooling_type", ES_GGUF_USE_ZERO},
    {0}};

const es_gguf_key es_gguf_head_keys[] = {
    {"attention.head_count_kv", ES_GGUF_USE_PER_LAYER, AT(kv_heads), 1, 65536, false},
    {"attention.key_length", ES_GGUF_USE_WHOLE, AT(head_dim), 1, 4096, false},
    {"attention.value_length", ES_GGUF_USE_CODE},
    {0}};

const es_gguf_key es_gguf_rotary_keys[] = {
    {"rope.freq_base", ES_GGUF_USE_REAL, AT(rotary.theta), 1.0001, 1e15, false},
    {"rope.dimension_count", ES_GGUF_USE_CODE},
    {"rope.scale_linear", ES_GGUF_USE_CODE},
    {"rope.scaling.type", ES_GGUF_USE_CODE},
    {"rope.scaling.factor", ES_GGUF_USE_CODE},
    {"rope.scaling.original_context_length", ES_GGUF_USE_CODE},
    {"rope.scaling.finetuned", ES_GGUF_USE_CODE},
    {"rope.scaling.attn_factor", ES_GGUF_USE_CODE},
    {"rope.scaling.yarn_attn_factor", ES_GGUF_USE_CODE},
    {"rope.scaling.yarn_ext_factor", ES_GGUF_USE_CODE},
    {"rope.scaling.yarn_beta_fast", ES_GGUF_USE_CODE},
    {"rope.scaling.yarn_beta_slow", ES_GGUF_USE_CODE},
    {"rope.scaling.yarn_log_multiplier", ES_GGUF_USE_CODE},
    {0}};

const es_gguf_key es_gguf_rms_keys[] = {
    {"attention.layer_norm_rms_epsilon", ES_GGUF_USE_REAL, AT(layer_norm_eps), 1e-20, 1e-2, true},
    {0}};

const es_gguf_key es_gguf_layer_keys[] = {
    {"attention.layer_norm_epsilon", ES_GGUF_USE_REAL, AT(layer_norm_eps), 1e-20, 1e-2, true}, {0}};

const es_gguf_key es_gguf_expert_keys[] = {
    {"expert_count", ES_GGUF_USE_WHOLE, AT(experts), 1, 1 << 16, true},
    {"expert_used_count", ES_GGUF_USE_WHOLE, AT(experts_used), 1, 1 << 16, true},
    {"expert_feed_forward_length", ES_GGUF_USE_WHOLE, AT(expert_width), 1, 1 << 20, false},
    {"expert_weights_norm", ES_GGUF_USE_FLAG, AT(shares_sum)},
    {"expert_shared_count", ES_GGUF_USE_ZERO},
    {0}};

const es_gguf_key es_gguf_window_keys[] = {
    {"attention.sliding_window", ES_GGUF_USE_WHOLE, ES_STATED(window), 0, 1 << 24, false},
    {"attention.sliding_window_pattern", ES_GGUF_USE_WINDOWS},
    {0}};

const es_gguf_key es_gguf_encoder_keys[] = {
    {"pooling_type", ES_GGUF_USE_CODE}, {"classifier.output_labels", ES_GGUF_USE_CODE}, {0}};

/* ---- tensors ---- */

const es_gguf_tensor es_gguf_end_tensors[] = {
    {"token_embd", "model.embed_tokens", AT(vocab), AT(hidden)},
    {"output_norm", "model.norm", AT(hidden), ES_GGUF_VECTOR},
    {"output", "lm_head", AT(vocab), AT(hidden), ES_GGUF_OPTIONAL},
    {0}};

const es_gguf_tensor es_gguf_attention_tensors[] = {
    {"blk.*.attn_q", LAYER("self_attn.q_proj"), AT(query_width), AT(hidden), ES_GGUF_BIASED,
     .heads = AT(heads)},
    {"blk.*.attn_k", LAYER("self_attn.k_proj"), AT(kv_width), AT(hidden), ES_GGUF_BIASED,
     .heads = AT(kv_heads)},
    {"blk.*.attn_v", LAYER("self_attn.v_proj"), AT(kv_width), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_output", LAYER("self_attn.o_proj"), AT(hidden), AT(query_width)},
    {0}};

const es_gguf_tensor es_gguf_mlp_tensors[] = {
    {"blk.*.ffn_gate", LAYER("mlp.gate_proj"), AT(intermediate), AT(hidden), ES_GGUF_DENSE},
    {"blk.*.ffn_up", LAYER("mlp.up_proj"), AT(intermediate), AT(hidden), ES_GGUF_DENSE},
    {"blk.*.ffn_down", LAYER("mlp.down_proj"), AT(hidden), AT(intermediate), ES_GGUF_DENSE},
    {0}};

const es_gguf_tensor es_gguf_norm_tensors[] = {
    {"blk.*.attn_norm", LAYER("input_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.ffn_norm", LAYER("post_attention_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {0}};

const es_gguf_tensor es_gguf_after_tensors[] = {
    {"blk.*.post_attention_norm", LAYER("post_attention_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.post_ffw_norm", LAYER("post_feedforward_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {0}};

const es_gguf_tensor es_gguf_head_norm_tensors[] = {
    {"blk.*.attn_q_norm", LAYER("self_attn.q_norm"), AT(head_dim), ES_GGUF_VECTOR},
    {"blk.*.attn_k_norm", LAYER("self_attn.k_norm"), AT(head_dim), ES_GGUF_VECTOR},
    {0}};

/* The experts of a layer are one tensor; files of 2023 and early 2024 have one for each. */
const es_gguf_tensor es_gguf_expert_tensors[] = {
    {"blk.*.ffn_gate_inp", LAYER("mlp.gate"), AT(experts), AT(hidden), ES_GGUF_EXPERTS},
    {"blk.*.ffn_gate_exps", LAYER("mlp.experts.*.gate_proj"), AT(expert_width), AT(hidden),
     ES_GGUF_OPTIONAL, .times = AT(experts)},
    {"blk.*.ffn_up_exps", LAYER("mlp.experts.*.up_proj"), AT(expert_width), AT(hidden),
     ES_GGUF_OPTIONAL, .times = AT(experts)},
    {"blk.*.ffn_down_exps", LAYER("mlp.experts.*.down_proj"), AT(hidden), AT(expert_width),
     ES_GGUF_OPTIONAL, .times = AT(experts)},
    {"blk.*.ffn_gate.*", LAYER("mlp.experts.*.gate_proj"), AT(expert_width), AT(hidden),
     ES_GGUF_OPTIONAL},
    {"blk.*.ffn_up.*", LAYER("mlp.experts.*.up_proj"), AT(expert_width), AT(hidden),
     ES_GGUF_OPTIONAL},
    {"blk.*.ffn_down.*", LAYER("mlp.experts.*.down_proj"), AT(hidden), AT(expert_width),
     ES_GGUF_OPTIONAL},
    {0}};

/* ---- architectures ---- */

/* Descriptions that are for some files of a name stand before those for all. */
#define ARCHS(X)                                                                                   \
    X(mixtral)                                                                                     \
    X(llama)                                                                                       \
    X(qwen2)                                                                                       \
    X(qwen3)                                                                                       \
    X(qwen3moe)                                                                                    \
    X(smollm3)                                                                                     \
    X(granite)                                                                                     \
    X(mistral3)                                                                                    \
    X(phi3)                                                                                        \
    X(olmo3)                                                                                       \
    X(olmo2)                                                                                       \
    X(exaone4)                                                                                     \
    X(gemma)                                                                                       \
    X(gemma2)                                                                                      \
    X(gemma3)                                                                                      \
    X(gemma_embedding)                                                                             \
    X(gpt_oss)                                                                                     \
    X(gpt2)                                                                                        \
    X(gptneox)                                                                                     \
    X(starcoder2)                                                                                  \
    X(stablelm)                                                                                    \
    X(command_r)                                                                                   \
    X(cohere2)                                                                                     \
    X(bert)                                                                                        \
    X(distilbert)                                                                                  \
    X(nomic_bert)                                                                                  \
    X(modern_bert)

#define DECLARED(name) extern const es_gguf_arch es_gguf_arch_##name;
ARCHS(DECLARED)

#define ENTRY(name) &es_gguf_arch_##name,
const es_gguf_arch *const es_gguf_archs[] = {ARCHS(ENTRY) NULL};

/* Finds whether a description is for a file of its name. */
static es_status check_for(const es_gguf *g, const es_gguf_arch *arch, bool *is, es_error *err)
{
    char key[128];
    int64_t value = 0;
    *is = !arch->if_tensor || es_gguf_find_tensor(g, arch->if_tensor);
    if (!arch->if_key)
        return ES_OK;
    snprintf(key, sizeof key, "%s.%s", arch->name, arch->if_key);
    ES_TRY(es_gguf_whole(&g->header, key, (es_gguf_range){0, 1e9, false}, &value, err));
    *is = *is && value > 0;
    return ES_OK;
}

/* Writes the names of all architectures. */
static void list_archs(char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "supported:");
    const char *last = "";
    for (int i = 0; es_gguf_archs[i] && used < size; i++) {
        const char *name = es_gguf_archs[i]->name;
        if (strcmp(name, last) != 0)
            used += (size_t)snprintf(out + used, size - used, " %s", name);
        last = name;
    }
}

es_status es_gguf_arch_find(const es_gguf *g, const es_gguf_arch **out, es_error *err)
{
    es_gguf_text name;
    char hint[sizeof err->hint];
    ES_TRY(es_gguf_string(&g->header, "general.architecture", true, &name, err));
    for (int i = 0; es_gguf_archs[i]; i++) {
        bool is = es_gguf_text_is(name, es_gguf_archs[i]->name);
        if (is)
            ES_TRY(check_for(g, es_gguf_archs[i], &is, err));
        *out = es_gguf_archs[i];
        if (is)
            return ES_OK;
    }
    list_archs(hint, sizeof hint);
    return es_fail_file(err, ES_E_UNSUPPORTED, g->path, -1, "gguf.architecture", hint,
                        "general.architecture is '%.*s'", name.size < 64 ? (int)name.size : 64,
                        name.at);
}
