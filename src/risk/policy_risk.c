/* SPDX-License-Identifier: Apache-2.0 */
/* policy_risk.c : E|y_S - y|^2 of a choice of keys: a number, or one integral (THEORY 13).
 *
 * policy_terms.h says what is integrated; integral.h takes the integral. */
#include <esscher/policy_risk.h>

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "risk/integral.h"
#include "risk/policy_risk.h"
#include "risk/policy_terms.h"

static const double ROUNDING = 5e-11; /* sums over keys; powers */
static const double UNIT = 2.3e-16;   /* of a double */

/* ---- checks ---- */

/* Fails unless chosen keys are keys of the query, in increasing order. */
static es_status check_keys(const int64_t *keys, int64_t count, int64_t n, es_error *err)
{
    for (int64_t i = 0; i < count; i++)
        if (keys[i] < 0 || keys[i] >= n || (i > 0 && keys[i] <= keys[i - 1]))
            return es_fail(err, ES_E_ARGUMENT, "risk.choice", "keys of the query, increasing",
                           "key %lld of %lld", (long long)keys[i], (long long)n);
    return ES_OK;
}

/* Fails unless draws, probabilities and factors are possible: 1 to rest_count draws without
 * replacement, probabilities in (0, 1], factors positive and finite. */
static es_status check_chance(const es_choice *choice, es_error *err)
{
    const bool draws = choice->chance == ES_CHANCE_WITH || choice->chance == ES_CHANCE_WITHOUT;
    if (draws && (choice->draws < 1 || choice->rest_count < 1 ||
                  !(choice->factor > 0.0 && isfinite(choice->factor)) ||
                  (choice->chance == ES_CHANCE_WITHOUT && choice->draws > choice->rest_count)))
        return es_fail(err, ES_E_ARGUMENT, "risk.choice", "draws from keys, with a factor",
                       "%lld draws from %lld keys, times %g", (long long)choice->draws,
                       (long long)choice->rest_count, choice->factor);
    for (int64_t i = 0; choice->chance == ES_CHANCE_EACH && i < choice->rest_count; i++)
        if (!(choice->kept[i] > 0.0 && choice->kept[i] <= 1.0 && choice->factors[i] > 0.0 &&
              isfinite(choice->factors[i])))
            return es_fail(err, ES_E_ARGUMENT, "risk.choice",
                           "probabilities up to 1 and factors above 0", "probability %g, factor %g",
                           choice->kept[i], choice->factors[i]);
    return ES_OK;
}

/* Fails unless the choice is for a query of this length and lists its keys in increasing order. */
static es_status check_choice(const es_risk_query *query, const es_choice *choice, es_error *err)
{
    const int64_t n = query->n - query->sink;
    if (choice->n != n)
        return es_fail(err, ES_E_SHAPE, "risk.choice", "a choice for this query",
                       "a choice of %lld keys for a query of %lld", (long long)choice->n,
                       (long long)n);
    ES_TRY(check_keys(choice->sure, choice->sure_count, choice->n, err));
    if (choice->chance == ES_CHANCE_NONE)
        return ES_OK;
    ES_TRY(check_keys(choice->rest, choice->rest_count, choice->n, err));
    return check_chance(choice, err);
}

/* ---- what is sure ---- */

/* Returns the number of sure keys, a sink among them; key i of them is sure_key(). */
static int64_t sure_count(const es_risk_query *query, const es_choice *choice)
{
    return choice->sure_count + query->sink;
}

/* Returns sure key i: the sink, which is the last of all keys, comes last. */
static int64_t sure_key(const es_risk_query *query, const es_choice *choice, int64_t i)
{
    return i < choice->sure_count ? choice->sure[i] : query->n - 1;
}

/* Returns whether key j is sure; *next counts those that were met, in increasing order. */
static bool is_sure(const es_risk_query *query, const es_choice *choice, int64_t j, int64_t *next)
{
    const bool sure = *next < sure_count(query, choice) && sure_key(query, choice, *next) == j;
    *next += sure;
    return sure;
}

