/* SPDX-License-Identifier: Apache-2.0 */
/* arch_llama.c : Llama (Touvron and others, 2023), its later versions, and what is exactly Llama.
 */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    ES_LLAMA_FIELDS,
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    {"mlp_bias", ES_FIELD_BOOL, .at = ES_CONFIG(mlp_bias)},
    {"sliding_window", ES_FIELD_NONE, .min = -1, .rule = "config.window",
     .hint = "a window is supported in model_type mistral"},
    {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS,
                                     ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
                                     ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
                                     ES_LLAMA_REST,
                                     {0}};

const es_arch es_arch_llama = {
    .model_type = "llama",
    .classes = "Llama",
    .title = "Llama",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS},
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
