/* The horizon b |Cov(q)^1/2 Cov(k)^1/2| of queries and keys (THEORY.md section 2), without the b.
 *
 * Any R with R'R = Cov has the norms of the root: |Cov(q)^1/2 Cov(k)^1/2| = |R_q R_k'|. Fewer rows
 * than dimensions are such an R themselves, once centred and divided by the square root of their
 * number, and no covariance is ever written out; otherwise R is a Cholesky factor. Both sides of a
 * head are in the d dimensions of its queries, also where they were made of wider tokens. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "talk.h"

/* ---- the spread of rows ---- */

/* Mean (d) and R (rows, d), rows <= d, of some rows of d numbers. */
typedef struct spread {
    int64_t rows, d;
    double *mean, *root;
} spread;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void spread_free(spread *s)
{
    free(s->mean);
    free(s->root);
}

static es_view root_of(const spread *s) { return es_view_f64(s->root, s->rows, s->d); }

/* Few rows: (x - mean)/sqrt(rows). */
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

/* Many rows: the factor L' of Cov = L L'. */
static es_status factor(const measure_job *job, const es_view *x, spread *out, es_error *err)
{
    const int64_t d = out->d;
    double *cov = cli_alloc_array((size_t)(d * d), sizeof *cov);
    es_exec exec = job->session->exec;
    exec.progress = cli_progress_silent;
    es_status status = es_cov_estimate(x, false, &exec, out->mean, cov, err);
    const es_view S = es_view_f64(cov, d, d);
    if (status == ES_OK)
        status = es_chol_factor(&S, 0.0, &job->session->budget, out->root, NULL, err);
    for (int64_t i = 0; i < d && status == ES_OK; i++)
        for (int64_t j = 0; j < i; j++) {
            out->root[j * d + i] = out->root[i * d + j];
            out->root[i * d + j] = 0.0;
        }
    free(cov);
    return status;
}

/* *out is released by spread_free() whatever is returned. */
static es_status spread_of(const measure_job *job, const es_view *x, spread *out, es_error *err)
{
    out->d = x->cols;
    out->rows = least(x->rows, x->cols);
    out->mean = cli_alloc_array((size_t)out->d, sizeof(double));
    out->root = cli_alloc_array((size_t)(out->rows * out->d), sizeof(double));
    if (cli_interrupted())
        return ES_E_INTERRUPTED;
    if (x->rows >= x->cols)
        return factor(job, x, out, err);
    centre(x, out);
    return ES_OK;
}

/* ---- norms ---- */

static double squares_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

/* |R w'| of R and w (rows, d), and its squared Frobenius norm, which may be NULL. */
static es_status product_norm(const measure_job *job, const spread *s, const es_view *w,
                              es_num *norm, double *squares, es_error *err)
{
    es_budget *budget = &job->session->budget;
    double *product = cli_alloc_array((size_t)(s->rows * w->rows), sizeof *product);
    const es_view root = root_of(s), down = es_view_transpose(w);
    es_status status = es_mat_multiply(&root, &down, budget, product, err);
    const es_view M = es_view_f64(product, s->rows, w->rows);
    if (status == ES_OK)
        status = es_norm_spectral(&M, budget, norm, err);
    if (status == ES_OK && squares)
        *squares = squares_of(product, s->rows * w->rows);
    free(product);
    return status;
}

/* What rounding does to covariances and their factors, with the jitter these may have needed (at
 * most 64 eps of the trace), moves the square of the norm by so much of the product of the traces.
 */
static double rounding(const spread *q, const spread *k, double norm)
{
    const double relative = (32.0 * (double)q->d + 128.0) * DBL_EPSILON;
    const double most =
        relative * squares_of(q->root, q->rows * q->d) * squares_of(k->root, k->rows * k->d);
    return norm * norm > most ? most / norm : sqrt(most);
}

/* The variance over keys of the score of query x is x' Cov(k) x; its mean over queries is F^2 and
 * what their mean adds to it. */
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

static es_status norms_of(const measure_job *job, const spread *q, const spread *k,
                          measure_horizon *out, es_error *err)
{
    const es_view other = root_of(k);
    es_num norm;
    double squares;
    const es_status status = product_norm(job, q, &other, &norm, &squares, err);
    if (status != ES_OK)
        return status;
    out->score_sd = sqrt(mean_variance(q, k, squares));
    if (job->m < 2)
        return cli_fail(err, ES_E_EMPTY, NULL, "measure.horizon", "more queries",
                        "one query has no covariance");
    out->horizon = (es_num){norm.val, norm.err + rounding(q, k, norm.val)};
    out->frobenius = sqrt(squares);
    return ES_OK;
}

/* |S^1/2 Wk' Wq| = |R_k Wq|; without matrices it is the root of the reach |S|. */
static es_status one_sided(const measure_job *job, int64_t head, const spread *k,
                           measure_horizon *out, es_error *err)
{
    es_view wq;
    es_num norm;
    if (!job->o->weights[MEASURE_Q]) {
        out->one_sided = sqrt(job->reach.val);
        return ES_OK;
    }
    es_array_view(&job->tokens.weights[MEASURE_Q], head, &wq, err);
    const es_view down = es_view_transpose(&wq);
    const es_status status = product_norm(job, k, &down, &norm, NULL, err);
    if (status == ES_OK)
        out->one_sided = norm.val;
    return status;
}

