/* SPDX-License-Identifier: Apache-2.0 */
/* stretch.c : table "stretch" and the sentences about it: which setting predicts best beyond the
 * context that the model was trained on.
 *
 * Settings are compared on the same tokens, block by block, by Student's t. The best one is chosen
 * from the same blocks, so p-values are corrected by Holm for all pairs of settings, not only for
 * those with the best: findings about the best then hold for any choice of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/loss/loss.h"
#include "stats/multiple.h"
#include "stats/special.h"

/* ---- table ---- */

/* A setting within and beyond the trained context. */
typedef struct stretch_row {
    const char *setting, *rope, *scale;
    es_measured within, within_cost, nll;
    double nll_low, nll_high;
    es_measured cost;
    double cost_low, cost_high;
    es_measured over;
    double p;
    const char *verdict;
} stretch_row;

static const es_column stretch_columns[] = {
    ES_COL(stretch_row, setting, ES_FORMAT_TEXT, "setting", "",
           "what is changed in the model; full: nothing"),
    ES_COL(stretch_row, rope, ES_FORMAT_TEXT, "rope", "", "how rotary positions are stretched"),
    ES_COL(stretch_row, scale, ES_FORMAT_TEXT, "scale", "", "factor on scores"),
    ES_COL(stretch_row, within, ES_FORMAT_REAL, "loss within", "nats",
           "per token at places within the trained context; mean, error over blocks"),
    ES_COL(stretch_row, within_cost, ES_FORMAT_REAL, "cost within", "nats",
           "the same less that of the model as it is, on the same tokens"),
    ES_COL(
        stretch_row, nll, ES_FORMAT_REAL, "loss beyond", "nats",
        "per token at places beyond the trained context, or at all places if no block is longer; "
        "mean, error over blocks"),
    ES_COL_KEY(stretch_row, nll_low, "nll_ci.0", ES_FORMAT_REAL, "loss from", "nats",
               "95 % interval, Student's t over blocks"),
    ES_COL_KEY(stretch_row, nll_high, "nll_ci.1", ES_FORMAT_REAL, "loss to", "nats"),
    ES_COL(stretch_row, cost, ES_FORMAT_REAL, "cost beyond", "nats",
           "the same less that of the model as it is, on the same tokens"),
    ES_COL_KEY(stretch_row, cost_low, "cost_ci.0", ES_FORMAT_REAL, "cost from", "nats",
               "95 % interval, Student's t over blocks"),
    ES_COL_KEY(stretch_row, cost_high, "cost_ci.1", ES_FORMAT_REAL, "cost to", "nats"),
    ES_COL(stretch_row, over, ES_FORMAT_REAL, "over best", "nats",
           "loss beyond less that of the best setting, on the same tokens; error over blocks"),
    ES_COL(stretch_row, p, ES_FORMAT_SHORT, "p", "",
           "p-value of no difference from the best setting, Student's t over blocks; corrected by "
           "Holm for all pairs of settings"),
    ES_COL(stretch_row, verdict, ES_FORMAT_TEXT, "verdict", "",
           "best: the lowest loss beyond; worse: p is at most 0.05; may be as good: it is not"),
    {0}};
static const es_table_view stretch_views[] = {
    {"Stretching: loss within and beyond the trained context",
     "setting nll cost p verdict over within_cost within"},
    {"Intervals of the loss beyond", "setting nll nll_ci.0 nll_ci.1 cost cost_ci.0 cost_ci.1",
     .only_with_full = true},
    {0}};
static const es_table_spec stretch_table = {"stretch", stretch_columns, stretch_views,
                                            ES_ROW(stretch_row), .keys = "setting"};

/* ---- comparison ---- */

/* Places that are compared, and what was found there. */
typedef struct comparison {
    int64_t from, to; /* places */
    int64_t best;     /* setting */
    double *p;        /* (count (count - 1) / 2) of pairs a < b, after Holm */
} comparison;

/* Returns the number of a pair of settings a != b. */
static int64_t pair_of(int64_t a, int64_t b)
{
    const int64_t low = a < b ? a : b, high = a < b ? b : a;
    return high * (high - 1) / 2 + low;
}

/* Returns the two-sided p-value of a difference; NaN of one block, which has no error. */
static double p_of(const es_block_mean *m)
{
    if (m->blocks < 2 || isnan(m->se))
        return (double)NAN;
    if (!(m->se > 0.0))
        return m->value == 0.0 ? 1.0 : 0.0;
    return fmin(1.0, 2.0 * es_student_tail((double)m->blocks - 1.0, fabs(m->value) / m->se));
}

