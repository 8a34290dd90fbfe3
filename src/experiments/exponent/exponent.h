/* SPDX-License-Identifier: Apache-2.0 */
/* exponent.h : the study `exponent`: how close keys come to a query, and what attention over them
 * does.
 *
 *     question.c     parameters, help, and the order of the summary
 *     estimates.c    tables "estimates" and "scan": the local exponent alpha
 *     freezing.c     tables "freezing" and "runs": at which beta few keys share the weight
 */
#ifndef ES_EXPERIMENTS_EXPONENT_EXPONENT_H
#define ES_EXPERIMENTS_EXPONENT_EXPONENT_H

#include "driver/job.h"
#include "stats/exponent.h"

/* The options. */
typedef struct exponent_params {
    const char *keys, *query;
    int64_t k, sample;
    es_grid n;
    double beta, scale;
} exponent_params;

/* Keys and queries. */
typedef struct exponent_state {
    es_matrix keys, queries; /* queries are empty if the first keys serve as queries */
    int64_t count;           /* number of queries */
    bool self;               /* queries are keys, each without itself */
} exponent_state;

extern const es_table_spec exponent_estimates_table, exponent_freezing_table, exponent_run_table,
    exponent_scan_table;

/*! exponent_fill_estimates() : fills the table of estimates, reports alpha, and stores the estimate
 *  over all queries in *pooled. @return : ES_OK; as es_exponent_queries(). */
es_status exponent_fill_estimates(es_job *job, es_answer *answer, es_exponent *pooled,
                                  es_error *err);

/*! exponent_fill_scan() : repeats the estimate with fewer and more neighbours than `at` used. */
es_status exponent_fill_scan(es_job *job, const es_exponent *at, es_answer *answer, es_error *err);

/*! exponent_fill_freezing() : fills the tables about attention over the keys and reports them. Call
 *  it after the estimates: without --scale it divides the vectors by their lengths, in place. */
es_status exponent_fill_freezing(es_job *job, const es_exponent *e, es_answer *answer,
                                 es_error *err);

#endif
