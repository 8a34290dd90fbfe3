/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_positions.c : what blocks of text say about a head of a causal model, from numbers
 * that are written down here: means, effective contexts, their growth, and words at their cut-offs;
 * and all heads of models/pebble against plain Python (golden/pebble/positions.py). */
#include "golden.h"

#include "experiments/probe/position_question.h"

enum { LENGTH = 2048, BLOCKS = 5 };

/* Numbers of one head in all blocks. */
typedef struct head {
    es_positions_grid grid;
    double *numbers, scratch[BLOCKS];
    probe_track track;
} head;

static int64_t first_of(const es_positions_grid *g, int64_t bin)
{
    return bin ? g->to[bin - 1] : 0;
}

static void put(head *h, int64_t block, int64_t place, double x)
{
    h->numbers[block * h->grid.numbers + place] = x;
}

/* Queries of a bin, and a spread of 4 for each. */
static void new_head(head *h)
{
    const es_positions_grid *g = &h->grid;
    assert_ok(es_positions_grid_of(&(es_positions_spec){.length = LENGTH}, &h->grid, &err));
    h->numbers = calloc((size_t)(BLOCKS * g->numbers), sizeof *h->numbers);
    h->track = (probe_track){&h->grid, h->numbers, g->numbers, BLOCKS, h->scratch};
    for (int64_t block = 0; block < BLOCKS; block++)
        for (int64_t bin = 0; bin < g->bins; bin++) {
            const double count = (double)(g->to[bin] - first_of(g, bin));
            double places = 0.0;
            for (int64_t i = first_of(g, bin); i < g->to[bin]; i++)
                places += log((double)(i + 1));
            put(h, block, es_positions_at(g, bin, ES_POSITIONS_COUNT), count);
            put(h, block, es_positions_at(g, bin, ES_POSITIONS_PLACES), places);
            put(h, block, es_positions_at(g, bin, ES_POSITIONS_SPREAD), 4.0 * count);
        }
}

/* Errors 0.1 (w* over w), w* = factor n^power, of blocks that differ by `scatter`: 0.1 at w*. */
static void put_errors(head *h, double factor, double power, double scatter)
{
    const es_positions_grid *g = &h->grid;
    for (int64_t block = 0; block < BLOCKS; block++)
        for (int64_t bin = 0; bin < g->bins; bin++)
            for (int64_t c = 0; c < g->windows; c++) {
                const double count = (double)(g->to[bin] - first_of(g, bin));
                const double n = (double)g->to[bin], w = (double)g->window[c];
                const double needs =
                    factor * pow(n, power) * (1.0 + scatter * ((double)block - 2.0));
                const double e = w + 4.0 < n ? 0.1 * needs / w : 0.0;
                put(h, block, es_positions_error_at(g, bin, c), 4.0 * count * e * e);
            }
}

/* ---- numbers ---- */

static void means_are_those_of_blocks(void **state)
{
    (void)state;
    static const double of_block[BLOCKS] = {1.0, 2.0, 4.0, 8.0, 10.0};
    head h;
    new_head(&h);
    const int64_t bin = h.grid.bins - 1,
                  place = es_positions_at(&h.grid, bin, ES_POSITIONS_ENTROPY);
    for (int64_t b = 0; b < BLOCKS; b++)
        put(&h, b, place, of_block[b] * (LENGTH - 1448));
    const es_measured x = probe_track_mean(&h.track, bin, ES_POSITIONS_ENTROPY);
    assert_near(x.value, 5.0, 1e-12);
    assert_near(x.se, sqrt(60.0 / 4.0 / 5.0), 1e-12); /* 16 + 9 + 1 + 9 + 25 */
    /* scores: mean over pairs; their difference is taken block by block */
    for (int64_t b = 0; b < BLOCKS; b++) {
        put(&h, b, es_positions_score_at(&h.grid, 3, ES_POSITIONS_PAIRS), 10.0);
        put(&h, b, es_positions_score_at(&h.grid, 3, ES_POSITIONS_REAL), 10.0 * of_block[b] + 5.0);
        put(&h, b, es_positions_score_at(&h.grid, 3, ES_POSITIONS_PLAIN), 10.0 * of_block[b]);
    }
    assert_near(probe_track_score(&h.track, 3, ES_POSITIONS_REAL).value, 5.5, 1e-12);
    assert_near(probe_track_score(&h.track, 3, ES_POSITIONS_SCORES).value, 0.5, 1e-12);
    assert_near(probe_track_score(&h.track, 3, ES_POSITIONS_SCORES).se, 0.0, 1e-12);
    assert_nan(probe_track_score(&h.track, 4, ES_POSITIONS_REAL).value); /* no pairs */
    free(h.numbers);
}

