/* SPDX-License-Identifier: Apache-2.0 */
/* findings.c : sentences about the plan, and the cautions that limit them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"
#include "model/sparse_head.h"
#include "store/file.h"

/* Writes a share as "5.66 % ± 0.30 %". Returns out. */
static const char *say_percent(es_measured m, char out[ES_SAY_SIZE])
{
    char number[ES_SAY_SIZE];
    es_say_number(100.0 * m.value, 100.0 * m.se, number);
    char *error = strstr(number, " ± ");
    if (error)
        *error = '\0';
    snprintf(out, ES_SAY_SIZE, error ? "%.40s %% ± %.40s %%" : "%.40s %%", number,
             error ? error + strlen(" ± ") : "");
    return out;
}

/* Returns true if the plan ran on text of its own context, for which the predictions hold. */
static bool is_verified(const budget_state *s) { return s->n_settings && s->verify.length == s->n; }

/* Returns true if --verify and --text name the same file. */
static bool is_same_text(const budget_params *p)
{
    for (int64_t i = 0; i < p->verify.count; i++)
        for (int64_t k = 0; k < p->texts.count; k++)
            if (es_file_same(p->verify.at[i], p->texts.at[k]))
                return true;
    return false;
}

/* Returns how findings call the text of --verify: testing on the text of the plan is not a test. */
static const char *say_text(const es_job *job)
{
    return is_same_text(job->params) ? "text the plan was made from" : "held-out text";
}

/* Writes the plan's policies that read one of `inputs` (ES_POLICY_): "heavy and observe"; "" if
 * none does. Returns out. */
static const char *say_policies(const budget_state *s, const budget_context *k, unsigned inputs,
                                char out[ES_SAY_SIZE])
{
    out[0] = '\0';
    for (int64_t p = 0; p < s->P && s->mode == BUDGET_IDEAL; p++) {
        const size_t used = strlen(out);
        bool in_plan = false;
        for (int64_t u = 0; u < s->units; u++)
            in_plan = in_plan || k->plan[u].candidate == p;
        if (in_plan && es_policy_inputs(s->policies[p].policy) & inputs)
            snprintf(out + used, ES_SAY_SIZE - used, "%s%s", used ? " and " : "",
                     es_policy_name(s->policies[p].policy));
    }
    return out;
}

/* Returns "s" for one name, "" for several. */
static const char *verb_ending(const char *names) { return strstr(names, " and ") ? "" : "s"; }

/* ---- findings ---- */

/* Adds the answer: the change of the last hidden state. The share of keys is called a cache size
 * only if no policy of the plan reads all keys first. */
static void add_state(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    const double all = budget_all_keys(s), kept = budget_keys(s, k->plan);
    char share[4 * ES_SAY_SIZE], measured[ES_SAY_SIZE], predicted[ES_SAY_SIZE], names[ES_SAY_SIZE];
    if (s->config->causal && *say_policies(s, k, ES_POLICY_SCORES, names))
        snprintf(share, sizeof share, "If queries attend to %.3g %% of the keys,",
                 100.0 * kept / all);
    else
        snprintf(share, sizeof share, "With %.3g %% of %s (%.3g of %.3g MB in %s),",
                 100.0 * kept / all, s->config->causal ? "the KV cache" : "all keys and values",
                 budget_bytes(s, k->plan) / 1e6, all * s->full.bytes / 1e6,
                 budget_dtypes[p->cache]);
    say_percent((es_measured){k->forecast.state[L], k->forecast_se.state[L]}, predicted);
    if (is_verified(s))
        es_answer_add_finding(
            a, "%s the last hidden state changes by %s of its spread (%s; %s was predicted).",
            share, say_percent(budget_state_error(job, budget_verify_runs(s, 0), L), measured),
            say_text(job), predicted);
    else
        es_answer_add_finding(
            a, "%s the last hidden state is predicted to change by %s of its spread%s.", share,
            predicted, s->n_settings ? "" : "; --verify FILE tests that on held-out text");
}

