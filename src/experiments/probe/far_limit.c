/* SPDX-License-Identifier: Apache-2.0 */
/* far_limit.c : the limit of a query's far field, its exact error, that of Gaussian keys, and the
 * error of the limit itself (THEORY 20). */
#include "experiments/probe/far_inside.h"

#include <math.h>

#include "base/error.h"
#include "risk/far_risk.h"
#include "stats/average.h"

enum { MOST_STRATA = 64 };

/* Multiples of this are spread evenly, modulo 1. */
#define GOLDEN 0.6180339887498949

/* Accuracy of the integral: far below what a few draws can show. */
#define TOLERANCE 1e-4

/* ---- the exact error ---- */

/* Distances of one stratum and where its keys are. */
typedef struct strata {
    es_far_stratum of[MOST_STRATA];
    int64_t from[MOST_STRATA], count;
} strata;

/* Cuts the far distances into half octaves. */
static void cut(const far_query *q, strata *s)
{
    const int64_t end = q->from + q->far;
    for (int64_t from = q->from; from < end && s->count < MOST_STRATA; s->count++) {
        int64_t to = (int64_t)llround(sqrt(2.0) * (double)from);
        to = to <= from ? from + 1 : to;
        to = to > end || s->count == MOST_STRATA - 1 ? end : to;
        s->from[s->count] = from;
        s->of[s->count].draws = (double)(to - from);
        from = to;
    }
}

/* Fills one key of a stratum: a pool key at a distance of that stratum. */
static void put_atom(const far_work *w, const far_query *q, const far_sources *from,
                     int64_t distance, const double *u, double *score, double *value)
{
    const es_far_pool *pool = from->pool;
    const int64_t row = far_row(w, q, from, q->at - distance, u);
    const float *v = es_far_pool_value(pool, w->c, w->seen->layer, w->kv_head, row);
    *score =
        far_score(w, q, distance, es_far_pool_key(pool, w->c, w->seen->layer, w->kv_head, row));
    for (int64_t c = 0; c < w->dv; c++)
        value[c] = (double)v[c];
}

/* Keys of all strata (strata, ES_FAR_PARTS, atoms / ES_FAR_PARTS), one part of the pool after the
 * other; what Gaussian keys need; and the probabilities of a stratum's keys without one part. */
typedef struct sampled {
    double *scores, *values, *sure, *limit;
    double *shares;                         /* (ES_FAR_PARTS, atoms) */
    double *nodes, *node_values, *node_row; /* of es_far_nodes, all strata */
} sampled;

/* Allocates them, with the values of the sure keys. */
static es_status allocate(const far_work *w, const far_query *q, int64_t n_strata, es_arena *arena,
                          sampled *out, es_error *err)
{
    const int64_t atoms = w->spec->atoms, nodes = n_strata * ES_FAR_NODES;
    ES_TRY(ES_ARENA_NEW(arena, out->scores, n_strata * atoms, "scores", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->values, n_strata * atoms, w->dv, "values", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->sure, q->sure, w->dv, "values", err));
    ES_TRY(ES_ARENA_NEW(arena, out->limit, w->dv, "a limit", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->shares, ES_FAR_PARTS, atoms, "shares", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->nodes, 2, nodes, "Gaussian scores", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->node_values, nodes, w->dv, "Gaussian values", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->node_row, 2, w->dv, "means", err));
    for (int64_t j = 0; j < q->sure; j++)
        for (int64_t c = 0; c < w->dv && w->value_of[j]; c++)
            out->sure[j * w->dv + c] = (double)w->value_of[j][c];
    const int64_t of_part = atoms / ES_FAR_PARTS;
    for (int64_t i = 0; i < ES_FAR_PARTS * atoms; i++)
        out->shares[i] = i % atoms / of_part == i / atoms ? 0.0 : 1.0 / (double)(atoms - of_part);
    return ES_OK;
}

/* Samples the keys of stratum d that come from one part of the pool, at distances that are evenly
 * spread over it. */
