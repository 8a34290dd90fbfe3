#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view_at.h"
#include "stats/exponent.h"

/* ---- gaps ---- */

/* The norm of row i of v, without overflow; 0 only for a zero row. */
static double row_norm(const es_view *v, int64_t i)
{
    double most = 0.0, sum = 0.0;
    for (int64_t c = 0; c < v->cols; c++)
        most = fmax(most, fabs(es_view_at(v, i, c)));
    for (int64_t c = 0; c < v->cols && most > 0.0; c++) {
        const double x = es_view_at(v, i, c) / most;
        sum += x * x;
    }
    return most * sqrt(sum);
}

static es_status check_row(const es_view *v, int64_t i, double *norm, const char *what,
                           es_error *err)
{
    for (int64_t c = 0; c < v->cols; c++)
        if (!isfinite(es_view_at(v, i, c)))
            return es_fail_at(err, ES_E_NONFINITE, i, c, "exponent.finite",
                              "remove or replace the value", "%s %lld, column %lld is not finite",
                              what, (long long)i, (long long)c);
    *norm = row_norm(v, i);
    if (*norm < DBL_MIN)
        return es_fail_at(err, ES_E_RANGE, i, -1, "exponent.zero", "remove it",
                          "%s %lld is zero and has no direction", what, (long long)i);
    return ES_OK;
}

/* T = |u - v|^2/2 of the unit vectors, which does not cancel. q is (d), of norm q_norm. */
static double gap(const es_view *keys, int64_t i, double norm, const double *q, double q_norm)
{
    const double scale = 1.0 / norm, q_scale = 1.0 / q_norm; /* norms are DBL_MIN or more */
    double sum = 0.0;
    for (int64_t c = 0; c < keys->cols; c++) {
        const double off = es_view_at(keys, i, c) * scale - q[c] * q_scale;
        sum += off * off;
    }
    return fmin(0.5 * sum, 2.0);
}

es_status es_exponent_gaps(const es_view *keys, const double *query, double *T, es_error *err)
{
    if (!keys || !query || !T)
        return es_fail(err, ES_E_ARGUMENT, "exponent.null", "", "keys, query or T is NULL");
    ES_TRY(es_view_check(keys, "keys", err));
    const es_view q = es_view_f64(query, 1, keys->cols);
    double norm;
    ES_TRY(check_row(&q, 0, &norm, "query", err));
    for (int64_t i = 0; i < keys->rows; i++) {
        double of_key;
        ES_TRY(check_row(keys, i, &of_key, "key", err));
        T[i] = gap(keys, i, of_key, query, norm);
    }
    return ES_OK;
}

/* ---- many queries ---- */

typedef struct job {
    const es_view *keys, *queries;
    es_exponent_opts o;
    es_exponent *each;
    double *norms;   /* (keys) */
    double *scratch; /* (threads, n + d) */
} job;

static const es_exponent nothing = {.hill = NAN,
                                    .hill_se = NAN,
                                    .alpha = NAN,
                                    .alpha_se = NAN,
                                    .log_c = NAN,
                                    .reach = NAN,
                                    .nearest = {NAN, NAN}};

static es_status one_query(void *user, int64_t unit, int thread, es_error *err)
{
    job *j = user;
    const int64_t n = j->keys->rows, d = j->keys->cols;
    double *T = j->scratch + thread * (n + d), *q = T + n, norm;
    ES_TRY(check_row(j->queries, unit, &norm, "query", err));
    es_view_read_row(j->queries, unit, q);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (!j->o.self || i != unit)
            T[count++] = gap(j->keys, i, j->norms[i], q, norm);
    const es_status status = es_exponent_estimate(T, count, j->o.k, &j->each[unit], err);
    if (status != ES_E_NUMERIC && status != ES_E_EMPTY)
        return status;
    j->each[unit] = nothing; /* its neighbours are all alike, or copies of it */
    return ES_OK;
}

/* Mean and standard error over the queries that gave an estimate. */
typedef struct sums {
    double n, sum, squares;
} sums;

static void add(sums *s, double x)
{
    s->n += 1.0;
    const double off = x - s->sum / fmax(s->n - 1.0, 1.0);
    s->squares += s->n > 1.0 ? off * off * (s->n - 1.0) / s->n : 0.0;
    s->sum += x;
}

static double se_of(const sums *s)
{
    return s->n > 1.0 ? sqrt(s->squares / (s->n - 1.0) / s->n) : (double)NAN;
}

/* Inverses are averaged: 1/alpha is a mean of logarithms and has no bias (MacKay and Ghahramani on
 * Levina and Bickel's estimate); the estimate of one query is (k-1)/(k mean). */
