/* SPDX-License-Identifier: Apache-2.0 */
/* test_spectrum.c : BB' = S, the eigenvalues that were promised, matrices from files. */
#include "folder.h"
#include "base/view.h"
#include "linalg/linalg.h"
#include "matrices.h"
#include "tokens/spectrum.h"

#include <esscher/npy.h>

static const es_address turn = {.seed = 5, .experiment = 1};

enum { D = 24 };
static const double variances[D] = {3, 0, 1, 7, 2, 2, 2};

#define SHAPE(k) .kind = ES_SPECTRUM_##k, .dim = D, .level = 2.0
static const es_spectrum shapes[] = {
    {SHAPE(SCALAR)},
    {SHAPE(DIAGONAL), .diagonal = variances},
    {SHAPE(POWER), .decay = 1.5},
    {SHAPE(POWER), .decay = 0},
    {SHAPE(EXPONENTIAL), .decay = 0.5},
    {SHAPE(EXPONENTIAL), .decay = 100}, /* all but a few are 0 */
    {SHAPE(LOW_RANK), .rank = 3},
    {SHAPE(LOW_RANK), .rank = 3, .floor = 0.01},
    {SHAPE(LOW_RANK), .rank = 3, .floor = 5},
    {SHAPE(TOEPLITZ), .correlation = 0.9},
    {SHAPE(TOEPLITZ), .correlation = -0.5},
    {SHAPE(TOEPLITZ), .correlation = 0},
    {SHAPE(BLOCK), .correlation = 0.7, .blocks = 5},
    {SHAPE(BLOCK), .correlation = 1, .blocks = 3},
    {SHAPE(BLOCK), .correlation = -1.0 / 7, .blocks = 3}, /* the least that 8 rows allow */
    {SHAPE(BLOCK), .correlation = 0.3, .blocks = D},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* What an es_covariance promises. */
static void assert_consistent(const es_covariance *c)
{
    const int64_t d = c->dim;
    const double bound = 8 * (double)d * EPS * c->values[0];
    const es_view b = es_view_f64(c->factor, d, d), s = es_view_f64(c->matrix, d, d);
    assert_at_most(product_error(b, es_view_transpose(&b), s), bound + c->jitter);
    double *values = zeros(d, 1);
    assert_ok(es_sym_eigen(&s, NULL, values, NULL, &err));
    for (int64_t i = 0; i < d; i++) {
        assert_near(c->values[i], values[d - 1 - i], bound);
        if (i != 0)
            assert_at_most(c->values[i], c->values[i - 1]);
        for (int64_t j = 0; j < i; j++)
            assert_equals(c->matrix[i * d + j], c->matrix[j * d + i]);
    }
    free(values);
}

static void factors_multiply_to_the_covariance(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        for (int scale = ES_SPECTRUM_AS_IS; scale <= ES_SPECTRUM_TOP; scale++) {
            es_covariance c[2];
            es_spectrum s = shapes[i];
            s.scale = (es_spectrum_scale)scale;
            s.target = 10;
            assert_ok(es_covariance_make(&s, NULL, &c[0], &err));
            s.rotation = &turn;
            assert_ok(es_covariance_make(&s, NULL, &c[1], &err));
            for (int r = 0; r < 2; r++) {
                double trace = 0.0;
                assert_consistent(&c[r]);
                for (int k = 0; k < D; k++)
                    trace += c[r].matrix[k * D + k];
                if (scale == ES_SPECTRUM_TRACE)
                    assert_close(trace, 10.0, 1e-14 * D);
                if (scale == ES_SPECTRUM_TOP)
                    assert_close(c[r].values[0], 10.0, 1e-15);
                assert_equals(c[r].jitter, 0.0);
            }
            assert_memory_equal(c[0].values, c[1].values, D * 8); /* a rotation keeps them */
            es_covariance_free(&c[0]);
            es_covariance_free(&c[1]);
        }
    }
}

