/* SPDX-License-Identifier: Apache-2.0 */
/* key_weights.c : expectations over softmax weights, given the nearest key and then averaged over
 * it; then constants, asymptotic forms, and the name of a regime (THEORY 6).
 *
 * Let the nearest key be at T = t. The other n-1 are independent and farther; with y = beta (T'-t)
 * their weights are e^-y / Z, that of the nearest 1/Z, Z = 1 + sum e^-y. From
 * 1/Z = int e^{-vZ} dv and 1/Z^2 = int v e^{-vZ} dv (THEORY 4.2) every expectation is an integral
 * over ln v of products of expectations over one key, s = v e^-y:
 *
 *     E w_max    = int v e^-v psi^{n-1},               psi = E e^-s = 1 - J
 *     E sum w^2  = int v^2 e^-v psi^{n-1} + (n-1) E[s^2 e^-s] e^-v psi^{n-2}
 *     E ln Z     = int e^-v (1 - psi^{n-1})            and so on.
 *
 * The nearest key has P(T <= t) = 1 - e^{-e/n} with e exponential: the outer integral is over that.
 * The critical limit has the same form with e^-J for the powers, J an integral over the intensity.
 * Because everything is relative to the nearest key, averaging and single-key weights are alike.
 *
 * Both integrands are analytic in a strip of half width pi/2, so the trapezoidal rule of step h
 * errs by e^{-pi^2/h} times a power of 1/h: 1e-11 for 0.3. The rule of step 2h comes for free, and
 * since halving the step squares the relative error, the difference estimates it.
 */
#include "theory/key_weights_inside.h"

#include <math.h>
#include <stdio.h>

#include <esscher/format.h>

#include "base/error.h"
#include "base/format.h"
#include "base/memory.h"
#include "law/bessel.h"
#include "stats/special.h"
#include "tokens/cap.h"

#define STEP  0.3
#define DEEP  24.5 /* the outer lattice starts at e = e^-DEEP */
#define LOW   13.0 /* the inner one at v = e^-LOW of where 1/Z is */
#define HIGH  3.5  /* e^-e^HIGH is nothing */
#define REACH 33.0 /* e^-REACH is nothing beside 1 */

enum { GAUSS = 12, SUMS = 7 };

/* What is averaged. SQUARED_R and R: sum of w^2 r^2 and w r^2, r^2 = 1 - u^2. */
enum { TOP, SQUARES, ENTROPY, DEFICIT, SQUARED_R, R, ONE };

/* One question: a law of keys, or the critical limit where cap is NULL. */
typedef struct question {
    const es_cap *cap;
    double others; /* n - 1; of the limit 1, for intensities are given whole */
    double beta;   /* of the limit 1 */
    double n;
    double start, grain;  /* below this t, and beyond 2 minus this, there are no keys to count */
    double alpha, scaled; /* of the limit */
} question;

/* The other keys, given the nearest: a rule in y. */
typedef struct others {
    int64_t count, capacity;
    double *g, *shrink, *y, *r2; /* (capacity) probability, e^-y, y, r^2 */
    double *memory;
} others;

/* Sums of g times functions of s at one v. */
typedef struct kernel {
    double J, s1, s2, y1, r1, r2;
} kernel;

/* Integrates over the other keys at v = l e^beta: J = int (1 - e^-s) and the moments s e^-s,
 * s^2 e^-s, with the powers of y and r^2 that the entropy, the deficit and the tangential part
 * need (THEORY 6). */
static kernel kernel_at(const others *o, double v)
{
    kernel k = {0};
    for (int64_t i = 0; i < o->count; i++) {
        const double s = v * o->shrink[i], gone = -expm1(-s), a = o->g[i] * s * (1.0 - gone);
        k.J += o->g[i] * gone;
        k.s1 += a;
        k.s2 += a * s;
        k.y1 += a * o->y[i];
        k.r1 += a * o->r2[i];
        k.r2 += a * s * o->r2[i];
    }
    return k;
}

/* ---- the rule in y ---- */

/* Returns the largest step of the integral at t: singularities at 0, at 1/beta and at the cap's own
 * width limit it. */
