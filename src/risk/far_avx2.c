/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__AVX2__)
#define ES_FAR_SUMS es_far_sums_avx2
#include "risk/far_text.h"
#else
/* Not an x86-64 build: the name exists and is never chosen. */
#include "risk/far_sums.h"
void es_far_sums_avx2(const es_far_terms *terms, double t, double step, es_far_sums *out)
{
    es_far_sums_portable(terms, t, step, out);
}
#endif
