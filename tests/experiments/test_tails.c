/* SPDX-License-Identifier: Apache-2.0 */
/* Tails of samples and of tokens: closed forms, brute force, and laws whose tails are known. */
#include "tiny_model.h"

#include <esscher/random.h>

#include "experiments/kit/cell_kit.h"
#include "experiments/tails/tails.h"
#include "linalg/linalg.h"
#include "model/model.h"
#include "random/random.h"
#include "stats/multiple.h"
#include "theory/theory.h"

enum { N = 4096 };
static double x[N];

/* ---- closed forms ---- */

/* THEORY.md 9: psi2 of the two-point law is 1/sqrt(ln 2), its proxy its variance. */
static void two_points_are_known(void **state)
{
    es_tails t;
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = 5.0 + (i % 2 ? 3.0 : -3.0);
    assert_ok(es_tails_of(x, N, ES_TAILS_BOTH, NULL, &t, &err));
    assert_near(t.mean, 5.0, 1e-14);
    assert_near(t.variance, 9.0, 1e-13);
    assert_near(t.kurtosis, 1.0, 1e-13);
    assert_near(t.psi2, 1.2011224087864498, 1e-12);
    assert_near(t.proxy, 1.0, 1e-13);
    assert_near(t.hill, 0.0, 1e-13);
}

/* Midpoints of N cells: averages of smooth functions are those of the uniform law up to
 * f''/(24 (N/2)^2) < 1e-6. Its psi2 is that of THEORY.md 9 over 1/sqrt(3); K(l) = ln(sinh a/a),
 * a = sqrt(3) l, is below l^2/2, so the proxy is the variance. */
static void uniform_is_known(void **state)
{
    es_tails t;
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = (2.0 * i + 1.0) / N - 1.0;
    assert_ok(es_tails_of(x, N, ES_TAILS_BOTH, NULL, &t, &err));
    assert_near(t.kurtosis, 1.8, 1e-6);
    assert_near(t.psi2, 0.7727077921631287 * sqrt(3.0), 1e-6);
    assert_near(t.proxy, 1.0, 1e-12);
    assert_near(t.tilt, 0.0, 0.0);
}

/* Quantiles (i/N)^(-1/3) of a power tail of index 3: Hill is (1/k) sum ln((k+1)/i) / 3. */
static void power_tail_has_its_index(void **state)
{
    const int64_t k = es_tails_hill_count(N);
    es_tails t;
    (void)state;
    assert_int_equal(k, 256);
    for (int i = 0; i < N; i++)
        x[i] = pow((1.0 + (i * 911) % N) / N, -1.0 / 3.0); /* in no order */
    assert_ok(es_tails_of(x, N, ES_TAILS_UPPER, NULL, &t, &err));
#define HILL(m) ((log((m) + 1.0) - lgamma((m) + 1.0) / (m)) / 3.0)
    assert_near(t.hill, HILL(256.0), 1e-12);
    assert_near(t.hill_half, HILL(128.0), 1e-12);
    assert_near(t.hill_twice, HILL(512.0), 1e-12);
    assert_near(t.hill_se, t.hill / 16.0, 1e-15);
}

/* ---- brute force ---- */

/* sup 2 (K - l m)/l^2 over a fine grid of tilts that leave 30 tokens, up to the last such tilt, in
 * plain loops. */
static double slow_proxy(const double *at, int n)
{
    double mean = 0.0, variance = 0.0, best = 0.0;
    for (int i = 0; i < n; i++)
        mean += at[i] / n;
    for (int i = 0; i < n; i++)
        variance += (at[i] - mean) * (at[i] - mean) / n;
    for (int sign = -1; sign <= 1; sign += 2) {
        double step = 0.01;
        for (double l = 0.01; l < 6.0 && step > 1e-9; l += step) {
            double sum = 0.0, squares = 0.0;
            for (int i = 0; i < n; i++) {
                const double w = exp(sign * l * (at[i] - mean) / sqrt(variance));
                sum += w;
                squares += w * w;
            }
            if (sum * sum / squares < 30.0) { /* too far: back, and on in smaller steps */
                l -= step;
                step /= 4.0;
                continue;
            }
            best = fmax(best, 2.0 * log(sum / n) / (l * l));
        }
    }
    return best;
}

