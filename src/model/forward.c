/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c : blocks of token ids through the model: memory, and which thread runs which unit.
 *
 * Where there are as many blocks as threads a unit of work is a block: one thread runs it from its
 * ids to its last hidden state, and threads share nothing but the weights. Fewer blocks that are
 * long are run one after the other, and threads share a block's strips and heads. So are blocks of
 * a streamed model, several short ones layer by layer, so that a layer is decoded once for all of
 * them. What a block's layers do is in forward_layer.c; forward_check.c refuses impossible blocks.
 */
#include <esscher/model.h>

#include <math.h>
#include <string.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/dense.h"
#include "model/forward_cache.h"
#include "model/forward_inside.h"
#include "model/model.h"

/* ---- memory ---- */

/* The results that some block asks for, which decide what scratch memory holds. */
typedef struct wants {
    int64_t longest;
    bool sparse, plain, predict, cache;
    bool streamed; /* weights are */
} wants;

/* Returns how many heads' results the scratch memory holds: sparse heads of a group may be computed
 * at once. */
static int64_t places(const es_model_config *c, const wants *w)
{
    return w->sparse ? c->heads / c->kv_heads : 1;
}

/* Return the bytes of the working memory of a block and of a strip; es_model_cost_of() reports
 * the same numbers. */
static double scratch_bytes(const es_model_config *c, es_dtype precision, const wants *w)
{
    const int64_t experts = w->streamed && c->experts ? 2 * (c->hidden + c->experts_used) : 0;
    const double row = (double)(c->hidden + c->qkv_width + c->query_width +
                                (w->plain ? c->query_width + c->kv_width : 0) + experts);
    const double wide = (double)(places(c, w) * (c->head_dim + 4) + c->rotary.width +
                                 c->rotary_local.width + (c->rotary.query_beta != 0.0 ? 1 : 0));
    return (double)w->longest * (row * (double)es_dtype_size(precision) + wide * sizeof(double)) +
           (double)((c->hidden + c->labels) * (int64_t)es_dtype_size(precision));
}

/* Returns the most numbers that a row has between `up` and `down` of a layer. */
static int64_t middle_width(const es_model_config *c)
{
    return c->up_width > c->expert_up ? c->up_width : c->expert_up;
}

static double strip_bytes(const es_arch *arch, const es_model_config *c, es_dtype precision,
                          const wants *w)
{
    const int64_t rows = w->longest < ES_STRIP ? w->longest : ES_STRIP;
    const int64_t logits = w->predict && !w->streamed ? es_predict_rows(c->vocab) * c->vocab : 0;
    const int64_t branch = arch && es_branches_apart(arch, c) ? c->hidden : 0;
    return (double)(rows * (c->hidden + middle_width(c) + branch + es_experts_numbers(c)) +
                    logits) *
           (double)es_dtype_size(precision);
}

/* One piece of memory per thread, taken before any work: a run that does not fit fails at once. The
 * f64 part comes first, where the memory is aligned for it. */
static es_status scratch_new(const es_model *m, const wants *w, es_mem_limit *budget,
                             es_block_scratch *scratch, es_error *err)
{
    const es_model_config *c = &m->config;
    const int64_t n = w->longest, item = (int64_t)es_dtype_size(m->precision);
    const int64_t half[] = {c->rotary.width / 2, c->rotary_local.width / 2};
    const int64_t rows = places(c, w) * n;
    ES_TRY(ES_MEM_BYTES(budget, scratch->memory, (size_t)scratch_bytes(c, m->precision, w),
                        "a block of hidden states", err));
    scratch->head = scratch->memory;
    scratch->lse = scratch->head + rows * c->head_dim;
    scratch->entropy = scratch->lse + rows;
    scratch->top_weight = scratch->entropy + rows;
    scratch->sum_squares = scratch->top_weight + rows;
    double *angles = scratch->sum_squares + rows;
    for (int i = 0; i < 2; i++, angles += 2 * n * half[i - 1]) {
        scratch->cosines[i] = angles;
        scratch->sines[i] = angles + n * half[i];
    }
    scratch->query_factor = c->rotary.query_beta != 0.0 ? angles : NULL;
    scratch->x = (char *)(angles + (scratch->query_factor ? n : 0));
    scratch->qkv = scratch->x + n * c->hidden * item;
    scratch->heads = scratch->qkv + n * c->qkv_width * item;
    scratch->pooled = scratch->heads + n * c->query_width * item;
    scratch->plain = w->plain ? scratch->pooled + (c->hidden + c->labels) * item : NULL;
    if (w->streamed && c->experts) {
        scratch->normed = scratch->pooled + (c->hidden + c->labels) * item +
                          (w->plain ? n * (c->query_width + c->kv_width) * item : 0);
        scratch->branch = scratch->normed + n * c->hidden * item;
        scratch->share = scratch->branch + n * c->hidden * item;
        scratch->chosen = (int32_t *)(void *)(scratch->share + n * c->experts_used * item);
    }
    if (w->cache)
        ES_TRY(es_cache_scratch_new(c, n, budget, &scratch->cache, err));
    return w->sparse ? es_sparse_scratch_new(n, c->head_dim, c->heads / c->kv_heads, budget,
                                             &scratch->sparse, err)
                     : ES_OK;
}

