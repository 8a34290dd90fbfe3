/* SPDX-License-Identifier: Apache-2.0 */
/* forward_layer.c : one layer of one block.
 *
 * With x (n, H), norms after the sums (BERT) | before what they are for (most decoders); others
 * norm what is added, too, or nothing else (forward_transform.c):
 *   1  qkv (n, Q + 2K) = x Wqkv' + b               |  norm1(x) Wqkv' + b
 *   2  norms of queries and keys, rotary positions, factors, where the model has them
 *   3  per head: scores and weighted values           the attention engine, nothing (n, n) stored;
 *                                                     or what a policy keeps (sparse_head.c), for
 *                                                     all heads at once that share it
 *   4  x = norm1(x + heads Wo' + bo)               |  x + heads Wo' + bo
 *   5  m (n, I) = f(x W1' + b1)                    |  f(y Wg') (y W1'), y = norm2(x)
 *   6  x = norm2(x + m W2' + b2)                   |  x + m W2' + b2
 * or, in a layer with experts, forward_experts.c for 5 and 6.
 * Steps 1 and 2, and 4 to 6 (forward_transform.c), are done strip by strip (forward_inside.h). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "base/view.h"
#include "linalg/dense.h"
#include "model/forward_cache.h"
#include "model/forward_inside.h"
#include "policy/policy.h"

void es_linear_apply(const es_forward *f, const es_linear *linear, const void *x,
                     const void *residual, int64_t n, int64_t inputs, int64_t outputs, void *y)
{
    f->rows->begin(linear->b, residual, n, outputs, y);
    es_gemm_add(f->model->precision, n, outputs, inputs, x, linear->w, y);
}

/* The one place where rows are looked at number by number anyway, so it is here that an
 * overflow is noticed, at most half a layer after it happened. */
es_status es_pass_norm(const es_layer_pass *p, const es_linear *norm, int64_t n, const void *x,
                       void *out, es_error *err)
{
    const es_model *m = p->f->model;
    const es_model_config *c = &m->config;
    if (p->f->rows->norm[m->arch->norm](norm, c->layer_norm_eps, n, c->hidden, x, out) ||
        m->nonfinite)
        return ES_OK;
    return es_fail(err, ES_E_NONFINITE, "forward.overflow",
                   "run the model in f64; if that fails too, its weights are damaged",
                   "NaN or infinity while computing hidden state %lld", (long long)p->layer + 1);
}

/* ---- steps 1 and 2: queries, keys and values ---- */

/* What a strip's product becomes before queries meet keys. Queries and keys before rotation are
 * kept if the caller asked for them. */
static void place_rows(const es_layer_pass *p, es_strip s, char *qkv)
{
    const es_forward *f = p->f;
    const es_model_config *c = &f->model->config;
    const es_block_scratch *scratch = p->scratch;
    const es_layer_kind *kind = es_model_layer(c, p->layer);
    const es_rotary *rotary = es_pass_rotary(p);
    const int64_t item = (int64_t)es_dtype_size(f->model->precision);
    const es_head_rows q = {qkv, s.n, c->qkv_width, c->heads, c->head_dim};
    const es_head_rows k = {qkv + c->query_width * item, s.n, c->qkv_width, c->kv_heads,
                            c->head_dim};
    if (p->l->norm_q.w)
        f->rows->norm_heads(f->model->arch, &p->l->norm_q, c->layer_norm_eps, &q);
    if (p->l->norm_k.w)
        f->rows->norm_heads(f->model->arch, &p->l->norm_k, c->layer_norm_eps, &k);
    const int64_t both = c->query_width + c->kv_width;
    for (int64_t i = 0; scratch->plain && i < s.n; i++)
        memcpy(es_row_at(f, scratch->plain, s.first + i, both), es_row_at(f, qkv, i, c->qkv_width),
               (size_t)(both * item));
    if (rotary) {
        const int64_t first = s.first * (rotary->width / 2);
        const double *cosines = scratch->cosines[kind->rotary] + first,
                     *sines = scratch->sines[kind->rotary] + first;
        f->rows->turn(&q, rotary, cosines, sines);
        f->rows->turn(&k, rotary, cosines, sines);
    }
    if (scratch->query_factor)
        f->rows->scale(&q, scratch->query_factor + s.first);
    if (p->b->score_factor)
        f->rows->scale(&q, p->b->score_factor + s.first);
}

