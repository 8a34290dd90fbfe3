/* SPDX-License-Identifier: Apache-2.0 */
/* thresholds.c : table "thresholds": the window of gamma between merging and staying apart, by the
 * closed form and as the random model shows it (THEORY 7). */
#include <math.h>
#include <stdio.h>

#include "experiments/collapse/collapse.h"
#include "experiments/kit/answer_kit.h"

/* A row of the table of thresholds: the gamma at which half of the weight is a token's own. */
typedef struct threshold_row {
    int64_t n;
    double rho, gamma_c, gamma_low, gamma_high, gamma_c_dim;
    es_measured gamma_half_measured, rho_realised;
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
    ES_COL(threshold_row, rho_realised, ES_FORMAT_REAL, "rho^", "",
           "mean cosine of the random model, over replicates"),
    ES_COL(threshold_row, note, ES_FORMAT_TEXT, "", ""),
    {0}};
static const es_table_spec thresholds_table = {"thresholds", columns, ES_VIEW("Thresholds"),
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

/* Returns the gamma at which the measured p passes 1/2; NaN if it never does. ln(p/(1-p)) is linear
 * in gamma for equal angles, so a line between the two neighbouring score scales is enough: with
 * z0 < 0 <= z1 at gamma0, gamma1 it is gamma0 + (gamma1-gamma0) f, f = -z0/(z1-z0). Both ends come
 * from the same tokens, so their errors are added as if fully correlated. */
static es_measured half_measured(const summary_ctx *m, int64_t pair, double rho)
{
    for (int64_t g = 0; pair < m->s->pairs && g + 1 < m->s->gammas; g++) {
        double z[2], error[2];
        for (int i = 0; i < 2; i++) {
            const es_collapse_row *x = collapse_measured(m, pair, g + i);
            const double p = x->mean.self_weight;
            z[i] = log(p / (1.0 - p));
            error[i] = x->se.self_weight / (p * (1.0 - p));
        }
        if (!(z[0] < 0.0 && z[1] >= 0.0) || !isfinite(z[0]) || !isfinite(z[1]))
            continue;
        const double low = collapse_gamma(m->p, rho, g), high = collapse_gamma(m->p, rho, g + 1);
        const double wide = z[1] - z[0];
        return (es_measured){.value = low + (high - low) * -z[0] / wide,
                             .se = (high - low) * (z[1] * error[0] - z[0] * error[1]) /
                                   (wide * wide)};
    }
    return (es_measured){(double)NAN, (double)NAN};
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
    if (!measured)
        return;
    r->gamma_half_measured = half_measured(m, pair, r->rho);
    r->rho_realised = (es_measured){measured->mean.rho, measured->se.rho};
}

/* ---- findings ---- */

/* Reports the window of one pair. */
static void report_window(es_answer *a, const threshold_row *r)
{
    if (r->n < 10) /* equal weights are above 0.1: these tokens cannot merge */
        es_answer_add_finding(a,
                              "n = %lld tokens at cosine %.3g stay apart above gamma = %.3g; they "
                              "never merge, because equal weights are already %.3g.",
                              (long long)r->n, r->rho, r->gamma_high, 1.0 / (double)r->n);
    else
        es_answer_add_finding(a,
                              "n = %.8g tokens at cosine %.3g merge below gamma = %.3g and stay "
                              "apart above %.3g (gamma_c = %.3g).",
                              (double)r->n, r->rho, r->gamma_low, r->gamma_high, r->gamma_c);
}

/* Reports where the random model passes p = 0.5. */
static void report_half(es_answer *a, int64_t dim, const threshold_row *r)
{
    char half[ES_SAY_ROOM], heuristic[80] = "";
    if (isnan(r->gamma_half_measured.value))
        return;
    if (!isnan(r->gamma_c_dim))
        snprintf(heuristic, sizeof heuristic, " and %.4g for %lld dimensions [heuristic]",
                 r->gamma_c_dim, (long long)dim);
    es_answer_add_finding(
        a,
        "Random tokens, n = %.8g at cosine %.3g, have weight 0.5 on themselves at gamma = %s; "
        "predicted: %.4g for equal angles%s.",
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
    report_window(m->answer, &rows[0]);
    if (pairs > 1 && !m->p->curves)
        report_window(m->answer, &rows[pairs - 1]);
    report_half(m->answer, m->p->dim, &rows[pairs - 1]);
    return ES_OK;
}
