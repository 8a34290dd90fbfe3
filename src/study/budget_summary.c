/* budget_summary.c : the plan, what it will cost, what other ways of sharing out would cost, and
 * the limit of all of them; beside it what verification found. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "study/answer_kit.h"
#include "study/budget_study.h"

/* ---- tables ---- */

static const es_column plan_columns[] = {
    {"context", "context", "tokens", ES_FORMAT_COUNT, "that the plan is for"},
    {"keys_kept", "keys kept", "keys", ES_FORMAT_COUNT, "summed over layers and key-value heads"},
    {"keys_all", "of", "keys", ES_FORMAT_COUNT},
    {"ratio", "ratio", "", ES_FORMAT_REAL},
    {"bytes_before", "bytes before", "bytes", ES_FORMAT_COUNT, "of the cache of one sequence"},
    {"bytes_after", "bytes after", "bytes", ES_FORMAT_COUNT},
    {0}};
static const es_table_spec plan_table = {"plan", plan_columns, ES_VIEW("The plan"), .record = true};

static const es_column layer_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"keys", "keys", "keys", ES_FORMAT_COUNT, "summed over the layer's key-value heads"},
    {"ratio", "ratio", "", ES_FORMAT_REAL, "of the layer's keys"},
    {"predicted", "predicted error", "", ES_FORMAT_REAL,
     "of the attention output, from the full model's state, in spreads; error over blocks",
     .error = "predicted_se", .standing = ES_STANDING_HEURISTIC},
    {"verified", "verified error", "", ES_FORMAT_REAL, "the same on other text",
     .error = "verified_se"},
    {"limit", "limit", "", ES_FORMAT_REAL,
     "the error below which no rule that keeps its keys independently comes with as many, first "
     "order",
     .standing = ES_STANDING_HEURISTIC},
    {"state_predicted", "predicted state", "", ES_FORMAT_REAL,
     "error of the hidden state that the layer makes, with all layers thinned, in spreads",
     .error = "state_predicted_se", .standing = ES_STANDING_HEURISTIC},
    {"state_verified", "verified state", "", ES_FORMAT_REAL, "the same on other text",
     .error = "state_verified_se"},
    {"weight", "weight", "", ES_FORMAT_REAL,
     "mean square error of the last hidden state for one of the layer's attention output"},
    {"optimism", "optimism", "", ES_FORMAT_REAL,
     "mean square error of plans on a block that they were not made from, over that on the others: "
     "predictions have this factor, risks of heads have not"},
    {0}};
static const es_table_spec layers_table = {
    "layers",
    layer_columns,
    ES_VIEW("Predicted and verified, by layer",
            "layer keys ratio predicted verified limit state_predicted state_verified weight "
            "optimism"),
    .inside = "plan",
    .nested = "layers",
    .keys = "layer"};

static const es_column head_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"group", "group", "", ES_FORMAT_COUNT, "key-value head, whose keys are kept"},
    {"policy", "policy", "", ES_FORMAT_TEXT, "which keys are kept; full: all of them"},
    {"keys", "keys", "keys", ES_FORMAT_COUNT},
    {"correction", "correction", "", ES_FORMAT_TEXT,
     "factor on keys kept by chance: none, or inverse to the probability"},
    {"risk", "risk", "", ES_FORMAT_REAL,
     "mean square error of the head's part of the layer's output; error over blocks",
     .error = "risk_se", .standing = ES_STANDING_HEURISTIC},
    {"limit", "limit", "", ES_FORMAT_REAL,
     "risk below which no rule that keeps as many keys independently comes, first order",
     .standing = ES_STANDING_HEURISTIC},
    {"spread", "spread", "", ES_FORMAT_REAL, "what one key at random would cost, mean square"},
    {"ess", "ESS", "keys", ES_FORMAT_SHORT, "effective number of keys, 1/sum w^2"},
    {"need", "need", "keys", ES_FORMAT_SHORT, "keys that hold 95 % of the weight"},
    {"sinks", "sinks", "", ES_FORMAT_REAL, "weight of the first four keys"},
    {"why", "why", "", ES_FORMAT_TEXT, "what kind of head it is"},
    {0}};
static const es_table_spec heads_table = {
    "heads",
    head_columns,
    ES_VIEW("What each head keeps", "layer head group policy keys risk limit ess need sinks why"),
    .inside = "layers",
    .link = "layer",
    .nested = "heads",
    .keys = "layer head"};

