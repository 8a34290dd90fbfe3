/* SPDX-License-Identifier: Apache-2.0 */
/* windows.c : tables "windows" and "enough": what the context beyond a window is worth, and which
 * windows are enough.
 *
 * A window without the first keys takes two things from a model: context, and the sinks that many
 * heads rely on. The cost with the first keys kept is that of the lost context; the rest of the
 * cost without them is that of the lost sinks. Costs are means over late tokens, in the second half
 * of their block: a window of W takes nothing from a token with fewer than W tokens before it.
 *
 * Windows with scaled scores or stretched positions are left out: their cost includes that of the
 * change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/loss/loss.h"
#include "table/table.h"

/* ---- tables ---- */

/* At a tolerance of --enough. */
typedef enum window_verdict { UNKNOWN, MORE, ENOUGH, NOT_EXCLUDED, TOO_SHORT } window_verdict;

/* A row of the table of windows: what a window costs, with and without the first tokens. */
typedef struct window_row {
    int64_t window, sinks;
    es_measured cost;
    double cost_low, cost_high;
    es_measured sink, bare, fresh;
    const char *verdict;
    /* For sentences; no columns. */
    window_verdict kind;
    bool covers_late; /* the window takes something from every late token */
    es_block_mean
        sink_mean; /* `sink` with its interval; blocks 0: the window ran with no sinks only */
} window_row;

static const es_column window_columns[] = {
    ES_COL(window_row, window, ES_FORMAT_COUNT, "window", "keys",
           "the last keys that a query sees"),
    ES_COL(window_row, sinks, ES_FORMAT_COUNT, "first", "keys",
           "the first keys of the block, which the query sees too"),
    ES_COL(window_row, cost, ES_FORMAT_REAL, "context", "nats",
           "cost of the window with the first keys kept: what the context beyond it is worth. "
           "Tokens in the second half of their block, less the full model; error over blocks"),
    ES_COL_KEY(window_row, cost_low, "cost_ci.0", ES_FORMAT_REAL, "context from", "nats",
               "95 % interval, Student's t over blocks"),
    ES_COL_KEY(window_row, cost_high, "cost_ci.1", ES_FORMAT_REAL, "context to", "nats"),
    ES_COL(window_row, sink, ES_FORMAT_REAL, "sink", "nats",
           "what the first keys are worth beside the window: cost without them less cost with "
           "them"),
    ES_COL(window_row, bare, ES_FORMAT_REAL, "both", "nats",
           "cost of the window without the first keys"),
    ES_COL(window_row, fresh, ES_FORMAT_REAL, "fresh text", "nats",
           "cost of reading only the last W to `2 W - 1` tokens, as a text of its own"),
    ES_COL(window_row, verdict, ES_FORMAT_TEXT, "verdict", "",
           "costs more: more than --enough, with 95 % confidence; enough: less, with 95 % "
           "confidence; not excluded: neither is shown; block too short: shorter than two windows"),
    {0}};
static const es_table_view window_views[] = {
    {"What the context beyond a window is worth", "window sinks cost sink bare fresh verdict"},
    {"Intervals of the cost", "window sinks cost cost_ci.0 cost_ci.1", .only_with_full = true},
    {0}};
static const es_table_spec windows_table = {"windows", window_columns, window_views,
                                            ES_ROW(window_row), .keys = "window sinks"};

/* A row of the table of smallest windows that are enough. */
typedef struct enough_row {
    int64_t sinks;
    const char *scale;
    int64_t window, window_low, window_high;
    es_measured cost;
} enough_row;

static const es_column enough_columns[] = {
    ES_COL(enough_row, sinks, ES_FORMAT_COUNT, "sinks", "keys",
           "first keys that are seen beside the window"),
    ES_COL(enough_row, scale, ES_FORMAT_TEXT, "scale", "", "factor on scores: none"),
    ES_COL(enough_row, window, ES_FORMAT_COUNT, "window", "keys",
           "the smallest window that, with all larger ones up to half a block, costs less than "
           "--enough"),
    ES_COL_KEY(enough_row, window_low, "window_ci.0", ES_FORMAT_COUNT, "not excluded from", "keys",
               "the smallest that, with all larger ones, is not shown to cost more: 95 % "
               "intervals"),
    ES_COL_KEY(enough_row, window_high, "window_ci.1", ES_FORMAT_COUNT, "enough from", "keys",
               "the smallest that, with all larger ones, is shown to cost less"),
    ES_COL(enough_row, cost, ES_FORMAT_REAL, "cost", "nats",
           "of this window, over tokens in the second half of their block"),
    {0}};
static const es_table_spec enough_table = {
    "enough", enough_columns,
    ES_VIEW("Windows that are not excluded", "sinks scale window_ci.0 window_ci.1 window cost",
            .only_with_full = true),
    ES_ROW(enough_row), .keys = "sinks scale"};

