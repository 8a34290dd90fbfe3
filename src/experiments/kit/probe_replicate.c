/* SPDX-License-Identifier: Apache-2.0 */
/* probe_replicate.c : n tokens drawn from the pool, or a window of it, every head, every n, against
 * the limit; then the same with Gaussian tokens. */
#include "experiments/kit/probe_inside.h"

#include <math.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/linalg.h"

/* Fails for a replicate whose number does not fit an address of random numbers. */
static es_status check_replicate(int64_t replicate, es_error *err)
{
    if (replicate < 0 || replicate > UINT32_MAX) /* what its address has space for */
        return es_fail(err, ES_E_RANGE, "probe.replicate", "0 to 2^32 - 1", "replicate %lld",
                       (long long)replicate);
    return ES_OK;
}

/* ---- errors of one head ---- */

/* Computes mean and covariance (over m, not m - 1) of the columns of a matrix. */
static void mean_and_cov(const double *a, int64_t stride, int64_t m, int64_t k, double *mean,
                         double *cov)
{
    for (int64_t j = 0; j < k; j++) {
        mean[j] = 0.0;
        for (int64_t i = 0; i < m; i++)
            mean[j] += a[i * stride + j] / (double)m;
    }
    for (int64_t i = 0; i < k * k; i++)
        cov[i] = 0.0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) {
            const double off = (a[i * stride + j] - mean[j]) / (double)m;
            for (int64_t l = 0; l <= j; l++)
                cov[j * k + l] += off * (a[i * stride + l] - mean[l]);
        }
    for (int64_t j = 0; j < k; j++)
        for (int64_t l = 0; l < j; l++)
            cov[l * k + j] = cov[j * k + l];
}

es_status es_probe_errors(es_mem_limit *budget, const double *a, int64_t a_stride, const double *b,
                          int64_t b_stride, int64_t queries, int64_t width, es_probe_cell *out,
                          es_error *err)
{
    double *moments, sum = 0.0;
    ES_TRY(ES_MEM_NEW_2D(budget, moments, 2 * (width + 1), width, "moments of outputs", err));
    double *mean[2] = {moments, moments + width};
    double *cov[2] = {moments + 2 * width, moments + 2 * width + width * width};
    mean_and_cov(a, a_stride, queries, width, mean[0], cov[0]);
    mean_and_cov(b, b_stride, queries, width, mean[1], cov[1]);
    for (int64_t i = 0; i < queries; i++) {
        const double apart = es_distance(a + i * a_stride, b + i * b_stride, width);
        sum += apart * apart;
    }
    *out = (es_probe_cell){.mean_error = es_distance(mean[0], mean[1], width),
                           .cov_error = es_distance(cov[0], cov[1], width * width),
                           .map_error = sqrt(sum / (double)queries)};
    es_mem_free(budget, moments);
    return ES_OK;
}

/* Outputs at all sizes that are compared with the limit. */
typedef struct comparison {
    const es_probe *probe;
    const double *outputs, *limit; /* (sizes, queries, k), and rows limit_stride apart */
    int64_t limit_stride;
    es_probe_cell *cells;
} comparison;

/* Computes the errors at one size against the limit, over all queries and over those with an exact
 * expectation. */
static es_status compare_size(void *user, int64_t i, int thread, es_error *err)
{
    const comparison *c = user;
    const int64_t m = c->probe->queries, k = c->probe->weights.width;
    const int64_t few = es_probe_exact_of(&c->probe->spec, m);
    double sum = 0.0;
    (void)thread;
    ES_TRY(es_probe_errors(c->probe->exec.budget, c->outputs + i * m * k, k, c->limit,
                           c->limit_stride, m, k, &c->cells[i], err));
    for (int64_t j = 0; j < few; j++)
        sum +=
            pow(es_distance(c->outputs + (i * m + j) * k, c->limit + j * c->limit_stride, k), 2.0);
    c->cells[i].few = sqrt(sum / (double)few);
    return ES_OK;
}

/* es_probe_errors() at every size: outputs (sizes, queries, k) into cells (sizes). */
static es_status compare(const es_probe *probe, const double *outputs, const double *limit,
                         int64_t limit_stride, es_probe_cell *cells, es_error *err)
{
    comparison c = {probe, outputs, limit, limit_stride, cells};
    const es_exec quiet = es_exec_quiet(&probe->exec);
    return es_parallel_run(&quiet, probe->spec.n_sizes, compare_size, &c, err);
}

