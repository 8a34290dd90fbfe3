/* SPDX-License-Identifier: Apache-2.0 */
/* block_mean.h : means over the tokens of blocks of text, with errors over blocks. */
#ifndef ES_EXPERIMENTS_KIT_BLOCK_MEAN_H
#define ES_EXPERIMENTS_KIT_BLOCK_MEAN_H

#include <stdint.h>

/* The sum of a number over some tokens of one block. */
typedef struct es_block_sum {
    double sum, count;
} es_block_sum;

/* A mean over tokens, its standard error over blocks (es_block_se()), and the 95 % interval by
 * Student's t with the number of blocks that have such tokens. NaN without tokens; no error of one
 * block. */
typedef struct es_block_mean {
    double value, se, low, high;
    int64_t tokens, blocks;
} es_block_mean;

/*! es_block_mean_of() : over blocks (count); those without tokens do not count. */
es_block_mean es_block_mean_of(const es_block_sum *blocks, int64_t count);

/*! es_block_interval() : sets low and high from value, se and blocks. */
void es_block_interval(es_block_mean *m);

#endif
