/* SPDX-License-Identifier: Apache-2.0 */
/* pool_text.c : the text of a pool, cut into blocks; what the pool will take. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "model/forward_inside.h"
#include "model/model.h"
#include "model/model_inside.h"
#include "model/pool_files.h"

/* Removes blocks that have no more ids than are left out of each. */
static es_status remove_short(int64_t left_out, es_blocks *b, es_error *err)
{
    int64_t count = 0, end = 0;
    for (int64_t i = 0; i < b->count; i++) {
        const int64_t first = b->start[i], length = b->start[i + 1] - first;
        if (length <= left_out)
            continue;
        memmove(b->ids + end, b->ids + first, (size_t)length * sizeof *b->ids);
        b->start[count++] = end;
        end += length;
    }
    b->start[count] = end;
    b->count = count;
    if (count)
        return ES_OK;
    es_blocks_free(b);
    return es_fail(err, ES_E_EMPTY, "pool.short", "use more text or longer blocks",
                   "no block has more than %lld tokens, and that many are left out of each",
                   (long long)left_out);
}

es_status es_pool_text_read(const es_pool_spec *s, const es_exec *exec, bool counted,
                            es_pool_text *out, es_error *err)
{
    es_mem_limit *budget = exec ? exec->budget : NULL;
    const es_tokenizer_info info = es_tokenizer_frame(s->tokenizer);
    const es_blocks_spec spec = {.tokenizer = s->tokenizer,
                                 .texts = s->texts,
                                 .n_texts = s->n_texts,
                                 .length = es_pool_length(s),
                                 .tokens = s->tokens,
                                 .from = s->from,
                                 .repeat = s->repeat,
                                 .invalid = s->invalid,
                                 .vocab = es_model_config_of(s->model)->vocab,
                                 .counted = counted,
                                 .shuffle = s->shuffle,
                                 .seed = s->seed,
                                 .progress = exec ? exec->progress : NULL,
                                 .progress_user = exec ? exec->progress_user : NULL};
    const int64_t prefix = s->drop_specials ? info.prefix_count : 0;
    *out = (es_pool_text){.prefix = s->skip > prefix ? s->skip : prefix,
                          .suffix = s->drop_specials ? info.suffix_count : 0};
    ES_TRY(es_model_check_tokenizer(es_model_config_of(s->model), es_model_folder(s->model),
                                    s->tokenizer, err));
    ES_TRY(s->n_parts
               ? es_blocks_mix(&spec, s->parts, s->n_parts, budget, &out->blocks, out->parts, err)
               : es_blocks_read(&spec, budget, &out->blocks, err));
    if (s->skip)
        ES_TRY(remove_short(out->prefix + out->suffix, &out->blocks, err));
    out->rows = es_pool_text_row(out, out->blocks.count);
    return ES_OK;
}

es_status es_pool_text_starts(const es_pool_text *text, es_mem_limit *budget, int64_t **out,
                              es_error *err)
{
    const int64_t count = text->blocks.count + 1;
    ES_TRY(ES_MEM_NEW(budget, *out, count, "blocks", err));
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = es_pool_text_row(text, i);
    return ES_OK;
}

uint64_t es_pool_text_hash(const es_pool_text *text)
{
    const es_blocks *b = &text->blocks;
    return es_crc(0, b->ids, (size_t)b->start[b->count] * sizeof *b->ids);
}

/* ---- cost ---- */

/* Returns the work of running the model over all blocks, in operations of attention. */
static double forward_flops(const es_model *model, const es_blocks *blocks)
{
    double flops = 0.0;
    for (int64_t i = 0; i < blocks->count; i++) {
        const int64_t n = blocks->start[i + 1] - blocks->start[i];
        const es_model_cost cost = es_model_cost_of(es_model_config_of(model), ES_F32, n, 1, false);
        flops += es_model_work(&cost);
    }
    return flops;
}

