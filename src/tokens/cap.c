/* SPDX-License-Identifier: Apache-2.0 */
/* cap.c : how far keys on the sphere are from a query, T = 1 - <q, k> (THEORY 6).
 *
 * The area of the sphere at cosine u is proportional to (1-u^2)^{(d-3)/2} du: T/2 ~ Beta(B, B) with
 * B = (d-1)/2, P(T <= t) ~ c t^B; a density like |k-q|^p = (2T)^{p/2} near q adds p/2 to the first
 * parameter. vMF parts multiply by e^{kappa <mu,k>}, averaged over the directions around q. */
#include "tokens/cap.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "law/bessel.h"
#include "stats/special.h"

#define REACH 30.0 /* beyond |y| = 30 the law is a power of t or of 2 - t, to 1e-13 */
enum { NODES = 6 };

/* ---- checks ---- */

/* Checks weight, concentration and direction of one part of a mixture of keys. */
static es_status check_part(const es_keys_part *p, int64_t row, es_error *err)
{
    if (!(p->weight > 0.0 && isfinite(p->weight)))
        return es_fail_at(err, ES_E_RANGE, row, 0, "keys.weight", "a positive number",
                          "a part of the keys has the weight %g", p->weight);
    if (!(p->kappa >= 0.0 && p->kappa <= ES_KEYS_MOST_KAPPA))
        return es_fail_at(err, ES_E_RANGE, row, 0, "keys.kappa", "from 0 to 1e4",
                          "the concentration of a part of the keys is %g", p->kappa);
    if (!(fabs(p->cosine) <= 1.0))
        return es_fail_at(err, ES_E_RANGE, row, 0, "keys.cosine", "from -1 to 1",
                          "the cosine of a part of the keys with the query is %g", p->cosine);
    return ES_OK;
}

es_status es_keys_check(const es_keys *keys, es_error *err)
{
    if (keys->dim < 2 || keys->dim > ES_KEYS_MOST_DIM)
        return es_fail(err, ES_E_RANGE, "keys.dim",
                       keys->dim == 1 ? "in one dimension keys are q or -q: no distance in between"
                                      : "from 2 to 4096",
                       "keys in dimension %lld", (long long)keys->dim);
    if (!(keys->vanish >= 0.0 && keys->vanish <= 1000.0))
        return es_fail(err, ES_E_RANGE, "keys.vanish", "from 0 to 1000",
                       "a density vanishing like distance to the power %g", keys->vanish);
    if (keys->vanish > 0.0 && keys->n_parts > 0)
        return es_fail(err, ES_E_ARGUMENT, "keys.parts", "leave one of them out",
                       "a density that vanishes at q, of a mixture");
    for (int64_t i = 0; i < keys->n_parts; i++)
        ES_TRY(check_part(&keys->parts[i], i, err));
    return ES_OK;
}

/* ---- density ---- */

/* K_d(r); arguments are within what es_bessel_log_mgf() takes. */
static double log_mgf(int64_t d, double r)
{
    es_num k = {0};
    es_bessel_log_mgf(d, r, &k, NULL);
    return k.val;
}

/* ln of (weight of part j) / exp(K_d(kappa)). */
static double part_log_weight(const es_keys *keys, int64_t j)
{
    double sum = 0.0;
    for (int64_t i = 0; i < keys->n_parts; i++)
        sum += keys->parts[i].weight;
    return log(keys->parts[j].weight / sum) - log_mgf(keys->dim, keys->parts[j].kappa);
}

/* ln h: the density relative to that of uniform keys, averaged over the d-1 tangential dimensions:
 * exp(kappa (cosine u + sine sqrt(1-u^2) omega_1)), u = 1 - t, 1 - u^2 = t (2-t). */
static double log_tilt(const es_cap *cap, es_cap_place at)
{
    const es_keys *keys = cap->keys;
    if (keys->n_parts == 0)
        return 0.0;
    double most = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < keys->n_parts; j++) {
        const es_keys_part *p = &keys->parts[j];
        const double across =
            p->kappa * sqrt((1.0 - p->cosine) * (1.0 + p->cosine) * at.t * at.rest);
        const double a = cap->log_weight[j] + p->kappa * p->cosine * (1.0 - at.t) +
                         log_mgf(keys->dim - 1, across);
        if (a > most) {
            sum = sum * exp(most - a) + 1.0;
            most = a;
        } else
            sum += exp(a - most);
    }
    return most + log(sum);
}

double es_cap_density(const es_cap *cap, es_cap_place at)
{
    return 0.5 * exp((cap->A - 1.0) * log(0.5 * at.t) + (cap->B - 1.0) * log(0.5 * at.rest) -
                     cap->log_beta + log_tilt(cap, at));
}

