/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_runs.c : studies that run a model by a plan. downstream on a tiny classifier, in which
 * every head keeps another number of keys, against plain loops; sparse, head by head, against the
 * policies of the plan asked for one by one; loss on models/pebble against the forward pass itself;
 * what is refused. */
#include "tiny_model.h"

#include <esscher/npy.h>
#include <esscher/plan.h>
#include <esscher/study.h>

#include "experiments/loss/loss.h"
#include "model/model.h"
#include "model/plan.h"
#include "random/experiment.h"

enum { TEXTS = 24, LABELS = 3, MOST = 12, HIDDEN = 12, LAYERS = 3, HEADS = 3, CONTEXT = 14 };

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";
static tiny model;
static char tasks[512], text[512], plan_file[512];
static int32_t ids[TEXTS][MOST + 2];
static int64_t lengths[TEXTS];

/* Texts of 3 to 12 words that are one token each, so that ids are known without a tokenizer. */
static int make_inputs(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    model = tiny_default();
    model.labels = LABELS;
    tiny_draw(&model);
    tiny_write(&model);
    tiny_write_vocab(&model);
    snprintf(tasks, sizeof tasks, "%s", in_folder("tasks.tsv"));
    snprintf(text, sizeof text, "%s", in_folder("text"));
    snprintf(plan_file, sizeof plan_file, "%s", in_folder("a.plan.json"));
    FILE *f = fopen(tasks, "w"), *g = fopen(text, "w");
    for (int i = 0; i < TEXTS; i++) {
        const int words = 3 + i * 7 % 10;
        lengths[i] = words + 2;
        ids[i][0] = TINY_CLS;
        for (int w = 0; w < words; w++) {
            ids[i][1 + w] = TINY_FIRST_WORD + (i * 5 + w * w * 3) % 16;
            fprintf(f, "word%d ", ids[i][1 + w]);
            fprintf(g, "word%d ", ids[i][1 + w]);
        }
        ids[i][1 + words] = TINY_SEP;
        fprintf(f, "\t%d\n", i % LABELS);
    }
    return fclose(f) || fclose(g) ? -1 : 0;
}

static int remove_inputs(void **state)
{
    tiny_free(&model);
    return remove_folder(state);
}

/* ---- asking ---- */

static es_status ask(const char *name, const char *const *given, es_answer **out)
{
    const es_study *study = es_study_find(name);
    es_params *p;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; given[0]; given += 2)
        assert_ok(es_params_set(p, given[0], given[1], &err));
    const es_status status =
        es_study_run(study, p, &(es_study_opts){.seed = 3, .exec = {.threads = 2}}, out, &err);
    es_params_free(p);
    return status;
}

#define GIVEN(...) ((const char *const[]){__VA_ARGS__, NULL, NULL})

static es_model_config config_of(const char *path)
{
    es_model_config c;
    char file[1024];
    snprintf(file, sizeof file, "%s/config.json", path);
    assert_ok(es_model_config_load(file, &c, &err));
    return c;
}

/* A plan of `top` in which heads keep 1 to 4 keys, and one everything. */
static int64_t keys_of(int64_t layer, int64_t head) { return 1 + (layer * HEADS + head) % 4; }
static bool is_full(int64_t layer, int64_t head) { return layer == 1 && head == 2; }

static void write_plan(void)
{
    const es_model_config c = config_of(folder);
    es_plan *p;
    assert_ok(es_plan_new(&c, CONTEXT, NULL, &p, &err));
    for (int64_t l = 0; l < LAYERS; l++)
        for (int64_t h = 0; h < HEADS; h++)
            if (!is_full(l, h)) {
                es_policy_spec *spec = &p->head[l * HEADS + h].spec;
                es_policy_spec_init(spec, es_policy_find("top"));
                spec->keys = keys_of(l, h);
            }
    assert_ok(es_plan_save(p, plan_file, true, &err));
    es_plan_free(p);
}

/* ---- downstream ---- */

/* The keys of a query's largest scores, as many as the plan says of its head: those with fewer
 * before them. */
static double planned(int64_t layer, int64_t head, const double *scores, int64_t n, int64_t i,
                      int64_t j)
{
    int64_t before = 0;
    (void)i;
    for (int64_t g = 0; g < n; g++)
        before += scores[g] > scores[j] || (scores[g] == scores[j] && g < j);
    return is_full(layer, head) || before < keys_of(layer, head);
}

