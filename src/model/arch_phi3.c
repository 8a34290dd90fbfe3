/* SPDX-License-Identifier: Apache-2.0 */
/* arch_phi3.c : Phi 3, 3.5, 4 and 4-mini (Microsoft, 2024): Llama whose matrices are stacked in the
 * file, with a window, and with longrope in models of long texts. */
#include <string.h>

#include "model/arch_llama.h"

static const es_config_field fields[] = {ES_LLAMA_WINDOW,
                                         {"original_max_position_embeddings", ES_FIELD_REAL,
                                          .at = ES_STATED(original), .min = 1, .max = 1 << 24,
                                          .nullable = true},
                                         {"attention_bias", ES_FIELD_NONE},
                                         ES_LLAMA_FIELDS,
                                         {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS,
                                     {ES_LLAMA_LAYER("self_attn.qkv_proj"), ES_PART_MATRIX,
                                      ES_IN_LAYER(qkv), ES_SHAPE(qkv_width, hidden)},
                                     ES_LLAMA_OUT(0),
                                     ES_LLAMA_NORM("input_layernorm", norm1),
                                     ES_LLAMA_NORM("post_attention_layernorm", norm2),
                                     {ES_LLAMA_LAYER("mlp.gate_up_proj"), ES_PART_MATRIX,
                                      ES_IN_LAYER(up), ES_SHAPE(up_width, hidden)},
                                     {ES_LLAMA_LAYER("mlp.down_proj"), ES_PART_MATRIX,
                                      ES_IN_LAYER(down), ES_SHAPE(hidden, intermediate)},
                                     {0}};

/* Old files call longrope "su" or "yarn". The original positions are stated outside of its object,
 * and that counts. */
static void derive(es_config_draft *draft)
{
    es_rotary *r = &draft->config.rotary;
    if (!es_word_among(r->type, "su|yarn|longrope"))
        return;
    memcpy(r->type, "longrope", sizeof "longrope");
    r->original = draft->layers.original;
}

const es_arch es_arch_phi3 = {
    .model_type = "phi3",
    .classes = "Phi3",
    .title = "Phi3",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS_WITH(1e-5, 10000.0)},
    .layers = {.original = 4096.0},
    .derive = derive,
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
