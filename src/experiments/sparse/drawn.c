/* SPDX-License-Identifier: Apache-2.0 */
/* drawn.c : normal tokens and one random head, for `sparse --preset paper` without a model. */
#include "base/error.h"
#include "base/view.h"
#include "experiments/sparse/sparse.h"
#include "linalg/linalg.h"
#include "random/experiment.h"

enum {
    ADDRESS_TOKENS = ES_EXPERIMENT_SPARSE + 4, /* cell: context */
    ADDRESS_HEAD = ES_EXPERIMENT_SPARSE + 5
};
enum { DIM = 64 };

/* Sets the shapes of the drawn example: Gaussian tokens of DIM dimensions and one random head. */
static es_status open_drawn(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const es_address at = {.seed = job->seed, .experiment = ADDRESS_HEAD};
    s->n = s->m = p->context ? p->context : s->question->context;
    s->layers = s->heads = 1;
    s->contexts = p->contexts;
    s->d = s->dv = s->hidden = DIM;
    ES_TRY(es_head_draw(ES_HEAD_RANDOM, &at, DIM, job->exec.budget, &s->drawn, err));
    s->scale = es_head_unit(&s->drawn.head);
    return ES_OK;
}

/* Computes out (n, k) = x (n, d) w'. */
static es_status project(const es_view *x, const es_view *w, es_arena *arena, es_view *out,
                         es_error *err)
{
    const es_view down = es_view_transpose(w);
    double *memory;
    ES_TRY(ES_ARENA_NEW_2D(arena, memory, x->rows, w->rows, "queries, keys and values", err));
    ES_TRY(es_mat_multiply(x, &down, arena->budget, memory, err));
    *out = es_view_f64(memory, x->rows, w->rows);
    return ES_OK;
}

/* Draws the tokens of one context and projects them to queries, keys and values. */
static es_status draw_tokens(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                             es_sparse_head *out, es_error *err)
{
    const sparse_state *s = job->state;
    (void)place;
    const es_address at = {
        .seed = job->seed, .experiment = ADDRESS_TOKENS, .cell = (uint64_t)context};
    double *memory;
    ES_TRY(ES_ARENA_NEW_2D(arena, memory, s->n, s->d, "tokens", err));
    ES_TRY(es_normal_rows(&at, s->n, s->d, memory, err));
    const es_view x = es_view_f64(memory, s->n, s->d);
    ES_TRY(project(&x, s->drawn.head.Wq, arena, &out->queries, err));
    ES_TRY(project(&x, s->drawn.head.Wk, arena, &out->keys, err));
    return project(&x, s->drawn.head.V, arena, &out->values, err);
}

const sparse_source sparse_drawn = {"drawn", .open = open_drawn, .head = draw_tokens};
