/* context.c : what context is worth: loss against window, with and without the first keys, and
 * as a fresh text; the window that is enough.
 *
 * A window without the first keys takes two things from a model: context, and the sinks that many
 * heads rest on. Only its cost with the first keys in place is that of context; the difference is
 * that of the sinks. Costs are those of late tokens, in the second half of their block: a window of
 * W takes nothing from a token with fewer than W before it.
 *
 * Windows with scaled scores are not part of this: their cost is that of the scale, too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/loss/question.h"

/* ---- tables ---- */

static const es_column window_columns[] = {
    {"window", "window", "keys", ES_FORMAT_COUNT, "the last keys that a query sees"},
    {"sinks", "first", "keys", ES_FORMAT_COUNT, "the first keys of the block, which it sees too"},
    {"cost", "context", "nats", ES_FORMAT_REAL,
     "cost of the window with the first keys: what the context beyond it is worth. Tokens in the "
     "second half of their block, less the model as it is; error over blocks",
     .error = "cost_se"},
    {"cost_ci.0", "context from", "nats", ES_FORMAT_REAL, "95 % interval, Student's t over blocks"},
    {"cost_ci.1", "context to", "nats", ES_FORMAT_REAL},
    {"sink", "sink", "nats", ES_FORMAT_REAL,
     "what the first keys are worth beside the window: cost without them less cost with them",
     .error = "sink_se"},
    {"bare", "both", "nats", ES_FORMAT_REAL, "cost of the window without the first keys",
     .error = "bare_se"},
    {"fresh", "fresh text", "nats", ES_FORMAT_REAL,
     "cost of reading only the last W to 2 W - 1 tokens, as a text of its own",
     .error = "fresh_se"},
    {"verdict", "verdict", "", ES_FORMAT_TEXT,
     "costs more: than --enough, with 95 % confidence; enough: less, likewise; not excluded: "
     "neither is shown; block too short: it is less than two windows"},
    {0}};
static const es_table_view window_views[] = {
    {"What the context beyond a window is worth", "window sinks cost sink bare fresh verdict"},
    {"Intervals of the cost", "window sinks cost cost_ci.0 cost_ci.1", .only_with_full = true},
    {0}};
static const es_table_spec windows_table = {"windows", window_columns, window_views,
                                            .keys = "window sinks"};

static const es_column enough_columns[] = {
    {"sinks", "sinks", "keys", ES_FORMAT_COUNT, "first keys that are seen beside the window"},
    {"scale", "scale", "", ES_FORMAT_TEXT, "factor on scores: none"},
    {"window", "window", "keys", ES_FORMAT_COUNT,
     "the smallest of the windows from which on all are found to cost less than --enough; of "
     "windows up to half a block"},
    {"window_ci.0", "not excluded from", "keys", ES_FORMAT_COUNT,
     "the smallest that, with all that are larger, is not shown to cost more: 95 % intervals"},
    {"window_ci.1", "enough from", "keys", ES_FORMAT_COUNT,
     "the smallest that, with all that are larger, is shown to cost less"},
    {"cost", "cost", "nats", ES_FORMAT_REAL,
     "of this window, over tokens in the second half of their block", .error = "cost_se"},
    {0}};
static const es_table_spec enough_table = {
    "enough", enough_columns,
    ES_VIEW("Windows that are not excluded", "sinks scale window_ci.0 window_ci.1 window cost",
            .only_with_full = true),
    .keys = "sinks scale"};

/* ---- groups of windows ---- */

