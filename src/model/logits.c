/* SPDX-License-Identifier: Apache-2.0 */
/* logits.c : two answers of a classifier or decoder compared. */
#include "model/logits.h"

#include <math.h>

int64_t es_logits_best(const double *logits, int64_t labels)
{
    int64_t best = 0;
    for (int64_t i = 1; i < labels; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* Returns ln sum exp(x) over x (n), without overflow. */
static double log_sum(const double *x, int64_t n)
{
    double most = x[0], sum = 0.0;
    for (int64_t i = 1; i < n; i++)
        most = fmax(most, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - most);
    return most + log(sum);
}

/* With r = ln(q/p) the divergence is sum p (e^r - 1 - r), since p and q both add up to 1. No term
 * is negative, and for small r they are r^2/2, which sum p ln(p/q) would lose to cancellation. */
double es_logits_kl(const double *a, const double *b, int64_t labels)
{
    const double za = log_sum(a, labels), zb = log_sum(b, labels);
    double sum = 0.0;
    for (int64_t i = 0; i < labels; i++) {
        const double r = (b[i] - zb) - (a[i] - za);
        const double term =
            fabs(r) < 1e-3 ? r * r * (0.5 + r / 6.0 * (1.0 + r / 4.0)) : expm1(fmin(r, 700.0)) - r;
        sum += exp(a[i] - za) * term;
    }
    return sum;
}
