/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : tables and findings, from the places in the plane. Each row has the distances of the
 * outputs beside those in the plane, so that the picture is never the only evidence. */
#include "experiments/picture/picture.h"

#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "stats/average.h"

/* One n: the outputs against their limits, and the same in the plane. */
typedef struct picture_row {
    int64_t n;
    double map_error;
    es_measured distance;
    double relative, own;
    es_measured distance_plane;
    double relative_plane, own_plane;
} picture_row;

static const es_column row_columns[] = {
    ES_COL(picture_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(picture_row, map_error, ES_FORMAT_REAL, "map error", "",
           "root mean square over queries of an output's distance from its limit"),
    ES_COL(picture_row, distance, ES_FORMAT_REAL, "distance", "",
           "mean over queries of the same; its error is that of the queries: the tokens are one "
           "draw"),
    ES_COL(picture_row, relative, ES_FORMAT_SHORT, "of spread", "",
           "map error over the spread of the limits, the root mean square distance from their "
           "mean"),
    ES_COL(picture_row, own, ES_FORMAT_SHORT, "own nearest", "share",
           "outputs that are nearer to their own limit than to that of any other query"),
    ES_COL(picture_row, distance_plane, ES_FORMAT_REAL, "in the plane", "",
           "mean distance of a point from its limit's; comparable between n, not with other "
           "columns"),
    ES_COL(picture_row, relative_plane, ES_FORMAT_SHORT, "of spread", "",
           "root mean square distance in the plane over the spread of the limits there"),
    ES_COL(picture_row, own_plane, ES_FORMAT_SHORT, "own nearest", "share",
           "points that are nearer to their own limit's than to that of any other query"),
    {0}};
static const es_table_view row_views[] = {
    {"Outputs and their limits, as computed and in the plane",
     "n map_error distance relative own distance_plane own_plane"},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views, ES_ROW(picture_row),
                                         .keys = "n"};

/* One output, or one limit. */
typedef struct point_row {
    const char *set;
    int64_t n, query;
    double x, y, distance;
} point_row;

static const es_column point_columns[] = {
    ES_COL(point_row, set, ES_FORMAT_TEXT, "set", "", "the number of tokens, or limit"),
    ES_COL(point_row, n, ES_FORMAT_COUNT, "n", "tokens", "empty in the limit"),
    ES_COL(point_row, query, ES_FORMAT_COUNT, "query", "",
           "its number: the same query in every set"),
    ES_COL(point_row, x, ES_FORMAT_REAL, "x", "", "place in the plane"),
    ES_COL(point_row, y, ES_FORMAT_REAL, "y", "", "place in the plane"),
    ES_COL(point_row, distance, ES_FORMAT_REAL, "distance", "",
           "of the output itself from its limit, not in the plane"),
    {0}};
static const es_table_spec points_table = {"points", point_columns,
                                           ES_VIEW("Places in the plane", .only_with_full = true),
                                           ES_ROW(point_row), .keys = "set query"};

/* ---- one set against the limits ---- */

/* Points of one space: (queries), rows `stride` apart, `dim` numbers each. */
typedef struct cloud {
    const double *set, *limit;
    int64_t queries, dim, stride;
} cloud;

/* Returns the Euclidean distance of two points. */
static double apart(const double *a, const double *b, int64_t dim)
{
    double sum = 0.0;
    for (int64_t c = 0; c < dim; c++)
        sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sqrt(sum);
}

/* Returns the distance of a query's point from its limit. */
static double distance_of(const cloud *c, int64_t query)
{
    return apart(c->set + query * c->stride, c->limit + query * c->stride, c->dim);
}

/* Returns the root mean square distance of the limits from their mean. */
static double spread_of(const cloud *c)
{
    double squares = 0.0;
    for (int64_t j = 0; j < c->dim; j++)
        squares += es_spread_of(c->limit + j, c->queries, c->stride).squares;
    return sqrt(squares / (double)c->queries);
}

/* Returns the share of points that are nearer to their own limit than to any other. A limit that
 * two queries share counts for neither. */
static double own_of(const cloud *c)
{
    int64_t own = 0;
    for (int64_t i = 0; i < c->queries; i++) {
        const double mine = distance_of(c, i);
        bool nearest = true;
        for (int64_t j = 0; j < c->queries && nearest; j++)
            nearest =
                j == i || apart(c->set + i * c->stride, c->limit + j * c->stride, c->dim) > mine;
        own += nearest;
    }
    return (double)own / (double)c->queries;
}

/* What the points of one set are like, beside the limits. */
typedef struct nearness {
    es_measured mean; /* distance from the limit */
    double rms, relative, own;
} nearness;

/* Compares a set with the limits; `distances` (queries) is working memory. */
static nearness compare_with_limits(const cloud *c, double *distances)
{
    for (int64_t i = 0; i < c->queries; i++)
        distances[i] = distance_of(c, i);
    const double rms = es_measured_rms(distances, c->queries, 1).value, spread = spread_of(c);
    return (nearness){.mean = es_measured_mean(distances, c->queries),
                      .rms = rms,
                      /* equal limits spread by the rounding of their mean */
                      .relative = spread > 1e-12 * rms ? rms / spread : (double)NAN,
                      .own = own_of(c)};
}

/* ---- tables ---- */

/* Returns the outputs of a set, and those of the limit. */
static cloud outputs_of(const es_job *job, int64_t set)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    return (cloud){picture_outputs(job, set), picture_outputs(job, s->sets - 1), p->queries,
                   s->channels, s->channels + 1};
}

