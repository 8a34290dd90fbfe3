#include "lab/hardmax.h"

#include <math.h>

#include "base/error.h"
#include "stats/special.h"

/* Lanes of a replicate: 0 holds the two exponentials, the coins start at 1. */
enum { LANE_COINS = 1, TRIES = 64, FEW = 64 };

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
    const double min = -quantile_of(log_least, log1p(-exp(log_least)));
    return 0.5 * (max + min);
}

/* ---- queries = tokens ---- */

/* Heads among few coins, one uniform each. */
static es_status count_few(es_address at, int64_t n, int64_t *heads, es_error *err)
{
    double u[FEW];
    ES_TRY(es_uniform_rows(&at, 1, n, u, err));
    *heads = 0;
    for (int64_t i = 0; i < n; i++)
        *heads += u[i] < 0.5;
    return ES_OK;
}

/* Heads among n coins by transformed rejection (Hoermann 1993, algorithm BTRS for p = 1/2), exact
 * up to the rounding of the logarithm of a probability. A try has two uniforms and succeeds four
 * times in five; after TRIES of them, which never happens, the mode is as good as any. */
static es_status count_many(es_address at, int64_t n, int64_t *heads, es_error *err)
{
    const double deviation = 0.5 * sqrt((double)n), b = 1.15 + 2.53 * deviation;
    const double a = -0.0873 + 0.0248 * b + 0.01 * 0.5, sure = 0.92 - 4.2 / b;
    const double alpha = (2.83 + 5.1 / b) * deviation, at_mode = es_log_coins(n, n / 2);
    *heads = n / 2;
    for (int i = 0; i < TRIES; i++, at.lane++) {
        double uv[2];
        ES_TRY(es_uniform_rows(&at, 1, 2, uv, err));
        const double u = uv[0] - 0.5, us = 0.5 - fabs(u);
        /* Counted from n/2, which a double need not hold: n p + 1/2 = n/2 + (n odd)/2 + 1/2. */
        const double shift = floor((2.0 * a / us + b) * u + (n % 2 ? 1.0 : 0.5));
        if (fabs(shift) > 0.5 * (double)n)
            continue;
        const int64_t k = n / 2 + (int64_t)shift;
        if (k < 0 || k > n)
            continue;
        if ((us >= 0.07 && uv[1] <= sure) ||
            log(uv[1] * alpha / (a / (us * us) + b)) <= es_log_coins(n, k) - at_mode) {
            *heads = k;
            break;
        }
    }
    return ES_OK;
}

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
    ES_TRY((n <= FEW ? count_few : count_many)(at, n, &k, err));
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
