/* SPDX-License-Identifier: Apache-2.0 */
/* bpe_json.c : the parts of a tokenizer.json that are byte-pair encoding's own. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/bpe.h"
#include "base/unicode.h"

/* ---- model ---- */

/* Refuses prefixes and suffixes of pieces, and dropout, with which ids depend on chance. */
static es_status check_unsupported(const es_settings *s, const json_t *model, es_error *err)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *text = NULL;
        ES_TRY(es_settings_text(s, model, affixes[i], &text, err));
        if (text && *text)
            return es_settings_refuse(s, "tokenizer.model", affixes[i], text,
                                      "only an empty one is built in", err);
    }
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0.0)
        return es_settings_refuse(s, "tokenizer.model", "dropout", "not null",
                                  "ids that depend on chance are not built in", err);
    return ES_OK;
}

/* Reads fuse_unk, byte_fallback and ignore_merges. */
static es_status read_flags(const es_settings *s, const json_t *model, es_bpe *bpe, es_error *err)
{
    ES_TRY(es_settings_bool(s, model, "fuse_unk", &bpe->fuse_unk, err));
    ES_TRY(es_settings_bool(s, model, "byte_fallback", &bpe->byte_fallback, err));
    return es_settings_bool(s, model, "ignore_merges", &bpe->ignore_merges, err);
}

/* ---- merges ---- */

/* Reads "left right", or ["left", "right"], which newer files have because pieces may contain
 * spaces. */
static bool read_merge(const json_t *value, es_merge *out)
{
    const json_t *left = json_array_get(value, 0), *right = json_array_get(value, 1);
    if (json_is_array(value) && json_array_size(value) == 2 && json_is_string(left) &&
        json_is_string(right)) {
        *out = (es_merge){json_string_value(left), json_string_value(right),
                          json_string_length(left), json_string_length(right)};
        return out->left_bytes && out->right_bytes;
    }
    const char *text = json_string_value(value), *space = text ? strchr(text, ' ') : NULL;
    if (!space || space == text || !space[1] || strchr(space + 1, ' '))
        return false;
    *out = (es_merge){text, space + 1, (size_t)(space - text), strlen(space + 1)};
    return true;
}

/* Returns how many bytes of a piece a message shows. */
static int shown(size_t bytes) { return bytes < 64 ? (int)bytes : 64; }

/* Fails because of one merge, which the message shows. */
static es_status fail_merge(const char *path, int64_t rank, const es_merge *m, const char *what,
                            es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, path, -1, "tokenizer.merge",
                        "check that vocabulary and merges belong together",
                        "merge %lld, \"%.*s\" and \"%.*s\": %s", (long long)rank,
                        shown(m->left_bytes), m->left, shown(m->right_bytes), m->right, what);
}