static void plain(int at, double *logits)
{
    static double hidden[(LAYERS + 1) * (MOST + 2) * HIDDEN];
    double stats[LAYERS * HEADS * 4], pooled[HIDDEN];
    tiny_forward(&model, ids[at], lengths[at], hidden, stats, pooled, logits);
}

static double plain_kl(const double *a, const double *b)
{
    double za = 0.0, zb = 0.0, sum = 0.0;
    for (int i = 0; i < LABELS; i++) {
        za += exp(a[i]);
        zb += exp(b[i]);
    }
    for (int i = 0; i < LABELS; i++)
        sum += exp(a[i]) / za * log(exp(a[i]) / za / (exp(b[i]) / zb));
    return sum;
}

static void downstream_is_the_plain_loop(void **state)
{
    (void)state;
    double mean = 0.0, keys = 0.0;
    es_answer *a;
    write_plan();
    for (int i = 0; i < TEXTS; i++) {
        double full[LABELS], now[LABELS];
        model.factor = NULL;
        plain(i, full);
        model.factor = planned;
        plain(i, now);
        mean += plain_kl(full, now) / TEXTS;
        for (int64_t h = 0; h < LAYERS * HEADS; h++)
            keys += (is_full(h / HEADS, h % HEADS) ? (double)lengths[i]
                                                   : (double)keys_of(h / HEADS, h % HEADS)) /
                    (LAYERS * HEADS * TEXTS);
    }
    model.factor = NULL;
    assert_ok(ask("downstream", GIVEN("model", folder, "tasks", tasks, "plan", plan_file), &a));
    const es_table *t = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(t), 2);
    assert_string_equal(es_table_get_text(t, 1, "policy"), "plan a.plan.json");
    assert_above(mean, 1e-6);
    assert_close(es_table_get(t, 1, "kl"), mean, 2e-3); /* f32 logits, of which KL is a square */
    assert_close(es_table_get(t, 1, "keys"), keys, 1e-12);
    es_answer_free(a);
}

/* One head of a plan thinned alone is that head's policy, alone. */
static void downstream_thins_heads_of_a_plan_one_by_one(void **state)
{
    (void)state;
    es_answer *a, *b;
    write_plan();
    assert_ok(ask("downstream",
                  GIVEN("model", folder, "tasks", tasks, "plan", plan_file, "ablate", NULL), &a));
    assert_ok(ask(
        "downstream",
        GIVEN("model", folder, "tasks", tasks, "policy", "top", "keys", "1,2,3,4", "ablate", NULL),
        &b));
    const es_table *x = es_answer_find(a, "heads"), *y = es_answer_find(b, "heads");
    assert_int_equal(es_table_rows(x), LAYERS * HEADS);
    for (int64_t i = 0; i < LAYERS * HEADS; i++) {
        const int64_t row = (keys_of(i / HEADS, i % HEADS) - 1) * LAYERS * HEADS + i;
        assert_near(es_table_get(y, row, "head"), (double)(i % HEADS), 0.0);
        const double expected = is_full(i / HEADS, i % HEADS) ? 0.0 : es_table_get(y, row, "kl");
        assert_equals(es_table_get(x, i, "kl"), expected);
    }
    es_answer_free(a);
    es_answer_free(b);
}

/* ---- sparse ---- */

static void sparse_has_each_head_s_own_policy(void **state)
{
    (void)state;
    es_answer *a, *b;
    write_plan();
#define SPARSE "model", folder, "text", text, "context", "14", "contexts", "4", "query-count", "8"
    assert_ok(ask("sparse", GIVEN(SPARSE, "plan", plan_file), &a));
    assert_ok(ask("sparse", GIVEN(SPARSE, "policy", "top", "keys", "1,2,3,4"), &b));
    const es_table *x = es_answer_find(a, "rows"), *y = es_answer_find(b, "rows");
    assert_int_equal(es_table_rows(x), LAYERS * HEADS);
    assert_int_equal(es_table_rows(y), LAYERS * HEADS * 4);
    for (int64_t i = 0; i < LAYERS * HEADS; i++) {
        const int64_t keys = keys_of(i / HEADS, i % HEADS), row = i * 4 + keys - 1;
        const bool full = is_full(i / HEADS, i % HEADS);
        assert_near(es_table_get(x, i, "layer"), (double)(i / HEADS), 0.0);
        assert_string_equal(es_table_get_text(x, i, "policy"), full ? "full" : "top");
        assert_near(es_table_get(x, i, "keys"), full ? 14.0 : (double)keys, 0.0);
        assert_near(es_table_get(y, row, "keys"), (double)keys, 0.0);
        assert_equals(es_table_get(x, i, "mse"), (full ? 0.0 : es_table_get(y, row, "mse")));
        assert_equals(es_table_get(x, i, "kept"), (full ? 14.0 : es_table_get(y, row, "kept")));
    }
    es_answer_free(a);
    es_answer_free(b);
}

