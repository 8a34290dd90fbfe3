/* loss_context.c : what context is worth: loss against window, the window that is enough, and the
 * power law of loss against context (THEORY 8) where the losses determine it.
 *
 * Costs of windows are those of tokens in the second half of their block ("late"): a window of W
 * takes nothing from a token with fewer than W before it, and every window up to half a block takes
 * something from each of these. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/context.h>

#include "base/error.h"
#include "stats/special.h"
#include "study/answer_kit.h"
#include "study/loss_study.h"

/* Settings whose windows are all that they differ in, increasing. */
enum { MOST_WINDOWS = 256 };
typedef struct group {
    int64_t count, at[MOST_WINDOWS]; /* numbers of the settings */
    const loss_setting *like;        /* the first of them */
} group;

/* ---- tables ---- */

static const es_column enough_columns[] = {
    {"sinks", "sinks", "keys", ES_FORMAT_COUNT, "first keys that are seen beside the window"},
    {"scale", "scale", "", ES_FORMAT_TEXT, "factor on scores"},
    {"window", "window", "keys", ES_FORMAT_COUNT,
     "the smallest of the windows from which on all cost less than --enough"},
    {"window_ci.0", "from", "keys", ES_FORMAT_COUNT,
     "the smallest of which, with all that are larger, 95 % intervals of the cost do not exclude "
     "it"},
    {"window_ci.1", "to", "keys", ES_FORMAT_COUNT, "the smallest for which they make it sure"},
    {"cost", "cost", "nats", ES_FORMAT_REAL,
     "of this window, over tokens in the second half of their block", .error = "cost_se"},
    {0}};
static const es_table_spec enough_table = {
    "enough", enough_columns, ES_VIEW("The smallest window that is enough"), .keys = "sinks scale"};

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

/* ---- groups of windows ---- */

/* The group that begins with setting `first`, which must be a window; those that belong to an
 * earlier one are not its first. */
static bool find_group(const loss_state *s, int64_t first, group *out)
{
    const loss_setting *like = &s->settings[first];
    *out = (group){.like = like};
    if (!like->lab.window)
        return false;
    for (int64_t k = 1; k < s->count; k++) {
        const loss_setting *x = &s->settings[k];
        if (!x->lab.window || x->lab.sinks != like->lab.sinks || strcmp(x->scale, like->scale) != 0)
            continue;
        if (k < first)
            return false;
        if (out->count < MOST_WINDOWS)
            out->at[out->count++] = k;
    }
    return true;
}

static loss_mean late_cost(const es_job *job, int64_t setting)
{
    const loss_state *s = job->state;
    return loss_cost(job, setting, s->longest / 2, s->longest);
}

/* ---- what it is worth ---- */

/* "With the first 4 tokens in sight and scores times log, context", or "Context". */
static void say_beginning(const group *g, char out[LOSS_ROOM])
{
    const long long sinks = g->like->lab.sinks;
    if (sinks && g->like->lab.scale)
        snprintf(out, LOSS_ROOM,
                 "With the first %lld tokens in sight and scores times %.40s, context", sinks,
                 g->like->scale);
    else if (sinks)
        snprintf(out, LOSS_ROOM, "With the first %lld token%s in sight, context", sinks,
                 sinks == 1 ? "" : "s");
    else if (g->like->lab.scale)
        snprintf(out, LOSS_ROOM, "With scores times %.40s, context", g->like->scale);
    else
        snprintf(out, LOSS_ROOM, "Context");
}

static void tell_worth(const es_job *job, const group *g, es_answer *a)
{
    const loss_state *s = job->state;
    char list[1536] = "", begin[LOSS_ROOM], cost[ES_SAY_ROOM], window[ES_SAY_ROOM];
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t W = s->settings[g->at[i]].lab.window;
        const loss_mean m = late_cost(job, g->at[i]);
        const size_t used = strlen(list);
        if (2 * W > s->longest || used + 200 > sizeof list)
            continue;
        es_say_number(m.value, m.se, cost);
        es_say_size((double)W, window);
        snprintf(list + used, sizeof list - used,
                 used ? ", beyond %s %s"
                      : "beyond %s tokens is worth %s nats per token to this "
                        "model on this text",
                 window, cost);
    }
    say_beginning(g, begin);
    if (*list)
        es_answer_tell(a,
                       "%s %s (every layer sees so many keys; tokens at places %lld to %lld of "
                       "their blocks).",
                       begin, list, (long long)(s->longest / 2), (long long)s->longest - 1);
}

