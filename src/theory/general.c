/* general.c : finite-n prediction for any covariance and head (4.5). Queries are sampled; the
 * token that two of them share is averaged over exactly (pairs.h). */
#include <esscher/theory.h>

#include <math.h>
#include <string.h>

#include <esscher/linalg.h>

#include "base/error.h"
#include "base/memory.h"
#include "theory/pairs.h"
#include "theory/predict.h"
#include "theory/sample.h"

#define WIDEST 13.0 /* t = <e, eta> of an independent token is a standard normal */

/* A sampled token in its role as query: Gamma = w eta + m e on average, and its second moment
 * W2 eta eta' + X (..) + Y ee' + P (I - ee'). */
typedef struct asking {
    es_influence f;
    double m;      /* along e */
    double second; /* E |Gamma|^2 */
    double missed; /* E |Gamma - q e|^2 */
} asking;

typedef struct model {
    const es_sample *s;
    double n;
    es_budget *budget;
    es_spectra spectra;
    es_spectrum *at; /* (count) of each query */
    asking *self;    /* (count) */
    double *bias;    /* (d, d): E[Gamma Gamma'] minus its limit, whitened */
} model;

/* ---- sums over queries ---- */

/* Expected error of one query, squared, in the metric of outputs (4.5 i). */
static double query_error(const model *m)
{
    const es_sample *s = m->s;
    double sum = 0.0;
    for (int64_t j = 0; j < s->count; j++) {
        const es_rem *r = &m->at[j].moments;
        const double along = s->eQe[j * s->count + j];
        sum += along * r->error + (s->trace - along) * r->participation;
    }
    return sum / (double)s->count;
}

static es_pair pair_of(const es_sample *s, int64_t j, int64_t k)
{
    const int64_t N = s->count;
    return (es_pair){.rho = s->ee[j * N + k],
                     .ee = s->eQe[j * N + j],
                     .ff = s->eQe[k * N + k],
                     .ef = s->eQe[j * N + k],
                     .ee2 = s->eQQe[j * N + j],
                     .ff2 = s->eQQe[k * N + k],
                     .ef2 = s->eQQe[j * N + k],
                     .trace = s->trace,
                     .trace2 = s->trace2};
}

/* Mean over pairs of different queries, and its standard error as a U-statistic: twice that of the
 * mean over the first of the two. rows (count) is scratch. */
static es_num pair_average(const model *m,
                           double (*kernel)(const es_pair *, const es_spectrum *,
                                            const es_spectrum *),
                           double *rows)
{
    const int64_t N = m->s->count;
    memset(rows, 0, (size_t)N * sizeof *rows);
    for (int64_t j = 0; j < N; j++) {
        for (int64_t k = 0; k < j; k++) {
            const es_pair pair = pair_of(m->s, j, k);
            const double value = kernel(&pair, &m->at[j], &m->at[k]) / (double)(N - 1);
            rows[j] += value;
            rows[k] += value;
        }
    }
    double mean = 0.0, variance = 0.0;
    for (int64_t j = 0; j < N; j++)
        mean += rows[j] / (double)N;
    for (int64_t j = 0; j < N; j++)
        variance += (rows[j] - mean) * (rows[j] - mean) / (double)(N - 1);
    return (es_num){mean, 2.0 * sqrt(variance / (double)N)};
}

/* The square of the mean belongs to the covariance, too: T(eta) loses c(eta) c(eta)', taken here as
 * lambda eta eta', its leading part, with lambda = |c|^2/|eta|^2. In terms of pairs.h eta eta' is
 * the influence with A2 = t^2, B2 = t, C2 = W2 = 1 for every direction. Returns the change of
 * E|T|^2. */
static double without_square_of_mean(const model *m, double lambda)
{
    const es_sample *s = m->s;
    es_spectrum square = {.W2 = {1.0}};
    square.A2[2] = sqrt(2.0);
    square.B2[1] = 1.0;
    double cross = 0.0;
    for (int64_t j = 0; j < s->count; j++) {
        es_pair same = pair_of(s, j, j);
        same.rho = 1.0;
        cross += es_pair_cov(&same, &m->at[j], &square) / (double)s->count;
    }
    return lambda * (lambda * (s->trace * s->trace + s->trace2) - 2.0 * cross);
}

