/* SPDX-License-Identifier: Apache-2.0 */
/* fits.c : the power law of loss against context (THEORY 8), by position and by window, where
 * the losses determine it.
 *
 * L(c) = A c^-beta + gamma is linear in A and gamma for fixed beta, so beta alone is searched.
 * beta and gamma cannot be distinguished unless the excess over gamma falls by a factor of 10
 * between the first and the last point; otherwise the row says why there is no fit. Points of
 * different positions share their texts, so errors come from leaving out one block at a time.
 * 2^-beta is the part of the excess that remains when the context doubles. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/loss/loss.h"
#include "stats/context.h"
#include "stats/special.h"

/* ---- table ---- */

/* A row of the table of fits L(c) = A c^-beta + gamma, by position or by window. */
typedef struct fit_row {
    const char *of;
    int64_t sinks;
    const char *scale;
    int64_t points;
    es_measured beta;
    double beta_low, beta_high;
    es_measured gamma, A;
    double doubling;
    const char *why;
} fit_row;

static const es_column fit_columns[] = {
    ES_COL(fit_row, of, ES_FORMAT_TEXT, "loss against", "",
           "position: loss by place in the block, octaves from 16 on, geometric centres. window: "
           "loss of tokens in the second half of their block by window, weighted by the error of "
           "the difference to the full model"),
    ES_COL(fit_row, sinks, ES_FORMAT_COUNT, "sinks", "keys"),
    ES_COL(fit_row, scale, ES_FORMAT_TEXT, "scale", ""),
    ES_COL(fit_row, points, ES_FORMAT_COUNT, "points", ""),
    ES_COL(fit_row, beta, ES_FORMAT_REAL, "beta", "",
           "exponent of `L(c) = A c^-beta + gamma`; errors by leaving out one block at a time"),
    ES_COL_KEY(fit_row, beta_low, "beta_ci.0", ES_FORMAT_REAL, "beta from", "",
               "95 % interval, Student's t over blocks"),
    ES_COL_KEY(fit_row, beta_high, "beta_ci.1", ES_FORMAT_REAL, "beta to", ""),
    ES_COL(fit_row, gamma, ES_FORMAT_REAL, "gamma", "nats", "loss that no context removes"),
    ES_COL(fit_row, A, ES_FORMAT_REAL, "A", "", "`alpha^beta`"),
    ES_COL(fit_row, doubling, ES_FORMAT_REAL, "doubling", "",
           "`2^-beta`: the part of the excess `L - gamma` that is left when the context doubles"),
    ES_COL(fit_row, why, ES_FORMAT_TEXT, "why not", "",
           "why the losses do not determine the curve"),
    {0}};
static const es_table_spec fits_table = {
    "fits", fit_columns,
    ES_VIEW("Power law of loss against context", "of sinks scale points beta gamma why A doubling"),
    ES_ROW(fit_row), .keys = "of sinks scale"};

/* ---- the power law ---- */

enum { POINTS = LOSS_WINDOWS, FIRST_PLACE = 16, FEWEST_POINTS = 5 };

/* The points of one fit. */
typedef struct curve {
    double c[POINTS], L[POINTS], se[POINTS];
    int64_t count;
} curve;

/* Adds a point to the curve of loss by context; further points are dropped. */
static void add_point(curve *x, double c, double L, double se)
{
    if (x->count == POINTS)
        return;
    x->c[x->count] = c;
    x->L[x->count] = L;
    x->se[x->count++] = se;
}

/* Makes the curve by place in the block, without block `skip`. Octaves are narrow enough: the mean
 * of c^-1/2 over one is its value at the centre to 2 %. */
static void curve_of_positions(const es_job *job, int64_t skip, curve *out)
{
    const loss_state *s = job->state;
    for (int64_t from = FIRST_PLACE; from < s->longest; from *= 2) {
        const int64_t to = 2 * from < s->longest ? 2 * from : s->longest;
        const es_block_mean m = loss_without(job, skip, s->asked, -1, from, to);
        if (2 * (to - from) > from &&
            m.tokens) /* less than half an octave has no meaningful centre */
            add_point(out, sqrt((double)from * (double)to), m.value, m.se);
    }
}

/* Makes the curve by window, without block `skip`. All windows predict the same tokens, so the
 * error of a point is that of its difference to the full model. */
static void curve_of_windows(const es_job *job, int64_t skip, const loss_group *g, curve *out)
{
    const loss_state *s = job->state;
    const int64_t from = loss_late(s), to = s->longest;
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t W = loss_window_at(s, g, i);
        if (2 * W <= s->longest)
            add_point(out, (double)W, loss_without(job, skip, g->at[i], -1, from, to).value,
                      loss_without(job, skip, g->at[i], 0, from, to).se);
    }
}

/* Fits the curve of a group of windows, or of positions (g NULL). Points have no errors if there is
 * only one block. @return : as es_context_fit_points(). */
