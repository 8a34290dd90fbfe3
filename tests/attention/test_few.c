/* SPDX-License-Identifier: Apache-2.0 */
/* test_few.c : few queries over many keys, read as they lie, against the reference: options,
 * strides, threads, CPUs, the switch to panels, states, and data that are none. */
#include "testing.h"

#include <esscher/machine.h>

#include "attend_problem.h"
#include "attention/attend.h"
#include "base/view.h"

enum { MOST = 24, TOP = 2 }; /* queries that are few; sizes k of top_mass */

/* ---- results ---- */

/* The largest masses are of TOP sizes, spreads of keys are the panels'. */
static void result_of(result *r, int64_t sets, int64_t m, int64_t dv)
{
    *r = result_new(sets, 1, m, dv, TOP);
    without_spreads(r);
}

/* Scores up to `largest` nats are wrong by about eps times that, in each precision: weights by the
 * same share, and what is made of weights by a few of them. Where many values cancel, an output is
 * judged beside what a single value would add: its size over the effective number of keys. */
static void assert_few_agree(const result *a, const result *ref, es_dtype precision, double largest,
                             int64_t n)
{
    const double eps = precision == ES_F32 ? 0x1p-24 : 0x1p-53;
    const double score = 4.0 * eps * (1.0 + largest), sums = 0x1p-53 * (double)n;
    const double weight = 24.0 * eps + 4.0 * score + sums;
    const double output = 12.0 * eps + 2.0 * score + sums;
    for (int64_t set = 0; set < a->sets; set++) {
        double difference = 0.0, size = 0.0;
        for (int64_t i = set * a->m; i < (set + 1) * a->m; i++) {
            for (int64_t c = i * a->dv; c < (i + 1) * a->dv; c++) {
                difference += pow(a->out.output[c] - ref->out.output[c], 2.0);
                size += pow(ref->out.output[c], 2.0) + ref->out.sum_squares[i];
            }
            assert_near(a->out.lse[i], ref->out.lse[i], output * (1.0 + fabs(ref->out.lse[i])));
            assert_near(a->out.entropy[i], ref->out.entropy[i],
                        (64.0 * eps + 20.0 * score + sums) * (1.0 + ref->out.entropy[i]));
            assert_close(a->out.top_weight[i], ref->out.top_weight[i], weight);
            assert_close(a->out.sum_squares[i], ref->out.sum_squares[i], 2.0 * weight);
            for (int64_t t = TOP * i; t < TOP * (i + 1); t++)
                assert_close(a->out.top_mass[t], ref->out.top_mass[t], weight);
            /* in f32 two keys may change places; at scale 0 any key will do */
            if (precision == ES_F64 && ref->out.top_weight[i] > 1.001 * exp(-ref->out.entropy[i]))
                assert_int_equal(a->out.top_index[i], ref->out.top_index[i]);
        }
        if (!(sqrt(difference) <= output * sqrt(size)))
            fail_msg("set %d: relative error %.3g > %.3g", (int)set, sqrt(difference / size),
                     output);
        assert_int_equal(a->out.moments[set].count, a->m);
    }
}

/* ---- problems ---- */

/* x (rows, cols) in another layout: 0 as it is, in f64; 1 f32; 2 f32 with gaps between the rows; 3
 * f32, the last row first; 4 f32, by columns; 5 f32 at an odd byte; 6 f64 with gaps. */
static es_view laid_out(const double *x, int64_t rows, int64_t cols, int64_t layout, void **memory)
{
    const int64_t pitch = layout == 2 || layout == 6 ? cols + 3 : cols;
    const int64_t real = layout == 0 || layout == 6 ? 8 : 4;
    char *data = *memory = malloc((size_t)(rows * pitch * real) + 1);
    if (layout == 5)
        data++;
    es_view v = {data, real == 8 ? ES_F64 : ES_F32, rows, cols, pitch * real, real};
    if (layout == 3)
        v.data = data + (rows - 1) * pitch * real, v.row_stride = -v.row_stride;
    if (layout == 4)
        v.row_stride = real, v.col_stride = rows * real;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++)
            es_view_set(&v, i, c, x[i * cols + c]);
    return v;
}

static void problem_new(problem *p, int64_t layout_k, int64_t layout_v)
{
    draw_data(p);
    p->vk = laid_out(p->k, p->n, p->d, layout_k, &p->memory[0]);
    p->vv = laid_out(p->v, p->n, p->dv, layout_v, &p->memory[1]);
}

