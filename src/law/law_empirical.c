/* SPDX-License-Identifier: Apache-2.0 */
/* law_empirical.c : tokens that are rows of a matrix, with replacement or without.
 *
 * K(s) = logsumexp <s, y_i> - ln n over the n points; its derivatives are mean and covariance under
 * the softmax weights of <s, y_i> (THEORY 1): attention itself, over all there is. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "base/view_at.h"
#include "law/law_row.h"
#include "random/random.h"

#define EPS DBL_EPSILON

enum { CHUNK = 256 }; /* tokens whose points are picked together */

/* Checks the points: their dimension, at least one of them, all finite. */
static es_status check(const es_law *law, es_error *err)
{
    es_scan scan;
    ES_TRY(es_view_check(law->points, "points", err));
    if (law->points->cols != law->dim)
        return es_fail(err, ES_E_SHAPE, "law.points", "points are rows of dimension dim",
                       "points of dimension %lld for a law of dimension %lld",
                       (long long)law->points->cols, (long long)law->dim);
    if (law->points->rows < 1)
        return es_fail(err, ES_E_EMPTY, "law.points", "give at least one point",
                       "an empirical law without points");
    return es_view_scan(law->points, "points", &scan, err);
}

/* ---- drawing ---- */

/* Without replacement, token t of a cell is where one permutation of the points sends t. */
static es_status shuffled(const es_source *s, const es_address *first, int64_t count, double *out,
                          es_error *err)
{
    es_permutation order;
    es_address at = es_token_at(first, 0, ES_LANE_CHOICE);
    at.token = 0;
    ES_TRY(es_permutation_init(&at, s->law.points->rows, &order, err));
    for (int64_t i = 0; i < count; i++)
        es_view_read_row(s->law.points, es_permutation_at(&order, (int64_t)first->token + i),
                         out + i * s->law.dim);
    return ES_OK;
}

/* Draws points by index, a chunk at a time, with replacement unless the law says otherwise. */
static es_status rows(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *out, es_error *err)
{
    (void)stage;
    int64_t index[CHUNK];
    if (s->law.without_replacement)
        return shuffled(s, first, count, out, err);
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < CHUNK ? count - i : CHUNK;
        const es_address at = es_token_at(first, i, ES_LANE_CHOICE);
        ES_TRY(es_integer_rows(&at, n, 1, s->law.points->rows, index, err));
        for (int64_t r = 0; r < n; r++)
            es_view_read_row(s->law.points, index[r], out + (i + r) * s->law.dim);
    }
    return ES_OK;
}

/* Without replacement a cell has as many tokens as there are points. */
static int64_t most(const es_law *law)
{
    return law->without_replacement ? law->points->rows : INT64_MAX;
}

/* ---- tilting ---- */

/* Sums over many points are made of sums over this many, so that rounding grows with
 * GROUP + n/GROUP instead of n. */
enum { GROUP = 512 };

/* Bounds the relative rounding error of a sum of n terms that is computed in groups: each group
 * adds GROUP roundings, their sum n/GROUP more. */
static double rounding_of(int64_t n) { return EPS * (double)(GROUP + n / GROUP + 4); }

/* Scores <s, y_i> into w, their maximum, a bound on their rounding, the largest |y_i|. */
static void score(const es_view *points, const double *s, double *w, double *most, double *error,
                  double *reach)
{
    double largest = 0.0, far2 = 0.0;
    *most = -INFINITY;
    for (int64_t i = 0; i < points->rows; i++) {
        double sum = 0.0, size = 0.0, norm2 = 0.0;
        for (int64_t j = 0; j < points->cols; j++) {
            const double y = es_view_at(points, i, j);
            sum += s[j] * y;
            size += fabs(s[j] * y);
            norm2 += y * y;
        }
        w[i] = sum;
        *most = fmax(*most, sum);
        largest = fmax(largest, size);
        far2 = fmax(far2, norm2);
    }
    *error = (double)points->cols * EPS * largest;
    *reach = sqrt(far2);
}

