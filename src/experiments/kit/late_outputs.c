/* SPDX-License-Identifier: Apache-2.0 */
/* late_outputs.c : outputs of late queries of one unit under many caches. */
#include "experiments/kit/late_outputs.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/late_inside.h"
#include "linalg/dense.h"
#include "model/forward_cache.h"

/* ---- a layer ---- */

es_status es_late_layer_new(const es_model_config *config, es_arena *arena, es_late_layer *out,
                            es_error *err)
{
    *out = (es_late_layer){.config = config};
    ES_TRY(ES_ARENA_NEW(arena, out->q, config->heads, "heads of a layer", err));
    ES_TRY(ES_ARENA_NEW(arena, out->plain_q, config->heads, "heads of a layer", err));
    ES_TRY(ES_ARENA_NEW(arena, out->sinks, config->heads, "heads of a layer", err));
    ES_TRY(ES_ARENA_NEW(arena, out->k, config->kv_heads, "heads of a layer", err));
    return ES_ARENA_NEW(arena, out->v, config->kv_heads, "heads of a layer", err);
}

void es_late_see(es_late_layer *layer, const es_model_seen *seen)
{
    const int64_t unit = seen->head / (layer->config->heads / layer->config->kv_heads);
    layer->layer = seen->layer;
    layer->n = seen->q.rows;
    layer->scale = seen->scale;
    layer->cap = seen->cap;
    layer->window = seen->window;
    layer->q[seen->head] = seen->q;
    layer->plain_q[seen->head] = seen->plain_q;
    layer->sinks[seen->head] = seen->sink ? *seen->sink : -(double)INFINITY;
    layer->k[unit] = seen->k;
    layer->v[unit] = seen->v;
}

/* ---- checks ---- */

bool es_late_plain(const es_late_spec *spec)
{
    bool plain = false;
    for (int64_t p = 0; p < spec->n_policies; p++)
        plain = plain || es_eviction_plain(spec->policies[p].policy);
    return plain;
}

/* Fails for a policy that cannot be looked at unit by unit. */
static es_status check_policy(const es_late_spec *spec, int64_t policy, es_error *err)
{
    es_evict_spec one = spec->policies[policy];
    one.keys = spec->keys[0];
    ES_TRY(es_evict_check(&one, spec->mode, err));
    if (one.alpha == ES_EVICT_UNSET && one.beta == ES_EVICT_UNSET)
        return ES_OK;
    return es_fail(err, ES_E_UNSUPPORTED, "late.together", "leave the option out; loss runs it",
                   "policy %s with option %s has a number of keys for several heads together",
                   es_eviction_name(one.policy), one.alpha == ES_EVICT_UNSET ? "beta" : "alpha");
}

/* Fails if numbers of keys or places of queries do not increase within their bounds. */
static es_status check_increasing(const int64_t *at, int64_t count, int64_t least, int64_t most,
                                  const char *rule, const char *what, es_error *err)
{
    for (int64_t i = 0; i < count; i++)
        if (at[i] < (i ? at[i - 1] + 1 : least) || at[i] > most)
            return es_fail(err, ES_E_RANGE, rule, "give increasing numbers",
                           "%s %lld is %lld; they increase from %lld to %lld", what, (long long)i,
                           (long long)at[i], (long long)least, (long long)most);
    return ES_OK;
}

es_status es_late_check(const es_late_spec *spec, int64_t n, es_error *err)
{
    const bool prompt = spec->mode == ES_EVICT_PROMPT;
    if (prompt && (spec->prompt < 1 || spec->prompt >= n))
        return es_fail(err, ES_E_RANGE, "late.prompt", "use a shorter prompt",
                       "a prompt of %lld tokens in blocks of %lld", (long long)spec->prompt,
                       (long long)n);
    ES_TRY(check_increasing(spec->queries, spec->n_queries, prompt ? spec->prompt : 0, n - 1,
                            "late.queries", "place", err));
    ES_TRY(check_increasing(spec->keys, spec->n_keys, 1, INT64_MAX - 1, "late.keys",
                            "number of keys", err));
    for (int64_t p = 0; p < spec->n_policies && spec->n_keys; p++)
        ES_TRY(check_policy(spec, p, err));
    for (int64_t t = 0; t < spec->n_types && spec->n_policies; t++)
        if (es_kv_format_by_query(&spec->types[t].k) || es_kv_format_by_query(&spec->types[t].v))
            return es_fail(err, ES_E_UNSUPPORTED, "late.together",
                           "use a type that is the same for old and new places, like q4_0",
                           "kivi types and eviction at the same time are not defined");
    return ES_OK;
}

/* ---- memory ---- */

/* Returns whether a policy has one set of keys for all units of the layer. */
static bool is_joint(const es_late_spec *spec)
{
    bool joint = false;
    for (int64_t p = 0; p < spec->n_policies; p++) {
        const es_evict_spec one = es_evict_resolve(&spec->policies[p], spec->mode);
        joint = joint || es_evict_one_set(&one);
    }
    return joint;
}

double es_late_bytes(const es_model_config *c, es_dtype precision, int64_t n,
                     const es_late_spec *spec)
{
    const double N = (double)n, d = (double)c->head_dim, each = (double)(c->heads / c->kv_heads);
    const double units = is_joint(spec) ? (double)c->kv_heads : 1.0;
    const double item = (double)es_dtype_size(precision);
    double most = 0.0;
    for (int64_t p = 0; p < spec->n_policies; p++) {
        es_cache_unit like = {.evict = spec->policies[p]};
        like.evict.keys = spec->n_keys ? spec->keys[spec->n_keys - 1] : 1;
        most =
            fmax(most, es_model_cache_bytes(&like, spec->mode, spec->prompt, c, precision, n, 1));
    }
    const double scores = 5.0 * ES_LATE_CHUNK * each * N * 8.0;
    const double rows = 8.0 * d * (7.0 * N + (double)spec->n_queries * each);
    const double narrow = units * N * d * item * (2.0 + 2.0 * each);
    const double orders =
        (double)spec->prompt * (double)spec->n_policies * (8.0 * (double)spec->n_types + 8.0);
    const double states = 8.0 * 3.0 * ES_LATE_CHUNK * each * (d + 2.0);
    return most + scores + rows + narrow + orders + states + 64.0 * N + 1e5;
}

