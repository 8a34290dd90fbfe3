/* wordpiece.c : the strings of a vocabulary as a trie, and a word cut into them. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/tokenizer_inside.h"

es_status es_word_open(es_word *word, const es_tokenizer *tokenizer, es_budget *budget,
                       es_error *err)
{
    const int64_t chars = tokenizer->info.max_chars;
    *word = (es_word){.tokenizer = tokenizer, .budget = budget};
    ES_TRY(es_mem_array(budget, chars, ES_UTF8_MOST, 1, "word", (void **)&word->bytes, err));
    ES_TRY(es_mem_array(budget, chars, ES_UTF8_MOST, sizeof *word->begin, "word",
                        (void **)&word->begin, err));
    ES_TRY(es_mem_array(budget, chars, ES_UTF8_MOST, sizeof *word->end, "word", (void **)&word->end,
                        err));
    return es_mem_array(budget, chars, 1, sizeof *word->pieces, "word", (void **)&word->pieces,
                        err);
}

void es_word_close(es_word *word)
{
    es_mem_free(word->budget, word->bytes);
    es_mem_free(word->budget, word->begin);
    es_mem_free(word->budget, word->end);
    es_mem_free(word->budget, word->pieces);
    *word = (es_word){0};
}

void es_word_put(es_word *word, int32_t c, int64_t begin, int64_t end)
{
    if (word->chars == 0)
        word->from = begin;
    word->to = end;
    if (word->chars++ >= word->tokenizer->info.max_chars)
        return; /* it is unknown already; only its end is of interest */
    const size_t length = es_utf8_put(c, word->bytes + word->used);
    for (size_t i = word->used; i < word->used + length; i++)
        word->begin[i] = begin, word->end[i] = end;
    word->used += length;
}

/* As many pieces as there are, or -1 if at some place none fits. */
static int64_t cut_greedily(es_word *word)
{
    const es_tokenizer *t = word->tokenizer;
    int64_t count = 0;
    uint32_t node = ES_TRIE_ROOT;
    for (size_t at = 0; at < word->used; node = t->continuing) {
        int32_t id = 0;
        const size_t length =
            es_trie_longest(&t->pieces, node, word->bytes + at, word->used - at, &id);
        if (length == 0)
            return -1;
        word->pieces[count++] = (es_token){id, word->begin[at], word->end[at + length - 1]};
        at += length;
    }
    return count;
}

int64_t es_word_cut(es_word *word)
{
    if (word->chars == 0)
        return 0;
    int64_t count = word->chars > word->tokenizer->info.max_chars ? -1 : cut_greedily(word);
    if (count < 0) {
        word->pieces[0] = (es_token){word->tokenizer->info.unknown, word->from, word->to};
        count = 1;
    }
    word->used = 0;
    word->chars = 0;
    return count;
}

enum { FIRST_SLOTS = 1024, MOST_NODES = 1 << 27 };

es_status es_trie_open(es_trie *trie, es_budget *budget, es_error *err)
{
    *trie = (es_trie){
        .slots = FIRST_SLOTS, .nodes = ES_TRIE_ROOT + 1, .room = FIRST_SLOTS / 2, .budget = budget};
    ES_TRY(es_mem_new(budget, FIRST_SLOTS * sizeof(uint64_t), "trie", (void **)&trie->edges, err));
    ES_TRY(es_mem_new(budget, trie->room * sizeof(int32_t), "trie", (void **)&trie->ids, err));
    memset(trie->ids, 0xff, trie->room * sizeof(int32_t));
    return ES_OK;
}

void es_trie_close(es_trie *trie)
{
    es_mem_free(trie->budget, trie->edges);
    es_mem_free(trie->budget, trie->ids);
    *trie = (es_trie){0};
}

static void add_edge(es_trie *trie, uint64_t edge)
{
    uint64_t slot = ((edge >> 28) * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    while (trie->edges[slot & (trie->slots - 1)])
        slot++;
    trie->edges[slot & (trie->slots - 1)] = edge;
}

/* Twice the room; at most half of the slots are ever used. */
static es_status grow(es_trie *trie, es_error *err)
{
    if (trie->nodes >= MOST_NODES)
        return es_fail(err, ES_E_LIMIT, "tokenizer.size", "use a smaller vocabulary",
                       "the vocabulary has more than %d distinct prefixes", MOST_NODES);
    es_trie next = {.slots = trie->slots * 2,
                    .nodes = trie->nodes,
                    .room = trie->slots,
                    .budget = trie->budget};
    ES_TRY(es_mem_array(trie->budget, next.slots, 1, sizeof(uint64_t), "trie", (void **)&next.edges,
                        err));
    const es_status status =
        es_mem_array(trie->budget, next.room, 1, sizeof(int32_t), "trie", (void **)&next.ids, err);
    if (status != ES_OK) {
        es_trie_close(&next);
        return status;
    }
    memset(next.ids, 0xff, next.room * sizeof(int32_t));
    memcpy(next.ids, trie->ids, trie->nodes * sizeof(int32_t));
    for (uint32_t i = 0; i < trie->slots; i++)
        if (trie->edges[i])
            add_edge(&next, trie->edges[i]);
    es_trie_close(trie);
    *trie = next;
    return ES_OK;
}

es_status es_trie_put(es_trie *trie, const char *text, size_t bytes, int32_t id, int32_t *before,
                      es_error *err)
{
    uint32_t node = ES_TRIE_ROOT;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)text[i];
        uint32_t next = es_trie_step(trie, node, byte);
        if (next == ES_TRIE_NOWHERE) {
            if (trie->nodes == trie->room)
                ES_TRY(grow(trie, err));
            next = trie->nodes++;
            add_edge(trie, ((uint64_t)node << 8 | byte) << 28 | next);
        }
        node = next;
    }
    *before = trie->ids[node];
    trie->ids[node] = id;
    return ES_OK;
}

uint32_t es_trie_walk(const es_trie *trie, uint32_t node, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && node != ES_TRIE_NOWHERE; i++)
        node = es_trie_step(trie, node, (unsigned char)text[i]);
    return node;
}

size_t es_trie_longest(const es_trie *trie, uint32_t node, const unsigned char *text, size_t bytes,
                       int32_t *id)
{
    size_t longest = 0;
    for (size_t i = 0; i < bytes && node != ES_TRIE_NOWHERE;) {
        node = es_trie_step(trie, node, text[i++]);
        if (node != ES_TRIE_NOWHERE && trie->ids[node] >= 0) {
            longest = i;
            *id = trie->ids[node];
        }
    }
    return longest;
}
