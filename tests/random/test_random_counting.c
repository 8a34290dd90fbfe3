/* SPDX-License-Identifier: Apache-2.0 */
/* test_random_counting.c : bounded integers and permutations of random.h, by counting.
 *
 * Seeds are fixed. Counts are compared by chi-square; bounds are in standard errors (SE). */
#include "testing.h"

#include <stdbool.h>

#include <esscher/random.h>

#include "random/random.h"

/* Chi-square of counts against equal expectation, as (chi2 - freedom)/sqrt(2 freedom). For the
 * degrees of freedom used here its upper tail is a little heavier than normal: 5 allowed. */
static double chi_square_se(const int64_t *count, int cells, double expected, int freedom)
{
    double chi = 0.0;
    for (int i = 0; i < cells; i++)
        chi += ((double)count[i] - expected) * ((double)count[i] - expected) / expected;
    return (chi - freedom) / sqrt(2.0 * freedom);
}

static void integers_are_unbiased(void **state)
{
    (void)state;
    enum { N = 100000 };
    static int64_t n[N];
    static const int64_t counts[] = {2, 3, 7, 64, 1000};
    es_address first = {.seed = 31};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        int64_t cell[1000] = {0};
        first.cell = c;
        assert_ok(es_integer_rows(&first, N / 5, 5, counts[c], n, &err));
        for (int i = 0; i < N; i++) {
            assert_in_range(n[i], 0, counts[c] - 1);
            cell[n[i]]++;
        }
        assert_near(
            chi_square_se(cell, (int)counts[c], (double)N / (double)counts[c], (int)counts[c] - 1),
            0.0, 5.0);
    }
    /* 2^64 = 8/3 count: without rejection the residues mod 3 would come 3:3:2. */
    int64_t residue[3] = {0};
    assert_ok(es_integer_rows(&first, N, 1, INT64_C(3) << 61, n, &err));
    for (int i = 0; i < N; i++) {
        assert_in_range(n[i], 0, (INT64_C(3) << 61) - 1);
        residue[n[i] % 3]++;
    }
    assert_near(chi_square_se(residue, 3, N / 3.0, 2), 0.0, 5.0);
    assert_ok(es_integer_rows(&first, 100, 1, 1, n, &err));
    for (int i = 0; i < 100; i++)
        assert_int_equal(n[i], 0);
}

static void permutations_are_bijections(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 100, 1000, 4095, 4096, 4097, 65536};
    static unsigned char seen[65536];
    es_permutation p;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint32_t lane = 0; lane < 3; lane++) {
            const es_address a = {.seed = 41, .lane = lane};
            assert_ok(es_permutation_init(&a, sizes[s], &p, &err));
            memset(seen, 0, sizeof seen);
            for (int64_t i = 0; i < sizes[s]; i++) {
                const int64_t to = es_permutation_at(&p, i);
                assert_in_range(to, 0, sizes[s] - 1);
                assert_int_equal(seen[to]++, 0);
            }
        }
    }
    /* The largest there is: distinct results for neighbours, all in range. */
    const es_address a = {.seed = 42};
    assert_ok(es_permutation_init(&a, INT64_C(1) << 40, &p, &err));
    for (int64_t i = 0; i < 1000; i++) {
        assert_in_range(es_permutation_at(&p, i), 0, (INT64_C(1) << 40) - 1);
        assert_differs(es_permutation_at(&p, i), es_permutation_at(&p, i + 1));
    }
}

static void every_place_is_equally_likely(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    static const int64_t sizes[] = {3, 5, 10, 16, 25};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const int n = (int)sizes[s];
        int64_t count[25 * 25] = {0};
        for (uint32_t lane = 0; lane < DRAWS; lane++) {
            es_permutation p;
            const es_address a = {.seed = 43, .cell = s, .lane = lane};
            assert_ok(es_permutation_init(&a, n, &p, &err));
            for (int i = 0; i < n; i++)
                count[i * n + es_permutation_at(&p, i)]++;
        }
        /* Rows and columns of the table each sum to DRAWS. The n^2 deviations are those of a random
         * permutation matrix, whose sum of squares over the expectation has mean n (n-1), that is
         * n/(n-1) times a chi-square of (n-1)^2 degrees. */
        double chi = 0.0;
        for (int i = 0; i < n * n; i++)
            chi += pow((double)count[i] - (double)DRAWS / n, 2.0) / ((double)DRAWS / n);
        const int freedom = (n - 1) * (n - 1);
        assert_near((chi * (n - 1) / n - freedom) / sqrt(2.0 * freedom), 0.0, 5.0);
    }
}

