/* SPDX-License-Identifier: Apache-2.0 */
/* far_exchange.c : the tables exchangeability and exchangeability_summary: does a head change if
 * its far keys are replaced by independent draws from other blocks, or from another text? */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/far_question.h"
#include "experiments/probe/question.h"
#include "stats/multiple.h"

/* Statistics that are compared. */
enum { ENTROPY, LOG_ESS, FAR_MASS, TOP_WEIGHT, OUTPUT, COMPARED };
static const char *const names[COMPARED] = {"entropy", "ln ESS", "far mass", "top weight",
                                            "output"};
static const es_far_stat stats[OUTPUT] = {ES_FAR_ENTROPY, ES_FAR_LOG_ESS, ES_FAR_FAR, ES_FAR_TOP};

/* Where far keys come from. */
enum { OTHER_BLOCKS, OTHER_TEXT, SOURCES };
static const char *const sources[SOURCES] = {"other blocks", "other text"};

/* With fewer blocks tests have little power: Student's t of few degrees of freedom. */
enum { FEW_BLOCKS = 12 };

/* Level of the tests, after Holm's correction. */
#define LEVEL 0.05

/* A head and a source of far keys. */
typedef struct row {
    const char *domain;
    int64_t layer, head;
    const char *keys;
    es_measured entropy, log_ess, far_mass, top_weight, output;
    double p;
    const char *differs;
} row;

