/* SPDX-License-Identifier: Apache-2.0 */
/* position_question.h : the question about positions of `probe`: what the heads of a causal model
 * do as their context grows. Cells are blocks of text (positions.h).
 *
 *     positions.c          blocks, stage, cost, the summary over all heads
 *     position_track.c     one head: means over blocks, effective context, growth, place
 *     position_heads.c     tables position_heads, position_classes
 *     position_curves.c    tables positions, context_windows, distances
 *     position_findings.c  sentences
 */
#ifndef ES_EXPERIMENTS_PROBE_POSITION_QUESTION_H
#define ES_EXPERIMENTS_PROBE_POSITION_QUESTION_H

#include "theory/key_weights.h"

#include "experiments/kit/pool_params.h"
#include "experiments/probe/positions.h"
#include "stats/average.h"

/* Blocks of the text and the stage they are cells of. */
typedef struct probe_positions {
    int stage; /* of the job */
    double error;
    es_positions_spec spec;
    es_positions_grid grid;
    es_positions_cost cost;
    es_blocks *texts;  /* (domains) */
    int64_t n_domains; /* that were read */
    int64_t blocks;    /* of spec.length ids in every domain: those of a domain that has more are
                          the first */
    double *scratch;   /* (blocks) */
} probe_positions;

/*! probe_count_full() : number of blocks of this length. probe_block_ids() : the ids of one of
 *  them; NULL: there are fewer. */
int64_t probe_count_full(const es_blocks *b, int64_t length);
const int32_t *probe_block_ids(const es_blocks *b, int64_t length, int64_t wanted);

/* ---- one head ---- */

/* Numbers of one head of one domain in all blocks: those of block b are `stride` after those of
 * block b - 1. */
typedef struct probe_track {
    const es_positions_grid *grid;
    const double *first;
    int64_t stride, blocks;
    double *scratch; /* (blocks) */
} probe_track;

/*! probe_track_block() : block b alone. probe_exp() : the exponential of a logarithm that was
 *  averaged. */
static inline probe_track probe_track_block(const probe_track *t, int64_t b)
{
    return (probe_track){t->grid, t->first + b * t->stride, t->stride, 1, t->scratch + b};
}
es_measured probe_exp(es_measured log);

/*! probe_track_mean() : a sum of a bin over the bin's queries, mean over blocks. */
es_measured probe_track_mean(const probe_track *t, int64_t bin, es_positions_stat stat);

/*! probe_track_mass() : weight of the keys within the window `window`, which are all for window =
 *  grid->windows and none but the sinks for -1. probe_track_score() : mean score at a distance;
 *  `score` is ES_POSITIONS_REAL, ES_POSITIONS_PLAIN, or ES_POSITIONS_SCORES for their difference.
 *  probe_track_horizon() : of the blocks. */
es_measured probe_track_mass(const probe_track *t, int64_t bin, int64_t window);
es_measured probe_track_score(const probe_track *t, int64_t distance, es_positions_score score);
es_measured probe_track_horizon(const probe_track *t, bool plain);

/*! probe_track_context() : the effective context of a bin's queries at relative error `error`: the
 *  smallest window, sinks beside it, from which on the root mean square of |y_w - y| stays below
 *  `error` times that of outputs around their mean; between windows of the grid a line in ln w.
 *  Returns the mean of its logarithm, with the standard error by the jackknife; t->scratch has the
 *  logarithms without each block afterwards. */
es_measured probe_track_context(const probe_track *t, int64_t bin, double error);

/*! probe_track_error() : the relative error of window `window`, by the same measure. */
es_measured probe_track_error(const probe_track *t, int64_t bin, int64_t window);

/*! probe_track_growth() : d ln w / d ln n of the effective context w over bins that end within a
 *  quarter of the length, by least squares; its error by the jackknife. NaN of a single bin. */
es_measured probe_track_growth(const probe_track *t, double error);

/*! probe_track_critical_power() : the power of ln n by which the critical score scale of a row
 * grows from a sixteenth of the length to the length (THEORY 21), mean over blocks. NaN if a bin
 * has none. probe_normal_power() : what typical normal scores show over the same n. */
es_measured probe_track_critical_power(const probe_track *t);
double probe_normal_power(const es_positions_grid *grid);

/*! probe_track_window_error() : the same at the longest n, of the last 64 keys with the first 4. */
es_measured probe_track_window_error(const probe_track *t);

/* ---- words ---- */

/* How far back a head needs keys, by window_error: how far its outputs are off at the longest n if
 * it sees only the last 64 keys and the first 4, over their standard deviation.
 *
 *     near       below 0.1
 *     between    0.1 or more and below 0.5
 *     far        0.5 or more
 *     undecided  the 95 % interval over blocks contains 0.1 or 0.5
 */
