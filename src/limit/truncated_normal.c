/* truncated_normal.c : a normal law cut to an interval, under a tilt.
 *
 * The tilt moves the mean to m + s^2 t and leaves the interval. Formulas with Mills' ratio lose
 * a^4 eps in the variance when the interval lies a standard deviations out; a Gauss rule on the
 * density exp(-(x-c)(x+c)/2), c the point of [a, b] nearest to 0, loses nothing. */
#include <float.h>
#include <math.h>

#include "base/error.h"
#include "limit/gauss_rule.h"

enum { MOST = 96 };

#define HALF_LN_2PI 0.91893853320467274178
#define NOTHING     90.0 /* exp(-NOTHING/2) is below rounding */

/* Of the standard normal on [a, b]: ln of the mass, offset of the mean from `origin`, variance. */
typedef struct piece {
    double log_mass, origin, offset, variance;
} piece;

static es_status integrate(double a, double b, int n, piece *out, es_error *err)
{
    double node[MOST], off[MOST], weight[MOST], mass = 0.0;
    const double c = a > 0.0 ? a : b < 0.0 ? b : 0.0;
    /* y = x - c in [low, high], where the density exp(-y (y + 2c) / 2) is not negligible */
    const double reach = NOTHING / (sqrt(c * c + NOTHING) + fabs(c));
    const double low = fmax(a - c, -reach), high = fmin(b - c, reach);
    ES_TRY(es_gauss_beta(1.0, 1.0, n, node, off, weight, err));
    *out = (piece){.origin = c};
    for (int i = 0; i < n; i++) {
        node[i] = low + (high - low) * node[i];
        weight[i] *= exp(-0.5 * node[i] * (node[i] + 2.0 * c));
        mass += weight[i];
        out->offset += weight[i] * node[i];
    }
    out->offset /= mass;
    for (int i = 0; i < n; i++)
        out->variance += weight[i] / mass * (node[i] - out->offset) * (node[i] - out->offset);
    out->log_mass = log(mass * (high - low)) - 0.5 * c * c - HALF_LN_2PI;
    return ES_OK;
}

es_status es_limit_truncated(const es_truncated *law, double t, es_num out[3], es_error *err)
{
    const double m = law->mean, s = law->sd;
    if (!isfinite(t) || !isfinite(m) || !isfinite(law->low) || !isfinite(law->high))
        return es_fail(err, ES_E_NONFINITE, "limit.truncated", "give finite numbers",
                       "the truncated normal or its tilt is not finite");
    if (!(s > 0.0) || !isfinite(s) || !(law->low < law->high))
        return es_fail(err, ES_E_RANGE, "limit.truncated", "sd > 0 and low < high",
                       "sd is %g, the interval [%g, %g]", s, law->low, law->high);
    const double a0 = (law->low - m) / s, b0 = (law->high - m) / s;
    const double a = a0 - s * t, b = b0 - s * t;
    piece base, fine, coarse;
    ES_TRY(integrate(a0, b0, MOST, &base, err));
    ES_TRY(integrate(a, b, MOST, &fine, err));
    ES_TRY(integrate(a, b, MOST - 32, &coarse, err));

    /* c, and with it x = m + s^2 t + s c, is an end of the interval unless that contains m_t */
    const double origin = a > 0.0 ? law->low : b < 0.0 ? law->high : m + s * s * t;
    const double size = fabs(fine.log_mass) + fabs(base.log_mass) + fabs(m * t) + s * s * t * t;
    const double eps = 16.0 * DBL_EPSILON, moved = eps * (fabs(a) + fabs(b)) * fine.variance;
    out[0].val = m * t + 0.5 * s * s * t * t + fine.log_mass - base.log_mass;
    out[0].err = eps * (size + 1.0) + fabs(fine.log_mass - coarse.log_mass);
    out[1].val = origin + s * fine.offset;
    out[1].err = eps * (fabs(origin) + s * fabs(fine.offset)) +
                 s * (fabs(fine.offset - coarse.offset) + moved);
    out[2].val = s * s * fine.variance;
    out[2].err = s * s *
                 (eps * fine.variance + fabs(fine.variance - coarse.variance) +
                  2.0 * moved * sqrt(fine.variance));
    return ES_OK;
}
