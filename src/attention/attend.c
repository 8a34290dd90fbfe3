/* SPDX-License-Identifier: Apache-2.0 */
/* attend.c : es_attend(): units of work handed to threads, results in a fixed order.
 *
 * Many queries: a unit is a chunk of consecutive blocks of queries; its thread streams all keys
 * past each block and emits results at every prefix. Fewer queries: a unit is a block and a segment
 * of the keys; states of segments are merged in key order afterwards, prefix by prefix. So few that
 * they do not fill a panel: the same, but few.c makes the states. */
#include <esscher/attend.h>

#include <math.h>
#include <string.h>

#include "attention/attend.h"
#include "attention/cut.h"
#include "attention/few.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "stats/moments.h"

/* Panels of queries that threads share. */
typedef struct job {
    const es_problem *p;
    const es_attend_plan *plan;
    const es_attend_out *out;
    int64_t queries;          /* queries that exist at the last prefix */
    es_block *blocks;         /* (threads) */
    es_emit_scratch *scratch; /* (threads) */
    es_partial *states;       /* (threads) of one block, or (segments) of all queries */
    int64_t n_states;
    es_moments *moments; /* (chunks, prefixes, scales), or NULL */
} job;

/* Returns the moments of a chunk at a prefix, one for each score scale; NULL if none are
 * computed. */
static es_moments *chunk_moments(const job *j, int64_t chunk, int64_t prefix)
{
    return j->moments ? j->moments + (chunk * j->p->n_prefixes + prefix) * j->p->n_scales : NULL;
}

/* Returns how many queries a block has; the last may be smaller. */
static int64_t block_queries(const job *j, int64_t block)
{
    const int64_t rest = j->queries - block * j->plan->block;
    return rest < 0 ? 0 : rest < j->plan->block ? rest : j->plan->block;
}

/* ---- many queries ---- */

/* Computes one block of queries over all keys, tile by tile, and writes its outputs. */
static void attend_block(const job *j, int64_t chunk, int64_t block, int thread)
{
    const es_problem *p = j->p;
    const int64_t first = block * j->plan->block;
    es_block *b = &j->blocks[thread];
    es_partial *state = &j->states[thread];
    es_block_begin(b, first, block_queries(j, block));
    int64_t met = 0;
    for (int64_t prefix = 0; prefix < p->n_prefixes; prefix++) {
        es_block_stream(b, met, p->prefixes[prefix], 0);
        met = p->prefixes[prefix];
        const int64_t exist = es_problem_queries_at(p, prefix) - first;
        if (exist <= 0)
            continue; /* self mode: these tokens come later */
        es_block_store(b, state, 0);
        es_partial_emit(state, p, 0, exist < b->count ? exist : b->count, first, prefix, j->out,
                        chunk_moments(j, chunk, prefix), &j->scratch[thread]);
    }
}

/* Computes the blocks of one chunk. Chunks of a causal mask run from the last, the longest, so
 * that threads finish together. */
static es_status attend_chunk(void *job_, int64_t chunk, int thread, es_error *err)
{
    const job *j = job_;
    int64_t first, last;
    (void)err;
    if (j->p->mask && j->p->mask->causal)
        chunk =
            j->plan->chunks - 1 - chunk; /* the last queries see most: the largest units first */
    es_part(j->plan->blocks, j->plan->chunks, chunk, &first, &last);
    for (int64_t block = first; block < last; block++)
        if (block_queries(j, block) > 0)
            attend_block(j, chunk, block, thread);
    return ES_OK;
}

/* ---- fewer queries ---- */

/* Computes one block of queries over one segment of the keys; the partial states are merged later
 * in a fixed order. */
static es_status attend_segment(void *job_, int64_t unit, int thread, es_error *err)
{
    const job *j = job_;
    const int64_t block = unit % j->plan->blocks, segment = unit / j->plan->blocks;
    const int64_t first = block * j->plan->block;
    es_block *b = &j->blocks[thread];
    (void)err;
    es_block_begin(b, first, block_queries(j, block));
    es_block_stream(b, es_cut_key(j->p, j->plan, segment), es_cut_key(j->p, j->plan, segment + 1),
                    0);
    es_block_store(b, &j->states[segment], first);
    return ES_OK;
}

/* Segment 0 collects the others, in key order; whenever it reaches a prefix its results are
 * emitted. */
static es_status merge_chunk(void *job_, int64_t chunk, int thread, es_error *err)
{
    const job *j = job_;
    const es_problem *p = j->p;
    int64_t first_block, last_block;
    (void)err;
    es_part(j->plan->blocks, j->plan->chunks, chunk, &first_block, &last_block);
    for (int64_t block = first_block; block < last_block; block++) {
        const int64_t first = block * j->plan->block, count = block_queries(j, block);
        int64_t prefix = 0;
        for (int64_t segment = 0; segment < j->plan->segments; segment++) {
            if (segment > 0)
                es_partial_join(&j->states[0], first, &j->states[segment], first, count);
            if (es_cut_key(p, j->plan, segment + 1) != p->prefixes[prefix])
                continue;
            es_partial_emit(&j->states[0], p, first, count, first, prefix, j->out,
                            chunk_moments(j, chunk, prefix), &j->scratch[thread]);
            prefix++;
        }
    }
    return ES_OK;
}

