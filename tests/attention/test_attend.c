/* SPDX-License-Identifier: Apache-2.0 */
/* test_attend.c : the streaming engine against the reference, over shapes, scales, prefixes,
 * threads and CPUs. */
#include "testing.h"

#include <esscher/attend.h>

#include "attend_problem.h"
#include "attention/attend.h"
#include "base/view.h"

/* ---- the property test ---- */

/* Scores of a problem go up to about 10^(most - 2). */
static problem problem_random(double most)
{
    problem p = {
        .d = between(1, 70), .dv = between(1, 70), .n = between(1, 700), .n_scales = between(1, 4)};
    p.self = uniform() < 0.5;
    p.m = p.self ? p.n : between(1, 120);
    p.exclude_self = uniform() < 0.4 && p.n > 1;
    int64_t next = p.exclude_self ? 2 : 1;
    while (p.n_prefixes < 4 && next < p.n) {
        p.prefixes[p.n_prefixes++] = next;
        next += between(1, 1 + p.n / 2);
    }
    p.prefixes[p.n_prefixes++] = p.n;
    draw_scales(&p, most);
    p.top_k[0] = between(1, 5);
    p.top_k[1] = between(1, 40);
    p.block = uniform() < 0.5 ? 0 : (int64_t)1 << between(0, 10);
    draw_data(&p);
    return p;
}

static void engine_agrees_with_the_reference(void **state) /* NU14 */
{
    (void)state;
    const uint64_t seed = seed_of_test(20251210);
    for (int trial = 0; trial < trials_of(60); trial++) {
        state_of_rng = seed * 1000003 + (uint64_t)trial;
        problem p = problem_random(trial % 3 ? 2.5 : 5.0); /* few keys have a weight at 10^3 */
        check_problem(&p);
        problem_free(&p);
    }
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    /* {queries, keys, self}: query-parallel with and without self, key-parallel with few queries.
     */
    static const struct {
        int64_t m, n;
        bool self;
    } shapes[] = {{1500, 1500, true}, {3000, 700, false}, {40, 40000, false}};
    static const int counts[] = {2, 3, 8};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        state_of_rng = 77 + i;
        problem p = {.m = shapes[i].m,
                     .n = shapes[i].n,
                     .d = 13,
                     .dv = 9,
                     .n_scales = 2,
                     .n_prefixes = 3,
                     .scales = {0.3, 0.9},
                     .top_k = {1, 10},
                     .block = 128, /* whole blocks in prefixes: else keys would not be cut */
                     .self = shapes[i].self};
        p.prefixes[0] = p.n / 7 / 128 * 128 + 128, p.prefixes[1] = p.n / 2 / 128 * 128;
        p.prefixes[2] = p.n;
        draw_data(&p);
        for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
            es_exec exec = {.threads = 1};
            const es_attend_opts opts = options(&p, precision, &exec);
            es_attend_plan plan;
            assert_ok(es_attend_plan_for(p.m, p.n, p.d, p.dv, &opts, true, &plan, &err));
            assert_equals((plan.segments > 1),
                          (shapes[i].n == 40000));           /* the shapes exercise both modes */
            assert_at_least(plan.blocks * plan.segments, 4); /* threads have work; of 8 some rest */
            result one = result_new(2, 3, p.m, p.dv, 2);
            assert_ok(es_attend(&p.vq, &p.vk, &p.vv, &opts, &one.out, &err));
            for (size_t t = 0; t < sizeof counts / sizeof counts[0]; t++) {
                exec.threads = counts[t];
                result many = result_new(2, 3, p.m, p.dv, 2);
                assert_ok(es_attend(&p.vq, &p.vk, &p.vv, &opts, &many.out, &err));
                assert_identical(&one, &many);
                result_free(&many);
            }
            result_free(&one);
        }
        problem_free(&p);
    }
}

/* ---- views ---- */

/* Values are read as they lie where rows are near and make whole groups of channels, and copied
 * where not: a gap, more than a page from row to row, backwards, of the other type, all of them the
 * same bits, with spreads, too. NaN in the gaps is nobody's. */
