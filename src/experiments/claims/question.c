/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : statements of the papers, results of this project, and common assumptions, checked
 * on this machine. A cell is a claim. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "driver/job.h"
#include "stats/special.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/claims/claim_kit.h"

typedef struct claims_params {
    int effort;
    const char *only;
    bool list, evidence;
} claims_params;

typedef struct claims_state {
    int64_t first, count; /* claims that are checked */
} claims_state;

static const char *const efforts[] = {"quick", "paper", NULL};

#define FIELD(member) .field = offsetof(claims_params, member)
static const es_param params[] = {
    {"effort", 0, ES_PARAM_CHOICE, "HOW",
     "quick: all claims in some two minutes on two cores; paper: the papers' numbers of tokens, "
     "with fewer replicates, half an hour",
     FIELD(effort), .choices = efforts, .default_value = "quick"},
    {"only", 0, ES_PARAM_TEXT, "CLAIM", "check this claim alone, by its id", FIELD(only)},
    {"evidence", 0, ES_PARAM_FLAG, NULL, "also show every piece of evidence", FIELD(evidence),
     .not_in_fingerprint = true},
    {"list", 0, ES_PARAM_FLAG, NULL, "list the claims and check none", FIELD(list),
     .not_in_fingerprint = true},
    {0}};

/* ---- tables ---- */

/* A measurement beside its prediction, as claims and evidence both show it. */
typedef struct measured_cells {
    const char *relation;
    double predicted, allowance;
    es_measured measured;
    double low, high, slack, slack_se, line;
    int64_t tries;
} measured_cells;

#define MEASURED(row, member, ...) ES_COL_KEY(row, with.member, #member, __VA_ARGS__)
#define MEASURED_COLUMNS(row)                                                                      \
    MEASURED(row, relation, ES_FORMAT_TEXT, "is", "",                                              \
             "how measured should relate to predicted: =, ~ (equal up to an allowance), >= or "    \
             "<="),                                                                                \
        MEASURED(row, predicted, ES_FORMAT_SHORT, "predicted", "",                                 \
                 "of a claim: that of the piece of evidence that is nearest to refuting it"),      \
        MEASURED(row, allowance, ES_FORMAT_SHORT, "allowance", "",                                 \
                 "what the prediction may be off by"),                                             \
        MEASURED(row, measured, ES_FORMAT_REAL, "measured", "",                                    \
                 "the same, measured, +- one standard error where it is sampled"),                 \
        MEASURED(row, low, ES_FORMAT_REAL, "low", "", "95 % interval, Student's t of the tries"),  \
        MEASURED(row, high, ES_FORMAT_REAL, "high", ""),                                           \
        MEASURED(row, slack, ES_FORMAT_SHORT, "slack", "",                                         \
                 "how far inside what is claimed, allowance included, in units of the "            \
                 "prediction; below 0: outside"),                                                  \
        MEASURED(row, slack_se, ES_FORMAT_SHORT, "in se", "",                                      \
                 "the same in standard errors; empty of what is computed, not sampled"),           \
        MEASURED(row, line, ES_FORMAT_SHORT, "line", "",                                           \
                 "standard errors outside at which it would not hold: Student's, at a level of "   \
                 "0.2 % shared by all pieces of the claim"),                                       \
        MEASURED(row, tries, ES_FORMAT_COUNT, "tries", "",                                         \
                 "independent draws behind the standard error; 0: computed")

typedef struct claim_row {
    const char *id, *group, *source, *statement;
    measured_cells with;
    int64_t pieces;
    const char *verdict, *conclusion, *limits;
} claim_row;

