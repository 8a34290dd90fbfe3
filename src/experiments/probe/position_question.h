/* position_question.h : the part of `probe` that looks at a causal model place by place: blocks of
 * text as cells (positions.h), what their numbers say about a head, classes, tables, sentences.
 *
 *     probe/positions.c        the stage, and the tables made of its cells
 *     probe/position_head.c    one head: means over blocks, effective context, growth, place
 *     probe/position_tables.c  what the columns mean
 *     probe/position_findings.c    what was found, in sentences
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
    double *room;      /* (blocks) */
} probe_positions;

/* ---- one head ---- */

/* Numbers of one head of one domain in all blocks: those of block b are `stride` after those of
 * block b - 1. */
typedef struct probe_track {
    const es_positions_grid *grid;
    const double *first;
    int64_t stride, blocks;
    double *room; /* (blocks) */
} probe_track;

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
 *  `error` times that of outputs around their mean; between windows of the grid a line in ln w. Of
 *  its logarithm the mean and, by the jackknife, the standard error; t->room has the logarithms
 *  without each block afterwards. */
es_measured probe_track_context(const probe_track *t, int64_t bin, double error);

/*! probe_track_error() : the relative error of window `window`, by the same measure. */
es_measured probe_track_error(const probe_track *t, int64_t bin, int64_t window);

/*! probe_track_growth() : d ln w / d ln n of the effective context w over bins that end within a
 *  quarter of the length, by least squares; its error by the jackknife. NaN of a single bin. */
es_measured probe_track_growth(const probe_track *t, double error);

/*! probe_track_window_error() : the same at the longest n, of the last 64 keys with the first 4. */
es_measured probe_track_window_error(const probe_track *t);

/* ---- words ---- */

/* Where a head needs to look, by window_error: how far its outputs are off at the longest n if it
 * sees only the last 64 keys and the first 4, over their standard deviation.
 *
 *     near       below 0.1
 *     between    0.1 or more and below 0.5
 *     far        0.5 or more
 *     undecided  the 95 % interval over blocks contains 0.1 or 0.5
 */
#define PROBE_NEAR_BELOW 0.1
#define PROBE_FAR_FROM   0.5
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

/* Does the effective context grow with n where n is largest? One cut-off, d ln w / d ln n = 0.2
 * (twice the text, 15 % more window), and the 95 % interval on one side of it. */
#define PROBE_GROWS 0.2
typedef enum probe_growth { PROBE_GROWING, PROBE_SATURATED, PROBE_UNCLEAR } probe_growth;
probe_growth probe_growth_of(es_measured growth, int64_t blocks);
const char *probe_growth_name(probe_growth growth);

/* ---- the stage and its answer: of a job of `probe` ---- */

/*! probe_positions_open() : blocks of the texts, their number, the cost of one; pools are open.
 *  probe_positions_close() : gives them back. */
es_status probe_positions_open(es_job *job, es_error *err);
void probe_positions_close(probe_positions *p);

/*! probe_positions_flops() : of all blocks. probe_positions_bytes() : of those under way and of all
 *  cells. */
double probe_positions_flops(const es_job *job);
double probe_positions_bytes(const es_job *job);

/*! probe_positions_add() : the stage, one cell for each block. probe_positions_put() : tables and
 *  sentences. */
es_status probe_positions_add(es_job *job, es_error *err);
es_status probe_positions_put(es_job *job, es_answer *answer, es_error *err);

/* What sentences are made of. The numbers are of all heads at the longest n, with errors over
 * blocks. */
typedef struct probe_position_facts {
    const es_table *places, *heads;
    es_measured sink_mass, single_key, rests_on_sink; /* means over heads */
    es_measured window_share;                         /* median over heads */
} probe_position_facts;

void probe_positions_tell(const es_job *job, const probe_position_facts *facts, es_answer *answer);

extern const es_table_spec probe_head_places_table, probe_position_heads_table, probe_places_table,
    probe_windows_table, probe_distances_table;

/* Octaves whose effective context stands in the table of heads: at the length, half of it, ... */
enum { PROBE_OCTAVES = 4 };

/*! probe_octave_bin() : the bin that ends at, or last before, the length over 2^octave; -1: none.
 */
int64_t probe_octave_bin(const es_positions_grid *grid, int64_t octave);

#endif