static void proxy_is_that_of_brute_force(void **state)
{
    const es_address at = {.seed = 5, .experiment = ES_EXPERIMENT_FREE};
    es_tails t;
    double y[400];
    (void)state;
    /* skew to the right, skew to the left, a few far away: the maximum at an end, inside, and on
     * either side */
    for (int shape = 0; shape < 3; shape++) {
        assert_ok(es_exponential_rows(&at, 400, 1, y, &err));
        for (int i = 0; i < 400; i++)
            y[i] = shape == 0   ? y[i]
                   : shape == 1 ? -y[i] * y[i]
                                : (y[i] - 1.0) + (i % 10 ? 0.0 : 6.0);
        assert_ok(es_tails_of(y, 400, ES_TAILS_BOTH, NULL, &t, &err));
        /* inside, the grid is within .005 of the maximum: (.005)^2 times a curvature of order 1 */
        assert_near(t.proxy, slow_proxy(y, 400), shape == 2 ? 1e-4 : 1e-7);
        assert_above(t.proxy, 1.05);
        if (shape == 1)
            assert_below(t.tilt, 0.0);
        else
            assert_above(t.tilt, 0.0);
    }
}

static void unit_and_origin_do_not_matter(void **state)
{
    const es_address at = {.seed = 2, .experiment = ES_EXPERIMENT_FREE};
    es_tails a, b;
    (void)state;
    assert_ok(es_normal_rows(&at, N, 1, x, &err));
    assert_ok(es_tails_of(x, N, ES_TAILS_BOTH, NULL, &a, &err));
    for (int i = 0; i < N; i++)
        x[i] = 1e200 * (3.0 - x[i]); /* whose squares overflow */
    assert_ok(es_tails_of(x, N, ES_TAILS_BOTH, NULL, &b, &err));
    assert_close(b.proxy, a.proxy, 1e-10);
    assert_close(b.psi2, a.psi2, 1e-10);
    assert_close(b.hill, a.hill, 1e-10);
    assert_close(b.kurtosis, a.kurtosis, 1e-10);
    assert_near(b.tilt, -a.tilt, 1e-6);
}

/* ---- laws and the control ---- */

typedef enum law { GAUSSIAN, UNIFORM, LAPLACE, STUDENT } law;

static void draw(law of, uint64_t seed, double *out, int64_t n)
{
    es_address at = {.seed = seed, .experiment = ES_EXPERIMENT_FREE, .cell = 1};
    double *other = malloc((size_t)n * sizeof *other);
    if (of == UNIFORM) {
        assert_ok(es_uniform_rows(&at, n, 1, out, &err));
    } else if (of == LAPLACE) {
        assert_ok(es_exponential_rows(&at, n, 1, out, &err));
        at.cell = 2;
        assert_ok(es_uniform_rows(&at, n, 1, other, &err));
        for (int64_t i = 0; i < n; i++)
            out[i] *= other[i] < 0.5 ? -1.0 : 1.0;
    } else {
        assert_ok(es_normal_rows(&at, n, 1, out, &err));
        at.cell = 2;
        assert_ok(es_chi_rows(&at, n, 1, 4.0, other, &err));
        for (int64_t i = 0; of == STUDENT && i < n; i++)
            out[i] *= 2.0 / other[i];
    }
    free(other);
}

/* The control is a mean over 64 draws: of Gaussian samples, so a little below the laws' own values
 * for psi2 (its sample lacks the tail) and above 1 for the proxy (a supremum). */
