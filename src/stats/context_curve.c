/* SPDX-License-Identifier: Apache-2.0 */
/* context_curve.c : the best curve a exp(-beta x) + gamma, from the inside out: linear in a and
 * gamma given beta, then over beta, then with Huber's weights around it. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "stats/average.h"
#include "stats/context_curve.h"
#include "stats/special.h"

enum { GRID = 200, GOLDEN = 40, POLISH = 20, ROUNDS = 200 };

double es_curve_residual(const es_points *p, const es_context_curve *c, int64_t i)
{
    return p->base[i] * (p->L[i] - c->a * exp(-c->beta * p->x[i]) - c->gamma);
}

/* ---- given weights: linear in a and gamma ---- */

/* f = e^{-beta x} into p->r: the one column that costs anything. */
static void fill_column(const es_points *p, double beta)
{
    for (int64_t i = 0; i < p->count; i++)
        p->r[i] = exp(-beta * p->x[i]);
}

/* Returns the weighted residual base_i (L_i - a r_i - gamma), r_i = c_i^-beta up to scale. */
static double residual_of(const es_points *p, const es_context_curve *c, int64_t i)
{
    return p->base[i] * (p->L[i] - c->a * p->r[i] - c->gamma);
}

/* Weighted regression on (f, 1), f in p->r, centred so that it stays accurate when f is nearly
 * constant; `gamma` may be given. */
static es_context_curve solve_column(const es_points *p, double beta, double gamma)
{
    double sw = 0.0, sf = 0.0, sL = 0.0, ff = 0.0, fL = 0.0;
    for (int64_t i = 0; i < p->count; i++) {
        const double w = p->w[i] * p->base[i] * p->base[i];
        sw += w;
        sf += w * p->r[i];
        sL += w * p->L[i];
    }
    const double f0 = isnan(gamma) ? sf / sw : 0.0, L0 = isnan(gamma) ? sL / sw : gamma;
    for (int64_t i = 0; i < p->count; i++) {
        const double w = p->w[i] * p->base[i] * p->base[i], f = p->r[i] - f0;
        ff += w * f * f;
        fL += w * f * (p->L[i] - L0);
    }
    const double a = ff > 0.0 ? fL / ff : 0.0;
    return (es_context_curve){.a = a, .beta = beta, .gamma = L0 - a * f0};
}

/* Returns the weighted sum of squares. */
static double solve_linear(const es_points *p, double beta, es_context_curve *out)
{
    double ss = 0.0;
    fill_column(p, beta);
    *out = solve_column(p, beta, (double)NAN);
    for (int64_t i = 0; i < p->count; i++) {
        const double r = residual_of(p, out, i);
        ss += p->w[i] * r * r;
    }
    return ss;
}

/* ---- given beta and scale: Huber's objective ---- */

/* 2 sum rho, and the weights for the next round. */
static double huber_loss(const es_points *p, const es_context_curve *c, double scale)
{
    double sum = 0.0;
    for (int64_t i = 0; i < p->count; i++) {
        const double z = fabs(residual_of(p, c, i)) / scale;
        const bool inside = z <= p->huber;
        sum += inside ? z * z : p->huber * (2.0 * z - p->huber);
        p->w[i] = inside ? 1.0 : p->huber / z;
    }
    return sum;
}

double es_curve_loss(const es_points *p, double beta, double gamma, double scale)
{
    double before = INFINITY;
    for (int64_t i = 0; i < p->count; i++)
        p->w[i] = 1.0;
    fill_column(p, beta);
    for (int round = 0; round < ROUNDS; round++) { /* the objective is convex here */
        const es_context_curve c = solve_column(p, beta, gamma);
        const double loss = huber_loss(p, &c, scale);
        if (!(loss < before * (1.0 - 1e-10)))
            return fmin(loss, before);
        before = loss;
    }
    return before;
}

/* ---- given gamma ---- */

/* The curve at a fixed gamma, for profile intervals. */
typedef struct at_gamma {
    const es_points *p;
    double gamma, scale;
} at_gamma;

/* Returns the robust loss at a fixed gamma as a function of t = ln beta, for the line search. */
static double loss_of_log_beta(const void *context, double t)
{
    const at_gamma *g = context;
    return es_curve_loss(g->p, exp(t), g->gamma, g->scale);
}

double es_curve_loss_at_gamma(const es_points *p, double beta, double gamma, double scale)
{
    const at_gamma g = {p, gamma, scale};
    const double low = fmax(log(beta) - 1.5, log(ES_CONTEXT_BETA_MIN));
    const double high = fmin(log(beta) + 1.5, log(ES_CONTEXT_BETA_MAX));
    return loss_of_log_beta(&g, es_minimum(loss_of_log_beta, &g, low, high, GOLDEN));
}

/* ---- given weights: all three parameters ---- */

/* Returns the weighted sum of squares as a function of t = ln beta: a and gamma are solved
 * linearly. */
static double squares_of_log_beta(const void *context, double t)
{
    es_context_curve c;
    return solve_linear(context, exp(t), &c);
}

