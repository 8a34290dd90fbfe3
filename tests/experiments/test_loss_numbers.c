/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss_numbers.c : what `loss` makes of losses, on made-up ones: means and errors over blocks
 * of unequal length, bins, how alike neighbours are, windows with and without sinks and as fresh
 * texts, the power law; factors and windows. */
#include "testing.h"

#include "experiments/loss/loss.h"
#include "stats/context.h"
#include "stats/special.h"

/* ---- a job that has run ---- */

enum { BLOCKS = 6, LENGTH = 128, LAYERS = 2, MOST = 16 };
enum { ROWS = LENGTH - 1 + LAYERS + 1 };

static int64_t starts[BLOCKS + 1];
static double cells[BLOCKS * MOST][ROWS];
static double fresh_cells[MOST][BLOCKS][LENGTH / 2];
static int64_t fresh_windows[MOST];
static es_block_sum sums[BLOCKS];
static loss_setting settings[MOST];
static es_model_config config;
static loss_params params;
static loss_state state_of;
static es_job job;

/* Returns the losses of a block in setting k: those of a block follow each other. */
static double *cell(int64_t k, int64_t block) { return cells[block * state_of.count + k]; }

static double noise(int64_t a, int64_t b) /* in -1/2 .. 1/2, no law in particular */
{
    const double x = sin(12.9898 * (double)a + 78.233 * (double)b) * 43758.5453;
    return x - floor(x) - 0.5;
}

/* Windows 2, 4, 8, ... with the loss that `loss` says; the first setting is the model as it is. */
static void make_job(int windows, double (*loss)(int64_t window, int64_t place, int64_t block))
{
    config = (es_model_config){.layers = LAYERS};
    params = (loss_params){.enough = 0.01};
    state_of = (loss_state){.config = &config,
                            .longest = LENGTH,
                            .settings = settings,
                            .count = windows + 1,
                            .fresh = fresh_windows,
                            .sums = sums,
                            .text = {.start = starts, .count = BLOCKS}};
    job = (es_job){.study = es_study_find("loss"),
                   .params = &params,
                   .state = &state_of,
                   .stages = {{.rows = ROWS, .cols = 1}, {.rows = LENGTH / 2, .cols = 1}},
                   .cells = {&cells[0][0], &fresh_cells[0][0][0]}};
    for (int64_t b = 0; b < BLOCKS; b++) /* the last is shorter, and has no late tokens */
        starts[b + 1] = starts[b] + (b == BLOCKS - 1 ? 50 : LENGTH);
    for (int64_t k = 0; k <= windows; k++) {
        settings[k] = (loss_setting){.lab = {.window = k ? 1 << k : 0}, .scale = "none"};
        snprintf(settings[k].name, sizeof settings[k].name, k ? "window %d" : "full", 1 << k);
        for (int64_t b = 0; b < BLOCKS; b++)
            for (int64_t p = 1; p < loss_length(&state_of, b); p++)
                cell(k, b)[p - 1] = loss(settings[k].lab.window, p, b);
    }
}

static void free_job(void) { es_arena_free(&job.arena); }

/* ---- means ---- */

static double uneven(int64_t window, int64_t place, int64_t block)
{
    return 3.0 + noise(place, block) + (double)block * 0.1 +
           (window ? 1.0 / (double)window + 0.01 * noise(block, window) : 0.0);
}

/* The mean over tokens [from, to), and the error of a ratio of sums over blocks. */
static void plain_mean(int64_t k, int64_t base, int64_t from, int64_t to, double *mean, double *se,
                       double *blocks)
{
    double sum = 0.0, count = 0.0, scatter = 0.0;
    *blocks = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t b = 0; b < BLOCKS; b++) {
            const int64_t n = starts[b + 1] - starts[b];
            double own = 0.0, tokens = 0.0;
            for (int64_t p = from; p < to && p < n; p++, tokens += 1.0)
                own += cell(k, b)[p - 1] - (base >= 0 ? cell(base, b)[p - 1] : 0.0);
            if (!pass) {
                sum += own;
                count += tokens;
                *blocks += tokens > 0.0;
            } else {
                scatter += pow(own - tokens * sum / count, 2.0);
            }
        }
    *mean = sum / count;
    *se = sqrt(scatter * *blocks / (*blocks - 1.0)) / count;
}