static problem problem_random(void)
{
    problem p = {.m = between(1, MOST), .d = between(1, 140), .dv = between(1, 140)};
    p.n = uniform() < 0.3   ? between(1, 60)
          : uniform() < 0.3 ? between(4100, 9000)
                            : between(1, 900);
    p.n_scales = between(1, 3);
    draw_scales(&p, 2.5);
    for (int64_t next = between(1, p.n); p.n_prefixes < 3 && next < p.n; next += between(1, p.n))
        p.prefixes[p.n_prefixes++] = next;
    p.prefixes[p.n_prefixes++] = p.n;
    p.top_k[0] = between(1, 5), p.top_k[1] = between(1, 40);
    problem_new(&p, between(0, 6), between(0, 6));
    return p;
}

/* |q||k| at the largest scale: what scores, and with them rounding, may reach. */
static double most_score(const problem *p)
{
    double scale = 0.0, q = 0.0, k = 0.0;
    for (int64_t s = 0; s < p->n_scales; s++)
        scale = fmax(scale, p->scales[s]);
    for (int64_t i = 0; i < p->m; i++) {
        double norm = 0.0;
        for (int64_t c = 0; c < p->d; c++)
            norm += pow(p->q[i * p->d + c], 2.0);
        q = fmax(q, norm);
    }
    for (int64_t j = 0; j < p->n; j++) {
        double norm = 0.0;
        for (int64_t c = 0; c < p->d; c++)
            norm += pow(p->k[j * p->d + c], 2.0);
        k = fmax(k, norm);
    }
    return scale * sqrt(q * k);
}

/* One, two, three and seven threads have the same bits. */
static void attend_with_threads(const problem *p, es_dtype precision, es_isa isa, result *first)
{
    static const int counts[] = {1, 2, 3, 7};
    for (size_t t = 0; t < sizeof counts / sizeof counts[0]; t++) {
        static es_mem_limit budget; /* moments of earlier results belong to it */
        const size_t before = budget.peak = budget.used;
        const es_exec exec = {.threads = counts[t], .isa = isa, .budget = &budget};
        const es_attend_opts opts = options(p, precision, &exec);
        es_attend_plan plan;
        assert_ok(es_attend_plan_for(p->m, p->n, p->d, p->dv, &opts, true, &plan, &err));
        assert_equals(plan.few, (p->m <= MOST));
        result r;
        result_of(&r, p->n_scales * p->n_prefixes, p->m, p->dv);
        assert_ok(es_attend(&p->vq, &p->vk, &p->vv, &opts, &r.out, &err));
        assert_at_most(budget.peak - before, plan.bytes);
        if (t == 0) {
            *first = r;
            continue;
        }
        assert_identical(first, &r);
        result_free(&r);
    }
}

static void check(const problem *p, double largest)
{
    const es_attend_opts exact = options(p, ES_F64, NULL);
    result ref;
    result_of(&ref, p->n_scales * p->n_prefixes, p->m, p->dv);
    assert_ok(es_attend_reference(&p->vq, &p->vk, &p->vv, &exact, &ref.out, &err));
    for (size_t i = 0; i < sizeof every_isa / sizeof every_isa[0]; i++) {
        if (!es_isa_available(every_isa[i]))
            continue;
        for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
            result fast = {0};
            attend_with_threads(p, precision, every_isa[i], &fast);
            assert_few_agree(&fast, &ref, precision, largest, p->n);
            result_free(&fast);
        }
    }
    result_free(&ref);
}

/* ---- tests ---- */

static void few_agree_with_the_reference(void **state)
{
    (void)state;
    const uint64_t seed = seed_of_test(20261117);
    for (int trial = 0; trial < trials_of(24); trial++) {
        state_of_rng = seed * 1000003 + (uint64_t)trial;
        problem p = problem_random();
        check(&p, most_score(&p));
        problem_free(&p);
    }
}

static void any_number_of_queries_around_the_switch(void **state)
{
    (void)state;
    for (int64_t m = 1; m <= 27; m++) {
        state_of_rng = 4242 + (uint64_t)m;
        problem p = {.m = m,
                     .n = 203,
                     .d = 21,
                     .dv = 19,
                     .n_scales = 1,
                     .n_prefixes = 1,
                     .scales = {0.2},
                     .prefixes = {203},
                     .top_k = {1, 7}};
        problem_new(&p, 1, 1);
        check(&p, most_score(&p));
        problem_free(&p);
    }
}