static void eigenvalues_are_the_formulas(void **state)
{
    (void)state;
    es_covariance c;
    for (int i = 0; i < SHAPES; i++) {
        const es_spectrum *s = &shapes[i];
        if (s->kind != ES_SPECTRUM_POWER && s->kind != ES_SPECTRUM_EXPONENTIAL)
            continue;
        assert_ok(es_covariance_make(s, NULL, &c, &err));
        for (int k = 0; k < D; k++) {
            const double power = 2 * pow(k + 1, -s->decay), fall = 2 * exp(-s->decay * k);
            assert_close(c.values[k], s->kind == ES_SPECTRUM_POWER ? power : fall, 1e-14);
        }
        es_covariance_free(&c);
    }
    assert_ok(es_covariance_make(&shapes[1], NULL, &c, &err));
    const double largest[] = {7, 3, 2, 2, 2, 1, 0, 0};
    assert_memory_equal(c.values, largest, sizeof largest);
    es_covariance_free(&c);
}

static void entries_are_the_formulas(void **state)
{
    (void)state;
    es_covariance c;
    assert_ok(es_covariance_make(&shapes[9], NULL, &c, &err));
    for (int i = 0; i < D; i++) {
        for (int j = 0; j < D; j++) {
            assert_close(c.matrix[i * D + j], 2 * pow(0.9, abs(i - j)), 1e-14);
            if (j > i)
                assert_equals(c.factor[i * D + j], 0.0);
        }
    }
    es_covariance_free(&c);
    assert_ok(es_covariance_make(&shapes[12], NULL, &c, &err)); /* 5, 5, 5, 5, 4 rows */
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            assert_equals(c.matrix[i * D + j], (i == j ? 2.0 : i / 5 == j / 5 ? 2 * 0.7 : 0.0));
    es_covariance_free(&c);
}

static void rotations_are_addressed_and_uniform(void **state)
{
    (void)state;
    es_covariance a, b;
    es_spectrum s = shapes[6];
    s.rotation = &turn;
    assert_ok(es_covariance_make(&s, NULL, &a, &err));
    assert_ok(es_covariance_make(&s, NULL, &b, &err));
    assert_memory_equal(a.factor, b.factor, D * D * 8);
    es_covariance_free(&b);
    es_covariance_free(&a);
    /* rank 1 in the plane: c e e' with e uniform on the circle; E e_1^4 = 3/8, E e_1^8 = 35/128. */
    enum { N = 4000 };
    double sum = 0.0;
    for (uint64_t i = 0; i < N; i++) {
        const es_address at = {.seed = 6, .cell = i};
        s = (es_spectrum){.kind = ES_SPECTRUM_LOW_RANK, .dim = 2, .level = 1, .rank = 1};
        s.rotation = &at;
        assert_ok(es_covariance_make(&s, NULL, &a, &err));
        sum += a.matrix[0] * a.matrix[0] / N;
        es_covariance_free(&a);
    }
    assert_near(sum, 3.0 / 8, 4 * sqrt((35.0 / 128 - 9.0 / 64) / N)); /* 4 SE */
}

