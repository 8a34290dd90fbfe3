/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : rows of uniforms, normals and points on the sphere, in f64 and f32; both precisions
 * come from the same draws. */
#include <esscher/random.h>

#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "random/blocks.h"
#include "random/elementary.h"
#include "random/random.h"

enum { CELL_BITS = 48, TOKEN_BITS = 40, STAGE = 1024 };

/* ---- addresses ---- */

/* Fails if a part of an address does not fit its bits: it would repeat the numbers of another
 * address. */
static es_status field_check(const char *name, uint64_t value, int bits, es_error *err)
{
    if (value >> bits == 0)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "random.address",
                   "a larger address would repeat another number", "%s %llu does not fit %d bits",
                   name, (unsigned long long)value, bits);
}

es_status es_address_check(const es_address *address, es_error *err)
{
    if (!address)
        return es_fail(err, ES_E_ARGUMENT, "random.null", "give an address", "no address");
    ES_TRY(field_check("cell", address->cell, CELL_BITS, err));
    ES_TRY(field_check("token", address->token, TOKEN_BITS, err));
    return field_check("lane", address->lane, ES_LANE_BITS, err);
}

es_status es_rows_check(const es_address *first, int64_t tokens, int64_t dim, int64_t pair_lanes,
                        const void *out, es_error *err)
{
    ES_TRY(es_address_check(first, err));
    if (!out)
        return es_fail(err, ES_E_ARGUMENT, "random.null", "give an array", "no place for the rows");
    size_t size;
    if (dim < 1 || !es_size_of_array(tokens, dim, 1, sizeof(double), &size))
        return es_fail(err, ES_E_SHAPE, "random.shape", "tokens >= 0, dim >= 1",
                       "%lld x %lld is no matrix", (long long)tokens, (long long)dim);
    if (tokens == 0)
        return ES_OK;
    /* The fields must hold the last address too. A dim that is too large by itself is caught first,
     * so that the product cannot overflow. */
    const int64_t most = INT64_C(2) << ES_LANE_BITS, few = dim < most ? dim : most;
    const uint64_t lanes = (uint64_t)(few * pair_lanes + 1) / 2;
    ES_TRY(field_check("last token", first->token + (uint64_t)tokens - 1, TOKEN_BITS, err));
    return field_check("last lane", first->lane + lanes - 1, ES_LANE_BITS, err);
}

/* ---- one number ---- */

double es_uniform_at(const es_address *address)
{
    uint64_t words[2];
    if (es_address_check(address, NULL) != ES_OK)
        return NAN;
    es_block_words(address->seed, es_address_high(address), es_address_low(address), words);
    return es_open_unit(words[0]);
}

/* ---- rows ---- */

es_status es_uniform_rows(const es_address *first, int64_t tokens, int64_t dim, double *out,
                          es_error *err)
{
    ES_TRY(es_rows_check(first, tokens, dim, 1, out, err));
    es_blocks_rows(es_blocks_best()->uniforms, first, tokens, dim, out);
    return ES_OK;
}

es_status es_exponential_rows(const es_address *first, int64_t tokens, int64_t dim, double *out,
                              es_error *err)
{
    ES_TRY(es_rows_check(first, tokens, dim, 1, out, err));
    es_blocks_rows(es_blocks_best()->exponentials, first, tokens, dim, out);
    return ES_OK;
}

es_status es_normal_rows(const es_address *first, int64_t tokens, int64_t dim, double *out,
                         es_error *err)
{
    ES_TRY(es_rows_check(first, tokens, dim, 1, out, err));
    es_blocks_rows(es_blocks_best()->normals, first, tokens, dim, out);
    return ES_OK;
}

/* Part of one row: elements j .. j+count-1 of token `first->token + i`, for even j. */
static void normal_part(const es_address *first, int64_t i, int64_t j, int64_t count, double *out)
{
    es_address at = *first;
    at.token += (uint64_t)i;
    at.lane += (uint32_t)(j / 2);
    es_blocks_rows(es_blocks_best()->normals, &at, 1, count, out);
}

/* Rounds doubles to floats. Both precisions use the same draws. */
static void round_all(const double *x, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)x[i];
}

/* How many rows fit the stage; 0 when a single one does not. */
static int64_t rows_per_stage(int64_t tokens, int64_t dim)
{
    return tokens < STAGE / dim ? tokens : STAGE / dim;
}

es_status es_normal_rows_f32(const es_address *first, int64_t tokens, int64_t dim, float *out,
                             es_error *err)
{
    ES_TRY(es_rows_check(first, tokens, dim, 1, out, err));
    double stage[STAGE];
    if (dim <= STAGE) {
        es_address at = *first;
        for (int64_t i = 0, n; i < tokens; i += n) {
            n = rows_per_stage(tokens - i, dim);
            at.token = first->token + (uint64_t)i;
            es_blocks_rows(es_blocks_best()->normals, &at, n, dim, stage);
            round_all(stage, n * dim, out + i * dim);
        }
        return ES_OK;
    }
    for (int64_t i = 0; i < tokens; i++) {
        for (int64_t j = 0, n; j < dim; j += n) {
            n = dim - j < STAGE ? dim - j : STAGE;
            normal_part(first, i, j, n, stage);
            round_all(stage, n, out + i * dim + j);
        }
    }
    return ES_OK;
}

/* ---- the sphere ---- */

/* Sum of squares in eight partial sums, by j%8: a fixed order, short chains, vector code. */
typedef struct squares {
    double part[8];
} squares;

/* Adds squares in eight separate sums: a fixed order, the same for every instruction set. */
static void squares_add(squares *sum, const double *x, int64_t count)
{
    int64_t j = 0;
    for (; j + 8 <= count; j += 8)
        for (int k = 0; k < 8; k++)
            sum->part[k] += x[j + k] * x[j + k];
    for (int k = 0; j < count; j++, k++)
        sum->part[k] += x[j] * x[j];
}

/* Returns the norm from the eight sums, added in a fixed order. */
static double squares_root(const squares *sum)
{
    const double *p = sum->part;
    return sqrt(((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7])));
}

/* The norm cannot be 0: a uniform is an odd multiple of 2^-53, so that neither its logarithm nor
 * the sine or cosine of that many turns vanishes (elementary.h). */
static void normalise_rows(int64_t tokens, int64_t dim, double *x)
{
    for (int64_t i = 0; i < tokens; i++, x += dim) {
        squares sum = {{0}};
        squares_add(&sum, x, dim);
        const double norm = squares_root(&sum);
        for (int64_t j = 0; j < dim; j++)
            x[j] /= norm;
    }
}

es_status es_sphere_rows(const es_address *first, int64_t tokens, int64_t dim, double *out,
                         es_error *err)
{
    ES_TRY(es_rows_check(first, tokens, dim, 1, out, err));
    es_address at = *first;
    /* A few rows at a time, so that they are still in the cache when they are divided. */
    const int64_t group = dim < STAGE ? STAGE / dim : 1;
    for (int64_t i = 0, n; i < tokens; i += n) {
        n = tokens - i < group ? tokens - i : group;
        at.token = first->token + (uint64_t)i;
        es_blocks_rows(es_blocks_best()->normals, &at, n, dim, out + i * dim);
        normalise_rows(n, dim, out + i * dim);
    }
    return ES_OK;
}
