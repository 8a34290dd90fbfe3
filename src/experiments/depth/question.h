/* question.h : what the parts of the study `depth` share: a model's layers (depth/model.c) and a
 * synthetic stack's (depth/synthetic.c). */
#ifndef ES_EXPERIMENTS_DEPTH_QUESTION_H
#define ES_EXPERIMENTS_DEPTH_QUESTION_H

#include "experiments/depth/depth.h"
#include <esscher/tokenizer.h>

#include "driver/job.h"
#include "experiments/kit/policy_params.h"
#include "model/pool.h"

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

typedef struct depth_state {
    es_model *model;
    es_tokenizer *tokenizer;
    es_blocks text;
    int64_t *chosen; /* (blocks) numbers of the blocks that are read */
    int64_t blocks;
    es_policies policies;
    depth_stack *stacks;
    int64_t n_stacks;
} depth_state;

/* Of each way: the rest of open(), with its stage; cost; what cells need; the answer. */
es_status depth_model_open(es_job *job, es_error *err);
void depth_model_cost(const es_job *job, es_cost *out);
es_status depth_model_answer(es_job *job, es_answer *answer, es_error *err);

es_status depth_stack_open(es_job *job, es_error *err);
void depth_stack_cost(const es_job *job, es_cost *out);
es_status depth_stack_begin(es_job *job, es_error *err);
es_status depth_stack_answer(es_job *job, es_answer *answer, es_error *err);

#endif