static void gaussian_control_is_gaussian(void **state)
{
    es_tails_control c;
    (void)state;
    assert_ok(es_tails_gaussian(N, 0, 1, NULL, &c, &err));
    assert_near(c.kurtosis.mean, 3.0, 4.0 * c.kurtosis.sd / sqrt(64.0));
    /* sd of the kurtosis of a Gaussian sample: sqrt(24/n), itself known to 1/sqrt(2*63) */
    assert_close(c.kurtosis.sd, sqrt(24.0 / N), 4.0 / sqrt(126.0));
    assert_between(c.psi2.mean, 1.55, 1.632993161855452);
    assert_between(c.proxy.mean, 1.0, 1.1);
    /* k/n = 1/16 of |x|, beyond 1.8627; the mean of ln(|x|/1.8627) there, by quadrature. That the
     * threshold is itself drawn moves it by about 1/k of itself. */
    assert_near(c.hill.mean, 0.179047, 4.0 * c.hill.sd / sqrt(64.0) + 0.179 / 256.0);
}

static void laws_are_told_apart(void **state)
{
    static const struct {
        law of;
        es_tails_verdict verdict;
    } known[] = {{GAUSSIAN, ES_TAILS_GAUSSIAN},
                 {UNIFORM, ES_TAILS_LIGHTER},
                 {LAPLACE, ES_TAILS_HEAVIER},
                 {STUDENT, ES_TAILS_HEAVIER}};
    es_tails_control c;
    (void)state;
    assert_ok(es_tails_gaussian(N, 0, 1, NULL, &c, &err));
    for (uint64_t seed = 10; seed < 14; seed++)
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            es_tails t;
            es_tails_z z;
            draw(known[i].of, seed, x, N);
            assert_ok(es_tails_of(x, N, ES_TAILS_BOTH, NULL, &t, &err));
            es_tails_compare(&t, &c, &z);
            assert_int_equal(es_tails_judge(&t, &c), known[i].verdict);
            if (known[i].of == GAUSSIAN) {
                assert_below(fabs(z.proxy), 4.0);
                assert_below(fabs(z.psi2), 4.0);
                assert_below(fabs(z.hill), 4.0);
                assert_below(fabs(z.kurtosis), 4.0);
            } else {
                assert_equals((z.psi2 > 4.0), (known[i].of != UNIFORM));
                assert_above(fabs(z.hill), 4.0);
                assert_above(fabs(z.psi2), 4.0);
            }
        }
}

static void control_is_the_same_on_any_number_of_threads(void **state)
{
    const double spectrum[3] = {4.0, 1.0, 0.0};
    const es_exec one = {.threads = 1}, three = {.threads = 3};
    es_tails_control a, b;
    (void)state;
    assert_ok(es_tails_gaussian(200, 5, 9, &one, &a, &err));
    assert_ok(es_tails_gaussian(200, 5, 9, &three, &b, &err));
    assert_memory_equal(&a, &b, sizeof a);
    assert_ok(es_tails_gaussian_norms(spectrum, 3, 200, 5, 9, &one, &a, &err));
    assert_ok(es_tails_gaussian_norms(spectrum, 3, 200, 5, 9, &three, &b, &err));
    assert_memory_equal(&a, &b, sizeof a);
    /* one eigenvalue: |g|, with E|g| = m = sqrt(2/pi), E g^2 = 1, E|g|^3 = 2m, E g^4 = 3 */
    assert_ok(es_tails_gaussian_norms(spectrum, 1, N, 32, 9, NULL, &a, &err));
    const double m = sqrt(2.0 / acos(-1.0)), v = 1.0 - m * m;
    const double fourth = 3.0 - 4.0 * m * 2.0 * m + 6.0 * m * m - 3.0 * pow(m, 4.0);
    assert_near(a.kurtosis.mean, fourth / (v * v), 4.0 * a.kurtosis.sd / sqrt(32.0));
}

