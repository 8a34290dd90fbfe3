/* SPDX-License-Identifier: Apache-2.0 */
/* evict_table.c : the registry of eviction policies, and accessors of their rows. */
#include <string.h>

#include "cache/evict_row.h"

#define DECLARE(name) extern const es_eviction es_eviction_row_##name;
#define LIST(name)    &es_eviction_row_##name,
ES_EVICTIONS(DECLARE, DECLARE, DECLARE)
static const es_eviction *const table[] = {ES_EVICTIONS(LIST, LIST, LIST)};
static const int64_t count = sizeof table / sizeof *table;

const es_eviction *es_eviction_at(int64_t at) { return at >= 0 && at < count ? table[at] : NULL; }

const es_eviction *es_eviction_find(const char *name)
{
    for (int64_t i = 0; name && i < count; i++)
        if (strcmp(name, table[i]->name) == 0 ||
            (table[i]->alias && strcmp(name, table[i]->alias) == 0))
            return table[i];
    return NULL;
}

const char *es_eviction_name(const es_eviction *policy) { return policy ? policy->name : "full"; }
bool es_eviction_decodes(const es_eviction *policy)
{
    return policy->decode != ES_DECODE_BY_NOTHING;
}
bool es_eviction_plain(const es_eviction *policy) { return policy && policy->plain; }
bool es_eviction_full(const es_eviction *policy) { return policy && policy->full; }
