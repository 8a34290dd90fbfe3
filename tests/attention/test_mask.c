/* SPDX-License-Identifier: Apache-2.0 */
/* test_mask.c : attention under masks against the reference, and masks that make no sense. What a
 * mask lets a query see is said here a third time, from the words of attend.h, to count pairs and
 * to find queries that see nothing. */
#include "testing.h"

#include <esscher/attend.h>

#include "attend_problem.h"
#include "attention/attend.h"
#include "base/view.h"

/* ---- a problem with a mask ---- */

static bool in_list(const es_mask *mask, int64_t i, int64_t j)
{
    if (!mask->list_queries)
        return false;
    const int64_t list = i / mask->list_queries;
    for (int64_t at = mask->list_offsets[list]; at < mask->list_offsets[list + 1]; at++)
        if (mask->list_keys[at] == j)
            return true;
    return false;
}

static bool sees(const problem *p, int64_t i, int64_t j)
{
    const es_mask *m = &p->mask;
    const int64_t place = m->positions ? m->positions[i] : i;
    if ((m->causal && j > place) || (p->exclude_self && j == place))
        return false;
    if (!m->window && !m->sinks && !m->local && !m->list_queries)
        return true;
    if (m->window && m->causal && j > place - m->window)
        return true;
    if (m->window && !m->causal && j >= place - m->window && j <= place + m->window)
        return true;
    return j < m->sinks || (m->local && j / m->local == place / m->local) || in_list(m, i, j);
}

/* The first query that sees none of the keys of a prefix at which it exists; -1: none. */
static int64_t blind_query(const problem *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t prefix = 0; prefix < p->n_prefixes; prefix++) {
            int64_t j = 0;
            while (j < p->prefixes[prefix] && !sees(p, i, j))
                j++;
            if (j == p->prefixes[prefix] && (!p->self || i < p->prefixes[prefix]))
                return i;
        }
    return -1;
}

/* Each key in each list with probability `share`; lists may come out empty. */
static void draw_lists(problem *p, int64_t list_queries, double share, bool factors)
{
    const int64_t lists = (p->m + list_queries - 1) / list_queries;
    p->offsets = calloc((size_t)lists + 1, sizeof *p->offsets);
    p->keys = calloc((size_t)(lists * p->n), sizeof *p->keys);
    p->list_factors = calloc((size_t)lists, sizeof *p->list_factors);
    int64_t count = 0;
    for (int64_t l = 0; l < lists; l++) {
        for (int64_t j = 0; j < p->n; j++)
            if (uniform() < share)
                p->keys[count++] = j;
        p->offsets[l + 1] = count;
        p->list_factors[l] = 3.0 * normal();
    }
    p->mask.list_queries = list_queries;
    p->mask.list_offsets = p->offsets;
    p->mask.list_keys = p->keys;
    p->mask.list_factors = factors ? p->list_factors : NULL;
}

static void draw_classes(problem *p)
{
    p->classes = calloc((size_t)p->n, sizeof *p->classes);
    p->class_factors = calloc(4, sizeof *p->class_factors);
    for (int64_t j = 0; j < p->n; j++)
        p->classes[j] = (uint8_t)between(0, 3);
    for (int c = 1; c < 4; c++)
        p->class_factors[c] = 2.0 * normal();
    p->mask.n_classes = 4;
    p->mask.classes = p->classes;
    p->mask.class_factors = p->class_factors;
}