/* Finds the setting of lowest loss at the places of *out and compares all pairs. */
static es_status compare(es_job *job, comparison *out, es_error *err)
{
    const loss_state *s = job->state;
    double least = INFINITY;
    ES_TRY(ES_JOB_NEW(job, out->p, s->count * (s->count - 1) / 2 + 1, err));
    for (int64_t k = 0; k < s->count; k++) {
        const double loss = loss_over(job, k, out->from, out->to).value;
        if (loss < least) {
            least = loss;
            out->best = k;
        }
        for (int64_t j = 0; j < k; j++) {
            const es_block_mean m = loss_without(job, -1, k, j, out->from, out->to);
            out->p[pair_of(j, k)] = p_of(&m);
        }
    }
    return es_holm(out->p, s->count * (s->count - 1) / 2, out->p, err);
}

/* Returns a mean over blocks with its standard error. */
static es_measured measured(const es_block_mean *m) { return (es_measured){m->value, m->se}; }

/* Fills what a setting does within the trained context, if blocks go beyond it. */
static void fill_within(const es_job *job, int64_t k, int64_t end, stretch_row *r)
{
    const es_block_mean m = loss_over(job, k, 1, end), cost = loss_cost(job, k, 1, end);
    r->within = measured(&m);
    if (k)
        r->within_cost = measured(&cost);
}

/* Adds the row of one setting. */
static void add_row(const es_job *job, const comparison *c, int64_t k, es_table *t)
{
    const loss_state *s = job->state;
    const es_block_mean m = loss_over(job, k, c->from, c->to),
                        cost = loss_cost(job, k, c->from, c->to),
                        over = loss_without(job, -1, k, c->best, c->from, c->to);
    stretch_row *r = es_rows_add(t, stretch_row);
    if (!r)
        return;
    r->setting = es_table_format(t, "%s", s->settings[k].name);
    r->rope = es_table_format(t, "%s", s->settings[k].rope ? s->settings[k].rope : "none");
    r->scale = es_table_format(t, "%s", s->settings[k].scale);
    if (c->from > 1)
        fill_within(job, k, c->from, r);
    r->nll = measured(&m);
    r->nll_low = m.low;
    r->nll_high = m.high;
    if (k) {
        r->cost = measured(&cost);
        r->cost_low = cost.low;
        r->cost_high = cost.high;
    }
    if (k == c->best) {
        r->verdict = "best";
        return;
    }
    r->over = measured(&over);
    r->p = c->p[pair_of(k, c->best)];
    if (!isnan(r->p))
        r->verdict = r->p <= 0.05 ? "worse" : "may be as good";
}

/* ---- sentences ---- */

/* Writes "beyond 2048 tokens", or "in blocks of 1024 tokens" if none is longer than the trained
 * context. */
static const char *say_places(const comparison *c, char out[ES_SAY_SIZE])
{
    if (c->from > 1)
        snprintf(out, ES_SAY_SIZE, "beyond %lld tokens", (long long)c->from);
    else
        snprintf(out, ES_SAY_SIZE, "in blocks of %lld tokens", (long long)c->to);
    return out;
}

/* Returns what to call a setting in a sentence. */
static const char *say_setting(const loss_state *s, int64_t k)
{
    return k ? s->settings[k].name : "the model as it is";
}

enum { LIST_SIZE = 1024, LISTED = 3 };

/* With fewer blocks Holm's correction for many pairs decides little. */
enum { FEW_BLOCKS = 8 };

/* Writes which settings may be as good as the best, if there are errors to judge by; where few
 * blocks decide nothing between many settings, only this. */
static void say_rivals(const loss_state *s, const comparison *c, const stretch_row *rows,
                       char out[LIST_SIZE])
{
    int64_t rivals = 0, judged = 0;
    *out = '\0';
    for (int64_t k = 0; k < s->count; k++) {
        const size_t used = strlen(out);
        if (k == c->best || isnan(c->p[pair_of(k, c->best)]))
            continue;
        judged++;
        if (strcmp(rows[k].verdict, "worse") != 0 && ++rivals <= LISTED)
            snprintf(out + used, LIST_SIZE - used, "%s%s",
                     rivals > 1 ? "; " : " Settings that may be as good: ", say_setting(s, k));
    }
    const size_t used = strlen(out);
    if (rivals > LISTED && rivals == judged && s->text.count < FEW_BLOCKS)
        snprintf(out, LIST_SIZE, " These are too few blocks to decide between %lld settings.",
                 (long long)s->count);
    else if (rivals > LISTED)
        snprintf(out + used, LIST_SIZE - used, " and %lld more.", (long long)(rivals - LISTED));
    else if (rivals)
        snprintf(out + used, LIST_SIZE - used, ".");
    else if (judged)
        snprintf(out, LIST_SIZE, " %s worse (95 %% confidence, Holm).",
                 judged == 1 ? "The other setting is" : "All other settings are");
}