bool loss_find_group(const loss_state *s, int64_t first, loss_group *out)
{
    const loss_setting *like = &s->settings[first];
    *out = (loss_group){.like = like};
    if (!like->lab.window)
        return false;
    for (int64_t k = 1; k < s->count; k++) {
        const loss_setting *x = &s->settings[k];
        if (!x->lab.window || x->lab.sinks != like->lab.sinks || strcmp(x->scale, like->scale) != 0)
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

/* The setting that differs from `like` in its sinks alone, of which it has none; -1: there is none.
 */
static int64_t without_sinks(const loss_state *s, const loss_setting *like)
{
    for (int64_t k = 1; k < s->count; k++) {
        const loss_setting *x = &s->settings[k];
        if (x->lab.window == like->lab.window && !x->lab.sinks &&
            strcmp(x->scale, like->scale) == 0)
            return k;
    }
    return -1;
}

static int64_t fresh_of(const loss_state *s, int64_t window)
{
    for (int64_t i = 0; i < s->n_fresh; i++)
        if (s->fresh[i] == window)
            return i;
    return -1;
}

/* Is every late token further from the start of its block than the window reaches? */
static bool reaches_all(const loss_state *s, int64_t window) { return window <= loss_late(s); }

/* ---- what a window costs ---- */

typedef enum verdict { UNKNOWN, MORE, ENOUGH, NOT_EXCLUDED, TOO_SHORT } verdict;

static verdict judge(const es_job *job, int64_t setting)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const loss_mean m = loss_less(job, setting, 0);
    if (!reaches_all(s, s->settings[setting].lab.window))
        return TOO_SHORT;
    if (m.blocks < 2)
        return UNKNOWN;
    return m.low > p->enough ? MORE : m.high < p->enough ? ENOUGH : NOT_EXCLUDED;
}

static void put_window(const es_job *job, int64_t setting, es_table *t)
{
    static const char *const words[] = {"", "costs more", "enough", "not excluded",
                                        "block too short"};
    const loss_state *s = job->state;
    const loss_setting *x = &s->settings[setting];
    const int64_t row = es_table_row(t), fresh = fresh_of(s, x->lab.window);
    const int64_t bare = without_sinks(s, x);
    const loss_mean m = loss_less(job, setting, 0);
    const verdict v = judge(job, setting);
    es_table_count(t, row, "window", x->lab.window);
    es_table_count(t, row, "sinks", x->lab.sinks);
    es_put(t, row, {"cost", m.value}, {"cost_se", m.se}, {"cost_ci.0", m.low},
           {"cost_ci.1", m.high});
    if (bare >= 0 && bare != setting) {
        const loss_mean both = loss_less(job, bare, 0), sink = loss_less(job, bare, setting);
        es_put(t, row, {"bare", both.value}, {"bare_se", both.se}, {"sink", sink.value},
               {"sink_se", sink.se});
    }
    if (fresh >= 0) {
        const loss_mean f = loss_fresh_cost(job, fresh);
        es_put(t, row, {"fresh", f.value}, {"fresh_se", f.se});
    }
    if (v != UNKNOWN)
        es_table_text(t, row, "verdict", words[v]);
}

/* ---- which windows are enough ---- */

typedef enum bound { LOW, VALUE, HIGH } bound;

/* Place in the group of the smallest window from which on the bound of every cost is below
 * `enough`; count if there is none. Windows above half a block do not count: not every late token
 * loses something to them. */
static int64_t smallest(const es_job *job, const loss_group *g, bound which, double enough)
{
    int64_t at = g->count;
    for (int64_t i = g->count - 1; i >= 0; i--) {
        const loss_mean m = loss_less(job, g->at[i], 0);
        const double x = which == LOW ? m.low : which == HIGH ? m.high : m.value;
        if (!reaches_all(job->state, loss_window_at(job->state, g, i)))
            continue;
        if (!(x < enough))
            break;
        at = i;
    }
    return at;
}

static void put_enough(const es_job *job, const loss_group *g, es_table *t)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const int64_t at = smallest(job, g, VALUE, p->enough);
    const int64_t low = smallest(job, g, LOW, p->enough), high = smallest(job, g, HIGH, p->enough);
    const int64_t row = es_table_row(t);
    es_table_count(t, row, "sinks", g->like->lab.sinks);
    es_table_text(t, row, "scale", g->like->scale);
    if (low < g->count)
        es_table_count(t, row, "window_ci.0", loss_window_at(s, g, low));
    if (high < g->count)
        es_table_count(t, row, "window_ci.1", loss_window_at(s, g, high));
    if (at == g->count)
        return;
    const loss_mean m = loss_less(job, g->at[at], 0);
    es_table_count(t, row, "window", loss_window_at(s, g, at));
    es_put(t, row, {"cost", m.value}, {"cost_se", m.se});
}

