/* SPDX-License-Identifier: Apache-2.0 */
/* test_ball.c : the supremum over a ball, against grids and closed forms, and the field it tends
 * to. */
#include "testing.h"

#include "experiments/ball/ball.h"
#include "golden.h"
#include "limit/limit.h"
#include "linalg/linalg.h"
#include "tokens/tokens.h"

static const double eye[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}; /* of dimension 3 */
static const double two[4] = {1, 0, 0, 1};                /* of dimension 2 */

static es_law gaussian(int64_t dim)
{
    return (es_law){.kind = ES_LAW_GAUSSIAN, .dim = dim, .size = 1.0};
}

/* |Gamma_n(x) - Gamma(x)| for A = V = I and tokens (n, d) of N(0, I), by plain loops. */
static double plain_error(const double *y, int64_t n, int64_t d, const double *x)
{
    double most = -INFINITY, total = 0.0, sums[8] = {0}, squares = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < n; i++) {
            double score = 0.0;
            for (int64_t j = 0; j < d; j++)
                score += y[i * d + j] * x[j];
            if (pass == 0) {
                most = fmax(most, score);
                continue;
            }
            const double w = exp(score - most);
            total += w;
            for (int64_t j = 0; j < d; j++)
                sums[j] += w * y[i * d + j];
        }
    for (int64_t j = 0; j < d; j++)
        squares += (sums[j] / total - x[j]) * (sums[j] / total - x[j]);
    return sqrt(squares);
}

static es_ball_cell *measure(const es_ball_spec *spec, int64_t replicates)
{
    es_ball *ball;
    es_ball_cell *out = calloc((size_t)(replicates * spec->n_sizes * spec->n_radii), sizeof *out);
    assert_non_null(out);
    assert_ok(es_ball_new(spec, &ball, &err));
    assert_ok(es_ball_replicates(ball, 0, replicates, out, &err));
    es_ball_free(ball);
    return out;
}

/* ---- theory ---- */

static void field_has_the_closed_forms_of_gaussian_tokens(void **state)
{
    (void)state;
    /* tokens N(m, BB'), A and V rectangular-ish: n MSE = e^{q^2} (tr VSV' + |VSAx|^2) */
    const double B[4] = {1.0, 0.0, 0.5, 0.8}, mean[2] = {0.3, -2.0}, A[4] = {0.7, -0.2, 0.4, 0.9};
    const double V[6] = {1.0, 0.5, -0.3, 2.0, 0.1, 0.0}, x[2] = {0.6, -0.9};
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = 2, .size = 1.0, .mean = mean, .factor = B};
    double S[4], s[2], Ss[2], q2 = 0.0, size = 0.0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            S[2 * i + j] = B[2 * i] * B[2 * j] + B[2 * i + 1] * B[2 * j + 1];
    for (int i = 0; i < 2; i++)
        s[i] = A[2 * i] * x[0] + A[2 * i + 1] * x[1];
    for (int i = 0; i < 2; i++) {
        Ss[i] = S[2 * i] * s[0] + S[2 * i + 1] * s[1];
        q2 += s[i] * Ss[i];
    }
    for (int c = 0; c < 3; c++) {
        const double *v = V + 2 * c, shift = v[0] * Ss[0] + v[1] * Ss[1];
        size += v[0] * (S[0] * v[0] + S[1] * v[1]) + v[1] * (S[2] * v[0] + S[3] * v[1]);
        size += shift * shift;
    }
    es_ball_point point;
    assert_ok(es_ball_point_at(&law, A, V, 3, x, NULL, &point, &err));
    assert_near(point.log_ess, q2, 1e-13); /* rounding: a few eps of numbers of size 10 */
    assert_near(point.log_mse, q2 + log(size), 1e-13);
    assert_near(point.entropy, 2.0 * q2, 1e-13); /* the mean does not count */
}

