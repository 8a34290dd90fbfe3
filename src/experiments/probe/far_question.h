/* SPDX-License-Identifier: Apache-2.0 */
/* far_question.h : the question about far fields of `probe`: do far keys of a causal model behave
 * like independent draws, how far is a head from the limit of many such keys, and what will it do
 * at longer contexts? Cells are blocks of text (far.h), those of the question about positions.
 *
 *     far_question.c   blocks, pools, stages, cost, the order of the summary
 *     far_rows.c       tables far_heads, far_rows
 *     far_exchange.c   tables exchangeability, exchangeability_summary
 *     far_forecast.c   tables forecast, forecast_errors, drift
 */
#ifndef ES_EXPERIMENTS_PROBE_FAR_QUESTION_H
#define ES_EXPERIMENTS_PROBE_FAR_QUESTION_H

#include "experiments/kit/pool_params.h"
#include "experiments/probe/far.h"
#include "stats/average.h"

/* What the question needs beside the blocks of the question about positions. */
typedef struct probe_far {
    int stage, verify_stage; /* of the job; -1: none */
    es_far_spec spec, verify;
    es_far_cost cost, verify_cost;
    int64_t pool_blocks, pool_rows; /* of each domain's pool */
    es_far_pool *pools;             /* (n_pools) of domains */
    int64_t n_pools;
    es_blocks other_text; /* of --other-text; count 0: none */
    es_far_pool other;
    es_blocks *verify_texts; /* (n_verify) of domains, in blocks of the longest forecast */
    int64_t n_verify, verify_blocks;
} probe_far;

/*! probe_far_open() : after the texts were read: sizes, forecasts, other texts. probe_far_begin() :
 *  builds the pools and adds the stages. probe_far_price() : adds to the cost. */
es_status probe_far_open(es_job *job, es_error *err);
void probe_far_price(const es_job *job, es_cost *out);
es_status probe_far_begin(es_job *job, es_error *err);
es_status probe_far_summarise(es_job *job, es_answer *answer, es_error *err);
void probe_far_close(probe_far *far);

/* ---- numbers of cells ---- */

/* One head of a domain. */
typedef struct probe_far_head {
    const es_job *job;
    const probe_far *far;
    int64_t domain, layer, head;
    int64_t at, heads;      /* number of the head, of all */
    int64_t first, blocks;  /* cell of the first block */
    const char *name;       /* of the domain */
    double *scratch, *more; /* (blocks) */
} probe_far_head;

/*! probe_far_cell() : of block b and row `row`: a size, a forecast, a backtest (es_far_rows()). */
const es_far_cell *probe_far_cell(const probe_far_head *h, int64_t b, int64_t row);

/*! probe_far_real() : a statistic of keys as they are, mean over blocks. probe_far_drawn() : the
 *  same of drawn far fields. */
es_measured probe_far_real(const probe_far_head *h, int64_t row, es_far_stat stat);
es_measured probe_far_drawn(const probe_far_head *h, int64_t row, es_far_stat stat);

/*! probe_far_mean_draw() : mean over parts of a statistic in `draws` (ES_FAR_PARTS, ES_FAR_STATS).
 */
double probe_far_mean_draw(const double *draws, es_far_stat stat);

/*! probe_far_apart() : one of `apart` (ES_FAR_PAIRS), or their mean: pair -1. */
double probe_far_apart(const double *apart, int pair);

extern const es_table_spec probe_exchange_summary_table, probe_forecast_table;

/* The summary under way. */
typedef struct probe_far_summary {
    es_job *job;
    es_answer *answer;
    const probe_far *far;
    probe_far_head *heads; /* (count) of all domains */
    int64_t count;
    double *values; /* (count) scratch */
} probe_far_summary;

/*! probe_far_put_rows(), probe_far_put_exchange(), probe_far_put_forecast() : add tables and
 *  findings. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status probe_far_put_rows(probe_far_summary *m, es_error *err);
es_status probe_far_put_exchange(probe_far_summary *m, es_error *err);
es_status probe_far_put_forecast(probe_far_summary *m, es_error *err);

/* Mean and standard deviation over heads. */
typedef struct probe_over_heads {
    double mean, sd, rms;
} probe_over_heads;
probe_over_heads probe_over(const double *values, int64_t count);

#endif
