/* SPDX-License-Identifier: Apache-2.0 */
/* verified.c : tables "verified", "rehearsal" and "positions": the plan run through the model, on
 * held-out text and on its calibration text; and whether it meets --error or --loss. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "experiments/kit/answer_kit.h"
#include "stats/special.h"

/* ---- tables ---- */

#define OUTCOME_COLUMNS(row)                                                                       \
    ES_COL_KEY(row, outcome.loss, "loss", ES_FORMAT_REAL, "extra loss", "nats",                    \
               "loss per token over late positions minus the full model's on the same tokens; a "  \
               "classifier: KL of its labels"),                                                    \
        ES_COL_KEY(row, outcome.kl, "kl", ES_FORMAT_REAL, "KL", "nats",                            \
                   "of the next token's distribution from the full model's, or of the labels'"),   \
        ES_COL_KEY(row, outcome.agreement, "agreement", ES_FORMAT_REAL, "agreement", "",           \
                   "share of most likely next tokens, or labels, that stay the same; the error "   \
                   "for labels is that of Wilson's interval")

/* The row of the verification on held-out text. */
typedef struct verified_row {
    es_measured error, state;
    budget_outcome outcome;
    es_measured accuracy, loss_whole, accuracy_full;
    double keys;
    int64_t context, blocks;
} verified_row;

static const es_column verified_columns[] = {
    ES_COL(verified_row, error, ES_FORMAT_REAL, "attention error", "",
           "largest error of a layer's attention output, each computed from the full model's "
           "state, over its spread"),
    ES_COL(verified_row, state, ES_FORMAT_REAL, "state error", "",
           "of the last hidden state, over its spread"),
    OUTCOME_COLUMNS(verified_row),
    ES_COL(verified_row, accuracy, ES_FORMAT_REAL, "accuracy", "",
           "share of labelled texts that are right; its error is that of Wilson's interval"),
    ES_COL(verified_row, loss_whole, ES_FORMAT_REAL, "loss, all", "nats",
           "extra loss over all positions"),
    ES_COL(verified_row, accuracy_full, ES_FORMAT_REAL, "full accuracy", "",
           "accuracy of the full model"),
    ES_COL(verified_row, keys, ES_FORMAT_SHORT, "keys", "keys",
           "keys that a query used, mean over heads and all positions"),
    ES_COL(verified_row, context, ES_FORMAT_COUNT, "context", "tokens"),
    ES_COL(verified_row, blocks, ES_FORMAT_COUNT, "blocks", ""),
    {0}};
static const es_table_spec verified_table = {
    "verified", verified_columns,
    ES_VIEW("The plan on held-out text",
            "error state loss loss_whole kl agreement accuracy accuracy_full keys blocks",
            .only_with_full = true),
    ES_ROW(verified_row), .record = true};

/* The row of the rehearsal: each block under the plan of the others. */
typedef struct rehearsal_row {
    es_measured state;
    budget_outcome outcome;
    int64_t blocks;
} rehearsal_row;

static const es_column rehearsal_columns[] = {
    ES_COL(rehearsal_row, state, ES_FORMAT_REAL, "state error", "",
           "of the last hidden state, over its spread"),
    OUTCOME_COLUMNS(rehearsal_row),
    ES_COL(rehearsal_row, blocks, ES_FORMAT_COUNT, "blocks", "",
           "blocks of the calibration text, each under the plan made from the others; a single "
           "block: under its own plan"),
    {0}};
static const es_table_spec rehearsal_table = {"rehearsal", rehearsal_columns,
                                              ES_VIEW("The plan on its calibration text",
                                                      "state loss kl agreement blocks",
                                                      .only_with_full = true),
                                              ES_ROW(rehearsal_row), .record = true};

/* One of ES_BUDGET_BINS equal parts of a block. */
typedef struct position_row {
    int64_t from, to;
    es_measured loss;
} position_row;

static const es_column position_columns[] = {
    ES_COL(position_row, from, ES_FORMAT_COUNT, "from", "", "positions [from, to) of a block"),
    ES_COL(position_row, to, ES_FORMAT_COUNT, "to", ""),
    ES_COL(position_row, loss, ES_FORMAT_REAL, "extra loss", "nats", "of the plan, per token"),
    {0}};
static const es_table_spec positions_table = {
    "positions", position_columns, ES_VIEW("Extra loss by position", .only_with_full = true),
    ES_ROW(position_row), .keys = "from"};

es_status budget_put_rehearsal(const es_job *job, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    const budget_runs runs = budget_rehearsal_runs(s);
    rehearsal_row *r = es_rows_add(es_answer_table(a, &rehearsal_table), rehearsal_row);
    if (!r)
        return es_answer_status(a, err);
    r->state = budget_state_error(job, runs, s->config->layers);
    budget_set_outcome(job, runs, &r->outcome);
    r->blocks = runs.count;
    return ES_OK;
}

/* Returns the keys that a query used, mean over heads and blocks. */
static double mean_keys(const es_job *job)
{
    const budget_state *s = job->state;
    const int64_t heads = s->config->layers * s->config->heads;
    double sum = 0.0;
    for (int64_t i = 0; i < s->verify.count; i++)
        for (int64_t h = 0; h < heads; h++)
            sum += budget_trial_of(job, budget_verify_runs(s, 0), i).kept[h] /
                   (double)(heads * s->verify.count);
    return sum;
}

