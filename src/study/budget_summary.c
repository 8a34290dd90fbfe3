/* budget_summary.c : the plan, what it will cost, and sentences about it; beside it what
 * verification found. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/sparse_head.h"
#include "store/file.h"
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
     "nats per token over late positions, as KL; a classifier: KL of its labels",
     .error = "loss_se", .standing = ES_STANDING_HEURISTIC},
    {"loss_coherence", "loss coherence", "", ES_FORMAT_REAL,
     "loss as rehearsed, over the sum of what layers cost one at a time: the prediction has this "
     "factor",
     .error = "loss_coherence_se"},
    {0}};
static const es_table_spec predicted_table = {"predicted", predicted_columns,
                                              ES_VIEW("What the plan will cost"), .record = true};

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
        es_put(t, row, {"loss", k->forecast.loss}, {"loss_se", k->forecast_se.loss},
               {"loss_coherence", k->factors.loss}, {"loss_coherence_se", k->factors_se.loss});
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
        const es_measured own = budget_found_own(job, budget_tried(s, 0), l);
        const es_measured state = budget_found_state(job, budget_tried(s, 0), l + 1);
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
static const char *kind_of(const head_facts *f, int64_t sees)
{
    if (f->facts[ES_FACT_SINKS] > 0.5)
        return "sinks";
    if (f->facts[ES_FACT_ESS] > 0.25 * (double)sees)
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
        es_table_count(t, row, "keys", s->sees);
    } else {
        es_policy_spec spec = s->policies[pick->policy];
        spec.keys = pick->keys;
        es_policy_put(&spec, t, row);
    }
    es_table_text(t, row, "why", kind_of(&f, s->sees));
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
    snprintf(plan->text, sizeof plan->text, "%lld block%s of %lld tokens of %.160s",
             (long long)s->text.count, s->text.count == 1 ? "" : "s", (long long)s->n,
             slash ? slash + 1 : p->texts.at[0]);
    es_plan_count(plan);
    const es_status status = es_plan_save(plan, p->out_plan, job->force, err);
    es_plan_free(plan);
    return status;
}

/* ---- sentences ---- */

static void tell_plan(const es_job *job, const budget_known *k, es_answer *a)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    const double all = budget_everything(s), kept = budget_total(s, k->plan);
    char state[ES_SAY_ROOM], loss[ES_SAY_ROOM], extra[2 * ES_SAY_ROOM] = "";
    if (!isnan(k->forecast.loss))
        snprintf(extra, sizeof extra, " and %s nats %s",
                 es_say_number(k->forecast.loss, k->forecast_se.loss, loss),
                 s->config->predicts ? "of KL per token" : "of KL of its labels");
    es_answer_tell(
        a,
        "Keeping %.0f of %.0f keys (%.3g %%; %.3g of %.3g MB of cache in %s) at a context of %lld "
        "is predicted to cost an error of %s spreads in the last hidden state%s.",
        kept, all, 100.0 * kept / all, bytes_of(job, kept) / 1e6, bytes_of(job, all) / 1e6,
        budget_dtypes[p->cache], (long long)s->n,
        es_say_number(k->forecast.state[L], k->forecast_se.state[L], state), extra);
}

/* Does the other text have a file of the calibration? */
static bool is_same_text(const budget_params *p)
{
    for (int64_t i = 0; i < p->verify.count; i++)
        for (int64_t k = 0; k < p->texts.count; k++)
            if (es_file_same(p->verify.at[i], p->texts.at[k]))
                return true;
    return false;
}

/* Where the plan was verified; at another length also what it keeps there. */
static void say_where(const es_job *job, const budget_known *k, char out[4 * ES_SAY_ROOM])
{
    const budget_state *s = job->state;
    const int64_t n = s->verify.length;
    const int64_t sees = es_past_last((es_past){s->config->causal, s->config->window}, n);
    double kept = 0.0;
    const int used =
        snprintf(out, ES_SAY_ROOM, "On %s (%lld block%s)",
                 is_same_text(job->params) ? "text that the plan was made from" : "other text",
                 (long long)s->verify.count, s->verify.count == 1 ? "" : "s");
    if (n == s->n)
        return;
    for (int64_t u = 0; u < s->units; u++)
        kept += (double)(k->plan[u].policy < 0 || k->plan[u].keys > sees ? sees : k->plan[u].keys);
    snprintf(out + used, 3 * ES_SAY_ROOM,
             " of %s%lld tokens, of whose %.0f keys the plan, which is for %lld, keeps %.0f,",
             s->verify.tasks.labels ? "up to " : "", (long long)n, (double)(s->units * sees),
             (long long)s->n, kept);
}

