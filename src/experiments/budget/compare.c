/* compare.c : the plan beside others: ways to share the keys out, policies by themselves and
 * the limit; plans from less text, and from another.
 *
 * Their predictions are sums of risks, and of errors through transfers, times optimism. What the
 * rehearsal found is of the plan that was rehearsed: tried on others, its factors are as often too
 * large as sums are too small (docs/BUDGET.md). So that all can be compared, the plan is predicted
 * in the same way here. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/budget/question.h"

/* ---- tables ---- */

static const es_column allocation_columns[] = {
    {"allocation", "allocation", "", ES_FORMAT_TEXT,
     "ours: by marginal risk; uniform; pyramid: falling with depth; mass: within a layer by the "
     "keys that hold 95 % of the weight. Policies are the best of each head in all of them"},
    {"asked", "asked", "", ES_FORMAT_REAL, "share of the keys"},
    {"ratio", "ratio", "", ES_FORMAT_REAL, "that came of it"},
    {"state_predicted", "predicted state", "", ES_FORMAT_REAL,
     "error of the last hidden state, by sums of risks and optimism alone: not rehearsed",
     .standing = ES_STANDING_HEURISTIC},
    {"state", "state error", "", ES_FORMAT_REAL, "on other text, over its spread",
     .error = "state_se"},
    {"kl_predicted", "predicted KL", "nats", ES_FORMAT_REAL,
     "of what the model says next, in the same way", .standing = ES_STANDING_HEURISTIC},
    {"kl", "KL", "nats", ES_FORMAT_REAL, "on other text, late positions", .error = "kl_se"},
    {"loss_predicted", "predicted loss", "nats", ES_FORMAT_REAL,
     "extra, per token; only where distributions do not fit into memory, instead of KL",
     .standing = ES_STANDING_HEURISTIC},
    {"loss", "extra loss", "nats", ES_FORMAT_REAL, "on other text, late positions",
     .error = "loss_se"},
    {"more", "than ours", "nats", ES_FORMAT_REAL,
     "extra loss less that of ours, on the same blocks", .error = "more_se"},
    {"agreement", "agreement", "", ES_FORMAT_REAL, "of the most likely", .error = "agreement_se"},
    {"accuracy", "accuracy", "", ES_FORMAT_REAL, "of labels", .error = "accuracy_se"},
    {0}};
static const es_table_spec allocations_table = {
    "allocations", allocation_columns,
    ES_VIEW("Ways to share the keys out",
            "allocation asked ratio state_predicted state kl_predicted kl loss_predicted loss more "
            "agreement accuracy",
            .only_with_full = true),
    .keys = "asked allocation"};

static const es_column frontier_columns[] = {
    {"by", "by", "", ES_FORMAT_TEXT,
     "ours with all policies, with those that need no scores of the query, with one alone; the "
     "limit"},
    {"asked", "asked", "", ES_FORMAT_REAL, "share of the keys"},
    {"ratio", "ratio", "", ES_FORMAT_REAL, "that came of it"},
    {"state", "state error", "", ES_FORMAT_REAL,
     "predicted error of the last hidden state, over its spread",
     .standing = ES_STANDING_HEURISTIC},
    {"error", "attention error", "", ES_FORMAT_REAL,
     "root mean square over layers of the predicted errors of attention outputs, over its spread",
     .standing = ES_STANDING_HEURISTIC},
    {"kl", "KL", "nats", ES_FORMAT_REAL, "predicted, of what the model says next",
     .standing = ES_STANDING_HEURISTIC},
    {"loss", "extra loss", "nats", ES_FORMAT_REAL,
     "predicted, per token; only where distributions do not fit into memory, instead of KL",
     .standing = ES_STANDING_HEURISTIC},
    {0}};
static const es_table_spec frontier_table = {
    "frontier", frontier_columns,
    ES_VIEW("Frontier: predicted error against keys", .only_with_full = true), .keys = "by asked"};

