/* SPDX-License-Identifier: Apache-2.0 */
/* test_budget_cache.c : budgets of caches: measured risks against the model itself with one unit
 * whose cache drops and rounds; allocation by bytes against a search through all choices. */
#include "folder.h"
#include "golden.h"
#include "numbers.h"

#include <math.h>

#include <esscher/npy.h>
#include <esscher/plan.h>
#include <esscher/study.h>

#include "cache/kv_type.h"
#include "experiments/budget/question.h"
#include "model/model_inside.h"
#include "model/sparse_head.h"

/* ---- risks ---- */

enum { MOST = 64, LAYERS = 8, HEADS = 8, POLICIES = 2, TYPES = 3, KEYS = 2, FEW = 5 };
enum { SETTINGS = POLICIES * TYPES * KEYS };

/* A model of tests/golden/decoders2 and its tokens. */
typedef struct golden_model {
    es_model *model;
    const es_model_config *c;
    es_token_block block;
    int32_t ids[MOST];
} golden_model;

static void open_golden(const char *name, golden_model *g)
{
    es_array ids;
    char rest[128];
    snprintf(rest, sizeof rest, "decoders2/%s", name);
    assert_ok(
        es_model_open(golden_path(rest), &(es_model_opts){.precision = ES_F64}, &g->model, &err));
    g->c = es_model_config_of(g->model);
    snprintf(rest, sizeof rest, "decoders2/%s/ids.npy", name);
    assert_ok(es_npy_load_as(golden_path(rest), ES_NPY_RAW_WHOLE, NULL, &ids, &err));
    assert_true(ids.shape[0] <= MOST && g->c->layers <= LAYERS && g->c->heads <= HEADS);
    for (int64_t i = 0; i < ids.shape[0]; i++)
        g->ids[i] = (int32_t)((double *)ids.data)[i];
    g->block = (es_token_block){.model = g->model, .ids = g->ids, .n = ids.shape[0]};
    g->block.late = g->block.n / 3; /* a prompt that is not half of the block */
    es_array_free(&ids);
}

static es_late_types types[TYPES];
static es_evict_spec policies[POLICIES];

static int read_candidates(void **state)
{
    static const char *const k[TYPES] = {"f32", "q4_0", "q8_0"}, *const v[TYPES] = {"f32", "q8_0",
                                                                                    "q4_0"};
    (void)state;
    for (int t = 0; t < TYPES; t++)
        if (es_kv_format_parse(k[t], &types[t].k, &err) != ES_OK ||
            es_kv_format_parse(v[t], &types[t].v, &err) != ES_OK)
            return -1;
    return es_evict_parse("h2o:sinks=1", &policies[0], &err) == ES_OK &&
                   es_evict_parse("stream:sinks=2", &policies[1], &err) == ES_OK
               ? 0
               : -1;
}

/* out (layers, groups, SETTINGS): risks of units with FEW keys and with all, mean over all late
 * queries. */
static void predict(const golden_model *g, es_evict_mode mode, int64_t *keys, double *out)
{
    double spread2[LAYERS];
    const int64_t longest = mode == ES_EVICT_PROMPT ? g->block.late : g->block.n;
    for (int64_t l = 0; l < g->c->layers; l++) {
        keys[l * KEYS] = FEW;
        keys[l * KEYS + 1] = es_past_most(es_past_of(g->c, l), longest);
    }
    const es_cache_curves_spec spec = {.late = {.mode = mode,
                                                .prompt = g->block.late,
                                                .types = types,
                                                .n_types = TYPES,
                                                .policies = policies,
                                                .n_policies = POLICIES},
                                       .keys = keys,
                                       .n_keys = KEYS,
                                       .queries = g->block.n - g->block.late};
    assert_ok(es_cache_curves_block(&spec, &g->block, NULL,
                                    &(es_curves){.group = out, .spread2 = spread2}, &err));
}

