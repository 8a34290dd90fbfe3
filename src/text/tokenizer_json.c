/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_json.c : tokenizer.json, the file in which Hugging Face's tokenizers keep all rules:
 * its values, and the parts that every kind of tokenizer has. The others are read by the kind. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/json.h"
#include "text/tokenizer_inside.h"
#include "base/unicode.h"

/* ---- values by their key ---- */

/* A tree takes its strings, and something for each value, all but the first of which stand behind
 * one of these marks: 120 bytes at most in jansson 2.14 on glibc, for an empty object. A bound by
 * the length alone would be three times what a vocabulary takes. */
enum { MEMORY_PER_VALUE = 160, MEMORY_ANYWAY = 4096 };

/* Returns the most memory that the JSON tree of a text can take. */
static size_t tree_bound(const char *data, size_t bytes)
{
    size_t marks = 0;
    for (size_t i = 0; i < bytes; i++)
        marks += data[i] == ',' || data[i] == ':' || data[i] == '[' || data[i] == '{';
    return MEMORY_ANYWAY + bytes + marks * MEMORY_PER_VALUE; /* files are capped: no overflow */
}

es_status es_settings_open(es_settings *s, const char *data, size_t bytes, const char *path,
                           es_mem_limit *budget, es_error *err)
{
    json_error_t error;
    *s = (es_settings){.path = path, .budget = budget};
    const size_t mark = es_utf8_mark(data, bytes), bound = tree_bound(data, bytes);
    ES_TRY(es_mem_limit_charge(budget, bound, "JSON", err));
    s->charged = bound;
    /* Integers as f64: those beyond 64 bits are no reason to refuse a file, and all that are used
     * are exact. */
    s->root = json_loadb(data + mark, bytes - mark,
                         JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (s->root && json_is_object(s->root))
        return ES_OK;
    const bool parsed = s->root != NULL;
    es_settings_close(s);
    if (parsed)
        return es_fail_file(err, ES_E_FORMAT, path, 0, "tokenizer.json", "expected { ... }",
                            "the file holds JSON, but not an object");
    return es_fail_file(err, ES_E_FORMAT, path, (int64_t)mark + error.position, "tokenizer.json",
                        "check that the file is complete", "not JSON: line %d: %s", error.line,
                        error.text);
}

/* Appends `"key": value` as they stand in the text, if the key is one of those that are wanted. */
static es_status pick_member(es_json *j, const es_json_text *key, const char *const *wanted,
                             char *out, size_t *used)
{
    while (*wanted && !es_json_same(key, *wanted))
        wanted++;
    es_json_kind(j);                                 /* to where the value begins */
    const size_t value = j->at, begin = key->at - 1; /* its quote */
    ES_TRY(es_json_skip(j));
    if (!*wanted)
        return ES_OK;
    const unsigned char *first = j->bytes + value;
    if (*first == 'N' || *first == 'I' || (*first == '-' && first[1] == 'I'))
        return es_settings_fail(&(es_settings){.path = j->file}, *wanted, "finite", j->err);
    out[*used] = *used ? ',' : '{';
    memcpy(out + *used + 1, j->bytes + begin, j->at - begin);
    *used += 1 + j->at - begin;
    return ES_OK;
}

/* Copies the wanted members of an object to `out`, as an object. */
static es_status pick_members(es_json *j, const char *const *wanted, char *out, size_t *used)
{
    es_json_list list;
    es_json_text key;
    ES_TRY(es_json_begin(j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            break;
        ES_TRY(pick_member(j, &key, wanted, out, used));
    }
    ES_TRY(es_json_end(j));
    memcpy(out + *used, *used ? "}" : "{}", *used ? 1 : 2);
    *used += *used ? 1 : 2;
    return ES_OK;
}

es_status es_settings_pick(es_settings *s, const char *data, size_t bytes, const char *path,
                           const char *const *wanted, es_mem_limit *budget, es_error *err)
{
    es_json j = {(const unsigned char *)data,
                 es_utf8_mark(data, bytes),
                 bytes,
                 path,
                 "tokenizer",
                 err,
                 0,
                 true};
    char *members;
    size_t used = 0;
    *s = (es_settings){0};
    ES_TRY(ES_MEM_BYTES(budget, members, bytes + 2, "JSON", err));
    es_status status = pick_members(&j, wanted, members, &used);
    if (status == ES_OK)
        status = es_settings_open(s, members, used, path, budget, err);
    es_mem_free(budget, members);
    return status;
}

/* Fine for one that was never opened. */
void es_settings_close(es_settings *s)
{
    json_decref(s->root);
    es_mem_limit_release(s->budget, s->charged);
    *s = (es_settings){0};
}

/* A value that is not what the format says, by its key: a byte offset is not known of a tree. */
es_status es_settings_fail(const es_settings *s, const char *key, const char *wanted, es_error *err)
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
        return es_settings_fail(s, key, "true or false", err);
    *out = json_is_true(value);
    return ES_OK;
}

/* Reads an integer up to 2^53, which f64 represents exactly. */
static bool take_whole(const json_t *value, int64_t *out)
{
    const double number = json_number_value(value), most = 9007199254740992.0;
    if (!json_is_number(value) || !(number >= -most && number <= most))
        return false;
    *out = (int64_t)number;
    return (double)*out == number;
}

es_status es_settings_int(const es_settings *s, const json_t *object, const char *key, int64_t *out,
                          es_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return ES_OK;
    return take_whole(value, out) ? ES_OK : es_settings_fail(s, key, "a whole number", err);
}

es_status es_settings_text(const es_settings *s, const json_t *object, const char *key,
                           const char **out, es_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_string(value))
        return es_settings_fail(s, key, "a string", err);
    *out = json_string_value(value);
    return ES_OK;
}

