/* SPDX-License-Identifier: Apache-2.0 */
/* heads.c : the tables `heads`, `preferred` and `changes`: the best policy of each head, how many
 * heads of a regime prefer it, and where it changes with the number of keys.
 *
 * Random keys suit heads that average, the largest weights those that select, and half of each
 * the ones between (THEORY 13). Two bests are named: among all policies, and among those that a
 * serving system can run, which do not need the scores of the current query. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/sparse/sparse.h"
#include "stats/average.h"
#include "theory/key_weights.h"

/* ---- one head ---- */

es_regime sparse_regime_of(const sparse_row *row)
{
    return es_regime_within(row->seen, row->ess, row->ess);
}

/* Returns the plan of a word at s->grid[at]; -1: none. */
static int64_t plan_of(const sparse_state *s, const char *word, int64_t at)
{
    for (int64_t i = 0; i < s->n_plans; i++)
        if (s->plans[i].keys == s->grid[at] && strcmp(s->plans[i].word, word) == 0)
            return i;
    return -1;
}

/* Returns whether a plan is compared: not `full`, which saves nothing, and not `limit`, which
 * cannot be run. */
static bool competes(const sparse_state *s, int64_t plan, int64_t at, bool deployable)
{
    const es_policy *policy = s->specs[plan].policy; /* of a plan file: of one head */
    return s->plans[plan].keys == s->grid[at] && policy != es_policy_at(0) &&
           !(es_policy_inputs(policy) & ES_POLICY_REACH) &&
           (s->plans[plan].deployable || !deployable);
}

/* Returns the plan of smallest error at s->grid[at], the first of equals; -1: there is none, or the
 * head has no spread, so that all plans are equal. */
static int64_t best_of(const sparse_state *s, const sparse_row *head, int64_t at, bool deployable)
{
    int64_t best = -1;
    for (int64_t i = 0; sparse_has_spread(head) && i < s->n_plans; i++)
        if (competes(s, i, at, deployable) &&
            (best < 0 || sparse_error2(&head[i]) < sparse_error2(&head[best])))
            best = i;
    return best;
}

/* Returns the error of a plan in spreads; NaN without a plan. */
static double error_of(const sparse_row *head, int64_t plan)
{
    return plan < 0 ? (double)NAN : sqrt(sparse_error2(&head[plan]) / head[plan].spread2);
}

/* ---- heads ---- */

/* A row of the table of heads: the best policy at one number of keys. */
typedef struct head_row {
    int64_t layer, head, keys;
    const char *regime;
    double ess;
    const char *best;
    es_measured best_error;
    const char *best_deployable;
    double deployable_error;
    double random, top, top_random, bigbird, bigbird_inverse; /* errors of these policies */
    double limit;
} head_row;

