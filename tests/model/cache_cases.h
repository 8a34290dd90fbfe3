/* SPDX-License-Identifier: Apache-2.0 */
/* cache_cases.h : the golden decoders of tests/golden/cache and their cases: what a cache does to
 * each unit, and what it keeps. */
#ifndef ES_TESTS_CACHE_CASES_H
#define ES_TESTS_CACHE_CASES_H

#include "golden.h"
#include "numbers.h"

#include <esscher/model.h>
#include <esscher/npy.h>

#include "cache/cache.h"
#include "model/model.h"

static const char *const names[] = {"llama", "qwen3", "neox-serial"};
enum { NAMES = sizeof names / sizeof names[0] };

/* A golden decoder, its block, and what is expected of it. */
typedef struct decoder {
    const char *name;
    es_model *model;
    const es_model_config *config;
    json_t *expected;
    int32_t *ids;
    int64_t n, prompt, units; /* units: of all layers */
    es_cache_unit *unit;      /* (units) */
    double *late;             /* (units, prompt) */
    int32_t *last;            /* (units, n) */
} decoder;

static inline es_array load(const decoder *d, const char *file)
{
    char rest[96];
    es_array a;
    snprintf(rest, sizeof rest, "cache/%s/%s.npy", d->name, file);
    assert_ok(es_npy_load_as(golden_path(rest), ES_NPY_RAW_WHOLE, NULL, &a, &err));
    assert_int_equal(a.dtype, ES_F64);
    return a;
}

/* Runs the block by a cache; returns logits (n, vocab) in the model's precision. */
static inline void *run(const decoder *d, const es_cache *cache, int threads)
{
    const size_t item = es_dtype_size(es_model_precision(d->model));
    void *logits = malloc((size_t)(d->n * d->config->vocab) * item);
    const es_model_block block = {.ids = d->ids, .n = d->n, .token_logits = logits, .cache = cache};
    assert_ok(es_model_forward(d->model, &block, 1, &(es_exec){.threads = threads}, &err));
    return logits;
}

static inline decoder open_decoder(const char *name, es_dtype precision)
{
    decoder d = {.name = name};
    char rest[96];
    snprintf(rest, sizeof rest, "decoders/%s", name);
    assert_ok(
        es_model_open(golden_path(rest), &(es_model_opts){.precision = precision}, &d.model, &err));
    snprintf(rest, sizeof rest, "cache/%s/expected.json", name);
    d.expected = golden_file(rest);
    d.config = es_model_config_of(d.model);
    d.n = (int64_t)golden_real(d.expected, "n");
    d.prompt = (int64_t)golden_real(d.expected, "prompt");
    d.units = d.config->layers * d.config->kv_heads;
    d.unit = calloc((size_t)d.units, sizeof *d.unit);
    d.late = calloc((size_t)(d.units * d.prompt), sizeof *d.late);
    d.last = calloc((size_t)(d.units * d.n), sizeof *d.last);
    d.ids = calloc((size_t)d.n, sizeof *d.ids);
    es_array ids = load(&d, "ids");
    assert_int_equal(ids.shape[0], d.n);
    for (int64_t i = 0; i < d.n; i++)
        d.ids[i] = (int32_t)((double *)ids.data)[i];
    es_array_free(&ids);
    const es_cache full = {.prompt = d.prompt, .units = d.unit, .late = d.late};
    free(run(&d, &full, 1));
    return d;
}

static inline void close_decoder(decoder *d)
{
    es_model_close(d->model);
    json_decref(d->expected);
    free(d->unit);
    free(d->late);
    free(d->last);
    free(d->ids);
}

/* ---- cases ---- */

/* A value of a number that may be one for all, one for each layer, or one for each unit. */
static inline const json_t *for_unit(const decoder *d, const json_t *value, int64_t unit)
{
    const int64_t units = d->config->kv_heads;
    if (!json_is_array(value))
        return value;
    const json_t *layer = json_array_get(value, (size_t)(unit / units));
    return json_is_array(layer) ? json_array_get(layer, (size_t)(unit % units)) : layer;
}

/* Writes an option as es_evict_parse() reads it. */
static inline void add_option(const char *key, const json_t *value, char *text, size_t size)
{
    const size_t used = strlen(text);
    if (json_is_boolean(value))
        snprintf(text + used, size - used, ":%s=%s", key, json_is_true(value) ? "yes" : "no");
    else if (json_is_string(value))
        snprintf(text + used, size - used, ":%s=%s", key, json_string_value(value));
    else
        snprintf(text + used, size - used, ":%s=%.15g", key, json_number_value(value));
}

/* Reads a type as the golden files write it, with the groups of KIVI. */
static inline es_kv_format format_of(const decoder *d, const json_t *one, const char *side,
                                     int64_t unit)
{
    const json_t *value = for_unit(d, json_object_get(one, side), unit);
    es_kv_format format = {0};
    if (!value)
        return format;
    assert_ok(es_kv_format_parse(json_string_value(value), &format, &err));
    if (es_kv_format_by_query(&format)) {
        format.group = (int64_t)golden_real(one, "group");
        format.residual = (int64_t)golden_real(one, "residual");
    }
    return format;
}

/* Writes the policy of a case with its options; empty: it has none. */
static inline void write_policy(const json_t *one, char *text, size_t size)
{
    const char *policy = json_string_value(json_object_get(one, "policy")), *key;
    json_t *value;
    snprintf(text, size, "%s", policy ? policy : "");
    json_object_foreach(json_object_get(one, "options"), key, value)
        add_option(key, value, text, size);
}

/* Sets the units as a case says. */
static inline void set_units(const decoder *d, const json_t *one)
{
    char text[200];
    write_policy(one, text, sizeof text);
    for (int64_t u = 0; u < d->units; u++) {
        es_evict_init(&d->unit[u].evict, NULL);
        if (*text)
            assert_ok(es_evict_parse(text, &d->unit[u].evict, &err));
        d->unit[u].evict.keys = json_integer_value(for_unit(d, json_object_get(one, "keys"), u));
        d->unit[u].k = format_of(d, one, "ktype", u);
        d->unit[u].v = format_of(d, one, "vtype", u);
    }
}

/* Kept sets equal those of the case. */
static inline void same_kept(const decoder *d, const json_t *one)
{
    for (int64_t u = 0; u < d->units; u++) {
        const json_t *kept = for_unit(d, json_object_get(one, "kept"), u);
        size_t at = 0;
        for (int64_t j = 0; j < d->prompt; j++) {
            if (d->last[u * d->n + j] == d->n - 1)
                assert_int_equal(json_integer_value(json_array_get(kept, at++)), j);
            else
                assert_int_equal(d->last[u * d->n + j], d->prompt - 1);
        }
        assert_int_equal(at, json_array_size(kept));
    }
}

/* Keys that go equal those of the case, step by step. */
static inline void same_evicted(const decoder *d, const json_t *one)
{
    for (int64_t u = 0; u < d->units; u++) {
        const json_t *evicted = for_unit(d, json_object_get(one, "evicted"), u);
        for (int64_t t = 0; t < d->n - 1; t++) {
            const int64_t key = json_integer_value(json_array_get(evicted, (size_t)t));
            if (key >= 0)
                assert_int_equal(d->last[u * d->n + key], t);
        }
    }
}

#endif
