/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : tables "plan", "predicted" and "layers": the plan and its predicted cost, with what
 * verification measured beside it; the plan file; and the order of all tables in the answer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"
#include "model/model.h"
#include "model/plan.h"

/* ---- plan ---- */

/* The row of the plan: keys and bytes of the cache before and after. */
typedef struct plan_row {
    const char *evict;
    int64_t context;
    double prompt, keys_kept, keys_all, ratio, bytes_before, bytes_after;
} plan_row;

static const es_column plan_columns[] = {
    ES_COL(plan_row, evict, ES_FORMAT_TEXT, "evict", "",
           "when keys are dropped: prompt, decode, ideal or none"),
    ES_COL(plan_row, context, ES_FORMAT_COUNT, "context", "tokens", "context the plan is for"),
    ES_COL(plan_row, prompt, ES_FORMAT_COUNT, "prompt", "tokens",
           "tokens of the prompt; errors are over what follows it"),
    ES_COL(plan_row, keys_kept, ES_FORMAT_COUNT, "keys kept", "keys",
           "summed over layers and key-value heads"),
    ES_COL(plan_row, keys_all, ES_FORMAT_COUNT, "of", "keys"),
    ES_COL(plan_row, ratio, ES_FORMAT_REAL, "ratio", "", "of the bytes"),
    ES_COL(plan_row, bytes_before, ES_FORMAT_COUNT, "bytes before", "bytes",
           "cache with all keys of one sequence: of the prompt, or in decode and ideal mode of the "
           "context"),
    ES_COL(plan_row, bytes_after, ES_FORMAT_COUNT, "bytes after", "bytes"),
    {0}};
static const es_table_spec plan_table = {
    "plan", plan_columns,
    ES_VIEW("The plan",
            .note = "Valid for text like --text at this context. It is not a test of retrieval; "
                    "`esscher loss --plan` measures it on other text."),
    ES_ROW(plan_row), .record = true};

/* Fills the table of the plan: keys and bytes before and after. */
static es_status put_plan(const es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    const double kept = budget_keys(s, k->plan), all = budget_all_keys(s);
    plan_row *r = es_rows_add(es_answer_table(a, &plan_table), plan_row);
    if (!r)
        return es_answer_status(a, err);
    *r = (plan_row){.context = s->n,
                    .keys_kept = kept,
                    .keys_all = all,
                    .bytes_before = all * s->full.bytes,
                    .bytes_after = budget_bytes(s, k->plan)};
    r->ratio = r->bytes_after / r->bytes_before;
    r->evict = budget_modes[s->mode];
    if (s->mode != BUDGET_IDEAL)
        r->prompt = (double)s->prompt;
    es_answer_text(a, "model", es_model_folder(s->model));
    es_answer_count(a, "keys_kept", (int64_t)kept);
    es_answer_count(a, "bytes_before", (int64_t)r->bytes_before);
    es_answer_count(a, "bytes_after", (int64_t)r->bytes_after);
    return ES_OK;
}

/* ---- predicted ---- */

/* The row of predictions: worst layer, last hidden state, divergence and loss. */
typedef struct predicted_row {
    es_measured error, state, kl, loss, loss_coherence;
} predicted_row;