static double width_most(const question *q, double t)
{
    const double alpha = q->cap ? q->cap->A : q->alpha;
    double most = t * fmin(1.0, 8.0 / alpha); /* t^(alpha-1) has its singularity at 0 */
    most = fmin(most, 2.0 / (q->beta + (q->cap ? q->cap->kappa : 0.0)));
    return q->cap ? fmin(most, 1.5 / sqrt(q->cap->A + q->cap->B)) : most;
}

/* Adds the nodes of one panel of 12-point Gauss-Legendre quadrature in t = 1 - cosine. The
 * density is that of the cap, or the power law alpha t^(alpha-1) of the critical limit. `rest`
 * = 2 - t is measured from the right end, so that it keeps all its digits there. */
static void add_panel(const question *q, others *o, es_cap_place first, double offset, double width,
                      double rest_end, double per)
{
    static const double x[GAUSS / 2] = {0.12523340851146891547, 0.36783149899818019375,
                                        0.58731795428661744730, 0.76990267419430468704,
                                        0.90411725637047485668, 0.98156063424671925069};
    static const double w[GAUSS / 2] = {0.24914704581340278500, 0.23349253653835480876,
                                        0.20316742672306592175, 0.16007832854334622633,
                                        0.10693932599531843096, 0.04717533638651182720};
    for (int i = 0; i < GAUSS && o->count < o->capacity; i++) {
        const double z = i % 2 ? x[i / 2] : -x[i / 2], in = 0.5 * width * (1.0 + z);
        const double t = first.t + offset + in;
        /* From the right end where that is near, so that 2 - t has all its digits. */
        const es_cap_place at = {.t = t, .rest = rest_end + (width - in)};
        const double density =
            q->cap ? es_cap_density(q->cap, at)
                   : exp(log(q->alpha) + (q->alpha - 1.0) * log(t) - q->alpha * log(q->scaled));
        o->g[o->count] = per * 0.5 * width * w[i / 2] * density;
        o->y[o->count] = q->beta * (offset + in);
        o->shrink[o->count] = exp(-o->y[o->count]);
        o->r2[o->count] = q->cap ? t * at.rest : 2.0 * t;
        o->count++;
    }
}

/* Panels from the nearest key outwards: growing with the distance from t = 0, never wider than what
 * the weights and the density need, shrinking towards t = 2, until nothing is left to weigh. */
static void lay_panels(const question *q, es_cap_place first, others *o)
{
    const double alpha = q->cap ? q->cap->A : q->alpha;
    const double far = (REACH + 2.0 * alpha) / q->beta;
    const double span = q->cap ? fmin(far, first.rest) : far;
    const double per = q->cap ? exp(-es_cap_log_above(q->cap, first)) : 1.0;
    double offset = 0.0, rest = q->cap ? first.rest : 2.0 * far;
    o->count = 0;
    if (first.t == 0.0) { /* a planted key */
        offset = fmin(q->start, 0.5 * span);
        rest -= offset;
    }
    while (offset < span && rest > 0.0) {
        double width = fmin(width_most(q, first.t + offset), span - offset);
        if (q->cap && rest <= q->grain)
            width = rest;
        else if (q->cap)
            width = fmin(width, 0.6667 * rest);
        if (!(width > 0.0))
            break;
        rest = width == rest ? 0.0 : rest - width;
        add_panel(q, o, first, offset, width, rest, per);
        offset += width;
        if (o->count + GAUSS > o->capacity)
            break;
    }
}

/* Returns how many nodes the quadrature may take: even panels over the reach of the scores,
 * graded panels towards the ends, and the start for a density with an exponent below 1. */
static int64_t capacity_for(const question *q)
{
    const double alpha = q->cap ? q->cap->A : q->alpha;
    const double span = fmin(q->cap ? 2.0 : INFINITY, (REACH + 2.0 * alpha) / q->beta);
    const double even = span / width_most(q, INFINITY);
    const double graded = 200.0 * fmax(1.0, alpha / 8.0) + 40.0 + (q->cap ? 40.0 / q->cap->B : 0.0);
    const double start = 60.0 / fmin(alpha, 1.0) * fmax(1.0, 0.125 * alpha);
    return GAUSS * (int64_t)(even + graded + start + 16.0);
}

/* ---- given the nearest key ---- */

