/* SPDX-License-Identifier: Apache-2.0 */
/* permutation.c : a random permutation of n things in constant memory.
 *
 * Indices form a rectangle of about sqrt(n) by sqrt(n). A Feistel network shifts rows and columns
 * in turn by keyed functions of the other coordinate, which is a permutation of the rectangle. An
 * index that lands beyond n is mapped again until it is below n (cycle walking). */
#include <esscher/random.h>

#include "base/error.h"
#include "base/limits.h"
#include "random/blocks.h"
#include "random/random.h"

/* A round mixes the worse the smaller the rectangle. Enumeration, with ideal keyed functions, gives
 * the distance from a uniform law on all permutations: in the 2 x 2 rectangle (counts 3 and 4) each
 * round halves it; in the 4 x 2 one (counts 5 and 6, followed for 14 rounds) every second round
 * nearly does, which extrapolates to some 10^-6 after 48. That a dozen do from 16 x 16 on is an
 * expectation, tested on pairs of places only. */
enum { ROUNDS_SMALL = 48, ROUNDS_LARGE = 12, SMALL = 256 };

__extension__ typedef unsigned __int128 wide;

/* Multiplies two words and folds the 128-bit product: the mixing step of the Feistel rounds. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    const wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The keyed function of round r, with values in [0, count): two multiplications whose halves are
 * folded together, each with half of the key. The odd constants are those of Philox4x64's
 * multiplications and Weyl steps. */
static inline int64_t round_value(const es_permutation *p, int r, int64_t x, int64_t count)
{
    const uint64_t a = fold(p->key[0] + (uint64_t)x, UINT64_C(0xD2E7470EE14C6C93));
    const uint64_t b = p->key[1] + (uint64_t)r * UINT64_C(0x9E3779B97F4A7C15);
    const uint64_t word = fold(a ^ b, UINT64_C(0xCA5A826395121157));
    return (int64_t)((wide)word * (uint64_t)count >> 64);
}

es_status es_permutation_init(const es_address *address, int64_t count, es_permutation *out,
                              es_error *err)
{
    ES_TRY(es_address_check(address, err));
    if (count < 1 || count > ES_MAX_ROWS)
        return es_fail(err, ES_E_RANGE, "random.count", "use 1 to 2^40",
                       "no permutation of %lld things", (long long)count);
    int64_t rows = 1; /* the root of count, rounded up, bit by bit from above */
    for (int64_t bit = INT64_C(1) << 20; bit > 0; bit /= 2)
        if ((rows - 1 + bit) * (rows - 1 + bit) < count)
            rows += bit;
    /* In a circle of odd length every rotation is an even permutation, and so is all they make. */
    rows += rows % 2;
    out->count = count;
    out->rows = rows;
    out->columns = (count + rows - 1) / rows;
    out->rounds = count < SMALL ? ROUNDS_SMALL : ROUNDS_LARGE;
    es_block_words(address->seed, es_address_high(address), es_address_low(address), out->key);
    out->key[0] += (uint64_t)count * UINT64_C(0xBB67AE8584CAA73B);
    return ES_OK;
}

int64_t es_permutation_at(const es_permutation *p, int64_t index)
{
    if (index < 0 || index >= p->count)
        return -1;
    /* The rectangle exceeds count by less than one column, so a second turn is rare; and since a
     * permutation of the rectangle returns to where it started, the walk ends. */
    do {
        int64_t l = index % p->rows, r = index / p->rows;
        for (int k = 0; k < p->rounds; k += 2) {
            l += round_value(p, k, r, p->rows);
            l -= l >= p->rows ? p->rows : 0;
            r += round_value(p, k + 1, l, p->columns);
            r -= r >= p->columns ? p->columns : 0;
        }
        index = r * p->rows + l;
    } while (index >= p->count);
    return index;
}
