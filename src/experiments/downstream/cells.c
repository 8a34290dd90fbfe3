/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : texts through a model whose heads keep some of their keys. */
#include "experiments/downstream/downstream.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "model/layer_heads.h"
#include "model/plan.h"
#include "random/experiment.h"
#include "stats/moments.h"
#include "theory/theory.h"

/* ---- answers ---- */

int64_t es_thinning_keys(const es_thinning *thinning, int64_t n)
{
    int64_t keys = thinning->spec.keys;
    if (thinning->share > 0.0)
        keys = (int64_t)floor(thinning->share * (double)n + 0.5);
    else if (keys == ES_POLICY_UNSET)
        return keys;
    return keys < 1 ? 1 : keys > n ? n : keys;
}

/* Returns what the cache does to a text of n tokens: its prompt and keys. */
static es_cache_setting cache_of(const es_thinning *t, int64_t n)
{
    es_cache_setting out = *t->cache;
    if (t->half)
        out.prompt = n / 2;
    const int64_t all = out.mode == ES_EVICT_DECODE ? n : out.prompt;
    if (t->share > 0.0 && out.unit.evict.policy)
        out.unit.evict.keys = (int64_t)fmax(1.0, rint(t->share * (double)all));
    return out;
}

int64_t es_downstream_outputs(const es_downstream *d)
{
    const es_model_config *c = es_model_config_of(d->model);
    return d->embed ? c->hidden : c->labels;
}

/* What a slice of the texts takes. */
typedef struct slice {
    const es_downstream *d;
    const es_thinning *thinning;
    int64_t first, count, heads; /* heads of all layers */
    es_arena arena;
    es_model_block *blocks;  /* (count) */
    es_model_sparse *sparse; /* (count) */
    es_cache *caches;        /* (count) */
    es_policy_spec *specs;   /* (count, heads) */
    double *kept;            /* (count, heads) */
    double *logits;          /* (count, labels) */
    char *last;              /* hidden states of all texts */
} slice;

/* Allocates a slice of texts: blocks, policies of each head, and outputs. */
static es_status slice_new(slice *s, es_error *err)
{
    const es_model_config *c = es_model_config_of(s->d->model);
    const int64_t *start = s->d->texts->start, n = start[s->first + s->count] - start[s->first];
    const int64_t item = (int64_t)es_dtype_size(es_model_precision(s->d->model));
    const char *what = "a slice of the texts";
    ES_TRY(ES_ARENA_NEW(&s->arena, s->blocks, s->count, what, err));
    ES_TRY(ES_ARENA_NEW(&s->arena, s->sparse, s->count, what, err));
    ES_TRY(ES_ARENA_NEW(&s->arena, s->caches, s->count, what, err));
    ES_TRY(ES_ARENA_NEW_2D(&s->arena, s->specs, s->thinning ? s->count : 0, s->heads, what, err));
    ES_TRY(ES_ARENA_NEW_2D(&s->arena, s->kept, s->thinning ? s->count : 0, s->heads, what, err));
    ES_TRY(ES_ARENA_NEW_2D(&s->arena, s->logits, s->count, c->labels, what, err));
    ES_TRY(ES_ARENA_NEW_2D(&s->arena, s->last, s->d->embed ? n : 0, c->hidden * item, what, err));
    return ES_OK;
}

/* Makes the cache of text i. */
static es_status give_cache(slice *s, int64_t i, const es_exec *exec, es_error *err)
{
    es_model_block *b = &s->blocks[i];
    const es_cache_setting setting = cache_of(s->thinning, b->n);
    b->cache = &s->caches[i];
    b->kept = s->kept + i * s->heads;
    return es_cache_build(&setting, s->d->model, s->thinning->layer, b->ids, b->n, exec, &s->arena,
                          &s->caches[i], err);
}

