/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"
#include "numbers.h"
#include "testing.h"

#include "experiments/collapse/collapse.h"

/* ---- closed form ---- */

static es_collapse exact(int64_t n, double rho, double gamma)
{
    const es_equiangular t = {.n = n, .rho = rho, .beta = gamma * log((double)n)};
    es_collapse c;
    assert_ok(es_collapse_exact(&t, &c, &err));
    return c;
}

static void closed_form_agrees_with_theory_json(void **state)
{
    (void)state;
    json_t *rows = golden("equiangular"), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const double n = golden_real(row, "n");
        const es_equiangular t = {.n = (int64_t)n,
                                  .rho = golden_real(row, "rho"),
                                  .beta = golden_real(row, "gamma") * log(n),
                                  .alpha = golden_real(row, "alpha"),
                                  .square = golden_real(row, "q")};
        es_collapse c;
        assert_ok(es_collapse_exact(&t, &c, &err));
        assert_close(c.self_weight, golden_real(row, "p"), 1e-11);
        /* The reference has (1-p)/(n-1), which rounds where p is near 1; the entropy has
         * ln p = -1e-5 there. */
        assert_near(c.other_weight, golden_real(row, "s"), 1e-11 * c.other_weight + 2e-16 / n);
        assert_close(c.cosine, golden_real(row, "cos"), 1e-11);
        assert_close(c.norm2, golden_real(row, "norm2"), 1e-11);
        assert_near(c.entropy, golden_real(row, "ent"), 1e-11 * c.entropy + 4e-15);
        assert_close(c.ess, golden_real(row, "ess"), 1e-11);
    }
    assert_above(i, 10);
    json_decref(rows);
}

/* Angle ratios of the notes' table, to the digits it has. */
static void angle_ratios_of_the_notes(void **state)
{
    (void)state;
    static const double times[] = {.5, .8, .9, 1, 1.1, 1.2, 1.5, 2};
    static const struct {
        int64_t n;
        double rho, ratio[8];
    } rows[] = {{1000, .3, {.051, .329, .516, .700, .835, .914, .989, 1.000}},
                {1000, .7, {.035, .231, .381, .557, .720, .840, .977, .999}},
                {1000000, .3, {.002, .101, .330, .701, .914, .978, 1.000, 1}},
                {100, .5, {.111, .364, .487, .610, .720, .808, .946, .994}}};
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 8; i++)
            assert_near(exact(rows[r].n, rows[r].rho, times[i] / (1.0 - rows[r].rho)).angle_ratio,
                        rows[r].ratio[i], 0.00051);
}

/* The papers' limits: cos' = 1, 4 rho/(1+3 rho), rho below, at and above gamma_c, and q eta = 0,
 * 1/4, 1. What is left at n = 10^18 is of order n^{-|1 - gamma/gamma_c|} < 10^-8, or 1/n. */
static void limits_of_the_paper(void **state)
{
    (void)state;
    const int64_t n = ES_COLLAPSE_MOST_N;
    for (double rho = 0.1; rho < 0.95; rho += 0.2) {
        const double c = 1.0 / (1.0 - rho);
        assert_near(exact(n, rho, 0.5 * c).cosine, 1.0, 1e-7);
        assert_near(exact(n, rho, c).cosine, 4.0 * rho / (1.0 + 3.0 * rho), 1e-12);
        assert_near(exact(n, rho, 1.5 * c).cosine, rho, 1e-7);
        assert_near(exact(n, rho, 0.5 * c).gradient_limit, 0.0, 1e-7);
        assert_near(exact(n, rho, c).gradient_limit, 0.25, 1e-12);
        assert_near(exact(n, rho, 1.5 * c).gradient_limit, 1.0, 1e-7);
        assert_int_equal(exact(n, rho, 0.9 * c).phase, ES_COLLAPSE_MERGED);
        assert_int_equal(exact(n, rho, c).phase, ES_COLLAPSE_WINDOW);
        assert_int_equal(exact(n, rho, 1.1 * c).phase, ES_COLLAPSE_APART);
    }
}

