/* SPDX-License-Identifier: Apache-2.0 */
/* test_attend_edges.c : attention where things go wrong or nearly so: the NU cases. */
#include "testing.h"

#include <esscher/attend.h>
#include <float.h>

#include "numbers.h"

typedef struct small {
    double output[3], lse, entropy, top_weight, sum_squares;
    int64_t top_index;
} small;

static es_status attend_small(const double *q, const double *k, const double *v, int64_t n,
                              int64_t d, int64_t dv, double scale, es_dtype precision, small *r)
{
    const es_view vq = es_view_f64(q, 1, d), vk = es_view_f64(k, n, d), vv = es_view_f64(v, n, dv);
    const es_exec exec = {.threads = 1};
    const es_attend_opts opts = {
        .precision = precision, .scales = &scale, .n_scales = 1, .exec = &exec};
    const es_attend_out out = {.output = r->output,
                               .lse = &r->lse,
                               .entropy = &r->entropy,
                               .top_weight = &r->top_weight,
                               .sum_squares = &r->sum_squares,
                               .top_index = &r->top_index};
    return es_attend(&vq, &vk, &vv, &opts, &out, &err);
}

static void NU01_zero_scale_is_the_exact_mean(void **state)
{
    (void)state;
    const double q[1] = {3}, k[4] = {1, -2, 5, 100}, v[4] = {1, 2, 3, 10};
    for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
        small r;
        assert_ok(attend_small(q, k, v, 4, 1, 1, 0.0, precision, &r));
        assert_equals(r.output[0], 4.0); /* exact: weights are powers of two */
        assert_equals(r.lse, 2.0 * 0.69314718055994530942);
        assert_equals(r.entropy, 2.0 * 0.69314718055994530942);
        assert_equals(r.top_weight, 0.25);
        assert_equals(r.sum_squares, 0.25);
    }
}

static void NU02_extreme_scores_stay_finite(void **state)
{
    (void)state;
    small r;
    const double one[1] = {1}, v[3] = {-7, 11, 5};
    /* one score of 1e308 */
    const double huge[3] = {0, 1e308, -1e308};
    assert_ok(attend_small(one, huge, v, 3, 1, 1, 1.0, ES_F64, &r));
    assert_equals(r.output[0], 11.0);
    assert_equals(r.top_weight, 1.0);
    assert_equals(r.entropy, 0.0);
    assert_equals(r.top_index, 1);
    assert_close(r.lse, 1e308, 1e-15);
    /* spread of +-1e6, in both precisions */
    const double spread[3] = {-1e6, 1e6, 0};
    for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
        assert_ok(attend_small(one, spread, v, 3, 1, 1, 1.0, precision, &r));
        assert_equals(r.output[0], 11.0);
        assert_equals(r.sum_squares, 1.0);
        assert_close(r.lse, 1e6, 1e-7);
    }
    /* infinite temperature's opposite: beta = 1e8 separates scores 1 and 1 - 1e-6 */
    const double near[3] = {1.0 - 1e-6, 1.0, 0.5};
    assert_ok(attend_small(one, near, v, 3, 1, 1, 1e8, ES_F64, &r));
    assert_equals(r.output[0], 11.0);
    assert_at_least(r.entropy, 0.0);
    assert_below(r.entropy, 1e-30);
    /* all scores equal */
    const double equal[3] = {0.7, 0.7, 0.7};
    for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
        assert_ok(attend_small(one, equal, v, 3, 1, 1, 5.0, precision, &r));
        const double eps = precision == ES_F32 ? 0x1p-24 : 0x1p-53;
        assert_near(r.output[0], 3.0, 16 * eps);
        assert_near(r.entropy, log(3.0), 64 * eps);
        assert_near(r.sum_squares, 1.0 / 3.0, 8 * eps);
        assert_int_equal(r.top_index, 0);
    }
}