/* Says which setting is best, and which others may be. */
static void report_best(const loss_state *s, const comparison *c, const stretch_row *rows,
                        es_answer *a)
{
    char loss[ES_SAY_SIZE], base[ES_SAY_SIZE], places[ES_SAY_SIZE], rivals[LIST_SIZE];
    const stretch_row *best = &rows[c->best], *full = &rows[0];
    es_say_number(best->nll.value, best->nll.se, loss);
    es_say_number(full->nll.value, full->nll.se, base);
    say_places(c, places);
    say_rivals(s, c, rows, rivals);
    const long long blocks = s->text.count;
    if (c->best)
        es_answer_add_finding(
            a, "%s is best %s: %s nats per token; the model as it is has %s (%lld block%s).%s",
            best->setting, places, loss, base, blocks, blocks == 1 ? "" : "s", rivals);
    else
        es_answer_add_finding(
            a,
            "No setting is better %s than the model as it is: %s nats per token (%lld block%s).%s",
            places, loss, blocks, blocks == 1 ? "" : "s", rivals);
}

/* Returns whether a difference is 0 in every block. */
static bool no_effect(const es_block_mean *m) { return m->value == 0.0 && !(m->se > 0.0); }

/* Says what the best setting does within the trained context. A stretching that helps there, too,
 * shows that the model was trained on shorter texts than was stated. */
static void report_within(const es_job *job, const comparison *c, const stretch_row *rows,
                          es_answer *a)
{
    const stretch_row *best = &rows[c->best];
    char cost[ES_SAY_SIZE];
    if (!c->best || c->from < 2)
        return;
    const es_block_mean m = loss_cost(job, c->best, 1, c->from);
    const char *more = m.high < 0.0 ? ": the model was trained on less than that (--reference)"
                       : m.low <= 0.0 && m.high >= 0.0 ? ", which may be chance"
                                                       : "";
    if (no_effect(&m))
        es_answer_add_finding(a, "Within %lld tokens %s has no effect.", (long long)c->from,
                              best->setting);
    else
        es_answer_add_finding(a, "Within %lld tokens %s %s the loss by %s nats per token%s.",
                              (long long)c->from, best->setting,
                              m.value < 0.0 ? "lowers" : "raises",
                              es_say_number(fabs(m.value), m.se, cost), more);
}

/* Returns the setting with the keys and stretching of `like`: the one of lowest loss among those
 * with scaled scores, or the one whose scores are not; -1: none was run. */
static int64_t find_scale(const loss_state *s, const stretch_row *rows, int64_t like, bool scaled)
{
    const loss_setting *x = &s->settings[like];
    int64_t found = -1;
    for (int64_t k = 0; k < s->count; k++) {
        const loss_setting *y = &s->settings[k];
        if ((y->lab.scale != ES_SCALE_NONE) == scaled && x->rope == y->rope &&
            x->lab.window == y->lab.window && x->lab.sinks == y->lab.sinks &&
            (found < 0 || rows[k].nll.value < rows[found].nll.value))
            found = k;
    }
    return found;
}

/* Says what the best score scale changes at the best stretching. */
static void report_scale(const es_job *job, const comparison *c, const stretch_row *rows,
                         es_answer *a)
{
    const loss_state *s = job->state;
    const int64_t with = find_scale(s, rows, c->best, true),
                  without = find_scale(s, rows, c->best, false);
    char change[ES_SAY_SIZE], places[ES_SAY_SIZE];
    if (with < 0 || without < 0)
        return;
    const es_block_mean m = loss_without(job, -1, with, without, c->from, c->to);
    const double p = c->p[pair_of(with, without)];
    const char *rope = s->settings[with].rope ? s->settings[with].rope : "no stretching";
    say_places(c, places);
    if (no_effect(&m))
        es_answer_add_finding(a, "With %s, score scale %s has no effect %s.", rope,
                              s->settings[with].scale, places);
    else
        es_answer_add_finding(a, "With %s, score scale %s %s the loss %s by %s nats per token%s.",
                              rope, s->settings[with].scale, m.value > 0.0 ? "raises" : "lowers",
                              places, es_say_number(fabs(m.value), m.se, change),
                              p > 0.05 ? ", which may be chance" : "");
}

/* ---- all together ---- */

es_status loss_put_stretch(es_job *job, es_answer *answer, es_error *err)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    if (!p->rope)
        return ES_OK;
    const bool beyond = s->trained < (double)s->longest;
    comparison c = {.from = beyond ? (int64_t)s->trained : 1, .to = s->longest};
    ES_TRY(compare(job, &c, err));
    es_table *t = es_answer_table(answer, &stretch_table);
    for (int64_t k = 0; k < s->count; k++)
        add_row(job, &c, k, t);
    ES_TRY(es_answer_status(answer, err));
    const stretch_row *rows = es_rows(t, stretch_row);
    es_answer_count(answer, "trained", (int64_t)s->trained);
    es_answer_text(answer, "best", s->settings[c.best].name);
    if (s->count < 2)
        return ES_OK;
    report_best(s, &c, rows, answer);
    report_within(job, &c, rows, answer);
    report_scale(job, &c, rows, answer);
    return ES_OK;
}
