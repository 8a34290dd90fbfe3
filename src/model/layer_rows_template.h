/* SPDX-License-Identifier: Apache-2.0 */
/* layer_rows_template.h : the row-wise steps between two matrix products.
 *
 * Included once per precision by layer_rows.c, with REAL and NAME defined. Rows are contiguous.
 * Sums are taken in f64 in a fixed order: a row has the same bits on any thread. */

/* Adds the embeddings of each token's word, type (0; some architectures have none) and position
 * (where positions are added), in this order. For a streamed model, `out` already holds the rows
 * of the words. */
static void NAME(embed)(const es_model *m, const int32_t *ids, int64_t n, void *out_)
{
    const int64_t H = m->config.hidden, first = m->config.first_position;
    const REAL *words = m->word.w, *type = m->type.w, *position = m->position.w;
    const REAL factor = (REAL)m->config.embed_factor;
    REAL *out = out_;
    int64_t next = first; /* row of the next token that is no padding */
    for (int64_t i = 0; i < n; i++, out += H) {
        const int64_t place = first && ids[i] == first - 1 ? first - 1 : next++;
        const REAL *word = words ? words + ids[i] * H : out;
        for (int64_t j = 0; j < H; j++)
            out[j] = type ? factor * word[j] + type[j] : factor * word[j];
        for (int64_t j = 0; position && j < H; j++)
            out[j] += position[place * H + j];
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

/* Rows are gate and up in turn, and become (up + 1) gate / (1 + e^(-1.702 gate)), both clipped. NaN
 * stays NaN: comparisons with it are false. */
static void NAME(gate_clipped)(es_activate activate, const es_gelu_table *table, int64_t n,
                               int64_t cols, void *pairs)
{
    const REAL most = (REAL)7.0, slope = (REAL)1.702;
    REAL *x = pairs;
    (void)activate;
    (void)table;
    for (int64_t i = 0; i < n * cols; i++) {
        const REAL gate = x[2 * i] > most ? most : x[2 * i];
        const REAL above = x[2 * i + 1] < -most ? -most : x[2 * i + 1];
        const REAL up = above > most ? most : above;
        x[i] = (up + (REAL)1.0) * (gate / ((REAL)1.0 + NAME(power)(-slope * gate)));
    }
}

/* The experts of one token, chosen (k), from the largest logit on; of equal ones the first. */
static void NAME(choose)(const REAL *logits, int64_t experts, int64_t k, int32_t *chosen)
{
    int64_t count = 0;
    for (int64_t e = 0; e < experts; e++) {
        int64_t at = count;
        while (at > 0 && logits[e] > logits[chosen[at - 1]])
            at--;
        count += count < k;
        for (int64_t t = count - 1; t > at; t--)
            chosen[t] = chosen[t - 1];
        if (at < k)
            chosen[at] = (int32_t)e;
    }
}

/* chosen (n, k) and share (n, k) of the experts that tokens use, by logits (n, experts). A softmax
 * over all experts whose chosen ones are divided by their sum is one over the chosen ones. */
static void NAME(route)(const es_model_config *c, const void *logits_, int64_t n, int32_t *chosen,
                        void *share_)
{
    const int64_t k = c->experts_used;
    const REAL *logits = logits_;
    REAL *share = share_;
    for (int64_t i = 0; i < n; i++, logits += c->experts, chosen += k, share += k) {
        double sum = 0.0;
        NAME(choose)(logits, c->experts, k, chosen);
        const double most = (double)logits[chosen[0]];
        for (int64_t e = 0; e < (c->shares_sum ? k : c->experts); e++)
            sum += exp((double)logits[c->shares_sum ? chosen[e] : e] - most);
        for (int64_t t = 0; t < k; t++)
            share[t] = (REAL)(exp((double)logits[chosen[t]] - most) / sum);
    }
}

/* Row t of out (n, cols) = row which[t] of rows. */
static void NAME(gather)(const void *rows, const int32_t *which, int64_t n, int64_t cols, void *out)
{
    for (int64_t t = 0; t < n; t++)
        memcpy((REAL *)out + t * cols, (const REAL *)rows + which[t] * cols,
               (size_t)cols * sizeof(REAL));
}

/* Row which[t] of out += factor[t] times row t of rows (n, cols). */
static void NAME(scatter)(const void *rows, const int32_t *which, const void *factor, int64_t n,
                          int64_t cols, void *out)
{
    for (int64_t t = 0; t < n; t++) {
        const REAL *from = (const REAL *)rows + t * cols, share = ((const REAL *)factor)[t];
        REAL *to = (REAL *)out + which[t] * cols;
        for (int64_t j = 0; j < cols; j++)
            to[j] += share * from[j];
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

/* out (cols) = the mean of the rows of x (n, cols), sums in f64. */
static void NAME(mean)(const void *x_, int64_t n, int64_t cols, void *out_)
{
    const REAL *x = x_;
    REAL *out = out_;
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i * cols + j];
        out[j] = (REAL)(sum / (double)n);
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
    .gate = {[ES_GATE_HALVES] = NAME(gate), [ES_GATE_CLIPPED] = NAME(gate_clipped)},
    .route = NAME(route),
    .gather = NAME(gather),
    .scatter = NAME(scatter),
    .add = NAME(add),
    .finish_logits = NAME(finish_logits),
    .place = NAME(place),
    .mean = NAME(mean),
    .surprise = NAME(surprise)};
