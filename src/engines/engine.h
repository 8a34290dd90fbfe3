/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h : an engine that plans are exported to.
 *
 * To add one: its file engine_NAME.c, which ends with its row, and a word in engines.c. Help and
 * errors list the rows.
 *
 *     engines.c   the registry, the comment that every export begins with
 *     fit.c       what an engine does instead of what it cannot do, and what that costs
 *     NAME.py     Python that follows the tables of a plan, where an engine is a Python program
 */
#ifndef ES_ENGINES_ENGINE_H
#define ES_ENGINES_ENGINE_H

#include <stdio.h>

#include <esscher/plan_export.h>

#include "base/memory.h"
#include "cache/cache.h"

/* What an engine does of a plan. Units begin as planned; fit() changes those that the engine cannot
 * run, by the functions below, and states why. */
typedef struct es_engine_fit {
    const es_plan *plan;
    const es_cache_unit *planned; /* (layers, kv_heads) */
    es_cache_unit *runs;          /* (layers, kv_heads) */
    int64_t *keys;                /* (layers, kv_heads) that the engine holds at most, of those that
                                     the plan counts */
    FILE *notes;                  /* lines about what it cannot do */
} es_engine_fit;

typedef struct es_engine {
    const char *name;
    const char *title;   /* as its authors write it */
    const char *checked; /* what the export was checked against, and what not */
    unsigned modes;      /* 1 << es_plan_mode of plans that it can run a part of */
    bool masks;          /* keys that are dropped are masked: no memory is saved */
    void (*fit)(es_engine_fit *fit);
    void (*write)(const es_engine_fit *fit, FILE *out); /* what follows the comment */
} es_engine;

/*! es_engine_at() : the engines in a fixed order; NULL beyond the last. */
const es_engine *es_engine_at(int64_t at);

/*! es_fit_full() : the unit keeps every key. es_fit_types() : K and V of the unit get these types,
 *  NULL: as the model computes; returns whether the plan has others. */
void es_fit_full(es_engine_fit *fit, int64_t unit);
bool es_fit_types(es_engine_fit *fit, int64_t unit, const es_kv_type *k, const es_kv_type *v);

/*! es_fit_same_format() : returns whether two number types are the same. */
bool es_fit_same_format(const es_kv_format *a, const es_kv_format *b);

/*! es_fit_drop_policies() : every unit whose policy is not among `names` (NULL-ended) keeps every
 *  key; a note names the policies. Returns how many there are. */
int64_t es_fit_drop_policies(es_engine_fit *fit, const char *const *names, const char *engine);

/*! es_type_error() : relative error of normal rows of head_dim numbers in a number type, by which
 *  types are compared; 0: as the model computes. es_type_finest() : the smallest error of K, or of
 *  V, over units first .. first + count - 1. */
double es_type_error(const es_kv_format *format, es_kv_side side, int64_t head_dim);
double es_type_finest(const es_engine_fit *fit, es_kv_side side, int64_t first, int64_t count);

/*! es_type_for() : of the types called `names` (NULL-ended), ordered from few bits to many, the
 *  first whose error is at most `error`; NULL: none. */
const es_kv_type *es_type_for(const char *const *names, double error, int64_t head_dim);

/*! es_fit_tables() : the plan as a dictionary of Python, PLAN = {...}: mode, prompt, and for each
 *  layer and key-value head policy, options, keys and types of what the engine runs. */
void es_fit_tables(const es_engine_fit *fit, FILE *out);

/* Python that belongs to an engine, NUL-ended: made from NAME.py when Esscher is built. */
extern const char es_engine_transformers_py[], es_engine_kvpress_py[];

#endif
