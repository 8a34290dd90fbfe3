/* SPDX-License-Identifier: Apache-2.0 */
/* probe_limit.c : a walk through a layer's pool: moments of its tokens, and what the queries see in
 * all of it and in either half. It is cut into parts that are folded in their order.
 *
 * Scores are taken twice, as they are and doubled: the weights of doubled scores are w^2 / sum w^2,
 * and with |v|^2 as one more value that is all that sum w^2 |v - output|^2 needs, the square of
 * what a drawn token changes (THEORY 9). */
#include "experiments/kit/probe_inside.h"

#include <math.h>
#include <string.h>

#include <esscher/attend.h>
#include <esscher/moments.h>

#include "attention/attend.h"
#include "base/error.h"
#include "base/memory.h"
#include "linalg/linalg.h"
#include "stats/average.h"
#include "stats/moments.h"

/* ---- parts ---- */

enum { PART_TOKENS = 1 << 18, PARTS_MOST = 256 };

/* Returns the number of tokens of the pool. */
static int64_t tokens_of(const es_probe_spec *spec) { return es_pool_about(spec->pool).tokens; }

int64_t es_probe_parts_among(const es_probe_spec *spec, int64_t tokens)
{
    const int64_t each = spec->part_tokens > 0 ? spec->part_tokens : PART_TOKENS;
    const int64_t strip = es_probe_strip(tokens);
    const int64_t strips = (tokens + strip - 1) / strip, wanted = (tokens + each - 1) / each;
    const int64_t most = strips < PARTS_MOST ? strips : PARTS_MOST;
    return wanted < most ? wanted : most;
}

int64_t es_probe_parts(const es_probe_spec *spec)
{
    return es_probe_parts_among(spec, tokens_of(spec));
}

/* Parts are whole strips: first row of part `part`, and of what comes after the last. */
static int64_t first_of(const es_probe_spec *spec, int64_t part)
{
    const int64_t tokens = tokens_of(spec), strip = es_probe_strip(tokens);
    const int64_t strips = (tokens + strip - 1) / strip, parts = es_probe_parts(spec);
    const int64_t first = part < parts ? strips * part / parts * strip : tokens;
    return first < tokens ? first : tokens;
}

/* What is seen of a layer. Its state is the moments, then what each half has shown, head by head.
 */
typedef struct layer_seen {
    es_probe_weights weights;
    float *q;             /* (queries, Q) */
    es_moments moments;   /* of tokens */
    es_partial **partial; /* (2, heads): what each half has shown */
} layer_seen;

/* One pass over the pool that measures several layers. */
typedef struct walk {
    const es_probe_spec *spec;
    int64_t layer, layers, queries, strip;
    layer_seen *of;       /* (layers) */
    float *keys, *values; /* (strip, Q) */
    float *longer;        /* (strip, k + 1) values of a head and their squared lengths */
    double *mean, *cov;   /* of a strip */
} walk;

/* ---- states ---- */

/* Heads of one model are alike. */
typedef struct shape {
    int64_t hidden, heads, width, queries;
    double scales[2];
    es_exec exec;
    es_attend_opts opts;
    int64_t partial, moments; /* numbers */
} shape;

/* Sets the sizes of a layer's state. A second scale, twice the first, gives sum w^2 = Z(2s)/Z(s)^2
 * without storing weights. */
static void shape_of(const es_probe_spec *spec, shape *out)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const int64_t k = c->head_dim;
    const double scale = 1.0 / sqrt((double)k);
    *out = (shape){.hidden = c->hidden,
                   .heads = c->heads,
                   .width = k,
                   .queries = es_probe_queries_of(spec),
                   .scales = {scale, 2.0 * scale},
                   .exec = es_exec_quiet(spec->exec),
                   .moments = es_moments_numbers(c->hidden)};
    out->opts = (es_attend_opts){.scales = out->scales, .n_scales = 2, .exec = &out->exec};
    out->partial = es_partial_numbers(out->queries, k + 1, &out->opts);
}

/* Makes the state of attention of all queries over part of the pool. */
static es_status new_partial(const shape *s, es_partial **out, es_error *err)
{
    return es_partial_new(s->queries, s->width + 1, &s->opts, out, err);
}

