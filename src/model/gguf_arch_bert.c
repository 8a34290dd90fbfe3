/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch_bert.c : GGUF architectures of encoders.
 *
 * llama.cpp writes BERT, DistilBERT, RoBERTa and XLM-RoBERTa under one name. Positions that RoBERTa
 * does not use are left out of the file, so that it is a BERT there; DistilBERT has no token types.
 * Files have no pooler. Classifiers and other heads are not read. */
#include <string.h>

#include "model/gguf_arch.h"

#define AT(member) ES_GGUF_AT(member)

static const es_gguf_key type_keys[] = {
    {"token_type_count", ES_GGUF_USE_WHOLE, AT(types), 1, 1 << 16, false}, {0}};

/* What follows the last layer. */
static const es_gguf_tensor head_tensors[] = {{"cls", .presence = ES_GGUF_OPTIONAL},
                                              {"cls.norm", .presence = ES_GGUF_OPTIONAL},
                                              {"cls.output", .presence = ES_GGUF_OPTIONAL},
                                              {0}};

/* gelu is the exact one; no key says so. */
static void derive_gelu(es_config_draft *draft)
{
    memcpy(draft->config.activation, "gelu", sizeof "gelu");
}

/* ---- BERT and DistilBERT ---- */

#define BERT(name) "encoder.layer.*." name