/* Scores to weights; returns the sum before division by it. */
static double normalise(double *w, int64_t n, double most)
{
    double total = 0.0;
    for (int64_t first = 0; first < n; first += GROUP) {
        double part = 0.0;
        for (int64_t i = first; i < n && i < first + GROUP; i++)
            part += w[i] = exp(w[i] - most);
        total += part;
    }
    for (int64_t i = 0; i < n; i++)
        w[i] /= total;
    return total;
}

/* Computes the mean of the points under weights w (n), in groups, so that rounding errors stay
 * below rounding_of(n). */
static void weighted_mean(const es_view *points, const double *w, double *part, double *mean)
{
    const int64_t d = points->cols;
    memset(mean, 0, (size_t)d * sizeof *mean);
    for (int64_t first = 0; first < points->rows; first += GROUP) {
        memset(part, 0, (size_t)d * sizeof *part);
        for (int64_t i = first; i < points->rows && i < first + GROUP; i++) {
            for (int64_t j = 0; j < d; j++)
                part[j] += w[i] * es_view_at(points, i, j);
        }
        for (int64_t j = 0; j < d; j++)
            mean[j] += part[j];
    }
}

/* Covariance around `mean` (lower triangle, then mirrored); returns its trace. */
static double weighted_cov(const es_view *points, const double *w, const double *mean, double *off,
                           double *cov)
{
    const int64_t d = points->cols;
    double trace = 0.0;
    for (int64_t i = 0; i < points->rows; i++) {
        for (int64_t j = 0; j < d; j++) {
            off[j] = es_view_at(points, i, j) - mean[j];
            trace += w[i] * off[j] * off[j];
        }
        for (int64_t j = 0; cov && j < d; j++) {
            for (int64_t l = 0; l <= j; l++)
                cov[j * d + l] += w[i] * off[j] * off[l];
        }
    }
    for (int64_t j = 0; cov && j < d; j++) {
        for (int64_t l = 0; l < j; l++)
            cov[l * d + j] = cov[j * d + l];
    }
    return trace;
}

/* Computes K, its gradient and Hessian at s: with softmax weights w_i ~ exp(s.x_i) they are log-
 * mean-exp, weighted mean and weighted covariance of the points. */
static es_status tilt(const es_law *law, const double *s, double *work, es_mem_limit *budget,
                      es_tilt *out, es_error *err)
{
    (void)work;
    const es_view *points = law->points;
    const int64_t n = points->rows, d = points->cols;
    double most, error, reach, *w;
    ES_TRY(ES_MEM_NEW(budget, w, n + d, "softmax weights", err));
    if (out->hess)
        memset(out->hess, 0, (size_t)(d * d) * sizeof(double));
    score(points, s, w, &most, &error, &reach);
    const double total = normalise(w, n, most), rounding = rounding_of(n);
    weighted_mean(points, w, w + n, out->grad);
    const double trace = weighted_cov(points, w, out->grad, w + n, out->hess);
    es_mem_free(budget, w);

    out->K = most + log(total) - log((double)n);
    out->K_err = error + rounding + EPS * (fabs(most) + log((double)n) + fabs(out->K));
    const double w_err = 2.0 * (error + rounding); /* relative, of a weight */
    out->grad_err = w_err * sqrt(trace) + rounding * reach;
    out->hess_err = (w_err + EPS * (double)n) * trace + 2.0 * EPS * reach * sqrt(trace);
    out->curvature = trace;
    out->third = 2.0 * reach * trace;
    return ES_OK;
}

const es_law_row es_law_row_empirical = {.kind = ES_LAW_EMPIRICAL,
                                         .name = "empirical",
                                         .title = "empirical",
                                         .uses = ES_LAW_USES_POINTS,
                                         .traits = ES_LAW_ENTIRE,
                                         .check = check,
                                         .rows = rows,
                                         .most = most,
                                         .tilt = tilt};
