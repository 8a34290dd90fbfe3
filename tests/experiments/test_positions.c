/* SPDX-License-Identifier: Apache-2.0 */
/* test_positions.c : sums over the places of a causal head, against plain loops over all pairs of
 * query and key, with every weight in memory: heads that were made up, and those of tiny decoders
 * whose queries, keys and outputs an independent program has computed (tests/golden/README.md). */
#include "golden.h"

#include <esscher/npy.h>

#include "experiments/probe/positions.h"
#include "numbers.h"

/* ---- a head with all its weights ---- */

typedef struct dense {
    int64_t n, k, dv, window;
    double scale;
    const double *sink; /* logit of a learned sink; NULL: none */
    double *q, *key, *v, *plain_q, *plain_k;
    float *single[5];          /* the same numbers in f32 */
    double *score, *plain, *w; /* (n, n) 0 where nothing is seen */
    double *y, *entropy, *top, *squares, *lse;
    es_model_seen seen;
} dense;

static double dot(const double *a, const double *b, int64_t k)
{
    double sum = 0.0;
    for (int64_t c = 0; c < k; c++)
        sum += a[c] * b[c];
    return sum;
}

static bool sees(const dense *d, int64_t i, int64_t j)
{
    return j <= i && (!d->window || i - j < d->window);
}

/* The weight of the learned sink. */
static double learned(const dense *d, int64_t i)
{
    return d->sink ? exp(*d->sink - d->lse[i]) : 0.0;
}

/* Softmax over what a query sees and its statistics, as their definitions say. */
static void fill_query(dense *d, int64_t i)
{
    double *w = d->w + i * d->n, z = d->sink ? exp(*d->sink) : 0.0;
    for (int64_t j = 0; j < d->n; j++) {
        d->score[i * d->n + j] = d->scale * dot(d->q + i * d->k, d->key + j * d->k, d->k);
        d->plain[i * d->n + j] = d->scale * dot(d->plain_q + i * d->k, d->plain_k + j * d->k, d->k);
        w[j] = sees(d, i, j) ? exp(d->score[i * d->n + j]) : 0.0;
        z += w[j];
    }
    d->lse[i] = log(z);
    d->top[i] = learned(d, i);
    d->squares[i] = d->top[i] * d->top[i];
    d->entropy[i] = d->sink ? -d->top[i] * log(d->top[i]) : 0.0;
    for (int64_t j = 0; j < d->n; j++) {
        w[j] /= z;
        d->entropy[i] -= w[j] > 0.0 ? w[j] * log(w[j]) : 0.0;
        d->squares[i] += w[j] * w[j];
        d->top[i] = fmax(d->top[i], w[j]);
        for (int64_t c = 0; c < d->dv; c++)
            d->y[i * d->dv + c] += w[j] * d->v[j * d->dv + c];
    }
}

static double *new_numbers(int64_t count) { return calloc((size_t)count, sizeof(double)); }

/* Weights and statistics of all queries, from what q and keys there are. */
static void fill(dense *d)
{
    const int64_t n = d->n;
    d->score = new_numbers(n * n), d->plain = new_numbers(n * n), d->w = new_numbers(n * n),
    d->y = new_numbers(n * d->dv);
    d->entropy = new_numbers(n), d->top = new_numbers(n), d->squares = new_numbers(n),
    d->lse = new_numbers(n);
    for (int64_t i = 0; i < n; i++)
        fill_query(d, i);
}

static es_view view_of(dense *d, int which, const double *x, int64_t cols, bool single)
{
    if (!single)
        return es_view_f64(x, d->n, cols);
    d->single[which] = malloc((size_t)(d->n * cols) * sizeof(float));
    for (int64_t i = 0; i < d->n * cols; i++)
        d->single[which][i] = (float)x[i];
    return es_view_f32(d->single[which], d->n, cols);
}

