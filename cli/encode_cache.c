/* SPDX-License-Identifier: Apache-2.0 */
/* encode_cache.c : esscher encode through a key-value cache that drops and rounds. */
#include <stdio.h>
#include <string.h>

#include <esscher/plan.h>

#include "draft.h"
#include "encode.h"
#include "talk.h"

const char *const encode_evict_names[] = {"prompt", "decode", NULL};

/* Fails because of options that do not fit together. */
static es_status refuse(const char *hint, const char *message, es_error *err)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "encode.options", hint, "%s", message);
}

es_status encode_cache_check(const encode_options *o, es_error *err)
{
    const bool evicts = o->evict >= 0, prompts = o->evict == 0;
    if (o->plan && (evicts || o->policy || o->keys || o->prompt || o->kv_type))
        return refuse("remove them, or --plan",
                      "--plan says what the cache does, and --evict, --policy, --keys, --prompt or "
                      "--kv-type would say it again",
                      err);
    if (!evicts && (o->policy || o->keys || o->prompt))
        return refuse("add --evict prompt or --evict decode",
                      "--policy, --keys and --prompt need --evict", err);
    if (evicts && (!o->policy || !o->keys))
        return refuse("for instance --policy snapkv --keys 128",
                      "--evict needs --policy and --keys", err);
    if (prompts != (o->prompt > 0))
        return refuse(
            prompts ? "for instance --prompt 512" : "remove it",
            prompts ? "--evict prompt needs --prompt" : "only --evict prompt has a --prompt", err);
    if (prompts && o->keys > o->prompt)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "encode.options", "at most as many as --prompt",
                        "--keys %lld: the prompt has only %lld tokens", (long long)o->keys,
                        (long long)o->prompt);
    if (o->kept && !evicts && !o->plan)
        return refuse("add --evict, or remove --kept", "--kept: no key is dropped", err);
    return o->kept ? cli_target_check(o->kept, o->force, err) : ES_OK;
}

/* Makes the cache that a plan describes. */
static es_status open_plan(encode_job *job, const es_model *model, es_error *err)
{
    es_plan *plan;
    es_status status = es_plan_load(job->o->plan, &job->session->budget, &plan, err);
    if (status == ES_OK)
        status = es_plan_cache(plan, model, job->block.n, &job->session->exec, &job->cache, err);
    if (status != ES_OK && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", job->o->plan);
    es_plan_free(plan);
    return status;
}

/* Returns whether the options, other than --plan, describe a cache. */
static bool has_cache(const encode_options *o) { return o->evict >= 0 || o->kv_type; }

enum { TYPE_SIZE = 128 };

/* Returns the cache that the options describe; k_type holds the type of keys. */
static es_cache_opts cache_opts(const encode_options *o, char k_type[TYPE_SIZE])
{
    const char *comma = o->kv_type ? strchr(o->kv_type, ',') : NULL;
    if (o->kv_type)
        snprintf(k_type, TYPE_SIZE, "%.*s", (int)(comma ? comma - o->kv_type : TYPE_SIZE - 1),
                 o->kv_type);
    return (es_cache_opts){.evict = o->evict < 0 ? NULL : encode_evict_names[o->evict],
                           .prompt = o->prompt,
                           .policy = o->policy,
                           .keys = o->keys,
                           .k_type = o->kv_type ? k_type : NULL,
                           .v_type = comma        ? comma + 1
                                     : o->kv_type ? k_type
                                                  : NULL};
}

/* Finds the memory of a plan's cache. */
static es_status plan_memory(const encode_job *job, double *bytes, es_error *err)
{
    es_plan *plan;
    es_status status = es_plan_load(job->o->plan, &job->session->budget, &plan, err);
    if (status == ES_OK)
        status = es_plan_memory(plan, &job->config, job->most, job->precision,
                                job->session->exec.threads, bytes, err);
    if (status != ES_OK && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", job->o->plan);
    es_plan_free(plan);
    return status;
}

es_status encode_cache_memory(const encode_job *job, double *bytes, es_error *err)
{
    char k_type[TYPE_SIZE];
    *bytes = 0.0;
    if (job->o->plan)
        return plan_memory(job, bytes, err);
    if (!has_cache(job->o))
        return ES_OK;
    const es_cache_opts opts = cache_opts(job->o, k_type);
    return es_cache_memory(&job->config, &opts, job->most, job->precision,
                           job->session->exec.threads, bytes, err);
}

es_status encode_cache_open(encode_job *job, const es_model *model, es_error *err)
{
    char k_type[TYPE_SIZE];
    if (job->o->plan)
        return open_plan(job, model, err);
    if (!has_cache(job->o))
        return ES_OK;
    const es_cache_opts opts = cache_opts(job->o, k_type);
    const es_status status = es_cache_new(es_model_config_of(model), &opts, job->block.n,
                                          &job->session->budget, &job->cache, err);
    if (status != ES_OK)
        return status;
    return es_cache_look_ahead(job->cache, model, job->block.ids, &job->session->exec, err);
}

es_status encode_cache_report(const encode_job *job, es_error *err)
{
    const encode_options *o = job->o;
    es_answer *a = cli_result(job->session);
    if (!job->cache)
        return ES_OK;
    if (o->plan)
        es_answer_text(a, "plan", o->plan);
    else
        es_answer_text(a, "evict", o->evict < 0 ? "none" : encode_evict_names[o->evict]);
    if (o->evict >= 0) {
        es_answer_text(a, "policy", o->policy);
        es_answer_count(a, "keys", o->keys);
    }
    if (o->prompt)
        es_answer_count(a, "prompt", o->prompt);
    if (!o->plan)
        es_answer_text(a, "kv_type", o->kv_type ? o->kv_type : "as computed");
    if (!o->kept)
        return ES_OK;
    es_answer_text(a, "kept_file", o->kept);
    return es_cache_save(job->cache, o->kept, o->force, err);
}
