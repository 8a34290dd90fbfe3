/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h : what the files of the study `measure` share.
 *
 *     measure/question.c  parameters, stages, the order of things
 *     measure/mask.c      which keys queries see
 *     measure/sinks.c     logits of the sinks, and the weight they take
 *     measure/inputs.c    shapes of the files, checks, loading
 *     measure/files.c     outputs and statistics of queries, as files
 *     measure/cells.c     attention of one head: statistics over its queries
 *     measure/accuracy.c  the same queries in higher precision: check and table
 *     measure/bars.c      error bars of outputs from one context: medians and table
 *     measure/horizon.c   horizons of the heads, and what they cost
 *     measure/gaps.c      critical inverse temperatures of rows of scores
 *     measure/heads.c     tables of heads and layers
 *     measure/rows.c      table of attention, findings
 *     measure/oracle.h    all of --compare
 */
#ifndef ES_EXPERIMENTS_MEASURE_H
#define ES_EXPERIMENTS_MEASURE_H

#include <esscher/attend.h>
#include <esscher/npy.h>

#include "driver/job.h"
#include "experiments/kit/array_layout.h"
#include "linalg/linalg.h"
#include "theory/key_weights.h"

/* The options. */
typedef struct measure_params {
    const char *paths[3];    /* of Q, K, V */
    const char *tokens;      /* instead of them */
    const char *weights[3];  /* Wq, Wk, Wv for tokens; NULL: the identity */
    double scale;            /* NaN: not given */
    double score_cap;        /* NaN: none */
    const char *sink_logits; /* numbers or a file; NULL: no sinks */
    es_grid scales, prefixes, top_k;
    bool self, exclude_self, moments, bf16;
    bool causal;
    int64_t window; /* 0: none */
    const char *output, *per_query, *compare;
    int layout, compare_layout; /* es_array_order; -1: not given */
    int compare_dtype;          /* of measure_dtypes; -1: not given */
    int64_t batch;
    double tolerance; /* NaN: not given */
    int64_t block;    /* keys per block of error bars; 0: none are wanted */
} measure_params;

/* Number formats of outputs, as --compare-dtype calls them. */
extern const char *const measure_dtypes[];

/* Error bar of an output; also the last columns of per-query files, in this order. */
typedef struct measure_bar {
    double error_bar;             /* root mean square error of the output, from blocks of keys */
    double error_bar_independent; /* the same were keys independent */
    double design_effect;         /* ratio of their squares */
    double error_bar_relative;    /* error_bar over the length of the output */
    double error_bar_t;           /* a 95 % interval is t standard errors to either side */
    double error_bar_valid;       /* 1 if these claims hold, 0 if one context cannot say */
} measure_bar;
enum { MEASURE_BARS = sizeof(measure_bar) / sizeof(double) };
extern const char *const measure_bar_names[MEASURE_BARS];

enum { MEASURE_Q, MEASURE_K, MEASURE_V, MEASURE_Y, MEASURE_FILES };
enum { MEASURE_ATTENTION, MEASURE_HORIZONS, MEASURE_GAPS }; /* stages; a cell is a head */

/* With --compare: another program's output of a head against ours. Counts and rows are whole
 * numbers. */
typedef struct measure_their {
    double error, total; /* squared norms: of the difference, and of ours */
    double max_abs, max_ulps;
    double worst, worst_row; /* largest relative error of a row */
    double nonfinite;        /* elements of theirs; where the first of them is: */
    double nonfinite_row, nonfinite_col;
    double largest;      /* error of a row, root mean square over its elements */
    double ratio;        /* largest of error / expected error, */
    double expected;     /* the expected error of that row, */
    double expected_row; /* and which it is */
    double beyond;       /* rows whose ratio is above 1 */
    double allowed;      /* squared norm of the expected errors of all rows */
} measure_their;

/* Numbers of a head at one scale and prefix; means are over queries. In a cell there follow the
 * masses of the k largest weights (K) and their errors (K), with --moments mean (dv) and covariance
 * (dv, dv) of the outputs: measure_masses(), and with --sink-logits the weight of the sink and its
 * error: measure_sink_weight(). */
typedef struct measure_numbers {
    es_measured entropy, perplexity, ess, sum_squares, top_weight, lse, output_mean_norm;
    double output_cov_trace;
    /* at the largest prefix: distances from the recomputed queries; 0 where there are none */
    double check_output, check_lse, check_entropy;
    measure_their their;
    measure_bar bars; /* with --error-bar: medians over the queries with a valid bar; their share */
} measure_numbers;
enum { MEASURE_NUMBERS = sizeof(measure_numbers) / sizeof(double) };
extern const es_cell_field measure_fields[];

/* What covariances say about a head at score scale 1; all of it is linear in the scale. NaN where
 * it is not known. A record of the second stage. */
typedef struct measure_horizon {
    double horizon, horizon_error; /* |Cov(q)^1/2 Cov(k)^1/2| */
    double frobenius;              /* the same matrix's */
    double score_sd;  /* root mean square over queries of the standard deviation of scores */
    double one_sided; /* |S^1/2 Wk' Wq|, of tokens only */
} measure_horizon;
enum { MEASURE_HORIZON_NUMBERS = sizeof(measure_horizon) / sizeof(double) };

