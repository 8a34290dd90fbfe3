/* SPDX-License-Identifier: Apache-2.0 */
/* test_decoders.c : ten tiny decoders, one of each kind, against an independent f64 program (NumPy;
 * tests/golden/README.md), and what holds for every causal model. */
#include "golden.h"

#include <esscher/model.h>
#include <esscher/npy.h>

#include "model/model.h"

static const char *const names[] = {"llama",          "llama-linear", "llama-yarn", "llama3-rope",
                                    "mistral-window", "qwen2",        "qwen3",      "gpt2",
                                    "neox",           "neox-serial"};
enum { NAMES = sizeof names / sizeof names[0], TOKENS = 61 };

static es_model *open_decoder(const char *name, es_dtype precision)
{
    char rest[64];
    es_model *m;
    snprintf(rest, sizeof rest, "decoders/%s", name);
    assert_ok(es_model_open(golden_path(rest), &(es_model_opts){.precision = precision}, &m, &err));
    return m;
}

static es_array load(const char *name, const char *file)
{
    char rest[96];
    es_array a;
    snprintf(rest, sizeof rest, "decoders/%s/%s.npy", name, file);
    assert_ok(es_npy_load_as(golden_path(rest), ES_NPY_RAW_WHOLE, NULL, &a, &err));
    assert_int_equal(a.dtype, ES_F64);
    return a;
}

static void read_ids(const char *name, int32_t ids[TOKENS])
{
    es_array a = load(name, "ids");
    assert_int_equal(a.shape[0], TOKENS);
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((double *)a.data)[i];
    es_array_free(&a);
}

static double number(const void *x, es_dtype dtype, int64_t i)
{
    return dtype == ES_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

/* Largest difference, over the root mean square of what is expected. */
static double worst(const void *got, es_dtype dtype, const es_array *want)
{
    const double *w = want->data;
    double most = 0.0, square = 0.0;
    int64_t count = 1;
    for (int i = 0; i < want->rank; i++)
        count *= want->shape[i];
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs(number(got, dtype, i) - w[i]));
        square += w[i] * w[i];
    }
    return most / sqrt(square / (double)count);
}

/* ---- golden values ---- */

/* The heads of layer 1, compared as they run. */
typedef struct one_layer {
    es_array q, k, out;
    double tolerance;
    const double *factor; /* of each query's scores; NULL: 1 */
    int64_t heads, kv_heads, seen;
} one_layer;

static es_status compare_head(void *context, const es_model_seen *seen, es_error *e)
{
    one_layer *f = context;
    (void)e;
    if (seen->layer != 1)
        return ES_OK;
    f->seen++;
    const int64_t k = seen->q.cols, group = seen->head / (f->heads / f->kv_heads);
    const double *q = (double *)f->q.data + seen->head * TOKENS * k;
    const double *keys = (double *)f->k.data + group * TOKENS * k;
    const double *out = (double *)f->out.data + seen->head * TOKENS * k;
    assert_near(seen->scale, 1.0 / sqrt((double)k), 1e-15);
    for (int64_t i = 0; i < TOKENS * k; i++) {
        const double factor = f->factor ? f->factor[i / k] : 1.0;
        assert_near(es_view_get(&seen->q, i / k, i % k), factor * q[i], f->tolerance);
        assert_near(es_view_get(&seen->k, i / k, i % k), keys[i], f->tolerance);
        if (!f->factor)
            assert_near(seen->output[i], out[i], f->tolerance);
    }
    return ES_OK;
}

static void free_first(one_layer *f)
{
    es_array_free(&f->q);
    es_array_free(&f->k);
    es_array_free(&f->out);
}

/* f32: a few hundred roundings of 6e-8 in each of three layers; f64 likewise. The issue asks for
 * 2e-5 and 1e-10 relative to the scale; what is seen is 3e-6 and 3e-15. */
