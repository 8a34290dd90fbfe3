/* SPDX-License-Identifier: Apache-2.0 */
/* arch_modernbert.c : ModernBERT (Warner and others, 2024).
 *
 *     x = LayerNorm(word[id])
 *     for each layer:  x = x + Wo heads(norm(x)),  x = x + W2 (gelu(Wg y) (W1 y)), y = norm(x)
 *     last = norm(x)
 *     pooled = norm(gelu(Wp last_0)),  logits = Wc pooled + bc         classifiers of blocks
 *
 * Attention of the first layer has no norm before it, because the embedding has been normed. Two of
 * three layers have a window to both sides and turn by a base of their own. */
#include <string.h>

#include "model/arch_bert.h"

static const es_config_field fields[] = {
    ES_ARCH_SIZES,
    ES_BERT_EPS("norm_eps", false),
    {"global_attn_every_n_layers", ES_FIELD_WHOLE, .at = ES_STATED(period), .min = 1,
     .max = 1 << 20},
    {"local_attention", ES_FIELD_WHOLE, .at = ES_STATED(window), .min = 1, .max = 1 << 24},
    {"global_rope_theta", ES_FIELD_REAL, .at = ES_CONFIG(rotary.theta), .min = 1.0001, .max = 1e15,
     .nullable = true},
    {"local_rope_theta", ES_FIELD_REAL, .at = ES_CONFIG(rotary_local.theta), .min = 1.0001,
     .max = 1e15, .nullable = true},
    {"rope_scaling", ES_FIELD_OBJECT},
    {"rope_parameters", ES_FIELD_OBJECT},
    {"layer_types", ES_FIELD_LAYERS, .rule = "config.window",
     .hint = "supported are full_attention and sliding_attention"},
    {"attention_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    {"mlp_bias", ES_FIELD_BOOL, .at = ES_CONFIG(mlp_bias)},
    {"norm_bias", ES_FIELD_BOOL, .at = ES_CONFIG(norm_bias)},
    {"classifier_bias", ES_FIELD_BOOL, .at = ES_CONFIG(pooler_bias)},
    {"classifier_pooling", ES_FIELD_WORD, .at = ES_STATED(pooling), .only = "cls|mean",
     .rule = "config.function", .hint = "supported: cls, mean"},
    {"classifier_activation", ES_FIELD_WORD, .only = "gelu", .rule = "config.activation",
     .hint = "supported is: gelu"},
    {"is_decoder", ES_FIELD_NONE, .rule = "config.decoder",
     .hint = "use an encoder: is_decoder false"},
    ES_ARCH_ACTIVATION("hidden_activation"),
    ES_ENCODER_REFUSED,
    {0}};

#define LAYER(name) "layers.*." name
#define NORM(name, place)                                                                          \
    {                                                                                              \
        name, ES_PART_SCALE, place, ES_WIDTH(hidden), .biased = ES_CONFIG(norm_bias)               \
    }

static const es_arch_part parts[] = {
    {"embeddings.tok_embeddings", ES_PART_TABLE, ES_IN_MODEL(word), ES_SHAPE(vocab, hidden)},
    NORM("embeddings.norm", ES_IN_MODEL(norm0)),
    NORM("final_norm", ES_IN_MODEL(norm_last)),
    {LAYER("attn_norm"), ES_PART_SCALE, ES_IN_LAYER(norm1), ES_WIDTH(hidden),
     .biased = ES_CONFIG(norm_bias), .first = 1},
    {LAYER("attn.Wqkv"), ES_PART_MATRIX, ES_IN_LAYER(qkv), ES_SHAPE(qkv_width, hidden),
     .biased = ES_CONFIG(attention_bias)},
    {LAYER("attn.Wo"), ES_PART_MATRIX, ES_IN_LAYER(out), ES_SHAPE(hidden, hidden),
     .biased = ES_CONFIG(attention_bias)},
    NORM(LAYER("mlp_norm"), ES_IN_LAYER(norm2)),
    {LAYER("mlp.Wi"), ES_PART_MATRIX, ES_IN_LAYER(up), ES_SHAPE(up_width, hidden),
     .biased = ES_CONFIG(mlp_bias)},
    {LAYER("mlp.Wo"), ES_PART_MATRIX, ES_IN_LAYER(down), ES_SHAPE(hidden, intermediate),
     .biased = ES_CONFIG(mlp_bias)},
    {"head.dense", ES_PART_MATRIX, ES_IN_MODEL(pooler), ES_SHAPE(hidden, hidden),
     .role = ES_ROLE_DENSE, .outside = true, .biased = ES_CONFIG(pooler_bias)},
    {"head.norm", ES_PART_SCALE, ES_IN_MODEL(norm_pooled), ES_WIDTH(hidden), .role = ES_ROLE_DENSE,
     .outside = true, .biased = ES_CONFIG(norm_bias)},
    {"classifier", ES_PART_LINEAR, ES_IN_MODEL(classifier), ES_SHAPE(labels, hidden),
     .role = ES_ROLE_CLASSIFIER, .outside = true},
    {0}};

static void derive(es_config_draft *draft)
{
    draft->config.mean_pooled = strcmp(draft->layers.pooling, "mean") == 0;
}

const es_arch es_arch_modernbert = {
    .model_type = "modernbert",
    .classes = "ModernBert",
    .title = "ModernBERT",
    .fields = fields,
    .defaults =
        {.layer_norm_eps = 1e-5,
         .activation = "gelu",
         .rotary = {.theta = 160000.0, .share = 1.0, .fast = 32.0, .slow = 1.0, .rounded = true},
         .rotary_local = {.theta = 10000.0}},
    .layers = {.window = 128, .period = 3, .local = true},
    .derive = derive,
    .prefix = "model.",
    .parts = parts,
    .classifier = "ModernBertForSequenceClassification",
    .norm = ES_NORM_LAYER,
    .order = ES_ORDER_PRE,
    .gated = true,
    .dense = &es_gelu,
    .tokenizer = "byte-pair",
};
