/* SPDX-License-Identifier: Apache-2.0 */
/* test_tails_groups.c : however directions are grouped for want of memory, the same bits come out;
 * the bound on memory holds; every phase tells of its progress and hears when it is asked to stop.
 */
#include "testing.h"

#include <esscher/random.h>

#include "experiments/kit/cell_kit.h"
#include "experiments/tails/tails.h"
#include "random/experiment.h"

enum { MOST_TOKENS = 4500, DIM = 24, PRINCIPAL = 10, RANDOM = 10, ROWS = PRINCIPAL + RANDOM + 1 };
static double tokens[MOST_TOKENS * DIM];

static es_tails_spec spec_of(const es_view *view, const es_exec *exec)
{
    return (es_tails_spec){.tokens = view,
                           .principal = PRINCIPAL,
                           .random = RANDOM,
                           .draws = 3,
                           .seed = 2,
                           .exec = exec};
}

static int draw_tokens(void **state)
{
    const es_address at = {.seed = 8, .experiment = ES_EXPERIMENT_FREE};
    (void)state;
    assert_ok(es_normal_rows(&at, MOST_TOKENS, DIM, tokens, &err));
    for (int i = 0; i < MOST_TOKENS * DIM; i++)
        tokens[i] *= 1.0 + i % DIM;
    return 0;
}

/* 21 directions are three panels of 8, measured in one walk, in two and in three. */
static void any_grouping_has_the_same_bits_within_its_bound(void **state)
{
    const es_view view = es_view_f64(tokens, MOST_TOKENS, DIM);
    const double panel = 8.0 * ES_TAILS_PANEL * MOST_TOKENS;
    es_tails_row whole[ROWS], parts[ROWS];
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        es_mem_limit budget = {0};
        const es_exec exec = {.threads = threads, .budget = &budget};
        const es_tails_spec spec = spec_of(&view, &exec);
        const es_tails_cost all = es_tails_cost_of(&spec, MOST_TOKENS, DIM, 0);
        assert_int_equal(all.rows, ROWS);
        if (threads == 1)
            assert_ok(es_tails_measure(&spec, 0, whole, &err));
        for (int fewer = 0; fewer < 3; fewer++) {
            budget = (es_mem_limit){.limit = (size_t)(all.bytes - fewer * panel)};
            const es_tails_cost cost = es_tails_cost_of(&spec, MOST_TOKENS, DIM, 0);
            assert_near(cost.bytes, all.bytes - fewer * panel, 1.0);
            memset(parts, 0, sizeof parts);
            assert_ok(es_tails_measure(&spec, 0, parts, &err));
            assert_memory_equal(parts, whole, sizeof whole);
            assert_int_equal(budget.used, 0);
            /* the projections, and what the bound allows beside them */
            assert_in_range(budget.peak, (uintmax_t)((3 - fewer) * panel), (uintmax_t)cost.bytes);
        }
        /* less than a panel needs: said beforehand, and refused */
        budget = (es_mem_limit){.limit = (size_t)(all.bytes - 4.0 * panel)};
        assert_near(es_tails_cost_of(&spec, MOST_TOKENS, DIM, 0).bytes, all.bytes - 2.0 * panel,
                    1.0);
        budget = (es_mem_limit){.limit = (size_t)panel};
        assert_int_equal(es_tails_measure(&spec, 0, parts, &err), ES_E_LIMIT);
        assert_int_equal(budget.used, 0);
    }
}

/* A million tokens of 77 directions: 616 MB of projections once; now 64 MiB of them or a panel, and
 * 16 bytes for each token and thread. */
static void a_million_tokens_have_a_bound(void **state)
{
    const es_exec exec = {.threads = 2};
    const es_tails_spec spec = {.exec = &exec};
    const es_tails_cost cost = es_tails_cost_of(&spec, 1000000, 384, 12);
    (void)state;
    assert_int_equal(cost.rows, 77);
    assert_in_range((uintmax_t)cost.bytes, 100000000, 170000000);
}

typedef struct listener {
    int calls, stop; /* after so many; 0: never */
    double last;
} listener;

static bool listen(void *user, double done, double total)
{
    listener *l = user;
    assert_equals(total, 1.0);
    assert_at_least(done, l->last - 1e-12);
    assert_at_most(done, 1.0 + 1e-12);
    l->last = done;
    return ++l->calls == l->stop;
}

static void every_phase_tells_and_hears(void **state)
{
    enum { TOKENS = 2100 }; /* two strips */
    const es_view view = es_view_f64(tokens, TOKENS, DIM);
    es_mem_limit budget = {0};
    listener ear = {0};
    const es_exec exec = {
        .threads = 2, .budget = &budget, .progress = listen, .progress_user = &ear};
    const es_tails_spec spec = spec_of(&view, &exec);
    es_tails_row rows[ROWS];
    (void)state;
    const double all = es_tails_cost_of(&spec, TOKENS, DIM, 0).bytes;
    budget.limit = (size_t)(all - 2.0 * 8.0 * ES_TAILS_PANEL * TOKENS);
    assert_ok(es_tails_measure(&spec, 0, rows, &err));
    assert_near(ear.last, 1.0, 1e-9);
    /* strips of the covariance, draws of two controls, strips of three groups, directions */
    const int calls = ear.calls;
    assert_int_equal(calls, 2 + 3 + 3 + 3 * 2 + ROWS);
    /* the last two directions run side by side: when one is done, so is, maybe, the other */
    for (int stop = 1; stop < calls - 1; stop += 2) {
        ear = (listener){.stop = stop};
        assert_int_equal(es_tails_measure(&spec, 0, rows, &err), ES_E_INTERRUPTED);
        assert_int_equal(ear.calls, stop);
        assert_int_equal(budget.used, 0);
    }
}

TEST_FILE(tails_groups)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_grouping_has_the_same_bits_within_its_bound),
        cmocka_unit_test(a_million_tokens_have_a_bound),
        cmocka_unit_test(every_phase_tells_and_hears),
    };
    return cmocka_run_group_tests(tests, draw_tokens, NULL);
}
