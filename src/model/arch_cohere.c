/* SPDX-License-Identifier: Apache-2.0 */
/* arch_cohere.c : Command R and R+ (Cohere, 2024). Heads of the larger have norms of their own. */
#include "model/arch_cohere.h"

static const es_config_field fields[] = {
    {"use_qk_norm", ES_FIELD_BOOL, .at = ES_CONFIG(head_norms)},
    ES_COHERE_FIELDS,
    ES_LLAMA_SHARED,
    {0}};

static const es_arch_part parts[] = {
    ES_LLAMA_ENDS,
    {ES_LLAMA_LAYER("self_attn.q_norm"), ES_PART_SCALES, ES_IN_LAYER(norm_q),
     ES_SHAPE(heads, head_dim), .when = ES_CONFIG(head_norms)},
    {ES_LLAMA_LAYER("self_attn.k_norm"), ES_PART_SCALES, ES_IN_LAYER(norm_k),
     ES_SHAPE(kv_heads, head_dim), .when = ES_CONFIG(head_norms)},
    ES_COHERE_LAYER,
    {0}};

const es_arch es_arch_cohere = {
    .model_type = "cohere",
    .classes = "CohereFor",
    .title = "Cohere",
    .fields = fields,
    .defaults = {ES_COHERE_DEFAULTS},
    .parts = parts,
    .head_norm = ES_HEAD_NORM_OWN,
    ES_COHERE_FORWARD,
    .tokenizer = "byte-pair",
};