static void values_wherever_they_lie(void **state)
{
    (void)state;
    enum { M = 60, N = 230, D = 6, MOST = 10, FAR = 1030 };
    static const int64_t pitches[] = {MOST, MOST + 3, FAR};
    state_of_rng = 17;
    double *q = normals(M * D), *k = normals(N * D), *v = normals(N * MOST);
    const es_view vq = es_view_f64(q, M, D), vk = es_view_f64(k, N, D);
    double *plain = calloc(M * (MOST + 1), sizeof *plain), *other = calloc(M * (MOST + 1), 8);
    float *memory = malloc(sizeof *memory * N * FAR);
    for (int64_t dv = 8; dv <= MOST; dv++)
        for (int with_spread = 0; with_spread <= 1; with_spread++) {
            const es_attend_opts opts = {.precision = ES_F32, .spread = with_spread};
            const es_view wide = {.data = v,
                                  .dtype = ES_F64,
                                  .rows = N,
                                  .cols = dv,
                                  .row_stride = 8 * MOST,
                                  .col_stride = 8};
            es_attend_out out = {.output = plain, .spread2 = with_spread ? plain + M * dv : NULL};
            assert_ok(es_attend(&vq, &vk, &wide, &opts, &out, &err));
            for (int way = 0; way < 6; way++) {
                const int64_t pitch = pitches[way % 3];
                es_view narrow = {.data = memory,
                                  .dtype = ES_F32,
                                  .rows = N,
                                  .cols = dv,
                                  .row_stride = 4 * pitch,
                                  .col_stride = 4};
                for (int64_t i = 0; i < N * FAR; i++)
                    memory[i] = NAN;
                if (way >= 3) {
                    narrow.data = memory + (N - 1) * pitch;
                    narrow.row_stride *= -1;
                }
                for (int64_t i = 0; i < N; i++)
                    for (int64_t c = 0; c < dv; c++)
                        es_view_set(&narrow, i, c, v[i * MOST + c]);
                out.output = other;
                out.spread2 = with_spread ? other + M * dv : NULL;
                assert_ok(es_attend(&vq, &vk, &narrow, &opts, &out, &err));
                assert_memory_equal(plain, other, sizeof *plain * (size_t)(M * (dv + with_spread)));
            }
        }
    free(memory);
    free(plain);
    free(other);
    free(q);
    free(k);
    free(v);
}

static void any_layout_gives_the_same_answer(void **state)
{
    (void)state;
    enum { M = 30, N = 50, D = 7, DV = 5 };
    state_of_rng = 5;
    double *q = normals(M * D), *k = normals(N * D), *v = normals(N * DV);
    const es_view vq = es_view_f64(q, M, D), vk = es_view_f64(k, N, D), vv = es_view_f64(v, N, DV);
    const es_exec exec = {.threads = 1};
    const es_attend_opts opts = {.exec = &exec};
    double plain[M * DV], other[M * DV];
    es_attend_out out = {.output = plain};
    assert_ok(es_attend(&vq, &vk, &vv, &opts, &out, &err));

    /* keys transposed in memory; values f32 at an odd address, rows apart and backwards; queries
     * f32 */
    double kt[D * N];
    char odd[1 + N * 11 * sizeof(float)];
    float qf[M * D];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++)
            kt[j * N + i] = k[i * D + j];
    const es_view transposed = {
        .data = kt, .dtype = ES_F64, .rows = N, .cols = D, .row_stride = 8, .col_stride = N * 8};
    const es_view backwards = {.data = odd + 1 + (N - 1) * 44,
                               .dtype = ES_F32,
                               .rows = N,
                               .cols = DV,
                               .row_stride = -44,
                               .col_stride = 8};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < DV; j++)
            es_view_set(&backwards, i, j, v[i * DV + j]);
    for (int i = 0; i < M * D; i++)
        qf[i] = (float)q[i];
    const es_view narrow = es_view_f32(qf, M, D);
    out.output = other;
    assert_ok(es_attend(&narrow, &transposed, &backwards, &opts, &out, &err));
    assert_memory_equal(plain, other, sizeof plain);
    free(q);
    free(k);
    free(v);
}

