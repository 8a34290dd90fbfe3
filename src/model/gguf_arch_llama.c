/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch_llama.c : GGUF architectures of Llama and its nearest relatives. */
#include <string.h>

#include "model/gguf_arch.h"

#define AT(member)  ES_GGUF_AT(member)
#define LAYER(name) ES_GGUF_LAYER(name)

/* Keys and tensors of all of them. */
#define KEYS    es_gguf_size_keys, es_gguf_head_keys, es_gguf_rotary_keys, es_gguf_rms_keys
#define TENSORS es_gguf_norm_tensors, es_gguf_end_tensors, es_gguf_attention_tensors

/* ---- Llama, Mistral, Mixtral ---- */

const es_gguf_arch es_gguf_arch_llama = {.name = "llama",
                                         .model_type = "llama",
                                         .keys = {KEYS},
                                         .tensors = {TENSORS, es_gguf_mlp_tensors},
                                         .biases = ES_GGUF_BIASES_MAYBE,
                                         .pairs = true};

/* A Llama with experts is a Mixtral. */
const es_gguf_arch es_gguf_arch_mixtral = {.name = "llama",
                                           .model_type = "mixtral",
                                           .if_key = "expert_count",
                                           .keys = {es_gguf_expert_keys, KEYS},
                                           .tensors = {TENSORS, es_gguf_expert_tensors},
                                           .pairs = true};

static const es_gguf_key mistral3_keys[] = {
    {"attention.temperature_scale", ES_GGUF_USE_REAL, AT(rotary.query_beta), 0, 1e3, false}, {0}};

const es_gguf_arch es_gguf_arch_mistral3 = {.name = "mistral3",
                                            .model_type = "ministral3",
                                            .keys = {mistral3_keys, KEYS},
                                            .tensors = {TENSORS, es_gguf_mlp_tensors},
                                            .pairs = true};

/* ---- Qwen ---- */

const es_gguf_arch es_gguf_arch_qwen2 = {.name = "qwen2",
                                         .model_type = "qwen2",
                                         .keys = {KEYS},
                                         .tensors = {TENSORS, es_gguf_mlp_tensors},
                                         .biases = ES_GGUF_BIASES_ALWAYS};

const es_gguf_arch es_gguf_arch_qwen3 = {
    .name = "qwen3",
    .model_type = "qwen3",
    .keys = {KEYS},
    .tensors = {TENSORS, es_gguf_mlp_tensors, es_gguf_head_norm_tensors}};

/* Files do not say that shares sum to 1: they are of models whose shares do. */
const es_gguf_arch es_gguf_arch_qwen3moe = {
    .name = "qwen3moe",
    .model_type = "qwen3_moe",
    .keys = {es_gguf_expert_keys, KEYS},
    .tensors = {TENSORS, es_gguf_mlp_tensors, es_gguf_head_norm_tensors, es_gguf_expert_tensors},
    .sums = true,
    .mixed = true};

/* ---- SmolLM 3, Granite ---- */

const es_gguf_arch es_gguf_arch_smollm3 = {.name = "smollm3",
                                           .model_type = "smollm3",
                                           .keys = {KEYS},
                                           .tensors = {TENSORS, es_gguf_mlp_tensors},
                                           .biases = ES_GGUF_BIASES_MAYBE,
                                           .pairs = true};

static const es_gguf_key granite_keys[] = {
    {"attention.scale", ES_GGUF_USE_REAL, AT(score_divisor), 1e-9, 1e9, true},
    {"embedding_scale", ES_GGUF_USE_REAL, AT(embed_factor), 1e-9, 1e9, false},
    {"residual_scale", ES_GGUF_USE_REAL, AT(branch_factor), 1e-9, 1e9, false},
    {"logit_scale", ES_GGUF_USE_REAL, AT(logit_factor), 1e-9, 1e9, false},
    {0}};

const es_gguf_arch es_gguf_arch_granite = {.name = "granite",
                                           .model_type = "granite",
                                           .keys = {granite_keys, KEYS},
                                           .tensors = {TENSORS, es_gguf_mlp_tensors},
                                           .biases = ES_GGUF_BIASES_MAYBE,
                                           .pairs = true};

/* ---- Phi 3 and 4 ---- */

/* Queries, keys and values are one tensor, and so are gate and up. */
static const es_gguf_tensor phi3_tensors[] = {
    {"blk.*.attn_qkv", LAYER("self_attn.qkv_proj"), AT(qkv_width), AT(hidden)},
    {"blk.*.attn_output", LAYER("self_attn.o_proj"), AT(hidden), AT(query_width)},
    {"blk.*.ffn_up", LAYER("mlp.gate_up_proj"), AT(up_width), AT(hidden)},
    {"blk.*.ffn_down", LAYER("mlp.down_proj"), AT(hidden), AT(intermediate)},
    {0}};

const es_gguf_arch es_gguf_arch_phi3 = {
    .name = "phi3",
    .model_type = "phi3",
    .keys = {es_gguf_window_keys, KEYS},
    .tensors = {es_gguf_norm_tensors, es_gguf_end_tensors, phi3_tensors},
    .partial = true};
