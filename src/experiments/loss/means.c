/* SPDX-License-Identifier: Apache-2.0 */
/* means.c : losses of tokens become means over tokens, with their errors over blocks. */
#include <math.h>

#include "stats/average.h"
#include "experiments/loss/loss.h"

/* ---- means over tokens ---- */

/* Sums the loss of tokens [from, to) of a block, less that of another setting: pairing removes the
 * variance between texts. */
static es_block_sum sum_over(const es_job *job, int64_t setting, int64_t base, int64_t block,
                             int64_t from, int64_t to)
{
    const loss_state *s = job->state;
    const int64_t n = loss_length(s, block), end = to < n ? to : n;
    const double *x = loss_tokens(job, setting, block);
    const double *y = base >= 0 ? loss_tokens(job, base, block) : NULL;
    es_block_sum t = {0};
    for (int64_t i = from < 1 ? 1 : from; i < end; i++) {
        t.sum += x[i - 1] - (y ? y[i - 1] : 0.0);
        t.count += 1.0;
    }
    return t;
}

es_block_mean loss_without(const es_job *job, int64_t skip, int64_t setting, int64_t base,
                           int64_t from, int64_t to)
{
    const loss_state *s = job->state;
    int64_t count = 0;
    for (int64_t b = 0; b < s->text.count; b++)
        if (b != skip)
            s->sums[count++] = sum_over(job, setting, base, b, from, to);
    return es_block_mean_of(s->sums, count);
}

es_block_mean loss_over(const es_job *job, int64_t setting, int64_t from, int64_t to)
{
    return loss_without(job, -1, setting, -1, from, to);
}

es_block_mean loss_cost(const es_job *job, int64_t setting, int64_t from, int64_t to)
{
    return loss_without(job, -1, setting, 0, from, to);
}

es_block_mean loss_less(const es_job *job, int64_t setting, int64_t base)
{
    const loss_state *s = job->state;
    return loss_without(job, -1, setting, base, loss_late(s), s->longest);
}

es_block_mean loss_fresh_cost(const es_job *job, int64_t fresh)
{
    const loss_state *s = job->state;
    const int64_t from = loss_late(s);
    for (int64_t b = 0; b < s->text.count; b++) {
        const double *x = loss_fresh(job, fresh, b), *full = loss_tokens(job, 0, b);
        s->sums[b] = (es_block_sum){0};
        for (int64_t i = from; i < loss_length(s, b); i++) {
            s->sums[b].sum += x[i - from] - full[i - 1];
            s->sums[b].count += 1.0;
        }
    }
    return es_block_mean_of(s->sums, s->text.count);
}

/* A difference of two ratios over the same blocks: to first order its error is that of the sum of
 * what each block adds to both. Blocks without one of the bins contribute to the other alone. */
es_block_mean loss_fall(const es_job *job, int64_t setting, int64_t from, int64_t to, int64_t then,
                        int64_t end)
{
    const loss_state *s = job->state;
    const es_block_mean a = loss_over(job, setting, from, to),
                        b = loss_over(job, setting, then, end);
    es_block_mean m = {.value = a.value - b.value, .tokens = a.tokens + b.tokens};
    double scatter = 0.0;
    for (int64_t i = 0; i < s->text.count; i++) {
        const es_block_sum x = sum_over(job, setting, -1, i, from, to);
        const es_block_sum y = sum_over(job, setting, -1, i, then, end);
        const double off = (x.sum - x.count * a.value) / (double)a.tokens -
                           (y.sum - y.count * b.value) / (double)b.tokens;
        scatter += off * off;
        m.blocks += x.count > 0.0 && y.count > 0.0;
    }
    m.se = es_block_se(scatter, 1.0, m.blocks);
    es_block_interval(&m);
    return m;
}

/* ---- neighbours ---- */

/* Of n independent normal numbers the lag-1 autocorrelation has mean -1/n and variance
 * (n - 2)^2 / (n^2 (n - 1)) (Moran 1948); from 8 on it is near enough to normal. */
loss_neighbours loss_neighbours_of(const es_job *job, int64_t setting)
{
    const loss_state *s = job->state;
    const double one_sided_95 = 1.6448536269514722;
    const double part = s->text.of ? (double)s->text.of / (double)s->text.count : 1.0;
    loss_neighbours out = {
        .correlation = (double)NAN, .chance = (double)NAN, .apart = part * (double)s->longest};
    double mean = 0.0, squares = 0.0, products = 0.0;
    int64_t count = 0;
    for (int64_t b = 0; b < s->text.count; b++)
        if (loss_length(s, b) == s->longest) { /* a rest has another error */
            s->sums[count] = sum_over(job, setting, -1, b, 1, s->longest);
            mean += s->sums[count++].sum;
        }
    mean /= (double)count;
    for (int64_t b = 0; b < count; b++) {
        const double x = s->sums[b].sum - mean;
        squares += x * x;
        products += b + 1 < count ? x * (s->sums[b + 1].sum - mean) : 0.0;
    }
    if (count < 4)
        return out;
    const double n = (double)count;
    out.correlation = products / squares;
    out.chance = (n - 2.0) / (n * sqrt(n - 1.0));
    out.positive = out.correlation + 1.0 / n > one_sided_95 * out.chance;
    return out;
}

/* ---- places ---- */

int loss_bins(int64_t length, int64_t cut, loss_bin *bins)
{
    int count = 0;
    for (int64_t from = 1, to = LOSS_FIRST_BIN; from < length && count < LOSS_BINS - 1;
         from = to, to *= 2) {
        const int64_t end = to < length ? to : length;
        const bool divided = from < cut && cut < end;
        bins[count++] = (loss_bin){from, divided ? cut : end};
        if (divided)
            bins[count++] = (loss_bin){cut, end};
    }
    return count;
}
