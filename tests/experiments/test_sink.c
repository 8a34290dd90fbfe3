/* SPDX-License-Identifier: Apache-2.0 */
/* test_sink.c : the study `sink` against integrals written out here, and against its own draws. */
#include "testing.h"

#include <math.h>

#include <esscher/study.h>

static es_answer *run(const char *n, const char *spread, const char *offset, const char *replicates)
{
    const es_study *study = es_study_find("sink");
    es_params *p;
    es_answer *a;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    assert_ok(es_params_set(p, "n", n, &err));
    assert_ok(es_params_set(p, "spread", spread, &err));
    assert_ok(es_params_set(p, "offset", offset, &err));
    assert_ok(es_params_set(p, "replicates", replicates, &err));
    assert_ok(es_study_run(study, p, &(es_study_opts){.seed = 3}, &a, &err));
    es_params_free(p);
    return a;
}

/* E e^s/(e^s + e^{q g} [+ e^{q h}]) for one or two keys, by the plain definition on a fine grid. */
static double direct(int keys, double q, double s)
{
    const double step = 0.01;
    double sum = 0.0;
    for (double g = -9.0; g < 9.0; g += step)
        for (double h = keys > 1 ? -9.0 : 0.0; h<(keys > 1 ? 9.0 : 0.5); h += keys> 1 ? step : 1)
            sum += exp(-0.5 * (g * g + (keys > 1 ? h * h : 0.0))) /
                   (1.0 + exp(q * g - s) + (keys > 1 ? exp(q * h - s) : 0.0));
    return sum * (keys > 1 ? step * step / (6.283185307179586) : step / sqrt(6.283185307179586));
}

/* E (g e^{q g} [+ h e^{q h}])/(e^s + e^{q g} [+ e^{q h}])/q, likewise. */
static double direct_output(int keys, double q, double s)
{
    const double step = 0.01, second = keys > 1 ? 1.0 : 0.0;
    double sum = 0.0;
    for (double g = -9.0; g < 9.0; g += step)
        for (double h = keys > 1 ? -9.0 : 8.995; h < 9.0; h += step)
            sum += exp(-0.5 * (g * g + second * h * h)) *
                   (g * exp(q * g) + second * h * exp(q * h)) /
                   (exp(s) + exp(q * g) + second * exp(q * h));
    return sum / q *
           (keys > 1 ? step * step / (6.283185307179586) : step / sqrt(6.283185307179586));
}

static void exact_values_are_the_definition(void **state)
{
    (void)state;
    es_answer *a = run("1,2", "0.5,3", "-1.5,2", "2");
    const es_table *t = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(t), 8);
    for (int64_t i = 0; i < 8; i++) /* both rules are trapezoids of smooth functions: 1e-9 */
        assert_close(es_table_get(t, i, "weight_exact"),
                     direct((int)es_table_get(t, i, "n"), es_table_get(t, i, "spread"),
                            es_table_get(t, i, "score")),
                     1e-9);
    for (int64_t i = 0; i < 8; i++)
        assert_close(es_table_get(t, i, "output_exact"),
                     direct_output((int)es_table_get(t, i, "n"), es_table_get(t, i, "spread"),
                                   es_table_get(t, i, "score")),
                     1e-8);
    es_answer_free(a);
    a = run("1000", "0", "-2,0,3", "2"); /* scores all alike: nothing is random */
    t = es_answer_find(a, "rows");
    for (int64_t i = 0; i < 3; i++) {
        assert_close(es_table_get(t, i, "weight_exact"), es_table_get(t, i, "weight_leading"),
                     1e-9);
        assert_close(es_table_get(t, i, "weight"), es_table_get(t, i, "weight_leading"), 1e-12);
        assert_true(isnan(es_table_get(t, i, "output"))); /* its limit is 0 */
    }
    es_answer_free(a);
}

/* 18 weights, of which those of one (n, q) share their keys: 6 independent comparisons, each within
 * 4 standard errors but once in 2600 seeds; as many outputs of the same keys. */
static void draws_agree_with_expectation(void **state)
{
    (void)state;
    es_answer *a = run("30,3000", "0.5,2,4", "-4,-1,1", "2000");
    const es_table *t = es_answer_find(a, "rows");
    for (int64_t i = 0; i < es_table_rows(t); i++)
        assert_below(fabs(es_table_get(t, i, "z")), 4.0);
    for (int64_t i = 0; i < es_table_rows(t); i++)
        assert_near(es_table_get(t, i, "output"), es_table_get(t, i, "output_exact"),
                    4.0 * es_table_get(t, i, "output_se"));
    assert_non_null(es_answer_find(a, "rows"));
    es_answer_free(a);
}

TEST_FILE(sink)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_values_are_the_definition),
        cmocka_unit_test(draws_agree_with_expectation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
