/* SPDX-License-Identifier: Apache-2.0 */
/* arch_gemma.c : Gemma (Google, 2024), the first: Llama with other norms, gelu, and embeddings that
 * are multiplied by the root of their width. */
#include <math.h>

#include "model/arch_llama.h"

static const es_config_field fields[] = {
    ES_LLAMA_USUAL_SIZES,
    ES_LLAMA_EPS("rms_norm_eps"),
    ES_ARCH_ACTIVATION("hidden_act"),
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    ES_LLAMA_SHARED,
    {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS,
                                     ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
                                     ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
                                     ES_LLAMA_REST,
                                     {0}};

static void derive(es_config_draft *draft)
{
    draft->config.embed_factor = sqrt((double)draft->config.hidden);
}

const es_arch es_arch_gemma = {
    .model_type = "gemma",
    .classes = "Gemma",
    .title = "Gemma",
    .fields = fields,
    .defaults = {.causal = true,
                 .tied = true,
                 .norm_from_one = true,
                 .hidden = 3072,
                 .intermediate = 24576,
                 .layers = 28,
                 .heads = 16,
                 .kv_heads = 16,
                 .head_dim = 256,
                 .vocab = 256000,
                 .positions = 8192,
                 .layer_norm_eps = 1e-6,
                 .activation = "gelu_pytorch_tanh",
                 .rotary = ES_LLAMA_ROTARY(10000.0, 1.0)},
    .derive = derive,
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