/* ---- loss ---- */

enum { N = 96, PEBBLE_LAYERS = 4, PEBBLE_HEADS = 6, PEBBLE_GROUP = 3 };

/* Groups of pebble keep 8, 16, 24, ... keys by sinks and a window, or random ones; the last layer
 * everything. */
static es_plan *plan_pebble(const es_model_config *c)
{
    es_plan *p;
    assert_ok(es_plan_new(c, N, NULL, &p, &err));
    for (int64_t i = 0; i < (PEBBLE_LAYERS - 1) * PEBBLE_HEADS; i++) {
        const int64_t group = i / PEBBLE_GROUP;
        es_policy_spec *spec = &p->head[i].spec;
        es_policy_spec_init(spec, es_policy_find(group % 2 ? "stream" : "random"));
        spec->keys = 8 * (group + 1);
    }
    es_plan_count(p);
    return p;
}

static void loss_is_the_forward_pass_with_the_plan_s_specs(void **state)
{
    (void)state;
    const es_model_opts opts = {.precision = ES_F64};
    es_model *m;
    int32_t block_ids[N];
    double nll[N - 1], expected[N - 1], entropy[PEBBLE_LAYERS], keys;
    es_policy_spec specs[PEBBLE_LAYERS * PEBBLE_HEADS];
    assert_ok(es_model_open(pebble, &opts, &m, &err));
    for (int i = 0; i < N; i++)
        block_ids[i] = 7 + i * i % 4000;
    es_plan *p = plan_pebble(es_model_config_of(m));
    for (int i = 0; i < PEBBLE_LAYERS * PEBBLE_HEADS; i++)
        specs[i] = p->head[i].spec;
    const es_model_sparse sparse = {.heads = specs,
                                    .at = {.seed = 5,
                                           .experiment = ES_EXPERIMENT_LOSS,
                                           .cell = 2 * (uint64_t)es_model_sparse_cells(m)}};
    es_model_block direct = {.ids = block_ids, .n = N, .nll = expected, .sparse = &sparse};
    assert_ok(es_model_forward(m, &direct, 1, NULL, &err));
    const es_loss_block b = {.model = m, .ids = block_ids, .n = N, .number = 2, .seed = 5};
    const es_loss_setting by_plan = {.plan = p};
    assert_ok(es_loss_run(&b, &by_plan, NULL, nll, entropy, &keys, &err));
    assert_memory_equal(nll, expected, sizeof nll);
    double full[N - 1];
    assert_ok(es_loss_run(&b, &(es_loss_setting){0}, NULL, full, entropy, &keys, &err));
    for (int i = 0; i < 7; i++) /* 8 keys are all that these see, in loops or by the engine */
        assert_near(nll[i], full[i], 1e-10);
    assert_above(fabs(nll[N - 2] - full[N - 2]), 1e-6);
    es_plan_free(p);
    es_model_close(m);
}

