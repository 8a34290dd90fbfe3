/* tails_control.c : what tails.c says of Gaussian samples. */
#include <esscher/tail_sample.h>

#include <math.h>

#include <esscher/experiment.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"

enum { DRAWS = 32, STRIP = 64 };

typedef struct controls {
    const double *spectrum; /* (dim) of norms; NULL: numbers */
    int64_t n, dim;
    uint64_t seed;
    es_budget *budget;
    es_tails *draws;
} controls;

/* Norms of n Gaussian vectors in the axes of their covariance, STRIP at a time. */
static es_status draw_norms(const controls *c, es_address at, double *x, es_error *err)
{
    double *g;
    ES_TRY(es_mem_array(c->budget, STRIP, c->dim, sizeof *g, "vectors", (void **)&g, err));
    es_status status = ES_OK;
    for (int64_t first = 0; first < c->n && status == ES_OK; first += STRIP) {
        const int64_t count = c->n - first < STRIP ? c->n - first : STRIP;
        at.token = (uint64_t)first;
        status = es_normal_rows(&at, count, c->dim, g, err);
        for (int64_t i = 0; i < count && status == ES_OK; i++) {
            double sum = 0.0;
            for (int64_t j = 0; j < c->dim; j++)
                sum += c->spectrum[j] * g[i * c->dim + j] * g[i * c->dim + j];
            x[first + i] = sqrt(sum);
        }
    }
    es_mem_free(c->budget, g);
    return status;
}

static es_status draw_one(void *user, int64_t unit, int thread, es_error *err)
{
    const controls *c = user;
    const es_address at = {.seed = c->seed,
                           .experiment = ES_EXPERIMENT_TAILS + (c->spectrum ? 1 : 0),
                           .cell = (uint64_t)unit};
    double *x;
    (void)thread;
    ES_TRY(es_mem_array(c->budget, c->n, 1, sizeof *x, "a control", (void **)&x, err));
    es_status status =
        c->spectrum ? draw_norms(c, at, x, err) : es_normal_rows(&at, c->n, 1, x, err);
    if (status == ES_OK)
        status = es_tails_of(x, c->n, c->spectrum ? ES_TAILS_UPPER : ES_TAILS_BOTH, c->budget,
                             &c->draws[unit], err);
    es_mem_free(c->budget, x);
    return status;
}

/* Mean and standard deviation of the member at `offset` of each draw. */
static es_tails_spread spread_of(const es_tails *draws, int64_t count, size_t offset)
{
    es_tails_spread s = {0.0, 0.0};
#define MEMBER(r) (*(const double *)(const void *)((const char *)&draws[r] + offset))
    for (int64_t r = 0; r < count; r++)
        s.mean += MEMBER(r) / (double)count;
    for (int64_t r = 0; r < count; r++)
        s.sd += (MEMBER(r) - s.mean) * (MEMBER(r) - s.mean);
#undef MEMBER
    s.sd = sqrt(s.sd / (double)(count - 1));
    return s;
}

static es_status run_controls(controls *c, int64_t draws, const es_exec *exec,
                              es_tails_control *out, es_error *err)
{
    const int64_t count = draws ? draws : DRAWS;
    if (!out)
        return es_fail(err, ES_E_ARGUMENT, "tails.null", "", "out is NULL");
    if (count < 2)
        return es_fail(err, ES_E_RANGE, "tails.draws", "2 or more, 0 for 32",
                       "%lld draws have no spread", (long long)draws);
    if (c->n < ES_TAILS_LEAST)
        return es_fail(err, ES_E_EMPTY, "tails.count", "more tokens",
                       "a sample of %lld is too small for tails: at least %d", (long long)c->n,
                       ES_TAILS_LEAST);
    c->budget = exec ? exec->budget : NULL;
    ES_TRY(
        es_mem_array(c->budget, count, 1, sizeof *c->draws, "controls", (void **)&c->draws, err));
    const es_status status = es_parallel_run(exec, count, draw_one, c, err);
    if (status == ES_OK)
        *out =
            (es_tails_control){.kurtosis = spread_of(c->draws, count, offsetof(es_tails, kurtosis)),
                               .proxy = spread_of(c->draws, count, offsetof(es_tails, proxy)),
                               .psi2 = spread_of(c->draws, count, offsetof(es_tails, psi2)),
                               .hill = spread_of(c->draws, count, offsetof(es_tails, hill))};
    es_mem_free(c->budget, c->draws);
    return status;
}

es_status es_tails_gaussian(int64_t n, int64_t draws, uint64_t seed, const es_exec *exec,
                            es_tails_control *out, es_error *err)
{
    controls c = {.n = n, .seed = seed};
    return run_controls(&c, draws, exec, out, err);
}

es_status es_tails_gaussian_norms(const double *spectrum, int64_t dim, int64_t n, int64_t draws,
                                  uint64_t seed, const es_exec *exec, es_tails_control *out,
                                  es_error *err)
{
    controls c = {.spectrum = spectrum, .dim = dim, .n = n, .seed = seed};
    if (!spectrum || dim < 1)
        return es_fail(err, ES_E_ARGUMENT, "tails.null", "", "there is no spectrum");
    for (int64_t j = 0; j < dim; j++)
        if (!(spectrum[j] >= 0.0) || isinf(spectrum[j]))
            return es_fail_at(err, ES_E_RANGE, j, -1, "tails.spectrum", "",
                              "eigenvalue %lld of a covariance is %g", (long long)j, spectrum[j]);
    return run_controls(&c, draws, exec, out, err);
}
