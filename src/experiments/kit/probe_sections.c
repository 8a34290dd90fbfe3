/* SPDX-License-Identifier: Apache-2.0 */
/* probe_sections.c : how much a head's numbers hang on the text that the pool happens to hold.
 *
 * Draws from a pool say nothing about that: they all come from the same text. So the pool is cut
 * into sections of consecutive text, which are what another text of the same kind would have
 * differently, and every number is computed anew without each of them, its keys and its queries
 * alike (delete-a-group jackknife, es_jackknife()). One walk does: what the queries see in a
 * section is a partial state, and those of all sections but one are merged. */
#include "experiments/kit/probe_inside.h"

#include <math.h>

#include <esscher/attend.h>

#include "attention/attend.h"
#include "base/error.h"
#include "base/memory.h"
#include "linalg/linalg.h"
#include "stats/moments.h"

enum { STRIP = 4096 }; /* tokens read at a time */

/* What is seen of a layer, section by section. */
typedef struct layer_seen {
    es_probe_weights weights;
    float *q;             /* (queries, Q), section by section */
    es_moments *keys_of;  /* (ES_PROBE_SECTIONS, heads) */
    es_partial **partial; /* likewise */
} layer_seen;

/* A pass over the pool whose sections stand for texts of their own. */
typedef struct sections {
    const es_probe_spec *spec;
    int64_t layer, layers, tokens;
    int64_t each, queries; /* queries of a section, and of all */
    int64_t heads, width;
    int64_t section;      /* that the walk is in */
    layer_seen *of;       /* (layers) */
    float *keys, *values; /* (STRIP, Q) */
    float *longer;        /* (STRIP, k + 1) */
    double *mean, *cov;   /* (k), (k, k) of a strip's keys, or of many */
    double *output, *lse; /* (2, queries, k + 1), (2, queries) */
} sections;

es_probe_price es_probe_sections_price(const es_probe_spec *spec, int64_t tokens)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const double heads = (double)c->heads, k = (double)c->head_dim, N = (double)tokens;
    const double H = fmax((double)c->hidden, heads * k);
    const double m = (double)(ES_PROBE_SECTIONS * es_probe_section_each(spec, tokens));
    const double states = (ES_PROBE_SECTIONS + 2.0) * heads;
    return (es_probe_price){
        /* keys, values, both products of attention at two scales, exponentials */
        .flops = N * (4.0 * H * H + 4.0 * H * k + m * (6.0 * H + 80.0 * heads)),
        .bytes = (size_t)(states * (m * (16.0 * (k + 1.0) + 128.0) + 8.0 * k * (k + 32.0)) +
                          4.0 * STRIP * (3.0 * H + k + 1.0) + 4.0 * (5.0 * H + m) * H + 64e6)};
}

/* ---- set up ---- */

/* Chooses the queries of a layer and projects them. */
static es_status choose_queries(const sections *s, layer_seen *of, int64_t layer, es_error *err)
{
    const int64_t H = of->weights.hidden;
    es_mem_limit *budget = es_probe_budget(s->spec);
    int64_t *rows;
    float *x = NULL;
    es_status status = ES_MEM_NEW(budget, rows, s->queries, "rows of queries", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, x, s->queries, H, "queries", err);
    if (status == ES_OK)
        status = es_probe_section_rows(s->spec, s->tokens, layer, rows, err);
    if (status == ES_OK)
        status = es_pool_gather(s->spec->pool, layer, rows, s->queries, x, err);
    if (status == ES_OK)
        status = es_probe_project(s->spec->exec, x, s->queries, of->weights.wq, of->weights.bq,
                                  of->weights.all, H, of->q, err);
    es_mem_free(budget, x);
    es_mem_free(budget, rows);
    return status;
}

/* Makes the state of attention over one section of the pool; the scale 2s gives sum w^2. */
static es_status new_state(const sections *s, es_partial **out, es_error *err)
{
    const double scale = 1.0 / sqrt((double)s->width), scales[2] = {scale, 2.0 * scale};
    const es_exec exec = es_exec_quiet(s->spec->exec);
    const es_attend_opts opts = {.scales = scales, .n_scales = 2, .exec = &exec};
    return es_partial_new(s->queries, s->width + 1, &opts, out, err);
}

/* Allocates the states of a layer, one per section and head, and its queries. */
static es_status open_layer(const sections *s, layer_seen *of, int64_t layer, es_error *err)
{
    es_mem_limit *budget = es_probe_budget(s->spec);
    const int64_t states = ES_PROBE_SECTIONS * s->heads;
    ES_TRY(es_probe_weights_new(s->spec, layer, &of->weights, err));
    ES_TRY(ES_MEM_NEW_2D(budget, of->q, s->queries, of->weights.all, "queries", err));
    ES_TRY(ES_MEM_NEW(budget, of->keys_of, states, "moments", err));
    ES_TRY(ES_MEM_NEW(budget, of->partial, states, "partial states", err));
    for (int64_t i = 0; i < states; i++) {
        ES_TRY(es_moments_new(s->width, budget, &of->keys_of[i], err));
        ES_TRY(new_state(s, &of->partial[i], err));
    }
    return choose_queries(s, of, layer, err);
}

