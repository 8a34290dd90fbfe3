/* SPDX-License-Identifier: Apache-2.0 */
/* text_horizons.c : the horizon of each text, from its own tokens and all heads of a layer as one.
 *
 * With X (n, H) the input of the layer, C = X less its mean row, S = C'C/n, and A the sum of
 * Wq'Wk over heads,
 *
 *     |S^1/2 A S^1/2| = |C A C'|/n = |(C Wq')(C Wk')'|/n,
 *
 * because C/sqrt(n) and S^1/2 differ by a matrix with orthonormal columns. So no covariance and no
 * root of one is needed, and a short text costs little. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/downstream/downstream.h"
#include "experiments/kit/cell_kit.h"
#include "linalg/linalg.h"
#include "model/layer_heads.h"

enum { TOGETHER = 8 }; /* texts whose hidden states are held at a time */

/* A layer's matrices and the inputs of the texts that are held. */
typedef struct walk {
    const es_downstream *d;
    int64_t layer, width; /* width: rows of wq and wk, k times the number of heads */
    double *wq, *wk;      /* (width, H) all heads, one below the other */
    char *inputs;         /* (TOGETHER, layer + 1, longest, H) */
    es_arena arena;
    es_model_block blocks[TOGETHER];
    double *out; /* of the texts that are held */
} walk;

/* Copies the matrices of all heads, one below the other. */
static es_status read_heads(walk *w, const es_exec *exec, es_error *err)
{
    const es_model_config *c = es_model_config_of(w->d->model);
    es_layer_heads *heads;
    ES_TRY(es_layer_heads_open(w->d->model, w->layer, exec, &heads, err));
    const int64_t k = es_layer_heads_at(heads, 0).wq.rows;
    w->width = c->heads * k;
    es_status status =
        ES_ARENA_NEW_2D(&w->arena, w->wq, w->width, c->hidden, "matrices of all heads", err);
    if (status == ES_OK)
        status =
            ES_ARENA_NEW_2D(&w->arena, w->wk, w->width, c->hidden, "matrices of all heads", err);
    for (int64_t h = 0; h < c->heads && status == ES_OK; h++) {
        const es_model_head head = es_layer_heads_at(heads, h);
        for (int64_t i = 0; i < k; i++) {
            es_view_read_row(&head.wq, i, w->wq + (h * k + i) * c->hidden);
            es_view_read_row(&head.wk, i, w->wk + (h * k + i) * c->hidden);
        }
    }
    es_layer_heads_close(heads);
    return status;
}

/* Allocates the inputs of TOGETHER texts. */
static es_status walk_new(walk *w, const es_exec *exec, es_error *err)
{
    const int64_t H = es_model_config_of(w->d->model)->hidden;
    const es_blocks *t = w->d->texts;
    const int64_t item = (int64_t)es_dtype_size(es_model_precision(w->d->model));
    int64_t longest = 0;
    for (int64_t i = 0; i < t->count; i++)
        longest = t->start[i + 1] - t->start[i] > longest ? t->start[i + 1] - t->start[i] : longest;
    ES_TRY(read_heads(w, exec, err));
    const int64_t text = (w->layer + 1) * longest * H * item;
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->inputs, TOGETHER, text, "inputs of a layer", err));
    for (int64_t i = 0; i < TOGETHER; i++)
        w->blocks[i] = (es_model_block){.inputs = w->inputs + i * text, .states = w->layer + 2};
    return ES_OK;
}

/* Computes x W' (n, width), and its factor R (width, width) in its place if n > width: orthonormal
 * columns on the left change no norm of (x Wq')(x Wk')'. Returns the rows that are left. */
static es_status project(const es_view *x, const es_view *W, es_arena *arena, es_view *out,
                         es_error *err)
{
    const es_view turned = es_view_transpose(W);
    double *y, *q, *r;
    ES_TRY(ES_ARENA_NEW_2D(arena, y, x->rows, W->rows, "projected tokens", err));
    ES_TRY(es_mat_multiply(x, &turned, arena->budget, y, err));
    *out = es_view_f64(y, x->rows, W->rows);
    if (x->rows <= W->rows)
        return ES_OK;
    ES_TRY(ES_ARENA_NEW_2D(arena, q, x->rows, W->rows, "projected tokens", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, r, W->rows, W->rows, "projected tokens", err));
    ES_TRY(es_qr_factor(out, arena->budget, q, r, err));
    *out = es_view_f64(r, W->rows, W->rows);
    return ES_OK;
}