static void check_decoder(const char *name, es_dtype precision, double tolerance)
{
    es_model *m = open_decoder(name, precision);
    const es_model_config *c = es_model_config_of(m);
    es_array hidden = load(name, "hidden"), logits = load(name, "logits");
    one_layer first = {.q = load(name, "q0"),
                       .k = load(name, "k0"),
                       .out = load(name, "out0"),
                       .tolerance = 10.0 * tolerance,
                       .heads = c->heads,
                       .kv_heads = c->kv_heads};
    const es_model_visit visit = {compare_head, &first, .statistics = true};
    int32_t ids[TOKENS];
    double nll[TOKENS];
    read_ids(name, ids);
    void *states = malloc((size_t)(hidden.shape[0] * TOKENS * c->hidden) * sizeof(double));
    void *tokens = malloc((size_t)(TOKENS * c->vocab) * sizeof(double));
    const es_model_block block = {.ids = ids,
                                  .n = TOKENS,
                                  .hidden = states,
                                  .token_logits = tokens,
                                  .nll = nll,
                                  .visit = &visit};
    assert_true(c->causal && c->predicts);
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    const double off = worst(states, precision, &hidden), wrong = worst(tokens, precision, &logits);
    if (!(off < tolerance && wrong < tolerance))
        fail_msg("%s: hidden states are off by %.3g, logits by %.3g", name, off, wrong);
    assert_int_equal(first.seen, c->heads);
    for (int i = 0; i + 1 < TOKENS; i++) {
        const double *row = (double *)logits.data + i * c->vocab;
        double sum = 0.0;
        for (int64_t t = 0; t < c->vocab; t++)
            sum += exp(row[t]);
        assert_near(nll[i], log(sum) - row[ids[i + 1]], 10.0 * tolerance);
    }
    free(tokens);
    free(states);
    free_first(&first);
    es_array_free(&logits);
    es_array_free(&hidden);
    es_model_close(m);
}

static void every_kind_as_an_independent_program_in_f32(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++)
        check_decoder(names[i], ES_F32, 2e-5);
}

static void every_kind_as_an_independent_program_in_f64(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++)
        check_decoder(names[i], ES_F64, 1e-10);
}

/* ---- what attention is given, and what it may be told ---- */

/* inputs of layer 0 are norm(state 0): applied by hand to a model whose norm is known. */
static void inputs_of_attention_are_normed_states(void **state)
{
    es_model *m = open_decoder("llama", ES_F64);
    int32_t ids[TOKENS];
    double hidden[TOKENS * 48], inputs[TOKENS * 48];
    (void)state;
    read_ids("llama", ids);
    es_model_block block = {.ids = ids, .n = TOKENS, .states = 1, .hidden = hidden};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    double *two = malloc(2 * sizeof hidden);
    block = (es_model_block){.ids = ids, .n = TOKENS, .states = 2, .hidden = two, .inputs = inputs};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    double ratio[48];
    for (int i = 0; i < TOKENS; i++) { /* x / rms(x) times a scale that is one for all tokens */
        double square = 0.0;
        for (int j = 0; j < 48; j++)
            square += hidden[i * 48 + j] * hidden[i * 48 + j] / 48.0;
        for (int j = 0; j < 48; j++) {
            const double scale = inputs[i * 48 + j] * sqrt(square + 1e-5) / hidden[i * 48 + j];
            if (i == 0)
                ratio[j] = scale;
            assert_near(scale, ratio[j], 1e-9 * (1.0 + fabs(ratio[j])));
        }
    }
    free(two);
    es_model_close(m);
}

