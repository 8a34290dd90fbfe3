/* SPDX-License-Identifier: Apache-2.0 */
/* freezing.c : E sum w^2 of n keys on a sphere as one integral, and where it passes a value.
 *
 * THEORY 4.2: with s = e^{l - beta T}, over keys of one law,
 *
 *     E sum w^2 = n int E[s^2 e^-s] (E e^-s)^{n-1} dl.
 *
 * key_weights.c has the same number and more from integrals given the nearest key; this one is a
 * hundred times as fast, which a search for beta needs, and each is the other's check. Keys are a
 * Gauss rule in y = ln(x/(1-x)), x = T/2, where the density is smooth up to both ends; l is a
 * lattice of the trapezoidal rule, whose error is e^{-pi^2/h}, 1e-11 for a step of 0.35.
 */
#include "theory/freezing.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/special.h"
#include "theory/key_weights_inside.h"
#include "theory/quadrature.h"
#include "tokens/cap.h"

#define STEP   0.35
#define REACH  23.0 /* e^-REACH, 1e-10, is nothing beside 1 */
#define LOW    14.0 /* the integrand falls like e^2l below the mean of the sum */
#define WITHIN 1e-6 /* of ln beta, ln n */
#define MOST   1e50
#define FAR    400.0 /* of a lattice in l: beyond, integrals given the nearest key are faster */

enum { NODES = 12 };

/* A node of the rule: its probability, the logarithm of that, and how far it is. */
typedef struct node {
    double p, log_p, t;
} node;

/* Keys as seen from the query, the nearest first: n - 1 others where one is planted. */
typedef struct crowd {
    const es_cap *cap;
    double n; /* without a planted one */
    bool planted;
    double log_target; /* ln of the E sum w^2 that is looked for */
    es_mem_limit *budget;
    double beta; /* of a search for n */
    node *nodes; /* (capacity) */
    int64_t capacity;
    es_status status;
    es_error *err;
} crowd;

/* ---- the rule ---- */

/* Returns the logit of a probability from its logarithm, without cancellation near 1. */
static double logit(double log_p) { return log_p - log(-expm1(log_p)); }

/* Where T is such that this many of the n keys are expected to be nearer. */
static es_cap_place place_of(const crowd *c, double log_keys)
{
    const double log_p = log_keys - log(c->n);
    return es_cap_refine(c->cap, log_p < -1e-15 ? logit(log_p) : 35.0);
}

/* Returns ln(t / (1 - t)), the variable in which caps are integrated. */
static double y_of(es_cap_place at) { return log(at.t / at.rest); }

/* The panel from y on: neither density nor weights change by more than a few factors e. */
static double panel_width(const crowd *c, double beta, double y)
{
    const es_cap *cap = c->cap;
    const es_cap_place at = es_cap_place_of(y), next = es_cap_place_of(y + 0.5);
    const double steep = (beta + cap->kappa) * fmax(at.t * at.rest, next.t * next.rest);
    return fmin(fmin(1.0, 2.0 / sqrt(cap->A + cap->B + cap->kappa)), 4.0 / steep);
}

/* Panels over all keys that can have a weight, as nodes if they fit; how many nodes it takes.
 */
static int64_t lay(const crowd *c, double beta, double nearest, node *nodes)
{
    double x[NODES], w[NODES];
    const double far = place_of(c, log(REACH)).t + (REACH + log(c->n)) / beta;
    const double end = fmin(far < 2.0 ? y_of((es_cap_place){far, 2.0 - far}) : INFINITY,
                            y_of(es_cap_refine(c->cap, REACH + log(c->n))));
    int64_t count = 0;
    for (double y = nearest, width; y < end; y += width) {
        width = fmin(panel_width(c, beta, y), end - y);
        if (nodes)
            es_legendre(NODES, y, y + width, x, w);
        for (int i = 0; nodes && i < NODES; i++) {
            const double log_p = log(w[i]) + es_cap_log_density(c->cap, x[i]);
            nodes[count + i] =
                (node){.p = exp(log_p), .log_p = log_p, .t = es_cap_place_of(x[i]).t};
        }
        count += NODES;
        if (!(width > 1e-12))
            break;
    }
    return count;
}

/* Places the nodes of the quadrature for this beta. Nodes are laid twice, first only to count
 * them, so that memory grows at most to what is needed. */
