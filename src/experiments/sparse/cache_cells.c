/* SPDX-License-Identifier: Apache-2.0 */
/* cache_cells.c : one context through the full model, and in each layer the outputs of late queries
 * under every cache (kit/late_outputs.h), unit by unit. Where caches round, also the exact risk of
 * dropping keys at random, the price of bits in keys (THEORY 13, 18). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/sparse/sparse.h"
#include "model/model.h"
#include "risk/policy_risk.h"
#include "stats/weigh.h"

const double sparse_shares[SPARSE_SHARES] = {1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.25, 0.5};

/* Relative error of the integrals; contexts differ by far more. */
static const double TOLERANCE = 1e-4;

int64_t sparse_cache_rows(const sparse_state *s)
{
    const sparse_cache *c = &s->cache;
    return c->n_types * (c->n_policies * c->n_keys + 1) + (c->rounds ? SPARSE_SHARES : 0);
}

const sparse_cache_cell *sparse_cache_cell_of(const es_job *job, int64_t place, int64_t context,
                                              int64_t row)
{
    const sparse_cache_cell *all = es_job_cell(job, 0, context);
    return all + place * sparse_cache_rows(job->state) + row;
}

/* One context. */
typedef struct work {
    const sparse_state *s;
    es_late_spec spec;
    es_late_layer layer;
    es_exec exec;           /* threads that have a unit each */
    sparse_cache_cell *out; /* (places, rows) */
} work;

/* One unit of a layer, and memory for it. */
typedef struct unit_work {
    const work *w;
    int64_t unit, each, d;
    es_mem_limit *budget;
    es_arena arena;
    es_late_out found;
} unit_work;

/* ---- means over queries ---- */

/* Returns the mean over queries of |rows - full|^2 of a head of the unit; rows (queries, each, d).
 */
static double mean_square(const unit_work *u, const double *rows, int64_t head)
{
    const int64_t Q = u->w->spec.n_queries;
    double sum = 0.0;
    for (int64_t i = 0; i < Q; i++) {
        const int64_t at = (i * u->each + head) * u->d;
        for (int64_t c = 0; c < u->d; c++)
            sum += (rows[at + c] - u->found.full[at + c]) * (rows[at + c] - u->found.full[at + c]);
    }
    return sum / (double)Q;
}

/* Fills in what every row of a head has: spread and ESS of the full model. */
static sparse_cache_cell begin_row(const unit_work *u, int64_t head)
{
    const int64_t Q = u->w->spec.n_queries;
    const double none = (double)NAN;
    sparse_cache_cell out = {none, none, 0.0, 0.0, none, none, none, none};
    for (int64_t i = 0; i < Q; i++) {
        const es_late_rounding *r = &u->found.rounding[i * u->each + head];
        out.spread2 += r->spread2 / (double)Q;
        out.ess += 1.0 / r->squares / (double)Q;
    }
    return out;
}

/* Fills in the rows of a head under caches that evict. */
static void fill_settings(const unit_work *u, int64_t head, sparse_cache_cell *rows)
{
    const es_late_spec *spec = &u->w->spec;
    const int64_t Q = spec->n_queries, each = Q * u->each;
    const int64_t count = spec->n_types * spec->n_policies * spec->n_keys;
    for (int64_t k = 0; k < count; k++) {
        rows[k] = begin_row(u, head);
        rows[k].mse = mean_square(u, u->found.outputs + k * each * u->d, head);
        rows[k].mass = 0.0;
        for (int64_t i = 0; i < Q; i++)
            rows[k].mass += u->found.mass[k * each + i * u->each + head] / (double)Q;
    }
}

/* Fills in the rows of a head under caches that only round. */
static void fill_types(const unit_work *u, int64_t head, sparse_cache_cell *rows)
{
    const es_late_spec *spec = &u->w->spec;
    const double share = 1.0 / (double)spec->n_queries;
    for (int64_t t = 0; t < spec->n_types; t++) {
        sparse_cache_cell *row = &rows[t];
        *row = begin_row(u, head);
        row->mse = row->first_order = row->linear = row->noise2 = row->key_risk = 0.0;
        row->mass = 1.0;
        for (int64_t i = 0; i < spec->n_queries; i++) {
            const es_late_rounding *r =
                &u->found.rounding[(t * spec->n_queries + i) * u->each + head];
            row->mse += r->square * share;
            row->first_order += r->first_order * share;
            row->linear += r->linear * share;
            row->noise2 += r->noise2 * share;
            row->key_risk += r->keys * share;
        }
    }
}

/* ---- keys that are dropped at random ---- */

/* Memory of the exact risks of one query. */
typedef struct drop_work {
    double *q, *key;     /* (d) */
    double *scores;      /* (n) */
    es_choice choice;    /* every key on its own */
    es_risk_query query; /* of the present query */
} drop_work;

