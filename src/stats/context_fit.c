/* SPDX-License-Identifier: Apache-2.0 */
/* context_fit.c : fits the loss against the context: checks, intervals, prediction (THEORY 8). The
 * curve itself is found in context_curve.c. */
#include "stats/context_curve.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/special.h"

/* ---- checks ---- */

/* Checks that contexts, losses and standard errors are finite and positive where they have to be.
 */
static es_status check_points(const double *c, const double *L, const double *se, int64_t count,
                              es_error *err)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(c[i]) || !isfinite(L[i]) || (se && !isfinite(se[i])))
            return es_fail_at(err, ES_E_NONFINITE, i, -1, "context.finite", "remove the point",
                              "point %lld is not finite", (long long)i);
        if (!(c[i] > 0.0))
            return es_fail_at(err, ES_E_RANGE, i, -1, "context.range", "contexts are positive",
                              "point %lld has context %g", (long long)i, c[i]);
        if (se && !(se[i] > 0.0))
            return es_fail_at(err, ES_E_RANGE, i, -1, "context.range",
                              "standard errors are positive; leave them out if unknown",
                              "point %lld has standard error %g", (long long)i, se[i]);
    }
    return ES_OK;
}

/* Counts different contexts, up to `enough`. */
static int64_t different(const double *c, int64_t count, int64_t enough)
{
    double seen[8];
    int64_t found = 0;
    for (int64_t i = 0; i < count && found < enough; i++) {
        int64_t k = 0;
        while (k < found && seen[k] != c[i])
            k++;
        if (k == found)
            seen[found++] = c[i];
    }
    return found;
}

/* ---- intervals ---- */

/* A fit under way. */
typedef struct fit_job {
    es_points p;
    es_context_curve best;
    double scale;   /* of the residuals, by their median; of least squares the root mean square */
    double spread2; /* variance of an estimate = spread2 (J'J)^-1 */
    double excess;  /* by which the loss may exceed its minimum within the interval */
    double least;   /* that minimum */
} fit_job;

/* Huber (1981, 7.6): [sum psi^2/(m-3)]/[mean psi']^2, in units of scale^2, with his correction K
 * for few points. With every point within the cut that is the sum of squares over m-3. */
static double variance_factor(const fit_job *f)
{
    const double m = (double)f->p.count;
    double psi2 = 0.0, inside = 0.0;
    for (int64_t i = 0; i < f->p.count; i++) {
        const double z = fabs(es_curve_residual(&f->p, &f->best, i)) / f->scale;
        psi2 += z <= f->p.huber ? z * z : f->p.huber * f->p.huber;
        inside += z <= f->p.huber ? 1.0 : 0.0;
    }
    const double share = inside / m, K = 1.0 + 3.0 / m * (1.0 - share) / share;
    return K * K * psi2 / (m - 3.0) / (share * share);
}

/* Returns the share of points within the Huber threshold: the mean derivative of its influence
 * function, which scales the standard errors of a robust fit. */
static double mean_slope(const fit_job *f)
{
    double inside = 0.0;
    for (int64_t i = 0; i < f->p.count; i++)
        inside += fabs(es_curve_residual(&f->p, &f->best, i)) <= f->p.huber * f->scale ? 1.0 : 0.0;
    return inside / (double)f->p.count;
}

typedef double (*profile)(const fit_job *f, double t);

/* Returns the loss minimised over a and gamma at beta = e^t. */
static double profile_beta(const fit_job *f, double t)
{
    return es_curve_loss(&f->p, exp(t), (double)NAN, f->scale);
}

/* Returns the loss minimised over a at a fixed gamma. */
static double profile_gamma(const fit_job *f, double gamma)
{
    return es_curve_loss_at_gamma(&f->p, f->best.beta, gamma, f->scale);
}

/* Where the profile leaves the interval between `inside` and `outside`; NaN if it does not. */
static double crossing(const fit_job *f, profile of, double inside, double outside)
{
    const double limit = f->least + f->excess;
    if (!(of(f, outside) > limit))
        return (double)NAN;
    for (int i = 0; i < 36; i++) {
        const double mid = 0.5 * (inside + outside);
        *(of(f, mid) > limit ? &outside : &inside) = mid;
    }
    return 0.5 * (inside + outside);
}