/* Adds what the plan does at another context, where its numbers of keys stay the same. */
static void add_other_context(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    const int64_t n = s->verify.length;
    double kept = 0.0, all = 0.0;
    char measured[ES_SAY_SIZE];
    if (!s->n_settings || is_verified(s))
        return;
    for (int64_t u = 0; u < s->units; u++) {
        const int64_t sees = es_past_most(es_past_of(s->config, u / s->config->kv_heads), n);
        kept +=
            (double)(k->plan[u].candidate < 0 || k->plan[u].keys > sees ? sees : k->plan[u].keys);
        all += (double)sees;
    }
    es_answer_add_finding(
        a,
        "At %s%lld tokens the plan, made for %lld, keeps %.3g %% of the keys and changes the last "
        "hidden state by %s (%s).",
        s->verify.tasks.labels ? "up to " : "", (long long)n, (long long)s->n, 100.0 * kept / all,
        say_percent(budget_state_error(job, budget_verify_runs(s, 0), s->config->layers), measured),
        say_text(job));
}

/* Adds the predicted change of the model's answer: KL, or the extra loss where distributions do not
 * fit into memory. */
static void add_predicted_answer(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    char predicted[ES_SAY_SIZE];
    const char *what = !budget_predicts_kl(job) ? "The extra loss per token"
                       : s->config->predicts    ? "KL of the next token"
                                                : "KL of the labels";
    es_say_number(k->forecast.loss, k->forecast_se.loss, predicted);
    es_answer_add_finding(a, "%s is predicted to be %s nats.", what, predicted);
}

/* Adds the measured change of the model's answer: the extra loss of a decoder, labels of a
 * classifier; with KL beside the predicted KL. */
static void add_measured_answer(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    const budget_runs runs = budget_verify_runs(s, 0);
    const bool kl = budget_predicts_kl(job), tokens = s->config->predicts;
    char value[ES_SAY_SIZE], beside[3 * ES_SAY_SIZE] = "", number[ES_SAY_SIZE];
    if (kl)
        snprintf(
            beside, sizeof beside, "KL %s nats",
            es_say_number(budget_answer_change(job, runs, ES_END_KL).value, (double)NAN, number));
    if (is_verified(s))
        snprintf(beside + strlen(beside), sizeof beside - strlen(beside), "%s%s predicted",
                 kl ? "; " : "", es_say_number(k->forecast.loss, (double)NAN, number));
    const char *open = *beside ? " (" : "", *shut = *beside ? ")" : "";
    if (kl && !tokens) {
        const es_measured same = budget_answer_change(job, runs, ES_END_AGREE);
        es_answer_add_finding(a, "The label stays the same for %s of the blocks%s%s%s.",
                              say_percent(same, value), open, beside, shut);
        return;
    }
    const es_measured loss = budget_answer_change(job, runs, ES_END_LOSS);
    es_answer_add_finding(a, "The extra loss is %s nats per token%s%s%s.",
                          es_say_number(loss.value, loss.se, value), open, beside, shut);
}

/* Adds the other allocations at the plan's number of keys, if --rivals ran them. */
static void add_rivals(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    char list[512] = "", value[ES_SAY_SIZE];
    for (int64_t w = 1; w < s->n_ways; w++) {
        const int64_t setting = budget_setting_of(s, s->ways[w], 0.0);
        const size_t used = strlen(list);
        if (setting < 0)
            return;
        const es_measured m =
            budget_state_error(job, budget_verify_runs(s, setting), s->config->layers);
        snprintf(list + used, sizeof list - used, "%s%s (%s)", used ? ", " : "",
                 say_percent(m, value), budget_allocation_names[s->ways[w]]);
    }
    es_answer_add_finding(a, "Same budget, other allocations: the state changes by %s.", list);
}

