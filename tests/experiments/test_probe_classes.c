/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_classes.c : classes of heads at and around every cut-off, advice from exact errors,
 * and the tables made of a table of heads that is written down here. */
#include "testing.h"

#include <math.h>
#include <string.h>

#include <esscher/study.h>

#include "experiments/probe/question.h"

/* ---- one head ---- */

#define NONE ((double)NAN)

static void classes_at_their_cut_offs(void **state)
{
    (void)state;
    /* of 2 draws Student's t is 12.706, of 9 it is 2.306: intervals are ess +- t se */
    static const struct {
        probe_signs signs;
        es_regime want;
    } cases[] = {/* exactly known: the words of regimes and exponent, ESS < 2 and ESS >= 100 */
                 {{1000, 1.999, 0, 9}, ES_REGIME_SINGLE_KEY},
                 {{1000, 2.0, 0, 9}, ES_REGIME_SELECTIVE},
                 {{1000, 99.9, 0, 9}, ES_REGIME_SELECTIVE},
                 {{1000, 100.0, 0, 9}, ES_REGIME_AVERAGING},
                 /* few tokens: two thirds of 90 are 60 */
                 {{90, 59.9, 0, 9}, ES_REGIME_SELECTIVE},
                 {{90, 60.1, 0, 9}, ES_REGIME_AVERAGING},
                 /* intervals over draws: 1.5 + 2.306 * 0.21 = 1.984, 0.22 gives 2.007 */
                 {{1000, 1.5, 0.21, 9}, ES_REGIME_SINGLE_KEY},
                 {{1000, 1.5, 0.22, 9}, ES_REGIME_UNDECIDED},
                 {{1000, 1.5, 0.21, 2}, ES_REGIME_UNDECIDED},
                 /* 90 + 2.306 * 4.3 = 99.9, 4.4 gives 100.1 */
                 {{1000, 90, 4.3, 9}, ES_REGIME_SELECTIVE},
                 {{1000, 90, 4.4, 9}, ES_REGIME_UNDECIDED},
                 {{1000, 110, 4.3, 9}, ES_REGIME_AVERAGING},
                 {{1000, 110, 4.4, 9}, ES_REGIME_UNDECIDED},
                 /* wider than everything between the cut-offs */
                 {{1000, 50, 30, 9}, ES_REGIME_UNDECIDED},
                 {{1000, NONE, NONE, 9}, ES_REGIME_UNDECIDED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (probe_class_of(&cases[i].signs) != cases[i].want)
            fail_msg("case %zu: %s, not %s", i, es_regime_name(probe_class_of(&cases[i].signs)),
                     es_regime_name(cases[i].want));
}

/* More draws make intervals shorter around the same numbers. An ESS of 400 and a rate of 0.47 are
 * averaging for 4, 8, 32 and 128 draws, though the rate's interval is below 1/2 from 32 on: classes
 * once depended on that, and MiniLM had 29, 25, 14 and 5 averaging heads. */
static void more_draws_change_no_class(void **state)
{
    (void)state;
    static const int64_t draws[] = {4, 8, 32, 128};
    es_answer *answer;
    assert_ok(es_answer_new(NULL, &answer, &err));
    es_table *heads = es_answer_table(answer, &probe_heads_table);
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++) {
        probe_head_row *row = es_rows_add(heads, probe_head_row);
        const double root = sqrt((double)draws[i]);
        row->ess_n = (es_measured){400.0, 40.0 / root};
        row->rate_map.rate.value = 0.47;
        row->rate_map.low = 0.47 - 0.15 / root;
        row->rate_map.high = 0.47 + 0.15 / root;
        probe_classify(row, 1000.0, draws[i]);
        assert_string_equal(row->class, "averaging");
    }
    es_answer_free(answer);
}

/* Of 16 queries Student's t is 2.131: what is behind the best by less than that many standard
 * errors is named as well. Without a spread, or too few tokens, there is no advice. */
static void advice_is_the_smallest_exact_error(void **state)
{
    (void)state;
    static const struct {
        es_probe_policies policies;
        const char *want;
    } cases[] = {
        {{1024, 128, 16, 0, {0.1, 0.4, 0.2}, {0, 0.15, 0.03}, {0, 0.05, 0.01}}, "random"},
        {{1024, 128, 16, 0, {0.1, 0.4, 0.2}, {0, 0.15, 0.03}, {0, 0.08, 0.01}}, "random or top"},
        {{1024, 128, 16, 1, {0.9, 0.1, 0.2}, {0.8, 0, 0.03}, {0.1, 0, 0.0139}}, "top"},
        {{1024, 128, 16, 1, {0.9, 0.1, 0.2}, {0.8, 0, 0.03}, {0.1, 0, 0.0142}},
         "top or top-random"},
        {{1024, 128, 16, 2, {0.2, 0.2, 0.1}, {0.03, 0.03, 0}, {0.1, 0.1, 0}},
         "top-random or random or top"},
        {{1024, 128, 16, 0, {NONE, NONE, NONE}, {0}, {0}}, ""},
        {{0}, ""}};
    es_answer *answer;
    assert_ok(es_answer_new(NULL, &answer, &err));
    es_table *heads = es_answer_table(answer, &probe_heads_table);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        probe_head_row *row = es_rows_add(heads, probe_head_row);
        probe_advise(heads, row, &cases[i].policies);
        assert_string_equal(row->advice ? row->advice : "", cases[i].want);
        if (*cases[i].want)
            assert_equals(row->top_random_error, cases[i].policies.error[2]);
    }
    assert_ok(es_answer_status(answer, &err));
    es_answer_free(answer);
}

