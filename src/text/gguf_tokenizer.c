/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tokenizer.c : the tokenizer that a GGUF carries with it.
 *
 * The file has the vocabulary and, of byte pairs spelt in bytes ("gpt2"), the merges; of
 * SentencePiece's ("llama") a score for each piece. Unigram ("t5") and WordPiece ("bert") have
 * files of their own. How text is divided into words it does not say
 * but by a name, "tokenizer.ggml.pre" (gguf_pre.c). The rules of either kind are written as parts
 * of a tokenizer.json, and from there on it is one tokenizer like any other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/bpe.h"
#include "text/gguf_pre.h"
#include "text/gguf_source.h"
#include "text/gguf_tokenizer.h"
#include "base/unicode.h"

#define KEY(name) ES_GGUF_TOKENS(name)

/* ---- rules of pieces with scores ---- */

#define RULES(flags, parts) "{\"model\":{\"type\":\"BPE\"" flags "}" parts "}"

#define BLANK   "\xe2\x96\x81"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" BLANK "\"}"
#define SENTENCE_PIECE(normalizers)                                                                \
    RULES(",\"byte_fallback\":true,\"fuse_unk\":true",                                             \
          ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" normalizers "]}")

static const char prefixed[] =
    SENTENCE_PIECE("{\"type\":\"Prepend\",\"prepend\":\"" BLANK "\"}," REPLACE);
static const char unprefixed[] = SENTENCE_PIECE(REPLACE);

/* ---- the vocabulary ---- */

static es_status fail_count(const es_gguf_source *s, const es_gguf_value *v, es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, s->h->file, (int64_t)v->at, "gguf.value",
                        "write or download the file again",
                        "'%.*s' has %lld items, there are %lld tokens", (int)v->key.size, v->key.at,
                        (long long)v->count, (long long)s->tokens->count);
}

/* Before one of them is used as a number of C. */
static es_status check_types(const es_gguf_source *s, es_error *err)
{
    for (int64_t id = 0; id < s->types->count; id++) {
        const double type = es_gguf_number(s->h, s->types, id);
        if (!(type >= 0 && type <= ES_GGUF_TOKEN_BYTE))
            return es_fail_file(err, ES_E_FORMAT, s->h->file, (int64_t)s->types->at, "gguf.value",
                                "write or download the file again",
                                "token %lld has type %.0f; 0 to %d are known", (long long)id, type,
                                ES_GGUF_TOKEN_BYTE);
    }
    return ES_OK;
}

es_status es_gguf_source_open(es_gguf_source *s, bool scores, bool merges, es_error *err)
{
    ES_TRY(
        es_gguf_array(s->h, KEY("tokens"), true, ES_GGUF_STRING, ES_GGUF_STRING, &s->tokens, err));
    ES_TRY(es_gguf_array(s->h, KEY("token_type"), true, ES_GGUF_I32, ES_GGUF_U32, &s->types, err));
    ES_TRY(es_gguf_array(s->h, KEY("scores"), scores, ES_GGUF_F32, ES_GGUF_F64, &s->scores, err));
    ES_TRY(es_gguf_array(s->h, KEY("merges"), merges, ES_GGUF_STRING, ES_GGUF_STRING, &s->merges,
                         err));
    if (s->types->count != s->tokens->count)
        return fail_count(s, s->types, err);
    if (scores && s->scores->count != s->tokens->count)
        return fail_count(s, s->scores, err);
    if (s->tokens->count == 0)
        return es_fail_file(err, ES_E_FORMAT, s->h->file, (int64_t)s->tokens->at, "vocab.empty",
                            "write or download the file again", "the vocabulary is empty");
    return check_types(s, err);
}

es_gguf_text es_gguf_source_token(const es_gguf_source *s, int64_t id)
{
    size_t at = s->tokens->at;
    es_gguf_text token = {0};
    for (int64_t i = 0; i <= id; i++)
        token = es_gguf_next(s->h, &at);
    return token;
}

