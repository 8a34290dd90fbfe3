/* SPDX-License-Identifier: Apache-2.0 */
/* checked.h : arithmetic on sizes that cannot wrap unnoticed.
 *
 * Each function stores the result and returns true, or returns false and stores nothing when the
 * true result does not fit. Sizes that come from a file or a command line go through these, always.
 */
#ifndef ES_BASE_CHECKED_H
#define ES_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool es_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    return __builtin_mul_overflow(a, b, &r) ? false : (*out = r, true);
}

static inline bool es_add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    return __builtin_add_overflow(a, b, &r) ? false : (*out = r, true);
}

static inline bool es_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? false : (*out = r, true);
}

/* a*b*c elements of `size` bytes; negative counts do not fit. */
static inline bool es_size_of_array(int64_t a, int64_t b, int64_t c, size_t size, size_t *out)
{
    size_t r;
    if (a < 0 || b < 0 || c < 0)
        return false;
    return es_mul_size((size_t)a, (size_t)b, &r) && es_mul_size(r, (size_t)c, &r) &&
           es_mul_size(r, size, out);
}

#endif