static const es_column claim_columns[] = {
    ES_COL(claim_row, id, ES_FORMAT_TEXT, "claim", ""),
    ES_COL(claim_row, group, ES_FORMAT_TEXT, "group", "",
           "statements of the papers, results of this project, or common assumptions"),
    ES_COL(claim_row, source, ES_FORMAT_TEXT, "source", "",
           "the paper that says so, or where it comes from"),
    ES_COL(claim_row, statement, ES_FORMAT_TEXT, "statement", "", "in our words"),
    MEASURED_COLUMNS(claim_row),
    ES_COL(claim_row, pieces, ES_FORMAT_COUNT, "pieces", "",
           "comparisons that the verdict is made of"),
    ES_COL(claim_row, verdict, ES_FORMAT_TEXT, "verdict", "",
           "from the standard errors alone: a claim fails where a piece of evidence is outside by "
           "more than its line, and is undecided where errors are too large. A true claim fails "
           "with a probability of at most 0.2 %. Common assumptions are expected to fail; no paper "
           "states them"),
    ES_COL(claim_row, conclusion, ES_FORMAT_TEXT, "what to conclude", ""),
    ES_COL(claim_row, limits, ES_FORMAT_TEXT, "limits", "", "what this check cannot tell"),
    {0}};
static const es_table_view claim_views[] = {
    {"Claims and verdicts", "id verdict predicted relation measured slack slack_se pieces tries",
     "Numbers are those of the comparison that is nearest to refuting the claim: predicted, how "
     "measured should relate to it, and by how much it does, relative and in standard errors."},
    {"Conclusions", "id conclusion"},
    {0}};
static const es_table_spec claims_table = {"claims", claim_columns, claim_views, ES_ROW(claim_row),
                                           .keys = "id"};

typedef struct evidence_row {
    const char *id, *label;
    measured_cells with;
    const char *verdict;
} evidence_row;

static const es_column evidence_columns[] = {
    ES_COL(evidence_row, id, ES_FORMAT_TEXT, "claim", ""),
    ES_COL(evidence_row, label, ES_FORMAT_TEXT, "what", ""),
    MEASURED_COLUMNS(evidence_row),
    ES_COL(evidence_row, verdict, ES_FORMAT_TEXT, "verdict", ""),
    {0}};
static const es_table_spec evidence_table = {
    "evidence", evidence_columns,
    ES_VIEW("Evidence", "id label predicted relation allowance measured slack slack_se line tries "
                        "verdict"),
    ES_ROW(evidence_row), .keys = "id label"};

typedef struct list_row {
    const char *id, *group, *statement, *source, *limits;
} list_row;

static const es_column list_columns[] = {
    ES_COL(list_row, id, ES_FORMAT_TEXT, "claim", ""),
    ES_COL(list_row, group, ES_FORMAT_TEXT, "group", "",
           "common assumptions are expected to fail; no paper states them"),
    ES_COL(list_row, statement, ES_FORMAT_TEXT, "statement", "", "in our words"),
    ES_COL(list_row, source, ES_FORMAT_TEXT, "source", ""),
    ES_COL(list_row, limits, ES_FORMAT_TEXT, "limits", "", "what a check cannot tell"),
    {0}};
static const es_table_spec list_table = {"list", list_columns,
                                         ES_VIEW("Claims", "id group statement source limits"),
                                         ES_ROW(list_row), .keys = "id"};

typedef struct group_row {
    const char *group;
    int64_t claims, holds, fails, undecided;
} group_row;

static const es_column group_columns[] = {
    ES_COL(group_row, group, ES_FORMAT_TEXT, "group", ""),
    ES_COL(group_row, claims, ES_FORMAT_COUNT, "claims", ""),
    ES_COL(group_row, holds, ES_FORMAT_COUNT, "hold", "", "consistent, confirmed, holds"),
    ES_COL(group_row, fails, ES_FORMAT_COUNT, "fail", "",
           "contradicted, not confirmed, does not hold"),
    ES_COL(group_row, undecided, ES_FORMAT_COUNT, "undecided", "",
           "errors are too large at this effort"),
    {0}};
static const es_table_spec groups_table = {
    "groups", group_columns, ES_VIEW("Groups", NULL, "Common assumptions are expected to fail."),
    ES_ROW(group_row), .keys = "group"};

typedef struct paper_row {
    const char *title, *arxiv, *text;
} paper_row;