static void means_and_errors_are_those_of_blocks(void **state)
{
    (void)state;
    static const struct {
        int64_t from, to;
    } places[] = {{1, LENGTH}, {1, 64}, {64, LENGTH}, {40, 60}};
    make_job(2, uneven);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        double mean, se, blocks;
        const es_block_mean m = loss_over(&job, 1, places[i].from, places[i].to);
        plain_mean(1, -1, places[i].from, places[i].to, &mean, &se, &blocks);
        assert_near(m.value, mean, 1e-13);
        assert_near(m.se, se, 1e-13);
        assert_near((double)m.blocks, blocks, 0.0);
        assert_near(m.high - m.low, 2.0 * se * es_student_quantile(blocks - 1.0, 0.025), 1e-12);
        const es_block_mean cost = loss_cost(&job, 2, places[i].from, places[i].to);
        plain_mean(2, 0, places[i].from, places[i].to, &mean, &se, &blocks);
        assert_near(cost.value, mean, 1e-13);
        assert_near(cost.se, se, 1e-13);
    }
    assert_int_equal(loss_over(&job, 0, 1, LENGTH).tokens, 5 * (LENGTH - 1) + 49);
    assert_int_equal(loss_over(&job, 0, 64, LENGTH).blocks, 5); /* the short one has none */
    free_job();
}

/* Paired: what blocks have in common is no error of the difference. */
static double shifted(int64_t window, int64_t place, int64_t block)
{
    (void)window;
    return (double)block + (place < 64 ? 2.0 : 1.0);
}

static void a_fall_is_paired_by_block(void **state)
{
    (void)state;
    make_job(1, shifted);
    starts[BLOCKS] = starts[BLOCKS - 1] + LENGTH; /* all of a length: pairs are complete */
    for (int64_t p = 1; p < LENGTH; p++)
        cell(0, BLOCKS - 1)[p - 1] = shifted(0, p, BLOCKS - 1);
    const es_block_mean m = loss_fall(&job, 0, 1, 64, 64, LENGTH);
    assert_near(m.value, 1.0, 1e-13);
    assert_near(m.se, 0.0, 1e-13);
    assert_above(loss_over(&job, 0, 1, 64).se, 0.5);
    free_job();
}

static void bins_double_from_64_on(void **state)
{
    (void)state;
    loss_bin bins[LOSS_BINS];
    assert_int_equal(loss_bins(2048, 0, bins), 6);
    assert_int_equal(bins[0].from, 1);
    assert_int_equal(bins[0].to, 64);
    assert_int_equal(bins[5].from, 1024);
    assert_int_equal(bins[5].to, 2048);
    assert_int_equal(loss_bins(1000, 0, bins), 5);
    assert_int_equal(bins[4].from, 512);
    assert_int_equal(bins[4].to, 1000);
    assert_int_equal(loss_bins(2, 0, bins), 1);
    assert_int_equal(bins[0].to, 2);
    assert_int_equal(loss_bins(65, 0, bins), 2);
    assert_int_equal(loss_bins(INT64_C(1) << 60, 0, bins), 55);
}

/* ---- windows ---- */

/* Windows of 2, 4, 8, 16, 32: 16 costs 0.009, to 0.004 or so; 32 nothing at all. */
static double fading(int64_t window, int64_t place, int64_t block)
{
    static const double costs[] = {0.5, 0.2, 0.03, 0.009, 0.0};
    double own = 4.0 + noise(place, block);
    for (int i = 0; window && i < 5; i++)
        if (window == 2 << i)
            own += costs[i] + (costs[i] > 0.0 ? 0.003 * ((double)(block % 3) - 1.0) : 0.0);
    return own;
}

