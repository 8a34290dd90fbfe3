/* SPDX-License-Identifier: Apache-2.0 */
/* test_budget.c : the study `budget` on models/pebble. Plans: their totals, the file, tolerances;
 * what is predicted against what is found; what is said; any number of threads. What it is made of
 * is in test_budget_lab.c. */
#include "folder.h"
#include "testing.h"

#include <errno.h>
#include <math.h>

#include <esscher/plan.h>
#include <esscher/run.h>
#include <esscher/study.h>

#include "experiments/budget/question.h"
#include "store/run.h"

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";
#define TEXT ES_TESTS_DIR "/golden/pebble/alice-line.txt"
static const char text[] = TEXT;

enum { L = 4, HEADS = 6, DK = 32 };
static es_model *model;

static int open_model(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    return es_model_open(pebble, &(es_model_opts){.precision = ES_F64}, &model, &err) == ES_OK ? 0
                                                                                               : -1;
}

static int close_model(void **state)
{
    es_model_close(model);
    return remove_folder(state);
}

static es_status ask_opts(const es_study_opts *opts, const char *const *given, es_answer **out)
{
    const es_study *study = es_study_find("budget");
    es_params *p;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; given[0]; given += 2)
        assert_ok(es_params_set(p, given[0], given[1], &err));
    const es_status status = es_study_run(study, p, opts, out, &err);
    es_params_free(p);
    return status;
}

#define GIVEN(...)                                                                                 \
    ((const char *const[]){"model", pebble, "evict", "ideal", "text", text, "context", "64",       \
                           "blocks", "3", "query-count", "4", __VA_ARGS__, NULL, NULL})

#define ONE_BLOCK(...)                                                                             \
    ((const char *const[]){"model", pebble, "evict", "ideal", "text", text, "context", "64",       \
                           "blocks", "1", __VA_ARGS__, NULL, NULL})

static es_answer *ask(int threads, const char *const *given)
{
    es_answer *a;
    assert_ok(
        ask_opts(&(es_study_opts){.seed = 3, .force = true, .exec.threads = threads}, given, &a));
    return a;
}

static void plans_have_the_keys_that_were_asked_for(void **state)
{
    (void)state;
    char file[512];
    snprintf(file, sizeof file, "%s", in_folder("plan.json"));
    es_answer *a = ask(2, GIVEN("ratio", "0.25", "out-plan", file, "policy", "stream,top"));
    const es_table *plan = es_answer_find(a, "plan"), *heads = es_answer_find(a, "heads"),
                   *layers = es_answer_find(a, "layers");
    double sum = 0.0, by_layer = 0.0;
    es_plan *loaded;
    for (int64_t i = 0; i < es_table_rows(heads); i++)
        if (i % 3 == 0) /* one of each group */
            sum += es_table_get(heads, i, "keys");
    for (int64_t i = 0; i < es_table_rows(layers); i++)
        by_layer += es_table_get(layers, i, "keys");
    const double kept = es_table_get(plan, 0, "keys_kept");
    assert_equals(sum, kept);
    assert_equals(by_layer, kept);
    assert_at_most(kept, 0.25 * L * 2 * 64);
    assert_above(kept, 0.23 * L * 2 * 64);
    assert_near(es_table_get(plan, 0, "bytes_after"), kept * 2 * DK * 2, 0.0);
    assert_ok(es_plan_load(file, NULL, &loaded, &err));
    assert_ok(es_plan_check(loaded, es_model_config_of(model), &err));
    assert_near(loaded->keys_kept, kept, 0.0);
    assert_int_equal(loaded->context, 64);
    for (int64_t i = 0; i < es_table_rows(heads); i++) {
        const double want = es_table_get(heads, i, "risk");
        assert_near(loaded->head[i].risk, want, 1e-12 * want);
    }
    es_plan_free(loaded);
    es_answer_free(a);
}

/* Where every key is kept every head is full, nothing is lost, and the file says so. */
static void all_keys_are_everything(void **state)
{
    (void)state;
    char file[512];
    es_plan *loaded;
    snprintf(file, sizeof file, "%s", in_folder("all.json"));
    es_answer *a = ask(2, GIVEN("ratio", "1", "out-plan", file));
    assert_near(es_table_get(es_answer_find(a, "plan"), 0, "keys_kept"), L * 2 * 64, 0.0);
    assert_near(es_table_get(es_answer_find(a, "predicted"), 0, "state"), 0.0, 0.0);
    assert_ok(es_plan_load(file, NULL, &loaded, &err));
    assert_near(loaded->keys_kept, L * 2 * 64, 0.0);
    for (int64_t i = 0; i < L * HEADS; i++)
        assert_null(loaded->head[i].spec.policy);
    es_plan_free(loaded);
    es_answer_free(a);
}

