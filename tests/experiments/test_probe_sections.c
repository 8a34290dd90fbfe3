/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_sections.c : a head's numbers without one section of the text after the other, against
 * plain loops; and that the error they give is the one between texts. */
#include "probe_truth.h"

#include "random/random.h"
#include "stats/multiple.h"

enum { ASKED = 32, EACH = ASKED / ES_PROBE_SECTIONS }; /* queries of all sections, and of each */

static int64_t first_of(int64_t section) { return tokens * section / ES_PROBE_SECTIONS; }

/* The queries (ASKED, H), drawn from their sections. */
static void queries_of(const truth *t, int64_t layer, double *q)
{
    for (int i = 0; i < ASKED; i++) {
        const int64_t s = i / EACH;
        const es_address at = {.seed = 11,
                               .experiment = ES_PROBE_SECTION_QUERIES,
                               .cell = (uint64_t)layer << 32 | (uint64_t)s};
        es_permutation shuffle;
        assert_ok(es_permutation_init(&at, first_of(s + 1) - first_of(s), &shuffle, &err));
        const int64_t row = first_of(s) + es_permutation_at(&shuffle, i % EACH);
        product(t->x + row * H, 1, t->wq, t->bq, q + i * H);
    }
}

/* Both traits over rows (n) and the queries that are not of section `without`. */
static void traits_by_loops(truth *t, const double *q, int h, const int64_t *rows, int64_t n,
                            int64_t without, double out[ES_PROBE_TRAITS])
{
    double *w = malloc((size_t)n * sizeof *w), outputs[ASKED][K], mean[K] = {0};
    double sampling = 0.0, variance = 0.0, spread = 0.0, asked = 0.0;
    for (int i = 0; i < ASKED; i++) {
        if (i / EACH == without)
            continue;
        double sum = 0.0, squares = 0.0;
        memcpy(t->q, q + i * H, H * sizeof *q);
        weights_of(t, 0, h, rows, n, w);
        for (int c = 0; c < K; c++) {
            outputs[i][c] = 0.0;
            for (int64_t j = 0; j < n; j++)
                outputs[i][c] += w[j] * t->values[rows[j] * H + h * K + c];
            mean[c] += outputs[i][c];
        }
        for (int64_t j = 0; j < n; j++)
            for (int c = 0; c < K; c++)
                sampling += (double)n * w[j] * w[j] *
                            pow(t->values[rows[j] * H + h * K + c] - outputs[i][c], 2.0);
        for (int64_t j = 0; j < n; j++) { /* the scores themselves */
            double score = 0.0;
            for (int c = h * K; c < (h + 1) * K; c++)
                score += q[i * H + c] * t->keys[rows[j] * H + c] / sqrt((double)K);
            sum += score / (double)n;
            squares += score * score / (double)n;
        }
        variance += squares - sum * sum;
        asked++;
    }
    for (int i = 0; i < ASKED; i++)
        for (int c = 0; c < K && i / EACH != without; c++)
            spread += pow(outputs[i][c] - mean[c] / asked, 2.0);
    out[ES_PROBE_NEED] = log(sampling / spread);
    out[ES_PROBE_SCORES] = 0.5 * log(variance / asked);
    free(w);
}

static void traits_without_a_section_are_what_the_loops_say(void **state)
{
    (void)state;
    enum { STRIDE = 1 + ES_PROBE_SECTIONS };
    es_probe_spec spec = spec_of(NULL);
    spec.queries = ASKED;
    int64_t *rows = malloc((size_t)tokens * sizeof *rows);
    double got[HEADS * ES_PROBE_TRAITS * STRIDE], q[ASKED * H], want[ES_PROBE_TRAITS];
    truth t;
    for (int64_t layer = 0; layer < 2; layer++) {
        truth_open(layer, &t);
        queries_of(&t, layer, q);
        assert_ok(es_probe_sections(&spec, layer, got, &err));
        for (int64_t without = -1; without < ES_PROBE_SECTIONS; without += 8) {
            int64_t n = 0;
            for (int64_t i = 0; i < tokens; i++)
                if (without < 0 || i < first_of(without) || i >= first_of(without + 1))
                    rows[n++] = i;
            for (int h = 0; h < HEADS; h++) {
                const double *at = got + h * ES_PROBE_TRAITS * STRIDE + 1 + without;
                traits_by_loops(&t, q, h, rows, n, without, want);
                /* sums of squares of outputs in f32, as in test_probe.c; scores are linear */
                assert_near(at[ES_PROBE_NEED * STRIDE], want[ES_PROBE_NEED],
                            20.0 * tolerance_of[layer]);
                assert_near(at[ES_PROBE_SCORES * STRIDE], want[ES_PROBE_SCORES], 2e-6);
            }
        }
        free(t.x);
    }
    free(rows);
}

