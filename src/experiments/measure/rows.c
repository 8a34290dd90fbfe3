/* rows.c : the numbers of all heads as tables and sentences. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/oracle.h"
#include "stats/average.h"
#include "table/table.h"
#include "theory/key_weights.h"

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"head", "head", "", ES_FORMAT_COUNT},
    {"scale", "scale", "", ES_FORMAT_REAL, "b of the weights w = exp(b q.k) / sum exp(b q.k)"},
    {"n", "n", "keys", ES_FORMAT_COUNT},
    {"queries", "queries", "", ES_FORMAT_COUNT},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL, "-sum w ln w, mean over queries",
     .error = "entropy_se"},
    {"perplexity", "perplexity", "keys", ES_FORMAT_REAL, "exp(entropy), mean over queries",
     .error = "perplexity_se"},
    {"ess", "ESS", "keys", ES_FORMAT_REAL,
     "effective number of keys 1 / sum w^2, mean over queries", .error = "ess_se"},
    {"sum_squares", "sum w^2", "", ES_FORMAT_REAL, "participation: mean over queries",
     .error = "sum_squares_se"},
    {"top_weight", "top weight", "", ES_FORMAT_REAL, "largest weight, mean over queries",
     .error = "top_weight_se"},
    {"top_mass", "top", "mass", ES_FORMAT_REAL, "mass of the k largest weights, mean over queries",
     .error = "top_mass_se", .each = true},
    {"lse", "lse", "nats", ES_FORMAT_REAL, "ln sum exp(b q.k), mean over queries",
     .error = "lse_se"},
    {"output_mean_norm", "|mean output|", "", ES_FORMAT_REAL,
     "norm of the mean output over queries", .error = "output_mean_norm_se"},
    {"output_cov_trace", "tr cov", "", ES_FORMAT_REAL,
     "trace of the covariance of the outputs over queries (divisor: queries)"},
    {"mean", "mean output", "", ES_FORMAT_REAL, "(dv), with --moments", .array = true},
    {"cov", "covariance of outputs", "", ES_FORMAT_REAL, "(dv, dv), with --moments", .array = true},
    {0}};
#define ROWS_VIEW                                                                                  \
    "Attention weights and outputs",                                                               \
        "head n ess entropy top_weight scale queries top_mass lse output_mean_norm "               \
        "output_cov_trace",                                                                        \
        "A standard error is the spread over queries / sqrt(queries). The queries share one set "  \
        "of keys: it says how well the mean over queries is known, not how other keys would do."
static const es_table_spec rows_table = {"rows", row_columns, ES_VIEW(ROWS_VIEW),
                                         .keys = "head scale n"};
/* Beside a verdict, which was asked for first. */
static const es_table_spec rows_aside = {
    "rows", row_columns, ES_VIEW(ROWS_VIEW, .only_with_full = true), .keys = "head scale n"};

static const es_column bar_columns[] = {
    {"head", "head", "", ES_FORMAT_COUNT},
    {"scale", "scale", "", ES_FORMAT_REAL, "b of the weights w = exp(b q.k) / sum exp(b q.k)"},
    {"n", "n", "keys", ES_FORMAT_COUNT},
    {"error_bar", "error bar", "", ES_FORMAT_SHORT,
     "root mean square distance of a query's output from that of infinitely many such keys, from "
     "blocks of keys; all columns are medians over the queries that can tell",
     .standing = ES_STANDING_HEURISTIC},
    {"error_bar_relative", "relative", "", ES_FORMAT_SHORT, "the same over the output's length"},
    {"error_bar_t", "t of 95 %", "", ES_FORMAT_SHORT,
     "a coordinate of the output is within t of its standard errors in 95 of 100 such contexts, "
     "the whole output within t error bars in at least as many"},
    {"error_bar_independent", "if independent", "", ES_FORMAT_SHORT,
     "the error bar were keys independent: root of sum w^2 |v - output|^2 / (1 - sum w^2)"},
    {"design_effect", "design effect", "", ES_FORMAT_SHORT,
     "sum over blocks of (N - Z output)^2 over sum w^2 |v - output|^2 (THEORY 9): how many times "
     "the "
     "variance of independent keys"},
    {"error_bar_told", "queries that can tell", "", ES_FORMAT_SHORT,
     "share with at least five effective blocks and an entropy above (3/4) ln n; for the others "
     "the largest weights decide, and one context cannot tell"},
    {0}};
