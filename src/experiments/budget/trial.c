/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c : runs a block through the full model and through the sparse one, whose heads keep some
 * of their keys in one layer or in all, and compares the two. */
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

es_status es_wo_sum_new(const es_model *model, int64_t n, es_arena *arena, es_wo_sum *out,
                        es_error *err)
{
    const es_model_config *c = es_model_config_of(model);
    *out = (es_wo_sum){.model = model, .n = n, .from = es_late_begin(c, n)};
    ES_TRY(es_branch_new(model, arena, &out->branch, err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->wo, c->hidden, c->head_dim, "Wo", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, out->rows, n - out->from, c->hidden, "a layer's output", err));
    return ES_OK;
}

double es_wo_sum_bytes(const es_model_config *c, int64_t n)
{
    return 8.0 * (double)c->hidden * ((double)c->head_dim + (double)(n - es_late_begin(c, n)));
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

/* Returns the mean over rows of |a - b|^2. */
static double apart2_of(const double *a, const double *b, int64_t rows, int64_t cols)
{
    double sum = 0.0;
    for (int64_t i = 0; i < rows * cols; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum / (double)rows;
}

double es_wo_sum_spread2(const es_wo_sum *s)
{
    return spread2_of(s->rows, s->n - s->from, es_model_config_of(s->model)->hidden);
}

double es_wo_sum_apart2(const es_wo_sum *a, const es_wo_sum *b)
{
    return apart2_of(a->rows, b->rows, a->n - a->from, es_model_config_of(a->model)->hidden);
}

/* ---- one block, twice ---- */

/* One block, run with full and with sparse attention. */
typedef struct work {
    const es_token_block *block;
    const es_model_config *c;
    const es_exec *exec;
    es_arena arena;
    int64_t from, late;    /* first late position, number of late positions */
    size_t state;          /* bytes of a hidden state */
    char *full, *thin;     /* (L + 1, n, H) in the model's precision */
    double *x, *y;         /* (late, H) of either */
    double *nll[2];        /* (n - 1) full, thin */
    char *tokens[2];       /* (n, vocab); NULL: too many, or not wanted */
    double *logits[2];     /* (labels) */
    double *row[2];        /* (vocab) */
    es_wo_sum sum[2];      /* attention output of the layer that is looked at, full and thin */
    es_policy_spec *heads; /* (L, h) of the run */
} work;

/* Returns true for a classifier: its outputs are labels, not next tokens. */
static bool has_labels(const es_model_config *c) { return !c->causal && c->labels > 0; }

/* Returns the bytes of both logits of a block, which decide whether they are kept. */
static double token_bytes(const es_model *model, int64_t n)
{
    const es_model_config *c = es_model_config_of(model);
    return 2.0 * (double)n * (double)c->vocab * (double)es_dtype_size(es_model_precision(model));
}

/* Allocates all hidden states of a block twice, full and sparse, and sets which queries are
 * late. */
static es_status work_new(work *w, es_error *err)
{
    const es_model_config *c = w->c;
    const int64_t n = w->block->n, states = c->layers + 1;
    const size_t item = es_dtype_size(es_model_precision(w->block->model));
    w->from = es_late_begin(c, n);
    w->late = n - w->from;
    w->state = (size_t)(n * c->hidden) * item;
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->full, states, (int64_t)w->state, "a block, twice", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->thin, states, (int64_t)w->state, "a block, twice", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->x, w->late, c->hidden, "a block, twice", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->y, w->late, c->hidden, "a block, twice", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->heads, c->layers, c->heads, "a block, twice", err));
    for (int i = 0; i < 2; i++) {
        ES_TRY(es_wo_sum_new(w->block->model, n, &w->arena, &w->sum[i], err));
        if (c->predicts)
            ES_TRY(ES_ARENA_NEW(&w->arena, w->nll[i], n, "a block, twice", err));
        if (has_labels(c))
            ES_TRY(ES_ARENA_NEW(&w->arena, w->logits[i], c->labels, "a block, twice", err));
        if (c->predicts && token_bytes(w->block->model, n) <= ES_TRIAL_BYTES) {
            ES_TRY(ES_ARENA_NEW_2D(&w->arena, w->tokens[i], n, c->vocab * (int64_t)item,
                                   "a block, twice", err));
            ES_TRY(ES_ARENA_NEW(&w->arena, w->row[i], c->vocab, "a block, twice", err));
        }
    }
    return ES_OK;
}

