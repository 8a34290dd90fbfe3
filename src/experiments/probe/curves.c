/* SPDX-License-Identifier: Apache-2.0 */
/* curves.c : the table rows: errors of a head at every n, and the rates that follow from them. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "stats/average.h"

/* ---- columns ---- */

static const es_column curve_columns[] = {
    ES_COL(probe_curve_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(probe_curve_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(probe_curve_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(probe_curve_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(probe_curve_row, mean_error, ES_FORMAT_REAL, "mean error", "",
           "`|m_n - m|` of the head's outputs, mean over replicates"),
    ES_COL(probe_curve_row, cov_error, ES_FORMAT_REAL, "cov error", "",
           "`|C_n - C|` in Frobenius norm"),
    ES_COL(probe_curve_row, map_error, ES_FORMAT_REAL, "map error", "",
           "root mean square over queries"),
    ES_COL(probe_curve_row, relative_error, ES_FORMAT_REAL, "relative", "",
           "map error over the spread of the outputs"),
    ES_COL(probe_curve_row, map_error_exact, ES_FORMAT_REAL, "exact", "",
           "map error expected for independent tokens, exact for every n, from the weights that "
           "queries give the pool's tokens; nothing is drawn. Its error: the queries that are "
           "computed are a sample of all. Without replacement times the square root of `(N - n)/(N "
           "- 1)`",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_curve_row, map_error_exact_pool, ES_FORMAT_SHORT, "exact, pool", "",
           "half of its difference between the halves of the pool",
           .standing = ES_STANDING_NUMERICAL),
    ES_COL(probe_curve_row, exact_ratio, ES_FORMAT_REAL, "measured/exact", "",
           "measured map error, root mean square, of the queries whose error is computed, over the "
           "exact one; its error is that of the draws",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_curve_row, map_error_sampling, ES_FORMAT_SHORT, "sampling", "",
           "the form of the exact map error for large n", .standing = ES_STANDING_PROVED),
    ES_COL(
        probe_curve_row, ess, ES_FORMAT_SHORT, "ESS", "tokens",
        "effective number of the n tokens, `1/sum w^2`: median over queries, mean over replicates"),
    ES_COL(probe_curve_row, top_weight, ES_FORMAT_SHORT, "top weight", "",
           "largest weight: median over queries, mean over replicates"),
    ES_COL(probe_curve_row, mean_error_gaussian, ES_FORMAT_SHORT, "Gaussian mean", "",
           "the same error of Gaussian tokens of the same covariance, drawn, and the same queries"),
    ES_COL(probe_curve_row, cov_error_gaussian, ES_FORMAT_SHORT, "cov", ""),
    ES_COL(probe_curve_row, map_error_gaussian, ES_FORMAT_SHORT, "map", ""),
    ES_COL(probe_curve_row, map_error_predicted, ES_FORMAT_SHORT, "predicted", "",
           "that map error of Gaussian tokens from exact integrals; nothing is drawn",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_curve_row, mean_error_flag, ES_FORMAT_TEXT, "mean flag", "",
           "as that of the map error"),
    ES_COL(probe_curve_row, cov_error_flag, ES_FORMAT_TEXT, "cov flag", "",
           "as that of the map error"),
    ES_COL(probe_curve_row, map_error_flag, ES_FORMAT_TEXT, "flag", "",
           "pool: the distance between the pool and its text, from its two halves, is above a "
           "tenth of this; the rate is that of the pool. Left out of the fit: floor, rounding; "
           "reference, drawn without replacement from too small a pool"),
    {0}};
const es_table_spec probe_curves_table = {
    "rows", curve_columns,
    ES_VIEW("Distance from the pool's limit",
            "domain layer head n mean_error cov_error map_error map_error_exact exact_ratio "
            "mean_error_gaussian cov_error_gaussian map_error_gaussian map_error_predicted "
            "map_error_flag",
            .only_with_full = true),
    ES_ROW(probe_curve_row), .keys = "domain layer head n"};

es_status probe_add_curve(probe_summary *m, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes;
    for (int64_t i = 0; i < sizes; i++) {
        probe_curve_row *r = es_rows_add(m->curves, probe_curve_row);
        if (!r)
            return es_answer_status(m->job->answer, err);
        r->domain = m->row->domain;
        r->layer = m->row->layer;
        r->head = m->head;
        r->n = m->s->spec.sizes[i];
    }
    m->curve = es_rows(m->curves, probe_curve_row) + es_table_rows(m->curves) - sizes;
    return ES_OK;
}

/* ---- errors and rates ---- */

/* Tokens are drawn from the pool, so attention over the whole pool is their exact limit, and the
 * pool's own error does not enter a rate. Rounding does; so does a draw without replacement that
 * takes a large part of the pool. */
static void flag_points(const probe_summary *m, bool text, es_series *s)
{
    const double floor = 5e-7 * m->about.output_rms; /* rounding of the f32 kernels */
    for (int64_t i = 0; i < s->points; i++) {
        s->flags[i] = es_fit_flags_of(s->summary[i].mean, floor, 0.0);
        if (text && m->s->spec.without_replacement && m->s->spec.sizes[i] > m->tokens / 10)
            s->flags[i] |= ES_FIT_REFERENCE;
    }
}

/* "floor" and "reference" are left out of the fit; "pool" is not, but says more about this pool
 * than about its text. `own` is the limit's own error. */
static const char *flag_name(unsigned flags, double error, double own)
{
    return flags & ES_FIT_FLOOR       ? "floor"
           : flags & ES_FIT_REFERENCE ? "reference"
           : own > 0.1 * error        ? "pool"
                                      : "";
}

/* Fits series->errors, which are filled: means, flags, rate. */
static es_status fit(const probe_summary *m, bool text, es_series *s, es_error *err)
{
    for (int64_t i = 0; i < s->points; i++)
        s->at[i] = (double)m->s->spec.sizes[i];
    ES_TRY(es_series_means(s, err)); /* flags depend on the means */
    flag_points(m, text, s);
    return es_series_fit(s, err);
}

/* Errors of the text's tokens: means, flags, rate. */
static es_status fill_text(probe_summary *m, int which, es_error *err)
{
    es_series *s = &m->text[which];
    const double own = probe_error(&m->about.limit, which);
    es_rate_cells *const rates[PROBE_ERRORS] = {&m->row->rate_mean, &m->row->rate_cov,
                                                &m->row->rate_map};
    for (int64_t r = 0; r < s->replicates; r++)
        for (int64_t i = 0; i < s->points; i++)
            s->errors[r * s->points + i] =
                probe_error(probe_draw_at(m->job, PROBE_DRAW, m->place, r, m->head, i), which);
    ES_TRY(fit(m, true, s, err));
    for (int64_t i = 0; i < s->points; i++) {
        probe_curve_row *c = &m->curve[i];
        es_measured *const errors[PROBE_ERRORS] = {&c->mean_error, &c->cov_error, &c->map_error};
        const char **const flags[PROBE_ERRORS] = {&c->mean_error_flag, &c->cov_error_flag,
                                                  &c->map_error_flag};
        *errors[which] = (es_measured){s->summary[i].mean, s->summary[i].se};
        *flags[which] = flag_name(s->flags[i], s->summary[i].mean, own);
    }
    es_rate_cells_fill(rates[which], s, m->heads);
    return ES_OK;
}

/* Errors of Gaussian tokens: means and rate. */
static es_status fill_gaussian(probe_summary *m, int which, es_error *err)
{
    es_series *s = &m->gaussian[which];
    es_rate_cells *const rates[PROBE_ERRORS] = {
        &m->row->rate_mean_gaussian, &m->row->rate_cov_gaussian, &m->row->rate_map_gaussian};
    for (int64_t r = 0; r < s->replicates; r++) {
        const probe_control_cell *cell =
            es_job_cell(m->job, PROBE_CONTROL, m->place * s->replicates + r);
        for (int64_t i = 0; i < s->points; i++) {
            const probe_control_cell *c = &cell[m->head * s->points + i];
            const double errors[PROBE_ERRORS] = {c->mean_error, c->cov_error, c->map_error};
            s->errors[r * s->points + i] = errors[which];
        }
    }
    ES_TRY(fit(m, false, s, err));
    for (int64_t i = 0; i < s->points; i++) {
        probe_curve_row *c = &m->curve[i];
        es_measured *const errors[PROBE_ERRORS] = {&c->mean_error_gaussian, &c->cov_error_gaussian,
                                                   &c->map_error_gaussian};
        *errors[which] = (es_measured){s->summary[i].mean, s->summary[i].se};
    }
    es_rate_cells_fill(rates[which], s, m->heads);
    return ES_OK;
}

/* ---- predictions ---- */

/* A draw of n of the pool's N tokens without replacement has (N - n)/(N - 1) of the variance of
 * independent ones (THEORY 9). */
static double left_at(const probe_summary *m, int64_t i)
{
    const double N = (double)m->tokens, n = (double)m->s->spec.sizes[i];
    return m->s->spec.without_replacement ? (N - n) / (N - 1.0) : 1.0;
}

/* The rate of m->predicted at the points where the map error was measured. */
static double predicted_rate(const probe_summary *m)
{
    return es_series_rate_even(&m->text[PROBE_MAP], m->predicted, 0.01);
}

/* What Gaussian tokens of the same covariance would give (THEORY 4.2). */
static es_status fill_prediction(probe_summary *m, es_error *err)
{
    ES_TRY(es_probe_predict(m->s->probe, m->head, m->predicted, err));
    for (int64_t i = 0; i < m->s->spec.n_sizes; i++)
        m->curve[i].map_error_predicted = m->predicted[i];
    m->row->rate_map_predicted = predicted_rate(m);
    return ES_OK;
}

const double *probe_exact_at(const probe_summary *m)
{
    return es_job_numbers(m->job, PROBE_EXACT, probe_exact_cell(m->s, m->place));
}

/* The exact curve and what was measured. Expectations are of squares, so measured errors are root
 * mean squares here, of the same queries. */
static es_status fill_exact(probe_summary *m, es_error *err)
{
    ES_TRY(es_probe_curve(m->s->probe, m->head, probe_exact_at(m), m->exact, err));
    for (int64_t i = 0; i < m->s->spec.n_sizes; i++) {
        const es_probe_point *e = &m->exact[i];
        const es_probe_cell *first = probe_draw_at(m->job, PROBE_DRAW, m->place, 0, m->head, i);
        const double left = sqrt(left_at(m, i)), few = e->few * left;
        const es_measured got = probe_drawn_rms(m->job, &first->few);
        probe_curve_row *c = &m->curve[i];
        m->predicted[i] = e->map_error * left;
        c->map_error_exact = (es_measured){e->map_error * left, e->map_error_se * left};
        c->map_error_exact_pool = e->map_error_pool * left;
        c->exact_ratio = (es_measured){got.value / few, got.se / few};
        c->ess = probe_drawn(m->job, &first->focus.ess);
        c->top_weight = probe_drawn(m->job, &first->focus.top);
    }
    m->row->rate_map_exact = predicted_rate(m);
    return ES_OK;
}

/* What the pool's own weights predict for large n, sqrt(sampling/n) (THEORY 9); and errors over the
 * spread of the head's outputs, which are comparable between heads. */
static void fill_scaled(const probe_summary *m)
{
    const es_fit_summary *map = m->text[PROBE_MAP].summary;
    const double spread = m->about.output_rms;
    for (int64_t i = 0; i < m->s->spec.n_sizes; i++) {
        probe_curve_row *c = &m->curve[i];
        c->map_error_sampling = sqrt(m->about.sampling * left_at(m, i) / (double)c->n);
        c->relative_error = (es_measured){map[i].mean / spread, map[i].se / spread};
    }
    m->row->relative_error = m->curve[m->s->spec.n_sizes - 1].relative_error;
}

es_status probe_fill_curve(probe_summary *m, es_error *err)
{
    for (int which = 0; which < PROBE_ERRORS; which++)
        ES_TRY(fill_text(m, which, err));
    ES_TRY(fill_prediction(m, err));
    ES_TRY(fill_exact(m, err));
    for (int which = 0; which < PROBE_ERRORS && m->p->control; which++)
        ES_TRY(fill_gaussian(m, which, err));
    fill_scaled(m);
    return ES_OK;
}