es_status es_gguf_source_check(const es_gguf_source *s, es_gguf_text text, int64_t id,
                               size_t offset, es_error *err)
{
    return es_utf8_invalid(text.at, text.size) < 0
               ? ES_OK
               : es_fail_file(err, ES_E_FORMAT, s->h->file, (int64_t)offset, "gguf.token",
                              "write or download the file again", "token %lld is not UTF-8",
                              (long long)id);
}

/* Tokens that are no text of their own are looked for in the text as it stands, as those that a
 * tokenizer.json calls added. */
static es_status read_tokens(const es_gguf_source *s, es_vocab_list *list, es_error *err)
{
    size_t at = s->tokens->at;
    for (int64_t id = 0; id < s->tokens->count; id++) {
        const size_t begin = at;
        const es_gguf_text text = es_gguf_next(s->h, &at);
        const int type = es_gguf_source_type(s, id);
        ES_TRY(es_gguf_source_check(s, text, id, begin, err));
        const es_vocab_entry entry = {.text = text.at,
                                      .bytes = text.size,
                                      .id = id,
                                      .added = type >= ES_GGUF_TOKEN_UNKNOWN &&
                                               type <= ES_GGUF_TOKEN_USER_DEFINED};
        ES_TRY(es_vocab_list_add(list, entry, err));
    }
    return ES_OK;
}

/* ---- tokens around a text ---- */

es_status es_gguf_source_special(const es_gguf_source *s, const char *add_key, const char *id_key,
                                 bool usual, int64_t id, int *count, int32_t *ids, es_error *err)
{
    bool add = usual;
    ES_TRY(es_gguf_flag(s->h, add_key, &add, err));
    if (!add)
        return ES_OK;
    const es_gguf_range range = {0, (double)s->tokens->count - 1, id < 0};
    ES_TRY(es_gguf_whole(s->h, id_key, range, &id, err));
    ids[(*count)++] = (int32_t)id;
    return ES_OK;
}

es_status es_gguf_source_refuse(const es_gguf_source *s, const char *key, es_gguf_text found,
                                const char *known, es_error *err)
{
    return es_fail_file(err, ES_E_UNSUPPORTED, s->h->file, -1, "gguf.tokenizer", known,
                        "%s is '%.*s', which is not supported", key,
                        found.size < 64 ? (int)found.size : 64, found.at);
}

es_status es_gguf_source_unknown(const es_gguf_source *s, int64_t usual, int64_t *id,
                                 char out[ES_GGUF_UNKNOWN], es_error *err)
{
    const double last = (double)s->tokens->count - 1;
    *id = usual;
    ES_TRY(es_gguf_whole(s->h, KEY("unknown_token_id"),
                         (es_gguf_range){0, last, (double)usual > last}, id, err));
    const es_gguf_text token = es_gguf_source_token(s, *id);
    if (token.size >= ES_GGUF_UNKNOWN)
        return es_gguf_source_refuse(s, KEY("unknown_token_id"), token,
                                     "supported: a token shorter than 64 bytes", err);
    memcpy(out, token.at, token.size);
    out[token.size] = '\0';
    return ES_OK;
}

/* Ids that a file of pieces does not state are those of the first models that had them. */
static es_status read_specials(const es_gguf_source *s, bool pieces, bool begins,
                               es_tokenizer_info *rules, es_error *err)
{
    ES_TRY(es_gguf_source_special(s, KEY("add_bos_token"), KEY("bos_token_id"), begins,
                                  pieces ? 1 : -1, &rules->prefix_count, rules->prefix, err));
    return es_gguf_source_special(s, KEY("add_eos_token"), KEY("eos_token_id"), false,
                                  pieces ? 2 : -1, &rules->suffix_count, rules->suffix, err);
}

/* What begins a text that a model reads where nothing is put before it: a file that names such a
 * token and does not say that it is left out means it. */
static es_status find_begin(const es_gguf_source *s, es_tokenizer *t, es_error *err)
{
    int64_t id = -1;
    const es_gguf_range range = {0, (double)t->info.size - 1, false};
    if (t->info.prefix_count || es_gguf_find(s->h, KEY("add_bos_token")))
        return ES_OK;
    ES_TRY(es_gguf_whole(s->h, KEY("bos_token_id"), range, &id, err));
    t->info.begin = (int32_t)id;
    return ES_OK;
}