/* c(eta) = slope * eta to first order, on average over directions. */
static double slope_of_mean(const model *m)
{
    const double d = (double)m->s->d;
    double sum = 0.0;
    for (int64_t j = 0; j < m->s->count; j++)
        sum += (m->at[j].A1[1] + (d - 1.0) * m->at[j].W[0]) / d;
    return sum / (double)m->s->count;
}

/* ---- tokens as queries ---- */

static void ask_as_tokens(model *m)
{
    const es_sample *s = m->s;
    const int64_t N = s->count;
    for (int64_t k = 0; k < N; k++) {
        asking *a = &m->self[k];
        a->f = es_spectra_influence(&m->spectra, s->q[k], s->ez[k * N + k]);
        a->m = a->f.along + m->at[k].moments.mean;
        const double along = s->eQe[k * N + k];
        a->second = a->f.weight_squared * s->zQz[k] + 2.0 * a->f.cross * s->eQz[k * N + k] +
                    a->f.square * along + a->f.part * (s->trace - along);
        a->missed = a->second + s->q[k] * s->q[k] * along -
                    2.0 * s->q[k] * (a->f.weight * s->eQz[k * N + k] + a->m * along);
    }
}

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
            const asking *a = &m->self[token];
            if (token == j)
                continue;
            es_influence f = es_spectra_influence(&m->spectra, s->q[j], t);
            const double along = sign * (a->f.weight * s->eQz[jk] + a->m * s->eQe[jk]);
            *mean +=
                (f.weight * (a->f.weight * s->zQz[token] + a->m * s->eQz[kk]) + f.along * along) /
                pairs;
            f.square -= m->at[j].moments.second;
            f.part -= m->at[j].moments.participation;
            *cov += contract(s, j, token, sign, &f, &a->f) / pairs;
        }
    }
}

/* ---- bias of the covariance ---- */

/* What a query's second moment has beyond its limit q^2 ee', which is taken out query by query, so
 * that sampling noise is that of the difference: weight_squared zz' + cross (ze' + ez') + along ee'
 * + part I. */
static es_influence beyond_limit(const model *m, int64_t j, bool self)
{
    const es_rem *r = &m->at[j].moments;
    es_influence f = {.square = r->second, .part = r->participation};
    if (self)
        f = m->self[j].f;
    f.along = f.square - m->s->q[j] * m->s->q[j] - f.part;
    return f;
}

static void fill_bias(model *m, bool self)
{
    const es_sample *s = m->s;
    const int64_t d = s->d, N = s->count;
    memset(m->bias, 0, (size_t)(d * d) * sizeof *m->bias);
    for (int64_t j = 0; j < N; j++) {
        const es_influence f = beyond_limit(m, j, self);
        const double along = f.along / (double)N;
        const double cross = f.cross / (double)N, own = f.weight_squared / (double)N;
        const double *e = s->e + j * d, *z = s->z + j * d;
        for (int64_t a = 0; a < d; a++) {
            const double with_e = along * e[a] + cross * z[a], with_z = cross * e[a] + own * z[a];
            for (int64_t b = 0; b < d; b++)
                m->bias[a * d + b] += with_e * e[b] + with_z * z[b];
            m->bias[a * d + a] += f.part / (double)N;
        }
    }
}

/* tr(Q X Q X) of one query's X = own zz' + cross (ze' + ez') + along ee' + part I. */
static double norm_of_one(const es_sample *s, int64_t j, const es_influence *f, double part)
{
    const int64_t jj = j * s->count + j;
    const double zz = s->zQz[j], ze = s->eQz[jj], ee = s->eQe[jj];
    const double own = f->weight_squared, cross = f->cross, along = f->along;
    /* C G with C = [own cross; cross along], G = [zz ze; ze ee] */
    const double a = own * zz + cross * ze, b = own * ze + cross * ee;
    const double c = cross * zz + along * ze, d = cross * ze + along * ee;
    return a * a + 2.0 * b * c + d * d + part * part * s->trace2 +
           2.0 * part * (own * s->zQQz[j] + 2.0 * cross * s->eQQz[jj] + along * s->eQQe[jj]);
}

