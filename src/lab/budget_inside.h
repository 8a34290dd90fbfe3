/* budget_inside.h : a layer's attention output, summed up from the heads that a model shows. */
#ifndef ES_LAB_BUDGET_INSIDE_H
#define ES_LAB_BUDGET_INSIDE_H

#include <esscher/experiment.h>
#include <esscher/model.h>

#include "base/memory.h"

/* Experiments of the address space. */
enum {
    ES_BUDGET_QUERIES = ES_EXPERIMENT_BUDGET,   /* cell: block */
    ES_BUDGET_GAINS = ES_EXPERIMENT_BUDGET + 1, /* keys kept by chance; cells as model.h says */
    ES_BUDGET_TRIAL = ES_EXPERIMENT_BUDGET + 2, /* likewise */
    ES_BUDGET_OWN = ES_EXPERIMENT_BUDGET + 3    /* likewise, each layer alone */
};

/* Of late positions alone: a = sum over heads of Wo_h y_h. */
typedef struct es_wo_sum {
    const es_model *model;
    int64_t n, from;
    double *wo;   /* (H, k) of the head that was added last */
    double *rows; /* (n - from, H) */
} es_wo_sum;

/*! es_wo_sum_new() : room for blocks of n, in the arena. es_wo_sum_add() : one more head of a
 *  layer; head 0 begins anew. es_wo_sum_spread2() : mean |a - mean a|^2. es_wo_sum_apart2() : mean
 *  |a - b|^2. es_wo_sum_bytes() : memory. */
es_status es_wo_sum_new(const es_model *model, int64_t n, es_arena *arena, es_wo_sum *out,
                        es_error *err);
es_status es_wo_sum_add(es_wo_sum *sum, const es_model_seen *seen, es_error *err);
double es_wo_sum_spread2(const es_wo_sum *sum);
double es_wo_sum_apart2(const es_wo_sum *a, const es_wo_sum *b);
double es_wo_sum_bytes(const es_model_config *config, int64_t n);

#endif