/* Points the arrays of one thread's strip into its memory: normed rows, the inner layer (twice
 * as wide if gated) and logits. */
static void place_strip(const es_model *m, const wants *w, char *memory, es_strip_scratch *strip)
{
    const es_model_config *c = &m->config;
    const int64_t item = (int64_t)es_dtype_size(m->precision);
    const int64_t rows = w->longest < ES_STRIP ? w->longest : ES_STRIP;
    strip->normed = memory;
    strip->middle = strip->normed + rows * c->hidden * item;
    strip->branch = strip->middle + rows * middle_width(c) * item;
    char *rest = strip->branch + (es_branches_apart(m->arch, c) ? rows * c->hidden * item : 0);
    es_experts_place(m, rows, rest, &strip->experts);
    strip->logits = rest + rows * es_experts_numbers(c) * item;
}

/* Returns the numbers of what follows attention in a layer, biases included. */
static double rest_weights(const es_model_config *c, bool gated, int64_t layer)
{
    const double H = (double)c->hidden, I = (double)c->intermediate, E = (double)c->experts;
    const double F = (double)c->expert_width, matrices = gated ? 3.0 : 2.0;
    if (!es_model_layer(c, layer)->experts)
        return matrices * H * I + 2.0 * I;
    return E * (H + 1.0 + matrices * H * F + 2.0 * F + H) + (double)c->heads;
}

/* Returns the numbers that a streamed model holds of the same: biases and logits of sinks. */
static double held_rest(const es_model_config *c, int64_t layer)
{
    if (!es_model_layer(c, layer)->experts)
        return 2.0 * (double)c->intermediate;
    return (double)(c->heads + c->experts +
                    (c->mlp_bias ? c->experts * (c->expert_up + c->hidden) : 0));
}

/* Returns the multiply-adds of what follows attention in a layer, for one token: those of the
 * router and of the experts that it uses. */
static double rest_products(const es_model_config *c, bool gated, int64_t layer)
{
    const double H = (double)c->hidden, matrices = gated ? 3.0 : 2.0;
    if (!es_model_layer(c, layer)->experts)
        return matrices * H * (double)c->intermediate;
    return H * (double)c->experts +
           (double)c->experts_used * matrices * H * (double)c->expert_width;
}

/* Returns the numbers of weights that a model holds, with every bias and norm that a layer may
 * have.
 */
static double weights_of(const es_model_config *c, bool gated, bool streamed)
{
    const double H = (double)c->hidden, Q = (double)c->qkv_width;
    const double words = (double)c->vocab * (c->causal && !c->tied ? 2.0 : 1.0);
    const double places = c->rotary.width ? 0.0 : (double)c->position_rows;
    const double rows = (streamed ? 0.0 : words) + places + (double)c->types + H + 16.0;
    const double matrices = (Q + (double)c->query_width) * H;
    double layers = streamed ? (double)c->experts * fmax((double)c->expert_up, H) : 0.0; /* zeros */
    for (int64_t l = 0; l < c->layers; l++)
        layers +=
            16.0 * H + Q + (streamed ? held_rest(c, l) : matrices + rest_weights(c, gated, l));
    return rows * H + layers;
}

/* Weights are resident up to this many bytes. Decoding costs 15 % of a forward pass of a 26 M model
 * over 512 tokens, 8 % of a 1.1 B model and 3 % over 2048 tokens (docs/MODELS.md); below 1 GiB it
 * would save memory that machines have. */
