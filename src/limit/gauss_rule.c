/* SPDX-License-Identifier: Apache-2.0 */
/* gauss_rule.c : Gauss rules from three-term recurrences.
 *
 * The orthogonal polynomials of a law obey a recurrence whose coefficients make a symmetric
 * tridiagonal matrix; its eigenvalues are the points, the squared first components of its
 * eigenvectors the weights, and moments up to degree 2n-1 are exact (Golub and Welsch). */
#include "limit/limit_map.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/vectors.h"

/* ---- from a Jacobi matrix to points and weights ---- */

/* One implicit QL step on rows l..m of the tridiagonal (d, e); z is the first row of the
 * eigenvectors. */
static void ql_step(int l, int m, double *d, double *e, double *z)
{
    double g = (d[l + 1] - d[l]) / (2.0 * e[l]), s = 1.0, c = 1.0, p = 0.0;
    g = d[m] - d[l] + e[l] / (g + copysign(hypot(g, 1.0), g));
    for (int i = m - 1; i >= l; i--) {
        const double f = s * e[i], b = c * e[i], r = hypot(f, g);
        e[i + 1] = r;
        if (r == 0.0) { /* the matrix has split by itself */
            d[i + 1] -= p;
            e[m] = 0.0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        const double t = (d[i] - g) * s + 2.0 * c * b;
        p = s * t;
        d[i + 1] = g + p;
        g = c * t - b;
        const double next = z[i + 1];
        z[i + 1] = s * z[i] + c * next;
        z[i] = c * z[i] - s * next;
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0.0;
}

/* Returns the end of the unreduced block that begins at l: the first negligible off-diagonal
 * entry. */
static int find_split(int l, int n, const double *d, const double *e)
{
    int m = l;
    while (m < n - 1 && fabs(e[m]) > DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1])))
        m++;
    return m;
}

/* Golub and Welsch: nodes are the eigenvalues of the Jacobi matrix, weights the squared first
 * components of its eigenvectors. Implicit QL, which updates only that first row: O(n^2). */
es_status es_gauss_rule(int n, double *node, double *off, double *weight, es_error *err)
{
    enum { PATIENCE = 60 };
    for (int i = 0; i < n; i++)
        weight[i] = i == 0 ? 1.0 : 0.0;
    off[n - 1] = 0.0;
    for (int l = 0; l < n; l++) {
        int step = 0;
        for (int m = find_split(l, n, node, off); m != l; m = find_split(l, n, node, off)) {
            if (step++ == PATIENCE)
                return es_fail(err, ES_E_NUMERIC, "limit.gauss", "",
                               "a Gauss rule of %d points did not converge", n);
            ql_step(l, m, node, off, weight);
        }
    }
    for (int i = 0; i < n; i++)
        weight[i] *= weight[i];
    return ES_OK;
}

es_status es_gauss_beta(double a, double b, int n, double *node, double *off, double *weight,
                        es_error *err)
{
    /* Jacobi polynomials on [-1, 1] with weight (1-y)^alpha (1+y)^beta; x = (1+y)/2. */
    const double alpha = b - 1.0, beta = a - 1.0, sum = alpha + beta;
    for (int i = 0; i < n; i++) {
        const double k = (double)i, t = 2.0 * k + sum;
        const double y =
            i == 0 ? (beta - alpha) / (sum + 2.0) : (beta - alpha) * sum / (t * (t + 2.0));
        const double l = k + 1.0, u = t + 2.0; /* off[i] joins i and i+1 */
        /* (l + sum)/(u - 1) is 1 for l = 1, where both may be 0 */
        const double joint = i == 0 ? 1.0 : (l + sum) / (u - 1.0);
        node[i] = 0.5 * (1.0 + y);
        off[i] = sqrt(l * (l + alpha) * (l + beta) * joint / (u * u * (u + 1.0)));
    }
    return es_gauss_rule(n, node, off, weight, err);
}

/* ---- from many points to few ---- */

/* Subtracts from v its projection on the unit vector q. */
static void remove_component(double *v, const double *q, int64_t n)
{
    const double c = es_dot_in_four(v, q, n);
    for (int64_t i = 0; i < n; i++)
        v[i] -= c * q[i];
}

es_status es_gauss_compress(const double *x, const double *w, int64_t count, int n, double *basis,
                            double *off, double *node, double *weight, int *out_n, es_error *err)
{
    double low = x[0], high = x[0], total = 0.0;
    for (int64_t i = 0; i < count; i++) {
        low = fmin(low, x[i]);
        high = fmax(high, x[i]);
        total += w[i];
    }
    const double middle = 0.5 * (low + high), scale = 0.5 * (high - low);
    for (int64_t i = 0; i < count; i++)
        basis[i] = sqrt(w[i] / total);
    int j = 0;
    for (bool more = true; more && j < n; j++) {
        const double *q = basis + j * count;
        double *v = basis + (j + 1) * count;
        for (int64_t i = 0; i < count; i++)
            v[i] = (x[i] - middle) * q[i];
        node[j] = middle + es_dot_in_four(v, q, count);
        /* the recurrence first, then all of the basis: twice is enough for orthogonality, and v is
         * already orthogonal to the earlier vectors up to rounding */
        for (int k = j; k >= 0 && k >= j - 1; k--)
            remove_component(v, basis + k * count, count);
        for (int k = j; k >= 0; k--)
            remove_component(v, basis + k * count, count);
        off[j] = sqrt(es_dot_in_four(v, v, count));
        /* the remainder is rounding: no more points */
        more = off[j] > 1e-14 * scale + 4.0 * DBL_EPSILON * fabs(middle);
        for (int64_t i = 0; more && i < count; i++)
            v[i] /= off[j];
    }
    *out_n = j;
    return es_gauss_rule(j, node, off, weight, err);
}
