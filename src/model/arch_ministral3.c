/* SPDX-License-Identifier: Apache-2.0 */
/* arch_ministral3.c : Ministral 3 (Mistral, 2025): Mistral whose queries grow with their place. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    ES_LLAMA_WINDOW, {"attention_bias", ES_FIELD_NONE}, ES_LLAMA_FIELDS, {0}};

static const es_arch_part parts[] = {
    ES_LLAMA_ENDS, ES_LLAMA_QKV(ES_PART_MATRIX, 0), ES_LLAMA_OUT(0), ES_LLAMA_REST, {0}};

/* Without any key about rotary positions they are those of the published models. */
static void derive(es_config_draft *draft)
{
    static const es_rotary usual = {.theta = 1e6,
                                    .share = 1.0,
                                    .type = "yarn",
                                    .factor = 16.0,
                                    .original = 16384.0,
                                    .fast = 32.0,
                                    .slow = 1.0,
                                    .mscale = 1.0,
                                    .mscale_all = 1.0,
                                    .rounded = true,
                                    .query_beta = 0.1};
    if (!draft->layers.rotary_stated)
        draft->config.rotary = usual;
}

const es_arch es_arch_ministral3 = {
    .model_type = "ministral3",
    .classes = "Ministral3",
    .title = "Ministral3",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS_WITH(1e-5, 1e6), .kv_heads = 8, .head_dim = 128},
    .derive = derive,
    .query_beta = true,
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
