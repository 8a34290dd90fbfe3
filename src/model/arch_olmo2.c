/* SPDX-License-Identifier: Apache-2.0 */
/* arch_olmo2.c : OLMo 2 (Ai2, 2024).
 *
 *     x = x + norm(Wo heads(x)),  x = x + norm(W2 (silu(Wg x) (W1 x)))
 *
 * There is no norm before attention. Queries, and keys, of all heads are normed together. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)}, ES_LLAMA_FIELDS, {0}};

static const es_arch_part parts[] = {
    ES_LLAMA_ENDS,
    ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
    ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
    {ES_LLAMA_LAYER("self_attn.q_norm"), ES_PART_SCALE, ES_IN_LAYER(norm_q), ES_WIDTH(query_width)},
    {ES_LLAMA_LAYER("self_attn.k_norm"), ES_PART_SCALE, ES_IN_LAYER(norm_k), ES_WIDTH(kv_width)},
    ES_LLAMA_NORM("post_attention_layernorm", after1),
    ES_LLAMA_NORM("post_feedforward_layernorm", after2),
    ES_LLAMA_MLP,
    {0}};

const es_arch es_arch_olmo2 = {
    .model_type = "olmo2",
    .classes = "Olmo2",
    .title = "OLMo2",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS_WITH(1e-5, 10000.0), .head_norms = true},
    .parts = parts,
    .head_norm = ES_HEAD_NORM_WIDE,
    ES_LLAMA_FORWARD_IN(ES_ORDER_AFTER),
    .tokenizer = "byte-pair",
};
