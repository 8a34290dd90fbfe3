/* SPDX-License-Identifier: Apache-2.0 */
/* forward_products.c : the matrix products of a forward pass alone, as a measure of its speed. */
#include <esscher/model.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/dense.h"
#include "model/forward_inside.h"
#include "model/model.h"

typedef struct product_job {
    const es_model *model;
    int64_t layer;
    const es_layer *weights; /* of the layer */
    int64_t n;
    char *memory; /* per thread: (ES_STRIP, widest) in and (ES_STRIP, widest) out */
    size_t each;
} product_job;

/* Multiplies as many rows by each expert as it has when tokens use all experts alike. In a streamed
 * model the decoded one stands for all of them. */
static void multiply_experts(const es_model *m, const es_part_stack *s, int64_t rows, const char *x,
                             const es_linear *all, char *y)
{
    const es_model_config *c = &m->config;
    const int64_t outputs = s->rows / c->experts, each = rows * c->experts_used;
    for (int64_t e = 0; e < c->experts; e++) {
        const int64_t count = each * (e + 1) / c->experts - each * e / c->experts;
        const es_linear own = es_linear_expert(m, all, e, outputs, s->cols);
        if (count)
            es_gemm_add(m->precision, count, outputs, s->cols, x, own.w, y);
    }
}

/* The shapes of a layer, strip by strip, on zeros: time does not depend on the numbers. */
static es_status multiply_strip(void *job_, int64_t unit, int thread, es_error *err)
{
    const product_job *j = job_;
    const es_model *m = j->model;
    const int64_t rows = es_strip_at(j->n, unit % es_strips(j->n)).n;
    char *x = j->memory + (size_t)thread * 2 * j->each, *y = x + j->each;
    (void)err;
    for (es_part_stack s = {0}; es_part_stack_next(m->arch, &m->config, j->layer, &s);) {
        const es_linear *part = (const es_linear *)((const char *)j->weights + s.part->at);
        if (es_part_is_expert(s.part))
            multiply_experts(m, &s, rows, x, part, y);
        else if (!es_part_is_norm(s.part) && !es_part_is_vector(s.part))
            es_gemm_add(m->precision, rows, s.rows, s.cols, x, part->w, y);
    }
    return ES_OK;
}

/* Multiplies with the matrices of all layers, one after the other. */
static es_status multiply_layers(product_job *j, int64_t units, const es_exec *exec, es_error *err)
{
    es_layer_slot slot;
    ES_TRY(es_slot_new(j->model, exec, &slot, err));
    es_status status = ES_OK;
    for (j->layer = 0; j->layer < j->model->config.layers && status == ES_OK; j->layer++) {
        status = es_slot_layer(&slot, j->layer, &j->weights, err);
        if (status == ES_OK)
            status = es_slot_expert(&slot, j->layer, 0, err);
        if (status == ES_OK)
            status = es_parallel_run(exec, units, multiply_strip, j, err);
    }
    es_slot_free(&slot);
    return status;
}

es_status es_model_products(const es_model *model, int64_t n, int64_t count, const es_exec *exec,
                            es_error *err)
{
    int64_t widest = model->config.hidden;
    const int64_t units = count * es_strips(n), rows = n < ES_STRIP ? n : ES_STRIP;
    const int threads = es_parallel_threads(exec, units);
    es_mem_limit *budget = exec ? exec->budget : NULL;
    if (n < 1 || n > model->config.positions)
        return es_fail(err, ES_E_RANGE, "forward.length", "a block has 1 to `positions` tokens",
                       "a block of %lld tokens; the model has %lld positions", (long long)n,
                       (long long)model->config.positions);
    for (int64_t l = 0; l < model->config.layers; l++)
        for (es_part_stack s = {0}; es_part_stack_next(model->arch, &model->config, l, &s);) {
            const int64_t outputs =
                s.rows / (es_part_is_expert(s.part) ? model->config.experts : 1);
            widest = outputs > widest ? outputs : widest;
            widest = s.cols > widest ? s.cols : widest;
        }
    product_job j = {
        .model = model, .n = n, .each = (size_t)(rows * widest) * es_dtype_size(model->precision)};
    /* zeros: products of finite numbers, whatever is added */
    ES_TRY(ES_MEM_NEW_2D(budget, j.memory, 2 * threads, (int64_t)j.each, "products", err));
    es_blas_enter();
    const es_status status = multiply_layers(&j, units, exec, err);
    es_blas_leave();
    es_mem_free(budget, j.memory);
    return status;
}