/* ---- groups of windows ---- */

bool loss_find_group(const loss_state *s, int64_t first, loss_group *out)
{
    const loss_setting *like = &s->settings[first];
    *out = (loss_group){.like = like};
    if (!like->lab.window)
        return false;
    for (int64_t k = 1; k < s->count; k++) {
        const loss_setting *x = &s->settings[k];
        if (!x->lab.window || x->lab.sinks != like->lab.sinks ||
            strcmp(x->scale, like->scale) != 0 || x->rope != like->rope)
            continue;
        if (k < first)
            return false;
        if (out->count < LOSS_WINDOWS)
            out->at[out->count++] = k;
    }
    return true;
}

int64_t loss_window_at(const loss_state *s, const loss_group *g, int64_t i)
{
    return s->settings[g->at[i]].lab.window;
}

/* Returns the setting that is like `like` but without sinks; -1 if there is none. */
static int64_t without_sinks(const loss_state *s, const loss_setting *like)
{
    for (int64_t k = 1; k < s->count; k++) {
        const loss_setting *x = &s->settings[k];
        if (x->lab.window == like->lab.window && !x->lab.sinks &&
            strcmp(x->scale, like->scale) == 0 && x->rope == like->rope)
            return k;
    }
    return -1;
}

/* Returns the number of the fresh texts of a window; -1 if there are none. */
static int64_t fresh_of(const loss_state *s, int64_t window)
{
    for (int64_t i = 0; i < s->n_fresh; i++)
        if (s->fresh[i] == window)
            return i;
    return -1;
}

/* Returns whether the window takes something from every late token. */
static bool covers_late(const loss_state *s, int64_t window) { return window <= loss_late(s); }

/* ---- what a window costs ---- */

/* Returns a mean over blocks with its standard error. */
static es_measured measured(const es_block_mean *m) { return (es_measured){m->value, m->se}; }

/* Returns whether a window is enough, by the interval of its cost against --enough. */
static window_verdict judge(const loss_params *p, bool covers, const es_block_mean *cost)
{
    if (!covers)
        return TOO_SHORT;
    if (cost->blocks < 2)
        return UNKNOWN;
    return cost->low > p->enough ? MORE : cost->high < p->enough ? ENOUGH : NOT_EXCLUDED;
}

/* Fills what the first keys are worth beside the window, if it also ran without them. */
static void fill_sink(const es_job *job, int64_t setting, window_row *r)
{
    const loss_state *s = job->state;
    const int64_t bare = without_sinks(s, &s->settings[setting]);
    if (bare < 0 || bare == setting)
        return;
    const es_block_mean both = loss_less(job, bare, 0);
    r->sink_mean = loss_less(job, bare, setting);
    r->bare = measured(&both);
    r->sink = measured(&r->sink_mean);
}

/* Adds the row of one window. */
static void add_window(const es_job *job, int64_t setting, const es_block_mean *cost, es_table *t)
{
    static const char *const words[] = {NULL, "costs more", "enough", "not excluded",
                                        "block too short"};
    const loss_state *s = job->state;
    const es_loss_setting *x = &s->settings[setting].lab;
    const int64_t fresh = fresh_of(s, x->window);
    window_row *r = es_rows_add(t, window_row);
    if (!r)
        return;
    r->window = x->window;
    r->sinks = x->sinks;
    r->cost = measured(cost);
    r->cost_low = cost->low;
    r->cost_high = cost->high;
    fill_sink(job, setting, r);
    if (fresh >= 0) {
        const es_block_mean f = loss_fresh_cost(job, fresh);
        r->fresh = measured(&f);
    }
    r->covers_late = covers_late(s, x->window);
    r->kind = judge(job->params, r->covers_late, cost);
    r->verdict = words[r->kind];
}

/* ---- which windows are enough ---- */

typedef enum bound { LOW, VALUE, HIGH } bound;

/* Returns the place in the group of the smallest window such that the bound of its cost and those
 * of all larger windows are below --enough; count if there is none. Windows above half a block are
 * skipped: not every late token loses something to them. */
static int64_t smallest(const es_job *job, const loss_group *g, const es_block_mean *costs,
                        bound which)
{
    const loss_params *p = job->params;
    int64_t at = g->count;
    for (int64_t i = g->count - 1; i >= 0; i--) {
        const es_block_mean *m = &costs[i];
        const double x = which == LOW ? m->low : which == HIGH ? m->high : m->value;
        if (!covers_late(job->state, loss_window_at(job->state, g, i)))
            continue;
        if (!(x < p->enough))
            break;
        at = i;
    }
    return at;
}

/* Adds the smallest window that is enough, with the interval that follows from the interval of
 * costs. */
