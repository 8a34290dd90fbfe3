/* products.c : the matrix products of the forward pass alone, as a measure of its speed. */
#include <esscher/model.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/dense.h"
#include "linalg/gemm.h"
#include "model/weights.h"

typedef struct job {
    const es_model *model;
    int64_t n;
    char *memory; /* per thread: (n, widest) in and (n, widest) out */
    size_t each;
} job;

static es_status run_block(void *job_, int64_t unit, int thread, es_error *err)
{
    const job *j = job_;
    const es_model *m = j->model;
    const int64_t H = m->config.hidden, I = m->config.intermediate;
    char *x = j->memory + (size_t)thread * 2 * j->each, *y = x + j->each;
    (void)unit;
    (void)err;
    for (int64_t layer = 0; layer < m->config.layers; layer++) {
        const es_layer *l = &m->layers[layer];
        es_gemm_add(m->precision, j->n, 3 * H, H, x, l->qkv.w, y);
        es_gemm_add(m->precision, j->n, H, H, x, l->out.w, y);
        es_gemm_add(m->precision, j->n, I, H, x, l->up.w, y);
        es_gemm_add(m->precision, j->n, H, I, x, l->down.w, y);
    }
    return ES_OK;
}

es_status es_model_products(const es_model *model, int64_t n, int64_t count, const es_exec *exec,
                            es_error *err)
{
    const int64_t H = model->config.hidden, I = model->config.intermediate;
    const int64_t widest = I > 3 * H ? I : 3 * H;
    const int threads = es_parallel_threads(exec, count);
    es_budget *budget = exec ? exec->budget : NULL;
    void *memory;
    if (n < 1 || n > model->config.positions)
        return es_fail(err, ES_E_RANGE, "forward.length", "a block has 1 to `positions` tokens",
                       "a block of %lld tokens; the model has %lld positions", (long long)n,
                       (long long)model->config.positions);
    job j = {
        .model = model, .n = n, .each = (size_t)(n * widest) * es_dtype_size(model->precision)};
    ES_TRY(es_mem_array(budget, 2 * threads, (int64_t)j.each, 1, "products", &memory, err));
    j.memory = memory; /* zeros: products of finite numbers, whatever is added */
    es_blas_enter();
    const es_status status = es_parallel_run(exec, count, run_block, &j, err);
    es_blas_leave();
    es_mem_free(budget, memory);
    return status;
}
