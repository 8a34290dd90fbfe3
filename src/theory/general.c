/* SPDX-License-Identifier: Apache-2.0 */
/* general.c : finite-n prediction for any covariance and head (THEORY 4.5). Queries are sampled;
 * the token that two of them share is averaged over exactly (influence.h). */
#include "theory/theory.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "linalg/linalg.h"
#include "theory/crowd.h"
#include "theory/predict.h"

#define WIDEST 13.0 /* t = <e, eta> of an independent token is a standard normal */

/* The prediction at finite n for one head and law (THEORY 4.5). */
typedef struct model {
    const es_sample *s;
    double n;
    es_arena arena;
    es_expansions spectra;
    es_crowd crowd;
    es_expansion *at;              /* (count) of each query */
    es_expansion *beside;          /* (count) the same when the query is one of the tokens */
    es_influence_table *influence; /* (count) of the latter */
    es_asking *self;               /* (count) what it gets then */
    double *rows; /* (ES_FEATURES + 1, count): shares in a pair average, and what explains them */
} model;

/* Returns the quadratic forms of sampled query j with itself. */
static es_query query_of(const es_sample *s, int64_t j)
{
    const int64_t jj = j * s->count + j;
    return (es_query){.q = s->q[j],
                      .ez = s->ez[jj],
                      .eQe = s->eQe[jj],
                      .eQz = s->eQz[jj],
                      .zQz = s->zQz[j],
                      .eQQe = s->eQQe[jj],
                      .eQQz = s->eQQz[jj],
                      .zQQz = s->zQQz[j]};
}

/* ---- averages over pairs ---- */

/* Returns what the covariance over two directions needs of queries j and k: rho = <e, f> and
 * the forms in Q and Q^2. */
static es_direction_pair pair_of(const es_sample *s, int64_t j, int64_t k)
{
    const int64_t N = s->count;
    return (es_direction_pair){.rho = s->ee[j * N + k],
                               .ee = s->eQe[j * N + j],
                               .ff = s->eQe[k * N + k],
                               .ef = s->eQe[j * N + k],
                               .ee2 = s->eQQe[j * N + j],
                               .ff2 = s->eQQe[k * N + k],
                               .ef2 = s->eQQe[j * N + k],
                               .trace = s->trace,
                               .trace2 = s->trace2};
}

typedef double (*pair_kernel)(const es_direction_pair *, const es_expansion *,
                              const es_expansion *);

/* Returns the mean of numbers. */
static double mean_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++)
        sum += x[j];
    return sum / (double)count;
}

/* Features of the sampled queries, less their means, orthonormal; defects[i] becomes how far the
 * mean of feature i is from that of the crowd. A feature that says nothing new becomes 0. */
static void prepare_features(const model *m, double *features, double defects[ES_FEATURES])
{
    const int64_t N = m->s->count;
    for (int64_t j = 0; j < N; j++) {
        const es_query x = query_of(m->s, j);
        double f[ES_FEATURES];
        es_query_features(&x, &m->at[j].moments, f);
        for (int i = 0; i < ES_FEATURES; i++)
            features[i * N + j] = f[i];
    }
    for (int i = 0; i < ES_FEATURES; i++) {
        double *f = features + i * N;
        const double mean = mean_of(f, N), size = sqrt(es_dot(f, f, N));
        defects[i] = m->crowd.features[i] - mean;
        for (int64_t j = 0; j < N; j++)
            f[j] -= mean;
        for (int k = 0; k < i; k++) {
            const double *earlier = features + k * N, part = es_dot(f, earlier, N);
            defects[i] -= part * defects[k];
            for (int64_t j = 0; j < N; j++)
                f[j] -= part * earlier[j];
        }
        const double norm = sqrt(es_dot(f, f, N)), scale = norm > 1e-6 * size ? 1.0 / norm : 0.0;
        defects[i] *= scale;
        for (int64_t j = 0; j < N; j++)
            f[j] *= scale;
    }
}

/* Mean over pairs of different queries. Each query's share in it is explained, as far as it goes,
 * by features of the query whose means over the crowd are known, and corrected for having drawn
 * other ones: twice, once for each of the pair. The standard error is that of a U-statistic, twice
 * that of the mean over the first of the two, of what is left unexplained. */
