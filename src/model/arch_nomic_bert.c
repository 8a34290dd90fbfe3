/* SPDX-License-Identifier: Apache-2.0 */
/* arch_nomic_bert.c : Nomic BERT (Nussbaum and others, 2024), as it is published.
 *
 *     x = LayerNorm(word[id] + type[0])
 *     for each layer:  a = LayerNorm(x + Wo heads(x)),  x = LayerNorm(a + W2 (silu(Wg a) (W1 a)))
 *
 * BERT's order with rotary positions and a gate, which is the second of the two matrices in the
 * file, and without biases but those of norms. */
#include "model/arch_bert.h"

static const es_config_field fields[] = {
    ES_FIELD_SIZE("n_embd", hidden, 65536),
    ES_FIELD_SIZE("n_layer", layers, ES_MODEL_LAYERS),
    ES_FIELD_SIZE("n_head", heads, 65536),
    ES_FIELD_SIZE("n_inner", intermediate, 1 << 20),
    ES_FIELD_SIZE("vocab_size", vocab, 1 << 24),
    ES_FIELD_SIZE("n_positions", positions, 1 << 24),
    ES_FIELD_SIZE("type_vocab_size", types, 1 << 16),
    ES_BERT_EPS("layer_norm_epsilon", false),
    {"rotary_emb_base", ES_FIELD_REAL, .at = ES_CONFIG(rotary.theta), .min = 1.0001, .max = 1e15},
    {"rotary_emb_fraction", ES_FIELD_REAL, .at = ES_CONFIG(rotary.share), .min = 1e-3, .max = 1},
    {"rotary_emb_interleaved", ES_FIELD_NONE, .rule = "config.rotary"},
    {"rotary_emb_scale_base", ES_FIELD_NONE, .rule = "config.rotary"},
    {"rotary_scaling_factor", ES_FIELD_NONE, .rule = "config.rotary"},
    {"activation_function", ES_FIELD_WORD, .required = true, .only = "swiglu",
     .rule = "config.activation", .hint = "supported is: swiglu"},
    {"prenorm", ES_FIELD_NONE},
    {"causal", ES_FIELD_NONE, .rule = "config.decoder", .hint = "use an encoder: causal false"},
    {"parallel_block", ES_FIELD_NONE},
    {"use_rms_norm", ES_FIELD_NONE},
    {"qkv_proj_bias", ES_FIELD_NONE},
    {"mlp_fc1_bias", ES_FIELD_NONE},
    {"mlp_fc2_bias", ES_FIELD_NONE},
    {"moe_every_n_layers", ES_FIELD_NONE},
    ES_ENCODER_REFUSED,
    {0}};

#define LAYER(name) "encoder.layers.*." name

static const es_arch_part parts[] = {
    {"embeddings.word_embeddings", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},
    {"embeddings.token_type_embeddings", ES_PART_TABLE, ES_IN_MODEL(type), ES_SHAPE(types, hidden)},
    {"emb_ln", ES_PART_NORM, ES_IN_MODEL(norm0), ES_WIDTH(hidden)},
    {LAYER("attn.Wqkv"), ES_PART_MATRIX, ES_IN_LAYER(qkv), ES_SHAPE(qkv_width, hidden)},
    {LAYER("attn.out_proj"), ES_PART_MATRIX, ES_IN_LAYER(out), ES_SHAPE(hidden, hidden)},
    {LAYER("norm1"), ES_PART_NORM, ES_IN_LAYER(norm1), ES_WIDTH(hidden)},
    {LAYER("mlp.fc12"), ES_PART_MATRIX, ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden)},
    {LAYER("mlp.fc11"), ES_PART_MATRIX, ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden)},
    {LAYER("mlp.fc2"), ES_PART_MATRIX, ES_IN_LAYER(down), ES_SHAPE(hidden, intermediate)},
    {LAYER("norm2"), ES_PART_NORM, ES_IN_LAYER(norm2), ES_WIDTH(hidden)},
    {0}};

const es_arch es_arch_nomic_bert = {
    .model_type = "nomic_bert",
    .classes = "NomicBert",
    .title = "Nomic BERT",
    .fields = fields,
    .defaults = {.layer_norm_eps = 1e-12,
                 .activation = "silu",
                 .rotary = {.theta = 1000.0, .share = 1.0}},
    .prefix = "bert.",
    .parts = parts,
    .norm = ES_NORM_LAYER,
    .order = ES_ORDER_POST,
    .gated = true,
    .tokenizer = "WordPiece",
};
