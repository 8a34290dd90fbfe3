/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include "experiments/heat/heat.h"
#include "law/bessel.h"
#include "limit/limit.h"
#include "random/random.h"
#include "tokens/tokens.h"

/* A mixture of two von Mises-Fisher laws, in any dimension up to 8. */
static double first[8], second[8];
static es_law parts[2];
static const double weights[2] = {0.6, 0.4};

static es_law mixture(int64_t d, double kappa)
{
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    first[0] = 1.0;
    second[0] = -0.5;
    second[1] = 2.0; /* directions are normalised by their users */
    for (int j = 0; j < 2; j++)
        parts[j] = (es_law){.kind = ES_LAW_VMF,
                            .dim = d,
                            .size = 1.0,
                            .concentration = kappa * (j + 1),
                            .direction = j ? second : first};
    return (es_law){
        .kind = ES_LAW_MIXTURE, .dim = d, .parts = parts, .weights = weights, .n_parts = 2};
}

static void points_on(int64_t d, int64_t count, double *out)
{
    const es_address at = {.seed = 17};
    assert_ok(es_sphere_rows(&at, count, d, out, &err));
}

/* q turned towards the unit vector e by an angle. */
static void turned(const double *q, const double *e, double angle, int64_t d, double *out)
{
    for (int64_t c = 0; c < d; c++)
        out[c] = cos(angle) * q[c] + sin(angle) * e[c];
}

/* A unit vector tangent at q. */
static void tangent_at(const double *q, const double *other, int64_t d, double *e)
{
    double along = 0.0, norm2 = 0.0;
    for (int64_t c = 0; c < d; c++)
        along += q[c] * other[c];
    for (int64_t c = 0; c < d; c++) {
        e[c] = other[c] - along * q[c];
        norm2 += e[c] * e[c];
    }
    for (int64_t c = 0; c < d; c++)
        e[c] /= sqrt(norm2);
}

/* The identity: drift = (1/beta) grad log f_beta, and gradient = grad log f, by differences along
 * great circles: an error of h^2/6 times a third derivative, kappa^3 or so. */
static void drift_is_the_gradient_of_the_smoothed_density(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 3, 8};
    const double h = 1e-4, beta = 30.0;
    for (int k = 0; k < 3; k++) {
        const int64_t d = dims[k];
        const es_law law = mixture(d, 2.0);
        double q[16 * 8], e[8], up[8], down[8], g[8], v[8];
        points_on(d, 16, q);
        for (int i = 0; i + 1 < 16; i++) {
            es_heat_point at, above, below;
            double along_g = 0.0, along_v = 0.0, radial = 0.0;
            const double *here = q + i * d;
            tangent_at(here, here + d, d, e);
            turned(here, e, h, d, up);
            turned(here, e, -h, d, down);
            assert_ok(es_heat_at(&law, here, beta, g, v, &at, &err));
            assert_ok(es_heat_at(&law, up, beta, NULL, NULL, &above, &err));
            assert_ok(es_heat_at(&law, down, beta, NULL, NULL, &below, &err));
            for (int64_t c = 0; c < d; c++) {
                along_g += g[c] * e[c];
                along_v += v[c] * e[c];
                radial += v[c] * here[c];
            }
            assert_near(along_g, (above.log_density - below.log_density) / (2 * h), 1e-6);
            assert_near(beta * along_v, (above.log_smoothed - below.log_smoothed) / (2 * h), 1e-6);
            assert_near(radial, 0.0, 1e-14);
        }
    }
}

/* The density integrates to 1 on the circle and on the sphere (midpoint rule; spectral accuracy on
 * the circle, h^2 on the sphere). */
