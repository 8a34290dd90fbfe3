/* exponents.c : powers of n for n -> infinity (THEORY 4.3, 4.4) and constants of the CLT.
 *
 * One query, q = u sqrt(2 ln n): n e^{-g^2/2} tokens have score q g, up to g = sqrt(2 ln n), and
 * whichever g makes the error largest decides: inside that range (exponent 1/2 - u^2) or at its
 * end, where a few tokens have all the weight. Averaging e^{-theta ln n} over x ~ N(0, S), whose
 * largest q grow like H |x|, is one more maximum, which is where H enters. Heuristic; checked by
 * rem.c. */
#include <esscher/theory.h>

#include <math.h>

#include "base/error.h"

es_status es_exponents_at(double horizon, es_exponents *out, es_error *err)
{
    if (!(horizon >= 0.0) || isinf(horizon))
        return es_fail(err, ES_E_RANGE, "theory.horizon", "a norm is finite and not negative",
                       "the horizon is %g", horizon);
    const double h2 = horizon * horizon;
    /* sqrt(1+x) - 1 without cancellation */
    const double four = 4.0 / h2 / (sqrt(1.0 + 4.0 / h2) + 1.0);
    const double eight = 8.0 / h2 / (sqrt(1.0 + 8.0 / h2) + 1.0);
    out->paper = 0.5 / (1.0 + h2);
    out->query_rms = h2 <= 0.5 ? 0.5 : 0.25 * four;
    out->cov_bias = 2.0 * out->query_rms;
    out->mean_rms = h2 <= 1.0 ? 0.5 : 0.25 * eight;
    out->mean_abs = fmin(0.5, 1.0 / (1.0 + h2));
    return ES_OK;
}

es_status es_rem_phase(double u, es_rem_exponents *out, es_error *err)
{
    if (!(u >= 0.0))
        return es_fail(err, ES_E_RANGE, "theory.phase", "u = q/sqrt(2 log n) is not negative",
                       "u is %g", u);
    const double u2 = u * u;
    *out = (es_rem_exponents){0};
    if (u >= 1.0)
        return ES_OK;
    out->typical = u <= 0.5 ? 0.5 - u2 : (1.0 - u) * (1.0 - u);
    out->rms = 3.0 * u2 <= 1.0 ? 0.5 - u2 : (1.0 - u2) * (1.0 - u2) / (8.0 * u2);
    out->participation = 2.0 * out->rms;
    out->ess = 2.0 * out->typical;
    return ES_OK;
}

double es_rem_slope(double q, double n)
{
    if (!(q >= 0.0) || !(n > 1.0))
        return NAN;
    const double L = log(n), q2 = q * q;
    if (q2 <= 2.0 / 3.0 * L)
        return 0.5;
    return q2 < 2.0 * L ? 0.25 * (2.0 * L / q2 - 1.0) : 0.0;
}

es_status es_mean_clt(const double *h, int64_t count, double *out, es_error *err)
{
    if (!h || count < 1 || !out)
        return es_fail(err, ES_E_ARGUMENT, "theory.clt", "give the singular values of M",
                       "no singular values");
    double log_product = 0.0, sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double h2 = h[i] * h[i], rest = (1.0 - h2) * (1.0 + h2);
        if (!(h[i] >= 0.0 && h[i] < 1.0))
            return es_fail_at(err, ES_E_RANGE, i, 0, "theory.clt", "the CLT holds for H < 1",
                              "a singular value is %g", h[i]);
        log_product += log(rest);
        sum += 1.0 / rest;
    }
    *out = exp(-0.5 * log_product) * sum;
    return ES_OK;
}
