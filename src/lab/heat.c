/* heat.c : drift of attention over n keys on the sphere, measured. */
#include <esscher/heat.h>

#include <math.h>

#include <esscher/attend.h>
#include <esscher/tokens.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "stats/average.h"

enum { MOST_N = 10000000 };

typedef struct job {
    es_heat_opts o;
    const double *queries, *beta;
    int64_t m, betas, first;
    es_heat_draw *draws;
    es_sampler *sampler;
    double *gradient; /* (m, dim) */
    double *drift;    /* (betas, m, dim) exact */
    double *scratch;  /* (threads, each) */
    int64_t each;
} job;

static es_status check_job(const job *j, int64_t count, es_error *err)
{
    if (j->m < 1 || j->betas < 1 || count < 1)
        return es_fail(err, ES_E_EMPTY, "heat.count", "",
                       "no query, no beta or no replicate is given");
    if (j->o.n < 2 || j->o.n > MOST_N)
        return es_fail(err, ES_E_RANGE, "heat.n", "from 2 to 1e7", "n is %lld", (long long)j->o.n);
    if (j->first < 0 || j->first > (INT64_C(1) << 48) - count)
        return es_fail(err, ES_E_RANGE, "heat.replicate", "from 0 to 2^48", "it is %lld",
                       (long long)j->first);
    return ES_OK;
}

/* What infinitely many keys do, once for all replicates. */
static es_status prepare(job *j, es_error *err)
{
    const int64_t d = j->o.law->dim;
    es_heat_point point;
    for (int64_t b = 0; b < j->betas; b++)
        for (int64_t i = 0; i < j->m; i++)
            ES_TRY(es_heat_at(j->o.law, j->queries + i * d, j->beta[b], j->gradient + i * d,
                              j->drift + (b * j->m + i) * d, &point, err));
    return ES_OK;
}

static es_heat_draw compare(const job *j, int64_t b, const double *out, const double *squares)
{
    const int64_t d = j->o.law->dim;
    const double beta = j->beta[b], m = (double)j->m;
    double slope = 0.0, size2 = 0.0;
    es_heat_draw draw = {0};
    for (int64_t i = 0; i < j->m; i++) {
        const double *q = j->queries + i * d, *g = j->gradient + i * d, *y = out + i * d;
        const double *exact = j->drift + (b * j->m + i) * d;
        double along = 0.0;
        for (int64_t c = 0; c < d; c++)
            along += y[c] * q[c];
        for (int64_t c = 0; c < d; c++) {
            const double tangent = y[c] - along * q[c];
            slope += beta * tangent * g[c];
            size2 += g[c] * g[c];
            draw.noise2 += pow(beta * (tangent - exact[c]), 2.0) / m;
        }
        draw.radial += (1.0 - along) / m;
        draw.ess += 1.0 / squares[i] / m;
    }
    draw.slope = size2 > 0.0 ? slope / size2 : (double)NAN;
    return draw;
}

static es_status draw_replicate(void *user, int64_t unit, int thread, es_error *err)
{
    job *j = user;
    const int64_t n = j->o.n, d = j->o.law->dim;
    double *keys = j->scratch + thread * j->each, *out = keys + n * d;
    double *squares = out + j->betas * j->m * d;
    const es_address at = {
        .seed = j->o.seed, .experiment = j->o.experiment, .cell = (uint64_t)(j->first + unit)};
    es_exec alone = {.threads = 1};
    if (j->o.exec) {
        alone.isa = j->o.exec->isa;
        alone.budget = j->o.exec->budget;
    }
    ES_TRY(es_sampler_rows(j->sampler, &at, n, keys, err));
    const es_view k = es_view_f64(keys, n, d), q = es_view_f64(j->queries, j->m, d);
    const es_attend_opts opts = {
        .precision = ES_F64, .scales = j->beta, .n_scales = j->betas, .exec = &alone};
    const es_attend_out results = {.output = out, .sum_squares = squares};
    ES_TRY(es_attend(&q, &k, &k, &opts, &results, err));
    for (int64_t b = 0; b < j->betas; b++)
        j->draws[unit * j->betas + b] = compare(j, b, out + b * j->m * d, squares + b * j->m);
    return ES_OK;
}

static es_status run_job(job *j, int64_t count, es_error *err)
{
    const es_exec *exec = j->o.exec;
    es_budget *budget = exec ? exec->budget : NULL;
    const int64_t d = j->o.law->dim;
    es_status status = es_sampler_new(j->o.law, budget, &j->sampler, err);
    j->each = j->o.n * d + j->betas * j->m * (d + 1);
    if (status == ES_OK)
        status =
            es_mem_array(budget, j->m, d, sizeof(double), "gradients", (void **)&j->gradient, err);
    if (status == ES_OK)
        status = es_mem_array(budget, j->betas * j->m, d, sizeof(double), "drifts",
                              (void **)&j->drift, err);
    if (status == ES_OK)
        status = prepare(j, err);
    if (status == ES_OK)
        status = es_mem_array(budget, es_parallel_threads(exec, count), j->each, sizeof(double),
                              "keys", (void **)&j->scratch, err);
    if (status == ES_OK)
        status = es_parallel_run(exec, count, draw_replicate, j, err);
    es_mem_free(budget, j->scratch);
    es_mem_free(budget, j->drift);
    es_mem_free(budget, j->gradient);
    es_sampler_free(j->sampler);
    return status;
}

es_status es_heat_sample(const es_heat_opts *opts, const double *queries, int64_t m,
                         const double *beta, int64_t betas, int64_t first, int64_t count,
                         es_heat_draw *draws, es_error *err)
{
    if (!opts || !opts->law || !queries || !beta || !draws)
        return es_fail(err, ES_E_ARGUMENT, "heat.null", "", "an argument is NULL");
    job j = {.o = *opts,
             .queries = queries,
             .beta = beta,
             .m = m,
             .betas = betas,
             .first = first,
             .draws = draws};
    j.o.n = j.o.n ? j.o.n : 100000;
    ES_TRY(check_job(&j, count, err));
    return run_job(&j, count, err);
}

void es_heat_average(const es_heat_draw *draws, int64_t count, int64_t betas, es_heat_row *rows)
{
    es_average_rows((const double *)draws, count, betas, sizeof *draws / sizeof(double),
                    (double *)rows);
}
