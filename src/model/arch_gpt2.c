/* SPDX-License-Identifier: Apache-2.0 */
/* arch_gpt2.c : GPT-2 (Radford and others, 2019).
 *
 *     x = word[id] + position[i]
 *     for each layer:  x = x + Wo heads(LayerNorm(x)) + bo
 *                      x = x + W2 gelu(W1 y + b1) + b2,  y = LayerNorm(x)
 *     logits = word LayerNorm(x)
 *
 * with tanh's gelu. Its checkpoints hold matrices as y = x W, and masks among the tensors, which
 * are not read. */
#include "model/model_inside.h"

static const es_config_field fields[] = {
    ES_FIELD_SIZE("n_embd", hidden, 65536),
    ES_FIELD_SIZE("n_layer", layers, ES_MODEL_LAYERS),
    ES_FIELD_SIZE("n_head", heads, 65536),
    {"n_inner", ES_FIELD_WHOLE, .at = ES_CONFIG(intermediate), .min = 1, .max = 1 << 20,
     .nullable = true},
    ES_FIELD_SIZE("vocab_size", vocab, 1 << 24),
    ES_FIELD_SIZE("n_positions", positions, 1 << 24),
    {"layer_norm_epsilon", ES_FIELD_REAL, .at = ES_CONFIG(layer_norm_eps), .min = 1e-20,
     .max = 1e-2},
    {"activation_function", ES_FIELD_WORD, .at = ES_CONFIG(activation),
     .only = "gelu_new|gelu_pytorch_tanh|gelu_fast|gelu|relu|silu", .rule = "config.activation",
     .hint = "supported are: gelu_new, gelu_pytorch_tanh, gelu_fast, gelu, relu, silu"},
    {"tie_word_embeddings", ES_FIELD_BOOL, .at = ES_CONFIG(tied)},
    {"scale_attn_weights", ES_FIELD_TRUE},
    {"scale_attn_by_inverse_layer_idx", ES_FIELD_NONE},
    ES_FIELDS_REFUSED,
    {0}};

#define LAYER(name) "h.*." name

static const es_arch_part parts[] = {
    {"wte", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},
    {"wpe", ES_PART_TABLE, ES_IN_MODEL(position), ES_SHAPE(positions, hidden)},
    {"ln_f", ES_PART_NORM, ES_IN_MODEL(norm_last), ES_WIDTH(hidden)},
    {LAYER("ln_1"), ES_PART_NORM, ES_IN_LAYER(norm1), ES_WIDTH(hidden)},
    {LAYER("attn.c_attn"), ES_PART_LINEAR, ES_IN_LAYER(qkv), ES_SHAPE(qkv_width, hidden),
     .order = ES_ROWS_TRANSPOSED},
    {LAYER("attn.c_proj"), ES_PART_LINEAR, ES_IN_LAYER(out), ES_SHAPE(hidden, query_width),
     .order = ES_ROWS_TRANSPOSED},
    {LAYER("ln_2"), ES_PART_NORM, ES_IN_LAYER(norm2), ES_WIDTH(hidden)},
    {LAYER("mlp.c_fc"), ES_PART_LINEAR, ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden),
     .order = ES_ROWS_TRANSPOSED},
    {LAYER("mlp.c_proj"), ES_PART_LINEAR, ES_IN_LAYER(down), ES_SHAPE(hidden, intermediate),
     .order = ES_ROWS_TRANSPOSED},
    {"lm_head", ES_PART_TABLE, ES_IN_MODEL(predictor), ES_SHAPE(vocab, hidden),
     .role = ES_ROLE_PREDICTOR, .outside = true},
    {0}};

const es_arch es_arch_gpt2 = {
    .model_type = "gpt2",
    .classes = "GPT2",
    .title = "GPT-2",
    .fields = fields,
    .defaults = {.causal = true, .tied = true, .layer_norm_eps = 1e-5, .activation = "gelu_new"},
    .prefix = "transformer.",
    .parts = parts,
    .norm = ES_NORM_LAYER,
    .order = ES_ORDER_PRE,
    .tokenizer = "byte-pair",
};