static void pool_all(const es_exponent *each, int64_t m, es_exponent_pool *pool)
{
    sums hill = {0}, alpha = {0}, log_c = {0}, ratio = {0};
    for (int64_t i = 0; i < m; i++) {
        if (isnan(each[i].alpha)) {
            pool->refused++;
            continue;
        }
        const double fewer = (double)(each[i].k - 1) / (double)each[i].k;
        add(&hill, fewer / each[i].hill);
        add(&alpha, fewer / each[i].alpha);
        add(&log_c, each[i].log_c);
        add(&ratio, 0.5 * log(each[i].nearest[1] / each[i].nearest[0]));
    }
    pool->queries = (int64_t)hill.n;
    pool->hill = hill.n / hill.sum;
    pool->hill_se = pool->hill * pool->hill * se_of(&hill);
    pool->alpha = alpha.n / alpha.sum;
    pool->alpha_se = pool->alpha * pool->alpha * se_of(&alpha);
    pool->log_c = log_c.sum / log_c.n;
    pool->log_c_se = se_of(&log_c);
    pool->two_nn = ratio.n > 2.0 ? (ratio.n - 1.0) / ratio.sum : (double)NAN;
    pool->two_nn_se = ratio.n > 2.0 ? pool->two_nn / sqrt(ratio.n - 2.0) : (double)NAN;
}

static es_status run_job(job *j, es_exponent_pool *pool, es_error *err)
{
    const es_exec *exec = j->o.exec;
    const int64_t m = j->o.self && j->o.count ? j->o.count : j->queries->rows;
    for (int64_t i = 0; i < j->keys->rows; i++)
        ES_TRY(check_row(j->keys, i, &j->norms[i], "key", err));
    ES_TRY(es_parallel_run(exec, m, one_query, j, err));
    *pool = (es_exponent_pool){0};
    pool_all(j->each, m, pool);
    if (pool->queries == 0)
        return es_fail(err, ES_E_NUMERIC, "exponent.ties", "are the keys copies of one another?",
                       "no query has neighbours at different distances");
    return ES_OK;
}

static es_status check_job(const es_view *keys, const es_view *queries, const es_exponent_opts *o,
                           es_error *err)
{
    ES_TRY(es_view_check(keys, "keys", err));
    ES_TRY(es_view_check(queries, "queries", err));
    if (keys->cols != queries->cols || keys->cols < 1)
        return es_fail(err, ES_E_SHAPE, "exponent.dim", "queries and keys share one dimension",
                       "keys have %lld columns, queries %lld", (long long)keys->cols,
                       (long long)queries->cols);
    if (queries->rows < 1 || keys->rows < 4 + o->self)
        return es_fail(err, ES_E_EMPTY, "exponent.keys", "at least 4 keys beside the query",
                       "there are %lld keys and %lld queries", (long long)keys->rows,
                       (long long)queries->rows);
    if (o->count < 0 || (o->self && o->count > keys->rows))
        return es_fail(err, ES_E_RANGE, "exponent.count", "", "%lld queries of %lld keys",
                       (long long)o->count, (long long)keys->rows);
    return ES_OK;
}

es_status es_exponent_queries(const es_view *keys, const es_view *queries,
                              const es_exponent_opts *opts, es_exponent *each,
                              es_exponent_pool *pool, es_error *err)
{
    job j = {.keys = keys, .o = opts ? *opts : (es_exponent_opts){0}};
    j.queries = j.o.self ? keys : queries;
    if (!keys || !j.queries || !pool)
        return es_fail(err, ES_E_ARGUMENT, "exponent.null", "", "keys, queries or pool is NULL");
    ES_TRY(check_job(keys, j.queries, &j.o, err));
    es_budget *budget = j.o.exec ? j.o.exec->budget : NULL;
    const int64_t m = j.queries->rows;
    es_exponent *own = NULL;
    es_status status =
        es_mem_array(budget, keys->rows, 1, sizeof *j.norms, "norms", (void **)&j.norms, err);
    if (status == ES_OK)
        status = es_mem_array(budget, es_parallel_threads(j.o.exec, m), keys->rows + keys->cols,
                              sizeof *j.scratch, "gaps", (void **)&j.scratch, err);
    if (status == ES_OK && !each)
        status = es_mem_array(budget, m, 1, sizeof *own, "estimates", (void **)&own, err);
    j.each = each ? each : own;
    if (status == ES_OK)
        status = run_job(&j, pool, err);
    es_mem_free(budget, own);
    es_mem_free(budget, j.scratch);
    es_mem_free(budget, j.norms);
    return status;
}
