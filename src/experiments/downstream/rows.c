/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : tables "rows" and "texts": every policy and amount beside the full model, and sentences
 * about them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/downstream/downstream.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/pool_params.h"
#include "model/model.h"

/* ---- tables ---- */

/* A row of the main table: what a policy costs. */
typedef struct policy_row {
    downstream_asked asked;
    downstream_cost cost;
    int64_t texts;
} policy_row;

static const es_column row_columns[] = {
    DOWNSTREAM_ASKED_COLUMNS(policy_row),
    DOWNSTREAM_COST_COLUMNS(policy_row),
    ES_COL(policy_row, texts, ES_FORMAT_COUNT, "texts", "",
           "texts, or documents of several texts, each counted once"),
    {0}};
static const es_table_spec rows_table = {"rows", row_columns,
                                         ES_VIEW("What keeping some of the keys costs",
                                                 "evict policy keep keys_asked k_type v_type keys "
                                                 "accuracy lost lost_p agreement kl cosine recall "
                                                 "recall_query"),
                                         ES_ROW(policy_row),
                                         .keys = "evict policy keep keys_asked k_type v_type"};

/* The row about the texts. */
typedef struct text_row {
    int64_t texts;
    double tokens;
    int64_t longest, cut, left_out;
} text_row;

static const es_column text_columns[] = {
    ES_COL(text_row, texts, ES_FORMAT_COUNT, "texts", "", "given to the model"),
    ES_COL(text_row, tokens, ES_FORMAT_SHORT, "tokens", "tokens",
           "of a text, specials included; mean"),
    ES_COL(text_row, longest, ES_FORMAT_COUNT, "longest", "tokens"),
    ES_COL(text_row, cut, ES_FORMAT_COUNT, "cut", "",
           "texts cut because they are longer than the model's positions"),
    ES_COL(text_row, left_out, ES_FORMAT_COUNT, "left out", "",
           "texts of the file that were not used: too short, left over, or beyond --most"),
    {0}};
static const es_table_spec texts_table = {"texts", text_columns,
                                          ES_VIEW("Texts", .only_with_full = true),
                                          ES_ROW(text_row), .record = true};

/* Adds the rows of the full model and of every policy and amount. */
static es_status add_rows(es_job *job, es_table *t, es_error *err)
{
    const downstream_state *s = job->state;
    const int64_t count = 1 + s->n_rows;
    double *costs;
    ES_TRY(ES_JOB_NEW(job, costs, s->count, err));
    for (int64_t i = 0; i < count; i++) {
        policy_row *r = es_rows_add(t, policy_row);
        if (!r)
            return es_answer_status(job->answer, err);
        downstream_fill_asked(job, i, t, &r->asked);
        ES_TRY(downstream_compare(job, i, &r->cost, costs, err));
        r->texts = s->count;
    }
    policy_row *rows = es_rows(t, policy_row) + 1; /* the first is the full model */
    return DOWNSTREAM_CORRECT(job, rows, policy_row, cost.lost_p, s->n_rows, err);
}

/* Fills the table about the texts. */
static void add_texts(const es_job *job, es_answer *a)
{
    const downstream_state *s = job->state;
    text_row *r = es_rows_add(es_answer_table(a, &texts_table), text_row);
    if (!r)
        return;
    r->texts = s->count;
    r->tokens = (double)s->texts.ids / (double)s->count;
    r->longest = s->texts.longest;
    r->cut = s->texts.cut;
    r->left_out = s->texts.left_out;
}

/* ---- sentences ---- */

/* Writes "91.7 ± 5.6". A standard error of 0, where all texts or none are right, is left out: it
 * would say that these few texts leave no error. */
static const char *say_percent(es_measured m, char out[ES_SAY_SIZE])
{
    if (m.se > 0.0)
        return es_say_number(100.0 * m.value, 100.0 * m.se, out);
    snprintf(out, ES_SAY_SIZE, "%.3g", 100.0 * m.value);
    return out;
}

/* Adds the accuracy with all keys, to which others are compared. */
static void report_full(const es_job *job, const policy_row *full, es_answer *a)
{
    const downstream_state *s = job->state;
    const downstream_params *p = job->params;
    const es_measured m = full->cost.accuracy;
    char accuracy[ES_SAY_SIZE], share[ES_SAY_SIZE + 8] = "all";
    if (s->lab.embed)
        return;
    if (m.value < 1.0)
        snprintf(share, sizeof share, "%s %% of", say_percent(m, accuracy));
    es_answer_add_finding(
        a, "With all keys the model labels %s %lld %s right (%.3g tokens each on average).", share,
        (long long)s->count, p->concat ? "documents" : "texts",
        (double)s->texts.ids / (double)s->count);
}

