/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokens_refused.c : laws that are none, calls that make no sense, and what is said then. */
#include "token_laws.h"

static const es_address start = {.seed = 2026, .experiment = 9, .cell = 77, .token = 100};

#define assert_refused(call, status, name)                                                         \
    do {                                                                                           \
        assert_int_equal(call, status);                                                            \
        assert_string_equal(err.rule, name);                                                       \
    } while (0)

static void laws_that_are_none(void **state)
{
    (void)state;
    static const double zeros[DIM], nan_at_2[DIM] = {0, 0, NAN};
    static const double bad_weights[] = {1, -1, 1, 1}, huge_weights[] = {1e308, 1e308, 1e308, 1};
    static const es_law nested[] = {{.kind = ES_LAW_MIXTURE, .dim = DIM}};
    static const es_law narrow[] = {{.kind = ES_LAW_GAUSSIAN, .dim = DIM - 1, .size = 1}};
    static const es_law pool[] = {
        {.kind = ES_LAW_EMPIRICAL, .dim = DIM, .points = &points_of_laws}};
    static const es_law sick[] = {{.kind = ES_LAW_CUBE, .dim = DIM, .size = -1}};
    es_view empty = points_of_laws, nowhere = points_of_laws, wide = points_of_laws;
    empty.rows = 0;
    nowhere.data = NULL;
    wide.cols--;
#define VMF       .kind = ES_LAW_VMF, .dim = DIM, .size = 1
#define MIX       .kind = ES_LAW_MIXTURE, .dim = DIM
#define GAUSS     .kind = ES_LAW_GAUSSIAN, .dim = DIM
#define EMPIRICAL .kind = ES_LAW_EMPIRICAL, .dim = DIM
#define STUDENT   .kind = ES_LAW_STUDENT, .dim = DIM, .size = 1
    const struct {
        es_law law;
        es_status status;
        const char *rule;
    } cases[] = {
        {{.kind = 0, .dim = DIM, .size = 1}, ES_E_ARGUMENT, "law.kind"},
        {{.kind = 1000, .dim = DIM, .size = 1}, ES_E_ARGUMENT, "law.kind"},
        {{.kind = ES_LAW_GAUSSIAN, .dim = 0, .size = 1}, ES_E_SHAPE, "law.dim"},
        {{.kind = ES_LAW_GAUSSIAN, .dim = 4097, .size = 1}, ES_E_SHAPE, "law.dim"},
        {{GAUSS}, ES_E_RANGE, "law.size"},
        {{GAUSS, .size = -1}, ES_E_RANGE, "law.size"},
        {{GAUSS, .size = NAN}, ES_E_RANGE, "law.size"},
        {{GAUSS, .size = INFINITY}, ES_E_RANGE, "law.size"},
        {{GAUSS, .size = 1, .mean = nan_at_2}, ES_E_NONFINITE, "view.finite"},
        {{STUDENT}, ES_E_RANGE, "law.freedom"},
        {{STUDENT, .freedom = -3}, ES_E_RANGE, "law.freedom"},
        {{STUDENT, .freedom = INFINITY}, ES_E_RANGE, "law.freedom"},
        {{STUDENT, .freedom = 0.1}, ES_E_RANGE, "tokens.freedom"},
        {{STUDENT, .freedom = 1e10}, ES_E_RANGE, "tokens.freedom"},
        {{VMF, .direction = zeros}, ES_E_RANGE, "law.direction"},
        {{VMF}, ES_E_ARGUMENT, "law.direction"},
        {{VMF, .direction = nan_at_2}, ES_E_NONFINITE, "view.finite"},
        {{VMF, .direction = mean_of_laws, .concentration = -1}, ES_E_RANGE, "law.concentration"},
        {{VMF, .direction = mean_of_laws, .concentration = NAN}, ES_E_RANGE, "law.concentration"},
        {{VMF, .direction = mean_of_laws, .concentration = 1e16},
         ES_E_RANGE,
         "tokens.concentration"},
        {{MIX}, ES_E_EMPTY, "law.parts"},
        {{MIX, .n_parts = 4, .parts = parts_of_laws}, ES_E_ARGUMENT, "law.parts"},
        {{MIX, .n_parts = 4, .weights = bad_weights}, ES_E_ARGUMENT, "law.parts"},
        {{MIX, .n_parts = 4, .parts = parts_of_laws, .weights = bad_weights},
         ES_E_RANGE,
         "law.weight"},
        {{MIX, .n_parts = 4, .parts = parts_of_laws, .weights = huge_weights},
         ES_E_RANGE,
         "law.weight"},
        {{MIX, .n_parts = 1, .parts = nested, .weights = weights_of_laws},
         ES_E_ARGUMENT,
         "law.part"},
        {{MIX, .n_parts = 1, .parts = pool, .weights = weights_of_laws}, ES_E_ARGUMENT, "law.part"},
        {{MIX, .n_parts = 1, .parts = narrow, .weights = weights_of_laws}, ES_E_SHAPE, "law.part"},
        {{MIX, .n_parts = 1, .parts = sick, .weights = weights_of_laws}, ES_E_RANGE, "law.size"},
        {{EMPIRICAL}, ES_E_ARGUMENT, "view.data"},
        {{EMPIRICAL, .points = &nowhere}, ES_E_ARGUMENT, "view.data"},
        {{EMPIRICAL, .points = &empty}, ES_E_EMPTY, "law.points"},
        {{EMPIRICAL, .points = &wide}, ES_E_SHAPE, "law.points"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double x[DIM] = {42};
        assert_refused(es_tokens_rows(&cases[i].law, &start, 1, x, &err), cases[i].status,
                       cases[i].rule);
        assert_equals(x[0], 42);
    }
    const es_law nan_mean = {GAUSS, .size = 1, .mean = nan_at_2};
    assert_int_equal(es_law_check(&nan_mean, &err), ES_E_NONFINITE);
    assert_int_equal(err.col, 2);
    assert_int_equal(es_law_check(&nan_mean, NULL), ES_E_NONFINITE);
    for (const es_law *law = all_laws; law < all_laws + ALL_LAWS; law++)
        assert_ok(es_law_check(law, &err));
}

static void a_bad_number_anywhere_is_found(void **state)
{
    (void)state;
    double factor[DIM * DIM];
    const es_law law = {GAUSS, .size = 1, .factor = factor};
    memcpy(factor, full_factor, sizeof factor);
    factor[3 * DIM + 4] = INFINITY;
    assert_refused(es_law_check(&law, &err), ES_E_NONFINITE, "view.finite");
    assert_int_equal(err.row, 3);
    assert_int_equal(err.col, 4);
    numbers_of_points[4321 * DIM + 1] = NAN;
    assert_refused(es_law_check(&all_laws[15], &err), ES_E_NONFINITE, "view.finite");
    assert_int_equal(err.row, 4321);
    make_points(NULL);
}

static void directions_of_any_length(void **state)
{
    (void)state;
    /* The same direction, so short or long that its square is not a number. */
    static const double lengths[] = {1.0, 0x1p-1000, 0x1p1020};
    double x[3][DIM], direction[DIM];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < DIM; j++)
            direction[j] = direction_of_laws[j] * lengths[i];
        const es_law law = {VMF, .concentration = 5, .direction = direction};
        assert_ok(es_tokens_rows(&law, &start, 1, x[i], &err));
        assert_memory_equal(x[i], x[0], sizeof x[0]);
    }
}