/* ---- spreads ---- */

/* Few queries: keys are cut among threads, and no block of keys may be. */
static void blocks_of_keys_stay_whole(void **state)
{
    (void)state;
    static const int64_t prefixes[] = {1024, 20224, 40037}; /* 4 and 79 blocks, and 101 keys more */
    state_of_rng = 2024;
    problem p = {.m = 3,
                 .n = 40037,
                 .d = 5,
                 .dv = 3,
                 .n_scales = 2,
                 .n_prefixes = 3,
                 .block = 256,
                 .scales = {0.2, 1.0},
                 .top_k = {1, 10}};
    memcpy(p.prefixes, prefixes, sizeof prefixes);
    draw_data(&p);
    const double largest = largest_score(&p);
    result ref = result_new(2, 3, p.m, p.dv, 2);
    es_attend_opts opts = options(&p, ES_F64, NULL);
    assert_ok(es_attend_reference(&p.vq, &p.vk, &p.vv, &opts, &ref.out, &err));
    for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
        opts = options(&p, precision, NULL);
        es_attend_plan plan;
        assert_ok(es_attend_plan_for(p.m, p.n, p.d, p.dv, &opts, true, &plan, &err));
        assert_above(plan.segments, 8);
        result fast = result_new(2, 3, p.m, p.dv, 2);
        assert_ok(es_attend(&p.vq, &p.vk, &p.vv, &opts, &fast.out, &err));
        const bounds bound = bounds_for(precision, largest, p.n);
        assert_agree(&fast, &ref, &bound);
        result_free(&fast);
    }
    result_free(&ref);
    problem_free(&p);
}

/* Values far from zero and near each other, 1000 +- 1: in f32 the sum of w^2 |v|^2 alone has lost
 * six of seven digits of what is wanted. v itself is rounded by 3e-5, which is all that remains. */
static void a_spread_far_from_zero_is_seen(void **state)
{
    (void)state;
    enum { M = 5, N = 700, D = 4, DV = 3 };
    state_of_rng = 7;
    double *q = normals(M * D), *k = normals(N * D), *v = normals(N * DV);
    for (int i = 0; i < N * DV; i++)
        v[i] += 1000.0;
    const es_view vq = es_view_f64(q, M, D), vk = es_view_f64(k, N, D), vv = es_view_f64(v, N, DV);
    const es_attend_opts opts = {.spread = true, .block = 32};
    result a = result_new(1, 1, M, DV, 0), ref = result_new(1, 1, M, DV, 0);
    assert_ok(es_attend(&vq, &vk, &vv, &opts, &a.out, &err));
    assert_ok(es_attend_reference(&vq, &vk, &vv, &opts, &ref.out, &err));
    for (int i = 0; i < M; i++)
        assert_near(a.out.spread2[i], ref.out.spread2[i], 1e-4 * ref.out.spread2[i]);
    for (int i = 0; i < M * DV; i++) /* sums of a block: 32 weights of 1/700, times 1000, in f32 */
        assert_near(sqrt(a.out.block_spread2[i]), sqrt(ref.out.block_spread2[i]),
                    1e-3 * sqrt(ref.out.block_spread2[i]));
    result_free(&a);
    result_free(&ref);
    free(q);
    free(k);
    free(v);
}