static const es_table_spec bars_table = {
    "error_bars", bar_columns,
    ES_VIEW(
        "Error bars of outputs, from this one context", NULL,
        "Heuristic, to first order: right if blocks are long against what keys share with their "
        "neighbours.\n  Longer blocks whose bars grow say that they are not yet."),
    .keys = "head scale n"};

static const es_column layer_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"reach", "reach", "", ES_FORMAT_REAL, "|S| of the tokens, the norm of their covariance",
     .error = NULL},
    {"reach_error", "error of reach", "", ES_FORMAT_SHORT, "bound on its rounding"},
    {"trace", "trace", "", ES_FORMAT_REAL, "of S"},
    {"horizon", "H", "", ES_FORMAT_REAL, "the largest of its heads"},
    {"horizon_reason", "no H because", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_spec layers_table = {
    "layers", layer_columns,
    ES_VIEW("All heads together", "layer reach reach_error trace horizon", .only_with_full = true),
    .keys = "layer"};

static const es_column head_columns[] = {
    {"head", "head", "", ES_FORMAT_COUNT},
    {"horizon", "H", "", ES_FORMAT_REAL,
     "horizon b |Cov(q)^1/2 Cov(k)^1/2|, which is |S^1/2 A S^1/2| of the tokens that queries and "
     "keys are made from"},
    {"horizon_error", "error of H", "", ES_FORMAT_SHORT, "bound on its rounding"},
    {"horizon_unscaled", "H without b", "", ES_FORMAT_REAL},
    {"frobenius", "F", "", ES_FORMAT_REAL,
     "Frobenius norm of the same matrix; F^2 is the mean variance of the scores of queries around "
     "their mean"},
    {"score_sd", "score sd", "nats", ES_FORMAT_REAL,
     "root mean square over queries, as they are, of the standard deviation of their scores over "
     "the keys, to compare with sqrt(2 ln n)"},
    {"rate_horizon", "1/(2(1+H^2))", "", ES_FORMAT_REAL, "the exponent that the horizon stands for",
     .standing = ES_STANDING_CITED},
    {"horizon_one_sided", "one-sided H", "", ES_FORMAT_REAL, "|S^1/2 A|"},
    {"coupling", "coupling", "", ES_FORMAT_REAL, "Psi = reach x (one-sided H)^2, never below H^2"},
    {"rate_worst_case", "worst-case rate", "", ES_FORMAT_REAL, "1/(2(1+32 Psi))",
     .standing = ES_STANDING_CITED},
    {"rate_coupling", "coupling rate", "", ES_FORMAT_REAL,
     "1/(2(1+Psi)), between worst-case rate and 1/(2(1+H^2))", .standing = ES_STANDING_PROVED},
    {"horizon_reason", "no H because", "", ES_FORMAT_TEXT},
    {"n", "n", "keys", ES_FORMAT_COUNT, "the longest prefix"},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL, "-sum w ln w, mean over queries",
     .error = "entropy_se"},
    {"top_weight", "top weight", "", ES_FORMAT_REAL, "largest weight, mean over queries",
     .error = "top_weight_se"},
    {"top_mass", "top weight", "", ES_FORMAT_REAL,
     "the old name of top_weight: the largest weight, no mass of several", .error = "top_mass_se"},
    {"ess", "ESS", "keys", ES_FORMAT_REAL,
     "effective number of keys 1 / sum w^2, mean over queries", .error = "ess_se"},
    {"regime", "regime", "", ES_FORMAT_TEXT,
     "by 1/(mean sum w^2), by the mean ESS where a mask gives queries unequal numbers of keys: "
     "averaging (100 keys or more, or two thirds of them where n is below 150, "
     "share the weight), selective, single-key (fewer than 2)"},
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
    .inside = "layers",
    .nested = "heads",
    .keys = "head"};