/* The number of a permutation of `n` things in [0, n!). */
static int rank_of(const int64_t *to, int n)
{
    int rank = 0;
    for (int i = 0; i < n; i++) {
        int smaller = 0;
        for (int j = i + 1; j < n; j++)
            smaller += to[j] < to[i];
        rank = rank * (n - i) + smaller;
    }
    return rank;
}

static void every_small_permutation_is_equally_likely(void **state)
{
    (void)state;
    enum { DRAWS = 60000 };
    int factorial = 2;
    for (int n = 3; n <= 6; n++) {
        int64_t count[720] = {0}, to[6];
        factorial *= n;
        for (uint32_t lane = 0; lane < DRAWS; lane++) {
            es_permutation p;
            const es_address a = {.seed = 44, .lane = lane};
            assert_ok(es_permutation_init(&a, n, &p, &err));
            for (int i = 0; i < n; i++)
                to[i] = es_permutation_at(&p, i);
            count[rank_of(to, n)]++;
        }
        assert_near(chi_square_se(count, factorial, (double)DRAWS / factorial, factorial - 1), 0.0,
                    5.0);
    }
}

static void odd_and_even_permutations_are_equally_likely(void **state)
{
    (void)state;
    /* A Feistel network on a rectangle of odd sides makes even permutations only. */
    enum { DRAWS = 20000 };
    static const int sizes[] = {9, 16, 25, 49};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int odd = 0;
        for (uint32_t lane = 0; lane < DRAWS; lane++) {
            es_permutation p;
            const es_address a = {.seed = 46, .cell = s, .lane = lane};
            int cycles = 0;
            bool seen[49] = {false};
            assert_ok(es_permutation_init(&a, sizes[s], &p, &err));
            for (int i = 0; i < sizes[s]; i++) {
                cycles += !seen[i];
                for (int64_t j = i; !seen[j]; j = es_permutation_at(&p, j))
                    seen[j] = true;
            }
            odd += (sizes[s] - cycles) % 2;
        }
        assert_near(odd, 0.5 * DRAWS, 4.5 * sqrt(0.25 * DRAWS));
    }
}

/* Where two indices go together: (10,10) boxes, each expected in proportion to the pairs of
 * distinct places in it; 99 degrees of freedom. */
static double pair_se(int64_t count, int64_t first, int64_t second, uint64_t cell)
{
    enum { DRAWS = 50000 };
    int64_t seen[100] = {0};
    double size[10] = {0}, chi = 0.0;
    for (uint32_t lane = 0; lane < DRAWS; lane++) {
        es_permutation p;
        const es_address a = {.seed = 45, .cell = cell, .lane = lane};
        assert_ok(es_permutation_init(&a, count, &p, &err));
        seen[es_permutation_at(&p, first) * 10 / count * 10 +
             es_permutation_at(&p, second) * 10 / count]++;
    }
    for (int64_t i = 0; i < count; i++)
        size[i * 10 / count]++;
    for (int i = 0; i < 100; i++) {
        const double pairs = size[i / 10] * (size[i % 10] - (i / 10 == i % 10));
        const double expected = DRAWS * pairs / (double)(count * (count - 1));
        chi += pow((double)seen[i] - expected, 2.0) / expected;
    }
    return (chi - 99.0) / sqrt(2.0 * 99.0);
}

static void neighbours_part_in_permutations(void **state)
{
    (void)state;
    static const int64_t sizes[] = {100, 256, 1000, 4097}, columns[] = {10, 16, 32, 65};
    for (uint64_t s = 0; s < 4; s++) {
        assert_near(pair_se(sizes[s], 0, 1, s), 0.0, 5.0);
        assert_near(pair_se(sizes[s], 0, columns[s], s), 0.0, 5.0); /* in the next column */
    }
}

TEST_FILE(random_counting)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_unbiased),
        cmocka_unit_test(permutations_are_bijections),
        cmocka_unit_test(every_place_is_equally_likely),
        cmocka_unit_test(every_small_permutation_is_equally_likely),
        cmocka_unit_test(odd_and_even_permutations_are_equally_likely),
        cmocka_unit_test(neighbours_part_in_permutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
