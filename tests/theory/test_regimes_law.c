/* SPDX-License-Identifier: Apache-2.0 */
/* test_regimes_law.c : what theory says about n keys on the sphere, against reference values,
 * closed forms, and integrals that are computed another way. */
#include "testing.h"

#include "experiments/regimes/regimes.h"
#include "golden.h"
#include "limit/limit.h"
#include "stats/special.h"
#include "theory/quadrature.h"
#include "tokens/cap.h"

static double scaled_of(int64_t dim, double b)
{
    const es_keys keys = {.dim = dim};
    es_cap_exponent cap;
    assert_ok(es_keys_exponent(&keys, &cap, &err));
    return es_critical_scale(&cap, 1.0, b);
}

static es_weights critical(double alpha, double scaled)
{
    es_weights w;
    assert_ok(es_weights_critical(alpha, scaled, NULL, &w, &err));
    return w;
}

static es_weights exact(const es_keys *keys, int64_t n, double beta)
{
    es_weights w;
    assert_ok(es_weights_exact(keys, n, beta, NULL, &w, &err));
    return w;
}

/* ---- caps ---- */

static void caps_agree_with_theory_json(void **state)
{
    (void)state;
    json_t *constants = golden("c_d"), *caps = golden("cap_prob"), *value;
    const char *key;
    size_t i;
    json_object_foreach(constants, key, value)
        assert_close(es_cap_constant(strtoll(key, NULL, 10)), json_number_value(value), 1e-12);
    json_array_foreach(caps, i, value)
    {
        es_num p;
        assert_ok(es_cap_probability((int64_t)golden_real(value, "d"), golden_real(value, "t"), &p,
                                     &err));
        assert_near(p.val, golden_real(value, "P"), p.err + 1e-15 * p.val);
        assert_below(p.err, 1e-11 * p.val);
    }
    json_decref(constants);
    json_decref(caps);
}

/* d = 3: P(T <= t) = t/2. d = 2: the arc. d = 5: (3 t^2 - t^3)/4. */
static void caps_have_their_closed_forms(void **state)
{
    (void)state;
    for (double t = 1e-12; t <= 2.0; t = t < 1.0 ? fmin(2.5 * t, 1.0) : t + 0.125) {
        es_num two, three, five;
        assert_ok(es_cap_probability(2, t, &two, &err));
        assert_ok(es_cap_probability(3, t, &three, &err));
        assert_ok(es_cap_probability(5, t, &five, &err));
        assert_near(two.val, 2.0 * asin(sqrt(0.5 * t)) / 3.14159265358979323846, two.err);
        assert_near(three.val, 0.5 * t, three.err);
        assert_near(five.val, 0.25 * t * t * (3.0 - t), five.err);
    }
    assert_near(es_cap_constant(3), 0.5, 1e-14);
    assert_near(es_cap_constant(5), 0.75, 1e-14);
    assert_nan(es_cap_constant(1));
    assert_infinite(es_cap_constant(4096));
    es_num p;
    assert_ok(es_cap_probability(7, 0.0, &p, &err));
    assert_equals(p.val, 0.0);
    assert_ok(es_cap_probability(4096, 2.0, &p, &err));
    assert_near(p.val, 1.0, 1e-15);
    assert_int_equal(es_cap_probability(1, 0.5, &p, &err), ES_E_RANGE);
    assert_int_equal(es_cap_probability(3, -0.1, &p, &err), ES_E_RANGE);
    assert_int_equal(es_cap_probability(3, NAN, &p, &err), ES_E_RANGE);
}

/* The table's quantile is the inverse of the incomplete beta function, at both ends and within. */
static void quantiles_invert_the_distribution(void **state)
{
    (void)state;
    static const struct {
        int64_t dim;
        double vanish;
    } laws[] = {{2, 0.0}, {3, 0.0}, {5, 2.0}, {10, 0.0}, {50, 0.0}, {768, 0.0}, {2, 7.0}};
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++) {
        const es_keys keys = {.dim = laws[i].dim, .vanish = laws[i].vanish};
        es_cap cap;
        int64_t near = 0;
        assert_ok(es_cap_make(&keys, NULL, &cap, &err));
        for (double logit = -64.0; logit < 40.0; logit += 0.37) {
            const es_cap_place fast = es_cap_quantile(&cap, logit, &near);
            const es_cap_place fine = es_cap_refine(&cap, logit);
            assert_near(fast.t + fast.rest, 2.0, 1e-15);
            assert_near(log(fast.t / fine.t), 0.0, 2e-9);
            const double below = es_log_beta_lower(cap.A, cap.B, 0.5 * fine.t, 0.5 * fine.rest);
            const double above = es_log_beta_lower(cap.B, cap.A, 0.5 * fine.rest, 0.5 * fine.t);
            assert_near(below - above, logit, 1e-12 * (1.0 + cap.A) * (1.0 + fabs(logit)));
            assert_near(es_cap_log_above(&cap, fine), above, 1e-11 * (1.0 + fabs(above)));
        }
        es_cap_free(&cap);
    }
}