/* ---- one draw ---- */

/* The queries of one head over n tokens, their keys and values (n, k) with rows `stride` numbers
 * apart, into out: (sizes, queries) of what it has space for. */
static es_status attend(const es_probe *probe, int64_t head, const float *keys, const float *values,
                        int64_t stride, const es_attend_out *out, es_error *err)
{
    const int64_t k = probe->weights.width, n = probe->spec.sizes[probe->spec.n_sizes - 1];
    const double scale = 1.0 / sqrt((double)k);
    const es_exec exec = es_exec_quiet(&probe->exec);
    const es_attend_opts opts = {.scales = &scale,
                                 .n_scales = 1,
                                 .prefixes = probe->spec.sizes,
                                 .n_prefixes = probe->spec.n_sizes,
                                 .exec = &exec};
    es_view q = es_view_f32(probe->q + head * k, probe->queries, k);
    es_view K = es_view_f32(keys, n, k), V = es_view_f32(values, n, k);
    q.row_stride = probe->weights.all * (int64_t)sizeof(float);
    K.row_stride = V.row_stride = stride * (int64_t)sizeof(float);
    return es_attend(&q, &K, &V, &opts, out, err);
}

/* One draw of tokens, with outputs of one head at a time. */
typedef struct draw {
    const es_probe *probe;
    int64_t n;                /* tokens: the largest size */
    int64_t windows;          /* how many there are; 0: tokens are drawn one by one */
    int64_t *rows;            /* (n) of the pool */
    float *x, *keys, *values; /* (n, H), (n, Q), (n, Q) */
    double *outputs;          /* (sizes, queries, k) of a head, */
    double *top, *squares;    /* (sizes, queries) its largest weights and sums of w^2 */
    float *errors;            /* (sizes, queries, Q) of all heads, in columns of their own */
} draw;

/* Chooses the rows of a replicate: a window of the text, or independent draws. */
static es_status choose(draw *d, int64_t replicate, es_error *err)
{
    const es_probe *p = d->probe;
    return d->windows
               ? es_probe_window_rows(&p->spec, &p->pool, replicate, d->windows, d->rows, err)
               : es_probe_draw_rows(&p->spec, p->pool.tokens, p->layer, replicate, d->rows, err);
}

/* Computes attention of one head over the drawn tokens at every size and compares it with the
 * limit. Differences are stored for the layer's output. */
static es_status attend_head(draw *d, int64_t head, es_probe_cell *cells, es_error *err)
{
    const es_probe *p = d->probe;
    const int64_t Q = p->weights.all, k = p->weights.width, m = p->queries;
    const es_attend_out out = {
        .output = d->outputs, .top_weight = d->top, .sum_squares = d->squares};
    ES_TRY(attend(p, head, d->keys + head * k, d->values + head * k, Q, &out, err));
    const double *limit = p->limit + head * k;
    for (int64_t i = 0; i < p->spec.n_sizes * m; i++)
        for (int64_t l = 0; l < k; l++)
            d->errors[i * Q + head * k + l] = (float)(d->outputs[i * k + l] - limit[i % m * Q + l]);
    ES_TRY(compare(p, d->outputs, limit, Q, cells, err));
    for (int64_t i = 0; i < p->spec.n_sizes; i++)
        cells[i].focus = es_probe_focus_of(d->squares + i * m, d->top + i * m, m);
    return ES_OK;
}

/* ---- all heads ---- */

/* Sum over queries of e' G_hh e, e the errors of head h at one n: |Wo_h e|^2, with G = Wo'Wo. */
static double alone(const es_probe_weights *w, const float *errors, int64_t m, int64_t h)
{
    const int64_t Q = w->all, k = w->width;
    const float *gram = w->gram + h * k * (Q + 1);
    double sum = 0.0;
    for (int64_t i = 0; i < m; i++) {
        const float *e = errors + i * Q + h * k;
        for (int64_t a = 0; a < k; a++) {
            double row = 0.0;
            for (int64_t b = 0; b < k; b++)
                row += (double)gram[a * Q + b] * (double)e[b];
            sum += row * (double)e[a];
        }
    }
    return fmax(sum, 0.0); /* G in f32 may be a little indefinite */
}