static void NU01_no_scale_is_the_plain_mean(void **state)
{
    (void)state;
    const es_collapse c = exact(50, 0.4, 0.0);
    assert_near(c.self_weight, 0.02, 1e-17);
    assert_near(c.ess, 50.0, 1e-12);
    assert_equals(c.angle_ratio, 0.0);
    assert_equals(c.cosine, 1.0);
    const es_equiangular t = {.n = 50, .rho = 0.4, .beta = 1e300};
    es_collapse huge;
    assert_ok(es_collapse_exact(&t, &huge, &err)); /* NU02 */
    assert_equals(huge.self_weight, 1.0);
    assert_equals(huge.other_weight, 0.0);
    assert_equals(huge.angle_ratio, 1.0);
    assert_near(huge.cosine, 0.4, 1e-15);
}

/* ---- the Jacobian, by brute force ---- */

enum { MOST = 8 };

/* x' of all tokens, straight from the definition. */
static void layer(int n, int d, double beta, double alpha, const double *x, double *out)
{
    double y[MOST * MOST], w[MOST];
    for (int i = 0; i < n; i++) {
        double norm = 0.0;
        for (int c = 0; c < d; c++)
            norm += x[i * d + c] * x[i * d + c];
        for (int c = 0; c < d; c++)
            y[i * d + c] = x[i * d + c] / sqrt(norm);
    }
    for (int i = 0; i < n; i++) {
        double z = 0.0;
        for (int j = 0; j < n; j++) {
            double score = 0.0;
            for (int c = 0; c < d; c++)
                score += y[i * d + c] * y[j * d + c];
            z += w[j] = exp(beta * score);
        }
        for (int c = 0; c < d; c++) {
            out[i * d + c] = alpha * x[i * d + c];
            for (int j = 0; j < n; j++)
                out[i * d + c] += w[j] / z * y[j * d + c];
        }
    }
}

/* |dx_i'/dX|^2 for i, or for all tokens if i is -1, by central differences: h^2/6 times a third
 * derivative, some 1e-8 here, and rounding of eps/h = 1e-12. */
static double jacobian2(int n, int d, double beta, double alpha, double *x, int only)
{
    const double h = 1e-4;
    double up[MOST * MOST], down[MOST * MOST], sum = 0.0;
    for (int e = 0; e < n * d; e++) {
        const double keep = x[e];
        x[e] = keep + h;
        layer(n, d, beta, alpha, x, up);
        x[e] = keep - h;
        layer(n, d, beta, alpha, x, down);
        x[e] = keep;
        for (int f = 0; f < n * d; f++)
            if (only < 0 || f / d == only)
                sum += pow((up[f] - down[f]) / (2.0 * h), 2.0);
    }
    return sum;
}

/* n tokens of norm sqrt q in d >= n dimensions: y_i = a e_i + b sum_j e_j. */
static void equiangular(int n, int d, double rho, double q, double *x)
{
    const double a = sqrt(1.0 - rho);
    const double b = (sqrt(1.0 + (n - 1) * rho) - a) / n;
    for (int i = 0; i < n; i++)
        for (int c = 0; c < d; c++)
            x[i * d + c] = c < n ? sqrt(q) * (b + (c == i ? a : 0.0)) : 0.0;
}

static void gradient_is_that_of_differences(void **state)
{
    (void)state;
    double x[MOST * MOST];
    for (int n = 2; n <= 5; n++)
        for (int d = n; d <= n + 2; d += 2)
            for (int k = 0; k < 8; k++) {
                const double rho = 0.15 + 0.3 * (k % 3), beta = 0.5 + k, q = k % 2 ? 2.5 : 1.0;
                const double alpha = k % 4 < 2 ? 0.0 : 0.7;
                const es_equiangular t = {
                    .n = n, .rho = rho, .beta = beta, .alpha = alpha, .square = q, .dim = d};
                es_collapse c;
                assert_ok(es_collapse_exact(&t, &c, &err));
                equiangular(n, d, rho, q, x);
                assert_close(c.gradient, jacobian2(n, d, beta, alpha, x, -1) / (n * d), 1e-6);
            }
    /* The notes' example. */
    const es_equiangular t = {.n = 60, .rho = .3, .beta = log(60.0) / .7, .dim = 60};
    es_collapse c;
    assert_ok(es_collapse_exact(&t, &c, &err));
    assert_near(c.gradient, 0.301, 0.0006);
    es_equiangular other = t;
    other.dim = 59; /* no 60 equiangular tokens there */
    assert_ok(es_collapse_exact(&other, &c, &err));
    assert_nan(c.gradient);
    assert_finite(c.gradient_limit);
}