static void draw_mask(problem *p)
{
    static const int64_t list_queries[] = {1, 5, 48, 64, 100, 1000};
    if (!p->self && uniform() < 0.8) { /* any order, and the same place many times */
        const int64_t places = uniform() < 0.3 ? 2 : p->n;
        p->positions = calloc((size_t)p->m, sizeof *p->positions);
        for (int64_t i = 0; i < p->m; i++)
            p->positions[i] = p->n - between(1, places < p->n ? places : p->n);
        p->mask.positions = p->positions;
    }
    const bool stands = p->positions || p->m <= p->n;
    p->mask.causal = uniform() < 0.5 && (p->positions || p->m == p->n);
    p->mask.window = uniform() < 0.4 && stands ? between(1, 1 + p->n * 5 / 4) : 0;
    p->mask.window = p->mask.window && uniform() < 0.5 ? 1 + p->mask.window / 20 : p->mask.window;
    p->mask.sinks = uniform() < 0.4 ? between(1, uniform() < 0.5 ? 4 : p->n + 5) : 0;
    p->mask.local = uniform() < 0.3 && stands ? between(1, 2 + p->n / 4) : 0;
    if (uniform() < 0.4)
        draw_lists(p, list_queries[between(0, 5)], uniform() < 0.5 ? 0.02 : 0.5, uniform() < 0.5);
    if (uniform() < 0.3)
        draw_classes(p);
}

/* Scores of a problem go up to about 10^(most - 2). */
static problem problem_random(int64_t most_keys, double most)
{
    problem p = {.d = between(1, 40),
                 .dv = between(1, 40),
                 .n = between(1, most_keys),
                 .n_scales = between(1, 3),
                 .top_k = {between(1, 5), between(1, 40)},
                 .masked = true};
    p.self = uniform() < 0.4;
    p.m = p.self ? p.n : between(1, most_keys);
    p.exclude_self = uniform() < 0.2;
    for (int64_t next = 1 + p.n / 3; p.n_prefixes < 3 && next < p.n && uniform() < 0.7;
         next += between(1, 1 + p.n / 2))
        p.prefixes[p.n_prefixes++] = next;
    p.prefixes[p.n_prefixes++] = p.n;
    draw_scales(&p, most);
    p.block = uniform() < 0.5 ? 0 : (int64_t)1 << between(0, 10);
    draw_mask(&p);
    draw_data(&p);
    return p;
}

/* ---- engine and reference ---- */

/* Operations of the plan are those of the pairs that are seen; exclude_self is not worth counting.
 */
static void check_plan(const problem *p)
{
    problem all = *p;
    all.exclude_self = false;
    double pairs = 0.0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            pairs += sees(&all, i, j);
    es_attend_plan plan;
    const es_attend_opts opts = options(p, ES_F32, NULL);
    assert_ok(es_attend_plan_for(p->m, p->n, p->d, p->dv, &opts, true, &plan, &err));
    const bool factors = p->mask.n_classes || p->mask.list_factors;
    const double scales = (double)p->n_scales, d = (double)p->d, dv = (double)p->dv;
    assert_equals(plan.flops, 2.0 * pairs * (factors ? scales * (d + dv) : d + scales * dv));
}

static void random_masks_agree_with_the_reference(void **state)
{
    (void)state;
    const uint64_t seed = seed_of_test(20261117);
    int blind = 0, seen = 0;
    for (int trial = 0; trial < trials_of(240); trial++) {
        state_of_rng = seed * 1000003 + (uint64_t)trial;
        problem p = problem_random(trial % 4 == 0 ? 600 : 120, trial % 3 ? 2.2 : 5.0);
        const int64_t first_blind = blind_query(&p);
        if (first_blind >= 0) { /* NU04 */
            const es_attend_opts opts = options(&p, ES_F32, NULL);
            result r = result_for(&p);
            assert_int_equal(es_attend(&p.vq, &p.vk, &p.vv, &opts, &r.out, &err), ES_E_EMPTY);
            assert_int_equal(err.row, first_blind);
            result_free(&r);
            blind++;
        } else {
            check_problem(&p);
            check_plan(&p);
            seen++;
        }
        problem_free(&p);
    }
    print_message("%d problems, and %d with a query that sees nothing\n", seen, blind);
    assert_above(seen, trials_of(120));
    assert_above(blind, trials_of(20));
}

/* ---- many blocks of queries, many tiles of keys ---- */

static problem problem_large(int64_t m, int64_t n, uint64_t seed)
{
    state_of_rng = seed;
    problem p = {.m = m,
                 .n = n,
                 .d = 9,
                 .dv = 5,
                 .n_scales = 1,
                 .scales = {0.5},
                 .n_prefixes = 1,
                 .prefixes = {n},
                 .top_k = {1, 10},
                 .masked = true};
    draw_data(&p);
    return p;
}

