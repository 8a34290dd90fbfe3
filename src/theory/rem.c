/* SPDX-License-Identifier: Apache-2.0 */
/* rem.c : n independent Gaussian scores, the random energy model, by exact integrals (THEORY 4.2):
 * the lattice of l and g with sums over g, then what is integrated over l. */
#include "theory/rem.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

#define STEP      0.25 /* of l and of qg: trapezoidal error e^{-2 pi (pi/2) / STEP} */
#define GAUSS     0.4  /* largest step of g: e^{-2 pi^2 / GAUSS^2} */
#define DROP      45.0 /* terms below e^-DROP of the largest are left out */
#define WIDE      9.6  /* sqrt(2 DROP), rounded up */
#define OVERFLOWS 6.75 /* e^-e^x is 0 from here on */
#define GONE      90.0 /* e^-GONE is 0 beside anything it is added to */

/* The lattice of g: g_i = i h, i in [low, high], with weights h phi(g), times 1 and (g-q)^2, and
 * the sum of the weights from i upwards. q h = skip * delta: every skip-th point of the common
 * lattice will do where that is finer than these sums need. */
typedef struct gauss_lattice {
    double h;
    int64_t low, high, skip;
    double *one, *square, *above;
} gauss_lattice;

/* log Z is L + q^2/2, a little more where rare samples count, and once the scores are frozen,
 * q > sqrt(2L), q times the largest g, which is above sqrt(2(L+40)) with probability e^-40. */
static double highest_l(const es_scores *s, const es_scores_grid *grid)
{
    const double L = log(s->n), q = s->q, frozen = sqrt(2.0 * L);
    const double top =
        q > frozen ? q * sqrt(2.0 * (L + 40.0)) : fmax(L + 0.5 * q * q, q * (frozen + 1.0));
    return fmax(top, grid->extra_most) + 36.0;
}

/* Chooses the lattice of l = ln lambda: fine enough for the Gaussian of width q and for the
 * Gumbel law of the largest score, high enough that no score exceeds its top. */
static void choose_lattice(es_scores *s, const es_scores_grid *grid)
{
    s->delta = fmin(STEP, GAUSS * s->q);
    if (grid->extra_space > 0.0)
        s->delta = s->q * grid->extra_space / ceil(s->q * grid->extra_space / s->delta);
    s->stride = (int64_t)fmax(1.0, floor(STEP / s->delta));
    /* Between l and the largest of n scores lies a Gumbel variable of width q / sqrt(2 log n); in
     * the frozen phase that is what has to be resolved, unless a deterministic token is there. */
    if (isinf(grid->extra_most))
        s->stride *= (int64_t)fmax(1.0, floor(s->q / 9.0));
    s->step = s->delta * (double)s->stride;
    s->top_index = (int64_t)ceil(highest_l(s, grid) / s->delta);
    s->top = (double)s->top_index * s->delta;
    const double lowest = -WIDE * s->q - OVERFLOWS;
    s->count = (int64_t)((s->top - lowest) / s->step) + 1;
}

/* Tabulates the Gaussian density of scores, its second moment around q, and its upper tail. */
static void fill_gauss(const es_scores *s, gauss_lattice *g)
{
    double sum = 0.0;
    for (int64_t i = g->high; i >= g->low; i--) {
        const double x = (double)i * g->h;
        const double weight = 0.3989422804014327 * g->h * exp(-0.5 * x * x);
        g->one[i - g->low] = weight;
        g->square[i - g->low] = weight * (x - s->q) * (x - s->q);
        g->above[i - g->low] = sum += weight;
    }
}

/* Tabulates 1 - e^(-e^x), e^x e^(-e^x), e^(2x) e^(-e^x) and e^(4x) e^(-e^x), the kernels of the
 * integrals in l (THEORY 4.2). */
static void fill_kernels(es_scores *s)
{
    for (int64_t i = s->kernel_low; i <= s->kernel_high; i++) {
        const double x = (double)i * s->delta, e = exp(x);
        s->kernel[0][i - s->kernel_low] = -expm1(-e);
        s->kernel[1][i - s->kernel_low] = exp(x - e);
        s->kernel[2][i - s->kernel_low] = exp(2.0 * x - e);
        s->kernel[3][i - s->kernel_low] = exp(4.0 * x - e);
    }
}

/* How far left of g = l/q the sum must reach: until e^{-g^2/2 + qg} is e^-DROP of its largest value
 * among g <= l/q, which it takes at g = min(q, l/q). */
static double leftmost(double q, double tau)
{
    const double a = 1.0 - tau / q;
    if (a <= 0.0)
        return q - WIDE;
    return tau - q * (sqrt(a * a + 2.0 * DROP / (q * q)) - a);
}

/* Row j: sums over g at l_j. */
static void sum_row(es_scores *s, const gauss_lattice *g, int64_t j)
{
    const int64_t at = s->top_index - j * s->stride; /* l_j / delta */
    const double tau = (double)at * s->delta / s->q;
    int64_t first = (int64_t)floor(leftmost(s->q, tau) / g->h);
    int64_t last = (int64_t)floor((double)(at + s->kernel_high) / (double)g->skip);
    first = first < g->low ? g->low : first;
    last = last > g->high ? g->high : last;
    const int64_t beyond = last + 1 < g->low ? g->low : last + 1; /* there 1 - e^-s is 1 */
    double tail = beyond <= g->high ? g->above[beyond - g->low] : 0.0;
    double m1 = 0.0, m2 = 0.0, m4 = 0.0, e2 = 0.0;
    for (int64_t i = first; i <= last; i++) {
        const int64_t x = i * g->skip - at - s->kernel_low, y = i - g->low;
        tail += g->one[y] * s->kernel[0][x];
        m1 += g->one[y] * s->kernel[1][x];
        m2 += g->one[y] * s->kernel[2][x];
        m4 += g->one[y] * s->kernel[3][x];
        e2 += g->square[y] * s->kernel[2][x];
    }
    s->tail[j] = tail, s->m1[j] = m1, s->m2[j] = m2, s->m4[j] = m4, s->e2[j] = e2;
}