static void tell_verified(const es_job *job, const budget_known *k, es_answer *a)
{
    const budget_state *s = job->state;
    char where[4 * ES_SAY_ROOM], state[ES_SAY_ROOM], loss[ES_SAY_ROOM], extra[2 * ES_SAY_ROOM] = "";
    if (!s->n_settings)
        return;
    const es_measured found = budget_found_state(job, budget_tried(s, 0), s->config->layers);
    const es_measured end = budget_found_end(job, budget_tried(s, 0), ES_END_LOSS);
    if (!isnan(end.value))
        snprintf(extra, sizeof extra, " and costs %s nats", es_say_number(end.value, end.se, loss));
    say_where(job, k, where);
    es_answer_tell(a, "%s the last hidden state is off by %s spreads%s.", where,
                   es_say_number(found.value, found.se, state), extra);
}

/* How far predictions are off, in the layer where that is most. They are of the plan's context, and
 * where nothing is lost, or nothing was predicted, there is no factor. */
static void tell_furthest(const es_job *job, const budget_known *k, es_answer *a)
{
    const budget_state *s = job->state;
    double off = 0.0;
    int64_t worst = -1;
    for (int64_t l = 0; l < s->config->layers && s->n_settings && s->verify.length == s->n; l++) {
        const double found = budget_found_own(job, budget_tried(s, 0), l).value;
        if (!(k->forecast.own[l] > 0.0 && found > 0.0))
            continue;
        if (worst < 0 || fabs(log(k->forecast.own[l] / found)) > off) {
            off = fabs(log(k->forecast.own[l] / found));
            worst = l;
        }
    }
    if (worst >= 0)
        es_answer_tell(
            a,
            "Predicted errors of attention are within a factor of %.3g of what was found "
            "there in every layer (furthest off in layer %lld: %.3g predicted, %.3g "
            "found).",
            exp(off), (long long)worst, k->forecast.own[worst],
            budget_found_own(job, budget_tried(s, 0), worst).value);
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
        snprintf(list + used, sizeof list - used, "%s%s %s", used ? ", " : "", budget_ways[w],
                 es_say_number(m.value, m.se, said));
    }
    const es_measured ours = budget_found_state(job, budget_tried(s, 0), s->config->layers);
    if (*list)
        es_answer_tell(a,
                       "The same number of keys shared out otherwise leaves the last hidden state "
                       "off by: %s; ours %s.",
                       list, es_say_number(ours.value, ours.se, said));
}

static void tell_cautions(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    if (s->config->kv_heads < s->config->heads)
        es_answer_tell(a,
                       "Every %lld heads share keys and values: they keep one set, by the sum of "
                       "their weights.",
                       (long long)(s->config->heads / s->config->kv_heads));
    if (s->sees < s->n)
        es_answer_tell(a,
                       "The model itself sees the last %lld keys: they are all that a cache holds, "
                       "and no policy has sinks, for the first keys are not among them.",
                       (long long)s->sees);
    if (is_same_text(job->params))
        es_answer_tell(a, "Caution: --verify names a file that the plan was made from: what is "
                          "found there says nothing of other text.");
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
    ES_TRY(budget_know(job, k, err));
    tell_plan(job, k, a);
    tell_verified(job, k, a);
    tell_furthest(job, k, a);
    tell_rivals(job, a);
    put_plan(job, k, a);
    put_predicted(job, k, a);
    put_layers(job, k, a);
    ES_TRY(put_heads(job, k, a, err));
    budget_put_rehearsal(job, a);
    ES_TRY(budget_put_others(job, k, a, err));
    if (s->n_settings)
        ES_TRY(budget_put_verified(job, a, err));
    tell_cautions(job, a);
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
