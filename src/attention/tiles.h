/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.h : what each tiles_*.c exports: its kernels, f32 first, f64 second. */
#ifndef ES_ATTENTION_TILES_H
#define ES_ATTENTION_TILES_H

#include "attention/kernels.h"

extern const es_kernels es_kernels_portable[2];
extern const es_kernels es_kernels_avx2[2];
extern const es_kernels es_kernels_avx512[2];
extern const es_kernels es_kernels_neon[2];

#define ES_TILES(prefix, isa_, dtype_)                                                             \
    {                                                                                              \
        .isa = (isa_), .dtype = (dtype_), .lanes = prefix##_lanes, .scores = prefix##_scores,      \
        .product = prefix##_product, .top = prefix##_top, .tilt = prefix##_tilt,                   \
        .cap = prefix##_cap, .fold = prefix##_fold, .burn = prefix##_burn, .see = prefix##_see,    \
        .raise = prefix##_raise, .square = prefix##_square, .centre = prefix##_centre,             \
        .close = prefix##_close, .dots = prefix##_dots, .mix = prefix##_mix,                       \
        .squares = prefix##_squares                                                                \
    }

#endif
