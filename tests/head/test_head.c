/* SPDX-License-Identifier: Apache-2.0 */
/* Heads: checks, matrices written out, heads drawn from a seed, scaled copies. */
#include "testing.h"

#include "head/head.h"
#include "random/experiment.h"

enum { D = 4 };

/* Entries N(0, 1/d) at the cells of Wq, Wk, Wv: as es_normal_rows() has them, over sqrt(d). */
static void test_random(void **state)
{
    (void)state;
    const es_address at = {.seed = 5, .experiment = ES_EXPERIMENT_HEAD, .cell = 7};
    es_head_data h;
    assert_ok(es_head_draw(ES_HEAD_RANDOM, &at, D, NULL, &h, &err));
    const es_view *const views[] = {h.head.Wq, h.head.Wk, h.head.V};
    assert_null(h.head.A);
    for (int i = 0; i < 3; i++) {
        es_address here = at;
        double want[D * D];
        here.cell += (uint64_t)i;
        assert_ok(es_normal_rows(&here, D, D, want, &err));
        for (int64_t j = 0; j < D * D; j++)
            assert_equals(es_view_get(views[i], j / D, j % D), want[j] / 2.0);
    }
    assert_int_equal(es_head_key_dim(&h.head, D), D);
    assert_int_equal(es_head_channels(&h.head, D), D);
    assert_equals(es_head_unit(&h.head), 0.5);
    es_head_data_free(&h);
    es_head_data_free(&h);
}

static void test_rotation_and_identity(void **state)
{
    (void)state;
    const es_address at = {.seed = 5, .experiment = ES_EXPERIMENT_HEAD, .cell = 3};
    es_head_data h;
    assert_ok(es_head_draw(ES_HEAD_ROTATION, &at, D, NULL, &h, &err));
    const double *A = h.numbers[ES_HEAD_A];
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) {
            double dot = 0.0;
            for (int k = 0; k < D; k++)
                dot += A[i * D + k] * A[j * D + k];
            assert_near(dot, (i == j), 1e-14);
        }
    assert_null(h.head.V);
    es_head_data_free(&h);
    assert_ok(es_head_draw(ES_HEAD_IDENTITY, &at, D, NULL, &h, &err));
    for (int i = 0; i < D * D; i++)
        assert_equals(h.numbers[ES_HEAD_A][i], (i % (D + 1) == 0));
    assert_equals(es_head_unit(&h.head), 1.0);
    es_head_data_free(&h);
    assert_string_equal(es_head_kind_name(ES_HEAD_ROTATION), "rotation");
    assert_string_equal(es_head_kind_name((es_head_kind)9), "?");
}

/* A of the scaled head is the scaled A, whichever matrix took the factor; the rest is shared. */
static void test_scaled(void **state)
{
    (void)state;
    const es_address at = {.seed = 1, .experiment = ES_EXPERIMENT_HEAD};
    es_head_data h, twice;
    double A[D * D], B[D * D];
    assert_ok(es_head_draw(ES_HEAD_RANDOM, &at, D, NULL, &h, &err));
    assert_ok(es_head_write(&h.head, D, A, NULL, &err));
    static const es_head_matrix places[] = {ES_HEAD_WQ, ES_HEAD_WK};
    for (int p = 0; p < 2; p++) {
        assert_ok(es_head_scaled(&h.head, places[p], 8.0, 4.0, NULL, &twice, &err));
        assert_ok(es_head_write(&twice.head, D, B, NULL, &err));
        for (int i = 0; i < D * D; i++)
            assert_equals(B[i], 2.0 * A[i]); /* powers of two: exact */
        assert_ptr_equal(twice.head.V, h.head.V);
        assert_ptr_equal(places[p] == ES_HEAD_WQ ? twice.head.Wk : twice.head.Wq,
                         places[p] == ES_HEAD_WQ ? h.head.Wk : h.head.Wq);
        es_head_data_free(&twice);
    }
    const es_view a = es_view_f64(A, D, D);
    assert_ok(es_head_scaled(&(es_head){.A = &a}, ES_HEAD_WQ, 3.0, 1.0, NULL, &twice, &err));
    assert_equals(es_view_get(twice.head.A, 1, 2), 3.0 * A[D + 2]);
    es_head_data_free(&twice);
    es_head_data_free(&h);
}

static void test_refused(void **state)
{
    (void)state;
    double x[8] = {0};
    const es_view a = es_view_f64(x, 2, 2), w = es_view_f64(x, 4, 2), none = es_view_f64(x, 0, 2);
    const es_head both = {.A = &a, .Wq = &w, .Wk = &w}, half = {.Wk = &w}, wide = {.A = &w};
    const es_head empty = {.Wq = &none, .Wk = &none}, uneven = {.Wq = &a, .Wk = &w};
    assert_int_equal(es_head_check(NULL, 2, &err), ES_E_ARGUMENT);
    assert_int_equal(es_head_check(&both, 2, &err), ES_E_ARGUMENT);
    assert_int_equal(es_head_check(&half, 2, &err), ES_E_ARGUMENT);
    assert_int_equal(es_head_check(&wide, 2, &err), ES_E_SHAPE);
    assert_int_equal(es_head_check(&uneven, 2, &err), ES_E_SHAPE);
    assert_int_equal(es_head_check(&empty, 2, &err), ES_E_EMPTY);
    x[3] = NAN;
    assert_int_equal(es_head_check(&(es_head){.A = &a}, 2, &err), ES_E_NONFINITE);
    const es_address at = {.seed = 1};
    es_head_data h;
    assert_int_equal(es_head_draw((es_head_kind)3, &at, 2, NULL, &h, &err), ES_E_ARGUMENT);
    assert_int_equal(es_head_draw(ES_HEAD_RANDOM, &at, 4097, NULL, &h, &err), ES_E_SHAPE);
    es_mem_limit budget = {.limit = 100};
    assert_int_equal(es_head_draw(ES_HEAD_RANDOM, &at, 8, &budget, &h, &err), ES_E_LIMIT);
    es_head_data_free(&h);
    assert_int_equal(budget.used, 0);
}

TEST_FILE(head)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_rotation_and_identity),
        cmocka_unit_test(test_scaled), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
