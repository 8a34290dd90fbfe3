/* SPDX-License-Identifier: Apache-2.0 */
/* affine.c : y = mean + B z for many rows, each element as one chain of additions in a fixed
 * order (law_row.h says why). */
#include "law/law_row.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum { TALL = ES_PANEL_TALL, HALF = ES_PANEL / 2 }; /* 4 x 2 registers of sums with AVX2 */

/* ---- packing ---- */

/* Packs ES_PANEL rows of the factor B, column by column, so that the product below reads memory
 * in order. span = [first, end) of the columns that are not zero: a Cholesky factor is half
 * empty. */
static void pack_panel(const double *factor, int64_t dim, int64_t p, double *panel, int64_t span[2])
{
    const int64_t first = p * ES_PANEL, rows = dim - first < ES_PANEL ? dim - first : ES_PANEL;
    span[0] = dim;
    span[1] = 0;
    for (int64_t k = 0; k < dim; k++) {
        for (int64_t i = 0; i < rows; i++) {
            const double b = factor[(first + i) * dim + k];
            panel[k * ES_PANEL + i] = b;
            if (b != 0.0) {
                span[0] = k < span[0] ? k : span[0];
                span[1] = k + 1;
            }
        }
    }
}

es_status es_affine_new(int64_t dim, const double *mean, const double *factor, es_mem_limit *budget,
                        es_affine *out, es_error *err)
{
    *out = (es_affine){.dim = dim, .mean = mean};
    if (!factor)
        return ES_OK;
    const int64_t panels = (dim + ES_PANEL - 1) / ES_PANEL;
    ES_TRY(ES_MEM_NEW_2D(budget, out->panels, panels * ES_PANEL, dim, "a factor", err));
    ES_TRY(ES_MEM_NEW_2D(budget, out->spans, panels, 2, "a factor", err));
    for (int64_t p = 0; p < panels; p++)
        pack_panel(factor, dim, p, out->panels + p * dim * ES_PANEL, out->spans + 2 * p);
    return ES_OK;
}

void es_affine_free(es_affine *a, es_mem_limit *budget)
{
    es_mem_free(budget, a->panels);
    es_mem_free(budget, a->spans);
    *a = (es_affine){0};
}

/* ---- the product ---- */

typedef double vec __attribute__((vector_size(HALF * sizeof(double)), may_alias));

/* Sums start at +0 and so never become -0: leaving out columns of zeros, whose products are +-0,
 * changes no bit. */
static inline __attribute__((always_inline)) void
panel_text(const double *panel, const int64_t span[2], const double *const z[TALL], double *sums)
{
    vec s[TALL][2] = {{{0}}};
    for (int64_t k = span[0]; k < span[1]; k++) {
        const vec *b = (const vec *)(const void *)(panel + k * ES_PANEL);
        const vec low = b[0], high = b[1];
        for (int r = 0; r < TALL; r++) {
            const vec x = {z[r][k], z[r][k], z[r][k], z[r][k]};
            s[r][0] += x * low;
            s[r][1] += x * high;
        }
    }
    memcpy(sums, s, sizeof s);
}

void es_panel_portable(const double *panel, const int64_t span[2], const double *const z[TALL],
                       double *sums)
{
    panel_text(panel, span, z, sums);
}

/* The same text for wider registers. Without FMA, so that it computes the same roundings. */
#ifdef __x86_64__
__attribute__((target("avx2"))) static void panel_avx2(const double *panel, const int64_t span[2],
                                                       const double *const z[TALL], double *sums)
{
    panel_text(panel, span, z, sums);
}

es_panel_fn *es_panel_best(void)
{
    return es_isa_available(ES_ISA_AVX2) ? panel_avx2 : es_panel_portable;
}
#else
es_panel_fn *es_panel_best(void) { return es_panel_portable; }
#endif

/* Computes y = mean + x for `width` coordinates from `first` on. */
static void add_mean(const es_affine *a, int64_t first, int64_t width, const double *x, double *y)
{
    for (int64_t i = 0; i < width; i++)
        y[first + i] = a->mean ? a->mean[first + i] + x[i] : x[i];
}

/* Adds the mean to `count` rows of a law without a factor; place, if not NULL, says to which rows
 * of y they go. */
static void shift_rows(const es_affine *a, const double *z, int64_t count, const int64_t *place,
                       double *y)
{
    for (int64_t r = 0; r < count; r++)
        add_mean(a, 0, a->dim, z + r * a->dim, y + (place ? place[r] : r) * a->dim);
}

void es_affine_rows(const es_affine *a, const double *z, int64_t count, const int64_t *place,
                    double *y)
{
    const int64_t dim = a->dim;
    if (!a->panels) {
        if (a->mean || place || z != y)
            shift_rows(a, z, count, place, y);
        return;
    }
    es_panel_fn *const product = es_panel_best();
    double sums[TALL * ES_PANEL];
    for (int64_t p = 0, first = 0; first < dim; p++, first += ES_PANEL) {
        const int64_t width = dim - first < ES_PANEL ? dim - first : ES_PANEL;
        for (int64_t r = 0; r < count; r += TALL) {
            const double *rows[TALL]; /* past the last row, the last again */
            for (int64_t i = 0; i < TALL; i++)
                rows[i] = z + (r + i < count ? r + i : count - 1) * dim;
            product(a->panels + p * dim * ES_PANEL, a->spans + 2 * p, rows, sums);
            for (int64_t i = 0; i < TALL && r + i < count; i++)
                add_mean(a, first, width, sums + i * ES_PANEL,
                         y + (place ? place[r + i] : r + i) * dim);
        }
    }
}