/* out (layers): error of each layer alone whose unit `group` has one of the settings. */
static void measure(const golden_model *g, es_evict_mode mode, const int64_t *keys, int64_t group,
                    int64_t setting, double *out)
{
    static double error2[LAYERS + 1], spread2[LAYERS + 1], out2[LAYERS], kept[LAYERS * HEADS];
    static double ends[ES_ENDS];
    static es_cache_unit units[LAYERS * HEADS];
    const int64_t k = setting % KEYS, t = setting / KEYS % TYPES, p = setting / KEYS / TYPES;
    memset(units, 0, sizeof units);
    for (int64_t l = 0; l < g->c->layers; l++) {
        es_cache_unit *unit = &units[l * g->c->kv_heads + group];
        unit->k = types[t].k;
        unit->v = types[t].v;
        if (keys[l * KEYS + k] >= keys[l * KEYS + KEYS - 1])
            continue;
        unit->evict = policies[p];
        unit->evict.keys = keys[l * KEYS + k];
    }
    const es_kept_keys to_keep = {.units = units, .mode = mode, .prompt = g->block.late};
    const es_plan_trial to = {.error2 = error2,
                              .spread2 = spread2,
                              .own2 = out,
                              .out2 = out2,
                              .kept = kept,
                              .ends = ends};
    assert_ok(es_plan_trial_block(&g->block, &to_keep, NULL, &to, &err));
}

/* Compares risks with what the model does, unit by unit. Returns the ratio of their sums. */
static double compare(const char *name, es_evict_mode mode, double tolerance)
{
    static double risks[LAYERS * HEADS * SETTINGS];
    int64_t keys[LAYERS * KEYS];
    double own2[LAYERS], predicted = 0.0, measured = 0.0;
    golden_model g;
    open_golden(name, &g);
    predict(&g, mode, keys, risks);
    for (int64_t group = 0; group < g.c->kv_heads; group++)
        for (int64_t i = 0; i < SETTINGS; i++) {
            measure(&g, mode, keys, group, i, own2);
            for (int64_t l = 0; l < g.c->layers; l++) {
                const double risk = risks[(l * g.c->kv_heads + group) * SETTINGS + i];
                if (tolerance > 0.0)
                    assert_near(risk, own2[l], tolerance * own2[l] + 1e-24);
                predicted += risk;
                measured += own2[l];
            }
        }
    es_model_close(g.model);
    return predicted / measured;
}

/* Nothing is random, all late queries count and the model computes in f64: only the order of sums
 * differs. gpt_oss has learned sinks and windows of 12 keys, branches of granite have a factor. */
static void risks_are_what_the_model_does(void **state)
{
    (void)state;
    compare("gpt_oss", ES_EVICT_PROMPT, 1e-8);
    compare("granite", ES_EVICT_PROMPT, 1e-8);
    compare("granite", ES_EVICT_DECODE, 1e-8);
    compare("gpt_oss", ES_EVICT_DECODE, 1e-8);
}

/* A norm after Wo is followed to first order, which is too high for large errors: with 5 of 16 keys
 * the ratio is within the range that test_budget_kinds.c finds at 20 of 50, 1.02 to 1.14, and 15 %
 * beyond it. */
static void norms_after_wo_count_to_first_order(void **state)
{
    (void)state;
    const double ratio = compare("gemma2", ES_EVICT_PROMPT, 0.0);
    assert_above(ratio, 0.95);
    assert_at_most(ratio, 1.3);
}

/* ---- allocation ---- */

enum { L = 3, KV = 2, UNITS = L * KV, P = 4, N_OPTIONS = 3 };

static const es_model_config config = {.layers = L, .heads = KV, .kv_heads = KV, .causal = true};
static int64_t numbers[N_OPTIONS] = {4, 8, 16};
static budget_grid grids[L];
static budget_candidate candidates[P] = {
    {.cost = 8.0}, {.cost = 5.0}, {.cost = 4.0}, {.cost = 3.0}};
static double risk[UNITS * P * N_OPTIONS], transfer[L * (L + 1)];

/* A study of made-up risks, which fall with keys and with cost, and layers that matter more or
 * less. */
