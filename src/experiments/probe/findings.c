/* SPDX-License-Identifier: Apache-2.0 */
/* findings.c : what was found about heads, in sentences, and what limits it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "stats/average.h"

/* The rows that sentences are about. */
typedef struct head_rows {
    const probe_head_row *rows;
    int64_t count;
    double *scratch; /* (count) */
} head_rows;

/* Collects the rows of heads and memory to sort their values. */
static es_status rows_of(es_job *job, const es_table *heads, head_rows *out, es_error *err)
{
    *out = (head_rows){es_rows(heads, probe_head_row), es_table_rows(heads), NULL};
    return ES_JOB_NEW(job, out->scratch, out->count, err);
}

const char *probe_counted(const probe_state *s)
{
    return s->pools.n_domains > 1 ? "pairs of a head and a domain" : "heads";
}

double probe_largest_n(const probe_state *s) { return (double)s->spec.sizes[s->spec.n_sizes - 1]; }

/* ---- what heads do ---- */

/* Adds the finding that counts heads by class. */
static void report_classes(const es_job *job, const head_rows *heads,
                           const probe_class_row *classes, es_answer *a)
{
    const probe_state *s = job->state;
    char n[ES_SAY_SIZE];
    long long of[ES_REGIMES];
    for (int i = 0; i < ES_REGIMES; i++)
        of[probe_classes_order[i]] = (long long)classes[i].heads;
    es_answer_add_finding(
        a,
        "Of %lld %s at n = %s, %lld %s averaging, %lld selective, %lld single-key and %lld "
        "undecided.",
        (long long)heads->count, probe_counted(s), es_say_size(probe_largest_n(s), n),
        of[ES_REGIME_AVERAGING], of[ES_REGIME_AVERAGING] == 1 ? "is" : "are",
        of[ES_REGIME_SELECTIVE], of[ES_REGIME_SINGLE_KEY], of[ES_REGIME_UNDECIDED]);
}

/* Median over heads of a double of the row, heads without a number left out; NaN of none. */
static double median_of(const head_rows *heads, size_t offset)
{
    int64_t count = 0;
    for (int64_t i = 0; i < heads->count; i++) {
        memcpy(&heads->scratch[count], (const char *)&heads->rows[i] + offset, sizeof(double));
        count += isfinite(heads->scratch[count]) ? 1 : 0;
    }
    es_sort_reals(heads->scratch, count);
    return es_median_of(heads->scratch, count);
}

/* Adds how fast single outputs converge, and what Gaussian tokens would do. */
static void report_rates(const head_rows *heads, es_answer *a)
{
    const double rate = median_of(heads, offsetof(probe_head_row, rate_map.rate.value));
    if (isfinite(rate))
        es_answer_add_finding(
            a,
            "Their outputs approach the limit like n^-%.3g (± %.2g) in the median; Gaussian tokens "
            "of the same covariance would give n^-%.3g.",
            rate, median_of(heads, offsetof(probe_head_row, rate_map.rate.se)),
            median_of(heads, offsetof(probe_head_row, rate_map_predicted)));
}

/* The tokens that a head needs are a lower bound where too many of its queries use few tokens of
 * the pool. */
static bool is_bound(const probe_head_row *r)
{
    return r->thin > PROBE_THIN && isfinite(r->tokens_for_tenth.value);
}

/* Adds how many heads need more tokens than the pool has, and the one that needs most. Heads with a
 * lower bound may be among either. */
static void report_slowest(const probe_state *s, const head_rows *heads, es_answer *a)
{
    const double tokens = (double)s->pools.cost.tokens;
    char needs[ES_SAY_SIZE], size[ES_SAY_SIZE], error[2 * ES_SAY_SIZE] = "";
    const probe_head_row *slowest = NULL;
    long long beyond = 0;
    bool least = false, bounds = false;
    for (int64_t i = 0; i < heads->count; i++) {
        const probe_head_row *r = &heads->rows[i];
        const double needed = r->tokens_for_tenth.value;
        beyond += needed > tokens;
        bounds = bounds || is_bound(r);
        least = least || (is_bound(r) && needed <= tokens);
        if (needed > (slowest ? slowest->tokens_for_tenth.value : 0.0))
            slowest = r;
    }
    if (!slowest)
        return;
    if (!is_bound(slowest))
        snprintf(error, sizeof error, " ± %s", es_say_size(slowest->tokens_for_tenth.se, size));
    es_answer_add_finding(
        a, "%s%lld of %lld %s need more than the pool's %.0f tokens for 10 %% error.",
        least ? "At least " : "", beyond, (long long)heads->count, probe_counted(s), tokens);
    es_answer_add_finding(
        a, "Slowest%s: layer %lld head %lld%s%s, %s%s%s tokens.", bounds ? " known" : "",
        (long long)slowest->layer, (long long)slowest->head, slowest->domain ? " on " : "",
        slowest->domain ? slowest->domain : "", is_bound(slowest) ? "at least " : "",
        es_say_size(slowest->tokens_for_tenth.value, needs), error);
}

