/* affine.h : y = mean + B z for many rows z, each row by itself.
 *
 * A BLAS would sum in an order that depends on how many rows it is given, and a token may not
 * depend on that. So B is kept in panels of eight of its rows, k-th column next to (k+1)-st, and an
 * element of y is one chain of multiplications and additions in the order of k: the same for one
 * row and for a million.
 */
#ifndef ES_LAW_AFFINE_H
#define ES_LAW_AFFINE_H

#include <esscher/exec.h>

enum { ES_PANEL = 8, ES_PANEL_TALL = 4 }; /* rows of a panel; rows of z it meets at a time */

typedef struct es_affine {
    int64_t dim;
    const double *mean; /* (dim), the caller's; NULL: 0 */
    double *panels;     /* panel p, column k, row i of the panel at (p*dim + k)*ES_PANEL + i; NULL:
                           B is the identity */
    int64_t *spans;     /* columns [spans[2p], spans[2p+1]) of panel p hold all that is not 0 */
} es_affine;

es_status es_affine_new(int64_t dim, const double *mean, const double *factor, es_budget *budget,
                        es_affine *out, es_error *err);
void es_affine_free(es_affine *a, es_budget *budget);

/* sums (ES_PANEL_TALL, ES_PANEL) = z panel', columns span[0] .. span[1]-1 of the panel. */
typedef void es_panel_fn(const double *panel, const int64_t span[2],
                         const double *const z[ES_PANEL_TALL], double *sums);

/*! es_panel_portable() : for any CPU; es_panel_best() : the fastest this one runs. Same bits. */
es_panel_fn es_panel_portable;
es_panel_fn *es_panel_best(void);

/*! es_affine_rows() : row i of z (count, dim) becomes row place[i] of y; place NULL: row i. z and y
 *  do not overlap, except that without a factor and without places they may be the same. */
void es_affine_rows(const es_affine *a, const double *z, int64_t count, const int64_t *place,
                    double *y);

#endif