/* Marks two characters as a joint: some merge may join them. */
static void put_joint(es_bpe *bpe, int32_t left, int32_t right)
{
    const uint64_t bit = es_joint_of(left, right);
    bpe->joints[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* Marks the characters on both sides of the seam of a merge as a joint. */
static void put_seam(es_bpe *bpe, const es_merge *m)
{
    int32_t left = 0, right;
    for (size_t at = 0; at < m->left_bytes;)
        at += es_utf8_next((const unsigned char *)m->left + at, m->left_bytes - at, &left);
    es_utf8_next((const unsigned char *)m->right, m->right_bytes, &right);
    put_joint(bpe, left, right);
}

/* Returns whether a piece such as <0x0A> stands for a byte instead of its six letters. */
static bool is_byte_piece(const char *text, size_t bytes)
{
    return bytes == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>';
}

/* Returns whether both pieces of a merge stand for their own text. A merge of other pieces joins
 * text that the joints do not cover. */
static bool is_plain(const es_tokenizer *t, const es_merge *m, int32_t left, int32_t right)
{
    return !is_byte_piece(m->left, m->left_bytes) && !is_byte_piece(m->right, m->right_bytes) &&
           left != t->info.unknown && right != t->info.unknown;
}

void es_bpe_put_joints(es_bpe *bpe, const char *text, size_t bytes)
{
    int32_t left = -1, right;
    for (size_t at = 0; at < bytes; left = right) {
        at += es_utf8_next((const unsigned char *)text + at, bytes - at, &right);
        if (left >= 0)
            put_joint(bpe, left, right);
    }
    bpe->cuts = bpe->cuts && !is_byte_piece(text, bytes);
}

es_status es_bpe_scratch(es_tokenizer *t, int64_t count, es_error *err)
{
    return es_pair_table_open(&t->bpe->merges, count, t->budget, err);
}

es_status es_bpe_put(es_tokenizer *t, const char *path, int64_t rank, const es_merge *m,
                     es_error *err)
{
    const int32_t left = es_tokenizer_id(t, m->left, m->left_bytes);
    const int32_t right = es_tokenizer_id(t, m->right, m->right_bytes);
    if (left < 0 || right < 0)
        return fail_merge(path, rank, m, "a part that is not in the vocabulary", err);
    const int32_t both = es_tokenizer_joined(t, left, right);
    if (both < 0)
        return fail_merge(path, rank, m, "the merged token is not in the vocabulary", err);
    es_pair_table_put(&t->bpe->merges, es_token_pair(left, right),
                      (uint64_t)rank << 32 | (uint32_t)both);
    put_seam(t->bpe, m);
    t->bpe->cuts = t->bpe->cuts && is_plain(t, m, left, right);
    return ES_OK;
}

/* Reads the list of merges of tokenizer.json. The place in the list is the rank. */
static es_status read_merges(es_tokenizer *t, const void *from, es_error *err)
{
    const es_settings *s = from;
    const json_t *merges = json_object_get(json_object_get(s->root, "model"), "merges");
    const size_t count = json_array_size(merges);
    if (!json_is_array(merges))
        return es_settings_fail(s, "model.merges", "a list", err);
    ES_TRY(es_bpe_scratch(t, (int64_t)count, err));
    for (size_t i = 0; i < count; i++) {
        es_merge m;
        if (!read_merge(json_array_get(merges, i), &m))
            return es_settings_fail(s, "model.merges", "made of pairs of pieces", err);
        ES_TRY(es_bpe_put(t, s->path, (int64_t)i, &m, err));
    }
    return ES_OK;
}

/* ---- symbols ---- */

/* Fills the tables of single characters and of bytes, which are spelt by their letter or as
 * <0xNN>. */
static void find_symbols(es_tokenizer *t)
{
    es_bpe *bpe = t->bpe;
    for (int c = 0; c < 128; c++) {
        const char text = (char)c;
        bpe->ascii[c] = es_tokenizer_id(t, &text, 1);
    }
    for (int b = 0; b < 256; b++) {
        char text[8];
        size_t bytes = 6;
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        if (bpe->byte_level)
            bytes = es_utf8_put(es_byte_letter((unsigned char)b), (unsigned char *)text);
        bpe->bytes[b] = es_tokenizer_id(t, text, bytes);
    }
}

/* Returns whether the vocabulary has a symbol for each of the 256 bytes. */
static bool has_all_bytes(const es_bpe *bpe)
{
    for (int b = 0; b < 256; b++)
        if (bpe->bytes[b] < 0)
            return false;
    return true;
}

/* Decides whether words may be cut at joints: only if nothing but merges joins text, neither fused
 * unknown tokens nor a lookup of whole words. Refuses ByteLevel without all bytes. */
static es_status check_symbols(es_tokenizer *t, const es_settings *s, es_error *err)
{
    es_bpe *bpe = t->bpe;
    const bool all = has_all_bytes(bpe);
    if (bpe->byte_level && bpe->byte_fallback && !all)
        return es_settings_refuse(s, "tokenizer.model", "byte_fallback",
                                  "asked for with ByteLevel and a vocabulary without some bytes",
                                  "one way to spell bytes is built in", err);
    bpe->cuts = bpe->cuts && !bpe->byte_level && !bpe->ignore_merges &&
                (t->info.unknown >= 0 ? !bpe->fuse_unk || (bpe->byte_fallback && all)
                                      : bpe->byte_fallback && all);
    return ES_OK;
}

/* ---- added tokens ---- */

/* Adds a token that is searched for in normalized text, normalized itself. */
static es_status put_normalized(es_tokenizer *t, const es_vocab_entry *e, es_matcher *matcher,
                                const char *path, es_error *err)
{
    es_normalizing work = {.matcher = matcher,
                           .first = {.budget = t->budget},
                           .second = {.budget = t->budget},
                           .budget = t->budget};
    es_aligned out = {.budget = t->budget};
    es_status status =
        es_aligned_text(&work.first, (const unsigned char *)e->text, e->bytes, 0, err);
    if (status == ES_OK)
        status = es_normalizers_run(&t->bpe->normalizers, &work, true, &out, err);
    if (status == ES_OK)
        status = es_added_put(&t->bpe->normalized, (const char *)out.bytes, out.used,
                              (int32_t)e->id, path, err);
    es_normalizing_free(&work);
    es_aligned_free(&out);
    return status;
}

/* Adds the added tokens. Without a normalizer both kinds are searched for in the same text. */
static es_status put_added(es_tokenizer *t, const es_vocab_list *list, es_matcher *matcher,
                           es_error *err)
{
    ES_TRY(es_trie_open(&t->bpe->normalized.trie, t->budget, err));
    for (int64_t i = 0; i < list->count; i++) {
        const es_vocab_entry *e = &list->entries[i];
        if (!e->added)
            continue;
        t->bpe->flags[e->id] = e->flags;
        t->bpe->lstrip = t->bpe->lstrip || (e->flags & ES_ADDED_LSTRIP);
        if (!(e->flags & ES_ADDED_NORMALIZED))
            continue;
        ES_TRY(t->bpe->normalizers.count
                   ? put_normalized(t, e, matcher, list->path, err)
                   : es_added_put(&t->added, e->text, e->bytes, (int32_t)e->id, list->path, err));
    }
    return ES_OK;
}

/* ---- decoder ---- */

/* Fails for a decoder that is not known. Ids do not depend on it, but an unknown decoder often
 * means an unknown kind of vocabulary. */
static es_status check_decoder(const es_settings *s, const json_t *part, es_error *err)
{
    static const char *const known[] = {"ByteLevel", "ByteFallback", "Fuse",      "Strip",
                                        "Replace",   "Metaspace",    "BPEDecoder"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (es_settings_is(part, known[i]))
            return ES_OK;
    return es_settings_refuse(s, "tokenizer.decoder", "a decoder", es_settings_type(part),
                              "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, "
                              "BPEDecoder and a Sequence of them are known",
                              err);
}

es_status es_bpe_check_decoder(const es_settings *s, es_error *err)
{
    const json_t *part = json_object_get(s->root, "decoder");
    if (!part || json_is_null(part))
        return ES_OK;
    if (!es_settings_is(part, "Sequence"))
        return check_decoder(s, part, err);
    const json_t *list = json_object_get(part, "decoders");
    if (!json_is_array(list))
        return es_settings_fail(s, "decoder.decoders", "a list", err);
    for (size_t i = 0; i < json_array_size(list); i++)
        ES_TRY(check_decoder(s, json_array_get(list, i), err));
    return ES_OK;
}

/* ---- all of it ---- */

/* Builds what depends on the tables of the vocabulary. */
static es_status complete(es_tokenizer *t, const es_settings *s, const es_vocab_list *list,
                          es_merge_source merges, const void *from, es_error *err)
{
    const json_t *model = json_object_get(s->root, "model");
    es_bpe *bpe = t->bpe;
    es_matcher *matcher = NULL;
    ES_TRY(es_normalizers_read(&bpe->normalizers, s, err));
    ES_TRY(es_splitters_read(&bpe->splitters, s, err));
    ES_TRY(read_flags(s, model, bpe, err));
    bpe->byte_level = bpe->splitters.byte_level;
    bpe->cuts = true;
    ES_TRY(merges(t, from, err));
    find_symbols(t);
    ES_TRY(check_symbols(t, s, err));
    es_status status = es_matcher_open(t->budget, &matcher, err);
    if (status == ES_OK)
        status = put_added(t, list, matcher, err);
    es_matcher_close(matcher);
    return status;
}

es_status es_bpe_build(const es_settings *s, const es_vocab_list *list, es_merge_source merges,
                       const void *from, es_tokenizer **out, es_error *err)
{
    es_tokenizer *t;
    ES_TRY(es_tokenizer_build(list, &t, err));
    const es_status status = complete(t, s, list, merges, from, err);
    if (status != ES_OK) {
        es_tokenizer_free(t);
        return status;
    }
    *out = t;
    return ES_OK;
}

es_status es_bpe_read(const es_settings *s, es_vocab_list *list, es_tokenizer **out, es_error *err)
{
    static const char *const keys[] = {"type",
                                       "dropout",
                                       "unk_token",
                                       "continuing_subword_prefix",
                                       "end_of_word_suffix",
                                       "fuse_unk",
                                       "byte_fallback",
                                       "ignore_merges",
                                       "vocab",
                                       "merges",
                                       NULL};
    json_t *model = json_object_get(s->root, "model");
    ES_TRY(es_settings_only(s, model, keys, err));
    ES_TRY(check_unsupported(s, model, err));
    ES_TRY(es_bpe_check_decoder(s, err));
    ES_TRY(es_settings_text(s, model, "unk_token", &list->unknown, err));
    ES_TRY(es_settings_vocab(s, model, list, err));
    ES_TRY(es_settings_template(s, &list->rules, err));
    ES_TRY(es_settings_added(s, list, err));
    return es_bpe_build(s, list, read_merges, s, out, err);
}