/* ---- a model with a window of its own ---- */

enum { WINDOW = 40, CONTEXT = 128 };

/* pebble, whose tokens see the last 40 alone: as "mistral", which is "llama" with a window. */
static const char *windowed_pebble(void)
{
    static const char *const files[] = {"model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    static const char config[] =
        "{\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\", "
        "\"hidden_size\": 192, \"intermediate_size\": 512, \"num_hidden_layers\": 4, "
        "\"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"head_dim\": 32, "
        "\"vocab_size\": 4096, \"max_position_embeddings\": 2048, \"rms_norm_eps\": 1e-05, "
        "\"rope_theta\": 10000.0, \"hidden_act\": \"silu\", \"tie_word_embeddings\": true, "
        "\"attention_bias\": false, \"sliding_window\": 40}";
    char from[512];
    for (int i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "%s/%s", pebble, files[i]);
        if (symlink(from, in_folder(files[i])) != 0)
            assert_equals(errno, EEXIST);
    }
    write_file("config.json", config, sizeof config - 1);
    return folder;
}

#define WINDOWED(...)                                                                              \
    ((const char *const[]){"model", windowed_pebble(), "evict", "ideal", "text", text, "context",  \
                           "128", "blocks", "1", __VA_ARGS__, NULL, NULL})

/* A cache of such a model holds the window, whatever the context: that is what there is to share
 * out, and no head can have more. */
static void a_models_window_is_all_there_is(void **state)
{
    (void)state;
    static const char *const ratios[] = {"0.25", "1"};
    char file[512];
    snprintf(file, sizeof file, "%s", in_folder("windowed.json"));
    for (int i = 0; i < 2; i++) {
        es_answer *a = ask(2, WINDOWED("ratio", ratios[i], "out-plan", file));
        const es_table *plan = es_answer_find(a, "plan"), *heads = es_answer_find(a, "heads"),
                       *layers = es_answer_find(a, "layers");
        const double all = L * 2 * WINDOW, kept = es_table_get(plan, 0, "keys_kept");
        es_plan *loaded;
        assert_near(es_table_get(plan, 0, "keys_all"), all, 0.0);
        assert_near(es_table_get(plan, 0, "bytes_before"), all * 2 * DK * 2, 0.0);
        if (i)
            assert_equals(kept, all);
        else {
            assert_at_most(kept, 0.25 * all);
            assert_above(kept, 0.2 * all);
        }
        for (int64_t h = 0; h < L * HEADS; h++)
            assert_at_most(es_table_get(heads, h, "keys"), WINDOW);
        for (int64_t l = 0; l < L; l++)
            assert_equals((es_table_get(layers, l, "predicted") == 0.0), i);
        assert_ok(es_plan_load(file, NULL, &loaded, &err));
        assert_near(loaded->keys_kept, kept, 0.0);
        assert_near(loaded->keys_all, all, 0.0);
        assert_int_equal(loaded->context, CONTEXT);
        es_plan_free(loaded);
        es_answer_free(a);
    }
}

/* Late queries do not see the first keys: sinks and the nearest keys are the nearest keys. */
static void beyond_a_models_window_there_are_no_sinks(void **state)
{
    (void)state;
    es_answer *stream = ask(2, WINDOWED("ratio", "0.25", "policy", "stream")),
              *near = ask(2, WINDOWED("ratio", "0.25", "policy", "window"));
    const es_table *a = es_answer_find(stream, "heads"), *b = es_answer_find(near, "heads");
    for (int64_t h = 0; h < L * HEADS; h++) {
        assert_near(es_table_get(a, h, "keys"), es_table_get(b, h, "keys"), 0.0);
        assert_near(es_table_get(a, h, "risk"), es_table_get(b, h, "risk"), 0.0);
        assert_near(es_table_get(a, h, "sinks"), 0.0, 0.0);
    }
    es_answer_free(stream);
    es_answer_free(near);
}

/* ---- what plans do ---- */

/* Ours has the least weighted risk of all ways on the block that they are made from, where nothing
 * is known of others. */