static budget_state made_up(void)
{
    for (int l = 0; l < L; l++)
        grids[l] = (budget_grid){16, numbers, numbers, N_OPTIONS};
    for (int u = 0; u < UNITS; u++)
        for (int p = 0; p < P; p++)
            for (int k = 0; k < N_OPTIONS; k++)
                risk[(u * P + p) * N_OPTIONS + k] =
                    (1.0 + 9.0 * uniform()) / (double)(k + 1) / candidates[p].cost;
    for (int i = 0; i < L * (L + 1); i++)
        transfer[i] = 0.5 + uniform();
    return (budget_state){.config = &config,
                          .mode = BUDGET_PROMPT,
                          .grids = grids,
                          .candidates = candidates,
                          .full.cost = 8.0,
                          .P = P,
                          .types = P,
                          .K = N_OPTIONS,
                          .n_options = N_OPTIONS,
                          .units = UNITS,
                          .round = 1};
}

static const budget_means means = {.risk = risk, .transfer = transfer};

/* The least sum of weighted risks of UNITS / size groups for a total, by trying all choices; costs
 * are whole numbers, so that best[c] is the least risk of the groups so far for a cost of c. */
static double search(int size, int total)
{
    enum { MOST_COST = UNITS * 16 * 8 + 1 };
    static double best[MOST_COST], next[MOST_COST];
    for (int c = 0; c <= total; c++)
        best[c] = 0.0;
    for (int first = 0; first < UNITS; first += size) {
        for (int c = 0; c <= total; c++)
            next[c] = INFINITY;
        for (int i = 0; i < P * N_OPTIONS; i++) {
            const int p = i / N_OPTIONS, k = i % N_OPTIONS;
            const int cost = size * (int)numbers[k] * (int)candidates[p].cost;
            double sum = 0.0;
            for (int u = first; u < first + size; u++)
                sum += transfer[u / KV * (L + 1) + L] * risk[(u * P + p) * N_OPTIONS + k];
            for (int c = cost; c <= total; c++)
                next[c] = fmin(next[c], best[c - cost] + sum);
        }
        memcpy(best, next, sizeof best);
    }
    return best[total];
}

static double weighted(const budget_choice *choices)
{
    double sum = 0.0;
    for (int u = 0; u < UNITS; u++)
        sum += transfer[u / KV * (L + 1) + L] * budget_risk(&(budget_state){.config = &config,
                                                                            .mode = BUDGET_PROMPT,
                                                                            .grids = grids,
                                                                            .P = P,
                                                                            .K = N_OPTIONS},
                                                            &means, u, choices[u].candidate,
                                                            (double)choices[u].keys);
    return sum;
}

/* Steps along the hulls meet the optimum at every corner. Between two corners what is left is less
 * than one step, and a step is no dearer than a group's dearest option minus its cheapest. How much
 * that costs on the mean is as found: 0.4 %. Weights that are all 1 would make it 0.9 %. */
static void bytes_are_divided_as_well_as_can_be(void **state)
{
    static const budget_granularity granularities[] = {BUDGET_BY_HEAD, BUDGET_BY_LAYER};
    double ratios = 0.0;
    int cases = 0;
    (void)state;
    state_of_rng = 20261118;
    for (int draw = 0; draw < 20; draw++) {
        const budget_state s = made_up();
        for (int g = 0; g < 2; g++)
            for (int total = 150; total <= 700; total += 50) {
                const int size = granularities[g] == BUDGET_BY_HEAD ? 1 : KV;
                const int step = size * (16 * 8 - 4 * 3);
                const budget_strategy how = {.allocation = BUDGET_OURS,
                                             .total = total,
                                             .granularity = granularities[g],
                                             .round = 1};
                budget_choice choices[UNITS];
                es_arena arena = {0};
                assert_ok(budget_allocate(&s, &means, &how, &arena, choices, &err));
                es_arena_free(&arena);
                assert_at_most(budget_total(&s, choices), total);
                assert_above(weighted(choices), search(size, total) - 1e-12);
                ratios += weighted(choices) / search(size, total);
                cases++;
                if (total - step >= UNITS * 4 * 3)
                    assert_at_most(weighted(choices), search(size, total - step) + 1e-12);
                for (int u = 0; u < UNITS && size > 1; u++) {
                    assert_int_equal(choices[u].keys, choices[u / KV * KV].keys);
                    assert_int_equal(choices[u].candidate, choices[u / KV * KV].candidate);
                }
            }
    }
    assert_at_most(ratios / cases, 1.006);
}

