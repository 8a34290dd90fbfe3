/* SPDX-License-Identifier: Apache-2.0 */
/* texts.c : text to calibrate on and text to verify on, as blocks of one length; or labelled
 * texts, each as long as it is. */
#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/default_size.h"
#include "model/model.h"
#include "text/text_even.h"

/* Chooses full blocks, spaced evenly over the text, because its beginning may differ from the rest.
 */
static es_status choose_blocks(es_job *job, const char *path, int64_t most, budget_text *t,
                               es_error *err)
{
    int64_t *whole, count = 0;
    ES_TRY(ES_JOB_NEW(job, whole, t->blocks.count, err));
    for (int64_t b = 0; b < t->blocks.count; b++)
        if (t->blocks.start[b + 1] - t->blocks.start[b] == t->length)
            whole[count++] = b;
    if (!count)
        return es_fail_file(err, ES_E_EMPTY, path, -1, "budget.text",
                            "give more text, or a smaller --context",
                            "no block of %lld tokens: the text has %lld", (long long)t->length,
                            (long long)t->blocks.start[t->blocks.count]);
    t->count = count < most ? count : most;
    ES_TRY(ES_JOB_NEW(job, t->chosen, t->count, err));
    for (int64_t b = 0; b < t->count; b++)
        t->chosen[b] = whole[es_even_block(b, t->count, count)];
    return ES_OK;
}

/* Returns how a text is read in blocks. Those of a decoder are running text that begins with the
 * prefix of its tokenizer, info. */
static es_blocks_spec spec_of(const es_job *job, const es_texts *files, int64_t length,
                              const es_tokenizer_info *info)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    return (es_blocks_spec){.tokenizer = s->tokenizer,
                            .texts = files->at,
                            .n_texts = files->count,
                            .length = length,
                            .vocab = s->config->vocab,
                            .invalid = (es_text_invalid)p->invalid,
                            .running = s->config->causal,
                            .start = info->prefix,
                            .n_start = s->config->causal ? info->prefix_count : 0,
                            .progress = job->exec.progress,
                            .progress_user = job->exec.progress_user};
}

/* Reads a text as blocks. */
static es_status read_text(es_job *job, const es_texts *files, int64_t length, int64_t most,
                           budget_text *t, es_error *err)
{
    const budget_state *s = job->state;
    const es_tokenizer_info info = es_tokenizer_frame(s->tokenizer);
    const es_blocks_spec spec = spec_of(job, files, length, &info);
    t->length = length;
    ES_TRY(es_blocks_read(&spec, job->exec.budget, &t->blocks, err));
    return choose_blocks(job, files->at[0], most, t, err);
}

/* Reads labelled texts for --verify-tasks and encodes them, up to --verify-blocks of each label. */
static es_status read_tasks(es_job *job, budget_text *t, es_error *err)
{
    const budget_params *p = job->params;
    budget_state *s = job->state;
    const es_task_spec spec = {.tokenizer = s->tokenizer,
                               .positions = s->config->positions,
                               .vocab = s->config->vocab,
                               .least = 1,
                               .most = p->verify_blocks,
                               .concat = p->concat,
                               .seed = job->seed};
    ES_TRY(es_tasks_load(p->tasks, s->config, job->exec.budget, &s->tasks, err));
    const es_status status = es_tasks_encode(&s->tasks, &spec, job->exec.budget, &t->tasks, err);
    if (status != ES_OK)
        return es_blame_file(status, p->tasks, err);
    t->length = t->tasks.longest;
    t->count = t->tasks.blocks.count;
    ES_TRY(ES_JOB_NEW(job, t->chosen, t->count, err));
    for (int64_t b = 0; b < t->count; b++)
        t->chosen[b] = b;
    return ES_OK;
}

/* Fails for a context that is too short to plan for, or longer than the model's positions. */
static es_status check_length(const budget_state *s, const char *option, int64_t n, es_error *err)
{
    if (n >= 16 && n <= s->config->positions)
        return ES_OK;
    return es_refuse(err, "budget.context",
                     "a context of at least 16 tokens that the model can read",
                     "--%s %lld: the model has %lld positions", option, (long long)n,
                     (long long)s->config->positions);
}

enum { CONTEXT, BLOCKS, VERIFY_BLOCKS, SIZES };

/* Returns the operations of a run of such sizes. */
static double work_of(const void *job, const int64_t *values)
{
    return budget_work(job, values[CONTEXT], values[BLOCKS], values[VERIFY_BLOCKS]);
}