/* Layer 1 alone, from the state that it is given: what is before it would have changed, too. */
static void factors_multiply_scores(void **state)
{
    es_model *m = open_decoder("llama", ES_F64);
    es_array hidden = load("llama", "hidden");
    double factor[TOKENS];
    one_layer first = {.q = load("llama", "q0"),
                       .k = load("llama", "k0"),
                       .out = load("llama", "out0"),
                       .tolerance = 1e-9,
                       .factor = factor,
                       .heads = 6,
                       .kv_heads = 2};
    const es_model_visit visit = {compare_head, &first};
    (void)state;
    for (int i = 0; i < TOKENS; i++)
        factor[i] = log(2.0 + i);
    const es_model_block block = {.input = (double *)hidden.data + TOKENS * 48,
                                  .start = 1,
                                  .states = 3,
                                  .n = TOKENS,
                                  .score_factor = factor,
                                  .visit = &visit};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    assert_int_equal(first.seen, 6);
    free_first(&first);
    es_array_free(&hidden);
    es_model_close(m);
}

static void run_nll(const es_model *m, es_model_block block, double *nll)
{
    block.nll = nll;
    assert_ok(es_model_forward(m, &block, 1, &(es_exec){.threads = 1}, &err));
}

/* The window of a checkpoint, as a mask, and as a policy of every head, are one thing. */
static void a_window_is_a_mask_is_a_policy(void **state)
{
    es_model *m = open_decoder("mistral-window", ES_F64), *wide = open_decoder("llama", ES_F64);
    double own[TOKENS], masked[TOKENS], kept[TOKENS], full[TOKENS];
    es_policy_spec specs[18];
    int32_t ids[TOKENS];
    (void)state;
    read_ids("mistral-window", ids);
    const es_mask mask = {.causal = true, .window = 24};
    const es_model_block plain = {.ids = ids, .n = TOKENS};
    es_model_block block = plain;
    run_nll(m, plain, own);
    block.mask = &mask;
    run_nll(m, block, masked);
    assert_memory_equal(own, masked, (TOKENS - 1) * sizeof(double));
    for (int i = 0; i < 18; i++) {
        es_policy_spec_init(&specs[i], es_policy_find("window"));
        specs[i].window = 24;
    }
    const es_model_sparse sparse = {.heads = specs};
    run_nll(wide, block, masked);
    block = plain;
    block.sparse = &sparse;
    run_nll(wide, block, kept);
    run_nll(wide, plain, full);
    double moved = 0.0;
    for (int i = 0; i + 1 < TOKENS; i++) {
        assert_near(kept[i], masked[i], 1e-9);
        moved = fmax(moved, fabs(full[i] - masked[i]));
        if (i < 24) /* all keys are in the window */
            assert_near(full[i], masked[i], 1e-12);
    }
    assert_above(moved, 1e-3);
    es_model_close(wide);
    es_model_close(m);
}

/* A policy sees what the model sees: top-k of all keys in a model with a window keeps the window.
 */
static void policies_stay_inside_the_window(void **state)
{
    es_model *m = open_decoder("mistral-window", ES_F64);
    double own[TOKENS], kept[TOKENS], count[18];
    es_policy_spec specs[18];
    int32_t ids[TOKENS];
    (void)state;
    read_ids("mistral-window", ids);
    for (int i = 0; i < 18; i++) {
        es_policy_spec_init(&specs[i], es_policy_find("heavy"));
        specs[i].keys = TOKENS;
    }
    const es_model_sparse sparse = {.heads = specs};
    es_model_block block = {.ids = ids, .n = TOKENS};
    run_nll(m, block, own);
    block.sparse = &sparse;
    block.kept = count;
    run_nll(m, block, kept);
    for (int i = 0; i + 1 < TOKENS; i++)
        assert_near(kept[i], own[i], 1e-9);
    /* 1 + 2 + ... + 24, then 24 for each of the other 37 queries */
    assert_near(count[0], (24.0 * 25.0 / 2.0 + 37.0 * 24.0) / TOKENS, 1e-12);
    es_model_close(m);
}

/* Queries, keys and values of a head by themselves are those of the forward pass: with norms of
 * heads (qwen3), biases (qwen2), few channels that turn (neox), none (gpt2), YaRN. */
