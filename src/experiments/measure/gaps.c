/* SPDX-License-Identifier: Apache-2.0 */
/* gaps.c : critical inverse temperatures of a head's rows of scores (THEORY 21), and how they grow
 * with the number of keys.
 *
 * A row of scores is selective where L_8 is below 1: groups of 8 keys and more have separated. It
 * averages where L_8 is above 1, until the scores are multiplied by L_8. Which power of ln n the
 * score scale would have to grow with, so that a head stays as selective at longer contexts, is the
 * growth of L_8 from the first sixteenth of the keys to all. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/measure.h"
#include "stats/average.h"
#include "theory/gap_count.h"

enum {
    QUERIES = 64,  /* of a head, spaced evenly */
    SINKS = 4,     /* first keys, which are left out in a second count */
    FEWEST = 64,   /* keys of the shortest row that is counted */
    MOST = 1 << 18 /* and of the longest: a row is held and sorted */
};

const es_cell_field measure_gap_fields[] = {
    ES_FIELD(measure_gaps, queries),   ES_FIELD(measure_gaps, keys),
    ES_FIELD(measure_gaps, median),    ES_FIELD(measure_gaps, lower),
    ES_FIELD(measure_gaps, upper),     ES_FIELD(measure_gaps, without_sinks),
    ES_FIELD(measure_gaps, top_least), ES_FIELD(measure_gaps, top_most),
    ES_FIELD(measure_gaps, growth),    {0}};

/* ---- one row ---- */

/* A head whose rows are counted. */
typedef struct gap_work {
    const measure_state *s;
    es_view q, k;
    double *query, *key; /* (d) */
    double *scores;      /* (n) */
    double *sorted;      /* (n) */
} gap_work;

/* Numbers of the rows of a head. */
typedef struct gap_numbers {
    double all[QUERIES], others[QUERIES]; /* L_8, and without the first keys */
    double least[QUERIES], most[QUERIES]; /* bounds of the largest weight */
    double growth[QUERIES];               /* of the rows that have one */
} gap_numbers;

/* Computes the scores of a query with the first `keys` keys, as attention uses them. */
static void scores_of(gap_work *w, int64_t query, int64_t keys)
{
    const double cap = w->s->opts.score_cap, scale = w->s->opts.scales[0];
    es_view_read_row(&w->q, query, w->query);
    for (int64_t j = 0; j < keys; j++) {
        double dot = 0.0;
        es_view_read_row(&w->k, j, w->key);
        for (int64_t c = 0; c < w->s->d; c++)
            dot += w->query[c] * w->key[c];
        w->scores[j] = cap > 0.0 ? cap * tanh(scale * dot / cap) : scale * dot;
    }
}

/* Counts the gaps of the scores of keys first .. end - 1. */
static es_gap_count count_of(gap_work *w, int64_t first, int64_t end)
{
    for (int64_t j = first; j < end; j++)
        w->sorted[j - first] = w->scores[j];
    return es_gap_count_of(w->sorted, end - first, ES_GAP_GROUP);
}

/* ---- a head ---- */

/* Returns the first query that is counted: under a causal mask those of the second half, which see
 * at least half of the keys. */
static int64_t first_query(const measure_state *s)
{
    const int64_t half = s->n / 2 - measure_shift(s);
    return s->p->causal && half > 0 ? half : 0;
}

bool measure_counts_gaps(const measure_state *s)
{
    return !s->p->window && !s->p->compare && s->n >= FEWEST && s->n <= MOST &&
           first_query(s) < s->m;
}

/* A row is a product in f64, counted twice as in horizon.c, and three sorts. */
double measure_gap_flops(const measure_state *s)
{
    const int64_t left = s->m - first_query(s), rows = left < QUERIES ? left : QUERIES;
    return (double)rows * (double)s->n * (4.0 * (double)s->d + 500.0);
}

double measure_gap_bytes(const measure_state *s) { return 16.0 * (double)(s->n + s->d); }

/* Sorts `count` numbers and returns their median. */
static double median_of(double *x, int64_t count)
{
    es_sort_reals(x, count);
    return es_median_of(x, count);
}

/* Fills medians and quartiles from the numbers of `count` rows, which are sorted here. */
static void fill_quartiles(gap_numbers *x, int64_t count, measure_gaps *out)
{
    out->queries = (double)count;
    out->median = median_of(x->all, count);
    out->lower = x->all[count / 4];
    out->upper = x->all[count - 1 - count / 4];
    out->without_sinks = median_of(x->others, count);
    out->top_least = median_of(x->least, count);
    out->top_most = median_of(x->most, count);
}

/* Counts the rows of some queries. The growth of a row is ln(L(n)/L(n/16)) / ln(ln n/ln(n/16)); no
 * row has one below 16 * ES_GAP_GROUP keys. */
static void count_rows(gap_work *w, gap_numbers *x, measure_gaps *out)
{
    const measure_state *s = w->s;
    const int64_t first = first_query(s), left = s->m - first;
    const int64_t count = left < QUERIES ? left : QUERIES;
    int64_t grown = 0;
    double seen = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t query = first + i * left / count;
        const int64_t keys = measure_seen(s, query, s->P - 1), some = keys / 16;
        scores_of(w, query, keys);
        seen += (double)keys / (double)count;
        const es_gap_count row = count_of(w, 0, keys);
        x->all[i] = row.critical;
        x->least[i] = es_gap_top_least(&row, 1.0);
        x->most[i] = es_gap_top_most(&row, 1.0);
        x->others[i] = count_of(w, SINKS, keys).critical;
        if (some < ES_GAP_GROUP)
            continue;
        const double power =
            es_gap_power(count_of(w, 0, some).critical, row.critical, (double)some, (double)keys);
        if (isfinite(power))
            x->growth[grown++] = power;
    }
    out->keys = seen;
    out->growth =
        grown ? es_measured_mean(x->growth, grown) : (es_measured){(double)NAN, (double)NAN};
    fill_quartiles(x, count, out);
}

