/* SPDX-License-Identifier: Apache-2.0 */
/* test_attend_sinks.c : score caps and sink logits: NumPy's numbers, the reference, an explicit key
 * in the place of the sink, queries that see nothing, threads, cuts and partial states. */
#include "testing.h"

#include <esscher/npy.h>

#include <float.h>

#include "attend_problem.h"
#include "attention/attend.h"
#include "base/view.h"
#include "golden.h"

typedef es_status (*attend_fn)(const es_view *, const es_view *, const es_view *,
                               const es_attend_opts *, const es_attend_out *, es_error *);

/* ---- NumPy ---- */

/* f64 kernels are right to 1e-12 (attend.h), NumPy's sums of 400 terms to about as much. */
static void check_golden_row(const json_t *row, const result *r)
{
    enum { TOLERANCE = 11 }; /* digits */
    const double tolerance = pow(10.0, -TOLERANCE);
    const int64_t i = (int64_t)golden_real(row, "query");
    const json_t *output = json_object_get(row, "output");
    assert_close(r->out.lse[i], golden_real(row, "lse"), tolerance);
    assert_near(r->out.entropy[i], golden_real(row, "entropy"), tolerance);
    assert_close(r->out.top_weight[i], golden_real(row, "top_weight"), tolerance);
    assert_int_equal(r->out.top_index[i], (int64_t)golden_real(row, "top_index"));
    assert_close(r->out.sum_squares[i], golden_real(row, "sum_squares"), tolerance);
    assert_close(r->out.top_mass[i], golden_real(row, "top_mass_3"), tolerance);
    for (int64_t c = 0; c < r->dv; c++)
        assert_near(r->out.output[i * r->dv + c],
                    json_number_value(json_array_get(output, (size_t)c)), tolerance);
}

static void check_golden_case(const json_t *c, attend_fn attend, es_isa isa)
{
    static const char *const names[] = {"q", "k", "v"};
    const json_t *sink = json_object_get(c, "sink"), *cap = json_object_get(c, "cap");
    const double logit = json_number_value(sink), scale = golden_real(c, "scale");
    const int64_t three = 3;
    es_array arrays[3];
    es_view views[3];
    for (int i = 0; i < 3; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, "sparse/%s.npy",
                 i ? names[i] : json_string_value(json_object_get(c, "queries")));
        assert_ok(es_npy_load(golden_path(rest), NULL, &arrays[i], &err));
        assert_ok(es_array_view(&arrays[i], 0, &views[i], &err));
    }
    const es_mask mask = {.causal = json_is_true(json_object_get(c, "causal"))};
    const es_exec exec = {.threads = 2, .isa = isa};
    const es_attend_opts opts = {.precision = ES_F64,
                                 .scales = &scale,
                                 .n_scales = 1,
                                 .score_cap = json_number_value(cap), /* null: 0 */
                                 .sink = json_is_null(sink) ? NULL : &logit,
                                 .exclude_self = json_is_true(json_object_get(c, "exclude_self")),
                                 .mask = &mask,
                                 .top_k = &three,
                                 .n_top_k = 1,
                                 .exec = &exec};
    result r = result_new(1, 1, views[0].rows, views[2].cols, 1);
    without_spreads(&r);
    assert_ok(attend(&views[0], &views[1], &views[2], &opts, &r.out, &err));
    const json_t *rows = json_object_get(c, "rows");
    assert_int_equal(json_array_size(rows), 6);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_golden_row(json_array_get(rows, i), &r);
    result_free(&r);
    for (int i = 0; i < 3; i++)
        es_array_free(&arrays[i]);
}

static void engine_and_reference_are_numpy(void **state)
{
    (void)state;
    json_t *all = golden_file("sinks.json");
    assert_int_equal(json_array_size(all), 10);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *c = json_array_get(all, i);
        check_golden_case(c, es_attend_reference, ES_ISA_AUTO);
        for (size_t t = 0; t < sizeof every_isa / sizeof every_isa[0]; t++)
            if (es_isa_available(every_isa[t]))
                check_golden_case(c, es_attend, every_isa[t]);
    }
    json_decref(all);
}

