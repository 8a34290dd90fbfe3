/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.h : texts that a model is asked about, with what the right answer is: a file of labelled
 * sentences, or the paragraphs of a text; and the blocks of token ids that are made of them.
 *
 * A labelled file has one text to a line,
 *
 *     sentence<TAB>label
 *
 * where label is a number from 0 on or a name of the classifier's (id2label of config.json,
 * capitals or not). The first line may name the columns: it is taken for that if its label is
 * neither a number nor a name. Lines may end in CR LF, a byte order mark is skipped, and blank
 * lines at the end are no texts. Everything else is refused, with file, byte and line: a sentence
 * that is silently dropped would be an accuracy of something else.
 */
#ifndef ES_MODEL_TASKS_H
#define ES_MODEL_TASKS_H

#include <esscher/model.h>
#include <esscher/tokenizer.h>

#include "model/pool.h"

enum { ES_TASKS_BYTES = 1 << 26 }; /* of a file: far beyond any test set, far below memory */

typedef struct es_task {
    const char *text; /* `bytes` of them, no NUL at the end */
    size_t bytes;
    int64_t label; /* -1: there is none */
    int64_t line;  /* where it begins, from 1 */
} es_task;

typedef struct es_tasks {
    es_mem_limit *budget;
    void *file; /* bytes that the texts are in, if they are ours */
    int64_t count, capacity;
    es_task *at;
} es_tasks;

/*! es_tasks_parse() : the lines of text[0 .. size), which need not end in NUL and must outlive
 *  *out; `config` says which labels there are, `file` is for messages. *out is empty after a
 *  failure; release it with es_tasks_free(). O(size).
 *  @return : ES_OK; with err->offset and err->row, the line: ES_E_FORMAT: tasks.utf8, tasks.nul,
 *  tasks.fields (no tab, or more than one), tasks.text (no sentence before it), tasks.label,
 *  tasks.blank (a blank line before the last text); ES_E_EMPTY (tasks.rows); ES_E_LIMIT,
 *  ES_E_MEMORY. */
es_status es_tasks_parse(const char *text, size_t size, const char *file,
                         const es_model_config *config, es_mem_limit *budget, es_tasks *out,
                         es_error *err);

/*! es_tasks_load() : the same of a file of at most ES_TASKS_BYTES bytes. @return : also ES_E_IO;
 *  ES_E_LIMIT (tasks.size) before anything is read; ES_E_UNSUPPORTED as es_text_check(). */
es_status es_tasks_load(const char *path, const es_model_config *config, es_mem_limit *budget,
                        es_tasks *out, es_error *err);

/*! es_tasks_paragraphs() : the paragraphs of a text, which blank lines divide, without labels.
 *  @return : as es_tasks_load(), without the rules of lines. */
es_status es_tasks_paragraphs(const char *path, es_mem_limit *budget, es_tasks *out, es_error *err);

void es_tasks_free(es_tasks *tasks);

/* ---- token ids ---- */

/* How texts become blocks. */
typedef struct es_task_spec {
    const es_tokenizer *tokenizer;
    int64_t positions; /* of the model: a block is cut there */
    int64_t vocab;     /* as in es_encode_opts */
    int64_t least;     /* tokens of text, below which one is left out */
    int64_t most;      /* blocks at most; 0: all of them */
    /* Number of texts of one label that form a block, without special tokens between them; 0: each
     * text is a block. `seed` shuffles the texts of each label before they are grouped; an
     * incomplete last group is dropped. Labels alternate, so that the first blocks cover all. */
    int64_t concat;
    uint64_t seed;
} es_task_spec;

typedef struct es_task_blocks {
    es_blocks blocks;
    int64_t *labels;      /* (blocks.count) -1: none */
    int64_t cut;          /* blocks that were longer than the model's positions */
    int64_t left_out;     /* texts that are in no block: too short, left over, beyond `most` */
    int64_t longest, ids; /* tokens of the longest block, and of all of them */
} es_task_blocks;

/*! es_tasks_encode() : blocks of token ids, specials around each. A text that is longer than the
 *  model is not kept beyond it, whatever its length. O(bytes). Release with es_task_blocks_free().
 *  @return : ES_OK; ES_E_EMPTY (tasks.tokens) for a labelled text without a token, naming its line,
 *  or if there is no block at all; ES_E_RANGE; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_tasks_encode(const es_tasks *tasks, const es_task_spec *spec, es_mem_limit *budget,
                          es_task_blocks *out, es_error *err);
void es_task_blocks_free(es_task_blocks *blocks);

#endif