/* The best single setting is the best of all candidates at as many keys as the total pays for. */
static void single_settings_are_the_best_of_all(void **state)
{
    (void)state;
    state_of_rng = 7;
    for (int draw = 0; draw < 20; draw++) {
        const budget_state s = made_up();
        const budget_strategy how = {.allocation = BUDGET_UNIFORM, .total = 300.0, .round = 4};
        budget_choice choices[UNITS], trial[UNITS];
        es_arena arena = {0};
        double best = INFINITY;
        assert_ok(budget_allocate(&s, &means, &how, &arena, choices, &err));
        es_arena_free(&arena);
        for (int p = 0; p < P; p++) {
            const int64_t keys = (int64_t)(300.0 / (UNITS * candidates[p].cost)) / 4 * 4;
            for (int u = 0; u < UNITS; u++)
                trial[u] = (budget_choice){p, keys < 16 ? keys : 16, 0.0};
            if (keys)
                best = fmin(best, weighted(trial));
        }
        assert_near(weighted(choices), best, 1e-12 * best);
        assert_at_most(budget_total(&s, choices), 300.0);
    }
}

/* ---- the study ---- */

static es_answer *ask(const char *const *given)
{
    const es_study *study = es_study_find("budget");
    es_params *p;
    es_answer *a;
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; given[0]; given += 2)
        assert_ok(es_params_set(p, given[0], given[1], &err));
    assert_ok(es_study_run(study, p, &(es_study_opts){.seed = 3, .force = true, .exec.threads = 2},
                           &a, &err));
    es_params_free(p);
    return a;
}

/* Both figures have standard errors over blocks; of 6 and 9 blocks three of them together hold
 * 98 % and more of the differences. */
static void is_predicted(const es_answer *a, const char *key)
{
    const es_table *found = es_answer_find(a, "verified"), *said = es_answer_find(a, "predicted");
    char se[32];
    snprintf(se, sizeof se, "%s_se", key);
    assert_near(es_table_get(said, 0, key), es_table_get(found, 0, key),
                3.0 * hypot(es_table_get(said, 0, se), es_table_get(found, 0, se)));
}

/* A plan of pebble: what is found on other blocks is what was predicted, the best single setting
 * costs more, and the file holds what the tables say. */
static void plans_do_what_is_predicted(void **state)
{
    (void)state;
    static const char pebble[] = ES_TESTS_DIR "/../models/pebble",
                      text[] = ES_TESTS_DIR "/../models/pebble/alice.txt";
    char file[512];
    es_plan *plan;
    snprintf(file, sizeof file, "%s", in_folder("plan.json"));
    es_answer *a = ask((const char *const[]){"model",
                                             pebble,
                                             "text",
                                             text,
                                             "verify",
                                             text,
                                             "context",
                                             "128",
                                             "blocks",
                                             "6",
                                             "verify-blocks",
                                             "9",
                                             "query-count",
                                             "16",
                                             "policy",
                                             "stream,h2o",
                                             "kv-type",
                                             "f16,q8_0",
                                             "ratio",
                                             "0.25",
                                             "out-plan",
                                             file,
                                             NULL,
                                             NULL});
    const es_table *units = es_answer_find(a, "kv_heads"), *ways = es_answer_find(a, "allocations"),
                   *table = es_answer_find(a, "plan");
    double bytes = 0.0, keys = 0.0;
    is_predicted(a, "kl");
    is_predicted(a, "state");
    assert_above(es_table_get(ways, 1, "kl"), es_table_get(ways, 0, "kl"));
    for (int64_t u = 0; u < es_table_rows(units); u++) {
        bytes += es_table_get(units, u, "bytes");
        keys += es_table_get(units, u, "keys");
    }
    assert_near(bytes, es_table_get(table, 0, "bytes_after"), 1e-9 * bytes);
    assert_equals(keys, es_table_get(table, 0, "keys_kept"));
    assert_at_most(bytes, 0.25 * es_table_get(table, 0, "bytes_before"));
    assert_ok(es_plan_load(file, NULL, &plan, &err));
    assert_near(plan->bytes_after, bytes, 1e-9 * bytes);
    assert_near(plan->keys_kept, keys, 0.0);
    for (int64_t u = 0; u < es_table_rows(units); u++)
        assert_near(plan->unit[u].risk, es_table_get(units, u, "risk"), 1e-12 * plan->unit[u].risk);
    es_plan_free(plan);
    es_answer_free(a);
}