/* Returns the layer whose attention output has the largest error. */
static int64_t worst_layer(const es_job *job)
{
    const budget_state *s = job->state;
    int64_t worst = 0;
    for (int64_t l = 1; l < s->config->layers; l++)
        if (budget_layer_error(job, budget_verify_runs(s, 0), l).value >
            budget_layer_error(job, budget_verify_runs(s, 0), worst).value)
            worst = l;
    return worst;
}

/* Fills the table of the verification on held-out text. */
static es_status put_verified(const es_job *job, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    const budget_runs runs = budget_verify_runs(s, 0);
    verified_row *r = es_rows_add(es_answer_table(a, &verified_table), verified_row);
    if (!r)
        return es_answer_status(a, err);
    r->error = budget_layer_error(job, runs, worst_layer(job));
    r->state = budget_state_error(job, runs, s->config->layers);
    budget_set_outcome(job, runs, &r->outcome);
    budget_set_accuracy(job, 0, BUDGET_SPARSE_MODEL, &r->accuracy);
    budget_set_accuracy(job, 0, BUDGET_FULL_MODEL, &r->accuracy_full);
    if (s->config->predicts)
        r->loss_whole = budget_answer_change(job, runs, ES_END_WHOLE);
    r->keys = mean_keys(job);
    r->context = s->verify.length;
    r->blocks = s->verify.count;
    return ES_OK;
}

/* Fills the table of extra loss by position in the block; only models that predict tokens have
 * it. */
static es_status put_positions(const es_job *job, es_answer *a, es_error *err)
{
    const budget_state *s = job->state;
    if (!s->config->predicts)
        return ES_OK;
    es_table *t = es_answer_table(a, &positions_table);
    for (int64_t i = 0; i < ES_BUDGET_BINS; i++) {
        position_row *r = es_rows_add(t, position_row);
        if (!r)
            return es_answer_status(a, err);
        r->from = s->verify.length * i / ES_BUDGET_BINS;
        r->to = s->verify.length * (i + 1) / ES_BUDGET_BINS;
        r->loss = budget_answer_change(job, budget_verify_runs(s, 0), ES_END_BINS + (int)i);
    }
    return ES_OK;
}

/* ---- verdict ---- */

/* Returns the lower end of a figure's 95 % interval over blocks, one of `many` that must all hold
 * (Bonferroni). A single block has no interval: returns the value. */
static double lower_end(const es_measured *m, int64_t blocks, int64_t many)
{
    const double t =
        blocks > 1 ? es_student_quantile((double)blocks - 1.0, 0.025 / (double)many) : 0.0;
    return blocks > 1 ? m->value - t * m->se : m->value;
}

/* Adds one of three findings: the figure is within the tolerance; it exceeds it beyond the
 * interval, which fails the check; or the blocks are too few to decide. */
static void add_verdict(es_answer *a, bool broken, const char *what, const es_measured *m,
                        const char *unit, double most)
{
    char said[2 * ES_SAY_SIZE];
    es_say_number(m->value, m->se, said);
    snprintf(said + strlen(said), ES_SAY_SIZE, " %s", unit);
    if (broken) {
        es_answer_add_finding(a, "The plan does not meet what was asked for: %s is %s, above %.3g.",
                              what, said, most);
        es_answer_fail_check(a);
        es_log(ES_LOG_ERROR, "check failed: %s is %s, above %.3g", what, said, most);
    } else if (m->value <= most) {
        es_answer_add_finding(a, "The plan meets what was asked for: %s is %s, at most %.3g.", what,
                              said, most);
    } else {
        es_answer_add_finding(
            a,
            "Undecided whether the plan meets what was asked for: %s is %s; %.3g, "
            "the most allowed, is within the error. Use more --verify-blocks.",
            what, said, most);
    }
}

int64_t budget_broken(const es_measured *layers, int64_t count, int64_t blocks, double most)
{
    int64_t broken = -1;
    for (int64_t l = 0; l < count; l++) {
        const double least = lower_end(&layers[l], blocks, count);
        if (least > most) {
            most = least;
            broken = l;
        }
    }
    return broken;
}

/* Adds the finding whether --error was met on held-out text, by simultaneous intervals over
 * layers. */
static es_status judge_error(es_job *job, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const int64_t L = s->config->layers, worst = worst_layer(job);
    char what[ES_SAY_SIZE];
    es_measured *layers;
    ES_TRY(ES_JOB_NEW(job, layers, L, err));
    for (int64_t l = 0; l < L; l++)
        layers[l] = budget_layer_error(job, budget_verify_runs(s, 0), l);
    const int64_t broken = budget_broken(layers, L, s->verify.count, p->error);
    const int64_t named = broken < 0 ? worst : broken;
    snprintf(what, sizeof what, "the attention error of layer %lld%s", (long long)named,
             named == worst ? ", the largest," : "");
    add_verdict(a, broken >= 0, what, &layers[named], "of its spread", p->error);
    return ES_OK;
}

es_status budget_add_verdict(es_job *job, es_answer *a, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    if (!isnan(p->error))
        ES_TRY(judge_error(job, a, err));
    if (!isnan(p->loss)) {
        const es_measured m = budget_answer_change(job, budget_verify_runs(s, 0), ES_END_LOSS);
        add_verdict(a, lower_end(&m, s->verify.count, 1) > p->loss, "the extra loss", &m, "nats",
                    p->loss);
    }
    return ES_OK;
}

es_status budget_put_verified(es_job *job, es_answer *answer, es_error *err)
{
    ES_TRY(put_verified(job, answer, err));
    return put_positions(job, answer, err);
}
