/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c : draws one replicate of n keys on the sphere (THEORY 6) in three ways: distances in
 * increasing order, with the far keys as a Gaussian sum; all keys; and the limit of both at the
 * critical scale. */
#include "experiments/regimes/draw.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/vectors.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "random/experiment.h"
#include "random/random.h"
#include "stats/special.h"

/* Experiments of the address space. */
enum {
    AT_SPACINGS = ES_EXPERIMENT_REGIMES,
    AT_DIRECTIONS = ES_EXPERIMENT_REGIMES + 1,
    AT_BULK = ES_EXPERIMENT_REGIMES + 2,
    AT_CRITICAL = ES_EXPERIMENT_REGIMES + 3,
    AT_KEYS = ES_EXPERIMENT_REGIMES + 4
};

/* Sums over the keys, relative to the nearest. */
typedef struct softsum {
    double z;                   /* beta T of the nearest so far */
    double sum, excess;         /* sum of e = exp(-(z_i - z)), and of e (z_i - z) */
    double squares;             /* sum of e^2 */
    double top[ES_REGIMES_TOP]; /* the largest e */
} softsum;

/* Fills everything but the tangential part. */
static void finish(const softsum *s, double beta, es_regimes_draw *out)
{
    for (int k = 0; k < ES_REGIMES_TOP; k++)
        out->top[k] = s->top[k] / s->sum;
    out->squares = s->squares / (s->sum * s->sum);
    out->entropy = log(s->sum) + s->excess / s->sum;
    out->deficit = (s->z + s->excess / s->sum) / beta;
}

/* ==== the far keys: moments of exp(-beta (T - t)) given T > t, along the table of the law ====
 * Moments given y > y_j follow from those given y > y_{j+1} by a shift of Y plus the part in
 * between. All terms are positive, so nothing cancels. */

enum { HALF = 3 };

/* Returns a m + b far, with Y of `far` larger by `shift`. */
static es_bulk_moments join(double a, es_bulk_moments m, double b, es_bulk_moments far,
                            double shift)
{
    if (!(shift < 700.0))
        b = shift = 0.0;
    const double e = exp(-shift), e1 = b * e, e2 = e1 * e, e3 = e2 * e;
    return (es_bulk_moments){.x = a * m.x + e1 * far.x,
                             .xy = a * m.xy + e1 * (far.xy + shift * far.x),
                             .xx = a * m.xx + e2 * far.xx,
                             .xxy = a * m.xxy + e2 * (far.xxy + shift * far.xx),
                             .xxyy = a * m.xxyy +
                                     e2 * (far.xxyy + shift * (2.0 * far.xxy + shift * far.xx)),
                             .xxx = a * m.xxx + e3 * far.xxx,
                             .xxxy = a * m.xxxy + e3 * (far.xxxy + shift * far.xxx),
                             .xxxx = a * m.xxxx + e3 * e * far.xxxx,
                             .xxr = a * m.xxr + e2 * far.xxr};
}

/* Returns the moments over y in (from, to], at most a step of the table, relative to T at `from`;
 * *mass is the logarithm of the probability. Gauss-Legendre with 6 nodes. */
static es_bulk_moments between(const es_bulk *bulk, double from, double to, double *mass)
{
    static const double x[HALF] = {0.23861918608319690863, 0.66120938646626451366,
                                   0.93246951420315202781};
    static const double w[HALF] = {0.46791393457269104739, 0.36076157304813860757,
                                   0.17132449237917034504};
    const double centre = 0.5 * (from + to), half = 0.5 * (to - from);
    const double middle = es_cap_log_density(bulk->cap, centre), t = es_cap_place_of(from).t;
    es_bulk_moments out = {0};
    double total = 0.0;
    for (int i = 0; i < 2 * HALF; i++) {
        const double y = centre + (i % 2 ? half : -half) * x[i / 2];
        const es_cap_place at = es_cap_place_of(y);
        const double p = w[i / 2] * exp(es_cap_log_density(bulk->cap, y) - middle);
        const double Y = bulk->beta * (at.t - t), X = exp(-Y);
        const es_bulk_moments one = {.x = X,
                                     .xy = X * Y,
                                     .xx = X * X,
                                     .xxy = X * X * Y,
                                     .xxyy = X * X * Y * Y,
                                     .xxx = X * X * X,
                                     .xxxy = X * X * X * Y,
                                     .xxxx = X * X * X * X,
                                     .xxr = X * X * at.t * at.rest};
        out = join(p, one, 1.0, out, 0.0);
        total += p;
    }
    *mass = middle + log(half * total);
    return join(1.0 / total, out, 0.0, out, 0.0);
}

