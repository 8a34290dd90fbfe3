/* SPDX-License-Identifier: Apache-2.0 */
/* attend_results.h : everything es_attend() can answer, and how two answers are compared. */
#ifndef ES_ATTEND_RESULTS_H
#define ES_ATTEND_RESULTS_H

#include <esscher/attend.h>

#include "testing.h"

static const es_isa every_isa[]
    __attribute__((unused)) = {ES_ISA_PORTABLE, ES_ISA_AVX2, ES_ISA_AVX512, ES_ISA_NEON};

/* ---- results of one run ---- */

typedef struct result {
    int64_t sets, m, dv, top; /* sets = scales * prefixes */
    es_attend_out out;
} result;

static inline result result_new(int64_t scales, int64_t prefixes, int64_t m, int64_t dv,
                                int64_t top)
{
    const int64_t sets = scales * prefixes;
    const size_t count = (size_t)(sets * m);
    result r = {.sets = sets, .m = m, .dv = dv, .top = top};
    r.out.output = calloc(count * (size_t)dv, sizeof(double));
    r.out.lse = calloc(count, sizeof(double));
    r.out.entropy = calloc(count, sizeof(double));
    r.out.top_weight = calloc(count, sizeof(double));
    r.out.top_index = calloc(count, sizeof(int64_t));
    r.out.sum_squares = calloc(count, sizeof(double));
    r.out.spread2 = calloc(count, sizeof(double));
    r.out.block_powers = calloc(3 * count, sizeof(double));
    r.out.block_spread2 = calloc(count * (size_t)dv, sizeof(double));
    r.out.top_mass = top ? calloc(count * (size_t)top, sizeof(double)) : NULL;
    r.out.moments = calloc((size_t)sets, sizeof(es_moments));
    return r;
}

static inline void result_free(result *r)
{
    for (int64_t i = 0; i < r->sets; i++)
        es_moments_free(&r->out.moments[i]);
    free(r->out.output);
    free(r->out.lse);
    free(r->out.entropy);
    free(r->out.top_weight);
    free(r->out.top_index);
    free(r->out.sum_squares);
    free(r->out.spread2);
    free(r->out.block_powers);
    free(r->out.block_spread2);
    free(r->out.top_mass);
    free(r->out.moments);
}

/* For those who cannot answer this. */
static inline void without_spreads(result *r)
{
    free(r->out.spread2);
    free(r->out.block_powers);
    free(r->out.block_spread2);
    r->out.spread2 = r->out.block_powers = r->out.block_spread2 = NULL;
}

/* Fails at the first of `count` numbers whose bits differ, and prints both. */
static inline void assert_same_bits(const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0)
            fail_msg("number %lld of %lld differs: %a, %a", (long long)i, (long long)count, a[i],
                     b[i]);
}

static inline void assert_identical(const result *a, const result *b)
{
    const int64_t count = a->sets * a->m;
    assert_same_bits(a->out.output, b->out.output, count * a->dv);
    assert_same_bits(a->out.lse, b->out.lse, count);
    assert_same_bits(a->out.entropy, b->out.entropy, count);
    assert_same_bits(a->out.top_weight, b->out.top_weight, count);
    assert_same_bits(a->out.sum_squares, b->out.sum_squares, count);
    assert_memory_equal(a->out.top_index, b->out.top_index, (size_t)count * sizeof(int64_t));
    if (a->out.spread2) {
        assert_same_bits(a->out.spread2, b->out.spread2, count);
        assert_same_bits(a->out.block_powers, b->out.block_powers, 3 * count);
        assert_same_bits(a->out.block_spread2, b->out.block_spread2, count * a->dv);
    }
    if (a->top)
        assert_same_bits(a->out.top_mass, b->out.top_mass, count * a->top);
    for (int64_t i = 0; i < a->sets; i++) {
        assert_int_equal(a->out.moments[i].count, b->out.moments[i].count);
        assert_same_bits(a->out.moments[i].mean, b->out.moments[i].mean, a->dv);
        assert_same_bits(a->out.moments[i].scatter, b->out.moments[i].scatter, a->dv * a->dv);
    }
}

/* Agreement asked for. `output` bounds |y - ref|_2 / |y_typical|_2 over a set, where y_typical also
 * contains the size of the values: when thousands of values average to nearly zero, no f32 sum is
 * accurate relative to the tiny result. Scores up to |s| carry an absolute error of about
 * eps*|s|*sqrt(d): bounds grow with the largest score. */
typedef struct bounds {
    double output, lse, entropy, weight;
} bounds;

