/* SPDX-License-Identifier: Apache-2.0 */
/* damping.h : e^{-x} at x = l w, and the steps in ln l of the integrals of THEORY 13.
 *
 * 1/Z^2 = int l e^{-lZ} dl, and with l = e^t factors l and w go together as x = e^{t + ln w}, so
 * that nothing under- or overflows whatever the weights' range. The trapezoid rule with step h gets
 * int (lZ)^2 e^{-lZ} dt right to 2 |Gamma(2 + 2 pi i/h)| of it, 9e-12 for h = 20/64, whatever Z;
 * so it gets every mean of such integrals. */
#ifndef ES_RISK_DAMPING_H
#define ES_RISK_DAMPING_H

#include <math.h>

static const double ES_DAMPING_STEP = 20.0 / 64.0; /* in t = ln l */
static const double ES_DAMPING_RULE = 1e-11;       /* of the trapezoid rule, above */
static const double ES_DAMPING_LARGEST = 6.6;      /* ln x: e^{-x} is zero from x = 735 on */

/* What the rule may be off by with another step h: 2 |Gamma(2 + iy)| = 2 sqrt((1 + y^2) pi
 * y/sinh(pi y)), y = 2 pi/h; harmonics beyond the first are below its square for h <= 2. */
static inline double es_damping_rule(double h)
{
    const double pi = 3.14159265358979323846, y = 2.0 * pi / h;
    return 2.0 * sqrt((1.0 + y * y) * pi * y / sinh(pi * y));
}

/* x, e^{-x} and 1 - e^{-x}. */
typedef struct es_damping {
    double x, kept, lost;
} es_damping;

static inline es_damping es_damping_at(double log_x)
{
    if (log_x > ES_DAMPING_LARGEST)
        return (es_damping){.lost = 1.0}; /* x e^{-x} is zero, too */
    const double x = exp(log_x);
    return (es_damping){x, exp(-x), -expm1(-x)};
}

#endif