static void loss_by_a_plan_of_one_policy_is_the_policy(void **state)
{
    (void)state;
    const es_model_config c = config_of(pebble);
    const char *line = ES_TESTS_DIR "/golden/pebble/alice-line.txt";
    es_plan *p;
    es_answer *a, *b;
    assert_ok(es_plan_new(&c, N, NULL, &p, &err));
    for (int64_t i = 0; i < p->layers * p->heads; i++) {
        es_policy_spec_init(&p->head[i].spec, es_policy_find("stream"));
        p->head[i].spec.keys = 24;
    }
    assert_ok(es_plan_save(p, plan_file, true, &err));
    es_plan_free(p);
    assert_ok(
        ask("loss", GIVEN("model", pebble, "text", line, "block", "96", "plan", plan_file), &a));
    assert_ok(ask(
        "loss",
        GIVEN("model", pebble, "text", line, "block", "96", "policy", "stream", "keys", "24"), &b));
    const es_table *x = es_answer_find(a, "settings"), *y = es_answer_find(b, "settings");
    assert_string_equal(es_table_get_text(x, 1, "setting"), "plan a.plan.json");
    assert_equals(es_table_get(x, 1, "nll"), es_table_get(y, 1, "nll"));
    assert_equals(es_table_get(x, 1, "cost"), es_table_get(y, 1, "cost"));
    assert_equals(es_table_get(x, 1, "keys"), es_table_get(y, 1, "keys"));
    assert_differs(es_table_get(x, 1, "cost"), 0.0);
    es_answer_free(a);
    es_answer_free(b);
}

/* Returns whether a finding has these words. */
static bool is_found(const es_answer *a, const char *words)
{
    for (int64_t k = 0; es_answer_finding(a, k); k++)
        if (strstr(es_answer_finding(a, k), words))
            return true;
    return false;
}

/* A plan at another context is a finding, which a message on stderr is not. */
static void plans_for_another_context_are_a_caution(void **state)
{
    (void)state;
    static const char *const blocks[] = {"64", "96"};
    const es_model_config c = config_of(pebble);
    const char *line = ES_TESTS_DIR "/golden/pebble/alice-line.txt";
    for (int i = 0; i < 4; i++) {
        const bool sparse = i > 1;
        es_plan *p = plan_pebble(&c);
        es_answer *a;
        assert_ok(es_plan_save(p, plan_file, true, &err));
        es_plan_free(p);
        assert_ok(ask(sparse ? "sparse" : "loss",
                      GIVEN("model", pebble, "text", line, "plan", plan_file,
                            sparse ? "context" : "block", blocks[i % 2],
                            sparse ? "contexts" : "blocks", "2"),
                      &a));
        assert_int_equal(is_found(a, sparse ? "made for 96 tokens and contexts have 64; its numbers"
                                            : "made for 96 tokens and blocks have 64; its numbers"),
                         i % 2 == 0);
        es_answer_free(a);
    }
}

/* A plan whose numbers are no defaults, written and read: what is run are its numbers. */
static void loss_runs_by_the_plan_s_own_numbers(void **state)
{
    (void)state;
    static const char *const policies[] = {"observe", "heavy", "stream"};
    es_model *m;
    int32_t block_ids[N];
    double nll[N - 1], expected[N - 1], by_default[N - 1], entropy[PEBBLE_LAYERS], keys;
    es_policy_spec specs[2][PEBBLE_LAYERS * PEBBLE_HEADS];
    assert_ok(es_model_open(pebble, &(es_model_opts){.precision = ES_F64}, &m, &err));
    for (int i = 0; i < N; i++)
        block_ids[i] = 7 + i * i % 4000;
    for (int which = 0; which < 3; which++) {
        es_plan *p;
        assert_ok(es_plan_new(es_model_config_of(m), N, NULL, &p, &err));
        for (int i = 0; i < PEBBLE_LAYERS * PEBBLE_HEADS; i++) {
            es_policy_spec *spec = &p->head[i].spec;
            es_policy_spec_init(spec, es_policy_find(policies[which]));
            spec->keys = 40;
            specs[1][i] = *spec;
            spec->window = which == 2 ? 31 : 6 + which;
            spec->span = which == 0 ? 5 : ES_POLICY_UNSET;
            spec->pool = which == 0 ? 1 : ES_POLICY_UNSET;
            spec->sinks = which == 2 ? 9 : ES_POLICY_UNSET;
            specs[0][i] = *spec;
        }
        assert_ok(es_plan_save(p, plan_file, true, &err));
        es_plan_free(p);
        assert_ok(es_plan_load(plan_file, NULL, &p, &err));
        for (int other = 0; other < 2; other++) {
            const es_model_sparse sparse = {.heads = specs[other],
                                            .at = {.experiment = ES_EXPERIMENT_LOSS}};
            es_model_block direct = {
                .ids = block_ids, .n = N, .nll = other ? by_default : expected, .sparse = &sparse};
            assert_ok(es_model_forward(m, &direct, 1, NULL, &err));
        }
        const es_loss_block b = {.model = m, .ids = block_ids, .n = N};
        assert_ok(es_loss_run(&b, &(es_loss_setting){.plan = p}, NULL, nll, entropy, &keys, &err));
        assert_memory_equal(nll, expected, sizeof nll);
        assert_true(memcmp(nll, by_default, sizeof nll) != 0);
        es_plan_free(p);
    }
    es_model_close(m);
}