static void add_enough(const es_job *job, const loss_group *g, const es_block_mean *costs,
                       es_table *t)
{
    const loss_state *s = job->state;
    const int64_t at = smallest(job, g, costs, VALUE), low = smallest(job, g, costs, LOW),
                  high = smallest(job, g, costs, HIGH);
    enough_row *r = es_rows_add(t, enough_row);
    if (!r)
        return;
    r->sinks = g->like->lab.sinks;
    r->scale = es_table_format(t, "%s", g->like->scale);
    if (low < g->count)
        r->window_low = loss_window_at(s, g, low);
    if (high < g->count)
        r->window_high = loss_window_at(s, g, high);
    if (at == g->count)
        return;
    r->window = loss_window_at(s, g, at);
    r->cost = measured(&costs[at]);
}

/* ---- sentences ---- */

enum { LIST_SIZE = 1024 };

/* Writes "With the first 4 tokens kept, context", or "Context". */
static void say_beginning(int64_t sinks, char out[LOSS_SIZE])
{
    if (sinks)
        snprintf(out, LOSS_SIZE, "With the first %lld token%s kept, context", (long long)sinks,
                 sinks == 1 ? "" : "s");
    else
        snprintf(out, LOSS_SIZE, "Context");
}

/* Returns whether the window is shown to cost less without the first keys. Then the context beyond
 * it is worth no more than that lower cost. */
static bool keeping_hurts(const window_row *r)
{
    return r->sink_mean.blocks && r->sink_mean.high < 0.0;
}

/* Adds the finding what windows cost, and warns where keeping the first tokens makes it worse. */
static void report_worth(const window_row *rows, int64_t count, es_answer *a)
{
    char list[LIST_SIZE] = "", begin[LOSS_SIZE], cost[ES_SAY_SIZE], window[ES_SAY_SIZE];
    bool any_hurts = false;
    for (const window_row *r = rows; r < rows + count; r++) {
        const size_t used = strlen(list);
        if (!r->covers_late || used + 200 > sizeof list)
            continue;
        const bool hurts = keeping_hurts(r);
        const es_measured m = hurts ? r->bare : r->cost;
        any_hurts |= hurts;
        es_say_number(m.value, m.se, cost);
        es_say_size((double)r->window, window);
        snprintf(list + used, sizeof list - used,
                 used ? "; beyond %s: %s%s"
                      : "beyond %s tokens is worth %s%s nats per token to this "
                        "model on this text",
                 window, hurts ? "at most " : "", cost);
    }
    say_beginning(rows->sinks, begin);
    if (*list)
        es_answer_add_finding(a, "%s %s.%s", begin, list,
                              any_hurts
                                  ? " At most: at that window the first tokens do harm, so the "
                                    "number is what the window costs without them."
                                  : "");
}

/* Appends "16, 64 and 256 cost more": the windows with this verdict, if there are any. */
static void say_windows(const window_row *rows, int64_t n, window_verdict which, const char *one,
                        const char *several, char out[LIST_SIZE])
{
    int64_t count = 0, total = 0;
    for (int64_t i = 0; i < n; i++)
        total += rows[i].kind == which;
    for (int64_t i = 0; i < n; i++) {
        const size_t used = strlen(out);
        if (rows[i].kind != which || used + 80 > LIST_SIZE)
            continue;
        const char *before = count ? (count + 1 == total ? " and " : ", ") : used ? "; " : "";
        snprintf(out + used, LIST_SIZE - used, "%s%lld", before, (long long)rows[i].window);
        count++;
    }
    if (count)
        snprintf(out + strlen(out), LIST_SIZE - strlen(out), " %s", total == 1 ? one : several);
}

/* Says which windows the costs exclude, and what the costs do not measure. */
static void report_verdicts(const loss_params *p, const window_row *rows, int64_t count,
                            es_answer *a)
{
    char list[LIST_SIZE] = "";
    say_windows(rows, count, MORE, "is too small", "are too small", list);
    say_windows(rows, count, NOT_EXCLUDED, "is undecided", "are undecided", list);
    say_windows(rows, count, ENOUGH, "is enough", "are enough", list);
    if (*list)
        es_answer_add_finding(
            a,
            "Windows, if %g nats per token may be lost (95 %% confidence): %s. This is about the "
            "next token, not about retrieval: esscher probe --look positions shows which heads "
            "read "
            "further back.",
            p->enough, list);
}

/* Returns whether the first keys are shown to matter. One block has no error, so its value decides.
 */
static bool is_lost(const es_block_mean *sink)
{
    return sink->blocks > 1 ? sink->low > 0.0 : sink->value > 0.0;
}

/* Returns the row in which the first keys are worth most, NULL if there is none; only_lost: among
 * those in which they are shown to matter. */
