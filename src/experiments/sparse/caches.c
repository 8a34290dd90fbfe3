/* SPDX-License-Identifier: Apache-2.0 */
/* caches.c : the question of `sparse` about caches that drop keys for good or round them: options,
 * settings, the stage of cells, the order of tables. */
#include <math.h>

#include "base/error.h"
#include "experiments/sparse/sparse.h"
#include "model/model.h"

/* ---- options ---- */

/* Returns the policies that were asked for; those that --policy has by default are of sparse
 * attention. */
static es_policy_params given_policies(const es_job *job)
{
    const sparse_params *p = job->params;
    es_policy_params policy = p->policy;
    if (!es_params_given(job->given, "policy"))
        policy.names = NULL;
    return policy;
}

es_status sparse_caches_check(es_job *job, es_error *err)
{
    static const char *const others[] = {"q", "k", "v", "simulations", "per-query", "pool-dir"};
    const sparse_params *p = job->params;
    const es_policy_params policy = given_policies(job);
    ES_TRY(es_cache_params_check(job, &p->cache, &policy, err));
    if (!es_cache_asked(&p->cache))
        return ES_OK;
    if (p->preset)
        return es_refuse(err, "sparse.options", "leave one of them out",
                         "--preset paper and a cache (--evict, --kv-type) exclude each other");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (es_params_given(job->given, others[i]))
            return es_refuse(err, "sparse.options", "leave it out, or use --evict ideal",
                             "--%s and a cache (--evict, --kv-type) exclude each other", others[i]);
    if (!p->pool.model)
        return es_refuse(err, "sparse.options", "--model MODEL --text FILE",
                         "missing --model: a cache (--evict, --kv-type) belongs to a decoder");
    return ES_OK;
}

/* ---- settings ---- */

/* Fails if two shares of --ratio are the same number of keys. */
static es_status check_keys(const sparse_cache *c, es_error *err)
{
    for (int64_t i = 1; i < c->n_keys; i++)
        if (c->keys[i] == c->keys[i - 1])
            return es_refuse(err, "cache.keys", "leave one of them out",
                             "two numbers of --ratio keep %lld keys", (long long)c->keys[i]);
    return ES_OK;
}

/* Takes types, policies and numbers of keys out of the list of settings, which has them all. */
static es_status read_settings(es_job *job, const es_cache_settings *all, int64_t n_keys,
                               es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    sparse_cache *c = &s->cache;
    const int64_t types = p->cache.kv_types.count ? p->cache.kv_types.count : 1;
    const bool evicts = all->at[0].mode != ES_EVICT_NOTHING;
    *c = (sparse_cache){.mode = all->at[0].mode,
                        .prompt = all->prompt,
                        .n_types = types,
                        .n_keys = evicts ? n_keys : 0,
                        .n_policies = evicts ? all->count / types / n_keys : 0,
                        .rounds = p->cache.kv_types.count > 0};
    ES_TRY(ES_JOB_NEW(job, c->types, types, err));
    ES_TRY(ES_JOB_NEW(job, c->policies, c->n_policies + 1, err));
    ES_TRY(ES_JOB_NEW(job, c->keys, c->n_keys + 1, err));
    for (int64_t t = 0; t < types; t++) {
        const es_cache_unit *unit = &all->at[t * (all->count / types)].unit;
        c->types[t] = (es_late_types){unit->k, unit->v};
    }
    for (int64_t i = 0; i < c->n_policies; i++)
        c->policies[i] = all->at[i * n_keys].unit.evict;
    for (int64_t i = 0; i < c->n_keys; i++)
        c->keys[i] = all->at[i].unit.evict.keys;
    return check_keys(c, err);
}

/* Reads the settings for contexts of s->n tokens. */
static es_status read_caches(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const es_policy_params policy = given_policies(job);
    const int64_t keys = policy.keys.count ? policy.keys.count : p->cache.ratio.count;
    es_cache_settings all;
    if (!s->causal)
        return es_refuse(err, "cache.causal", "use a decoder",
                         "an encoder has no cache of keys and values");
    ES_TRY(es_cache_settings_make(job, &p->cache, &policy, s->n, &all, err));
    ES_TRY(read_settings(job, &all, keys, err));
    const es_late_spec spec = {.mode = s->cache.mode,
                               .prompt = s->cache.prompt,
                               .types = s->cache.types,
                               .n_types = s->cache.n_types,
                               .policies = s->cache.policies,
                               .n_policies = s->cache.n_policies,
                               .keys = s->cache.keys,
                               .n_keys = s->cache.n_keys};
    return es_late_check(&spec, s->n, err);
}