static void dense_new(dense *d, bool single)
{
    const int64_t n = d->n, k = d->k;
    d->scale = 0.8;
    d->q = normals(n * k), d->key = normals(n * k), d->v = normals(n * d->dv);
    d->plain_q = normals(n * k), d->plain_k = normals(n * k);
    for (int64_t c = 0; c < k; c++) /* the first key draws weight, as those of real models do */
        d->key[c] *= 4.0;
    fill(d);
    d->seen = (es_model_seen){.window = d->window,
                              .q = view_of(d, 0, d->q, k, single),
                              .k = view_of(d, 1, d->key, k, single),
                              .v = view_of(d, 2, d->v, d->dv, single),
                              .plain_q = view_of(d, 3, d->plain_q, k, single),
                              .plain_k = view_of(d, 4, d->plain_k, k, single),
                              .scale = d->scale,
                              .sink = d->sink,
                              .output = d->y,
                              .entropy = d->entropy,
                              .top_weight = d->top,
                              .sum_squares = d->squares,
                              .lse = d->lse};
}

static void dense_free(dense *d)
{
    void *const all[] = {d->q, d->key, d->v,       d->plain_q, d->plain_k, d->score, d->plain,
                         d->w, d->y,   d->entropy, d->top,     d->squares, d->lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (size_t i = 0; i < 5; i++)
        free(d->single[i]);
}

/* ---- what the numbers should be ---- */

/* Squared error of the outputs over some keys, and their weight. */
static double error_of(const dense *d, int64_t i, int64_t window, int64_t sinks, double *mass)
{
    double y[64] = {0}, error = 0.0;
    *mass = learned(d, i); /* it is never left out */
    for (int64_t j = 0; j <= i; j++) {
        if (i - j >= window && j >= sinks)
            continue;
        *mass += d->w[i * d->n + j];
        for (int64_t c = 0; c < d->dv; c++)
            y[c] += d->w[i * d->n + j] * d->v[j * d->dv + c];
    }
    for (int64_t c = 0; c < d->dv; c++)
        error += pow(y[c] / *mass - d->y[i * d->dv + c], 2.0);
    return error;
}

static double score_sd(const dense *d, int64_t i)
{
    double sum = 0.0, squares = 0.0, count = 0.0;
    for (int64_t j = 0; j <= i; j++)
        if (sees(d, i, j)) {
            sum += d->score[i * d->n + j];
            count += 1.0;
        }
    for (int64_t j = 0; j <= i; j++)
        squares += sees(d, i, j) ? pow(d->score[i * d->n + j] - sum / count, 2.0) : 0.0;
    return sqrt(squares / count);
}

static double keys_seen(const dense *d, int64_t i)
{
    return (double)(d->window && i + 1 > d->window ? d->window : i + 1);
}

/* The key with the largest weight of query i. */
static int64_t heaviest(const dense *d, int64_t i)
{
    int64_t most = 0;
    for (int64_t j = 1; j <= i; j++)
        most = d->w[i * d->n + j] > d->w[i * d->n + most] ? j : most;
    return most;
}

static double expected_stat(const dense *d, int64_t i, es_positions_stat stat)
{
    const double sd = score_sd(d, i), n = keys_seen(d, i);
    const double u = n > 1.0 ? sd / sqrt(2.0 * log(n)) : 0.0;
    double sum = 0.0;
    switch (stat) {
    case ES_POSITIONS_COUNT:
        return 1.0;
    case ES_POSITIONS_PLACES:
        return log((double)(i + 1));
    case ES_POSITIONS_ENTROPY:
        return d->entropy[i];
    case ES_POSITIONS_ESS:
        return 1.0 / d->squares[i];
    case ES_POSITIONS_LOG_ESS:
        return -log(d->squares[i]);
    case ES_POSITIONS_SINGLE:
        return d->squares[i] > 0.5 && heaviest(d, i) >= 4 && learned(d, i) <= 0.5;
    case ES_POSITIONS_ON_SINK:
        return d->squares[i] > 0.5 && (heaviest(d, i) < 4 || learned(d, i) > 0.5);
    case ES_POSITIONS_TOP:
        return d->top[i];
    case ES_POSITIONS_SQUARES:
        return d->squares[i];
    case ES_POSITIONS_SINK:
        for (int64_t j = 0; j < 4 && j <= i; j++)
            sum += d->w[i * d->n + j];
        return sum;
    case ES_POSITIONS_NEAR:
        for (int64_t j = i - 63 < 0 ? 0 : i - 63; j <= i; j++)
            sum += d->w[i * d->n + j];
        return sum;
    case ES_POSITIONS_SCORE_SD:
        return sd;
    case ES_POSITIONS_FREEZING:
        return u;
    case ES_POSITIONS_ABOVE_ONE:
        return u > 1.0;
    case ES_POSITIONS_SPREAD:
        for (int64_t c = 0; c < d->dv; c++) {
            double mean = 0.0;
            for (int64_t j = 0; j < d->n; j++)
                mean += d->y[j * d->dv + c] / (double)d->n;
            sum += pow(d->y[i * d->dv + c] - mean, 2.0);
        }
        return sum;
    case ES_POSITIONS_CRITICAL: /* of whole bins: expected_critical() */
    case ES_POSITIONS_CRITICAL_REST:
    case ES_POSITIONS_STATS:
        break;
    }
    return (double)NAN;
}

/* Returns inf g/ln N(g) over gaps with N(g) >= 8 among the keys from `first` on that query i sees,
 * counting anew for every gap. */
static double critical_temperature(const dense *d, int64_t i, int64_t first)
{
    const double *s = d->score + i * d->n;
    double best = -INFINITY, least = INFINITY;
    for (int64_t j = first; j <= i; j++)
        best = sees(d, i, j) ? fmax(best, s[j]) : best;
    for (int64_t j = first; j <= i; j++) {
        int64_t count = 0;
        for (int64_t l = first; l <= i; l++)
            count += sees(d, i, l) && best - s[l] <= best - s[j];
        if (sees(d, i, j) && count >= 8)
            least = fmin(least, (best - s[j]) / log((double)count));
    }
    return least;
}

static int increasing(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The bin's number of queries times the median over up to 16 of them, spaced evenly. */
static double expected_critical(const dense *d, int64_t from, int64_t to, int64_t first)
{
    const int64_t places = to - from, count = places < 16 ? places : 16;
    double x[16];
    if (from + 1 < 16 || (d->window && d->window < 16))
        return 0.0;
    for (int64_t c = 0; c < count; c++)
        x[c] = critical_temperature(d, from + c * places / count, first);
    qsort(x, (size_t)count, sizeof *x, increasing);
    return (double)places * 0.5 * (x[(count - 1) / 2] + x[count / 2]);
}

static int64_t first_of(const es_positions_grid *g, int64_t bin)
{
    return bin ? g->to[bin - 1] : 0;
}

/* Tolerances: sums of f64 kernels and plain loops are good to 1e-12 of a term; f32 kernels to 1e-6
 * of weights and outputs (attend.h), a hundred terms or fewer of size about 1. */
static void check_stats(const dense *d, const es_positions_grid *g, const double *x, double within)
{
    for (int64_t b = 0; b < g->bins; b++)
        for (int stat = 0; stat < ES_POSITIONS_STATS; stat++) {
            double sum = 0.0;
            for (int64_t i = first_of(g, b); i < g->to[b]; i++)
                sum += expected_stat(d, i, (es_positions_stat)stat);
            if (stat == ES_POSITIONS_CRITICAL || stat == ES_POSITIONS_CRITICAL_REST)
                sum = expected_critical(d, first_of(g, b), g->to[b],
                                        stat == ES_POSITIONS_CRITICAL ? 0 : 4);
            assert_near(x[es_positions_at(g, b, (es_positions_stat)stat)], sum,
                        within * fmax(sum, 1.0));
        }
}

static void check_windows(const dense *d, const es_positions_grid *g, const double *x,
                          double within)
{
    const int64_t sinks = d->window && d->window < d->n ? 0 : 4;
    for (int64_t b = 0; b < g->bins; b++)
        for (int64_t c = 0; c < g->windows; c++) {
            double masses = 0.0, errors = 0.0, mass;
            for (int64_t i = first_of(g, b); i < g->to[b]; i++) {
                errors += error_of(d, i, g->window[c], sinks, &mass);
                masses += mass;
            }
            assert_near(x[es_positions_mass_at(g, b, c)], masses, within * fmax(masses, 1.0));
            assert_near(x[es_positions_error_at(g, b, c)], errors, within * fmax(errors, 1.0));
        }
}

/* The bin of a pair among distances; windows + 1: a sink. */
static int64_t distance_of(const es_positions_grid *g, int64_t i, int64_t j)
{
    int64_t c = 0;
    if (j < 4)
        return g->windows + 1;
    while (c < g->windows && i - j >= g->window[c])
        c++;
    return c;
}

static void check_scores(const dense *d, const es_positions_grid *g, const double *x)
{
    for (int64_t c = 0; c <= g->windows + 1; c++) {
        double pairs = 0.0, real = 0.0, plain = 0.0;
        for (int64_t i = 0; i < d->n; i++)
            for (int64_t j = 0; j <= i; j++)
                if (sees(d, i, j) && distance_of(g, i, j) == c) {
                    pairs += 1.0;
                    real += d->score[i * d->n + j];
                    plain += d->plain[i * d->n + j];
                }
        assert_equals(x[es_positions_score_at(g, c, ES_POSITIONS_PAIRS)], pairs);
        assert_near(x[es_positions_score_at(g, c, ES_POSITIONS_REAL)], real, 1e-9 * (1.0 + pairs));
        assert_near(x[es_positions_score_at(g, c, ES_POSITIONS_PLAIN)], plain,
                    1e-9 * (1.0 + pairs));
    }
}

/* The largest eigenvalue of Cq Ck by powers. */
static void multiply_covariance(const double *x, int64_t n, int64_t k, double *vector)
{
    double out[8] = {0};
    for (int64_t a = 0; a < k; a++)
        for (int64_t b = 0; b < k; b++) {
            double ab = 0.0, ma = 0.0, mb = 0.0;
            for (int64_t i = 0; i < n; i++) {
                ab += x[i * k + a] * x[i * k + b] / (double)n;
                ma += x[i * k + a] / (double)n;
                mb += x[i * k + b] / (double)n;
            }
            out[a] += (ab - ma * mb) * vector[b];
        }
    memcpy(vector, out, (size_t)k * sizeof *vector);
}

static double horizon_of(const double *q, const double *key, int64_t n, int64_t k, double scale)
{
    double x[8] = {1.0, 0.5, -0.3, 0.2, 0.7, 0.1, 0.1, 0.1}, length = 0.0;
    for (int step = 0; step < 300; step++) {
        multiply_covariance(key, n, k, x);
        multiply_covariance(q, n, k, x);
        length = sqrt(dot(x, x, k));
        for (int64_t c = 0; c < k; c++)
            x[c] /= length;
    }
    return scale * sqrt(length);
}

static void check_horizons(const dense *d, const es_positions_grid *g, const double *x)
{
    assert_close(x[es_positions_horizon_at(g, false)],
                 horizon_of(d->q, d->key, d->n, d->k, d->scale), 1e-9);
    assert_close(x[es_positions_horizon_at(g, true)],
                 horizon_of(d->plain_q, d->plain_k, d->n, d->k, d->scale), 1e-9);
}

static void check_head(int64_t n, int64_t window, const double *sink, bool single)
{
    dense d = {.n = n, .k = 5, .dv = 3, .window = window, .sink = sink};
    const es_positions_spec spec = {.length = n, .window = window};
    const es_exec one = {.threads = 1}, two = {.threads = 2};
    es_positions_grid g;
    dense_new(&d, single);
    assert_ok(es_positions_grid_of(&spec, &g, &err));
    double *x = new_numbers(g.numbers), *again = new_numbers(g.numbers);
    assert_ok(es_positions_head(&spec, &d.seen, &one, x, &err));
    check_stats(&d, &g, x, single ? 1e-5 : 1e-11);
    check_windows(&d, &g, x, single ? 1e-5 : 1e-11);
    check_scores(&d, &g, x);
    check_horizons(&d, &g, x);
    assert_ok(es_positions_head(&spec, &d.seen, &two, again, &err));
    assert_memory_equal(x, again, (size_t)g.numbers * sizeof *x);
    free(x);
    free(again);
    dense_free(&d);
}

/* ---- heads of tiny decoders ---- */

enum { TOKENS = 61, LAYER = 1 }; /* the layer that there are golden values of */

static es_array load(const char *name, const char *file)
{
    char rest[96];
    es_array a;
    snprintf(rest, sizeof rest, "decoders/%s/%s.npy", name, file);
    assert_ok(es_npy_load_as(golden_path(rest), ES_NPY_RAW_WHOLE, NULL, &a, &err));
    return a;
}

static double *head_rows(const char *name, const char *file, int64_t head, int64_t k)
{
    es_array a = load(name, file);
    double *rows = new_numbers(TOKENS * k);
    memcpy(rows, (double *)a.data + head * TOKENS * k, (size_t)(TOKENS * k) * sizeof *rows);
    es_array_free(&a);
    return rows;
}

/* A head of golden queries and keys; its outputs are golden, too, and its values are not known. */
static void golden_head(const char *name, const es_model_config *c, int64_t head, dense *d)
{
    const int64_t k = c->head_dim;
    *d = (dense){.n = TOKENS, .k = k, .dv = k, .window = es_model_layer(c, 0)->window};
    d->scale = 1.0 / sqrt((double)k);
    d->q = head_rows(name, "q0", head, k);
    d->key = head_rows(name, "k0", head / (c->heads / c->kv_heads), k);
    d->v = new_numbers(TOKENS * k), d->plain_q = new_numbers(TOKENS * k),
    d->plain_k = new_numbers(TOKENS * k);
    fill(d);
    free(d->y);
    d->y = head_rows(name, "out0", head, k);
}

static void check_masses(const dense *d, const es_positions_grid *g, const double *x, double within)
{
    for (int64_t b = 0; b < g->bins; b++)
        for (int64_t c = 0; c < g->windows; c++) {
            double sum = 0.0, mass;
            for (int64_t i = first_of(g, b); i < g->to[b]; i++) {
                error_of(d, i, g->window[c], d->window && d->window < d->n ? 0 : 4, &mass);
                sum += mass;
            }
            assert_near(x[es_positions_mass_at(g, b, c)], sum, within * fmax(sum, 1.0));
        }
}

/* Turning a query and a key by one angle changes no score: at distance 0 plain is real. Without
 * rotary positions it is everywhere. */
static void check_plain(const es_model_config *c, const es_positions_grid *g, const double *x)
{
    bool differs = false;
    for (int64_t at = 0; at <= g->windows + 1; at++) {
        const double real = x[es_positions_score_at(g, at, ES_POSITIONS_REAL)];
        const double plain = x[es_positions_score_at(g, at, ES_POSITIONS_PLAIN)];
        if (at == 0)
            assert_near(plain, real, 1e-9);
        differs = differs || fabs(plain - real) > 1e-6;
    }
    assert_equals(differs, (c->rotary.width > 0));
}

static void check_decoder(const char *name)
{
    char rest[64];
    es_model *m;
    int32_t ids[TOKENS];
    es_array a = load(name, "ids");
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((double *)a.data)[i];
    es_array_free(&a);
    snprintf(rest, sizeof rest, "decoders/%s", name);
    assert_ok(es_model_open(golden_path(rest), &(es_model_opts){.precision = ES_F64}, &m, &err));
    const es_model_config *c = es_model_config_of(m);
    const es_positions_spec spec = {m, TOKENS, es_model_layer(c, 0)->window};
    es_positions_grid g;
    assert_ok(es_positions_grid_of(&spec, &g, &err));
    double *x = new_numbers(c->layers * c->heads * g.numbers);
    assert_ok(es_positions_block(&spec, ids, NULL, x, &err));
    for (int64_t h = 0; h < c->heads; h++) {
        const double *of_head = x + (LAYER * c->heads + h) * g.numbers;
        dense d;
        golden_head(name, c, h, &d);
        check_stats(&d, &g, of_head, 1e-9);
        check_masses(&d, &g, of_head, 1e-9);
        if (!strstr(name, "yarn")) /* whose factor of rotated queries and keys no score keeps */
            check_plain(c, &g, of_head);
        dense_free(&d);
    }
    free(x);
    es_model_close(m);
}

static void heads_of_decoders_are_those_of_golden_queries_and_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "llama-yarn", "mistral-window",
                                        "qwen3", "gpt2",       "neox"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_decoder(names[i]);
}

/* ---- tests ---- */

static void every_sum_is_that_of_plain_loops(void **state)
{
    (void)state;
    state_of_rng = 16;
    check_head(150, 0, NULL, false);
    check_head(150, 0, NULL, true);
    check_head(2, 0, NULL, false); /* the shortest */
    check_head(70, 0, NULL, false);
}

/* A head `e` with the arrays of `d` whose queries, keys and values were changed: its weights and
 * statistics. */
static void run_dense(dense *e, const dense *d)
{
    fill(e);
    e->seen = d->seen;
    e->seen.scale = e->scale;
    e->seen.output = e->y, e->seen.entropy = e->entropy, e->seen.top_weight = e->top;
    e->seen.sum_squares = e->squares, e->seen.lse = e->lse;
}

static void free_dense_run(dense *e)
{
    double *const own[] = {e->score, e->plain, e->w, e->y, e->entropy, e->top, e->squares, e->lse};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        free(own[i]);
}

/* Weight that rests on a sink is no retrieval: of the queries whose weight is on one key, those
 * where it is one of the first 4 are counted apart. Keys are unit vectors, e0 the first and e1 the
 * others but one, e2; scores are 20 or 0, so that ESS is 1 within 1e-6. */
static void one_key_is_counted_apart_from_the_first_four(void **state)
{
    (void)state;
    enum { N = 64, OTHER = 40 };
    dense d = {.n = N, .k = 3, .dv = 1, .scale = 1.0};
    const es_positions_spec spec = {.length = N};
    es_positions_grid g;
    dense_new(&d, false);
    dense e = {.n = N, .k = 3, .dv = 1, .scale = 1.0, .q = d.q, .key = d.key, .v = d.v};
    e.plain_q = d.plain_q, e.plain_k = d.plain_k;
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < 3; c++) {
            e.key[i * 3 + c] = c == (i == 0 ? 0 : i == OTHER ? 2 : 1);
            e.q[i * 3 + c] = c == (i % 2 ? 2 : 0) ? 20.0 : 0.0; /* odd ones look for key OTHER */
        }
    run_dense(&e, &d);
    assert_ok(es_positions_grid_of(&spec, &g, &err));
    double *x = new_numbers(g.numbers);
    assert_ok(es_positions_head(&spec, &e.seen, NULL, x, &err));
    const int64_t last = g.bins - 1; /* 46 to 64 keys: places 45 to 63, ten of which are odd */
    assert_equals(x[es_positions_at(&g, last, ES_POSITIONS_SINGLE)], 10.0);
    assert_equals(x[es_positions_at(&g, last, ES_POSITIONS_ON_SINK)], 9.0);
    free(x);
    free_dense_run(&e);
    dense_free(&d);
}

