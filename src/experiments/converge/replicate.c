/* replicate.c : one replicate of the convergence experiment: a sample of tokens and what
 * the head makes of them; attention over it at every n and scale; errors against the limit; cost.
 */
#include "experiments/converge/inside.h"

#include <math.h>
#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "limit/limit.h"
#include "linalg/linalg.h"
#include "random/experiment.h"
#include "stats/moments.h"
#include "tokens/tokens.h"

/* ---- memory ---- */

enum { SAMPLE_PARTS = 6 };

static int64_t count_sample(const es_converge_spec *spec, int64_t count[SAMPLE_PARTS])
{
    const int64_t n = largest_size(spec), m = queries_of(spec), d = spec->law->dim;
    const int64_t counts[SAMPLE_PARTS] = {n * d,
                                          spec->population ? m * d : 0,
                                          m * key_dim_of(spec),
                                          n * key_dim_of(spec),
                                          n * channels_of(spec),
                                          spec->n_scales};
    int64_t total = 0;
    for (int i = 0; i < SAMPLE_PARTS; i++)
        total += counts[i];
    memcpy(count, counts, sizeof counts);
    return total;
}

double es_converge_sample_bytes(const es_converge_spec *spec)
{
    int64_t count[SAMPLE_PARTS];
    return 8.0 * (double)count_sample(spec, count) + ES_ALIGN;
}

void es_converge_sample_free(es_converge_sample *sample)
{
    es_mem_free(sample->budget, sample->memory);
    *sample = (es_converge_sample){0};
}

static es_status allocate(const es_converge_spec *spec, es_converge_sample *s, es_error *err)
{
    int64_t count[SAMPLE_PARTS];
    const int64_t total = count_sample(spec, count);
    double *memory;
    *s = (es_converge_sample){.budget = budget_of(spec)};
    ES_TRY(ES_MEM_NEW(s->budget, memory, total, "a replicate", err));
    double *next = memory,
           **parts[SAMPLE_PARTS] = {&s->tokens, &s->asking, &s->q, &s->k, &s->v, &s->scales};
    for (int i = 0; i < SAMPLE_PARTS; i++) {
        *parts[i] = next;
        next += count[i];
    }
    s->memory = memory;
    if (!spec->population)
        s->asking = s->tokens;
    s->q_view = es_view_f64(s->q, queries_of(spec), key_dim_of(spec));
    s->k_view = es_view_f64(s->k, largest_size(spec), key_dim_of(spec));
    s->v_view = es_view_f64(s->v, largest_size(spec), channels_of(spec));
    return ES_OK;
}

/* ---- numbers ---- */

es_status es_converge_project(const double *x, int64_t rows, int64_t dim, const es_view *w,
                              es_mem_limit *budget, double *out, es_error *err)
{
    if (!w) {
        memcpy(out, x, (size_t)(rows * dim) * sizeof *out);
        return ES_OK;
    }
    const es_view vx = es_view_f64(x, rows, dim), transposed = es_view_transpose(w);
    return es_mat_multiply(&vx, &transposed, budget, out, err);
}

static es_status fill(const es_converge_spec *spec, es_address at, es_converge_sample *s,
                      es_error *err)
{
    const es_head *h = spec->head;
    const int64_t n = largest_size(spec), m = queries_of(spec), d = spec->law->dim;
    ES_TRY(es_tokens_fill(spec->law, &at, n, spec->exec, s->tokens, err));
    if (spec->population) {
        at.experiment = ES_EXPERIMENT_CONVERGE_QUERIES;
        ES_TRY(es_tokens_fill(spec->law, &at, m, spec->exec, s->asking, err));
    }
    for (int64_t i = 0; i < spec->n_scales; i++)
        s->scales[i] = spec->scales[i] * es_head_unit(h); /* of Wq x . Wk y, or Ax . y */
    ES_TRY(es_converge_project(s->asking, m, d, h->Wq ? h->Wq : h->A, s->budget, s->q, err));
    ES_TRY(es_converge_project(s->tokens, n, d, h->Wk, s->budget, s->k, err));
    return es_converge_project(s->tokens, n, d, h->V, s->budget, s->v, err);
}

static double longest_row(const es_view *x)
{
    double longest = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < x->cols; j++) {
            const double value = es_view_get(x, i, j);
            sum += value * value;
        }
        longest = fmax(longest, sum);
    }
    return sqrt(longest);
}

/* f32 rounds a score of 2^20 by some 1/16, and the weight by that share of itself: beyond, what
 * would be measured is how the kernels round, not how attention converges. */
