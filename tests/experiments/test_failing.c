/* SPDX-License-Identifier: Apache-2.0 */
/* Laws without a limit: outputs, weights and shares against sums written out here, growth against
 * the law of a maximum, weights against Poisson and Dirichlet. */
#include "testing.h"

#include <math.h>

#include "experiments/converge/converge.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "tokens/tokens.h"

enum { DIM = 2, N = 200, FEW = 50 };

/* Softmax of one query over the first n tokens, at tilt t: |output|, largest weight, sum w^2. */
static void attend(const double *tokens, int64_t n, const double *t, double out[3])
{
    double most = -INFINITY, sum = 0.0, squares = 0.0, y[DIM] = {0.0};
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, t[0] * tokens[DIM * i] + t[1] * tokens[DIM * i + 1]);
    for (int64_t i = 0; i < n; i++) {
        const double w = exp(t[0] * tokens[DIM * i] + t[1] * tokens[DIM * i + 1] - most);
        sum += w;
        squares += w * w;
        for (int j = 0; j < DIM; j++)
            y[j] += w * tokens[DIM * i + j];
    }
    out[0] = hypot(y[0], y[1]) / sum;
    out[1] = 1.0 / sum;
    out[2] = squares / (sum * sum);
}

static const double A[DIM * DIM] = {0.8, -0.3, 0.2, 0.5};

static void numbers_are_those_of_a_plain_sum(void **state)
{
    static const double scales[] = {2.0, 6.0};
    static const int64_t sizes[] = {FEW, N};
    const es_law laws[] = {{ES_LAW_STUDENT, .dim = DIM, .size = 1.5, .freedom = 2.5},
                           {ES_LAW_LAPLACE, .dim = DIM, .size = 0.6}};
    const es_view a = es_view_f64(A, DIM, DIM);
    const es_head head = {.A = &a};
    (void)state;
    for (int l = 0; l < 2; l++) {
        const es_converge_spec spec = {&laws[l],      .head = &head,      .scales = scales,
                                       .n_scales = 2, .sizes = sizes,     .n_sizes = 2,
                                       .seed = 5,     .precision = ES_F64};
        const es_address at = {.seed = 5, .experiment = ES_EXPERIMENT_CONVERGE_TOKENS, .cell = 3};
        es_converge_failure got[4];
        double tokens[N * DIM];
        assert_int_equal(es_tokens_fill(&laws[l], &at, N, NULL, tokens, &err), ES_OK);
        assert_int_equal(es_converge_failing(&spec, 3, got, &err), ES_OK);
        for (int set = 0; set < 4; set++) {
            double log_norm = 0.0, top = 0.0, ess = 0.0, tail = 0.0, count = 0.0;
            for (int q = 0; q < FEW; q++) {
                double t[DIM], one[3];
                for (int i = 0; i < DIM; i++)
                    t[i] = scales[set / 2] *
                           (A[DIM * i] * tokens[DIM * q] + A[DIM * i + 1] * tokens[DIM * q + 1]);
                /* Laplace of scale 0.6: E e^{<t,y>} is finite while 0.6 |t_i| < 1 */
                const double alpha = 1.0 / (0.6 * fmax(fabs(t[0]), fabs(t[1])));
                if (l == 1 && alpha > 1.0)
                    continue;
                attend(tokens, sizes[set % 2], t, one);
                count += 1.0;
                log_norm += log(one[0]);
                top += one[1];
                ess += 1.0 / one[2];
                tail += l == 1 ? 1.0 - alpha : 1.0;
            }
            assert_above(count, 5.0); /* or nothing is tested */
            assert_near(got[set].beyond, count / FEW, 1e-12);
            assert_near(got[set].log_norm, log_norm / count, 1e-9);
            assert_near(got[set].top_weight, top / count, 1e-9);
            assert_near(got[set].ess, ess / count, 1e-8 * ess / count);
            assert_near(got[set].predicted_squares, tail / count, 1e-9);
            assert_near(got[set].predicted_step, l == 1 ? 0.6 : 0.0, 1e-12);
        }
    }
}

/* E ln max of n tokens of Student's t with 2 degrees: max = F^-1(U^{1/n}), and the quantile is
 * (2p - 1)/sqrt(2p(1-p)). Midpoint rule; 1 - p by expm1, which does not round it away. */
