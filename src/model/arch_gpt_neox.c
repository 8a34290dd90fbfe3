/* SPDX-License-Identifier: Apache-2.0 */
/* arch_gpt_neox.c : GPT-NeoX (Black and others, 2022), as Pythia and others have it.
 *
 *     x = word[id]
 *     for each layer:  x = x + Wo heads(LayerNorm1(x)) + bo + W2 gelu(W1 LayerNorm2(x) + b1) + b2
 *     logits = Wl LayerNorm(x)
 *
 * or, where use_parallel_residual is false, one sum after the other as in GPT-2. Some channels of
 * each head turn, the first ones. Queries, keys and values are one tensor, head by head. */
#include "model/model_inside.h"

static const es_config_field fields[] = {
    ES_FIELD_SIZE("hidden_size", hidden, 65536),
    ES_FIELD_SIZE("num_hidden_layers", layers, ES_MODEL_LAYERS),
    ES_FIELD_SIZE("num_attention_heads", heads, 65536),
    ES_FIELD_SIZE("intermediate_size", intermediate, 1 << 20),
    ES_FIELD_SIZE("vocab_size", vocab, 1 << 24),
    ES_FIELD_SIZE("max_position_embeddings", positions, 1 << 24),
    {"layer_norm_eps", ES_FIELD_REAL, .at = ES_CONFIG(layer_norm_eps), .min = 1e-20, .max = 1e-2},
    {"rotary_pct", ES_FIELD_REAL, .at = ES_CONFIG(rotary.share), .min = 1e-3, .max = 1},
    {"rotary_emb_base", ES_FIELD_REAL, .at = ES_CONFIG(rotary.theta), .min = 1.0001, .max = 1e15},
    {"rope_theta", ES_FIELD_REAL, .at = ES_CONFIG(rotary.theta), .min = 1.0001, .max = 1e15,
     .nullable = true},
    {"rope_scaling", ES_FIELD_OBJECT},
    {"rope_parameters", ES_FIELD_OBJECT},
    {"use_parallel_residual", ES_FIELD_BOOL, .at = ES_CONFIG(parallel)},
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    {"tie_word_embeddings", ES_FIELD_BOOL, .at = ES_CONFIG(tied)},
    {"hidden_act", ES_FIELD_WORD, .at = ES_CONFIG(activation),
     .only = "gelu|gelu_new|gelu_fast|gelu_pytorch_tanh|relu|silu", .rule = "config.activation",
     .hint = "supported are: gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, silu"},
    ES_FIELDS_REFUSED,
    {0}};

#define LAYER(name) "layers.*." name

static const es_arch_part parts[] = {
    {"embed_in", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},
    {"final_layer_norm", ES_PART_NORM, ES_IN_MODEL(norm_last), ES_WIDTH(hidden)},
    {LAYER("input_layernorm"), ES_PART_NORM, ES_IN_LAYER(norm1), ES_WIDTH(hidden)},
    {LAYER("attention.query_key_value"), ES_PART_MATRIX, ES_IN_LAYER(qkv),
     ES_SHAPE(qkv_width, hidden), .biased = ES_CONFIG(attention_bias), .order = ES_ROWS_BY_HEAD},
    {LAYER("attention.dense"), ES_PART_MATRIX, ES_IN_LAYER(out), ES_SHAPE(hidden, query_width),
     .biased = ES_CONFIG(attention_bias)},
    {LAYER("post_attention_layernorm"), ES_PART_NORM, ES_IN_LAYER(norm2), ES_WIDTH(hidden)},
    {LAYER("mlp.dense_h_to_4h"), ES_PART_LINEAR, ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden)},
    {LAYER("mlp.dense_4h_to_h"), ES_PART_LINEAR, ES_IN_LAYER(down), ES_SHAPE(hidden, intermediate)},
    {"embed_out", ES_PART_TABLE, ES_IN_MODEL(predictor), ES_SHAPE(vocab, hidden),
     .role = ES_ROLE_PREDICTOR, .outside = true},
    {0}};

const es_arch es_arch_gpt_neox = {
    .model_type = "gpt_neox",
    .classes = "GPTNeoX",
    .title = "GPT-NeoX",
    .fields = fields,
    .defaults =
        {.causal = true,
         .parallel = true,
         .attention_bias = true,
         .layer_norm_eps = 1e-5,
         .activation = "gelu",
         .rotary = {.theta = 10000.0, .share = 0.25, .fast = 32.0, .slow = 1.0, .rounded = true}},
    .prefix = "gpt_neox.",
    .parts = parts,
    .norm = ES_NORM_LAYER,
    .order = ES_ORDER_PRE,
    .tokenizer = "byte-pair",
};
