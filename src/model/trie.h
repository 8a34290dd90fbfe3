/* trie.h : a set of strings with ids, and the longest of them that a text begins with.
 *
 * Edges live in one hash table keyed by (node, byte), so that a step is one probe or two whatever
 * the alphabet, and memory is a few words per distinct prefix: 2 MB for BERT's 30522 tokens.
 */
#ifndef ES_MODEL_TRIE_H
#define ES_MODEL_TRIE_H

#include <stdint.h>

#include <esscher/exec.h>

typedef struct es_trie {
    uint64_t *edges; /* node(28) byte(8) child(28); 0: empty */
    int32_t *ids;    /* (nodes) of the string that ends here, or -1 */
    uint32_t slots, nodes, room;
    es_budget *budget;
} es_trie;

enum { ES_TRIE_ROOT = 1, ES_TRIE_NOWHERE = 0 };

/*! es_trie_open() : an empty trie. Fine to close after a failure. */
es_status es_trie_open(es_trie *trie, es_budget *budget, es_error *err);
void es_trie_close(es_trie *trie);

/*! es_trie_put() : give a string an id; the one it had, or -1, goes to *before. O(bytes).
 *  @return : ES_OK; ES_E_LIMIT over 2^27 distinct prefixes, or the budget; ES_E_MEMORY. */
es_status es_trie_put(es_trie *trie, const char *text, size_t bytes, int32_t id, int32_t *before,
                      es_error *err);

/*! es_trie_step() : the node that a byte leads to, or ES_TRIE_NOWHERE. */
static inline uint32_t es_trie_step(const es_trie *trie, uint32_t node, unsigned char byte)
{
    const uint64_t key = (uint64_t)node << 8 | byte;
    uint64_t slot = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    for (;; slot++) {
        const uint64_t edge = trie->edges[slot & (trie->slots - 1)];
        if (edge >> 28 == key)
            return (uint32_t)(edge & 0xfffffff);
        if (edge == 0)
            return ES_TRIE_NOWHERE;
    }
}

/*! es_trie_walk() : the node that a string leads to from `node`, or ES_TRIE_NOWHERE. */
uint32_t es_trie_walk(const es_trie *trie, uint32_t node, const char *text, size_t bytes);

/*! es_trie_longest() : the longest string, not empty, that the text begins with, going on from
 *  `node`; its length, or 0 if there is none. O(length of the walk). */
size_t es_trie_longest(const es_trie *trie, uint32_t node, const unsigned char *text, size_t bytes,
                       int32_t *id);

#endif
