/* SPDX-License-Identifier: Apache-2.0 */
/* test_records.c : cells that are records: the names of their numbers in run files, and lists of
 * fields that do not describe the record. */
#include "testing.h"

#include <esscher/study.h>

#include "driver/job.h"

typedef struct cell {
    double n;
    es_measured rate;
    double weight[2];
    es_measured limit[2];
} cell;

static const es_cell_field fields[] = {ES_FIELD_AS(cell, n, "size"),
                                       ES_FIELD(cell, rate),
                                       ES_FIELD_LIST(cell, weight),
                                       ES_FIELD_LIST(cell, limit),
                                       {0}};

static const es_study study = {"records"};

static void numbers_are_named_after_members(void **state)
{
    (void)state;
    static const char *const names[] = {"size",    "rate",       "rate_se", "weight_1",  "weight_2",
                                        "limit_1", "limit_1_se", "limit_2", "limit_2_se"};
    es_job job = {.study = &study};
    assert_ok(es_job_stage(&job, &(es_stage){"cells", .rows = 1, ES_RECORD(cell, fields)}, &err));
    assert_int_equal(job.stages[0].cols, sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(job.stages[0].columns[i], names[i]);
    es_arena_free(&job.arena);
}

static void fields_must_fill_the_record(void **state)
{
    (void)state;
    static const es_cell_field missing[] = {ES_FIELD(cell, n), ES_FIELD(cell, rate), {0}};
    static const es_cell_field swapped[] = {ES_FIELD(cell, rate),
                                            ES_FIELD(cell, n),
                                            ES_FIELD_LIST(cell, weight),
                                            ES_FIELD_LIST(cell, limit),
                                            {0}};
    const es_cell_field *const wrong[] = {missing, swapped};
    for (int i = 0; i < 2; i++) {
        es_job job = {.study = &study};
        const es_stage stage = {"cells", .rows = 1, ES_RECORD(cell, wrong[i])};
        assert_int_equal(es_job_stage(&job, &stage, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "study.record");
        assert_int_equal(job.n_stages, 0);
        es_arena_free(&job.arena);
    }
}

TEST_FILE(records)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_named_after_members),
        cmocka_unit_test(fields_must_fill_the_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