static double mean_log_max(double n)
{
    enum { POINTS = 20000 };
    double sum = 0.0;
    for (int i = 0; i < POINTS; i++) {
        const double log_p = log((i + 0.5) / POINTS) / n, rest = -expm1(log_p);
        sum += log(fabs(1.0 - 2.0 * rest)) - 0.5 * log(2.0 * (1.0 - rest) * rest);
    }
    return sum / POINTS;
}

/* One dimension and scores so far apart that the largest token, or the smallest, is the output. */
static void outputs_grow_like_a_maximum(void **state)
{
    enum { REPLICATES = 120 };
    static const int64_t sizes[] = {100, 10000};
    static const double one = 1.0, scale = 1e5;
    const es_law law = {ES_LAW_STUDENT, .dim = 1, .size = 1.0, .freedom = 2.0};
    const es_view a = es_view_f64(&one, 1, 1);
    const es_head head = {.A = &a};
    const es_converge_spec spec = {&law,          .head = &head,       .scales = &scale,
                                   .n_scales = 1, .sizes = sizes,      .n_sizes = 2,
                                   .seed = 1,     .precision = ES_F64, .population = true,
                                   .queries = 8,  .map_queries = 8};
    double slopes[REPLICATES];
    (void)state;
    for (int64_t r = 0; r < REPLICATES; r++) {
        es_converge_failure got[2];
        assert_int_equal(es_converge_failing(&spec, r, got, &err), ES_OK);
        slopes[r] = (got[1].log_norm - got[0].log_norm) / log(100.0);
        assert_above(got[1].top_weight, 0.9);
    }
    const es_measured slope = es_measured_mean(slopes, REPLICATES);
    const double exact = (mean_log_max(1e4) - mean_log_max(1e2)) / log(100.0);
    assert_near(exact, 0.5, 0.01); /* 1/freedom */
    /* 1e-3: queries nearer to 0 than 1e-5 or so do not choose one token */
    assert_near(slope.value, exact, 4.0 * slope.se + 1e-3);
    assert_below(slope.se, 0.03);
}

/* In one dimension P(e^s > w) = w^-alpha/2 beyond 1, so that weights are Poisson-Dirichlet and E
 * sum w^2 = 1 - alpha up to n^{1 - 1/alpha}, which counts for the 5 % of queries with alpha > 1/2
 * alone: 0.01. */
static void exponential_tails_share_by_their_index(void **state)
{
    enum { REPLICATES = 100 };
    static const int64_t size = 2000;
    static const double one = 1.0, scale = 20.0;
    const es_law law = {ES_LAW_LAPLACE, .dim = 1, .size = 1.0};
    const es_view a = es_view_f64(&one, 1, 1);
    const es_head head = {.A = &a};
    const es_converge_spec spec = {&law,          .head = &head,       .scales = &scale,
                                   .n_scales = 1, .sizes = &size,      .n_sizes = 1,
                                   .seed = 2,     .precision = ES_F64, .population = true,
                                   .queries = 32, .map_queries = 32};
    double off[REPLICATES];
    (void)state;
    for (int64_t r = 0; r < REPLICATES; r++) {
        es_converge_failure got;
        assert_int_equal(es_converge_failing(&spec, r, &got, &err), ES_OK);
        off[r] = got.sum_squares - got.predicted_squares;
    }
    const es_measured m = es_measured_mean(off, REPLICATES);
    assert_near(m.value, 0.0, 4.0 * m.se + 0.01);
    assert_below(m.se, 0.02);
}

static void laws_with_a_limit_are_refused(void **state)
{
    static const int64_t size = 10;
    static const double one = 1.0;
    es_law law = {ES_LAW_GAUSSIAN, .dim = 1, .size = 1.0};
    const es_view a = es_view_f64(&one, 1, 1);
    const es_head head = {.A = &a};
    const es_converge_spec spec = {&law,          .head = &head,  .scales = &one,
                                   .n_scales = 1, .sizes = &size, .n_sizes = 1};
    es_converge_failure got;
    (void)state;
    assert_false(es_converge_fails(&law));
    assert_int_equal(es_converge_failing(&spec, 0, &got, &err), ES_E_ARGUMENT);
    law.kind = ES_LAW_LOGISTIC;
    assert_true(es_converge_fails(&law));
    assert_int_equal(es_converge_failing(&spec, -1, &got, &err), ES_E_RANGE);
}

TEST_FILE(failing)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_a_plain_sum),
        cmocka_unit_test(outputs_grow_like_a_maximum),
        cmocka_unit_test(exponential_tails_share_by_their_index),
        cmocka_unit_test(laws_with_a_limit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
