/* SPDX-License-Identifier: Apache-2.0 */
/* frontier.c : table "frontier": predicted error against what is kept, for the plan's
 * allocation with all candidates, with some of them, and for the limit of independent choices. The
 * predictions leave out the rehearsal's factors, as in allocations.c. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"
#include "policy/policy.h"

/* One set of candidates at one share. */
typedef struct frontier_row {
    const char *by;
    double asked, ratio, state, error, kl, loss;
} frontier_row;

static const es_column columns[] = {
    ES_COL(frontier_row, by, ES_FORMAT_TEXT, "by", "",
           "our allocation with all policies and types, with one policy, or with one pair of types "
           "(K,V). Ideal mode: also policies that need no scores of the query; limit: no rule that "
           "keeps keys independently does better"),
    ES_COL(frontier_row, asked, ES_FORMAT_REAL, "asked", "", "share to keep, as of --ratio"),
    ES_COL(frontier_row, ratio, ES_FORMAT_REAL, "ratio", "", "share kept"),
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
    "frontier", columns,
    ES_VIEW("Frontier: predicted error against what is kept", .only_with_full = true),
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

/* Adds our allocation with the candidates of only (P); NULL: all. */
static es_status add_policies(es_job *job, const budget_context *k, const char *by,
                              const bool *only, double ratio, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const double all = budget_all_cost(s);
    budget_forecast f;
    budget_choice *choices;
    budget_factors own = {0};
    budget_strategy r = budget_strategy_of(s, BUDGET_OURS, ratio * all);
    r.only = only;
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
    ES_TRY(budget_allocate_limit(s, &k->all, ratio * budget_all_cost(s), k->arena, own2, err));
    budget_predict(s, &k->all, NULL, own2, NULL, &f);
    return add_row(job, "limit", ratio, ratio, &f, t, err);
}

/* Adds the candidates whose number over `step`, modulo `count`, is `at`, if they are affordable:
 * one policy, or one pair of types. */
static es_status add_class(es_job *job, const budget_context *k, const char *by, int64_t step,
                           int64_t count, int64_t at, double ratio, bool *only, es_table *t,
                           es_error *err)
{
    const budget_state *s = job->state;
    for (int64_t p = 0; p < s->P; p++)
        only[p] = p / step % count == at;
    const budget_strategy how = {.only = only, .round = s->round};
    return ratio * budget_all_cost(s) >= budget_least_cost(s, &how)
               ? add_policies(job, k, by, only, ratio, t, err)
               : ES_OK;
}

/* Adds ideal mode's policies that need no scores of the query. */
static es_status add_deployable(es_job *job, const budget_context *k, double ratio, bool *only,
                                es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    int64_t deployable = 0;
    for (int64_t i = 0; i < s->P; i++) {
        only[i] = es_policy_deployable(s->policies[i].policy);
        deployable += only[i];
    }
    return deployable && deployable < s->P
               ? add_policies(job, k, "no query scores", only, ratio, t, err)
               : ES_OK;
}

/* Adds all rows at one share; only (P) is scratch memory. */
static es_status add_ratio(es_job *job, const budget_context *k, double ratio, bool *only,
                           es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t policies = s->P / s->types;
    const bool ideal = s->mode == BUDGET_IDEAL;
    char word[BUDGET_SIZE];
    ES_TRY(add_policies(job, k, "all policies", NULL, ratio, t, err));
    if (ideal)
        ES_TRY(add_deployable(job, k, ratio, only, t, err));
    for (int64_t i = 0; i < policies && policies > 1; i++)
        ES_TRY(add_class(job, k, budget_candidate_policy(s, i * s->types, word), s->types, policies,
                         i, ratio, only, t, err));
    for (int64_t i = 0; i < s->types && s->types > 1; i++)
        ES_TRY(add_class(job, k, budget_candidate_types(s, i, word), 1, s->types, i, ratio, only, t,
                         err));
    return ideal ? add_limit(job, k, ratio, t, err) : ES_OK;
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