/* Weights by hand: two keys of weights 1/2 and values 0, 2; then two more that repeat them. */
static void spreads_by_hand(void **state)
{
    (void)state;
    const double q[1] = {0.0}, k[4] = {1.0, 2.0, 3.0, 4.0}, v[4] = {0.0, 2.0, 0.0, 2.0};
    const es_view vq = es_view_f64((double *)q, 1, 1), vk = es_view_f64((double *)k, 4, 1),
                  vv = es_view_f64((double *)v, 4, 1);
    const int64_t prefixes[] = {2, 3, 4};
    /* n = 2: y = 1, (1/4)(1 + 1). n = 3: y = 2/3, (1/9)(4/9 + 16/9 + 4/9). n = 4: y = 1, 4/16.
     * Blocks of two sum to Z = 1/2, N = 1/2 = Z y at n = 4; at n = 3 the second is {0}, Z = 1/3. */
    const double spread[] = {0.5, 24.0 / 81.0, 0.25}, blocks[] = {0.0, 8.0 / 81.0, 0.0};
    const double z[] = {1.0, 2.0 / 3.0, 0.5}; /* of the first block; the second has the rest */
    for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
        double s[3], b[3], powers[9];
        const es_attend_opts opts = {.precision = precision,
                                     .prefixes = prefixes,
                                     .n_prefixes = 3,
                                     .spread = true,
                                     .block = 2};
        const es_attend_out out = {.spread2 = s, .block_spread2 = b, .block_powers = powers};
        assert_ok(es_attend(&vq, &vk, &vv, &opts, &out, &err));
        for (int i = 0; i < 3; i++) {
            assert_near(s[i], spread[i], 1e-6);
            assert_near(b[i], blocks[i], 1e-6);
            for (int e = 0; e < 3; e++)
                assert_near(powers[3 * i + e], pow(z[i], 2 + e) + pow(1.0 - z[i], 2 + e), 1e-6);
        }
    }
    es_attend_opts wrong = {.block = 48};
    double s[1];
    const es_attend_out out = {.spread2 = s};
    assert_int_equal(es_attend(&vq, &vk, &vv, &wrong, &out, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "attend.block");
    wrong.block = 0; /* asked for, but not by the options */
    assert_int_equal(es_attend(&vq, &vk, &vv, &wrong, &out, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "attend.spread");
}

/* ---- memory ---- */

static void memory_stays_within_the_plan(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {
        {2000, 2000, 64, 64}, {10, 100000, 33, 5}, {500, 300, 7, 130}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t m = shapes[i][0], n = shapes[i][1], d = shapes[i][2], dv = shapes[i][3];
        state_of_rng = i + 1;
        double *q = normals(m * d), *k = normals(n * d), *v = normals(n * dv);
        const es_view vq = es_view_f64(q, m, d), vk = es_view_f64(k, n, d),
                      vv = es_view_f64(v, n, dv);
        es_mem_limit budget = {0};
        const es_exec exec = {.threads = 2, .budget = &budget};
        const double scales[2] = {0.1, 0.2};
        const int64_t prefixes[2] = {n / 3, n};
        const es_attend_opts opts = {.scales = scales,
                                     .n_scales = 2,
                                     .prefixes = prefixes,
                                     .n_prefixes = 2,
                                     .spread = true,
                                     .block = 16 << i,
                                     .exec = &exec};
        es_attend_plan plan;
        assert_ok(es_attend_plan_for(m, n, d, dv, &opts, true, &plan, &err));
        result r = result_new(2, 2, m, dv, 0);
        assert_ok(es_attend(&vq, &vk, &vv, &opts, &r.out, &err));
        assert_at_most(budget.peak, plan.bytes);
        assert_below((double)plan.bytes,
                     1.5 * (double)budget.peak + 65536.0); /* a bound worth printing */
        result_free(&r);
        assert_int_equal(budget.used, 0);

        budget = (es_mem_limit){.limit = plan.bytes / 3};
        r = result_new(2, 2, m, dv, 0);
        assert_int_equal(es_attend(&vq, &vk, &vv, &opts, &r.out, &err), ES_E_LIMIT);
        assert_int_equal(budget.used, 0); /* nothing leaks on the way out */
        result_free(&r);
        free(q);
        free(k);
        free(v);
    }
}

/* ---- partial states ---- */

/* Keys of the first tiles have score 0 and value 0, the 1024 that follow score -x and value 1, in
 * powers of two: every output is 1024 2^-x / (576 + 1024 2^-x). Tiles of keys that are far below
 * the others count down to weights of 2^-127, in f64 too. */
static void tiles_far_below_count_down_to_2_127(void **state)
{
    (void)state;
    enum { M = 3000, HIGH = 576, LOW = 1024, N = HIGH + LOW }; /* one segment; HIGH: whole tiles */
    static const struct {
        es_dtype precision;
        double below;
        bool counts;
    } cases[] = {{ES_F32, 10.0, true},  {ES_F32, 120.0, true},  {ES_F32, 200.0, false},
                 {ES_F64, 120.0, true}, {ES_F64, 200.0, false}, {ES_F64, 1e4, false},
                 {ES_F64, 1e12, false}};
    static double q[M], k[N], v[N], y[M];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int j = 0; j < M; j++)
            q[j] = log(2.0);
        for (int j = 0; j < N; j++) {
            k[j] = j < HIGH ? 0.0 : -cases[i].below;
            v[j] = j < HIGH ? 0.0 : 1.0;
        }
        const double scale = 1.0, low = LOW * exp2(-cases[i].below);
        const es_view vq = es_view_f64(q, M, 1), vk = es_view_f64(k, N, 1),
                      vv = es_view_f64(v, N, 1);
        const es_attend_opts opts = {
            .precision = cases[i].precision, .scales = &scale, .n_scales = 1};
        const es_attend_out out = {.output = y};
        assert_ok(es_attend(&vq, &vk, &vv, &opts, &out, &err));
        for (int j = 0; j < M; j++)
            if (cases[i].counts)
                assert_close(y[j], low / (HIGH + low), 1e-4);
            else
                assert_equals(y[j], 0.0);
    }
}

