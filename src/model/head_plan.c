/* SPDX-License-Identifier: Apache-2.0 */
/* head_plan.c : plans in memory: new ones, what all of them must obey, whether one is of a model,
 * and what a block is given. head_plan_read.c and head_plan_write.c are their files. */
#include "model/model.h"
#include "model/head_plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/plan.h"
#include "model/sparse_head.h"
#include "policy/policy.h"

/* ---- making one ---- */

/* Fails unless the model's shape and the context length fit a plan. */
static es_status check_shape(const es_model_config *c, int64_t context, es_error *err)
{
    if (context < 1 || context > c->positions || context > ES_PLAN_CONTEXT)
        return es_fail(err, ES_E_RANGE, "plan.context",
                       "use a context length that the model supports",
                       "the plan is for %lld tokens; the model has %lld positions",
                       (long long)context, (long long)c->positions);
    if (c->layers > ES_PLAN_UNITS || c->heads > ES_PLAN_UNITS)
        return es_fail(err, ES_E_RANGE, "plan.model", "at most 65536 layers of 65536 heads",
                       "a plan for %lld layers of %lld heads", (long long)c->layers,
                       (long long)c->heads);
    return ES_OK;
}

/* Copies the shape of the model into the plan, by which es_plan_check() recognises the model
 * later. */
static void copy_shape(es_plan *plan, const es_model_config *c)
{
    memcpy(plan->model_type, c->model_type, sizeof plan->model_type);
    plan->layers = c->layers;
    plan->heads = c->heads;
    plan->kv_heads = c->kv_heads;
    plan->head_dim = c->head_dim;
    plan->hidden = c->hidden;
    plan->vocab = c->vocab;
    plan->window = es_model_widest(c);
    plan->causal = c->causal;
}

/* Allocates the arrays of layers and heads, or key-value heads, and copies the windows of the
 * model's layers. */
static es_status make_layers(es_plan *plan, const es_model_config *c, es_error *err)
{
    ES_TRY(ES_MEM_NEW(plan->budget, plan->windows, plan->layers, "layers of a plan", err));
    for (int64_t l = 0; l < plan->layers; l++)
        plan->windows[l] = es_model_layer(c, l)->window;
    if (plan->mode != ES_PLAN_IDEAL)
        return ES_MEM_NEW_2D(plan->budget, plan->unit, plan->layers, plan->kv_heads,
                             "heads of a plan", err);
    return ES_MEM_NEW_2D(plan->budget, plan->head, plan->layers, plan->heads, "heads of a plan",
                         err);
}

/* Gives every head all keys. */
static void keep_everything(es_plan *plan)
{
    es_cache_unit full = {.k = {.type = es_kv_type_find(ES_PLAN_CACHE_TYPE)},
                          .v = {.type = es_kv_type_find(ES_PLAN_CACHE_TYPE)}};
    es_evict_init(&full.evict, NULL);
    for (int64_t i = 0; plan->head && i < plan->layers * plan->heads; i++) {
        es_policy_spec_init(&plan->head[i].spec, NULL);
        plan->head[i].risk = NAN;
    }
    for (int64_t i = 0; plan->unit && i < plan->layers * plan->kv_heads; i++)
        es_plan_set_unit(plan, i / plan->kv_heads, i % plan->kv_heads, &full, (double)NAN);
}

/* Allocates a plan in which every head keeps everything. */
static es_status make(const es_model_config *config, es_plan_mode mode, int64_t prompt,
                      int64_t context, es_mem_limit *budget, es_plan **out, es_error *err)
{
    *out = NULL;
    if (!config)
        return es_fail(err, ES_E_ARGUMENT, "plan.null", "the model's configuration",
                       "an argument is missing");
    ES_TRY(check_shape(config, context, err));
    es_plan *plan;
    ES_TRY(ES_MEM_NEW(budget, plan, 1, "a plan", err));
    plan->budget = budget;
    plan->context = context;
    plan->prompt = prompt;
    plan->mode = mode;
    snprintf(plan->cache, sizeof plan->cache, "%s",
             mode == ES_PLAN_IDEAL ? "" : ES_PLAN_CACHE_TYPE);
    copy_shape(plan, config);
    es_status status = make_layers(plan, config, err);
    if (status == ES_OK) {
        keep_everything(plan);
        es_plan_count(plan);
        status = es_plan_obey(plan, (es_plan_origin){0}, err);
    }
    if (status == ES_OK)
        *out = plan;
    else
        es_plan_free(plan);
    return status;
}