/* Returns the moments given y > from; row j is the first of the table beyond it. */
static es_bulk_moments extend(const es_bulk *bulk, double from, int64_t j)
{
    const es_cap *cap = bulk->cap;
    const double to = cap->low + cap->step * (double)j;
    double mass;
    const es_bulk_moments near = between(bulk, from, to, &mass);
    const double share = 1.0 / (1.0 + exp(cap->above[j] - mass));
    const double shift = bulk->beta * (es_cap_place_of(to).t - es_cap_place_of(from).t);
    return join(share, near, 1.0 - share, bulk->at[j], shift);
}

es_status es_bulk_make(const es_cap *cap, double beta, es_mem_limit *budget, es_bulk *out,
                       es_error *err)
{
    *out = (es_bulk){.cap = cap, .beta = beta, .budget = budget};
    ES_TRY(ES_MEM_NEW(budget, out->at, cap->count, "bulk table", err));
    /* Beyond the table T is 2 and r is 0. */
    out->at[cap->count - 1] = (es_bulk_moments){.x = 1.0, .xx = 1.0, .xxx = 1.0, .xxxx = 1.0};
    for (int64_t j = cap->count - 2; j >= 0; j--)
        out->at[j] = extend(out, cap->low + cap->step * (double)j, j + 1);
    return ES_OK;
}

void es_bulk_free(es_bulk *bulk)
{
    es_mem_free(bulk->budget, bulk->at);
    bulk->at = NULL;
}

/* Returns the moments given T > t. */
static es_bulk_moments beyond(const es_bulk *bulk, es_cap_place t)
{
    const es_cap *cap = bulk->cap;
    const double y = log(t.t / t.rest);
    if (y <= cap->low) /* less than 1e-13 of the sphere away from the first row */
        return bulk->at[0];
    if (y >= -cap->low)
        return bulk->at[cap->count - 1];
    const int64_t j = 1 + (int64_t)floor((y - cap->low) / cap->step);
    return extend(bulk, y, j < cap->count ? j : cap->count - 1);
}

/* ==== from the nearest key outwards ====
 * If U_(1) < U_(2) < ... are n uniforms in order, -ln(1 - U_(k)) = sum_{j<=k} E_j/(n-j+1) with
 * independent exponentials E_j (Renyi): the k nearest of 10^18 keys cost k exponentials. */

#define NOTHING 37.0 /* e^-NOTHING is 1e-16 */
enum { CHUNK = 64, MOST_DIRECTIONS = 64 };

/* Sums over the keys in order. */
typedef struct walk {
    softsum soft;
    int64_t count;              /* keys so far, a planted one included */
    double e[MOST_DIRECTIONS];  /* e r of the first */
    double across;              /* sum of e^2 r^2 over the others */
    double bulk_sum, normality; /* of the Gaussian sum */
} walk;

/* Adds the next key in order. */
static void add_key(const es_nearest_job *job, walk *w, es_cap_place at)
{
    const double z = job->beta * at.t;
    if (w->count == 0)
        w->soft.z = z;
    const double y = z - w->soft.z, e = exp(-y);
    w->soft.sum += e;
    w->soft.excess += e > 0.0 ? e * y : 0.0;
    w->soft.squares += e * e;
    if (w->count < ES_REGIMES_TOP)
        w->soft.top[w->count] = e;
    if (w->count < job->directions)
        w->e[w->count] = e * sqrt(at.t * at.rest);
    else
        w->across += e * e * at.t * at.rest;
    w->count++;
}

/* Adds the sum over N farther keys, (sum X, sum XY, sum X^2), as a Gaussian vector with its exact
 * mean and covariance (Cholesky, whose pivots may be 0). */