/* n_F = N_F/Z_F, in units of r->unit. All w u sum to zero, so N_F is minus the sum over the other
 * keys, which is nearer where those have less weight: *apart is that weight over Z_F, or 1. */
static void gather_sure(const es_risk_query *query, const es_choice *choice, es_risk_terms *r,
                        double *apart)
{
    double kept = 0.0, left = 0.0;
    int64_t next = 0;
    for (int64_t j = 0; j < query->n; j++) {
        *(is_sure(query, choice, j, &next) ? &kept : &left) += query->weights[j];
    }
    const bool others = left < kept;
    next = 0;
    for (int64_t j = 0; j < query->n && kept > 0.0; j++) {
        const bool sure = is_sure(query, choice, j, &next);
        const double w = query->weights[j] / kept, *u = query->off + j * r->width;
        for (int64_t l = 0; l < r->width && sure != others; l++)
            r->sure[l] += (others ? -w : w) * (u[l] / r->unit);
    }
    for (int64_t l = 0; l < r->width; l++)
        r->sure2 += r->sure[l] * r->sure[l];
    r->log_sure = log(kept);
    *apart = others ? left / kept : 1.0;
}

/* The same where Z_F is too small for a number: keys count by their weights among each other. */
static void gather_light(const es_risk_query *query, const es_choice *choice, es_risk_terms *r)
{
    const int64_t count = sure_count(query, choice);
    double top = -(double)INFINITY, total = 0.0;
    for (int64_t i = 0; i < count; i++)
        top = fmax(top, query->logs[sure_key(query, choice, i)]);
    if (!(top > -(double)INFINITY))
        return;
    for (int64_t i = 0; i < count; i++)
        total += exp(query->logs[sure_key(query, choice, i)] - top);
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = sure_key(query, choice, i);
        const double w = exp(query->logs[j] - top) / total;
        for (int64_t l = 0; l < r->width; l++)
            r->sure[l] += w * (query->off[j * r->width + l] / r->unit);
    }
    for (int64_t l = 0; l < r->width; l++)
        r->sure2 += r->sure[l] * r->sure[l];
    r->log_sure = top + log(total);
}

/* ---- what is left to chance ---- */

/* Values as they are where they need no unit and R has no gaps; copies of them elsewhere. */
static es_status gather_values(const es_risk_query *query, const es_choice *choice, es_arena *arena,
                               es_risk_terms *r, es_error *err)
{
    const int64_t first = choice->rest[0], last = choice->rest[r->count - 1];
    const double per_unit = 1.0 / r->unit; /* a power of two */
    double *u;
    if (r->unit == 1.0 && last - first == r->count - 1) {
        r->u = query->off + first * r->width;
        return ES_OK;
    }
    ES_TRY(ES_ARENA_NEW_2D(arena, u, r->padded, r->width, "values", err));
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t l = 0; l < r->width; l++)
            u[i * r->width + l] = query->off[choice->rest[i] * r->width + l] * per_unit;
    r->u = u;
    return ES_OK;
}

/* Copies random key i into the arrays of the integral: ln w (or -inf), |u|^2 in units of
 * r->unit, <u, N_F>, and the probability of being kept. */
static void gather_key(const es_risk_query *query, const es_choice *choice, int64_t i,
                       es_risk_terms *r)
{
    const int64_t j = choice->rest[i];
    const double reach = query->reach[j] / r->unit, *u = r->u + i * r->width;
    r->s[i] = query->weights[j] > 0.0 ? query->logs[j] : -(double)INFINITY;
    for (int64_t l = 0; l < r->width && r->sure2 > 0.0; l++)
        r->along[i] += u[l] * r->sure[l];
    r->u2[i] = reach * reach;
    if (r->p)
        r->p[i] = choice->chance == ES_CHANCE_EACH ? choice->kept[i] : 1.0;
    if (query->weights[j] > 0.0)
        r->reach = fmax(r->reach, reach);
}