static void densities_integrate_to_one(void **state)
{
    (void)state;
    const es_law circle = mixture(2, 3.0);
    es_heat_point p;
    double sum = 0.0;
    for (int i = 0; i < 200; i++) {
        const double t = 2.0 * 3.141592653589793 * i / 200, q[2] = {cos(t), sin(t)};
        assert_ok(es_heat_at(&circle, q, 1.0, NULL, NULL, &p, &err));
        sum += exp(p.log_density) / 200.0;
    }
    assert_near(sum, 1.0, 1e-12);
    const es_law sphere = mixture(3, 3.0);
    sum = 0.0;
    for (int i = 0; i < 200; i++)
        for (int j = 0; j < 100; j++) {
            const double u = -1.0 + 2.0 * (i + 0.5) / 200, t = 2.0 * 3.141592653589793 * j / 100;
            const double s = sqrt(1.0 - u * u), q[3] = {u, s * cos(t), s * sin(t)};
            assert_ok(es_heat_at(&sphere, q, 1.0, NULL, NULL, &p, &err));
            sum += exp(p.log_density) / 20000.0;
        }
    assert_near(sum, 1.0, 1e-3);
}

/* |beta drift - grad log f| falls exactly like 1/beta, and the radial part is (d-1)/(2 beta). */
static void errors_fall_like_one_over_beta(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 3, 8};
    const double beta[3] = {1e3, 1e4, 1e5};
    for (int k = 0; k < 3; k++) {
        const int64_t d = dims[k];
        const es_law law = mixture(d, 2.0);
        double q[32 * 8];
        es_heat_exact exact[3];
        points_on(d, 32, q);
        assert_ok(es_heat_exact_of(&law, q, 32, beta, 3, exact, &err));
        print_message("S^%d: error %.2e %.2e %.2e, slope %.6f\n", (int)d - 1, exact[0].error,
                      exact[1].error, exact[2].error, exact[2].slope);
        /* What is left of higher orders is of relative order d kappa^2/beta. */
        assert_close(exact[0].error, 10.0 * exact[1].error, 0.05);
        assert_close(exact[1].error, 10.0 * exact[2].error, 0.005);
        assert_close(exact[2].slope, 1.0, 1e-3);
        for (int b = 0; b < 3; b++)
            assert_close(exact[b].radial, 0.5 * (double)(d - 1) / beta[b], 40.0 / beta[b]);
    }
}

/* n keys: drift and radial part within their standard errors of what n keys give on average. */
static void measured_drift_is_the_exact_one(void **state)
{
    (void)state;
    enum { R = 16, B = 2, M = 8 };
    static const int64_t dims[] = {2, 3, 8};
    const double beta[B] = {10.0, 40.0};
    for (int k = 0; k < 3; k++) {
        const int64_t d = dims[k];
        const es_law law = mixture(d, 2.0);
        double q[M * 8];
        es_heat_finite exact[B];
        es_heat_draw draws[R * B];
        points_on(d, M, q);
        const es_heat_opts opts = {.law = &law, .seed = 5, .experiment = 40, .n = 10000};
        assert_ok(es_heat_finite_of(&law, q, M, beta, B, opts.n, NULL, exact, &err));
        assert_ok(es_heat_sample(&opts, q, M, beta, B, 0, R, draws, &err));
        for (int b = 0; b < B; b++) {
            double slope = 0.0, radial = 0.0, slope2 = 0.0, radial2 = 0.0, ess = 0.0;
            for (int r = 0; r < R; r++) {
                const es_heat_draw *x = &draws[r * B + b];
                slope += x->slope / R;
                radial += x->radial / R;
                ess += x->ess / R;
            }
            for (int r = 0; r < R; r++) {
                slope2 += pow(draws[r * B + b].slope - slope, 2.0);
                radial2 += pow(draws[r * B + b].radial - radial, 2.0);
            }
            const double se = sqrt(slope2 / (R - 1) / R), rse = sqrt(radial2 / (R - 1) / R);
            print_message("S^%d, beta %.0f: slope %.4f+-%.4f (%.4f), radial %.5f+-%.5f (%.5f), "
                          "ESS %.0f\n",
                          (int)d - 1, beta[b], slope, se, exact[b].slope, radial, rse,
                          exact[b].radial, ess);
            assert_near(slope, exact[b].slope, 4.0 * se);
            assert_near(radial, exact[b].radial, 4.0 * rse);
        }
    }
}

/* ---- the bias of n keys ---- */