/* ---- the parts of a tokenizer.json ---- */

/* Fails for a valid file that uses a feature which is not supported; the hint lists those that
 * are. */
es_status es_settings_refuse(const es_settings *s, const char *rule, const char *what,
                             const char *found, const char *known, es_error *err)
{
    return es_fail_file(err, ES_E_UNSUPPORTED, s->path, -1, rule, known, "%s is %.64s", what,
                        found ? found : "of an unknown kind");
}

/* Returns the "type" of a part, NULL if it has none or the part is null. */
const char *es_settings_type(const json_t *part)
{
    return json_string_value(json_object_get(part, "type"));
}

bool es_settings_is(const json_t *part, const char *name)
{
    const char *type = es_settings_type(part);
    return type && strcmp(type, name) == 0;
}

es_status es_settings_only(const es_settings *s, json_t *model, const char *const *known,
                           es_error *err)
{
    for (void *i = json_object_iter(model); i; i = json_object_iter_next(model, i)) {
        const char *const *k = known;
        while (*k && strcmp(*k, json_object_iter_key(i)) != 0)
            k++;
        if (!*k)
            return es_settings_refuse(s, "tokenizer.model", "a key of the model",
                                      json_object_iter_key(i), "it may change every id", err);
    }
    return ES_OK;
}

/* ---- the vocabulary ---- */

/* The reader has refused a text twice; whether ids make sense is checked when all are known. */
es_status es_settings_vocab(const es_settings *s, const json_t *model, es_vocab_list *list,
                            es_error *err)
{
    json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(vocab))
        return es_settings_fail(s, "model.vocab", "an object", err);
    for (void *i = json_object_iter(vocab); i; i = json_object_iter_next(vocab, i)) {
        const char *text = json_object_iter_key(i);
        es_vocab_entry entry = {.text = text, .bytes = strlen(text)};
        if (!take_whole(json_object_iter_value(i), &entry.id))
            return es_settings_fail(s, text, "a whole number in model.vocab", err);
        ES_TRY(es_vocab_list_add(list, entry, err));
    }
    if (list->count == 0)
        return es_fail_file(err, ES_E_FORMAT, s->path, -1, "vocab.empty",
                            "expected tokens in model.vocab", "the vocabulary is empty");
    return ES_OK;
}

/* ---- added tokens ---- */