/* What the heads of text i keep: a share of a text is another number of keys in each. */
static void thin_text(const slice *s, int64_t i, int64_t n)
{
    const es_thinning *t = s->thinning;
    const int64_t cells = es_model_sparse_cells(s->d->model);
    es_policy_spec *specs = s->specs + i * s->heads;
    if (t->plan)
        es_plan_specs(t->plan, n, specs);
    for (int64_t h = 0; h < s->heads; h++)
        if (t->heads && !t->heads[h]) {
            specs[h] = (es_policy_spec){0}; /* no policy */
        } else if (!t->plan) {
            specs[h] = t->spec;
            specs[h].keys = es_thinning_keys(t, n);
        }
    s->sparse[i] = (es_model_sparse){
        .heads = specs,
        .at = {.seed = s->d->seed,
               .experiment = ES_EXPERIMENT_DOWNSTREAM,
               .cell = (uint64_t)((t->draw * s->d->texts->count + s->first + i) * cells)}};
    s->blocks[i].sparse = &s->sparse[i];
    s->blocks[i].kept = s->kept + i * s->heads;
}

/* Points each block to its tokens and outputs. A text's number of keys follows from its length. */
static es_status lay_out(slice *s, const es_exec *exec, es_error *err)
{
    const es_model_config *c = es_model_config_of(s->d->model);
    const es_blocks *texts = s->d->texts;
    const size_t row = (size_t)c->hidden * es_dtype_size(es_model_precision(s->d->model));
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t from = texts->start[s->first + i], n = texts->start[s->first + i + 1] - from;
        s->blocks[i] = (es_model_block){.ids = texts->ids + from, .n = n};
        if (s->d->embed)
            s->blocks[i].last = s->last + (size_t)(from - texts->start[s->first]) * row;
        else
            s->blocks[i].logits = s->logits + i * c->labels;
        if (s->thinning && s->thinning->cache)
            ES_TRY(give_cache(s, i, exec, err));
        else if (s->thinning)
            thin_text(s, i, n);
    }
    return ES_OK;
}

/* The mean of a text's tokens, specials included, as sentence embeddings are made. */
static void pool_text(const es_model *model, const es_model_block *b, double *row, double *out)
{
    const int64_t H = es_model_config_of(model)->hidden;
    const es_dtype dtype = es_model_precision(model);
    const int64_t item = (int64_t)es_dtype_size(dtype);
    const es_view states = {b->last, dtype, b->n, H, H * item, item};
    memset(out, 0, (size_t)H * sizeof *out);
    for (int64_t i = 0; i < b->n; i++) {
        es_view_read_row(&states, i, row);
        for (int64_t c = 0; c < H; c++)
            out[c] += row[c] / (double)b->n;
    }
}

/* Returns the keys that a query sees in the full model, mean over layers and a text of n tokens. */
static double keys_seen(const es_model_config *c, int64_t n)
{
    double sum = 0.0;
    for (int64_t l = 0; l < c->layers && c->causal; l++) {
        const int64_t own = es_model_layer(c, l)->window, w = own && own < n ? own : n;
        sum += ((double)w * (double)(w + 1) / 2.0 + (double)(n - w) * (double)w) / (double)n;
    }
    return c->causal ? sum / (double)c->layers : (double)n;
}

/* Returns the keys that a text kept, mean over the thinned heads. */
static double keys_of(const slice *s, int64_t i)
{
    double sum = 0.0, count = 0.0;
    if (!s->thinning)
        return keys_seen(es_model_config_of(s->d->model), s->blocks[i].n);
    for (int64_t h = 0; h < s->heads; h++)
        if (!s->thinning->heads || s->thinning->heads[h]) {
            sum += s->kept[i * s->heads + h];
            count += 1.0;
        }
    return sum / count;
}

/* Runs the model on a slice and writes an embedding or logits for each text, and its keys. */
static es_status run_slice(slice *s, const es_exec *exec, double *out, es_error *err)
{
    const int64_t outputs = es_downstream_outputs(s->d);
    double *row;
    ES_TRY(slice_new(s, err));
    ES_TRY(ES_ARENA_NEW(&s->arena, row, outputs, "an answer", err));
    ES_TRY(lay_out(s, exec, err));
    ES_TRY(es_model_forward(s->d->model, s->blocks, s->count, exec, err));
    for (int64_t i = 0; i < s->count; i++) {
        double *to = out + i * (outputs + 1);
        if (s->d->embed)
            pool_text(s->d->model, &s->blocks[i], row, to);
        else
            memcpy(to, s->blocks[i].logits, (size_t)outputs * sizeof *to);
        to[outputs] = keys_of(s, i);
    }
    return ES_OK;
}