/* ---- random problems ---- */

/* Windows, sinks of the mask and lists, some of them empty, so that queries may see nothing; and
 * factors, which are added to capped scores. */
static void draw_mask(problem *p)
{
    p->masked = true;
    p->mask = (es_mask){.causal = uniform() < 0.5};
    p->positions = malloc((size_t)p->m * sizeof *p->positions);
    for (int64_t i = 0; i < p->m; i++)
        p->positions[i] = between(0, p->n - 1);
    p->mask.positions = p->positions;
    if (uniform() < 0.6)
        p->mask.window = between(1, 1 + p->n / 3);
    if (uniform() < 0.3)
        p->mask.sinks = between(1, 5);
    if (uniform() < 0.5) {
        p->classes = malloc((size_t)p->n);
        p->class_factors = normals(4);
        for (int64_t j = 0; j < p->n; j++)
            p->classes[j] = (uint8_t)between(0, 3);
        p->mask.n_classes = 4;
        p->mask.classes = p->classes;
        p->mask.class_factors = p->class_factors;
    }
    if (uniform() < 0.5)
        return;
    p->mask.list_queries = between(1, 40);
    const int64_t lists = (p->m - 1) / p->mask.list_queries + 1;
    p->offsets = calloc((size_t)lists + 1, sizeof *p->offsets);
    p->keys = malloc((size_t)lists * 3 * sizeof *p->keys);
    for (int64_t i = 0; i < lists; i++) {
        int64_t end = p->offsets[i];
        for (int64_t key = between(0, 2 * p->n); key < p->n && end < p->offsets[i] + 3;
             key += between(1, p->n))
            p->keys[end++] = key;
        p->offsets[i + 1] = end;
    }
    p->mask.list_offsets = p->offsets;
    p->mask.list_keys = p->keys;
    p->list_factors = normals(lists);
    p->mask.list_factors = p->list_factors;
}

static problem problem_random(void)
{
    problem p = {
        .d = between(1, 40), .dv = between(1, 40), .n = between(1, 500), .n_scales = between(1, 3)};
    p.self = uniform() < 0.3;
    p.m = p.self ? p.n : uniform() < 0.4 ? between(1, 24) : between(25, 90);
    p.exclude_self = uniform() < 0.3;
    for (int64_t next = between(1, p.n); p.n_prefixes < 3 && next < p.n; next += between(1, p.n))
        p.prefixes[p.n_prefixes++] = next;
    p.prefixes[p.n_prefixes++] = p.n;
    draw_scales(&p, 2.5);
    p.top_k[0] = between(1, 5), p.top_k[1] = between(1, 40);
    p.block = uniform() < 0.7 ? 0 : (int64_t)1 << between(0, 10);
    p.has_sink = uniform() < 0.8;
    p.sink = uniform() < 0.1 ? 30.0 * normal() : 6.0 * normal();
    p.cap = p.has_sink && uniform() < 0.4 ? 0.0 : pow(10.0, -1.0 + 3.0 * uniform());
    if (p.has_sink && uniform() < 0.5)
        draw_mask(&p);
    if (!p.has_sink && p.exclude_self) /* some query sees nothing */
        p.exclude_self = false;
    draw_data(&p);
    return p;
}

static void engine_agrees_with_the_reference_on_sinks(void **state)
{
    (void)state;
    const uint64_t seed = seed_of_test(20261118);
    for (int trial = 0; trial < trials_of(90); trial++) {
        state_of_rng = seed * 1000003 + (uint64_t)trial;
        problem p = problem_random();
        check_problem(&p);
        problem_free(&p);
    }
}

/* ---- the sink ---- */

/* Queries, keys and values of one more problem, with two scales and three prefixes. */
static problem problem_of(int64_t m, int64_t n)
{
    problem p = {.m = m,
                 .n = n,
                 .d = 9,
                 .dv = 6,
                 .n_scales = 2,
                 .n_prefixes = 3,
                 .scales = {0.3, 0.9},
                 .prefixes = {n / 7, n / 2, n},
                 .top_k = {1, 10}};
    draw_data(&p);
    return p;
}

