/* norm.h : the road es_norm_spectral() takes for large matrices, open to its tests. */
#ifndef ES_LINALG_NORM_H
#define ES_LINALG_NORM_H

#include <esscher/linalg.h>

enum {
    ES_NORM_STEPS = 320
}; /* Lanczos steps: enough for the edge of a random (4096, 4096) matrix */

/*! es_norm_certified() : es_norm_spectral() by Lanczos iteration of at most `steps` steps and a
 *  Cholesky certificate. */
es_status es_norm_certified(const es_view *a, int steps, es_budget *budget, es_num *out,
                            es_error *err);

#endif
