/* fits.c : the power law of loss against context (THEORY 8), by position and by window, where
 * the losses determine it. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/loss/question.h"
#include "stats/context.h"
#include "stats/special.h"

/* ---- table ---- */

static const es_column fit_columns[] = {
    {"of", "loss against", "", ES_FORMAT_TEXT,
     "position: loss by place in the block, octaves from 16 on, centres geometric. window: loss of "
     "tokens in the second half of their block by window, weighed by the error of the difference "
     "to the model as it is"},
    {"sinks", "sinks", "keys", ES_FORMAT_COUNT},
    {"scale", "scale", "", ES_FORMAT_TEXT},
    {"points", "points", "", ES_FORMAT_COUNT},
    {"beta", "beta", "", ES_FORMAT_REAL,
     "exponent of L(c) = A c^-beta + gamma; errors by leaving blocks out in turn",
     .error = "beta_se"},
    {"beta_ci.0", "beta from", "", ES_FORMAT_REAL, "95 % interval, Student's t over blocks"},
    {"beta_ci.1", "beta to", "", ES_FORMAT_REAL},
    {"gamma", "gamma", "nats", ES_FORMAT_REAL, "loss that no context removes", .error = "gamma_se"},
    {"A", "A", "", ES_FORMAT_REAL, "alpha^beta", .error = "A_se"},
    {"doubling", "doubling", "", ES_FORMAT_REAL,
     "2^-beta: the part of the excess L - gamma that is left when the context doubles"},
    {"why", "why not", "", ES_FORMAT_TEXT, "what keeps the curve from being determined"},
    {0}};
static const es_table_spec fits_table = {
    "fits", fit_columns,
    ES_VIEW("Power law of loss against context", "of sinks scale points beta gamma why A doubling"),
    .keys = "of sinks scale"};

/* ---- the power law ---- */

enum { POINTS = LOSS_WINDOWS, FIRST_PLACE = 16, FEWEST_POINTS = 5 };

typedef struct curve {
    double c[POINTS], L[POINTS], se[POINTS];
    int64_t count;
} curve;

static void add_point(curve *x, double c, double L, double se)
{
    if (x->count == POINTS)
        return;
    x->c[x->count] = c;
    x->L[x->count] = L;
    x->se[x->count++] = se;
}

/* By place in the block, without block `skip`. Octaves are narrow enough: the mean of c^-1/2 over
 * one is its value at the centre to 2 %. */
static void curve_of_positions(const es_job *job, int64_t skip, curve *out)
{
    const loss_state *s = job->state;
    for (int64_t from = FIRST_PLACE; from < s->longest; from *= 2) {
        const int64_t to = 2 * from < s->longest ? 2 * from : s->longest;
        const loss_mean m = loss_without(job, skip, s->asked, -1, from, to);
        if (2 * (to - from) > from && m.tokens) /* half an octave, or the centre is none */
            add_point(out, sqrt((double)from * (double)to), m.value, m.se);
    }
}

/* The text is as hard in every window: what is uncertain of the curve is the difference. */
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

/* The curve of a group of windows, or of positions (g NULL). Its points have no errors where there
 * is one block. @return : as es_context_fit_points(). */
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

/* Points share their text, so that their errors are not those of independent numbers: blocks are
 * left out in turn, and what that does to A, beta and gamma are their errors, (B - 1)/B times the
 * sum of squares. @return : false if there are fewer than three blocks, or the law is not
 * determined without one of them: then it hangs on that block. */
static bool jackknife(const es_job *job, const loss_group *g, curve *x, es_context_fit *fit)
{
    const loss_state *s = job->state;
    const int64_t least = g ? loss_late(s) : FIRST_PLACE; /* ids of a block that has a say */
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

static void put_fit(const es_context_fit *f, es_table *t, int64_t row)
{
    es_put(t, row, {"beta", f->beta}, {"beta_se", f->beta_se}, {"beta_ci.0", f->beta_low},
           {"beta_ci.1", f->beta_high}, {"gamma", f->gamma}, {"gamma_se", f->gamma_se}, {"A", f->A},
           {"A_se", f->A_se}, {"doubling", f->halving});
}

static int64_t put_curve(const loss_group *g, int64_t points, es_table *t)
{
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "of", g ? "window" : "position");
    es_table_count(t, row, "points", points);
    if (g) {
        es_table_count(t, row, "sinks", g->like->lab.sinks);
        es_table_text(t, row, "scale", g->like->scale);
    }
    return row;
}

/* A curve that the losses do not determine is a row with the reason; anything else that goes wrong
 * is wrong. */
static es_status put_law(es_job *job, const loss_group *g, curve *x, es_answer *a, es_error *err)
{
    es_table *t = es_answer_table(a, &fits_table);
    es_context_fit fit;
    const es_status status = fit_without(job, -1, g, x, &fit, err);
    const int64_t row = put_curve(g, x->count, t);
    const char *why = err ? err->message : "";
    if (status == ES_OK && jackknife(job, g, x, &fit)) {
        put_fit(&fit, t, row);
        return ES_OK;
    }
    if (status == ES_OK)
        why = ((const loss_state *)job->state)->text.count < 3
                  ? "it takes three blocks to tell its error"
                  : "with all blocks it is determined, without one of them it is not";
    else if (status != ES_E_NUMERIC && status != ES_E_EMPTY && status != ES_E_RANGE)
        return status;
    es_table_text(t, row, "why", why);
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
        ES_TRY(put_law(job, NULL, x, answer, err));
    for (int64_t k = 1; k < s->count; k++)
        if (loss_find_group(s, k, g) && g->count > 1)
            ES_TRY(put_law(job, g, x, answer, err));
    return ES_OK;
}