/* ---- merges that are listed ---- */

/* "left right"; a piece may begin with a space, but has none behind that. */
static es_status put_listed(es_tokenizer *t, const void *from, es_error *err)
{
    const es_gguf_source *s = from;
    size_t at = s->merges->at;
    ES_TRY(es_bpe_scratch(t, s->merges->count, err));
    for (int64_t rank = 0; rank < s->merges->count; rank++) {
        const size_t begin = at;
        const es_gguf_text text = es_gguf_next(s->h, &at);
        const char *space = text.size > 2 ? memchr(text.at + 1, ' ', text.size - 2) : NULL;
        if (!space)
            return es_fail_file(err, ES_E_FORMAT, s->h->file, (int64_t)begin, "tokenizer.merge",
                                "write or download the file again",
                                "merge %lld is not a pair of tokens", (long long)rank);
        const size_t left = (size_t)(space - text.at);
        const es_merge m = {text.at, space + 1, left, text.size - left - 1};
        ES_TRY(es_bpe_put(t, s->h->file, rank, &m, err));
    }
    return ES_OK;
}

/* ---- merges that scores make ----
 *
 * SentencePiece joins the two neighbours that together are the piece of the highest score, the
 * leftmost of equals. So any two pieces that together are one may merge, and the rank of that is
 * the rank of the piece's score among all scores; no list of them is made. */

typedef struct scored {
    double score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *s = a, *t = b;
    return s->score > t->score ? -1 : s->score < t->score ? 1 : s->id < t->id ? -1 : 1;
}

/* (tokens) the rank of each score; equal scores have one. */
static es_status rank_scores(const es_gguf_source *s, scored *order, uint32_t *ranks, es_error *err)
{
    const int64_t count = s->tokens->count;
    for (int64_t id = 0; id < count; id++) {
        order[id] = (scored){es_gguf_number(s->h, s->scores, id), (int32_t)id};
        if (order[id].score != order[id].score)
            return es_fail_file(err, ES_E_FORMAT, s->h->file, (int64_t)s->scores->at, "gguf.value",
                                "write or download the file again",
                                "the score of token %lld is NaN", (long long)id);
    }
    qsort(order, (size_t)count, sizeof *order, by_score);
    for (int64_t i = 0, rank = 0; i < count; i++) {
        rank += i > 0 && order[i].score != order[i - 1].score;
        ranks[order[i].id] = (uint32_t)rank;
    }
    return ES_OK;
}

static size_t length_at(const char *text, size_t bytes)
{
    int32_t c;
    return es_utf8_next((const unsigned char *)text, bytes, &c);
}

/* A character that is no piece is spelt in bytes before anything is merged, while SentencePiece
 * may join it to what makes a piece with it. No vocabulary that was trained has such a piece. */
static es_status check_edges(const es_tokenizer *t, const es_gguf_source *s, int64_t id,
                             const char *text, size_t bytes, es_error *err)
{
    const size_t first = length_at(text, bytes);
    size_t last = 0;
    for (size_t at = 0; at < bytes; at += length_at(text + at, bytes - at))
        last = at;
    if (last == 0)
        return ES_OK;
    const bool two = first == last;
    const bool at_first = es_tokenizer_id(t, text, first) < 0 &&
                          (two || es_tokenizer_id(t, text + first, bytes - first) >= 0);
    const bool at_last = es_tokenizer_id(t, text + last, bytes - last) < 0 &&
                         (two || es_tokenizer_id(t, text, last) >= 0);
    if (at_first || at_last)
        return es_fail_file(err, ES_E_UNSUPPORTED, s->h->file, -1, "gguf.token",
                            "use the model's tokenizer.json",
                            "token %lld has a character that is not a token", (long long)id);
    return ES_OK;
}

