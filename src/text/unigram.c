/* SPDX-License-Identifier: Apache-2.0 */
#include "text/unigram.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"

/* ---- the best path ---- */

/* Lets a piece that begins at `begin` and ends at `end` be the last of the best path to its end, if
 * its score is better. */
static void offer(es_best_path *paths, size_t begin, size_t end, double score, int32_t id)
{
    const double sum = paths[begin].score + score;
    if (paths[end].begin < 0 || sum > paths[end].score)
        paths[end] = (es_best_path){sum, (int32_t)begin, id};
}

/* Fills the best paths of a word (Viterbi). A character that is no piece by itself may be unknown,
 * so that there is a path to every character. */
static void find_paths(const es_tokenizer *t, es_best_path *paths, const unsigned char *word,
                       size_t bytes)
{
    const es_unigram *u = t->bpe->unigram;
    paths[0] = (es_best_path){0.0, 0, -1};
    for (size_t end = 1; end <= bytes; end++)
        paths[end].begin = -1;
    for (size_t begin = 0, length; begin < bytes; begin += length) {
        int32_t c;
        bool single = false;
        uint32_t node = ES_TRIE_ROOT;
        length = es_utf8_next(word + begin, bytes - begin, &c);
        for (size_t end = begin; end < bytes;) {
            node = es_trie_step(&u->pieces, node, word[end++]);
            if (node == ES_TRIE_NOWHERE)
                break;
            const int32_t id = u->pieces.ids[node];
            if (id < 0)
                continue;
            offer(paths, begin, end, u->scores[id], id);
            single = single || end - begin == length;
        }
        if (!single)
            offer(paths, begin, begin + length, u->unknown_score, t->info.unknown);
    }
}

/* ---- its pieces ---- */

/* Puts bytes [begin, end), unknown characters in a row, before the pieces from `first` on: as a
 * piece that they happen to be together, as bytes, or as one unknown token. Returns the new
 * first. */
static int64_t put_unknown(es_cutting *work, const unsigned char *word, size_t begin, size_t end,
                           int64_t first)
{
    const es_tokenizer *t = work->tokenizer;
    const es_trie *pieces = &t->bpe->unigram->pieces;
    const uint32_t node =
        es_trie_walk(pieces, ES_TRIE_ROOT, (const char *)word + begin, end - begin);
    const int32_t id = node == ES_TRIE_NOWHERE ? -1 : pieces->ids[node];
    if (id < 0 && es_cutting_spells(t->bpe, word + begin, end - begin)) {
        for (size_t at = end; at-- > begin;)
            work->pieces[--first] = (es_piece){t->bpe->bytes[word[at]], 1};
        return first;
    }
    work->pieces[--first] = (es_piece){id < 0 ? t->info.unknown : id, (uint32_t)(end - begin)};
    return first;
}

/* Follows the best path from its end; pieces are put at the end of their memory and then moved. */
static void put_path(es_cutting *work, const unsigned char *word, size_t bytes)
{
    const int32_t unknown = work->tokenizer->info.unknown;
    const es_best_path *paths = work->paths;
    int64_t first = (int64_t)bytes;
    size_t end = bytes;
    while (end > 0) {
        size_t begin = (size_t)paths[end].begin;
        const int32_t id = paths[end].id;
        if (id != unknown) {
            work->pieces[--first] = (es_piece){id, (uint32_t)(end - begin)};
        } else {
            while (begin > 0 && paths[begin].id == unknown)
                begin = (size_t)paths[begin].begin;
            first = put_unknown(work, word, begin, end, first);
        }
        end = begin;
    }
    work->pieces_count = (int64_t)bytes - first;
    memmove(work->pieces, work->pieces + first, (size_t)work->pieces_count * sizeof *work->pieces);
}

es_status es_unigram_cut(es_cutting *work, const unsigned char *word, size_t bytes, es_error *err)
{
    ES_TRY(ES_MEM_GROW(work->budget, work->paths, &work->paths_capacity, (int64_t)bytes + 1,
                       "paths of a word", err));
    ES_TRY(ES_MEM_GROW(work->budget, work->pieces, &work->pieces_capacity, (int64_t)bytes,
                       "pieces of a word", err));
    find_paths(work->tokenizer, work->paths, word, bytes);
    put_path(work, word, bytes);
    return ES_OK;
}

/* ---- tables ---- */

es_status es_unigram_open(es_tokenizer *t, int64_t count, es_error *err)
{
    es_unigram *u;
    ES_TRY(ES_MEM_NEW(t->budget, u, 1, "scores", err));
    u->budget = t->budget;
    u->worst = INFINITY;
    t->bpe->unigram = u;
    ES_TRY(ES_MEM_NEW(t->budget, u->scores, count, "scores", err));
    t->bpe->cuts = false; /* pieces are not made of smaller ones */
    return es_trie_open(&u->pieces, t->budget, err);
}

