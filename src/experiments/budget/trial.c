/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c : runs a block through the full model and through one whose heads keep some of their
 * keys, in one layer or in all, and compares the two. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/budget/budget.h"
#include "experiments/budget/inside.h"
#include "linalg/dense.h"
#include "model/logits.h"
#include "model/model.h"

/* ---- attention outputs ---- */

int64_t es_block_late(const es_token_block *block)
{
    return block->late ? block->late : es_late_begin(es_model_config_of(block->model), block->n);
}

es_status es_wo_sum_new(const es_token_block *block, es_arena *arena, es_wo_sum *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(block->model);
    *out = (es_wo_sum){.model = block->model, .n = block->n, .from = es_block_late(block)};
    const int64_t late = out->n - out->from;
    ES_TRY(es_branch_new(block->model, arena, &out->branch, err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->wo, c->hidden, c->head_dim, "Wo", err));
    return ES_ARENA_NEW_2D(arena, out->rows, late, c->hidden, "a layer's output", err);
}

double es_wo_sum_bytes(const es_model_config *c, int64_t late)
{
    return 8.0 * (double)c->hidden * (double)(c->head_dim + late);
}

void es_wo_sum_add(es_wo_sum *sum, const es_model_seen *seen)
{
    const es_model_config *c = es_model_config_of(sum->model);
    const int64_t H = c->hidden, k = c->head_dim, rows = sum->n - sum->from;
    for (int64_t r = 0; r < H; r++)
        es_view_read_row(&seen->wo, r, sum->wo + r * k);
    if (seen->head == 0) {
        memset(sum->rows, 0, (size_t)(rows * H) * sizeof(double));
        es_branch_at(&sum->branch, seen->layer);
    }
    es_blas_enter();
    es_gemm_add(ES_F64, rows, H, k, seen->output + sum->from * k, sum->wo, sum->rows);
    es_blas_leave();
    if (seen->head < c->heads - 1)
        return;
    es_branch_add_bias(&sum->branch, &seen->bo, rows, sum->rows);
    if (!sum->plain)
        es_branch_apply(&sum->branch, rows, sum->rows);
}

/* Returns the mean over rows of |x - mean x|^2. */
static double spread2_of(const double *x, int64_t rows, int64_t cols)
{
    double sum = 0.0, centre = 0.0;
    for (int64_t j = 0; j < cols; j++) {
        double mean = 0.0;
        for (int64_t i = 0; i < rows; i++)
            mean += x[i * cols + j];
        mean /= (double)rows;
        centre += mean * mean;
    }
    for (int64_t i = 0; i < rows * cols; i++)
        sum += x[i] * x[i];
    return fmax(0.0, sum / (double)rows - centre);
}

double es_wo_sum_spread2(const es_wo_sum *s)
{
    return spread2_of(s->rows, s->n - s->from, es_model_config_of(s->model)->hidden);
}

/* Returns the mean |a - b|^2. */
static double apart2_of(const es_wo_sum *a, const es_wo_sum *b)
{
    const int64_t rows = a->n - a->from, count = rows * es_model_config_of(a->model)->hidden;
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += (a->rows[i] - b->rows[i]) * (a->rows[i] - b->rows[i]);
    return sum / (double)rows;
}

/* ---- one block, twice ---- */

/* One block, run with full and with sparse attention. */
typedef struct work {
    const es_token_block *block;
    const es_model_config *c;
    const es_exec *exec;
    es_arena arena;
    int64_t from, late; /* first late position, number of late positions */
    size_t state;       /* bytes of a hidden state */
    char *full;         /* (L + 1, n, H) of the full model, in its precision */
    double *x;          /* (late, H) of a state of the full model */
    double *row;        /* (2, H) of a state of either */
    double *nll[2];     /* (n - 1) full, thin */
    char *tokens;       /* (late, vocab) logits of the full model; NULL: too many */
    double *kl, *agree; /* (late) of the next token, and whether the most likely is the same */
    double *logits[2];  /* (labels) */
    es_wo_sum sum[2];   /* attention output of the layer that is looked at, full and thin */
    const es_kept_keys *keys; /* of all layers */
    es_policy_spec *heads;    /* (L, h) of the run, in ideal mode */
    es_cache_unit *units;     /* (L, kv) likewise, of a cache */
} work;