/* Computes |(C Wq')(C Wk')'|/n of the centred rows C of x. */
static es_status horizon_of(const walk *w, const es_view *x, es_arena *arena, double *out,
                            es_error *err)
{
    const int64_t n = x->rows, H = x->cols;
    const es_view wq = es_view_f64(w->wq, w->width, H), wk = es_view_f64(w->wk, w->width, H);
    double *rows, *mean, *m;
    es_view q, k;
    es_num norm;
    ES_TRY(ES_ARENA_NEW_2D(arena, rows, n, H, "centred tokens", err));
    ES_TRY(ES_ARENA_NEW(arena, mean, H, "a mean", err));
    for (int64_t i = 0; i < n; i++) {
        es_view_read_row(x, i, rows + i * H);
        for (int64_t c = 0; c < H; c++)
            mean[c] += rows[i * H + c] / (double)n;
    }
    for (int64_t i = 0; i < n * H; i++)
        rows[i] -= mean[i % H];
    const es_view centred = es_view_f64(rows, n, H);
    ES_TRY(project(&centred, &wq, arena, &q, err));
    ES_TRY(project(&centred, &wk, arena, &k, err));
    ES_TRY(ES_ARENA_NEW_2D(arena, m, q.rows, k.rows, "scores", err));
    const es_view turned = es_view_transpose(&k), scores = es_view_f64(m, q.rows, k.rows);
    ES_TRY(es_mat_multiply(&q, &turned, arena->budget, m, err));
    ES_TRY(es_norm_spectral(&scores, arena->budget, &norm, err));
    *out = norm.val / (double)n;
    return ES_OK;
}

/* Computes the horizon of one text that is held. */
static es_status measure_text(void *user, int64_t i, int thread, es_error *err)
{
    const walk *w = user;
    const es_model_block *b = &w->blocks[i];
    const int64_t H = es_model_config_of(w->d->model)->hidden;
    const es_dtype dtype = es_model_precision(w->d->model);
    const int64_t row = H * (int64_t)es_dtype_size(dtype);
    const es_view x = {(char *)b->inputs + w->layer * b->n * row, dtype, b->n, H, row, row / H};
    es_arena arena = {.budget = w->arena.budget};
    (void)thread;
    const es_status status = horizon_of(w, &x, &arena, &w->out[i], err);
    es_arena_free(&arena);
    return status;
}

/* Runs texts first .. first + count - 1 up to the layer, a few at a time. */
static es_status walk_texts(walk *w, int64_t first, int64_t count, const es_exec *exec, double *out,
                            es_error *err)
{
    const es_exec quiet = es_exec_quiet(exec);
    const es_blocks *t = w->d->texts;
    for (int64_t done = 0; done < count; done += TOGETHER) {
        const int64_t held = count - done < TOGETHER ? count - done : TOGETHER;
        for (int64_t i = 0; i < held; i++) {
            w->blocks[i].ids = t->ids + t->start[first + done + i];
            w->blocks[i].n = t->start[first + done + i + 1] - t->start[first + done + i];
        }
        w->out = out + done;
        ES_TRY(es_model_forward(w->d->model, w->blocks, held, &quiet, err));
        ES_TRY(es_parallel_run(&quiet, held, measure_text, w, err));
    }
    return ES_OK;
}

es_status es_downstream_text_horizons(const es_downstream *d, int64_t layer, int64_t first,
                                      int64_t count, const es_exec *exec, double *out,
                                      es_error *err)
{
    walk w = {.d = d, .layer = layer, .arena = {.budget = exec ? exec->budget : NULL}};
    es_status status = walk_new(&w, exec, err);
    if (status == ES_OK)
        status = walk_texts(&w, first, count, exec, out, err);
    es_arena_free(&w.arena);
    return status;
}

double es_downstream_text_bytes(const es_downstream *d, int64_t layer, int64_t longest, int threads)
{
    const es_model_config *c = es_model_config_of(d->model);
    const double n = (double)longest, H = (double)c->hidden;
    const double width = (double)(c->heads * c->head_dim), side = fmin(n, width);
    const double item = (double)es_dtype_size(es_model_precision(d->model));
    /* centred rows; projections and their factors; scores; copies inside LAPACK and Lanczos */
    const double text =
        n * H + 6.0 * n * width + 4.0 * width * width * (n > width) + 8.0 * side * side + H;
    return 16.0 * width * H + TOGETHER * (double)(layer + 1) * n * H * item +
           8.0 * text * fmin((double)threads, TOGETHER);
}