/* Errors of heads that Wo joins. */
typedef struct joining {
    const draw *draw;
    es_probe_cell *cells; /* (heads, sizes) */
} joining;

/* Computes the error of one head alone after the output matrix Wo. */
static es_status alone_at(void *user, int64_t unit, int thread, es_error *err)
{
    const joining *j = user;
    const es_probe *p = j->draw->probe;
    const int64_t m = p->queries, i = unit % p->spec.n_sizes, h = unit / p->spec.n_sizes;
    (void)thread;
    (void)err;
    const float *errors = j->draw->errors + i * m * p->weights.all;
    j->cells[unit].after_wo = sqrt(alone(&p->weights, errors, m, h) / (double)m);
    return ES_OK;
}

/* What the errors of single heads at size i amount to, one by one: the sum of their squares. */
static double apart_at(const es_probe *p, const es_probe_cell *cells, int64_t i)
{
    double sum = 0.0;
    for (int64_t h = 0; h < p->weights.heads; h++)
        sum += pow(cells[h * p->spec.n_sizes + i].after_wo, 2.0);
    return sum;
}

/* Computes errors of the whole layer after Wo, where errors of heads may cancel, and of each head
 * alone. */
static es_status join_heads(const draw *d, es_probe_cell *cells, es_probe_joint *joint,
                            es_error *err)
{
    const es_probe *p = d->probe;
    const es_probe_weights *w = &p->weights;
    const int64_t m = p->queries, Q = w->all;
    const int64_t sizes = p->spec.n_sizes;
    float *product;
    joining j = {d, cells};
    const es_exec quiet = es_exec_quiet(&p->exec);
    ES_TRY(ES_MEM_NEW_2D(p->exec.budget, product, m, Q, "outputs of a layer", err));
    es_status status = es_parallel_run(&quiet, w->heads * sizes, alone_at, &j, err);
    for (int64_t i = 0; i < sizes && status == ES_OK; i++) {
        const float *errors = d->errors + i * m * Q;
        double together = 0.0;
        status = es_probe_project(&p->exec, errors, m, w->gram, NULL, Q, Q, product, err);
        for (int64_t l = 0; l < m * Q; l++)
            together += (double)errors[l] * (double)product[l];
        together = fmax(together, 0.0) / (double)m;
        joint[i] = (es_probe_joint){sqrt(together), together / apart_at(p, cells, i)};
    }
    es_mem_free(p->exec.budget, product);
    return status;
}

/* Allocates the drawn tokens and all outputs. */
static es_status prepare_draw(draw *d, es_error *err)
{
    const es_probe *p = d->probe;
    const int64_t H = p->weights.hidden, Q = p->weights.all;
    const int64_t outputs = p->spec.n_sizes * p->queries;
    es_mem_limit *budget = p->exec.budget;
    ES_TRY(ES_MEM_NEW(budget, d->rows, d->n, "a draw", err));
    ES_TRY(ES_MEM_NEW_2D(budget, d->x, d->n, H + 2 * Q, "drawn tokens", err));
    d->keys = d->x + d->n * H;
    d->values = d->keys + d->n * Q;
    ES_TRY(ES_MEM_NEW_2D(budget, d->outputs, outputs, p->weights.width + 2, "outputs", err));
    d->top = d->outputs + outputs * p->weights.width;
    d->squares = d->top + outputs;
    return ES_MEM_NEW_2D(budget, d->errors, outputs, Q, "errors", err);
}

