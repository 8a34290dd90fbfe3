/* svd.c : singular values and vectors. What is row-major a here is column-major a' for LAPACK,
 * whose factors of a' = v s u' land in memory as our vt and u: no matrix is transposed. */
#include <esscher/linalg.h>

#include <float.h>
#include <lapacke.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "linalg/dense.h"

es_status es_svd_factor(const es_view *a, es_budget *budget, double *s, double *u, double *vt,
                        double *bound, es_error *err)
{
    if (!u != !vt)
        return es_fail(err, ES_E_ARGUMENT, "linalg.svd", "ask for both or none",
                       "only one side of the singular vectors was asked for");
    double *copy, *work = NULL, best = 0.0;
    void *integers = NULL;
    ES_TRY(es_dense_copy(a, "the matrix", budget, &copy, err));
    const int m = (int)a->cols, n = (int)a->rows, k = m < n ? m : n; /* as LAPACK sees it */
    const char job = u ? 'S' : 'N';

    es_status status = es_mem_array(budget, 8, k, sizeof(int), "linear algebra", &integers, err);
    es_blas_enter();
    int info = 0;
    if (status == ES_OK) {
        LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, m, n, copy, m, s, vt, m, u, k, &best, -1,
                            integers);
        status = es_dense_new(budget, (int64_t)best, 1, &work, err);
    }
    if (status == ES_OK)
        info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, m, n, copy, m, s, vt, m, u, k, work,
                                   (int)best, integers);
    es_blas_leave();
    if (status == ES_OK && info != 0)
        status =
            es_fail(err, ES_E_NUMERIC, "linalg.converge", "",
                    "the singular values of a (%d, %d) matrix did not converge (%d)", n, m, info);
    if (status == ES_OK && !isfinite(s[0]))
        status = es_fail(err, ES_E_OVERFLOW, "linalg.overflow", "scale the matrix",
                         "the largest singular value overflows");
    /* Backward stable: the exact values of a matrix within p(m, n) eps |a| of a (Weyl), p modest.
     */
    if (bound)
        *bound = status == ES_OK ? 2.0 * (double)(m + n) * DBL_EPSILON * s[0] : 0.0;
    es_mem_free(budget, copy);
    es_mem_free(budget, work);
    es_mem_free(budget, integers);
    return status;
}
