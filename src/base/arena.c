#include "base/arena.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"

/* A chunk serves many small pieces; a piece that is larger gets one of its own. */
enum { CHUNK = 16384 };

typedef struct es_arena_chunk {
    struct es_arena_chunk *next;
    size_t size; /* bytes behind the header */
} es_arena_chunk;

enum { HEADER = ES_ALIGN };
_Static_assert(sizeof(es_arena_chunk) <= HEADER, "pieces start on a line of their own");

es_status es_arena_array(es_arena *arena, int64_t count_a, int64_t count_b, size_t element,
                         const char *what, void **out, es_error *err)
{
    size_t size;
    *out = NULL;
    if (!es_size_of_array(count_a, count_b, 1, element, &size) || size > SIZE_MAX / 2)
        return es_fail(err, ES_E_OVERFLOW, "memory.size", "ask for less",
                       "the size of %s does not fit any machine", what);
    size = (size + ES_ALIGN - 1) / ES_ALIGN * ES_ALIGN;
    if (!arena->chunks || size > arena->left) {
        void *memory;
        const size_t room = size > CHUNK ? size : CHUNK;
        ES_TRY(es_mem_new(arena->budget, HEADER + room, what, &memory, err));
        es_arena_chunk *chunk = memory;
        *chunk = (es_arena_chunk){.next = arena->chunks, .size = room};
        arena->chunks = chunk;
        arena->left = room;
    }
    *out = (char *)arena->chunks + HEADER + (arena->chunks->size - arena->left);
    arena->left -= size;
    return ES_OK;
}

char *es_arena_text(es_arena *arena, const char *text)
{
    void *copy;
    const size_t size = strlen(text) + 1;
    if (es_arena_array(arena, (int64_t)size, 1, 1, "a text", &copy, NULL) != ES_OK)
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