int64_t es_probe_part_numbers(const es_probe_spec *spec)
{
    shape s;
    shape_of(spec, &s);
    return s.moments + 2 * s.heads * s.partial;
}

/* ---- set up ---- */

/* Prepares a layer: weights, queries, moments, and a state for each half of the pool and head. */
static es_status open_layer(walk *w, layer_seen *of, int64_t layer, es_error *err)
{
    es_mem_limit *budget = es_probe_budget(w->spec);
    shape s;
    shape_of(w->spec, &s);
    ES_TRY(es_probe_weights_new(w->spec, layer, &of->weights, err));
    ES_TRY(es_moments_new(s.hidden, budget, &of->moments, err));
    ES_TRY(ES_MEM_NEW_2D(budget, of->partial, 2, s.heads, "partial states", err));
    for (int64_t i = 0; i < 2 * s.heads; i++)
        ES_TRY(new_partial(&s, &of->partial[i], err));
    ES_TRY(ES_MEM_NEW_2D(budget, of->q, w->queries, s.heads * s.width, "queries", err));
    return es_probe_queries(w->spec, layer, &of->weights, of->q, err);
}

/* Allocates what a walk over the pool needs for all its layers at once, so that the pool is read
 * once. */
static es_status prepare_walk(walk *w, es_error *err)
{
    es_mem_limit *budget = es_probe_budget(w->spec);
    const es_model_config *c = es_model_config_of(w->spec->model);
    const int64_t H = c->hidden, k = c->head_dim, Q = c->query_width;
    ES_TRY(ES_MEM_NEW(budget, w->of, w->layers, "layers", err));
    ES_TRY(ES_MEM_NEW_2D(budget, w->keys, w->strip, 2 * Q + k + 1, "a strip of the pool", err));
    w->values = w->keys + w->strip * Q;
    w->longer = w->values + w->strip * Q;
    ES_TRY(ES_MEM_NEW_2D(budget, w->mean, H + 1, H, "a covariance", err));
    w->cov = w->mean + H;
    for (int64_t l = 0; l < w->layers; l++)
        ES_TRY(open_layer(w, &w->of[l], w->layer + l, err));
    return ES_OK;
}

/* Frees what one layer used. */
static void close_layer(const walk *w, layer_seen *of)
{
    es_mem_limit *budget = es_probe_budget(w->spec);
    for (int64_t i = 0; of->partial && i < 2 * of->weights.heads; i++)
        es_partial_free(of->partial[i]);
    es_mem_free(budget, of->partial);
    es_moments_free(&of->moments);
    es_mem_free(budget, of->q);
    es_probe_weights_free(w->spec, &of->weights);
}

/* Frees the walk. */
static void release_walk(walk *w)
{
    es_mem_limit *budget = es_probe_budget(w->spec);
    for (int64_t l = 0; w->of && l < w->layers; l++)
        close_layer(w, &w->of[l]);
    es_mem_free(budget, w->mean);
    es_mem_free(budget, w->keys);
    es_mem_free(budget, w->of);
}

/* ---- a strip ---- */

/* Moments of the strip by BLAS, joined to those of the strips before. */
static es_status add_moments(const walk *w, es_moments *to, const float *x, int64_t count,
                             es_error *err)
{
    const int64_t H = to->dim;
    const es_view view = es_view_f32(x, count, H);
    const es_exec exec = es_exec_quiet(w->spec->exec);
    ES_TRY(es_cov_estimate(&view, false, &exec, w->mean, w->cov, err));
    for (int64_t i = 0; i < H * H; i++)
        w->cov[i] *= (double)count;
    const es_moments strip = {.count = count, .dim = H, .mean = w->mean, .scatter = w->cov};
    es_moments_merge(to, &strip);
    return ES_OK;
}

/* Adds a strip of tokens to moments and attention. Strips alternate between two halves, whose
 * difference gives the pool's own error. */
