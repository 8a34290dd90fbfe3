/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : the error of a query under a plan: simulated, and computed. */
#include <math.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/sparse/sparse.h"
#include "risk/policy_risk.h"

/* Buffers of a cell, reused from query to query. */
typedef struct bench {
    const es_sparse_spec *spec;
    const es_sparse_head *head;
    es_mem_limit *budget;
    es_arena arena;
    es_sparse_query query;
    es_sparse_past past;
    es_risk_query risk;
    es_choice choice;
    es_kept kept;
} bench;

/* Frees what a group of queries used. */
static void bench_free(bench *b)
{
    es_risk_query_free(&b->risk, b->budget);
    es_choice_free(&b->choice);
    es_kept_free(&b->kept);
    es_arena_free(&b->arena);
}

/* Checks the shapes of queries, keys and values and the number of draws. */
static es_status check(const es_sparse_spec *spec, const es_sparse_head *h, es_error *err)
{
    const es_view *q = &h->queries, *k = &h->keys, *v = &h->values;
    ES_TRY(es_view_check(q, "queries", err));
    ES_TRY(es_view_check(k, "keys", err));
    ES_TRY(es_view_check(v, "values", err));
    if (q->cols != k->cols || k->rows != v->rows || k->rows < 1 || q->rows < 1 || q->cols < 1 ||
        v->cols < 1)
        return es_fail(err, ES_E_SHAPE, "sparse.shape", "q (m, d), k (n, d), v (n, dv)",
                       "queries (%lld, %lld), keys (%lld, %lld), values (%lld, %lld)",
                       (long long)q->rows, (long long)q->cols, (long long)k->rows,
                       (long long)k->cols, (long long)v->rows, (long long)v->cols);
    return es_check_range(spec->draws, 1, INT32_MAX, "sparse.draws", err);
}

/* Prepares a group of queries of one head: past attention for policies that use it, and memory for
 * one query. */
static es_status start(const es_sparse_spec *spec, const es_sparse_head *head, const int64_t *which,
                       int64_t count, bench *b, es_error *err)
{
    es_mem_limit *budget = spec->exec ? spec->exec->budget : NULL;
    *b = (bench){.spec = spec,
                 .head = head,
                 .budget = budget,
                 .arena = {.budget = budget},
                 .choice = {.budget = budget},
                 .kept = {.budget = budget}};
    ES_TRY(check(spec, head, err));
    ES_TRY(es_sparse_past_of(spec, head, which, count, &b->arena, &b->past, err));
    return es_sparse_query_new(head, &b->arena, &b->query, err);
}

/* ---- choosing ---- */

/* Returns true for policies without exact risks: their error is measured on draws. */
static bool is_measured_only(const es_policy_spec *plan)
{
    return plan->policy && es_policy_inputs(plan->policy) & ES_POLICY_MEASURED;
}

/* Chooses the keys of query `at` of those that are asked about. */
static es_status choose(bench *b, const es_policy_spec *plan, int64_t at, const double *reach,
                        es_error *err)
{
    const es_sparse_query *q = &b->query;
    const es_sparse_past *past = &b->past;
    const int64_t first = at * past->n + q->begin;
    const es_policy_query query = {.n = q->n,
                                   .position = q->position < 0 ? -1 : q->position - q->begin,
                                   .causal = b->head->causal,
                                   .scores = q->scores,
                                   .reach = reach,
                                   .history = past->history ? past->history + first : NULL,
                                   .observed = past->observed ? past->observed + first : NULL};
    return es_policy_choose(plan, &query, b->budget, &b->choice, err);
}

/* Returns whether the weights of random keys are multiplied by a factor other than 1. */
static bool is_corrected(const es_choice *c)
{
    if (c->chance == ES_CHANCE_EACH) {
        for (int64_t i = 0; i < c->rest_count; i++)
            if (c->factors[i] != 1.0)
                return true;
        return false;
    }
    return c->chance != ES_CHANCE_NONE && c->factor != 1.0;
}

/* ---- simulation ---- */

/* Computes mean and variance of the mean of |y_S - y|^2 over outcomes that keep a key. */
static void average(const double *squares, int64_t count, es_sparse_cell *out)
{
    double sum = 0.0, scatter = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += squares[i];
    out->mse = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        scatter += (squares[i] - out->mse) * (squares[i] - out->mse);
    out->mse_var = scatter / (double)(count - 1) / (double)count;
}

/* Simulates a plan: draws outcomes and averages the squared distance of their outputs from y. */
static es_status draw_plan(bench *b, int64_t number, double *squares, es_sparse_cell *out,
                           es_error *err)
{
    const bool chance = b->choice.chance != ES_CHANCE_NONE;
    const int64_t draws = chance ? b->spec->draws : 1;
    int64_t used = 0;
    for (int64_t r = 0; r < draws; r++) {
        const es_address at = {.seed = b->spec->seed,
                               .experiment = ES_SPARSE_DRAWS,
                               .cell = (uint64_t)(number * b->spec->draws + r)};
        ES_TRY(es_choice_draw(&b->choice, &at, &b->kept, err));
        const bool weighty = es_sparse_kept_output(&b->query, &b->kept);
        if (weighty ||
            (!chance && b->kept.count)) /* without chance, kept keys count whatever their weight */
            squares[used++] = es_sparse_apart2(&b->query);
    }
    average(squares, used, out);
    if (!chance)
        out->mse_var = 0.0;
    return ES_OK;
}