static const es_column head_columns[] = {
    ES_COL(head_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(head_row, keys, ES_FORMAT_COUNT, "keys", "keys", "to keep, as asked"),
    ES_COL(head_row, regime, ES_FORMAT_TEXT, "regime", "", "by the ESS of the median query"),
    ES_COL(head_row, ess, ES_FORMAT_SHORT, "ESS", "keys",
           "`1/sum w^2` over all keys, of the median query"),
    ES_COL(head_row, best, ES_FORMAT_TEXT, "best", "",
           "policy of smallest error: the exact one, where there is one"),
    ES_COL(head_row, best_error, ES_FORMAT_REAL, "its error", "spreads",
           "root mean square, in spreads"),
    ES_COL(head_row, best_deployable, ES_FORMAT_TEXT, "best without scores", "",
           "best of the policies that use no scores of this query; keys are still chosen anew for "
           "every query"),
    ES_COL(head_row, deployable_error, ES_FORMAT_SHORT, "its error", "spreads"),
    ES_COL(head_row, random, ES_FORMAT_SHORT, "random", "spreads", "error of that policy"),
    ES_COL(head_row, top, ES_FORMAT_SHORT, "top", "spreads"),
    ES_COL(head_row, top_random, ES_FORMAT_SHORT, "top-random", "spreads"),
    ES_COL(head_row, bigbird, ES_FORMAT_SHORT, "bigbird", "spreads", "as published"),
    ES_COL(head_row, bigbird_inverse, ES_FORMAT_SHORT, "corrected", "spreads",
           "bigbird+inverse: random keys over their probability"),
    ES_COL(head_row, limit, ES_FORMAT_SHORT, "limit", "spreads",
           "no unbiased policy that keeps as many keys independently does better, to first order",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec heads_table = {
    "heads", head_columns,
    ES_VIEW("The best policy of each head",
            "layer head keys regime best best_error random top top_random bigbird bigbird_inverse "
            "limit best_deployable deployable_error"),
    ES_ROW(head_row), .keys = "layer head keys"};

/* State that the functions that fill rows share. */
typedef struct summary_ctx {
    const sparse_state *s;
    const sparse_row *rows; /* (places, plans) */
    es_table *by_head, *preferred, *changes;
    double *scratch; /* (places) */
    int64_t main;    /* of the grid: the number of keys that findings are about */
    int64_t heads;   /* that have a best policy there */
} summary_ctx;

/* Returns the first row of a head; the rows of its plans follow. */
static const sparse_row *head_at(const summary_ctx *m, int64_t place)
{
    return m->rows + place * m->s->n_plans;
}

/* Sets *out to the error of the plan `word` at s->grid[at], if there is one. */
static void set_error(const summary_ctx *m, const sparse_row *head, const char *word, int64_t at,
                      double *out)
{
    const int64_t plan = plan_of(m->s, word, at);
    if (plan >= 0)
        *out = error_of(head, plan);
}

/* Adds the row of a head at one number of keys: the best policy, the best that a serving system can
 * run, and their errors. */
static void add_head(const summary_ctx *m, int64_t place, int64_t at)
{
    const sparse_state *s = m->s;
    const sparse_row *head = head_at(m, place);
    const int64_t best = best_of(s, head, at, false), fit = best_of(s, head, at, true);
    head_row *row = best >= 0 ? es_rows_add(m->by_head, head_row) : NULL;
    if (!row)
        return;
    const sparse_row *r = &head[best];
    row->layer = r->name.layer;
    row->head = r->name.head;
    row->keys = s->grid[at];
    row->regime = r->regime;
    row->ess = r->ess;
    row->best = es_table_format(m->by_head, "%s", s->plans[best].word);
    row->best_error = (es_measured){error_of(head, best), r->relative_error.se};
    row->limit = sqrt(r->mse_limit / r->spread2);
    if (fit >= 0) {
        row->best_deployable = es_table_format(m->by_head, "%s", s->plans[fit].word);
        row->deployable_error = error_of(head, fit);
    }
    set_error(m, head, "random", at, &row->random);
    set_error(m, head, "top", at, &row->top);
    set_error(m, head, "top-random", at, &row->top_random);
    set_error(m, head, "bigbird", at, &row->bigbird);
    set_error(m, head, "bigbird+inverse", at, &row->bigbird_inverse);
}

/* ---- preferred ---- */

/* A row of the table of preferred policies by class of head. */
typedef struct preferred_row {
    int64_t keys;
    const char *regime, *policy;
    int64_t heads;
    double error;
} preferred_row;

static const es_column preferred_columns[] = {
    ES_COL(preferred_row, keys, ES_FORMAT_COUNT, "keys", "keys"),
    ES_COL(preferred_row, regime, ES_FORMAT_TEXT, "regime", ""),
    ES_COL(preferred_row, policy, ES_FORMAT_TEXT, "policy", "", "best policy of these heads"),
    ES_COL(preferred_row, heads, ES_FORMAT_COUNT, "heads", ""),
    ES_COL(preferred_row, error, ES_FORMAT_SHORT, "error", "spreads", "median over these heads"),
    {0}};
static const es_table_spec preferred_table = {"preferred", preferred_columns,
                                              ES_VIEW("Heads by regime and their best policy"),
                                              ES_ROW(preferred_row), .keys = "keys regime policy"};

/* Adds the heads of a regime whose best plan at s->grid[at] has that word, if there are any. */
static void add_preferred(const summary_ctx *m, int64_t at, es_regime kind, int64_t word)
{
    const sparse_state *s = m->s;
    const char *name = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        const sparse_row *head = head_at(m, i);
        const int64_t best = best_of(s, head, at, false);
        if (best < 0 || s->plans[best].policy != word || sparse_regime_of(head) != kind)
            continue;
        name = s->plans[best].word;
        m->scratch[count++] = error_of(head, best);
    }
    preferred_row *row = count ? es_rows_add(m->preferred, preferred_row) : NULL;
    if (!row)
        return;
    es_sort_reals(m->scratch, count);
    row->keys = s->grid[at];
    row->regime = es_regime_name(kind);
    row->policy = es_table_format(m->preferred, "%s", name);
    row->heads = count;
    row->error = es_median_of(m->scratch, count);
}

/* ---- changes ---- */

/* A row of the table of heads whose best policy changes with the number of keys. */
typedef struct change_row {
    int64_t layer, head;
    const char *regime;
    int64_t changes;
    const char *best;
} change_row;

static const es_column change_columns[] = {
    ES_COL(change_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(change_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(change_row, regime, ES_FORMAT_TEXT, "regime", ""),
    ES_COL(change_row, changes, ES_FORMAT_COUNT, "changes", "",
           "how often the best policy changes with the number of keys"),
    ES_COL(change_row, best, ES_FORMAT_TEXT, "best policy", "",
           "with the numbers of keys where it is best"),
    {0}};
static const es_table_spec changes_table = {
    "changes", change_columns,
    ES_VIEW("Where the best policy changes with the number of keys", .only_with_full = true),
    ES_ROW(change_row), .keys = "layer head"};

/* Adds the row of a head: "top 16-64, top-random 128-256". */
static void add_changes(const summary_ctx *m, int64_t place)
{
    const sparse_state *s = m->s;
    const sparse_row *head = head_at(m, place);
    char text[512] = "";
    int64_t runs = 0;
    for (int64_t at = 0; at < s->n_grid;) {
        const int64_t best = best_of(s, head, at, false);
        if (best < 0)
            return;
        int64_t end = at + 1;
        while (end < s->n_grid &&
               s->plans[best_of(s, head, end, false)].policy == s->plans[best].policy)
            end++;
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s %lld", runs++ ? ", " : "",
                 s->plans[best].word, (long long)s->grid[at]);
        if (end > at + 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), "-%lld",
                     (long long)s->grid[end - 1]);
        at = end;
    }
    change_row *row = es_rows_add(m->changes, change_row);
    if (row)
        *row = (change_row){.layer = head->name.layer,
                            .head = head->name.head,
                            .regime = head->regime,
                            .changes = runs - 1,
                            .best = es_table_format(m->changes, "%s", text)};
}

/* ---- findings ---- */

/* Returns how many heads do best with a word at the main number of keys. */
static int64_t heads_of(const summary_ctx *m, int64_t word, bool deployable)
{
    int64_t count = 0;
    for (int64_t i = 0; i < m->s->n_places; i++) {
        const int64_t best = best_of(m->s, head_at(m, i), m->main, deployable);
        count += best >= 0 && m->s->plans[best].policy == word;
    }
    return count;
}

/* Returns the medians over heads of the error of each head's best plan, and of its standard error.
 */
static es_measured median_best(const summary_ctx *m, bool deployable)
{
    const sparse_state *s = m->s;
    es_measured out;
    double *const to[2] = {&out.value, &out.se};
    for (int which = 0; which < 2; which++) {
        int64_t count = 0;
        for (int64_t i = 0; i < s->n_places; i++) {
            const sparse_row *head = head_at(m, i);
            const int64_t best = best_of(s, head, m->main, deployable);
            if (best >= 0)
                m->scratch[count++] = which ? head[best].relative_error.se : error_of(head, best);
        }
        es_sort_reals(m->scratch, count);
        *to[which] = es_median_of(m->scratch, count);
    }
    return out;
}

/* Writes "top in 41 of 72 heads, random in 20": most first. */
static const char *list_words(const summary_ctx *m, bool deployable, char *out, size_t size)
{
    const sparse_state *s = m->s;
    int64_t below = m->heads + 1;
    *out = '\0';
    while (below > 1) {
        int64_t next = 0;
        for (int64_t w = 0; w < s->n_words; w++) {
            const int64_t count = heads_of(m, w, deployable);
            next = count < below && count > next ? count : next;
        }
        for (int64_t i = 0; next > 0 && i < s->n_plans; i++) {
            if (s->plans[i].keys != s->grid[m->main] ||
                heads_of(m, s->plans[i].policy, deployable) != next)
                continue;
            const size_t used = strlen(out);
            if (m->heads == 1)
                snprintf(out, size, "%s", s->plans[i].word);
            else if (used == 0)
                snprintf(out, size, "%s in %lld of %lld heads", s->plans[i].word, (long long)next,
                         (long long)m->heads);
            else
                snprintf(out + used, size - used, ", %s in %lld", s->plans[i].word,
                         (long long)next);
        }
        below = next;
    }
    return out;
}

/* Reports the error of the median head at the main number of keys. */
static void report_error(const summary_ctx *m, es_answer *answer)
{
    const sparse_state *s = m->s;
    const es_measured best = median_best(m, false);
    char seen[ES_SAY_SIZE], error[ES_SAY_SIZE];
    bool ideal = false;
    for (int64_t i = 0; i < s->n_plans; i++)
        ideal = ideal || (competes(s, i, m->main, false) && !es_policy_rolls(&s->specs[i]));
    es_answer_add_finding(
        answer, "With %lld of %s, %s output is off by %s of the spread of its values%s.%s",
        (long long)s->grid[m->main], sparse_say_seen(s, (double)s->grid[m->main], seen),
        m->heads == 1 ? "the head's" : "the median head's",
        es_say_number(best.value, best.se, error), s->n_words > 1 ? ", under the best policy" : "",
        !ideal      ? ""
        : s->causal ? " Ideal: keys are chosen anew for every query, which saves no "
                      "memory; a cache that drops keys (--evict) loses more."
                    : " Ideal: keys are chosen anew for every query.");
}

/* Reports which policies are best, with and without the scores of the query that chooses. */
static void report_policies(const summary_ctx *m, es_answer *answer)
{
    const sparse_state *s = m->s;
    char words[512], others[512], error[ES_SAY_SIZE];
    bool scores = false, without = false;
    for (int64_t i = 0; i < s->n_plans; i++) {
        scores = scores || (competes(s, i, m->main, false) && !s->plans[i].deployable);
        without = without || competes(s, i, m->main, true);
    }
    list_words(m, false, words, sizeof words);
    if (!scores || !without) {
        if (s->n_words > 1)
            es_answer_add_finding(answer, "Best policy: %s.", words);
        return;
    }
    const es_measured best = median_best(m, true);
    es_answer_add_finding(answer,
                          "Best policy: %s. Of policies that do not need the scores of this query: "
                          "%s; %s is then off by %s.",
                          words, list_words(m, true, others, sizeof others),
                          m->heads == 1 ? "the head" : "the median head",
                          es_say_number(best.value, best.se, error));
}

/* Warns of heads without a spread: all other findings leave them out. */
static void report_flat(const sparse_state *s, const sparse_row *rows, es_answer *answer)
{
    int64_t flat = 0;
    for (int64_t i = 0; i < s->n_places; i++)
        flat += !sparse_has_spread(rows + i * s->n_plans);
    if (flat)
        es_answer_add_finding(
            answer,
            "Caution: %lld of %lld head%s put all weight on equal values: their spread is 0, so "
            "no policy is the best.",
            (long long)flat, (long long)s->n_places, s->n_places == 1 ? "" : "s");
}

/* ---- all of it ---- */

/* Returns the place in the grid of the number of keys nearest to an eighth of the context, on a
 * logarithmic scale. */
static int64_t main_of(const sparse_state *s)
{
    int64_t best = 0;
    for (int64_t i = 1; i < s->n_grid; i++)
        if (fabs(log(8.0 * (double)s->grid[i] / (double)s->n)) <
            fabs(log(8.0 * (double)s->grid[best] / (double)s->n)))
            best = i;
    return best;
}

es_status sparse_put_heads(es_job *job, const sparse_row *rows, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    summary_ctx m = {.s = s, .rows = rows, .main = main_of(s)};
    report_flat(s, rows, answer);
    for (int64_t i = 0; i < s->n_places; i++)
        m.heads += best_of(s, rows + i * s->n_plans, m.main, false) >= 0;
    if (!m.heads)
        return ES_OK; /* no plan has a number of keys, or no head a spread: see `rows` */
    ES_TRY(ES_JOB_NEW(job, m.scratch, s->n_places, err));
    m.by_head = es_answer_table(answer, &heads_table);
    m.preferred = es_answer_table(answer, &preferred_table);
    m.changes = es_answer_table(answer, &changes_table);
    /* the main number of keys first: it is what a short view shows */
    for (int64_t k = 0; k < s->n_grid; k++) {
        const int64_t at = k == 0 ? m.main : k <= m.main ? k - 1 : k;
        for (int64_t i = 0; i < s->n_places; i++)
            add_head(&m, i, at);
        for (int kind = 0; kind < ES_REGIMES; kind++)
            for (int64_t w = 0; w < s->n_words; w++)
                add_preferred(&m, at, (es_regime)kind, w);
    }
    for (int64_t i = 0; i < s->n_places; i++)
        add_changes(&m, i);
    report_error(&m, answer);
    report_policies(&m, answer);
    return ES_OK;
}
