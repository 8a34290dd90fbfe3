/* SPDX-License-Identifier: Apache-2.0 */
/* claim_kit.h : what a claim is made of.
 *
 * A claim is a row: its statement, the studies that answer it (`runs`), and comparisons of their
 * columns with what is predicted (`pieces`). cells.c runs the studies through kit/ask.h, reads the
 * columns and gathers the evidence. A file of claims ends with a table of such rows, and cells.c
 * lists the tables.
 *
 *     {.claim = {"hardmax-exact", ...},
 *      .runs = {{"hardmax", "n=1e3,1e6 replicates=100000|1e7"}},
 *      .pieces = {{"rows", "mean_abs", .expect = "exact", .resolution_part = 0.05,
 *                  .label = "E|mean output|, n = {n}"}}}
 *
 * compares mean_abs with the column `exact` in every row of the table `rows`: 100000 replicates at
 * quick effort, 1e7 at paper effort.
 */
#ifndef ES_EXPERIMENTS_CLAIMS_CLAIM_KIT_H
#define ES_EXPERIMENTS_CLAIMS_CLAIM_KIT_H

#include "experiments/claims/claims.h"

#include "experiments/kit/ask.h"
#include "stats/average.h"

/* Elements of an array, as counts of tokens and scales are typed. */
#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

/* Titles of the papers: the source of what they state. */
extern const char es_paper_a[], es_paper_b[], es_paper_c[], es_paper_d[];

/* ---- a row ---- */

enum { ES_CLAIM_RUNS = 6, ES_CLAIM_PIECES = 6 };

/* A study with its parameters, as es_ask_spec: of "quick|paper" the effort decides. */
typedef struct es_claim_run {
    const char *study; /* NULL ends a list */
    const char *given;
    es_ask_input input;  /* writes files; its user is an es_claim_source */
    int64_t dim, tokens; /* of these files: dimensions, and tokens of a context */
    double reach;        /* of these files: distance over which tokens correlate; 0: independent */
    int64_t tries[2];    /* independent draws in these files, at quick and paper effort */
} es_claim_run;

typedef struct es_claim_source {
    const es_claim_run *run;
    const es_claim_opts *opts;
} es_claim_source;

/*! es_claim_tries() : the independent draws behind the errors of a run: those of its files, or its
 *  replicates. */
int64_t es_claim_tries(const es_claim_source *of);

/*! es_claim_budget() : the limit that counts the memory of a claim; may be NULL. */
static inline es_mem_limit *es_claim_budget(const es_claim_opts *opts)
{
    return opts->exec ? opts->exec->budget : NULL;
}

/* A row of a table in one of the answers, for the functions of a piece. */
typedef struct es_claim_row {
    const es_claim_opts *opts;
    es_answer *const *answers; /* (runs) */
    int run;
    int64_t tries; /* independent draws behind the errors of the run */
    const es_table *table;
    int64_t row;
} es_claim_row;

/*! es_claim_number() : the value of a column in this row. es_claim_measured() : with its error. */
double es_claim_number(const es_claim_row *at, const char *key);
es_measured es_claim_measured(const es_claim_row *at, const char *key);

/* A comparison, made in every row of a table. The prediction is a number, a column or a function;
 * so is what it may be off by, and the parts of it are added up. */
typedef struct es_claim_piece {
    const char *table, *key; /* what is measured; table NULL ends a list */
    const char *label;       /* {key} stands for the number in that column, ES_LABEL_NUMBERS times
                                at most */
    es_relation relation;    /* 0: equal */
    double predicted;
    const char *expect;     /* the column that predicts; NULL: `predicted` */
    const char *expect_se;  /* column with the relative standard error of that; NULL: none */
    double allowance;       /* what the prediction may be off by: this, */
    double allowance_part;  /*   this part of it, */
    const char *near;       /*   and its distance from this column */
    double resolution;      /* difference that the measurement must be able to show: this, */
    double resolution_part; /*   and this part of the prediction */
    const char *where;      /* only rows with this column in [from, to]; NULL: all rows */
    double from, to;
    int run;           /* only in this run, from 1; 0: in all */
    int64_t row;       /* only this row, from 1; 0: all */
    const char *tries; /* column with the draws behind the error; NULL: the replicates of the run */
    bool computed;     /* the column is exact, not sampled */
    es_measured (*measure)(const es_claim_row *at); /* instead of `key`, which must exist */
    es_measured (*predict)(const es_claim_row *at); /* instead of `expect`; se 0: exact */
    double (*allow)(const es_claim_row *at);        /* added to the allowance */
} es_claim_piece;

typedef struct es_claim_entry {
    es_claim claim; /* id NULL ends a table */
    es_claim_run runs[ES_CLAIM_RUNS];
    es_claim_piece pieces[ES_CLAIM_PIECES];
    /* What to make of the numbers, shown beside the verdict that is expected: {m3.2} is what piece
     * of evidence 3, from 0, has measured, with 2 decimals; p is its prediction, s its error, x is
     * e to the power of m. */
    const char *remark;
} es_claim_entry;

/*! es_claim_entry_at() : the row of claim `index`; NULL outside. */
const es_claim_entry *es_claim_entry_at(int64_t index);

extern const es_claim_entry es_claims_gaussian[], es_claims_exponents[], es_claims_habits[],
    es_claims_hardmax[], es_claims_sphere[], es_claims_ball[], es_claims_regimes[],
    es_claims_average[], es_claims_collapse[], es_claims_rope[], es_claims_sparse[],
    es_claims_gaps[];

/* ---- evidence ---- */

/*! es_evidence_equal() : measured should equal `predicted`, which may itself be off by `allowance`.
 *  A standard error that would hide a difference of `resolution` leaves it undecided. `tries`
 *  independent draws are behind that error; 0: the number is computed, its error 0. */
es_evidence es_evidence_equal(double predicted, double allowance, double resolution, es_measured m,
                              int64_t tries);

/*! es_evidence_bound() : measured should not be on the wrong side of `bound`
 *  (ES_RELATION_AT_LEAST, ES_RELATION_AT_MOST); one that is within its error of the bound leaves it
 *  undecided. */
es_evidence es_evidence_bound(es_relation relation, double bound, es_measured m, int64_t tries);

/*! es_evidence_add() : adds a piece to a finding; nothing if that is full. */
void es_evidence_add(es_finding *f, es_evidence e);

/*! es_finding_decide() : the verdict of every piece, and of the finding: that of the gravest.
 *  es_finding_conclude() : the same, with the labels and the remark of its row, in words. */
void es_finding_decide(es_finding *f);
void es_finding_conclude(es_finding *f, const es_claim_entry *entry);

/* ---- tallies ---- */

/* How many claims of each group got which verdict. */
typedef struct es_claim_tally {
    int64_t of[ES_CLAIM_GROUPS][3]; /* [group][verdict] */
} es_claim_tally;

/*! es_claim_tally_group() : claims of a group, whatever their verdict. */
int64_t es_claim_tally_group(const es_claim_tally *tally, es_claim_group group);

/*! es_claim_tally_unexpected() : claims that should hold and fail: contradicted statements of
 *  papers and results that are not confirmed. An assumption that fails is not counted. */
int64_t es_claim_tally_unexpected(const es_claim_tally *tally);

/*! es_claim_headline() : the tally as one sentence, into out (capacity): papers, results,
 *  assumptions. */
void es_claim_headline(const es_claim_tally *tally, char *out, size_t capacity);

#endif
