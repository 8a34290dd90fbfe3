/* SPDX-License-Identifier: Apache-2.0 */
/* block.h : the engine: a block of queries meets keys, tile by tile. */
#ifndef ES_ATTENTION_BLOCK_H
#define ES_ATTENTION_BLOCK_H

#include "attention/kernels.h"
#include "attention/attend.h"
#include "attention/mask.h"
#include "attention/partial.h"

enum {
    ES_OFFSET_SLACK =
        16, /* an offset moves when a score exceeds it by more than this many powers of two */
    ES_FOLD_KEYS = 1536, /* keys between two folds of the kernel's sums into f64 */
    /* Weights of 2^-127 and less do not count, the query's largest being at least 1/2. In f32 they
     * are zeros anyway; in f64 those of 2^40 keys together are below 2^-86 of the sum. */
    ES_LEAST_POWER = -127
};

/* Keys that queries meet together: consecutive ones, or some that were gathered from lists. */
typedef struct es_tile_keys {
    int64_t row;            /* of p->k, of the first, where they are consecutive */
    int64_t first;          /* its number among all keys */
    int64_t count;          /* at most a tile */
    int64_t skip;           /* they come after this many keys of the tile, a multiple of ES_GROUP */
    const int64_t *numbers; /* (count) increasing, of gathered keys; NULL: consecutive */
    int64_t list, list_end; /* lists they come from */
} es_tile_keys;

/*! es_tile_keys_at() : the number of one of them. */
static inline int64_t es_tile_keys_at(const es_tile_keys *keys, int64_t i)
{
    return keys->numbers ? keys->numbers[i] : keys->first + i;
}

/* Working state of a block of queries. Lane-major: (panels, ..., lanes), the kernel's precision in
 * `void *` buffers. */
typedef struct es_block {
    const es_problem *p;
    const es_kernels *kernels;
    bool plain;        /* nothing but the output and lse is wanted */
    int64_t panels;    /* panels of `lanes` queries */
    int64_t tile;      /* keys per tile, at most */
    int64_t channels4; /* channels rounded up to whole groups */
    int64_t around4;   /* the same of one channel more */
    size_t real;       /* bytes per element of the kernel's precision */

    int64_t first, count; /* the queries of the block */
    int64_t *since_fold;  /* (panels) keys since the last fold */
    int64_t *met_block;   /* (panels) block of keys met last, where there are blocks; -1: none */

    char *queries;       /* (panels, d, lanes) packed, times log2(e) and the largest scale */
    char *keys, *values; /* (tile, d), (tile, channels4): those that cannot be read as they lie */
    const void *tile_keys, *tile_values; /* the tile's, wherever they lie; values NULL until they
                                            are needed */
    es_tile_keys tile_all;               /* the keys of the tile, for all panels */
    int64_t keys_stride, values_stride;  /* elements from row to row */
    char *scores;                        /* (tile, lanes) */
    char *weights;       /* (tile, lanes); the same buffer as scores when there is one scale */
    int64_t *rows;       /* (tile) rows of the few keys that have a weight, then their numbers */
    char *row_weights;   /* (tile/4, lanes) their scores and weights */
    char *row_values;    /* (tile/4, channels4) */
    double *tile_top;    /* (lanes) */
    double *tile_sums;   /* (3, lanes) */
    char *offsets;       /* (scales, panels, lanes) copy of sums[].offset for the kernel */
    char *output;        /* (scales, panels, channels4, lanes) since the last fold */
    double *folded;      /* (scales, panels, channels4, lanes) before it */
    char *weights2;      /* (tile, lanes) squared weights, where spreads are wanted */
    char *values_around; /* (tile, around4) values around the centre, and their squared lengths */
    char *spread; /* (scales, panels, around4, lanes) sum w^2 of those, since the last fold */
    double *spread_folded; /* before it */
    double *cross;       /* (scales, panels, channels4, lanes) sum_b Z_b N_b, if there are blocks of
                            keys; `output` is then what the block that has begun adds */
    double *square;      /* (scales, panels, channels4, lanes) sum_b N_b^2 */
    double *open;        /* (lanes) Z_b of the block that ends */
    es_sums *sums;       /* (scales, panels, lanes) */
    double *best;        /* (panels, lanes) */
    int64_t *best_index; /* (panels, lanes) */
    double *kept;        /* (panels, lanes, kept) heaps */

    /* Under a mask (sight.h). */
    es_sight *sights; /* (panels, lanes) */
    es_sight *common; /* (panels) ranges that all of them see */
    int32_t *ranges;  /* (4, lanes) rows of a tile that each lane sees */
    bool raised;      /* the tile has factors */
    char *raise;      /* (tile) factors of the keys' classes */
    char *list_raise; /* (tile) of one list, NaN for keys that it does not have */
    char *listed;     /* (tile, lanes) scores of listed keys, where they are met in order */
    int64_t *numbers; /* (tile) keys gathered from lists */
} es_block;

/*! es_block_new() : memory for a block of at most `queries` queries and tiles of at most `tile`
 * keys. */
es_status es_block_new(es_block *b, const es_problem *p, const es_kernels *kernels, int64_t queries,
                       int64_t tile, bool plain, es_error *err);
void es_block_free(es_block *b);

/*! es_block_bytes() : memory es_block_new() takes. */
double es_block_bytes(const es_problem *p, const es_kernels *kernels, int64_t queries,
                      int64_t tile);

/*! es_block_begin() : queries [first, first+count) enter, having met nothing. */
void es_block_begin(es_block *b, int64_t first, int64_t count);

/*! es_block_stream() : they meet keys [from, to), whose indices count from `index_base`. */
void es_block_stream(es_block *b, int64_t from, int64_t to, int64_t index_base);

/*! es_block_store() : writes the state of the queries, one row each, to rows [row, row+count) of
 *  *out and replaces their contents. The block can continue with more keys. */
void es_block_store(es_block *b, es_partial *out, int64_t row);

#endif
