#include "lab/tails.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/dense.h"
#include "linalg/gemm.h"

/* ---- the question ---- */

static int64_t or_default(int64_t asked, int64_t otherwise) { return asked ? asked : otherwise; }

/* The spec with its defaults, for so many tokens. */
static es_tails_job sized(const es_tails_spec *spec, int64_t tokens, int64_t dim, int64_t heads)
{
    es_tails_job job = {.spec = *spec, .tokens = tokens, .dim = dim, .heads = heads};
    es_tails_spec *s = &job.spec;
    job.exec = spec->exec ? *spec->exec : (es_exec){0};
    s->principal = or_default(s->principal, 8);
    s->random = or_default(s->random, 8);
    s->queries = or_default(s->queries, 4);
    s->draws = or_default(s->draws, 32);
    s->principal = s->principal < dim ? s->principal : dim;
    s->random = s->random < dim ? s->random : dim;
    job.rows = s->principal + s->random + 1 + heads * (1 + s->queries);
    return job;
}

static es_tails_job job_of(const es_tails_spec *spec)
{
    if (!spec->pool)
        return sized(spec, spec->tokens->rows, spec->tokens->cols, 0);
    const es_pool_info pool = es_pool_about(spec->pool);
    return sized(spec, pool.tokens, pool.hidden, pool.heads);
}

int64_t es_tails_rows(const es_tails_spec *spec) { return job_of(spec).rows; }

es_tails_direction es_tails_direction_of(const es_tails_spec *spec, int64_t row)
{
    const es_tails_job job = job_of(spec);
    const es_tails_spec *s = &job.spec;
    if (row < s->principal)
        return (es_tails_direction){ES_TAILS_PRINCIPAL, -1, row};
    row -= s->principal;
    if (row < s->random)
        return (es_tails_direction){ES_TAILS_RANDOM, -1, row};
    row -= s->random;
    if (row == 0)
        return (es_tails_direction){ES_TAILS_NORM, -1, 0};
    row -= 1;
    if (row < job.heads)
        return (es_tails_direction){ES_TAILS_KEY, row, 0};
    row -= job.heads;
    return (es_tails_direction){ES_TAILS_SCORE, row / s->queries, row % s->queries};
}

const char *es_tails_kind_name(es_tails_kind kind)
{
    static const char *const names[] = {[ES_TAILS_PRINCIPAL] = "principal",
                                        [ES_TAILS_RANDOM] = "random",
                                        [ES_TAILS_NORM] = "norm",
                                        [ES_TAILS_KEY] = "key",
                                        [ES_TAILS_SCORE] = "score"};
    return (unsigned)kind <= ES_TAILS_SCORE ? names[kind] : "?";
}

es_tails_cost es_tails_cost_of(const es_tails_spec *spec, int64_t tokens, int64_t dim,
                               int64_t heads)
{
    const es_tails_job job = sized(spec, tokens, dim, heads);
    const double threads = (double)es_parallel_threads(spec->exec, job.rows);
    const double n = (double)tokens, d = (double)dim, rows = (double)job.rows;
    const double draws = (double)job.spec.draws;
    return (es_tails_cost){
        .rows = job.rows,
        /* covariance in f64, counted twice; projections; statistics; Gaussian norms */
        .flops =
            n * (4.0 * d * d + 4.0 * d * rows + 3400.0 * (rows + 2.0 * draws) + 20.0 * d * draws),
        /* projections; a strip, its projections, a sample twice and vectors of each thread;
         * moments, vectors, root and directions */
        .bytes =
            8.0 * (n * rows + threads * (ES_TAILS_STRIP * (1.5 * d + rows) + 2.0 * n + 64.0 * d) +
                   12.0 * d * d + rows * d)};
}

static es_status check(const es_tails_spec *spec, int64_t layer, es_error *err)
{
    if (!spec || !spec->model != !spec->pool || !spec->pool == !spec->tokens)
        return es_fail(err, ES_E_ARGUMENT, "tails.null", "",
                       "tails are those of a model's pool, or of tokens");
    if (spec->tokens)
        ES_TRY(es_view_check(spec->tokens, "tokens", err));
    if (spec->principal < 0 || spec->random < 0 || spec->queries < 0)
        return es_fail(err, ES_E_RANGE, "tails.directions", "0 for the default",
                       "a number of directions is negative");
    const int64_t layers = spec->pool ? es_pool_about(spec->pool).layers : 1;
    if (layer < 0 || layer >= layers)
        return es_fail(err, ES_E_RANGE, "tails.layer", "count from 0", "layer %lld of %lld",
                       (long long)layer, (long long)layers);
    if (!spec->pool)
        return ES_OK;
    const es_model_config *c = es_model_config_of(spec->model);
    const es_pool_info pool = es_pool_about(spec->pool);
    if (pool.hidden != c->hidden || pool.layers != c->layers || pool.heads != c->heads)
        return es_fail(err, ES_E_SHAPE, "tails.pool", "make a pool of this model",
                       "the pool has %lld layers of width %lld, the model %lld of %lld",
                       (long long)pool.layers, (long long)pool.hidden, (long long)c->layers,
                       (long long)c->hidden);
    return ES_OK;
}