static void field_has_the_golden_values_of_the_sphere(void **state)
{
    (void)state;
    json_t *group = golden("sphere_fluct"), *item;
    size_t i;
    json_array_foreach(json_object_get(group, "items"), i, item)
    {
        const int64_t d = (int64_t)golden_real(item, "d");
        const es_law law = {.kind = ES_LAW_SPHERE, .dim = d, .size = 1.0};
        double *unit = calloc((size_t)(d * d), sizeof *unit), *x = calloc((size_t)d, sizeof *x);
        for (int64_t j = 0; j < d; j++)
            unit[j * d + j] = 1.0;
        x[d - 1] = golden_real(item, "beta");
        es_ball_point point;
        assert_ok(es_ball_point_at(&law, unit, unit, d, x, NULL, &point, &err));
        /* the golden numbers carry 1e-13 themselves: nmse of d = 3 is 1 - 5.2e-15 */
        assert_close(exp(point.log_ess), golden_real(item, "D"), 1e-12);
        assert_close(exp(point.log_mse), golden_real(item, "nmse"), 1e-12);
        free(unit);
        free(x);
    }
    json_decref(group);
}

static void sphere_in_three_dimensions_is_equally_hard_everywhere(void **state)
{
    (void)state;
    /* n MSE = 1 for every x, whatever R: the ball's constant is 1. K(r) = ln(sinh r / r), so that
     * the entropy at 2r is 2r coth 2r - 1 - K(2r) */
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = 3, .size = 1.0};
    const es_view unit = es_view_f64(eye, 3, 3);
    const es_head head = {.A = &unit};
    const double radii[3] = {0.1, 2.0, 30.0};
    es_ball_constant c[3];
    assert_ok(es_ball_predict(&law, &head, radii, 3, NULL, c, &err));
    for (int i = 0; i < 3; i++) {
        const double r = 2.0 * radii[i];
        const double K = r + log1p(-exp(-2.0 * r)) - log(2.0 * r);
        assert_near(c[i].rms, 1.0, 1e-10); /* K(2r) - 2K(r) loses K eps = 60 eps */
        assert_near(c[i].entropy, r / tanh(r) - 1.0 - K, 1e-10);
    }
}

static void constant_of_gaussian_tokens_is_the_largest_on_the_ball(void **state)
{
    (void)state;
    /* against a polar grid; V favours one direction and A another, so that the maximum is on no
     * axis */
    const es_law law = gaussian(2);
    const double A[4] = {0.9, 0.1, 0.0, 0.8}, V[4] = {0.2, 0.0, 0.4, 3.0};
    const es_view a = es_view_f64(A, 2, 2), v = es_view_f64(V, 2, 2);
    const es_head head = {.A = &a, .V = &v};
    const double radii[2] = {0.5, 1.5};
    es_ball_constant c[2];
    assert_ok(es_ball_predict(&law, &head, radii, 2, NULL, c, &err));
    for (int i = 0; i < 2; i++) {
        double most = 0.0;
        for (int k = 0; k < 3600; k++) {
            const double angle = 6.283185307179586 * k / 3600.0;
            const double x[2] = {radii[i] * cos(angle), radii[i] * sin(angle)};
            es_ball_point point;
            assert_ok(es_ball_point_at(&law, A, V, 2, x, NULL, &point, &err));
            most = fmax(most, exp(0.5 * point.log_mse));
        }
        /* grid: curvature times (pi/3600)^2, below 1e-5 */
        assert_close(c[i].rms, most, 1e-5);
        assert_near(c[i].radius, radii[i], 1e-12);
    }
    /* q^2 = R^2 H1^2 decides what n suffices: H1 = |A| here */
    es_num h1;
    assert_ok(es_norm_spectral(&a, NULL, &h1, &err));
    const double q2 = 2.25 * h1.val * h1.val;
    assert_near(c[1].entropy, 2.0 * q2, 1e-12);
    assert_false(es_ball_saturated(&c[1], 20.1 * exp(2.0 * q2)));
    assert_true(es_ball_saturated(&c[1], 19.9 * exp(2.0 * q2)));
}

