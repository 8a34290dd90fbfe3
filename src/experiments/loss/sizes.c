/* SPDX-License-Identifier: Apache-2.0 */
/* sizes.c : default length and number of blocks, by the work that they are. */
#include "experiments/kit/default_size.h"
#include "experiments/loss/loss.h"

enum { LENGTH, BLOCKS, SIZES };

/* Returns the operations of a run with blocks of such a length and number. */
static double work_of(const void *state, const int64_t *values)
{
    return (double)values[BLOCKS] * loss_block_work(state, values[LENGTH]);
}

/* Forgets text and settings, which were made for other blocks. */
static void forget(loss_state *s)
{
    es_blocks_free(&s->text);
    es_tokenizer_free(s->tokenizer);
    s->text = (es_blocks){0};
    s->tokenizer = NULL;
    s->longest = s->tokens = s->bytes = s->count = s->n_fresh = s->n_start = 0;
}

bool loss_choose_sizes(es_job *job)
{
    static const es_size_step steps[] = {
        {BLOCKS, ES_SIZE_BLOCKS}, {LENGTH, ES_SIZE_SHORT}, {BLOCKS, ES_SIZE_FEWEST}};
    loss_params *p = job->params;
    loss_state *s = job->state;
    if (p->ids) /* which are read as they are */
        return false;
    const int64_t tokens = s->text.start[s->text.count], longest = s->longest;
    const int64_t usual = es_default_length(s->config->positions, tokens, p->blocks);
    es_size sizes[SIZES] = {[LENGTH] = {"block",
                                        .usual = p->block || longest < usual ? longest : usual,
                                        .fixed = p->block, .halves = true, .longest = longest},
                            [BLOCKS] = {"blocks", .usual = tokens, .most = p->blocks,
                                        .fixed = p->blocks, .of = 1 + LENGTH, .averaged = true}};
    const es_sizing sizing = {
        .sizes = sizes, SIZES, steps, sizeof steps / sizeof *steps, work_of, s};
    const bool fewer = es_sizes_fit(&sizing), shorter = sizes[LENGTH].value < longest;
    if (!fewer && !shorter)
        return false;
    es_sizes_add_finding(&sizing, job->answer);
    if (shorter)
        p->block = sizes[LENGTH].value;
    if (sizes[BLOCKS].value < tokens / sizes[LENGTH].value && !p->blocks)
        p->blocks = sizes[BLOCKS].value;
    forget(s);
    return true;
}
