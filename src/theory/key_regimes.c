/* key_regimes.c : constants, asymptotic forms, and the name of a regime (THEORY 6).
 *
 * P(T <= t) ~ c t^alpha makes n keys' distances, times beta, a Poisson process of intensity
 * d(s/b')^alpha with b' = beta (n c)^{-1/alpha}. For b' -> infinity only the two nearest compete
 * and 1 - E w_max falls like 1/b'; for b' -> 0 the sum over keys is its mean, and bias and variance
 * follow from K_d at beta and 2 beta as in ball_constant.c. */
#include <esscher/key_weights.h>

#include <math.h>
#include <stdio.h>

#include <esscher/bessel.h>

#include "base/error.h"
#include "stats/special.h"

static const double log_2 = 0.69314718055994530942;

/* ---- scales ---- */

double es_critical_scale(const es_cap_exponent *cap, double n, double beta)
{
    return beta * exp(-(log(n) + cap->log_c) / cap->alpha);
}

double es_critical_mean(double alpha, double scaled)
{
    return exp(lgamma(alpha + 1.0) - alpha * log(scaled));
}

double es_freezing_scale(double alpha, double n)
{
    if (!(n > 1.0))
        return 0.0;
    const double log_x = log(n) / alpha;
    return 2.0 * alpha * exp(log_x) * sqrt(-expm1(-log_x));
}

void es_weights_supercritical(double alpha, double scaled, double *top, double *squares)
{
    const double loss = alpha > 0.5 ? alpha / scaled * tgamma(2.0 - 1.0 / alpha) : (double)NAN;
    *top = 1.0 - log_2 * loss;
    *squares = 1.0 - loss;
}

/* The density of T is t^{A-1} (1 - (B-1)/2 t + ...), and t is about A/beta where it counts: the
 * mean of sum e^{-beta T} lacks (B-1)/2 A/beta of itself, that of sum e^{-2 beta T} half as much.
 */
double es_critical_needs(const es_keys *keys, double n, double beta, double share)
{
    es_cap_exponent cap;
    if (es_keys_exponent(keys, &cap, NULL) != ES_OK || keys->n_parts > 0 || !(share > 0.0))
        return (double)NAN;
    const double B = 0.5 * (double)(keys->dim - 1);
    const double off = 1.5 * 0.5 * fabs(B - 1.0) * cap.alpha / beta;
    return off > 0.0 ? exp(log(n) + cap.alpha * log(off / share)) : 0.0;
}

/* ---- subcritical ---- */

es_status es_average_at(int64_t dim, double beta, es_average *out, es_error *err)
{
    if (dim < 2 || dim > 2049 || !(beta > 0.0 && beta <= 1e10))
        return es_fail(err, ES_E_RANGE, "average.range", "dim from 2 to 2049, beta in (0, 1e10]",
                       "dimension %lld, beta %g", (long long)dim, beta);
    es_num mean, mean2, slope2, K1, K2;
    ES_TRY(es_bessel_ratio(dim, beta, &mean, err));
    ES_TRY(es_bessel_ratio(dim, 2.0 * beta, &mean2, err));
    ES_TRY(es_bessel_slope(dim, 2.0 * beta, &slope2, err));
    ES_TRY(es_bessel_log_mgf(dim, beta, &K1, err));
    ES_TRY(es_bessel_log_mgf(dim, 2.0 * beta, &K2, err));
    const double D = exp(K2.val - 2.0 * K1.val), d = (double)dim;
    if (!isfinite(D))
        return es_fail(err, ES_E_OVERFLOW, "average.spread", "this is not the subcritical regime",
                       "n over the effective number of keys does not fit a number");
    /* K2 - 2 K1 is a difference of numbers near 2 beta. */
    const double off = K2.err + 2.0 * K1.err + 1e-15, gap = mean2.val - mean.val;
    const double gap_err = mean2.err + mean.err;
    const double radial = slope2.val + gap * gap;
    const double curve = 0.125 * (d - 1.0) * (d - 3.0);
    out->mean = mean;
    out->series = 1.0 - 0.5 * (d - 1.0) / beta + curve / (beta * beta) * (1.0 + 1.0 / beta);
    out->spread = (es_num){.val = D, .err = D * off};
    out->tangential = (es_num){.val = D * mean2.val / (2.0 * beta)};
    out->tangential.err = out->tangential.val * (off + mean2.err / mean2.val + 1e-15);
    out->radial = (es_num){.val = D * radial};
    out->radial.err =
        out->radial.val * (off + 1e-15) + D * (slope2.err + 2.0 * fabs(gap) * gap_err);
    return ES_OK;
}

/* ---- naming ---- */

const char *es_regime_name(es_regime regime)
{
    static const char *const names[] = {"?", "subcritical", "critical", "supercritical"};
    const int i = (int)regime;
    return names[i >= 1 && i <= 3 ? i : 0];
}

void es_regime_of(double n, double top, double squares, es_regime_finding *out)
{
    const double ess = 1.0 / squares;
    if (top > 0.9) {
        out->regime = ES_REGIME_SUPERCRITICAL;
        snprintf(out->reason, sizeof out->reason,
                 "the nearest key has %.3g %% of the weight on average", 100.0 * top);
    } else if (ess >= 100.0 || n * squares < 1.5) {
        out->regime = ES_REGIME_SUBCRITICAL;
        snprintf(out->reason, sizeof out->reason, "%.3g of %.3g keys share the weight: it averages",
                 ess, n);
    } else {
        out->regime = ES_REGIME_CRITICAL;
        snprintf(out->reason, sizeof out->reason,
                 "some %.3g keys share the weight, the nearest has %.3g %% on average", ess,
                 100.0 * top);
    }
}