/* Reads the flags of an added token. */
static es_status read_added_flags(const es_settings *s, const json_t *token, unsigned char *flags,
                                  es_error *err)
{
    static const struct {
        const char *key;
        unsigned char flag;
    } known[] = {{"lstrip", ES_ADDED_LSTRIP},
                 {"rstrip", ES_ADDED_RSTRIP},
                 {"single_word", ES_ADDED_SINGLE_WORD},
                 {"normalized", ES_ADDED_NORMALIZED}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        bool set = false;
        ES_TRY(es_settings_bool(s, token, known[i].key, &set, err));
        *flags |= set ? known[i].flag : 0;
    }
    return ES_OK;
}

/* Reads one added token into the list. */
static es_status read_added_token(const es_settings *s, const json_t *token, es_vocab_list *list,
                                  es_error *err)
{
    es_vocab_entry entry = {.id = -1, .added = true};
    if (!json_is_object(token))
        return es_settings_fail(s, "added_tokens", "a list of objects", err);
    ES_TRY(es_settings_text(s, token, "content", &entry.text, err));
    ES_TRY(es_settings_int(s, token, "id", &entry.id, err));
    ES_TRY(read_added_flags(s, token, &entry.flags, err));
    if (!entry.text)
        return es_settings_fail(s, "added_tokens.content", "there", err);
    entry.bytes = strlen(entry.text);
    return es_vocab_list_add(list, entry, err);
}

/* These are matched before anything else, and may repeat a token of the vocabulary. */
es_status es_settings_added(const es_settings *s, es_vocab_list *list, es_error *err)
{
    const json_t *tokens = json_object_get(s->root, "added_tokens");
    if (!tokens || json_is_null(tokens))
        return ES_OK;
    if (!json_is_array(tokens))
        return es_settings_fail(s, "added_tokens", "a list", err);
    for (size_t i = 0; i < json_array_size(tokens); i++)
        ES_TRY(read_added_token(s, json_array_get(tokens, i), list, err));
    return ES_OK;
}

/* ---- post-processor: the specials around a text ---- */

/* Adds a special token before or after a text. es_tokenizer_build() checks the id, when the
 * vocabulary is known. */
static es_status add_special(const es_settings *s, es_tokenizer_info *rules, bool before,
                             const json_t *id, es_error *err)
{
    int *count = before ? &rules->prefix_count : &rules->suffix_count;
    int32_t *ids = before ? rules->prefix : rules->suffix;
    int64_t value = -1;
    if (!take_whole(id, &value) || value < 0 || value > INT32_MAX)
        return es_settings_fail(s, "post_processor", "made of token ids", err);
    if (*count == ES_TOKENIZER_SPECIALS)
        return es_fail_file(err, ES_E_UNSUPPORTED, s->path, -1, "tokenizer.postprocessor",
                            "models have one or two on each side",
                            "more than %d special tokens on one side of a text",
                            ES_TOKENIZER_SPECIALS);
    ids[(*count)++] = (int32_t)value;
    return ES_OK;
}

/* Adds the ids that special_tokens lists for a name: {"SpecialToken": {"id": "[CLS]"}}. */
static es_status add_named(const es_settings *s, const json_t *part, const json_t *piece,
                           es_tokenizer_info *rules, bool before, es_error *err)
{
    const char *name =
        json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
    const json_t *known = json_object_get(part, "special_tokens");
    const json_t *ids = name ? json_object_get(json_object_get(known, name), "ids") : NULL;
    if (!json_is_array(ids))
        return es_settings_fail(s, "post_processor.single", "a template of known tokens", err);
    for (size_t i = 0; i < json_array_size(ids); i++)
        ES_TRY(add_special(s, rules, before, json_array_get(ids, i), err));
    return ES_OK;
}

/* Reads "single", the template of one text: special tokens, the text, special tokens. The template
 * of pairs is not used. */
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
                      : es_settings_fail(s, "post_processor.single", "a template of one text", err);
}

/* Reads BertProcessing, an older form of [CLS] text [SEP], and RobertaProcessing, of <s> text
 * </s>. */