static void laplace_beyond_half_its_edge_has_no_constant(void **state)
{
    (void)state;
    /* E e^{2<s,Y>} is infinite for |s| >= 1/2, while the limit lives up to 1 */
    const es_law law = {.kind = ES_LAW_LAPLACE, .dim = 2, .size = 1.0};
    const es_view unit = es_view_f64(two, 2, 2);
    const es_head head = {.A = &unit};
    const double radii[2] = {0.4, 0.8};
    es_ball_constant c[2];
    assert_ok(es_ball_predict(&law, &head, radii, 2, NULL, c, &err));
    assert_finite(c[0].rms);
    assert_infinite(c[1].rms);
    assert_true(es_ball_saturated(&c[1], 1e300));
}

static void on_the_line_the_leading_form_is_that_of_the_papers(void **state)
{
    (void)state;
    assert_near(es_ball_line(0.5, 1.0), 1.430, 5e-4);
    assert_near(es_ball_line(1.0, 1.0), 2.631, 5e-4);
    assert_near(es_ball_line(1.5, 4.0), 2.0 * 6.266, 1e-3);
    assert_nan(es_ball_line(-1.0, 1.0));
}

/* Variance of the field on the line, S = A = V = 1: cov(x, x') = e^{xx'} (1 + xx'). */
static void supremum_of_the_field_on_the_line_is_near_its_leading_form(void **state)
{
    (void)state;
    /* The ends of [-R, R] are correlated, e^{-2R^2} (1-R^2)/(1+R^2), 0 for R = 1, and the points
     * between them add a little. E max of the two ends alone, (sqrt(1+rho)+sqrt(1-rho))/sqrt(pi)
     * times their standard deviation, is a lower bound; twice as much per end, sqrt(2/pi) each, an
     * upper one for a field that grows outwards. */
    const es_law law = gaussian(1);
    const es_view unit = es_view_f64(eye, 1, 1);
    const es_head head = {.A = &unit};
    for (int i = 1; i <= 4; i++) {
        const double R = 0.5 * i, sd = exp(0.5 * R * R) * sqrt(1.0 + R * R);
        const double rho = exp(-2.0 * R * R) * (1.0 - R * R) / (1.0 + R * R);
        const double ends = (sqrt(1.0 + rho) + sqrt(1.0 - rho)) / sqrt(3.14159265358979) * sd;
        es_num sup;
        assert_ok(es_ball_sup(&law, &head, R, 1, NULL, &sup, &err));
        assert_below(sup.err, 0.01 * sup.val);
        assert_above(sup.val, ends - 4.0 * sup.err);
        assert_below(sup.val, 2.0 * sqrt(2.0 / 3.14159265358979) * sd);
        /* what lies between the ends is below 4 % from R = 1/2 on */
        assert_near(sup.val, es_ball_line(R, 1.0), 4.0 * sup.err + 0.04 * sup.val);
    }
}

/* ---- error and gradient ---- */

/* A law with a factor, a mean and an A of no symmetry: the error against plain loops on another
 * road, the gradient against differences of the error. */