/* ---- which window is enough ---- */

typedef enum bound { LOW, VALUE, HIGH } bound;

/* Place in the group of the smallest window from which on the bound of every cost is below
 * `enough`; count if there is none. */
static int64_t smallest(const es_job *job, const group *g, bound which, double enough)
{
    int64_t at = g->count;
    for (int64_t i = g->count - 1; i >= 0; i--) {
        const loss_mean m = late_cost(job, g->at[i]);
        const double x = which == LOW ? m.low : which == HIGH ? m.high : m.value;
        if (!(x < enough))
            break;
        at = i;
    }
    return at;
}

static int64_t window_at(const loss_state *s, const group *g, int64_t i)
{
    return s->settings[g->at[i]].lab.window;
}

static void say_confidence(const es_job *job, const group *g, double enough, char out[LOSS_ROOM])
{
    const loss_state *s = job->state;
    const int64_t low = smallest(job, g, LOW, enough), high = smallest(job, g, HIGH, enough);
    out[0] = '\0';
    if (s->text.count < 2 || low == g->count)
        return;
    if (high == g->count)
        snprintf(out, LOSS_ROOM, "; with 95 %% confidence it is %lld or more",
                 (long long)window_at(s, g, low));
    else if (low == high)
        snprintf(out, LOSS_ROOM, ", with 95 %% confidence");
    else
        snprintf(out, LOSS_ROOM, "; with 95 %% confidence it is one from %lld to %lld",
                 (long long)window_at(s, g, low), (long long)window_at(s, g, high));
}

static void put_enough(const es_job *job, const group *g, es_table *t, es_answer *a)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const int64_t at = smallest(job, g, VALUE, p->enough);
    const int64_t low = smallest(job, g, LOW, p->enough), high = smallest(job, g, HIGH, p->enough);
    const int64_t row = es_table_row(t);
    char cost[ES_SAY_ROOM], sure[LOSS_ROOM], sinks[ES_SAY_ROOM] = "";
    es_table_count(t, row, "sinks", g->like->lab.sinks);
    es_table_text(t, row, "scale", g->like->scale);
    if (low < g->count)
        es_table_count(t, row, "window_ci.0", window_at(s, g, low));
    if (high < g->count)
        es_table_count(t, row, "window_ci.1", window_at(s, g, high));
    if (g->like->lab.sinks)
        snprintf(sinks, sizeof sinks, " with %lld sinks", (long long)g->like->lab.sinks);
    if (at == g->count) {
        es_answer_tell(a, "None of these windows%s costs less than %g nats per token.", sinks,
                       p->enough);
        return;
    }
    const loss_mean m = late_cost(job, g->at[at]);
    es_table_count(t, row, "window", window_at(s, g, at));
    es_put(t, row, {"cost", m.value}, {"cost_se", m.se});
    say_confidence(job, g, p->enough, sure);
    es_answer_tell(a,
                   "The smallest of these windows%s that costs less than %g nats per token is %lld "
                   "(%s)%s.",
                   sinks, p->enough, (long long)window_at(s, g, at),
                   es_say_number(m.value, m.se, cost), sure);
}

es_status loss_put_context(es_job *job, es_answer *answer, es_error *err)
{
    const loss_state *s = job->state;
    group *g;
    ES_TRY(es_job_array(job, 1, 1, sizeof *g, &g, err));
    for (int64_t k = 1; k < s->count; k++)
        if (find_group(s, k, g)) {
            tell_worth(job, g, answer);
            if (g->count > 1)
                put_enough(job, g, es_answer_table(answer, &enough_table), answer);
        }
    return ES_OK;
}

/* ---- the power law ---- */

enum { POINTS = MOST_WINDOWS, FIRST_PLACE = 16, FEWEST_POINTS = 5 };

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
static void curve_of_windows(const es_job *job, int64_t skip, const group *g, curve *out)
{
    const loss_state *s = job->state;
    const int64_t from = s->longest / 2, to = s->longest;
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t W = window_at(s, g, i);
        if (2 * W <= s->longest)
            add_point(out, (double)W, loss_without(job, skip, g->at[i], -1, from, to).value,
                      loss_without(job, skip, g->at[i], 0, from, to).se);
    }
}