/* ---- set-up and result ---- */

/* Returns true if no statistics are asked for: a faster kernel then suffices. */
static bool wants_only_output(const es_attend_out *out)
{
    return !out->entropy && !out->top_weight && !out->top_index && !out->sum_squares &&
           !out->top_mass && !out->spread2 && !out->block_spread2 && !out->block_powers;
}

/* Allocates the buffers of all threads and the partial states of all segments. */
static es_status job_new(job *j, const es_kernels *kernels, es_error *err)
{
    const es_problem *p = j->p;
    const es_attend_plan *plan = j->plan;
    const bool split = plan->segments > 1 || plan->few;
    ES_TRY(ES_MEM_NEW(p->budget, j->blocks, plan->threads, "blocks", err));
    ES_TRY(ES_MEM_NEW(p->budget, j->scratch, plan->threads, "scratch", err));
    j->n_states = split ? plan->segments : plan->threads;
    ES_TRY(ES_MEM_NEW(p->budget, j->states, j->n_states, "states", err));
    for (int t = 0; t < plan->threads; t++) {
        if (!plan->few)
            ES_TRY(es_block_new(&j->blocks[t], p, kernels, plan->block, plan->tile,
                                wants_only_output(j->out), err));
        ES_TRY(es_emit_scratch_new(&j->scratch[t], p, plan->block, err));
    }
    for (int64_t i = 0; i < j->n_states; i++)
        ES_TRY(es_partial_init(&j->states[i], p, split ? p->m : plan->block, err));
    if (!j->out->moments)
        return ES_OK;
    const int64_t sets = plan->chunks * p->n_prefixes * p->n_scales;
    ES_TRY(ES_MEM_NEW(p->budget, j->moments, sets, "moments", err));
    for (int64_t i = 0; i < sets; i++)
        ES_TRY(es_moments_new(p->dv, p->budget, &j->moments[i], err));
    return ES_OK;
}

/* Frees everything of job_new(). */
static void job_free(job *j)
{
    es_mem_limit *budget = j->p->budget;
    for (int t = 0; j->blocks && t < j->plan->threads; t++)
        es_block_free(&j->blocks[t]);
    for (int t = 0; j->scratch && t < j->plan->threads; t++)
        es_emit_scratch_free(&j->scratch[t], budget);
    for (int64_t i = 0; j->states && i < j->n_states; i++)
        es_partial_clear(&j->states[i]);
    const int64_t sets = j->plan->chunks * j->p->n_prefixes * j->p->n_scales;
    for (int64_t i = 0; j->moments && i < sets; i++)
        es_moments_free(&j->moments[i]);
    es_mem_free(budget, j->blocks);
    es_mem_free(budget, j->scratch);
    es_mem_free(budget, j->states);
    es_mem_free(budget, j->moments);
}

/* Moments of the chunks, added in chunk order; the first chunk's memory becomes the caller's. */
static void hand_over_moments(job *j)
{
    const es_problem *p = j->p;
    for (int64_t s = 0; s < p->n_scales; s++) {
        for (int64_t prefix = 0; prefix < p->n_prefixes; prefix++) {
            es_moments *sum = &chunk_moments(j, 0, prefix)[s];
            for (int64_t chunk = 1; chunk < j->plan->chunks; chunk++)
                es_moments_merge(sum, &chunk_moments(j, chunk, prefix)[s]);
            j->out->moments[s * p->n_prefixes + prefix] = *sum;
            *sum = (es_moments){0};
        }
    }
}

/* Sets the outputs of a query that sees no key to NaN. */
static void blank_query(const es_problem *p, const es_attend_out *out, int64_t at)
{
    double *const scalars[] = {out->lse, out->entropy, out->top_weight, out->sum_squares,
                               out->spread2};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++)
        if (scalars[i])
            scalars[i][at] = NAN;
    if (out->top_index)
        out->top_index[at] = -1;
    for (int64_t c = 0; out->output && c < p->dv; c++)
        out->output[at * p->dv + c] = NAN;
    for (int64_t i = 0; out->block_powers && i < 3; i++)
        out->block_powers[3 * at + i] = NAN;
    for (int64_t c = 0; out->block_spread2 && c < p->dv; c++)
        out->block_spread2[at * p->dv + c] = NAN;
    for (int64_t c = 0; out->top_mass && c < p->n_top_k; c++)
        out->top_mass[at * p->n_top_k + c] = NAN;
}

void es_attend_out_blank(const es_problem *p, const es_attend_out *out)
{
    if (wants_only_output(out) && !out->output && !out->lse)
        return;
    for (int64_t set = 0; set < p->n_scales * p->n_prefixes; set++)
        for (int64_t i = es_problem_queries_at(p, set % p->n_prefixes); i < p->m; i++)
            blank_query(p, out, set * p->m + i);
}

