/* SPDX-License-Identifier: Apache-2.0 */
/* test_allocate.c : keys shared out among units, against all choices there are. */
#include "testing.h"

#include <stdbool.h>

#include "random/random.h"
#include "risk/allocate.h"

enum { UNITS = 4, OPTIONS = 5 };

/* A small problem: curves of a few shapes, each number a function of seed and place. */
typedef struct problem {
    double keys[UNITS][OPTIONS], risk[UNITS][OPTIONS];
    es_curve curves[UNITS];
} problem;

static double chance(uint64_t seed, int place)
{
    const es_address at = {.seed = seed, .cell = (uint64_t)place};
    return es_uniform_at(&at);
}

/* convex: risks as 1/m, what lies between slopes is not there; otherwise anything that is >= 0,
 * rising in places. */
static void make(uint64_t seed, bool convex, problem *p)
{
    for (int u = 0; u < UNITS; u++) {
        double keys = floor(4.0 * chance(seed, 100 + u));
        const double height = 0.1 + chance(seed, 200 + u);
        for (int i = 0; i < OPTIONS; i++) {
            keys += 1.0 + floor(6.0 * chance(seed, 300 + u * OPTIONS + i));
            p->keys[u][i] = keys;
            p->risk[u][i] = convex ? height / keys : chance(seed, 400 + u * OPTIONS + i);
        }
        p->curves[u] = (es_curve){OPTIONS, p->keys[u], p->risk[u], 0.2 + chance(seed, 500 + u)};
    }
}

static void sums_of(const problem *p, const int64_t *chosen, double *keys, double *risk)
{
    *keys = *risk = 0.0;
    for (int u = 0; u < UNITS; u++) {
        *keys += p->keys[u][chosen[u]];
        *risk += p->curves[u].weight * p->risk[u][chosen[u]];
    }
}

/* Every choice there is: the least risk of those with at most `keys`, or the fewest keys of those
 * with at most `risk`; INFINITY if there is none. */
static double best_of(const problem *p, double most_keys, double most_risk, bool want_keys)
{
    double best = INFINITY;
    for (int code = 0; code < OPTIONS * OPTIONS * OPTIONS * OPTIONS; code++) {
        int64_t chosen[UNITS];
        double keys, risk;
        for (int u = 0, rest = code; u < UNITS; u++, rest /= OPTIONS)
            chosen[u] = rest % OPTIONS;
        sums_of(p, chosen, &keys, &risk);
        if (keys <= most_keys && risk <= most_risk)
            best = fmin(best, want_keys ? keys : risk);
    }
    return best;
}

static void limits(const problem *p, double *least, double *most)
{
    const int64_t first[UNITS] = {0},
                  last[UNITS] = {OPTIONS - 1, OPTIONS - 1, OPTIONS - 1, OPTIONS - 1};
    double ignored;
    sums_of(p, first, least, &ignored);
    sums_of(p, last, most, &ignored);
}

/* ---- the best allocation ---- */

/* The largest drop of risk that one side of a unit's hull has: what the greedy choice may miss. */
static double largest_drop(const problem *p)
{
    double most = 0.0;
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < OPTIONS; i++)
            for (int j = i; j < OPTIONS; j++)
                most = fmax(most, p->curves[u].weight * (p->risk[u][i] - p->risk[u][j]));
    return most;
}

static void check_total(const problem *p, double keys, int *exact)
{
    int64_t chosen[UNITS];
    double used, risk, bound, sum_keys, sum_risk;
    const double best = best_of(p, keys, INFINITY, false);
    assert_ok(es_allocate_keys(p->curves, UNITS, keys, chosen, &used, &risk, &err));
    assert_ok(es_allocate_bound(p->curves, UNITS, keys, &bound, &err));
    sums_of(p, chosen, &sum_keys, &sum_risk);
    assert_near(used, sum_keys, 0.0);
    assert_near(risk, sum_risk, 1e-15);
    assert_at_most(used, keys);
    assert_at_most(bound, best + 1e-12); /* nothing is below it */
    assert_at_least(risk, best - 1e-12); /* nor below all there is */
    assert_at_most(risk, bound + largest_drop(p) + 1e-12);
    *exact += risk <= best + 1e-12;
}