static void NU02_scores_that_climb_move_the_offset(void **state)
{
    (void)state;
    /* Every tile beats the one before by far more than the slack: offsets move at every tile, in
     * both directions of the sweep, and the answer is that of the reference. */
    enum { N = 1000 };
    double k[N], v[N];
    for (int up = 0; up <= 1; up++) {
        for (int i = 0; i < N; i++) {
            k[i] = (up ? i : N - i) * 0.25;
            v[i] = sin(i);
        }
        const double q = 1.0, scale = 1.0;
        const es_view vq = es_view_f64(&q, 1, 1), vk = es_view_f64(k, N, 1),
                      vv = es_view_f64(v, N, 1);
        const es_attend_opts opts = {.precision = ES_F64, .scales = &scale, .n_scales = 1};
        double y, lse, h, ry, rlse, rh;
        const es_attend_out out = {.output = &y, .lse = &lse, .entropy = &h};
        const es_attend_out rout = {.output = &ry, .lse = &rlse, .entropy = &rh};
        assert_ok(es_attend(&vq, &vk, &vv, &opts, &out, &err));
        assert_ok(es_attend_reference(&vq, &vk, &vv, &opts, &rout, &err));
        assert_near(y, ry, 1e-14);
        assert_near(lse, rlse, 1e-14 * fabs(rlse));
        assert_near(h, rh, 1e-13);
    }
}

/* Several scales in one pass share scores; what each makes of them must be as sound as if it had
 * been alone. */
enum { MANY = 2500, SCALES = 4, TOPS = 3 };

typedef struct crowd {
    double output[SCALES * MANY], lse[SCALES * MANY], entropy[SCALES * MANY],
        top_weight[SCALES * MANY], sum_squares[SCALES * MANY], top_mass[SCALES * MANY * TOPS];
    int64_t top_index[SCALES * MANY];
} crowd;

static crowd met; /* too large for the stack */

/* Every statistic, and once more the output and lse alone, which other kernels make: same bits. */
static void attend_crowd(const es_view *q, const es_view *k, const es_view *v, const double *scales,
                         es_dtype precision, es_isa isa)
{
    static double plain[SCALES * MANY], plain_lse[SCALES * MANY];
    static const int64_t tops[TOPS] = {1, 2, 10};
    const es_exec exec = {.threads = 1, .isa = isa};
    es_attend_opts opts = {
        .precision = precision, .scales = scales, .n_scales = SCALES, .exec = &exec};
    const es_attend_out alone = {.output = plain, .lse = plain_lse};
    assert_ok(es_attend(q, k, v, &opts, &alone, &err));
    const es_attend_out all = {.output = met.output,
                               .lse = met.lse,
                               .entropy = met.entropy,
                               .top_weight = met.top_weight,
                               .sum_squares = met.sum_squares,
                               .top_index = met.top_index,
                               .top_mass = met.top_mass};
    opts.top_k = tops, opts.n_top_k = TOPS;
    assert_ok(es_attend(q, k, v, &opts, &all, &err));
    for (int64_t i = 0; i < SCALES * q->rows; i++) {
        assert_equals(plain[i], met.output[i]);
        assert_equals(plain_lse[i], met.lse[i]);
    }
}