static const es_column accuracy_columns[] = {
    {"rows", "rows checked", "per head", ES_FORMAT_COUNT},
    {"against", "against", "", ES_FORMAT_TEXT},
    {"output_relative_l2", "output error", "", ES_FORMAT_SHORT,
     "relative L2 error over the rows checked; the worst head and scale"},
    {"lse_abs", "lse error", "nats", ES_FORMAT_SHORT},
    {"entropy_abs", "entropy error", "nats", ES_FORMAT_SHORT},
    {0}};
static const es_table_spec accuracy_table = {
    "accuracy", accuracy_columns, ES_VIEW("Accuracy of this run", .only_with_full = true),
    .record = true};

/* Numbers of a head at scale and prefix `at`. */
static const double *numbers_of(const es_job *job, int64_t head, int64_t at)
{
    const measure_state *s = job->state;
    return es_job_numbers(job, MEASURE_ATTENTION, head) + at * s->numbers;
}

/* Where the first scale meets the longest prefix: what is said of a head as such. */
static const double *main_of(const es_job *job, int64_t head)
{
    return numbers_of(job, head, ((const measure_state *)job->state)->P - 1);
}

/* Under a mask queries see more or fewer keys, and a mean of sum w^2 would be that of the few which
 * see hardly any: of equal weights (ln n)/n, as if they were not. There the mean of ESS counts. */
static es_regime regime_of(const es_job *job, int64_t head)
{
    const measure_state *s = job->state;
    const double *x = main_of(job, head);
    es_regime_finding found;
    const double squares = measure_masked(s->p) ? 1.0 / x[MEASURE_ESS] : x[MEASURE_SUM_SQUARES];
    es_regime_of(measure_mean_seen(s, s->P - 1, NULL), x[MEASURE_TOP_WEIGHT], squares, &found);
    return found.regime;
}

/* ", at scale 0.25," where there are others. */
static const char *at_scale(const measure_state *s, char out[ES_FORMAT_ROOM])
{
    out[0] = '\0';
    if (s->S > 1)
        snprintf(out, ES_FORMAT_ROOM, ", at scale %.6g,", s->opts.scales[0]);
    return out;
}

/* ---- rows ---- */

static void put_row(const es_job *job, int64_t head, int64_t at, es_table *t)
{
    const measure_state *s = job->state;
    const double *x = numbers_of(job, head, at), *mass = x + MEASURE_NUMBERS;
    const int64_t row = es_table_row(t);
    es_put(t, row, {"head", (double)head}, {"scale", s->opts.scales[at / s->P]},
           {"n", (double)(s->opts.prefixes[at % s->P])},
           {"queries", (double)measure_queries(s, at % s->P)});
    for (int i = 0; i < MEASURE_STATISTICS; i++)
        es_table_real(t, row, measure_names[i], x[i]);
    for (int64_t k = 0; k < s->K; k++) {
        es_put_at(t, row, "top_mass", k, mass[k]);
        es_put_at(t, row, "top_mass_se", k, mass[s->K + k]);
    }
    if (s->p->moments) {
        es_table_array(t, row, "mean", mass + 2 * s->K, 0, s->dv);
        es_table_array(t, row, "cov", mass + 2 * s->K + s->dv, s->dv, s->dv);
    }
}

/* ---- error bars ---- */

static void put_bars(const es_job *job, es_answer *a)
{
    const measure_state *s = job->state;
    es_table *t = es_answer_table(a, &bars_table);
    for (int64_t head = 0; head < s->heads; head++)
        for (int64_t at = 0; at < s->S * s->P; at++) {
            const double *x = numbers_of(job, head, at) + MEASURE_FIRST_BAR;
            const int64_t row = es_table_row(t);
            es_put(t, row, {"head", (double)head}, {"scale", s->opts.scales[at / s->P]},
                   {"n", (double)(s->opts.prefixes[at % s->P])});
            for (int i = 0; i < MEASURE_BARS; i++)
                es_table_real(t, row, measure_bar_names[i], x[i]);
        }
}