/* Returns the largest even number that is not above x. */
static int64_t even_below(double x) { return 2 * (int64_t)floor(0.5 * x); }

/* Point k of a lattice of step h, weighed for the rule of step h and, if it is even, for that of
 * 2h. Both rules start at an even point, below which integrands fall like e^x: what all points
 * below add is a geometric sum of the first. */
static void add_twice(const double *fine, const double *coarse, double weight, int64_t k,
                      bool lowest, double out[2][SUMS])
{
    const double one = lowest ? weight / -expm1(-STEP) : weight;
    const double two = k % 2 ? 0.0 : 2.0 * (lowest ? weight / -expm1(-2.0 * STEP) : weight);
    for (int i = 0; i < SUMS; i++) {
        out[0][i] += one * fine[i];
        out[1][i] += two * coarse[i];
    }
}

/* Sums over ln v on the lattice h k, and on its even half, which is the coarser rule. */
static void inner(const question *q, const others *o, es_cap_place first, double out[2][SUMS])
{
    const double z = q->beta * first.t, r2 = q->cap ? first.t * first.rest : 2.0 * first.t;
    double mean = 0.0;
    for (int64_t i = 0; i < o->count; i++)
        mean += o->g[i] * o->shrink[i];
    const int64_t start = even_below((-log1p(q->others * mean) - LOW) / STEP);
    for (int i = 0; i < 2 * SUMS; i++)
        out[i / SUMS][i % SUMS] = 0.0;
    bool alive = q->others > 0.0;
    for (int64_t k = start; STEP * (double)k < HIGH; k++) {
        const double v = exp(STEP * (double)k), e = exp(-v);
        const kernel s = alive ? kernel_at(o, v) : (kernel){0};
        const double log_psi = q->cap ? log1p(-fmin(s.J, 1.0 - 1e-16)) : -s.J;
        double all = q->others > 0.0 ? exp(q->others * log_psi) : 1.0; /* psi^{n-1} */
        double but_one = q->cap ? exp((q->others - 1.0) * log_psi) : all;
        if (q->others > 0.0 && !alive)
            all = but_one = 0.0;
        alive = alive && v - q->others * log_psi < REACH + 2.0;
        const double own = v * e * all, each = q->others * e * but_one;
        const double add[SUMS] = {[TOP] = own,
                                  [SQUARES] = v * own + each * s.s2,
                                  [ENTROPY] = each * s.y1 + e * (1.0 - all),
                                  [DEFICIT] = each * s.y1,
                                  [SQUARED_R] = r2 * v * own + each * s.r2,
                                  [R] = r2 * own + each * s.r1,
                                  [ONE] = own + each * s.s1};
        add_twice(add, add, STEP, k, k == start, out);
    }
    out[0][DEFICIT] += z; /* sum w z = z_1 + sum w y */
    out[1][DEFICIT] += z;
}

/* The nearest key as point k of the outer lattice: where it is, and its weight in the integral. The
 * lattice is one of x = ln(P/(1-P)), in which e = n ln(1 + exp(x)) and both ends of [0, 2] are far
 * away; in the limit of x = ln e. False: nothing is left beyond. */
static bool nearest_at(const question *q, int64_t k, es_cap_place *at, double *weight)
{
    const double x = STEP * (double)k;
    if (!q->cap) {
        const double e = exp(x);
        *at = (es_cap_place){.t = q->scaled * pow(e, 1.0 / q->alpha), .rest = INFINITY};
        *weight = STEP * e * exp(-e);
        return x < HIGH;
    }
    const double e = q->n * log1p(exp(x));
    *at = es_cap_refine(q->cap, x);
    *weight = STEP * q->n / (1.0 + exp(-x)) * exp(-e);
    return e < REACH;
}

/* Averages over the nearest key, or at the planted one. */
static void outer(const question *q, others *o, bool planted, double out[2][SUMS])
{
    es_cap_place first = {.t = 0.0, .rest = 2.0};
    for (int i = 0; i < 2 * SUMS; i++)
        out[i / SUMS][i % SUMS] = 0.0;
    if (planted) {
        lay_panels(q, first, o);
        inner(q, o, first, out);
        return;
    }
    double weight, given[2][SUMS];
    const int64_t start = even_below((-DEEP - (q->cap ? log(q->n) : 0.0)) / STEP);
    for (int64_t k = start; nearest_at(q, k, &first, &weight); k++) {
        lay_panels(q, first, o);
        inner(q, o, first, given);
        add_twice(given[0], given[1], weight, k, k == start, out);
    }
}