static es_status add_strip(void *user, int64_t layer, int64_t first, int64_t count, const float *x,
                           es_error *err)
{
    const walk *w = user;
    layer_seen *of = &w->of[layer - w->layer];
    const es_probe_weights *p = &of->weights;
    const int64_t half = first / w->strip % 2;
    ES_TRY(add_moments(w, &of->moments, x, count, err));
    ES_TRY(es_probe_project(w->spec->exec, x, count, p->wk, NULL, p->all, p->hidden, w->keys, err));
    ES_TRY(
        es_probe_project(w->spec->exec, x, count, p->wv, NULL, p->all, p->hidden, w->values, err));
    for (int64_t h = 0; h < p->heads; h++) {
        es_view q = es_view_f32(of->q + h * p->width, w->queries, p->width);
        es_view k = es_view_f32(w->keys + h * p->width, count, p->width);
        const es_view v = es_view_f32(w->longer, count, p->width + 1);
        q.row_stride = k.row_stride = p->all * (int64_t)sizeof(float);
        es_probe_lengthen(w->values + h * p->width, p->all, count, p->width, w->longer);
        ES_TRY(es_partial_attend(of->partial[half * p->heads + h], &q, &k, &v, first, err));
    }
    return ES_OK;
}

/* Writes the state of a layer as numbers that another process can fold. */
static void save_layer(const walk *w, const layer_seen *of, double *state)
{
    shape s;
    shape_of(w->spec, &s);
    es_moments_save(&of->moments, state);
    for (int64_t i = 0; i < 2 * s.heads; i++)
        es_partial_save(of->partial[i], state + s.moments + i * s.partial);
}

es_status es_probe_part(const es_probe_spec *spec, int64_t layer, int64_t layers, int64_t part,
                        double *state, es_error *err)
{
    ES_TRY(es_probe_check(spec, layer, err));
    ES_TRY(es_probe_check(spec, layer + layers - 1, err));
    walk w = {.spec = spec,
              .layer = layer,
              .layers = layers,
              .queries = es_probe_queries_of(spec),
              .strip = es_probe_strip(tokens_of(spec))};
    const es_pool_range range = {.layer = layer,
                                 .layers = layers,
                                 .first = first_of(spec, part),
                                 .last = first_of(spec, part + 1),
                                 .strip = w.strip};
    es_status status = prepare_walk(&w, err);
    if (status == ES_OK)
        status = es_pool_walk(spec->pool, &range, spec->exec, add_strip, &w, err);
    for (int64_t l = 0; l < layers && status == ES_OK; l++)
        save_layer(&w, &w.of[l], state + l * es_probe_part_numbers(spec));
    release_walk(&w);
    return status;
}

/* ---- parts become one ---- */

/* Merges the moments of two states, in this order, so that the bits do not depend on which process
 * made them. */
static es_status fold_moments(const es_probe_spec *spec, const shape *s, double *into,
                              const double *state, es_error *err)
{
    es_moments a = {0}, b = {0};
    es_status status = es_moments_new(s->hidden, es_probe_budget(spec), &a, err);
    if (status == ES_OK)
        status = es_moments_new(s->hidden, es_probe_budget(spec), &b, err);
    if (status == ES_OK)
        status = es_moments_load(&a, into, err);
    if (status == ES_OK)
        status = es_moments_load(&b, state, err);
    if (status == ES_OK) {
        es_moments_merge(&a, &b);
        es_moments_save(&a, into);
    }
    es_moments_free(&a);
    es_moments_free(&b);
    return status;
}

es_status es_probe_fold(const es_probe_spec *spec, double *into, const double *state, es_error *err)
{
    es_partial *a = NULL, *b = NULL;
    shape s;
    shape_of(spec, &s);
    ES_TRY(fold_moments(spec, &s, into, state, err));
    es_status status = new_partial(&s, &a, err);
    if (status == ES_OK)
        status = new_partial(&s, &b, err);
    for (int64_t i = 0; i < 2 * s.heads && status == ES_OK; i++) {
        const int64_t at = s.moments + i * s.partial;
        status = es_partial_load(a, into + at, err);
        if (status == ES_OK)
            status = es_partial_load(b, state + at, err);
        if (status == ES_OK)
            status = es_partial_merge(a, b, err);
        if (status == ES_OK)
            es_partial_save(a, into + at);
    }
    es_partial_free(a);
    es_partial_free(b);
    return status;
}

/* ---- the numbers ---- */

/* Outputs of a head over some tokens, their logarithms of sum exp(score), both for scores as they
 * are and doubled. */