static const es_column predicted_columns[] = {
    {"error", "attention error", "", ES_FORMAT_REAL,
     "the largest error of a layer's attention output, in spreads", .error = "error_se",
     .standing = ES_STANDING_HEURISTIC},
    {"state", "state error", "", ES_FORMAT_REAL, "of the last hidden state, in spreads",
     .error = "state_se", .standing = ES_STANDING_HEURISTIC},
    {"loss", "extra loss", "nats", ES_FORMAT_REAL,
     "nats per token over late positions; a classifier: KL of its labels", .error = "loss_se",
     .standing = ES_STANDING_HEURISTIC},
    {0}};
static const es_table_spec predicted_table = {"predicted", predicted_columns,
                                              ES_VIEW("What the plan will cost"), .record = true};

static const es_column allocation_columns[] = {
    {"allocation", "allocation", "", ES_FORMAT_TEXT,
     "ours: by marginal risk; uniform; pyramid: falling with depth; mass: within a layer by the "
     "keys that hold 95 % of the weight. Policies are the best of each head in all of them"},
    {"asked", "asked", "", ES_FORMAT_REAL, "share of the keys"},
    {"ratio", "ratio", "", ES_FORMAT_REAL, "that came of it"},
    {"state_predicted", "predicted state", "", ES_FORMAT_REAL, "error of the last hidden state",
     .standing = ES_STANDING_HEURISTIC},
    {"state", "state error", "", ES_FORMAT_REAL, "on other text, in spreads", .error = "state_se"},
    {"loss_predicted", "predicted loss", "nats", ES_FORMAT_REAL, "extra, per token",
     .standing = ES_STANDING_HEURISTIC},
    {"loss", "extra loss", "nats", ES_FORMAT_REAL, "on other text, late positions",
     .error = "loss_se"},
    {"more", "than ours", "nats", ES_FORMAT_REAL,
     "extra loss less that of ours, on the same blocks", .error = "more_se"},
    {"kl", "KL", "nats", ES_FORMAT_REAL, "of what the model says next", .error = "kl_se"},
    {"agreement", "agreement", "", ES_FORMAT_REAL, "of the most likely", .error = "agreement_se"},
    {"accuracy", "accuracy", "", ES_FORMAT_REAL, "of labels", .error = "accuracy_se"},
    {0}};
static const es_table_spec allocations_table = {
    "allocations", allocation_columns,
    ES_VIEW("Ways to share the keys out",
            "allocation asked ratio state_predicted state loss_predicted loss more kl agreement "
            "accuracy"),
    .keys = "asked allocation"};

static const es_column frontier_columns[] = {
    {"by", "by", "", ES_FORMAT_TEXT,
     "ours with all policies, with those that can be deployed, with one alone; the limit"},
    {"asked", "asked", "", ES_FORMAT_REAL, "share of the keys"},
    {"ratio", "ratio", "", ES_FORMAT_REAL, "that came of it"},
    {"state", "state error", "", ES_FORMAT_REAL,
     "predicted error of the last hidden state, in spreads", .standing = ES_STANDING_HEURISTIC},
    {"error", "attention error", "", ES_FORMAT_REAL,
     "root mean square over layers of the predicted errors of attention outputs, in spreads",
     .standing = ES_STANDING_HEURISTIC},
    {"loss", "extra loss", "nats", ES_FORMAT_REAL, "predicted, per token",
     .standing = ES_STANDING_HEURISTIC},
    {0}};
static const es_table_spec frontier_table = {"frontier", frontier_columns,
                                             ES_VIEW("Frontier: predicted error against keys"),
                                             .keys = "by asked"};

static const es_column calibration_columns[] = {
    {"blocks", "blocks", "", ES_FORMAT_COUNT, "of the calibration, the first so many"},
    {"tokens", "tokens", "tokens", ES_FORMAT_COUNT, "that they have"},
    {"moved", "moved", "", ES_FORMAT_REAL,
     "share of the keys that a plan made from these alone gives to other heads than the plan does"},
    {"policies", "other policy", "", ES_FORMAT_REAL, "share of the key-value heads"},
    {"state", "state error", "", ES_FORMAT_REAL,
     "of the last hidden state under that plan, as all blocks predict it",
     .standing = ES_STANDING_HEURISTIC},
    {"worse", "worse by", "", ES_FORMAT_REAL, "than the plan's, as a share of it"},
    {0}};
static const es_table_spec calibration_table = {
    "calibration", calibration_columns, ES_VIEW("How much text the plan needs"), .keys = "blocks"};

/* ---- predictions and their errors ---- */

