/* SPDX-License-Identifier: Apache-2.0 */
/* findings.c : sentences about losses by setting and by position. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "experiments/kit/answer_kit.h"
#include "experiments/loss/loss.h"

/* Returns what follows a difference whose 95 % interval includes 0; one block has no interval. */
static const char *say_chance(double low, double high)
{
    return low <= 0.0 && high >= 0.0 ? ", which may be chance" : "";
}

/* Writes whose loss it is: "The loss", "The full model's loss", "With stream, 32 keys, the loss" or
 * "The loss of other/model". */
static void say_whose(const es_job *job, char out[2 * LOSS_SIZE])
{
    const loss_state *s = job->state;
    const loss_params *p = job->params;
    const loss_setting *x = &s->settings[s->asked];
    if (!s->asked)
        snprintf(out, 2 * LOSS_SIZE, "%s", s->count > 1 ? "The full model's loss" : "The loss");
    else if (x->lab.other && !x->lab.scale)
        snprintf(out, 2 * LOSS_SIZE, "The loss of %.400s", p->against);
    else
        snprintf(out, 2 * LOSS_SIZE, "With %s, the loss",
                 x->name + (strncmp(x->name, "full, ", 6) == 0 ? 6 : 0));
}

/* Adds the finding about the loss itself. Tables compare settings after the prompt only, so the
 * sentence says that it counts all tokens. */
static void report_loss(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    const es_block_mean m = loss_over(job, s->asked, 1, s->longest);
    char whose[2 * LOSS_SIZE], loss[ES_SAY_SIZE], bits[ES_SAY_SIZE] = "";
    say_whose(job, whose);
    if (s->bytes)
        snprintf(bits, sizeof bits, ", %.4g bits per byte", loss_bits_per_byte(s, &m));
    es_answer_add_finding(a, "%s is %s nats per token%s (%lld block%s of %s%lld tokens%s).", whose,
                          es_say_number(m.value, m.se, loss), bits, (long long)s->text.count,
                          s->text.count == 1 ? "" : "s",
                          s->tokens == s->text.count * (s->longest - 1) ? "" : "up to ",
                          (long long)s->longest, s->from ? ", those of the prompt included" : "");
}

/* Says where in a block the loss is lowest, and how much higher it is at the end. */
static void report_positions(const es_job *job, const loss_position_row *rows, int64_t count,
                             es_answer *a)
{
    const loss_state *s = job->state;
    const loss_position_row *best = &rows[0], *last = &rows[count - 1];
    char low[ES_SAY_SIZE], more[ES_SAY_SIZE], rest[LOSS_SIZE] = "";
    if (count < 3)
        return;
    for (int64_t i = 1; i < count; i++)
        if (rows[i].nll.value < best->nll.value)
            best = &rows[i];
    if (best != last) {
        const es_block_mean rise =
            loss_fall(job, s->asked, last->from, last->to, best->from, best->to);
        snprintf(rest, sizeof rest, "; at positions %lld to %lld it is %s higher%s",
                 (long long)last->from, (long long)last->to - 1,
                 es_say_number(rise.value, rise.se, more), say_chance(rise.low, rise.high));
    }
    es_answer_add_finding(
        a, "The loss is lowest at positions %lld to %lld of a block, %s nats per token%s.",
        (long long)best->from, (long long)best->to - 1,
        es_say_number(best->nll.value, best->nll.se, low), rest);
}