static void a_long_causal_text(void **state)
{
    (void)state;
    problem p = problem_large(3000, 3000, 1);
    p.mask.causal = true;
    check_problem(&p);
    check_plan(&p);
    p.mask.window = 700;
    p.mask.sinks = 3;
    p.block = 256; /* blocks of keys whose last keys a panel does not see */
    check_problem(&p);
    draw_lists(&p, 64, 0.01, true);
    check_problem(&p); /* listed keys in the order of the keys... */
    p.block = 0;
    check_problem(&p); /* ... and gathered */
    check_plan(&p);
    problem_free(&p);
}

static void few_queries_at_the_end_of_many_keys(void **state)
{
    (void)state;
    problem p = problem_large(7, 30000, 2);
    p.positions = calloc(7, sizeof *p.positions);
    for (int64_t i = 0; i < p.m; i++)
        p.positions[i] = p.n - 1 - (i % 3) * 7000;
    p.mask = (es_mask){.positions = p.positions, .causal = true};
    es_attend_plan plan;
    const es_attend_opts opts = options(&p, ES_F32, NULL);
    assert_ok(es_attend_plan_for(p.m, p.n, p.d, p.dv, &opts, true, &plan, &err));
    assert_above(plan.segments, 4); /* some of which the first query alone sees */
    check_problem(&p);
    p.mask.window = 100;
    check_problem(&p);
    problem_free(&p);
}

static void threads_do_not_change_a_bit_under_masks(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n;
        es_mask mask;
        bool lists;
        int64_t block;
    } cases[] = {{4000, 4000, {.causal = true}, false, 64},
                 {4000, 4000, {.window = 300, .sinks = 4}, true, 0},
                 {4000, 4000, {.causal = true, .local = 500}, true, 128},
                 {40, 40000, {.causal = true}, false, 128}};
    static const int counts[] = {2, 3, 7};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        problem p = problem_large(cases[c].m, cases[c].n, 10 + c);
        p.mask = cases[c].mask;
        p.block = cases[c].block;
        if (cases[c].lists)
            draw_lists(&p, 100, 0.01, true);
        p.positions = calloc((size_t)p.m, sizeof *p.positions);
        for (int64_t i = 0; i < p.m; i++)
            p.positions[i] = p.m < p.n ? between(0, p.n - 1) : i;
        p.mask.positions = p.positions;
        es_exec exec = {.threads = 1};
        const es_attend_opts opts = options(&p, ES_F32, &exec);
        result one = result_for(&p);
        assert_ok(es_attend(&p.vq, &p.vk, &p.vv, &opts, &one.out, &err));
        for (size_t t = 0; t < sizeof counts / sizeof *counts; t++) {
            exec.threads = counts[t];
            result many = result_for(&p);
            assert_ok(es_attend(&p.vq, &p.vk, &p.vv, &opts, &many.out, &err));
            assert_identical(&one, &many);
            result_free(&many);
        }
        result_free(&one);
        problem_free(&p);
    }
}

/* ---- by hand ---- */

/* Keys of value 2^j and equal scores: the output is the mean of what is seen, and says what that
 * is. */
enum { HAND = 8 };

static es_status attend_hand(int64_t m, const es_mask *mask, const es_attend_opts *more,
                             es_dtype precision, double *y)
{
    static const double zero[HAND] = {0};
    static const double powers[HAND] = {1, 2, 4, 8, 16, 32, 64, 128};
    const es_view q = es_view_f64(zero, m, 1), k = es_view_f64(zero, HAND, 1),
                  v = es_view_f64(powers, HAND, 1);
    es_attend_opts opts = more ? *more : (es_attend_opts){0};
    opts.mask = mask;
    opts.precision = precision;
    return es_attend(&q, &k, &v, &opts, &(es_attend_out){.output = y}, &err);
}

