/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch_cohere.c : GGUF architectures of Cohere. Rows of queries and keys lie as in the
 * checkpoint, which has rotary pairs side by side itself. */
#include "model/gguf_arch.h"

#define AT(member)  ES_GGUF_AT(member)
#define LAYER(name) ES_GGUF_LAYER(name)

#define KEYS    es_gguf_size_keys, es_gguf_head_keys, es_gguf_rotary_keys, es_gguf_layer_keys
#define TENSORS cohere_tensors, es_gguf_end_tensors, es_gguf_attention_tensors, es_gguf_mlp_tensors

static const es_gguf_key cohere_keys[] = {
    {"logit_scale", ES_GGUF_USE_REAL, AT(logit_factor), 1e-9, 1e9, true}, {0}};

/* One norm for attention and mlp, and those of queries and keys in Command R+. */
static const es_gguf_tensor cohere_tensors[] = {
    {"blk.*.attn_norm", LAYER("input_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.attn_q_norm", LAYER("self_attn.q_norm"), AT(heads), AT(head_dim), ES_GGUF_OPTIONAL},
    {"blk.*.attn_k_norm", LAYER("self_attn.k_norm"), AT(kv_heads), AT(head_dim), ES_GGUF_OPTIONAL},
    {0}};

const es_gguf_arch es_gguf_arch_command_r = {.name = "command-r",
                                             .model_type = "cohere",
                                             .keys = {cohere_keys, KEYS},
                                             .tensors = {TENSORS},
                                             .biases = ES_GGUF_BIASES_MAYBE};

const es_gguf_arch es_gguf_arch_cohere2 = {.name = "cohere2",
                                           .model_type = "cohere2",
                                           .keys = {cohere_keys, es_gguf_window_keys, KEYS},
                                           .tensors = {TENSORS},
                                           .biases = ES_GGUF_BIASES_MAYBE};
