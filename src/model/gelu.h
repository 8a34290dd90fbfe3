/* gelu.h : x (1 + erf(x / sqrt 2)) / 2, the exact one, at the speed of a table.
 *
 * A block of 512 tokens of MiniLM has five million of them, and erff() of the C library takes as
 * long for those as BLAS for all products. In f32 a cubic per cell of width 1/32 does: Taylor's
 * remainder max |gelu''''| (1/64)^4 / 24 is below 5e-9, a tenth of an ulp of 1. Beyond 6 it is x,
 * or 0, within 7e-9. */
#ifndef ES_MODEL_GELU_H
#define ES_MODEL_GELU_H

#include <stdint.h>

enum { ES_GELU_CELLS = 384 }; /* of [-6, 6] */

typedef struct es_gelu_table {
    float cell[ES_GELU_CELLS][4]; /* coefficients around the middle of the cell */
} es_gelu_table;

void es_gelu_prepare(es_gelu_table *table);

/*! es_gelu_f32(), es_gelu_f64() : in place. NaN stays NaN. */
void es_gelu_f32(const es_gelu_table *table, float *x, int64_t count);
void es_gelu_f64(double *x, int64_t count);

#endif