/* Weight on a sink says nothing about outputs: nine tenths are on the first key, whose value is 0,
 * and the other keys share the rest. Values are 1 in the first half of the text and -1 in the
 * second, so that the last 64 keys and the first 4 give other outputs than all keys do: by the last
 * bin, 182 to 256 keys, -0.02 to -0.03 instead of 0.04 to 0, whose standard deviation is 0.03. */
static void a_head_on_a_sink_may_need_far_keys(void **state)
{
    (void)state;
    enum { N = 256 };
    dense d = {.n = N, .k = 2, .dv = 1};
    const es_positions_spec spec = {.length = N};
    es_positions_grid g;
    dense_new(&d, false);
    dense e = {.n = N, .k = 2, .dv = 1, .scale = 1.0, .q = d.q, .key = d.key, .v = d.v};
    e.plain_q = d.plain_q, e.plain_k = d.plain_k;
    for (int64_t i = 0; i < N; i++) {
        e.q[2 * i] = 1.0;
        e.q[2 * i + 1] *= 0.01;
        e.key[2 * i] = i == 0 ? log(9.0 * (N - 1.0)) : 0.0;
        e.key[2 * i + 1] *= 0.01;
        e.v[i] = i == 0 ? 0.0 : i < N / 2 ? 1.0 : -1.0;
    }
    run_dense(&e, &d);
    assert_ok(es_positions_grid_of(&spec, &g, &err));
    double *x = new_numbers(g.numbers);
    assert_ok(es_positions_head(&spec, &e.seen, NULL, x, &err));
    const int64_t last = g.bins - 1, window = 11;
    assert_int_equal(g.window[window], 64);
    const double count = x[es_positions_at(&g, last, ES_POSITIONS_COUNT)];
    assert_above(x[es_positions_at(&g, last, ES_POSITIONS_SINK)] / count, 0.89);
    assert_above(sqrt(x[es_positions_error_at(&g, last, window)] /
                      x[es_positions_at(&g, last, ES_POSITIONS_SPREAD)]),
                 0.5);
    free(x);
    free_dense_run(&e);
    dense_free(&d);
}

