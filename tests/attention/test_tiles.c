/* SPDX-License-Identifier: Apache-2.0 */
/* test_tiles.c : every tile of every CPU against plain loops.
 *
 * Built again for one table, ES_EMULATED, with intrinsics emulated (SIMDe), so that tiles for
 * AVX-512 and NEON are tested on machines without them. */
#include "testing.h"

#include <float.h>

#include "attention/problem.h"
#include "attention/tiles.h"
#include "base/memory.h"
#include "numbers.h"

/* The kernels this program can run. */
static int kernels_here(const es_kernels *found[6])
{
    int count = 0;
#ifdef ES_EMULATED
    found[count++] = &ES_EMULATED[0];
    found[count++] = &ES_EMULATED[1];
#else
    for (es_isa isa = ES_ISA_PORTABLE; isa <= ES_ISA_NEON; isa++)
        for (es_dtype dtype = ES_F32; dtype <= ES_F64 && es_isa_available(isa); dtype++)
            found[count++] = es_kernels_find(isa, dtype);
#endif
    return count;
}

#define FOR_EACH_KERNEL(k)                                                                         \
    const es_kernels *found_[6];                                                                   \
    const int count_ = kernels_here(found_);                                                       \
    for (int i_ = 0; i_ < count_; i_++)                                                            \
        for (const es_kernels *k = found_[i_]; k; k = NULL)

static const char *name_of(const es_kernels *k)
{
    static char name[32];
    snprintf(name, sizeof name, "%s %s", es_isa_name(k->isa), es_dtype_name(k->dtype));
    return name;
}

/* Aligned buffers of the kernel's type, filled from and read as doubles. */
static void *buffer(const es_kernels *k, const double *x, int64_t count)
{
    void *memory;
    assert_ok(es_mem_array(NULL, count, 1, es_dtype_size(k->dtype), "test", &memory, &err));
    for (int64_t i = 0; x && i < count; i++) {
        if (k->dtype == ES_F32)
            ((float *)memory)[i] = (float)x[i];
        else
            ((double *)memory)[i] = x[i];
    }
    return memory;
}

static double at(const es_kernels *k, const void *memory, int64_t i)
{
    return k->dtype == ES_F32 ? (double)((const float *)memory)[i] : ((const double *)memory)[i];
}

static double eps(const es_kernels *k) { return k->dtype == ES_F32 ? 0x1p-24 : 0x1p-53; }

/* With values as they lie: rows with gaps. */
static void product_is_a_matrix_product(void **state)
{
    (void)state;
    static const int64_t depths[] = {1, 2, 3, 50, 193};
    FOR_EACH_KERNEL(k)
    {
        for (size_t t = 0; t < sizeof depths / sizeof depths[0]; t++) {
            const int64_t depth = depths[t], groups = 3, lanes = k->lanes, rows = groups * ES_GROUP;
            const int64_t stride = rows + 5;
            state_of_rng = 11 + t;
            double *a = normals(depth * lanes), *b = normals(depth * stride),
                   *c = normals(rows * lanes);
            void *ka = buffer(k, a, depth * lanes), *kb = buffer(k, b, depth * stride);
            for (int add = 0; add <= 1; add++) {
                void *kc = buffer(k, c, rows * lanes);
                k->product(ka, kb, stride, depth, groups, add, kc);
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t l = 0; l < lanes; l++) {
                        double exact = add ? c[r * lanes + l] : 0.0, size = fabs(exact);
                        for (int64_t j = 0; j < depth; j++) {
                            const double term = a[j * lanes + l] * b[j * stride + r];
                            exact += term;
                            size += fabs(term);
                        }
                        /* the classical bound for a sum of depth + 1 products */
                        assert_near(at(k, kc, r * lanes + l), exact,
                                    (double)(depth + 1) * 2.0 * eps(k) * size);
                    }
                es_mem_free(NULL, kc);
            }
            es_mem_free(NULL, ka);
            es_mem_free(NULL, kb);
            free(a);
            free(b);
            free(c);
        }
    }
}