static const es_column calibration_columns[] = {
    {"blocks", "blocks", "", ES_FORMAT_COUNT, "of the calibration that a plan is made from"},
    {"tokens", "tokens", "tokens", ES_FORMAT_COUNT, "that they have"},
    {"plans", "plans", "", ES_FORMAT_COUNT,
     "made from different blocks; what follows is their mean"},
    {"moved", "moved", "", ES_FORMAT_REAL,
     "share of the keys that such a plan gives to other heads than the plan does"},
    {"policies", "other policy", "", ES_FORMAT_REAL, "share of the key-value heads"},
    {"state", "state error", "", ES_FORMAT_REAL,
     "of the last hidden state on the other blocks, by risks alone",
     .standing = ES_STANDING_HEURISTIC},
    {"worse", "worse by", "", ES_FORMAT_REAL,
     "than under the plan, which was made from those, too, as a share of that"},
    {0}};
static const es_table_spec calibration_table = {
    "calibration", calibration_columns,
    ES_VIEW("How much text the plan needs", .only_with_full = true), .keys = "blocks"};

static const es_column domain_columns[] = {
    {"text", "text", "", ES_FORMAT_TEXT, "calibration, or the other"},
    {"blocks", "blocks", "", ES_FORMAT_COUNT},
    {"own", "own plan", "", ES_FORMAT_REAL,
     "error of the last hidden state on each block under the plan that the others of the same text "
     "make, by risks alone",
     .standing = ES_STANDING_HEURISTIC},
    {"foreign", "foreign plan", "", ES_FORMAT_REAL, "under the plan that the other text makes",
     .standing = ES_STANDING_HEURISTIC},
    {"worse", "worse by", "", ES_FORMAT_REAL, "as a share of the former"},
    {"moved", "moved", "", ES_FORMAT_REAL,
     "share of the keys that the two plans give to different heads"},
    {"policies", "other policy", "", ES_FORMAT_REAL, "share of the key-value heads"},
    {0}};
static const es_table_spec domains_table = {"domains", domain_columns,
                                            ES_VIEW("Plans of two texts", .only_with_full = true),
                                            .keys = "text"};

/* ---- other ways ---- */

static double more_loss(const es_job *job, int64_t setting, int64_t ours, int64_t block)
{
    const budget_state *s = job->state;
    const es_plan_trial a =
        budget_trial_at(s, es_job_numbers(job, BUDGET_TRIALS, setting * s->verify.count + block));
    const es_plan_trial b =
        budget_trial_at(s, es_job_numbers(job, BUDGET_TRIALS, ours * s->verify.count + block));
    return a.ends[ES_END_LOSS] - b.ends[ES_END_LOSS];
}

/* Settings of equal ratio stand together, ours first. */
static void put_tried(const es_job *job, int64_t setting, es_table *t, int64_t row)
{
    const budget_state *s = job->state;
    const es_measured state = budget_found_state(job, budget_tried(s, setting), s->config->layers);
    es_put(t, row, {"state", state.value}, {"state_se", state.se});
    budget_put_ends(job, budget_tried(s, setting), t, row);
    budget_put_accuracy(job, setting, t, row);
    const int64_t ours = setting - (int64_t)s->settings[setting].way;
    if (setting == ours)
        return;
    for (int64_t b = 0; b < s->verify.count; b++)
        s->room[b] = more_loss(job, setting, ours, b);
    const es_measured more = es_measured_mean(s->room, s->verify.count);
    if (!isnan(more.value))
        es_put(t, row, {"more", more.value}, {"more_se", more.se});
}

int64_t budget_setting_of(const budget_state *s, budget_way way, double ratio)
{
    for (int64_t i = 0; i < s->n_settings; i++)
        if (s->settings[i].way == way && s->settings[i].ratio == ratio)
            return i;
    return -1;
}

