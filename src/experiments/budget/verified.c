/* verified.c : the plan on other text: errors by layer, what the model says, the verdict. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/logits.h"
#include "experiments/kit/answer_kit.h"
#include "stats/fit.h"
#include "stats/proportion.h"
#include "stats/special.h"

/* ---- numbers ---- */

budget_runs budget_tried(const budget_state *s, int64_t setting)
{
    return (budget_runs){BUDGET_TRIALS, setting * s->verify.count, s->verify.count};
}

budget_runs budget_rehearsed(const budget_state *s)
{
    return (budget_runs){BUDGET_REHEARSAL, 0, s->text.count};
}

static es_plan_trial trial_of(const es_job *job, budget_runs runs, int64_t block)
{
    return budget_trial_at(job->state, es_job_numbers(job, runs.stage, runs.first + block));
}

/* sqrt(sum a / sum b) over blocks, and its error as that of a ratio. */
static es_measured root_ratio(const double *a, const double *b, int64_t count)
{
    double above = 0.0, below = 0.0, scatter = 0.0;
    for (int64_t i = 0; i < count; i++) {
        above += a[i];
        below += b[i];
    }
    const double ratio = above / below;
    for (int64_t i = 0; i < count; i++)
        scatter += (a[i] - ratio * b[i]) * (a[i] - ratio * b[i]);
    const double se = es_block_se(scatter, below, count), root = sqrt(ratio);
    return (es_measured){root, root > 0.0 ? se / (2.0 * root) : se};
}

enum { OWN, STATE };

/* error2 over spread2 of a layer or state. */
static es_measured relative_of(const es_job *job, budget_runs runs, int what, int64_t at)
{
    const budget_state *s = job->state;
    double *a = s->room, *b = a + runs.count;
    for (int64_t i = 0; i < runs.count; i++) {
        const es_plan_trial t = trial_of(job, runs, i);
        a[i] = what == OWN ? t.own2[at] : t.error2[at];
        b[i] = what == OWN ? t.out2[at] : t.spread2[at];
    }
    return root_ratio(a, b, runs.count);
}

es_measured budget_layer_error(const es_job *job, budget_runs runs, int64_t layer)
{
    return relative_of(job, runs, OWN, layer);
}

es_measured budget_found_state(const es_job *job, budget_runs runs, int64_t state)
{
    return relative_of(job, runs, STATE, state);
}

/* A share of labels. Its error is a half of Wilson's interval over 1.96: it is not 0 where all of a
 * few are the same. */
static es_measured share_of(int64_t count, int64_t all)
{
    const es_proportion p = es_proportion_of(count, all);
    return (es_measured){p.value, (p.high - p.low) / (2.0 * ES_SIGMAS_95)};
}

bool budget_predicts_kl(const es_job *job)
{
    return !isnan(trial_of(job, budget_rehearsed(job->state), 0).ends[ES_END_KL]);
}

/* Labels that agree are counted. */
static es_measured label_agreement(const es_job *job, budget_runs runs)
{
    int64_t same = 0;
    for (int64_t i = 0; i < runs.count; i++)
        same += trial_of(job, runs, i).ends[ES_END_AGREE] > 0.5;
    return share_of(same, runs.count);
}

es_measured budget_found_end(const es_job *job, budget_runs runs, int end)
{
    const budget_state *s = job->state;
    if (end == ES_END_AGREE && !s->config->causal && s->config->labels)
        return label_agreement(job, runs);
    for (int64_t i = 0; i < runs.count; i++)
        s->room[i] = trial_of(job, runs, i).ends[end];
    return es_measured_mean(s->room, runs.count);
}

es_measured budget_accuracy(const es_job *job, int64_t setting, int which)
{
    const budget_state *s = job->state;
    const budget_runs runs = budget_tried(s, setting);
    const int64_t labels = s->config->labels;
    int64_t right = 0;
    if (!s->verify.tasks.labels)
        return (es_measured){(double)NAN, (double)NAN};
    for (int64_t i = 0; i < runs.count; i++)
        right += es_logits_best(trial_of(job, runs, i).logits + which * labels, labels) ==
                 s->verify.tasks.labels[i];
    return share_of(right, runs.count);
}

/* ---- tables ---- */

#define END_COLUMNS                                                                                \
    {"loss",                                                                                       \
     "extra loss",                                                                                 \
     "nats",                                                                                       \
     ES_FORMAT_REAL,                                                                               \
     "nats per token over late positions, more than the full model's on the same tokens; a "       \
     "classifier: KL of its labels",                                                               \
     .error = "loss_se"},                                                                          \
        {"kl",                                                                                     \
         "KL",                                                                                     \
         "nats",                                                                                   \
         ES_FORMAT_REAL,                                                                           \
         "of the next token's distribution from the full model's, or of the labels'",              \
         .error = "kl_se"},                                                                        \
    {                                                                                              \
        "agreement", "agreement", "", ES_FORMAT_REAL,                                              \
            "share of most likely next tokens, or labels, that stay; of labels the error is that " \
            "of Wilson's interval",                                                                \
            .error = "agreement_se"                                                                \
    }

