/* SPDX-License-Identifier: Apache-2.0 */
/* arch_mixtral.c : Mixtral (Jiang and others, 2024): Mistral with experts in every layer. */
#include "model/arch_experts.h"

static const es_config_field fields[] = {ES_EXPERT_FIELDS("num_local_experts", 1),
                                         ES_LLAMA_WINDOW,
                                         {"attention_bias", ES_FIELD_NONE},
                                         ES_LLAMA_FIELDS,
                                         {0}};

#define MIXTRAL_EXPERT(name, other)                                                                \
    ES_LLAMA_LAYER("block_sparse_moe.experts.*." name), ES_PART_EXPERTS,                           \
        .instead = ES_LLAMA_LAYER("mlp.experts.*." other), ES_EXPERT_PART,                         \
        .unless = ES_CONFIG(experts_fused)

static const es_arch_part parts[] = {
    ES_LLAMA_ENDS,
    ES_LLAMA_QKV(ES_PART_MATRIX, 0),
    ES_LLAMA_OUT(0),
    ES_LLAMA_NORM("input_layernorm", norm1),
    ES_LLAMA_NORM("post_attention_layernorm", norm2),
    {ES_LLAMA_LAYER("block_sparse_moe.gate"), ES_PART_MATRIX, ES_IN_LAYER(router),
     ES_SHAPE(experts, hidden), .in = ES_LAYERS_EXPERTS, .instead = ES_LLAMA_LAYER("mlp.gate")},
    {MIXTRAL_EXPERT("w1", "gate_proj"), .at = ES_IN_LAYER(experts_up),
     ES_SHAPE(expert_width, hidden)},
    {MIXTRAL_EXPERT("w3", "up_proj"), .at = ES_IN_LAYER(experts_up),
     ES_SHAPE(expert_width, hidden)},
    {MIXTRAL_EXPERT("w2", "down_proj"), .at = ES_IN_LAYER(experts_down),
     ES_SHAPE(hidden, expert_width)},
    {ES_EXPERTS_FUSED("gate_up_proj"),
     .instead = ES_LLAMA_LAYER("block_sparse_moe.experts.gate_up_proj"),
     .at = ES_IN_LAYER(experts_up), ES_SHAPE(expert_up, hidden)},
    {ES_EXPERTS_FUSED("down_proj"), .instead = ES_LLAMA_LAYER("block_sparse_moe.experts.down_proj"),
     .at = ES_IN_LAYER(experts_down), ES_SHAPE(hidden, expert_width)},
    {0}};

const es_arch es_arch_mixtral = {
    .model_type = "mixtral",
    .classes = "Mixtral",
    .title = "Mixtral",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS_WITH(1e-5, 1e6), .kv_heads = 8, .experts = 8, .experts_used = 2,
                 .shares_sum = true},
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