static es_num pair_average(const model *m, const es_expansion *at, pair_kernel kernel)
{
    const int64_t N = m->s->count;
    double *rows = m->rows, *features = rows + N, defects[ES_FEATURES];
    memset(rows, 0, (size_t)N * sizeof *rows);
    for (int64_t j = 0; j < N; j++) {
        for (int64_t k = 0; k < j; k++) {
            const es_direction_pair pair = pair_of(m->s, j, k);
            const double value = kernel(&pair, &at[j], &at[k]) / (double)(N - 1);
            rows[j] += value;
            rows[k] += value;
        }
    }
    prepare_features(m, features, defects);
    const double mean = mean_of(rows, N);
    double correction = 0.0;
    for (int64_t j = 0; j < N; j++)
        rows[j] -= mean;
    for (int i = 0; i < ES_FEATURES; i++) {
        const double *f = features + i * N, part = es_dot(rows, f, N);
        correction += part * defects[i];
        for (int64_t j = 0; j < N; j++)
            rows[j] -= part * f[j];
    }
    const double left = es_dot(rows, rows, N) / (double)(N - 1 - ES_FEATURES);
    return (es_num){fmax(mean + 2.0 * correction, 0.1 * mean), 2.0 * sqrt(left / (double)N)};
}

/* The square of the mean belongs to the covariance, too: T(eta) loses c(eta) c(eta)', taken here as
 * lambda eta eta', its leading part, with lambda = |c|^2/|eta|^2. In terms of influence.h eta eta'
 * is the influence with A2 = t^2, B2 = t, C2 = W2 = 1 for every direction. Returns the change of
 * E|T|^2. */
static double without_square_of_mean(const model *m, const es_expansion *at, double lambda)
{
    const es_sample *s = m->s;
    es_expansion square = {.W2 = {1.0}};
    square.A2[2] = sqrt(2.0);
    square.B2[1] = 1.0;
    double cross = 0.0;
    for (int64_t j = 0; j < s->count; j++) {
        es_direction_pair same = pair_of(s, j, j);
        same.rho = 1.0;
        cross += es_direction_pair_cov(&same, &at[j], &square) / (double)s->count;
    }
    return lambda * (lambda * (s->trace * s->trace + s->trace2) - 2.0 * cross);
}

/* c(eta) = slope * eta to first order, on average over directions. */
static double slope_of_mean(const model *m, const es_expansion *at)
{
    const double d = (double)m->s->d;
    double sum = 0.0;
    for (int64_t j = 0; j < m->s->count; j++)
        sum += (at[j].A1[1] + (d - 1.0) * at[j].W[0]) / d;
    return sum / (double)m->s->count;
}

/* ---- tokens as queries ---- */

/* tr(Q T Q R) of what a token does through query j, T = [eta e] C [eta e]' + p I, and what it gets
 * itself, R = [eta f] D [eta f]' + P I. G holds the products Q between (eta, e) and (eta, f). */
static double contract(const es_sample *s, int64_t j, int64_t k, double sign, const es_influence *t,
                       const es_influence *r)
{
    const int64_t N = s->count, jk = j * N + k, kk = k * N + k, jj = j * N + j;
    const double C[3] = {t->weight_squared, t->cross, t->square - t->part};
    const double D[3] = {r->weight_squared, r->cross, r->square - r->part};
    const double G[4] = {s->zQz[k], s->eQz[kk], sign * s->eQz[jk], sign * s->eQe[jk]};
    /* X = C G, Y = D G' */
    const double X[4] = {C[0] * G[0] + C[1] * G[2], C[0] * G[1] + C[1] * G[3],
                         C[1] * G[0] + C[2] * G[2], C[1] * G[1] + C[2] * G[3]};
    const double Y[4] = {D[0] * G[0] + D[1] * G[1], D[0] * G[2] + D[1] * G[3],
                         D[1] * G[0] + D[2] * G[1], D[1] * G[2] + D[2] * G[3]};
    const double both = X[0] * Y[0] + X[1] * Y[2] + X[2] * Y[1] + X[3] * Y[3];
    const double T = C[0] * s->zQQz[k] + 2.0 * C[1] * sign * s->eQQz[jk] + C[2] * s->eQQe[jj];
    const double R = D[0] * s->zQQz[k] + 2.0 * D[1] * s->eQQz[kk] + D[2] * s->eQQe[kk];
    return both + r->part * T + t->part * R + r->part * t->part * s->trace2;
}