/* ---- the answer ---- */

/* Returns an integral with its error: halving the step squares the relative error, so the
 * difference of both rules estimates it. */
static es_num number(double sums[2][SUMS], int i, double scale)
{
    const double value = scale * sums[0][i], coarse = fabs(sums[1][i] / sums[0][i] - 1.0);
    const double off = fmin(coarse, pow(coarse, 1.5)) + fabs(sums[0][ONE] - 1.0) + 3e-9;
    return (es_num){.val = value, .err = fabs(value) * off};
}

/* Allocates the nodes, takes the integral and writes the averages of the weights. One key alone
 * has entropy 0 exactly, which the quadrature would miss by rounding. */
static es_status answer(const question *q, bool planted, es_mem_limit *budget, double sums[2][SUMS],
                        es_weights *out, es_error *err)
{
    others o = {.capacity = capacity_for(q)};
    ES_TRY(ES_MEM_NEW_2D(budget, o.memory, o.capacity, 4, "quadrature", err));
    o.g = o.memory;
    o.shrink = o.g + o.capacity;
    o.y = o.shrink + o.capacity;
    o.r2 = o.y + o.capacity;
    outer(q, &o, planted, sums);
    es_mem_free(budget, o.memory);
    *out = (es_weights){.top = number(sums, TOP, 1.0),
                        .squares = number(sums, SQUARES, 1.0),
                        .entropy = number(sums, ENTROPY, 1.0),
                        .deficit = number(sums, DEFICIT, 1.0 / q->beta),
                        .tangential = number(sums, SQUARED_R, 1.0),
                        .identity = NAN};
    if (q->others == 0.0) /* one key: exactly */
        out->entropy = (es_num){.val = 0.0};
    return ES_OK;
}

/* Asks for n keys with the density of a cap: n - 1 others beside the key that is looked at,
 * from the distance within which fewer than e^-REACH of them lie. */
static es_status of_cap(const es_cap *cap, double n, double beta, bool planted,
                        es_mem_limit *budget, double sums[2][SUMS], es_weights *out, es_error *err)
{
    const question q = {.start = es_cap_refine(cap, -REACH - log(n)).t,
                        .grain = es_cap_refine(cap, REACH).rest,
                        .cap = cap,
                        .others = n - 1.0,
                        .beta = beta,
                        .n = n};
    return answer(&q, planted, budget, sums, out, err);
}

es_status es_weights_of_cap(const es_cap *cap, double n, double beta, bool planted,
                            es_mem_limit *budget, es_weights *out, es_error *err)
{
    double sums[2][SUMS];
    return of_cap(cap, n, beta, planted, budget, sums, out, err);
}

es_status es_weights_exact(const es_keys *keys, int64_t n, double beta, es_mem_limit *budget,
                           es_weights *out, es_error *err)
{
    ES_TRY(es_keys_check(keys, err));
    if (n < 1 || n > ES_KEYS_MOST_N)
        return es_fail(err, ES_E_RANGE, "weights.n", "from 1 to 10^18", "n is %lld", (long long)n);
    if (!(beta > 0.0 && beta <= ES_KEYS_MOST_BETA))
        return es_fail(err, ES_E_RANGE, "weights.beta", "positive and at most 1e60",
                       "the inverse temperature is %g", beta);
    es_cap cap;
    double sums[2][SUMS];
    ES_TRY(es_cap_make(keys, budget, &cap, err));
    const es_status status = of_cap(&cap, (double)n, beta, keys->planted, budget, sums, out, err);
    es_cap_free(&cap);
    if (status == ES_OK && keys->n_parts == 0 && keys->vanish == 0.0 && !keys->planted) {
        const double radial = (double)(keys->dim - 1) * (1.0 - out->deficit.val);
        const double rest = beta * (sums[0][R] - sums[0][SQUARED_R]);
        out->identity = fabs(radial - rest) / ((double)(keys->dim - 1) + beta * sums[0][R]);
    }
    return status;
}