static const es_column verified_columns[] = {
    {"error", "attention error", "", ES_FORMAT_REAL,
     "the largest error of a layer's attention output, each from the full model's state, over "
     "its spread",
     .error = "error_se"},
    {"state", "state error", "", ES_FORMAT_REAL, "of the last hidden state, over its spread",
     .error = "state_se"},
    END_COLUMNS,
    {"accuracy", "accuracy", "", ES_FORMAT_REAL,
     "share of labelled texts that are right; its error is that of Wilson's interval",
     .error = "accuracy_se"},
    {"loss_whole", "loss, all", "nats", ES_FORMAT_REAL, "extra loss over all positions",
     .error = "loss_whole_se"},
    {"accuracy_full", "full accuracy", "", ES_FORMAT_REAL, "of the model as it is",
     .error = "accuracy_full_se"},
    {"keys", "keys", "keys", ES_FORMAT_SHORT,
     "that a query had, mean over heads, and over all positions of the blocks"},
    {"context", "context", "tokens", ES_FORMAT_COUNT},
    {"blocks", "blocks", "", ES_FORMAT_COUNT},
    {0}};
static const es_table_spec verified_table = {
    "verified", verified_columns,
    ES_VIEW("The plan on other text",
            "error state loss loss_whole kl agreement accuracy "
            "accuracy_full keys blocks",
            .only_with_full = true),
    .record = true};

static const es_column rehearsal_columns[] = {
    {"state", "state error", "", ES_FORMAT_REAL, "of the last hidden state, over its spread",
     .error = "state_se"},
    END_COLUMNS,
    {"blocks", "blocks", "", ES_FORMAT_COUNT,
     "of the calibration, each under the plan that the others make (one block: under its own)"},
    {0}};
static const es_table_spec rehearsal_table = {
    "rehearsal", rehearsal_columns,
    ES_VIEW("The rehearsal", "state loss kl agreement blocks", .only_with_full = true),
    .record = true};

static const es_column position_columns[] = {
    {"from", "from", "", ES_FORMAT_COUNT, "places [from, to) of a block"},
    {"to", "to", "", ES_FORMAT_COUNT},
    {"loss", "extra loss", "nats", ES_FORMAT_REAL, "of the plan, nats per token",
     .error = "loss_se"},
    {0}};
static const es_table_spec positions_table = {
    "positions", position_columns, ES_VIEW("Extra loss by position", .only_with_full = true),
    .keys = "from"};

void budget_put_ends(const es_job *job, budget_runs runs, es_table *t, int64_t row)
{
    static const struct {
        const char *key;
        int end;
    } ends[] = {{"loss", ES_END_LOSS}, {"kl", ES_END_KL}, {"agreement", ES_END_AGREE}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const es_measured m = budget_found_end(job, runs, ends[i].end);
        if (!isnan(m.value))
            es_put_under(t, row, ends[i].key, {"", m.value}, {"_se", m.se});
    }
}

void budget_put_accuracy(const es_job *job, int64_t setting, es_table *t, int64_t row)
{
    const es_measured right = budget_accuracy(job, setting, 1);
    if (!isnan(right.value))
        es_put_under(t, row, "accuracy", {"", right.value}, {"_se", right.se});
}

void budget_put_rehearsal(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    const budget_runs runs = budget_rehearsed(s);
    es_table *t = es_answer_table(a, &rehearsal_table);
    const int64_t row = es_table_row(t);
    const es_measured state = budget_found_state(job, runs, s->config->layers);
    es_put(t, row, {"state", state.value}, {"state_se", state.se});
    budget_put_ends(job, runs, t, row);
    es_table_count(t, row, "blocks", runs.count);
}

static double keys_of(const es_job *job)
{
    const budget_state *s = job->state;
    const int64_t heads = s->config->layers * s->config->heads;
    double sum = 0.0;
    for (int64_t i = 0; i < s->verify.count; i++)
        for (int64_t h = 0; h < heads; h++)
            sum += trial_of(job, budget_tried(s, 0), i).kept[h] / (double)(heads * s->verify.count);
    return sum;
}

/* The layer whose attention is furthest off. */
static int64_t worst_layer(const es_job *job)
{
    const budget_state *s = job->state;
    int64_t worst = 0;
    for (int64_t l = 1; l < s->config->layers; l++)
        if (budget_layer_error(job, budget_tried(s, 0), l).value >
            budget_layer_error(job, budget_tried(s, 0), worst).value)
            worst = l;
    return worst;
}

