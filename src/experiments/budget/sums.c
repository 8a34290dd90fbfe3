/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c : sums over the blocks of a stage, computed once. Cells of every later stage need means
 * over all blocks, or over all but a few, and would otherwise read every block again.
 *
 * Stores the sums over the first b blocks and over the remaining ones, for every b. To leave out
 * blocks [from, to), it adds the sums of both ends: subtracting them from the total would leave
 * rounding errors where they are most of it. */
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"

/* ---- one block ---- */

int64_t budget_sum_numbers(const budget_state *s, int stage)
{
    const int64_t L = s->config->layers;
    return stage == BUDGET_GAINS ? (L + 1) + 2 * L + L * (L + 1)
                                 : s->units * (s->P * s->K + s->K + 1) + L;
}

/* Adds an array to another. */
static void add_all(double *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* Adds a cell of curves in the order of budget_means: risk, limit, need, out2. */
static void add_curves(const budget_state *s, const double *cell, double *to)
{
    const es_model_config *c = s->config;
    const int64_t size = c->heads / c->kv_heads, risks = s->units * s->P * s->K;
    const es_curves at = budget_curves_at(s, cell);
    double *limit = to + risks, *need = limit + s->units * s->K;
    add_all(to, at.group, risks);
    for (int64_t h = 0; h < c->layers * c->heads && at.risk; h++) {
        add_all(limit + h / size * s->K, at.limit + h * s->K, s->K);
        need[h / size] += at.facts[h * ES_FACTS + ES_FACT_KEYS_95] / (double)size;
    }
    add_all(need + s->units, at.spread2, c->layers);
}

/* Adds a cell of gains: spread2, then own2, loss and error2 of all layers. */
static void add_gains(const budget_state *s, const double *cell, double *to)
{
    const int64_t L = s->config->layers;
    double *own2 = to + L + 1, *loss = own2 + L, *error2 = loss + L;
    for (int64_t j = 0; j <= L; j++)
        to[j] += cell[j];
    for (int64_t l = 0; l < L; l++) {
        const es_gain gain = budget_gain_at(s, cell, l);
        add_all(error2 + l * (L + 1), gain.error2, L + 1);
        own2[l] += gain.own2;
        loss[l] += gain.loss;
    }
}

/* Adds a block's cell to sums; gains have a layout of their own. */
static void add_block(const es_job *job, int stage, int64_t block, double *to)
{
    const double *cell = es_job_numbers(job, stage, block);
    if (stage == BUDGET_GAINS)
        add_gains(job->state, cell, to);
    else
        add_curves(job->state, cell, to);
}

/* ---- all blocks ---- */

/* Returns the number of blocks of a stage. */
static int64_t blocks_of(const budget_state *s, int stage)
{
    return stage == BUDGET_OTHERS ? s->others.count : s->text.count;
}

double budget_sums_bytes(const budget_state *s)
{
    double bytes = 0.0;
    for (int stage = 0; stage <= BUDGET_GAINS; stage++)
        bytes += 16.0 * (double)(blocks_of(s, stage) + 1) * (double)budget_sum_numbers(s, stage);
    return bytes;
}

/* Computes the sums of a stage whose cells are all finished. The caller holds the lock. */
static es_status make_sums(const es_job *job, int stage, es_error *err)
{
    budget_state *s = job->state;
    const int64_t B = blocks_of(s, stage), N = budget_sum_numbers(s, stage);
    double *m;
    s->memory.budget = job->exec.budget;
    ES_TRY(ES_ARENA_NEW_2D(&s->memory, m, 2 * (B + 1), N, "sums of blocks", err));
    double *before = m, *from = before + (B + 1) * N;
    for (int64_t b = 0; b < B; b++) {
        memcpy(before + (b + 1) * N, before + b * N, (size_t)N * sizeof *before);
        add_block(job, stage, b, before + (b + 1) * N);
    }
    for (int64_t b = B; b-- > 0;) {
        memcpy(from + b * N, from + (b + 1) * N, (size_t)N * sizeof *from);
        add_block(job, stage, b, from + b * N);
    }
    s->sums[stage] = before;
    return ES_OK;
}

/* Returns the stored sums of a stage under the lock; NULL before they are made. */
static const double *sums_of(budget_state *s, int stage)
{
    pthread_mutex_lock(&s->lock);
    const double *sums = s->sums[stage];
    pthread_mutex_unlock(&s->lock);
    return sums;
}

/* Returns the sums of a stage. Fetches cells without the lock: a shard computes the cells it does
 * not have, and those may need the sums of an earlier stage. */
static es_status get_sums(const es_job *job, int stage, const es_exec *exec, const double **out,
                          es_error *err)
{
    budget_state *s = job->state;
    es_status status = ES_OK;
    const double *cell;
    *out = sums_of(s, stage);
    if (*out)
        return ES_OK;
    for (int64_t b = 0; b < blocks_of(s, stage); b++)
        ES_TRY(es_job_fetch(job, stage, b, exec, &cell, err));
    pthread_mutex_lock(&s->lock);
    if (!s->sums[stage])
        status = make_sums(job, stage, err);
    *out = s->sums[stage];
    pthread_mutex_unlock(&s->lock);
    return status;
}

es_status budget_sum(const es_job *job, int stage, budget_subset of, const es_exec *exec,
                     double *out, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t B = blocks_of(s, stage), N = budget_sum_numbers(s, stage);
    const double *before;
    ES_TRY(get_sums(job, stage, exec, &before, err));
    const double *from = before + (B + 1) * N;
    memset(out, 0, (size_t)N * sizeof *out);
    if (of.others) {
        add_all(out, before + of.from * N, N);
        add_all(out, from + of.to * N, N);
    } else if (of.from == 0) {
        add_all(out, before + of.to * N, N);
    } else {
        for (int64_t b = of.from; b < of.to; b++)
            add_block(job, stage, b, out);
    }
    return ES_OK;
}