/* A mixture seen from q: its density integrates to 1, and its mean cosine and E exp(beta u) are
 * what limit.h says of von Mises-Fisher laws. */
static double tilted(const void *context, double y)
{
    const struct {
        const es_cap *cap;
        double beta;
    } *c = context;
    return exp(es_cap_log_density(c->cap, y) + c->beta * (1.0 - es_cap_place_of(y).t));
}

static void mixtures_have_their_moments(void **state)
{
    (void)state;
    const es_keys_part parts[] = {{2.0, 0.0, 1.0}, {1.0, 30.0, 0.3}, {1.0, 5.0, -1.0}};
    static const int64_t dims[] = {2, 3, 10};
    for (int i = 0; i < 3; i++) {
        const es_keys keys = {.dim = dims[i], .parts = parts, .n_parts = 3};
        es_cap cap;
        assert_ok(es_cap_make(&keys, NULL, &cap, &err));
        for (double beta = 0.0; beta <= 8.0; beta += 4.0) {
            const struct {
                const es_cap *cap;
                double beta;
            } context = {&cap, beta};
            double expected = 0.0;
            for (int j = 0; j < 3;
                 j++) { /* E exp(beta u) = exp(K(|kappa mu + beta q|) - K(kappa)) */
                const double k = parts[j].kappa, c = parts[j].cosine;
                es_num tilt, plain;
                assert_ok(es_bessel_log_mgf(dims[i], sqrt(k * k + beta * beta + 2.0 * k * beta * c),
                                            &tilt, &err));
                assert_ok(es_bessel_log_mgf(dims[i], k, &plain, &err));
                expected += parts[j].weight / 4.0 * exp(tilt.val - plain.val);
            }
            assert_close(es_integrate(tilted, &context, -80.0, 80.0, 400), expected, 1e-11);
        }
        es_cap_exponent exponent;
        assert_ok(es_keys_exponent(&keys, &exponent, &err));
        const es_cap_place at = es_cap_place_of(-25.0);
        assert_near(exponent.log_c + exponent.alpha * log(at.t),
                    es_cap_log_density(&cap, -25.0) - log(exponent.alpha), 1e-9);
        es_cap_free(&cap);
    }
}

/* ---- the critical limit ---- */

static void critical_limits_agree_with_theory_json(void **state)
{
    (void)state;
    json_t *known = golden("critical"), *row;
    size_t i;
    json_array_foreach(json_object_get(known, "items"), i, row)
    {
        const int64_t d = (int64_t)golden_real(row, "d");
        const double alpha = 0.5 * (double)(d - 1), scaled = scaled_of(d, golden_real(row, "b"));
        es_weights w;
        assert_close(scaled, golden_real(row, "bp"), 1e-12);
        assert_close(es_critical_mean(alpha, scaled), golden_real(row, "lam"), 1e-11);
        if (es_weights_critical(alpha, scaled, NULL, &w, &err) != ES_OK) {
            assert_int_equal(err.code, ES_E_RANGE);
            assert_above(golden_real(row, "lam"), 1e15);
            continue;
        }
        assert_close(w.squares.val, golden_real(row, "sumw2"), 1e-8);
        assert_close(w.deficit.val, golden_real(row, "ws"), 1e-8);
        /* Absolute: the reference is 2.7e-5 of itself off where it is 2e-7 (d = 10, b = 0.1), by
         * the closed form E exp(-s_1) / lambda that holds there. */
        assert_near(w.top.val, golden_real(row, "wmax"), 1e-6);
        assert_below(w.identity, 1e-10);
    }
    json_decref(known);
}

/* d = 3, where w_max = 1/(1+X) with X generalised Dickman: E w_max = int exp(-u - lambda Ein(u)).
 */
static double ein_term(const void *context, double u)
{
    (void)context;
    return u < 1e-8 ? 1.0 : -expm1(-u) / u;
}