static result answer_of(const problem *p, es_dtype precision, int threads)
{
    const es_exec exec = {.threads = threads};
    const es_attend_opts opts = options(p, precision, &exec);
    result r = result_for(p);
    assert_ok(es_attend(&p->vq, &p->vk, &p->vv, &opts, &r.out, &err));
    return r;
}

/* exp(sink - offset) is exactly 0. With few queries, and with more. */
static void a_sink_far_below_is_none_bit_for_bit(void **state)
{
    (void)state;
    static const double logits[] = {-1e5, -(double)FLT_MAX, -DBL_MAX, -INFINITY};
    for (int64_t m = 5; m <= 60; m += 55)
        for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
            state_of_rng = 7;
            problem p = problem_of(m, 700);
            p.block = m > 50 ? 64 : 0;
            result none = answer_of(&p, precision, 2);
            p.has_sink = true;
            for (size_t i = 0; i < sizeof logits / sizeof logits[0]; i++) {
                p.sink = logits[i];
                result far = answer_of(&p, precision, 2);
                assert_identical(&none, &far);
                result_free(&far);
            }
            result_free(&none);
            problem_free(&p);
        }
}

/* A first key of value 0, whose score is that of a coordinate that no other key has. */
static void a_sink_is_one_more_key(void **state)
{
    (void)state;
    enum { M = 40, N = 300, D = 7, DV = 5 };
    const double scale = 0.5;
    const int64_t with[] = {30, N}, without[] = {31, N + 1}, top_k[] = {1, 12};
    for (int trial = 0; trial < 12; trial++) {
        state_of_rng = 31 + (uint64_t)trial;
        const double sink = 4.0 * normal();
        double *q = normals(M * (D + 1)), *k = normals((N + 1) * (D + 1)),
               *v = normals((N + 1) * DV);
        for (int64_t i = 0; i < M; i++)
            q[i * (D + 1) + D] = 1.0;
        for (int64_t j = 0; j <= N; j++)
            k[j * (D + 1) + D] = 0.0;
        memset(k, 0, (D + 1) * sizeof *k);
        memset(v, 0, DV * sizeof *v);
        k[D] = sink / scale;
        const es_view vq = es_view_f64(q, M, D + 1), vk = es_view_f64(k, N + 1, D + 1);
        const es_view vv = es_view_f64(v, N + 1, DV);
        const es_view keys = es_view_rows(&vk, 1, N), values = es_view_rows(&vv, 1, N);
        es_attend_opts opts = {.precision = ES_F64,
                               .scales = &scale,
                               .n_scales = 1,
                               .prefixes = without,
                               .n_prefixes = 2,
                               .top_k = top_k,
                               .n_top_k = 2};
        result key = result_new(1, 2, M, DV, 2), learned = result_new(1, 2, M, DV, 2);
        without_spreads(&key);
        without_spreads(&learned);
        assert_ok(es_attend(&vq, &vk, &vv, &opts, &key.out, &err));
        opts.prefixes = with;
        opts.sink = &sink;
        assert_ok(es_attend(&vq, &keys, &values, &opts, &learned.out, &err));
        const bounds bound = bounds_for(ES_F64, 12.0 + fabs(sink), N);
        assert_agree(&learned, &key, &bound);
        for (int64_t i = 0; i < 2 * M; i++)
            assert_int_equal(learned.out.top_index[i], key.out.top_index[i] - 1);
        result_free(&key);
        result_free(&learned);
        free(q);
        free(k);
        free(v);
    }
}

/* Outputs are those without the sink times 1 - w_sink, w_sink = exp(sink - lse), also where a sink
 * of 400 nats leaves the keys e^-400. Errors are those of f32 weights: 24 eps and more. */