/* ---- sentences ---- */

enum { LIST_ROOM = 1024 };

/* "With the first 4 tokens kept, context", or "Context". */
static void say_beginning(const loss_group *g, char out[LOSS_ROOM])
{
    const long long sinks = g->like->lab.sinks;
    if (sinks)
        snprintf(out, LOSS_ROOM, "With the first %lld token%s kept, context", sinks,
                 sinks == 1 ? "" : "s");
    else
        snprintf(out, LOSS_ROOM, "Context");
}

/* What the first keys are worth beside a window: its cost without them less its cost with them. */
static loss_mean sink_cost(const es_job *job, int64_t setting)
{
    const loss_state *s = job->state;
    return loss_less(job, without_sinks(s, &s->settings[setting]), setting);
}

/* Is the window shown to cost less without the first keys? Then the context beyond it is worth no
 * more than that lower cost. */
static bool keeping_hurts(const es_job *job, int64_t setting)
{
    const loss_state *s = job->state;
    return s->settings[setting].lab.sinks && sink_cost(job, setting).high < 0.0;
}

static void tell_worth(const es_job *job, const loss_group *g, es_answer *a)
{
    const loss_state *s = job->state;
    char list[LIST_ROOM] = "", begin[LOSS_ROOM], cost[ES_SAY_ROOM], window[ES_SAY_ROOM];
    bool any_hurts = false;
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t W = loss_window_at(s, g, i), own = g->at[i];
        const size_t used = strlen(list);
        if (!reaches_all(s, W) || used + 200 > sizeof list)
            continue;
        const bool hurts = keeping_hurts(job, own);
        const loss_mean m = loss_less(job, hurts ? without_sinks(s, &s->settings[own]) : own, 0);
        any_hurts |= hurts;
        es_say_number(m.value, m.se, cost);
        es_say_size((double)W, window);
        snprintf(list + used, sizeof list - used,
                 used ? ", beyond %s %s%s"
                      : "beyond %s tokens is worth %s%s nats per token to this "
                        "model on this text",
                 window, hurts ? "at most " : "", cost);
    }
    say_beginning(g, begin);
    if (*list)
        es_answer_add_finding(a, "%s %s.%s", begin, list,
                              any_hurts
                                  ? " At most: keeping the first tokens hurts at that window, so "
                                    "the number is its cost without them."
                                  : "");
}

/* Appends "16, 64 and 256 cost more": windows of the group with this verdict, if there are any. */
static void say_windows(const es_job *job, const loss_group *g, verdict which, const char *one,
                        const char *several, char out[LIST_ROOM])
{
    const loss_state *s = job->state;
    int64_t count = 0, total = 0;
    for (int64_t i = 0; i < g->count; i++)
        total += judge(job, g->at[i]) == which;
    for (int64_t i = 0; i < g->count; i++) {
        const size_t used = strlen(out);
        if (judge(job, g->at[i]) != which || used + 80 > LIST_ROOM)
            continue;
        const char *before = count ? (count + 1 == total ? " and " : ", ") : used ? "; " : "";
        snprintf(out + used, LIST_ROOM - used, "%s%lld", before,
                 (long long)loss_window_at(s, g, i));
        count++;
    }
    if (count)
        snprintf(out + strlen(out), LIST_ROOM - strlen(out), " %s", total == 1 ? one : several);
}

/* What the costs exclude, and what they are not about. */
static void tell_verdicts(const es_job *job, const loss_group *g, es_answer *a)
{
    const loss_params *p = job->params;
    char list[LIST_ROOM] = "";
    say_windows(job, g, MORE, "costs more", "cost more", list);
    say_windows(job, g, NOT_EXCLUDED, "is not excluded", "are not excluded", list);
    say_windows(job, g, ENOUGH, "costs less", "cost less", list);
    if (*list)
        es_answer_add_finding(
            a,
            "Windows at a tolerance of %g nats, with 95 %% confidence: %s. This is about "
            "the next token, not about retrieval: esscher probe --look positions shows "
            "which heads read further back.",
            p->enough, list);
}

