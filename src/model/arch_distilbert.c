/* SPDX-License-Identifier: Apache-2.0 */
/* arch_distilbert.c : DistilBERT (Sanh and others, 2019).
 *
 *     x = LayerNorm(word[id] + position[i])
 *     for each layer:  a = LayerNorm(x + Wo heads(x) + bo),  x = LayerNorm(a + W2 gelu(W1 a + b1) +
 * b2) pooled = relu(Wp x_0 + bp),  logits = Wc pooled + bc         classifiers of blocks only
 *
 * BERT without token types and under other names. Every norm has eps 1e-12, which config.json does
 * not state. Its sinusoidal_pos_embds says how the table of positions was made, not that there is
 * none: the table is in the checkpoint either way, and is what is used. */
#include "model/model_inside.h"

static const es_config_field fields[] = {
    ES_FIELD_SIZE("dim", hidden, 65536),
    ES_FIELD_SIZE("n_layers", layers, ES_MODEL_LAYERS),
    ES_FIELD_SIZE("n_heads", heads, 65536),
    ES_FIELD_SIZE("hidden_dim", intermediate, 1 << 20),
    ES_FIELD_SIZE("vocab_size", vocab, 1 << 24),
    ES_FIELD_SIZE("max_position_embeddings", positions, 1 << 24),
    {"activation", ES_FIELD_WORD, .required = true, .at = ES_CONFIG(activation), .only = "gelu",
     .rule = "config.activation", .hint = "supported is: gelu (the exact one, with erf)"},
    {0}};

#define LAYER(name) "transformer.layer.*." name

static const es_arch_part parts[] = {
    {"embeddings.word_embeddings", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},
    {"embeddings.position_embeddings", ES_PART_TABLE, ES_IN_MODEL(position),
     ES_SHAPE(positions, hidden)},
    {"embeddings.LayerNorm", ES_PART_NORM, ES_IN_MODEL(norm0), ES_WIDTH(hidden)},
    {LAYER("attention.q_lin"), ES_PART_LINEAR, ES_IN_LAYER(qkv), ES_SHAPE(hidden, hidden)},
    {LAYER("attention.k_lin"), ES_PART_LINEAR, ES_IN_LAYER(qkv), ES_SHAPE(hidden, hidden)},
    {LAYER("attention.v_lin"), ES_PART_LINEAR, ES_IN_LAYER(qkv), ES_SHAPE(hidden, hidden)},
    {LAYER("attention.out_lin"), ES_PART_LINEAR, ES_IN_LAYER(out), ES_SHAPE(hidden, hidden)},
    {LAYER("sa_layer_norm"), ES_PART_NORM, ES_IN_LAYER(norm1), ES_WIDTH(hidden)},
    {LAYER("ffn.lin1"), ES_PART_LINEAR, ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden)},
    {LAYER("ffn.lin2"), ES_PART_LINEAR, ES_IN_LAYER(down), ES_SHAPE(hidden, intermediate)},
    {LAYER("output_layer_norm"), ES_PART_NORM, ES_IN_LAYER(norm2), ES_WIDTH(hidden)},
    {"pre_classifier", ES_PART_LINEAR, ES_IN_MODEL(pooler), ES_SHAPE(hidden, hidden),
     .role = ES_ROLE_POOLER, .outside = true},
    {"classifier", ES_PART_LINEAR, ES_IN_MODEL(classifier), ES_SHAPE(labels, hidden),
     .role = ES_ROLE_CLASSIFIER, .outside = true},
    {0}};

const es_arch es_arch_distilbert = {
    .model_type = "distilbert",
    .classes = "DistilBert",
    .title = "DistilBERT",
    .fields = fields,
    .defaults = {.layer_norm_eps = 1e-12},
    .prefix = "distilbert.",
    .parts = parts,
    .classifier = "DistilBertForSequenceClassification",
    .norm = ES_NORM_LAYER,
    .order = ES_ORDER_POST,
    .pooled = &es_relu,
    .tokenizer = "WordPiece",
};
