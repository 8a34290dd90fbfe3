/* tiles_avx512.c : tiles for AVX-512 F and DQ; compiled with those flags, called only where the CPU
 * has both. */
#include "attention/tiles.h"

#ifdef __x86_64__
#include <immintrin.h>

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
#define V_FMA_INTO(c, a, b) ((c) = _mm512_fmadd_ps(a, b, c)) /* 32 registers: nothing spills */
#define V_ADD(a, b)         _mm512_add_ps(a, b)
#define V_SUB(a, b)         _mm512_sub_ps(a, b)
#define V_MUL(a, b)         _mm512_mul_ps(a, b)
#define V_MAX(a, b)         _mm512_max_ps(a, b)
#define V_EXP2I(p, t)                                                                              \
    _mm512_castsi512_ps(                                                                           \
        _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)))
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
#define V_FMA_INTO(c, a, b) ((c) = _mm512_fmadd_pd(a, b, c))
#define V_ADD(a, b)         _mm512_add_pd(a, b)
#define V_SUB(a, b)         _mm512_sub_pd(a, b)
#define V_MUL(a, b)         _mm512_mul_pd(a, b)
#define V_MAX(a, b)         _mm512_max_pd(a, b)
#define V_EXP2I(p, t)                                                                              \
    _mm512_castsi512_pd(                                                                           \
        _mm512_add_epi64(_mm512_castpd_si512(p), _mm512_slli_epi64(_mm512_castpd_si512(t), 52)))
#include "attention/tile_template.h"

const es_kernels es_kernels_avx512[2] = {ES_TILES(avx512_f32, ES_ISA_AVX512, ES_F32),
                                         ES_TILES(avx512_f64, ES_ISA_AVX512, ES_F64)};
#endif