/* Returns true for a classifier: its outputs are labels, not next tokens. */
static bool has_labels(const es_model_config *c) { return !c->causal && c->labels > 0; }

/* Returns whether distributions of next tokens are compared: if the logits of both runs are few. */
static bool compares_tokens(const es_model *model, int64_t n)
{
    const es_model_config *c = es_model_config_of(model);
    const double row = (double)c->vocab * (double)es_dtype_size(es_model_precision(model));
    return c->predicts && 2.0 * (double)n * row <= ES_TRIAL_BYTES;
}

/* Allocates what is compared of next tokens. */
static es_status new_tokens(work *w, es_error *err)
{
    const int64_t item = (int64_t)es_dtype_size(es_model_precision(w->block->model));
    if (!compares_tokens(w->block->model, w->block->n))
        return ES_OK;
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->tokens, w->late, w->c->vocab * item, "logits", err));
    ES_TRY(ES_ARENA_NEW(&w->arena, w->kl, w->late, "logits", err));
    return ES_ARENA_NEW(&w->arena, w->agree, w->late, "logits", err);
}

/* Allocates all hidden states of the full model and sets which queries are late. */
static es_status work_new(work *w, es_error *err)
{
    const es_model_config *c = w->c;
    const int64_t n = w->block->n, states = c->layers + 1;
    const size_t item = es_dtype_size(es_model_precision(w->block->model));
    w->from = es_block_late(w->block);
    w->late = n - w->from;
    w->state = (size_t)(n * c->hidden) * item;
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->full, states, (int64_t)w->state, "a block, twice", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->x, w->late, c->hidden, "a block, twice", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->row, 2, c->hidden, "a block, twice", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->heads, c->layers, c->heads, "a block, twice", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->units, c->layers, c->kv_heads, "a block, twice", err));
    for (int i = 0; i < 2; i++) {
        ES_TRY(es_wo_sum_new(w->block, &w->arena, &w->sum[i], err));
        if (c->predicts)
            ES_TRY(ES_ARENA_NEW(&w->arena, w->nll[i], n, "a block, twice", err));
        if (has_labels(c))
            ES_TRY(ES_ARENA_NEW(&w->arena, w->logits[i], c->labels, "a block, twice", err));
    }
    return new_tokens(w, err);
}

double es_plan_trial_bytes(const es_model *model, int64_t n, int64_t from, int threads)
{
    const es_model_config *c = es_model_config_of(model);
    const es_dtype precision = es_model_precision(model);
    const double H = (double)c->hidden, V = (double)c->vocab, late = (double)(n - from);
    const double item = (double)es_dtype_size(precision);
    const double tokens =
        compares_tokens(model, n) ? late * (V * item + 16.0) + 16.0 * V * threads : 0.0;
    return (double)(c->layers + 1) * (double)n * H * item + 8.0 * (late + 2.0) * H + tokens +
           2.0 * es_wo_sum_bytes(c, n - from) + es_model_sparse_bytes(c, n, 0) +
           es_model_cost_of(c, precision, n, threads, c->predicts).bytes +
           512.0 * (double)(c->layers * c->heads) + 1e6;
}

/* Returns a view of rows of `cols` numbers in the model's precision. */
static es_view view_of(const work *w, const void *data, int64_t rows, int64_t cols)
{
    const es_dtype dtype = es_model_precision(w->block->model);
    const int64_t item = (int64_t)es_dtype_size(dtype);
    return (es_view){(void *)(uintptr_t)data, dtype, rows, cols, cols * item, item};
}

/* Returns hidden state `state` of the full model. */
static const char *full_state(const work *w, int64_t state)
{
    return w->full + (size_t)state * w->state;
}