static void gradient_is_that_of_the_error(void **state)
{
    (void)state;
    const double B[9] = {1.0, 0.0, 0.0, 0.4, 0.7, 0.0, -0.2, 0.3, 0.5}, mean[3] = {0.2, 0.0, -0.4};
    const double A[9] = {0.8, 0.3, -0.1, 0.0, 0.6, 0.5, 0.2, -0.4, 0.9}, V[6] = {1, 2, 0, 0, -1, 1};
    const es_law laws[] = {
        {.kind = ES_LAW_GAUSSIAN, .dim = 3, .size = 1.0, .mean = mean, .factor = B},
        {.kind = ES_LAW_SPHERE, .dim = 3, .size = 2.0, .mean = mean},
        {.kind = ES_LAW_LAPLACE, .dim = 3, .size = 0.3, .factor = B}};
    const es_view a = es_view_f64(A, 3, 3), v = es_view_f64(V, 2, 3);
    const es_head head = {.A = &a, .V = &v};
    const int64_t n = 501;
    const double R = 1.5;
    for (size_t k = 0; k < sizeof laws / sizeof *laws; k++) {
        const es_ball_spec spec = {
            .law = &laws[k], .head = &head, .sizes = &n, .n_sizes = 1, .radii = &R, .n_radii = 1};
        es_ball *ball;
        es_ball_sample sample;
        assert_ok(es_ball_new(&spec, &ball, &err));
        assert_ok(es_ball_sample_new(ball, &sample, &err));
        const es_address at = {.seed = 3};
        assert_ok(es_tokens_rows(&laws[k], &at, n, sample.tokens, &err));
        sample.n = n;
        /* three of four lanes: the other must not matter */
        double x[9], grad[9], moved[9], size[3], up[3], down[3];
        const es_address places = {.seed = 4};
        assert_ok(es_normal_rows(&places, 3, 3, x, &err));
        for (int i = 0; i < 9; i++)
            x[i] *= 0.5;
        assert_ok(es_ball_errors(&sample, x, 3, size, &err));
        assert_ok(es_ball_gradients(&sample, 3, grad, &err));
        for (int j = 0; j < 3; j++) {
            const double h = 1e-5;
            for (int side = 0; side < 2; side++) {
                memcpy(moved, x, sizeof x);
                for (int l = 0; l < 3; l++)
                    moved[3 * l + j] += side ? -h : h;
                assert_ok(es_ball_errors(&sample, moved, 3, side ? down : up, &err));
            }
            for (int l = 0; l < 3; l++) {
                const double slope = (up[l] * up[l] - down[l] * down[l]) / (4.0 * h);
                /* differences: h^2 times third derivatives and eps/h of squares of size 1, 1e-10
                 * each */
                assert_near(grad[3 * l + j], slope, 1e-8);
            }
        }
        es_ball_sample_free(&sample);
        es_ball_free(ball);
    }
}

/* ---- the supremum ---- */

static void ascent_finds_what_a_polar_grid_finds(void **state)
{
    (void)state;
    /* THEORY 3: 61 x 180 points. Never below the grid; above it by what lies between the points,
     * below 1 % here. R = 3 is beyond saturation: few tokens, steep hills, maxima inside. */
    const es_law law = gaussian(2);
    const es_view unit = es_view_f64(two, 2, 2);
    const es_head head = {.A = &unit};
    const int64_t n = 1000;
    const double radii[4] = {0.25, 1.0, 2.0, 3.0};
    const es_ball_spec spec = {.law = &law,
                               .head = &head,
                               .sizes = &n,
                               .n_sizes = 1,
                               .radii = radii,
                               .n_radii = 4,
                               .seed = 12};
    enum { REPLICATES = 3 };
    es_ball_cell *cells = measure(&spec, REPLICATES);
    double *y = malloc(2 * (size_t)n * sizeof *y);
    for (int r = 0; r < REPLICATES; r++) {
        const es_address at = {.seed = 12, .experiment = ES_BALL_TOKENS, .cell = (uint64_t)r};
        assert_ok(es_tokens_rows(&law, &at, n, y, &err));
        for (int i = 0; i < 4; i++) {
            double most = 0.0;
            for (int k = 0; k < 61 * 180; k++) {
                const double far = radii[i] * (k / 180) / 60.0;
                const double angle = 6.283185307179586 * (k % 180) / 180.0;
                const double x[2] = {far * cos(angle), far * sin(angle)};
                most = fmax(most, plain_error(y, n, 2, x));
            }
            const es_ball_cell *cell = &cells[4 * r + i];
            assert_at_least(cell->sup, most * (1.0 - 1e-6));
            assert_at_most(cell->sup, most * 1.01);
            assert_at_most(cell->radius, radii[i] * (1.0 + 1e-12));
        }
    }
    free(y);
    free(cells);
}

