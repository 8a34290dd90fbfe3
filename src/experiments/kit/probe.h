/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h : how the heads of a real model converge on real tokens.
 *
 * A pool (pool.h) stands for the law of a layer's inputs. Attention of some of its tokens, the
 * *queries*, over all of it stands for the limit; attention over n tokens drawn from it is measured
 * against that, as in converge.h:
 *
 *     mean error |m_n - m|,  covariance error |C_n - C|_F,  map error (mean over queries |.|^2)^1/2
 *
 * of a head's outputs sum w V x, without the value's bias, which the weights hand through as it is.
 * The limit is itself a sample: attention over either half of the pool differs, and half the
 * difference is the *limit's own error*, given beside everything. (Halves are cut into strips of
 * the text that alternate, so that both see all of it.)
 *
 *     es_probe_spec spec = {.model = m, .pool = pool, .sizes = n, .n_sizes = 12};
 *     es_probe_measure(&spec, layer, numbers, &err);               once: a walk through the pool
 *     es_probe_open(&spec, layer, numbers, &probe, &err);
 *     es_probe_head_of(probe, head, &about, &err);                 horizons, freezing, prediction
 *     es_probe_replicate(probe, r, cells, joint, &err);            (heads, sizes): errors
 *     es_probe_control(probe, r, cells, &err);                     those of Gaussian tokens
 *     es_probe_window(probe, r, R, cells, joint, &err);            those of R stretches of text
 *
 * The error of draws is known before any draw: the mean square error of n tokens drawn
 * independently is an integral over the weights that a query gives the pool (draw_risk.h), exact
 * for every n; es_probe_exact() computes it for some queries. n times it tends to `sampling`.
 *
 * `numbers` are all that a run file has to keep of a layer. A replicate is a pure function of
 * (seed, layer, its number). Layers and heads count from 0. What a spec points to must outlive the
 * probes made with it; a probe may be used by several threads.
 */
#ifndef ES_EXPERIMENTS_KIT_PROBE_H
#define ES_EXPERIMENTS_KIT_PROBE_H

#include <esscher/format.h>

#include "experiments/kit/pool_layer.h"

#include "theory/theory.h"

/* ---- the limit ---- */

/*! es_probe_numbers() : how many numbers es_probe_measure() makes of a layer. */
int64_t es_probe_numbers(const es_probe_spec *spec);

/*! es_probe_measure() : moments of the layer's inputs, attention of the queries over the whole pool
 *  and over its halves, into numbers (es_probe_numbers()). O(tokens hidden (hidden + queries))
 *  time; memory O((queries + hidden) hidden), whatever the pool's size.
 *  @return : ES_OK; ES_E_SHAPE (probe.pool) if the pool is not of this model;
 *  ES_E_UNSUPPORTED (probe.norms) of a model whose heads norm queries and keys;
 *  ES_E_RANGE (probe.layer, probe.sizes, probe.queries); ES_E_IO, ES_E_LIMIT,
 *  ES_E_MEMORY, ES_E_INTERRUPTED. */
es_status es_probe_measure(const es_probe_spec *spec, int64_t layer, double *numbers,
                           es_error *err);

/* The same in parts of consecutive tokens, which any process may do: each part makes a *state*,
 * es_probe_part_numbers() numbers of a layer; states are folded in the order of the parts, and the
 * last is finished. es_probe_measure() does all of it: parts are a pure function of the pool's
 * size, so that the bits do not depend on which process computed them.
 *
 *     for (part = 0; part < es_probe_parts(&spec); part++)
 *         es_probe_part(&spec, layer, 1, part, state, &err), and, but for the first,
 *         es_probe_fold(&spec, folded, state, &err);
 *     es_probe_finish(&spec, folded, numbers, &err);
 */

/*! es_probe_parts() : one for each spec->part_tokens of the pool's, at most 256. */
int64_t es_probe_parts(const es_probe_spec *spec);

/*! es_probe_part_numbers() : of the state of one layer. */
int64_t es_probe_part_numbers(const es_probe_spec *spec);

/*! es_probe_part() : one walk through one part of `layers` layers from `layer` on, into state
 *  (layers, es_probe_part_numbers()). A part beyond the last has seen nothing. Progress counts
 *  tokens. @return : as es_probe_measure(). */
es_status es_probe_part(const es_probe_spec *spec, int64_t layer, int64_t layers, int64_t part,
                        double *state, es_error *err);

