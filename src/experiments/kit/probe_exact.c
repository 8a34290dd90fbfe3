/* SPDX-License-Identifier: Apache-2.0 */
/* probe_exact.c : what the exact errors of some queries (kit/probe_slices.c) say about all of them,
 * and about the n that a head needs. */
#include "experiments/kit/probe_inside.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"

enum { ALL, EVEN, ODD, SETS = ES_PROBE_SETS, POWERS = ES_PROBE_POWERS };

/* Exact errors of a head's queries, from which the mean over all queries is estimated. */
typedef struct curve {
    const es_probe *probe;
    int64_t head, few;
    const double *exact; /* (few, SETS, sizes) of the head */
    double *apart;       /* (queries) mean square distance of values from the output */
} curve;

/* mean |v - y|^2 = tr Wv S Wv' + |Wv mean - y|^2: the error of one token. */
static es_status curve_of(const es_probe *p, int64_t head, const double *exact, curve *c,
                          es_error *err)
{
    const int64_t H = p->weights.hidden, Q = p->weights.all;
    const int64_t k = p->weights.width, m = p->queries;
    if (head < 0 || head >= p->weights.heads)
        return es_fail(err, ES_E_RANGE, "probe.head", "count from 0", "head %lld of %lld",
                       (long long)head, (long long)p->weights.heads);
    *c = (curve){.probe = p, .head = head, .few = es_probe_exact_of(&p->spec, m)};
    c->exact = exact + es_probe_exact_at(&p->spec, c->few, head, 0);
    ES_TRY(ES_MEM_NEW(p->exec.budget, c->apart, m, "distances", err));
    const es_probe_gram gram = es_probe_gram_of(p, head);
    for (int64_t l = 0; l < k; l++) {
        const float *row = p->weights.wv + (head * k + l) * H;
        double mean = 0.0;
        for (int64_t j = 0; j < H; j++)
            mean += (double)row[j] * p->mean[j];
        for (int64_t i = 0; i < m; i++)
            c->apart[i] += gram.vv[l * k + l] + pow(p->limit[i * Q + head * k + l] - mean, 2.0);
    }
    return ES_OK;
}

/* What all queries have: right for one token and, if the weights spread, for many. */
static double rough(const curve *c, int64_t i, double n)
{
    const double sampling = c->probe->sampling[c->head * c->probe->queries + i];
    return 1.0 / (n / sampling + 1.0 / c->apart[i]);
}

/* Returns the exact mean square error of query i at size s, over one set of keys. */
static double of_set(const curve *c, int64_t i, int set, int64_t s)
{
    return c->exact[(i * SETS + set) * es_probe_exact_sizes(&c->probe->spec) + s];
}

/* Returns the mean of the above over the queries that are computed exactly. */
static double mean_of_set(const curve *c, int set, int64_t s)
{
    double sum = 0.0;
    for (int64_t i = 0; i < c->few; i++)
        sum += of_set(c, i, set, s) / (double)c->few;
    return sum;
}

/* The mean square error over all m queries, estimated from the f whose error is exact, with the
 * rough error x_i, which is known for all, as covariate: the regression estimator of survey
 * sampling (THEORY 9 (E4)). With y_i the exact squares, means over the f queries, X the mean of x
 * over all m, S_xx = sum (x_i - mean x)^2, b = S_xy/S_xx:
 *
 *     square   = mean y + b (X - mean x)
 *     variance = s^2 (1/f - 1/m) + s^2 (X - mean x)^2/S_xx          over the m queries of this text
 *     in_text  = s^2/f + s^2 (X - mean x)^2/S_xx + max(0, s_y^2 - s^2)/m      over queries at large
 *     s^2      = (1/f) sum (r_i/(1 - h_i))^2,  h_i = 1/f + (x_i - mean x)^2/S_xx
 *
 * r_i is the residual of query i; divided by 1 - h_i it is the residual against the line of the
 * others. The plain mean, with s_y^2 in place of s^2 and b = 0, is used if its variance is smaller.
 */
typedef struct estimate {
    double square, variance, in_text;
} estimate;

/* Deviations of exact and rough errors of the exact queries from their means. */
typedef struct scatter {
    double mean, rough, step; /* means, and by how much that of all queries is above the latter */
    double xx, xy, yy;
} scatter;

/* Returns sums for the regression of exact errors on rough ones, which are known for all queries:
 * step is how far the mean of all differs from that of the computed ones. */
static scatter scatter_at(const curve *c, int64_t s, double n)
{
    const double few = (double)c->few, m = (double)c->probe->queries;
    scatter d = {.mean = mean_of_set(c, ALL, s)};
    for (int64_t i = 0; i < c->probe->queries; i++) {
        d.step += rough(c, i, n) / m;
        d.rough += i < c->few ? rough(c, i, n) / few : 0.0;
    }
    d.step -= d.rough;
    for (int64_t i = 0; i < c->few; i++) {
        const double x = rough(c, i, n) - d.rough, y = of_set(c, i, ALL, s) - d.mean;
        d.xx += x * x;
        d.xy += x * y;
        d.yy += y * y;
    }
    return d;
}

