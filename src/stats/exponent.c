/* SPDX-License-Identifier: Apache-2.0 */
/* exponent.c : the local exponent (THEORY 6) of one query, from its gaps; gaps from keys; and of
 * many queries, each its own unit of work, pooled. */
#include "stats/exponent.h"

#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "base/view_at.h"
#include "stats/average.h"
#include "stats/special.h"

/* ---- the law of keys on a great sphere ---- */

/* The likelihood of the corrected estimate, which depends on two numbers only. */
typedef struct likelihood {
    double mean; /* of ln(x(1-x)) over the k nearest */
    double x;    /* where the law is cut */
} likelihood;

/* Minus the log-likelihood of one point at a = e^t; it is convex in a. */
static double surprise(const void *context, double t)
{
    const likelihood *l = context;
    const double a = exp(t);
    return es_log_half_beta(a, l->x) - (a - 1.0) * l->mean;
}

/* Around Hill's estimate, to 1e-8 of itself. */
static double most_likely(const likelihood *l, double hill)
{
    return exp(es_minimum(surprise, l, log(hill) - 1.5, log(hill) + 1.5, 45));
}

/* The second derivative of ln B in a, which is the information of one point; 1/a^2 for small x. */
static double information(double a, double x)
{
    const double h = 1e-3 * a;
    return (es_log_half_beta(a + h, x) - 2.0 * es_log_half_beta(a, x) +
            es_log_half_beta(a - h, x)) /
           (h * h);
}

/* ---- estimates ---- */

/* Brings the `count` smallest of T (n) to its front, in order: Hoare's selection with the median
 * of three as pivot, then a sort of the selected. */
static void smallest_first(double *T, int64_t n, int64_t count)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const double a = T[low], b = T[low + (high - low) / 2], c = T[high];
        const double pivot = fmax(fmin(a, b), fmin(fmax(a, b), c));
        int64_t i = low, j = high;
        while (i <= j) {
            while (T[i] < pivot)
                i++;
            while (T[j] > pivot)
                j--;
            if (i <= j) {
                const double t = T[i];
                T[i++] = T[j];
                T[j--] = t;
            }
        }
        if (count - 1 <= j)
            high = j;
        else if (count - 1 >= i)
            low = i;
        else
            break;
    }
    es_sort_reals(T, count);
}

/* Zeros to the front. */
static int64_t zeros_first(double *T, int64_t n)
{
    int64_t zeros = 0;
    for (int64_t i = 0; i < n; i++)
        if (T[i] == 0.0) {
            T[i] = T[zeros];
            T[zeros++] = 0.0;
        }
    return zeros;
}

/* Checks that every gap T = 1 - cosine lies in [0, 2]. */
static es_status check_gaps(const double *T, int64_t n, es_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (!(T[i] >= 0.0 && T[i] <= 2.0 + 1e-9))
            return es_fail_at(err, ES_E_RANGE, i, -1, "exponent.gap", "T = 1 - cosine",
                              "gap %lld is %g, not in [0, 2]", (long long)i, T[i]);
    return ES_OK;
}

/* k/n of the keys lie within the edge: C B(alpha; x) = k/n, c = C 2^-alpha/alpha. */
static double log_c_at(const es_exponent *e, double alpha)
{
    const double x = fmin(0.5 * e->reach, 1.0 - 1e-9);
    return log((double)e->k / (double)e->n) - es_log_half_beta(alpha, x) -
           alpha * 0.69314718055994531 - log(alpha);
}

/* Both estimates from the sorted gaps that are not 0. */
static void estimate(const double *T, es_exponent *e)
{
    const int64_t k = e->k;
    const double edge = T[k], x = fmin(0.5 * edge, 1.0 - 1e-9);
    double logs = 0.0, beta = 0.0;
    for (int64_t i = 0; i < k; i++) {
        const double xi = fmin(0.5 * T[i], 1.0 - 1e-9);
        logs += log(edge / T[i]);
        beta += log(xi) + log1p(-xi);
    }
    e->reach = edge;
    e->hill = (double)(k - 1) / logs;
    e->hill_se = e->hill / sqrt((double)(k - 2));
    const likelihood l = {.mean = beta / (double)k, .x = x};
    const double top = most_likely(&l, e->hill);
    /* The same correction for few points that makes Hill's estimate unbiased. */
    e->alpha = top * (double)(k - 1) / (double)k;
    e->alpha_se = 1.0 / sqrt((double)(k - 2) * information(e->alpha, x));
    e->log_c = log_c_at(e, e->alpha);
    e->log_c_se = 1.0 / sqrt((double)k);
}

/* sqrt(n), at least 20, at most n/2. */
static int64_t default_k(int64_t n)
{
    const int64_t root = (int64_t)(sqrt((double)n) + 0.5), least = root < 20 ? 20 : root;
    return least < n / 2 ? least : n / 2;
}

