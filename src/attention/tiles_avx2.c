/* SPDX-License-Identifier: Apache-2.0 */
/* tiles_avx2.c : tiles for AVX2 with FMA; compiled with -mavx2 -mfma, called only where the CPU has
 * both. */
#include "attention/tiles.h"

#ifdef __x86_64__
#include <immintrin.h>

/* A mask for the first `count` elements is found in these, where all but they are past the edge. */
static const int32_t edge_f32[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static const int64_t edge_f64[8] = {-1, -1, -1, -1, 0, 0, 0, 0};

/* Sums each of four vectors; out (4). */
static inline void sum4_f32(__m256 a, __m256 b, __m256 c, __m256 d, float *out)
{
    const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
}

/* Sums each of four vectors; out (4). */
static inline void sum4_f64(__m256d a, __m256d b, __m256d c, __m256d d, double *out)
{
    const __m256d ab = _mm256_hadd_pd(a, b), cd = _mm256_hadd_pd(c, d);
    _mm256_storeu_pd(out, _mm256_add_pd(_mm256_permute2f128_pd(ab, cd, 0x20),
                                        _mm256_permute2f128_pd(ab, cd, 0x31)));
}

#define TILE_F32
#define TILE(name)     avx2_f32_##name
#define REAL           float
#define WIDTH          8
#define V              __m256
#define V_ZERO()       _mm256_setzero_ps()
#define V_ALL(x)       _mm256_set1_ps(x)
#define V_LOAD(p)      _mm256_load_ps(p)
#define V_STORE(p, v)  _mm256_store_ps(p, v)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_ADD(a, b)    _mm256_add_ps(a, b)
#define V_SUB(a, b)    _mm256_sub_ps(a, b)
#define V_MUL(a, b)    _mm256_mul_ps(a, b)
#define V_DIV(a, b)    _mm256_div_ps(a, b)
#define V_MAX(a, b)    _mm256_max_ps(a, b)
#define V_EXP2I(p, t)                                                                              \
    _mm256_castsi256_ps(                                                                           \
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)))
#define V_FMA_INTO(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))
#define V_LOADU(p)          _mm256_loadu_ps(p)
#define MASK                __m256i
#define V_MASK(count)       _mm256_loadu_si256((const __m256i *)(const void *)(edge_f32 + 8 - (count)))
#define V_PART(p, m)        _mm256_maskload_ps(p, m)
#define V_SUM4              sum4_f32
#include "attention/tile_template.h"

#define TILE_F64
#define TILE(name)     avx2_f64_##name
#define REAL           double
#define WIDTH          4
#define V              __m256d
#define V_ZERO()       _mm256_setzero_pd()
#define V_ALL(x)       _mm256_set1_pd(x)
#define V_LOAD(p)      _mm256_load_pd(p)
#define V_STORE(p, v)  _mm256_store_pd(p, v)
#define V_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define V_ADD(a, b)    _mm256_add_pd(a, b)
#define V_SUB(a, b)    _mm256_sub_pd(a, b)
#define V_MUL(a, b)    _mm256_mul_pd(a, b)
#define V_DIV(a, b)    _mm256_div_pd(a, b)
#define V_MAX(a, b)    _mm256_max_pd(a, b)
#define V_EXP2I(p, t)                                                                              \
    _mm256_castsi256_pd(                                                                           \
        _mm256_add_epi64(_mm256_castpd_si256(p), _mm256_slli_epi64(_mm256_castpd_si256(t), 52)))
#define V_FMA_INTO(c, a, b) __asm__("vfmadd231pd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))
#define V_LOADU(p)          _mm256_loadu_pd(p)
#define MASK                __m256i
#define V_MASK(count)       _mm256_loadu_si256((const __m256i *)(const void *)(edge_f64 + 4 - (count)))
#define V_PART(p, m)        _mm256_maskload_pd(p, m)
#define V_SUM4              sum4_f64
#include "attention/tile_template.h"

const es_kernels es_kernels_avx2[2] = {ES_TILES(avx2_f32, ES_ISA_AVX2, ES_F32),
                                       ES_TILES(avx2_f64, ES_ISA_AVX2, ES_F64)};
#endif
