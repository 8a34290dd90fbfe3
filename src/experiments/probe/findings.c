/* findings.c : what was found out about heads, in sentences, and what should not be believed.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "stats/average.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/classes.h"
#include "experiments/probe/question.h"

/* The finite numbers of a column, in order; how many. Heads without a rate have NaN there, which no
 * order has a place for. */
static int64_t sorted_column(const es_table *t, const char *key, double *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        out[count] = es_table_get(t, i, key);
        count += isfinite(out[count]) ? 1 : 0;
    }
    es_sort_reals(out, count);
    return count;
}

static double column_median(const es_table *t, const char *key, double *room)
{
    return es_median_of(room, sorted_column(t, key, room));
}

static const char *counted(const probe_state *s)
{
    return s->pools.n_domains > 1 ? "pairs of a head and a domain" : "heads";
}

static double largest_n(const probe_state *s) { return (double)s->spec.sizes[s->spec.n_sizes - 1]; }

/* ---- what heads do ---- */

static void tell_classes(const es_job *job, const es_table *heads, const es_table *classes,
                         es_answer *a)
{
    const probe_state *s = job->state;
    char n[ES_SAY_ROOM];
    double of[ES_REGIMES];
    for (int i = 0; i < ES_REGIMES; i++)
        of[probe_classes_order[i]] = es_table_get(classes, i, "heads");
    es_answer_add_finding(
        a,
        "Of %lld %s at n = %s, %.0f %s averaging, %.0f selective, %.0f single-key and "
        "%.0f undecided (95 %% intervals of ESS over %lld draws).",
        (long long)es_table_rows(heads), counted(s), es_say_size(largest_n(s), n),
        of[ES_REGIME_AVERAGING], of[ES_REGIME_AVERAGING] == 1.0 ? "is" : "are",
        of[ES_REGIME_SELECTIVE], of[ES_REGIME_SINGLE_KEY], of[ES_REGIME_UNDECIDED],
        (long long)((const probe_params *)job->params)->replicates);
}

/* Do single outputs converge, and how fast? */
static void tell_rates(const es_table *heads, es_answer *a, double *room)
{
    const double se = column_median(heads, "rate_map_se", room);
    const double predicted = column_median(heads, "rate_map_predicted", room);
    const double paper = column_median(heads, "rate_horizon", room);
    const int64_t count = sorted_column(heads, "rate_map", room);
    if (count == 0)
        return;
    es_answer_add_finding(
        a,
        "Their outputs approach the limit like n^-%.3g in the median (%.3g to %.3g in "
        "four fifths of them, each ± %.2g in the median); Gaussian tokens of the same "
        "covariance would give %.3g, the paper's exponent is %.3g.",
        es_median_of(room, count), room[(count - 1) / 10], room[9 * (count - 1) / 10], se,
        predicted, paper);
}

/* What a head needs is a lower bound where the pool is too thin for it. */
static bool is_bound(const es_table *heads, int64_t row)
{
    return es_table_get(heads, row, "thin") > PROBE_THIN &&
           isfinite(es_table_get(heads, row, "tokens_for_tenth"));
}

/* The head that needs most tokens, and how many need more than the pool has. Of either, heads with
 * a lower bound may be one. */
static void tell_slowest(const probe_state *s, const es_table *heads, es_answer *a)
{
    const double tokens = (double)s->pools.cost.tokens;
    char needs[ES_SAY_ROOM], size[ES_SAY_ROOM], error[2 * ES_SAY_ROOM] = "";
    int64_t slowest = -1;
    long long beyond = 0;
    bool least = false, bounds = false;
    double most = 0.0;
    for (int64_t i = 0; i < es_table_rows(heads); i++) {
        const double needed = es_table_get(heads, i, "tokens_for_tenth");
        beyond += needed > tokens;
        bounds = bounds || is_bound(heads, i);
        least = least || (is_bound(heads, i) && needed <= tokens);
        if (needed > most) {
            most = needed;
            slowest = i;
        }
    }
    if (slowest < 0)
        return;
    const char *domain = es_table_get_text(heads, slowest, "domain");
    if (!is_bound(heads, slowest))
        snprintf(error, sizeof error, " ± %s",
                 es_say_size(es_table_get(heads, slowest, "tokens_for_tenth_error"), size));
    es_answer_add_finding(
        a,
        "%s%lld of %lld %s need more than the pool's %.0f tokens for outputs within a "
        "tenth of their spread. Slowest%s: layer %.0f, head %.0f%s%s, %s%s%s tokens.",
        least ? "At least " : "", beyond, (long long)es_table_rows(heads), counted(s), tokens,
        bounds ? " known" : "", es_table_get(heads, slowest, "layer"),
        es_table_get(heads, slowest, "head"), *domain ? " on " : "", domain,
        is_bound(heads, slowest) ? "at least " : "", es_say_size(most, needs), error);
}

