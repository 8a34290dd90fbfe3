/* SPDX-License-Identifier: Apache-2.0 */
/* test_budget_encoder.c : the study `budget` on a tiny encoder, whose queries see both sides: what
 * a run keeps is held against what the plan counts. */
#include "tiny_model.h"

#include <esscher/plan.h>
#include <esscher/study.h>

enum { LAYERS = 3, HEADS = 3, WORDS = 400 };

static tiny model;
static char text[512];

static int make_inputs(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    model = tiny_default();
    model.labels = 2;
    tiny_draw(&model);
    tiny_write(&model);
    tiny_write_vocab(&model);
    snprintf(text, sizeof text, "%s", in_folder("text"));
    FILE *f = fopen(text, "w");
    for (int w = 0; f && w < WORDS; w++)
        fprintf(f, "word%d ", TINY_FIRST_WORD + w * w * 3 % 16);
    return f && fclose(f) == 0 ? 0 : -1;
}

static int remove_inputs(void **state)
{
    tiny_free(&model);
    return remove_folder(state);
}

/* A plan from two blocks, verified on as many. */
static es_answer *ask(const char *policy, const char *ratio, const char *plan)
{
    const es_study *study = es_study_find("budget");
    const char *const given[] = {"model",         folder, "text",     text, "policy",  policy,
                                 "ratio",         ratio,  "out-plan", plan, "verify",  text,
                                 "verify-blocks", "2",    "blocks",   "2",  "context", "40"};
    es_params *p;
    es_answer *a;
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i += 2)
        assert_ok(es_params_set(p, given[i], given[i + 1], &err));
    assert_ok(es_study_run(study, p, &(es_study_opts){.seed = 3, .force = true, .exec.threads = 2},
                           &a, &err));
    es_params_free(p);
    return a;
}

/* keys_kept are the lengths of caches: no run may have more. Windows have fewer at the ends of a
 * context; who fills up what they leave has exactly as many. */
static void plans_count_what_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        bool fills;
    } cases[] = {{"window", false}, {"stream", false},  {"longformer", false},
                 {"heavy", true},   {"observe", true},  {"bigbird", true},
                 {"top", true},     {"strided", false}, {"stream,observe,heavy,top", false}};
    static const char *const ratios[] = {"0.03", "0.05", "0.1", "0.2", "0.4", "0.8"};
    char file[512];
    snprintf(file, sizeof file, "%s", in_folder("plan.json"));
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int r = 0; r < 6; r++) {
            es_answer *a = ask(cases[c].policy, ratios[r], file);
            const double kept = es_table_get(es_answer_find(a, "plan"), 0, "keys_kept"),
                         run = LAYERS * HEADS *
                               es_table_get(es_answer_find(a, "verified"), 0, "keys");
            es_plan *plan;
            if (run > kept + 1e-9 || (cases[c].fills && run < kept - 1e-9))
                fail_msg("%s at %s: %g keys are counted, and %g kept", cases[c].policy, ratios[r],
                         kept, run);
            assert_ok(es_plan_load(file, NULL, &plan, &err));
            assert_near(plan->keys_kept, kept, 0.0);
            es_plan_free(plan);
            es_answer_free(a);
        }
}

/* Two labels of two that stay say little: Wilson's interval is [.342, 1], and its half over 1.96 is
 * the error. */
static void all_of_a_few_labels_have_an_error(void **state)
{
    (void)state;
    es_answer *a = ask("top", "1", in_folder("all.json"));
    const es_table *v = es_answer_find(a, "verified");
    assert_near(es_table_get(v, 0, "agreement"), 1.0, 0.0);
    assert_near(es_table_get(v, 0, "agreement_se"), 0.5 * (1.0 - 0.34238) / 1.95996, 1e-5);
    es_answer_free(a);
}

TEST_FILE(budget_encoder)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_count_what_is_kept),
                                       cmocka_unit_test(all_of_a_few_labels_have_an_error)};
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