static es_status forecast_new(const budget_state *s, es_arena *arena, budget_forecast *out,
                              es_error *err)
{
    void *m;
    ES_TRY(
        es_arena_array(arena, 2 * s->config->layers + 1, 1, sizeof(double), "a forecast", &m, err));
    out->own = m;
    out->state = out->own + s->config->layers;
    return ES_OK;
}

/* Means without each block, and of each alone. */
static es_status make_folds(es_job *job, budget_known *k, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t B = s->text.count;
    void *m;
    k->folds = B > 1 ? B : 0;
    ES_TRY(es_arena_array(k->arena, 2 * B, 1, sizeof *k->without, "folds", &m, err));
    k->without = m;
    k->alone = k->without + B;
    for (int64_t b = 0; b < k->folds; b++) {
        ES_TRY(budget_average(job, (budget_subset){0, B, b}, true, &job->exec, k->arena,
                              &k->without[b], err));
        ES_TRY(budget_average(job, (budget_subset){b, b + 1, -1}, false, &job->exec, k->arena,
                              &k->alone[b], err));
    }
    return ES_OK;
}

/* How plans are made: the one that was asked for, or a way at a total, with some of the policies.
 */
typedef struct recipe {
    bool asked;
    budget_way way;
    double total;
    const bool *only;
} recipe;

static es_status follow(es_job *job, const recipe *r, const budget_means *means, es_arena *arena,
                        budget_pick *picks, es_error *err)
{
    return r->asked ? budget_make(job, means, arena, picks, err)
                    : budget_share(job->state, means, r->way, r->total, r->only, arena, picks, err);
}

/* Plans are chosen for small risks on the blocks they are made from, so that there risks are
 * smaller than elsewhere. A plan made without a block says by how much: factor (L), its risk on
 * that block over that on the others, summed over the blocks in turn. */
static es_status find_optimism(es_job *job, const budget_known *k, const recipe *r, double *factor,
                               es_error *err)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    es_arena arena = {.budget = job->exec.budget};
    void *m;
    es_status status = es_arena_array(&arena, s->units, 1, sizeof(budget_pick), "picks", &m, err);
    budget_pick *picks = m;
    double *out = NULL, *in = NULL;
    if (status == ES_OK)
        status = es_arena_array(&arena, 2, L, sizeof(double), "risks", &m, err);
    if (status == ES_OK) {
        out = m;
        in = out + L;
    }
    for (int64_t b = 0; b < k->folds && status == ES_OK; b++) {
        status = follow(job, r, &k->without[b], &arena, picks, err);
        for (int64_t l = 0; l < L && status == ES_OK; l++) {
            out[l] += budget_own2(s, &k->alone[b], picks, l);
            in[l] += budget_own2(s, &k->without[b], picks, l);
        }
    }
    for (int64_t l = 0; l < L && status == ES_OK; l++)
        factor[l] = in[l] > 0.0 ? out[l] / in[l] : 1.0;
    es_arena_free(&arena);
    return status;
}

/* Leaving blocks out in turn, which policies and keys there are staying what they are. */
static es_status jackknife(es_job *job, budget_known *k, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers, numbers = 2 * L + 2, B = s->text.count;
    budget_forecast f;
    double *all;
    ES_TRY(forecast_new(s, k->arena, &f, err));
    ES_TRY(forecast_new(s, k->arena, &k->forecast_se, err));
    ES_TRY(es_job_array(job, B, numbers, sizeof *all, &all, err));
    for (int64_t b = 0; b < k->folds; b++) {
        budget_predict(s, &k->without[b], k->plan, NULL, k->optimism, &f);
        memcpy(all + b * numbers, f.own, (size_t)(2 * L + 1) * sizeof *all);
        all[b * numbers + 2 * L + 1] = f.loss;
    }
    for (int64_t i = 0; i < numbers; i++) {
        const es_spread spread = es_spread_of(all + i, B, numbers);
        const double se =
            B > 1 ? sqrt(spread.squares * ((double)B - 1.0) / (double)B) : (double)NAN;
        if (i <= 2 * L)
            k->forecast_se.own[i] = se;
        else
            k->forecast_se.loss = se;
    }
    return ES_OK;
}

static es_status know(es_job *job, budget_known *k, es_error *err)
{
    const budget_state *s = job->state;
    void *m;
    ES_TRY(budget_average(job, budget_all(s), true, &job->exec, k->arena, &k->all, err));
    ES_TRY(es_arena_array(k->arena, s->units, 1, sizeof *k->plan, "the plan", &m, err));
    k->plan = m;
    ES_TRY(budget_make(job, &k->all, k->arena, k->plan, err));
    ES_TRY(forecast_new(s, k->arena, &k->forecast, err));
    ES_TRY(es_job_array(job, s->config->layers, 1, sizeof *k->optimism, &k->optimism, err));
    ES_TRY(make_folds(job, k, err));
    ES_TRY(find_optimism(job, k, &(recipe){.asked = true}, k->optimism, err));
    budget_predict(s, &k->all, k->plan, NULL, k->optimism, &k->forecast);
    return jackknife(job, k, err);
}

