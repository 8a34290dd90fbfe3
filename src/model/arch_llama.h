/* SPDX-License-Identifier: Apache-2.0 */
/* arch_llama.h : what the descriptions of Llama's relatives share.
 *
 *     x = word[id]
 *     for each layer:  x = x + Wo heads(norm(x)),  x = x + W2 (silu(Wg y) (W1 y)), y = norm(x)
 *     logits = Wl norm(x)
 *
 * with norms over the root of the mean square, rotary positions, and heads that share keys and
 * values in groups. Each relative adds what is its own. */
#ifndef ES_MODEL_ARCH_LLAMA_H
#define ES_MODEL_ARCH_LLAMA_H

#include "model/model_inside.h"

#define ES_LLAMA_FIELDS                                                                            \
    ES_FIELD_SIZE("hidden_size", hidden, 65536), ES_FIELD_SIZE("num_hidden_layers", layers, 4096), \
        ES_FIELD_SIZE("num_attention_heads", heads, 65536),                                        \
        {"num_key_value_heads", ES_FIELD_WHOLE,  .at = ES_CONFIG(kv_heads), .min = 1,              \
         .max = 65536,          .nullable = true},                                                 \
        {"head_dim", ES_FIELD_WHOLE, .at = ES_CONFIG(head_dim),                                    \
         .min = 1,   .max = 4096,    .nullable = true},                                            \
        ES_FIELD_SIZE("intermediate_size", intermediate, 1 << 20),                                 \
        ES_FIELD_SIZE("vocab_size", vocab, 1 << 24),                                               \
        ES_FIELD_SIZE("max_position_embeddings", positions, 1 << 24),                              \
        {"rms_norm_eps", ES_FIELD_REAL, .at = ES_CONFIG(layer_norm_eps), .min = 1e-20,             \
         .max = 1e-2},                                                                             \
        {"rope_theta",  ES_FIELD_REAL, .at = ES_CONFIG(rotary.theta),                              \
         .min = 1.0001, .max = 1e15,   .nullable = true},                                          \
        {"partial_rotary_factor",                                                                  \
         ES_FIELD_REAL,                                                                            \
         .at = ES_CONFIG(rotary.share),                                                            \
         .min = 1e-3,                                                                              \
         .max = 1,                                                                                 \
         .nullable = true},                                                                        \
        {"rope_scaling", ES_FIELD_ROTARY}, {"rope_parameters", ES_FIELD_ROTARY},                   \
        {"tie_word_embeddings", ES_FIELD_BOOL, .at = ES_CONFIG(tied)},                             \
        {"hidden_act",                                                                             \
         ES_FIELD_WORD,                                                                            \
         .at = ES_CONFIG(activation),                                                              \
         .only = "silu|swish",                                                                     \
         .rule = "config.activation",                                                              \
         .hint = "supported is: silu"},                                                            \
        ES_FIELDS_REFUSED

#define ES_LLAMA_DEFAULTS                                                                          \
    .causal = true, .layer_norm_eps = 1e-6, .activation = "silu",                                  \
    .rotary = {.theta = 10000.0, .share = 1.0, .fast = 32.0, .slow = 1.0, .rounded = true}

#define ES_LLAMA_LAYER(name) "layers.*." name

#define ES_LLAMA_ENDS                                                                              \
    {"embed_tokens", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},                   \
        {"norm", ES_PART_SCALE, ES_IN_MODEL(norm_last), ES_WIDTH(hidden)},                         \
    {                                                                                              \
        "lm_head", ES_PART_TABLE, ES_IN_MODEL(predictor), ES_SHAPE(vocab, hidden),                 \
            .role = ES_ROLE_PREDICTOR, .outside = true                                             \
    }

/* All of a layer but the queries, keys and values, which relatives have with and without bias. */
#define ES_LLAMA_REST                                                                              \
    {ES_LLAMA_LAYER("input_layernorm"), ES_PART_SCALE, ES_IN_LAYER(norm1), ES_WIDTH(hidden)},      \
        {ES_LLAMA_LAYER("post_attention_layernorm"), ES_PART_SCALE, ES_IN_LAYER(norm2),            \
         ES_WIDTH(hidden)},                                                                        \
        {ES_LLAMA_LAYER("mlp.gate_proj"), ES_PART_MATRIX, ES_IN_LAYER(up),                         \
         ES_SHAPE(intermediate, hidden), .biased = ES_CONFIG(mlp_bias)},                           \
        {ES_LLAMA_LAYER("mlp.up_proj"), ES_PART_MATRIX, ES_IN_LAYER(up),                           \
         ES_SHAPE(intermediate, hidden), .biased = ES_CONFIG(mlp_bias)},                           \
    {                                                                                              \
        ES_LLAMA_LAYER("mlp.down_proj"), ES_PART_MATRIX, ES_IN_LAYER(down),                        \
            ES_SHAPE(hidden, intermediate), .biased = ES_CONFIG(mlp_bias)                          \
    }

#define ES_LLAMA_QKV(part_kind, bias)                                                              \
    {ES_LLAMA_LAYER("self_attn.q_proj"), part_kind, ES_IN_LAYER(qkv),                              \
     ES_SHAPE(query_width, hidden), .biased = bias},                                               \
        {ES_LLAMA_LAYER("self_attn.k_proj"), part_kind, ES_IN_LAYER(qkv),                          \
         ES_SHAPE(kv_width, hidden), .biased = bias},                                              \
    {                                                                                              \
        ES_LLAMA_LAYER("self_attn.v_proj"), part_kind, ES_IN_LAYER(qkv),                           \
            ES_SHAPE(kv_width, hidden), .biased = bias                                             \
    }

#define ES_LLAMA_OUT(bias)                                                                         \
    {                                                                                              \
        ES_LLAMA_LAYER("self_attn.o_proj"), ES_PART_MATRIX, ES_IN_LAYER(out),                      \
            ES_SHAPE(hidden, query_width), .biased = bias                                          \
    }

#define ES_LLAMA_FORWARD                                                                           \
    .prefix = "model.", .norm = ES_NORM_RMS, .order = ES_ORDER_PRE, .gated = true

#endif
