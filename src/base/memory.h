/* memory.h : aligned memory, counted against the caller's budget; arenas, for many small pieces
 * with one end. */
#ifndef ES_BASE_MEMORY_H
#define ES_BASE_MEMORY_H

#include <esscher/exec.h>

enum { ES_ALIGN = 64 }; /* one cache line, one AVX-512 register */

/*! es_mem_new() : `size` zeroed bytes aligned to ES_ALIGN, charged to `budget` (may be NULL).
 *  On success *out is never NULL, even for size 0; release it with es_mem_free() and the same
 * budget.
 *  @return : ES_OK; ES_E_LIMIT if the budget would be exceeded; ES_E_MEMORY if the system refuses.
 * Then *out is NULL. `what` names the thing in the message. Thread-safe. */
es_status es_mem_new(es_mem_limit *budget, size_t size, const char *what, void **out,
                     es_error *err);

/*! es_mem_array() : the same for count_a*count_b elements, with the product checked
 * (ES_E_OVERFLOW). */
es_status es_mem_array(es_mem_limit *budget, int64_t count_a, int64_t count_b, size_t element,
                       const char *what, void **out, es_error *err);

/*! es_mem_grow() : at least `needed` elements of room in *array, whose contents stay; nothing is
 * done where *room has them already. Room doubles, so that appending n elements copies O(n) of
 * them. Begin with NULL and 0. @return : as es_mem_array(); after a failure *array and *room are as
 * they were. */
es_status es_mem_grow(es_mem_limit *budget, void **array, int64_t *room, int64_t needed,
                      size_t element, const char *what, es_error *err);

/*! es_mem_free() : give back what es_mem_new() gave; NULL is fine. */
void es_mem_free(es_mem_limit *budget, void *memory);

/*! es_mem_limit_charge(), es_mem_limit_release() : count memory that was allocated by other means.
 */
es_status es_mem_limit_charge(es_mem_limit *budget, size_t size, const char *what, es_error *err);
void es_mem_limit_release(es_mem_limit *budget, size_t size);

/* ---- arenas ---- */

/* An arena owns the memory of one job or one answer and frees it all at once, so that code which
 * can fail at every line needs no list of things to free. Pieces are zeroed and aligned like those
 * above, and count against the same limit. Not thread-safe. */
typedef struct es_arena {
    es_mem_limit *budget; /* may be NULL */
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
