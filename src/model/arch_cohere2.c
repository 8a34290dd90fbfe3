/* SPDX-License-Identifier: Apache-2.0 */
/* arch_cohere2.c : Command R7B and A (Cohere, 2024): three of four layers have a window, and the
 * others do not turn. */
#include "model/arch_cohere.h"

static const es_config_field fields[] = {
    {"head_dim", ES_FIELD_SKIP}, /* it is the hidden width over the heads, whatever is stated */
    {"sliding_window_pattern", ES_FIELD_PERIOD, .at = ES_STATED(period), .min = 1, .max = 1 << 20},
    {"_sliding_window_pattern", ES_FIELD_PERIOD, .at = ES_STATED(period), .min = 1, .max = 1 << 20},
    ES_LLAMA_WINDOW,
    ES_COHERE_FIELDS,
    ES_LLAMA_SHARED,
    {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS, ES_COHERE_LAYER, {0}};

const es_arch es_arch_cohere2 = {
    .model_type = "cohere2",
    .classes = "Cohere2",
    .title = "Cohere2",
    .fields = fields,
    .defaults = {ES_COHERE_DEFAULTS},
    .layers = {.window = 4096, .period = 4, .phase = 1, .still_full = true},
    .parts = parts,
    ES_COHERE_FORWARD,
    .tokenizer = "byte-pair",
};