es_status es_downstream_run(const es_downstream *d, const es_thinning *thinning, int64_t first,
                            int64_t count, const es_exec *exec, double *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(d->model);
    slice s = {.d = d,
               .thinning = thinning,
               .first = first,
               .count = count,
               .heads = c->layers * c->heads,
               .arena = {.budget = exec ? exec->budget : NULL}};
    const es_status status = run_slice(&s, exec, out, err);
    es_arena_free(&s.arena);
    return status;
}

/* ---- horizons ---- */

enum { TOGETHER = 8 }; /* texts whose hidden states are held at a time */

/* A walk over all texts that collects the moments of every layer's input. */
typedef struct walk {
    const es_downstream *d;
    es_arena arena;
    es_exec alone;
    es_moments *layers; /* (L) of the inputs */
    double *rows;       /* (L, H) one token */
    char *hidden;       /* (L, n, H) of each text that is held */
    es_model_block blocks[TOGETHER];
    int64_t held;
    double *out; /* (L, h) */
} walk;

/* Allocates hidden states of TOGETHER texts and the moments of each layer. */
static es_status walk_new(walk *w, es_error *err)
{
    const es_model_config *c = es_model_config_of(w->d->model);
    const es_blocks *t = w->d->texts;
    const size_t item = es_dtype_size(es_model_precision(w->d->model));
    int64_t longest = 0;
    for (int64_t i = 0; i < t->count; i++)
        longest = t->start[i + 1] - t->start[i] > longest ? t->start[i + 1] - t->start[i] : longest;
    ES_TRY(ES_ARENA_NEW(&w->arena, w->layers, c->layers, "layers", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->rows, c->layers, c->hidden, "tokens", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->hidden, TOGETHER * longest,
                           c->layers * c->hidden * (int64_t)item, "hidden states", err));
    for (int64_t l = 0; l < c->layers; l++)
        ES_TRY(es_moments_new(c->hidden, w->arena.budget, &w->layers[l], err));
    for (int64_t i = 0; i < TOGETHER; i++)
        w->blocks[i].hidden = w->hidden + (size_t)(i * longest * c->layers * c->hidden) * item;
    return ES_OK;
}

/* Token by token in the order of the texts, so that sums have the same bits on any team. */
static es_status add_layer(void *user, int64_t layer, int thread, es_error *err)
{
    const walk *w = user;
    const int64_t H = es_model_config_of(w->d->model)->hidden;
    const es_dtype dtype = es_model_precision(w->d->model);
    const int64_t item = (int64_t)es_dtype_size(dtype);
    (void)thread;
    (void)err;
    for (int64_t t = 0; t < w->held; t++) {
        const es_model_block *b = &w->blocks[t];
        const es_view states = {
            (char *)b->hidden + layer * b->n * H * item, dtype, b->n, H, H * item, item};
        for (int64_t i = 0; i < b->n; i++) {
            es_view_read_row(&states, i, w->rows + layer * H);
            es_moments_add(&w->layers[layer], w->rows + layer * H, 1);
        }
    }
    return ES_OK;
}

/* Adds the inputs of all layers over all texts to their moments. */
static es_status walk_texts(walk *w, const es_exec *exec, es_error *err)
{
    const int64_t L = es_model_config_of(w->d->model)->layers;
    const es_exec quiet = es_exec_quiet(exec);
    const es_blocks *t = w->d->texts;
    for (int64_t first = 0; first < t->count; first += TOGETHER) {
        w->held = t->count - first < TOGETHER ? t->count - first : TOGETHER;
        for (int64_t i = 0; i < w->held; i++) {
            w->blocks[i].ids = t->ids + t->start[first + i];
            w->blocks[i].n = t->start[first + i + 1] - t->start[first + i];
            w->blocks[i].states = L;
        }
        ES_TRY(es_model_forward(w->d->model, w->blocks, w->held, &quiet, err));
        ES_TRY(es_parallel_run(&quiet, L, add_layer, w, err));
        ES_TRY(es_exec_report_progress(exec, first + w->held, t->count, err));
    }
    return ES_OK;
}