/* Runs one draw: chooses tokens, projects them, and attends head by head. */
static es_status run_draw(draw *d, int64_t replicate, es_probe_cell *cells, es_probe_joint *joint,
                          es_error *err)
{
    const es_probe *p = d->probe;
    const int64_t H = p->weights.hidden, Q = p->weights.all;
    ES_TRY(prepare_draw(d, err));
    ES_TRY(choose(d, replicate, err));
    ES_TRY(es_pool_gather(p->spec.pool, p->layer, d->rows, d->n, d->x, err));
    ES_TRY(es_probe_project(&p->exec, d->x, d->n, p->weights.wk, NULL, Q, H, d->keys, err));
    ES_TRY(es_probe_project(&p->exec, d->x, d->n, p->weights.wv, NULL, Q, H, d->values, err));
    for (int64_t h = 0; h < p->weights.heads; h++) {
        ES_TRY(attend_head(d, h, cells + h * p->spec.n_sizes, err));
        ES_TRY(es_exec_report_progress(&p->exec, h + 1, p->weights.heads, err));
    }
    return join_heads(d, cells, joint, err);
}

/* Runs one draw and frees its memory. */
static es_status measure_draw(const es_probe *probe, int64_t replicate, int64_t windows,
                              es_probe_cell *cells, es_probe_joint *joint, es_error *err)
{
    ES_TRY(check_replicate(replicate, err));
    draw d = {.probe = probe, .n = probe->spec.sizes[probe->spec.n_sizes - 1], .windows = windows};
    const es_status status = run_draw(&d, replicate, cells, joint, err);
    es_mem_free(probe->exec.budget, d.errors);
    es_mem_free(probe->exec.budget, d.outputs);
    es_mem_free(probe->exec.budget, d.x);
    es_mem_free(probe->exec.budget, d.rows);
    return status;
}

es_status es_probe_replicate(const es_probe *probe, int64_t replicate, es_probe_cell *cells,
                             es_probe_joint *joint, es_error *err)
{
    return measure_draw(probe, replicate, 0, cells, joint, err);
}

es_status es_probe_window(const es_probe *probe, int64_t replicate, int64_t windows,
                          es_probe_cell *cells, es_probe_joint *joint, es_error *err)
{
    int64_t first;
    ES_TRY(es_probe_window_first(probe, replicate, windows, &first, err)); /* windows > 0 */
    return measure_draw(probe, replicate, windows, cells, joint, err);
}

/* ==== control ====
 * Gaussian tokens of the same covariance in place of the pool's. A head sees of a token only its
 * key and its value, so those are drawn: 2k numbers instead of the model's width. Means are left
 * out: that of keys shifts all scores of a query alike, that of values all outputs. */

enum { STRIP = 1024 }; /* tokens of a unit of work */

/* Gaussian tokens of the same covariance, as a control. */
typedef struct control {
    const es_probe *probe;
    int64_t n;       /* tokens: the largest size */
    es_address at;   /* of this head's tokens */
    double *joint;   /* (2k, 2k): covariance of (key, value), */
    double *root;    /* its root, */
    float *factor;   /* and that in f32 */
    float *normals;  /* (n, 2k) */
    float *pairs;    /* (n, 2k): a key and its value in a row */
    double *outputs; /* (sizes, queries, k) */
    double *limit;   /* (queries, k) */
} control;

/* Allocates Gaussian tokens and their outputs. */
static es_status prepare_control(control *c, es_error *err)
{
    const es_probe *p = c->probe;
    const int64_t k = p->weights.width, m = p->queries, both = 2 * k;
    es_mem_limit *budget = p->exec.budget;
    ES_TRY(ES_MEM_NEW_2D(budget, c->joint, 2 * both, both, "a covariance", err));
    c->root = c->joint + both * both;
    ES_TRY(ES_MEM_NEW_2D(budget, c->normals, 2 * c->n + both, both, "Gaussian tokens", err));
    c->pairs = c->normals + c->n * both;
    c->factor = c->pairs + c->n * both;
    ES_TRY(ES_MEM_NEW_2D(budget, c->outputs, (p->spec.n_sizes + 1) * m, k, "outputs", err));
    c->limit = c->outputs + p->spec.n_sizes * m * k;
    return ES_OK;
}

/* Frees what the control used. */
static void release_control(control *c)
{
    es_mem_limit *budget = c->probe->exec.budget;
    es_mem_free(budget, c->outputs);
    es_mem_free(budget, c->normals);
    es_mem_free(budget, c->joint);
}

/* ---- one head ---- */

/* Factors the joint covariance of key and value of a head, of which the control draws its Gaussian
 * tokens. */
