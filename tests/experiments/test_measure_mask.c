/* SPDX-License-Identifier: Apache-2.0 */
/* test_measure_mask.c : measure --causal and --window, against NumPy's numbers (golden/mask.py),
 * and the verdicts of --compare where a mask was asked for. */
#include "golden.h"
#include "planted.h"

enum { MOST_WORDS = 16 };

/* ---- statistics ---- */

/* Names of parameters and their values, in pairs; flags have NULL. */
typedef struct words {
    const char *at[2 * MOST_WORDS];
    int count;
    char paths[3][4096], numbers[4][24];
    int n_numbers;
} words;

static void add(words *w, const char *name, const char *value)
{
    w->at[w->count++] = name;
    w->at[w->count++] = value;
}

static void add_count(words *w, const char *name, int64_t value)
{
    char *to = w->numbers[w->n_numbers++];
    snprintf(to, sizeof w->numbers[0], "%lld", (long long)value);
    if (value)
        add(w, name, to);
}

static es_status run_words(const words *w, es_answer **answer)
{
    const es_study *study = es_study_find("measure");
    es_params *params;
    assert_ok(es_params_new(study->params, study->size, &params, &err));
    for (int i = 0; i < w->count; i += 2)
        assert_ok(es_params_set(params, w->at[i], w->at[i + 1], &err));
    const es_status status = es_study_run(
        study, params, &(es_study_opts){.exec = {.threads = 2}, .precision = ES_F64}, answer, &err);
    es_params_free(params);
    return status;
}

/* The arrays of golden/sparse; `queries` is q, or k: every token asks. */
static words words_for(const char *queries)
{
    static const char *const names[] = {"q", "k", "v"};
    words w = {0};
    for (int i = 0; i < 3; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, "sparse/%s.npy", i ? names[i] : queries);
        snprintf(w.paths[i], sizeof w.paths[i], "%s", golden_path(rest));
    }
    return w;
}

static void add_paths(words *w)
{
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++)
        add(w, names[i], w->paths[i]);
}

/* Means over queries with their standard errors. f64 kernels are right to 1e-12 (attend.h), NumPy's
 * sums of 400 terms to about as much. */
static void check_case(const json_t *c)
{
    static const char *const means[] = {"entropy",     "perplexity", "ess",
                                        "sum_squares", "top_weight", "lse"};
    words w = words_for(json_string_value(json_object_get(c, "queries")));
    es_answer *a;
    add_paths(&w);
    if (json_is_true(json_object_get(c, "causal")))
        add(&w, "causal", NULL);
    if (json_is_true(json_object_get(c, "exclude_self")))
        add(&w, "exclude-self", NULL);
    add_count(&w, "window", (int64_t)golden_real(c, "window"));
    add_count(&w, "prefixes", (int64_t)golden_real(c, "prefix"));
    assert_ok(run_words(&w, &a));
    const es_table *rows = es_answer_find(a, "rows"), *mask = es_answer_find(a, "mask");
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        const json_t *want = json_object_get(c, means[i]);
        char se[32];
        snprintf(se, sizeof se, "%s_se", means[i]);
        assert_near(es_table_get(rows, 0, means[i]), json_number_value(json_array_get(want, 0)),
                    1e-11 * (1.0 + json_number_value(json_array_get(want, 0))));
        assert_near(es_table_get(rows, 0, se), json_number_value(json_array_get(want, 1)),
                    1e-10 * (1.0 + json_number_value(json_array_get(want, 1))));
    }
    assert_close(es_table_get(rows, 0, "output_mean_norm"), golden_real(c, "output_mean_norm"),
                 1e-11);
    assert_close(es_table_get(rows, 0, "output_cov_trace"), golden_real(c, "output_cov_trace"),
                 1e-11);
    assert_close(es_table_get(mask, 0, "seen"), golden_real(c, "seen"), 1e-12);
    /* the run's own check, by another code, of queries that stand where the mask says */
    assert_below(es_table_get(es_answer_find(a, "accuracy"), 0, "output_relative_l2"), 1e-12);
    es_answer_free(a);
}

static void statistics_are_those_of_numpy(void **state)
{
    (void)state;
    json_t *all = golden_file("mask.json");
    assert_at_least(json_array_size(all), 10);
    for (size_t i = 0; i < json_array_size(all); i++)
        check_case(json_array_get(all, i));
    json_decref(all);
}

/* ---- sentences ---- */

static void what_is_said_counts_the_keys_that_are_seen(void **state)
{
    (void)state;
    problem p = make(2, 1, 9, 9, 4, 4, AS_F32);
    memset(p.q, 0, sizeof *p.q * 2 * 9 * 4); /* equal weights: ESS is the number of keys seen */
    es_answer *a = ask_of(&p, NULL, (const char *[]){"causal", NULL, NULL});
    assert_non_null(strstr(es_answer_finding(a, 0),
                           "a query uses 5 of the 5 keys that it sees on average (ESS;"));
    assert_non_null(strstr(es_answer_finding(a, 1), "2 of 2 heads are averaging,"));
    es_answer_free(a);
    a = ask_of(&p, NULL, (const char *[]){"causal", NULL, "window", "3", NULL});
    assert_non_null(strstr(es_answer_finding(a, 0), " of the 2.667 keys"));
    assert_non_null(
        strstr(es_table_get_text(es_answer_find(a, "heads"), 0, "horizon_reason"), "a window"));
    es_answer_free(a);
    drop(&p);
}

