/* SPDX-License-Identifier: Apache-2.0 */
/* limit_line.c : the limit map in one dimension, where quadrature is cheap for any law.
 *
 * E f(K'(aX)) is a sum where X is +-size, else an integral over what the law's row says of its
 * shape on the line; a mixture is a weighted union, mean and factor move its points. K' is analytic
 * where K is finite (THEORY 1), so Gauss rules of 32, 64, ... points converge geometrically and the
 * last change bounds the error. Then, in closed form up to a rule, the truncated normal law. */
#include "limit/limit_map.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "law/law_row.h"

/* ---- any law on the line ---- */

enum { FIRST = 32, LAST = 1024 };

/* Points of a law: x (count), w (count); space for `most` of them. */
typedef struct cloud {
    double *x, *w, *off;
    int64_t count;
} cloud;

/* Adds a point with its weight. */
static void add_point(cloud *c, double x, double w)
{
    c->x[c->count] = x;
    c->w[c->count++] = w;
}

/* A base law on the line by at most n points, weights summing to `share`. */
static es_status add_base(cloud *c, const es_law *law, int n, double share, es_error *err)
{
    const es_law_row *row = es_law_row_of(law->kind);
    const double size = law->size;
    if (row->reach == 0.0) {
        const double k = row->lean ? row->lean(law) : 0.0;
        add_point(c, size, share / (1.0 + exp(-2.0 * k)));
        add_point(c, -size, share / (1.0 + exp(2.0 * k)));
        return ES_OK;
    }
    double *x = c->x + c->count, *w = c->w + c->count, total = 0.0;
    ES_TRY(es_gauss_beta(1.0, 1.0, n, x, c->off, w, err));
    for (int i = 0; i < n; i++) {
        const double z = 2.0 * x[i] - 1.0;
        x[i] = size * z * row->reach;
        w[i] *= row->density ? row->density(z) : 1.0;
        total += w[i];
    }
    for (int i = 0; i < n; i++)
        w[i] *= share / total;
    c->count += n;
    return ES_OK;
}

/* Adds the quadrature points of a law, part by part for a mixture. */
static es_status add_law(cloud *c, const es_law *law, int n, double share, es_error *err)
{
    const int64_t first = c->count;
    if (es_law_uses(law->kind) & ES_LAW_USES_PARTS) {
        double total = 0.0;
        for (int64_t j = 0; j < law->n_parts; j++)
            total += law->weights[j];
        for (int64_t j = 0; j < law->n_parts; j++)
            ES_TRY(add_law(c, &law->parts[j], n, share * law->weights[j] / total, err));
    } else {
        ES_TRY(add_base(c, law, n, share, err));
    }
    for (int64_t i = first; i < c->count; i++)
        c->x[i] = (law->factor ? *law->factor : 1.0) * c->x[i] + (law->mean ? *law->mean : 0.0);
    return ES_OK;
}

/* Computes mean and variance of the limit's outputs by quadrature with n points. */
static es_status evaluate(const es_law *law, double a, int n, cloud *c, double *g,
                          const es_exec *exec, double *mean, double *variance, es_error *err)
{
    const es_limit_head head = {.A = &a};
    c->count = 0;
    ES_TRY(add_law(c, law, n, 1.0, err));
    const es_view x = es_view_f64(c->x, c->count, 1);
    ES_TRY(es_limit_rows(law, &head, &x, exec, g, NULL, NULL, err));
    *mean = *variance = 0.0;
    for (int64_t i = 0; i < c->count; i++)
        *mean += c->w[i] * g[i];
    for (int64_t i = 0; i < c->count; i++)
        *variance += c->w[i] * (g[i] - *mean) * (g[i] - *mean);
    return ES_OK;
}

es_status es_limit_line(const es_law *law, double a, const es_exec *exec, es_num *mean,
                        es_num *variance, es_error *err)
{
    const int64_t parts = es_law_uses(law->kind) & ES_LAW_USES_PARTS ? law->n_parts : 1;
    double *memory;
    ES_TRY(ES_MEM_NEW_2D(exec->budget, memory, 3 * parts + 1, LAST, "quadrature", err));
    cloud c = {.x = memory};
    c.w = c.x + parts * LAST;
    c.off = c.w + parts * LAST;
    double *g = c.off + LAST;
    es_status status = ES_OK;
    *mean = *variance = (es_num){0.0, INFINITY};
    for (int n = FIRST; n <= LAST && status == ES_OK; n *= 2) {
        double m = 0.0, v = 0.0;
        status = evaluate(law, a, n, &c, g, exec, &m, &v, err);
        const double floor = 16.0 * DBL_EPSILON, size = fabs(m) + sqrt(v);
        *mean = (es_num){m, n == FIRST ? INFINITY : fabs(m - mean->val) + floor * size};
        *variance =
            (es_num){v, n == FIRST ? INFINITY : fabs(v - variance->val) + floor * size * size};
        if (mean->err <= 1e-13 * size && variance->err <= 1e-13 * size * size)
            break;
    }
    es_mem_free(exec->budget, memory);
    return status;
}