static void calls_that_make_no_sense(void **state)
{
    (void)state;
    const es_law *law = &all_laws[0], *shuffled = &all_laws[16];
    double x[DIM] = {42};
    es_address far = start;
    assert_refused(es_tokens_rows(law, &start, -1, x, &err), ES_E_SHAPE, "tokens.count");
    assert_refused(es_tokens_fill(law, &start, INT64_MAX, NULL, x, &err), ES_E_SHAPE,
                   "tokens.count");
    far.token = (UINT64_C(1) << 40) - 1;
    assert_refused(es_tokens_rows(law, &far, 2, x, &err), ES_E_RANGE, "random.address");
    far = start;
    far.lane = (1 << 24) - ES_TOKENS_LANES + 1;
    assert_refused(es_tokens_rows(law, &far, 1, x, &err), ES_E_RANGE, "random.address");
    far.lane = (1 << 24) - ES_TOKENS_LANES;
    assert_equals(x[0], 42);
    assert_ok(es_tokens_rows(law, &far, 1, x, &err));

    x[0] = 42;
    far = start;
    far.token = POINTS - 1;
    assert_refused(es_tokens_rows(shuffled, &far, 2, x, &err), ES_E_RANGE, "tokens.points");
    assert_refused(es_tokens_fill(shuffled, &far, 2000, NULL, x, &err), ES_E_RANGE,
                   "tokens.points");
    far.token = POINTS;
    assert_refused(es_tokens_rows(shuffled, &far, 1, x, &err), ES_E_RANGE, "tokens.points");
    assert_ok(es_tokens_rows(shuffled, &far, 0, x, &err));
    assert_equals(x[0], 42);
    far.token = POINTS - 1;
    assert_ok(es_tokens_rows(shuffled, &far, 1, x, &err));
}

static void names_go_both_ways(void **state)
{
    (void)state;
    for (int k = 1; es_law_uses((es_law_kind)k); k++) {
        es_law_kind kind = 0;
        assert_true(es_law_parse(es_law_name((es_law_kind)k), &kind));
        assert_int_equal(kind, k);
    }
    es_law_kind kind = 0;
    assert_false(es_law_parse("cauchy", &kind) || es_law_parse("", &kind));
    assert_false(es_law_parse(NULL, &kind));
    assert_string_equal(es_law_name(0), "?");
    assert_string_equal(es_law_name(1000), "?");
}

TEST_FILE(tokens_refused)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(laws_that_are_none),
        cmocka_unit_test(a_bad_number_anywhere_is_found),
        cmocka_unit_test(directions_of_any_length),
        cmocka_unit_test(calls_that_make_no_sense),
        cmocka_unit_test(names_go_both_ways),
    };
    return cmocka_run_group_tests(tests, make_points, NULL);
}
