/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : the list of claims, and the check of one: it runs the studies that a claim names and
 * compares their columns with the predictions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "experiments/claims/claim_kit.h"
#include "experiments/claims/claims.h"

static const es_claim_entry *const tables[] = {
    es_claims_gaussian, es_claims_exponents, es_claims_ball,    es_claims_hardmax,
    es_claims_sphere,   es_claims_regimes,   es_claims_average, es_claims_collapse,
    es_claims_rope,     es_claims_sparse,    es_claims_gaps,    es_claims_habits};

const char es_paper_a[] = "Token Sample Complexity of Attention";
const char es_paper_b[] = "Scaling Limits of Long-Context Transformers";
const char es_paper_c[] = "Critical attention scaling in long-context transformers";
const char es_paper_d[] = "Effective Long-Context Scaling of Foundation Models";
static const char paper_e[] =
    "A Unified Framework for Critical Scaling of Inverse Temperature in Self-Attention";

/* Which text of each paper was available. Of the last one no statement is checked: its bounds hold
 * for every row, and how critical scales grow is derived here. */
static const es_claim_paper papers[] = {
    {es_paper_a, "2512.10656",
     "abstract, first page, public summaries and public code; not the full text"},
    {es_paper_b, "2605.08505", "abstract only; not the theorems"},
    {es_paper_c, "2510.05554", "detailed reading notes; not the full text"},
    {es_paper_d, "2309.16039", "notes on each section; not the full text"},
    {paper_e, "2605.12697", "abstract only"}};

const es_claim_paper *es_claim_papers(int64_t *count)
{
    *count = COUNT(papers);
    return papers;
}

/* A table is about one subject; groups come one after the other. */
const es_claim_entry *es_claim_entry_at(int64_t index)
{
    for (int group = 0; index >= 0 && group < ES_CLAIM_GROUPS; group++)
        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
            for (const es_claim_entry *e = tables[t]; e->claim.id; e++)
                if ((int)e->claim.group == group && index-- == 0)
                    return e;
    return NULL;
}

int64_t es_claims_count(void)
{
    int64_t count = 0;
    while (es_claim_entry_at(count))
        count++;
    return count;
}

const char *es_claim_id_at(int64_t at)
{
    const es_claim *claim = es_claim_at(at);
    return claim ? claim->id : NULL;
}

const es_claim *es_claim_at(int64_t index)
{
    const es_claim_entry *e = es_claim_entry_at(index);
    return e ? &e->claim : NULL;
}

/* ---- one comparison ---- */

double es_claim_number(const es_claim_row *at, const char *key)
{
    return es_ask_number(at->table, at->row, key).value;
}

es_measured es_claim_measured(const es_claim_row *at, const char *key)
{
    return es_ask_number(at->table, at->row, key);
}

/* Returns the finite number x, or 0. */
static double or_zero(double x) { return isfinite(x) ? x : 0.0; }

/* Reads the numbers that stand in a label as {key}, in their order. */
static void read_shown(const es_claim_row *at, const char *label, double shown[ES_LABEL_NUMBERS])
{
    for (int i = 0; i < ES_LABEL_NUMBERS && (label = strchr(label, '{')); i++) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(label + 1, "}"), label + 1);
        shown[i] = es_claim_number(at, key);
        label++;
    }
}

/* Returns the prediction: a function, a column or a number. */
static es_measured predict(const es_claim_piece *p, const es_claim_row *at)
{
    if (p->predict)
        return p->predict(at);
    es_measured found = {p->predicted, 0.0};
    if (p->expect)
        found = es_claim_measured(at, p->expect);
    if (p->expect_se)
        found.se = fabs(found.value) * es_claim_number(at, p->expect_se);
    return found;
}

/* Makes the evidence of one row. A prediction that is itself sampled adds its error to that of the
 * measurement: both are independent, or their errors partly cancel. */
static es_evidence compare_row(const es_claim_piece *p, const es_claim_row *at, int64_t tries)
{
    const es_measured predicted = predict(p, at);
    es_measured m = p->measure ? p->measure(at) : es_claim_measured(at, p->key);
    m.se = p->computed ? 0.0 : hypot(m.se, or_zero(predicted.se));
    if (p->relation == ES_RELATION_AT_LEAST || p->relation == ES_RELATION_AT_MOST)
        return es_evidence_bound(p->relation, predicted.value, m, tries);
    const double size = fabs(predicted.value);
    const double near = p->near ? fabs(es_claim_number(at, p->near) - predicted.value) : 0.0;
    const double allowance =
        p->allowance + p->allowance_part * size + near + (p->allow ? p->allow(at) : 0.0);
    return es_evidence_equal(predicted.value, allowance, p->resolution + p->resolution_part * size,
                             m, tries);
}