/* The same for Linformer, whose draws are projections. */
static es_status project_plan(bench *b, const es_policy_spec *plan, double *squares,
                              es_sparse_cell *out, es_error *err)
{
    es_arena scratch = {.budget = b->budget};
    es_status status = ES_OK;
    for (int64_t r = 0; r < b->spec->draws && status == ES_OK; r++) {
        status = es_sparse_project(&b->query, b->spec, plan->keys, r, &scratch, err);
        squares[r] = es_sparse_apart2(&b->query);
        es_arena_free(&scratch);
    }
    average(squares, b->spec->draws, out);
    out->kept = (double)plan->keys;
    return status;
}

/* ---- exact risk ---- */

/* Computes the exact error, its parts and the first-order form (THEORY 13). */
static es_status compute_plan(bench *b, const char *name, es_sparse_cell *out, es_error *err)
{
    es_policy_risk risk;
    const es_status status = es_policy_risk_of(&b->risk, &b->choice, b->budget, &risk, err);
    if (status == ES_E_EMPTY)
        return es_fail(err, ES_E_EMPTY, "sparse.empty",
                       b->query.position < 0 ? "give --positions: without a position there is no "
                                               "window"
                                             : "keep more keys",
                       "policy %s keeps no key of query %lld", name, (long long)b->query.row);
    ES_TRY(status);
    out->exact = risk.square.val;
    out->bias2 = risk.bias2;
    out->variance = risk.variance;
    out->first_order = risk.first_order;
    out->mass = risk.mass;
    out->kept = risk.keys;
    out->empty = risk.empty;
    out->corrected = is_corrected(&b->choice) ? 1.0 : 0.0;
    return ES_OK;
}

/* ---- all of it ---- */

/* Computes the scores of one query and from them what the exact risks need, once for all
 * policies. */
static es_status look_at(bench *b, int64_t row, es_error *err)
{
    es_risk_query_free(&b->risk, b->budget);
    b->risk = (es_risk_query){0};
    ES_TRY(es_sparse_query_see(&b->query, row, err));
    const es_sparse_query *q = &b->query;
    const es_view values = es_view_rows(&b->head->values, q->begin, q->n);
    return es_risk_query_with_sink(q->scores, q->n, &values, q->sink, b->budget, &b->risk, err);
}

/* Computes the numbers of one policy on one query: exact risks where they exist, and errors over
 * draws. What a policy does not have stays NaN. */
static es_status run_plan(bench *b, const es_policy_spec *plan, int64_t at, int64_t number,
                          double *squares, es_sparse_cell *out, es_error *err)
{
    const double none = (double)NAN;
    *out = (es_sparse_cell){none,
                            none,
                            none,
                            none,
                            none,
                            none,
                            none,
                            none,
                            none,
                            none,
                            none,
                            .spread2 = b->risk.spread2,
                            .ess = 1.0 / b->query.sum_squares,
                            .n = (double)b->query.n};
    if (is_measured_only(plan)) {
        ES_TRY(project_plan(b, plan, squares, out, err));
    } else {
        ES_TRY(choose(b, plan, at, b->risk.reach, err));
        ES_TRY(draw_plan(b, number, squares, out, err));
        ES_TRY(compute_plan(b, es_policy_name(plan->policy), out, err));
    }
    return es_policy_limit(&b->risk, out->kept, b->budget, &out->limit, NULL, err);
}

/* Computes all policies on a group of queries, query by query, so that scores are computed once. */
static es_status measure(bench *b, const int64_t *which, int64_t count, int64_t first,
                         es_sparse_cell *out, es_error *err)
{
    const es_sparse_spec *spec = b->spec;
    double *squares;
    ES_TRY(ES_ARENA_NEW(&b->arena, squares, spec->draws, "errors of draws", err));
    for (int64_t i = 0; i < count; i++) {
        ES_TRY(look_at(b, which[i], err));
        for (int64_t p = 0; p < spec->n_plans; p++)
            ES_TRY(run_plan(b, &spec->plans[p], i, first + i, squares, &out[i * spec->n_plans + p],
                            err));
    }
    return ES_OK;
}

es_status es_sparse_measure(const es_sparse_spec *spec, const es_sparse_head *head,
                            const int64_t *which, int64_t count, int64_t first, es_sparse_cell *out,
                            es_error *err)
{
    bench b;
    es_status status = start(spec, head, which, count, &b, err);
    if (status == ES_OK)
        status = measure(&b, which, count, first, out, err);
    bench_free(&b);
    return status;
}
