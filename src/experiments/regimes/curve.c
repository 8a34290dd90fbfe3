/* SPDX-License-Identifier: Apache-2.0 */
/* curve.c : table "curve": the exact largest weight of one setting's keys against the inverse
 * temperature, from deep in the averaging regime to deep in the single-key regime. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/regimes/regimes.h"

/* The factor by which the curve passes the ends of the regimes. */
static const double BEYOND = 30.0;

/* A point of the curve. */
typedef struct curve_row {
    double dim, n, beta, top_weight, inverse_ess, averaging_beta, freezing_beta;
    const char *regime;
} curve_row;

static const es_column columns[] = {
    ES_COL(curve_row, dim, ES_FORMAT_COUNT, "dim", ""),
    ES_COL(curve_row, n, ES_FORMAT_COUNT, "n", "keys"),
    ES_COL(curve_row, beta, ES_FORMAT_SHORT, "beta", "", "inverse temperature"),
    ES_COL(curve_row, top_weight, ES_FORMAT_REAL, "largest weight", "",
           "its expectation for n keys, by quadrature", .standing = ES_STANDING_PROVED),
    ES_COL(curve_row, inverse_ess, ES_FORMAT_REAL, "sum of squares", "",
           "its expectation: 1 over the effective number of keys", .standing = ES_STANDING_PROVED),
    ES_COL(curve_row, averaging_beta, ES_FORMAT_SHORT, "averaging below", "beta",
           "largest beta at which 100 keys or more share the weight",
           .standing = ES_STANDING_PROVED),
    ES_COL(curve_row, freezing_beta, ES_FORMAT_SHORT, "single-key from", "beta",
           "beta from which on fewer than 2 keys share the weight", .standing = ES_STANDING_PROVED),
    ES_COL(curve_row, regime, ES_FORMAT_TEXT, "regime", "", "by the exact sum of squares"),
    {0}};
static const es_table_view views[] = {{"Largest weight against inverse temperature",
                                       "n beta top_weight inverse_ess", .only_with_full = true},
                                      {0}};
static const es_table_spec curve_table = {"curve", columns, views, ES_ROW(curve_row),
                                          .keys = "dim n beta"};

es_status regimes_fill_curve(es_job *job, es_answer *answer, const regimes_cell *cell,
                             double averages, double frozen, es_error *err)
{
    if (!(averages > 0.0 && frozen > averages && isfinite(frozen)))
        return ES_OK;
    es_table *t = es_answer_table(answer, &curve_table);
    const double low = log(averages / BEYOND), high = log(frozen * BEYOND);
    for (int i = 0; i < REGIMES_CURVE_LAWS; i++) {
        es_weights law;
        const double beta = exp(low + (high - low) * i / (REGIMES_CURVE_LAWS - 1));
        ES_TRY(es_weights_exact(&cell->keys, cell->n, beta, job->exec.budget, &law, err));
        curve_row *r = es_rows_add(t, curve_row);
        if (!r)
            return es_answer_status(answer, err);
        es_regime_finding found;
        es_regime_of((double)cell->n, law.top.val, law.squares.val, &found);
        *r = (curve_row){(double)cell->dim, (double)cell->n, beta,   law.top.val,
                         law.squares.val,   averages,        frozen, es_regime_name(found.regime)};
    }
    return ES_OK;
}
