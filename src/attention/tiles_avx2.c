/* tiles_avx2.c : tiles for AVX2 with FMA; compiled with -mavx2 -mfma, called only where the CPU has
 * both. */
#include "attention/tiles.h"

#ifdef __x86_64__
#include <immintrin.h>

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
#define V_MAX(a, b)    _mm256_max_ps(a, b)
#define V_EXP2I(p, t)                                                                              \
    _mm256_castsi256_ps(                                                                           \
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)))
#define V_FMA_INTO(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))
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
#define V_MAX(a, b)    _mm256_max_pd(a, b)
#define V_EXP2I(p, t)                                                                              \
    _mm256_castsi256_pd(                                                                           \
        _mm256_add_epi64(_mm256_castpd_si256(p), _mm256_slli_epi64(_mm256_castpd_si256(t), 52)))
#define V_FMA_INTO(c, a, b) __asm__("vfmadd231pd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))
#include "attention/tile_template.h"

const es_kernels es_kernels_avx2[2] = {ES_TILES(avx2_f32, ES_ISA_AVX2, ES_F32),
                                       ES_TILES(avx2_f64, ES_ISA_AVX2, ES_F64)};
#endif
