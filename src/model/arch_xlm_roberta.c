/* SPDX-License-Identifier: Apache-2.0 */
/* arch_xlm_roberta.c : XLM-RoBERTa (Conneau and others, 2019): RoBERTa with another tokenizer. */
#include "model/arch_bert.h"

static const es_config_field fields[] = {ES_ROBERTA_FIELDS, {0}};

static const es_arch_part parts[] = {ES_ROBERTA_PARTS, {0}};

const es_arch es_arch_xlm_roberta = {
    .model_type = "xlm-roberta",
    .classes = "XLMRoberta",
    .title = "XLM-RoBERTa",
    .fields = fields,
    .defaults = {ES_ROBERTA_DEFAULTS},
    .derive = es_roberta_derive,
    .parts = parts,
    .classifier = "XLMRobertaForSequenceClassification",
    ES_ROBERTA_FORWARD,
    .tokenizer = "Unigram",
};
