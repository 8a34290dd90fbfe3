/* converge_replicate.c : one replicate of the convergence experiment: tokens, attention, errors. */
#include <math.h>
#include <string.h>

#include <esscher/attend.h>
#include <esscher/limit.h>
#include <esscher/linalg.h>
#include <esscher/random.h>
#include <esscher/tokens.h>

#include "base/error.h"
#include "base/memory.h"
#include "lab/converge_spec.h"

/* ---- memory ---- */

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
    const int64_t n = largest_size(spec), m = queries_of(spec), dv = channels_of(spec);
    const int64_t d = spec->law->dim, k = key_dim_of(spec);
    const int64_t compared = spec->population ? m : map_queries_of(spec);
    const int64_t counts[BUFFERS] = {n * d,
                                     spec->population ? m * d : 0,
                                     m * k,
                                     n * k,
                                     n * dv,
                                     spec->n_scales,
                                     d * d,
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
        status = es_moments_new(channels_of(spec), budget, &r->compared, err);
    if (status != ES_OK)
        replicate_free(r, budget);
    return status;
}

/* out (rows, w->rows) = x w', or x itself where the head has no such matrix. */
static es_status project(const double *x, int64_t rows, int64_t dim, const es_view *w,
                         es_budget *budget, double *out, es_error *err)
{
    if (!w) {
        memcpy(out, x, (size_t)(rows * dim) * sizeof *out);
        return ES_OK;
    }
    const es_view vx = es_view_f64(x, rows, dim), transposed = es_view_transpose(w);
    return es_mat_multiply(&vx, &transposed, budget, out, err);
}

/* Tokens, and what the head makes of them. */
static es_status draw(const es_converge_spec *spec, int64_t number, replicate *r, es_error *err)
{
    const es_head *h = spec->head;
    const int64_t n = largest_size(spec), m = queries_of(spec), d = spec->law->dim;
    es_budget *budget = budget_of(spec);
    es_address at = {
        .seed = spec->seed, .experiment = ES_CONVERGE_TOKENS, .cell = (uint64_t)number};
    ES_TRY(es_tokens_fill(spec->law, &at, n, spec->exec, r->tokens, err));
    if (spec->population) {
        at.experiment = ES_CONVERGE_QUERIES;
        ES_TRY(es_tokens_fill(spec->law, &at, m, spec->exec, r->asking, err));
    }
    for (int64_t s = 0; s < spec->n_scales; s++)
        r->scales[s] = spec->scales[s] * unit_scale(spec);
    ES_TRY(project(spec->population ? r->asking : r->tokens, m, d, h->Wq ? h->Wq : h->A, budget,
                   r->q, err));
    ES_TRY(project(r->tokens, n, d, h->Wk, budget, r->k, err));
    return project(r->tokens, n, d, h->V, budget, r->v, err);
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
    const int64_t n = largest_size(spec), few = map_queries_of(spec), key_dim = key_dim_of(spec);
    const es_view q = es_view_f64(r->q, queries_of(spec), key_dim),
                  k = es_view_f64(r->k, n, key_dim);
    const es_view v = es_view_f64(r->v, n, channels_of(spec)), first = es_view_rows(&q, 0, few);
    es_attend_opts opts = attend_options(spec, r);
    const es_attend_out outputs = {.output = r->output}, moments = {.moments = r->moments};
    ES_TRY(es_attend(&first, &k, &v, &opts, &outputs, err));
    opts.self = !spec->population;
    return es_attend(&q, &k, &v, &opts, &moments, err);
}

/* ---- errors ---- */

/* Gamma of the first `count` queries at scale s, into r->limit. */
static es_status limit_maps(const es_converge_spec *spec, const es_converge_limit *limit,
                            replicate *r, int64_t s, int64_t count, es_error *err)
{
    const double *x = spec->population ? r->asking : r->tokens;
    const es_limit_head head = {.A = r->a, .V = limit->v, .dv = limit->channels};
    const es_view queries = es_view_f64(x, count, spec->law->dim);
    es_converge_scale_a(spec, limit, s, r->a);
    return es_limit_map(spec->law, &head, &queries, spec->exec, r->limit, NULL, NULL, err);
}

static double map_error(const es_converge_spec *spec, const replicate *r, int64_t set)
{
    const int64_t few = map_queries_of(spec), dv = channels_of(spec);
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
    const int64_t dv = channels_of(spec);
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
    ES_TRY(es_moments_new(channels_of(spec), budget_of(spec), &r->compared, err));
    es_moments_add(&r->compared, r->limit, queries_of(spec));
    es_moments_covariance(&r->compared, 0, r->expected);
    return ES_OK;
}

static es_status errors_at_scale(const es_converge_spec *spec, const es_converge_limit *limit,
                                 replicate *r, int64_t s, es_converge_cell *out, es_error *err)
{
    const int64_t dv = channels_of(spec);
    const double *mean = limit->mean + s * dv, *cov = limit->cov + s * dv * dv;
    ES_TRY(limit_maps(spec, limit, r, s, spec->population ? queries_of(spec) : map_queries_of(spec),
                      err));
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
    ES_TRY(es_converge_check(spec, err));
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
    ES_TRY(es_converge_check(spec, err));
    const int64_t n = largest_size(spec), m = queries_of(spec), few = map_queries_of(spec);
    const replicate none = {.scales = NULL};
    es_attend_opts opts = attend_options(spec, &none);
    opts.scales = spec->scales; /* the cut does not depend on their values */
    es_attend_plan outputs, moments;
    ES_TRY(es_attend_plan_for(few, n, key_dim_of(spec), channels_of(spec), &opts, false, &outputs,
                              err));
    opts.self = !spec->population;
    ES_TRY(
        es_attend_plan_for(m, n, key_dim_of(spec), channels_of(spec), &opts, true, &moments, err));
    int64_t count[BUFFERS];
    replicate_sizes(spec, count);
    double bytes = (double)(outputs.bytes > moments.bytes ? outputs.bytes : moments.bytes);
    for (int i = 0; i < BUFFERS; i++)
        bytes += 8.0 * (double)count[i] + 2 * ES_ALIGN;
    bytes += (double)(spec->n_scales * spec->n_sizes) * (double)es_moments_bytes(channels_of(spec));
    *out = (es_converge_cost){.flops = outputs.flops + moments.flops, .bytes = (size_t)bytes};
    return ES_OK;
}