/* exp(kappa <mu, k>) over its mean, on the circle: no Bessel function is asked. */
static double circle_density(double angle)
{
    const double modes[2] = {0.0, atan2(2.0, -0.5)};
    double f = 0.0;
    for (int j = 0; j < 2; j++) {
        double mean = 0.0;
        for (int i = 0; i < 64; i++)
            mean += exp(parts[j].concentration * cos(6.283185307179586 * i / 64)) / 64;
        f += weights[j] * exp(parts[j].concentration * cos(angle - modes[j])) / mean;
    }
    return f;
}

/* Two keys on the circle: the double integral, by the trapezoidal rule, which converges
 * geometrically. The weight of the first is a logistic function, analytic in a strip of half width
 * pi/(2 beta): 320 points leave e^{-320 pi/40} = 1e-11 at beta = 20. */
static void two_keys_give_their_double_integral(void **state)
{
    (void)state;
    enum { N = 320 };
    const es_law law = mixture(2, 2.0);
    static double f[N];
    const double turn = 6.283185307179586, beta[2] = {3.0, 20.0}, at = 0.7;
    const double q[2] = {cos(at), sin(at)};
    es_heat_finite finite[2];
    for (int i = 0; i < N; i++)
        f[i] = circle_density(turn * i / N) / N;
    const double h = 1e-4;
    const double g = (log(circle_density(at + h)) - log(circle_density(at - h))) / (2 * h);
    assert_ok(es_heat_finite_of(&law, q, 1, beta, 2, 2, NULL, finite, &err));
    for (int b = 0; b < 2; b++) {
        double drift = 0.0, radial = 0.0, squares = 0.0;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                const double s = turn * i / N - at, t = turn * j / N - at;
                const double w = 1.0 / (1.0 + exp(beta[b] * (cos(t) - cos(s))));
                drift += f[i] * f[j] * (w * sin(s) + (1.0 - w) * sin(t));
                radial += f[i] * f[j] * (1.0 - w * cos(s) - (1.0 - w) * cos(t));
                squares += f[i] * f[j] * (w * w + (1.0 - w) * (1.0 - w));
            }
        assert_close(finite[b].slope, beta[b] * drift / g, 1e-6); /* h^2 of the difference */
        assert_close(finite[b].radial, radial, 1e-9);
        assert_close(finite[b].squares, squares, 1e-9);
        assert_near(finite[b].defect, 0.0, 1e-9);
    }
}

/* To first order in 1/n (the ratio's delta method) the drift is off by
 * -(1/n) e^{K(2t) - 2K(t)} (grad K(2t) - grad K(t)) beside q, t = beta q: THEORY 6. What is left is
 * of relative order 1/ESS, 1e-3 or less here. */
static void bias_of_many_keys_is_the_delta_methods(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 3, 8};
    const double beta = 12.0;
    for (int k = 0; k < 3; k++) {
        const int64_t d = dims[k], n = 3000000;
        const es_law law = mixture(d, 1.0);
        double q[8], g[8], v[8], w[8], along = 0.0, size2 = 0.0;
        es_heat_point one, two;
        es_num small, large;
        es_heat_finite finite;
        es_heat_exact exact;
        points_on(d, 1, q);
        assert_ok(es_heat_at(&law, q, beta, g, v, &one, &err));
        assert_ok(es_heat_at(&law, q, 2.0 * beta, NULL, w, &two, &err));
        assert_ok(es_bessel_log_mgf(d, beta, &small, &err));
        assert_ok(es_bessel_log_mgf(d, 2.0 * beta, &large, &err));
        for (int64_t c = 0; c < d; c++) {
            along += g[c] * (v[c] - w[c]);
            size2 += g[c] * g[c];
        }
        const double crowd =
            exp(two.log_smoothed + large.val - 2.0 * (one.log_smoothed + small.val));
        assert_ok(es_heat_exact_of(&law, q, 1, &beta, 1, &exact, &err));
        assert_ok(es_heat_finite_of(&law, q, 1, &beta, 1, n, NULL, &finite, &err));
        const double bias = (double)n * (finite.slope - exact.slope);
        print_message("S^%d: n times the bias %.5f, delta method %.5f\n", (int)d - 1, bias,
                      beta * crowd * along / size2);
        assert_close(bias, beta * crowd * along / size2, 2e-3);
        assert_close(finite.squares, crowd / (double)n, 2e-3);
    }
}

