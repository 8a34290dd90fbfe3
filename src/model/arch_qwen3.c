/* SPDX-License-Identifier: Apache-2.0 */
/* arch_qwen3.c : Qwen 3 (2025), the dense ones: Llama whose heads norm their queries and keys
 * before they turn. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    ES_LLAMA_FIELDS,
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    ES_QWEN_WINDOW,
    {0}};

static const es_arch_part parts[] = {ES_LLAMA_ENDS,
                                     ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
                                     ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
                                     ES_LLAMA_HEAD_NORMS,
                                     ES_LLAMA_REST,
                                     {0}};

const es_arch es_arch_qwen3 = {
    .model_type = "qwen3",
    .classes = "Qwen3",
    .title = "Qwen3",
    .fields = fields,
    /* The library that writes config.json takes heads of 128 where the key is missing. */
    .defaults = {ES_LLAMA_DEFAULTS, .head_dim = 128, .head_norms = true},
    .layers = {.window = 4096, .asks = true, .first = 28},
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