static void the_smallest_window_that_is_enough(void **state)
{
    (void)state;
    es_answer *a;
    make_job(5, fading);
    assert_ok(es_answer_new(NULL, &a, &err));
    assert_ok(loss_put_windows(&job, a, &err));
    const es_table *t = es_answer_find(a, "enough");
    assert_int_equal(es_table_rows(t), 1);
    assert_near(es_table_get(t, 0, "window"), 16.0, 0.0);
    /* blocks 0 to 4 have late tokens: -1, 0, 1, -1, 0 times 0.003 around costs, less 0.0006 */
    assert_near(es_table_get(t, 0, "cost"), 0.009 - 0.0006, 1e-12);
    assert_near(es_table_get(t, 0, "cost_se"), 0.003 * sqrt(2.8 / 4.0 / 5.0), 1e-12);
    /* 8 is out of the question, 16 may be too small: 0.0084 + 2.78 * 0.0011 */
    assert_near(es_table_get(t, 0, "window_ci.0"), 16.0, 0.0);
    assert_near(es_table_get(t, 0, "window_ci.1"), 32.0, 0.0);
    assert_non_null(strstr(es_answer_finding(a, 0), "Context beyond 2 tokens is worth"));
    assert_string_equal(
        es_answer_finding(a, 1),
        "Windows, if 0.01 nats per token may be lost (95 % confidence): 2, 4 and 8 are too small; "
        "16 is undecided; 32 is enough. This is about the next token, not about retrieval: esscher "
        "probe --look positions shows which heads read further back.");
    static const char *const verdicts[] = {"costs more", "costs more", "costs more", "not excluded",
                                           "enough"};
    for (int64_t i = 0; i < 5; i++)
        assert_string_equal(es_table_get_text(es_answer_find(a, "windows"), i, "verdict"),
                            verdicts[i]);
    es_answer_free(a);
    free_job();
}

static double dear(int64_t window, int64_t place, int64_t block)
{
    return 4.0 + noise(place, block) + (window ? 1.0 / (double)window : 0.0);
}

static void no_window_is_enough(void **state)
{
    (void)state;
    es_answer *a;
    make_job(5, dear); /* 32 costs 0.03 */
    assert_ok(es_answer_new(NULL, &a, &err));
    assert_ok(loss_put_windows(&job, a, &err));
    assert_nan(es_table_get(es_answer_find(a, "enough"), 0, "window"));
    assert_non_null(strstr(es_answer_finding(a, 1), "2, 4, 8, 16 and 32 are too small. This"));
    es_answer_free(a);
    free_job();
}

/* A window of 8 or 16, with the first 4 keys or without, and as a fresh text. Without them it costs
 * 7 nats more, which is not the context's. */
static double with_sinks(int64_t window, int64_t place, int64_t block)
{
    const double own = 4.0 + noise(place, block), little = 0.01 * noise(block, window);
    return own + (window == 8 ? 0.25 + little : window == 16 ? 0.2 + little : 0.0);
}

static void what_sinks_are_worth_is_no_context(void **state)
{
    (void)state;
    es_answer *a;
    make_job(4, with_sinks);
    static const int64_t windows[] = {0, 8, 16, 8, 16};
    state_of.n_fresh = 2;
    for (int64_t k = 1; k < 5; k++) {
        settings[k].lab = (es_loss_setting){.window = windows[k], .sinks = k > 2 ? 4 : 0};
        fresh_windows[k - 1] = windows[k];
        for (int64_t b = 0; b < BLOCKS; b++)
            for (int64_t p = 1; p < loss_length(&state_of, b); p++)
                cell(k, b)[p - 1] =
                    with_sinks(windows[k], p, b) +
                    (k > 2 ? 0.0 : (windows[k] == 8 ? 7.0 : 5.0) + 0.001 * (double)b);
    }
    for (int64_t k = 0; k < 2; k++)
        for (int64_t b = 0; b < BLOCKS; b++)
            for (int64_t p = LENGTH / 2; p < loss_length(&state_of, b); p++)
                fresh_cells[k][b][p - LENGTH / 2] = cell(0, b)[p - 1] + 0.125 + 0.125 * (double)k;
    assert_ok(es_answer_new(NULL, &a, &err));
    assert_ok(loss_put_windows(&job, a, &err));
    const es_table *t = es_answer_find(a, "windows");
    assert_int_equal(es_table_rows(t), 2);
    for (int64_t i = 0; i < 2; i++) {
        double mean, se, blocks;
        plain_mean(3 + i, 0, LENGTH / 2, LENGTH, &mean, &se, &blocks);
        assert_near(es_table_get(t, i, "cost"), mean, 1e-12);
        assert_near(es_table_get(t, i, "cost_se"), se, 1e-12);
        plain_mean(1 + i, 3 + i, LENGTH / 2, LENGTH, &mean, &se, &blocks); /* paired: 0 to 4 */
        assert_near(es_table_get(t, i, "sink"), mean, 1e-12);
        assert_near(es_table_get(t, i, "sink"), (i ? 5.0 : 7.0) + 0.002, 1e-12);
        assert_near(es_table_get(t, i, "sink_se"), se, 1e-12);
        plain_mean(1 + i, 0, LENGTH / 2, LENGTH, &mean, &se, &blocks);
        assert_near(es_table_get(t, i, "bare"), mean, 1e-12);
        assert_near(es_table_get(t, i, "fresh"), 0.125 + 0.125 * (double)i, 1e-12);
        assert_near(es_table_get(t, i, "fresh_se"), 0.0, 1e-12);
    }
    const char *worth = es_answer_finding(a, 0), *part = es_answer_finding(a, 2);
    assert_non_null(
        strstr(worth, "With the first 4 tokens kept, context beyond 8 tokens is worth 0.2"));
    assert_null(strstr(worth, " 7."));
    assert_non_null(strstr(part, "Without the first 4 tokens window 8 costs 7.2"));
    assert_non_null(strstr(part, " nats; 97 % of that, 7.00"));
    assert_non_null(strstr(part, "is the lost sink, not context. Reading only the last 8 to 15 "
                                 "tokens, as a text of their own, costs 0.125"));
    assert_null(es_answer_finding(a, 3));
    es_answer_free(a);
    free_job();
}

