/* SPDX-License-Identifier: Apache-2.0 */
/* paper.c : n tokens of a passage attend over each other, all heads of a layer: the protocol
 * of experiment 2 of Token Sample Complexity (THEORY 11). */
#include "experiments/probe/paper.h"

#include <math.h>
#include <string.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "experiments/kit/probe_inside.h"
#include "linalg/linalg.h"
#include "random/random.h"

struct es_probe_paper {
    es_probe_spec spec;
    es_exec exec;
    int64_t layer, block, tokens;
    es_probe_weights weights;
    float *x, *q, *keys, *values; /* (tokens, H), and (tokens, Q) of the passage */
    double *mean, *cov;           /* (Q), (Q, Q) of the passage's own outputs */
};

/* ---- tokens that attend over each other ---- */

/* A drawn sample of the paper's protocol, all heads at once. */
typedef struct crowd {
    const es_probe_paper *paper;
    int64_t n;
    float *q, *keys, *values; /* (n, Q) */
    double *heads;            /* (heads, n, k) */
    double *outputs;          /* (n, Q): heads side by side */
    double *mean, *cov;       /* (Q), (Q, Q) of these */
} crowd;

/* Allocates the drawn tokens of the paper's protocol and outputs of all heads. */
static es_status crowd_new(const es_probe_paper *paper, int64_t most, crowd *out, es_error *err)
{
    const int64_t Q = paper->weights.all;
    es_mem_limit *budget = paper->exec.budget;
    *out = (crowd){.paper = paper};
    ES_TRY(ES_MEM_NEW_2D(budget, out->q, 3 * most, Q, "drawn tokens", err));
    ES_TRY(ES_MEM_NEW_2D(budget, out->heads, 2 * most, Q, "outputs", err));
    ES_TRY(ES_MEM_NEW_2D(budget, out->mean, Q + 1, Q, "moments of outputs", err));
    out->keys = out->q + most * Q;
    out->values = out->keys + most * Q;
    out->outputs = out->heads + most * Q;
    out->cov = out->mean + Q;
    return ES_OK;
}

/* Frees the drawn tokens. */
static void crowd_free(crowd *c)
{
    es_mem_limit *budget = c->paper->exec.budget;
    es_mem_free(budget, c->mean);
    es_mem_free(budget, c->heads);
    es_mem_free(budget, c->q);
}

/* Lets the tokens of a crowd attend over each other in one head. */
static es_status attend_head(void *user, int64_t head, int thread, es_error *err)
{
    const crowd *c = user;
    const int64_t Q = c->paper->weights.all, k = c->paper->weights.width;
    const double scale = 1.0 / sqrt((double)k);
    const es_exec alone = es_exec_one_thread(&c->paper->exec);
    const es_attend_opts opts = {.scales = &scale, .n_scales = 1, .exec = &alone};
    double *output = c->heads + head * c->n * k;
    es_view q = es_view_f32(c->q + head * k, c->n, k);
    es_view keys = es_view_f32(c->keys + head * k, c->n, k);
    es_view values = es_view_f32(c->values + head * k, c->n, k);
    q.row_stride = keys.row_stride = values.row_stride = Q * (int64_t)sizeof(float);
    (void)thread;
    ES_TRY(es_attend(&q, &keys, &values, &opts, &(es_attend_out){.output = output}, err));
    for (int64_t i = 0; i < c->n; i++)
        memcpy(c->outputs + i * Q + head * k, output + i * k, (size_t)k * sizeof *output);
    return ES_OK;
}

/* Rows (n) of the passage, NULL for all of it, into mean and cov of their outputs. */
static es_status meet(crowd *c, const int64_t *rows, int64_t n, es_error *err)
{
    const es_probe_paper *p = c->paper;
    const int64_t Q = p->weights.all;
    const es_exec quiet = es_exec_quiet(&p->exec);
    c->n = n;
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = (rows ? rows[i] : i) * Q;
        memcpy(c->q + i * Q, p->q + from, (size_t)Q * sizeof(float));
        memcpy(c->keys + i * Q, p->keys + from, (size_t)Q * sizeof(float));
        memcpy(c->values + i * Q, p->values + from, (size_t)Q * sizeof(float));
    }
    ES_TRY(es_parallel_run(&quiet, p->weights.heads, attend_head, c, err));
    const es_view outputs = es_view_f64(c->outputs, n, Q);
    return es_cov_estimate(&outputs, false, &quiet, c->mean, c->cov, err);
}

