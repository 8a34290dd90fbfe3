/* SPDX-License-Identifier: Apache-2.0 */
/* calibration.c : tables "calibration" and "domains": plans made from less text, and from another
 * text. All errors are predicted from risks alone. */
#include <math.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"

/* ---- two plans ---- */

/* The difference of two plans: share of the budget that is in other heads, and share of the units
 * with another policy. */
typedef struct plan_difference {
    double moved, policies;
} plan_difference;

/* Returns how far two plans differ: the share of the budget that one gives to other units,
 * and the share of units with another candidate. */
static plan_difference difference_of(const budget_state *s, const budget_choice *a,
                                     const budget_choice *b)
{
    const double total = budget_total(s, b);
    plan_difference d = {0};
    for (int64_t u = 0; u < s->units; u++) {
        d.moved += 0.5 * fabs(budget_choice_cost(s, &a[u]) - budget_choice_cost(s, &b[u])) / total;
        d.policies += (a[u].candidate != b[u].candidate) / (double)s->units;
    }
    return d;
}

/* Predicts the squared error of the last hidden state, over its spread: *out. */
static es_status predict_state2(const budget_state *s, const budget_means *means,
                                const budget_choice *choices, es_arena *arena, double *out,
                                es_error *err)
{
    budget_forecast f;
    ES_TRY(budget_forecast_new(s, arena, &f, err));
    budget_predict(s, means, choices, NULL, NULL, &f);
    *out = f.state[s->config->layers] * f.state[s->config->layers];
    return ES_OK;
}

/* Allocates a policy and number of keys for every unit. */
static es_status choices_new(const budget_state *s, es_arena *arena, budget_choice **out,
                             es_error *err)
{
    return ES_ARENA_NEW(arena, *out, s->units, "choices", err);
}

/* ---- less text ---- */

/* Plans made from a number of blocks each. */
typedef struct calibration_row {
    int64_t blocks, tokens, plans;
    double moved, policies, state, worse;
} calibration_row;

static const es_column calibration_columns[] = {
    ES_COL(calibration_row, blocks, ES_FORMAT_COUNT, "blocks", "",
           "blocks of the calibration text that a plan is made from"),
    ES_COL(calibration_row, tokens, ES_FORMAT_COUNT, "tokens", "tokens", "in these blocks"),
    ES_COL(calibration_row, plans, ES_FORMAT_COUNT, "plans", "",
           "plans made from different blocks; the other columns are means over them"),
    ES_COL(calibration_row, moved, ES_FORMAT_REAL, "moved", "",
           "share of the budget that such a plan gives to other heads than the full plan"),
    ES_COL(calibration_row, policies, ES_FORMAT_REAL, "other policy", "",
           "share of the key-value heads with another policy or other number types"),
    ES_COL(calibration_row, state, ES_FORMAT_REAL, "state error", "",
           "of the last hidden state on the other blocks, from risks alone",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(calibration_row, worse, ES_FORMAT_REAL, "worse by", "",
           "relative increase over the full plan, which was made from those blocks too"),
    {0}};
static const es_table_spec calibration_table = {
    "calibration", calibration_columns,
    ES_VIEW("How much text the plan needs", .only_with_full = true), ES_ROW(calibration_row),
    .keys = "blocks"};

/* Sums over plans. */
typedef struct calibration_sums {
    plan_difference difference;
    double state2, full_state2; /* squared errors under these plans, and under the full plan */
} calibration_sums;

/* Makes the plan of blocks [from, from + count) and adds its errors on the other blocks. */
static es_status add_plan(es_job *job, const budget_context *k, int64_t from, int64_t count,
                          es_arena *arena, calibration_sums *sums, es_error *err)
{
    const budget_state *s = job->state;
    const budget_subset of = {from, from + count, false}, rest = {from, from + count, true};
    budget_means means, others;
    budget_choice *choices;
    double state2, full_state2;
    ES_TRY(choices_new(s, arena, &choices, err));
    ES_TRY(budget_average(job, of, &job->exec, arena, &means, err));
    ES_TRY(budget_average(job, rest, &job->exec, arena, &others, err));
    ES_TRY(budget_plan_for(s, &means, &k->target, arena, choices, err));
    ES_TRY(predict_state2(s, &others, choices, arena, &state2, err));
    ES_TRY(predict_state2(s, &others, k->plan, arena, &full_state2, err));
    const plan_difference one = difference_of(s, choices, k->plan);
    sums->difference.moved += one.moved;
    sums->difference.policies += one.policies;
    sums->state2 += state2;
    sums->full_state2 += full_state2;
    return ES_OK;
}

/* Adds the row of plans from `count` blocks each: as many as the text has without overlap. */
static es_status add_calibration(es_job *job, const budget_context *k, int64_t count, es_table *t,
                                 es_error *err)
{
    const budget_state *s = job->state;
    const int64_t plans = s->text.count / count;
    const double P = (double)plans;
    calibration_sums sums = {0};
    for (int64_t i = 0; i < plans; i++) {
        es_arena arena = {.budget = job->exec.budget};
        const es_status status = add_plan(job, k, i * count, count, &arena, &sums, err);
        es_arena_free(&arena);
        ES_TRY(status);
    }
    calibration_row *r = es_rows_add(t, calibration_row);
    if (!r)
        return es_answer_status(job->answer, err);
    *r = (calibration_row){.blocks = count,
                           .tokens = count * s->n,
                           .plans = plans,
                           .moved = sums.difference.moved / P,
                           .policies = sums.difference.policies / P,
                           .state = sqrt(sums.state2 / P),
                           .worse = sqrt(sums.state2 / sums.full_state2) - 1.0};
    return ES_OK;
}

es_status budget_put_calibration(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &calibration_table);
    for (int64_t count = 1; count < s->text.count; count *= 2)
        ES_TRY(add_calibration(job, k, count, t, err));
    return ES_OK;
}

