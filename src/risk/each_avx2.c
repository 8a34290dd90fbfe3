/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__AVX2__)
#define ES_EACH es_risk_each_avx2
#include "risk/each_text.h"
#else
/* Not an x86-64 build: the name exists and is never chosen. */
#include "risk/policy_terms.h"
void es_risk_each_avx2(const es_risk_terms *r, double t, double step, es_risk_node *out)
{
    es_risk_each_portable(r, t, step, out);
}
#endif