static es_status lay_nodes(crowd *c, double beta, int64_t *count)
{
    const double nearest = y_of(place_of(c, -REACH));
    *count = lay(c, beta, nearest, NULL);
    if (*count > c->capacity) {
        es_mem_free(c->budget, c->nodes);
        c->nodes = NULL;
        c->capacity = 0;
        ES_TRY(ES_MEM_NEW(c->budget, c->nodes, *count, "quadrature", c->err));
        c->capacity = *count;
    }
    lay(c, beta, nearest, c->nodes);
    return ES_OK;
}

/* ---- the integral ---- */

/* J = E[1 - e^-s] and E[s^2 e^-s] at l. Nodes come nearest first, s falls along them. */
static void expectations(const crowd *c, int64_t count, double beta, double t0, double l, double *J,
                         double *squares)
{
    const double nothing = -REACH - log(c->n);
    *J = *squares = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const node *k = &c->nodes[i];
        const double log_s = l - beta * (k->t - t0);
        if (log_s > 4.0) { /* e^-54 */
            *J += k->p;
            continue;
        }
        if (log_s < nothing)
            break;
        const double s = exp(log_s), gone = -expm1(-s);
        *J += k->p * gone;
        *squares += k->p * s * s * (1.0 - gone);
    }
}

/* ln of n E e^{-beta (T - t0)}. */
static double log_mean(const crowd *c, int64_t count, double beta, double t0)
{
    double most = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, c->nodes[i].log_p - beta * (c->nodes[i].t - t0));
    for (int64_t i = 0; i < count; i++)
        sum += exp(c->nodes[i].log_p - beta * (c->nodes[i].t - t0) - most);
    return log(c->n) + most + log(sum);
}

/* The same given the nearest key. */
static double squares_given_nearest(crowd *c, double beta)
{
    es_weights w = {.squares = {.val = NAN}};
    c->status = es_weights_of_cap(c->cap, c->planted ? c->n + 1.0 : c->n, beta, c->planted,
                                  c->budget, &w, c->err);
    return w.squares.val;
}

/* E sum w^2; scores are relative to a typical nearest key, or to the planted one. */
static double squares_at(crowd *c, double beta)
{
    const double t0 = c->planted ? 0.0 : place_of(c, 0.0).t;
    if (beta * place_of(c, log(REACH)).t > FAR)
        return squares_given_nearest(c, beta);
    int64_t count;
    double sum = 0.0;
    c->status = lay_nodes(c, beta, &count);
    if (c->status != ES_OK)
        return (double)NAN;
    double low = -log_mean(c, count, beta, t0);
    low = (c->planted ? fmin(low, 0.0) : low) - LOW;
    for (double l = low, gone = 0.0; gone < REACH; l += STEP) {
        double J, squares;
        expectations(c, count, beta, t0, l, &J, &squares);
        const double log_psi = log1p(-fmin(J, 1.0 - 1e-16)), own = c->planted ? exp(l) : 0.0;
        gone = own - c->n * log_psi;
        sum += STEP * c->n * squares * exp(-own + (c->n - 1.0) * log_psi);
        sum += STEP * own * own * exp(-gone);
    }
    return sum;
}

/* ---- roots ---- */

/* Returns ln(sum w^2 / target) at ln beta, for the root search; NaN after a failure. */
static double over_target(const void *context, double log_beta)
{
    crowd *c = *(crowd *const *)context;
    return c->status == ES_OK ? log(squares_at(c, exp(log_beta))) - c->log_target : (double)NAN;
}

/* The beta at which E sum w^2 is `target`; it is looked for from `guess` on, in factors of 2. */
static double beta_of(crowd *c, double target, double guess)
{
    c->log_target = log(target);
    const double log_2 = 0.69314718055994531, end = log(MOST);
    crowd *const context = c;
    double at = log(guess);
    const bool below = over_target(&context, at) < 0.0;
    for (double f = below ? -1.0 : 1.0; (f < 0.0) == below && fabs(at) < end;) {
        at += below ? log_2 : -log_2;
        f = over_target(&context, at);
        if (isnan(f))
            return (double)NAN;
    }
    const double low = below ? at - log_2 : at;
    return exp(es_root(over_target, &context, low, low + log_2, WITHIN));
}

/* Freezing is near twice the rate at which keys become more numerous beyond the nearest one:
 * d ln P/dT there. */
