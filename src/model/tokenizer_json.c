/* tokenizer_json.c : tokenizer.json, the file in which Hugging Face's tokenizers keep all rules. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/tokenizer_inside.h"

/* ---- values by their key ---- */

/* An empty array is the most memory for its text: three bytes become some 130 in jansson 2.14. */
enum { MEMORY_PER_BYTE = 48 };

es_status es_settings_open(es_settings *s, const char *data, size_t bytes, const char *path,
                           es_budget *budget, es_error *err)
{
    json_error_t error;
    *s = (es_settings){.path = path, .budget = budget};
    ES_TRY(es_budget_charge(budget, bytes * MEMORY_PER_BYTE, "JSON", err));
    s->charged = bytes * MEMORY_PER_BYTE;
    s->root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    if (s->root && json_is_object(s->root))
        return ES_OK;
    const bool parsed = s->root != NULL;
    es_settings_close(s);
    if (parsed)
        return es_fail_file(err, ES_E_FORMAT, path, 0, "tokenizer.json", "expected { ... }",
                            "the file holds JSON, but no object");
    return es_fail_file(err, ES_E_FORMAT, path, error.position, "tokenizer.json",
                        "check that the file is whole", "not JSON: line %d: %s", error.line,
                        error.text);
}

/* Fine for one that was never opened. */
void es_settings_close(es_settings *s)
{
    json_decref(s->root);
    es_budget_release(s->budget, s->charged);
    *s = (es_settings){0};
}

/* A value that is not what the format says, by its key: a byte offset is not known of a tree. */
static es_status settings_fail(const es_settings *s, const char *key, const char *wanted,
                               es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, s->path, -1, "tokenizer.key",
                        "compare with a file that Hugging Face's tokenizers wrote",
                        "\"%s\" is not %s", key, wanted);
}

es_status es_settings_bool(const es_settings *s, const json_t *object, const char *key, bool *out,
                           es_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_boolean(value))
        return settings_fail(s, key, "true or false", err);
    *out = json_is_true(value);
    return ES_OK;
}

static es_status settings_int(const es_settings *s, const json_t *object, const char *key,
                              int64_t *out, es_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_integer(value))
        return settings_fail(s, key, "a whole number", err);
    *out = json_integer_value(value);
    return ES_OK;
}

es_status es_settings_text(const es_settings *s, const json_t *object, const char *key,
                           const char **out, es_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_string(value))
        return settings_fail(s, key, "a string", err);
    *out = json_string_value(value);
    return ES_OK;
}

/* ---- the parts of a tokenizer.json ---- */

/* The file may be perfectly good: it asks for what is not built in, and is told what is. */
static es_status fail_kind(const es_settings *s, const char *rule, const char *what,
                           const char *found, const char *known, es_error *err)
{
    return es_fail_file(err, ES_E_UNSUPPORTED, s->path, -1, rule, known, "%s is %.64s", what,
                        found ? found : "of an unknown kind");
}

/* The "type" of a part, NULL where there is none; a part that is null has none either. */
static const char *type_of(const json_t *part)
{
    return json_string_value(json_object_get(part, "type"));
}

static bool is_type(const json_t *part, const char *name)
{
    const char *type = type_of(part);
    return type && strcmp(type, name) == 0;
}

/* ---- model ---- */

/* Old files do not name the model's type, but only WordPiece limits the length of a word. */
static bool is_wordpiece(const json_t *model)
{
    if (type_of(model))
        return is_type(model, "WordPiece");
    return json_object_get(model, "max_input_chars_per_word") && !json_object_get(model, "merges");
}

