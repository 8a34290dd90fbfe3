/* half.h : IEEE binary16 to binary32, exactly. */
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

#endif