static void no_other_way_is_predicted_to_be_better(void **state)
{
    (void)state;
    es_answer *a =
        ask(2, ONE_BLOCK("ratio", "0.25", "query-count", "32", "policy", "stream,observe,top"));
    const es_table *t = es_answer_find(a, "allocations"), *f = es_answer_find(a, "frontier");
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        const double ours = es_table_get(t, i - i % 4, "state_predicted");
        assert_at_least(es_table_get(t, i, "state_predicted"), 0.99 * ours);
    }
    assert_int_equal(es_table_rows(f), 4 * 6); /* all, no query scores, each alone, the limit */
    es_answer_free(a);
}

/* Found by running plans through the model: what is rehearsed is what was asked for, but for
 * numbers of keys, which are whole (a layer has some 20 here, and its error goes like one over
 * them), and for two steps where a limit would take more: 12 %. By risks alone losses are up to a
 * quarter off (loss_coherence). */
static void a_tolerance_is_met_with_few_keys(void **state)
{
    (void)state;
    double before = 1e9;
    static const char *const errors[] = {"0.05", "0.2", "0.8"}, *const losses[] = {"0.01", "0.2"};
    for (int i = 0; i < 3; i++) {
        es_answer *a = ask(2, ONE_BLOCK("error", errors[i], "policy", "top,stream"));
        const es_table *layers = es_answer_find(a, "layers");
        for (int64_t l = 0; l < L; l++)
            assert_at_most(es_table_get(layers, l, "predicted"), 1.12 * atof(errors[i]));
        const double kept = es_table_get(es_answer_find(a, "plan"), 0, "keys_kept");
        assert_below(kept, before);
        before = kept;
        es_answer_free(a);
    }
    for (int i = 0; i < 2; i++) {
        es_answer *a = ask(2, ONE_BLOCK("loss", losses[i], "policy", "top,stream"));
        const double kl = es_table_get(es_answer_find(a, "rehearsal"), 0, "kl");
        assert_near(kl / atof(losses[i]), 1.0, 0.12);
        assert_near(es_table_get(es_answer_find(a, "predicted"), 0, "kl"), kl, 1e-9 * kl);
        es_answer_free(a);
    }
}

/* On the very block that it was made from (one block, so that nothing is known of others) the
 * rehearsal is the verification: both are the same run. With every late position a query, risks by
 * themselves say what is found of single layers, but for two things: numbers of keys between those
 * of the grid, and products of errors of different groups, which are left out (THEORY 14: 0.92 to
 * 1.11). */
static void predictions_are_found_on_the_same_text(void **state)
{
    (void)state;
    es_answer *a = ask(2, ONE_BLOCK("verify", text, "verify-blocks", "1", "query-count", "32",
                                    "policy", "top,stream", "ratio", "0.25"));
    const es_table *t = es_answer_find(a, "layers"), *v = es_answer_find(a, "verified");
    for (int64_t l = 0; l < L; l++) {
        const double own = es_table_get(t, l, "verified"),
                     later = es_table_get(t, l, "state_verified");
        assert_near(es_table_get(t, l, "predicted"), own, 1e-9 * own);
        assert_near(es_table_get(t, l, "state_predicted"), later, 1e-9 * later);
        assert_near(es_table_get(t, l, "computed") / own, 1.0, 0.15);
    }
    const double kl = es_table_get(v, 0, "kl");
    assert_near(es_table_get(es_answer_find(a, "predicted"), 0, "kl"), kl, 1e-9 * kl);
    assert_false(es_answer_check_failed(a));
    es_answer_free(a);
}

/* The same where keys are drawn with replacement, and most heads have more draws than late queries
 * see keys. One outcome stands for the mean over all: 25 %. */
static void draws_with_replacement_are_predicted(void **state)
{
    (void)state;
    es_answer *a = ask(2, ONE_BLOCK("query-count", "32", "policy", "random+with", "keys", "432"));
    const es_table *t = es_answer_find(a, "layers"), *heads = es_answer_find(a, "heads");
    for (int64_t i = 0; i < L * HEADS; i++) {
        const bool full = es_table_get(heads, i, "keys") == 64.0;
        assert_equals((es_table_get(heads, i, "risk") == 0.0), full);
    }
    for (int64_t l = 0; l < L; l++) {
        const double own = es_table_get(t, l, "predicted");
        if (own > 0.0)
            assert_near(es_table_get(t, l, "computed") / own, 1.0, 0.25);
    }
    es_answer_free(a);
}

/* The rehearsal of several blocks runs, on each, the plan that the others make. Predictions are
 * those errors: the risks that they are made of, times three ratios, cancel but for what the plan
 * of all blocks is computed to have less than those of fewer, a few per cent at most. */