static void partial_states_merge_to_the_whole(void **state)
{
    (void)state;
    enum { M = 70, N = 900, D = 11, DV = 6 };
    state_of_rng = 99;
    double *q = normals(M * D), *k = normals(N * D), *v = normals(N * DV);
    const es_view vq = es_view_f64(q, M, D), vk = es_view_f64(k, N, D), vv = es_view_f64(v, N, DV);
    const double scales[2] = {0.2, 1.5};
    const int64_t top_k[2] = {3, 50};
    const es_attend_opts opts = {
        .precision = ES_F64, .scales = scales, .n_scales = 2, .top_k = top_k, .n_top_k = 2};
    result whole = result_new(2, 1, M, DV, 2), merged = result_new(2, 1, M, DV, 2);
    without_spreads(&whole);
    without_spreads(&merged);
    assert_ok(es_attend_reference(&vq, &vk, &vv, &opts, &whole.out, &err));

    static const int64_t cuts[] = {0, 1, 250, 251, 900};
    es_partial *all, *part;
    assert_ok(es_partial_new(M, DV, &opts, &all, &err));
    assert_int_equal(es_partial_finish(all, &merged.out, &err), ES_E_EMPTY);
    for (int i = 0; i < 4; i++) {
        const es_view ki = es_view_rows(&vk, cuts[i], cuts[i + 1] - cuts[i]);
        const es_view vi = es_view_rows(&vv, cuts[i], cuts[i + 1] - cuts[i]);
        assert_ok(es_partial_new(M, DV, &opts, &part, &err));
        assert_ok(es_partial_attend(part, &vq, &ki, &vi, cuts[i], &err));
        assert_ok(es_partial_merge(all, part, &err));
        es_partial_free(part);
    }
    assert_ok(es_partial_finish(all, &merged.out, &err));
    const bounds bound = bounds_for(ES_F64, 60.0, N);
    assert_agree(&merged, &whole, &bound);
    assert_memory_equal(merged.out.top_index, whole.out.top_index, 2 * M * sizeof(int64_t));

    const es_attend_opts other = {.scales = scales, .n_scales = 1};
    assert_ok(es_partial_new(M, DV, &other, &part, &err));
    assert_int_equal(es_partial_merge(all, part, &err), ES_E_SHAPE);
    es_partial_free(part);
    es_partial_free(all);
    result_free(&whole);
    result_free(&merged);
    free(q);
    free(k);
    free(v);
}

/* ---- accuracy promised in attend.h ---- */

/* Relative L2 distance between two outputs, and the largest distance between entropies. */
typedef struct distance {
    double output, entropy;
} distance;