/* Allocates the work of a head in the arena. */
static es_status work_new(const measure_state *s, int64_t head, es_arena *arena, gap_work *out,
                          es_error *err)
{
    es_view v[3];
    measure_views(s, head, v);
    *out = (gap_work){.s = s, .q = v[MEASURE_Q], .k = v[MEASURE_K]};
    ES_TRY(ES_ARENA_NEW(arena, out->query, s->d, "a query", err));
    ES_TRY(ES_ARENA_NEW(arena, out->key, s->d, "a key", err));
    ES_TRY(ES_ARENA_NEW(arena, out->scores, s->n, "scores", err));
    return ES_ARENA_NEW(arena, out->sorted, s->n, "sorted scores", err);
}

es_status measure_count_gaps(es_job *job, int64_t head, const es_exec *exec, void *record,
                             es_error *err)
{
    es_arena arena = {.budget = exec->budget};
    gap_work w;
    gap_numbers x;
    const es_status status = work_new(job->state, head, &arena, &w, err);
    if (status == ES_OK)
        count_rows(&w, &x, record);
    es_arena_free(&arena);
    return status;
}

/* ---- table ---- */

/* One head. */
typedef struct gap_row {
    int64_t head, queries;
    double keys, median, lower, upper, without_sinks, top_least, top_most;
    es_measured growth;
    double normal_growth;
} gap_row;

static const es_column gap_columns[] = {
    ES_COL(gap_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(gap_row, queries, ES_FORMAT_COUNT, "queries", "", "spaced evenly; causal: late ones"),
    ES_COL(gap_row, keys, ES_FORMAT_SHORT, "keys", "keys", "that they see, mean"),
    ES_COL(gap_row, median, ES_FORMAT_REAL, "critical scale", "",
           "`L_8 = sup ln N(g)/g` over gaps g from the largest score with `N(g) >= 8` keys, median "
           "over queries. Below 1 groups of keys have separated",
           .standing = ES_STANDING_PROVED),
    ES_COL(gap_row, lower, ES_FORMAT_REAL, "lower quartile", "", "over queries"),
    ES_COL(gap_row, upper, ES_FORMAT_REAL, "upper quartile", "", "over queries"),
    ES_COL(gap_row, without_sinks, ES_FORMAT_REAL, "without first 4 keys", "", "median"),
    ES_COL(gap_row, top_least, ES_FORMAT_REAL, "top weight, at least", "",
           "bound of the largest weight from the gaps, without a learned sink: `1/(8 + 1/(1 - "
           "L_8))` for `L_8 < 1` and 0 otherwise, median over queries",
           .standing = ES_STANDING_PROVED),
    ES_COL(gap_row, top_most, ES_FORMAT_REAL, "at most", "",
           "bound of the largest weight: `N(g*)^(1/L_8 - 1)` for `L_8 > 1` and 1 otherwise, median "
           "over queries",
           .standing = ES_STANDING_PROVED),
    ES_COL(gap_row, growth, ES_FORMAT_REAL, "power of ln n", "",
           "growth of the critical scale from the first sixteenth of the keys to all, mean over "
           "queries. Exponential tails: about 0, because attention stays as selective. None below "
           "128 keys"),
    ES_COL(gap_row, normal_growth, ES_FORMAT_SHORT, "normal scores", "",
           "the power that typical normal scores would show over these keys; 1/2 in the limit",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec gaps_table = {
    "gaps", gap_columns,
    ES_VIEW("Critical score scales",
            "head queries keys median lower upper without_sinks top_least top_most growth "
            "normal_growth",
            "Scales are multiples of the present one.", .only_with_full = true),
    ES_ROW(gap_row), .keys = "head"};

/* Returns the power that normal scores would show; NaN where no growth is measured either. */
static double normal_growth(int64_t keys)
{
    const int64_t some = keys / 16;
    return some < ES_GAP_GROUP ? (double)NAN : es_gap_normal_power(some, keys, ES_GAP_GROUP);
}

es_status measure_add_gaps(const es_job *job, es_answer *a, es_error *err)
{
    const measure_state *s = job->state;
    es_table *t = es_answer_table(a, &gaps_table);
    for (int64_t head = 0; head < s->heads; head++) {
        const measure_gaps *x = es_job_cell(job, MEASURE_GAPS, head);
        gap_row *r = es_rows_add(t, gap_row);
        if (!r)
            return es_answer_status(a, err);
        *r = (gap_row){.head = head,
                       .queries = (int64_t)x->queries,
                       .keys = x->keys,
                       .median = x->median,
                       .lower = x->lower,
                       .upper = x->upper,
                       .without_sinks = x->without_sinks,
                       .top_least = x->top_least,
                       .top_most = x->top_most,
                       .growth = x->growth,
                       .normal_growth = normal_growth((int64_t)x->keys)};
    }
    return ES_OK;
}
