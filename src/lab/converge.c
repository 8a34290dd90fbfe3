#include <esscher/converge.h>

#include <math.h>
#include <string.h>

#include <esscher/attend.h>
#include <esscher/limit.h>
#include <esscher/linalg.h>
#include <esscher/tokens.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"

/* Experiments of the address space that belong to this file. */
enum { TOKENS = 1, QUERIES = 2, LIMIT_POINTS = 3 };

enum { LIMIT_DRAWS = 65536 }; /* for limits that have no closed form */

struct es_converge_limit {
    int64_t scales, channels;
    double *mean;  /* (scales, channels) */
    double *cov;   /* (scales, channels, channels) */
    double *error; /* (scales, 2): of mean and covariance */
    es_budget *budget;
};

void es_head_matrix(const es_head *head, double scale, double *a)
{
    const double factor = scale / sqrt((double)head->key_dim);
    for (int64_t i = 0; i < head->dim; i++)
        for (int64_t j = 0; j < head->dim; j++) {
            double sum = 0.0;
            for (int64_t r = 0; r < head->key_dim; r++)
                sum += head->wk[r * head->dim + i] * head->wq[r * head->dim + j];
            a[i * head->dim + j] = factor * sum;
        }
}

/* ---- the question, checked ---- */

static es_budget *budget_of(const es_converge_spec *spec)
{
    return spec->exec ? spec->exec->budget : NULL;
}

static int64_t largest_size(const es_converge_spec *spec) { return spec->sizes[spec->n_sizes - 1]; }

static int64_t queries_of(const es_converge_spec *spec)
{
    return spec->population ? (spec->queries ? spec->queries : 4096) : largest_size(spec);
}

static int64_t map_queries_of(const es_converge_spec *spec)
{
    const int64_t wanted = spec->map_queries ? spec->map_queries : 256;
    const int64_t most = spec->population ? queries_of(spec) : spec->sizes[0];
    return wanted < most ? wanted : most;
}

static es_status check_matrix(const double *x, int64_t rows, int64_t cols, const char *name,
                              es_error *err)
{
    es_scan scan;
    const es_view v = es_view_f64(x, rows, cols);
    ES_TRY(es_view_check(&v, name, err));
    return es_view_scan(&v, name, &scan, err);
}

static es_status check_spec(const es_converge_spec *spec, es_error *err)
{
    const es_head *h = spec->head;
    ES_TRY(es_law_check(spec->law, err));
    if (h->dim != spec->law->dim || h->key_dim < 1 || h->key_dim > ES_MAX_DIM || h->channels < 1 ||
        h->channels > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "converge.head",
                       "Wq, Wk and Wv have one column per token coordinate",
                       "a head of dimension %lld for tokens of dimension %lld", (long long)h->dim,
                       (long long)spec->law->dim);
    ES_TRY(check_matrix(h->wq, h->key_dim, h->dim, "Wq", err));
    ES_TRY(check_matrix(h->wk, h->key_dim, h->dim, "Wk", err));
    ES_TRY(check_matrix(h->wv, h->channels, h->dim, "Wv", err));
    if (spec->n_sizes < 1 || spec->n_scales < 1)
        return es_fail(err, ES_E_ARGUMENT, "converge.grid", "give at least one n and one scale",
                       "an empty grid");
    if (spec->sizes[0] < 2)
        return es_fail(err, ES_E_ARGUMENT, "converge.sizes", "start at two tokens",
                       "n = %lld has no covariance", (long long)spec->sizes[0]);
    if (spec->queries < 0 || spec->map_queries < 0)
        return es_fail(err, ES_E_ARGUMENT, "converge.queries", "0 stands for the default",
                       "a negative count");
    return ES_OK;
}

/* ---- limits ---- */

void es_converge_limit_free(es_converge_limit *limit)
{
    if (!limit)
        return;
    es_budget *budget = limit->budget;
    es_mem_free(budget, limit->mean);
    es_mem_free(budget, limit->cov);
    es_mem_free(budget, limit->error);
    es_mem_free(budget, limit);
}

