/* SPDX-License-Identifier: Apache-2.0 */
/* few_template.h : the tiles for few queries, written once for every CPU and both precisions.
 *
 * Included by tile_template.h, whose vector operations and accumulators it uses, and needs of the
 * including file besides
 *     V_LOADU(p)              any alignment
 *     MASK, V_MASK(count)     stands for the first `count` elements of a register, 0 to WIDTH
 *     V_PART(p, mask)         those at p, zeros beyond, which are not read
 *     V_SUM4(a, b, c, d, p)   p[0..3] = sums of the elements of a, b, c and d
 *
 * Here the elements of a row lie in a register's lanes. The register block is that of the panels:
 * four rows c0., c1., c2., c3. of up to three accumulators, one column for each query.
 *
 * Rows are read from memory once. The first group takes the one or two queries that remain after
 * division by three; it reads rows from front to back, prefetches later ones and checks whether all
 * values are finite, for which it has registers left. All other queries follow in groups of three
 * and find the rows in the cache. If the number of queries is a multiple of three, the first group
 * of three does this instead. */

static inline MASK TILE(few_mask)(int64_t count)
{
    return V_MASK(count < 0 ? 0 : count > WIDTH ? WIDTH : (int)count);
}

static inline double TILE(few_sum)(V s0, V s1, V s2, V s3)
{
    REAL sums[4];
    V_SUM4(s0, s1, s2, s3, sums);
    return ((double)sums[0] + (double)sums[1]) + ((double)sums[2] + (double)sums[3]);
}

/* Checks for NaN and Inf: both stay in a sum of squares to the end, so that one multiply-add per
 * element suffices, and the sum bounds every element and every row. */
static double TILE(squares)(const void *x_, int64_t stride, int64_t rows, int64_t cols)
{
    const REAL *x = x_;
    const MASK last = TILE(few_mask)(cols % WIDTH);
    V s0 = V_ZERO(), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t r = 0; r < rows; r++, x += stride) {
        int64_t i = 0;
        for (; i + 4 * WIDTH <= cols; i += 4 * WIDTH) {
            const V x0 = V_LOADU(x + i), x1 = V_LOADU(x + i + WIDTH);
            const V x2 = V_LOADU(x + i + 2 * WIDTH), x3 = V_LOADU(x + i + 3 * WIDTH);
            V_FMA_INTO(s0, x0, x0);
            V_FMA_INTO(s1, x1, x1);
            V_FMA_INTO(s2, x2, x2);
            V_FMA_INTO(s3, x3, x3);
        }
        for (; i + WIDTH <= cols; i += WIDTH) {
            const V x0 = V_LOADU(x + i);
            V_FMA_INTO(s0, x0, x0);
        }
        if (i < cols) {
            const V x0 = V_PART(x + i, last);
            V_FMA_INTO(s1, x0, x0);
        }
    }
    return TILE(few_sum)(s0, s1, s2, s3);
}

/* Rows that are FEW_AHEAD bytes of rows away are asked for, so that memory does not rest while the
 * CPU adds up and makes weights, and where pages end, before which the CPU stops looking ahead. */
#define FEW_AHEAD 4096

static inline int64_t TILE(few_ahead)(int64_t cols, int64_t stride)
{
    const int64_t bytes = cols * (int64_t)sizeof(REAL);
    return (FEW_AHEAD + bytes - 1) / bytes * stride;
}

/* Row r against the columns a0, a1, a2 of which `cols`, a constant, exist. `squares` (4): sums of
 * the squares of each row, or NULL. */