/* ---- a normal law cut to an interval, under a tilt ---- */

/* The tilt moves the mean to m + s^2 t and leaves the interval. Formulas with Mills' ratio lose a^4
 * eps in the variance when the interval lies a standard deviations out; a Gauss rule on the density
 * exp(-(x-c)(x+c)/2), c the point of [a, b] nearest to 0, loses nothing. */

enum { MOST = 96 };

#define HALF_LN_2PI 0.91893853320467274178
#define NOTHING     90.0 /* exp(-NOTHING/2) is below rounding */

/* Computes, for the standard normal on [a, b], ln of its mass, the offset of its mean from
 * `origin` and its variance. */
typedef struct piece {
    double log_mass, origin, offset, variance;
} piece;

/* Integrates over one piece of the normal law, from an origin where its density is largest. */
static es_status integrate(double a, double b, int n, piece *out, es_error *err)
{
    double node[MOST], off[MOST], weight[MOST], mass = 0.0;
    const double c = a > 0.0 ? a : b < 0.0 ? b : 0.0;
    /* y = x - c in [low, high], where the density exp(-y (y + 2c) / 2) is not negligible */
    const double reach = NOTHING / (sqrt(c * c + NOTHING) + fabs(c));
    const double low = fmax(a - c, -reach), high = fmin(b - c, reach);
    ES_TRY(es_gauss_beta(1.0, 1.0, n, node, off, weight, err));
    *out = (piece){.origin = c};
    for (int i = 0; i < n; i++) {
        node[i] = low + (high - low) * node[i];
        weight[i] *= exp(-0.5 * node[i] * (node[i] + 2.0 * c));
        mass += weight[i];
        out->offset += weight[i] * node[i];
    }
    out->offset /= mass;
    for (int i = 0; i < n; i++)
        out->variance += weight[i] / mass * (node[i] - out->offset) * (node[i] - out->offset);
    out->log_mass = log(mass * (high - low)) - 0.5 * c * c - HALF_LN_2PI;
    return ES_OK;
}

es_status es_limit_truncated(const es_truncated *law, double t, es_num out[3], es_error *err)
{
    const double m = law->mean, s = law->sd;
    if (!isfinite(t) || !isfinite(m) || !isfinite(law->low) || !isfinite(law->high))
        return es_fail(err, ES_E_NONFINITE, "limit.truncated", "give finite numbers",
                       "the truncated normal or its tilt is not finite");
    if (!(s > 0.0) || !isfinite(s) || !(law->low < law->high))
        return es_fail(err, ES_E_RANGE, "limit.truncated", "sd > 0 and low < high",
                       "sd is %g, the interval [%g, %g]", s, law->low, law->high);
    const double a0 = (law->low - m) / s, b0 = (law->high - m) / s;
    const double a = a0 - s * t, b = b0 - s * t;
    piece base, fine, coarse;
    ES_TRY(integrate(a0, b0, MOST, &base, err));
    ES_TRY(integrate(a, b, MOST, &fine, err));
    ES_TRY(integrate(a, b, MOST - 32, &coarse, err));

    /* c, and with it x = m + s^2 t + s c, is an end of the interval unless that contains m_t */
    const double origin = a > 0.0 ? law->low : b < 0.0 ? law->high : m + s * s * t;
    const double size = fabs(fine.log_mass) + fabs(base.log_mass) + fabs(m * t) + s * s * t * t;
    const double eps = 16.0 * DBL_EPSILON, moved = eps * (fabs(a) + fabs(b)) * fine.variance;
    out[0].val = m * t + 0.5 * s * s * t * t + fine.log_mass - base.log_mass;
    out[0].err = eps * (size + 1.0) + fabs(fine.log_mass - coarse.log_mass);
    out[1].val = origin + s * fine.offset;
    out[1].err = eps * (fabs(origin) + s * fabs(fine.offset)) +
                 s * (fabs(fine.offset - coarse.offset) + moved);
    out[2].val = s * s * fine.variance;
    out[2].err = s * s *
                 (eps * fine.variance + fabs(fine.variance - coarse.variance) +
                  2.0 * moved * sqrt(fine.variance));
    return ES_OK;
}
