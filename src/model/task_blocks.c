/* SPDX-License-Identifier: Apache-2.0 */
/* task_blocks.c : texts of a task become blocks of token ids, one by one or several of a label
 * together. */
#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/tasks.h"
#include "random/experiment.h"
#include "random/random.h"

/* The experiment of the address space whose cells are labels: which texts go together. */
enum { SHUFFLE = ES_EXPERIMENT_DOWNSTREAM + 1 };

/* Ids of all texts without specials, and what becomes of them. */
typedef struct maker {
    const es_tasks *tasks;
    const es_task_spec *spec;
    es_tokenizer_info info;
    es_task_blocks *out;
    es_mem_limit *budget;
    es_arena arena;
    int64_t capacity; /* ids of text in a block */
    int32_t *ids;     /* of all texts */
    int64_t ids_capacity;
    int64_t *start;              /* (tasks + 1) where a text's ids begin */
    int64_t *tokens;             /* (tasks) that it has, those that do not fit included */
    int64_t text;                /* which is being read */
    int64_t *chosen;             /* (n_chosen) texts in the order in which blocks take them */
    int64_t n_chosen, per;       /* texts of a block */
    int64_t ids_out, starts_out; /* capacity of the blocks' arrays */
} maker;

/* ---- texts ---- */

/* Appends tokens to the block. Those beyond the positions of the model are counted and dropped, so
 * that a line of a gigabyte takes no more memory than one that fits. */
static es_status take(void *user, const es_token *tokens, int64_t count, es_error *err)
{
    maker *m = user;
    for (int64_t i = 0; i < count; i++) {
        int64_t *end = &m->start[m->text + 1];
        if (m->tokens[m->text]++ >= m->capacity)
            continue;
        ES_TRY(ES_MEM_GROW(m->budget, m->ids, &m->ids_capacity, *end + 1, "token ids", err));
        m->ids[(*end)++] = tokens[i].id;
    }
    return ES_OK;
}

/* Tokenizes one text. A labelled text without tokens is an error, because it could not be
 * classified. */
static es_status read_text(maker *m, es_token_stream *stream, es_error *err)
{
    const es_task *task = &m->tasks->at[m->text];
    m->start[m->text + 1] = m->start[m->text];
    ES_TRY(es_token_stream_write(stream, task->text, task->bytes, err));
    ES_TRY(es_token_stream_finish(stream, err));
    if (m->tokens[m->text] || task->label < 0)
        return ES_OK;
    return es_fail_at(err, ES_E_EMPTY, task->line, -1, "tasks.tokens", "remove the line",
                      "line %lld: the text has no token", (long long)task->line);
}

/* Tokenizes all texts with one stream. */
static es_status read_texts(maker *m, es_error *err)
{
    const es_encode_opts opts = {.no_specials = true, .vocab = m->spec->vocab, .budget = m->budget};
    es_token_stream *stream;
    ES_TRY(es_token_stream_open(m->spec->tokenizer, &opts, take, m, &stream, err));
    es_status status = ES_OK;
    for (m->text = 0; m->text < m->tasks->count && status == ES_OK; m->text++)
        status = read_text(m, stream, err);
    es_token_stream_close(stream);
    return status;
}

/* ---- which texts, in which order ---- */

/* Returns whether a text has the least number of tokens. */
static bool long_enough(const maker *m, int64_t text)
{
    const int64_t least = m->spec->least > 1 ? m->spec->least : 1;
    return m->tokens[text] >= least;
}

/* Chooses every text as a block. */
static void choose_each(maker *m)
{
    m->per = 1;
    for (int64_t i = 0; i < m->tasks->count; i++)
        if (long_enough(m, i))
            m->chosen[m->n_chosen++] = i;
}

/* Texts of a label, in the order of the file, begin at first[label] of `sorted`. */
static es_status sort_by_label(maker *m, int64_t *labels, int64_t **first, int64_t **sorted,
                               es_error *err)
{
    *labels = 0;
    for (int64_t i = 0; i < m->tasks->count; i++)
        *labels = m->tasks->at[i].label >= *labels ? m->tasks->at[i].label + 1 : *labels;
    ES_TRY(ES_ARENA_NEW(&m->arena, *first, *labels + 2, "labels", err));
    ES_TRY(ES_ARENA_NEW(&m->arena, *sorted, m->tasks->count, "texts", err));
    /* counts shifted by two, so that filling moves first[label + 1] to where the next begins */
    for (int64_t i = 0; i < m->tasks->count; i++)
        if (long_enough(m, i))
            (*first)[m->tasks->at[i].label + 2]++;
    for (int64_t c = 2; c < *labels + 2; c++)
        (*first)[c] += (*first)[c - 1];
    for (int64_t i = 0; i < m->tasks->count; i++)
        if (long_enough(m, i))
            (*sorted)[(*first)[m->tasks->at[i].label + 1]++] = i;
    return ES_OK;
}

/* Chooses group `turn` of each label that has one; labels alternate. */
static es_status choose_turn(maker *m, int64_t turn, int64_t labels, const int64_t *first,
                             const int64_t *sorted, bool *any, es_error *err)
{
    const int64_t K = m->spec->concat;
    *any = false;
    for (int64_t c = 0; c < labels; c++) {
        const int64_t count = first[c + 1] - first[c];
        const es_address at = {.seed = m->spec->seed, .experiment = SHUFFLE, .cell = (uint64_t)c};
        es_permutation shuffle;
        if ((turn + 1) * K > count)
            continue;
        ES_TRY(es_permutation_init(&at, count, &shuffle, err));
        for (int64_t i = 0; i < K; i++)
            m->chosen[m->n_chosen++] = sorted[first[c] + es_permutation_at(&shuffle, turn * K + i)];
        *any = true;
    }
    return ES_OK;
}