/* The row of any tokens, probed along every axis: then nothing is left to chance. */
static void rows_of_the_jacobian_are_those_of_differences(void **state)
{
    (void)state;
    enum { N = 6, D = 4 };
    state_of_rng = 3;
    for (int trial = 0; trial < 10; trial++) {
        double x[MOST * MOST], y[MOST * MOST], out[MOST * MOST], probe[D], scratch[2 * D];
        const double beta = 1.0 + trial, alpha = 0.1 * trial, q = 1.0 + 0.2 * trial;
        for (int i = 0; i < N; i++) {
            double norm = 0.0;
            for (int c = 0; c < D; c++) {
                y[i * D + c] = normal() + (c == 0);
                norm += y[i * D + c] * y[i * D + c];
            }
            for (int c = 0; c < D; c++)
                x[i * D + c] = sqrt(q) * (y[i * D + c] /= sqrt(norm));
        }
        layer(N, D, beta, 0.0, x, out);
        double z = 0.0, sum = 0.0;
        for (int j = 0; j < N; j++) {
            double score = 0.0;
            for (int c = 0; c < D; c++)
                score += y[2 * D + c] * y[j * D + c];
            z += exp(beta * score);
        }
        es_jacobian_row row = {.y = y,
                               .n = N,
                               .dim = D,
                               .i = 2,
                               .beta = beta,
                               .alpha = alpha,
                               .square = q,
                               .m = out + 2 * D,
                               .lse = log(z),
                               .probe = probe,
                               .scratch = scratch};
        for (int axis = 0; axis < D; axis++) {
            for (int c = 0; c < D; c++)
                probe[c] = c == axis ? sqrt((double)D) : 0.0;
            sum += es_jacobian_row2(&row) / D;
        }
        assert_close(sum, jacobian2(N, D, beta, alpha, x, 2), 1e-6);
    }
}

/* ---- thresholds and scalings ---- */

static void thresholds(void **state)
{
    (void)state;
    assert_close(es_collapse_threshold(1000, 0.75, 0), 4.0, 1e-15);
    /* The root of B = L + kappa B^2/(2d), the smaller one. */
    const double L = log(1000.0), rho = 0.3, kappa = 1.255, d = 128;
    const double B = es_collapse_threshold(1000, rho, 128) * (1.0 - rho) * L;
    assert_close(B, L + kappa * B * B / (2.0 * d), 1e-14);
    assert_below(B, d / kappa);
    assert_near(es_collapse_self_weight(1000, rho, B / (1.0 - rho), 128), 0.5, 0.001);
    assert_close(es_collapse_self_weight(1000, rho, 7.0, 0), exact(1000, rho, 7.0 / L).self_weight,
                 1e-14);
    assert_nan(es_collapse_threshold(1000, rho, 17)); /* 2 kappa L = 17.34 */
    assert_true(!isnan(es_collapse_threshold(1000, rho, 18)));
    assert_nan(es_collapse_threshold(1, rho, 0));
    assert_nan(es_collapse_threshold(10, 1.0, 0));
    assert_nan(es_collapse_threshold(10, (double)NAN, 0));
    assert_nan(es_collapse_self_weight(1000, rho, 100.0, 32));
}

static void scalings_in_use(void **state)
{
    (void)state;
    assert_near(es_scaling_yarn(4096, 4096, 0.1), 1.0, 0.0);
    assert_near(es_scaling_yarn(100, 4096, 0.1), 1.0, 0.0);
    assert_close(es_scaling_yarn(8 * 4096, 4096, 0.1), pow(0.1 * log(8.0) + 1.0, 2), 1e-15);
    assert_close(es_scaling_logn(2048.0 * 2048.0, 2048), 2.0, 1e-15);
    assert_near(es_scaling_logn(10, 2048), 1.0, 0.0);
}

/* ---- the random model ---- */

/* High dimension: the random model is nearly equiangular. Against the closed form at the realised
 * cosine, with the self weight of finite dimension; what the spread of cosines leaves is of
 * relative order kappa B/d = 1.3 % here, hence the allowance. */
