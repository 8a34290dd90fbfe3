/* SPDX-License-Identifier: Apache-2.0 */
/* replicate.c : tokens that attend over one set of keys, the same for all of them: the
 * window experiment of Token Sample Complexity (2512.10656), as its public code runs it.
 *
 * The set is what a query in the middle of the text would keep. Two things are compared with full
 * attention over the text: the moments of the outputs of the kept tokens among themselves, and the
 * outputs of tokens of the text over the kept keys. */
#include <math.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/sparse/sparse.h"
#include "stats/moments.h"

typedef struct work {
    const es_sparse_spec *spec;
    const es_sparse_head *head;
    es_exec exec;
    int64_t n, d, dv, count;
    double *queries, *q, *k, *v; /* (count, d) asked about; (n, d), (n, d), (n, dv) kept */
    double *full, *some;         /* (n, dv), (count, dv) outputs */
    double *cov[2];              /* (dv, dv) */
    es_moments all;              /* of the outputs of all tokens */
    es_choice choice;
    es_kept kept;
    es_arena arena;
} work;

/* Checks that all queries see all keys: only then can one set of keys serve all of them. */
static es_status check(const es_sparse_head *h, const int64_t *which, int64_t count, es_error *err)
{
    const es_view *q = &h->queries, *k = &h->keys, *v = &h->values;
    if (q->rows != k->rows || q->cols != k->cols || k->rows != v->rows || k->rows < 1)
        return es_fail(err, ES_E_SHAPE, "sparse.shape", "q (n, d), k (n, d), v (n, dv)",
                       "queries (%lld, %lld), keys (%lld, %lld), %lld values", (long long)q->rows,
                       (long long)q->cols, (long long)k->rows, (long long)k->cols,
                       (long long)v->rows);
    if (h->causal || h->positions || h->window || h->sink)
        return es_fail(err, ES_E_UNSUPPORTED, "sparse.shared",
                       "queries that see every key, query i at i, and no learned sink",
                       "one set of keys for all queries is for tokens that see both sides");
    for (int64_t i = 0; i < count; i++)
        if (which[i] < 0 || which[i] >= q->rows)
            return es_fail(err, ES_E_RANGE, "sparse.query", "count from 0", "query %lld of %lld",
                           (long long)which[i], (long long)q->rows);
    return ES_OK;
}

/* Allocates a matrix that lives as long as the cell. */
static es_status take(work *w, int64_t rows, int64_t cols, double **out, es_error *err)
{
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, *out, rows, cols, "outputs", err));
    return ES_OK;
}

/* Attention of q over keys and values: outputs, moments of them, or both. */
static es_status attend(const work *w, const es_view *q, const es_view *k, const es_view *v,
                        double *output, es_moments *moments, es_error *err)
{
    const es_attend_opts opts = {
        .scales = &w->head->scale, .n_scales = 1, .score_cap = w->head->cap, .exec = &w->exec};
    return es_attend(q, k, v, &opts, &(es_attend_out){.output = output, .moments = moments}, err);
}

/* Allocates the matrices of a draw and computes full attention of all tokens, to which every policy
 * is compared. */
static es_status start(work *w, const int64_t *which, es_error *err)
{
    const es_sparse_head *h = w->head;
    ES_TRY(take(w, w->count, w->d, &w->queries, err));
    ES_TRY(take(w, w->n, w->d, &w->q, err));
    ES_TRY(take(w, w->n, w->d, &w->k, err));
    ES_TRY(take(w, w->n, w->dv, &w->v, err));
    ES_TRY(take(w, w->n, w->dv, &w->full, err));
    ES_TRY(take(w, w->count, w->dv, &w->some, err));
    ES_TRY(take(w, w->dv, w->dv, &w->cov[0], err));
    ES_TRY(take(w, w->dv, w->dv, &w->cov[1], err));
    for (int64_t i = 0; i < w->count; i++)
        es_view_read_row(&h->queries, which[i], w->queries + i * w->d);
    es_moments all;
    ES_TRY(attend(w, &h->queries, &h->keys, &h->values, w->full, &all, err));
    w->all = all;
    es_moments_covariance(&w->all, 0, w->cov[0]);
    return ES_OK;
}

es_status es_sparse_shared_keys(const es_sparse_spec *spec, int64_t plan, int64_t n, int64_t number,
                                es_choice *choice, es_kept *kept, es_error *err)
{
    const es_policy_query middle = {.n = n, .position = n / 2};
    const es_address at = {.seed = spec->seed,
                           .experiment = ES_SPARSE_REPLICATES,
                           .cell = (uint64_t)(number * spec->n_plans + plan)};
    ES_TRY(es_policy_choose(&spec->plans[plan], &middle, choice->budget, choice, err));
    ES_TRY(es_choice_draw(choice, &at, kept, err));
    if (kept->count == 0)
        return es_fail(err, ES_E_EMPTY, "sparse.empty", "keep more keys", "nothing is kept");
    for (int64_t i = 1; i < kept->count; i++)
        if (kept->log_factor[i] != kept->log_factor[0])
            return es_fail(err, ES_E_UNSUPPORTED, "sparse.shared", "--correction none",
                           "keys that all queries share are not corrected");
    return ES_OK;
}

