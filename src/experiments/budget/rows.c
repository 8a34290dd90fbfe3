/* rows.c : the plan, what it will cost, and sentences about it; beside it what
 * verification found. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"
#include "model/model.h"
#include "model/plan.h"
#include "model/sparse_head.h"
#include "stats/special.h"
#include "store/file.h"
#include "theory/key_weights.h"

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
     "of the attention output, from the full model's state, over its spread; error over blocks",
     .error = "predicted_se", .standing = ES_STANDING_HEURISTIC},
    {"verified", "verified error", "", ES_FORMAT_REAL, "the same on other text",
     .error = "verified_se"},
    {"limit", "limit", "", ES_FORMAT_REAL,
     "the error below which no rule that keeps its keys independently comes with as many, first "
     "order",
     .standing = ES_STANDING_HEURISTIC},
    {"state_predicted", "predicted state", "", ES_FORMAT_REAL,
     "error of the hidden state that the layer makes, with all layers thinned, over its spread",
     .error = "state_predicted_se", .standing = ES_STANDING_HEURISTIC},
    {"state_verified", "verified state", "", ES_FORMAT_REAL, "the same on other text",
     .error = "state_verified_se"},
    {"computed", "computed error", "", ES_FORMAT_REAL,
     "of the attention output by the sum of its heads' risks and optimism alone",
     .error = "computed_se", .standing = ES_STANDING_HEURISTIC},
    {"weight", "weight", "", ES_FORMAT_REAL,
     "mean square error of the last hidden state for one of the layer's attention output"},
    {"optimism", "optimism", "", ES_FORMAT_REAL,
     "risk of plans on a block that they were not made from, over that on the others, mean "
     "squares: "
     "predictions have this factor, risks of heads have not"},
    {"rehearsed", "rehearsed", "", ES_FORMAT_REAL,
     "mean square error of the attention output as rehearsed, on blocks that a plan was not made "
     "from, over the sum of its heads' risks there: predictions have this factor",
     .error = "rehearsed_se"},
    {"coherence", "coherence", "", ES_FORMAT_REAL,
     "mean square error of the hidden state that the layer makes, as rehearsed, over the sum of "
     "those that layers make one at a time: predictions have this factor",
     .error = "coherence_se"},
    {0}};
static const es_table_spec layers_table = {
    "layers",
    layer_columns,
    ES_VIEW("Predicted and verified, by layer",
            "layer keys ratio predicted verified limit state_predicted state_verified computed "
            "rehearsed coherence optimism weight"),
    .inside = "plan",
    .nested = "layers",
    .keys = "layer"};

static const es_column head_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"group", "group", "", ES_FORMAT_COUNT, "key-value head, whose keys are kept"},
    {"policy", "policy", "", ES_FORMAT_TEXT,
     "which keys are kept; full: all of them, of any context"},
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
    {"sinks", "sink mass", "", ES_FORMAT_REAL, "weight of the first four keys"},
    {"why", "concentration", "", ES_FORMAT_TEXT,
     "how many keys share the weight, by the 95 % interval of ESS: averaging (at 100 or more, or "
     "2/3 of the keys), selective, single-key (below 2), undecided (it contains a cut-off)"},
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
     "the largest error of a layer's attention output, over its spread", .error = "error_se",
     .standing = ES_STANDING_HEURISTIC},
    {"state", "state error", "", ES_FORMAT_REAL, "of the last hidden state, over its spread",
     .error = "state_se", .standing = ES_STANDING_HEURISTIC},
    {"kl", "KL", "nats", ES_FORMAT_REAL,
     "of the next token's distribution from the full model's, over late positions; a classifier: "
     "of its labels",
     .error = "kl_se", .standing = ES_STANDING_HEURISTIC},
    {"loss", "extra loss", "nats", ES_FORMAT_REAL,
     "per token over late positions; only where distributions do not fit into memory, instead of "
     "KL",
     .error = "loss_se", .standing = ES_STANDING_HEURISTIC},
    {"loss_coherence", "loss coherence", "", ES_FORMAT_REAL,
     "KL or loss as rehearsed, over the sum of what layers cost one at a time: the prediction has "
     "this factor",
     .error = "loss_coherence_se"},
    {0}};
static const es_table_spec predicted_table = {
    "predicted", predicted_columns, ES_VIEW("What the plan will cost", .only_with_full = true),
    .record = true};

/* ---- the plan ---- */

static double bytes_of(const es_job *job, double keys)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    return keys * 2.0 * (double)s->config->head_dim * (double)budget_dtype_bits(p->cache) / 8.0;
}

