/* SPDX-License-Identifier: Apache-2.0 */
/* position_findings.c : what the heads of a causal model do as their context grows, in sentences.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"

/* What the sentences are about. */
typedef struct summary_ctx {
    const probe_state *s;
    const probe_positions *p;
    const probe_position_facts *f;
    es_answer *answer;
} summary_ctx;

/* Returns the number of heads. */
static int64_t rows_of(const summary_ctx *t) { return es_table_rows(t->f->heads); }

/* Returns the rows of heads. */
static const probe_position_head_row *heads_of(const summary_ctx *t)
{
    return es_rows(t->f->heads, probe_position_head_row);
}

/* Returns whether the queries with the longest contexts see the first keys. */
static bool sees_first(const summary_ctx *t) { return t->p->grid.seen == t->p->spec.length; }

/* ---- what heads do ---- */

/* Adds the finding where heads look: near, between or far. */
static void report_places(const summary_ctx *t)
{
    long long of[PROBE_HEAD_PLACES];
    for (int place = 0; place < PROBE_HEAD_PLACES; place++)
        of[place] = (long long)probe_position_count(t->f->classes, (probe_head_place)place);
    es_answer_add_finding(
        t->answer,
        "Of %lld %s, %lld %s near (the last %d keys%s suffice), %lld between, %lld far, %lld "
        "undecided.",
        (long long)rows_of(t), probe_counted(t->s), of[PROBE_NEAR],
        of[PROBE_NEAR] == 1 ? "is" : "are", ES_POSITIONS_LOCAL,
        sees_first(t) ? " and the first 4" : "", of[PROBE_BETWEEN], of[PROBE_FAR],
        of[PROBE_NO_PLACE]);
}

/* Writes a share of queries; one below 0.0005 is a few queries, and its digits mean nothing. */
static void say_share(es_measured x, char out[ES_SAY_SIZE])
{
    if (x.value < 0.0005)
        snprintf(out, ES_SAY_SIZE, "fewer than 0.001");
    else
        es_say_number(x.value, x.se, out);
}

/* Weight on one key may be retrieval; weight on a sink is none. */
static void report_sinks(const summary_ctx *t)
{
    const es_positions_grid *g = &t->p->grid;
    const int64_t last = g->bins - 1;
    const double even = 8.0 / (double)((last ? g->to[last - 1] : 0) + g->to[last]);
    char mass[ES_SAY_SIZE], single[ES_SAY_SIZE], sink[ES_SAY_SIZE];
    es_say_number(t->f->sink_mass.value, t->f->sink_mass.se, mass);
    say_share(t->f->single_key, single);
    say_share(t->f->rests_on_sink, sink);
    if (sees_first(t))
        es_answer_add_finding(
            t->answer,
            "The first 4 keys take a share of %s of the weight (mean over heads; equal weights "
            "would "
            "give them about %.2g). A share of %s of the queries has most weight on one other key "
            "(effective number of keys, ESS, below 2), and %s on one of the first 4.",
            mass, even, single, sink);
    else
        es_answer_add_finding(
            t->answer,
            "A share of %s of the queries has most weight on one key (effective number of keys, "
            "ESS, below 2), mean over heads.",
            single);
}

/* Returns how many heads have this kind of growth. */
static int64_t count_growth(const summary_ctx *t, probe_growth growth)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows_of(t); i++)
        count += strcmp(heads_of(t)[i].grows, probe_growth_name(growth)) == 0;
    return count;
}

/* A window that grows with n costs the model nothing by itself. */
static void report_windows(const summary_ctx *t)
{
    const es_positions_grid *g = &t->p->grid;
    const double n = (double)g->to[g->bins - 1];
    char keys[ES_SAY_SIZE];
    es_answer_add_finding(
        t->answer,
        "For an error of %.3g the median head needs the last %s of %lld keys. This number still "
        "grows with the context in %lld %s; esscher loss --window %d shows whether that matters to "
        "the loss.",
        t->p->error, es_say_number(n * t->f->window_share.value, n * t->f->window_share.se, keys),
        (long long)n, (long long)count_growth(t, PROBE_GROWING), probe_counted(t->s),
        ES_POSITIONS_LOCAL);
}

/* ---- cautions ---- */

/* Twice what errors that fall like 1/w^(1/2) would give. */
#define PLATEAU 5.0

/* Adds a caution if effective contexts depend strongly on --error. */
static void caution_plateaus(const summary_ctx *t)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows_of(t); i++)
        count += heads_of(t)[i].sensitivity > PLATEAU;
    if (count)
        es_answer_add_finding(
            t->answer,
            "Caution: the effective context of %lld of %lld %s depends strongly on "
            "--error %.3g: over a wide range of windows their error hardly falls.",
            (long long)count, (long long)rows_of(t), probe_counted(t->s), t->p->error);
}

/* Adds all cautions about positions. */
static void caution(const summary_ctx *t)
{
    caution_plateaus(t);
    if (t->s->pools.config->head_norms)
        es_answer_add_finding(
            t->answer, "Caution: heads of this model normalise their queries and keys: there is "
                       "no matrix A, so --look content refuses it.");
    if (t->p->blocks < 4)
        es_answer_add_finding(
            t->answer,
            "Caution: %lld block%s of %lld tokens: %s. Take more text (--pool) or shorter blocks "
            "(--block).",
            (long long)t->p->blocks, t->p->blocks > 1 ? "s" : "", (long long)t->p->spec.length,
            t->p->blocks > 1 ? "standard errors over so few are rough"
                             : "there are no standard errors, and no head can be classified");
    if (t->p->spec.length < 4 * ES_POSITIONS_LOCAL)
        es_answer_add_finding(
            t->answer,
            "Caution: blocks of %lld tokens are hardly longer than the last %d keys: "
            "there is little else to need. Take longer blocks (--block).",
            (long long)t->p->spec.length, ES_POSITIONS_LOCAL);
}

void probe_positions_add_findings(const es_job *job, const probe_position_facts *facts,
                                  es_answer *answer)
{
    const probe_state *s = job->state;
    const summary_ctx t = {.s = s, .p = &s->positions, .f = facts, .answer = answer};
    report_places(&t);
    report_sinks(&t);
    report_windows(&t);
    caution(&t);
}
