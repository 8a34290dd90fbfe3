/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : the answer of the experiment on a ball: errors at each R and n, rates in n, growth in R.
 *
 * Both fits leave out the same saturated points. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/ball/ball.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/series.h"
#include "limit/limit.h"
#include "stats/average.h"

/* ---- what was measured ---- */

/* What the functions that fill rows share. */
typedef struct summary_ctx {
    es_job *job;
    const ball_params *p;
    const ball_state *s;
    es_table *rows, *fits, *growth;
    double *column; /* (replicates) scratch */
} summary_ctx;

/* Returns what a replicate found at size number p and radius number r. */
static const es_ball_cell *found_at(const summary_ctx *m, int64_t replicate, int64_t p, int64_t r)
{
    const es_ball_cell *cells = es_job_cell(m->job, 0, replicate);
    return &cells[p * m->s->spec.n_radii + r];
}

/* Beyond saturation the error is that of the nearest token, which is bounded: such points would
 * bend both fits down, towards a rate and a growth that the limit does not have. */
static unsigned flags_of(const summary_ctx *m, int64_t p, int64_t r)
{
    return es_ball_saturated(&m->s->constants[r], (double)m->s->spec.sizes[p])
               ? (unsigned)ES_FIT_SATURATED
               : 0u;
}

/* ---- rows, and the rate in n at one R ---- */

/* A row of the table of errors: the supremum at one R and n, and the constant C(R) = sqrt(n) sup
 * beside its prediction. */
typedef struct ball_row {
    double radius;
    int64_t n;
    es_measured sup_error;
    double sup_error_median;
    es_measured scaled, predicted;
    double scaled_rms, predicted_rms, predicted_line, maximiser_radius;
    const char *flag;
} ball_row;

