/* SPDX-License-Identifier: Apache-2.0 */
/* equiangular.c : equiangular tokens under attention in closed form (THEORY 7).
 *
 * A row of A has one weight p on itself and n-1 equal ones s = p e^{-beta(1-rho)}; so with
 * u = sum_j y_j an output is (p - s + alpha sqrt q) y_i + s u, and |u|^2 = n c1, <u, y_i> = c1,
 * c1 = 1 + (n-1) rho. Its norm and the cosine of two of them are sums of three terms; 1 - cos' is
 * one product, so it keeps its digits where outputs nearly coincide. */
#include "theory/equiangular.h"

#include <math.h>

#include "base/error.h"

/* ---- closed form ---- */

/* Fails for numbers outside their ranges. */
static es_status check(const es_equiangular *t, es_error *err)
{
    if (t->n < 2 || t->n > ES_COLLAPSE_MOST_N)
        return es_fail(err, ES_E_RANGE, "collapse.n", "from 2 to 1e18", "n is %lld",
                       (long long)t->n);
    if (!(t->rho >= 0.0 && t->rho < 1.0))
        return es_fail(err, ES_E_RANGE, "collapse.rho", "0 <= rho < 1", "rho is %g", t->rho);
    if (!(t->beta >= 0.0 && isfinite(t->beta)))
        return es_fail(err, ES_E_RANGE, "collapse.beta", "a finite number, not negative",
                       "beta is %g", t->beta);
    if (!(t->alpha >= 0.0 && isfinite(t->alpha)))
        return es_fail(err, ES_E_RANGE, "collapse.alpha", "a finite number, not negative",
                       "alpha is %g", t->alpha);
    if (!(t->square >= 0.0 && isfinite(t->square)))
        return es_fail(err, ES_E_RANGE, "collapse.square", "a positive number", "q is %g",
                       t->square);
    if (t->dim < 0)
        return es_fail(err, ES_E_RANGE, "collapse.dim", "", "dim is %lld", (long long)t->dim);
    return ES_OK;
}

/* -x ln x, 0 at 0. */
static double surprise(double x) { return x > 0.0 ? -x * log(x) : 0.0; }

/* |dX'/dX|_F^2/n. Blocks, with Q_k = I - y_k y_k', m_i = sum_j A_ij y_j, C_i the covariance of y
 * under row i of A, u = y_k - m_i:
 *     k != i:  s (I + beta u y_i') Q_k / sqrt q
 *     k == i:  (p I + beta C_i) Q_i / sqrt q + alpha I
 * All vectors that are combinations of the y with coefficients of sum 0 see the Gram matrix as
 * (1-rho) I, which is why every product below is short and without cancellation. */
static double jacobian2(const es_equiangular *t, const es_collapse *c, double q)
{
    const double d = (double)t->dim, others = (double)(t->n - 1), far = 1.0 - t->rho;
    const double p = c->self_weight, s = c->other_weight, beta = t->beta;
    const double w2 = p * p + others * s * s, w3 = p * p * p + others * s * s * s;
    const double u2 = far * (1.0 - 2.0 * s + w2);
    const double yQu = -far * (p + t->rho * (1.0 - s));
    const double off =
        s * s / q * (d - 1.0 + 2.0 * beta * yQu + beta * beta * u2 * (1.0 - t->rho * t->rho));
    const double trace_C = far * (1.0 - w2), yCy = far * far * p * others * s;
    const double trace_C2 = far * far * (w2 - 2.0 * w3 + w2 * w2);
    const double Cy2 = far * far * far * p * p * (1.0 - 2.0 * p + w2);
    const double trace = p * (d - 1.0) + beta * (trace_C - yCy);
    const double own =
        (p * p * (d - 1.0) + 2.0 * p * beta * (trace_C - yCy) + beta * beta * (trace_C2 - Cy2)) / q;
    return own + 2.0 * t->alpha * trace / sqrt(q) + t->alpha * t->alpha * d + others * off;
}

/* Computes how much of a gradient passes through attention: for d to infinity, and for d dimensions
 * where n tokens can have equal angles, d >= n. */