es_cache_setting sparse_cache_setting(const sparse_state *s, int64_t at)
{
    const sparse_cache *c = &s->cache;
    const int64_t each = c->n_policies * c->n_keys;
    const bool evicts = at < c->n_types * each;
    const int64_t type = evicts ? at / each : at - c->n_types * each;
    es_cache_setting out = {.mode = evicts ? c->mode : ES_EVICT_NOTHING, .prompt = c->prompt};
    out.unit.k = c->types[type].k;
    out.unit.v = c->types[type].v;
    es_evict_init(&out.unit.evict, NULL);
    if (evicts) {
        out.unit.evict = c->policies[at / c->n_keys % c->n_policies];
        out.unit.evict.keys = c->keys[at % c->n_keys];
    }
    return out;
}

/* ---- work ---- */

/* Returns the operations that attention does in the time that one head takes in a context of n
 * tokens: scores of policies and decode runs per setting, sums per query, and integrals of random
 * keys, which run at a few per cent of the speed of attention (policies.c). */
static double head_work(const sparse_state *s, int64_t n, int64_t queries)
{
    const sparse_cache *c = &s->cache;
    const double N = (double)n, d = (double)s->d, P = 0.5 * N, Q = (double)queries;
    const double settings = (double)(c->n_types * c->n_policies);
    const double choice = c->mode == ES_EVICT_PROMPT ? settings * 4.0 * P * P * d : 0.0;
    double decode = 0.0;
    for (int64_t i = 0; i < c->n_keys && c->mode == ES_EVICT_DECODE; i++)
        decode += settings * 12.0 * N * fmin((double)c->keys[i], N) * d;
    const double sums = Q * N * d * ((double)c->n_types * 12.0 + settings * 8.0);
    const double risks = c->rounds ? Q * SPARSE_SHARES * N * (3.0 * d + 64.0) * 150.0 : 0.0;
    return choice + decode + sums + risks;
}

static const es_cell_field cell_fields[] = {ES_FIELD(sparse_cache_cell, mse),
                                            ES_FIELD(sparse_cache_cell, mass),
                                            ES_FIELD(sparse_cache_cell, spread2),
                                            ES_FIELD(sparse_cache_cell, ess),
                                            ES_FIELD(sparse_cache_cell, first_order),
                                            ES_FIELD(sparse_cache_cell, linear),
                                            ES_FIELD(sparse_cache_cell, noise2),
                                            ES_FIELD(sparse_cache_cell, key_risk),
                                            {0}};

/* Adds the stage whose cell is a context through the full model. */
static es_status add_stage(es_job *job, es_error *err)
{
    const sparse_state *s = job->state;
    const es_model_cost pass = es_model_cost_of(s->pools.config, ES_F32, s->n, 1, false);
    es_answer_text(job->answer, "evict", es_cache_mode_name(s->cache.mode));
    es_answer_count(job->answer, "prompt", s->cache.prompt);
    const es_stage stage = {"contexts",
                            .phase = "running the model beside its caches",
                            .noun = "contexts",
                            .cells = s->contexts,
                            .rows = s->n_places * sparse_cache_rows(s),
                            ES_RECORD(sparse_cache_cell, cell_fields),
                            .flops = es_model_work(&pass) +
                                     (double)s->n_places * head_work(s, s->n, s->queries),
                            .run = sparse_cache_run};
    return es_job_stage(job, &stage, err);
}

/* ---- tables ---- */

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    if (s->cache.rounds && !s->cache.n_policies)
        ES_TRY(sparse_put_precision(job, answer, err));
    ES_TRY(sparse_put_caches(job, answer, err));
    if (s->cache.rounds && s->cache.n_policies)
        ES_TRY(sparse_put_precision(job, answer, err));
    es_answer_add_finding(
        answer, "The error of a head's output is not the error of the model: loss --evict "
                "and --kv-type measure that.");
    for (int64_t t = 0; t < s->cache.n_types; t++) {
        const es_cache_setting setting = {
            .unit = {.k = s->cache.types[t].k, .v = s->cache.types[t].v}};
        if (es_cache_caution(&setting, s->n, answer))
            break;
    }
    return ES_OK;
}

const sparse_question sparse_caches = {.of_model = &sparse_blocks,
                                       .longest = 1024,
                                       .plan = read_caches,
                                       .add_stage = add_stage,
                                       .work = head_work,
                                       .all_bytes = sparse_cache_bytes,
                                       .summarise = summarise};