static void scales_of_crowd(crowd *c, double n, es_scales *out)
{
    const es_cap_place first = place_of(c, 0.0);
    const double rate = c->n * es_cap_density(c->cap, first);
    out->frozen = beta_of(c, es_frozen_squares(n), fmin(fmax(2.0 * rate, 1e-3), 1e40));
    out->averages =
        isnan(out->frozen) ? (double)NAN : beta_of(c, es_averages_squares(n), 0.5 * out->frozen);
}

/* Finds the inverse temperatures at which n keys stop averaging and at which they freeze. A
 * planted key is one of the n, so that n - 1 are random. */
static es_status scales(const es_cap *cap, double n, bool planted, es_mem_limit *budget,
                        es_scales *out, es_error *err)
{
    crowd c = {
        .cap = cap, .n = planted ? n - 1.0 : n, .planted = planted, .budget = budget, .err = err};
    scales_of_crowd(&c, n, out);
    es_mem_free(budget, c.nodes);
    return c.status;
}

/* Checks the keys, tabulates the cap that they leave around the query and finds both scales. */
es_status es_scales_of(const es_keys *keys, int64_t n, es_mem_limit *budget, es_scales *out,
                       es_error *err)
{
    ES_TRY(es_keys_check(keys, err));
    if (n < 2 || n > ES_KEYS_MOST_N)
        return es_fail(err, ES_E_RANGE, "freezing.n", "from 2 to 10^18", "n is %lld", (long long)n);
    es_cap cap;
    ES_TRY(es_cap_make(keys, budget, &cap, err));
    const es_status status = scales(&cap, (double)n, keys->planted, budget, out, err);
    es_cap_free(&cap);
    return status;
}

/* Fails for alpha or n outside the range of the integrals. */
static es_status check_round(double alpha, double n, es_error *err)
{
    if (!(alpha >= 0.0625 && alpha <= 4096.0 && n >= 2.0 && n <= (double)ES_KEYS_MOST_N))
        return es_fail(err, ES_E_RANGE, "freezing.round",
                       "alpha from 1/16 to 4096, n from 2 to 10^18", "alpha is %g, n is %g", alpha,
                       n);
    return ES_OK;
}

es_status es_scales_round(double alpha, double n, es_mem_limit *budget, es_scales *out,
                          es_error *err)
{
    es_cap cap;
    ES_TRY(check_round(alpha, n, err));
    ES_TRY(es_cap_make_round(alpha, budget, &cap, err));
    const es_status status = scales(&cap, n, false, budget, out, err);
    es_cap_free(&cap);
    return status;
}

/* ---- keys of a user ---- */

/* ln c_alpha of a sphere of 2 alpha dimensions. */
static double log_c_round(double alpha)
{
    return -alpha * 0.69314718055994531 - log(alpha) - es_log_beta(alpha, alpha);
}

double es_exponent_keys(const es_exponent *e, double n)
{
    return n * exp(e->log_c - log_c_round(e->alpha));
}

/* The estimate with alpha one standard error larger and as many keys within its reach; and that
 * with more of them by their standard error. */
static es_exponent with_alpha(const es_exponent *e)
{
    es_exponent out = *e;
    const double x = fmin(0.5 * e->reach, 1.0 - 1e-9);
    out.alpha += e->alpha_se;
    out.log_c += es_log_half_beta(e->alpha, x) - es_log_half_beta(out.alpha, x) +
                 log(e->alpha / out.alpha) - e->alpha_se * 0.69314718055994531;
    return out;
}

/* Returns the exponent with its density one standard error higher, for the error of what follows
 * from it. */
static es_exponent with_more(const es_exponent *e)
{
    es_exponent out = *e;
    out.log_c += e->log_c_se;
    return out;
}

/* Returns true if the law of round keys covers this exponent and n. */
static bool is_round(const es_exponent *e, double n)
{
    return check_round(e->alpha, es_exponent_keys(e, n), NULL) == ES_OK;
}

/* Finds the scales of keys with a local exponent, and their standard errors by moving the two
 * estimated numbers, alpha and the number of near keys, by one standard error each. The two are
 * nearly independent, so that the changes add in squares. */