static void a_sink_takes_its_share_of_the_output(void **state)
{
    (void)state;
    static const double logits[] = {-20.0, 0.0, 6.0, 60.0, 400.0};
    for (int64_t m = 5; m <= 60; m += 55)
        for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
            state_of_rng = 19;
            problem p = problem_of(m, 700);
            result none = answer_of(&p, precision, 2);
            p.has_sink = true;
            for (size_t t = 0; t < sizeof logits / sizeof logits[0]; t++) {
                p.sink = logits[t];
                result some = answer_of(&p, precision, 2);
                for (int64_t i = 0; i < 6 * m; i++) {
                    const double keys = none.out.lse[i], both = some.out.lse[i];
                    const double exact = fmax(keys, p.sink) + log1p(exp(-fabs(keys - p.sink)));
                    const double share = exp(keys - exact);
                    assert_near(both, exact, 4.0 * 0x1p-53 * (1.0 + fabs(exact)));
                    for (int64_t c = i * p.dv; c < (i + 1) * p.dv; c++)
                        assert_close(some.out.output[c], share * none.out.output[c], 1e-12);
                }
                result_free(&some);
            }
            result_free(&none);
            problem_free(&p);
        }
}

/* ---- the cap ---- */

/* |s - c tanh(s/c)| <= |s|^3 / (3 c^2), so that lse moves by no more, and each weight by a factor
 * of e^(2 of it). At c = 3 the cap is seen. */
static void a_high_cap_is_none(void **state)
{
    (void)state;
    static const double caps[] = {3.0, 1e2, 1e4, 1e8, 1e18};
    for (int64_t m = 5; m <= 60; m += 55) {
        state_of_rng = 23;
        problem p = problem_of(m, 500);
        const double largest = largest_score(&p);
        double most = 0.0;
        for (int64_t i = 0; i < p.n * p.dv; i++)
            most = fmax(most, fabs(p.v[i]));
        result none = answer_of(&p, ES_F64, 2);
        for (size_t t = 0; t < sizeof caps / sizeof caps[0]; t++) {
            p.cap = caps[t];
            const double off = pow(largest, 3.0) / (3.0 * p.cap * p.cap);
            double moved = 0.0;
            result capped = answer_of(&p, ES_F64, 2);
            for (int64_t i = 0; i < 6 * m; i++) {
                moved = fmax(moved, fabs(capped.out.lse[i] - none.out.lse[i]));
                assert_near(capped.out.lse[i], none.out.lse[i], off + 1e-13);
                for (int64_t c = i * p.dv; c < (i + 1) * p.dv; c++)
                    assert_near(capped.out.output[c], none.out.output[c],
                                expm1(2.0 * off) * most + 1e-13);
            }
            if (t == 0)
                assert_above(moved, 0.5);
            result_free(&capped);
        }
        result_free(&none);
        problem_free(&p);
    }
}

/* ---- nothing to see ---- */

/* Every query stands at key 0 and sees the last `window` keys but its own, which are none. */
static void a_query_that_sees_no_key_has_the_sink(void **state)
{
    (void)state;
    for (int64_t m = 3; m <= 100; m += 97)
        for (size_t t = 0; t < sizeof every_isa / sizeof every_isa[0]; t++) {
            if (!es_isa_available(every_isa[t]))
                continue;
            for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
                state_of_rng = 3;
                problem p = {.m = m,
                             .n = 50,
                             .d = 4,
                             .dv = 3,
                             .n_scales = 2,
                             .n_prefixes = 2,
                             .scales = {0.0, 1.0},
                             .prefixes = {10, 50},
                             .top_k = {1, 7},
                             .block = 16,
                             .exclude_self = true,
                             .masked = true,
                             .mask = {.causal = true, .window = 4},
                             .sink = -3.25};
                p.positions = calloc((size_t)m, sizeof *p.positions);
                p.mask.positions = p.positions;
                draw_data(&p);
                const es_exec exec = {.threads = 2, .isa = every_isa[t]};
                es_attend_opts opts = options(&p, precision, &exec);
                result r = result_for(&p);
                assert_int_equal(es_attend(&p.vq, &p.vk, &p.vv, &opts, &r.out, &err), ES_E_EMPTY);
                result_free(&r);
                p.has_sink = true;
                opts = options(&p, precision, &exec);
                r = result_for(&p);
                assert_ok(es_attend(&p.vq, &p.vk, &p.vv, &opts, &r.out, &err));
                for (int64_t i = 0; i < 4 * m; i++) {
                    assert_close(r.out.lse[i], p.sink, 2.0 * 0x1p-53);
                    assert_near(r.out.entropy[i], 0.0, 0x1p-52); /* log2(2^x) - x */
                    assert_equals(r.out.top_weight[i], 1.0);
                    assert_int_equal(r.out.top_index[i], -1);
                    assert_equals(r.out.sum_squares[i], 1.0);
                    assert_equals(r.out.top_mass[2 * i + 1], 1.0);
                    assert_equals(r.out.spread2[i], 0.0);
                    assert_equals(r.out.block_powers[3 * i], 0.0);
                    for (int64_t c = i * p.dv; c < (i + 1) * p.dv; c++)
                        assert_equals(r.out.output[c], 0.0);
                }
                result_free(&r);
                problem_free(&p);
            }
        }
}