/* ---- the plan ---- */

static double bytes_of(const es_job *job, double keys)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    return keys * 2.0 * (double)s->config->head_dim * (double)budget_dtype_bits(p->cache) / 8.0;
}

static void put_plan(const es_job *job, const budget_known *k, es_answer *a)
{
    const budget_state *s = job->state;
    const double kept = budget_total(s, k->plan), all = (double)(s->units * s->n);
    es_table *t = es_answer_table(a, &plan_table);
    const int64_t row = es_table_row(t);
    es_put(t, row, {"context", (double)s->n}, {"keys_kept", kept}, {"keys_all", all},
           {"ratio", kept / all}, {"bytes_before", bytes_of(job, all)},
           {"bytes_after", bytes_of(job, kept)});
    es_answer_text(a, "model", es_model_folder(s->model));
    es_answer_count(a, "keys_kept", (int64_t)kept);
    es_answer_count(a, "bytes_before", (int64_t)bytes_of(job, all));
    es_answer_count(a, "bytes_after", (int64_t)bytes_of(job, kept));
}

static void put_predicted(const es_job *job, const budget_known *k, es_answer *a)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    es_table *t = es_answer_table(a, &predicted_table);
    const int64_t row = es_table_row(t);
    int64_t worst = 0;
    for (int64_t l = 1; l < L; l++)
        if (k->forecast.own[l] > k->forecast.own[worst])
            worst = l;
    es_put(t, row, {"error", k->forecast.own[worst]}, {"error_se", k->forecast_se.own[worst]},
           {"state", k->forecast.state[L]}, {"state_se", k->forecast_se.state[L]});
    if (!isnan(k->forecast.loss))
        es_put(t, row, {"loss", k->forecast.loss}, {"loss_se", k->forecast_se.loss});
}

static double limit_of_layer(const budget_state *s, const budget_known *k, int64_t layer)
{
    double sum = 0.0;
    for (int64_t u = layer * s->config->kv_heads; u < (layer + 1) * s->config->kv_heads; u++)
        sum += budget_limit(s, &k->all, u, (double)k->plan[u].keys);
    return sqrt(sum / k->all.out2[layer]);
}

static void put_layers(const es_job *job, const budget_known *k, es_answer *a)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &layers_table);
    for (int64_t l = 0; l < s->config->layers; l++) {
        const int64_t row = es_table_row(t);
        double keys = 0.0;
        for (int64_t g = 0; g < s->config->kv_heads; g++)
            keys += (double)k->plan[l * s->config->kv_heads + g].keys;
        es_put(t, row, {"layer", (double)l}, {"keys", keys},
               {"ratio", keys / (double)(s->config->kv_heads * s->n)},
               {"predicted", k->forecast.own[l]}, {"predicted_se", k->forecast_se.own[l]},
               {"limit", limit_of_layer(s, k, l)}, {"state_predicted", k->forecast.state[l + 1]},
               {"state_predicted_se", k->forecast_se.state[l + 1]},
               {"weight", budget_weight(s, &k->all, l)}, {"optimism", k->optimism[l]});
        if (!s->n_settings)
            continue;
        const es_measured own = budget_verified_own(job, 0, l);
        const es_measured state = budget_verified_state(job, 0, l + 1);
        es_put(t, row, {"verified", own.value}, {"verified_se", own.se},
               {"state_verified", state.value}, {"state_verified_se", state.se});
    }
}

/* Means over blocks of a head's facts, and its risk under what it keeps. */
typedef struct head_facts {
    double facts[ES_FACTS], limit;
    es_measured risk;
} head_facts;

static head_facts facts_of(const es_job *job, const budget_known *k, int64_t head, double *room)
{
    const budget_state *s = job->state;
    const int64_t size = s->config->heads / s->config->kv_heads, B = s->text.count;
    const budget_pick *pick = &k->plan[head / size];
    head_facts f = {0};
    for (int64_t b = 0; b < B; b++) {
        const es_curves c = budget_curves_at(s, es_job_cell(job, BUDGET_CURVES, b));
        /* a unit of one head, whose means are its own */
        const budget_means own = {.risk = c.risk + head * s->P * s->K,
                                  .limit = c.limit + head * s->K};
        for (int i = 0; i < ES_FACTS; i++)
            f.facts[i] += c.facts[head * ES_FACTS + i] / (double)B;
        f.limit += budget_limit(s, &own, 0, (double)pick->keys) / (double)B;
        room[b] =
            pick->policy < 0 ? 0.0 : budget_risk(s, &own, 0, pick->policy, (double)pick->keys);
    }
    f.risk = es_measured_mean(room, B);
    return f;
}