es_status es_exponent_scales(const es_exponent *e, double n, es_mem_limit *budget, es_scales *out,
                             es_scales *log_se, es_error *err)
{
    const es_exponent moved[2] = {with_alpha(e), with_more(e)};
    const es_scales none = {(double)NAN, (double)NAN};
    *out = none;
    if (log_se)
        *log_se = none;
    if (!is_round(e, n))
        return ES_OK;
    ES_TRY(es_scales_round(e->alpha, es_exponent_keys(e, n), budget, out, err));
    if (!log_se || !is_round(&moved[0], n) || !is_round(&moved[1], n))
        return ES_OK;
    es_scales to[2];
    for (int i = 0; i < 2; i++)
        ES_TRY(
            es_scales_round(moved[i].alpha, es_exponent_keys(&moved[i], n), budget, &to[i], err));
    log_se->averages =
        hypot(log(to[0].averages / out->averages), log(to[1].averages / out->averages));
    log_se->frozen = hypot(log(to[0].frozen / out->frozen), log(to[1].frozen / out->frozen));
    return ES_OK;
}

/* The E sum w^2 of n keys of an estimate, or with beta given the search for n. */
static es_status squares_of(const es_exponent *e, double n, double beta, es_mem_limit *budget,
                            double *out, es_error *err)
{
    es_cap cap;
    ES_TRY(es_cap_make_round(e->alpha, budget, &cap, err));
    crowd c = {.cap = &cap, .n = es_exponent_keys(e, n), .budget = budget, .err = err};
    *out = squares_at(&c, beta);
    es_mem_free(budget, c.nodes);
    es_cap_free(&cap);
    return c.status;
}

/* Fails for an inverse temperature outside its range. */
static es_status check_beta(double beta, es_error *err)
{
    if (!(beta > 0.0 && beta <= MOST))
        return es_fail(err, ES_E_RANGE, "freezing.beta", "positive and at most 1e50",
                       "the inverse temperature is %g", beta);
    return ES_OK;
}

/* Finds the largest weight and sum w^2 of keys with a local exponent; the standard error of ln
 * sum w^2 as in es_exponent_scales(). */
es_status es_exponent_weights(const es_exponent *e, double n, double beta, es_mem_limit *budget,
                              es_local_weights *out, es_error *err)
{
    const es_exponent moved[2] = {with_alpha(e), with_more(e)};
    *out = (es_local_weights){(double)NAN, (double)NAN, (double)NAN};
    ES_TRY(check_beta(beta, err));
    if (!is_round(e, n))
        return ES_OK;
    es_weights law;
    ES_TRY(es_weights_round(e->alpha, es_exponent_keys(e, n), beta, budget, &law, err));
    out->top = law.top.val;
    out->squares = law.squares.val;
    if (!is_round(&moved[0], n) || !is_round(&moved[1], n))
        return ES_OK;
    double to[2];
    for (int i = 0; i < 2; i++)
        ES_TRY(squares_of(&moved[i], n, beta, budget, &to[i], err));
    out->log_se = hypot(log(to[0] / out->squares), log(to[1] / out->squares));
    return ES_OK;
}

/* ---- how many keys ---- */

/* Returns ln(sum w^2 / frozen value) at ln n, for the root search. */
static double frozen_by(const void *context, double log_n)
{
    crowd *c = *(crowd *const *)context;
    c->n = exp(log_n);
    return c->status == ES_OK ? log(squares_at(c, c->beta) / es_frozen_squares(c->n)) : (double)NAN;
}

/* Finds the n from which on attention at this beta is frozen: 0 if it is so for 3 keys,
 * infinity if not even for the largest n. The root is sought in ln n, in which the criterion is
 * smooth. */
es_status es_exponent_tokens(const es_exponent *e, double beta, es_mem_limit *budget, double *out,
                             es_error *err)
{
    const double few = log(3.0), many = log((double)ES_KEYS_MOST_N);
    es_cap cap;
    *out = (double)NAN;
    ES_TRY(check_beta(beta, err));
    if (check_round(e->alpha, 2.0, NULL) != ES_OK)
        return ES_OK;
    ES_TRY(es_cap_make_round(e->alpha, budget, &cap, err));
    crowd c = {.cap = &cap, .beta = beta, .budget = budget, .err = err};
    crowd *const context = &c;
    if (frozen_by(&context, few) < 0.0)
        *out = 0.0;
    else if (frozen_by(&context, many) > 0.0)
        *out = (double)INFINITY;
    else {
        const double n =
            exp(es_root(frozen_by, &context, few, many, WITHIN)) / es_exponent_keys(e, 1.0);
        *out = n < 3.0 ? 0.0 : n;
    }
    es_mem_free(budget, c.nodes);
    es_cap_free(&cap);
    return c.status;
}