static double mean_of(unsigned keys)
{
    int count = 0;
    for (unsigned rest = keys; rest; rest >>= 1)
        count += (int)(rest & 1);
    return (double)keys / count;
}

static void masks_by_hand(void **state)
{
    (void)state;
    const int64_t last[2] = {5, 5}, offsets[] = {0, 2, 2, 3}, listed[] = {0, 6, 1};
    const struct {
        es_mask mask;
        int64_t m, query;
        unsigned seen; /* bit j: key j */
    } cases[] = {
        {{.causal = true}, 8, 0, 0x01},
        {{.causal = true}, 8, 5, 0x3f},
        {{.causal = true, .window = 1}, 8, 5, 0x20},
        {{.causal = true, .window = 3}, 8, 5, 0x38},
        {{.causal = true, .window = 3}, 8, 1, 0x03},
        {{.window = 1}, 8, 5, 0x70},
        {{.window = 1}, 8, 0, 0x03},
        {{.window = 100}, 8, 3, 0xff},
        {{.window = 1}, 3, 2, 0x0e}, /* fewer queries stand at the first keys */
        {{.sinks = 2}, 8, 7, 0x03},
        {{.sinks = 100}, 8, 7, 0xff},
        {{.causal = true, .sinks = 100}, 8, 2, 0x07},
        {{.causal = true, .sinks = 2, .window = 2}, 8, 6, 0x63},
        {{.causal = true, .sinks = 2, .window = 2}, 8, 2, 0x07},
        {{.local = 3}, 8, 4, 0x38},
        {{.local = 3}, 8, 7, 0xc0},
        {{.local = 3, .causal = true}, 8, 4, 0x18},
        {{.local = 3, .window = 1}, 8, 5, 0x78},
        {{.positions = last, .causal = true}, 2, 1, 0x3f},
        {{.positions = last, .window = 1}, 2, 0, 0x70},
        {{.window = 1, .list_queries = 3, .list_offsets = offsets, .list_keys = listed},
         8,
         2,
         0x4f},
        {{.window = 1, .list_queries = 3, .list_offsets = offsets, .list_keys = listed},
         8,
         3,
         0x1c}, /* an empty list */
        {{.window = 1, .list_queries = 3, .list_offsets = offsets, .list_keys = listed},
         8,
         7,
         0xc2},
        {{.causal = true,
          .window = 1,
          .list_queries = 3,
          .list_offsets = offsets,
          .list_keys = listed},
         8,
         2,
         0x05},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
            double y[HAND];
            assert_ok(attend_hand(cases[i].m, &cases[i].mask, NULL, precision, y));
            assert_near(y[cases[i].query], mean_of(cases[i].seen), 1e-5);
        }
}

/* Key 6 stands for four by its list; where a window sees it, too, it counts once and as it is.
 * Class 1 counts threefold. */
static void factors_by_hand(void **state)
{
    (void)state;
    const int64_t offsets[] = {0, 1}, listed[] = {6};
    const double list_factors[] = {log(4.0)}, class_factors[] = {0.0, log(3.0)};
    const uint8_t classes[HAND] = {1, 0, 0, 0, 0, 0, 0, 0};
    const double scales[] = {0.0, 1.0};
    const es_attend_opts more = {.scales = scales, .n_scales = 2};
    const es_mask mask = {.window = 1,
                          .list_queries = 8,
                          .list_offsets = offsets,
                          .list_keys = listed,
                          .list_factors = list_factors,
                          .n_classes = 2,
                          .classes = classes,
                          .class_factors = class_factors};
    for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
        double y[2 * HAND];
        assert_ok(attend_hand(HAND, &mask, &more, precision, y));
        for (int s = 0; s < 2; s++) { /* all scores are 0 at either scale */
            assert_near(y[HAND * s + 0], (3.0 * 1 + 2 + 4.0 * 64) / 8.0, 1e-4);
            assert_near(y[HAND * s + 3], (4 + 8 + 16 + 4.0 * 64) / 7.0, 1e-4);
            assert_near(y[HAND * s + 7], (64 + 128) / 2.0, 1e-4);
        }
    }
}