static void mean_and_error(const es_ball_cell *cells, int64_t replicates, int64_t stride, double n,
                           double *mean, double *se)
{
    double sum = 0.0, squares = 0.0;
    for (int64_t r = 0; r < replicates; r++) {
        const double x = sqrt(n) * cells[r * stride].sup;
        sum += x;
        squares += x * x;
    }
    *mean = sum / (double)replicates;
    *se = sqrt((squares / (double)replicates - *mean * *mean) / (double)replicates);
}

static void on_the_line_the_constant_is_that_of_the_field(void **state)
{
    (void)state;
    /* THEORY 3: R = 1/2: 1.430, R = 1: 2.63. Against the leading form and the sampled field, within
     * four standard errors of the measurement (some 3 %) and 4 % for the leading form's own error;
     * at n = 4000 D^2/n is 0.002, which is what the limit still lacks. */
    const es_law law = gaussian(1);
    const es_view unit = es_view_f64(eye, 1, 1);
    const es_head head = {.A = &unit};
    const int64_t n = 4000, replicates = 300;
    const double radii[2] = {0.5, 1.0};
    const es_ball_spec spec = {.law = &law,
                               .head = &head,
                               .sizes = &n,
                               .n_sizes = 1,
                               .radii = radii,
                               .n_radii = 2,
                               .seed = 1};
    es_ball_cell *cells = measure(&spec, replicates);
    for (int i = 0; i < 2; i++) {
        double mean, se;
        es_num sup;
        mean_and_error(cells + i, replicates, 2, (double)n, &mean, &se);
        assert_ok(es_ball_sup(&law, &head, radii[i], 2, NULL, &sup, &err));
        assert_below(se, 0.04 * mean);
        assert_near(mean, sup.val, 4.0 * hypot(se, sup.err));
        assert_near(mean, es_ball_line(radii[i], 1.0), 4.0 * se + 0.04 * mean);
    }
    free(cells);
}

static void in_the_plane_the_constant_is_that_of_the_field(void **state)
{
    (void)state;
    /* Bounded tokens on the circle: no saturation, and a field whose size falls with |x|, so that
     * the supremum is inside. A, V without symmetry exercise the covariance of the field. */
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = 2, .size = 1.0};
    const double A[4] = {1.0, 0.3, -0.2, 0.8}, V[4] = {1.0, 0.0, 0.5, 2.0};
    const es_view a = es_view_f64(A, 2, 2), v = es_view_f64(V, 2, 2);
    const es_head head = {.A = &a, .V = &v};
    const int64_t n = 1000, replicates = 200;
    const double R = 3.0;
    const es_ball_spec spec = {.law = &law,
                               .head = &head,
                               .sizes = &n,
                               .n_sizes = 1,
                               .radii = &R,
                               .n_radii = 1,
                               .seed = 1};
    es_ball_cell *cells = measure(&spec, replicates);
    double mean, se, rms = 0.0;
    es_num sup;
    es_ball_constant one;
    mean_and_error(cells, replicates, 1, (double)n, &mean, &se);
    assert_ok(es_ball_sup(&law, &head, R, 2, NULL, &sup, &err));
    assert_ok(es_ball_predict(&law, &head, &R, 1, NULL, &one, &err));
    /* 1 %: gaps of the grid, and 1/sqrt(n) */
    assert_near(mean, sup.val, 4.0 * hypot(se, sup.err) + 0.01 * mean);
    int64_t inside = 0;
    for (int64_t r = 0; r < replicates; r++) {
        rms += (double)n * cells[r].sup * cells[r].sup / (double)replicates;
        inside += cells[r].radius < 0.99 * R;
    }
    assert_above(sqrt(rms), one.rms); /* one query is a lower bound for all of them */
    assert_above(inside, 0);
    free(cells);
}

