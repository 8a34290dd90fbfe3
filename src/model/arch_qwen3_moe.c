/* SPDX-License-Identifier: Apache-2.0 */
/* arch_qwen3_moe.c : Qwen 3 with experts (2025), in all layers but those that config.json names. */
#include "model/arch_experts.h"

static const es_config_field fields[] = {
    ES_EXPERT_FIELDS("num_experts", 0),
    {"norm_topk_prob", ES_FIELD_BOOL, .at = ES_CONFIG(shares_sum)},
    {"moe_intermediate_size", ES_FIELD_WHOLE, .at = ES_CONFIG(expert_width), .min = 1,
     .max = 1 << 20},
    {"decoder_sparse_step", ES_FIELD_WHOLE, .at = ES_STATED(expert_step), .min = 1, .max = 1 << 20},
    {"mlp_only_layers", ES_FIELD_DENSE},
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    {"max_window_layers", ES_FIELD_SKIP}, /* the window is of all layers or of none */
    ES_QWEN_WINDOW,
    ES_LLAMA_FIELDS,
    {0}};

#define QWEN3_EXPERT(name)                                                                         \
    ES_LLAMA_LAYER("mlp.experts.*." name), ES_PART_EXPERTS, ES_EXPERT_PART,                        \
        .unless = ES_CONFIG(experts_fused)
#define QWEN3_DENSE(name) ES_LLAMA_LAYER("mlp." name), ES_PART_MATRIX, .in = ES_LAYERS_DENSE

static const es_arch_part parts[] = {
    ES_LLAMA_ENDS,
    ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
    ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
    ES_LLAMA_HEAD_NORMS,
    ES_LLAMA_NORM("input_layernorm", norm1),
    ES_LLAMA_NORM("post_attention_layernorm", norm2),
    {QWEN3_DENSE("gate_proj"), .at = ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden)},
    {QWEN3_DENSE("up_proj"), .at = ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden)},
    {QWEN3_DENSE("down_proj"), .at = ES_IN_LAYER(down), ES_SHAPE(hidden, intermediate)},
    {ES_LLAMA_LAYER("mlp.gate"), ES_PART_MATRIX, ES_IN_LAYER(router), ES_SHAPE(experts, hidden),
     .in = ES_LAYERS_EXPERTS},
    {QWEN3_EXPERT("gate_proj"), .at = ES_IN_LAYER(experts_up), ES_SHAPE(expert_width, hidden)},
    {QWEN3_EXPERT("up_proj"), .at = ES_IN_LAYER(experts_up), ES_SHAPE(expert_width, hidden)},
    {QWEN3_EXPERT("down_proj"), .at = ES_IN_LAYER(experts_down), ES_SHAPE(hidden, expert_width)},
    {ES_EXPERTS_FUSED("gate_up_proj"), .at = ES_IN_LAYER(experts_up), ES_SHAPE(expert_up, hidden)},
    {ES_EXPERTS_FUSED("down_proj"), .at = ES_IN_LAYER(experts_down),
     ES_SHAPE(hidden, expert_width)},
    {0}};

const es_arch es_arch_qwen3_moe = {
    .model_type = "qwen3_moe",
    .classes = "Qwen3Moe",
    .title = "Qwen3-MoE",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS, .kv_heads = 4, .head_norms = true, .experts = 128,
                 .experts_used = 8, .expert_width = 768},
    .layers = {.window = 4096, .asks = true, .expert_step = 1},
    .parts = parts,
    ES_LLAMA_FORWARD,
    .tokenizer = "byte-pair",
};