es_cap_place es_cap_place_of(double y)
{
    return (es_cap_place){.t = 2.0 / (1.0 + exp(-y)), .rest = 2.0 / (1.0 + exp(y))};
}

double es_cap_log_density(const es_cap *cap, double y)
{
    return -cap->A * log1p(exp(-y)) - cap->B * log1p(exp(y)) - cap->log_beta +
           log_tilt(cap, es_cap_place_of(y));
}

/* ln P(from < y <= to), of a short interval. */
static double log_mass(const es_cap *cap, double from, double to)
{
    static const double x[NODES / 2] = {0.23861918608319690863, 0.66120938646626451366,
                                        0.93246951420315202781};
    static const double w[NODES / 2] = {0.46791393457269104739, 0.36076157304813860757,
                                        0.17132449237917034504};
    const double centre = 0.5 * (from + to), half = 0.5 * (to - from);
    const double middle = es_cap_log_density(cap, centre);
    double sum = 0.0;
    for (int i = 0; i < NODES / 2; i++)
        sum += w[i] * (exp(es_cap_log_density(cap, centre - half * x[i]) - middle) +
                       exp(es_cap_log_density(cap, centre + half * x[i]) - middle));
    return middle + log(half * sum);
}

/* Returns ln(e^a + e^b) without overflow. */
static double log_add(double a, double b)
{
    return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

/* ---- the table ---- */

es_status es_keys_exponent(const es_keys *keys, es_cap_exponent *out, es_error *err)
{
    ES_TRY(es_keys_check(keys, err));
    const double B = 0.5 * (double)(keys->dim - 1), A = B + 0.5 * keys->vanish;
    double log_at_query = 0.0; /* density at q relative to that of uniform keys */
    for (int64_t j = 0; j < keys->n_parts; j++) {
        const double a = part_log_weight(keys, j) + keys->parts[j].kappa * keys->parts[j].cosine;
        log_at_query = j == 0 ? a : log_add(log_at_query, a);
    }
    *out = (es_cap_exponent){.alpha = A,
                             .log_c = -A * 0.69314718055994530942 - log(A) - es_log_beta(A, B) +
                                      log_at_query};
    return ES_OK;
}

/* Both tails by summing from their own ends; beyond the table they are powers. */
static void fill(es_cap *cap)
{
    const double end = cap->low + cap->step * (double)(cap->count - 1);
    cap->below[0] = es_cap_log_density(cap, cap->low) - log(cap->A);
    cap->above[cap->count - 1] = es_cap_log_density(cap, end) - log(cap->B);
    for (int64_t j = 0; j + 1 < cap->count; j++) {
        const double y = cap->low + cap->step * (double)j;
        cap->above[j] = log_mass(cap, y, y + cap->step); /* for the moment */
        cap->below[j + 1] = log_add(cap->below[j], cap->above[j]);
    }
    for (int64_t j = cap->count - 2; j >= 0; j--)
        cap->above[j] = log_add(cap->above[j + 1], cap->above[j]);
    for (int64_t j = 0; j < cap->count; j++)
        cap->slope[j] = exp(cap->below[j] + cap->above[j] -
                            es_cap_log_density(cap, cap->low + cap->step * (double)j));
}

/* The table of a law with these exponents at its two ends. */
static es_status make(const es_keys *keys, double A, double B, es_mem_limit *budget, es_cap *out,
                      es_error *err)
{
    *out = (es_cap){.keys = keys, .A = A, .B = B, .low = -REACH, .budget = budget};
    out->log_beta = es_log_beta(A, B);
    for (int64_t j = 0; j < keys->n_parts; j++)
        out->kappa = fmax(out->kappa, keys->parts[j].kappa);
    /* The narrowest feature of the density has width of 1 over this root. */
    out->count = 1 + (int64_t)ceil(2.0 * REACH / fmin(0.02, 0.1 / sqrt(A + B + out->kappa)));
    out->step = 2.0 * REACH / (double)(out->count - 1);
    ES_TRY(ES_MEM_NEW(budget, out->memory, 3 * out->count + keys->n_parts, "cap table", err));
    out->below = out->memory;
    out->above = out->below + out->count;
    out->slope = out->above + out->count;
    out->log_weight = out->slope + out->count;
    for (int64_t j = 0; j < keys->n_parts; j++)
        out->log_weight[j] = part_log_weight(keys, j);
    fill(out);
    return ES_OK;
}

es_status es_cap_make(const es_keys *keys, es_mem_limit *budget, es_cap *out, es_error *err)
{
    const double B = 0.5 * (double)(keys->dim - 1), A = B + 0.5 * keys->vanish;
    return make(keys, A, B, budget, out, err);
}

es_status es_cap_make_round(double alpha, es_mem_limit *budget, es_cap *out, es_error *err)
{
    static const es_keys uniform = {.dim = 0}; /* no parts; the dimension is in alpha */
    return make(&uniform, alpha, alpha, budget, out, err);
}

void es_cap_free(es_cap *cap)
{
    es_mem_free(cap->budget, cap->memory);
    cap->memory = NULL;
}

/* ---- quantile ---- */

/* Returns ln(p/(1-p)) of the distribution function at node j; near both ends it keeps the digits
 * that p itself loses. */
static double logit_at(const es_cap *cap, int64_t j) { return cap->below[j] - cap->above[j]; }

/* The y of this logit: the cubic through two rows of the table and their slopes. */
static double interpolate(const es_cap *cap, double logit, int64_t *near)
{
    int64_t j = *near;
    const int64_t last = cap->count - 1;
    if (logit <= logit_at(cap, 0)) /* in dimension 2 P is still 2e-7 here: no logit, a logarithm */
        return cap->low - (log1p(exp(-logit)) + cap->below[0]) / cap->A;
    if (logit >= logit_at(cap, last))
        return -cap->low + (log1p(exp(logit)) + cap->above[last]) / cap->B;
    for (int64_t jump = 1; logit_at(cap, j) > logit; jump *= 2)
        j = j > jump ? j - jump : 0;
    for (int64_t jump = 1; jump > 0;) { /* gallop up, then halve */
        if (j + jump < last && logit_at(cap, j + jump) <= logit) {
            j += jump;
            jump *= 2;
        } else
            jump /= 2;
    }
    *near = j;
    const double width = logit_at(cap, j + 1) - logit_at(cap, j);
    const double s = (logit - logit_at(cap, j)) / width, r = 1.0 - s;
    const double bend = r * s * width * (r * cap->slope[j] - s * cap->slope[j + 1]);
    return cap->low + cap->step * ((double)j + s * s * (3.0 - 2.0 * s)) + bend;
}

es_cap_place es_cap_quantile(const es_cap *cap, double logit, int64_t *near)
{
    return es_cap_place_of(interpolate(cap, logit, near));
}

/* ln P(T > t) and ln P(T <= t) at y, from the nearest row of the table. */
static void log_tails(const es_cap *cap, double y, double *below, double *above)
{
    int64_t j = (int64_t)floor((y - cap->low) / cap->step);
    if (y <= cap->low) {
        *below = cap->below[0] + cap->A * (y - cap->low);
        *above = log1p(-exp(*below));
        return;
    }
    if (y >= -cap->low) {
        *above = cap->above[cap->count - 1] - cap->B * (y + cap->low);
        *below = log1p(-exp(*above));
        return;
    }
    j = j > cap->count - 2 ? cap->count - 2 : j;
    const double at = cap->low + cap->step * (double)j;
    *below = y > at ? log_add(cap->below[j], log_mass(cap, at, y)) : cap->below[j];
    *above = log_add(cap->above[j + 1], log_mass(cap, y, at + cap->step));
}

es_cap_place es_cap_refine(const es_cap *cap, double logit)
{
    int64_t near = 0;
    double below, above;
    double y = interpolate(cap, logit, &near);
    if (fabs(y) < REACH) {
        log_tails(cap, y, &below, &above);
        y -= (below - above - logit) * exp(below + above - es_cap_log_density(cap, y));
    }
    return es_cap_place_of(y);
}

double es_cap_log_above(const es_cap *cap, es_cap_place at)
{
    double below, above;
    log_tails(cap, log(at.t / at.rest), &below, &above);
    return above;
}

/* ---- uniform keys ---- */

double es_cap_constant(int64_t dim)
{
    const es_keys uniform = {.dim = dim};
    es_cap_exponent cap;
    if (es_keys_exponent(&uniform, &cap, NULL) != ES_OK)
        return (double)NAN;
    return exp(cap.log_c);
}

/* Returns the probability that a uniform key lies within distance t = 1 - cosine of the query
 * (THEORY 6). */
es_status es_cap_probability(int64_t dim, double t, es_num *out, es_error *err)
{
    const es_keys uniform = {.dim = dim};
    ES_TRY(es_keys_check(&uniform, err));
    if (!(t >= 0.0 && t <= 2.0))
        return es_fail(err, ES_E_RANGE, "cap.t", "from 0 to 2", "the distance is %g", t);
    const double a = 0.5 * (double)(dim - 1);
    const double log_p = t > 0.0 ? es_log_beta_lower(a, a, 0.5 * t, 0.5 * (2.0 - t)) : -INFINITY;
    const double p = exp(log_p);
    *out = (es_num){.val = p, .err = p > 0.0 ? p * (1e-14 * (1.0 + 2.0 * a) - 1e-15 * log_p) : 0.0};
    return ES_OK;
}
