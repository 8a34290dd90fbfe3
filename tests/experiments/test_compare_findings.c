/* SPDX-License-Identifier: Apache-2.0 */
/* What measure --compare says: sentences and the table of what was tried. */
#include "planted.h"

#include <esscher/format.h>

/* How each is said, word for word; # is a number. */
static const struct said {
    const char *name, *sentence;
} all_said[] = {
    {"causal", "causal attention"},
    {"causal-end", "causal attention, the last query at the last key"},
    {"causal-strict", "causal attention without a query's own key"},
    {"causal-next", "causal attention that sees *"},
    {"block-ahead", "causal attention that sees all keys of a query's own block of #"},
    {"inputs-rounded", "attention of Q, K and V rounded to *"},
    {"scale-none", "attention without a scale"},
    {"scale-usual", "attention with the scale 1/sqrt(d) = #"},
    {"scale-1/d", "attention with the scale 1/d = #"},
    {"scale-twice", "attention with its scale applied twice, that is with #"},
    {"scale-inverse", "attention with the scale sqrt(d) = #"},
    {"scale-model", "attention with the scale 1/sqrt(heads d) = #"},
    {"scale-base-2", "attention with 2^s for e^s, that is with the scale #"},
    {"scale-base-e", "attention with e^(s log2 e) for e^s, that is with the scale #"},
    {"uniform", "the average of all values, whatever the scores"},
    {"not-divided", "sum exp(s) v, not divided by sum exp(s)"},
    {"not-divided-max", "sum exp(s - max s) v, not divided by its weights"},
    {"other-self", "attention where a query does not see its own key"},
    {"groups-tiled", "attention where query head h has key head h mod the key heads, not "
                     "neighbours one key head"},
    {"one-head", "attention where all query heads have one key head, number #"},
    {"rows-first", "attention written as (n, heads, d) and read as (heads, n, d)"},
    {"heads-first",
     "attention written as (heads, n, d) and read as (n, heads, d), a transposition forgotten"},
    {"all-rows-first", "attention of (n, heads, d) arrays, all of them read as (heads, n, d)"},
    {"heads-moved", "attention with its heads in another order"},
    {"last-key", "attention without the last key"},
    {"values-shifted", "attention with shifted values: *"},
    {"alibi", "attention with ALiBi's slopes by distance"},
    {"first-dropped", "attention without the first keys (#)"},
    {"last-block", "attention without the last block of # keys"},
    {"own-block", "attention without the keys of a query's own block of #"},
    {"block-tail", "attention without the keys of a query's last block, unless it is whole, of #"},
    {"sink", "attention with one more in the denominator"},
    {"padded-16", "attention that also sees padding, keys of zeros: # keys to a multiple of 16"},
    {"padded-32", "attention that also sees padding, keys of zeros: # keys to a multiple of 32"},
    {"padded-64", "attention that also sees padding, keys of zeros: # keys to a multiple of 64"},
    {"padded-128", "attention that also sees padding, keys of zeros: # keys to a multiple of 128"},
    {"padded-8", "attention that also sees padding, keys of zeros: # keys to a multiple of 8"},
    {"cap-50", "attention with scores capped as 50 tanh(s/50)"},
    {"cap-30", "attention with scores capped as 30 tanh(s/30)"},
    {"scores-rounded", "attention with scores rounded before the softmax to f16"},
    {"all-rounded", "attention with Q, K, V and then scores rounded to f16"},
    {"window", "causal attention over a window of # keys"},
    {"band", "attention over a band of # keys to either side"},
    {"last-keys", "attention without the last keys (#)"},
    {"first-keys", "attention without the first keys (#)"},
    {"factor", "attention times #"},
    {"scale-fitted", "attention with another scale: #"},
    {"cap-fitted", "attention with scores capped as c tanh(s/c), c = #"},
    {"overflow", "attention without subtracting the maximum, which overflows in *"},
    {"rows-zero", "attention, but for rows of zeros: # of #"},
    {"row-factors", "attention with rows multiplied by numbers of their own"},
    {"dropout", "attention with dropout left on: p = #"},
    {"in-f32", "attention computed in f32 and stored"},
    {"in-f16", "attention computed in f16*"},
    {"in-bf16", "attention computed in bf16*"},
    {"narrow-sums", "attention with sums in f16 and stored"}};
