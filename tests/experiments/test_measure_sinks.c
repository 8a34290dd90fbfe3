/* SPDX-License-Identifier: Apache-2.0 */
/* test_measure_sinks.c : measure --sink-logits and --score-cap, against NumPy's numbers
 * (golden/sinks.py), what is left out beside them, and the verdicts of --compare. */
#include "golden.h"
#include "planted.h"

/* ---- statistics ---- */

/* A run on the arrays of golden/sparse; pairs of parameters, NULL-ended. */
static es_status run_on(const char *queries, const char *const *more, es_answer **answer)
{
    static const char *const names[] = {"q", "k", "v"};
    const es_study *study = es_study_find("measure");
    es_params *params;
    assert_ok(es_params_new(study->params, study->size, &params, &err));
    for (int i = 0; i < 3; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, "sparse/%s.npy", i ? names[i] : queries);
        assert_ok(es_params_set(params, names[i], golden_path(rest), &err));
    }
    for (; *more; more += 2)
        assert_ok(es_params_set(params, more[0], more[1], &err));
    const es_status status = es_study_run(
        study, params, &(es_study_opts){.exec = {.threads = 2}, .precision = ES_F64}, answer, &err);
    es_params_free(params);
    return status;
}

/* Means over queries with their standard errors. f64 kernels are right to 1e-12 (attend.h), NumPy's
 * sums of 400 terms to about as much. */
static void assert_means(const es_table *t, const char *column, const json_t *want)
{
    char se[32];
    snprintf(se, sizeof se, "%s_se", column);
    assert_near(es_table_get(t, 0, column), json_number_value(json_array_get(want, 0)),
                1e-11 * (1.0 + json_number_value(json_array_get(want, 0))));
    assert_near(es_table_get(t, 0, se), json_number_value(json_array_get(want, 1)),
                1e-10 * (1.0 + json_number_value(json_array_get(want, 1))));
}

static void check_case(const json_t *c)
{
    static const char *const means[] = {"entropy",     "perplexity", "ess",
                                        "sum_squares", "top_weight", "lse"};
    const char *words[12] = {0};
    char sink[32], cap[32], scale[32];
    int count = 0;
    es_answer *a;
    snprintf(scale, sizeof scale, "%.17g", golden_real(c, "scale"));
    words[count++] = "scale", words[count++] = scale;
    if (!json_is_null(json_object_get(c, "sink"))) {
        snprintf(sink, sizeof sink, "%.17g", golden_real(c, "sink"));
        words[count++] = "sink-logits", words[count++] = sink;
    }
    if (!json_is_null(json_object_get(c, "cap"))) {
        snprintf(cap, sizeof cap, "%.17g", golden_real(c, "cap"));
        words[count++] = "score-cap", words[count++] = cap;
    }
    if (json_is_true(json_object_get(c, "causal")))
        words[count++] = "causal", words[count++] = NULL;
    if (json_is_true(json_object_get(c, "exclude_self")))
        words[count++] = "exclude-self", words[count++] = NULL;
    assert_ok(run_on(json_string_value(json_object_get(c, "queries")), words, &a));
    const es_table *rows = es_answer_find(a, "rows"), *sinks = es_answer_find(a, "sinks");
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        assert_means(rows, means[i], json_object_get(c, means[i]));
    assert_close(es_table_get(rows, 0, "output_mean_norm"), golden_real(c, "output_mean_norm"),
                 1e-11);
    assert_close(es_table_get(rows, 0, "output_cov_trace"), golden_real(c, "output_cov_trace"),
                 1e-11);
    if (json_is_null(json_object_get(c, "sink")))
        assert_null(sinks);
    else
        assert_means(sinks, "weight", json_object_get(c, "sink_weight"));
    /* the run's own check, by the reference */
    assert_below(es_table_get(es_answer_find(a, "accuracy"), 0, "output_relative_l2"), 1e-12);
    es_answer_free(a);
}

static void statistics_with_sinks_are_those_of_numpy(void **state)
{
    (void)state;
    json_t *all = golden_file("sinks.json");
    assert_int_equal(json_array_size(all), 10);
    for (size_t i = 0; i < json_array_size(all); i++)
        check_case(json_array_get(all, i));
    json_decref(all);
}

/* One logit for each head, from numbers and from a file; -inf in a file is a head without. */
static void every_head_has_its_own_sink(void **state)
{
    (void)state;
    const double logits[] = {1.0, -INFINITY, 3.0, 0.25};
    char path[sizeof path_of_file];
    problem p = make(4, 2, 12, 40, 8, 5, AS_F64);
    save("s.npy", 4, 1, 1, logits);
    snprintf(path, sizeof path, "%s", in_folder("s.npy"));
    es_answer *file = ask_of(&p, NULL, (const char *[]){"sink-logits", path, NULL});
    es_answer *text = ask_of(&p, NULL, (const char *[]){"sink-logits", "1,-1e9,3,1/4", NULL});
    es_answer *none = ask_of(&p, NULL, (const char *[]){NULL});
    const es_table *a = es_answer_find(file, "rows"), *b = es_answer_find(text, "rows");
    for (int64_t h = 0; h < 4; h++) {
        const bool sunk = h != 1;
        const double lse = es_table_get(a, h, "lse");
        assert_equals(lse, es_table_get(b, h, "lse"));
        assert_equals(es_table_get(a, h, "entropy"), es_table_get(b, h, "entropy"));
        assert_equals((lse > es_table_get(es_answer_find(none, "rows"), h, "lse")), sunk);
        assert_equals((es_table_get(es_answer_find(file, "sinks"), h, "weight") > 0.0), sunk);
    }
    es_answer_free(file);
    es_answer_free(text);
    es_answer_free(none);
    drop(&p);
}