/* The regime decides which policy is good (THEORY 13). */
static const char *kind_of(const head_facts *f, int64_t n)
{
    if (f->facts[ES_FACT_SINKS] > 0.5)
        return "sinks";
    if (f->facts[ES_FACT_ESS] > 0.25 * (double)n)
        return "averaging";
    if (f->facts[ES_FACT_ESS] < 16.0)
        return "selecting";
    return "mixed";
}

static void put_head(const es_job *job, const budget_known *k, int64_t head, double *room,
                     es_table *t)
{
    const budget_state *s = job->state;
    const int64_t heads = s->config->heads, size = heads / s->config->kv_heads;
    const budget_pick *pick = &k->plan[head / size];
    const head_facts f = facts_of(job, k, head, room);
    const int64_t row = es_table_row(t);
    es_put(t, row, {"layer", (double)(head / heads)}, {"head", (double)(head % heads)},
           {"group", (double)(head % heads / size)}, {"risk", f.risk.value}, {"risk_se", f.risk.se},
           {"limit", f.limit}, {"spread", f.facts[ES_FACT_SPREAD]}, {"ess", f.facts[ES_FACT_ESS]},
           {"need", f.facts[ES_FACT_NEED]}, {"sinks", f.facts[ES_FACT_SINKS]});
    es_table_text(t, row, "correction", "none"); /* unless chance has a say */
    if (pick->policy < 0) {
        es_table_text(t, row, "policy", "full");
        es_table_count(t, row, "keys", s->n);
    } else {
        es_policy_spec spec = s->policies[pick->policy];
        spec.keys = pick->keys;
        es_policy_put(&spec, t, row);
    }
    es_table_text(t, row, "why", kind_of(&f, s->n));
}

static es_status put_heads(es_job *job, const budget_known *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &heads_table);
    double *room;
    ES_TRY(es_job_array(job, s->text.count, 1, sizeof *room, &room, err));
    for (int64_t h = 0; h < s->config->layers * s->config->heads; h++)
        put_head(job, k, h, room, t);
    return ES_OK;
}

static es_status save_plan(const es_job *job, const budget_known *k, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const int64_t heads = s->config->layers * s->config->heads;
    es_plan *plan;
    void *m;
    ES_TRY(es_arena_array(k->arena, heads, 1, sizeof(es_policy_spec), "specs", &m, err));
    es_policy_spec *specs = m;
    ES_TRY(es_arena_array(k->arena, s->text.count, 1, sizeof(double), "risks", &m, err));
    ES_TRY(es_plan_new(s->config, s->n, job->exec.budget, &plan, err));
    budget_specs(s, k->plan, specs);
    for (int64_t h = 0; h < heads; h++) {
        plan->head[h].spec = specs[h];
        plan->head[h].risk = facts_of(job, k, h, m).risk.value;
    }
    const char *slash = strrchr(p->texts.at[0], '/');
    snprintf(plan->text, sizeof plan->text, "%lld blocks of %lld tokens of %.160s",
             (long long)s->text.count, (long long)s->n, slash ? slash + 1 : p->texts.at[0]);
    es_plan_count(plan);
    const es_status status = es_plan_save(plan, p->out_plan, job->force, err);
    es_plan_free(plan);
    return status;
}

/* ---- other ways ---- */

static double more_loss(const es_job *job, int64_t setting, int64_t ours, int64_t block)
{
    const budget_state *s = job->state;
    const es_trial a =
        budget_trial_at(s, es_job_cell(job, BUDGET_TRIALS, setting * s->verify.count + block));
    const es_trial b =
        budget_trial_at(s, es_job_cell(job, BUDGET_TRIALS, ours * s->verify.count + block));
    return a.ends[ES_END_LOSS] - b.ends[ES_END_LOSS];
}

