/* SPDX-License-Identifier: Apache-2.0 */
/* far_rows.c : the tables far_heads and far_rows: how far each head is from the limit of many
 * independent far keys, exactly, as measured, and for Gaussian keys (THEORY 20). Columns that the
 * tables of encoders have (heads.c, curves.c) have their names. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/far_question.h"
#include "experiments/probe/question.h"
#include "stats/multiple.h"

#define EXACT                                                                                      \
    "root mean square distance of the output from its limit if far keys are independent, over "    \
    "the standard deviation of outputs at the longest n; corrected to first order for the finite " \
    "pool"
#define JACKKNIFE "; standard error by the jackknife over blocks and over parts of the pool"

/* Relative error that defines "tokens for 10 % error" and the effective context. */
#define TENTH 0.1

static const es_column row_columns[] = {
    ES_COL(probe_far_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(probe_far_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(probe_far_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(probe_far_row, n, ES_FORMAT_COUNT, "n", "keys", "queries see from 7/8 of this up to it"),
    ES_COL(probe_far_row, relative_error_exact, ES_FORMAT_REAL, "exact error", "", EXACT JACKKNIFE,
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_far_row, relative_error, ES_FORMAT_REAL, "measured", "",
           "the same of real outputs: their mean square distance from the mean over drawn far "
           "fields, and the exact square of the latter's distance from the limit" JACKKNIFE),
    ES_COL(probe_far_row, ratio, ES_FORMAT_REAL, "measured/exact", "",
           "ratio of the two mean squares: 1 if real far keys behave like independent "
           "ones" JACKKNIFE),
    ES_COL(probe_far_row, relative_error_predicted, ES_FORMAT_REAL, "Gaussian", "",
           "the exact error if scores and values of far keys were Gaussian, with the mean and "
           "covariance that they have at their distances; standard error over blocks",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_far_row, pool_error, ES_FORMAT_SHORT, "pool error", "",
           "root mean square error of the limit, by four parts of the pool, over the same standard "
           "deviation; where its square is more than half of the measured one the ratio is "
           "limited by the pool",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_far_row, relative_error_sampling, ES_FORMAT_SHORT, "first order", "",
           "the exact error to first order in the fluctuations of far sums",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_far_row, entropy, ES_FORMAT_REAL, "entropy", "nats", "of a query's weights, mean"),
    ES_COL(probe_far_row, ess, ES_FORMAT_REAL, "ESS", "keys",
           "effective number of keys of the typical query: exp of the mean logarithm"),
    ES_COL(probe_far_row, far_mass, ES_FORMAT_REAL, "far mass", "share", "weight on the far field"),
    ES_COL(probe_far_row, sink_mass, ES_FORMAT_REAL, "sink mass", "share",
           "weight on the first keys"),
    ES_COL(probe_far_row, local_mass, ES_FORMAT_REAL, "local", "share", "weight on the last keys"),
    ES_COL(probe_far_row, top_weight, ES_FORMAT_REAL, "top weight", "share", "largest weight"),
    {0}};
static const es_table_spec rows_table = {
    "far_rows", row_columns,
    ES_VIEW("Heads and their far field as contexts grow",
            "domain layer head n relative_error_exact relative_error ratio "
            "relative_error_predicted pool_error far_mass sink_mass local_mass",
            .only_with_full = true),
    ES_ROW(probe_far_row), .keys = "domain layer head n"};

static const es_column head_columns[] = {
    ES_COL(probe_far_head_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(probe_far_head_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(probe_far_head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(probe_far_head_row, class, ES_FORMAT_TEXT, "class", "",
           "averaging: 95 % interval of ESS at or above 100 (two thirds of n, if that is less); "
           "single-key: below 2; selective: between; undecided: it contains a cut-off"),
    ES_COL(probe_far_head_row, relative_error_exact, ES_FORMAT_REAL, "exact error", "",
           EXACT "; at the longest n", .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_far_head_row, relative_error, ES_FORMAT_REAL, "measured", "",
           "the same of real outputs"),
    ES_COL(probe_far_head_row, ratio, ES_FORMAT_REAL, "measured/exact", "",
           "mean square of real outputs' distance over the exact one, at the longest n"),
    ES_COL(probe_far_head_row, rate_map_exact, ES_FORMAT_REAL, "exact rate", "",
           "the exact error falls like n^-rate: slope over all n" JACKKNIFE,
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_far_head_row, rate_map, ES_FORMAT_REAL, "rate", "",
           "that of the measured error; none where a measured mean square is below 0"),
    ES_COL(probe_far_head_row, rate_map_predicted, ES_FORMAT_REAL, "Gaussian rate", "",
           "that of Gaussian keys", .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_far_head_row, tokens_for_tenth_sign, ES_FORMAT_TEXT, "bound", "",
           "<: fewer than the shortest n; >: more than the longest"),
    ES_COL(
        probe_far_head_row, tokens_for_tenth, ES_FORMAT_REAL, "tokens for 10 % error", "keys",
        "n from which on the exact error is at most a tenth; a line between logarithms" JACKKNIFE,
        .error = "tokens_for_tenth_error"),
    ES_COL(probe_far_head_row, effective_context, ES_FORMAT_REAL, "effective context", "keys",
           "the smallest window of last keys that, with the first ones, gives outputs within a "
           "tenth of their standard deviation, at the longest n; standard error by the jackknife "
           "over blocks"),
    ES_COL(probe_far_head_row, output_rms, ES_FORMAT_SHORT, "output spread", "",
           "standard deviation of outputs at the longest n: what errors are relative to"),
    ES_COL(probe_far_head_row, far_mass, ES_FORMAT_REAL, "far mass", "share",
           "weight on the far field at the longest n"),
    ES_COL(probe_far_head_row, sink_mass, ES_FORMAT_REAL, "sink mass", "share",
           "weight on the first keys"),
    ES_COL(probe_far_head_row, ess_n, ES_FORMAT_REAL, "ESS at n", "keys",
           "effective number of keys of the typical query at the longest n"),
    {0}};
static const es_table_view head_views[] = {
    {"Heads: convergence to the limit of their far field",
     "domain layer head class relative_error_exact ratio rate_map_exact rate_map_predicted "
     "tokens_for_tenth_sign tokens_for_tenth effective_context"},
    {"Heads: how many keys count", "domain layer head ess_n far_mass sink_mass rate_map output_rms",
     .only_with_full = true},
    {0}};
static const es_table_spec heads_table = {"far_heads", head_columns, head_views,
                                          ES_ROW(probe_far_head_row), .keys = "domain layer head"};

/* ---- numbers ---- */

/* Sums of a row of cells over all blocks. */
typedef struct sums {
    double exact, measured, gaussian, sampling, pool;
} sums;

double probe_far_without(const double *x, int count, int without)
{
    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += i == without ? 0.0 : x[i];
    return sum / (without < 0 ? count : count - 1);
}

static sums sums_of(const probe_far_head *h, int64_t size, probe_far_left left)
{
    sums s = {0};
    for (int64_t b = 0; b < h->blocks; b++) {
        const es_far_cell *c = probe_far_cell(h, b, size);
        if (b == left.block)
            continue;
        s.exact += probe_far_without(c->exact_part, ES_FAR_PARTS, left.part);
        s.measured += probe_far_without(c->apart, ES_FAR_PAIRS, left.pair) +
                      probe_far_without(c->bias_part, ES_FAR_PARTS, left.part);
        s.gaussian += c->gaussian;
        s.sampling += c->sampling;
        s.pool += c->pool_error;
    }
    return s;
}

/* Returns the sum over blocks of what errors are relative to: the spread at the longest n. */
static double spread_of(const probe_far_head *h, probe_far_left left)
{
    double sum = 0.0;
    for (int64_t b = 0; b < h->blocks; b++)
        sum += b == left.block ? 0.0 : probe_far_cell(h, b, h->far->spec.sizes - 1)->spread;
    return sum;
}

/* Returns the exact root mean square distance from the limit, over the spread of outputs at the
 * longest n. */
static double exact_error(const probe_far_head *h, int64_t size, probe_far_left left)
{
    return sqrt(sums_of(h, size, left).exact / spread_of(h, left));
}

/* Returns that of real outputs. */
static double real_error(const probe_far_head *h, int64_t size, probe_far_left left)
{
    return sqrt(fmax(sums_of(h, size, left).measured, 0.0) / spread_of(h, left));
}

/* Returns that of Gaussian keys. */
static double gaussian_error(const probe_far_head *h, int64_t size, probe_far_left left)
{
    return sqrt(sums_of(h, size, left).gaussian / spread_of(h, left));
}

double probe_far_ratio(const probe_far_head *h, int64_t size, probe_far_left left)
{
    const sums s = sums_of(h, size, left);
    return s.measured / s.exact;
}

/* Returns the slope of ln error on ln n, with the sign of a rate. */
static double slope(const probe_far_head *h, probe_far_statistic error, probe_far_left left)
{
    const es_far_spec *spec = &h->far->spec;
    double x[ES_FAR_MOST], y[ES_FAR_MOST];
    for (int64_t s = 0; s < spec->sizes; s++) {
        const double e = error(h, s, left);
        x[s] = log((double)spec->size[s]);
        y[s] = e > 0.0 ? log(e) : (double)NAN;
    }
    return spec->sizes > 1 ? -es_measured_slope(x, y, spec->sizes).value : (double)NAN;
}

static double exact_rate(const probe_far_head *h, int64_t size, probe_far_left left)
{
    (void)size; /* of all */
    return slope(h, exact_error, left);
}

static double measured_rate(const probe_far_head *h, int64_t size, probe_far_left left)
{
    (void)size;
    return slope(h, real_error, left);
}

static double gaussian_rate(const probe_far_head *h, int64_t size, probe_far_left left)
{
    (void)size;
    return slope(h, gaussian_error, left);
}

/* Returns ln n where the exact error falls to a tenth for good; -inf: before the shortest n; inf:
 * after the longest. */
static double log_tenth(const probe_far_head *h, int64_t size, probe_far_left left)
{
    const es_far_spec *spec = &h->far->spec;
    int64_t s = spec->sizes - 1;
    double above, below = exact_error(h, s, left);
    (void)size;
    if (!(below <= TENTH))
        return (double)INFINITY;
    for (; s > 0; s--, below = above) {
        above = exact_error(h, s - 1, left);
        if (above <= TENTH)
            continue;
        const double low = log((double)spec->size[s - 1]), high = log((double)spec->size[s]);
        return low + (high - low) * log(above / TENTH) / log(above / below);
    }
    return -(double)INFINITY;
}

/* ---- errors ---- */

probe_far_errors probe_far_errors_of(const probe_far_head *h, int64_t size, probe_far_statistic of)
{
    const probe_far_left all = {-1, -1, -1};
    const double value = of(h, size, all);
    double pairs[ES_FAR_PAIRS], parts[ES_FAR_PARTS];
    for (int64_t b = 0; b < h->blocks; b++)
        h->more[b] = of(h, size, (probe_far_left){b, -1, -1});
    for (int p = 0; p < ES_FAR_PAIRS; p++)
        pairs[p] = of(h, size, (probe_far_left){-1, -1, p});
    for (int p = 0; p < ES_FAR_PARTS; p++)
        parts[p] = of(h, size, (probe_far_left){-1, p, -1});
    return (probe_far_errors){value, es_jackknife(value, h->more, h->blocks).se,
                              es_jackknife(value, pairs, ES_FAR_PAIRS).se,
                              es_jackknife(value, parts, ES_FAR_PARTS).se};
}

/* Returns a statistic with the standard error of all that is left out together. */
static es_measured measure(const probe_far_head *h, int64_t size, probe_far_statistic of)
{
    const probe_far_errors e = probe_far_errors_of(h, size, of);
    return (es_measured){e.value,
                         sqrt(e.blocks * e.blocks + e.pairs * e.pairs + e.parts * e.parts)};
}

/* ---- rows ---- */

/* Fills the row of a head at one size. */
static void fill(const probe_far_head *h, int64_t s, probe_far_row *r)
{
    const probe_far_left all = {-1, -1, -1};
    const sums sum = sums_of(h, s, all);
    r->domain = h->name;
    r->layer = h->layer;
    r->head = h->head;
    r->n = h->far->spec.size[s];
    r->relative_error_exact = measure(h, s, exact_error);
    r->relative_error = measure(h, s, real_error);
    r->ratio = measure(h, s, probe_far_ratio);
    r->relative_error_predicted = measure(h, s, gaussian_error);
    r->relative_error_sampling = sqrt(sum.sampling / spread_of(h, all));
    r->pool_error = sqrt(sum.pool / spread_of(h, all));
    r->entropy = probe_far_real(h, s, ES_FAR_ENTROPY);
    r->ess = probe_exp(probe_far_real(h, s, ES_FAR_LOG_ESS));
    r->far_mass = probe_far_real(h, s, ES_FAR_FAR);
    r->sink_mass = probe_far_real(h, s, ES_FAR_SINK);
    r->local_mass = probe_far_real(h, s, ES_FAR_NEAR);
    r->top_weight = probe_far_real(h, s, ES_FAR_TOP);
}

/* Fills the n at which the exact error falls to a tenth, or the end of the grid that it lies
 * beyond. */
static void fill_tenth(const probe_far_head *h, probe_far_head_row *r)
{
    const es_far_spec *spec = &h->far->spec;
    const es_measured tenth = measure(h, spec->sizes - 1, log_tenth);
    r->tokens_for_tenth_sign = isfinite(tenth.value) ? "" : tenth.value > 0.0 ? ">" : "<";
    r->tokens_for_tenth = probe_exp(tenth);
    if (!isfinite(tenth.value))
        r->tokens_for_tenth =
            (es_measured){(double)spec->size[tenth.value > 0.0 ? spec->sizes - 1 : 0], (double)NAN};
}

/* Fills the row of a head from that of its longest n. */
static void fill_head(const probe_far_head *h, const probe_far_row *last, probe_far_head_row *r)
{
    const int64_t size = h->far->spec.sizes - 1;
    const probe_far_cells cells = probe_far_cells_of(h);
    const probe_far_at at = {.row = size, .n = last->n, .error = TENTH};
    const es_measured log_ess = probe_far_real(h, size, ES_FAR_LOG_ESS);
    r->domain = h->name;
    r->layer = h->layer;
    r->head = h->head;
    r->class = es_regime_name(probe_concentration_of(log_ess, (double)last->n, h->blocks));
    r->relative_error_exact = last->relative_error_exact;
    r->relative_error = last->relative_error;
    r->ratio = last->ratio;
    r->rate_map_exact = measure(h, size, exact_rate);
    r->rate_map = measure(h, size, measured_rate);
    r->rate_map_predicted = measure(h, size, gaussian_rate);
    fill_tenth(h, r);
    r->effective_context =
        probe_exp(probe_far_measured(&cells, &at, PROBE_FAR_LOG_CONTEXT, h->scratch));
    r->output_rms = sqrt(spread_of(h, (probe_far_left){-1, -1, -1}) / (double)h->blocks);
    r->far_mass = last->far_mass;
    r->sink_mass = last->sink_mass;
    r->ess_n = last->ess;
}

double probe_far_pool_share(const probe_far_head *h)
{
    const sums s = sums_of(h, h->far->spec.sizes - 1, (probe_far_left){-1, -1, -1});
    return s.pool / fmax(s.measured, 1e-6 * s.pool); /* finite where it is 0 or less */
}

es_status probe_far_put_rows(probe_far_summary *m, es_error *err)
{
    es_table *classes = es_answer_table(m->answer, &probe_far_classes_table);
    es_table *ratios = es_answer_table(m->answer, &probe_far_ratios_table);
    es_table *heads = es_answer_table(m->answer, &heads_table);
    es_table *table = es_answer_table(m->answer, &rows_table);
    for (int64_t i = 0; i < m->count; i++) {
        probe_far_row *r = NULL;
        for (int64_t s = 0; s < m->far->spec.sizes; s++) {
            r = es_rows_add(table, probe_far_row);
            if (!r)
                return es_answer_status(m->answer, err);
            fill(&m->heads[i], s, r);
        }
        probe_far_head_row *h = es_rows_add(heads, probe_far_head_row);
        if (!h)
            return es_answer_status(m->answer, err);
        fill_head(&m->heads[i], r, h);
    }
    ES_TRY(probe_far_put_classes(m, heads, classes, err));
    return probe_far_put_ratios(m, heads, table, ratios, err);
}