/*! es_probe_fold() : what the state of a later part of one layer has seen is added to `into`.
 *  es_probe_finish() : the numbers of a layer from the state of all parts.
 *  @return : ES_OK; ES_E_FORMAT for numbers that are no state; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_probe_fold(const es_probe_spec *spec, double *into, const double *state,
                        es_error *err);
es_status es_probe_finish(const es_probe_spec *spec, const double *state, double *numbers,
                          es_error *err);

/* ---- rows of a streamed pool ---- */

/* The questions to a probe, so that a streamed pool can store the rows they read. */
typedef struct es_probe_wants {
    const es_probe_spec *spec;   /* its pool is not read */
    int64_t replicates, windows; /* es_probe_replicate(), es_probe_window() */
    bool sections;               /* es_probe_sections() */
    int64_t passages;            /* blocks b i/p of b, i < p, for every p up to that: of
                                    es_probe_paper_open() */
} es_probe_wants;

/*! es_probe_keep() : for es_pool_spec.keep, with an es_probe_wants as its user: rows of queries,
 *  draws, windows, neighbours, sinks and passages. Limit, exact errors and sections walk through
 *  the pool, for which es_pool_stream() is called. */
es_status es_probe_keep(void *wants, const es_pool_info *about, const int64_t *starts,
                        int64_t layer, int64_t *rows, int64_t *count, es_error *err);

/* What the limit of one layer takes, one replicate, one of Gaussian tokens, opening the layer for
 * predictions, and exact errors. */
typedef struct es_probe_cost {
    double limit_flops, replicate_flops, control_flops, open_flops, exact_flops;
    double exact_numbers; /* as es_probe_exact_numbers() */
    size_t bytes;         /* upper bound on memory at one time, one layer and slice at a time */
    /* of that, or more of it where several are walked through together: of a layer's state in a
     * walk for the limit, and of a slice's grids */
    double state_bytes, slice_bytes;
    int64_t parts; /* as es_probe_parts() */
} es_probe_cost;

/*! es_probe_cost_of() : for a pool of `tokens`, which need not exist: spec->pool is not read.
 *  @return : ES_OK; ES_E_UNSUPPORTED, ES_E_RANGE. */
es_status es_probe_cost_of(const es_probe_spec *spec, int64_t tokens, es_probe_cost *out,
                           es_error *err);

/* ---- a layer, ready ---- */

typedef struct es_probe es_probe;

/*! es_probe_open() : a layer with its numbers, which are copied. Release with es_probe_close().
 *  @return : as es_probe_measure(); ES_E_NONFINITE for numbers that are none. */
es_status es_probe_open(const es_probe_spec *spec, int64_t layer, const double *numbers,
                        es_probe **out, es_error *err);
void es_probe_close(es_probe *probe); /* NULL is fine */

/* What the covariance of a layer's inputs says. */
typedef struct es_probe_layer {
    es_num reach;         /* its largest eigenvalue */
    double trace;         /* its trace: mean squared distance from the mean */
    double participation; /* trace^2 / |cov|_F^2: in how many directions tokens vary */
    /* of all heads as one and without 1/sqrt(k), as the public code has it */
    double horizon_unscaled_all_heads;
} es_probe_layer;

es_status es_probe_layer_of(const es_probe *probe, es_probe_layer *out, es_error *err);

/* How concentrated the weights are that queries give to tokens. */
typedef struct es_probe_focus {
    double ess, ess_low;  /* effective number of tokens, 1/sum w^2: median over queries; share of
                             queries with less than 2 */
    double top, top_high; /* largest weight: median; share of queries with more than 1/2 */
} es_probe_focus;

/* The errors of one head: of the limit, or of one replicate at one n. The record of a draw in run
 * files. */
typedef struct es_probe_cell {
    double mean_error, cov_error, map_error;
    double coherence;     /* of all heads together (es_probe_joint); of single heads not set */
    double few;           /* map error over the `exact` queries alone; of replicates */
    es_probe_focus focus; /* over the n tokens; of es_probe_replicate() */
    double after_wo;      /* map error after the head's columns of Wo: what it does to the layer's
                             attention output; of replicates */
} es_probe_cell;

