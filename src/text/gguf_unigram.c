/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_unigram.c : the tokenizer "t5" of GGUF files, SentencePiece's Unigram (unigram.h).
 *
 * The file has pieces with scores, SentencePiece's table of replacements, and whether spaces in a
 * row count once and a space is put before the text. These become the normalizer and pre-tokenizer
 * of a tokenizer.json. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/gguf_source.h"
#include "text/unigram.h"

#define KEY(name) ES_GGUF_TOKENS(name)

/* ---- rules ---- */

/* Returns `count` bytes of the file in base64, as new memory. */
static es_status to_base64(const es_gguf_header *h, const es_gguf_value *v, es_mem_limit *budget,
                           char **out, es_error *err)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = h->bytes + v->at;
    const size_t count = (size_t)v->count;
    ES_TRY(ES_MEM_BYTES(budget, *out, (count + 2) / 3 * 4 + 1, "charsmap", err));
    char *to = *out;
    for (size_t i = 0; i < count; i += 3, to += 4) {
        const size_t left = count - i;
        const uint32_t three = (uint32_t)bytes[i] << 16 |
                               (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                               (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        for (int k = 0; k < 4; k++)
            to[k] = (size_t)k <= left ? letters[three >> (18 - 6 * k) & 63] : '=';
    }
    *to = '\0';
    return ES_OK;
}

/* Returns the normalizers of the file, NULL without memory. */
static json_t *make_normalizers(const char *charsmap, bool merges_spaces)
{
    json_t *all = json_array();
    if (charsmap)
        json_array_append_new(
            all, json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", charsmap));
    if (merges_spaces) {
        json_array_append_new(
            all, json_pack("{s:s, s:b, s:b}", "type", "Strip", "strip_left", 1, "strip_right", 1));
        json_array_append_new(all, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern",
                                             "Regex", " {2,}", "content", " "));
    }
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", all);
}

/* Returns the pre-tokenizer, NULL without memory. Where spaces count once and every word has one
 * before it, words are those of the tokenizer.json of such models. */
static json_t *make_splitter(bool prefix, bool words)
{
    json_t *marks = json_pack("{s:s, s:s, s:s}", "type", "Metaspace", "replacement", "\xe2\x96\x81",
                              "prepend_scheme", prefix ? "always" : "never");
    return words ? json_pack("{s:s, s:[{s:s}, o]}", "type", "Sequence", "pretokenizers", "type",
                             "WhitespaceSplit", marks)
                 : marks;
}

/* Makes the rules that the file states, as a tokenizer.json. */
static es_status make_rules(const es_gguf_source *s, bool bytes, es_settings *out, es_error *err)
{
    bool prefix = true, merges_spaces = true;
    const es_gguf_value *map;
    char *charsmap = NULL;
    ES_TRY(es_gguf_flag(s->h, KEY("add_space_prefix"), &prefix, err));
    ES_TRY(es_gguf_flag(s->h, KEY("remove_extra_whitespaces"), &merges_spaces, err));
    ES_TRY(
        es_gguf_array(s->h, KEY("precompiled_charsmap"), false, ES_GGUF_U8, ES_GGUF_I8, &map, err));
    if (map && map->count)
        ES_TRY(to_base64(s->h, map, out->budget, &charsmap, err));
    const bool words = prefix && merges_spaces;
    out->root = json_pack("{s:{s:s, s:b}, s:o, s:o}", "model", "type", "Unigram", "byte_fallback",
                          bytes, "normalizer", make_normalizers(charsmap, merges_spaces && !words),
                          "pre_tokenizer", make_splitter(prefix, words));
    es_mem_free(out->budget, charsmap);
    return out->root ? ES_OK
                     : es_fail(err, ES_E_MEMORY, "memory", "free some memory",
                               "no memory for a tokenizer");
}

/* ---- pieces ---- */

/* Returns whether a text may be cut into tokens of this type. */
static bool is_piece(int type)
{
    return type == ES_GGUF_TOKEN_NORMAL || type == ES_GGUF_TOKEN_USER_DEFINED ||
           type == ES_GGUF_TOKEN_UNUSED;
}

/* Puts the pieces of the file. */
static es_status put_pieces(es_tokenizer *t, const void *from, es_error *err)
{
    const es_gguf_source *s = from;
    size_t at = s->tokens->at;
    int64_t unknown;
    char text[ES_GGUF_UNKNOWN];
    ES_TRY(es_gguf_source_unknown(s, 2, &unknown, text, err));
    ES_TRY(es_unigram_open(t, s->tokens->count, err));
    for (int64_t id = 0; id < s->tokens->count; id++) {
        const es_gguf_text token = es_gguf_next(s->h, &at);
        const double score = es_gguf_number(s->h, s->scores, id);
        if (!(score > -1e30 && score < 1e30))
            return es_fail_file(err, ES_E_FORMAT, s->h->file, (int64_t)s->scores->at, "gguf.value",
                                "write or download the file again", "the score of token %lld is %g",
                                (long long)id, score);
        if (token.size && is_piece(es_gguf_source_type(s, id)))
            ES_TRY(es_unigram_put(t, id, token.at, token.size, score, err));
    }
    es_unigram_finish(t, unknown);
    return ES_OK;
}

/* Lists the tokens. Those that are no text of their own are looked for in the text as it stands. */
static es_status list_tokens(const es_gguf_source *s, es_vocab_list *list, bool *bytes,
                             es_error *err)
{
    size_t at = s->tokens->at;
    *bytes = false;
    for (int64_t id = 0; id < s->tokens->count; id++) {
        const size_t begin = at;
        const es_gguf_text text = es_gguf_next(s->h, &at);
        const int type = es_gguf_source_type(s, id);
        ES_TRY(es_gguf_source_check(s, text, id, begin, err));
        *bytes = *bytes || type == ES_GGUF_TOKEN_BYTE;
        const es_vocab_entry entry = {.text = text.at,
                                      .bytes = text.size,
                                      .id = id,
                                      .added = type == ES_GGUF_TOKEN_CONTROL ||
                                               type == ES_GGUF_TOKEN_USER_DEFINED};
        ES_TRY(es_vocab_list_add(list, entry, err));
    }
    return ES_OK;
}

/* T5 ends texts with a token, and begins them with none, where the file does not say. */
es_status es_gguf_unigram(es_gguf_source *s, es_vocab_list *list, es_tokenizer **out, es_error *err)
{
    bool bytes;
    es_settings rules = {.path = s->h->file, .budget = list->budget};
    list->kind = &es_kind_unigram;
    ES_TRY(es_gguf_source_open(s, true, false, err));
    ES_TRY(es_gguf_source_special(s, KEY("add_bos_token"), KEY("bos_token_id"), false, -1,
                                  &list->rules.prefix_count, list->rules.prefix, err));
    ES_TRY(es_gguf_source_special(s, KEY("add_eos_token"), KEY("eos_token_id"), true, 1,
                                  &list->rules.suffix_count, list->rules.suffix, err));
    ES_TRY(list_tokens(s, list, &bytes, err));
    ES_TRY(make_rules(s, bytes, &rules, err));
    const es_status status = es_bpe_build(&rules, list, put_pieces, s, out, err);
    es_settings_close(&rules);
    return status;
}
