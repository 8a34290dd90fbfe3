/* SPDX-License-Identifier: Apache-2.0 */
#include "text/bpe.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "text/unigram.h"

/* ---- tables ---- */

es_status es_pair_table_open(es_pair_table *table, int64_t count, es_mem_limit *budget,
                             es_error *err)
{
    table->slots = 16;
    while (table->slots < 2 * (uint64_t)count)
        table->slots *= 2;
    ES_TRY(ES_MEM_NEW(budget, table->keys, (int64_t)table->slots, "merges", err));
    memset(table->keys, 0xff, (size_t)table->slots * sizeof *table->keys);
    return ES_MEM_NEW(budget, table->values, (int64_t)table->slots, "merges", err);
}

void es_pair_table_close(es_pair_table *table, es_mem_limit *budget)
{
    es_mem_free(budget, table->keys);
    es_mem_free(budget, table->values);
    *table = (es_pair_table){0};
}

/* A key twice keeps the later value, as in other readers. */
void es_pair_table_put(es_pair_table *table, uint64_t key, uint64_t value)
{
    uint64_t slot = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 24;
    while (table->keys[slot & (table->slots - 1)] != UINT64_MAX &&
           table->keys[slot & (table->slots - 1)] != key)
        slot++;
    table->keys[slot & (table->slots - 1)] = key;
    table->values[slot & (table->slots - 1)] = value;
}

/* GPT-2's alphabet: white space, control characters, U+00AD and U+007F to U+00A0 cannot be seen,
 * and get letters in their order. */
int32_t es_byte_letter(unsigned char byte)
{
    const int b = byte;
    if ((b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad))
        return b;
    return 0x100 + (b <= ' ' ? b : b <= 0xa0 ? b - 0x7f + 33 : 67);
}

unsigned char es_letter_byte(int32_t letter)
{
    const int32_t k = letter - 0x100;
    return (unsigned char)(k < 0 ? letter : k <= ' ' ? k : k < 67 ? k - 33 + 0x7f : 0xad);
}

/* ---- pairs that wait, the first of the list on top ---- */

/* Puts `value` at the top of the heap and moves it down to its place. */
static void sift_down(uint64_t *heap, int64_t count, uint64_t value)
{
    int64_t at = 0;
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child + 1] < heap[child];
        if (heap[child] >= value)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
}

/* Removes and returns the smallest entry of the queue: the merge of lowest rank, and of equal
 * ranks the leftmost. */
static uint64_t pop(es_cutting *work)
{
    const uint64_t top = work->queue[0];
    work->queue_count--;
    if (work->queue_count)
        sift_down(work->queue, work->queue_count, work->queue[work->queue_count]);
    return top;
}

/* Adds an entry to the queue. The memory suffices: a word of n symbols has n - 1 pairs, and a
 * merge replaces one pair by at most two. */
static void push(es_cutting *work, uint64_t value)
{
    int64_t at = work->queue_count++;
    for (; at > 0 && work->queue[(at - 1) / 2] > value; at = (at - 1) / 2)
        work->queue[at] = work->queue[(at - 1) / 2];
    work->queue[at] = value;
}

/* ---- merging ---- */

/* Returns the rank and result of merging two pieces that have scores, UINT64_MAX if their texts
 * together are no piece. */
static uint64_t find_scored(const es_tokenizer *t, int32_t left, int32_t right)
{
    const uint32_t *ranks = t->bpe->ranks;
    if (left < 0 || right < 0 || ranks[left] == UINT32_MAX || ranks[right] == UINT32_MAX)
        return UINT64_MAX;
    const int32_t both = es_tokenizer_joined(t, left, right);
    return both < 0 || ranks[both] == UINT32_MAX ? UINT64_MAX
                                                 : (uint64_t)ranks[both] << 32 | (uint32_t)both;
}

/* Returns rank and result of merging symbol `left` with the next one, UINT64_MAX if there is no
 * such merge. Tokenizers with scores have no list of merges: there the rank follows from the
 * score of the joined text. */
static uint64_t find_merge(const es_cutting *work, int32_t left)
{
    const es_tokenizer *t = work->tokenizer;
    const es_symbol *a = &work->symbols[left];
    if (a->after < 0)
        return UINT64_MAX;
    const int32_t right = work->symbols[a->after].id;
    return t->bpe->ranks ? find_scored(t, a->id, right)
                         : es_pair_table_find(&t->bpe->merges, es_token_pair(a->id, right));
}

/* Queues the pair that begins at symbol `left`, if it can be merged. An entry is rank and
 * position, so that the leftmost of equal ranks comes first. */
static void push_pair(es_cutting *work, int32_t left)
{
    const uint64_t merge = left < 0 ? UINT64_MAX : find_merge(work, left);
    if (merge != UINT64_MAX)
        push(work, (merge & ~(uint64_t)UINT32_MAX) | (uint32_t)left);
}

