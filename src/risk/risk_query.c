/* SPDX-License-Identifier: Apache-2.0 */
/* risk_query.c : one query's weights and values, ready for exact risks; what they say at once. */
#include <esscher/policy_risk.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/view.h"
#include "policy/policy_row.h"
#include "risk/policy_risk.h"
#include "risk/policy_terms.h"

static const double MOST_VALUE = 1e150; /* squares must fit a number */

/* ---- a query ---- */

/* Fails for a score that is NaN or +inf. */
static es_status check_score(double score, int64_t at, const char *what, es_error *err)
{
    if (!isnan(score) && score != (double)INFINITY)
        return ES_OK;
    return es_fail_at(err, ES_E_NONFINITE, 0, at, "risk.score",
                      "use numbers, or -inf for a weight of zero", "a %s is %g", what, score);
}

/* Fails for shapes that do not fit and values that are not finite or too large. */
static es_status check_input(const double *scores, int64_t n, const es_view *values, es_error *err)
{
    es_scan scan;
    if (!scores || !values)
        return es_fail(err, ES_E_ARGUMENT, "risk.null", "scores and values",
                       "an argument is missing");
    ES_TRY(es_view_check(values, "values", err));
    if (n < 1 || values->rows != n || values->cols < 1 || values->cols > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "risk.shape", "a row of values for every key",
                       "%lld keys, values (%lld, %lld)", (long long)n, (long long)values->rows,
                       (long long)values->cols);
    ES_TRY(es_view_scan(values, "values", &scan, err));
    if (scan.max_abs > MOST_VALUE)
        return es_fail(err, ES_E_RANGE, "risk.value",
                       "use values up to 1e150: their squares must be finite",
                       "a value of magnitude %g", scan.max_abs);
    for (int64_t j = 0; j < n; j++)
        ES_TRY(check_score(scores[j], j, "score", err));
    return ES_OK;
}

/* Returns a count of doubles rounded up to ES_ALIGN bytes. */
static int64_t aligned(int64_t count)
{
    const int64_t step = ES_ALIGN / (int64_t)sizeof(double);
    return (count + step - 1) / step * step;
}

/* Allocates the arrays of a query in one piece, which begins with `weights`; each array is aligned.
 * `off` has a few rows more than keys, because nodes read whole lanes. */
static es_status make_arrays(es_risk_query *q, es_mem_limit *budget, es_error *err)
{
    const int64_t n = aligned(q->n), values = aligned(q->n * q->dv), output = aligned(q->dv);
    const int64_t off = aligned((q->n + ES_RISK_LANES) * q->dv);
    ES_TRY(ES_MEM_NEW(budget, q->weights, 3 * n + values + output + off, "a query", err));
    q->logs = q->weights + n;
    q->reach = q->logs + n;
    q->values = q->reach + n;
    q->output = q->values + values;
    q->off = q->output + output;
    return ES_OK;
}

/* Computes weights and their logarithms from the scores in q->logs (n). Returns the key of largest
 * weight, or -1 where none has any. */
static int64_t weigh(es_risk_query *q)
{
    int64_t top = 0;
    double total = 0.0;
    for (int64_t j = 1; j < q->n; j++)
        top = q->logs[j] > q->logs[top] ? j : top;
    const double most = q->logs[top];
    if (!(most > -(double)INFINITY))
        return -1;
    for (int64_t j = 0; j < q->n; j++)
        total += q->weights[j] = exp(q->logs[j] - most);
    for (int64_t j = 0; j < q->n; j++) {
        q->weights[j] /= total;
        q->logs[j] = q->logs[j] - most - log(total);
    }
    return top;
}

/* |u| of dv numbers, which neither overflows nor vanishes on the way. */
static double length_of(const double *u, int64_t dv)
{
    double most = 0.0, square = 0.0;
    for (int64_t l = 0; l < dv; l++)
        most = fmax(most, fabs(u[l]));
    for (int64_t l = 0; l < dv && most > 0.0; l++)
        square += (u[l] / most) * (u[l] / most);
    return most * sqrt(square);
}

/* Values are measured from that of the largest weight first: where it has nearly all of it, its own
 * u is a small sum over the others, not the rounding of a difference. */
static void measure(int64_t top, es_risk_query *q)
{
    const double *from = q->values + top * q->dv;
    for (int64_t j = 0; j < q->n; j++)
        for (int64_t l = 0; l < q->dv; l++) {
            q->off[j * q->dv + l] = q->values[j * q->dv + l] - from[l];
            q->output[l] += q->weights[j] * q->off[j * q->dv + l];
        }
    for (int64_t j = 0; j < q->n; j++) {
        for (int64_t l = 0; l < q->dv; l++)
            q->off[j * q->dv + l] -= q->output[l];
        q->reach[j] = length_of(q->off + j * q->dv, q->dv);
        q->spread2 += q->weights[j] * q->reach[j] * q->reach[j];
    }
    for (int64_t l = 0; l < q->dv; l++)
        q->output[l] += from[l];
}

