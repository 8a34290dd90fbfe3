/* SPDX-License-Identifier: Apache-2.0 */
/* series.h : errors of many replicates along a grid of n, and what is made of them. One home for
 * means, root mean squares, flags and rates: every study, claim and table of rates calls it. */
#ifndef ES_EXPERIMENTS_KIT_SERIES_H
#define ES_EXPERIMENTS_KIT_SERIES_H

#include "stats/fit.h"

#include "base/memory.h"

/* Errors of replicates at increasing n, and the rate fitted to them. */
typedef struct es_series {
    int64_t replicates, points;
    double *errors;          /* (replicates, points) */
    double *at;              /* (points) n, or what stands for it */
    unsigned *flags;         /* (points) es_fit_flag; 0: used */
    es_fit_summary *summary; /* (points), once fitted */
    es_rate rate;            /* once fitted */
    es_status status;        /* of the fit: a refusal is an answer, too */
    char reason[320];        /* why there is no line; "" if there is one */
} es_series;

es_status es_series_new(es_arena *arena, int64_t replicates, int64_t points, es_series *out,
                        es_error *err);

/*! es_series_means() : the summary alone, which flags are decided from. */
es_status es_series_means(es_series *s, es_error *err);

/*! es_series_fit() : summary and line through the points without a flag, with its interval.
 *  @return : ES_OK also where there is no line (s->status, s->reason); what must stop a run:
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_series_fit(es_series *s, es_error *err);

/*! es_series_rate() : the rate of other numbers at the same points, with the weights se/mean and
 *  the flags of this series: what a prediction would show where this was measured. Without spread
 *  all points weigh the same. NaN if there is no line. */
double es_series_rate(const es_series *s, const double *numbers);

/*! es_series_rate_with() : the same with standard errors (points) of the caller's. */
double es_series_rate_with(const es_series *s, const double *numbers, const double *se);

/*! es_series_rate_even() : the same where every point weighs the same: `relative` is the relative
 *  standard error of each; NaN: that of what was measured there. */
double es_series_rate_even(const es_series *s, const double *numbers, double relative);

#endif
