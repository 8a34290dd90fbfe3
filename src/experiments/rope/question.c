/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : how rotary positions lower the score of a query and a key with their distance.
 *
 * All-ones query and key at distance D have the score s(D) = (2/sqrt(d)) sum_j cos(D b^{-2j/d}),
 * sqrt(d) at D = 0 (THEORY 8). In many dimensions it is sqrt(d) (Ci(D) - Ci(D/b))/ln b, which first
 * vanishes near .6165 b; at d = 128 the sum oscillates around that and is negative much earlier, so
 * `first_negative` is searched and not computed. Granularity is the mean turn from one position to
 * the next. Position interpolation divides D by the scale; the base changes b. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "driver/job.h"
#include "experiments/kit/answer_kit.h"
#include "table/table.h"
#include "theory/rope.h"

/* The options. */
typedef struct rope_params {
    es_grid bases, scales, distances;
    int64_t dim, search;
} rope_params;

#define FIELD(member) .field = offsetof(rope_params, member)
static const es_param params[] = {
    {"base", 0, ES_PARAM_REALS, "GRID", "base frequencies", FIELD(bases), .min = 1.001, .max = 1e15,
     .increasing = true, .default_value = "10000,500000"},
    {"scale", 0, ES_PARAM_REALS, "GRID", "position interpolation: distances are divided by these",
     FIELD(scales), .min = 1.0, .max = 1e6, .increasing = true, .default_value = "1"},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimensions of a head, even", FIELD(dim), .min = 2,
     .max = 65536, .default_value = "128", .alias = "d"},
    {"distance", 0, ES_PARAM_COUNTS, "GRID", "distances between a query and a key",
     FIELD(distances), .min = 0, .max = 1e8, .increasing = true, .default_value = "1..1048576*21",
     .unit = "tokens"},
    {"search", 0, ES_PARAM_WHOLE, "N", "search for the first negative score up to this distance",
     FIELD(search), .min = 0, .max = 1e7, .default_value = "100000", .unit = "tokens"},
    {0}};

/* ---- one embedding ----
 * s(D) = (2/sqrt d) sum_{j < d/2} cos(D base^{-2j/d}) is the score of all-ones vectors at distance
 * D (THEORY 8). With u = 2j/d this is a Riemann sum of sqrt d int_0^1 cos(D base^-u) du;
 * substituting z = D base^-u, dz = -z ln(base) du, it becomes sqrt d (Ci(D) - Ci(D/base))/ln base,
 * whose first zero is near D = 0.6165 base. The sum oscillates around this with a standard
 * deviation of about sqrt(ln D/ln base), so its first negative value comes earlier than the zero.
 */

/* What is found about one embedding. */
typedef struct rope_cell {
    double reach, first_negative, granularity, granularity_limit;
} rope_cell;

static const es_cell_field cell_fields[] = {ES_FIELD(rope_cell, reach),
                                            ES_FIELD(rope_cell, first_negative),
                                            ES_FIELD(rope_cell, granularity),
                                            ES_FIELD(rope_cell, granularity_limit),
                                            {0}};

/* Returns embedding i of the grid (base, scale), the scale running fastest. */
static es_rope embedding(const rope_params *p, int64_t i)
{
    return (es_rope){.dim = p->dim,
                     .base = p->bases.reals[i / p->scales.count],
                     .scale = p->scales.reals[i % p->scales.count]};
}

/* Computes a cell: one base and scale. Without a negative score up to --search, first_negative
 * is NaN. */
static es_status run_embedding(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    const rope_params *p = job->params;
    const es_rope r = embedding(p, cell);
    const int64_t first = es_rope_first_negative(&r, p->search);
    (void)exec;
    (void)err;
    *(rope_cell *)record = (rope_cell){.reach = es_rope_reach(&r),
                                       .first_negative = first ? (double)first : (double)NAN,
                                       .granularity = es_rope_granularity(&r),
                                       .granularity_limit = es_rope_granularity_limit(&r)};
    return ES_OK;
}