/* Returns the spread of every hidden state over late queries, the unit of errors. */
static void read_spreads(const work *w, double *spread2)
{
    const int64_t H = w->c->hidden;
    for (int64_t l = 0; l <= w->c->layers; l++) {
        const es_view state = view_of(w, full_state(w, l), w->block->n, H);
        for (int64_t i = 0; i < w->late; i++)
            es_view_read_row(&state, w->from + i, w->x + i * H);
        spread2[l] = spread2_of(w->x, w->late, w->c->hidden);
    }
}

/* ---- runs ---- */

/* Sums that a run collects. */
typedef struct listener {
    work *w;
    es_wo_sum *sum; /* attention output of `layer`; NULL: of none */
    int64_t layer;
    double *error2; /* (L + 1) of the hidden states that come by; NULL: not wanted */
} listener;

/* Adds a head of the forward pass to the sum of its layer. */
static es_status hear_head(void *context, const es_model_seen *seen, es_error *err)
{
    const listener *l = context;
    (void)err;
    if (l->sum && seen->layer == l->layer)
        es_wo_sum_add(l->sum, seen);
    return ES_OK;
}

/* Returns the mean square error of a hidden state x over late queries. */
static double error2_of(const work *w, int64_t state, const void *x)
{
    const int64_t H = w->c->hidden, n = w->block->n;
    const es_view full = view_of(w, full_state(w, state), n, H), thin = view_of(w, x, n, H);
    double sum = 0.0;
    for (int64_t i = w->from; i < n; i++) {
        es_view_read_row(&full, i, w->row);
        es_view_read_row(&thin, i, w->row + H);
        for (int64_t j = 0; j < H; j++) {
            const double apart = w->row[j] - w->row[H + j];
            sum += apart * apart;
        }
    }
    return sum / (double)w->late;
}

/* Sets the mean square error of a hidden state that comes by. */
static es_status hear_state(void *context, int64_t block, int64_t state, const void *x,
                            es_error *err)
{
    const listener *l = context;
    (void)block;
    (void)err;
    if (l->error2)
        l->error2[state] = error2_of(l->w, state, x);
    return ES_OK;
}

/* Stores late logits of the full model. */
static es_status store_logits(void *context, int64_t block, int64_t first, int64_t rows,
                              const void *logits, es_error *err)
{
    const work *w = ((const listener *)context)->w;
    const size_t row = (size_t)w->c->vocab * es_dtype_size(es_model_precision(w->block->model));
    const int64_t skip = first < w->from ? w->from - first : 0;
    (void)block;
    (void)err;
    if (skip < rows)
        memcpy(w->tokens + (size_t)(first + skip - w->from) * row,
               (const char *)logits + (size_t)skip * row, (size_t)(rows - skip) * row);
    return ES_OK;
}

/* Compares late logits with those of the full model: KL divergence of the next token, and whether
 * both have the same first choice. */
static es_status compare_logits(void *context, int64_t block, int64_t first, int64_t rows,
                                const void *logits, es_error *err)
{
    const work *w = ((const listener *)context)->w;
    const int64_t V = w->c->vocab;
    const es_view full = view_of(w, w->tokens, w->late, V), thin = view_of(w, logits, rows, V);
    double *a, *b;
    (void)block;
    if (first + rows <= w->from)
        return ES_OK;
    ES_TRY(ES_MEM_NEW_2D(w->arena.budget, a, 2, V, "logits", err));
    b = a + V;
    for (int64_t i = first < w->from ? w->from : first; i < first + rows; i++) {
        es_view_read_row(&full, i - w->from, a);
        es_view_read_row(&thin, i - first, b);
        w->kl[i - w->from] = es_logits_kl(a, b, V);
        w->agree[i - w->from] = es_logits_best(a, V) == es_logits_best(b, V);
    }
    es_mem_free(w->arena.budget, a);
    return ES_OK;
}

/* Runs the model on the block, with fewer keys if `draws` names the purpose of its random numbers.
 */
