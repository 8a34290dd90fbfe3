/* SPDX-License-Identifier: Apache-2.0 */
#include "text/text_shuffle.h"

#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "random/experiment.h"
#include "random/random.h"

/* ---- where units begin ---- */

/* Notes where blank lines end. Tokens do not show white space, so that it is found in the bytes. */
static es_status note_byte(es_text_units *u, int64_t at, char byte, es_error *err)
{
    if (byte == '\n' && u->line_blank) {
        ES_TRY(ES_MEM_GROW(u->budget, u->blank, &u->blank_capacity, u->blanks + 1, "blank lines",
                           err));
        u->blank[u->blanks++] = at + 1;
    }
    if (byte == '\n')
        u->line_blank = true;
    else if (byte != ' ' && byte != '\t' && byte != '\r')
        u->line_blank = false;
    return ES_OK;
}

es_status es_text_units_bytes(es_text_units *u, uint64_t at, const char *bytes, size_t size,
                              es_error *err)
{
    if (u->how != ES_SHUFFLE_SENTENCE)
        return ES_OK;
    if (at == 0) { /* another text: its first word begins a sentence */
        u->blanks = u->passed = u->end = 0;
        u->line_blank = true;
        u->begins = true;
    }
    /* what words have passed is of no use any more: a piece's lines are all that is ever kept */
    u->blanks -= u->passed;
    if (u->blanks > 0)
        memmove(u->blank, u->blank + u->passed, (size_t)u->blanks * sizeof *u->blank);
    u->passed = 0;
    for (size_t i = 0; i < size; i++)
        ES_TRY(note_byte(u, (int64_t)(at + i), bytes[i], err));
    return ES_OK;
}

/* Returns whether a text is in a list. */
static bool is_one_of(const char *text, const char *const *list)
{
    for (; text && *list; list++)
        if (strcmp(text, *list) == 0)
            return true;
    return false;
}

/* Returns whether a blank line is between the last word and a byte. */
static bool passes_blank(es_text_units *u, int64_t begin)
{
    const int64_t before = u->passed;
    while (u->passed < u->blanks && u->blank[u->passed] <= begin)
        u->passed++;
    return u->passed > before;
}

/* Notes whether a sentence ends here: at . ! ? and their relatives, closing quotes included,
 * followed by a gap or a blank line. */
static void note_sentence(es_text_units *u, const es_token *tokens, int64_t count)
{
    static const char *const ends[] = {".", "!", "?", "…", "。", "！", "？", NULL};
    static const char *const closes[] = {"\"", "'", ")", "]", "”", "’", "»", NULL};
    const char *word = count == 1 ? es_tokenizer_token(u->tokenizer, tokens[0].id) : NULL;
    const bool gap = tokens[0].begin > u->end;
    if (passes_blank(u, tokens[0].begin) || (u->ended && gap))
        u->begins = true;
    u->ended = is_one_of(word, ends) || (u->ended && !gap && is_one_of(word, closes));
    u->end = tokens[count - 1].end;
}

void es_text_units_word(es_text_units *u, const es_token *tokens, int64_t count)
{
    if (u->how == ES_SHUFFLE_WORD)
        u->begins = true;
    else if (u->how == ES_SHUFFLE_SENTENCE)
        note_sentence(u, tokens, count);
}

es_status es_text_units_token(es_text_units *u, es_error *err)
{
    if (u->begins) {
        ES_TRY(
            ES_MEM_GROW(u->budget, u->start, &u->capacity, u->count + 1, "words of a text", err));
        u->start[u->count++] = u->kept;
    }
    u->begins = false;
    u->kept++;
    return ES_OK;
}

void es_text_units_free(es_text_units *u)
{
    es_mem_free(u->budget, u->start);
    es_mem_free(u->budget, u->blank);
}

/* ---- another order ---- */

/* Copies the tokens of blocks between their special tokens, in order, to or from a list. */
static void move_inner(const es_text_units *u, es_blocks *b, int32_t *list, bool out)
{
    const es_tokenizer_info info = es_tokenizer_frame(u->tokenizer);
    for (int64_t i = 0; i < b->count; i++) {
        int32_t *inner = b->ids + b->start[i] + info.prefix_count;
        const int64_t count = b->start[i + 1] - b->start[i] - info.prefix_count - info.suffix_count;
        memcpy(out ? list : inner, out ? inner : list, (size_t)count * sizeof *list);
        list += count;
    }
}

/* Permutes words or sentences across all blocks. Special tokens keep their places. */
static es_status shuffle_units(const es_text_units *u, const es_permutation *order, es_blocks *b,
                               es_error *err)
{
    int32_t *from, *to;
    ES_TRY(ES_MEM_NEW_2D(b->budget, from, u->kept, 2, "token ids", err));
    to = from + u->kept;
    move_inner(u, b, from, true);
    for (int64_t i = 0; i < u->count; i++) {
        const int64_t unit = es_permutation_at(order, i);
        const int64_t end = unit + 1 < u->count ? u->start[unit + 1] : u->kept;
        memcpy(to, from + u->start[unit], (size_t)(end - u->start[unit]) * sizeof *to);
        to += end - u->start[unit];
    }
    move_inner(u, b, from + u->kept, false);
    es_mem_free(b->budget, from);
    return ES_OK;
}

/* Permutes whole blocks. */
static es_status shuffle_blocks(const es_permutation *order, es_blocks *b, es_error *err)
{
    int32_t *ids;
    int64_t *start;
    ES_TRY(ES_MEM_NEW(b->budget, ids, b->start[b->count], "token ids", err));
    const es_status status = ES_MEM_NEW(b->budget, start, b->count + 1, "blocks", err);
    if (status != ES_OK) {
        es_mem_free(b->budget, ids);
        return status;
    }
    for (int64_t i = 0; i < b->count; i++) {
        const int64_t block = es_permutation_at(order, i);
        const int64_t size = b->start[block + 1] - b->start[block];
        memcpy(ids + start[i], b->ids + b->start[block], (size_t)size * sizeof *ids);
        start[i + 1] = start[i] + size;
    }
    es_mem_free(b->budget, b->ids);
    es_mem_free(b->budget, b->start);
    b->ids = ids;
    b->start = start;
    return ES_OK;
}

es_status es_text_units_shuffle(const es_text_units *u, uint64_t seed, es_blocks *blocks,
                                es_error *err)
{
    const es_address at = {
        .seed = seed, .experiment = ES_EXPERIMENT_SHUFFLE, .cell = (uint64_t)u->how};
    const bool whole = u->how == ES_SHUFFLE_BLOCK;
    es_permutation order;
    ES_TRY(es_permutation_init(&at, whole ? blocks->count : u->count, &order, err));
    return whole ? shuffle_blocks(&order, blocks, err) : shuffle_units(u, &order, blocks, err);
}
