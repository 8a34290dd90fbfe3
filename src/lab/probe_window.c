/* probe_window.c : which tokens are a context: n consecutive rows of the pool. */
#include "lab/probe_inside.h"

#include <math.h>

static es_status check_window(const es_probe *p, int64_t replicate, int64_t windows, es_error *err)
{
    const int64_t n = p->spec.sizes[p->spec.n_sizes - 1];
    if (windows < 1 || windows > INT64_C(1) << 32 || replicate < 0 || replicate >= windows)
        return es_fail(err, ES_E_RANGE, "probe.window", "count from 0, up to 2^32 of them",
                       "window %lld of %lld", (long long)replicate, (long long)windows);
    if (n > p->pool.tokens)
        return es_fail(err, ES_E_RANGE, "probe.window", "a larger pool, or smaller n",
                       "a context of %lld tokens from a pool of %lld", (long long)n,
                       (long long)p->pool.tokens);
    return ES_OK;
}

/* The pool is a circle of `windows` equal arcs, turned by a random angle; a window begins in the
 * first part of its arc, at random in what it does not fill. That part is a block at least: windows
 * that all began at the same place of a block would see the same positions, for every arc may be a
 * whole number of blocks. */
es_status es_probe_window_first(const es_probe *probe, int64_t replicate, int64_t windows,
                                int64_t *first, es_error *err)
{
    ES_TRY(check_window(probe, replicate, windows, err));
    const double N = (double)probe->pool.tokens, arc = N / (double)windows;
    const double left = arc - (double)probe->spec.sizes[probe->spec.n_sizes - 1];
    const double room = fmin(fmax(left, (double)probe->pool.length), arc);
    es_address at = {.seed = probe->spec.seed, .experiment = ES_PROBE_WINDOW};
    const double turn = N * es_uniform_at(&at);
    at.cell = 1;
    at.token = (uint64_t)replicate;
    const double start = turn + (double)replicate * arc + room * es_uniform_at(&at);
    *first = (int64_t)start % probe->pool.tokens;
    return ES_OK;
}

es_status es_probe_window_rows(const es_probe *probe, int64_t replicate, int64_t windows,
                               int64_t *rows, es_error *err)
{
    const int64_t n = probe->spec.sizes[probe->spec.n_sizes - 1];
    int64_t first;
    ES_TRY(es_probe_window_first(probe, replicate, windows, &first, err));
    for (int64_t i = 0; i < n; i++)
        rows[i] = (first + i) % probe->pool.tokens;
    return ES_OK;
}
