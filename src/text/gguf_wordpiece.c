/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_wordpiece.c : the tokenizer "bert" of GGUF files, WordPiece.
 *
 * The file has a mark before tokens that begin a word, where vocab.txt has "##" before those that
 * continue one. It does not say whether text becomes lower case: it does if the file states so, or
 * states nothing and has no token with a capital letter, as in cased models. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/gguf_source.h"

#define KEY(name) ES_GGUF_TOKENS(name)

static const char mark[] = "\xe2\x96\x81", continuing[] = "##";

/* Returns whether a text has a capital letter of ASCII. */
static bool has_capital(es_gguf_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.at[i] >= 'A' && text.at[i] <= 'Z')
            return true;
    return false;
}

/* Writes a token as vocab.txt has it to `to`, and returns its length, at most size + 2. */
static size_t write_token(es_gguf_text text, int type, char *to)
{
    const size_t skip = sizeof mark - 1, put = sizeof continuing - 1;
    if (type == ES_GGUF_TOKEN_CONTROL || type == ES_GGUF_TOKEN_UNKNOWN) {
        memcpy(to, text.at, text.size);
        return text.size;
    }
    if (text.size >= skip && memcmp(text.at, mark, skip) == 0) {
        memcpy(to, text.at + skip, text.size - skip);
        return text.size - skip;
    }
    memcpy(to, continuing, put);
    memcpy(to + put, text.at, text.size);
    return text.size + put;
}

/* Lists the tokens, whose texts go to `buffer`; *cased: one of them has a capital letter. Tokens of
 * control are looked for in the text as it stands. */
static es_status list_tokens(const es_gguf_source *s, es_vocab_list *list, char *buffer,
                             bool *cased, es_error *err)
{
    size_t at = s->tokens->at;
    *cased = false;
    for (int64_t id = 0; id < s->tokens->count; id++) {
        const size_t begin = at;
        const es_gguf_text text = es_gguf_next(s->h, &at);
        const int type = es_gguf_source_type(s, id);
        ES_TRY(es_gguf_source_check(s, text, id, begin, err));
        *cased = *cased || (type == ES_GGUF_TOKEN_NORMAL && has_capital(text));
        const es_vocab_entry entry = {.text = buffer,
                                      .bytes = write_token(text, type, buffer),
                                      .id = id,
                                      .added = type == ES_GGUF_TOKEN_CONTROL};
        buffer += entry.bytes;
        ES_TRY(es_vocab_list_add(list, entry, err));
    }
    return ES_OK;
}

/* Sets the tokens around a text, [CLS] and [SEP]. Files that do not name them mean those of the
 * first BERT, or name them as beginning and end. */
static es_status read_specials(const es_gguf_source *s, es_tokenizer_info *rules, es_error *err)
{
    const char *first =
        es_gguf_find(s->h, KEY("cls_token_id")) ? KEY("cls_token_id") : KEY("bos_token_id");
    const char *last = es_gguf_find(s->h, KEY("seperator_token_id")) ? KEY("seperator_token_id")
                                                                     : KEY("eos_token_id");
    const int64_t count = s->tokens->count;
    ES_TRY(es_gguf_source_special(s, KEY("add_bos_token"), first, true, count > 101 ? 101 : -1,
                                  &rules->prefix_count, rules->prefix, err));
    return es_gguf_source_special(s, KEY("add_sep_token"), last, true, count > 102 ? 102 : -1,
                                  &rules->suffix_count, rules->suffix, err);
}

/* Builds the tokenizer with texts in `buffer`. */
static es_status build(const es_gguf_source *s, es_vocab_list *list, char *buffer,
                       es_tokenizer **out, es_error *err)
{
    bool cased;
    int64_t id;
    char unknown[ES_GGUF_UNKNOWN];
    es_tokenizer_info *rules = &list->rules;
    ES_TRY(es_gguf_source_unknown(s, 100, &id, unknown, err));
    if (es_gguf_source_type(s, id) == ES_GGUF_TOKEN_NORMAL)
        return es_gguf_source_refuse(s, KEY("unknown_token_id"), es_gguf_source_token(s, id),
                                     "supported: a token of control", err);
    ES_TRY(list_tokens(s, list, buffer, &cased, err));
    rules->lowercase = !cased;
    ES_TRY(es_gguf_flag(s->h, KEY("normalizer.lowercase"), &rules->lowercase, err));
    rules->clean_text = rules->split_chinese = true;
    rules->strip_accents = rules->lowercase;
    rules->max_chars = 100;
    list->unknown = unknown;
    list->continuing = continuing;
    ES_TRY(read_specials(s, rules, err));
    return es_tokenizer_build(list, out, err);
}

es_status es_gguf_wordpiece(es_gguf_source *s, es_vocab_list *list, es_tokenizer **out,
                            es_error *err)
{
    char *buffer;
    size_t bytes = 1;
    list->kind = &es_kind_wordpiece;
    ES_TRY(es_gguf_source_open(s, false, false, err));
    size_t at = s->tokens->at;
    for (int64_t id = 0; id < s->tokens->count; id++)
        bytes += es_gguf_next(s->h, &at).size + sizeof continuing;
    ES_TRY(ES_MEM_BYTES(list->budget, buffer, bytes, "tokens", err));
    const es_status status = build(s, list, buffer, out, err);
    es_mem_free(list->budget, buffer);
    return status;
}