/* Scores with the logarithms of factors, which are often all alike. */
static void gather_factors(const es_choice *choice, es_risk_terms *r)
{
    double factor = choice->factor, log_factor = log(factor);
    for (int64_t i = 0; i < r->count; i++) {
        if (choice->chance == ES_CHANCE_EACH && choice->factors[i] != factor) {
            factor = choice->factors[i];
            log_factor = log(factor);
        }
        r->s[i] += log_factor;
    }
}

/* Collects the keys that are kept by chance into padded arrays, so that kernels read whole
 * lanes. Drawing all keys without replacement is the same as keeping each with probability 1. */
static es_status gather_rest(const es_risk_query *query, const es_choice *choice, es_arena *arena,
                             es_risk_terms *r, es_error *err)
{
    const int64_t n = choice->rest_count;
    const int64_t all = (n + ES_RISK_LANES - 1) / ES_RISK_LANES * ES_RISK_LANES;
    r->count = n;
    r->padded = all;
    r->chance = choice->chance;
    r->draws = (double)choice->draws;
    if (r->chance == ES_CHANCE_WITHOUT && choice->draws == n)
        r->chance = ES_CHANCE_EACH; /* all of them, each with its factor */
    ES_TRY(ES_ARENA_NEW(arena, r->s, all, "scores", err));
    ES_TRY(gather_values(query, choice, arena, r, err));
    ES_TRY(ES_ARENA_NEW(arena, r->u2, all, "norms", err));
    ES_TRY(ES_ARENA_NEW(arena, r->along, n, "norms", err));
    if (r->chance == ES_CHANCE_EACH)
        ES_TRY(ES_ARENA_NEW(arena, r->p, all, "probabilities", err));
    if (r->chance == ES_CHANCE_WITHOUT)
        ES_TRY(ES_ARENA_NEW(arena, r->scratch, 4 * n + (2 * ES_RISK_BATCH + 1) * r->width, "a node",
                            err));
    r->reach = sqrt(r->sure2);
    for (int64_t i = 0; i < n; i++)
        gather_key(query, choice, i, r);
    gather_factors(choice, r);
    for (int64_t i = n; i < all; i++)
        r->s[i] = -(double)INFINITY;
    return ES_OK;
}

/* ---- moments of N and Z, which are closed forms: in units of e^{log_unit} ---- */

/* What is known of N and Z beside the moments that the integral needs. */
typedef struct moments {
    es_risk_moments of; /* in units of the largest of Z_F and c w */
    double *w;          /* (count) c w */
    double *scratch;    /* (width) */
    double spread;      /* E|N - (EN/EZ) Z|^2 less the square of its mean, which is 0 */
    double log_empty;   /* ln P(nothing with weight is kept) */
} moments;

/* Probability that key i of R is among those kept; of draws, how often on average. */
static double share_of(const es_risk_terms *r, int64_t i)
{
    return r->chance == ES_CHANCE_EACH ? r->p[i] : r->draws / (double)r->count;
}

/* Returns the largest logarithm of a weight, which scales all others. */
static double unit_of(const es_risk_terms *r)
{
    double most = r->log_sure;
    for (int64_t i = 0; i < r->count; i++)
        most = fmax(most, r->s[i]);
    return most;
}

/* Computes the means of N and Z, and the largest possible Z, in units of e^log_unit. They bound
 * the ends of the integral and give the first-order risk (THEORY 13). */