/* The reader has refused a text twice; whether ids make sense is checked when all are known. */
static es_status read_model(const es_settings *s, es_vocab_list *list, es_error *err)
{
    const json_t *model = json_object_get(s->root, "model");
    if (!json_is_object(model))
        return settings_fail(s, "model", "an object", err);
    if (!is_wordpiece(model))
        return fail_kind(s, "tokenizer.model", "the model", type_of(model),
                         "only WordPiece, the tokenizer of BERT and its relatives, is built in; q, "
                         "k, v of other models go to esscher measure as .npy",
                         err);
    json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(vocab))
        return settings_fail(s, "model.vocab", "an object", err);
    ES_TRY(es_settings_text(s, model, "unk_token", &list->unknown, err));
    ES_TRY(es_settings_text(s, model, "continuing_subword_prefix", &list->continuing, err));
    ES_TRY(settings_int(s, model, "max_input_chars_per_word", &list->rules.max_chars, err));
    for (void *i = json_object_iter(vocab); i; i = json_object_iter_next(vocab, i)) {
        const json_t *id = json_object_iter_value(i);
        const char *text = json_object_iter_key(i);
        if (!json_is_integer(id))
            return settings_fail(s, text, "a whole number in model.vocab", err);
        ES_TRY(es_vocab_list_add(
            list, (es_vocab_entry){text, strlen(text), json_integer_value(id), false}, err));
    }
    if (list->count == 0)
        return es_fail_file(err, ES_E_FORMAT, s->path, -1, "vocab.empty",
                            "expected tokens in model.vocab", "the vocabulary is empty");
    return ES_OK;
}

/* ---- added tokens ---- */

/* White space that lstrip and rstrip would take divides words anyway, so it changes no id. */
static es_status read_added_token(const es_settings *s, const json_t *token, es_vocab_list *list,
                                  es_error *err)
{
    bool single_word = false, normalized = false;
    const char *text = NULL;
    int64_t id = -1;
    if (!json_is_object(token))
        return settings_fail(s, "added_tokens", "a list of objects", err);
    ES_TRY(es_settings_text(s, token, "content", &text, err));
    ES_TRY(settings_int(s, token, "id", &id, err));
    ES_TRY(es_settings_bool(s, token, "single_word", &single_word, err));
    ES_TRY(es_settings_bool(s, token, "normalized", &normalized, err));
    if (!text)
        return settings_fail(s, "added_tokens.content", "there", err);
    if (single_word || normalized)
        return es_fail_file(err, ES_E_UNSUPPORTED, s->path, -1, "tokenizer.added",
                            "only tokens that are matched in the text as it stands are built in",
                            "added token \"%.64s\" is %s", text,
                            normalized ? "normalized" : "a single word");
    return es_vocab_list_add(list, (es_vocab_entry){text, strlen(text), id, true}, err);
}

/* These are matched before anything else, and may repeat a token of the vocabulary. */
static es_status read_added(const es_settings *s, es_vocab_list *list, es_error *err)
{
    const json_t *tokens = json_object_get(s->root, "added_tokens");
    if (!tokens || json_is_null(tokens))
        return ES_OK;
    if (!json_is_array(tokens))
        return settings_fail(s, "added_tokens", "a list", err);
    for (size_t i = 0; i < json_array_size(tokens); i++)
        ES_TRY(read_added_token(s, json_array_get(tokens, i), list, err));
    return ES_OK;
}

/* ---- normalizer and pre-tokenizer ---- */

/* Keys that are left out have the values that BERT was trained with. */
static es_status read_normalizer(const es_settings *s, es_tokenizer_info *rules, es_error *err)
{
    const json_t *part = json_object_get(s->root, "normalizer");
    if (!part || json_is_null(part))
        return ES_OK;
    if (!is_type(part, "BertNormalizer"))
        return fail_kind(s, "tokenizer.normalizer", "the normalizer", type_of(part),
                         "only BertNormalizer, or none, is built in", err);
    rules->clean_text = rules->split_chinese = rules->lowercase = true;
    ES_TRY(es_settings_bool(s, part, "clean_text", &rules->clean_text, err));
    ES_TRY(es_settings_bool(s, part, "handle_chinese_chars", &rules->split_chinese, err));
    ES_TRY(es_settings_bool(s, part, "lowercase", &rules->lowercase, err));
    rules->strip_accents = rules->lowercase; /* null means: where lower case is made */
    return es_settings_bool(s, part, "strip_accents", &rules->strip_accents, err);
}

static es_status check_pretokenizer(const es_settings *s, es_error *err)
{
    const json_t *part = json_object_get(s->root, "pre_tokenizer");
    if (is_type(part, "BertPreTokenizer"))
        return ES_OK;
    return fail_kind(s, "tokenizer.pretokenizer", "the pre-tokenizer",
                     part && !json_is_null(part) ? type_of(part) : "missing",
                     "only BertPreTokenizer is built in", err);
}

