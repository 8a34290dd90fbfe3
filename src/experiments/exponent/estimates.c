/* SPDX-License-Identifier: Apache-2.0 */
/* estimates.c : the local exponent of the keys, by three methods and with several numbers of
 * neighbours.
 *
 * Given T_(k+1), the k nearest gaps T = 1 - cosine are independent with P(T <= t) ~ t^alpha, so
 * ln(T_(k+1)/T_(i)) are exponential with rate alpha: Hill's estimate is (k-1)/sum ln(T_(k+1)/T_(i))
 * (THEORY 6). On a great sphere the density is (x(1-x))^(alpha-1) in x = T/2, and the corrected
 * estimate maximises that likelihood. */
#include <math.h>

#include "base/error.h"
#include "experiments/exponent/exponent.h"
#include "experiments/kit/answer_kit.h"

/* ---- one number of neighbours ---- */

/* Estimates with k nearest keys for every query. *one is the estimate over all queries; a single
 * query has errors of its own. */
static es_status estimate(es_job *job, int64_t k, es_exponent_pool *pool, es_exponent *one,
                          es_error *err)
{
    const exponent_state *s = job->state;
    const es_exponent_opts opts = {.k = k, .self = s->self, .count = s->count, .exec = &job->exec};
    es_exponent *each;
    ES_TRY(ES_JOB_NEW(job, each, s->count, err));
    ES_TRY(es_exponent_queries(&s->keys.view, s->self ? NULL : &s->queries.view, &opts, each, pool,
                               err));
    int64_t first = 0; /* it exists: a pool without any estimate was refused above */
    while (isnan(each[first].alpha))
        first++;
    *one = each[first];
    if (pool->queries > 1) {
        one->alpha = pool->alpha;
        one->alpha_se = pool->alpha_se;
        one->hill = pool->hill;
        one->hill_se = pool->hill_se;
        one->log_c = pool->log_c;
        one->log_c_se = pool->log_c_se;
        one->reach = pool->reach;
    }
    return ES_OK;
}

/* ---- estimates ---- */

/* A row of the table of estimates: P(1 - cosine <= t) ~ c t^alpha, dimension 2 alpha. */
typedef struct estimate_row {
    const char *method;
    es_measured alpha, dimension;
} estimate_row;

static const es_column estimate_columns[] = {
    ES_COL(estimate_row, method, ES_FORMAT_TEXT, "method", ""),
    ES_COL(estimate_row, alpha, ES_FORMAT_REAL, "alpha", "",
           "`P(1 - cosine <= t) ~ c t^alpha` for small t"),
    ES_COL(estimate_row, dimension, ES_FORMAT_REAL, "dimension", "",
           "2 alpha: dimension of the surface that the keys near a query fill"),
    {0}};
const es_table_spec exponent_estimates_table = {
    "estimates", estimate_columns,
    ES_VIEW("Local exponent", NULL,
            "corrected: maximum likelihood on a great sphere; Hill's estimate (Levina and Bickel's "
            "dimension) mistakes the curvature for a lower dimension. two nearest: TwoNN, from "
            "many queries. With several queries the errors come from the scatter between them."),
    ES_ROW(estimate_row), .keys = "method"};

/* Adds a row; the dimension is 2 alpha, because P(T <= t) ~ t^{m/2} on a surface of dimension m. */
static void add_estimate(es_table *t, const char *method, double alpha, double se)
{
    estimate_row *r = es_rows_add(t, estimate_row);
    if (r)
        *r = (estimate_row){method, {alpha, se}, {2.0 * alpha, 2.0 * se}};
}

/* Reports alpha, unless the methods differ by more than a factor of 2: then there is no power law
 * for them to agree on. */
static void report_exponent(es_answer *a, const es_exponent *e, const es_exponent_pool *pool)
{
    const double two = isnan(pool->two_nn) ? e->hill : 0.5 * pool->two_nn;
    const double least = fmin(fmin(e->alpha, e->hill), two);
    const double most = fmax(fmax(e->alpha, e->hill), two);
    const long long queries = pool->queries;
    char alpha[ES_SAY_SIZE];
    if (most > 2.0 * least)
        es_answer_add_finding(a,
                              "These keys have no local exponent: estimates of alpha range from "
                              "%.3g to %.3g, more than a factor of 2 apart.",
                              least, most);
    else
        es_answer_add_finding(
            a,
            "The local exponent is alpha = %s: the share of keys with 1 - cosine below t "
            "grows like t^alpha (%lld nearest keys, %lld %s).",
            es_say_number(e->alpha, e->alpha_se, alpha), (long long)e->k, queries,
            queries == 1 ? "query" : "queries");
}

es_status exponent_fill_estimates(es_job *job, es_answer *a, es_exponent *pooled, es_error *err)
{
    const exponent_params *p = job->params;
    const exponent_state *s = job->state;
    es_exponent_pool pool;
    ES_TRY(estimate(job, p->k, &pool, pooled, err));
    es_table *t = es_answer_table(a, &exponent_estimates_table);
    add_estimate(t, "corrected", pooled->alpha, pooled->alpha_se);
    add_estimate(t, "Hill", pooled->hill, pooled->hill_se);
    if (!isnan(pool.two_nn))
        add_estimate(t, "two nearest", 0.5 * pool.two_nn, 0.5 * pool.two_nn_se);
    es_answer_count(a, "keys", s->keys.rows);
    es_answer_count(a, "dim", s->keys.cols);
    es_answer_count(a, "queries", pool.queries);
    es_answer_count(a, "refused", pool.refused);
    es_answer_count(a, "k", pooled->k);
    es_answer_count(a, "copies", pooled->copies);
    es_answer_real(a, "log_c", pooled->log_c);
    report_exponent(a, pooled, &pool);
    return ES_OK;
}

/* ---- scan over k ---- */

/* A row of the scan over k, the number of nearest keys that are used. */
typedef struct scan_row {
    int64_t k;
    es_measured hill, alpha;
} scan_row;

static const es_column scan_columns[] = {ES_COL(scan_row, k, ES_FORMAT_COUNT, "k", "keys"),
                                         ES_COL(scan_row, hill, ES_FORMAT_REAL, "Hill", ""),
                                         ES_COL(scan_row, alpha, ES_FORMAT_REAL, "corrected", ""),
                                         {0}};
const es_table_spec exponent_scan_table = {
    "scan", scan_columns,
    ES_VIEW("Does it depend on k?", NULL,
            "If alpha keeps changing with k there is no exponent: the keys have structure at every "
            "distance.",
            .only_with_full = true),
    ES_ROW(scan_row), .keys = "k"};

es_status exponent_fill_scan(es_job *job, const es_exponent *at, es_answer *a, es_error *err)
{
    const exponent_state *s = job->state;
    const int64_t most = s->keys.rows - 2 - at->copies;
    es_table *t = es_answer_table(a, &exponent_scan_table);
    for (int64_t step = -2; step <= 2; step++) {
        const int64_t k = step < 0 ? at->k >> -step : at->k << step;
        es_exponent_pool pool;
        es_exponent e;
        if (k < 3 || k > most)
            continue;
        const es_status status = estimate(job, k, &pool, &e, err);
        if (status == ES_E_RANGE || status == ES_E_NUMERIC)
            break; /* k is too large for these keys */
        ES_TRY(status);
        scan_row *r = es_rows_add(t, scan_row);
        if (r)
            *r = (scan_row){k, {e.hill, e.hill_se}, {e.alpha, e.alpha_se}};
    }
    return ES_OK;
}
