/* SPDX-License-Identifier: Apache-2.0 */
/* arch_gemma3.c : Gemma 3 (Google, 2025), its text model: layers with a window turn by a base of
 * their own. EmbeddingGemma, whose tokens see those after them, is one of them. */
#include <math.h>

#include "model/arch_gemma.h"

static const es_config_field fields[] = {
    {"rope_local_base_freq", ES_FIELD_REAL, .at = ES_CONFIG(rotary_local.theta), .min = 1.0001,
     .max = 1e15},
    {"sliding_window_pattern", ES_FIELD_PERIOD, .at = ES_STATED(period), .min = 1, .max = 1 << 20},
    {"_sliding_window_pattern", ES_FIELD_PERIOD, .at = ES_STATED(period), .min = 1, .max = 1 << 20},
    {"use_bidirectional_attention", ES_FIELD_BOOL, .at = ES_STATED(both_sides)},
    ES_GEMMA_FIELDS,
    ES_LLAMA_SHARED,
    {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS, ES_LLAMA_HEAD_NORMS, ES_GEMMA_LAYER, {0}};

static void derive(es_config_draft *draft)
{
    es_gemma_derive(draft);
    if (draft->layers.both_sides)
        draft->config.causal = false;
}

const es_arch es_arch_gemma3 = {
    .model_type = "gemma3_text",
    .classes = "Gemma3",
    .title = "Gemma3",
    .fields = fields,
    .defaults = {ES_GEMMA_DEFAULTS, .vocab = 262208, .positions = 131072, .head_norms = true,
                 .rotary = ES_LLAMA_ROTARY(1e6, 1.0), .rotary_local = {.theta = 10000.0}},
    .layers = {.window = 4096, .period = 6, .phase = 1, .local = true},
    .derive = derive,
    .parts = parts,
    ES_GEMMA_FORWARD,
    .tokenizer = "byte-pair",
};