/* Counts the rows that a sparse pool has of all layers. */
static es_status count_kept(const es_pool_spec *spec, const es_pool_text *text,
                            es_mem_limit *budget, double *out, es_error *err)
{
    const int64_t layers = es_model_config_of(spec->model)->layers;
    es_pool_kept *kept;
    *out = (double)text->rows * (double)layers;
    if (!spec->keep)
        return ES_OK;
    es_arena arena = {.budget = budget};
    es_status status = ES_ARENA_NEW(&arena, kept, layers, "kept rows", err);
    if (status == ES_OK)
        status = es_pool_kept_make(spec, text, &arena, kept, err);
    *out = 0.0;
    for (int64_t l = 0; l < layers && status == ES_OK; l++)
        *out += (double)kept[l].count;
    es_arena_free(&arena);
    return status;
}

int64_t es_pool_together(const es_model_config *c, int64_t states, int64_t length, int threads)
{
    const double fit = 0x1p29 / (4.0 * (double)states * (double)length * (double)c->hidden);
    const int64_t least = length > ES_STRIP || threads < 1 ? 1 : threads;
    const int64_t most = fit < (double)least ? least : (int64_t)fmin(fit, ES_POOL_BATCH);
    return most < ES_POOL_BATCH ? most : ES_POOL_BATCH;
}

/* Computes the cost of a pool. The text is tokenized for this, seconds where the pool takes
 * minutes; guessing tokens from bytes is off by a factor of two between languages. */
static es_status cost_of_text(const es_pool_spec *spec, const es_exec *exec,
                              const es_pool_text *text, es_pool_cost *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const es_blocks *blocks = &text->blocks;
    const double H = (double)c->hidden, L = (double)c->layers;
    const double longest = (double)es_pool_length(spec);
    const double n = (double)blocks->start[blocks->count];
    const double item = spec->store == ES_POOL_F16 ? 2.0 : 4.0;
    const double sums = spec->keep ? 1.0 : longest * ES_POOL_BATCH; /* of a batch and layer */
    const int threads = exec && exec->threads ? exec->threads : es_threads_available();
    const double together = (double)es_pool_together(c, c->layers, es_pool_length(spec), threads);
    double rows;
    ES_TRY(count_kept(spec, text, exec ? exec->budget : NULL, &rows, err));
    const double run = (double)es_pool_batches(blocks->count) * L *
                           (sums + (double)(c->heads * ES_POOL_SEEN) * ES_POOL_BATCH) *
                           sizeof(double) +
                       (spec->keep ? 12.0 * rows : 0.0);
    *out = (es_pool_cost){
        .tokens = text->rows,
        .flops = forward_flops(spec->model, blocks),
        .disk_bytes = rows * H * item + run,
        .run_bytes = run,
        .held_bytes = (spec->keep ? 16.0 : 8.0) * rows + (spec->keep ? 8.0 * n : 0.0),
        /* hidden states and sums of a batch; what its blocks need; ids, and what shuffling takes */
        .bytes = (size_t)(together * longest * L * H * 4.0 + ES_POOL_BATCH * longest * L * 8.0 +
                          ES_POOL_BATCH * ES_POOL_SEEN * 8.0 * L * (double)c->heads +
                          es_model_cost_of(c, ES_F32, es_pool_length(spec), threads, false).bytes +
                          (spec->shuffle ? 40.0 : 16.0) * n)};
    memcpy(out->parts, text->parts, sizeof out->parts);
    return es_blocks_facts(blocks, spec->tokenizer, &out->text, err);
}

es_status es_pool_cost_of(const es_pool_spec *spec, const es_exec *exec, es_pool_cost *out,
                          es_error *err)
{
    es_pool_text text;
    es_status status = es_pool_text_read(spec, exec, true, &text, err);
    if (status == ES_OK)
        status = cost_of_text(spec, exec, &text, out, err);
    es_blocks_free(&text.blocks);
    return status;
}