static inline bounds bounds_for(es_dtype precision, double largest_score, int64_t n)
{
    const double eps = precision == ES_F32 ? 0x1p-24 : 0x1p-53;
    const double score_error = 4.0 * eps * (1.0 + largest_score);
    const double reference = 0x1p-53 * (double)n; /* the reference sums n terms one after another */
    return (bounds){.output = 12.0 * eps + 2.0 * score_error +
                              reference, /* 7e-7 in f32 at small scores */
                    .lse = 12.0 * eps + 2.0 * score_error + reference,
                    .entropy = 64.0 * eps + 20.0 * score_error + reference,
                    .weight = 24.0 * eps + 4.0 * score_error + reference};
}

/* Spreads of query i, of standard normal values (below 5 in size). What a block adds, N - Z y, is
 * wrong by `output` of 5 Z at most, whose squares sum to (5 output)^2 sum Z^2, and Cauchy-Schwarz
 * does the rest, but
 * for the three sums of squares, whose difference it is, in f64; terms of the spread of keys are
 * w^2 |v - y|^2 < 100 w^2 dv. */
static inline void assert_spreads_agree(const result *a, const result *ref, int64_t i,
                                        const bounds *bound)
{
    const double *x = a->out.block_spread2 + i * a->dv, *y = ref->out.block_spread2 + i * a->dv;
    const double *powers = ref->out.block_powers + 3 * i;
    const double blocks = powers[0], off2 = pow(5.0 * bound->output, 2.0) * blocks;
    for (int k = 0; k < 3; k++)
        assert_near(a->out.block_powers[3 * i + k], powers[k], (2 + k) * bound->weight * powers[k]);
    for (int64_t c = 0; c < a->dv; c++)
        assert_near(x[c], y[c],
                    4.0 * bound->weight * y[c] + 2.0 * sqrt(y[c] * off2) + off2 +
                        8.0 * 0x1p-53 * 25.0 * blocks);
    assert_near(a->out.spread2[i], ref->out.spread2[i],
                2.0 * bound->weight * 100.0 * (double)a->dv * ref->out.sum_squares[i]);
}

static inline void assert_agree(const result *a, const result *ref, const bounds *bound)
{
    for (int64_t set = 0; set < a->sets; set++) {
        double difference = 0.0, size = 0.0;
        for (int64_t i = set * a->m; i < (set + 1) * a->m; i++) {
            if (isnan(ref->out.lse[i])) { /* self mode: no such query at this prefix */
                assert_nan(a->out.lse[i]);
                assert_nan(a->out.entropy[i]);
                assert_nan(a->out.output[i * a->dv]);
                if (a->out.spread2) {
                    assert_nan(a->out.spread2[i]);
                    assert_nan(a->out.block_powers[3 * i]);
                    assert_nan(a->out.block_spread2[i * a->dv]);
                }
                assert_int_equal(a->out.top_index[i], -1);
                continue;
            }
            for (int64_t c = i * a->dv; c < (i + 1) * a->dv; c++) {
                difference += pow(a->out.output[c] - ref->out.output[c], 2.0);
                size += pow(ref->out.output[c], 2.0) + ref->out.sum_squares[i];
            }
            assert_near(a->out.lse[i], ref->out.lse[i], bound->lse * (1.0 + fabs(ref->out.lse[i])));
            assert_near(a->out.entropy[i], ref->out.entropy[i],
                        bound->entropy * (1.0 + ref->out.entropy[i]));
            assert_near(a->out.top_weight[i], ref->out.top_weight[i],
                        bound->weight * ref->out.top_weight[i]);
            assert_near(a->out.sum_squares[i], ref->out.sum_squares[i],
                        2.0 * bound->weight * ref->out.sum_squares[i]);
            if (a->out.spread2)
                assert_spreads_agree(a, ref, i, bound);
            for (int64_t t = i * a->top; t < (i + 1) * a->top; t++)
                assert_near(a->out.top_mass[t], ref->out.top_mass[t],
                            bound->weight * ref->out.top_mass[t]);
        }
        if (!(sqrt(difference) <= bound->output * sqrt(size)))
            fail_msg("set %d: relative error %.3g > %.3g", (int)set, sqrt(difference / size),
                     bound->output);

        const es_moments *x = &a->out.moments[set], *y = &ref->out.moments[set];
        assert_int_equal(x->count, y->count);
        double trace = 0.0;
        for (int64_t c = 0; c < a->dv; c++)
            trace += y->scatter[c * a->dv + c] / (double)y->count + y->mean[c] * y->mean[c];
        const double typical =
            sqrt(trace / (double)a->dv) + sqrt(size / (double)(a->dv * y->count));
        for (int64_t c = 0; c < a->dv; c++) {
            assert_near(x->mean[c], y->mean[c], 8.0 * bound->output * typical);
            for (int64_t e = 0; e <= c; e++)
                assert_near(x->scatter[c * a->dv + e] / (double)y->count,
                            y->scatter[c * a->dv + e] / (double)y->count,
                            16.0 * bound->output * typical * typical);
        }
    }
}

#endif