typedef struct seen {
    double *output;   /* (2, queries, k + 1) */
    double *lse;      /* (2, queries) */
    double *top;      /* (2, queries) largest weights */
    double *squares;  /* (2, queries) sum w^2 */
    double *sampling; /* (queries) */
    int64_t tokens;
} seen;

/* N sum w^2 |v - output|^2, mean over queries, and in *thin the share of those for which fewer than
 * ES_PROBE_THIN tokens count, 1/sum w^2. */
static double sampling_of(const shape *of, const seen *s, double *thin)
{
    const int64_t k = of->width, m = of->queries;
    const double N = (double)s->tokens;
    double sum = 0.0;
    *thin = 0.0;
    for (int64_t i = 0; i < m; i++) {
        const double *output = s->output + i * (k + 1), *doubled = output + m * (k + 1);
        const double squares = exp(s->lse[m + i] - 2.0 * s->lse[i]); /* sum w^2 */
        s->sampling[i] = N * es_probe_sampling_at(output, doubled, s->lse[i], s->lse[m + i], k);
        sum += s->sampling[i] / (double)m;
        *thin += squares * ES_PROBE_THIN > 1.0 ? 1.0 / (double)m : 0.0;
    }
    return sum;
}

/* Reads outputs, normalisers and weights of a state. */
static es_status look(es_partial *partial, const seen *s, es_error *err)
{
    const es_attend_out out = {
        .output = s->output, .lse = s->lse, .top_weight = s->top, .sum_squares = s->squares};
    return es_partial_finish(partial, &out, err);
}

es_probe_focus es_probe_focus_of(double *squares, double *top, int64_t queries)
{
    es_probe_focus f = {0};
    for (int64_t i = 0; i < queries; i++) {
        f.ess_low += squares[i] > 0.5 ? 1.0 / (double)queries : 0.0;
        f.top_high += top[i] > 0.5 ? 1.0 / (double)queries : 0.0;
    }
    es_sort_reals(squares, queries);
    es_sort_reals(top, queries);
    f.ess = 1.0 / es_median_of(squares, queries);
    f.top = es_median_of(top, queries);
    return f;
}

/* What the halves have shown one head, and where its numbers go. */
typedef struct ending {
    const es_probe_spec *spec;
    shape shape;
    es_partial *even, *odd;
    seen half[2];
    double *numbers;
} ending;

/* Outputs over the pool into limit; half the distance between the halves, and what sampling adds,
 * into `about`. The error of a pool of one token is not known. */
static es_status finish_head(ending *e, int64_t head, es_error *err)
{
    const es_probe_layout at = es_probe_layout_of(e->spec);
    double *limit = e->numbers + at.limit, *about = e->numbers + at.about + ES_PROBE_ABOUT * head;
    const int64_t k = e->shape.width, Q = e->shape.heads * k, m = e->shape.queries;
    const seen *half = e->half;
    es_probe_cell apart = {(double)NAN, (double)NAN, (double)NAN};
    double difference = (double)NAN, thin;
    ES_TRY(look(e->even, &half[0], err));
    if (half[1].tokens > 0) {
        ES_TRY(look(e->odd, &half[1], err));
        ES_TRY(es_probe_errors(es_probe_budget(e->spec), half[0].output, k + 1, half[1].output,
                               k + 1, m, k, &apart, err));
        difference =
            fabs(sampling_of(&e->shape, &half[0], &thin) - sampling_of(&e->shape, &half[1], &thin));
        ES_TRY(es_partial_merge(e->even, e->odd, err));
        ES_TRY(look(e->even, &half[0], err));
    }
    seen all = half[0];
    all.tokens += half[1].tokens;
    for (int64_t i = 0; i < m; i++)
        memcpy(limit + i * Q + head * k, all.output + i * (k + 1), (size_t)k * sizeof *limit);
    const double sampling = sampling_of(&e->shape, &all, &thin);
    memcpy(e->numbers + at.sampling + head * m, all.sampling, (size_t)m * sizeof *limit);
    const es_probe_focus f = es_probe_focus_of(all.squares, all.top, m);
    const double of_head[ES_PROBE_ABOUT] = {apart.mean_error / 2.0,
                                            apart.cov_error / 2.0,
                                            apart.map_error / 2.0,
                                            sampling,
                                            difference / 2.0,
                                            thin,
                                            f.ess,
                                            f.ess_low,
                                            f.top,
                                            f.top_high};
    memcpy(about, of_head, sizeof of_head);
    return ES_OK;
}

