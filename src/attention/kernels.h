/* kernels.h : the two tiles a CPU has to provide, and the table of those we have.
 *
 * Queries live in SIMD lanes: a panel is `lanes` queries (three vector registers), stored
 * lane-contiguous, and elements of keys and values are broadcast against it. Nothing is ever summed
 * across lanes, so a query's result does not depend on its neighbours. Both matrix products of
 * attention are then the same tile:
 *
 *     C (4 groups, lanes)  (+)=  sum over t < depth of  B (depth, 4)' A (depth, lanes)
 *
 *     scores:  A = packed queries (d, lanes),  B = packed keys (d, 4 keys),         C = scores (4
 * keys, lanes) output:  A = weights (keys, lanes),      B = packed values (keys, 4 channels), C =
 * output (4 channels, lanes)
 *
 * and what stands between them is the exponential tilt. The algorithm (block.c) is written once;
 * files named tiles_*.c contain only these functions, each made from tile_template.h.
 */
#ifndef ES_ATTENTION_KERNELS_H
#define ES_ATTENTION_KERNELS_H

#include <esscher/exec.h>
#include <esscher/view.h>

enum {
    ES_GROUP = 4,     /* rows of C computed together */
    ES_MAX_LANES = 48 /* largest panel of any CPU */
};

/* Buffers are ES_ALIGN-aligned arrays of the kernel's dtype. */
typedef struct es_kernels {
    es_isa isa;
    es_dtype dtype;
    int lanes;

    /* C (4*groups, lanes) = [C +] B'A as above. a (depth, lanes), b (groups, depth, 4). */
    void (*product)(const void *a, const void *b, int64_t depth, int64_t groups, bool add, void *c);

    /* Largest score of each lane, ignoring masked (NaN) ones. s (rows, lanes) -> top (lanes);
     * -inf where everything is masked. */
    void (*top)(const void *s, int64_t rows, double *top);

    /* Weights of one tile at score scale c: x = c*s - offset (lanes), w = 2^x; c, c*s and x are
     * each rounded to the dtype, as es_problem_rescale() does. NaN scores and x <= -127 (f32) or
     * -1023 (f64) give an exact zero. s, w (rows, lanes), which may be the same buffer. sums (3,
     * lanes) = sum w, sum w x, sum w^2; `plain` fills only the first. */
    void (*tilt)(const void *s, int64_t rows, double c, const void *offset, bool plain, void *w,
                 double *sums);

    /* Move sums kept in the kernel's precision into f64: wide[i] += narrow[i], narrow[i] = 0. */
    void (*fold)(void *narrow, int64_t count, double *wide);

    /* Squares of weights, w (rows, lanes) -> out; exact zeros where w^2 would be no normal number.
     */
    void (*square)(const void *w, int64_t rows, void *out);

    /* Values around a centre: values (., rows, 4) packed, channels in groups of 4, centre
     * (channels)
     * -> out (., rows, 4), channels v - centre and one more, its squared length; the rest of the
     * last group is zero. */
    void (*centre)(const void *values, int64_t rows, int64_t channels, const double *centre,
                   void *out);

    /* A block of keys ends: n (channels, lanes) of the kernel's precision, z (lanes) its weights;
     * all others (channels, lanes): wide += n, cross += z n, square += n^2, n = 0. */
    void (*close)(void *n, const double *z, int64_t channels, double *wide, double *cross,
                  double *square);

    /* steps * 12 * lanes/3 multiply-adds in registers, for measuring the machine's peak. The result
     * means nothing. */
    double (*burn)(int64_t steps);
} es_kernels;

/*! es_kernels_find() : the kernels for a concrete instruction set; NULL if they are not built in.
 */
const es_kernels *es_kernels_find(es_isa isa, es_dtype dtype);

#endif
