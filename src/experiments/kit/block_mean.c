/* SPDX-License-Identifier: Apache-2.0 */
/* block_mean.c : means over the tokens of blocks of text, with errors over blocks. */
#include "experiments/kit/block_mean.h"

#include <math.h>

#include "stats/average.h"
#include "stats/special.h"

void es_block_interval(es_block_mean *m)
{
    const double half =
        m->blocks > 1 ? m->se * es_student_quantile((double)m->blocks - 1.0, 0.025) : (double)NAN;
    m->low = m->value - half;
    m->high = m->value + half;
}

es_block_mean es_block_mean_of(const es_block_sum *blocks, int64_t count)
{
    es_block_mean m = {0};
    double sum = 0.0, tokens = 0.0, scatter = 0.0;
    for (int64_t b = 0; b < count; b++) {
        sum += blocks[b].sum;
        tokens += blocks[b].count;
        m.blocks += blocks[b].count > 0.0;
    }
    m.tokens = (int64_t)tokens;
    m.value = sum / tokens;
    for (int64_t b = 0; b < count; b++)
        scatter += pow(blocks[b].sum - blocks[b].count * m.value, 2.0);
    m.se = es_block_se(scatter, tokens, m.blocks);
    es_block_interval(&m);
    return m;
}
