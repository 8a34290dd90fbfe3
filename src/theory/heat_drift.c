/* SPDX-License-Identifier: Apache-2.0 */
/* heat_drift.c : drift of attention over infinitely many keys on the sphere (THEORY 6).
 *
 * f_beta(q) = int f(k) e^{beta <q,k>} dk / e^{K_d(beta)}, so ln f_beta(q) = K(beta q) - K_d(beta):
 * its gradient along the sphere is beta times the tangential part of grad K(beta q), the limit
 * output. The drift is therefore (1/beta) grad ln f_beta exactly, and f_beta -> f. */
#include "theory/heat_drift.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/vectors.h"
#include "limit/limit.h"

/* ---- checks ---- */

/* Returns true for a mixture of laws. */
static bool is_mixture(const es_law *law) { return es_law_uses(law->kind) & ES_LAW_USES_PARTS; }

/* Fails unless a law is on the unit sphere, where its density is known. */
static es_status check_part(const es_law *part, es_error *err)
{
    if (!(es_law_traits(part->kind) & ES_LAW_ON_SPHERE) || part->size != 1.0 || part->mean ||
        part->factor)
        return es_fail(err, ES_E_UNSUPPORTED, "heat.law",
                       "sphere, vmf or a mixture of them, of size 1, without mean and factor",
                       "this law has no known density on the unit sphere");
    return ES_OK;
}

/* Fails for a law without a density on the sphere and numbers outside their ranges. */
static es_status check(const es_law *law, const double *q, double beta, es_error *err)
{
    ES_TRY(es_law_check(law, err));
    if (law->dim < 2 || law->dim > ES_HEAT_MOST_DIM)
        return es_fail(err, ES_E_RANGE, "heat.dim", "from 2 to 64", "dim is %lld",
                       (long long)law->dim);
    if (!(beta > 0.0 && isfinite(beta)))
        return es_fail(err, ES_E_RANGE, "heat.beta", "a positive number", "beta is %g", beta);
    if (is_mixture(law) && !law->mean && !law->factor)
        for (int64_t j = 0; j < law->n_parts; j++)
            ES_TRY(check_part(&law->parts[j], err));
    else
        ES_TRY(check_part(law, err));
    double norm2 = 0.0;
    for (int64_t i = 0; i < law->dim; i++)
        norm2 += q[i] * q[i];
    if (!(fabs(norm2 - 1.0) < 1e-9))
        return es_fail(err, ES_E_RANGE, "heat.query", "divide it by its norm",
                       "the query has squared norm %g, not 1", norm2);
    return ES_OK;
}

/* ---- the density ---- */

/* ln of a part's density at q: kappa <mu, q> - K_d(kappa), and its gradient in R^d, kappa mu. */
static es_status part_at(const es_law *part, const double *q, double *log_density,
                         double gradient[ES_HEAT_MOST_DIM], es_error *err)
{
    const int64_t d = part->dim;
    es_num K;
    memset(gradient, 0, (size_t)d * sizeof *gradient);
    *log_density = 0.0;
    if (!(es_law_uses(part->kind) & ES_LAW_USES_DIRECTION) || part->concentration == 0.0)
        return ES_OK;
    const double norm = sqrt(es_dot(part->direction, part->direction, d));
    ES_TRY(es_bessel_log_mgf(d, part->concentration, &K, err));
    for (int64_t i = 0; i < d; i++)
        gradient[i] = part->concentration * part->direction[i] / norm;
    *log_density = es_dot(gradient, q, d) - K.val;
    return ES_OK;
}

/* Mixtures: responsibilities times gradients, by a running log-sum-exp. */
static es_status density_at(const es_law *law, const double *q, double *log_density,
                            double gradient[ES_HEAT_MOST_DIM], es_error *err)
{
    if (!is_mixture(law))
        return part_at(law, q, log_density, gradient, err);
    const int64_t d = law->dim;
    double total = 0.0, most = -INFINITY, sum = 0.0, part[ES_HEAT_MOST_DIM];
    memset(gradient, 0, (size_t)d * sizeof *gradient);
    for (int64_t j = 0; j < law->n_parts; j++)
        total += law->weights[j];
    for (int64_t j = 0; j < law->n_parts; j++) {
        double one;
        ES_TRY(part_at(&law->parts[j], q, &one, part, err));
        one += log(law->weights[j] / total);
        const double old = most;
        most = fmax(most, one);
        const double keep = exp(old - most), weight = exp(one - most);
        sum = sum * keep + weight;
        for (int64_t i = 0; i < d; i++)
            gradient[i] = gradient[i] * keep + weight * part[i];
    }
    for (int64_t i = 0; i < d; i++)
        gradient[i] /= sum;
    *log_density = most + log(sum);
    return ES_OK;
}