es_status es_plan_new(const es_model_config *config, int64_t context, es_mem_limit *budget,
                      es_plan **out, es_error *err)
{
    return make(config, ES_PLAN_IDEAL, 0, context, budget, out, err);
}

es_status es_plan_new_cache(const es_model_config *config, es_plan_mode mode, int64_t prompt,
                            int64_t context, es_mem_limit *budget, es_plan **out, es_error *err)
{
    *out = NULL;
    if (mode < ES_PLAN_PROMPT || mode > ES_PLAN_NONE)
        return es_fail(err, ES_E_ARGUMENT, "plan.mode", "es_plan_new() makes plans of ideal mode",
                       "a cache of mode %d", (int)mode);
    return make(config, mode, prompt, context, budget, out, err);
}

void es_plan_free(es_plan *plan)
{
    if (!plan)
        return;
    es_mem_free(plan->budget, plan->head);
    es_mem_free(plan->budget, plan->unit);
    es_mem_free(plan->budget, plan->windows);
    es_mem_free(plan->budget, plan);
}

/* ---- counting ---- */

/* Returns whether a head keeps all keys. */
static bool is_full(const es_policy_spec *spec)
{
    return !spec->policy || spec->policy == es_policy_at(0);
}

int64_t es_plan_sees(const es_plan *plan, int64_t layer, int64_t n)
{
    return es_past_most((es_past){plan->causal, plan->windows[layer]}, n);
}

int64_t es_plan_keys(const es_plan *plan, int64_t layer, int64_t head, int64_t n)
{
    const es_policy_spec *spec = &plan->head[layer * plan->heads + head].spec;
    const int64_t sees = es_plan_sees(plan, layer, n);
    return is_full(spec) || spec->keys > sees ? sees : spec->keys;
}

void es_plan_count(es_plan *plan)
{
    const int64_t group = plan->heads / plan->kv_heads;
    if (plan->mode != ES_PLAN_IDEAL) {
        es_plan_count_cache(plan);
        return;
    }
    plan->keys_kept = plan->keys_all = 0.0;
    for (int64_t l = 0; l < plan->layers; l++) {
        plan->keys_all += (double)plan->kv_heads * (double)es_plan_sees(plan, l, plan->context);
        for (int64_t h = 0; h < plan->heads; h += group)
            plan->keys_kept += (double)es_plan_keys(plan, l, h, plan->context);
    }
}

/* ---- what a plan must obey ---- */

/* What is wrong with one head: where it stands comes before what is wrong with it. */
static es_status fail_head(const es_plan *plan, es_plan_origin origin, int64_t i, es_status code,
                           const char *rule, const char *hint, es_error *err, const char *fmt, ...)
    ES_PRINTF(8, 9);

/* Fails with layer and head in the message, and the place in the file if the plan was read from
 * one. */
