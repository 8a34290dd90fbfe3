/* SPDX-License-Identifier: Apache-2.0 */
/* frontier.c : table "frontier": predicted error against the number of keys, for the plan's
 * allocation with all policies, with some of them, and for the limit of independent choices. The
 * predictions leave out the rehearsal's factors, as in allocations.c. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"

/* One set of policies at one number of keys. */
typedef struct frontier_row {
    const char *by;
    double asked, ratio, state, error, kl, loss;
} frontier_row;

static const es_column columns[] = {
    ES_COL(frontier_row, by, ES_FORMAT_TEXT, "by", "",
           "our allocation with all policies, with those that need no scores of the query, or with "
           "one policy; limit: no rule that keeps keys independently does better"),
    ES_COL(frontier_row, asked, ES_FORMAT_REAL, "asked", "", "share of the keys to keep"),
    ES_COL(frontier_row, ratio, ES_FORMAT_REAL, "ratio", "", "share of the keys kept"),
    ES_COL(frontier_row, state, ES_FORMAT_REAL, "state error", "",
           "predicted error of the last hidden state, over its spread",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(frontier_row, error, ES_FORMAT_REAL, "attention error", "",
           "root mean square over layers of the predicted errors of attention outputs, over their "
           "spread",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(frontier_row, kl, ES_FORMAT_REAL, "KL", "nats",
           "predicted, of the next token or the labels", .standing = ES_STANDING_HEURISTIC),
    ES_COL(frontier_row, loss, ES_FORMAT_REAL, "extra loss", "nats",
           "predicted, per token; replaces KL where distributions do not fit into memory",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec frontier_table = {
    "frontier", columns, ES_VIEW("Frontier: predicted error against keys", .only_with_full = true),
    ES_ROW(frontier_row), .keys = "by asked"};

/* Adds a row of the frontier: error of the worst layer, root mean square over layers, and error of
 * the last state at one ratio. */
static es_status add_row(const es_job *job, const char *by, double asked, double ratio,
                         const budget_forecast *f, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    double sum = 0.0;
    frontier_row *r = es_rows_add(t, frontier_row);
    if (!r)
        return es_answer_status(job->answer, err);
    for (int64_t l = 0; l < L; l++)
        sum += f->own[l] * f->own[l] / (double)L;
    r->by = es_table_format(t, "%s", by);
    r->asked = asked;
    r->ratio = ratio;
    r->state = f->state[L];
    r->error = sqrt(sum);
    if (!isnan(f->loss))
        *(budget_predicts_kl(job) ? &r->kl : &r->loss) = f->loss;
    return ES_OK;
}

/* Adds our allocation with the policies of only (P); NULL: all. */
static es_status add_policies(es_job *job, const budget_context *k, const char *by,
                              const bool *only, double ratio, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const double all = budget_all_keys(s);
    budget_forecast f;
    budget_choice *choices;
    budget_factors own = {0};
    const budget_strategy r = {.allocation = BUDGET_OURS, .total = ratio * all, .only = only};
    ES_TRY(budget_forecast_new(s, k->arena, &f, err));
    ES_TRY(ES_JOB_NEW(job, choices, s->units, err));
    ES_TRY(ES_JOB_NEW(job, own.optimism, s->config->layers, err));
    ES_TRY(budget_apply(job, k, &r, &k->all, k->arena, choices, err));
    ES_TRY(budget_optimism(job, k, &r, own.optimism, err));
    budget_predict(s, &k->all, choices, NULL, &own, &f);
    return add_row(job, by, ratio, budget_total(s, choices) / all, &f, t, err);
}

/* Adds the lower bound at one ratio: what no policy that keeps that many keys can go below, to
 * first order. */
static es_status add_limit(es_job *job, const budget_context *k, double ratio, es_table *t,
                           es_error *err)
{
    const budget_state *s = job->state;
    budget_forecast f;
    double *own2;
    ES_TRY(budget_forecast_new(s, k->arena, &f, err));
    ES_TRY(ES_JOB_NEW(job, own2, s->config->layers, err));
    ES_TRY(budget_allocate_limit(s, &k->all, ratio * budget_all_keys(s), k->arena, own2, err));
    budget_predict(s, &k->all, NULL, own2, NULL, &f);
    return add_row(job, "limit", ratio, ratio, &f, t, err);
}

/* Adds all rows at one share of the keys; only (P) is scratch memory. */
static es_status add_ratio(es_job *job, const budget_context *k, double ratio, bool *only,
                           es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    int64_t deployable = 0; /* policies that need no scores of the query */
    char word[ES_POLICY_ROOM];
    ES_TRY(add_policies(job, k, "all policies", NULL, ratio, t, err));
    for (int64_t i = 0; i < s->P; i++) {
        only[i] = es_policy_deployable(s->policies[i].policy);
        deployable += only[i];
    }
    if (deployable && deployable < s->P)
        ES_TRY(add_policies(job, k, "no query scores", only, ratio, t, err));
    for (int64_t i = 0; i < s->P && s->P > 1; i++) {
        memset(only, 0, (size_t)s->P * sizeof *only);
        only[i] = true;
        ES_TRY(add_policies(job, k, es_policy_word(&s->policies[i], word), only, ratio, t, err));
    }
    return add_limit(job, k, ratio, t, err);
}

es_status budget_put_frontier(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &frontier_table);
    bool *only;
    ES_TRY(ES_JOB_NEW(job, only, s->P, err));
    for (int64_t i = 0; i < p->frontier.count; i++)
        if (budget_is_reachable(s, p->frontier.reals[i]))
            ES_TRY(add_ratio(job, k, p->frontier.reals[i], only, t, err));
    return ES_OK;
}
