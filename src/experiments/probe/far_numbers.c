/* SPDX-License-Identifier: Apache-2.0 */
/* far_numbers.c : what a head does at one context, by real or drawn far keys: statistics of
 * weights, effective context and limit error, with errors over blocks. */
#include <math.h>

#include "experiments/probe/far_question.h"
#include "stats/multiple.h"

probe_far_cells probe_far_cells_of(const probe_far_head *h)
{
    return (probe_far_cells){h->job,    h->far->stage, h->first,
                             h->blocks, h->at,         es_far_rows(&h->far->spec)};
}

/* Returns a row of block b. */
static const es_far_cell *cell_of(const probe_far_cells *v, int64_t b, int64_t row)
{
    const es_far_cell *cells = es_job_cell(v->job, v->stage, v->first + b);
    return cells + v->at * v->rows + row;
}

/* ---- one number, without one block (-1: of all) ---- */

static const es_far_stat stat_of[] = {
    [PROBE_FAR_ENTROPY] = ES_FAR_ENTROPY, [PROBE_FAR_LOG_ESS] = ES_FAR_LOG_ESS,
    [PROBE_FAR_FAR] = ES_FAR_FAR,         [PROBE_FAR_SINK] = ES_FAR_SINK,
    [PROBE_FAR_NEAR] = ES_FAR_NEAR,       [PROBE_FAR_TOP] = ES_FAR_TOP};

/* Returns the mean over blocks of a statistic of weights. */
static double mean_without(const probe_far_cells *v, const probe_far_at *at, es_far_stat stat,
                           int64_t without)
{
    double sum = 0.0, count = 0.0;
    for (int64_t b = 0; b < v->blocks; b++) {
        const es_far_cell *c = cell_of(v, b, at->row);
        if (b == without)
            continue;
        sum += at->drawn ? probe_far_mean_draw(c->drawn, stat) : c->real[stat];
        count += 1.0;
    }
    return sum / count;
}

/* Returns the relative error of outputs over window c. */
static double window_error(const probe_far_cells *v, const probe_far_at *at, int c, int64_t without)
{
    double squares = 0.0, spread = 0.0;
    for (int64_t b = 0; b < v->blocks; b++) {
        const es_far_cell *cell = cell_of(v, b, at->row);
        if (b == without)
            continue;
        squares += at->drawn ? cell->drawn_window[c] : cell->real_window[c];
        spread += cell->spread;
    }
    return sqrt(squares / spread);
}

/* Returns ln w, where the error of windows comes down to at->error for good (THEORY 16.1, K4). */
static double log_context(const probe_far_cells *v, const probe_far_at *at, int64_t without)
{
    double above = 0.0; /* the error at the next window */
    for (int c = ES_FAR_WINDOWS - 1; c >= 0; c--) {
        const double e = es_far_window(c) < at->n ? window_error(v, at, c, without) : 0.0;
        if (isnan(e))
            return e;
        if (e > at->error) {
            const double low = log((double)es_far_window(c));
            const double next =
                c + 1 < ES_FAR_WINDOWS ? (double)es_far_window(c + 1) : (double)INFINITY;
            const double high = log(fmin(next, (double)at->n));
            return low + (high - low) * (e - at->error) / (e - above);
        }
        above = e;
    }
    return 0.0; /* one key will do */
}

/* Returns ln of the exact error against the limit; NaN: there is none, or (F3) is not positive. */
static double log_limit_error(const probe_far_cells *v, const probe_far_at *at, int64_t without)
{
    double exact = 0.0, spread = 0.0;
    for (int64_t b = 0; b < v->blocks; b++) {
        const es_far_cell *c = cell_of(v, b, at->row);
        exact += b == without ? 0.0 : c->exact;
        spread += b == without ? 0.0 : c->spread;
    }
    return exact > 0.0 ? 0.5 * log(exact / spread) : (double)NAN;
}

static double value_without(const probe_far_cells *v, const probe_far_at *at, probe_far_kind kind,
                            int64_t without)
{
    if (at->row < 0)
        return (double)NAN;
    return kind == PROBE_FAR_LOG_CONTEXT ? log_context(v, at, without)
           : kind == PROBE_FAR_LOG_LIMIT ? log_limit_error(v, at, without)
                                         : mean_without(v, at, stat_of[kind], without);
}

double probe_far_value(const probe_far_cells *v, const probe_far_at *at, probe_far_kind kind)
{
    return value_without(v, at, kind, -1);
}

es_measured probe_far_measured(const probe_far_cells *v, const probe_far_at *at,
                               probe_far_kind kind, double *scratch)
{
    for (int64_t b = 0; b < v->blocks; b++)
        scratch[b] = value_without(v, at, kind, b);
    const es_grouped x = es_jackknife(value_without(v, at, kind, -1), scratch, v->blocks);
    return (es_measured){x.value, x.se};
}