static void means_of(const es_risk_terms *r, moments *m)
{
    const double sure = exp(r->log_sure - m->of.log_unit);
    double all = 0.0, largest = 0.0;
    m->of.z = sure;
    for (int64_t l = 0; l < r->width; l++)
        m->of.mean[l] = sure * r->sure[l];
    for (int64_t i = 0; i < r->count; i++) {
        const double w = m->w[i] = exp(r->s[i] - m->of.log_unit), share = share_of(r, i);
        all += w;
        largest = fmax(largest, w);
        m->of.z += share * w;
        for (int64_t l = 0; l < r->width; l++)
            m->of.mean[l] += share * w * r->u[i * r->width + l];
    }
    const double drawn = r->draws * largest;
    m->of.most_z = sure + (r->chance == ES_CHANCE_WITH   ? drawn
                           : r->chance == ES_CHANCE_EACH ? all
                                                         : fmin(drawn, all));
}

/* |u - b|^2, in lanes: a single sum waits for itself. */
static double apart2(const double *u, const double *b, int64_t width)
{
    double lane[4] = {0}, rest = 0.0;
    int64_t l = 0;
    for (; l + 4 <= width; l += 4)
        for (int64_t i = 0; i < 4; i++)
            lane[i] += (u[l + i] - b[l + i]) * (u[l + i] - b[l + i]);
    for (; l < width; l++)
        rest += (u[l] - b[l]) * (u[l] - b[l]);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]) + rest;
}

/* Variance, summed over channels, of sum_S w (u - b): b (width) NULL is 0. */
static double variance_of(const es_risk_terms *r, const moments *m, const double *b)
{
    const bool each = r->chance == ES_CHANCE_EACH;
    const double count = (double)r->count, draws = r->draws;
    double squares = 0.0, sum2 = 0.0;
    for (int64_t l = 0; l < r->width; l++)
        m->scratch[l] = 0.0;
    for (int64_t i = 0; i < r->count; i++) {
        const double w = m->w[i], *u = r->u + i * r->width;
        squares += w * w * (b ? apart2(u, b, r->width) : r->u2[i]) *
                   (each ? r->p[i] * (1.0 - r->p[i]) : 1.0);
        for (int64_t l = 0; l < r->width && !each; l++)
            m->scratch[l] += w * (u[l] - (b ? b[l] : 0.0));
    }
    if (each)
        return squares;
    for (int64_t l = 0; l < r->width; l++)
        sum2 += m->scratch[l] * m->scratch[l];
    const double one = fmax(squares / count - sum2 / (count * count), 0.0);
    return r->chance == ES_CHANCE_WITH ? draws * one
                                       : draws * one * (count - draws) / fmax(count - 1.0, 1.0);
}

/* Returns the logarithm of the probability that nothing with weight is kept: m ln(z/n) with
 * replacement, sum ln(1 - p_j) for independent retention, ln C(z, m)/C(n, m) without, z the
 * number of keys of weight zero. */
static double log_empty_of(const es_risk_terms *r)
{
    double zeros = 0.0, log_empty = 0.0;
    if (r->log_sure > -(double)INFINITY)
        return -(double)INFINITY;
    for (int64_t i = 0; i < r->count; i++) {
        if (!(r->s[i] > -(double)INFINITY))
            zeros += 1.0;
        else if (r->chance == ES_CHANCE_EACH)
            log_empty += log1p(-r->p[i]);
    }
    const double count = (double)r->count;
    if (r->chance == ES_CHANCE_WITH)
        return r->draws * log(zeros / count);
    if (r->chance == ES_CHANCE_EACH)
        return log_empty;
    if (zeros < r->draws)
        return -(double)INFINITY;
    for (double i = 0.0; i < r->draws; i += 1.0)
        log_empty += log((zeros - i) / (count - i));
    return log_empty;
}