es_status es_weights_round(double alpha, double n, double beta, es_mem_limit *budget,
                           es_weights *out, es_error *err)
{
    if (!(alpha >= 0.0625 && alpha <= 4096.0 && n >= 1.0 && n <= (double)ES_KEYS_MOST_N &&
          beta > 0.0 && beta <= ES_KEYS_MOST_BETA))
        return es_fail(err, ES_E_RANGE, "weights.round",
                       "alpha from 1/16 to 4096, n from 1 to 10^18, beta positive",
                       "alpha is %g, n is %g, beta is %g", alpha, n, beta);
    es_cap cap;
    ES_TRY(es_cap_make_round(alpha, budget, &cap, err));
    const es_status status = es_weights_of_cap(&cap, n, beta, false, budget, out, err);
    es_cap_free(&cap);
    return status;
}

es_status es_weights_critical(double alpha, double scaled, es_mem_limit *budget, es_weights *out,
                              es_error *err)
{
    if (!(alpha >= 0.0625 && alpha <= 4096.0))
        return es_fail(err, ES_E_RANGE, "weights.alpha", "from 1/16 to 4096",
                       "the local exponent is %g", alpha);
    if (!(scaled >= 1e-12 && scaled <= 1e12) || !(es_critical_mean(alpha, scaled) <= 1e15))
        return es_fail(
            err, ES_E_RANGE, "weights.scaled",
            "the critical limit is for 1e-12 <= b' <= 1e12 and at most 10^15 keys within reach",
            "b' is %g, with %.3g keys within reach", scaled, es_critical_mean(alpha, scaled));
    double sums[2][SUMS];
    const question q = {.others = 1.0, .beta = 1.0, .alpha = alpha, .scaled = scaled};
    ES_TRY(answer(&q, false, budget, sums, out, err));
    /* r^2 = 2 s in these units, so SQUARED_R is twice E sum w^2 s */
    out->identity = fabs(out->deficit.val - alpha - 0.5 * out->tangential.val) / out->deficit.val;
    return ES_OK;
}

/* ==== regimes ====
 * P(T <= t) ~ c t^alpha makes n keys' distances, times beta, a Poisson process of intensity
 * d(s/b')^alpha with b' = beta (n c)^{-1/alpha}. For b' -> infinity only the two nearest compete
 * and 1 - E w_max falls like 1/b'; for b' -> 0 the sum over keys is its mean, and bias and variance
 * follow from K_d at beta and 2 beta as in ball_field.c. */

static const double log_2 = 0.69314718055994530942;

/* ---- scales ---- */

double es_critical_scale(const es_cap_exponent *cap, double n, double beta)
{
    return beta * exp(-(log(n) + cap->log_c) / cap->alpha);
}

double es_critical_mean(double alpha, double scaled)
{
    return exp(es_log_gamma(alpha + 1.0) - alpha * log(scaled));
}

/* Only the two nearest compete: their gap is s = b' (x_2 - x_1), x_k = (E_1+..+E_k)^{1/alpha}, of
 * density (alpha/b') E x_1^{alpha-1} = (alpha/b') Gamma(2 - 1/alpha) at 0, and the loss of w_max
 * is the integral of 1/(1+e^s), ln 2, that of sum w^2 of 2e^s/(1+e^s)^2, 1 (THEORY 6). */
void es_weights_supercritical(double alpha, double scaled, double *top, double *squares)
{
    const double loss = alpha > 0.5 ? alpha / scaled * tgamma(2.0 - 1.0 / alpha) : (double)NAN;
    *top = 1.0 - log_2 * loss;
    *squares = 1.0 - loss;
}

/* The density of T is t^{A-1} (1 - (B-1)/2 t + ...), and t is about A/beta where it counts: the
 * mean of sum e^{-beta T} is smaller by (B-1)/2 A/beta of itself, that of sum e^{-2 beta T} half as
 * much. */