/* ---- what it takes ----
 * An operation of f64 is counted as two: costs are in those of attention, which is f32 as a rule.
 * Constants are good for a factor of 2 in 256 to 1024 dimensions. */

static double spread_flops(int64_t rows, int64_t cols)
{
    const double n = (double)rows, d = (double)cols;
    return rows < cols ? 8.0 * n * d : 4.0 * n * d * d + 2.0 * d * d * d;
}

/* Norm of (a, b): products with itself and Cholesky factors, or singular values of a small one. */
static double norm_flops(int64_t a, int64_t b)
{
    const double k = (double)least(a, b);
    return 4.0 * (double)a * (double)b * k + 8.0 * k * k * k;
}

static double product_flops(int64_t a, int64_t b, int64_t c)
{
    return 4.0 * (double)a * (double)b * (double)c + norm_flops(a, c);
}

/* Of all heads, and of the tokens they are made from. */
static double flops_of(const measure_job *job)
{
    const int64_t d = job->d, q = least(job->m, d), k = least(job->n, d);
    const int64_t D = job->o->tokens ? job->tokens.info.shape[1] : 0;
    double head = spread_flops(job->m, d) + spread_flops(job->n, d) + product_flops(q, d, k);
    if (job->o->weights[MEASURE_Q])
        head += product_flops(k, d, D);
    const double tokens = D ? spread_flops(job->n, D) + norm_flops(least(job->n, D), D) : 0.0;
    return head * (double)job->heads + tokens;
}

void measure_horizon_plan(measure_job *job, double attention)
{
    const double second = 5e10; /* operations: cheap enough, however little attention takes */
    const double flops = flops_of(job);
    const double d = (double)job->d, D = job->o->tokens ? (double)job->tokens.info.shape[1] : 0.0;
    const double wide = fmax(d, D), tall = fmin(wide, (double)(job->m > job->n ? job->m : job->n));
    if (job->n < 2) {
        snprintf(job->horizon_reason, sizeof job->horizon_reason, "one key has no covariance");
        return;
    }
    if (flops > attention + second) {
        snprintf(job->horizon_reason, sizeof job->horizon_reason,
                 "left out: covariances of %.0f dimensions would take %.2g operations, attention "
                 "takes %.2g",
                 wide, flops, attention);
        return;
    }
    job->cost.flops += flops;
    /* both sides, a covariance and its copy, a product, and what its factors and norm take */
    job->cost.work_bytes += 16.0 * 8.0 * wide * tall;
}

/* ---- a head ---- */

/* Covariances are beside what was asked for: where they cannot be had, because there is one query
 * alone or numbers are too large to be squared, attention is reported without them. */
static es_status give_up(es_status status, const es_error *err, char *reason)
{
    if (status != ES_OK && status != ES_E_INTERRUPTED)
        snprintf(reason, MEASURE_REASON, "%s", err->message);
    return status == ES_E_INTERRUPTED ? status : ES_OK;
}

es_status measure_horizon_tokens(measure_job *job)
{
    spread s = {0};
    es_view x;
    es_error err;
    es_num norm;
    job->reach = (es_num){NAN, NAN};
    job->trace = NAN;
    if (job->horizon_reason[0])
        return ES_OK;
    es_array_view(&job->tokens.x, 0, &x, &err);
    es_status status = spread_of(job, &x, &s, &err);
    const es_view root = root_of(&s);
    if (status == ES_OK)
        status = es_norm_spectral(&root, &job->session->budget, &norm, &err);
    if (status == ES_OK) {
        job->trace = squares_of(s.root, s.rows * s.d);
        /* as in rounding() */
        job->reach =
            (es_num){norm.val * norm.val, 2.0 * norm.val * norm.err + (32.0 * (double)s.d + 128.0) *
                                                                          DBL_EPSILON * job->trace};
    }
    spread_free(&s);
    return give_up(status, &err, job->horizon_reason);
}

es_status measure_horizon_of(const measure_job *job, int64_t head, measure_horizon *out)
{
    spread q = {0}, k = {0};
    es_view v[3];
    es_error err;
    *out = (measure_horizon){{NAN, NAN}, NAN, NAN, NAN, ""};
    snprintf(out->reason, sizeof out->reason, "%s", job->horizon_reason);
    if (out->reason[0])
        return ES_OK;
    measure_views(job, head, v);
    es_status status = spread_of(job, &v[MEASURE_Q], &q, &err);
    if (status == ES_OK)
        status = spread_of(job, &v[MEASURE_K], &k, &err);
    if (status == ES_OK)
        status = norms_of(job, &q, &k, out, &err);
    if (status == ES_OK && job->o->tokens)
        status = one_sided(job, head, &k, out, &err);
    spread_free(&q);
    spread_free(&k);
    return give_up(status, &err, out->reason);
}
