/* question.c : how far rotary positions let a query see. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "driver/job.h"
#include "experiments/kit/answer_kit.h"
#include "theory/rope.h"

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
    {"distance", 0, ES_PARAM_COUNTS, "GRID", "distances of a query and a key", FIELD(distances),
     .min = 0, .max = 1e8, .increasing = true, .default_value = "1..1048576*21", .unit = "tokens"},
    {"search", 0, ES_PARAM_WHOLE, "N", "look for the first negative score up to this distance",
     FIELD(search), .min = 0, .max = 1e7, .default_value = "100000", .unit = "tokens"},
    {0}};

/* ---- tables ---- */

static const es_column reach_columns[] = {
    {"base", "base", "", ES_FORMAT_REAL},
    {"scale", "scale", "", ES_FORMAT_SHORT, "distances are divided by it"},
    {"reach", "reach", "tokens", ES_FORMAT_SHORT,
     "distance at which the score of all-ones vectors, with many dimensions, first is zero: 0.6165 "
     "base scale",
     .standing = ES_STANDING_PROVED},
    {"first_negative", "negative at", "tokens", ES_FORMAT_COUNT,
     "first distance at which it is negative with --dim dimensions, where it swings; empty: none "
     "up to --search"},
    {"granularity", "granularity", "", ES_FORMAT_SHORT,
     "mean sine of the angle between neighbouring positions: how well they are told apart"},
    {"granularity_limit", "limit", "", ES_FORMAT_SHORT,
     "the same for many dimensions, 0.946/ln base at scale 1", .standing = ES_STANDING_PROVED},
    {0}};
static const es_table_spec reach_table = {"embeddings", reach_columns, ES_VIEW("Rotary embeddings"),
                                          .keys = "base scale"};

static const es_column score_columns[] = {
    {"distance", "distance", "tokens", ES_FORMAT_COUNT},
    {"score", "score", "", ES_FORMAT_SHORT,
     "of all-ones query and key, sqrt(dim) at distance 0, by base and scale", .each = true},
    {0}};
static const es_table_spec score_table = {"scores", score_columns,
                                          ES_VIEW("Score against distance"), .keys = "distance"};

/* The same numbers one to a row, for programs; people have the table above. */
static const es_column row_columns[] = {
    {"base", "base", "", ES_FORMAT_REAL},
    {"scale", "scale", "", ES_FORMAT_SHORT},
    {"distance", "distance", "tokens", ES_FORMAT_COUNT},
    {"score", "score", "", ES_FORMAT_REAL, "of all-ones query and key with --dim dimensions"},
    {"continuum", "continuum", "", ES_FORMAT_REAL,
     "the same for many dimensions: sqrt(dim) (Ci(D) - Ci(D/base))/ln base",
     .standing = ES_STANDING_PROVED},
    {0}};
static const es_table_spec row_table = {"rows", row_columns, NULL, .keys = "base scale distance"};

/* ---- one embedding, THEORY 8 ----
 * s(D) = (2/sqrt d) sum_{j < d/2} cos(D base^{-2j/d}). With u = 2j/d this is a Riemann sum of
 * sqrt d int_0^1 cos(D base^-u) du; substituting z = D base^-u, dz = -z ln(base) du, it becomes
 * sqrt d (Ci(D) - Ci(D/base))/ln base, which first is zero near D = 0.6165 base. The sum swings
 * around it, with a standard deviation of about sqrt(ln D/ln base): hence two distances. */

enum { REACH, FIRST_NEGATIVE, GRANULARITY, GRANULARITY_LIMIT, COLUMNS };
static const char *const cell_columns[COLUMNS] = {"reach", "first_negative", "granularity",
                                                  "granularity_limit"};

/* Embedding i of (base, scale), the last running fastest. */
static es_rope embedding(const rope_params *p, int64_t i)
{
    return (es_rope){.dim = p->dim,
                     .base = p->bases.reals[i / p->scales.count],
                     .scale = p->scales.reals[i % p->scales.count]};
}

static es_status run_embedding(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    double *out = record;
    const rope_params *p = job->params;
    const es_rope r = embedding(p, cell);
    (void)exec;
    (void)err;
    const int64_t first = es_rope_first_negative(&r, p->search);
    out[REACH] = es_rope_reach(&r);
    out[FIRST_NEGATIVE] = first ? (double)first : (double)NAN;
    out[GRANULARITY] = es_rope_granularity(&r);
    out[GRANULARITY_LIMIT] = es_rope_granularity_limit(&r);
    return ES_OK;
}