static es_status read_pair(const es_settings *s, const json_t *part, es_tokenizer_info *rules,
                           es_error *err)
{
    ES_TRY(add_special(s, rules, true, json_array_get(json_object_get(part, "cls"), 1), err));
    return add_special(s, rules, false, json_array_get(json_object_get(part, "sep"), 1), err);
}

/* Accepts ByteLevel, which moves offsets here and adds no token. */
static es_status read_nothing(const es_settings *s, const json_t *part, es_tokenizer_info *rules,
                              es_error *err)
{
    (void)s, (void)part, (void)rules, (void)err;
    return ES_OK;
}

static const struct {
    const char *type;
    es_status (*read)(const es_settings *s, const json_t *part, es_tokenizer_info *rules,
                      es_error *err);
} processors[] = {{"TemplateProcessing", read_template},
                  {"BertProcessing", read_pair},
                  {"RobertaProcessing", read_pair},
                  {"ByteLevel", read_nothing}};

/* Reads one post-processor by its type. */
static es_status read_processor(const es_settings *s, const json_t *part, es_tokenizer_info *rules,
                                es_error *err)
{
    for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++)
        if (es_settings_is(part, processors[i].type))
            return processors[i].read(s, part, rules, err);
    return es_settings_refuse(
        s, "tokenizer.postprocessor", "the post-processor", es_settings_type(part),
        "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and a "
        "Sequence of them are built in",
        err);
}

/* Without one nothing stands around a text. A sequence is one level deep: each processor would
 * stand around what the former made, and no tokenizer has a sequence in a sequence. */
es_status es_settings_template(const es_settings *s, es_tokenizer_info *rules, es_error *err)
{
    const json_t *part = json_object_get(s->root, "post_processor");
    if (!part || json_is_null(part))
        return ES_OK;
    if (!es_settings_is(part, "Sequence"))
        return read_processor(s, part, rules, err);
    const json_t *list = json_object_get(part, "processors");
    if (!json_is_array(list))
        return es_settings_fail(s, "post_processor.processors", "a list", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (rules->prefix_count || rules->suffix_count)
            return es_settings_refuse(s, "tokenizer.postprocessor", "the post-processor",
                                      "a Sequence that goes on behind a template",
                                      "a template is built in as the last of a Sequence", err);
        ES_TRY(read_processor(s, json_array_get(list, i), rules, err));
    }
    return ES_OK;
}

/* ---- all of it ---- */

static const es_token_kind *const kinds[] = {&es_kind_wordpiece, &es_kind_bpe, &es_kind_unigram};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Returns the kind of a model. Old files do not state the type, but have a key that only one kind
 * has. */
static const es_token_kind *find_kind(const json_t *model)
{
    const char *type = es_settings_type(model);
    for (int i = KINDS; i-- > 0;)
        if (type ? strcmp(type, kinds[i]->type) == 0
                 : json_object_get(model, kinds[i]->sign) != NULL)
            return kinds[i];
    return NULL;
}

/* Builds a tokenizer of the kind that the file has. */
static es_status read_kind(const es_settings *s, es_mem_limit *budget, es_tokenizer **out,
                           es_error *err)
{
    const json_t *model = json_object_get(s->root, "model");
    if (!json_is_object(model))
        return es_settings_fail(s, "model", "an object", err);
    es_vocab_list list = {.path = s->path, .kind = find_kind(model), .budget = budget};
    if (!list.kind)
        return es_settings_refuse(
            s, "tokenizer.model", "the model", es_settings_type(model),
            "WordPiece (BERT and its relatives), BPE and Unigram are built in; "
            "q, k, v of other models go to esscher measure as .npy",
            err);
    const es_status status = list.kind->read(s, &list, out, err);
    es_vocab_list_free(&list);
    return status;
}

es_status es_tokenizer_read_json(const char *data, size_t bytes, const char *path,
                                 es_mem_limit *budget, es_tokenizer **out, es_error *err)
{
    es_settings settings;
    ES_TRY(es_settings_open(&settings, data, bytes, path, budget, err));
    const es_status status = read_kind(&settings, budget, out, err);
    es_settings_close(&settings);
    return status;
}