static double dickman(const void *context, double u)
{
    return exp(-u - *(const double *)context * es_integrate(ein_term, NULL, 0.0, u, 8));
}

static void three_dimensions_are_dickman(void **state)
{
    (void)state;
    const es_weights one = critical(1.0, 1.0);
    assert_near(one.top.val, 0.56145948356688516982, one.top.err); /* e^-gamma */
    assert_near(one.squares.val, 1.0 - 0.56145948356688516982, one.squares.err);
    for (double lambda = 0.01; lambda < 100.0; lambda *= 3.0) {
        const es_weights w = critical(1.0, 1.0 / lambda);
        const double top = es_integrate(dickman, &lambda, 0.0, 40.0, 80);
        assert_near(w.top.val, top, w.top.err + 1e-13);
        assert_near(w.squares.val, 1.0 - lambda * top, w.squares.err + 1e-13 * lambda);
        assert_below(w.top.err, 1e-8 * w.top.val);
        assert_below(w.squares.err, 1e-7 * w.squares.val);
    }
}

/* Deep in the subcritical regime Z is its mean: E w_max = E exp(-s_1)/lambda (1 + O(1/lambda)). */
static double first_point(const void *context, double m)
{
    const double *c = context;
    return exp(-m - c[1] * pow(m, 1.0 / c[0]));
}

static void small_weights_are_relatively_accurate(void **state)
{
    (void)state;
    const double c[2] = {4.5, scaled_of(10, 0.1)}, lambda = es_critical_mean(4.5, c[1]);
    const double mean = es_integrate(first_point, c, 0.0, 1e-6, 4) +
                        es_integrate(first_point, c, 1e-6, 1e-2, 64) +
                        es_integrate(first_point, c, 1e-2, 50.0, 400);
    assert_close(critical(4.5, c[1]).top.val, mean / lambda, 2e-8);
}

static void supercritical_forms_are_approached(void **state)
{
    (void)state;
    static const double alphas[] = {1.0, 2.0, 4.5, 24.5};
    for (int i = 0; i < 4; i++) {
        double before = INFINITY;
        for (double scaled = 100.0 * alphas[i]; scaled < 1e5; scaled *= 10.0) {
            const es_weights w = critical(alphas[i], scaled);
            double top, squares;
            es_weights_supercritical(alphas[i], scaled, &top, &squares);
            const double off = fabs((1.0 - w.squares.val) / (1.0 - squares) - 1.0);
            const double rounding = w.squares.err / (1.0 - squares); /* of 1 - E sum w^2 */
            assert_below(off, 5.0 * alphas[i] / scaled + rounding);
            assert_below(off, before + rounding);
            assert_close(1.0 - w.top.val, 1.0 - top, 5.0 * alphas[i] / scaled + rounding);
            before = off;
        }
    }
    double top, squares;
    es_weights_supercritical(0.5, 100.0, &top, &squares);
    assert_nan(top);
    assert_nan(squares);
}

/* ---- n keys ---- */

/* Two keys: w = 1/(1 + e^-|y|), y = beta (T - T'), in three dimensions T uniform on [0, 2]. */
static double two_keys(const void *context, double x)
{
    const double *c = context, w = 1.0 / (1.0 + exp(-c[0] * x));
    return (1.0 - 0.5 * x) * (c[1] == 1.0 ? w : w * w + (1.0 - w) * (1.0 - w));
}

static void two_keys_are_an_integral(void **state)
{
    (void)state;
    const es_keys keys = {.dim = 3};
    for (double beta = 0.01; beta < 1e4; beta *= 7.0) {
        const double top[2] = {beta, 1.0}, squares[2] = {beta, 2.0};
        const es_weights w = exact(&keys, 2, beta);
        const double cut = fmin(2.0, 40.0 / beta);
        double one = es_integrate(two_keys, top, 0.0, cut, 40),
               two = es_integrate(two_keys, squares, 0.0, cut, 40);
        one += es_integrate(two_keys, top, cut, 2.0, 4);
        two += es_integrate(two_keys, squares, cut, 2.0, 4);
        assert_near(w.top.val, one, w.top.err);
        assert_near(w.squares.val, two, w.squares.err);
    }
}

/* As n grows at fixed b the exact values go to the limit like n^(-1/alpha), and to the average
 * of es_average_at() where beta is fixed. */
