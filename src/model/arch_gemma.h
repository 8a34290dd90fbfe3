/* SPDX-License-Identifier: Apache-2.0 */
/* arch_gemma.h : what the descriptions of Gemma 2 and 3 share.
 *
 *     x = sqrt(H) word[id]
 *     for each layer:  x = x + norm'(Wo heads(norm(x))),  x = x + norm'(W2 (f(Wg y) (W1 y))),
 *                      y = norm(x)
 *     logits = word norm(x)
 *
 * with tanh's gelu for f, norms that multiply by 1 + weight, and scores that are divided by the
 * root of a number that config.json states. */
#ifndef ES_MODEL_ARCH_GEMMA_H
#define ES_MODEL_ARCH_GEMMA_H

#include "model/arch_llama.h"

/* hidden_act is in the files and not read. */
#define ES_GEMMA_FIELDS                                                                            \
    ES_LLAMA_USUAL_SIZES, ES_LLAMA_EPS("rms_norm_eps"), ES_ARCH_ACTIVATION("hidden_activation"),   \
        {"query_pre_attn_scalar", ES_FIELD_REAL, .at = ES_CONFIG(score_divisor), .min = 1e-6,      \
         .max = 1e9},                                                                              \
        ES_LLAMA_WINDOW, {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},       \
    {                                                                                              \
        "final_logit_softcapping", ES_FIELD_CAP, .at = ES_CONFIG(logit_cap), .min = 0, .max = 1e9  \
    }

#define ES_GEMMA_DEFAULTS                                                                          \
    .causal = true, .tied = true, .norm_from_one = true, .layer_norm_eps = 1e-6,                   \
    .activation = "gelu_pytorch_tanh", .hidden = 2304, .intermediate = 9216, .layers = 26,         \
    .heads = 8, .kv_heads = 4, .head_dim = 256, .score_divisor = 256.0

#define ES_GEMMA_LAYER                                                                             \
    ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),                                       \
        ES_LLAMA_OUT(ES_CONFIG(attention_bias)), ES_LLAMA_NORM("input_layernorm", norm1),          \
        ES_LLAMA_NORM("post_attention_layernorm", after1),                                         \
        ES_LLAMA_NORM("pre_feedforward_layernorm", norm2),                                         \
        ES_LLAMA_NORM("post_feedforward_layernorm", after2), ES_LLAMA_MLP

#define ES_GEMMA_FORWARD ES_LLAMA_FORWARD_IN(ES_ORDER_BOTH)

/*! es_gemma_derive() : the factor of embeddings, and what scores are divided by. */
static inline void es_gemma_derive(es_config_draft *draft)
{
    es_model_config *c = &draft->config;
    c->embed_factor = sqrt((double)c->hidden);
    c->score_divisor = sqrt(c->score_divisor);
}

#endif