double es_plan_trial_bytes(const es_model *model, int64_t n)
{
    const es_model_config *c = es_model_config_of(model);
    const es_dtype precision = es_model_precision(model);
    const double rows = (double)n * (double)c->hidden, item = (double)es_dtype_size(precision);
    const double tokens = c->predicts && token_bytes(model, n) <= ES_TRIAL_BYTES
                              ? token_bytes(model, n) + 16.0 * (double)c->vocab
                              : 0.0;
    return 2.0 * (double)(c->layers + 1) * rows * item + 16.0 * rows + tokens +
           2.0 * es_wo_sum_bytes(c, n) + es_model_sparse_bytes(c, n, 0) +
           es_model_cost_of(c, precision, n, 1, c->predicts).bytes +
           128.0 * (double)(c->layers * c->heads) + 1e6;
}

/* Copies the late rows of a hidden state as f64. */
static void read_late(const work *w, const char *states, int64_t state, double *out)
{
    const es_dtype dtype = es_model_precision(w->block->model);
    const int64_t H = w->c->hidden, item = (int64_t)es_dtype_size(dtype);
    const es_view rows = {(void *)(uintptr_t)(states + (size_t)state * w->state),
                          dtype,
                          w->block->n,
                          H,
                          H * item,
                          item};
    for (int64_t i = 0; i < w->late; i++)
        es_view_read_row(&rows, w->from + i, out + i * H);
}

/* Returns the mean square error of one hidden state over late queries. */
static double error2_of(const work *w, int64_t state)
{
    read_late(w, w->full, state, w->x);
    read_late(w, w->thin, state, w->y);
    return apart2_of(w->x, w->y, w->late, w->c->hidden);
}

/* Returns the spread of every hidden state over late queries, the unit of errors. */
static void read_spreads(const work *w, double *spread2)
{
    for (int64_t l = 0; l <= w->c->layers; l++) {
        read_late(w, w->full, l, w->x);
        spread2[l] = spread2_of(w->x, w->late, w->c->hidden);
    }
}

/* ---- runs ---- */

/* The layer whose attention output is recorded, and where it is stored. */
typedef struct listener {
    es_wo_sum *sum;
    int64_t layer;
} listener;

/* Receives heads of the forward pass and adds those of one layer. */
static es_status hear(void *context, const es_model_seen *seen, es_error *err)
{
    const listener *l = context;
    (void)err;
    if (seen->layer == l->layer)
        es_wo_sum_add(l->sum, seen);
    return ES_OK;
}

/* Runs the model on the block, sparse if `draws` names the purpose of its random numbers. */
static es_status run(const work *w, es_model_block *b, uint16_t draws, es_error *err)
{
    const es_address at = {
        .seed = w->block->seed,
        .experiment = draws,
        .cell = (uint64_t)(w->block->number * es_model_sparse_cells(w->block->model))};
    const es_model_sparse sparse = {.heads = w->heads, .at = at};
    b->ids = w->block->ids;
    b->n = w->block->n;
    b->sparse = draws ? &sparse : NULL;
    return es_model_forward(w->block->model, b, 1, w->exec, err);
}

/* Runs the whole model; which = 0: full, 1: sparse. */
static void want_ends(const work *w, int which, es_model_block *b)
{
    b->nll = w->nll[which];
    b->logits = w->logits[which];
    b->token_logits = w->tokens[which];
}

/* Runs the model with full attention and stores all hidden states. */
static es_status run_full(const work *w, es_error *err)
{
    es_model_block b = {.hidden = w->full};
    want_ends(w, 0, &b);
    return run(w, &b, 0, err);
}

/* Computes the attention output of one layer alone, from the full model's state. */
static es_status run_layer(work *w, int64_t layer, int which, es_error *err)
{
    listener l = {&w->sum[which], layer};
    const es_model_visit visit = {.head = hear, .context = &l};
    es_model_block b = {.input = w->full + (size_t)layer * w->state,
                        .start = layer,
                        .states = layer + 2,
                        .visit = &visit};
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
    if (w->nll[0])
        return extra_loss(w, w->from, w->block->n);
    if (w->logits[0])
        return es_logits_kl(w->logits[0], w->logits[1], w->c->labels);
    return (double)NAN;
}

/* Returns mean KL divergence of the next token and the share of tokens with the same first
 * choice. */
