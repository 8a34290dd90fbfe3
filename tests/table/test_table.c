/* SPDX-License-Identifier: Apache-2.0 */
/* test_table.c : answers: what is put is what every view shows. Expected texts are written by hand.
 */
#include "testing.h"
#include "table/table.h"

#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include <esscher/table.h>

static const es_column columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"name", "name", "", ES_FORMAT_TEXT},
    {"error", "error", "nats", ES_FORMAT_REAL, "how far off", .error = "error_se"},
    {"predicted.rate", "rate", "", ES_FORMAT_SHORT, .standing = ES_STANDING_PROVED},
    {"rate_ci.0", "from", "", ES_FORMAT_REAL},
    {"rate_ci.1", "to", "", ES_FORMAT_REAL},
    {"mass", "mass of", "", ES_FORMAT_REAL, .each = true, .error = "mass_se",
     .standing = ES_STANDING_NUMERICAL},
    {"sure", "sure", "", ES_FORMAT_FLAG},
    {"never", "never", "", ES_FORMAT_REAL, .standing = ES_STANDING_CITED},
    {0}};
static const es_table_view views[] = {
    {"Errors", "name error sure", "A note."}, {"Masses", "layer mass"}, {0}};
static const es_table_spec spec = {"rows",          columns,          views, .inside = "layers",
                                   .link = "layer", .nested = "heads"};

static const es_column layer_columns[] = {{"layer", "layer", "", ES_FORMAT_COUNT}, {0}};
static const es_table_spec layers = {"layers", layer_columns, NULL};

static es_answer *make(void)
{
    static const char *const labels[] = {"1", "5"};
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_name(a, "test", 7);
    es_answer_text(a, "law", "gauss\"ian\n\xff");
    es_table *l = es_answer_table(a, &layers), *t = es_answer_table(a, &spec);
    es_table_each(t, "mass", labels, 2);
    for (int64_t i = 0; i < 3; i++) {
        if (i < 2)
            es_table_count(l, es_table_row(l), "layer", i);
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "layer", i / 2);
        es_table_text(t, row, "name", i == 1 ? NULL : i ? "c|d" : "a,\"b\"");
        es_table_real(t, row, "error", i == 2 ? (double)NAN : 0.125 * (double)(i + 1));
        es_table_real(t, row, "error_se", 0.012);
        es_table_real(t, row, "predicted.rate", 0.5);
        es_table_real(t, row, "rate_ci.0", -1.0);
        es_table_real(t, row, "rate_ci.1", 2.0);
        es_table_real(t, row, "mass.0", 0.25);
        es_table_real(t, row, "mass.1", 0.75);
        es_table_real(t, row, "mass_se.0", 0.01);
        es_table_real(t, row, "sure", i == 0);
    }
    es_answer_reals(a, "map", (const double[]){1.0, 0.1}, 2);
    es_answer_count(a, "n", INT64_C(1) << 60);
    es_answer_flag(a, "nested", true);
    es_answer_real(a, "none", (double)NAN);
    es_answer_matrix(a, "cov", (const double[]){1.0, 2.0, 3.0, 4.0}, 2, 2);
    es_answer_add_finding(a, "It is %d.", 42);
    es_answer_provenance_list(a, "argv", (const char *const[]){"converge", "--n"}, 2);
    assert_ok(es_answer_status(a, &err));
    return a;
}

typedef struct text {
    char bytes[8192];
    size_t used, most;
} text;

static bool collect(void *user, const char *bytes, size_t count)
{
    text *t = user;
    if (t->used + count >= t->most)
        return false;
    memcpy(t->bytes + t->used, bytes, count);
    t->bytes[t->used += count] = '\0';
    return true;
}

static const char *write_as(const es_answer *a, es_answer_form form, text *t)
{
    *t = (text){.most = sizeof t->bytes};
    assert_ok(es_answer_write(a, form, &(es_answer_opts){.table = "rows"}, collect, t, &err));
    return t->bytes;
}

static void csv_has_every_column_once(void **state)
{
    (void)state;
    text t;
    es_answer *a = make();
    assert_string_equal(write_as(a, ES_ANSWER_CSV, &t),
                        "layer,name,error,error_se,predicted.rate,rate_ci.0,rate_ci.1,sure,mass_1,"
                        "mass_se_1,mass_5\n"
                        "0,\"a,\"\"b\"\"\",0.125,0.012,0.5,-1,2,true,0.25,0.01,0.75\n"
                        "0,,0.25,0.012,0.5,-1,2,false,0.25,0.01,0.75\n"
                        "1,c|d,,0.012,0.5,-1,2,false,0.25,0.01,0.75\n");
    es_answer_free(a);
}

