/* SPDX-License-Identifier: Apache-2.0 */
/* claim_kit.h : what a claim is made of.
 *
 * A claim is an es_claim and a function that gathers evidence; a file of claims ends with a table
 * of them, and claims/cells.c lists the tables. Nothing else has to know a claim by name.
 */
#ifndef ES_EXPERIMENTS_CLAIMS_CLAIM_KIT_H
#define ES_EXPERIMENTS_CLAIMS_CLAIM_KIT_H

#include "experiments/claims/claims.h"

#include "experiments/converge/converge.h"
#include "experiments/kit/series.h"
#include "stats/average.h"

/* Elements of an array, as counts of tokens and scales are typed. */
#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

/* Titles of the papers: the source of what they state. */
extern const char es_paper_a[], es_paper_b[], es_paper_c[], es_paper_d[];

typedef es_status (*es_claim_fn)(const es_claim_opts *opts, es_finding *out, es_error *err);

typedef struct es_claim_entry {
    es_claim claim; /* id NULL ends a table */
    es_claim_fn check;
} es_claim_entry;

extern const es_claim_entry es_claims_gaussian[], es_claims_exponents[], es_claims_habits[],
    es_claims_hardmax[], es_claims_sphere[], es_claims_ball[], es_claims_regimes[],
    es_claims_average[], es_claims_collapse[], es_claims_rope[], es_claims_sparse[];

/*! es_evidence_equal() : measured should equal `predicted`, which may itself be off by `allowance`.
 * A standard error with which a difference of `resolution` would go unnoticed leaves it undecided.
 * `tries` independent draws are behind that error; 0: the number is computed, its error 0. */
void es_evidence_equal(es_finding *f, double predicted, double allowance, double resolution,
                       es_measured m, int64_t tries, const char *fmt, ...) ES_PRINTF(7, 8);

/*! es_evidence_at_least(), es_evidence_at_most() : measured should not be on the wrong side of
 * `bound`; one that is within its error of the bound leaves it undecided. */
#define es_evidence_at_least(f, bound, m, tries, ...)                                              \
    es_evidence_bound(f, ES_RELATION_AT_LEAST, bound, m, tries, __VA_ARGS__)
#define es_evidence_at_most(f, bound, m, tries, ...)                                               \
    es_evidence_bound(f, ES_RELATION_AT_MOST, bound, m, tries, __VA_ARGS__)
void es_evidence_bound(es_finding *f, es_relation relation, double bound, es_measured m,
                       int64_t tries, const char *fmt, ...) ES_PRINTF(6, 7);

/*! es_finding_remark() : what to make of the numbers, for the verdict that is expected: it is shown
 * only beside that. */
void es_finding_remark(es_finding *f, const char *fmt, ...) ES_PRINTF(2, 3);

/*! es_finding_decide() : the verdict of every piece, and of the finding: that of the gravest.
 * es_finding_conclude() : the same, and the conclusion. */
void es_finding_decide(es_finding *f);
void es_finding_conclude(es_finding *f, es_claim_group group);

/* How many claims of each group got which verdict. */
typedef struct es_claim_tally {
    int64_t of[ES_CLAIM_GROUPS][3]; /* [group][verdict] */
} es_claim_tally;

/*! es_claim_tally_group() : claims of a group, whatever their verdict. */
int64_t es_claim_tally_group(const es_claim_tally *tally, es_claim_group group);

/*! es_claim_tally_unexpected() : claims that should hold and fail: contradicted statements of
 *  papers and results that are not confirmed. A reading that fails is none of them. */
int64_t es_claim_tally_unexpected(const es_claim_tally *tally);

/*! es_claim_headline() : the tally as one sentence, into out (room): papers, results, readings. */
void es_claim_headline(const es_claim_tally *tally, char *out, size_t room);

/*! es_effort_pick() : `quick` or `paper`, as the effort says. */
static inline int64_t es_effort_pick(const es_claim_opts *opts, int64_t quick, int64_t paper)
{
    return opts->effort == ES_EFFORT_PAPER ? paper : quick;
}

/*! es_claim_budget() : what memory of a claim is counted in; may be NULL. */
static inline es_mem_limit *es_claim_budget(const es_claim_opts *opts)
{
    return opts->exec ? opts->exec->budget : NULL;
}

/* ---- trials ----
 * A small converge without run file, as several claims need one: run it, ask it for rates, errors
 * and predictions. What is made of the errors is what the study makes of them. */

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
    es_converge_cell *cells; /* (replicates, scales, sizes) */
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

/*! es_trial_rate() : error ~ n^-rate at scale s, with the jackknife's standard error. */
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
