/* SPDX-License-Identifier: Apache-2.0 */
/* far_classes.c : the tables far_classes and far_ratios: medians over heads, by class and by n, of
 * their distances from the limit of their far field, and the sentences about them. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/far_question.h"
#include "experiments/probe/question.h"
#include "stats/multiple.h"

/* Largest share of the measured mean square that may be the pool's error: above it the first-order
 * correction (F3) is not enough. */
#define MOST_POOL_SHARE 0.5

/* Blocks of a pool whose parts all have a block other than the query's. */
enum { FEWEST_POOL_BLOCKS = 2 * ES_FAR_PARTS };

/* One class of heads. */
typedef struct class_row {
    const char *class;
    int64_t heads;
    double relative_error_exact, ratio, rate_map_exact, rate_map_predicted, ess_n;
    double effective_context;
    int64_t within_tenth;
} class_row;

static const es_column class_columns[] = {
    ES_COL(class_row, class, ES_FORMAT_TEXT, "class", ""),
    ES_COL(class_row, heads, ES_FORMAT_COUNT, "heads", "",
           "number of heads, counted once for each domain"),
    ES_COL(class_row, within_tenth, ES_FORMAT_COUNT, "within 10 %", "heads",
           "whose exact error is at most a tenth at the longest n"),
    ES_COL(class_row, relative_error_exact, ES_FORMAT_SHORT, "exact error", "",
           "at the longest n: median over heads", .standing = ES_STANDING_HEURISTIC),
    ES_COL(class_row, ratio, ES_FORMAT_SHORT, "measured/exact", "",
           "mean squares at the longest n: median over heads"),
    ES_COL(class_row, rate_map_exact, ES_FORMAT_SHORT, "exact rate", "",
           "the exact error falls like `n^-rate`: median over heads. `1/2` is that of independent "
           "terms",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(class_row, rate_map_predicted, ES_FORMAT_SHORT, "Gaussian rate", "",
           "that of Gaussian keys: median over heads", .standing = ES_STANDING_HEURISTIC),
    ES_COL(class_row, ess_n, ES_FORMAT_SHORT, "ESS", "keys",
           "effective number of keys at the longest n: median over heads"),
    ES_COL(class_row, effective_context, ES_FORMAT_SHORT, "effective context", "keys",
           "at the longest n: median over heads"),
    {0}};
const es_table_spec probe_far_classes_table = {"far_classes", class_columns,
                                               ES_VIEW("Heads by class, with positions"),
                                               ES_ROW(class_row), .keys = "class"};

/* All heads at one n. */
typedef struct ratio_row {
    int64_t n, heads;
    double relative_error_exact, relative_error, relative_error_predicted;
    es_measured ratio;
    double ratio_low, ratio_high;
} ratio_row;

static const es_column ratio_columns[] = {
    ES_COL(ratio_row, n, ES_FORMAT_COUNT, "n", "keys", "queries see from 7/8 of this up to it"),
    ES_COL(ratio_row, heads, ES_FORMAT_COUNT, "heads", "", "with a far field"),
    ES_COL(ratio_row, relative_error_exact, ES_FORMAT_SHORT, "exact error", "", "median over heads",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(ratio_row, relative_error, ES_FORMAT_SHORT, "measured", "", "median over heads"),
    ES_COL(ratio_row, relative_error_predicted, ES_FORMAT_SHORT, "Gaussian", "",
           "exact error of Gaussian keys: median over heads", .standing = ES_STANDING_HEURISTIC),
    ES_COL(ratio_row, ratio, ES_FORMAT_REAL, "measured/exact", "",
           "ratio of mean squares: median over heads; standard error by the jackknife over blocks "
           "and parts of the pool, which all heads share"),
    ES_COL(ratio_row, ratio_low, ES_FORMAT_SHORT, "first quartile", "", "of that over heads"),
    ES_COL(ratio_row, ratio_high, ES_FORMAT_SHORT, "third quartile", "", "likewise"),
    {0}};
const es_table_spec probe_far_ratios_table = {
    "far_ratios", ratio_columns,
    ES_VIEW("Real contexts of n tokens and the limit of many independent far keys",
            .note = "1: outputs scatter around the limit as if far keys were independent"),
    ES_ROW(ratio_row), .keys = "n"};

/* ---- numbers over heads ---- */

/* Sorts the finite ones of `count` numbers to the front, and returns how many there are. */
static int64_t sort_finite(double *values, int64_t count)
{
    int64_t finite = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            values[finite++] = values[i];
    es_sort_reals(values, finite);
    return finite;
}

/* Returns the median of the finite ones; NaN: there is none. */
static double median_over(double *values, int64_t count)
{
    const int64_t finite = sort_finite(values, count);
    return finite ? es_median_of(values, finite) : (double)NAN;
}

/* Returns the quartile `share` of sorted numbers: a line between neighbours. */
static double quartile(const double *sorted, int64_t count, double share)
{
    const double at = share * (double)(count - 1);
    const int64_t low = (int64_t)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}

/* ---- by class ---- */

/* Median of a double of the row over the heads of a class. */
static double median_of(probe_far_summary *m, const probe_far_head_row *rows, const char *class,
                        size_t offset)
{
    int64_t count = 0;
    for (int64_t i = 0; i < m->count; i++)
        if (strcmp(rows[i].class, class) == 0)
            memcpy(&m->values[count++], (const char *)&rows[i] + offset, sizeof(double));
    return median_over(m->values, count);
}

#define MEDIAN(member) median_of(m, rows, class, offsetof(probe_far_head_row, member.value))

es_status probe_far_put_classes(probe_far_summary *m, const es_table *heads, es_table *out,
                                es_error *err)
{
    const probe_far_head_row *rows = es_rows(heads, probe_far_head_row);
    for (int k = 0; k < ES_REGIMES; k++) {
        const char *class = es_regime_name(probe_classes_order[k]);
        class_row *r = es_rows_add(out, class_row);
        if (!r)
            return es_answer_status(m->answer, err);
        *r = (class_row){.class = class,
                         .relative_error_exact = MEDIAN(relative_error_exact),
                         .ratio = MEDIAN(ratio),
                         .rate_map_exact = MEDIAN(rate_map_exact),
                         .rate_map_predicted = MEDIAN(rate_map_predicted),
                         .ess_n = MEDIAN(ess_n),
                         .effective_context = MEDIAN(effective_context)};
        for (int64_t i = 0; i < m->count; i++) {
            const bool is = strcmp(rows[i].class, class) == 0;
            r->heads += is;
            r->within_tenth += is && rows[i].relative_error_exact.value <= 0.1;
        }
    }
    return ES_OK;
}

/* ---- by n ---- */

/* Returns the median ratio at one n. */
static double median_ratio(probe_far_summary *m, int64_t size, probe_far_left left)
{
    for (int64_t i = 0; i < m->count; i++)
        m->values[i] = probe_far_ratio(&m->heads[i], size, left);
    return median_over(m->values, m->count);
}

/* The median ratio with its error: heads share blocks and pool, so that these are left out of all
 * heads together. */
static es_measured ratio_over_heads(probe_far_summary *m, int64_t size)
{
    const probe_far_head *h = &m->heads[0];
    const double value = median_ratio(m, size, (probe_far_left){-1, -1, -1});
    double pairs[ES_FAR_PAIRS], parts[ES_FAR_PARTS];
    for (int64_t b = 0; b < h->blocks; b++)
        h->more[b] = median_ratio(m, size, (probe_far_left){b, -1, -1});
    for (int p = 0; p < ES_FAR_PAIRS; p++)
        pairs[p] = median_ratio(m, size, (probe_far_left){-1, -1, p});
    for (int p = 0; p < ES_FAR_PARTS; p++)
        parts[p] = median_ratio(m, size, (probe_far_left){-1, p, -1});
    const double a = es_jackknife(value, h->more, h->blocks).se,
                 b = es_jackknife(value, pairs, ES_FAR_PAIRS).se,
                 c = es_jackknife(value, parts, ES_FAR_PARTS).se;
    return (es_measured){value, sqrt(a * a + b * b + c * c)};
}

/* Median over heads of a column at one n: rows are (heads, sizes). */
static double median_at(probe_far_summary *m, const probe_far_row *rows, int64_t size,
                        size_t offset)
{
    for (int64_t i = 0; i < m->count; i++)
        memcpy(&m->values[i], (const char *)&rows[i * m->far->spec.sizes + size] + offset,
               sizeof(double));
    return median_over(m->values, m->count);
}

#define MEDIAN_AT(member) median_at(m, rows, s, offsetof(probe_far_row, member.value))

/* Adds the findings about exact and measured errors at the longest n. */
static void add_findings(probe_far_summary *m, const es_table *heads, es_measured ratio)
{
    const probe_far_head_row *rows = es_rows(heads, probe_far_head_row);
    const int64_t n = m->far->spec.size[m->far->spec.sizes - 1];
    int64_t within = 0;
    for (int64_t i = 0; i < m->count; i++) {
        within += rows[i].relative_error_exact.value <= 0.1;
        m->values[i] = probe_far_pool_share(&m->heads[i]);
    }
    const double pool = median_over(m->values, m->count);
    es_answer_real(m->answer, "far_ratio_median", ratio.value);
    es_answer_real(m->answer, "far_ratio_median_se", ratio.se);
    es_answer_real(m->answer, "far_pool_share", pool);
    es_answer_add_finding(m->answer,
                          "At n = %lld, %lld of %lld %s are within 10 %% of the limit of "
                          "infinitely many independent far keys.",
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

es_status probe_far_put_ratios(probe_far_summary *m, const es_table *heads, const es_table *table,
                               es_table *out, es_error *err)
{
    const probe_far_row *rows = es_rows(table, probe_far_row);
    es_measured ratio = {0};
    for (int64_t s = 0; s < m->far->spec.sizes; s++) {
        ratio_row *r = es_rows_add(out, ratio_row);
        if (!r)
            return es_answer_status(m->answer, err);
        r->n = m->far->spec.size[s];
        r->relative_error_exact = MEDIAN_AT(relative_error_exact);
        r->relative_error = MEDIAN_AT(relative_error);
        r->relative_error_predicted = MEDIAN_AT(relative_error_predicted);
        r->ratio = ratio = ratio_over_heads(m, s);
        for (int64_t i = 0; i < m->count; i++)
            m->values[i] = probe_far_ratio(&m->heads[i], s, (probe_far_left){-1, -1, -1});
        r->heads = sort_finite(m->values, m->count);
        r->ratio_low = r->heads ? quartile(m->values, r->heads, 0.25) : (double)NAN;
        r->ratio_high = r->heads ? quartile(m->values, r->heads, 0.75) : (double)NAN;
    }
    add_findings(m, heads, ratio);
    return ES_OK;
}
