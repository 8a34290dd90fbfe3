/* SPDX-License-Identifier: Apache-2.0 */
/* far_risk.c : the limit (F1) and the exact error (F2) of a far field of independent keys (THEORY
 * 20), by the integral of THEORY 13. Weights are in units of E Z. */
#include "risk/far_risk.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "risk/damping.h"
#include "risk/far_sums.h"
#include "risk/integral.h"

/* A query in the form in which it is integrated. Keys of all strata lie one after the other, each
 * stratum filled up to whole lanes with keys of share 0. */
typedef struct field {
    const es_far_query *q;
    int64_t width, count;
    es_far_terms *strata; /* (n_strata) parts of the arrays below; s is less log_z */
    double log_z;         /* ln E Z, of scores as they are */
    double *s, *share, *u, *u2;
    double *sure;                   /* (width) N_AB/Z_AB - y_lim */
    double log_sure;                /* ln Z_AB less log_z; -inf of none */
    es_far_sums sums[ES_FAR_STEPS]; /* of a stratum, at nodes side by side */
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

/* Sets key j of a stratum, which lists it, to ln W, its share, u and |u|^2. */
static void set_key(const field *f, const es_far_stratum *from, int64_t j, const double *limit,
                    int64_t at)
{
    double *u = f->u + at * f->width;
    f->s[at] = from->keys.scores[j] - f->log_z;
    f->share[at] = es_far_share(from, j);
    f->u2[at] = from->scatter;
    for (int64_t c = 0; c < f->width; c++) {
        u[c] = from->keys.values[j * f->width + c] - limit[c];
        f->u2[at] += u[c] * u[c];
    }
}

/* Sets a key of share 0. */
static void fill_up(const field *f, int64_t at)
{
    f->s[at] = -(double)INFINITY;
    f->share[at] = f->u2[at] = 0.0;
    for (int64_t c = 0; c < f->width; c++)
        f->u[at * f->width + c] = 0.0;
}

/* Returns how many keys a stratum has in the arrays. */
static int64_t padded(const es_far_stratum *s)
{
    return (s->keys.count + ES_FAR_LANES - 1) / ES_FAR_LANES * ES_FAR_LANES;
}

/* Far keys as they are integrated. */
static void gather(field *f, const double *limit)
{
    int64_t at = 0;
    for (int64_t d = 0; d < f->q->n_strata; d++) {
        const es_far_stratum *from = &f->q->strata[d];
        const int64_t count = padded(from);
        f->strata[d] = (es_far_terms){.count = count,
                                      .width = f->width,
                                      .s = f->s + at,
                                      .share = f->share + at,
                                      .u2 = f->u2 + at,
                                      .u = f->u + at * f->width};
        for (int64_t j = 0; j < count; j++, at++)
            if (j < from->keys.count)
                set_key(f, from, j, limit, at);
            else
                fill_up(f, at);
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

_Static_assert((int)ES_FAR_STEPS <= (int)ES_RISK_NODES, "in.node has memory for these nodes");

/* Returns the fastest of the compiled versions that this CPU has; all give the same bits. */
static es_far_sums_fn *best_sums(void)
{
    return es_isa_available(ES_ISA_AVX512) ? es_far_sums_avx512
           : es_isa_available(ES_ISA_AVX2) ? es_far_sums_avx2
                                           : es_far_sums_portable;
}

/* Adds a stratum's part to the tilted means of a node; its e^{-lZ} is zero if no key is left. */
static void add_stratum(int64_t width, double m, const es_far_sums *sums, es_risk_node *out)
{
    double norm2 = 0.0;
    if (!(sums->kept > 0.0) || !(out->log_mean > -(double)INFINITY)) {
        clear(width, out);
        return;
    }
    for (int64_t c = 0; c < width; c++) {
        const double b = sums->mean[c] / sums->kept;
        norm2 += b * b;
        out->mean[c] += m * b;
    }
    out->log_mean += m * log(sums->kept); /* off by m roundings, nothing in an exponent */
    out->square += m * fmax(sums->square / sums->kept - norm2, 0.0);
    out->some += m * sums->some / sums->kept;
    out->once += m * sums->once / sums->kept;
}

/* Begins a node with the sure keys, whose e^{-x} is left to the integral. */
static void begin_node(const field *f, double t, es_risk_node *out)
{
    clear(f->width, out);
    if (t + f->log_sure > ES_DAMPING_LARGEST)
        return; /* e^{-lZ} is zero */
    out->log_mean = 0.0;
    for (int64_t c = 0; c < f->width; c++)
        out->mean[c] = exp(t + f->log_sure) * f->sure[c];
}

/* The tilted means at t, t + step, ... (F2): strata are independent, so means and variances add up.
 */
static void nodes_at(void *user, double t, double step, es_risk_node *out)
{
    field *f = user;
    es_far_sums_fn *sums_of = best_sums();
    for (int i = 0; i < ES_FAR_STEPS; i++)
        begin_node(f, t + step * (double)i, &out[i]);
    for (int64_t d = 0; d < f->q->n_strata; d++) {
        sums_of(&f->strata[d], t, step, f->sums);
        for (int i = 0; i < ES_FAR_STEPS; i++)
            add_stratum(f->width, f->q->strata[d].draws, &f->sums[i], &out[i]);
    }
    for (int i = 0; i < ES_FAR_STEPS; i++)
        for (int64_t c = 0; c < f->width; c++)
            out[i].square += out[i].mean[c] * out[i].mean[c];
}

/* ---- moments ---- */

/* Adds one stratum to the moments of N and Z, and returns draws Var(W u). */
static double add_moments(const field *f, double draws, const es_far_terms *keys,
                          es_risk_moments *m)
{
    double squares = 0.0, sum = 0.0, most = 0.0, norm2 = 0.0, *once = f->sums[0].mean;
    for (int64_t c = 0; c < f->width; c++)
        once[c] = 0.0;
    for (int64_t j = 0; j < keys->count; j++) {
        const double share = keys->share[j], *u = keys->u + j * f->width;
        const double w = share > 0.0 ? exp(keys->s[j] - m->log_unit) : 0.0;
        sum += share * w;
        most = fmax(most, w);
        squares += share * w * w * keys->u2[j];
        for (int64_t c = 0; c < f->width; c++)
            once[c] += share * w * u[c];
    }
    for (int64_t c = 0; c < f->width; c++) {
        norm2 += once[c] * once[c];
        m->mean[c] += draws * once[c];
    }
    m->z += draws * sum;
    m->most_z += draws * most;
    return draws * fmax(squares - norm2, 0.0);
}

/* Moments of N and Z in units of the heaviest key, and the variance of N in *spread. */
static void moments_of(const field *f, es_risk_moments *m, double *spread)
{
    m->log_unit = f->log_sure;
    for (int64_t j = 0; j < f->count; j++)
        m->log_unit = fmax(m->log_unit, f->s[j]);
    m->z = m->most_z = exp(f->log_sure - m->log_unit);
    for (int64_t c = 0; c < f->width; c++)
        m->mean[c] = m->z * f->sure[c];
    *spread = 0.0;
    for (int64_t d = 0; d < f->q->n_strata; d++)
        *spread += add_moments(f, f->q->strata[d].draws, &f->strata[d], m);
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
    for (int64_t d = 0; d < f->q->n_strata; d++) {
        const es_far_terms *keys = &f->strata[d];
        double zeros = 0.0;
        for (int64_t j = 0; j < keys->count; j++)
            zeros += keys->s[j] > -(double)INFINITY ? 0.0 : keys->share[j];
        log_p += f->q->strata[d].draws * log(zeros);
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
                           .nodes_at = nodes_at,
                           .together = ES_FAR_STEPS,
                           .width = f->width,
                           .log_sure = f->log_sure,
                           .reach = reach_of(f),
                           .a = es_risk_accuracy_of(tolerance)};
    double *scratch, spread;
    ES_TRY(ES_ARENA_NEW_2D(arena, scratch, 2 + 2 * ES_FAR_STEPS, f->width, "sums", err));
    in.m.mean = scratch;
    in.bias = scratch + f->width;
    for (int i = 0; i < ES_FAR_STEPS; i++) {
        in.node[i].mean = scratch + (2 + i) * f->width;
        f->sums[i].mean = scratch + (2 + ES_FAR_STEPS + i) * f->width;
    }
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
        f->count += padded(&f->q->strata[d]);
    ES_TRY(ES_ARENA_NEW(arena, f->strata, f->q->n_strata, "strata", err));
    ES_TRY(ES_ARENA_NEW(arena, f->s, f->count, "scores", err));
    ES_TRY(ES_ARENA_NEW(arena, f->share, f->count, "probabilities", err));
    ES_TRY(ES_ARENA_NEW(arena, f->u2, f->count, "norms", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, f->u, f->count, f->width, "values", err));
    return ES_ARENA_NEW(arena, f->sure, f->width, "an output", err);
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