/* Copies queries of the unit, or of the layer, side by side, as es_decode_run() reads them. */
static es_status join_queries(es_late_work *w, es_error *err)
{
    const int64_t first = w->joint ? 0 : w->unit * w->each;
    const int64_t count = w->joint ? w->layer->config->heads : w->each;
    const int64_t item = (int64_t)es_dtype_size(w->dtype), row = w->d * item;
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->joined, w->n, count * row, "queries", err));
    for (int64_t h = 0; h < count; h++) {
        const es_view *q = &w->layer->q[first + h];
        for (int64_t i = 0; i < w->n; i++)
            memcpy(w->joined + (i * count + h) * row, (const char *)q->data + i * q->row_stride,
                   (size_t)row);
        w->heads[first + h].q =
            (es_view){w->joined + h * row, w->dtype, w->n, w->d, count * row, item};
    }
    return ES_OK;
}

/* Allocates what one unit needs. */
static es_status allocate(es_late_work *w, es_error *err)
{
    const es_model_config *c = w->layer->config;
    const int64_t item = (int64_t)es_dtype_size(w->dtype), rows = ES_LATE_CHUNK * w->each;
    double **const wide[] = {
        &w->k, &w->v, &w->side[0].rows, &w->side[1].rows, &w->side[0].fine, &w->side[1].fine};
    double **const scores[] = {&w->full_scores, &w->full_weights, &w->scores, &w->weights,
                               &w->other};
    for (int i = 0; i < 6; i++)
        ES_TRY(ES_ARENA_NEW_2D(&w->arena, *wide[i], w->n, w->d, "rows of a cache", err));
    for (int i = 0; i < 5; i++)
        ES_TRY(ES_ARENA_NEW_2D(&w->arena, *scores[i], rows, w->n, "scores of late queries", err));
    for (int i = 0; i < 2; i++) {
        ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->held[i], (w->joint ? c->kv_heads : 1) * w->n,
                               w->d * item, "rows of a cache", err));
        ES_TRY(ES_ARENA_NEW(&w->arena, w->views[i], c->kv_heads, "units", err));
    }
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->partial, rows, w->d, "outputs", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->q, w->spec->n_queries * w->each, w->d, "queries", err));
    return ES_ARENA_NEW(&w->arena, w->heads, c->heads, "heads of a layer", err);
}

/* Reads the unit's rows, and the layer's heads for policies. */
static void read_unit(es_late_work *w)
{
    const es_late_layer *layer = w->layer;
    for (int64_t i = 0; i < w->n; i++) {
        es_view_read_row(&layer->k[w->unit], i, w->k + i * w->d);
        es_view_read_row(&layer->v[w->unit], i, w->v + i * w->d);
    }
    for (int64_t i = 0; i < w->spec->n_queries; i++)
        for (int64_t h = 0; h < w->each; h++)
            es_view_read_row(&layer->q[w->unit * w->each + h], w->spec->queries[i],
                             w->q + (i * w->each + h) * w->d);
    for (int64_t h = 0; h < layer->config->heads; h++)
        w->heads[h] = (es_evict_head){.q = layer->q[h],
                                      .plain_q = layer->plain_q[h],
                                      .k = layer->k[h / w->each],
                                      .sink = layer->sinks[h]};
}

/* Computes outputs of the full model, and of every type with every key kept. */
static void run_types(es_late_work *w, int64_t type)
{
    for (int64_t first = 0; first < w->spec->n_queries; first += ES_LATE_CHUNK) {
        es_late_chunk(w, first);
        if (type == 0)
            es_late_full(w);
        es_late_scores(w);
        es_late_rounded(w, type);
    }
}

static es_status run_unit(es_late_work *w, es_error *err)
{
    const es_late_spec *spec = w->spec;
    const bool decodes = spec->mode == ES_EVICT_DECODE;
    es_late_prompt prompt;
    ES_TRY(allocate(w, err));
    read_unit(w);
    if (spec->n_policies && spec->n_keys)
        ES_TRY(decodes ? join_queries(w, err) : es_late_prompt_new(w, &prompt, err));
    for (int64_t t = 0; t < spec->n_types; t++) {
        es_late_hold(w, t);
        run_types(w, t);
        if (spec->n_policies && spec->n_keys)
            ES_TRY(decodes ? es_late_decode(w, t, err) : es_late_prompt_run(w, &prompt, t, err));
    }
    return ES_OK;
}

es_status es_late_run(const es_late_layer *layer, int64_t unit, const es_late_spec *spec,
                      es_mem_limit *budget, const es_late_out *out, es_error *err)
{
    es_late_work w = {.layer = layer,
                      .spec = spec,
                      .out = out,
                      .budget = budget,
                      .arena = {.budget = budget},
                      .unit = unit,
                      .each = layer->config->heads / layer->config->kv_heads,
                      .n = layer->n,
                      .d = layer->k[unit].cols,
                      .joint = is_joint(spec),
                      .dtype = layer->k[unit].dtype};
    ES_TRY(es_blas_scratch(err));
    es_blas_enter();
    const es_status status = run_unit(&w, err);
    es_blas_leave();
    es_arena_free(&w.arena);
    return status;
}