/* Few keys: the measured slope is that of n keys, and not that of infinitely many. */
static void few_keys_are_biased_as_predicted(void **state)
{
    (void)state;
    enum { R = 2000, M = 4 };
    const es_law law = mixture(5, 2.0);
    const double beta = 30.0;
    static es_heat_draw draws[R];
    es_heat_finite finite;
    es_heat_exact exact;
    double q[M * 5], mean = 0.0, square = 0.0;
    points_on(5, M, q);
    const es_heat_opts opts = {.law = &law, .seed = 6, .experiment = 40, .n = 100};
    assert_ok(es_heat_finite_of(&law, q, M, &beta, 1, opts.n, NULL, &finite, &err));
    assert_ok(es_heat_exact_of(&law, q, M, &beta, 1, &exact, &err));
    assert_ok(es_heat_sample(&opts, q, M, &beta, 1, 0, R, draws, &err));
    for (int r = 0; r < R; r++) {
        mean += draws[r].slope / R;
        square += draws[r].slope * draws[r].slope / R;
    }
    const double se = sqrt((square - mean * mean) / R);
    print_message("100 keys: slope %.4f+-%.4f, predicted %.4f, infinitely many %.4f\n", mean, se,
                  finite.slope, exact.slope);
    assert_near(mean, finite.slope, 4.0 * se);
    assert_above(fabs(mean - exact.slope), 6.0 * se);
}

/* Frozen weights are beyond the quadrature, and it says so; threads change nothing. */
static void finite_values_are_sure_of_themselves(void **state)
{
    (void)state;
    const es_law law = mixture(3, 2.0);
    const double beta[3] = {0.01, 40.0, 1e9};
    double q[2 * 3];
    es_heat_finite one[3], many[3];
    points_on(3, 2, q);
    for (int threads = 1; threads <= 3; threads += 2) {
        const es_exec exec = {.threads = threads};
        assert_ok(
            es_heat_finite_of(&law, q, 2, beta, 3, 1000, &exec, threads > 1 ? many : one, &err));
    }
    assert_memory_equal(one, many, 2 * sizeof *one);
    assert_below(one[0].defect, 1e-9);
    assert_below(one[1].defect, 1e-9);
    assert_near(one[0].squares, 1e-3, 1e-7); /* all keys alike, to beta^2 */
    assert_nan(one[2].slope);
    assert_true(!(one[2].defect < ES_HEAT_DEFECT)); /* too large, or NaN */
    assert_int_equal(es_heat_finite_of(&law, q, 2, beta, 3, 1, NULL, one, &err), ES_E_RANGE);
    assert_int_equal(es_heat_finite_of(&law, q, 0, beta, 3, 9, NULL, one, &err), ES_E_EMPTY);
}

static void draws_depend_on_their_replicate_alone(void **state)
{
    (void)state;
    const es_law law = mixture(3, 2.0);
    const double beta[2] = {5.0, 50.0};
    double q[4 * 3];
    es_heat_draw all[5 * 2], part[2 * 2];
    points_on(3, 4, q);
    for (int threads = 1; threads <= 3; threads++) {
        const es_exec exec = {.threads = threads};
        const es_heat_opts opts = {.law = &law, .n = 500, .exec = &exec};
        if (threads == 1)
            assert_ok(es_heat_sample(&opts, q, 4, beta, 2, 0, 5, all, &err));
        assert_ok(es_heat_sample(&opts, q, 4, beta, 2, 3, 2, part, &err));
        assert_memory_equal(part, all + 3 * 2, sizeof part);
    }
}

/* ---- particles ---- */

/* What one step does to the mean along the first axis, over infinitely many particles of a vMF law
 * around it: both particle and drift lie in the plane of the axis, so one integral is enough. */
static double mean_after_step(const es_law *law, double beta, double *before)
{
    const int64_t d = law->dim;
    double sum = 0.0, after = 0.0;
    *before = 0.0;
    for (int i = 0; i < 4000; i++) { /* midpoints in the angle, weight f sin^{d-2} */
        const double t = 3.141592653589793 * (i + 0.5) / 4000;
        double q[8] = {cos(t), sin(t)}, v[8], norm2 = 0.0;
        es_heat_point p;
        assert_ok(es_heat_at(law, q, beta, NULL, v, &p, &err));
        const double w = exp(p.log_density) * pow(sin(t), (double)(d - 2));
        for (int64_t c = 0; c < d; c++)
            norm2 += (q[c] + v[c]) * (q[c] + v[c]);
        sum += w;
        *before += w * q[0];
        after += w * (q[0] + v[0]) / sqrt(norm2);
    }
    *before /= sum;
    return after / sum;
}