static const es_column row_columns[] = {
    ES_COL(ball_row, radius, ES_FORMAT_REAL, "R", "", "queries are `|x| <= R`"),
    ES_COL(ball_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(ball_row, sup_error, ES_FORMAT_REAL, "sup error", "",
           "largest `|Gamma_n(x) - Gamma(x)|` with `|x| <= R`, mean over replicates"),
    ES_COL(ball_row, sup_error_median, ES_FORMAT_SHORT, "median", "",
           "the same, median over replicates"),
    ES_COL(ball_row, scaled, ES_FORMAT_REAL, "sqrt(n) sup", "",
           "what the papers call `C(R)`, measured"),
    ES_COL(ball_row, predicted, ES_FORMAT_REAL, "predicted", "",
           "its limit for n to infinity, by sampling the limit field, in at most two dimensions",
           .standing = ES_STANDING_PROVED),
    ES_COL(ball_row, scaled_rms, ES_FORMAT_SHORT, "rms", "",
           "the same as `sqrt(n)` sup, root of the mean square over replicates"),
    ES_COL(ball_row, predicted_rms, ES_FORMAT_REAL, "one query", "",
           "largest `sqrt(n)` rms error of a single query of the ball for n to infinity, from the "
           "law: a lower bound of rms",
           .standing = ES_STANDING_PROVED),
    ES_COL(ball_row, predicted_line, ES_FORMAT_REAL, "line", "",
           "`(2/sqrt(pi)) e^(q^2/2) sqrt(1+q^2)` sd, `q = H1 R`: Gaussian tokens on the line",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(ball_row, maximiser_radius, ES_FORMAT_SHORT, "|x|", "",
           "where the largest error is, mean over replicates"),
    ES_COL(ball_row, flag, ES_FORMAT_TEXT, "flag", "",
           "saturated: n is too small for this R, a few tokens carry the softmax; left out of the "
           "fits"),
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("Distance from the limit at the worst query of a ball",
            "radius n sup_error sup_error_median scaled predicted scaled_rms predicted_rms "
            "maximiser_radius flag",
            "Standard errors are over replicates. Sizes and radii of one replicate share tokens, "
            "so rows are dependent.",
            .only_with_full = true),
    ES_ROW(ball_row), .keys = "radius n"};

/* A row of the table of rates: sup error ~ n^-rate at one R. */
typedef struct ball_fit {
    double radius;
    es_measured rate;
    double rate_from, rate_to, rate_p, rate_expected;
    int64_t used;
    const char *reason;
} ball_fit;

static const es_column fit_columns[] = {
    ES_COL(ball_fit, radius, ES_FORMAT_REAL, "R", ""),
    ES_COL(
        ball_fit, rate, ES_FORMAT_REAL, "rate", "",
        "sup error ~ `n^-rate`, weighted fit; the error is that of the jackknife over replicates"),
    ES_COL_KEY(ball_fit, rate_from, "rate_ci.0", ES_FORMAT_REAL, "rate from", "",
               "95 % interval, Student's t over replicates"),
    ES_COL_KEY(ball_fit, rate_to, "rate_ci.1", ES_FORMAT_REAL, "rate to", ""),
    ES_COL(ball_fit, rate_p, ES_FORMAT_SHORT, "p", "",
           "p-value of the `chi^2` test of a power law on this range"),
    ES_COL(ball_fit, rate_expected, ES_FORMAT_SHORT, "expected", "", "`C(R)/sqrt(n)`",
           .standing = ES_STANDING_PROVED),
    ES_COL(ball_fit, used, ES_FORMAT_COUNT, "points", "",
           "number of points that are not saturated"),
    ES_COL(ball_fit, reason, ES_FORMAT_TEXT, "reason", "", "why there is no rate"),
    {0}};
static const es_table_spec fits_table = {
    "fits", fit_columns, ES_VIEW("Rates in n", "radius rate rate_p rate_expected used reason"),
    ES_ROW(ball_fit), .keys = "radius"};

/* tr V S V' in one dimension, for the form of the papers; NaN elsewhere. */
static double line_variance(const summary_ctx *m)
{
    const es_law *law = m->s->spec.law;
    const es_view *V = m->s->spec.head->V;
    double variance = (double)NAN;
    if (law->kind != ES_LAW_GAUSSIAN || law->dim != 1 || (V && V->rows != 1))
        return (double)NAN;
    const double v = V ? es_view_get(V, 0, 0) : 1.0;
    es_limit_token_moments(law, m->job->exec.budget, NULL, &variance, NULL);
    return v * v * variance;
}

/* Fills the row of size number p and radius number r; x is its line of the series. */
static es_status add_row(const summary_ctx *m, int64_t p, int64_t r, const es_fit_summary *x,
                         es_error *err)
{
    const ball_state *s = m->s;
    const double root = sqrt((double)s->spec.sizes[p]);
    const int64_t R = m->p->replicates;
    ball_row *row = es_rows_add(m->rows, ball_row);
    if (!row)
        return es_answer_status(m->job->answer, err);
    row->radius = s->spec.radii[r];
    row->n = s->spec.sizes[p];
    row->sup_error = (es_measured){x->mean, x->se};
    row->sup_error_median = x->median;
    row->scaled = (es_measured){root * x->mean, root * x->se};
    row->predicted = (es_measured){s->sups[r].val, s->sups[r].err};
    for (int64_t i = 0; i < R; i++)
        m->column[i] = found_at(m, i, p, r)->sup;
    row->scaled_rms = root * es_measured_rms(m->column, R, 1).value;
    row->predicted_rms = s->constants[r].rms;
    row->predicted_line = es_ball_line(row->radius * s->h1, line_variance(m));
    for (int64_t i = 0; i < R; i++)
        m->column[i] = found_at(m, i, p, r)->radius;
    row->maximiser_radius = es_spread_of(m->column, R, 1).mean;
    row->flag = flags_of(m, p, r) ? "saturated" : "";
    return ES_OK;
}

/* Fits the rate in n at radius number r; fills its rows and its fit. */
static es_status sum_up_radius(const summary_ctx *m, int64_t r, es_error *err)
{
    es_series l;
    ES_TRY(es_series_new(&m->job->arena, m->p->replicates, m->s->spec.n_sizes, &l, err));
    for (int64_t p = 0; p < l.points; p++) {
        l.at[p] = (double)m->s->spec.sizes[p];
        l.flags[p] = flags_of(m, p, r);
        for (int64_t i = 0; i < l.replicates; i++)
            l.errors[i * l.points + p] = found_at(m, i, p, r)->sup;
    }
    ES_TRY(es_series_fit(&l, err));
    for (int64_t p = 0; p < l.points; p++)
        ES_TRY(add_row(m, p, r, &l.summary[p], err));
    const bool good = l.status == ES_OK;
    const double nan = (double)NAN;
    ball_fit *fit = es_rows_add(m->fits, ball_fit);
    if (!fit)
        return es_answer_status(m->job->answer, err);
    fit->radius = m->s->spec.radii[r];
    fit->rate = good ? (es_measured){l.rate.mean.rate, l.rate.se} : (es_measured){nan, nan};
    fit->rate_from = good ? l.rate.low : nan;
    fit->rate_to = good ? l.rate.high : nan;
    fit->rate_p = good ? l.rate.power_p : nan;
    fit->rate_expected = 0.5;
    fit->used = good ? l.rate.mean.used : 0;
    fit->reason = es_table_format(m->fits, "%s", l.reason);
    return ES_OK;
}

/* ---- growth in R at one n ---- */

/* A row of the table of growth: how ln(sqrt(n) sup) increases with R^2, measured, predicted, and by
 * the papers' bound. */
typedef struct ball_growth {
    int64_t n, radii;
    es_measured slope;
    double slope_from, slope_to, slope_predicted, slope_one_query, slope_sharp, slope_bound;
    const char *reason;
} ball_growth;

static const es_column growth_columns[] = {
    ES_COL(ball_growth, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(ball_growth, radii, ES_FORMAT_COUNT, "radii", "",
           "number of radii that are not saturated"),
    ES_COL(ball_growth, slope, ES_FORMAT_REAL, "slope", "",
           "of `ln(sqrt(n) sup)` on `R^2`, weighted fit; error as above"),
    ES_COL_KEY(ball_growth, slope_from, "slope_ci.0", ES_FORMAT_REAL, "slope from", "",
               "95 % interval, Student's t over replicates"),
    ES_COL_KEY(ball_growth, slope_to, "slope_ci.1", ES_FORMAT_REAL, "slope to", ""),
    ES_COL(ball_growth, slope_predicted, ES_FORMAT_REAL, "predicted", "",
           "slope of the predicted constants at the same radii, in at most two dimensions",
           .standing = ES_STANDING_PROVED),
    ES_COL(ball_growth, slope_one_query, ES_FORMAT_REAL, "one query", "",
           "slope of the constants of a single query at the same radii",
           .standing = ES_STANDING_PROVED),
    ES_COL(ball_growth, slope_sharp, ES_FORMAT_SHORT, "H1^2/2", "", "for large R, Gaussian tokens",
           .standing = ES_STANDING_PROVED),
    ES_COL(ball_growth, slope_bound, ES_FORMAT_SHORT, "H1^2", "", "exponent of the papers' bound",
           .standing = ES_STANDING_CITED),
    ES_COL(ball_growth, reason, ES_FORMAT_TEXT, "reason", "", "why there is no slope"),
    {0}};
static const es_table_spec growth_table = {
    "growth", growth_columns,
    ES_VIEW("Growth in R",
            "n radii slope slope_predicted slope_one_query slope_sharp slope_bound reason"),
    ES_ROW(ball_growth), .keys = "n"};

/* ln(sqrt(n) E sup) against R^2 is the line of fit.h with "n" = exp(8 R^2/Rmax^2), which no radius
 * takes beyond the range of numbers; a rate there is -slope Rmax^2/8. */
static double unit_of(const summary_ctx *m)
{
    const double most = m->s->spec.radii[m->s->spec.n_radii - 1];
    return 8.0 / (most * most);
}

/* The slope that constants (radii) would have shown: each as uncertain, relative to itself, as what
 * was measured there. NaN if one of them is. */
static es_status slope_of(const summary_ctx *m, const es_series *l, const double *constants,
                          double *out, es_error *err)
{
    double *se;
    ES_TRY(ES_JOB_NEW(m->job, se, l->points, err));
    for (int64_t r = 0; r < l->points; r++) {
        se[r] = constants[r] * l->summary[r].se / l->summary[r].mean;
        if (!isfinite(se[r])) /* of a single replicate */
            se[r] = constants[r];
    }
    *out = l->status == ES_OK ? -es_series_rate_with(l, constants, se) * unit_of(m) : (double)NAN;
    return ES_OK;
}

/* Adds the slopes that theory predicts for the supremum and for a single query. */
static es_status add_predicted(const summary_ctx *m, const es_series *l, ball_growth *row,
                               es_error *err)
{
    double *constants;
    ES_TRY(ES_JOB_NEW(m->job, constants, l->points, err));
    for (int64_t r = 0; r < l->points; r++)
        constants[r] = m->s->sups[r].val;
    ES_TRY(slope_of(m, l, constants, &row->slope_predicted, err));
    for (int64_t r = 0; r < l->points; r++)
        constants[r] = m->s->constants[r].rms;
    return slope_of(m, l, constants, &row->slope_one_query, err);
}

/* Fits the growth in R^2 at size number p and fills its row. */
static es_status sum_up_size(const summary_ctx *m, int64_t p, es_error *err)
{
    const double unit = unit_of(m), h2 = m->s->h1 * m->s->h1, nan = (double)NAN;
    es_series l;
    ES_TRY(es_series_new(&m->job->arena, m->p->replicates, m->s->spec.n_radii, &l, err));
    for (int64_t r = 0; r < l.points; r++) {
        l.at[r] = exp(unit * m->s->spec.radii[r] * m->s->spec.radii[r]);
        l.flags[r] = flags_of(m, p, r);
        for (int64_t i = 0; i < l.replicates; i++)
            l.errors[i * l.points + r] =
                sqrt((double)m->s->spec.sizes[p]) * found_at(m, i, p, r)->sup;
    }
    ES_TRY(es_series_fit(&l, err));
    const bool good = l.status == ES_OK;
    ball_growth *row = es_rows_add(m->growth, ball_growth);
    if (!row)
        return es_answer_status(m->job->answer, err);
    row->n = m->s->spec.sizes[p];
    row->radii = good ? l.rate.mean.used : 0;
    row->slope =
        good ? (es_measured){-l.rate.mean.rate * unit, l.rate.se * unit} : (es_measured){nan, nan};
    row->slope_from = good ? -l.rate.high * unit : nan;
    row->slope_to = good ? -l.rate.low * unit : nan;
    row->slope_sharp = m->s->spec.law->kind == ES_LAW_GAUSSIAN ? 0.5 * h2 : nan;
    row->slope_bound = h2;
    row->reason = es_table_format(m->growth, "%s", l.reason);
    return add_predicted(m, &l, row, err);
}

/* ---- findings ---- */

/* Reports the rate at the largest ball that has one, or why the smallest has none. */
static void report_rate(es_answer *a, const es_table *fits)
{
    const ball_fit *fit = es_rows(fits, ball_fit);
    char power[ES_SAY_SIZE];
    int64_t with_rate = 0;
    for (int64_t i = 0; i < es_table_rows(fits); i++)
        with_rate += isfinite(fit[i].rate.value);
    for (int64_t i = es_table_rows(fits) - 1; i >= 0; i--) {
        if (!isfinite(fit[i].rate.value))
            continue;
        es_answer_add_finding(a,
                              "The error of the worst query with |x| <= %.3g falls like %s; the "
                              "papers' rate, for large n, is n^-0.5. Of %lld balls %lld are small "
                              "enough for a rate at these n.",
                              fit[i].radius, es_say_power(fit[i].rate.value, fit[i].rate.se, power),
                              (long long)es_table_rows(fits), (long long)with_rate);
        return;
    }
    if (es_table_rows(fits))
        es_answer_add_finding(a, "No ball has a rate: %s (at |x| <= %.3g).", fit[0].reason,
                              fit[0].radius);
}

/* Reports the growth in R^2 at the largest n. */
static void report_growth(es_answer *a, const es_table *growth)
{
    char size[ES_SAY_SIZE], slope[ES_SAY_SIZE], predicted[ES_SAY_SIZE] = "",
                                                sharp[ES_SAY_SIZE] = "";
    const int64_t count = es_table_rows(growth);
    const ball_growth *last = count ? &es_rows(growth, ball_growth)[count - 1] : NULL;
    if (!last || !isfinite(last->slope.value))
        return;
    if (isfinite(last->slope_predicted))
        snprintf(predicted, sizeof predicted, ", predicted for these radii is %.3g",
                 last->slope_predicted);
    if (isfinite(last->slope_sharp))
        snprintf(sharp, sizeof sharp, ", where the error of Gaussian tokens grows by %.3g",
                 last->slope_sharp);
    es_answer_add_finding(
        a,
        "At n = %s the logarithm of the worst error on a ball grows by %s per "
        "unit of R^2%s. Only for large R, beyond these, is it to be compared with "
        "the papers' bound, which grows by %.3g%s.",
        es_say_size((double)last->n, size), es_say_number(last->slope.value, last->slope.se, slope),
        predicted, last->slope_bound, sharp);
}

es_status ball_summarise(es_job *job, es_answer *answer, es_error *err)
{
    summary_ctx m = {.job = job, .p = job->params, .s = job->state};
    ES_TRY(ES_JOB_NEW(job, m.column, m.p->replicates, err));
    m.rows = es_answer_table(answer, &rows_table);
    m.fits = es_answer_table(answer, &fits_table);
    m.growth = es_answer_table(answer, &growth_table);
    es_answer_count(answer, "replicates", m.p->replicates);
    es_answer_real(answer, "horizon_one_sided", m.s->h1);
    for (int64_t r = 0; r < m.s->spec.n_radii; r++)
        ES_TRY(sum_up_radius(&m, r, err));
    for (int64_t p = 0; p < m.s->spec.n_sizes; p++)
        ES_TRY(sum_up_size(&m, p, err));
    report_rate(answer, m.fits);
    report_growth(answer, m.growth);
    return ES_OK;
}