/* Moments of Gamma(X) at one scale: a closed form or quadrature where there is one, else an average
 * over fresh tokens with its standard error. `points` (LIMIT_DRAWS, dim) is drawn the first time it
 * is needed. */
static es_status limit_at_scale(const es_converge_spec *spec, es_converge_limit *limit, int64_t s,
                                const double *a, double **points, es_error *err)
{
    const int64_t d = spec->head->dim, dv = spec->head->channels;
    const es_limit_head head = {.A = a, .V = spec->head->wv, .dv = dv};
    double *mean = limit->mean + s * dv, *cov = limit->cov + s * dv * dv;
    es_limit_accuracy accuracy = {0};
    es_status status =
        es_limit_moments(spec->law, &head, NULL, spec->exec, mean, cov, &accuracy, err);
    if (status == ES_E_UNSUPPORTED) {
        if (!*points) {
            const es_address at = {.seed = spec->seed, .experiment = LIMIT_POINTS};
            void *memory;
            ES_TRY(es_mem_array(limit->budget, LIMIT_DRAWS, d, sizeof(double), "draws of the limit",
                                &memory, err));
            *points = memory;
            ES_TRY(es_tokens_fill(spec->law, &at, LIMIT_DRAWS, spec->exec, *points, err));
        }
        const es_view draws = es_view_f64(*points, LIMIT_DRAWS, d);
        status = es_limit_moments(spec->law, &head, &draws, spec->exec, mean, cov, &accuracy, err);
    }
    /* from an error per element to one of the whole vector and matrix */
    limit->error[2 * s] = accuracy.mean * sqrt((double)dv);
    limit->error[2 * s + 1] = accuracy.cov * (double)dv;
    return status;
}

static es_status fill_limits(const es_converge_spec *spec, es_converge_limit *limit, es_error *err)
{
    const int64_t d = spec->head->dim;
    double *points = NULL;
    void *a;
    ES_TRY(es_mem_array(limit->budget, d, d, sizeof(double), "A", &a, err));
    es_status status = ES_OK;
    for (int64_t s = 0; s < spec->n_scales && status == ES_OK; s++) {
        es_head_matrix(spec->head, spec->scales[s], a);
        status = limit_at_scale(spec, limit, s, a, &points, err);
    }
    es_mem_free(limit->budget, a);
    es_mem_free(limit->budget, points);
    return status;
}

es_status es_converge_limit_new(const es_converge_spec *spec, es_converge_limit **out,
                                es_error *err)
{
    *out = NULL;
    ES_TRY(check_spec(spec, err));
    es_budget *budget = budget_of(spec);
    const int64_t dv = spec->head->channels;
    void *memory, *mean = NULL, *cov = NULL, *error = NULL;
    ES_TRY(es_mem_new(budget, sizeof(es_converge_limit), "limits", &memory, err));
    es_converge_limit *limit = memory;
    es_status status =
        es_mem_array(budget, spec->n_scales, dv, sizeof(double), "limits", &mean, err);
    if (status == ES_OK)
        status = es_mem_array(budget, spec->n_scales * dv, dv, sizeof(double), "limits", &cov, err);
    if (status == ES_OK)
        status = es_mem_array(budget, spec->n_scales, 2, sizeof(double), "limits", &error, err);
    *limit = (es_converge_limit){.scales = spec->n_scales,
                                 .channels = dv,
                                 .mean = mean,
                                 .cov = cov,
                                 .error = error,
                                 .budget = budget};
    if (status == ES_OK)
        status = fill_limits(spec, limit, err);
    if (status != ES_OK) {
        es_converge_limit_free(limit);
        return status;
    }
    *out = limit;
    return ES_OK;
}

void es_converge_limit_error(const es_converge_limit *limit, int64_t s, double *mean, double *cov)
{
    *mean = limit->error[2 * s];
    *cov = limit->error[2 * s + 1];
}

/* ---- one replicate ---- */

