/* regimes_nearest.c : one replicate from its nearest keys outwards.
 *
 * If U_(1) < U_(2) < ... are n uniforms in order, -ln(1 - U_(k)) = sum_{j<=k} E_j/(n-j+1) with
 * independent exponentials E_j (Renyi): the k nearest of 10^18 keys cost k exponentials. */
#include "lab/regimes.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

#define NOTHING 37.0 /* e^-NOTHING is 1e-16 */
enum { CHUNK = 64, MOST_DIRECTIONS = 64 };

void es_softsum_finish(const es_softsum *s, double beta, es_regimes_draw *out)
{
    for (int k = 0; k < ES_REGIMES_TOP; k++)
        out->top[k] = s->top[k] / s->sum;
    out->squares = s->squares / (s->sum * s->sum);
    out->entropy = log(s->sum) + s->excess / s->sum;
    out->deficit = (s->z + s->excess / s->sum) / beta;
}

/* What is summed over the keys in order. */
typedef struct walk {
    es_softsum soft;
    int64_t count;              /* keys so far, a planted one included */
    double e[MOST_DIRECTIONS];  /* e r of the first */
    double across;              /* sum of e^2 r^2 over the others */
    double bulk_sum, normality; /* of the Gaussian sum */
} walk;

static void meet(const es_nearest *job, walk *w, es_cap_place at)
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

/* The sum over N farther keys, (sum X, sum XY, sum X^2), as a Gaussian vector: its exact mean, its
 * exact covariance by Cholesky, whose pivots may be 0. */
static es_status add_bulk(const es_nearest *job, es_address at, es_cap_place last, double N,
                          walk *w, es_error *err)
{
    const es_bulk_moments m = es_bulk_beyond(&job->bulk, last);
    double g[4];
    at.experiment = ES_REGIMES_BULK;
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

static es_status walk_out(const es_nearest *job, es_address at, walk *w, es_error *err)
{
    double spacing[CHUNK], depth = 0.0;
    int64_t near = 0;
    es_cap_place place = {.t = 0.0, .rest = 2.0};
    if (job->planted)
        meet(job, w, place);
    for (int64_t k = 0; k < job->ordered; k++) {
        if (k % CHUNK == 0) {
            at.lane = (uint32_t)(k / 2);
            ES_TRY(es_exponential_rows(&at, 1, CHUNK, spacing, err));
        }
        depth += spacing[k % CHUNK] / (double)(job->n - k);
        place = es_cap_quantile(&job->cap, log(expm1(depth)), &near);
        meet(job, w, place);
        const int64_t left = job->n - k - 1;
        if (left == 0 || (w->count >= ES_REGIMES_TOP &&
                          log((double)left) - (job->beta * place.t - w->soft.z) < -NOTHING))
            return ES_OK;
    }
    at.lane = 0;
    return job->n > job->ordered ? add_bulk(job, at, place, (double)(job->n - job->ordered), w, err)
                                 : ES_OK;
}

/* The tangential part: directions of the nearest keys are drawn, the sum over the others, given
 * their weights, is Gaussian of the same covariance. scratch (2 tangents): it, and a direction. */
static es_status turn(const es_nearest *job, es_address at, const walk *w, double *scratch,
                      es_regimes_draw *out, es_error *err)
{
    const int64_t D = job->tangents;
    double *sum = scratch, *omega = scratch + D;
    at.experiment = ES_REGIMES_BULK;
    at.lane = 2;
    ES_TRY(es_normal_rows(&at, 1, D, sum, err));
    const double spread = sqrt(w->across / (double)D);
    for (int64_t j = 0; j < D; j++)
        sum[j] *= spread;
    at.experiment = ES_REGIMES_DIRECTIONS;
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

/* A cell of the address space for n keys in this dimension. */
static uint64_t cell_of(int64_t n, int64_t tangents)
{
    const uint64_t h = (uint64_t)n * UINT64_C(0x9E3779B97F4A7C15) ^
                       (uint64_t)tangents * UINT64_C(0xBF58476D1CE4E5B9);
    return (h ^ h >> 29) & ((UINT64_C(1) << 48) - 1);
}

es_status es_nearest_draw(const es_nearest *job, int64_t replicate, double *scratch,
                          es_regimes_draw *out, es_error *err)
{
    const es_address at = {.seed = job->seed,
                           .experiment = ES_REGIMES_SPACINGS,
                           .cell = cell_of(job->n, job->tangents),
                           .token = (uint64_t)replicate};
    walk w;
    memset(&w, 0, sizeof w);
    ES_TRY(walk_out(job, at, &w, err));
    es_softsum_finish(&w.soft, job->beta, out);
    out->bulk = w.bulk_sum / w.soft.sum;
    out->normality = w.normality;
    out->tangential = out->one = (double)NAN;
    return job->turned ? ES_OK : turn(job, at, &w, scratch, out, err);
}
