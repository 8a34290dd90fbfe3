/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_cautions.c : how much text there is in a text, against brute force; and what `probe`
 * says of texts that are hardly one. */
#include "testing.h"

#include <math.h>
#include <string.h>

#include <esscher/study.h>

#include "tiny_pool.h"

/* ---- facts ---- */

/* Ids as one block without specials of its own: the tokenizer's [CLS] and [SEP] around them. */
static es_text_facts facts_of(const int32_t *ids, int64_t count)
{
    es_text_facts out;
    int32_t *all = malloc((size_t)(count + 2) * sizeof *all);
    int64_t start[2] = {0, count + 2};
    all[0] = TINY_CLS, all[count + 1] = TINY_SEP;
    memcpy(all + 1, ids, (size_t)count * sizeof *ids);
    const es_blocks blocks = {.ids = all, .start = start, .count = 1};
    assert_ok(es_blocks_facts(&blocks, tokenizer, &out, &err));
    free(all);
    return out;
}

/* Every stretch against all before it. */
static double repeated_of(const int32_t *ids, int64_t count)
{
    int64_t repeats = 0;
    for (int64_t i = 0; i + ES_TEXT_STRETCH <= count; i++) {
        bool found = false;
        for (int64_t j = 0; j < i && !found; j++)
            found = memcmp(ids + i, ids + j, ES_TEXT_STRETCH * sizeof *ids) == 0;
        repeats += found;
    }
    return (double)repeats / (double)(count - ES_TEXT_STRETCH + 1);
}

static int32_t next_id(uint64_t *seed, int32_t most)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int32_t)((*seed >> 33) % (uint64_t)most);
}

static void repeats_are_those_of_brute_force(void **state)
{
    (void)state;
    enum { COUNT = 1500 };
    int32_t ids[COUNT];
    uint64_t seed = 1;
    for (int i = 0; i < COUNT; i++) /* two kinds of tokens, and now and then a passage again */
        ids[i] = i % 500 > 300 ? ids[i - 290] : next_id(&seed, 2);
    es_text_facts got = facts_of(ids, COUNT);
    int64_t unknown = 0;
    for (int i = 0; i < COUNT; i++)
        unknown += ids[i] == 1; /* [UNK] of the vocabulary */
    assert_int_equal(got.tokens, COUNT);
    assert_int_equal(got.unknown, unknown);
    assert_near(got.repeated, repeated_of(ids, COUNT), 1e-12);
    assert_between(got.repeated, 0.2, 0.6);
    got = facts_of(ids, ES_TEXT_STRETCH - 1); /* not one stretch */
    assert_equals(got.repeated, 0.0);
}

/* 400000 different stretches, then 200000 of them again: a third, less the 15 stretches that lie
 * across. Every 2^3-th is held, some 50000: the share that is new is known to 1/sqrt(50000) of
 * itself times sqrt(7/8), 0.42 %; 4 of these. */
static void repeats_of_long_texts_are_estimated(void **state)
{
    (void)state;
    enum { COUNT = 600000 };
    int32_t *ids = malloc(COUNT * sizeof *ids);
    uint64_t seed = 2;
    for (int i = 0; i < COUNT; i++)
        ids[i] = i < 400000 ? next_id(&seed, 30000) : ids[i - 400000];
    const es_text_facts got = facts_of(ids, COUNT);
    assert_near(got.repeated, 1.0 / 3.0, 4.0 * 0.0042 * 2.0 / 3.0);
    free(ids);
}

/* ---- sentences ---- */

static es_answer *probe(const char *text, const char *n)
{
    const es_study *study = es_study_find("probe");
    es_params *p;
    es_answer *a;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, text);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    assert_ok(es_params_set(p, "model", folder, &err));
    assert_ok(es_params_set(p, "text", path, &err));
    assert_ok(es_params_set(p, "n", n, &err));
    assert_ok(es_params_set(p, "replicates", "3", &err));
    assert_ok(es_params_set(p, "control", "0", &err));
    assert_ok(es_params_set(p, "query-count", "16", &err));
    assert_ok(es_params_set(p, "exact-queries", "8", &err));
    assert_ok(es_study_run(study, p, &(es_study_opts){.seed = 3}, &a, &err));
    es_params_free(p);
    return a;
}