/* Writes "ln i / ln 2048 at position i (log; softer before 2048 and sharper after it)". */
static void say_scale(const es_job *job, const loss_setting *x, char out[2 * LOSS_SIZE])
{
    const loss_state *s = job->state;
    const bool full = !x->lab.window && !x->lab.policy.policy && !x->lab.plan;
    const char *name = full ? x->scale : x->name;
    const double R = x->lab.reference,
                 factor = es_score_factor(&x->lab, s->longest - 1, s->longest);
    const bool past = (double)s->longest > R; /* the last query stands at place `longest` */
    if (x->lab.scale == ES_SCALE_LOG)
        snprintf(out, 2 * LOSS_SIZE, "ln i / ln %.6g at position i (%s; softer before %.6g%s)", R,
                 name, R, past ? " and sharper after it" : "");
    else if (x->lab.scale == ES_SCALE_LOGN)
        snprintf(out, 2 * LOSS_SIZE, "ln i / ln %.6g from position i = %.6g on (%s; sharper there)",
                 R, R, name);
    else if (x->lab.scale == ES_SCALE_LLAMA4)
        snprintf(out, 2 * LOSS_SIZE, "1 + %.6g ln(1 + floor((i - 1)/%.6g)) at position i (%s)",
                 x->lab.factor, R, name);
    else
        snprintf(out, 2 * LOSS_SIZE, "%.4g (%s%s%s everywhere)", factor, full ? "" : name,
                 full ? "" : "; ",
                 factor > 1.0   ? "sharper"
                 : factor < 1.0 ? "softer"
                                : "the same");
}

/* Returns the setting with the same keys and unscaled scores; -1 if it was not run. */
static int64_t without_scale(const loss_state *s, int64_t setting)
{
    const es_loss_setting *x = &s->settings[setting].lab;
    for (int64_t k = 0; k < s->count; k++) {
        const es_loss_setting *y = &s->settings[k].lab;
        if (!y->scale && y->window == x->window && y->sinks == x->sinks && y->plan == x->plan &&
            es_policy_same(&y->policy, &x->policy) && y->policy.keys == x->policy.keys)
            return k;
    }
    return -1;
}

/* Says what a scale does to the loss at the same keys, if these were run without it. */
static void report_scale(const es_job *job, int64_t k, es_answer *a)
{
    const loss_state *s = job->state;
    const int64_t base = without_scale(s, k);
    char what[2 * LOSS_SIZE], cost[ES_SAY_SIZE];
    if (base < 0)
        return;
    const es_block_mean m = loss_without(job, -1, k, base, 1, s->longest);
    say_scale(job, &s->settings[k], what);
    es_answer_add_finding(a, "Multiplying scores by %s %s the loss by %s nats per token%s.", what,
                          m.value > 0.0 ? "raises" : "lowers",
                          es_say_number(fabs(m.value), m.se, cost), say_chance(m.low, m.high));
}

/* Follows what a setting costs that a cache cannot run. */
static const char ideal[] =
    " Ideal: keys are chosen anew for every query, which saves no memory; a "
    "cache that drops keys (--evict) loses more.";

/* Says what a policy costs at every number of keys, if setting `first` is its first. */
static void report_policy(const es_job *job, const loss_setting_row *rows, int64_t first,
                          es_answer *a)
{
    const loss_state *s = job->state;
    const es_policy_spec *own = &s->settings[first].lab.policy;
    char list[1536] = "", word[ES_POLICY_SIZE], cost[ES_SAY_SIZE];
    bool fewer = false; /* early queries see fewer keys than were asked for */
    for (int64_t k = 1; k < s->count; k++) {
        const es_loss_setting *x = &s->settings[k].lab;
        const size_t used = strlen(list);
        if (!x->policy.policy || x->scale || !es_policy_same(&x->policy, own))
            continue;
        if (k < first)
            return; /* the sentence is there already */
        const double keys = x->policy.keys > 0 ? (double)x->policy.keys : rows[k].keys;
        fewer = fewer || rows[k].keys < keys;
        if (used + 200 <= sizeof list)
            snprintf(list + used, sizeof list - used, "%s%s with %.4g keys", used ? ", " : "",
                     es_say_number(rows[k].cost.value, rows[k].cost.se, cost), keys);
    }
    es_answer_add_finding(
        a, "%s costs, in nats per token: %s per query%s.%s", es_policy_word(own, word), list,
        fewer ? " (early queries see fewer)" : "", es_policy_rolls(own) ? "" : ideal);
}

/* Returns whether a cache that evicts can hold what every head keeps by an ideal plan. */
static bool plan_rolls(const es_plan *plan)
{
    for (int64_t i = 0; i < plan->layers * plan->heads; i++)
        if (plan->head[i].spec.policy && !es_policy_rolls(&plan->head[i].spec))
            return false;
    return true;
}

