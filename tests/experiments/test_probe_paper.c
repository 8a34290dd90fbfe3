/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_paper.c : the protocol of the paper's experiment 2 against plain f64 loops. */
#include "probe_truth.h"

#include "experiments/probe/paper.h"
#include "linalg/linalg.h"
#include "random/random.h"

enum { BLOCK = 3, LENGTH = 40, MOST = 60 };
static const int64_t small[SIZES] = {8, MOST}; /* the larger one is more than the passage has */

static es_probe_spec paper_spec(const es_exec *exec)
{
    es_probe_spec spec = spec_of(exec);
    spec.sizes = small;
    return spec;
}

/* Tokens rows (n) of the pool attend over each other; mean and covariance of what comes out, all
 * heads side by side. */
static void meet(const truth *t, const int64_t *rows, int64_t n, double mean[H], double cov[H * H])
{
    static double out[MOST][H], w[MOST];
    double q[H];
    memset(mean, 0, H * sizeof *mean);
    memset(cov, 0, H * H * sizeof *cov);
    for (int64_t i = 0; i < n; i++) {
        product(t->x + rows[i] * H, 1, t->wq, t->bq, q);
        for (int h = 0; h < HEADS; h++) {
            double sum = 0.0;
            for (int64_t j = 0; j < n; j++) {
                double score = 0.0;
                for (int c = h * K; c < (h + 1) * K; c++)
                    score += q[c] * t->keys[rows[j] * H + c];
                sum += w[j] = exp(score / sqrt((double)K));
            }
            for (int c = h * K; c < (h + 1) * K; c++) {
                out[i][c] = 0.0;
                for (int64_t j = 0; j < n; j++)
                    out[i][c] += w[j] / sum * t->values[rows[j] * H + c];
                mean[c] += out[i][c] / (double)n;
            }
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < H * H; c++)
            cov[c] += (out[i][c / H] - mean[c / H]) * (out[i][c % H] - mean[c % H]) / (double)n;
}

static double distance(const double *a, const double *b, int count)
{
    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* Size number s of a draw, as the loops have it; first: of the passage. */
static void check_cell(const truth *t, int64_t layer, int64_t first, int64_t draw, int s,
                       es_probe_paper_cell got)
{
    int64_t all[LENGTH], rows[MOST];
    double mean[2][H], cov[2][H * H];
    const es_address at = {.seed = 11,
                           .experiment = ES_PROBE_PAPER,
                           .cell = (uint64_t)layer << 36 | (uint64_t)BLOCK << 16 | (uint64_t)draw,
                           .token = (uint64_t)s << 24};
    assert_ok(es_integer_rows(&at, small[s], 1, LENGTH, rows, &err));
    for (int i = 0; i < LENGTH; i++)
        all[i] = first + i;
    for (int i = 0; i < small[s]; i++)
        rows[i] += first;
    meet(t, all, LENGTH, mean[0], cov[0]);
    meet(t, rows, small[s], mean[1], cov[1]);
    assert_near(got.mean_error, distance(mean[0], mean[1], H), 4.0 * tolerance_of[layer]);
    assert_near(got.cov_error, distance(cov[0], cov[1], H * H), 4.0 * tolerance_of[layer]);
    assert_above(got.mean_error, 100.0 * tolerance_of[layer]); /* so that it says something */
}

static void errors_are_what_the_loops_say(void **state)
{
    (void)state;
    const es_probe_spec spec = paper_spec(NULL);
    es_probe_paper_cell cells[SIZES];
    es_probe_paper *paper;
    int64_t first, count;
    truth t;
    assert_ok(es_pool_block(pool, BLOCK, &first, &count, &err));
    assert_int_equal(count, LENGTH);
    for (int64_t layer = 0; layer < 2; layer++) {
        truth_open(layer, &t);
        assert_ok(es_probe_paper_open(&spec, layer, BLOCK, &paper, &err));
        for (int64_t draw = 0; draw < 3; draw++) {
            assert_ok(es_probe_paper_draw(paper, draw, cells, &err));
            for (int s = 0; s < SIZES; s++)
                check_cell(&t, layer, first, draw, s, cells[s]);
        }
        es_probe_paper_close(paper);
        free(t.x);
    }
}

/* H of the public code: |L' Wk'Wq L| with LL' = S + 1e-6 I, S of the passage; here from S^1/2,
 * whose singular values are the same, by power iteration. */
static void horizon_is_that_of_the_public_code(void **state)
{
    (void)state;
    const es_probe_spec spec = paper_spec(NULL);
    es_probe_paper *paper;
    es_probe_passage about;
    int64_t first, count;
    double S[H * H] = {0}, mean[H] = {0}, v[H], norm = 0.0;
    truth t;
    truth_open(1, &t);
    assert_ok(es_pool_block(pool, BLOCK, &first, &count, &err));
    assert_ok(es_probe_paper_open(&spec, 1, BLOCK, &paper, &err));
    assert_ok(es_probe_paper_about(paper, &about, &err));
    assert_int_equal(about.tokens, LENGTH);
    for (int64_t i = 0; i < count * H; i++)
        mean[i % H] += t.x[first * H + i] / (double)count;
    for (int64_t i = 0; i < count; i++)
        for (int c = 0; c < H * H; c++)
            S[c] += (t.x[(first + i) * H + c / H] - mean[c / H]) *
                    (t.x[(first + i) * H + c % H] - mean[c % H]) / (double)count;
    /* |L'AL|^2 is the largest eigenvalue of A'SA S: v <- A'(S (A (S v))) */
    for (int i = 0; i < H; i++)
        v[i] = 1.0 + 0.1 * i;
    for (int step = 0; step < 2000; step++) {
        double a[H] = {0}, b[H] = {0}, c[H] = {0}, d[H] = {0}, e[H] = {0}, f[H] = {0};
        for (int i = 0; i < H * H; i++)
            a[i / H] += S[i] * v[i % H];
        for (int i = 0; i < H * H; i++)
            b[i / H] += t.wq[i] * a[i % H];
        for (int i = 0; i < H * H; i++)
            c[i % H] += t.wk[i] * b[i / H];
        for (int i = 0; i < H * H; i++)
            d[i / H] += S[i] * c[i % H];
        for (int i = 0; i < H * H; i++)
            e[i / H] += t.wk[i] * d[i % H];
        for (int i = 0; i < H * H; i++)
            f[i % H] += t.wq[i] * e[i / H];
        norm = distance(f, (double[H]){0}, H);
        for (int i = 0; i < H; i++)
            v[i] = f[i] / norm;
    }
    assert_close(about.horizon, sqrt(norm), 1e-5); /* f32 inputs and weights */
    es_probe_paper_close(paper);
    free(t.x);
}

/* Uniform weights give outputs that are all the sample's mean value: then the mean error is that of
 * a mean of n draws, E |m_n - m|^2 = trace / n. Layer 0 has small scores, so that it is near. */
static void small_scores_average(void **state)
{
    (void)state;
    enum { DRAWS = 400 };
    const es_probe_spec spec = paper_spec(NULL);
    es_probe_paper_cell cells[SIZES];
    es_probe_paper *paper;
    double squares[SIZES] = {0};
    assert_ok(es_probe_paper_open(&spec, 0, BLOCK, &paper, &err));
    for (int64_t draw = 0; draw < DRAWS; draw++) {
        assert_ok(es_probe_paper_draw(paper, draw, cells, &err));
        for (int s = 0; s < SIZES; s++)
            squares[s] += pow(cells[s].mean_error, 2.0) / DRAWS;
    }
    es_probe_paper_close(paper);
    /* |m_n - m|^2 is nearly a sum of a few chi^2: its relative error is at most sqrt(2/400); two of
     * them, 4 standard errors; and the next order in scores and 1/n, of a few per cent */
    assert_near(squares[0] * (double)small[0] / (squares[1] * (double)small[1]), 1.0,
                4.0 * sqrt(2.0 * 2.0 / DRAWS) + 0.15);
}

static void same_bits_for_any_threads_and_what_is_refused(void **state)
{
    (void)state;
    es_probe_paper_cell cells[2][SIZES];
    es_probe_paper *paper;
    for (int i = 0; i < 2; i++) {
        es_mem_limit budget = {0};
        const es_exec exec = {.threads = i ? 3 : 1, .budget = &budget};
        const es_probe_spec spec = paper_spec(&exec);
        es_probe_price open, draw = es_probe_paper_price(&spec, LENGTH, &open);
        assert_ok(es_probe_paper_open(&spec, 1, BLOCK, &paper, &err));
        assert_at_most(budget.peak, open.bytes);
        assert_ok(es_probe_paper_draw(paper, 7, cells[i], &err));
        assert_int_equal(es_probe_paper_draw(paper, -1, cells[i], &err), ES_E_RANGE);
        assert_int_equal(es_probe_paper_draw(paper, 1 << 16, cells[i], &err), ES_E_RANGE);
        es_probe_paper_close(paper);
        assert_at_most(budget.peak, draw.bytes);
        assert_int_equal(budget.used, 0);
        assert_int_equal(es_probe_paper_open(&spec, 1, es_pool_about(pool).blocks, &paper, &err),
                         ES_E_RANGE);
        assert_null(paper);
        assert_int_equal(es_probe_paper_open(&spec, 3, BLOCK, &paper, &err), ES_E_RANGE);
        budget.limit = 20000;
        assert_int_equal(es_probe_paper_open(&spec, 1, BLOCK, &paper, &err), ES_E_LIMIT);
        assert_int_equal(budget.used, 0);
    }
    assert_memory_equal(cells[0], cells[1], sizeof cells[0]);
}

TEST_FILE(probe_paper)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_what_the_loops_say),
        cmocka_unit_test(horizon_is_that_of_the_public_code),
        cmocka_unit_test(small_scores_average),
        cmocka_unit_test(same_bits_for_any_threads_and_what_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
