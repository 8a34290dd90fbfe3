/* SPDX-License-Identifier: Apache-2.0 */
/* arch_bert.c : BERT (Devlin and others, 2018), as its checkpoints in safetensors have it.
 *
 *     pooled = tanh(Wp x_0 + bp),  logits = Wc pooled + bc */
#include "model/arch_bert.h"

static const es_config_field fields[] = {
    ES_ARCH_SIZES,
    ES_FIELD_SIZE("type_vocab_size", types, 1 << 16),
    ES_BERT_EPS("layer_norm_eps", true),
    ES_BERT_REFUSED,
    {"hidden_act", ES_FIELD_WORD, .required = true, .at = ES_CONFIG(activation), .only = "gelu",
     .rule = "config.activation", .hint = "supported is: gelu (the exact one, with erf)"},
    {0}};

static const es_arch_part parts[] = {ES_BERT_EMBEDDINGS,
                                     ES_BERT_QKV(ES_PART_LINEAR, 0),
                                     ES_BERT_REST,
                                     ES_BERT_POOLER("pooler.dense"),
                                     {"classifier", ES_PART_LINEAR, ES_IN_MODEL(classifier),
                                      ES_SHAPE(labels, hidden), .role = ES_ROLE_CLASSIFIER,
                                      .outside = true},
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
