/* SPDX-License-Identifier: Apache-2.0 */
/* arch_bert.c : BERT (Devlin and others, 2018), as its checkpoints in safetensors have it.
 *
 *     x = LayerNorm(word[id] + type[0] + position[i])
 *     for each layer:  a = LayerNorm(x + Wo heads(x) + bo),  x = LayerNorm(a + W2 gelu(W1 a + b1) +
 * b2) pooled = tanh(Wp x_0 + bp),  logits = Wc pooled + bc
 *
 * A block is one text, so all its tokens are of type 0. */
#include "model/model_inside.h"

static const es_config_field fields[] = {
    ES_FIELD_SIZE("hidden_size", hidden, 65536),
    ES_FIELD_SIZE("num_hidden_layers", layers, ES_MODEL_LAYERS),
    ES_FIELD_SIZE("num_attention_heads", heads, 65536),
    ES_FIELD_SIZE("intermediate_size", intermediate, 1 << 20),
    ES_FIELD_SIZE("vocab_size", vocab, 1 << 24),
    ES_FIELD_SIZE("max_position_embeddings", positions, 1 << 24),
    ES_FIELD_SIZE("type_vocab_size", types, 1 << 16),
    /* Below 1e-20 the square root of an f32 variance of 0 would overflow what it divides. */
    {"layer_norm_eps", ES_FIELD_REAL, true, ES_CONFIG(layer_norm_eps), .min = 1e-20, .max = 1e-2},
    /* What else would change the function: a mask, positions inside scores, another activation. */
    {"is_decoder", ES_FIELD_NONE, .rule = "config.decoder",
     .hint = "use an encoder: is_decoder false"},
    {"position_embedding_type", ES_FIELD_WORD, .only = "absolute", .rule = "config.positions",
     .hint = "supported is: absolute"},
    {"hidden_act", ES_FIELD_WORD, .required = true, .at = ES_CONFIG(activation), .only = "gelu",
     .rule = "config.activation", .hint = "supported is: gelu (the exact one, with erf)"},
    {0}};

#define LAYER(name) "encoder.layer.*." name

static const es_arch_part parts[] = {
    {"embeddings.word_embeddings", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},
    {"embeddings.position_embeddings", ES_PART_TABLE, ES_IN_MODEL(position),
     ES_SHAPE(positions, hidden)},
    {"embeddings.token_type_embeddings", ES_PART_TABLE, ES_IN_MODEL(type), ES_SHAPE(types, hidden)},
    {"embeddings.LayerNorm", ES_PART_NORM, ES_IN_MODEL(norm0), ES_WIDTH(hidden)},
    {LAYER("attention.self.query"), ES_PART_LINEAR, ES_IN_LAYER(qkv), ES_SHAPE(hidden, hidden)},
    {LAYER("attention.self.key"), ES_PART_LINEAR, ES_IN_LAYER(qkv), ES_SHAPE(hidden, hidden)},
    {LAYER("attention.self.value"), ES_PART_LINEAR, ES_IN_LAYER(qkv), ES_SHAPE(hidden, hidden)},
    {LAYER("attention.output.dense"), ES_PART_LINEAR, ES_IN_LAYER(out), ES_SHAPE(hidden, hidden)},
    {LAYER("attention.output.LayerNorm"), ES_PART_NORM, ES_IN_LAYER(norm1), ES_WIDTH(hidden)},
    {LAYER("intermediate.dense"), ES_PART_LINEAR, ES_IN_LAYER(up), ES_SHAPE(intermediate, hidden)},
    {LAYER("output.dense"), ES_PART_LINEAR, ES_IN_LAYER(down), ES_SHAPE(hidden, intermediate)},
    {LAYER("output.LayerNorm"), ES_PART_NORM, ES_IN_LAYER(norm2), ES_WIDTH(hidden)},
    {"pooler.dense", ES_PART_LINEAR, ES_IN_MODEL(pooler), ES_SHAPE(hidden, hidden),
     .role = ES_ROLE_POOLER},
    {"classifier", ES_PART_LINEAR, ES_IN_MODEL(classifier), ES_SHAPE(labels, hidden),
     .role = ES_ROLE_CLASSIFIER, .outside = true},
    {0}};

const es_arch es_arch_bert = {
    .model_type = "bert",
    .classes = "Bert",
    .title = "BERT",
    .fields = fields,
    .prefix = "bert.",
    .parts = parts,
    .classifier = "BertForSequenceClassification",
    .norm = ES_NORM_LAYER,
    .order = ES_ORDER_POST,
    .pooled = &es_tanh,
    .tokenizer = "WordPiece",
};