/* What a token does as a key against what it gets as a query, averaged over all other queries and
 * both signs of theirs: E <c(eta), Q b(eta)> and E tr(Q (T(eta) - E T) Q R(eta)). */
static void coherence(const model *m, double *mean, double *cov)
{
    const es_sample *s = m->s;
    const int64_t N = s->count;
    const double pairs = 2.0 * (double)N * (double)(N - 1);
    *mean = *cov = 0.0;
    for (int64_t j = 0; j < N; j++) {
        for (int64_t k = 0; k < 2 * N; k++) {
            const int64_t token = k / 2, jk = j * N + token, kk = token * N + token;
            const double sign = k % 2 ? -1.0 : 1.0;
            const double t = fmax(-WIDEST, fmin(WIDEST, sign * s->ez[jk]));
            const es_asking *a = &m->self[token];
            if (token == j)
                continue;
            es_influence f = es_influence_at(&m->influence[j], t);
            const double along = sign * (a->f.weight * s->eQz[jk] + a->m * s->eQe[jk]);
            *mean +=
                (f.weight * (a->f.weight * s->zQz[token] + a->m * s->eQz[kk]) + f.along * along) /
                pairs;
            f.square -= m->beside[j].A2[0];
            f.part -= m->beside[j].C2[0];
            *cov += contract(s, j, token, sign, &f, &a->f) / pairs;
        }
    }
}

/* ---- both modes ---- */

/* Writes the predicted errors. E|m| follows from the root mean square by the ratio of a
 * Gaussian vector whose dimension is the effective one, (tr Q)^2/tr Q^2. */
static void finish(const model *m, double mean, const es_expected *cov, double fluctuation,
                   es_predicted *out)
{
    const double freedom = m->s->trace * m->s->trace / m->s->trace2; /* effective dimension */
    out->mean_rms = sqrt(fmax(mean, 0.0));
    out->mean_abs = out->mean_rms * es_norm_ratio((int64_t)fmax(1.0, round(freedom)));
    out->cov_bias = copysign(sqrt(cov->square), cov->trace);
    out->cov_rms = sqrt(cov->square + fmax(fluctuation, 0.0));
}

/* The part of its limit q that a query reaches, E G / q. */
static double reached(const model *m)
{
    double mean = 0.0, q = 0.0;
    for (int64_t j = 0; j < m->s->count; j++) {
        mean += m->at[j].moments.mean;
        q += m->s->q[j];
    }
    return mean / q;
}

/* With the tokens as queries the mean moves by c(eta) + M eta / n: |.|^2/|eta|^2 on average. */
static double slope_squared_as_token(const model *m, double w)
{
    const int64_t d = m->s->d;
    const double part = reached(m);
    double lambda = w * w;
    for (int64_t i = 0; i < d * d; i++) {
        const double M = part * m->s->M[i] / m->n;
        lambda += (M * M + (i % (d + 1) ? 0.0 : 2.0 * w * M)) / (double)d;
    }
    return lambda;
}

/* How far the sample's average of z'QMz, the limit of <eta, Q b>, is from its expectation tr QM,
 * times the part of the limit that n tokens reach: what is proportional to it can be corrected. */
static double cross_defect(const model *m)
{
    const es_sample *s = m->s;
    const int64_t d = s->d, N = s->count;
    double cross = 0.0;
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < d; k++)
            cross += s->Q[i * d + k] * s->M[k * d + i];
    for (int64_t j = 0; j < N; j++)
        cross -= s->q[j] * s->eQz[j * N + j] / (double)N;
    return cross * reached(m);
}

/* The same for the crowd's average of |b|^2, whose limit is tr QMM'. */
static double square_defect(const model *m)
{
    const es_sample *s = m->s;
    const int64_t d = s->d;
    double square = -m->crowd.limit;
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < d; k++)
            square += s->Q[i * d + k] * es_dot(s->M + k * d, s->M + i * d, d);
    return m->crowd.limit > 0.0 ? square * m->crowd.reached / m->crowd.limit : 0.0;
}

