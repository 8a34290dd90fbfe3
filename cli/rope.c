/* esscher rope : how far rotary positions let a query see. */
#include <esscher/rope.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "answer.h"
#include "grid.h"
#include "run_file.h"
#include "talk.h"

typedef struct rope_options {
    cli_grid bases, scales, distances;
    int64_t dim, search;
    cli_run_options run;
} rope_options;

static const rope_options defaults = {.dim = 128, .search = 100000};

static const cli_option options[] = {
    {"base", 'b', CLI_REALS, "GRID", "base frequencies (default: 10000,500000)",
     .field = offsetof(rope_options, bases), .min = 1.001, .max = 1e15, .increasing = true},
    {"scale", 0, CLI_REALS, "GRID",
     "position interpolation: distances are divided by these (default: 1)",
     .field = offsetof(rope_options, scales), .min = 1.0, .max = 1e6, .increasing = true},
    {"dim", 'd', CLI_WHOLE, "D", "dimensions of a head, even (default: 128)",
     .field = offsetof(rope_options, dim), .min = 2, .max = 65536},
    {"distance", 0, CLI_COUNTS, "GRID", "distances in tokens (default: 1..1048576*21)",
     .field = offsetof(rope_options, distances), .min = 0, .max = 1e8, .increasing = true},
    {"search", 0, CLI_WHOLE, "N",
     "look for the first negative score up to this distance (default: 100000)",
     .field = offsetof(rope_options, search), .min = 0, .max = 1e7},
    CLI_RUN_OPTIONS(rope_options, run),
    {0}};

/* ---- views ---- */

static const cli_column reach_columns[] = {
    {"base", "base", "", .format = CLI_REAL},
    {"scale", "scale", "", .format = CLI_SHORT},
    {"reach", "reach", "tokens", .format = CLI_REAL,
     .definition = "distance at which the score of all-ones vectors, with many dimensions, first "
                   "is zero: 0.6165 base"},
    {"first_negative", "negative at", "tokens", .format = CLI_COUNT,
     .definition = "first distance at which it is negative with --dim dimensions, where it swings; "
                   "empty: none up to --search"},
    {"granularity", "granularity", "", .format = CLI_SHORT,
     .definition = "mean sine of the angle between neighbouring positions: how well they are told "
                   "apart"},
    {"granularity_limit", "limit", "", .format = CLI_SHORT,
     .definition = "the same for many dimensions, 0.946/ln base"},
    {0}};
static const cli_table reach_table = {
    .rows = "embeddings", .title = "Rotary embeddings", .columns = reach_columns};

static const cli_column score_columns[] = {
    {"distance", "distance", "tokens", .format = CLI_COUNT},
    {"score", "score", "", .format = CLI_SHORT, .each = "labels",
     .definition = "of all-ones query and key, sqrt(dim) at distance 0, by base and scale"},
    {0}};
static const cli_table score_table = {
    .rows = "scores", .title = "Score against distance", .columns = score_columns};

static const cli_column row_columns[] = {{"base", "base", "", .format = CLI_REAL},
                                         {"scale", "scale", "", .format = CLI_SHORT},
                                         {"distance", "distance", "tokens", .format = CLI_COUNT},
                                         {"score", "score", "", .format = CLI_REAL},
                                         {"continuum", "continuum", "", .format = CLI_REAL},
                                         {0}};
static const cli_table row_table = {
    .rows = "rows", .title = "Score against distance", .columns = row_columns};

static const cli_table *const all[] = {&reach_table, &score_table, &row_table, NULL};
static const cli_table *const people[] = {&reach_table, &score_table, NULL};
static const cli_table *const programs[] = {&row_table, &reach_table, NULL};

/* ---- the answer ---- */

static void fill_in(cli_grid *grid, const char *text, bool whole)
{
    const cli_grid_rule rule = {.min = 0, .max = 1e15, .increasing = true};
    char why[64];
    if (!grid->count)
        cli_grid_parse(text, whole, &rule, grid, why, (int)sizeof why);
}

