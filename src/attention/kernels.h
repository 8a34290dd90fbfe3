/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h : the two tiles a CPU has to provide, and the table of those we have.
 *
 * Queries live in SIMD lanes: a panel is `lanes` queries (three vector registers), stored
 * lane-contiguous, and elements of keys and values are broadcast against it. Nothing is ever summed
 * across lanes, so a query's result does not depend on its neighbours. Both matrix products of
 * attention are then the same tile, with keys and values as they lie:
 *
 *     C (4 groups, lanes)  (+)=  sum over t < depth of  B (depth, 4)' A (depth, lanes)
 *
 *     scores:  A = packed queries (d, lanes),  B = 4 keys (d, 4),           C = scores
 *     output:  A = weights (keys, lanes),      B = 4 channels of the keys,  C = output
 *
 * and what stands between them is the exponential tilt. The algorithm (block.c) is written once;
 * files named tiles_*.c contain only these functions, each made from tile_template.h.
 */
#ifndef ES_ATTENTION_KERNELS_H
#define ES_ATTENTION_KERNELS_H

#include <esscher/exec.h>
#include <esscher/view.h>

/* Scores are in units of log 2. */
#define ES_LOG2_E 1.4426950408889634074
#define ES_LN_2   0.69314718055994530942

enum {
    ES_GROUP = 4,         /* rows of C computed together */
    ES_MAX_LANES = 48,    /* largest panel of any CPU */
    ES_FEW_CHANNELS = 64, /* channels that any CPU's `mix` computes together divide this */
    ES_CAP_ERROR = 6 /* relative error of a capped score, in units of 2^-24 (f32) or 2^-53 (f64) */
};

/* Buffers are ES_ALIGN-aligned arrays of the kernel's dtype. */
typedef struct es_kernels {
    es_isa isa;
    es_dtype dtype;
    int lanes;

    /* Output: c (4*groups, lanes) = [c +] v (depth, 4*groups)' a (depth, lanes), rows of v `stride`
     * elements apart. */
    void (*product)(const void *a, const void *v, int64_t stride, int64_t depth, int64_t groups,
                    bool add, void *c);

    /* Scores: s (keys rounded up to 4, lanes) = k (keys, d) a (d, lanes), rows of k `stride`
     * elements apart. */
    void (*scores)(const void *a, int64_t d, const void *k, int64_t stride, int64_t keys, void *s);

    /* Largest score of each lane, ignoring masked (NaN) ones. s (rows, lanes) -> top (lanes);
     * -inf where everything is masked. */
    void (*top)(const void *s, int64_t rows, double *top);

    /* Weights of one tile at score scale c: x = c*s - offset (lanes), w = 2^x; c, c*s and x are
     * each rounded to the dtype, as es_problem_rescale() does. NaN scores and x <= -127 (f32) or
     * -1023 (f64) give an exact zero. s, w (rows, lanes), which may be the same buffer. sums (3,
     * lanes) = sum w, sum w x, sum w^2; `plain` fills only the first. */
    void (*tilt)(const void *s, int64_t rows, double c, const void *offset, bool plain, void *w,
                 double *sums);

    /* Scores s (rows, lanes) become c tanh(s / c), c in the units of s, with a relative error below
     * ES_CAP_ERROR units of rounding. None may be NaN. */
    void (*cap)(void *s, int64_t rows, double c);

    /* Scores s (rows, lanes) that a lane does not see become NaN: row r is seen if it is in
     * [ranges[0], ranges[1]) or [ranges[2], ranges[3]), ranges (4, lanes). */
    void (*see)(void *s, int64_t rows, const int32_t *ranges);

    /* raise (rows) is added to scores s (rows, lanes) of lanes [first, last): factors, or NaN for a
     * key that is not theirs. */
    void (*raise)(void *s, int64_t rows, const void *raise, int64_t first, int64_t last);

    /* Move sums kept in the kernel's precision into f64: wide[i] += narrow[i], narrow[i] = 0. */
    void (*fold)(void *narrow, int64_t count, double *wide);

    /* Squares of weights, w (rows, lanes) -> out; exact zeros where w^2 would be no normal number.
     */
    void (*square)(const void *w, int64_t rows, void *out);

    /* Values around a centre: values (rows, channels), rows `stride` elements apart, centre
     * (channels) -> out (rows, channels + 1 rounded up to 4), channels v - centre and one more, its
     * squared length; the rest is zero. */
    void (*centre)(const void *values, int64_t stride, int64_t rows, int64_t channels,
                   const double *centre, void *out);

    /* A block of keys ends: n (channels, lanes) of the kernel's precision, z (lanes) its weights;
     * all others (channels, lanes): wide += n, cross += z n, square += n^2, n = 0. */
    void (*close)(void *n, const double *z, int64_t channels, double *wide, double *cross,
                  double *square);

    /* Few queries (few.c): keys and values as they lie in memory, rows `stride` elements apart, at
     * any alignment of an element. dots: s (queries, pitch) = q (queries, d) k (keys, d)'; up to
     * the next multiple of 4 keys s is overwritten. Returns what squares() says of k, where the
     * last key may count up to four times. */
    double (*dots)(const void *q, int64_t queries, int64_t d, const void *k, int64_t stride,
                   int64_t keys, void *s, int64_t pitch);

    /* Computes out (queries, out_pitch) = w (queries, pitch) v (keys, channels); out_pitch is a
     * multiple of ES_FEW_CHANNELS, and columns beyond the channels are zero. Returns squares() of
     * v. */
    double (*mix)(const void *w, int64_t pitch, int64_t queries, const void *v, int64_t stride,
                  int64_t keys, int64_t channels, void *out, int64_t out_pitch);

    /* Sum of the squares of x (rows, cols): not finite where an element is not, nor where a square
     * overflows the dtype; never below the square of a row's length but by rounding. */
    double (*squares)(const void *x, int64_t stride, int64_t rows, int64_t cols);

    /* steps * 12 * lanes/3 multiply-adds in registers, for measuring the machine's peak. The result
     * means nothing. */
    double (*burn)(int64_t steps);
} es_kernels;

/*! es_kernels_find() : the kernels for a concrete instruction set; NULL if they are not built in.
 */
const es_kernels *es_kernels_find(es_isa isa, es_dtype dtype);

/*! es_kernels_squares() : the sum of the squares of its elements, up to a percent, at the speed of
 * memory; NaN where the kernels cannot read them as they lie. A broadcast row counts once. */
double es_kernels_squares(const es_kernels *kernels, const es_view *v);

#endif
