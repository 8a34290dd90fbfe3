/* SPDX-License-Identifier: Apache-2.0 */
/* text_mix.c : mixes several texts in given proportions. Each is cut into as many blocks as its
 * share requires, and the blocks take turns. */
#include "text/blocks.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* The texts of one part, cut. */
typedef struct cut {
    es_blocks blocks;
    int64_t next; /* the block that is its next */
} cut;

/* Returns the specification of one part of a mixture: its texts and its number of tokens. */
static es_blocks_spec spec_of(const es_blocks_spec *all, const es_text_part *part, int64_t tokens)
{
    es_blocks_spec spec = *all;
    spec.texts = part->texts;
    spec.n_texts = part->n_texts;
    spec.tokens = tokens;
    return spec;
}

/* Fails unless shares are positive and add up to 1. */
static es_status check(const es_text_part *parts, int64_t count, es_error *err)
{
    double sum = 0.0;
    if (count < 1 || count > ES_TEXT_PARTS)
        return es_fail(err, ES_E_RANGE, "pool.mix", "", "a mixture of %lld parts; 1 to %d",
                       (long long)count, ES_TEXT_PARTS);
    for (int64_t i = 0; i < count; i++) {
        if (!(parts[i].share > 0.0 && parts[i].share <= 1.0))
            return es_fail(err, ES_E_RANGE, "pool.mix", "shares are above 0 and add up to 1",
                           "part %lld has the share %g", (long long)i, parts[i].share);
        sum += parts[i].share;
    }
    if (fabs(sum - 1.0) > 1e-9)
        return es_fail(err, ES_E_RANGE, "pool.mix", "shares are above 0 and add up to 1",
                       "the shares add up to %.10g", sum);
    return ES_OK;
}

/* Counts the tokens of the whole mixture: the part that ends first decides. */
static es_status count_tokens(const es_blocks_spec *all, const es_text_part *parts, int64_t count,
                              es_mem_limit *budget, int64_t *out, es_error *err)
{
    *out = INT64_MAX;
    for (int64_t i = 0; i < count; i++) {
        es_blocks_spec spec = spec_of(all, &parts[i], 0);
        es_blocks blocks;
        spec.counted = true;
        ES_TRY(es_blocks_read(&spec, budget, &blocks, err));
        const double most = floor((double)blocks.start[blocks.count] / parts[i].share);
        *out = most < (double)*out ? (int64_t)most : *out;
        es_blocks_free(&blocks);
    }
    return ES_OK;
}

/* Reads the tokens of each part, rounded so that they add up. */
static es_status read_parts(const es_blocks_spec *all, const es_text_part *parts, int64_t count,
                            es_mem_limit *budget, cut *cuts, es_error *err)
{
    const es_tokenizer_info info = es_tokenizer_frame(all->tokenizer);
    const int64_t specials = info.prefix_count + info.suffix_count;
    int64_t tokens = all->tokens, before = 0;
    double sum = 0.0;
    if (!tokens)
        ES_TRY(count_tokens(all, parts, count, budget, &tokens, err));
    for (int64_t i = 0; i < count; i++) {
        sum += parts[i].share;
        const int64_t end = i + 1 < count ? (int64_t)floor(sum * (double)tokens + 0.5) : tokens;
        const es_blocks_spec spec = spec_of(all, &parts[i], end - before);
        if (end - before <= specials)
            return es_fail(err, ES_E_RANGE, "pool.mix", "ask for more tokens, or leave it out",
                           "part %lld has %lld of %lld tokens, too few for a block", (long long)i,
                           (long long)(end - before), (long long)tokens);
        ES_TRY(es_blocks_read(&spec, budget, &cuts[i].blocks, err));
        before = end;
    }
    return ES_OK;
}

/* Returns the part of the next block: the one that would have used the smallest fraction of its
 * tokens in the middle of its next block. So every few blocks have the mixture, and all parts end
 * together. */
static int64_t turn_of(const cut *cuts, int64_t count)
{
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t i = 0; i < count; i++) {
        const es_blocks *b = &cuts[i].blocks;
        if (cuts[i].next == b->count)
            continue;
        const double middle = 0.5 * (double)(b->start[cuts[i].next] + b->start[cuts[i].next + 1]);
        if (middle / (double)b->start[b->count] < least) {
            least = middle / (double)b->start[b->count];
            best = i;
        }
    }
    return best;
}

/* Merges the blocks of all parts evenly, so that any prefix of the result has about the
 * mixture's shares. */
static es_status interleave(cut *cuts, int64_t count, es_blocks *out, es_error *err)
{
    int64_t ids = 0, blocks = 0;
    for (int64_t i = 0; i < count; i++) {
        ids += cuts[i].blocks.start[cuts[i].blocks.count];
        blocks += cuts[i].blocks.count;
        out->repeats += cuts[i].blocks.repeats;
    }
    ES_TRY(ES_MEM_NEW(out->budget, out->ids, ids, "token ids", err));
    ES_TRY(ES_MEM_NEW(out->budget, out->start, blocks + 1, "blocks", err));
    for (; out->count < blocks; out->count++) {
        cut *c = &cuts[turn_of(cuts, count)];
        const int64_t *start = &c->blocks.start[c->next++], length = start[1] - start[0];
        int64_t *to = &out->start[out->count];
        memcpy(out->ids + *to, c->blocks.ids + *start, (size_t)length * sizeof *out->ids);
        to[1] = *to + length;
    }
    return ES_OK;
}

es_status es_blocks_mix(const es_blocks_spec *spec, const es_text_part *parts, int64_t count,
                        es_mem_limit *budget, es_blocks *out, es_text_used *used, es_error *err)
{
    cut cuts[ES_TEXT_PARTS] = {0};
    *out = (es_blocks){.budget = budget};
    ES_TRY(check(parts, count, err));
    es_status status = read_parts(spec, parts, count, budget, cuts, err);
    if (status == ES_OK)
        status = interleave(cuts, count, out, err);
    for (int64_t i = 0; i < count; i++) {
        const es_blocks *b = &cuts[i].blocks;
        if (used && status == ES_OK)
            used[i] = (es_text_used){b->start[b->count], b->count, b->repeats};
        es_blocks_free(&cuts[i].blocks);
    }
    if (status != ES_OK)
        es_blocks_free(out);
    return status;
}
