/* SPDX-License-Identifier: Apache-2.0 */
/* probe_rows.c : rows of a pool that keys, sections and windows of the text take, beside those of
 * kit/pool_layer.c. All are pure functions of (seed, layer, number) and of the pool's size, so that
 * a streamed pool can store them in advance. */
#include "experiments/kit/probe_inside.h"

#include <math.h>

#include "random/random.h"

/* ---- rows in random order ---- */

es_status es_probe_key_rows(const es_probe_spec *spec, int64_t tokens, int64_t layer, int64_t n,
                            int64_t *rows, es_error *err)
{
    const es_address at = {
        .seed = spec->seed, .experiment = ES_PROBE_LOCAL, .cell = (uint64_t)layer};
    return es_probe_shuffled_rows(&at, tokens, n, rows, err);
}

/* ---- sections ---- */

int64_t es_probe_section_first(int64_t tokens, int64_t section)
{
    return tokens * section / ES_PROBE_SECTIONS;
}

/* Alike in all sections, so that each weighs the same. */
int64_t es_probe_section_each(const es_probe_spec *spec, int64_t tokens)
{
    const int64_t least = tokens / ES_PROBE_SECTIONS, asked = ES_PROBE_SECTION_ASKED;
    const int64_t wanted = es_probe_queries_among(spec, tokens) / ES_PROBE_SECTIONS;
    const int64_t most = least < asked ? least : asked;
    return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

es_status es_probe_section_rows(const es_probe_spec *spec, int64_t tokens, int64_t layer,
                                int64_t *rows, es_error *err)
{
    const int64_t each = es_probe_section_each(spec, tokens);
    for (int64_t i = 0; i < ES_PROBE_SECTIONS; i++, rows += each) {
        const int64_t first = es_probe_section_first(tokens, i);
        const int64_t count = es_probe_section_first(tokens, i + 1) - first;
        const es_address at = {.seed = spec->seed,
                               .experiment = ES_PROBE_SECTION_QUERIES,
                               .cell = (uint64_t)layer << 32 | (uint64_t)i};
        ES_TRY(es_probe_shuffled_rows(&at, count, each, rows, err));
        for (int64_t j = 0; j < each; j++)
            rows[j] += first;
    }
    return ES_OK;
}

/* ---- windows: n consecutive rows of the pool ---- */

/* Fails if windows of the largest n do not fit the pool, or if their number does not fit an
 * address. */
static es_status check_window(const es_probe_spec *spec, const es_pool_info *pool,
                              int64_t replicate, int64_t windows, es_error *err)
{
    const int64_t n = spec->sizes[spec->n_sizes - 1];
    if (windows < 1 || windows > INT64_C(1) << 32 || replicate < 0 || replicate >= windows)
        return es_fail(err, ES_E_RANGE, "probe.window", "count from 0, up to 2^32 of them",
                       "window %lld of %lld", (long long)replicate, (long long)windows);
    if (n > pool->tokens)
        return es_fail(err, ES_E_RANGE, "probe.window", "a larger pool, or smaller n",
                       "a context of %lld tokens from a pool of %lld", (long long)n,
                       (long long)pool->tokens);
    return ES_OK;
}

/* The pool is a circle of `windows` equal arcs, turned by a random angle; a window begins in the
 * first part of its arc, at random in what it does not fill. That part is a block at least: windows
 * that all began at the same place of a block would see the same positions, for every arc may be a
 * whole number of blocks. */
static es_status window_first(const es_probe_spec *spec, const es_pool_info *pool,
                              int64_t replicate, int64_t windows, int64_t *first, es_error *err)
{
    ES_TRY(check_window(spec, pool, replicate, windows, err));
    const double N = (double)pool->tokens, arc = N / (double)windows;
    const double left = arc - (double)spec->sizes[spec->n_sizes - 1];
    const double span = fmin(fmax(left, (double)pool->length), arc);
    es_address at = {.seed = spec->seed, .experiment = ES_PROBE_WINDOW};
    const double turn = N * es_uniform_at(&at);
    at.cell = 1;
    at.token = (uint64_t)replicate;
    const double start = turn + (double)replicate * arc + span * es_uniform_at(&at);
    *first = (int64_t)start % pool->tokens;
    return ES_OK;
}

es_status es_probe_window_first(const es_probe *probe, int64_t replicate, int64_t windows,
                                int64_t *first, es_error *err)
{
    return window_first(&probe->spec, &probe->pool, replicate, windows, first, err);
}

es_status es_probe_window_rows(const es_probe_spec *spec, const es_pool_info *pool,
                               int64_t replicate, int64_t windows, int64_t *rows, es_error *err)
{
    const int64_t n = spec->sizes[spec->n_sizes - 1];
    int64_t first;
    ES_TRY(window_first(spec, pool, replicate, windows, &first, err));
    for (int64_t i = 0; i < n; i++)
        rows[i] = (first + i) % pool->tokens;
    return ES_OK;
}

/* ---- all of them ---- */

/* Rows of whole blocks: those whose sinks are looked at, and passages. Written only if there is
 * somewhere to write; counted in any case. */
static void add_block(const int64_t *starts, int64_t block, int64_t **rows, int64_t *count)
{
    for (int64_t row = starts[block]; row < starts[block + 1]; row++, ++*count)
        if (*rows)
            *(*rows)++ = row;
}

/* Adds the rows of whole blocks that are read besides draws: those for sinks and for passages. */
static int64_t add_blocks(const es_probe_wants *w, const es_pool_info *pool, const int64_t *starts,
                          int64_t *rows)
{
    int64_t count = 0;
    for (int64_t b = 0; b < pool->blocks && b < ES_PROBE_SINKS && pool->specials; b++)
        add_block(starts, b, &rows, &count);
    for (int64_t p = 1; p <= w->passages && p <= pool->blocks; p++)
        for (int64_t i = 0; i < p; i++)
            add_block(starts, pool->blocks * i / p, &rows, &count);
    return count;
}

es_status es_probe_keep(void *wants, const es_pool_info *about, const int64_t *starts,
                        int64_t layer, int64_t *rows, int64_t *count, es_error *err)
{
    const es_probe_wants *w = wants;
    const es_probe_spec *spec = w->spec;
    const int64_t tokens = about->tokens, n = spec->sizes[spec->n_sizes - 1];
    const int64_t queries = es_probe_queries_among(spec, tokens);
    const int64_t keys = tokens < ES_PROBE_KEYS ? tokens : ES_PROBE_KEYS;
    const bool sections = w->sections && tokens >= ES_PROBE_SECTIONS;
    const int64_t asked = sections ? ES_PROBE_SECTIONS * es_probe_section_each(spec, tokens) : 0;
    *count = queries + keys + asked + (w->replicates + w->windows) * n +
             add_blocks(w, about, starts, NULL);
    if (!rows)
        return ES_OK;
    ES_TRY(es_probe_query_rows(spec, tokens, layer, rows, err));
    rows += queries;
    ES_TRY(es_probe_key_rows(spec, tokens, layer, keys, rows, err));
    rows += keys;
    if (sections)
        ES_TRY(es_probe_section_rows(spec, tokens, layer, rows, err));
    rows += asked;
    for (int64_t r = 0; r < w->replicates; r++, rows += n)
        ES_TRY(es_probe_draw_rows(spec, tokens, layer, r, rows, err));
    for (int64_t r = 0; r < w->windows; r++, rows += n)
        ES_TRY(es_probe_window_rows(spec, about, r, w->windows, rows, err));
    add_blocks(w, about, starts, rows);
    return ES_OK;
}
