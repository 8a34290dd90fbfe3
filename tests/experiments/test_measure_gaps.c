/* SPDX-License-Identifier: Apache-2.0 */
/* test_measure_gaps.c : critical score scales of `measure`, against a count over all gaps of every
 * row. */
#include "planted.h"

enum { HEADS = 2, QUERIES = 24, KEYS = 300, DIM = 8 };

/* Returns L_8 of scores (n): the largest ln N(g)/g over gaps g with N(g) >= 8 keys. Its N(g) goes
 * to *most if that is not NULL. */
static double critical_with(const double *scores, int64_t n, double *most)
{
    double best = -INFINITY, sup = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        best = fmax(best, scores[j]);
    for (int64_t j = 0; j < n; j++) {
        double count = 0.0;
        for (int64_t i = 0; i < n; i++)
            count += scores[i] >= scores[j];
        if (count < 8.0 || log(count) / (best - scores[j]) < sup)
            continue;
        sup = log(count) / (best - scores[j]);
        if (most)
            *most = count;
    }
    return sup;
}

static double critical_of(const double *scores, int64_t n)
{
    return critical_with(scores, n, NULL);
}

/* Returns the median of an even number of values. */
static double median_of(double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = i; j > 0 && x[j] < x[j - 1]; j--) {
            const double less = x[j];
            x[j] = x[j - 1];
            x[j - 1] = less;
        }
    return 0.5 * (x[count / 2 - 1] + x[count / 2]);
}

/* The largest weight of scores (n) is between its bounds. */
static void bounds_hold(const double *scores, int64_t n, double least, double most)
{
    double best = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < n; j++)
        best = fmax(best, scores[j]);
    for (int64_t j = 0; j < n; j++)
        sum += exp(scores[j] - best);
    assert_at_least(1.0 / sum, least);
    assert_at_most(1.0 / sum, most);
}

/* Compares the row of a head with counts over its queries; causal: query i stands at key
 * KEYS - QUERIES + i. Scores are sums of 8 products in f64, in another order: 1e-13. */
static void check_head(const problem *p, int64_t head, bool causal, double scale, const es_table *t)
{
    double all[QUERIES], others[QUERIES], least[QUERIES], most[QUERIES], growth = 0.0, keys = 0.0;
    for (int64_t i = 0; i < QUERIES; i++) {
        const int64_t n = causal ? KEYS - QUERIES + i + 1 : KEYS, some = n / 16;
        double scores[KEYS], group = 0.0;
        for (int64_t j = 0; j < n; j++) {
            scores[j] = 0.0;
            for (int64_t c = 0; c < DIM; c++)
                scores[j] += scale * p->q[(head * QUERIES + i) * DIM + c] * p->k[j * DIM + c];
        }
        all[i] = critical_with(scores, n, &group);
        least[i] = all[i] < 1.0 ? 1.0 / (8.0 + 1.0 / (1.0 - all[i])) : 0.0;
        most[i] = all[i] > 1.0 ? pow(group, 1.0 / all[i] - 1.0) : 1.0;
        bounds_hold(scores, n, least[i], most[i]);
        others[i] = critical_of(scores + 4, n - 4);
        growth += log(all[i] / critical_of(scores, some)) /
                  log(log((double)n) / log((double)some)) / QUERIES;
        keys += (double)n / QUERIES;
    }
    assert_equals(es_table_get(t, head, "queries"), QUERIES);
    assert_close(es_table_get(t, head, "keys"), keys, 1e-13);
    assert_close(es_table_get(t, head, "median"), median_of(all, QUERIES), 1e-13);
    assert_close(es_table_get(t, head, "without_sinks"), median_of(others, QUERIES), 1e-13);
    assert_near(es_table_get(t, head, "top_least"), median_of(least, QUERIES), 1e-13);
    assert_near(es_table_get(t, head, "top_most"), median_of(most, QUERIES), 1e-13);
    assert_near(es_table_get(t, head, "growth"), growth, 1e-12);
}

static void critical_scales_are_those_of_a_count(void **state)
{
    (void)state;
    problem p = make(HEADS, 1, QUERIES, KEYS, DIM, DIM, AS_F64);
    for (int i = 0; i < 4; i++) { /* L_8 above 1 and below it; all keys and causal */
        const bool causal = i % 2;
        const char *const scales[] = {"0.7", "3"};
        const char *const more[] = {"scale", scales[i / 2], causal ? "causal" : NULL, NULL, NULL};
        es_answer *a = ask_of(&p, NULL, more);
        for (int64_t head = 0; head < HEADS; head++) {
            const es_table *t = es_answer_find(a, "gaps");
            check_head(&p, head, causal, i / 2 ? 3.0 : 0.7, t);
            assert_int_equal(es_table_get(t, head, i / 2 ? "top_least" : "top_most") > 0.0 &&
                                 es_table_get(t, head, i / 2 ? "top_least" : "top_most") < 1.0,
                             1);
        }
        es_answer_free(a);
    }
    drop(&p);
}

/* A sixteenth of 100 keys is less than a group of 8: no growth was measured, which 0 would claim.
 */
static void few_keys_have_no_growth(void **state)
{
    enum { FEW = 100 };
    (void)state;
    problem p = make(1, 1, QUERIES, FEW, DIM, DIM, AS_F64);
    es_answer *a = ask_of(&p, NULL, (const char *[]){"scale", "0.7", NULL});
    const es_table *t = es_answer_find(a, "gaps");
    assert_true(isfinite(es_table_get(t, 0, "median")));
    assert_true(isnan(es_table_get(t, 0, "growth")));
    assert_true(isnan(es_table_get(t, 0, "growth_se")));
    assert_true(isnan(es_table_get(t, 0, "normal_growth")));
    es_answer_free(a);
    drop(&p);
}

/* A window sees no more keys, however many there are. */
static void a_window_has_no_critical_scale(void **state)
{
    (void)state;
    problem p = make(1, 1, QUERIES, KEYS, DIM, DIM, AS_F64);
    es_answer *a = ask_of(&p, NULL, (const char *[]){"window", "64", NULL});
    assert_null(es_answer_find(a, "gaps"));
    es_answer_free(a);
    drop(&p);
}

TEST_FILE(measure_gaps)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(critical_scales_are_those_of_a_count, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(few_keys_have_no_growth, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_window_has_no_critical_scale, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
