/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch_gpt.c : GGUF architectures of GPT-2, GPT-NeoX, gpt-oss, StarCoder 2 and StableLM. */
#include "model/gguf_arch.h"

#define AT(member)  ES_GGUF_AT(member)
#define LAYER(name) ES_GGUF_LAYER(name)

/* ---- GPT-2 ---- */

#define GPT2(name) "transformer.h.*." name

static const es_gguf_tensor gpt2_tensors[] = {
    {"token_embd", "transformer.wte", AT(vocab), AT(hidden)},
    {"position_embd", "transformer.wpe", AT(positions), AT(hidden)},
    {"output_norm", "transformer.ln_f", AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"output", "lm_head", AT(vocab), AT(hidden), ES_GGUF_OPTIONAL},
    {"blk.*.attn_norm", GPT2("ln_1"), AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"blk.*.attn_qkv", GPT2("attn.c_attn"), AT(qkv_width), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_output", GPT2("attn.c_proj"), AT(hidden), AT(query_width), ES_GGUF_BIASED},
    {"blk.*.ffn_norm", GPT2("ln_2"), AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"blk.*.ffn_up", GPT2("mlp.c_fc"), AT(intermediate), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.ffn_down", GPT2("mlp.c_proj"), AT(hidden), AT(intermediate), ES_GGUF_BIASED},
    {0}};

const es_gguf_arch es_gguf_arch_gpt2 = {
    .name = "gpt2",
    .model_type = "gpt2",
    .keys = {es_gguf_size_keys, es_gguf_head_keys, es_gguf_layer_keys},
    .tensors = {gpt2_tensors},
    .biases = ES_GGUF_BIASES_ALWAYS};

/* ---- GPT-NeoX ---- */

#define NEOX(name) "gpt_neox.layers.*." name

static const es_gguf_tensor neox_tensors[] = {
    {"token_embd", "gpt_neox.embed_in", AT(vocab), AT(hidden)},
    {"output_norm", "gpt_neox.final_layer_norm", AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"output", "embed_out", AT(vocab), AT(hidden), ES_GGUF_OPTIONAL},
    {"blk.*.attn_norm", NEOX("input_layernorm"), AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"blk.*.attn_qkv", NEOX("attention.query_key_value"), AT(qkv_width), AT(hidden),
     ES_GGUF_BIASED},
    {"blk.*.attn_output", NEOX("attention.dense"), AT(hidden), AT(query_width), ES_GGUF_BIASED},
    {"blk.*.ffn_norm", NEOX("post_attention_layernorm"), AT(hidden), ES_GGUF_VECTOR,
     ES_GGUF_BIASED},
    {"blk.*.ffn_up", NEOX("mlp.dense_h_to_4h"), AT(intermediate), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.ffn_down", NEOX("mlp.dense_4h_to_h"), AT(hidden), AT(intermediate), ES_GGUF_BIASED},
    {0}};

static const es_gguf_key parallel_keys[] = {
    {"use_parallel_residual", ES_GGUF_USE_FLAG, AT(parallel)}, {0}};

const es_gguf_arch es_gguf_arch_gptneox = {.name = "gptneox",
                                           .model_type = "gpt_neox",
                                           .keys = {parallel_keys, es_gguf_size_keys,
                                                    es_gguf_head_keys, es_gguf_rotary_keys,
                                                    es_gguf_layer_keys},
                                           .tensors = {neox_tensors},
                                           .biases = ES_GGUF_BIASES_ALWAYS,
                                           .partial = true};

/* ---- gpt-oss ---- */

/* The norm of the experts' input is called after what stands before it. Rows of gate and up, which
 * alternate in the checkpoint, are two tensors. */
static const es_gguf_tensor gpt_oss_tensors[] = {
    {"blk.*.attn_norm", LAYER("input_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.post_attention_norm", LAYER("post_attention_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.attn_q", LAYER("self_attn.q_proj"), AT(query_width), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_k", LAYER("self_attn.k_proj"), AT(kv_width), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_v", LAYER("self_attn.v_proj"), AT(kv_width), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_output", LAYER("self_attn.o_proj"), AT(hidden), AT(query_width), ES_GGUF_BIASED},
    {"blk.*.attn_sinks", LAYER("self_attn.sinks"), AT(heads), ES_GGUF_VECTOR, .bare = true},
    {"blk.*.ffn_gate_inp", LAYER("mlp.router"), AT(experts), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.ffn_gate_exps", LAYER("mlp.experts.gate_up_proj"), AT(expert_width), AT(hidden),
     ES_GGUF_BIASED, .times = AT(experts), .in_turn = "blk.*.ffn_up_exps", .bare = true},
    {"blk.*.ffn_up_exps", NULL, AT(expert_width), AT(hidden), ES_GGUF_BIASED, .times = AT(experts)},
    {"blk.*.ffn_down_exps", LAYER("mlp.experts.down_proj"), AT(hidden), AT(expert_width),
     ES_GGUF_BIASED, .times = AT(experts), .bare = true},
    {0}};

/* No key says that YaRN's channels are not rounded to whole ones, and in gpt-oss they are not. */
static void derive_gpt_oss(es_config_draft *draft) { draft->config.rotary.rounded = false; }

const es_gguf_arch es_gguf_arch_gpt_oss = {.name = "gpt-oss",
                                           .model_type = "gpt_oss",
                                           .keys = {es_gguf_expert_keys, es_gguf_window_keys,
                                                    es_gguf_size_keys, es_gguf_head_keys,
                                                    es_gguf_rotary_keys, es_gguf_rms_keys},
                                           .tensors = {gpt_oss_tensors, es_gguf_end_tensors},
                                           .biases = ES_GGUF_BIASES_ALWAYS,
                                           .derive = derive_gpt_oss};

/* ---- StarCoder 2, StableLM ---- */

/* LayerNorms with a shift. */
static const es_gguf_tensor shifted_tensors[] = {
    {"token_embd", "model.embed_tokens", AT(vocab), AT(hidden)},
    {"output_norm", "model.norm", AT(hidden), ES_GGUF_VECTOR},
    {"output", "lm_head", AT(vocab), AT(hidden), ES_GGUF_OPTIONAL},
    {"blk.*.attn_norm", LAYER("input_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.ffn_norm", LAYER("post_attention_layernorm"), AT(hidden), ES_GGUF_VECTOR,
     ES_GGUF_OPTIONAL},
    {0}};

static const es_gguf_tensor starcoder2_tensors[] = {
    {"blk.*.ffn_up", LAYER("mlp.c_fc"), AT(intermediate), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.ffn_down", LAYER("mlp.c_proj"), AT(hidden), AT(intermediate), ES_GGUF_BIASED},
    {0}};

#define KEYS es_gguf_size_keys, es_gguf_head_keys, es_gguf_rotary_keys, es_gguf_layer_keys

const es_gguf_arch es_gguf_arch_starcoder2 = {
    .name = "starcoder2",
    .model_type = "starcoder2",
    .keys = {es_gguf_window_keys, KEYS},
    .tensors = {shifted_tensors, es_gguf_attention_tensors, starcoder2_tensors},
    .biases = ES_GGUF_BIASES_ALWAYS};

/* Norms of queries and keys with a scale for each head. */
static const es_gguf_tensor stablelm_tensors[] = {
    {"blk.*.attn_q_norm", LAYER("self_attn.q_layernorm.norms.*"), AT(head_dim), ES_GGUF_VECTOR,
     ES_GGUF_OPTIONAL, .times = AT(heads)},
    {"blk.*.attn_k_norm", LAYER("self_attn.k_layernorm.norms.*"), AT(head_dim), ES_GGUF_VECTOR,
     ES_GGUF_OPTIONAL, .times = AT(kv_heads)},
    {0}};

const es_gguf_arch es_gguf_arch_stablelm = {
    .name = "stablelm",
    .model_type = "stablelm",
    .keys = {parallel_keys, KEYS},
    .tensors = {shifted_tensors, es_gguf_attention_tensors, es_gguf_mlp_tensors, stablelm_tensors},
    .biases = ES_GGUF_BIASES_MAYBE,
    .partial = true};
