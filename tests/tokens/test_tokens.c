/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokens.c : what all laws have in common; empirical laws; memory. */
#include "token_laws.h"

#include "law/law_row.h"

enum { ROWS = 3000 };
static const es_address start = {.seed = 2026, .experiment = 9, .cell = 77, .token = 100};

/* ---- the same rows, whoever asks ---- */

static void rows_do_not_depend_on_the_calls(void **state)
{
    (void)state;
    static const int64_t splits[] = {1, 7, 256, 1025};
    static double whole[ROWS * DIM], piece[1025 * DIM];
    for (const es_law *law = all_laws; law < all_laws + ALL_LAWS; law++) {
        es_sampler *s;
        assert_ok(es_sampler_new(law, NULL, &s, &err));
        assert_ok(es_sampler_rows(s, &start, ROWS, whole, &err));
        for (int k = 0; k < 4; k++) {
            const int64_t step = splits[k], end = step == 1 ? 200 : ROWS;
            for (int64_t i = 0, n; i < end; i += n) {
                n = end - i < step ? end - i : step;
                es_address at = start;
                at.token += (uint64_t)i;
                assert_ok(es_sampler_rows(s, &at, n, piece, &err));
                assert_memory_equal(piece, whole + i * law->dim, (size_t)(n * law->dim) * 8);
            }
        }
        es_sampler_free(s);
    }
}

/* Dimensions for which a call makes its rows in several goes, and the largest. */
static void dimensions_from_one_to_the_largest(void **state)
{
    (void)state;
    static const struct {
        int64_t dim, rows;
        bool factor;
    } shapes[] = {
        {1, 20000, true}, {2, 9000, false}, {64, 600, true}, {301, 130, true}, {4096, 20, false}};
    for (int k = 0; k < 5; k++) {
        const int64_t d = shapes[k].dim, n = shapes[k].rows, at_rows[] = {0, n / 2, n - 1};
        double *b = malloc((size_t)(d * d) * 8), *x = malloc((size_t)(n * d) * 8), one[4096];
        assert_true(b && x);
        assert_ok(es_normal_rows(&start, d, d, b, &err));
        for (int kind = ES_LAW_GAUSSIAN; kind <= ES_LAW_VMF; kind++) {
            const es_law law = {.kind = (es_law_kind)kind,
                                .dim = d,
                                .size = 1.25,
                                .freedom = 3,
                                .concentration = 10,
                                .direction = b,
                                .mean = b,
                                .factor = shapes[k].factor ? b : NULL};
            assert_ok(es_tokens_rows(&law, &start, n, x, &err));
            for (int i = 0; i < 3; i++) {
                es_address at = start;
                at.token += (uint64_t)at_rows[i];
                assert_ok(es_tokens_rows(&law, &at, 1, one, &err));
                assert_memory_equal(one, x + at_rows[i] * d, (size_t)d * 8);
            }
        }
        free(b);
        free(x);
    }
}

static void rows_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    static double whole[ROWS * DIM], other[ROWS * DIM];
    for (const es_law *law = all_laws; law < all_laws + ALL_LAWS; law++) {
        assert_ok(es_tokens_rows(law, &start, ROWS, whole, &err));
        for (int threads = 1; threads <= 5; threads += 2) {
            const es_exec exec = {.threads = threads};
            memset(other, 0, sizeof other);
            assert_ok(es_tokens_fill(law, &start, ROWS, &exec, other, &err));
            assert_memory_equal(other, whole, (size_t)(ROWS * law->dim) * 8);
        }
    }
}

/* A fingerprint (FNV-1a) of many bytes. */
static uint64_t fingerprint(const void *data, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const unsigned char *p = data; size > 0; size--)
        hash = (hash ^ *p++) * UINT64_C(0x100000001b3);
    return hash;
}

