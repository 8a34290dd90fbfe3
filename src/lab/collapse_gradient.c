/* collapse_gradient.c : how a token's output moves with every token (THEORY.md 7).
 *
 * With Q_k = I - y_k y_k', m = sum_j A_ij y_j, C = sum_j A_ij y_j y_j' - m m' and u_k = y_k - m,
 *     dx_i'/dx_k = A_ik (I + beta u_k y_i') Q_k / sqrt q                  k != i
 *     dx_i'/dx_i = (A_ii I + beta C) Q_i / sqrt q + alpha I
 */
#include <math.h>
#include <string.h>

#include "lab/collapse.h"

static double dot(const double *a, const double *b, int64_t d)
{
    double sum = 0.0;
    for (int64_t j = 0; j < d; j++)
        sum += a[j] * b[j];
    return sum;
}

static void add(double *to, double factor, const double *x, int64_t d)
{
    for (int64_t j = 0; j < d; j++)
        to[j] += factor * x[j];
}

/* Sums over the row that one pass over the tokens collects. */
typedef struct pass {
    double off;  /* sum over k != i of the squared norms, without 1/q */
    double wcc;  /* sum_j A_ij <y_i, y_j>^2 */
    double p;    /* A_ii */
    double *CQz; /* C Q_i z */
} pass;

static pass sum_up(const es_jacobian_row *r)
{
    const int64_t d = r->dim;
    const double *own = r->y + r->i * d, beta = r->beta;
    const double a = dot(own, r->m, d), mm = dot(r->m, r->m, d);
    double *z = r->scratch + d; /* Q_i z */
    pass s = {.CQz = r->scratch};
    memset(s.CQz, 0, (size_t)d * sizeof(double));
    memcpy(z, r->probe, (size_t)d * sizeof(double));
    add(z, -dot(own, z, d), own, d);
    for (int64_t k = 0; k < r->n; k++) {
        const double *y = r->y + k * d;
        const double c = dot(own, y, d), b = dot(y, r->m, d), w = exp(beta * c - r->lse);
        add(s.CQz, w * dot(y, z, d), y, d);
        s.wcc += w * c * c;
        if (k == r->i)
            s.p = w;
        else
            s.off += w * w *
                     ((double)(d - 1) + 2.0 * beta * (c * b - a) +
                      beta * beta * (1.0 - 2.0 * b + mm) * (1.0 - c * c));
    }
    add(s.CQz, -dot(r->m, z, d), r->m, d);
    return s;
}

double es_jacobian_row2(const es_jacobian_row *r)
{
    const int64_t d = r->dim;
    const pass s = sum_up(r);
    const double a = dot(r->y + r->i * d, r->m, d), mm = dot(r->m, r->m, d);
    const double CQ = (1.0 - mm) - (s.wcc - a * a); /* trace */
    const double trace = s.p * (double)(d - 1) + r->beta * CQ;
    const double own = s.p * s.p * (double)(d - 1) + 2.0 * s.p * r->beta * CQ +
                       r->beta * r->beta * dot(s.CQz, s.CQz, d);
    return (own + s.off) / r->square + 2.0 * r->alpha * trace / sqrt(r->square) +
           r->alpha * r->alpha * (double)d;
}
