/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_window.c : windows of the text: their tokens, their errors by plain loops
 * (probe_truth.h), and design effects against the theory of tokens that come in runs. */
#include "probe_truth.h"

/* ---- which tokens ---- */

/* A probe of which only pool and sizes are looked at. */
static es_probe bare(int64_t rows, int64_t block, const int64_t *n, uint64_t seed)
{
    return (es_probe){.spec = {.sizes = n, .n_sizes = 1, .seed = seed},
                      .pool = {.tokens = rows, .length = block}};
}

/* Around the circle of the pool's rows from one window's first to the next one's. */
static void windows_are_apart_while_the_pool_is_long_enough(void **state)
{
    (void)state;
    enum { N = 10000, BLOCK = 40, WINDOWS = 16 };
    static const struct {
        int64_t n, shared; /* tokens that neighbours may share */
    } cases[] = {{100, 0}, {585, 0}, {600, 15}, {625, BLOCK}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (uint64_t seed = 0; seed < 50; seed++) {
            const es_probe p = bare(N, BLOCK, &cases[c].n, seed);
            int64_t first[WINDOWS];
            for (int r = 0; r < WINDOWS; r++) {
                assert_ok(es_probe_window_first(&p, r, WINDOWS, &first[r], &err));
                assert_in_range(first[r], 0, N - 1);
            }
            for (int r = 0; r < WINDOWS; r++) {
                const int64_t gap = (first[(r + 1) % WINDOWS] - first[r] + N) % N;
                assert_at_least(gap + cases[c].shared + 1, cases[c].n); /* 1: rounding of an arc */
            }
        }
}

/* Each window begins anywhere with the same probability: over seeds, counts of ten stretches of the
 * pool are binomial. 40 of them, below 4.5 standard deviations with 0.9997. */
static void every_row_is_as_likely_to_be_first(void **state)
{
    (void)state;
    enum { N = 1000, SEEDS = 4000, BINS = 10 };
    const int64_t n = 300;
    for (int r = 0; r < 4; r++) {
        int64_t counts[BINS] = {0};
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            const es_probe p = bare(N, 40, &n, seed);
            int64_t first;
            assert_ok(es_probe_window_first(&p, r, 4, &first, &err));
            counts[first * BINS / N]++;
        }
        for (int b = 0; b < BINS; b++)
            assert_near((double)counts[b], SEEDS / BINS,
                        4.5 * sqrt(SEEDS * (1.0 / BINS) * (1.0 - 1.0 / BINS)));
    }
}

static void windows_that_are_none(void **state)
{
    (void)state;
    const int64_t n = 1001;
    es_probe p = bare(1000, 40, &n, 1);
    int64_t first;
    assert_int_equal(es_probe_window_first(&p, 0, 1, &first, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "probe.window");
    p.pool.tokens = 1001;
    assert_ok(es_probe_window_first(&p, 0, 1, &first, &err));
    assert_int_equal(es_probe_window_first(&p, 1, 1, &first, &err), ES_E_RANGE);
    assert_int_equal(es_probe_window_first(&p, -1, 1, &first, &err), ES_E_RANGE);
    assert_int_equal(es_probe_window_first(&p, 0, 0, &first, &err), ES_E_RANGE);
}

/* ---- their errors ---- */

/* The last window of many goes over the pool's end and on at its beginning. */
static void errors_of_a_window_are_what_the_loops_say(void **state)
{
    (void)state;
    enum { WINDOWS = 40 };
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec), out[QUERIES * H];
    int64_t rows[600];
    bool over = false;
    truth t;
    truth_open(1, &t);
    es_probe *probe = probe_of(&spec, 1, numbers);
    for (int r = 0; r < WINDOWS; r++) {
        es_probe_cell cells[HEADS * SIZES];
        es_probe_joint joint[SIZES];
        int64_t first;
        assert_ok(es_probe_window_first(probe, r, WINDOWS, &first, &err));
        const bool here = first + 600 > tokens;
        over = over || here;
        if (r > 1 && !here)
            continue; /* loops are slow */
        for (int i = 0; i < 600; i++)
            rows[i] = first + i < tokens ? first + i : first + i - tokens;
        assert_ok(es_probe_window(probe, r, WINDOWS, cells, joint, &err));
        for (int s = 0; s < SIZES; s++) {
            attend(&t, rows, sizes[s], out);
            for (int h = 0; h < HEADS; h++)
                same_errors(cells[h * SIZES + s], errors_of(out, t.limit, h), tolerance_of[1]);
            assert_above(joint[s].map_error, 0.0);
        }
    }
    assert_true(over);
    es_probe_close(probe);
    free(t.x);
    free(numbers);
}

/* ---- theory ---- */