/* Scores of a panel with keys as they lie: rows with gaps, and as many as make no whole group. */
static void scores_are_products_with_keys_as_they_lie(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {2, 3}, {5, 50}, {96, 64}, {11, 129}};
    FOR_EACH_KERNEL(k)
    {
        for (size_t t = 0; t < sizeof shapes / sizeof shapes[0]; t++) {
            const int64_t keys = shapes[t][0], d = shapes[t][1], stride = d + 3, lanes = k->lanes;
            state_of_rng = 23 + t;
            double *a = normals(d * lanes), *x = normals(keys * stride);
            void *ka = buffer(k, a, d * lanes), *kx = buffer(k, x, keys * stride),
                 *s = buffer(k, NULL, (keys + 3) / 4 * 4 * lanes);
            k->scores(ka, d, kx, stride, keys, s);
            for (int64_t i = 0; i < keys * lanes; i++) {
                double exact = 0.0, size = 0.0;
                for (int64_t j = 0; j < d; j++) {
                    const double term = a[j * lanes + i % lanes] * x[i / lanes * stride + j];
                    exact += term;
                    size += fabs(term);
                }
                assert_near(at(k, s, i), exact, (double)d * 2.0 * eps(k) * size);
            }
            es_mem_free(NULL, ka);
            es_mem_free(NULL, kx);
            es_mem_free(NULL, s);
            free(a);
            free(x);
        }
    }
}

/* Rows with gaps between them, queries and channels that fill no register; all of it within the
 * classical bound for a sum of so many products. */
static void tiles_for_few_queries_are_products(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},   {2, 5, 3},   {3, 8, 16},
                                        {7, 50, 64}, {4, 9, 131}, {6, 47, 70}};
    FOR_EACH_KERNEL(k)
    {
        for (size_t t = 0; t < sizeof shapes / sizeof shapes[0]; t++) {
            const int64_t m = shapes[t][0], keys = shapes[t][1], d = shapes[t][2];
            const int64_t stride = d + 5, pitch = 56, out_pitch = 192;
            state_of_rng = 41 + t;
            double *q = normals(m * d), *x = normals(keys * stride), *w = normals(m * pitch);
            void *kq = buffer(k, q, m * d), *kx = buffer(k, x, keys * stride),
                 *kw = buffer(k, w, m * pitch), *s = buffer(k, NULL, m * pitch),
                 *y = buffer(k, NULL, m * out_pitch);
            const double seen_k = k->dots(kq, m, d, kx, stride, keys, s, pitch);
            const double seen_v = k->mix(kw, pitch, m, kx, stride, keys, d, y, out_pitch);
            for (int64_t i = 0; i < m; i++) {
                for (int64_t j = 0; j < keys; j++) {
                    double exact = 0.0, size = 0.0;
                    for (int64_t c = 0; c < d; c++) {
                        exact += q[i * d + c] * x[j * stride + c];
                        size += fabs(q[i * d + c] * x[j * stride + c]);
                    }
                    assert_near(at(k, s, i * pitch + j), exact, (double)d * 2.0 * eps(k) * size);
                }
                for (int64_t c = 0; c < d; c++) {
                    double exact = 0.0, size = 0.0;
                    for (int64_t j = 0; j < keys; j++) {
                        exact += w[i * pitch + j] * x[j * stride + c];
                        size += fabs(w[i * pitch + j] * x[j * stride + c]);
                    }
                    assert_near(at(k, y, i * out_pitch + c), exact,
                                (double)keys * 2.0 * eps(k) * size);
                }
            }
            double squares = 0.0, last = 0.0;
            for (int64_t j = 0; j < keys; j++)
                for (int64_t c = 0; c < d; c++) {
                    squares += x[j * stride + c] * x[j * stride + c];
                    last += j == keys - 1 ? x[j * stride + c] * x[j * stride + c] : 0.0;
                }
            const double bound = (double)(keys * d) * 2.0 * eps(k);
            assert_close(k->squares(kx, stride, keys, d), squares, bound);
            assert_close(seen_v, squares, bound);
            assert_close(seen_k, squares + (double)(3 - (keys + 3) % 4) * last, 2.0 * bound);
            void *const all[] = {kq, kx, kw, s, y};
            for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
                es_mem_free(NULL, all[i]);
            free(q);
            free(x);
            free(w);
        }
    }
}

