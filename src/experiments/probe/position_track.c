/* SPDX-License-Identifier: Apache-2.0 */
/* position_track.c : what the blocks of a text say about one head of a causal model (THEORY
 * 16). */
#include <math.h>

#include "experiments/probe/position_question.h"
#include "stats/multiple.h"
#include "stats/special.h"
#include "theory/gap_count.h"

/* ---- means over blocks ---- */

/* Blocks are of one length: every bin has as many queries in each, and means of means are means. */
static double at(const probe_track *t, int64_t block, int64_t place)
{
    return t->first[block * t->stride + place];
}

/* Returns the number of queries in a bin; it is the same in every block. */
static double count_of(const probe_track *t, int64_t bin)
{
    return at(t, 0, es_positions_at(t->grid, bin, ES_POSITIONS_COUNT));
}

/* Returns mean and error over blocks of what is in scratch. */
static es_measured mean_of_scratch(const probe_track *t)
{
    return es_average_column(t->scratch, t->blocks, 1);
}

es_measured probe_track_mean(const probe_track *t, int64_t bin, es_positions_stat stat)
{
    for (int64_t b = 0; b < t->blocks; b++)
        t->scratch[b] = at(t, b, es_positions_at(t->grid, bin, stat)) / count_of(t, bin);
    return mean_of_scratch(t);
}

/* Weight within a window of one block; the queries' first keys are there whatever the window. */
static double mass_in(const probe_track *t, int64_t block, int64_t bin, int64_t window)
{
    if (window == t->grid->windows)
        return 1.0;
    const int64_t place = window < 0 ? es_positions_at(t->grid, bin, ES_POSITIONS_SINK)
                                     : es_positions_mass_at(t->grid, bin, window);
    return at(t, block, place) / count_of(t, bin);
}

es_measured probe_track_mass(const probe_track *t, int64_t bin, int64_t window)
{
    for (int64_t b = 0; b < t->blocks; b++)
        t->scratch[b] = mass_in(t, b, bin, window);
    return mean_of_scratch(t);
}

es_measured probe_track_score(const probe_track *t, int64_t distance, es_positions_score score)
{
    const double pairs = at(t, 0, es_positions_score_at(t->grid, distance, ES_POSITIONS_PAIRS));
    for (int64_t b = 0; b < t->blocks; b++) {
        const double *x =
            t->first + b * t->stride + es_positions_score_at(t->grid, distance, ES_POSITIONS_PAIRS);
        t->scratch[b] = (score == ES_POSITIONS_SCORES ? x[ES_POSITIONS_REAL] - x[ES_POSITIONS_PLAIN]
                                                      : x[score]) /
                        pairs;
    }
    return pairs > 0.0 ? mean_of_scratch(t) : (es_measured){(double)NAN, (double)NAN};
}

es_measured probe_track_horizon(const probe_track *t, bool plain)
{
    return es_average_column(t->first + es_positions_horizon_at(t->grid, plain), t->blocks,
                             t->stride);
}

/* ---- effective context ---- */

/* A sum over all blocks but one (-1: over all). */
static double total(const probe_track *t, int64_t place, int64_t without)
{
    double sum = 0.0;
    for (int64_t b = 0; b < t->blocks; b++)
        sum += b == without ? 0.0 : at(t, b, place);
    return sum;
}

/* Returns the relative error of a window over all blocks but one (-1: all), for the jackknife. */
static double error_without(const probe_track *t, int64_t bin, int64_t window, int64_t without)
{
    const double spread = total(t, es_positions_at(t->grid, bin, ES_POSITIONS_SPREAD), without);
    return sqrt(total(t, es_positions_error_at(t->grid, bin, window), without) / spread);
}

/* ln w, where the error comes down to `error` for good (THEORY 16.1, K4). A window of as many keys
 * as the bin's longest context leaves nothing out. */