/* Of equal scores the first key's counts, though keys of lists are met after others. */
static void the_first_of_equal_scores(void **state)
{
    (void)state;
    static const double zero[HAND] = {0};
    const int64_t offsets[] = {0, 3}, listed[] = {1, 4, 6};
    const int64_t first[HAND] = {0, 0, 1, 1, 1, 1, 1, 1}; /* a window of one, and the list */
    const es_view x = es_view_f64(zero, HAND, 1);
    const es_mask mask = {
        .window = 1, .list_queries = HAND, .list_offsets = offsets, .list_keys = listed};
    for (int64_t block = 0; block <= 2; block += 2) {
        int64_t top[HAND];
        const es_attend_opts opts = {.mask = &mask, .block = block};
        assert_ok(es_attend(&x, &x, &x, &opts, &(es_attend_out){.top_index = top}, &err));
        assert_memory_equal(top, first, sizeof top);
    }
}

static void NU04_a_query_that_sees_nothing_is_named(void **state)
{
    (void)state;
    const int64_t prefixes[] = {2, 8}, offsets[] = {0, 1, 1}, listed[] = {7};
    double y[2 * HAND];
    const es_attend_opts early = {.prefixes = prefixes, .n_prefixes = 2};
    const es_mask near = {.causal = true, .window = 2};
    assert_int_equal(attend_hand(8, &near, &early, ES_F32, y), ES_E_EMPTY);
    assert_string_equal(err.rule, "mask.empty");
    assert_int_equal(err.row, 3); /* sees keys 2 and 3 */
    const es_attend_opts self = {.prefixes = prefixes, .n_prefixes = 2, .self = true};
    assert_ok(attend_hand(8, &near, &self, ES_F32, y)); /* it does not exist at the first prefix */
    const es_mask lists = {.list_queries = 4, .list_offsets = offsets, .list_keys = listed};
    assert_int_equal(attend_hand(8, &lists, NULL, ES_F32, y), ES_E_EMPTY);
    assert_int_equal(err.row, 4);
    const es_mask future = {
        .causal = true, .list_queries = 4, .list_offsets = offsets, .list_keys = listed};
    assert_int_equal(attend_hand(8, &future, NULL, ES_F32, y), ES_E_EMPTY);
    assert_int_equal(err.row, 0);
    const es_attend_opts without = {.exclude_self = true};
    const es_mask causal = {.causal = true}, alone = {.local = 1};
    assert_int_equal(attend_hand(8, &causal, &without, ES_F32, y), ES_E_EMPTY);
    assert_int_equal(err.row, 0);
    assert_int_equal(attend_hand(8, &alone, &without, ES_F32, y), ES_E_EMPTY);
    const int64_t second[] = {3};
    const es_mask placed = {.positions = second, .causal = true};
    assert_ok(attend_hand(1, &placed, &without, ES_F32, y)); /* its own key is number 3, not 0 */
    assert_near(y[0], mean_of(0x07), 1e-5);
}

static void one_key(void **state)
{
    (void)state;
    const double one = 1.0, x = 3.5;
    const es_view q = es_view_f64(&one, 1, 1), v = es_view_f64(&x, 1, 1);
    const int64_t place = 0;
    const es_mask masks[] = {{.causal = true},
                             {.window = 1},
                             {.sinks = 1},
                             {.local = 1},
                             {.positions = &place, .causal = true, .window = INT64_C(1) << 40}};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        double y, h, top;
        const es_attend_opts opts = {.mask = &masks[i]};
        const es_attend_out out = {.output = &y, .entropy = &h, .top_weight = &top};
        assert_ok(es_attend(&q, &q, &v, &opts, &out, &err));
        assert_close(y, 3.5, 0x1p-23); /* the weight may be 2^x with x no integer */
        assert_at_least(h, 0.0);
        assert_below(h, 1e-6);
        assert_equals(top, 1.0);
    }
}

/* ---- masks that make no sense ---- */