/* What is known of a head before anything is drawn. */
typedef struct es_probe_head {
    es_horizons horizons; /* from the covariance and the weights */
    es_probe_cell limit;  /* the limit's own error */
    double output_rms;    /* of the limit's outputs around their mean, over queries */

    /* n times the mean square error of single outputs, once n is large: mean over queries of
     * N sum w^2 |v - output|^2 over the pool's N tokens; half of the difference between its halves;
     * and the share of queries for which fewer than 100 of its tokens count, 1/sum w^2: they may
     * miss what the pool has missed. */
    double sampling, sampling_error, thin;
    es_probe_focus focus; /* over all of the pool */

    /* q, the standard deviation of a query's scores, root mean square over queries; median over
     * queries of u = q / sqrt(2 ln n), n the largest size; share of queries with u > 1, for which a
     * few of n Gaussian scores would have all the weight. Scores of real tokens have other tails:
     * `focus` is what they do. */
    double score_sd, score_sd_se, freezing, gaussian_frozen, gaussian_frozen_se;

    /* Weight on a block's first token ([CLS]) and on its last ([SEP]), mean over the queries of the
     * first 16 blocks; errors from the scatter between them. NaN if the pool has no specials, and
     * of causal models (positions.h). */
    double sink_first, sink_first_se, sink_last, sink_last_se;
} es_probe_head;

/*! es_probe_head_of() : O(hidden^3). @return : ES_OK; ES_E_RANGE; as es_horizons_of(). */
es_status es_probe_head_of(const es_probe *probe, int64_t head, es_probe_head *out, es_error *err);

/* ---- what n independent tokens do, exactly ---- */

/*! es_probe_exact_numbers() : how many numbers es_probe_exact() makes of a layer. */
int64_t es_probe_exact_numbers(const es_probe_spec *spec);

/*! es_probe_exact() : for the first spec->exact queries of every head the mean square error of n
 *  tokens drawn independently from the pool, and from either half of it, at the spec's sizes and at
 *  powers of two, into exact (es_probe_exact_numbers()). `numbers` are the layer's. O(tokens hidden
 *  (hidden + queries)) time, 120 ns for each token, query and head; memory: 4 heads' grids of
 *  scores, 0.5 MB for each query. Progress counts heads.
 *  @return : as es_probe_measure(). */
es_status es_probe_exact(const es_probe_spec *spec, int64_t layer, const double *numbers,
                         double *exact, es_error *err);

/* The same slice by slice, which any process may do: a slice is up to ES_PROBE_SLICE heads of a
 * layer, and slices count through all layers. Numbers of a layer's slices, one after the other,
 * begin with those of es_probe_exact(). */
enum { ES_PROBE_SLICE = 4 };

/*! es_probe_slices() : of a layer. es_probe_slice_numbers() : of a slice. */
int64_t es_probe_slices(const es_probe_spec *spec);
int64_t es_probe_slice_numbers(const es_probe_spec *spec);

/*! es_probe_centers() : what slices of a layer need of its numbers: *count of them from the
 * returned one on, the outputs of the limit for the exact queries. */
int64_t es_probe_centers(const es_probe_spec *spec, int64_t *count);

/*! es_probe_exact_slices() : slices [first, first + count) in one walk through their layers, into
 *  out (count, es_probe_slice_numbers()). `centers` are those of each of these layers, one after
 *  the other: (layers, count of es_probe_centers()). Memory as above for each slice.
 *  @return : as es_probe_exact(); ES_E_RANGE (probe.slices). */
es_status es_probe_exact_slices(const es_probe_spec *spec, int64_t first, int64_t count,
                                const double *centers, double *out, es_error *err);

/* The map error at one n for tokens drawn independently. */
typedef struct es_probe_point {
    double map_error;      /* over all queries, from the exact ones (below) */
    double map_error_se;   /* by which these may miss all */
    double map_error_pool; /* half of its difference between the halves of the pool */
    double few;            /* over the exact queries alone: nothing is estimated */
} es_probe_point;

/* From how many tokens on the map error is below some level. */
typedef struct es_probe_need {
    double tokens;
    double queries_se; /* the scatter of queries, which are a sample of the text's tokens */
    double pool_error; /* half of its difference between the halves of the pool */
} es_probe_need;

/*! es_probe_curve() : what `exact` says about a head, at every size: out (n_sizes). All queries
 *  have a rough error, 1/(n/sampling + 1/apart) with `apart` the mean square distance of values
 *  from the output; the exact errors of some are carried over to all by their line on it.
 *  @return : ES_OK; ES_E_RANGE; ES_E_MEMORY. */