/* Between corners something is left that no step fits into, which with four units of five options
 * is often: the choice was the best one for 2882 of 3459 totals when this was written, and must be
 * within one step of it for all. */
static void greedy_is_within_a_step_of_every_choice(void **state)
{
    (void)state;
    int exact = 0, totals = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        problem p;
        double least, most;
        make(seed, seed % 2, &p);
        limits(&p, &least, &most);
        for (double keys = least; keys <= most; keys += 1.0, totals++)
            check_total(&p, keys, &exact);
    }
    print_message("%d of %d totals are met exactly\n", exact, totals);
    assert_at_least(exact, 0.8 * totals);
}

/* At the totals where a step has just been taken: the bound is met, so no choice can be better. */
static void corners_are_exact(void **state)
{
    (void)state;
    int corners = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        problem p;
        double least, most;
        make(seed, seed % 2, &p);
        limits(&p, &least, &most);
        for (double keys = least; keys <= most; keys += 1.0) {
            int64_t chosen[UNITS];
            double risk, bound;
            assert_ok(es_allocate_keys(p.curves, UNITS, keys, chosen, NULL, &risk, &err));
            assert_ok(es_allocate_bound(p.curves, UNITS, keys, &bound, &err));
            if (risk > bound + 1e-12)
                continue;
            assert_near(risk, best_of(&p, keys, INFINITY, false), 1e-12);
            corners++;
        }
    }
    assert_above(corners, 60 * 3); /* three sides at least, and both ends */
}

/* ---- lines, which only rounding bends ---- */

enum { LINES = 4, POINTS = 24 };

/* Units whose risks fall along a convex curve at first and along a line to nothing from a third of
 * the keys on, as budget's do beyond the numbers of keys that it looks at: on a line every step is
 * worth the same, and which of two is worth more is decided by the last bit. */
typedef struct lines {
    double keys[POINTS], risk[LINES][POINTS];
    es_curve curves[LINES];
} lines;

static void make_lines(uint64_t seed, bool every, lines *p)
{
    double keys = 0.0;
    for (int i = 0; i < POINTS; i++)
        p->keys[i] = keys += every ? 1.0 : 1.0 + floor(3.0 * chance(seed, 600 + i));
    for (int u = 0; u < LINES; u++) {
        const double height = 0.1 + chance(seed, 700 + u), bend = p->keys[POINTS / 3];
        for (int i = 0; i < POINTS; i++)
            p->risk[u][i] = i < POINTS / 3 ? height * bend / p->keys[i]
                                           : height * (1.0 - (p->keys[i] - bend) / (keys - bend));
        p->curves[u] = (es_curve){POINTS, p->keys, p->risk[u], 0.2 + chance(seed, 800 + u)};
    }
}

/* The least risk of each total, unit after unit: best (most + 1). */
static void every_total(const lines *p, int most, double *best)
{
    double before[LINES * POINTS * 3 + 1];
    for (int t = 0; t <= most; t++)
        best[t] = 0.0;
    for (int u = 0; u < LINES; u++) {
        memcpy(before, best, (size_t)(most + 1) * sizeof *best);
        for (int t = 0; t <= most; t++) {
            best[t] = INFINITY;
            for (int i = 0; i < POINTS && p->keys[i] <= t; i++)
                best[t] = fmin(best[t],
                               before[t - (int)p->keys[i]] + p->curves[u].weight * p->risk[u][i]);
        }
    }
}

/* Steps of a unit are taken in their order: no plan has more keys than were asked for, fewer by
 * less than a step, and all keys are everything. Where every number of keys is an option, every
 * total has the least risk there is. */