/* Computes the horizons of all heads of one layer, |S^1/2 A S^1/2| with S of its input. */
static es_status layer_horizons(const walk *w, int64_t layer, const es_exec *exec, es_error *err)
{
    const es_model_config *c = es_model_config_of(w->d->model);
    double *cov;
    ES_TRY(ES_MEM_NEW_2D(w->arena.budget, cov, c->hidden, c->hidden, "a covariance", err));
    const es_view S = es_view_f64(cov, c->hidden, c->hidden);
    es_moments_covariance(&w->layers[layer], 0, cov);
    es_layer_heads *heads = NULL;
    es_status status = es_layer_heads_open(w->d->model, layer, exec, &heads, err);
    for (int64_t h = 0; h < c->heads && status == ES_OK; h++) {
        const es_model_head head = es_layer_heads_at(heads, h);
        es_horizons found;
        status = es_horizons_of(&S, 0.0, &(es_head){.Wq = &head.wq, .Wk = &head.wk},
                                w->arena.budget, &found, err);
        if (status == ES_OK)
            w->out[layer * c->heads + h] = found.horizon.val;
    }
    es_layer_heads_close(heads);
    es_mem_free(w->arena.budget, cov);
    return status;
}

es_status es_downstream_horizons(const es_downstream *d, const es_exec *exec, double *out,
                                 es_error *err)
{
    const int64_t L = es_model_config_of(d->model)->layers;
    walk w = {.d = d, .arena = {.budget = exec ? exec->budget : NULL}, .out = out};
    es_status status = walk_new(&w, err);
    if (status == ES_OK)
        status = walk_texts(&w, exec, err);
    for (int64_t l = 0; l < L && status == ES_OK; l++)
        status = layer_horizons(&w, l, exec, err);
    for (int64_t l = 0; w.layers && l < L; l++)
        es_moments_free(&w.layers[l]);
    es_arena_free(&w.arena);
    return status;
}

/* ---- one answer beside another ---- */

double es_cosine(const double *a, const double *b, int64_t count)
{
    const double aa = es_dot(a, a, count), bb = es_dot(b, b, count);
    return es_dot(a, b, count) / sqrt(aa * bb);
}

/* ---- neighbours ---- */

/* The search for the nearest neighbour of each embedding. */
typedef struct search {
    const double *const *rows, *const *among;
    double *squares; /* (2, count) |x|^2 of rows, and of those among which they look */
    int64_t count, width, *nearest;
} search;

/* Computes the squared norm of one embedding, once for all comparisons. */
static es_status square_row(void *user, int64_t unit, int thread, es_error *err)
{
    const search *s = user;
    const double *x = unit < s->count ? s->rows[unit] : s->among[unit - s->count];
    (void)thread;
    (void)err;
    s->squares[unit] = es_dot(x, x, s->width);
    return ES_OK;
}

/* The bits of a cosine are those of es_cosine(). */
static es_status find_nearest(void *user, int64_t i, int thread, es_error *err)
{
    const search *s = user;
    double most = -2.0;
    (void)thread;
    (void)err;
    s->nearest[i] = -1;
    for (int64_t j = 0; j < s->count; j++) {
        if (j == i)
            continue;
        const double near = es_dot(s->rows[i], s->among[j], s->width) /
                            sqrt(s->squares[i] * s->squares[s->count + j]);
        if (near > most) {
            most = near;
            s->nearest[i] = j;
        }
    }
    return ES_OK;
}

es_status es_nearest_rows(const double *const *rows, const double *const *among, int64_t count,
                          int64_t width, const es_exec *exec, int64_t *nearest, es_error *err)
{
    es_mem_limit *budget = exec ? exec->budget : NULL;
    search s = {.rows = rows, .among = among, .count = count, .width = width, .nearest = nearest};
    ES_TRY(ES_MEM_NEW_2D(budget, s.squares, 2, count, "lengths", err));
    es_status status = es_parallel_run(exec, 2 * count, square_row, &s, err);
    if (status == ES_OK)
        status = es_parallel_run(exec, count, find_nearest, &s, err);
    es_mem_free(budget, s.squares);
    return status;
}
