/* SPDX-License-Identifier: Apache-2.0 */
/* far_risk.c : the limit (F1) and the exact error (F2) of a far field of independent keys (THEORY
 * 20), by the integral of THEORY 13. Weights are in units of E Z. */
#include "risk/far_risk.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "risk/damping.h"
#include "risk/integral.h"

/* A query in the form in which it is integrated. Keys of all strata lie one after the other. */
typedef struct field {
    const es_far_query *q;
    int64_t width, count;
    double log_z;    /* ln E Z, of scores as they are */
    double *s;       /* (count) ln W less log_z */
    double *u;       /* (count, width) v - y_lim */
    double *u2;      /* (count) |u|^2 */
    double *sure;    /* (width) N_AB/Z_AB - y_lim */
    double log_sure; /* ln Z_AB less log_z; -inf of none */
    double *once;    /* (width) b_D of a node */
} field;

/* ---- the limit ---- */

/* Fails unless all scores of some keys are finite or -inf; raises *top to the largest. */
static es_status scan(const es_far_keys *keys, double *top, es_error *err)
{
    for (int64_t j = 0; j < keys->count; j++) {
        if (isnan(keys->scores[j]) || keys->scores[j] == (double)INFINITY)
            return es_fail(err, ES_E_NONFINITE, "far.score", "finite, or -inf", "a score of %g",
                           keys->scores[j]);
        *top = fmax(*top, keys->scores[j]);
    }
    return ES_OK;
}

/* Adds e^(score - top) of each key to *z, and that times its value to n (width): of sure keys, or
 * of a stratum what its draws have on average. */
static void add_keys(const es_far_keys *keys, const es_far_stratum *stratum, double top,
                     int64_t width, double *z, double *n)
{
    for (int64_t j = 0; j < keys->count; j++) {
        const double times = stratum ? stratum->draws * es_far_share(stratum, j) : 1.0;
        const double w = times * exp(keys->scores[j] - top), *v = keys->values + j * width;
        *z += w;
        for (int64_t c = 0; c < width; c++)
            n[c] += w * v[c];
    }
}

/* F1: sums over the sure keys, and expectations over the far ones. */
static es_status find_limit(field *f, double *limit, es_far_risk *out, es_error *err)
{
    const es_far_query *q = f->q;
    double top = -(double)INFINITY, sure = 0.0, far = 0.0;
    ES_TRY(scan(&q->sure, &top, err));
    for (int64_t d = 0; d < q->n_strata; d++) {
        const es_far_stratum *s = &q->strata[d];
        ES_TRY(scan(&s->keys, &top, err));
        if (!(s->draws >= 1.0 && isfinite(s->draws)) || s->keys.count < 1)
            return es_fail(err, ES_E_RANGE, "far.draws", "1 and more, from 1 key and more",
                           "%g draws from %lld keys", s->draws, (long long)s->keys.count);
    }
    if (!(top > -(double)INFINITY))
        return es_fail(err, ES_E_EMPTY, "far.empty", "a key with a finite score",
                       "no key has weight");
    for (int64_t c = 0; c < f->width; c++)
        limit[c] = 0.0;
    add_keys(&q->sure, NULL, top, f->width, &sure, limit);
    for (int64_t c = 0; c < f->width; c++)
        f->sure[c] = sure > 0.0 ? limit[c] / sure : 0.0;
    for (int64_t d = 0; d < q->n_strata; d++)
        add_keys(&q->strata[d].keys, &q->strata[d], top, f->width, &far, limit);
    for (int64_t c = 0; c < f->width; c++) {
        limit[c] /= sure + far;
        f->sure[c] = sure > 0.0 ? f->sure[c] - limit[c] : 0.0;
    }
    f->log_z = top + log(sure + far);
    f->log_sure = log(sure / (sure + far));
    out->far_mass = far / (sure + far);
    return ES_OK;
}

/* Far keys as they are integrated. */
static void gather(field *f, const double *limit)
{
    int64_t at = 0;
    for (int64_t d = 0; d < f->q->n_strata; d++) {
        const es_far_keys *keys = &f->q->strata[d].keys;
        for (int64_t j = 0; j < keys->count; j++, at++) {
            double *u = f->u + at * f->width;
            f->s[at] = keys->scores[j] - f->log_z;
            f->u2[at] = f->q->strata[d].scatter;
            for (int64_t c = 0; c < f->width; c++) {
                u[c] = keys->values[j * f->width + c] - limit[c];
                f->u2[at] += u[c] * u[c];
            }
        }
    }
}