/* Backward heat lets the mean grow by exp((d-1)/beta) in a step: the error of that is of relative
 * order 1/beta in the growth. And n particles do what infinitely many would: a particle sees itself
 * among some n c_d Gamma(a+1) beta^-a others, a few per cent here, and the standard error is that
 * of the particles' moves along the axis. */
static void particles_climb_as_heat_runs_backwards(void **state)
{
    (void)state;
    enum { N = 3000 };
    static double x[N * 3], y[N * 3];
    for (int64_t d = 2; d <= 3; d++) {
        es_law law = mixture(d, 1.0).parts[0];
        double before, errors[2];
        for (int k = 0; k < 2; k++) {
            const double beta = k ? 1000.0 : 100.0, after = mean_after_step(&law, beta, &before);
            errors[k] = beta * log(after / before) / (double)(d - 1) - 1.0;
        }
        print_message("S^%d: growth over that of heat - 1: %.4f, %.5f\n", (int)d - 1, errors[0],
                      errors[1]);
        assert_below(fabs(errors[1]), 0.005);
        assert_close(errors[0], 10.0 * errors[1], 0.1);
        const es_address at = {.seed = 8, .experiment = 42};
        assert_ok(es_tokens_fill(&law, &at, N, NULL, x, &err));
        memcpy(y, x, sizeof y);
        assert_ok(es_heat_step(y, N, d, 15.0, NULL, &err));
        const double expected = mean_after_step(&law, 15.0, &before) - before;
        double move = 0.0, move2 = 0.0;
        for (int64_t i = 0; i < N; i++) {
            const double by = y[i * d] - x[i * d];
            double norm2 = 0.0;
            for (int64_t c = 0; c < d; c++)
                norm2 += y[i * d + c] * y[i * d + c];
            assert_near(norm2, 1.0, 1e-14);
            move += by / N;
            move2 += by * by / N;
        }
        const double se = sqrt((move2 - move * move) / N);
        print_message("a step moves the mean by %.5f+-%.5f (%.5f)\n", move, se, expected);
        assert_near(move, expected, 4.0 * se + 0.02 * expected);
    }
}

static void many_steps_leave_points(void **state)
{
    (void)state;
    enum { N = 400, BINS = 40 };
    static double x[N * 2], before[BINS], after[BINS];
    const es_law law = mixture(2, 4.0);
    const es_address at = {.seed = 9};
    assert_ok(es_tokens_fill(&law, &at, N, NULL, x, &err));
    assert_ok(es_heat_histogram(x, N, 2, BINS, before, &err));
    for (int s = 0; s < 200; s++)
        assert_ok(es_heat_step(x, N, 2, 40.0, NULL, &err));
    assert_ok(es_heat_histogram(x, N, 2, BINS, after, &err));
    int filled = 0, filled_before = 0;
    double sum = 0.0;
    for (int b = 0; b < BINS; b++) {
        filled += after[b] > 0.0;
        filled_before += before[b] > 0.0;
        sum += after[b] / BINS;
    }
    assert_near(sum, 1.0, 1e-12);
    assert_at_most(filled, 6);
    assert_above(filled_before, 20);
}

/* ---- clusters ---- */

static int64_t clusters_of(const double *x, int64_t n, int64_t d, double angle, int64_t *largest)
{
    es_heat_clusters c;
    assert_ok(es_heat_clusters_of(x, n, d, angle, NULL, &c, &err));
    if (largest)
        *largest = c.largest;
    return c.count;
}

static double angle_between(const double *a, const double *b, int64_t d)
{
    double chord2 = 0.0;
    for (int64_t c = 0; c < d; c++)
        chord2 += (a[c] - b[c]) * (a[c] - b[c]);
    return 2.0 * asin(0.5 * sqrt(chord2));
}

