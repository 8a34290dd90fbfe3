/* rem.c : n independent Gaussian scores, the random energy model, by exact integrals (THEORY 4.2).
 *
 * 1/Z^2 = int lambda e^{-lambda Z} dlambda turns a ratio of sums over the same scores into products
 * of averages over one: with lambda = e^{-l}, s = e^{qg - l} and phi = E e^{-s},
 * E sum w^2 = n int E[s^2 e^{-s}] phi^{n-1} dl. Integration by parts in g gives E sum w_i g_i =
 * q (1 - E sum w^2) (I1) and E[(g-q) s e^{-s}] = -q E[s^2 e^{-s}]: two tables serve everything. */
#include <esscher/theory.h>

#include <math.h>

#include "base/error.h"
#include "theory/rem.h"
#include "theory/scores.h"

static es_status check_n(double n, es_error *err)
{
    if (n >= 1.0 && n <= ES_SCORES_MAX_N && n == floor(n))
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "theory.n", "use a whole number from 1 to 1e16",
                   "%g tokens are outside the range of the integrals", n);
}

static es_status check_q(double q, double least, es_error *err)
{
    if (q >= least && q <= ES_SCORES_MAX_Q)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "theory.q", "scale the scores down: all of this is frozen",
                   "a standard deviation of scores of %g is outside [%g, %g]", q, least,
                   ES_SCORES_MAX_Q);
}

/* E log Z = int (e^{-e^-l} - phi^n) dl, from log Z = int (e^-lambda - e^{-lambda Z}) d lambda /
 * lambda. Below the tabulated range phi^n is 0, above it both terms are 1. */
static double mean_log_sum(const es_scores *s)
{
    double sum = 0.0, l = s->top;
    for (int64_t j = 0; j < s->count || l > -4.0; j++, l -= s->step) {
        const double mine = j < s->count ? s->tail[j] : 1.0;
        /* 1 - phi^n and 1 - e^{-e^-l}: both small at the top, so their difference is taken. */
        sum += mine < 1.0 ? -expm1(s->n * log1p(-mine)) : 1.0;
        sum += expm1(-exp(-l));
    }
    return sum * s->step;
}

void es_rem_integrate(const es_scores *s, es_rem *out)
{
    const double n = s->n, q = s->q;
    double norm = 0.0, P = 0.0, own = 0.0, four = 0.0, pairs = 0.0;
    for (int64_t j = 0; j < s->count; j++) {
        const double others = es_scores_power(s->tail[j], n - 1.0);
        norm += s->m1[j] * others;
        P += s->m2[j] * others;
        own += s->e2[j] * others;
        four += s->m4[j] * others;
        /* E[(g-q) s e^-s] = -q m_2 */
        pairs += s->m2[j] * s->m2[j] * es_scores_power(s->tail[j], n - 2.0);
    }
    const double scale = n * s->step;
    P *= scale;
    const double v = scale * (own + (n - 1.0) * q * q * pairs);
    *out = (es_rem){.participation = P,
                    .participation_squared = scale * (four + (n - 1.0) * pairs) / 6.0,
                    .mean = q * (1.0 - P),
                    .error = v,
                    .second = v + q * q * (1.0 - 2.0 * P),
                    .entropy = mean_log_sum(s) - q * q * (1.0 - P),
                    .defect = fabs(scale * norm - 1.0)};
}

/* At q = 0 all weights are 1/n, and G is a plain mean. */
static es_rem flat(double n)
{
    return (es_rem){.participation = 1.0 / n,
                    .participation_squared = 1.0 / (n * n),
                    .error = 1.0 / n,
                    .second = 1.0 / n,
                    .entropy = log(n)};
}