static json_t *embedding_row(const es_rope *r, int64_t search)
{
    json_t *row = json_object();
    const int64_t first = es_rope_first_negative(r, search);
    json_object_set_new(row, "base", cli_real(r->base));
    json_object_set_new(row, "scale", cli_real(r->scale));
    json_object_set_new(row, "reach", cli_real(es_rope_reach(r)));
    json_object_set_new(row, "first_negative", first ? json_integer(first) : json_null());
    json_object_set_new(row, "granularity", cli_real(es_rope_granularity(r)));
    json_object_set_new(row, "granularity_limit", cli_real(es_rope_granularity_limit(r)));
    return row;
}

static void put_scores(const rope_options *o, json_t *answer)
{
    json_t *scores = json_array(), *rows = json_array();
    for (int64_t i = 0; i < o->distances.count; i++) {
        json_t *line = json_object(), *each = json_array();
        for (int64_t b = 0; b < o->bases.count; b++)
            for (int64_t s = 0; s < o->scales.count; s++) {
                const es_rope r = {o->dim, o->bases.reals[b], o->scales.reals[s]};
                json_t *row = json_object();
                json_object_set_new(row, "base", cli_real(r.base));
                json_object_set_new(row, "scale", cli_real(r.scale));
                json_object_set_new(row, "distance", json_integer(o->distances.counts[i]));
                json_object_set_new(row, "score",
                                    cli_real(es_rope_score(&r, o->distances.reals[i])));
                json_object_set_new(row, "continuum",
                                    cli_real(es_rope_continuum(&r, o->distances.reals[i])));
                json_array_append(each, json_object_get(row, "score"));
                json_array_append_new(rows, row);
            }
        json_object_set_new(line, "distance", json_integer(o->distances.counts[i]));
        json_object_set_new(line, "score", each);
        json_array_append_new(scores, line);
    }
    json_object_set_new(answer, "rows", rows);
    json_object_set_new(answer, "scores", scores);
}

static es_status answer(cli_session *session, const rope_options *o)
{
    json_t *embeddings = json_array(), *labels = json_array();
    json_object_set_new(session->answer, "dim", json_integer(o->dim));
    json_object_set_new(session->answer, "embeddings", embeddings);
    json_object_set_new(session->answer, "labels", labels);
    for (int64_t b = 0; b < o->bases.count; b++)
        for (int64_t s = 0; s < o->scales.count; s++) {
            char label[48];
            const es_rope r = {o->dim, o->bases.reals[b], o->scales.reals[s]};
            if (cli_interrupted())
                return ES_E_INTERRUPTED;
            snprintf(label, sizeof label, r.scale == 1.0 ? "%g" : "%g/%g", r.base, r.scale);
            json_array_append_new(embeddings, embedding_row(&r, o->search));
            json_array_append_new(labels, json_string(label));
        }
    put_scores(o, session->answer);
    session->views = session->common.csv ? programs : people;
    return ES_OK;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    rope_options *o = given;
    cli_run_file file;
    if (o->dim % 2)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "rope.dim", "dimensions turn in pairs",
                        "--dim %lld is odd", (long long)o->dim);
    fill_in(&o->bases, "10000,500000", false);
    fill_in(&o->scales, "1", false);
    fill_in(&o->distances, "1..1048576*21", true);
    const es_status status = cli_run_open(session, o, &o->run, &file, err);
    return status == ES_OK ? cli_run_close(&file, session, answer(session, o), err) : status;
}

static const char *const examples[] = {"esscher rope", "esscher rope --base 10000 --scale 1,2,4,8",
                                       "esscher rope --base 1e4,5e5,1e6 --distance 1..1e6*60 --csv",
                                       "esscher rope --distance 1..1e6*100 --out rope.run", NULL};

const cli_command cli_rope = {
    .name = "rope",
    .summary = "how rotary positions attenuate scores with distance, by base frequency",
    .usage = "[options]",
    .about =
        "A rotary embedding lowers the score of a query and a key with their distance, whatever "
        "they are about. Shows that attenuation for vectors of ones, by base frequency and by "
        "position interpolation; where it ends; and what each costs in telling neighbouring "
        "positions apart. With base 10000 the reach is 6165 tokens; with 500000 it is 308000.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT,
    .defaults = &defaults,
    .size = sizeof(rope_options),
    .views = all,
    .run = run,
};
