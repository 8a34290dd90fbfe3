/* SPDX-License-Identifier: Apache-2.0 */
/* agreement.c : the table `agreement`: exact errors against simulation. */
#include <math.h>

#include "experiments/sparse/sparse.h"
#include "stats/average.h"

/* A row of the table that compares exact errors with draws: z_rms is 1 if they agree. */
typedef struct agreement_row {
    const char *policy;
    int64_t keys, heads;
    es_measured ratio;
    double z_rms, first_order_ratio, first_order_low, first_order_high;
} agreement_row;

static const es_column agreement_columns[] = {
    ES_COL(agreement_row, policy, ES_FORMAT_TEXT, "policy", ""),
    ES_COL(agreement_row, keys, ES_FORMAT_COUNT, "keys", "keys"),
    ES_COL(agreement_row, heads, ES_FORMAT_COUNT, "heads", ""),
    ES_COL(agreement_row, ratio, ES_FORMAT_REAL, "measured/exact", "",
           "of mean square errors, mean over heads"),
    ES_COL(agreement_row, z_rms, ES_FORMAT_SHORT, "z", "errors",
           "root mean square over heads of (measured - exact) in standard errors: near 1 if they "
           "agree"),
    ES_COL(agreement_row, first_order_ratio, ES_FORMAT_SHORT, "first order/exact", "",
           "median over heads", .standing = ES_STANDING_HEURISTIC),
    ES_COL(agreement_row, first_order_low, ES_FORMAT_SHORT, "lowest", "", "of that ratio"),
    ES_COL(agreement_row, first_order_high, ES_FORMAT_SHORT, "highest", "", "of that ratio"),
    {0}};
static const es_table_spec agreement_table = {
    "agreement", agreement_columns,
    ES_VIEW("Exact errors against simulation, for policies with random keys", NULL,
            "The exact error is an integral, the measured one a mean over draws; they share no "
            "code.",
            .only_with_full = true),
    ES_ROW(agreement_row), .keys = "policy keys"};

/* Adds the row of a plan, if a head has both errors. `scratch` has (places) numbers. */
static void add_plan(const sparse_state *s, const sparse_row *rows, int64_t plan, double *scratch,
                     es_table *t)
{
    es_measured ratio = {0};
    double z2 = 0.0;
    int64_t heads = 0, known = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        const sparse_row *r = &rows[i * s->n_plans + plan];
        if (!(r->mse.se > 0.0 && r->mse_exact.value > 0.0))
            continue;
        ratio.value += r->mse.value / r->mse_exact.value;
        ratio.se = hypot(ratio.se, r->mse.se / r->mse_exact.value);
        z2 += r->z * r->z;
        heads++;
        if (isfinite(r->first_order))
            scratch[known++] = r->first_order / r->mse_exact.value;
    }
    agreement_row *out = heads ? es_rows_add(t, agreement_row) : NULL;
    if (!out)
        return;
    const double count = (double)heads;
    const sparse_plan *about = &s->plans[plan];
    out->policy = es_table_format(t, "%s", about->word);
    out->keys = about->keys ? about->keys : (int64_t)round(rows[plan].kept);
    out->heads = heads;
    out->ratio = (es_measured){ratio.value / count, ratio.se / count};
    out->z_rms = sqrt(z2 / count);
    if (known == 0)
        return;
    es_sort_reals(scratch, known);
    out->first_order_ratio = es_median_of(scratch, known);
    out->first_order_low = scratch[0];
    out->first_order_high = scratch[known - 1];
}

void sparse_put_agreement(const sparse_state *s, const sparse_row *rows, double *scratch,
                          es_answer *answer)
{
    es_table *t = es_answer_table(answer, &agreement_table);
    for (int64_t k = 0; k < s->n_plans; k++)
        add_plan(s, rows, k, scratch, t);
}