#define FEW_FMAS(r, x)                                                                             \
    do {                                                                                           \
        const V each = (x);                                                                        \
        if (cols > 0)                                                                              \
            V_FMA_INTO(c##r##0, a0, each);                                                         \
        if (cols > 1)                                                                              \
            V_FMA_INTO(c##r##1, a1, each);                                                         \
        if (cols > 2)                                                                              \
            V_FMA_INTO(c##r##2, a2, each);                                                         \
        if (squares)                                                                               \
            V_FMA_INTO(s##r, each, each);                                                          \
    } while (0)
#define FEW_SQUARES(r) V s##r = squares ? squares[r] : V_ZERO()
#define FEW_CLOSE()                                                                                \
    do {                                                                                           \
        if (squares) {                                                                             \
            squares[0] = s0;                                                                       \
            squares[1] = s1;                                                                       \
            squares[2] = s2;                                                                       \
            squares[3] = s3;                                                                       \
        }                                                                                          \
    } while (0)

#define FEW_COLUMNS(LOAD)                                                                          \
    const V a0 = cols > 0 ? LOAD(q + i) : V_ZERO(), a1 = cols > 1 ? LOAD(q + d + i) : a0;          \
    const V a2 = cols > 2 ? LOAD(q + 2 * d + i) : a0
#define FEW_LAST(p) V_PART(p, last)

/* Four rows side by side. */
#define FEW_STEP(LOAD)                                                                             \
    do {                                                                                           \
        FEW_COLUMNS(LOAD);                                                                         \
        FEW_FMAS(0, LOAD(k0 + i));                                                                 \
        FEW_FMAS(1, LOAD(k1 + i));                                                                 \
        FEW_FMAS(2, LOAD(k2 + i));                                                                 \
        FEW_FMAS(3, LOAD(k3 + i));                                                                 \
    } while (0)

/* One row from front to back. */
#define FEW_ROW(r)                                                                                 \
    do {                                                                                           \
        int64_t i = 0;                                                                             \
        for (; i + WIDTH <= d; i += WIDTH) {                                                       \
            FEW_COLUMNS(V_LOADU);                                                                  \
            __builtin_prefetch(k##r + i + ahead, 0, 2);                                            \
            FEW_FMAS(r, V_LOADU(k##r + i));                                                        \
        }                                                                                          \
        if (i < d) {                                                                               \
            FEW_COLUMNS(FEW_LAST);                                                                 \
            __builtin_prefetch(k##r + i + ahead, 0, 2);                                            \
            FEW_FMAS(r, V_PART(k##r + i, last));                                                   \
        }                                                                                          \
    } while (0)

/* s (cols, pitch): the products of `cols` rows of q (., d) with four keys. */
static inline __attribute__((always_inline)) void
TILE(few_dots)(const REAL *q, int64_t d, int cols, const REAL *k0, const REAL *k1, const REAL *k2,
               const REAL *k3, int64_t ahead, V *squares, REAL *s, int64_t pitch)
{
    const MASK last = TILE(few_mask)(d % WIDTH);
    TILE_OPEN(0);
    TILE_OPEN(1);
    TILE_OPEN(2);
    TILE_OPEN(3);
    FEW_SQUARES(0);
    FEW_SQUARES(1);
    FEW_SQUARES(2);
    FEW_SQUARES(3);
    if (squares) {
        FEW_ROW(0);
        FEW_ROW(1);
        FEW_ROW(2);
        FEW_ROW(3);
    } else {
        int64_t i = 0;
        for (; i + WIDTH <= d; i += WIDTH)
            FEW_STEP(V_LOADU);
        if (i < d)
            FEW_STEP(FEW_LAST);
    }
    if (cols > 0)
        V_SUM4(c00, c10, c20, c30, s);
    if (cols > 1)
        V_SUM4(c01, c11, c21, c31, s + pitch);
    if (cols > 2)
        V_SUM4(c02, c12, c22, c32, s + 2 * pitch);
    FEW_CLOSE();
}

/* Processes four keys at a time for all queries. Where fewer than four are left, the last is
 * repeated. */
static double TILE(dots)(const void *q_, int64_t queries, int64_t d, const void *k_, int64_t stride,
                         int64_t keys, void *s_, int64_t pitch)
{
    const int64_t ahead = TILE(few_ahead)(d, stride);
    const REAL *q = q_, *k = k_;
    REAL *s = s_;
    V squares[4] = {V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO()};
    for (int64_t key = 0; key < keys; key += 4, k += 4 * stride, s += 4) {
        const int64_t rest = keys - key - 1;
        const REAL *k1 = k + (rest > 0 ? stride : 0), *k2 = k1 + (rest > 1 ? stride : 0),
                   *k3 = k2 + (rest > 2 ? stride : 0);
        if (queries % 3 == 0)
            TILE(few_dots)(q, d, 0, k, k1, k2, k3, ahead, squares, s, pitch);
        else if (queries % 3 == 1)
            TILE(few_dots)(q, d, 1, k, k1, k2, k3, ahead, squares, s, pitch);
        else
            TILE(few_dots)(q, d, 2, k, k1, k2, k3, ahead, squares, s, pitch);
        for (int64_t row = queries % 3; row < queries; row += 3)
            TILE(few_dots)(q + row * d, d, 3, k, k1, k2, k3, 0, NULL, s + row * pitch, pitch);
    }
    return TILE(few_sum)(squares[0], squares[1], squares[2], squares[3]);
}

#define FEW_GET(r)                                                                                 \
    V c##r##0 = add && cols > 0 ? V_LOAD(out + (r)*WIDTH) : V_ZERO();                              \
    V c##r##1 = add && cols > 1 ? V_LOAD(out + out_pitch + (r)*WIDTH) : V_ZERO();                  \
    V c##r##2 = add && cols > 2 ? V_LOAD(out + 2 * out_pitch + (r)*WIDTH) : V_ZERO()
#define FEW_PUT(r)                                                                                 \
    do {                                                                                           \
        if (cols > 0)                                                                              \
            V_STORE(out + (r)*WIDTH, c##r##0);                                                     \
        if (cols > 1)                                                                              \
            V_STORE(out + out_pitch + (r)*WIDTH, c##r##1);                                         \
        if (cols > 2)                                                                              \
            V_STORE(out + 2 * out_pitch + (r)*WIDTH, c##r##2);                                     \
    } while (0)

/* out (cols, out_pitch), 4*WIDTH channels: [out +] weights (cols, pitch) times values. `whole`: all
 * of those channels exist. */
static inline __attribute__((always_inline)) void
TILE(few_mix)(const REAL *w, int64_t pitch, int cols, const REAL *v, int64_t stride, int64_t keys,
              bool whole, int64_t channels, int64_t ahead, V *squares, bool add, REAL *out,
              int64_t out_pitch)
{
    const MASK m0 = TILE(few_mask)(channels), m1 = TILE(few_mask)(channels - WIDTH);
    const MASK m2 = TILE(few_mask)(channels - 2 * WIDTH), m3 = TILE(few_mask)(channels - 3 * WIDTH);
    FEW_GET(0);
    FEW_GET(1);
    FEW_GET(2);
    FEW_GET(3);
    FEW_SQUARES(0);
    FEW_SQUARES(1);
    FEW_SQUARES(2);
    FEW_SQUARES(3);
    for (int64_t key = 0; key < keys; key++, v += stride, w++) {
        const V a0 = cols > 0 ? V_ALL(w[0]) : V_ZERO(), a1 = cols > 1 ? V_ALL(w[pitch]) : a0;
        const V a2 = cols > 2 ? V_ALL(w[2 * pitch]) : a0;
        for (int i = 0; squares && i < 4 * WIDTH; i += 64 / (int)sizeof(REAL))
            __builtin_prefetch(v + ahead + i, 0, 2);
        FEW_FMAS(0, whole ? V_LOADU(v) : V_PART(v, m0));
        FEW_FMAS(1, whole ? V_LOADU(v + WIDTH) : V_PART(v + WIDTH, m1));
        FEW_FMAS(2, whole ? V_LOADU(v + 2 * WIDTH) : V_PART(v + 2 * WIDTH, m2));
        FEW_FMAS(3, whole ? V_LOADU(v + 3 * WIDTH) : V_PART(v + 3 * WIDTH, m3));
    }
    FEW_PUT(0);
    FEW_PUT(1);
    FEW_PUT(2);
    FEW_PUT(3);
    FEW_CLOSE();
}

static inline __attribute__((always_inline)) void
TILE(few_mix_columns)(const REAL *w, int64_t pitch, int cols, const REAL *v, int64_t stride,
                      int64_t keys, int64_t channels, int64_t ahead, V *squares, bool add,
                      REAL *out, int64_t out_pitch)
{
    if (channels >= 4 * WIDTH) {
        TILE(few_mix)
        (w, pitch, cols, v, stride, keys, true, channels, ahead, squares, add, out, out_pitch);
    } else {
        TILE(few_mix)
        (w, pitch, cols, v, stride, keys, false, channels, ahead, squares, add, out, out_pitch);
    }
}

/* Some keys, as many as the nearest cache holds, meet all queries and channels; then the next.
 * Where a register block has all channels, those are all keys. */
static double TILE(mix)(const void *w_, int64_t pitch, int64_t queries, const void *v_,
                        int64_t stride, int64_t keys, int64_t channels, void *out_,
                        int64_t out_pitch)
{
    const int64_t ahead = TILE(few_ahead)(channels, stride);
    const int64_t some = channels <= 4 * WIDTH ? keys : TILE(few_ahead)(channels, 1);
    V squares[4] = {V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO()};
    for (int64_t key = 0; key < keys; key += some) {
        const int64_t here = keys - key < some ? keys - key : some;
        const bool add = key > 0;
        for (int64_t c = 0; c < channels; c += 4 * WIDTH) {
            const REAL *w = (const REAL *)w_ + key, *v = (const REAL *)v_ + key * stride + c;
            REAL *out = (REAL *)out_ + c;
            if (queries % 3 == 0) {
                TILE(few_mix_columns)
                (w, pitch, 0, v, stride, here, channels - c, ahead, squares, add, out, out_pitch);
            } else if (queries % 3 == 1) {
                TILE(few_mix_columns)
                (w, pitch, 1, v, stride, here, channels - c, ahead, squares, add, out, out_pitch);
            } else {
                TILE(few_mix_columns)
                (w, pitch, 2, v, stride, here, channels - c, ahead, squares, add, out, out_pitch);
            }
            for (int64_t row = queries % 3; row < queries; row += 3) {
                TILE(few_mix_columns)
                (w + row * pitch, pitch, 3, v, stride, here, channels - c, 0, NULL, add,
                 out + row * out_pitch, out_pitch);
            }
        }
    }
    return TILE(few_sum)(squares[0], squares[1], squares[2], squares[3]);
}

#undef FEW_AHEAD
#undef FEW_FMAS
#undef FEW_SQUARES
#undef FEW_CLOSE
#undef FEW_COLUMNS
#undef FEW_LAST
#undef FEW_STEP
#undef FEW_ROW
#undef FEW_GET
#undef FEW_PUT