static es_status fail_head(const es_plan *plan, es_plan_origin origin, int64_t i, es_status code,
                           const char *rule, const char *hint, es_error *err, const char *fmt, ...)
{
    char what[sizeof err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return es_fail_file(err, code, origin.file, origin.at ? origin.at[i] : -1, rule, hint,
                        "layer %lld, head %lld: %s", (long long)(i / plan->heads),
                        (long long)(i % plan->heads), what);
}

/* Returns how many keys a query keeps at the end of the context, or in its middle if it sees
 * both sides. The policy itself is asked, since only it knows what its parts mean. It gets no
 * weights: keeping a number of keys means that the number does not depend on them. */
static es_status ask_policy(const es_plan *plan, int64_t head, const double *zeros,
                            es_choice *choice, double *kept, es_error *err)
{
    const int64_t n = es_plan_sees(plan, head / plan->heads, plan->context);
    const es_policy_query query = {.n = n,
                                   .position = plan->causal ? n - 1 : n / 2,
                                   .causal = plan->causal,
                                   .scores = zeros,
                                   .reach = zeros,
                                   .history = zeros,
                                   .observed = zeros};
    es_policy_spec run = plan->head[head].spec;
    es_policy_spec_fit(&run, plan->causal);
    ES_TRY(es_policy_choose(&run, &query, plan->budget, choice, err));
    *kept = floor(es_choice_keys(choice) + 0.5); /* a mean, where each key has its chance */
    return ES_OK;
}

/* Returns whether a policy states parts of its keys. */
static bool has_parts(const es_policy_spec *spec)
{
    return spec->window != ES_POLICY_UNSET || spec->sinks != ES_POLICY_UNSET ||
           spec->random != ES_POLICY_UNSET || spec->span != ES_POLICY_UNSET;
}

/* A policy keeps at most `keys`, the number that is counted. A window to both sides has an odd
 * number of keys and may overlap the sinks, so it may keep fewer by SLACK. For blocks and strides
 * the number depends on the query's place. The span of `observe` counts queries. */
enum { SLACK = 2 };

/* Returns whether the parts of a policy keep its number of keys: no more, and no fewer but for a
 * small slack, or for policies that keep whole blocks. */
static bool parts_hold(const es_plan *plan, const es_policy_spec *spec, double kept)
{
    const double slack = plan->causal ? 0.0 : SLACK, keys = (double)spec->keys;
    const bool in_blocks =
        spec->span != ES_POLICY_UNSET && !(es_policy_inputs(spec->policy) & ES_POLICY_OBSERVED);
    return kept <= keys && (kept >= keys - slack || in_blocks);
}

/* Returns whether two heads have the same policy and see as many keys, so that one of them needs to
 * be asked. */
static bool are_alike(const es_plan *plan, int64_t a, int64_t b)
{
    return es_policy_spec_same(&plan->head[a].spec, &plan->head[b].spec) &&
           plan->windows[a / plan->heads] == plan->windows[b / plan->heads];
}

/* Parts of heads that have some. Neighbours are often alike, and asked once. */
static es_status check_parts(const es_plan *plan, es_plan_origin origin, const double *zeros,
                             es_choice *choice, es_error *err)
{
    int64_t last = -1;
    for (int64_t i = 0; i < plan->layers * plan->heads; i++) {
        const es_policy_spec *spec = &plan->head[i].spec;
        double kept;
        if (is_full(spec) || !has_parts(spec) || (last >= 0 && are_alike(plan, i, last)))
            continue;
        ES_TRY(ask_policy(plan, i, zeros, choice, &kept, err));
        if (!parts_hold(plan, spec, kept))
            return fail_head(plan, origin, i, ES_E_FORMAT, "plan.parts",
                             "remove the parts, or make them add up to keys", err,
                             "%s with these parts keeps %g of %lld keys, but keys is %lld",
                             es_policy_name(spec->policy), kept,
                             (long long)es_plan_sees(plan, i / plan->heads, plan->context),
                             (long long)spec->keys);
        last = i;
    }
    return ES_OK;
}

/* Fails unless the policy of a head can keep this number of keys. */
static es_status check_keys(const es_plan *plan, es_plan_origin origin, int64_t i, es_error *err)
{
    const es_policy_spec *spec = &plan->head[i].spec;
    const int64_t sees = es_plan_sees(plan, i / plan->heads, plan->context);
    es_error why;
    const es_status status = es_policy_spec_check(spec, plan->causal, &why);
    if (status != ES_OK)
        return fail_head(plan, origin, i,
                         status == ES_E_UNSUPPORTED ? ES_E_UNSUPPORTED : ES_E_FORMAT, why.rule,
                         why.hint, err, "%s", why.message);
    if (es_policy_inputs(spec->policy) & ES_POLICY_MEASURED)
        return fail_head(plan, origin, i, ES_E_UNSUPPORTED, "plan.policy", "use another policy",
                         err, "policy %s does not keep a set of keys",
                         es_policy_name(spec->policy));
    if (!is_full(spec) && (spec->keys < 1 || spec->keys > sees))
        return fail_head(plan, origin, i, ES_E_FORMAT, "plan.keys",
                         "use 1 to the number of keys that a query sees", err,
                         "%lld keys of the %lld that a query sees at %lld tokens",
                         (long long)spec->keys, (long long)sees, (long long)plan->context);
    if (plan->head[i].risk < 0.0 || isinf(plan->head[i].risk))
        return fail_head(plan, origin, i, ES_E_FORMAT, "plan.range", "a mean square, or null", err,
                         "a risk of %g", plan->head[i].risk);
    return ES_OK;
}

/* Fails unless a head keeps the same keys as the first of its group: they share a cache, and a key
 * that one of them needs cannot be dropped. */
static es_status check_group(const es_plan *plan, es_plan_origin origin, int64_t i, es_error *err)
{
    const int64_t size = plan->heads / plan->kv_heads, first = i - i % plan->heads % size;
    if (es_policy_spec_same(&plan->head[first].spec, &plan->head[i].spec))
        return ES_OK;
    return fail_head(plan, origin, i, ES_E_FORMAT, "plan.group",
                     "heads of one group keep the same keys by the same policy", err,
                     "it shares keys and values with head %lld but keeps other keys",
                     (long long)(first % plan->heads));
}

es_status es_plan_obey(const es_plan *plan, es_plan_origin origin, es_error *err)
{
    es_choice choice = {0};
    double *zeros = NULL;
    bool any = false;
    if (plan->mode != ES_PLAN_IDEAL)
        return es_plan_obey_cache(plan, origin, err);
    for (int64_t i = 0; i < plan->layers * plan->heads; i++) {
        ES_TRY(check_keys(plan, origin, i, err));
        ES_TRY(check_group(plan, origin, i, err));
        any = any || has_parts(&plan->head[i].spec);
    }
    if (!any)
        return ES_OK;
    es_status status = ES_MEM_NEW(plan->budget, zeros, plan->context, "weights", err);
    if (status == ES_OK)
        status = check_parts(plan, origin, zeros, &choice, err);
    es_choice_free(&choice);
    es_mem_free(plan->budget, zeros);
    return status;
}

/* ---- is it of this model? ---- */

/* Fails because the plan was made for another model. */
static es_status another(const char *rule, const char *what, int64_t planned, int64_t is,
                         es_error *err)
{
    return es_fail(err, ES_E_SHAPE, rule, "make a plan for this model: esscher budget",
                   "the plan is for a model with %lld %s; this one has %lld", (long long)planned,
                   what, (long long)is);
}

/* Fails unless the plan was made for a model of this shape; names the first number that differs. */
static es_status check_numbers(const es_plan *plan, const es_model_config *c, es_error *err)
{
    const struct {
        const char *rule, *what;
        int64_t planned, is;
    } numbers[] = {{"plan.layers", "layers", plan->layers, c->layers},
                   {"plan.heads", "heads in each layer", plan->heads, c->heads},
                   {"plan.heads", "heads of keys and values", plan->kv_heads, c->kv_heads},
                   {"plan.heads", "channels in each head", plan->head_dim, c->head_dim},
                   {"plan.model", "channels", plan->hidden, c->hidden},
                   {"plan.model", "tokens in its vocabulary", plan->vocab, c->vocab},
                   {"plan.model", "keys in its window (0: all)", plan->window, es_model_widest(c)}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].planned != numbers[i].is)
            return another(numbers[i].rule, numbers[i].what, numbers[i].planned, numbers[i].is,
                           err);
    return ES_OK;
}