/* Tokens that are no text of their own take no part, nor does one whose text another has. */
static es_status put_pieces(es_tokenizer *t, const es_gguf_source *s, es_error *err)
{
    for (int64_t id = 0; id < s->tokens->count; id++) {
        const char *text = es_tokenizer_token(t, id);
        const size_t bytes = strlen(text);
        if (bytes == 0 || es_gguf_source_type(s, id) != ES_GGUF_TOKEN_NORMAL ||
            es_tokenizer_id(t, text, bytes) != id) {
            t->bpe->ranks[id] = UINT32_MAX;
            continue;
        }
        ES_TRY(check_edges(t, s, id, text, bytes, err));
        es_bpe_put_joints(t->bpe, text, bytes);
    }
    return ES_OK;
}

/* Builds a tokenizer with scores: tokens sorted by score are the ranks of merges. */
static es_status put_scored(es_tokenizer *t, const void *from, es_error *err)
{
    const es_gguf_source *s = from;
    scored *order = NULL;
    ES_TRY(ES_MEM_NEW(t->budget, t->bpe->ranks, s->tokens->count, "scores", err));
    es_status status = ES_MEM_NEW(t->budget, order, s->tokens->count, "scores", err);
    if (status == ES_OK)
        status = rank_scores(s, order, t->bpe->ranks, err);
    es_mem_free(t->budget, order);
    return status == ES_OK ? put_pieces(t, s, err) : status;
}

/* ---- all of it ---- */

/* Builds a tokenizer from the rules, which it releases, the vocabulary and merges. */
static es_status build(const es_gguf_source *s, es_settings *rules, es_vocab_list *list,
                       es_merge_source merges, es_tokenizer **out, es_error *err)
{
    es_status status = read_tokens(s, list, err);
    if (status == ES_OK)
        status = es_bpe_build(rules, list, merges, s, out, err);
    es_settings_close(rules);
    return status;
}

/* Finds the splitting rule that the file names. A file without a name is of the time before there
 * were any, and llama.cpp reads it by its default. */
static es_status find_pre(const es_gguf_source *s, const es_gguf_pre **out, es_error *err)
{
    char known[sizeof err->hint], names[sizeof err->hint - 64];
    es_gguf_text name = {"default", 7};
    ES_TRY(es_gguf_string(s->h, KEY("pre"), false, &name, err));
    if (!es_gguf_find(s->h, KEY("pre")))
        es_log(ES_LOG_WARN, "%s: missing " KEY("pre") ": words are split by the rule 'default'",
               s->h->file);
    *out = es_gguf_pre_find(name.at, name.size);
    if (*out)
        return ES_OK;
    es_gguf_pre_list(names, sizeof names);
    snprintf(known, sizeof known, "supported: %s; or use the model's tokenizer.json", names);
    return es_gguf_source_refuse(s, KEY("pre"), name, known, err);
}

/* Builds a byte-pair tokenizer. GGUF names its splitting rule instead of stating it, so that
 * only known names are supported. */
static es_status build_listed(es_gguf_source *s, es_vocab_list *list, es_tokenizer **out,
                              es_error *err)
{
    const es_gguf_pre *pre;
    ES_TRY(find_pre(s, &pre, err));
    ES_TRY(es_gguf_source_open(s, false, true, err));
    ES_TRY(read_specials(s, false, pre->flags & ES_PRE_BEGINS, &list->rules, err));
    es_settings rules = {
        .root = es_gguf_pre_rules(pre), .path = s->h->file, .budget = list->budget};
    if (!rules.root)
        return es_fail(err, ES_E_MEMORY, "memory", "free some memory", "no memory for a tokenizer");
    return build(s, &rules, list, put_listed, out, err);
}

/* What would change the text before it is cut. */
static es_status check_plain(const es_gguf_source *s, es_error *err)
{
    bool strips = false;
    es_gguf_text pre = {"default", 7};
    ES_TRY(es_gguf_flag(s->h, KEY("remove_extra_whitespaces"), &strips, err));
    ES_TRY(es_gguf_string(s->h, KEY("pre"), false, &pre, err));
    if (strips || es_gguf_find(s->h, KEY("precompiled_charsmap")))
        return es_gguf_source_refuse(
            s, strips ? KEY("remove_extra_whitespaces") : KEY("precompiled_charsmap"),
            (es_gguf_text){"there", 5}, "use the model's tokenizer.json", err);
    return es_gguf_text_is(pre, "default")
               ? ES_OK
               : es_gguf_source_refuse(s, KEY("pre"), pre,
                                       "tokenizers with scores require 'default'", err);
}

