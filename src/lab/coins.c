#include "lab/hardmax.h"

#include <math.h>

#include "base/error.h"
#include "stats/special.h"

enum { TRIES = 64, FEW = 64 };

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

es_status es_coins_draw(es_address at, int64_t n, int64_t *heads, es_error *err)
{
    return (n <= FEW ? count_few : count_many)(at, n, heads, err);
}
