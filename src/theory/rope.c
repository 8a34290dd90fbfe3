/* SPDX-License-Identifier: Apache-2.0 */
/* rope.c : score decay of rotary embeddings (THEORY 8).
 *
 * With x = j/(d/2) the sum (2/d) sum cos(D base^{-2j/d}) is int_0^1 cos(D base^{-x}) dx, and z = D
 * base^{-x}, dz = -z ln base dx makes it int_{D/base}^{D} cos z/z dz / ln base = (Ci(D) -
 * Ci(D/base))/ln base. */
#include "theory/rope.h"

#include <math.h>
#include <stdbool.h>

static const double half_pi = 1.5707963267948966, euler = 0.57721566490153286;

/* ---- Ci and Si ---- */

/* Power series; below 4 the largest term is 10, of which a digit is lost at most. */
static void series(double x, double *ci, double *si)
{
    double term = 1.0, sum_c = 0.0, sum_s = 0.0; /* term = x^k/k! with the sign of its pair */
    for (int k = 0; k < 60; k++) {
        if (k % 2)
            sum_s += (k % 4 == 1 ? term : -term) / k;
        else if (k)
            sum_c += (k % 4 == 0 ? term : -term) / k;
        term *= x / (k + 1);
    }
    *ci = euler + log(x) + sum_c;
    *si = sum_s;
}

/* E_1(ix) = e^{-ix} / (ix+1 - 1/(ix+3 - 4/(ix+5 - ...))), Ci = -Re, Si = pi/2 + Im, by Lentz's
 * method. From 4 on some 40 terms are enough, fewer the larger x is. */
static void fraction(double x, double *ci, double *si)
{
    double b = 1.0; /* of b + ix */
    double size = b * b + x * x, dr = b / size, di = -x / size;
    double cr = 1e300, ci_ = 0.0, hr = dr, hi = di;
    for (int i = 1; i < 200; i++) {
        const double a = -(double)i * i;
        b += 2.0;
        /* d = 1/(a d + b), c = b + a/c, h *= c d */
        const double er = a * dr + b, ei = a * di + x;
        size = er * er + ei * ei;
        dr = er / size, di = -ei / size;
        const double cc = cr * cr + ci_ * ci_;
        const double nr = b + (cr == 1e300 ? 0.0 : a * cr / cc);
        const double ni = x - (cr == 1e300 ? 0.0 : a * ci_ / cc);
        cr = nr, ci_ = ni;
        const double fr = cr * dr - ci_ * di, fi = cr * di + ci_ * dr;
        const double tr = hr * fr - hi * fi;
        hi = hr * fi + hi * fr;
        hr = tr;
        if (fabs(fr - 1.0) + fabs(fi) < 1e-16)
            break;
    }
    const double c = cos(x), s = sin(x); /* e^{-ix} = c - i s */
    *ci = -(hr * c + hi * s);
    *si = half_pi + (hi * c - hr * s);
}

/* Returns the cosine and sine integrals Ci(x), Si(x): by series below 4, by a continued fraction
 * above. */
static void integrals(double x, double *ci, double *si)
{
    if (x < 4.0)
        series(x, ci, si);
    else
        fraction(x, ci, si);
}

double es_cosine_integral(double x)
{
    double ci = (double)NAN, si;
    if (x == INFINITY)
        return 0.0;
    if (x > 0.0)
        integrals(x, &ci, &si);
    return ci;
}

double es_sine_integral(double x)
{
    double ci, si = x == 0.0 ? 0.0 : (double)NAN;
    if (x == INFINITY)
        return half_pi;
    if (x > 0.0)
        integrals(x, &ci, &si);
    return si;
}

/* ---- scores ---- */

/* Returns the scale of positions; 0 stands for 1. */
static double scale_of(const es_rope *r) { return r->scale == 0.0 ? 1.0 : r->scale; }

/* Returns true for an even dimension, a base above 1 and a scale of at least 1. */
static bool makes_sense(const es_rope *r)
{
    return r->dim >= 2 && r->dim % 2 == 0 && r->base > 1.0 && isfinite(r->base) &&
           scale_of(r) >= 1.0 && isfinite(scale_of(r));
}

/* Returns the mean score of equal vectors at a distance, 2/sqrt(d) sum_j cos(D theta_j),
 * theta_j = base^(-2j/d) (THEORY 8). */
double es_rope_score(const es_rope *rope, double distance)
{
    if (!makes_sense(rope) || !(distance >= 0.0) || !isfinite(distance))
        return (double)NAN;
    const double d = (double)rope->dim, step = -2.0 * log(rope->base) / d;
    const double D = distance / scale_of(rope);
    double sum = 0.0;
    for (int64_t j = 0; j < rope->dim / 2; j++)
        sum += cos(D * exp(step * (double)j));
    return 2.0 / sqrt(d) * sum;
}

/* Ci(D) - Ci(D/b) over ln b; near 0, where both are infinite, the series of the difference. */
static double decay(double D, double base)
{
    const double low = D / base;
    if (D < 1e-8)
        return 1.0;
    if (low < 1e-300)
        return (es_cosine_integral(D) - euler - log(D) + log(base)) / log(base);
    return (es_cosine_integral(D) - es_cosine_integral(low)) / log(base);
}

double es_rope_continuum(const es_rope *rope, double distance)
{
    if (!makes_sense(rope) || !(distance >= 0.0) || !isfinite(distance))
        return (double)NAN;
    return sqrt((double)rope->dim) * decay(distance / scale_of(rope), rope->base);
}

/* Ci(D) swings by 1/D around its fall, so the first change of sign is looked for in steps smaller
 * than a swing where swings could matter, then bisected. */
double es_rope_reach(const es_rope *rope)
{
    if (!makes_sense(rope))
        return (double)NAN;
    const double base = rope->base;
    double low = 0.5, high = 0.5;
    while (decay(high, base) > 0.0) {
        low = high;
        /* While the fall has more left than the swings of Ci, nothing can cross. */
        const double left = decay(low, base) * log(base), swing = 2.0 / low;
        high = left > swing ? low * fmin(1.5, exp(0.25 * (left - swing))) + 1e-3 : low + 0.05;
    }
    for (int i = 0; i < 100; i++) {
        const double mid = 0.5 * (low + high);
        *(decay(mid, base) > 0.0 ? &low : &high) = mid;
    }
    return scale_of(rope) * 0.5 * (low + high);
}

int64_t es_rope_first_negative(const es_rope *rope, int64_t most)
{
    for (int64_t D = 1; D <= most; D++)
        if (es_rope_score(rope, (double)D) < 0.0)
            return D;
    return 0;
}

/* ---- granularity ---- */

/* Returns 2/d sum_j sin(theta_j/scale), how far neighbouring positions are turned apart, as a mean
 * over pairs of channels (THEORY 8). */
double es_rope_granularity(const es_rope *rope)
{
    if (!makes_sense(rope))
        return (double)NAN;
    const double d = (double)rope->dim, step = -2.0 * log(rope->base) / d;
    double sum = 0.0;
    for (int64_t j = 0; j < rope->dim / 2; j++)
        sum += sin(exp(step * (double)j) / scale_of(rope));
    return 2.0 / d * sum;
}

double es_rope_granularity_limit(const es_rope *rope)
{
    if (!makes_sense(rope))
        return (double)NAN;
    const double s = scale_of(rope);
    return (es_sine_integral(1.0 / s) - es_sine_integral(1.0 / (s * rope->base))) / log(rope->base);
}
