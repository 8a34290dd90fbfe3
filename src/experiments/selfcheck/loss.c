/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c : do intervals of `loss` hold the loss of the whole text, if blocks are taken
 * evenly from it? The loss of every block is computed once; a trial takes one of each of B equal
 * stretches of the text. An even grid has N/B offsets only, so that trials would repeat each other:
 * here every block has a random place in its stretch. */
#include "base/error.h"
#include "base/memory.h"
#include "experiments/selfcheck/question.h"
#include "model/model.h"
#include "random/experiment.h"
#include "random/random.h"

/* Ids of a block; blocks of the text, at most and at least: from 16 of 64 the interval is 15 % too
 * wide, because it is about a text without end. */
enum { LENGTH = 256, MOST = 512, FEWEST = 64 };

/* Reads the text in blocks; fails if there are few. */
static es_status read_text(const es_job *job, const es_tokenizer *tokenizer, es_blocks *out,
                           es_error *err)
{
    const selfcheck_params *p = job->params;
    const es_tokenizer_info info = es_tokenizer_frame(tokenizer);
    const es_blocks_spec spec = {.tokenizer = tokenizer,
                                 .texts = p->pool.texts.at,
                                 .n_texts = p->pool.texts.count,
                                 .length = LENGTH,
                                 .running = true,
                                 .start = info.prefix,
                                 .n_start = info.prefix_count,
                                 .most = MOST};
    ES_TRY(es_blocks_read(&spec, job->exec.budget, out, err));
    if (out->count >= FEWEST)
        return ES_OK;
    return es_fail_file(err, ES_E_EMPTY, p->pool.texts.at[0], -1, "selfcheck.text",
                        "bring a longer text, or --only something else",
                        "the text has %lld blocks of %d tokens, and %d are needed",
                        (long long)out->count, LENGTH, FEWEST);
}

/* The sum of the losses of each block. */
static es_status predict(es_job *job, const es_model *model, const es_blocks *text,
                         es_checked_text *out, es_error *err)
{
    es_model_block *blocks;
    double *nll;
    ES_TRY(ES_JOB_NEW(job, blocks, text->count, err));
    ES_TRY(ES_JOB_NEW_2D(job, nll, text->count, LENGTH, err));
    ES_TRY(ES_JOB_NEW(job, out->blocks, text->count, err));
    for (int64_t b = 0; b < text->count; b++)
        blocks[b] = (es_model_block){.ids = text->ids + text->start[b],
                                     .n = text->start[b + 1] - text->start[b],
                                     .nll = nll + b * LENGTH};
    es_job_phase(job, "predicting the text", 1.0);
    ES_TRY(es_model_forward(model, blocks, text->count, &job->exec, err));
    double sum = 0.0, tokens = 0.0;
    for (int64_t b = 0; b < text->count; b++) {
        out->blocks[b].count = (double)blocks[b].n - 1.0;
        for (int64_t i = 0; i + 1 < blocks[b].n; i++)
            out->blocks[b].sum += blocks[b].nll[i];
        sum += out->blocks[b].sum;
        tokens += out->blocks[b].count;
    }
    out->count = text->count;
    out->mean = sum / tokens;
    return ES_OK;
}

es_status es_checked_text_read(es_job *job, es_checked_text *out, es_error *err)
{
    const selfcheck_params *p = job->params;
    const es_model_opts opts = {.budget = job->exec.budget};
    es_model *model = NULL;
    es_tokenizer *tokenizer = NULL;
    es_blocks text = {0};
    if (!p->pool.texts.count)
        return es_refuse(err, "selfcheck.text", "give it with --text",
                         "intervals of loss are checked on a text, and there is none");
    es_status status = es_model_open(p->pool.model, &opts, &model, err);
    if (status == ES_OK)
        status = es_tokenizer_open(es_model_folder(model), job->exec.budget, &tokenizer, err);
    if (status == ES_OK)
        status = read_text(job, tokenizer, &text, err);
    if (status == ES_OK)
        status = predict(job, model, &text, out, err);
    es_blocks_free(&text);
    es_tokenizer_free(tokenizer);
    es_model_close(model);
    return status;
}

es_status es_direct_losses(const es_job *job, const es_setting *setting, int64_t trial,
                           uint64_t seed, const es_exec *exec, es_estimate *out, es_error *err)
{
    const es_checked_text *text = &((const selfcheck_state *)job->state)->text;
    const double stretch = (double)text->count / (double)setting->replicates;
    es_block_sum chosen[ES_CHECKED_BLOCKS];
    (void)trial;
    (void)exec;
    (void)err;
    for (int64_t j = 0; j < setting->replicates; j++) {
        const es_address at = {
            .seed = seed, .experiment = ES_EXPERIMENT_SELFCHECK, .cell = (uint64_t)j};
        chosen[j] = text->blocks[(int64_t)(((double)j + es_uniform_at(&at)) * stretch)];
    }
    const es_block_mean m = es_block_mean_of(chosen, setting->replicates);
    out[0] = (es_estimate){m.value - text->mean, m.low - m.value, m.high - m.value};
    return ES_OK;
}
