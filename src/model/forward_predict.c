/* SPDX-License-Identifier: Apache-2.0 */
/* forward_predict.c : what a block says at its end: labels of the whole, or the next token. */
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "base/view.h"
#include "linalg/dense.h"
#include "model/forward_inside.h"

/* ---- labels ---- */

/* Copies a row to f64, from whichever precision the model computes in. */
static void copy_out(const es_model *m, const void *row, int64_t count, double *out)
{
    const es_view view = {
        (void *)row, m->precision, 1, count, 0, (int64_t)es_dtype_size(m->precision)};
    es_view_read_row(&view, 0, out);
}

/* The pooler looks at the first token or at the mean of all, the classifier at the pooler. */
void es_block_classify(const es_forward *f, const es_block_scratch *scratch,
                       const es_model_block *b)
{
    const es_model *m = f->model;
    const int64_t H = m->config.hidden;
    char *logits = es_row_at(f, scratch->pooled, 1, H);
    if (m->config.mean_pooled) /* a column's mean takes the place of its first number */
        f->rows->mean(scratch->x, b->n, H, scratch->x);
    es_linear_apply(f, &m->pooler, scratch->x, NULL, 1, H, H, scratch->pooled);
    f->activate_pooled(&f->gelu, scratch->pooled, H);
    if (m->norm_pooled.w)
        f->rows->norm[m->arch->norm](&m->norm_pooled, m->config.layer_norm_eps, 1, H,
                                     scratch->pooled, scratch->pooled);
    if (b->pooled)
        copy_out(m, scratch->pooled, H, b->pooled);
    if (!b->logits)
        return;
    es_linear_apply(f, &m->classifier, scratch->pooled, NULL, 1, H, m->config.labels, logits);
    copy_out(m, logits, m->config.labels, b->logits);
}

/* ---- the next token ---- */

int64_t es_predict_rows(int64_t vocab)
{
    const int64_t rows = ((int64_t)1 << 22) / vocab;
    return rows < 1 ? 1 : rows < ES_STRIP ? rows : ES_STRIP;
}

int64_t es_logits_together(int64_t vocab, int64_t n, int threads)
{
    const int64_t step = es_predict_rows(vocab), units = ES_LOGITS_AT_ONCE / (step * vocab);
    const int64_t most = (units < threads ? threads : units) * step; /* work for each thread */
    return n < most ? n : most;
}

/* Rows of a block whose logits are made, and the columns of the vocabulary that are next. */
typedef struct prediction {
    const es_forward *f;
    const es_block_scratch *scratch;
    const es_model_block *b;
    int64_t block;
    const es_exec *exec;
    int64_t first, end;      /* rows */
    int64_t column, columns; /* the first of them, and the first after them */
    char *logits;            /* of row `first`; NULL: each thread has its own */
    const void *panel;       /* columns of the language head, as its rows */
} prediction;

/* Adds logits (n, vocab) of normed rows for some columns, a panel at a time. */
static void add_logits(const prediction *p, const char *normed, int64_t n, char *logits)
{
    const es_model *m = p->f->model;
    const int64_t H = m->config.hidden, V = m->config.vocab;
    for (int64_t at = p->column; at < p->columns; at += ES_PANEL) {
        const int64_t cols = p->columns - at < ES_PANEL ? p->columns - at : ES_PANEL;
        const char *w = es_row_at(p->f, (char *)(uintptr_t)p->panel, at - p->column, H);
        es_gemm_add_columns(m->precision, n, cols, H, normed, w, es_row_at(p->f, logits, at, 1), V);
    }
}

/* Computes norms and logits of some rows, and the loss of the token that follows each; none follows
 * the last row. Logits that the caller asked for are written to the caller's memory. */
static es_status predict_rows(void *prediction_, int64_t unit, int thread, es_error *err)
{
    const prediction *p = prediction_;
    const es_forward *f = p->f;
    const es_model *m = f->model;
    const es_model_block *b = p->b;
    const es_strip_scratch *strip = &p->scratch->strip[thread];
    const int64_t H = m->config.hidden, V = m->config.vocab, step = es_predict_rows(V);
    const int64_t first = p->first + unit * step, n = p->end - first < step ? p->end - first : step;
    const int64_t known = first + n < b->n ? n : n - 1;
    char *logits = p->logits ? es_row_at(f, p->logits, first - p->first, V) : strip->logits;
    if (!f->rows->norm[m->arch->norm](&m->norm_last, m->config.layer_norm_eps, n, H,
                                      es_row_at(f, p->scratch->x, first, H), strip->normed) &&
        !m->nonfinite)
        return es_fail(err, ES_E_NONFINITE, "forward.overflow",
                       "run the model in f64; if that fails too, its weights are damaged",
                       "NaN or infinity in the last hidden state");
    if (!p->column)
        memset(logits, 0, (size_t)(n * V) * es_dtype_size(m->precision));
    add_logits(p, strip->normed, n, logits);
    if (p->columns < V)
        return ES_OK;
    if (m->config.logit_factor != 1.0 || m->config.logit_cap > 0.0)
        f->rows->finish_logits(m->config.logit_factor, m->config.logit_cap, n * V, logits);
    if (b->nll)
        f->rows->surprise(logits, known, V, b->ids + first + 1, b->nll + first);
    if (b->visit && b->visit->logits)
        return b->visit->logits(b->visit->context, p->block, first, n, logits, err);
    return ES_OK;
}

/* Runs the rows of a prediction for its columns. */
static es_status run_rows(prediction *p, es_error *err)
{
    const int64_t step = es_predict_rows(p->f->model->config.vocab);
    return es_parallel_run(p->exec, (p->end - p->first + step - 1) / step, predict_rows, p, err);
}

/* Decodes a panel of the language head, uses it for many rows, and goes on to the next. */
static es_status predict_streamed(prediction *p, es_error *err)
{
    const es_forward *f = p->f;
    const es_model_block *b = p->b;
    const int64_t V = f->model->config.vocab;
    const int64_t most = b->token_logits ? b->n : es_logits_together(V, b->n, f->team.threads);
    for (p->first = 0; p->first < b->n; p->first = p->end) {
        p->end = b->n - p->first < most ? b->n : p->first + most;
        p->logits = b->token_logits ? b->token_logits : f->logits;
        for (p->column = 0; p->column < V; p->column = p->columns) {
            p->columns = V - p->column < ES_PANEL ? V : p->column + ES_PANEL;
            ES_TRY(es_slot_panel(f->slot, true, p->column, p->columns - p->column, &p->panel, err));
            ES_TRY(run_rows(p, err));
        }
    }
    return ES_OK;
}

es_status es_block_predict(const es_forward *f, const es_block_scratch *scratch, int64_t block,
                           es_error *err)
{
    const es_exec all = {.threads = f->team.threads, .budget = f->team.budget};
    const es_model_block *b = &f->blocks[block];
    prediction p = {.f = f, .scratch = scratch, .b = b, .block = block, .exec = &all};
    if (f->model->config.weights == ES_WEIGHTS_STREAMED)
        return predict_streamed(&p, err);
    p.exec = &f->inner;
    p.end = b->n;
    p.columns = f->model->config.vocab;
    p.logits = b->token_logits;
    p.panel = f->model->predictor.w;
    return run_rows(&p, err);
}