static const es_column paper_columns[] = {
    ES_COL(paper_row, title, ES_FORMAT_TEXT, "paper", ""),
    ES_COL(paper_row, arxiv, ES_FORMAT_TEXT, "arXiv", ""),
    ES_COL(paper_row, text, ES_FORMAT_TEXT, "text that was available", "",
           "statements of the paper are taken from it, in our words"),
    {0}};
static const es_table_spec papers_table = {"papers", paper_columns, ES_VIEW("Papers"),
                                           ES_ROW(paper_row), .keys = "title"};

/* ---- claims ---- */

/* A cell is the evidence of a claim. What follows from it (verdict, words) is not stored. */
static const es_cell_field evidence_fields[] = {ES_FIELD(es_evidence, relation),
                                                ES_FIELD(es_evidence, piece),
                                                ES_FIELD_LIST(es_evidence, shown),
                                                ES_FIELD(es_evidence, predicted),
                                                ES_FIELD(es_evidence, allowance),
                                                ES_FIELD(es_evidence, resolution),
                                                ES_FIELD(es_evidence, measured),
                                                ES_FIELD(es_evidence, tries),
                                                {0}};

/* Checks one claim; `record` gets all ES_CLAIM_EVIDENCE pieces. */
static es_status run_claim(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    const claims_params *p = job->params;
    const claims_state *s = job->state;
    const es_claim_opts opts = {.effort = (es_effort)p->effort, .seed = job->seed, .exec = exec};
    es_finding found;
    ES_TRY(es_claim_check(s->first + cell, &opts, &found, err));
    memcpy(record, found.evidence, sizeof found.evidence);
    return ES_OK;
}

/* How long a claim takes among the others, for progress: seconds of one core at quick effort, where
 * they are more than two. Effort multiplies them all, nearly alike. */
static double weight_of(const es_job *job, int64_t cell)
{
    static const struct {
        const char *id;
        double seconds;
    } long_ones[] = {
        {"slope-predicts", 7.0},    {"ball-growth", 4.3},       {"finite-reference", 4.2},
        {"radial-identity", 3.9},   {"unscaled-horizon", 3.9},  {"weights-exact", 3.4},
        {"exponent-predicts", 3.4}, {"bigbird-corrected", 3.3}, {"ball-rate", 3.1}};
    const claims_state *s = job->state;
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++)
        if (strcmp(es_claim_at(s->first + cell)->id, long_ones[i].id) == 0)
            return long_ones[i].seconds;
    return 1.1; /* the others' mean */
}

/* A name that is off by a letter or two is answered with the nearest one. */
static es_status find_claim(const char *id, int64_t *index, es_error *err)
{
    enum { MOST = 128 };
    const char *names[MOST];
    char hint[128] = "esscher claims --list";
    int count = 0;
    for (; count < MOST && es_claim_at(count); count++) {
        names[count] = es_claim_at(count)->id;
        if (strcmp(names[count], id) == 0) {
            *index = count;
            return ES_OK;
        }
    }
    const char *nearest = es_nearest(id, names, count);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    return es_refuse(err, "claims.id", hint, "unknown claim \"%s\"", id);
}

/* Finds which claims are checked, and adds their stage. */
static es_status open_study(es_job *job, es_error *err)
{
    const claims_params *p = job->params;
    claims_state *s = job->state;
    s->count = p->list ? 0 : p->only ? 1 : es_claims_count();
    if (p->only)
        ES_TRY(find_claim(p->only, &s->first, err));
    /* Earlier versions wrote the stage "claim", with texts as numbers. */
    return es_job_stage(job,
                        &(es_stage){"evidence", .phase = "checking claims", .noun = "claims",
                                    .cells = s->count, .rows = ES_CLAIM_EVIDENCE,
                                    ES_RECORD(es_evidence, evidence_fields), .flops = 1.0,
                                    .weight = weight_of, .run = run_claim},
                        err);
}

/* ---- the answer ---- */

