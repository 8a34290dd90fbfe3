/* SPDX-License-Identifier: Apache-2.0 */
/* far_gaussian.c : the Gaussian law of scores and values that has the mean and covariance of some
 * keys, as keys that far_risk.c can sum over.
 *
 * Given its score s a value is Gaussian with mean E v + (s - E s) Cov(v, s)/Var s and a covariance
 * that does not depend on s. (F2) has values only linearly and as |u|^2, so that it takes keys at
 * scores s with these means, and the trace of that covariance. Integrands are the Gaussian density
 * times e^{-x}, x e^{-x} or x^2 e^{-x} at x = l e^s: analytic and bounded within pi/2 of the real
 * line, so that the trapezoid rule with steps of h nats is off by e^{-pi^2/h}, and by
 * e^{-2 pi^2/h^2} for steps of h standard deviations: 4e-6 and 4e-14 here. */
#include "risk/far_risk.h"

#include <math.h>

#define STEP 0.8 /* in nats, and in standard deviations */
#define TAIL 6.0 /* standard deviations beyond which the law is cut off */

/* Mean and covariance of some keys; those of values are in es_far_nodes. */
typedef struct law {
    double score, sd;
    double scatter; /* variance of values, summed over channels */
} law;

/* Adds up the means of score and value. */
static double find_means(const es_far_stratum *from, int64_t width, double *mean)
{
    double score = 0.0;
    for (int64_t c = 0; c < width; c++)
        mean[c] = 0.0;
    for (int64_t j = 0; j < from->keys.count; j++) {
        const double share = es_far_share(from, j);
        score += share > 0.0 ? share * from->keys.scores[j] : 0.0;
        for (int64_t c = 0; c < width; c++)
            mean[c] += share * from->keys.values[j * width + c];
    }
    return score;
}

/* Finds the law: nodes->slope is how values follow their score, and scatter what does not. */
static law find_law(const es_far_stratum *from, int64_t width, const es_far_nodes *nodes)
{
    law l = {.score = find_means(from, width, nodes->mean), .scatter = from->scatter};
    double variance = 0.0;
    for (int64_t c = 0; c < width; c++)
        nodes->slope[c] = 0.0;
    for (int64_t j = 0; j < from->keys.count; j++) {
        const double share = es_far_share(from, j);
        const double s = share > 0.0 ? from->keys.scores[j] - l.score : 0.0;
        variance += share * s * s;
        for (int64_t c = 0; c < width; c++) {
            const double v = from->keys.values[j * width + c] - nodes->mean[c];
            nodes->slope[c] += share * s * v;
            l.scatter += share * v * v;
        }
    }
    for (int64_t c = 0; c < width; c++) {
        nodes->slope[c] = variance > 0.0 ? nodes->slope[c] / variance : 0.0;
        l.scatter -= nodes->slope[c] * nodes->slope[c] * variance;
    }
    l.scatter = fmax(l.scatter, 0.0);
    l.sd = sqrt(variance);
    return l;
}

es_far_stratum es_far_gaussian(const es_far_stratum *from, int64_t width, const es_far_nodes *nodes)
{
    const law l = find_law(from, width, nodes);
    const double range = 2.0 * TAIL + 2.0 * l.sd; /* e^{2s} moves the law up by 2 sd^2 */
    const double step = fmax(STEP / fmax(l.sd, 1.0), range / (ES_FAR_NODES - 1));
    const int64_t count = l.sd > 0.0 ? 1 + (int64_t)(range / step) : 1;
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++) {
        const double z = l.sd > 0.0 ? step * (double)j - TAIL : 0.0;
        nodes->scores[j] = l.score + l.sd * z;
        nodes->shares[j] = exp(-0.5 * z * z);
        sum += nodes->shares[j];
        for (int64_t c = 0; c < width; c++)
            nodes->values[j * width + c] = nodes->mean[c] + l.sd * z * nodes->slope[c];
    }
    for (int64_t j = 0; j < count; j++)
        nodes->shares[j] /= sum;
    return (es_far_stratum){.draws = from->draws,
                            .keys = {count, nodes->scores, nodes->values},
                            .shares = nodes->shares,
                            .scatter = l.scatter};
}