/* Do the first keys matter? One block has no error that could speak against it. */
static bool is_lost(const loss_mean *sink)
{
    return sink->blocks > 1 ? sink->low > 0.0 : sink->value > 0.0;
}

/* Place in the group of the window beside which the first keys are worth most; -1: there is none.
 * only_lost: of those beside which they are shown to matter. */
static int64_t find_sink(const es_job *job, const loss_group *g, bool only_lost)
{
    const loss_state *s = job->state;
    double most = 0.0;
    int64_t at = -1;
    for (int64_t i = 0; i < g->count; i++) {
        const loss_mean m = sink_cost(job, g->at[i]);
        if (!reaches_all(s, loss_window_at(s, g, i)) || (only_lost && !is_lost(&m)) ||
            (at >= 0 && m.value <= most))
            continue;
        at = i;
        most = m.value;
    }
    return at;
}

/* " A fresh text of the last 64 to 127 tokens costs 0.0129 +- 0.0040.", or nothing. */
static void say_fresh(const es_job *job, int64_t W, char out[LIST_ROOM])
{
    const int64_t number = fresh_of(job->state, W);
    char cost[ES_SAY_ROOM];
    *out = '\0';
    if (number < 0)
        return;
    const loss_mean f = loss_fresh_cost(job, number);
    snprintf(out, LIST_ROOM, " A fresh text of the last %lld to %lld tokens costs %s.",
             (long long)W, (long long)(2 * W - 1), es_say_number(f.value, f.se, cost));
}

/* How much of a window's cost is that of the lost sink, where that is largest. */
static void tell_sinks(const es_job *job, const loss_group *g, es_answer *a)
{
    const loss_state *s = job->state;
    const long long G = g->like->lab.sinks;
    const int64_t lost = find_sink(job, g, true), at = lost >= 0 ? lost : find_sink(job, g, false);
    char cost[ES_SAY_ROOM], part[ES_SAY_ROOM], fresh[LIST_ROOM];
    if (at < 0)
        return;
    const long long W = loss_window_at(s, g, at);
    const loss_mean sink = sink_cost(job, g->at[at]);
    const loss_mean both = loss_less(job, without_sinks(s, &s->settings[g->at[at]]), 0);
    es_say_number(both.value, both.se, cost);
    es_say_number(sink.value, sink.se, part);
    say_fresh(job, W, fresh);
    if (lost < 0)
        es_answer_add_finding(a,
                              "Without the first %lld tokens no window is shown to cost more (%lld "
                              "block%s): %s nats at most, window %lld.%s",
                              G, (long long)sink.blocks, sink.blocks == 1 ? "" : "s", part, W,
                              fresh);
    else if (both.value <= 0.0)
        es_answer_add_finding(
            a,
            "Without the first %lld tokens window %lld costs %s nats more than with "
            "them, but no more than all keys.%s",
            G, W, part, fresh);
    else if (sink.value >= both.value)
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
            G, W, cost, 100.0 * sink.value / both.value, part, fresh);
}

/* ---- all together ---- */

/* Sentences are about the windows with the most sinks. */
static bool is_told(const loss_state *s, const loss_group *g)
{
    const es_loss_setting *last = &s->settings[s->count - 1].lab;
    return g->like->lab.sinks == last->sinks;
}

es_status loss_put_context(es_job *job, es_answer *answer, es_error *err)
{
    const loss_state *s = job->state;
    const bool sinks = s->settings[s->count - 1].lab.sinks > 0;
    loss_group *g;
    ES_TRY(ES_JOB_NEW(job, g, 1, err));
    for (int64_t k = 1; k < s->count; k++) {
        if (!loss_find_group(s, k, g) || g->like->lab.scale)
            continue;
        if (!sinks || g->like->lab.sinks)
            for (int64_t i = 0; i < g->count; i++)
                put_window(job, g->at[i], es_answer_table(answer, &windows_table));
        if (g->count > 1)
            put_enough(job, g, es_answer_table(answer, &enough_table));
        if (!is_told(s, g))
            continue;
        tell_worth(job, g, answer);
        tell_verdicts(job, g, answer);
        if (g->like->lab.sinks)
            tell_sinks(job, g, answer);
    }
    return ES_OK;
}