/* Returns whether a queued pair still exists: merging one of its sides changes the rank at its
 * place. If another pair of equal rank took the place, it is queued as well and may be merged
 * now. */
static void merge_all(es_cutting *work)
{
    es_symbol *s = work->symbols;
    for (int32_t i = 0; i + 1 < work->symbols_count; i++)
        push_pair(work, i);
    while (work->queue_count) {
        const uint64_t top = pop(work);
        const int32_t left = (int32_t)(uint32_t)top;
        const uint64_t merge = s[left].bytes ? find_merge(work, left) : UINT64_MAX;
        if (merge == UINT64_MAX || merge >> 32 != top >> 32)
            continue;
        const int32_t right = s[left].after;
        s[left].id = (int32_t)(uint32_t)merge;
        s[left].bytes += s[right].bytes;
        s[left].after = s[right].after;
        s[right].bytes = 0;
        if (s[left].after >= 0)
            s[s[left].after].before = left;
        push_pair(work, s[left].before);
        push_pair(work, left);
    }
}

/* ---- the symbols a word begins as ---- */

/* Appends a symbol to the word. */
static void add_symbol(es_cutting *work, int32_t id, size_t bytes)
{
    const int32_t at = (int32_t)work->symbols_count++;
    work->symbols[at] = (es_symbol){id, (uint32_t)bytes, at - 1, at + 1};
}

/* Appends the unknown token for `bytes` bytes. Without one, the bytes go to the previous symbol,
 * or at the beginning of the word to one of id -1, so that positions stay right. Several unknown
 * tokens in a row may become one. */
static void add_unknown(es_cutting *work, size_t bytes)
{
    const int32_t unknown = work->tokenizer->info.unknown;
    es_symbol *last = work->symbols_count ? &work->symbols[work->symbols_count - 1] : NULL;
    if (last && (unknown < 0 || (work->tokenizer->bpe->fuse_unk && last->id == unknown)))
        last->bytes += (uint32_t)bytes;
    else
        add_symbol(work, unknown, bytes);
}

/* Appends one symbol per byte. */
static void add_bytes(es_cutting *work, const unsigned char *p, size_t bytes)
{
    const int32_t *ids = work->tokenizer->bpe->bytes;
    for (size_t i = 0; i < bytes; i++)
        ids[p[i]] >= 0 ? add_symbol(work, ids[p[i]], 1) : add_unknown(work, 1);
}

bool es_cutting_spells(const es_bpe *bpe, const unsigned char *p, size_t bytes)
{
    bool all = bpe->byte_fallback;
    for (size_t i = 0; i < bytes; i++)
        all = all && bpe->bytes[p[i]] >= 0;
    return all;
}

/* Splits a word into one symbol per character. A character outside the vocabulary becomes byte
 * tokens if the vocabulary has them, else the unknown token. */
static void add_characters(es_cutting *work, const unsigned char *p, size_t bytes)
{
    const es_tokenizer *t = work->tokenizer;
    for (size_t at = 0; at < bytes;) {
        int32_t c, id;
        const size_t length = es_utf8_next(p + at, bytes - at, &c);
        id = length == 1 ? t->bpe->ascii[p[at] & 0x7f]
                         : es_tokenizer_id(t, (const char *)p + at, length);
        if (id >= 0)
            add_symbol(work, id, length);
        else if (es_cutting_spells(t->bpe, p + at, length))
            add_bytes(work, p + at, length);
        else
            add_unknown(work, length);
        at += length;
    }
}

/* ---- words that were seen before ---- */

enum { CACHE_SLOTS = 16384, CACHE_BYTES = 24, CACHE_PIECES = 6, WORDS_BEFORE_CACHE = 256 };

/* A word takes the slot of its hash from whichever was there: what is kept is bounded, and words
 * that are frequent come back at once. */
typedef struct cached_word {
    unsigned char word[CACHE_BYTES];
    unsigned char bytes, count, lengths[CACHE_PIECES];
    int32_t ids[CACHE_PIECES];
} cached_word;

typedef struct es_word_cache {
    cached_word slots[CACHE_SLOTS];
} es_word_cache;

/* Returns the cache slot of a word, NULL if the word is too long to be cached. Each word has
 * exactly one slot (FNV-1a hash), so that looking up costs one comparison. */
static cached_word *find_slot(es_cutting *work, const unsigned char *word, size_t bytes)
{
    uint64_t hash = bytes;
    if (!work->cache || bytes > CACHE_BYTES)
        return NULL;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ word[i]) * UINT64_C(0x100000001b3);
    return &work->cache->slots[(hash ^ hash >> 29) & (CACHE_SLOTS - 1)];
}

/* Stores the tokens of a word in its slot, replacing what was there. Words of many tokens are
 * not worth the memory. */