/* Computes queries, keys and values of one strip of rows: norm first if the architecture is
 * pre-norm, then the joint product with Wq, Wk, Wv, then rotary positions. */
static es_status project(void *pass_, int64_t unit, int thread, es_error *err)
{
    const es_layer_pass *p = pass_;
    const es_forward *f = p->f;
    const es_model_config *c = &f->model->config;
    const es_strip s = es_strip_at(p->b->n, unit);
    const size_t bytes = (size_t)(s.n * c->hidden) * es_dtype_size(f->model->precision);
    const char *x = es_row_at(f, p->scratch->x, s.first, c->hidden);
    char *qkv = es_row_at(f, p->scratch->qkv, s.first, c->qkv_width);
    if (f->model->arch->order != ES_ORDER_POST && p->l->norm1.w) {
        ES_TRY(es_pass_norm(p, &p->l->norm1, s.n, x, p->scratch->strip[thread].normed, err));
        x = p->scratch->strip[thread].normed;
    }
    if (p->b->inputs)
        memcpy(es_row_at(f, p->b->inputs, (p->layer - p->b->start) * p->b->n + s.first, c->hidden),
               x, bytes);
    es_linear_apply(f, &p->l->qkv, x, NULL, s.n, c->hidden, c->qkv_width, qkv);
    place_rows(p, s, qkv);
    return ES_OK;
}

/* ---- step 3: heads ---- */

/* Sums in the order of the queries, so that the mean has the same bits for any number of
 * threads. */