/* The number of the finding that begins with "Caution:" and says `what`; -1: there is none. */
static int64_t caution(const es_answer *a, const char *what)
{
    for (int64_t i = 0; es_answer_finding(a, i); i++)
        if (strncmp(es_answer_finding(a, i), "Caution: ", 9) == 0 &&
            strstr(es_answer_finding(a, i), what))
            return i;
    return -1;
}

static double of_pool(const es_answer *a, const char *key)
{
    return es_table_get(es_answer_find(a, "pools"), 0, key);
}

static void a_text_is_taken_as_it_is(void **state)
{
    (void)state;
    static int32_t ids[3000];
    write_words("text", 5, 3000, ids);
    es_answer *a = probe("text", "20,50,100");
    assert_int_equal(caution(a, ""), -1);
    assert_equals(of_pool(a, "unknown"), 0.0);
    assert_equals(of_pool(a, "repeated"), 0.0);
    es_answer_free(a);
}

/* 2000 words, `of_ten` of 10 none of the vocabulary. */
static void write_greek(int of_ten)
{
    FILE *file = fopen(in_folder("greek"), "w");
    uint64_t seed = 4;
    assert_non_null(file);
    for (int i = 0; i < 2000; i++)
        if (i % 10 < of_ten)
            fprintf(file, "xyz ");
        else
            fprintf(file, "word%d ", TINY_FIRST_WORD + next_id(&seed, 31 - TINY_FIRST_WORD));
    assert_int_equal(fclose(file), 0);
}

static void unknown_tokens_are_told_first(void **state)
{
    (void)state;
    write_greek(6);
    es_answer *a = probe("greek", "20,50,100");
    assert_int_equal(caution(a, "60 % of the text is unknown"), 0);
    assert_int_equal(caution(a, "(1200 of 2000 tokens are [UNK])"), 0);
    assert_near(of_pool(a, "unknown"), 0.6, 1e-12);
    es_answer_free(a);
    write_greek(1);
    a = probe("greek", "20,50,400"); /* 2000 words, and specials of 53 blocks of 38: 2106 */
    assert_above(caution(a, "10 % of the text is unknown"), 0); /* after the answer */
    assert_above(caution(a, "n up to 400 is 19 % of the pool"), 0);
    es_answer_free(a);
}

/* Computes the distance between the pool's halves over the error measured at the largest n, from
 * the tables: least, median and largest of the heads, in per cent. */
static void pool_errors_of(const es_answer *a, double out[3])
{
    const es_table *heads = es_answer_find(a, "heads"), *rows = es_answer_find(a, "rows");
    const int64_t count = es_table_rows(heads), sizes = es_table_rows(rows) / count;
    double at[16];
    assert_at_most(count, 16);
    for (int64_t i = 0; i < count; i++) { /* each to its place */
        const double x = 100.0 * es_table_get(heads, i, "map_error_limit") /
                         es_table_get(rows, (i + 1) * sizes - 1, "map_error");
        int64_t j = i;
        for (; j > 0 && at[j - 1] > x; j--)
            at[j] = at[j - 1];
        at[j] = x;
    }
    out[0] = at[0], out[2] = at[count - 1];
    out[1] = 0.5 * (at[(count - 1) / 2] + at[count / 2]);
}

/* Every 50 words or so the text has another subject, mostly one word: its tokens are worth fewer
 * independent ones. As independent ones their pool would be off by sqrt(400/2106), 44 %. */