es_status probe_add_head_findings(es_job *job, const es_table *heads, const es_table *classes,
                                  es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    head_rows all;
    ES_TRY(rows_of(job, heads, &all, err));
    es_pools_unreadable(&s->pools, answer);
    report_classes(job, &all, es_rows(classes, probe_class_row), answer);
    report_rates(&all, answer);
    report_slowest(s, &all, answer);
    return ES_OK;
}

/* ---- cautions ---- */

/* Error of the pool's limit, half of the distance between its halves, over the map error at the
 * largest n: sorted into scratch, for the heads that have both; returns their number. */
static int64_t sort_pool_errors(const head_rows *heads)
{
    int64_t count = 0;
    for (int64_t i = 0; i < heads->count; i++) {
        const probe_head_row *r = &heads->rows[i];
        const double error = r->relative_error.value * r->output_rms;
        heads->scratch[count] = r->map_error_limit / error;
        count += isfinite(heads->scratch[count]) ? 1 : 0;
    }
    es_sort_reals(heads->scratch, count);
    return count;
}

/* Errors are distances from the pool's limit, which stands for the text's. With n of N independent
 * tokens the pool's own error is sqrt(n/N) of that at n; tokens of a text are not independent, so
 * its halves decide where they can. */
static void caution_sizes(const probe_state *s, const head_rows *heads, es_answer *a)
{
    const double n = probe_largest_n(s), tokens = (double)s->pools.cost.tokens;
    const int64_t count = sort_pool_errors(heads);
    const double off = count ? es_median_of(heads->scratch, count) : sqrt(n / tokens);
    char largest[ES_SAY_SIZE];
    es_say_size(n, largest);
    if (n > tokens)
        es_answer_add_finding(
            a,
            "Caution: n up to %s is more than the pool's %.0f tokens: draws repeat tokens, and "
            "errors say nothing about contexts that long. Take more text (--pool) or smaller n.",
            largest, tokens);
    else if (off * off > 0.1 || n > 0.1 * tokens)
        es_answer_add_finding(
            a,
            "Caution: n up to %s is %.0f %% of the pool's %.0f tokens. The limit of the pool "
            "differs from the text's by about %.0f %% of the error at that n (%s).",
            largest, 100.0 * n / tokens, tokens, 100.0 * off,
            count ? "from the pool's halves, median" : "if tokens were independent");
}

/* Heads without a number of tokens, or with one far beyond the pool. */
static void caution_tokens(const probe_state *s, const head_rows *heads, es_answer *a)
{
    const double tokens = (double)s->pools.cost.tokens;
    long long any = 0, far = 0;
    for (int64_t i = 0; i < heads->count; i++) {
        const char *sign = heads->rows[i].tokens_for_tenth_sign;
        any += sign && sign[0] == 'a';
        far += heads->rows[i].tokens_for_tenth.value > 100.0 * tokens;
    }
    if (any)
        es_answer_add_finding(
            a,
            "Caution: outputs of %lld of %lld %s hardly differ between tokens, so that "
            "any one token gives them within a tenth: no number of tokens is given.",
            any, (long long)heads->count, probe_counted(s));
    if (far)
        es_answer_add_finding(
            a,
            "Caution: %lld of %lld %s need more than 100 times the pool's %.0f tokens: these "
            "numbers are extrapolated.",
            far, (long long)heads->count, probe_counted(s), tokens);
}

es_status probe_caution(es_job *job, const es_table *heads, es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    head_rows all;
    ES_TRY(rows_of(job, heads, &all, err));
    es_pools_caution(&s->pools, answer);
    caution_sizes(s, &all, answer);
    caution_tokens(s, &all, answer);
    return ES_OK;
}