/* Of the median head that can tell, at the first scale and the longest prefix. */
static es_status tell_bars(es_job *job, es_answer *a, es_error *err)
{
    const measure_state *s = job->state;
    char scale[ES_FORMAT_ROOM];
    double *values[3], told = 0.0;
    const int bars[3] = {MEASURE_BAR_RELATIVE, MEASURE_BAR_DESIGN, MEASURE_BAR_T};
    int64_t count = 0;
    for (int i = 0; i < 3; i++)
        ES_TRY(ES_JOB_NEW(job, values[i], s->heads, err));
    for (int64_t h = 0; h < s->heads; h++) {
        const double *x = main_of(job, h) + MEASURE_FIRST_BAR;
        told += x[MEASURE_BAR_TOLD] / (double)s->heads;
        if (isnan(x[MEASURE_BAR_RELATIVE]))
            continue;
        for (int i = 0; i < 3; i++)
            values[i][count] = x[bars[i]];
        count++;
    }
    for (int i = 0; i < 3; i++)
        es_sort_reals(values[i], count);
    const double relative = es_median_of(values[0], count);
    if (count)
        es_answer_add_finding(
            a,
            "In the median%s an output is %.3g %% of its length away from that of "
            "infinitely many such keys (root mean square), and below %.3g %% in at least "
            "95 of 100 such contexts; blocks of %lld keys vary %.3g times as much as "
            "independent keys would.",
            at_scale(s, scale), 100.0 * relative, 100.0 * relative * es_median_of(values[2], count),
            (long long)s->p->block, es_median_of(values[1], count));
    if (told < 1.0)
        es_answer_add_finding(
            a,
            "For %.3g %% of the queries%s one context cannot tell its error: fewer than "
            "five blocks decide, or an entropy below (3/4) ln n.",
            100.0 * (1.0 - told), at_scale(s, scale));
    return ES_OK;
}

/* ---- heads ---- */

/* All of it is linear in the score scale b; rates and coupling are those of THEORY 2. */
static void put_horizon(const measure_state *s, const measure_horizon *h, const char *reason,
                        es_table *t, int64_t row)
{
    const double b = s->opts.scales[0], H = b * h->horizon, one_sided = b * h->one_sided;
    const double coupling = s->reach.val * one_sided * one_sided;
    es_put(t, row, {"horizon", H}, {"horizon_error", b * h->horizon_error},
           {"horizon_unscaled", h->horizon}, {"frobenius", b * h->frobenius},
           {"score_sd", b * h->score_sd}, {"rate_horizon", 0.5 / (1.0 + H * H)});
    es_table_text(t, row, "horizon_reason", *reason ? reason : NULL);
    if (!s->p->tokens)
        return;
    es_put(t, row, {"horizon_one_sided", one_sided}, {"coupling", coupling},
           {"rate_worst_case", 0.5 / (1.0 + 32.0 * coupling)},
           {"rate_coupling", 0.5 / (1.0 + coupling)});
}

static void put_attention(const es_job *job, int64_t head, es_table *t, int64_t row)
{
    const measure_state *s = job->state;
    const double *x = main_of(job, head);
    es_put(t, row, {"n", (double)(s->opts.prefixes[s->P - 1])}, {"entropy", x[MEASURE_ENTROPY]},
           {"entropy_se", x[MEASURE_ENTROPY_SE]}, {"top_weight", x[MEASURE_TOP_WEIGHT]},
           {"top_weight_se", x[MEASURE_TOP_WEIGHT_SE]}, {"top_mass", x[MEASURE_TOP_WEIGHT]},
           {"top_mass_se", x[MEASURE_TOP_WEIGHT_SE]}, {"ess", x[MEASURE_ESS]},
           {"ess_se", x[MEASURE_ESS_SE]});
    es_table_text(t, row, "regime", es_regime_name(regime_of(job, head)));
}

/* A cell holds numbers only: where some are missing, why is found out once more. */
static es_status horizon_of(const es_job *job, int64_t head, measure_horizon *h,
                            char reason[MEASURE_REASON])
{
    const measure_state *s = job->state;
    reason[0] = '\0';
    if (job->stages[MEASURE_HORIZONS].cells)
        *h = *(const measure_horizon *)(const void *)es_job_numbers(job, MEASURE_HORIZONS, head);
    const bool whole = job->stages[MEASURE_HORIZONS].cells && !isnan(h->horizon) &&
                       !(s->p->tokens && isnan(h->one_sided));
    return whole ? ES_OK : measure_horizon_of(s, head, &job->exec, h, reason);
}