static es_status run(const work *w, es_model_block *b, uint16_t draws, es_error *err)
{
    const es_address at = {
        .seed = w->block->seed,
        .experiment = draws,
        .cell = (uint64_t)(w->block->number * es_model_sparse_cells(w->block->model))};
    const es_model_sparse sparse = {.heads = w->heads, .at = at};
    const es_cache cache = {.mode = w->keys->mode, .prompt = w->keys->prompt, .units = w->units};
    b->ids = w->block->ids;
    b->n = w->block->n;
    b->sparse = draws && w->keys->heads ? &sparse : NULL;
    b->cache = draws && !w->keys->heads ? &cache : NULL;
    return es_model_forward(w->block->model, b, 1, w->exec, err);
}

/* Asks for the model's answer; which = 0: full, 1: sparse. */
static void want_ends(const work *w, int which, es_model_block *b, es_model_visit *visit)
{
    b->nll = w->nll[which];
    b->logits = w->logits[which];
    if (w->tokens)
        visit->logits = which ? compare_logits : store_logits;
}

/* Runs the model with full attention and stores all hidden states. */
static es_status run_full(work *w, es_error *err)
{
    listener l = {.w = w};
    es_model_visit visit = {.context = &l};
    es_model_block b = {.hidden = w->full, .visit = &visit};
    want_ends(w, 0, &b, &visit);
    return run(w, &b, 0, err);
}

/* Computes the attention output of one layer alone, from the full model's state. */
static es_status run_layer(work *w, int64_t layer, int which, es_error *err)
{
    listener l = {.w = w, .sum = &w->sum[which], .layer = layer};
    const es_model_visit visit = {.head = hear_head, .context = &l};
    es_model_block b = {
        .input = full_state(w, layer), .start = layer, .states = layer + 2, .visit = &visit};
    return run(w, &b, which ? ES_BUDGET_OWN : 0, err);
}

/* ---- the model's answer ---- */

/* Returns the extra nats per token, mean over the losses of positions [from, to), counted from 1.
 */
static double extra_loss(const work *w, int64_t from, int64_t to)
{
    double sum = 0.0;
    from = from < 1 ? 1 : from;
    for (int64_t i = from; i < to; i++)
        sum += w->nll[1][i - 1] - w->nll[0][i - 1];
    return to > from ? sum / (double)(to - from) : (double)NAN;
}

/* Returns the extra loss of late tokens, the divergence of labels for a classifier, or NaN. */
static double loss_of(const work *w)
{
    if (w->nll[0]) /* of a cache: tokens that queries after the prompt predict */
        return extra_loss(w, w->from + (w->keys->heads ? 0 : 1), w->block->n);
    if (w->logits[0])
        return es_logits_kl(w->logits[0], w->logits[1], w->c->labels);
    return (double)NAN;
}

/* Returns the mean over late positions. */
static double mean_late(const work *w, const double *each)
{
    double sum = 0.0;
    for (int64_t i = 0; i < w->late; i++)
        sum += each[i] / (double)w->late;
    return sum;
}

/* Compares the ends of both runs: loss over late tokens, over all, by position, and labels. */
static void compare_ends(const work *w, double *ends)
{
    const int64_t n = w->block->n;
    for (int i = 0; i < ES_ENDS; i++)
        ends[i] = (double)NAN;
    ends[ES_END_LOSS] = loss_of(w);
    if (w->nll[0]) {
        ends[ES_END_WHOLE] = extra_loss(w, 1, n);
        for (int64_t i = 0; i < ES_BUDGET_BINS; i++)
            ends[ES_END_BINS + i] =
                extra_loss(w, n * i / ES_BUDGET_BINS, n * (i + 1) / ES_BUDGET_BINS);
    }
    if (w->tokens) {
        ends[ES_END_KL] = mean_late(w, w->kl);
        ends[ES_END_AGREE] = mean_late(w, w->agree);
    }
    if (w->logits[0]) {
        const int64_t labels = w->c->labels;
        ends[ES_END_WHOLE] = ends[ES_END_KL] = ends[ES_END_LOSS];
        ends[ES_END_AGREE] =
            es_logits_best(w->logits[0], labels) == es_logits_best(w->logits[1], labels);
    }
}

/* ---- gains ---- */

