/* heat_particles.c : tokens that move by their own attention. */
#include <esscher/heat.h>

#include <math.h>
#include <string.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/special.h"

static es_status check_dim(int64_t n, int64_t dim, es_error *err)
{
    if (dim < 2 || dim > ES_HEAT_MOST_DIM || n < 1)
        return es_fail(err, ES_E_RANGE, "heat.dim", "dim from 2 to 64, at least one particle",
                       "%lld particles of dim %lld", (long long)n, (long long)dim);
    return ES_OK;
}

/* x moves by the tangential part of y and is put back on the sphere. */
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
    if (!x)
        return es_fail(err, ES_E_ARGUMENT, "heat.null", "", "x is NULL");
    ES_TRY(check_dim(n, dim, err));
    if (!(beta > 0.0 && isfinite(beta)))
        return es_fail(err, ES_E_RANGE, "heat.beta", "a positive number", "beta is %g", beta);
    es_budget *budget = exec ? exec->budget : NULL;
    double *out;
    ES_TRY(es_mem_array(budget, n, dim, sizeof *out, "particles", (void **)&out, err));
    const es_view tokens = es_view_f64(x, n, dim);
    const es_attend_opts opts = {.precision = ES_F64, .scales = &beta, .n_scales = 1, .exec = exec};
    const es_attend_out results = {.output = out};
    const es_status status = es_attend(&tokens, &tokens, &tokens, &opts, &results, err);
    for (int64_t i = 0; i < n && status == ES_OK; i++)
        move(x + i * dim, out + i * dim, dim);
    es_mem_free(budget, out);
    return status;
}

/* ---- histogram ---- */

/* P(U_1 <= u) for the first coordinate of a uniform point: (1+U_1)/2 is Beta(a,a), a = (d-1)/2. */
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
    if (!x || !density)
        return es_fail(err, ES_E_ARGUMENT, "heat.null", "", "x or density is NULL");
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