/* ---- the passage ---- */

/* Projects all tokens of a passage to queries, keys and values, once for all draws. */
static es_status project_passage(es_probe_paper *p, int64_t first, es_error *err)
{
    const es_probe_weights *w = &p->weights;
    const int64_t H = w->hidden, Q = w->all, n = p->tokens;
    ES_TRY(ES_MEM_NEW_2D(p->exec.budget, p->x, n, H + 3 * Q, "a passage", err));
    p->q = p->x + n * H;
    p->keys = p->q + n * Q;
    p->values = p->keys + n * Q;
    ES_TRY(es_pool_rows(p->spec.pool, p->layer, first, n, p->x, err));
    ES_TRY(es_probe_project(&p->exec, p->x, n, w->wq, w->bq, Q, H, p->q, err));
    ES_TRY(es_probe_project(&p->exec, p->x, n, w->wk, NULL, Q, H, p->keys, err));
    return es_probe_project(&p->exec, p->x, n, w->wv, NULL, Q, H, p->values, err);
}

/* The passage attends over itself: what the moments of a sample are compared with. */
static es_status open_passage(es_probe_paper *p, es_error *err)
{
    int64_t first;
    crowd all;
    ES_TRY(es_pool_block(p->spec.pool, p->block, &first, &p->tokens, err));
    ES_TRY(es_probe_weights_new(&p->spec, p->layer, &p->weights, err));
    const int64_t Q = p->weights.all;
    ES_TRY(project_passage(p, first, err));
    ES_TRY(ES_MEM_NEW_2D(p->exec.budget, p->mean, Q + 1, Q, "moments of a passage", err));
    p->cov = p->mean + Q;
    es_status status = crowd_new(p, p->tokens, &all, err);
    if (status == ES_OK)
        status = meet(&all, NULL, p->tokens, err);
    if (status == ES_OK)
        memcpy(p->mean, all.mean, (size_t)((Q + 1) * Q) * sizeof *p->mean);
    crowd_free(&all);
    return status;
}

es_status es_probe_paper_open(const es_probe_spec *spec, int64_t layer, int64_t block,
                              es_probe_paper **out, es_error *err)
{
    es_probe_paper *p;
    *out = NULL;
    ES_TRY(es_probe_check(spec, layer, err));
    ES_TRY(es_check_range(block, 0, (1 << 20) - 1, "probe.block", err));
    ES_TRY(ES_MEM_NEW(es_probe_budget(spec), p, 1, "a passage", err));
    p->spec = *spec;
    p->exec = spec->exec ? *spec->exec : (es_exec){0};
    p->layer = layer;
    p->block = block;
    const es_status status = open_passage(p, err);
    if (status == ES_OK)
        *out = p;
    else
        es_probe_paper_close(p);
    return status;
}

void es_probe_paper_close(es_probe_paper *paper)
{
    if (!paper)
        return;
    es_mem_limit *budget = paper->exec.budget;
    es_mem_free(budget, paper->mean);
    es_mem_free(budget, paper->x);
    es_probe_weights_free(&paper->spec, &paper->weights);
    es_mem_free(budget, paper);
}

