/* SPDX-License-Identifier: Apache-2.0 */
/* horizon.c : the horizon b |Cov(q)^1/2 Cov(k)^1/2| of queries and keys (THEORY 2), without
 * the b.
 *
 * Any R with R'R = Cov has the norms of the root: |Cov(q)^1/2 Cov(k)^1/2| = |R_q R_k'|. Fewer rows
 * than dimensions are such an R themselves, once centred and divided by the square root of their
 * number, and no covariance is ever written out; otherwise R is a Cholesky factor. Both sides of a
 * head are in the d dimensions of its queries, also where they were made of wider tokens. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/measure/measure.h"

/* Working memory of one head. */
typedef struct work {
    const es_exec *exec;
    es_arena arena;
} work;

/* Allocates a matrix that is freed with the head. */
static es_status numbers_of(work *r, int64_t rows, int64_t cols, double **out, es_error *err)
{
    ES_TRY(ES_ARENA_NEW_2D(&r->arena, *out, rows, cols, "covariances", err));
    return ES_OK;
}

/* ---- the spread of rows ---- */

/* Mean (d) and R (rows, d), rows <= d, of some rows of d numbers. */
typedef struct spread {
    int64_t rows, d;
    double *mean, *root;
} spread;

/* Returns the smaller of two counts. */
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns R as a view. */
static es_view root_of(const spread *s) { return es_view_f64(s->root, s->rows, s->d); }

/* Computes R of few rows: (x - mean)/sqrt(rows). */
static void centre(const es_view *x, spread *out)
{
    const int64_t d = out->d;
    const double n = (double)x->rows;
    for (int64_t j = 0; j < d; j++)
        out->mean[j] = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        es_view_read_row(x, i, out->root + i * d);
        for (int64_t j = 0; j < d; j++)
            out->mean[j] += out->root[i * d + j] / n;
    }
    for (int64_t i = 0; i < x->rows * d; i++)
        out->root[i] = (out->root[i] - out->mean[i % d]) / sqrt(n);
}

/* Computes R of many rows: the factor L' of Cov = L L'. */
static es_status factor(work *r, const es_view *x, spread *out, es_error *err)
{
    const int64_t d = out->d;
    double *cov;
    ES_TRY(numbers_of(r, d, d, &cov, err));
    ES_TRY(es_cov_estimate(x, false, r->exec, out->mean, cov, err));
    const es_view S = es_view_f64(cov, d, d);
    ES_TRY(es_chol_factor(&S, 0.0, r->exec->budget, out->root, NULL, err));
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < i; j++) {
            out->root[j * d + i] = out->root[i * d + j];
            out->root[i * d + j] = 0.0;
        }
    return ES_OK;
}

/* Computes mean and R of the rows of x. */
static es_status spread_of(work *r, const es_view *x, spread *out, es_error *err)
{
    out->d = x->cols;
    out->rows = least(x->rows, x->cols);
    ES_TRY(numbers_of(r, out->d, 1, &out->mean, err));
    ES_TRY(numbers_of(r, out->rows, out->d, &out->root, err));
    if (measure_stop(r->exec))
        return ES_E_INTERRUPTED;
    if (x->rows >= x->cols)
        return factor(r, x, out, err);
    centre(x, out);
    return ES_OK;
}

/* ---- norms ---- */

/* Returns the sum of squares. */
static double squares_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

/* Computes |R w'| of R and w (rows, d), and its squared Frobenius norm unless `squares` is NULL. */
static es_status product_norm(work *r, const spread *s, const es_view *w, es_num *norm,
                              double *squares, es_error *err)
{
    double *product;
    const es_view root = root_of(s), down = es_view_transpose(w);
    ES_TRY(numbers_of(r, s->rows, w->rows, &product, err));
    ES_TRY(es_mat_multiply(&root, &down, r->exec->budget, product, err));
    const es_view M = es_view_f64(product, s->rows, w->rows);
    ES_TRY(es_norm_spectral(&M, r->exec->budget, norm, err));
    if (squares)
        *squares = squares_of(product, s->rows * w->rows);
    return ES_OK;
}

/* Returns a bound on the rounding error of the norm. Rounding of covariances and factors, and the
 * jitter that factors may have needed (at most 64 eps of the trace), move the square of the norm by
 * at most this multiple of the product of the traces. */