static es_status check_scores(const es_converge_spec *spec, const es_converge_sample *x,
                              es_error *err)
{
    if (spec->precision == ES_F64)
        return ES_OK;
    double scale = 0.0;
    for (int64_t s = 0; s < spec->n_scales; s++)
        scale = fmax(scale, x->scales[s]);
    const double largest = scale * longest_row(&x->q_view) * longest_row(&x->k_view);
    if (largest <= 0x1p20)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "converge.scores", "use precision f64, or smaller scales",
                   "scores up to %.3g are more than f32 tells apart", largest);
}

es_status es_converge_sample_draw(const es_converge_spec *spec, uint16_t experiment, uint64_t cell,
                                  es_converge_sample *out, es_error *err)
{
    const es_address at = {.seed = spec->seed, .experiment = experiment, .cell = cell};
    ES_TRY(allocate(spec, out, err));
    es_status status = fill(spec, at, out, err);
    if (status == ES_OK)
        status = check_scores(spec, out, err);
    if (status != ES_OK)
        es_converge_sample_free(out);
    return status;
}

es_attend_opts es_converge_attend_opts(const es_converge_spec *spec, const double *scales)
{
    return (es_attend_opts){.precision = spec->precision,
                            .scales = scales,
                            .n_scales = spec->n_scales,
                            .prefixes = spec->sizes,
                            .n_prefixes = spec->n_sizes,
                            .exec = spec->exec};
}

/* ==== one replicate ==== */

/* ---- memory ---- */