/* All ways at one amount; ratio 0: that of the plan. */
static es_status put_amount(es_job *job, const budget_context *k, double ratio, es_table *t,
                            es_error *err)
{
    const budget_state *s = job->state;
    const double all = budget_everything(s);
    const double total = ratio > 0.0 ? ratio * all : budget_total(s, k->plan);
    budget_forecast f;
    budget_choice *picks;
    budget_factors own = {0};
    ES_TRY(ES_JOB_NEW(job, own.optimism, s->config->layers, err));
    ES_TRY(budget_forecast_new(s, k->arena, &f, err));
    ES_TRY(ES_JOB_NEW(job, picks, s->units, err));
    for (int w = 0; w < BUDGET_WAYS; w++) {
        ES_TRY(budget_share(s, &k->all, (budget_way)w, total, NULL, k->arena, picks, err));
        const bool asked = w == BUDGET_OURS && ratio == 0.0;
        if (asked)
            memcpy(picks, k->plan, (size_t)s->units * sizeof *picks);
        const budget_strategy r = {asked, (budget_way)w, total, NULL};
        ES_TRY(budget_optimism(job, k, &r, own.optimism, err));
        budget_predict(s, &k->all, picks, NULL, &own, &f);
        const int64_t row = es_table_row(t), tried = budget_setting_of(s, (budget_way)w, ratio);
        es_table_text(t, row, "allocation", budget_ways[w]);
        es_put(t, row, {"asked", total / all}, {"ratio", budget_total(s, picks) / all},
               {"state_predicted", f.state[s->config->layers]});
        if (!isnan(f.loss))
            es_table_real(t, row, budget_predicts_kl(job) ? "kl_predicted" : "loss_predicted",
                          f.loss);
        if (tried >= 0)
            put_tried(job, tried, t, row);
    }
    return ES_OK;
}

static bool is_reachable(const budget_state *s, double ratio)
{
    return ratio * (double)s->sees >= (double)s->options[0];
}

static es_status put_allocations(es_job *job, const budget_context *k, es_answer *a, es_error *err)
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
        es_table_real(t, row, budget_predicts_kl(job) ? "kl" : "loss", f->loss);
}

/* Ours with some of the policies. */
static es_status put_policies(es_job *job, const budget_context *k, const char *by,
                              const bool *only, double ratio, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const double all = budget_everything(s);
    budget_forecast f;
    budget_choice *picks;
    budget_factors own = {0};
    const budget_strategy r = {.way = BUDGET_OURS, .total = ratio * all, .only = only};
    ES_TRY(budget_forecast_new(s, k->arena, &f, err));
    ES_TRY(ES_JOB_NEW(job, picks, s->units, err));
    ES_TRY(ES_JOB_NEW(job, own.optimism, s->config->layers, err));
    ES_TRY(budget_apply(job, k, &r, &k->all, k->arena, picks, err));
    ES_TRY(budget_optimism(job, k, &r, own.optimism, err));
    budget_predict(s, &k->all, picks, NULL, &own, &f);
    put_point(job, by, ratio, budget_total(s, picks) / all, &f, t);
    return ES_OK;
}

static es_status put_limit(es_job *job, const budget_context *k, double ratio, es_table *t,
                           es_error *err)
{
    const budget_state *s = job->state;
    budget_forecast f;
    double *own2;
    ES_TRY(budget_forecast_new(s, k->arena, &f, err));
    ES_TRY(ES_JOB_NEW(job, own2, s->config->layers, err));
    ES_TRY(budget_share_limit(s, &k->all, ratio * budget_everything(s), k->arena, own2, err));
    budget_predict(s, &k->all, NULL, own2, NULL, &f);
    put_point(job, "limit", ratio, ratio, &f, t);
    return ES_OK;
}