static void exact_values_have_both_limits(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 3, 5, 10};
    for (int i = 0; i < 4; i++)
        for (double b = 0.1; b < 20.0; b *= 10.0) {
            const es_keys keys = {.dim = dims[i]};
            const double alpha = 0.5 * (double)(dims[i] - 1), n = 1e18;
            const es_weights w = exact(&keys, (int64_t)n, b * pow(n, 1.0 / alpha));
            const es_weights limit = critical(alpha, scaled_of(dims[i], b));
            const double off = 3.0 * alpha * fabs(0.5 * alpha - 0.5) / b * pow(n, -1.0 / alpha);
            assert_close(w.squares.val, limit.squares.val, off + 1e-8);
            assert_close(w.top.val, limit.top.val, off + 1e-8);
            assert_below(w.identity, 1e-10);
        }
    for (double beta = 0.5; beta < 100.0; beta *= 4.0) {
        const es_keys keys = {.dim = 7};
        es_average a;
        assert_ok(es_average_at(7, beta, &a, &err));
        const es_weights w = exact(&keys, INT64_C(1000000000000), beta);
        assert_close(w.squares.val * 1e12, a.spread.val, 1e-7);
        assert_close(w.deficit.val, 1.0 - a.mean.val, 1e-9);
        assert_close(w.tangential.val * 1e12, 6.0 * a.tangential.val, 1e-7);
        assert_below(w.identity, 1e-10);
    }
}

/* Entropy is ln Z + sum w z: for equal weights ln n, and its derivative in beta is -beta Var. */
static void entropies_fit(void **state)
{
    (void)state;
    const es_keys keys = {.dim = 4};
    const es_weights flat = exact(&keys, 1000, 1e-6);
    assert_near(flat.entropy.val, log(1000.0), 1e-9);
    assert_close(flat.squares.val, 1e-3, 1e-9);
    assert_near(flat.deficit.val, 1.0, 1e-6);
    /* d (E ln Z) / d beta = -E sum w T, and E ln Z = entropy - beta E sum w T. */
    const double h = 1e-3;
    const es_weights low = exact(&keys, 1000, 5.0 - h), high = exact(&keys, 1000, 5.0 + h),
                     mid = exact(&keys, 1000, 5.0);
    const double slope = ((high.entropy.val - (5.0 + h) * high.deficit.val) -
                          (low.entropy.val - (5.0 - h) * low.deficit.val)) /
                         (2.0 * h);
    assert_near(slope, -mid.deficit.val, 1e-6);
}

/* One key, and a planted one: the sum over the others is a plain mean if they are many. */
static void NU05_one_key_and_planted_keys(void **state)
{
    (void)state;
    const es_keys keys = {.dim = 3}, planted = {.dim = 3, .planted = true};
    const es_weights one = exact(&keys, 1, 10.0), own = exact(&planted, 1, 10.0);
    assert_near(one.top.val, 1.0, one.top.err);
    assert_near(one.squares.val, 1.0, one.squares.err);
    assert_near(one.deficit.val, 1.0, one.deficit.err); /* E T */
    assert_equals(one.entropy.val, 0.0);
    assert_equals(own.entropy.val, 0.0);
    assert_near(own.top.val, 1.0, own.top.err);
    assert_near(own.deficit.val, 0.0, 1e-12);
    /* n = 2: E 1/(1 + e^{-beta T}), T uniform on [0, 2]: ln(...)/(2 beta) */
    const es_weights two = exact(&planted, 2, 10.0);
    assert_near(two.top.val, (log1p(exp(20.0)) - log(2.0)) / 20.0, two.top.err + 1e-12);
    /* 10^12 keys: w = 1/(1 + n E e^{-beta T}) */
    const es_weights many = exact(&planted, INT64_C(1000000000001), 20.0);
    assert_close(many.top.val, 1.0 / (1.0 + 1e12 * -expm1(-40.0) / 40.0), 1e-8);
}

/* ---- subcritical ---- */