/* The curve of a group of windows, or of positions (g NULL). Its points have no errors where there
 * is one block. @return : as es_context_fit_points(). */
static es_status fit_without(const es_job *job, int64_t skip, const group *g, curve *x,
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
static bool jackknife(const es_job *job, const group *g, curve *x, es_context_fit *fit)
{
    const loss_state *s = job->state;
    const int64_t least = g ? s->longest / 2 : FIRST_PLACE; /* ids of a block that has a say */
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

/* "the window with 4 sinks, scores times log" */
static void say_group(const group *g, char out[LOSS_ROOM])
{
    const long long sinks = g->like->lab.sinks;
    snprintf(out, LOSS_ROOM, "the window");
    if (sinks)
        snprintf(out + strlen(out), LOSS_ROOM - strlen(out), " with %lld sink%s", sinks,
                 sinks == 1 ? "" : "s");
    if (g->like->lab.scale)
        snprintf(out + strlen(out), LOSS_ROOM - strlen(out), ", scores times %.40s",
                 g->like->scale);
}

static void put_fit(const es_context_fit *f, es_table *t, int64_t row)
{
    es_put(t, row, {"beta", f->beta}, {"beta_se", f->beta_se}, {"beta_ci.0", f->beta_low},
           {"beta_ci.1", f->beta_high}, {"gamma", f->gamma}, {"gamma_se", f->gamma_se}, {"A", f->A},
           {"A_se", f->A_se}, {"doubling", f->halving});
}

static void tell_fit(const es_context_fit *f, const char *of, es_answer *a)
{
    char beta[ES_SAY_ROOM], gamma[ES_SAY_ROOM];
    es_answer_tell(
        a,
        "Against %s the loss falls like L(c) = A c^-beta + gamma with beta = %s and gamma "
        "= %s: doubling the context leaves %.3g %% of the excess over gamma.",
        of, es_say_number(f->beta, f->beta_se, beta), es_say_number(f->gamma, f->gamma_se, gamma),
        100.0 * f->halving);
}

/* Columns that say what a row is about, and the same in words. */
static int64_t put_curve(const group *g, int64_t points, es_table *t, char what[LOSS_ROOM])
{
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "of", g ? "window" : "position");
    es_table_count(t, row, "points", points);
    snprintf(what, LOSS_ROOM, "the position");
    if (!g)
        return row;
    es_table_count(t, row, "sinks", g->like->lab.sinks);
    es_table_text(t, row, "scale", g->like->scale);
    say_group(g, what);
    return row;
}

/* A curve that the losses do not determine is said to be that, with the reason; anything else that
 * goes wrong is wrong. */
static es_status put_law(es_job *job, const group *g, curve *x, es_answer *a, es_error *err)
{
    es_table *t = es_answer_table(a, &fits_table);
    es_context_fit fit;
    char what[LOSS_ROOM];
    const es_status status = fit_without(job, -1, g, x, &fit, err);
    const int64_t row = put_curve(g, x->count, t, what);
    const char *why = err ? err->message : "";
    if (status == ES_OK && jackknife(job, g, x, &fit)) {
        put_fit(&fit, t, row);
        tell_fit(&fit, what, a);
        return ES_OK;
    }
    if (status == ES_OK)
        why = ((const loss_state *)job->state)->text.count < 3
                  ? "it takes three blocks to tell its error"
                  : "with all blocks it is determined, without one of them it is not";
    else if (status != ES_E_NUMERIC && status != ES_E_EMPTY && status != ES_E_RANGE)
        return status;
    es_table_text(t, row, "why", why);
    es_answer_tell(a, "No power law of loss against %s: %s.", what, why);
    return ES_OK;
}

es_status loss_put_fits(es_job *job, es_answer *answer, es_error *err)
{
    const loss_state *s = job->state;
    curve *x;
    group *g;
    ES_TRY(es_job_array(job, 1, 1, sizeof *x, &x, err));
    ES_TRY(es_job_array(job, 1, 1, sizeof *g, &g, err));
    if (s->longest > 2 * FIRST_PLACE)
        ES_TRY(put_law(job, NULL, x, answer, err));
    for (int64_t k = 1; k < s->count; k++)
        if (find_group(s, k, g) && g->count > 1)
            ES_TRY(put_law(job, g, x, answer, err));
    return ES_OK;
}
