/* SPDX-License-Identifier: Apache-2.0 */
/* What more than the output costs: two ways of working are timed in turns, and their ratio taken
 * within each turn. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "talk.h"

static const es_column columns[] = {
    {"what", "what", "", ES_FORMAT_TEXT},
    {"m", "queries", "", ES_FORMAT_COUNT},
    {"n", "keys", "", ES_FORMAT_COUNT},
    {"ratio", "ratio", "", ES_FORMAT_SHORT,
     "time of the first by time of the second, median over repetitions"},
    {"ratio_min", "least", "", ES_FORMAT_SHORT},
    {"ratio_max", "most", "", ES_FORMAT_SHORT},
    {"ratio_spread", "spread", "", ES_FORMAT_SHORT, "most less least"},
    {"d", "d", "", ES_FORMAT_COUNT},
    {"repeats", "repetitions", "", ES_FORMAT_COUNT},
    {"goal", "goal", "", ES_FORMAT_TEXT},
    {0}};

static const es_table_view views[] = {{"Costs beside one pass for the output (f32, d = 64)",
                                       "what m n ratio ratio_min ratio_max goal"},
                                      {0}};
static const es_table_spec table = {"costs", columns, views};

enum { D = 64, SETS = 12 };

/* Space for every statistic a contender may ask for. */
typedef struct results {
    double *lse, *entropy, *top_weight, *sum_squares; /* (SETS m) */
    int64_t *top_index;
    es_moments moments[SETS];
    double scales[SETS];
    int64_t prefixes[SETS];
} results;

/* One contender: seconds for its work, all of it. */
typedef es_status (*contender)(cli_session *session, const bench_data *data, results *r,
                               double *seconds, es_error *err);

/* Returns the options of plain attention in f32. */
static es_attend_opts plain(cli_session *session)
{
    return (es_attend_opts){.precision = ES_F32, .exec = &session->exec};
}

/* Times attention that computes only the output: the reference. */
static es_status output_alone(cli_session *session, const bench_data *data, results *r,
                              double *seconds, es_error *err)
{
    (void)r;
    const es_attend_opts opts = plain(session);
    const es_attend_out out = {.output = data->output};
    return bench_time(session, data, &opts, &out, seconds, err);
}

/* Times attention with all statistics. */
static es_status all_statistics(cli_session *session, const bench_data *data, results *r,
                                double *seconds, es_error *err)
{
    const es_attend_opts opts = plain(session);
    const es_attend_out out = {.output = data->output,
                               .lse = r->lse,
                               .entropy = r->entropy,
                               .top_weight = r->top_weight,
                               .top_index = r->top_index,
                               .sum_squares = r->sum_squares};
    return bench_time(session, data, &opts, &out, seconds, err);
}

/* Times attention with moments of the output. */
static es_status with_moments(cli_session *session, const bench_data *data, results *r,
                              double *seconds, es_error *err)
{
    const es_attend_opts opts = plain(session);
    const es_attend_out out = {.output = data->output, .moments = r->moments};
    const es_status status = bench_time(session, data, &opts, &out, seconds, err);
    if (status == ES_OK)
        es_moments_free(&r->moments[0]);
    return status;
}

/* Times several prefixes in one pass. */
static es_status all_prefixes(cli_session *session, const bench_data *data, results *r,
                              double *seconds, es_error *err)
{
    es_attend_opts opts = plain(session);
    opts.prefixes = r->prefixes;
    opts.n_prefixes = SETS;
    const es_attend_out out = {.output = data->output};
    return bench_time(session, data, &opts, &out, seconds, err);
}

/* Times several score scales in one pass. */
static es_status shared_scales(cli_session *session, const bench_data *data, results *r,
                               double *seconds, es_error *err)
{
    es_attend_opts opts = plain(session);
    opts.scales = r->scales;
    opts.n_scales = SETS;
    const es_attend_out out = {.output = data->output};
    return bench_time(session, data, &opts, &out, seconds, err);
}

/* Times the same score scales one after the other. */
static es_status separate_scales(cli_session *session, const bench_data *data, results *r,
                                 double *seconds, es_error *err)
{
    *seconds = 0.0;
    for (int s = 0; s < SETS; s++) {
        es_attend_opts opts = plain(session);
        opts.scales = &r->scales[s];
        opts.n_scales = 1;
        const es_attend_out out = {.output = data->output};
        double one;
        const es_status status = bench_time(session, data, &opts, &out, &one, err);
        if (status != ES_OK)
            return status;
        *seconds += one;
    }
    return ES_OK;
}