/* A model with a window of its own: far queries do not see the sinks, and windows have none. */
static void a_window_of_the_model_s_own(void **state)
{
    (void)state;
    state_of_rng = 17;
    check_head(150, 40, NULL, false);
    check_head(150, 100, NULL, true);
    check_head(90, 1, NULL, false);
    check_head(60, 200, NULL, false); /* longer than the text */
}

/* A learned sink that takes some of the weight, and one that takes most of it. */
static void a_learned_sink_is_one_more_outcome(void **state)
{
    (void)state;
    const double some = 2.0, most = 9.0;
    state_of_rng = 23;
    check_head(150, 0, &some, false);
    check_head(150, 40, &some, false);
    check_head(150, 0, &most, false);
    check_head(150, 100, &some, true);
}

/* What rotates nothing has no plain views: real scores stand for them. */
static void what_rotates_nothing_has_one_kind_of_scores(void **state)
{
    (void)state;
    dense d = {.n = 40, .k = 4, .dv = 2};
    const es_positions_spec spec = {.length = 40};
    es_positions_grid g;
    dense_new(&d, false);
    d.seen.plain_q.data = d.seen.plain_k.data = NULL;
    assert_ok(es_positions_grid_of(&spec, &g, &err));
    double *x = new_numbers(g.numbers);
    assert_ok(es_positions_head(&spec, &d.seen, NULL, x, &err));
    for (int64_t c = 0; c <= g.windows + 1; c++)
        assert_equals(x[es_positions_score_at(&g, c, ES_POSITIONS_PLAIN)],
                      x[es_positions_score_at(&g, c, ES_POSITIONS_REAL)]);
    assert_equals(x[es_positions_horizon_at(&g, true)], x[es_positions_horizon_at(&g, false)]);
    free(x);
    dense_free(&d);
}