es_status es_probe_curve(const es_probe *probe, int64_t head, const double *exact,
                         es_probe_point *out, es_error *err);

/*! es_probe_tokens_required() : from which n on the map error is below `level` > 0. @return :
 * likewise. */
es_status es_probe_tokens_required(const es_probe *probe, int64_t head, const double *exact,
                                   double level, es_probe_need *out, es_error *err);

/* ---- which keys to keep ---- */

/* What `sparse` calls random, top and top-random (policy.h), an eighth of the keys each. */
enum {
    ES_PROBE_POLICIES = 3,
    ES_PROBE_POLICY_SHARE = 8,
    ES_PROBE_POLICY_TOKENS = 1024, /* keys of the context, at most */
    ES_PROBE_POLICY_QUERIES = 16
};

/* Errors of one head over n tokens of the pool of which `keys` are kept, exact for each query. */
typedef struct es_probe_policies {
    int64_t n, keys, queries;        /* 0: too few tokens to leave some out */
    int64_t best;                    /* the policy of smallest error, the first of equals */
    double error[ES_PROBE_POLICIES]; /* root mean square over the queries, over the root mean
                                        square of their spread, sum w |v - y|^2; NaN without one */
    /* by how much the square of that error is above the best one's, and the standard error of that
     * over queries */
    double behind[ES_PROBE_POLICIES], behind_se[ES_PROBE_POLICIES];
    double critical;            /* L_8 of a query's scores (THEORY 21), median over the queries */
    double top_least, top_most; /* bounds of its largest weight (G1, G2), medians */
    es_measured critical_power; /* of ln n, by which it grows from n/16 to n keys; NaN below 128 */
} es_probe_policies;

/*! es_probe_policy_name() : "random", "top", "top-random"; NULL beyond. */
const char *es_probe_policy_name(int64_t at);

/*! es_probe_policies_of() : of every head, out (heads): the first 16 queries over distinct tokens
 *  of the pool, 1024 or the largest size if that is less, by es_policy_risk_near(). Nothing is
 *  simulated, so the number of draws does not matter. 1024 keys of 32 channels take 5 ms for each
 *  query and head. Parallel over queries; the same bits for any number of threads.
 *  @return : ES_OK; ES_E_IO, ES_E_LIMIT, ES_E_MEMORY; as es_policy_risk_near(). */
es_status es_probe_policies_of(const es_probe *probe, es_probe_policies *out, es_error *err);

/* ---- what Gaussian tokens would do ---- */

/*! es_probe_predict() : the map error that n Gaussian tokens of the same covariance would give
 *  these very queries (es_rem_moments(), interpolated to 1e-4), into out (n_sizes).
 *  @return : ES_OK; ES_E_ARGUMENT (probe.predict) of a probe for draws only; ES_E_RANGE. */
es_status es_probe_predict(const es_probe *probe, int64_t head, double *out, es_error *err);

/* ---- another text ---- */

/* What a text decides about a head. Natural logarithms, on which errors are nearly additive. */
typedef enum es_probe_trait {
    ES_PROBE_NEED,   /* sampling / output_rms^2: tokens after which the error is the spread */
    ES_PROBE_SCORES, /* score_sd */
    ES_PROBE_TRAITS
} es_probe_trait;

enum { ES_PROBE_SECTIONS = 16 };

/*! es_probe_sections() : traits of every head of a layer, of the whole pool and without each of its
 *  16 sections of consecutive text, into out (heads, ES_PROBE_TRAITS, 1 + ES_PROBE_SECTIONS): what
 *  es_jackknife() needs to say how far they would be from those of another text of this kind. Keys
 *  and queries of a section are left out together; there are up to 32 queries of each, so that the
 *  traits are near those of es_probe_head, not equal to them. Tokens of neighbouring sections are
 *  taken for independent. One walk through the pool. A pure function of seed and layer.
 *  @return : ES_OK; ES_E_RANGE (probe.sections) for fewer than 16 tokens; as es_probe_measure(). */
es_status es_probe_sections(const es_probe_spec *spec, int64_t layer, double *out, es_error *err);

/*! es_probe_sections_of() : of `layers` layers from `layer` on, out (layers, ...), together: the
 *  same numbers. */
es_status es_probe_sections_of(const es_probe_spec *spec, int64_t layer, int64_t layers,
                               double *out, es_error *err);

