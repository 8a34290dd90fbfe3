/* SPDX-License-Identifier: Apache-2.0 */
/* packed.c : numbers in blocks of MXFP4. */
#include "model/packed.h"

#include <math.h>
#include <stdbool.h>

/* The numbers that four bits stand for, without their scale. */
static const float e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* Decodes one group to numbers of f32. @return : false if one of them is not finite. */
static bool decode_f32(const unsigned char *block, float scale, float *out)
{
    bool finite = true;
    for (int i = 0; i < ES_PACKED_GROUP; i++) {
        out[i] = e2m1[block[i / 2] >> 4 * (i % 2) & 15] * scale;
        finite = finite && isfinite(out[i]);
    }
    return finite;
}

/* Decodes one group to numbers of f64. @return : as decode_f32(). */
static bool decode_f64(const unsigned char *block, double scale, double *out)
{
    bool finite = true;
    for (int i = 0; i < ES_PACKED_GROUP; i++) {
        out[i] = (double)e2m1[block[i / 2] >> 4 * (i % 2) & 15] * scale;
        finite = finite && isfinite(out[i]);
    }
    return finite;
}

int64_t es_packed_decode(const unsigned char *blocks, const unsigned char *scales, int64_t groups,
                         es_dtype dtype, void *out)
{
    enum { NAN_SCALE = 255 }; /* of the format's own definition */
    int64_t first = -1;
    for (int64_t g = 0; g < groups; g++) {
        const unsigned char *block = blocks + g * (ES_PACKED_GROUP / 2);
        const double scale = scales[g] == NAN_SCALE ? (double)NAN : ldexp(1.0, scales[g] - 127);
        const bool finite =
            dtype == ES_F32 ? decode_f32(block, (float)scale, (float *)out + g * ES_PACKED_GROUP)
                            : decode_f64(block, scale, (double *)out + g * ES_PACKED_GROUP);
        if (!finite && first < 0)
            first = g;
    }
    return first;
}