/* A text of words in runs of `run` equal ones. */
static void write_runs(const char *name, uint64_t seed, int64_t count, int64_t run)
{
    FILE *file = fopen(in_folder(name), "w");
    int word = 0;
    assert_non_null(file);
    for (int64_t i = 0; i < count; i++) {
        if (i % run == 0) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            word =
                TINY_FIRST_WORD + (int)(seed >> 40) % (int)(tiny_of_pool.vocab - TINY_FIRST_WORD);
        }
        fprintf(file, "word%d%c", word, i % 12 == 11 ? '\n' : ' ');
    }
    assert_int_equal(fclose(file), 0);
}

typedef struct moments {
    double mean, se;
} moments;

static moments moments_of_squares(const double *x, int64_t count)
{
    moments m = {0.0, 0.0};
    for (int64_t i = 0; i < count; i++)
        m.mean += x[i] / (double)count;
    for (int64_t i = 0; i < count; i++)
        m.se += pow(x[i] - m.mean, 2.0);
    m.se = sqrt(m.se / (double)(count * (count - 1)));
    return m;
}

/* Without positions the input of layer 0 is a function of the word, so rows are independent if
 * words are, and equal where these are. Let a window of n begin anywhere in a run of L: tokens k
 * apart are equal with probability 1 - k/L, else independent, so that the variance of a mean over
 * the window, over that of n independent tokens, is
 *
 *     1 + 2 sum_{k<L} (1 - k/n)(1 - k/L) = L - (L^2 - 1)/(3n),
 *
 * and the mean over the pool, which the limit is, takes n/N of it away. Scores of layer 0 are
 * small: outputs are means to first order, and the next is of order L/n. */
static void check_runs(es_pool *runs, int64_t run)
{
    enum { DRAWS = 64, n = 240 };
    const int64_t size = n;
    const es_probe_spec spec = {.model = model,
                                .pool = runs,
                                .sizes = &size,
                                .n_sizes = 1,
                                .queries = QUERIES,
                                .draws_only = true,
                                .seed = 3};
    const double L = (double)run, N = (double)es_pool_about(runs).tokens;
    const double want = (L - (L * L - 1.0) / (3.0 * n)) * (1.0 - n / N);
    static double squares[2][HEADS][DRAWS];
    double *numbers = new_numbers(&spec);
    es_probe *probe = probe_of(&spec, 0, numbers);
    for (int r = 0; r < DRAWS; r++)
        for (int kind = 0; kind < 2; kind++) {
            es_probe_cell cells[HEADS];
            es_probe_joint joint[1];
            assert_ok(kind ? es_probe_window(probe, r, DRAWS, cells, joint, &err)
                           : es_probe_replicate(probe, r, cells, joint, &err));
            for (int h = 0; h < HEADS; h++)
                squares[kind][h][r] = pow(cells[h].map_error, 2.0);
        }
    for (int h = 0; h < HEADS; h++) {
        const moments draws = moments_of_squares(squares[0][h], DRAWS);
        const moments windows = moments_of_squares(squares[1][h], DRAWS);
        const double got = windows.mean / draws.mean;
        const double se = got * hypot(windows.se / windows.mean, draws.se / draws.mean);
        /* 4 standard errors, some 10 % each; the next order */
        assert_near(got, want, 4.0 * se + want * L / n);
        assert_below(se, 0.2 * want);
    }
    es_probe_close(probe);
    free(numbers);
}

static void design_effect_of_runs_is_their_length(void **state)
{
    (void)state;
    enum { TOKENS = 24000 };
    static const int64_t runs[] = {1, 8};
    tiny t = tiny_of_pool;
    double *positions =
        (double *)(uintptr_t)tiny_find(&t, "", "embeddings.position_embeddings.weight");
    memset(positions, 0, (size_t)(t.positions * t.hidden) * sizeof *positions);
    close_model();
    open_model_of(&t);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        es_pool *of_runs;
        write_runs("runs", 9, TOKENS, runs[i]);
        es_pool_spec spec = pool_spec_of("runs", "of_runs");
        spec.drop_specials = true;
        assert_ok(es_pool_build(&spec, NULL, &err));
        assert_ok(es_pool_open(spec.folder, &of_runs, &err));
        check_runs(of_runs, runs[i]);
        es_pool_close(of_runs);
        remove_pool("of_runs");
        remove(in_folder("runs"));
    }
}

TEST_FILE(probe_window)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_apart_while_the_pool_is_long_enough),
        cmocka_unit_test(every_row_is_as_likely_to_be_first),
        cmocka_unit_test(windows_that_are_none),
        cmocka_unit_test(errors_of_a_window_are_what_the_loops_say),
        cmocka_unit_test(design_effect_of_runs_is_their_length), /* changes the model: last */
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