/* Remove from x what is along the unit vector q; returns how much that was. */
static double make_tangent(double *x, const double *q, int64_t d)
{
    const double along = es_dot(x, q, d);
    for (int64_t i = 0; i < d; i++)
        x[i] -= along * q[i];
    return along;
}

es_status es_heat_at(const es_law *law, const double *q, double beta, double *gradient,
                     double *drift, es_heat_point *out, es_error *err)
{
    ES_TRY(check(law, q, beta, err));
    const int64_t d = law->dim;
    double grad[ES_HEAT_MOST_DIM], t[ES_HEAT_MOST_DIM], output[ES_HEAT_MOST_DIM];
    es_log_mgf K = {.grad = output};
    es_num uniform;
    ES_TRY(density_at(law, q, &out->log_density, grad, err));
    make_tangent(grad, q, d);
    for (int64_t i = 0; i < d; i++)
        t[i] = beta * q[i];
    ES_TRY(es_limit_log_mgf(law, t, NULL, &K, err));
    ES_TRY(es_bessel_log_mgf(d, beta, &uniform, err));
    out->log_smoothed = K.val.val - uniform.val;
    out->radial = 1.0 - make_tangent(output, q, d);
    if (gradient)
        memcpy(gradient, grad, (size_t)d * sizeof *grad);
    if (drift)
        memcpy(drift, output, (size_t)d * sizeof *output);
    return ES_OK;
}

/* ---- over queries ---- */

es_status es_heat_exact_of(const es_law *law, const double *queries, int64_t m, const double *beta,
                           int64_t betas, es_heat_exact *exact, es_error *err)
{
    if (m < 1 || betas < 1)
        return es_fail(err, ES_E_EMPTY, "heat.count", "", "no query or no beta is given");
    for (int64_t b = 0; b < betas; b++) {
        double along = 0.0, size2 = 0.0, off2 = 0.0, radial = 0.0;
        for (int64_t i = 0; i < m; i++) {
            double g[ES_HEAT_MOST_DIM], v[ES_HEAT_MOST_DIM];
            es_heat_point p;
            ES_TRY(es_heat_at(law, queries + i * law->dim, beta[b], g, v, &p, err));
            for (int64_t c = 0; c < law->dim; c++) {
                along += beta[b] * v[c] * g[c];
                size2 += g[c] * g[c];
                off2 += pow(beta[b] * v[c] - g[c], 2.0);
            }
            radial += p.radial;
        }
        const double count = (double)m;
        exact[b] = (es_heat_exact){.slope = size2 > 0.0 ? along / size2 : (double)NAN,
                                   .radial = radial / count,
                                   .error = sqrt(off2 / count),
                                   .size = sqrt(size2 / count)};
    }
    return ES_OK;
}

/* ---- waves ---- */

/* f = 1 + e Y_l has f_beta = 1 + e r_l Y_l, r_l = E of the l-th (Gegenbauer) polynomial under
 * vMF(beta), a product of Bessel ratios; and -div (1/beta) grad ln f_beta = e r_l l(l+d-2)/beta
 * Y_l. */
es_status es_heat_fastest(int64_t dim, double beta, int64_t *degree, double *growth, es_error *err)
{
    if (dim < 2 || dim > ES_HEAT_MOST_DIM)
        return es_fail(err, ES_E_RANGE, "heat.dim", "from 2 to 64", "dim is %lld", (long long)dim);
    if (!(beta > 0.0 && beta <= ES_HEAT_MOST_FASTEST))
        return es_fail(err, ES_E_RANGE, "heat.beta", "above 0, at most 1e6", "beta is %g", beta);
    double best = 0.0, kept = 1.0; /* r_l */
    *degree = 1;
    for (int64_t l = 1;; l++) { /* up to sqrt(2 beta) or so: 1400, of the 2000 that ratios have */
        es_num ratio;
        ES_TRY(es_bessel_ratio(dim + 2 * l - 2, beta, &ratio, err));
        kept *= ratio.val;
        const double here = (double)l * (double)(l + dim - 2) / beta * kept;
        if (here < best)
            break;
        best = here;
        *degree = l;
    }
    if (growth)
        *growth = best;
    return ES_OK;
}
