/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_heads.c : what the probe says of a head before the text's tokens are drawn, against
 * plain loops (probe_truth.h): horizons, freezing, sinks, prediction, Gaussian tokens, local
 * exponent. */
#include "probe_truth.h"

#include <esscher/random.h>

#include "linalg/linalg.h"
#include "stats/exponent.h"
#include "theory/freezing.h"

/* ---- what covariance and weights say ---- */

/* Standard deviation of the scores of query i of head h over tokens of the pool's covariance, and
 * the squared length of V S t / q. */
static void score_of(const truth *t, int i, int h, double *sd, double *along)
{
    double key[H] = {0}, cov_key[H] = {0}, variance = 0.0, length = 0.0;
    for (int a = 0; a < H; a++)
        for (int c = h * K; c < (h + 1) * K; c++)
            key[a] += t->q[i * H + c] * t->wk[c * H + a] / sqrt((double)K);
    for (int a = 0; a < H * H; a++)
        cov_key[a / H] += t->cov[a] * key[a % H];
    for (int a = 0; a < H; a++)
        variance += key[a] * cov_key[a];
    for (int c = h * K; c < (h + 1) * K; c++) {
        double value = 0.0;
        for (int a = 0; a < H; a++)
            value += t->wv[c * H + a] * cov_key[a];
        length += value * value;
    }
    *sd = sqrt(variance);
    *along = length / variance;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check_scores(const truth *t, int h, const es_probe_head *about)
{
    double q[QUERIES], along, squares = 0.0;
    const double edge = sqrt(2.0 * log((double)sizes[SIZES - 1]));
    int frozen = 0;
    for (int i = 0; i < QUERIES; i++) {
        score_of(t, i, h, &q[i], &along);
        squares += q[i] * q[i] / QUERIES;
        frozen += q[i] > edge;
    }
    qsort(q, QUERIES, sizeof *q, ascending);
    assert_close(about->score_sd, sqrt(squares), 1e-5); /* queries are rounded to f32 */
    assert_close(about->freezing, 0.5 * (q[QUERIES / 2 - 1] + q[QUERIES / 2]) / edge, 1e-5);
    assert_near(about->gaussian_frozen, (double)frozen / QUERIES, 0.0);
}

/* Weights that the tokens of the first 16 blocks give to the first and the last of theirs. */
static void check_sinks(const truth *t, int h, const es_probe_head *about, double tolerance)
{
    double sink[2] = {0, 0}, queries = 0, each[16][2] = {{0}}, count[16], scatter[2] = {0, 0};
    for (int64_t b = 0; b < 16; b++) {
        int64_t first, n;
        assert_ok(es_pool_block(pool, b, &first, &n, &err));
        for (int64_t i = 0; i < n; i++) {
            double q[H], score[64], most = -INFINITY, sum = 0.0;
            product(t->x + (first + i) * H, 1, t->wq, t->bq, q);
            for (int64_t j = 0; j < n; j++) {
                score[j] = 0.0;
                for (int c = h * K; c < (h + 1) * K; c++)
                    score[j] += q[c] * t->keys[(first + j) * H + c] / sqrt((double)K);
                most = fmax(most, score[j]);
            }
            for (int64_t j = 0; j < n; j++)
                sum += exp(score[j] - most);
            each[b][0] += exp(score[0] - most) / sum;
            each[b][1] += exp(score[n - 1] - most) / sum;
        }
        count[b] = (double)n;
        queries += count[b];
        sink[0] += each[b][0];
        sink[1] += each[b][1];
    }
    for (int b = 0; b < 16; b++)
        for (int end = 0; end < 2; end++)
            scatter[end] += pow(each[b][end] - count[b] * sink[end] / queries, 2.0) * 16.0 / 15.0;
    assert_near(about->sink_first, sink[0] / queries, tolerance);
    assert_near(about->sink_last, sink[1] / queries, tolerance);
    assert_near(about->sink_first_se, sqrt(scatter[0]) / queries, tolerance);
    assert_near(about->sink_last_se, sqrt(scatter[1]) / queries, tolerance);
}

static void heads_are_described_as_their_covariance_says(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        const es_view cov = es_view_f64(t.cov, H, H);
        for (int h = 0; h < HEADS; h++) {
            es_probe_head about;
            es_horizons want;
            const es_view wq = es_view_f64(t.wq + h * K * H, K, H);
            const es_view wk = es_view_f64(t.wk + h * K * H, K, H);
            assert_ok(es_probe_head_of(probe, h, &about, &err));
            assert_ok(
                es_horizons_of(&cov, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, NULL, &want, &err));
            assert_close(about.horizons.horizon.val, want.horizon.val, 1e-9);
            assert_close(about.horizons.one_sided.val, want.one_sided.val, 1e-9);
            assert_close(about.horizons.coupling.val, want.coupling.val, 1e-9);
            assert_close(about.horizons.frobenius.val, want.frobenius.val, 1e-9);
            check_scores(&t, h, &about);
            check_sinks(&t, h, &about, tolerance_of[layer]);
        }
        es_probe_layer about;
        double trace = 0.0, squares = 0.0;
        assert_ok(es_probe_layer_of(probe, &about, &err));
        for (int i = 0; i < H * H; i++) {
            trace += i / H == i % H ? t.cov[i] : 0.0;
            squares += t.cov[i] * t.cov[i];
        }
        assert_close(about.trace, trace, 1e-12);
        assert_close(about.participation, trace * trace / squares, 1e-11);
        assert_between(about.reach.val, trace / H, trace);
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

/* Every query by itself, without tables: q from 0.1 to 100 over the layers. */
static void prediction_is_the_average_of_exact_ones(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        for (int h = 0; h < HEADS; h++) {
            double total = 0.0, got[SIZES];
            for (int c = h * K; c < (h + 1) * K; c++)
                for (int a = 0; a < H * H; a++)
                    total += t.wv[c * H + a / H] * t.cov[a] * t.wv[c * H + a % H];
            assert_ok(es_probe_predict(probe, h, got, &err));
            for (int s = 0; s < SIZES; s++) {
                double sum = 0.0;
                for (int i = 0; i < QUERIES; i++) {
                    double q, along;
                    es_rem r;
                    score_of(&t, i, h, &q, &along);
                    assert_ok(es_rem_moments((double)sizes[s], q, NULL, &r, &err));
                    sum += along * r.error + (total - along) * r.participation;
                }
                assert_close(got[s], sqrt(sum / QUERIES), 1e-4);
            }
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

/* ---- Gaussian tokens ---- */

enum { DRAWS = 200, MEASURES = 3 };

/* Mean over draws, mean square, and their standard errors. */
typedef struct summary {
    double mean, mean_se, square, square_se;
} summary;

static summary summary_of(const double *x)
{
    summary s = {0};
    for (int r = 0; r < DRAWS; r++) {
        s.mean += x[r] / DRAWS;
        s.square += x[r] * x[r] / DRAWS;
    }
    for (int r = 0; r < DRAWS; r++) {
        s.mean_se += pow(x[r] - s.mean, 2.0) / DRAWS / (DRAWS - 1);
        s.square_se += pow(x[r] * x[r] - s.square, 2.0) / DRAWS / (DRAWS - 1);
    }
    s.mean_se = sqrt(s.mean_se);
    s.square_se = sqrt(s.square_se);
    return s;
}

/* Outputs over infinitely many Gaussian tokens: V (mean + S Wk'q / sqrt(k)), into t->limit. */
static void gaussian_limit(truth *t)
{
    for (int i = 0; i < QUERIES; i++)
        for (int h = 0; h < HEADS; h++) {
            double key[H] = {0}, at[H];
            for (int a = 0; a < H; a++)
                for (int c = h * K; c < (h + 1) * K; c++)
                    key[a] += t->q[i * H + c] * t->wk[c * H + a] / sqrt((double)K);
            memcpy(at, t->mean, sizeof at);
            for (int a = 0; a < H * H; a++)
                at[a / H] += t->cov[a] * key[a % H];
            for (int c = h * K; c < (h + 1) * K; c++) {
                t->limit[i * H + c] = 0.0;
                for (int a = 0; a < H; a++)
                    t->limit[i * H + c] += t->wv[c * H + a] * at[a];
            }
        }
}

/* Whole tokens N(mean, S), then keys and values: the errors of a draw at both sizes. */
static void draw_whole_tokens(truth *t, const double *root, uint64_t draw,
                              es_probe_cell out[HEADS * SIZES])
{
    static double z[600 * H], x[600 * H], outputs[QUERIES * H];
    static int64_t rows[600];
    const es_address at = {.seed = 77, .experiment = ES_EXPERIMENT_FREE, .cell = draw};
    assert_ok(es_normal_rows(&at, sizes[1], H, z, &err));
    product(z, sizes[1], root, t->mean, x);
    product(x, sizes[1], t->wk, NULL, t->keys);
    product(x, sizes[1], t->wv, NULL, t->values);
    for (int64_t i = 0; i < sizes[1]; i++)
        rows[i] = i;
    for (int s = 0; s < SIZES; s++) {
        attend(t, rows, sizes[s], outputs);
        for (int h = 0; h < HEADS; h++)
            out[h * SIZES + s] = errors_of(outputs, t->limit, h);
    }
}

/* Draws by the library, which only sees keys and values, against draws of whole tokens: the same
 * law, other numbers. 72 comparisons, so 4.5 standard errors: once in 2000 sets of seeds. The root
 * mean square of the map error is what es_probe_predict() integrates exactly. */
static void gaussian_tokens_are_what_whole_ones_give(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec), root[H * H];
    static double errors[2][HEADS * SIZES][MEASURES][DRAWS];
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        gaussian_limit(&t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        const es_view cov = es_view_f64(t.cov, H, H);
        assert_ok(es_sym_sqrt(&cov, 0.0, NULL, root, NULL, &err));
        for (int r = 0; r < DRAWS; r++) {
            es_probe_cell cells[2][HEADS * SIZES];
            assert_ok(es_probe_control(probe, r, cells[0], &err));
            draw_whole_tokens(&t, root, (uint64_t)(layer * DRAWS + r), cells[1]);
            for (int kind = 0; kind < 2; kind++)
                for (int c = 0; c < HEADS * SIZES; c++) {
                    errors[kind][c][0][r] = cells[kind][c].mean_error;
                    errors[kind][c][1][r] = cells[kind][c].cov_error;
                    errors[kind][c][2][r] = cells[kind][c].map_error;
                }
        }
        for (int c = 0; c < HEADS * SIZES; c++) {
            double predicted[SIZES];
            for (int m = 0; m < MEASURES; m++) {
                const summary got = summary_of(errors[0][c][m]), want = summary_of(errors[1][c][m]);
                assert_near(got.mean, want.mean, 4.5 * hypot(got.mean_se, want.mean_se));
            }
            const summary map = summary_of(errors[0][c][2]);
            assert_ok(es_probe_predict(probe, c / SIZES, predicted, &err));
            assert_near(map.square, pow(predicted[c % SIZES], 2.0), 4.5 * map.square_se);
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

/* ---- local exponent ---- */

/* The same queries and keys, chosen and centred by loops; the estimator has its own tests. */
static void local_exponents_are_those_of_centred_keys(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        es_probe_local got[HEADS];
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        assert_ok(es_probe_local_of(probe, got, &err));
        for (int h = 0; h < HEADS; h++) {
            double *keys = malloc((size_t)(tokens * K) * sizeof *keys), queries[QUERIES * K];
            double mean[K] = {0}, squares = 0.0, lengths = 0.0;
            for (int64_t i = 0; i < tokens * K; i++)
                mean[i % K] += t.keys[i / K * H + h * K + i % K] / (double)tokens;
            for (int64_t i = 0; i < tokens * K; i++) {
                keys[i] = t.keys[i / K * H + h * K + i % K] - mean[i % K];
                squares += keys[i] * keys[i] / (double)tokens;
            }
            for (int i = 0; i < QUERIES * K; i++) {
                queries[i] = t.q[i / K * H + h * K + i % K];
                lengths += queries[i] * queries[i] / QUERIES;
            }
            const es_view k = es_view_f64(keys, tokens, K), q = es_view_f64(queries, QUERIES, K);
            es_exponent_pool want;
            assert_ok(es_exponent_queries(&k, &q, &(es_exponent_opts){0}, NULL, &want, &err));
            /* every token is a key here, in another order; keys are rounded to f32, gaps hardly */
            assert_close(got[h].exponent, want.alpha, 1e-4);
            assert_close(got[h].exponent_se, want.alpha_se, 1e-3);
            assert_close(got[h].beta, sqrt(squares * lengths / K), 1e-5);
            const es_exponent law = {.alpha = want.alpha, .log_c = want.log_c, .reach = want.reach};
            es_weights there; /* E sum w^2 by another integral is 1/2 where 600 keys freeze */
            assert_ok(es_weights_round(law.alpha, es_exponent_keys(&law, 600.0), got[h].beta_frozen,
                                       NULL, &there, &err));
            assert_close(there.squares.val, 0.5, 1e-3);
            free(keys);
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

TEST_FILE(probe_heads)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_described_as_their_covariance_says),
        cmocka_unit_test(prediction_is_the_average_of_exact_ones),
        cmocka_unit_test(gaussian_tokens_are_what_whole_ones_give),
        cmocka_unit_test(local_exponents_are_those_of_centred_keys),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