/* Outward from `from` in growing steps, until the profile has left the interval. */
static double edge(const fit_job *f, profile of, double from, double step)
{
    double inside = from;
    for (int i = 0; i < 40; i++, step *= 2.0) {
        const double found = crossing(f, of, inside, from + step);
        if (!isnan(found))
            return found;
        inside = from + step;
    }
    return (double)NAN;
}

/* Finds the profile likelihood intervals of beta and gamma: where the loss has risen by the
 * quantile of the level. */
static void find_intervals(const fit_job *f, es_context_fit *out)
{
    const double at = log(f->best.beta);
    out->beta_low = exp(crossing(f, profile_beta, at, log(ES_CONTEXT_BETA_MIN)));
    out->beta_high = exp(crossing(f, profile_beta, at, log(ES_CONTEXT_BETA_MAX)));
    if (isnan(out->beta_low) || isnan(out->beta_high))
        return; /* refused, so gamma need not be looked for */
    out->gamma_low = edge(f, profile_gamma, f->best.gamma, -out->gamma_se);
    out->gamma_high = edge(f, profile_gamma, f->best.gamma, out->gamma_se);
    out->halving_low = exp2(-out->beta_high);
    out->halving_high = exp2(-out->beta_low);
}

/* ---- the fit ---- */

/* From the units of the fit, c/mean, to those of the data. cov becomes that of (ln A, beta,
 * gamma): ln A = ln a + beta ln mean. */
static void translate(const fit_job *f, double log_mean, double cov[3][3], es_context_fit *out)
{
    const es_context_curve *c = &f->best;
    const double T[3][3] = {{1.0 / c->a, log_mean, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}};
    for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++) {
            double sum = 0.0;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    sum += T[k][i] * cov[i][j] * T[l][j];
            out->cov[k][l] = f->spread2 * sum;
        }
    const double log_A = log(c->a) + c->beta * log_mean, log_alpha = log_A / c->beta;
    out->A = exp(log_A);
    out->beta = c->beta;
    out->gamma = c->gamma;
    out->alpha = exp(log_alpha);
    out->halving = exp2(-c->beta);
    out->A_se = out->A * sqrt(out->cov[0][0]);
    out->beta_se = sqrt(out->cov[1][1]);
    out->gamma_se = sqrt(out->cov[2][2]);
    out->log_alpha_se = sqrt(fmax(0.0, out->cov[0][0] - 2.0 * log_alpha * out->cov[0][1] +
                                           log_alpha * log_alpha * out->cov[1][1])) /
                        c->beta;
}

/* Fails if the fit means nothing: the loss does not fall, or the excess over gamma falls by less
 * than `needed` over the data, so that beta and gamma trade off. */
static es_status judge_curve(const fit_job *f, double needed, es_context_fit *out, es_error *err)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < f->p.count; i++) {
        low = fmin(low, f->p.x[i]);
        high = fmax(high, f->p.x[i]);
    }
    if (!(f->best.a > 0.0))
        return es_fail(err, ES_E_NUMERIC, "context.flat", "is the loss in the right column?",
                       "the loss does not fall as the context grows");
    out->span = exp(f->best.beta * (high - low));
    char hint[160];
    snprintf(
        hint, sizeof hint,
        "measure shorter and longer contexts; or allow it with --min-span %.2g: beta and gamma "
        "then trade against one another",
        fmax(1.0, floor(10.0 * out->span) / 10.0));
    if (!(out->span >= needed))
        return es_fail(err, ES_E_NUMERIC, "context.span", hint,
                       "from the shortest to the longest context the excess over gamma falls by a "
                       "factor %.3g; %.3g is needed",
                       out->span, needed);
    return ES_OK;
}

/* Fails because the interval of beta covers the whole range. */
static es_status fail_beta(const es_context_fit *out, es_error *err)
{
    return es_fail(err, ES_E_NUMERIC, "context.beta",
                   "use more points, longer contexts, or less noisy losses",
                   "the data allow any beta from %.3g to %.3g: not identifiable",
                   isnan(out->beta_low) ? ES_CONTEXT_BETA_MIN : out->beta_low,
                   isnan(out->beta_high) ? ES_CONTEXT_BETA_MAX : out->beta_high);
}