static void shapes_at_the_edge(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, d, dv;
    } shapes[] = {{1, 1, 1, 1},      {3, 1, 5, 70},    {2, 193, 1, 64}, {1, 300, 4096, 1},
                  {2, 70, 16, 4096}, {24, 47, 64, 64}, {5, 4, 64, 65}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        state_of_rng = 99 + i;
        problem p = {.m = shapes[i].m,
                     .n = shapes[i].n,
                     .d = shapes[i].d,
                     .dv = shapes[i].dv,
                     .n_scales = 2,
                     .n_prefixes = 1,
                     .prefixes = {shapes[i].n},
                     .top_k = {1, 3}};
        p.scales[0] = 1.0 / sqrt((double)p.d), p.scales[1] = 0.25 / sqrt((double)p.d);
        problem_new(&p, 1, 1);
        check(&p, most_score(&p));
        problem_free(&p);
    }
}

/* Scores from -1e4 to 1e4 nats that rise, fall, or jump: offsets follow, nothing overflows. */
static void scores_of_ten_thousand(void **state)
{
    (void)state;
    for (int order = 0; order < 3; order++) {
        state_of_rng = 7 + (uint64_t)order;
        problem p = {.m = 5,
                     .n = 1000,
                     .d = 3,
                     .dv = 4,
                     .n_scales = 2,
                     .n_prefixes = 2,
                     .scales = {1.0, 1e-3},
                     .prefixes = {333, 1000},
                     .top_k = {1, 10}};
        problem_new(&p, 0, 0);
        for (int64_t i = 0; i < p.m; i++)
            for (int64_t c = 0; c < p.d; c++)
                p.q[i * p.d + c] = c == 0 ? 100.0 - (double)i : 0.0;
        for (int64_t j = 0; j < p.n; j++) {
            const double up = (double)(j * 200) / (double)p.n - 100.0;
            es_view_set(&p.vk, j, 0, order == 0 ? up : order == 1 ? -up : j % 2 ? up : -up);
        }
        check(&p, 1e4);
        problem_free(&p);
    }
}

/* What few.c does not do, blocks of queries do. */
static void other_options_take_the_panels(void **state)
{
    (void)state;
    const es_attend_opts others[] = {
        {.self = true}, {.exclude_self = true}, {.spread = true}, {.block = 64}};
    es_attend_plan plan;
    assert_ok(es_attend_plan_for(8, 8, 4, 4, NULL, false, &plan, &err));
    assert_true(plan.few);
    assert_equals(plan.segments, 1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_ok(es_attend_plan_for(8, 8, 4, 4, &others[i], false, &plan, &err));
        assert_false(plan.few);
    }
    assert_ok(es_attend_plan_for(1, 262144, 64, 64, NULL, false, &plan, &err));
    assert_true(plan.few);
    assert_at_least(plan.segments, 8); /* so that 8 threads have work */
    assert_below(plan.bytes, 1000000); /* no copy of keys or values, 128 MB of them */
}

static void states_are_kept_and_merged(void **state)
{
    (void)state;
    state_of_rng = 31;
    problem p = {.m = 7,
                 .n = 9000,
                 .d = 33,
                 .dv = 18,
                 .n_scales = 2,
                 .n_prefixes = 1,
                 .scales = {0.1, 0.3},
                 .prefixes = {9000},
                 .top_k = {2, 20}};
    problem_new(&p, 1, 2);
    const es_exec exec = {.threads = 2};
    es_attend_opts opts = options(&p, ES_F32, &exec);
    result whole, merged;
    result_of(&whole, 2, p.m, p.dv);
    result_of(&merged, 2, p.m, p.dv);
    assert_ok(es_attend_reference(&p.vq, &p.vk, &p.vv, &opts, &whole.out, &err));
    opts.prefixes = NULL, opts.n_prefixes = 0;
    es_partial *all;
    assert_ok(es_partial_new(p.m, p.dv, &opts, &all, &err));
    double *numbers = malloc((size_t)es_partial_numbers(p.m, p.dv, &opts) * sizeof *numbers);
    static const int64_t cuts[] = {0, 1, 200, 7000, 9000};
    for (int i = 0; i < 4; i++) {
        es_partial *part, *again;
        const es_view k = es_view_rows(&p.vk, cuts[i], cuts[i + 1] - cuts[i]);
        const es_view v = es_view_rows(&p.vv, cuts[i], cuts[i + 1] - cuts[i]);
        assert_ok(es_partial_new(p.m, p.dv, &opts, &part, &err));
        assert_ok(es_partial_new(p.m, p.dv, &opts, &again, &err));
        assert_ok(es_partial_attend(part, &p.vq, &k, &v, cuts[i], &err));
        es_partial_save(part, numbers);
        assert_ok(es_partial_load(again, numbers, &err));
        assert_ok(es_partial_merge(all, again, &err));
        es_partial_free(part);
        es_partial_free(again);
    }
    assert_ok(es_partial_finish(all, &merged.out, &err));
    assert_few_agree(&merged, &whole, ES_F32, most_score(&p), p.n);
    es_partial_free(all);
    free(numbers);
    result_free(&whole);
    result_free(&merged);
    problem_free(&p);
}