static es_status add_bulk(const es_nearest_job *job, es_address at, es_cap_place last, double N,
                          walk *w, es_error *err)
{
    const es_bulk_moments m = beyond(&job->bulk, last);
    double g[4];
    at.experiment = AT_BULK;
    ES_TRY(es_normal_rows(&at, 1, 4, g, err));
    const double c11 = fmax(m.xx - m.x * m.x, 0.0), c21 = m.xxy - m.x * m.xy,
                 c31 = m.xxx - m.x * m.xx, c22 = m.xxyy - m.xy * m.xy, c32 = m.xxxy - m.xy * m.xx,
                 c33 = m.xxxx - m.xx * m.xx;
    const double l11 = sqrt(c11), l21 = l11 > 0.0 ? c21 / l11 : 0.0,
                 l31 = l11 > 0.0 ? c31 / l11 : 0.0, l22 = sqrt(fmax(c22 - l21 * l21, 0.0)),
                 l32 = l22 > 0.0 ? (c32 - l31 * l21) / l22 : 0.0,
                 l33 = sqrt(fmax(c33 - l31 * l31 - l32 * l32, 0.0)), root = sqrt(N);
    const double x = fmax(N * m.x + root * l11 * g[0], 0.0);
    const double xy = fmax(N * m.xy + root * (l21 * g[0] + l22 * g[1]), 0.0);
    const double xx = fmax(N * m.xx + root * (l31 * g[0] + l32 * g[1] + l33 * g[2]), 0.0);
    const double y = job->beta * last.t - w->soft.z, e = exp(-y);
    w->soft.sum += e * x;
    w->soft.excess += e * (xy + y * x);
    w->soft.squares += e * e * xx;
    w->across += e * e * N * m.xxr;
    w->bulk_sum = e * x;
    /* Berry and Esseen: 0.56 E|X-EX|^3 / (sd^3 sqrt N), and |X-EX| is at most the range of X. */
    w->normality = c11 > 0.0 ? 0.56 * -expm1(-job->beta * last.rest) / (l11 * root) : 0.0;
    return ES_OK;
}

/* Draws keys from the nearest outwards until the rest is negligible or `ordered` keys are drawn;
 * then adds the rest as a Gaussian sum. */
static es_status walk_out(const es_nearest_job *job, es_address at, walk *w, es_error *err)
{
    double spacing[CHUNK], depth = 0.0;
    int64_t near = 0;
    es_cap_place place = {.t = 0.0, .rest = 2.0};
    if (job->planted)
        add_key(job, w, place);
    for (int64_t k = 0; k < job->ordered; k++) {
        if (k % CHUNK == 0) {
            at.lane = (uint32_t)(k / 2);
            ES_TRY(es_exponential_rows(&at, 1, CHUNK, spacing, err));
        }
        depth += spacing[k % CHUNK] / (double)(job->n - k);
        place = es_cap_quantile(&job->cap, log(expm1(depth)), &near);
        add_key(job, w, place);
        const int64_t left = job->n - k - 1;
        if (left == 0 || (w->count >= ES_REGIMES_TOP &&
                          log((double)left) - (job->beta * place.t - w->soft.z) < -NOTHING))
            return ES_OK;
    }
    at.lane = 0;
    return job->n > job->ordered ? add_bulk(job, at, place, (double)(job->n - job->ordered), w, err)
                                 : ES_OK;
}

/* Computes the tangential part: directions of the nearest keys are drawn; the sum over the others,
 * given their weights, is Gaussian with the same covariance. scratch (2 tangents): the sum, and a
 * direction. */
static es_status add_tangential(const es_nearest_job *job, es_address at, const walk *w,
                                double *scratch, es_regimes_draw *out, es_error *err)
{
    const int64_t D = job->tangents;
    double *sum = scratch, *omega = scratch + D;
    at.experiment = AT_BULK;
    at.lane = 2;
    ES_TRY(es_normal_rows(&at, 1, D, sum, err));
    const double spread = sqrt(w->across / (double)D);
    for (int64_t j = 0; j < D; j++)
        sum[j] *= spread;
    at.experiment = AT_DIRECTIONS;
    const int64_t drawn = w->count < job->directions ? w->count : job->directions;
    for (int64_t i = 0; i < drawn; i++) {
        if (w->e[i] == 0.0) /* a planted key, or one too far to count */
            continue;
        at.lane = (uint32_t)(i * ((D + 1) / 2));
        ES_TRY(es_sphere_rows(&at, 1, D, omega, err));
        for (int64_t j = 0; j < D; j++)
            sum[j] += w->e[i] * omega[j];
    }
    double square = 0.0;
    for (int64_t j = 0; j < D; j++)
        square += sum[j] * sum[j];
    out->tangential = sqrt(square) / w->soft.sum;
    out->one = sum[0] / w->soft.sum;
    return ES_OK;
}

