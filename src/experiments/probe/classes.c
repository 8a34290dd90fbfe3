/* SPDX-License-Identifier: Apache-2.0 */
/* classes.c : the class of a head, by how many tokens share its weight; the policy with the least
 * error; the tables of classes and of the heads that matter most.
 *
 * A head averages if ESS = 1/sum w^2 of its median query is at least 100 (two thirds of n where
 * that is less), uses a single key below 2, and selects between. The class is by the 95 % interval
 * over draws: one that contains a cut-off is undecided, whatever its mean. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "stats/average.h"
#include "stats/special.h"

/* ---- one head ---- */

const es_regime probe_classes_order[ES_REGIMES] = {ES_REGIME_AVERAGING, ES_REGIME_SELECTIVE,
                                                   ES_REGIME_SINGLE_KEY, ES_REGIME_UNDECIDED};

es_regime probe_class_of(const probe_signs *s)
{
    const double within = es_student_quantile((double)s->draws - 1.0, 0.025) * s->ess_se;
    return es_regime_within(s->n, s->ess - within, s->ess + within);
}

void probe_classify(probe_head_row *row, double n, int64_t draws)
{
    const probe_signs signs = {n, row->ess_n.value, row->ess_n.se, draws};
    row->class = es_regime_name(probe_class_of(&signs));
}

/* Returns whether the queries do not show policy i to be worse than the best. */
static bool as_good(const es_probe_policies *p, int64_t i)
{
    const double within = es_student_quantile((double)p->queries - 1.0, 0.025);
    return p->behind[i] <= within * p->behind_se[i];
}

void probe_advise(es_table *heads, probe_head_row *row, const es_probe_policies *p)
{
    if (!p->queries || !isfinite(p->error[p->best]))
        return; /* no key was left out, or outputs have no spread */
    row->random_error = p->error[0];
    row->top_error = p->error[1];
    row->top_random_error = p->error[2];
    row->advice = es_probe_policy_name(p->best);
    for (int64_t i = 0; i < ES_PROBE_POLICIES; i++)
        if (i != p->best && as_good(p, i))
            row->advice = es_table_format(heads, "%s or %s", row->advice, es_probe_policy_name(i));
}

/* ---- columns ---- */

#define CUT_OFFS                                                                                   \
    "By the 95 % interval of ESS over draws, at the largest n. Averaging: at least 100, or two "   \
    "thirds of n if that is less; single-key: below 2; selective: between; undecided: the "        \
    "interval contains a cut-off"

static const es_column class_columns[] = {
    ES_COL(probe_class_row, class, ES_FORMAT_TEXT, "class", ""),
    ES_COL(probe_class_row, heads, ES_FORMAT_COUNT, "heads", "",
           "number of heads, counted once for each domain"),
    ES_COL(probe_class_row, rate_map, ES_FORMAT_SHORT, "rate", "",
           "of their map errors, `n^-rate`: median over heads"),
    ES_COL(probe_class_row, rate_map_exact, ES_FORMAT_SHORT, "exact rate", "",
           "map error ~ `n^-rate`, by exact integrals over the pool: median over heads. `1/2` is "
           "that of independent terms",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_class_row, ess_n, ES_FORMAT_SHORT, "ESS", "tokens",
           "effective number of tokens, `1/sum w^2`, of the median query at the largest n: median "
           "over heads"),
    ES_COL(probe_class_row, random, ES_FORMAT_COUNT, "random", "heads",
           "for which the advice is random keys alone"),
    ES_COL(probe_class_row, top, ES_FORMAT_COUNT, "top", "heads",
           "for which it is the largest weights alone"),
    ES_COL(probe_class_row, top_random, ES_FORMAT_COUNT, "top-random", "heads",
           "for which it is half and half alone"),
    ES_COL(probe_class_row, meaning, ES_FORMAT_TEXT, "which means", ""),
    {0}};