static void NU02_several_extreme_scales_find_the_largest(void **state)
{
    (void)state;
    static const double f32_scales[][SCALES] = {
        {5e9, 2.3e10, 1.1e11, 5e11}, {7e37, 3.3e36, 1e30, 1e6}, {1e12, 1e12, 1e13, 1e14 / 3}};
    static const double f64_scales[][SCALES] = {
        {5e9, 2.3e10, 1.1e11, 5e11}, {7e37, 3.3e36, 1e30, 1e6}, {1e20, 7e306, 1e300 / 3, 1e25}};
    static double k[MANY], v[MANY];
    for (int i = 0; i < MANY; i++) { /* 7 and MANY share no factor: each value once, but... */
        k[i] = (double)(7 * i % MANY) / MANY;
        v[i] = i % 2 ? 1.0 : -3.0;
    }
    k[1000] = k[2001] = 1.0; /* ... for the two on top, whose mean value is -1 */
    const double q[2] = {1.0, 0.75};
    const es_view vq = es_view_f64(q, 2, 1), vk = es_view_f64(k, MANY, 1),
                  vv = es_view_f64(v, MANY, 1);
    for (es_isa isa = ES_ISA_PORTABLE; isa <= ES_ISA_NEON; isa++)
        for (es_dtype precision = ES_F32; precision <= ES_F64 && es_isa_available(isa); precision++)
            for (int set = 0; set < 3; set++) {
                const double *scales = precision == ES_F32 ? f32_scales[set] : f64_scales[set];
                const double eps = precision == ES_F32 ? 0x1p-24 : 0x1p-53;
                attend_crowd(&vq, &vk, &vv, scales, precision, isa);
                for (int i = 0; i < SCALES * 2; i++) {
                    const double *mass = met.top_mass + i * TOPS;
                    assert_int_equal(met.top_index[i], 1000);
                    assert_near(met.output[i], -1.0, 4 * eps);
                    assert_near(met.entropy[i], log(2.0), 64 * eps); /* x up to the slack of 16 */
                    assert_near(met.top_weight[i], 0.5, 2 * eps);
                    assert_near(met.sum_squares[i], 0.5, 4 * eps);
                    assert_near(mass[0], 0.5, 4 * eps); /* the kernel's 2^x against libm's */
                    assert_near(mass[1], 1.0, 4 * eps);
                    assert_near(mass[2], 1.0, 4 * eps);
                    /* roundings: packed query, product, scale, its product, offset */
                    assert_close(met.lse[i], scales[i / 2] * q[i % 2] + log(2.0), 8 * eps);
                }
            }
}

static void NU02_several_extreme_scales_on_the_sphere(void **state)
{
    (void)state;
    /* Here scores may lie closer than the precision tells apart, and who wins is open; what holds
     * whoever wins is not: weights sum to 1, sums of the largest grow, lse is the largest score up
     * to rounding and log n. */
    enum { QUERIES = 100, D = 3 };
    static const double scales[2][SCALES] = {{5e9, 2.3e10, 1.1e11, 5e11},
                                             {5e17, 2.3e20, 1.1e29, 5e200}};
    state_of_rng = 20261;
    double *x = normals(MANY * D), one[MANY];
    for (int i = 0; i < MANY; i++) {
        double *at = x + D * i;
        const double norm = sqrt(at[0] * at[0] + at[1] * at[1] + at[2] * at[2]);
        for (int j = 0; j < D; j++)
            at[j] /= norm;
        one[i] = 1.0;
    }
    const es_view q = es_view_f64(x, QUERIES, D), k = es_view_f64(x, MANY, D),
                  v = es_view_f64(one, MANY, 1);
    for (es_isa isa = ES_ISA_PORTABLE; isa <= ES_ISA_NEON; isa++)
        for (es_dtype precision = ES_F32; precision <= ES_F64 && es_isa_available(isa); precision++)
            for (int set = 0; set < (precision == ES_F32 ? 1 : 2); set++) {
                const double eps = precision == ES_F32 ? 0x1p-24 : 0x1p-53;
                attend_crowd(&q, &k, &v, scales[set], precision, isa);
                for (int i = 0; i < SCALES * QUERIES; i++) {
                    const double *mass = met.top_mass + i * TOPS, scale = scales[set][i / QUERIES];
                    assert_near(met.output[i], 1.0, MANY * eps);
                    assert_above(met.top_weight[i], 0.9 / MANY);
                    assert_at_most(met.top_weight[i], 1.0);
                    assert_above(met.sum_squares[i], 0.9 / MANY);
                    assert_at_most(met.sum_squares[i], 1.0);
                    assert_at_least(met.entropy[i], 0.0);
                    assert_at_most(met.entropy[i], log(MANY));
                    assert_near(mass[0], met.top_weight[i], 8 * eps);
                    assert_at_most(mass[0], mass[1]);
                    assert_at_most(mass[1], mass[2]);
                    assert_at_most(mass[2], 1.0);
                    /* the query itself is the nearest key: score = scale |q|^2 = scale */
                    assert_near(met.lse[i], scale, (8 + 2 * D) * eps * scale + log(MANY));
                }
            }
    free(x);
}