/* b (width) of the scratch memory is EN/EZ for a while. */
static void moments_of(const es_risk_terms *r, double *b, moments *m)
{
    double norm2 = 0.0;
    m->of.log_unit = unit_of(r);
    m->log_empty = log_empty_of(r);
    if (!(m->of.log_unit > -(double)INFINITY))
        return;
    means_of(r, m);
    for (int64_t l = 0; l < r->width; l++) {
        norm2 += m->of.mean[l] * m->of.mean[l];
        b[l] = m->of.mean[l] / m->of.z;
    }
    m->of.square = norm2 + variance_of(r, m, NULL);
    m->spread = variance_of(r, m, b);
}

/* ---- answers ---- */

/* In units of the terms'. `off` is how far rounding of u may move N/Z. */
static es_num with_error(double square, double relative, double off, double unit)
{
    return (es_num){.val = square * unit * unit,
                    .err = (relative * square + off * (2.0 * sqrt(square) + off)) * unit * unit};
}

/* Returns the expected weight that is kept: 1 for keys in F, p_j, 1 - (1 - 1/n)^m with
 * replacement, m/n without. */
static double kept_mass(const es_risk_query *query, const es_choice *choice)
{
    const double count = (double)choice->rest_count, draws = (double)choice->draws;
    double mass = 0.0;
    for (int64_t i = 0; i < sure_count(query, choice); i++)
        mass += query->weights[sure_key(query, choice, i)];
    for (int64_t i = 0; i < choice->rest_count && choice->chance != ES_CHANCE_NONE; i++)
        mass += query->weights[choice->rest[i]] *
                (choice->chance == ES_CHANCE_EACH   ? choice->kept[i]
                 : choice->chance == ES_CHANCE_WITH ? -expm1(draws * log1p(-1.0 / count))
                                                    : draws / count);
    return mass;
}

/* Writes the risk of a choice without chance: |N_F/Z_F|^2, all of it bias. Only rounding has an
 * error here. */
static void answer_sure(const es_risk_query *query, const es_risk_terms *r, double apart,
                        es_policy_risk *out)
{
    const double all = sqrt((double)query->n);
    out->square = with_error(r->sure2, 16.0 * all * UNIT, 8.0 * all * UNIT * apart, r->unit);
    out->bias2 = out->square.val;
    out->variance = 0.0;
    out->first_order = (double)NAN;
}

/* Writes the risk from the finished integral, divided by the probability that anything with
 * weight is kept: mean square error, squared bias, their difference, and the first-order value
 * (|EN|^2 + Var)/(EZ)^2 (THEORY 13). */
static void answer_chance(const es_risk_integral *in, const es_risk_terms *r, const moments *m,
                          es_policy_risk *out)
{
    const double given = -expm1(m->log_empty), unit2 = r->unit * r->unit;
    const double relative =
        in->a.rule + 2.0 * in->a.ends + ROUNDING + 4.0 * UNIT * (double)r->count;
    double bias2 = 0.0, mean2 = 0.0;
    for (int64_t l = 0; l < r->width; l++) {
        const double bias = in->a.step * in->bias[l] / given;
        bias2 += bias * bias;
        mean2 += m->of.mean[l] * m->of.mean[l];
    }
    out->square =
        with_error(in->a.step * in->square / given, relative, 8.0 * UNIT * r->reach, r->unit);
    out->bias2 = fmin(bias2 * unit2, out->square.val);
    out->variance = out->square.val - out->bias2;
    out->first_order = (mean2 + m->spread) / (m->of.z * m->of.z) * unit2;
    out->empty = exp(m->log_empty);
}

/* Fails because no key with weight can be kept. */
static es_status empty(es_error *err)
{
    return es_fail(err, ES_E_EMPTY, "risk.empty", "keep a key that has weight",
                   "no key that may be kept has weight");
}

/* Nodes of the choice, for the integral. */
static void nodes_at(void *user, double t, double step, es_risk_node *out)
{
    es_risk_nodes_at(user, t, step, out);
}

/* Prepares draws without replacement for nodes far from the last ones. */
static void begin_nodes(void *user)
{
    es_risk_terms *r = user;
    if (r->chance == ES_CHANCE_WITHOUT)
        es_risk_without_begin(r);
}

