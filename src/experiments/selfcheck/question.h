/* SPDX-License-Identifier: Apache-2.0 */
/* question.h : what is checked about the program's own intervals, p-values and verdicts.
 *
 *     selfcheck/settings.c  the list
 *     selfcheck/direct.c    those that no study's answer has row by row, or that need a model
 *     selfcheck/loss.c      likewise: the loss of a text
 *     selfcheck/question.c  runs them for many seeds and counts how often they are right
 *
 * A *setting* is a study with parameters, run as a user would run it, for many seeds. *Figures*
 * are columns of its answer for which the truth is known. */
#ifndef ES_EXPERIMENTS_SELFCHECK_QUESTION_H
#define ES_EXPERIMENTS_SELFCHECK_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "experiments/kit/ask.h"
#include "experiments/kit/block_mean.h"
#include "experiments/kit/pool_params.h"
#include "experiments/kit/probe.h"

typedef struct selfcheck_params {
    int effort;
    int64_t trials;
    const char *only;
    es_pool_params pool;
} selfcheck_params;

/* A layer of a real model, open for draws. */
typedef struct es_checked_layer {
    es_pools pools;
    es_exec exec; /* of a cell: one thread */
    es_probe_spec spec;
    double *numbers;
    es_probe *probe; /* NULL: there is no model */
    int64_t heads;
} es_checked_layer;

/* The losses of a text, block by block. */
typedef struct es_checked_text {
    es_block_sum *blocks; /* (count); NULL: they are not asked for */
    int64_t count;
    double mean; /* over all of them */
} es_checked_text;

enum { ES_CHECKED_BLOCKS = 16 }; /* of a trial, at most */

typedef struct selfcheck_state {
    int64_t trials;
    int64_t *settings; /* (count) of es_settings */
    int64_t count;
    es_checked_layer layer;
    es_checked_text text;
} selfcheck_state;

/* ---- figures ---- */

typedef enum es_figure_kind {
    ES_FIGURE_NONE,
    ES_FIGURE_INTERVAL, /* key_ci.0 .. key_ci.1 should hold the truth 95 times of 100 */
    ES_FIGURE_ERROR,    /* value +- t key_se likewise, t of `freedom` degrees */
    ES_FIGURE_BOUND,    /* the same at least as often: errors that may be too large */
    ES_FIGURE_P,        /* should be below .05 5 times of 100: what it tests is true here */
    ES_FIGURE_VERDICT   /* text `wrong` anywhere in the column: at most 5 times of 100 */
} es_figure_kind;

enum { ES_FIGURES = 7, ES_FIGURE_ROWS = 16 }; /* of a setting, of a figure, at most */

typedef struct es_figure {
    es_figure_kind kind;
    const char *table, *key;
    const char *name;        /* for people; NULL: key */
    int64_t row;             /* the only row that is looked at, from 1; 0: all */
    const char *se;          /* column of the standard error; NULL: key_se */
    const char *low, *high;  /* columns of the interval; NULL: key_ci.0 and .1 */
    const char *exact_table; /* table of the truth's columns, by rows; NULL: that of `key` */
    const char *exact;       /* column of the truth; NULL: */
    const char *exact_se;    /*   and of its own error, if it was measured apart */
    double truth;            /*   this number, unless */
    const char *like;        /*   it is the mean over seeds of this figure in that setting */
    double freedom;          /* of the standard error; 0: infinite */
    const char *wrong;
} es_figure;

/* A value and its interval as one answer has them, the record of run files. The value is counted
 * from the truth that the answer itself has, unless that is pooled; low and high are counted from
 * the value. NaN: no answer. */
typedef struct es_estimate {
    double value, low, high;
} es_estimate;

/*! es_figure_outcome() : 1 if the interval holds `truth`, if p is below .05, if the verdict is
 *  wrong; 0 if not; NaN if nothing was said. */
double es_figure_outcome(const es_figure *figure, const es_estimate *answer, double truth);

/*! es_figure_within() : 1 if `truth` is within `errors` standard errors of the value, 0 if not;
 *  NaN if nothing was said, or if the figure has no standard error. es_figure_should() : how often
 *  that should be so, by Student's t of the figure's degrees of freedom. */
double es_figure_within(const es_figure *figure, const es_estimate *answer, double truth,
                        double errors);
double es_figure_should(const es_figure *figure, double errors);

/*! es_figure_off() : returns whether a share differs from its expected value by more than four of
 *  its standard errors and two percentage points. Verdicts may be wrong less often, and bounds hold
 *  more often. Nothing found (NaN) is off: what is never said cannot be relied on. */
bool es_figure_off(es_figure_kind kind, double nominal, double found, double se);

/* ---- settings ---- */

typedef struct es_setting es_setting;

/* Computes one answer without a study: row r of figure f is out[f ES_FIGURE_ROWS + r], which holds
 * NaN before. */
typedef es_status (*es_setting_direct)(const es_job *job, const es_setting *setting, int64_t trial,
                                       uint64_t seed, const es_exec *exec, es_estimate *out,
                                       es_error *err);

struct es_setting {
    const char *name;  /* "converge.4" */
    const char *about; /* in words */
    const char *study;
    const char *given;  /* parameters of the study, as es_ask_spec.given */
    es_ask_input input; /* its user is the job */
    es_figure figures[ES_FIGURES];
    es_setting_direct direct; /* instead of running the study, which says whose figure it is */
    bool needs_model;         /* runs only with --model */
    bool needs_decoder;       /* and only if that is causal */
    bool dependent;           /* of error bars: keys are autocorrelated */
    bool control;             /* of rates: Gaussian tokens instead of the text's */
    int64_t replicates;       /* of rates: draws; of losses: blocks */
};

extern const es_setting es_settings[];
extern const int64_t es_settings_count;

/*! es_checked_layer_open() : pool and limit of the middle layer of the model that was given.
 *  es_checked_layer_close() : whatever happened. */
es_status es_checked_layer_open(es_job *job, es_checked_layer *layer, es_error *err);
void es_checked_layer_close(es_checked_layer *layer);

/*! es_direct_rates() : rates of mean, covariance and map of every head of that layer.
 *  es_direct_bars() : channels of outputs over one context of 4096 Gaussian keys, with the error
 *  bars of measure. */
es_status es_direct_rates(const es_job *job, const es_setting *setting, int64_t trial,
                          uint64_t seed, const es_exec *exec, es_estimate *out, es_error *err);
es_status es_direct_bars(const es_job *job, const es_setting *setting, int64_t trial, uint64_t seed,
                         const es_exec *exec, es_estimate *out, es_error *err);

/*! es_checked_text_read() : the loss of every block of the text by the model that was given; memory
 *  is the job's. es_direct_losses() : the mean of some of them, taken evenly, against that of all.
 */
es_status es_checked_text_read(es_job *job, es_checked_text *out, es_error *err);
es_status es_direct_losses(const es_job *job, const es_setting *setting, int64_t trial,
                           uint64_t seed, const es_exec *exec, es_estimate *out, es_error *err);

#endif
