/* SPDX-License-Identifier: Apache-2.0 */
/* elementary.h : log, exp and the sine and cosine of a turn, with the same bits everywhere.
 *
 * The mathematical library of one system differs from that of the next in the last bit, and its
 * vector versions differ from its scalar ones. A sample must not. So the few functions that the
 * laws need are written here with + - * / and integer operations only, each of which IEEE 754
 * defines to the last bit; the build forbids contraction into FMA. They have no branch and no
 * table, so that a compiler can turn a loop over them into vector code, which then computes the
 * same roundings, only several at a time.
 *
 * The polynomials are near-minimax fits (Chebyshev) made for this file; the comment above each
 * gives the error of the fit. The error of a whole function, in units in the last place (ulp) of
 * the true result, is measured in tests/random/test_random.c against long double; the largest seen
 * on 2*10^7 arguments, and what the test allows:
 *
 *     es_negative_log   0.98, 1.0   any positive normal number
 *     es_exp            1.05, 1.1   where the result is normal
 *     es_turn           1.66, 1.7   both results, also next to their zeros
 */
#ifndef ES_RANDOM_ELEMENTARY_H
#define ES_RANDOM_ELEMENTARY_H

#include <stdint.h>
#include <string.h>

static inline uint64_t es_bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double es_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The centre of one of 2^52 equal cells of (0,1): an odd multiple of 2^-53, so never 0, never 1,
 * and never a quarter turn. The top 52 bits become the fraction of a number in [1,2); taking away
 * 1 - 2^-53 is exact. */
static inline double es_open_unit(uint64_t word)
{
    return es_of_bits((word >> 12) | UINT64_C(0x3ff0000000000000)) - (1.0 - 0x1p-53);
}

/* -log(x) for a positive normal x.
 *
 * x = 2^e (1+f) with 1+f in [sqrt(1/2), sqrt(2)), and with s = f/(2+f), z = s^2
 *     log(1+f) = 2 atanh(s) = 2s + s R(z) = f - s (f - R(z)),   R(z) = 2z/3 + 2z^2/5 + ...
 * The last form keeps f, which is exact, in front, so that the rounding of s hardly matters.
 * e log 2 is added in two parts, of which the larger is exact. Fit: |R - fit| < 9.2e-18. */
static inline double es_negative_log(double x)
{
    const uint64_t one = UINT64_C(0x3ff0000000000000), root = UINT64_C(0x3fe6a09e667f3bcd);
    const uint64_t shifted = es_bits_of(x) + (one - root);
    /* The biased exponent written into the low bits of 2^52 converts it to double exactly. */
    const double e = es_of_bits((shifted >> 52) | UINT64_C(0x4330000000000000)) - (0x1p52 + 1023.0);
    const double f = es_of_bits((shifted & UINT64_C(0x000fffffffffffff)) + root) - 1.0;
    const double s = f / (2.0 + f), z = s * s;
    /* Odd and even terms apart: two short chains of operations instead of a long one. */
    const double w = z * z;
    const double even =
        ((0x1.2b584aae78a57p-3 * w + 0x1.7462b4ab2ef6bp-3) * w + 0x1.2492492df148dp-2) * w +
        0x1.5555555555558p-1;
    const double odd = (0x1.39fe606542ddep-3 * w + 0x1.c71c62e5800a1p-3) * w + 0x1.99999999952e2p-2;
    const double r = even * z + odd * w;
    return (s * (f - r) - e * 0x1.ef35793c7673p-45 - f) - e * 0x1.62e42fefa38p-1;
}

/* cos(2 pi u) and sin(2 pi u) for u in (0,1).
 *
 * u = q/4 + r with q = 0..4 the nearest quarter and |r| <= 1/8; r is exact, so a result near zero
 * keeps its relative accuracy. With s = r^2
 *     sin(2 pi r) = 2 pi r + r s P(s),   cos(2 pi r) = 1 + s Q(s)
 * and q then says which of the two is the cosine, and the signs. 2 pi is taken in two parts.
 * Fits: |s P - fit| < 8e-17 against 4.5 < |sin(2 pi r)/r|; |s Q - fit| < 2e-19. */
