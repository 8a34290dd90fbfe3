/* SPDX-License-Identifier: Apache-2.0 */
/* probe_policies.c : which keys a head should keep when it may keep an eighth of them: the exact
 * errors of the policies that `sparse` compares (THEORY 13). */
#include "experiments/kit/probe_inside.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "risk/policy_risk.h"
#include "stats/average.h"
#include "theory/gap_count.h"

enum { POLICIES = ES_PROBE_POLICIES, ASKED = ES_PROBE_POLICY_QUERIES };

#define TOLERANCE 1e-3 /* of a mean square error: far below what 16 queries scatter by */

const char *es_probe_policy_name(int64_t at)
{
    static const char *const names[POLICIES] = {"random", "top", "top-random"};
    return at >= 0 && at < POLICIES ? names[at] : NULL;
}

/* Memory of es_policy_risk_near(): values twice and some 40 columns of the query, the keys of a
 * choice and of an outcome, and 1 MB for integrals. */
double es_probe_policy_bytes(int64_t width)
{
    const double n = ES_PROBE_POLICY_TOKENS, k = (double)width;
    return 8.0 * n * (2.0 * k + 42.0) + 128.0 * k + 1e6;
}

/* Drawn keys on which policies are compared. */
typedef struct context {
    const es_probe *probe;
    int64_t n, queries, head;
    int64_t *rows;                        /* (n) of the pool */
    float *x, *keys, *values;             /* (n, H), (n, Q), (n, Q) */
    double squares[ASKED][POLICIES + 1];  /* mean square errors of the head's queries; spread2 */
    double critical[ASKED], power[ASKED]; /* L_8 of their scores, and its growth */
    double least[ASKED], most[ASKED];     /* bounds of their largest weights */
} context;

/* Draws the keys of a context from the pool and projects them. */
static es_status draw_context(context *c, es_error *err)
{
    const es_probe *p = c->probe;
    const int64_t H = p->weights.hidden, Q = p->weights.all;
    es_mem_limit *budget = p->exec.budget;
    ES_TRY(ES_MEM_NEW(budget, c->rows, c->n, "rows of keys", err));
    ES_TRY(ES_MEM_NEW_2D(budget, c->x, c->n, H + 2 * Q, "keys", err));
    c->keys = c->x + c->n * H;
    c->values = c->keys + c->n * Q;
    ES_TRY(es_probe_key_rows(&p->spec, p->pool.tokens, p->layer, c->n, c->rows, err));
    ES_TRY(es_pool_gather(p->spec.pool, p->layer, c->rows, c->n, c->x, err));
    ES_TRY(es_probe_project(&p->exec, c->x, c->n, p->weights.wk, NULL, Q, H, c->keys, err));
    return es_probe_project(&p->exec, c->x, c->n, p->weights.wv, NULL, Q, H, c->values, err);
}

/* Fills out (POLICIES) with the mean square errors of one query whose scores are known. */
static es_status risks_of(const es_risk_query *query, const double *scores, es_mem_limit *budget,
                          double *out, es_error *err)
{
    const es_policy_query asked = {.n = query->n, .position = -1, .scores = scores};
    es_choice choice = {.budget = budget};
    es_status status = ES_OK;
    for (int64_t i = 0; i < POLICIES && status == ES_OK; i++) {
        es_policy_spec spec;
        es_policy_risk risk;
        es_policy_spec_init(&spec, es_policy_find(es_probe_policy_name(i)));
        spec.keys = query->n / ES_PROBE_POLICY_SHARE;
        status = es_policy_choose(&spec, &asked, budget, &choice, err);
        if (status == ES_OK)
            status = es_policy_risk_near(query, &choice, TOLERANCE, budget, &risk, err);
        if (status == ES_OK)
            out[i] = risk.square.val;
    }
    es_choice_free(&choice);
    return status;
}

/* Counts the gaps of query i, whose scores change their order here. Keys are in random order, so
 * that the first sixteenth is a draw of fewer. */
static void count_gaps(context *c, int64_t i, double *scores)
{
    const int64_t few = c->n / 16;
    const double small =
        few < ES_GAP_GROUP ? (double)NAN : es_gap_count_of(scores, few, ES_GAP_GROUP).critical;
    const es_gap_count row = es_gap_count_of(scores, c->n, ES_GAP_GROUP);
    c->critical[i] = row.critical;
    c->least[i] = es_gap_top_least(&row, 1.0);
    c->most[i] = es_gap_top_most(&row, 1.0);
    c->power[i] = es_gap_power(small, c->critical[i], (double)few, (double)c->n);
}

