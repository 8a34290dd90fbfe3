/* SPDX-License-Identifier: Apache-2.0 */
/* arch_starcoder2.c : StarCoder 2 (BigCode, 2024): Llama's order with GPT-2's norms and biases, no
 * gate, and a window. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    ES_ARCH_SIZES,
    ES_LLAMA_EPS("norm_epsilon"),
    ES_ARCH_ACTIVATION("hidden_act"),
    ES_LLAMA_WINDOW,
    {"use_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    ES_LLAMA_SHARED,
    {0}};

static const es_arch_part parts[] = {
    {"embed_tokens", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},
    {"norm", ES_PART_NORM, ES_IN_MODEL(norm_last), ES_WIDTH(hidden)},
    {"lm_head", ES_PART_TABLE, ES_IN_MODEL(predictor), ES_SHAPE(vocab, hidden),
     .role = ES_ROLE_PREDICTOR, .outside = true},
    ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
    ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
    {ES_LLAMA_LAYER("input_layernorm"), ES_PART_NORM, ES_IN_LAYER(norm1), ES_WIDTH(hidden)},
    {ES_LLAMA_LAYER("post_attention_layernorm"), ES_PART_NORM, ES_IN_LAYER(norm2),
     ES_WIDTH(hidden)},
    {ES_LLAMA_LAYER("mlp.c_fc"), ES_PART_MATRIX, ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden),
     .biased = ES_CONFIG(attention_bias)},
    {ES_LLAMA_LAYER("mlp.c_proj"), ES_PART_MATRIX, ES_IN_LAYER(down),
     ES_SHAPE(hidden, intermediate), .biased = ES_CONFIG(attention_bias)},
    {0}};

const es_arch es_arch_starcoder2 = {
    .model_type = "starcoder2",
    .classes = "Starcoder2",
    .title = "StarCoder2",
    .fields = fields,
    .defaults = {.causal = true,
                 .tied = true,
                 .attention_bias = true,
                 .kv_heads = 2,
                 .layer_norm_eps = 1e-5,
                 .activation = "gelu_pytorch_tanh",
                 .rotary = ES_LLAMA_ROTARY(10000.0, 1.0)},
    .parts = parts,
    .prefix = "model.",
    .norm = ES_NORM_LAYER,
    .order = ES_ORDER_PRE,
    .tokenizer = "byte-pair",
};