/* Settings of equal ratio stand together, ours first. */
static void put_tried(const es_job *job, int64_t setting, es_table *t, int64_t row)
{
    const budget_state *s = job->state;
    const es_measured state = budget_verified_state(job, setting, s->config->layers);
    es_put(t, row, {"state", state.value}, {"state_se", state.se});
    budget_put_ends(job, setting, t, row);
    const int64_t ours = setting - (int64_t)s->settings[setting].way;
    if (setting == ours)
        return;
    for (int64_t b = 0; b < s->verify.count; b++)
        s->room[b] = more_loss(job, setting, ours, b);
    const es_measured more = es_measured_mean(s->room, s->verify.count);
    if (!isnan(more.value))
        es_put(t, row, {"more", more.value}, {"more_se", more.se});
}

static int64_t setting_of(const budget_state *s, budget_way way, double ratio)
{
    for (int64_t i = 0; i < s->n_settings; i++)
        if (s->settings[i].way == way && s->settings[i].ratio == ratio)
            return i;
    return -1;
}

/* All ways at one amount; ratio 0: that of the plan. */
static es_status put_amount(es_job *job, const budget_known *k, double ratio, es_table *t,
                            es_error *err)
{
    const budget_state *s = job->state;
    const double all = (double)(s->units * s->n);
    const double total = ratio > 0.0 ? ratio * all : budget_total(s, k->plan);
    budget_forecast f;
    budget_pick *picks;
    double *factor;
    ES_TRY(es_job_array(job, s->config->layers, 1, sizeof *factor, &factor, err));
    ES_TRY(forecast_new(s, k->arena, &f, err));
    ES_TRY(es_job_array(job, s->units, 1, sizeof *picks, &picks, err));
    for (int w = 0; w < BUDGET_WAYS; w++) {
        ES_TRY(budget_share(s, &k->all, (budget_way)w, total, NULL, k->arena, picks, err));
        const bool asked = w == BUDGET_OURS && ratio == 0.0;
        if (asked)
            memcpy(picks, k->plan, (size_t)s->units * sizeof *picks);
        ES_TRY(find_optimism(job, k, &(recipe){asked, (budget_way)w, total, NULL}, factor, err));
        budget_predict(s, &k->all, picks, NULL, factor, &f);
        const int64_t row = es_table_row(t), tried = setting_of(s, (budget_way)w, ratio);
        es_table_text(t, row, "allocation", budget_ways[w]);
        es_put(t, row, {"asked", total / all}, {"ratio", budget_total(s, picks) / all},
               {"state_predicted", f.state[s->config->layers]});
        if (!isnan(f.loss))
            es_table_real(t, row, "loss_predicted", f.loss);
        if (tried >= 0)
            put_tried(job, tried, t, row);
    }
    return ES_OK;
}

static bool is_reachable(const budget_state *s, double ratio)
{
    return ratio * (double)s->n >= (double)s->options[0];
}

static es_status put_allocations(es_job *job, const budget_known *k, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &allocations_table);
    ES_TRY(put_amount(job, k, 0.0, t, err));
    for (int64_t i = 0; i < p->frontier.count; i++)
        if (p->frontier.reals[i] != p->ratio && is_reachable(s, p->frontier.reals[i]))
            ES_TRY(put_amount(job, k, p->frontier.reals[i], t, err));
    return ES_OK;
}

/* ---- frontier ---- */

static void put_point(const es_job *job, const char *by, double asked, double ratio,
                      const budget_forecast *f, es_table *t)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers, row = es_table_row(t);
    double sum = 0.0;
    for (int64_t l = 0; l < L; l++)
        sum += f->own[l] * f->own[l] / (double)L;
    es_table_text(t, row, "by", by);
    es_put(t, row, {"asked", asked}, {"ratio", ratio}, {"state", f->state[L]},
           {"error", sqrt(sum)});
    if (!isnan(f->loss))
        es_table_real(t, row, "loss", f->loss);
}

/* Ours with some of the policies. */
static es_status put_policies(es_job *job, const budget_known *k, const char *by, const bool *only,
                              double ratio, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const double all = (double)(s->units * s->n);
    budget_forecast f;
    budget_pick *picks;
    double *factor;
    ES_TRY(forecast_new(s, k->arena, &f, err));
    ES_TRY(es_job_array(job, s->units, 1, sizeof *picks, &picks, err));
    const recipe r = {.way = BUDGET_OURS, .total = ratio * all, .only = only};
    ES_TRY(es_job_array(job, s->config->layers, 1, sizeof *factor, &factor, err));
    ES_TRY(follow(job, &r, &k->all, k->arena, picks, err));
    ES_TRY(find_optimism(job, k, &r, factor, err));
    budget_predict(s, &k->all, picks, NULL, factor, &f);
    put_point(job, by, ratio, budget_total(s, picks) / all, &f, t);
    return ES_OK;
}

