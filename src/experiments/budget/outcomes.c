/* SPDX-License-Identifier: Apache-2.0 */
/* outcomes.c : what trials measured: errors of layers and hidden states, changes of the model's
 * answer, and accuracy, each with its standard error over blocks. */
#include <math.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "model/logits.h"
#include "stats/fit.h"
#include "stats/proportion.h"

budget_runs budget_verify_runs(const budget_state *s, int64_t setting)
{
    return (budget_runs){BUDGET_TRIALS, setting * s->verify.count, s->verify.count};
}

budget_runs budget_rehearsal_runs(const budget_state *s)
{
    return (budget_runs){BUDGET_REHEARSAL, 0, s->text.count};
}

es_plan_trial budget_trial_of(const es_job *job, budget_runs runs, int64_t block)
{
    return budget_trial_at(job->state, es_job_numbers(job, runs.stage, runs.first + block));
}

/* Returns sqrt(sum a / sum b) over blocks with the standard error of a ratio of sums: for r = sum a
 * / sum b that of r comes from the scatter of a - r b, and that of sqrt(r) is se / (2 sqrt(r)). */
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

es_measured budget_layer_error(const es_job *job, budget_runs runs, int64_t layer)
{
    const budget_state *s = job->state;
    double *error2 = s->scratch, *spread2 = error2 + runs.count;
    for (int64_t i = 0; i < runs.count; i++) {
        const es_plan_trial t = budget_trial_of(job, runs, i);
        error2[i] = t.own2[layer];
        spread2[i] = t.out2[layer];
    }
    return root_ratio(error2, spread2, runs.count);
}

es_measured budget_state_error(const es_job *job, budget_runs runs, int64_t state)
{
    const budget_state *s = job->state;
    double *error2 = s->scratch, *spread2 = error2 + runs.count;
    for (int64_t i = 0; i < runs.count; i++) {
        const es_plan_trial t = budget_trial_of(job, runs, i);
        error2[i] = t.error2[state];
        spread2[i] = t.spread2[state];
    }
    return root_ratio(error2, spread2, runs.count);
}

/* Returns a share of labels. Its error is half of Wilson's 95 % interval over 1.96, which is not 0
 * when all of a few labels are the same. */
static es_measured share_of(int64_t count, int64_t all)
{
    const es_proportion p = es_proportion_of(count, all);
    return (es_measured){p.value, (p.high - p.low) / (2.0 * ES_SIGMAS_95)};
}

bool budget_predicts_kl(const es_job *job)
{
    return !isnan(budget_trial_of(job, budget_rehearsal_runs(job->state), 0).ends[ES_END_KL]);
}

/* Returns the share of labels that agree, of a classifier. */
static es_measured label_agreement(const es_job *job, budget_runs runs)
{
    int64_t same = 0;
    for (int64_t i = 0; i < runs.count; i++)
        same += budget_trial_of(job, runs, i).ends[ES_END_AGREE] > 0.5;
    return share_of(same, runs.count);
}

es_measured budget_answer_change(const es_job *job, budget_runs runs, int end)
{
    const budget_state *s = job->state;
    if (end == ES_END_AGREE && !s->config->causal && s->config->labels)
        return label_agreement(job, runs);
    for (int64_t i = 0; i < runs.count; i++)
        s->scratch[i] = budget_trial_of(job, runs, i).ends[end];
    return es_measured_mean(s->scratch, runs.count);
}

void budget_set_accuracy(const es_job *job, int64_t setting, budget_model_kind which,
                         es_measured *out)
{
    const budget_state *s = job->state;
    const budget_runs runs = budget_verify_runs(s, setting);
    const int64_t labels = s->config->labels;
    int64_t right = 0;
    if (!s->verify.tasks.labels)
        return;
    for (int64_t i = 0; i < runs.count; i++)
        right += es_logits_best(budget_trial_of(job, runs, i).logits + which * labels, labels) ==
                 s->verify.tasks.labels[i];
    *out = share_of(right, runs.count);
}

void budget_set_outcome(const es_job *job, budget_runs runs, budget_outcome *out)
{
    const es_measured loss = budget_answer_change(job, runs, ES_END_LOSS);
    const es_measured kl = budget_answer_change(job, runs, ES_END_KL);
    const es_measured agreement = budget_answer_change(job, runs, ES_END_AGREE);
    if (!isnan(loss.value))
        out->loss = loss;
    if (!isnan(kl.value))
        out->kl = kl;
    if (!isnan(agreement.value))
        out->agreement = agreement;
}
