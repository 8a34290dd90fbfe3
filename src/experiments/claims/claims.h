/* SPDX-License-Identifier: Apache-2.0 */
/* claims.h : statements about attention at long context, checked on this machine.
 *
 * A claim belongs to one of three groups, and its verdict has that group's word:
 *
 *     group                       holds                fails
 *     statements of the papers    consistent           contradicted
 *     results of this project     confirmed            not confirmed
 *     common assumptions          holds                does not hold
 *
 * Statements are in our words, and es_claim_papers() says which text of each paper they are taken
 * from. A common assumption is what people conclude from a paper although no available text of it
 * says so, or a habit of published code. Every one of them is expected to fail, and that refutes no
 * paper. Checking a claim runs small experiments and compares what was measured with what was
 * predicted, in pieces of *evidence*. A verdict follows from the standard errors alone:
 *
 *     holds       every piece agrees, and the errors are small enough that it could have failed
 *     fails       at least one piece disagrees by more than its errors allow
 *     undecided   the errors are too large for either: more effort is needed
 *
 * A statement about n to infinity can be consistent with sizes that were tried; it is not proved.
 *
 * What errors allow is chosen so that a true claim fails with a probability of at most
 * ES_CLAIM_LEVEL: its pieces share that level, and each is a test of Student's, since an error that
 * was estimated from few draws is itself uncertain.
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
#include <esscher/format.h>
#include <esscher/status.h>

#define ES_CLAIM_LEVEL 0.002 /* probability with which a true claim fails, at most */

enum {
    ES_CLAIM_EVIDENCE = 32, /* pieces of evidence of one claim, at most */
    ES_LABEL_NUMBERS = 4    /* numbers in the label of a piece, at most */
};

typedef enum es_verdict {
    ES_VERDICT_UNDECIDED = 0,
    ES_VERDICT_HOLDS = 1,
    ES_VERDICT_FAILS = 2
} es_verdict;

/* Claims of one group come one after the other, in this order. */
typedef enum es_claim_group {
    ES_CLAIM_PAPER = 0,     /* stated by a paper */
    ES_CLAIM_RESULT = 1,    /* derived in this project */
    ES_CLAIM_ASSUMPTION = 2 /* concluded from a paper that does not say it, or done by habit */
} es_claim_group;

enum { ES_CLAIM_GROUPS = 3 };

/*! es_claim_group_name() : "statements of the papers", "results of this project", "common
 *  assumptions"; "" for a number that is no group. */
const char *es_claim_group_name(es_claim_group group);

/*! es_claim_expected() : what a claim of this group is expected to do: ES_VERDICT_FAILS for a
 *  common assumption, ES_VERDICT_HOLDS for the others. */
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
    ES_EFFORT_PAPER = 1  /* the papers' numbers of tokens: about half an hour */
} es_effort;

typedef struct es_claim {
    const char *id;        /* one word, for --only and for links */
    const char *source;    /* the title of a paper; else where it comes from */
    const char *statement; /* in our words */
    es_claim_group group;
    const char *limits; /* what this check leaves open; NULL: nothing to add */
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

/* A comparison of a measurement with a prediction: the record that run files hold. */
typedef struct es_evidence {
    double relation;                /* an es_relation; 0: there is no evidence here */
    double piece;                   /* number of the es_claim_piece, from 0, whose label it has */
    double shown[ES_LABEL_NUMBERS]; /* the numbers in that label, in their order */
    double predicted;
    double allowance;     /* error of the prediction itself, from theory; 0 for a bound */
    double resolution;    /* difference that the measurement must be able to show */
    es_measured measured; /* se 0: computed, not sampled */
    double tries;         /* independent draws that the error is estimated from; 0: computed */
} es_evidence;

/* What follows from a piece of evidence among all of its claim. */
typedef struct es_judgement {
    double sigmas;   /* standard errors by which it may be outside before it fails */
    double slack;    /* how far inside what is claimed, below 0: outside, as a part of |predicted|;
                        NaN where that is 0, or less than the allowance */
    double slack_se; /* the same in standard errors; NaN for computed numbers */
    es_verdict verdict;
    char label[80];
} es_judgement;

typedef struct es_finding {
    es_evidence evidence[ES_CLAIM_EVIDENCE];
    es_judgement judged[ES_CLAIM_EVIDENCE];
    int count;
    int decisive; /* the piece that is nearest to refuting the claim */
    es_verdict verdict;
    char conclusion[640]; /* the verdict and the decisive piece in words, then the claim's remark
                             if it was written for this verdict */
} es_finding;

/*! es_claims_count(), es_claim_at() : the claims, in a fixed order; NULL outside. */
int64_t es_claims_count(void);
const es_claim *es_claim_at(int64_t index);

typedef struct es_claim_opts {
    es_effort effort;
    uint64_t seed;
    const es_exec *exec; /* NULL: all threads, no limits */
} es_claim_opts;

/*! es_claim_check() : runs the experiment of claim `index`. `out` needs no freeing. Quick effort:
 *  a fraction of a second to some ten seconds each.
 *  @return : ES_OK whatever the verdict; ES_E_RANGE for an index that is none; ES_E_INTERRUPTED,
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_claim_check(int64_t index, const es_claim_opts *opts, es_finding *out, es_error *err);

/*! es_claim_conclude() : the finding of claim `index`, which must exist, from its evidence
 *  (ES_CLAIM_EVIDENCE) alone. */
void es_claim_conclude(int64_t index, const es_evidence *evidence, es_finding *out);

#endif