static const es_column columns[] = {
    ES_COL(row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(row, keys, ES_FORMAT_TEXT, "far keys from", ""),
    ES_COL(row, entropy, ES_FORMAT_REAL, "entropy", "nats",
           "with drawn far keys less as it is, at the longest n, paired over queries; standard "
           "errors over blocks and over parts of the pool"),
    ES_COL(row, log_ess, ES_FORMAT_REAL, "ln ESS", "", "the same"),
    ES_COL(row, far_mass, ES_FORMAT_REAL, "far mass", "share", "the same"),
    ES_COL(row, top_weight, ES_FORMAT_REAL, "top weight", "share", "the same"),
    ES_COL(row, output, ES_FORMAT_REAL, "output", "",
           "mean square distance of real outputs from the mean over drawn far fields, less what it "
           "is for independent keys of other blocks, over that of outputs from their mean; "
           "standard error over blocks, and over parts of the pool for either mean square"),
    ES_COL(
        row, p, ES_FORMAT_SHORT, "p", "",
        "smallest of the five probabilities of a larger difference, by Holm's correction for all "
        "heads and statistics"),
    ES_COL(row, differs, ES_FORMAT_TEXT, "differs", "", "yes: p is 0.05 or less"),
    {0}};
static const es_table_spec table_spec = {
    "exchangeability", columns,
    ES_VIEW("Far keys replaced by independent draws",
            "domain layer head keys entropy log_ess far_mass output p differs",
            .only_with_full = true),
    ES_ROW(row), .keys = "domain layer head keys"};

/* A statistic over all heads. */
typedef struct summary_row {
    const char *keys, *statistic;
    double mean, sd;
    int64_t heads, different;
} summary_row;

static const es_column summary_columns[] = {
    ES_COL(summary_row, keys, ES_FORMAT_TEXT, "far keys from", ""),
    ES_COL(summary_row, statistic, ES_FORMAT_TEXT, "statistic", ""),
    ES_COL(summary_row, mean, ES_FORMAT_SHORT, "mean change", "",
           "with drawn far keys less as it is, mean over heads"),
    ES_COL(summary_row, sd, ES_FORMAT_SHORT, "sd over heads", "", "its standard deviation"),
    ES_COL(summary_row, heads, ES_FORMAT_COUNT, "heads", "", "that were compared"),
    ES_COL(summary_row, different, ES_FORMAT_COUNT, "different", "",
           "heads whose change is significant at 5 %, by Holm's correction for all heads and "
           "statistics"),
    {0}};
const es_table_spec probe_exchange_summary_table = {
    "exchangeability_summary", summary_columns,
    ES_VIEW("Do far keys behave like independent draws?",
            .note =
                "at the longest n: all keys but the first and last ones are replaced by keys drawn "
                "from other blocks, or another text, at the same distances"),
    ES_ROW(summary_row), .keys = "keys statistic"};

/* ---- one head ---- */

/* Returns the drawn statistics of a cell. */
static const double *draws_of(const es_far_cell *c, int source)
{
    return source == OTHER_TEXT ? c->other : c->drawn;
}

/* Standard error of the mean over the parts of the pool that draws come from. */
static double part_se(const probe_far_head *h, int64_t size, int source, es_far_stat stat)
{
    double part[ES_FAR_PARTS] = {0};
    for (int d = 0; d < ES_FAR_PARTS; d++)
        for (int64_t b = 0; b < h->blocks; b++) {
            const double *all = draws_of(probe_far_cell(h, b, size), source);
            part[d] += all[d * ES_FAR_STATS + (int)stat] / (double)h->blocks;
        }
    return es_average_column(part, ES_FAR_PARTS, 1).se;
}

/* One difference with its error and the probability of a larger one. */
typedef struct difference {
    es_measured value;
    double p;
} difference;

static difference difference_of(const probe_far_head *h, int64_t size, int source, es_far_stat stat)
{
    for (int64_t b = 0; b < h->blocks; b++) {
        const es_far_cell *c = probe_far_cell(h, b, size);
        h->scratch[b] = probe_far_mean_draw(draws_of(c, source), stat) - c->real[stat];
    }
    const es_measured x = es_average_column(h->scratch, h->blocks, 1);
    const double pool = part_se(h, size, source, stat);
    const es_grouped blocks = {x.value, x.se, (double)h->blocks - 1.0};
    const es_grouped parts = {0.0, pool, ES_FAR_PARTS - 1.0};
    return (difference){{x.value, sqrt(x.se * x.se + pool * pool)}, es_welch(blocks, parts).p};
}

/* Returns by how much the mean square distance of real outputs from the mean over drawn ones is
 * above that of independent keys, over the spread of outputs. */
static double excess_of(const probe_far_head *h, int64_t size, probe_far_left left, int source)
{
    double excess = 0.0, spread = 0.0;
    for (int64_t b = 0; b < h->blocks; b++) {
        const es_far_cell *c = probe_far_cell(h, b, size);
        if (b == left.block)
            continue;
        excess += probe_far_without(source == OTHER_TEXT ? c->apart_other : c->apart, ES_FAR_PAIRS,
                                    left.pair) -
                  probe_far_without(c->exact_part, ES_FAR_PARTS, left.part) +
                  probe_far_without(c->bias_part, ES_FAR_PARTS, left.part);
        spread += c->spread;
    }
    return excess / spread;
}

static double excess_of_blocks(const probe_far_head *h, int64_t size, probe_far_left left)
{
    return excess_of(h, size, left, OTHER_BLOCKS);
}

static double excess_of_text(const probe_far_head *h, int64_t size, probe_far_left left)
{
    return excess_of(h, size, left, OTHER_TEXT);
}

/* Returns the excess of outputs' distances with its error. Its degrees of freedom combine those of
 * blocks, of pairs of parts, whose draws measure the distance, and of parts, which give the exact
 * one (Welch and Satterthwaite). */
static difference output_of(const probe_far_head *h, int64_t size, int source)
{
    const probe_far_errors e =
        probe_far_errors_of(h, size, source == OTHER_TEXT ? excess_of_text : excess_of_blocks);
    const double pairs = e.pairs * e.pairs, parts = e.parts * e.parts, pool = pairs + parts;
    const double freedom =
        pool * pool / (pairs * pairs / (ES_FAR_PAIRS - 1.0) + parts * parts / (ES_FAR_PARTS - 1.0));
    const es_grouped blocks = {e.value, e.blocks, (double)h->blocks - 1.0};
    const es_grouped keys = {0.0, sqrt(pool), freedom};
    return (difference){{e.value, sqrt(e.blocks * e.blocks + pool)}, es_welch(blocks, keys).p};
}

/* All differences of a head. */
static void differences(const probe_far_head *h, int source, difference out[COMPARED])
{
    const int64_t size = h->far->spec.sizes - 1;
    for (int s = 0; s < OUTPUT; s++)
        out[s] = difference_of(h, size, source, stats[s]);
    out[OUTPUT] = output_of(h, size, source);
}

/* ---- all heads ---- */

/* Adds the rows of one source: p (count, COMPARED) is corrected for all of them. */
static es_status add_rows(probe_far_summary *m, es_table *table, int source, const difference *all,
                          const double *p, es_error *err)
{
    for (int64_t i = 0; i < m->count; i++) {
        const difference *d = all + i * COMPARED;
        row *r = es_rows_add(table, row);
        if (!r)
            return es_answer_status(m->answer, err);
        *r = (row){.domain = m->heads[i].name,
                   .layer = m->heads[i].layer,
                   .head = m->heads[i].head,
                   .keys = sources[source],
                   .entropy = d[ENTROPY].value,
                   .log_ess = d[LOG_ESS].value,
                   .far_mass = d[FAR_MASS].value,
                   .top_weight = d[TOP_WEIGHT].value,
                   .output = d[OUTPUT].value,
                   .p = (double)NAN};
        for (int s = 0; s < COMPARED; s++)
            r->p = fmin(r->p, p[i * COMPARED + s]); /* fmin() ignores NaN */
        r->differs = r->p <= LEVEL ? "yes" : "no";
    }
    return ES_OK;
}

/* Adds the rows of the summary, and returns how many heads differ in anything. */
static es_status add_summary(probe_far_summary *m, es_table *table, int source,
                             const difference *all, const double *p, es_error *err)
{
    for (int s = 0; s < COMPARED; s++) {
        summary_row *r = es_rows_add(table, summary_row);
        int64_t different = 0;
        if (!r)
            return es_answer_status(m->answer, err);
        for (int64_t i = 0; i < m->count; i++) {
            m->values[i] = all[i * COMPARED + s].value.value;
            different += p[i * COMPARED + s] <= LEVEL;
        }
        const probe_over_heads over = probe_over(m->values, m->count);
        *r = (summary_row){.keys = sources[source],
                           .statistic = names[s],
                           .mean = over.mean,
                           .sd = over.sd,
                           .heads = m->count,
                           .different = different};
    }
    return ES_OK;
}

/* Heads that differ significantly in anything, in a statistic of weights, and in outputs; and the
 * least and largest difference of these outputs. */
typedef struct tally {
    int64_t any, weights, outputs;
    double least, most;
} tally;

static tally count_different(const probe_far_summary *m, const difference *all, const double *p)
{
    tally t = {.least = INFINITY, .most = -INFINITY};
    for (int64_t i = 0; i < m->count; i++) {
        const bool output = p[i * COMPARED + OUTPUT] <= LEVEL;
        bool weights = false;
        for (int s = 0; s < OUTPUT; s++)
            weights = weights || p[i * COMPARED + s] <= LEVEL;
        t.any += weights || output;
        t.weights += weights;
        t.outputs += output;
        if (output) {
            t.least = fmin(t.least, all[i * COMPARED + OUTPUT].value.value);
            t.most = fmax(t.most, all[i * COMPARED + OUTPUT].value.value);
        }
    }
    return t;
}

/* Returns x in steps of `unit`, and never -0. */
static double in_steps(double x, double unit) { return round(x / unit) * unit + 0.0; }

/* Writes the difference of the outputs that differ, or from the least to the largest. */
static const char *say_outputs(const tally *t, char out[3 * ES_SAY_SIZE])
{
    char least[ES_SAY_SIZE], most[ES_SAY_SIZE];
    es_say_number(t->least, (double)NAN, least);
    es_say_number(t->most, (double)NAN, most);
    snprintf(out, 3 * ES_SAY_SIZE, "%s%s%s", least, t->outputs > 1 ? " to " : "",
             t->outputs > 1 ? most : "");
    return out;
}

/* Adds the finding about one source: heads by weights and by outputs, and how large either is. */
static void add_findings(probe_far_summary *m, int source, const tally *t, const es_table *summary)
{
    const summary_row *s = es_rows(summary, summary_row) + es_table_rows(summary) - COMPARED;
    char outputs[3 * ES_SAY_SIZE], excess[6 * ES_SAY_SIZE] = "";
    es_answer_count(m->answer, source == OTHER_TEXT ? "far_different_other" : "far_different",
                    t->any);
    if (t->outputs)
        snprintf(excess, sizeof excess,
                 " In these outputs the mean square distance less that of independent keys is %s "
                 "times their variance.",
                 say_outputs(t, outputs));
    es_answer_add_finding(
        m->answer,
        "Far keys, all but the first and last ones, differ from independent draws from %s in the "
        "weights of %lld and the outputs of %lld of %lld %s. Replacing them changes entropy by "
        "%.3f nats, mean over heads.%s",
        sources[source], (long long)t->weights, (long long)t->outputs, (long long)m->count,
        probe_counted(m->job->state), in_steps(s[ENTROPY].mean, 1e-3), excess);
}

/* Compares all heads with draws from one source. */
static es_status compare(probe_far_summary *m, int source, es_table *rows, es_table *summary,
                         es_error *err)
{
    difference *all;
    double *p;
    ES_TRY(ES_JOB_NEW_2D(m->job, all, m->count, COMPARED, err));
    ES_TRY(ES_JOB_NEW_2D(m->job, p, m->count, COMPARED, err));
    for (int64_t i = 0; i < m->count; i++) {
        differences(&m->heads[i], source, all + i * COMPARED);
        for (int s = 0; s < COMPARED; s++)
            p[i * COMPARED + s] = all[i * COMPARED + s].p;
    }
    ES_TRY(es_holm(p, m->count * COMPARED, p, err));
    ES_TRY(add_rows(m, rows, source, all, p, err));
    ES_TRY(add_summary(m, summary, source, all, p, err));
    const tally different = count_different(m, all, p);
    add_findings(m, source, &different, summary);
    return ES_OK;
}

es_status probe_far_put_exchange(probe_far_summary *m, es_error *err)
{
    es_table *summary = es_answer_table(m->answer, &probe_exchange_summary_table);
    es_table *rows = es_answer_table(m->answer, &table_spec);
    ES_TRY(compare(m, OTHER_BLOCKS, rows, summary, err));
    if (m->far->other_text.count)
        ES_TRY(compare(m, OTHER_TEXT, rows, summary, err));
    if (m->heads[0].blocks < FEW_BLOCKS)
        es_answer_add_finding(m->answer,
                              "Caution: %lld blocks of text: only large differences can be "
                              "significant in a test of all heads. Take more text (--pool).",
                              (long long)m->heads[0].blocks);
    return ES_OK;
}