/* Windows of 8, 16 and 96 without the first keys and with 4 of them, at these costs in nats of the
 * late tokens of block b: costs[sinks][window]. 96 is more than half a block. */
enum { PAIRS = 3 };
static void make_pairs(double (*cost)(bool sinks, int window, int64_t block))
{
    static const int64_t windows[PAIRS] = {8, 16, 96};
    make_job(2 * PAIRS, dear);
    for (int k = 1; k <= 2 * PAIRS; k++) {
        const int w = (k - 1) % PAIRS;
        settings[k].lab = (es_loss_setting){.window = windows[w], .sinks = k > PAIRS ? 4 : 0};
        for (int64_t b = 0; b < BLOCKS; b++)
            for (int64_t p = 1; p < loss_length(&state_of, b); p++)
                cell(k, b)[p - 1] = cell(0, b)[p - 1] + cost(k > PAIRS, w, b);
    }
}

static es_answer *context_of(double (*cost)(bool sinks, int window, int64_t block))
{
    es_answer *a;
    make_pairs(cost);
    assert_ok(es_answer_new(NULL, &a, &err));
    assert_ok(loss_put_windows(&job, a, &err));
    return a;
}

/* Blocks 0 to 4 have late tokens; this has mean 0 over them and standard error 1/sqrt(2). */
static double swing(int64_t block) { return (double)(block % 5) - 2.0; }

/* The sink of 8 is worth 0.03 +- 0.02 nats, that of 16 0.01, for sure. */
static double one_is_sure(bool sinks, int window, int64_t block)
{
    static const double sink[] = {0.03, 0.01, 0.0};
    return 0.05 + (sinks ? 0.0 : sink[window] + (window ? 0.0 : 0.03 * swing(block)));
}

static void a_sink_that_is_shown_is_told_before_a_larger_one(void **state)
{
    (void)state;
    es_answer *a = context_of(one_is_sure);
    assert_non_null(strstr(es_answer_finding(a, 2), "Without the first 4 tokens window 16 costs "));
    assert_non_null(strstr(es_answer_finding(a, 2), " nats; 17 % of that, 0.01"));
    es_answer_free(a);
    free_job();
}

static double none_is_sure(bool sinks, int window, int64_t block)
{
    return 0.05 + (sinks || window > 1 ? 0.0 : 0.03 + 0.03 * swing(block));
}

static void a_sink_that_is_not_shown_is_not_denied(void **state)
{
    (void)state;
    es_answer *a = context_of(none_is_sure);
    assert_non_null(strstr(es_answer_finding(a, 2),
                           "is not shown to help at any window (5 blocks): the largest "
                           "gain is 0.030 ± 0.021 nats, with window"));
    es_answer_free(a);
    free_job();
}

/* With the first keys, windows cost less than nothing: without them 0.01, or nothing. */
static double all_sink(bool sinks, int window, int64_t block)
{
    (void)window;
    return (sinks ? -0.002 : 0.01) + 0.001 * swing(block);
}

static double less_than_nothing(bool sinks, int window, int64_t block)
{
    return all_sink(sinks, window, block) - 0.011;
}