static const struct {
    const char *what;
    contender first, second;
    bool smaller; /* half the size: it is many passes */
    const char *goal;
} contests[] = {
    {"all statistics / output alone", all_statistics, output_alone, false, "at most 1.10"},
    {"mean and covariance of outputs / output alone", with_moments, output_alone, false,
     "at most 1.10"},
    {"12 prefixes / largest alone", all_prefixes, output_alone, false, "at most 1.10"},
    {"12 single passes / 12 scales in one", separate_scales, shared_scales, true, "at least 1.6"},
};

/* Allocates the outputs of all contests. */
static void start_results(results *r, int64_t n)
{
    *r = (results){.lse = cli_alloc_array((size_t)n, sizeof(double)),
                   .entropy = cli_alloc_array((size_t)n, sizeof(double)),
                   .top_weight = cli_alloc_array((size_t)n, sizeof(double)),
                   .sum_squares = cli_alloc_array((size_t)n, sizeof(double)),
                   .top_index = cli_alloc_array((size_t)n, sizeof(int64_t))};
}

/* Geometric prefixes from n/30 to n; scales around 1/sqrt(d), a factor 1.87 apart, so that none is
 * a power of two of another. */
static void set_grids(results *r, int64_t n)
{
    for (int i = 0; i < SETS; i++) {
        r->prefixes[i] = (int64_t)((double)n * pow(30.0, (double)i / (SETS - 1) - 1.0) + 0.5);
        r->scales[i] = pow(1.87, (double)(i - SETS / 2)) / sqrt((double)D);
    }
}

/* Frees the outputs. */
static void free_results(results *r)
{
    free(r->lse);
    free(r->entropy);
    free(r->top_weight);
    free(r->sum_squares);
    free(r->top_index);
}

/* Adds a row with the ratio of two times. */
static void put_cost(es_table *t, size_t contest, const bench_data *data, double *ratios,
                     int64_t count)
{
    const bench_spread ratio = bench_spread_of(ratios, count);
    const int64_t at = es_table_row(t);
    es_table_text(t, at, "what", (contests[contest].what));
    es_table_count(t, at, "m", (data->m));
    es_table_count(t, at, "n", (data->n));
    es_table_count(t, at, "d", (data->d));
    es_table_count(t, at, "repeats", (count));
    es_table_real(t, at, "ratio", (ratio.median));
    es_table_real(t, at, "ratio_min", (ratio.min));
    es_table_real(t, at, "ratio_max", (ratio.max));
    es_table_real(t, at, "ratio_spread", (ratio.max - ratio.min));
    es_table_text(t, at, "goal", (contests[contest].goal));
}

/* Times two settings in turn and compares them: alternating cancels drifts of the clock rate. */
static es_status run_contest(cli_session *session, const bench_options *o, size_t contest,
                             results *r, es_error *err)
{
    const int64_t n = contests[contest].smaller ? o->n / 2 : o->n;
    bench_data data;
    bench_data_new(&data, session->common.seed, n, n, D, SETS);
    set_grids(r, n);
    double *ratios = cli_alloc_array((size_t)o->repetitions, sizeof *ratios);
    es_status status = ES_OK;
    for (int64_t i = 0; i < o->repetitions && status == ES_OK; i++) {
        double first = 0.0, second = 1.0;
        status = contests[contest].first(session, &data, r, &first, err);
        if (status == ES_OK)
            status = contests[contest].second(session, &data, r, &second, err);
        ratios[i] = first / second;
    }
    if (status == ES_OK)
        put_cost(es_answer_table(cli_result(session), &table), contest, &data, ratios,
                 o->repetitions);
    free(ratios);
    bench_data_free(&data);
    return status;
}

es_status bench_costs(cli_session *session, const bench_options *o, es_error *err)
{
    results r;
    start_results(&r, o->n);
    es_status status = ES_OK;
    for (size_t c = 0; c < sizeof contests / sizeof contests[0] && status == ES_OK; c++)
        status = run_contest(session, o, c, &r, err);
    free_results(&r);
    return status;
}
