/* SPDX-License-Identifier: Apache-2.0 */
/* wordpiece_json.c : the parts of a tokenizer.json that are WordPiece's own. */
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_inside.h"

/* Reads the model; missing keys have BERT's values. */
static es_status read_model(const es_settings *s, es_vocab_list *list, es_error *err)
{
    const json_t *model = json_object_get(s->root, "model");
    list->unknown = "[UNK]";
    list->continuing = "##";
    list->rules.max_chars = 100;
    ES_TRY(es_settings_text(s, model, "unk_token", &list->unknown, err));
    ES_TRY(es_settings_text(s, model, "continuing_subword_prefix", &list->continuing, err));
    ES_TRY(es_settings_int(s, model, "max_input_chars_per_word", &list->rules.max_chars, err));
    return es_settings_vocab(s, model, list, err);
}

/* Reads the normalizer; missing keys have the values that BERT was trained with. */
static es_status read_normalizer(const es_settings *s, es_tokenizer_info *rules, es_error *err)
{
    const json_t *part = json_object_get(s->root, "normalizer");
    if (!part || json_is_null(part))
        return ES_OK;
    if (!es_settings_is(part, "BertNormalizer"))
        return es_settings_refuse(s, "tokenizer.normalizer", "the normalizer",
                                  es_settings_type(part),
                                  "only BertNormalizer, or none, is built in for WordPiece", err);
    rules->clean_text = rules->split_chinese = rules->lowercase = true;
    ES_TRY(es_settings_bool(s, part, "clean_text", &rules->clean_text, err));
    ES_TRY(es_settings_bool(s, part, "handle_chinese_chars", &rules->split_chinese, err));
    ES_TRY(es_settings_bool(s, part, "lowercase", &rules->lowercase, err));
    rules->strip_accents = rules->lowercase; /* null means: where lower case is made */
    return es_settings_bool(s, part, "strip_accents", &rules->strip_accents, err);
}

/* Fails unless the pre-tokenizer is that of BERT. */
static es_status check_pretokenizer(const es_settings *s, es_error *err)
{
    const json_t *part = json_object_get(s->root, "pre_tokenizer");
    if (es_settings_is(part, "BertPreTokenizer"))
        return ES_OK;
    return es_settings_refuse(s, "tokenizer.pretokenizer", "the pre-tokenizer",
                              part && !json_is_null(part) ? es_settings_type(part) : "missing",
                              "only BertPreTokenizer is built in for WordPiece", err);
}

/* Refuses flags of added tokens that would change ids; lstrip and rstrip do not, because white
 * space separates words anyway. */
static es_status check_added(const es_vocab_list *list, es_error *err)
{
    for (int64_t i = 0; i < list->count; i++) {
        const es_vocab_entry *e = &list->entries[i];
        if (e->flags & (ES_ADDED_SINGLE_WORD | ES_ADDED_NORMALIZED))
            return es_fail_file(
                err, ES_E_UNSUPPORTED, list->path, -1, "tokenizer.added",
                "WordPiece supports only added tokens that are matched in the raw text",
                "added token \"%.64s\" is %s", e->text,
                e->flags & ES_ADDED_NORMALIZED ? "normalized" : "a single word");
    }
    return ES_OK;
}

es_status es_wordpiece_read(const es_settings *s, es_vocab_list *list, es_tokenizer **out,
                            es_error *err)
{
    ES_TRY(read_model(s, list, err));
    ES_TRY(check_pretokenizer(s, err));
    ES_TRY(read_normalizer(s, &list->rules, err));
    ES_TRY(es_settings_template(s, &list->rules, err));
    ES_TRY(es_settings_added(s, list, err));
    ES_TRY(check_added(list, err));
    return es_tokenizer_build(list, out, err);
}
