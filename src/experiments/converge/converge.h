/* SPDX-License-Identifier: Apache-2.0 */
/* converge.h : how fast attention over n tokens approaches its infinite-token limit, measured.
 *
 * Tokens x_1 .. x_n are drawn from a law; a head maps them to Gamma_n(x_i), its output when the n
 * tokens are queries, keys and values at once (self mode), or for fresh queries of the same law
 * (population). As n grows the mean m_n and the covariance C_n of the outputs tend to those of
 * Gamma(X), which limit.h computes. Measured, per score scale and n:
 *
 *     mean error |m_n - m|_2,  covariance error |C_n - C| in Frobenius and spectral norm,
 *     map error: root mean square of |Gamma_n(x) - Gamma(x)|_2 over the first queries.
 *
 * A *replicate* is one draw of n_max tokens: prefixes n_1 < ... < n_P of it give every n, and one
 * pass gives every scale. Errors of one replicate at different n or scales are therefore dependent,
 * and the jackknife leaves out whole replicates. A replicate is a pure function of (seed, its
 * number): any thread, any order, any machine. With `independent` every n has its own tokens:
 * errors at different n are then independent (at different scales still not), as standard errors of
 * a straight line assume, and a replicate costs sum n_i^2 instead of n_P^2.
 *
 * With `reference` the moments of one sample of that many tokens, in self mode, replace those of
 * the limit, as in the public code of the papers. Errors then include the sample's own distance
 * from the limit, which es_converge_limit_error() returns. The map error is still against the
 * limit.
 *
 * The study asks one of two questions, chosen once when it is opened:
 *
 *     question.c        parameters, help, the choice of the question
 *     rows.c            with a limit: how fast do errors fall? Tables rows, fits and references
 *     predictions.c     --predict: errors that theory expects; table predictions
 *     duration.c        --dry-run: how long such a run will take
 *     cells.c           one replicate; limits.c: what it is compared with
 *     growth.c          without a limit: how does the output grow? Tables rows and growth
 *     growth_cells.c    one replicate
 *     sample.c          tokens, queries, keys and values of a replicate of either
 */
#ifndef ES_EXPERIMENTS_CONVERGE_CONVERGE_H
#define ES_EXPERIMENTS_CONVERGE_CONVERGE_H

#include <esscher/attend.h>
#include <esscher/exec.h>

#include "experiments/kit/series.h"
#include "experiments/kit/setting_params.h"
#include "law/law.h"
#include "theory/theory.h"

/* Errors of one replicate at one scale and n: the record of a cell. */
typedef struct es_converge_cell {
    double mean_error, cov_frobenius, cov_spectral, map_error;
} es_converge_cell;

/* Numbers the four errors of a cell. */
typedef enum converge_error {
    CONVERGE_MEAN,
    CONVERGE_COV,
    CONVERGE_SPECTRAL,
    CONVERGE_MAP,
    CONVERGE_ERRORS
} converge_error;

/* What is measured: a law, a head, factors on A and sizes n. */
typedef struct es_converge_spec {
    const es_law *law;
    const es_head *head;
    const double *scales; /* (n_scales) factors on A */
    int64_t n_scales;
    const int64_t *sizes; /* (n_sizes) n_1 < ... < n_P */
    int64_t n_sizes;
    uint64_t seed;
    es_dtype precision; /* of the attention kernels; tokens, limits and errors are f64. 0: ES_F32 */
    bool population;    /* fresh queries instead of the tokens themselves */
    bool independent;   /* every n has its own tokens */
    int64_t reference;  /* tokens of the sample that replaces the limit, self mode only; 0: the
                           limit itself */
    int64_t queries;    /* number of fresh queries; 0: 4096 */
    /* Queries that the map error is averaged over; 0: 256, at most the smallest size. */
    int64_t map_queries;
    const es_exec *exec;
} es_converge_spec;

/* ---- with a limit: limits.c, cells.c ---- */

/* Limits that a run is compared with, one per scale. */
typedef struct es_converge_limit {
    int64_t scales, channels;
    double *a;     /* (dim, dim) A at scale factor 1 */
    double *v;     /* (channels, dim) V, the identity written out */
    double *mean;  /* (scales, channels) of the limit, or of the reference sample */
    double *cov;   /* (scales, channels, channels), likewise */
    double *error; /* (scales, 2) distance of mean and covariance from the limit */
    es_mem_limit *budget;
} es_converge_limit;

/*! es_converge_check() : checks a spec, with every number of its matrices. */
es_status es_converge_check(const es_converge_spec *spec, es_error *err);

/*! es_converge_limit_new() : computes mean and covariance of the limit for every scale, with their
 * error. Where there is no closed form they are averages of the limit map over 65536 draws.
 *  @return : ES_OK; ES_E_RANGE where the law has no limit for queries of its own (those that are
 * not ES_LAW_ENTIRE: Student, Laplace), also for a reference sample; ES_E_SHAPE, ES_E_ARGUMENT for
 * an invalid spec. Release with es_converge_limit_free(). */