static void larger_balls_have_larger_suprema(void **state)
{
    (void)state;
    /* exactly, because the search starts from the maximiser of the ball before: d = 5, beyond
     * saturation too */
    const es_law law = gaussian(5);
    double A[25] = {0};
    for (int i = 0; i < 5; i++)
        A[6 * i] = 1.0 - 0.15 * i;
    const es_view a = es_view_f64(A, 5, 5);
    const es_head head = {.A = &a};
    const int64_t sizes[2] = {50, 300};
    const double radii[6] = {0.1, 0.2, 0.5, 1.0, 3.0, 9.0};
    const es_ball_spec spec = {.law = &law,
                               .head = &head,
                               .sizes = sizes,
                               .n_sizes = 2,
                               .radii = radii,
                               .n_radii = 6,
                               .seed = 8};
    es_ball_cell *cells = measure(&spec, 4);
    for (int i = 0; i < 4 * 2 * 6; i++) {
        assert_at_most(cells[i].radius, radii[i % 6] * (1.0 + 1e-12));
        if (i % 6 != 0)
            assert_at_least(cells[i].sup, cells[i - 1].sup);
    }
    free(cells);
}

static void same_bits_for_any_threads_and_any_grid(void **state)
{
    (void)state;
    /* a replicate is a function of (seed, number): other threads, another first replicate, and n
     * without its smaller prefix change nothing */
    const es_law law = {.kind = ES_LAW_CUBE, .dim = 3, .size = 1.5};
    const es_view unit = es_view_f64(eye, 3, 3);
    const es_head head = {.A = &unit};
    const int64_t sizes[2] = {101, 402};
    const double radii[2] = {1.0, 4.0};
    es_exec exec = {.threads = 1};
    es_ball_spec spec = {.law = &law,
                         .head = &head,
                         .sizes = sizes,
                         .n_sizes = 2,
                         .radii = radii,
                         .n_radii = 2,
                         .seed = 77,
                         .exec = &exec};
    es_ball_cell *one = measure(&spec, 5);
    exec.threads = 3;
    es_ball_cell *three = measure(&spec, 5);
    assert_memory_equal(one, three, 5 * 4 * sizeof *one);
    spec.sizes = sizes + 1;
    spec.n_sizes = 1;
    es_ball *ball;
    es_ball_cell last[2];
    assert_ok(es_ball_new(&spec, &ball, &err));
    assert_ok(es_ball_replicates(ball, 4, 1, last, &err));
    assert_ok(es_ball_replicates(ball, 4, 0, last, &err));
    assert_memory_equal(last, one + 4 * 4 + 2, sizeof last);
    es_ball_free(ball);
    free(one);
    free(three);
}

static void NU05_one_token_is_its_own_output(void **state)
{
    (void)state;
    /* Gamma_1(x) = y whatever x: the supremum of |y - S x| is |y| + |S| R, opposite to y. With S =
     * 10^6 the scores of the tokens beyond n are thousands above and below: they must not be seen,
     * not even by the maximum. */
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = 2, .size = 1000.0};
    const es_view unit = es_view_f64(two, 2, 2);
    const es_head head = {.A = &unit};
    const int64_t sizes[2] = {1, 4};
    const double R = 2.0;
    const es_ball_spec spec = {.law = &law,
                               .head = &head,
                               .sizes = sizes,
                               .n_sizes = 2,
                               .radii = &R,
                               .n_radii = 1,
                               .seed = 6};
    enum { REPLICATES = 8 };
    es_ball_cell *cells = measure(&spec, REPLICATES);
    for (int r = 0; r < REPLICATES; r++) {
        double y[2];
        const es_address at = {.seed = 6, .experiment = ES_BALL_TOKENS, .cell = (uint64_t)r};
        assert_ok(es_tokens_rows(&law, &at, 1, y, &err));
        /* the search stops at steps of 1e-3 R: an angle whose square times |y| is lost */
        assert_near(cells[2 * r].sup, hypot(y[0], y[1]) + 1e6 * R, 1e-5 * hypot(y[0], y[1]));
    }
    free(cells);
}