static void nonsense_is_refused(void **state)
{
    const double spectrum[2] = {1.0, -1.0};
    es_tails t;
    es_tails_control c;
    es_mem_limit small = {.limit = 1000};
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = i % 7;
    assert_int_equal(es_tails_of(x, 63, ES_TAILS_BOTH, NULL, &t, &err), ES_E_EMPTY);
    assert_int_equal(es_tails_of(x, N, ES_TAILS_BOTH, &small, &t, &err), ES_E_LIMIT);
    x[77] = -1.0;
    assert_int_equal(es_tails_of(x, N, ES_TAILS_UPPER, NULL, &t, &err), ES_E_RANGE);
    assert_int_equal(err.row, 77);
    x[78] = (double)NAN;
    assert_int_equal(es_tails_of(x, N, ES_TAILS_BOTH, NULL, &t, &err), ES_E_NONFINITE);
    assert_int_equal(err.row, 78);
    assert_int_equal(es_tails_gaussian(10, 4, 1, NULL, &c, &err), ES_E_EMPTY);
    assert_int_equal(es_tails_gaussian(100, 1, 1, NULL, &c, &err), ES_E_RANGE);
    assert_int_equal(es_tails_gaussian_norms(spectrum, 2, 100, 4, 1, NULL, &c, &err), ES_E_RANGE);
    assert_int_equal(err.row, 1);
}

static void a_constant_has_no_tails(void **state)
{
    es_tails t;
    es_tails_control c;
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = 0.1;
    assert_ok(es_tails_of(x, N, ES_TAILS_BOTH, NULL, &t, &err));
    assert_near(t.mean, 0.1, 1e-16);
    assert_equals(t.variance, 0.0);
    assert_nan(t.proxy);
    assert_nan(t.psi2);
    assert_nan(t.hill);
    assert_ok(es_tails_gaussian(100, 4, 1, NULL, &c, &err));
    assert_int_equal(es_tails_judge(&t, &c), ES_TAILS_CONSTANT);
    assert_string_equal(es_tails_verdict_name(ES_TAILS_CONSTANT), "constant");
}

/* ---- p-values ---- */

/* Shares of p at or below the levels over BATCHES controls and EACH Gaussian samples for each,
 * which share it; so errors are those of means over batches. */
enum { BATCHES = 40, EACH = 20, FEW = 128, LEVELS = 4 };
static const double levels[LEVELS] = {0.05, 0.25, 0.5, 0.75};

static void count_below(double p, double *share)
{
    for (int i = 0; i < LEVELS; i++)
        share[i] += (p <= levels[i]) / (double)EACH;
}

static void assert_uniform(const char *name, double share[BATCHES][LEVELS])
{
    for (int i = 0; i < LEVELS; i++) {
        double mean = 0.0, spread = 0.0;
        for (int b = 0; b < BATCHES; b++)
            mean += share[b][i] / BATCHES;
        for (int b = 0; b < BATCHES; b++)
            spread += pow(share[b][i] - mean, 2.0) / (BATCHES - 1);
        const double se = sqrt(spread / BATCHES);
        print_message("%s: p <= %g in %.3f +- %.3f\n", name, levels[i], mean, se);
        assert_near(mean, levels[i], 4.0 * se);
    }
}

static void p_of_gaussian_samples_is_uniform(void **state)
{
    static double share[4][BATCHES][LEVELS];
    const es_exec one = {.threads = 1};
    (void)state;
    memset(share, 0, sizeof share);
    for (int b = 0; b < BATCHES; b++) {
        es_tails_control c;
        assert_ok(es_tails_gaussian(FEW, 0, 900 + (uint64_t)b, &one, &c, &err));
        for (int i = 0; i < EACH; i++) {
            es_tails t;
            draw(GAUSSIAN, (uint64_t)(5000 + b * EACH + i), x, FEW);
            assert_ok(es_tails_of(x, FEW, ES_TAILS_BOTH, NULL, &t, &err));
            count_below(es_tails_above(t.proxy, &c.proxy), share[0][b]);
            count_below(es_tails_above(t.psi2, &c.psi2), share[1][b]);
            count_below(es_tails_below(t.psi2, &c.psi2), share[2][b]);
            count_below(es_tails_below(t.hill, &c.hill), share[3][b]);
        }
    }
    assert_uniform("proxy above", share[0]);
    assert_uniform("psi2 above", share[1]);
    assert_uniform("psi2 below", share[2]);
    assert_uniform("Hill below", share[3]);
}

