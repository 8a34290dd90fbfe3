/* SPDX-License-Identifier: Apache-2.0 */
/* question.h : the two questions of the study `depth`: a model's layers (model.c) and a synthetic
 * stack's (synthetic.c). */
#ifndef ES_EXPERIMENTS_DEPTH_QUESTION_H
#define ES_EXPERIMENTS_DEPTH_QUESTION_H

#include "experiments/depth/depth.h"
#include <esscher/tokenizer.h>

#include "driver/job.h"
#include "experiments/kit/policy_params.h"
#include "model/pool.h"

/* The options of both questions. */
typedef struct depth_params {
    /* a model */
    const char *model;
    es_texts texts;
    int64_t length, blocks;
    int invalid; /* as es_text_invalid */
    es_policy_params policy;
    int64_t layer, directions;
    /* a stack */
    bool synthetic, fresh;
    int64_t dim, depth, replicates, reference;
    es_grid n, horizon;
    double value;
    int norm, head;
} depth_params;

/* One synthetic stack: a norm and a horizon before the first layer. */
typedef struct depth_stack {
    es_stack stack;
    double asked;  /* horizon */
    double *A, *V; /* (depth, dim, dim) */
    es_stack_limit *limit;
    double *horizon; /* (depth + 1) of the limit */
} depth_stack;

/* What a run asks, chosen once in open(). */
typedef struct depth_question {
    es_status (*open)(es_job *job, es_error *err); /* the rest of open(), with its stage */
    es_status (*cost)(es_job *job, es_cost *out, es_error *err);
    es_status (*begin)(es_job *job, es_error *err); /* NULL: nothing to make */
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
} depth_question;

extern const depth_question depth_model, depth_synthetic;

/* What the options make, for a model or for stacks. */
typedef struct depth_state {
    const depth_question *question;
    /* a model */
    es_model *model;
    es_tokenizer *tokenizer;
    es_blocks text;
    int64_t *chosen; /* (blocks) numbers of the blocks that are read */
    int64_t blocks;
    es_policies policies;
    /* stacks */
    depth_stack *stacks;
    int64_t n_stacks;
} depth_state;

#endif
