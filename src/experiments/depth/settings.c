/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c : what is done to a model in `depth`: policies of sparse attention, or caches. */
#include <stdio.h>

#include "base/error.h"
#include "experiments/depth/depth.h"

es_status depth_check_settings(const es_job *job, es_error *err)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const es_policy_params asked = es_cache_policies(job, &p->cache, &p->policy);
    ES_TRY(es_cache_check_model(job, &p->cache, es_model_config_of(s->model), err));
    return es_cache_params_check(job, &p->cache, &asked, err);
}

/* Fails where --prompt leaves no token of a block to compare. */
static es_status check_prompt(const es_cache_params *cache, int64_t n, es_error *err)
{
    if (es_cache_prompt(cache) < n - 1)
        return ES_OK;
    return es_refuse(err, "cache.prompt", "a shorter --prompt, or a longer --length",
                     "--prompt %lld leaves nothing to compare in blocks of %lld tokens",
                     (long long)es_cache_prompt(cache), (long long)n);
}

es_status depth_make_settings(es_job *job, int64_t n, es_error *err)
{
    const depth_params *p = job->params;
    depth_state *s = job->state;
    const es_policy_params asked = es_cache_policies(job, &p->cache, &p->policy);
    es_policies policies = {0};
    es_cache_settings caches = {0};
    ES_TRY(check_prompt(&p->cache, n, err));
    if (es_cache_asked(&p->cache))
        ES_TRY(es_cache_settings_make(job, &p->cache, &asked, n, &caches, err));
    else
        ES_TRY(es_policies_make(job, &asked, false, n, &policies, err));
    s->count = policies.count + caches.count;
    s->from = caches.count ? caches.prompt : es_cache_prompt(&p->cache);
    ES_TRY(ES_JOB_NEW(job, s->settings, s->count, err));
    for (int64_t i = 0; i < policies.count; i++)
        s->settings[i].policy = policies.specs[i];
    for (int64_t i = 0; i < caches.count; i++)
        s->settings[i].cache = &caches.at[i];
    return ES_OK;
}

const char *depth_say(const depth_setting *setting, char out[ES_CACHE_SIZE])
{
    char word[ES_POLICY_SIZE];
    if (setting->cache)
        return es_cache_say(setting->cache, out);
    snprintf(out, ES_CACHE_SIZE, "%s", es_policy_say(&setting->policy, word));
    return out;
}
