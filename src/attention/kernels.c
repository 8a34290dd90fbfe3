#include "attention/kernels.h"

#include "attention/tiles.h"

const es_kernels *es_kernels_find(es_isa isa, es_dtype dtype)
{
    const int i = dtype == ES_F64;
    switch (isa) {
    case ES_ISA_PORTABLE:
        return &es_kernels_portable[i];
#if defined(__x86_64__)
    case ES_ISA_AVX2:
        return &es_kernels_avx2[i];
    case ES_ISA_AVX512:
        return &es_kernels_avx512[i];
#endif
    default:
        return NULL;
    }
}
