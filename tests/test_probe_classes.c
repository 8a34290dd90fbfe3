/* test_probe_classes.c : classes of heads at and around every cut-off, what to do about them, and
 * the tables made of a table of heads that is written down here. */
#include "testing.h"

#include <math.h>
#include <string.h>

#include <esscher/study.h>

#include "study/probe_classes.h"
#include "study/probe_study.h"

/* ---- one head ---- */

#define NONE ((double)NAN)

static void classes_at_their_cut_offs(void **state)
{
    (void)state;
    /* of 2 draws Student's t is 12.706, of 9 it is 2.306: intervals are ess +- t se */
    static const struct {
        probe_signs signs;
        probe_class want;
    } cases[] = {
        /* exactly known: the words of regimes and exponent, ESS < 2 and ESS >= 100 */
        {{1000, 1.999, 0, 9, 0.4, 0.6}, PROBE_SELECTS},
        {{1000, 2.0, 0, 9, 0.4, 0.6}, PROBE_SHARP},
        {{1000, 99.9, 0, 9, 0.4, 0.6}, PROBE_SHARP},
        {{1000, 100.0, 0, 9, 0.4, 0.6}, PROBE_AVERAGES},
        /* few tokens: two thirds of 90 are 60 */
        {{90, 59.9, 0, 9, 0.4, 0.6}, PROBE_SHARP},
        {{90, 60.1, 0, 9, 0.4, 0.6}, PROBE_AVERAGES},
        /* the rate's interval: below 1/2; touching it; from 1/4 on; wider; above 1/2; none */
        {{1000, 400, 0, 9, 0.3, 0.499}, PROBE_SHARP},
        {{1000, 400, 0, 9, 0.3, 0.5}, PROBE_AVERAGES},
        {{1000, 400, 0, 9, 0.25, 0.7}, PROBE_AVERAGES},
        {{1000, 400, 0, 9, 0.249, 0.7}, PROBE_UNDECIDED},
        {{1000, 400, 0, 9, 0.55, 0.6}, PROBE_AVERAGES},
        {{1000, 400, 0, 9, NONE, NONE}, PROBE_UNDECIDED},
        /* a rate does not matter to what is sharp anyway, or selects one */
        {{1000, 40, 0, 9, NONE, NONE}, PROBE_SHARP},
        {{1000, 1.2, 0, 9, NONE, NONE}, PROBE_SELECTS},
        /* intervals over draws: 1.5 + 2.306 * 0.21 = 1.984, 0.22 gives 2.007 */
        {{1000, 1.5, 0.21, 9, 0.1, 0.2}, PROBE_SELECTS},
        {{1000, 1.5, 0.22, 9, 0.1, 0.2}, PROBE_UNDECIDED},
        {{1000, 1.5, 0.21, 2, 0.1, 0.2}, PROBE_UNDECIDED},
        /* 90 + 2.306 * 4.3 = 99.9, 4.4 gives 100.1; a slow rate decides all the same */
        {{1000, 90, 4.3, 9, 0.4, 0.6}, PROBE_SHARP},
        {{1000, 90, 4.4, 9, 0.4, 0.6}, PROBE_UNDECIDED},
        {{1000, 90, 4.4, 9, 0.3, 0.4}, PROBE_SHARP},
        {{1000, 110, 4.3, 9, 0.4, 0.6}, PROBE_AVERAGES},
        {{1000, 110, 4.4, 9, 0.4, 0.6}, PROBE_UNDECIDED},
        {{1000, NONE, NONE, 9, 0.4, 0.6}, PROBE_UNDECIDED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (probe_class_of(&cases[i].signs) != cases[i].want)
            fail_msg("case %zu: %s, not %s", i, probe_class_name(probe_class_of(&cases[i].signs)),
                     probe_class_name(cases[i].want));
}

static const char *advice(probe_class kind, bool wants_rate, double thin, double needs)
{
    static char text[PROBE_ADVICE_ROOM];
    const probe_case head = {kind, wants_rate, thin, needs, 8, 4000};
    probe_advice(&head, text);
    assert_true(strlen(text) <= 54); /* layer, head and class beside it: 80 columns */
    return text;
}

static void one_thing_to_do_each(void **state)
{
    (void)state;
    assert_string_equal(advice(PROBE_AVERAGES, false, 0.1, 16312.4),
                        "16300 random keys give it within 10 %");
    assert_string_equal(advice(PROBE_AVERAGES, false, 0.11, 16312.4),
                        "needs more text (--pool 40000)");
    assert_string_equal(advice(PROBE_AVERAGES, false, 0.0, NONE),
                        "any token will do: its outputs hardly differ");
    assert_string_equal(advice(PROBE_SHARP, false, 0.0, 9999.6),
                        "choose keys by weight (at random: 10000)");
    assert_string_equal(advice(PROBE_SHARP, false, 1.0, 1.59e7),
                        "choose keys by weight (at random: over 1.59e7)");
    assert_string_equal(advice(PROBE_SELECTS, false, 1.0, 1e5),
                        "keep the largest weights; sampling will not do");
    assert_string_equal(advice(PROBE_UNDECIDED, false, 0.0, 1e5), "more draws (--replicates 32)");
    assert_string_equal(advice(PROBE_UNDECIDED, true, 0.0, 1e5),
                        "no rate: a wider range of n (--n)");
}

/* No rate is no reason to widen n where it is the ESS that leaves the class open: 9 draws, t
 * = 2.306.
 */
static void advice_by_what_is_undecided(void **state)
{
    (void)state;
    static const char draws[] = "more draws (--replicates 36)";
    static const char sizes[] = "no rate: a wider range of n (--n)";
    static const struct {
        double ess, se, low, high;
        const char *want;
    } cases[] = {{1.5, 0.22, NONE, NONE, draws}, /* to 2.007: one token, or more? */
                 {90, 4.4, NONE, NONE, draws},   /* to 100.1 */
                 {110, 4.4, NONE, NONE, draws},  /* from 99.9 */
                 {110, 4.3, NONE, NONE, sizes},  /* from 100.1: it averages if its rate does */
                 {400, 0, NONE, NONE, sizes},    {400, 0, 0.2, 0.7, draws}, /* of the rate */
                 {NONE, NONE, NONE, NONE, draws}};
    es_answer *answer;
    assert_ok(es_answer_new(NULL, &answer, &err));
    es_table *heads = es_answer_table(answer, &probe_heads_table);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t row = es_table_row(heads);
        es_table_real(heads, row, "ess_n", cases[i].ess);
        es_table_real(heads, row, "ess_n_se", cases[i].se);
        es_table_real(heads, row, "rate_map_ci.0", cases[i].low);
        es_table_real(heads, row, "rate_map_ci.1", cases[i].high);
        probe_put_class(heads, row, 1000.0, 9, 4000);
        assert_string_equal(es_table_get_text(heads, row, "class"), "undecided");
        assert_string_equal(es_table_get_text(heads, row, "advice"), cases[i].want);
    }
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
        const int64_t row = es_table_row(heads);
        es_table_count(heads, row, "layer", i / 2);
        es_table_count(heads, row, "head", i % 2);
        es_table_real(heads, row, "moves", moves_of(i));
        es_table_real(heads, row, "ess_n", i < 20 ? 200.0 + (double)i : 1.5);
        es_table_real(heads, row, "ess_n_se", 0.0);
        es_table_real(heads, row, "rate_map", i < 10 ? 0.5 : i == 25 ? NONE : 0.01 * (double)i);
        es_table_real(heads, row, "rate_map_ci.0", i < 10 ? 0.4 : 0.0);
        es_table_real(heads, row, "rate_map_ci.1", i < 10 ? 0.6 : 0.3);
        es_table_real(heads, row, "thin", 0.0);
        es_table_real(heads, row, "tokens_for_tenth", 1000.0);
        probe_put_class(heads, row, 1000.0, 8, 4000);
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
    assert_ok(probe_sum_up_classes(&job, heads, classes, ten, &err));
    assert_ok(es_answer_status(answer, &err));
    /* 0..9 average, 10..19 are sharp by their rate, 20..25 select one, of which 25 has no rate */
    static const double count[PROBE_CLASSES] = {10, 10, 6, 0};
    static const double rate[PROBE_CLASSES] = {0.5, 0.145, 0.22, NAN};
    static const double ess[PROBE_CLASSES] = {204.5, 214.5, 1.5, NAN};
    assert_int_equal(es_table_rows(classes), PROBE_CLASSES);
    for (int64_t k = 0; k < PROBE_CLASSES; k++) {
        assert_string_equal(es_table_get_text(classes, k, "class"),
                            probe_class_name((probe_class)k));
        assert_true(es_table_get(classes, k, "heads") == count[k]);
        if (count[k] > 0.0) {
            assert_near(es_table_get(classes, k, "rate_map"), rate[k], 1e-12);
            assert_near(es_table_get(classes, k, "ess_n"), ess[k], 1e-12);
        } else
            assert_true(isnan(es_table_get(classes, k, "rate_map")));
    }
    /* the ten largest of 7 i mod 26 without those of 4 and 5, and 21 of head 3 twice */
    static const int64_t want[PROBE_MATTER_MOST] = {11, 22, 7, 18, 3, 4, 14, 25, 10, 21};
    assert_int_equal(es_table_rows(ten), PROBE_MATTER_MOST);
    for (int64_t i = 0; i < PROBE_MATTER_MOST; i++) {
        assert_true(es_table_get(ten, i, "layer") == (double)(want[i] / 2));
        assert_true(es_table_get(ten, i, "head") == (double)(want[i] % 2));
        assert_true(es_table_get(ten, i, "moves") == moves_of(want[i]));
        assert_string_equal(es_table_get_text(ten, i, "class"),
                            es_table_get_text(heads, want[i], "class"));
        assert_true(es_table_get_text(ten, i, "advice")[0] != '\0');
    }
    es_arena_free(&job.arena);
    es_answer_free(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(classes_at_their_cut_offs),
                                       cmocka_unit_test(one_thing_to_do_each),
                                       cmocka_unit_test(advice_by_what_is_undecided),
                                       cmocka_unit_test(tables_of_classes_and_of_ten_heads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