/* Predicts the errors for fresh queries: n E <c, c> for the mean, n times the average of
 * E[Gamma Gamma' given y] over pairs of queries for the covariance (THEORY 4.5). The sampling
 * error of the two averages is reported. */
static es_status predict_population(const model *m, es_prediction *out, es_error *err)
{
    const es_num c = pair_average(m, m->at, es_direction_pair_mean),
                 T = pair_average(m, m->at, es_direction_pair_cov);
    const double w = slope_of_mean(m, m->at);
    const double square = without_square_of_mean(m, m->at, w * w);
    out->population.query_rms = sqrt(m->crowd.query);
    out->sampling = fmax(0.5 * c.err / c.val, 0.5 * T.err / T.val);
    es_expected cov;
    ES_TRY(es_crowd_covariance(&m->crowd, m->s, 0, m->n * c.val, 0.0, &cov, err));
    finish(m, m->n * c.val, &cov, m->n * (T.val + square), &out->population);
    return ES_OK;
}

/* Two queries that are tokens have n - 2 others in common, and each is a key of the other. Outputs
 * are taken less their mean where they are squared: what all have in common is no covariance. */
static es_status predict_self(const model *m, es_predicted *out, es_error *err)
{
    const double n = m->n, pairs = 1.0 - 1.0 / n;
    const es_num c = pair_average(m, m->beside, es_direction_pair_mean);
    const es_num T = pair_average(m, m->beside, es_direction_pair_cov);
    const double w = slope_of_mean(m, m->beside);
    double cross_mean, cross_cov;
    coherence(m, &cross_mean, &cross_cov);
    cross_mean += w * cross_defect(m);
    const double mean =
        pairs * ((n - 2.0) * c.val + 2.0 * cross_mean) + (m->crowd.second + square_defect(m)) / n;
    es_expected cov;
    ES_TRY(es_crowd_covariance(&m->crowd, m->s, 1, mean, reached(m) / (n * w), &cov, err));
    const double fourth = m->crowd.fourth - 2.0 * mean * m->crowd.second + mean * mean;
    const double square = without_square_of_mean(m, m->beside, slope_squared_as_token(m, w));
    const double fluctuation =
        pairs * ((n - 2.0) * T.val + 2.0 * cross_cov) + n * square + (fourth - cov.whole) / n;
    out->query_rms = sqrt(fmax(m->crowd.missed, 0.0));
    finish(m, mean, &cov, fluctuation, out);
    return ES_OK;
}

/* ---- memory ---- */

/* Frees the model of a prediction. */
static void model_free(model *m)
{
    es_arena_free(&m->arena);
    es_crowd_free(&m->crowd);
    es_expansions_free(&m->spectra);
}

/* Allocates features, influence and scratch for all sampled queries. */
static es_status model_allocate(model *m, es_error *err)
{
    const int64_t N = m->s->count;
    ES_TRY(ES_ARENA_NEW_2D(&m->arena, m->at, N, 2, "prediction", err));
    m->beside = m->at + N;
    ES_TRY(ES_ARENA_NEW(&m->arena, m->self, N, "prediction", err));
    ES_TRY(ES_ARENA_NEW_2D(&m->arena, m->rows, N, ES_FEATURES + 1, "prediction", err));
    return ES_ARENA_NEW(&m->arena, m->influence, N, "influence", err);
}

/* Query j, fresh and as a token. */
static es_status fill_query(model *m, int64_t j, es_error *err)
{
    const es_query x = query_of(m->s, j);
    es_influence_table *table = &m->influence[j];
    es_expansions_at(&m->spectra, x.q, &m->at[j]);
    m->self[j] = es_ask(&m->spectra, &x, m->s->trace);
    table->half = (int64_t)ceil(WIDEST / ES_INFLUENCE_STEP) + 2;
    table->count = 2 * table->half + 1;
    ES_TRY(ES_ARENA_NEW(&m->arena, table->at, table->count, "influence", err));
    return es_expansion_beside(m->n, x.q, x.ez, m->arena.budget, table, &m->beside[j], err);
}

