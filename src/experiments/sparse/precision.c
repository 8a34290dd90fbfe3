/* SPDX-License-Identifier: Apache-2.0 */
/* precision.c : the tables `types` and `precision`: what rounding does to outputs, the first-order
 * risk beside it, and what it costs in keys (THEORY 18).
 *
 * Rounding is deterministic, so that its error is a number per query. First order takes rounding
 * errors of different keys as uncorrelated,
 *
 *     E|dy|^2 = sum w^2 (ds^2 |v - y|^2 + |dv|^2)                                           (Q2)
 *
 * and prices keys likewise: keeping each with probability p, weights over p, has the risk
 * (1/p - 1) sum w^2 |v - y|^2. For keys that are rounded alone that is dropping 1 - 1/(1 + s^2) of
 * them, s their score noise (Q3). The exact price is the share of keys whose random loss has the
 * mean square error that was measured, by the integral of THEORY 13. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/sparse/sparse.h"
#include "stats/average.h"
#include "table/table.h"

/* Score noise above which first order is called unreliable. */
static const double LARGE_NOISE = 0.3;

#define MEMBER(member) offsetof(sparse_cache_cell, member)

/* ---- statistics of one head under one type ---- */

/* A head and a type; or all heads, with the statistic whose median is taken. */
typedef struct subject {
    int64_t place, type;
    sparse_statistic *of;
    double *scratch; /* (places) */
} subject;

/* Returns the row of a type with every key kept, and that of the first share. */
static int64_t type_row(const sparse_state *s, int64_t type)
{
    const sparse_cache *c = &s->cache;
    return c->n_types * c->n_policies * c->n_keys + type;
}

static double mean_of(const es_job *job, const subject *x, size_t member, int64_t left_out)
{
    return sparse_cache_ratio(job, x->place, type_row(job->state, x->type), member, SIZE_MAX,
                              left_out);
}

static double square_of(const es_job *job, const void *user, int64_t left_out)
{
    return mean_of(job, user, MEMBER(mse), left_out);
}
static double error_of(const es_job *job, const void *user, int64_t left_out)
{
    return sqrt(square_of(job, user, left_out) / mean_of(job, user, MEMBER(spread2), left_out));
}
static double found_over_predicted(const es_job *job, const void *user, int64_t left_out)
{
    return square_of(job, user, left_out) / mean_of(job, user, MEMBER(first_order), left_out);
}
static double correlation_of(const es_job *job, const void *user, int64_t left_out)
{
    return mean_of(job, user, MEMBER(linear), left_out) /
           mean_of(job, user, MEMBER(first_order), left_out);
}
static double noise_of(const es_job *job, const void *user, int64_t left_out)
{
    return sqrt(mean_of(job, user, MEMBER(noise2), left_out));
}
/* Returns the share of keys whose random loss has the risk (Q2), both to first order. */
static double first_order_share(const es_job *job, const void *user, int64_t left_out)
{
    const double odds = mean_of(job, user, MEMBER(first_order), left_out) /
                        mean_of(job, user, MEMBER(key_risk), left_out);
    return 1.0 - 1.0 / (1.0 + odds);
}
/* Returns the same for keys that are rounded alone, by their noise (Q3). */
static double noise_share(const es_job *job, const void *user, int64_t left_out)
{
    const double noise = noise_of(job, user, left_out);
    return 1.0 - 1.0 / (1.0 + noise * noise);
}

/* Returns the share of keys at which random loss has the error of rounding: log-linear between the
 * shares whose risk is known, proportional below them; inf above the largest. */
static double exact_share(const es_job *job, const void *user, int64_t left_out)
{
    const sparse_state *s = job->state;
    const subject *x = user;
    const double target = square_of(job, user, left_out);
    const int64_t first = type_row(s, s->cache.n_types);
    double before = 0.0;
    for (int64_t k = 0; k < SPARSE_SHARES; k++) {
        const double risk =
            sparse_cache_ratio(job, x->place, first + k, MEMBER(mse), SIZE_MAX, left_out);
        if (risk < target) {
            before = risk;
            continue;
        }
        if (k == 0)
            return sparse_shares[0] * target / risk;
        const double part = log(target / before) / log(risk / before);
        return sparse_shares[k - 1] * pow(sparse_shares[k] / sparse_shares[k - 1], part);
    }
    return (double)INFINITY;
}

/* Returns the median over heads of a statistic; sorted values stay in scratch. */
static double median_of(const es_job *job, const void *user, int64_t left_out)
{
    const sparse_state *s = job->state;
    const subject *x = user;
    int64_t count = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        const double value = x->of(job, &(subject){i, x->type, NULL, NULL}, left_out);
        if (!isnan(value)) /* a type that changes nothing has no ratio */
            x->scratch[count++] = value;
    }
    es_sort_reals(x->scratch, count);
    return count ? es_median_of(x->scratch, count) : (double)NAN;
}

/* ---- tables ---- */

