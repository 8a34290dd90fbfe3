/* SPDX-License-Identifier: Apache-2.0 */
/* allocations.c : table "allocations": the plan beside other ways to spend as much on heads and
 * layers.
 *
 * Predictions here are sums of risks, and of errors through transfers, times optimism (THEORY 15).
 * They leave out the rehearsal's factors, which belong to the plan that was rehearsed: on other
 * plans they are too large as often as the sums are too small (docs/CACHE-RESULTS.md). The plan is
 * predicted in the same way, so that all rows can be compared. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"

/* One allocation at one cost. */
typedef struct allocation_row {
    const char *allocation, *setting;
    double asked, ratio, state_predicted;
    es_measured state;
    double kl_predicted, loss_predicted;
    budget_outcome outcome;
    es_measured more, accuracy;
} allocation_row;

static const es_column columns[] = {
    ES_COL(allocation_row, allocation, ES_FORMAT_TEXT, "allocation", "",
           "ours: by marginal risk. A cache: uniform: the single setting of least predicted error; "
           "pyramid, ada: the same, divided as PyramidKV and Ada-KV do; lu-kv: least sum of the "
           "heads' risks, whatever later layers make of it; one type: ours with one pair of types. "
           "Ideal mode, each head under its best policy: uniform: the same for all; pyramid: "
           "falling with depth; mass: within a layer by the keys that hold 95 % of the weight"),
    ES_COL(allocation_row, setting, ES_FORMAT_TEXT, "setting", "",
           "of a cache whose heads all have the same: policy, keys, types of K and V"),
    ES_COL(allocation_row, asked, ES_FORMAT_REAL, "asked", "", "share to keep, as of --ratio"),
    ES_COL(allocation_row, ratio, ES_FORMAT_REAL, "ratio", "", "share kept"),
    ES_COL(allocation_row, state_predicted, ES_FORMAT_REAL, "predicted state", "",
           "error of the last hidden state, from sums of risks and optimism: not rehearsed",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(allocation_row, state, ES_FORMAT_REAL, "state error", "",
           "measured on held-out text, over its spread"),
    ES_COL(allocation_row, kl_predicted, ES_FORMAT_REAL, "predicted KL", "nats",
           "of the next token or the labels, predicted in the same way",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL_KEY(allocation_row, outcome.kl, "kl", ES_FORMAT_REAL, "KL", "nats",
               "measured on held-out text, late positions"),
    ES_COL(allocation_row, loss_predicted, ES_FORMAT_REAL, "predicted loss", "nats",
           "extra loss per token; replaces KL where distributions do not fit into memory",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL_KEY(allocation_row, outcome.loss, "loss", ES_FORMAT_REAL, "extra loss", "nats",
               "measured on held-out text, late positions"),
    ES_COL(allocation_row, more, ES_FORMAT_REAL, "than ours", "nats",
           "extra loss minus that of ours, on the same blocks"),
    ES_COL_KEY(allocation_row, outcome.agreement, "agreement", ES_FORMAT_REAL, "agreement", "",
               "share of most likely tokens, or labels, that stay the same"),
    ES_COL(allocation_row, accuracy, ES_FORMAT_REAL, "accuracy", "",
           "share of labelled texts that are right"),
    {0}};
static const es_table_spec allocations_table = {
    "allocations", columns,
    ES_VIEW("Ways to divide the budget",
            "allocation setting asked ratio state_predicted state kl_predicted kl loss_predicted "
            "loss more "
            "agreement accuracy",
            .only_with_full = true),
    ES_ROW(allocation_row), .keys = "asked allocation"};

int64_t budget_setting_of(const budget_state *s, budget_allocation allocation, double ratio)
{
    for (int64_t i = 0; i < s->n_settings; i++)
        if (s->settings[i].allocation == allocation && s->settings[i].ratio == ratio)
            return i;
    return -1;
}

/* Returns the loss of a block under one allocation. */
static double loss_on_block(const es_job *job, int64_t setting, int64_t block)
{
    return budget_trial_of(job, budget_verify_runs(job->state, setting), block).ends[ES_END_LOSS];
}

/* Sets the members that were measured on held-out text. Settings of equal ratio follow each other,
 * ours first. */
static void set_measured(const es_job *job, int64_t setting, allocation_row *r)
{
    const budget_state *s = job->state;
    int64_t ours = setting;
    while (s->settings[ours].allocation != BUDGET_OURS)
        ours--;
    r->state = budget_state_error(job, budget_verify_runs(s, setting), s->config->layers);
    budget_set_outcome(job, budget_verify_runs(s, setting), &r->outcome);
    budget_set_accuracy(job, setting, BUDGET_SPARSE_MODEL, &r->accuracy);
    if (setting == ours)
        return;
    for (int64_t b = 0; b < s->verify.count; b++)
        s->scratch[b] = loss_on_block(job, setting, b) - loss_on_block(job, ours, b);
    const es_measured more = es_measured_mean(s->scratch, s->verify.count);
    if (!isnan(more.value))
        r->more = more;
}

/* Returns "h2o:sinks=4, 128 keys, q8_0,q4_0" if all units of a cache have the same; else NULL. */
static const char *say_single(const budget_state *s, const budget_choice *choices, es_table *t)
{
    char policy[BUDGET_SIZE], types[BUDGET_SIZE];
    for (int64_t u = 0; u < s->units; u++)
        if (choices[u].candidate < 0 || choices[u].candidate != choices[0].candidate ||
            choices[u].keys != choices[0].keys || s->mode == BUDGET_IDEAL)
            return NULL;
    budget_candidate_policy(s, choices[0].candidate, policy);
    budget_candidate_types(s, choices[0].candidate, types);
    return es_table_format(t, "%s, %lld keys, %s", policy, (long long)choices[0].keys, types);
}

/* Adds the row of one allocation. Ada-KV decides on the text how many keys a head has, so that
 * nothing is predicted for it. */
static es_status add_row(es_job *job, const budget_context *k, const budget_strategy *how,
                         double ratio, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const double all = budget_all_cost(s);
    const int64_t setting = budget_setting_of(s, how->allocation, ratio);
    const bool predicts = how->allocation != BUDGET_ADA;
    budget_forecast f;
    budget_choice *choices;
    ES_TRY(budget_forecast_strategy(job, k, how, &choices, &f, err));
    allocation_row *r = es_rows_add(t, allocation_row);
    if (!r)
        return es_answer_status(job->answer, err);
    r->allocation = budget_allocation_names[how->allocation];
    r->setting = say_single(s, choices, t);
    r->asked = how->total / all;
    r->ratio = budget_total(s, choices) / all;
    if (predicts)
        r->state_predicted = f.state[s->config->layers];
    if (predicts && !isnan(f.loss))
        *(budget_predicts_kl(job) ? &r->kl_predicted : &r->loss_predicted) = f.loss;
    if (setting >= 0)
        set_measured(job, setting, r);
    return ES_OK;
}

/* Adds a row for each allocation of `ratio` of all; 0: as much as the plan costs. */
static es_status add_rows(es_job *job, const budget_context *k, double ratio, es_table *t,
                          es_error *err)
{
    const budget_state *s = job->state;
    const double total = ratio > 0.0 ? ratio * budget_all_cost(s) : budget_total(s, k->plan);
    for (int64_t w = 0; w < s->n_ways; w++) {
        budget_strategy how = budget_strategy_of(s, s->ways[w], total);
        how.asked = how.allocation == BUDGET_OURS && ratio == 0.0;
        ES_TRY(add_row(job, k, &how, ratio, t, err));
    }
    return ES_OK;
}

bool budget_is_reachable(const budget_state *s, double ratio)
{
    return ratio * budget_all_cost(s) >=
           budget_least_cost(s, &(budget_strategy){.round = s->round});
}

es_status budget_put_allocations(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &allocations_table);
    ES_TRY(add_rows(job, k, 0.0, t, err));
    for (int64_t i = 0; i < p->frontier.count; i++)
        if (p->frontier.reals[i] != p->ratio && budget_is_reachable(s, p->frontier.reals[i]))
            ES_TRY(add_rows(job, k, p->frontier.reals[i], t, err));
    return ES_OK;
}
