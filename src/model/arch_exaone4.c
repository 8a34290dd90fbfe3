/* SPDX-License-Identifier: Apache-2.0 */
/* arch_exaone4.c : EXAONE 4 (LG, 2025): norms after what they are for, norms of queries and keys,
 * and layers without a window that do not turn where others have one. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    {"sliding_window_pattern", ES_FIELD_PERIOD, .at = ES_STATED(period), .min = 1, .max = 1 << 20},
    ES_LLAMA_WINDOW,
    {"attention_bias", ES_FIELD_NONE},
    ES_LLAMA_FIELDS,
    {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS,
                                     ES_LLAMA_QKV(ES_PART_MATRIX, 0),
                                     ES_LLAMA_OUT(0),
                                     ES_LLAMA_HEAD_NORMS,
                                     ES_LLAMA_NORM("post_attention_layernorm", after1),
                                     ES_LLAMA_NORM("post_feedforward_layernorm", after2),
                                     ES_LLAMA_MLP,
                                     {0}};

const es_arch es_arch_exaone4 = {
    .model_type = "exaone4",
    .classes = "Exaone4",
    .title = "EXAONE 4",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS_WITH(1e-5, 10000.0), .head_norms = true},
    .layers = {.window = 4096, .period = 4, .phase = 1, .still_full = true},
    .parts = parts,
    ES_LLAMA_FORWARD_IN(ES_ORDER_AFTER),
    .tokenizer = "byte-pair",
};