static void bits_never_change(void **state)
{
    (void)state;
    /* Recorded once. Any compiler, instruction set or optimisation level must reproduce them. */
    static const uint64_t known[ALL_LAWS] = {
        UINT64_C(0x40325d0576de18b0), UINT64_C(0xe5b7366441067e96), UINT64_C(0x38bfe758cd70a0d1),
        UINT64_C(0x232d448b359c5642), UINT64_C(0xa4263f827a2c656e), UINT64_C(0x956214372da07963),
        UINT64_C(0x649318c8e1836025), UINT64_C(0x7c72b71636eac992), UINT64_C(0x4db56b184601c637),
        UINT64_C(0x160b2aa582d55fd7), UINT64_C(0x7348cf5301025232), UINT64_C(0x7052713819f30c80),
        UINT64_C(0x5ebdc2ac605f1025), UINT64_C(0x9cc73f2cf59e0ca3), UINT64_C(0x6f64738716ce6fd9),
        UINT64_C(0x4eef1d66a3117022), UINT64_C(0x7452d1df12595bf2), UINT64_C(0xeadbbab54a3c2aa3),
        UINT64_C(0x3f256aa5d18628ef),
    };
    static double x[ROWS * DIM];
    for (int l = 0; l < ALL_LAWS; l++) {
        assert_ok(es_tokens_rows(&all_laws[l], &start, ROWS, x, &err));
        const uint64_t seen = fingerprint(x, (size_t)(ROWS * all_laws[l].dim) * 8);
        if (seen != known[l])
            fail_msg("law %d: %#llx", l, (unsigned long long)seen);
    }
}

static void addresses_matter(void **state)
{
    (void)state;
    /* Other seeds, experiments, cells and lanes are other tokens. */
    double x[DIM], y[DIM];
    const es_law *law = &all_laws[9];
    assert_ok(es_tokens_rows(law, &start, 1, x, &err));
    es_address other[4] = {start, start, start, start};
    other[0].seed++;
    other[1].experiment++;
    other[2].cell++;
    other[3].lane += ES_TOKENS_LANES;
    for (int i = 0; i < 4; i++) {
        assert_ok(es_tokens_rows(law, &other[i], 1, y, &err));
        for (int j = 0; j < DIM; j++)
            assert_differs(x[j], y[j]);
    }
}

/* ---- the image mean + B z ---- */

static void image_is_the_sum_in_order(void **state)
{
    (void)state;
    enum { D = 37, N = 11 };
    static double b[D * D], mean[D], z[N * D], y[N * D];
    const es_address at = {.seed = 4};
    const int64_t place[N] = {3, 1, 0, 2, 10, 9, 8, 7, 6, 5, 4};
    for (int shape = 0; shape < 3; shape++) {
        assert_ok(es_normal_rows(&at, D, D, b, &err));
        assert_ok(es_normal_rows(&(es_address){.seed = 5}, N, D, z, &err));
        assert_ok(es_normal_rows(&(es_address){.seed = 6}, 1, D, mean, &err));
        for (int i = 0; i < D * D; i++) /* full, lower triangular, banded */
            if ((shape == 1 && i % D > i / D) || (shape == 2 && abs(i % D - i / D) > 3))
                b[i] = 0.0;
        es_affine a;
        assert_ok(es_affine_new(D, mean, b, NULL, &a, &err));
        es_affine_rows(&a, z, N, place, y);
        es_affine_free(&a, NULL);
        for (int r = 0; r < N; r++) {
            for (int i = 0; i < D; i++) {
                double sum = 0.0;
                for (int k = 0; k < D; k++)
                    sum += b[i * D + k] * z[r * D + k];
                assert_equals(y[place[r] * D + i], mean[i] + sum);
            }
        }
    }
}

static void panels_have_the_same_bits_on_every_cpu(void **state)
{
    (void)state;
    enum { K = 100 };
    static double z[ES_PANEL_TALL * K], sums[2][ES_PANEL_TALL * ES_PANEL];
    double *panel = NULL;
    assert_int_equal(posix_memalign((void **)&panel, 64, K * ES_PANEL * sizeof *panel), 0);
    assert_ok(es_normal_rows(&(es_address){.seed = 1}, K, ES_PANEL, panel, &err));
    assert_ok(es_normal_rows(&(es_address){.seed = 2}, ES_PANEL_TALL, K, z, &err));
    const double *const rows[ES_PANEL_TALL] = {z, z + K, z + 2 * K, z + 3 * K};
    es_panel_portable(panel, (int64_t[]){3, K}, rows, sums[0]);
    es_panel_best()(panel, (int64_t[]){3, K}, rows, sums[1]);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    free(panel);
}

/* ---- empirical laws ---- */

