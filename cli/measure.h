/* measure.h : the parts of `esscher measure`.
 *
 *     measure_inputs.c   what the files hold, whether it fits together, loading it
 *     measure_tokens.c   queries, keys and values made from tokens
 *     measure_horizon.c  horizons of the heads, and what they cost
 *     measure_heads.c    the answer head by head
 *     measure_rows.c     statistics of one head into rows of the answer
 *     measure_check.c    how accurate the run was; somebody else's output against ours
 *     measure_files.c    outputs and per-query statistics as files
 *     measure.c          options, the order of things
 */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include <esscher/attend.h>
#include <esscher/linalg.h>
#include <esscher/npy.h>

#include "answer.h"
#include "draft.h"
#include "grid.h"

typedef struct measure_options {
    const char *paths[3];   /* of Q, K, V */
    const char *tokens;     /* instead of them */
    const char *weights[3]; /* Wq, Wk, Wv for tokens; NULL: the identity */
    double scale;           /* NaN: not given */
    cli_grid scales, prefixes, top_k;
    bool self, exclude_self, moments, force;
    const char *out, *per_query, *compare;
    double tolerance; /* NaN: not given */
} measure_options;

enum { MEASURE_Q, MEASURE_K, MEASURE_V, MEASURE_Y, MEASURE_FILES };

/* With --tokens: what Q, K and V are made from. */
typedef struct measure_tokens {
    es_npy_info info, weight_info[3];
    es_array x, weights[3];
    double *projected[3]; /* (heads, n, k), NULL: the tokens themselves */
    double flops;         /* of making them */
} measure_tokens;

enum { MEASURE_REASON = sizeof(((es_error *)0)->message) };

/* Everything one run knows. Shapes: Q (heads, m, d), K (kv_heads, n, d), V (kv_heads, n, dv). */
typedef struct measure_job {
    cli_session *session;
    const measure_options *o;
    const char *paths[MEASURE_FILES];
    es_npy_info info[MEASURE_FILES];
    es_array arrays[MEASURE_FILES];
    measure_tokens tokens;
    int64_t heads, kv_heads, m, n, d, dv;
    int64_t S, P, K; /* scales, prefixes, top-k sizes */
    double default_scale;
    int64_t default_prefix;
    es_attend_opts opts;
    cli_cost cost;

    es_attend_out out; /* of the head under way */
    bool keeps_output; /* out.output is asked for */
    es_dtype out_dtype;
    void *outputs;     /* (heads, S, P, m, dv) of out_dtype, for --out */
    double *per_query; /* (heads, S, P, m, 5+K), for --per-query FILE.npy */
    cli_draft csv;     /* for --per-query FILE.csv */

    int64_t checked_rows; /* accuracy: queries recomputed per head */
    double worst_output, worst_lse, worst_entropy;
    double compare_error, compare_total; /* squared norms over all heads */

    char horizon_reason[MEASURE_REASON]; /* why no head has a horizon; "": they have */
    es_num reach;                        /* |S| of the tokens, NaN where it is not known */
    double trace;                        /* of S, the same */
} measure_job;

/* Queries that exist at prefix p: in self mode only the tokens of the prefix are queries. */
int64_t measure_queries(const measure_job *job, int64_t p);

/* Head `head` as views into the loaded arrays. */
void measure_views(const measure_job *job, int64_t head, es_view views[3]);

/* Look at the headers of the files: shapes that fit together, grids, and job->cost. Loads nothing.
 */
es_status measure_inspect(measure_job *job, es_error *err);

/* Load the arrays. @return : ES_E_NONFINITE, naming file, head, row and column. */
es_status measure_load(measure_job *job, es_error *err);

/* NaN or Inf in an array is ES_E_NONFINITE, naming file, head, row and column. */
es_status measure_check_finite(const char *path, const es_array *array, es_error *err);

/* The same two steps for --tokens, which fill job->info[] and give the views. */
es_status measure_tokens_inspect(measure_job *job, es_error *err);
es_status measure_tokens_load(measure_job *job, es_error *err);
es_view measure_tokens_view(const measure_job *job, int which, int64_t head);
void measure_tokens_free(measure_job *job);

/* One row for each scale and prefix of job->out, appended to `rows`. */
void measure_rows(const measure_job *job, int64_t head, json_t *rows);
extern const cli_table measure_rows_table;

/* What covariances say about a head at score scale 1; all of it is linear in the scale. NaN where
 * it is not known, and then `reason` says why. */
typedef struct measure_horizon {
    es_num horizon;   /* |Cov(q)^1/2 Cov(k)^1/2| */
    double frobenius; /* the same matrix's */
    double score_sd;  /* root mean square over queries of the standard deviation of scores */
    double one_sided; /* |S^1/2 Wk' Wq|, of tokens only */
    char reason[MEASURE_REASON];
} measure_horizon;

/* Decide whether horizons are computed: they must not take longer than attention, of `attention`
 * operations, unless that is a matter of a second. Adds to job->cost, or sets
 * job->horizon_reason. */
void measure_horizon_plan(measure_job *job, double attention);

/* Reach and trace of the tokens into job; then the horizon of a head. @return : ES_OK, whatever
 * they had to leave out; ES_E_INTERRUPTED. */
es_status measure_horizon_tokens(measure_job *job);
es_status measure_horizon_of(const measure_job *job, int64_t head, measure_horizon *out);

/* The horizon of one head, and what its rows say about it, appended to `heads`; all heads as the
 * one layer of the answer, which takes `heads` over. @return : as measure_horizon_of(). */
es_status measure_heads(const measure_job *job, int64_t head, const json_t *rows, json_t *heads);
void measure_heads_answer(measure_job *job, json_t *heads);
extern const cli_table measure_heads_table;

/* How many queries per head will be computed again (job->checked_rows), and the memory it takes. */
void measure_check_plan(measure_job *job, size_t *bytes);

/* Compute them again and keep the worst errors in job; measure_check_answer() reports those. */
es_status measure_check(measure_job *job, int64_t head, es_error *err);
void measure_check_answer(measure_job *job);
extern const cli_table measure_accuracy_table;

/* Their output of one head against job->out.output, as a row appended to `heads`; and the verdict
 * over all heads, which takes `heads` over. */
es_status measure_compare(measure_job *job, int64_t head, json_t *heads, es_error *err);
void measure_compare_answer(measure_job *job, json_t *heads);
extern const cli_table measure_compare_table, measure_verdict_table;

/* Files: make room, take in the results of each head, write; free in any case. */
double measure_files_bytes(const measure_job *job);
es_status measure_files_start(measure_job *job, es_error *err);
void measure_files_head(measure_job *job, int64_t head);
es_status measure_files_finish(measure_job *job, es_error *err);
void measure_files_free(measure_job *job);

#endif
