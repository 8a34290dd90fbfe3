/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/plan_params.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/plan.h"

/* A plan says everything about keys: what would change it is no plan's any more. */
static es_status check_alone(const es_job *job, es_error *err)
{
    static const char *const others[] = {"policy", "keys", "keep",       "window",          "sinks",
                                         "random", "span", "correction", "with-replacement"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (es_params_given(job->given, others[i]))
            return es_refuse(err, "plan.options", "leave one of them out",
                             "--plan says which keys heads keep, and --%s would say it again",
                             others[i]);
    return ES_OK;
}

es_status es_plan_open(es_job *job, const char *path, const es_model_config *config, es_plan **out,
                       es_error *err)
{
    *out = NULL;
    ES_TRY(check_alone(job, err));
    ES_TRY(es_plan_load(path, job->exec.budget, out, err));
    const es_status status = es_blame_file(es_plan_check(*out, config, err), path, err);
    if (status != ES_OK) {
        es_plan_free(*out);
        *out = NULL;
    }
    return status;
}

es_status es_plan_fits(const es_plan *plan, const char *path, int64_t n, es_error *err)
{
    return es_blame_file(es_plan_check_context(plan, n, err), path, err);
}

int64_t es_plan_span(const es_policy_params *asked, const es_plan *plan)
{
    int64_t span = asked->span > 0 ? asked->span : 0;
    for (int64_t h = 0; plan && h < plan->layers * plan->heads; h++)
        if (plan->head[h].spec.span > span)
            span = plan->head[h].spec.span;
    return span;
}

/* Returns the file name without its directory. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *es_plan_say(const es_plan *plan, const char *path, char out[ES_PLAN_ROOM])
{
    snprintf(out, ES_PLAN_ROOM, "%.60s, which keeps %.3g %% of the keys at %lld tokens",
             name_of(path), 100.0 * plan->keys_kept / plan->keys_all, (long long)plan->context);
    return out;
}

const char *es_plan_word(const char *path, char out[ES_POLICY_ROOM])
{
    snprintf(out, ES_POLICY_ROOM, "plan %.60s", name_of(path));
    return out;
}
