/* heads.c : which policy a head wants: the best at every number of keys, where that changes,
 * and whether regimes decide it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/sparse/question.h"
#include "stats/average.h"
#include "theory/key_weights.h"

/* ---- one head ---- */

static es_regime regime_of(const sparse_row *r) { return es_regime_within(r->n, r->ess, r->ess); }

const char *sparse_regime(const sparse_row *row) { return es_regime_name(regime_of(row)); }

int64_t sparse_plan_of(const sparse_state *s, const char *word, int64_t at)
{
    for (int64_t i = 0; i < s->n_plans; i++)
        if (s->plans[i].keys == s->grid[at] && strcmp(s->plans[i].word, word) == 0)
            return i;
    return -1;
}

/* Could anybody want it? All keys are no saving, and the limit is nobody's to run. */
static bool competes(const sparse_state *s, int64_t plan, int64_t at, bool deployable)
{
    const es_policy *policy = s->specs[plan].policy; /* of a plan file: some head's, at no number */
    return s->plans[plan].keys == s->grid[at] && policy != es_policy_at(0) &&
           !(es_policy_inputs(policy) & ES_POLICY_REACH) &&
           (s->plans[plan].deployable || !deployable);
}

/* The plan of smallest error at s->grid[at], the first of equals; -1: there is none, or all plans
 * are the same to this head. */
static int64_t best_of(const sparse_state *s, const sparse_row *head, int64_t at, bool deployable)
{
    int64_t best = -1;
    for (int64_t i = 0; sparse_has_spread(head) && i < s->n_plans; i++)
        if (competes(s, i, at, deployable) &&
            (best < 0 || sparse_error2(&head[i]) < sparse_error2(&head[best])))
            best = i;
    return best;
}

/* In spreads. */
static double error_of(const sparse_row *head, int64_t plan)
{
    return plan < 0 ? (double)NAN : sqrt(sparse_error2(&head[plan]) / head[plan].spread2);
}

/* ---- tables ---- */

static const es_column head_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"keys", "keys", "keys", ES_FORMAT_COUNT, "that are kept, as asked"},
    {"regime", "regime", "", ES_FORMAT_TEXT, "by the ESS of the median query"},
    {"ess", "ESS", "keys", ES_FORMAT_SHORT, "1/sum w^2 over all keys, of the median query"},
    {"best", "best", "", ES_FORMAT_TEXT,
     "policy of smallest error: the exact one, where there is one"},
    {"best_error", "its error", "spreads", ES_FORMAT_REAL, "root mean square, in spreads",
     .error = "best_error_se"},
    {"best_deployable", "best without scores", "", ES_FORMAT_TEXT,
     "of those that know no scores of this query before they choose; still chosen anew for every "
     "query"},
    {"deployable_error", "its error", "spreads", ES_FORMAT_SHORT},
    {"random", "random", "spreads", ES_FORMAT_SHORT, "error of that policy"},
    {"top", "top", "spreads", ES_FORMAT_SHORT},
    {"top_random", "top-random", "spreads", ES_FORMAT_SHORT},
    {"bigbird", "bigbird", "spreads", ES_FORMAT_SHORT, "as published"},
    {"bigbird_inverse", "corrected", "spreads", ES_FORMAT_SHORT,
     "bigbird+inverse: random keys over their probability"},
    {"limit", "limit", "spreads", ES_FORMAT_SHORT,
     "no unbiased policy that keeps as many keys independently does better, to first order",
     .standing = ES_STANDING_HEURISTIC},
    {0}};
const es_table_spec sparse_heads_table = {
    "heads", head_columns,
    ES_VIEW("The best policy of each head",
            "layer head keys regime best best_error random top top_random bigbird bigbird_inverse "
            "limit best_deployable deployable_error"),
    .keys = "layer head keys"};