es_status es_probe_paper_about(const es_probe_paper *paper, es_probe_passage *out, es_error *err)
{
    const int64_t H = paper->weights.hidden;
    const es_view x = es_view_f32(paper->x, paper->tokens, H);
    const es_view wq = es_view_f32(paper->weights.wq, paper->weights.all, H);
    const es_view wk = es_view_f32(paper->weights.wk, paper->weights.all, H);
    const es_exec quiet = es_exec_quiet(&paper->exec);
    es_horizons all;
    double *cov;
    ES_TRY(ES_MEM_NEW_2D(paper->exec.budget, cov, H, H, "a covariance", err));
    const es_view S = es_view_f64(cov, H, H);
    es_status status = es_cov_estimate(&x, false, &quiet, NULL, cov, err);
    if (status == ES_OK)
        status = es_horizons_of(&S, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, paper->exec.budget, &all,
                                err);
    if (status == ES_OK)
        *out = (es_probe_passage){paper->tokens, all.unscaled.val};
    es_mem_free(paper->exec.budget, cov);
    return status;
}

/* ---- a draw ---- */

/* Tokens of size number i: each has its own place, so that sizes are independent. */
static es_address address_of(const es_probe_paper *p, int64_t draw, int64_t i)
{
    return (es_address){.seed = p->spec.seed,
                        .experiment = ES_PROBE_PAPER,
                        .cell =
                            (uint64_t)p->layer << 36 | (uint64_t)p->block << 16 | (uint64_t)draw,
                        .token = (uint64_t)i << 24};
}

/* Draws tokens for every size and compares their moments with those of the passage. */
static es_status draw_sizes(crowd *c, int64_t draw, int64_t *rows, es_probe_paper_cell *cells,
                            es_error *err)
{
    const es_probe_paper *p = c->paper;
    const int64_t Q = p->weights.all;
    for (int64_t i = 0; i < p->spec.n_sizes; i++) {
        const es_address at = address_of(p, draw, i);
        ES_TRY(es_integer_rows(&at, p->spec.sizes[i], 1, p->tokens, rows, err));
        ES_TRY(meet(c, rows, p->spec.sizes[i], err));
        cells[i] = (es_probe_paper_cell){es_distance(c->mean, p->mean, Q),
                                         es_distance(c->cov, p->cov, Q * Q)};
        ES_TRY(es_exec_report_progress(&p->exec, i + 1, p->spec.n_sizes, err));
    }
    return ES_OK;
}

es_status es_probe_paper_draw(const es_probe_paper *paper, int64_t draw, es_probe_paper_cell *cells,
                              es_error *err)
{
    const int64_t most = paper->spec.sizes[paper->spec.n_sizes - 1];
    int64_t *rows = NULL;
    crowd c = {.paper = paper};
    ES_TRY(es_check_range(draw, 0, (1 << 16) - 1, "probe.draw", err));
    ES_TRY(es_check_range(most, 2, (1 << 24) - 1, "probe.sizes", err));
    es_status status = ES_MEM_NEW(paper->exec.budget, rows, most, "a draw", err);
    if (status == ES_OK)
        status = crowd_new(paper, most, &c, err);
    if (status == ES_OK)
        status = draw_sizes(&c, draw, rows, cells, err);
    crowd_free(&c);
    es_mem_free(paper->exec.budget, rows);
    return status;
}

es_probe_price es_probe_paper_price(const es_probe_spec *spec, int64_t length, es_probe_price *open)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const double heads = (double)c->heads, N = (double)length;
    const double H = fmax((double)c->hidden, (double)c->query_width);
    /* attention, an exponential being some 40 operations, and a covariance in f64 */
    const double pair = 4.0 * H + 40.0 * heads, token = 4.0 * H * H;
    const double most = (double)spec->sizes[spec->n_sizes - 1];
    const double passage = 4.0 * (5.0 * H + 4.0 * N) * H + 8.0 * (H + 1.0) * H;
    es_probe_price draw = {.bytes = (size_t)(passage + 28.0 * most * H + 8.0 * H * (3.0 * H + 1.0) +
                                             8.0 * most + 64e6)};
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        const double n = (double)spec->sizes[i];
        draw.flops += n * (n * pair + token);
    }
    *open =
        (es_probe_price){.flops = N * (N * pair + token + 6.0 * H * H),
                         .bytes = (size_t)(passage + 28.0 * N * H + 24.0 * H * (H + 1.0) + 64e6)};
    return draw;
}