static const es_gguf_tensor bert_tensors[] = {
    {"token_embd", "embeddings.word_embeddings", AT(vocab), AT(hidden)},
    {"token_types", "embeddings.token_type_embeddings", AT(types), AT(hidden)},
    {"position_embd", "embeddings.position_embeddings", AT(positions), AT(hidden)},
    {"token_embd_norm", "embeddings.LayerNorm", AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"blk.*.attn_q", BERT("attention.self.query"), AT(hidden), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_k", BERT("attention.self.key"), AT(hidden), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_v", BERT("attention.self.value"), AT(hidden), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_output", BERT("attention.output.dense"), AT(hidden), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_output_norm", BERT("attention.output.LayerNorm"), AT(hidden), ES_GGUF_VECTOR,
     ES_GGUF_BIASED},
    {"blk.*.ffn_up", BERT("intermediate.dense"), AT(intermediate), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.ffn_down", BERT("output.dense"), AT(hidden), AT(intermediate), ES_GGUF_BIASED},
    {"blk.*.layer_output_norm", BERT("output.LayerNorm"), AT(hidden), ES_GGUF_VECTOR,
     ES_GGUF_BIASED},
    {0}};

const es_gguf_arch es_gguf_arch_bert = {.name = "bert",
                                        .model_type = "bert",
                                        .if_tensor = "token_types.weight",
                                        .keys = {type_keys, es_gguf_encoder_keys, es_gguf_size_keys,
                                                 es_gguf_head_keys, es_gguf_layer_keys},
                                        .tensors = {bert_tensors, head_tensors},
                                        .biases = ES_GGUF_BIASES_ALWAYS,
                                        .derive = derive_gelu,
                                        .encoder = true};

#define DISTIL(name) "transformer.layer.*." name

static const es_gguf_tensor distilbert_tensors[] = {
    {"token_embd", "embeddings.word_embeddings", AT(vocab), AT(hidden)},
    {"position_embd", "embeddings.position_embeddings", AT(positions), AT(hidden)},
    {"token_embd_norm", "embeddings.LayerNorm", AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"blk.*.attn_q", DISTIL("attention.q_lin"), AT(hidden), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_k", DISTIL("attention.k_lin"), AT(hidden), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_v", DISTIL("attention.v_lin"), AT(hidden), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_output", DISTIL("attention.out_lin"), AT(hidden), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.attn_output_norm", DISTIL("sa_layer_norm"), AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"blk.*.ffn_up", DISTIL("ffn.lin1"), AT(intermediate), AT(hidden), ES_GGUF_BIASED},
    {"blk.*.ffn_down", DISTIL("ffn.lin2"), AT(hidden), AT(intermediate), ES_GGUF_BIASED},
    {"blk.*.layer_output_norm", DISTIL("output_layer_norm"), AT(hidden), ES_GGUF_VECTOR,
     ES_GGUF_BIASED},
    {0}};

/* The file counts one type of tokens all the same. */
static void derive_distilbert(es_config_draft *draft)
{
    derive_gelu(draft);
    draft->config.types = 0;
}

const es_gguf_arch es_gguf_arch_distilbert = {.name = "bert",
                                              .model_type = "distilbert",
                                              .keys = {type_keys, es_gguf_encoder_keys,
                                                       es_gguf_size_keys, es_gguf_head_keys,
                                                       es_gguf_layer_keys},
                                              .tensors = {distilbert_tensors, head_tensors},
                                              .biases = ES_GGUF_BIASES_ALWAYS,
                                              .derive = derive_distilbert,
                                              .encoder = true};

/* ---- Nomic BERT ---- */

#define NOMIC(name) "encoder.layers.*." name

static const es_gguf_tensor nomic_tensors[] = {
    {"token_embd", "embeddings.word_embeddings", AT(vocab), AT(hidden)},
    {"token_types", "embeddings.token_type_embeddings", AT(types), AT(hidden)},
    {"token_embd_norm", "emb_ln", AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"blk.*.attn_qkv", NOMIC("attn.Wqkv"), AT(qkv_width), AT(hidden)},
    {"blk.*.attn_output", NOMIC("attn.out_proj"), AT(hidden), AT(hidden)},
    {"blk.*.attn_output_norm", NOMIC("norm1"), AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {"blk.*.ffn_up", NOMIC("mlp.fc11"), AT(intermediate), AT(hidden)},
    {"blk.*.ffn_gate", NOMIC("mlp.fc12"), AT(intermediate), AT(hidden)},
    {"blk.*.ffn_down", NOMIC("mlp.fc2"), AT(hidden), AT(intermediate)},
    {"blk.*.layer_output_norm", NOMIC("norm2"), AT(hidden), ES_GGUF_VECTOR, ES_GGUF_BIASED},
    {0}};

const es_gguf_arch es_gguf_arch_nomic_bert = {.name = "nomic-bert",
                                              .model_type = "nomic_bert",
                                              .keys = {type_keys, es_gguf_encoder_keys,
                                                       es_gguf_size_keys, es_gguf_head_keys,
                                                       es_gguf_rotary_keys, es_gguf_layer_keys},
                                              .tensors = {nomic_tensors, head_tensors},
                                              .biases = ES_GGUF_BIASES_ALWAYS,
                                              .encoder = true};

/* ---- ModernBERT ---- */

#define MODERN(name) "model.layers.*." name

static const es_gguf_key modern_keys[] = {
    {"rope.freq_base_swa", ES_GGUF_USE_REAL, AT(rotary_local.theta), 1.0001, 1e15, false}, {0}};

/* The first layer has no norm before attention. */
static const es_gguf_tensor modern_tensors[] = {
    {"token_embd", "model.embeddings.tok_embeddings", AT(vocab), AT(hidden)},
    {"token_embd_norm", "model.embeddings.norm", AT(hidden), ES_GGUF_VECTOR},
    {"output_norm", "model.final_norm", AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.attn_norm", MODERN("attn_norm"), AT(hidden), ES_GGUF_VECTOR, ES_GGUF_OPTIONAL},
    {"blk.*.attn_qkv", MODERN("attn.Wqkv"), AT(qkv_width), AT(hidden)},
    {"blk.*.attn_output", MODERN("attn.Wo"), AT(hidden), AT(hidden)},
    {"blk.*.ffn_norm", MODERN("mlp_norm"), AT(hidden), ES_GGUF_VECTOR},
    {"blk.*.ffn_up", MODERN("mlp.Wi"), AT(up_width), AT(hidden)},
    {"blk.*.ffn_down", MODERN("mlp.Wo"), AT(hidden), AT(intermediate)},
    {0}};

const es_gguf_arch es_gguf_arch_modern_bert = {
    .name = "modern-bert",
    .model_type = "modernbert",
    .keys = {modern_keys, es_gguf_window_keys, es_gguf_encoder_keys, es_gguf_size_keys,
             es_gguf_head_keys, es_gguf_rotary_keys, es_gguf_layer_keys},
    .tensors = {modern_tensors, head_tensors},
    .derive = derive_gelu,
    .encoder = true};