static void fluctuations_agree_with_theory_json(void **state)
{
    (void)state;
    json_t *known = golden("sphere_fluct"), *row;
    size_t i;
    json_array_foreach(json_object_get(known, "items"), i, row)
    {
        const int64_t d = (int64_t)golden_real(row, "d");
        es_average a;
        assert_ok(es_average_at(d, golden_real(row, "beta"), &a, &err));
        assert_close(a.spread.val, golden_real(row, "D"), 1e-11);
        assert_close(a.tangential.val, golden_real(row, "tang"), 1e-11);
        assert_close(a.radial.val, golden_real(row, "radial"), 1e-11);
        assert_close(a.radial.val + (double)(d - 1) * a.tangential.val, golden_real(row, "nmse"),
                     1e-11);
    }
    json_decref(known);
    es_average a;
    for (double beta = 20.0; beta < 1e9; beta *= 10.0) { /* the series' next term */
        assert_ok(es_average_at(3, beta, &a, &err));
        assert_near(a.series, a.mean.val, a.mean.err + 2.0 * exp(-2.0 * beta) + 1e-15);
        assert_ok(es_average_at(8, beta, &a, &err));
        assert_near(a.series, a.mean.val, a.mean.err + 100.0 / pow(beta, 4.0) + 1e-15);
    }
    assert_int_equal(es_average_at(1, 1.0, &a, &err), ES_E_RANGE);
    assert_int_equal(es_average_at(3, 0.0, &a, &err), ES_E_RANGE);
    assert_int_equal(es_average_at(3, INFINITY, &a, &err), ES_E_RANGE);
}

/* The stated first-order shortfall of the limit is the one that the exact values show. */
static void needs_are_of_the_right_size(void **state)
{
    (void)state;
    static const int64_t dims[] = {5, 10, 20};
    for (int i = 0; i < 3; i++) {
        const es_keys keys = {.dim = dims[i]};
        const double alpha = 0.5 * (double)(dims[i] - 1), b = 0.5;
        const double needs = es_critical_needs(&keys, 1.0, b, 0.05);
        if (needs > 1e18)
            continue;
        const double beta = b * pow(needs, 1.0 / alpha);
        const double off = critical(alpha, scaled_of(dims[i], b)).squares.val /
                               exact(&keys, (int64_t)needs, beta).squares.val -
                           1.0;
        assert_near(off, -0.05, 0.01);
    }
    assert_equals(es_critical_needs(&(es_keys){.dim = 3}, 10.0, 1.0, 0.05), 0.0);
    assert_infinite(es_critical_needs(&(es_keys){.dim = 4096}, 10.0, 1.0, 0.05));
    assert_nan(es_critical_needs(&(es_keys){.dim = 1}, 10.0, 1.0, 0.05));
}

static void regimes_have_names(void **state)
{
    (void)state;
    es_regime_finding f;
    es_regime_of(1e6, 0.95, 0.92, &f);
    assert_int_equal(f.regime, ES_REGIME_SINGLE_KEY);
    assert_string_equal(f.reason,
                        "1.09 keys share the weight, the nearest has 95 % of it on average");
    es_regime_of(1e6, 0.01, 0.002, &f);
    assert_int_equal(f.regime, ES_REGIME_AVERAGING);
    es_regime_of(10, 0.11, 0.101, &f); /* ten keys, nearly equal */
    assert_int_equal(f.regime, ES_REGIME_AVERAGING);
    es_regime_of(1e6, 0.5, 0.3, &f);
    assert_int_equal(f.regime, ES_REGIME_SELECTIVE);
    assert_string_equal(es_regime_name(f.regime), "selective");
    /* on the cut-offs: 100 keys, 2 keys, two thirds of 3 keys */
    es_regime_of(1e6, 0.1, 0.01, &f);
    assert_int_equal(f.regime, ES_REGIME_AVERAGING);
    es_regime_of(1e6, 0.6, 0.5, &f);
    assert_int_equal(f.regime, ES_REGIME_SELECTIVE);
    es_regime_of(1e6, 0.6, 0.501, &f);
    assert_int_equal(f.regime, ES_REGIME_SINGLE_KEY);
    es_regime_of(3, 0.6, 0.5, &f);
    assert_int_equal(f.regime, ES_REGIME_AVERAGING);
    es_regime_of(2, 0.9, 0.76, &f);
    assert_int_equal(f.regime, ES_REGIME_SINGLE_KEY);
    es_regime_of(1, 1.0, 1.0, &f); /* one key: nothing to freeze */
    assert_int_equal(f.regime, ES_REGIME_AVERAGING);
    assert_string_equal(es_regime_name((es_regime)9), "?");
    assert_string_equal(es_regime_name((es_regime)-1), "?");
    /* intervals: up to a cut-off, from it on, around it */
    assert_int_equal(es_regime_within(1e6, 1.0, 1.99), ES_REGIME_SINGLE_KEY);
    assert_int_equal(es_regime_within(1e6, 1.0, 2.0), ES_REGIME_UNDECIDED);
    assert_int_equal(es_regime_within(1e6, 2.0, 99.9), ES_REGIME_SELECTIVE);
    assert_int_equal(es_regime_within(1e6, 2.0, 100.0), ES_REGIME_UNDECIDED);
    assert_int_equal(es_regime_within(1e6, 100.0, 1e9), ES_REGIME_AVERAGING);
    assert_int_equal(es_regime_within(90.0, 60.1, 61.0), ES_REGIME_AVERAGING);
    assert_int_equal(es_regime_within(1e6, (double)NAN, (double)NAN), ES_REGIME_UNDECIDED);
}