/* Query i of the head under way. */
static es_status ask_query(void *user, int64_t i, int thread, es_error *err)
{
    context *c = user;
    const es_probe *p = c->probe;
    const int64_t Q = p->weights.all, k = p->weights.width;
    const float *q = p->q + i * Q + c->head * k;
    es_view values = es_view_f32(c->values + c->head * k, c->n, k);
    es_mem_limit *budget = p->exec.budget;
    es_risk_query query = {0};
    double *scores;
    (void)thread;
    values.row_stride = Q * (int64_t)sizeof(float);
    ES_TRY(ES_MEM_NEW(budget, scores, c->n, "scores", err));
    for (int64_t j = 0; j < c->n; j++) {
        const float *key = c->keys + j * Q + c->head * k;
        for (int64_t l = 0; l < k; l++)
            scores[j] += (double)q[l] * (double)key[l] / sqrt((double)k);
    }
    es_status status = es_risk_query_new(scores, c->n, &values, budget, &query, err);
    if (status == ES_OK)
        status = risks_of(&query, scores, budget, c->squares[i], err);
    c->squares[i][POLICIES] = query.spread2;
    count_gaps(c, i, scores);
    es_risk_query_free(&query, budget);
    es_mem_free(budget, scores);
    return status;
}

/* Means over queries; how far each policy is behind the best, by differences query by query. */
static void compare(const context *c, es_probe_policies *out)
{
    const double count = (double)c->queries;
    double mean[POLICIES + 1] = {0};
    for (int64_t i = 0; i < c->queries; i++)
        for (int64_t j = 0; j <= POLICIES; j++)
            mean[j] += c->squares[i][j] / count;
    for (int64_t j = 1; j < POLICIES; j++)
        if (mean[j] < mean[out->best])
            out->best = j;
    for (int64_t j = 0; j < POLICIES; j++) {
        const double behind = mean[j] - mean[out->best];
        double scatter = 0.0;
        for (int64_t i = 0; i < c->queries; i++)
            scatter += pow(c->squares[i][j] - c->squares[i][out->best] - behind, 2.0);
        out->error[j] = sqrt(mean[j] / mean[POLICIES]);
        out->behind[j] = behind / mean[POLICIES];
        out->behind_se[j] = sqrt(scatter / (count * (count - 1.0))) / mean[POLICIES];
    }
}

/* Sorts a number of each query and returns the median. */
static double median_of(double *x, int64_t count)
{
    es_sort_reals(x, count);
    return es_median_of(x, count);
}

/* Summarises the critical scales of the queries, which are sorted here. Their power of ln n is NaN
 * below 16 * ES_GAP_GROUP keys. */
static void sum_up_gaps(context *c, es_probe_policies *out)
{
    int64_t grown = 0;
    for (int64_t i = 0; i < c->queries; i++)
        if (isfinite(c->power[i]))
            c->power[grown++] = c->power[i];
    out->critical = median_of(c->critical, c->queries);
    out->top_least = median_of(c->least, c->queries);
    out->top_most = median_of(c->most, c->queries);
    out->critical_power =
        grown ? es_measured_mean(c->power, grown) : (es_measured){(double)NAN, (double)NAN};
}

es_status es_probe_policies_of(const es_probe *probe, es_probe_policies *out, es_error *err)
{
    const int64_t largest = probe->spec.sizes[probe->spec.n_sizes - 1];
    const int64_t tokens = probe->pool.tokens < largest ? probe->pool.tokens : largest;
    context c = {.probe = probe,
                 .n = tokens < ES_PROBE_POLICY_TOKENS ? tokens : ES_PROBE_POLICY_TOKENS,
                 .queries = probe->queries < ASKED ? probe->queries : ASKED};
    const bool enough = c.n >= 2 * ES_PROBE_POLICY_SHARE && c.queries > 1;
    const es_exec quiet = es_exec_quiet(&probe->exec);
    es_status status = enough ? draw_context(&c, err) : ES_OK;
    for (c.head = 0; c.head < probe->weights.heads && status == ES_OK; c.head++) {
        out[c.head] = (es_probe_policies){.best = 0};
        if (!enough)
            continue;
        out[c.head].n = c.n;
        out[c.head].keys = c.n / ES_PROBE_POLICY_SHARE;
        out[c.head].queries = c.queries;
        status = es_parallel_run(&quiet, c.queries, ask_query, &c, err);
        if (status != ES_OK)
            break;
        compare(&c, &out[c.head]);
        sum_up_gaps(&c, &out[c.head]);
    }
    es_mem_free(probe->exec.budget, c.x);
    es_mem_free(probe->exec.budget, c.rows);
    return status;
}
