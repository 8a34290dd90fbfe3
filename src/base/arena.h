/* arena.h : many small pieces of memory with one end.
 *
 * What belongs to one job or one answer is taken from its arena and given back all at once, so that
 * code which can fail at every line needs no list of what it has to free. Pieces are zeroed and
 * aligned like those of memory.h, and counted against the same budget. Not thread-safe. */
#ifndef ES_BASE_ARENA_H
#define ES_BASE_ARENA_H

#include <esscher/exec.h>

typedef struct es_arena {
    es_budget *budget; /* may be NULL */
    struct es_arena_chunk *chunks;
    size_t left; /* bytes free at the end of the newest chunk */
} es_arena;

/*! es_arena_array() : count_a*count_b zeroed elements, valid until es_arena_free().
 *  @return : as es_mem_array(). */
es_status es_arena_array(es_arena *arena, int64_t count_a, int64_t count_b, size_t element,
                         const char *what, void **out, es_error *err);

/*! es_arena_text() : a copy of `text`; NULL if there is no memory. */
char *es_arena_text(es_arena *arena, const char *text);

void es_arena_free(es_arena *arena);

#endif
