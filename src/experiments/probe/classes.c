#include "experiments/probe/classes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "stats/average.h"
#include "stats/special.h"
#include "experiments/kit/answer_kit.h"

/* ---- one head ---- */

const es_regime probe_classes_order[ES_REGIMES] = {ES_REGIME_AVERAGING, ES_REGIME_SELECTIVE,
                                                   ES_REGIME_SINGLE_KEY, ES_REGIME_UNDECIDED};

es_regime probe_class_of(const probe_signs *s)
{
    const double within = es_student_quantile((double)s->draws - 1.0, 0.025) * s->ess_se;
    return es_regime_within(s->n, s->ess - within, s->ess + within);
}

void probe_put_class(es_table *heads, int64_t row, double n, int64_t draws)
{
    const probe_signs signs = {n, es_table_get(heads, row, "ess_n"),
                               es_table_get(heads, row, "ess_n_se"), draws};
    es_table_text(heads, row, "class", es_regime_name(probe_class_of(&signs)));
}

/* Is policy i no worse than the best, as far as the queries can tell? */
static bool as_good(const es_probe_policies *p, int64_t i)
{
    const double within = es_student_quantile((double)p->queries - 1.0, 0.025);
    return p->behind[i] <= within * p->behind_se[i];
}

void probe_put_policies(es_table *heads, int64_t row, const es_probe_policies *p)
{
    char advice[64];
    if (!p->queries || !isfinite(p->error[p->best]))
        return; /* no key was left out, or outputs have no spread */
    es_put(heads, row, {"random_error", p->error[0]}, {"top_error", p->error[1]},
           {"top_random_error", p->error[2]});
    snprintf(advice, sizeof advice, "%s", es_probe_policy_name(p->best));
    for (int64_t i = 0; i < ES_PROBE_POLICIES; i++) {
        const size_t used = strlen(advice);
        if (i != p->best && as_good(p, i))
            snprintf(advice + used, sizeof advice - used, " or %s", es_probe_policy_name(i));
    }
    es_table_text(heads, row, "advice", advice);
}

/* ---- tables ---- */

#define CUT_OFFS                                                                                   \
    "By the 95 % interval of ESS over draws, at the largest n. Averaging: at least 100, or two "   \
    "thirds of n if that is less; single-key: below 2; selective: between; undecided: the "        \
    "interval contains a cut-off"

static const es_column class_columns[] = {
    {"class", "class", "", ES_FORMAT_TEXT},
    {"heads", "heads", "", ES_FORMAT_COUNT, "how many; where there are domains, of each"},
    {"rate_map", "rate", "", ES_FORMAT_SHORT, "of their map errors, n^-rate: median over heads"},
    {"rate_map_exact", "exact rate", "", ES_FORMAT_SHORT,
     "map error ~ n^-rate, by exact integrals over the pool: median over heads. 1/2 is that of "
     "independent terms",
     .standing = ES_STANDING_PROVED},
    {"ess_n", "ESS", "tokens", ES_FORMAT_SHORT,
     "effective number of tokens, 1/sum w^2, of the median query at the largest n: median over "
     "heads"},
    {"random", "random", "heads", ES_FORMAT_COUNT,
     "for which random keys alone are the ones to keep"},
    {"top", "top", "heads", ES_FORMAT_COUNT, "likewise the largest weights"},
    {"top_random", "top-random", "heads", ES_FORMAT_COUNT, "likewise half and half"},
    {"meaning", "which means", "", ES_FORMAT_TEXT},
    {0}};
const es_table_spec probe_classes_table = {
    "classes", class_columns,
    ES_VIEW("Heads by class", "class heads rate_map_exact ess_n random top top_random meaning",
            CUT_OFFS),
    .keys = "class"};

static const es_column matter_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"class", "class", "", ES_FORMAT_TEXT},
    {"advice", "keys to keep", "", ES_FORMAT_TEXT, PROBE_KEYS_TO_KEEP},
    {"random_error", "random", "", ES_FORMAT_SHORT, "error of that policy, over the spread"},
    {"top_error", "top", "", ES_FORMAT_SHORT},
    {"top_random_error", "top-random", "", ES_FORMAT_SHORT},
    {"moves", "moves", "", ES_FORMAT_SHORT,
     "by how much the head's error at the largest n moves the layer's output, over the spread of "
     "the layer's inputs",
     .error = "moves_se"},
    {"relative_error", "rel. error", "", ES_FORMAT_SHORT,
     "of the head's own output, over the spread of those", .error = "relative_error_se"},
    {"rate_map", "rate", "", ES_FORMAT_REAL, "of that error, n^-rate", .error = "rate_map_se"},
    {"rate_map_exact", "exact rate", "", ES_FORMAT_SHORT,
     "of the exact error, which does not depend on draws", .standing = ES_STANDING_PROVED},
    {"ess_n", "ESS", "tokens", ES_FORMAT_SHORT, "effective number of the n tokens",
     .error = "ess_n_se"},
    {0}};
const es_table_spec probe_matter_table = {
    "matter_most", matter_columns,
    ES_VIEW("The ten heads that matter most",
            "domain layer head class ess_n rate_map_exact advice random_error top_error "
            "top_random_error moves relative_error",
            "Those with the largest `moves`, in its order"),
    .keys = "domain layer head"};