static es_status fit_without(const es_job *job, int64_t skip, const loss_group *g, curve *x,
                             es_context_fit *out, es_error *err)
{
    const loss_state *s = job->state;
    x->count = 0;
    if (g)
        curve_of_windows(job, skip, g, x);
    else
        curve_of_positions(job, skip, x);
    if (x->count < FEWEST_POINTS)
        return es_fail(err, ES_E_EMPTY, "loss.points", "ask for more windows, or longer blocks",
                       "%lld contexts are too few for a curve of three parameters and its error",
                       (long long)x->count);
    return es_context_fit_points(x->c, x->L, s->text.count - (skip >= 0) > 1 ? x->se : NULL,
                                 x->count, NULL, job->exec.budget, NULL, out, err);
}

/* Sets the errors of A, beta and gamma by the jackknife over B blocks: se^2 = (B - 1)/B times the
 * sum of squared deviations from their mean. Points share their text, so the errors of the fit,
 * which assume independent points, do not hold. @return : false if there are fewer than three
 * blocks, or the law is not determined without one of them. */
static bool jackknife(const es_job *job, const loss_group *g, curve *x, es_context_fit *fit)
{
    const loss_state *s = job->state;
    const int64_t least = g ? loss_late(s) : FIRST_PLACE; /* shorter blocks have no points */
    double sums[3] = {0.0}, squares[3] = {0.0}, se[3], B = 0.0;
    es_error ignored;
    for (int64_t b = 0; b < s->text.count; b++) {
        es_context_fit part;
        if (loss_length(s, b) <= least)
            continue;
        B += 1.0;
        if (s->text.count < 3 || fit_without(job, b, g, x, &part, &ignored) != ES_OK)
            return false;
        const double off[] = {part.A - fit->A, part.beta - fit->beta, part.gamma - fit->gamma};
        for (int i = 0; i < 3; i++) {
            sums[i] += off[i];
            squares[i] += off[i] * off[i];
        }
    }
    if (B < 3.0)
        return false;
    for (int i = 0; i < 3; i++)
        se[i] = sqrt(fmax(0.0, squares[i] - sums[i] * sums[i] / B) * (B - 1.0) / B);
    const double half = se[1] * es_student_quantile(B - 1.0, 0.025);
    fit->A_se = se[0];
    fit->beta_se = se[1];
    fit->gamma_se = se[2];
    fit->beta_low = fit->beta - half;
    fit->beta_high = fit->beta + half;
    return true;
}

/* Copies a fit L(c) = A c^-beta + gamma to its row. */
static void fill_fit(const es_context_fit *f, fit_row *r)
{
    r->beta = (es_measured){f->beta, f->beta_se};
    r->beta_low = f->beta_low;
    r->beta_high = f->beta_high;
    r->gamma = (es_measured){f->gamma, f->gamma_se};
    r->A = (es_measured){f->A, f->A_se};
    r->doubling = f->halving;
}

/* Fills which curve was fitted: loss by position, or by window. */
static void fill_curve(const loss_group *g, int64_t points, es_table *t, fit_row *r)
{
    r->of = g ? "window" : "position";
    r->points = points;
    if (g) {
        r->sinks = g->like->lab.sinks;
        r->scale = es_table_format(t, "%s", g->like->scale);
    }
}

/* Adds the row of one curve. If the losses do not determine the curve, the row has the reason; any
 * other failure is returned. */
static es_status add_law(es_job *job, const loss_group *g, curve *x, es_answer *a, es_error *err)
{
    const loss_state *s = job->state;
    es_table *t = es_answer_table(a, &fits_table);
    es_context_fit fit;
    const es_status status = fit_without(job, -1, g, x, &fit, err);
    fit_row *r = es_rows_add(t, fit_row);
    if (!r)
        return es_answer_status(a, err);
    fill_curve(g, x->count, t, r);
    if (status == ES_OK && jackknife(job, g, x, &fit))
        fill_fit(&fit, r);
    else if (status == ES_OK)
        r->why = s->text.count < 3
                     ? "an error needs three blocks"
                     : "with all blocks it is determined, without one of them it is not";
    else if (status == ES_E_NUMERIC || status == ES_E_EMPTY || status == ES_E_RANGE)
        r->why = es_table_format(t, "%s", err ? err->message : "");
    else
        return status;
    return ES_OK;
}

es_status loss_put_fits(es_job *job, es_answer *answer, es_error *err)
{
    const loss_state *s = job->state;
    curve *x;
    loss_group *g;
    ES_TRY(ES_JOB_NEW(job, x, 1, err));
    ES_TRY(ES_JOB_NEW(job, g, 1, err));
    if (s->longest > 2 * FIRST_PLACE)
        ES_TRY(add_law(job, NULL, x, answer, err));
    for (int64_t k = 1; k < s->count; k++)
        if (loss_find_group(s, k, g) && g->count > 1 && !g->like->rope)
            ES_TRY(add_law(job, g, x, answer, err));
    return ES_OK;
}