static es_status put_frontier(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &frontier_table);
    bool *only;
    int64_t without = 0; /* policies that need no scores */
    char word[ES_POLICY_ROOM];
    ES_TRY(ES_JOB_NEW(job, only, s->P, err));
    for (int64_t i = 0; i < s->P; i++)
        without += es_policy_deployable(s->policies[i].policy);
    for (int64_t i = 0; i < p->frontier.count; i++) {
        const double ratio = p->frontier.reals[i];
        if (!is_reachable(s, ratio))
            continue;
        ES_TRY(put_policies(job, k, "all policies", NULL, ratio, t, err));
        for (int64_t j = 0; j < s->P; j++)
            only[j] = es_policy_deployable(s->policies[j].policy);
        if (without && without < s->P)
            ES_TRY(put_policies(job, k, "no query scores", only, ratio, t, err));
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

/* How far plans are apart: the share of the keys of b that are elsewhere in a, and of units with
 * another policy. */
typedef struct apart {
    double moved, policies;
} apart;

static apart apart_of(const budget_state *s, const budget_choice *a, const budget_choice *b)
{
    const double total = budget_total(s, b);
    apart d = {0};
    for (int64_t u = 0; u < s->units; u++) {
        d.moved += 0.5 * fabs((double)(a[u].keys - b[u].keys)) / total;
        d.policies += (a[u].policy != b[u].policy) / (double)s->units;
    }
    return d;
}

/* error2 of the last hidden state over its spread, by risks alone. */
static es_status state2_of(const budget_state *s, const budget_means *means,
                           const budget_choice *picks, es_arena *arena, double *out, es_error *err)
{
    budget_forecast f;
    ES_TRY(budget_forecast_new(s, arena, &f, err));
    budget_predict(s, means, picks, NULL, NULL, &f);
    *out = f.state[s->config->layers] * f.state[s->config->layers];
    return ES_OK;
}

static es_status picks_new(const budget_state *s, es_arena *arena, budget_choice **out,
                           es_error *err)
{
    return ES_ARENA_NEW(arena, *out, s->units, "picks", err);
}

/* The plan of blocks [from, from + count), judged by the other blocks. */
static es_status add_part(es_job *job, const budget_context *k, int64_t from, int64_t count,
                          es_arena *arena, apart *d, double *state2, double *own2, es_error *err)
{
    const budget_state *s = job->state;
    const budget_subset of = {from, from + count, false}, rest = {from, from + count, true};
    budget_means means, others;
    budget_choice *picks;
    double own, whole;
    ES_TRY(picks_new(s, arena, &picks, err));
    ES_TRY(budget_average(job, of, &job->exec, arena, &means, err));
    ES_TRY(budget_average(job, rest, &job->exec, arena, &others, err));
    ES_TRY(budget_make(s, &means, &k->aim, arena, picks, err));
    ES_TRY(state2_of(s, &others, picks, arena, &own, err));
    ES_TRY(state2_of(s, &others, k->plan, arena, &whole, err));
    const apart one = apart_of(s, picks, k->plan);
    *d = (apart){d->moved + one.moved, d->policies + one.policies};
    *state2 += own;
    *own2 += whole;
    return ES_OK;
}

/* Plans from `count` blocks each, as many as there are. */
static es_status put_calibration_of(es_job *job, const budget_context *k, int64_t count,
                                    es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t plans = s->text.count / count;
    double state2 = 0.0, whole2 = 0.0;
    apart d = {0};
    es_status status = ES_OK;
    for (int64_t i = 0; i < plans && status == ES_OK; i++) {
        es_arena arena = {.budget = job->exec.budget};
        status = add_part(job, k, i * count, count, &arena, &d, &state2, &whole2, err);
        es_arena_free(&arena);
    }
    ES_TRY(status);
    const double P = (double)plans;
    es_put(t, es_table_row(t), {"blocks", (double)count}, {"tokens", (double)(count * s->n)},
           {"plans", P}, {"moved", d.moved / P}, {"policies", d.policies / P},
           {"state", sqrt(state2 / P)}, {"worse", sqrt(state2 / whole2) - 1.0});
    return ES_OK;
}

static es_status put_calibration(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &calibration_table);
    for (int64_t count = 1; count < s->text.count; count *= 2)
        ES_TRY(put_calibration_of(job, k, count, t, err));
    return ES_OK;
}

