/* SPDX-License-Identifier: Apache-2.0 */
/* arch_smollm3.c : SmolLM 3 (2025): Llama some of whose layers do not turn. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    {"no_rope_layers", ES_FIELD_TURNS},
    {"no_rope_layer_interval", ES_FIELD_WHOLE, .at = ES_STATED(still_period), .min = 1,
     .max = 1 << 20},
    {"use_sliding_window", ES_FIELD_BOOL, .at = ES_STATED(used)},
    ES_LLAMA_WINDOW,
    ES_LLAMA_BIASES,
    ES_LLAMA_FIELDS,
    {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS,
                                     ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
                                     ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
                                     ES_LLAMA_REST,
                                     {0}};

const es_arch es_arch_smollm3 = {
    .model_type = "smollm3",
    .classes = "SmolLM3",
    .title = "SmolLM3",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS_WITH(1e-6, 2e6), .kv_heads = 4, .tied = true},
    .layers = {.asks = true, .still_period = 4, .only_still = true},
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
