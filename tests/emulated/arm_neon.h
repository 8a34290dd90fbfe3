/* SPDX-License-Identifier: Apache-2.0 */
/* arm_neon.h : stands in for the compiler's, with every intrinsic emulated by SIMDe, so that NEON
 * tiles can be tested on a CPU of another family. */
#define SIMDE_NO_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>

/* What SIMDe 0.7 lacks of it, made from what it has. */
#ifndef vdivq_f32
static inline simde_float32x4_t vdivq_f32(simde_float32x4_t a, simde_float32x4_t b)
{
    float x[4], y[4];
    simde_vst1q_f32(x, a);
    simde_vst1q_f32(y, b);
    for (int i = 0; i < 4; i++)
        x[i] /= y[i];
    return simde_vld1q_f32(x);
}
#endif
#ifndef vdivq_f64
static inline simde_float64x2_t vdivq_f64(simde_float64x2_t a, simde_float64x2_t b)
{
    double x[2], y[2];
    simde_vst1q_f64(x, a);
    simde_vst1q_f64(y, b);
    for (int i = 0; i < 2; i++)
        x[i] /= y[i];
    return simde_vld1q_f64(x);
}
#endif