static const window_row *find_sink(const window_row *rows, int64_t count, bool only_lost)
{
    const window_row *best = NULL;
    for (const window_row *r = rows; r < rows + count; r++)
        if (r->covers_late && r->sink_mean.blocks && (!only_lost || is_lost(&r->sink_mean)) &&
            (!best || r->sink.value > best->sink.value))
            best = r;
    return best;
}

/* Writes " Reading only the last 64 to 127 tokens, as a text of their own, costs 0.0129 +- 0.0040
 * nats.", or nothing. */
static void say_fresh(const window_row *r, char out[LIST_SIZE])
{
    char cost[ES_SAY_SIZE];
    *out = '\0';
    if (!es_is_unset(r->fresh.value))
        snprintf(
            out, LIST_SIZE,
            " Reading only the last %lld to %lld tokens, as a text of their own, costs %s nats.",
            (long long)r->window, (long long)(2 * r->window - 1),
            es_say_number(r->fresh.value, r->fresh.se, cost));
}

/* Says how much of a window's cost is that of the lost sink, where that is largest. */
static void report_sinks(const window_row *rows, int64_t count, es_answer *a)
{
    const window_row *lost = find_sink(rows, count, true);
    const window_row *r = lost ? lost : find_sink(rows, count, false);
    char cost[ES_SAY_SIZE], part[ES_SAY_SIZE], fresh[LIST_SIZE];
    if (!r)
        return;
    const long long G = r->sinks, W = r->window, blocks = r->sink_mean.blocks;
    es_say_number(r->bare.value, r->bare.se, cost);
    es_say_number(r->sink.value, r->sink.se, part);
    say_fresh(r, fresh);
    if (!lost && r->sink.value < 0.0)
        es_answer_add_finding(a,
                              "Keeping the first %lld tokens beside a window is not shown to help "
                              "at any window (%lld block%s): the measured gain is negative at "
                              "every window.%s",
                              G, blocks, blocks == 1 ? "" : "s", fresh);
    else if (!lost)
        es_answer_add_finding(a,
                              "Keeping the first %lld tokens beside a window is not shown to help "
                              "at any window (%lld block%s): the largest gain is %s nats, with "
                              "window %lld.%s",
                              G, blocks, blocks == 1 ? "" : "s", part, W, fresh);
    else if (r->bare.value <= 0.0)
        es_answer_add_finding(
            a,
            "Without the first %lld tokens window %lld costs %s nats more than with "
            "them, but no more than all keys.%s",
            G, W, part, fresh);
    else if (r->sink.value >= r->bare.value)
        es_answer_add_finding(
            a,
            "Without the first %lld tokens window %lld costs %s nats; all of that is "
            "the lost sink, not context.%s",
            G, W, cost, fresh);
    else
        es_answer_add_finding(
            a,
            "Without the first %lld tokens window %lld costs %s nats; %.2g %% of that, "
            "%s, is the lost sink, not context.%s",
            G, W, cost, 100.0 * r->sink.value / r->bare.value, part, fresh);
}

/* ---- all together ---- */

/* Adds the rows of a group and, for the group with the most sinks, the sentences. Groups without
 * sinks have rows in "windows" only if no group has sinks: otherwise they are its column "bare". */
static es_status add_group(const es_job *job, const loss_group *g, es_block_mean *costs,
                           es_answer *a, es_error *err)
{
    const loss_state *s = job->state;
    const int64_t sinks = g->like->lab.sinks, most = s->settings[s->count - 1].lab.sinks;
    for (int64_t i = 0; i < g->count; i++)
        costs[i] = loss_less(job, g->at[i], 0);
    es_table *t = !most || sinks ? es_answer_table(a, &windows_table) : NULL;
    for (int64_t i = 0; t && i < g->count; i++)
        add_window(job, g->at[i], &costs[i], t);
    if (g->count > 1)
        add_enough(job, g, costs, es_answer_table(a, &enough_table));
    ES_TRY(es_answer_status(a, err));
    const loss_params *p = job->params;
    if (sinks != most || p->rope)
        return ES_OK;
    const window_row *rows = es_rows(t, window_row) + es_table_rows(t) - g->count;
    report_worth(rows, g->count, a);
    report_verdicts(job->params, rows, g->count, a);
    if (sinks)
        report_sinks(rows, g->count, a);
    return ES_OK;
}

es_status loss_put_windows(es_job *job, es_answer *answer, es_error *err)
{
    const loss_state *s = job->state;
    loss_group *g;
    es_block_mean *costs;
    ES_TRY(ES_JOB_NEW(job, g, 1, err));
    ES_TRY(ES_JOB_NEW(job, costs, LOSS_WINDOWS, err));
    for (int64_t k = 1; k < s->count; k++)
        if (loss_find_group(s, k, g) && !g->like->lab.scale && !g->like->rope)
            ES_TRY(add_group(job, g, costs, answer, err));
    return ES_OK;
}
