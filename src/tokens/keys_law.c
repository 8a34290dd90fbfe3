/* SPDX-License-Identifier: Apache-2.0 */
/* keys_law.c : a mixture of von Mises and Fisher's laws, its parts turned as a query sees them. */
#include "tokens/keys_law.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"

es_status es_keys_law(const es_keys *keys, es_mem_limit *budget, es_law *law, es_law **out,
                      es_error *err)
{
    *out = NULL;
    *law = (es_law){.kind = ES_LAW_SPHERE, .dim = keys->dim, .size = 1.0};
    if (keys->n_parts == 0)
        return ES_OK;
    /* parts, their weights and directions */
    const size_t part = sizeof(es_law) + ((size_t)keys->dim + 1) * sizeof(double);
    es_law *parts;
    ES_TRY(es_mem_array(budget, keys->n_parts, 1, part, "parts", &parts, err));
    *out = parts;
    double *weights = (double *)(parts + keys->n_parts), *direction = weights + keys->n_parts;
    for (int64_t i = 0; i < keys->n_parts; i++, direction += keys->dim) {
        const es_keys_part *p = &keys->parts[i];
        direction[0] = p->cosine;
        direction[1] = sqrt((1.0 - p->cosine) * (1.0 + p->cosine));
        weights[i] = p->weight;
        parts[i] = (es_law){.kind = ES_LAW_VMF,
                            .dim = keys->dim,
                            .size = 1.0,
                            .concentration = p->kappa,
                            .direction = direction};
    }
    *law = (es_law){.kind = ES_LAW_MIXTURE,
                    .dim = keys->dim,
                    .parts = parts,
                    .weights = weights,
                    .n_parts = keys->n_parts};
    return ES_OK;
}
