/* claims_pitfalls.c : habits of published code that mislead; expected to fail here. */
#include <math.h>

#include "base/error.h"
#include "study/claim_kit.h"
#include "study/claim_trial.h"

static const char code_a[] = "public code of Token Sample Complexity of Attention";

/* ---- the horizon without its 1/sqrt(k) ---- */

static const double scales[] = {7.6};
static const int64_t quick_sizes[] = {500, 1000, 2000, 4000},
                     paper_sizes[] = {1000, 3107, 9655, 30000};

static es_status gather_unscaled(es_trial *trial, es_finding *out, es_error *err)
{
    es_horizons h;
    es_measured rate;
    ES_TRY(es_trial_horizons(trial, 0, &h, err));
    ES_TRY(es_trial_rate(trial, 0, ES_TRIAL_MEAN, &rate, err));
    const double H = h.unscaled.val;
    es_evidence_equal(out, 1.0 / (2.0 * (1.0 + H * H)), 0.02, 0.2, rate,
                      "rate of the mean, the papers' random head, d = 50, scale %.1f", scales[0]);
    es_finding_conclude(out,
                        "The softmax divides by sqrt(k), so the horizon must: H is %.2f, not %.2f, "
                        "and the measured rate is %.2f, not %.2f.",
                        h.horizon.val, H, rate.value, 1.0 / (2.0 * (1.0 + H * H)));
    return ES_OK;
}

static es_status check_unscaled(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    return es_trial_with(
        opts,
        &(es_trial_spec){.dim = 50,
                         .variance = 0.1,
                         .head = ES_HEAD_RANDOM,
                         .scales = scales,
                         .n_scales = COUNT(scales),
                         .sizes = opts->effort == ES_EFFORT_PAPER ? paper_sizes : quick_sizes,
                         .n_sizes = COUNT(quick_sizes),
                         .replicates = es_effort_pick(opts, 48, 200)},
        gather_unscaled, out, err);
}

/* ---- a finite sample in place of the limit ---- */

static const double frozen_scale[] = {50.0};

static es_status rate_against(const es_claim_opts *opts, int64_t reference, es_measured *rate,
                              es_error *err)
{
    es_trial trial;
    es_status status = es_trial_run(
        opts,
        &(es_trial_spec){.dim = 50,
                         .variance = 0.1,
                         .head = ES_HEAD_RANDOM,
                         .scales = frozen_scale,
                         .n_scales = COUNT(frozen_scale),
                         .sizes = opts->effort == ES_EFFORT_PAPER ? paper_sizes : quick_sizes,
                         .n_sizes = COUNT(quick_sizes),
                         .replicates = es_effort_pick(opts, 32, 200),
                         .reference = reference},
        &trial, err);
    if (status == ES_OK)
        status = es_trial_rate(&trial, 0, ES_TRIAL_COV, rate, err);
    es_trial_free(&trial);
    return status;
}

/* The same tokens against the limit and against a sample four times as large. */
static es_status check_reference(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    es_measured exact, sampled;
    const int64_t reference = es_effort_pick(opts, 16000, 100000);
    ES_TRY(rate_against(opts, 0, &exact, err));
    ES_TRY(rate_against(opts, reference, &sampled, err));
    es_evidence_equal(out, exact.value, 0.01, 0.2,
                      (es_measured){sampled.value, hypot(sampled.se, exact.se)},
                      "rate of the covariance, against a sample of %lld tokens, scale %.0f",
                      (long long)reference, frozen_scale[0]);
    es_finding_conclude(out,
                        "A finite sample is biased like everything else: measured against it the "
                        "covariance's rate is %.3f, against the limit itself %.3f.",
                        sampled.value, exact.value);
    return ES_OK;
}

const es_claim_entry es_claims_pitfalls[] = {
    {{"finite-reference", code_a,
      "A large sample can stand for the limit: measured against it, errors have the same rate",
      ES_VERDICT_FAILS},
     check_reference},
    {{"unscaled-horizon", code_a,
      "The rate is 1/(2(1+H^2)) with H computed from Wk'Wq without the 1/sqrt(k) of the softmax",
      ES_VERDICT_FAILS},
     check_unscaled},
    {{0}, 0}};
