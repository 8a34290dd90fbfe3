/* SPDX-License-Identifier: Apache-2.0 */
/* engine_llama_cpp.c : one number type for all keys, and one for all values. */
#include "engines/engine.h"

/* Types of -ctk and -ctv that the library has, from few bits to many. */
static const char *const types[] = {"q4_0", "iq4_nl", "q4_1", "q5_0", "q5_1",
                                    "q8_0", "bf16",   "f16",  NULL};

/* Returns the type of one side for all units. Heads whose width is no multiple of 32 have no blocks
 * in llama.cpp. */
static const es_kv_type *type_of(es_engine_fit *fit, es_kv_side side)
{
    const es_plan *p = fit->plan;
    const double finest = es_type_finest(fit, side, 0, p->layers * p->kv_heads);
    const es_kv_type *type = es_type_for(types, finest, p->head_dim);
    return type && type->scale_bits && p->head_dim % ES_KV_BLOCK ? es_kv_type_find("f16") : type;
}

static void fit_plan(es_engine_fit *fit)
{
    static const char *const none[] = {NULL};
    const es_kv_type *k = type_of(fit, ES_KV_KEYS), *v = type_of(fit, ES_KV_VALUES);
    const int64_t units = fit->plan->layers * fit->plan->kv_heads;
    es_fit_drop_policies(fit, none, "llama.cpp, which drops none");
    int64_t typed = 0;
    for (int64_t u = 0; u < units; u++)
        typed += es_fit_types(fit, u, k, v);
    if (typed)
        fprintf(fit->notes,
                "number types by head: all have one type for K and one for V, the finest "
                "of the plan or the next finer one\n");
    if ((k && k->scale_bits) || (v && v->scale_bits))
        fprintf(fit->notes,
                "rotation is llama.cpp's own choice: recent versions rotate quantised rows "
                "where 64 divides the width of a head\n");
}

static void write_arguments(const es_engine_fit *fit, FILE *out)
{
    const es_cache_unit *unit = &fit->runs[0];
    const bool typed = unit->v.type && unit->v.type->scale_bits;
    fprintf(out, "-ctk %s -ctv %s%s\n", unit->k.type ? unit->k.type->name : "f32",
            unit->v.type ? unit->v.type->name : "f32", typed ? " -fa on" : "");
}

const es_engine es_engine_row_llama_cpp = {
    .name = "llama.cpp",
    .title = "llama.cpp",
    .checked = "Not run here with llama.cpp: names of arguments are from its public documentation. "
               "Its types equal the library's bit for bit.",
    .modes = 1u << ES_PLAN_PROMPT | 1u << ES_PLAN_DECODE | 1u << ES_PLAN_NONE,
    .fit = fit_plan,
    .write = write_arguments};