static void without_replacement_visits_every_point_once(void **state)
{
    (void)state;
    static double x[POINTS * DIM];
    static int visits[POINTS];
    const es_law law = all_laws[16];
    const es_address at = {.seed = 3};
    assert_ok(es_tokens_fill(&law, &at, POINTS, NULL, x, &err));
    int in_place = 0;
    for (int i = 0; i < POINTS; i++) {
        const int point = (int)x[i * DIM];
        visits[point]++;
        in_place += point == i;
        assert_memory_equal(x + i * DIM, numbers_of_points + point * DIM, DIM * 8);
    }
    for (int i = 0; i < POINTS; i++)
        assert_int_equal(visits[i], 1);
    assert_below(in_place, 10); /* Poisson(1) */
}

static void with_replacement_repeats_itself(void **state)
{
    (void)state;
    static double x[POINTS * DIM];
    static bool seen[POINTS];
    const es_address at = {.seed = 3};
    assert_ok(es_tokens_rows(&all_laws[15], &at, POINTS, x, &err));
    int distinct = 0;
    for (int i = 0; i < POINTS; i++) {
        const int point = (int)x[i * DIM];
        distinct += !seen[point];
        seen[point] = true;
    }
    /* Mean n (1 - 1/e), variance n (1/e - 2/e^2): within 5 standard deviations. */
    assert_near(distinct, POINTS * 0.63212, 5.0 * sqrt(POINTS * 0.0972));
}

static void NU06_identical_points_and_one_point(void **state)
{
    (void)state;
    float same[3] = {7.5f, -1.0f, 0.25f};
    const es_view points = {.data = same, .dtype = ES_F32, .rows = 100, .cols = 3, .col_stride = 4};
    double x[100 * 3];
    es_law law = {.kind = ES_LAW_EMPIRICAL, .dim = 3, .points = &points};
    for (int without = 0; without < 2; without++) {
        law.without_replacement = without;
        assert_ok(es_tokens_rows(&law, &(es_address){.seed = 1}, 100, x, &err));
        for (int i = 0; i < 300; i++)
            assert_equals(x[i], (double)same[i % 3]);
    }
}

/* ---- memory and interruption ---- */

static void memory_is_counted_and_returned(void **state)
{
    (void)state;
    static double x[ROWS * DIM];
    for (const es_law *law = all_laws; law < all_laws + ALL_LAWS; law++) {
        es_mem_limit budget = {0};
        const es_exec exec = {.threads = 1, .budget = &budget};
        assert_ok(es_tokens_fill(law, &start, ROWS, &exec, x, &err));
        assert_int_equal(budget.used, 0);
        /* Whatever is refused, all of it comes back. */
        const size_t most = budget.peak;
        for (size_t limit = 1; limit < most; limit += 1 + most / 40) {
            budget = (es_mem_limit){.limit = limit};
            assert_int_equal(es_tokens_fill(law, &start, ROWS, &exec, x, &err), ES_E_LIMIT);
            assert_int_equal(budget.used, 0);
        }
    }
}

static bool stop_at_once(void *user, double done, double total)
{
    (void)user;
    assert_at_most(done, total);
    return true;
}

static void filling_can_be_stopped(void **state)
{
    (void)state;
    static double x[ROWS * DIM];
    const es_exec exec = {.threads = 1, .progress = stop_at_once};
    assert_int_equal(es_tokens_fill(&all_laws[0], &start, ROWS, &exec, x, &err), ES_E_INTERRUPTED);
}

TEST_FILE(tokens)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_the_calls),
        cmocka_unit_test(dimensions_from_one_to_the_largest),
        cmocka_unit_test(rows_do_not_depend_on_the_threads),
        cmocka_unit_test(bits_never_change),
        cmocka_unit_test(addresses_matter),
        cmocka_unit_test(image_is_the_sum_in_order),
        cmocka_unit_test(panels_have_the_same_bits_on_every_cpu),
        cmocka_unit_test(without_replacement_visits_every_point_once),
        cmocka_unit_test(with_replacement_repeats_itself),
        cmocka_unit_test(NU06_identical_points_and_one_point),
        cmocka_unit_test(memory_is_counted_and_returned),
        cmocka_unit_test(filling_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, make_points, NULL);
}