/* Fails unless queries of every layer see as many keys at the plan's context as in the model: a
 * window that is wider than the context does not count. */
static es_status check_windows(const es_plan *plan, const es_model_config *c, es_error *err)
{
    for (int64_t l = 0; l < plan->layers; l++) {
        const int64_t planned = es_plan_sees(plan, l, plan->context);
        const int64_t is = es_past_most(es_past_of(c, l), plan->context);
        if (planned != is)
            return es_fail(err, ES_E_SHAPE, "plan.model",
                           "make a plan for this model: esscher budget",
                           "the plan is for a model whose layer %lld sees %lld keys; this one's "
                           "sees %lld",
                           (long long)l, (long long)planned, (long long)is);
    }
    return ES_OK;
}

es_status es_plan_check(const es_plan *plan, const es_model_config *config, es_error *err)
{
    if (!plan || !config)
        return es_fail(err, ES_E_ARGUMENT, "plan.null", "a plan and a model's configuration",
                       "an argument is missing");
    if (strcmp(plan->model_type, config->model_type) != 0)
        return es_fail(err, ES_E_SHAPE, "plan.model", "make a plan for this model: esscher budget",
                       "the plan is for a model of type '%s'; this one is '%s'", plan->model_type,
                       config->model_type);
    ES_TRY(check_numbers(plan, config, err));
    if (plan->causal != config->causal)
        return es_fail(err, ES_E_SHAPE, "plan.model", "make a plan for this model: esscher budget",
                       "the plan is for a model that is %scausal; this one is%s",
                       plan->causal ? "" : "not ", config->causal ? "" : " not");
    ES_TRY(check_windows(plan, config, err));
    if (plan->context > config->positions)
        return es_fail(err, ES_E_SHAPE, "plan.context",
                       "make a plan for this model: esscher budget",
                       "the plan is for %lld tokens; the model has %lld positions",
                       (long long)plan->context, (long long)config->positions);
    return es_plan_obey(plan, (es_plan_origin){0}, err);
}

