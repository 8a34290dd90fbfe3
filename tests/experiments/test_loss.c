/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss.c : the study `loss` on models/pebble, against losses of plain loops in f64 that share
 * no code with it (golden/pebble/loss.mjs): token by token with windows, sinks and scaled scores;
 * text and ids, bits per byte; policies beside windows; refusals; any number of threads, run files.
 * The losses of the checkpoint's own record are met on blocks of 2048 tokens. */
#include "folder.h"
#include "golden.h"
#include "real.h"
#include "tiny_model.h"

#include <esscher/model.h>
#include <esscher/npy.h>
#include <esscher/study.h>

#include "experiments/loss/loss.h"
#include "table/table.h"

enum { BLOCKS = 3, LENGTH = 96, TOKENS = BLOCKS * (LENGTH - 1) };

static const char model[] = ES_TESTS_DIR "/../models/pebble";
static char ids_file[512], losses_file[512];
static json_t *reference;

static int make_inputs(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    double ids[BLOCKS * LENGTH];
    const int64_t shape[] = {BLOCKS, LENGTH};
    reference = golden_file("pebble/loss.json");
    for (size_t i = 0; i < BLOCKS * LENGTH; i++)
        ids[i] = json_number_value(json_array_get(
            json_array_get(json_object_get(reference, "ids"), i / LENGTH), i % LENGTH));
    snprintf(ids_file, sizeof ids_file, "%s", in_folder("ids.npy"));
    snprintf(losses_file, sizeof losses_file, "%s", in_folder("nll.npy"));
    return es_npy_save(ids_file, ES_F64, 2, shape, ids, false, &err) == ES_OK ? 0 : -1;
}

static int remove_inputs(void **state)
{
    json_decref(reference);
    return remove_folder(state);
}

/* ---- the study ---- */

static es_status ask_opts(const es_study_opts *opts, const char *const *given, es_answer **out)
{
    const es_study *study = es_study_find("loss");
    es_params *p;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; given[0]; given += 2)
        assert_ok(es_params_set(p, given[0], given[1], &err));
    const es_status status = es_study_run(study, p, opts, out, &err);
    es_params_free(p);
    return status;
}

#define GIVEN(...) ((const char *const[]){"model", model, __VA_ARGS__, NULL, NULL})
#define ASK(precision_, ...)                                                                       \
    ask(&(es_study_opts){.seed = 3, .precision = precision_, .force = true, .exec.threads = 2},    \
        GIVEN(__VA_ARGS__))

static es_answer *ask(const es_study_opts *opts, const char *const *given)
{
    es_answer *a;
    assert_ok(ask_opts(opts, given, &a));
    return a;
}

static double lone(const es_answer *a, const char *key)
{
    const char *name, *text;
    char buffer[64];
    for (int64_t i = 0; es_answer_scalar(a, i, &name, buffer, sizeof buffer, &text); i++)
        if (strcmp(name, key) == 0)
            return atof(text);
    return (double)NAN;
}

/* ---- the reference ---- */

static const json_t *setting_of(const char *name)
{
    const json_t *found = json_object_get(json_object_get(reference, "settings"), name);
    assert_non_null(found);
    return found;
}

static double true_loss(const char *setting, int64_t block, int64_t place)
{
    return json_number_value(
        json_array_get(json_array_get(json_object_get(setting_of(setting), "nll"), (size_t)block),
                       (size_t)(place - 1)));
}

static double true_entropy(const char *setting)
{
    double sum = 0.0;
    for (size_t b = 0; b < BLOCKS; b++)
        sum +=
            json_number_value(json_array_get(json_object_get(setting_of(setting), "entropy"), b));
    return sum / BLOCKS;
}

/* Mean over places [from, to), less that of `base` (NULL: nothing), and its error over blocks. */
static void true_mean(const char *setting, const char *base, int64_t from, int64_t to,
                      double out[2])
{
    double blocks[BLOCKS] = {0}, mean = 0.0, squares = 0.0;
    for (int64_t b = 0; b < BLOCKS; b++) {
        for (int64_t p = from; p < to; p++)
            blocks[b] += (true_loss(setting, b, p) - (base ? true_loss(base, b, p) : 0.0)) /
                         (double)(to - from);
        mean += blocks[b] / BLOCKS;
    }
    for (int64_t b = 0; b < BLOCKS; b++)
        squares += pow(blocks[b] - mean, 2.0);
    out[0] = mean;
    out[1] = sqrt(squares / (BLOCKS - 1) / BLOCKS);
}