#define RESIDENT_MOST 0x1p30

es_weights_mode es_model_weights_mode(const es_model_config *c, es_dtype precision)
{
    const es_arch *arch = es_arch_find(c->model_type, "");
    const double numbers = weights_of(c, arch && arch->gated, false);
    if (c->weights != ES_WEIGHTS_AUTO)
        return c->weights;
    return numbers * (double)es_dtype_size(precision) > RESIDENT_MOST ? ES_WEIGHTS_STREAMED
                                                                      : ES_WEIGHTS_RESIDENT;
}

/* Returns whether threads share the strips and heads of a block: where blocks are fewer than
 * threads and long, and, in a streamed model, where every thread has a strip. */
static bool is_shared(const wants *w, int64_t count, int threads)
{
    return (w->longest > ES_STRIP && count < threads) ||
           (w->streamed && w->longest > ES_STRIP * (int64_t)(threads - 1));
}

bool es_model_shares_block(const es_model_config *c, int64_t n)
{
    return c->weights == ES_WEIGHTS_STREAMED && n > ES_STRIP;
}

/* Returns how many blocks have memory at the same time: one for each thread unless threads share
 * it. A streamed model has more of short blocks, for which it decodes a layer once; sparse heads
 * take memory of their own, so that such blocks run a few at a time. */
static int64_t blocks_together(const wants *w, int64_t count, int threads)
{
    const int64_t fit =
        w->streamed && !w->sparse && w->longest > 0 ? ES_STREAMED_TOKENS / w->longest : 0;
    const int64_t least = is_shared(w, count, threads) ? 1 : threads;
    const int64_t most = fit > least ? fit : least;
    return most < count ? most : count;
}

/* Returns the memory of a call on `threads` threads: blocks, strips, and, of a streamed model, the
 * weights of a layer and logits. */
static double call_bytes(const es_arch *arch, const es_model_config *c, es_dtype precision,
                         const wants *w, int threads)
{
    const int64_t rows = es_logits_together(c->vocab, w->longest, threads);
    const double strips = threads * strip_bytes(arch, c, precision, w);
    const double blocks = w->streamed ? (double)blocks_together(w, INT64_MAX, threads) : threads;
    const double logits = w->predict ? (double)(rows * c->vocab) : 0.0;
    const double weights = es_slot_bytes(c, precision, threads);
    return blocks * scratch_bytes(c, precision, w) + strips +
           (w->streamed ? weights + logits * (double)es_dtype_size(precision) : 0.0);
}

/* Returns the most memory that attention of one layer takes. */
static double attend_bytes(const es_model_config *c, es_dtype precision, int64_t n)
{
    const es_exec one = {.threads = 1};
    double most = 0.0;
    for (int64_t i = 0; i < c->kinds; i++) {
        const es_mask mask = {.causal = c->causal, .window = c->kind[i].window};
        const es_attend_opts opts = {.precision = precision,
                                     .score_cap = c->score_cap,
                                     .mask = mask.causal || mask.window ? &mask : NULL,
                                     .exec = &one};
        es_attend_plan plan = {0};
        es_error ignored;
        es_attend_plan_for(n, n, c->head_dim, c->head_dim, &opts, false, &plan, &ignored);
        most = fmax(most, (double)plan.bytes);
    }
    return most;
}

es_model_cost es_model_cost_of(const es_model_config *c, es_dtype precision, int64_t n, int threads,
                               bool predict)
{
    const es_arch *arch = es_arch_find(c->model_type, "");
    const bool gated = arch && arch->gated;
    const bool streamed = es_model_weights_mode(c, precision) == ES_WEIGHTS_STREAMED;
    const wants w = {.longest = n, .predict = predict, .streamed = streamed};
    const double H = (double)c->hidden;
    double pairs = 0.0, layers = 0.0;
    for (int64_t l = 0; l < c->layers; l++) {
        pairs += (double)n * es_past_keys(es_past_of(c, l), n);
        layers += H * (double)(c->qkv_width + c->query_width) + rest_products(c, gated, l);
    }
    return (es_model_cost){.products =
                               2.0 * (double)n * (layers + (predict ? H * (double)c->vocab : 0.0)),
                           .attention = 4.0 * pairs * (double)c->query_width,
                           .bytes = call_bytes(arch, c, precision, &w, threads) +
                                    threads * attend_bytes(c, precision, n),
                           .weights = weights_of(c, gated, streamed)};
}