enum { ALL_SAID = sizeof all_said / sizeof *all_said };

/* `text` begins with the pattern; what follows, NULL if it does not. # is a number, * the text up
 * to
 * ", and" or the end. */
static const char *after_pattern(const char *text, const char *pattern)
{
    for (; *pattern; pattern++)
        if (*pattern == '#') {
            const size_t digits = strspn(text, "0123456789.e+-");
            if (!digits)
                return NULL;
            text += digits;
        } else if (*pattern == '*') {
            const char *end = strstr(text, ", and");
            text = end ? end : text + strlen(text);
        } else if (*text++ != *pattern)
            return NULL;
    return text;
}

/* Every hypothesis of the answer; `met` marks those that were. */
static void check_said(const es_answer *a, bool met[ALL_SAID])
{
    const es_table *t = es_answer_find(a, "compare_hypotheses");
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        const char *name = es_table_get_text(t, i, "hypothesis"), *plus = strchr(name, '+');
        const char *is = es_table_get_text(t, i, "is"), *alone = plus ? plus + 1 : name;
        const char *mask = !plus              ? ""
                           : plus == name + 6 ? ", and causal"
                                              : ", and causal with the last query at the last key";
        int64_t at = 0;
        while (at < ALL_SAID && strcmp(all_said[at].name, alone) != 0)
            at++;
        const char *rest = at < ALL_SAID ? after_pattern(is, all_said[at].sentence) : NULL;
        if (!rest || strcmp(rest, mask) != 0)
            fail_msg("%s is said to be \"%s\"", name, is);
        met[at] = true;
    }
}