/* Returns the places of a set in the plane, and those of the limit. */
static cloud places_of(const es_job *job, int64_t set)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const picture_place *plane = es_job_cell(job, PICTURE_PLANE, 0);
    return (cloud){&plane[set * p->queries].x, &plane[(s->sets - 1) * p->queries].x, p->queries, 2,
                   2};
}

/* Adds a row for each query of a set. */
static es_status add_points(const es_job *job, es_answer *answer, int64_t set, es_error *err)
{
    const picture_params *p = job->params;
    const cloud outputs = outputs_of(job, set), places = places_of(job, set);
    es_table *t = es_answer_table(answer, &points_table);
    const bool limit = set == p->sizes.count;
    const char *name =
        limit ? "limit" : es_table_format(t, "%lld", (long long)p->sizes.counts[set]);
    for (int64_t i = 0; i < p->queries; i++) {
        point_row *r = es_rows_add(t, point_row);
        if (!r)
            return es_answer_status(answer, err);
        r->set = name;
        if (!limit)
            r->n = p->sizes.counts[set];
        r->query = i;
        r->x = places.set[2 * i];
        r->y = places.set[2 * i + 1];
        r->distance = distance_of(&outputs, i);
    }
    return ES_OK;
}

/* Adds the row of one n; `distances` (queries) is working memory. */
static es_status add_row(const es_job *job, es_answer *answer, int64_t set, double *distances,
                         es_error *err)
{
    const picture_params *p = job->params;
    const cloud outputs = outputs_of(job, set), places = places_of(job, set);
    const nearness space = compare_with_limits(&outputs, distances);
    const nearness plane = compare_with_limits(&places, distances);
    picture_row *r = es_rows_add(es_answer_table(answer, &rows_table), picture_row);
    if (!r)
        return es_answer_status(answer, err);
    r->n = p->sizes.counts[set];
    r->map_error = space.rms;
    r->distance = space.mean;
    r->relative = space.relative;
    r->own = space.own;
    r->distance_plane = plane.mean;
    r->relative_plane = plane.relative;
    r->own_plane = plane.own;
    return ES_OK;
}

/* ---- findings ---- */

/* Returns the root mean square of the error that the limits themselves have. */
static double limit_error(const es_job *job)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const double *limit = picture_outputs(job, s->sets - 1);
    return es_measured_rms(limit + s->channels, p->queries, s->channels + 1).value;
}

/* States how far outputs are from their limits at the smallest and the largest n. */
static void report_convergence(const es_job *job, es_answer *answer, const picture_row *rows)
{
    const picture_params *p = job->params;
    const cloud outputs = outputs_of(job, 0);
    const double spread = spread_of(&outputs);
    const picture_row *first = &rows[0], *last = &rows[p->sizes.count - 1];
    char small[ES_SAY_SIZE], large[ES_SAY_SIZE];
    es_say_size((double)first->n, small);
    es_say_size((double)last->n, large);
    if (p->sizes.count > 1)
        es_answer_add_finding(answer,
                              "Over %s tokens an output is %.3g from its limit, over %s tokens "
                              "%.3g (root mean square over %lld queries, one draw of the tokens). "
                              "For comparison: limits of different queries vary by %.3g around "
                              "their mean.",
                              small, first->map_error, large, last->map_error,
                              (long long)p->queries, spread);
    else
        es_answer_add_finding(answer,
                              "Over %s tokens an output is %.3g from its limit (root mean square "
                              "over %lld queries, one draw of the tokens). For comparison: limits "
                              "of different queries vary by %.3g around their mean.",
                              small, first->map_error, (long long)p->queries, spread);
}

