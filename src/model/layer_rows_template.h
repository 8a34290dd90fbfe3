/* SPDX-License-Identifier: Apache-2.0 */
/* layer_rows_template.h : what happens to the rows of hidden states between two products.
 *
 * Included once per precision by layer_rows.c, with REAL and NAME defined. Rows are contiguous;
 * sums are taken in f64, in a fixed order, so that a row has the same bits whoever computes it. */

/* A row per token: its word's, its type's (0; some architectures have none) and its place's (where
 * positions are added), in this order. Word i is row ids[i] of `words`; without ids it is row i,
 * and `words` may be `out`. */
static void NAME(embed)(const es_model *m, const void *words_, const int32_t *ids, int64_t n,
                        void *out_)
{
    const int64_t H = m->config.hidden;
    const REAL *words = words_, *type = m->type.w, *position = m->position.w;
    const REAL factor = (REAL)m->config.embed_factor;
    REAL *out = out_;
    for (int64_t i = 0; i < n; i++, out += H) {
        const REAL *word = words + (ids ? ids[i] : i) * H;
        for (int64_t j = 0; j < H; j++)
            out[j] = type ? factor * word[j] + type[j] : factor * word[j];
        for (int64_t j = 0; position && j < H; j++)
            out[j] += position[i * H + j];
    }
}

/* out (n, cols) = bias + residual, where residual may be NULL, or out itself: what a product is
 * then added to. */
static void NAME(begin)(const void *bias_, const void *residual_, int64_t n, int64_t cols,
                        void *out_)
{
    const REAL *bias = bias_, *residual = residual_;
    REAL *out = out_;
    for (int64_t i = 0; i < n; i++, out += cols) {
        for (int64_t j = 0; j < cols; j++)
            out[j] = residual ? bias[j] + residual[i * cols + j] : bias[j];
    }
}

/* sum_j (x_j - centre)^power for power 1 or 2, as four sums so that additions overlap. */
static double NAME(sum)(const REAL *x, int64_t count, double centre, bool squared)
{
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
        for (int s = 0; s < 4; s++) {
            const double c = (double)x[j + s] - centre;
            sum[s] += squared ? c * c : c;
        }
    }
    for (; j < count; j++) {
        const double c = (double)x[j] - centre;
        sum[0] += squared ? c * c : c;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* LayerNorm of each row: y = (x - mean) / sqrt(variance + eps) scale + shift; out may be x.
 * Variance takes a second pass: the difference of two sums would lose the digits of rows far from
 * 0. @return : false if a row is not finite. */
static bool NAME(norm_layer)(const es_linear *norm, double eps, int64_t n, int64_t cols,
                             const void *x_, void *out_)
{
    const REAL *scale = norm->w, *shift = norm->b, *x = x_;
    REAL *out = out_;
    bool finite = true;
    for (int64_t i = 0; i < n; i++, x += cols, out += cols) {
        const double mean = NAME(sum)(x, cols, 0.0, false) / (double)cols;
        const double variance = NAME(sum)(x, cols, mean, true) / (double)cols;
        const REAL centre = (REAL)mean, factor = (REAL)(1.0 / sqrt(variance + eps));
        finite = finite && isfinite(variance);
        for (int64_t j = 0; j < cols; j++)
            out[j] = (x[j] - centre) * factor * scale[j] + shift[j];
    }
    return finite;
}

/* y = x / sqrt(mean of squares + eps) scale. */
static bool NAME(norm_rms)(const es_linear *norm, double eps, int64_t n, int64_t cols,
                           const void *x_, void *out_)
{
    const REAL *scale = norm->w, *x = x_;
    REAL *out = out_;
    bool finite = true;
    for (int64_t i = 0; i < n; i++, x += cols, out += cols) {
        const double square = NAME(sum)(x, cols, 0.0, true) / (double)cols;
        const REAL factor = (REAL)(1.0 / sqrt(square + eps));
        finite = finite && isfinite(square);
        for (int64_t j = 0; j < cols; j++)
            out[j] = x[j] * factor * scale[j];
    }
    return finite;
}

/* The same of each head's own channels, or of all heads of a row together, as the architecture
 * says. */
static void NAME(norm_heads)(const es_arch *arch, const es_linear *norm, double eps,
                             const es_head_rows *r)
{
    const bool wide = arch->head_norm == ES_HEAD_NORM_WIDE,
               own = arch->head_norm == ES_HEAD_NORM_OWN;
    const int64_t heads = wide ? 1 : r->heads, k = wide ? r->heads * r->k : r->k;
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t head = 0; head < heads; head++) {
            REAL *x = (REAL *)r->x + i * r->stride + head * k;
            const es_linear scale = {(REAL *)norm->w + (own ? head * k : 0), norm->b};
            if (arch->norm == ES_NORM_LAYER)
                NAME(norm_layer)(&scale, eps, 1, k, x, x);
            else
                NAME(norm_rms)(&scale, eps, 1, k, x, x);
        }
    }
}

