/* immintrin.h : stands in for the compiler's, with every intrinsic emulated by SIMDe, so that
 * AVX-512 tiles can be tested on a CPU without it. */
#define SIMDE_NO_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