static const es_column best_columns[] = {
    {"keys", "keys", "keys", ES_FORMAT_COUNT},
    {"regime", "regime", "", ES_FORMAT_TEXT},
    {"policy", "policy", "", ES_FORMAT_TEXT, "that these heads do best with"},
    {"heads", "heads", "", ES_FORMAT_COUNT},
    {"error", "error", "spreads", ES_FORMAT_SHORT, "of theirs, median"},
    {0}};
const es_table_spec sparse_best_table = {"preferred", best_columns,
                                         ES_VIEW("Heads by regime and the policy they want"),
                                         .keys = "keys regime policy"};

static const es_column change_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"regime", "regime", "", ES_FORMAT_TEXT},
    {"changes", "changes", "", ES_FORMAT_COUNT,
     "how often the best policy changes along the numbers of keys"},
    {"best", "best policy", "", ES_FORMAT_TEXT, "with the numbers of keys at which it is"},
    {0}};
const es_table_spec sparse_changes_table = {
    "changes", change_columns,
    ES_VIEW("Where the best policy changes with the number of keys", .only_with_full = true),
    .keys = "layer head"};

/* ---- filling them ---- */

typedef struct summary_ctx {
    const sparse_state *s;
    const sparse_row *rows; /* (places, plans) */
    es_table *by_head, *best, *changes;
    double *room;  /* (places) */
    int64_t main;  /* of the grid: the number of keys that sentences are about */
    int64_t heads; /* that have a best policy there */
} summary_ctx;

static const sparse_row *head_at(const summary_ctx *m, int64_t place)
{
    return m->rows + place * m->s->n_plans;
}

static void put_head(const summary_ctx *m, int64_t place, int64_t at)
{
    static const char *const named[][2] = {{"random", "random"},
                                           {"top", "top"},
                                           {"top_random", "top-random"},
                                           {"bigbird", "bigbird"},
                                           {"bigbird_inverse", "bigbird+inverse"}};
    const sparse_state *s = m->s;
    const sparse_row *head = head_at(m, place);
    const int64_t best = best_of(s, head, at, false), fit = best_of(s, head, at, true);
    if (best < 0)
        return;
    const int64_t row = es_table_row(m->by_head);
    const sparse_row *r = &head[best];
    es_table_count(m->by_head, row, "layer", s->places[place].layer);
    es_table_count(m->by_head, row, "head", s->places[place].head);
    es_table_count(m->by_head, row, "keys", s->grid[at]);
    es_table_text(m->by_head, row, "regime", sparse_regime(r));
    es_table_text(m->by_head, row, "best", s->plans[best].word);
    es_put(m->by_head, row, {"ess", r->ess}, {"best_error", error_of(head, best)},
           {"best_error_se", r->relative_se}, {"limit", sqrt(r->limit / r->spread2)});
    if (fit >= 0) {
        es_table_text(m->by_head, row, "best_deployable", s->plans[fit].word);
        es_table_real(m->by_head, row, "deployable_error", error_of(head, fit));
    }
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const int64_t plan = sparse_plan_of(s, named[i][1], at);
        if (plan >= 0)
            es_table_real(m->by_head, row, named[i][0], error_of(head, plan));
    }
}

/* "top 16-64, top-random 128-256" */
static void put_changes(const summary_ctx *m, int64_t place)
{
    const sparse_state *s = m->s;
    const sparse_row *head = head_at(m, place);
    char text[512] = "";
    int64_t runs = 0, row;
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
    row = es_table_row(m->changes);
    es_table_count(m->changes, row, "layer", s->places[place].layer);
    es_table_count(m->changes, row, "head", s->places[place].head);
    es_table_text(m->changes, row, "regime", sparse_regime(head));
    es_table_count(m->changes, row, "changes", runs - 1);
    es_table_text(m->changes, row, "best", text);
}