static void every_hypothesis_has_its_sentence(void **state)
{
    (void)state;
    bool met[ALL_SAID] = {false};
    const struct {
        int64_t heads, kv, m, n;
        store s;
        const char *scale;
    } shapes[] = {
        {4, 2, 10, 25, AS_F16, "0.2"}, {3, 3, 12, 12, AS_F32, "0.25"}, {2, 1, 9, 70, AS_F64, "1"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p = make(shapes[i].heads, shapes[i].kv, shapes[i].m, shapes[i].n, 16, 8,
                         shapes[i].s == AS_F64 ? AS_F32 : shapes[i].s);
        free(p.y);
        p.y = normals(99, p.heads * p.m, p.dv, shapes[i].s);
        es_answer *a = ask(&p, (const char *[]){"scale", shapes[i].scale, NULL});
        check_said(a, met);
        es_answer_free(a);
        /* heads in another order are tried only where each is near another */
        if (p.heads == 3) {
            plant(&p, &(planted){.scale = 0.25}, AS_F32);
            swap_heads(&p);
            a = ask(&p, NULL);
            check_said(a, met);
            es_answer_free(a);
            /* a cap is fitted where it comes nearer */
            plant(&p, &(planted){.scale = 0.25, .cap = 2.0}, AS_F32);
            a = ask(&p, NULL);
            check_said(a, met);
            es_answer_free(a);
            /* and rows of zeros where there are some */
            memset(p.y, 0, (size_t)p.dv * sizeof *p.y);
            a = ask(&p, NULL);
            check_said(a, met);
            es_answer_free(a);
        }
        drop(&p);
    }
    for (int64_t at = 0; at < ALL_SAID; at++)
        if (!met[at])
            fail_msg("%s was never tried", all_said[at].name);
}

/* A comma goes before what follows, and no number stands in a sentence that has none. */
static void findings_read_well(void **state)
{
    (void)state;
    const struct {
        planted change;
        const char *says;
    } all[] = {
        {{.scale = 0.0},
         "agrees with the average of all values, whatever the scores, in f32 (all 24 rows agree)"},
        {{.scale = 0.0, .causal = 1},
         "agrees with the average of all values, whatever the scores, and causal in f32 (all 24 "
         "rows"},
        {{.scale = 1.0},
         "agrees with attention without a scale in f32 (all 24 rows agree); you asked for full"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        problem p = make(2, 1, 12, 20, 16, 8, AS_F32);
        plant(&p, &all[i].change, AS_F32);
        es_answer *a = ask(&p, NULL);
        if (!strstr(es_answer_finding(a, 0), all[i].says))
            fail_msg("\"%s\" is not in \"%s\"", all[i].says, es_answer_finding(a, 0));
        es_answer_free(a);
        drop(&p);
    }
}

/* A long path, and a long name of characters of two bytes: the verdict is said to its end. */
static void long_names_are_cut(void **state)
{
    (void)state;
    enum { DOTS = 600, LONG = 100 };
    char path[2 * DOTS + 512], name[2 * LONG + 8];
    problem p = make(2, 1, 12, 20, 16, 8, AS_F32);
    plant(&p, &(planted){.scale = 1.0}, AS_F32);
    save("y.npy", p.heads, p.m, p.dv, p.y);
    size_t used = (size_t)snprintf(path, sizeof path, "%s", folder);
    for (int i = 0; i < DOTS; i++, used += 2)
        memcpy(path + used, "/.", 2);
    snprintf(path + used, sizeof path - used, "/y.npy");
    es_answer *a = ask_of(&p, path, NULL);
    assert_true(
        strncmp(es_answer_finding(a, 0), "MISMATCH: y.npy agrees with attention without", 45) == 0);
    es_answer_free(a);
    for (int first = 0; first < 2; first++) { /* cut between characters, or inside one */
        used = (size_t)first;
        memcpy(name, "x", 1);
        for (int i = 0; i < LONG; i++, used += 2)
            memcpy(name + used, "é", 2);
        memcpy(name + used, ".npy", 5);
        save(name, p.heads, p.m, p.dv, p.y);
        snprintf(path, sizeof path, "%s", in_folder(name));
        a = ask_of(&p, path, NULL);
        const char *says = es_answer_finding(a, 0), *cut = strstr(says, "… agrees with attention");
        assert_non_null(cut);
        assert_above(cut - says, 50);
        assert_below(cut - says, 74);
        assert_true(es_utf8(says));
        assert_non_null(strstr(says, "you asked for full attention."));
        es_answer_free(a);
    }
    drop(&p);
}

/* One row, one element: no plural. */
static void one_is_no_plural(void **state)
{
    (void)state;
    problem p = make(1, 1, 1, 20, 16, 40, AS_F32);
    plant(&p, &(planted){.scale = 1.0}, AS_F32);
    es_answer *a = ask(&p, NULL);
    assert_non_null(strstr(es_answer_finding(a, 0), " in f32 (1 row agrees); "));
    es_answer_free(a);
    p.y[3] = (double)NAN;
    a = ask(&p, (const char *[]){"compare-dtype", "f32", NULL});
    assert_non_null(strstr(es_answer_finding(a, 0), "holds 1 element that is not finite"));
    es_answer_free(a);
    drop(&p);
}

/* Attention but for row 137 of 300, which no sample of 3 or 64 has: nothing comes nearer to that
 * row, and nothing may be called near for want of looking at it. */
static void one_row_off_is_near_nothing(void **state)
{
    (void)state;
    problem p = make(1, 1, 300, 20, 8, 4, AS_BF16);
    plant(&p, &(planted){.scale = 1.0 / sqrt(8.0)}, AS_BF16);
    p.y[137 * 4 + 1] += 4.0;
    es_answer *a = ask(&p, (const char *[]){"compare-dtype", "bf16", NULL});
    assert_equals(number(a, "row"), 137.0);
    assert_equals(number(a, "beyond"), 1.0);
    assert_string_equal(text(a, "looks_like"), "");
    assert_null(strstr(es_answer_finding(a, 0), "nearest"));
    es_answer_free(a);
    drop(&p);
}

/* ---- the table of what was tried ---- */

static int64_t row_of(const es_table *t, const char *name)
{
    for (int64_t i = 0; i < es_table_rows(t); i++)
        if (strcmp(es_table_get_text(t, i, "hypothesis"), name) == 0)
            return i;
    return -1;
}

/* Exact in f64 but for one row: a kernel in f16 may be as far off, but rounds every row. */
static void a_coarse_format_needs_coarse_rows(void **state)
{
    (void)state;
    problem p = make(1, 1, 20, 30, 16, 8, AS_F32);
    plant(&p, &(planted){.scale = 0.25}, AS_F64);
    p.y[19 * 8] += 1e-5; /* far below the 2^-11 of f16, far above f64 */
    es_answer *a = ask(&p, NULL);
    const es_table *t = es_answer_find(a, "compare_hypotheses");
    const int64_t row = row_of(t, "in-f16");
    assert_string_equal(text(a, "looks_like"), "");
    assert_at_least(row, 0);
    assert_at_most(es_table_get(t, row, "ratio"), 1.0);
    assert_string_equal(es_table_get_text(t, row, "verdict"), "not met");
    es_answer_free(a);
    drop(&p);
}

/* The one query of causal-strict has no key: that is no hypothesis, and not the nearest one. */
static void nothing_seen_is_nothing_tried(void **state)
{
    (void)state;
    problem p = make(2, 2, 1, 12, 16, 8, AS_F32);
    free(p.y);
    p.y = normals(99, 2, 8, AS_F32);
    es_answer *a = ask(&p, NULL);
    const es_table *t = es_answer_find(a, "compare_hypotheses");
    assert_below(row_of(t, "causal-strict"), 0);
    assert_at_least(row_of(t, "causal"), 0);
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        assert_above(es_table_get(t, i, "rows"), 0.0);
        assert_finite(es_table_get(t, i, "rms"));
    }
    es_answer_free(a);
    drop(&p);
}

/* Nearest first; of equals the one that was tried first. */
static void equals_keep_their_order(void **state)
{
    (void)state;
    problem p = make(2, 2, 6, 12, 16, 8, AS_F32);
    for (int64_t i = 0; i < 2 * 6 * 8; i++)
        p.y[i] = (double)NAN; /* infinitely far from everything */
    es_answer *a = ask(&p, (const char *[]){"compare-dtype", "f32", NULL});
    const es_table *t = es_answer_find(a, "compare_hypotheses");
    int64_t last = -1, coarse = 0;
    assert_above(es_table_rows(t), 20);
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        const char *name = es_table_get_text(t, i, "hypothesis"), *plus = strchr(name, '+');
        int64_t at = 0;
        while (strcmp(all_said[at].name, plus ? plus + 1 : name) != 0)
            at++;
        at += !plus ? 0 : plus == name + 6 ? ALL_SAID : 2 * ALL_SAID;
        const char *alone = plus ? plus + 1 : name;
        if ((strncmp(alone, "in-", 3) == 0 || strcmp(alone, "narrow-sums") == 0) && coarse++ == 0)
            last = -1; /* those come after all others */
        assert_above(at, last);
        last = at;
    }
    assert_above(coarse, 0);
    es_answer_free(a);
    drop(&p);
}

TEST_FILE(compare_findings)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hypothesis_has_its_sentence),
        cmocka_unit_test(findings_read_well),
        cmocka_unit_test(one_is_no_plural),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(one_row_off_is_near_nothing),
        cmocka_unit_test(a_coarse_format_needs_coarse_rows),
        cmocka_unit_test(nothing_seen_is_nothing_tried),
        cmocka_unit_test(equals_keep_their_order),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
