/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : measures the drift of attention over n keys on the sphere against (1/beta) grad ln
 * f_beta (THEORY 6, heat_drift.c); then moves particles by their own attention. */
#include "experiments/heat/heat.h"

#include <math.h>
#include <string.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "experiments/kit/cell_kit.h"
#include "stats/average.h"
#include "stats/special.h"
#include "tokens/tokens.h"

enum { MOST_N = 10000000 };

/* Replicates of drawn keys, at all queries and betas. */
typedef struct sample_job {
    es_heat_opts o;
    const double *queries, *beta;
    int64_t m, betas, first;
    es_heat_draw *draws;
    es_sampler *sampler;
    double *gradient; /* (m, dim) */
    double *drift;    /* (betas, m, dim) exact */
    double *scratch;  /* (threads, each) */
    int64_t each;
} sample_job;

/* Fails for empty grids and numbers outside their ranges. */
static es_status check_job(const sample_job *j, int64_t count, es_error *err)
{
    if (j->m < 1 || j->betas < 1 || count < 1)
        return es_fail(err, ES_E_EMPTY, "heat.count", "",
                       "there is no query, no beta or no replicate");
    if (j->o.n < 2 || j->o.n > MOST_N)
        return es_fail(err, ES_E_RANGE, "heat.n", "from 2 to 1e7", "n is %lld", (long long)j->o.n);
    if (j->first < 0 || j->first > (INT64_C(1) << 48) - count)
        return es_fail(err, ES_E_RANGE, "heat.replicate", "from 0 to 2^48",
                       "the first replicate is %lld", (long long)j->first);
    return ES_OK;
}

/* Computes the drift of infinitely many keys, once for all replicates. */
static es_status prepare(sample_job *j, es_error *err)
{
    const int64_t d = j->o.law->dim;
    es_heat_point point;
    for (int64_t b = 0; b < j->betas; b++)
        for (int64_t i = 0; i < j->m; i++)
            ES_TRY(es_heat_at(j->o.law, j->queries + i * d, j->beta[b], j->gradient + i * d,
                              j->drift + (b * j->m + i) * d, &point, err));
    return ES_OK;
}

/* Compares the outputs of a replicate at one beta with the exact drift. */
static es_heat_draw compare(const sample_job *j, int64_t b, const double *out,
                            const double *squares)
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