/* Finishes all heads: outputs over each half and over the whole pool, and how far the halves
 * differ. */
static es_status finish_heads(ending *e, const double *state, es_error *err)
{
    const int64_t m = e->shape.queries, outputs = 2 * m * (e->shape.width + 1);
    const int64_t tokens = tokens_of(e->spec), strip = es_probe_strip(tokens);
    double *scratch;
    ES_TRY(ES_MEM_NEW_2D(es_probe_budget(e->spec), scratch, 2, outputs + 7 * m, "outputs", err));
    for (int i = 0; i < 2; i++) {
        double *at = scratch + i * (outputs + 7 * m), *lse = at + outputs;
        e->half[i] = (seen){at, lse, lse + 2 * m, lse + 4 * m, lse + 6 * m, 0};
    }
    for (int64_t first = 0; first < tokens; first += strip)
        e->half[first / strip % 2].tokens += tokens - first < strip ? tokens - first : strip;
    es_status status = ES_OK;
    for (int64_t h = 0; h < e->shape.heads && status == ES_OK; h++) {
        const double *of_head = state + h * e->shape.partial;
        status = es_partial_load(e->even, of_head, err);
        if (status == ES_OK)
            status = es_partial_load(e->odd, of_head + e->shape.heads * e->shape.partial, err);
        if (status == ES_OK)
            status = finish_head(e, h, err);
    }
    es_mem_free(es_probe_budget(e->spec), scratch);
    return status;
}

/* Writes mean and covariance of the tokens. */
static es_status finish_moments(const ending *e, const double *state, es_error *err)
{
    const es_probe_layout at = es_probe_layout_of(e->spec);
    es_moments m;
    ES_TRY(es_moments_new(e->shape.hidden, es_probe_budget(e->spec), &m, err));
    const es_status status = es_moments_load(&m, state, err);
    if (status == ES_OK) {
        memcpy(e->numbers + at.mean, m.mean, (size_t)m.dim * sizeof(double));
        es_moments_covariance(&m, 0, e->numbers + at.cov);
    }
    es_moments_free(&m);
    return status;
}

es_status es_probe_finish(const es_probe_spec *spec, const double *state, double *numbers,
                          es_error *err)
{
    ending e = {.spec = spec, .numbers = numbers};
    shape_of(spec, &e.shape);
    ES_TRY(finish_moments(&e, state, err));
    es_status status = new_partial(&e.shape, &e.even, err);
    if (status == ES_OK)
        status = new_partial(&e.shape, &e.odd, err);
    if (status == ES_OK)
        status = finish_heads(&e, state + e.shape.moments, err);
    es_partial_free(e.even);
    es_partial_free(e.odd);
    return status;
}

/* ---- all parts ---- */

/* Measures a layer part by part in this process, by the same parts and folds as several processes
 * use. */
static es_status measure_parts(const es_probe_spec *spec, int64_t layer, double *into,
                               double *state, es_error *err)
{
    const int64_t parts = es_probe_parts(spec);
    for (int64_t part = 0; part < parts; part++) {
        es_exec_part share = {spec->exec, (double)part / (double)parts,
                              (double)(part + 1) / (double)parts};
        const es_exec exec = es_exec_of_part(&share);
        es_probe_spec of_part = *spec;
        of_part.exec = &exec;
        ES_TRY(es_probe_part(&of_part, layer, 1, part, part ? state : into, err));
        if (part)
            ES_TRY(es_probe_fold(spec, into, state, err));
    }
    return ES_OK;
}

es_status es_probe_measure(const es_probe_spec *spec, int64_t layer, double *numbers, es_error *err)
{
    double *into;
    ES_TRY(es_probe_check(spec, layer, err));
    const int64_t size = es_probe_part_numbers(spec), states = es_probe_parts(spec) > 1 ? 2 : 1;
    ES_TRY(ES_MEM_NEW_2D(es_probe_budget(spec), into, states, size, "states", err));
    es_status status = measure_parts(spec, layer, into, into + (states - 1) * size, err);
    if (status == ES_OK)
        status = es_probe_finish(spec, into, numbers, err);
    es_mem_free(es_probe_budget(spec), into);
    return status;
}
