/* SPDX-License-Identifier: Apache-2.0 */
/* test_typed_rows.c : rows that are structs: every type of member reaches JSON and CSV, unset
 * members do not, and mistakes that a compiler cannot see are failures of the answer. */
#include "testing.h"
#include "table/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/table.h>

typedef struct row {
    int64_t n;
    int layer;
    bool good;
    double value;
    es_measured rate;
    const char *word;
    es_numbers list;
    double *each;
    es_measured pair[2];
    double hidden;      /* a column that no row sets */
    int64_t hidden_too; /* likewise */
    const char *no_text;
    struct {
        double low;
    } nested;
    int internal; /* no column */
} row;

static const es_column columns[] = {
    ES_COL(row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(row, good, ES_FORMAT_FLAG, "good", ""),
    ES_COL(row, value, ES_FORMAT_REAL, "value", "", "a number", .standing = ES_STANDING_PROVED),
    ES_COL(row, rate, ES_FORMAT_REAL, "rate", ""),
    ES_COL(row, word, ES_FORMAT_TEXT, "word", ""),
    ES_COL(row, list, ES_FORMAT_REAL, "list", ""),
    ES_COL(row, each, ES_FORMAT_REAL, "each", ""),
    ES_COL_LIST(row, pair, ES_FORMAT_REAL, "pair", ""),
    ES_COL(row, hidden, ES_FORMAT_REAL, "hidden", ""),
    ES_COL(row, hidden_too, ES_FORMAT_COUNT, "hidden too", ""),
    ES_COL(row, no_text, ES_FORMAT_TEXT, "no text", ""),
    ES_COL(row, nested.low, ES_FORMAT_REAL, "low", ""),
    {0}};
static const es_table_spec spec = {"rows", columns, NULL, ES_ROW(row), .keys = "n"};

/* An answer with its table and the labels of the columns that have some. */
static es_answer *new_answer(es_table **table)
{
    es_answer *answer;
    assert_ok(es_answer_new(NULL, &answer, &err));
    *table = es_answer_table(answer, &spec);
    es_table_each(*table, "each", (const char *const[]){"a", "b", "c"}, 3);
    es_table_each(*table, "pair", (const char *const[]){"x", "y"}, 2);
    return answer;
}

static void fill(es_table *t, row *r, int64_t n)
{
    const double numbers[4] = {1.0, 2.0, NAN, 4.0};
    r->n = n;
    r->layer = 3;
    r->good = n % 2 == 0;
    r->value = (double)n + 0.5;
    r->rate = (es_measured){0.25, 0.125};
    r->word = es_table_format(t, "word %d", (int)n);
    r->list = es_table_numbers(t, numbers, 2, 2);
    for (int i = 0; i < 3; i++)
        r->each[i] = 10.0 * (double)n + i;
    r->pair[1] = (es_measured){7.0, 0.5};
    r->nested.low = NAN; /* known to be missing, which is not unset */
}

typedef struct text {
    char bytes[65536];
    size_t used;
} text;

static bool append(void *user, const char *bytes, size_t count)
{
    text *to = user;
    if (to->used + count >= sizeof to->bytes)
        return false;
    memcpy(to->bytes + to->used, bytes, count);
    to->used += count;
    to->bytes[to->used] = '\0';
    return true;
}

static void every_type_reaches_csv(void **state)
{
    (void)state;
    static text out;
    out.used = 0;
    es_table *t;
    es_answer *answer = new_answer(&t);
    for (int64_t n = 1; n <= 2; n++)
        fill(t, es_rows_add(t, row), n);
    assert_ok(es_answer_write(answer, ES_ANSWER_CSV, NULL, append, &out, &err));
    assert_string_equal(
        out.bytes,
        "n,layer,good,value,rate,rate_se,word,list,nested.low,each_a,each_b,each_c,pair_y,"
        "pair_se_y\n"
        "1,3,false,1.5,0.25,0.125,word 1,\"[[1.0, 2.0], [null, 4.0]]\",,10,11,12,7,0.5\n"
        "2,3,true,2.5,0.25,0.125,word 2,\"[[1.0, 2.0], [null, 4.0]]\",,20,21,22,7,0.5\n");
    es_answer_free(answer);
}

static void unset_members_have_no_column(void **state)
{
    (void)state;
    es_table *t;
    es_table_column c;
    es_answer *answer = new_answer(&t);
    fill(t, es_rows_add(t, row), 1);
    assert_false(es_table_find(t, "hidden", &c));
    assert_false(es_table_find(t, "hidden_too", &c));
    assert_false(es_table_find(t, "no_text", &c));
    assert_false(es_table_find(t, "pair.0", &c));
    assert_true(es_table_find(t, "nested.low", &c)); /* NaN was assigned */
    assert_nan(es_column_real(&c, 0));
    row *r = es_rows_add(t, row);
    assert_true(es_is_unset(r->value) && es_is_unset(r->rate.se));
    assert_int_equal(r->n, ES_UNSET_COUNT);
    assert_int_equal(r->internal, 0);
    assert_true(es_table_find(t, "value", &c));
    assert_nan(es_column_real(&c, 1));
    assert_false(es_is_unset(es_column_real(&c, 1)));
    assert_null(es_column_text(&c, 1)); /* a column of numbers has no texts */
    assert_true(es_table_find(t, "rate", &c));
    assert_string_equal(c.error, "rate_se");
    assert_ok(es_answer_status(answer, &err));
    es_answer_free(answer);
}

/* The array of rows moves as it grows; lists of a row belong to it alone. */
static void many_rows_keep_their_values(void **state)
{
    (void)state;
    enum { ROWS = 1000 };
    es_table *t;
    es_answer *answer = new_answer(&t);
    for (int64_t n = 0; n < ROWS; n++)
        fill(t, es_rows_add(t, row), n);
    const row *rows = es_rows(t, row);
    assert_int_equal(es_table_rows(t), ROWS);
    for (int64_t n = 0; n < ROWS; n++) {
        assert_int_equal(rows[n].n, n);
        assert_equals(rows[n].each[2], 10.0 * (double)n + 2.0);
        assert_equals(es_table_get(t, n, "each.1"), 10.0 * (double)n + 1.0);
    }
    assert_string_equal(es_table_get_text(t, 999, "word"), "word 999");
    es_answer_free(answer);
}

/* The same table may be filled by key: the program, Python and run files do. */
static void keys_reach_the_members(void **state)
{
    (void)state;
    es_table *t;
    es_answer *answer = new_answer(&t);
    const int64_t at = es_table_row(t);
    es_table_count(t, at, "n", 12);
    es_table_real(t, at, "rate_se", 0.5);
    es_table_real(t, at, "each.1", 4.0);
    es_table_real(t, at, "good", 1.0);
    es_table_text(t, at, "word", "by key");
    const row *r = es_rows(t, row);
    assert_int_equal(r->n, 12);
    assert_equals(r->rate.se, 0.5);
    assert_equals(r->each[1], 4.0);
    assert_true(r->good);
    assert_string_equal(r->word, "by key");
    assert_ok(es_answer_status(answer, &err));
    es_answer_free(answer);
}

static void mistakes_are_failures_of_the_answer(void **state)
{
    (void)state;
    typedef struct other {
        double one;
    } other;
    es_table *t;
    es_answer *answer = new_answer(&t);
    assert_null(es_rows_add(t, other));
    assert_int_equal(es_answer_status(answer, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "table.row");
    (es_answer_free)(answer);

    assert_ok(es_answer_new(NULL, &answer, &err));
    t = es_answer_table(answer, &spec);
    es_table_each(t, "pair", (const char *const[]){"x", "y", "z"}, 3); /* two elements */
    assert_int_equal(es_answer_status(answer, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "table.labels");
    assert_null(es_rows_add(t, row));
    (es_answer_free)(answer);
}

TEST_FILE(typed_rows)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_reaches_csv),
        cmocka_unit_test(unset_members_have_no_column),
        cmocka_unit_test(many_rows_keep_their_values),
        cmocka_unit_test(keys_reach_the_members),
        cmocka_unit_test(mistakes_are_failures_of_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
