/* SPDX-License-Identifier: Apache-2.0 */
/* engine_vllm.c : fp8 for all layers but those that need a finer type. */
#include "engines/engine.h"

/* Returns whether fp8 is fine enough for every unit of a layer. */
static bool takes_fp8(const es_engine_fit *fit, int64_t layer)
{
    static const char *const fp8[] = {"fp8", NULL};
    const es_plan *p = fit->plan;
    const int64_t first = layer * p->kv_heads;
    return es_type_for(fp8, es_type_finest(fit, ES_KV_KEYS, first, p->kv_heads), p->head_dim) &&
           es_type_for(fp8, es_type_finest(fit, ES_KV_VALUES, first, p->kv_heads), p->head_dim);
}

static void fit_plan(es_engine_fit *fit)
{
    static const char *const none[] = {NULL};
    const es_plan *p = fit->plan;
    const es_kv_type *fp8 = es_kv_type_find("fp8"), *f16 = es_kv_type_find("f16");
    int64_t skipped = 0, changed = 0;
    es_fit_drop_policies(fit, none, "vLLM, which drops none");
    for (int64_t l = 0; l < p->layers; l++) {
        const es_kv_type *type = takes_fp8(fit, l) ? fp8 : f16;
        skipped += type == f16;
        for (int64_t g = 0; g < p->kv_heads; g++)
            changed += es_fit_types(fit, l * p->kv_heads + g, type, type);
    }
    if (!changed)
        return;
    fprintf(fit->notes, "number types: fp8 (e4m3, scale 1) for K and V of a layer, or 16 bits");
    if (skipped)
        fprintf(fit->notes,
                "; %lld of %lld layers have a head that needs more than fp8 and are skipped",
                (long long)skipped, (long long)p->layers);
    fprintf(fit->notes, "\n");
}

static void write_arguments(const es_engine_fit *fit, FILE *out)
{
    const es_plan *p = fit->plan;
    const es_kv_type *fp8 = es_kv_type_find("fp8");
    int64_t skipped = 0;
    for (int64_t l = 0; l < p->layers; l++)
        skipped += fit->runs[l * p->kv_heads].k.type != fp8;
    fprintf(out, "--kv-cache-dtype %s", skipped < p->layers ? "fp8" : "auto");
    if (skipped && skipped < p->layers)
        fprintf(out, " --kv-cache-dtype-skip-layers");
    for (int64_t l = 0; l < p->layers && skipped < p->layers; l++)
        if (fit->runs[l * p->kv_heads].k.type != fp8)
            fprintf(out, " %lld", (long long)l);
    fprintf(out, "\n");
}

const es_engine es_engine_row_vllm = {
    .name = "vllm",
    .title = "vLLM",
    .checked = "Untested against vLLM: arguments are those of its documentation (0.25); scales are "
               "1 unless a checkpoint has its own.",
    .modes = 1u << ES_PLAN_PROMPT | 1u << ES_PLAN_DECODE | 1u << ES_PLAN_NONE,
    .fit = fit_plan,
    .write = write_arguments};
