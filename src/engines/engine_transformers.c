/* SPDX-License-Identifier: Apache-2.0 */
/* engine_transformers.c : an attention function in Python that applies the plan by a mask. */
#include "engines/engine.h"

/* Types that transformers.py has. */
static bool knows(const es_kv_format *format)
{
    static const char *const types[] = {"f16",  "bf16", "fp8",  "q8_0", "q5_1",
                                        "q5_0", "q4_1", "q4_0", NULL};
    bool known = !format->type;
    for (int i = 0; types[i] && !known; i++)
        known = format->type == es_kv_type_find(types[i]);
    return known && !format->hadamard && !format->scale_of_tensor;
}

static void fit_plan(es_engine_fit *fit)
{
    static const char *const policies[] = {"stream", "snapkv",  "observed", "h2o", "tova",
                                           "knorm",  "keydiff", "random",   NULL};
    const int64_t units = fit->plan->layers * fit->plan->kv_heads;
    int64_t shares = 0, unknown = 0;
    es_fit_drop_policies(fit, policies,
                         "transformers, which gives no queries before rotary positions");
    for (int64_t u = 0; u < units; u++) {
        es_cache_unit *unit = &fit->runs[u];
        if (unit->evict.policy && unit->evict.alpha != ES_EVICT_UNSET) {
            es_fit_full(fit, u);
            shares++;
        }
        unknown += !knows(&unit->k) + !knows(&unit->v);
        if (!knows(&unit->k))
            unit->k = (es_kv_format){0};
        if (!knows(&unit->v))
            unit->v = (es_kv_format){0};
    }
    if (shares)
        fprintf(fit->notes, "option alpha: %lld key-value heads keep every key\n",
                (long long)shares);
    if (unknown)
        fprintf(fit->notes, "number types: %lld of %lld sides of key-value heads are not rounded\n",
                (long long)unknown, (long long)(2 * units));
}

static void write_module(const es_engine_fit *fit, FILE *out)
{
    es_fit_tables(fit, out);
    fprintf(out, "\n%s", es_engine_transformers_py);
}

const es_engine es_engine_row_transformers = {
    .name = "transformers",
    .title = "transformers",
    .checked = "The function was run with torch 1.13 against the library's reference consumer; "
               "registering it is untested against transformers (4.57).",
    .modes = 1u << ES_PLAN_PROMPT | 1u << ES_PLAN_NONE,
    .masks = true,
    .fit = fit_plan,
    .write = write_module};
