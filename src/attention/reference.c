/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c : attention as one would write it on a blackboard, in f64. Slow, short, and the judge
 * of all else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/partial.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/vectors.h"
#include "base/view.h"
#include "stats/moments.h"

/* Returns whether the list of query i has key j. */
static bool is_listed(const es_mask *mask, int64_t i, int64_t j)
{
    const int64_t list = i / mask->list_queries;
    for (int64_t at = mask->list_offsets[list]; at < mask->list_offsets[list + 1]; at++)
        if (mask->list_keys[at] == j)
            return true;
    return false;
}

/* What the mask adds to the score of query i and key j (nats); -inf if it does not see it. As
 * attend.h says it, and nothing of what the engine uses. */
static double masked(const es_problem *p, int64_t i, int64_t j)
{
    const es_mask *mask = p->mask;
    const int64_t place = mask && mask->positions ? mask->positions[i] : i;
    if (p->exclude_self && j == place)
        return -INFINITY;
    if (!mask)
        return 0.0;
    const double factor = mask->n_classes ? mask->class_factors[mask->classes[j]] : 0.0;
    if (mask->causal && j > place)
        return -INFINITY;
    if (!mask->window && !mask->sinks && !mask->local && !mask->list_queries)
        return factor;
    const bool in_window = mask->window && (mask->causal ? place - j < mask->window
                                                         : llabs(j - place) <= mask->window);
    const bool in_local = mask->local && j / mask->local == place / mask->local;
    if (in_window || in_local || j < mask->sinks)
        return factor;
    if (!mask->list_queries || !is_listed(mask, i, j))
        return -INFINITY;
    return factor + (mask->list_factors ? mask->list_factors[i / mask->list_queries] : 0.0);
}

/* Everything there is to say about one query, given the n + 1 scores (nats) of the sink and its
 * keys in this order; -inf marks a key it does not see, or no sink. pass 1: the largest score. pass
 * 2: Z = sum exp(score - largest). pass 3: weights and what follows from them. */
static void answer(const es_problem *p, double *score, int64_t n, int64_t at,
                   const es_attend_out *out, double *y, double *weights)
{
    int64_t top = 0;
    for (int64_t j = 1; j <= n; j++)
        if (score[j] > score[top])
            top = j;
    const double largest = score[top];
    double z = 0.0;
    for (int64_t j = 0; j <= n; j++)
        z += exp(score[j] - largest);

    double entropy = 0.0, squares = 0.0;
    memset(y, 0, (size_t)p->dv * sizeof *y);
    for (int64_t j = 0; j <= n; j++) {
        const double w = weights[j] = exp(score[j] - largest) / z;
        if (w == 0.0)
            continue;
        entropy -= w * (score[j] - largest - log(z)); /* -w ln w */
        squares += w * w;
        for (int64_t c = 0; j > 0 && c < p->dv; c++)
            y[c] += w * es_view_get(p->v, j - 1, c);
    }
    if (out->output)
        memcpy(out->output + at * p->dv, y, (size_t)p->dv * sizeof *y);
    if (out->lse)
        out->lse[at] = largest + log(z);
    if (out->entropy)
        out->entropy[at] = entropy;
    if (out->top_weight)
        out->top_weight[at] = 1.0 / z;
    if (out->top_index)
        out->top_index[at] = top - 1;
    if (out->sum_squares)
        out->sum_squares[at] = squares;
    if (!out->top_mass)
        return;
    qsort(score, (size_t)n + 1, sizeof *score, es_by_falling_value);
    for (int64_t i = 0; i < p->n_top_k; i++) {
        double mass = 0.0;
        for (int64_t j = 0; j < p->top_k[i] && j <= n; j++)
            mass += exp(score[j] - largest) / z;
        out->top_mass[at * p->n_top_k + i] = mass;
    }
}

/* How much keys, and blocks of keys, differ in what they contribute, given the weights and the
 * output y; z and r are sums of a block over its keys, of w and of w (v - y). */