/* ---- all heads ---- */

/* Head i of 26: moves by (7 i mod 26), which no two share; but heads 3 and 4 move alike, and head 5
 * is not known to move. */
enum { ROWS = 26 };

static double moves_of(int64_t i) { return i == 5 ? NONE : (double)(7 * (i == 4 ? 3 : i) % ROWS); }

static es_table *written_heads(es_answer *answer)
{
    es_table *heads = es_answer_table(answer, &probe_heads_table);
    for (int64_t i = 0; i < ROWS; i++) {
        probe_head_row *row = es_rows_add(heads, probe_head_row);
        row->layer = i / 2;
        row->head = i % 2;
        row->moves.value = moves_of(i);
        row->ess_n = (es_measured){i < 10 ? 200.0 + (double)i : i < 20 ? 40.0 : 1.5, 0.0};
        row->rate_map_exact = i == 25 ? NONE : 0.01 * (double)i;
        row->advice = i < 3 ? "random" : i < 10 ? "random or top" : "top";
        probe_classify(row, 1000.0, 8);
    }
    return heads;
}

static void tables_of_classes_and_of_ten_heads(void **state)
{
    (void)state;
    es_job job = {.study = es_study_find("probe")};
    es_answer *answer;
    assert_ok(es_answer_new(NULL, &answer, &err));
    es_table *heads = written_heads(answer);
    es_table *classes = es_answer_table(answer, &probe_classes_table);
    es_table *ten = es_answer_table(answer, &probe_matter_table);
    assert_ok(probe_sum_up_classes(&job, heads, 1000.0, classes, ten, &err));
    assert_ok(es_answer_status(answer, &err));
    assert_string_equal(es_table_get_text(classes, 0, "meaning"),
                        "100 or more tokens share the weight");
    /* 0..9 are averaging, 10..19 selective, 20..25 single-key, of which 25 has no rate */
    static const char *const names[] = {"averaging", "selective", "single-key", "undecided"};
    static const double count[ES_REGIMES] = {10, 10, 6, 0}, random[ES_REGIMES] = {3, 0, 0, 0};
    static const double top[ES_REGIMES] = {0, 10, 6, 0};
    static const double rate[ES_REGIMES] = {0.045, 0.145, 0.22, NAN};
    static const double ess[ES_REGIMES] = {204.5, 40, 1.5, NAN};
    assert_int_equal(es_table_rows(classes), ES_REGIMES);
    for (int64_t k = 0; k < ES_REGIMES; k++) {
        assert_string_equal(es_table_get_text(classes, k, "class"), names[k]);
        assert_equals(es_table_get(classes, k, "heads"), count[k]);
        assert_equals(es_table_get(classes, k, "random"), random[k]);
        assert_equals(es_table_get(classes, k, "top"), top[k]);
        assert_equals(es_table_get(classes, k, "top_random"), 0.0);
        if (count[k] > 0.0) {
            assert_near(es_table_get(classes, k, "rate_map_exact"), rate[k], 1e-12);
            assert_near(es_table_get(classes, k, "ess_n"), ess[k], 1e-12);
        } else
            assert_nan(es_table_get(classes, k, "rate_map_exact"));
    }
    /* the ten largest of 7 i mod 26 without those of 4 and 5, and 21 of head 3 twice */
    static const int64_t want[PROBE_MATTER_MOST] = {11, 22, 7, 18, 3, 4, 14, 25, 10, 21};
    assert_int_equal(es_table_rows(ten), PROBE_MATTER_MOST);
    for (int64_t i = 0; i < PROBE_MATTER_MOST; i++) {
        assert_equals(es_table_get(ten, i, "layer"), (double)(want[i] / 2));
        assert_equals(es_table_get(ten, i, "head"), (double)(want[i] % 2));
        assert_equals(es_table_get(ten, i, "moves"), moves_of(want[i]));
        assert_string_equal(es_table_get_text(ten, i, "class"),
                            es_table_get_text(heads, want[i], "class"));
        assert_true(es_table_get_text(ten, i, "advice")[0] != '\0');
    }
    es_arena_free(&job.arena);
    es_answer_free(answer);
}