/* ---- between texts ---- */

enum { TEXTS = 12 };

/* A text of 64 passages, each of which has four words of its own: tokens far apart are as good as
 * independent, tokens of one passage are not. */
static void write_passages(uint64_t seed)
{
    FILE *file = fopen(in_folder("passages"), "w");
    assert_non_null(file);
    uint32_t topic[4];
    for (int i = 0; i < 64 * 50; i++) {
        for (int j = 0; j < 4; j++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            topic[j] = i % 50 == 0 ? (uint32_t)(seed >> 40) %
                                         (uint32_t)(tiny_of_pool.vocab - TINY_FIRST_WORD)
                                   : topic[j];
        }
        fprintf(file, "word%d ", TINY_FIRST_WORD + (int)topic[(seed >> 50) % 4]);
    }
    assert_int_equal(fclose(file), 0);
}

static void sections_of_text(uint64_t seed, es_grouped out[HEADS][ES_PROBE_TRAITS])
{
    es_pool *of_text;
    double numbers[HEADS * ES_PROBE_TRAITS * (1 + ES_PROBE_SECTIONS)];
    write_passages(seed);
    const es_pool_spec made = pool_spec_of("passages", "other");
    assert_ok(es_pool_build(&made, NULL, &err));
    assert_ok(es_pool_open(made.folder, &of_text, &err));
    es_probe_spec spec = spec_of(NULL);
    spec.pool = of_text;
    spec.queries = 512;
    assert_ok(es_probe_sections(&spec, 0, numbers, &err));
    for (int i = 0; i < HEADS * ES_PROBE_TRAITS; i++) {
        const double *at = numbers + i * (1 + ES_PROBE_SECTIONS);
        out[i / ES_PROBE_TRAITS][i % ES_PROBE_TRAITS] =
            es_jackknife(at[0], at + 1, ES_PROBE_SECTIONS);
    }
    es_pool_close(of_text);
    remove_pool("other");
}

/* What the sections of one text say about its error is how texts scatter: the ratio of variances is
 * an F of (11, about 12 * 15) degrees, which is in [0.2, 3] but for 2 in 1000; there are 6, not
 * independent. */
static void error_of_sections_is_that_between_texts(void **state)
{
    (void)state;
    static es_grouped found[TEXTS][HEADS][ES_PROBE_TRAITS];
    for (int i = 0; i < TEXTS; i++)
        sections_of_text((uint64_t)(100 + i), found[i]);
    for (int h = 0; h < HEADS; h++)
        for (int trait = 0; trait < ES_PROBE_TRAITS; trait++) {
            double mean = 0.0, between = 0.0, within = 0.0;
            for (int i = 0; i < TEXTS; i++)
                mean += found[i][h][trait].value / TEXTS;
            for (int i = 0; i < TEXTS; i++) {
                between += pow(found[i][h][trait].value - mean, 2.0) / (TEXTS - 1);
                within += pow(found[i][h][trait].se, 2.0) / TEXTS;
            }
            assert_between(between / within, 0.2, 3.0);
        }
}

static void same_bits_for_any_threads_within_the_stated_memory(void **state)
{
    (void)state;
    double numbers[2][HEADS * ES_PROBE_TRAITS * (1 + ES_PROBE_SECTIONS)];
    double other[HEADS * ES_PROBE_TRAITS * (1 + ES_PROBE_SECTIONS)];
    for (int i = 0; i < 2; i++) {
        es_mem_limit budget = {0};
        const es_exec exec = {.threads = i ? 3 : 1, .budget = &budget};
        const es_probe_spec spec = spec_of(&exec);
        assert_ok(es_probe_sections(&spec, 1, numbers[i], &err));
        assert_at_most(budget.peak, es_probe_sections_price(&spec, tokens).bytes);
        assert_int_equal(budget.used, 0);
        budget.limit = 20000;
        assert_int_equal(es_probe_sections(&spec, 1, other, &err), ES_E_LIMIT);
        assert_int_equal(budget.used, 0);
        assert_int_equal(es_probe_sections(&spec, LAYERS, other, &err), ES_E_RANGE);
    }
    assert_memory_equal(numbers[0], numbers[1], sizeof numbers[0]);
}

TEST_FILE(probe_sections)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traits_without_a_section_are_what_the_loops_say),
        cmocka_unit_test(error_of_sections_is_that_between_texts),
        cmocka_unit_test(same_bits_for_any_threads_within_the_stated_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