/* tr(Q X Q X) and tr(Q X) for X = bias + shift I + factor MM'. */
static es_status norm_of(const model *m, double shift, double factor, double *square, double *trace,
                         es_error *err)
{
    const int64_t d = m->s->d;
    void *memory;
    ES_TRY(es_mem_array(m->budget, 2 * d, d, sizeof(double), "prediction", &memory, err));
    double *X = memory, *QX = X + d * d;
    const es_view M = es_view_f64(m->s->M, d, d), Mt = es_view_transpose(&M);
    const es_view Q = es_view_f64(m->s->Q, d, d), x = es_view_f64(X, d, d);
    es_status status = es_mat_multiply(&M, &Mt, m->budget, X, err);
    for (int64_t i = 0; i < d * d; i++)
        X[i] = factor * X[i] + m->bias[i] + (i % (d + 1) ? 0.0 : shift);
    if (status == ES_OK)
        status = es_mat_multiply(&Q, &x, m->budget, QX, err);
    *square = *trace = 0.0;
    for (int64_t i = 0; i < d; i++) {
        *trace += QX[i * d + i];
        for (int64_t k = 0; k < d; k++)
            *square += QX[i * d + k] * QX[k * d + i];
    }
    es_mem_free(m->budget, memory);
    return status;
}

/* ---- both modes ---- */

/* The covariance of the mean is taken to have the shape of VSV', which it has at small horizons. */
static es_status finish(model *m, bool self, double mean, double fluctuation, es_predicted *out,
                        es_error *err)
{
    const double N = (double)m->s->count, shift = -mean / m->s->trace;
    double square, trace, each = 0.0;
    fill_bias(m, self);
    ES_TRY(norm_of(m, shift, 0.0, &square, &trace, err));
    for (int64_t j = 0; j < m->s->count; j++) {
        const es_influence f = beyond_limit(m, j, self);
        each += norm_of_one(m->s, j, &f, f.part + shift) / N;
    }
    square = (N * square - each) / (N - 1.0); /* without the square of the sampling noise */
    const double freedom = m->s->trace * m->s->trace / m->s->trace2; /* effective dimension */
    out->mean_rms = sqrt(fmax(mean, 0.0));
    out->mean_abs = out->mean_rms * es_norm_ratio((int64_t)fmax(1.0, round(freedom)));
    out->cov_bias = copysign(sqrt(fmax(square, 0.0)), trace);
    out->cov_rms = sqrt(fmax(square, 0.0) + fmax(fluctuation, 0.0));
    return ES_OK;
}

/* With the tokens as queries the mean moves by c(eta) + M eta / n: |.|^2/|eta|^2 on average. */
static double slope_squared_as_token(const model *m, double w)
{
    const int64_t d = m->s->d;
    double lambda = w * w;
    for (int64_t i = 0; i < d * d; i++) {
        const double M = m->s->M[i] / m->n;
        lambda += (M * M + (i % (d + 1) ? 0.0 : 2.0 * w * M)) / (double)d;
    }
    return lambda;
}

/* How far the sample's averages of z'QMz and z'M'QMz, the limits of <eta, Q b> and |b|^2, are from
 * their expectations tr QM and tr QMM', each times the part of the limit that n tokens reach: what
 * is proportional to them can be corrected. */