/* Returns the cell of the address space for n keys in this dimension. */
static uint64_t cell_of(int64_t n, int64_t tangents)
{
    const uint64_t h = (uint64_t)n * UINT64_C(0x9E3779B97F4A7C15) ^
                       (uint64_t)tangents * UINT64_C(0xBF58476D1CE4E5B9);
    return (h ^ h >> 29) & ((UINT64_C(1) << 48) - 1);
}

es_status es_nearest_draw(const es_nearest_job *job, int64_t replicate, double *scratch,
                          es_regimes_draw *out, es_error *err)
{
    const es_address at = {.seed = job->seed,
                           .experiment = AT_SPACINGS,
                           .cell = cell_of(job->n, job->tangents),
                           .token = (uint64_t)replicate};
    walk w;
    memset(&w, 0, sizeof w);
    ES_TRY(walk_out(job, at, &w, err));
    finish(&w.soft, job->beta, out);
    out->bulk = w.bulk_sum / w.soft.sum;
    out->normality = w.normality;
    out->tangential = out->one = (double)NAN;
    return job->turned ? ES_OK : add_tangential(job, at, &w, scratch, out, err);
}

/* ==== all keys, tile by tile ====
 * A check of the above, and the only way for keys from a file. */

/* Lanes of a key of a vanishing density: its direction from 0 on, its distance here. */
enum { LANE_DISTANCE = ES_TOKENS_LANES };

enum { TILE = 128 }; /* keys at a time */

/* Doubles: a tile of keys, the query, the weighted sum of keys. */
int64_t es_brute_scratch(int64_t dim) { return (TILE + 2) * dim; }

bool es_unit_vector(double *x, int64_t dim)
{
    double most = 0.0, square = 0.0;
    for (int64_t j = 0; j < dim; j++)
        most = fmax(most, fabs(x[j]));
    if (!(most > 0.0))
        return false;
    for (int64_t j = 0; j < dim; j++) {
        x[j] /= most;
        square += x[j] * x[j];
    }
    for (int64_t j = 0; j < dim; j++)
        x[j] /= sqrt(square);
    return true;
}

/* ---- where keys come from ---- */

/* Draws keys of density proportional to |k - q|^p: T/2 ~ Beta(A, B), uniform direction. */
static es_status vanishing_rows(const es_brute *job, es_address at, int64_t count, double *x,
                                es_error *err)
{
    const int64_t dim = job->dim;
    const double B = 0.5 * (double)(dim - 1);
    for (int64_t i = 0; i < count; i++, at.token++) {
        double half, *key = x + i * dim;
        at.lane = LANE_DISTANCE;
        ES_TRY(es_beta_rows(&at, 1, 1, B + 0.5 * job->keys->vanish, B, &half, err));
        at.lane = 0;
        ES_TRY(es_sphere_rows(&at, 1, dim - 1, key + 1, err));
        key[0] = 1.0 - 2.0 * half;
        for (int64_t j = 1; j < dim; j++)
            key[j] *= 2.0 * sqrt(half * (1.0 - half));
    }
    return ES_OK;
}

/* Reads a point and scales it to norm 1. Fails if it is zero. */
static es_status point_row(const es_brute *job, int64_t row, double *x, es_error *err)
{
    es_view_read_row(job->points, row, x);
    if (es_unit_vector(x, job->dim))
        return ES_OK;
    return es_fail_at(err, ES_E_NUMERIC, row, 0, "regimes.zero", "leave such keys out",
                      "key %lld is the zero vector, which has no direction", (long long)row);
}

/* Draws keys `first`, ... of the replicate into x (count, dim). If the query is a point, it is
 * number 0 of the shuffle. */
static es_status key_rows(const es_brute *job, const es_address *at, const es_permutation *shuffle,
                          int64_t first, int64_t count, double *x, es_error *err)
{
    es_address from = *at;
    from.token = (uint64_t)first;
    if (job->sampler)
        return es_sampler_rows(job->sampler, &from, count, x, err);
    if (!job->points)
        return vanishing_rows(job, from, count, x, err);
    const int64_t skip = job->query ? 0 : 1;
    for (int64_t i = 0; i < count; i++)
        ES_TRY(point_row(job, es_permutation_at(shuffle, first + i + skip), x + i * job->dim, err));
    return ES_OK;
}