/* Texts of claims and papers are constants, so rows may point to them. */
static measured_cells measured_cells_of(const es_finding *f, int i)
{
    const es_evidence *e = &f->evidence[i];
    const es_judgement *j = &f->judged[i];
    const es_measured m = e->measured;
    const bool sampled = m.se > 0.0; /* a computed number has no error to show */
    const double half =
        sampled && e->tries > 1.0 ? m.se * es_student_quantile(e->tries - 1.0, 0.025) : 0.0;
    return (measured_cells){.relation = es_relation_name((es_relation)e->relation),
                            .predicted = e->predicted,
                            .allowance = e->allowance,
                            .measured = {m.value, sampled ? m.se : (double)NAN},
                            .low = m.value - half,
                            .high = m.value + half,
                            .slack = j->slack,
                            .slack_se = j->slack_se,
                            .line = sampled ? j->sigmas : (double)NAN,
                            .tries = (int64_t)e->tries};
}

/* Adds the row of a claim and those of its evidence. */
static es_status add_claim(es_answer *answer, const es_claim *claim, const es_finding *f,
                           es_error *err)
{
    es_table *claims = es_answer_table(answer, &claims_table);
    es_table *evidence = es_answer_table(answer, &evidence_table);
    claim_row *r = es_rows_add(claims, claim_row);
    if (!r)
        return es_answer_status(answer, err);
    *r = (claim_row){.id = claim->id,
                     .group = es_claim_group_name(claim->group),
                     .source = claim->source,
                     .statement = claim->statement,
                     .with = measured_cells_of(f, f->decisive),
                     .pieces = f->count,
                     .verdict = es_claim_verdict_name(claim->group, f->verdict),
                     .conclusion = es_table_format(claims, "%s", f->conclusion),
                     .limits = claim->limits ? claim->limits : ""};
    for (int i = 0; i < f->count; i++) {
        evidence_row *piece = es_rows_add(evidence, evidence_row);
        if (!piece)
            return es_answer_status(answer, err);
        *piece =
            (evidence_row){.id = claim->id,
                           .label = es_table_format(evidence, "%s", f->judged[i].label),
                           .with = measured_cells_of(f, i),
                           .verdict = es_claim_verdict_name(claim->group, f->judged[i].verdict)};
    }
    return ES_OK;
}

/* Adds the table of --list. */
static es_status add_list(es_answer *answer, es_error *err)
{
    es_table *t = es_answer_table(answer, &list_table);
    for (int64_t i = 0; i < es_claims_count(); i++) {
        const es_claim *claim = es_claim_at(i);
        list_row *r = es_rows_add(t, list_row);
        if (!r)
            return es_answer_status(answer, err);
        *r = (list_row){claim->id, es_claim_group_name(claim->group), claim->statement,
                        claim->source, claim->limits ? claim->limits : ""};
    }
    return ES_OK;
}

/* Adds the table of papers. */
static es_status add_papers(es_answer *answer, es_error *err)
{
    int64_t count;
    const es_claim_paper *papers = es_claim_papers(&count);
    es_table *t = es_answer_table(answer, &papers_table);
    for (int64_t i = 0; i < count; i++) {
        paper_row *r = es_rows_add(t, paper_row);
        if (!r)
            return es_answer_status(answer, err);
        *r = (paper_row){papers[i].title, papers[i].arxiv, papers[i].text};
    }
    return ES_OK;
}

/* Adds the table of groups. */
static es_status add_groups(es_answer *answer, const es_claim_tally *tally, es_error *err)
{
    es_table *t = es_answer_table(answer, &groups_table);
    for (int g = 0; g < ES_CLAIM_GROUPS; g++) {
        group_row *r = es_rows_add(t, group_row);
        if (!r)
            return es_answer_status(answer, err);
        *r = (group_row){.group = es_claim_group_name((es_claim_group)g),
                         .claims = es_claim_tally_group(tally, (es_claim_group)g),
                         .holds = tally->of[g][ES_VERDICT_HOLDS],
                         .fails = tally->of[g][ES_VERDICT_FAILS],
                         .undecided = tally->of[g][ES_VERDICT_UNDECIDED]};
    }
    return ES_OK;
}