static void no_part_is_larger_than_its_whole(void **state)
{
    (void)state;
    es_answer *a = context_of(all_sink);
    assert_string_equal(es_answer_finding(a, 2),
                        "Without the first 4 tokens window 8 costs 0.01000 ± 0.00071 nats; all of "
                        "that is the lost sink, not context.");
    es_answer_free(a);
    free_job();
    a = context_of(less_than_nothing);
    assert_non_null(strstr(es_answer_finding(a, 2), "window 8 costs 0.012"));
    assert_non_null(
        strstr(es_answer_finding(a, 2), " nats more than with them, but no more than all keys."));
    es_answer_free(a);
    free_job();
}

/* The first keys cost 0.02 beside a window of 8, and nothing beside others. */
static double hurting(bool sinks, int window, int64_t block)
{
    return (window ? 0.05 : 0.2) + (sinks && !window ? 0.02 : 0.0) + 0.01 * swing(block);
}

static void where_the_first_keys_hurt_context_is_worth_less(void **state)
{
    (void)state;
    es_answer *a = context_of(hurting);
    assert_string_equal(
        es_answer_finding(a, 0),
        "With the first 4 tokens kept, context beyond 8 tokens is worth at most 0.2000 ± 0.0071 "
        "nats per token to this model on this text; beyond 16: 0.0500 ± 0.0071. At most: at that "
        "window the first tokens do harm, so the number is what the window costs without them.");
    assert_near(es_table_get(es_answer_find(a, "windows"), 0, "cost"), 0.22, 1e-12);
    es_answer_free(a);
    free_job();
}

/* 96 costs nothing, but half of the late tokens have fewer before them. */
static double cheap_if_long(bool sinks, int window, int64_t block)
{
    (void)sinks;
    return window == 2 ? 0.0 : 0.05 + 0.001 * swing(block);
}

static void a_window_above_half_a_block_is_not_enough(void **state)
{
    (void)state;
    static const char *const keys[] = {"window", "window_ci.0", "window_ci.1"};
    es_answer *a = context_of(cheap_if_long);
    const es_table *t = es_answer_find(a, "enough");
    assert_string_equal(es_table_get_text(es_answer_find(a, "windows"), 2, "verdict"),
                        "block too short");
    assert_int_equal(es_table_rows(t), 2);
    for (int64_t row = 0; row < 2; row++)
        for (int i = 0; i < 3; i++)
            assert_nan(es_table_get(t, row, keys[i]));
    es_answer_free(a);
    free_job();
}

/* ---- neighbours ---- */

static double rising(int64_t window, int64_t place, int64_t block)
{
    (void)window;
    (void)place;
    return (double)block;
}

static double alternating(int64_t window, int64_t place, int64_t block)
{
    (void)window;
    (void)place;
    return (double)(block % 2);
}

/* Means 0, 1, 2, 3, 4 have the autocorrelation (2 + 0 + 0 + 2) / 10; the sixth block is a rest. By
 * chance it has mean -1/5 and standard deviation 3/(5 sqrt 4): 0.4 is two of them above. */
static void neighbours_correlate_as_in_the_definition(void **state)
{
    (void)state;
    make_job(1, rising);
    loss_neighbours x = loss_neighbours_of(&job, 0);
    assert_near(x.correlation, 0.4, 1e-12);
    assert_near(x.chance, 0.3, 1e-12);
    assert_near(x.apart, LENGTH, 0.0);
    assert_true(x.positive);
    state_of.text.of = 60;
    assert_near(loss_neighbours_of(&job, 0).apart, 10.0 * LENGTH, 1e-9);
    free_job();
    make_job(1, alternating); /* 0 1 0 1 0: deviations -.4 and .6 */
    x = loss_neighbours_of(&job, 0);
    assert_near(x.correlation, -4.0 * 0.24 / (3.0 * 0.16 + 2.0 * 0.36), 1e-12);
    assert_false(x.positive);
    free_job();
}

/* ---- the power law ---- */

#define BETA  0.9
#define GAMMA 2.0

/* Every block is as hard as it likes; of the curve it knows little noise. */
static double power(int64_t window, int64_t place, int64_t block)
{
    const double c = (double)(window && window < place ? window : place);
    return GAMMA + 3.0 * pow(c, -BETA) + 0.5 * (double)(block % 3 - 1) +
           0.001 * noise(block, window);
}

