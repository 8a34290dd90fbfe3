/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_draw.c : outcomes of choices: how often what is kept, and from which addresses. */
#include "testing.h"

#include <esscher/policy.h>

#include "policy/policy.h"

enum { N = 24, OUTCOMES = 20000 };

/* ---- helpers ---- */

static es_choice choice;
static es_kept kept;

static es_address at(uint64_t cell)
{
    return (es_address){.seed = 15, .experiment = 77, .cell = cell};
}

static void choose(const char *name, int64_t sinks, int64_t random, bool with)
{
    es_policy_spec spec;
    es_policy_spec_init(&spec, es_policy_find(name));
    spec.sinks = sinks;
    spec.random = random;
    spec.with_replacement = with;
    spec.correction = ES_CORRECTION_INVERSE;
    const es_policy_query query = {.n = N, .position = -1};
    assert_ok(es_policy_choose(&spec, &query, NULL, &choice, &err));
}

static void draw(uint64_t cell)
{
    const es_address here = at(cell);
    assert_ok(es_choice_draw(&choice, &here, &kept, &err));
}

/* |count - trials p| within 4 of its standard errors, p the probability of one trial; a test may
 * look at some hundred of these, which all pass but for one run in a hundred. */
static void assert_share(double count, double trials, double p)
{
    const double se = sqrt(trials * p * (1.0 - p));
    if (!(fabs(count - trials * p) <= 4.0 * se))
        fail_msg("%g of %g, expected %g within 4 times %g", count, trials, trials * p, se);
}

/* ---- what is kept ---- */

static void outcomes_are_sorted_and_have_their_factors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool with;
    } kinds[] = {{"random", false}, {"random", true}, {"retention", false}};
    for (int kind = 0; kind < 3; kind++) {
        choose(kinds[kind].name, 3, 5, kinds[kind].with);
        for (uint64_t cell = 0; cell < 200; cell++) {
            int64_t sure = 0;
            draw(cell);
            for (int64_t i = 0; i < kept.count; i++) {
                assert_at_least(kept.keys[i], 0);
                assert_below(kept.keys[i], N);
                assert_true(i == 0 || kept.keys[i - 1] < kept.keys[i] ||
                            (kinds[kind].with && kept.keys[i - 1] == kept.keys[i]));
                sure += kept.keys[i] < 3;
                assert_near(kept.log_factor[i], kept.keys[i] < 3 ? 0.0 : log(21.0 / 5.0), 1e-15);
            }
            assert_int_equal(sure, 3);
            if (kind != 2)
                assert_equals(kept.count, 8);
        }
    }
}

static void without_replacement_every_key_and_pair_is_alike(void **state)
{
    (void)state;
    double once[N] = {0}, both[N][N] = {{0}};
    choose("random", 3, 5, false);
    for (uint64_t cell = 0; cell < OUTCOMES; cell++) {
        draw(cell);
        for (int64_t i = 3; i < kept.count; i++) {
            once[kept.keys[i]]++;
            for (int64_t k = i + 1; k < kept.count; k++)
                both[kept.keys[i]][kept.keys[k]]++;
        }
    }
    for (int64_t i = 3; i < N; i++) {
        assert_share(once[i], OUTCOMES, 5.0 / 21.0);
        for (int64_t k = i + 1; k < N; k++)
            assert_share(both[i][k], OUTCOMES, 5.0 * 4.0 / (21.0 * 20.0));
    }
}

/* All C(6,3) sets of three of six keys. */
static void without_replacement_every_set_is_alike(void **state)
{
    (void)state;
    double sets[64] = {0};
    choose("random", N - 6, 3, false);
    for (uint64_t cell = 0; cell < OUTCOMES; cell++) {
        int set = 0;
        draw(cell);
        for (int64_t i = N - 6; i < kept.count; i++)
            set |= 1 << (kept.keys[i] - (N - 6));
        sets[set]++;
    }
    double seen = 0.0;
    for (int set = 0; set < 64; set++) {
        if (__builtin_popcount((unsigned)set) == 3)
            assert_share(sets[set], OUTCOMES, 1.0 / 20.0);
        seen += __builtin_popcount((unsigned)set) == 3 ? sets[set] : 0.0;
    }
    assert_equals(seen, OUTCOMES);
}

static void with_replacement_draws_are_independent(void **state)
{
    (void)state;
    double drawn[N] = {0}, twins = 0.0;
    choose("random", 3, 2, true);
    for (uint64_t cell = 0; cell < OUTCOMES; cell++) {
        draw(cell);
        drawn[kept.keys[3]]++;
        drawn[kept.keys[4]]++;
        twins += kept.keys[3] == kept.keys[4];
    }
    assert_share(twins, OUTCOMES, 1.0 / 21.0);
    for (int64_t i = 3; i < N; i++)
        assert_share(drawn[i], 2.0 * OUTCOMES, 1.0 / 21.0);
}

static void each_key_on_its_own(void **state)
{
    (void)state;
    double scores[N], reach[N], once[N] = {0}, both[N] = {0}, empty = 0.0, none = 1.0;
    for (int64_t j = 0; j < N; j++) {
        scores[j] = 0.2 * (double)j;
        reach[j] = 1.0;
    }
    es_policy_spec spec;
    es_policy_spec_init(&spec, es_policy_find("limit"));
    spec.keys = 3;
    const es_policy_query query = {.n = N, .position = -1, .scores = scores, .reach = reach};
    assert_ok(es_policy_choose(&spec, &query, NULL, &choice, &err));
    assert_int_equal(choice.rest_count, N);
    for (int64_t j = 0; j < N; j++)
        none *= 1.0 - choice.kept[j];
    for (uint64_t cell = 0; cell < OUTCOMES; cell++) {
        bool has[N] = {false};
        draw(cell);
        for (int64_t i = 0; i < kept.count; i++)
            has[kept.keys[i]] = true;
        for (int64_t j = 0; j < N; j++) {
            once[j] += has[j];
            both[j] += j > 0 && has[j] && has[j - 1];
        }
        empty += kept.count == 0;
    }
    assert_share(empty, OUTCOMES, none);
    for (int64_t j = 0; j < N; j++) {
        assert_share(once[j], OUTCOMES, choice.kept[j]);
        if (j > 0)
            assert_share(both[j], OUTCOMES, choice.kept[j] * choice.kept[j - 1]);
    }
}