static void tilt_is_accurate_over_its_whole_range(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k)
    {
        enum { ROWS = 2001 }; /* odd: the last row has no partner */
        const double lowest = k->dtype == ES_F32 ? -125.9 : -1021.9,
                     highest = 16.0; /* the slack of an offset */
        const int64_t lanes = k->lanes;
        double *x = normals(ROWS * lanes), *offsets = normals(lanes), worst = 0.0;
        for (int64_t l = 0; l < lanes; l++)
            offsets[l] = (double)(7 * l - 40); /* integers, as always */
        for (int64_t i = 0; i < ROWS * lanes; i++)
            x[i] = 2.0 * (offsets[i % lanes] + lowest +
                          (highest - lowest) * (double)i / (double)(ROWS * lanes));
        void *s = buffer(k, x, ROWS * lanes), *w = buffer(k, NULL, ROWS * lanes),
             *offset = buffer(k, offsets, lanes);
        double sums[3 * ES_MAX_LANES], plain[3 * ES_MAX_LANES];
        k->tilt(s, ROWS, 0.5, offset, true, w, plain);
        k->tilt(s, ROWS, 0.5, offset, false, w, sums);
        double weight[ES_MAX_LANES] = {0}, tilted[ES_MAX_LANES] = {0}, squares[ES_MAX_LANES] = {0};
        for (int64_t i = 0; i < ROWS * lanes; i++) {
            const double power = 0.5 * at(k, s, i) - offsets[i % lanes], exact = exp2(power),
                         e = at(k, w, i);
            /* c*s - offset is rounded once, which shifts the exponent by up to eps*|power| */
            worst =
                fmax(worst, (fabs(e / exact - 1.0) - eps(k) * 0.7 * fabs(power)) / (2.0 * eps(k)));
            weight[i % lanes] += e;
            tilted[i % lanes] += e * power;
            squares[i % lanes] += e * e;
        }
        print_message("%s: 2^x within %.2f ulp\n", name_of(k), worst);
        assert_below(worst, 2.0); /* polynomial 0.8 ulp in f32, 0.02 in f64; the rest is rounding of
                                     its evaluation */
        for (int64_t l = 0; l < lanes; l++) {
            assert_equals(plain[l], sums[l]);
            assert_close(sums[l], weight[l], ROWS * eps(k));
            assert_near(sums[lanes + l], tilted[l], ROWS * eps(k) * weight[l] * highest);
            assert_close(sums[2 * lanes + l], squares[l], ROWS * 2.0 * eps(k));
        }
        es_mem_free(NULL, s);
        es_mem_free(NULL, w);
        es_mem_free(NULL, offset);
        free(x);
        free(offsets);
    }
}

static void NU02_a_huge_score_at_its_own_offset_weighs_one(void **state)
{
    (void)state;
    /* 2^60 to 2^90 in f32, 2^90 to 2^120 in f64: roundings of c or of c*s are themselves huge, and
     * must be those the offset was made with. The second row is the next number below. */
    FOR_EACH_KERNEL(k)
    {
        const es_problem p = {.precision = k->dtype};
        const int64_t lanes = k->lanes;
        double scores[2 * ES_MAX_LANES], offsets[ES_MAX_LANES], sums[3 * ES_MAX_LANES];
        state_of_rng = 29;
        for (int trial = 0; trial < 50; trial++) {
            const double c = trial ? uniform() : 1.0;
            for (int64_t l = 0; l < lanes; l++) {
                const double score = ldexp(1.0 + uniform(), (int)between(60, 90));
                scores[l] = k->dtype == ES_F32 ? (double)(float)score : ldexp(score, 30);
                scores[lanes + l] = k->dtype == ES_F32 ? (double)nextafterf((float)scores[l], 0.0f)
                                                       : nextafter(scores[l], 0.0);
                offsets[l] = es_problem_rescale(&p, c, scores[l]);
            }
            void *s = buffer(k, scores, 2 * lanes), *offset = buffer(k, offsets, lanes);
            k->tilt(s, 2, c, offset, false, s, sums);
            for (int64_t l = 0; l < lanes; l++) {
                const double below = es_problem_rescale(&p, c, scores[lanes + l]) - offsets[l];
                assert_equals(at(k, s, l), 1.0);
                assert_equals(at(k, s, lanes + l), (below < 0.0 ? 0.0 : 1.0));
                assert_equals(sums[l], (below < 0.0 ? 1.0 : 2.0));
                assert_equals(sums[lanes + l], 0.0);
            }
            es_mem_free(NULL, s);
            es_mem_free(NULL, offset);
        }
    }
}