static void sample_defects(const model *m, double *cross, double *square)
{
    const es_sample *s = m->s;
    const int64_t d = s->d, N = s->count;
    *cross = *square = 0.0;
    for (int64_t i = 0; i < d; i++) {
        for (int64_t k = 0; k < d; k++) {
            *cross += s->Q[i * d + k] * s->M[k * d + i];
            for (int64_t l = 0; l < d; l++)
                *square += s->Q[i * d + k] * s->M[k * d + l] * s->M[i * d + l];
        }
    }
    double mean = 0.0, second = 0.0, q = 0.0, q2 = 0.0;
    for (int64_t j = 0; j < N; j++) {
        *cross -= s->q[j] * s->eQz[j * N + j] / (double)N;
        *square -= s->q[j] * s->q[j] * s->eQe[j * N + j] / (double)N;
        mean += m->at[j].moments.mean;
        second += m->at[j].moments.mean * m->at[j].moments.mean;
        q += s->q[j];
        q2 += s->q[j] * s->q[j];
    }
    *cross *= mean / q;
    *square *= second / q2;
}

static es_status combine(model *m, double *rows, es_prediction *out, es_error *err)
{
    const int64_t N = m->s->count;
    const double n = m->n;
    const es_num c = pair_average(m, es_pair_mean, rows), T = pair_average(m, es_pair_cov, rows);
    out->population.query_rms = sqrt(query_error(m));
    out->sampling = fmax(0.5 * c.err / c.val, 0.5 * T.err / T.val);
    const double w = slope_of_mean(m), key = without_square_of_mean(m, w * w);
    ES_TRY(finish(m, false, n * c.val, n * (T.val + key), &out->population, err));

    ask_as_tokens(m);
    double cross_mean, cross_cov, second = 0.0, fourth = 0.0, missed = 0.0, square, trace;
    coherence(m, &cross_mean, &cross_cov);
    for (int64_t k = 0; k < N; k++) {
        second += m->self[k].second / (double)N;
        missed += m->self[k].missed / (double)N;
        fourth += m->self[k].second * m->self[k].second / (double)N;
    }
    out->self.query_rms = sqrt(fmax(missed, 0.0));
    fill_bias(m, true);
    ES_TRY(norm_of(m, 0.0, 1.0, &square, &trace, err)); /* |E Gamma Gamma'|^2 */
    double linear, limit;
    sample_defects(m, &linear, &limit);
    cross_mean += w * linear;
    second += limit;
    const double mean = (n - 1.0) * c.val + 2.0 * cross_mean + second / n;
    const double both = without_square_of_mean(m, slope_squared_as_token(m, w));
    const double fluctuation = n * (T.val + both) + 2.0 * cross_cov + (fourth - square) / n;
    return finish(m, true, mean, fluctuation, &out->self, err);
}

static es_status run(const es_sample *s, double n, es_budget *budget, es_prediction *out,
                     es_error *err)
{
    model m = {.s = s, .n = n, .budget = budget};
    const int64_t N = s->count, d = s->d;
    void *at = NULL, *self = NULL, *rest = NULL;
    ES_TRY(es_spectra_make(n, s->lowest, s->highest, fmax(WIDEST, s->widest), budget, &m.spectra,
                           err));
    es_status status = es_mem_array(budget, N, 1, sizeof(es_spectrum), "prediction", &at, err);
    if (status == ES_OK)
        status = es_mem_array(budget, N, 1, sizeof(asking), "prediction", &self, err);
    if (status == ES_OK)
        status = es_mem_array(budget, d * d + N, 1, sizeof(double), "prediction", &rest, err);
    if (status == ES_OK) {
        m.at = at;
        m.self = self;
        m.bias = rest;
        for (int64_t j = 0; j < N; j++)
            es_spectra_at(&m.spectra, s->q[j], &m.at[j]);
        status = combine(&m, m.bias + d * d, out, err);
    }
    es_mem_free(budget, at);
    es_mem_free(budget, self);
    es_mem_free(budget, rest);
    es_spectra_free(&m.spectra);
    return status;
}

es_status es_predict_general(const es_view *cov, double tolerance, const es_head *head, double n,
                             const es_predict_opts *opts, es_budget *budget, es_prediction *out,
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
    if (status == ES_OK)
        status = run(&s, n, budget, out, err);
    if (status == ES_OK && slope) {
        es_prediction next;
        const double after = es_predict_next(n);
        status = run(&s, after, budget, &next, err);
        if (status == ES_OK)
            es_predict_slope(out, &next, log(after / n), slope);
    }
    es_sample_free(&s);
    return status;
}
