/* SPDX-License-Identifier: Apache-2.0 */
/* evict_keydiff.c : keys that differ most from the others stay (KeyDiff):
 *
 *     s_j = -cos(k_j, a),   a = (1/P) sum_j k_j / |k_j|
 */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "cache/evict_row.h"

static double norm_of(const double *x, int64_t d)
{
    double squares = 0.0;
    for (int64_t c = 0; c < d; c++)
        squares += x[c] * x[c];
    return sqrt(squares);
}

/* mean (d) = a; norms of 0 count as 1e-12, as in torch. */
static void mean_direction(const es_evict_prompt *p, double *row, double *mean)
{
    const int64_t d = p->k.cols;
    for (int64_t j = 0; j < p->prompt; j++) {
        es_view_read_row(&p->k, j, row);
        const double norm = fmax(norm_of(row, d), 1e-12);
        for (int64_t c = 0; c < d; c++)
            mean[c] += row[c] / norm;
    }
    for (int64_t c = 0; c < d; c++)
        mean[c] /= (double)p->prompt;
}

static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    const int64_t d = p->k.cols;
    double *row;
    (void)spec;
    ES_TRY(ES_MEM_NEW_2D(p->budget, row, 2, d, "a key", err));
    double *mean = row + d;
    mean_direction(p, row, mean);
    const double length = fmax(norm_of(mean, d), 1e-8);
    for (int64_t j = 0; j < p->prompt; j++) {
        double dot = 0.0;
        es_view_read_row(&p->k, j, row);
        for (int64_t c = 0; c < d; c++)
            dot += row[c] * mean[c];
        score[j] = -dot / (fmax(norm_of(row, d), 1e-8) * length);
    }
    es_mem_free(p->budget, row);
    return ES_OK;
}

const es_eviction es_eviction_row_keydiff = {.name = "keydiff",
                                             .about = "keys that differ most from the others",
                                             .source = "KeyDiff (arXiv 2504.15364), as in kvpress",
                                             .score = score};