static void predictions_are_rehearsed(void **state)
{
    (void)state;
    es_answer *a = ask(2, GIVEN("ratio", "0.25", "policy", "stream,top"));
    const es_table *t = es_answer_find(a, "layers"), *r = es_answer_find(a, "rehearsal");
    const double found = es_table_get(r, 0, "state"), kl = es_table_get(r, 0, "kl");
    assert_near(es_table_get(t, L - 1, "state_predicted") / found, 1.0, 0.05);
    assert_near(es_table_get(es_answer_find(a, "predicted"), 0, "kl") / kl, 1.0, 0.1);
    for (int64_t l = 0; l < L; l++)
        assert_between(es_table_get(t, l, "coherence"), 0.5, 2.0);
    es_answer_free(a);
}

/* Numbers of the blocks of a stage of a run, (blocks, rows); *rows. */
static double *cells_of(const char *path, const char *stage, int64_t blocks, int64_t *rows)
{
    es_run *run;
    es_run_stage found;
    double *out = NULL;
    assert_ok(es_run_open(path, &run, &err));
    for (int64_t id = 0; id < es_run_info(run).stages_count; id++) {
        assert_ok(es_run_get_stage(run, id, &found, &err));
        if (strcmp(found.name, stage) != 0)
            continue;
        *rows = found.rows;
        out = malloc((size_t)(blocks * found.rows) * sizeof *out);
        assert_non_null(out);
        for (int64_t b = 0; b < blocks; b++)
            assert_ok(es_run_get_cell(run, id, b, out + b * found.rows, &err));
    }
    assert_non_null(out);
    assert_ok(es_run_close(run, &err));
    return out;
}

/* Coherence of the last state and of the loss without block `skip`: what was rehearsed, over the
 * sum of own errors through transfers, all of them sums over the other blocks. */
static void coherence_without(const double *followed, int64_t gain_rows, const double *trials,
                              int64_t trial_rows, int64_t blocks, int64_t skip, double out[2])
{
    double error2 = 0.0, kl = 0.0, sum[2] = {0.0, 0.0};
    for (int64_t l = 0; l < L; l++) {
        double own2 = 0.0, later = 0.0, loss = 0.0, found = 0.0;
        for (int64_t b = 0; b < blocks; b++) {
            if (b == skip)
                continue;
            const double *g =
                followed + b * gain_rows + (L + 1) + l * (L + 3); /* error2, own2, loss */
            later += g[L];
            own2 += g[L + 1];
            loss += g[L + 2];
            found += trials[b * trial_rows + 2 * (L + 1) + l]; /* after error2 and spread2 */
        }
        sum[0] += later / own2 * found;
        sum[1] += loss / own2 * found;
    }
    for (int64_t b = 0; b < blocks; b++) {
        const double *t = trials + b * trial_rows;
        error2 += b == skip ? 0.0 : t[L];
        kl += b == skip ? 0.0 : t[2 * (L + 1) + 2 * L + L * HEADS + ES_END_KL];
    }
    out[0] = error2 / sum[0];
    out[1] = kl / sum[1];
}

/* A block that is left out is left out everywhere: transfers are made of it, too. */
static void errors_of_coherence_are_the_jackknifes(void **state)
{
    enum { BLOCKS = 3 };
    char file[512];
    double all[2], one[BLOCKS][2];
    int64_t gain_rows = 0, trial_rows = 0;
    es_answer *a;
    (void)state;
    snprintf(file, sizeof file, "%s", in_folder("jackknife.run"));
    assert_ok(ask_opts(&(es_study_opts){.seed = 3, .exec.threads = 2, .out = file},
                       GIVEN("ratio", "0.25", "policy", "stream,heavy"), &a));
    double *followed = cells_of(file, "gains", BLOCKS, &gain_rows);
    double *trials = cells_of(file, "rehearsal", BLOCKS, &trial_rows);
    coherence_without(followed, gain_rows, trials, trial_rows, BLOCKS, -1, all);
    for (int b = 0; b < BLOCKS; b++)
        coherence_without(followed, gain_rows, trials, trial_rows, BLOCKS, b, one[b]);
    const es_table *layers = es_answer_find(a, "layers"), *p = es_answer_find(a, "predicted");
    const double value[2] = {es_table_get(layers, L - 1, "coherence"),
                             es_table_get(p, 0, "loss_coherence")},
                 se[2] = {es_table_get(layers, L - 1, "coherence_se"),
                          es_table_get(p, 0, "loss_coherence_se")};
    for (int i = 0; i < 2; i++) {
        double mean = 0.0, squares = 0.0;
        for (int b = 0; b < BLOCKS; b++)
            mean += one[b][i] / BLOCKS;
        for (int b = 0; b < BLOCKS; b++)
            squares += (one[b][i] - mean) * (one[b][i] - mean);
        assert_near(value[i], all[i], 1e-10 * all[i]);
        assert_near(se[i], sqrt(squares * (BLOCKS - 1.0) / BLOCKS), 1e-8 * se[i]);
    }
    free(followed);
    free(trials);
    es_answer_free(a);
}

