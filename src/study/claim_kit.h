/* claim_kit.h : what a claim is made of.
 *
 * A claim is an es_claim and a function that gathers evidence; a file of claims ends with a table
 * of them, and claims.c lists the tables. Nothing else has to know a claim by name.
 */
#ifndef ES_STUDY_CLAIM_KIT_H
#define ES_STUDY_CLAIM_KIT_H

#include <esscher/claims.h>

#include "stats/average.h"

/* Elements of an array, as counts of tokens and scales are typed. */
#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

typedef es_status (*es_claim_fn)(const es_claim_opts *opts, es_finding *out, es_error *err);

typedef struct es_claim_entry {
    es_claim claim; /* id NULL ends a table */
    es_claim_fn check;
} es_claim_entry;

extern const es_claim_entry es_claims_gaussian[], es_claims_exponents[], es_claims_pitfalls[],
    es_claims_hardmax[], es_claims_sphere[], es_claims_ball[], es_claims_regimes[],
    es_claims_average[], es_claims_collapse[], es_claims_rope[];

/*! es_evidence_equal() : measured should equal `predicted`, which may itself be off by `slack`. A
 * standard error with which a difference of `resolution` would go unnoticed leaves it undecided. */
void es_evidence_equal(es_finding *f, double predicted, double slack, double resolution,
                       es_measured m, const char *fmt, ...) ES_PRINTF(6, 7);

/*! es_evidence_at_least(), es_evidence_at_most() : measured should not be on the wrong side of
 * `bound`; one that is within its error of the bound leaves it undecided. */
void es_evidence_at_least(es_finding *f, double bound, es_measured m, const char *fmt, ...)
    ES_PRINTF(4, 5);
void es_evidence_at_most(es_finding *f, double bound, es_measured m, const char *fmt, ...)
    ES_PRINTF(4, 5);

/*! es_finding_decide() : the verdict from the evidence: the worst piece's, or the first's if all
 * agree. es_finding_conclude() : the same, and the conclusion. */
void es_finding_decide(es_finding *f);
void es_finding_conclude(es_finding *f, const char *fmt, ...) ES_PRINTF(2, 3);

/*! es_effort_pick() : `quick` or `paper`, as the effort says. */
static inline int64_t es_effort_pick(const es_claim_opts *opts, int64_t quick, int64_t paper)
{
    return opts->effort == ES_EFFORT_PAPER ? paper : quick;
}

/*! es_claim_budget() : what memory of a claim is counted in; may be NULL. */
static inline es_budget *es_claim_budget(const es_claim_opts *opts)
{
    return opts->exec ? opts->exec->budget : NULL;
}

#endif