static void sample_part(const far_work *w, const far_query *q, const strata *s, int64_t d, int part,
                        const sampled *out)
{
    const int64_t count = w->spec->atoms / ES_FAR_PARTS, first = (d * ES_FAR_PARTS + part) * count;
    const far_sources from = far_sources_of(w, w->text->pool, part, ES_FAR_PARTS);
    for (int64_t a = 0; a < count; a++) {
        const double share = ((double)a + 0.5) / (double)count;
        const int64_t distance = s->from[d] + (int64_t)(share * s->of[d].draws), at = first + a;
        put_atom(w, q, &from, distance, w->uniform + 2 * (part * count + a), &out->scores[at],
                 out->values + at * w->dv);
    }
}

/* Samples keys of all strata. */
static es_status sample(far_work *w, const far_query *q, const strata *s, const sampled *out,
                        es_error *err)
{
    for (int64_t d = 0; d < s->count; d++) {
        ES_TRY(far_uniforms(w, q, 2 * ES_FAR_PARTS + (int)d, w->spec->atoms, err));
        for (int part = 0; part < ES_FAR_PARTS; part++)
            sample_part(w, q, s, d, part, out);
    }
    return ES_OK;
}

/* Returns the stratum d of Gaussian keys with the mean and covariance of those of `from`. */
static es_far_stratum gaussian_of(const far_work *w, const es_far_stratum *from, int64_t d,
                                  const sampled *keys)
{
    const es_far_nodes nodes = {.scores = keys->nodes + 2 * d * ES_FAR_NODES,
                                .shares = keys->nodes + (2 * d + 1) * ES_FAR_NODES,
                                .values = keys->node_values + d * ES_FAR_NODES * w->dv,
                                .mean = keys->node_row,
                                .slope = keys->node_row + w->dv};
    return es_far_gaussian(from, w->dv, &nodes);
}

/* Computes (F2) without the keys of one part, or by all of them: part -1; of keys as they are, or
 * of Gaussian ones. */
static es_status risk_of(const far_work *w, const far_query *q, const strata *s,
                         const sampled *keys, int part, bool gaussian, es_far_risk *out,
                         es_error *err)
{
    const int64_t atoms = w->spec->atoms;
    es_far_stratum of[MOST_STRATA];
    for (int64_t d = 0; d < s->count; d++) {
        of[d] = (es_far_stratum){
            .draws = s->of[d].draws,
            .keys = {atoms, keys->scores + d * atoms, keys->values + d * atoms * w->dv},
            .shares = part < 0 ? NULL : keys->shares + part * atoms};
        if (gaussian)
            of[d] = gaussian_of(w, &of[d], d, keys);
    }
    const es_far_query query = {w->dv, {q->sure, w->score, keys->sure}, of, s->count};
    return es_far_risk_of(&query, TOLERANCE, w->budget, keys->limit, out, err);
}

/* Returns the jackknife's pseudo-value from a number by all keys and one without a part (F3). */
static double pseudo(double all, double without)
{
    return ES_FAR_PARTS * all - (ES_FAR_PARTS - 1) * without;
}

/* Adds the risk of keys as they are, with the first order of 1 / keys taken off (F3). */
static es_status add_risk(const far_work *w, const far_query *q, const strata *s,
                          const sampled *keys, es_far_cell *cell, es_error *err)
{
    es_far_risk all, less;
    ES_TRY(risk_of(w, q, s, keys, -1, false, &all, err));
    for (int p = 0; p < ES_FAR_PARTS; p++) {
        ES_TRY(risk_of(w, q, s, keys, p, false, &less, err));
        const double exact = pseudo(all.square.val, less.square.val);
        const double bias = pseudo(all.bias2, less.bias2);
        cell->exact_part[p] += exact;
        cell->bias_part[p] += bias;
        cell->exact += exact / ES_FAR_PARTS;
        cell->exact_bias += bias / ES_FAR_PARTS;
        cell->sampling += pseudo(all.sampling, less.sampling) / ES_FAR_PARTS;
    }
    return ES_OK;
}

