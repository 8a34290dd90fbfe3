/* SPDX-License-Identifier: Apache-2.0 */
/* probe_truth.h : a small random model (tiny_model.h), a pool of it, and the probe's answers by
 * plain f64 loops over all of the pool's tokens. Layer 0 has small scores, layer 1 such that they
 * matter, layer 2 is frozen. */
#ifndef ES_TESTS_PROBE_TRUTH_H
#define ES_TESTS_PROBE_TRUTH_H

#include "testing.h"

#include "experiments/kit/probe_inside.h"
#include "random/random.h"
#include "tiny_pool.h"

enum { H = 12, K = 4, HEADS = 3, LAYERS = 3, QUERIES = 24, WORDS = 7900, SIZES = 2 };
static const int64_t sizes[SIZES] = {40, 600};
static es_pool *pool;
static int64_t tokens;

static inline es_probe_spec spec_of(const es_exec *exec)
{
    return (es_probe_spec){.model = model,
                           .pool = pool,
                           .sizes = sizes,
                           .n_sizes = SIZES,
                           .queries = QUERIES,
                           .seed = 11,
                           .exec = exec};
}

static inline int set_up(void **state)
{
    static int32_t ids[WORDS];
    static const double factor[LAYERS] = {1.0, 16.0, 128.0}; /* exact in f32 */
    if (make_folder(state) != 0)
        return -1;
    tiny_of_pool = tiny_default();
    tiny_draw(&tiny_of_pool);
    for (int l = 0; l < LAYERS; l++)
        for (int part = 0; part < 2; part++) {
            char name[96];
            snprintf(name, sizeof name, "encoder.layer.%d.attention.self.query.%s", l,
                     part ? "bias" : "weight");
            double *w = (double *)(uintptr_t)tiny_find(&tiny_of_pool, "", name);
            for (int i = 0; i < (part ? H : H * H); i++)
                w[i] *= factor[l];
        }
    open_model_of(&tiny_of_pool);
    write_words("text", 5, WORDS, ids);
    const es_pool_spec spec = pool_spec_of("text", "pool");
    if (es_pool_build(&spec, NULL, &err) != ES_OK ||
        es_pool_open(spec.folder, &pool, &err) != ES_OK)
        return -1;
    tokens = es_pool_about(pool).tokens;
    return 0;
}

static inline int tear_down(void **state)
{
    es_pool_close(pool);
    remove_pool("pool");
    return remove_model_folder(state);
}

/* ---- the loops ---- */

/* One layer in f64: inputs, moments, queries, and keys and values of every head side by side. */
typedef struct truth {
    double *x, *keys, *values; /* (tokens, H) */
    double mean[H], cov[H * H];
    double q[QUERIES * H];
    double wq[H * H], wk[H * H], wv[H * H], wo[H * H], bq[H]; /* rows: output channels */
    double limit[QUERIES * H];
} truth;

static inline void product(const double *x, int64_t n, const double *w, const double *bias,
                           double *out)
{
    for (int64_t i = 0; i < n; i++)
        for (int o = 0; o < H; o++) {
            double sum = bias ? bias[o] : 0.0;
            for (int c = 0; c < H; c++)
                sum += w[o * H + c] * x[i * H + c];
            out[i * H + o] = sum;
        }
}

/* Weights w (n) that query i of head h gives tokens rows[0 .. n). */
static inline void weights_of(const truth *t, int i, int h, const int64_t *rows, int64_t n,
                              double *w)
{
    double most = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        w[j] = 0.0;
        for (int c = h * K; c < (h + 1) * K; c++)
            w[j] += t->q[i * H + c] * t->keys[rows[j] * H + c] / sqrt((double)K);
        most = fmax(most, w[j]);
    }
    for (int64_t j = 0; j < n; j++)
        sum += w[j] = exp(w[j] - most);
    for (int64_t j = 0; j < n; j++)
        w[j] /= sum;
}

/* Attention of every query over tokens rows[0 .. n), all heads, into out (QUERIES, H). */
static inline void attend(const truth *t, const int64_t *rows, int64_t n, double *out)
{
    double *w = malloc((size_t)n * sizeof *w);
    for (int i = 0; i < QUERIES; i++)
        for (int h = 0; h < HEADS; h++) {
            weights_of(t, i, h, rows, n, w);
            for (int c = h * K; c < (h + 1) * K; c++) {
                out[i * H + c] = 0.0;
                for (int64_t j = 0; j < n; j++)
                    out[i * H + c] += w[j] * t->values[rows[j] * H + c];
            }
        }
    free(w);
}