/* ", ball-rate" behind the names that are there. */
static void add_name(char *names, size_t capacity, const char *id)
{
    const size_t length = strlen(names);
    snprintf(names + length, capacity - length, "%s%s", length ? ", " : "", id);
}

/* Reports the tally, the names of claims that should hold and do not, and a caution. */
static void add_findings(es_answer *a, const es_claim_tally *tally, const char *wrong)
{
    const int64_t should_hold =
        es_claim_tally_group(tally, ES_CLAIM_PAPER) + es_claim_tally_group(tally, ES_CLAIM_RESULT);
    char headline[512];
    es_claim_headline(tally, headline, sizeof headline);
    es_answer_add_finding(a, "%s", headline);
    if (*wrong)
        es_answer_add_finding(
            a,
            "Should hold and does not: %s. Chance alone does this to one run in %.0f; "
            "repeat with --only and another --seed.",
            wrong, 1.0 / (ES_CLAIM_LEVEL * (double)should_hold));
    es_answer_add_finding(
        a, "Statements are in our words, taken from abstracts, notes and public code: "
           "no paper's full text was available.");
}

/* Concludes every claim from its evidence and fills the tables. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const claims_params *p = job->params;
    const claims_state *s = job->state;
    es_claim_tally tally = {0};
    es_finding found;
    char wrong[512] = "";
    if (p->list)
        return add_list(answer, err);
    if (!p->only) {
        es_answer_table(answer, &groups_table); /* shown first, filled last */
        ES_TRY(add_papers(answer, err));
    }
    es_answer_table(answer, &claims_table);
    es_table *evidence = es_answer_table(answer, &evidence_table);
    if (!p->evidence)
        es_table_show(evidence, NULL);
    for (int64_t i = 0; i < s->count; i++) {
        const es_claim *claim = es_claim_at(s->first + i);
        es_claim_conclude(s->first + i, es_job_cell(job, 0, i), &found);
        ES_TRY(add_claim(answer, claim, &found, err));
        tally.of[claim->group][found.verdict]++;
        if (found.verdict == ES_VERDICT_FAILS && claim->group != ES_CLAIM_ASSUMPTION)
            add_name(wrong, sizeof wrong, claim->id);
    }
    es_answer_text(answer, "effort", efforts[p->effort]);
    es_answer_count(answer, "unexpected", es_claim_tally_unexpected(&tally));
    if (es_claim_tally_unexpected(&tally))
        es_answer_fail_check(answer);
    if (p->only) {
        es_answer_add_finding(answer, "%s", found.conclusion);
        return ES_OK;
    }
    ES_TRY(add_groups(answer, &tally, err));
    add_findings(answer, &tally, wrong);
    return ES_OK;
}

static const char *const examples[] = {"esscher claims", "esscher claims --list",
                                       "esscher claims --only hardmax-law --effort paper",
                                       "esscher claims --out claims.run", NULL};

const es_study es_study_claims = {
    "claims",
    .summary = "whether the statements of the papers hold on this machine",
    .group = ES_GROUP_LAB,
    .usage = "[options]",
    .about =
        "Runs a small experiment for every claim, in three groups. Statements of four papers "
        "are consistent or contradicted. Results of this project are confirmed or not. "
        "Common assumptions are what people conclude from the papers, or do by habit, although "
        "no paper that we could read states it; they are expected to fail.\n\n"
        "The verdict follows from the standard errors alone; a claim is undecided where they "
        "are too large at this effort. A true claim fails once in 500 seeds or less. Exit "
        "code 1 if a statement of a paper is contradicted or a result is not confirmed; "
        "assumptions do not count.",
    .examples = examples,
    .params = params,
    .size = sizeof(claims_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "claims",
    .state = sizeof(claims_state),
    .open = open_study,
    .summarise = summarise};