static void spectra_that_are_none(void **state)
{
    (void)state;
    static const double negative[D] = {1, -1}, missing[D] = {1, NAN}, nothing[D];
    const es_address nowhere = {.token = UINT64_C(1) << 40};
    const struct {
        es_spectrum s;
        es_status status;
        const char *rule;
    } cases[] = {
        {{.kind = 0, .dim = D, .level = 1}, ES_E_ARGUMENT, "spectrum.kind"},
        {{.kind = 8, .dim = D, .level = 1}, ES_E_ARGUMENT, "spectrum.kind"},
        {{.kind = ES_SPECTRUM_SCALAR, .dim = 0, .level = 1}, ES_E_SHAPE, "spectrum.dim"},
        {{.kind = ES_SPECTRUM_SCALAR, .dim = 4097, .level = 1}, ES_E_SHAPE, "spectrum.dim"},
        {{.kind = ES_SPECTRUM_SCALAR, .dim = D}, ES_E_RANGE, "spectrum.level"},
        {{.kind = ES_SPECTRUM_SCALAR, .dim = D, .level = NAN}, ES_E_RANGE, "spectrum.level"},
        {{SHAPE(SCALAR), .scale = 3, .target = 1}, ES_E_ARGUMENT, "spectrum.scale"},
        {{SHAPE(SCALAR), .scale = ES_SPECTRUM_TOP}, ES_E_RANGE, "spectrum.target"},
        {{SHAPE(SCALAR), .scale = ES_SPECTRUM_TOP, .target = NAN}, ES_E_RANGE, "spectrum.target"},
        {{SHAPE(DIAGONAL)}, ES_E_ARGUMENT, "spectrum.diagonal"},
        {{SHAPE(DIAGONAL), .diagonal = negative}, ES_E_RANGE, "spectrum.diagonal"},
        {{SHAPE(DIAGONAL), .diagonal = missing}, ES_E_NONFINITE, "view.finite"},
        {{SHAPE(DIAGONAL), .diagonal = nothing, .scale = ES_SPECTRUM_TRACE, .target = 1},
         ES_E_RANGE,
         "spectrum.target"},
        {{SHAPE(POWER), .decay = -1}, ES_E_RANGE, "spectrum.decay"},
        {{SHAPE(EXPONENTIAL), .decay = INFINITY}, ES_E_RANGE, "spectrum.decay"},
        {{SHAPE(LOW_RANK), .rank = 0}, ES_E_RANGE, "spectrum.rank"},
        {{SHAPE(LOW_RANK), .rank = D + 1}, ES_E_RANGE, "spectrum.rank"},
        {{SHAPE(LOW_RANK), .rank = 1, .floor = -1}, ES_E_RANGE, "spectrum.floor"},
        {{SHAPE(TOEPLITZ), .correlation = 1}, ES_E_RANGE, "spectrum.correlation"},
        {{SHAPE(TOEPLITZ), .correlation = NAN}, ES_E_RANGE, "spectrum.correlation"},
        {{SHAPE(BLOCK), .correlation = 0.5}, ES_E_RANGE, "spectrum.blocks"},
        {{SHAPE(BLOCK), .correlation = 0.5, .blocks = D + 1}, ES_E_RANGE, "spectrum.blocks"},
        {{SHAPE(BLOCK), .correlation = -0.2, .blocks = 3}, ES_E_RANGE, "spectrum.correlation"},
        {{SHAPE(BLOCK), .correlation = 1.1, .blocks = 3}, ES_E_RANGE, "spectrum.correlation"},
        {{SHAPE(SCALAR), .rotation = &nowhere}, ES_E_RANGE, "random.address"},
        {{.kind = ES_SPECTRUM_SCALAR, .dim = D, .level = 1e308},
         ES_E_OVERFLOW,
         "spectrum.overflow"}};
    es_covariance c;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(es_covariance_make(&cases[i].s, NULL, &c, &err), cases[i].status);
        assert_string_equal(err.rule, cases[i].rule);
        assert_null(c.matrix);
        es_covariance_free(&c);
    }
}

static void memory_is_counted_and_returned(void **state)
{
    (void)state;
    es_mem_limit budget = {0};
    es_covariance c;
    es_spectrum s = shapes[9];
    s.rotation = &turn;
    assert_ok(es_covariance_make(&s, &budget, &c, &err));
    es_covariance_free(&c);
    assert_int_equal(budget.used, 0);
    const size_t peak = budget.peak;
    for (size_t limit = 1; limit < peak; limit += 1 + peak / 30) {
        budget = (es_mem_limit){.limit = limit};
        assert_int_equal(es_covariance_make(&s, &budget, &c, &err), ES_E_LIMIT);
        assert_int_equal(budget.used, 0);
    }
}

/* ---- matrices from files ---- */