static es_status open_study(es_job *job, es_error *err)
{
    const rope_params *p = job->params;
    if (p->dim % 2)
        return es_refuse(err, "rope.dim", "dimensions turn in pairs", "--dim %lld is odd",
                         (long long)p->dim);
    es_answer_count(job->answer, "dim", p->dim);
    return es_job_stage(
        job,
        &(es_stage){"embedding", .phase = "looking for negative scores", .noun = "embeddings",
                    .cells = p->bases.count * p->scales.count, .rows = 1, .cols = COLUMNS,
                    .columns = cell_columns, .one_thread_per_cell = true,
                    /* a cosine is some 20 operations */
                    .flops = 10.0 * (double)(p->dim * (p->search + 1)), .run = run_embedding},
        err);
}

/* ---- what it says ---- */

/* "10000", or "10000/8" where distances are divided. */
static es_status make_labels(es_job *job, const char ***out, es_error *err)
{
    enum { ROOM = 48 };
    const rope_params *p = job->params;
    const int64_t count = job->stages[0].cells;
    char *texts;
    ES_TRY(ES_JOB_NEW_2D(job, texts, count, ROOM, err));
    ES_TRY(ES_JOB_NEW(job, *out, count, err));
    for (int64_t i = 0; i < count; i++) {
        const es_rope r = embedding(p, i);
        (*out)[i] = texts + i * ROOM;
        snprintf(texts + i * ROOM, ROOM, r.scale == 1.0 ? "%g" : "%g/%g", r.base, r.scale);
    }
    return ES_OK;
}

static void put_embeddings(const es_job *job, es_answer *a)
{
    es_table *t = es_answer_table(a, &reach_table);
    for (int64_t i = 0; i < job->stages[0].cells; i++) {
        const es_rope r = embedding(job->params, i);
        const double *cell = es_job_numbers(job, 0, i);
        const int64_t row = es_table_row(t);
        es_put(t, row, {"base", r.base}, {"scale", r.scale});
        for (int k = 0; k < COLUMNS; k++)
            es_table_real(t, row, cell_columns[k], cell[k]);
    }
}

static void put_scores(const es_job *job, const char *const *labels, es_answer *a)
{
    const rope_params *p = job->params;
    const int64_t embeddings = job->stages[0].cells;
    es_table *scores = es_answer_table(a, &score_table), *rows = es_answer_table(a, &row_table);
    es_table_each(scores, "score", labels, embeddings);
    for (int64_t d = 0; d < p->distances.count; d++) {
        const int64_t line = es_table_row(scores);
        es_table_count(scores, line, "distance", p->distances.counts[d]);
        for (int64_t i = 0; i < embeddings; i++) {
            const es_rope r = embedding(p, i);
            const double score = es_rope_score(&r, p->distances.reals[d]);
            const int64_t row = es_table_row(rows);
            es_put_at(scores, line, "score", i, score);
            es_put(rows, row, {"base", r.base}, {"scale", r.scale},
                   {"distance", (double)p->distances.counts[d]}, {"score", score},
                   {"continuum", es_rope_continuum(&r, p->distances.reals[d])});
        }
    }
}

/* Both distances are exact; that they differ is no error but the swing of a sum of few cosines. */
static void tell_reach(const es_job *job, const char *const *labels, es_answer *a)
{
    const rope_params *p = job->params;
    const int64_t count = job->stages[0].cells, step = es_say_step(count);
    for (int64_t i = 0; i < count; i += step) {
        const double *cell = es_job_numbers(job, 0, i);
        char swing[96];
        if (isnan(cell[FIRST_NEGATIVE]))
            snprintf(swing, sizeof swing, "no score up to %lld tokens is negative",
                     (long long)p->search);
        else
            snprintf(swing, sizeof swing, "scores first dip below zero at %.0f tokens",
                     cell[FIRST_NEGATIVE]);
        es_answer_add_finding(
            a,
            "With base %s position alone lets a query reach %.0f tokens; with %lld "
            "dimensions %s, and neighbouring positions differ by a sine of %.3g.",
            labels[i], cell[REACH], (long long)p->dim, swing, cell[GRANULARITY]);
    }
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const char **labels;
    ES_TRY(make_labels(job, &labels, err));
    put_embeddings(job, answer);
    es_answer_texts(answer, "labels", labels, job->stages[0].cells);
    put_scores(job, labels, answer);
    tell_reach(job, labels, answer);
    return ES_OK;
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
             "whatever they are about. Shows that attenuation for vectors of ones, by base "
             "frequency and by position interpolation; where it ends; and what each costs in "
             "telling neighbouring positions apart. With base 10000 the reach is 6165 tokens; with "
             "500000 it is 308000: those of many dimensions [proved].",
    .examples = examples,
    .params = params,
    .size = sizeof(rope_params),
    .takes = ES_TAKES_THREADS,
    .csv = "rows",
    .open = open_study,
    .summarise = summarise};