es_status probe_tell_heads(es_job *job, const es_table *heads, const es_table *classes,
                           es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    double *room;
    ES_TRY(ES_JOB_NEW(job, room, es_table_rows(heads), err));
    es_pools_unreadable(&s->pools, answer);
    tell_classes(job, heads, classes, answer);
    tell_rates(heads, answer, room);
    tell_slowest(s, heads, answer);
    return ES_OK;
}

/* ---- what should not be believed ---- */

/* By how much the pool's limit is off from the text's, half of the distance between its halves,
 * over the map error at the largest n, head by head: in order; how many heads have both. */
static int64_t sorted_pool_errors(const es_table *heads, double *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < es_table_rows(heads); i++) {
        const double error =
            es_table_get(heads, i, "relative_error") * es_table_get(heads, i, "output_rms");
        out[count] = es_table_get(heads, i, "map_error_limit") / error;
        count += isfinite(out[count]) ? 1 : 0;
    }
    es_sort_reals(out, count);
    return count;
}

/* Errors are distances from the pool's limit, which stands for the text's. Of n tokens from N the
 * pool itself is off by sqrt(n/N) as much if they are independent; those of a text are not, so what
 * its halves say comes first. */
static void caution_sizes(const probe_state *s, const es_table *heads, es_answer *a, double *room)
{
    const double n = largest_n(s), tokens = (double)s->pools.cost.tokens;
    const int64_t count = sorted_pool_errors(heads, room);
    const double off = count ? es_median_of(room, count) : sqrt(n / tokens);
    char largest[ES_SAY_ROOM], how[ES_SAY_ROOM] = "if tokens were independent";
    es_say_size(n, largest);
    if (count)
        snprintf(how, sizeof how, "by its halves, in the median of %s: %.0f to %.0f %%", counted(s),
                 100.0 * room[0], 100.0 * room[count - 1]);
    if (n > tokens)
        es_answer_add_finding(
            a,
            "Caution: n up to %s is beyond the pool's %.0f tokens: draws repeat tokens, "
            "and errors are distances from this pool's limit, which tell nothing about "
            "contexts that long; more text (--pool), or smaller n.",
            largest, tokens);
    else if (off * off > 0.1 || n > 0.1 * tokens)
        es_answer_add_finding(
            a,
            "Caution: n up to %s is %.0f %% of the pool: errors are distances from the "
            "limit of these %.0f tokens, which is itself off from the text's by about "
            "%.0f %% as much (%s).",
            largest, 100.0 * n / tokens, tokens, 100.0 * off, how);
}

/* Predictions that are no numbers of tokens, or far from what was seen. */
static void caution_needs(const probe_state *s, const es_table *heads, es_answer *a)
{
    const double tokens = (double)s->pools.cost.tokens;
    long long any = 0, far = 0;
    for (int64_t i = 0; i < es_table_rows(heads); i++) {
        any += es_table_get_text(heads, i, "tokens_for_tenth_sign")[0] == 'a';
        far += es_table_get(heads, i, "tokens_for_tenth") > 100.0 * tokens;
    }
    if (any)
        es_answer_add_finding(
            a,
            "Caution: outputs of %lld of %lld %s hardly differ between tokens, so that "
            "any one token gives them within a tenth: no number of tokens is given.",
            any, (long long)es_table_rows(heads), counted(s));
    if (far)
        es_answer_add_finding(
            a,
            "Caution: of %lld of %lld %s what they need is more than 100 times the "
            "pool's %.0f tokens: extrapolated.",
            far, (long long)es_table_rows(heads), counted(s), tokens);
}

es_status probe_caution(es_job *job, const es_table *heads, es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    double *room;
    ES_TRY(ES_JOB_NEW(job, room, es_table_rows(heads), err));
    es_pools_caution(&s->pools, answer);
    caution_sizes(s, heads, answer, room);
    caution_needs(s, heads, answer);
    return ES_OK;
}