double es_model_sparse_bytes(const es_model_config *c, int64_t n, int64_t span)
{
    const double N = (double)n, k = (double)c->head_dim,
                 more = (double)(c->heads / c->kv_heads - 1);
    const double observed = fmin((double)(span > 0 ? span : ES_POLICY_SPAN), N);
    /* scores, the past and choices of the first; queries, scores and results of each other */
    return 8.0 * N * (3.0 * k + 224.0 + observed) + 8.0 * N * more * (2.0 * k + 72.0);
}

/* ---- one block ---- */

/* Fails because numbers overflow while `what` is computed. */
static es_status overflow(const char *what, es_error *err)
{
    return es_fail(err, ES_E_NONFINITE, "forward.overflow",
                   "run the model in f64; if that fails too, its weights are damaged",
                   "NaN or infinity while computing %s", what);
}

/* The state that the layers begin with: made of the ids, or given. */
static es_status begin_block(const es_forward *f, const es_block_scratch *scratch,
                             const es_model_block *b, size_t state, es_error *err)
{
    const es_model *m = f->model;
    const es_rotary *const rotary[] = {b->rotary ? &b->rotary[0] : &m->config.rotary,
                                       b->rotary ? &b->rotary[1] : &m->config.rotary_local};
    for (int i = 0; i < 2; i++)
        if (rotary[i]->width)
            es_rotary_angles(rotary[i], b->n, scratch->cosines[i], scratch->sines[i]);
    if (scratch->query_factor)
        es_rotary_query_factors(&m->config.rotary, b->n, scratch->query_factor);
    if (b->input) {
        memcpy(scratch->x, b->input, state);
        return ES_OK;
    }
    if (!m->word.w)
        ES_TRY(es_slot_words(f->slot, b->ids, b->n, scratch->x, err));
    f->rows->embed(m, b->ids, b->n, scratch->x);
    if (!m->norm0.w ||
        f->rows->norm[m->arch->norm](&m->norm0, m->config.layer_norm_eps, b->n, m->config.hidden,
                                     scratch->x, scratch->x) ||
        m->nonfinite)
        return ES_OK;
    return overflow("hidden state 0", err);
}

/* Norms the last state in place where an encoder has a norm for it: nothing else is made of the
 * state before. */
static es_status finish_state(const es_forward *f, const es_block_scratch *scratch,
                              const es_model_block *b, es_error *err)
{
    const es_model *m = f->model;
    if (m->config.causal || !m->norm_last.w ||
        f->rows->norm[m->arch->norm](&m->norm_last, m->config.layer_norm_eps, b->n,
                                     m->config.hidden, scratch->x, scratch->x) ||
        m->nonfinite)
        return ES_OK;
    return overflow("the last norm", err);
}

/* Returns the bytes of a block's hidden state. */
static size_t state_bytes(const es_forward *f, const es_model_block *b)
{
    return (size_t)(b->n * f->model->config.hidden) * es_dtype_size(f->model->precision);
}

/* Copies hidden state `state` of a block out and shows it: the next layer overwrites x. */
static es_status give_state(const es_forward *f, const es_block_scratch *scratch, int64_t block,
                            int64_t state, es_error *err)
{
    const es_model_block *b = &f->blocks[block];
    const size_t bytes = state_bytes(f, b);
    if (b->hidden)
        memcpy((char *)b->hidden + (size_t)(state - b->start) * bytes, scratch->x, bytes);
    if (!b->visit || !b->visit->state)
        return ES_OK;
    return b->visit->state(b->visit->context, block, state, scratch->x, err);
}

/* Runs a layer of a block. */
static es_status step_block(const es_forward *f, es_block_scratch *scratch, int64_t block,
                            int64_t layer, const es_layer *weights, es_error *err)
{
    ES_TRY(give_state(f, scratch, block, layer, err));
    return es_layer_run(f, scratch, block, layer, weights, err);
}

