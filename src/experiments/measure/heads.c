/* SPDX-License-Identifier: Apache-2.0 */
/* heads.c : tables of heads and layers: horizons, the rates they stand for, and regimes.
 *
 * Arrays have queries and keys, but not the tokens and weights they were made from. Where queries
 * and keys are linear in the tokens, b |Cov(q)^1/2 Cov(k)^1/2| with the score scale b equals
 * |S^1/2 A S^1/2| of the tokens (THEORY 2), because both are sqrt(lambda_max) of the same product.
 * Reach |S| and the one-sided horizon need the tokens themselves, so --tokens alone gives them. The
 * regime is a statement about the weights as they are: 1/(mean sum w^2) keys share them. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/measure.h"

/* ---- tables ---- */

/* All heads together; the arrays are one layer. */
typedef struct layer_row {
    int64_t layer;
    double reach, reach_error, trace; /* of tokens only */
    double horizon;
    const char *horizon_reason;
} layer_row;

static const es_column layer_columns[] = {
    ES_COL(layer_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(layer_row, reach, ES_FORMAT_REAL, "reach", "",
           "`|S|` of the tokens, the norm of their covariance"),
    ES_COL(layer_row, reach_error, ES_FORMAT_SHORT, "error of reach", "", "bound on its rounding"),
    ES_COL(layer_row, trace, ES_FORMAT_REAL, "trace", "", "of S"),
    ES_COL(layer_row, horizon, ES_FORMAT_REAL, "H", "", "the largest of its heads"),
    ES_COL(layer_row, horizon_reason, ES_FORMAT_TEXT, "no H because", ""),
    {0}};
static const es_table_spec layers_table = {
    "layers", layer_columns,
    ES_VIEW("All heads together", "layer reach reach_error trace horizon", .only_with_full = true),
    ES_ROW(layer_row), .keys = "layer"};

/* One head, at the first scale and the longest prefix. */
typedef struct head_row {
    int64_t head;
    double horizon, horizon_error, horizon_unscaled, frobenius, score_sd, rate_horizon;
    double horizon_one_sided, coupling, rate_worst_case, rate_coupling; /* of tokens only */
    const char *horizon_reason;
    int64_t n;
    es_measured entropy, top_weight, top_mass, ess;
    const char *regime;
} head_row;

static const es_column head_columns[] = {
    ES_COL(head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(head_row, horizon, ES_FORMAT_REAL, "H", "",
           "horizon `b |Cov(q)^1/2 Cov(k)^1/2|`, which is `|S^1/2 A S^1/2|` of the tokens that "
           "queries and keys are made from"),
    ES_COL(head_row, horizon_error, ES_FORMAT_SHORT, "error of H", "", "bound on its rounding"),
    ES_COL(head_row, horizon_unscaled, ES_FORMAT_REAL, "H without b", ""),
    ES_COL(head_row, frobenius, ES_FORMAT_REAL, "F", "",
           "Frobenius norm of the same matrix; `F^2` is the mean variance of the scores of queries "
           "around their mean"),
    ES_COL(head_row, score_sd, ES_FORMAT_REAL, "score sd", "nats",
           "root mean square over queries, as they are, of the standard deviation of their scores "
           "over the keys, to compare with `sqrt(2 ln n)`"),
    ES_COL(head_row, rate_horizon, ES_FORMAT_REAL, "1/(2(1+H^2))", "",
           "the exponent that the horizon stands for", .standing = ES_STANDING_CITED),
    ES_COL(head_row, horizon_one_sided, ES_FORMAT_REAL, "one-sided H", "", "`|S^1/2 A|`"),
    ES_COL(head_row, coupling, ES_FORMAT_REAL, "coupling", "",
           "`Psi` = reach x (one-sided H)^2, never below `H^2`"),
    ES_COL(head_row, rate_worst_case, ES_FORMAT_REAL, "worst-case rate", "", "`1/(2(1+32 Psi))`",
           .standing = ES_STANDING_CITED),
    ES_COL(head_row, rate_coupling, ES_FORMAT_REAL, "coupling rate", "",
           "`1/(2(1+Psi))`, between worst-case rate and `1/(2(1+H^2))`",
           .standing = ES_STANDING_PROVED),
    ES_COL(head_row, horizon_reason, ES_FORMAT_TEXT, "no H because", ""),
    ES_COL(head_row, n, ES_FORMAT_COUNT, "n", "keys", "the longest prefix"),
    ES_COL(head_row, entropy, ES_FORMAT_REAL, "entropy", "nats",
           "`-sum w ln w`, mean over queries"),
    ES_COL(head_row, top_weight, ES_FORMAT_REAL, "top weight", "",
           "largest weight, mean over queries"),
    ES_COL(head_row, top_mass, ES_FORMAT_REAL, "top weight", "",
           "the old name of top_weight: the largest weight, no mass of several"),
    ES_COL(head_row, ess, ES_FORMAT_REAL, "ESS", "keys",
           "effective number of keys `1 / sum w^2`, mean over queries"),
    ES_COL(head_row, regime, ES_FORMAT_TEXT, "regime", "",
           "by `1/(mean sum w^2)`, by the mean ESS where a mask gives queries unequal numbers of "
           "keys: averaging (100 keys or more, or two thirds of them where n is below 150, share "
           "the weight), selective, single-key (fewer than 2)"),
    {0}};
static const es_table_spec heads_table = {
    "heads",
    head_columns,
    ES_VIEW("Heads: horizons",
            "head regime horizon frobenius score_sd rate_horizon horizon_one_sided coupling "
            "rate_worst_case rate_coupling horizon_reason",
            "Covariances are those of the rows given (divisor: their number), the score scale b is "
            "the first one.",
            .only_with_full = true),
    ES_ROW(head_row),
    .inside = "layers",
    .nested = "heads",
    .keys = "head"};

/* ---- rows ---- */

/* Under a mask queries see unequal numbers of keys, and the mean of sum w^2 is dominated by those
 * that see few: (ln n)/n for equal weights, as if they were unequal. There the mean ESS counts. */
es_regime measure_regime(const es_job *job, int64_t head)
{
    const measure_state *s = job->state;
    const measure_numbers *x = measure_main(job, head);
    es_regime_finding found;
    const double squares = measure_masked(s->p) ? 1.0 / x->ess.value : x->sum_squares.value;
    es_regime_of(measure_mean_seen(s, s->P - 1, NULL), x->top_weight.value, squares, &found);
    return found.regime;
}

/* Fills the horizon and its rates (THEORY 2); all of it is linear in the score scale b. */
static void fill_horizon(const measure_state *s, const measure_horizon *h, head_row *r)
{
    const double b = s->opts.scales[0];
    r->horizon = b * h->horizon;
    r->horizon_error = b * h->horizon_error;
    r->horizon_unscaled = h->horizon;
    r->frobenius = b * h->frobenius;
    r->score_sd = b * h->score_sd;
    r->rate_horizon = 0.5 / (1.0 + r->horizon * r->horizon);
    if (!s->p->tokens)
        return;
    r->horizon_one_sided = b * h->one_sided;
    r->coupling = s->reach.val * r->horizon_one_sided * r->horizon_one_sided;
    r->rate_worst_case = 0.5 / (1.0 + 32.0 * r->coupling);
    r->rate_coupling = 0.5 / (1.0 + r->coupling);
}

/* Fills what attention does. */
static void fill_attention(const es_job *job, int64_t head, head_row *r)
{
    const measure_state *s = job->state;
    const measure_numbers *x = measure_main(job, head);
    r->n = s->opts.prefixes[s->P - 1];
    r->entropy = x->entropy;
    r->top_weight = r->top_mass = x->top_weight;
    r->ess = x->ess;
    if (!s->sinks)
        r->regime = es_regime_name(measure_regime(job, head));
}

/* Reads the horizon of a head. A cell holds numbers only: where one is missing, the head is
 * computed again for the reason. */
static es_status find_horizon(const es_job *job, int64_t head, measure_horizon *h,
                              char reason[MEASURE_REASON])
{
    const measure_state *s = job->state;
    reason[0] = '\0';
    if (job->stages[MEASURE_HORIZONS].cells) {
        *h = *(const measure_horizon *)es_job_cell(job, MEASURE_HORIZONS, head);
        if (!isnan(h->horizon) && !(s->p->tokens && isnan(h->one_sided)))
            return ES_OK;
    }
    return measure_horizon_of(s, head, &job->exec, h, reason);
}

es_status measure_add_heads(const es_job *job, es_answer *answer, es_error *err)
{
    const measure_state *s = job->state;
    es_table *layers = es_answer_table(answer, &layers_table);
    es_table *t = es_answer_table(answer, &heads_table);
    layer_row *layer = es_rows_add(layers, layer_row);
    if (!layer)
        return es_answer_status(answer, err);
    layer->layer = 0;
    layer->horizon = (double)NAN;
    if (s->p->tokens) {
        layer->reach = s->reach.val;
        layer->reach_error = s->reach.err;
        layer->trace = s->trace;
    }
    for (int64_t head = 0; head < s->heads; head++) {
        measure_horizon h;
        char reason[MEASURE_REASON];
        ES_TRY(find_horizon(job, head, &h, reason));
        head_row *r = es_rows_add(t, head_row);
        if (!r)
            return es_answer_status(answer, err);
        r->head = head;
        fill_horizon(s, &h, r);
        fill_attention(job, head, r);
        if (reason[0])
            r->horizon_reason = es_table_format(t, "%s", reason);
        layer->horizon = fmax(layer->horizon, r->horizon);
        if (isnan(h.horizon) && !layer->horizon_reason)
            layer->horizon_reason = r->horizon_reason;
    }
    return ES_OK;
}
