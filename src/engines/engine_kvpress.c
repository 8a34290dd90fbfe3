/* SPDX-License-Identifier: Apache-2.0 */
/* engine_kvpress.c : a press with numbers of keys by head, and budgets for other presses. */
#include <string.h>

#include "engines/engine.h"

/* Returns whether a press of kvpress scores keys like the policy of a unit. */
static bool has_press(const es_evict_spec *spec)
{
    return strcmp(es_eviction_name(spec->policy), "snapkv") != 0 || spec->pooling == 0;
}

static void fit_plan(es_engine_fit *fit)
{
    static const char *const policies[] = {"stream", "snapkv",  "observed", "h2o", "tova",
                                           "knorm",  "keydiff", "expected", NULL};
    const int64_t units = fit->plan->layers * fit->plan->kv_heads;
    int64_t others = 0, typed = 0;
    es_fit_drop_policies(fit, policies, "kvpress");
    for (int64_t u = 0; u < units; u++) {
        const es_evict_spec *spec = &fit->runs[u].evict;
        const bool alpha = spec->policy && spec->alpha != ES_EVICT_UNSET;
        if (alpha || (spec->policy && !has_press(spec))) {
            es_fit_full(fit, u);
            others++;
        }
        typed += fit->runs[u].k.type || fit->runs[u].v.type;
        es_fit_types(fit, u, NULL, NULL);
    }
    if (others)
        fprintf(fit->notes, "pooling=max or alpha: %lld key-value heads keep every key\n",
                (long long)others);
    if (typed)
        fprintf(fit->notes,
                "number types: rows of %lld key-value heads stay as the model computes them\n",
                (long long)typed);
}

static void write_module(const es_engine_fit *fit, FILE *out)
{
    es_fit_tables(fit, out);
    fprintf(out, "\n%s", es_engine_kvpress_py);
}

const es_engine es_engine_row_kvpress = {
    .name = "kvpress",
    .title = "kvpress",
    .checked =
        "Untested against kvpress (0.4): its presses score the keys, and their formulas were "
        "read, not run.",
    .modes = 1u << ES_PLAN_PROMPT,
    .masks = true,
    .fit = fit_plan,
    .write = write_module};
