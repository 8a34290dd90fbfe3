/* SPDX-License-Identifier: Apache-2.0 */
/* partial_held.c : partial states as users hold them: keys met in several calls, or on several
 * machines.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attend.h"
#include "attention/cut.h"
#include "attention/few.h"
#include "attention/mask.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "stats/moments.h"

void es_partial_free(es_partial *p)
{
    if (!p)
        return;
    es_mem_limit *budget = p->exec.budget;
    void *const scales = p->own_scales, *const top_k = p->own_top_k;
    void *const positions = p->own_positions;
    es_partial_clear(p);
    es_mem_free(budget, positions);
    es_mem_free(budget, scales);
    es_mem_free(budget, top_k);
    es_mem_free(budget, p);
}

/* Fails for masks that need all keys at once. */
static es_status check_mask(int64_t m, const es_mask *mask, es_error *err)
{
    if (!mask)
        return ES_OK;
    if (mask->list_queries || mask->n_classes)
        return es_fail(
            err, ES_E_ARGUMENT, "partial.mask",
            "use causal, window, sinks and local: lists and classes need all keys at once",
            "a partial state does not support lists or classes of keys");
    return es_mask_check(mask, m, 0, err);
}

/* Copies a mask with its positions: the caller's may be gone when more keys arrive. */
static es_status copy_mask(es_partial *partial, const es_mask *mask, const es_problem *p,
                           es_error *err)
{
    int64_t *memory;
    if (!mask)
        return ES_OK;
    partial->mask = *mask;
    if (!mask->positions)
        return ES_OK;
    partial->mask.positions = NULL;
    ES_TRY(ES_MEM_NEW(p->budget, memory, p->m, "places of queries", err));
    memcpy(memory, mask->positions, (size_t)p->m * sizeof(int64_t));
    partial->mask.positions = partial->own_positions = memory;
    return ES_OK;
}