/* Computes the exact risk of a choice with random keys by one integral (THEORY 13). */
static es_status by_chance(const es_risk_query *query, const es_choice *choice, es_arena *arena,
                           double tolerance, es_risk_terms *r, es_policy_risk *out, es_error *err)
{
    es_risk_integral in = {.user = r, .begin = begin_nodes, .nodes_at = nodes_at};
    moments m = {0};
    double *scratch;
    ES_TRY(gather_rest(query, choice, arena, r, err));
    ES_TRY(ES_ARENA_NEW_2D(arena, scratch, 4 + ES_RISK_NODES, r->width, "sums", err));
    ES_TRY(ES_ARENA_NEW(arena, m.w, r->count, "weights", err));
    m.of.mean = scratch;
    m.scratch = scratch + r->width;
    in.bias = scratch + 2 * r->width;
    for (int64_t i = 0; i < ES_RISK_NODES; i++)
        in.node[i].mean = scratch + (4 + i) * r->width;
    moments_of(r, scratch + 3 * r->width, &m);
    if (!(m.of.log_unit > -(double)INFINITY))
        return empty(err);
    in.a = es_risk_accuracy_of(tolerance);
    in.m = m.of;
    in.together = es_risk_nodes_of(r);
    in.width = r->width;
    in.log_sure = r->log_sure;
    in.reach = r->reach;
    if (r->reach > 0.0)
        es_risk_integrate(&in);
    answer_chance(&in, r, &m, out);
    return ES_OK;
}

/* Values whose squares are numbers stay as they are. */
static double unit_for(const es_risk_query *query)
{
    double most = 0.0;
    for (int64_t j = 0; j < query->n; j++)
        most = query->reach[j] > most ? query->reach[j] : most;
    if (!(most > 0.0) || (most > 0x1p-100 && most < 0x1p100))
        return 1.0;
    return fmax(exp2(floor(log2(most))), 0x1p-1000);
}

es_status es_policy_risk_near(const es_risk_query *query, const es_choice *choice, double tolerance,
                              es_mem_limit *budget, es_policy_risk *out, es_error *err)
{
    if (!(tolerance >= ES_RISK_FINEST && tolerance <= ES_RISK_COARSEST))
        return es_fail(err, ES_E_RANGE, "risk.tolerance", "from 1e-10 to 0.01", "a tolerance of %g",
                       tolerance);
    ES_TRY(check_choice(query, choice, err));
    es_arena arena = {.budget = budget};
    es_risk_terms r = {.width = query->dv, .unit = unit_for(query)};
    es_policy_risk risk = {.mass = kept_mass(query, choice), .keys = es_choice_keys(choice)};
    double apart;
    es_status status = ES_ARENA_NEW(&arena, r.sure, r.width, "an output", err);
    if (status == ES_OK) {
        const bool chance = choice->chance != ES_CHANCE_NONE && choice->rest_count > 0;
        gather_sure(query, choice, &r, &apart);
        if (!chance && !(r.log_sure > -(double)INFINITY))
            gather_light(query, choice, &r);
        if (chance)
            status = by_chance(query, choice, &arena, tolerance, &r, &risk, err);
        else if (r.log_sure > -(double)INFINITY)
            answer_sure(query, &r, apart, &risk);
        else
            status = empty(err);
    }
    if (status == ES_OK)
        *out = risk;
    es_arena_free(&arena);
    return status;
}

es_status es_policy_risk_of(const es_risk_query *query, const es_choice *choice,
                            es_mem_limit *budget, es_policy_risk *out, es_error *err)
{
    if (!query || !choice || !out)
        return es_fail(err, ES_E_ARGUMENT, "risk.null", "a query, a choice and out",
                       "an argument is missing");
    return es_policy_risk_near(query, choice, ES_RISK_FINEST, budget, out, err);
}