static void starts_that_coincide_and_a_head_of_rank_zero_are_fine(void **state)
{
    (void)state;
    /* A = 0: every query sees the plain mean; the gradient is 0 everywhere */
    const es_law law = gaussian(2);
    const double zero[4] = {0};
    const es_view a = es_view_f64(zero, 2, 2);
    const es_head head = {.A = &a};
    const int64_t n = 64;
    const double R = 1.0;
    const es_ball_spec spec = {.law = &law,
                               .head = &head,
                               .sizes = &n,
                               .n_sizes = 1,
                               .radii = &R,
                               .n_radii = 1,
                               .seed = 6};
    es_ball_cell *cells = measure(&spec, 1);
    double y[128], mean[2] = {0};
    const es_address at = {.seed = 6, .experiment = ES_BALL_TOKENS};
    assert_ok(es_tokens_rows(&law, &at, 64, y, &err));
    for (int i = 0; i < 128; i++)
        mean[i % 2] += y[i] / 64.0;
    assert_close(cells[0].sup, hypot(mean[0], mean[1]), 1e-13);
    free(cells);
}

/* ---- what is refused ---- */

static void refuses(const es_ball_spec *spec, es_status status, const char *rule)
{
    es_ball *ball = (es_ball *)&err;
    err = (es_error){0};
    assert_int_equal(es_ball_new(spec, &ball, &err), status);
    assert_string_equal(err.rule, rule);
    assert_null(ball);
}

static void questions_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const es_view unit = es_view_f64(two, 2, 2), three = es_view_f64(eye, 3, 3);
    const es_head head = {.A = &unit}, wide = {.A = &three}, none = {0};
    const es_law law = gaussian(2);
    const es_law student = {.kind = ES_LAW_STUDENT, .dim = 2, .size = 1.0, .freedom = 5.0};
    const es_law laplace = {.kind = ES_LAW_LAPLACE, .dim = 2, .size = 0.5};
    const int64_t sizes[2] = {10, 10}, zero = 0;
    const double radii[2] = {1.0, 2.0}, bad[4] = {0.0, -1.0, NAN, INFINITY}, down[2] = {2.0, 1.0};
    const es_ball_spec good = {
        .law = &law, .head = &head, .sizes = sizes, .n_sizes = 1, .radii = radii, .n_radii = 2};
    es_ball_spec spec = good;
    for (int i = 0; i < 4; i++) {
        spec.radii = &bad[i];
        spec.n_radii = 1;
        refuses(&spec, ES_E_RANGE, "ball.radii");
        es_ball_constant c;
        es_num sup;
        assert_int_equal(es_ball_predict(&law, &head, &bad[i], 1, NULL, &c, &err), ES_E_RANGE);
        assert_int_equal(es_ball_sup(&law, &head, bad[i], 0, NULL, &sup, &err), ES_E_RANGE);
    }
    spec = good, spec.radii = down;
    refuses(&spec, ES_E_ARGUMENT, "ball.radii");
    spec = good, spec.n_sizes = 2;
    refuses(&spec, ES_E_ARGUMENT, "ball.sizes");
    spec = good, spec.sizes = &zero;
    refuses(&spec, ES_E_RANGE, "ball.sizes");
    spec = good, spec.n_radii = 0;
    refuses(&spec, ES_E_EMPTY, "ball.grid");
    spec = good, spec.starts = -1;
    refuses(&spec, ES_E_RANGE, "ball.starts");
    spec = good, spec.head = &wide;
    refuses(&spec, ES_E_SHAPE, "theory.shape");
    spec = good, spec.head = &none;
    refuses(&spec, ES_E_ARGUMENT, "theory.head");
    spec = good, spec.law = &student; /* no exponential moment, no limit */
    refuses(&spec, ES_E_RANGE, "limit.student");
    spec = good, spec.law = &laplace; /* the limit ends at |x| = 2 = R */
    refuses(&spec, ES_E_RANGE, "ball.reach");
    const es_law parts[2] = {law, laplace}, mixture = {.kind = ES_LAW_MIXTURE,
                                                       .dim = 2,
                                                       .parts = parts,
                                                       .weights = two,
                                                       .n_parts = 1};
    spec = good, spec.law = &mixture;
    es_ball *ball;
    assert_ok(es_ball_new(&spec, &ball, &err)); /* its only part is Gaussian */
    assert_int_equal(es_ball_replicates(ball, -1, 1, (es_ball_cell *)&err, &err), ES_E_RANGE);
    es_ball_free(ball);
    es_ball_free(NULL);
}