static void steps_of_a_line_are_taken_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        lines p;
        double best[LINES * POINTS * 3 + 1];
        const bool every = seed % 2;
        make_lines(seed, every, &p);
        const int most = LINES * (int)p.keys[POINTS - 1], least = LINES * (int)p.keys[0];
        every_total(&p, most, best);
        for (int keys = least; keys <= most; keys++) {
            int64_t chosen[LINES];
            double used, risk, bound;
            assert_ok(es_allocate_keys(p.curves, LINES, keys, chosen, &used, &risk, &err));
            assert_ok(es_allocate_bound(p.curves, LINES, keys, &bound, &err));
            assert_at_most(used, keys);
            assert_above(used, keys - (every ? 1.0 : 3.0));
            assert_at_least(risk, best[keys] - 1e-12);
            assert_at_most(bound, best[keys] + 1e-12);
            if (every)
                assert_at_most(risk, best[keys] + 1e-12);
            if (keys == most) {
                assert_equals(used, most);
                assert_equals(risk, 0.0);
            }
            assert_ok(es_allocate_risk(p.curves, LINES, best[keys], chosen, &used, &risk, &err));
            assert_at_most(risk, best[keys]);
        }
    }
}

/* One unit whose middle option lies above the line between its neighbours: the hull passes it over,
 * unless it is all that fits. */
static void what_lies_above_the_hull_is_passed_over(void **state)
{
    (void)state;
    const double keys[] = {1, 2, 4, 8}, dented[] = {10, 9.5, 3, 2}, flat[] = {1, 1, 1, 1};
    const es_curve curves[] = {{4, keys, dented, 1.0}, {4, keys, flat, 5.0}};
    int64_t chosen[2];
    double used, risk;
    assert_ok(es_allocate_keys(curves, 2, 5, chosen, &used, &risk, &err));
    assert_int_equal(chosen[0], 2); /* not the dent */
    assert_int_equal(chosen[1], 0); /* nothing to gain there, whatever its weight */
    assert_near(used, 5.0, 0.0);
    assert_ok(es_allocate_keys(curves, 2, 4, chosen, &used, &risk, &err));
    assert_int_equal(chosen[0], 1); /* the next corner does not fit; the dent does */
    assert_near(risk, 9.5 + 5.0, 1e-15);
    assert_ok(es_allocate_keys(curves, 2, 1000, chosen, &used, &risk, &err));
    assert_int_equal(chosen[0], 3);
    assert_near(used, 9.0, 0.0); /* keys that help nobody are left */
}

/* A depth gain counts as if the risk were so much larger. */
static void weights_count(void **state)
{
    (void)state;
    const double keys[] = {1, 2}, risk[] = {1, 0};
    const es_curve curves[] = {{2, keys, risk, 1.0}, {2, keys, risk, 2.0}};
    int64_t chosen[2];
    assert_ok(es_allocate_keys(curves, 2, 3, chosen, NULL, NULL, &err));
    assert_equals(chosen[0], 0);
    assert_equals(chosen[1], 1);
}

static void fewest_keys_for_a_risk(void **state)
{
    (void)state;
    int exact = 0, asked = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        problem p;
        make(seed, seed % 2, &p);
        for (int i = 1; i < 20; i++) {
            const double most = 0.1 * i, best = best_of(&p, INFINITY, most, true);
            int64_t chosen[UNITS];
            double used, risk;
            const es_status status =
                es_allocate_risk(p.curves, UNITS, most, chosen, &used, &risk, &err);
            if (isinf(best)) {
                assert_int_equal(status, ES_E_RANGE);
                assert_string_equal(err.rule, "allocate.risk");
                continue;
            }
            assert_ok(status);
            assert_at_most(risk, most);
            assert_at_least(used, best);
            exact += used == best;
            asked++;
        }
    }
    print_message("%d of %d risks are met with the fewest keys\n", exact, asked);
    assert_at_least(exact, 0.9 * asked); /* 967 of 1014 when this was written */
}

/* ---- rivals ---- */

enum { GRID = 6, HEADS = 8 };
static const double grid[GRID] = {1, 2, 4, 8, 16, 32}, falling[GRID] = {6, 5, 4, 3, 2, 1};

static void make_heads(es_curve curves[HEADS])
{
    for (int u = 0; u < HEADS; u++)
        curves[u] = (es_curve){GRID, grid, falling, 1.0};
}

/* Allocates the same number of keys to all units, as budget does: by equal needs. */
static es_status allocate_evenly(const es_curve *curves, int64_t units, double keys,
                                 int64_t *chosen, double *used, double *risk, es_error *e)
{
    static const double equal[HEADS] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_at_most(units, HEADS);
    return es_allocate_mass(curves, units, keys, equal, chosen, used, risk, e);
}