/* A point near the values: the mean of the first thousand. Sums around it keep the spread of values
 * that are far from zero and near each other. In f32, so that every kernel has the same. */
static es_status choose_centre(es_problem *p, es_error *err)
{
    const int64_t rows = p->n < 1024 ? p->n : 1024;
    if (!p->spread)
        return ES_OK;
    double *centre;
    ES_TRY(ES_MEM_NEW(p->budget, centre, p->dv, "a centre", err));
    for (int64_t c = 0; c < p->dv; c++) {
        double sum = 0.0;
        for (int64_t j = 0; j < rows; j++)
            sum += es_view_get(p->v, j, c) / (double)rows;
        centre[c] = (double)(float)sum;
    }
    p->centre = centre;
    return ES_OK;
}

/* Runs the plan: whole blocks if there are enough of them for all threads, else segments of keys
 * that are merged. */
static es_status attend(job *j, const es_kernels *kernels, es_error *err)
{
    const es_attend_plan *plan = j->plan;
    ES_TRY(job_new(j, kernels, err));
    if (plan->segments == 1 && !plan->few) {
        ES_TRY(es_parallel_run(j->p->exec, plan->chunks, attend_chunk, j, err));
    } else {
        es_exec quiet = j->p->exec ? *j->p->exec : (es_exec){0};
        quiet.progress = NULL; /* merging takes no time worth reporting */
        if (plan->few)
            ES_TRY(
                es_few_attend(j->p, plan, kernels, wants_only_output(j->out), 0, j->states, err));
        else
            ES_TRY(
                es_parallel_run(j->p->exec, plan->blocks * plan->segments, attend_segment, j, err));
        ES_TRY(es_parallel_run(&quiet, plan->chunks, merge_chunk, j, err));
    }
    if (j->out->moments)
        hand_over_moments(j);
    if (j->p->self)
        es_attend_out_blank(j->p, j->out);
    return ES_OK;
}

/* Row `row` of what a scale writes; NULL stays NULL. */
static double *out_at(double *x, int64_t row, int64_t width) { return x ? x + row * width : NULL; }

/* Computes several scales one after the other. */
static es_status attend_apart(const es_problem *p, const es_attend_opts *opts,
                              const es_attend_out *out, es_error *err)
{
    es_status status = ES_OK;
    int64_t s = 0;
    for (; s < p->n_scales && status == ES_OK; s++) {
        const int64_t set = s * p->n_prefixes, row = set * p->m;
        es_attend_opts one = *opts;
        one.scales = p->scales + s;
        one.n_scales = 1;
        const es_attend_out part = {.output = out_at(out->output, row, p->dv),
                                    .lse = out_at(out->lse, row, 1),
                                    .entropy = out_at(out->entropy, row, 1),
                                    .top_weight = out_at(out->top_weight, row, 1),
                                    .top_index = out->top_index ? out->top_index + row : NULL,
                                    .sum_squares = out_at(out->sum_squares, row, 1),
                                    .top_mass = out_at(out->top_mass, row, p->n_top_k),
                                    .spread2 = out_at(out->spread2, row, 1),
                                    .block_spread2 = out_at(out->block_spread2, row, p->dv),
                                    .block_powers = out_at(out->block_powers, row, 3),
                                    .moments = out->moments ? out->moments + set : NULL};
        status = es_attend(p->q, p->k, p->v, &one, &part, err);
    }
    for (int64_t i = 0; status != ES_OK && out->moments && i < (s - 1) * p->n_prefixes; i++)
        es_moments_free(&out->moments[i]); /* of the scales before */
    return status;
}

es_status es_attend(const es_view *q, const es_view *k, const es_view *v,
                    const es_attend_opts *opts, const es_attend_out *out, es_error *err)
{
    es_problem p;
    es_attend_plan plan;
    const es_kernels *kernels;
    ES_TRY(es_problem_views(&p, q, k, v, opts, err));
    ES_TRY(es_problem_wants(&p, out, err));
    if (es_problem_scales_apart(&p))
        return attend_apart(&p, opts, out, err);
    ES_TRY(es_cut_make(&p, out->moments != NULL, &plan, &kernels, err));
    if (!plan.few) /* which looks while it reads */
        ES_TRY(es_problem_scan_bounds(&p, es_kernels_squares(kernels, p.q),
                                      es_kernels_squares(kernels, p.k),
                                      es_kernels_squares(kernels, p.v), err));
    es_log(ES_LOG_DEBUG,
           "attend: %s, %d threads, %lld blocks of %lld queries, tiles of %lld keys, %lld key "
           "segments",
           es_isa_name(plan.isa), plan.threads, (long long)plan.blocks, (long long)plan.block,
           (long long)plan.tile, (long long)plan.segments);
    job j = {
        .p = &p, .plan = &plan, .out = out, .queries = es_problem_queries_at(&p, p.n_prefixes - 1)};
    es_status status = choose_centre(&p, err);
    if (status == ES_OK)
        status = attend(&j, kernels, err);
    job_free(&j);
    es_mem_free(p.budget, (void *)(uintptr_t)p.centre);
    return status;
}