/* Adds the risk of Gaussian keys, without (F3): it takes only means and covariances of keys. */
static es_status add_gaussian(const far_work *w, const far_query *q, const strata *s,
                              const sampled *keys, es_far_cell *cell, es_error *err)
{
    es_far_risk all;
    ES_TRY(risk_of(w, q, s, keys, -1, true, &all, err));
    cell->gaussian += all.square.val;
    return ES_OK;
}

es_status far_exact(far_work *w, const far_query *q, es_far_cell *cell, es_error *err)
{
    es_arena arena = {.budget = w->budget};
    strata s = {.count = 0};
    sampled keys;
    cut(q, &s);
    es_status status = allocate(w, q, s.count, &arena, &keys, err);
    if (status == ES_OK)
        status = sample(w, q, &s, &keys, err);
    if (status == ES_OK)
        status = add_risk(w, q, &s, &keys, cell, err);
    if (status == ES_OK)
        status = add_gaussian(w, q, &s, &keys, cell, err);
    es_arena_free(&arena);
    return status;
}

/* ---- the error of the limit ---- */

/* A sum of e^score and of e^score v (dv), in units of e^top. */
typedef struct weighted {
    double top, z, *n;
} weighted;

/* Adds `times` a key; value NULL: 0. */
static void add_key(weighted *sum, double score, double times, const float *value, int64_t dv)
{
    if (score > sum->top) {
        const double less = exp(sum->top - score);
        sum->z *= less;
        for (int64_t c = 0; c < dv; c++)
            sum->n[c] *= less;
        sum->top = score;
    }
    const double e = times * exp(score - sum->top);
    sum->z += e;
    for (int64_t c = 0; c < dv && value; c++)
        sum->n[c] += e * (double)value[c];
}

/* Adds all keys of a part of the pool to the sum over a stratum, each at one of its distances. */
static void add_pool(const far_work *w, const far_query *q, const far_sources *from, double draws,
                     int64_t first, weighted *sum)
{
    const es_far_pool *pool = from->pool;
    const int64_t keys = from->count * pool->rows;
    for (int64_t a = 0; a < keys; a++) {
        const double turn = (double)a * GOLDEN;
        const int64_t distance = first + (int64_t)((turn - floor(turn)) * draws);
        const double u[2] = {((double)(a / pool->rows) + 0.5) / (double)from->count,
                             ((double)(a % pool->rows) + 0.5) / (double)pool->rows};
        const int64_t row = far_row(w, q, from, q->at - distance, u);
        const float *key = es_far_pool_key(pool, w->c, w->seen->layer, w->kv_head, row);
        add_key(sum, far_score(w, q, distance, key), draws / (double)keys,
                es_far_pool_value(pool, w->c, w->seen->layer, w->kv_head, row), w->dv);
    }
}

/* Finds the limit (F1) by the keys of one part of the pool: y (dv), zeros before. */
static void find_limit(const far_work *w, const far_query *q, const strata *s, int part, double *y)
{
    const far_sources from = far_sources_of(w, w->text->pool, part, ES_FAR_PARTS);
    weighted sum = {.top = -(double)INFINITY, .n = y};
    for (int64_t j = 0; j < q->sure; j++)
        add_key(&sum, w->score[j], 1.0, w->value_of[j], w->dv);
    for (int64_t d = 0; d < s->count; d++)
        add_pool(w, q, &from, s->of[d].draws, s->from[d], &sum);
    for (int64_t c = 0; c < w->dv; c++)
        y[c] /= sum.z;
}

es_status far_limit_error(far_work *w, const far_query *q, double *out, es_error *err)
{
    strata s = {.count = 0};
    double *limits;
    cut(q, &s);
    ES_TRY(ES_MEM_NEW_2D(w->budget, limits, ES_FAR_PARTS, w->dv, "limits", err));
    for (int p = 0; p < ES_FAR_PARTS; p++)
        find_limit(w, q, &s, p, limits + p * w->dv);
    *out = 0.0;
    for (int64_t c = 0; c < w->dv; c++)
        *out += es_spread_of(limits + c, ES_FAR_PARTS, w->dv).squares;
    *out /= ES_FAR_PARTS * (ES_FAR_PARTS - 1);
    es_mem_free(w->budget, limits);
    return ES_OK;
}
