/* SPDX-License-Identifier: Apache-2.0 */
/* far_question.h : the question about far fields of `probe`: do far keys of a causal model behave
 * like independent draws, how far is a head from the limit of many such keys, and what will it do
 * at longer contexts? Cells are blocks of text (far.h), those of the question about positions.
 *
 *     far_question.c   blocks, pools, stages, cost, the order of the summary
 *     far_rows.c       tables far_heads, far_rows
 *     far_classes.c    tables far_classes, far_ratios
 *     far_exchange.c   tables exchangeability, exchangeability_summary
 *     far_numbers.c    what a head does at one context
 *     far_forecast.c   tables forecast, forecast_errors
 *     far_drift.c      table drift
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
    int64_t verify_pool_blocks, verify_pool_rows;
    es_far_pool *pools; /* (n_pools) of domains */
    int64_t n_pools;
    es_blocks other_text; /* of --other-text; count 0: none */
    es_far_pool other;
    es_blocks *verify_texts;   /* (n_verify) of domains, in blocks of the longest forecast */
    es_far_pool *verify_pools; /* (n_verify_pools) of domains */
    int64_t n_verify, n_verify_pools, verify_blocks;
    double error; /* of outputs, that defines the effective context */
} probe_far;

/*! probe_far_open() : after the texts were read: sizes, forecasts, other texts. probe_far_begin() :
 *  builds the pools and adds the stages. probe_far_price() : adds to the cost. */
es_status probe_far_open(es_job *job, es_error *err);
void probe_far_price(const es_job *job, es_cost *out);
es_status probe_far_begin(es_job *job, es_error *err);
es_status probe_far_summarise(es_job *job, es_answer *answer, es_error *err);
void probe_far_close(probe_far *far);

/* ---- numbers of cells ---- */

/* Cells of one head: those of the run, or of its verification. */
typedef struct probe_far_cells {
    const es_job *job;
    int stage;
    int64_t first, blocks; /* cells */
    int64_t at, rows;      /* number of the head, and rows that each has */
} probe_far_cells;

/* What a head does at one context. Logarithms, because those of heads and of contexts have errors
 * that are alike. */
typedef enum probe_far_kind {
    PROBE_FAR_ENTROPY,
    PROBE_FAR_LOG_ESS,
    PROBE_FAR_FAR,
    PROBE_FAR_SINK,
    PROBE_FAR_NEAR,
    PROBE_FAR_TOP,
    PROBE_FAR_LOG_CONTEXT, /* ln w: outputs over sinks and the last w keys have an error of --error
                            */
    PROBE_FAR_LOG_LIMIT,   /* ln of the exact error against the limit */
    PROBE_FAR_KINDS
} probe_far_kind;

/* A context: its row of cells, or none (-1: NaN), and the keys that count. */
typedef struct probe_far_at {
    int64_t row, n;
    bool drawn;
    double error; /* that defines the effective context */
} probe_far_at;

/*! probe_far_value() : over all blocks. probe_far_measured() : with its error, by the jackknife
 * over blocks; scratch (blocks). */
double probe_far_value(const probe_far_cells *cells, const probe_far_at *at, probe_far_kind kind);
es_measured probe_far_measured(const probe_far_cells *cells, const probe_far_at *at,
                               probe_far_kind kind, double *scratch);

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

/*! probe_far_cells_of() : returns the head's cells of the run. */
probe_far_cells probe_far_cells_of(const probe_far_head *h);

/*! probe_far_cell() : of block b and row `row`: a size, a forecast, a backtest (es_far_rows()). */
const es_far_cell *probe_far_cell(const probe_far_head *h, int64_t b, int64_t row);

/*! probe_far_real() : a statistic of keys as they are, mean over blocks. */
es_measured probe_far_real(const probe_far_head *h, int64_t row, es_far_stat stat);

/*! probe_far_mean_draw() : mean over parts of a statistic in `draws` (ES_FAR_PARTS, ES_FAR_STATS).
 */
double probe_far_mean_draw(const double *draws, es_far_stat stat);

/* ---- errors ---- */

/* What the jackknife leaves out: a block of text, a part of the pool, a pair of parts. -1: none. */
typedef struct probe_far_left {
    int64_t block;
    int part, pair;
} probe_far_left;

/*! probe_far_without() : returns the mean of `count` numbers without one of them; -1: of all. */
double probe_far_without(const double *x, int count, int without);

/* A number of a head at one size, without some of its data. */
typedef double (*probe_far_statistic)(const probe_far_head *h, int64_t size, probe_far_left left);

/*! probe_far_ratio() : mean square distance of real outputs from the limit over the exact one. */
double probe_far_ratio(const probe_far_head *h, int64_t size, probe_far_left left);

/* A number with its standard errors by what is left out. */
typedef struct probe_far_errors {
    double value, blocks, pairs, parts;
} probe_far_errors;

/*! probe_far_errors_of() : a statistic with its standard errors. */
probe_far_errors probe_far_errors_of(const probe_far_head *h, int64_t size, probe_far_statistic of);

/*! probe_far_pool_share() : returns the limit's squared error over the measured square, at the
 *  longest n. */
double probe_far_pool_share(const probe_far_head *h);

/* ---- rows ---- */

/* A head at one n. */
typedef struct probe_far_row {
    const char *domain;
    int64_t layer, head, n;
    es_measured relative_error_exact, relative_error, ratio, relative_error_predicted;
    double relative_error_sampling, pool_error;
    es_measured entropy, ess, far_mass, sink_mass, local_mass, top_weight;
} probe_far_row;

/* A head. */
typedef struct probe_far_head_row {
    const char *domain;
    int64_t layer, head;
    const char *class;
    es_measured relative_error_exact, relative_error, ratio;
    es_measured rate_map_exact, rate_map, rate_map_predicted;
    const char *tokens_for_tenth_sign;
    es_measured tokens_for_tenth, effective_context;
    double output_rms;
    es_measured far_mass, sink_mass, ess_n;
} probe_far_head_row;

extern const es_table_spec probe_far_classes_table, probe_far_ratios_table;
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

/*! probe_far_put_rows(), and the two that it calls, probe_far_put_exchange(),
 * probe_far_put_forecast(), probe_far_put_drift() : add tables and findings. @return : ES_OK;
 * ES_E_LIMIT, ES_E_MEMORY. */
es_status probe_far_put_rows(probe_far_summary *m, es_error *err);
es_status probe_far_put_classes(probe_far_summary *m, const es_table *heads, es_table *out,
                                es_error *err);
es_status probe_far_put_ratios(probe_far_summary *m, const es_table *heads, const es_table *table,
                               es_table *out, es_error *err);
es_status probe_far_put_exchange(probe_far_summary *m, es_error *err);
es_status probe_far_put_forecast(probe_far_summary *m, es_error *err);
es_status probe_far_put_drift(probe_far_summary *m, es_error *err);

/* Mean and standard deviation over heads. */
typedef struct probe_over_heads {
    double mean, sd, rms;
} probe_over_heads;
probe_over_heads probe_over(const double *values, int64_t count);

#endif
