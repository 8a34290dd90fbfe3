/* SPDX-License-Identifier: Apache-2.0 */
/* plan_params.h : a plan file (plan.h) as a parameter: the same in every study that runs a model by
 * one.
 *
 *     static const es_param params[] = {..., ES_PLAN_PARAM(my_params, plan), {0}};
 *     open():    if (p->plan) ES_TRY(es_plan_open(job, p->plan, config, &s->plan, err));
 *     close():   es_plan_free(s->plan);
 */
#ifndef ES_EXPERIMENTS_KIT_PLAN_PARAMS_H
#define ES_EXPERIMENTS_KIT_PLAN_PARAMS_H

#include <esscher/plan.h>

#include "driver/job.h"
#include "experiments/kit/policy_params.h"

/* clang-format off */
#define ES_PLAN_PARAM(type, plan)                                                                  \
    {"plan", 0, ES_PARAM_FILE, "P.json",                                                           \
     "instead of --policy and --keys: a plan of what each head keeps; `esscher budget` makes them",\
     .field = offsetof(type, plan)}
/* clang-format on */

/*! es_plan_open() : reads an ideal plan and checks that it is one of this model, and that nothing
 *  else was said about keys. es_plan_open_any() : the same of a plan of any mode; weights are for
 *  es_plan_check_weights(), once they are read. *out is on the job's budget; release it with
 * es_plan_free().
 *  @return : ES_OK; as es_plan_load(), es_plan_check(), which the file is to blame for
 *  (es_blame_file()); ES_E_ARGUMENT (plan.options) for an option that the plan leaves nothing to;
 *  ES_E_SHAPE (plan.mode) of es_plan_open() for a plan of a cache. */
es_status es_plan_open(es_job *job, const char *path, const es_model_config *config, es_plan **out,
                       es_error *err);
es_status es_plan_open_any(es_job *job, const char *path, const es_model_config *config,
                           es_plan **out, es_error *err);

/*! es_plan_fits() : es_plan_check_context() of blocks of up to n tokens, naming the file. */
es_status es_plan_fits(const es_plan *plan, const char *path, int64_t n, es_error *err);

/*! es_plan_caution() : adds a finding if the plan was made for another context than the n tokens of
 *  `what`: "blocks have", "texts have up to". */
void es_plan_caution(const es_plan *plan, int64_t n, const char *what, es_answer *answer);

/*! es_plan_span() : returns the queries of the longest observation window, from --span or from the
 *  heads of a plan (may be NULL); 0 if neither sets it. */
int64_t es_plan_span(const es_policy_params *asked, const es_plan *plan);

/* "plan.json, which keeps 25 % of the keys at 2048 tokens", of a cache "which keeps 25 % of the
 * keys of a prompt of 512 tokens in 9 % of the bytes", for findings. Returns out. */
enum { ES_PLAN_SIZE = 200 };
const char *es_plan_say(const es_plan *plan, const char *path, char out[ES_PLAN_SIZE]);

/*! es_plan_word() : "plan plan.json", to name settings by: the file without its folders. */
const char *es_plan_word(const char *path, char out[ES_POLICY_SIZE]);

#endif
