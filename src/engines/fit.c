/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c : what an engine does instead of what it cannot do of a plan. */
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "engines/engine.h"
#include "model/plan.h"

/* ---- units ---- */

void es_fit_full(es_engine_fit *fit, int64_t unit)
{
    es_evict_init(&fit->runs[unit].evict, NULL);
    fit->keys[unit] = es_plan_sees_all(fit->plan, unit / fit->plan->kv_heads);
}

bool es_fit_same_format(const es_kv_format *a, const es_kv_format *b)
{
    char x[ES_KV_NAME], y[ES_KV_NAME];
    return strcmp(es_kv_format_name(a, x, sizeof x), es_kv_format_name(b, y, sizeof y)) == 0;
}

bool es_fit_types(es_engine_fit *fit, int64_t unit, const es_kv_type *k, const es_kv_type *v)
{
    es_cache_unit *runs = &fit->runs[unit];
    const es_cache_unit *planned = &fit->planned[unit];
    runs->k = (es_kv_format){.type = k, .scale = 1.0};
    runs->v = (es_kv_format){.type = v, .scale = 1.0};
    return !es_fit_same_format(&runs->k, &planned->k) || !es_fit_same_format(&runs->v, &planned->v);
}

int64_t es_fit_drop_policies(es_engine_fit *fit, const char *const *names, const char *engine)
{
    const int64_t units = fit->plan->layers * fit->plan->kv_heads;
    char list[160] = "";
    int64_t dropped = 0;
    for (int64_t u = 0; u < units; u++) {
        const es_eviction *policy = fit->runs[u].evict.policy;
        const char *name = es_eviction_name(policy);
        bool known = !policy;
        for (int i = 0; names[i] && !known; i++)
            known = strcmp(names[i], name) == 0;
        if (known)
            continue;
        const size_t used = strlen(list);
        if (!strstr(list, name))
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", name);
        es_fit_full(fit, u);
        dropped++;
    }
    if (dropped)
        fprintf(fit->notes, "policy %s: %lld of %lld key-value heads keep every key in %s\n", list,
                (long long)dropped, (long long)units, engine);
    return dropped;
}

/* ---- number types ---- */

enum { ROWS = 64 };

/* Returns number i of a fixed sequence that is nearly normal: the sum of 12 uniform numbers. */
static float normal_at(uint64_t i)
{
    double sum = -6.0;
    for (uint64_t part = 0; part < 12; part++) {
        uint64_t z = (12 * i + part) * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        sum += (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
    }
    return (float)sum;
}

double es_type_error(const es_kv_format *format, es_kv_side side, int64_t head_dim)
{
    static const int64_t most = 256; /* channels: errors of longer rows are the same */
    float rows[ROWS * 256] = {0}, given[ROWS * 256];
    const int64_t d = head_dim < most ? head_dim : most;
    double squares = 0.0, errors = 0.0;
    if (!format->type)
        return 0.0;
    for (int64_t i = 0; i < ROWS * d; i++)
        rows[i] = given[i] = normal_at((uint64_t)i);
    const es_view view = es_view_f32(rows, ROWS, d);
    es_kv_round(format, side, es_kv_peak(format, &view), &view);
    for (int64_t i = 0; i < ROWS * d; i++) {
        errors += pow((double)rows[i] - (double)given[i], 2.0);
        squares += (double)given[i] * (double)given[i];
    }
    return sqrt(errors / squares);
}

double es_type_finest(const es_engine_fit *fit, es_kv_side side, int64_t first, int64_t count)
{
    double finest = (double)INFINITY;
    for (int64_t u = first; u < first + count; u++) {
        const es_cache_unit *unit = &fit->planned[u];
        finest = fmin(finest, es_type_error(side == ES_KV_KEYS ? &unit->k : &unit->v, side,
                                            fit->plan->head_dim));
    }
    return finest;
}

const es_kv_type *es_type_for(const char *const *names, double error, int64_t head_dim)
{
    for (int i = 0; names[i]; i++) {
        const es_kv_format format = {.type = es_kv_type_find(names[i]), .scale = 1.0};
        if (es_type_error(&format, ES_KV_VALUES, head_dim) <= error)
            return format.type;
    }
    return NULL;
}

/* ---- tables ---- */

/* Writes one unit as a dictionary. */
static void write_unit(const es_engine_fit *fit, int64_t unit, FILE *out)
{
    const es_cache_unit *u = &fit->runs[unit];
    char policy[ES_PLAN_POLICY], k[ES_KV_NAME], v[ES_KV_NAME];
    es_evict_write(&u->evict, policy, sizeof policy);
    fprintf(out, "{\"policy\": \"%s\", \"keys\": %lld, \"k_type\": \"%s\", \"v_type\": \"%s\"}",
            policy, (long long)fit->keys[unit], es_kv_format_name(&u->k, k, sizeof k),
            es_kv_format_name(&u->v, v, sizeof v));
}

void es_fit_tables(const es_engine_fit *fit, FILE *out)
{
    const es_plan *p = fit->plan;
    fprintf(out,
            "PLAN = {\n    \"mode\": \"%s\",\n    \"prompt\": %lld,\n    \"heads\": %lld,\n"
            "    \"layers\": [\n",
            es_plan_mode_name(p->mode), (long long)p->prompt, (long long)p->heads);
    for (int64_t l = 0; l < p->layers; l++) {
        fprintf(out, "        [\n");
        for (int64_t g = 0; g < p->kv_heads; g++) {
            fprintf(out, "            ");
            write_unit(fit, l * p->kv_heads + g, out);
            fprintf(out, ",\n");
        }
        fprintf(out, "        ],\n");
    }
    fprintf(out, "    ],\n}\n");
}