/* Finds the usual context: the model's positions, or fewer if the text has too few such blocks. */
static es_status usual_context(const es_job *job, int64_t *out, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const es_tokenizer_info info = es_tokenizer_frame(s->tokenizer);
    const es_blocks_spec spec = spec_of(job, &p->texts, ES_SIZE_CONTEXT, &info);
    int64_t tokens = 0;
    *out = p->context ? p->context : s->config->positions;
    if (p->context || *out <= ES_SIZE_CONTEXT)
        return ES_OK;
    ES_TRY(es_count_tokens(&spec, job->exec.budget, &tokens, err));
    *out = es_default_length(*out, tokens, p->blocks);
    return ES_OK;
}

/* Chooses context and numbers of blocks, unless given, so that the run takes no longer than a
 * default run should. */
static es_status choose_sizes(es_job *job, es_error *err)
{
    static const es_size_step steps[] = {{CONTEXT, ES_SIZE_CONTEXT},
                                         {BLOCKS, ES_SIZE_BLOCKS / 2},
                                         {VERIFY_BLOCKS, ES_SIZE_BLOCKS / 2},
                                         {CONTEXT, ES_SIZE_SHORT},
                                         {BLOCKS, ES_SIZE_FEWEST},
                                         {VERIFY_BLOCKS, ES_SIZE_FEWEST}};
    budget_params *p = job->params;
    const budget_state *s = job->state;
    int64_t usual;
    ES_TRY(usual_context(job, &usual, err));
    es_size sizes[SIZES] = {
        [CONTEXT] = {"context", .usual = usual, .fixed = p->context, .halves = true,
                     .longest = s->config->positions},
        [BLOCKS] = {"blocks", .usual = p->blocks, .fixed = es_params_given(job->given, "blocks"),
                    .averaged = true},
        [VERIFY_BLOCKS] = {"verify-blocks", .usual = p->verify_blocks,
                           .fixed = es_params_given(job->given, "verify-blocks") ||
                                    !(p->verify.count || p->tasks)}};
    const es_sizing sizing = {sizes, SIZES, steps, sizeof steps / sizeof *steps, work_of, job};
    es_sizes_fit(&sizing);
    es_sizes_add_finding(&sizing, job->answer);
    if (sizes[CONTEXT].value < s->config->positions)
        p->context = sizes[CONTEXT].value;
    p->blocks = sizes[BLOCKS].value;
    p->verify_blocks = sizes[VERIFY_BLOCKS].value;
    return ES_OK;
}

/* Sets the tokens of the prompt; fails if the shortest block has nothing to predict after it. */
static es_status set_prompt(const budget_params *p, budget_state *s, int64_t shortest,
                            es_error *err)
{
    if (s->mode == BUDGET_IDEAL)
        return ES_OK;
    s->prompt = p->prompt.count ? p->prompt.counts[0] : s->n / 2;
    if (s->prompt < shortest - 1)
        return ES_OK;
    return es_refuse(err, "cache.prompt", "a shorter --prompt, or a longer context",
                     "a prompt of %lld tokens leaves nothing to predict in blocks of %lld",
                     (long long)s->prompt, (long long)shortest);
}

es_status budget_read_texts(es_job *job, es_error *err)
{
    const budget_params *p = job->params;
    budget_state *s = job->state;
    ES_TRY(es_tokenizer_open(es_model_folder(s->model), job->exec.budget, &s->tokenizer, err));
    ES_TRY(es_model_check_tokenizer(s->config, es_model_folder(s->model), s->tokenizer, err));
    ES_TRY(choose_sizes(job, err));
    s->n = p->context ? p->context : s->config->positions;
    const int64_t then = p->verify_context ? p->verify_context : s->n;
    ES_TRY(check_length(s, "context", s->n, err));
    ES_TRY(check_length(s, "verify-context", then, err));
    ES_TRY(set_prompt(p, s, then < s->n ? then : s->n, err));
    ES_TRY(read_text(job, &p->texts, s->n, p->blocks, &s->text, err));
    if (p->others.count)
        ES_TRY(read_text(job, &p->others, s->n, p->blocks, &s->others, err));
    if (p->tasks)
        return read_tasks(job, &s->verify, err);
    return p->verify.count ? read_text(job, &p->verify, then, p->verify_blocks, &s->verify, err)
                           : ES_OK;
}

es_token_block budget_block(const es_job *job, const budget_text *t, int64_t at)
{
    const budget_state *s = job->state;
    const es_blocks *b = t->tasks.labels ? &t->tasks.blocks : &t->blocks;
    const int64_t from = b->start[t->chosen[at]];
    return (es_token_block){.model = s->model,
                            .ids = b->ids + from,
                            .n = b->start[t->chosen[at] + 1] - from,
                            .number = at,
                            .seed = job->seed,
                            .late = s->prompt};
}
