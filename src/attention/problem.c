/* SPDX-License-Identifier: Apache-2.0 */
/* problem.c : checks shapes, options and the range of numbers before anything is computed: scores
 * and squares must fit the precision of the kernels. */
#include "attention/problem.h"

#include <float.h>
#include <math.h>

#include "attention/block.h"
#include "attention/mask.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/view.h"

/* In nats. The inverse of a cap times a small score must be a normal number in f32. */
#define LEAST_CAP 1e-18
#define MOST_CAP  1e18

/* Checks the score scales; the default is 1/sqrt(d). */
static es_status check_scales(es_problem *p, const es_attend_opts *opts, es_error *err)
{
    p->default_scale = 1.0 / sqrt((double)p->d);
    p->scales = opts->scales ? opts->scales : &p->default_scale;
    p->n_scales = opts->scales ? opts->n_scales : 1;
    if (p->n_scales < 1 || p->n_scales > 4096)
        return es_fail(err, ES_E_ARGUMENT, "attend.scales", "give 1 to 4096 scales",
                       "%lld score scales", (long long)p->n_scales);
    for (int64_t s = 0; s < p->n_scales; s++) {
        if (!(p->scales[s] >= 0.0) || !isfinite(p->scales[s]))
            return es_fail(err, ES_E_ARGUMENT, "attend.scale",
                           "a score scale is finite and not negative; negate the queries instead",
                           "score scale %lld is %g", (long long)s, p->scales[s]);
        p->largest_scale = fmax(p->largest_scale, p->scales[s]);
    }
    return ES_OK;
}

/* Checks the cap of scores and the logit of the sink. */
static es_status check_softmax(es_problem *p, const es_attend_opts *opts, es_error *err)
{
    const double cap = opts->score_cap;
    p->sink = opts->sink ? *opts->sink * ES_LOG2_E : -INFINITY;
    if (isnan(p->sink) || p->sink == INFINITY)
        return es_fail(err, ES_E_ARGUMENT, "attend.sink",
                       "a sink logit is a number of nats; -inf or a NULL pointer for no sink",
                       "the sink logit is %g", *opts->sink);
    if (cap != 0.0 && !(cap >= LEAST_CAP && cap <= MOST_CAP))
        return es_fail(err, ES_E_ARGUMENT, "attend.score_cap",
                       "from 1e-18 to 1e18 nats; 0 for no cap", "the cap of scores is %g", cap);
    p->cap = cap * ES_LOG2_E;
    return ES_OK;
}

/* Checks the prefixes, which increase; the default is all keys. */
static es_status check_prefixes(es_problem *p, const es_attend_opts *opts, es_error *err)
{
    p->default_prefix = p->n;
    p->prefixes = opts->prefixes ? opts->prefixes : &p->default_prefix;
    p->n_prefixes = opts->prefixes ? opts->n_prefixes : 1;
    if (p->n_prefixes < 1)
        return es_fail(err, ES_E_ARGUMENT, "attend.prefixes", "give at least one prefix",
                       "no prefix");
    int64_t before = 0;
    for (int64_t i = 0; i < p->n_prefixes; i++) {
        if (p->prefixes[i] <= before || p->prefixes[i] > p->n)
            return es_fail(err, ES_E_ARGUMENT, "attend.prefix",
                           "prefixes increase strictly from 1 to n at most",
                           "prefix %lld is %lld, after %lld, with n = %lld", (long long)i,
                           (long long)p->prefixes[i], (long long)before, (long long)p->n);
        before = p->prefixes[i];
    }
    if (p->exclude_self && !p->mask && p->prefixes[0] == 1 && p->sink == -INFINITY)
        return es_fail(err, ES_E_EMPTY, "attend.masked",
                       "start at two keys, or let queries see themselves",
                       "with one key and the self token excluded, query 0 sees no key");
    return ES_OK;
}

/* In self mode query i meets keys up to the last prefix, whatever prefix it enters at. */
static es_status check_mask(es_problem *p, es_error *err)
{
    const int64_t last = p->n_prefixes - 1;
    p->pairs = (double)es_problem_queries_at(p, last) * (double)p->prefixes[last];
    if (!p->mask)
        return ES_OK;
    ES_TRY(es_mask_check(p->mask, p->m, p->n, err));
    p->pairs = es_mask_pairs(p);
    return p->sink == -INFINITY ? es_mask_check_sight(p, err) : ES_OK;
}