static void the_power_law_is_found_where_it_is_determined(void **state)
{
    (void)state;
    es_answer *a;
    make_job(6, power); /* 2 to 64: the excess falls by a factor of 23 */
    assert_ok(es_answer_new(NULL, &a, &err));
    assert_ok(loss_put_fits(&job, a, &err));
    assert_ok(es_answer_status(a, &err));
    const es_table *t = es_answer_find(a, "fits");
    assert_int_equal(es_table_rows(t), 2);
    assert_string_equal(es_table_get_text(t, 0, "of"), "position");
    assert_nan(es_table_get(t, 0, "beta")); /* three octaves from 16 on are too few */
    assert_above(strlen(es_table_get_text(t, 0, "why")), 10);
    assert_string_equal(es_table_get_text(t, 1, "of"), "window");
    assert_near(es_table_get(t, 1, "points"), 6.0, 0.0);
    assert_near(es_table_get(t, 1, "beta"), BETA, 0.01);
    assert_near(es_table_get(t, 1, "beta"), BETA, 4.0 * es_table_get(t, 1, "beta_se"));
    /* block 5 has no late tokens; of the others -1, 0, 1, -1, 0 */
    assert_near(es_table_get(t, 1, "gamma"), GAMMA - 0.1, 0.01);
    /* of five blocks, whose difficulties have a standard deviation of sqrt(0.7/4) */
    assert_near(es_table_get(t, 1, "gamma_se"), sqrt(0.7 / 4.0 / 5.0), 0.002);
    assert_below(es_table_get(t, 1, "beta_se"), 0.01);
    assert_near(es_table_get(t, 1, "doubling"), pow(2.0, -BETA), 0.01);
    es_answer_free(a);
    free_job();
}

/* ---- the lab's small functions ---- */

static void factors_are_as_defined(void **state)
{
    (void)state;
    es_loss_setting s = {.reference = 64.0};
    assert_near(es_score_factor(&s, 5, 100), 1.0, 0.0);
    s.scale = ES_SCALE_LOG;
    assert_near(es_score_factor(&s, 0, 100), 0.0, 0.0);
    assert_near(es_score_factor(&s, 63, 100), 1.0, 1e-15);
    assert_near(es_score_factor(&s, 7, 100), 0.5, 1e-15);
    s.scale = ES_SCALE_LOGN;
    assert_near(es_score_factor(&s, 7, 5000), 1.0, 0.0);
    assert_near(es_score_factor(&s, 4095, 5000), 2.0, 1e-15);
    s.scale = ES_SCALE_YARN;
    assert_near(es_score_factor(&s, 3, 32), 1.0, 0.0);        /* within the reference */
    assert_near(es_score_factor(&s, 3, 512), 1.459129, 1e-6); /* (1 + 0.1 ln 8)^2 */
    s.scale = ES_SCALE_FACTOR;
    s.factor = 1.5;
    assert_near(es_score_factor(&s, 9, 10), 1.5, 0.0);
}

static void windows_show_so_many_keys(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 12; n++)
        for (int64_t w = 0; w < 13; w++)
            for (int64_t g = 0; g < 4; g++) {
                double seen = 0.0;
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j <= i; j++)
                        seen += !w || j > i - w || j < g;
                assert_near(es_window_keys(&(es_loss_setting){.window = w, .sinks = g}, n),
                            seen / (double)n, 1e-12);
            }
}

TEST_FILE(loss_numbers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_and_errors_are_those_of_blocks),
        cmocka_unit_test(a_fall_is_paired_by_block),
        cmocka_unit_test(bins_double_from_64_on),
        cmocka_unit_test(the_smallest_window_that_is_enough),
        cmocka_unit_test(no_window_is_enough),
        cmocka_unit_test(what_sinks_are_worth_is_no_context),
        cmocka_unit_test(a_sink_that_is_shown_is_told_before_a_larger_one),
        cmocka_unit_test(a_sink_that_is_not_shown_is_not_denied),
        cmocka_unit_test(no_part_is_larger_than_its_whole),
        cmocka_unit_test(where_the_first_keys_hurt_context_is_worth_less),
        cmocka_unit_test(a_window_above_half_a_block_is_not_enough),
        cmocka_unit_test(neighbours_correlate_as_in_the_definition),
        cmocka_unit_test(the_power_law_is_found_where_it_is_determined),
        cmocka_unit_test(factors_are_as_defined),
        cmocka_unit_test(windows_show_so_many_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
