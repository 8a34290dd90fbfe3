/* vocab_text.c : vocab.txt, a token per line, and the tokenizer_config.json beside it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "model/settings.h"
#include "model/tokenizer_inside.h"
#include "model/unicode.h"

/* The special tokens of a BERT, by the key of the configuration that may rename them. */
enum { UNKNOWN, BEFORE, AFTER, PADDING, MASK, ROLES };
static const char *const role_keys[ROLES] = {"unk_token", "cls_token", "sep_token", "pad_token",
                                             "mask_token"};
static const char *const role_defaults[ROLES] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};

/* ---- the configuration ---- */

/* A token is written as a string or as an object with its content. */
static es_status read_role(const es_settings *config, int role, const char **out, es_error *err)
{
    const json_t *value = json_object_get(config->root, role_keys[role]);
    if (json_is_object(value))
        return es_settings_text(config, value, "content", out, err);
    return es_settings_text(config, config->root, role_keys[role], out, err);
}

static es_status read_config(const es_settings *config, es_tokenizer_info *rules,
                             const char *roles[ROLES], es_error *err)
{
    ES_TRY(es_settings_bool(config, config->root, "do_lower_case", &rules->lowercase, err));
    rules->strip_accents = rules->lowercase; /* unless said otherwise */
    ES_TRY(es_settings_bool(config, config->root, "strip_accents", &rules->strip_accents, err));
    ES_TRY(es_settings_bool(config, config->root, "tokenize_chinese_chars", &rules->split_chinese,
                            err));
    for (int role = 0; role < ROLES; role++)
        ES_TRY(read_role(config, role, &roles[role], err));
    return ES_OK;
}

/* ---- the vocabulary ---- */

static es_status fail_byte(const es_vocab_list *list, int64_t offset, bool nul, es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, list->path, offset, nul ? "vocab.nul" : "vocab.utf8",
                        "check that this is a vocab.txt in UTF-8", "a byte that is %s",
                        nul ? "NUL" : "no UTF-8");
}

/* Every line is a token and its number the id, blank ones included: leaving one out would move
 * all ids behind it. A byte order mark and carriage returns are not part of a token. */
static es_status read_lines(const char *data, size_t bytes, es_vocab_list *list, es_error *err)
{
    size_t at = bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    const int64_t invalid = es_utf8_invalid(data, bytes);
    const char *nul = bytes ? memchr(data, 0, bytes) : NULL;
    int64_t blank = 0;
    if (nul)
        return fail_byte(list, nul - data, true, err);
    if (invalid >= 0)
        return fail_byte(list, invalid, false, err);
    while (at < bytes) {
        const char *end = memchr(data + at, '\n', bytes - at);
        const size_t next = end ? (size_t)(end - data) + 1 : bytes;
        size_t length = (end ? next - 1 : next) - at;
        if (length && data[at + length - 1] == '\r')
            length--;
        blank += length == 0;
        ES_TRY(
            es_vocab_list_add(list, (es_vocab_entry){data + at, length, list->count, false}, err));
        at = next;
    }
    if (list->count == 0)
        return es_fail_file(err, ES_E_FORMAT, list->path, 0, "vocab.empty",
                            "expected a token per line", "the vocabulary is empty");
    if (blank)
        es_log(ES_LOG_WARN, "%s: %lld blank lines, which take an id each", list->path,
               (long long)blank);
    return ES_OK;
}

/* The last line that holds a token, as es_tokenizer_build() has it; -1: none. */
static int64_t find_line(const es_vocab_list *list, const char *token)
{
    const size_t bytes = strlen(token);
    for (int64_t i = list->count; i-- > 0;)
        if (list->entries[i].bytes == bytes && memcmp(list->entries[i].text, token, bytes) == 0)
            return i;
    return -1;
}

/* Specials are recognised in text, and two of them stand around it. Padding and mask are not
 * needed to read text, so they may be missing. */
static es_status mark_specials(es_vocab_list *list, const char *const roles[ROLES], es_error *err)
{
    for (int role = 0; role < ROLES; role++) {
        const int64_t id = find_line(list, roles[role]);
        if (id < 0 && role <= AFTER)
            return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.special",
                                "add it, or name another in tokenizer_config.json",
                                "the vocabulary has no token %.64s (%s)", roles[role],
                                role_keys[role]);
        if (id >= 0 && list->entries[id].bytes)
            list->entries[id].added = true;
        if (role == BEFORE)
            list->rules.prefix[0] = (int32_t)id;
        if (role == AFTER)
            list->rules.suffix[0] = (int32_t)id;
    }
    list->rules.prefix_count = list->rules.suffix_count = 1;
    return ES_OK;
}

static es_status read_all(const char *data, size_t bytes, const es_settings *config,
                          es_vocab_list *list, es_tokenizer **out, es_error *err)
{
    const char *roles[ROLES];
    memcpy(roles, role_defaults, sizeof roles);
    if (config->root)
        ES_TRY(read_config(config, &list->rules, roles, err));
    list->unknown = roles[UNKNOWN];
    ES_TRY(read_lines(data, bytes, list, err));
    ES_TRY(mark_specials(list, roles, err));
    return es_tokenizer_build(list, out, err);
}

es_status es_tokenizer_read_vocab(const char *data, size_t bytes, const char *path,
                                  const char *config_data, size_t config_bytes, es_budget *budget,
                                  es_tokenizer **out, es_error *err)
{
    es_vocab_list list = {.path = path, .continuing = "##", .budget = budget};
    es_settings config = {0};
    list.rules = (es_tokenizer_info){.max_chars = 100,
                                     .clean_text = true,
                                     .split_chinese = true,
                                     .strip_accents = true,
                                     .lowercase = true};
    es_status status = ES_OK;
    if (config_data) {
        char name[320];
        const char *slash = strrchr(path, '/');
        snprintf(name, sizeof name, "%.*stokenizer_config.json",
                 slash ? (int)(slash - path) + 1 : 0, path);
        status = es_settings_open(&config, config_data, config_bytes, name, budget, err);
        if (status == ES_OK)
            status = read_all(data, bytes, &config, &list, out, err);
    } else {
        status = read_all(data, bytes, &config, &list, out, err);
    }
    es_vocab_list_free(&list);
    es_settings_close(&config);
    return status;
}