/* Everything of size n or m that a replicate holds, in one place so that it can be counted and
 * freed. */
typedef struct replicate {
    double *tokens;     /* (n, dim) */
    double *asking;     /* (m, dim) queries before Wq; the tokens themselves in self mode */
    double *q, *k, *v;  /* (m, key_dim), (n, key_dim), (n, channels) */
    double *scales;     /* (n_scales) score scales: factor / sqrt(k) */
    double *a;          /* (dim, dim) A at one scale */
    double *limit;      /* (m, channels) Gamma of every query that is compared, at one scale */
    double *output;     /* (n_scales, n_sizes, map queries, channels) */
    double *difference; /* (channels, channels) */
    double *expected;   /* (channels, channels) covariance of the limit over the queries, population
                           mode */
    double *eigen;      /* (channels) */
    es_moments *moments; /* (n_scales, n_sizes) */
    es_moments compared; /* of the limit over the queries, population mode */
    int64_t sets;
} replicate;

enum { BUFFERS = 12 };

static void replicate_sizes(const es_converge_spec *spec, int64_t count[BUFFERS])
{
    const es_head *h = spec->head;
    const int64_t n = largest_size(spec), m = queries_of(spec), dv = h->channels;
    const int64_t compared = spec->population ? m : map_queries_of(spec);
    const int64_t counts[BUFFERS] = {n * h->dim,
                                     spec->population ? m * h->dim : 0,
                                     m * h->key_dim,
                                     n * h->key_dim,
                                     n * dv,
                                     spec->n_scales,
                                     h->dim * h->dim,
                                     compared * dv,
                                     spec->n_scales * spec->n_sizes * map_queries_of(spec) * dv,
                                     dv * dv,
                                     dv * dv,
                                     dv};
    memcpy(count, counts, sizeof counts);
}

static void replicate_free(replicate *r, es_budget *budget)
{
    double *const memory[BUFFERS] = {r->tokens, r->asking,     r->q,        r->k,
                                     r->v,      r->scales,     r->a,        r->limit,
                                     r->output, r->difference, r->expected, r->eigen};
    for (int i = 0; i < BUFFERS; i++)
        es_mem_free(budget, memory[i]);
    for (int64_t i = 0; r->moments && i < r->sets; i++)
        es_moments_free(&r->moments[i]);
    es_mem_free(budget, r->moments);
    es_moments_free(&r->compared);
    *r = (replicate){0};
}

static es_status replicate_new(replicate *r, const es_converge_spec *spec, es_error *err)
{
    es_budget *budget = budget_of(spec);
    int64_t count[BUFFERS];
    void *memory[BUFFERS] = {0}, *moments = NULL;
    replicate_sizes(spec, count);
    *r = (replicate){.sets = spec->n_scales * spec->n_sizes};
    es_status status = ES_OK;
    for (int i = 0; i < BUFFERS && status == ES_OK; i++)
        status = es_mem_array(budget, count[i], 1, sizeof(double), "a replicate", &memory[i], err);
    if (status == ES_OK)
        status = es_mem_array(budget, r->sets, 1, sizeof(es_moments), "a replicate", &moments, err);
    r->tokens = memory[0];
    r->asking = memory[1];
    r->q = memory[2];
    r->k = memory[3];
    r->v = memory[4];
    r->scales = memory[5];
    r->a = memory[6];
    r->limit = memory[7];
    r->output = memory[8];
    r->difference = memory[9];
    r->expected = memory[10];
    r->eigen = memory[11];
    r->moments = moments;
    if (status == ES_OK)
        status = es_moments_new(spec->head->channels, budget, &r->compared, err);
    if (status != ES_OK)
        replicate_free(r, budget);
    return status;
}

static es_status project(const double *x, int64_t rows, int64_t dim, const double *w,
                         int64_t out_dim, es_budget *budget, double *out, es_error *err)
{
    const es_view vx = es_view_f64(x, rows, dim), vw = es_view_f64(w, out_dim, dim);
    const es_view transposed = es_view_transpose(&vw);
    return es_mat_multiply(&vx, &transposed, budget, out, err);
}