static void put_plan(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    const double kept = budget_total(s, k->plan), all = budget_everything(s);
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

static void put_predicted(const es_job *job, const budget_context *k, es_answer *a)
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
    if (isnan(k->forecast.loss))
        return;
    es_put_under(t, row, budget_predicts_kl(job) ? "kl" : "loss", {"", k->forecast.loss},
                 {"_se", k->forecast_se.loss});
    es_put(t, row, {"loss_coherence", k->factors.loss}, {"loss_coherence_se", k->factors_se.loss});
}

static double limit_of_layer(const budget_state *s, const budget_context *k, int64_t layer)
{
    double sum = 0.0;
    for (int64_t u = layer * s->config->kv_heads; u < (layer + 1) * s->config->kv_heads; u++)
        sum += budget_limit(s, &k->all, u, (double)k->plan[u].keys);
    return sqrt(sum / k->all.out2[layer]);
}

static void put_layers(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &layers_table);
    for (int64_t l = 0; l < s->config->layers; l++) {
        const int64_t row = es_table_row(t);
        double keys = 0.0;
        for (int64_t g = 0; g < s->config->kv_heads; g++)
            keys += (double)k->plan[l * s->config->kv_heads + g].keys;
        es_put(t, row, {"layer", (double)l}, {"keys", keys},
               {"ratio", keys / (double)(s->config->kv_heads * s->sees)},
               {"predicted", k->forecast.own[l]}, {"predicted_se", k->forecast_se.own[l]},
               {"limit", limit_of_layer(s, k, l)}, {"state_predicted", k->forecast.state[l + 1]},
               {"state_predicted_se", k->forecast_se.state[l + 1]}, {"computed", k->computed[l]},
               {"computed_se", k->computed_se[l]}, {"weight", budget_weight(s, &k->all, l)},
               {"optimism", k->factors.optimism[l]}, {"rehearsed", k->factors.heads[l]},
               {"rehearsed_se", k->factors_se.heads[l]}, {"coherence", k->factors.coherence[l + 1]},
               {"coherence_se", k->factors_se.coherence[l + 1]});
        if (!s->n_settings)
            continue;
        const es_measured own = budget_layer_error(job, budget_tried(s, 0), l);
        const es_measured state = budget_found_state(job, budget_tried(s, 0), l + 1);
        es_put(t, row, {"verified", own.value}, {"verified_se", own.se},
               {"state_verified", state.value}, {"state_verified_se", state.se});
    }
}

/* Means over blocks of a head's facts, and its risk under what it keeps. */
typedef struct head_facts {
    double facts[ES_FACTS], limit;
    es_measured risk, ess;
} head_facts;

/* room (2, blocks). */
static head_facts facts_of(const es_job *job, const budget_context *k, int64_t head, double *room)
{
    const budget_state *s = job->state;
    const int64_t size = s->config->heads / s->config->kv_heads, B = s->text.count;
    const budget_choice *pick = &k->plan[head / size];
    head_facts f = {0};
    for (int64_t b = 0; b < B; b++) {
        const es_curves c = budget_curves_at(s, es_job_numbers(job, BUDGET_CURVES, b));
        /* a unit of one head, whose means are its own */
        const budget_means own = {.risk = c.risk + head * s->P * s->K,
                                  .limit = c.limit + head * s->K};
        for (int i = 0; i < ES_FACTS; i++)
            f.facts[i] += c.facts[head * ES_FACTS + i] / (double)B;
        f.limit += budget_limit(s, &own, 0, (double)pick->keys) / (double)B;
        room[b] =
            pick->policy < 0 ? 0.0 : budget_risk(s, &own, 0, pick->policy, (double)pick->keys);
        room[B + b] = c.facts[head * ES_FACTS + ES_FACT_ESS];
    }
    f.risk = es_measured_mean(room, B);
    f.ess = es_measured_mean(room + B, B);
    return f;
}

/* By the 95 % interval of ESS over blocks; one block has none. */
static const char *concentration_of(const es_measured *ess, int64_t blocks, int64_t sees)
{
    const double half =
        blocks > 1 ? ess->se * es_student_quantile((double)blocks - 1.0, 0.025) : 0.0;
    return es_regime_name(es_regime_within((double)sees, ess->value - half, ess->value + half));
}

