/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c : the memory limit, blocks charged to it, arenas made of blocks. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

es_status es_mem_limit_charge(es_mem_limit *budget, size_t size, const char *what, es_error *err)
{
    if (!budget)
        return ES_OK;
    size_t used = __atomic_load_n(&budget->used, __ATOMIC_RELAXED), wanted;
    char text[3][ES_FORMAT_SIZE];
    do {
        if (!es_add_size(used, size, &wanted) || (budget->limit && wanted > budget->limit))
            return es_fail(
                err, ES_E_LIMIT, "memory.limit", "raise --max-memory, or ask for less at a time",
                "%s needs %s on top of %s in use; the limit is %s", what,
                es_format_bytes((double)size, text[0]), es_format_bytes((double)used, text[1]),
                es_format_bytes((double)budget->limit, text[2]));
    } while (!__atomic_compare_exchange_n(&budget->used, &used, wanted, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));

    size_t peak = __atomic_load_n(&budget->peak, __ATOMIC_RELAXED);
    while (peak < wanted && !__atomic_compare_exchange_n(&budget->peak, &peak, wanted, true,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return ES_OK;
}

void es_mem_limit_release(es_mem_limit *budget, size_t size)
{
    if (budget)
        __atomic_fetch_sub(&budget->used, size, __ATOMIC_RELAXED);
}

/* Stores `memory` in the pointer at `out`, whatever its type. memcpy() instead of an assignment
 * through void **, because a double * may not be written as a void *. */
static void set_pointer(void *out, void *memory) { memcpy(out, &memory, sizeof memory); }

/* Stores the size of a block in the cache line before it, so that es_mem_free() can release it. */
es_status es_mem_new(es_mem_limit *budget, size_t size, const char *what, void *out, es_error *err)
{
    size_t total;
    set_pointer(out, NULL);
    if (!es_add_size(size, 2 * ES_ALIGN - 1, &total))
        return es_fail(err, ES_E_OVERFLOW, "memory.size", "ask for less", "%s: %zu bytes overflow",
                       what, size);
    total -= total % ES_ALIGN;
    ES_TRY(es_mem_limit_charge(budget, total, what, err));
    char *block = aligned_alloc(ES_ALIGN, total);
    if (!block) {
        char text[ES_FORMAT_SIZE];
        es_mem_limit_release(budget, total);
        return es_fail(err, ES_E_MEMORY, "memory.system", "close other programs or ask for less",
                       "the system refused %s for %s", es_format_bytes((double)total, text), what);
    }
    memset(block, 0, total);
    memcpy(block, &total, sizeof total);
    set_pointer(out, block + ES_ALIGN);
    return ES_OK;
}

es_status es_mem_array(es_mem_limit *budget, int64_t rows, int64_t cols, size_t element,
                       const char *what, void *out, es_error *err)
{
    size_t size;
    set_pointer(out, NULL);
    if (!es_size_of_array(rows, cols, 1, element, &size))
        return es_fail(err, ES_E_OVERFLOW, "memory.size", "ask for less",
                       "%s: %lld x %lld elements of %zu bytes overflow", what, (long long)rows,
                       (long long)cols, element);
    return es_mem_new(budget, size, what, out, err);
}

es_status es_mem_text(es_mem_limit *budget, const char *text, const char *what, char **out,
                      es_error *err)
{
    const size_t size = strlen(text) + 1;
    ES_TRY(es_mem_new(budget, size, what, out, err));
    memcpy(*out, text, size);
    return ES_OK;
}

es_status es_mem_grow(es_mem_limit *budget, void *array, int64_t *capacity, int64_t needed,
                      size_t element, const char *what, es_error *err)
{
    int64_t larger = *capacity ? *capacity : 128;
    void *memory, *old;
    if (needed <= *capacity)
        return ES_OK;
    while (larger < needed)
        larger = larger <= INT64_MAX / 2 ? 2 * larger : needed;
    ES_TRY(es_mem_array(budget, larger, 1, element, what, &memory, err));
    memcpy(&old, array, sizeof old);
    if (*capacity)
        memcpy(memory, old, (size_t)*capacity * element);
    es_mem_free(budget, old);
    set_pointer(array, memory);
    *capacity = larger;
    return ES_OK;
}

void es_mem_free(es_mem_limit *budget, void *memory)
{
    if (!memory)
        return;
    char *block = (char *)memory - ES_ALIGN;
    size_t total;
    memcpy(&total, block, sizeof total);
    es_mem_limit_release(budget, total);
    free(block);
}

/* ---- arenas ---- */

/* Small allocations share chunks, whose size doubles from the first to the largest; a larger
 * allocation gets its own chunk. An arena for a few numbers therefore stays small. */
enum { FIRST_CHUNK = 1024, LARGEST_CHUNK = 16384 };

/* A piece of memory of an arena; allocations follow its header. */
typedef struct es_arena_chunk {
    struct es_arena_chunk *next;
    size_t size; /* bytes behind the header */
} es_arena_chunk;

enum { HEADER = ES_ALIGN };
_Static_assert(sizeof(es_arena_chunk) <= HEADER, "memory after the header is aligned");

es_status es_arena_array(es_arena *arena, int64_t rows, int64_t cols, size_t element,
                         const char *what, void *out, es_error *err)
{
    size_t size;
    set_pointer(out, NULL);
    if (!es_size_of_array(rows, cols, 1, element, &size) || size > SIZE_MAX / 2)
        return es_fail(err, ES_E_OVERFLOW, "memory.size", "ask for less",
                       "the size of %s does not fit any machine", what);
    size = (size + ES_ALIGN - 1) / ES_ALIGN * ES_ALIGN;
    if (!arena->chunks || size > arena->left) {
        es_arena_chunk *chunk;
        const size_t twice = arena->chunks ? 2 * arena->chunks->size : FIRST_CHUNK;
        const size_t next = twice < LARGEST_CHUNK ? twice : LARGEST_CHUNK;
        const size_t capacity = size > next ? size : next;
        ES_TRY(es_mem_new(arena->budget, HEADER + capacity, what, &chunk, err));
        *chunk = (es_arena_chunk){.next = arena->chunks, .size = capacity};
        arena->chunks = chunk;
        arena->left = capacity;
    }
    set_pointer(out, (char *)arena->chunks + HEADER + (arena->chunks->size - arena->left));
    arena->left -= size;
    return ES_OK;
}

char *es_arena_text(es_arena *arena, const char *text)
{
    char *copy;
    const size_t size = strlen(text) + 1;
    if (ES_ARENA_NEW(arena, copy, (int64_t)size, "a text", NULL) != ES_OK)
        return NULL;
    return memcpy(copy, text, size);
}

void es_arena_free(es_arena *arena)
{
    while (arena->chunks) {
        es_arena_chunk *next = arena->chunks->next;
        es_mem_free(arena->budget, arena->chunks);
        arena->chunks = next;
    }
    arena->left = 0;
}