/* A line in ln w instead of 1/w between windows that are sqrt 2 apart is off by ln(sqrt 2)^2 / 8 =
 * 0.015 of ln w at most. */
static void the_effective_context_is_where_errors_fall_to_it(void **state)
{
    (void)state;
    head h;
    new_head(&h);
    put_errors(&h, 100.0, 0.0, 0.0);
    const int64_t last = h.grid.bins - 1;
    const es_measured w = probe_track_context(&h.track, last, 0.1);
    assert_near(w.value, log(100.0), 0.015);
    assert_near(w.se, 0.0, 1e-12);
    assert_near(probe_track_context(&h.track, last, 0.2).value, log(50.0), 0.015);
    assert_near(probe_track_error(&h.track, last, 11).value, 0.1 * 100.0 / 64.0, 1e-12);
    /* even one key will do; not even all windows of the grid will */
    assert_equals(probe_track_context(&h.track, last, 11.0).value, 0.0);
    put_errors(&h, 4000.0, 0.0, 0.0);
    const double most = probe_track_context(&h.track, last, 0.1).value;
    assert_between(most, log(1448.0), log(2048.0));
    /* a bin of short contexts needs no more keys than it has */
    assert_at_most(probe_track_context(&h.track, 8, 0.1).value, log((double)h.grid.to[8]));
    free(h.numbers);
}

/* Errors that fall, rise and fall again: the window from which on they stay below. */
static void errors_that_rise_again_are_not_below(void **state)
{
    (void)state;
    head h;
    new_head(&h);
    put_errors(&h, 10.0, 0.0, 0.0);
    const int64_t last = h.grid.bins - 1, at = es_positions_error_at(&h.grid, last, 13); /* 128 */
    for (int64_t b = 0; b < BLOCKS; b++)
        put(&h, b, at, 4.0 * (LENGTH - 1448) * 0.15 * 0.15);
    const double w = exp(probe_track_context(&h.track, last, 0.1).value);
    assert_between(w, 128.0, 181.0);
    free(h.numbers);
}

/* The jackknife of something close to a mean: ln of a root of a mean of squares of w*, which differ
 * by 5 % from block to block; to first order se = sd / sqrt(blocks). */
static void errors_of_contexts_are_those_of_blocks(void **state)
{
    (void)state;
    head h;
    new_head(&h);
    put_errors(&h, 100.0, 0.0, 0.05);
    const es_measured w = probe_track_context(&h.track, h.grid.bins - 1, 0.1);
    assert_close(w.se, 0.05 * sqrt(2.5) / sqrt(5.0), 0.1);
    free(h.numbers);
}

/* Slopes of power laws; bins' mean n are a constant share of their ends. What n was below the last
 * two octaves does not count: there the context is that of another head. */
static void growth_is_the_slope_of_the_context(void **state)
{
    (void)state;
    static const struct {
        double factor, power;
    } laws[] = {{3.0, 0.0}, {3.0, 0.5}, {0.4, 1.0}};
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        head h, other;
        new_head(&h);
        new_head(&other);
        put_errors(&h, laws[i].factor, laws[i].power, 0.0);
        put_errors(&other, 2.0, 0.25, 0.0);
        const int64_t size = es_positions_bin(&h.grid);
        for (int64_t block = 0; block < BLOCKS; block++)
            memcpy(h.numbers + block * h.grid.numbers, other.numbers + block * h.grid.numbers,
                   (size_t)(size * (probe_octave_bin(&h.grid, 2) + 1)) * sizeof *h.numbers);
        const es_measured growth = probe_track_growth(&h.track, 0.1);
        assert_near(growth.value, laws[i].power, 0.02); /* the line in ln w, over two octaves */
        free(h.numbers);
        free(other.numbers);
    }
}

/* ---- words ---- */