/* Adds the findings of ideal mode: the state, the answer, the rivals. */
static void add_ideal(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const bool tolerance = !isnan(p->error) || !isnan(p->loss);
    add_state(job, k, a);
    add_other_context(job, k, a);
    if (!isnan(k->forecast.loss))
        (s->n_settings ? add_measured_answer : add_predicted_answer)(job, k, a);
    if (!tolerance) /* otherwise the verdict follows (verified.c) */
        add_rivals(job, a);
}

/* ---- caches ---- */

/* Writes the share of keys and values in each number type: "12 % are in f16, 88 % in q8_0".
 * Returns out. */
static const char *say_types(const budget_state *s, const budget_context *k,
                             char out[4 * ES_SAY_SIZE])
{
    char name[ES_KV_NAME], other[ES_KV_NAME];
    const double all = 2.0 * budget_keys(s, k->plan);
    out[0] = '\0';
    for (int64_t t = 0; t * t < s->types; t++) {
        const size_t used = strlen(out);
        double count = 0.0;
        es_kv_format_name(&s->candidates[t].unit.v, name, sizeof name);
        for (int64_t u = 0; u < s->units; u++) {
            const es_cache_unit *unit = &s->candidates[k->plan[u].candidate].unit;
            es_kv_format_name(&unit->k, other, sizeof other);
            count += strcmp(name, other) == 0 ? (double)k->plan[u].keys : 0.0;
            es_kv_format_name(&unit->v, other, sizeof other);
            count += strcmp(name, other) == 0 ? (double)k->plan[u].keys : 0.0;
        }
        if (count > 0.0)
            snprintf(out + used, 4 * ES_SAY_SIZE - used, "%s%.3g %% %sin %s", used ? ", " : "",
                     100.0 * count / all, used ? "" : "are ", name);
    }
    return out;
}

/* Adds what is kept: keys, types, bytes. */
static void add_kept(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const double all = budget_all_keys(s), before = all * s->full.bytes,
                 after = budget_bytes(s, k->plan);
    es_answer_add_finding(
        a,
        "The plan keeps %.3g %% of the keys of a %s of %lld tokens, in %.3g %% of the bytes: %.3g "
        "MB instead of %.3g MB in %s.",
        100.0 * budget_keys(s, k->plan) / all, s->mode == BUDGET_PROMPT ? "prompt" : "context",
        (long long)(s->mode == BUDGET_PROMPT ? s->prompt : s->n), 100.0 * after / before,
        after / 1e6, before / 1e6, budget_dtypes[p->cache]);
}

/* Adds in which number types keys and values are kept. */
static void add_types(const es_job *job, const budget_context *k, es_answer *a)
{
    char types[4 * ES_SAY_SIZE];
    es_answer_add_finding(a, "Of the keys and values kept, %s.", say_types(job->state, k, types));
}

/* Adds what the plan does to the loss, whose error is larger than that of KL: other tokens follow
 * in other texts. */
static void add_loss(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    char loss[ES_SAY_SIZE];
    if (!s->n_settings || !budget_predicts_kl(job))
        return;
    const es_measured extra = budget_answer_change(job, budget_verify_runs(s, 0), ES_END_LOSS);
    es_answer_add_finding(a, "The plan changes the loss by %s nats per token.",
                          es_say_number(extra.value, extra.se, loss));
}

/* Returns the name of what is predicted of the answer: KL, or the extra loss where distributions do
 * not fit into memory. */
static const char *say_answer(const es_job *job)
{
    return budget_predicts_kl(job) ? "KL of the next token" : "the extra loss";
}

/* Returns what was measured of it. */
static es_measured measured_answer(const es_job *job, int64_t setting)
{
    return budget_answer_change(job, budget_verify_runs(job->state, setting),
                                budget_predicts_kl(job) ? ES_END_KL : ES_END_LOSS);
}