/* Adds the stage: a cell searches the first distance at which an embedding's score is negative. */
static es_status open_study(es_job *job, es_error *err)
{
    const rope_params *p = job->params;
    if (p->dim % 2)
        return es_refuse(err, "rope.dim", "rotary positions rotate pairs of dimensions",
                         "--dim %lld is odd", (long long)p->dim);
    es_answer_count(job->answer, "dim", p->dim);
    return es_job_stage(
        job,
        &(es_stage){"embedding", .phase = "searching for negative scores", .noun = "embeddings",
                    .cells = p->bases.count * p->scales.count, .rows = 1,
                    ES_RECORD(rope_cell, cell_fields), .one_thread_per_cell = true,
                    /* dim/2 cosines for each distance, about 20 operations each */
                    .flops = 10.0 * (double)(p->dim * (p->search + 1)), .run = run_embedding},
        err);
}

/* Makes a label for each embedding: "10000", or "10000/8" where distances are divided by 8. */
static es_status make_labels(es_job *job, const char ***out, es_error *err)
{
    enum { SIZE = 48 };
    const rope_params *p = job->params;
    const int64_t count = job->stages[0].cells;
    char *texts;
    ES_TRY(ES_JOB_NEW_2D(job, texts, count, SIZE, err));
    ES_TRY(ES_JOB_NEW(job, *out, count, err));
    for (int64_t i = 0; i < count; i++) {
        const es_rope r = embedding(p, i);
        (*out)[i] = texts + i * SIZE;
        snprintf(texts + i * SIZE, SIZE, r.scale == 1.0 ? "%g" : "%g/%g", r.base, r.scale);
    }
    return ES_OK;
}

/* ---- table of embeddings ---- */

/* A row of the table of embeddings. */
typedef struct reach_row {
    double base, scale, reach, first_negative, granularity, granularity_limit;
} reach_row;

static const es_column reach_columns[] = {
    ES_COL(reach_row, base, ES_FORMAT_REAL, "base", ""),
    ES_COL(reach_row, scale, ES_FORMAT_SHORT, "scale", "", "distances are divided by this"),
    ES_COL(reach_row, reach, ES_FORMAT_SHORT, "reach", "tokens",
           "distance at which the score of all-ones vectors, for many dimensions, is first zero: "
           "0.6165 base scale",
           .standing = ES_STANDING_PROVED),
    ES_COL(reach_row, first_negative, ES_FORMAT_COUNT, "negative at", "tokens",
           "first distance at which that score is negative with --dim dimensions, where it "
           "oscillates; empty: not found up to --search"),
    ES_COL(reach_row, granularity, ES_FORMAT_SHORT, "granularity", "",
           "mean sine of the angle between neighbouring positions: larger is easier to resolve"),
    ES_COL(reach_row, granularity_limit, ES_FORMAT_SHORT, "limit", "",
           "granularity for many dimensions, 0.946/ln base at scale 1",
           .standing = ES_STANDING_PROVED),
    {0}};
static const es_table_spec reach_table = {"embeddings", reach_columns, ES_VIEW("Rotary embeddings"),
                                          ES_ROW(reach_row), .keys = "base scale"};

/* Fills the reach of each embedding. */
static void fill_embeddings(const es_job *job, es_answer *a)
{
    es_table *t = es_answer_table(a, &reach_table);
    for (int64_t i = 0; i < job->stages[0].cells; i++) {
        const es_rope r = embedding(job->params, i);
        const rope_cell *cell = es_job_cell(job, 0, i);
        reach_row *row = es_rows_add(t, reach_row);
        if (!row)
            return;
        *row = (reach_row){r.base,
                           r.scale,
                           cell->reach,
                           cell->first_negative,
                           cell->granularity,
                           cell->granularity_limit};
    }
}

/* Reports the first and the last embedding. Both distances are exact: they differ because a sum of
 * few cosines oscillates around its limit. */
static void report_reach(const es_job *job, const char *const *labels, es_answer *a)
{
    const rope_params *p = job->params;
    const int64_t count = job->stages[0].cells, step = es_say_step(count);
    for (int64_t i = 0; i < count; i += step) {
        const rope_cell *cell = es_job_cell(job, 0, i);
        char first[96];
        if (isnan(cell->first_negative))
            snprintf(first, sizeof first, "no score is negative up to %lld tokens",
                     (long long)p->search);
        else
            snprintf(first, sizeof first, "the first negative score is at %.0f tokens",
                     cell->first_negative);
        es_answer_add_finding(a,
                              "With base %s and many dimensions the score of all-ones vectors "
                              "falls to zero at %.0f tokens; with %lld dimensions %s.%s",
                              labels[i], cell->reach, (long long)p->dim, first,
                              i + step < count ? ""
                                               : " Real heads are not all-ones vectors: esscher "
                                                 "probe measures them.");
    }
}