static void remember(const es_cutting *work, cached_word *slot, const unsigned char *word,
                     size_t bytes)
{
    if (!slot || work->pieces_count > CACHE_PIECES)
        return;
    memcpy(slot->word, word, bytes);
    slot->bytes = (unsigned char)bytes;
    slot->count = (unsigned char)work->pieces_count;
    for (int i = 0; i < work->pieces_count; i++) {
        slot->ids[i] = work->pieces[i].id;
        slot->lengths[i] = (unsigned char)work->pieces[i].bytes;
    }
}

/* Takes the tokens of a word from its slot; returns false if the slot holds another word. */
static bool recall(es_cutting *work, const cached_word *slot, const unsigned char *word,
                   size_t bytes)
{
    if (!slot || slot->bytes != bytes || memcmp(slot->word, word, bytes) != 0)
        return false;
    work->pieces_count = slot->count;
    for (int i = 0; i < slot->count; i++)
        work->pieces[i] = (es_piece){slot->ids[i], slot->lengths[i]};
    return true;
}

/* ---- a word ---- */

/* Looks up a whole word, in the spelling of the vocabulary; *id is -1 if it has none. */
static es_status find_word(es_cutting *work, const unsigned char *word, size_t bytes, int32_t *id,
                           es_error *err)
{
    const es_tokenizer *t = work->tokenizer;
    size_t used = 0;
    *id = -1;
    if (!t->bpe->ignore_merges || bytes > t->names.longest)
        return ES_OK;
    ES_TRY(ES_MEM_GROW(work->budget, work->spelt, &work->spelt_capacity,
                       ES_UTF8_MOST * (int64_t)bytes, "letters of a word", err));
    for (size_t i = 0; i < bytes; i++)
        if (t->bpe->byte_level)
            used += es_utf8_put(es_byte_letter(word[i]), work->spelt + used);
        else
            work->spelt[used++] = word[i];
    *id = es_tokenizer_id(t, (const char *)work->spelt, used);
    return ES_OK;
}

/* Splits one word into tokens: by Unigram, if the tokenizer has it; else the word itself if the
 * vocabulary has it whole, else all merges in the order of their rank. The queue may hold every
 * pair twice, hence its size. */
static es_status cut_word(es_cutting *work, const unsigned char *word, size_t bytes, es_error *err)
{
    const es_bpe *bpe = work->tokenizer->bpe;
    int32_t whole;
    if (bpe->unigram)
        return es_unigram_cut(work, word, bytes, err);
    ES_TRY(find_word(work, word, bytes, &whole, err));
    if (whole >= 0) {
        work->pieces[0] = (es_piece){whole, (uint32_t)bytes};
        work->pieces_count = 1;
        return ES_OK;
    }
    ES_TRY(ES_MEM_GROW(work->budget, work->symbols, &work->symbols_capacity, (int64_t)bytes,
                       "symbols of a word", err));
    ES_TRY(ES_MEM_GROW(work->budget, work->queue, &work->queue_capacity, 2 * (int64_t)bytes,
                       "pairs of a word", err));
    work->symbols_count = work->queue_count = 0;
    bpe->byte_level ? add_bytes(work, word, bytes) : add_characters(work, word, bytes);
    work->symbols[work->symbols_count - 1].after = -1;
    merge_all(work);
    ES_TRY(ES_MEM_GROW(work->budget, work->pieces, &work->pieces_capacity, work->symbols_count,
                       "pieces of a word", err));
    work->pieces_count = 0;
    for (int32_t i = 0; i >= 0; i = work->symbols[i].after)
        work->pieces[work->pieces_count++] =
            (es_piece){work->symbols[i].id, work->symbols[i].bytes};
    return ES_OK;
}

es_status es_cutting_run(es_cutting *work, const unsigned char *word, size_t bytes, es_error *err)
{
    if (bytes > INT32_MAX)
        return es_fail(err, ES_E_LIMIT, "text.word", "divide the text into lines",
                       "a word of %zu bytes is too long", bytes);
    ES_TRY(ES_MEM_GROW(work->budget, work->pieces, &work->pieces_capacity, CACHE_PIECES,
                       "pieces of a word", err));
    if (!work->cache && ++work->words > WORDS_BEFORE_CACHE) /* not for a text of a few words */
        ES_TRY(ES_MEM_NEW(work->budget, work->cache, 1, "words", err));
    cached_word *slot = find_slot(work, word, bytes);
    if (recall(work, slot, word, bytes))
        return ES_OK;
    ES_TRY(cut_word(work, word, bytes, err));
    remember(work, slot, word, bytes);
    return ES_OK;
}

void es_cutting_free(es_cutting *work)
{
    es_mem_free(work->budget, work->spelt);
    es_mem_free(work->budget, work->symbols);
    es_mem_free(work->budget, work->queue);
    es_mem_free(work->budget, work->pieces);
    es_mem_free(work->budget, work->paths);
    es_mem_free(work->budget, work->cache);
    *work = (es_cutting){0};
}