static void assert_refused(int64_t m, es_mask mask, es_status status, const char *rule)
{
    double y[HAND];
    assert_int_equal(attend_hand(m, &mask, NULL, ES_F32, y), status);
    assert_string_equal(err.rule, rule);
}

static void masks_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const int64_t behind[] = {0, 8}, before[] = {-1, 0}, one[] = {0, 1}, two[] = {0, 2};
    const int64_t back[] = {0, -1}, late[] = {1, 1}, keys[] = {3, 3}, high[] = {8};
    const double nan[] = {NAN}, huge[] = {1e7}, zero[] = {0.0};
    const uint8_t classes[HAND] = {0, 0, 1};
    assert_refused(8, (es_mask){.window = -1}, ES_E_ARGUMENT, "mask.size");
    assert_refused(8, (es_mask){.sinks = INT64_MAX}, ES_E_ARGUMENT, "mask.size");
    assert_refused(8, (es_mask){.local = -5}, ES_E_ARGUMENT, "mask.size");
    assert_refused(2, (es_mask){.positions = behind}, ES_E_RANGE, "mask.position");
    assert_int_equal(err.row, 1);
    assert_refused(2, (es_mask){.positions = before}, ES_E_RANGE, "mask.position");
    assert_refused(2, (es_mask){.causal = true}, ES_E_ARGUMENT, "mask.positions");
    assert_non_null(strstr(err.hint, "first")); /* both conventions are named */
    assert_non_null(strstr(err.hint, "last"));
    assert_refused(8, (es_mask){.list_queries = 8}, ES_E_ARGUMENT, "mask.list_offsets");
    assert_refused(8, (es_mask){.list_queries = 8, .list_offsets = one}, ES_E_ARGUMENT,
                   "mask.list");
    es_mask lists = {.list_queries = 8, .list_offsets = back, .list_keys = keys};
    assert_refused(8, lists, ES_E_ARGUMENT, "mask.list_offsets");
    lists.list_offsets = late;
    assert_refused(8, lists, ES_E_ARGUMENT, "mask.list_offsets");
    lists.list_offsets = two; /* the same key twice */
    assert_refused(8, lists, ES_E_ARGUMENT, "mask.list");
    lists.list_offsets = one;
    lists.list_factors = nan;
    assert_refused(8, lists, ES_E_ARGUMENT, "mask.factor");
    lists.list_factors = huge;
    assert_refused(8, lists, ES_E_RANGE, "mask.factor");
    lists.list_keys = high;
    assert_refused(8, lists, ES_E_ARGUMENT, "mask.list");
    es_mask factors = {.n_classes = 1, .classes = classes, .class_factors = zero};
    assert_refused(8, factors, ES_E_RANGE, "mask.class");
    assert_int_equal(err.row, 2);
    factors.class_factors = nan;
    assert_refused(8, factors, ES_E_ARGUMENT, "mask.factor");
    factors.classes = NULL;
    assert_refused(8, factors, ES_E_ARGUMENT, "mask.classes");
    factors.n_classes = 257;
    assert_refused(8, factors, ES_E_ARGUMENT, "mask.classes");
    const es_view many = es_view_f64(zero, 3, 1);
    es_view few = es_view_f64(zero, 2, 1);
    const es_mask window = {.window = 1};
    const es_attend_opts opts = {.mask = &window};
    double y[3];
    assert_int_equal(es_attend(&many, &few, &few, &opts, &(es_attend_out){.output = y}, &err),
                     ES_E_ARGUMENT);
    assert_string_equal(err.rule, "mask.positions");
}

/* ---- memory and partial states ---- */