static double log_context(const probe_track *t, int64_t bin, double error, int64_t without)
{
    const es_positions_grid *g = t->grid;
    double above = 0.0; /* the error at the next window */
    for (int64_t c = g->windows - 1; c >= 0; c--) {
        const double e = error_without(t, bin, c, without);
        if (e > error) {
            const int64_t next = c + 1 < g->windows ? g->window[c + 1] : g->seen;
            const double low = log((double)g->window[c]);
            const double high = log((double)(next < g->to[bin] ? next : g->to[bin]));
            return low + (high - low) * (e - error) / (e - above);
        }
        above = e;
    }
    return 0.0; /* one key will do */
}

/* Returns the jackknife estimate over blocks from the values in scratch. */
static es_measured knifed(const probe_track *t, double whole)
{
    const es_grouped x = es_jackknife(whole, t->scratch, t->blocks);
    return (es_measured){x.value, x.se};
}

es_measured probe_track_error(const probe_track *t, int64_t bin, int64_t window)
{
    for (int64_t b = 0; b < t->blocks; b++)
        t->scratch[b] = error_without(t, bin, window, b);
    return knifed(t, error_without(t, bin, window, -1));
}

es_measured probe_track_window_error(const probe_track *t)
{
    for (int64_t c = 0; c < t->grid->windows; c++)
        if (t->grid->window[c] == ES_POSITIONS_LOCAL)
            return probe_track_error(t, t->grid->bins - 1, c);
    return (es_measured){0}; /* queries see no other keys */
}

es_measured probe_track_context(const probe_track *t, int64_t bin, double error)
{
    for (int64_t b = 0; b < t->blocks; b++)
        t->scratch[b] = log_context(t, bin, error, b);
    return knifed(t, log_context(t, bin, error, -1));
}

/* Returns the slope of ln window on ln n over the later half of positions, without one block. */
static double growth_without(const probe_track *t, double error, int64_t without)
{
    const es_positions_grid *g = t->grid;
    double x[ES_POSITIONS_MOST], y[ES_POSITIONS_MOST];
    int64_t points = 0;
    for (int64_t bin = 0; bin < g->bins; bin++)
        if (4 * g->to[bin] > g->to[g->bins - 1]) {
            x[points] = at(t, 0, es_positions_at(g, bin, ES_POSITIONS_PLACES)) / count_of(t, bin);
            y[points++] = log_context(t, bin, error, without);
        }
    return points > 1 ? es_measured_slope(x, y, points).value : (double)NAN;
}

es_measured probe_track_growth(const probe_track *t, double error)
{
    for (int64_t b = 0; b < t->blocks; b++)
        t->scratch[b] = growth_without(t, error, b);
    return knifed(t, growth_without(t, error, -1));
}

es_measured probe_exp(es_measured log)
{
    const double value = exp(log.value);
    return (es_measured){value, value * log.se};
}

/* ---- gap counting ---- */

/* Returns 1 over the mean critical temperature of a bin; NaN if it has none. */
static es_measured critical_scale(const probe_track *t, int64_t bin, es_positions_stat stat)
{
    const es_measured x = probe_track_mean(t, bin, stat);
    if (!(x.value > 0.0))
        return (es_measured){(double)NAN, (double)NAN};
    return (es_measured){1.0 / x.value, x.se / (x.value * x.value)};
}

/* The bins between which growth is measured: the last, and the one of a sixteenth of the length. */
static int64_t sixteenth(const es_positions_grid *grid) { return probe_octave_bin(grid, 4); }

es_measured probe_track_critical_power(const probe_track *t)
{
    const int64_t last = t->grid->bins - 1, few = sixteenth(t->grid);
    if (few < 1)
        return (es_measured){(double)NAN, (double)NAN};
    for (int64_t b = 0; b < t->blocks; b++) {
        double scale[2], n[2];
        for (int i = 0; i < 2; i++) {
            const probe_track one = probe_track_block(t, b);
            const int64_t bin = i ? last : few;
            n[i] = exp(probe_track_mean(&one, bin, ES_POSITIONS_PLACES).value);
            scale[i] = critical_scale(&one, bin, ES_POSITIONS_CRITICAL).value;
        }
        t->scratch[b] = es_gap_power(scale[0], scale[1], n[0], n[1]);
    }
    return mean_of_scratch(t);
}

