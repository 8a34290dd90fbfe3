/* SPDX-License-Identifier: Apache-2.0 */
/* arch_gpt_oss.c : gpt-oss (OpenAI, 2025): experts in every layer, a window in every other layer,
 * and heads with a learned sink.
 *
 *     w_ij = exp(s_ij) / (exp(sink_h) + sum_j exp(s_ij))
 *     x = x + sum over e in S of g_e (W2e (b + 1) a sigmoid(1.702 a) + b2e),
 *     (a, b) = W1e y + b1e clipped (ES_GATE_CLIPPED),  g = softmax of Wr y + br over S
 *
 * Matrices of experts lie as y = x W in the file, or as y = W x in blocks of MXFP4. */
#include "model/arch_experts.h"

/* hidden_act and swiglu_limit are in the files and not read: the gate is what it is. */
static const es_config_field fields[] = {
    ES_EXPERT_FIELDS("num_local_experts", 1),
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    {"quantization_config", ES_FIELD_METHOD, .only = "mxfp4", .rule = "config.quantised",
     .hint = "supported: mxfp4, or weights in F32, F16 or BF16"},
    ES_LLAMA_WINDOW,
    ES_LLAMA_USUAL_SIZES,
    ES_LLAMA_EPS("rms_norm_eps"),
    ES_LLAMA_SHARED,
    {0}};

#define GPT_OSS_EXPERT(name)                                                                       \
    ES_LLAMA_LAYER("mlp.experts." name), ES_PART_FUSED,                                            \
        .biased = ES_CONFIG(mlp_bias), .order = ES_ROWS_TRANSPOSED, ES_EXPERT_PART

static const es_arch_part parts[] = {
    ES_LLAMA_ENDS,
    ES_LLAMA_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
    ES_LLAMA_OUT(ES_CONFIG(attention_bias)),
    {ES_LLAMA_LAYER("self_attn.sinks"), ES_PART_VALUES, ES_IN_LAYER(sinks), ES_WIDTH(heads)},
    ES_LLAMA_NORM("input_layernorm", norm1),
    ES_LLAMA_NORM("post_attention_layernorm", norm2),
    {ES_LLAMA_LAYER("mlp.router"), ES_PART_LINEAR, ES_IN_LAYER(router), ES_SHAPE(experts, hidden)},
    {GPT_OSS_EXPERT("gate_up_proj"), .at = ES_IN_LAYER(experts_up), ES_SHAPE(expert_up, hidden)},
    {GPT_OSS_EXPERT("down_proj"), .at = ES_IN_LAYER(experts_down), ES_SHAPE(hidden, expert_width)},
    {0}};

/* Without any key about rotary positions they are those of the published models. */
static void derive(es_config_draft *draft)
{
    static const es_rotary usual = {.theta = 150000.0,
                                    .share = 1.0,
                                    .type = "yarn",
                                    .factor = 32.0,
                                    .original = 4096.0,
                                    .fast = 32.0,
                                    .slow = 1.0};
    if (!draft->layers.rotary_stated)
        draft->config.rotary = usual;
}

const es_arch es_arch_gpt_oss = {
    .model_type = "gpt_oss",
    .classes = "GptOss",
    .title = "gpt-oss",
    .fields = fields,
    .defaults = {ES_LLAMA_DEFAULTS_WITH(1e-5, 150000.0), .hidden = 2880, .intermediate = 2880,
                 .layers = 36, .heads = 64, .kv_heads = 8, .head_dim = 64, .vocab = 201088,
                 .positions = 131072, .experts = 128, .experts_used = 4, .shares_sum = true,
                 .attention_bias = true, .mlp_bias = true, .sinks = true},
    .layers = {.window = 128, .period = 2, .phase = 1},
    .derive = derive,
    .parts = parts,
    ES_LLAMA_FORWARD,
    .gate = ES_GATE_CLIPPED,
    .tokenizer = "byte-pair",
};