/* Draws of the rehearsal are its own: what is predicted does not change because it is verified. */
static void predictions_do_not_hang_on_verification(void **state)
{
    (void)state;
    es_answer *a = ask(2, GIVEN("ratio", "0.25", "policy", "random")),
              *b = ask(2, GIVEN("ratio", "0.25", "policy", "random", "verify", text,
                                "verify-blocks", "2"));
    assert_equals(es_table_get(es_answer_find(a, "predicted"), 0, "state"),
                  es_table_get(es_answer_find(b, "predicted"), 0, "state"));
    es_answer_free(a);
    es_answer_free(b);
}

/* Plans from fewer blocks, as many as there are; and of two texts, once the same. */
static void plans_of_other_text_are_compared(void **state)
{
    (void)state;
    static const char *const others[] = {TEXT, ES_TESTS_DIR "/experiments/test_budget.c"};
    for (int i = 0; i < 2; i++) {
        es_answer *a =
            ask(2, GIVEN("ratio", "0.25", "policy", "stream,top", "other-text", others[i]));
        const es_table *c = es_answer_find(a, "calibration"), *d = es_answer_find(a, "domains");
        assert_int_equal(es_table_rows(c), 2);
        assert_near(es_table_get(c, 0, "plans"), 3.0, 0.0);
        assert_near(es_table_get(c, 1, "blocks"), 2.0, 0.0);
        assert_above(es_table_get(c, 0, "moved"), es_table_get(c, 1, "moved"));
        assert_above(es_table_get(c, 0, "worse"), 0.0);
        assert_int_equal(es_table_rows(d), 2);
        for (int64_t r = 0; r < 2; r++) {
            const double moved = es_table_get(d, r, "moved");
            if (i)
                assert_above(moved, 0.02);
            else
                assert_equals(moved, 0.0);
            /* a plan that has seen the text against those that have not seen the block */
            if (i)
                assert_above(es_table_get(d, r, "foreign"), 0.0);
            else
                assert_below(es_table_get(d, r, "worse"), 0.0);
        }
        es_answer_free(a);
    }
}

/* Made from several blocks, a plan is predicted to do worse on others than on those. */
static void plans_are_judged_by_blocks_they_have_not_seen(void **state)
{
    (void)state;
    es_answer *a = ask(2, GIVEN("ratio", "0.25", "policy", "stream,observe"));
    const es_table *layers = es_answer_find(a, "layers"), *heads = es_answer_find(a, "heads");
    double seen = 0.0, predicted = 0.0;
    for (int64_t i = 0; i < es_table_rows(heads); i++)
        seen += es_table_get(heads, i, "risk"); /* on the blocks that it was made from */
    for (int64_t l = 0; l < L; l++) {
        assert_above(es_table_get(layers, l, "predicted"), 0.0);
        predicted += es_table_get(layers, l, "optimism");
    }
    assert_above(seen, 0.0);
    assert_between(predicted / L, 1.0, 10.0);
    es_answer_free(a);
}

/* Numbers of keys stay what they are, so that a plan for 64 tokens drops most of 192: the error
 * that was asked for at 64 is far below what is found there. */
static void a_broken_tolerance_refutes(void **state)
{
    (void)state;
    es_answer *a = ask(2, GIVEN("error", "0.05", "verify", text, "verify-blocks", "1",
                                "verify-context", "192", "policy", "top"));
    assert_above(es_table_get(es_answer_find(a, "verified"), 0, "error"), 0.05);
    assert_true(es_answer_check_failed(a));
    es_answer_free(a);
}

/* The layer that is furthest off may be too uncertain to break anything, and another not. With 8
 * blocks t is 2.36 for one layer and 2.84 for two. */