/* Scatter, covariance and intervals of the best curve. */
static es_status measure_curve(fit_job *f, double level, double log_mean, es_context_fit *out,
                               es_error *err)
{
    double cov[3][3];
    const double m = (double)f->p.count;
    if (!es_curve_covariance(&f->p, &f->best, cov))
        return es_fail(err, ES_E_NUMERIC, "context.beta", "measure more contexts",
                       "A, beta and gamma are not identifiable");
    double squares = 0.0, size = 0.0;
    for (int64_t i = 0; i < f->p.count; i++) {
        const double r = es_curve_residual(&f->p, &f->best, i);
        squares += r * r;
        size = fmax(size, f->p.base[i] * fabs(f->p.L[i]));
    }
    if (!isfinite(f->p.huber) || !(f->scale > 0.0))
        f->scale = sqrt(squares / (m - 3.0));
    /* Points on the curve to rounding: rounding is their noise. */
    f->scale = fmax(f->scale, 1e-15 * size);
    const double factor = variance_factor(f);
    const double t = es_student_quantile(m - 3.0, 0.5 * (1.0 - level));
    f->spread2 = f->scale * f->scale * factor;
    f->excess = t * t * factor * mean_slope(f);
    out->scatter = f->scale;
    translate(f, log_mean, cov, out);
    f->least = profile_beta(f, log(f->best.beta));
    find_intervals(f, out);
    return isnan(out->beta_low) || isnan(out->beta_high) ? fail_beta(out, err) : ES_OK;
}

/* Fits L(c) = (alpha/c)^beta + gamma by iteratively reweighted least squares with Huber weights,
 * and judges the result. */
static es_status fit_curve(fit_job *f, const double *c, const double *L, const double *se,
                           double *numbers, const es_context_opts *o, double *weights,
                           es_context_fit *out, es_error *err)
{
    const int64_t m = f->p.count;
    double *x = numbers, *base = numbers + m, log_mean = 0.0;
    for (int64_t i = 0; i < m; i++)
        log_mean += log(c[i]) / (double)m;
    for (int64_t i = 0; i < m; i++) {
        x[i] = log(c[i]) - log_mean;
        base[i] = se ? 1.0 / se[i] : 1.0;
    }
    f->p = (es_points){.x = x,
                       .L = L,
                       .base = base,
                       .w = numbers + 2 * m,
                       .r = numbers + 3 * m,
                       .count = m,
                       .huber = o->huber};
    es_context_fit result = {.points = m};
    es_curve_fit(&f->p, &f->best, &f->scale);
    for (int64_t i = 0; i < m; i++) {
        result.outliers += f->p.w[i] < 0.5;
        if (weights)
            weights[i] = f->p.w[i];
    }
    ES_TRY(judge_curve(f, o->span, &result, err));
    ES_TRY(measure_curve(f, o->level, log_mean, &result, err));
    *out = result;
    return ES_OK;
}

es_status es_context_fit_points(const double *c, const double *L, const double *se, int64_t count,
                                const es_context_opts *opts, es_mem_limit *budget, double *weights,
                                es_context_fit *out, es_error *err)
{
    es_context_opts o = opts ? *opts : (es_context_opts){0};
    o.huber = o.huber < 0.0 ? INFINITY : o.huber > 0.0 ? o.huber : 1.345;
    o.level = o.level == 0.0 ? 0.95 : o.level;
    o.span = o.span > 0.0 ? o.span : 10.0;
    if (!(o.level > 0.0 && o.level < 1.0))
        return es_fail(err, ES_E_ARGUMENT, "context.level", "between 0 and 1", "level is %g",
                       o.level);
    ES_TRY(check_points(c, L, se, count, err));
    if (different(c, count, 4) < 4)
        return es_fail(err, ES_E_EMPTY, "context.points", "the curve has three parameters",
                       "there are fewer than 4 different contexts");
    double *numbers;
    ES_TRY(ES_MEM_NEW_2D(budget, numbers, 4, count, "points", err));
    fit_job f = {.p.count = count};
    const es_status status = fit_curve(&f, c, L, se, numbers, &o, weights, out, err);
    es_mem_free(budget, numbers);
    return status;
}

/* Predicts L(c) = A c^-beta + gamma. Standard error by the delta method: se^2 = g' Cov g with the
 * gradient g = (A c^-beta, -A c^-beta ln c, 1) in (ln A, beta, gamma). */
double es_context_predict(const es_context_fit *fit, double c, double *se)
{
    const double excess = exp(log(fit->A) - fit->beta * log(c));
    const double g[3] = {excess, -excess * log(c), 1.0};
    double variance = 0.0;
    for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++)
            variance += g[k] * fit->cov[k][l] * g[l];
    if (se)
        *se = sqrt(fmax(variance, 0.0));
    return excess + fit->gamma;
}