/* ---- post-processor: the specials around a text ---- */

/* Ids are checked against the vocabulary when that is known, in es_tokenizer_build(). */
static es_status add_special(const es_settings *s, es_tokenizer_info *rules, bool before,
                             const json_t *id, es_error *err)
{
    int *count = before ? &rules->prefix_count : &rules->suffix_count;
    int32_t *ids = before ? rules->prefix : rules->suffix;
    const json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value > INT32_MAX)
        return settings_fail(s, "post_processor", "made of token ids", err);
    if (*count == ES_TOKENIZER_SPECIALS)
        return es_fail_file(err, ES_E_UNSUPPORTED, s->path, -1, "tokenizer.postprocessor",
                            "BERT has one on each side",
                            "more than %d special tokens stand on one side of a text",
                            ES_TOKENIZER_SPECIALS);
    ids[(*count)++] = (int32_t)value;
    return ES_OK;
}

/* {"SpecialToken": {"id": "[CLS]"}} stands for the ids that special_tokens gives this name. */
static es_status add_named(const es_settings *s, const json_t *part, const json_t *piece,
                           es_tokenizer_info *rules, bool before, es_error *err)
{
    const char *name =
        json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
    const json_t *known = json_object_get(part, "special_tokens");
    const json_t *ids = name ? json_object_get(json_object_get(known, name), "ids") : NULL;
    if (!json_is_array(ids))
        return settings_fail(s, "post_processor.single", "a template of known tokens", err);
    for (size_t i = 0; i < json_array_size(ids); i++)
        ES_TRY(add_special(s, rules, before, json_array_get(ids, i), err));
    return ES_OK;
}

/* "single" is the template of one text: specials, the text, specials. Of the one for pairs we
 * have no need. */
static es_status read_template(const es_settings *s, const json_t *part, es_tokenizer_info *rules,
                               es_error *err)
{
    const json_t *single = json_object_get(part, "single");
    int texts = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        if (json_object_get(piece, "Sequence"))
            texts++;
        else
            ES_TRY(add_named(s, part, piece, rules, texts == 0, err));
    }
    return texts == 1 ? ES_OK
                      : settings_fail(s, "post_processor.single", "a template of one text", err);
}

/* Without one nothing stands around a text. BertProcessing is the old way to say [CLS] text
 * [SEP]. */
static es_status read_postprocessor(const es_settings *s, es_tokenizer_info *rules, es_error *err)
{
    const json_t *part = json_object_get(s->root, "post_processor");
    if (!part || json_is_null(part))
        return ES_OK;
    if (is_type(part, "TemplateProcessing"))
        return read_template(s, part, rules, err);
    if (!is_type(part, "BertProcessing"))
        return fail_kind(s, "tokenizer.postprocessor", "the post-processor", type_of(part),
                         "TemplateProcessing and BertProcessing are built in", err);
    ES_TRY(add_special(s, rules, true, json_array_get(json_object_get(part, "cls"), 1), err));
    return add_special(s, rules, false, json_array_get(json_object_get(part, "sep"), 1), err);
}

/* ---- all of it ---- */

static es_status read_all(const es_settings *s, es_vocab_list *list, es_tokenizer **out,
                          es_error *err)
{
    ES_TRY(read_model(s, list, err)); /* first: another model's rules would differ everywhere */
    ES_TRY(check_pretokenizer(s, err));
    ES_TRY(read_normalizer(s, &list->rules, err));
    ES_TRY(read_postprocessor(s, &list->rules, err));
    ES_TRY(read_added(s, list, err));
    return es_tokenizer_build(list, out, err);
}

/* What the file leaves open is as in BERT. */
es_status es_tokenizer_read_json(const char *data, size_t bytes, const char *path,
                                 es_budget *budget, es_tokenizer **out, es_error *err)
{
    es_vocab_list list = {.path = path,
                          .unknown = "[UNK]",
                          .continuing = "##",
                          .budget = budget,
                          .rules = {.max_chars = 100}};
    es_settings settings;
    ES_TRY(es_settings_open(&settings, data, bytes, path, budget, err));
    const es_status status = read_all(&settings, &list, out, err);
    es_vocab_list_free(&list);
    es_settings_close(&settings);
    return status;
}
