/* SPDX-License-Identifier: Apache-2.0 */
/* packed.h : numbers in blocks of MXFP4, as safetensors files of gpt-oss have them.
 *
 * A group of 32 numbers is 16 bytes of a tensor NAME_blocks and one byte e of NAME_scales. A byte
 * has two numbers, the lower four bits first: 0 .. 7 are 0, 1/2, 1, 3/2, 2, 3, 4, 6, and 8 .. 15
 * the same with a minus; all are multiplied by 2^(e - 127). A GGUF has the same numbers in another
 * order (checkpoint/gguf_legacy.c). */
#ifndef ES_MODEL_PACKED_H
#define ES_MODEL_PACKED_H

#include <stdint.h>

#include <esscher/view.h>

enum { ES_PACKED_GROUP = 32 };

/*! es_packed_decode() : out (groups, 32) of `dtype` from blocks (groups, 16) and scales (groups).
 *  @return : the first group that has a number beyond those of `dtype`; -1: none has. */
int64_t es_packed_decode(const unsigned char *blocks, const unsigned char *scales, int64_t groups,
                         es_dtype dtype, void *out);

#endif