/* ---- threads, cuts, states ---- */

/* Few queries, cut keys, and whole blocks of queries, with a cap and a sink. */
static void threads_do_not_change_a_bit_of_sinks(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{7, 40000}, {40, 40000}, {1500, 600}};
    static const int counts[] = {2, 3, 8};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
            state_of_rng = 77 + i;
            problem p = problem_of(shapes[i][0], shapes[i][1]);
            p.cap = 2.0, p.sink = 8.0, p.has_sink = true;
            result one = answer_of(&p, precision, 1);
            for (size_t t = 0; t < sizeof counts / sizeof counts[0]; t++) {
                result many = answer_of(&p, precision, counts[t]);
                assert_identical(&one, &many);
                result_free(&many);
            }
            result_free(&one);
            problem_free(&p);
        }
}

/* Keys in four pieces, merged: the sink counts once; a state with another sink or cap is refused.
 */
static void a_sink_counts_once_in_merged_states(void **state)
{
    (void)state;
    static const int64_t cuts[] = {0, 1, 250, 251, 900};
    for (int64_t m = 6; m <= 70; m += 64) {
        state_of_rng = 99;
        problem p = {.m = m,
                     .n = 900,
                     .d = 11,
                     .dv = 6,
                     .n_scales = 1,
                     .n_prefixes = 1,
                     .scales = {0.8},
                     .prefixes = {900},
                     .top_k = {3, 50},
                     .cap = 4.0,
                     .sink = 5.0,
                     .has_sink = true};
        draw_data(&p);
        es_attend_opts opts = options(&p, ES_F64, NULL);
        opts.prefixes = NULL;
        result whole = result_for(&p), merged = result_for(&p);
        assert_ok(es_attend_reference(&p.vq, &p.vk, &p.vv, &opts, &whole.out, &err));
        es_partial *all, *part;
        assert_ok(es_partial_new(m, p.dv, &opts, &all, &err));
        assert_ok(es_partial_finish(all, &merged.out, &err)); /* no key yet: the sink alone */
        assert_equals(merged.out.top_weight[0], 1.0);
        assert_equals(merged.out.output[0], 0.0);
        es_moments_free(&merged.out.moments[0]);
        for (int i = 0; i < 4; i++) {
            const es_view k = es_view_rows(&p.vk, cuts[i], cuts[i + 1] - cuts[i]);
            const es_view v = es_view_rows(&p.vv, cuts[i], cuts[i + 1] - cuts[i]);
            assert_ok(es_partial_new(m, p.dv, &opts, &part, &err));
            assert_ok(es_partial_attend(part, &p.vq, &k, &v, cuts[i], &err));
            assert_ok(es_partial_merge(all, part, &err));
            es_partial_free(part);
        }
        assert_ok(es_partial_finish(all, &merged.out, &err));
        const bounds bound = bounds_for(ES_F64, largest_score(&p), p.n);
        assert_agree(&merged, &whole, &bound);
        for (int change = 0; change < 3; change++) {
            const double other = 5.5;
            es_attend_opts changed = opts;
            changed.sink = change == 0 ? NULL : change == 1 ? &other : opts.sink;
            changed.score_cap = change == 2 ? 4.5 : opts.score_cap;
            assert_ok(es_partial_new(m, p.dv, &changed, &part, &err));
            assert_int_equal(es_partial_merge(all, part, &err), ES_E_SHAPE);
            es_partial_free(part);
        }
        es_partial_free(all);
        result_free(&whole);
        result_free(&merged);
        problem_free(&p);
    }
}

