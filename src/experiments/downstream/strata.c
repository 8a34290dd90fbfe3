/* SPDX-License-Identifier: Apache-2.0 */
/* strata.c : table "strata": thirds of the heads by horizon, each thinned by itself.
 *
 * If the horizon H = |S^1/2 A S^1/2| of a head says how many tokens it needs, heads of a large H
 * must cost more when their keys are thinned. The excess is the paired difference to the third
 * with the smallest horizons, over the same texts. */
#include <math.h>

#include "base/error.h"
#include "experiments/downstream/downstream.h"
#include "experiments/kit/answer_kit.h"
#include "stats/average.h"
#include "stats/special.h"

/* A row of the table of strata: heads by horizon, thinned together. */
typedef struct stratum_row {
    downstream_asked asked;
    const char *stratum;
    int64_t heads;
    double horizon_low, horizon_high;
    downstream_cost cost;
    es_measured excess;
    double excess_p;
} stratum_row;

static const es_column columns[] = {
    DOWNSTREAM_ASKED_COLUMNS(stratum_row),
    ES_COL(stratum_row, stratum, ES_FORMAT_TEXT, "stratum", "",
           "heads in which keys are dropped: the third with the smallest horizons (fast), the "
           "middle third, the "
           "third with the largest (slow)"),
    ES_COL(stratum_row, heads, ES_FORMAT_COUNT, "heads", ""),
    ES_COL(stratum_row, horizon_low, ES_FORMAT_SHORT, "horizon from", "",
           "smallest and largest horizon among them"),
    ES_COL(stratum_row, horizon_high, ES_FORMAT_SHORT, "to", ""),
    DOWNSTREAM_COST_COLUMNS(stratum_row),
    ES_COL(stratum_row, excess, ES_FORMAT_REAL, "beyond fast", "",
           "KL, or 1 - cosine, less that of the fast stratum on the same texts; mean over texts"),
    ES_COL(stratum_row, excess_p, ES_FORMAT_SHORT, "p", "",
           "p-value of no difference, Student's t over texts; corrected for all rows by Holm"),
    {0}};
static const es_table_spec strata_table = {
    "strata", columns,
    ES_VIEW(
        "Keys dropped in one third of the heads, by horizon",
        "policy keep keys_asked stratum horizon_low horizon_high accuracy lost lost_p agreement "
        "kl cosine recall excess excess_p"),
    ES_ROW(stratum_row), .keys = "policy keep keys_asked stratum"};

/* Fills the mean difference of costs own - fast (texts), and the p-value of no difference.
 * Overwrites own with the differences. */
static void fill_excess(double *own, const double *fast, int64_t texts, stratum_row *r)
{
    for (int64_t i = 0; i < texts; i++)
        own[i] -= fast[i];
    r->excess = es_measured_mean(own, texts);
    r->excess_p = (double)NAN;
    if (r->excess.se > 0.0)
        r->excess_p = fmin(
            1.0, 2.0 * es_student_tail((double)texts - 1.0, fabs(r->excess.value) / r->excess.se));
}

/* Fills name, heads and range of horizons of stratum k. */
static void fill_heads(const downstream_state *s, const double *horizons, const int *strata, int k,
                       stratum_row *r)
{
    static const char *const names[DOWNSTREAM_STRATA] = {"fast", "middle", "slow"};
    r->stratum = names[k];
    r->heads = 0;
    r->horizon_low = INFINITY;
    r->horizon_high = -INFINITY;
    for (int64_t h = 0; h < s->heads; h++)
        if (strata[h] == k) {
            r->horizon_low = fmin(r->horizon_low, horizons[h]);
            r->horizon_high = fmax(r->horizon_high, horizons[h]);
            r->heads++;
        }
}

/* Compares slow with fast heads at one policy and amount; p-values are corrected. */
static void report_strata(const es_job *job, int64_t row, const stratum_row *rows, es_answer *a)
{
    const downstream_state *s = job->state;
    const stratum_row *slow = &rows[DOWNSTREAM_STRATA - 1];
    char where[DOWNSTREAM_SIZE], more[ES_SAY_SIZE];
    const char *verdict = !(slow->excess_p < 0.05)   ? "is not shown to cost more or less than"
                          : slow->excess.value > 0.0 ? "costs more than"
                                                     : "costs less than";
    es_answer_add_finding(
        a,
        "With %s, dropping keys in the third of the heads with the largest "
        "horizons %s in the third with the smallest: %s differs by %s (p = %.2g).",
        downstream_say_row(s, row, where), verdict, s->lab.embed ? "1 - cosine" : "KL",
        es_say_number(slow->excess.value, slow->excess.se, more), slow->excess_p);
}

/* Adds the strata of policy and amount r. fast, own (count) are for the costs of single texts. */
static es_status add_strata(es_job *job, int64_t r, const int *strata, double *fast, double *own,
                            es_table *t, es_error *err)
{
    const downstream_state *s = job->state;
    const double *horizons = es_job_numbers(job, DOWNSTREAM_HORIZONS, 0);
    for (int k = 0; k < DOWNSTREAM_STRATA; k++) {
        const int64_t setting = 1 + s->n_rows + r * DOWNSTREAM_STRATA + k;
        stratum_row *row = es_rows_add(t, stratum_row);
        if (!row)
            return es_answer_status(job->answer, err);
        downstream_fill_asked(job, setting, t, &row->asked);
        fill_heads(s, horizons, strata, k, row);
        ES_TRY(downstream_compare(job, setting, &row->cost, k ? own : fast, err));
        if (k)
            fill_excess(own, fast, s->count, row);
    }
    return ES_OK;
}

es_status downstream_put_strata(es_job *job, es_answer *answer, es_error *err)
{
    const downstream_state *s = job->state;
    const int64_t count = s->n_rows * DOWNSTREAM_STRATA;
    es_table *t = es_answer_table(answer, &strata_table);
    double *fast, *own;
    int *strata;
    ES_TRY(ES_JOB_NEW(job, strata, s->heads, err));
    ES_TRY(ES_JOB_NEW(job, fast, s->count, err));
    ES_TRY(ES_JOB_NEW(job, own, s->count, err));
    downstream_stratum(s, es_job_numbers(job, DOWNSTREAM_HORIZONS, 0), strata);
    for (int64_t r = 0; r < s->n_rows; r++)
        ES_TRY(add_strata(job, r, strata, fast, own, t, err));
    stratum_row *rows = es_rows(t, stratum_row);
    ES_TRY(DOWNSTREAM_CORRECT(job, rows, stratum_row, excess_p, count, err));
    ES_TRY(DOWNSTREAM_CORRECT(job, rows, stratum_row, cost.lost_p, count, err));
    if (s->n_rows)
        report_strata(job, downstream_middle(s), rows + downstream_middle(s) * DOWNSTREAM_STRATA,
                      answer);
    return ES_OK;
}