static void NU03_nonfinite_input_is_located(void **state)
{
    (void)state;
    small r;
    const double q[2] = {1, 2}, v[3] = {0, 0, 0};
    double k[6] = {0, 1, 2, 3, 4, NAN};
    assert_int_equal(attend_small(q, k, v, 3, 2, 1, 1.0, ES_F32, &r), ES_E_NONFINITE);
    assert_string_equal(err.message, "k[2, 1] is NaN");
    assert_int_equal(err.row, 2);
    assert_int_equal(err.col, 1);
    k[5] = 0;
    const double bad[3] = {0, -INFINITY, 0};
    assert_int_equal(attend_small(q, k, bad, 3, 2, 1, 1.0, ES_F32, &r), ES_E_NONFINITE);
    assert_string_equal(err.message, "v[1, 0] is -Inf");
}

static void NU04_no_key_left_is_an_error(void **state)
{
    (void)state;
    const double x[2] = {1, 2};
    double y[2];
    const es_view v1 = es_view_f64(x, 1, 1), v2 = es_view_f64(x, 2, 1);
    const int64_t prefixes[2] = {1, 2};
    es_attend_opts opts = {.self = true, .exclude_self = true};
    const es_attend_out out = {.output = y};
    assert_int_equal(es_attend(&v1, &v1, &v1, &opts, &out, &err), ES_E_EMPTY);
    opts.prefixes = prefixes, opts.n_prefixes = 2;
    assert_int_equal(es_attend(&v2, &v2, &v2, &opts, &out, &err), ES_E_EMPTY);
    opts.prefixes = NULL;
    assert_ok(es_attend(&v2, &v2, &v2, &opts, &out, &err));
    assert_equals(y[0], 2.0);
    assert_equals(y[1], 1.0); /* each sees only the other */
}

static void NU05_one_key_one_dimension(void **state)
{
    (void)state;
    const double q = 3, k = -4, v[3] = {1.5, -2.25, 1e30};
    for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
        small r;
        assert_ok(attend_small(&q, &k, v, 1, 1, 3, 0.7, precision, &r));
        for (int c = 0; c < 2; c++)
            assert_near(r.output[c], v[c], 0x1p-23 * fabs(v[c]));
        assert_equals(r.top_weight, 1.0);
        assert_at_most(r.sum_squares, 1.0);
        assert_at_least(r.entropy, 0.0);
        assert_below(r.entropy, 1e-6);
        assert_close(r.lse, -8.4, 1e-6);
        assert_int_equal(r.top_index, 0);
    }
}

static void NU05_more_than_2_31_keys(void **state)
{
    (void)state;
    not_in_quick_tests();
    /* 2^31 + 1 equal keys through a stride of zero: lse = ln n exactly as far as f64 goes, output =
     * the value. */
    const float zero = 0.0f, value = 2.5f;
    const int64_t n = (INT64_C(1) << 31) + 1;
    const es_view q = es_view_f32(&zero, 1, 1);
    es_view k = es_view_f32(&zero, n, 1), v = es_view_f32(&value, n, 1);
    k.row_stride = v.row_stride = 0;
    double y, lse, squares;
    const es_attend_out out = {.output = &y, .lse = &lse, .sum_squares = &squares};
    assert_ok(es_attend(&q, &k, &v, NULL, &out, &err));
    assert_equals(y, 2.5);
    assert_near(lse, log((double)n), 1e-15 * 22);
    assert_close(squares, 1.0 / (double)n, 1e-15);
}

static void NU06_duplicate_keys_share_the_weight(void **state)
{
    (void)state;
    const double q[2] = {1, 1}, k[8] = {2, 1, 2, 1, 0, 0, 0, 0}, v[4] = {1, 3, 0, 0};
    small r;
    assert_ok(attend_small(q, k, v, 4, 2, 1, 1.0, ES_F64, &r));
    const double e = exp(3.0);
    assert_close(r.output[0], 4.0 * e / (2.0 * e + 2.0), 1e-15);
    assert_close(r.top_weight, e / (2.0 * e + 2.0), 1e-15);
    assert_int_equal(r.top_index, 0);
}