/* States how far the plane can be trusted. */
static void report_plane(const es_job *job, es_answer *answer)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const picture_quality *q = picture_quality_of(job);
    if (p->method == PICTURE_TSNE)
        es_answer_add_finding(answer,
                              "Caution: t-SNE keeps neighbours, not distances: read distances in "
                              "the table, not in the picture. Its trustworthiness is %.3f (1: the "
                              "%lld nearest points in the plane are also the nearest outputs).",
                              q->trustworthiness, (long long)s->neighbours);
    else
        es_answer_add_finding(answer,
                              "The plane of the first two principal components has %.3g %% of the "
                              "outputs' variance: distances in it are at most the true ones "
                              "(trustworthiness %.3f).",
                              100.0 * (q->shares[0] + q->shares[1]), q->trustworthiness);
    if (q->tied > 0.0)
        es_answer_add_finding(answer,
                              "Caution: %.0f of %lld points lie on each other in the picture: each "
                              "has %.3g or more nearest neighbours at one distance, mostly equal "
                              "outputs.",
                              q->tied, (long long)s->points, p->perplexity);
}

/* Adds what the limit is, and a caution if its own error is not small against the smallest distance
 * measured: such distances describe the pool. */
static void report_limit(const es_job *job, es_answer *answer, const picture_row *rows)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const double error = limit_error(job);
    double smallest = (double)INFINITY;
    for (int64_t i = 0; i < p->sizes.count; i++)
        smallest = fmin(smallest, rows[i].map_error);
    es_answer_text(answer, "limit", s->spec.law ? "law" : "pool");
    es_answer_real(answer, "limit_error", error);
    if (!s->spec.law && error > 0.5 * smallest)
        es_answer_add_finding(answer,
                              "Caution: the limit is a pool of %lld tokens, itself uncertain by "
                              "%.3g: distances of that size describe the pool.",
                              (long long)es_pool_about(s->spec.pool).tokens, error);
}

/* Adds the results that stand alone: spreads, and the quality of the plane. */
static void add_quality(const es_job *job, es_answer *answer)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const picture_quality *q = picture_quality_of(job);
    const cloud space = outputs_of(job, 0), plane = places_of(job, 0);
    es_answer_real(answer, "output_rms", spread_of(&space));
    es_answer_real(answer, "plane_rms", spread_of(&plane));
    es_answer_reals(answer, "variance_shares", q->shares, 2);
    es_answer_real(answer, "variance_share", q->shares[0] + q->shares[1]);
    es_answer_real(answer, "trustworthiness", q->trustworthiness);
    es_answer_real(answer, "continuity", q->continuity);
    es_answer_count(answer, "neighbours", s->neighbours);
    if (p->method != PICTURE_TSNE)
        return;
    es_answer_real(answer, "divergence", q->divergence);
    es_answer_real(answer, "slope", q->slope);
    es_answer_real(answer, "perplexity_off", q->perplexity_off);
    es_answer_count(answer, "tied", (int64_t)q->tied);
}

es_status picture_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    double *distances;
    ES_TRY(ES_JOB_NEW(job, distances, p->queries, err));
    if (!s->spec.law)
        es_pools_unreadable(&s->pools, answer);
    for (int64_t set = 0; set < p->sizes.count; set++)
        ES_TRY(add_row(job, answer, set, distances, err));
    for (int64_t set = 0; set < s->sets; set++)
        ES_TRY(add_points(job, answer, set, err));
    add_quality(job, answer);
    const picture_row *rows = es_rows(es_answer_table(answer, &rows_table), picture_row);
    report_convergence(job, answer, rows);
    report_plane(job, answer);
    report_limit(job, answer, rows);
    if (!s->spec.law) {
        es_caution_scores(s->pools.config, "outputs and their limits are", answer);
        es_pools_caution(&s->pools, answer);
    }
    return ES_OK;
}
