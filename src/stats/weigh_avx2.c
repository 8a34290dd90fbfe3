/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__AVX2__)
#define ES_WEIGH es_weigh_avx2
#include "stats/weigh_text.h"
#else
/* Not an x86-64 build: the name exists and is never chosen. */
#include "stats/weigh.h"
double es_weigh_avx2(const double *scores, double most, int64_t n, double *w)
{
    return es_weigh_portable(scores, most, n, w);
}
#endif
