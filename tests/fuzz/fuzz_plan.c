/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_plan.c : any bytes at all as a plan file. What is accepted is a plan that holds together and
 * can be run by; what is refused says which rule, and leaves nothing behind. */
#include <stdint.h>
#include <stdlib.h>

#include "model/head_plan.h"
#include "model/plan.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void require_specs(const es_plan *plan, int64_t n)
{
    const int64_t heads = plan->layers * plan->heads;
    es_policy_spec *specs = malloc((size_t)heads * sizeof *specs);
    require(specs != NULL);
    es_plan_specs(plan, n, specs);
    for (int64_t i = 0; i < heads; i++) {
        const es_policy_spec *own = &plan->head[i].spec;
        es_policy_spec fitted = *own;
        es_policy_spec_fit(&fitted, plan->causal);
        require(es_policy_spec_same(&fitted, own)); /* nothing was left open */
        require(es_policy_spec_check(&specs[i], plan->causal, NULL) == ES_OK);
        require(!specs[i].policy || (specs[i].keys >= 1 && specs[i].keys <= n));
    }
    free(specs);
}

/* Every unit can be run, keeps no more than there is, and has the options that the file states. */
static void require_units(const es_plan *plan)
{
    const int64_t count = plan->layers * plan->kv_heads;
    es_cache_unit *units = malloc((size_t)count * sizeof *units);
    require(units != NULL);
    require(es_plan_units(plan, units, NULL) == ES_OK);
    for (int64_t i = 0; i < count; i++) {
        const es_evict_spec *spec = &units[i].evict;
        require(es_evict_check(spec, es_plan_evicts(plan->mode), NULL) == ES_OK);
        require(plan->unit[i].keys >= 1 &&
                plan->unit[i].keys <= es_plan_sees_all(plan, i / plan->kv_heads));
        require(!spec->policy || spec->keys == plan->unit[i].keys);
        require(!spec->policy || plan->mode != ES_PLAN_NONE);
        require(!es_eviction_full(spec->policy));
    }
    require(plan->bytes_before > 0.0 && plan->bytes_after > 0.0);
    free(units);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    es_error err = {0};
    es_mem_limit budget = {0};
    es_plan *plan;
    const es_status status = es_plan_parse(data, size, "fuzz", &budget, &plan, &err);
    if (status != ES_OK) {
        require(status == err.code && err.rule[0] && err.message[0] && err.hint[0] && !plan);
        require(err.offset <= (int64_t)size);
    } else {
        const double kept = plan->keys_kept, all = plan->keys_all;
        require(plan->layers >= 1 && plan->heads >= 1 && plan->heads % plan->kv_heads == 0);
        require(kept >= 1.0 && kept <= all && all <= (double)plan->context * (double)size);
        es_plan_count(plan);
        require(plan->keys_kept == kept && plan->keys_all == all);
        if (plan->mode == ES_PLAN_IDEAL) {
            require_specs(plan, plan->context);
            require_specs(plan, 1);
        } else {
            require_units(plan);
        }
        es_plan_free(plan);
    }
    require(budget.used == 0);
    return 0;
}