/* ---- addresses ---- */

static void the_same_address_gives_the_same_keys(void **state)
{
    (void)state;
    es_kept other = {0};
    es_address here = at(4);
    choose("random", 3, 5, false);
    draw(4);
    here.token = 99; /* not part of the address */
    here.lane = 5;
    assert_ok(es_choice_draw(&choice, &here, &other, &err));
    assert_int_equal(other.count, kept.count);
    assert_memory_equal(other.keys, kept.keys, (size_t)kept.count * sizeof *kept.keys);
    int same = 0;
    for (uint64_t cell = 5; cell < 105; cell++) {
        draw(cell);
        same += memcmp(other.keys, kept.keys, (size_t)kept.count * sizeof *kept.keys) == 0;
    }
    assert_below(same, 3); /* one set of C(21,5) = 20349 */
    es_kept_free(&other);
}

/* Fewer keys are among more: curves against the number of keys are smoother for it. */
static void fewer_draws_are_among_more(void **state)
{
    (void)state;
    static const char *const names[] = {"random", "retention"};
    for (int kind = 0; kind < 2; kind++) {
        es_kept few = {0};
        const es_address here = at(11);
        choose(names[kind], 0, 4, false);
        assert_ok(es_choice_draw(&choice, &here, &few, &err));
        choose(names[kind], 0, 15, false);
        draw(11);
        for (int64_t i = 0; i < few.count; i++) {
            bool found = false;
            for (int64_t k = 0; k < kept.count; k++)
                found = found || kept.keys[k] == few.keys[i];
            assert_true(found);
        }
        es_kept_free(&few);
    }
}

static void addresses_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    es_address here = at((uint64_t)1 << 48);
    choose("random", 3, 5, false);
    assert_int_equal(es_choice_draw(&choice, &here, &kept, &err), ES_E_RANGE);
    assert_int_equal(es_choice_draw(&choice, NULL, &kept, &err), ES_E_ARGUMENT);
}

/* ---- projections ---- */

/* Entries are N(0, 1/n): projected unit vectors are columns of E. */
static void linformer_mixes_with_the_right_variance(void **state)
{
    (void)state;
    enum { ROWS = 200, DIM = 3 };
    static double x[400 * DIM], out[ROWS * DIM], again[ROWS * DIM];
    const es_address here = at(2);
    for (int64_t n = 100; n <= 400; n *= 4) {
        for (int64_t j = 0; j < n; j++) {
            x[j * DIM] = 1.0;                              /* its mixtures have variance 1 */
            x[j * DIM + 1] = j % 2 ? 2.0 : -2.0;           /* 4, and nothing in common with it */
            x[j * DIM + 2] = j == 0 ? sqrt((double)n) : 0; /* one entry of E: 1 */
        }
        const es_view view = es_view_f64(x, n, DIM);
        double m2[DIM] = {0}, cross = 0.0;
        assert_ok(es_linformer_project(&view, ROWS, &here, NULL, out, &err));
        for (int64_t r = 0; r < ROWS; r++) {
            for (int64_t l = 0; l < DIM; l++)
                m2[l] += out[r * DIM + l] * out[r * DIM + l] / ROWS;
            cross += out[r * DIM] * out[r * DIM + 1] / ROWS;
        }
        const double se = sqrt(2.0 / ROWS); /* of a mean of squared normals */
        assert_near(m2[0], 1.0, 4.0 * se);
        assert_near(m2[1], 4.0, 16.0 * se);
        assert_near(m2[2], 1.0, 4.0 * se);
        assert_near(cross, 0.0, 4.0 * 2.0 / sqrt(ROWS));
        assert_ok(es_linformer_project(&view, ROWS, &here, NULL, again, &err));
        assert_memory_equal(out, again, sizeof out);
        assert_ok(es_linformer_project(&view, 7, &here, NULL, again, &err)); /* the first rows */
        assert_memory_equal(out, again, 7 * DIM * sizeof *out);
    }
    const es_view view = es_view_f64(x, 4, DIM);
    assert_int_equal(es_linformer_project(&view, 0, &here, NULL, out, &err), ES_E_SHAPE);
    assert_int_equal(es_linformer_project(NULL, 1, &here, NULL, out, &err), ES_E_ARGUMENT);
}

static int free_all(void **state)
{
    (void)state;
    es_choice_free(&choice);
    es_kept_free(&kept);
    return 0;
}

TEST_FILE(policy_draw)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outcomes_are_sorted_and_have_their_factors),
        cmocka_unit_test(without_replacement_every_key_and_pair_is_alike),
        cmocka_unit_test(without_replacement_every_set_is_alike),
        cmocka_unit_test(with_replacement_draws_are_independent),
        cmocka_unit_test(each_key_on_its_own),
        cmocka_unit_test(the_same_address_gives_the_same_keys),
        cmocka_unit_test(fewer_draws_are_among_more),
        cmocka_unit_test(addresses_that_do_not_fit_are_refused),
        cmocka_unit_test(linformer_mixes_with_the_right_variance),
    };
    return cmocka_run_group_tests(tests, NULL, free_all);
}
