/* layer_rows_template.h : what happens to the rows of hidden states between two products.
 *
 * Included once per precision by layer_rows.c, with REAL and NAME defined. Rows are contiguous;
 * sums are taken in f64, in a fixed order, so that a row has the same bits whoever computes it. */

/* A row per token: its word's, its type's (0; some architectures have none) and its place's, added
 * in this order. */
static void NAME(embed_table)(const es_model *m, const int32_t *ids, int64_t n, void *out_)
{
    const int64_t H = m->config.hidden;
    const REAL *words = m->word.w, *type = m->type.w, *position = m->position.w;
    REAL *out = out_;
    for (int64_t i = 0; i < n; i++, position += H, out += H) {
        const REAL *word = words + ids[i] * H;
        for (int64_t j = 0; j < H; j++)
            out[j] = type ? word[j] + type[j] + position[j] : word[j] + position[j];
    }
}

/* out (n, cols) = bias + residual, where residual may be NULL: what a product is then added to. */
static void NAME(begin)(const void *bias_, const void *residual_, int64_t n, int64_t cols,
                        void *out_)
{
    const REAL *bias = bias_, *residual = residual_;
    REAL *out = out_;
    for (int64_t i = 0; i < n; i++, out += cols) {
        for (int64_t j = 0; j < cols; j++)
            out[j] = bias[j];
        for (int64_t j = 0; residual && j < cols; j++)
            out[j] += residual[i * cols + j];
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

/* LayerNorm of each row, in place: y = (x - mean) / sqrt(variance + eps) scale + shift. Variance
 * takes a second pass: the difference of two sums would lose the digits of rows far from 0.
 * @return : false if a row is not finite. */
static bool NAME(norm_layer)(const es_linear *norm, double eps, int64_t n, int64_t cols, void *x_)
{
    const REAL *scale = norm->w, *shift = norm->b;
    REAL *x = x_;
    bool finite = true;
    for (int64_t i = 0; i < n; i++, x += cols) {
        const double mean = NAME(sum)(x, cols, 0.0, false) / (double)cols;
        const double variance = NAME(sum)(x, cols, mean, true) / (double)cols;
        const REAL centre = (REAL)mean, factor = (REAL)(1.0 / sqrt(variance + eps));
        finite = finite && isfinite(variance);
        for (int64_t j = 0; j < cols; j++)
            x[j] = (x[j] - centre) * factor * scale[j] + shift[j];
    }
    return finite;
}

/* One head's outputs (n, k) into its columns of the layer's (n, H). */
static void NAME(place)(const double *head, int64_t n, int64_t k, int64_t H, void *out_)
{
    REAL *out = out_;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < k; j++)
            out[i * H + j] = (REAL)head[i * k + j];
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

const es_rows NAME(es_rows) = {.embed = {[ES_POSITIONS_TABLE] = NAME(embed_table)},
                               .begin = NAME(begin),
                               .norm = {[ES_NORM_LAYER] = NAME(norm_layer)},
                               .place = NAME(place)};