/* Two particles: each turns by atan(w sin phi) towards the other. And the time until they are
 * within the width of the kernel is the integral of 1/speed, for which a sum of steps is Euler's
 * rule: by Euler and Maclaurin off by half the logarithm of the speeds' ratio, up to the last
 * step. */
static void two_particles_meet_when_they_should(void **state)
{
    (void)state;
    const double beta = 40.0, near = 1.0 / sqrt(beta), from = 0.7;
    double x[6] = {1.0, 0.0, 0.0, cos(from), sin(from), 0.0}, phi = from, time = 0.0;
    int steps = 0;
    while (clusters_of(x, 2, 3, near, NULL) == 2 && steps < 5000) {
        const double w = 1.0 / (1.0 + exp(beta * (1.0 - cos(phi))));
        phi -= 2.0 * atan(w * sin(phi));
        assert_ok(es_heat_step(x, 2, 3, beta, NULL, &err));
        assert_near(angle_between(x, x + 3, 3), phi, 1e-9);
        steps++;
    }
    for (int i = 0; i < 2000; i++) { /* midpoints */
        const double t = near + (from - near) * (i + 0.5) / 2000;
        time += (1.0 + exp(beta * (1.0 - cos(t)))) / (2.0 * sin(t)) * (from - near) / 2000;
    }
    const double speeds = sin(near) / (1.0 + exp(beta * (1.0 - cos(near)))) *
                          (1.0 + exp(beta * (1.0 - cos(from)))) / sin(from);
    print_message("two particles meet after %d steps; %.1f in continuous time\n", steps, time);
    assert_near((double)steps, time + 0.5 * log(speeds), 1.5);
}

/* Tight groups of 60 and 40 are two clusters until the two points that they are to first order are
 * within the angle. */
static void two_groups_become_one_cluster(void **state)
{
    (void)state;
    enum { N = 100 };
    static double x[N * 2];
    const double beta = 40.0, angle = 1.0 / sqrt(beta);
    double phi = 0.6;
    int64_t largest;
    int merged = -1, step = 0;
    for (int i = 0; i < N; i++) {
        const double t = (i < 60 ? 0.0 : phi) + 1e-6 * cos(i);
        x[2 * i] = cos(t);
        x[2 * i + 1] = sin(t);
    }
    assert_int_equal(clusters_of(x, N, 2, angle, &largest), 2);
    assert_int_equal(largest, 60);
    for (; merged < 0 && step < 5000; step++) {
        const double e = exp(beta * (1.0 - cos(phi)));
        const double big = 40.0 / (40.0 + 60.0 * e), small = 60.0 / (60.0 + 40.0 * e);
        const int64_t count = clusters_of(x, N, 2, angle, &largest);
        assert_int_equal(largest, count == 2 ? 60 : 100);
        if (fabs(phi - angle) > 1e-4) /* the groups are as wide as 1e-6 of where they were */
            assert_int_equal(count, phi > angle ? 2 : 1);
        merged = count == 1 ? step : -1;
        assert_ok(es_heat_step(x, N, 2, beta, NULL, &err));
        phi -= atan(big * sin(phi)) + atan(small * sin(phi));
    }
    print_message("two groups are one cluster after %d steps\n", merged);
    assert_above(merged, 0);
}

/* Equal angles stay equal: x + tangent(m) is m + alpha x with alpha = 1 - <x, m>, so the closed
 * form of THEORY 7 holds, with the weights of the golden file. */
static void equal_angles_shrink_as_the_closed_form_says(void **state)
{
    (void)state;
    json_t *rows = golden("equiangular"), *row;
    size_t at;
    int seen = 0;
    json_array_foreach(rows, at, row)
    {
        if (golden_real(row, "n") != 10.0)
            continue;
        enum { N = 10 };
        const double rho = golden_real(row, "rho"), p = golden_real(row, "p");
        const double s = golden_real(row, "s"), beta = golden_real(row, "gamma") * log(10.0);
        const double A = p - s + (1.0 - p) * (1.0 - rho), c1 = 1.0 + 9.0 * rho;
        const double all = 2.0 * A * s * c1 + s * s * 10.0 * c1;
        double x[N * (N + 1)] = {0};
        for (int i = 0; i < N; i++) {
            x[i * (N + 1)] = sqrt(rho);
            x[i * (N + 1) + 1 + i] = sqrt(1.0 - rho);
        }
        assert_ok(es_heat_step(x, N, N + 1, beta, NULL, &err));
        for (int i = 1; i < N; i++)
            assert_near(cos(angle_between(x, x + i * (N + 1), N + 1)),
                        (A * A * rho + all) / (A * A + all), 1e-12);
        seen++;
    }
    assert_int_equal(seen, 9);
    json_decref(rows);
}

