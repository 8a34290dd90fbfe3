/* SPDX-License-Identifier: Apache-2.0 */
/* arch_cohere.h : what the descriptions of Cohere's models share.
 *
 *     x = x + Wo heads(y) + W2 (silu(Wg y) (W1 y)),  y = norm(x)
 *     logits = logit_scale word norm(x)
 *
 * with LayerNorms that have no shift, and rotary positions in pairs of neighbours. */
#ifndef ES_MODEL_ARCH_COHERE_H
#define ES_MODEL_ARCH_COHERE_H

#include "model/arch_llama.h"

#define ES_COHERE_FIELDS                                                                           \
    ES_ARCH_SIZES, ES_LLAMA_EPS("layer_norm_eps"), ES_ARCH_ACTIVATION("hidden_act"),               \
        {"logit_scale", ES_FIELD_REAL, .at = ES_CONFIG(logit_factor), .min = 1e-9, .max = 1e9},    \
    {                                                                                              \
        "attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)                           \
    }

#define ES_COHERE_DEFAULTS                                                                         \
    .causal = true, .tied = true, .parallel = true, .layer_norm_eps = 1e-5, .activation = "silu",  \
    .logit_factor = 0.0625,                                                                        \
    .rotary = {                                                                                    \
        .theta = 10000.0, .share = 1.0, .fast = 32.0, .slow = 1.0, .rounded = true, .pairs = true}

#define ES_COHERE_LAYER                                                                            \
    ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),                                       \
        ES_LLAMA_OUT(ES_CONFIG(attention_bias)), ES_LLAMA_NORM("input_layernorm", norm1),          \
        ES_LLAMA_MLP

#define ES_COHERE_FORWARD                                                                          \
    .prefix = "model.", .norm = ES_NORM_LAYER, .order = ES_ORDER_PRE, .gated = true

#endif
