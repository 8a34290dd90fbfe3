/* SPDX-License-Identifier: Apache-2.0 */
/* immintrin.h : stands in for the compiler's, with every intrinsic emulated by SIMDe, so that
 * AVX-512 tiles can be tested on a CPU without it. */
#define SIMDE_NO_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/* What SIMDe 0.7 lacks of it, made from what it has. */
#define __mmask8  simde__mmask8
#define __mmask16 simde__mmask16

#ifndef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, lanes)                                                          \
    simde_mm512_castsi512_ps(simde_mm512_shuffle_i32x4(simde_mm512_castps_si512(a),                \
                                                       simde_mm512_castps_si512(b), lanes))
#endif
#ifndef _mm512_shuffle_f64x2
#define _mm512_shuffle_f64x2(a, b, lanes)                                                          \
    simde_mm512_castsi512_pd(simde_mm512_shuffle_i32x4(simde_mm512_castpd_si512(a),                \
                                                       simde_mm512_castpd_si512(b), lanes))
#endif
#ifndef _mm512_permute_ps
#define _mm512_permute_ps(a, order) simde_mm512_shuffle_ps(a, a, order)
#endif
#ifndef _mm512_maskz_loadu_ps
static inline simde__m512 _mm512_maskz_loadu_ps(__mmask16 mask, const float *p)
{
    float x[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            x[i] = p[i];
    return simde_mm512_loadu_ps(x);
}
#endif
#ifndef _mm512_maskz_loadu_pd
static inline simde__m512d _mm512_maskz_loadu_pd(__mmask8 mask, const double *p)
{
    double x[8] = {0};
    for (int i = 0; i < 8; i++)
        if (mask >> i & 1)
            x[i] = p[i];
    return simde_mm512_loadu_pd(x);
}
#endif