/* Particles that fill the circle are cars that park: Renyi's constant, 0.74759792 of the places.
 * The variance is 0.038156 per unit of length (Dvoretzky and Robbins); 40000 points leave gaps of
 * 1.6e-4 of the angle's 0.05, which costs some of the last cars: about 1 %. */
static void a_full_circle_has_renyis_share_of_clusters(void **state)
{
    (void)state;
    enum { N = 40000, R = 12 };
    static double x[N * 2];
    const double angle = 0.05, places = 6.283185307179586 / angle;
    double mean = 0.0;
    for (int r = 0; r < R; r++) {
        const es_address at = {.seed = 77, .cell = (uint64_t)r};
        assert_ok(es_sphere_rows(&at, N, 2, x, &err));
        mean += (double)clusters_of(x, N, 2, angle, NULL) / R;
    }
    print_message("a full circle: %.2f clusters, Renyi %.2f\n", mean, 0.74759792 * places);
    assert_near(mean, 0.74759792 * places,
                4.0 * sqrt(0.038156 * places / R) + 0.01 * 0.74759792 * places);
}

/* I_l(beta)/I_0(beta) from its integral. */
static void waves_grow_as_bessel_functions_say(void **state)
{
    (void)state;
    static const double betas[] = {0.5, 7.0, 40.0, 300.0};
    for (int k = 0; k < 4; k++) {
        int64_t degree, best = 0;
        double growth, most = 0.0, zero = 0.0;
        assert_ok(es_heat_fastest(2, betas[k], &degree, &growth, &err));
        for (int64_t l = 0; l < 60; l++) {
            double sum = 0.0;
            for (int i = 0; i < 512; i++) {
                const double t = 6.283185307179586 * i / 512;
                sum += exp(betas[k] * (cos(t) - 1.0)) * cos((double)l * t) / 512;
            }
            zero = l ? zero : sum;
            const double here = (double)(l * l) / betas[k] * sum / zero;
            if (here > most) {
                most = here;
                best = l;
            }
        }
        assert_int_equal(degree, best);
        assert_close(growth, most, 1e-9);
    }
    int64_t degree;
    assert_int_equal(es_heat_fastest(1, 1.0, &degree, NULL, &err), ES_E_RANGE);
    assert_int_equal(es_heat_fastest(2, 1e7, &degree, NULL, &err), ES_E_RANGE);
    assert_ok(es_heat_fastest(64, 1e6, &degree, NULL, &err));
    const double x[2] = {1.0, 0.0};
    es_heat_clusters c;
    assert_int_equal(es_heat_clusters_of(x, 1, 2, 0.0, NULL, &c, &err), ES_E_RANGE);
    assert_int_equal(es_heat_clusters_of(x, 1, 1, 0.1, NULL, &c, &err), ES_E_RANGE);
}