typedef struct alone {
    const es_model *model;
    const double *inputs; /* (layers, n, H) */
    int64_t H, seen;
} alone;

static es_status compare_alone(void *context, const es_model_seen *seen, es_error *e)
{
    alone *a = context;
    const int64_t k = seen->q.cols;
    const es_view x = es_view_f64((double *)a->inputs + seen->layer * TOKENS * a->H, TOKENS, a->H);
    double *rows = malloc((size_t)(3 * TOKENS * k) * sizeof *rows);
    const es_view *const wanted[3] = {&seen->q, &seen->k, &seen->v};
    assert_ok(es_model_head_rows(a->model, seen->layer, seen->head, &x, NULL, rows,
                                 rows + TOKENS * k, rows + 2 * TOKENS * k, e));
    for (int64_t i = 0; i < 3 * TOKENS * k; i++)
        assert_near(rows[i], es_view_get(wanted[i / (TOKENS * k)], i / k % TOKENS, i % k), 1e-10);
    free(rows);
    a->seen++;
    return ES_OK;
}

static void heads_by_themselves(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        es_model *m = open_decoder(names[i], ES_F64);
        const es_model_config *c = es_model_config_of(m);
        double *inputs = malloc((size_t)(c->layers * TOKENS * c->hidden) * sizeof *inputs);
        alone a = {m, inputs, c->hidden, 0};
        const es_model_visit visit = {compare_alone, &a};
        int32_t ids[TOKENS];
        read_ids(names[i], ids);
        const es_model_block block = {.ids = ids, .n = TOKENS, .inputs = inputs, .visit = &visit};
        assert_ok(es_model_forward(m, &block, 1, NULL, &err));
        assert_int_equal(a.seen, c->layers * c->heads);
        free(inputs);
        es_model_close(m);
    }
}

/* ---- long blocks ---- */

static es_model *open_pebble(void)
{
    es_model *m;
    assert_ok(es_model_open(ES_TESTS_DIR "/../models/pebble", NULL, &m, &err));
    return m;
}

enum { LONG = 1100, SHORT = 600 };

/* 1100 rows are three strips. What a prefix of a block makes is what the block makes of it. */
static void a_prefix_runs_as_in_the_longer_block(void **state)
{
    es_model *m = open_pebble();
    int32_t *ids = malloc(LONG * sizeof *ids);
    double *whole = malloc(LONG * sizeof *whole), *prefix = malloc(LONG * sizeof *prefix);
    (void)state;
    for (int i = 0; i < LONG; i++)
        ids[i] = i * 37 % 4096;
    run_nll(m, (es_model_block){.ids = ids, .n = LONG}, whole);
    run_nll(m, (es_model_block){.ids = ids, .n = SHORT}, prefix);
    for (int i = 0; i + 1 < SHORT; i++) /* f32, four layers; seen: 8e-6 */
        assert_near(prefix[i], whole[i], 1e-4);
    free(prefix);
    free(whole);
    free(ids);
    es_model_close(m);
}

/* One long block is shared by threads, several are not: the bits are the same. */
static void threads_share_a_long_block(void **state)
{
    es_model *m = open_pebble();
    int32_t *ids = malloc(LONG * sizeof *ids);
    double *nll[3];
    (void)state;
    for (int i = 0; i < LONG; i++)
        ids[i] = i * 53 % 4096;
    for (int t = 0; t < 3; t++) {
        nll[t] = malloc(2 * LONG * sizeof *nll[t]);
        const es_model_block blocks[2] = {
            {.ids = ids, .n = LONG, .nll = nll[t]},
            {.ids = ids + 100, .n = LONG - 100, .nll = nll[t] + LONG}};
        assert_ok(es_model_forward(m, blocks, 2, &(es_exec){.threads = t + 1}, &err));
    }
    for (int t = 1; t < 3; t++) {
        assert_memory_equal(nll[0], nll[t], (LONG - 1) * sizeof(double));
        assert_memory_equal(nll[0] + LONG, nll[t] + LONG, (LONG - 101) * sizeof(double));
    }
    for (int t = 0; t < 3; t++)
        free(nll[t]);
    free(ids);
    es_model_close(m);
}