#define PROBE_NEAR_BELOW 0.1
#define PROBE_FAR_FROM   0.5
/* Where a head looks. */
typedef enum probe_head_place {
    PROBE_NEAR,
    PROBE_BETWEEN,
    PROBE_FAR,
    PROBE_NO_PLACE,
    PROBE_HEAD_PLACES
} probe_head_place;

probe_head_place probe_place_of(es_measured window_error, int64_t blocks);
const char *probe_place_name(probe_head_place place);

/*! probe_concentration_of() : es_regime_within() of the 95 % interval over blocks; log_ess is the
 *  mean of ln 1/sum w^2 of queries that see about n keys. */
es_regime probe_concentration_of(es_measured log_ess, double n, int64_t blocks);

/* Whether the effective context grows with n where n is largest: one cut-off, d ln w / d ln n = 0.2
 * (twice the text, 15 % more window), and the 95 % interval on one side of it. */
#define PROBE_GROWS 0.2
typedef enum probe_growth { PROBE_GROWING, PROBE_SATURATED, PROBE_UNCLEAR } probe_growth;
probe_growth probe_growth_of(es_measured growth, int64_t blocks);
const char *probe_growth_name(probe_growth growth);

/* ---- rows ---- */

/* Numbers of the queries of a bin: in the rows of places and, of the last bin, in that of a head.
 */
typedef struct probe_query_stats {
    es_measured entropy, ess_typical, single_key, rests_on_sink, top_weight, sink_mass, local_mass;
    es_measured score_sd, freezing, gaussian_frozen;
    es_measured critical_scale, critical_rest; /* L_8, of all keys and without the first 4 */
} probe_query_stats;

probe_query_stats probe_query_stats_of(const probe_track *t, int64_t bin);

/* Octaves whose effective context stands in the table of heads: at the length, half of it, ... */
enum { PROBE_OCTAVES = 4 };

#define PROBE_CRITICAL                                                                             \
    "`L_8 = sup ln N(g)/g` over gaps g from the largest score with `N(g) >= 8` keys. Below 1 "     \
    "groups of keys have separated; above 1 the largest weight is at most `N(g*)^(1/L_8 - 1)`"

/* A head of a domain. */
typedef struct probe_position_head_row {
    const char *domain;
    int64_t layer, head;
    const char *place;
    es_measured window_error;
    const char *concentration;
    es_measured effective_context[PROBE_OCTAVES];
    es_measured window_share, growth;
    const char *grows;
    double sensitivity;
    probe_query_stats query; /* of the last bin */
    es_measured horizon_rotary, horizon_plain, decay, decay_plain, critical_power;
    double normal_power;
} probe_position_head_row;

/* The summary under way. */
typedef struct probe_position_summary {
    es_job *job;
    const probe_positions *p;
    es_table *heads, *places, *windows, *distances;
    probe_track track; /* of the head */
    double *shares;    /* (rows of heads, 1 + blocks) effective context over n at the longest n, by
                          all blocks and without each */
} probe_position_summary;

/*! probe_position_describe_head() : fills the last row of the table of heads, whose name is there.
 *  probe_position_add_curves() : adds the head's rows to the other tables; false: no memory. */
void probe_position_describe_head(const probe_position_summary *m, probe_position_head_row *r);
bool probe_position_add_curves(const probe_position_summary *m,
                               const probe_position_head_row *head);

/*! probe_position_classify() : fills the table of classes; scratch has an element for each head;
 *  false: no memory. probe_position_count() : heads of a class. */
bool probe_position_classify(const es_table *heads, es_table *classes, double *scratch);
int64_t probe_position_count(const es_table *classes, probe_head_place place);

extern const es_table_spec probe_position_classes_table, probe_position_heads_table,
    probe_places_table, probe_windows_table, probe_distances_table;

/*! probe_positions_close() : frees the blocks. */
void probe_positions_close(probe_positions *p);

/* The numbers of the findings. The numbers are of all heads at the longest n, with errors over
 * blocks. */
typedef struct probe_position_facts {
    const es_table *classes, *heads;
    es_measured sink_mass, single_key, rests_on_sink; /* means over heads */
    es_measured window_share;                         /* median over heads */
} probe_position_facts;

/*! probe_positions_add_findings() : adds the findings. */
void probe_positions_add_findings(const es_job *job, const probe_position_facts *facts,
                                  es_answer *answer);

/*! probe_octave_bin() : the bin that ends at, or last before, the length over 2^octave; -1: none.
 */
int64_t probe_octave_bin(const es_positions_grid *grid, int64_t octave);

#endif