/* Checks the numbers of largest weights whose mass is asked for. */
static es_status check_top_k(es_problem *p, const es_attend_opts *opts, es_error *err)
{
    p->top_k = opts->top_k;
    p->n_top_k = opts->top_k ? opts->n_top_k : 0;
    for (int64_t i = 0; i < p->n_top_k; i++) {
        if (p->top_k[i] < 1 || p->top_k[i] > 65536)
            return es_fail(err, ES_E_ARGUMENT, "attend.top_k", "k goes from 1 to 65536",
                           "top-k size %lld", (long long)p->top_k[i]);
        p->kept = p->top_k[i] > p->kept ? p->top_k[i] : p->kept;
    }
    return ES_OK;
}

/* Checks the options for spreads over keys and over blocks of keys. */
static es_status check_spread(es_problem *p, const es_attend_opts *opts, es_error *err)
{
    const int64_t block = opts->block;
    p->spread = opts->spread;
    p->block = block;
    if (block < 0 || block > ES_ATTEND_BLOCK || (block & (block - 1)))
        return es_fail(err, ES_E_ARGUMENT, "attend.block",
                       "a power of two from 1 to 1024; 0 for no blocks", "blocks of %lld keys",
                       (long long)block);
    return ES_OK;
}

es_status es_problem_wants(const es_problem *p, const es_attend_out *out, es_error *err)
{
    if ((out->spread2 && !p->spread) || ((out->block_spread2 || out->block_powers) && !p->block))
        return es_fail(
            err, ES_E_ARGUMENT, "attend.spread", "set opts.spread, opts.block",
            "the output has spreads of keys or blocks, but the options do not ask for them");
    return ES_OK;
}

es_status es_problem_shape(es_problem *p, int64_t m, int64_t n, int64_t d, int64_t dv,
                           const es_attend_opts *opts, es_error *err)
{
    static const es_attend_opts defaults;
    if (!opts)
        opts = &defaults;
    *p = (es_problem){.m = m,
                      .n = n,
                      .d = d,
                      .dv = dv,
                      .self = opts->self,
                      .exclude_self = opts->exclude_self,
                      .mask = es_mask_is_given(opts->mask) ? opts->mask : NULL,
                      .precision = opts->precision ? opts->precision : ES_F32,
                      .exec = opts->exec,
                      .budget = opts->exec ? opts->exec->budget : NULL};
    if (p->precision != ES_F32 && p->precision != ES_F64)
        return es_fail(err, ES_E_ARGUMENT, "attend.precision", "use ES_F32 or ES_F64",
                       "unknown precision %d", (int)p->precision);
    if (d < 1 || d > ES_MAX_DIM || dv < 1 || dv > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "attend.dim", "1 <= d, dv <= 4096", "d = %lld, dv = %lld",
                       (long long)d, (long long)dv);
    if (m < 1 || n < 1)
        return es_fail(err, ES_E_EMPTY, "attend.count",
                       "there must be at least one query and one key", "%lld queries, %lld keys",
                       (long long)m, (long long)n);
    if (m > ES_MAX_ROWS || n > ES_MAX_ROWS)
        return es_fail(err, ES_E_SHAPE, "attend.count", "at most 2^40 queries and keys",
                       "%lld queries, %lld keys", (long long)m, (long long)n);
    if (p->self && m != n)
        return es_fail(err, ES_E_SHAPE, "attend.self", "in self mode the queries are the tokens",
                       "%lld queries but %lld keys", (long long)m, (long long)n);
    ES_TRY(check_scales(p, opts, err));
    ES_TRY(check_softmax(p, opts, err));
    ES_TRY(check_prefixes(p, opts, err));
    ES_TRY(check_mask(p, err));
    ES_TRY(check_spread(p, opts, err));
    return check_top_k(p, opts, err);
}

bool es_problem_scales_apart(const es_problem *p)
{
    return p->n_scales > 1 && (p->cap > 0.0 || es_mask_has_factors(p->mask));
}

/* By Cauchy-Schwarz no partial sum of a score exceeds |q||k|; weights stay below 2^ES_OFFSET_SLACK
 * and are summed over at most ES_FOLD_KEYS + one tile in the kernel's precision. If those bounds
 * fit, nothing overflows. */