static void put_head(const es_job *job, const budget_context *k, int64_t head, double *room,
                     es_table *t)
{
    const budget_state *s = job->state;
    const int64_t heads = s->config->heads, size = heads / s->config->kv_heads;
    const budget_choice *pick = &k->plan[head / size];
    const head_facts f = facts_of(job, k, head, room);
    const int64_t row = es_table_row(t);
    es_put(t, row, {"layer", (double)(head / heads)}, {"head", (double)(head % heads)},
           {"group", (double)(head % heads / size)}, {"risk", f.risk.value}, {"risk_se", f.risk.se},
           {"limit", f.limit}, {"spread", f.facts[ES_FACT_SPREAD]}, {"ess", f.facts[ES_FACT_ESS]},
           {"need", f.facts[ES_FACT_KEYS_95]}, {"sinks", f.facts[ES_FACT_SINKS]});
    es_table_text(t, row, "correction", "none"); /* unless chance has a say */
    if (pick->policy < 0) {
        es_table_text(t, row, "policy", "full");
        es_table_count(t, row, "keys", s->sees);
    } else {
        es_policy_spec spec = s->policies[pick->policy];
        spec.keys = pick->keys;
        es_policy_put(&spec, t, row);
    }
    es_table_text(t, row, "why", concentration_of(&f.ess, s->text.count, s->sees));
}

static es_status put_heads(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &heads_table);
    double *room;
    ES_TRY(ES_JOB_NEW_2D(job, room, 2, s->text.count, err));
    for (int64_t h = 0; h < s->config->layers * s->config->heads; h++)
        put_head(job, k, h, room, t);
    return ES_OK;
}

/* ---- sentences ---- */

/* "5.66 % ± 0.30 %", of a share. */
static const char *say_percent(es_measured m, char out[ES_SAY_ROOM])
{
    char number[ES_SAY_ROOM];
    es_say_number(100.0 * m.value, 100.0 * m.se, number);
    char *error = strstr(number, " ± ");
    if (error)
        *error = '\0';
    snprintf(out, ES_SAY_ROOM, error ? "%.40s %% ± %.40s %%" : "%.40s %%", number,
             error ? error + strlen(" ± ") : "");
    return out;
}

static es_measured predicted_state(const es_job *job, const budget_context *k)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    return (es_measured){k->forecast.state[L], k->forecast_se.state[L]};
}

static es_measured predicted_end(const budget_context *k)
{
    return (es_measured){k->forecast.loss, k->forecast_se.loss};
}

/* Was the plan run on text of its own length? Predictions are of that. */
static bool is_verified(const budget_state *s) { return s->n_settings && s->verify.length == s->n; }

/* Does the other text have a file of the calibration? */
static bool is_same_text(const budget_params *p)
{
    for (int64_t i = 0; i < p->verify.count; i++)
        for (int64_t k = 0; k < p->texts.count; k++)
            if (es_file_same(p->verify.at[i], p->texts.at[k]))
                return true;
    return false;
}

static const char *say_text(const es_job *job)
{
    return is_same_text(job->params) ? "text the plan was made from" : "held-out text";
}

/* Policies of the plan that look at one of these (ES_POLICY_): "heavy and observe"; "" if none. */
static const char *say_policies(const budget_state *s, const budget_context *k, unsigned needs,
                                char out[ES_SAY_ROOM])
{
    out[0] = '\0';
    for (int64_t p = 0; p < s->P; p++) {
        const size_t used = strlen(out);
        bool any = false;
        for (int64_t u = 0; u < s->units; u++)
            any = any || k->plan[u].policy == p;
        if (any && es_policy_inputs(s->policies[p].policy) & needs)
            snprintf(out + used, ES_SAY_ROOM - used, "%s%s", used ? " and " : "",
                     es_policy_name(s->policies[p].policy));
    }
    return out;
}

