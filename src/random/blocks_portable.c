/* SPDX-License-Identifier: Apache-2.0 */
#define ES_KERNELS es_blocks_portable
#include "random/blocks_text.h"