/* ---- tables of scores ---- */

/* One distance, all embeddings: for people. */
typedef struct score_row {
    int64_t distance;
    double *score; /* one for each embedding */
} score_row;

static const es_column score_columns[] = {
    ES_COL(score_row, distance, ES_FORMAT_COUNT, "distance", "tokens"),
    ES_COL(score_row, score, ES_FORMAT_SHORT, "score", "",
           "of all-ones query and key, `sqrt(dim)` at distance 0, by base and scale"),
    {0}};
static const es_table_spec score_table = {"scores", score_columns,
                                          ES_VIEW("Score against distance"), ES_ROW(score_row),
                                          .keys = "distance"};

/* One embedding at one distance: for programs. */
typedef struct rope_row {
    double base, scale;
    int64_t distance;
    double score, continuum;
} rope_row;

static const es_column row_columns[] = {
    ES_COL(rope_row, base, ES_FORMAT_REAL, "base", ""),
    ES_COL(rope_row, scale, ES_FORMAT_SHORT, "scale", ""),
    ES_COL(rope_row, distance, ES_FORMAT_COUNT, "distance", "tokens"),
    ES_COL(rope_row, score, ES_FORMAT_REAL, "score", "",
           "of all-ones query and key with --dim dimensions"),
    ES_COL(rope_row, continuum, ES_FORMAT_REAL, "continuum", "",
           "score for many dimensions: `sqrt(dim) (Ci(D) - Ci(D/base))/ln base`",
           .standing = ES_STANDING_PROVED),
    {0}};
static const es_table_spec row_table = {"rows", row_columns, NULL, ES_ROW(rope_row),
                                        .keys = "base scale distance"};

/* Fills both tables of scores from the same numbers. Scores are cheap sums of dim/2 cosines, so
 * no cell holds them. */
static void fill_scores(const es_job *job, const char *const *labels, es_answer *a)
{
    const rope_params *p = job->params;
    const int64_t embeddings = job->stages[0].cells;
    es_table *scores = es_answer_table(a, &score_table), *rows = es_answer_table(a, &row_table);
    es_table_each(scores, "score", labels, embeddings);
    for (int64_t d = 0; d < p->distances.count; d++) {
        score_row *line = es_rows_add(scores, score_row);
        if (!line)
            return;
        line->distance = p->distances.counts[d];
        for (int64_t i = 0; i < embeddings; i++) {
            const es_rope r = embedding(p, i);
            rope_row *row = es_rows_add(rows, rope_row);
            if (!row)
                return;
            *row = (rope_row){.base = r.base,
                              .scale = r.scale,
                              .distance = p->distances.counts[d],
                              .score = es_rope_score(&r, p->distances.reals[d]),
                              .continuum = es_rope_continuum(&r, p->distances.reals[d])};
            line->score[i] = row->score;
        }
    }
}

/* ---- the study ---- */

/* Fills the tables and adds the finding about reach. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const char **labels;
    ES_TRY(make_labels(job, &labels, err));
    fill_embeddings(job, answer);
    es_answer_texts(answer, "labels", labels, job->stages[0].cells);
    fill_scores(job, labels, answer);
    report_reach(job, labels, answer);
    return es_answer_status(answer, err);
}

static const char *const examples[] = {"esscher rope", "esscher rope --base 10000 --scale 1,2,4,8",
                                       "esscher rope --base 1e4,5e5,1e6 --distance 1..1e6*60 --csv",
                                       "esscher rope --distance 1..1e6*100 --out rope.run", NULL};

const es_study es_study_rope = {
    "rope",
    .summary = "how rotary positions weaken scores with distance, by base frequency",
    .group = ES_GROUP_LAB,
    .usage = "[options]",
    .about = "A rotary embedding lowers the score of a query and a key with their distance, "
             "whatever they contain. Shows this attenuation for all-ones vectors, by base "
             "frequency and position interpolation: at which distance the score reaches zero, and "
             "how well neighbouring positions can still be resolved. For many dimensions that "
             "distance is 6166 tokens with base 10000 and 308252 with base 500000 [proved]. Real "
             "heads have other vectors, and may look further: probe measures them.",
    .examples = examples,
    .params = params,
    .size = sizeof(rope_params),
    .takes = ES_TAKES_THREADS,
    .csv = "rows",
    .open = open_study,
    .summarise = summarise};