/* What a replicate holds beside its sample, in one place so that it can be counted and freed. */
typedef struct replicate {
    es_converge_sample sample;
    double *memory;
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

enum { PARTS = 6 };

static int64_t count_parts(const es_converge_spec *spec, int64_t count[PARTS])
{
    const int64_t dv = channels_of(spec), d = spec->law->dim, few = map_queries_of(spec);
    const int64_t counts[PARTS] = {d * d,
                                   (spec->population ? queries_of(spec) : few) * dv,
                                   spec->n_scales * spec->n_sizes * few * dv,
                                   dv * dv,
                                   dv * dv,
                                   dv};
    int64_t total = 0;
    for (int i = 0; i < PARTS; i++)
        total += counts[i];
    memcpy(count, counts, sizeof counts);
    return total;
}

static void replicate_free(replicate *r, es_mem_limit *budget)
{
    es_converge_sample_free(&r->sample);
    es_mem_free(budget, r->memory);
    for (int64_t i = 0; r->moments && i < r->sets; i++)
        es_moments_free(&r->moments[i]);
    es_mem_free(budget, r->moments);
    es_moments_free(&r->compared);
    *r = (replicate){0};
}

static es_status replicate_new(replicate *r, const es_converge_spec *spec, es_error *err)
{
    es_mem_limit *budget = budget_of(spec);
    int64_t count[PARTS];
    es_moments *moments = NULL;
    double *memory = NULL;
    *r = (replicate){.sets = spec->n_scales * spec->n_sizes};
    es_status status = ES_MEM_NEW(budget, memory, count_parts(spec, count), "a replicate", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(budget, moments, r->sets, "a replicate", err);
    r->memory = memory;
    r->moments = moments;
    double *next = memory,
           **parts[PARTS] = {&r->a, &r->limit, &r->output, &r->difference, &r->expected, &r->eigen};
    for (int i = 0; i < PARTS && memory; i++) {
        *parts[i] = next;
        next += count[i];
    }
    if (status == ES_OK)
        status = es_moments_new(channels_of(spec), budget, &r->compared, err);
    if (status != ES_OK)
        replicate_free(r, budget);
    return status;
}

/* ---- attention ---- */

/* Moments of all queries; outputs of the first few, which meet the same keys. */
static es_status attend(const es_converge_spec *spec, replicate *r, es_error *err)
{
    const es_converge_sample *x = &r->sample;
    const es_view first = es_view_rows(&x->q_view, 0, map_queries_of(spec));
    es_attend_opts opts = es_converge_attend_opts(spec, x->scales);
    const es_attend_out outputs = {.output = r->output}, moments = {.moments = r->moments};
    ES_TRY(es_attend(&first, &x->k_view, &x->v_view, &opts, &outputs, err));
    opts.self = !spec->population;
    return es_attend(&x->q_view, &x->k_view, &x->v_view, &opts, &moments, err);
}

/* ---- errors ---- */

/* Gamma of the first `count` queries at scale s, into r->limit. */
static es_status limit_maps(const es_converge_spec *spec, const es_converge_limit *limit,
                            replicate *r, int64_t s, int64_t count, es_error *err)
{
    const es_limit_head head = {.A = r->a, .V = limit->v, .dv = limit->channels};
    const es_view queries = es_view_f64(r->sample.asking, count, spec->law->dim);
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

/* ---- a replicate, its sizes nested or each on its own ---- */

static es_status measure(const es_converge_spec *spec, const es_converge_limit *limit,
                         uint64_t cell, es_converge_cell *out, es_error *err)
{
    replicate r;
    ES_TRY(replicate_new(&r, spec, err));
    es_status status =
        es_converge_sample_draw(spec, ES_EXPERIMENT_CONVERGE_TOKENS, cell, &r.sample, err);
    if (status == ES_OK)
        status = attend(spec, &r, err);
    for (int64_t s = 0; s < spec->n_scales && status == ES_OK; s++)
        status = errors_at_scale(spec, limit, &r, s, out, err);
    replicate_free(&r, budget_of(spec));
    return status;
}

/* The spec of size i alone. */
static es_converge_spec alone(const es_converge_spec *spec, int64_t i)
{
    es_converge_spec one = *spec;
    one.sizes = &spec->sizes[i];
    one.n_sizes = 1;
    one.map_queries = map_queries_of(spec);
    return one;
}

/* Cell (n, replicate): the tokens of n are the same in whatever grid it stands. */
enum { REPLICATE_BITS = 18 };

static es_status measure_apart(const es_converge_spec *spec, const es_converge_limit *limit,
                               int64_t number, es_converge_cell *out, es_error *err)
{
    if (number >> REPLICATE_BITS || largest_size(spec) >> (48 - REPLICATE_BITS))
        return es_fail(err, ES_E_RANGE, "converge.independent",
                       "replicates below 2^18 and n below 2^30",
                       "replicate %lld of %lld tokens has no address for independent sizes",
                       (long long)number, (long long)largest_size(spec));
    es_converge_cell *cells;
    ES_TRY(ES_MEM_NEW(budget_of(spec), cells, spec->n_scales, "a replicate", err));
    es_status status = ES_OK;
    for (int64_t i = 0; i < spec->n_sizes && status == ES_OK; i++) {
        const es_converge_spec one = alone(spec, i);
        const uint64_t cell = (uint64_t)spec->sizes[i] << REPLICATE_BITS | (uint64_t)number;
        status = measure(&one, limit, cell, cells, err);
        for (int64_t s = 0; s < spec->n_scales && status == ES_OK; s++)
            out[s * spec->n_sizes + i] = cells[s];
    }
    es_mem_free(budget_of(spec), cells);
    return status;
}

es_status es_converge_replicate(const es_converge_spec *spec, const es_converge_limit *limit,
                                int64_t number, es_converge_cell *out, es_error *err)
{
    ES_TRY(es_converge_check(spec, err));
    if (number < 0)
        return es_fail(err, ES_E_RANGE, "converge.replicate", "replicates count from 0",
                       "replicate %lld", (long long)number);
    return spec->independent ? measure_apart(spec, limit, number, out, err)
                             : measure(spec, limit, (uint64_t)number, out, err);
}

/* ---- cost ---- */

static es_status cost_of_one(const es_converge_spec *spec, es_converge_cost *out, es_error *err)
{
    const int64_t n = largest_size(spec), dv = channels_of(spec), k = key_dim_of(spec);
    es_attend_opts opts = es_converge_attend_opts(spec, spec->scales); /* any values do */
    es_attend_plan outputs, moments;
    ES_TRY(es_attend_plan_for(map_queries_of(spec), n, k, dv, &opts, false, &outputs, err));
    opts.self = !spec->population;
    ES_TRY(es_attend_plan_for(queries_of(spec), n, k, dv, &opts, true, &moments, err));
    int64_t count[PARTS];
    const double sets = (double)(spec->n_scales * spec->n_sizes);
    const double bytes = (double)(outputs.bytes > moments.bytes ? outputs.bytes : moments.bytes) +
                         es_converge_sample_bytes(spec) + 8.0 * (double)count_parts(spec, count) +
                         sets * (double)(es_moments_bytes(dv) + sizeof(es_moments)) +
                         (double)es_moments_bytes(dv) +
                         (double)spec->n_scales * sizeof(es_converge_cell) + 8.0 * ES_ALIGN;
    out->flops += outputs.flops + moments.flops;
    out->bytes = out->bytes > (size_t)bytes ? out->bytes : (size_t)bytes;
    return ES_OK;
}

es_status es_converge_cost_of(const es_converge_spec *spec, es_converge_cost *out, es_error *err)
{
    ES_TRY(es_converge_check(spec, err));
    *out = (es_converge_cost){0};
    ES_TRY(es_converge_limit_cost(spec, out, err));
    if (!spec->independent)
        return cost_of_one(spec, out, err);
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        const es_converge_spec one = alone(spec, i);
        ES_TRY(cost_of_one(&one, out, err));
    }
    return ES_OK;
}