/* Operations and memory of one step. */
typedef struct es_probe_price {
    double flops;
    size_t bytes; /* upper bound on memory at one time */
} es_probe_price;

/*! es_probe_sections_price() : of es_probe_sections(), for a pool of `tokens`; spec->pool is not
 *  read. */
es_probe_price es_probe_sections_price(const es_probe_spec *spec, int64_t tokens);

/* How densely keys lie around the direction of a query. For keys less their mean (which changes no
 * weight) let T = 1 - cos(query, key); near 0, P(T <= t) ~ c t^exponent (exponent.h): half of the
 * number of dimensions in which keys vary near a query. */
typedef struct es_probe_local {
    double exponent, exponent_se; /* mean over 64 queries among up to 16384 keys, and the error that
                                     their scatter gives; NaN if there is none */
    double beta;        /* inverse temperature: |query| |key| / sqrt(k), root mean square */
    double beta_frozen; /* the freezing scale of n such keys (es_exponent_scales()), n the largest
                           size: fewer than 2 keys share the weight from there on. NaN if none */
} es_probe_local;

/*! es_probe_local_of() : of every head, out (heads). O(keys hidden (hidden + queries)); memory 8
 *  bytes per key and channel. @return : ES_OK; ES_E_IO, ES_E_LIMIT, ES_E_MEMORY. */
es_status es_probe_local_of(const es_probe *probe, es_probe_local *out, es_error *err);

/* All heads of a layer together at one n, after the output matrices Wo. */
typedef struct es_probe_joint {
    double map_error; /* root mean square error of the layer's attention output */
    double coherence; /* its square over the sum of the heads' own squares (after_wo): 1 if heads
                         err independently, up to the number of heads if they err alike */
} es_probe_joint;

/*! es_probe_replicate() : errors of every head at every n, cells (heads, sizes), and of all heads
 *  together, joint (sizes). Progress counts heads.
 *  @return : ES_OK; ES_E_RANGE unless 0 <= replicate < 2^32; ES_E_IO, ES_E_LIMIT, ES_E_MEMORY,
 * ES_E_INTERRUPTED; as es_attend(). */
es_status es_probe_replicate(const es_probe *probe, int64_t replicate, es_probe_cell *cells,
                             es_probe_joint *joint, es_error *err);

/*! es_probe_control() : errors of every head at every n, cells (heads, sizes), that Gaussian tokens
 *  with the mean and covariance of the layer's inputs would give these very queries; their limit
 *  is V (mean + S A x), exactly. What es_probe_predict() says about the map error, by simulation,
 *  and as much about mean and covariance: a control for what is due to the tokens' law. A pure
 *  function of (seed, layer, replicate). Progress counts heads. @return : as es_probe_replicate().
 */
es_status es_probe_control(const es_probe *probe, int64_t replicate, es_probe_cell *cells,
                           es_error *err);

/* ---- contexts ---- */

/*! es_probe_window_first() : the row of the pool at which window `replicate` of `windows` begins:
 *  n consecutive rows, n the largest size, in the order of the text; after the last row of the pool
 *  comes the first, so that every token is equally likely to be at every place of a window, and the
 *  mean over starts is the limit to first order. Windows are spread over the pool as evenly as it
 *  goes; neighbours share no token while windows (n + block) <= tokens; a pure function of (seed,
 *  replicate, windows), the same for all layers.
 *  @return : ES_OK; ES_E_RANGE (probe.window) unless 0 <= replicate < windows <= 2^32 and n is at
 *  most the pool's tokens. */
es_status es_probe_window_first(const es_probe *probe, int64_t replicate, int64_t windows,
                                int64_t *first, es_error *err);

/*! es_probe_window() : es_probe_replicate() with a window's tokens in place of drawn ones: what a
 *  context of the text is off by. Queries and limit are the same, so that the ratio of mean square
 *  errors, the *design effect*, is what the order of the text costs: 1 for independent tokens, L
 *  for tokens that come in runs of L equal ones. The limit is the pool's, of which a window of n is
 *  a part: of the square of its error a share of n/tokens is missing, or more where far tokens are
 *  alike, too. @return : as es_probe_window_first() and es_probe_replicate(). */
es_status es_probe_window(const es_probe *probe, int64_t replicate, int64_t windows,
                          es_probe_cell *cells, es_probe_joint *joint, es_error *err);

#endif