es_status es_rem_moments(double n, double q, es_budget *budget, es_rem *out, es_error *err)
{
    ES_TRY(check_n(n, err));
    ES_TRY(check_q(q, 0.0, err));
    const es_scores_grid grid = {.extra_most = -INFINITY};
    es_scores s;
    ES_TRY(es_scores_make(n, fmax(q, ES_SCORES_MIN_Q), &grid, budget, &s, err));
    es_rem_integrate(&s, out);
    es_scores_free(&s);
    if (q >= ES_SCORES_MIN_Q)
        return ES_OK;
    /* P, v and the entropy are even functions of q: their first term in q^2 does. */
    const es_rem zero = flat(n);
    const double part = q / ES_SCORES_MIN_Q * (q / ES_SCORES_MIN_Q);
    out->participation = zero.participation + part * (out->participation - zero.participation);
    out->participation_squared = zero.participation_squared +
                                 part * (out->participation_squared - zero.participation_squared);
    out->error = zero.error + part * (out->error - zero.error);
    out->entropy = zero.entropy + part * (out->entropy - zero.entropy);
    out->mean = q * (1.0 - out->participation);
    out->second = out->error + q * q * (1.0 - 2.0 * out->participation);
    return ES_OK;
}

/* ---- one token more ---- */

void es_rem_others(es_scores *s, es_rem_density *out)
{
    const double n = s->n, q = s->q;
    for (int64_t j = 0; j < s->count; j++) {
        const double less_one = es_scores_power(s->tail[j], n - 1.0);
        const double less_two = es_scores_power(s->tail[j], n - 2.0);
        const double m2 = s->m2[j];
        s->power[j] = es_scores_power(s->tail[j], n);
        s->m1[j] = n * m2 * less_one;
        /* 1/Z^4 = int lambda^3 e^{-lambda Z} d lambda / 6 */
        s->m4[j] = (n * s->m4[j] * less_one + n * (n - 1.0) * m2 * m2 * less_two) / 6.0;
        s->e2[j] = n * s->e2[j] * less_one + n * (n - 1.0) * q * q * m2 * m2 * less_two;
    }
    *out = (es_rem_density){.all = s->power, .one = s->m1, .four = s->m4, .two = s->e2};
}

/* E w_a^k (...) = int e^{k(a-l)} e^{-e^{a-l}} (...) dl. */
void es_rem_with(const es_scores *s, const es_rem_density *f, double a, es_rem_extra *out)
{
    double W = 0.0, W2 = 0.0, P = 0.0, PP = 0.0, R = 0.0, GG = 0.0, l = s->top;
    for (int64_t j = 0; j < s->count && a - l < 7.0; j++, l -= s->step) {
        const double e = exp(a - l), k0 = exp(-e);
        W += e * k0 * f->all[j];
        W2 += e * e * k0 * f->all[j];
        P += k0 * f->one[j];
        PP += k0 * f->four[j];
        R += e * k0 * f->one[j];
        GG += k0 * f->two[j];
    }
    *out = (es_rem_extra){.weight = W * s->step,
                          .weight_squared = W2 * s->step,
                          .participation = P * s->step,
                          .participation_squared = PP * s->step,
                          .cross = R * s->step,
                          .others_squared = GG * s->step,
                          .others = -s->q * P * s->step};
}

es_status es_rem_extra_at(double n, double q, const double *a, int64_t count, es_budget *budget,
                          es_rem_extra *out, es_error *err)
{
    ES_TRY(check_n(n, err));
    ES_TRY(check_q(q, ES_SCORES_MIN_Q, err));
    double most = 0.0;
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs(a[i]) < 1e6))
            return es_fail_at(err, ES_E_RANGE, i, 0, "theory.extra", "scores lie within 1e6",
                              "the score of the extra token is %g", a[i]);
        most = fmax(most, a[i]);
    }
    const es_scores_grid grid = {.extra_most = most};
    es_scores s;
    ES_TRY(es_scores_make(n, q, &grid, budget, &s, err));
    es_rem_density density;
    es_rem_others(&s, &density);
    for (int64_t i = 0; i < count; i++)
        es_rem_with(&s, &density, a[i], &out[i]);
    es_scores_free(&s);
    return ES_OK;
}