static es_status put_heads(const es_job *job, es_answer *a)
{
    const measure_state *s = job->state;
    es_table *layers = es_answer_table(a, &layers_table), *t = es_answer_table(a, &heads_table);
    const int64_t layer = es_table_row(layers);
    double largest = (double)NAN;
    char first[MEASURE_REASON] = ""; /* why the first head without a horizon has none */
    for (int64_t head = 0; head < s->heads; head++) {
        measure_horizon h;
        char reason[MEASURE_REASON];
        ES_TRY(horizon_of(job, head, &h, reason));
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "head", head);
        put_horizon(s, &h, reason, t, row);
        put_attention(job, head, t, row);
        largest = fmax(largest, s->opts.scales[0] * h.horizon);
        if (isnan(h.horizon) && !first[0])
            snprintf(first, sizeof first, "%s", reason);
    }
    es_table_count(layers, layer, "layer", 0);
    if (s->p->tokens) {
        es_put(layers, layer, {"reach", s->reach.val}, {"reach_error", s->reach.err},
               {"trace", s->trace});
    }
    es_table_real(layers, layer, "horizon", largest);
    es_table_text(layers, layer, "horizon_reason", first[0] ? first : NULL);
    return ES_OK;
}

/* ---- accuracy ---- */

static void put_accuracy(const es_job *job, es_answer *a)
{
    const measure_state *s = job->state;
    const bool f32 = s->opts.precision == ES_F32;
    const double unknown = s->checked_rows ? 0.0 : (double)NAN;
    double worst[3] = {0.0, 0.0, 0.0};
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t b = 0; b < s->S; b++)
            for (int i = 0; i < 3; i++)
                worst[i] = measure_worse(
                    numbers_of(job, h, b * s->P + s->P - 1)[MEASURE_CHECK_OUTPUT + i], worst[i]);
    es_table *t = es_answer_table(a, &accuracy_table);
    const int64_t row = es_table_row(t);
    es_table_count(t, row, "rows", s->checked_rows);
    es_table_text(t, row, "against",
                  !s->checked_rows ? "not checked: too long for the reference"
                  : f32            ? "f64 engine"
                                   : "f64 reference");
    es_put(t, row, {"output_relative_l2", worst[0] + unknown}, {"lse_abs", worst[1] + unknown},
           {"entropy_abs", worst[2] + unknown});
    if (s->checked_rows)
        es_answer_add_finding(
            a,
            "Outputs are right to %.2g (relative L2): %lld queries of each head were "
            "computed again by the %s.",
            worst[0], (long long)s->checked_rows, f32 ? "f64 engine" : "f64 reference");
    if (f32 && !(worst[0] <= 1e-4))
        es_log(ES_LOG_ERROR, "warning: outputs are off by %.2g (relative); use --precision f64",
               worst[0]);
}

/* ---- findings ---- */

/* Queries that do the same differ by rounding: that says nothing of how well a mean is known. */
static double told_error(double value, double se)
{
    return se > 1e-9 * fabs(value) ? se : (double)NAN;
}

/* "90 keys", or "the 45.5 keys that it sees in the mean". */
static const char *say_keys(const measure_state *s, char out[ES_FORMAT_ROOM])
{
    const int64_t n = s->opts.prefixes[s->P - 1];
    if (measure_masked(s->p))
        snprintf(out, ES_FORMAT_ROOM, "the %.4g keys that it sees in the mean",
                 measure_mean_seen(s, s->P - 1, NULL));
    else
        snprintf(out, ES_FORMAT_ROOM, "%lld key%s", (long long)n, n == 1 ? "" : "s");
    return out;
}