static es_status put_limit(es_job *job, const budget_known *k, double ratio, es_table *t,
                           es_error *err)
{
    const budget_state *s = job->state;
    budget_forecast f;
    double *own2;
    ES_TRY(forecast_new(s, k->arena, &f, err));
    ES_TRY(es_job_array(job, s->config->layers, 1, sizeof *own2, &own2, err));
    ES_TRY(budget_share_limit(s, &k->all, ratio * (double)(s->units * s->n), k->arena, own2, err));
    budget_predict(s, &k->all, NULL, own2, NULL, &f);
    put_point(job, "limit", ratio, ratio, &f, t);
    return ES_OK;
}

static es_status put_frontier(es_job *job, const budget_known *k, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &frontier_table);
    bool *only;
    int64_t deployable = 0;
    char word[ES_POLICY_ROOM];
    ES_TRY(es_job_array(job, s->P, 1, sizeof *only, &only, err));
    for (int64_t i = 0; i < s->P; i++)
        deployable += es_policy_deployable(s->policies[i].policy);
    for (int64_t i = 0; i < p->frontier.count; i++) {
        const double ratio = p->frontier.reals[i];
        if (!is_reachable(s, ratio))
            continue;
        ES_TRY(put_policies(job, k, "all policies", NULL, ratio, t, err));
        for (int64_t j = 0; j < s->P; j++)
            only[j] = es_policy_deployable(s->policies[j].policy);
        if (deployable && deployable < s->P)
            ES_TRY(put_policies(job, k, "deployable", only, ratio, t, err));
        for (int64_t j = 0; j < s->P && s->P > 1; j++) {
            memset(only, 0, (size_t)s->P * sizeof *only);
            only[j] = true;
            ES_TRY(
                put_policies(job, k, es_policy_word(&s->policies[j], word), only, ratio, t, err));
        }
        ES_TRY(put_limit(job, k, ratio, t, err));
    }
    return ES_OK;
}

/* ---- how much text it takes ---- */

/* The plan that the first `count` blocks alone would make, judged by all of them. The number of
 * keys is that of the plan. */
static es_status put_calibration_of(es_job *job, const budget_known *k, int64_t count,
                                    es_arena *arena, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    const double total = budget_total(s, k->plan);
    double moved = 0.0, others = 0.0;
    budget_means means;
    budget_forecast f, own;
    void *m;
    ES_TRY(forecast_new(s, arena, &f, err));
    ES_TRY(forecast_new(s, arena, &own, err));
    ES_TRY(es_arena_array(arena, s->units, 1, sizeof(budget_pick), "picks", &m, err));
    budget_pick *picks = m;
    ES_TRY(
        budget_average(job, (budget_subset){0, count, -1}, true, &job->exec, arena, &means, err));
    ES_TRY(budget_make(job, &means, arena, picks, err));
    budget_predict(s, &k->all, picks, NULL, NULL, &f);
    budget_predict(s, &k->all, k->plan, NULL, NULL, &own);
    for (int64_t u = 0; u < s->units; u++) {
        moved += 0.5 * fabs((double)(picks[u].keys - k->plan[u].keys)) / total;
        others += (picks[u].policy != k->plan[u].policy) / (double)s->units;
    }
    const int64_t row = es_table_row(t);
    es_put(t, row, {"blocks", (double)count}, {"tokens", (double)(count * s->n)}, {"moved", moved},
           {"policies", others}, {"state", f.state[L]}, {"worse", f.state[L] / own.state[L] - 1.0});
    return ES_OK;
}

static es_status put_calibration(es_job *job, const budget_known *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &calibration_table);
    for (int64_t count = 1; count < s->text.count; count *= 2) {
        es_arena arena = {.budget = job->exec.budget};
        const es_status status = put_calibration_of(job, k, count, &arena, t, err);
        es_arena_free(&arena);
        ES_TRY(status);
    }
    return ES_OK;
}

/* ---- sentences ---- */

static void tell_plan(const es_job *job, const budget_known *k, es_answer *a)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    const double all = (double)(s->units * s->n), kept = budget_total(s, k->plan);
    char state[ES_SAY_ROOM], loss[ES_SAY_ROOM], extra[2 * ES_SAY_ROOM] = "";
    if (!isnan(k->forecast.loss))
        snprintf(extra, sizeof extra, " and %s nats %s",
                 es_say_number(k->forecast.loss, k->forecast_se.loss, loss),
                 s->config->predicts ? "per token" : "of KL of its labels");
    es_answer_tell(
        a,
        "Keeping %.0f of %.0f keys (%.3g %%; %.3g of %.3g MB of cache in %s) at a context of %lld "
        "is predicted to cost an error of %s spreads in the last hidden state%s.",
        kept, all, 100.0 * kept / all, bytes_of(job, kept) / 1e6, bytes_of(job, all) / 1e6,
        budget_dtypes[p->cache], (long long)s->n,
        es_say_number(k->forecast.state[L], k->forecast_se.state[L], state), extra);
}