static void any_layer_may_break_a_tolerance(void **state)
{
    const es_measured sure[] = {{0.3212, 0.0013}, {0.3493, 0.0200}},
                      unsure[] = {{0.3026, 0.0010}, {0.2, 0.1}};
    (void)state;
    assert_int_equal(budget_broken(sure, 2, 8, 0.3), 0);
    assert_int_equal(budget_broken(sure + 1, 1, 8, 0.3), 0); /* .3493 - 2.36 .02 = .302 */
    assert_int_equal(budget_broken(sure, 2, 8, 0.32), -1);
    assert_int_equal(budget_broken(unsure, 1, 8, 0.3), 0);
    assert_int_equal(budget_broken(unsure, 2, 8, 0.3), -1); /* one of two may be by chance */
    assert_int_equal(budget_broken(sure, 2, 1, 0.33), 1);   /* one block has no interval */
}

/* ---- what is said ---- */

/* The finding that has these words; NULL: there is none. */
static const char *finding_with(const es_answer *a, const char *words)
{
    for (int64_t i = 0; es_answer_finding(a, i); i++)
        if (strstr(es_answer_finding(a, i), words))
            return es_answer_finding(a, i);
    return NULL;
}

/* A head that is full keeps every key of any context, the others as many as at the plan's: counted
 * head by head, and found in the run, where a query has as many on average over a block. At another
 * context predictions are not compared, as they are not of it. */
static void at_another_context_full_heads_stay_full(void **state)
{
    (void)state;
    static const char *const lengths[] = {"32", "128"};
    for (int i = 0; i < 2; i++) {
        const double n = atof(lengths[i]);
        es_answer *a = ask(2, ONE_BLOCK("keys", "450", "policy", "top", "verify", text,
                                        "verify-blocks", "1", "verify-context", lengths[i]));
        const es_table *heads = es_answer_find(a, "heads");
        double kept = 0.0, mean = 0.0, full = 0.0;
        char words[64];
        for (int64_t h = 0; h < L * HEADS; h++) {
            const double keys = es_table_get(heads, h, "keys"), most = keys == 64.0 ? n : keys;
            full += keys == 64.0;
            for (double seen = 1.0; seen <= n; seen++)
                mean += fmin(seen, most) / n / (L * HEADS);
            kept += h % 3 ? 0.0 : fmin(n, most);
        }
        assert_between(full, 0.0, L * HEADS);
        assert_near(es_table_get(es_answer_find(a, "verified"), 0, "keys"), mean, 1e-9 * mean);
        snprintf(words, sizeof words, "made for 64, keeps %.3g %% of the keys",
                 100.0 * kept / (L * 2 * n));
        assert_non_null(finding_with(a, words));
        assert_non_null(finding_with(a, "is predicted to change by"));
        assert_null(finding_with(a, "was predicted"));
        assert_null(finding_with(a, " predicted)"));
        es_answer_free(a);
    }
}

/* The number after these words of a finding. */
static double number_after(const es_answer *a, const char *words)
{
    const char *finding = finding_with(a, words);
    assert_non_null(finding);
    return strtod(strstr(finding, words) + strlen(words), NULL);
}

/* Returns half a unit of the third significant digit: the largest error of rounding to three. */
static double half_of_third_digit(double x) { return 0.5 * pow(10.0, floor(log10(x)) - 2.0); }

/* The first finding is the answer: the change of the state, measured and predicted. The second has
 * the extra loss, and KL beside the predicted KL. Numbers with an error have two digits of it, the
 * others three digits. */
