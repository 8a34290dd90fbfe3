/* SPDX-License-Identifier: Apache-2.0 */
/* moments.c : mean and scatter of rows that are seen once, in parts that merge. */
#include <esscher/moments.h>

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"
#include "stats/moments.h"

size_t es_moments_bytes(int64_t dim)
{
    size_t bytes;
    return es_size_of_array(dim + 2 + ES_MOMENTS_STRIP, dim, 1, sizeof(double), &bytes)
               ? bytes + 3 * 2 * ES_ALIGN
               : SIZE_MAX;
}

es_status es_moments_new(int64_t dim, es_mem_limit *budget, es_moments *out, es_error *err)
{
    double *scratch = NULL;
    double *mean = NULL, *scatter = NULL;
    *out = (es_moments){0};
    es_status status = ES_MEM_NEW(budget, mean, dim, "a mean", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, scatter, dim, dim, "a covariance", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, scratch, dim, ES_MOMENTS_STRIP + 1, "a covariance", err);
    *out = (es_moments){
        .dim = dim, .mean = mean, .scatter = scatter, .scratch = scratch, .budget = budget};
    if (status != ES_OK)
        es_moments_free(out);
    return status;
}

void es_moments_free(es_moments *m)
{
    es_mem_free(m->budget, m->mean);
    es_mem_free(m->budget, m->scatter);
    es_mem_free(m->budget, m->scratch);
    *m = (es_moments){0};
}

/* scatter += sum over r of c_r c_r', lower triangle, for one strip of centred rows c
 * (ES_MOMENTS_STRIP, dim): several rows at a time, so that an element of the scatter is loaded and
 * stored once per strip. */
static void add_strip(const double *restrict c, int64_t dim, double *restrict scatter)
{
    const double *c0 = c, *c1 = c + dim, *c2 = c + 2 * dim, *c3 = c + 3 * dim;
    const double *c4 = c + 4 * dim, *c5 = c + 5 * dim, *c6 = c + 6 * dim, *c7 = c + 7 * dim;
    for (int64_t a = 0; a < dim; a++) {
        double *restrict row = scatter + a * dim;
        for (int64_t b = 0; b <= a; b++)
            row[b] += ((c0[a] * c0[b] + c1[a] * c1[b]) + (c2[a] * c2[b] + c3[a] * c3[b])) +
                      ((c4[a] * c4[b] + c5[a] * c5[b]) + (c6[a] * c6[b] + c7[a] * c7[b]));
    }
}

/* Mean and scatter of the union of two sets, given those of the parts and the shift between their
 * means; the scatters have been added already. */
static void merge_means(es_moments *into, const double *mean, int64_t count)
{
    const double n_a = (double)into->count, n_b = (double)count, n = n_a + n_b;
    const int64_t dim = into->dim;
    double *shift = into->scratch; /* (dim) */
    for (int64_t a = 0; a < dim; a++)
        shift[a] = mean[a] - into->mean[a];
    for (int64_t a = 0; a < dim; a++) {
        const double f = shift[a] * (n_a * n_b / n);
        for (int64_t b = 0; b <= a; b++)
            into->scatter[a * dim + b] += f * shift[b];
    }
    for (int64_t a = 0; a < dim; a++)
        into->mean[a] += shift[a] * (n_b / n);
    into->count += count;
}

/* Adds rows in two passes: their mean first, then products of deviations in strips. The mean of
 * the batch is merged with that of the earlier rows at the end. */
void es_moments_add(es_moments *m, const double *rows, int64_t count)
{
    if (count <= 0)
        return;
    const int64_t dim = m->dim;
    double *strip = m->scratch, *mean = m->scratch + ES_MOMENTS_STRIP * dim;
    memset(mean, 0, (size_t)dim * sizeof *mean);
    for (int64_t r = 0; r < count; r++)
        for (int64_t a = 0; a < dim; a++)
            mean[a] += rows[r * dim + a];
    for (int64_t a = 0; a < dim; a++)
        mean[a] /= (double)count;

    for (int64_t r = 0; r < count; r += ES_MOMENTS_STRIP) {
        const int64_t here = count - r < ES_MOMENTS_STRIP ? count - r : ES_MOMENTS_STRIP;
        memset(strip, 0, (size_t)(ES_MOMENTS_STRIP * dim) * sizeof *strip);
        for (int64_t i = 0; i < here; i++)
            for (int64_t a = 0; a < dim; a++)
                strip[i * dim + a] = rows[(r + i) * dim + a] - mean[a];
        add_strip(strip, dim, m->scatter);
    }
    merge_means(m, mean, count);
}

void es_moments_merge(es_moments *into, const es_moments *from)
{
    if (from->count == 0)
        return;
    for (int64_t a = 0; a < into->dim; a++)
        for (int64_t b = 0; b <= a; b++)
            into->scatter[a * into->dim + b] += from->scatter[a * into->dim + b];
    merge_means(into, from->mean, from->count);
}

void es_moments_covariance(const es_moments *m, int ddof, double *out)
{
    const double denominator = m->count > ddof ? (double)(m->count - ddof) : NAN;
    for (int64_t a = 0; a < m->dim; a++)
        for (int64_t b = 0; b <= a; b++)
            out[a * m->dim + b] = out[b * m->dim + a] = m->scatter[a * m->dim + b] / denominator;
}

/* ---- moments that travel: count, mean, the lower triangle row by row ---- */

int64_t es_moments_numbers(int64_t dim) { return 1 + dim + dim * (dim + 1) / 2; }

void es_moments_save(const es_moments *m, double *out)
{
    *out++ = (double)m->count;
    memcpy(out, m->mean, (size_t)m->dim * sizeof *out);
    out += m->dim;
    for (int64_t a = 0; a < m->dim; out += ++a)
        memcpy(out, m->scatter + a * m->dim, (size_t)(a + 1) * sizeof *out);
}

es_status es_moments_load(es_moments *m, const double *numbers, es_error *err)
{
    const double count = *numbers++;
    if (!(count >= 0.0 && count < 0x1p53 && count == floor(count)))
        return es_fail(err, ES_E_FORMAT, "moments.numbers", "save them again", "moments of %g rows",
                       count);
    m->count = (int64_t)count;
    memcpy(m->mean, numbers, (size_t)m->dim * sizeof *numbers);
    numbers += m->dim;
    for (int64_t a = 0; a < m->dim; numbers += ++a)
        memcpy(m->scatter + a * m->dim, numbers, (size_t)(a + 1) * sizeof *numbers);
    return ES_OK;
}
