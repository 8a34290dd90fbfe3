/* SPDX-License-Identifier: Apache-2.0 */
/* arch_granite.c : Granite 3 (IBM, 2024), the dense ones: Llama with a factor on embeddings,
 * scores, what is added to the state, and logits. */
#include "model/arch_llama.h"

#define FACTOR(key, member)                                                                        \
    {                                                                                              \
        key, ES_FIELD_REAL, .at = ES_CONFIG(member), .min = 1e-9, .max = 1e9                       \
    }

static const es_config_field fields[] = {FACTOR("embedding_multiplier", embed_factor),
                                         FACTOR("attention_multiplier", score_divisor),
                                         FACTOR("residual_multiplier", branch_factor),
                                         FACTOR("logits_scaling", logit_factor),
                                         ES_LLAMA_BIASES,
                                         ES_LLAMA_FIELDS,
                                         {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS,
                                     ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
                                     ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
                                     ES_LLAMA_REST,
                                     {0}};

/* Scores are multiplied by attention_multiplier, logits divided by logits_scaling. */
static void derive(es_config_draft *draft)
{
    es_model_config *c = &draft->config;
    c->score_divisor = 1.0 / c->score_divisor;
    c->logit_factor = 1.0 / c->logit_factor;
}

const es_arch es_arch_granite = {
    .model_type = "granite",
    .classes = "GraniteFor",
    .title = "Granite",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS, .score_divisor = 1.0, .logit_factor = 1.0},
    .derive = derive,
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