/* Chooses texts to be concatenated: in turns over the labels, so that every label has as many
 * blocks. */
static es_status choose_together(maker *m, es_error *err)
{
    int64_t labels, *first, *sorted;
    bool more = true;
    m->per = m->spec->concat;
    ES_TRY(sort_by_label(m, &labels, &first, &sorted, err));
    for (int64_t turn = 0; more; turn++)
        ES_TRY(choose_turn(m, turn, labels, first, sorted, &more, err));
    return ES_OK;
}

/* ---- blocks ---- */

/* Appends ids to the blocks. */
static es_status push(maker *m, int64_t at, const int32_t *ids, int64_t count, es_error *err)
{
    es_blocks *b = &m->out->blocks;
    if (count == 0)
        return ES_OK;
    ES_TRY(ES_MEM_GROW(m->budget, b->ids, &m->ids_out, at + count, "token ids", err));
    memcpy(b->ids + at, ids, (size_t)count * sizeof *ids);
    return ES_OK;
}

/* Writes the texts chosen[first ..] between special tokens, up to the positions of the model. */
static es_status make_block(maker *m, int64_t first, es_error *err)
{
    es_blocks *b = &m->out->blocks;
    int64_t at = b->start[b->count], left = m->capacity, tokens = 0;
    ES_TRY(push(m, at, m->info.prefix, m->info.prefix_count, err));
    at += m->info.prefix_count;
    for (int64_t i = first; i < first + m->per; i++) {
        const int64_t text = m->chosen[i], have = m->start[text + 1] - m->start[text];
        const int64_t count = have < left ? have : left;
        ES_TRY(push(m, at, m->ids + m->start[text], count, err));
        at += count;
        left -= count;
        tokens += m->tokens[text];
    }
    ES_TRY(push(m, at, m->info.suffix, m->info.suffix_count, err));
    at += m->info.suffix_count;
    m->out->cut += tokens > m->capacity;
    const int64_t length = at - b->start[b->count];
    m->out->longest = length > m->out->longest ? length : m->out->longest;
    m->out->labels[b->count] = m->tasks->at[m->chosen[first]].label;
    b->start[++b->count] = at;
    m->out->ids = at;
    return ES_OK;
}

/* Makes the blocks from the chosen texts, at most spec->most of them. */
static es_status make_blocks(maker *m, es_error *err)
{
    es_blocks *b = &m->out->blocks;
    int64_t count = m->n_chosen / m->per;
    if (m->spec->most && count > m->spec->most)
        count = m->spec->most;
    m->out->left_out = m->tasks->count - count * m->per;
    if (!count)
        return es_fail(err, ES_E_EMPTY, "tasks.tokens",
                       "give longer texts, or a smaller --least or --concat",
                       "0 of %lld texts have enough tokens", (long long)m->tasks->count);
    ES_TRY(ES_MEM_NEW(m->budget, b->start, count + 1, "blocks", err));
    ES_TRY(ES_MEM_NEW(m->budget, m->out->labels, count, "labels", err));
    for (int64_t i = 0; i < count; i++)
        ES_TRY(make_block(m, i * m->per, err));
    return ES_OK;
}

/* Tokenizes, chooses and makes blocks. `capacity` is what is left of the positions after special
 * tokens. */
static es_status make(maker *m, es_error *err)
{
    const int64_t count = m->tasks->count;
    if (m->capacity < 1)
        return es_fail(err, ES_E_RANGE, "tasks.positions",
                       "check max_position_embeddings in config.json",
                       "the model has no position for a token of text");
    ES_TRY(ES_ARENA_NEW_2D(&m->arena, m->tokens, count, 2, "texts", err));
    m->chosen = m->tokens + count;
    ES_TRY(ES_ARENA_NEW(&m->arena, m->start, count + 1, "texts", err));
    ES_TRY(read_texts(m, err));
    if (m->spec->concat)
        ES_TRY(choose_together(m, err));
    else
        choose_each(m);
    return make_blocks(m, err);
}

es_status es_tasks_encode(const es_tasks *tasks, const es_task_spec *spec, es_mem_limit *budget,
                          es_task_blocks *out, es_error *err)
{
    const es_tokenizer_info info = es_tokenizer_frame(spec->tokenizer);
    maker m = {.tasks = tasks,
               .spec = spec,
               .info = info,
               .out = out,
               .budget = budget,
               .arena = {.budget = budget},
               .capacity = spec->positions - info.prefix_count - info.suffix_count};
    *out = (es_task_blocks){.blocks = {.budget = budget}};
    const es_status status = make(&m, err);
    es_mem_free(budget, m.ids);
    es_arena_free(&m.arena);
    if (status != ES_OK)
        es_task_blocks_free(out);
    return status;
}

void es_task_blocks_free(es_task_blocks *blocks)
{
    es_mem_free(blocks->blocks.budget, blocks->labels);
    es_blocks_free(&blocks->blocks);
    *blocks = (es_task_blocks){0};
}