const es_table_spec probe_classes_table = {
    "classes", class_columns,
    ES_VIEW("Heads by class", "class heads rate_map_exact ess_n random top top_random meaning",
            CUT_OFFS),
    ES_ROW(probe_class_row), .keys = "class"};

static const es_column matter_columns[] = {
    ES_COL(probe_matter_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(probe_matter_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(probe_matter_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(probe_matter_row, class, ES_FORMAT_TEXT, "class", ""),
    ES_COL(probe_matter_row, advice, ES_FORMAT_TEXT, "keys to keep", "", PROBE_KEYS_TO_KEEP),
    ES_COL(probe_matter_row, random_error, ES_FORMAT_SHORT, "random", "",
           "error of that policy, over the spread"),
    ES_COL(probe_matter_row, top_error, ES_FORMAT_SHORT, "top", ""),
    ES_COL(probe_matter_row, top_random_error, ES_FORMAT_SHORT, "top-random", ""),
    ES_COL(probe_matter_row, moves, ES_FORMAT_SHORT, "moves", "",
           "by how much the head's error at the largest n changes the layer's output, over the "
           "spread of "
           "the layer's inputs"),
    ES_COL(probe_matter_row, relative_error, ES_FORMAT_SHORT, "rel. error", "",
           "of the head's own output, over the spread of those"),
    ES_COL(probe_matter_row, rate_map, ES_FORMAT_REAL, "rate", "", "of that error, `n^-rate`"),
    ES_COL(probe_matter_row, rate_map_exact, ES_FORMAT_SHORT, "exact rate", "",
           "of the exact error, which does not depend on draws", .standing = ES_STANDING_PROVED),
    ES_COL(probe_matter_row, ess_n, ES_FORMAT_SHORT, "ESS", "tokens",
           "effective number of the n tokens"),
    {0}};
const es_table_spec probe_matter_table = {
    "matter_most", matter_columns,
    ES_VIEW("The ten heads that matter most",
            "domain layer head class ess_n rate_map_exact advice random_error top_error "
            "top_random_error moves relative_error",
            "Those with the largest `moves`, in its order"),
    ES_ROW(probe_matter_row), .keys = "domain layer head"};

/* ---- classes ---- */

/* Adds what the class means at this n: where n is small, fewer than 100 tokens are many. */
static const char *meaning_of(es_regime kind, double n, es_table *table)
{
    char many[ES_SAY_SIZE];
    es_say_size(ceil(1.0 / es_averages_squares(n)), many);
    switch (kind) {
    case ES_REGIME_AVERAGING:
        return es_table_format(table, "%s or more tokens share the weight", many);
    case ES_REGIME_SELECTIVE:
        return es_table_format(table, "2 or more share it, fewer than %s", many);
    case ES_REGIME_SINGLE_KEY:
        return "fewer than 2: one token has most of it";
    default:
        return "more draws decide (--replicates)";
    }
}

/* The heads that are counted. */
typedef struct head_rows {
    const probe_head_row *rows;
    int64_t count;
    double *scratch; /* (count) */
    bool advised;    /* one of them has an advice */
} head_rows;

/* Median of a double of the row over the heads of a class; NaN if none has a number. */
static double median_of(const head_rows *heads, const char *class, size_t offset)
{
    int64_t count = 0;
    for (int64_t i = 0; i < heads->count; i++) {
        if (strcmp(heads->rows[i].class, class) != 0)
            continue;
        memcpy(&heads->scratch[count], (const char *)&heads->rows[i] + offset, sizeof(double));
        count += isfinite(heads->scratch[count]);
    }
    es_sort_reals(heads->scratch, count);
    return count ? es_median_of(heads->scratch, count) : (double)NAN;
}

/* Heads of a class; with `advice`, those with this advice alone. */
static int64_t count_of(const head_rows *heads, const char *class, const char *advice)
{
    int64_t count = 0;
    for (int64_t i = 0; i < heads->count; i++) {
        const probe_head_row *r = &heads->rows[i];
        count += strcmp(r->class, class) == 0 &&
                 (!advice || (r->advice && strcmp(r->advice, advice) == 0));
    }
    return count;
}

/* Fills a class from the heads in it; counts of advice only where any head has one. */
static void fill_class(const head_rows *heads, es_regime kind, double n, es_table *table,
                       probe_class_row *r)
{
    const char *class = es_regime_name(kind);
    r->class = class;
    r->heads = count_of(heads, class, NULL);
    r->rate_map = median_of(heads, class, offsetof(probe_head_row, rate_map.rate.value));
    r->rate_map_exact = median_of(heads, class, offsetof(probe_head_row, rate_map_exact));
    r->ess_n = median_of(heads, class, offsetof(probe_head_row, ess_n.value));
    if (heads->advised) {
        r->random = count_of(heads, class, es_probe_policy_name(0));
        r->top = count_of(heads, class, es_probe_policy_name(1));
        r->top_random = count_of(heads, class, es_probe_policy_name(2));
    }
    r->meaning = meaning_of(kind, n, table);
}

/* ---- the heads that matter most ---- */

/* The row with the largest `moves` left in scratch, the first of equals, which is then taken out;
 * -1: none is left. */
static int64_t next_of(const head_rows *heads)
{
    int64_t most = -1;
    for (int64_t i = 0; i < heads->count; i++)
        if (heads->scratch[i] >= 0.0 && (most < 0 || heads->scratch[i] > heads->scratch[most]))
            most = i;
    if (most >= 0)
        heads->scratch[most] = (double)NAN;
    return most;
}

/* A number of a row that may be unset, to be shown as missing. */
static double or_missing(double x) { return isnan(x) ? (double)NAN : x; }

/* Replaces infinite values by missing ones, for the table. */
static es_measured measured_or_missing(es_measured x)
{
    return (es_measured){or_missing(x.value), or_missing(x.se)};
}

/* Copies what the table shows of a head. */
static void fill_matter(const probe_head_row *from, probe_matter_row *to)
{
    to->domain = from->domain;
    to->layer = from->layer;
    to->head = from->head;
    to->class = from->class;
    to->moves = measured_or_missing(from->moves);
    to->relative_error = measured_or_missing(from->relative_error);
    to->rate_map = measured_or_missing(from->rate_map.rate);
    to->rate_map_exact = or_missing(from->rate_map_exact);
    to->ess_n = measured_or_missing(from->ess_n);
    if (!from->advice)
        return;
    to->advice = from->advice;
    to->random_error = or_missing(from->random_error);
    to->top_error = or_missing(from->top_error);
    to->top_random_error = or_missing(from->top_random_error);
}

es_status probe_sum_up_classes(es_job *job, const es_table *heads, double n, es_table *classes,
                               es_table *matter, es_error *err)
{
    head_rows all = {es_rows(heads, probe_head_row), es_table_rows(heads), NULL, false};
    ES_TRY(ES_JOB_NEW(job, all.scratch, all.count, err));
    for (int64_t i = 0; i < all.count; i++)
        all.advised = all.advised || all.rows[i].advice;
    for (int i = 0; i < ES_REGIMES; i++) {
        probe_class_row *r = es_rows_add(classes, probe_class_row);
        if (!r)
            return es_answer_status(job->answer, err);
        fill_class(&all, probe_classes_order[i], n, classes, r);
    }
    for (int64_t i = 0; i < all.count; i++)
        all.scratch[i] = all.rows[i].moves.value;
    for (int taken = 0; taken < PROBE_MATTER_MOST; taken++) {
        const int64_t from = next_of(&all);
        probe_matter_row *r = from < 0 ? NULL : es_rows_add(matter, probe_matter_row);
        if (!r)
            break;
        fill_matter(&all.rows[from], r);
    }
    return ES_OK;
}