es_status es_tails_read(const es_tails_job *job, int64_t first, int64_t count, double *out,
                        es_error *err)
{
    const int64_t d = job->dim;
    if (!job->spec.pool) {
        for (int64_t i = 0; i < count; i++)
            es_view_read_row(job->spec.tokens, first + i, out + i * d);
        return ES_OK;
    }
    float *narrow;
    ES_TRY(es_mem_array(job->exec.budget, count, d, sizeof *narrow, "a strip of the pool",
                        (void **)&narrow, err));
    const es_status status = es_pool_rows(job->spec.pool, job->layer, first, count, narrow, err);
    for (int64_t i = 0; status == ES_OK && i < count * d; i++)
        out[i] = (double)narrow[i];
    es_mem_free(job->exec.budget, narrow);
    return status;
}

/* ---- projections ---- */

/* All projections of a strip of tokens around their mean, and their norms. */
static es_status project_strip(void *user, int64_t unit, int thread, es_error *err)
{
    es_tails_job *job = user;
    const int64_t d = job->dim, rows = job->rows, first = unit * ES_TAILS_STRIP;
    const int64_t norms = job->spec.principal + job->spec.random;
    const int64_t left = job->tokens - first;
    const int64_t count = left < ES_TAILS_STRIP ? left : ES_TAILS_STRIP;
    double *x;
    (void)thread;
    ES_TRY(es_mem_array(job->exec.budget, count, d + rows, sizeof *x, "a strip of tokens",
                        (void **)&x, err));
    double *y = x + count * d; /* (count, rows), zeros */
    const es_status status = es_tails_read(job, first, count, x, err);
    if (status == ES_OK) {
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < d; j++)
                x[i * d + j] -= job->mean[j];
        es_gemm_add(ES_F64, count, rows, d, x, job->directions, y);
        for (int64_t i = 0; i < count; i++) {
            double squares = 0.0;
            for (int64_t j = 0; j < d; j++)
                squares += x[i * d + j] * x[i * d + j];
            y[i * rows + norms] = sqrt(squares);
        }
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < count; i++)
                job->projected[r * job->tokens + first + i] = y[i * rows + r];
    }
    es_mem_free(job->exec.budget, x);
    return status;
}

static es_status project(es_tails_job *job, es_error *err)
{
    es_exec quiet = job->exec;
    quiet.progress = NULL;
    es_blas_enter();
    const es_status status = es_parallel_run(
        &quiet, (job->tokens + ES_TAILS_STRIP - 1) / ES_TAILS_STRIP, project_strip, job, err);
    es_blas_leave();
    return status;
}

/* ---- statistics ---- */

static es_status measure_row(void *user, int64_t unit, int thread, es_error *err)
{
    es_tails_job *job = user;
    const bool norm = unit == job->spec.principal + job->spec.random;
    (void)thread;
    job->out[unit].control = norm ? job->norms : job->gaussian;
    return es_tails_of(job->projected + unit * job->tokens, job->tokens,
                       norm ? ES_TAILS_UPPER : ES_TAILS_BOTH, job->exec.budget,
                       &job->out[unit].sample, err);
}

static es_status draw_controls(es_tails_job *job, es_error *err)
{
    const es_tails_spec *s = &job->spec;
    es_exec quiet = job->exec;
    quiet.progress = NULL;
    if (s->gaussian)
        job->gaussian = *s->gaussian;
    else
        ES_TRY(es_tails_gaussian(job->tokens, s->draws, s->seed, &quiet, &job->gaussian, err));
    return es_tails_gaussian_norms(job->spectrum, job->dim, job->tokens, s->draws, s->seed, &quiet,
                                   &job->norms, err);
}

static es_status run(es_tails_job *job, es_error *err)
{
    const int64_t d = job->dim;
    es_budget *budget = job->exec.budget;
    ES_TRY(es_mem_array(budget, d + 2 + job->rows, d, sizeof(double), "directions",
                        (void **)&job->mean, err));
    job->spectrum = job->mean + d;
    job->vectors = job->spectrum + d;
    job->directions = job->vectors + d * d;
    ES_TRY(es_tails_spectrum(job, err));
    ES_TRY(es_tails_directions(job, err));
    ES_TRY(draw_controls(job, err));
    ES_TRY(es_mem_array(budget, job->rows, job->tokens, sizeof(double), "projections of tokens",
                        (void **)&job->projected, err));
    ES_TRY(project(job, err));
    return es_parallel_run(&job->exec, job->rows, measure_row, job, err);
}

es_status es_tails_measure(const es_tails_spec *spec, int64_t layer, es_tails_row *out,
                           es_error *err)
{
    ES_TRY(check(spec, layer, err));
    es_tails_job job = job_of(spec);
    if (job.tokens < ES_TAILS_LEAST)
        return es_fail(err, ES_E_EMPTY, "tails.count", "more tokens",
                       "%lld tokens are too few for tails: at least %d", (long long)job.tokens,
                       ES_TAILS_LEAST);
    job.layer = layer;
    job.out = out;
    const es_status status = run(&job, err);
    es_mem_free(job.exec.budget, job.projected);
    es_mem_free(job.exec.budget, job.mean);
    return status;
}