static double rounding(const spread *q, const spread *k, double norm)
{
    const double relative = (32.0 * (double)q->d + 128.0) * DBL_EPSILON;
    const double most =
        relative * squares_of(q->root, q->rows * q->d) * squares_of(k->root, k->rows * k->d);
    return norm * norm > most ? most / norm : sqrt(most);
}

/* Returns the mean over queries of the variance of their scores. For query x the variance is
 * x' Cov(k) x; its mean is F^2 plus mean(q)' Cov(k) mean(q). */
static double mean_variance(const spread *q, const spread *k, double squares)
{
    for (int64_t i = 0; i < k->rows; i++) {
        double along = 0.0;
        for (int64_t j = 0; j < k->d; j++)
            along += k->root[i * k->d + j] * q->mean[j];
        squares += along * along;
    }
    return squares;
}

/* Computes horizon, Frobenius norm and standard deviation of the scores of a head. */
static es_status norms_of(work *r, const spread *q, const spread *k, int64_t queries,
                          measure_horizon *out, es_error *err)
{
    const es_view other = root_of(k);
    es_num norm;
    double squares;
    ES_TRY(product_norm(r, q, &other, &norm, &squares, err));
    out->score_sd = sqrt(mean_variance(q, k, squares));
    if (queries < 2)
        return es_fail(err, ES_E_EMPTY, "measure.horizon", "more queries",
                       "one query has no covariance");
    out->horizon = norm.val;
    out->horizon_error = norm.err + rounding(q, k, norm.val);
    out->frobenius = sqrt(squares);
    return ES_OK;
}

/* Computes |S^1/2 Wk' Wq| = |R_k Wq|; without matrices it is the root of the reach |S|. */
static es_status one_sided(const measure_state *s, work *r, int64_t head, const spread *k,
                           measure_horizon *out, es_error *err)
{
    es_view wq;
    es_num norm;
    if (!s->p->weights[MEASURE_Q]) {
        out->one_sided = sqrt(s->reach.val);
        return ES_OK;
    }
    es_array_view(&s->tokens.weights[MEASURE_Q], head, &wq, err);
    const es_view down = es_view_transpose(&wq);
    ES_TRY(product_norm(r, k, &down, &norm, NULL, err));
    out->one_sided = norm.val;
    return ES_OK;
}

/* ---- cost ----
 * An operation of f64 is counted as two: costs are in those of attention, which is f32 as a rule.
 * Constants are good for a factor of 2 in 256 to 1024 dimensions. */

/* Returns the operations of spread_of(). */
static double spread_flops(int64_t rows, int64_t cols)
{
    const double n = (double)rows, d = (double)cols;
    return rows < cols ? 8.0 * n * d : 4.0 * n * d * d + 2.0 * d * d * d;
}

/* Returns the operations of a norm of (a, b): products with itself and Cholesky factors, or
 * singular values of a small one. */
static double norm_flops(int64_t a, int64_t b)
{
    const double k = (double)least(a, b);
    return 4.0 * (double)a * (double)b * k + 8.0 * k * k * k;
}

/* Returns the operations of product_norm(). */
static double product_flops(int64_t a, int64_t b, int64_t c)
{
    return 4.0 * (double)a * (double)b * (double)c + norm_flops(a, c);
}

/* Returns the operations of all heads, and of the tokens they are made from. */
static double flops_of(const measure_state *s)
{
    const int64_t d = s->d, q = least(s->m, d), k = least(s->n, d);
    const int64_t D = s->p->tokens ? s->tokens.info.shape[1] : 0;
    double head = spread_flops(s->m, d) + spread_flops(s->n, d) + product_flops(q, d, k);
    if (s->p->weights[MEASURE_Q])
        head += product_flops(k, d, D);
    const double tokens = D ? spread_flops(s->n, D) + norm_flops(least(s->n, D), D) : 0.0;
    return head * (double)s->heads + tokens;
}