/* ---- refusals ---- */

static void refuse(const char *study, const char *const *given, const char *rule)
{
    es_answer *a;
    const es_status status = ask(study, given, &a);
    if (status == ES_OK || strcmp(err.rule, rule) != 0)
        fail_msg("%s: %s %s (%s), expected %s", study, es_status_name(status), err.rule,
                 err.message, rule);
}

static void PL01_studies_refuse_plans_that_do_not_fit(void **state)
{
    (void)state;
    const char *line = ES_TESTS_DIR "/golden/pebble/alice-line.txt";
    write_plan();
    refuse("loss", GIVEN("model", pebble, "text", line, "plan", plan_file), "plan.model");
    assert_string_equal(err.file, plan_file);
    assert_non_null(strstr(err.message, "'bert'; this one is 'llama'"));
    refuse("loss", GIVEN("model", pebble, "text", line, "plan", plan_file, "window", "8"),
           "plan.options");
    refuse("loss", GIVEN("model", pebble, "text", line, "plan", plan_file, "span", "8"),
           "plan.options");
    refuse("loss", GIVEN("model", pebble, "text", line, "plan", plan_file, "evict", "decode"),
           "plan.options");
    refuse("loss", GIVEN("model", pebble, "text", line, "plan", plan_file, "ratio", "0.5"),
           "plan.options");
    refuse("downstream", GIVEN("model", folder, "tasks", tasks, "plan", plan_file, "policy", "top"),
           "plan.options");
    refuse("downstream", GIVEN("model", folder, "tasks", tasks, "plan", plan_file, "keep", "0.5"),
           "plan.options");
    refuse("sparse", GIVEN("model", folder, "text", text, "plan", plan_file, "keys", "3"),
           "plan.options");
    const double one[] = {1.0, 2.0}; /* files: whose heads would those be? */
    char npy[512];
    snprintf(npy, sizeof npy, "%s", in_folder("x.npy"));
    assert_ok(es_npy_save(npy, ES_F64, 2, (const int64_t[]){2, 1}, one, true, &err));
    refuse("sparse", GIVEN("q", npy, "k", npy, "v", npy, "plan", plan_file), "sparse.options");
    refuse("downstream", GIVEN("model", folder, "tasks", tasks, "plan", tasks), "plan.json");
    refuse("downstream", GIVEN("model", folder, "tasks", tasks, "plan", in_folder("none")),
           "file.open");
    /* heads that drop keys at 14 tokens, and nothing of contexts that short */
    const es_model_config c = config_of(folder);
    es_plan *p;
    assert_ok(es_plan_new(&c, CONTEXT, NULL, &p, &err));
    for (int64_t i = 0; i < LAYERS * HEADS; i++) {
        es_policy_spec_init(&p->head[i].spec, es_policy_find("stream"));
        p->head[i].spec.keys = 12;
    }
    assert_ok(es_plan_save(p, plan_file, true, &err));
    es_plan_free(p);
    refuse(
        "sparse",
        GIVEN("model", folder, "text", text, "context", "12", "contexts", "2", "plan", plan_file),
        "plan.context");
}

TEST_FILE(plan_runs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(downstream_is_the_plain_loop),
        cmocka_unit_test(downstream_thins_heads_of_a_plan_one_by_one),
        cmocka_unit_test(sparse_has_each_head_s_own_policy),
        cmocka_unit_test(loss_is_the_forward_pass_with_the_plan_s_specs),
        cmocka_unit_test(loss_by_a_plan_of_one_policy_is_the_policy),
        cmocka_unit_test(plans_for_another_context_are_a_caution),
        cmocka_unit_test(loss_runs_by_the_plan_s_own_numbers),
        cmocka_unit_test(PL01_studies_refuse_plans_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