static void uniform_is_the_same_for_all(void **state)
{
    (void)state;
    es_curve curves[HEADS];
    int64_t chosen[HEADS];
    double used, risk;
    make_heads(curves);
    for (int i = 0; i < GRID; i++) {
        assert_ok(allocate_evenly(curves, HEADS, HEADS * grid[i], chosen, &used, &risk, &err));
        for (int u = 0; u < HEADS; u++)
            assert_int_equal(chosen[u], i);
        assert_near(used, HEADS * grid[i], 0.0);
    }
    assert_ok(allocate_evenly(curves, HEADS, 6 * HEADS, chosen, &used, &risk, &err));
    assert_near(used, 6 * HEADS, 0.0); /* half of them have 4, half 8: nothing is wasted */
    assert_near(risk, 4 * 4 + 4 * 3, 0.0);
}

static void pyramids_fall_with_depth(void **state)
{
    (void)state;
    es_curve curves[HEADS];
    int64_t chosen[HEADS], layer[HEADS];
    double fine[256], risk[256], used;
    for (int i = 0; i < 256; i++) {
        fine[i] = i + 1;
        risk[i] = 1.0 / (i + 1);
    }
    for (int u = 0; u < HEADS; u++) {
        curves[u] = (es_curve){256, fine, risk, 1.0};
        layer[u] = u / 2; /* 4 layers of 2 */
    }
    assert_ok(
        es_allocate_pyramid(curves, HEADS, 64 * HEADS, layer, 4, 0.25, chosen, &used, NULL, &err));
    assert_near(used, 64 * HEADS, 0.0);
    const double expected[] = {112, 80, 48, 16}; /* 1.75 ... 0.25 of 64 */
    for (int u = 0; u < HEADS; u++)
        assert_near(fine[chosen[u]], expected[u / 2], 1.0); /* parts are rounded to options */
    assert_int_equal(
        es_allocate_pyramid(curves, HEADS, 64 * HEADS, layer, 3, 0.25, chosen, NULL, NULL, &err),
        ES_E_RANGE);
    assert_string_equal(err.rule, "allocate.layer");
    assert_int_equal(
        es_allocate_pyramid(curves, HEADS, 64 * HEADS, layer, 4, 0.0, chosen, NULL, NULL, &err),
        ES_E_RANGE);
}

