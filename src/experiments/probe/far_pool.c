/* SPDX-License-Identifier: Apache-2.0 */
/* far_pool.c : keys and values of some blocks of text, from which far keys are drawn. */
#include "experiments/probe/far.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "random/random.h"

/* The pool while the model runs. */
typedef struct far_build_ctx {
    const es_far_build *b;
    const es_model_config *c;
    es_far_pool *pool;
    int64_t *place; /* (blocks, rows) places that are kept, increasing in a block */
} far_build_ctx;

/* Returns the offset of a row in keys and in values. */
static int64_t offset_of(const es_far_pool *p, const es_model_config *c, int64_t layer,
                         int64_t kv_head, int64_t at)
{
    return ((layer * c->kv_heads + kv_head) * p->blocks * p->rows + at) * c->head_dim;
}

const float *es_far_pool_key(const es_far_pool *pool, const es_model_config *c, int64_t layer,
                             int64_t kv_head, int64_t at)
{
    return pool->keys + offset_of(pool, c, layer, kv_head, at);
}

const float *es_far_pool_value(const es_far_pool *pool, const es_model_config *c, int64_t layer,
                               int64_t kv_head, int64_t at)
{
    return pool->values + offset_of(pool, c, layer, kv_head, at);
}

/* Copies one row of a view to floats; scratch (cols). */
static void copy_row(const es_view *v, int64_t row, double *scratch, float *out)
{
    es_view_read_row(v, row, scratch);
    for (int64_t c = 0; c < v->cols; c++)
        out[c] = (float)scratch[c];
}

/* Stores the rows of one head; heads of a group share them. */
static es_status visit(void *user, const es_model_seen *seen, es_error *err)
{
    far_build_ctx *m = user;
    const int64_t group = m->c->heads / m->c->kv_heads, rows = m->pool->rows;
    const es_view *keys = seen->plain_k.data ? &seen->plain_k : &seen->k;
    double *scratch;
    if (seen->head % group)
        return ES_OK;
    ES_TRY(ES_MEM_NEW(m->pool->budget, scratch, m->c->head_dim, "a row", err));
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = seen->block * rows + r;
        const int64_t to = offset_of(m->pool, m->c, seen->layer, seen->head / group, at);
        copy_row(keys, m->place[at], scratch, m->pool->keys + to);
        copy_row(&seen->v, m->place[at], scratch, m->pool->values + to);
    }
    es_mem_free(m->pool->budget, scratch);
    return ES_OK;
}

/* Chooses places of every block: one at random in each of `rows` equal parts, sinks apart. */
static void choose_places(far_build_ctx *m)
{
    const es_far_build *b = m->b;
    const double part = (double)(b->length - b->sinks) / (double)b->rows;
    for (int64_t i = 0; i < b->blocks * b->rows; i++) {
        const es_address at = {.seed = b->seed,
                               .experiment = ES_EXPERIMENT_FAR,
                               .cell = b->cell,
                               .token = (uint64_t)i};
        const double u = es_uniform_at(&at);
        m->place[i] = b->sinks + (int64_t)(((double)(i % b->rows) + u) * part);
    }
}

/* Runs the model over all blocks. */
static es_status run(far_build_ctx *m, const es_exec *exec, es_error *err)
{
    const es_far_build *b = m->b;
    const es_model_visit visits = {.head = visit, .context = m, .plain = true};
    es_model_block *blocks;
    ES_TRY(ES_MEM_NEW(m->pool->budget, blocks, b->blocks, "blocks", err));
    for (int64_t i = 0; i < b->blocks; i++)
        blocks[i] = (es_model_block){.ids = b->ids[i], .n = b->length, .visit = &visits};
    const es_status status = es_model_forward(b->model, blocks, b->blocks, exec, err);
    es_mem_free(m->pool->budget, blocks);
    return status;
}

/* Allocates a pool and fills it. */
static es_status make(far_build_ctx *m, const es_exec *exec, es_error *err)
{
    es_far_pool *p = m->pool;
    const int64_t rows = m->c->layers * m->c->kv_heads * p->blocks * p->rows;
    ES_TRY(ES_MEM_NEW(p->budget, p->source, p->blocks, "a pool of keys", err));
    ES_TRY(ES_MEM_NEW_2D(p->budget, p->keys, rows, m->c->head_dim, "a pool of keys", err));
    ES_TRY(ES_MEM_NEW_2D(p->budget, p->values, rows, m->c->head_dim, "a pool of keys", err));
    ES_TRY(ES_MEM_NEW_2D(p->budget, m->place, p->blocks, p->rows, "places", err));
    for (int64_t i = 0; i < p->blocks; i++)
        p->source[i] = m->b->source[i];
    choose_places(m);
    return run(m, exec, err);
}

es_status es_far_pool_build(const es_far_build *build, const es_exec *exec, es_far_pool *out,
                            es_error *err)
{
    es_far_pool pool = {.budget = exec ? exec->budget : NULL,
                        .blocks = build->blocks,
                        .rows = build->rows,
                        .length = build->length,
                        .first = build->sinks};
    far_build_ctx m = {.b = build, .c = es_model_config_of(build->model), .pool = &pool};
    const es_status status = make(&m, exec, err);
    es_mem_free(pool.budget, m.place);
    if (status != ES_OK)
        es_far_pool_free(&pool);
    *out = pool;
    return status;
}

void es_far_pool_free(es_far_pool *pool)
{
    es_mem_free(pool->budget, pool->source);
    es_mem_free(pool->budget, pool->keys);
    es_mem_free(pool->budget, pool->values);
    *pool = (es_far_pool){0};
}