/* Appends "top 88.1 +- 1.1 % (KL 0.02 +- 0.01)". */
static void say_cost(const downstream_state *s, int64_t row, const downstream_cost *c, char *out,
                     size_t size)
{
    char word[DOWNSTREAM_SIZE], number[ES_SAY_SIZE], more[ES_SAY_SIZE];
    const size_t used = strlen(out);
    const char *before = used ? ", " : "";
    downstream_word(s, row, word);
    if (s->lab.embed)
        snprintf(out + used, size - used, "%s%s %s (same nearest neighbour: %s %%)", before, word,
                 es_say_number(c->cosine.value, c->cosine.se, number),
                 es_say_number(100.0 * c->recall.value, 100.0 * c->recall.se, more));
    else
        snprintf(out + used, size - used, "%s%s %s %% (KL %s)", before, word,
                 say_percent(c->accuracy, number), es_say_number(c->kl.value, c->kl.se, more));
}

/* Returns true if two policies keep the same share or number of keys. */
static bool same_amount(const es_thinning *a, const es_thinning *b)
{
    return a->share == b->share && (a->share > 0.0 || a->spec.keys == b->spec.keys);
}

/* Writes " of a whole text (34.8 to 36 of the 79.5 that a query sees)" if a share of the keys is
 * not one of those that queries see: in a decoder. rows as in report_amount(). */
static const char *say_seen(const downstream_state *s, int64_t like, const policy_row *rows,
                            char out[DOWNSTREAM_SIZE])
{
    const es_thinning *t = &s->rows[like];
    const bool prompt = t->cache && t->cache->mode == ES_EVICT_PROMPT;
    double least = INFINITY, most = 0.0;
    char first[ES_SAY_SIZE] = "";
    out[0] = '\0';
    if (!s->config->causal || prompt || t->plan || !(t->share > 0.0) || t->share >= 1.0)
        return out;
    for (int64_t r = 0; r < s->n_rows; r++)
        if (same_amount(&s->rows[r], t)) {
            least = fmin(least, rows[r].asked.keys);
            most = fmax(most, rows[r].asked.keys);
        }
    if (most > 1.01 * least)
        snprintf(first, sizeof first, "%.3g to ", least);
    snprintf(out, DOWNSTREAM_SIZE, " of a whole text (%s%.3g of the %.3g that a query sees)", first,
             most, rows[-1].asked.keys);
    return out;
}

/* Compares all policies at the amount of s->rows[like]. rows (n_rows) are those of the policies;
 * that of the full model is before them. */
static void report_amount(const es_job *job, int64_t like, const policy_row *rows, es_answer *a)
{
    const downstream_state *s = job->state;
    char list[1024] = "", keep[DOWNSTREAM_SIZE], seen[DOWNSTREAM_SIZE];
    for (int64_t r = 0; r < s->n_rows; r++)
        if (same_amount(&s->rows[r], &s->rows[like]))
            say_cost(s, r, &rows[r].cost, list, sizeof list);
    es_answer_add_finding(a, "With %s%s, %s by %s: %s.", downstream_say_keep(&s->rows[like], keep),
                          say_seen(s, like, rows, seen),
                          s->lab.embed ? "cosine with the full model's embedding" : "accuracy",
                          s->rows[like].cache ? "setting" : "policy", list);
}

int64_t downstream_middle(const downstream_state *s)
{
    int64_t best = 0;
    for (int64_t r = 0; r < s->n_rows; r++)
        if (s->rows[r].share > 0.0 &&
            fabs(log(8.0 * s->rows[r].share)) < fabs(log(8.0 * fmax(s->rows[best].share, 1e-9))))
            best = r;
    return best;
}

/* Tolerated loss of accuracy, in percentage points. */
#define ENOUGH 2.0

/* Returns whether two rows differ in their number of keys alone. */
static bool same_word(const downstream_state *s, int64_t a, int64_t b)
{
    char x[DOWNSTREAM_SIZE], y[DOWNSTREAM_SIZE];
    return strcmp(downstream_word(s, a, x), downstream_word(s, b, y)) == 0;
}

/* Returns whether this row, and all rows of its policy with more keys, lose less than ENOUGH with
 * 95 % confidence. Keeping all keys does not count. */
static bool is_enough(const downstream_state *s, const policy_row *rows, int64_t row)
{
    for (int64_t r = 0; r < s->n_rows; r++)
        if (same_word(s, r, row) && rows[r].asked.keys >= rows[row].asked.keys &&
            100.0 * rows[r].cost.lost_high > ENOUGH)
            return false;
    return s->rows[row].share < 1.0;
}

/* Names the fewest keys of each policy that are enough. */
static void report_enough(const es_job *job, const policy_row *rows, es_answer *a)
{
    const downstream_state *s = job->state;
    char list[1024] = "", word[DOWNSTREAM_SIZE], keep[DOWNSTREAM_SIZE];
    for (int64_t r = 0; r < s->n_rows; r++) {
        const size_t used = strlen(list);
        bool least = is_enough(s, rows, r);
        for (int64_t q = 0; q < s->n_rows && least; q++)
            least = !same_word(s, q, r) || rows[q].asked.keys >= rows[r].asked.keys ||
                    !is_enough(s, rows, q);
        if (least)
            snprintf(
                list + used, sizeof list - used, "%s%s%s%s", used ? ", " : "",
                downstream_word(s, r, word), downstream_only_rounds(&s->rows[r]) ? "" : " down to ",
                downstream_only_rounds(&s->rows[r]) ? "" : downstream_say_keep(&s->rows[r], keep));
    }
    if (*list)
        es_answer_add_finding(
            a, "Accuracy falls by less than %.0f points (95 %% confidence) with: %s.", ENOUGH,
            list);
    else
        es_answer_add_finding(a,
                              "No policy is shown to lose less than %.0f points of accuracy (95 %% "
                              "confidence).",
                              ENOUGH);
}