/* The answer: how far the model is from the full one, and what that does not mean. */
static void tell_state(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const double all = budget_everything(s), kept = budget_total(s, k->plan);
    char share[4 * ES_SAY_ROOM], found[ES_SAY_ROOM], predicted[ES_SAY_ROOM];
    char scope[3 * ES_SAY_ROOM] = "", ideal[ES_SAY_ROOM];
    if (s->config->predicts)
        snprintf(scope, sizeof scope,
                 " This is about the next token on such text at %lld tokens, not about retrieval; "
                 "`esscher loss --plan` tests other text.",
                 (long long)s->n);
    if (s->config->causal && *say_policies(s, k, ES_POLICY_SCORES, ideal))
        snprintf(share, sizeof share,
                 "Attending to %.3g %% of the keys (an ideal: %s must read all of them first), the "
                 "last hidden state",
                 100.0 * kept / all, ideal);
    else
        snprintf(share, sizeof share,
                 "With %.3g %% of %s (%.3g of %.3g MB in %s) the last hidden state",
                 100.0 * kept / all, s->config->causal ? "the KV cache" : "all keys and values",
                 bytes_of(job, kept) / 1e6, bytes_of(job, all) / 1e6, budget_dtypes[p->cache]);
    say_percent(predicted_state(job, k), predicted);
    if (!is_verified(s)) {
        es_answer_add_finding(
            a, "%s is predicted to change by %s of its spread%s.%s", share, predicted,
            s->n_settings ? "" : "; --verify FILE tests that on held-out text", scope);
        return;
    }
    es_answer_add_finding(
        a, "%s changes by %s of its spread (%s; %s was predicted).%s", share,
        say_percent(budget_found_state(job, budget_tried(s, 0), s->config->layers), found),
        say_text(job), predicted, scope);
}

/* What a plan for another length does: keys stay the numbers they are. */
static void tell_elsewhere(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    const int64_t n = s->verify.length;
    const int64_t sees = es_past_last((es_past){s->config->causal, s->config->window}, n);
    double kept = 0.0;
    char found[ES_SAY_ROOM];
    if (!s->n_settings || is_verified(s))
        return;
    for (int64_t u = 0; u < s->units; u++)
        kept += (double)(k->plan[u].policy < 0 || k->plan[u].keys > sees ? sees : k->plan[u].keys);
    es_answer_add_finding(
        a,
        "At %s%lld tokens the plan, made for %lld, keeps %.0f of %.0f keys, and the last hidden "
        "state changes by %s (%s).",
        s->verify.tasks.labels ? "up to " : "", (long long)n, (long long)s->n, kept,
        (double)(s->units * sees),
        say_percent(budget_found_state(job, budget_tried(s, 0), s->config->layers), found),
        say_text(job));
}

/* KL beside KL; extra loss on its own. Where distributions do not fit into memory losses are what
 * is predicted. */
static void tell_ends(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    const bool kl = budget_predicts_kl(job), tokens = s->config->predicts;
    const es_measured expected = predicted_end(k);
    char said[ES_SAY_ROOM], found[ES_SAY_ROOM], beside[2 * ES_SAY_ROOM] = "";
    char extra[2 * ES_SAY_ROOM] = "";
    const char *what = !kl      ? "The extra loss per token"
                       : tokens ? "KL of the next token"
                                : "KL of the labels";
    if (isnan(expected.value))
        return;
    es_say_number(expected.value, expected.se, said);
    if (!s->n_settings) {
        es_answer_add_finding(a, "%s is predicted to be %s nats%s.", what, said,
                              tokens ? ", in the second half of a block" : "");
        return;
    }
    if (is_verified(s))
        snprintf(beside, sizeof beside, " (%s was predicted)", said);
    if (kl && tokens) {
        const es_measured m = budget_found_end(job, budget_tried(s, 0), ES_END_LOSS);
        snprintf(extra, sizeof extra, " and the extra loss %s nats per token",
                 es_say_number(m.value, m.se, found));
    } else if (kl) {
        const es_measured m = budget_found_end(job, budget_tried(s, 0), ES_END_AGREE);
        snprintf(extra, sizeof extra, ", and %s of the labels stay", say_percent(m, found));
    }
    const es_measured m = budget_found_end(job, budget_tried(s, 0), kl ? ES_END_KL : ES_END_LOSS);
    es_answer_add_finding(a, "%s is %s nats%s%s%s.", what, es_say_number(m.value, m.se, found),
                          beside, extra, tokens ? ", in the second half of a block" : "");
}

/* Ours beside the others at the plan's amount, as far as they were tried. */
static void tell_rivals(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    char list[512] = "", said[ES_SAY_ROOM];
    for (int w = 1; w < BUDGET_WAYS; w++) {
        const int64_t tried = budget_setting_of(s, (budget_way)w, 0.0);
        const size_t used = strlen(list);
        if (tried < 0)
            return;
        const es_measured m = budget_found_state(job, budget_tried(s, tried), s->config->layers);
        snprintf(list + used, sizeof list - used, "%s%s (%s)", used ? ", " : "",
                 say_percent(m, said), budget_ways[w]);
    }
    es_answer_add_finding(a, "Other allocations of as many keys change the state by %s.", list);
}

/* ---- cautions ---- */

/* Eviction is not simulated: what a cache that forgets for good costs more (docs/BUDGET.md). Only
 * decoders have such a cache. "" where it does not matter. */