static es_status drop_new(unit_work *u, drop_work *d, es_error *err)
{
    const int64_t n = u->w->layer.n;
    *d = (drop_work){.choice = {.chance = ES_CHANCE_EACH, .capacity = n}};
    ES_TRY(ES_ARENA_NEW(&u->arena, d->q, u->d, "a query", err));
    ES_TRY(ES_ARENA_NEW(&u->arena, d->key, u->d, "a key", err));
    ES_TRY(ES_ARENA_NEW(&u->arena, d->scores, n, "scores", err));
    ES_TRY(ES_ARENA_NEW(&u->arena, d->choice.rest, n, "keys", err));
    ES_TRY(ES_ARENA_NEW(&u->arena, d->choice.kept, n, "keys", err));
    ES_TRY(ES_ARENA_NEW(&u->arena, d->choice.sure, 1, "keys", err));
    return ES_ARENA_NEW(&u->arena, d->choice.factors, n, "keys", err);
}

/* Computes the scores of a query at `place` over the keys that it sees, from `begin` on. */
static void score_query(const unit_work *u, int64_t head, int64_t place, int64_t begin,
                        drop_work *d)
{
    const es_late_layer *layer = &u->w->layer;
    es_view_read_row(&layer->q[u->unit * u->each + head], place, d->q);
    for (int64_t j = begin; j <= place; j++) {
        es_view_read_row(&layer->k[u->unit], j, d->key);
        d->scores[j - begin] = layer->scale * es_dot(d->q, d->key, u->d);
    }
    es_cap_scores(layer->cap, place + 1 - begin, d->scores);
}

/* Adds the risks of one query: every key is kept with probability 1 - share, weights over it. */
static es_status add_risks(unit_work *u, drop_work *d, int64_t n, sparse_cache_cell *rows,
                           es_error *err)
{
    const double share = 1.0 / (double)u->w->spec.n_queries;
    d->choice.n = d->choice.rest_count = n;
    for (int k = 0; k < SPARSE_SHARES; k++) {
        const double kept = 1.0 - sparse_shares[k];
        es_policy_risk risk = {0};
        for (int64_t j = 0; j < n; j++) {
            d->choice.rest[j] = j;
            d->choice.kept[j] = kept;
            d->choice.factors[j] = 1.0 / kept;
        }
        ES_TRY(es_policy_risk_near(&d->query, &d->choice, TOLERANCE, u->budget, &risk, err));
        rows[k].mse += risk.square.val * share;
    }
    return ES_OK;
}

/* Fills in the exact risks of a head that drops keys at random. */
static es_status fill_shares(unit_work *u, drop_work *d, int64_t head, sparse_cache_cell *rows,
                             es_error *err)
{
    const es_late_layer *layer = &u->w->layer;
    for (int k = 0; k < SPARSE_SHARES; k++) {
        rows[k] = begin_row(u, head);
        rows[k].mse = 0.0;
    }
    for (int64_t i = 0; i < u->w->spec.n_queries; i++) {
        const int64_t place = u->w->spec.queries[i], end = place + 1;
        const int64_t begin = layer->window && end > layer->window ? end - layer->window : 0;
        const es_view values = es_view_rows(&layer->v[u->unit], begin, end - begin);
        score_query(u, head, place, begin, d);
        ES_TRY(es_risk_query_with_sink(d->scores, end - begin, &values,
                                       layer->sinks[u->unit * u->each + head], u->budget, &d->query,
                                       err));
        const es_status status = add_risks(u, d, end - begin, rows, err);
        es_risk_query_free(&d->query, u->budget);
        ES_TRY(status);
    }
    return ES_OK;
}

/* ---- units ---- */

/* Returns the number of a head among those that are looked at; -1: it is not. */
static int64_t place_of(const sparse_state *s, int64_t layer, int64_t head)
{
    for (int64_t i = 0; i < s->n_places; i++)
        if (s->places[i].layer == layer && s->places[i].head == head)
            return i;
    return -1;
}

/* Allocates what is found for a unit. */
static es_status found_new(unit_work *u, es_error *err)
{
    const es_late_spec *spec = &u->w->spec;
    const int64_t rows = spec->n_queries * u->each;
    const int64_t count = spec->n_types * spec->n_policies * spec->n_keys;
    ES_TRY(ES_ARENA_NEW_2D(&u->arena, u->found.full, rows, u->d, "outputs", err));
    ES_TRY(
        ES_ARENA_NEW_2D(&u->arena, u->found.rounded, spec->n_types * rows, u->d, "outputs", err));
    ES_TRY(ES_ARENA_NEW_2D(&u->arena, u->found.outputs, count * rows + 1, u->d, "outputs", err));
    ES_TRY(ES_ARENA_NEW(&u->arena, u->found.mass, count * rows + 1, "outputs", err));
    return ES_ARENA_NEW(&u->arena, u->found.rounding, spec->n_types * rows, "outputs", err);
}