/* Returns the tokens after which caches drop keys of each text: -1: of no text, 0: half of it. */
static int64_t prompt_of(const downstream_state *s)
{
    const es_thinning *t = s->n_rows ? &s->rows[0] : NULL;
    return !t || !t->cache || t->cache->mode != ES_EVICT_PROMPT ? -1
           : t->half                                            ? 0
                                                                : t->cache->prompt;
}

/* Says when a decoder's keys are dropped, and that other policies are a bound. */
static void report_mode(const es_job *job, es_answer *a)
{
    const downstream_params *p = job->params;
    const downstream_state *s = job->state;
    const int64_t prompt = prompt_of(s);
    char words[ES_SAY_SIZE] = "half";
    if (!s->config->causal || !s->n_rows)
        return;
    if (prompt > 0)
        snprintf(words, sizeof words, "the first %lld tokens", (long long)prompt);
    if (prompt >= 0)
        es_answer_add_finding(a,
                              "Keys are dropped once, after %s of each text; only later tokens "
                              "change.",
                              words);
    else if (!s->plan && !es_cache_asked(&p->cache))
        es_answer_add_finding(a, "Ideal: keys are chosen anew for every query, which saves no "
                                 "memory; a cache that drops "
                                 "keys (--evict) loses more.");
}

/* Returns how many texts are not longer than the prompt, and so lose no keys in prompt mode. */
static int64_t count_untouched(const downstream_state *s)
{
    const int64_t *start = s->texts.blocks.start, prompt = prompt_of(s);
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++)
        count += start[i + 1] - start[i] <= prompt;
    return count;
}

/* Adds cautions about texts that were cut, are short, or have nothing dropped or rounded. */
static void report_texts(const es_job *job, es_answer *a)
{
    const downstream_state *s = job->state;
    const double tokens = (double)s->texts.ids / (double)s->count;
    const int64_t untouched = count_untouched(s);
    if (s->plan)
        es_plan_caution(s->plan, s->texts.longest, "texts have up to", a);
    if (untouched)
        es_answer_add_finding(a,
                              "Caution: %lld of %lld texts are not longer than the prompt and lose "
                              "no keys.",
                              (long long)untouched, (long long)s->count);
    for (int64_t r = 0; r < s->n_rows; r++)
        if (s->rows[r].cache && es_cache_caution(s->rows[r].cache, s->texts.longest, a))
            break;
    if (s->texts.cut)
        es_answer_add_finding(
            a, "Caution: %lld of %lld texts were cut at the model's %lld positions.",
            (long long)s->texts.cut, (long long)s->count, (long long)s->config->positions);
    if (tokens < 64.0 && !s->lab.embed)
        es_answer_add_finding(a,
                              "Caution: texts have %.3g tokens on average, so 1/8 of the keys is a "
                              "handful; --concat makes longer texts.",
                              tokens);
}

/* ---- all of it ---- */

es_status downstream_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const downstream_params *p = job->params;
    downstream_state *s = job->state;
    es_table *t = es_answer_table(answer, &rows_table);
    if (s->lab.embed) {
        ES_TRY(ES_JOB_NEW(job, s->neighbours, s->count, err));
        ES_TRY(downstream_nearest(job, 0, 0, true, s->neighbours, err));
    }
    ES_TRY(add_rows(job, t, err));
    /* Three findings: those of strata and --ablate take the place of general ones. */
    const policy_row *rows = es_rows(t, policy_row);
    const int special = p->strata + p->text_strata + p->ablate;
    report_full(job, &rows[0], answer);
    if (s->n_rows && special < 2)
        report_amount(job, downstream_middle(s), rows + 1, answer);
    if (s->n_rows && !s->lab.embed && !special)
        report_enough(job, rows + 1, answer);
    report_mode(job, answer);
    if (p->strata)
        ES_TRY(downstream_put_strata(job, answer, err));
    if (p->text_strata)
        ES_TRY(downstream_put_text_strata(job, answer, err));
    if (p->ablate)
        ES_TRY(downstream_put_heads(job, answer, err));
    if (p->strata || p->ablate)
        es_caution_scores(s->config, "horizons of heads are", answer);
    else if (p->text_strata)
        es_caution_scores(s->config, "horizons of texts are", answer);
    report_texts(job, answer);
    add_texts(job, answer);
    es_answer_text(answer, "model", es_model_folder(s->model));
    return ES_OK;
}