/* Computes the prediction for n tokens from sampled queries: influence tables over the range of
 * q, averages over many fresh queries (the crowd), then both modes. */
static es_status run(const es_sample *s, double n, uint64_t seed, es_mem_limit *budget,
                     es_prediction *out, es_error *err)
{
    model m = {.s = s, .n = n, .arena.budget = budget};
    es_status status = es_expansions_make(n, s->lowest, s->highest, fmax(WIDEST, s->widest), budget,
                                          &m.spectra, err);
    if (status == ES_OK)
        status = model_allocate(&m, err);
    if (status == ES_OK)
        status = es_crowd_make(s, &m.spectra, seed, &m.crowd, err);
    for (int64_t j = 0; j < s->count && status == ES_OK; j++)
        status = fill_query(&m, j, err);
    if (status == ES_OK)
        status = predict_population(&m, out, err);
    if (status == ES_OK)
        status = predict_self(&m, &out->self, err);
    model_free(&m);
    return status;
}

/* Draws the queries, checks that V S V' is not 0, and predicts at n, and slightly beyond it if
 * the slope is wanted. */
static es_status predict(const es_view *cov, double tolerance, const es_head *head, double n,
                         const es_predict_opts *opts, es_mem_limit *budget, es_prediction *out,
                         es_prediction *slope, es_error *err)
{
    const int64_t asked = opts ? opts->samples : 0, samples = asked ? asked : 512;
    ES_TRY(es_predict_check(cov ? cov->cols : 0, n, err));
    if (samples < 16 || samples > 4096)
        return es_fail(err, ES_E_RANGE, "theory.predict.samples", "use 16 to 4096",
                       "%lld sampled queries", (long long)samples);
    es_sample s;
    ES_TRY(es_sample_make(cov, tolerance, head, samples, opts ? opts->seed : 0, budget, &s, err));
    es_status status = ES_OK;
    if (!(s.trace > 0.0))
        status = es_fail(err, ES_E_NUMERIC, "theory.predict.zero", "",
                         "V S V' is 0: there is nothing to predict");
    const uint64_t seed = opts ? opts->seed : 0;
    if (status == ES_OK)
        status = es_crowd_widen(&s, seed, err);
    if (status == ES_OK)
        status = run(&s, n, seed, budget, out, err);
    if (status == ES_OK && slope) {
        es_prediction next;
        const double after = es_predict_next(n);
        status = run(&s, after, seed, budget, &next, err);
        if (status == ES_OK)
            es_predict_slope(out, &next, log(after / n), slope);
    }
    es_sample_free(&s);
    return status;
}

/* ---- small heads ---- */

/* The covariance's errors of a head with |M|_F = F, too small, from those of the head whose A is
 * larger by 1/ratio. */
static es_status shrink(const es_view *cov, double tolerance, const es_head *head, double n,
                        const es_predict_opts *opts, es_mem_limit *budget, double ratio,
                        es_prediction *out, es_prediction *slope, es_error *err)
{
    es_prediction larger, steeper;
    es_head_data scaled;
    es_status status = es_head_scaled(head, ES_HEAD_WK, 1.0, ratio, budget, &scaled, err);
    if (status == ES_OK)
        status = predict(cov, tolerance, &scaled.head, n, opts, budget, &larger,
                         slope ? &steeper : NULL, err);
    es_head_data_free(&scaled);
    ES_TRY(status);
    es_predict_shrink(out, &larger, ratio);
    if (slope)
        es_predict_shrink(slope, &steeper, 1.0); /* a factor changes no slope */
    return ES_OK;
}

es_status es_predict_general(const es_view *cov, double tolerance, const es_head *head, double n,
                             const es_predict_opts *opts, es_mem_limit *budget, es_prediction *out,
                             es_prediction *slope, es_error *err)
{
    ES_TRY(predict(cov, tolerance, head, n, opts, budget, out, slope, err));
    es_horizons h;
    ES_TRY(es_horizons_of(cov, tolerance, head, budget, &h, err));
    if (!(h.frobenius.val > 0.0) || h.frobenius.val >= ES_PREDICT_SMALL)
        return ES_OK;
    return shrink(cov, tolerance, head, n, opts, budget, h.frobenius.val / ES_PREDICT_SMALL, out,
                  slope, err);
}