static void answer_spreads(const es_problem *p, const double *w, int64_t n, int64_t at,
                           const double *y, const es_attend_out *out)
{
    const int64_t block = p->block ? p->block : n;
    double spread = 0.0, powers[3] = {0.0, 0.0, 0.0};
    for (int64_t first = 0; first < n; first += block) {
        double z = 0.0;
        for (int64_t j = first; j < first + block && j < n; j++)
            z += w[j];
        for (int i = 0; i < 3; i++)
            powers[i] += pow(z, 2 + i);
    }
    for (int64_t c = 0; c < p->dv; c++) {
        double blocks = 0.0;
        for (int64_t first = 0; first < n; first += block) {
            double r = 0.0;
            for (int64_t j = first; j < first + block && j < n; j++) {
                const double off = w[j] * (es_view_get(p->v, j, c) - y[c]);
                r += off;
                spread += off * off;
            }
            blocks += r * r;
        }
        if (out->block_spread2)
            out->block_spread2[at * p->dv + c] = blocks;
    }
    if (out->spread2)
        out->spread2[at] = spread;
    if (out->block_powers)
        memcpy(out->block_powers + 3 * at, powers, sizeof powers);
}

/* Memory for one query of the reference implementation. */
typedef struct workspace {
    double *q, *k;  /* (d) one query, one key */
    double *dots;   /* (n) q.k */
    double *masked; /* (n) added to the score */
    double *score;  /* (n + 1) the sink's logit, then capped scale * q.k + that */
    double *y;      /* (dv) */
    double *w;      /* (n + 1) weights, likewise */
} workspace;

/* Returns c tanh(score / c), the score itself without a cap c (nats). */
static double capped(double score, double c) { return c > 0.0 ? c * tanh(score / c) : score; }

/* Computes everything with plain loops in double precision: what the fast kernels are tested
 * against. */
static es_status reference(const es_problem *p, const workspace *w, const es_attend_out *out,
                           es_error *err)
{
    const int64_t sets = p->n_scales * p->n_prefixes;
    for (int64_t i = 0; out->moments && i < sets; i++)
        ES_TRY(es_moments_new(p->dv, p->budget, &out->moments[i], err));
    for (int64_t i = 0; i < p->m; i++) {
        es_view_read_row(p->q, i, w->q);
        for (int64_t j = 0; j < p->n; j++) {
            es_view_read_row(p->k, j, w->k);
            w->dots[j] = es_dot(w->q, w->k, p->d);
            w->masked[j] = masked(p, i, j);
        }
        for (int64_t s = 0; s < p->n_scales; s++) {
            for (int64_t prefix = 0; prefix < p->n_prefixes; prefix++) {
                if (i >= es_problem_queries_at(p, prefix))
                    continue;
                const int64_t n = p->prefixes[prefix], set = s * p->n_prefixes + prefix;
                w->score[0] = ES_LN_2 * p->sink;
                for (int64_t j = 0; j < n; j++)
                    w->score[j + 1] =
                        capped(p->scales[s] * w->dots[j], ES_LN_2 * p->cap) + w->masked[j];
                answer(p, w->score, n, set * p->m + i, out, w->y, w->w);
                if (p->spread || p->block)
                    answer_spreads(p, w->w + 1, n, set * p->m + i, w->y, out);
                if (out->moments)
                    es_moments_add(&out->moments[set], w->y, 1);
            }
        }
    }
    if (p->self)
        es_attend_out_blank(p, out);
    return ES_OK;
}

es_status es_attend_reference(const es_view *q, const es_view *k, const es_view *v,
                              const es_attend_opts *opts, const es_attend_out *out, es_error *err)
{
    es_attend_opts exact = opts ? *opts : (es_attend_opts){0};
    exact.precision = ES_F64;
    es_problem p;
    ES_TRY(es_problem_data(&p, q, k, v, &exact, err));
    ES_TRY(es_problem_wants(&p, out, err));
    double *x;
    ES_TRY(ES_MEM_NEW(p.budget, x, 4 * p.n + 2 + 2 * p.d + p.dv, "the reference", err));
    const workspace w = {.q = x,
                         .k = x + p.d,
                         .dots = x + 2 * p.d,
                         .masked = x + 2 * p.d + p.n,
                         .score = x + 2 * p.d + 2 * p.n,
                         .w = x + 2 * p.d + 3 * p.n + 1,
                         .y = x + 2 * p.d + 4 * p.n + 2};
    const es_status status = reference(&p, &w, out, err);
    es_mem_free(p.budget, x);
    if (status != ES_OK && out->moments)
        for (int64_t i = 0; i < p.n_scales * p.n_prefixes; i++)
            es_moments_free(&out->moments[i]);
    return status;
}
