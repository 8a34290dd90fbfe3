/* SPDX-License-Identifier: Apache-2.0 */
/* claims.h : statements about attention at long context, checked on this machine.
 *
 * A claim belongs to one of three groups, and its verdict has that group's word:
 *
 *     group                       holds                fails
 *     statements of the papers    consistent           contradicted
 *     results of this project     confirmed            not confirmed
 *     readings and habits         holds as a reading   fails as a reading
 *
 * Statements are in our words, and es_claim_papers() says which text of each paper they are taken
 * from. A reading is what people conclude from a paper and no available text of it says, or a habit
 * of published code: every one of them is expected to fail, and that refutes no paper. Checking a
 * claim runs a small experiment and compares what was measured with what was predicted, in pieces
 * of *evidence*. A verdict follows from the standard errors alone:
 *
 *     holds       every piece agrees, and the errors are small enough that it could have failed
 *     fails       at least one piece disagrees by more than its errors allow
 *     undecided   the errors are too large to tell: more effort is needed
 *
 * A statement about n to infinity can be consistent with sizes that were tried; it is not proved.
 *
 * What errors allow is chosen so that a true claim is refused with a probability of at most
 * ES_CLAIM_LEVEL: its pieces share that level, and each is a test of Student's, since an error that
 * was estimated from few draws is itself uncertain. The conclusion is made from verdict and numbers
 * and says nothing that the verdict does not.
 *
 *     for (int64_t i = 0; i < es_claims_count(); i++) {
 *         es_finding found;
 *         es_claim_check(i, &(es_claim_opts){.effort = ES_EFFORT_QUICK}, &found, &err);
 *         printf("%s: %s\n", es_claim_at(i)->statement, found.conclusion);
 *     }
 *
 * Same seed, same bits, for any number of threads.
 */
#ifndef ES_EXPERIMENTS_CLAIMS_CLAIMS_H
#define ES_EXPERIMENTS_CLAIMS_CLAIMS_H

#include <esscher/exec.h>
#include <esscher/status.h>

#define ES_CLAIM_LEVEL 0.002 /* a true claim is refused once in so many seeds, or less often */

enum { ES_CLAIM_EVIDENCE = 32 }; /* pieces that one claim can have */

typedef enum es_verdict {
    ES_VERDICT_UNDECIDED = 0,
    ES_VERDICT_HOLDS = 1,
    ES_VERDICT_FAILS = 2
} es_verdict;

/* Claims of one group come one after the other, in this order. */
typedef enum es_claim_group {
    ES_CLAIM_PAPER = 0,  /* stated by a paper */
    ES_CLAIM_RESULT = 1, /* derived in this project */
    ES_CLAIM_READING = 2 /* concluded from a paper that does not say it, or done by habit */
} es_claim_group;

enum { ES_CLAIM_GROUPS = 3 };

/*! es_claim_group_name() : "statements of the papers", "results of this project", "readings and
 *  habits"; "" for a number that is no group. */
const char *es_claim_group_name(es_claim_group group);

/*! es_claim_expected() : what a claim of this group is expected to do: ES_VERDICT_FAILS for a
 *  reading, ES_VERDICT_HOLDS for the others. */
es_verdict es_claim_expected(es_claim_group group);

/*! es_claim_verdict_name() : the group's word for a verdict, as in the table above; "undecided" in
 *  every group. */
const char *es_claim_verdict_name(es_claim_group group, es_verdict verdict);

/* A paper, and the text of it that its statements were taken from. */
typedef struct es_claim_paper {
    const char *title;
    const char *arxiv; /* number */
    const char *text;  /* which text was available */
} es_claim_paper;

/*! es_claim_papers() : the papers, `*count` of them; they stay valid. */
const es_claim_paper *es_claim_papers(int64_t *count);

typedef enum es_effort {
    ES_EFFORT_QUICK = 0, /* all claims in some two minutes on two cores */
    ES_EFFORT_PAPER = 1  /* the papers' numbers of tokens: less than half an hour */
} es_effort;

typedef struct es_claim {
    const char *id;        /* one word, for --only and for links */
    const char *source;    /* the title of a paper; else where it comes from */
    const char *statement; /* in our words */
    es_claim_group group;
    const char *limits; /* what this check cannot tell; NULL: nothing to add */
} es_claim;

/* How a measurement relates to its prediction when the claim is true. */
typedef enum es_relation {
    ES_RELATION_EQUAL = 1,
    ES_RELATION_AT_LEAST = 2,
    ES_RELATION_AT_MOST = 3,
    ES_RELATION_ABOUT = 4 /* equal, but for an allowance of more than a thousandth of it */
} es_relation;

/*! es_relation_name() : "=", ">=", "<=", "~"; "" for a number that is none. */
const char *es_relation_name(es_relation relation);

typedef struct es_evidence {
    char label[80];
    es_relation relation;
    double predicted;
    double allowance;    /* what the prediction itself may be off by, from theory; 0 of a bound */
    double resolution;   /* what a measurement must be able to tell apart, or nothing is decided */
    double measured, se; /* se 0: computed, not sampled */
    int64_t tries;       /* independent draws that `se` is estimated from; 0: computed */
    /* what follows from these */
    double sigmas;   /* standard errors by which it may be outside before it fails */
    double slack;    /* how far inside what is claimed, below 0: outside, as a part of |predicted|;
                        NaN where that is 0, or less than the allowance */
    double slack_se; /* the same in standard errors; NaN of what is computed */
    es_verdict verdict;
} es_evidence;

typedef struct es_finding {
    es_evidence evidence[ES_CLAIM_EVIDENCE];
    int count;
    int decisive; /* the piece that speaks for all: the one nearest to refuting the claim */
    es_verdict verdict;
    char remark[352];     /* what to make of it, written for the verdict that is expected */
    char conclusion[640]; /* the verdict and the decisive piece in words; the remark if it fits */
} es_finding;

/*! es_claims_count(), es_claim_at() : the claims, in a fixed order; NULL outside. */
int64_t es_claims_count(void);
const es_claim *es_claim_at(int64_t index);

typedef struct es_claim_opts {
    es_effort effort;
    uint64_t seed;
    const es_exec *exec; /* NULL: all threads, no limits */
} es_claim_opts;

/*! es_claim_check() : run the experiment of claim `index`. `out` needs no freeing. Quick effort:
 *  a fraction of a second to some ten seconds each.
 *  @return : ES_OK whatever the verdict; ES_E_RANGE for an index that is none; ES_E_INTERRUPTED,
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_claim_check(int64_t index, const es_claim_opts *opts, es_finding *out, es_error *err);

#endif
