/* SPDX-License-Identifier: Apache-2.0 */
/* text_facts.c : how much text there is in what was read: unknown tokens, and stretches that stood
 * before. */
#include "text/blocks.h"

#include "base/error.h"
#include "base/memory.h"

/* Distinct stretches are counted in a set of their hashes. When it holds more than MOST, it
 * forgets every hash whose next low bit is 1 and accepts none such later. It then holds one in
 * 2^bits of all stretches, chosen by content: copies are chosen together, and how often a
 * stretch occurs does not matter. */
enum { MOST = 65536 };

typedef struct sketch {
    uint64_t *slots;  /* (capacity) hashes; 0: free */
    uint64_t *spare;  /* (capacity / 2 + 1) */
    int64_t capacity; /* a power of two, at least twice of what it is to hold */
    int64_t held;
    int bits;
} sketch;

/* Mixes the bits of a 64-bit number (the finalizer of SplitMix64). */
static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Returns whether a hash belongs to the sample: its lowest bits are 0. */
static bool is_chosen(const sketch *s, uint64_t hash)
{
    return (hash & ((UINT64_C(1) << s->bits) - 1)) == 0;
}

/* Returns the slot of a hash, or the empty one where it would be. The upper half of the hash
 * decides, because the lower bits of the sample are alike. */
static int64_t slot_of(const sketch *s, uint64_t hash)
{
    int64_t at = (int64_t)(hash >> 32) & (s->capacity - 1);
    while (s->slots[at] && s->slots[at] != hash)
        at = (at + 1) & (s->capacity - 1);
    return at;
}

/* Halves the sample. Hashes that stay are put into an empty table: removing single ones would
 * break the chains of open addressing. */
static void forget_half(sketch *s)
{
    int64_t kept = 0;
    s->bits++;
    for (int64_t i = 0; i < s->capacity; i++) {
        if (s->slots[i] && is_chosen(s, s->slots[i]))
            s->spare[kept++] = s->slots[i];
        s->slots[i] = 0;
    }
    s->held = kept;
    for (int64_t i = 0; i < kept; i++)
        s->slots[slot_of(s, s->spare[i])] = s->spare[i];
}

/* Adds a hash to the sketch of distinct stretches. When the sketch is full it keeps only half
 * of all possible hashes, chosen by their bits, so that counts scale. */
static void remember(sketch *s, uint64_t hash)
{
    hash |= (uint64_t)!hash << 63; /* 0 is a free slot */
    if (!is_chosen(s, hash))
        return;
    const int64_t at = slot_of(s, hash);
    s->held += s->slots[at] == 0;
    s->slots[at] = hash;
    if (s->held > MOST)
        forget_half(s);
}

/* The last ids, and a polynomial of them that one id more changes by one product. */
typedef struct stretch {
    uint64_t last[ES_TEXT_STRETCH], sum, oldest; /* oldest: what the first is multiplied by */
    int64_t seen;
} stretch;

#define FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* Appends an id to the stretch of text and updates its rolling hash. */
static void push(stretch *w, int32_t id)
{
    const uint64_t code = scramble((uint64_t)(uint32_t)id + FACTOR);
    uint64_t *place = &w->last[w->seen++ % ES_TEXT_STRETCH];
    w->sum = (w->sum - *place * w->oldest) * FACTOR + code;
    *place = code;
}

/* Counts unknown tokens and hashes every stretch of ES_TEXT_STRETCH tokens with a rolling hash. */
static void count(const es_blocks *b, const es_tokenizer_info *info, sketch *s, es_text_facts *out)
{
    stretch w = {.oldest = 1};
    for (int i = 1; i < ES_TEXT_STRETCH; i++)
        w.oldest *= FACTOR;
    for (int64_t block = 0; block < b->count; block++) {
        const int64_t end = b->start[block + 1] - info->suffix_count;
        for (int64_t i = b->start[block] + info->prefix_count; i < end; i++) {
            push(&w, b->ids[i]);
            out->unknown += b->ids[i] == info->unknown;
            if (w.seen >= ES_TEXT_STRETCH)
                remember(s, scramble(w.sum));
        }
    }
    out->tokens = w.seen;
}

es_status es_blocks_facts(const es_blocks *blocks, const es_tokenizer *tokenizer,
                          es_text_facts *out, es_error *err)
{
    const es_tokenizer_info info = es_tokenizer_frame(tokenizer);
    sketch s = {.capacity = 64};
    *out = (es_text_facts){0};
    while (s.capacity < 2 * MOST && s.capacity < 2 * blocks->start[blocks->count])
        s.capacity *= 2;
    ES_TRY(ES_MEM_NEW(blocks->budget, s.slots, s.capacity + s.capacity / 2 + 1, "stretches of text",
                      err));
    s.spare = s.slots + s.capacity;
    count(blocks, &info, &s, out);
    es_mem_free(blocks->budget, s.slots);
    const double stretches = (double)(out->tokens - ES_TEXT_STRETCH + 1);
    const double different = (double)s.held * (double)(UINT64_C(1) << s.bits);
    if (stretches > 0.0 && different < stretches) /* an estimate may be above what there is */
        out->repeated = 1.0 - different / stretches;
    return ES_OK;
}
