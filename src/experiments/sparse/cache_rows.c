/* SPDX-License-Identifier: Apache-2.0 */
/* cache_rows.c : the tables `settings` and `rows` of caches: what each setting does to the outputs
 * of late queries, over all heads and head by head. Errors are over contexts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/sparse/sparse.h"
#include "stats/average.h"
#include "stats/special.h"
#include "table/table.h"

/* ---- means over contexts ---- */

double sparse_cache_ratio(const es_job *job, int64_t place, int64_t row, size_t above, size_t below,
                          int64_t left_out)
{
    const sparse_state *s = job->state;
    double sums[2] = {0.0, 0.0};
    for (int64_t c = 0; c < s->contexts; c++) {
        const char *cell = (const char *)sparse_cache_cell_of(job, place, c, row);
        if (c == left_out)
            continue;
        sums[0] += *(const double *)(const void *)(cell + above);
        sums[1] += below == SIZE_MAX ? 1.0 : *(const double *)(const void *)(cell + below);
    }
    return sums[0] / sums[1];
}

es_measured sparse_cache_mean(const es_job *job, int64_t place, int64_t row, size_t above,
                              size_t below)
{
    const sparse_state *s = job->state;
    const double ratio = sparse_cache_ratio(job, place, row, above, below, -1);
    double scatter = 0.0, sum = 0.0;
    for (int64_t c = 0; c < s->contexts; c++) {
        const char *cell = (const char *)sparse_cache_cell_of(job, place, c, row);
        const double b = below == SIZE_MAX ? 1.0 : *(const double *)(const void *)(cell + below);
        const double off = *(const double *)(const void *)(cell + above) - ratio * b;
        scatter += off * off;
        sum += b;
    }
    return (es_measured){ratio, s->contexts > 1 ? es_block_se(scatter, sum, s->contexts)
                                                : es_unset_real()};
}

es_measured sparse_jackknife(const es_job *job, sparse_statistic *of, const void *user)
{
    const sparse_state *s = job->state;
    const double C = (double)s->contexts;
    double mean = 0.0, scatter = 0.0;
    for (int64_t c = 0; c < s->contexts && s->contexts > 1; c++)
        mean += of(job, user, c) / C;
    for (int64_t c = 0; c < s->contexts && s->contexts > 1; c++) {
        const double off = of(job, user, c) - mean;
        scatter += off * off;
    }
    return (es_measured){of(job, user, -1),
                         s->contexts > 1 ? sqrt((C - 1.0) / C * scatter) : es_unset_real()};
}

double sparse_quantile(const double *sorted, int64_t count, double share)
{
    const double at = share * (double)(count - 1);
    const int64_t low = (int64_t)floor(at), high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}

/* A row of all heads. */
typedef struct subject {
    int64_t row;
    double *scratch; /* (places) */
} subject;

#define MEMBER(member) offsetof(sparse_cache_cell, member)

/* Returns the error of a head in spreads. */
static double error_of(const es_job *job, int64_t place, int64_t row, int64_t left_out)
{
    return sqrt(sparse_cache_ratio(job, place, row, MEMBER(mse), MEMBER(spread2), left_out));
}

/* Returns the error of the median head in spreads. */
static double median_error(const es_job *job, const void *user, int64_t left_out)
{
    const sparse_state *s = job->state;
    const subject *x = user;
    for (int64_t i = 0; i < s->n_places; i++)
        x->scratch[i] = error_of(job, i, x->row, left_out);
    es_sort_reals(x->scratch, s->n_places);
    return es_median_of(x->scratch, s->n_places);
}

/* Returns the mean over heads of a member. */
static double mean_over_heads(const es_job *job, int64_t row, size_t member)
{
    const sparse_state *s = job->state;
    double sum = 0.0;
    for (int64_t i = 0; i < s->n_places; i++)
        sum += sparse_cache_ratio(job, i, row, member, SIZE_MAX, -1);
    return sum / (double)s->n_places;
}

/* ---- tables ---- */

/* What a row is about. */
typedef struct setting_name {
    const char *policy, *types;
    int64_t keys;
} setting_name;

#define SETTING_COLUMNS(row)                                                                       \
    ES_COL_KEY(row, name.policy, "policy", ES_FORMAT_TEXT, "policy", "",                           \
               "which keys a cache keeps, as asked"),                                              \
        ES_COL_KEY(row, name.keys, "keys", ES_FORMAT_COUNT, "keys", "keys",                        \
                   "of the prompt that are kept, or at most held while decoding"),                 \
        ES_COL_KEY(row, name.types, "kv_type", ES_FORMAT_TEXT, "KV type", "",                      \
                   "number types of keys and values")

typedef struct setting_row {
    setting_name name;
    es_measured relative_error;
    double low, high, mass;
} setting_row;