/* ---- nodes ---- */

/* Clears a node: nothing is left at this t. */
static void clear(int64_t width, es_risk_node *out)
{
    out->log_mean = -(double)INFINITY;
    out->square = out->some = out->once = 0.0;
    for (int64_t c = 0; c < width; c++)
        out->mean[c] = 0.0;
}

/* One stratum at one t: adds its part to the tilted means; false: e^{-lZ} is zero. */
static bool add_stratum(const field *f, const es_far_stratum *stratum, int64_t first, double t,
                        es_risk_node *out)
{
    const double m = stratum->draws;
    double a = 0.0, square = 0.0, once = 0.0, some = 0.0, norm2 = 0.0;
    for (int64_t c = 0; c < f->width; c++)
        f->once[c] = 0.0;
    for (int64_t j = first; j < first + stratum->keys.count; j++) {
        const double share = es_far_share(stratum, j - first), *u = f->u + j * f->width;
        if (!(share > 0.0) || t + f->s[j] > ES_DAMPING_LARGEST)
            continue; /* e^{-lW} is 0 */
        const double lw = exp(t + f->s[j]), kept = share * exp(-lw), x = lw * kept;
        a += kept;
        some += lw > 0.0 ? kept : 0.0;
        once += x;
        square += x * lw * f->u2[j];
        for (int64_t c = 0; c < f->width && x > 0.0; c++)
            f->once[c] += x * u[c];
    }
    if (!(a > 0.0))
        return false;
    for (int64_t c = 0; c < f->width; c++) {
        const double b = f->once[c] / a;
        norm2 += b * b;
        out->mean[c] += m * b;
    }
    out->log_mean += m * log(a); /* off by m roundings, nothing in an exponent */
    out->square += m * fmax(square / a - norm2, 0.0);
    out->some += m * some / a;
    out->once += m * once / a;
    return true;
}

/* The tilted means at t (F2): strata are independent, so means and variances add up. */
static void node_at(void *user, double t, double step, es_risk_node *out)
{
    const field *f = user;
    const double sure = exp(t + f->log_sure);
    int64_t first = 0;
    (void)step; /* one node at a time */
    clear(f->width, out);
    if (t + f->log_sure > ES_DAMPING_LARGEST)
        return;
    out->log_mean = 0.0;
    for (int64_t c = 0; c < f->width; c++)
        out->mean[c] = sure * f->sure[c];
    for (int64_t d = 0; d < f->q->n_strata; d++) {
        if (!add_stratum(f, &f->q->strata[d], first, t, out)) {
            clear(f->width, out);
            return;
        }
        first += f->q->strata[d].keys.count;
    }
    for (int64_t c = 0; c < f->width; c++)
        out->square += out->mean[c] * out->mean[c];
}

/* ---- moments ---- */

/* Adds one stratum to the moments of N and Z, and returns draws Var(W u). */
static double add_moments(const field *f, const es_far_stratum *stratum, int64_t first,
                          es_risk_moments *m)
{
    const double draws = stratum->draws;
    double squares = 0.0, sum = 0.0, most = 0.0, norm2 = 0.0;
    for (int64_t c = 0; c < f->width; c++)
        f->once[c] = 0.0;
    for (int64_t j = first; j < first + stratum->keys.count; j++) {
        const double share = es_far_share(stratum, j - first), *u = f->u + j * f->width;
        const double w = share > 0.0 ? exp(f->s[j] - m->log_unit) : 0.0;
        sum += share * w;
        most = fmax(most, w);
        squares += share * w * w * f->u2[j];
        for (int64_t c = 0; c < f->width; c++)
            f->once[c] += share * w * u[c];
    }
    for (int64_t c = 0; c < f->width; c++) {
        norm2 += f->once[c] * f->once[c];
        m->mean[c] += draws * f->once[c];
    }
    m->z += draws * sum;
    m->most_z += draws * most;
    return draws * fmax(squares - norm2, 0.0);
}

/* Moments of N and Z in units of the heaviest key, and the variance of N in *spread. */
static void moments_of(const field *f, es_risk_moments *m, double *spread)
{
    int64_t first = 0;
    m->log_unit = f->log_sure;
    for (int64_t j = 0; j < f->count; j++)
        m->log_unit = fmax(m->log_unit, f->s[j]);
    m->z = m->most_z = exp(f->log_sure - m->log_unit);
    for (int64_t c = 0; c < f->width; c++)
        m->mean[c] = m->z * f->sure[c];
    *spread = 0.0;
    for (int64_t d = 0; d < f->q->n_strata; d++) {
        *spread += add_moments(f, &f->q->strata[d], first, m);
        first += f->q->strata[d].keys.count;
    }
    m->square = *spread;
    for (int64_t c = 0; c < f->width; c++)
        m->square += m->mean[c] * m->mean[c];
}