static void like_stands_beside_like(void **state)
{
    (void)state;
    static const char other[] = ES_TESTS_DIR "/experiments/test_budget.c";
    es_answer *a = ask(2, GIVEN("ratio", "0.25", "policy", "stream,observe,top", "verify", other,
                                "verify-blocks", "3", "rivals", NULL));
    const es_table *p = es_answer_find(a, "predicted"), *v = es_answer_find(a, "verified");
    const struct {
        const char *words;
        double value, tolerance; /* of rounding: a tenth of the error, or three digits */
    } said[] = {
        {"the last hidden state changes by ", 100.0 * es_table_get(v, 0, "state"),
         10.0 * es_table_get(v, 0, "state_se")},
        {"held-out text; ", 100.0 * es_table_get(p, 0, "state"),
         10.0 * es_table_get(p, 0, "state_se")},
        {"(KL ", es_table_get(v, 0, "kl"), half_of_third_digit(es_table_get(v, 0, "kl"))},
        {" nats; ", es_table_get(p, 0, "kl"), half_of_third_digit(es_table_get(p, 0, "kl"))},
        {"The extra loss is ", es_table_get(v, 0, "loss"), 0.1 * es_table_get(v, 0, "loss_se")},
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        assert_near(number_after(a, said[i].words), said[i].value, said[i].tolerance);
    assert_non_null(strstr(es_answer_finding(a, 0), "If queries attend to 25 % of the keys, "));
    assert_non_null(strstr(es_answer_finding(a, 1), "The extra loss is "));
    assert_non_null(strstr(es_answer_finding(a, 2), "Same budget, other allocations: "));
    assert_non_null(finding_with(a, "so that the cache does not shrink"));
    assert_non_null(strstr(es_table_about(es_answer_find(a, "plan"))->views[0].note,
                           "not a test of retrieval"));
    es_answer_free(a);
}

/* One block has no interval: ESS itself decides. At 64 tokens two thirds of the keys are the cut.
 */
static void heads_are_named_by_concentration(void **state)
{
    (void)state;
    es_answer *a = ask(2, ONE_BLOCK("ratio", "0.25", "policy", "stream"));
    const es_table *heads = es_answer_find(a, "heads");
    for (int64_t h = 0; h < L * HEADS; h++) {
        const double ess = es_table_get(heads, h, "ess");
        assert_string_equal(es_table_get_text(heads, h, "why"), ess >= 2.0 / 3.0 * 64 ? "averaging"
                                                                : ess < 2.0           ? "single-key"
                                                                            : "selective");
    }
    es_answer_free(a);
}

/* Policies that are told the past bring keys back, which is said where a head has one, and in the
 * plan; those that need the query's scores are named. */
static void keys_that_come_back_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *says, *denies;
    } cases[] = {{"stream", NULL, "Caution: "},
                 {"heavy", "Caution: heavy chooses keys anew", "own scores"},
                 {"observe", "Final eviction costs more", "own scores"},
                 {"top", "Caution: top chooses keys by each query's own scores", "come back"}};
    char file[512];
    snprintf(file, sizeof file, "%s", in_folder("noted.json"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        es_plan *plan;
        es_answer *a = ask(
            2, ((const char *const[]){
                   "model",  pebble,          "evict",    "ideal",       "text", text,    "context",
                   "64",     "blocks",        "4",        "query-count", "2",    "ratio", "0.25",
                   "policy", cases[i].policy, "out-plan", file,          NULL,   NULL}));
        assert_null(finding_with(a, cases[i].denies));
        if (cases[i].says)
            assert_non_null(finding_with(a, cases[i].says));
        assert_ok(es_plan_load(file, NULL, &plan, &err));
        const bool past = i == 1 || i == 2;
        assert_true((strstr(plan->note, "a dropped key may come back") != NULL) == past);
        assert_true((strstr(plan->note, "+0.079 ± 0.025 KL") != NULL) == past);
        assert_equals((plan->note[0] != '\0'), past);
        es_plan_free(plan);
        es_answer_free(a);
    }
}

/* Nothing is dropped, and nothing is off. */
static void all_keys_change_nothing(void **state)
{
    (void)state;
    es_answer *a = ask(2, ONE_BLOCK("ratio", "1", "verify", text, "verify-blocks", "1"));
    assert_non_null(finding_with(a, "With 100 % of the KV cache"));
    assert_non_null(finding_with(a, "changes by 0 % of its spread"));
    assert_null(finding_with(a, "inf"));
    assert_null(finding_with(a, "nan"));
    es_answer_free(a);
}

/* By whatever name the same file is given. */
static void the_same_text_is_no_other_text(void **state)
{
    (void)state;
    static const char other[] = ES_TESTS_DIR "/experiments/test_budget.c";
    char link[512], file[512];
    es_plan *plan;
    snprintf(link, sizeof link, "%s", in_folder("linked.txt"));
    snprintf(file, sizeof file, "%s", in_folder("one.json"));
    assert_int_equal(symlink(text, link), 0);
    es_answer *a = ask(2, ONE_BLOCK("ratio", "0.5", "policy", "top", "verify", link,
                                    "verify-blocks", "1", "out-plan", file));
    assert_non_null(finding_with(a, "Caution: --verify names a file that the plan was made from"));
    assert_null(finding_with(a, "held-out text"));
    es_answer_free(a);
    assert_ok(es_plan_load(file, NULL, &plan, &err));
    assert_non_null(strstr(plan->text, "1 block of 64 tokens"));
    es_plan_free(plan);
    a = ask(2, ONE_BLOCK("ratio", "0.5", "policy", "top", "verify", other, "verify-blocks", "1"));
    assert_null(finding_with(a, "Caution: --verify"));
    assert_non_null(finding_with(a, "(held-out text; "));
    es_answer_free(a);
}