es_status es_converge_limit_new(const es_converge_spec *spec, es_converge_limit **out,
                                es_error *err);
void es_converge_limit_free(es_converge_limit *limit);

/*! es_converge_no_limit() : fails because a reference sample needs a limit. @return : ES_E_RANGE
 * (converge.no_limit). */
es_status es_converge_no_limit(es_error *err, const char *hint);

/*! es_converge_scale_a() : writes A at scale s into `scaled` (dim, dim). */
void es_converge_scale_a(const es_converge_spec *spec, const es_converge_limit *limit, int64_t s,
                         double *scaled);

/*! es_converge_limit_error() : bound on the error of the limit at scale s, in the mean (2-norm) and
 * the covariance (Frobenius). With a reference sample: its distance from the limit plus the bound.
 * Measured errors close to it are errors of the limit, not of attention. */
void es_converge_limit_error(const es_converge_limit *limit, int64_t s, double *mean, double *cov);

/*! es_converge_limit_size() : size of the limit's outputs at scale s: `rms`, their root mean square
 * norm, and `spread`, the root of the trace of their covariance. Rounding errors are proportional
 * to these. */
void es_converge_limit_size(const es_converge_limit *limit, int64_t s, double *rms, double *spread);

/*! es_converge_replicate() : computes one replicate: out (n_scales, n_sizes). All threads of
 * spec->exec work on it. O(n_max^2 (k + n_scales channels)) time, O(n_max dim) memory.
 *  @return : as es_converge_limit_new(), es_tokens_fill() and es_attend(); ES_E_RANGE for a
 * negative number and, with independent sizes, one of 2^18 or more or n of 2^30 or more. Scores
 * above 2^20 are ES_E_RANGE in f32, which rounds them by 1/16: converge.scores. */
es_status es_converge_replicate(const es_converge_spec *spec, const es_converge_limit *limit,
                                int64_t replicate, es_converge_cell *out, es_error *err);

/* ---- without a limit: growth_cells.c ----
 * Student's t has no exponential moments. Laws with exponential tails (Laplace, logistic) have none
 * beyond an edge, and some of their tokens are queries beyond it. Attention over such tokens does
 * not converge: the largest terms of the softmax's sum decide, and the output grows with n. */

/* One replicate at one scale and n: the record of a cell. Averages over those of the first
 * map_queries queries at whose tilt the log-MGF is infinite; all 0 if there are none. */
typedef struct es_converge_failure {
    double log_norm, norm; /* means of ln|Gamma_n(x)| and |Gamma_n(x)| */
    double top_weight, sum_squares, ess;
    double beyond; /* fraction of the queries that have no limit */
    /* predictions of extreme-value theory for the same queries, n to infinity, heuristic (THEORY 9)
     */
    double predicted_squares; /* of sum_squares */
    double predicted_step;    /* growth of |Gamma_n| when ln n grows by 1; 0: a power of n */
} es_converge_failure;

/*! es_converge_fails() : returns whether attention has no limit for queries drawn from the law. */
bool es_converge_fails(const es_law *law);

/*! es_converge_failing() : computes one replicate for such a law: out (n_scales, n_sizes). Ignores
 *  `independent` and `reference`. Queries are the first tokens, or fresh ones.
 *  O(n_max map_queries (k + n_scales channels)) time, O(n_max dim) memory.
 *  @return : as es_converge_replicate(); ES_E_ARGUMENT (converge.failing) for other laws. */
es_status es_converge_failing(const es_converge_spec *spec, int64_t replicate,
                              es_converge_failure *out, es_error *err);

/* ---- cost ---- */

/* Operations of attention, as es_attend_plan counts them, and upper bounds on memory. */
typedef struct es_converge_cost {
    double flops;       /* of a replicate */
    size_t bytes;       /* of a replicate */
    double limit_flops; /* of the reference sample; 0 without one */
    size_t limit_bytes; /* of the limits, with the scratch memory to compute them */
} es_converge_cost;

/*! es_converge_cost_of() : cost of replicates and limits; checks the spec as
 * es_converge_limit_new() does. es_converge_limit_cost() : sets only limit_flops and limit_bytes.
 * es_converge_failing_cost() : cost of a replicate without a limit. */
es_status es_converge_cost_of(const es_converge_spec *spec, es_converge_cost *out, es_error *err);
es_status es_converge_limit_cost(const es_converge_spec *spec, es_converge_cost *out,
                                 es_error *err);
es_status es_converge_failing_cost(const es_converge_spec *spec, es_converge_cost *out,
                                   es_error *err);

/* ---- sizes of a spec ---- */

static inline es_mem_limit *budget_of(const es_converge_spec *spec)
{
    return spec->exec ? spec->exec->budget : NULL;
}

static inline int64_t largest_size(const es_converge_spec *spec)
{
    return spec->sizes[spec->n_sizes - 1];
}