/* Allocates the tables in one piece and divides it. */
static es_status carve(es_scores *s, gauss_lattice *g, es_error *err)
{
    const int64_t kernels = s->kernel_high - s->kernel_low + 1, points = g->high - g->low + 1;
    ES_TRY(ES_MEM_NEW(s->budget, s->memory, 6 * s->count + 4 * kernels, "score tables", err));
    const es_status status = ES_MEM_NEW_2D(s->budget, g->one, points, 3, "score tables", err);
    if (status != ES_OK) {
        es_scores_free(s);
        return status;
    }
    double **arrays[] = {&s->tail, &s->m1, &s->m2, &s->m4, &s->e2, &s->power};
    double *next = s->memory;
    for (int i = 0; i < 6; i++, next += s->count)
        *arrays[i] = next;
    for (int i = 0; i < 4; i++, next += kernels)
        s->kernel[i] = next;
    g->square = g->one + points;
    g->above = g->square + points;
    return ES_OK;
}

es_status es_scores_make(double n, double q, const es_scores_grid *grid, es_mem_limit *budget,
                         es_scores *out, es_error *err)
{
    *out = (es_scores){.q = q, .n = n, .budget = budget};
    choose_lattice(out, grid);
    gauss_lattice g = {.skip = (int64_t)fmax(1.0, floor(fmin(STEP, GAUSS * q) / out->delta))};
    g.h = out->delta * (double)g.skip / q;
    g.low = (int64_t)floor(-(WIDE + 1.0) / g.h);
    g.high = (int64_t)ceil((fmin(out->top / q, 2.0 * q) + WIDE + OVERFLOWS / q) / g.h);
    out->kernel_low = g.low * g.skip - out->top_index;
    out->kernel_high = (int64_t)ceil(OVERFLOWS / out->delta);
    ES_TRY(carve(out, &g, err));
    fill_gauss(out, &g);
    fill_kernels(out);
    int64_t j = 0;
    do
        sum_row(out, &g, j);
    while (n * out->tail[j++] < GONE && j < out->count);
    out->count = j;
    es_mem_free(budget, g.one);
    return ES_OK;
}

void es_scores_free(es_scores *s)
{
    es_mem_free(s->budget, s->memory);
    s->memory = NULL;
}

double es_scores_power(double tail, double count)
{
    if (count <= 0.0)
        return 1.0;
    return tail >= 1.0 ? 0.0 : exp(count * log1p(-tail));
}

/* ==== integrals over the tables ====
 * E sum w^2 = n int E[s^2 e^-s] phi^{n-1} dl (rem.h). Integration by parts in g gives
 * E sum w_i g_i = q (1 - E sum w^2), (I1), and E[(g-q) s e^-s] = -q E[s^2 e^-s]: two tables serve
 * everything. */

/* Fails unless n is a whole number from 1 to 1e16. */
static es_status check_n(double n, es_error *err)
{
    if (n >= 1.0 && n <= ES_SCORES_MAX_N && n == floor(n))
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "theory.n", "use a whole number from 1 to 1e16",
                   "%g tokens are outside the range of the integrals", n);
}

/* Fails for a standard deviation of scores outside the tables. */
static es_status check_q(double q, double least, es_error *err)
{
    if (q >= least && q <= ES_SCORES_MAX_Q)
        return ES_OK;
    return es_fail(
        err, ES_E_RANGE, "theory.q", "scale the scores down: larger ones select a single key",
        "a standard deviation of scores of %g is outside [%g, %g]", q, least, ES_SCORES_MAX_Q);
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

/* The moments of s->n tokens. */
static void integrate(const es_scores *s, es_rem *out)
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

/* Computes P_n, v_n and the entropy of n Gaussian scores of standard deviation q (THEORY 4.2).
 * Below the smallest q of the lattice they are extrapolated from q = 0 in q^2, as all of them
 * are even in q. */
es_status es_rem_moments(double n, double q, es_mem_limit *budget, es_rem *out, es_error *err)
{
    ES_TRY(check_n(n, err));
    ES_TRY(check_q(q, 0.0, err));
    const es_scores_grid grid = {.extra_most = -INFINITY};
    es_scores s;
    ES_TRY(es_scores_make(n, fmax(q, ES_SCORES_MIN_Q), &grid, budget, &s, err));
    integrate(&s, out);
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

/* Turns the sums over one key into densities in l of n keys: phi^n, n m2 phi^(n-1) and so on,
 * where phi = E e^(-lambda e^score) of one key (THEORY 4.2). */
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
static void with_extra(const es_scores *s, const es_rem_density *f, double a, es_rem_extra *out)
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

/* Computes the same moments with one more token of a given score, for several scores at once. */
es_status es_rem_extra_at(double n, double q, const double *a, int64_t count, es_mem_limit *budget,
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
        with_extra(&s, &density, a[i], &out[i]);
    es_scores_free(&s);
    return ES_OK;
}