/* f32 logits of size 10 or so are good to 1e-5; the reference is rounded to 1e-9. */
static const double within[] = {[ES_F32] = 1e-4, [ES_F64] = 2e-8};

/* ---- token by token ---- */

static void check_tokens(const char *setting, es_dtype precision, const char *const *given)
{
    es_answer *a =
        ask(&(es_study_opts){.precision = precision, .force = true, .exec.threads = 2}, given);
    es_array found;
    double mean[2];
    assert_ok(es_npy_load(losses_file, NULL, &found, &err));
    assert_int_equal(found.rank, 1);
    assert_int_equal(found.shape[0], TOKENS);
    for (int64_t i = 0; i < TOKENS; i++)
        assert_near(((double *)found.data)[i],
                    true_loss(setting, i / (LENGTH - 1), i % (LENGTH - 1) + 1), within[precision]);
    true_mean(setting, NULL, 1, LENGTH, mean);
    assert_near(lone(a, "tokens"), TOKENS, 0.0);
    assert_near(lone(a, "nll"), mean[0], within[precision]);
    assert_near(lone(a, "nll_se"), mean[1], within[precision]);
    assert_nan(lone(a, "bits_per_byte")); /* ids have no bytes */
    es_array_free(&found);
    es_answer_free(a);
}

