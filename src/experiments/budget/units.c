/* SPDX-License-Identifier: Apache-2.0 */
/* units.c : table "kv_heads": what each key-value head of a cache keeps under the plan, and in
 * which number types; table "granularity": what engines lose that cannot give each head its own. */
#include <math.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"

/* ---- kv_heads ---- */

/* A row of the table of key-value heads. */
typedef struct unit_row {
    int64_t layer, kv_head;
    const char *policy;
    int64_t keys;
    double ratio;
    const char *k_type, *v_type;
    double bits, bytes;
    es_measured risk;
} unit_row;

static const es_column unit_columns[] = {
    ES_COL(unit_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(unit_row, kv_head, ES_FORMAT_COUNT, "kv head", "", "key-value head of the layer"),
    ES_COL(unit_row, policy, ES_FORMAT_TEXT, "policy", "",
           "rule that chooses the keys that stay; full: all keys"),
    ES_COL(unit_row, keys, ES_FORMAT_COUNT, "keys", "keys",
           "that stay of the prompt; decode mode: at any time"),
    ES_COL(unit_row, k_type, ES_FORMAT_TEXT, "K type", "", "number type of keys"),
    ES_COL(unit_row, v_type, ES_FORMAT_TEXT, "V type", "", "number type of values"),
    ES_COL(unit_row, bytes, ES_FORMAT_COUNT, "bytes", "bytes", "of these keys and their values"),
    ES_COL(unit_row, risk, ES_FORMAT_REAL, "risk", "",
           "mean square error of the head's part of the layer's output after the prompt, measured "
           "under this mode; error over blocks"),
    ES_COL(unit_row, ratio, ES_FORMAT_SHORT, "ratio", "", "share of the head's keys"),
    ES_COL(unit_row, bits, ES_FORMAT_SHORT, "bits", "",
           "per number with its scales, mean of keys and values"),
    {0}};
static const es_table_spec units_table = {
    "kv_heads",
    unit_columns,
    ES_VIEW("What each key-value head keeps",
            "layer kv_head policy keys ratio k_type v_type bits bytes risk"),
    ES_ROW(unit_row),
    .inside = "layers",
    .link = "layer",
    .nested = "kv_heads",
    .keys = "layer kv_head"};

es_measured budget_unit_risk(const es_job *job, const budget_context *k, int64_t unit)
{
    const budget_state *s = job->state;
    const budget_choice *choice = &k->plan[unit];
    for (int64_t b = 0; b < s->text.count; b++) {
        const es_curves c = budget_curves_at(s, es_job_numbers(job, BUDGET_CURVES, b));
        s->scratch[b] = budget_curve_at(s, unit / s->config->kv_heads,
                                        c.group + (unit * s->P + choice->candidate) * s->K,
                                        (double)choice->keys);
    }
    return es_measured_mean(s->scratch, s->text.count);
}

es_status budget_put_units(const es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &units_table);
    char word[BUDGET_SIZE], type[ES_KV_NAME];
    for (int64_t u = 0; u < s->units; u++) {
        const budget_choice *choice = &k->plan[u];
        const budget_candidate *c = &s->candidates[choice->candidate];
        unit_row *r = es_rows_add(t, unit_row);
        if (!r)
            return es_answer_status(a, err);
        r->layer = u / s->config->kv_heads;
        r->kv_head = u % s->config->kv_heads;
        r->policy =
            choice->keys >= s->grids[r->layer].sees
                ? "full"
                : es_table_format(t, "%s", budget_candidate_policy(s, choice->candidate, word));
        r->keys = choice->keys;
        r->k_type = es_table_format(t, "%s", es_kv_format_name(&c->unit.k, type, sizeof type));
        r->v_type = es_table_format(t, "%s", es_kv_format_name(&c->unit.v, type, sizeof type));
        r->ratio = (double)choice->keys / (double)s->grids[r->layer].sees;
        r->bits = 8.0 * c->bytes / (2.0 * (double)s->config->head_dim);
        r->bytes = (double)choice->keys * c->bytes;
        r->risk = budget_unit_risk(job, k, u);
    }
    return ES_OK;
}

/* ---- granularity ---- */

/* The prediction at the plan's cost for engines of one granularity. */
typedef struct granularity_row {
    const char *granularity;
    int64_t round;
    double ratio, state, kl, loss;
} granularity_row;

static const es_column granularity_columns[] = {
    ES_COL(granularity_row, granularity, ES_FORMAT_TEXT, "setting of", "",
           "what has a policy, a number of keys and types of its own"),
    ES_COL(granularity_row, round, ES_FORMAT_COUNT, "multiples of", "keys",
           "numbers of keys are multiples of this, or all keys"),
    ES_COL(granularity_row, ratio, ES_FORMAT_REAL, "ratio", "", "share kept"),
    ES_COL(granularity_row, state, ES_FORMAT_REAL, "predicted state", "",
           "error of the last hidden state, from sums of risks and optimism: not rehearsed",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(granularity_row, kl, ES_FORMAT_REAL, "predicted KL", "nats",
           "of the next token, predicted in the same way", .standing = ES_STANDING_HEURISTIC),
    ES_COL(granularity_row, loss, ES_FORMAT_REAL, "predicted loss", "nats",
           "extra loss per token; replaces KL where distributions do not fit into memory",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec granularity_table = {
    "granularity", granularity_columns,
    ES_VIEW("What coarser engines lose", .only_with_full = true), ES_ROW(granularity_row),
    .keys = "granularity round"};

/* Adds the row of one kind of engine. */
static es_status add_granularity(es_job *job, const budget_context *k, const budget_strategy *how,
                                 es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    budget_forecast f;
    budget_choice *choices;
    ES_TRY(budget_forecast_strategy(job, k, how, &choices, &f, err));
    granularity_row *r = es_rows_add(t, granularity_row);
    if (!r)
        return es_answer_status(job->answer, err);
    r->granularity = budget_granularities[how->granularity];
    r->round = how->round;
    r->ratio = budget_total(s, choices) / budget_all_cost(s);
    r->state = f.state[s->config->layers];
    if (!isnan(f.loss))
        *(budget_predicts_kl(job) ? &r->kl : &r->loss) = f.loss;
    return ES_OK;
}

es_status budget_put_granularity(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    static const int64_t rounds[] = {1, 16};
    const budget_state *s = job->state;
    if (s->mode == BUDGET_IDEAL)
        return ES_OK;
    es_table *t = es_answer_table(a, &granularity_table);
    for (int g = BUDGET_BY_HEAD; g <= BUDGET_BY_MODEL; g++)
        for (int i = 0; i < (s->mode == BUDGET_NONE ? 1 : 2); i++) {
            budget_strategy how = budget_strategy_of(s, BUDGET_OURS, budget_total(s, k->plan));
            how.granularity = (budget_granularity)g;
            how.round = rounds[i];
            if (budget_least_cost(s, &how) <= how.total)
                ES_TRY(add_granularity(job, k, &how, t, err));
        }
    return ES_OK;
}
