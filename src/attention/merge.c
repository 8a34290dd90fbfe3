/* merge.c : partial states as users hold them: keys met in several calls, or on several machines.
 */
#include <stdlib.h>
#include <string.h>

#include "attention/plan.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"

void es_partial_free(es_partial *p)
{
    if (!p)
        return;
    es_budget *budget = p->exec.budget;
    void *const scales = p->own_scales, *const top_k = p->own_top_k;
    es_partial_clear(p);
    es_mem_free(budget, scales);
    es_mem_free(budget, top_k);
    es_mem_free(budget, p);
}

es_status es_partial_new(int64_t m, int64_t dv, const es_attend_opts *opts, es_partial **out,
                         es_error *err)
{
    *out = NULL;
    if (!opts || !opts->scales || opts->prefixes || opts->self || opts->exclude_self ||
        opts->spread || opts->block)
        return es_fail(err, ES_E_ARGUMENT, "partial.opts",
                       "give scales; prefixes, self, spread and block make no sense here",
                       "options do not describe a partial state");
    es_problem p;
    ES_TRY(es_problem_shape(&p, m, 1, 1, dv, opts, err)); /* keys and their dimension come later */
    void *memory, *scales = NULL, *top_k = NULL;
    ES_TRY(es_mem_new(p.budget, sizeof(es_partial), "a partial state", &memory, err));
    es_partial *partial = memory;
    es_status status = es_partial_init(partial, &p, m, err);
    if (status == ES_OK)
        status = es_mem_array(p.budget, p.n_scales, 1, sizeof(double), "scales", &scales, err);
    if (status == ES_OK)
        status = es_mem_array(p.budget, p.n_top_k, 1, sizeof(int64_t), "top-k sizes", &top_k, err);
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
    *out = partial;
    return ES_OK;
}

static es_attend_opts options_of(const es_partial *p)
{
    return (es_attend_opts){.precision = p->precision,
                            .scales = p->own_scales,
                            .n_scales = p->scales,
                            .top_k = p->n_top_k ? p->own_top_k : NULL,
                            .n_top_k = p->n_top_k,
                            .exec = &p->exec};
}

typedef struct job {
    const es_problem *p;
    const es_attend_plan *plan;
    es_partial *into;
    int64_t first_key;
    es_block *blocks;   /* (threads) */
    es_partial *states; /* (threads) */
} job;

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

static es_status meet_keys(job *j, const es_kernels *kernels, int threads, es_error *err)
{
    void *memory;
    ES_TRY(es_mem_array(j->p->budget, threads, 1, sizeof *j->blocks, "blocks", &memory, err));
    j->blocks = memory;
    ES_TRY(es_mem_array(j->p->budget, threads, 1, sizeof *j->states, "states", &memory, err));
    j->states = memory;
    for (int t = 0; t < threads; t++) {
        ES_TRY(
            es_block_new(&j->blocks[t], j->p, kernels, j->plan->block, j->plan->tile, false, err));
        ES_TRY(es_partial_init(&j->states[t], j->p, j->plan->block, err));
    }
    return es_parallel_run(j->p->exec, j->plan->blocks, meet_block, j, err);
}

es_status es_partial_attend(es_partial *partial, const es_view *q, const es_view *k,
                            const es_view *v, int64_t first_key, es_error *err)
{
    const es_attend_opts opts = options_of(partial);
    es_problem p;
    es_attend_plan plan;
    const es_kernels *kernels;
    ES_TRY(es_problem_data(&p, q, k, v, &opts, err));
    if (p.m != partial->queries || p.dv != partial->channels)
        return es_fail(err, ES_E_SHAPE, "partial.shape",
                       "the same queries and value channels every time",
                       "state of %lld queries and %lld channels meets %lld and %lld",
                       (long long)partial->queries, (long long)partial->channels, (long long)p.m,
                       (long long)p.dv);
    ES_TRY(es_plan_make(&p, false, &plan, &kernels, err));
    const int threads = es_parallel_threads(p.exec, plan.blocks);
    job j = {.p = &p, .plan = &plan, .into = partial, .first_key = first_key};
    const es_status status = meet_keys(&j, kernels, threads, err);
    for (int t = 0; t < threads; t++) {
        if (j.blocks)
            es_block_free(&j.blocks[t]);
        if (j.states)
            es_partial_clear(&j.states[t]);
    }
    es_mem_free(p.budget, j.blocks);
    es_mem_free(p.budget, j.states);
    return status;
}

es_status es_partial_merge(es_partial *into, const es_partial *from, es_error *err)
{
    const bool same = into->queries == from->queries && into->channels == from->channels &&
                      into->scales == from->scales && into->kept == from->kept;
    if (!same || memcmp(into->own_scales, from->own_scales,
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
    if (partial->sums[0].weight == 0.0)
        return es_fail(err, ES_E_EMPTY, "partial.keys", "call es_partial_attend() first",
                       "no key has been met");
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