/* Of 9 blocks Student's t is 2.306: an interval is the value -+ 2.306 standard errors. */
static void a_place_needs_its_interval_between_cut_offs(void **state)
{
    (void)state;
    const struct {
        es_measured error;
        probe_head_place want;
    } cases[] = {{{0.05, 0.021}, PROBE_NEAR},         {{0.05, 0.022}, PROBE_NO_PLACE},
                 {{0.0999, 0.0}, PROBE_NEAR},         {{0.1, 0.0}, PROBE_BETWEEN},
                 {{0.3, 0.086}, PROBE_BETWEEN},       {{0.3, 0.087}, PROBE_NO_PLACE},
                 {{0.4999, 0.0}, PROBE_BETWEEN},      {{0.5, 0.0}, PROBE_FAR},
                 {{0.75, 0.108}, PROBE_FAR},          {{0.75, 0.109}, PROBE_NO_PLACE},
                 {{(double)NAN, 0.0}, PROBE_NO_PLACE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(probe_place_of(cases[i].error, 9), cases[i].want);
        assert_int_equal(probe_place_of(cases[i].error, 1), PROBE_NO_PLACE); /* no interval */
    }
}

/* More blocks of the same text decide more, and decide nothing otherwise: where the interval of few
 * blocks is clear of the cut-offs, so is a narrower one about a value inside it. */
static void more_blocks_only_decide_what_was_undecided(void **state)
{
    (void)state;
    for (int i = 1; i < 100; i++) {
        const double x = 0.01 * i;
        probe_head_place before = PROBE_NO_PLACE;
        for (int64_t blocks = 4; blocks <= 256; blocks *= 4) {
            const es_measured error = {x, 0.3 / sqrt((double)blocks)};
            const probe_head_place place = probe_place_of(error, blocks);
            if (before != PROBE_NO_PLACE)
                assert_equals(place, before);
            before = place;
        }
    }
}

/* 100 keys, or two thirds of n; 2 keys. A factor of exp(2.306 se) to either side. */
static void concentration_is_by_the_interval_of_the_effective_keys(void **state)
{
    (void)state;
    const struct {
        double ess, se, n;
        es_regime want;
    } cases[] = {{130.0, 0.11, 2048, ES_REGIME_AVERAGING}, {130.0, 0.12, 2048, ES_REGIME_UNDECIDED},
                 {80.0, 0.09, 2048, ES_REGIME_SELECTIVE},  {80.0, 0.10, 2048, ES_REGIME_UNDECIDED},
                 {1.5, 0.12, 2048, ES_REGIME_SINGLE_KEY},  {1.5, 0.13, 2048, ES_REGIME_UNDECIDED},
                 {61.0, 0.0, 90, ES_REGIME_AVERAGING},     {59.0, 0.0, 90, ES_REGIME_SELECTIVE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const es_measured log_ess = {log(cases[i].ess), cases[i].se};
        assert_int_equal(probe_concentration_of(log_ess, cases[i].n, 9), cases[i].want);
        assert_int_equal(probe_concentration_of(log_ess, cases[i].n, 1), ES_REGIME_UNDECIDED);
    }
}

/* The error of the window of 64 keys, whatever --error is; none where queries see no more. */
static void the_window_error_is_that_of_the_last_64_keys(void **state)
{
    (void)state;
    head h;
    new_head(&h);
    put_errors(&h, 100.0, 0.0, 0.0);
    const es_measured error = probe_track_window_error(&h.track);
    assert_near(error.value, 0.1 * 100.0 / 64.0, 1e-12);
    assert_near(error.se, 0.0, 1e-12);
    assert_ok(
        es_positions_grid_of(&(es_positions_spec){.length = LENGTH, .window = 64}, &h.grid, &err));
    assert_equals(probe_track_window_error(&h.track).value, 0.0);
    free(h.numbers);
}

static void growth_needs_its_interval_on_one_side(void **state)
{
    (void)state;
    assert_int_equal(probe_growth_of((es_measured){0.5, 0.1}, 9), PROBE_GROWING);
    assert_int_equal(probe_growth_of((es_measured){0.5, 0.14}, 9), PROBE_UNCLEAR);
    assert_int_equal(probe_growth_of((es_measured){0.0, 0.08}, 9), PROBE_SATURATED);
    assert_int_equal(probe_growth_of((es_measured){0.0, 0.1}, 9), PROBE_UNCLEAR);
    assert_int_equal(probe_growth_of((es_measured){0.9, 0.0}, 1), PROBE_UNCLEAR);
    assert_int_equal(probe_growth_of((es_measured){(double)NAN, (double)NAN}, 9), PROBE_UNCLEAR);
}

static void octaves_end_with_the_length(void **state)
{
    (void)state;
    es_positions_grid g;
    assert_ok(es_positions_grid_of(&(es_positions_spec){.length = LENGTH}, &g, &err));
    for (int64_t octave = 0; octave < PROBE_OCTAVES; octave++)
        assert_int_equal(g.to[probe_octave_bin(&g, octave)], LENGTH >> octave);
    assert_int_equal(probe_octave_bin(&g, 12), -1);
    assert_ok(es_positions_grid_of(&(es_positions_spec){.length = 1000}, &g, &err));
    assert_int_equal(g.to[probe_octave_bin(&g, 1)], 362); /* the last edge that 500 has */
}

/* ---- a real model ---- */

static double element(const json_t *row, const char *key, int64_t i)
{
    return json_number_value(json_array_get(json_object_get(row, key), (size_t)i));
}

/* Kernels and model in f32 against f64: 7e-6 is seen, of numbers of size 1 to 10. */
#define F32 3e-5

static void check_head(const probe_track *t, const json_t *row)
{
    static const struct {
        const char *key;
        es_positions_stat stat;
    } of[] = {{"entropy", ES_POSITIONS_ENTROPY}, {"ess", ES_POSITIONS_ESS},
              {"top_weight", ES_POSITIONS_TOP},  {"sink_mass", ES_POSITIONS_SINK},
              {"local_mass", ES_POSITIONS_NEAR}, {"score_sd", ES_POSITIONS_SCORE_SD}};
    const es_positions_grid *g = t->grid;
    for (int64_t bin = 0; bin < g->bins; bin++) {
        for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
            const double want = element(row, of[i].key, bin);
            assert_near(probe_track_mean(t, bin, of[i].stat).value, want, F32 * fmax(want, 1.0));
        }
        assert_near(probe_track_context(t, bin, 0.1).value, log(element(row, "context", bin)), F32);
    }
    for (int64_t c = 0; c < g->windows; c++)
        assert_near(probe_track_error(t, g->bins - 1, c).value, element(row, "error", c), F32);
    for (int64_t c = 0; c < g->windows + 2; c++) {
        const double real = element(row, "score", c), plain = element(row, "plain", c);
        assert_near(probe_track_score(t, c, ES_POSITIONS_REAL).value, real, F32);
        assert_near(probe_track_score(t, c, ES_POSITIONS_PLAIN).value, plain, F32);
    }
}

static void pebble_is_what_plain_python_says(void **state)
{
    (void)state;
    json_t *all = golden_file("pebble/positions.json"), *heads = json_object_get(all, "heads");
    const int64_t n = (int64_t)json_array_size(json_object_get(all, "ids"));
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    double scratch;
    es_model *m;
    es_positions_grid g;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)element(all, "ids", i);
    assert_ok(es_model_open(golden_path("../../models/pebble"), NULL, &m, &err));
    const es_positions_spec spec = {.model = m, .length = n};
    assert_ok(es_positions_grid_of(&spec, &g, &err));
    for (int64_t bin = 0; bin < g.bins; bin++)
        assert_equals((double)g.to[bin], element(all, "to", bin));
    double *x = calloc((size_t)g.numbers * json_array_size(heads), sizeof *x);
    assert_ok(es_positions_block(&spec, ids, NULL, x, &err));
    for (size_t h = 0; h < json_array_size(heads); h++) {
        const probe_track track = {&g, x + (int64_t)h * g.numbers, g.numbers, 1, &scratch};
        check_head(&track, json_array_get(heads, h));
    }
    es_model_close(m);
    free(x);
    free(ids);
    json_decref(all);
}

TEST_FILE(probe_positions)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_those_of_blocks),
        cmocka_unit_test(the_effective_context_is_where_errors_fall_to_it),
        cmocka_unit_test(errors_that_rise_again_are_not_below),
        cmocka_unit_test(errors_of_contexts_are_those_of_blocks),
        cmocka_unit_test(growth_is_the_slope_of_the_context),
        cmocka_unit_test(a_place_needs_its_interval_between_cut_offs),
        cmocka_unit_test(more_blocks_only_decide_what_was_undecided),
        cmocka_unit_test(concentration_is_by_the_interval_of_the_effective_keys),
        cmocka_unit_test(the_window_error_is_that_of_the_last_64_keys),
        cmocka_unit_test(growth_needs_its_interval_on_one_side),
        cmocka_unit_test(octaves_end_with_the_length),
        cmocka_unit_test(pebble_is_what_plain_python_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