/* Read by a strict parser that is not ours. */
static void json_nests_and_keeps_every_digit(void **state)
{
    (void)state;
    text t;
    es_answer *a = make();
    json_error_t where;
    json_t *j = json_loads(write_as(a, ES_ANSWER_JSON, &t), JSON_REJECT_DUPLICATES, &where);
    if (!j)
        fail_msg("%s: %s", where.text, t.bytes);
    const json_t *row = json_array_get(json_object_get(j, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(j, "law")), "gauss\"ian\\x0a\\xff");
    assert_string_equal(json_string_value(json_object_get(row, "name")), "a,\"b\"");
    assert_true(json_is_integer(json_object_get(row, "layer")));
    assert_equals(json_real_value(json_object_get(json_object_get(row, "predicted"), "rate")), 0.5);
    assert_equals(json_real_value(json_array_get(json_object_get(row, "rate_ci"), 1)), 2.0);
    assert_equals(json_real_value(json_array_get(json_object_get(row, "mass"), 1)), 0.75);
    assert_true(json_is_true(json_object_get(row, "sure")));
    assert_null(json_object_get(row, "never"));
    assert_null(json_object_get(json_array_get(json_object_get(j, "rows"), 1), "name"));
    assert_true(
        json_is_null(json_object_get(json_array_get(json_object_get(j, "rows"), 2), "error")));
    const json_t *first = json_array_get(json_object_get(j, "layers"), 0);
    assert_int_equal(json_array_size(json_object_get(first, "heads")), 2);
    assert_int_equal(json_integer_value(json_object_get(j, "n")), INT64_C(1) << 60);
    assert_equals(json_real_value(json_array_get(json_object_get(j, "map"), 1)), 0.1);
    assert_true(json_is_null(json_object_get(j, "none")));
    const json_t *cov = json_object_get(j, "cov");
    assert_equals(json_real_value(json_array_get(json_array_get(cov, 1), 0)), 3.0);
    assert_int_equal(json_integer_value(json_object_get(j, "seed")), 7);
    assert_string_equal(json_string_value(json_array_get(json_object_get(j, "findings"), 0)),
                        "It is 42.");
    const json_t *standing = json_object_get(json_object_get(j, "standing"), "rows");
    assert_int_equal(json_object_size(standing), 2); /* "never" has no value, and is not there */
    assert_string_equal(json_string_value(json_object_get(standing, "predicted.rate")), "proved");
    assert_string_equal(json_string_value(json_object_get(standing, "mass")), "numerical");
    json_decref(j);
    es_answer_free(a);
}

static void people_get_sentences_then_tables(void **state)
{
    (void)state;
    text t;
    es_answer *a = make();
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, &t), "It is 42.\n"
                                                         "\n"
                                                         "Errors\n"
                                                         "name           error  sure\n"
                                                         "                nats\n"
                                                         "a,\"b\"  0.125 ± 0.012   yes\n"
                                                         "-      0.250 ± 0.012    no\n"
                                                         "c|d                -    no\n"
                                                         "  error: how far off\n"
                                                         "  ±: one standard error\n"
                                                         "  A note.\n"
                                                         "\n"
                                                         "Masses\n"
                                                         "layer      mass of 1  mass of 5\n"
                                                         "    0  0.250 ± 0.010       0.75\n"
                                                         "    0  0.250 ± 0.010       0.75\n"
                                                         "    1  0.250 ± 0.010       0.75\n"
                                                         "  mass of: [numerical]\n"
                                                         "  ±: one standard error\n");
    assert_non_null(strstr(write_as(a, ES_ANSWER_MARKDOWN, &t), "| c\\|d |"));
    es_table_show(es_answer_table(a, &spec), (const char *const[]){"Masses", NULL});
    assert_null(strstr(write_as(a, ES_ANSWER_TEXT, &t), "Errors"));
    es_answer_free(a);
}

static void mistakes_are_kept_and_told(void **state)
{
    (void)state;
    text t = {.most = 16};
    es_answer *a = make();
    assert_int_equal(es_answer_write(a, ES_ANSWER_JSON, NULL, collect, &t, &err), ES_E_IO);
    assert_int_equal(
        es_answer_write(a, ES_ANSWER_CSV, &(es_answer_opts){.table = "x"}, collect, &t, &err),
        ES_E_ARGUMENT);
    es_table *rows = es_answer_table(a, &spec);
    es_table_real(rows, 0, "eror", 1.0);
    es_table_real(rows, 0, "error", 5.0); /* after a mistake nothing arrives */
    assert_int_equal(es_answer_status(a, &err), ES_E_ARGUMENT);
    assert_non_null(strstr(err.message, "eror"));
    assert_equals(es_table_get(rows, 0, "error"), 0.125);
    (es_answer_free)(a);
    a = make();
    es_table_text(es_answer_table(a, &spec), 0, "error", "no number"); /* the wrong kind */
    assert_int_equal(es_answer_status(a, &err), ES_E_ARGUMENT);
    (es_answer_free)(a);
    es_mem_limit tight = {.limit = 40000};
    assert_ok(es_answer_new(&tight, &a, &err));
    es_table *t2 = es_answer_table(a, &layers);
    for (int i = 0; i < 100000; i++)
        es_table_count(t2, es_table_row(t2), "layer", i);
    assert_int_equal(es_answer_status(a, &err), ES_E_LIMIT);
    (es_answer_free)(a);
    assert_int_equal(tight.used, 0);
}

/* Reading a column that the table does not have is a mistake too, where a row without a value, a
 * row that is not there and a column that nobody filled are none. */
static void misspelt_keys_are_mistakes_of_readers(void **state)
{
    (void)state;
    es_answer *a = make();
    es_table *rows = es_answer_table(a, &spec);
    assert_nan(es_table_get(rows, es_table_row(rows), "error"));
    assert_nan(es_table_get(rows, 1000, "error"));
    assert_nan(es_table_get(rows, -1, "error"));
    assert_nan(es_table_get(rows, 0, "never"));
    assert_ok(es_answer_status(a, &err));
    assert_nan(es_table_get(rows, 0, "eror"));
    assert_int_equal(es_answer_status(a, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "table.column");
    assert_non_null(strstr(err.message, "eror"));
    (es_answer_free)(a);
    a = make();
    assert_string_equal(es_table_get_text(es_answer_table(a, &spec), 0, "error"), "");
    assert_int_equal(es_answer_status(a, &err), ES_E_ARGUMENT); /* of numbers, not of text */
    (es_answer_free)(a);
}

TEST_FILE(table)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_has_every_column_once),
        cmocka_unit_test(json_nests_and_keeps_every_digit),
        cmocka_unit_test(people_get_sentences_then_tables),
        cmocka_unit_test(mistakes_are_kept_and_told),
        cmocka_unit_test(misspelt_keys_are_mistakes_of_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