/* Heads of a regime whose best plan at s->grid[at] is of that word, and their median error. */
static void put_preferred(const summary_ctx *m, int64_t at, es_regime kind, int64_t word)
{
    const sparse_state *s = m->s;
    const char *name = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        const sparse_row *head = head_at(m, i);
        const int64_t best = best_of(s, head, at, false);
        if (best < 0 || s->plans[best].policy != word || regime_of(head) != kind)
            continue;
        name = s->plans[best].word;
        m->room[count++] = error_of(head, best);
    }
    if (!count)
        return;
    const int64_t row = es_table_row(m->best);
    es_sort_reals(m->room, count);
    es_table_count(m->best, row, "keys", s->grid[at]);
    es_table_text(m->best, row, "regime", es_regime_name(kind));
    es_table_text(m->best, row, "policy", name);
    es_table_count(m->best, row, "heads", count);
    es_table_real(m->best, row, "error", es_median_of(m->room, count));
}

/* ---- sentences ---- */

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
                m->room[count++] = which ? head[best].relative_se : error_of(head, best);
        }
        es_sort_reals(m->room, count);
        *to[which] = es_median_of(m->room, count);
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

/* Says what the median head loses at the main number of keys, and that no cache does this. */
static void tell_error(const summary_ctx *m, es_answer *answer)
{
    const sparse_state *s = m->s;
    const es_measured best = median_best(m, false);
    char seen[ES_SAY_ROOM], error[ES_SAY_ROOM];
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
                      "memory."
                    : " Ideal: keys are chosen anew for every query.");
}

/* Says which policies are best, with and without the scores of the query that chooses. */
static void tell_policies(const summary_ctx *m, es_answer *answer)
{
    const sparse_state *s = m->s;
    char words[512], others[512], error[ES_SAY_ROOM];
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
    es_answer_add_finding(
        answer, "Best policy: %s. Without the scores of this query: %s; %s is then off by %s.",
        words, list_words(m, true, others, sizeof others),
        m->heads == 1 ? "the head" : "the median head", es_say_number(best.value, best.se, error));
}

/* Heads that nothing else is said of. */
static void tell_still(const sparse_state *s, const sparse_row *rows, es_answer *answer)
{
    int64_t still = 0;
    for (int64_t i = 0; i < s->n_places; i++)
        still += !sparse_has_spread(rows + i * s->n_plans);
    if (still)
        es_answer_add_finding(
            answer,
            "Caution: in %lld of %lld head%s all weight is on equal values, so that "
            "there is no spread to count errors in, and no policy is the best.",
            (long long)still, (long long)s->n_places, s->n_places == 1 ? "" : "s");
}

/* ---- all of it ---- */

/* The number of keys nearest to an eighth of the context, on a logarithmic scale. */
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
    tell_still(s, rows, answer);
    for (int64_t i = 0; i < s->n_places; i++)
        m.heads += best_of(s, rows + i * s->n_plans, m.main, false) >= 0;
    if (!m.heads)
        return ES_OK; /* parts decide about everything, or nothing does: rows say it all */
    ES_TRY(ES_JOB_NEW(job, m.room, s->n_places, err));
    m.by_head = es_answer_table(answer, &sparse_heads_table);
    m.best = es_answer_table(answer, &sparse_best_table);
    m.changes = es_answer_table(answer, &sparse_changes_table);
    /* the main number of keys first: it is what a short view shows */
    for (int64_t k = 0; k < s->n_grid; k++) {
        const int64_t at = k == 0 ? m.main : k <= m.main ? k - 1 : k;
        for (int64_t i = 0; i < s->n_places; i++)
            put_head(&m, i, at);
        for (int kind = 0; kind < ES_REGIMES; kind++)
            for (int64_t w = 0; w < s->n_words; w++)
                put_preferred(&m, at, (es_regime)kind, w);
    }
    for (int64_t i = 0; i < s->n_places; i++)
        put_changes(&m, i);
    tell_error(&m, answer);
    tell_policies(&m, answer);
    return ES_OK;
}
