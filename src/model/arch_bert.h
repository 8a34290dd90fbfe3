/* SPDX-License-Identifier: Apache-2.0 */
/* arch_bert.h : what the descriptions of BERT's relatives share.
 *
 *     x = LayerNorm(word[id] + type[0] + position[i])
 *     for each layer:  a = LayerNorm(x + Wo heads(x) + bo),  x = LayerNorm(a + W2 f(W1 a + b1) +
 * b2)
 *
 * A block is one text, so all its tokens are of type 0. */
#ifndef ES_MODEL_ARCH_BERT_H
#define ES_MODEL_ARCH_BERT_H

#include "model/model_inside.h"

/* Below 1e-20 the square root of an f32 variance of 0 would overflow what it divides. */
#define ES_BERT_EPS(key, must)                                                                     \
    {                                                                                              \
        key, ES_FIELD_REAL, must, ES_CONFIG(layer_norm_eps), .min = 1e-20, .max = 1e-2             \
    }

/* What else would change the function: a mask, positions inside scores. */
#define ES_BERT_REFUSED                                                                            \
    {"is_decoder", ES_FIELD_NONE, .rule = "config.decoder",                                        \
     .hint = "use an encoder: is_decoder false"},                                                  \
    {                                                                                              \
        "position_embedding_type", ES_FIELD_WORD, .only = "absolute", .rule = "config.positions",  \
                                                  .hint = "supported is: absolute"                 \
    }

/* Keys of newer encoders that would change the function, too. */
#define ES_ENCODER_REFUSED                                                                         \
    {"quantization_config", ES_FIELD_NONE, .rule = "config.quantised",                             \
     .hint = "use weights in F32, F16 or BF16"},                                                   \
        {"num_experts", ES_FIELD_NONE}, {"alibi", ES_FIELD_NONE},                                  \
        {"is_encoder_decoder", ES_FIELD_NONE},                                                     \
    {                                                                                              \
        "add_cross_attention", ES_FIELD_NONE                                                       \
    }

#define ES_BERT_LAYER(name) "encoder.layer.*." name

#define ES_BERT_EMBEDDINGS                                                                         \
    {"embeddings.word_embeddings", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},     \
        {"embeddings.position_embeddings", ES_PART_TABLE, ES_IN_MODEL(position),                   \
         ES_SHAPE(position_rows, hidden)},                                                         \
        {"embeddings.token_type_embeddings", ES_PART_TABLE, ES_IN_MODEL(type),                     \
         ES_SHAPE(types, hidden)},                                                                 \
    {                                                                                              \
        "embeddings.LayerNorm", ES_PART_NORM, ES_IN_MODEL(norm0), ES_WIDTH(hidden)                 \
    }

/* Queries, keys and values: ES_PART_LINEAR, or ES_PART_MATRIX whose bias is optional. */
#define ES_BERT_QKV(part_kind, bias)                                                               \
    {ES_BERT_LAYER("attention.self.query"), part_kind, ES_IN_LAYER(qkv), ES_SHAPE(hidden, hidden), \
     .biased = bias},                                                                              \
        {ES_BERT_LAYER("attention.self.key"), part_kind, ES_IN_LAYER(qkv),                         \
         ES_SHAPE(hidden, hidden), .biased = bias},                                                \
    {                                                                                              \
        ES_BERT_LAYER("attention.self.value"), part_kind, ES_IN_LAYER(qkv),                        \
            ES_SHAPE(hidden, hidden), .biased = bias                                               \
    }

#define ES_BERT_REST                                                                               \
    {ES_BERT_LAYER("attention.output.dense"), ES_PART_LINEAR, ES_IN_LAYER(out),                    \
     ES_SHAPE(hidden, hidden)},                                                                    \
        {ES_BERT_LAYER("attention.output.LayerNorm"), ES_PART_NORM, ES_IN_LAYER(norm1),            \
         ES_WIDTH(hidden)},                                                                        \
        {ES_BERT_LAYER("intermediate.dense"), ES_PART_LINEAR, ES_IN_LAYER(up),                     \
         ES_SHAPE(intermediate, hidden)},                                                          \
        {ES_BERT_LAYER("output.dense"), ES_PART_LINEAR, ES_IN_LAYER(down),                         \
         ES_SHAPE(hidden, intermediate)},                                                          \
    {                                                                                              \
        ES_BERT_LAYER("output.LayerNorm"), ES_PART_NORM, ES_IN_LAYER(norm2), ES_WIDTH(hidden)      \
    }

#define ES_BERT_POOLER(name)                                                                       \
    {                                                                                              \
        name, ES_PART_LINEAR, ES_IN_MODEL(pooler), ES_SHAPE(hidden, hidden),                       \
            .role = ES_ROLE_POOLER                                                                 \
    }

/* A classifier that is made of two maps: dense, a function, out_proj. */
#define ES_BERT_TWO_STEPS                                                                          \
    {"classifier.dense",       ES_PART_LINEAR,        ES_IN_MODEL(pooler),                         \
     ES_SHAPE(hidden, hidden), .role = ES_ROLE_DENSE, .outside = true},                            \
    {                                                                                              \
        "classifier.out_proj", ES_PART_LINEAR, ES_IN_MODEL(classifier), ES_SHAPE(labels, hidden),  \
            .role = ES_ROLE_CLASSIFIER, .outside = true                                            \
    }

/* ---- RoBERTa's, which XLM-RoBERTa shares ---- */

#define ES_ROBERTA_FIELDS                                                                          \
    ES_ARCH_SIZES, ES_FIELD_SIZE("type_vocab_size", types, 1 << 16),                               \
        ES_BERT_EPS("layer_norm_eps", false),                                                      \
        {"pad_token_id", ES_FIELD_WHOLE, .at = ES_CONFIG(first_position), .min = 0,                \
         .max = 1 << 24},                                                                          \
        ES_BERT_REFUSED, ES_ARCH_ACTIVATION("hidden_act"), ES_ENCODER_REFUSED

#define ES_ROBERTA_PARTS                                                                           \
    ES_BERT_EMBEDDINGS, ES_BERT_QKV(ES_PART_LINEAR, 0), ES_BERT_REST,                              \
        ES_BERT_POOLER("pooler.dense"), ES_BERT_TWO_STEPS

/* Its first_position is pad_token_id until es_roberta_derive(). */
#define ES_ROBERTA_DEFAULTS .layer_norm_eps = 1e-12, .activation = "gelu", .first_position = 1

#define ES_ROBERTA_FORWARD                                                                         \
    .prefix = "roberta.", .norm = ES_NORM_LAYER, .order = ES_ORDER_POST, .pooled = &es_tanh,       \
    .dense = &es_tanh

/* Positions begin after the row of padding, so that the longest text is shorter than the table. */
static inline void es_roberta_derive(es_config_draft *draft)
{
    es_model_config *c = &draft->config;
    c->first_position++;
    c->positions = c->position_rows - c->first_position;
}

#endif