double probe_normal_power(const es_positions_grid *grid)
{
    const int64_t few = sixteenth(grid);
    if (few < 1 || grid->to[few - 1] < ES_GAP_GROUP)
        return (double)NAN;
    return es_gap_normal_power(grid->to[few], grid->to[grid->bins - 1], ES_GAP_GROUP);
}

probe_query_stats probe_query_stats_of(const probe_track *t, int64_t bin)
{
    return (probe_query_stats){.entropy = probe_track_mean(t, bin, ES_POSITIONS_ENTROPY),
                               .ess_typical =
                                   probe_exp(probe_track_mean(t, bin, ES_POSITIONS_LOG_ESS)),
                               .single_key = probe_track_mean(t, bin, ES_POSITIONS_SINGLE),
                               .rests_on_sink = probe_track_mean(t, bin, ES_POSITIONS_ON_SINK),
                               .top_weight = probe_track_mean(t, bin, ES_POSITIONS_TOP),
                               .sink_mass = probe_track_mean(t, bin, ES_POSITIONS_SINK),
                               .local_mass = probe_track_mean(t, bin, ES_POSITIONS_NEAR),
                               .score_sd = probe_track_mean(t, bin, ES_POSITIONS_SCORE_SD),
                               .freezing = probe_track_mean(t, bin, ES_POSITIONS_FREEZING),
                               .gaussian_frozen = probe_track_mean(t, bin, ES_POSITIONS_ABOVE_ONE),
                               .critical_scale = critical_scale(t, bin, ES_POSITIONS_CRITICAL),
                               .critical_rest = critical_scale(t, bin, ES_POSITIONS_CRITICAL_REST)};
}

/* ---- words ---- */

/* Half of a 95 % interval over blocks; of a single one nothing is known. */
static double within(es_measured x, int64_t blocks)
{
    return blocks > 1 ? es_student_quantile((double)blocks - 1.0, 0.025) * x.se : (double)INFINITY;
}

probe_head_place probe_place_of(es_measured window_error, int64_t blocks)
{
    const double half = within(window_error, blocks);
    const double low = window_error.value - half, high = window_error.value + half;
    if (high < PROBE_NEAR_BELOW)
        return PROBE_NEAR;
    if (low >= PROBE_FAR_FROM)
        return PROBE_FAR;
    return low >= PROBE_NEAR_BELOW && high < PROBE_FAR_FROM ? PROBE_BETWEEN : PROBE_NO_PLACE;
}

const char *probe_place_name(probe_head_place place)
{
    static const char *const names[PROBE_HEAD_PLACES] = {"near", "between", "far", "undecided"};
    return names[place];
}

es_regime probe_concentration_of(es_measured log_ess, double n, int64_t blocks)
{
    const double half = within(log_ess, blocks);
    return es_regime_within(n, exp(log_ess.value - half), exp(log_ess.value + half));
}

probe_growth probe_growth_of(es_measured growth, int64_t blocks)
{
    const double half = within(growth, blocks);
    if (growth.value - half > PROBE_GROWS)
        return PROBE_GROWING;
    return growth.value + half < PROBE_GROWS ? PROBE_SATURATED : PROBE_UNCLEAR;
}

const char *probe_growth_name(probe_growth growth)
{
    static const char *const names[] = {"grows", "saturates", "undecided"};
    return names[growth];
}

int64_t probe_octave_bin(const es_positions_grid *grid, int64_t octave)
{
    const int64_t end = grid->to[grid->bins - 1] >> octave;
    for (int64_t bin = grid->bins - 1; bin >= 0; bin--)
        if (grid->to[bin] <= end)
            return bin;
    return -1;
}