/* Distance of the moments of the kept tokens' outputs from those of all. */
static es_status compare_moments(work *w, const es_view *k, const es_view *v, es_sparse_errors *out,
                                 es_error *err)
{
    const es_view q = es_view_f64(w->q, w->kept.count, w->d);
    es_moments few;
    double squares = 0.0;
    ES_TRY(attend(w, &q, k, v, NULL, &few, err));
    es_moments_covariance(&few, 0, w->cov[1]);
    for (int64_t i = 0; i < w->dv * w->dv; i++)
        squares += (w->cov[1][i] - w->cov[0][i]) * (w->cov[1][i] - w->cov[0][i]);
    out->mean_error = es_distance(few.mean, w->all.mean, w->dv);
    out->cov_error = sqrt(squares);
    es_moments_free(&few);
    return ES_OK;
}

/* Computes the errors of one policy on one draw: attention of the kept tokens over each other, and
 * of the queries over the kept tokens. */
static es_status run_plan(work *w, const int64_t *which, int64_t plan, int64_t number,
                          es_sparse_errors *out, es_error *err)
{
    const es_sparse_head *h = w->head;
    const es_view asked = es_view_f64(w->queries, w->count, w->d);
    ES_TRY(es_sparse_shared_keys(w->spec, plan, w->n, number, &w->choice, &w->kept, err));
    const int64_t m = w->kept.count;
    if (m > w->n)
        return es_fail(err, ES_E_RANGE, "policy.keys", "as many as there are keys, or fewer",
                       "%lld draws of %lld keys", (long long)m, (long long)w->n);
    for (int64_t i = 0; i < m; i++) {
        es_view_read_row(&h->queries, w->kept.keys[i], w->q + i * w->d);
        es_view_read_row(&h->keys, w->kept.keys[i], w->k + i * w->d);
        es_view_read_row(&h->values, w->kept.keys[i], w->v + i * w->dv);
    }
    const es_view k = es_view_f64(w->k, m, w->d), v = es_view_f64(w->v, m, w->dv);
    ES_TRY(compare_moments(w, &k, &v, out, err));
    ES_TRY(attend(w, &asked, &k, &v, w->some, NULL, err));
    out->mse = 0.0;
    for (int64_t i = 0; i < w->count; i++) {
        const double apart = es_distance(w->some + i * w->dv, w->full + which[i] * w->dv, w->dv);
        out->mse += apart * apart / (double)w->count;
    }
    return ES_OK;
}

es_status es_sparse_replicate(const es_sparse_spec *spec, const es_sparse_head *head,
                              const int64_t *which, int64_t count, int64_t number,
                              es_sparse_errors *out, es_error *err)
{
    es_mem_limit *budget = spec->exec ? spec->exec->budget : NULL;
    ES_TRY(check(head, which, count, err));
    work w = {.spec = spec,
              .head = head,
              .n = head->keys.rows,
              .d = head->keys.cols,
              .dv = head->values.cols,
              .count = count,
              .choice = {.budget = budget},
              .kept = {.budget = budget},
              .arena = {.budget = budget}};
    if (spec->exec)
        w.exec = es_exec_quiet(spec->exec);
    es_status status = start(&w, which, err);
    for (int64_t p = 0; p < spec->n_plans && status == ES_OK; p++)
        status = run_plan(&w, which, p, number, &out[p], err);
    es_moments_free(&w.all);
    es_choice_free(&w.choice);
    es_kept_free(&w.kept);
    es_arena_free(&w.arena);
    return status;
}

/* Beside the arrays: a choice with its keys, and what the engine takes for as many queries. */
double es_sparse_replicate_bytes(int64_t n, int64_t d, int64_t dv, int64_t count)
{
    es_attend_plan plan = {0};
    es_error ignored;
    const es_attend_opts opts = {.exec = &(es_exec){.threads = 1}};
    if (es_attend_plan_for(n, n, d, dv, &opts, true, &plan, &ignored) != ES_OK)
        return INFINITY;
    return 8.0 * ((double)n * (double)(2 * d + 2 * dv + 16) + (double)count * (double)(d + dv) +
                  2.0 * (double)dv * (double)dv) +
           2.0 * (double)es_moments_bytes(dv) + (double)plan.bytes + 65536.0;
}