static inline int64_t queries_of(const es_converge_spec *spec)
{
    return spec->population ? (spec->queries ? spec->queries : 4096) : largest_size(spec);
}

static inline int64_t map_queries_of(const es_converge_spec *spec)
{
    const int64_t wanted = spec->map_queries ? spec->map_queries : 256;
    const int64_t most = spec->population ? queries_of(spec) : spec->sizes[0];
    return wanted < most ? wanted : most;
}

static inline int64_t channels_of(const es_converge_spec *spec)
{
    return es_head_channels(spec->head, spec->law->dim);
}

static inline int64_t key_dim_of(const es_converge_spec *spec)
{
    return es_head_key_dim(spec->head, spec->law->dim);
}

/* ---- one sample: sample.c ---- */

/* One drawn sample with its queries, keys and values. */
typedef struct es_converge_sample {
    double *memory;
    double *tokens;    /* (n, dim) */
    double *asking;    /* (m, dim) queries before Wq: the tokens themselves in self mode */
    double *q, *k, *v; /* (m, key_dim), (n, key_dim), (n, channels) */
    double *scales;    /* (n_scales) score scales: factor / sqrt(k) */
    es_view q_view, k_view, v_view;
    es_mem_limit *budget;
} es_converge_sample;

/*! es_converge_sample_draw() : draws the largest size of the spec, tokens at (experiment, cell);
 * fresh queries, in population mode, at the same cell of another experiment.
 *  @return : ES_OK; ES_E_RANGE (converge.scores) for scores that are too large for f32. */
es_status es_converge_sample_draw(const es_converge_spec *spec, uint16_t experiment, uint64_t cell,
                                  es_converge_sample *out, es_error *err);
void es_converge_sample_free(es_converge_sample *sample);

/*! es_converge_sample_bytes() : memory of a sample. */
double es_converge_sample_bytes(const es_converge_spec *spec);

/*! es_converge_attend_opts() : options for all scales and sizes in one pass; scales (n_scales). */
es_attend_opts es_converge_attend_opts(const es_converge_spec *spec, const double *scales);

/* ---- the study ---- */

/* The options. */
typedef struct converge_params {
    es_law_params law;
    es_grid sizes, scales;
    int64_t replicates;
    es_head_params head;
    int queries, preset;
    const char *reference;
    bool independent, predict;
} converge_params;

/* A question has its own stage, cost, tables and findings. begin() may be NULL. */
typedef struct converge_question {
    es_status (*open)(es_job *job, es_error *err);
    es_status (*cost)(es_job *job, es_cost *out, es_error *err);
    es_status (*begin)(es_job *job, es_error *err);
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
} converge_question;

extern const converge_question converge_to_limit, converge_growth;

/* What the options make: law, head, question and limit. */
typedef struct converge_state {
    const converge_question *question;
    es_law_data law;
    es_head_data head;
    es_converge_spec spec;    /* exec is that of the job; cells have their own */
    es_converge_limit *limit; /* NULL without a limit */
    es_horizons horizons;     /* at scale factor 1 */
} converge_state;

/*! converge_duration() : measures how long a run with a limit will take, in seconds, by small trial
 *  runs. `flops` is that of the whole run, `replicate_flops` that of a replicate. */
es_status converge_duration(es_job *job, double flops, double replicate_flops, double *seconds,
                            es_error *err);

/* ---- predictions ---- */

/* What predictions are computed from, beside the head. */
typedef struct converge_theory {
    double *cov; /* of a token */
    es_view cov_view;
    es_rotation rotation; /* 0: not isotropic, or self mode with one given rotation */
} converge_theory;

/*! converge_predictable() : checks that theory has predictions for this law. @return : ES_OK;
 *  ES_E_ARGUMENT (converge.predict). */
es_status converge_predictable(const es_law *law, es_error *err);

es_status converge_theory_new(es_job *job, converge_theory *out, es_error *err);

/*! converge_predict() : computes the errors that theory expects at a scale and n (THEORY 4.5), and
 *  their relative standard error from sampling queries. */
es_status converge_predict(const es_job *job, const converge_theory *t, double scale, int64_t n,
                           es_predicted *out, double *sampling, es_error *err);

/* Rates of the predicted errors of one scale, through the points that the measured fits use. */
typedef struct converge_predicted_rates {
    double mean, cov, map;
} converge_predicted_rates;

/*! converge_predict_scale() : adds the rows of one scale to the table of predictions; series
 *  (CONVERGE_ERRORS) are the measured errors. */
es_status converge_predict_scale(es_job *job, const converge_theory *theory, int64_t scale,
                                 const es_series *series, es_answer *answer,
                                 converge_predicted_rates *out, es_error *err);

/*! converge_report_predictions() : says how close predicted and measured errors are. */
es_status converge_report_predictions(es_job *job, es_answer *answer, es_error *err);

#endif
