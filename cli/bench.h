/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h : the parts of `esscher bench`.
 *
 *     bench.c         options, the order of things
 *     bench_speed.c   share of the machine's peak, shape by shape
 *     bench_decode.c  few queries against the speed of memory
 *     bench_costs.c   what statistics, prefixes and scales cost beside the output alone
 *     bench_model.c   a model's forward pass beside its products alone
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <esscher/attend.h>

#include "command.h"

typedef struct bench_options {
    bool quick;
    es_grid d, threads;
    int64_t n, repetitions;
    const char *model;
    double compare_time; /* seconds of another kernel; NaN: none */
} bench_options;

/* The inputs of one shape and buffers for the results; f32, standard normal. */
typedef struct bench_data {
    int64_t m, n, d;
    float *q, *k, *v; /* v follows k in memory, so that both can be read in one pass */
    es_view views[3];
    double *output; /* (sets, m, d) */
} bench_data;

void bench_data_new(bench_data *data, uint64_t seed, int64_t m, int64_t n, int64_t d, int64_t sets);
void bench_data_free(bench_data *data);

/* Seconds of one es_attend(). */
es_status bench_time(cli_session *session, const bench_data *data, const es_attend_opts *opts,
                     const es_attend_out *out, double *seconds, es_error *err);

/* Median, smallest and largest of count numbers; sorts them. */
typedef struct bench_spread {
    double median, min, max;
} bench_spread;
bench_spread bench_spread_of(double *values, int64_t count);

/* One row: a shape, at a number of threads and a precision. */
es_status bench_speed(cli_session *session, const bench_options *o, const bench_data *data,
                      int threads, es_dtype precision, es_error *err);
extern const es_table_spec bench_speed_table;

/* Adds the table with another kernel's time beside ours at the first shape, and beside the peak. */
void bench_compare_time(cli_session *session, const bench_options *o);

/* Few queries against many keys, each number of threads. */
enum { BENCH_DECODE_SHAPES = 3 };
es_status bench_decode(cli_session *session, const bench_options *o, int64_t n, int64_t d,
                       es_error *err);

es_status bench_costs(cli_session *session, const bench_options *o, es_error *err);

/* Instead of attention: the model that --model names. */
es_status bench_model(cli_session *session, const bench_options *o, es_error *err);

#endif
