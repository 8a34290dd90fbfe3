/* SPDX-License-Identifier: Apache-2.0 */
/* model.c : queries, keys and values of a model's heads over its own text, for `sparse`: N
 * consecutive tokens of a pool are a context. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/default_size.h"
#include "experiments/sparse/sparse.h"
#include "model/model.h"

/* Returns whether a context is a block of the model: its keys stand where the model has put them.
 */
static bool has_places(const es_model_config *config)
{
    return config->causal || config->rotary.width;
}

/* Returns the default context: all positions, where a context is a block at most 2048 to bound the
 * time. */
static int64_t usual_context(const sparse_question *question, const es_model_config *config)
{
    const int64_t most = question->longest ? question->longest : 2048;
    return has_places(config) && config->positions > most ? most : config->positions;
}

/* Fails if windows of the model's layers cut the context of --preset paper, whose keys are one set
 * for all queries: a window to both sides leaves out a key more than `narrow` away. */
static es_status check_windows(const sparse_state *s, const es_model_config *config, es_error *err)
{
    const int64_t narrow = es_model_narrowest(config);
    if (!narrow || s->n <= narrow + 1)
        return ES_OK;
    return es_refuse(err, "sparse.context", "use a context no longer than the window",
                     "--context %lld: windows of the model's layers cut contexts of more than "
                     "%lld tokens, and --preset paper keeps one set of keys for all queries",
                     (long long)s->n, (long long)narrow + 1);
}

/* Fails if a model whose queries and keys have positions cannot take the context as one block. */
static es_status check_context(const es_job *job, const es_model_config *config, es_error *err)
{
    const sparse_state *s = job->state;
    if (!has_places(config))
        return ES_OK;
    if (config->causal && s->question->refuses_causal)
        return es_refuse(err, "sparse.options", "use an encoder, or leave --model out",
                         "--preset paper is not causal, but the model is");
    if (s->n > config->positions)
        return es_refuse(err, "sparse.context", "use a shorter context",
                         "--context %lld: the model has %lld positions", (long long)s->n,
                         (long long)config->positions);
    return s->question->refuses_causal ? check_windows(s, config, err) : ES_OK;
}

/* ---- default sizes ---- */

/* State and model, for the work of a run's size. */
typedef struct sizing_user {
    const sparse_state *s;
    const es_model_config *config;
} sizing_user;

enum { CONTEXT, CONTEXTS, QUERIES, SIZES };

/* Returns the operations of a run of such sizes: the pool, and all heads under all policies. */
static double work_of(const void *user, const int64_t *values)
{
    const sizing_user *u = user;
    const sparse_params *p = u->s->p;
    const int64_t n = values[CONTEXT];
    const int64_t layers = p->layers.count ? p->layers.count : u->config->layers;
    const int64_t heads = p->heads.count ? p->heads.count : u->config->heads;
    const es_model_cost pass = es_model_cost_of(u->config, ES_F32, n, 1, false);
    return (double)values[CONTEXTS] *
           (es_model_work(&pass) +
            (double)(layers * heads) * u->s->question->work(u->s, n, values[QUERIES]));
}

/* Chooses contexts and queries, unless given, so that the run takes no longer than a default run
 * should. Reads the policies for the usual context, and forgets them. */
static es_status choose_sizes(es_job *job, const es_model_config *config, es_error *err)
{
    static const es_size_step steps[] = {
        {CONTEXTS, ES_SIZE_FEWEST}, {QUERIES, 4}, {CONTEXT, ES_SIZE_SHORT}, {QUERIES, 2}};
    sparse_params *p = job->params;
    sparse_state *s = job->state;
    const int64_t queries = p->queries ? p->queries : s->source->queries;
    es_size sizes[SIZES] = {
        [CONTEXT] = {"context", .usual = s->n, .fixed = p->context, .halves = true},
        [CONTEXTS] = {"contexts", .usual = p->contexts, .averaged = true,
                      .fixed = es_params_given(job->given, "contexts")},
        [QUERIES] = {"query-count", .usual = queries, .fixed = p->queries, .averaged = true}};
    const sizing_user user = {s, config};
    const es_sizing sizing = {sizes, SIZES, steps, sizeof steps / sizeof *steps, work_of, &user};
    ES_TRY(s->question->plan(job, err));
    if (es_sizes_fit(&sizing)) {
        es_sizes_add_finding(&sizing, job->answer);
        p->context = sizes[CONTEXT].value;
        p->contexts = s->contexts = sizes[CONTEXTS].value;
        p->queries = sizes[QUERIES].value;
        s->n = s->m = p->context;
    }
    s->n_plans = s->n_grid = s->n_words = 0;
    return ES_OK;
}

/* ---- the source ---- */