/* What is done to keys kept by chance, not whether anybody asked for it. */
static void corrections_are_those_that_are_made(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *correction;
    } cases[] = {{"random", "none"},        {"random+inverse", "inverse"},
                 {"top-random", "inverse"}, {"top-random+none", "none"},
                 {"bigbird", "none"},       {"top", "none"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        es_answer *a = ask(2, ONE_BLOCK("ratio", "0.25", "policy", cases[i].policy));
        const es_table *heads = es_answer_find(a, "heads");
        for (int64_t h = 0; h < L * HEADS; h++)
            assert_string_equal(es_table_get_text(heads, h, "correction"), cases[i].correction);
        es_answer_free(a);
    }
}

static void refuse(const char *const *given, es_status status, const char *rule)
{
    es_answer *a = NULL;
    assert_int_equal(ask_opts(&(es_study_opts){.seed = 3}, given, &a), status);
    assert_string_equal(err.rule, rule);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    refuse(GIVEN("policy", "top"), ES_E_ARGUMENT, "budget.options");
    refuse(GIVEN("ratio", "0.5", "error", "0.1"), ES_E_ARGUMENT, "budget.options");
    refuse(GIVEN("ratio", "0.001"), ES_E_ARGUMENT, "budget.amount");
    refuse(GIVEN("keys", "100000"), ES_E_ARGUMENT, "budget.amount");
    refuse(GIVEN("ratio", "0.5", "policy", "linformer"), ES_E_UNSUPPORTED, "policy.measured");
    refuse(GIVEN("ratio", "0.5", "policy", "top", "no-query-scores", NULL), ES_E_ARGUMENT,
           "budget.policy");
    refuse(GIVEN("ratio", "0.5", "rivals", NULL), ES_E_ARGUMENT, "budget.options");
    refuse(GIVEN("ratio", "0.5", "verify-tasks", text), ES_E_ARGUMENT, "budget.classifier");
    refuse(GIVEN("ratio", "0.5", "verify", text, "verify-context", "4096"), ES_E_ARGUMENT,
           "budget.context");
}

/* ---- the same bits ---- */

static bool into_memory(void *user, const char *bytes, size_t count)
{
    char *out = user;
    memcpy(out + strlen(out), bytes, count);
    return true;
}

/* Three tables, one after the other. */
static void csv_of(int threads, const char *const *given, char out[65536])
{
    static const char *const tables[] = {"heads", "layers", "allocations"};
    es_answer *a = ask(threads, given);
    memset(out, 0, 65536);
    for (int i = 0; i < 3; i++)
        assert_ok(es_answer_write(a, ES_ANSWER_CSV, &(es_answer_opts){.table = tables[i]},
                                  into_memory, out, &err));
    es_answer_free(a);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static char one[65536], other[65536];
    const char *const *given =
        GIVEN("ratio", "0.25", "policy", "random,stream", "verify", text, "verify-blocks", "2");
    csv_of(1, given, one);
    csv_of(3, given, other);
    assert_string_equal(one, other);
    given = GIVEN("loss", "0.03", "policy", "random,top");
    csv_of(1, given, one);
    csv_of(3, given, other);
    assert_string_equal(one, other);
}

TEST_FILE(budget)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_have_the_keys_that_were_asked_for),
        cmocka_unit_test(all_keys_are_everything),
        cmocka_unit_test(a_models_window_is_all_there_is),
        cmocka_unit_test(beyond_a_models_window_there_are_no_sinks),
        cmocka_unit_test(no_other_way_is_predicted_to_be_better),
        cmocka_unit_test(a_tolerance_is_met_with_few_keys),
        cmocka_unit_test(predictions_are_found_on_the_same_text),
        cmocka_unit_test(draws_with_replacement_are_predicted),
        cmocka_unit_test(predictions_are_rehearsed),
        cmocka_unit_test(errors_of_coherence_are_the_jackknifes),
        cmocka_unit_test(predictions_do_not_hang_on_verification),
        cmocka_unit_test(plans_of_other_text_are_compared),
        cmocka_unit_test(plans_are_judged_by_blocks_they_have_not_seen),
        cmocka_unit_test(a_broken_tolerance_refutes),
        cmocka_unit_test(any_layer_may_break_a_tolerance),
        cmocka_unit_test(at_another_context_full_heads_stay_full),
        cmocka_unit_test(like_stands_beside_like),
        cmocka_unit_test(heads_are_named_by_concentration),
        cmocka_unit_test(keys_that_come_back_are_said),
        cmocka_unit_test(all_keys_change_nothing),
        cmocka_unit_test(the_same_text_is_no_other_text),
        cmocka_unit_test(corrections_are_those_that_are_made),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
