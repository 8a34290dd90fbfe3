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
    es_claims_rope,     es_claims_sparse,    es_claims_habits};

const char es_paper_a[] = "Token Sample Complexity of Attention";
const char es_paper_b[] = "Scaling Limits of Long-Context Transformers";
const char es_paper_c[] = "Critical attention scaling in long-context transformers";
const char es_paper_d[] = "Effective Long-Context Scaling of Foundation Models";

/* Which text of each paper was available. */
static const es_claim_paper papers[] = {
    {es_paper_a, "2512.10656",
     "abstract, first page, public summaries and public code; not the full text"},
    {es_paper_b, "2605.08505", "abstract only; not the theorems"},
    {es_paper_c, "2510.05554", "detailed reading notes; not the full text"},
    {es_paper_d, "2309.16039", "notes on each section; not the full text"}};

const es_claim_paper *es_claim_papers(int64_t *count)
{
    *count = COUNT(papers);
    return papers;
}

/* A table is about one subject; groups come one after the other. */
static const es_claim_entry *entry_at(int64_t index)
{
    for (int group = 0; group < ES_CLAIM_GROUPS; group++)
        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
            for (const es_claim_entry *e = tables[t]; e->claim.id; e++)
                if ((int)e->claim.group == group && index-- == 0)
                    return e;
    return NULL;
}

int64_t es_claims_count(void)
{
    int64_t count = 0;
    while (entry_at(count))
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
    const es_claim_entry *e = index < 0 ? NULL : entry_at(index);
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

/* Copies a label; {key} becomes the number in that column. */
static void write_label(const es_claim_row *at, const char *from, char *out, size_t room)
{
    size_t used = 0;
    while (*from && used + 1 < room) {
        const char *end = *from == '{' ? strchr(from, '}') : NULL;
        if (!end) {
            out[used++] = *from++;
            continue;
        }
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)(end - from - 1), from + 1);
        const int wrote = snprintf(out + used, room - used, "%.6g", es_claim_number(at, key));
        used += (size_t)wrote < room - used ? (size_t)wrote : room - used - 1;
        from = end + 1;
    }
    out[used] = '\0';
}

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

/* Adds the evidence of one row. A prediction that is itself sampled adds its error to that of the
 * measurement: both are independent, or their errors partly cancel. */
static void add_row(const es_claim_piece *p, const es_claim_row *at, int64_t tries, es_finding *out)
{
    char label[sizeof out->evidence[0].label];
    const es_measured predicted = predict(p, at);
    es_measured m = p->measure ? p->measure(at) : es_claim_measured(at, p->key);
    m.se = p->computed ? 0.0 : hypot(m.se, or_zero(predicted.se));
    write_label(at, p->label, label, sizeof label);
    if (p->relation == ES_RELATION_AT_LEAST || p->relation == ES_RELATION_AT_MOST) {
        es_evidence_bound(out, p->relation, predicted.value, m, tries, "%s", label);
        return;
    }
    const double size = fabs(predicted.value);
    const double near = p->near ? fabs(es_claim_number(at, p->near) - predicted.value) : 0.0;
    const double allowance =
        p->allowance + p->allowance_part * size + near + (p->allow ? p->allow(at) : 0.0);
    es_evidence_equal(out, predicted.value, allowance, p->resolution + p->resolution_part * size, m,
                      tries, "%s", label);
}

/* Makes the comparison in every row of its table that it is about. */
static es_status add_piece(const es_claim_piece *p, es_claim_row at, es_finding *out, es_error *err)
{
    ES_TRY(es_ask_table(at.answers[at.run], p->table, p->key, &at.table, err));
    for (at.row = 0; at.row < es_table_rows(at.table); at.row++) {
        const double x = p->where ? es_claim_number(&at, p->where) : 0.0;
        if ((p->row && at.row + 1 != p->row) || (p->where && !(x >= p->from && x <= p->to)))
            continue;
        const double counted = p->tries ? es_claim_number(&at, p->tries) : (double)at.tries;
        add_row(p, &at, p->computed ? 0 : (int64_t)counted, out);
    }
    return ES_OK;
}

/* ---- a claim ---- */

/* Copies a remark; {m3.2} becomes what evidence 3 measured, with 2 decimals; p: predicted, s: its
 * standard error. */
static void write_remark(es_finding *f, const char *from)
{
    size_t used = 0;
    const size_t room = sizeof f->remark;
    while (*from && used + 1 < room) {
        char which, close;
        int piece, digits;
        if (sscanf(from, "{%c%d.%d%c", &which, &piece, &digits, &close) != 4 || close != '}') {
            f->remark[used++] = *from++;
            continue;
        }
        const es_evidence *e = &f->evidence[piece];
        const double x = which == 'm' ? e->measured : which == 'p' ? e->predicted : e->se;
        const int wrote = snprintf(f->remark + used, room - used, "%.*f", digits, x);
        used += (size_t)wrote < room - used ? (size_t)wrote : room - used - 1;
        from = strchr(from, '}') + 1;
    }
    f->remark[used] = '\0';
}

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

/* Returns the independent draws behind the errors of a run: its replicates. */
static int64_t tries_of(const es_claim_run *run, const es_claim_opts *opts)
{
    const es_ask_spec ask = ask_of(&(es_claim_source){run, opts});
    char text[ES_ASK_ROOM];
    return run->tries ? run->tries : (int64_t)strtod(es_ask_value(&ask, "replicates", text), NULL);
}

/* Adds the evidence of all pieces from the answers of all runs. */
static es_status compare(const es_claim_entry *e, const es_claim_opts *opts,
                         es_answer *const *answers, es_finding *out, es_error *err)
{
    for (int r = 0; r < ES_CLAIM_RUNS && e->runs[r].study; r++) {
        const es_claim_row at = {
            .opts = opts, .answers = answers, .run = r, .tries = tries_of(&e->runs[r], opts)};
        for (int i = 0; i < ES_CLAIM_PIECES && e->pieces[i].table; i++)
            if (e->pieces[i].run == 0 || e->pieces[i].run == r + 1)
                ES_TRY(add_piece(&e->pieces[i], at, out, err));
    }
    if (e->remark)
        write_remark(out, e->remark);
    return ES_OK;
}

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
    const es_claim_entry *e = index < 0 ? NULL : entry_at(index);
    if (!e)
        return es_fail(err, ES_E_RANGE, "claims.index", "see es_claims_count()",
                       "there is no claim %lld", (long long)index);
    *out = (es_finding){0};
    ES_TRY(e->gather ? e->gather(opts, out, err) : run_and_compare(e, opts, out, err));
    es_finding_conclude(out, e->claim.group);
    return ES_OK;
}