/* Allocates what one walk over the pool needs for all its layers. */
static es_status prepare(sections *s, es_error *err)
{
    es_mem_limit *budget = es_probe_budget(s->spec);
    const int64_t k = s->width, Q = s->heads * k, m = s->queries;
    ES_TRY(ES_MEM_NEW(budget, s->of, s->layers, "layers", err));
    ES_TRY(ES_MEM_NEW_2D(budget, s->keys, STRIP, 2 * Q + k + 1, "a strip of the pool", err));
    s->values = s->keys + STRIP * Q;
    s->longer = s->values + STRIP * Q;
    ES_TRY(ES_MEM_NEW_2D(budget, s->mean, k + 1, k, "a covariance", err));
    s->cov = s->mean + k;
    ES_TRY(ES_MEM_NEW_2D(budget, s->output, 2 * m, k + 2, "outputs", err));
    s->lse = s->output + 2 * m * (k + 1);
    for (int64_t l = 0; l < s->layers; l++)
        ES_TRY(open_layer(s, &s->of[l], s->layer + l, err));
    return ES_OK;
}

/* Frees what one layer used. */
static void close_layer(const sections *s, layer_seen *of)
{
    es_mem_limit *budget = es_probe_budget(s->spec);
    const int64_t states = ES_PROBE_SECTIONS * s->heads;
    for (int64_t i = 0; of->partial && i < states; i++)
        es_partial_free(of->partial[i]);
    for (int64_t i = 0; of->keys_of && i < states; i++)
        es_moments_free(&of->keys_of[i]);
    es_mem_free(budget, of->partial);
    es_mem_free(budget, of->keys_of);
    es_mem_free(budget, of->q);
    es_probe_weights_free(s->spec, &of->weights);
}

/* Frees the walk. */
static void release(sections *s)
{
    es_mem_limit *budget = es_probe_budget(s->spec);
    for (int64_t l = 0; s->of && l < s->layers; l++)
        close_layer(s, &s->of[l]);
    es_mem_free(budget, s->output);
    es_mem_free(budget, s->mean);
    es_mem_free(budget, s->keys);
    es_mem_free(budget, s->of);
}

/* ---- a strip ---- */

/* Adds a strip of tokens to the moments and to the attention state of a head. */
static es_status add_head(const sections *s, layer_seen *of, int64_t head, int64_t first,
                          int64_t count, es_error *err)
{
    const es_probe_weights *p = &of->weights;
    const int64_t k = p->width, at = s->section * p->heads + head;
    es_view queries = es_view_f32(of->q + head * k, s->queries, k);
    es_view keys = es_view_f32(s->keys + head * k, count, k);
    const es_view values = es_view_f32(s->longer, count, k + 1);
    const es_exec exec = es_exec_quiet(s->spec->exec);
    queries.row_stride = keys.row_stride = p->all * (int64_t)sizeof(float);
    ES_TRY(es_cov_estimate(&keys, false, &exec, s->mean, s->cov, err));
    for (int64_t i = 0; i < k * k; i++)
        s->cov[i] *= (double)count;
    const es_moments strip = {.count = count, .dim = k, .mean = s->mean, .scatter = s->cov};
    es_moments_merge(&of->keys_of[at], &strip);
    es_probe_lengthen(s->values + head * k, p->all, count, k, s->longer);
    return es_partial_attend(of->partial[at], &queries, &keys, &values, first, err);
}

/* Adds a strip of tokens to the section that it belongs to, head by head. */
static es_status add_strip(void *user, int64_t layer, int64_t first, int64_t count, const float *x,
                           es_error *err)
{
    const sections *s = user;
    layer_seen *of = &s->of[layer - s->layer];
    const es_probe_weights *p = &of->weights;
    const int64_t H = p->hidden, Q = p->all;
    ES_TRY(es_probe_project(s->spec->exec, x, count, p->wk, NULL, Q, H, s->keys, err));
    ES_TRY(es_probe_project(s->spec->exec, x, count, p->wv, NULL, Q, H, s->values, err));
    for (int64_t h = 0; h < p->heads; h++)
        ES_TRY(add_head(s, of, h, first, count, err));
    return ES_OK;
}

/* ---- the numbers ---- */

/* All but the queries of section `without`, -1 for all of them. */
static bool is_left(const sections *s, int64_t query, int64_t without)
{
    return query / s->each != without;
}

/* ln of sampling over the outputs' mean square distance from their mean. */
static double log_need(const sections *s, int64_t without, int64_t keys)
{
    const int64_t k = s->width, m = s->queries;
    const double asked = (double)(without < 0 ? m : m - s->each);
    double sampling = 0.0, spread = 0.0;
    for (int64_t i = 0; i < m; i++)
        if (is_left(s, i, without))
            sampling += (double)keys / asked *
                        es_probe_sampling_at(s->output + i * (k + 1), s->output + (m + i) * (k + 1),
                                             s->lse[i], s->lse[m + i], k);
    for (int64_t j = 0; j < k; j++) {
        double mean = 0.0;
        for (int64_t i = 0; i < m; i++)
            mean += is_left(s, i, without) ? s->output[i * (k + 1) + j] / asked : 0.0;
        for (int64_t i = 0; i < m; i++)
            if (is_left(s, i, without))
                spread += pow(s->output[i * (k + 1) + j] - mean, 2.0) / asked;
    }
    return log(sampling / spread);
}

