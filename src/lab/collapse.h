/* collapse.h : one row of the Jacobian of a layer, for tokens as they come. */
#ifndef ES_LAB_COLLAPSE_H
#define ES_LAB_COLLAPSE_H

#include <stdint.h>

/* Unit tokens y (n, dim), and what attention made of number i among them. */
typedef struct es_jacobian_row {
    const double *y;
    int64_t n, dim, i;
    double beta, alpha, square; /* q > 0 */
    const double *m;            /* (dim) sum_j A_ij y_j */
    double lse;                 /* of row i's scores beta <y_i, y_j> */
    const double *probe;        /* (dim) a vector z with E zz' = I */
    double *scratch;            /* (2 dim) */
} es_jacobian_row;

/*! es_jacobian_row2() : sum_k |dx_i'/dx_k|_F^2, where the squared norm of the one matrix that is
 * not of low rank, C Q, is replaced by |C Q z|^2: unbiased over the probe. O(n dim). */
double es_jacobian_row2(const es_jacobian_row *row);

#endif