/* Fills in the rows of the heads of a unit. */
static es_status fill_unit(unit_work *u, es_error *err)
{
    const sparse_state *s = u->w->s;
    const sparse_cache *c = &s->cache;
    const int64_t types = c->n_types * c->n_policies * c->n_keys, shares = types + c->n_types;
    drop_work d = {0};
    ES_TRY(found_new(u, err));
    ES_TRY(es_late_run(&u->w->layer, u->unit, &u->w->spec, u->budget, &u->found, err));
    if (c->rounds)
        ES_TRY(drop_new(u, &d, err));
    for (int64_t h = 0; h < u->each; h++) {
        const int64_t place = place_of(s, u->w->layer.layer, u->unit * u->each + h);
        sparse_cache_cell *rows = u->w->out + place * sparse_cache_rows(s);
        if (place < 0)
            continue;
        fill_settings(u, h, rows);
        fill_types(u, h, rows + types);
        if (c->rounds)
            ES_TRY(fill_shares(u, &d, h, rows + shares, err));
    }
    return ES_OK;
}

/* Runs one unit, unless none of its heads is looked at. */
static es_status run_unit(void *context, int64_t unit, int thread, es_error *err)
{
    const work *w = context;
    const es_model_config *c = w->layer.config;
    unit_work u = {.w = w,
                   .unit = unit,
                   .each = c->heads / c->kv_heads,
                   .d = c->head_dim,
                   .budget = w->exec.budget,
                   .arena = {.budget = w->exec.budget}};
    bool wanted = false;
    (void)thread;
    for (int64_t h = 0; h < u.each; h++)
        wanted = wanted || place_of(w->s, w->layer.layer, unit * u.each + h) >= 0;
    const es_status status = wanted ? fill_unit(&u, err) : ES_OK;
    es_arena_free(&u.arena);
    return status;
}

/* Receives a head of the forward pass; after the last one of a layer all units run. */
static es_status see_head(void *context, const es_model_seen *seen, es_error *err)
{
    work *w = context;
    es_late_see(&w->layer, seen);
    if (seen->head < w->layer.config->heads - 1)
        return ES_OK;
    return es_parallel_run(&w->exec, w->layer.config->kv_heads, run_unit, w, err);
}

/* Returns the settings on the queries of a context. */
static es_late_spec spec_of(const sparse_state *s, int64_t context)
{
    const sparse_cache *c = &s->cache;
    return (es_late_spec){.mode = c->mode,
                          .prompt = c->mode == ES_EVICT_PROMPT ? c->prompt : 0,
                          .queries = s->which ? s->which + context * s->queries : NULL,
                          .n_queries = s->queries,
                          .types = c->types,
                          .n_types = c->n_types,
                          .policies = c->policies,
                          .n_policies = c->n_policies,
                          .keys = c->keys,
                          .n_keys = c->n_keys};
}

es_status sparse_cache_run(es_job *job, int64_t context, const es_exec *exec, void *record,
                           es_error *err)
{
    const sparse_state *s = job->state;
    const es_model_config *c = s->pools.config;
    es_arena arena = {.budget = exec->budget};
    work w = {.s = s, .spec = spec_of(s, context), .exec = es_exec_quiet(exec), .out = record};
    const es_model_visit visit = {.head = see_head, .context = &w, .plain = es_late_plain(&w.spec)};
    const es_model_block block = {.ids = s->text.ids + s->text.start[context],
                                  .n = s->text.start[context + 1] - s->text.start[context],
                                  .states = s->places[s->n_places - 1].layer + 2,
                                  .visit = &visit};
    es_status status = es_late_layer_new(c, &arena, &w.layer, err);
    if (status == ES_OK)
        status = es_late_check(&w.spec, block.n, err);
    if (status == ES_OK)
        status = es_model_forward(s->pools.model, &block, 1, exec, err);
    es_arena_free(&arena);
    return status;
}

double sparse_cache_bytes(const es_job *job)
{
    const sparse_state *s = job->state;
    const es_model_config *c = s->pools.config;
    const es_late_spec spec = spec_of(s, 0);
    const double units = fmin((double)job->exec.threads, (double)c->kv_heads);
    const double each = (double)(c->heads / c->kv_heads), d = (double)c->head_dim;
    const double settings = (double)(spec.n_types * (spec.n_policies * spec.n_keys + 1)) + 1.0;
    const double found = (double)spec.n_queries * each * settings * 8.0 * (d + 16.0);
    const double drop = es_policy_query_bytes(s->n, s->d, s->dv, 1);
    const es_model_cost pass = es_model_cost_of(c, ES_F32, s->n, job->exec.threads, false);
    const double records = (double)(s->contexts * s->n_places * sparse_cache_rows(s)) *
                           (double)sizeof(sparse_cache_cell);
    return pass.bytes + units * (es_late_bytes(c, ES_F32, s->n, &spec) + found + drop) + records +
           16.0 * (double)(s->n * s->contexts) + 4e6;
}