static const char *say_eviction(const es_job *job, const budget_context *k, char out[ES_PLAN_NOTE])
{
    const budget_state *s = job->state;
    char names[ES_SAY_ROOM];
    const unsigned past = ES_POLICY_HISTORY | ES_POLICY_OBSERVED;
    out[0] = '\0';
    if (s->config->causal && *say_policies(s, k, past, names))
        snprintf(out, ES_PLAN_NOTE,
                 "%s choose%s keys anew for each query, so that a dropped key may come back. Final "
                 "eviction costs more (uniform observe on MiniMind2-Small: +0.143 ± 0.049 KL), "
                 "and for prompt compression such a plan was worse than uniform (+0.079 ± "
                 "0.025 KL, 6 of 6 blocks).",
                 names, strstr(names, " and ") ? "" : "s");
    return out;
}

static void tell_cautions(const es_job *job, const budget_context *k, es_answer *a)
{
    const budget_state *s = job->state;
    char note[ES_PLAN_NOTE], names[ES_SAY_ROOM];
    if (*say_eviction(job, k, note))
        es_answer_add_finding(a, "Caution: %s", note);
    if (s->config->causal && *say_policies(s, k, ES_POLICY_SCORES, names))
        es_answer_add_finding(
            a,
            "Caution: %s choose%s keys by each query's own scores, which no server has "
            "before it reads all keys; --no-query-scores leaves such policies out.",
            names, strstr(names, " and ") ? "" : "s");
    if (s->sees < s->n)
        es_answer_add_finding(
            a,
            "The model itself sees the last %lld keys: they are all that a cache holds, "
            "and no policy has sinks, for the first keys are not among them.",
            (long long)s->sees);
    if (is_same_text(job->params))
        es_answer_add_finding(a,
                              "Caution: --verify names a file that the plan was made from: what is "
                              "found there says nothing of other text.");
    if (s->text.count < 4)
        es_answer_add_finding(a, "Caution: %lld block%s of text %s little to calibrate on.",
                              (long long)s->text.count, s->text.count == 1 ? "" : "s",
                              s->text.count == 1 ? "is" : "are");
}

/* ---- the file ---- */

static es_status save_plan(const es_job *job, const budget_context *k, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const int64_t heads = s->config->layers * s->config->heads;
    es_plan *plan;
    es_policy_spec *specs;
    double *risks;
    ES_TRY(ES_ARENA_NEW(k->arena, specs, heads, "specs", err));
    ES_TRY(ES_ARENA_NEW_2D(k->arena, risks, 2, s->text.count, "risks", err));
    ES_TRY(es_plan_new(s->config, s->n, job->exec.budget, &plan, err));
    budget_specs(s, k->plan, specs);
    for (int64_t h = 0; h < heads; h++) {
        plan->head[h].spec = specs[h];
        plan->head[h].risk = facts_of(job, k, h, risks).risk.value;
    }
    const char *slash = strrchr(p->texts.at[0], '/');
    snprintf(plan->text, sizeof plan->text, "%lld block%s of %lld tokens of %.160s",
             (long long)s->text.count, s->text.count == 1 ? "" : "s", (long long)s->n,
             slash ? slash + 1 : p->texts.at[0]);
    say_eviction(job, k, plan->note);
    es_plan_count(plan);
    const es_status status = es_plan_save(plan, p->out_plan, job->force, err);
    es_plan_free(plan);
    return status;
}

/* ---- all of it ---- */

static es_status put_all(es_job *job, budget_context *k, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    ES_TRY(budget_know(job, k, err));
    tell_state(job, k, a);
    tell_elsewhere(job, k, a);
    tell_ends(job, k, a);
    if (isnan(p->error) && isnan(p->loss)) /* else the verdict comes here */
        tell_rivals(job, a);
    put_plan(job, k, a);
    put_predicted(job, k, a);
    put_layers(job, k, a);
    ES_TRY(put_heads(job, k, a, err));
    budget_put_rehearsal(job, a);
    ES_TRY(budget_put_others(job, k, a, err));
    if (s->n_settings)
        ES_TRY(budget_put_verified(job, a, err));
    tell_cautions(job, k, a);
    return p->out_plan ? save_plan(job, k, err) : ES_OK;
}

es_status budget_summarise(es_job *job, es_answer *answer, es_error *err)
{
    es_arena arena = {.budget = job->exec.budget};
    budget_context k = {.arena = &arena};
    const es_status status = put_all(job, &k, answer, err);
    es_arena_free(&arena);
    return status;
}