/* Tokens, and what the head makes of them. */
static es_status draw(const es_converge_spec *spec, int64_t number, replicate *r, es_error *err)
{
    const es_head *h = spec->head;
    const int64_t n = largest_size(spec), m = queries_of(spec);
    es_budget *budget = budget_of(spec);
    es_address at = {.seed = spec->seed, .experiment = TOKENS, .cell = (uint64_t)number};
    ES_TRY(es_tokens_fill(spec->law, &at, n, spec->exec, r->tokens, err));
    if (spec->population) {
        at.experiment = QUERIES;
        ES_TRY(es_tokens_fill(spec->law, &at, m, spec->exec, r->asking, err));
    }
    for (int64_t s = 0; s < spec->n_scales; s++)
        r->scales[s] = spec->scales[s] / sqrt((double)h->key_dim);
    ES_TRY(project(spec->population ? r->asking : r->tokens, m, h->dim, h->wq, h->key_dim, budget,
                   r->q, err));
    ES_TRY(project(r->tokens, n, h->dim, h->wk, h->key_dim, budget, r->k, err));
    return project(r->tokens, n, h->dim, h->wv, h->channels, budget, r->v, err);
}

static es_attend_opts attend_options(const es_converge_spec *spec, const replicate *r)
{
    return (es_attend_opts){.precision = spec->precision,
                            .scales = r->scales,
                            .n_scales = spec->n_scales,
                            .prefixes = spec->sizes,
                            .n_prefixes = spec->n_sizes,
                            .exec = spec->exec};
}

/* Moments of all queries; outputs of the first few, which meet the same keys. */
static es_status attend(const es_converge_spec *spec, replicate *r, es_error *err)
{
    const es_head *h = spec->head;
    const int64_t n = largest_size(spec), few = map_queries_of(spec);
    const es_view q = es_view_f64(r->q, queries_of(spec), h->key_dim),
                  k = es_view_f64(r->k, n, h->key_dim);
    const es_view v = es_view_f64(r->v, n, h->channels), first = es_view_rows(&q, 0, few);
    es_attend_opts opts = attend_options(spec, r);
    const es_attend_out outputs = {.output = r->output}, moments = {.moments = r->moments};
    ES_TRY(es_attend(&first, &k, &v, &opts, &outputs, err));
    opts.self = !spec->population;
    return es_attend(&q, &k, &v, &opts, &moments, err);
}

/* ---- errors ---- */

/* Gamma of the first `count` queries at scale s, into r->limit. */
static es_status limit_maps(const es_converge_spec *spec, replicate *r, int64_t s, int64_t count,
                            es_error *err)
{
    const es_head *h = spec->head;
    const double *x = spec->population ? r->asking : r->tokens;
    es_head_matrix(h, spec->scales[s], r->a);
    const es_limit_head head = {.A = r->a, .V = h->wv, .dv = h->channels};
    const es_view queries = es_view_f64(x, count, h->dim);
    return es_limit_map(spec->law, &head, &queries, spec->exec, r->limit, NULL, NULL, err);
}

static double map_error(const es_converge_spec *spec, const replicate *r, int64_t set)
{
    const int64_t few = map_queries_of(spec), dv = spec->head->channels;
    const double *y = r->output + set * few * dv;
    double sum = 0.0;
    for (int64_t i = 0; i < few * dv; i++)
        sum += (y[i] - r->limit[i]) * (y[i] - r->limit[i]);
    return sqrt(sum / (double)few);
}