/* ln of the root mean square over queries of the standard deviation of their scores, x'Cx/k for
 * keys of covariance C: as that of es_probe_head, from these keys and queries. */
static double log_score_sd(const sections *s, const layer_seen *of, int64_t head, int64_t without,
                           const double *cov)
{
    const int64_t k = s->width;
    double square = 0.0;
    for (int64_t i = 0; i < s->queries; i++) {
        const float *x = of->q + i * of->weights.all + head * k;
        for (int64_t a = 0; a < k && is_left(s, i, without); a++)
            for (int64_t b = 0; b < k; b++)
                square += (double)x[a] * cov[a * k + b] * (double)x[b];
    }
    const double asked = (double)(without < 0 ? s->queries : s->queries - s->each);
    return 0.5 * log(square / asked / (double)k);
}

/* Traits of a head over all sections but `without`, which come `stride` apart. */
static es_status measure_without(sections *s, const layer_seen *of, int64_t head, int64_t without,
                                 double *out, int64_t stride, es_error *err)
{
    es_partial *seen = NULL;
    es_moments keys = {0};
    es_status status = new_state(s, &seen, err);
    if (status == ES_OK)
        status = es_moments_new(s->width, es_probe_budget(s->spec), &keys, err);
    for (int64_t i = 0; i < ES_PROBE_SECTIONS && status == ES_OK; i++)
        if (i != without) {
            es_moments_merge(&keys, &of->keys_of[i * s->heads + head]);
            status = es_partial_merge(seen, of->partial[i * s->heads + head], err);
        }
    if (status == ES_OK)
        status = es_partial_finish(seen, &(es_attend_out){.output = s->output, .lse = s->lse}, err);
    if (status == ES_OK) {
        es_moments_covariance(&keys, 0, s->cov);
        out[ES_PROBE_NEED * stride] = log_need(s, without, keys.count);
        out[ES_PROBE_SCORES * stride] = log_score_sd(s, of, head, without, s->cov);
    }
    es_moments_free(&keys);
    es_partial_free(seen);
    return status;
}

/* Strips begin anew with every section. */
static es_status walk(sections *s, es_error *err)
{
    const double tokens = (double)s->tokens;
    for (s->section = 0; s->section < ES_PROBE_SECTIONS; s->section++) {
        const es_pool_range range = {.layer = s->layer,
                                     .layers = s->layers,
                                     .first = es_probe_section_first(s->tokens, s->section),
                                     .last = es_probe_section_first(s->tokens, s->section + 1),
                                     .strip = STRIP};
        es_exec_part share = {s->spec->exec, (double)range.first / tokens,
                              (double)range.last / tokens};
        const es_exec exec = es_exec_of_part(&share);
        ES_TRY(es_pool_walk(s->spec->pool, &range, &exec, add_strip, s, err));
    }
    return ES_OK;
}

/* Walks through the pool once, then merges all sections but one, for each of them. */
static es_status measure(sections *s, double *out, es_error *err)
{
    const int64_t stride = 1 + ES_PROBE_SECTIONS;
    ES_TRY(prepare(s, err));
    ES_TRY(walk(s, err));
    for (int64_t l = 0; l < s->layers; l++)
        for (int64_t h = 0; h < s->heads; h++, out += ES_PROBE_TRAITS * stride)
            for (int64_t without = -1; without < ES_PROBE_SECTIONS; without++)
                ES_TRY(measure_without(s, &s->of[l], h, without, out + 1 + without, stride, err));
    return ES_OK;
}

es_status es_probe_sections_of(const es_probe_spec *spec, int64_t layer, int64_t layers,
                               double *out, es_error *err)
{
    ES_TRY(es_probe_check(spec, layer, err));
    ES_TRY(es_probe_check(spec, layer + layers - 1, err));
    const es_model_config *c = es_model_config_of(spec->model);
    sections s = {.spec = spec,
                  .layer = layer,
                  .layers = layers,
                  .tokens = es_pool_about(spec->pool).tokens,
                  .heads = c->heads,
                  .width = c->head_dim};
    if (s.tokens < ES_PROBE_SECTIONS)
        return es_fail(err, ES_E_RANGE, "probe.sections", "a larger pool",
                       "a pool of %lld tokens has no %d sections", (long long)s.tokens,
                       ES_PROBE_SECTIONS);
    s.each = es_probe_section_each(spec, s.tokens);
    s.queries = ES_PROBE_SECTIONS * s.each;
    const es_status status = measure(&s, out, err);
    release(&s);
    return status;
}

es_status es_probe_sections(const es_probe_spec *spec, int64_t layer, double *out, es_error *err)
{
    return es_probe_sections_of(spec, layer, 1, out, err);
}