/* J'WJ and J'Wr over (a, beta, gamma). */
static void normal_equations(const es_points *p, const es_context_curve *c, int robust,
                             double M[3][3], double v[3])
{
    memset(M, 0, 9 * sizeof(double));
    memset(v, 0, 3 * sizeof(double));
    for (int64_t i = 0; i < p->count; i++) {
        const double f = exp(-c->beta * p->x[i]), b = p->base[i], w = robust ? p->w[i] : 1.0;
        const double J[3] = {b * f, -b * c->a * f * p->x[i], b}, r = es_curve_residual(p, c, i);
        for (int k = 0; k < 3; k++) {
            v[k] += w * J[k] * r;
            for (int l = 0; l < 3; l++)
                M[k][l] += w * J[k] * J[l];
        }
    }
}

/* Inverse of a symmetric positive definite 3 x 3 matrix through its unit-diagonal form; 0 if it is
 * singular to rounding. */
static int invert(const double M[3][3], double out[3][3])
{
    double s[3], R[3][3];
    for (int k = 0; k < 3; k++)
        s[k] = sqrt(M[k][k]);
    for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++)
            R[k][l] = M[k][l] / (s[k] * s[l]);
    double det = 0.0, adj[3][3];
    for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++) {
            const int a = (l + 1) % 3, b = (l + 2) % 3, c = (k + 1) % 3, d = (k + 2) % 3;
            adj[k][l] = R[a][c] * R[b][d] - R[a][d] * R[b][c];
        }
    for (int l = 0; l < 3; l++)
        det += R[0][l] * adj[l][0];
    if (!(det > 1e-14)) /* of a correlation matrix: 1 is perfect */
        return 0;
    for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++)
            out[k][l] = adj[k][l] / det / (s[k] * s[l]);
    return 1;
}

int es_curve_covariance(const es_points *p, const es_context_curve *c, double cov[3][3])
{
    double M[3][3], v[3];
    normal_equations(p, c, 0, M, v);
    return invert((const double(*)[3])M, cov);
}

/* Golden section stops at the square root of rounding; Gauss-Newton goes on from there. A step is
 * taken while it lowers the sum of squares, or leaves it as it is. */
static void polish(const es_points *p, es_context_curve *c)
{
    for (int step = 0; step < POLISH; step++) {
        double M[3][3], v[3], inverse[3][3];
        es_context_curve next;
        normal_equations(p, c, 1, M, v);
        if (!invert((const double(*)[3])M, inverse))
            return;
        const double by = inverse[1][0] * v[0] + inverse[1][1] * v[1] + inverse[1][2] * v[2];
        const double beta = c->beta + by;
        if (!(beta > ES_CONTEXT_BETA_MIN && beta < ES_CONTEXT_BETA_MAX))
            return;
        const double before = solve_linear(p, c->beta, &next);
        if (solve_linear(p, beta, &next) > before * (1.0 + 1e-13))
            return;
        *c = next;
        if (fabs(by) < 1e-15 * beta)
            return;
    }
}

/* Fits the curve with fixed weights: a grid over ln beta, because the profile may have several
 * minima, then a line search around the best point. */
static void fit_weighted(const es_points *p, es_context_curve *out)
{
    const double low = log(ES_CONTEXT_BETA_MIN), high = log(ES_CONTEXT_BETA_MAX);
    double least = INFINITY;
    int best = 0;
    for (int g = 0; g < GRID; g++) {
        const double ss = squares_of_log_beta(p, low + (high - low) * g / (GRID - 1));
        if (ss < least) {
            least = ss;
            best = g;
        }
    }
    const double left = low + (high - low) * (best > 0 ? best - 1 : 0) / (GRID - 1);
    const double right = low + (high - low) * (best < GRID - 1 ? best + 1 : best) / (GRID - 1);
    solve_linear(p, exp(es_minimum(squares_of_log_beta, p, left, right, GOLDEN)), out);
    polish(p, out);
}

/* ---- Huber's weights around it ---- */

/* The median residual in units in which it is the standard deviation of a normal law. A curve of
 * three parameters can pass through three points, so the three smallest residuals are left out: for
 * 7 points with normal errors the scale is 1.17 times theirs on average, with all residuals 0.66
 * times, which would call a point of every third table an outlier. */
static double median_scale(const es_points *p, const es_context_curve *c)
{
    for (int64_t i = 0; i < p->count; i++)
        p->r[i] = fabs(es_curve_residual(p, c, i));
    es_sort_reals(p->r, p->count);
    return es_median_of(p->r + 3, p->count - 3) / 0.6744897501960817;
}

void es_curve_fit(const es_points *p, es_context_curve *curve, double *scale)
{
    for (int64_t i = 0; i < p->count; i++)
        p->w[i] = 1.0;
    fit_weighted(p, curve);
    *scale = median_scale(p, curve);
    for (int round = 0; round < ROUNDS && isfinite(p->huber) && *scale > 0.0; round++) {
        const double beta = curve->beta;
        fill_column(p, beta);
        huber_loss(p, curve, *scale); /* for its weights */
        solve_linear(p, beta, curve);
        polish(p, curve);
        *scale = median_scale(p, curve);
        if (fabs(curve->beta - beta) <= 1e-12 * beta)
            break;
    }
}
