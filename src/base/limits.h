/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h : the sizes Esscher is built and tested for. */
#ifndef ES_BASE_LIMITS_H
#define ES_BASE_LIMITS_H

#include <stdint.h>

#define ES_MAX_ROWS ((int64_t)1 << 40) /* tokens: products with a byte stride stay below 2^63 */
#define ES_MAX_DIM  ((int64_t)4096)    /* head dimension and value channels */

#endif