typedef es_status (*attend_fn)(const es_view *, const es_view *, const es_view *,
                               const es_attend_opts *, const es_attend_out *, es_error *);

/* Normal queries against n keys and values of 64 uniform coordinates of unit variance: scores have
 * standard deviation 8 * scale. */
static distance distance_between(attend_fn a, es_dtype precision_a, attend_fn b, int64_t n,
                                 double scale)
{
    const int64_t d = 64, m = 24;
    state_of_rng = 4242;
    double *q = normals(m * d), *k = uniforms(n * d), *v = uniforms(n * d);
    const es_view vq = es_view_f64(q, m, d), vk = es_view_f64(k, n, d), vv = es_view_f64(v, n, d);
    double *ya = normals(m * d), *yb = normals(m * d), *ha = normals(m), *hb = normals(m);
    es_attend_opts opts = {.precision = precision_a, .scales = &scale, .n_scales = 1};
    assert_ok(a(&vq, &vk, &vv, &opts, &(es_attend_out){.output = ya, .entropy = ha}, &err));
    opts.precision = ES_F64;
    assert_ok(b(&vq, &vk, &vv, &opts, &(es_attend_out){.output = yb, .entropy = hb}, &err));
    distance r = {0};
    double size = 0.0;
    for (int64_t i = 0; i < m * d; i++) {
        r.output += (ya[i] - yb[i]) * (ya[i] - yb[i]);
        size += yb[i] * yb[i];
    }
    r.output = sqrt(r.output / size);
    for (int64_t i = 0; i < m; i++)
        r.entropy = fmax(r.entropy, fabs(ha[i] - hb[i]));
    print_message("n = %lld, scale %g: relative L2 error %.2g, entropy %.2g nats\n", (long long)n,
                  scale, r.output, r.entropy);
    double *const all[] = {q, k, v, ya, yb, ha, hb};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    return r;
}

static void f32_and_f64_keep_their_promises(void **state)
{
    (void)state;
    /* the largest scores: 4, 10 and 130 nats */
    const double usual = 1.0 / 8.0, moderate = 10.0 / 32.0, large = 4.0;
    distance r = distance_between(es_attend, ES_F64, es_attend_reference, 5000, usual);
    assert_below(r.output, ES_ATTEND_F64_ERROR);
    assert_below(r.entropy, 1e-12);
    r = distance_between(es_attend, ES_F64, es_attend_reference, 5000, large);
    assert_below(r.output, ES_ATTEND_F64_ERROR);
    assert_below(r.entropy, 1e-12);
    r = distance_between(es_attend, ES_F32, es_attend_reference, 5000, usual);
    assert_below(r.output, ES_ATTEND_F32_ERROR);
    assert_below(r.entropy, 1e-5);
    r = distance_between(es_attend, ES_F32, es_attend_reference, 5000, moderate);
    assert_below(r.output, ES_ATTEND_F32_ERROR);
    assert_below(r.entropy, 1e-5);
    r = distance_between(es_attend, ES_F32, es_attend_reference, 5000, large);
    assert_below(r.output, ES_ATTEND_F32_ERROR_130);
    /* a million keys: f64, just tested, is the judge */
    r = distance_between(es_attend, ES_F32, es_attend,
                         getenv("ESSCHER_QUICK_TESTS") ? 100000 : 1000000, usual);
    assert_below(r.output, ES_ATTEND_F32_ERROR);
    assert_below(r.entropy, 1e-5);
}

TEST_FILE(attend)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_agrees_with_the_reference),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(values_wherever_they_lie),
        cmocka_unit_test(any_layout_gives_the_same_answer),
        cmocka_unit_test(blocks_of_keys_stay_whole),
        cmocka_unit_test(a_spread_far_from_zero_is_seen),
        cmocka_unit_test(spreads_by_hand),
        cmocka_unit_test(memory_stays_within_the_plan),
        cmocka_unit_test(tiles_far_below_count_down_to_2_127),
        cmocka_unit_test(partial_states_merge_to_the_whole),
        cmocka_unit_test(f32_and_f64_keep_their_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