/* ---- another text ---- */

/* One of the two texts. */
typedef struct domain_row {
    const char *text;
    int64_t blocks;
    double own, foreign, worse, moved, policies;
} domain_row;

static const es_column domain_columns[] = {
    ES_COL(domain_row, text, ES_FORMAT_TEXT, "text", "",
           "calibration: --text; other: --other-text"),
    ES_COL(domain_row, blocks, ES_FORMAT_COUNT, "blocks", ""),
    ES_COL(domain_row, own, ES_FORMAT_REAL, "own plan", "",
           "error of the last hidden state on each block under the plan made from the other blocks "
           "of the same text, from risks alone",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(domain_row, foreign, ES_FORMAT_REAL, "foreign plan", "",
           "error under the plan made from the other text", .standing = ES_STANDING_HEURISTIC),
    ES_COL(domain_row, worse, ES_FORMAT_REAL, "worse by", "",
           "relative increase from own to foreign plan"),
    ES_COL(domain_row, moved, ES_FORMAT_REAL, "moved", "",
           "share of the budget that the two plans give to different heads"),
    ES_COL(domain_row, policies, ES_FORMAT_REAL, "other policy", "",
           "share of the key-value heads with another policy or other number types"),
    {0}};
static const es_table_spec domains_table = {"domains", domain_columns,
                                            ES_VIEW("Plans of two texts", .only_with_full = true),
                                            ES_ROW(domain_row), .keys = "text"};

/* A text with its plan. */
typedef struct domain {
    int stage;
    int64_t blocks;
    budget_means means;
    budget_choice *plan;
} domain;

/* Makes the plan of one domain from its own mean risks. How a layer's error passes to the next is
 * measured on --text only and is copied. */
static es_status domain_new(es_job *job, const budget_context *k, int stage, int64_t blocks,
                            domain *out, es_error *err)
{
    const budget_state *s = job->state;
    *out = (domain){.stage = stage, .blocks = blocks};
    ES_TRY(choices_new(s, k->arena, &out->plan, err));
    ES_TRY(budget_average_risks(job, stage, (budget_subset){0, blocks, false}, &job->exec, k->arena,
                                &out->means, err));
    budget_copy_gains(&k->all, &out->means); /* transfers are measured on --text alone */
    return budget_plan_for(s, &out->means, &k->target, k->arena, out->plan, err);
}

/* Adds to *mean the squared error on block b under the plan of the text's other blocks. A text of
 * one block has only that block's own plan. */
static es_status add_own_state2(es_job *job, const budget_context *k, const domain *d, int64_t b,
                                es_arena *arena, double *mean, es_error *err)
{
    const budget_state *s = job->state;
    const budget_subset block = {b, b + 1, false}, rest = {b, b + 1, d->blocks > 1};
    budget_means alone, others;
    budget_choice *choices;
    double state2;
    ES_TRY(choices_new(s, arena, &choices, err));
    ES_TRY(budget_average_risks(job, d->stage, block, &job->exec, arena, &alone, err));
    ES_TRY(budget_average_risks(job, d->stage, rest, &job->exec, arena, &others, err));
    budget_copy_gains(&k->all, &alone);
    budget_copy_gains(&k->all, &others);
    ES_TRY(budget_plan_for(s, &others, &k->target, arena, choices, err));
    ES_TRY(predict_state2(s, &alone, choices, arena, &state2, err));
    *mean += state2 / (double)d->blocks;
    return ES_OK;
}

/* Adds the row of a domain: its own plan against the plan of the other domain, both predicted on
 * this domain. */
static es_status add_domain(es_job *job, const budget_context *k, const char *name, const domain *d,
                            const domain *other, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const plan_difference difference = difference_of(s, d->plan, other->plan);
    double own = 0.0, foreign;
    for (int64_t b = 0; b < d->blocks; b++) {
        es_arena arena = {.budget = job->exec.budget};
        const es_status status = add_own_state2(job, k, d, b, &arena, &own, err);
        es_arena_free(&arena);
        ES_TRY(status);
    }
    ES_TRY(predict_state2(s, &d->means, other->plan, k->arena, &foreign, err));
    domain_row *r = es_rows_add(t, domain_row);
    if (!r)
        return es_answer_status(job->answer, err);
    *r = (domain_row){.text = name,
                      .blocks = d->blocks,
                      .own = sqrt(own),
                      .foreign = sqrt(foreign),
                      .worse = sqrt(foreign / own) - 1.0,
                      .moved = difference.moved,
                      .policies = difference.policies};
    return ES_OK;
}

es_status budget_put_domains(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    domain here, there;
    if (!s->others.count)
        return ES_OK;
    es_table *t = es_answer_table(a, &domains_table);
    ES_TRY(domain_new(job, k, BUDGET_CURVES, s->text.count, &here, err));
    ES_TRY(domain_new(job, k, BUDGET_OTHERS, s->others.count, &there, err));
    ES_TRY(add_domain(job, k, "calibration", &here, &there, t, err));
    return add_domain(job, k, "other", &there, &here, t, err);
}
