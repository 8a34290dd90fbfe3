/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__AVX2__)
#define ES_KERNELS es_blocks_avx2
#include "random/blocks_text.h"
#else
/* Not an x86-64 build: the name exists and is never chosen. */
#include "random/blocks.h"
const es_block_kernels es_blocks_avx2 = {0};
#endif