/* Critical inverse temperatures of rows of a head, at the first scale and the longest prefix: a
 * record of the third stage (gaps.c). */
typedef struct measure_gaps {
    double queries, keys;        /* rows, and their mean number of keys */
    double median, lower, upper; /* of L_8 over queries */
    double without_sinks;        /* median without the first keys */
    double top_least, top_most;  /* bounds of the largest weight, medians over queries */
    es_measured growth;          /* power of ln n, mean over queries */
} measure_gaps;
extern const es_cell_field measure_gap_fields[];

enum { MEASURE_REASON = sizeof(((es_error *)0)->message) };

/* With --tokens: what Q, K and V are made from. */
typedef struct measure_tokens {
    es_npy_info info, weight_info[3];
    es_array x, weights[3];
    double *projected[3]; /* (heads, n, k), NULL: the tokens themselves */
    double flops;         /* of making them */
} measure_tokens;

/* Everything one run knows. Shapes: Q (heads, m, d), K (kv_heads, n, d), V (kv_heads, n, dv). */
typedef struct measure_state {
    const measure_params *p;
    const char *paths[MEASURE_FILES];
    es_npy_info info[MEASURE_FILES];
    es_array arrays[MEASURE_FILES];
    es_array_layout at[MEASURE_FILES]; /* made up for Q, K, V of tokens */
    measure_tokens tokens;
    int64_t heads, kv_heads, m, n, d, dv;
    int64_t S, P, K; /* scales, prefixes, top-k sizes */
    int64_t numbers; /* columns of a cell */
    double default_scale;
    int64_t default_prefix;
    double *sinks;       /* (heads) logits, -inf: none; NULL: no head has a sink */
    es_attend_opts opts; /* exec is a cell's; measure_opts_of() has the sink of a head */
    es_mask mask;        /* of opts, unless every query sees every key */
    es_cost cost;
    double attention_flops, horizon_flops; /* of a head */
    double start;                          /* of the first cell, by the clock */

    bool keeps_output; /* outputs are asked for */
    es_dtype out_dtype;
    es_arena files; /* what leaves in files; counted as results, not as work */
    void *outputs;  /* (heads, S, P, m, dv) of out_dtype, for --output */
    const struct compare_format *their_format; /* with --compare */
    double *per_query; /* (heads, S, P, m, 5+K), for --per-query; error bars come last */
    bool *filled;      /* (heads): of which head these are there */

    int64_t checked_rows; /* accuracy: queries recomputed per head */

    char horizon_reason[MEASURE_REASON]; /* why no head has a horizon; "": they have */
    es_num reach;                        /* |S| of the tokens, NaN where it is not known */
    double trace;                        /* of S, the same */
} measure_state;

/*! measure_at() : the numbers at scale `at` / P and prefix `at` % P in a cell that is being
 * computed. measure_found() : the same in a finished run. measure_main() : those of the first scale
 * and the longest prefix, which describe a head as such. measure_masses() : what follows them. */
static inline measure_numbers *measure_at(const measure_state *s, double *cell, int64_t at)
{
    return (measure_numbers *)(void *)(cell + at * s->numbers);
}

static inline const measure_numbers *measure_found(const es_job *job, int64_t head, int64_t at)
{
    const measure_state *s = job->state;
    return (const measure_numbers *)(const void *)(es_job_numbers(job, MEASURE_ATTENTION, head) +
                                                   at * s->numbers);
}

static inline const measure_numbers *measure_main(const es_job *job, int64_t head)
{
    return measure_found(job, head, ((const measure_state *)job->state)->P - 1);
}

static inline const double *measure_masses(const measure_numbers *x)
{
    return (const double *)(const void *)(x + 1);
}

/*! measure_sink_weight() : mean weight of the sink and its error, with --sink-logits. */
static inline const double *measure_sink_weight(const measure_state *s, const measure_numbers *x)
{
    return (const double *)(const void *)x + s->numbers - 2;
}

/*! measure_opts_of() : options of attention for a head. */
static inline es_attend_opts measure_opts_of(const measure_state *s, int64_t head)
{
    es_attend_opts opts = s->opts;
    opts.sink = s->sinks ? s->sinks + head : NULL;
    return opts;
}

/*! measure_queries() : queries that exist at prefix p: in self mode only the tokens of the prefix
 *  are queries. */
int64_t measure_queries(const measure_state *s, int64_t p);

/*! measure_masked() : returns whether there are keys that a query does not see. measure_shift() :
 *  then query i stands at key i + shift. measure_mask_start() : the mask of s->opts.
 *  measure_mask_put() : a table of it, where there is one. */
bool measure_masked(const measure_params *p);
int64_t measure_shift(const measure_state *s);
es_status measure_mask_start(es_job *job, es_error *err);
void measure_mask_put(const measure_state *s, es_answer *a);