/* ---- all heads ---- */

/* What the class says at this n: where it is small, fewer than 100 tokens are many. */
static void put_meaning(es_regime kind, double n, es_table *to, int64_t row)
{
    char many[ES_SAY_ROOM], text[3 * ES_SAY_ROOM];
    es_say_size(ceil(1.0 / es_averages_squares(n)), many);
    if (kind == ES_REGIME_AVERAGING)
        snprintf(text, sizeof text, "%s or more tokens share the weight", many);
    else if (kind == ES_REGIME_SELECTIVE)
        snprintf(text, sizeof text, "2 or more share it, fewer than %s", many);
    else if (kind == ES_REGIME_SINGLE_KEY)
        snprintf(text, sizeof text, "fewer than 2: one token has most of it");
    else
        snprintf(text, sizeof text, "more draws decide (--replicates)");
    es_table_text(to, row, "meaning", text);
}

/* The median of a column over the heads of a class; NaN if none has a number. */
static double median_of(const es_table *heads, const char *name, const char *key, double *room)
{
    int64_t count = 0;
    for (int64_t i = 0; i < es_table_rows(heads); i++) {
        if (strcmp(es_table_get_text(heads, i, "class"), name) != 0)
            continue;
        room[count] = es_table_get(heads, i, key);
        count += isfinite(room[count]);
    }
    es_sort_reals(room, count);
    return count ? es_median_of(room, count) : (double)NAN;
}

/* Heads of a class, of those with this advice alone; NULL: any. */
static int64_t heads_of(const es_table *heads, const char *name, const char *advice)
{
    int64_t count = 0;
    for (int64_t i = 0; i < es_table_rows(heads); i++)
        count += strcmp(es_table_get_text(heads, i, "class"), name) == 0 &&
                 (!advice || strcmp(es_table_get_text(heads, i, "advice"), advice) == 0);
    return count;
}

/* Has any head an advice? */
static bool advises(const es_table *heads)
{
    for (int64_t i = 0; i < es_table_rows(heads); i++)
        if (*es_table_get_text(heads, i, "advice"))
            return true;
    return false;
}

static void put_class(const es_table *heads, es_regime kind, double n, double *room, es_table *to)
{
    static const char *const medians[] = {"rate_map", "rate_map_exact", "ess_n"};
    static const char *const policies[ES_PROBE_POLICIES] = {"random", "top", "top_random"};
    const char *name = es_regime_name(kind);
    const int64_t row = es_table_row(to);
    es_table_text(to, row, "class", name);
    es_table_count(to, row, "heads", heads_of(heads, name, NULL));
    for (size_t i = 0; i < sizeof medians / sizeof *medians; i++)
        es_table_real(to, row, medians[i], median_of(heads, name, medians[i], room));
    for (int64_t i = 0; i < ES_PROBE_POLICIES && advises(heads); i++)
        es_table_count(to, row, policies[i], heads_of(heads, name, es_probe_policy_name(i)));
    put_meaning(kind, n, to, row);
}

/* The row with the largest `moves` that is not yet taken, the first of equals; -1: none is left. */
static int64_t next_of(const es_table *heads, double *room)
{
    int64_t most = -1;
    for (int64_t i = 0; i < es_table_rows(heads); i++)
        if (room[i] >= 0.0 && (most < 0 || room[i] > room[most]))
            most = i;
    if (most >= 0)
        room[most] = (double)NAN;
    return most;
}

static void copy_numbers(const es_table *heads, int64_t from, const char *const *keys, es_table *to,
                         int64_t row)
{
    for (; *keys; keys++)
        es_table_real(to, row, *keys, es_table_get(heads, from, *keys));
}

static void put_matter(const es_table *heads, int64_t from, es_table *to)
{
    static const char *const numbers[] = {"layer",    "head",           "moves",
                                          "moves_se", "relative_error", "relative_error_se",
                                          "rate_map", "rate_map_se",    "rate_map_exact",
                                          "ess_n",    "ess_n_se",       NULL};
    static const char *const policies[] = {"random_error", "top_error", "top_random_error", NULL};
    const int64_t row = es_table_row(to);
    const char *domain = es_table_get_text(heads, from, "domain");
    const char *advice = es_table_get_text(heads, from, "advice");
    if (*domain)
        es_table_text(to, row, "domain", domain);
    es_table_text(to, row, "class", es_table_get_text(heads, from, "class"));
    copy_numbers(heads, from, numbers, to, row);
    if (*advice) {
        es_table_text(to, row, "advice", advice);
        copy_numbers(heads, from, policies, to, row);
    }
}

es_status probe_sum_up_classes(es_job *job, const es_table *heads, double n, es_table *classes,
                               es_table *matter, es_error *err)
{
    const int64_t rows = es_table_rows(heads);
    double *room;
    ES_TRY(ES_JOB_NEW(job, room, rows, err));
    for (int i = 0; i < ES_REGIMES; i++)
        put_class(heads, probe_classes_order[i], n, room, classes);
    for (int64_t i = 0; i < rows; i++)
        room[i] = es_table_get(heads, i, "moves");
    for (int taken = 0; taken < PROBE_MATTER_MOST; taken++) {
        const int64_t from = next_of(heads, room);
        if (from < 0)
            break;
        put_matter(heads, from, matter);
    }
    return ES_OK;
}
