/* SPDX-License-Identifier: Apache-2.0 */
/* attend_problem.h : a question to es_attend() with whatever may be asked of it, on normal data,
 * and the engine's answer on every CPU beside the reference's. */
#ifndef ES_ATTEND_PROBLEM_H
#define ES_ATTEND_PROBLEM_H

#include "attend_results.h"
#include "attention/kernels.h"
#include "numbers.h"

typedef struct problem {
    int64_t m, n, d, dv, n_scales, n_prefixes;
    double scales[4];
    int64_t prefixes[5], top_k[2], block;
    bool self, exclude_self;
    double cap, sink; /* cap of scores, 0: none; logit of the sink, */
    bool has_sink;    /* if there is one */
    bool masked;      /* is `mask` asked for? */
    es_mask mask;
    int64_t *positions, *offsets, *keys;  /* what the mask points to; may be NULL */
    double *list_factors, *class_factors; /* (lists), (4) */
    uint8_t *classes;
    double *q, *k, *v;
    es_view vq, vk, vv;
    void *memory[2]; /* of keys and values laid out otherwise */
} problem;

static inline void draw_data(problem *p)
{
    p->q = normals(p->m * p->d), p->k = normals(p->n * p->d), p->v = normals(p->n * p->dv);
    p->vq = es_view_f64(p->q, p->m, p->d), p->vk = es_view_f64(p->k, p->n, p->d);
    p->vv = es_view_f64(p->v, p->n, p->dv);
}

static inline void problem_free(problem *p)
{
    void *const all[] = {p->class_factors, p->positions, p->offsets, p->keys, p->list_factors,
                         p->classes,       p->q,         p->k,       p->v,    p->memory[0],
                         p->memory[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* One in ten is 0; others up to 10^(most - 2)/sqrt(d). */
static inline void draw_scales(problem *p, double most)
{
    for (int64_t s = 0; s < p->n_scales; s++)
        p->scales[s] =
            uniform() < 0.1 ? 0.0 : pow(10.0, -2.0 + most * uniform()) / sqrt((double)p->d);
}

static inline es_attend_opts options(const problem *p, es_dtype precision, const es_exec *exec)
{
    return (es_attend_opts){.precision = precision,
                            .scales = p->scales,
                            .n_scales = p->n_scales,
                            .prefixes = p->prefixes,
                            .n_prefixes = p->n_prefixes,
                            .score_cap = p->cap,
                            .sink = p->has_sink ? &p->sink : NULL,
                            .self = p->self,
                            .exclude_self = p->exclude_self,
                            .mask = p->masked ? &p->mask : NULL,
                            .top_k = p->top_k,
                            .n_top_k = 2,
                            .spread = p->block > 0,
                            .block = p->block,
                            .exec = exec};
}

static inline result result_for(const problem *p)
{
    result r = result_new(p->n_scales, p->n_prefixes, p->m, p->dv, 2);
    if (!p->block)
        without_spreads(&r);
    return r;
}

/* Largest |score| in nats, and the factors: no corrected score is larger. A cap adds its own error,
 * ES_CAP_ERROR units of a score, where bounds_for() counts four. */
static inline double largest_score(const problem *p)
{
    double largest = 0.0, scale = 0.0, factor = 0.0;
    for (int64_t s = 0; s < p->n_scales; s++)
        scale = fmax(scale, p->scales[s]);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double dot = 0.0;
            for (int64_t c = 0; c < p->d; c++)
                dot += p->q[i * p->d + c] * p->k[j * p->d + c];
            largest = fmax(largest, fabs(dot));
        }
    for (int c = 0; p->class_factors && c < 4; c++)
        factor = fmax(factor, fabs(p->class_factors[c]));
    for (int64_t i = 0; p->list_factors && i < p->m; i++)
        factor = fmax(factor, fabs(p->list_factors[i / p->mask.list_queries]));
    const double capped = p->cap > 0.0 ? fmin(p->cap, scale * largest) : 0.0;
    return scale * largest + 2.0 * factor + ES_CAP_ERROR / 4.0 * capped;
}

/* The first key with the largest score: in f64 random scores are never so near that rounding
 * decides, but where the scale is 0; there the engine names a key that is the first at the largest
 * scale. Nor where a cap makes large scores equal. */
static inline void assert_same_tops(const problem *p, const result *a, const result *ref)
{
    for (int64_t s = 0; s < p->n_scales; s++)
        for (int64_t i = s * p->n_prefixes * p->m; i < (s + 1) * p->n_prefixes * p->m; i++)
            if (p->scales[s] > 0.0 && !(p->cap > 0.0))
                assert_int_equal(a->out.top_index[i], ref->out.top_index[i]);
}

/* On every CPU's tiles, in both precisions. */
static inline void check_problem(const problem *p)
{
    const double largest = largest_score(p);
    es_attend_opts opts = options(p, ES_F64, NULL);
    result ref = result_for(p);
    assert_ok(es_attend_reference(&p->vq, &p->vk, &p->vv, &opts, &ref.out, &err));
    for (size_t i = 0; i < sizeof every_isa / sizeof every_isa[0]; i++) {
        if (!es_isa_available(every_isa[i]))
            continue;
        for (es_dtype precision = ES_F32; precision <= ES_F64; precision++) {
            const es_exec exec = {.threads = 2, .isa = every_isa[i]};
            opts = options(p, precision, &exec);
            result fast = result_for(p);
            assert_ok(es_attend(&p->vq, &p->vk, &p->vv, &opts, &fast.out, &err));
            const bounds bound = bounds_for(precision, largest, p->n);
            assert_agree(&fast, &ref, &bound);
            if (precision == ES_F64)
                assert_same_tops(p, &fast, &ref);
            result_free(&fast);
        }
    }
    result_free(&ref);
}

/* Of so many random problems a third will do where everything is slow (sanitizers). */
static inline int trials_of(int all) { return getenv("ESSCHER_QUICK_TESTS") ? all / 3 : all; }

/* The seed of random problems: ESSCHER_TEST_SEED, or the test's own. */
static inline uint64_t seed_of_test(uint64_t own)
{
    const char *text = getenv("ESSCHER_TEST_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : own;
    print_message("seed %llu (ESSCHER_TEST_SEED sets another)\n", (unsigned long long)seed);
    return seed;
}

#endif
