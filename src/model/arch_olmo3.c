/* SPDX-License-Identifier: Apache-2.0 */
/* arch_olmo3.c : OLMo 3 (Ai2, 2025), and a window in three of four layers.
 *
 *     x = x + norm(Wo heads(x)),  x = x + norm(W2 (silu(Wg x) (W1 x)))
 *
 * There is no norm before attention. Queries, and keys, of all heads are normed together. */
#include "model/arch_llama.h"

static const es_config_field fields[] = {
    ES_LLAMA_WINDOW,
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    ES_LLAMA_FIELDS,
    {0}};

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

const es_arch es_arch_olmo3 = {
    .model_type = "olmo3",
    .classes = "Olmo3",
    .title = "OLMo3",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS_WITH(1e-5, 500000.0), .head_norms = true},
    /* Layers with the window turn as if nothing were stretched. */
    .layers = {.window = 4096, .period = 4, .phase = 1, .local = true},
    .parts = parts,
    .head_norm = ES_HEAD_NORM_WIDE,
    ES_LLAMA_FORWARD_IN(ES_ORDER_AFTER),
    .tokenizer = "byte-pair",
};
