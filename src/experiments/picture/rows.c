/* rows.c : from places in the plane to tables and findings. A picture is never the only
 * evidence: every row has the distances of outputs where they were measured beside those that the
 * plane shows. */
#include "experiments/picture/question.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/picture/embed.h"
#include "stats/average.h"

static const es_column row_columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"map_error", "map error", "", ES_FORMAT_REAL,
     "root mean square over queries of an output's distance from its limit"},
    {"distance", "distance", "", ES_FORMAT_REAL,
     "mean over queries of the same; its error is that of the queries: the tokens are one draw",
     .error = "distance_se"},
    {"relative", "of spread", "", ES_FORMAT_SHORT,
     "map error over the spread of the limits, the root mean square distance from their mean"},
    {"own", "own nearest", "share", ES_FORMAT_SHORT,
     "outputs that are nearer to their own limit than to that of any other query"},
    {"distance_plane", "in the plane", "", ES_FORMAT_REAL,
     "mean distance of a point from its limit's; comparable between n, not with other columns",
     .error = "distance_plane_se"},
    {"relative_plane", "of spread", "", ES_FORMAT_SHORT,
     "root mean square distance in the plane over the spread of the limits there"},
    {"own_plane", "own nearest", "share", ES_FORMAT_SHORT,
     "points that are nearer to their own limit's than to that of any other query"},
    {0}};
static const es_table_view row_views[] = {
    {"Outputs and their limits, where they are and in the plane",
     "n map_error distance relative own distance_plane own_plane"},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views, .keys = "n"};

static const es_column point_columns[] = {
    {"set", "set", "", ES_FORMAT_TEXT, "the number of tokens, or limit"},
    {"n", "n", "tokens", ES_FORMAT_COUNT, "empty in the limit"},
    {"query", "query", "", ES_FORMAT_COUNT, "its number: the same query in every set"},
    {"x", "x", "", ES_FORMAT_REAL, "place in the plane"},
    {"y", "y", "", ES_FORMAT_REAL, "place in the plane"},
    {"distance", "distance", "", ES_FORMAT_REAL,
     "of the output itself from its limit, not in the plane"},
    {0}};
static const es_table_spec points_table = {"points", point_columns,
                                           ES_VIEW("Places in the plane", .only_with_full = true),
                                           .keys = "set query"};

/* ---- one set against the limits ---- */

/* Points of one space: (queries), rows `stride` apart, `dim` numbers each. */
typedef struct cloud {
    const double *set, *limit;
    int64_t queries, dim, stride;
} cloud;

static double apart(const double *a, const double *b, int64_t dim)
{
    double sum = 0.0;
    for (int64_t c = 0; c < dim; c++)
        sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sqrt(sum);
}

static double distance_of(const cloud *c, int64_t query)
{
    return apart(c->set + query * c->stride, c->limit + query * c->stride, c->dim);
}

/* Root mean square distance of the limits from their mean. */
static double spread_of(const cloud *c)
{
    double squares = 0.0;
    for (int64_t j = 0; j < c->dim; j++)
        squares += es_spread_of(c->limit + j, c->queries, c->stride).squares;
    return sqrt(squares / (double)c->queries);
}

/* Share of points that are nearer to their own limit than to any other; one that two queries share
 * is nobody's own. */
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

typedef struct seen {
    es_measured mean;
    double rms, relative, own;
} seen;

static seen look(const cloud *c, double *distances)
{
    for (int64_t i = 0; i < c->queries; i++)
        distances[i] = distance_of(c, i);
    const double rms = es_measured_rms(distances, c->queries, 1).value, spread = spread_of(c);
    return (seen){.mean = es_measured_mean(distances, c->queries),
                  .rms = rms,
                  /* limits in one place spread by the rounding of their mean */
                  .relative = spread > 1e-12 * rms ? rms / spread : (double)NAN,
                  .own = own_of(c)};
}

/* ---- tables ---- */

