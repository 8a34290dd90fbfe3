/* SPDX-License-Identifier: Apache-2.0 */
/* text.c : what the model is to predict: files of text through its tokenizer, or ids. */
#include <stdlib.h>
#include <string.h>

#include <esscher/npy.h>

#include "base/error.h"
#include "experiments/loss/loss.h"
#include "model/model.h"
#include "table/table.h"
#include "text/text_even.h"

/* ---- text ---- */

/* Finds the ids that begin a block, unless --start gives them: those of the tokenizer and the
 * model's files. */
static es_status find_start(const es_job *job, int32_t start[ES_TOKENIZER_SPECIALS], int64_t *count,
                            es_error *err)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const es_tokenizer_info info = es_tokenizer_frame(s->tokenizer);
    char *end;
    *count = 0;
    if (p->start && strcmp(p->start, "none") == 0)
        return ES_OK;
    if (p->start) {
        const long long id = strtoll(p->start, &end, 10);
        if (*end || end == p->start || id < 0 || id >= s->config->vocab)
            return es_refuse(err, "loss.start", "--start ID, or --start none",
                             "--start %s is no id of the model: it has 0 to %lld", p->start,
                             (long long)s->config->vocab - 1);
        start[(*count)++] = (int32_t)id;
        return ES_OK;
    }
    for (int i = 0; i < info.prefix_count; i++)
        start[(*count)++] = info.prefix[i];
    return ES_OK;
}

/* Reads text in blocks, with the tokens that the model puts at the start. */
static es_status read_texts(es_job *job, int64_t length, es_error *err)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    ES_TRY(es_tokenizer_open(es_model_folder(s->model), job->exec.budget, &s->tokenizer, err));
    ES_TRY(es_model_check_tokenizer(s->config, es_model_folder(s->model), s->tokenizer, err));
    ES_TRY(find_start(job, s->start, &s->n_start, err));
    const es_blocks_spec spec = {.tokenizer = s->tokenizer,
                                 .texts = p->texts.at,
                                 .n_texts = p->texts.count,
                                 .length = length,
                                 .vocab = s->config->vocab,
                                 .invalid = (es_text_invalid)p->invalid,
                                 .running = true,
                                 .start = s->start,
                                 .n_start = s->n_start,
                                 .most = p->blocks,
                                 .from = (es_blocks_from)p->from,
                                 .progress = job->exec.progress,
                                 .progress_user = job->exec.progress_user};
    return es_blocks_read(&spec, job->exec.budget, &s->text, err);
}

/* ---- ids ---- */

/* Reads one id and fails unless it is a token of the model. */
static es_status take_id(const es_array *array, int64_t at, int64_t vocab, const char *path,
                         int32_t *out, es_error *err)
{
    const double id = array->dtype == ES_F32 ? (double)((const float *)array->data)[at]
                                             : ((const double *)array->data)[at];
    if (!(id >= 0.0 && id < (double)vocab) || (double)(int32_t)id != id)
        return es_fail_file(err, ES_E_FORMAT, path, -1, "loss.ids",
                            "ids of this model's own tokenizer",
                            "number %lld is %.9g: ids are whole numbers from 0 to %lld",
                            (long long)at, id, (long long)vocab - 1);
    *out = (int32_t)id;
    return ES_OK;
}

/* Cuts one row into blocks; a rest of one id predicts nothing and is left out. If blocks are taken
 * evenly, from `b->of` whole ones of all rows, skips the others. */
static es_status cut_row(es_job *job, const es_array *array, int64_t row, int64_t length,
                         es_error *err)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    const int64_t cols = array->shape[array->rank - 1];
    es_blocks *b = &s->text;
    for (int64_t from = 0; from + 1 < cols; from += length) {
        const int64_t n = cols - from < length ? cols - from : length;
        int32_t *to = b->ids + b->start[b->count];
        if (p->blocks && b->count == p->blocks)
            return ES_OK;
        if (b->of && (n < length || row * (cols / length) + from / length !=
                                        es_even_block(b->count, p->blocks, b->of)))
            continue;
        for (int64_t i = 0; i < n; i++)
            ES_TRY(take_id(array, row * cols + from + i, s->config->vocab, p->ids, &to[i], err));
        b->start[b->count + 1] = b->start[b->count] + n;
        b->count++;
    }
    return ES_OK;
}

