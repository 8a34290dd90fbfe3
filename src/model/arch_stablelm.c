/* SPDX-License-Identifier: Apache-2.0 */
/* arch_stablelm.c : StableLM (Stability AI, 2024): Llama with LayerNorms, a quarter of whose
 * channels turn. Heads may have norms of their own, and both branches may be given the same state.
 */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    ES_ARCH_SIZES,
    ES_LLAMA_EPS("layer_norm_eps"),
    ES_ARCH_ACTIVATION("hidden_act"),
    {"use_qkv_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    {"qk_layernorm", ES_FIELD_BOOL, .at = ES_CONFIG(head_norms)},
    {"use_parallel_residual", ES_FIELD_BOOL, .at = ES_CONFIG(parallel)},
    ES_LLAMA_SHARED,
    {0}};

#define HEAD_NORM(name, place, number)                                                             \
    {                                                                                              \
        ES_LLAMA_LAYER(name), ES_PART_SCALES, ES_IN_LAYER(place), ES_SHAPE(number, head_dim),      \
            .when = ES_CONFIG(head_norms)                                                          \
    }

static const es_arch_part parts[] = {
    {"embed_tokens", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},
    {"norm", ES_PART_NORM, ES_IN_MODEL(norm_last), ES_WIDTH(hidden)},
    {"lm_head", ES_PART_TABLE, ES_IN_MODEL(predictor), ES_SHAPE(vocab, hidden),
     .role = ES_ROLE_PREDICTOR, .outside = true},
    ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
    ES_LLAMA_OUT(0),
    HEAD_NORM("self_attn.q_layernorm.norms.*", norm_q, heads),
    HEAD_NORM("self_attn.k_layernorm.norms.*", norm_k, kv_heads),
    {ES_LLAMA_LAYER("input_layernorm"), ES_PART_NORM, ES_IN_LAYER(norm1), ES_WIDTH(hidden)},
    {ES_LLAMA_LAYER("post_attention_layernorm"), ES_PART_NORM, ES_IN_LAYER(norm2), ES_WIDTH(hidden),
     .unless = ES_CONFIG(parallel)},
    ES_LLAMA_MLP,
    {0}};

const es_arch es_arch_stablelm = {
    .model_type = "stablelm",
    .classes = "StableLm",
    .title = "StableLM",
    .fields = fields,
    .defaults = {.causal = true,
                 .layer_norm_eps = 1e-5,
                 .activation = "silu",
                 .rotary = ES_LLAMA_ROTARY(10000.0, 0.25)},
    .parts = parts,
    .prefix = "model.",
    .norm = ES_NORM_LAYER,
    .head_norm = ES_HEAD_NORM_OWN,
    .order = ES_ORDER_PRE,
    .gated = true,
    .tokenizer = "byte-pair",
};