#define TOKENS_OF(setting, precision, ...)                                                         \
    check_tokens(setting, precision,                                                               \
                 GIVEN("ids", ids_file, "per-token", losses_file, ##__VA_ARGS__))

static void every_token_has_the_loss_of_plain_loops(void **state)
{
    (void)state;
    static const es_dtype both[] = {ES_F32, ES_F64};
    for (int i = 0; i < 2; i++) {
        TOKENS_OF("full", both[i]);
        TOKENS_OF("window 8", both[i], "window", "8", "sinks", "0");
        TOKENS_OF("window 32 + 4 sinks", both[i], "window", "32", "sinks", "4");
        TOKENS_OF("full, scores times log", both[i], "score-scale", "log", "reference", "96");
        TOKENS_OF("full, scores times yarn", both[i], "score-scale", "yarn");
        TOKENS_OF("full, scores times 1.5", both[i], "score-scale", "1.5");
        TOKENS_OF("full, scores times logn", both[i], "score-scale", "logn", "reference", "32");
        TOKENS_OF("full, scores times llama4:beta=0.5:n0=16", both[i], "score-scale",
                  "llama4:beta=0.5:n0=16");
    }
}

/* 96 tokens are within the positions of the model; yarn stretches from --reference. */
static void every_token_has_the_loss_of_plain_loops_stretched(void **state)
{
    (void)state;
    static const char *const names[] = {"linear:3", "ntk:2", "base:1e6", "yarn:4"};
    for (int i = 0; i < 4; i++)
        TOKENS_OF(names[i], ES_F64, "rope", names[i], "block", "96", "reference", "32");
    TOKENS_OF("ntk:2, scores times logn", ES_F64, "rope", "ntk:2", "score-scale", "logn", "block",
              "96", "reference", "32");
    TOKENS_OF("yarn:4", ES_F32, "rope", "yarn:4", "block", "96", "reference", "32");
}

/* ---- tables ---- */

static int64_t row_of(const es_table *t, const char *setting)
{
    for (int64_t i = 0; i < es_table_rows(t); i++)
        if (strcmp(es_table_get_text(t, i, "setting"), setting) == 0)
            return i;
    fail_msg("there is no setting %s", setting);
    return -1;
}

static void settings_and_positions_are_means_of_tokens(void **state)
{
    (void)state;
    static const char *const names[] = {"full", "window 8", "window 16"};
    es_answer *a = ASK(ES_F64, "ids", ids_file, "window", "8,16");
    const es_table *t = es_answer_find(a, "settings"), *all = es_answer_find(a, "positions");
    double m[2];
    assert_int_equal(es_table_rows(t), 5); /* windows with the first 4 keys, too */
    assert_string_equal(es_table_get_text(t, 4, "setting"), "window 16 + 4 sinks");
    for (int i = 0; i < 3; i++) {
        const int64_t row = row_of(t, names[i]), first = row_of(all, names[i]);
        true_mean(names[i], NULL, 1, LENGTH, m);
        assert_near(es_table_get(t, row, "nll"), m[0], 1e-8);
        assert_near(es_table_get(t, row, "nll_se"), m[1], 1e-8);
        assert_near(es_table_get(t, row, "entropy"), true_entropy(names[i]), 1e-8);
        true_mean(names[i], NULL, 1, 64, m);
        assert_near(es_table_get(all, first, "nll"), m[0], 1e-8);
        assert_near(es_table_get(all, first, "count"), 63.0 * BLOCKS, 0.0);
        if (!i)
            continue;
        true_mean(names[i], "full", 1, LENGTH, m);
        assert_near(es_table_get(t, row, "cost"), m[0], 1e-8);
        assert_near(es_table_get(t, row, "cost_se"), m[1], 1e-8);
        true_mean(names[i], "full", LENGTH / 2, LENGTH, m);
        assert_near(es_table_get(t, row, "late"), m[0], 1e-8);
        true_mean(names[i], "full", 64, LENGTH, m);
        assert_near(es_table_get(all, first + 1, "cost"), m[0], 1e-8);
        assert_near(es_table_get(all, first + 1, "to"), LENGTH, 0.0);
    }
    assert_near(es_table_get(t, 1, "keys"), (1 + 2 + 3 + 4 + 5 + 6 + 7 + 89 * 8) / 96.0, 1e-12);
    /* two windows were asked for: the answer itself is of the model as it is */
    true_mean("full", NULL, 1, LENGTH, m);
    assert_near(lone(a, "nll"), m[0], 1e-8);
    es_answer_free(a);
}

/* The same keys, chosen by the engine's mask and by a policy for every query. */
static void a_window_is_the_policy_of_that_name(void **state)
{
    (void)state;
    es_answer *a = ASK(ES_F64, "ids", ids_file, "policy", "window", "window", "8");
    es_answer *b = ASK(ES_F64, "ids", ids_file, "policy", "stream", "window", "32", "sinks", "4");
    double m[2];
    true_mean("window 8", NULL, 1, LENGTH, m);
    assert_near(lone(a, "nll"), m[0], 1e-8);
    assert_near(es_table_get(es_answer_find(a, "settings"), 1, "keys"),
                (1 + 2 + 3 + 4 + 5 + 6 + 7 + 89 * 8) / 96.0, 1e-12);
    true_mean("window 32 + 4 sinks", NULL, 1, LENGTH, m);
    assert_near(lone(b, "nll"), m[0], 1e-8);
    es_answer_free(a);
    es_answer_free(b);
}

/* ---- text ---- */

/* 362 tokens of 1090 bytes: three full blocks and one of 77, each begun with id 0. */
static void text_begins_with_id_0_and_has_bytes(void **state)
{
    (void)state;
    char text[4096];
    double m[2];
    snprintf(text, sizeof text, "%s", golden_path("pebble/alice-line.txt"));
    es_answer *a = ASK(ES_F64, "text", text, "block", "96", "blocks", "3");
    true_mean("full", NULL, 1, LENGTH, m);
    assert_near(lone(a, "nll"), m[0], 1e-8);
    assert_near(lone(a, "bits_per_byte"), m[0] * TOKENS / log(2.0) / 878.0, 1e-8);
    es_answer_free(a);
    a = ASK(ES_F64, "text", text, "block", "96");
    assert_near(lone(a, "tokens"), 362.0, 0.0);
    assert_near(es_table_get(es_answer_find(a, "text"), 0, "bytes"), 1090.0, 0.0);
    assert_near(lone(a, "bits_per_byte"), lone(a, "nll") * 362.0 / log(2.0) / 1090.0, 1e-8);
    es_answer_free(a);
    a = ASK(ES_F32, "text", text, "text", text, "block", "200"); /* each text begins a block */
    assert_near(lone(a, "tokens"), 724.0, 0.0);
    assert_near(es_table_get(es_answer_find(a, "text"), 0, "blocks"), 4.0, 0.0);
    assert_near(es_table_get(es_answer_find(a, "text"), 0, "bytes"), 2180.0, 0.0);
    es_answer_free(a);
    a = ASK(ES_F64, "text", text, "block", "96", "start", "none", "blocks", "1");
    assert_near(lone(a, "tokens"), 95.0, 0.0); /* of 96: the first has nothing before it */
    es_answer_free(a);
}

/* Of three whole blocks one is the second, taken from the middle; a text as long as asked for is
 * what it was. The same of ids. */
static void blocks_are_taken_evenly(void **state)
{
    (void)state;
    char text[4096];
    double m[2];
    snprintf(text, sizeof text, "%s", golden_path("pebble/alice-line.txt"));
    const char *const sources[][2] = {{"text", text}, {"ids", ids_file}};
    for (int i = 0; i < 2; i++) {
        es_answer *a = ASK(ES_F64, sources[i][0], sources[i][1], "block", "96", "blocks", "1");
        es_answer *b = ASK(ES_F64, sources[i][0], sources[i][1], "block", "96", "blocks", "1",
                           "blocks-from", "start");
        for (int64_t block = 0; block < 2; block++) {
            m[0] = 0.0;
            for (int64_t p = 1; p < LENGTH; p++)
                m[0] += true_loss("full", block, p) / (LENGTH - 1);
            assert_near(lone(block ? a : b, "nll"), m[0], 1e-8);
        }
        assert_near(es_table_get(es_answer_find(a, "text"), 0, "of"), 3.0, 0.0);
        es_answer_free(a);
        es_answer_free(b);
    }
}

/* ---- fresh texts ---- */

/* Tokens 48 to 95 of a block, 16 at a time, as the last of a text of id 0 and 32 tokens; and as the
 * block itself where that is as long. */
static void a_fresh_text_is_a_text_of_the_last_tokens(void **state)
{
    (void)state;
    enum { W = 16, FROM = LENGTH / 2 };
    static const int32_t start[] = {0};
    int32_t ids[LENGTH], piece[2 * W + 1] = {0};
    double found[LENGTH - FROM], want[2 * W], full[LENGTH - 1], entropy[64], keys;
    es_model *m;
    for (size_t i = 0; i < LENGTH; i++)
        ids[i] = (int32_t)json_integer_value(
            json_array_get(json_array_get(json_object_get(reference, "ids"), 0), i));
    assert_int_equal(ids[0], 0);
    assert_ok(es_model_open(model, &(es_model_opts){.precision = ES_F64}, &m, &err));
    const es_loss_block block = {.model = m, .ids = ids, .n = LENGTH};
    es_fresh_text fresh = {.window = W, .from = FROM, .start = start, .n_start = 1};
    assert_ok(es_loss_fresh(&block, &fresh, NULL, found, &err));
    for (int64_t at = FROM; at < LENGTH; at += W) {
        const es_loss_block own = {.model = m, .ids = piece, .n = 2 * W + 1};
        memcpy(piece + 1, ids + at - W, 2 * W * sizeof *ids);
        assert_ok(es_loss_run(&own, &(es_loss_setting){0}, NULL, want, entropy, &keys, &err));
        for (int64_t i = 0; i < W; i++) /* of place W + 1 + i, whose loss is number W + i */
            assert_near(found[at - FROM + i], want[W + i], 1e-12);
    }
    fresh.window = FROM;
    assert_ok(es_loss_fresh(&block, &fresh, NULL, found, &err));
    assert_ok(es_loss_run(&block, &(es_loss_setting){0}, NULL, full, entropy, &keys, &err));
    for (int64_t i = FROM; i < LENGTH; i++)
        assert_near(found[i - FROM], full[i - 1], 1e-12);
    es_model_close(m);
}

/* The study has the same numbers, on the same tokens, with the id that begins its blocks. */
static void windows_are_set_beside_fresh_texts(void **state)
{
    (void)state;
    char text[4096];
    snprintf(text, sizeof text, "%s", golden_path("pebble/alice-line.txt"));
    es_answer *a = ASK(ES_F64, "text", text, "block", "96", "blocks", "3", "window", "8,48");
    const es_table *t = es_answer_find(a, "windows");
    assert_int_equal(es_table_rows(t), 2);
    assert_near(es_table_get(t, 0, "sinks"), 4.0, 0.0);
    assert_near(es_table_get(t, 0, "bare") - es_table_get(t, 0, "cost"), es_table_get(t, 0, "sink"),
                1e-9);
    assert_above(es_table_get(t, 0, "fresh"), 0.05); /* a dozen tokens are few */
    assert_nan(es_table_get(t, 1, "fresh"));         /* of half a block it would be the block */
    es_answer_free(a);
}

/* How a text of ids begins is known only if all blocks begin as the model's files say, here with 0.
 */
static void ids_are_fresh_texts_if_they_begin_as_texts_do(void **state)
{
    (void)state;
    char text[4096];
    snprintf(text, sizeof text, "%s", golden_path("pebble/alice-line.txt"));
    es_answer *a = ASK(ES_F64, "ids", ids_file, "window", "8");
    es_answer *b = ASK(ES_F64, "text", text, "block", "96", "blocks", "3", "window", "8");
    assert_near(es_table_get(es_answer_find(a, "windows"), 0, "fresh"),
                es_table_get(es_answer_find(b, "windows"), 0, "fresh"), 0.0);
    es_answer_free(a);
    es_answer_free(b);
    a = ASK(ES_F64, "ids", ids_file, "window", "8", "block", "48"); /* half begin otherwise */
    assert_nan(es_table_get(es_answer_find(a, "windows"), 0, "fresh"));
    es_answer_free(a);
}

/* ---- cautions ---- */

static const char *caution_of(const es_answer *a)
{
    for (int64_t i = 0; es_answer_finding(a, i); i++)
        if (strncmp(es_answer_finding(a, i), "Caution", 7) == 0)
            return es_answer_finding(a, i);
    return NULL;
}

/* Eight blocks of one id over and over, then eight of many: neighbours are alike. On an even grid
 * that makes errors too large, not too small. */
static void neighbours_are_a_caution_where_blocks_follow_each_other(void **state)
{
    (void)state;
    enum { ROWS = 16, COLS = 24 };
    double ids[ROWS * COLS];
    char file[512];
    for (int64_t i = 0; i < ROWS * COLS; i++)
        ids[i] = i < ROWS * COLS / 2 ? 300.0 : (double)(300 + i * 997 % 3000);
    snprintf(file, sizeof file, "%s", in_folder("halves.npy"));
    assert_ok(es_npy_save(file, ES_F64, 2, (const int64_t[]){ROWS, COLS}, ids, true, &err));
    es_answer *a = ASK(ES_F32, "ids", file);
    assert_non_null(
        strstr(caution_of(a), "so the error of the loss is too small, by a factor of about "));
    assert_non_null(strstr(caution_of(a), "Take fewer blocks, far apart: --blocks."));
    es_answer_free(a);
    a = ASK(ES_F32, "ids", file, "block", "24", "blocks", "12", "blocks-from", "start");
    assert_non_null(strstr(caution_of(a), "Take them evenly: --blocks-from even."));
    es_answer_free(a);
    a = ASK(ES_F32, "ids", file, "block", "24", "blocks", "8");
    const es_table *t = es_answer_find(a, "text");
    assert_above(es_table_get(t, 0, "neighbours"), 1.7 * es_table_get(t, 0, "neighbours_se"));
    assert_null(caution_of(a));
    es_answer_free(a);
}

/* ---- scaled scores ---- */

/* A window with scaled scores costs what the scale costs, too: only the other is context. */
static void context_is_told_of_scores_as_they_are(void **state)
{
    (void)state;
    es_answer *a = ASK(ES_F64, "ids", ids_file, "window", "8,16", "score-scale", "1.5,none");
    es_answer *b = ASK(ES_F64, "ids", ids_file, "window", "8,16");
    assert_int_equal(es_table_rows(es_answer_find(a, "settings")), 9);
    for (int64_t i = 0; i < 3; i++)
        assert_string_equal(es_answer_finding(a, i), es_answer_finding(b, i));
    assert_int_equal(es_table_rows(es_answer_find(a, "windows")), 2);
    assert_int_equal(es_table_rows(es_answer_find(a, "enough")), 2);
    es_answer_free(a);
    es_answer_free(b);
    a = ASK(ES_F64, "ids", ids_file, "window", "8,16", "score-scale", "1.5");
    assert_null(es_answer_find(a, "windows"));
    assert_non_null(strstr(es_answer_finding(a, 0), "The full model's loss is "));
    es_answer_free(a);
}

/* Keys of a policy with scaled scores are compared with the same keys, not with all of them. */
static void a_scale_is_compared_at_the_same_keys(void **state)
{
    (void)state;
    static const char before[] = "raises the loss by ";
    es_answer *a =
        ASK(ES_F64, "ids", ids_file, "policy", "top", "keys", "4,8", "score-scale", "1.5,none");
    const es_table *t = es_answer_find(a, "settings");
    const int64_t with = row_of(t, "top, 8 keys, scores times 1.5"),
                  base = row_of(t, "top, 8 keys");
    const double less = es_table_get(t, with, "nll") - es_table_get(t, base, "nll");
    assert_below(es_table_get(t, with, "entropy"), es_table_get(t, base, "entropy")); /* sharper */
    const char *said = es_answer_finding(a, 2);
    assert_non_null(strstr(said, "(top, 8 keys, scores times 1.5; sharper everywhere)"));
    assert_non_null(strstr(said, before)); /* by three digits after the point */
    assert_near(atof(strstr(said, before) + strlen(before)), less, 0.0005);
    es_answer_free(a);
    a = ASK(ES_F64, "ids", ids_file, "policy", "top", "keys", "4", "score-scale", "1.5");
    assert_non_null(strstr(es_answer_finding(a, 0), "With top, 4 keys, scores times 1.5"));
    es_answer_free(a);
}

/* R is what the model was trained on, 2048, whatever the block. */
static void log_scales_refer_to_the_trained_context(void **state)
{
    (void)state;
    es_answer *a = ASK(ES_F64, "ids", ids_file, "score-scale", "log");
    es_answer *b = ASK(ES_F64, "ids", ids_file, "score-scale", "log", "reference", "2048");
    assert_near(lone(a, "nll"), lone(b, "nll"), 0.0);
    assert_non_null(
        strstr(es_answer_finding(a, 0),
               "Multiplying scores by ln i / ln 2048 at position i (log; softer before 2048) "));
    es_answer_free(a);
    es_answer_free(b);
    a = ASK(ES_F64, "ids", ids_file, "score-scale", "log", "reference", "32");
    assert_non_null(strstr(es_answer_finding(a, 0), "softer before 32 and sharper after it)"));
    es_answer_free(a);
}

/* ---- a model that has a window ---- */

/* Up to its own window the model is as it is; beyond, it would be another. */
static void a_model_with_a_window_of_its_own(void **state)
{
    (void)state;
    char mistral[4096], ids[4096], own[32], more[32];
    es_model_config config;
    es_answer *a;
    snprintf(ids, sizeof ids, "%s", golden_path("decoders/mistral-window/config.json"));
    assert_ok(es_model_config_load(ids, &config, &err));
    snprintf(mistral, sizeof mistral, "%s", golden_path("decoders/mistral-window"));
    snprintf(ids, sizeof ids, "%s", golden_path("decoders/mistral-window/ids.npy"));
    snprintf(own, sizeof own, "%d", (int)es_model_layer(&config, 0)->window);
    snprintf(more, sizeof more, "%d", (int)es_model_layer(&config, 0)->window + 1);
    const es_study_opts opts = {.precision = ES_F64, .exec.threads = 1};
    assert_ok(ask_opts(
        &opts, (const char *const[]){"model", mistral, "ids", ids, "window", own, NULL, NULL}, &a));
    const es_table *t = es_answer_find(a, "settings");
    assert_near(es_table_get(t, 1, "cost"), 0.0, 1e-12);
    assert_near(es_table_get(t, 0, "keys"), es_table_get(t, 1, "keys"), 1e-12);
    es_answer_free(a);
    assert_int_equal(
        ask_opts(&opts,
                 (const char *const[]){"model", mistral, "ids", ids, "window", more, NULL, NULL},
                 &a),
        ES_E_ARGUMENT);
    assert_string_equal(err.rule, "loss.window");
}

/* ---- refusals ---- */

static void refuse(const char *const *given, es_status status, const char *rule)
{
    es_answer *a = NULL;
    const es_study_opts opts = {.exec.threads = 1};
    assert_int_equal(ask_opts(&opts, given, &a), status);
    assert_string_equal(err.rule, rule);
    assert_null(a);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    tiny encoder = tiny_default();
    tiny_draw(&encoder);
    tiny_write(&encoder);
    tiny_write_vocab(&encoder);
    refuse((const char *const[]){"model", folder, "ids", ids_file, NULL, NULL}, ES_E_UNSUPPORTED,
           "loss.causal");
    assert_non_null(strstr(err.message, "bert"));
    tiny_free(&encoder);
    refuse(GIVEN(NULL, NULL), ES_E_ARGUMENT, "loss.options");
    refuse(GIVEN("ids", ids_file, "text", ids_file), ES_E_ARGUMENT, "loss.options");
    refuse(GIVEN("ids", ids_file, "keys", "3"), ES_E_ARGUMENT, "loss.options");
    refuse(GIVEN("ids", ids_file, "sinks", "3"), ES_E_ARGUMENT, "loss.options");
    refuse(GIVEN("ids", ids_file, "start", "3"), ES_E_ARGUMENT, "loss.options");
    refuse(GIVEN("ids", ids_file, "block", "4096"), ES_E_ARGUMENT, "loss.block");
    refuse(GIVEN("ids", ids_file, "score-scale", "log,logg"), ES_E_ARGUMENT, "loss.scale");
    refuse(GIVEN("ids", ids_file, "score-scale", "-1"), ES_E_ARGUMENT, "loss.scale");
    refuse(GIVEN("ids", ids_file, "policy", "linformer", "keys", "4"), ES_E_UNSUPPORTED,
           "policy.causal");
    refuse(GIVEN("text", golden_path("pebble/alice-line.txt"), "start", "4096"), ES_E_ARGUMENT,
           "loss.start");
}

static void ids_that_are_none_are_refused(void **state)
{
    (void)state;
    const double bad[] = {5.0, 4096.0, -1.0, 0.5, (double)NAN};
    char file[512];
    snprintf(file, sizeof file, "%s", in_folder("bad.npy"));
    for (int i = 1; i < 5; i++) {
        const double pair[] = {bad[0], bad[i]};
        assert_ok(es_npy_save(file, ES_F64, 1, (const int64_t[]){2}, pair, true, &err));
        refuse(GIVEN("ids", file), ES_E_FORMAT, "loss.ids");
    }
    assert_ok(es_npy_save(file, ES_F64, 1, (const int64_t[]){1}, bad, true, &err));
    refuse(GIVEN("ids", file), ES_E_EMPTY, "loss.empty");
    assert_ok(es_npy_save(file, ES_F64, 3, (const int64_t[]){1, 1, 1}, bad, true, &err));
    refuse(GIVEN("ids", file), ES_E_SHAPE, "loss.shape");
}

/* ---- the same bits ---- */

static bool into_memory(void *user, const char *bytes, size_t count)
{
    char *out = user;
    memcpy(out + strlen(out), bytes, count);
    return true;
}

static void csv_of(const es_study_opts *opts, const char *const *given, char out[65536])
{
    es_answer *a = ask(opts, given);
    memset(out, 0, 65536);
    assert_ok(es_answer_write(a, ES_ANSWER_CSV, &(es_answer_opts){.table = "settings"}, into_memory,
                              out, &err));
    es_answer_free(a);
}

static void threads_and_run_files_change_nothing(void **state)
{
    (void)state;
    static char one[65536], other[65536];
    char run[512];
    const char *const *given =
        GIVEN("ids", ids_file, "policy", "random,top", "keys", "8", "score-scale", "none,log");
    snprintf(run, sizeof run, "%s", in_folder("loss.run"));
    csv_of(&(es_study_opts){.seed = 3, .exec.threads = 1}, given, one);
    csv_of(&(es_study_opts){.seed = 3, .exec.threads = 3}, given, other);
    assert_string_equal(one, other);
    csv_of(&(es_study_opts){.seed = 3, .exec.threads = 2, .out = run}, given, other);
    assert_string_equal(one, other);
    csv_of(&(es_study_opts){.seed = 3, .exec.threads = 2, .out = run, .resume = true}, given,
           other);
    assert_string_equal(one, other);
    csv_of(&(es_study_opts){.seed = 4, .exec.threads = 2}, given, other);
    assert_string_not_equal(one, other); /* random keys are others */
}

/* ---- the record that came with the checkpoint ---- */

/* 4 blocks of id 0 and 2047 ids: by place, over all, the first 256 predictions. */
static void check_record(const char *text, const char *path)
{
    json_t *all = golden_file("pebble/expected.json");
    const json_t *want = json_object_get(all, text), *bins = json_object_get(want, "bins");
    const json_t *first = json_object_get(want, "first_block_nll");
    es_answer *a =
        ASK(ES_F32, "text", path, "blocks", "4", "blocks-from", "start", "per-token", losses_file);
    const es_table *t = es_answer_find(a, "rows");
    es_array found;
    assert_near(lone(a, "nll"), golden_real(want, "nll"), 1e-4);
    assert_int_equal(es_table_rows(t), json_array_size(bins));
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        const json_t *bin = json_array_get(bins, (size_t)i);
        assert_near(es_table_get(t, i, "from"), json_number_value(json_array_get(bin, 0)), 0.0);
        assert_near(es_table_get(t, i, "to"), json_number_value(json_array_get(bin, 1)), 0.0);
        assert_near(es_table_get(t, i, "nll"), json_number_value(json_array_get(bin, 2)), 1e-4);
    }
    assert_ok(es_npy_load(losses_file, NULL, &found, &err));
    for (size_t i = 0; i < json_array_size(first); i++) /* f32, of one token */
        assert_near(((double *)found.data)[i], json_number_value(json_array_get(first, i)), 2e-4);
    es_array_free(&found);
    es_answer_free(a);
    json_decref(all);
}

static void the_record_of_alice_is_met(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/alice.txt", model);
    check_record("alice", path);
}

static void the_record_of_wikipedia_is_met(void **state)
{
    (void)state;
    char path[REAL_PATH];
    real_path("text/wiki-en-b.txt", NULL, path);
    check_record("wiki-en-b", path);
}

TEST_FILE(loss)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_has_the_loss_of_plain_loops),
        cmocka_unit_test(every_token_has_the_loss_of_plain_loops_stretched),
        cmocka_unit_test(settings_and_positions_are_means_of_tokens),
        cmocka_unit_test(a_window_is_the_policy_of_that_name),
        cmocka_unit_test(text_begins_with_id_0_and_has_bytes),
        cmocka_unit_test(blocks_are_taken_evenly),
        cmocka_unit_test(a_fresh_text_is_a_text_of_the_last_tokens),
        cmocka_unit_test(windows_are_set_beside_fresh_texts),
        cmocka_unit_test(ids_are_fresh_texts_if_they_begin_as_texts_do),
        cmocka_unit_test(neighbours_are_a_caution_where_blocks_follow_each_other),
        cmocka_unit_test(context_is_told_of_scores_as_they_are),
        cmocka_unit_test(a_scale_is_compared_at_the_same_keys),
        cmocka_unit_test(log_scales_refer_to_the_trained_context),
        cmocka_unit_test(a_model_with_a_window_of_its_own),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(ids_that_are_none_are_refused),
        cmocka_unit_test(threads_and_run_files_change_nothing),
        cmocka_unit_test(the_record_of_alice_is_met),
        optional_test(the_record_of_wikipedia_is_met),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
