/* SPDX-License-Identifier: Apache-2.0 */
/* arch_big_bird.c : BigBird (Zaheer and others, 2020), where its attention is full.
 *
 *     pooled = tanh(Wp x_0 + bp)
 *     logits = Wo f(Wd x_0 + bd) + bo                                  classifiers of blocks
 *
 * With attention_type block_sparse, texts of up to (5 + 2 num_random_blocks) block_size tokens are
 * computed with full attention, and the longest block is one of these. In longer ones the library
 * that defines it counts the first block several times; the published pattern is the policy
 * bigbird. */
#include <math.h>
#include <string.h>

#include "model/arch_bert.h"

static const es_config_field fields[] = {
    ES_ARCH_SIZES,
    ES_FIELD_SIZE("type_vocab_size", types, 1 << 16),
    ES_BERT_EPS("layer_norm_eps", false),
    {"use_bias", ES_FIELD_BOOL, .at = ES_CONFIG(attention_bias)},
    {"rescale_embeddings", ES_FIELD_BOOL, .at = ES_STATED(rescaled)},
    {"attention_type", ES_FIELD_WORD, .at = ES_STATED(attention),
     .only = "original_full|block_sparse", .rule = "config.function",
     .hint = "supported: original_full, block_sparse"},
    {"block_size", ES_FIELD_WHOLE, .at = ES_STATED(block), .min = 1, .max = 1 << 20},
    {"num_random_blocks", ES_FIELD_WHOLE, .at = ES_STATED(random), .min = 0, .max = 1 << 20},
    ES_BERT_REFUSED,
    ES_ARCH_ACTIVATION("hidden_act"),
    ES_ENCODER_REFUSED,
    {0}};

static const es_arch_part parts[] = {
    ES_BERT_EMBEDDINGS, ES_BERT_QKV(ES_PART_MATRIX, ES_CONFIG(attention_bias)),
    ES_BERT_REST,       ES_BERT_POOLER("pooler"),
    ES_BERT_TWO_STEPS,  {0}};

static void derive(es_config_draft *draft)
{
    es_model_config *c = &draft->config;
    const es_layers_stated *s = &draft->layers;
    const int64_t full = (5 + 2 * s->random) * s->block;
    if (s->rescaled)
        c->embed_factor = sqrt((double)c->hidden);
    if (strcmp(s->attention, "original_full") != 0 && full < c->positions)
        c->positions = full;
}

const es_arch es_arch_big_bird = {
    .model_type = "big_bird",
    .classes = "BigBird",
    .title = "BigBird",
    .fields = fields,
    .defaults = {.layer_norm_eps = 1e-12, .activation = "gelu_new", .attention_bias = true},
    .layers = {.block = 64, .random = 3},
    .derive = derive,
    .prefix = "bert.",
    .parts = parts,
    .classifier = "BigBirdForSequenceClassification",
    .norm = ES_NORM_LAYER,
    .order = ES_ORDER_POST,
    .pooled = &es_tanh,
    .tokenizer = "Unigram",
};