/* Returns ln P(no key has weight): nothing is sure and all draws have a score of -inf. */
static double log_empty(const field *f)
{
    double log_p = 0.0;
    if (f->log_sure > -(double)INFINITY)
        return -(double)INFINITY;
    for (int64_t d = 0, first = 0; d < f->q->n_strata; d++) {
        const es_far_stratum *s = &f->q->strata[d];
        double zeros = 0.0;
        for (int64_t j = first; j < first + s->keys.count; j++)
            zeros += f->s[j] > -(double)INFINITY ? 0.0 : es_far_share(s, j - first);
        log_p += s->draws * log(zeros);
        first += s->keys.count;
    }
    return log_p;
}

/* ---- all together ---- */

/* Returns the largest |u|, of the sure part as well. */
static double reach_of(const field *f)
{
    double most = 0.0;
    for (int64_t c = 0; c < f->width; c++)
        most += f->sure[c] * f->sure[c];
    for (int64_t j = 0; j < f->count; j++)
        most = fmax(most, f->s[j] > -(double)INFINITY ? f->u2[j] : 0.0);
    return sqrt(most);
}

/* Takes the integral of F2. */
static es_status solve(field *f, double tolerance, es_arena *arena, es_far_risk *out, es_error *err)
{
    es_risk_integral in = {.user = f,
                           .nodes_at = node_at,
                           .together = 1,
                           .width = f->width,
                           .log_sure = f->log_sure,
                           .reach = reach_of(f),
                           .a = es_risk_accuracy_of(tolerance)};
    double *scratch, spread;
    ES_TRY(ES_ARENA_NEW_2D(arena, scratch, 3, f->width, "sums", err));
    in.m.mean = scratch;
    in.bias = scratch + f->width;
    in.node[0].mean = scratch + 2 * f->width;
    moments_of(f, &in.m, &spread);
    if (in.reach > 0.0)
        es_risk_integrate(&in);
    const double empty = log_empty(f), given = -expm1(empty);
    const double square = in.a.step * in.square / given;
    out->square = (es_num){square, (in.a.rule + 2.0 * in.a.ends + ES_RISK_FINEST) * square};
    for (int64_t c = 0; c < f->width; c++)
        out->bias2 += pow(in.a.step * in.bias[c] / given, 2.0);
    out->bias2 = fmin(out->bias2, square);
    out->sampling = spread / (in.m.z * in.m.z);
    out->empty = exp(empty);
    return ES_OK;
}

/* Allocates the arrays of a query. */
static es_status allocate(field *f, es_arena *arena, es_error *err)
{
    for (int64_t d = 0; d < f->q->n_strata; d++)
        f->count += f->q->strata[d].keys.count;
    ES_TRY(ES_ARENA_NEW(arena, f->s, f->count, "scores", err));
    ES_TRY(ES_ARENA_NEW(arena, f->u2, f->count, "norms", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, f->u, f->count, f->width, "values", err));
    ES_TRY(ES_ARENA_NEW(arena, f->sure, f->width, "an output", err));
    return ES_ARENA_NEW(arena, f->once, f->width, "a node", err);
}

/* Computes limit and risk, with memory of the arena. */
static es_status compute(field *f, double tolerance, es_arena *arena, double *limit,
                         es_far_risk *out, es_error *err)
{
    ES_TRY(allocate(f, arena, err));
    ES_TRY(find_limit(f, limit, out, err));
    gather(f, limit);
    return f->q->n_strata ? solve(f, tolerance, arena, out, err) : ES_OK;
}

es_status es_far_risk_of(const es_far_query *query, double tolerance, es_mem_limit *budget,
                         double *limit, es_far_risk *out, es_error *err)
{
    es_arena arena = {.budget = budget};
    field f = {.q = query, .width = query->width};
    es_far_risk risk = {0};
    if (!(tolerance >= ES_RISK_FINEST && tolerance <= ES_RISK_COARSEST))
        return es_fail(err, ES_E_RANGE, "far.tolerance", "from 1e-10 to 0.01", "a tolerance of %g",
                       tolerance);
    const es_status status = compute(&f, tolerance, &arena, limit, &risk, err);
    if (status == ES_OK)
        *out = risk;
    es_arena_free(&arena);
    return status;
}