/* Returns the regression estimate of the mean over all queries, y + slope step, with its variance
 * for the sampled queries and for a population of them. The residuals are weighted by leverage;
 * without variation in x it is the plain mean. */
static estimate estimate_at(const curve *c, int64_t s, double n)
{
    const scatter d = scatter_at(c, s, n);
    const double few = (double)c->few, left = 1.0 / few - 1.0 / (double)c->probe->queries;
    const double plain = d.yy / fmax(few - 1.0, 1.0);
    const estimate mean = {d.mean, plain * left, plain / few};
    if (!(d.xx > 0.0))
        return mean;
    const double slope = d.xy / d.xx;
    double around = 0.0;
    for (int64_t i = 0; i < c->few; i++) {
        const double x = rough(c, i, n) - d.rough, own = 1.0 / few + x * x / d.xx;
        const double off = of_set(c, i, ALL, s) - d.mean - slope * x;
        around += own < 1.0 ? pow(off / (1.0 - own), 2.0) / few : off * off;
    }
    const double of_slope = around * d.step * d.step / d.xx, along = plain - around;
    const estimate line = {d.mean + slope * d.step, around * left + of_slope,
                           around / few + of_slope + fmax(along, 0.0) / (double)c->probe->queries};
    return line.square > 0.0 && line.variance < mean.variance ? line : mean;
}

es_status es_probe_curve(const es_probe *probe, int64_t head, const double *exact,
                         es_probe_point *out, es_error *err)
{
    curve c;
    ES_TRY(curve_of(probe, head, exact, &c, err));
    for (int64_t s = 0; s < probe->spec.n_sizes; s++) {
        const estimate e = estimate_at(&c, s, (double)probe->spec.sizes[s]);
        const double error = sqrt(e.square);
        const double halves = sqrt(mean_of_set(&c, EVEN, s)) - sqrt(mean_of_set(&c, ODD, s));
        out[s] =
            (es_probe_point){.map_error = error,
                             .map_error_se = error > 0.0 ? sqrt(e.variance) / error / 2.0 : 0.0,
                             .map_error_pool = fabs(halves) / 2.0,
                             .few = sqrt(mean_of_set(&c, ALL, s))};
    }
    es_mem_free(probe->exec.budget, c.apart);
    return ES_OK;
}

/* ---- how many tokens ---- */

/* Where a curve (POWERS) at powers of two, a line in logarithms between them, falls to `square`;
 * its slope there. */
static double crossing(const double *at, double square, double *slope)
{
    int64_t i = 0;
    while (i < POWERS - 2 && at[i + 1] > square)
        i++;
    *slope = log(at[i + 1] / at[i]) / log(2.0);
    if (at[POWERS - 1] > square) { /* beyond: like 1/n */
        *slope = -1.0;
        return ldexp(at[POWERS - 1] / square, POWERS - 1);
    }
    return at[i] <= square ? 1.0 : ldexp(exp(log(square / at[i]) / *slope), (int)i);
}

es_status es_probe_tokens_required(const es_probe *probe, int64_t head, const double *exact,
                                   double level, es_probe_need *out, es_error *err)
{
    curve c;
    double all[POWERS], halves[2][POWERS], relative[POWERS], slope, unused;
    if (!(level > 0.0))
        return es_fail(err, ES_E_RANGE, "probe.level", "above zero", "the level is %g", level);
    ES_TRY(curve_of(probe, head, exact, &c, err));
    for (int64_t i = 0; i < POWERS; i++) {
        const int64_t s = probe->spec.n_sizes + i;
        const estimate e = estimate_at(&c, s, ldexp(1.0, (int)i));
        all[i] = e.square;
        relative[i] = sqrt(e.in_text) / e.square;
        for (int h = 0; h < 2; h++) /* with the same step from some queries to all */
            halves[h][i] = e.square * mean_of_set(&c, EVEN + h, s) / mean_of_set(&c, ALL, s);
    }
    es_mem_free(probe->exec.budget, c.apart);
    const double square = level * level, tokens = crossing(all, square, &slope);
    const int64_t near = (int64_t)fmin(fmax(floor(log2(tokens) + 0.5), 0.0), POWERS - 1);
    const double even = crossing(halves[0], square, &unused);
    const double odd = crossing(halves[1], square, &unused);
    *out = (es_probe_need){.tokens = tokens,
                           .queries_se = tokens * relative[near] / fmax(-slope, 0.05),
                           .pool_error = fabs(even - odd) / 2.0};
    return ES_OK;
}