static void CL03_memory_is_counted(void **state)
{
    (void)state;
    /* what es_ball_cost_of() says is enough, and a little less than the tokens is not */
    const es_law law = gaussian(2);
    const es_view unit = es_view_f64(two, 2, 2);
    const es_head head = {.A = &unit};
    const int64_t n = 5000;
    const double R = 1.0;
    es_mem_limit budget = {0};
    const es_exec exec = {.threads = 1, .budget = &budget};
    const es_ball_spec spec = {.law = &law,
                               .head = &head,
                               .sizes = &n,
                               .n_sizes = 1,
                               .radii = &R,
                               .n_radii = 1,
                               .exec = &exec};
    es_ball *ball;
    es_ball_cell cell;
    assert_ok(es_ball_new(&spec, &ball, &err));
    const es_ball_cost cost = es_ball_cost_of(ball);
    assert_above(cost.flops, 1e7);
    assert_above(cost.bytes, (size_t)n * 2 * sizeof(double));
    const size_t before = budget.used;
    budget.limit = before + (size_t)n * 2 * sizeof(double);
    assert_int_equal(es_ball_replicates(ball, 0, 1, &cell, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, before);
    budget.limit = before + cost.bytes;
    assert_ok(es_ball_replicates(ball, 0, 1, &cell, &err));
    es_ball_free(ball);
    assert_int_equal(budget.used, 0);
}

TEST_FILE(ball)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(field_has_the_closed_forms_of_gaussian_tokens),
        cmocka_unit_test(field_has_the_golden_values_of_the_sphere),
        cmocka_unit_test(sphere_in_three_dimensions_is_equally_hard_everywhere),
        cmocka_unit_test(constant_of_gaussian_tokens_is_the_largest_on_the_ball),
        cmocka_unit_test(laplace_beyond_half_its_edge_has_no_constant),
        cmocka_unit_test(on_the_line_the_leading_form_is_that_of_the_papers),
        cmocka_unit_test(supremum_of_the_field_on_the_line_is_near_its_leading_form),
        cmocka_unit_test(gradient_is_that_of_the_error),
        cmocka_unit_test(ascent_finds_what_a_polar_grid_finds),
        cmocka_unit_test(on_the_line_the_constant_is_that_of_the_field),
        cmocka_unit_test(in_the_plane_the_constant_is_that_of_the_field),
        cmocka_unit_test(larger_balls_have_larger_suprema),
        cmocka_unit_test(same_bits_for_any_threads_and_any_grid),
        cmocka_unit_test(NU05_one_token_is_its_own_output),
        cmocka_unit_test(starts_that_coincide_and_a_head_of_rank_zero_are_fine),
        cmocka_unit_test(questions_that_make_no_sense_are_refused),
        cmocka_unit_test(CL03_memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