/* How many keys the heads really use. */
static es_status tell_keys(es_job *job, es_answer *a, es_error *err)
{
    const measure_state *s = job->state;
    const int64_t heads = s->heads;
    char scale[ES_FORMAT_ROOM], keys[ES_FORMAT_ROOM];
    double *ess, *top;
    int64_t fewest = 0, most = 0;
    if (heads == 1) {
        const double *x = main_of(job, 0);
        char used[ES_FORMAT_ROOM], weight[ES_FORMAT_ROOM];
        es_answer_add_finding(
            a, "A query%s uses %s of %s (ESS); its largest weight is %s.", at_scale(s, scale),
            es_format_number(ES_FORMAT_REAL, x[MEASURE_ESS],
                             told_error(x[MEASURE_ESS], x[MEASURE_ESS_SE]), used, sizeof used),
            say_keys(s, keys),
            es_format_number(ES_FORMAT_REAL, x[MEASURE_TOP_WEIGHT],
                             told_error(x[MEASURE_TOP_WEIGHT], x[MEASURE_TOP_WEIGHT_SE]), weight,
                             sizeof weight));
        return ES_OK;
    }
    ES_TRY(ES_JOB_NEW(job, ess, heads, err));
    ES_TRY(ES_JOB_NEW(job, top, heads, err));
    for (int64_t h = 0; h < heads; h++) {
        ess[h] = main_of(job, h)[MEASURE_ESS];
        top[h] = main_of(job, h)[MEASURE_TOP_WEIGHT];
        fewest = ess[h] < ess[fewest] ? h : fewest;
        most = ess[h] > ess[most] ? h : most;
    }
    es_sort_reals(ess, heads);
    es_sort_reals(top, heads);
    es_answer_add_finding(
        a,
        "Of %s a query%s uses %.3g in the median head (ESS), from %.3g in head %lld to "
        "%.3g in head %lld; its largest weight is %.3g in the median, %.3g to %.3g.",
        say_keys(s, keys), at_scale(s, scale), es_median_of(ess, heads), ess[0], (long long)fewest,
        ess[heads - 1], (long long)most, es_median_of(top, heads), top[0], top[heads - 1]);
    return ES_OK;
}

/* What they do with them. */
static es_status tell_regimes(es_job *job, es_answer *a, es_error *err)
{
    const measure_state *s = job->state;
    const double n = measure_mean_seen(s, s->P - 1, NULL), many = 1.0 / es_averages_squares(n);
    char scale[ES_FORMAT_ROOM];
    long long count[ES_REGIMES] = {0};
    double *entropy;
    ES_TRY(ES_JOB_NEW(job, entropy, s->heads, err));
    for (int64_t h = 0; h < s->heads; h++) {
        entropy[h] = main_of(job, h)[MEASURE_ENTROPY];
        count[regime_of(job, h)]++;
    }
    es_sort_reals(entropy, s->heads);
    es_answer_add_finding(
        a,
        "Of %lld heads%s %lld %s averaging (%.3g keys or more%s share the weight), %lld "
        "selective, %lld single-key (fewer than 2); the median entropy is %.3g nats, "
        "equal weights would have %.3g.",
        (long long)s->heads, at_scale(s, scale), count[ES_REGIME_AVERAGING],
        count[ES_REGIME_AVERAGING] == 1 ? "is" : "are", many,
        many < ES_AVERAGES_KEYS ? ", two thirds of them," : "", count[ES_REGIME_SELECTIVE],
        count[ES_REGIME_SINGLE_KEY], es_median_of(entropy, s->heads),
        measure_mean_seen(s, s->P - 1, log));
    return ES_OK;
}

/* ---- all of it ---- */

es_status measure_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const measure_state *s = job->state;
    const double seconds = es_seconds() - s->start;
    ES_TRY(measure_files_finish(job, err));
    if (s->p->compare)
        ES_TRY(compare_summarise(job, answer, err));
    ES_TRY(tell_keys(job, answer, err));
    if (s->heads > 1 && s->n > 1 && !s->p->compare)
        ES_TRY(tell_regimes(job, answer, err));
    es_table *rows = es_answer_table(answer, s->p->compare ? &rows_aside : &rows_table);
    ES_TRY(es_put_each(job, rows, "top_mass", s->p->top_k.reals, s->K, err));
    for (int64_t head = 0; head < s->heads; head++)
        for (int64_t at = 0; at < s->S * s->P; at++)
            put_row(job, head, at, rows);
    if (s->p->block) {
        put_bars(job, answer);
        ES_TRY(tell_bars(job, answer, err));
    }
    ES_TRY(put_heads(job, answer));
    put_accuracy(job, answer);
    es_answer_provenance_real(answer, "seconds", seconds);
    es_log(ES_LOG_INFO, "%.3g s, %.3g GF/s", seconds,
           1e-9 * (s->cost.flops - s->tokens.flops) / seconds);
    return ES_OK;
}