/* ---- accuracy and refusals ---- */

/* The promises of attend.h hold with a cap: the largest scores are some 10 nats. */
static void caps_keep_the_promised_accuracy(void **state)
{
    (void)state;
    enum { M = 24, N = 5000, D = 64 };
    const double scale = 10.0 / 32.0, sink = 4.0;
    static const double caps[] = {5.0, 30.0, 50.0};
    state_of_rng = 4242;
    double *q = normals(M * D), *k = uniforms(N * D), *v = uniforms(N * D), *y[2];
    const es_view vq = es_view_f64(q, M, D), vk = es_view_f64(k, N, D), vv = es_view_f64(v, N, D);
    y[0] = normals(M * D), y[1] = normals(M * D);
    for (size_t t = 0; t < sizeof caps / sizeof caps[0]; t++)
        for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
            es_attend_opts opts = {.precision = precision,
                                   .scales = &scale,
                                   .n_scales = 1,
                                   .score_cap = caps[t],
                                   .sink = &sink};
            double off = 0.0, size = 0.0;
            assert_ok(es_attend(&vq, &vk, &vv, &opts, &(es_attend_out){.output = y[0]}, &err));
            assert_ok(
                es_attend_reference(&vq, &vk, &vv, &opts, &(es_attend_out){.output = y[1]}, &err));
            for (int64_t i = 0; i < M * D; i++) {
                off += pow(y[0][i] - y[1][i], 2.0);
                size += pow(y[1][i], 2.0);
            }
            print_message("cap %g, %s: relative L2 error %.2g\n", caps[t], es_dtype_name(precision),
                          sqrt(off / size));
            assert_below(sqrt(off / size),
                         precision == ES_F32 ? ES_ATTEND_F32_ERROR : ES_ATTEND_F64_ERROR);
        }
    double *const all[] = {q, k, v, y[0], y[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void logits_and_caps_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    double x[4] = {1.0, 2.0, 3.0, 4.0}, y[2];
    const es_view two = es_view_f64(x, 2, 1);
    static const double logits[] = {NAN, INFINITY,
                                    DBL_MAX}; /* the last overflows in units of log 2 */
    static const double caps[] = {NAN, -1.0, INFINITY, 1e-30, 1e30};
    const es_attend_out out = {.output = y};
    for (size_t i = 0; i < sizeof logits / sizeof logits[0]; i++) {
        const es_attend_opts opts = {.sink = &logits[i]};
        assert_int_equal(es_attend(&two, &two, &two, &opts, &out, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "attend.sink");
        assert_int_equal(es_attend_reference(&two, &two, &two, &opts, &out, &err), ES_E_ARGUMENT);
    }
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        const es_attend_opts opts = {.score_cap = caps[i]};
        assert_int_equal(es_attend(&two, &two, &two, &opts, &out, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "attend.score_cap");
    }
}

TEST_FILE(attend_sinks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_and_reference_are_numpy),
        cmocka_unit_test(engine_agrees_with_the_reference_on_sinks),
        cmocka_unit_test(a_sink_far_below_is_none_bit_for_bit),
        cmocka_unit_test(a_sink_is_one_more_key),
        cmocka_unit_test(a_sink_takes_its_share_of_the_output),
        cmocka_unit_test(a_high_cap_is_none),
        cmocka_unit_test(a_query_that_sees_no_key_has_the_sink),
        cmocka_unit_test(threads_do_not_change_a_bit_of_sinks),
        cmocka_unit_test(a_sink_counts_once_in_merged_states),
        cmocka_unit_test(caps_keep_the_promised_accuracy),
        cmocka_unit_test(logits_and_caps_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