/* 680 Gaussian directions and one control, corrected together: any verdict has probability 0.01. */
static void none_of_many_gaussian_directions_is_called(void **state)
{
    enum { MANY = 680 };
    static double p[2 * MANY];
    static es_tails t[MANY];
    es_tails_control c;
    double least = 1.0;
    (void)state;
    assert_ok(es_tails_gaussian(FEW, 0, 77, NULL, &c, &err));
    for (int i = 0; i < MANY; i++) {
        draw(GAUSSIAN, (uint64_t)(9000 + i), x, FEW);
        assert_ok(es_tails_of(x, FEW, ES_TAILS_BOTH, NULL, &t[i], &err));
        const es_tails_p here = es_tails_compare(&t[i], &c, NULL);
        p[2 * i] = here.heavier;
        p[2 * i + 1] = here.lighter;
        least = fmin(least, fmin(here.heavier, here.lighter));
    }
    print_message("the smallest of %d p is %.2g\n", 2 * MANY, least);
    assert_below(least, 0.05); /* or there would be nothing to correct */
    assert_ok(es_holm(p, 2 * MANY, p, &err));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(es_tails_decide(&t[i], &c, (es_tails_p){p[2 * i], p[2 * i + 1]}),
                         ES_TAILS_GAUSSIAN);
}

/* Each Gaussian number eight times in a row, in blocks of 64: whatever is averaged, the design
 * effect is 8, but for the largest values, which may be a share of the whole and of one block.
 * Taken as independent such samples would be called non-Gaussian too often. */
static void neighbours_that_are_alike_count_less(void **state)
{
    enum { SERIES = 150, TIMES = 8 };
    es_tails_control c;
    double design = 0.0, called = 0.0, naive = 0.0;
    (void)state;
    assert_ok(es_tails_gaussian(N, 0, 5, NULL, &c, &err));
    for (int s = 0; s < SERIES; s++) {
        es_tails t;
        draw(GAUSSIAN, (uint64_t)(20000 + s), x, N / TIMES);
        for (int i = N - 1; i > 0; i--)
            x[i] = x[i / TIMES];
        assert_ok(es_tails_of(x, N, ES_TAILS_BOTH, NULL, &t, &err));
        design += t.design / SERIES;
        es_tails_p p = es_tails_compare(&t, &c, NULL);
        called += ((p.heavier <= 0.05) + (p.lighter <= 0.05)) / (2.0 * SERIES);
        t.design = 1.0;
        p = es_tails_compare(&t, &c, NULL);
        naive += ((p.heavier <= 0.05) + (p.lighter <= 0.05)) / (2.0 * SERIES);
    }
    print_message("design effect %.2f; p <= 0.05 in %.3f, without it in %.3f\n", design, called,
                  naive);
    assert_close(design, 8.0, 0.1);
    assert_below(called, 0.05 + 4.0 * sqrt(0.05 * 0.95 / SERIES));
    const double both = naive * (1.0 - naive) + called * (1.0 - called); /* 2 SERIES of each */
    assert_above(naive, called + 4.0 * sqrt(both / (2.0 * SERIES)));
}

/* ---- tokens ---- */

