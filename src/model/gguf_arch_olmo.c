/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch_olmo.c : GGUF architectures whose norms stand after attention and mlp. */
#include "model/gguf_arch.h"

#define AT(member)  ES_GGUF_AT(member)
#define LAYER(name) ES_GGUF_LAYER(name)

#define KEYS es_gguf_size_keys, es_gguf_head_keys, es_gguf_rotary_keys, es_gguf_rms_keys
#define TENSORS                                                                                    \
    es_gguf_after_tensors, es_gguf_end_tensors, es_gguf_attention_tensors, es_gguf_mlp_tensors

/* Norms of the queries, and keys, of all heads together. */
static const es_gguf_tensor wide_norm_tensors[] = {
    {"blk.*.attn_q_norm", LAYER("self_attn.q_norm"), AT(query_width), ES_GGUF_VECTOR},
    {"blk.*.attn_k_norm", LAYER("self_attn.k_norm"), AT(kv_width), ES_GGUF_VECTOR},
    {0}};

const es_gguf_arch es_gguf_arch_olmo2 = {.name = "olmo2",
                                         .model_type = "olmo2",
                                         .keys = {KEYS},
                                         .tensors = {TENSORS, wide_norm_tensors},
                                         .biases = ES_GGUF_BIASES_MAYBE};

/* OLMo 3 is an OLMo 2 with a window. */
const es_gguf_arch es_gguf_arch_olmo3 = {.name = "olmo2",
                                         .model_type = "olmo3",
                                         .if_key = "attention.sliding_window",
                                         .keys = {es_gguf_window_keys, KEYS},
                                         .tensors = {TENSORS, wide_norm_tensors},
                                         .biases = ES_GGUF_BIASES_MAYBE};

const es_gguf_arch es_gguf_arch_exaone4 = {.name = "exaone4",
                                           .model_type = "exaone4",
                                           .keys = {es_gguf_window_keys, KEYS},
                                           .tensors = {TENSORS, es_gguf_head_norm_tensors}};
