/* SPDX-License-Identifier: Apache-2.0 */
/* evict_knorm.c : keys of the smallest norm stay. Keys with small norms often get large weights.
 *
 * Rotary positions do not change norms, so equal tokens have equal scores in the first layer, and
 * rounding decides among them. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "cache/evict_row.h"

static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    const int64_t d = p->k.cols;
    double *row;
    (void)spec;
    ES_TRY(ES_MEM_NEW(p->budget, row, d, "a key", err));
    for (int64_t j = 0; j < p->prompt; j++) {
        double squares = 0.0;
        es_view_read_row(&p->k, j, row);
        for (int64_t c = 0; c < d; c++)
            squares += row[c] * row[c];
        score[j] = -sqrt(squares);
    }
    es_mem_free(p->budget, row);
    return ES_OK;
}

const es_eviction es_eviction_row_knorm = {.name = "knorm",
                                           .about = "keys of the smallest norm",
                                           .source = "key norms (arXiv 2406.11430), as in kvpress",
                                           .score = score};