/* Asks pebble for a small plan, with one more option and held-out text if they are not NULL. */
static es_answer *ask_small(const char *option, const char *value, const char *verify)
{
    static const char text[] = ES_TESTS_DIR "/../models/pebble/alice.txt",
                      pebble[] = ES_TESTS_DIR "/../models/pebble";
    return ask((const char *const[]){"model",
                                     pebble,
                                     "text",
                                     text,
                                     "context",
                                     "64",
                                     "blocks",
                                     "3",
                                     "query-count",
                                     "2",
                                     "policy",
                                     "stream,h2o",
                                     "kv-type",
                                     "f16,q8_0",
                                     "ratio",
                                     "0.25",
                                     option,
                                     value,
                                     verify ? "verify" : NULL,
                                     verify,
                                     NULL,
                                     NULL});
}

/* Without held-out text the third finding predicts the best single setting and the plan, both by
 * sums: the numbers of the table of allocations, of which it prints three digits. */
static void findings_predict_as_the_table_does(void **state)
{
    (void)state;
    static const char *const said[] = {"; the plan ", "should cost "};
    es_answer *a = ask_small(NULL, NULL, NULL);
    const es_table *ways = es_answer_find(a, "allocations");
    assert_string_equal(es_table_get_text(ways, 1, "allocation"), "uniform");
    for (int64_t i = 0; i < 2; i++) {
        const double predicted = es_table_get(ways, i, "kl_predicted");
        const char *number = strstr(es_answer_finding(a, 2), said[i]);
        assert_non_null(number);
        assert_near(strtod(number + strlen(said[i]), NULL), predicted, 0.005 * predicted);
    }
    es_answer_free(a);
}

/* One setting for the whole model is the best single setting, whether it is verified or not. */
static void findings_say_that_the_plan_is_a_single_setting(void **state)
{
    (void)state;
    static const char *const verify[] = {NULL, ES_TESTS_DIR "/golden/pebble/alice-line.txt"};
    for (int i = 0; i < 2; i++) {
        es_answer *a = ask_small("granularity", "model", verify[i]);
        assert_non_null(strstr(es_answer_finding(a, 2), " is the plan itself."));
        es_answer_free(a);
    }
}

/* The last query of 64 tokens finds all of them in f16 with a residual of 64. */
static void kivi_counts_what_the_last_query_finds(void **state)
{
    (void)state;
    static const char text[] = ES_TESTS_DIR "/../models/pebble/alice.txt",
                      pebble[] = ES_TESTS_DIR "/../models/pebble";
    es_answer *a = ask((const char *const[]){
        "model", pebble, "text", text, "context", "64", "blocks", "2", "query-count", "2", "evict",
        "none", "kv-type", "kivi2:residual=64", "ratio", "1", NULL, NULL});
    const es_table *t = es_answer_find(a, "plan");
    assert_equals(es_table_get(t, 0, "bytes_after"), es_table_get(t, 0, "bytes_before"));
    es_answer_free(a);
}

static int make_inputs(void **state)
{
    return make_folder(state) == 0 ? read_candidates(state) : -1;
}

TEST_FILE(budget_cache)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(risks_are_what_the_model_does),
        cmocka_unit_test(norms_after_wo_count_to_first_order),
        cmocka_unit_test(bytes_are_divided_as_well_as_can_be),
        cmocka_unit_test(single_settings_are_the_best_of_all),
        cmocka_unit_test(plans_do_what_is_predicted),
        cmocka_unit_test(findings_predict_as_the_table_does),
        cmocka_unit_test(findings_say_that_the_plan_is_a_single_setting),
        cmocka_unit_test(kivi_counts_what_the_last_query_finds),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_folder);
}