/* Adds the finding about the loss under an ideal plan. */
static void report_plan(const es_job *job, const loss_setting_row *row, es_answer *a)
{
    const loss_state *s = job->state;
    const loss_params *p = job->params;
    char plan[ES_PLAN_SIZE], cost[ES_SAY_SIZE];
    es_answer_add_finding(
        a, "By %s, the loss is %s nats per token %s%s, with %.4g keys per query on average.%s",
        es_plan_say(s->plan, p->plan, plan),
        es_say_number(fabs(row->cost.value), row->cost.se, cost),
        row->cost.value > 0.0 ? "higher" : "lower", say_chance(row->cost_low, row->cost_high),
        row->keys, plan_rolls(s->plan) ? "" : ideal);
}

/* Warns of the first setting whose policy has nothing to choose: too few keys for its sinks and its
 * window. */
static void report_no_choice(const loss_state *s, es_answer *a)
{
    char policy[ES_CACHE_SIZE];
    for (int64_t k = 1; k < s->count; k++) {
        const es_cache_setting *x = s->settings[k].lab.cache;
        if (!x || x->mode != ES_EVICT_PROMPT || x->units || !x->unit.evict.policy)
            continue;
        const es_evict_spec spec = es_evict_resolve(&x->unit.evict, x->mode);
        if (es_evict_chooses(&spec))
            continue;
        es_answer_add_finding(
            a,
            "Caution: with %lld keys %s has none to choose: its first and last keys take all. Use "
            "more keys, or a smaller window.",
            (long long)spec.keys, es_cache_policy(x, policy));
        return;
    }
}

/* Warns of the first setting that rounds nothing. */
static void report_no_rounding(const loss_state *s, es_answer *a)
{
    for (int64_t k = 1; k < s->count; k++)
        if (s->settings[k].lab.cache && es_cache_caution(s->settings[k].lab.cache, s->longest, a))
            return;
}

/* Warns of errors that are missing or too small. Blocks taken evenly need no warning if neighbours
 * correlate: each represents the text around it, so their errors are too large rather than too
 * small. */
static void report_cautions(const es_job *job, es_answer *a)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const loss_neighbours near = loss_neighbours_of(job, s->asked);
    if (s->longest < p->block)
        es_answer_add_finding(a,
                              "Caution: no block has the %lld tokens of --block; give more text.",
                              (long long)p->block);
    if (s->text.count == 1)
        es_answer_add_finding(
            a, "Caution: one block has no error; more text or a smaller --block gives "
               "several.");
    else if (s->text.count < 4)
        es_answer_add_finding(
            a,
            "Caution: errors are over %lld blocks only; more text or a smaller --block "
            "gives more.",
            (long long)s->text.count);
    else if (near.positive && s->text.of <= s->text.count)
        es_answer_add_finding(
            a,
            "Caution: losses of neighbouring blocks correlate by %.2f (by chance: 0 ± "
            "%.2f), so the error of the loss is too small, by a factor of about %.2g. %s",
            near.correlation, near.chance,
            sqrt((1.0 + near.correlation) / (1.0 - near.correlation)),
            p->from == ES_BLOCKS_EVEN ? "Take fewer blocks, far apart: --blocks."
                                      : "Take them evenly: --blocks-from even.");
}

/* Three findings at most; the tables have the rest. */
static bool may_report(const es_answer *a) { return !es_answer_finding(a, 2); }

void loss_add_findings(const es_job *job, const loss_setting_row *settings,
                       const loss_position_row *positions, int64_t count, es_answer *answer)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    if (s->caches.count || s->other)
        loss_add_cache_findings(job, answer);
    for (int64_t k = 1; k < s->count && may_report(answer) && !p->rope; k++)
        if (s->settings[k].lab.scale)
            report_scale(job, k, answer);
        else if (s->settings[k].lab.plan)
            report_plan(job, &settings[k], answer);
        else if (s->settings[k].lab.policy.policy)
            report_policy(job, settings, k, answer);
    if (may_report(answer))
        report_loss(job, answer);
    if (may_report(answer))
        report_positions(job, positions, count, answer);
    if (s->plan)
        es_plan_caution(s->plan, s->longest, "blocks have", answer);
    report_no_choice(s, answer);
    report_no_rounding(s, answer);
    report_cautions(job, answer);
}