static void masked_and_tiny_weights_are_exact_zeros(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k)
    {
        const double lowest = k->dtype == ES_F32 ? -127.0 : -1023.0;
        const double odd[] = {NAN, lowest, -1e30, k->dtype == ES_F32 ? -FLT_MAX : -DBL_MAX};
        double x[2 * ES_MAX_LANES], zero[ES_MAX_LANES] = {0}, sums[3 * ES_MAX_LANES],
                                    top[ES_MAX_LANES];
        for (int64_t i = 0; i < 2 * k->lanes; i++)
            x[i] = i < k->lanes ? odd[i % 4] : NAN;
        void *s = buffer(k, x, 2 * k->lanes), *w = buffer(k, NULL, 2 * k->lanes),
             *offset = buffer(k, zero, k->lanes);
        k->top(s, 2, top);
        k->tilt(s, 2, 1.0, offset, false, w, sums);
        for (int64_t l = 0; l < k->lanes; l++) {
            assert_equals(at(k, w, l), 0.0);
            assert_equals(at(k, w, k->lanes + l), 0.0);
            assert_equals(sums[l], 0.0);
            assert_equals(sums[k->lanes + l], 0.0);
            assert_equals(sums[2 * k->lanes + l], 0.0);
            if (l % 4 == 0)
                assert_equals(top[l], -INFINITY);
            else
                assert_equals(top[l], at(k, s, l));
        }
        k->tilt(s, 2, 0.0, offset, false, w, sums); /* a masked key stays masked at scale 0 */
        for (int64_t l = 0; l < k->lanes; l++)
            assert_equals(at(k, w, l), (l % 4 == 0 ? 0.0 : 1.0));
        es_mem_free(NULL, s);
        es_mem_free(NULL, w);
        es_mem_free(NULL, offset);
    }
}

/* Scores from 1e-12 c to 1e12 c of either sign, zero and the largest number, against tanhl(). */
static void cap_is_accurate_over_its_whole_range(void **state)
{
    (void)state;
    static const double caps[] = {1e-18, 0.3, 50.0 * ES_LOG2_E, 1e6, 1e18};
    FOR_EACH_KERNEL(k)
    {
        enum { ROWS = 500 };
        const int64_t count = ROWS * k->lanes;
        double *x = normals(count), worst = 0.0;
        for (size_t t = 0; t < sizeof caps / sizeof caps[0]; t++) {
            const double c = caps[t];
            for (int64_t i = 0; i < count; i++) {
                const double share = (double)(i / 2) / (double)(count / 2);
                /* half of the points where tanh bends */
                const double size = i % 4 < 2 ? pow(10.0, -12.0 + 24.0 * share) : 12.0 * share;
                x[i] = (i % 2 ? -1.0 : 1.0) * c * size;
            }
            x[0] = 0.0;
            x[1] = k->dtype == ES_F32 ? -FLT_MAX : -DBL_MAX;
            void *s = buffer(k, x, count), *before = buffer(k, x, count);
            k->cap(s, ROWS, c);
            assert_equals(at(k, s, 0), 0.0);
            assert_equals(at(k, s, 1), (k->dtype == ES_F32 ? (double)(float)-c : -c));
            for (int64_t i = 1; i < count; i++) {
                const long double exact = c * tanhl((long double)at(k, before, i) / c);
                if (fabsl(exact) < 1e-30L) /* near the smallest normal number of f32 */
                    continue;
                worst = fmax(worst, fabs((double)(at(k, s, i) / exact - 1.0L)) / eps(k));
            }
            es_mem_free(NULL, s);
            es_mem_free(NULL, before);
        }
        print_message("%s: c tanh(s / c) within %.2f units\n", name_of(k), worst);
        assert_below(worst, (double)ES_CAP_ERROR); /* promised in attend.h */
        free(x);
    }
}

static void fold_moves_sums_into_f64(void **state)
{
    (void)state;
    FOR_EACH_KERNEL(k)
    {
        enum { COUNT = 101 };
        state_of_rng = 3;
        double *x = normals(COUNT), *wide = normals(COUNT), before[COUNT];
        memcpy(before, wide, sizeof before);
        void *narrow = buffer(k, x, COUNT);
        k->fold(narrow, COUNT, wide);
        for (int i = 0; i < COUNT; i++) {
            assert_equals(wide[i], before[i] + x[i]); /* x is exact in f32 */
            assert_equals(at(k, narrow, i), 0.0);
        }
        es_mem_free(NULL, narrow);
        free(x);
        free(wide);
    }
}

TEST_FILE(tiles)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_is_a_matrix_product),
        cmocka_unit_test(scores_are_products_with_keys_as_they_lie),
        cmocka_unit_test(tiles_for_few_queries_are_products),
        cmocka_unit_test(tilt_is_accurate_over_its_whole_range),
        cmocka_unit_test(NU02_a_huge_score_at_its_own_offset_weighs_one),
        cmocka_unit_test(masked_and_tiny_weights_are_exact_zeros),
        cmocka_unit_test(cap_is_accurate_over_its_whole_range),
        cmocka_unit_test(fold_moves_sums_into_f64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