static void edges_are_powers_of_the_root_of_two(void **state)
{
    (void)state;
    static const int64_t edges[] = {1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128};
    es_positions_grid g;
    assert_ok(es_positions_grid_of(&(es_positions_spec){.length = 128}, &g, &err));
    assert_int_equal(g.bins, 14);
    assert_int_equal(g.windows, 13);
    for (int64_t i = 0; i < 14; i++)
        assert_int_equal(g.to[i], edges[i]);
    /* a rest of 2 queries is no bin of its own; a window that sees everything is none */
    assert_ok(es_positions_grid_of(&(es_positions_spec){.length = 130, .window = 16}, &g, &err));
    assert_int_equal(g.bins, 14);
    assert_int_equal(g.to[13], 130);
    assert_int_equal(g.windows, 7);
    assert_int_equal(g.window[6], 11);
    assert_int_equal(g.seen, 16);
    assert_ok(es_positions_grid_of(&(es_positions_spec){.length = 1 << 24}, &g, &err));
    assert_below(g.bins, ES_POSITIONS_MOST);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    dense d = {.n = 12, .k = 2, .dv = 2};
    es_positions_spec spec = {.length = 13};
    es_positions_grid g;
    double x[4096];
    dense_new(&d, false);
    assert_int_equal(es_positions_head(&spec, &d.seen, NULL, x, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "positions.shape");
    spec.length = 12;
    d.seen.lse = NULL;
    assert_int_equal(es_positions_head(&spec, &d.seen, NULL, x, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "positions.statistics");
    spec.length = 1;
    assert_int_equal(es_positions_grid_of(&spec, &g, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "positions.length");
    spec = (es_positions_spec){.length = 12, .window = -1};
    assert_int_equal(es_positions_grid_of(&spec, &g, &err), ES_E_RANGE);
    dense_free(&d);
}

TEST_FILE(positions)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sum_is_that_of_plain_loops),
        cmocka_unit_test(one_key_is_counted_apart_from_the_first_four),
        cmocka_unit_test(a_head_on_a_sink_may_need_far_keys),
        cmocka_unit_test(a_window_of_the_model_s_own),
        cmocka_unit_test(a_learned_sink_is_one_more_outcome),
        cmocka_unit_test(what_rotates_nothing_has_one_kind_of_scores),
        cmocka_unit_test(edges_are_powers_of_the_root_of_two),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(heads_of_decoders_are_those_of_golden_queries_and_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
