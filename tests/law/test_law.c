/* SPDX-License-Identifier: Apache-2.0 */
/* test_law.c : does every row of src/law stand in its place and keep what its traits promise? */
#include "testing.h"

#include "law/law.h"
#include "law/law_row.h"

enum { D = 3 };

static const double direction[D] = {1.0, -2.0, 0.5}, weights[2] = {1.0, 2.0};
static double numbers[4 * D] = {1, 0, 0, 0, 1, 0, 0, 0, 1, -1, -1, -1};

/* A law of this kind that es_law_check() accepts. */
static es_law example(int kind)
{
    static es_view points;
    static es_law parts[2];
    points = es_view_f64(numbers, 4, D);
    parts[0] = (es_law){.kind = ES_LAW_GAUSSIAN, .dim = D, .size = 1.0};
    parts[1] = (es_law){.kind = ES_LAW_CUBE, .dim = D, .size = 2.0, .mean = direction};
    return (es_law){.kind = (es_law_kind)kind,
                    .dim = D,
                    .size = 0.5,
                    .freedom = 5.0,
                    .concentration = 2.0,
                    .direction = direction,
                    .parts = parts,
                    .weights = weights,
                    .n_parts = 2,
                    .points = &points};
}

static es_status tilt_at(const es_law *law, const double *t, es_tilt *out)
{
    static double grad[D], hess[D * D];
    *out = (es_tilt){.grad = grad, .hess = hess};
    return es_tilt_law(law, t, NULL, out, &err);
}

static void rows_stand_in_their_places(void **state)
{
    (void)state;
    int count = 0;
    for (int kind = 1; es_law_row_of((es_law_kind)kind); kind++, count++) {
        const es_law_row *row = es_law_row_of((es_law_kind)kind);
        const es_law law = example(kind);
        assert_int_equal(row->kind, kind);
        assert_true(row->name && row->title && row->rows && row->tilt && row->uses);
        assert_equals((row->traits & ES_LAW_BASE), !!(row->uses & ES_LAW_USES_SIZE));
        assert_ok(es_law_check(&law, &err));
    }
    assert_at_least(count, ES_LAW_EMPIRICAL);
    assert_null(es_law_row_of(0));
    assert_null(es_law_row_of((es_law_kind)-1));
}

/* K is finite at a large tilt exactly where the law says so; at an edge it ends. */
static void laws_that_are_entire(void **state)
{
    (void)state;
    const double far[D] = {50.0, -60.0, 70.0};
    for (int kind = 1; es_law_row_of((es_law_kind)kind); kind++) {
        const es_law_row *row = es_law_row_of((es_law_kind)kind);
        const es_law law = example(kind);
        es_tilt out;
        assert_int_equal(tilt_at(&law, far, &out),
                         row->traits & ES_LAW_ENTIRE ? ES_OK : ES_E_RANGE);
        if (row->edge > 0.0) {
            const double edge = row->edge / law.size, at[D] = {0.0, -edge, 0.0};
            const double inside[D] = {0.0, 0.999 * edge, 0.0};
            assert_int_equal(tilt_at(&law, at, &out), ES_E_RANGE);
            assert_ok(tilt_at(&law, inside, &out));
        }
    }
}

static void laws_that_no_rotation_changes(void **state)
{
    (void)state;
    const double c = 0.6, s = 0.8, t[D] = {0.3, -0.5, 0.2};
    const double turned[D] = {c * t[0] - s * t[1], s * t[0] + c * t[1], t[2]};
    for (int kind = 1; es_law_row_of((es_law_kind)kind); kind++) {
        const unsigned traits = es_law_traits((es_law_kind)kind);
        const es_law law = example(kind);
        es_tilt here, there;
        assert_true(!(traits & ES_LAW_SHADOW) || (traits & ES_LAW_ROUND));
        if (!(traits & ES_LAW_ENTIRE))
            continue;
        assert_ok(tilt_at(&law, t, &here));
        assert_ok(tilt_at(&law, turned, &there));
        assert_equals((fabs(here.K - there.K) < 1e-14), !!(traits & ES_LAW_ROUND));
    }
}

/* Independent coordinates: K adds up, the Hessian is diagonal. */
static void laws_with_independent_coordinates(void **state)
{
    (void)state;
    const double t[D] = {0.3, -0.5, 0.2};
    for (int kind = 1; es_law_row_of((es_law_kind)kind); kind++) {
        const es_law law = example(kind);
        double sum = 0.0;
        es_tilt out;
        if (!(es_law_traits((es_law_kind)kind) & ES_LAW_PRODUCT))
            continue;
        for (int i = 0; i < D; i++) {
            double one[D] = {0.0};
            one[i] = t[i];
            assert_ok(tilt_at(&law, one, &out));
            sum += out.K;
        }
        assert_ok(tilt_at(&law, t, &out));
        assert_near(out.K, sum, 1e-15);
        for (int i = 0; i < D * D; i++)
            assert_equals((out.hess[i] != 0.0), (i % (D + 1) == 0));
    }
}

TEST_FILE(law)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_stand_in_their_places),
                                       cmocka_unit_test(laws_that_are_entire),
                                       cmocka_unit_test(laws_that_no_rotation_changes),
                                       cmocka_unit_test(laws_with_independent_coordinates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