static void the_pools_own_error_is_measured(void **state)
{
    (void)state;
    FILE *file = fopen(in_folder("subjects"), "w");
    char want[200];
    uint64_t seed = 5;
    assert_non_null(file);
    for (int i = 0, subject = 0; i < 2000; i++) {
        subject = i % 50 ? subject : next_id(&seed, 15);
        fprintf(file, "word%d ", TINY_FIRST_WORD + (i % 3 ? subject : next_id(&seed, 15)));
    }
    assert_int_equal(fclose(file), 0);
    es_answer *a = probe("subjects", "20,50,400");
    double off[3];
    pool_errors_of(a, off);
    assert_above(off[0], 44.0); /* every head is off by more */
    assert_above(off[1], 60.0);
    snprintf(want, sizeof want,
             "the pool's 2106 tokens. The limit of the pool differs from the text's by about %.0f "
             "%% of the error at that n (from the pool's halves, median)",
             off[1]);
    assert_above(caution(a, want), 0);
    es_answer_free(a);
}

/* A line of 10 tokens: of 10000 - 15 stretches 10 differ. */
static void a_line_again_and_again(void **state)
{
    (void)state;
    FILE *file = fopen(in_folder("again"), "w");
    for (int i = 0; i < 1000; i++)
        fprintf(file, "the cat sat on word16 word17 word18 word19 word20 .\n");
    assert_int_equal(fclose(file), 0);
    es_answer *a = probe("again", "20,50,100");
    assert_near(of_pool(a, "repeated"), 1.0 - 10.0 / 9985.0, 1e-12);
    assert_above(caution(a, "99.9 % of the text repeats earlier parts"), 0);
    assert_above(caution(a, "its 10000 tokens are worth about 11 tokens of new text"), 0);
    es_answer_free(a);
}

static void two_lines(void **state)
{
    (void)state;
    const char *text = "the cat sat on the mat.\nthe mat, the cat.\n";
    write_file("two", text, strlen(text));
    es_answer *a = probe("two", "4,8,16"); /* 13 tokens, and [CLS] and [SEP] */
    assert_above(caution(a, "15 tokens of the text were read"), 0);
    assert_above(caution(a, "n up to 16 is more than the pool's 15 tokens"), 0);
    assert_string_equal(es_table_get_text(es_answer_find(a, "classes"), 0, "meaning"),
                        "11 or more tokens share the weight"); /* two thirds of 16 */
    const es_table *heads = es_answer_find(a, "heads");
    for (int64_t i = 0; i < es_table_rows(heads); i++) {
        const double needs = es_table_get(heads, i, "tokens_for_tenth");
        const bool any = strcmp(es_table_get_text(heads, i, "tokens_for_tenth_sign"), "any") == 0;
        if (any)
            assert_nan(needs);
        else
            assert_at_least(needs, 1.0);
    }
    es_answer_free(a);
}

/* Scores of some size, so that outputs differ from one token to the next; one layer is enough. */
static int make_sharp_model(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    tiny_of_pool = tiny_default();
    tiny_of_pool.layers = 1;
    tiny_draw(&tiny_of_pool);
    double *w = (double *)(uintptr_t)tiny_find(&tiny_of_pool, "",
                                               "encoder.layer.0.attention.self.query.weight");
    for (int i = 0; i < 12 * 12; i++)
        w[i] *= 16.0;
    open_model_of(&tiny_of_pool);
    return 0;
}

TEST_FILE(probe_cautions)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(repeats_are_those_of_brute_force),
                                       cmocka_unit_test(repeats_of_long_texts_are_estimated),
                                       cmocka_unit_test(a_text_is_taken_as_it_is),
                                       cmocka_unit_test(unknown_tokens_are_told_first),
                                       cmocka_unit_test(the_pools_own_error_is_measured),
                                       cmocka_unit_test(a_line_again_and_again),
                                       cmocka_unit_test(two_lines)};
    return cmocka_run_group_tests(tests, make_sharp_model, remove_model_folder);
}