/* Sets the query: the given one, a point of the file, or the first basis vector. */
static es_status set_query(const es_brute *job, const es_permutation *shuffle, double *q,
                           es_error *err)
{
    memset(q, 0, (size_t)job->dim * sizeof *q);
    q[0] = 1.0;
    if (job->query)
        memcpy(q, job->query, (size_t)job->dim * sizeof *q);
    else if (job->points)
        return point_row(job, es_permutation_at(shuffle, 0), q, err);
    return ES_OK;
}

/* ---- sums ---- */

/* Rescales all sums to a key that is nearer by `step`. */
static void rescale(softsum *s, double step, double *output, int64_t dim)
{
    const double e = exp(-step);
    s->excess = e > 0.0 ? e * (s->excess + step * s->sum) : 0.0;
    s->sum *= e;
    s->squares *= e * e;
    for (int k = 0; k < ES_REGIMES_TOP; k++)
        s->top[k] *= e;
    for (int64_t j = 0; j < dim; j++)
        output[j] *= e;
}

/* Adds a key in any order. */
static void add_vector(softsum *s, double z, const double *key, double *output, int64_t dim)
{
    if (z < s->z) {
        if (s->sum > 0.0)
            rescale(s, s->z - z, output, dim);
        s->z = z;
    }
    const double y = z - s->z, e = exp(-y);
    s->sum += e;
    s->excess += e > 0.0 ? e * y : 0.0;
    s->squares += e * e;
    for (int64_t j = 0; j < dim; j++)
        output[j] += e * key[j];
    if (e <= s->top[ES_REGIMES_TOP - 1])
        return;
    int k = ES_REGIMES_TOP - 1;
    for (; k > 0 && s->top[k - 1] < e; k--)
        s->top[k] = s->top[k - 1];
    s->top[k] = e;
}

/* Returns T = |q - k|^2 / 2, which is 1 - <q, k> without cancellation. */
static double distance(const double *q, const double *k, int64_t dim)
{
    return 0.5 * es_distance_squared(q, k, dim);
}

/* Fills the part of the output orthogonal to the query, and one coordinate of it. */
static void set_tangential(const es_brute *job, const double *q, const double *output, double sum,
                           es_regimes_draw *out)
{
    double along = 0.0, square = 0.0;
    for (int64_t j = 0; j < job->dim; j++)
        along += q[j] * output[j];
    for (int64_t j = 0; j < job->dim; j++) {
        const double across = output[j] - along * q[j];
        square += across * across;
    }
    out->tangential = sqrt(square) / sum;
    out->one = job->points ? (double)NAN : output[1] / sum; /* q is the first basis vector */
}

es_status es_brute_draw(const es_brute *job, int64_t replicate, double *scratch,
                        es_regimes_draw *out, es_error *err)
{
    const int64_t dim = job->dim;
    double *tile = scratch, *q = tile + TILE * dim, *output = q + dim;
    const es_address at = {.seed = job->seed, .experiment = AT_KEYS, .cell = (uint64_t)replicate};
    es_permutation shuffle = {0};
    if (job->points)
        ES_TRY(es_permutation_init(&at, job->points->rows, &shuffle, err));
    ES_TRY(set_query(job, &shuffle, q, err));
    memset(output, 0, (size_t)dim * sizeof *output);
    softsum s = {.z = INFINITY};
    const int64_t drawn = job->n - (job->planted ? 1 : 0);
    if (job->planted)
        add_vector(&s, 0.0, q, output, dim);
    for (int64_t first = 0; first < drawn; first += TILE) {
        const int64_t count = drawn - first < TILE ? drawn - first : TILE;
        ES_TRY(key_rows(job, &at, &shuffle, first, count, tile, err));
        for (int64_t i = 0; i < count; i++)
            add_vector(&s, job->beta * distance(q, tile + i * dim, dim), tile + i * dim, output,
                       dim);
    }
    finish(&s, job->beta, out);
    set_tangential(job, q, output, s.sum, out);
    for (int64_t j = 0; job->outputs && j < dim; j++)
        job->outputs[replicate * dim + j] = output[j] / s.sum;
    out->bulk = out->normality = 0.0;
    return ES_OK;
}