static double mean_of(const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* Only asked where weights are known to hold NaN or Inf: a pass over the block, which others
 * need not pay for. */
static bool all_finite(const es_view qkv[3])
{
    es_scan scan;
    es_error why;
    for (int i = 0; i < 3; i++)
        if (es_view_scan(&qkv[i], "qkv", &scan, &why) != ES_OK)
            return false;
    return true;
}

/* Attention takes no NaN. Where weights hold some that were allowed, a token that is not finite is
 * so in its query, key and value, and as a key it spoils the output of every other. */
static void spoil(const es_attend_out *out, int64_t n, int64_t k)
{
    double *const statistics[] = {out->lse, out->entropy, out->top_weight, out->sum_squares};
    for (int64_t i = 0; i < n * k; i++)
        out->output[i] = (double)NAN;
    for (int s = 0; s < 4; s++)
        for (int64_t i = 0; statistics[s] && i < n; i++)
            statistics[s][i] = (double)NAN;
}

/* Returns the address of a head's draws: model.h says which cells are its queries'. */
static es_address address_of(const es_model *m, const es_model_sparse *sparse, int64_t head)
{
    es_address at = sparse->at;
    at.cell += (uint64_t)(head * m->config.positions);
    at.token = 0;
    at.lane = 0;
    return at;
}

es_view es_pass_band(const es_layer_pass *p, char *rows, int64_t column, int64_t width)
{
    const es_model *m = p->f->model;
    const int64_t item = (int64_t)es_dtype_size(m->precision);
    return (es_view){.data = rows + column * item,
                     .dtype = m->precision,
                     .rows = p->b->n,
                     .cols = m->config.head_dim,
                     .row_stride = width * item,
                     .col_stride = item};
}

/* Queries, keys and values of a head. */
static void views_of(const es_layer_pass *p, int64_t head, es_view qkv[3])
{
    const es_model_config *c = &p->f->model->config;
    const int64_t k = c->head_dim, group = head / (c->heads / c->kv_heads), Q = c->query_width;
    qkv[0] = es_pass_band(p, p->scratch->qkv, head * k, c->qkv_width);
    qkv[1] = es_pass_band(p, p->scratch->qkv, Q + group * k, c->qkv_width);
    qkv[2] = es_pass_band(p, p->scratch->qkv, Q + c->kv_width + group * k, c->qkv_width);
}

/* Returns where the results of a head go: each head of a group has its own place, as all may
 * run at once. Statistics that were not requested are not computed. */
static es_attend_out results_of(const es_layer_pass *p, int64_t head)
{
    const es_model_config *c = &p->f->model->config;
    const es_model_block *b = p->b;
    const es_block_scratch *scratch = p->scratch;
    const int64_t at = b->sparse ? head % (c->heads / c->kv_heads) : 0, n = b->n;
    const bool all = b->visit && b->visit->statistics;
    return (es_attend_out){
        .output = scratch->head + at * n * c->head_dim,
        .lse = all ? scratch->lse + at * n : NULL,
        .entropy = all || b->entropy ? scratch->entropy + at * n : NULL,
        .top_weight = all || b->top_weight ? scratch->top_weight + at * n : NULL,
        .sum_squares = all || b->sum_squares || b->ess ? scratch->sum_squares + at * n : NULL};
}

/* Stores how many keys a head kept and how many queries kept none, if the caller asked for it. */
static void note_found(const es_layer_pass *p, int64_t head, const es_sparse_found *found)
{
    const int64_t at = p->layer * p->f->model->config.heads + head;
    if (p->b->kept)
        p->b->kept[at] = found->kept;
    if (p->b->empty)
        p->b->empty[at] = found->empty;
}

/* Returns what queries of the layer see: its own mask, or what the caller's leaves of it. Where the
 * layer has a window, a caller's mask keeps its own if that is narrower, and no sinks: the layer
 * does not see them from the end of a longer block. */
static es_mask mask_of(const es_layer_pass *p)
{
    const es_past own = es_past_of(&p->f->model->config, p->layer);
    if (!p->b->mask)
        return (es_mask){.causal = own.causal, .window = own.window};
    es_mask mask = *p->b->mask;
    if (own.window && own.window < p->b->n && !mask.local && !mask.list_queries) {
        mask.window = mask.window && mask.window < own.window ? mask.window : own.window;
        mask.sinks = 0;
    }
    return mask;
}

double es_pass_sink(const es_layer_pass *p, int64_t head)
{
    return es_layer_sink(p->l, p->f->model->precision, head);
}

/* Computes a head over all keys that its mask lets it see. A model with non-finite weights
 * gives NaN instead of an error, as other programs do. */
static es_status attend_fully(const es_layer_pass *p, int64_t head, es_error *err)
{
    const es_forward *f = p->f;
    const es_model_config *c = &f->model->config;
    const es_mask mask = mask_of(p);
    const double scale = 1.0 / c->score_divisor, sink = es_pass_sink(p, head);
    const es_attend_opts opts = {.precision = f->model->precision,
                                 .scales = &scale,
                                 .n_scales = 1,
                                 .score_cap = c->score_cap,
                                 .sink = &sink,
                                 .mask = p->b->mask || mask.causal || mask.window ? &mask : NULL,
                                 .exec = &f->inner};
    const es_sparse_found found = {.kept = es_past_keys(es_past_of(c, p->layer), p->b->n)};
    const es_attend_out out = results_of(p, head);
    es_view qkv[3];
    views_of(p, head, qkv);
    note_found(p, head, &found);
    if (f->model->nonfinite && !all_finite(qkv))
        spoil(&out, p->b->n, c->head_dim);
    else
        return es_attend(&qkv[0], &qkv[1], &qkv[2], &opts, &out, err);
    return ES_OK;
}

/* The first of its group that keeps what this head does. Without a policy the engine runs a head by
 * itself, so that it leads none whose policy keeps everything. */
static int64_t leader_of(const es_layer_pass *p, int64_t head)
{
    const es_model_config *c = &p->f->model->config;
    const es_policy_spec *specs = p->b->sparse->heads + p->layer * c->heads;
    int64_t first = head - head % (c->heads / c->kv_heads);
    while (!specs[first].policy != !specs[head].policy ||
           !es_policy_spec_same(&specs[first], &specs[head]))
        first++;
    return first;
}

/* All heads that follow this one, itself included, over the keys that they keep. */
static es_status attend_sparsely(const es_layer_pass *p, int64_t leader, es_error *err)
{
    const es_forward *f = p->f;
    const es_model_config *c = &f->model->config;
    const int64_t size = c->heads / c->kv_heads, end = leader - leader % size + size;
    const int64_t at = p->layer * c->heads + leader;
    const es_address first = address_of(f->model, p->b->sparse, at);
    es_sparse_scratch *scratch = &p->scratch->sparse;
    es_sparse_found found = {0};
    es_view qkv[3];
    int64_t count = 0;
    scratch->divisor = c->score_divisor;
    scratch->cap = c->score_cap;
    bool finite = true;
    for (int64_t head = leader; head < end; head++) {
        if (leader_of(p, head) != leader)
            continue;
        views_of(p, head, qkv);
        finite = finite && (!f->model->nonfinite || all_finite(qkv));
        scratch->heads[count++] =
            (es_sharing_head){qkv[0], es_pass_sink(p, head), results_of(p, head)};
    }
    for (int64_t g = 0; g < count && !finite; g++)
        spoil(&scratch->heads[g].out, p->b->n, c->head_dim);
    if (finite)
        ES_TRY(es_sparse_attend(scratch, count, &p->b->sparse->heads[at], es_past_of(c, p->layer),
                                &first, &qkv[1], &qkv[2], &found, err));
    for (int64_t head = leader; head < end; head++)
        if (leader_of(p, head) == leader)
            note_found(p, head, &found);
    return ES_OK;
}

/* Over the keys that its policy keeps, which the first of those that share them has done for all;
 * or over those that it sees. */
static es_status attend_head(const es_layer_pass *p, int64_t head, es_error *err)
{
    const int64_t at = p->layer * p->f->model->config.heads + head;
    if (p->b->cache) {
        const es_attend_out out = results_of(p, head);
        return es_cache_attend(p, head, &out, err);
    }
    if (!p->b->sparse || !p->b->sparse->heads[at].policy)
        return attend_fully(p, head, err);
    return leader_of(p, head) == head ? attend_sparsely(p, head, err) : ES_OK;
}

/* Means over the block's queries of what was asked for. 1/sum_squares is taken last, in place. */
static void keep_statistics(const es_layer_pass *p, int64_t at, const es_attend_out *out)
{
    const es_model_block *b = p->b;
    if (b->entropy)
        b->entropy[at] = mean_of(out->entropy, b->n);
    if (b->top_weight)
        b->top_weight[at] = mean_of(out->top_weight, b->n);
    if (b->sum_squares)
        b->sum_squares[at] = mean_of(out->sum_squares, b->n);
    for (int64_t i = 0; b->ess && i < b->n; i++)
        out->sum_squares[i] = 1.0 / out->sum_squares[i];
    if (b->ess)
        b->ess[at] = mean_of(out->sum_squares, b->n);
}

/* Returns the columns of Wo of a head. */
static es_view wo_of(const es_layer_pass *p, int64_t head)
{
    const es_model *m = p->f->model;
    const int64_t item = (int64_t)es_dtype_size(m->precision), k = m->config.head_dim;
    return (es_view){.data = (char *)p->l->out.w + head * k * item,
                     .dtype = m->precision,
                     .rows = m->config.hidden,
                     .cols = k,
                     .row_stride = m->config.query_width * item,
                     .col_stride = item};
}

/* Returns the bias of Wo (1, H). */
static es_view bo_of(const es_layer_pass *p)
{
    const es_model *m = p->f->model;
    const int64_t item = (int64_t)es_dtype_size(m->precision);
    return (es_view){p->l->out.b, m->precision, 1, m->config.hidden, m->config.hidden * item, item};
}

/* Calls the visitor with everything that is known about a head. The log-sum-exp of a sparse
 * head would be that of the kept keys only, so it is not shown. */
static es_status show(const es_layer_pass *p, int64_t head, const es_view qkv[3],
                      const es_attend_out *out, es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    const int64_t group = head / (c->heads / c->kv_heads), both = c->query_width + c->kv_width;
    const bool sparse = p->b->sparse && p->b->sparse->heads[p->layer * c->heads + head].policy;
    const double sink = es_pass_sink(p, head);
    es_model_seen seen = {.block = p->block,
                          .layer = p->layer,
                          .head = head,
                          .window = es_model_layer(c, p->layer)->window,
                          .scale = 1.0 / c->score_divisor,
                          .cap = c->score_cap,
                          .sink = &sink,
                          .q = qkv[0],
                          .k = qkv[1],
                          .v = qkv[2],
                          .wo = wo_of(p, head),
                          .bo = bo_of(p),
                          .output = out->output,
                          .lse = sparse ? NULL : out->lse,
                          .entropy = out->entropy,
                          .top_weight = out->top_weight,
                          .sum_squares = out->sum_squares};
    if (p->scratch->plain) {
        seen.plain_q = es_pass_band(p, p->scratch->plain, head * c->head_dim, both);
        seen.plain_k =
            es_pass_band(p, p->scratch->plain, c->query_width + group * c->head_dim, both);
    }
    return p->b->visit->head(p->b->visit->context, &seen, err);
}

static es_status run_head(const es_layer_pass *p, int64_t head, es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    const es_attend_out out = results_of(p, head);
    es_view qkv[3];
    views_of(p, head, qkv);
    ES_TRY(attend_head(p, head, err));
    if (p->b->visit && p->b->visit->head)
        ES_TRY(show(p, head, qkv, &out, err));
    p->f->rows->place(out.output, p->b->n, c->head_dim, c->query_width,
                      es_row_at(p->f, p->scratch->heads, head * c->head_dim, 1));
    keep_statistics(p, p->layer * c->heads + head, &out);
    return ES_OK;
}

es_status es_forward_progress(const es_forward *f, es_progress_fn progress, double layers,
                              es_error *err)
{
    const double done = layers / (double)f->model->config.layers * (double)f->together;
    if (!progress || !progress(f->team.progress_user, (double)f->first + done, (double)f->count))
        return ES_OK;
    return es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request");
}

/* Reports progress of a block that all threads share, which takes long. */
static es_status report(const es_layer_pass *p, int64_t head, es_error *err)
{
    const es_forward *f = p->f;
    const double heads = (double)head / (double)f->model->config.heads;
    const double blocks = ((double)(p->block - f->first) + heads) / (double)f->together;
    return es_forward_progress(f, f->shared ? f->team.progress : NULL, (double)p->layer + blocks,
                               err);
}

/* ---- a layer ---- */

/* All heads of a layer whose cache drops keys token by token; then the visitor is shown each. */
static es_status run_decode(const es_layer_pass *p, es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    ES_TRY(es_cache_decode(p, err));
    for (int64_t head = 0; p->b->visit && p->b->visit->head && head < c->heads; head++) {
        const es_view rows = es_pass_band(p, p->scratch->heads, head * c->head_dim, c->query_width);
        es_attend_out out = {.output = results_of(p, head).output};
        es_view qkv[3];
        views_of(p, head, qkv);
        for (int64_t i = 0; i < p->b->n; i++)
            es_view_read_row(&rows, i, out.output + i * c->head_dim);
        ES_TRY(show(p, head, qkv, &out, err));
    }
    return ES_OK;
}

es_status es_layer_run(const es_forward *f, es_block_scratch *scratch, int64_t block, int64_t layer,
                       const es_layer *weights, es_error *err)
{
    const es_model *m = f->model;
    es_layer_pass p = {f, scratch, &f->blocks[block], weights, block, layer};
    const int64_t strips = es_strips(p.b->n);
    ES_TRY(es_parallel_run(&f->inner, strips, project, &p, err));
    if (p.b->cache)
        ES_TRY(es_cache_begin(&p, err));
    const bool decodes = p.b->cache && p.b->cache->mode == ES_EVICT_DECODE;
    for (int64_t head = 0; head < m->config.heads && !decodes; head++) {
        ES_TRY(report(&p, head, err));
        ES_TRY(run_head(&p, head, err));
    }
    if (decodes)
        ES_TRY(run_decode(&p, err));
    return es_parallel_run(&f->inner, strips,
                           es_streams_experts(m, layer) ? es_strip_route : es_strip_transform, &p,
                           err);
}
