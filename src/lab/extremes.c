#include "lab/hardmax.h"

#include <math.h>

#include "base/error.h"
#include "stats/special.h"

enum { LANE_COINS = 1 }; /* lane 0 of a replicate holds its two exponentials */

/* ln(1 - exp(-x)), the logarithm of a tail, for x > 0. */
static double log_tail_of(double x) { return log(-expm1(-x)); }

/* The x whose upper tail and lower tail have these logarithms; the smaller one is exact. */
static double quantile_of(double log_upper, double log_lower)
{
    return log_upper <= log_lower ? es_normal_tail_quantile(log_upper)
                                  : -es_normal_tail_quantile(log_lower);
}

/* (max + min)/2 of n standard normals, from two exponentials. The largest of n uniforms is
 * V = exp(-e_0/n); the others are uniform below it, so that the smallest is
 * V (1 - exp(-e_1/(n-1))). Neither 1 - V nor the smallest is formed, only their logarithms. */
static double midrange(int64_t n, const double e[2])
{
    const double log_v = -e[0] / (double)n;
    const double max = quantile_of(log_tail_of(-log_v), log_v);
    if (n == 1)
        return max;
    const double log_least = log_v + log_tail_of(e[1] / (double)(n - 1));
    const double min = -quantile_of(log_least, log_tail_of(-log_least));
    return 0.5 * (max + min);
}

/* ---- queries = tokens ---- */

/* The largest of k half-normals, from one exponential: 2 Q = 1 - exp(-e/k). */
static double largest_half_normal(int64_t k, double e)
{
    return k == 0 ? 0.0
                  : es_normal_tail_quantile(log_tail_of(e / (double)k) - 0.69314718055994530942);
}

static es_status own_queries(es_address at, int64_t n, const double e[2], double *out,
                             es_error *err)
{
    int64_t k;
    at.lane = LANE_COINS;
    ES_TRY(es_coins_draw(at, n, &k, err));
    const double size = (double)n;
    *out = (double)k / size * largest_half_normal(k, e[0]) -
           (double)(n - k) / size * largest_half_normal(n - k, e[1]);
    return ES_OK;
}

es_status es_extremes_draw(es_address at, es_hardmax_queries queries, int64_t n, int64_t first,
                           int64_t count, double *out, es_error *err)
{
    for (int64_t i = 0; i < count; i++) {
        double e[2];
        at.token = (uint64_t)(first + i);
        ES_TRY(es_exponential_rows(&at, 1, 2, e, err));
        if (queries == ES_HARDMAX_POPULATION)
            out[i] = midrange(n, e);
        else
            ES_TRY(own_queries(at, n, e, &out[i], err));
    }
    return ES_OK;
}