static inline void es_turn(double u, double *cosine, double *sine)
{
    const double shifted = u * 4.0 + 0x1.8p52; /* rounds to an integer, kept in the low bits */
    const uint64_t q = es_bits_of(shifted);
    const double r = u - (shifted - 0x1.8p52) * 0.25, s = r * r;
    const double w = s * s;
    const double p0 = (-0x1.e3027dea82bd7p+3 * w - 0x1.32d2cce500387p+6) * w - 0x1.4abbce625be52p+5;
    const double p1 = (0x1.e4a9d9166f052p+1 * w + 0x1.50783208843ebp+5) * w + 0x1.466bc6775a476p+6;
    const double p = (p1 * s + p0) * s + 0x1.1a62633145c07p-52;
    const double small = r * 0x1.921fb54442d18p+2 + r * p;
    const double c0 =
        ((-0x1.b2f3eb054afcdp+0 * w - 0x1.a6d1eef479be1p+4) * w - 0x1.55d3c7e3cb241p+6) * w -
        0x1.3bd3cc9be45dep+4;
    const double c1 = (0x1.f9ce245cada0bp+2 * w + 0x1.e1f5068688d5bp+5) * w + 0x1.03c1f081b5acp+6;
    const double large = (c1 * s + c0) * s + 1.0;

    const uint64_t odd = 0 - (q & 1), a = es_bits_of(small), b = es_bits_of(large);
    const uint64_t swap = (a ^ b) & odd;
    *sine = es_of_bits((a ^ swap) ^ ((q & 2) << 62));
    *cosine = es_of_bits((b ^ swap) ^ (((q + 1) & 2) << 62));
}

/* e^r - 1, where x = k log 2 + r, |r| <= log(2)/2; *shifted is k + 1.5 2^52, k in its low bits.
 *
 * e^r = 1 + r + r^2 E(r); fit: |r^2 (E - fit)| < 1.3e-17. */
static inline double es_exp_reduced(double x, double *shifted)
{
    *shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52;
    const double k = *shifted - 0x1.8p52;
    const double r = (x - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45;
    double p = 0x1.af389ecfc4b9cp-26;
    p = p * r + 0x1.28917c89a43a7p-22;
    p = p * r + 0x1.71de0db2f6b19p-19;
    p = p * r + 0x1.a019b9149a41cp-16;
    p = p * r + 0x1.a01a01a7c2efep-13;
    p = p * r + 0x1.6c16c17889ef1p-10;
    p = p * r + 0x1.11111111109b5p-7;
    p = p * r + 0x1.5555555553d68p-5;
    p = p * r + 0x1.5555555555556p-3;
    p = p * r + 0x1.0000000000001p-1;
    return r + r * r * p;
}

/* exp(x); 0 below -745, and x above 709 is taken as 709. The power of two is applied in two halves
 * so that results may fade into the subnormal numbers. */
static inline double es_exp(double x)
{
    double shifted;
    x = x > 709.0 ? 709.0 : x;
    x = x < -746.0 ? -746.0 : x;
    const double e = 1.0 + es_exp_reduced(x, &shifted);
    const int64_t whole = (int64_t)(shifted - 0x1.8p52), half = whole / 2;
    return e * es_of_bits((uint64_t)(half + 1023) << 52) *
           es_of_bits((uint64_t)(whole - half + 1023) << 52);
}

/* Returns exp(x) for -708 <= x <= 709, where it is a normal number: the same bits as es_exp().
 * AVX2 has no conversion to 64-bit integers, which es_exp() needs; here the low bits of `shifted`
 * replace it. */
static inline double es_exp_normal(double x)
{
    double shifted;
    const double e = 1.0 + es_exp_reduced(x, &shifted);
    return e * es_of_bits((es_bits_of(shifted) + 1023) << 52);
}

#endif