static const es_column predicted_columns[] = {
    ES_COL(predicted_row, error, ES_FORMAT_REAL, "attention error", "",
           "largest error of a layer's attention output, over its spread",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(predicted_row, state, ES_FORMAT_REAL, "state error", "",
           "of the last hidden state, over its spread", .standing = ES_STANDING_HEURISTIC),
    ES_COL(predicted_row, kl, ES_FORMAT_REAL, "KL", "nats",
           "of the next token's distribution from the full model's, over late positions; a "
           "classifier: of its labels",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(predicted_row, loss, ES_FORMAT_REAL, "extra loss", "nats",
           "per token over late positions; replaces KL where distributions do not fit into memory",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(predicted_row, loss_coherence, ES_FORMAT_REAL, "loss coherence", "",
           "KL or loss as rehearsed, over the sum of the layers' one at a time; the prediction "
           "includes this factor"),
    {0}};
static const es_table_spec predicted_table = {
    "predicted", predicted_columns, ES_VIEW("Predicted cost of the plan", .only_with_full = true),
    ES_ROW(predicted_row), .record = true};

/* Fills the table of predictions: the worst layer, the last state and the loss, with their
 * errors. */
static es_status put_predicted(const es_job *job, const budget_context *k, es_answer *a,
                               es_error *err)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    int64_t worst = 0;
    predicted_row *r = es_rows_add(es_answer_table(a, &predicted_table), predicted_row);
    if (!r)
        return es_answer_status(a, err);
    for (int64_t l = 1; l < L; l++)
        if (k->forecast.own[l] > k->forecast.own[worst])
            worst = l;
    r->error = (es_measured){k->forecast.own[worst], k->forecast_se.own[worst]};
    r->state = (es_measured){k->forecast.state[L], k->forecast_se.state[L]};
    if (isnan(k->forecast.loss))
        return ES_OK;
    *(budget_predicts_kl(job) ? &r->kl : &r->loss) =
        (es_measured){k->forecast.loss, k->forecast_se.loss};
    r->loss_coherence = (es_measured){k->factors.loss, k->factors_se.loss};
    return ES_OK;
}

/* ---- layers ---- */

/* A row of the table of layers: predicted and verified error of its attention and of the state
 * after it. */
typedef struct layer_row {
    int64_t layer;
    double keys, ratio;
    es_measured predicted, verified;
    double limit;
    es_measured state_predicted, state_verified, computed;
    double weight, optimism;
    es_measured rehearsed, coherence;
} layer_row;

static const es_column layer_columns[] = {
    ES_COL(layer_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(layer_row, keys, ES_FORMAT_COUNT, "keys", "keys",
           "summed over the layer's key-value heads"),
    ES_COL(layer_row, ratio, ES_FORMAT_REAL, "ratio", "", "share of the layer's keys"),
    ES_COL(layer_row, predicted, ES_FORMAT_REAL, "predicted error", "",
           "error of the attention output, computed from the full model's state, over its spread; "
           "standard error over blocks",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(layer_row, verified, ES_FORMAT_REAL, "verified error", "",
           "the same, measured on held-out text"),
    ES_COL(layer_row, limit, ES_FORMAT_REAL, "limit", "",
           "least error of any rule that keeps as many keys independently, first order",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(layer_row, state_predicted, ES_FORMAT_REAL, "predicted state", "",
           "error of the hidden state after this layer, with the plan in all layers, over its "
           "spread",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(layer_row, state_verified, ES_FORMAT_REAL, "verified state", "",
           "the same, measured on held-out text"),
    ES_COL(layer_row, computed, ES_FORMAT_REAL, "computed error", "",
           "error of the attention output from the sum of its heads' risks and optimism alone",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(layer_row, weight, ES_FORMAT_REAL, "weight", "",
           "mean square error of the last hidden state per unit of the layer's attention output"),
    ES_COL(layer_row, optimism, ES_FORMAT_REAL, "optimism", "",
           "mean square risk of plans on a block they were not made from, over that on the other "
           "blocks; predictions include this factor, risks of heads do not"),
    ES_COL(layer_row, rehearsed, ES_FORMAT_REAL, "rehearsed", "",
           "mean square error of the attention output, measured on blocks that a plan was not made "
           "from, over the sum of its heads' risks there; predictions include this factor"),
    ES_COL(layer_row, coherence, ES_FORMAT_REAL, "coherence", "",
           "mean square error of the hidden state after this layer, as rehearsed, over the sum of "
           "the layers' one at a time; predictions include this factor"),
    {0}};
static const es_table_spec layers_table = {
    "layers",
    layer_columns,
    ES_VIEW("Predicted and verified, by layer",
            "layer keys ratio predicted verified limit state_predicted state_verified computed "
            "rehearsed coherence optimism weight"),
    ES_ROW(layer_row),
    .inside = "plan",
    .nested = "layers",
    .keys = "layer"};

/* Returns the least error of a layer for the plan's keys, over the spread of its output. */
static double limit_of_layer(const budget_state *s, const budget_context *k, int64_t layer)
{
    double sum = 0.0;
    for (int64_t u = layer * s->config->kv_heads; u < (layer + 1) * s->config->kv_heads; u++)
        sum += budget_limit(s, &k->all, u, (double)k->plan[u].keys);
    return sqrt(sum / k->all.out2[layer]);
}

/* Fills the table of layers: keys, predicted error, and how much of an error passes on. */
static es_status put_layers(const es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t groups = s->config->kv_heads;
    es_table *t = es_answer_table(a, &layers_table);
    for (int64_t l = 0; l < s->config->layers; l++) {
        layer_row *r = es_rows_add(t, layer_row);
        if (!r)
            return es_answer_status(a, err);
        r->layer = l;
        r->keys = 0.0;
        for (int64_t u = l * groups; u < (l + 1) * groups; u++)
            r->keys += (double)k->plan[u].keys;
        r->ratio = r->keys / (double)(groups * s->grids[l].sees);
        r->predicted = (es_measured){k->forecast.own[l], k->forecast_se.own[l]};
        if (s->mode == BUDGET_IDEAL)
            r->limit = limit_of_layer(s, k, l);
        r->state_predicted = (es_measured){k->forecast.state[l + 1], k->forecast_se.state[l + 1]};
        r->computed = (es_measured){k->computed[l], k->computed_se[l]};
        r->weight = budget_weight(s, &k->all, l);
        r->optimism = k->factors.optimism[l];
        r->rehearsed = (es_measured){k->factors.heads[l], k->factors_se.heads[l]};
        r->coherence = (es_measured){k->factors.coherence[l + 1], k->factors_se.coherence[l + 1]};
        if (!s->n_settings)
            continue;
        r->verified = budget_layer_error(job, budget_verify_runs(s, 0), l);
        r->state_verified = budget_state_error(job, budget_verify_runs(s, 0), l + 1);
    }
    return ES_OK;
}

/* ---- plan file ---- */

/* Makes the plan of ideal mode, with the predicted risk of each head. */
static es_status make_ideal_plan(const es_job *job, const budget_context *k, es_plan **out,
                                 es_error *err)
{
    const budget_state *s = job->state;
    const int64_t heads = s->config->layers * s->config->heads;
    es_policy_spec *specs;
    ES_TRY(ES_ARENA_NEW(k->arena, specs, heads, "specs", err));
    ES_TRY(es_plan_new(s->config, s->n, job->exec.budget, out, err));
    budget_specs(s, k->plan, specs);
    for (int64_t h = 0; h < heads; h++) {
        (*out)->head[h].spec = specs[h];
        (*out)->head[h].risk = budget_head_risk(job, k, h);
    }
    budget_eviction_note(job, k, (*out)->note);
    return ES_OK;
}

/* Makes the plan of a cache, with the measured risk of each unit and the model's fingerprint. */
static es_status make_cache_plan(const es_job *job, const budget_context *k, es_plan **out,
                                 es_error *err)
{
    static const es_plan_mode modes[] = {[BUDGET_PROMPT] = ES_PLAN_PROMPT,
                                         [BUDGET_DECODE] = ES_PLAN_DECODE,
                                         [BUDGET_NONE] = ES_PLAN_NONE};
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const int64_t kv = s->config->kv_heads, prompt = s->mode == BUDGET_PROMPT ? s->prompt : 0;
    es_cache_unit *units;
    uint64_t fingerprint;
    ES_TRY(ES_ARENA_NEW(k->arena, units, s->units, "units", err));
    ES_TRY(es_model_fingerprint(s->model, &job->exec, &fingerprint, err));
    ES_TRY(es_plan_new_cache(s->config, modes[s->mode], prompt, s->n, job->exec.budget, out, err));
    budget_units(s, k->plan, units);
    for (int64_t u = 0; u < s->units; u++)
        es_plan_set_unit(*out, u / kv, u % kv, &units[u], budget_unit_risk(job, k, u).value);
    (*out)->fingerprint = fingerprint;
    snprintf((*out)->cache, sizeof(*out)->cache, "%s", budget_dtypes[p->cache]);
    return ES_OK;
}

/* Writes the plan to --out-plan. */
static es_status save_plan(const es_job *job, const budget_context *k, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    es_plan *plan = NULL;
    es_status status = s->mode == BUDGET_IDEAL ? make_ideal_plan(job, k, &plan, err)
                                               : make_cache_plan(job, k, &plan, err);
    if (status == ES_OK) {
        const char *slash = strrchr(p->texts.at[0], '/');
        snprintf(plan->text, sizeof plan->text, "%lld block%s of %lld tokens of %.160s",
                 (long long)s->text.count, s->text.count == 1 ? "" : "s", (long long)s->n,
                 slash ? slash + 1 : p->texts.at[0]);
        es_plan_count(plan);
        status = es_plan_save(plan, p->out_plan, job->force, err);
    }
    es_plan_free(plan);
    return status;
}

/* ---- answer ---- */

/* Fills all tables in the order in which they are shown. */
static es_status put_all(es_job *job, budget_context *k, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    ES_TRY(budget_fill_context(job, k, err));
    if (s->n_settings)
        ES_TRY(budget_add_verdict(job, a, err));
    ES_TRY(budget_add_findings(job, k, a, err));
    ES_TRY(put_plan(job, k, a, err));
    ES_TRY(put_predicted(job, k, a, err));
    ES_TRY(put_layers(job, k, a, err));
    ES_TRY(s->mode == BUDGET_IDEAL ? budget_put_heads(job, k, a, err)
                                   : budget_put_units(job, k, a, err));
    ES_TRY(budget_put_granularity(job, k, a, err));
    ES_TRY(budget_put_rehearsal(job, a, err));
    ES_TRY(budget_put_allocations(job, k, a, err));
    ES_TRY(budget_put_frontier(job, k, a, err));
    ES_TRY(budget_put_calibration(job, k, a, err));
    ES_TRY(budget_put_domains(job, k, a, err));
    if (s->n_settings)
        ES_TRY(budget_put_verified(job, a, err));
    budget_add_cautions(job, k, a);
    return p->out_plan ? save_plan(job, k, err) : ES_OK;
}

es_status budget_summarise(es_job *job, es_answer *answer, es_error *err)
{
    es_arena arena = {.budget = job->exec.budget};
    budget_context k = {.arena = &arena};
    const es_status status = put_all(job, &k, answer, err);
    es_arena_free(&arena);
    return status;
}