/* Adds what the plan costs. */
static void add_price(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    char predicted[ES_SAY_SIZE], found[ES_SAY_SIZE];
    es_say_number(k->forecast.loss, k->forecast_se.loss, predicted);
    if (!s->n_settings) {
        es_answer_add_finding(
            a,
            "It is predicted to cost %s nats per token after the prompt (%s); --verify FILE "
            "tests that on held-out text.",
            predicted, say_answer(job));
        return;
    }
    const es_measured m = measured_answer(job, 0);
    es_answer_add_finding(a, "It costs %s nats per token after the prompt (%s, %s%s; %s%s).",
                          es_say_number(m.value, m.se, found), say_answer(job), say_text(job),
                          is_verified(s) ? "" : " of another context", predicted,
                          is_verified(s) ? " was predicted" : " was predicted for its own");
}

/* Returns whether an allocation is the plan. */
static bool is_plan(const budget_state *s, const budget_context *k, const budget_choice *choices)
{
    for (int64_t u = 0; u < s->units; u++)
        if (choices[u].candidate != k->plan[u].candidate || choices[u].keys != k->plan[u].keys)
            return false;
    return true;
}

/* Returns what was measured of a setting less that of the plan, on the same blocks. */
static es_measured measured_difference(const es_job *job, int64_t setting)
{
    const budget_state *s = job->state;
    const int end = budget_predicts_kl(job) ? ES_END_KL : ES_END_LOSS;
    for (int64_t b = 0; b < s->verify.count; b++)
        s->scratch[b] = budget_trial_of(job, budget_verify_runs(s, setting), b).ends[end] -
                        budget_trial_of(job, budget_verify_runs(s, 0), b).ends[end];
    return es_measured_mean(s->scratch, s->verify.count);
}

/* Adds what the single setting of least predicted error, called `name`, costs beside the plan. */
static es_status add_single_cost(es_job *job, const budget_context *k, const char *name,
                                 double predicted, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t setting = budget_setting_of(s, BUDGET_UNIFORM, 0.0);
    char number[ES_SAY_SIZE], other[ES_SAY_SIZE];
    if (setting < 0) { /* both by sums alone: the rehearsal's factors belong to the plan */
        budget_strategy ours = budget_strategy_of(s, BUDGET_OURS, budget_total(s, k->plan));
        budget_choice *choices;
        budget_forecast f;
        ours.asked = true;
        ES_TRY(budget_forecast_strategy(job, k, &ours, &choices, &f, err));
        es_answer_add_finding(a,
                              "%s should cost %s nats per token; the plan %s (both before the "
                              "correction by trial runs).",
                              name, es_say_number(predicted, (double)NAN, number),
                              es_say_number(f.loss, (double)NAN, other));
        return ES_OK;
    }
    const es_measured m = measured_answer(job, setting), more = measured_difference(job, setting);
    es_answer_add_finding(a,
                          "%s costs %s nats per token, which is %s %s than the plan on the same "
                          "blocks.",
                          name, es_say_number(m.value, m.se, number),
                          es_say_number(fabs(more.value), more.se, other),
                          more.value < 0.0 ? "less" : "more");
    return ES_OK;
}

/* Adds what the single setting of least predicted error would cost, as in the table of
 * allocations. */
static es_status add_single(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    const budget_strategy how = budget_strategy_of(s, BUDGET_UNIFORM, budget_total(s, k->plan));
    char policy[BUDGET_SIZE], types[BUDGET_SIZE], name[3 * BUDGET_SIZE];
    budget_choice *choices;
    budget_forecast f;
    ES_TRY(budget_forecast_strategy(job, k, &how, &choices, &f, err));
    budget_candidate_policy(s, choices[0].candidate, policy);
    budget_candidate_types(s, choices[0].candidate, types);
    snprintf(name, sizeof name,
             "Of single settings for all heads on as many bytes, the one predicted best (%s, %.3g "
             "%% of the keys, %s)",
             policy, 100.0 * budget_keys(s, choices) / budget_all_keys(s), types);
    if (!is_plan(s, k, choices))
        return add_single_cost(job, k, name, f.loss, a, err);
    es_answer_add_finding(a, "%s is the plan itself.", name);
    return ES_OK;
}