static cloud outputs_of(const es_job *job, int64_t set)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    return (cloud){picture_outputs(job, set), picture_outputs(job, s->sets - 1), p->queries,
                   s->channels, s->channels + 1};
}

static cloud places_of(const es_job *job, int64_t set)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const double *plane = es_job_numbers(job, PICTURE_PLANE, 0);
    return (cloud){plane + 2 * set * p->queries, plane + 2 * (s->sets - 1) * p->queries, p->queries,
                   2, 2};
}

static void put_points(const es_job *job, es_answer *answer, int64_t set)
{
    const picture_params *p = job->params;
    const cloud outputs = outputs_of(job, set), places = places_of(job, set);
    es_table *t = es_answer_table(answer, &points_table);
    const bool limit = set == p->sizes.count;
    char name[24];
    snprintf(name, sizeof name, "%lld", limit ? 0LL : (long long)p->sizes.counts[set]);
    for (int64_t i = 0; i < p->queries; i++) {
        const int64_t row = es_table_row(t);
        es_table_text(t, row, "set", limit ? "limit" : name);
        if (!limit)
            es_table_count(t, row, "n", p->sizes.counts[set]);
        es_table_count(t, row, "query", i);
        es_put(t, row, {"x", places.set[2 * i]}, {"y", places.set[2 * i + 1]},
               {"distance", distance_of(&outputs, i)});
    }
}

static void put_row(es_table *t, int64_t n, const seen *space, const seen *plane)
{
    const int64_t row = es_table_row(t);
    es_table_count(t, row, "n", n);
    es_put(t, row, {"map_error", space->rms}, {"distance", space->mean.value},
           {"distance_se", space->mean.se}, {"relative", space->relative}, {"own", space->own},
           {"distance_plane", plane->mean.value}, {"distance_plane_se", plane->mean.se},
           {"relative_plane", plane->relative}, {"own_plane", plane->own});
}

/* ---- findings ---- */

/* Root mean square of the error that the limits themselves have. */
static double limit_error(const es_job *job)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const double *limit = picture_outputs(job, s->sets - 1);
    return es_measured_rms(limit + s->channels, p->queries, s->channels + 1).value;
}

static void tell_convergence(const es_job *job, es_answer *answer, const seen *first,
                             const seen *last)
{
    const picture_params *p = job->params;
    const cloud outputs = outputs_of(job, 0);
    const double spread = spread_of(&outputs);
    char small[ES_SAY_ROOM], large[ES_SAY_ROOM];
    es_say_size((double)p->sizes.counts[0], small);
    es_say_size((double)p->sizes.counts[p->sizes.count - 1], large);
    if (p->sizes.count > 1)
        es_answer_add_finding(
            answer,
            "Over %s tokens an output is %.3g from its limit, over %s %.3g (root mean "
            "square over %lld queries, one draw of the tokens); limits of different "
            "queries spread by %.3g.",
            small, first->rms, large, last->rms, (long long)p->queries, spread);
    else
        es_answer_add_finding(
            answer,
            "Over %s tokens an output is %.3g from its limit (root mean square over "
            "%lld queries, one draw of the tokens); limits of different queries spread "
            "by %.3g.",
            small, first->rms, (long long)p->queries, spread);
    if (p->sizes.count > 1)
        es_answer_add_finding(
            answer,
            "Nearer to its own limit than to that of any other query are %.3g %% of the "
            "outputs over %s tokens and %.3g %% over %s.",
            100.0 * first->own, small, 100.0 * last->own, large);
}