/* ---- running by it ---- */

/* Returns the fewest keys that a head keeps, of the heads that drop some at the plan's context; 0:
 * none does. */
static int64_t fewest_keys(const es_plan *plan)
{
    int64_t fewest = 0;
    for (int64_t i = 0; i < plan->layers * plan->heads; i++) {
        const es_policy_spec *spec = &plan->head[i].spec;
        const int64_t sees = es_plan_sees(plan, i / plan->heads, plan->context);
        const bool drops = !is_full(spec) && (spec->keys < sees || spec->with_replacement);
        if (drops && (fewest == 0 || spec->keys < fewest))
            fewest = spec->keys;
    }
    return fewest;
}

es_status es_plan_check_context(const es_plan *plan, int64_t n, es_error *err)
{
    const int64_t fewest = plan->mode == ES_PLAN_IDEAL ? fewest_keys(plan) : 0;
    if (plan->mode != ES_PLAN_IDEAL)
        ES_TRY(es_plan_check_cache_context(plan, n, err));
    if (fewest > 0 && n <= fewest)
        return es_fail(err, ES_E_SHAPE, "plan.context",
                       "use longer blocks, or a plan that was made for short ones",
                       "every head of the plan keeps at least %lld keys, but blocks have %lld "
                       "tokens: no key would be dropped",
                       (long long)fewest, (long long)n);
    if (n != plan->context)
        es_log(
            ES_LOG_WARN,
            "the plan was made for %lld tokens and runs on %lld; the numbers of keys do not change",
            (long long)plan->context, (long long)n);
    return ES_OK;
}

void es_plan_specs(const es_plan *plan, int64_t n, es_policy_spec *out)
{
    for (int64_t i = 0; i < plan->layers * plan->heads; i++) {
        const es_policy_spec *spec = &plan->head[i].spec;
        const int64_t sees = es_plan_sees(plan, i / plan->heads, n);
        out[i] = *spec;
        if (is_full(spec) || (spec->keys >= sees && !spec->with_replacement))
            es_policy_spec_init(&out[i], NULL);
        else if (spec->keys > sees)
            out[i].keys = sees;
        es_policy_spec_fit(&out[i], plan->causal);
    }
}