/* In proportion, within what a unit can have; who can have no more leaves it to the others. */
static void mass_goes_by_need(void **state)
{
    (void)state;
    double fine[100], risk[100], used;
    es_curve curves[3];
    int64_t chosen[3];
    for (int i = 0; i < 100; i++) {
        fine[i] = i + 1;
        risk[i] = 100 - i;
    }
    for (int u = 0; u < 3; u++)
        curves[u] = (es_curve){100, fine, risk, 1.0};
    const double needs[] = {1, 2, 3}, greedy[] = {1, 1, 1000}, none[] = {0, 0, 0},
                 bad[] = {1, -1, 1}, one[] = {0, 5, 0};
    assert_ok(es_allocate_mass(curves, 3, 60, needs, chosen, &used, NULL, &err));
    assert_near(used, 60.0, 0.0);
    for (int u = 0; u < 3; u++)
        assert_near(fine[chosen[u]], 10.0 * (u + 1), 1.0);
    assert_ok(es_allocate_mass(curves, 3, 160, greedy, chosen, &used, NULL, &err));
    assert_int_equal(chosen[2], 99); /* all it can have; the others share the rest */
    assert_near(fine[chosen[0]], 30.0, 1.0);
    assert_near(used, 160.0, 0.0);
    assert_ok(es_allocate_mass(curves, 3, 50, one, chosen, &used, NULL, &err));
    assert_equals(chosen[0], 0);
    assert_equals(chosen[1], 47);
    assert_equals(chosen[2], 0);
    assert_int_equal(es_allocate_mass(curves, 3, 60, none, chosen, NULL, NULL, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "allocate.need");
    assert_int_equal(es_allocate_mass(curves, 3, 60, bad, chosen, NULL, NULL, &err), ES_E_RANGE);
    assert_int_equal(err.row, 1);
}

/* No rival has less risk than the bound, and none spends more than it may. */
static void rivals_stay_above_the_bound(void **state)
{
    (void)state;
    const int64_t layer[UNITS] = {0, 0, 1, 1};
    const double need[UNITS] = {1, 3, 2, 0.5};
    for (uint64_t seed = 1; seed <= 40; seed++) {
        problem p;
        double least, most, bound, used[3], risk[3];
        int64_t chosen[UNITS];
        make(seed, seed % 2, &p);
        limits(&p, &least, &most);
        for (double keys = least; keys <= most + 2.0; keys += 1.0) {
            assert_ok(es_allocate_bound(p.curves, UNITS, keys, &bound, &err));
            assert_ok(allocate_evenly(p.curves, UNITS, keys, chosen, used, risk, &err));
            assert_ok(es_allocate_pyramid(p.curves, UNITS, keys, layer, 2, 0.5, chosen, used + 1,
                                          risk + 1, &err));
            assert_ok(
                es_allocate_mass(p.curves, UNITS, keys, need, chosen, used + 2, risk + 2, &err));
            for (int i = 0; i < 3; i++) {
                assert_at_most(used[i], keys);
                assert_at_least(risk[i], bound - 1e-12);
            }
        }
    }
}

/* ---- refusals ---- */

static void curves_that_are_none_are_refused(void **state)
{
    (void)state;
    const double keys[] = {1, 2, 2}, backward[] = {3, 2, 1}, good[] = {1, 2, 3};
    const double risk[] = {3, 2, 1}, negative[] = {3, -1, 1}, none[] = {3, NAN, 1};
    const es_curve bad[] = {{0, good, risk, 1.0},     {3, keys, risk, 1.0},
                            {3, backward, risk, 1.0}, {3, good, negative, 1.0},
                            {3, good, none, 1.0},     {3, good, risk, -1.0},
                            {3, good, risk, NAN},     {3, NULL, risk, 1.0}};
    int64_t chosen[2];
    double x;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const es_curve curves[] = {{3, good, risk, 1.0}, bad[i]};
        assert_int_equal(es_allocate_keys(curves, 2, 9, chosen, NULL, NULL, &err), ES_E_RANGE);
        assert_string_equal(err.rule, "allocate.curve");
        assert_int_equal(err.row, 1);
        assert_int_equal(es_allocate_risk(curves, 2, 9, chosen, NULL, NULL, &err), ES_E_RANGE);
        assert_int_equal(es_allocate_bound(curves, 2, 9, &x, &err), ES_E_RANGE);
        assert_int_equal(allocate_evenly(curves, 2, 9, chosen, NULL, NULL, &err), ES_E_RANGE);
    }
    const es_curve fine = {3, good, risk, 1.0};
    assert_int_equal(es_allocate_keys(&fine, 1, 0.5, chosen, NULL, NULL, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "allocate.keys");
    assert_int_equal(es_allocate_keys(&fine, 1, NAN, chosen, NULL, NULL, &err), ES_E_RANGE);
    assert_int_equal(allocate_evenly(&fine, 1, 0.5, chosen, NULL, NULL, &err), ES_E_RANGE);
    assert_int_equal(es_allocate_keys(NULL, 1, 3, chosen, NULL, NULL, &err), ES_E_ARGUMENT);
    assert_int_equal(es_allocate_keys(&fine, 1, 3, NULL, NULL, NULL, &err), ES_E_ARGUMENT);
}

TEST_FILE(allocate)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_is_within_a_step_of_every_choice),
        cmocka_unit_test(corners_are_exact),
        cmocka_unit_test(steps_of_a_line_are_taken_in_order),
        cmocka_unit_test(what_lies_above_the_hull_is_passed_over),
        cmocka_unit_test(weights_count),
        cmocka_unit_test(fewest_keys_for_a_risk),
        cmocka_unit_test(uniform_is_the_same_for_all),
        cmocka_unit_test(pyramids_fall_with_depth),
        cmocka_unit_test(mass_goes_by_need),
        cmocka_unit_test(rivals_stay_above_the_bound),
        cmocka_unit_test(curves_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
