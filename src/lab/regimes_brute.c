/* regimes_brute.c : one replicate with all its keys, tile by tile. The check of everything else,
 * and the only way for keys that come from a file. */
#include "lab/regimes.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

/* Lanes of a key of a vanishing density: its direction from 0 on, its distance here. */
enum { LANE_DISTANCE = ES_TOKENS_LANES };

/* Doubles: a tile of keys, the query, the weighted sum of keys. */
int64_t es_brute_scratch(int64_t dim) { return (ES_BRUTE_TILE + 2) * dim; }

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

/* Density proportional to |k - q|^p: T/2 ~ Beta(A, B), the direction uniform. */
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

static es_status point_row(const es_brute *job, int64_t row, double *x, es_error *err)
{
    es_view_read_row(job->points, row, x);
    if (es_unit_vector(x, job->dim))
        return ES_OK;
    return es_fail_at(err, ES_E_NUMERIC, row, 0, "regimes.zero", "leave such keys out",
                      "key %lld is the zero vector, which has no direction", (long long)row);
}

/* Keys `first`..  of the replicate into x (count, dim). Where the query is a point, it is number 0
 * of the shuffle. */
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

static es_status put_query(const es_brute *job, const es_permutation *shuffle, double *q,
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

/* Everything relative to a key that is nearer by `step`. */
static void come_nearer(es_softsum *s, double step, double *output, int64_t dim)
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

static void meet(es_softsum *s, double z, const double *key, double *output, int64_t dim)
{
    if (z < s->z) {
        if (s->sum > 0.0)
            come_nearer(s, s->z - z, output, dim);
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

/* T = |q - k|^2 / 2: 1 - <q, k> without the cancellation. */
static double distance(const double *q, const double *k, int64_t dim)
{
    double sum = 0.0;
    for (int64_t j = 0; j < dim; j++)
        sum += (q[j] - k[j]) * (q[j] - k[j]);
    return 0.5 * sum;
}

static void put_tangential(const es_brute *job, const double *q, const double *output, double sum,
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
    double *tile = scratch, *q = tile + ES_BRUTE_TILE * dim, *output = q + dim;
    const es_address at = {
        .seed = job->seed, .experiment = ES_REGIMES_KEYS, .cell = (uint64_t)replicate};
    es_permutation shuffle = {0};
    if (job->points)
        ES_TRY(es_permutation_init(&at, job->points->rows, &shuffle, err));
    ES_TRY(put_query(job, &shuffle, q, err));
    memset(output, 0, (size_t)dim * sizeof *output);
    es_softsum s = {.z = INFINITY};
    const int64_t drawn = job->n - (job->planted ? 1 : 0);
    if (job->planted)
        meet(&s, 0.0, q, output, dim);
    for (int64_t first = 0; first < drawn; first += ES_BRUTE_TILE) {
        const int64_t count = drawn - first < ES_BRUTE_TILE ? drawn - first : ES_BRUTE_TILE;
        ES_TRY(key_rows(job, &at, &shuffle, first, count, tile, err));
        for (int64_t i = 0; i < count; i++)
            meet(&s, job->beta * distance(q, tile + i * dim, dim), tile + i * dim, output, dim);
    }
    es_softsum_finish(&s, job->beta, out);
    put_tangential(job, q, output, s.sum, out);
    out->bulk = out->normality = 0.0;
    return ES_OK;
}
