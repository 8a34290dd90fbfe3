#include <esscher/fit.h>

#include <math.h>

#include "base/error.h"

/* ln mean exp(x^2/s^2) for s = top * exp(log_s), top the largest |x|: the exponents are scaled
 * before they are squared, and the largest is taken out. */
static double log_mean(const double *x, int64_t count, double top, double log_s)
{
    const double most = exp(-2.0 * log_s);
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double r = x[i] / top;
        sum += exp(most * (r * r - 1.0));
    }
    return most + log(sum / (double)count);
}

es_status es_psi2_norm(const double *x, int64_t count, double *out, es_error *err)
{
    if (!x || !out)
        return es_fail(err, ES_E_ARGUMENT, "psi2.null", "", "x or out is NULL");
    if (count < 1)
        return es_fail(err, ES_E_EMPTY, "psi2.count", "", "the sample is empty");
    double top = 0.0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return es_fail_at(err, ES_E_NONFINITE, i, -1, "psi2.finite", "", "x[%lld] is %g",
                              (long long)i, x[i]);
        top = fmax(top, fabs(x[i]));
    }
    if (top == 0.0) {
        *out = 0.0;
        return ES_OK;
    }
    /* If all x were as large as the largest, s^2 = top^2 / ln 2; if all others were 0, at least
     * top^2 / ln(2 count). */
    const double log_2 = 0.69314718055994530942;
    double low = -0.5 * log(log(2.0 * (double)count)), high = -0.5 * log(log_2);
    while (high - low > 1e-15) {
        const double middle = 0.5 * (low + high);
        if (middle <= low || middle >= high)
            break;
        *(log_mean(x, count, top, middle) > log_2 ? &low : &high) = middle;
    }
    *out = top * exp(high);
    return ES_OK;
}