/* Makes comparison number `piece` of a claim in every row of its table that it is about. */
static es_status add_piece(const es_claim_entry *of, int piece, es_claim_row at, es_finding *out,
                           es_error *err)
{
    const es_claim_piece *p = &of->pieces[piece];
    ES_TRY(es_ask_table(at.answers[at.run], p->table, p->key, &at.table, err));
    for (at.row = 0; at.row < es_table_rows(at.table); at.row++) {
        const double x = p->where ? es_claim_number(&at, p->where) : 0.0;
        if ((p->row && at.row + 1 != p->row) || (p->where && !(x >= p->from && x <= p->to)))
            continue;
        const double counted = p->tries ? es_claim_number(&at, p->tries) : (double)at.tries;
        es_evidence e = compare_row(p, &at, p->computed ? 0 : (int64_t)counted);
        e.piece = (double)piece;
        read_shown(&at, p->label, e.shown);
        es_evidence_add(out, e);
    }
    return ES_OK;
}

/* ---- a claim ---- */

/* Returns what es_ask_run() takes for a run. */
static es_ask_spec ask_of(const es_claim_source *of)
{
    return (es_ask_spec){.study = of->run->study,
                         .given = of->run->given,
                         .effort = of->opts->effort == ES_EFFORT_PAPER,
                         .input = of->run->input,
                         .user = of,
                         .seed = of->opts->seed,
                         .exec = of->opts->exec};
}

int64_t es_claim_tries(const es_claim_source *of)
{
    const es_ask_spec ask = ask_of(of);
    char text[ES_ASK_SIZE];
    const int64_t drawn = of->run->tries[ask.effort];
    return drawn ? drawn : (int64_t)strtod(es_ask_value(&ask, "replicates", text), NULL);
}

/* Adds the evidence of all pieces from the answers of all runs. */
static es_status compare(const es_claim_entry *e, const es_claim_opts *opts,
                         es_answer *const *answers, es_finding *out, es_error *err)
{
    for (int r = 0; r < ES_CLAIM_RUNS && e->runs[r].study; r++) {
        const es_claim_row at = {.opts = opts,
                                 .answers = answers,
                                 .run = r,
                                 .tries = es_claim_tries(&(es_claim_source){&e->runs[r], opts})};
        for (int i = 0; i < ES_CLAIM_PIECES && e->pieces[i].table; i++)
            if (e->pieces[i].run == 0 || e->pieces[i].run == r + 1)
                ES_TRY(add_piece(e, i, at, out, err));
    }
    return ES_OK;
}

/* Runs the studies of a claim and compares their columns with the predictions. */
static es_status run_and_compare(const es_claim_entry *e, const es_claim_opts *opts,
                                 es_finding *out, es_error *err)
{
    es_answer *answers[ES_CLAIM_RUNS] = {NULL};
    es_status status = ES_OK;
    for (int r = 0; r < ES_CLAIM_RUNS && e->runs[r].study && status == ES_OK; r++) {
        const es_ask_spec ask = ask_of(&(es_claim_source){&e->runs[r], opts});
        status = es_ask_run(&ask, &answers[r], err);
    }
    if (status == ES_OK)
        status = compare(e, opts, answers, out, err);
    for (int r = 0; r < ES_CLAIM_RUNS; r++)
        es_answer_free(answers[r]);
    return status;
}

es_status es_claim_check(int64_t index, const es_claim_opts *opts, es_finding *out, es_error *err)
{
    const es_claim_entry *e = es_claim_entry_at(index);
    if (!e)
        return es_fail(err, ES_E_RANGE, "claims.index", "see es_claims_count()",
                       "there is no claim %lld", (long long)index);
    *out = (es_finding){0};
    ES_TRY(run_and_compare(e, opts, out, err));
    es_finding_conclude(out, e);
    return ES_OK;
}

void es_claim_conclude(int64_t index, const es_evidence *evidence, es_finding *out)
{
    *out = (es_finding){0};
    for (int i = 0; i < ES_CLAIM_EVIDENCE && evidence[i].relation != 0.0; i++)
        es_evidence_add(out, evidence[i]);
    es_finding_conclude(out, es_claim_entry_at(index));
}