static void gradients(const es_equiangular *t, double q, es_collapse *c)
{
    const double p = c->self_weight, s = c->other_weight, others = (double)(t->n - 1);
    c->gradient_limit =
        (p * p + others * s * s) / q + 2.0 * t->alpha * p / sqrt(q) + t->alpha * t->alpha;
    c->gradient = t->dim >= t->n ? jacobian2(t, c, q) / (double)t->dim : (double)NAN;
}

/* Computes one layer over n tokens at equal angles exactly (THEORY 7): weight p of a token on
 * itself and s on each other one, B = beta (1 - rho). 1 - cos' is computed directly, so that
 * nearly equal outputs keep their digits. */
es_status es_collapse_exact(const es_equiangular *tokens, es_collapse *out, es_error *err)
{
    ES_TRY(check(tokens, err));
    const double n = (double)tokens->n, others = (double)(tokens->n - 1), rho = tokens->rho;
    const double q = tokens->square > 0.0 ? tokens->square : 1.0;
    const double B = tokens->beta * (1.0 - rho), e = exp(-B), z = 1.0 + others * e;
    const double p = 1.0 / z, s = e / z;
    const double own = -expm1(-B) / z + tokens->alpha * sqrt(q); /* p - s + alpha sqrt q */
    const double c1 = 1.0 + others * rho;
    const double norm2 = own * own + 2.0 * own * s * c1 + s * s * n * c1;
    const double miss = own * own * (1.0 - rho) / norm2; /* 1 - cos' */
    *out = (es_collapse){.self_weight = p,
                         .other_weight = s,
                         .cosine = 1.0 - miss,
                         .angle_ratio = asin(sqrt(0.5 * miss)) / asin(sqrt(0.5 * (1.0 - rho))),
                         .norm2 = norm2,
                         .ess = 1.0 / (p * p + others * s * s),
                         .entropy = surprise(p) + others * surprise(s)};
    gradients(tokens, q, out);
    out->phase = p < 0.1 ? ES_COLLAPSE_MERGED : p > 0.9 ? ES_COLLAPSE_APART : ES_COLLAPSE_WINDOW;
    return ES_OK;
}

const char *es_collapse_phase_name(es_collapse_phase phase)
{
    static const char *const names[] = {"merged", "window", "apart"};
    return (unsigned)phase < 3 ? names[phase] : "?";
}

/* ---- tokens of finite dimension ---- */

/* Variance of the cosines of a row is (1-rho)^2 kappa/dim. */
static double kappa_of(double rho) { return 1.0 + rho - 0.5 * rho * rho; }

/* Returns gamma_c = beta/ln n from which on a token sees mostly itself: 1/(1 - rho), and in finite
 * dimension the smaller root of B = L + kappa B^2/(2 dim), B = beta (1 - rho), L = ln n. */
double es_collapse_threshold(int64_t n, double rho, int64_t dim)
{
    if (n < 2 || dim < 0 || !(rho >= 0.0 && rho < 1.0))
        return (double)NAN;
    if (dim == 0)
        return 1.0 / (1.0 - rho);
    /* B/L = (1 - sqrt(1-x))/(x/2), x = 2 kappa L/dim, written without the cancellation. */
    const double x = 2.0 * kappa_of(rho) * log((double)n) / (double)dim;
    return x > 1.0 ? (double)NAN : 2.0 / (1.0 + sqrt(1.0 - x)) / (1.0 - rho);
}

/* Returns the weight of a token on itself, with the spread of the other scores as
 * e^(variance/2). */
double es_collapse_self_weight(int64_t n, double rho, double beta, int64_t dim)
{
    if (n < 2 || dim < 0 || !(rho >= 0.0 && rho < 1.0) || !(beta >= 0.0))
        return (double)NAN;
    const double B = beta * (1.0 - rho), others = (double)(n - 1);
    const double spread = dim ? kappa_of(rho) / (double)dim : 0.0; /* variance of B-scores / B^2 */
    if (B * spread > 1.0 || B * B * spread > 2.0 * log((double)n))
        return (double)NAN;
    return 1.0 / (1.0 + others * exp(-B + 0.5 * spread * B * B));
}

/* ---- scalings in use ---- */

double es_scaling_yarn(double n, double train, double coefficient)
{
    const double factor = n > train ? coefficient * log(n / train) + 1.0 : 1.0;
    return factor * factor;
}

double es_scaling_logn(double n, double train) { return n > train ? log(n) / log(train) : 1.0; }