typedef struct kv_type_row {
    const char *types;
    double bits;
    es_measured relative_error, ratio;
    double ratio_low, ratio_high, correlation, noise;
    int64_t unreliable;
    es_measured dropped, dropped_first_order;
    double dropped_by_noise;
} kv_type_row;

static const es_column type_columns[] = {
    ES_COL_KEY(kv_type_row, types, "kv_type", ES_FORMAT_TEXT, "KV type", "",
               "number types of keys and values"),
    ES_COL(kv_type_row, bits, ES_FORMAT_SHORT, "bits", "bits", "per number, mean of K and V"),
    ES_COL(kv_type_row, relative_error, ES_FORMAT_REAL, "rel. error", "spreads",
           "of the median head, in spreads of its values; standard error over contexts"),
    ES_COL(kv_type_row, ratio, ES_FORMAT_REAL, "found / first order", "",
           "measured mean square error over (Q2), median over heads",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(kv_type_row, ratio_low, ES_FORMAT_SHORT, "lower quartile", "", "over heads"),
    ES_COL(kv_type_row, ratio_high, ES_FORMAT_SHORT, "upper quartile", "", "over heads"),
    ES_COL(kv_type_row, correlation, ES_FORMAT_SHORT, "(Q1) / (Q2)", "",
           "first order with the correlations of rounding errors, over that without; median over "
           "heads. Far from 1: keys round alike, and (Q2) fails",
           .standing = ES_STANDING_PROVED),
    ES_COL(kv_type_row, noise, ES_FORMAT_SHORT, "score noise", "nats",
           "root mean square change of scores by weight, median over heads"),
    ES_COL(kv_type_row, unreliable, ES_FORMAT_COUNT, "unreliable", "heads",
           "heads with score noise above 0.3, where first order fails"),
    ES_COL(kv_type_row, dropped, ES_FORMAT_REAL, "worth in keys", "",
           "share of keys whose random loss costs as much, by the exact risk; median over heads",
           .standing = ES_STANDING_PROVED),
    ES_COL(kv_type_row, dropped_first_order, ES_FORMAT_REAL, "by first order", "",
           "the same where both risks are first order; median over heads",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(kv_type_row, dropped_by_noise, ES_FORMAT_SHORT, "keys alone", "",
           "the same for rounding K alone, by (Q3): `1 - 1/(1 + s^2)`; median over heads",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec types_table = {
    "types", type_columns,
    ES_VIEW("What rounding costs the median head",
            "kv_type bits relative_error dropped dropped_first_order ratio ratio_low ratio_high "
            "correlation noise unreliable"),
    ES_ROW(kv_type_row), .keys = "kv_type"};

typedef struct precision_row {
    int64_t layer, head;
    const char *types;
    es_measured mse;
    double first_order;
    es_measured ratio;
    double correlation, noise;
    const char *flag;
    es_measured dropped;
    double dropped_first_order, dropped_by_noise;
} precision_row;

static const es_column precision_columns[] = {
    ES_COL(precision_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(precision_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL_KEY(precision_row, types, "kv_type", ES_FORMAT_TEXT, "KV type", ""),
    ES_COL(precision_row, mse, ES_FORMAT_REAL, "mse", "",
           "`|y_rounded - y|^2`, mean over queries; standard error over contexts"),
    ES_COL(precision_row, first_order, ES_FORMAT_REAL, "first order", "",
           "(Q2): `sum w^2 (ds^2 |v - y|^2 + |dv|^2)`", .standing = ES_STANDING_HEURISTIC),
    ES_COL(precision_row, ratio, ES_FORMAT_REAL, "found / first order", ""),
    ES_COL(precision_row, correlation, ES_FORMAT_SHORT, "(Q1) / (Q2)", "",
           "`|sum w ((v - y) ds + dv)|^2` over (Q2): first order with the correlations of rounding "
           "errors over that without",
           .standing = ES_STANDING_PROVED),
    ES_COL(precision_row, noise, ES_FORMAT_SHORT, "score noise", "nats",
           "s: root mean square change of scores by weight"),
    ES_COL(precision_row, flag, ES_FORMAT_TEXT, "first order is", "",
           "unreliable where score noise is above 0.3"),
    ES_COL(precision_row, dropped, ES_FORMAT_REAL, "worth in keys", "",
           "share of keys whose random loss costs as much, by the exact risk; unset above one half",
           .standing = ES_STANDING_PROVED),
    ES_COL(precision_row, dropped_first_order, ES_FORMAT_SHORT, "by first order", "",
           "the same where both risks are first order", .standing = ES_STANDING_HEURISTIC),
    ES_COL(precision_row, dropped_by_noise, ES_FORMAT_SHORT, "keys alone", "",
           "the same for rounding K alone, by (Q3): `1 - 1/(1 + s^2)`",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec precision_table = {
    "precision", precision_columns, ES_VIEW("Rounding, head by head", .only_with_full = true),
    ES_ROW(precision_row), .keys = "layer head kv_type"};

/* Returns a statistic with its error; unset where it is not finite. */
static es_measured measured(const es_job *job, sparse_statistic *of, const void *user)
{
    es_measured out = sparse_jackknife(job, of, user);
    if (!isfinite(out.value))
        out.value = es_unset_real();
    if (!isfinite(out.se))
        out.se = es_unset_real();
    return out;
}

/* Returns the name of a pair of types, a copy that lives as long as the table. */
static const char *types_of(const sparse_state *s, int64_t type, es_table *t)
{
    char text[ES_CACHE_SIZE];
    const es_cache_setting one = sparse_cache_setting(s, type_row(s, type));
    return es_table_format(t, "%s", es_cache_types(&one, text));
}

/* Adds the row of a type over all heads. */
static const kv_type_row *add_type(const es_job *job, int64_t type, double *scratch, es_table *t)
{
    const sparse_state *s = job->state;
    const es_late_types *pair = &s->cache.types[type];
    subject x = {0, type, error_of, scratch};
    kv_type_row *r = es_rows_add(t, kv_type_row);
    if (!r)
        return NULL;
    r->types = types_of(s, type, t);
    r->bits = 0.5 * (es_kv_format_bits(&pair->k, ES_KV_KEYS, s->d) +
                     es_kv_format_bits(&pair->v, ES_KV_VALUES, s->d));
    r->relative_error = measured(job, median_of, &x);
    x.of = correlation_of;
    if (r->relative_error.value > 0.0)
        r->correlation = median_of(job, &x, -1);
    x.of = noise_of;
    r->noise = median_of(job, &x, -1);
    r->unreliable = 0;
    for (int64_t i = 0; i < s->n_places; i++)
        r->unreliable += scratch[i] > LARGE_NOISE;
    x.of = first_order_share;
    r->dropped_first_order = measured(job, median_of, &x);
    x.of = noise_share;
    r->dropped_by_noise = median_of(job, &x, -1);
    x.of = exact_share;
    r->dropped = measured(job, median_of, &x);
    x.of = found_over_predicted;
    r->ratio = measured(job, median_of, &x);
    if (isfinite(r->ratio.value)) { /* it is the last one, whose values are in scratch */
        r->ratio_low = sparse_quantile(scratch, s->n_places, 0.25);
        r->ratio_high = sparse_quantile(scratch, s->n_places, 0.75);
    }
    return r;
}

/* Adds the row of a head and a type. */
static void add_head(const es_job *job, int64_t place, int64_t type, es_table *t)
{
    const sparse_state *s = job->state;
    const subject x = {place, type, NULL, NULL};
    precision_row *r = es_rows_add(t, precision_row);
    if (!r)
        return;
    r->layer = s->places[place].layer;
    r->head = s->places[place].head;
    r->types = types_of(s, type, t);
    r->mse = sparse_cache_mean(job, place, type_row(s, type), MEMBER(mse), SIZE_MAX);
    r->first_order = mean_of(job, &x, MEMBER(first_order), -1);
    if (r->first_order > 0.0)
        r->ratio =
            sparse_cache_mean(job, place, type_row(s, type), MEMBER(mse), MEMBER(first_order));
    if (r->first_order > 0.0)
        r->correlation = correlation_of(job, &x, -1);
    r->noise = noise_of(job, &x, -1);
    r->flag = r->noise > LARGE_NOISE ? "unreliable" : NULL;
    r->dropped = measured(job, exact_share, &x);
    r->dropped_first_order = first_order_share(job, &x, -1);
    r->dropped_by_noise = noise_share(job, &x, -1);
}

/* Reports the price of a type in keys: the exact one, then first order's. */
static void report_type(const sparse_state *s, const kv_type_row *r, es_answer *answer)
{
    char share[ES_SAY_SIZE];
    if (!r || !(r->relative_error.value > 0.0))
        return;
    if (!isfinite(r->dropped.value)) {
        es_answer_add_finding(answer,
                              "%s costs the median head more than dropping half of the keys at "
                              "random.",
                              r->types);
        return;
    }
    es_answer_add_finding(answer,
                          "%s costs %s as much as dropping %s %% of the keys at random (by the "
                          "first-order formula %.2g %%)%s.",
                          r->types, s->n_places > 1 ? "the median head" : "the head",
                          es_say_number(100.0 * r->dropped.value, 100.0 * r->dropped.se, share),
                          100.0 * r->dropped_first_order.value,
                          r->noise > LARGE_NOISE ? "; first order is unreliable here" : "");
}

es_status sparse_put_precision(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t types = s->cache.n_types, step = es_say_step(types);
    es_table *over = es_answer_table(answer, &types_table);
    es_table *by_head = es_answer_table(answer, &precision_table);
    double *scratch;
    ES_TRY(ES_JOB_NEW(job, scratch, s->n_places, err));
    for (int64_t t = 0; t < types; t++) {
        const kv_type_row *r = add_type(job, t, scratch, over);
        if (t % step == 0)
            report_type(s, r, answer);
    }
    for (int64_t i = 0; i < s->n_places; i++)
        for (int64_t t = 0; t < types; t++)
            add_head(job, i, t, by_head);
    return es_answer_status(answer, err);
}