/* Makes what is wanted of the last state of block `block`. */
static es_status end_block(const es_forward *f, const es_block_scratch *scratch, int64_t block,
                           es_error *err)
{
    const es_model_block *b = &f->blocks[block];
    ES_TRY(give_state(f, scratch, block, es_layers_end(f, b), err));
    if (b->last || b->pooled || b->logits)
        ES_TRY(finish_state(f, scratch, b, err));
    if (b->last)
        memcpy(b->last, scratch->x, state_bytes(f, b));
    if (b->pooled || b->logits)
        es_block_classify(f, scratch, b);
    return es_block_wants_logits(b) ? es_block_predict(f, scratch, block, err) : ES_OK;
}

/* Runs one block of a resident model on one thread, in the scratch memory and strip of that thread.
 */
static es_status run_block(void *forward, int64_t unit, int thread, es_error *err)
{
    const es_forward *f = forward;
    const es_model_block *b = &f->blocks[unit];
    es_block_scratch *scratch = &f->scratch[thread];
    scratch->strip = f->strips + thread;
    ES_TRY(begin_block(f, scratch, b, state_bytes(f, b), err));
    for (int64_t layer = b->start; layer < es_layers_end(f, b); layer++)
        ES_TRY(step_block(f, scratch, unit, layer, &f->model->layers[layer], err));
    return end_block(f, scratch, unit, err);
}

/* A layer that blocks go through together. */
typedef struct layer_job {
    const es_forward *f;
    const es_layer *weights;
    int64_t layer;
} layer_job;

/* Runs the layer for block f->first + unit, if that has it. */
static es_status step_unit(void *job, int64_t unit, int thread, es_error *err)
{
    const layer_job *j = job;
    const es_forward *f = j->f;
    const es_model_block *b = &f->blocks[f->first + unit];
    if (j->layer < b->start || j->layer >= es_layers_end(f, b))
        return ES_OK;
    f->scratch[unit].strip = f->strips + thread;
    return step_block(f, &f->scratch[unit], f->first + unit, j->layer, j->weights, err);
}

/* Runs f->together blocks from f->first on, layer by layer. Layers that none of them has are not
 * decoded. */
static es_status run_together(const es_forward *f, es_error *err)
{
    const es_model_block *b = f->blocks + f->first;
    int64_t begin = INT64_MAX, end = 0;
    for (int64_t i = 0; i < f->together; i++) {
        begin = b[i].start < begin ? b[i].start : begin;
        end = es_layers_end(f, &b[i]) > end ? es_layers_end(f, &b[i]) : end;
        ES_TRY(begin_block(f, &f->scratch[i], &b[i], state_bytes(f, &b[i]), err));
    }
    for (int64_t layer = begin; layer < end; layer++) {
        layer_job j = {.f = f, .layer = layer};
        ES_TRY(es_slot_layer(f->slot, layer, &j.weights, err));
        ES_TRY(es_parallel_run(&f->outer, f->together, step_unit, &j, err));
        if (es_streams_experts(f->model, layer))
            ES_TRY(es_layer_experts(f, layer, j.weights, err));
        if (f->outer.threads > 1)
            ES_TRY(es_forward_progress(f, f->team.progress, (double)(layer + 1), err));
    }
    for (int64_t i = 0; i < f->together; i++) {
        f->scratch[i].strip = f->strips;
        ES_TRY(end_block(f, &f->scratch[i], f->first + i, err));
    }
    return ES_OK;
}

/* Runs all blocks, f->together at a time. */
static es_status run_all(es_forward *f, es_error *err)
{
    const int64_t most = f->together;
    for (f->first = 0; f->first < f->count; f->first += most) {
        f->together = f->count - f->first < most ? f->count - f->first : most;
        ES_TRY(run_together(f, err));
    }
    return ES_OK;
}

/* ---- all blocks ---- */

/* Collects what the blocks of a call need together: the longest length, and whether any has
 * sparse heads, a visitor or predictions. Memory is allocated once for all of them. */
static wants wants_of(const es_model *m, const es_model_block *blocks, int64_t count)
{
    wants w = {0};
    for (int64_t i = 0; i < count; i++) {
        const es_model_block *b = &blocks[i];
        w.longest = b->n > w.longest ? b->n : w.longest;
        w.sparse = w.sparse || b->sparse;
        w.plain = w.plain || (b->visit && b->visit->plain) || es_cache_plain(m, b);
        w.cache = w.cache || b->cache;
        w.predict = w.predict || es_block_wants_logits(b);
    }
    return w;
}