static es_status load(es_dtype dtype, const double *m, int64_t rows, int64_t cols, es_covariance *c)
{
    const int64_t shape[] = {rows, cols};
    float *f = malloc((size_t)(rows * cols) * sizeof *f);
    assert_non_null(f);
    for (int64_t i = 0; i < rows * cols; i++)
        f[i] = (float)m[i];
    const void *data = dtype == ES_F32 ? (const void *)f : m;
    assert_ok(es_npy_save(in_folder("S.npy"), dtype, 2, shape, data, true, &err));
    free(f);
    return es_covariance_load(in_folder("S.npy"), 0, NULL, c, &err);
}

static void NU07_singular_is_met_with_reported_jitter(void **state)
{
    (void)state;
    es_covariance c;
    double *good = wishart(1, 20, 40), *flat = wishart(2, 20, 7), *hard = hilbert(20);
    assert_ok(load(ES_F64, good, 20, 20, &c));
    assert_equals(c.jitter, 0.0);
    assert_consistent(&c);
    es_covariance_free(&c);
    double *hopeless[] = {flat, hard}; /* rank 7; condition 1e28 */
    for (int i = 0; i < 2; i++) {
        for (int dtype = ES_F32; dtype <= ES_F64; dtype++) {
            double trace = 0.0;
            assert_ok(load((es_dtype)dtype, hopeless[i], 20, 20, &c));
            for (int k = 0; k < 20; k++)
                trace += c.matrix[k * 21];
            const double most = dtype == ES_F32 ? 1e-5 : 64 * 20 * EPS;
            assert_above(c.jitter, 0.0);
            assert_at_most(c.jitter, most * trace / 20);
            assert_consistent(&c);
            es_covariance_free(&c);
        }
    }
    memset(flat, 0, 400 * sizeof *flat);
    assert_ok(load(ES_F64, flat, 20, 20, &c)); /* no variance at all is a covariance, too */
    assert_equals(c.values[0], 0.0);
    assert_equals(c.factor[0], 0.0);
    es_covariance_free(&c);
    free(good), free(flat), free(hard);
}

static void NU07_indefinite_is_refused(void **state)
{
    (void)state;
    es_covariance c;
    double bad[] = {1, 2, 2, 1}, lopsided[] = {1, 0.5, 0.4, 1}, sick[] = {1, NAN, NAN, 1};
    assert_int_equal(load(ES_F64, bad, 2, 2, &c), ES_E_NUMERIC);
    assert_string_equal(err.rule, "linalg.positive");
    assert_string_equal(err.file, in_folder("S.npy"));
    assert_non_null(strstr(err.message, "-1"));
    assert_null(c.matrix);
    assert_int_equal(load(ES_F64, lopsided, 2, 2, &c), ES_E_NUMERIC);
    assert_int_equal(load(ES_F64, sick, 2, 2, &c), ES_E_NONFINITE);
    assert_int_equal(load(ES_F64, bad, 1, 4, &c), ES_E_SHAPE);
    const int64_t cube[] = {1, 2, 2};
    assert_ok(es_npy_save(in_folder("T.npy"), ES_F64, 3, cube, bad, true, &err));
    assert_int_equal(es_covariance_load(in_folder("T.npy"), 0, NULL, &c, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "spectrum.rank");
    assert_int_equal(es_covariance_load(in_folder("none.npy"), 0, NULL, &c, &err), ES_E_IO);
    es_covariance_free(&c);
}

TEST_FILE(spectrum)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_multiply_to_the_covariance),
        cmocka_unit_test(eigenvalues_are_the_formulas),
        cmocka_unit_test(entries_are_the_formulas),
        cmocka_unit_test(rotations_are_addressed_and_uniform),
        cmocka_unit_test(spectra_that_are_none),
        cmocka_unit_test(memory_is_counted_and_returned),
        cmocka_unit_test(NU07_singular_is_met_with_reported_jitter),
        cmocka_unit_test(NU07_indefinite_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
