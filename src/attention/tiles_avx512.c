/* SPDX-License-Identifier: Apache-2.0 */
/* tiles_avx512.c : tiles for AVX-512 F and DQ; compiled with those flags, called only where the CPU
 * has both. */
#include "attention/tiles.h"

#ifdef __x86_64__
#include <immintrin.h>

/* Halves of a, b, c and d are added until each is one 128-bit lane, then within lanes. */
static inline void sum4_f32(__m512 a, __m512 b, __m512 c, __m512 d, float *out)
{
    const __m512 ab =
        _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    const __m512 cd =
        _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    __m512 sums =
        _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    sums = _mm512_add_ps(sums, _mm512_permute_ps(sums, 0x4e));
    sums = _mm512_add_ps(sums, _mm512_permute_ps(sums, 0xb1));
    const __m512i each = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(each, sums)));
}

/* Sums each of four vectors; out (4). */
static inline void sum4_f64(__m512d a, __m512d b, __m512d c, __m512d d, double *out)
{
    const __m512d ab =
        _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x44), _mm512_shuffle_f64x2(a, b, 0xee));
    const __m512d cd =
        _mm512_add_pd(_mm512_shuffle_f64x2(c, d, 0x44), _mm512_shuffle_f64x2(c, d, 0xee));
    __m512d sums =
        _mm512_add_pd(_mm512_shuffle_f64x2(ab, cd, 0x88), _mm512_shuffle_f64x2(ab, cd, 0xdd));
    sums = _mm512_add_pd(sums, _mm512_castps_pd(_mm512_permute_ps(_mm512_castpd_ps(sums), 0x4e)));
    const __m512i each = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6);
    _mm256_storeu_pd(out, _mm512_castpd512_pd256(_mm512_permutexvar_pd(each, sums)));
}

/* Not left to gcc, which sees that the chains of burn() are equal, computes a third of them, and
 * has measured a peak three times as high as the CPU's. */
#ifdef __AVX512F__
#define FMA_PS(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#define FMA_PD(c, a, b) __asm__("vfmadd231pd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#else /* emulated, by a test */
#define FMA_PS(c, a, b) ((c) = _mm512_fmadd_ps(a, b, c))
#define FMA_PD(c, a, b) ((c) = _mm512_fmadd_pd(a, b, c))
#endif

#define TILE_F32
#define TILE(name)          avx512_f32_##name
#define REAL                float
#define WIDTH               16
#define V                   __m512
#define V_ZERO()            _mm512_setzero_ps()
#define V_ALL(x)            _mm512_set1_ps(x)
#define V_LOAD(p)           _mm512_load_ps(p)
#define V_STORE(p, v)       _mm512_store_ps(p, v)
#define V_FMA(a, b, c)      _mm512_fmadd_ps(a, b, c)
#define V_FMA_INTO(c, a, b) FMA_PS(c, a, b)
#define V_ADD(a, b)         _mm512_add_ps(a, b)
#define V_SUB(a, b)         _mm512_sub_ps(a, b)
#define V_MUL(a, b)         _mm512_mul_ps(a, b)
#define V_DIV(a, b)         _mm512_div_ps(a, b)
#define V_MAX(a, b)         _mm512_max_ps(a, b)
#define V_ROUND(x)          _mm512_roundscale_ps(x, 0)
#define V_SCALE(p, n, x)                                                                           \
    _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, V_ALL(-126.0f), _CMP_GE_OQ), p, n)
#define V_LOADU(p)    _mm512_loadu_ps(p)
#define MASK          __mmask16
#define V_MASK(count) ((__mmask16)((1u << (count)) - 1u))
#define V_PART(p, m)  _mm512_maskz_loadu_ps(m, p)
#define V_SUM4        sum4_f32
#include "attention/tile_template.h"

#define TILE_F64
#define TILE(name)          avx512_f64_##name
#define REAL                double
#define WIDTH               8
#define V                   __m512d
#define V_ZERO()            _mm512_setzero_pd()
#define V_ALL(x)            _mm512_set1_pd(x)
#define V_LOAD(p)           _mm512_load_pd(p)
#define V_STORE(p, v)       _mm512_store_pd(p, v)
#define V_FMA(a, b, c)      _mm512_fmadd_pd(a, b, c)
#define V_FMA_INTO(c, a, b) FMA_PD(c, a, b)
#define V_ADD(a, b)         _mm512_add_pd(a, b)
#define V_SUB(a, b)         _mm512_sub_pd(a, b)
#define V_MUL(a, b)         _mm512_mul_pd(a, b)
#define V_DIV(a, b)         _mm512_div_pd(a, b)
#define V_MAX(a, b)         _mm512_max_pd(a, b)
#define V_EXP2I(p, t)                                                                              \
    _mm512_castsi512_pd(                                                                           \
        _mm512_add_epi64(_mm512_castpd_si512(p), _mm512_slli_epi64(_mm512_castpd_si512(t), 52)))
#define V_LOADU(p)    _mm512_loadu_pd(p)
#define MASK          __mmask8
#define V_MASK(count) ((__mmask8)((1u << (count)) - 1u))
#define V_PART(p, m)  _mm512_maskz_loadu_pd(m, p)
#define V_SUM4        sum4_f64
#include "attention/tile_template.h"

const es_kernels es_kernels_avx512[2] = {ES_TILES(avx512_f32, ES_ISA_AVX512, ES_F32),
                                         ES_TILES(avx512_f64, ES_ISA_AVX512, ES_F64)};
#endif