/* ---- Kolmogorov and Smirnov ---- */

static void ks_tails_have_their_values(void **state)
{
    (void)state;
    /* mpmath, 20 digits; 1.3581 is the 5 % point of the tables */
    assert_near(es_ks_tail(0.5), 0.96394524366487509, 1e-13);
    assert_near(es_ks_tail(1.0), 0.26999967167735456, 1e-13);
    assert_near(es_ks_tail(1.3580986), 0.05000001068028081, 1e-13);
    assert_near(es_ks_tail(0.9999999), es_ks_tail(1.0000001), 1e-6);
    assert_equals(es_ks_tail(0.0), 1.0);
    assert_below(es_ks_tail(10.0), 1e-80);
    double x[4] = {1, 2, 2, 3}, y[4] = {2, 2, 3, 1}, z[3] = {5, 6, 7};
    assert_equals(es_ks_two(x, 4, y, 4).distance, 0.0); /* ties are no difference */
    assert_equals(es_ks_two(x, 4, z, 3).distance, 1.0);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    const es_keys_part bad[] = {
        {0.0, 1.0, 1.0}, {1.0, -1.0, 1.0}, {1.0, 1.0, 1.5}, {1.0, NAN, 0.0}};
    const es_keys good = {.dim = 3};
    es_weights w;
    for (int i = 0; i < 4; i++) {
        const es_keys keys = {.dim = 3, .parts = &bad[i], .n_parts = 1};
        assert_int_equal(es_weights_exact(&keys, 10, 1.0, NULL, &w, &err), ES_E_RANGE);
    }
    static const struct {
        es_keys keys;
        es_status status;
    } laws[] = {{{.dim = 1}, ES_E_RANGE},
                {{.dim = 4097}, ES_E_RANGE},
                {{.dim = 3, .vanish = -1.0}, ES_E_RANGE},
                {{.dim = 3, .vanish = NAN}, ES_E_RANGE}};
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++)
        assert_int_equal(es_keys_check(&laws[i].keys, &err), laws[i].status);
    const es_keys_part one = {1.0, 1.0, 1.0};
    const es_keys both = {.dim = 3, .vanish = 1.0, .parts = &one, .n_parts = 1};
    assert_int_equal(es_keys_check(&both, &err), ES_E_ARGUMENT);
    assert_int_equal(es_weights_exact(&good, 0, 1.0, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_weights_exact(&good, 10, 0.0, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_weights_exact(&good, 10, -1.0, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_weights_exact(&good, 10, INFINITY, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_weights_exact(&good, 10, NAN, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_weights_critical(0.0, 1.0, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_weights_critical(1.0, 0.0, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_weights_critical(24.5, 0.01, NULL, &w, &err), ES_E_RANGE);
    es_mem_limit little = {.limit = 1000};
    assert_int_equal(es_weights_exact(&good, 10, 1.0, &little, &w, &err), ES_E_LIMIT);
    assert_equals(little.used, 0);
}

TEST_FILE(regimes_law)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caps_agree_with_theory_json),
        cmocka_unit_test(caps_have_their_closed_forms),
        cmocka_unit_test(quantiles_invert_the_distribution),
        cmocka_unit_test(mixtures_have_their_moments),
        cmocka_unit_test(critical_limits_agree_with_theory_json),
        cmocka_unit_test(three_dimensions_are_dickman),
        cmocka_unit_test(small_weights_are_relatively_accurate),
        cmocka_unit_test(supercritical_forms_are_approached),
        cmocka_unit_test(two_keys_are_an_integral),
        cmocka_unit_test(exact_values_have_both_limits),
        cmocka_unit_test(entropies_fit),
        cmocka_unit_test(NU05_one_key_and_planted_keys),
        cmocka_unit_test(fluctuations_agree_with_theory_json),
        cmocka_unit_test(needs_are_of_the_right_size),
        cmocka_unit_test(regimes_have_names),
        cmocka_unit_test(ks_tails_have_their_values),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
