/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c : fills rows of random numbers from Philox blocks; the address of an element fixes its
 * block, whatever the order in which rows are filled. */
#include "random/blocks.h"

#include <math.h>
#include <string.h>

#include <Random123/philox.h>

#include "random/elementary.h"

enum { CHUNK = 16 * ES_TILE }; /* blocks per batch of addresses: 2 + 4 KiB of stack */

const es_block_kernels *es_blocks_best(void)
{
    return es_blocks_avx2.words && es_isa_available(ES_ISA_AVX2) ? &es_blocks_avx2
                                                                 : &es_blocks_portable;
}

void es_block_words(uint64_t seed, uint64_t high, uint64_t low, uint64_t out[2])
{
    const philox4x32_ctr_t counter = {
        {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
    const philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    const philox4x32_ctr_t block = philox4x32_R(10, counter, key);
    out[0] = (uint64_t)block.v[1] << 32 | block.v[0];
    out[1] = (uint64_t)block.v[3] << 32 | block.v[2];
}

void es_block_normals(const uint64_t words[2], double out[2])
{
    double cosine, sine;
    const double radius = sqrt(2.0 * es_negative_log(es_open_unit(words[0])));
    es_turn(es_open_unit(words[1]), &cosine, &sine);
    out[0] = radius * cosine;
    out[1] = radius * sine;
}

/* A token with one block is no reason to stop a run: the blocks of all tokens are equally far
 * apart, as if they were lanes of one token. */
es_block_cursor es_blocks_begin(const es_address *first, int64_t lanes, int64_t step)
{
    const uint64_t low = es_address_low(first);
    es_block_cursor c = {.row = low, .at = low, .lanes = lanes, .step = (uint64_t)step};
    if (lanes == 1) {
        c.lanes = INT64_MAX;
        c.step = UINT64_C(1) << ES_LANE_BITS;
    }
    return c;
}

/* Writes to `at` the addresses of `count` blocks of one token, `step` lanes apart. */
static void list_run(uint64_t first, uint64_t step, int64_t count, uint64_t *at)
{
    for (int64_t i = 0; i < count; i++)
        at[i] = first + (uint64_t)i * step;
}

/* Lists one run of a token after another. A loop over single blocks that looks for the end of the
 * token costs twice as much where the linker lets it cross a cache line: 4 % of a normal number. */
int64_t es_blocks_list(es_block_cursor *cursor, int64_t count, uint64_t *at)
{
    es_block_cursor c = *cursor; /* a copy, which `at` cannot alias: it stays in registers */
    for (int64_t done = 0, n; done < count; done += n) {
        n = c.lanes - c.lane < count - done ? c.lanes - c.lane : count - done;
        list_run(c.at, c.step, n, at + done);
        c.lane += n;
        c.at += (uint64_t)n * c.step;
        if (c.lane == c.lanes) {
            c.lane = 0;
            c.row += UINT64_C(1) << ES_LANE_BITS;
            c.at = c.row;
        }
    }
    *cursor = c;
    int64_t padded = count;
    while (padded % ES_TILE != 0)
        at[padded++] = 0;
    return padded;
}

/* Copy `count` blocks, of which the last of each row of `lanes` blocks holds one number, not two.
 * *lane is where in a row we are. Returns the place after the last number written. */
static double *copy_odd(const double *from, int64_t count, int64_t lanes, int64_t *lane, double *to)
{
    for (int64_t i = 0; i < count; i++) {
        *to++ = from[2 * i];
        if (++*lane == lanes)
            *lane = 0;
        else
            *to++ = from[2 * i + 1];
    }
    return to;
}

void es_blocks_rows(es_blocks_fn *fn, const es_address *first, int64_t tokens, int64_t dim,
                    double *out)
{
    const uint64_t high = es_address_high(first);
    const int64_t lanes = (dim + 1) / 2;
    es_block_cursor cursor = es_blocks_begin(first, lanes, 1);
    uint64_t at[CHUNK];
    double stage[2 * CHUNK];
    int64_t lane = 0;
    for (int64_t left = tokens * lanes, n; left > 0; left -= n) {
        n = left < CHUNK ? left : CHUNK;
        const int64_t padded = es_blocks_list(&cursor, n, at);
        if (dim % 2 == 0 && padded == n) {
            fn(first->seed, high, at, n, out);
            out += 2 * n;
            continue;
        }
        fn(first->seed, high, at, padded, stage);
        if (dim % 2 == 0) {
            memcpy(out, stage, (size_t)(2 * n) * sizeof *out);
            out += 2 * n;
        } else {
            out = copy_odd(stage, n, lanes, &lane, out);
        }
    }
}