/* Allocates strips (threads) in one piece of memory, *memory. */
static es_status new_strips(es_forward *f, const wants *w, int threads, char **memory,
                            es_error *err)
{
    es_mem_limit *budget = f->team.budget;
    const double each = strip_bytes(f->model->arch, &f->model->config, f->model->precision, w);
    ES_TRY(ES_MEM_NEW(budget, f->strips, threads, "threads", err));
    ES_TRY(ES_MEM_NEW_2D(budget, *memory, threads, (int64_t)each, "rows of hidden states", err));
    for (int t = 0; t < threads; t++)
        place_strip(f->model, w, *memory + t * (int64_t)each, f->strips + t);
    return ES_OK;
}

/* Allocates the slot and the logits of a streamed model. */
static es_status new_streamed(es_forward *f, const wants *w, es_error *err)
{
    const int64_t V = f->model->config.vocab;
    ES_TRY(es_slot_new(f->model, &f->team, f->slot, err));
    if (!w->streamed || !w->predict)
        return ES_OK;
    return es_mem_array(f->team.budget, es_logits_together(V, w->longest, f->team.threads), V,
                        es_dtype_size(f->model->precision), "logits", &f->logits, err);
}

/* Allocates memory for f->together blocks and `threads` strips, and runs all blocks: layer by layer
 * together, or each by a thread of its own. */
static es_status run_threads(es_forward *f, const wants *w, int threads, bool apart, es_error *err)
{
    es_mem_limit *budget = f->team.budget;
    const int64_t blocks = f->together;
    char *memory = NULL;
    ES_TRY(ES_MEM_NEW(budget, f->scratch, blocks, "blocks", err));
    es_status status = new_strips(f, w, threads, &memory, err);
    if (status == ES_OK)
        status = new_streamed(f, w, err);
    for (int64_t i = 0; i < blocks && status == ES_OK; i++)
        status = scratch_new(f->model, w, budget, &f->scratch[i], err);
    if (status == ES_OK) {
        es_blas_enter();
        status = apart ? es_parallel_run(&f->team, f->count, run_block, f, err) : run_all(f, err);
        es_blas_leave();
    }
    for (int64_t i = 0; i < blocks; i++) {
        es_sparse_scratch_free(&f->scratch[i].sparse);
        es_cache_scratch_free(&f->scratch[i].cache);
        es_mem_free(budget, f->scratch[i].memory);
    }
    es_slot_free(f->slot);
    es_mem_free(budget, f->logits);
    es_mem_free(budget, memory);
    es_mem_free(budget, f->strips);
    es_mem_free(budget, f->scratch);
    return status;
}

/* Each thread calls BLAS for itself on one thread, whether it has a block or a strip: so nothing
 * depends on how many threads there are. */
es_status es_model_forward(const es_model *model, const es_model_block *blocks, int64_t count,
                           const es_exec *exec, es_error *err)
{
    static const es_exec defaults = {0};
    const bool narrow = model->precision == ES_F32;
    for (int64_t i = 0; i < count; i++)
        ES_TRY(es_block_check(model, &blocks[i], i, err));
    wants w = wants_of(model, blocks, count);
    w.streamed = model->config.weights == ES_WEIGHTS_STREAMED;
    es_exec team = exec ? *exec : defaults;
    team.threads = es_parallel_threads(&team, INT64_MAX);
    const bool shared = is_shared(&w, count, team.threads);
    const int threads = shared || w.streamed ? team.threads : es_parallel_threads(&team, count);
    ES_TRY(es_blas_scratch_for(threads, err));
    es_forward f = {
        .model = model,
        .blocks = blocks,
        .count = count,
        .rows = narrow ? &es_row_kernels_f32 : &es_row_kernels_f64,
        .activate = narrow ? model->activation->f32 : model->activation->f64,
        .shared = shared,
        .team = team,
        .inner = {.threads = shared ? threads : 1, .isa = team.isa, .budget = team.budget},
        .outer = {.threads = shared ? 1 : threads},
        .together = blocks_together(&w, count, team.threads),
        .slot = &(es_layer_slot){0}};
    if (model->pooled)
        f.activate_pooled = narrow ? model->pooled->f32 : model->pooled->f64;
    es_gelu_prepare(&f.gelu);
    return run_threads(&f, &w, threads, !shared && !w.streamed, err);
}