/* Three axes of one law each, which are the principal components: found, and told apart. */
static void tokens_are_looked_at_along_their_axes(void **state)
{
    static const law of[3] = {UNIFORM, LAPLACE, GAUSSIAN};
    static const double scale[3] = {20.0, 2.0, 1.0};
    static const es_tails_verdict verdict[3] = {ES_TAILS_LIGHTER, ES_TAILS_HEAVIER,
                                                ES_TAILS_GAUSSIAN};
    static double tokens[N * 3], norms[N];
    const es_view view = es_view_f64(tokens, N, 3);
    const es_tails_spec spec = {.tokens = &view, .random = 1, .draws = 16, .seed = 4};
    es_tails_row rows[8];
    es_tails t;
    double mean[3] = {0.0};
    (void)state;
    for (int j = 0; j < 3; j++) {
        draw(of[j], 20 + (uint64_t)j, x, N);
        for (int i = 0; i < N; i++) {
            tokens[3 * i + j] = scale[j] * x[i] + 7.0;
            mean[j] += tokens[3 * i + j] / N;
        }
    }
    assert_int_equal(es_tails_rows(&spec), 3 + 1 + 1);
    assert_ok(es_tails_measure(&spec, 0, rows, &err));
    for (int j = 0; j < 3; j++) {
        const es_tails_direction d = es_tails_direction_of(&spec, j);
        assert_equals(d.kind, ES_TAILS_PRINCIPAL);
        assert_equals(d.head, -1);
        assert_equals(d.index, j);
        assert_int_equal(es_tails_judge(&rows[j].sample, &rows[j].control), verdict[j]);
    }
    assert_int_equal(es_tails_direction_of(&spec, 4).kind, ES_TAILS_NORM);
    for (int i = 0; i < N; i++)
        norms[i] = hypot(hypot(tokens[3 * i] - mean[0], tokens[3 * i + 1] - mean[1]),
                         tokens[3 * i + 2] - mean[2]);
    assert_ok(es_tails_of(norms, N, ES_TAILS_UPPER, NULL, &t, &err));
    assert_close(rows[4].sample.hill, t.hill, 1e-9);
    assert_close(rows[4].sample.proxy, t.proxy, 1e-9);
}

/* ---- a model ---- */

static void write_words(int64_t vocab)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    FILE *file = fopen(in_folder("vocab.txt"), "w");
    assert_non_null(file);
    for (int64_t i = 0; i < vocab; i++)
        i < 5 ? fprintf(file, "%s\n", specials[i]) : fprintf(file, "w%c\n", 'a' + (int)i - 5);
    assert_int_equal(fclose(file), 0);
    file = fopen(in_folder("text"), "w");
    assert_non_null(file);
    for (unsigned i = 0, r = 1; i < 400; i++, r = r * 1103515245u + 12345u)
        fprintf(file, "w%c ", 'a' + (int)(r >> 16) % 26);
    assert_int_equal(fclose(file), 0);
}

/* One layer's tokens, their covariance, and rows of a head, in f64. */
static void check_head(const es_tails_spec *spec, const es_tails_row *rows, int64_t first_key,
                       int64_t head, const float *tokens, const es_view *cov, int64_t query)
{
    const es_pool_info pool = es_pool_about(spec->pool);
    const int64_t H = pool.hidden, k = H / pool.heads;
    es_model_head w;
    es_horizons h;
    assert_ok(es_model_head_of(spec->model, 1, head, &w, &err));
    /* the key direction is t = A L v, |v| = 1, L'A L v of length |S^1/2 A S^1/2|: its variance */
    assert_ok(es_horizons_of(cov, 1e-6, &(es_head){.Wq = &w.wq, .Wk = &w.wk}, NULL, &h, &err));
    assert_close(rows[first_key + head].sample.variance, h.horizon.val * h.horizon.val, 1e-5);
    /* scores of the query over all tokens, by hand */
    double mean = 0.0, variance = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < pool.tokens; i++) {
            double score = 0.0;
            for (int64_t c = 0; c < k; c++) {
                double q = es_view_get(&w.bq, 0, c), key = es_view_get(&w.bk, 0, c);
                for (int64_t j = 0; j < H; j++) {
                    q += es_view_get(&w.wq, c, j) * (double)tokens[query * H + j];
                    key += es_view_get(&w.wk, c, j) * (double)tokens[i * H + j];
                }
                score += q * key / sqrt((double)k);
            }
            if (pass == 0)
                mean += score / (double)pool.tokens;
            else
                variance += (score - mean) * (score - mean) / (double)pool.tokens;
        }
    assert_close(rows[first_key + pool.heads + head * spec->queries].sample.variance, variance,
                 1e-5);
}