static void random_tokens_follow_the_closed_form(void **state)
{
    (void)state;
    enum { BETAS = 3, R = 8 };
    const int64_t n = 300;
    const double L = log((double)n), beta[BETAS] = {0.0, L / 0.7, 2.0 * L / 0.7};
    es_collapse_draw draws[R * BETAS];
    es_collapse_row rows[BETAS];
    const es_collapse_opts opts = {.seed = 1, .experiment = 45, .dim = 1000, .tokens = 40};
    assert_ok(es_collapse_sample(&opts, n, 0.3, beta, BETAS, 0, R, draws, &err));
    es_collapse_average(draws, R, BETAS, rows);
    for (int b = 0; b < BETAS; b++) {
        const es_collapse_draw *m = &rows[b].mean, *se = &rows[b].se;
        const double p = es_collapse_self_weight(n, m->rho, beta[b], 1000);
        const es_collapse c = exact(n, m->rho, beta[b] / L);
        print_message("beta %.2f: p %.4f+-%.4f (%.4f), ratio %.4f+-%.4f (%.4f), cos %.4f (%.4f), "
                      "eta %.4f+-%.4f (%.4f), ess %.2f (%.2f), rho^ %.4f\n",
                      beta[b], m->self_weight, se->self_weight, p, m->angle_ratio, se->angle_ratio,
                      c.angle_ratio, m->cosine, c.cosine, m->gradient, se->gradient,
                      c.gradient_limit, m->ess, c.ess, m->rho);
        assert_near(m->self_weight, p, 4.0 * se->self_weight + 0.01);
        assert_near(m->angle_ratio, c.angle_ratio, 4.0 * se->angle_ratio + 0.01);
        assert_near(m->cosine, c.cosine, 4.0 * se->cosine + 0.01);
        assert_near(m->rho, 0.3, 4.0 * 0.21 * sqrt(2.0 / 1000.0 / R));
        /* eta has the factor 1 - 1/d and a correction of order beta^2/d. */
        assert_near(m->gradient, c.gradient_limit * 0.999,
                    4.0 * se->gradient + 2.0 * beta[b] * beta[b] / 1000.0 + 1e-12);
    }
    /* No scores: every output is the mean, its length follows from the realised cosine alone. */
    assert_near(rows[0].mean.ess, (double)n, 1e-8);
    assert_near(rows[0].mean.angle_ratio, 0.0, 1e-7);
}

/* A replicate by brute force: its tokens cannot be seen, but n = tokens = 2 leaves one cosine. */
static void two_tokens_by_hand(void **state)
{
    (void)state;
    const double beta[2] = {1.5, 40.0};
    const es_collapse_opts opts = {.seed = 9, .dim = 3, .alpha = 0.25, .square = 4.0};
    es_collapse_draw draws[5 * 2];
    assert_ok(es_collapse_sample(&opts, 2, 0.5, beta, 2, 0, 5, draws, &err));
    for (int i = 0; i < 10; i++) {
        const double rho = draws[i].rho;
        if (rho < 0.0)
            continue; /* the closed form wants 0 <= rho */
        const es_equiangular t = {
            .n = 2, .rho = rho, .beta = beta[i % 2], .alpha = 0.25, .square = 4.0};
        es_collapse c;
        assert_ok(es_collapse_exact(&t, &c, &err));
        assert_close(draws[i].self_weight, c.self_weight, 1e-11);
        assert_close(draws[i].ess, c.ess, 1e-11);
        assert_close(draws[i].angle_ratio, c.angle_ratio, 1e-9);
        assert_near(draws[i].cosine, c.cosine, 1e-11);
    }
}

/* With `realised` beta is in units of the replicate's own 1/(1-rho^): two tokens have the weight of
 * the closed form at that beta. Tolerance: rounding, as above. */
static void realised_beta_follows_the_replicate(void **state)
{
    (void)state;
    const double beta = 1.5;
    const es_collapse_opts opts = {.seed = 9, .dim = 3, .realised = true};
    es_collapse_draw draws[5];
    assert_ok(es_collapse_sample(&opts, 2, 0.5, &beta, 1, 0, 5, draws, &err));
    for (int i = 0; i < 5; i++) {
        const double rho = draws[i].rho, own = beta * 0.5 / (1.0 - rho);
        assert_close(draws[i].self_weight, 1.0 / (1.0 + exp(-own * (1.0 - rho))), 1e-11);
    }
}