/* Draws the keys of one replicate and lets all queries attend to them, at all betas at once. */
static es_status draw_replicate(void *user, int64_t unit, int thread, es_error *err)
{
    sample_job *j = user;
    const int64_t n = j->o.n, d = j->o.law->dim;
    double *keys = j->scratch + thread * j->each, *out = keys + n * d;
    double *squares = out + j->betas * j->m * d;
    const es_address at = {
        .seed = j->o.seed, .experiment = j->o.experiment, .cell = (uint64_t)(j->first + unit)};
    const es_exec alone = es_exec_one_thread(j->o.exec);
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

/* Computes the exact drift once, then all replicates in parallel. */
static es_status run_job(sample_job *j, int64_t count, es_error *err)
{
    const es_exec *exec = j->o.exec;
    es_mem_limit *budget = exec ? exec->budget : NULL;
    const int64_t d = j->o.law->dim;
    es_status status = es_sampler_new(j->o.law, budget, &j->sampler, err);
    j->each = j->o.n * d + j->betas * j->m * (d + 1);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, j->gradient, j->m, d, "gradients", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, j->drift, j->betas * j->m, d, "drifts", err);
    if (status == ES_OK)
        status = prepare(j, err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, j->scratch, es_parallel_threads(exec, count), j->each,
                               "keys", err);
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
    sample_job j = {.o = *opts,
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

/* ==== particles ====
 * Tokens that move by their own attention: steps, clusters, density along the first axis. */

/* Fails for a dimension or number of particles outside its range. */
static es_status check_dim(int64_t n, int64_t dim, es_error *err)
{
    if (dim < 2 || dim > ES_HEAT_MOST_DIM || n < 1)
        return es_fail(err, ES_E_RANGE, "heat.dim", "dim from 2 to 64, at least one particle",
                       "%lld particles of dim %lld", (long long)n, (long long)dim);
    return ES_OK;
}

/* Moves x by the tangential part of y and scales it back onto the sphere. */
static void move(double *x, const double *y, int64_t d)
{
    double along = 0.0, norm2 = 0.0;
    for (int64_t c = 0; c < d; c++)
        along += x[c] * y[c];
    for (int64_t c = 0; c < d; c++) {
        x[c] += y[c] - along * x[c];
        norm2 += x[c] * x[c];
    }
    for (int64_t c = 0; c < d; c++)
        x[c] /= sqrt(norm2);
}

es_status es_heat_step(double *x, int64_t n, int64_t dim, double beta, const es_exec *exec,
                       es_error *err)
{
    ES_TRY(check_dim(n, dim, err));
    if (!(beta > 0.0 && isfinite(beta)))
        return es_fail(err, ES_E_RANGE, "heat.beta", "a positive number", "beta is %g", beta);
    es_mem_limit *budget = exec ? exec->budget : NULL;
    double *out;
    ES_TRY(ES_MEM_NEW_2D(budget, out, n, dim, "particles", err));
    const es_view tokens = es_view_f64(x, n, dim);
    const es_attend_opts opts = {.precision = ES_F64, .scales = &beta, .n_scales = 1, .exec = exec};
    const es_attend_out results = {.output = out};
    const es_status status = es_attend(&tokens, &tokens, &tokens, &opts, &results, err);
    for (int64_t i = 0; i < n && status == ES_OK; i++)
        move(x + i * dim, out + i * dim, dim);
    es_mem_free(budget, out);
    return status;
}

/* ---- clusters ---- */

/* Returns the squared chord |a - b|^2. */
static double chord2(const double *a, const double *b, int64_t d)
{
    double sum = 0.0;
    for (int64_t c = 0; c < d; c++)
        sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
}

/* Returns the index in `leaders` of the leader nearest to p, -1 if there is none; *near is the
 * squared chord to it. */
static int64_t nearest_of(const double *x, const double *p, int64_t d, const int64_t *leaders,
                          int64_t count, double *near)
{
    int64_t best = -1;
    *near = (double)INFINITY;
    for (int64_t k = 0; k < count; k++) {
        const double here = chord2(x + leaders[k] * d, p, d);
        if (here < *near) {
            *near = here;
            best = k;
        }
    }
    return best;
}

es_status es_heat_clusters_of(const double *x, int64_t n, int64_t dim, double angle,
                              es_mem_limit *budget, es_heat_clusters *out, es_error *err)
{
    ES_TRY(check_dim(n, dim, err));
    if (!(angle > 0.0 && angle <= 3.141592653589793))
        return es_fail(err, ES_E_RANGE, "heat.angle", "above 0, at most pi", "the angle is %g",
                       angle);
    const double far = 4.0 * sin(0.5 * angle) * sin(0.5 * angle); /* as a squared chord */
    int64_t *leaders, *members;
    double near;
    ES_TRY(ES_MEM_NEW_2D(budget, leaders, 2, n, "clusters", err));
    members = leaders + n;
    *out = (es_heat_clusters){0};
    for (int64_t i = 0; i < n; i++) {
        nearest_of(x, x + i * dim, dim, leaders, out->count, &near);
        if (near > far)
            leaders[out->count++] = i;
    }
    memset(members, 0, (size_t)n * sizeof *members);
    for (int64_t i = 0; i < n; i++) {
        const int64_t of = nearest_of(x, x + i * dim, dim, leaders, out->count, &near);
        if (++members[of] > out->largest)
            out->largest = members[of];
    }
    es_mem_free(budget, leaders);
    return ES_OK;
}

/* ---- histogram ---- */

/* Returns P(U_1 <= u) for the first coordinate of a uniform point: (1+U_1)/2 is Beta(a,a), a =
 * (d-1)/2. */
static double below(double u, int64_t dim)
{
    const double a = 0.5 * (double)(dim - 1), x = 0.5 * (1.0 + u);
    if (x <= 0.0 || x >= 1.0)
        return x <= 0.0 ? 0.0 : 1.0;
    const double half = es_log_half_beta(a, 0.5);
    const double tail = 0.5 * exp(es_log_half_beta(a, fmin(x, 1.0 - x)) - half);
    return x <= 0.5 ? tail : 1.0 - tail;
}

es_status es_heat_histogram(const double *x, int64_t n, int64_t dim, int64_t bins, double *density,
                            es_error *err)
{
    ES_TRY(check_dim(n, dim, err));
    if (bins < 1 || bins > 10000)
        return es_fail(err, ES_E_RANGE, "heat.bins", "from 1 to 10000", "bins is %lld",
                       (long long)bins);
    const double count = (double)bins;
    memset(density, 0, (size_t)bins * sizeof *density);
    for (int64_t i = 0; i < n; i++) {
        const double *p = x + i * dim;
        const double at =
            dim == 2 ? 0.5 + atan2(p[1], p[0]) / 6.283185307179586 : 0.5 * (1.0 + p[0]);
        const int64_t bin = (int64_t)floor(at * count);
        density[bin < 0 ? 0 : bin >= bins ? bins - 1 : bin] += 1.0 / (double)n;
    }
    for (int64_t b = 0; b < bins; b++) {
        const double low = -1.0 + 2.0 * (double)b / count, high = low + 2.0 / count;
        density[b] /= dim == 2 ? 1.0 / count : below(high, dim) - below(low, dim);
    }
    return ES_OK;
}