static void tell_picture(const es_job *job, es_answer *answer)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const double *facts = es_job_numbers(job, PICTURE_PLANE, 0) + 2 * s->points;
    const double *share = facts + 2 * PICTURE_SHARES, trust = facts[2 * PICTURE_TRUST];
    if (p->method == PICTURE_TSNE)
        es_answer_add_finding(
            answer,
            "Caution: t-SNE keeps neighbours, not distances: sizes of groups and gaps "
            "between them in the picture mean nothing. Its trustworthiness is %.3f (1: "
            "all of the %lld nearest points in the plane are near outputs), its "
            "divergence %.3g nats; distances are in the table of rows.",
            trust, (long long)s->neighbours, facts[2 * PICTURE_DESCENT]);
    else
        es_answer_add_finding(answer,
                              "The plane of the first two principal components has %.3g %% of the "
                              "outputs' variance: distances in it are at most the true ones "
                              "(trustworthiness %.3f).",
                              100.0 * (share[0] + share[1]), trust);
    if (facts[2 * PICTURE_AFFINITY + 1] > 0.0)
        es_answer_add_finding(
            answer,
            "Caution: %.0f of %lld points have %.3g or more nearest neighbours at one "
            "distance, mostly equal outputs: they lie on each other in the picture.",
            facts[2 * PICTURE_AFFINITY + 1], (long long)s->points, p->perplexity);
}

/* Errors near the pool's own describe the pool. */
static void tell_limit(const es_job *job, es_answer *answer, double smallest)
{
    const picture_state *s = job->state;
    const double error = limit_error(job);
    es_answer_text(answer, "limit", s->spec.law ? "law" : "pool");
    es_answer_real(answer, "limit_error", error);
    if (!s->spec.law && error > 0.5 * smallest)
        es_answer_add_finding(
            answer,
            "Caution: the limit is a pool of %lld tokens, itself uncertain by %.3g: "
            "distances of that size describe the pool.",
            (long long)es_pool_about(s->spec.pool).tokens, error);
}

static void put_facts(const es_job *job, es_answer *answer)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const double *facts = es_job_numbers(job, PICTURE_PLANE, 0) + 2 * s->points;
    const cloud space = outputs_of(job, 0), plane = places_of(job, 0);
    es_answer_real(answer, "output_rms", spread_of(&space));
    es_answer_real(answer, "plane_rms", spread_of(&plane));
    es_answer_reals(answer, "variance_shares", facts + 2 * PICTURE_SHARES, 2);
    es_answer_real(answer, "variance_share",
                   facts[2 * PICTURE_SHARES] + facts[2 * PICTURE_SHARES + 1]);
    es_answer_real(answer, "trustworthiness", facts[2 * PICTURE_TRUST]);
    es_answer_real(answer, "continuity", facts[2 * PICTURE_TRUST + 1]);
    es_answer_count(answer, "neighbours", s->neighbours);
    if (p->method != PICTURE_TSNE)
        return;
    es_answer_real(answer, "divergence", facts[2 * PICTURE_DESCENT]);
    es_answer_real(answer, "slope", facts[2 * PICTURE_DESCENT + 1]);
    es_answer_real(answer, "perplexity_off", facts[2 * PICTURE_AFFINITY]);
    es_answer_count(answer, "tied", (int64_t)facts[2 * PICTURE_AFFINITY + 1]);
}

es_status picture_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    es_table *t = es_answer_table(answer, &rows_table);
    double *distances, smallest = (double)INFINITY;
    seen first = {{0}}, last = {{0}};
    ES_TRY(ES_JOB_NEW(job, distances, p->queries, err));
    if (!s->spec.law)
        es_pools_unreadable(&s->pools, answer);
    for (int64_t set = 0; set < p->sizes.count; set++) {
        const cloud space = outputs_of(job, set), plane = places_of(job, set);
        const seen there = look(&plane, distances);
        last = look(&space, distances);
        first = set == 0 ? last : first;
        smallest = fmin(smallest, last.rms);
        put_row(t, p->sizes.counts[set], &last, &there);
    }
    for (int64_t set = 0; set < s->sets; set++)
        put_points(job, answer, set);
    put_facts(job, answer);
    tell_convergence(job, answer, &first, &last);
    tell_picture(job, answer);
    tell_limit(job, answer, smallest);
    if (!s->spec.law)
        es_pools_caution(&s->pools, answer);
    return ES_OK;
}
