/* SPDX-License-Identifier: Apache-2.0 */
/* arch_gemma2.c : Gemma 2 (Google, 2024): every other layer has a window, and scores and logits are
 * capped. */
#include <math.h>

#include "model/arch_gemma.h"

static const es_config_field fields[] = {
    {"attn_logit_softcapping", ES_FIELD_CAP, .at = ES_CONFIG(score_cap), .min = 0, .max = 1e9},
    ES_GEMMA_FIELDS,
    ES_LLAMA_SHARED,
    {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS, ES_GEMMA_LAYER, {0}};

const es_arch es_arch_gemma2 = {
    .model_type = "gemma2",
    .classes = "Gemma2",
    .title = "Gemma2",
    .fields = fields,
    .defaults = {ES_GEMMA_DEFAULTS, .vocab = 256000, .positions = 8192, .score_cap = 50.0,
                 .logit_cap = 30.0, .rotary = ES_LLAMA_ROTARY(10000.0, 1.0)},
    .layers = {.window = 4096, .period = 2, .phase = 1},
    .derive = es_gemma_derive,
    .parts = parts,
    ES_GEMMA_FORWARD,
    .tokenizer = "byte-pair",
};