static es_status moment_errors(const es_converge_spec *spec, replicate *r, int64_t set,
                               const double *mean, const double *cov, es_converge_cell *out,
                               es_error *err)
{
    const int64_t dv = spec->head->channels;
    const es_moments *got = &r->moments[set];
    double sum = 0.0;
    for (int64_t c = 0; c < dv; c++)
        sum += (got->mean[c] - mean[c]) * (got->mean[c] - mean[c]);
    out->mean_error = sqrt(sum);
    es_moments_covariance(got, 0, r->difference);
    sum = 0.0;
    for (int64_t i = 0; i < dv * dv; i++) {
        r->difference[i] -= cov[i];
        sum += r->difference[i] * r->difference[i];
    }
    out->cov_frobenius = sqrt(sum);
    const es_view difference = es_view_f64(r->difference, dv, dv);
    ES_TRY(es_sym_eigen(&difference, budget_of(spec), r->eigen, NULL, err));
    out->cov_spectral = fmax(fabs(r->eigen[0]), fabs(r->eigen[dv - 1]));
    return ES_OK;
}

/* Population mode: what the limit does to the very same queries, so that their finite number
 * cancels. */
static es_status compare_queries(const es_converge_spec *spec, replicate *r, es_error *err)
{
    es_moments_free(&r->compared);
    ES_TRY(es_moments_new(spec->head->channels, budget_of(spec), &r->compared, err));
    es_moments_add(&r->compared, r->limit, queries_of(spec));
    es_moments_covariance(&r->compared, 0, r->expected);
    return ES_OK;
}

static es_status errors_at_scale(const es_converge_spec *spec, const es_converge_limit *limit,
                                 replicate *r, int64_t s, es_converge_cell *out, es_error *err)
{
    const int64_t dv = spec->head->channels;
    const double *mean = limit->mean + s * dv, *cov = limit->cov + s * dv * dv;
    ES_TRY(limit_maps(spec, r, s, spec->population ? queries_of(spec) : map_queries_of(spec), err));
    if (spec->population) {
        ES_TRY(compare_queries(spec, r, err));
        mean = r->compared.mean;
        cov = r->expected;
    }
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        const int64_t set = s * spec->n_sizes + i;
        out[set].map_error = map_error(spec, r, set);
        ES_TRY(moment_errors(spec, r, set, mean, cov, &out[set], err));
    }
    return ES_OK;
}

es_status es_converge_replicate(const es_converge_spec *spec, const es_converge_limit *limit,
                                int64_t number, es_converge_cell *out, es_error *err)
{
    ES_TRY(check_spec(spec, err));
    replicate r;
    ES_TRY(replicate_new(&r, spec, err));
    es_status status = draw(spec, number, &r, err);
    if (status == ES_OK)
        status = attend(spec, &r, err);
    for (int64_t s = 0; s < spec->n_scales && status == ES_OK; s++)
        status = errors_at_scale(spec, limit, &r, s, out, err);
    replicate_free(&r, budget_of(spec));
    return status;
}

es_status es_converge_cost_of(const es_converge_spec *spec, es_converge_cost *out, es_error *err)
{
    ES_TRY(check_spec(spec, err));
    const es_head *h = spec->head;
    const int64_t n = largest_size(spec), m = queries_of(spec), few = map_queries_of(spec);
    const replicate none = {.scales = NULL};
    es_attend_opts opts = attend_options(spec, &none);
    opts.scales = spec->scales; /* the cut does not depend on their values */
    es_attend_plan outputs, moments;
    ES_TRY(es_attend_plan_for(few, n, h->key_dim, h->channels, &opts, false, &outputs, err));
    opts.self = !spec->population;
    ES_TRY(es_attend_plan_for(m, n, h->key_dim, h->channels, &opts, true, &moments, err));
    int64_t count[BUFFERS];
    replicate_sizes(spec, count);
    double bytes = (double)(outputs.bytes > moments.bytes ? outputs.bytes : moments.bytes);
    for (int i = 0; i < BUFFERS; i++)
        bytes += 8.0 * (double)count[i] + 2 * ES_ALIGN;
    bytes += (double)(spec->n_scales * spec->n_sizes) * (double)es_moments_bytes(h->channels);
    *out = (es_converge_cost){.flops = outputs.flops + moments.flops, .bytes = (size_t)bytes};
    return ES_OK;
}
