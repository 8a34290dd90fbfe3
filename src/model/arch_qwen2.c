/* SPDX-License-Identifier: Apache-2.0 */
/* arch_qwen2.c : Qwen 2 and 2.5 (2024): Llama whose queries, keys and values have biases. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {ES_LLAMA_FIELDS, ES_QWEN_WINDOW, {0}};

static const es_arch_part parts[] = {
    ES_LLAMA_ENDS, ES_LLAMA_QKV(ES_PART_LINEAR, 0), ES_LLAMA_OUT(0), ES_LLAMA_REST, {0}};

const es_arch es_arch_qwen2 = {
    .model_type = "qwen2",
    .classes = "Qwen2",
    .title = "Qwen2",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS},
    .layers = {.window = 4096, .asks = true, .first = 28},
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