/* Builds a SentencePiece tokenizer from tokens with scores. */
static es_status build_scored(es_gguf_source *s, es_vocab_list *list, es_tokenizer **out,
                              es_error *err)
{
    bool prefix = true;
    int64_t unknown;
    char text[ES_GGUF_UNKNOWN];
    ES_TRY(check_plain(s, err));
    ES_TRY(es_gguf_source_open(s, true, false, err));
    ES_TRY(es_gguf_flag(s->h, KEY("add_space_prefix"), &prefix, err));
    ES_TRY(es_gguf_source_unknown(s, 0, &unknown, text, err));
    list->unknown = text;
    ES_TRY(read_specials(s, true, true, &list->rules, err));
    const char *json = prefix ? prefixed : unprefixed;
    es_settings rules;
    ES_TRY(es_settings_open(&rules, json, strlen(json), s->h->file, list->budget, err));
    return build(s, &rules, list, put_scored, out, err);
}

es_status es_gguf_tokenizer(const es_gguf_header *h, es_mem_limit *budget, es_tokenizer **out,
                            es_error *err)
{
    es_gguf_source s = {.h = h};
    es_gguf_text model;
    es_vocab_list list = {.path = h->file, .kind = &es_kind_bpe, .budget = budget};
    es_status status;
    *out = NULL;
    ES_TRY(es_gguf_string(h, KEY("model"), true, &model, err));
    if (es_gguf_text_is(model, "gpt2"))
        status = build_listed(&s, &list, out, err);
    else if (es_gguf_text_is(model, "llama"))
        status = build_scored(&s, &list, out, err);
    else if (es_gguf_text_is(model, "bert"))
        status = es_gguf_wordpiece(&s, &list, out, err);
    else if (es_gguf_text_is(model, "t5"))
        status = es_gguf_unigram(&s, &list, out, err);
    else
        status = es_gguf_source_refuse(&s, KEY("model"), model,
                                       "supported: gpt2 (byte pairs), llama (SentencePiece), t5 "
                                       "(Unigram), bert (WordPiece); or use the model's "
                                       "tokenizer.json",
                                       err);
    es_vocab_list_free(&list);
    if (status == ES_OK)
        status = find_begin(&s, *out, err);
    if (status != ES_OK) {
        es_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}

/* By their text and type alone, in lists that may contradict each other: then it will be refused.
 */
size_t es_gguf_tokenizer_memory(const es_gguf_header *h)
{
    es_gguf_source s = {.h = h};
    const es_gguf_value *tokens = es_gguf_find(h, KEY("tokens"));
    const es_gguf_value *merges = es_gguf_find(h, KEY("merges"));
    es_error ignored;
    es_tokenizer_size size = {0};
    if (!tokens || tokens->item != ES_GGUF_STRING)
        return 0;
    const es_status status =
        es_gguf_array(h, KEY("token_type"), true, ES_GGUF_I32, ES_GGUF_U32, &s.types, &ignored);
    size_t at = tokens->at;
    size.tokens = tokens->count;
    size.merges = merges ? merges->count : 0;
    for (int64_t id = 0; id < tokens->count; id++) {
        const es_gguf_text text = es_gguf_next(h, &at);
        const bool typed = status == ES_OK && id < s.types->count;
        const double type = typed ? es_gguf_number(h, s.types, id) : ES_GGUF_TOKEN_NORMAL;
        size.text += text.size;
        size.added +=
            type >= ES_GGUF_TOKEN_UNKNOWN && type <= ES_GGUF_TOKEN_USER_DEFINED ? text.size : 0;
    }
    return es_tokenizer_most(&size);
}