static void compare_tokens(const work *w, double *kl, double *agree)
{
    const es_dtype dtype = es_model_precision(w->block->model);
    const int64_t V = w->c->vocab, item = (int64_t)es_dtype_size(dtype);
    *kl = *agree = 0.0;
    for (int64_t i = w->from; i < w->block->n; i++) {
        for (int which = 0; which < 2; which++) {
            const es_view rows = {w->tokens[which], dtype, w->block->n, V, V * item, item};
            es_view_read_row(&rows, i, w->row[which]);
        }
        *kl += es_logits_kl(w->row[0], w->row[1], V) / (double)w->late;
        *agree += (es_logits_best(w->row[0], V) == es_logits_best(w->row[1], V)) / (double)w->late;
    }
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
    if (w->tokens[0])
        compare_tokens(w, &ends[ES_END_KL], &ends[ES_END_AGREE]);
    if (w->logits[0]) {
        const int64_t labels = w->c->labels;
        ends[ES_END_WHOLE] = ends[ES_END_KL] = ends[ES_END_LOSS];
        ends[ES_END_AGREE] =
            es_logits_best(w->logits[0], labels) == es_logits_best(w->logits[1], labels);
    }
}

/* ---- gains ---- */

/* Runs the model from `layer` on with only this layer sparse: the gain is what its error becomes at
 * the end. */
static es_status thin_layer(work *w, const es_policy_spec *heads, int64_t layer, es_gain *out,
                            es_error *err)
{
    const int64_t h = w->c->heads, L = w->c->layers;
    listener l = {&w->sum[1], layer};
    double agree;
    const es_model_visit visit = {.head = hear, .context = &l};
    es_model_block b = {.input = w->full + (size_t)layer * w->state,
                        .start = layer,
                        .hidden = w->thin + (size_t)layer * w->state,
                        .visit = &visit};
    memset(w->heads, 0, (size_t)(L * h) * sizeof *w->heads);
    memcpy(w->heads + layer * h, heads + layer * h, (size_t)h * sizeof *heads);
    ES_TRY(run_layer(w, layer, 0, err));
    want_ends(w, 1, &b);
    ES_TRY(run(w, &b, ES_BUDGET_GAINS, err));
    out->own2 = es_wo_sum_apart2(&w->sum[0], &w->sum[1]);
    out->loss = loss_of(w);
    if (w->tokens[0])
        compare_tokens(w, &out->loss, &agree);
    for (int64_t s = 0; s <= L; s++)
        out->error2[s] = s <= layer ? 0.0 : error2_of(w, s);
    return ES_OK;
}

es_status es_gains_block(const es_token_block *block, const es_policy_spec *heads,
                         const es_exec *exec, es_gain *out, double *spread2, es_error *err)
{
    work w = {.block = block,
              .c = es_model_config_of(block->model),
              .exec = exec,
              .arena = {.budget = exec ? exec->budget : NULL}};
    es_status status = work_new(&w, err);
    if (status == ES_OK)
        status = run_full(&w, err);
    if (status == ES_OK)
        read_spreads(&w, spread2);
    for (int64_t l = 0; l < w.c->layers && status == ES_OK; l++)
        status = thin_layer(&w, heads, l, &out[l], err);
    es_arena_free(&w.arena);
    return status;
}

/* ---- trials ---- */

/* Runs the block full and sparse and writes the errors of all states and ends. */
static es_status try_all(work *w, const es_policy_spec *heads, const es_plan_trial *out,
                         es_error *err)
{
    const int64_t L = w->c->layers;
    es_model_block b = {.hidden = w->thin, .kept = out->kept};
    ES_TRY(run_full(w, err));
    read_spreads(w, out->spread2);
    memcpy(w->heads, heads, (size_t)(L * w->c->heads) * sizeof *heads);
    want_ends(w, 1, &b);
    ES_TRY(run(w, &b, ES_BUDGET_TRIAL, err));
    for (int64_t s = 0; s <= L; s++)
        out->error2[s] = error2_of(w, s);
    compare_ends(w, out->ends);
    for (int which = 0; which < 2 && out->logits && w->logits[0]; which++)
        memcpy(out->logits + which * w->c->labels, w->logits[which],
               (size_t)w->c->labels * sizeof(double));
    for (int64_t l = 0; l < L && out->own2; l++) {
        ES_TRY(run_layer(w, l, 0, err));
        ES_TRY(run_layer(w, l, 1, err));
        out->out2[l] = es_wo_sum_spread2(&w->sum[0]);
        out->own2[l] = es_wo_sum_apart2(&w->sum[0], &w->sum[1]);
    }
    return ES_OK;
}

es_status es_plan_trial_block(const es_token_block *block, const es_policy_spec *heads,
                              const es_exec *exec, const es_plan_trial *out, es_error *err)
{
    work w = {.block = block,
              .c = es_model_config_of(block->model),
              .exec = exec,
              .arena = {.budget = exec ? exec->budget : NULL}};
    es_status status = work_new(&w, err);
    if (status == ES_OK)
        status = try_all(&w, heads, out, err);
    es_arena_free(&w.arena);
    return status;
}
