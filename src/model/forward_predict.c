/* SPDX-License-Identifier: Apache-2.0 */
/* forward_predict.c : what a block says at its end: labels of the whole, or the next token. */
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "base/view.h"
#include "linalg/dense.h"
#include "model/forward_inside.h"

/* ---- labels ---- */

/* Results that are few leave in f64, whatever the model computes in. */
static void copy_out(const es_model *m, const void *row, int64_t count, double *out)
{
    const es_view view = {
        (void *)row, m->precision, 1, count, 0, (int64_t)es_dtype_size(m->precision)};
    es_view_read_row(&view, 0, out);
}

/* The pooler looks at the first token or at the mean of all, the classifier at the pooler. */
void es_block_classify(const es_forward *f, const es_block_room *room, const es_model_block *b)
{
    const es_model *m = f->model;
    const int64_t H = m->config.hidden;
    char *logits = es_row_at(f, room->pooled, 1, H);
    if (m->config.mean_pooled) /* a column's mean takes the place of its first number */
        f->rows->mean(room->x, b->n, H, room->x);
    es_linear_apply(f, &m->pooler, room->x, NULL, 1, H, H, room->pooled);
    f->activate_pooled(&f->gelu, room->pooled, H);
    if (m->norm_pooled.w)
        f->rows->norm[m->arch->norm](&m->norm_pooled, m->config.layer_norm_eps, 1, H, room->pooled,
                                     room->pooled);
    if (b->pooled)
        copy_out(m, room->pooled, H, b->pooled);
    if (!b->logits)
        return;
    es_linear_apply(f, &m->classifier, room->pooled, NULL, 1, H, m->config.labels, logits);
    copy_out(m, logits, m->config.labels, b->logits);
}

/* ---- the next token ---- */

int64_t es_predict_rows(int64_t vocab)
{
    const int64_t rows = ((int64_t)1 << 22) / vocab;
    return rows < 1 ? 1 : rows < ES_STRIP ? rows : ES_STRIP;
}

typedef struct prediction {
    const es_forward *f;
    const es_block_room *room;
    const es_model_block *b;
} prediction;

/* Some rows: their norm, their logits, and how surprising the token that follows each is. The last
 * row has nothing that follows it. Logits that are wanted are made where they are wanted. */
static es_status predict_rows(void *prediction_, int64_t unit, int thread, es_error *err)
{
    const prediction *p = prediction_;
    const es_forward *f = p->f;
    const es_model *m = f->model;
    const es_model_block *b = p->b;
    const es_strip_room *strip = &p->room->strip[thread];
    const int64_t H = m->config.hidden, V = m->config.vocab, step = es_predict_rows(V);
    const int64_t first = unit * step, n = b->n - first < step ? b->n - first : step;
    const int64_t known = first + n < b->n ? n : n - 1;
    char *logits = b->token_logits ? es_row_at(f, b->token_logits, first, V) : strip->logits;
    if (!f->rows->norm[m->arch->norm](&m->norm_last, m->config.layer_norm_eps, n, H,
                                      es_row_at(f, p->room->x, first, H), strip->normed) &&
        !m->nonfinite)
        return es_fail(err, ES_E_NONFINITE, "forward.overflow",
                       "run the model in f64; if that fails too, its weights are damaged",
                       "NaN or infinity in the last hidden state");
    memset(logits, 0, (size_t)(n * V) * es_dtype_size(m->precision));
    es_gemm_add(m->precision, n, V, H, strip->normed, m->predictor.w, logits);
    if (m->config.logit_factor != 1.0 || m->config.logit_cap > 0.0)
        f->rows->finish_logits(m->config.logit_factor, m->config.logit_cap, n * V, logits);
    if (b->nll)
        f->rows->surprise(logits, known, V, b->ids + first + 1, b->nll + first);
    return ES_OK;
}

es_status es_block_predict(const es_forward *f, const es_block_room *room, const es_model_block *b,
                           es_error *err)
{
    const int64_t step = es_predict_rows(f->model->config.vocab);
    prediction p = {f, room, b};
    return es_parallel_run(&f->inner, (b->n + step - 1) / step, predict_rows, &p, err);
}
