/* SPDX-License-Identifier: Apache-2.0 */
/* policy_table.c : the registry of policies, and accessors of their rows. */
#include <string.h>

#include "policy/policy_row.h"
#include "policy/policy.h"

#define DECLARE(row, name) extern const es_policy es_policy_row_##row;
#define LIST(row, name)    &es_policy_row_##row,
ES_POLICIES(DECLARE, DECLARE)
static const es_policy *const table[] = {ES_POLICIES(LIST, LIST)};
static const int64_t count = sizeof table / sizeof *table;

const es_policy *es_policy_at(int64_t at) { return at >= 0 && at < count ? table[at] : NULL; }

const es_policy *es_policy_find(const char *name)
{
    for (int64_t i = 0; name && i < count; i++)
        if (strcmp(name, table[i]->name) == 0 ||
            (table[i]->alias && strcmp(name, table[i]->alias) == 0))
            return table[i];
    return NULL;
}

/* Returns the policy, or for NULL the first of the table, which keeps all keys. */
static const es_policy *or_full(const es_policy *policy) { return policy ? policy : table[0]; }

const char *es_policy_name(const es_policy *policy) { return or_full(policy)->name; }
const char *es_policy_alias(const es_policy *policy) { return or_full(policy)->alias; }
unsigned es_policy_inputs(const es_policy *policy) { return or_full(policy)->needs; }
unsigned es_policy_parts(const es_policy *policy) { return or_full(policy)->parts; }
bool es_policy_deployable(const es_policy *policy) { return or_full(policy)->deployable; }
