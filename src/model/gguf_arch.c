/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch.c : the architectures of GGUF files: their keys and tensors.
 *
 * To add one: a row of es_gguf_archs, and lists of what no other architecture has. */
#include "model/gguf_arch.h"

#define AT(member) ES_CONFIG(member)

/* ---- keys ---- */

/* Keys of all decoders. The number of layers is read before what may be a list of one number for
 * each layer. */
static const es_gguf_key decoder_keys[] = {
    {"embedding_length", ES_GGUF_USE_WHOLE, AT(hidden), 1, 65536, true},
    {"block_count", ES_GGUF_USE_WHOLE, AT(layers), 1, ES_MODEL_LAYERS, true},
    {"feed_forward_length", ES_GGUF_USE_PER_LAYER, AT(intermediate), 1, 1 << 20, true},
    {"context_length", ES_GGUF_USE_WHOLE, AT(positions), 1, 1 << 24, true},
    {"attention.layer_norm_rms_epsilon", ES_GGUF_USE_REAL, AT(layer_norm_eps), 1e-20, 1e-2, true},
    {"rope.freq_base", ES_GGUF_USE_REAL, AT(rotary.theta), 1.0001, 1e15, false},
    {"attention.head_count", ES_GGUF_USE_PER_LAYER, AT(heads), 1, 65536, true},
    {"attention.head_count_kv", ES_GGUF_USE_PER_LAYER, AT(kv_heads), 1, 65536, false},
    {"attention.key_length", ES_GGUF_USE_WHOLE, AT(head_dim), 1, 4096, false},
    {"attention.value_length", ES_GGUF_USE_CODE},
    {"attention.causal", ES_GGUF_USE_CODE},
    {"vocab_size", ES_GGUF_USE_CODE},
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
    {"tensor_data_layout", ES_GGUF_USE_CODE},
    {"expert_count", ES_GGUF_USE_ZERO},
    {"expert_used_count", ES_GGUF_USE_ZERO},
    {"attention.sliding_window", ES_GGUF_USE_ZERO},
    {"pooling_type", ES_GGUF_USE_ZERO},
    {0}};

/* Keys of Gemma 3, which count before those of all decoders. */
static const es_gguf_key gemma3_keys[] = {
    {"attention.sliding_window", ES_GGUF_USE_WHOLE, ES_STATED(window), 1, 1 << 24, true},
    {"attention.sliding_window_pattern", ES_GGUF_USE_WHOLE, ES_STATED(period), 1, 1 << 20, false},
    {"rope.freq_base_swa", ES_GGUF_USE_REAL, AT(rotary_local.theta), 1.0001, 1e15, false},
    {"final_logit_softcapping", ES_GGUF_USE_REAL, AT(logit_cap), 0, 1e9, false},
    {0}};

/* ---- tensors ---- */

#define LAYER(name) "model.layers.*." name

/* Embeddings, attention and gated feed-forward layers of Llama's relatives. */
static const es_gguf_tensor decoder_tensors[] = {
    {"token_embd", "model.embed_tokens", AT(vocab), AT(hidden)},
    {"output_norm", "model.norm", AT(hidden), ES_GGUF_VECTOR},
    {"output", "lm_head", AT(vocab), AT(hidden), ES_GGUF_UNTIED},
    {"blk.*.attn_q", LAYER("self_attn.q_proj"), AT(query_width), AT(hidden), ES_GGUF_BIASED,
     AT(heads)},
    {"blk.*.attn_k", LAYER("self_attn.k_proj"), AT(kv_width), AT(hidden), ES_GGUF_BIASED,
     AT(kv_heads)},
    {"blk.*.attn_v", LAYER("self_attn.v_proj"), AT(kv_width), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_output", LAYER("self_attn.o_proj"), AT(hidden), AT(query_width)},
    {"blk.*.ffn_gate", LAYER("mlp.gate_proj"), AT(intermediate), AT(hidden)},
    {"blk.*.ffn_up", LAYER("mlp.up_proj"), AT(intermediate), AT(hidden)},
    {"blk.*.ffn_down", LAYER("mlp.down_proj"), AT(hidden), AT(intermediate)},
    {0}};

/* Norms before attention and before the feed-forward layer. */
static const es_gguf_tensor norm_tensors[] = {
    {"blk.*.attn_norm", LAYER("input_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.ffn_norm", LAYER("post_attention_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {0}};

/* Gemma's norms before and after both. */
static const es_gguf_tensor gemma_norm_tensors[] = {
    {"blk.*.attn_norm", LAYER("input_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.post_attention_norm", LAYER("post_attention_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.ffn_norm", LAYER("pre_feedforward_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.post_ffw_norm", LAYER("post_feedforward_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {0}};

/* Norms of the queries and keys of a head. */
static const es_gguf_tensor head_norm_tensors[] = {
    {"blk.*.attn_q_norm", LAYER("self_attn.q_norm"), AT(head_dim), ES_GGUF_VECTOR},
    {"blk.*.attn_k_norm", LAYER("self_attn.k_norm"), AT(head_dim), ES_GGUF_VECTOR},
    {0}};

/* ---- what keys leave to rules ---- */

/* Norms of the file have their 1 already. No key says what scores are divided by: the width of a
 * head but in the model of 62 layers. */
static void derive_gemma3(es_config_draft *draft)
{
    enum { LAYERS_27B = 62 };
    es_model_config *c = &draft->config;
    c->norm_from_one = false;
    c->score_divisor =
        c->layers == LAYERS_27B ? (double)c->hidden / (double)c->heads : (double)c->head_dim;
}

/* ---- architectures ---- */

const es_gguf_arch es_gguf_archs[] = {
    {.name = "llama",
     .model_type = "llama",
     .keys = {decoder_keys},
     .tensors = {norm_tensors, decoder_tensors},
     .biases = ES_GGUF_BIASES_MAYBE,
     .pairs = true},
    {.name = "qwen2",
     .model_type = "qwen2",
     .keys = {decoder_keys},
     .tensors = {norm_tensors, decoder_tensors},
     .biases = ES_GGUF_BIASES_ALWAYS},
    {.name = "qwen3",
     .model_type = "qwen3",
     .keys = {decoder_keys},
     .tensors = {norm_tensors, decoder_tensors, head_norm_tensors}},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .keys = {gemma3_keys, decoder_keys},
     .tensors = {gemma_norm_tensors, decoder_tensors, head_norm_tensors},
     .derive = derive_gemma3},
    {0}};
