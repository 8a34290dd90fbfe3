/* SPDX-License-Identifier: Apache-2.0 */
/* heads.c : tables "heads" and "ranks": heads thinned one by one, and whether those with large
 * horizons cost more. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/downstream/downstream.h"
#include "experiments/kit/answer_kit.h"
#include "stats/spearman.h"

/* ---- tables ---- */

/* A row of the table of heads: the cost of thinning this head alone. */
typedef struct head_row {
    downstream_asked asked;
    int64_t layer, head;
    double horizon;
    downstream_cost cost;
} head_row;

static const es_column head_columns[] = {
    DOWNSTREAM_ASKED_COLUMNS(head_row),
    ES_COL(head_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(head_row, horizon, ES_FORMAT_SHORT, "horizon", "",
           "`|S^1/2 A S^1/2|`, S the covariance of the layer's input over all tokens of the texts"),
    DOWNSTREAM_COST_COLUMNS(head_row),
    {0}};
static const es_table_spec heads_table = {
    "heads", head_columns,
    ES_VIEW("Keys dropped in one head at a time",
            "policy keep keys_asked layer head horizon kl cosine agreement lost recall",
            .only_with_full = true),
    ES_ROW(head_row), .keys = "policy keep keys_asked layer head"};

/* A row of the table of correlations between horizon and cost. */
typedef struct rank_row {
    downstream_asked asked;
    int64_t heads;
    double spearman, spearman_low, spearman_high, spearman_p;
    double within, within_low, within_high, within_p;
} rank_row;

static const es_column rank_columns[] = {
    DOWNSTREAM_ASKED_COLUMNS(rank_row),
    ES_COL(rank_row, heads, ES_FORMAT_COUNT, "heads", ""),
    ES_COL(rank_row, spearman, ES_FORMAT_REAL, "Spearman", "",
           "correlation of a head's horizon with the cost of dropping keys in it alone (KL, or 1 - "
           "cosine)"),
    ES_COL_KEY(rank_row, spearman_low, "spearman_ci.0", ES_FORMAT_REAL, "from", "",
               "95 % interval over heads, as if they were independent (Bonett and Wright)"),
    ES_COL_KEY(rank_row, spearman_high, "spearman_ci.1", ES_FORMAT_REAL, "to", ""),
    ES_COL(rank_row, spearman_p, ES_FORMAT_SHORT, "p", "", "p-value of no relation, Student's t"),
    ES_COL(rank_row, within, ES_FORMAT_REAL, "inside layers", "",
           "the same with ranks relative to the mean of their layer: horizons and costs both "
           "change with depth"),
    ES_COL_KEY(rank_row, within_low, "within_ci.0", ES_FORMAT_REAL, "from", ""),
    ES_COL_KEY(rank_row, within_high, "within_ci.1", ES_FORMAT_REAL, "to", ""),
    ES_COL(rank_row, within_p, ES_FORMAT_SHORT, "p", ""),
    {0}};
static const es_table_spec ranks_table = {"ranks", rank_columns,
                                          ES_VIEW("Do heads with large horizons cost more?"),
                                          ES_ROW(rank_row), .keys = "policy keep keys_asked"};

/* ---- rows ---- */

/* Scratch memory of the heads in scope. */
typedef struct head_costs {
    double *horizon, *cost; /* (in_scope) the pairs that are correlated */
    int64_t *layer;         /* (in_scope) */
    double *texts;          /* (count) costs of single texts */
} head_costs;

/* Settings of single heads follow those of rows and strata. */
static int64_t first_head(const es_job *job)
{
    const downstream_params *p = job->params;
    const downstream_state *s = job->state;
    return 1 + s->n_rows * (1 + (p->strata ? DOWNSTREAM_STRATA : 0));
}

/* Adds a row for every head in scope at policy and amount r; x gets horizons, costs and layers. */
static es_status add_heads(es_job *job, int64_t r, const head_costs *x, es_table *t, es_error *err)
{
    const downstream_state *s = job->state;
    const double *horizons = es_job_numbers(job, DOWNSTREAM_HORIZONS, 0);
    for (int64_t i = 0; i < s->in_scope; i++) {
        const int64_t setting = first_head(job) + r * s->in_scope + i;
        const int64_t head = s->settings[setting].head;
        head_row *row = es_rows_add(t, head_row);
        if (!row)
            return es_answer_status(job->answer, err);
        downstream_fill_asked(job, setting, t, &row->asked);
        row->layer = head / s->config->heads;
        row->head = head % s->config->heads;
        row->horizon = horizons[head];
        ES_TRY(downstream_compare(job, setting, &row->cost, x->texts, err));
        x->horizon[i] = row->horizon;
        x->cost[i] = row->cost.per_text.value;
        x->layer[i] = row->layer;
    }
    return ES_OK;
}

/* Adds the correlations over the heads of x at policy and amount r. */
static es_status add_ranks(es_job *job, int64_t r, const head_costs *x, es_table *t, es_error *err)
{
    const downstream_state *s = job->state;
    es_mem_limit *budget = job->exec.budget;
    es_spearman all, within;
    ES_TRY(es_spearman_of(x->horizon, x->cost, NULL, s->in_scope, budget, &all, err));
    ES_TRY(es_spearman_of(x->horizon, x->cost, x->layer, s->in_scope, budget, &within, err));
    rank_row *row = es_rows_add(t, rank_row);
    if (!row)
        return es_answer_status(job->answer, err);
    downstream_fill_asked(job, 1 + r, t, &row->asked);
    row->asked.keys = downstream_keys(job, first_head(job) + (r + 1) * s->in_scope - 1);
    row->heads = all.count;
    row->spearman = all.value;
    row->spearman_low = all.low;
    row->spearman_high = all.high;
    row->spearman_p = all.p;
    row->within = within.value;
    row->within_low = within.low;
    row->within_high = within.high;
    row->within_p = within.p;
    return ES_OK;
}

/* Adds the finding whether a head's horizon predicts the cost of thinning it. */
static void report_ranks(const es_job *job, int64_t r, const rank_row *x, es_answer *a)
{
    const downstream_state *s = job->state;
    char where[DOWNSTREAM_SIZE], inside[ES_SAY_SIZE] = "";
    if (!isfinite(x->spearman))
        return;
    if (s->only < 0 && isfinite(x->within))
        snprintf(inside, sizeof inside, "; inside layers %.2f (p = %.2g)", x->within, x->within_p);
    es_answer_add_finding(
        a,
        "Spearman's correlation of a head's horizon with the cost of dropping keys "
        "in it alone is %.2f (95 %% interval %.2f to %.2f; %lld heads, %s)%s.",
        x->spearman, x->spearman_low, x->spearman_high, (long long)x->heads,
        downstream_say_row(s, r, where), inside);
}

es_status downstream_put_heads(es_job *job, es_answer *answer, es_error *err)
{
    const downstream_state *s = job->state;
    const int64_t count = s->n_rows * s->in_scope;
    es_table *ranks = es_answer_table(answer, &ranks_table); /* shown before the heads */
    es_table *t = es_answer_table(answer, &heads_table);
    head_costs x;
    ES_TRY(ES_JOB_NEW(job, x.horizon, s->in_scope, err));
    ES_TRY(ES_JOB_NEW(job, x.cost, s->in_scope, err));
    ES_TRY(ES_JOB_NEW(job, x.layer, s->in_scope, err));
    ES_TRY(ES_JOB_NEW(job, x.texts, s->count, err));
    for (int64_t r = 0; r < s->n_rows; r++) {
        ES_TRY(add_heads(job, r, &x, t, err));
        ES_TRY(add_ranks(job, r, &x, ranks, err));
    }
    if (s->n_rows)
        report_ranks(job, downstream_middle(s), es_rows(ranks, rank_row) + downstream_middle(s),
                     answer);
    return DOWNSTREAM_CORRECT(job, es_rows(t, head_row), head_row, cost.lost_p, count, err);
}
