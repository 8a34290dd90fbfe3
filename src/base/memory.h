/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h : aligned memory, charged to the caller's memory limit; arenas. */
#ifndef ES_BASE_MEMORY_H
#define ES_BASE_MEMORY_H

#include <esscher/exec.h>

enum { ES_ALIGN = 64 }; /* one cache line, one AVX-512 register */

/* Callers allocate with the macros ES_MEM_NEW, ES_ARENA_NEW and ES_JOB_NEW (driver/job.h). The type
 * comes from the pointer, so neither a cast nor a `void *` variable is necessary:
 *
 *     double *mean, *cov;
 *     ES_TRY(ES_ARENA_NEW(&arena, mean, d, "means", err));
 *     ES_TRY(ES_ARENA_NEW_2D(&arena, cov, d, d, "a covariance", err));
 *
 * `ptr` is any pointer that can be assigned to, of a complete type; it is evaluated once. After a
 * failure it is NULL. `what` names the memory in the message: "2.1 MiB for a covariance". */

/*! ES_MEM_NEW() : allocates `count` zeroed elements aligned to ES_ALIGN and charges them to
 *  `budget` (may be NULL). On success the pointer is not NULL, even for a count of 0. Release it
 *  with es_mem_free() and the same budget.
 *  @return : ES_OK; ES_E_OVERFLOW if the size does not fit size_t; ES_E_LIMIT if the budget would
 *  be exceeded; ES_E_MEMORY if the system refuses. Thread-safe. */
#define ES_MEM_NEW(budget, ptr, count, what, err) ES_MEM_NEW_2D(budget, ptr, count, 1, what, err)

/*! ES_MEM_NEW_2D() : the same for rows * cols elements; the product is checked. */
#define ES_MEM_NEW_2D(budget, ptr, rows, cols, what, err)                                          \
    es_mem_array((budget), (rows), (cols), sizeof *(ptr), (what), &(ptr), (err))

/*! ES_MEM_BYTES() : the same for `size` bytes, a size_t: texts, files, a struct with its tail. */
#define ES_MEM_BYTES(budget, ptr, size, what, err)                                                 \
    es_mem_new((budget), (size), (what), &(ptr), (err))

/*! es_mem_text() : allocates a copy of `text`; `what` as above. @return : as ES_MEM_NEW(). */
es_status es_mem_text(es_mem_limit *budget, const char *text, const char *what, char **out,
                      es_error *err);

/*! ES_MEM_GROW() : reserves space for at least `needed` elements in the array `ptr`, which keeps
 * its contents; does nothing if *capacity is large enough. The capacity doubles, so that appending
 * n elements copies O(n) of them. Start with NULL and 0.
 *  @return : as ES_MEM_NEW(); after a failure `ptr` and *capacity are unchanged. */
#define ES_MEM_GROW(budget, ptr, capacity, needed, what, err)                                      \
    es_mem_grow((budget), &(ptr), (capacity), (needed), sizeof *(ptr), (what), (err))

/* The functions behind the macros. `out` and `array` point to a pointer of any type. */
es_status es_mem_new(es_mem_limit *budget, size_t size, const char *what, void *out, es_error *err);
es_status es_mem_array(es_mem_limit *budget, int64_t rows, int64_t cols, size_t element,
                       const char *what, void *out, es_error *err);
es_status es_mem_grow(es_mem_limit *budget, void *array, int64_t *capacity, int64_t needed,
                      size_t element, const char *what, es_error *err);

/*! es_mem_free() : frees what ES_MEM_NEW() or ES_MEM_GROW() allocated; NULL is fine. */
void es_mem_free(es_mem_limit *budget, void *memory);

/*! es_mem_limit_charge(), es_mem_limit_release() : count memory that was allocated by other means.
 */
es_status es_mem_limit_charge(es_mem_limit *budget, size_t size, const char *what, es_error *err);
void es_mem_limit_release(es_mem_limit *budget, size_t size);

/* ---- arenas ---- */

/* An arena holds memory that is released all at once, with one es_arena_free(). Code that can fail
 * at every line therefore needs no list of what to free. Memory is zeroed and aligned as above, and
 * charged to the same budget. Not thread-safe. Start with {.budget = budget}. */
typedef struct es_arena {
    es_mem_limit *budget; /* may be NULL */
    struct es_arena_chunk *chunks;
    size_t left; /* bytes free at the end of the newest chunk */
} es_arena;

/*! ES_ARENA_NEW(), ES_ARENA_NEW_2D() : as ES_MEM_NEW(), valid until es_arena_free(). */
#define ES_ARENA_NEW(arena, ptr, count, what, err) ES_ARENA_NEW_2D(arena, ptr, count, 1, what, err)
#define ES_ARENA_NEW_2D(arena, ptr, rows, cols, what, err)                                         \
    es_arena_array((arena), (rows), (cols), sizeof *(ptr), (what), &(ptr), (err))

es_status es_arena_array(es_arena *arena, int64_t rows, int64_t cols, size_t element,
                         const char *what, void *out, es_error *err);

/*! es_arena_text() : returns a copy of `text`; NULL if there is no memory. */
char *es_arena_text(es_arena *arena, const char *text);

/*! es_arena_free() : releases everything; the arena is empty afterwards and can be used again. */
void es_arena_free(es_arena *arena);

#endif
