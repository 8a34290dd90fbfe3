/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include <locale.h>

#include "base/decimal.h"
#include "store/csv.h"
#include "store/csv_text.h"

static es_csv table;

static es_status parse(const char *text)
{
    return es_csv_parse(text, strlen(text), "t.csv", NULL, &table, &err);
}

static void plain_tables_are_read(void **state)
{
    (void)state;
    static const char *const same[] = {"context,loss\n1,5.5\n2,4.25\n",
                                       "context,loss\r\n1,5.5\r\n2,4.25",
                                       ("\xef\xbb\xbf" /* "c" would be a digit of it */
                                        "context,loss\n1,5.5\n2,4.25\n\n\n"),
                                       "\"context\",\"loss\"\n1,5.5\n2,4.25\n",
                                       " context ,\tloss\n +1.0e0 , 55e-1\n\"2\" ,4.25 \n"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_ok(parse(same[i]));
        assert_int_equal(table.rows, 2);
        assert_int_equal(table.cols, 2);
        assert_int_equal(es_csv_column(&table, "loss"), 1);
        assert_int_equal(es_csv_column(&table, "se"), -1);
        assert_equals(table.data[0], 1.0);
        assert_equals(table.data[1], 5.5);
        assert_equals(table.data[2], 2.0);
        assert_equals(table.data[3], 4.25);
        es_csv_free(&table);
    }
    assert_ok(parse("\"say \"\"c\"\"\"\n-.5\n"));
    assert_string_equal(table.names[0], "say \"c\"");
    assert_equals(table.data[0], -0.5);
    es_csv_free(&table);
}

static void everything_else_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *rule;
        int64_t line, field;
        es_status status;
    } bad[] = {{"", "csv.header", 1, 1, ES_E_FORMAT},
               {"1,2\n3,4\n", "csv.header", 1, 1, ES_E_FORMAT},
               {"a,\n", "csv.header", 1, 2, ES_E_FORMAT},
               {"a,a\n1,2\n", "csv.header", 1, 2, ES_E_FORMAT},
               {"a,b\n", "csv.rows", 2, 1, ES_E_EMPTY},
               {"a,b\n1\n", "csv.fields", 2, 1, ES_E_FORMAT},
               {"a,b\n1,2\n1,2,3\n", "csv.fields", 3, 2, ES_E_FORMAT},
               {"a,b\n1,\n", "csv.number", 2, 2, ES_E_FORMAT},
               {"a,b\n1,nan\n", "csv.number", 2, 2, ES_E_FORMAT},
               {"a,b\n1,inf\n", "csv.number", 2, 2, ES_E_FORMAT},
               {"a,b\n1,1e999\n", "csv.number", 2, 2, ES_E_FORMAT},
               {"a,b\n0x10,1\n", "csv.number", 2, 1, ES_E_FORMAT},
               {"a,b\n1 000,1\n", "csv.number", 2, 1, ES_E_FORMAT},
               {"a,b\n1,2x\n", "csv.number", 2, 2, ES_E_FORMAT},
               {"a,b\n1,2\n\n3,4\n", "csv.blank", 4, 1, ES_E_FORMAT},
               {"a\n\n1\n", "csv.table", 1, 1, ES_E_FORMAT},
               {"a b c\nd\n", "csv.table", 1, 1, ES_E_FORMAT},
               {"a,\"b\n1,2\n", "csv.quote", 1, 2, ES_E_FORMAT},
               {"a,\"b\"x\n1,2\n", "csv.quote", 1, 2, ES_E_FORMAT}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse(bad[i].text), bad[i].status);
        if (strcmp(err.rule, bad[i].rule) != 0 || err.row != bad[i].line || err.col != bad[i].field)
            fail_msg("case %d: %s at line %d, field %d: %s", (int)i, err.rule, (int)err.row,
                     (int)err.col, err.message);
        assert_null(table.data);
        es_csv_free(&table);
    }
    assert_int_equal(es_csv_parse("a\n1\0\n", 5, "t.csv", NULL, &table, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "csv.nul");
    es_mem_limit little = {.limit = 8};
    assert_int_equal(es_csv_parse("a\n1\n2\n3\n", 8, "t.csv", &little, &table, &err), ES_E_LIMIT);
    assert_int_equal(little.used, 0);
}

static void CL01_a_comma_locale_reads_and_writes_points(void **state)
{
    (void)state;
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "pl_PL.UTF-8"};
    bool found = false;
    for (size_t i = 0; i < 4 && !found; i++)
        found = setlocale(LC_NUMERIC, commas[i]) != NULL;
    if (!found) { /* make one, if there is what it is made of */
        char command[1024];
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
                 folder);
        found = system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
                setlocale(LC_NUMERIC, commas[0]) != NULL;
    }
    if (!found)
        skip_test("no locale with decimal commas, nor the means to make one (Debian package "
                  "locales)");
    assert_string_equal(localeconv()->decimal_point, ",");
    assert_ok(parse("a\n1.5\n"));
    char number[ES_DECIMAL_SIZE];
    es_decimal_write(0.2, number);
    setlocale(LC_NUMERIC, "C");
    snprintf(path_of_file, sizeof path_of_file, "rm -rf '%s/de_DE.UTF-8'", folder);
    assert_int_equal(system(path_of_file), 0);
    assert_equals(table.data[0], 1.5);
    assert_string_equal(number, "0.2");
    es_csv_free(&table);
}

static void files_that_are_none(void **state)
{
    (void)state;
    assert_int_equal(es_csv_load("no such file.csv", NULL, &table, &err), ES_E_IO);
    assert_int_equal(es_csv_load(".", NULL, &table, &err), ES_E_IO); /* ST29's like */
    assert_int_equal(es_csv_load("/dev/zero", NULL, &table, &err), ES_E_IO);
    es_csv_free(&table);
}

TEST_FILE(csv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_tables_are_read),
        cmocka_unit_test(everything_else_is_refused_with_its_place),
        optional_test(CL01_a_comma_locale_reads_and_writes_points),
        cmocka_unit_test(files_that_are_none),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