double measure_horizon_plan(measure_state *s, double attention)
{
    const double second = 5e10; /* operations: cheap enough, however little attention takes */
    const double flops = flops_of(s);
    const double d = (double)s->d, D = s->p->tokens ? (double)s->tokens.info.shape[1] : 0.0;
    const double wide = fmax(d, D), tall = fmin(wide, (double)(s->m > s->n ? s->m : s->n));
    if (s->p->window) {
        snprintf(s->horizon_reason, sizeof s->horizon_reason,
                 "left out: a window sees no more keys, however many there are");
        return 0.0;
    }
    if (s->opts.score_cap > 0.0) {
        snprintf(s->horizon_reason, sizeof s->horizon_reason,
                 "left out: the horizon is that of scores without a cap");
        return 0.0;
    }
    if (s->sinks) {
        snprintf(s->horizon_reason, sizeof s->horizon_reason,
                 "left out: the horizon is that of keys alone; run without --sink-logits");
        return 0.0;
    }
    if (s->n < 2) {
        snprintf(s->horizon_reason, sizeof s->horizon_reason, "one key has no covariance");
        return 0.0;
    }
    if (flops > attention + second) {
        snprintf(s->horizon_reason, sizeof s->horizon_reason,
                 "left out: covariances of %.0f dimensions would take %.2g operations, attention "
                 "takes %.2g",
                 wide, flops, attention);
        return 0.0;
    }
    s->cost.flops += flops;
    /* both sides, a covariance and its copy, a product, and what its factors and norm take */
    s->cost.work_bytes += 16.0 * 8.0 * wide * tall;
    return flops;
}

/* ---- a head ---- */

/* Turns a failure into a reason. Horizons are secondary: where covariances do not exist, because
 * there is one query or numbers are too large to be squared, attention is reported without them. */
static es_status give_up(es_status status, const es_error *err, char reason[MEASURE_REASON])
{
    if (status != ES_OK && status != ES_E_INTERRUPTED)
        snprintf(reason, MEASURE_REASON, "%s", err->message);
    return status == ES_E_INTERRUPTED ? status : ES_OK;
}

/* Computes reach |S| and trace of the tokens. */
static es_status reach_of(measure_state *s, work *r, es_error *err)
{
    spread x;
    es_view view;
    es_num norm;
    es_array_view(&s->tokens.x, 0, &view, err);
    ES_TRY(spread_of(r, &view, &x, err));
    const es_view root = root_of(&x);
    ES_TRY(es_norm_spectral(&root, r->exec->budget, &norm, err));
    s->trace = squares_of(x.root, x.rows * x.d);
    /* as in rounding() */
    s->reach =
        (es_num){norm.val * norm.val,
                 2.0 * norm.val * norm.err + (32.0 * (double)x.d + 128.0) * DBL_EPSILON * s->trace};
    return ES_OK;
}

es_status measure_horizon_tokens(es_job *job)
{
    measure_state *s = job->state;
    work r = {.exec = &job->exec, .arena = {.budget = job->exec.budget}};
    es_error err = {0};
    s->reach = (es_num){NAN, NAN};
    s->trace = NAN;
    if (s->horizon_reason[0])
        return ES_OK;
    const es_status status = reach_of(s, &r, &err);
    es_arena_free(&r.arena);
    return give_up(status, &err, s->horizon_reason);
}

/* Computes the horizon of a head from its queries and keys. */
static es_status horizon_in(const measure_state *s, work *r, int64_t head, measure_horizon *out,
                            es_error *err)
{
    spread q, k;
    es_view v[3];
    measure_views(s, head, v);
    ES_TRY(spread_of(r, &v[MEASURE_Q], &q, err));
    ES_TRY(spread_of(r, &v[MEASURE_K], &k, err));
    ES_TRY(norms_of(r, &q, &k, s->m, out, err));
    return s->p->tokens ? one_sided(s, r, head, &k, out, err) : ES_OK;
}

es_status measure_horizon_of(const measure_state *s, int64_t head, const es_exec *exec,
                             measure_horizon *out, char reason[MEASURE_REASON])
{
    work r = {.exec = exec, .arena = {.budget = exec->budget}};
    es_error err = {0};
    *out = (measure_horizon){NAN, NAN, NAN, NAN, NAN};
    snprintf(reason, MEASURE_REASON, "%s", s->horizon_reason);
    if (reason[0])
        return ES_OK;
    const es_status status = horizon_in(s, &r, head, out, &err);
    es_arena_free(&r.arena);
    return give_up(status, &err, reason);
}