static inline void copy_weights(int64_t layer, truth *t)
{
    static const char *const names[] = {
        "attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight",
        "attention.output.dense.weight", "attention.self.query.bias"};
    double *to[] = {t->wq, t->wk, t->wv, t->wo, t->bq};
    char name[96];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "encoder.layer.%d.%s", (int)layer, names[i]);
        memcpy(to[i], tiny_find(&tiny_of_pool, "", name), (i < 4 ? H * H : H) * sizeof(double));
    }
}

static inline void moments_of(truth *t)
{
    memset(t->mean, 0, sizeof t->mean);
    memset(t->cov, 0, sizeof t->cov);
    for (int64_t i = 0; i < tokens * H; i++)
        t->mean[i % H] += t->x[i] / (double)tokens;
    for (int64_t i = 0; i < tokens; i++)
        for (int a = 0; a < H; a++)
            for (int b = 0; b < H; b++)
                t->cov[a * H + b] += (t->x[i * H + a] - t->mean[a]) *
                                     (t->x[i * H + b] - t->mean[b]) / (double)tokens;
}

static inline void truth_open(int64_t layer, truth *t)
{
    float *x = malloc((size_t)(tokens * H) * sizeof *x);
    int64_t *all = malloc((size_t)tokens * sizeof *all);
    double picked[QUERIES * H];
    const es_address at = {.seed = 11, .experiment = ES_PROBE_QUERIES, .cell = (uint64_t)layer};
    es_permutation shuffle;
    t->x = malloc((size_t)(3 * tokens * H) * sizeof *t->x);
    t->keys = t->x + tokens * H;
    t->values = t->keys + tokens * H;
    assert_ok(es_pool_rows(pool, layer, 0, tokens, x, &err));
    for (int64_t i = 0; i < tokens * H; i++)
        t->x[i] = (double)x[i];
    copy_weights(layer, t);
    moments_of(t);
    product(t->x, tokens, t->wk, NULL, t->keys);
    product(t->x, tokens, t->wv, NULL, t->values);
    assert_ok(es_permutation_init(&at, tokens, &shuffle, &err));
    for (int i = 0; i < QUERIES; i++)
        memcpy(picked + i * H, t->x + es_permutation_at(&shuffle, i) * H, H * sizeof *picked);
    product(picked, QUERIES, t->wq, t->bq, t->q);
    for (int64_t i = 0; i < tokens; i++)
        all[i] = i;
    attend(t, all, tokens, t->limit);
    free(all);
    free(x);
}

/* Mean, covariance and map error of one head's outputs a against b. */
static inline es_probe_cell errors_of(const double *a, const double *b, int h)
{
    es_probe_cell e = {0};
    double mean[2][K] = {{0}}, cov[2][K * K] = {{0}};
    const double *both[2] = {a, b};
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < QUERIES * K; i++)
            mean[s][i % K] += both[s][i / K * H + h * K + i % K] / QUERIES;
        for (int i = 0; i < QUERIES; i++)
            for (int c = 0; c < K * K; c++)
                cov[s][c] += (both[s][i * H + h * K + c / K] - mean[s][c / K]) *
                             (both[s][i * H + h * K + c % K] - mean[s][c % K]) / QUERIES;
    }
    for (int c = 0; c < K; c++)
        e.mean_error += pow(mean[0][c] - mean[1][c], 2);
    for (int c = 0; c < K * K; c++)
        e.cov_error += pow(cov[0][c] - cov[1][c], 2);
    for (int i = 0; i < QUERIES * K; i++)
        e.map_error += pow(a[i / K * H + h * K + i % K] - b[i / K * H + h * K + i % K], 2);
    return (es_probe_cell){sqrt(e.mean_error), sqrt(e.cov_error), sqrt(e.map_error / QUERIES)};
}

static inline void same_errors(es_probe_cell got, es_probe_cell want, double tolerance)
{
    assert_near(got.mean_error, want.mean_error, tolerance);
    assert_near(got.cov_error, want.cov_error, tolerance);
    assert_near(got.map_error, want.map_error, tolerance);
}

/* The kernels are f32: a score of up to s, 64 times larger in layer 2 than in 1, is rounded to
 * s 2^-24, and outputs of order 1 follow. Scores reach about 2, 30 and 250. */
static const double tolerance_of[LAYERS] = {2e-6, 1e-5, 1e-4};

static inline es_probe *probe_of(const es_probe_spec *spec, int64_t layer, double *numbers)
{
    es_probe *probe;
    assert_ok(es_probe_measure(spec, layer, numbers, &err));
    assert_ok(es_probe_open(spec, layer, numbers, &probe, &err));
    return probe;
}

static inline double *new_numbers(const es_probe_spec *spec)
{
    double *numbers = malloc((size_t)es_probe_numbers(spec) * sizeof *numbers);
    assert_non_null(numbers);
    return numbers;
}

#endif
