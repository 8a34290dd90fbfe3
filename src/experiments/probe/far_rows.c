/* SPDX-License-Identifier: Apache-2.0 */
/* far_rows.c : the tables far_heads and far_rows: how far each head is from the limit of many
 * independent far keys, exactly and as measured (THEORY 20). */
#include <math.h>

#include "experiments/kit/answer_kit.h"
#include "experiments/probe/far_question.h"
#include "experiments/probe/question.h"
#include "stats/multiple.h"

#define EXACT                                                                                      \
    "root mean square distance of the output from its limit if far keys are independent, over "    \
    "the standard deviation of outputs; corrected to first order for the finite pool"

/* Most of the measured square that may be error of the pool: beyond, first order is no longer
 * enough for (F3). */
#define MOST_POOL_SHARE 0.5

/* Blocks of a pool whose parts all have a block other than the query's. */
enum { FEWEST_POOL_BLOCKS = 2 * ES_FAR_PARTS };

/* A head at one n. */
typedef struct row {
    const char *domain;
    int64_t layer, head, n;
    es_measured error_exact, error_measured, ratio;
    double error_sampling, pool_error;
    es_measured entropy, ess, far_mass, sink_mass, local_mass, top_weight;
} row;

static const es_column row_columns[] = {
    ES_COL(row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(row, n, ES_FORMAT_COUNT, "n", "keys", "queries see from 7/8 of this up to it"),
    ES_COL(row, error_exact, ES_FORMAT_REAL, "exact error", "",
           EXACT "; standard error by the jackknife over blocks",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(row, error_measured, ES_FORMAT_REAL, "measured", "",
           "the same of real outputs: their mean square distance from the mean over drawn far "
           "fields, and the exact square of the latter's distance from the limit"),
    ES_COL(row, ratio, ES_FORMAT_REAL, "measured/exact", "",
           "ratio of the two mean squares: 1 if real far keys behave like independent ones; "
           "standard error by the jackknife over blocks and by parts of the pool"),
    ES_COL(row, pool_error, ES_FORMAT_SHORT, "pool error", "",
           "root mean square error of the limit, by four parts of the pool, over the standard "
           "deviation of outputs; where its square is more than half of the measured one the "
           "ratio is limited by the pool",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(row, error_sampling, ES_FORMAT_SHORT, "first order", "",
           "the exact error to first order in the fluctuations of far sums",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(row, entropy, ES_FORMAT_REAL, "entropy", "nats", "of a query's weights, mean"),
    ES_COL(row, ess, ES_FORMAT_REAL, "ESS", "keys",
           "effective number of keys of the typical query: exp of the mean logarithm"),
    ES_COL(row, far_mass, ES_FORMAT_REAL, "far mass", "share", "weight on the far field"),
    ES_COL(row, sink_mass, ES_FORMAT_REAL, "sink mass", "share", "weight on the first keys"),
    ES_COL(row, local_mass, ES_FORMAT_REAL, "local", "share", "weight on the last keys"),
    ES_COL(row, top_weight, ES_FORMAT_REAL, "top weight", "share", "largest weight"),
    {0}};
static const es_table_spec rows_table = {"far_rows", row_columns,
                                         ES_VIEW("Heads and their far field as contexts grow",
                                                 "domain layer head n error_exact error_measured "
                                                 "ratio pool_error far_mass sink_mass local_mass",
                                                 .only_with_full = true),
                                         ES_ROW(row), .keys = "domain layer head n"};

/* A head. */
typedef struct head_row {
    const char *domain;
    int64_t layer, head;
    const char *class;
    es_measured error_exact, ratio, rate;
    const char *tokens_for_tenth_sign;
    double tokens_for_tenth;
    es_measured far_mass, sink_mass, ess;
} head_row;

static const es_column head_columns[] = {
    ES_COL(head_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(head_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(head_row, class, ES_FORMAT_TEXT, "class", "",
           "averaging: 95 % interval of ESS at or above 100 (two thirds of n, if that is less); "
           "single-key: below 2; selective: between; undecided: it contains a cut-off"),
    ES_COL(head_row, error_exact, ES_FORMAT_REAL, "exact error", "", EXACT "; at the longest n",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(head_row, ratio, ES_FORMAT_REAL, "measured/exact", "",
           "mean square of real outputs' distance over the exact one, at the longest n"),
    ES_COL(head_row, rate, ES_FORMAT_REAL, "rate", "",
           "the exact error falls like n^-rate: slope over all n; standard error by the jackknife "
           "over blocks"),
    ES_COL(head_row, tokens_for_tenth_sign, ES_FORMAT_TEXT, "", "",
           "<: fewer than the shortest n; >: more than the longest"),
    ES_COL(head_row, tokens_for_tenth, ES_FORMAT_SHORT, "tokens for 10 % error", "keys",
           "n from which on the exact error is at most a tenth; a line between logarithms"),
    ES_COL(head_row, far_mass, ES_FORMAT_REAL, "far mass", "share",
           "weight on the far field at the longest n"),
    ES_COL(head_row, sink_mass, ES_FORMAT_REAL, "sink mass", "share", "weight on the first keys"),
    ES_COL(head_row, ess, ES_FORMAT_REAL, "ESS", "keys", "effective number of keys"),
    {0}};
static const es_table_spec heads_table = {
    "far_heads", head_columns,
    ES_VIEW("Heads and the limit of their far field",
            "domain layer head class error_exact ratio rate tokens_for_tenth_sign "
            "tokens_for_tenth far_mass sink_mass"),
    ES_ROW(head_row), .keys = "domain layer head"};

/* ---- numbers ---- */

/* Sums of a row of cells over all blocks but one (-1: all), with distances from draws of one pair
 * of parts of the pool (-1: all pairs). */
typedef struct sums {
    double exact, measured, sampling, pool, spread;
} sums;

static sums sums_of(const probe_far_head *h, int64_t size, int64_t without, int pair)
{
    sums s = {0};
    for (int64_t b = 0; b < h->blocks; b++) {
        const es_far_cell *c = probe_far_cell(h, b, size);
        if (b == without)
            continue;
        s.exact += c->exact;
        s.measured += probe_far_apart(c->apart, pair) + c->exact_bias;
        s.sampling += c->sampling;
        s.pool += c->pool_error;
        s.spread += c->spread;
    }
    return s;
}

/* What is estimated from such sums. */
enum { EXACT_ERROR, MEASURED_ERROR, RATIO };
static double estimate(const probe_far_head *h, int64_t size, int what, int64_t without, int pair)
{
    const sums s = sums_of(h, size, without, pair);
    return what == RATIO            ? s.measured / s.exact
           : what == MEASURED_ERROR ? sqrt(fmax(s.measured, 0.0) / s.spread)
                                    : sqrt(s.exact / s.spread);
}

/* An estimate with its error: the jackknife over blocks, and pairs of parts of the pool, whose
 * errors are those of all blocks. */
static es_measured with_error(double value, const double *without, int64_t blocks,
                              const double pairs[ES_FAR_PAIRS])
{
    const double block_se = es_jackknife(value, without, blocks).se;
    const double pool_se = es_average_column(pairs, ES_FAR_PAIRS, 1).se;
    return (es_measured){value, sqrt(block_se * block_se + pool_se * pool_se)};
}

static es_measured knifed(const probe_far_head *h, int64_t size, int what)
{
    double pairs[ES_FAR_PAIRS];
    for (int64_t b = 0; b < h->blocks; b++)
        h->more[b] = estimate(h, size, what, b, -1);
    for (int p = 0; p < ES_FAR_PAIRS; p++)
        pairs[p] = estimate(h, size, what, -1, p);
    return with_error(estimate(h, size, what, -1, -1), h->more, h->blocks, pairs);
}

/* Slope of ln error on ln n, without one block. */
static double slope(const probe_far_head *h, int64_t without)
{
    const es_far_spec *spec = &h->far->spec;
    double x[ES_FAR_MOST], y[ES_FAR_MOST];
    for (int64_t s = 0; s < spec->sizes; s++) {
        x[s] = log((double)spec->size[s]);
        y[s] = log(estimate(h, s, EXACT_ERROR, without, -1));
    }
    return spec->sizes > 1 ? -es_measured_slope(x, y, spec->sizes).value : (double)NAN;
}

/* The rate of a head. */
static es_measured rate_of(const probe_far_head *h)
{
    for (int64_t b = 0; b < h->blocks; b++)
        h->more[b] = slope(h, b);
    const es_grouped x = es_jackknife(slope(h, -1), h->more, h->blocks);
    return (es_measured){x.value, x.se};
}

/* Where the exact error falls to a tenth for good. */
static void put_tenth(const probe_far_head *h, head_row *r)
{
    const es_far_spec *spec = &h->far->spec;
    const double tenth = 0.1;
    int64_t s = spec->sizes - 1;
    double above, below = estimate(h, s, EXACT_ERROR, -1, -1);
    r->tokens_for_tenth_sign = "";
    if (below > tenth) {
        r->tokens_for_tenth_sign = ">";
        r->tokens_for_tenth = (double)spec->size[s];
        return;
    }
    for (; s > 0; s--, below = above) {
        above = estimate(h, s - 1, EXACT_ERROR, -1, -1);
        if (above <= tenth)
            continue;
        const double low = log((double)spec->size[s - 1]), high = log((double)spec->size[s]);
        r->tokens_for_tenth = exp(low + (high - low) * log(above / tenth) / log(above / below));
        return;
    }
    r->tokens_for_tenth_sign = "<";
    r->tokens_for_tenth = (double)spec->size[0];
}

/* ---- rows ---- */

/* Fills the row of a head at one size. */
static void fill(const probe_far_head *h, int64_t s, row *r)
{
    const sums all = sums_of(h, s, -1, -1);
    r->domain = h->name;
    r->layer = h->layer;
    r->head = h->head;
    r->n = h->far->spec.size[s];
    r->error_exact = knifed(h, s, EXACT_ERROR);
    r->error_measured = knifed(h, s, MEASURED_ERROR);
    r->ratio = knifed(h, s, RATIO);
    r->error_sampling = sqrt(all.sampling / all.spread);
    r->pool_error = sqrt(all.pool / all.spread);
    r->entropy = probe_far_real(h, s, ES_FAR_ENTROPY);
    r->ess = probe_exp(probe_far_real(h, s, ES_FAR_LOG_ESS));
    r->far_mass = probe_far_real(h, s, ES_FAR_FAR);
    r->sink_mass = probe_far_real(h, s, ES_FAR_SINK);
    r->local_mass = probe_far_real(h, s, ES_FAR_NEAR);
    r->top_weight = probe_far_real(h, s, ES_FAR_TOP);
}

/* Fills the row of a head from that of its longest n. */
static void fill_head(const probe_far_head *h, const row *last, head_row *r)
{
    const es_measured log_ess = probe_far_real(h, h->far->spec.sizes - 1, ES_FAR_LOG_ESS);
    r->domain = h->name;
    r->layer = h->layer;
    r->head = h->head;
    r->class = es_regime_name(probe_concentration_of(log_ess, (double)last->n, h->blocks));
    r->error_exact = last->error_exact;
    r->ratio = last->ratio;
    r->rate = rate_of(h);
    put_tenth(h, r);
    r->far_mass = last->far_mass;
    r->sink_mass = last->sink_mass;
    r->ess = last->ess;
}

/* ---- sentences ---- */

/* Returns the median of numbers of heads; heads without a far field have none. */
static double median_over(double *values, int64_t heads)
{
    int64_t count = 0;
    for (int64_t i = 0; i < heads; i++)
        if (isfinite(values[i]))
            values[count++] = values[i];
    es_sort_reals(values, count);
    return es_median_of(values, count);
}

/* Returns the median ratio at the longest n. */
static double median_ratio(probe_far_summary *m, int64_t without, int pair)
{
    const int64_t last = m->far->spec.sizes - 1;
    for (int64_t i = 0; i < m->count; i++)
        m->values[i] = estimate(&m->heads[i], last, RATIO, without, pair);
    return median_over(m->values, m->count);
}

/* The median ratio with its error: heads share blocks and pool, so that these are left out of all
 * heads together. */
static es_measured ratio_over_heads(probe_far_summary *m)
{
    const probe_far_head *h = &m->heads[0];
    double pairs[ES_FAR_PAIRS];
    for (int64_t b = 0; b < h->blocks; b++)
        h->more[b] = median_ratio(m, b, -1);
    for (int p = 0; p < ES_FAR_PAIRS; p++)
        pairs[p] = median_ratio(m, -1, p);
    return with_error(median_ratio(m, -1, -1), h->more, h->blocks, pairs);
}

/* Returns the median over heads of the limit's squared error over the measured square. */
static double pool_share(probe_far_summary *m)
{
    for (int64_t i = 0; i < m->count; i++) {
        const sums s = sums_of(&m->heads[i], m->far->spec.sizes - 1, -1, -1);
        m->values[i] = s.pool / fmax(s.measured, 1e-6 * s.pool); /* finite where it is 0 or less */
    }
    return median_over(m->values, m->count);
}

/* Adds the finding about exact and measured errors. */
static void tell(probe_far_summary *m, const es_table *heads)
{
    const head_row *rows = es_rows(heads, head_row);
    const int64_t n = m->far->spec.size[m->far->spec.sizes - 1];
    const es_measured ratio = ratio_over_heads(m);
    const double pool = pool_share(m);
    int64_t within = 0;
    for (int64_t i = 0; i < m->count; i++)
        within += rows[i].error_exact.value <= 0.1;
    es_answer_real(m->answer, "far_ratio_median", ratio.value);
    es_answer_real(m->answer, "far_ratio_median_se", ratio.se);
    es_answer_real(m->answer, "far_pool_share", pool);
    es_answer_add_finding(m->answer,
                          "At n = %lld %lld of %lld %s are within 10 %% of the limit of many "
                          "independent far keys.",
                          (long long)n, (long long)within, (long long)m->count,
                          probe_counted(m->job->state));
    if (pool <= MOST_POOL_SHARE && m->far->pool_blocks >= FEWEST_POOL_BLOCKS)
        es_answer_add_finding(m->answer,
                              "The mean square distance of real outputs from that limit is %.2f ± "
                              "%.2f times that of independent keys (median over heads).",
                              ratio.value, ratio.se);
    else
        es_answer_add_finding(m->answer,
                              "Caution: the pool of keys is too small to compare real outputs with "
                              "that limit at n = %lld. Take more text (--pool).",
                              (long long)n);
}

es_status probe_far_put_rows(probe_far_summary *m, es_error *err)
{
    es_table *heads = es_answer_table(m->answer, &heads_table);
    es_table *table = es_answer_table(m->answer, &rows_table);
    for (int64_t i = 0; i < m->count; i++) {
        row *r = NULL;
        for (int64_t s = 0; s < m->far->spec.sizes; s++) {
            r = es_rows_add(table, row);
            if (!r)
                return es_answer_status(m->answer, err);
            fill(&m->heads[i], s, r);
        }
        head_row *h = es_rows_add(heads, head_row);
        if (!h)
            return es_answer_status(m->answer, err);
        fill_head(&m->heads[i], r, h);
    }
    tell(m, heads);
    return ES_OK;
}