static void directions_of_heads_are_those_of_the_weights(void **state)
{
    tiny t = tiny_default();
    es_model *model;
    es_tokenizer *tokenizer;
    es_pool *pool;
    char text[512], at[512];
    (void)state;
    tiny_draw(&t);
    tiny_write(&t);
    write_words(t.vocab);
    snprintf(text, sizeof text, "%s", in_folder("text"));
    snprintf(at, sizeof at, "%s", in_folder("pool"));
    const char *const texts[] = {text};
    assert_ok(es_model_open(folder, NULL, &model, &err));
    assert_ok(es_tokenizer_open(folder, NULL, &tokenizer, &err));
    assert_ok(es_pool_build(
        &(es_pool_spec){
            .model = model, .tokenizer = tokenizer, .texts = texts, .n_texts = 1, .folder = at},
        NULL, &err));
    assert_ok(es_pool_open(at, &pool, &err));
    const es_pool_info about = es_pool_about(pool);
    const es_exec one = {.threads = 1}, three = {.threads = 3};
    es_tails_spec spec = {.model = model,
                          .pool = pool,
                          .principal = 2,
                          .random = 2,
                          .queries = 2,
                          .draws = 4,
                          .seed = 6,
                          .exec = &one};
    enum { ROWS = 2 + 2 + 1 + 3 * (1 + 2) };
    es_tails_row rows[ROWS], again[ROWS];
    assert_int_equal(es_tails_rows(&spec), ROWS);
    assert_ok(es_tails_measure(&spec, 1, rows, &err));
    spec.exec = &three;
    assert_ok(es_tails_measure(&spec, 1, again, &err));
    assert_memory_equal(rows, again, sizeof rows);

    float *tokens = malloc((size_t)(about.tokens * t.hidden) * sizeof *tokens);
    double cov[12 * 12];
    const es_view view = es_view_f32(tokens, about.tokens, t.hidden);
    const es_view cov_view = es_view_f64(cov, t.hidden, t.hidden);
    const es_address queries = {.seed = 6, .experiment = ES_TAILS_QUERIES, .cell = 1};
    es_permutation shuffle;
    assert_ok(es_permutation_init(&queries, about.tokens, &shuffle, &err));
    assert_ok(es_pool_rows(pool, 1, 0, about.tokens, tokens, &err));
    assert_ok(es_cov_estimate(&view, false, NULL, NULL, cov, &err));
    for (int64_t h = 0; h < 3; h++)
        check_head(&spec, rows, 5, h, tokens, &cov_view, es_permutation_at(&shuffle, 0));
    const es_tails_direction last = es_tails_direction_of(&spec, ROWS - 1);
    assert_equals(last.kind, ES_TAILS_SCORE);
    assert_equals(last.head, 2);
    assert_equals(last.index, 1);

    assert_int_equal(es_tails_measure(&spec, 3, rows, &err), ES_E_RANGE);
    spec.tokens = &view;
    assert_int_equal(es_tails_measure(&spec, 1, rows, &err), ES_E_ARGUMENT);
    free(tokens);
    es_pool_close(pool);
    es_tokenizer_free(tokenizer);
    es_model_close(model);
    tiny_free(&t);
    for (int l = 0; l < 3; l++) {
        char name[64];
        snprintf(name, sizeof name, "pool/layer-%d.npy", l);
        unlink(in_folder(name));
    }
    unlink(in_folder("pool/pool.run"));
    unlink(in_folder("pool/pool.run.lock"));
}

TEST_FILE(tails)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_points_are_known),
        cmocka_unit_test(uniform_is_known),
        cmocka_unit_test(power_tail_has_its_index),
        cmocka_unit_test(proxy_is_that_of_brute_force),
        cmocka_unit_test(unit_and_origin_do_not_matter),
        cmocka_unit_test(gaussian_control_is_gaussian),
        cmocka_unit_test(laws_are_told_apart),
        cmocka_unit_test(p_of_gaussian_samples_is_uniform),
        cmocka_unit_test(none_of_many_gaussian_directions_is_called),
        cmocka_unit_test(neighbours_that_are_alike_count_less),
        cmocka_unit_test(control_is_the_same_on_any_number_of_threads),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_constant_has_no_tails),
        cmocka_unit_test(tokens_are_looked_at_along_their_axes),
        cmocka_unit_test(directions_of_heads_are_those_of_the_weights),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