es_status budget_add_findings(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    if (s->mode == BUDGET_IDEAL) {
        add_ideal(job, k, a);
        return ES_OK;
    }
    add_kept(job, k, a);
    add_price(job, k, a);
    ES_TRY(add_single(job, k, a, err));
    add_types(job, k, a);
    add_loss(job, a);
    return ES_OK;
}

/* ---- cautions ---- */

/* Adds what windows of the model's layers leave of a context that is longer. */
static void add_windows(const budget_state *s, es_answer *a)
{
    const int64_t L = s->config->layers;
    int64_t cut = 0, least = s->n;
    if (s->mode != BUDGET_IDEAL)
        return;
    for (int64_t l = 0; l < L; l++) {
        cut += s->grids[l].sees < s->n;
        least = s->grids[l].sees < least ? s->grids[l].sees : least;
    }
    if (cut == L && least == budget_most_seen(s))
        es_answer_add_finding(
            a,
            "The model attends to the last %lld keys only. The cache holds no others, and policies "
            "keep no sinks, because the first keys are not among them.",
            (long long)least);
    else if (cut)
        es_answer_add_finding(
            a,
            "%lld of %lld layers attend to a window of %lld keys or more. Their keys are counted "
            "within it, and policies keep no sinks there, because the first keys are not among "
            "them.",
            (long long)cut, (long long)L, (long long)least);
}

/* Writes the plan's policies that choose from past queries, in a decoder: such a choice may bring a
 * dropped key back, which a cache that evicts cannot. "" if there is none. Returns out. */
static const char *say_recalling(const es_job *job, const budget_context *k, char out[ES_SAY_SIZE])
{
    const budget_state *s = job->state;
    out[0] = '\0';
    return s->config->causal ? say_policies(s, k, ES_POLICY_HISTORY | ES_POLICY_OBSERVED, out)
                             : out;
}

void budget_eviction_note(const es_job *job, const budget_context *k, char out[ES_PLAN_NOTE])
{
    char names[ES_SAY_SIZE];
    out[0] = '\0';
    if (*say_recalling(job, k, names))
        snprintf(out, ES_PLAN_NOTE,
                 "%s choose%s keys anew for each query, so that a dropped key may come back. Final "
                 "eviction costs more (uniform observe on MiniMind2-Small: +0.143 ± 0.049 KL), "
                 "and for prompt compression such a plan was worse than uniform (+0.079 ± "
                 "0.025 KL, 6 of 6 blocks).",
                 names, verb_ending(names));
}

void budget_add_cautions(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    char names[ES_SAY_SIZE];
    if (*say_recalling(job, k, names))
        es_answer_add_finding(
            a,
            "Caution: %s choose%s keys anew for each query, so that a dropped key may come back. "
            "Final eviction costs more; docs/CACHE-RESULTS.md has measurements.",
            names, verb_ending(names));
    if (s->config->causal && *say_policies(s, k, ES_POLICY_SCORES, names))
        es_answer_add_finding(
            a,
            "Caution: %s choose%s keys by each query's own scores and must read all keys first, so "
            "that the cache does not shrink. --no-query-scores leaves such policies out.",
            names, verb_ending(names));
    add_windows(s, a);
    if (s->mode != BUDGET_IDEAL && budget_keys(s, k->plan) == budget_all_keys(s) &&
        k->forecast.loss > ((const budget_params *)job->params)->loss)
        es_answer_add_finding(a, "Caution: even with all keys the finest of the number types is "
                                 "predicted to cost more than --loss allows; give finer types.");
    if (is_same_text(job->params))
        es_answer_add_finding(a, "Caution: --verify names a file that the plan was made from. The "
                                 "result does not hold for other text.");
    if (s->text.count < 4)
        es_answer_add_finding(a,
                              "Caution: %lld block%s of text %s little to calibrate on; use more "
                              "--blocks.",
                              (long long)s->text.count, s->text.count == 1 ? "" : "s",
                              s->text.count == 1 ? "is" : "are");
}