static void tell_verified(const es_job *job, const budget_known *k, es_answer *a)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    double off = 0.0;
    int64_t worst = 0;
    char state[ES_SAY_ROOM], loss[ES_SAY_ROOM], extra[2 * ES_SAY_ROOM] = "";
    if (!s->n_settings)
        return;
    for (int64_t l = 0; l < L; l++) {
        const double ratio = k->forecast.own[l] / budget_verified_own(job, 0, l).value;
        if (isfinite(ratio) && fabs(log(ratio)) > off) {
            off = fabs(log(ratio));
            worst = l;
        }
    }
    const es_measured found = budget_verified_state(job, 0, L);
    const es_measured end = budget_verified_end(job, 0, ES_END_LOSS);
    if (!isnan(end.value))
        snprintf(extra, sizeof extra, " and costs %s nats", es_say_number(end.value, end.se, loss));
    es_answer_tell(a,
                   "On other text (%lld blocks) the last hidden state is off by %s spreads%s; "
                   "predicted errors of attention are within a factor of %.3g of what was found "
                   "in every layer (furthest off in layer %lld: %.3g predicted, %.3g found).",
                   (long long)s->verify.count, es_say_number(found.value, found.se, state), extra,
                   exp(off), (long long)worst, k->forecast.own[worst],
                   budget_verified_own(job, 0, worst).value);
}

/* Ours beside the others at the plan's amount, as far as they were tried. */
static void tell_rivals(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    char list[512] = "", said[ES_SAY_ROOM];
    for (int w = 1; w < BUDGET_WAYS; w++) {
        const int64_t tried = setting_of(s, (budget_way)w, 0.0);
        const size_t used = strlen(list);
        if (tried < 0)
            return;
        const es_measured m = budget_verified_state(job, tried, s->config->layers);
        snprintf(list + used, sizeof list - used, "%s%s %s", used ? ", " : "", budget_ways[w],
                 es_say_number(m.value, m.se, said));
    }
    const es_measured ours = budget_verified_state(job, 0, s->config->layers);
    if (*list)
        es_answer_tell(a,
                       "The same number of keys shared out otherwise leaves the last hidden state "
                       "off by: %s; ours %s.",
                       list, es_say_number(ours.value, ours.se, said));
}

static void tell_groups(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    bool scored = false;
    for (int64_t i = 0; i < s->P; i++)
        scored = scored ||
                 es_policy_needs(s->policies[i].policy) &
                     (ES_POLICY_SCORES | ES_POLICY_HISTORY | ES_POLICY_OBSERVED | ES_POLICY_CHANCE);
    if (scored && s->config->kv_heads < s->config->heads)
        es_answer_tell(a,
                       "Caution: heads of a group keep as many keys by the same rule, but rules "
                       "that look at scores, or leave keys to chance, choose for each head of the "
                       "group by itself; a cache that keeps one set for all of them does worse.");
    if (s->text.count < 4)
        es_answer_tell(a, "Caution: %lld block%s of text %s little to calibrate on.",
                       (long long)s->text.count, s->text.count == 1 ? "" : "s",
                       s->text.count == 1 ? "is" : "are");
}

/* ---- all of it ---- */

static es_status put_all(es_job *job, budget_known *k, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    ES_TRY(know(job, k, err));
    tell_plan(job, k, a);
    tell_verified(job, k, a);
    tell_rivals(job, a);
    put_plan(job, k, a);
    put_predicted(job, k, a);
    put_layers(job, k, a);
    ES_TRY(put_heads(job, k, a, err));
    ES_TRY(put_allocations(job, k, a, err));
    ES_TRY(put_frontier(job, k, a, err));
    ES_TRY(put_calibration(job, k, a, err));
    if (s->n_settings)
        budget_put_verified(job, a);
    tell_groups(job, a);
    return p->out_plan ? save_plan(job, k, err) : ES_OK;
}

es_status budget_summarise(es_job *job, es_answer *answer, es_error *err)
{
    es_arena arena = {.budget = job->exec.budget};
    budget_known k = {.arena = &arena};
    const es_status status = put_all(job, &k, answer, err);
    es_arena_free(&arena);
    return status;
}
