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
 * four rows c0., c1., c2., c3. of up to three accumulators, one column for each query. */

/* Four rows x0..x3 against the columns a0, a1, a2 of which `cols`, a constant, exist. */
#define FEW_FMAS(r, x)                                                                             \
    do {                                                                                           \
        const V each = (x);                                                                        \
        V_FMA_INTO(c##r##0, a0, each);                                                             \
        if (cols > 1)                                                                              \
            V_FMA_INTO(c##r##1, a1, each);                                                         \
        if (cols > 2)                                                                              \
            V_FMA_INTO(c##r##2, a2, each);                                                         \
    } while (0)

static inline MASK TILE(few_mask)(int64_t count)
{
    return V_MASK(count < 0 ? 0 : count > WIDTH ? WIDTH : (int)count);
}

#define FEW_DOTS_STEP(LOAD)                                                                        \
    do {                                                                                           \
        const V a0 = LOAD(q + i), a1 = cols > 1 ? LOAD(q + d + i) : a0;                            \
        const V a2 = cols > 2 ? LOAD(q + 2 * d + i) : a0;                                          \
        FEW_FMAS(0, LOAD(k0 + i));                                                                 \
        FEW_FMAS(1, LOAD(k1 + i));                                                                 \
        FEW_FMAS(2, LOAD(k2 + i));                                                                 \
        FEW_FMAS(3, LOAD(k3 + i));                                                                 \
    } while (0)
#define FEW_LAST(p) V_PART(p, last)

/* s (cols, pitch): the products of `cols` rows of q (., d) with four keys. */
static inline __attribute__((always_inline)) void TILE(few_dots)(const REAL *q, int64_t d, int cols,
                                                                 const REAL *k0, const REAL *k1,
                                                                 const REAL *k2, const REAL *k3,
                                                                 REAL *s, int64_t pitch)
{
    TILE_OPEN(0);
    TILE_OPEN(1);
    TILE_OPEN(2);
    TILE_OPEN(3);
    int64_t i = 0;
    for (; i + WIDTH <= d; i += WIDTH)
        FEW_DOTS_STEP(V_LOADU);
    if (i < d) {
        const MASK last = TILE(few_mask)(d - i);
        FEW_DOTS_STEP(FEW_LAST);
    }
    V_SUM4(c00, c10, c20, c30, s);
    if (cols > 1)
        V_SUM4(c01, c11, c21, c31, s + pitch);
    if (cols > 2)
        V_SUM4(c02, c12, c22, c32, s + 2 * pitch);
}

/* Four keys at a time meet all queries, so that keys come from far away once. Where fewer than four
 * are left, the last stands for those that are not there. */
static void TILE(dots)(const void *q_, int64_t queries, int64_t d, const void *k_, int64_t stride,
                       int64_t keys, void *s_, int64_t pitch)
{
    const REAL *k = k_;
    REAL *s = s_;
    for (int64_t key = 0; key < keys; key += 4, k += 4 * stride, s += 4) {
        const int64_t rest = keys - key - 1;
        const REAL *k1 = k + (rest > 0 ? stride : 0), *k2 = k1 + (rest > 1 ? stride : 0),
                   *k3 = k2 + (rest > 2 ? stride : 0);
        const REAL *q = q_;
        int64_t row = 0;
        for (; row + 3 <= queries; row += 3)
            TILE(few_dots)(q + row * d, d, 3, k, k1, k2, k3, s + row * pitch, pitch);
        if (queries - row == 2)
            TILE(few_dots)(q + row * d, d, 2, k, k1, k2, k3, s + row * pitch, pitch);
        else if (queries - row == 1)
            TILE(few_dots)(q + row * d, d, 1, k, k1, k2, k3, s + row * pitch, pitch);
    }
}

/* out (cols, out_pitch), 4*WIDTH channels: weights (cols, pitch) times values. `whole`: all of
 * those channels exist. */
static inline __attribute__((always_inline)) void
TILE(few_mix)(const REAL *w, int64_t pitch, int cols, const REAL *v, int64_t stride, int64_t keys,
              bool whole, int64_t channels, REAL *out, int64_t out_pitch)
{
    const MASK m0 = TILE(few_mask)(channels), m1 = TILE(few_mask)(channels - WIDTH);
    const MASK m2 = TILE(few_mask)(channels - 2 * WIDTH), m3 = TILE(few_mask)(channels - 3 * WIDTH);
    TILE_OPEN(0);
    TILE_OPEN(1);
    TILE_OPEN(2);
    TILE_OPEN(3);
    for (int64_t key = 0; key < keys; key++, v += stride, w++) {
        const V a0 = V_ALL(w[0]), a1 = cols > 1 ? V_ALL(w[pitch]) : a0;
        const V a2 = cols > 2 ? V_ALL(w[2 * pitch]) : a0;
        FEW_FMAS(0, whole ? V_LOADU(v) : V_PART(v, m0));
        FEW_FMAS(1, whole ? V_LOADU(v + WIDTH) : V_PART(v + WIDTH, m1));
        FEW_FMAS(2, whole ? V_LOADU(v + 2 * WIDTH) : V_PART(v + 2 * WIDTH, m2));
        FEW_FMAS(3, whole ? V_LOADU(v + 3 * WIDTH) : V_PART(v + 3 * WIDTH, m3));
    }
#define FEW_PUT(r)                                                                                 \
    do {                                                                                           \
        V_STORE(out + (r)*WIDTH, c##r##0);                                                         \
        if (cols > 1)                                                                              \
            V_STORE(out + out_pitch + (r)*WIDTH, c##r##1);                                         \
        if (cols > 2)                                                                              \
            V_STORE(out + 2 * out_pitch + (r)*WIDTH, c##r##2);                                     \
    } while (0)
    FEW_PUT(0);
    FEW_PUT(1);
    FEW_PUT(2);
    FEW_PUT(3);
}

static inline __attribute__((always_inline)) void
TILE(few_mix_columns)(const REAL *w, int64_t pitch, int cols, const REAL *v, int64_t stride,
                      int64_t keys, int64_t channels, REAL *out, int64_t out_pitch)
{
    if (channels >= 4 * WIDTH)
        TILE(few_mix)(w, pitch, cols, v, stride, keys, true, channels, out, out_pitch);
    else
        TILE(few_mix)(w, pitch, cols, v, stride, keys, false, channels, out, out_pitch);
}

static void TILE(mix)(const void *w_, int64_t pitch, int64_t queries, const void *v_,
                      int64_t stride, int64_t keys, int64_t channels, void *out_, int64_t out_pitch)
{
    for (int64_t c = 0; c < channels; c += 4 * WIDTH) {
        const REAL *w = w_, *v = (const REAL *)v_ + c;
        REAL *out = (REAL *)out_ + c;
        int64_t row = 0;
        for (; row + 3 <= queries; row += 3, w += 3 * pitch, out += 3 * out_pitch)
            TILE(few_mix_columns)(w, pitch, 3, v, stride, keys, channels - c, out, out_pitch);
        if (queries - row == 2)
            TILE(few_mix_columns)(w, pitch, 2, v, stride, keys, channels - c, out, out_pitch);
        else if (queries - row == 1)
            TILE(few_mix_columns)(w, pitch, 1, v, stride, keys, channels - c, out, out_pitch);
    }
}

/* NaN and Inf stay in a sum of squares to the end: one multiply-add per element tells whether all
 * are finite, and bounds every element and every row. */
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
    REAL sums[4];
    V_SUM4(s0, s1, s2, s3, sums);
    return ((double)sums[0] + (double)sums[1]) + ((double)sums[2] + (double)sums[3]);
}

#undef FEW_FMAS
#undef FEW_DOTS_STEP
#undef FEW_LAST
#undef FEW_PUT
