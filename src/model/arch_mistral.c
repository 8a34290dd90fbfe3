/* SPDX-License-Identifier: Apache-2.0 */
/* arch_mistral.c : Mistral (Jiang and others, 2023): Llama whose tokens may see a window only. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    ES_LLAMA_FIELDS, ES_LLAMA_WINDOW, {"attention_bias", ES_FIELD_NONE}, {0}};

static const es_arch_part parts[] = {
    ES_LLAMA_ENDS, ES_LLAMA_QKV(ES_PART_MATRIX, 0), ES_LLAMA_OUT(0), ES_LLAMA_REST, {0}};

const es_arch es_arch_mistral = {
    .model_type = "mistral",
    .classes = "Mistral",
    .title = "Mistral",
    .fields = fields,
    /* The library that writes config.json takes a window of 4096 where the key is missing; null
     * says that there is none. */
    .defaults = {ES_LLAMA_DEFAULTS, .kv_heads = 8},
    .layers = {.window = 4096},
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