static void memory_stays_within_the_plan_under_masks(void **state)
{
    (void)state;
    for (int64_t block = 0; block <= 64; block += 64) {
        problem p = problem_large(700, 900, 5);
        p.mask = (es_mask){.window = 50};
        p.block = block;
        draw_lists(&p, 64, 0.05, true);
        es_mem_limit budget = {0};
        const es_exec exec = {.threads = 2, .budget = &budget};
        const es_attend_opts opts = options(&p, ES_F32, &exec);
        es_attend_plan plan;
        assert_ok(es_attend_plan_for(p.m, p.n, p.d, p.dv, &opts, true, &plan, &err));
        result r = result_for(&p);
        assert_ok(es_attend(&p.vq, &p.vk, &p.vv, &opts, &r.out, &err));
        assert_at_most(budget.peak, plan.bytes);
        result_free(&r);
        assert_int_equal(budget.used, 0);
        problem_free(&p);
    }
}

static void masked_partial_states_merge_to_the_whole(void **state)
{
    (void)state;
    static const int64_t cuts[] = {0, 1, 250, 251, 900};
    problem p = problem_large(70, 900, 99);
    p.positions = calloc((size_t)p.m, sizeof *p.positions);
    for (int64_t i = 0; i < p.m; i++)
        p.positions[i] = between(0, p.n - 1);
    p.mask =
        (es_mask){.positions = p.positions, .causal = true, .window = 100, .sinks = 2, .local = 40};
    es_attend_opts opts = options(&p, ES_F64, NULL);
    result whole = result_for(&p), merged = result_for(&p);
    assert_ok(es_attend_reference(&p.vq, &p.vk, &p.vv, &opts, &whole.out, &err));
    opts.prefixes = NULL;
    es_partial *all, *part;
    assert_ok(es_partial_new(p.m, p.dv, &opts, &all, &err));
    for (int i = 0; i < 4; i++) {
        const es_view k = es_view_rows(&p.vk, cuts[i], cuts[i + 1] - cuts[i]);
        const es_view v = es_view_rows(&p.vv, cuts[i], cuts[i + 1] - cuts[i]);
        if (i == 3) { /* key 0 is a sink: until here some have seen no other */
            assert_ok(es_partial_finish(all, &merged.out, &err));
            for (int64_t s = 0; s < merged.sets; s++)
                es_moments_free(&merged.out.moments[s]);
        }
        assert_ok(es_partial_new(p.m, p.dv, &opts, &part, &err));
        assert_ok(es_partial_attend(part, &p.vq, &k, &v, cuts[i], &err));
        if (i == 3)
            assert_int_equal(es_partial_finish(part, &merged.out, &err), ES_E_EMPTY);
        assert_ok(es_partial_merge(all, part, &err));
        es_partial_free(part);
    }
    assert_ok(es_partial_finish(all, &merged.out, &err));
    const bounds bound = bounds_for(ES_F64, largest_score(&p), p.n);
    assert_agree(&merged, &whole, &bound);
    assert_same_tops(&p, &merged, &whole);

    p.mask.window = 99;
    assert_ok(es_partial_new(p.m, p.dv, &opts, &part, &err));
    assert_int_equal(es_partial_merge(all, part, &err), ES_E_SHAPE);
    es_partial_free(part);
    es_partial_free(all);
    p.mask.positions = NULL;
    assert_int_equal(es_partial_new(p.m, p.dv, &opts, &part, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "mask.positions");
    draw_lists(&p, 8, 0.1, false);
    assert_int_equal(es_partial_new(p.m, p.dv, &opts, &part, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "partial.mask");
    result_free(&whole);
    result_free(&merged);
    problem_free(&p);
}

TEST_FILE(mask)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_by_hand),
        cmocka_unit_test(factors_by_hand),
        cmocka_unit_test(the_first_of_equal_scores),
        cmocka_unit_test(one_key),
        cmocka_unit_test(NU04_a_query_that_sees_nothing_is_named),
        cmocka_unit_test(masks_that_make_no_sense_are_refused),
        cmocka_unit_test(random_masks_agree_with_the_reference),
        cmocka_unit_test(a_long_causal_text),
        cmocka_unit_test(few_queries_at_the_end_of_many_keys),
        cmocka_unit_test(threads_do_not_change_a_bit_under_masks),
        cmocka_unit_test(memory_stays_within_the_plan_under_masks),
        cmocka_unit_test(masked_partial_states_merge_to_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