/* Opens the pool. If the text is too short, the hint says how many contexts were asked for. */
static es_status open_pools(es_job *job, es_error *err)
{
    sparse_params *p = job->params;
    sparse_state *s = job->state;
    const es_status status = es_pools_open(job, &p->pool, &s->pools, err);
    if (status == ES_E_EMPTY && strcmp(err->rule, "pool.short") == 0)
        snprintf(err->hint, sizeof err->hint,
                 "%lld contexts of %lld tokens: lower --context or --contexts, give more text, or "
                 "use --repeat",
                 (long long)s->contexts, (long long)s->n);
    return status;
}

/* Checks the options for a model and opens the pools of text that its heads read. */
static es_status open_model(es_job *job, es_error *err)
{
    sparse_params *p = job->params;
    sparse_state *s = job->state;
    char path[4096];
    es_model_config config;
    if (p->causal || p->positions)
        return es_refuse(err, "sparse.options", "leave it out",
                         "--causal and --positions are for arrays: a model has its own");
    if (!p->pool.texts.count)
        return es_refuse(err, "sparse.options", "--text FILE", "missing --text: --model needs one");
    ES_TRY(es_model_locate(p->pool.model, path, sizeof path, err));
    ES_TRY(es_model_config_load(path, &config, err));
    s->causal = config.causal;
    s->n = s->m = p->context             ? p->context
                  : s->question->context ? s->question->context
                                         : usual_context(s->question, &config);
    s->contexts = p->contexts;
    s->hidden = config.hidden;
    s->d = s->dv = config.head_dim;
    if (s->question->work && !p->plan)
        ES_TRY(choose_sizes(job, &config, err));
    ES_TRY(check_context(job, &config, err));
    if (s->source == &sparse_blocks)
        ES_TRY(s->question->plan(job, err)); /* the prompt of contexts of this length */
    p->pool.tokens = s->n * s->contexts;
    p->pool.streams = s->source == &sparse_blocks;
    if (has_places(&config))
        p->pool.block = s->n;
    else if (s->n > config.positions)
        p->pool.from = ES_BLOCKS_START; /* contexts are consecutive blocks */
    ES_TRY(open_pools(job, err));
    s->layers = s->pools.config->layers;
    s->heads = s->pools.config->heads;
    /* early queries of a decoder see fewer keys than policies keep: ask late ones */
    s->first = s->source == &sparse_blocks ? s->cache.prompt : es_late_begin(s->pools.config, s->m);
    s->scale = 1.0 / config.score_divisor;
    s->cap = config.score_cap;
    if (s->n > config.positions)
        es_log(ES_LOG_WARN,
               "a context of %lld tokens is several blocks of %lld, in which the model's positions "
               "repeat",
               (long long)s->n, (long long)config.positions);
    return ES_OK;
}

/* Reads the text through the model and stores the layers that are used. */
static es_status build_pools(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    return es_pools_build(job, &s->pools, err);
}

/* Projects the hidden states of a context to the head's queries, keys and values; in a model with
 * rotary embeddings these depend on the tokens' positions. */
static es_status project_head(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                              es_sparse_head *out, es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t H = s->hidden, layer = s->places[place].layer;
    es_view *const to[3] = {&out->queries, &out->keys, &out->values};
    double *qkv[3], *sink;
    float *hidden;
    if (s->pools.config->sinks) {
        ES_TRY(ES_ARENA_NEW(arena, sink, 1, "a sink", err));
        *sink = es_model_sink(s->pools.model, layer, s->places[place].head);
        out->sink = sink;
    }
    /* --preset paper has contexts that no window cuts */
    out->window = s->question->refuses_causal ? 0 : s->places[place].window;
    for (int i = 0; i < 3; i++) {
        ES_TRY(ES_ARENA_NEW_2D(arena, qkv[i], s->n, s->d, "queries, keys and values", err));
        *to[i] = es_view_f64(qkv[i], s->n, s->d);
    }
    ES_TRY(ES_ARENA_NEW_2D(arena, hidden, s->n, H, "hidden states", err));
    ES_TRY(es_pool_rows(s->pools.domains[0].pool, layer, context * s->n, s->n, hidden, err));
    const es_view x = es_view_f32(hidden, s->n, H);
    return es_model_head_rows(s->pools.model, layer, s->places[place].head, &x, arena->budget,
                              qkv[0], qkv[1], qkv[2], err);
}

/* Cuts the text into the blocks that a pool would be made of. */
static es_status read_blocks(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    ES_TRY(es_pools_blocks(&s->pools, 0, job->exec.budget, &s->text, err));
    for (int64_t c = 0; c < s->contexts; c++)
        if (c >= s->text.count || s->text.start[c + 1] - s->text.start[c] != s->n)
            return es_fail_file(err, ES_E_EMPTY, s->p->pool.texts.at[0], -1, "sparse.context",
                                "give more text, or a smaller --context",
                                "the text has no %lld blocks of %lld tokens",
                                (long long)s->contexts, (long long)s->n);
    return ES_OK;
}

const sparse_source sparse_blocks = {"model", .queries = 24, .open = open_model,
                                     .begin = read_blocks};

const sparse_source sparse_model = {"model", .queries = 24, .open = open_model,
                                    .begin = build_pools, .head = project_head};