es_status es_partial_new(int64_t m, int64_t dv, const es_attend_opts *opts, es_partial **out,
                         es_error *err)
{
    *out = NULL;
    if (!opts || !opts->scales || opts->prefixes || opts->self || opts->exclude_self ||
        opts->spread || opts->block)
        return es_fail(err, ES_E_ARGUMENT, "partial.opts",
                       "set scales; prefixes, self, spread and block do not apply",
                       "options that a partial state does not support");
    es_attend_opts unmasked = *opts;
    unmasked.mask = NULL;
    es_problem p; /* keys, their dimension and what a mask says of them come later */
    ES_TRY(es_problem_shape(&p, m, 1, 1, dv, &unmasked, err));
    ES_TRY(check_mask(m, opts->mask, err));
    int64_t *top_k = NULL;
    double *scales = NULL;
    es_partial *partial;
    ES_TRY(ES_MEM_NEW(p.budget, partial, 1, "a partial state", err));
    es_status status = es_partial_init(partial, &p, m, err);
    if (status == ES_OK)
        status = ES_MEM_NEW(p.budget, scales, p.n_scales, "scales", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(p.budget, top_k, p.n_top_k, "top-k sizes", err);
    if (status == ES_OK)
        status = copy_mask(partial, opts->mask, &p, err);
    partial->exec = opts->exec ? *opts->exec : (es_exec){0};
    partial->own_scales = scales;
    partial->own_top_k = top_k;
    if (status != ES_OK) {
        es_partial_free(partial);
        return status;
    }
    memcpy(partial->own_scales, p.scales, (size_t)p.n_scales * sizeof *p.scales);
    if (p.n_top_k)
        memcpy(partial->own_top_k, p.top_k, (size_t)p.n_top_k * sizeof *p.top_k);
    partial->n_top_k = p.n_top_k;
    partial->precision = p.precision;
    partial->score_cap = opts->score_cap;
    partial->sink = opts->sink ? *opts->sink : -INFINITY;
    *out = partial;
    return ES_OK;
}

/* Returns the options with which the state was made. */
static es_attend_opts options_of(const es_partial *p)
{
    return (es_attend_opts){.precision = p->precision,
                            .scales = p->own_scales,
                            .n_scales = p->scales,
                            .score_cap = p->score_cap,
                            .sink = &p->sink,
                            .top_k = p->n_top_k ? p->own_top_k : NULL,
                            .n_top_k = p->n_top_k,
                            .exec = &p->exec};
}

/* Blocks of queries whose states take more keys. */
typedef struct job {
    const es_problem *p;
    const es_attend_plan *plan;
    es_partial *into;
    int64_t first_key;
    es_block *blocks;   /* (threads) */
    es_partial *states; /* (threads) of a block; of few queries (segments) */
    int64_t n_states;
} job;

/* Updates the state of one block of queries with the new keys. */
static es_status meet_block(void *job_, int64_t block, int thread, es_error *err)
{
    const job *j = job_;
    const int64_t first = block * j->plan->block, rest = j->p->m - first;
    const int64_t count = rest < j->plan->block ? rest : j->plan->block;
    (void)err;
    es_block_begin(&j->blocks[thread], first, count);
    es_block_stream(&j->blocks[thread], 0, j->p->n, j->first_key);
    es_block_store(&j->blocks[thread], &j->states[thread], 0);
    es_partial_join(j->into, first, &j->states[thread], 0, count);
    return ES_OK;
}

/* Updates all blocks of queries with the new keys, with all threads. */
static es_status meet_keys(job *j, const es_kernels *kernels, int threads, es_error *err)
{
    ES_TRY(ES_MEM_NEW(j->p->budget, j->blocks, threads, "blocks", err));
    for (int t = 0; t < threads; t++)
        ES_TRY(
            es_block_new(&j->blocks[t], j->p, kernels, j->plan->block, j->plan->tile, false, err));
    return es_parallel_run(j->p->exec, j->plan->blocks, meet_block, j, err);
}

/* Updates the state by the kernel for few queries, which splits the keys instead. */
static es_status meet_few(job *j, const es_kernels *kernels, es_error *err)
{
    ES_TRY(es_few_attend(j->p, j->plan, kernels, false, j->first_key, j->states, err));
    for (int64_t i = 0; i < j->n_states; i++)
        es_partial_join(j->into, 0, &j->states[i], 0, j->p->m);
    return ES_OK;
}

/* Allocates the states of all segments. */
static es_status states_new(job *j, es_error *err)
{
    ES_TRY(ES_MEM_NEW(j->p->budget, j->states, j->n_states, "states", err));
    for (int64_t i = 0; i < j->n_states; i++)
        ES_TRY(es_partial_init(&j->states[i], j->p, j->plan->block, err));
    return ES_OK;
}

es_status es_partial_attend(es_partial *partial, const es_view *q, const es_view *k,
                            const es_view *v, int64_t first_key, es_error *err)
{
    const es_attend_opts opts = options_of(partial);
    es_problem p;
    es_attend_plan plan;
    const es_kernels *kernels;
    ES_TRY(es_problem_views(&p, q, k, v, &opts, err));
    if (p.m != partial->queries || p.dv != partial->channels)
        return es_fail(
            err, ES_E_SHAPE, "partial.shape", "the same queries and value channels every time",
            "the state has %lld queries and %lld channels, the arrays have %lld and %lld",
            (long long)partial->queries, (long long)partial->channels, (long long)p.m,
            (long long)p.dv);
    p.mask = es_mask_is_given(&partial->mask) ? &partial->mask : NULL;
    ES_TRY(es_cut_make(&p, false, &plan, &kernels, err));
    if (!plan.few) /* which looks while it reads */
        ES_TRY(es_problem_scan_bounds(&p, es_kernels_squares(kernels, p.q),
                                      es_kernels_squares(kernels, p.k),
                                      es_kernels_squares(kernels, p.v), err));
    const int threads = es_parallel_threads(p.exec, plan.blocks);
    job j = {.p = &p,
             .plan = &plan,
             .into = partial,
             .first_key = first_key,
             .n_states = plan.few ? plan.segments : threads};
    es_status status = states_new(&j, err);
    if (status == ES_OK)
        status = plan.few ? meet_few(&j, kernels, err) : meet_keys(&j, kernels, threads, err);
    for (int t = 0; j.blocks && t < threads; t++)
        es_block_free(&j.blocks[t]);
    for (int64_t i = 0; j.states && i < j.n_states; i++)
        es_partial_clear(&j.states[i]);
    es_mem_free(p.budget, j.blocks);
    es_mem_free(p.budget, j.states);
    return status;
}

/* Returns true if two states have the same mask, so that they may be merged. */
static bool same_mask(const es_partial *a, const es_partial *b)
{
    const es_mask *x = &a->mask, *y = &b->mask;
    return x->causal == y->causal && x->window == y->window && x->sinks == y->sinks &&
           x->local == y->local && !x->positions == !y->positions &&
           (!x->positions ||
            memcmp(x->positions, y->positions, (size_t)a->queries * sizeof *x->positions) == 0);
}

es_status es_partial_merge(es_partial *into, const es_partial *from, es_error *err)
{
    const bool same = into->queries == from->queries && into->channels == from->channels &&
                      into->scales == from->scales && into->kept == from->kept &&
                      into->score_cap == from->score_cap && into->sink == from->sink;
    if (!same || !same_mask(into, from) ||
        memcmp(into->own_scales, from->own_scales,
               (size_t)into->scales * sizeof *into->own_scales) != 0)
        return es_fail(err, ES_E_SHAPE, "partial.merge",
                       "merge states made with the same shapes and options",
                       "partial states of different shape or scales");
    es_partial_join(into, 0, from, 0, into->queries);
    return ES_OK;
}

es_status es_partial_finish(const es_partial *partial, const es_attend_out *out, es_error *err)
{
    const es_attend_opts opts = options_of(partial);
    es_problem p;
    ES_TRY(es_problem_shape(&p, partial->queries, 1, 1, partial->channels, &opts, err));
    ES_TRY(es_problem_wants(&p, out, err));
    for (int64_t i = 0; i < p.m; i++)
        if (partial->sums[i].weight == 0.0 && p.sink == -INFINITY)
            return es_fail_at(err, ES_E_EMPTY, i, -1, "partial.keys",
                              "call es_partial_attend() first, with keys that it sees",
                              "query %lld has seen no key", (long long)i);
    es_emit_scratch scratch;
    ES_TRY(es_emit_scratch_new(&scratch, &p, p.m, err));
    es_status status = ES_OK;
    for (int64_t s = 0; out->moments && s < p.n_scales && status == ES_OK; s++)
        status = es_moments_new(p.dv, p.budget, &out->moments[s], err);
    if (status == ES_OK)
        es_partial_emit(partial, &p, 0, p.m, 0, 0, out, out->moments, &scratch);
    es_emit_scratch_free(&scratch, p.budget);
    return status;
}

/* ---- states that travel ---- */

enum { SUMS = 5 }; /* of es_sums; blocks of keys make no sense here, and have none */

int64_t es_partial_numbers(int64_t m, int64_t dv, const es_attend_opts *opts)
{
    int64_t kept = 0; /* scores: as many as the largest k needs */
    for (int64_t i = 0; i < opts->n_top_k; i++)
        kept = opts->top_k[i] > kept ? opts->top_k[i] : kept;
    return opts->n_scales * m * (SUMS + dv) + m * (2 + kept);
}

void es_partial_save(const es_partial *p, double *out)
{
    const int64_t rows = p->scales * p->queries;
    for (int64_t i = 0; i < rows; i++) {
        const es_sums *s = &p->sums[i];
        const double sums[SUMS] = {s->offset, s->weight, s->tilted, s->squares, s->top};
        memcpy(out + i * SUMS, sums, sizeof sums);
    }
    out += rows * SUMS;
    memcpy(out, p->output, (size_t)(rows * p->channels) * sizeof *out);
    out += rows * p->channels;
    memcpy(out, p->best, (size_t)p->queries * sizeof *out);
    out += p->queries;
    for (int64_t i = 0; i < p->queries; i++)
        *out++ = (double)p->best_index[i]; /* below 2^40 */
    memcpy(out, p->kept_scores, (size_t)(p->queries * p->kept) * sizeof *out);
}

es_status es_partial_load(es_partial *p, const double *numbers, es_error *err)
{
    const int64_t rows = p->scales * p->queries;
    const double *output = numbers + rows * SUMS, *best = output + rows * p->channels;
    const double *index = best + p->queries, *kept = index + p->queries;
    for (int64_t i = 0; i < p->queries; i++)
        if (!(index[i] >= -1.0 && index[i] < 0x1p53 && index[i] == floor(index[i])))
            return es_fail(err, ES_E_FORMAT, "partial.numbers", "save the state again",
                           "the best key of query %lld is number %g", (long long)i, index[i]);
    for (int64_t i = 0; i < rows; i++) {
        const double *s = numbers + i * SUMS;
        p->sums[i] =
            (es_sums){.offset = s[0], .weight = s[1], .tilted = s[2], .squares = s[3], .top = s[4]};
    }
    memcpy(p->output, output, (size_t)(rows * p->channels) * sizeof *output);
    memcpy(p->best, best, (size_t)p->queries * sizeof *best);
    for (int64_t i = 0; i < p->queries; i++)
        p->best_index[i] = (int64_t)index[i];
    memcpy(p->kept_scores, kept, (size_t)(p->queries * p->kept) * sizeof *kept);
    return ES_OK;
}