/* ---- another domain ---- */

/* One of the two texts. */
typedef struct domain {
    int stage;
    int64_t blocks;
    budget_means means;
    budget_choice *plan;
} domain;

static es_status domain_new(es_job *job, const budget_context *k, int stage, int64_t blocks,
                            domain *out, es_error *err)
{
    const budget_state *s = job->state;
    *out = (domain){.stage = stage, .blocks = blocks};
    ES_TRY(picks_new(s, k->arena, &out->plan, err));
    ES_TRY(budget_average_risks(job, stage, (budget_subset){0, blocks, false}, &job->exec, k->arena,
                                &out->means, err));
    budget_copy_gains(&k->all, &out->means); /* transfers are those of the calibration */
    return budget_make(s, &out->means, &k->aim, k->arena, out->plan, err);
}

/* error2 on each block under the plan of the text's other blocks: mean. Of one block: its own. */
static es_status own_state2(es_job *job, const budget_context *k, const domain *d, int64_t b,
                            es_arena *arena, double *out, es_error *err)
{
    const budget_state *s = job->state;
    const budget_subset block = {b, b + 1, false}, rest = {b, b + 1, d->blocks > 1};
    budget_means alone, others;
    budget_choice *picks;
    double state2;
    ES_TRY(picks_new(s, arena, &picks, err));
    ES_TRY(budget_average_risks(job, d->stage, block, &job->exec, arena, &alone, err));
    ES_TRY(budget_average_risks(job, d->stage, rest, &job->exec, arena, &others, err));
    budget_copy_gains(&k->all, &alone);
    budget_copy_gains(&k->all, &others);
    ES_TRY(budget_make(s, &others, &k->aim, arena, picks, err));
    ES_TRY(state2_of(s, &alone, picks, arena, &state2, err));
    *out += state2 / (double)d->blocks;
    return ES_OK;
}

static es_status put_domain(es_job *job, const budget_context *k, const char *name, const domain *d,
                            const domain *other, es_table *t, es_error *err)
{
    const budget_state *s = job->state;
    const apart a = apart_of(s, d->plan, other->plan);
    double own = 0.0, foreign;
    for (int64_t b = 0; b < d->blocks; b++) {
        es_arena arena = {.budget = job->exec.budget};
        const es_status status = own_state2(job, k, d, b, &arena, &own, err);
        es_arena_free(&arena);
        ES_TRY(status);
    }
    ES_TRY(state2_of(s, &d->means, other->plan, k->arena, &foreign, err));
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "text", name);
    es_put(t, row, {"blocks", (double)d->blocks}, {"own", sqrt(own)}, {"foreign", sqrt(foreign)},
           {"worse", sqrt(foreign / own) - 1.0}, {"moved", a.moved}, {"policies", a.policies});
    return ES_OK;
}

static es_status put_domains(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    domain here, there;
    if (!s->others.count)
        return ES_OK;
    es_table *t = es_answer_table(a, &domains_table);
    ES_TRY(domain_new(job, k, BUDGET_CURVES, s->text.count, &here, err));
    ES_TRY(domain_new(job, k, BUDGET_OTHERS, s->others.count, &there, err));
    ES_TRY(put_domain(job, k, "calibration", &here, &there, t, err));
    return put_domain(job, k, "other", &there, &here, t, err);
}

es_status budget_put_others(es_job *job, const budget_context *k, es_answer *a, es_error *err)
{
    ES_TRY(put_allocations(job, k, a, err));
    ES_TRY(put_frontier(job, k, a, err));
    ES_TRY(put_calibration(job, k, a, err));
    return put_domains(job, k, a, err);
}
