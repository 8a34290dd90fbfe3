/* SPDX-License-Identifier: Apache-2.0 */
/* half.h : IEEE binary16 and bfloat16 to binary32, exactly, and back, rounded. */
#ifndef ES_BASE_HALF_H
#define ES_BASE_HALF_H

#include <stdint.h>
#include <string.h>

/* Every half is a float, so no rounding happens and NaN keeps its sign and payload. */
static inline float es_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13; /* 112 = 127 - 15 */
    } else if (fraction == 0) {
        bits = sign;
    } else { /* subnormal in half, normal in float: move the leading bit to where it is implied */
        for (exponent = 113; !(fraction & 1024u); exponent--)
            fraction <<= 1;
        bits = sign | exponent << 23 | (fraction & 1023u) << 13;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to the nearest half, ties to even; numbers that are too large become Inf, NaN stays NaN.
 */
static inline uint16_t es_half_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (bits >= 0x477ff000u) /* 65520 and above round to 65536, which is none of ours */
        return (uint16_t)(sign | 0x7c00u);
    if (bits < 0x33000000u) /* below 2^-25, half of the least half */
        return sign;
    /* The fraction with its leading bit; `drop` low bits of it go. */
    const uint32_t exponent = bits >> 23;
    const uint32_t fraction = (bits & 0x7fffffu) | 0x800000u;
    const uint32_t drop = exponent < 113 ? 126 - exponent : 13;
    const uint32_t kept = fraction >> drop, rest = fraction & ((1u << drop) - 1);
    const uint32_t half = 1u << (drop - 1);
    const uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1u)));
    /* A carry out of the fraction raises the exponent by itself. */
    return (uint16_t)(sign | (exponent < 113 ? rounded : rounded + ((exponent - 113) << 10)));
}

/* A bfloat16 is the upper half of a float. */
static inline float es_bf16_to_float(uint16_t upper)
{
    const uint32_t bits = (uint32_t)upper << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest bfloat16, ties to even; NaN stays NaN. */
static inline uint16_t es_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
