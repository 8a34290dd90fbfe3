/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch_gemma.c : GGUF architectures of Gemma. Norms of the files have their 1 already. */
#include "model/gguf_arch.h"

#define AT(member)  ES_GGUF_AT(member)
#define LAYER(name) ES_GGUF_LAYER(name)

#define KEYS    es_gguf_size_keys, es_gguf_head_keys, es_gguf_rotary_keys, es_gguf_rms_keys
#define TENSORS es_gguf_end_tensors, es_gguf_attention_tensors, es_gguf_mlp_tensors

/* Norms before attention and mlp; those after both are es_gguf_after_tensors. */
static const es_gguf_tensor before_tensors[] = {
    {"blk.*.attn_norm", LAYER("input_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.ffn_norm", LAYER("pre_feedforward_layernorm"), AT(hidden), ES_GGUF_VECTOR},
    {0}};

static const es_gguf_key gemma2_keys[] = {
    {"attn_logit_softcapping", ES_GGUF_USE_REAL, AT(score_cap), 0, 1e9, false},
    {"final_logit_softcapping", ES_GGUF_USE_REAL, AT(logit_cap), 0, 1e9, false},
    {0}};

static const es_gguf_key gemma3_keys[] = {
    {"attention.sliding_window", ES_GGUF_USE_WHOLE, ES_STATED(window), 1, 1 << 24, true},
    {"rope.freq_base_swa", ES_GGUF_USE_REAL, AT(rotary_local.theta), 1.0001, 1e15, false},
    {"final_logit_softcapping", ES_GGUF_USE_REAL, AT(logit_cap), 0, 1e9, false},
    {0}};

/* Heads that a sentence embedding is made with: tensors that are not read. */
static const es_gguf_key dense_keys[] = {{"dense_2_feat_in", ES_GGUF_USE_CODE},
                                         {"dense_2_feat_out", ES_GGUF_USE_CODE},
                                         {"dense_3_feat_in", ES_GGUF_USE_CODE},
                                         {"dense_3_feat_out", ES_GGUF_USE_CODE},
                                         {0}};
static const es_gguf_tensor dense_tensors[] = {
    {"dense_2", .presence = ES_GGUF_OPTIONAL}, {"dense_3", .presence = ES_GGUF_OPTIONAL}, {0}};

/* No key says what scores are divided by: the root of the width of a head, but in the models of
 * this many layers. */
static void set_divisor(es_config_draft *draft, int64_t layers)
{
    es_model_config *c = &draft->config;
    c->norm_from_one = false;
    c->score_divisor = c->layers == layers ? (double)(c->hidden / c->heads) : (double)c->head_dim;
}

static void derive_gemma(es_config_draft *draft) { draft->config.norm_from_one = false; }
static void derive_gemma3(es_config_draft *draft) { set_divisor(draft, 62); }

static void derive_gemma2(es_config_draft *draft)
{
    set_divisor(draft, 46);
    if (!draft->layers.window) /* files of the first weeks do not state it */
        draft->layers.window = 4096;
}

static void derive_embedding(es_config_draft *draft)
{
    set_divisor(draft, 62);
    draft->layers.both_sides = true;
}

const es_gguf_arch es_gguf_arch_gemma = {.name = "gemma",
                                         .model_type = "gemma",
                                         .keys = {KEYS},
                                         .tensors = {TENSORS, es_gguf_norm_tensors},
                                         .derive = derive_gemma};

const es_gguf_arch es_gguf_arch_gemma2 = {
    .name = "gemma2",
    .model_type = "gemma2",
    .keys = {gemma2_keys, es_gguf_window_keys, KEYS},
    .tensors = {TENSORS, before_tensors, es_gguf_after_tensors},
    .derive = derive_gemma2};

const es_gguf_arch es_gguf_arch_gemma3 = {
    .name = "gemma3",
    .model_type = "gemma3_text",
    .keys = {gemma3_keys, es_gguf_window_keys, KEYS},
    .tensors = {TENSORS, before_tensors, es_gguf_after_tensors, es_gguf_head_norm_tensors},
    .derive = derive_gemma3};

const es_gguf_arch es_gguf_arch_gemma_embedding = {
    .name = "gemma-embedding",
    .model_type = "gemma3_text",
    .keys = {dense_keys, es_gguf_encoder_keys, gemma3_keys, es_gguf_window_keys, es_gguf_size_keys,
             es_gguf_head_keys, es_gguf_rotary_keys, es_gguf_rms_keys},
    .tensors = {TENSORS, before_tensors, es_gguf_after_tensors, es_gguf_head_norm_tensors,
                dense_tensors},
    .derive = derive_embedding,
    .encoder = true};