static void overflow_is_refused_beforehand(void **state)
{
    (void)state;
    small r;
    const double big = 1e25, v = 1, huge_v = 1e35;
    assert_int_equal(attend_small(&big, &big, &v, 1, 1, 1, 1.0, ES_F32, &r), ES_E_RANGE);
    assert_string_equal(err.rule, "attend.range.score");
    assert_ok(attend_small(&big, &big, &v, 1, 1, 1, 1.0, ES_F64, &r));
    assert_int_equal(attend_small(&v, &v, &huge_v, 1, 1, 1, 1.0, ES_F32, &r), ES_E_RANGE);
    assert_string_equal(err.rule, "attend.range.value");
    assert_ok(attend_small(&v, &v, &huge_v, 1, 1, 1, 1.0, ES_F64, &r));
    assert_close(r.output[0], 1e35, 1e-15);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const double x[12] = {0};
    double y[12];
    const es_view v32 = es_view_f64(x, 3, 2), v42 = es_view_f64(x, 4, 2),
                  v33 = es_view_f64(x, 3, 3);
    const es_view none = es_view_f64(x, 0, 2), flat = es_view_f64(x, 3, 0);
    const es_attend_out out = {.output = y};
    es_attend_opts opts = {0};
    assert_int_equal(es_attend(&v32, &v33, &v32, NULL, &out, &err), ES_E_SHAPE);
    assert_int_equal(es_attend(&v32, &v32, &v42, NULL, &out, &err), ES_E_SHAPE);
    assert_int_equal(es_attend(&none, &v32, &v32, NULL, &out, &err), ES_E_EMPTY);
    assert_int_equal(es_attend(&v32, &none, &none, NULL, &out, &err), ES_E_EMPTY);
    assert_int_equal(es_attend(&flat, &flat, &v32, NULL, &out, &err), ES_E_SHAPE);
    assert_int_equal(es_attend(NULL, &v32, &v32, NULL, &out, &err), ES_E_ARGUMENT);
    opts.self = true;
    assert_int_equal(es_attend(&v42, &v32, &v32, &opts, &out, &err), ES_E_SHAPE);
    opts.self = false;
    const double scales[] = {-1.0, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        opts.scales = &scales[i], opts.n_scales = 1;
        assert_int_equal(es_attend(&v32, &v32, &v32, &opts, &out, &err), ES_E_ARGUMENT);
    }
    opts.scales = NULL;
    const int64_t prefixes[][2] = {{0, 3}, {2, 2}, {3, 1}, {1, 4}};
    for (int i = 0; i < 4; i++) {
        opts.prefixes = prefixes[i], opts.n_prefixes = 2;
        assert_int_equal(es_attend(&v32, &v32, &v32, &opts, &out, &err), ES_E_ARGUMENT);
    }
    opts.prefixes = NULL;
    const int64_t k = 0;
    opts.top_k = &k, opts.n_top_k = 1;
    assert_int_equal(es_attend(&v32, &v32, &v32, &opts, &out, &err), ES_E_ARGUMENT);
}

static void NU13_floating_point_environment_is_untouched(void **state)
{
    (void)state;
    /* Denormal scores and values, and weights far below the smallest float: FTZ/DAZ stay off, flags
     * aside. */
    small r;
    const double q = 1e-300, k[2] = {1e-10, 0}, v[2] = {4e-310, 4e-310};
    assert_ok(attend_small(&q, k, v, 2, 1, 1, 1.0, ES_F64, &r));
    assert_close(r.output[0], 4e-310, 1e-12);
    volatile double tiny = DBL_MIN;
    assert_above(tiny / 4.0, 0.0);
}

TEST_FILE(attend_edges)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(NU01_zero_scale_is_the_exact_mean),
        cmocka_unit_test(NU02_extreme_scores_stay_finite),
        cmocka_unit_test(NU02_scores_that_climb_move_the_offset),
        cmocka_unit_test(NU02_several_extreme_scales_find_the_largest),
        cmocka_unit_test(NU02_several_extreme_scales_on_the_sphere),
        cmocka_unit_test(NU03_nonfinite_input_is_located),
        cmocka_unit_test(NU04_no_key_left_is_an_error),
        cmocka_unit_test(NU05_one_key_one_dimension),
        optional_test(NU05_more_than_2_31_keys),
        cmocka_unit_test(NU06_duplicate_keys_share_the_weight),
        cmocka_unit_test(overflow_is_refused_beforehand),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(NU13_floating_point_environment_is_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
