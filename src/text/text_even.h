/* SPDX-License-Identifier: Apache-2.0 */
/* text_even.h : which blocks of a text are read where fewer are wanted than it has.
 *
 * Neighbouring blocks of a text are about the same thing, so that the first few of them say less
 * about the whole than their number suggests. Blocks that are taken evenly lie in the middle of
 * equal stretches of the text. */
#ifndef ES_TEXT_TEXT_EVEN_H
#define ES_TEXT_TEXT_EVEN_H

#include <stdint.h>

/*! es_even_block() : returns which of `total` blocks is number j of `count` that are taken evenly,
 *  floor((j + 1/2) total / count). Increasing in j; j itself where count is total. Needs
 *  0 <= j < count <= total <= 10^9. */
static inline int64_t es_even_block(int64_t j, int64_t count, int64_t total)
{
    return (2 * j + 1) * total / (2 * count);
}

#endif
