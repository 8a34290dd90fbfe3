/* SPDX-License-Identifier: Apache-2.0 */
/* arch_roberta.c : RoBERTa (Liu and others, 2019): BERT whose positions begin after padding's.
 *
 *     logits = Wo tanh(Wd x_0 + bd) + bo                               classifiers of blocks */
#include "model/arch_bert.h"

static const es_config_field fields[] = {ES_ROBERTA_FIELDS, {0}};

static const es_arch_part parts[] = {ES_ROBERTA_PARTS, {0}};

const es_arch es_arch_roberta = {
    .model_type = "roberta",
    .classes = "Roberta",
    .title = "RoBERTa",
    .fields = fields,
    .defaults = {ES_ROBERTA_DEFAULTS},
    .derive = es_roberta_derive,
    .parts = parts,
    .classifier = "RobertaForSequenceClassification",
    ES_ROBERTA_FORWARD,
    .tokenizer = "byte-pair",
};
