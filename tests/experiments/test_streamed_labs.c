/* SPDX-License-Identifier: Apache-2.0 */
/* test_streamed_labs.c : blocks of `budget` and `depth` through models whose weights stay in the
 * file. Resident weights on one thread are the reference: numbers must have their bits on any
 * number of threads, and memory must be within what is stated. */
#include "golden.h"
#include "testing.h"

#include <string.h>

#include "experiments/budget/budget.h"
#include "experiments/depth/depth.h"
#include "model/model.h"

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";

enum { MOST = 600, NUMBERS = 1 << 14, KEYS = 2, POLICIES = 3 };

/* A block of a model, and where its numbers go. */
typedef struct lab {
    const es_model_config *c;
    es_token_block block;
    es_policy_spec policies[POLICIES];
    double numbers[NUMBERS];
    int64_t used;
} lab;

/* Returns `count` numbers of the lab. */
static double *take(lab *x, int64_t count)
{
    double *at = x->numbers + x->used;
    x->used += count;
    assert_true(x->used <= NUMBERS);
    return at;
}

/* ---- what is computed ---- */

static void run_curves(lab *x, const es_exec *exec)
{
    static const int64_t keys[KEYS] = {6, 12};
    const int64_t L = x->c->layers, risks = POLICIES * KEYS;
    const es_curves_spec spec = {x->policies, POLICIES, keys, KEYS, 2};
    const es_curves out = {take(x, L * x->c->kv_heads * risks), take(x, L * x->c->heads * risks),
                           take(x, L * x->c->heads * KEYS), take(x, L * x->c->heads * ES_FACTS),
                           take(x, L)};
    assert_ok(es_curves_block(&spec, &x->block, exec, &out, &err));
}

static void run_plan(lab *x, const es_exec *exec)
{
    const int64_t L = x->c->layers, heads = L * x->c->heads;
    es_policy_spec *specs = calloc((size_t)heads, sizeof *specs);
    es_gain *gains = calloc((size_t)L, sizeof *gains);
    for (int64_t h = 0; h < heads; h++) {
        specs[h] = x->policies[h % POLICIES];
        specs[h].keys = 6;
    }
    const es_plan_trial trial = {.error2 = take(x, L + 1),
                                 .spread2 = take(x, L + 1),
                                 .own2 = take(x, L),
                                 .out2 = take(x, L),
                                 .kept = take(x, heads),
                                 .ends = take(x, ES_ENDS)};
    const es_kept_keys keys = {.heads = specs};
    assert_ok(es_plan_trial_block(&x->block, &keys, exec, &trial, &err));
    for (int64_t l = 0; l < L; l++)
        gains[l].error2 = take(x, L + 1);
    assert_ok(es_gains_block(&x->block, &keys, exec, gains, take(x, L + 1), &err));
    for (int64_t l = 0; l < L; l++) {
        *take(x, 1) = gains[l].own2;
        *take(x, 1) = gains[l].loss;
    }
    free(gains);
    free(specs);
}

static void run_depth(lab *x, const es_exec *exec)
{
    es_policy_spec policy = x->policies[2];
    policy.keys = 6;
    const es_depth_spec spec = {
        .model = x->block.model, .policy = &policy, .layer = -1, .directions = 1, .seed = 7};
    double *out = take(x, (x->c->layers + 1) * (int64_t)(sizeof(es_depth_state) / sizeof(double)));
    assert_ok(
        es_depth_block(&spec, x->block.ids, x->block.n, 0, exec, (es_depth_state *)out, &err));
}

/* ---- both ways ---- */

/* A computation, and a bound for its memory. */
typedef struct kind {
    void (*run)(lab *x, const es_exec *exec);
    double (*bytes)(const es_model *model, int64_t n, int threads);
} kind;

static double curves_bytes(const es_model *m, int64_t n, int threads)
{
    const es_model_config *c = es_model_config_of(m);
    return es_curves_bytes(c, n, threads) +
           es_model_cost_of(c, es_model_precision(m), n, threads, false).bytes;
}

static double plan_bytes(const es_model *m, int64_t n, int threads)
{
    return es_plan_trial_bytes(m, n, es_late_begin(es_model_config_of(m), n), threads);
}

static double depth_bytes(const es_model *m, int64_t n, int threads)
{
    return es_depth_bytes(m, n, 0, threads);
}

static const kind kinds[] = {
    {run_curves, curves_bytes}, {run_plan, plan_bytes}, {run_depth, depth_bytes}};

static void run_kind(const kind *k, const es_model *m, int64_t n, int threads, lab *x)
{
    static const char *const names[POLICIES] = {"stream", "observe", "random"};
    static int32_t ids[MOST];
    es_mem_limit call = {0};
    const es_exec exec = {.threads = threads, .budget = &call};
    *x = (lab){.c = es_model_config_of(m),
               .block = {.model = m, .ids = ids, .n = n, .number = 1, .seed = 5}};
    for (int p = 0; p < POLICIES; p++)
        es_policy_spec_init(&x->policies[p], es_policy_find(names[p]));
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)x->c->vocab);
    k->run(x, &exec);
    assert_below((double)call.peak, k->bytes(m, n, threads));
    assert_int_equal(call.used, 0);
}

static void check_model(const char *path, int64_t n)
{
    static lab want, got;
    es_model *resident, *streamed;
    assert_ok(
        es_model_open(path, &(es_model_opts){.weights = ES_WEIGHTS_RESIDENT}, &resident, &err));
    assert_ok(
        es_model_open(path, &(es_model_opts){.weights = ES_WEIGHTS_STREAMED}, &streamed, &err));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        run_kind(&kinds[i], resident, n, 1, &want);
        for (int threads = 1; threads <= 3; threads++) {
            run_kind(&kinds[i], streamed, n, threads, &got);
            assert_int_equal(got.used, want.used);
            assert_memory_equal(got.numbers, want.numbers, (size_t)want.used * sizeof(double));
        }
    }
    es_model_close(resident);
    es_model_close(streamed);
}

/* More than one strip, which threads share. */
static void blocks_have_the_bits_of_resident_weights(void **state)
{
    (void)state;
    check_model(pebble, MOST);
}

static void experts_have_them_too(void **state)
{
    (void)state;
    check_model(golden_path("decoders2/mixtral"), 60);
}

/* Norms after Wo, whose outputs all threads of a block read, and learned sinks. Both models have
 * windows in some layers only. */
static void norms_and_sinks_have_them_too(void **state)
{
    (void)state;
    check_model(golden_path("decoders2/gemma2"), 60);
    check_model(golden_path("decoders2/gpt_oss"), 60);
}

/* Threads have a block each unless they can share a decoded layer. */
static void threads_share_long_blocks_of_streamed_models(void **state)
{
    (void)state;
    es_model_config c = {.weights = ES_WEIGHTS_STREAMED};
    assert_true(es_model_shares_block(&c, 513));
    assert_false(es_model_shares_block(&c, 512));
    c.weights = ES_WEIGHTS_RESIDENT;
    assert_false(es_model_shares_block(&c, 513));
}

TEST_FILE(streamed_labs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_the_bits_of_resident_weights),
        cmocka_unit_test(experts_have_them_too),
        cmocka_unit_test(norms_and_sinks_have_them_too),
        cmocka_unit_test(threads_share_long_blocks_of_streamed_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