double es_critical_needs(const es_keys *keys, double n, double beta, double share)
{
    es_cap_exponent cap;
    if (es_keys_exponent(keys, &cap, NULL) != ES_OK || keys->n_parts > 0 || !(share > 0.0))
        return (double)NAN;
    const double B = 0.5 * (double)(keys->dim - 1);
    const double off = 1.5 * 0.5 * fabs(B - 1.0) * cap.alpha / beta;
    return off > 0.0 ? exp(log(n) + cap.alpha * log(off / share)) : 0.0;
}

/* ---- subcritical ---- */

es_status es_average_at(int64_t dim, double beta, es_average *out, es_error *err)
{
    if (dim < 2 || dim > 2049 || !(beta > 0.0 && beta <= 1e10))
        return es_fail(err, ES_E_RANGE, "average.range", "dim from 2 to 2049, beta in (0, 1e10]",
                       "dimension %lld, beta %g", (long long)dim, beta);
    es_num mean, mean2, slope2, K1, K2;
    ES_TRY(es_bessel_ratio(dim, beta, &mean, err));
    ES_TRY(es_bessel_ratio(dim, 2.0 * beta, &mean2, err));
    ES_TRY(es_bessel_slope(dim, 2.0 * beta, &slope2, err));
    ES_TRY(es_bessel_log_mgf(dim, beta, &K1, err));
    ES_TRY(es_bessel_log_mgf(dim, 2.0 * beta, &K2, err));
    const double D = exp(K2.val - 2.0 * K1.val), d = (double)dim;
    if (!isfinite(D))
        return es_fail(err, ES_E_OVERFLOW, "average.spread", "this is not the subcritical regime",
                       "n divided by the effective number of keys overflows");
    /* K2 - 2 K1 is a difference of numbers near 2 beta. */
    const double off = K2.err + 2.0 * K1.err + 1e-15, gap = mean2.val - mean.val;
    const double gap_err = mean2.err + mean.err;
    const double radial = slope2.val + gap * gap;
    const double curve = 0.125 * (d - 1.0) * (d - 3.0);
    out->mean = mean;
    out->series = 1.0 - 0.5 * (d - 1.0) / beta + curve / (beta * beta) * (1.0 + 1.0 / beta);
    out->spread = (es_num){.val = D, .err = D * off};
    out->tangential = (es_num){.val = D * mean2.val / (2.0 * beta)};
    out->tangential.err = out->tangential.val * (off + mean2.err / mean2.val + 1e-15);
    out->radial = (es_num){.val = D * radial};
    out->radial.err =
        out->radial.val * (off + 1e-15) + D * (slope2.err + 2.0 * fabs(gap) * gap_err);
    return ES_OK;
}

/* ---- naming ---- */

double es_averages_squares(double n) { return fmax(1.0 / ES_AVERAGES_KEYS, 1.5 / n); }

double es_frozen_squares(double n) { return fmax(1.0 / ES_FROZEN_KEYS, 1.5 / n); }

const char *es_regime_name(es_regime regime)
{
    static const char *const names[ES_REGIMES] = {"undecided", "averaging", "selective",
                                                  "single-key"};
    const int i = (int)regime;
    return i >= 0 && i < ES_REGIMES ? names[i] : "?";
}

es_regime es_regime_within(double n, double low, double high)
{
    const double few = 1.0 / es_frozen_squares(n), many = 1.0 / es_averages_squares(n);
    if (high < few)
        return ES_REGIME_SINGLE_KEY;
    if (low >= many)
        return ES_REGIME_AVERAGING;
    return low >= few && high < many ? ES_REGIME_SELECTIVE : ES_REGIME_UNDECIDED;
}

void es_regime_of(double n, double top, double squares, es_regime_finding *out)
{
    char keys[ES_FORMAT_SIZE], all[ES_FORMAT_SIZE];
    es_format_size(1.0 / squares, keys, sizeof keys);
    es_format_size(n, all, sizeof all);
    if (squares <= es_averages_squares(n)) {
        out->regime = ES_REGIME_AVERAGING;
        snprintf(out->reason, sizeof out->reason, "%s of %s keys share the weight", keys, all);
    } else {
        out->regime = squares > es_frozen_squares(n) ? ES_REGIME_SINGLE_KEY : ES_REGIME_SELECTIVE;
        snprintf(out->reason, sizeof out->reason,
                 "%s keys share the weight, the nearest has %.3g %% of it on average", keys,
                 100.0 * top);
    }
}
