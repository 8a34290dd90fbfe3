/* SPDX-License-Identifier: Apache-2.0 */
/* full.c : the full model's pass over a block, made once for all settings of the block.
 *
 * Cells of a block follow each other, so threads that compute cells side by side are at one block
 * or at neighbouring ones, and as many passes as there are threads are enough. A cell needs the
 * pass only after its own one, unless its policy looks ahead: threads rarely wait for each other.
 */
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/kit/cell_kit.h"
#include "experiments/loss/loss.h"
#include "model/model.h"

/* ---- one pass ---- */

/* Allocates what a pass leaves. */
static es_status full_new(const es_loss_block *b, int64_t from, int64_t prompt, es_loss_full *full,
                          es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    const int64_t item = (int64_t)es_dtype_size(es_model_precision(b->model)), late = b->n - from;
    es_arena *arena = &full->arena;
    ES_TRY(ES_ARENA_NEW_2D(arena, full->state, b->n, c->hidden * item, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(arena, full->nll, b->n, "losses", err));
    ES_TRY(ES_ARENA_NEW(arena, full->entropy, c->layers, "entropies", err));
    if (prompt)
        ES_TRY(ES_ARENA_NEW_2D(arena, full->late, c->layers * c->kv_heads, prompt,
                               "weights of late queries", err));
    if (es_divergence_rows(c, late) == late)
        ES_TRY(ES_ARENA_NEW_2D(arena, full->logits, late, c->vocab * item, "logits", err));
    return ES_OK;
}

/* Runs the full model over a block. */
static es_status full_run(const es_loss_block *b, int64_t from, int64_t prompt, const es_exec *exec,
                          es_loss_full *full, es_error *err)
{
    static const es_loss_setting unchanged = {0};
    const es_exec quiet = es_exec_quiet(exec);
    *full = (es_loss_full){.arena = {.budget = quiet.budget}};
    ES_TRY(full_new(b, from, prompt, full, err));
    const es_loss_pass out = {.late = full->late,
                              .prompt = prompt,
                              .nll = full->nll,
                              .entropy = full->entropy,
                              .keys = &full->keys,
                              .last = full->state};
    ES_TRY(es_loss_run_pass(b, &unchanged, exec, &out, err));
    return full->logits ? es_divergence_logits(b->model, b->rotary, full->state, from, b->n - from,
                                               &quiet, full->logits, err)
                        : ES_OK;
}

/* ---- passes of several blocks ---- */

/* Memory for a pass. */
typedef struct slot {
    es_loss_full full;
    int64_t block;    /* its number */
    int64_t users;    /* cells that borrow it, or the one that makes it */
    bool used, ready; /* it has a block; the pass over it is there */
} slot;

struct loss_fulls {
    pthread_mutex_t lock; /* protects everything below but passes that are ready or being made */
    pthread_cond_t changed;
    int64_t from;   /* the first place that is compared */
    int64_t prompt; /* of policies that need the weights of late queries; 0: none does */
    int64_t most;
    slot *slots; /* (most) */
};

/* Returns whether a policy of the setting needs weights of the full model. */
static bool looks_ahead(const es_loss_setting *setting)
{
    return setting->cache && es_eviction_full(setting->cache->unit.evict.policy);
}

es_status loss_fulls_new(es_job *job, int64_t most, es_error *err)
{
    loss_state *state = job->state;
    loss_fulls *fulls;
    ES_TRY(ES_JOB_NEW(job, fulls, 1, err));
    ES_TRY(ES_JOB_NEW(job, fulls->slots, most, err));
    pthread_mutex_init(&fulls->lock, NULL);
    pthread_cond_init(&fulls->changed, NULL);
    fulls->from = state->from;
    for (int64_t i = 0; i < state->count; i++)
        if (looks_ahead(&state->settings[i].lab))
            fulls->prompt = state->settings[i].lab.cache->prompt;
    fulls->most = most;
    state->fulls = fulls;
    return ES_OK;
}

void loss_fulls_free(loss_fulls *fulls)
{
    if (!fulls)
        return;
    for (int64_t i = 0; i < fulls->most; i++)
        es_arena_free(&fulls->slots[i].full.arena);
    pthread_cond_destroy(&fulls->changed);
    pthread_mutex_destroy(&fulls->lock);
}

/* Returns the slot of a block; NULL if it has none. */
static slot *find_slot(loss_fulls *fulls, int64_t block)
{
    for (slot *s = fulls->slots; s < fulls->slots + fulls->most; s++)
        if (s->used && s->block == block)
            return s;
    return NULL;
}

/* Returns a slot that is empty or, of those that no cell borrows, that of the earliest block, whose
 * cells are probably finished; NULL if there is none. */
static slot *free_slot(loss_fulls *fulls)
{
    slot *found = NULL;
    for (slot *s = fulls->slots; s < fulls->slots + fulls->most; s++) {
        if (!s->used)
            return s;
        if (!s->users && (!found || s->block < found->block))
            found = s;
    }
    return found;
}

/* Makes the pass over a block in a slot, without the lock. A failure leaves the slot empty: other
 * cells that wait for it try by themselves. */
static es_status fill_slot(loss_fulls *fulls, slot *s, const es_loss_block *b, const es_exec *exec,
                           es_error *err)
{
    s->used = true;
    s->ready = false;
    s->block = b->number;
    s->users = 1;
    pthread_mutex_unlock(&fulls->lock);
    es_arena_free(&s->full.arena);
    const es_status status = full_run(b, fulls->from, fulls->prompt, exec, &s->full, err);
    pthread_mutex_lock(&fulls->lock);
    s->used = s->ready = status == ES_OK;
    s->users = s->ready ? 1 : 0;
    pthread_cond_broadcast(&fulls->changed);
    return status;
}

es_status loss_full_borrow(loss_fulls *fulls, const es_loss_block *b, const es_exec *exec,
                           const es_loss_full **out, es_error *err)
{
    es_status status = ES_OK;
    pthread_mutex_lock(&fulls->lock);
    slot *s = find_slot(fulls, b->number);
    while (s ? !s->ready : !(s = free_slot(fulls))) {
        pthread_cond_wait(&fulls->changed, &fulls->lock);
        s = find_slot(fulls, b->number);
    }
    if (s->used && s->block == b->number)
        s->users++;
    else
        status = fill_slot(fulls, s, b, exec, err);
    pthread_mutex_unlock(&fulls->lock);
    *out = status == ES_OK ? &s->full : NULL;
    return status;
}

void loss_full_return(loss_fulls *fulls, const es_loss_full *full)
{
    pthread_mutex_lock(&fulls->lock);
    for (slot *s = fulls->slots; s < fulls->slots + fulls->most; s++)
        if (&s->full == full)
            s->users--;
    pthread_cond_broadcast(&fulls->changed);
    pthread_mutex_unlock(&fulls->lock);
}

/* ---- a setting beside it ---- */

es_status loss_copy_full(const loss_state *s, const es_loss_block *b, const es_exec *exec,
                         const loss_cell *out, es_error *err)
{
    const es_loss_full *full;
    ES_TRY(loss_full_borrow(s->fulls, b, exec, &full, err));
    memcpy(out->nll, full->nll, (size_t)(b->n - 1) * sizeof *out->nll);
    memcpy(out->entropy, full->entropy, (size_t)s->config->layers * sizeof *out->entropy);
    *out->keys = full->keys;
    loss_full_return(s->fulls, full);
    for (int64_t i = 0; i < b->n - s->from; i++)
        out->agree[i] = 1.0;
    return ES_OK;
}

/* A setting under way. */
typedef struct beside {
    const loss_state *s;
    const es_loss_block *block;
    const es_loss_setting *setting;
    const es_model *model; /* of the setting */
    const es_exec *exec;
    const loss_cell *out;
    es_arena arena;
    char *state; /* (n, hidden) its last hidden state */
} beside;

/* Runs the setting to its last hidden state; `full` is NULL where no policy needs it. Entropies of
 * a model with another number of layers have no place in a cell. */
static es_status run_setting(beside *x, const es_loss_full *full, es_error *err)
{
    const es_model_config *c = es_model_config_of(x->model);
    const int64_t item = (int64_t)es_dtype_size(es_model_precision(x->model)), n = x->block->n;
    double *entropy;
    ES_TRY(ES_ARENA_NEW_2D(&x->arena, x->state, n, c->hidden * item, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(&x->arena, entropy, c->layers, "entropies", err));
    const es_loss_pass pass = {.oracle = full ? full->late : NULL,
                               .nll = x->out->nll,
                               .entropy = entropy,
                               .keys = x->out->keys,
                               .last = x->state};
    ES_TRY(es_loss_run_pass(x->block, x->setting, x->exec, &pass, err));
    if (c->layers == x->s->config->layers)
        memcpy(x->out->entropy, entropy, (size_t)c->layers * sizeof *entropy);
    return ES_OK;
}

/* Compares the last hidden state of the setting with that of the full model. */
static es_status compare(const beside *x, const es_loss_full *full, es_error *err)
{
    const es_divergence pair = {.model = {x->block->model, x->model},
                                .state = {full->state, x->state},
                                .logits = full->logits,
                                .from = x->s->from,
                                .n = x->block->n,
                                .rotary = x->block->rotary};
    return es_divergence_run(&pair, x->exec, x->out->kl, x->out->agree, err);
}

es_status loss_run_beside(const loss_state *s, const es_loss_block *b,
                          const es_loss_setting *setting, const es_exec *exec, const loss_cell *out,
                          es_error *err)
{
    const es_loss_full *full = NULL;
    beside x = {.s = s,
                .block = b,
                .setting = setting,
                .model = setting->other ? setting->other : b->model,
                .exec = exec,
                .out = out,
                .arena = {.budget = exec ? exec->budget : NULL}};
    if (looks_ahead(setting))
        ES_TRY(loss_full_borrow(s->fulls, b, exec, &full, err));
    es_status status = run_setting(&x, full, err);
    if (status == ES_OK && !full)
        status = loss_full_borrow(s->fulls, b, exec, &full, err);
    if (status == ES_OK)
        status = compare(&x, full, err);
    if (full)
        loss_full_return(s->fulls, full);
    es_arena_free(&x.arena);
    return status;
}
