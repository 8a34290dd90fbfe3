/* SPDX-License-Identifier: Apache-2.0 */
/* heads.c : table "heads": the policy and the keys of each head under the plan, their risk, and how
 * the head spreads its weight. */
#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"
#include "policy/policy.h"
#include "stats/special.h"
#include "theory/key_weights.h"

/* A row of the table of heads: what the plan keeps, and the expected error of the head's output. */
typedef struct head_row {
    int64_t layer, head, group;
    const char *policy;
    int64_t keys;
    const char *correction;
    es_measured risk;
    double limit, spread, ess, need, sinks;
    const char *why;
} head_row;

static const es_column columns[] = {
    ES_COL(head_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(head_row, group, ES_FORMAT_COUNT, "group", "", "key-value head whose keys are kept"),
    ES_COL(head_row, policy, ES_FORMAT_TEXT, "policy", "",
           "rule that chooses the keys; full: all keys, whatever the context"),
    ES_COL(head_row, keys, ES_FORMAT_COUNT, "keys", "keys"),
    ES_COL(head_row, correction, ES_FORMAT_TEXT, "correction", "",
           "factor on randomly kept keys: none, or inverse to the probability"),
    ES_COL(head_row, risk, ES_FORMAT_REAL, "risk", "",
           "mean square error of the head's part of the layer's output; error over blocks",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(head_row, limit, ES_FORMAT_REAL, "limit", "",
           "least risk of any rule that keeps as many keys independently, first order",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(head_row, spread, ES_FORMAT_REAL, "spread", "",
           "mean square error if one random key were kept"),
    ES_COL(head_row, ess, ES_FORMAT_SHORT, "ESS", "keys", "effective number of keys, `1/sum w^2`"),
    ES_COL(head_row, need, ES_FORMAT_SHORT, "need", "keys", "keys that hold 95 % of the weight"),
    ES_COL(head_row, sinks, ES_FORMAT_REAL, "sink mass", "", "weight of the first four keys"),
    ES_COL(head_row, why, ES_FORMAT_TEXT, "concentration", "",
           "how many keys share the weight, by the 95 % interval of ESS: averaging (at 100 or "
           "more, or 2/3 of the keys), selective, single-key (below 2), undecided (the interval "
           "contains a cut-off)"),
    {0}};
static const es_table_spec heads_table = {
    "heads",
    columns,
    ES_VIEW("Keys of each head", "layer head group policy keys risk limit ess need sinks why"),
    ES_ROW(head_row),
    .inside = "layers",
    .link = "layer",
    .nested = "heads",
    .keys = "layer head"};

/* Means over blocks of a head's facts, and its risk under the plan. */
typedef struct head_means {
    double facts[ES_FACTS], limit;
    es_measured risk, ess;
} head_means;

/* Returns means over blocks of a head's facts, its risk under the plan and the error over
 * blocks. */
static head_means means_of(const es_job *job, const budget_context *k, int64_t head)
{
    const budget_state *s = job->state;
    const int64_t size = s->config->heads / s->config->kv_heads, B = s->text.count;
    const budget_choice *choice = &k->plan[head / size];
    const int64_t layer = head / s->config->heads;
    const double keys = (double)choice->keys;
    double *risk = s->scratch, *ess = risk + B;
    head_means m = {0};
    for (int64_t b = 0; b < B; b++) {
        const es_curves c = budget_curves_at(s, es_job_numbers(job, BUDGET_CURVES, b));
        for (int i = 0; i < ES_FACTS; i++)
            m.facts[i] += c.facts[head * ES_FACTS + i] / (double)B;
        m.limit += budget_curve_at(s, layer, c.limit + head * s->K, keys) / (double)B;
        risk[b] = choice->candidate < 0
                      ? 0.0
                      : budget_curve_at(s, layer, c.risk + (head * s->P + choice->candidate) * s->K,
                                        keys);
        ess[b] = c.facts[head * ES_FACTS + ES_FACT_ESS];
    }
    m.risk = es_measured_mean(risk, B);
    m.ess = es_measured_mean(ess, B);
    return m;
}

double budget_head_risk(const es_job *job, const budget_context *k, int64_t head)
{
    return means_of(job, k, head).risk.value;
}

/* Returns the class of a head by the 95 % interval of its ESS over blocks. A single block has no
 * interval: the value decides. */
static const char *concentration_of(const es_measured *ess, int64_t blocks, int64_t sees)
{
    const double half =
        blocks > 1 ? ess->se * es_student_quantile((double)blocks - 1.0, 0.025) : 0.0;
    return es_regime_name(es_regime_within((double)sees, ess->value - half, ess->value + half));
}

/* Sets the members that describe what the head keeps. */
static void set_policy(const budget_state *s, const budget_choice *choice, es_table *t, head_row *r)
{
    const budget_grid *grid = &s->grids[r->layer];
    char word[ES_POLICY_SIZE];
    r->correction = "none";
    if (choice->candidate < 0) {
        r->policy = "full";
        r->keys = grid->sees;
        return;
    }
    const es_policy_spec *spec = &s->policies[r->layer * s->P + choice->candidate];
    r->policy = es_table_format(t, "%s", es_policy_word(spec, word));
    r->keys = choice->keys;
    if (es_policy_inputs(spec->policy) & ES_POLICY_CHANCE && es_policy_corrects(spec))
        r->correction = "inverse";
}

es_status budget_put_heads(const es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t heads = s->config->heads, size = heads / s->config->kv_heads;
    es_table *t = es_answer_table(a, &heads_table);
    for (int64_t h = 0; h < s->config->layers * heads; h++) {
        const head_means m = means_of(job, k, h);
        head_row *r = es_rows_add(t, head_row);
        if (!r)
            return es_answer_status(a, err);
        r->layer = h / heads;
        r->head = h % heads;
        r->group = h % heads / size;
        set_policy(s, &k->plan[h / size], t, r);
        r->risk = m.risk;
        r->limit = m.limit;
        r->spread = m.facts[ES_FACT_SPREAD];
        r->ess = m.facts[ES_FACT_ESS];
        r->need = m.facts[ES_FACT_KEYS_95];
        r->sinks = m.facts[ES_FACT_SINKS];
        r->why = concentration_of(&m.ess, s->text.count, s->grids[r->layer].sees);
    }
    return ES_OK;
}
