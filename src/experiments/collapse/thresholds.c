/* SPDX-License-Identifier: Apache-2.0 */
/* thresholds.c : table "thresholds": the window of gamma between merging and staying apart, by the
 * closed form and as the random model shows it (THEORY 7). */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/collapse/collapse.h"
#include "experiments/kit/answer_kit.h"

/* A row of the table of thresholds: the gamma at which half of the weight is a token's own. */
typedef struct threshold_row {
    int64_t n;
    double rho, gamma_c, gamma_low, gamma_high, gamma_c_dim, window;
    es_measured gamma_half_measured, window_measured, rho_realised;
    const char *note;
} threshold_row;

static const es_column columns[] = {
    ES_COL(threshold_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(threshold_row, rho, ES_FORMAT_SHORT, "rho", ""),
    ES_COL(threshold_row, gamma_c, ES_FORMAT_REAL, "gamma_c", "", "`1/(1-rho)`",
           .standing = ES_STANDING_PROVED),
    ES_COL(threshold_row, gamma_low, ES_FORMAT_SHORT, "p = 0.1", "gamma", "start of the window",
           .standing = ES_STANDING_PROVED),
    ES_COL(threshold_row, gamma_high, ES_FORMAT_SHORT, "p = 0.9", "gamma", "end of the window",
           .standing = ES_STANDING_PROVED),
    ES_COL(threshold_row, gamma_c_dim, ES_FORMAT_SHORT, "at d", "gamma",
           "`p = 0.5` for tokens of d dimensions", .standing = ES_STANDING_HEURISTIC),
    ES_COL(threshold_row, gamma_half_measured, ES_FORMAT_REAL, "measured", "gamma",
           "`p = 0.5` of the random model, interpolated between two score scales"),
    ES_COL(threshold_row, window, ES_FORMAT_SHORT, "width", "gamma_c",
           "`2 ln 9/ln n`: how far gamma is from `p = 0.1` to `p = 0.9`",
           .standing = ES_STANDING_PROVED),
    ES_COL(threshold_row, window_measured, ES_FORMAT_REAL, "width measured", "gamma_c",
           "the same of the random model, from the slope of `ln(p/(1-p))` between these score "
           "scales, replicate by replicate"),
    ES_COL(threshold_row, rho_realised, ES_FORMAT_REAL, "rho^", "",
           "mean cosine of the random model, over replicates"),
    ES_COL(threshold_row, note, ES_FORMAT_TEXT, "", ""),
    {0}};
static const es_table_spec thresholds_table = {
    "thresholds", columns,
    ES_VIEW("Thresholds",
            "n rho gamma_c gamma_low gamma_high gamma_c_dim gamma_half_measured rho_realised note",
            "p is the weight of a token on itself. Score scales are gamma ln n; angles of outputs "
            "that merge are 0."),
    ES_ROW(threshold_row), .keys = "n rho"};

/* Returns the gamma at which equiangular tokens have weight p on themselves: the closed form of
 * THEORY 7, p = 1/(1 + (n-1) exp(-gamma ln n (1-rho))), solved for gamma. */
static double gamma_at(int64_t n, double rho, double p)
{
    return log((double)(n - 1) * p / (1.0 - p)) / (log((double)n) * (1.0 - rho));
}

collapse_window collapse_window_at(int64_t n, double rho)
{
    return (collapse_window){.gamma_c = 1.0 / (1.0 - rho),
                             .low = fmax(0.0, gamma_at(n, rho, 0.1)),
                             .high = gamma_at(n, rho, 0.9)};
}

/* Returns ln(p/(1-p)), which is linear in gamma for equal angles. */
static double log_odds(double p) { return log(p / (1.0 - p)); }

/* Returns the number of the last score scale before the measured p passes 1/2; -1 if it never does.
 */
static int64_t scale_before_half(const summary_ctx *m, int64_t pair)
{
    for (int64_t g = 0; pair < m->s->pairs && g + 1 < m->s->gammas; g++) {
        const double low = log_odds(collapse_measured(m, pair, g)->mean.self_weight),
                     high = log_odds(collapse_measured(m, pair, g + 1)->mean.self_weight);
        if (low < 0.0 && high >= 0.0 && isfinite(low) && isfinite(high))
            return g;
    }
    return -1;
}

/* Returns the gamma at which the measured p passes 1/2, by a line between score scales g and g+1:
 * with z0 < 0 <= z1 at gamma0, gamma1 it is gamma0 + (gamma1-gamma0) f, f = -z0/(z1-z0). Both ends
 * come from the same tokens, so their errors are added as if fully correlated. */
static es_measured half_measured(const summary_ctx *m, int64_t pair, double rho, int64_t g)
{
    double z[2], error[2];
    for (int i = 0; i < 2; i++) {
        const es_collapse_row *x = collapse_measured(m, pair, g + i);
        const double p = x->mean.self_weight;
        z[i] = log_odds(p);
        error[i] = x->se.self_weight / (p * (1.0 - p));
    }
    const double low = collapse_gamma(m->p, rho, g), high = collapse_gamma(m->p, rho, g + 1);
    const double wide = z[1] - z[0];
    return (es_measured){.value = low + (high - low) * -z[0] / wide,
                         .se = (high - low) * (z[1] * error[0] - z[0] * error[1]) / (wide * wide)};
}

/* Returns by how much the log-odds of a replicate climb from one score scale to the next. */
static double climb_of(const es_collapse_draw *at)
{
    return log_odds(at[1].self_weight) - log_odds(at[0].self_weight);
}

/* Returns the width of the window in units of gamma_c: log-odds climb by 2 ln 9 from p = 0.1 to
 * 0.9 and by c between score scales g and g+1. The mean of c over replicates has a small error,
 * because both ends are from the same tokens. */
static es_measured window_measured(const summary_ctx *m, int64_t pair, double rho, int64_t g)
{
    const int64_t gammas = m->s->gammas, count = m->p->replicates;
    const es_collapse_draw *draws = es_job_cell(m->job, 0, pair);
    const double apart = collapse_gamma(m->p, rho, g + 1) - collapse_gamma(m->p, rho, g);
    double sum = 0.0, squares = 0.0;
    for (int64_t r = 0; r < count; r++)
        sum += climb_of(draws + r * gammas + g);
    const double climb = sum / (double)count;
    for (int64_t r = 0; r < count; r++) {
        const double off = climb_of(draws + r * gammas + g) - climb;
        squares += off * off;
    }
    const double width = 2.0 * log(9.0) * apart * (1.0 - rho) / climb;
    return (es_measured){width,
                         width * sqrt(squares / ((double)count * (double)(count - 1))) / climb};
}

/* Fills one pair (n, rho); what the random model shows only if it was drawn. */
static void fill_row(const summary_ctx *m, int64_t pair, threshold_row *r)
{
    const es_collapse_row *measured = collapse_measured(m, pair, 0);
    r->n = m->p->n.counts[pair / m->p->rho.count];
    r->rho = m->p->rho.reals[pair % m->p->rho.count];
    const collapse_window w = collapse_window_at(r->n, r->rho);
    r->gamma_c = w.gamma_c;
    r->gamma_low = w.low;
    r->gamma_high = w.high;
    r->gamma_c_dim = es_collapse_threshold(r->n, r->rho, m->p->dim);
    if (isnan(r->gamma_c_dim))
        r->note = "d too small: tokens freeze onto neighbours before they see themselves alone";
    r->window = 2.0 * log(9.0) / log((double)r->n);
    if (!measured)
        return;
    const int64_t g = scale_before_half(m, pair);
    const es_measured none = {(double)NAN, (double)NAN};
    r->gamma_half_measured = g < 0 ? none : half_measured(m, pair, r->rho, g);
    r->window_measured = g < 0 ? none : window_measured(m, pair, r->rho, g);
    r->rho_realised = (es_measured){measured->mean.rho, measured->se.rho};
}

/* ---- findings ---- */

/* Reports the window of one pair. How far outputs merged at its start depends on n rho: at cosine 0
 * a small weight of its own keeps a token apart from others, which have nothing in common. */
static es_status report_window(const summary_ctx *m, const threshold_row *r, es_error *err)
{
    es_collapse low, high;
    ES_TRY(collapse_exact(m->p, r->n, r->rho, r->gamma_low, &low, err));
    ES_TRY(collapse_exact(m->p, r->n, r->rho, r->gamma_high, &high, err));
    if (r->n < 10) /* equal weights are above 0.1: these tokens cannot merge */
        es_answer_add_finding(
            m->answer,
            "At n = %lld and cosine %.3g tokens stay apart above gamma = %.3g; they never merge, "
            "because equal weights are already %.3g.",
            (long long)r->n, r->rho, r->gamma_high, 1.0 / (double)r->n);
    else
        es_answer_add_finding(
            m->answer,
            "At n = %.8g and cosine %.3g, outputs keep %.2g of the angles between tokens at gamma "
            "= %.3g (scores grow like gamma ln n), where a token's weight on itself is 10 %%, and "
            "%.2g at gamma = %.3g, where it "
            "is 90 %%.",
            (double)r->n, r->rho, low.angle_ratio, r->gamma_low, high.angle_ratio, r->gamma_high);
    return ES_OK;
}

/* Reports where the random model passes p = 0.5. */
static void report_half(es_answer *a, int64_t dim, const threshold_row *r)
{
    char half[ES_SAY_SIZE], heuristic[80] = "";
    if (isnan(r->gamma_half_measured.value))
        return;
    if (!isnan(r->gamma_c_dim))
        snprintf(heuristic, sizeof heuristic, " and %.4g for %lld dimensions [heuristic]",
                 r->gamma_c_dim, (long long)dim);
    es_answer_add_finding(
        a,
        "With random tokens, n = %.8g at cosine %.3g, each puts half of its weight on itself at "
        "gamma = "
        "%s; predicted are %.4g if all angles are equal%s.",
        (double)r->n, r->rho,
        es_say_number(r->gamma_half_measured.value, r->gamma_half_measured.se, half),
        gamma_at(r->n, r->rho, 0.5), heuristic);
}

/* Reports the first and the last pair; with --curves only the first, which the curves are about. */
es_status collapse_fill_thresholds(summary_ctx *m, es_error *err)
{
    const int64_t pairs = m->p->n.count * m->p->rho.count;
    m->thresholds = es_answer_table(m->answer, &thresholds_table);
    for (int64_t i = 0; i < pairs; i++) {
        threshold_row *r = es_rows_add(m->thresholds, threshold_row);
        if (!r)
            return es_answer_status(m->answer, err);
        fill_row(m, i, r);
    }
    const threshold_row *rows = es_rows(m->thresholds, threshold_row);
    ES_TRY(report_window(m, &rows[0], err));
    if (pairs > 1 && !m->p->curves)
        ES_TRY(report_window(m, &rows[pairs - 1], err));
    report_half(m->answer, m->p->dim, &rows[pairs - 1]);
    return ES_OK;
}