/* Bars of a causal query are those of its own keys: with equal weights over n of them and values
 * that are independent, as those of n keys without a mask. */
static void error_bars_of_a_causal_query(void **state)
{
    (void)state;
    enum { N = 512, DIM = 4 };
    problem p = make(1, 1, N, N, DIM, DIM, AS_F64);
    es_answer *a = ask_of(&p, NULL, (const char *[]){"causal", NULL, "error-bar", "1", NULL});
    const double valid = es_table_get(es_answer_find(a, "error_bars"), 0, "error_bar_valid");
    assert_between(valid, 0.5, 1.0); /* the first queries see too few keys */
    assert_close(es_table_get(es_answer_find(a, "error_bars"), 0, "design_effect"), 1.0, 1e-6);
    es_answer_free(a);
    drop(&p);
}

/* ---- refusals ---- */

static void refuse_words(const words *w, const char *rule, const char *part)
{
    es_answer *a = NULL;
    assert_int_not_equal(run_words(w, &a), ES_OK);
    assert_string_equal(err.rule, rule);
    if (!strstr(err.message, part) && !strstr(err.hint, part))
        fail_msg("\"%s\" is not in \"%s\", \"%s\"", part, err.message, err.hint);
    es_answer_free(a);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    words bars = words_for("k"), more = words_for("k"), prefixes = words_for("q");
    words alone = words_for("k");
    add_paths(&bars);
    add(&bars, "window", "8");
    add(&bars, "error-bar", "16");
    refuse_words(&bars, "measure.options", "--error-bar");
    /* 400 queries, 20 keys */
    snprintf(more.paths[1], sizeof more.paths[1], "%s", golden_path("sparse/q.npy"));
    snprintf(more.paths[2], sizeof more.paths[2], "%s", golden_path("sparse/q.npy"));
    add_paths(&more);
    add(&more, "causal", NULL);
    refuse_words(&more, "measure.mask", "no more than keys");
    add_paths(&prefixes);
    add(&prefixes, "causal", NULL);
    add(&prefixes, "prefixes", "100,200");
    refuse_words(&prefixes, "measure.mask", "--prefixes");
    add_paths(&alone);
    add(&alone, "causal", NULL);
    add(&alone, "exclude-self", NULL); /* the first sees nothing */
    refuse_words(&alone, "mask.empty", "");
}

/* ---- verdicts ---- */

static void expect_verdict(const problem *p, const char *what, const char *const *more)
{
    es_answer *a = ask(p, more);
    if (strcmp(text(a, "looks_like"), what) != 0)
        fail_msg("\"%s\" is taken for \"%s\": %s", what, text(a, "looks_like"),
                 es_answer_finding(a, 0));
    assert_equals(number(a, "met"), (*what ? 0.0 : 1.0));
    es_answer_free(a);
}

static void a_mask_that_was_asked_for_is_met(void **state)
{
    (void)state;
    const double b = 0.25;
    for (int64_t m = 30; m <= 50; m += 20) { /* 50 keys */
        problem p = make(4, 2, m, 50, 16, 12, AS_F32);
        plant(&p, &(planted){.scale = b, .causal = 2}, AS_F32);
        expect_verdict(&p, "", (const char *[]){"causal", NULL, NULL});
        plant(&p, &(planted){.scale = b, .window = 9}, AS_F32);
        expect_verdict(&p, "", (const char *[]){"causal", NULL, "window", "9", NULL});
        plant(&p, &(planted){.scale = b, .band = 6}, AS_F32);
        expect_verdict(&p, "", (const char *[]){"window", "6", NULL});
        drop(&p);
    }
}

static void mistakes_under_a_mask_are_recognised(void **state)
{
    (void)state;
    const double b = 0.25;
    const char *const causal[] = {"causal", NULL, NULL};
    const char *const window[] = {"causal", NULL, "window", "9", NULL};
    const struct {
        const char *name;
        planted change;
        const char *const *asked;
    } all[] = {{"unmasked", {.scale = b}, causal},
               {"unmasked", {.scale = b}, window},
               {"causal", {.scale = b, .causal = 1}, causal}, /* the first query at the first key */
               {"causal-end", {.scale = b, .causal = 2}, window},
               {"window", {.scale = b, .window = 8}, window},
               {"window", {.scale = b, .window = 9}, causal},
               {"scale-none", {.scale = 1.0, .causal = 2}, causal},
               {"scale-none", {.scale = 1.0, .window = 9}, window},
               {"scale-fitted", {.scale = 0.37, .causal = 2}, causal},
               {"groups-tiled", {.scale = b, .causal = 2, .tiled = true}, causal},
               {"sink", {.scale = b, .causal = 2, .sink = 1.0}, causal}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        problem p = make(4, 2, 30, 50, 16, 12, AS_F32);
        plant(&p, &all[i].change, AS_F32);
        expect_verdict(&p, all[i].name, all[i].asked);
        drop(&p);
    }
}

TEST_FILE(measure_mask)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_those_of_numpy),
        cmocka_unit_test(what_is_said_counts_the_keys_that_are_seen),
        cmocka_unit_test(error_bars_of_a_causal_query),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_mask_that_was_asked_for_is_met),
        cmocka_unit_test(mistakes_under_a_mask_are_recognised),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