/* Uniform points have density 1 in every bin: each within 4.5 standard errors. */
static void histograms_of_uniform_points_are_flat(void **state)
{
    (void)state;
    enum { N = 40000, BINS = 10 };
    static double x[N * 8];
    static const double share[] = {0.1, 0.1, 0.01}; /* of the rarest bin, at least */
    static const int64_t dims[] = {2, 3, 5};
    for (int k = 0; k < 3; k++) {
        const es_address at = {.seed = 30};
        double density[BINS];
        assert_ok(es_sphere_rows(&at, N, dims[k], x, &err));
        assert_ok(es_heat_histogram(x, N, dims[k], BINS, density, &err));
        for (int b = 0; b < BINS; b++)
            assert_near(density[b], 1.0, 4.5 / sqrt(N * share[k]));
    }
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    const double q[3] = {1.0, 0.0, 0.0}, long_q[3] = {2.0, 0.0, 0.0}, beta = 5.0;
    es_heat_point p;
    const es_law sphere = {.kind = ES_LAW_SPHERE, .dim = 3, .size = 1.0};
    const es_law gauss = {.kind = ES_LAW_GAUSSIAN, .dim = 3, .size = 1.0};
    const es_law large = {.kind = ES_LAW_SPHERE, .dim = 3, .size = 2.0};
    const es_law line = {.kind = ES_LAW_SPHERE, .dim = 1, .size = 1.0};
    double g[3], v[3];
    assert_ok(es_heat_at(&sphere, q, beta, g, v, &p, &err));
    assert_equals(p.log_density, 0.0);
    assert_equals(g[1], 0.0);
    assert_equals(v[1], 0.0);
    assert_near(p.log_smoothed, 0.0, 1e-14);
    assert_int_equal(es_heat_at(&gauss, q, beta, g, v, &p, &err), ES_E_UNSUPPORTED);
    assert_int_equal(es_heat_at(&large, q, beta, g, v, &p, &err), ES_E_UNSUPPORTED);
    assert_int_equal(es_heat_at(&line, q, beta, g, v, &p, &err), ES_E_RANGE);
    assert_int_equal(es_heat_at(&sphere, long_q, beta, g, v, &p, &err), ES_E_RANGE);
    assert_int_equal(es_heat_at(&sphere, q, 0.0, g, v, &p, &err), ES_E_RANGE);
    assert_int_equal(es_heat_at(&sphere, q, INFINITY, g, v, &p, &err), ES_E_RANGE);
    assert_int_equal(es_heat_at(&sphere, q, (double)NAN, g, v, &p, &err), ES_E_RANGE);
    es_heat_draw draw;
    es_heat_opts opts = {.law = &sphere, .n = 1};
    assert_int_equal(es_heat_sample(&opts, q, 1, &beta, 1, 0, 1, &draw, &err), ES_E_RANGE);
    opts.n = 10;
    assert_int_equal(es_heat_sample(&opts, q, 1, &beta, 1, 0, 0, &draw, &err), ES_E_EMPTY);
    assert_ok(es_heat_sample(&opts, q, 1, &beta, 1, 0, 1, &draw, &err));
    assert_nan(draw.slope); /* a uniform density has no slope */
    assert_above(draw.ess, 0.0);
    double x[4] = {1.0, 0.0, 0.0, 1.0}, density[2];
    assert_int_equal(es_heat_step(x, 2, 1, beta, NULL, &err), ES_E_RANGE);
    assert_int_equal(es_heat_step(x, 2, 2, -1.0, NULL, &err), ES_E_RANGE);
    assert_int_equal(es_heat_histogram(x, 2, 2, 0, density, &err), ES_E_RANGE);
    assert_ok(es_heat_step(x, 1, 2, beta, NULL, &err)); /* alone it stays */
    assert_equals(x[0], 1.0);
    assert_equals(x[1], 0.0);
}

TEST_FILE(heat)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drift_is_the_gradient_of_the_smoothed_density),
        cmocka_unit_test(densities_integrate_to_one),
        cmocka_unit_test(errors_fall_like_one_over_beta),
        cmocka_unit_test(measured_drift_is_the_exact_one),
        cmocka_unit_test(two_keys_give_their_double_integral),
        cmocka_unit_test(bias_of_many_keys_is_the_delta_methods),
        cmocka_unit_test(few_keys_are_biased_as_predicted),
        cmocka_unit_test(finite_values_are_sure_of_themselves),
        cmocka_unit_test(draws_depend_on_their_replicate_alone),
        cmocka_unit_test(particles_climb_as_heat_runs_backwards),
        cmocka_unit_test(many_steps_leave_points),
        cmocka_unit_test(two_particles_meet_when_they_should),
        cmocka_unit_test(two_groups_become_one_cluster),
        cmocka_unit_test(equal_angles_shrink_as_the_closed_form_says),
        cmocka_unit_test(a_full_circle_has_renyis_share_of_clusters),
        cmocka_unit_test(waves_grow_as_bessel_functions_say),
        cmocka_unit_test(histograms_of_uniform_points_are_flat),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