static void draws_depend_on_their_replicate_alone(void **state)
{
    (void)state;
    const double beta[2] = {3.0, 9.0};
    es_collapse_draw all[6 * 2], part[2 * 2];
    for (int threads = 1; threads <= 3; threads++) {
        const es_exec exec = {.threads = threads};
        const es_collapse_opts opts = {.seed = 2, .dim = 16, .tokens = 8, .exec = &exec};
        if (threads == 1)
            assert_ok(es_collapse_sample(&opts, 50, 0.4, beta, 2, 0, 6, all, &err));
        assert_ok(es_collapse_sample(&opts, 50, 0.4, beta, 2, 3, 2, part, &err));
        assert_memory_equal(part, all + 3 * 2, sizeof part);
    }
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const es_equiangular bad[] = {
        {.n = 1, .rho = .3},        {.n = ES_COLLAPSE_MOST_N + 1, .rho = .3},
        {.n = 5, .rho = 1.0},       {.n = 5, .rho = -0.1},
        {.n = 5, .rho = NAN},       {.n = 5, .beta = -1.0},
        {.n = 5, .beta = INFINITY}, {.n = 5, .alpha = NAN},
        {.n = 5, .square = -1.0},   {.n = 5, .dim = -1}};
    es_collapse c;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(es_collapse_exact(&bad[i], &c, &err), ES_E_RANGE);
        assert_true(*err.message);
    }
    static const struct {
        es_collapse_opts opts;
        int64_t n;
        double rho, beta;
    } random[] = {{{0}, 1, .3, 1},
                  {{0}, 10000001, .3, 1},
                  {{.dim = 1}, 10, .3, 1},
                  {{.dim = 4097}, 10, .3, 1},
                  {{.tokens = 11}, 10, .3, 1},
                  {{.tokens = 5, .rows = 6}, 10, .3, 1},
                  {{.square = -1}, 10, .3, 1},
                  {{.alpha = INFINITY}, 10, .3, 1},
                  {{0}, 10, 1.0, 1},
                  {{0}, 10, .3, NAN}};
    es_collapse_draw draw;
    for (size_t i = 0; i < sizeof random / sizeof random[0]; i++)
        assert_int_equal(es_collapse_sample(&random[i].opts, random[i].n, random[i].rho,
                                            &random[i].beta, 1, 0, 1, &draw, &err),
                         ES_E_RANGE);
    const double beta = 1.0;
    es_mem_limit little = {.limit = 1000};
    const es_exec exec = {.budget = &little};
    const es_collapse_opts opts = {.exec = &exec}, plain = {.rows = -1};
    assert_int_equal(es_collapse_sample(&opts, 100, .3, &beta, 1, 0, 1, &draw, &err), ES_E_LIMIT);
    assert_int_equal(es_collapse_sample(&plain, 100, .3, &beta, 0, 0, 1, &draw, &err), ES_E_EMPTY);
    assert_ok(es_collapse_sample(&plain, 100, .3, &beta, 1, 0, 1, &draw, &err));
    assert_nan(draw.gradient);
    es_collapse_row row;
    es_collapse_average(&draw, 1, 1, &row);
    assert_equals(row.mean.ess, draw.ess);
    assert_nan(row.se.ess);
}

TEST_FILE(collapse)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_form_agrees_with_theory_json),
        cmocka_unit_test(angle_ratios_of_the_notes),
        cmocka_unit_test(limits_of_the_paper),
        cmocka_unit_test(NU01_no_scale_is_the_plain_mean),
        cmocka_unit_test(gradient_is_that_of_differences),
        cmocka_unit_test(rows_of_the_jacobian_are_those_of_differences),
        cmocka_unit_test(thresholds),
        cmocka_unit_test(scalings_in_use),
        cmocka_unit_test(random_tokens_follow_the_closed_form),
        cmocka_unit_test(two_tokens_by_hand),
        cmocka_unit_test(realised_beta_follows_the_replicate),
        cmocka_unit_test(draws_depend_on_their_replicate_alone),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