/*! measure_sinks_start() : s->sinks from --sink-logits; the number of heads is known.
 *  @return : ES_E_ARGUMENT (measure.sinks), or as es_source_load(). measure_add_sinks() : the table
 *  of sinks and its finding, where there are any. */
es_status measure_sinks_start(es_job *job, es_error *err);
es_status measure_add_sinks(es_job *job, es_answer *a, es_error *err);

/*! measure_seen() : keys that a query sees at prefix p; its own is counted, whether excluded or
 *  not. measure_mean_seen() : mean over the queries of f(keys), NULL: of their number. */
int64_t measure_seen(const measure_state *s, int64_t query, int64_t p);
double measure_mean_seen(const measure_state *s, int64_t p, double (*f)(double));

/*! measure_views() : head `head` as views into the loaded arrays. */
void measure_views(const measure_state *s, int64_t head, es_view views[3]);

/*! measure_stop() : returns true if the user wants to stop. */
bool measure_stop(const es_exec *exec);

/*! measure_inspect() : look at the headers of the files: shapes that fit together, grids, and
 *  s->cost. Loads nothing. measure_load() : load them. @return : ES_E_NONFINITE, naming file, head,
 *  row and column. */
es_status measure_inspect(es_job *job, es_error *err);
es_status measure_load(es_job *job, es_error *err);

/*! measure_head() : a cell: (S, P) rows of s->numbers. */
es_status measure_head(es_job *job, int64_t head, const es_exec *exec, void *record, es_error *err);

/*! measure_bars() : *bars (S, P, m) of a head in `scratch`, NULL unless asked for; their medians go
 *  into the cell. measure_add_bars() : the table and its findings. */
es_status measure_bars(const measure_state *s, const es_attend_out *ours, es_arena *scratch,
                       double *cell, measure_bar **bars, es_error *err);
es_status measure_add_bars(es_job *job, es_answer *answer, es_error *err);

/*! measure_stop_only() : progress that only asks whether to stop: `user` is the es_exec whose
 *  progress is asked. For work inside a step that is one of many. */
bool measure_stop_only(void *user, double done, double total);

/*! measure_check_plan() : how many queries per head will be computed again (s->checked_rows), and
 *  the memory it takes. */
void measure_check_plan(measure_state *s, size_t *bytes);

/*! measure_check() : recomputes some queries of a head in higher precision and stores how far the
 * run is from them. measure_add_accuracy() : the table of it, and its finding. */
es_status measure_check(const measure_state *s, int64_t head, const es_attend_out *ours,
                        const es_exec *exec, double *cell, es_error *err);
es_status measure_add_accuracy(const es_job *job, es_answer *answer, es_error *err);

/*! measure_ulps_of() : the number format of their file, whose units in the last place are counted.
 */
const char *measure_ulps_of(const measure_state *s);

/*! measure_horizon_plan() : decide whether horizons are computed: they must not take longer than
 *  attention, of `attention` operations, unless that is a matter of a second. Adds to s->cost, or
 *  sets s->horizon_reason. @return : their operations, all heads. */
double measure_horizon_plan(measure_state *s, double attention);

/*! measure_horizon_tokens() : reach and trace of the tokens into s. measure_horizon_of() : the
 *  horizon of a head; `reason` says why there is none, "" otherwise. @return : ES_OK, whatever they
 *  had to leave out; ES_E_INTERRUPTED. */
es_status measure_horizon_tokens(es_job *job);
es_status measure_horizon_of(const measure_state *s, int64_t head, const es_exec *exec,
                             measure_horizon *out, char reason[MEASURE_REASON]);

/*! measure_counts_gaps() : returns whether gaps are counted: enough keys and not too many, no
 *  window, no --compare. measure_count_gaps() : counts those of a head. measure_gap_flops(),
 *  measure_gap_bytes() : what a head takes. measure_add_gaps() : the table. */
bool measure_counts_gaps(const measure_state *s);
es_status measure_count_gaps(es_job *job, int64_t head, const es_exec *exec, void *record,
                             es_error *err);
double measure_gap_flops(const measure_state *s);
double measure_gap_bytes(const measure_state *s);
es_status measure_add_gaps(const es_job *job, es_answer *answer, es_error *err);

/*! Files: whether they may be written, memory they take, making it, the results of a head, writing.
 *  Heads that a run file already had are computed again by the last: it holds no outputs. */
es_status measure_files_check(const es_job *job, es_error *err);
double measure_files_bytes(const measure_state *s);
es_status measure_files_start(measure_state *s, es_error *err);
void measure_files_head(measure_state *s, int64_t head, const es_attend_out *ours,
                        const measure_bar *bars);
es_status measure_files_finish(es_job *job, es_error *err);

/*! measure_add_heads() : the tables of layers and heads. measure_regime() : the regime of a head.
 *  measure_at_scale() : ", at scale 0.25," if there are several scales, else "". */
es_status measure_add_heads(const es_job *job, es_answer *answer, es_error *err);
es_regime measure_regime(const es_job *job, int64_t head);
const char *measure_at_scale(const measure_state *s, char out[ES_FORMAT_SIZE]);

es_status measure_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