static es_status factor_of(control *c, int64_t head, es_error *err)
{
    const int64_t k = c->probe->weights.width, both = 2 * k;
    const es_probe_gram gram = es_probe_gram_of(c->probe, head);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) { /* exactly symmetric */
            c->joint[i * both + j] = 0.5 * (gram.kk[i * k + j] + gram.kk[j * k + i]);
            c->joint[(k + i) * both + j] = gram.vk[i * k + j];
            c->joint[i * both + k + j] = gram.vk[j * k + i];
            c->joint[(k + i) * both + k + j] = 0.5 * (gram.vv[i * k + j] + gram.vv[j * k + i]);
        }
    const es_view joint = es_view_f64(c->joint, both, both);
    ES_TRY(es_sym_sqrt(&joint, 0.0, c->probe->exec.budget, c->root, NULL, err));
    for (int64_t i = 0; i < both * both; i++)
        c->factor[i] = (float)c->root[i];
    return ES_OK;
}

/* Draws a strip of Gaussian tokens; each row has its own address, so strips can be drawn by any
 * thread. */
static es_status draw_strip(void *user, int64_t unit, int thread, es_error *err)
{
    const control *c = user;
    const int64_t both = 2 * c->probe->weights.width, first = unit * STRIP;
    es_address at = c->at;
    (void)thread;
    at.token = (uint64_t)first;
    return es_normal_rows_f32(&at, c->n - first < STRIP ? c->n - first : STRIP, both,
                              c->normals + first * both, err);
}

/* V S t with t = Wk'(Wq x + bq)/sqrt(k): outputs over infinitely many tokens. */
static void limit_of(control *c, int64_t head)
{
    const es_probe *p = c->probe;
    const int64_t k = p->weights.width;
    const es_probe_gram gram = es_probe_gram_of(p, head);
    for (int64_t i = 0; i < p->queries; i++) {
        const float *x = p->q + i * p->weights.all + head * k;
        for (int64_t a = 0; a < k; a++) {
            double sum = 0.0;
            for (int64_t b = 0; b < k; b++)
                sum += gram.vk[a * k + b] * (double)x[b];
            c->limit[i * k + a] = sum / sqrt((double)k);
        }
    }
}

/* Runs the control of one head: Gaussian pairs of key and value, attention, and its own exact
 * limit. */
static es_status measure_head(control *c, int64_t head, es_probe_cell *cells, es_error *err)
{
    const es_probe *p = c->probe;
    const int64_t k = p->weights.width;
    const es_exec quiet = es_exec_quiet(&p->exec);
    ES_TRY(factor_of(c, head, err));
    ES_TRY(es_parallel_run(&quiet, (c->n + STRIP - 1) / STRIP, draw_strip, c, err));
    ES_TRY(
        es_probe_project(&quiet, c->normals, c->n, c->factor, NULL, 2 * k, 2 * k, c->pairs, err));
    ES_TRY(attend(p, head, c->pairs, c->pairs + k, 2 * k, &(es_attend_out){.output = c->outputs},
                  err));
    limit_of(c, head);
    return compare(p, c->outputs, c->limit, k, cells, err);
}

/* ---- all heads ---- */

/* Runs the control of all heads, with random numbers of their own per head and replicate. */
static es_status run_control(control *c, int64_t replicate, es_probe_cell *cells, es_error *err)
{
    const es_probe *p = c->probe;
    const int64_t heads = p->weights.heads;
    ES_TRY(prepare_control(c, err));
    for (int64_t h = 0; h < heads; h++) {
        c->at = (es_address){.seed = p->spec.seed,
                             .experiment = ES_PROBE_CONTROL,
                             .cell = (uint64_t)(p->layer * heads + h) << 32 | (uint64_t)replicate};
        ES_TRY(measure_head(c, h, cells + h * p->spec.n_sizes, err));
        ES_TRY(es_exec_report_progress(&p->exec, h + 1, heads, err));
    }
    return ES_OK;
}

es_status es_probe_control(const es_probe *probe, int64_t replicate, es_probe_cell *cells,
                           es_error *err)
{
    ES_TRY(check_replicate(replicate, err));
    control c = {.probe = probe, .n = probe->spec.sizes[probe->spec.n_sizes - 1]};
    const es_status status = run_control(&c, replicate, cells, err);
    release_control(&c);
    return status;
}