es_status es_risk_query_with_sink(const double *scores, int64_t n, const es_view *values,
                                  double sink, es_mem_limit *budget, es_risk_query *out,
                                  es_error *err)
{
    if (!out)
        return es_fail(err, ES_E_ARGUMENT, "risk.null", "pass an object for the result",
                       "an argument is missing");
    *out = (es_risk_query){0};
    ES_TRY(check_input(scores, n, values, err));
    ES_TRY(check_score(sink, n, "sink", err));
    const bool has_sink = sink > -(double)INFINITY;
    es_risk_query q = {.n = n + has_sink, .dv = values->cols, .sink = has_sink};
    es_status status = make_arrays(&q, budget, err);
    if (status == ES_OK) {
        for (int64_t j = 0; j < n; j++)
            es_view_read_row(values, j, q.values + j * q.dv); /* the sink's row stays 0 */
        memcpy(q.logs, scores, (size_t)n * sizeof *scores);
        if (has_sink)
            q.logs[n] = sink;
        const int64_t top = weigh(&q);
        if (top >= 0)
            measure(top, &q);
        else
            status = es_fail(err, ES_E_EMPTY, "risk.score", "at least one key must have weight",
                             "all weights are zero");
    }
    if (status == ES_OK)
        *out = q;
    else
        es_risk_query_free(&q, budget);
    return status;
}

es_status es_risk_query_new(const double *scores, int64_t n, const es_view *values,
                            es_mem_limit *budget, es_risk_query *out, es_error *err)
{
    return es_risk_query_with_sink(scores, n, values, -(double)INFINITY, budget, out, err);
}

void es_risk_query_free(es_risk_query *query, es_mem_limit *budget)
{
    es_mem_free(budget, query->weights); /* the other arrays are in the same piece */
    *query = (es_risk_query){0};
}

/* ---- one outcome ---- */

/* As y and what the outcome is off by, which loses nothing where they are close. */
es_status es_kept_output(const es_risk_query *query, const es_kept *kept, double *out,
                         es_error *err)
{
    if (!query || !kept || !out)
        return es_fail(err, ES_E_ARGUMENT, "risk.null", "a query, an outcome and out",
                       "an argument is missing");
    const int64_t n = query->n - query->sink;
    double top = query->sink ? query->logs[n] : -(double)INFINITY, total = 0.0;
    for (int64_t i = 0; i < kept->count; i++) {
        if (kept->keys[i] < 0 || kept->keys[i] >= n)
            return es_fail(err, ES_E_ARGUMENT, "risk.choice", "keys of this query",
                           "key %lld of %lld", (long long)kept->keys[i], (long long)n);
        top = fmax(top, log(query->weights[kept->keys[i]]) + kept->log_factor[i]);
    }
    if (!(top > -(double)INFINITY))
        return es_fail(err, ES_E_EMPTY, "risk.empty", "keep at least one key that has weight",
                       "no key that was kept has weight");
    for (int64_t l = 0; l < query->dv; l++)
        out[l] = 0.0;
    for (int64_t i = 0; i < kept->count + query->sink; i++) {
        const int64_t j = i < kept->count ? kept->keys[i] : n;
        const double factor = i < kept->count ? kept->log_factor[i] : 0.0;
        const double w = exp(log(query->weights[j]) + factor - top);
        total += w;
        for (int64_t l = 0; l < query->dv; l++)
            out[l] += w * query->off[j * query->dv + l];
    }
    for (int64_t l = 0; l < query->dv; l++)
        out[l] = query->output[l] + out[l] / total;
    return ES_OK;
}

/* ---- the limit ---- */

/* Computes the limit of independent retention (THEORY 13): with a_j = w_j |u_j| and q keys kept
 * surely, (sum_{p<1} a_j)^2/(m - q) - sum_{p<1} a_j^2. A sink is kept anyway and is no term. */
es_status es_policy_limit(const es_risk_query *query, double m, es_mem_limit *budget, double *out,
                          int64_t *sure, es_error *err)
{
    if (!(m > 0.0))
        return es_fail(err, ES_E_RANGE, "risk.keys", "keep more than 0 keys", "%g keys", m);
    const int64_t n = query->n - query->sink;
    const int64_t most = m < (double)n ? (int64_t)floor(m) : n;
    int64_t *falling, kept = n;
    double *a, beyond = 0.0, rest = 0.0, squares = 0.0;
    *out = 0.0;
    ES_TRY(ES_MEM_NEW_2D(budget, a, n, 2, "keys", err));
    falling = (int64_t *)(a + n);
    for (int64_t j = 0; j < n; j++) {
        a[j] = query->weights[j] * query->reach[j];
        falling[j] = j;
    }
    if (most < n) {
        es_best_first(a, falling, n, most);
        for (int64_t i = most; i < n; i++)
            beyond += a[falling[i]];
        kept = es_limit_sure(a, falling, most, beyond, m, &rest);
        for (int64_t i = kept; i < n; i++)
            squares += a[falling[i]] * a[falling[i]];
        if (rest > 0.0)
            *out = fmax(rest * rest / (m - (double)kept) - squares, 0.0);
    }
    if (sure)
        *sure = kept;
    es_mem_free(budget, a);
    return ES_OK;
}