es_status es_unigram_put(es_tokenizer *t, int64_t id, const char *text, size_t bytes, double score,
                         es_error *err)
{
    es_unigram *u = t->bpe->unigram;
    int32_t before;
    u->scores[id] = score;
    u->worst = score < u->worst ? score : u->worst;
    return es_trie_put(&u->pieces, text, bytes, (int32_t)id, &before, err);
}

void es_unigram_finish(es_tokenizer *t, int64_t unknown)
{
    const double penalty = 10.0;
    t->bpe->unigram->unknown_score = t->bpe->unigram->worst - penalty;
    t->info.unknown = (int32_t)unknown;
}

/* ---- reading ---- */

void es_unigram_close(es_unigram *unigram)
{
    if (!unigram)
        return;
    es_trie_close(&unigram->pieces);
    es_mem_free(unigram->budget, unigram->scores);
    es_mem_free(unigram->budget, unigram);
}

/* Returns the vocabulary of the model. */
static const json_t *vocab_of(const es_settings *s)
{
    return json_object_get(json_object_get(s->root, "model"), "vocab");
}

/* Lists the pieces: ["text", score] each, whose place in the list is the id. */
static es_status read_pieces(const es_settings *s, es_vocab_list *list, es_error *err)
{
    const json_t *vocab = vocab_of(s);
    if (!json_is_array(vocab))
        return es_settings_fail(s, "model.vocab", "a list", err);
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *pair = json_array_get(vocab, i), *text = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || !json_is_string(text) ||
            !json_is_number(json_array_get(pair, 1)))
            return es_settings_fail(s, "model.vocab", "a list of pieces with their scores", err);
        ES_TRY(es_vocab_list_add(list,
                                 (es_vocab_entry){.text = json_string_value(text),
                                                  .bytes = json_string_length(text),
                                                  .id = (int64_t)i},
                                 err));
    }
    if (list->count == 0)
        return es_fail_file(err, ES_E_FORMAT, s->path, -1, "vocab.empty",
                            "expected pieces in model.vocab", "the vocabulary is empty");
    return ES_OK;
}

/* Reads the number of the unknown token. Hugging Face's library accepts a file without one and then
 * fails at the first character that is no piece. */
static es_status read_unknown(const es_settings *s, int64_t count, int64_t *out, es_error *err)
{
    *out = -1;
    ES_TRY(es_settings_int(s, json_object_get(s->root, "model"), "unk_id", out, err));
    if (*out < 0 || *out >= count)
        return es_fail_file(err, ES_E_FORMAT, s->path, -1, "tokenizer.special",
                            "unk_id is the place of the unknown token in model.vocab",
                            "unk_id is missing or outside [0, %lld)", (long long)count);
    return ES_OK;
}

/* Puts the pieces of model.vocab. */
static es_status put_scores(es_tokenizer *t, const void *from, es_error *err)
{
    const es_settings *s = from;
    const json_t *vocab = vocab_of(s);
    const int64_t count = (int64_t)json_array_size(vocab);
    int64_t unknown;
    ES_TRY(read_unknown(s, count, &unknown, err));
    ES_TRY(es_unigram_open(t, count, err));
    for (int64_t id = 0; id < count; id++) {
        const json_t *pair = json_array_get(vocab, (size_t)id), *text = json_array_get(pair, 0);
        ES_TRY(es_unigram_put(t, id, json_string_value(text), json_string_length(text),
                              json_number_value(json_array_get(pair, 1)), err));
    }
    es_unigram_finish(t, unknown);
    return ES_OK;
}

/* Fails for ByteLevel, behind which pieces would be spelt in another alphabet. */
static es_status check_spelling(const es_tokenizer *t, const es_settings *s, es_error *err)
{
    return t->bpe->byte_level
               ? es_settings_refuse(s, "tokenizer.pretokenizer", "a pre-tokenizer", "ByteLevel",
                                    "Unigram is built in with Metaspace and without ByteLevel", err)
               : ES_OK;
}

es_status es_unigram_read(const es_settings *s, es_vocab_list *list, es_tokenizer **out,
                          es_error *err)
{
    static const char *const keys[] = {"type", "unk_id", "byte_fallback", "vocab", NULL};
    ES_TRY(es_settings_only(s, json_object_get(s->root, "model"), keys, err));
    ES_TRY(es_bpe_check_decoder(s, err));
    ES_TRY(read_pieces(s, list, err));
    ES_TRY(es_settings_template(s, &list->rules, err));
    ES_TRY(es_settings_added(s, list, err));
    ES_TRY(es_bpe_build(s, list, put_scores, s, out, err));
    const es_status status = check_spelling(*out, s, err);
    if (status != ES_OK) {
        es_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}