es_status es_exponent_estimate(double *T, int64_t n, int64_t k, es_exponent *out, es_error *err)
{
    ES_TRY(check_gaps(T, n, err));
    es_exponent e = {.n = n, .copies = zeros_first(T, n)};
    const int64_t rest = n - e.copies;
    T += e.copies;
    if (rest < 4)
        return es_fail(err, ES_E_EMPTY, "exponent.keys", "at least 4 keys that are no copies",
                       "there are %lld keys beside copies of the query", (long long)rest);
    if (k == 0)
        k = rest < 6 ? 3 : default_k(rest);
    if (k < 3 || k >= rest)
        return es_fail(err, ES_E_RANGE, "exponent.k", "from 3 to one less than there are keys",
                       "k is %lld, of %lld keys", (long long)k, (long long)rest);
    smallest_first(T, rest, k + 1);
    if (!(T[0] < T[k]))
        return es_fail(err, ES_E_NUMERIC, "exponent.ties", "are the keys copies of one another?",
                       "the %lld nearest keys are all at one distance", (long long)k + 1);
    e.k = k;
    e.nearest[0] = T[0];
    e.nearest[1] = T[1];
    estimate(T, &e);
    *out = e;
    return ES_OK;
}

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

/* Checks that a row is finite and not zero, and returns its norm. */
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

/* Queries whose nearest keys threads find. */
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
                                    .log_c_se = NAN,
                                    .reach = NAN,
                                    .nearest = {NAN, NAN}};

/* Computes the gaps of all keys from one query and fits its exponent. */
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

/* Adds x to a running mean and sum of squared deviations (Welford). */
static void add(sums *s, double x)
{
    s->n += 1.0;
    const double off = x - s->sum / fmax(s->n - 1.0, 1.0);
    s->squares += s->n > 1.0 ? off * off * (s->n - 1.0) / s->n : 0.0;
    s->sum += x;
}

/* Returns the standard error of the mean; NaN for fewer than two values. */
static double se_of(const sums *s)
{
    return s->n > 1.0 ? sqrt(s->squares / (s->n - 1.0) / s->n) : (double)NAN;
}

/* Inverses are averaged: 1/alpha is a mean of logarithms and has no bias (MacKay and Ghahramani on
 * Levina and Bickel's estimate); the estimate of one query is (k-1)/(k mean). */
static void pool_all(const es_exponent *each, int64_t m, es_exponent_pool *pool)
{
    sums hill = {0}, alpha = {0}, ratio = {0};
    for (int64_t i = 0; i < m; i++) {
        if (isnan(each[i].alpha)) {
            pool->refused++;
            continue;
        }
        const double fewer = (double)(each[i].k - 1) / (double)each[i].k;
        add(&hill, fewer / each[i].hill);
        add(&alpha, fewer / each[i].alpha);
        add(&ratio, 0.5 * log(each[i].nearest[1] / each[i].nearest[0]));
    }
    pool->queries = (int64_t)hill.n;
    pool->hill = hill.n / hill.sum;
    pool->hill_se = pool->hill * pool->hill * se_of(&hill);
    pool->alpha = alpha.n / alpha.sum;
    pool->alpha_se = pool->alpha * pool->alpha * se_of(&alpha);
    pool->two_nn = ratio.n > 2.0 ? (ratio.n - 1.0) / ratio.sum : (double)NAN;
    pool->two_nn_se = ratio.n > 2.0 ? pool->two_nn / sqrt(ratio.n - 2.0) : (double)NAN;
}

/* c of each query at the alpha of all: that of its own alpha would add the error of that one, which
 * is many times as large. */
static void pool_constants(const es_exponent *each, int64_t m, es_exponent_pool *pool)
{
    sums log_c = {0}, reach = {0};
    for (int64_t i = 0; i < m; i++)
        if (!isnan(each[i].alpha)) {
            add(&log_c, log_c_at(&each[i], pool->alpha));
            add(&reach, log(each[i].reach));
        }
    pool->log_c = log_c.sum / log_c.n;
    pool->log_c_se = se_of(&log_c);
    pool->reach = exp(reach.sum / reach.n);
}

/* Fits every query with all threads, then averages. */
static es_status run_job(job *j, es_exponent_pool *pool, es_error *err)
{
    const es_exec *exec = j->o.exec;
    const int64_t m = j->o.self && j->o.count ? j->o.count : j->queries->rows;
    for (int64_t i = 0; i < j->keys->rows; i++)
        ES_TRY(check_row(j->keys, i, &j->norms[i], "key", err));
    ES_TRY(es_parallel_run(exec, m, one_query, j, err));
    *pool = (es_exponent_pool){0};
    pool_all(j->each, m, pool);
    pool_constants(j->each, m, pool);
    if (pool->queries == 0)
        return es_fail(err, ES_E_NUMERIC, "exponent.ties", "are the keys copies of one another?",
                       "no query has neighbours at different distances");
    return ES_OK;
}

/* Checks shapes and counts before memory is allocated. */
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
    ES_TRY(check_job(keys, j.queries, &j.o, err));
    es_arena arena = {.budget = j.o.exec ? j.o.exec->budget : NULL};
    const int64_t m = j.queries->rows, threads = es_parallel_threads(j.o.exec, m);
    j.each = each;
    es_status status = ES_ARENA_NEW(&arena, j.norms, keys->rows, "norms", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW_2D(&arena, j.scratch, threads, keys->rows + keys->cols, "gaps", err);
    if (status == ES_OK && !each)
        status = ES_ARENA_NEW(&arena, j.each, m, "estimates", err);
    if (status == ES_OK)
        status = run_job(&j, pool, err);
    es_arena_free(&arena);
    return status;
}