static es_status check_range(const es_problem *p, const es_scan *q, const es_scan *k,
                             const es_scan *v, es_error *err)
{
    const double most = p->precision == ES_F32 ? FLT_MAX : DBL_MAX;
    const double factor = p->largest_scale * ES_LOG2_E;
    const char *hint =
        p->precision == ES_F32 ? "use precision f64, or smaller numbers" : "use smaller numbers";
    if (log2(factor * q->max_norm) + log2(k->max_norm) >= log2(most) ||
        factor * q->max_abs >= most || k->max_abs >= most)
        return es_fail(err, ES_E_RANGE, "attend.range.score", hint,
                       "scores up to %.3g x %.3g x %.3g do not fit %s", p->largest_scale,
                       q->max_norm, k->max_norm, es_dtype_name(p->precision));
    if (v->max_abs >= most / ((double)(2 * ES_FOLD_KEYS) * exp2(ES_OFFSET_SLACK)))
        return es_fail(err, ES_E_RANGE, "attend.range.value", hint,
                       "values up to %.3g do not fit %s", v->max_abs, es_dtype_name(p->precision));
    /* squared weights times squared distances from the centre, which is as long as a value */
    if (p->spread &&
        2.0 * log2(2.0 * v->max_norm) >= log2(most) - log2(2 * ES_FOLD_KEYS) - 2 * ES_OFFSET_SLACK)
        return es_fail(err, ES_E_RANGE, "attend.range.spread", hint,
                       "squares of values up to %.3g do not fit %s", v->max_norm,
                       es_dtype_name(p->precision));
    return ES_OK;
}

es_status es_problem_views(es_problem *p, const es_view *q, const es_view *k, const es_view *v,
                           const es_attend_opts *opts, es_error *err)
{
    ES_TRY(es_view_check(q, "q", err));
    ES_TRY(es_view_check(k, "k", err));
    ES_TRY(es_view_check(v, "v", err));
    if (q->cols != k->cols)
        return es_fail(err, ES_E_SHAPE, "attend.dim",
                       "queries and keys have the same number of columns",
                       "q has %lld columns, k has %lld", (long long)q->cols, (long long)k->cols);
    if (k->rows != v->rows)
        return es_fail(err, ES_E_SHAPE, "attend.rows", "there is one value per key",
                       "k has %lld rows, v has %lld", (long long)k->rows, (long long)v->rows);
    ES_TRY(es_problem_shape(p, q->rows, k->rows, q->cols, v->cols, opts, err));
    p->q = q;
    p->k = k;
    p->v = v;
    return ES_OK;
}

/* Checks every element of them: finite, and neither scores nor outputs can overflow. After this no
 * NaN can arise inside the engine, which uses NaN to mean "masked". */
static es_status scan_all(const es_problem *p, es_error *err)
{
    es_scan q, k, v;
    ES_TRY(es_view_scan(p->q, "q", &q, err));
    ES_TRY(es_view_scan(p->k, "k", &k, err));
    ES_TRY(es_view_scan(p->v, "v", &v, err));
    return check_range(p, &q, &k, &v, err);
}

es_status es_problem_data(es_problem *p, const es_view *q, const es_view *k, const es_view *v,
                          const es_attend_opts *opts, es_error *err)
{
    ES_TRY(es_problem_views(p, q, k, v, opts, err));
    return scan_all(p, err);
}

/* No element and no row is longer than all rows together. What is too small for its square to be
 * seen, below 1e-22, is far below the floor even where there are 4096 of it in a row. */
static es_status bound_or_scan(const es_view *v, const char *name, double squares, es_scan *out,
                               es_error *err)
{
    if (!isfinite(squares))
        return es_view_scan(v, name, out, err);
    out->max_norm = out->max_abs = sqrt(1.02 * squares) + 1e-15;
    return ES_OK;
}

es_status es_problem_scan_bounds(const es_problem *p, double queries2, double keys2, double values2,
                                 es_error *err)
{
    es_scan q, k, v;
    ES_TRY(bound_or_scan(p->q, "q", queries2, &q, err));
    ES_TRY(bound_or_scan(p->k, "k", keys2, &k, err));
    ES_TRY(bound_or_scan(p->v, "v", values2, &v, err));
    return check_range(p, &q, &k, &v, NULL) == ES_OK ? ES_OK : scan_all(p, err);
}