static bool stop_late(void *user, double done, double total)
{
    double *most = user;
    assert_at_least(done, *most);
    assert_at_most(done, total);
    *most = done;
    return done > 0.3;
}

static void a_long_block_can_be_stopped(void **state)
{
    es_model *m = open_pebble();
    int32_t *ids = calloc(LONG, sizeof *ids);
    double most = 0.0;
    const es_model_block block = {.ids = ids, .n = LONG};
    const es_exec exec = {.threads = 2, .progress = stop_late, .progress_user = &most};
    (void)state;
    assert_int_equal(es_model_forward(m, &block, 1, &exec, &err), ES_E_INTERRUPTED);
    assert_between(most, 0.3, 0.5);
    free(ids);
    es_model_close(m);
}

/* ---- refusals ---- */

static void what_is_wanted_must_be_there(void **state)
{
    es_model *m = open_decoder("llama", ES_F32);
    double nll[TOKENS], logits[2];
    int32_t ids[TOKENS];
    static float input[TOKENS * 48];
    (void)state;
    read_ids("llama", ids);
    es_model_block block = {.ids = ids, .n = TOKENS, .nll = nll, .states = 2};
    assert_int_equal(es_model_forward(m, &block, 1, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "forward.states");
    block = (es_model_block){.input = input, .n = TOKENS, .nll = nll};
    assert_int_equal(es_model_forward(m, &block, 1, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "forward.predict");
    block = (es_model_block){.ids = ids, .n = TOKENS, .logits = logits};
    assert_int_equal(es_model_forward(m, &block, 1, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "forward.logits");
    es_policy_spec specs[18];
    for (int i = 0; i < 18; i++) {
        es_policy_spec_init(&specs[i], es_policy_find("linformer"));
        specs[i].keys = 4;
    }
    block = (es_model_block){.ids = ids, .n = TOKENS, .sparse = &(es_model_sparse){.heads = specs}};
    assert_int_equal(es_model_forward(m, &block, 1, NULL, &err), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "policy.causal");
    es_model_close(m);
}

/* What a run takes is stated, and is no less than what it takes. */
static void cost_bounds_memory(void **state)
{
    es_model *m = open_pebble();
    int32_t *ids = calloc(LONG, sizeof *ids);
    double *nll = malloc(LONG * sizeof *nll);
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        const es_model_cost cost =
            es_model_cost_of(es_model_config_of(m), ES_F32, LONG, threads, true);
        es_mem_limit budget = {.limit = (size_t)cost.bytes};
        const es_exec exec = {.threads = threads, .budget = &budget};
        const es_model_block block = {.ids = ids, .n = LONG, .nll = nll};
        assert_ok(es_model_forward(m, &block, 1, &exec, &err));
        assert_int_equal(budget.used, 0);
    }
    free(nll);
    free(ids);
    es_model_close(m);
}

TEST_FILE(decoders)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_as_an_independent_program_in_f32),
        cmocka_unit_test(every_kind_as_an_independent_program_in_f64),
        cmocka_unit_test(inputs_of_attention_are_normed_states),
        cmocka_unit_test(factors_multiply_scores),
        cmocka_unit_test(heads_by_themselves),
        cmocka_unit_test(a_window_is_a_mask_is_a_policy),
        cmocka_unit_test(policies_stay_inside_the_window),
        cmocka_unit_test(a_prefix_runs_as_in_the_longer_block),
        cmocka_unit_test(threads_share_a_long_block),
        cmocka_unit_test(a_long_block_can_be_stopped),
        cmocka_unit_test(what_is_wanted_must_be_there),
        cmocka_unit_test(cost_bounds_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