/* A point of a plane is turned: (x, y) becomes (x cos - y sin, y cos + x sin). */
static inline void NAME(turn_point)(REAL *x, REAL *y, double cosine_, double sine_)
{
    const REAL cosine = (REAL)cosine_, sine = (REAL)sine_, before = *x;
    *x = before * cosine - *y * sine;
    *y = *y * cosine + before * sine;
}

/* Channels c and c + width/2 of each head, or, in pairs, 2c and 2c + 1, are a point of a plane,
 * turned by the angle of row i. */
static void NAME(turn)(const es_head_rows *r, const es_rotary *rotary, const double *cosines,
                       const double *sines)
{
    const int64_t half = rotary->width / 2;
    for (int64_t i = 0; i < r->n; i++, cosines += half, sines += half) {
        for (int64_t head = 0; head < r->heads; head++) {
            REAL *x = (REAL *)r->x + i * r->stride + head * r->k;
            for (int64_t c = 0; c < half && rotary->pairs; c++)
                NAME(turn_point)(x + 2 * c, x + 2 * c + 1, cosines[c], sines[c]);
            for (int64_t c = 0; c < half && !rotary->pairs; c++)
                NAME(turn_point)(x + c, x + half + c, cosines[c], sines[c]);
        }
    }
}

/* Row i of each head times factor[i]. */
static void NAME(scale)(const es_head_rows *r, const double *factor)
{
    for (int64_t i = 0; i < r->n; i++) {
        REAL *x = (REAL *)r->x + i * r->stride;
        for (int64_t j = 0; j < r->heads * r->k; j++)
            x[j] *= (REAL)factor[i];
    }
}

/* Rows are (gate, up) of `cols` numbers each, and become f(gate) up, closed up to (n, cols) in the
 * same memory: a row's result ends before the next row that is still to be read begins. */
static void NAME(gate)(es_activate activate, const es_gelu_table *table, int64_t n, int64_t cols,
                       void *pairs)
{
    REAL *out = pairs, *gate = pairs;
    for (int64_t i = 0; i < n; i++, out += cols, gate += 2 * cols) {
        activate(table, gate, cols);
        for (int64_t j = 0; j < cols; j++)
            out[j] = gate[j] * gate[cols + j];
    }
}

/* x += factor branch. */
static void NAME(add)(const void *branch_, double factor, int64_t count, void *x_)
{
    const REAL *branch = branch_;
    REAL *x = x_;
    for (int64_t i = 0; i < count; i++)
        x[i] += (REAL)factor * branch[i];
}

/* A logit z becomes factor z, and cap tanh(factor z / cap) where there is a cap. */
static void NAME(finish_logits)(double factor, double cap, int64_t count, void *logits_)
{
    REAL *logits = logits_;
    for (int64_t i = 0; i < count; i++) {
        const double z = factor * (double)logits[i];
        logits[i] = (REAL)(cap > 0.0 ? cap * tanh(z / cap) : z);
    }
}

/* One head's outputs (n, k) into its columns of the layer's (n, width). */
static void NAME(place)(const double *head, int64_t n, int64_t k, int64_t width, void *out_)
{
    REAL *out = out_;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < k; j++)
            out[i * width + j] = (REAL)head[i * k + j];
    }
}

/* nll[i] = ln sum_t exp(logits_it) - logits_i,next[i], sums in f64. */
static void NAME(surprise)(const void *logits_, int64_t n, int64_t vocab, const int32_t *next,
                           double *nll)
{
    const REAL *logits = logits_;
    for (int64_t i = 0; i < n; i++, logits += vocab) {
        REAL most = logits[0];
        double sum = 0.0;
        for (int64_t t = 1; t < vocab; t++)
            most = logits[t] > most ? logits[t] : most;
        for (int64_t t = 0; t < vocab; t++)
            sum += (double)NAME(power)(logits[t] - most);
        nll[i] = log(sum) + (double)most - (double)logits[next[i]];
    }
}

/* Of a few numbers, so that the C library's will do. */
static void NAME(tanh)(const es_gelu_table *table, void *x_, int64_t count)
{
    REAL *x = x_;
    (void)table;
    for (int64_t i = 0; i < count; i++)
        x[i] = (REAL)tanh((double)x[i]);
}

const es_row_kernels NAME(es_row_kernels) = {
    .embed = NAME(embed),
    .begin = NAME(begin),
    .norm = {[ES_NORM_LAYER] = NAME(norm_layer), [ES_NORM_RMS] = NAME(norm_rms)},
    .norm_heads = NAME(norm_heads),
    .turn = NAME(turn),
    .scale = NAME(scale),
    .gate = NAME(gate),
    .add = NAME(add),
    .finish_logits = NAME(finish_logits),
    .place = NAME(place),
    .surprise = NAME(surprise)};