static const es_column setting_columns[] = {
    SETTING_COLUMNS(setting_row),
    ES_COL(setting_row, relative_error, ES_FORMAT_REAL, "rel. error", "spreads",
           "of the median head, in spreads of its values; standard error over contexts"),
    ES_COL(setting_row, low, ES_FORMAT_SHORT, "lower quartile", "spreads", "over heads"),
    ES_COL(setting_row, high, ES_FORMAT_SHORT, "upper quartile", "spreads", "over heads"),
    ES_COL(setting_row, mass, ES_FORMAT_SHORT, "mass", "",
           "share of the full model's weights that is kept, mean over heads"),
    {0}};
static const es_table_spec settings_table = {"settings", setting_columns,
                                             ES_VIEW("What each cache does to the median head"),
                                             ES_ROW(setting_row), .keys = "policy keys kv_type"};

typedef struct cache_row {
    int64_t layer, head;
    setting_name name;
    es_measured relative_error, mse;
    double mass, spread2, ess;
} cache_row;

static const es_column row_columns[] = {
    ES_COL(cache_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(cache_row, head, ES_FORMAT_COUNT, "head", ""),
    SETTING_COLUMNS(cache_row),
    ES_COL(
        cache_row, relative_error, ES_FORMAT_REAL, "rel. error", "spreads",
        "`sqrt(mse / mean of sum w |v - y|^2)`: error in spreads of the values around the output, "
        "by their weights; standard error over contexts"),
    ES_COL(cache_row, mse, ES_FORMAT_REAL, "mse", "",
           "`|y_S - y|^2`, mean over queries after the prompt; standard error over contexts"),
    ES_COL(cache_row, mass, ES_FORMAT_REAL, "mass", "",
           "share of the full model's weights that is kept"),
    ES_COL(cache_row, spread2, ES_FORMAT_REAL, "spread^2", "",
           "`sum w |v - y|^2`, mean over queries"),
    ES_COL(cache_row, ess, ES_FORMAT_SHORT, "ESS", "keys",
           "effective number of keys, `1/sum w^2`, mean over queries"),
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns, ES_VIEW("Caches, head by head", .only_with_full = true), ES_ROW(cache_row),
    .keys = "layer head policy keys kv_type"};

/* Fills in what a row is about; texts are copies that live as long as the table. */
static void name_row(const sparse_state *s, int64_t row, es_table *t, setting_name *out)
{
    char text[ES_CACHE_SIZE];
    const es_cache_setting one = sparse_cache_setting(s, row);
    out->types = es_table_format(t, "%s", es_cache_types(&one, text));
    if (!one.unit.evict.policy)
        return;
    out->policy = es_table_format(t, "%s", es_cache_policy(&one, text));
    out->keys = one.unit.evict.keys;
}

/* Adds the row of a setting over all heads. */
static void add_setting(const es_job *job, int64_t row, double *scratch, es_table *t)
{
    const sparse_state *s = job->state;
    const subject x = {row, scratch};
    setting_row *r = es_rows_add(t, setting_row);
    if (!r)
        return;
    name_row(s, row, t, &r->name);
    r->relative_error = sparse_jackknife(job, median_error, &x); /* sorted errors stay in scratch */
    r->low = sparse_quantile(scratch, s->n_places, 0.25);
    r->high = sparse_quantile(scratch, s->n_places, 0.75);
    r->mass = mean_over_heads(job, row, MEMBER(mass));
}

/* Adds the row of a head and a setting. */
static void add_row(const es_job *job, int64_t place, int64_t row, es_table *t)
{
    const sparse_state *s = job->state;
    cache_row *r = es_rows_add(t, cache_row);
    if (!r)
        return;
    r->layer = s->places[place].layer;
    r->head = s->places[place].head;
    name_row(s, row, t, &r->name);
    const es_measured square = sparse_cache_mean(job, place, row, MEMBER(mse), MEMBER(spread2));
    r->relative_error.value = sqrt(square.value);
    r->relative_error.se = square.value > 0.0 ? 0.5 * square.se / r->relative_error.value : 0.0;
    r->mse = sparse_cache_mean(job, place, row, MEMBER(mse), SIZE_MAX);
    r->mass = sparse_cache_ratio(job, place, row, MEMBER(mass), SIZE_MAX, -1);
    r->spread2 = sparse_cache_ratio(job, place, row, MEMBER(spread2), SIZE_MAX, -1);
    r->ess = sparse_cache_ratio(job, place, row, MEMBER(ess), SIZE_MAX, -1);
}

/* ---- findings ---- */

/* A policy and its error at the number of keys that findings are about. */
typedef struct ranked {
    int64_t policy; /* -1: none */
    es_measured error;
} ranked;

/* Finds the two best policies that a cache can run, with the first types. */
static void rank_policies(const es_job *job, int64_t keys, double *scratch, ranked best[2])
{
    const sparse_state *s = job->state;
    const sparse_cache *c = &s->cache;
    best[0].policy = best[1].policy = -1;
    for (int64_t p = 0; p < c->n_policies; p++) {
        const subject x = {p * c->n_keys + keys, scratch};
        const ranked found = {p, sparse_jackknife(job, median_error, &x)};
        if (es_eviction_full(c->policies[p].policy)) /* looks ahead: a bound */
            continue;
        if (best[0].policy < 0 || found.error.value < best[0].error.value) {
            best[1] = best[0];
            best[0] = found;
        } else if (best[1].policy < 0 || found.error.value < best[1].error.value)
            best[1] = found;
    }
}

/* Two rows of all heads. */
typedef struct row_pair {
    subject first, second;
} row_pair;

/* Returns how much larger the median head's error is in the second row than in the first. */
static double median_difference(const es_job *job, const void *user, int64_t left_out)
{
    const row_pair *x = user;
    return median_error(job, &x->second, left_out) - median_error(job, &x->first, left_out);
}

/* Returns whether the 95 % interval over contexts of the difference of two policies includes 0, or
 * there is none. */
static bool may_be_chance(const es_job *job, const ranked best[2], int64_t keys, double *scratch)
{
    const sparse_state *s = job->state;
    const int64_t n = s->cache.n_keys;
    const row_pair x = {{best[0].policy * n + keys, scratch}, {best[1].policy * n + keys, scratch}};
    const es_measured m = sparse_jackknife(job, median_difference, &x);
    return s->contexts < 2 ||
           m.value <= es_student_quantile((double)(s->contexts - 1), 0.025) * m.se;
}

/* Writes ", by 0.2 +- 0.1 under h2o", and whether that may be chance. */
static void say_next(const es_job *job, const ranked best[2], int64_t keys, double *scratch,
                     char out[4 * ES_SAY_SIZE])
{
    const sparse_state *s = job->state;
    char policy[ES_SAY_SIZE], error[ES_SAY_SIZE];
    es_evict_write(&s->cache.policies[best[1].policy], policy, sizeof policy);
    snprintf(out, 4 * ES_SAY_SIZE, ", by %s under %s%s",
             es_say_number(best[1].error.value, best[1].error.se, error), policy,
             may_be_chance(job, best, keys, scratch) ? "; the difference may be chance" : "");
}

/* Writes "With 8 of the 48 keys of a prompt in q4_0". */
static void say_kept(const sparse_state *s, int64_t keys, char out[4 * ES_SAY_SIZE])
{
    const sparse_cache *c = &s->cache;
    const es_cache_setting first = sparse_cache_setting(s, keys);
    char types[ES_CACHE_SIZE];
    if (c->mode == ES_EVICT_PROMPT)
        snprintf(out, 4 * ES_SAY_SIZE, "With %lld of the %lld keys of a prompt",
                 (long long)c->keys[keys], (long long)c->prompt);
    else
        snprintf(out, 4 * ES_SAY_SIZE, "With at most %lld keys at any time",
                 (long long)c->keys[keys]);
    const size_t used = strlen(out);
    if (c->rounds)
        snprintf(out + used, 4 * ES_SAY_SIZE - used, " in %s", es_cache_types(&first, types));
}

/* Reports the best policy at the middle number of keys with the first types, and the next best. */
static void report_best(const es_job *job, double *scratch, es_answer *answer)
{
    const sparse_state *s = job->state;
    const sparse_cache *c = &s->cache;
    const int64_t at = c->n_keys / 2;
    char kept[4 * ES_SAY_SIZE], policy[ES_CACHE_SIZE], error[ES_SAY_SIZE],
        next[4 * ES_SAY_SIZE] = "";
    ranked best[2];
    rank_policies(job, at, scratch, best);
    if (best[0].policy < 0)
        return;
    if (best[1].policy >= 0)
        say_next(job, best, at, scratch, next);
    es_evict_write(&c->policies[best[0].policy], policy, sizeof policy);
    say_kept(s, at, kept);
    es_answer_add_finding(
        answer, "%s, %s output is off by %s of the spread of its values under %s%s.", kept,
        s->n_places > 1 ? "the median head's" : "the head's",
        es_say_number(best[0].error.value, best[0].error.se, error), policy, next);
}

es_status sparse_put_caches(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    const sparse_cache *c = &s->cache;
    const int64_t evicting = c->n_types * c->n_policies * c->n_keys;
    const int64_t rows = evicting ? evicting : c->n_types;
    double *scratch;
    ES_TRY(ES_JOB_NEW(job, scratch, s->n_places, err));
    if (evicting) {
        report_best(job, scratch, answer);
        es_table *settings = es_answer_table(answer, &settings_table);
        for (int64_t i = 0; i < rows; i++)
            add_setting(job, i, scratch, settings);
    }
    es_table *t = es_answer_table(answer, &rows_table);
    for (int64_t i = 0; i < s->n_places; i++)
        for (int64_t k = 0; k < rows; k++)
            add_row(job, i, k, t);
    return es_answer_status(answer, err);
}