/* The first element that is no number is named, as the reference names it; a failed call leaves a
 * state as it was. */
static void data_are_looked_at_while_read(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    state_of_rng = 5;
    problem p = {.m = 2,
                 .n = 5000,
                 .d = 37,
                 .dv = 70,
                 .n_scales = 1,
                 .n_prefixes = 1,
                 .scales = {0.2},
                 .prefixes = {5000},
                 .top_k = {1, 7}};
    problem_new(&p, 1, 1);
    es_view *const matrices[] = {&p.vq, &p.vk, &p.vv};
    const es_attend_opts opts = options(&p, ES_F32, NULL);
    result r;
    result_of(&r, 1, p.m, p.dv);
    es_attend_out out = r.out;
    out.moments = NULL;
    for (int i = 0; i < 30; i++) {
        es_view *x = matrices[i % 3];
        const int64_t row = between(0, x->rows - 1), col = between(0, x->cols - 1);
        const double good = es_view_get(x, row, col);
        es_view_set(x, row, col, bad[i / 3 % 3]);
        assert_int_equal(es_attend(&p.vq, &p.vk, &p.vv, &opts, &out, &err), ES_E_NONFINITE);
        assert_equals(err.row, row);
        assert_equals(err.col, col);
        es_view_set(x, row, col, good);
    }
    result_free(&r);
    problem_free(&p);
}

/* Squares of 1e25 overflow f32, scores and outputs made of them need not; what does is an error. */
static void numbers_too_large_to_square(void **state)
{
    (void)state;
    state_of_rng = 6;
    problem p = {.m = 3,
                 .n = 400,
                 .d = 8,
                 .dv = 6,
                 .n_scales = 1,
                 .n_prefixes = 1,
                 .scales = {1.0},
                 .prefixes = {400},
                 .top_k = {1, 7}};
    problem_new(&p, 0, 0);
    for (int64_t i = 0; i < p.m * p.d; i++)
        p.q[i] *= 1e-25;
    for (int64_t j = 0; j < p.n; j++)
        for (int64_t c = 0; c < p.d; c++)
            es_view_set(&p.vk, j, c, 1e25 * p.k[j * p.d + c]);
    check(&p, 30.0);
    const es_attend_opts opts = options(&p, ES_F32, NULL);
    double y[18];
    es_view_set(&p.vk, 399, 7, 1e39);
    assert_int_equal(es_attend(&p.vq, &p.vk, &p.vv, &opts, &(es_attend_out){.output = y}, &err),
                     ES_E_RANGE);
    assert_string_equal(err.rule, "attend.range.score");
    es_view_set(&p.vk, 399, 7, 0.0);
    es_view_set(&p.vv, 0, 0, 1e36);
    assert_int_equal(es_attend(&p.vq, &p.vk, &p.vv, &opts, &(es_attend_out){.output = y}, &err),
                     ES_E_RANGE);
    assert_string_equal(err.rule, "attend.range.value");
    problem_free(&p);
}

static void memory_has_a_speed(void **state)
{
    (void)state;
    static float data[100003];
    for (int threads = 1; threads <= 3; threads++) {
        const es_exec exec = {.threads = threads};
        double speed = 0.0;
        assert_ok(es_bandwidth_measure(&exec, data, sizeof data, 0.001, &speed, &err));
        assert_between(speed, 0.0, 1e5);
    }
    double speed;
    const es_status bad = es_bandwidth_measure(NULL, NULL, sizeof data, 0.001, &speed, &err);
    assert_int_equal(bad, ES_E_ARGUMENT);
    assert_int_equal(es_bandwidth_measure(NULL, data, sizeof data, 0.0, &speed, &err), bad);
    assert_int_equal(es_bandwidth_measure(NULL, data, 2, 0.001, &speed, &err), bad);
}

TEST_FILE(few)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_agree_with_the_reference),
        cmocka_unit_test(any_number_of_queries_around_the_switch),
        cmocka_unit_test(shapes_at_the_edge),
        cmocka_unit_test(scores_of_ten_thousand),
        cmocka_unit_test(other_options_take_the_panels),
        cmocka_unit_test(states_are_kept_and_merged),
        cmocka_unit_test(data_are_looked_at_while_read),
        cmocka_unit_test(numbers_too_large_to_square),
        cmocka_unit_test(memory_has_a_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