/* ---- what is left out ---- */

static void theories_without_sinks_and_caps_are_left_out(void **state)
{
    (void)state;
    problem p = make(2, 1, 9, 30, 4, 4, AS_F32);
    es_answer *a = ask_of(&p, NULL, (const char *[]){"sink-logits", "0", NULL});
    assert_non_null(strstr(es_answer_finding(a, 1), "the sink takes 0."));
    assert_null(strstr(es_answer_finding(a, 2), "averaging"));
    assert_non_null(strstr(es_table_get_text(es_answer_find(a, "heads"), 0, "horizon_reason"),
                           "run without --sink-logits"));
    assert_true(isnan(es_table_get(es_answer_find(a, "heads"), 0, "horizon")));
    es_answer_free(a);
    a = ask_of(&p, NULL, (const char *[]){"score-cap", "5", NULL});
    assert_non_null(strstr(es_table_get_text(es_answer_find(a, "heads"), 0, "horizon_reason"),
                           "without a cap"));
    es_answer_free(a);
    /* error bars come from weights alone, whatever made them */
    a = ask_of(&p, NULL, (const char *[]){"score-cap", "5", "error-bar", "2", NULL});
    assert_true(isfinite(es_table_get(es_answer_find(a, "error_bars"), 0, "error_bar")));
    es_answer_free(a);
    drop(&p);
}

static void refuse(const char *const *words, const char *rule, const char *part)
{
    es_answer *a = NULL;
    assert_int_not_equal(run_on("q", words, &a), ES_OK);
    assert_string_equal(err.rule, rule);
    if (!strstr(err.message, part) && !strstr(err.hint, part))
        fail_msg("\"%s\" is not in \"%s\", \"%s\"", part, err.message, err.hint);
    es_answer_free(a);
}

static void sinks_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const double odd[] = {NAN, INFINITY};
    char path[sizeof path_of_file];
    refuse((const char *[]){"sink-logits", "1", "error-bar", "16", NULL}, "measure.options",
           "--error-bar");
    refuse((const char *[]){"sink-logits", "1,2,3", NULL}, "measure.sinks", "3 numbers");
    refuse((const char *[]){"sink-logits", "none", NULL}, "file.open", "give numbers");
    for (int i = 0; i < 2; i++) {
        save("odd.npy", 1, 1, 1, odd + i);
        snprintf(path, sizeof path, "%s", in_folder("odd.npy"));
        refuse((const char *[]){"sink-logits", path, NULL}, "measure.sinks", "-inf for no sink");
    }
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

/* Outputs of kernels with sinks and caps, right and wrong ones. */
static void outputs_with_sinks_and_caps_are_judged(void **state)
{
    (void)state;
    static const double logits[] = {1.5, -0.5, 2.5, 0.75};
    const double b = 0.25;
    const char *const sinks[] = {"sink-logits", "1.5,-0.5,2.5,0.75", "causal", NULL, NULL};
    const char *const cap[] = {"score-cap", "1.5", "causal", NULL, NULL};
    const char *const both[] = {"sink-logits", "1.5,-0.5,2.5,0.75", "score-cap", "1.5", NULL};
    const struct {
        const char *name;
        planted change;
        const char *const *asked;
    } all[] = {{"", {.scale = b, .causal = 2, .sinks = logits}, sinks},
               {"", {.scale = b, .causal = 2, .cap = 1.5}, cap},
               {"", {.scale = b, .sinks = logits, .cap = 1.5}, both},
               {"sinks-missing", {.scale = b, .causal = 2}, sinks},
               {"sinks-missing", {.scale = b, .cap = 1.5}, both},
               {"uncapped", {.scale = b, .causal = 2}, cap},
               {"uncapped", {.scale = b, .sinks = logits}, both},
               {"unmasked", {.scale = b, .sinks = logits}, sinks},
               {"scale-none", {.scale = 1.0, .causal = 2, .sinks = logits}, sinks},
               {"window", {.scale = b, .window = 9, .sinks = logits}, sinks},
               {"scale-fitted", {.scale = 0.37, .causal = 2, .sinks = logits}, sinks},
               {"sink", {.scale = b, .sink = 1.0}, (const char *[]){NULL}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        problem p = make(4, 2, 30, 50, 16, 12, AS_F32);
        plant(&p, &all[i].change, AS_F32);
        expect_verdict(&p, all[i].name, all[i].asked);
        drop(&p);
    }
}

TEST_FILE(measure_sinks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_with_sinks_are_those_of_numpy),
        cmocka_unit_test(every_head_has_its_own_sink),
        cmocka_unit_test(theories_without_sinks_and_caps_are_left_out),
        cmocka_unit_test(sinks_that_make_no_sense_are_refused),
        cmocka_unit_test(outputs_with_sinks_and_caps_are_judged),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
