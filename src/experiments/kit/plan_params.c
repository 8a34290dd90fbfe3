/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/plan_params.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/plan.h"

/* A plan says everything about keys: what would change it is no plan's any more. */
static es_status check_alone(const es_job *job, es_error *err)
{
    static const char *const others[] = {
        "policy", "keys",  "keep",    "window",     "sinks",           "random",
        "span",   "ratio", "kv-type", "correction", "with-replacement"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (es_params_given(job->given, others[i]))
            return es_refuse(err, "plan.options", "leave one of them out",
                             "--plan says which keys heads keep, and --%s would say it again",
                             others[i]);
    return ES_OK;
}

/* Fails unless the plan is for this model, and has a mode that the study runs. */
static es_status check_plan(const es_plan *plan, const es_model_config *config, bool ideal,
                            es_error *err)
{
    ES_TRY(es_plan_check(plan, config, err));
    if (!ideal || plan->mode == ES_PLAN_IDEAL)
        return ES_OK;
    return es_fail(err, ES_E_SHAPE, "plan.mode", "run it with encode, loss or downstream",
                   "the plan has mode %s, but this command runs plans of mode ideal",
                   es_plan_mode_name(plan->mode));
}

/* Reads a plan and checks it. */
static es_status open_plan(es_job *job, const char *path, const es_model_config *config, bool ideal,
                           es_plan **out, es_error *err)
{
    *out = NULL;
    ES_TRY(check_alone(job, err));
    ES_TRY(es_plan_load(path, job->exec.budget, out, err));
    const es_status status = es_blame_file(check_plan(*out, config, ideal, err), path, err);
    if (status != ES_OK) {
        es_plan_free(*out);
        *out = NULL;
    }
    return status;
}

es_status es_plan_open(es_job *job, const char *path, const es_model_config *config, es_plan **out,
                       es_error *err)
{
    return open_plan(job, path, config, true, out, err);
}

es_status es_plan_open_any(es_job *job, const char *path, const es_model_config *config,
                           es_plan **out, es_error *err)
{
    return open_plan(job, path, config, false, out, err);
}

es_status es_plan_fits(const es_plan *plan, const char *path, int64_t n, es_error *err)
{
    return es_blame_file(es_plan_check_context(plan, n, err), path, err);
}

void es_plan_caution(const es_plan *plan, int64_t n, const char *what, es_answer *answer)
{
    if (n != plan->context)
        es_answer_add_finding(answer,
                              "Caution: the plan was made for %lld tokens and %s %lld; its numbers "
                              "of keys do not change.",
                              (long long)plan->context, what, (long long)n);
}

int64_t es_plan_span(const es_policy_params *asked, const es_plan *plan)
{
    int64_t span = asked->span > 0 ? asked->span : 0;
    for (int64_t h = 0; plan && plan->head && h < plan->layers * plan->heads; h++)
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

const char *es_plan_say(const es_plan *plan, const char *path, char out[ES_PLAN_SIZE])
{
    const double kept = 100.0 * plan->keys_kept / plan->keys_all;
    if (plan->mode == ES_PLAN_IDEAL)
        snprintf(out, ES_PLAN_SIZE, "%.60s, which keeps %.3g %% of the keys at %lld tokens",
                 name_of(path), kept, (long long)plan->context);
    else
        snprintf(out, ES_PLAN_SIZE,
                 "%.60s, which keeps %.3g %% of the keys of %s%lld tokens in %.3g %% of the bytes",
                 name_of(path), kept, plan->prompt ? "a prompt of " : "",
                 (long long)(plan->prompt ? plan->prompt : plan->context),
                 100.0 * plan->bytes_after / plan->bytes_before);
    return out;
}

const char *es_plan_word(const char *path, char out[ES_POLICY_SIZE])
{
    snprintf(out, ES_POLICY_SIZE, "plan %.60s", name_of(path));
    return out;
}