/* Cuts an array of ids into blocks; a row starts a new block. */
static es_status cut_ids(es_job *job, const es_array *array, int64_t length, es_error *err)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    const int64_t cols = array->shape[array->rank - 1];
    const int64_t rows = array->rank == 2 ? array->shape[0] : 1, whole = rows * (cols / length);
    es_blocks *b = &s->text;
    *b = (es_blocks){.budget = job->exec.budget};
    if (p->blocks && p->blocks <= whole && p->from == ES_BLOCKS_EVEN)
        b->of = whole;
    ES_TRY(ES_MEM_NEW_2D(b->budget, b->ids, rows, cols, "token ids", err));
    ES_TRY(ES_MEM_NEW(b->budget, b->start, rows * (cols / length + 1) + 1, "blocks", err));
    for (int64_t r = 0; r < rows; r++)
        ES_TRY(cut_row(job, array, r, length, err));
    return ES_OK;
}

/* Reads --ids, which may be floats as long as they are whole numbers. */
static es_status read_ids(es_job *job, int64_t length, es_error *err)
{
    const loss_params *p = job->params;
    es_array array;
    ES_TRY(es_npy_load_as(p->ids, ES_NPY_RAW_WHOLE, job->exec.budget, &array, err));
    es_answer_input(job->answer, "ids", p->ids, array.rank, array.shape,
                    array.dtype == ES_F32 ? "f32" : "whole");
    es_status status = array.rank > 2 ? es_fail_file(err, ES_E_SHAPE, p->ids, -1, "loss.shape",
                                                     "(ids) or (blocks, ids)",
                                                     "ids have %d dimensions", array.rank)
                                      : cut_ids(job, &array, length, err);
    es_array_free(&array);
    return status;
}

/* What begins a fresh text of ids: what begins a text by the model's files, if all blocks begin
 * with it. Otherwise, and without a tokenizer, it is not known. */
static es_status find_ids_start(es_job *job, es_error *err)
{
    loss_state *s = job->state;
    const char *folder = es_model_folder(s->model);
    if (!es_tokenizer_memory(folder))
        return ES_OK;
    ES_TRY(es_tokenizer_open(folder, job->exec.budget, &s->tokenizer, err));
    const es_tokenizer_info info = es_tokenizer_frame(s->tokenizer);
    const size_t bytes = (size_t)info.prefix_count * sizeof *s->start;
    for (int64_t b = 0; b < s->text.count; b++)
        if (loss_length(s, b) < info.prefix_count ||
            memcmp(s->text.ids + s->text.start[b], info.prefix, bytes) != 0)
            return ES_OK;
    memcpy(s->start, info.prefix, bytes);
    s->n_start = info.prefix_count;
    return ES_OK;
}

/* ---- either ---- */

/* Counts tokens to predict and bytes; fails if there is nothing to predict. */
static es_status count_tokens(es_job *job, es_error *err)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    for (int64_t b = 0; b < s->text.count; b++) {
        const int64_t n = loss_length(s, b);
        s->longest = n > s->longest ? n : s->longest;
        s->tokens += n > 0 ? n - 1 : 0;
        s->bytes += s->text.bytes ? s->text.bytes[b] : 0;
    }
    if (s->tokens)
        return ES_OK;
    return es_fail_file(err, ES_E_EMPTY, p->ids ? p->ids : p->texts.at[0], -1, "loss.empty",
                        "bring more of it", "there is nothing to predict: a block needs two ids");
}

es_status loss_read_text(es_job *job, es_error *err)
{
    loss_params *p = job->params;
    const loss_state *s = job->state;
    const int64_t length = p->block ? p->block : s->config->positions;
    if (length > s->config->positions && !p->rope)
        return es_refuse(err, "loss.block", "leave --block out; --rope none allows longer blocks",
                         "blocks of %lld ids; the model has %lld positions", (long long)length,
                         (long long)s->config->positions);
    ES_TRY(p->ids ? read_ids(job, length, err) : read_texts(job, length, err));
    if (p->ids && p->window.count && !p->policy.names)
        ES_TRY(find_ids_start(job, err));
    return count_tokens(job, err);
}