/* Lets layers from .. to - 1 keep fewer keys, and all others all of them. */
static void take_layers(work *w, int64_t from, int64_t to)
{
    const int64_t L = w->c->layers, h = w->c->heads, kv = w->c->kv_heads;
    const es_kept_keys *keys = w->keys;
    memset(w->heads, 0, (size_t)(L * h) * sizeof *w->heads);
    memset(w->units, 0, (size_t)(L * kv) * sizeof *w->units);
    if (keys->heads)
        memcpy(w->heads + from * h, keys->heads + from * h,
               (size_t)((to - from) * h) * sizeof *w->heads);
    else
        memcpy(w->units + from * kv, keys->units + from * kv,
               (size_t)((to - from) * kv) * sizeof *w->units);
}

/* Runs the model from `layer` on with only this layer sparse: the gain is what its error becomes at
 * the end. */
static es_status thin_layer(work *w, int64_t layer, es_gain *out, es_error *err)
{
    const int64_t L = w->c->layers;
    listener l = {.w = w, .sum = &w->sum[1], .layer = layer, .error2 = out->error2};
    es_model_visit visit = {.head = hear_head, .state = hear_state, .context = &l};
    es_model_block b = {.input = full_state(w, layer), .start = layer, .visit = &visit};
    take_layers(w, layer, layer + 1);
    memset(out->error2, 0, (size_t)(L + 1) * sizeof *out->error2); /* of states before the layer */
    ES_TRY(run_layer(w, layer, 0, err));
    want_ends(w, 1, &b, &visit);
    ES_TRY(run(w, &b, ES_BUDGET_GAINS, err));
    out->own2 = apart2_of(&w->sum[0], &w->sum[1]);
    out->loss = w->tokens ? mean_late(w, w->kl) : loss_of(w);
    return ES_OK;
}

es_status es_gains_block(const es_token_block *block, const es_kept_keys *keys, const es_exec *exec,
                         es_gain *out, double *spread2, es_error *err)
{
    work w = {.block = block,
              .keys = keys,
              .c = es_model_config_of(block->model),
              .exec = exec,
              .arena = {.budget = exec ? exec->budget : NULL}};
    es_status status = work_new(&w, err);
    if (status == ES_OK)
        status = run_full(&w, err);
    if (status == ES_OK)
        read_spreads(&w, spread2);
    for (int64_t l = 0; l < w.c->layers && status == ES_OK; l++)
        status = thin_layer(&w, l, &out[l], err);
    es_arena_free(&w.arena);
    return status;
}

/* ---- trials ---- */

/* Runs the block full and sparse and writes the errors of all states and ends. */
static es_status try_all(work *w, const es_plan_trial *out, es_error *err)
{
    const int64_t L = w->c->layers;
    listener listening = {.w = w, .error2 = out->error2};
    es_model_visit visit = {.state = hear_state, .context = &listening};
    es_model_block b = {.kept = out->kept, .visit = &visit};
    ES_TRY(run_full(w, err));
    read_spreads(w, out->spread2);
    take_layers(w, 0, L);
    want_ends(w, 1, &b, &visit);
    ES_TRY(run(w, &b, ES_BUDGET_TRIAL, err));
    compare_ends(w, out->ends);
    for (int which = 0; which < 2 && out->logits && w->logits[0]; which++)
        memcpy(out->logits + which * w->c->labels, w->logits[which],
               (size_t)w->c->labels * sizeof(double));
    for (int64_t l = 0; l < L && out->own2; l++) {
        ES_TRY(run_layer(w, l, 0, err));
        ES_TRY(run_layer(w, l, 1, err));
        out->out2[l] = es_wo_sum_spread2(&w->sum[0]);
        out->own2[l] = apart2_of(&w->sum[0], &w->sum[1]);
    }
    return ES_OK;
}

es_status es_plan_trial_block(const es_token_block *block, const es_kept_keys *keys,
                              const es_exec *exec, const es_plan_trial *out, es_error *err)
{
    work w = {.block = block,
              .keys = keys,
              .c = es_model_config_of(block->model),
              .exec = exec,
              .arena = {.budget = exec ? exec->budget : NULL}};
    es_status status = work_new(&w, err);
    if (status == ES_OK)
        status = try_all(&w, out, err);
    es_arena_free(&w.arena);
    return status;
}