/* ==== the critical limit ====
 * Its weights in order, from a Poisson process in order: s_k = b' (E_1 + ... + E_k)^{1/alpha}. */

enum { MOST = 4096, UNIT = 64 };

/* Replicates of the critical limit. */
typedef struct critical {
    uint64_t seed;
    double alpha, scaled, mean;
    int64_t replicates;
    es_regimes_draw *draws;
} critical;

/* Adds the points beyond s: the sum of e^-(x - s_1) is Gaussian, the sum of squares is its mean.
 * Both moments are integrals of the intensity (Campbell). */
static es_status add_rest(const critical *j, es_address at, double s, softsum *sum, es_error *err)
{
    double g[2];
    at.lane = MOST;
    ES_TRY(es_normal_rows(&at, 1, 2, g, err));
    const double first = sum->z;
    const double mean = exp(first) * j->mean * es_gamma_tail(j->alpha, s);
    const double squares =
        exp(2.0 * first) * j->mean * exp2(-j->alpha) * es_gamma_tail(j->alpha, 2.0 * s);
    sum->sum += fmax(mean + sqrt(squares) * g[0], 0.0);
    sum->squares += squares;
    return ES_OK;
}

/* Draws one replicate of the limit; see add_rest() for the points beyond MOST. */
static es_status draw_critical(const critical *j, int64_t replicate, es_regimes_draw *out,
                               es_error *err)
{
    es_address at = {.seed = j->seed, .experiment = AT_CRITICAL, .token = (uint64_t)replicate};
    double spacing[CHUNK], m = 0.0, s = 0.0;
    softsum sum = {0};
    bool over = false;
    for (int64_t k = 0; k < MOST && !over; k++) {
        if (k % CHUNK == 0) {
            at.lane = (uint32_t)(k / 2);
            ES_TRY(es_exponential_rows(&at, 1, CHUNK, spacing, err));
        }
        m += spacing[k % CHUNK];
        s = j->scaled * pow(m, 1.0 / j->alpha);
        if (k == 0)
            sum.z = s;
        const double e = exp(sum.z - s);
        sum.sum += e;
        sum.squares += e * e;
        if (k < ES_REGIMES_TOP)
            sum.top[k] = e;
        /* Beyond, the mean sum is at most e^-(s-s_1) times twice the intensity, from 2 alpha on. */
        over = k + 1 >= ES_REGIMES_TOP && s > 2.0 * j->alpha &&
               s - sum.z > 38.0 + fmax(log(2.0 * j->alpha * m / s), 0.0);
    }
    if (!over)
        ES_TRY(add_rest(j, at, s, &sum, err));
    finish(&sum, 1.0, out);
    out->entropy = out->deficit = out->tangential = out->one = out->bulk = out->normality =
        (double)NAN;
    return ES_OK;
}

/* Draws a unit of replicates of the critical limit. */
static es_status draw_unit(void *user, int64_t unit, int thread, es_error *err)
{
    (void)thread;
    const critical *j = user;
    for (int64_t r = unit * UNIT; r < (unit + 1) * UNIT && r < j->replicates; r++)
        ES_TRY(draw_critical(j, r, &j->draws[r], err));
    return ES_OK;
}

es_status es_critical_sample(uint64_t seed, double alpha, double scaled, int64_t replicates,
                             const es_exec *exec, es_regimes_draw *draws, es_error *err)
{
    ES_TRY(es_check_range(replicates, 1, 10000000, "regimes.replicates", err));
    if (!(alpha >= 0.0625 && alpha <= 4096.0 && scaled >= 1e-12 && scaled <= 1e12 &&
          es_critical_mean(alpha, scaled) <= 1e15))
        return es_fail(err, ES_E_RANGE, "weights.scaled",
                       "alpha from 1/16 to 4096, b' from 1e-12 to 1e12, 10^15 keys within reach",
                       "alpha is %g, b' is %g", alpha, scaled);
    critical j = {.seed = seed,
                  .alpha = alpha,
                  .scaled = scaled,
                  .mean = es_critical_mean(alpha, scaled),
                  .replicates = replicates,
                  .draws = draws};
    return es_parallel_run(exec, (replicates + UNIT - 1) / UNIT, draw_unit, &j, err);
}