/* The sentence about the slowest of four heads of a pool of 4000 tokens, of which they need
 * `needs`; `thin` ones need as many or more. */
static void check_slowest(const double needs[4], const double thin[4], const char *count,
                          const char *slowest)
{
    const int64_t sizes[] = {1000};
    probe_params params = {.replicates = 8};
    probe_state state = {.pools = {.n_domains = 1, .cost = {.tokens = 4000}},
                         .spec = {.sizes = sizes, .n_sizes = 1}};
    es_domain domain = {.name = "text", .text = {.tokens = 4000}};
    state.pools.domains = &domain;
    es_job job = {.study = es_study_find("probe"), .params = &params, .state = &state};
    es_answer *answer;
    int found = 0;
    assert_ok(es_answer_new(NULL, &answer, &err));
    es_table *heads = es_answer_table(answer, &probe_heads_table);
    es_table *classes = es_answer_table(answer, &probe_classes_table);
    for (int64_t i = 0; i < ES_REGIMES; i++)
        es_rows_add(classes, probe_class_row)->heads = 1;
    for (int64_t i = 0; i < 4; i++) {
        probe_head_row *row = es_rows_add(heads, probe_head_row);
        row->layer = 2;
        row->head = i;
        row->tokens_for_tenth = (es_measured){needs[i], 70.0};
        row->thin = thin[i];
    }
    assert_ok(probe_add_head_findings(&job, heads, classes, answer, &err));
    assert_string_equal(es_answer_finding(answer, 0),
                        "Of 4 heads at n = 1000, 1 is averaging, 1 selective, 1 single-key and 1 "
                        "undecided.");
    for (int64_t i = 0; es_answer_finding(answer, i); i++) {
        found += strcmp(es_answer_finding(answer, i), count) == 0;
        found += strcmp(es_answer_finding(answer, i), slowest) == 0;
    }
    if (found != 2)
        fail_msg("not found: %s %s", count, slowest);
    es_arena_free(&job.arena);
    es_answer_free(answer);
}

static void the_slowest_may_be_one_with_a_bound(void **state)
{
    (void)state;
    check_slowest((double[4]){3000, 9000, NONE, 5000}, (double[4]){0, 0.1, 1, 0.05},
                  "2 of 4 heads need more than the pool's 4000 tokens for 10 % error.",
                  "Slowest: layer 2 head 1, 9000 ± 70 tokens.");
    check_slowest((double[4]){3000, 9000, NONE, 5000}, (double[4]){0.2, 0.1, 1, 0.3},
                  "At least 2 of 4 heads need more than the pool's 4000 tokens for 10 % error.",
                  "Slowest known: layer 2 head 1, 9000 ± 70 tokens.");
    check_slowest((double[4]){3000, 9000, NONE, 5000}, (double[4]){0, 0.2, 0, 0},
                  "2 of 4 heads need more than the pool's 4000 tokens for 10 % error.",
                  "Slowest known: layer 2 head 1, at least 9000 tokens.");
}

/* What export and LaTeX put over a column: a key is no title, and a number has its error. */
static void columns_of_heads_are_for_people(void **state)
{
    (void)state;
    int with_error = 0;
    for (const es_column *c = probe_heads_table.columns; c->key; c++) {
        if (!*c->title)
            fail_msg("%s has no title", c->key);
        with_error += strcmp(c->key, "tokens_for_tenth") == 0 && c->format == ES_FORMAT_REAL &&
                      strcmp(c->error, "tokens_for_tenth_error") == 0;
    }
    assert_int_equal(with_error, 1);
}

TEST_FILE(probe_classes)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(classes_at_their_cut_offs),
                                       cmocka_unit_test(more_draws_change_no_class),
                                       cmocka_unit_test(advice_is_the_smallest_exact_error),
                                       cmocka_unit_test(tables_of_classes_and_of_ten_heads),
                                       cmocka_unit_test(the_slowest_may_be_one_with_a_bound),
                                       cmocka_unit_test(columns_of_heads_are_for_people)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
