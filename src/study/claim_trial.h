/* claim_trial.h : a small converge without run file, as several claims need one: run it, ask it for
 * rates, errors and predictions. What is made of the errors is what the study makes of them. */
#ifndef ES_STUDY_CLAIM_TRIAL_H
#define ES_STUDY_CLAIM_TRIAL_H

#include <esscher/converge.h>

#include "study/claim_kit.h"
#include "study/series.h"

typedef struct es_trial_spec {
    int64_t dim;
    double variance;   /* of a token's coordinates; Gaussian tokens around 0 */
    es_head_kind head; /* a rotation of unit tokens: scale = horizon */
    const double *scales;
    int64_t n_scales;
    const int64_t *sizes;
    int64_t n_sizes;
    int64_t replicates;
    bool population;
    int64_t reference; /* tokens of a sample that stands for the limit; 0: the limit itself */
} es_trial_spec;

typedef enum es_trial_error { ES_TRIAL_MEAN, ES_TRIAL_COV, ES_TRIAL_MAP } es_trial_error;

typedef struct es_trial {
    es_trial_spec spec;
    es_claim_opts opts;
    es_law law;
    es_head_data drawn;
    es_converge_spec converge;
    double *cells; /* (replicates, scales, sizes, errors) */
    es_arena arena;
} es_trial;

/*! es_trial_run() : every replicate. Free with es_trial_free(), whatever this returns. */
es_status es_trial_run(const es_claim_opts *opts, const es_trial_spec *spec, es_trial *out,
                       es_error *err);
void es_trial_free(es_trial *trial);

/*! es_trial_with() : run, let `gather` find evidence, free. */
typedef es_status (*es_trial_fn)(es_trial *trial, es_finding *out, es_error *err);
es_status es_trial_with(const es_claim_opts *opts, const es_trial_spec *spec, es_trial_fn gather,
                        es_finding *out, es_error *err);

/*! es_trial_rate() : error ~ n^-rate at scale s, with the bootstrap's standard error. */
es_status es_trial_rate(es_trial *trial, int64_t s, es_trial_error which, es_measured *out,
                        es_error *err);

/*! es_trial_rms() : root mean square over replicates of an error, at scale s and size i. */
es_status es_trial_rms(es_trial *trial, int64_t s, int64_t i, es_trial_error which,
                       es_measured *out, es_error *err);

/*! es_trial_horizons() : of the head at scale s. */
es_status es_trial_horizons(es_trial *trial, int64_t s, es_horizons *out, es_error *err);

/*! es_trial_predict() : what theory.h expects at scale s and size i, (mean, cov, map). */
es_status es_trial_predict(es_trial *trial, int64_t s, int64_t i, double out[3], es_error *err);

/*! es_trial_predicted_rates() : the rates that those would show on the same sizes. */
es_status es_trial_predicted_rates(es_trial *trial, int64_t s, double out[3], es_error *err);

#endif