static void put_positions(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    if (!s->config->predicts)
        return;
    es_table *t = es_answer_table(a, &positions_table);
    for (int64_t i = 0; i < ES_BUDGET_BINS; i++) {
        const es_measured m = budget_found_end(job, budget_tried(s, 0), ES_END_BINS + (int)i);
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "from", s->verify.length * i / ES_BUDGET_BINS);
        es_table_count(t, row, "to", s->verify.length * (i + 1) / ES_BUDGET_BINS);
        es_put(t, row, {"loss", m.value}, {"loss_se", m.se});
    }
}

static void put_record(const es_job *job, es_answer *a)
{
    const budget_state *s = job->state;
    es_table *t = es_answer_table(a, &verified_table);
    const int64_t row = es_table_row(t);
    const es_measured own = budget_layer_error(job, budget_tried(s, 0), worst_layer(job));
    const es_measured state = budget_found_state(job, budget_tried(s, 0), s->config->layers);
    es_put(t, row, {"error", own.value}, {"error_se", own.se}, {"state", state.value},
           {"state_se", state.se}, {"keys", keys_of(job)});
    budget_put_ends(job, budget_tried(s, 0), t, row);
    budget_put_accuracy(job, 0, t, row);
    const es_measured whole = budget_found_end(job, budget_tried(s, 0), ES_END_WHOLE);
    if (s->config->predicts)
        es_put(t, row, {"loss_whole", whole.value}, {"loss_whole_se", whole.se});
    const es_measured full = budget_accuracy(job, 0, 0);
    if (!isnan(full.value))
        es_put(t, row, {"accuracy_full", full.value}, {"accuracy_full_se", full.se});
    es_table_count(t, row, "context", s->verify.length);
    es_table_count(t, row, "blocks", s->verify.count);
}

/* ---- the verdict ---- */

/* What is at least true of a figure: the lower end of its interval over blocks, of 95 % for `many`
 * figures of which none may be above by chance (Bonferroni). One block has no interval. */
static double at_least(const es_measured *m, int64_t blocks, int64_t many)
{
    const double t =
        blocks > 1 ? es_student_quantile((double)blocks - 1.0, 0.025 / (double)many) : 0.0;
    return blocks > 1 ? m->value - t * m->se : m->value;
}

/* Three answers: it holds as found; it is broken, beyond the interval; blocks are too few to tell.
 */
static void tell_verdict(es_answer *a, bool broken, const char *what, const es_measured *m,
                         const char *unit, double most)
{
    char said[2 * ES_SAY_ROOM];
    es_say_number(m->value, m->se, said);
    snprintf(said + strlen(said), ES_SAY_ROOM, " %s", unit);
    if (broken) {
        es_answer_add_finding(a, "The tolerance is broken: %s is %s, asked for at most %.3g.", what,
                              said, most);
        es_answer_fail_check(a);
        es_log(ES_LOG_ERROR, "check failed: %s is %s, above %.3g", what, said, most);
    } else if (m->value <= most) {
        es_answer_add_finding(a, "The tolerance holds: %s is %s, asked for at most %.3g.", what,
                              said, most);
    } else {
        es_answer_add_finding(
            a,
            "The tolerance is not shown to be broken: %s is %s, asked for at most %.3g, "
            "which is within the error; --verify-blocks makes it smaller.",
            what, said, most);
    }
}

int64_t budget_broken(const es_measured *layers, int64_t count, int64_t blocks, double most)
{
    int64_t broken = -1;
    for (int64_t l = 0; l < count; l++) {
        const double least = at_least(&layers[l], blocks, count);
        if (least > most) {
            most = least;
            broken = l;
        }
    }
    return broken;
}

static es_status judge_error(es_job *job, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const int64_t L = s->config->layers, worst = worst_layer(job);
    char what[ES_SAY_ROOM];
    es_measured *layers;
    ES_TRY(ES_JOB_NEW(job, layers, L, err));
    for (int64_t l = 0; l < L; l++)
        layers[l] = budget_layer_error(job, budget_tried(s, 0), l);
    const int64_t broken = budget_broken(layers, L, s->verify.count, p->error);
    const int64_t told = broken < 0 ? worst : broken;
    snprintf(what, sizeof what, "the attention error of layer %lld%s", (long long)told,
             told == worst ? ", the largest," : "");
    tell_verdict(a, broken >= 0, what, &layers[told], "of its spread", p->error);
    return ES_OK;
}

static es_status judge(es_job *job, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    if (!isnan(p->error))
        ES_TRY(judge_error(job, a, err));
    if (!isnan(p->loss)) {
        const es_measured m = budget_found_end(job, budget_tried(s, 0), ES_END_LOSS);
        tell_verdict(a, at_least(&m, s->verify.count, 1) > p->loss, "the extra loss", &m, "nats",
                     p->loss);
    }
    return ES_OK;
}

es_status budget_put_verified(es_job *job, es_answer *answer, es_error *err)
{
    put_record(job, answer);
    put_positions(job, answer);
    return judge(job, answer, err);
}
