/* rows.c : answers become accuracies, agreements and divergences, with their
 * intervals over texts, and sentences about them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/downstream/question.h"
#include "experiments/kit/answer_kit.h"
#include "model/model.h"
#include "stats/multiple.h"
#include "stats/special.h"

/* ---- tables ---- */

static const es_column row_columns[] = {
    DOWNSTREAM_SETTING_COLUMNS,
    DOWNSTREAM_COST_COLUMNS,
    {"texts", "texts", "", ES_FORMAT_COUNT, "texts, or documents of several, each counting once"},
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("What keeping some of the keys costs",
            "policy keep keys_asked keys accuracy lost lost_p agreement kl cosine recall "
            "recall_query"),
    .keys = "policy keep keys_asked"};

static const es_column text_columns[] = {
    {"texts", "texts", "", ES_FORMAT_COUNT, "that the model was asked about"},
    {"tokens", "tokens", "tokens", ES_FORMAT_SHORT, "of a text, specials included; mean"},
    {"longest", "longest", "tokens", ES_FORMAT_COUNT},
    {"cut", "cut", "", ES_FORMAT_COUNT, "texts that are longer than the model's positions"},
    {"left_out", "left out", "", ES_FORMAT_COUNT,
     "texts of the file that were not asked about: too short, left over, or beyond --most"},
    {0}};
static const es_table_spec texts_table = {"texts", text_columns,
                                          ES_VIEW("Texts", .only_with_full = true), .record = true};

/* ---- numbers ---- */

static es_status answers_of(const es_job *job, int64_t setting, es_arena *arena,
                            const double *const **out, es_error *err)
{
    const downstream_state *s = job->state;
    const double **rows;
    ES_TRY(ES_ARENA_NEW(arena, rows, s->count, "answers", err));
    for (int64_t i = 0; i < s->count; i++)
        rows[i] = downstream_answer(job, setting, i);
    *out = rows;
    return ES_OK;
}

/* nearest (count): of each text in setting `setting`, the nearest other one in setting `among`. */
static es_status find_nearest(const es_job *job, int64_t setting, int64_t among, int64_t *nearest,
                              es_error *err)
{
    const downstream_state *s = job->state;
    es_arena arena = {.budget = job->exec.budget};
    const double *const *rows, *const *others;
    es_exec quiet = job->exec;
    quiet.progress = NULL;
    es_status status = answers_of(job, setting, &arena, &rows, err);
    if (status == ES_OK)
        status = answers_of(job, among, &arena, &others, err);
    if (status == ES_OK)
        status = es_nearest_rows(rows, others, s->count, s->outputs, &quiet, nearest, err);
    es_arena_free(&arena);
    return status;
}

/* How many texts have the neighbour that they have for the full model. */
static es_status count_kept(const es_job *job, int64_t setting, int64_t among, es_proportion *out,
                            es_error *err)
{
    const downstream_state *s = job->state;
    int64_t *nearest, kept = 0;
    ES_TRY(ES_MEM_NEW(job->exec.budget, nearest, s->count, "neighbours", err));
    const es_status status = find_nearest(job, setting, among, nearest, err);
    for (int64_t i = 0; i < s->count && status == ES_OK; i++)
        kept += nearest[i] == s->neighbours[i];
    *out = es_proportion_of(kept, s->count);
    es_mem_free(job->exec.budget, nearest);
    return status;
}

static es_status compare_embeddings(const es_job *job, int64_t setting, downstream_found *out,
                                    double *costs, es_error *err)
{
    const downstream_state *s = job->state;
    for (int64_t i = 0; i < s->count; i++)
        costs[i] = 1.0 - es_cosine(downstream_answer(job, 0, i), downstream_answer(job, setting, i),
                                   s->outputs);
    ES_TRY(count_kept(job, setting, setting, &out->recall, err));
    return count_kept(job, setting, 0, &out->recall_query, err);
}

static void compare_labels(const es_job *job, int64_t setting, downstream_found *out, double *costs)
{
    const downstream_state *s = job->state;
    int64_t right = 0, same = 0, lost = 0, gained = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const double *full = downstream_answer(job, 0, i),
                     *now = downstream_answer(job, setting, i);
        const int64_t was = es_logits_best(full, s->outputs), is = es_logits_best(now, s->outputs);
        const int64_t label = s->texts.labels[i];
        costs[i] = es_logits_kl(full, now, s->outputs);
        right += is == label;
        same += is == was;
        lost += was == label && is != label;
        gained += was != label && is == label;
    }
    out->accuracy = es_proportion_of(right, s->count);
    out->agreement = es_proportion_of(same, s->count);
    out->lost = es_change_of(lost, gained, s->count);
}

es_status downstream_measure(es_job *job, int64_t setting, downstream_found *out, es_error *err)
{
    const downstream_state *s = job->state;
    double *costs, keys = 0.0;
    *out = (downstream_found){0};
    ES_TRY(ES_JOB_NEW(job, costs, s->count, err));
    if (s->lab.embed)
        ES_TRY(compare_embeddings(job, setting, out, costs, err));
    else
        compare_labels(job, setting, out, costs);
    for (int64_t i = 0; i < s->count; i++)
        keys += downstream_answer(job, setting, i)[s->outputs];
    out->keys = keys / (double)s->count;
    out->cost = es_measured_mean(costs, s->count);
    out->texts = costs;
    return ES_OK;
}

/* ---- rows ---- */

void downstream_put_setting(const es_job *job, const downstream_setting *setting,
                            const downstream_found *found, es_table *table, int64_t row)
{
    const downstream_state *s = job->state;
    char word[ES_POLICY_ROOM];
    es_table_real(table, row, "keys", found->keys);
    if (setting->row < 0) {
        es_table_text(table, row, "policy", "full");
        es_table_real(table, row, "keep", 1.0);
        return;
    }
    const es_thinning *t = &s->rows[setting->row];
    es_table_text(table, row, "policy", downstream_word(s, setting->row, word));
    if (t->share > 0.0)
        es_table_real(table, row, "keep", t->share);
    else if (t->spec.keys != ES_POLICY_UNSET)
        es_table_count(table, row, "keys_asked", t->spec.keys);
}

static void put_labels(const downstream_found *f, double half, es_table *t, int64_t row)
{
    es_put(t, row, {"accuracy", f->accuracy.value}, {"accuracy_se", f->accuracy.se},
           {"accuracy_ci.0", f->accuracy.low}, {"accuracy_ci.1", f->accuracy.high},
           {"lost", f->lost.value}, {"lost_se", f->lost.se}, {"lost_ci.0", f->lost.low},
           {"lost_ci.1", f->lost.high}, {"lost_p", f->lost.p}, {"agreement", f->agreement.value},
           {"agreement_se", f->agreement.se}, {"kl", f->cost.value}, {"kl_se", f->cost.se},
           {"kl_ci.0", fmax(0.0, f->cost.value - half)}, {"kl_ci.1", f->cost.value + half});
}

void downstream_put_cost(const es_job *job, const downstream_found *f, es_table *t, int64_t row)
{
    const downstream_state *s = job->state;
    if (!s->lab.embed) {
        put_labels(f, f->cost.se * es_student_quantile((double)s->count - 1.0, 0.025), t, row);
        return;
    }
    es_put(t, row, {"cosine", 1.0 - f->cost.value}, {"cosine_se", f->cost.se},
           {"recall", f->recall.value}, {"recall_se", f->recall.se}, {"recall_ci.0", f->recall.low},
           {"recall_ci.1", f->recall.high}, {"recall_query", f->recall_query.value},
           {"recall_query_se", f->recall_query.se});
}

es_status downstream_correct(es_job *job, es_table *table, int64_t from, const char *column,
                             es_error *err)
{
    const int64_t count = es_table_rows(table) - from;
    double *p;
    ES_TRY(ES_JOB_NEW(job, p, count, err));
    for (int64_t i = 0; i < count; i++)
        p[i] = es_table_get(table, from + i, column);
    ES_TRY(es_holm(p, count, p, err));
    for (int64_t i = 0; i < count; i++)
        if (!isnan(p[i]))
            es_table_real(table, from + i, column, p[i]);
    return ES_OK;
}

/* ---- sentences ---- */

const char *downstream_word(const downstream_state *s, int64_t row, char out[ES_POLICY_ROOM])
{
    return s->rows[row].plan ? es_plan_word(s->plan_path, out)
                             : es_policy_word(&s->rows[row].spec, out);
}

/* A share that is one by a whole number is said so. */
const char *downstream_say_keep(const es_thinning *t, char out[DOWNSTREAM_ROOM])
{
    const double one_by = t->share > 0.0 ? 1.0 / t->share : 0.0;
    if (t->plan)
        snprintf(out, DOWNSTREAM_ROOM, "%.3g %% of the keys of %lld tokens",
                 100.0 * t->plan->keys_kept / t->plan->keys_all, (long long)t->plan->context);
    else if (one_by == 1.0)
        snprintf(out, DOWNSTREAM_ROOM, "all of the keys");
    else if (t->share > 0.0 && fabs(one_by - floor(one_by + 0.5)) < 1e-9)
        snprintf(out, DOWNSTREAM_ROOM, "1/%.0f of the keys", one_by);
    else if (t->share > 0.0)
        snprintf(out, DOWNSTREAM_ROOM, "%.3g of the keys", t->share);
    else if (t->spec.keys != ES_POLICY_UNSET)
        snprintf(out, DOWNSTREAM_ROOM, "%lld keys", (long long)t->spec.keys);
    else
        snprintf(out, DOWNSTREAM_ROOM, "the keys of its parts");
    return out;
}

const char *downstream_say_row(const downstream_state *s, int64_t row, char out[DOWNSTREAM_ROOM])
{
    char word[ES_POLICY_ROOM], keep[DOWNSTREAM_ROOM];
    snprintf(out, DOWNSTREAM_ROOM, "%.40s at %.60s", downstream_word(s, row, word),
             downstream_say_keep(&s->rows[row], keep));
    return out;
}

static void tell_full(const es_job *job, const downstream_found *full, es_answer *a)
{
    const downstream_state *s = job->state;
    const downstream_params *p = job->params;
    const double tokens = (double)s->texts.ids / (double)s->count;
    char accuracy[ES_SAY_ROOM];
    if (s->lab.embed)
        return;
    es_answer_add_finding(
        a,
        "With all keys the model labels %s %% of %lld %s of %.3g tokens on average "
        "right.",
        es_say_number(100.0 * full->accuracy.value, 100.0 * full->accuracy.se, accuracy),
        (long long)s->count, p->concat ? "documents" : "texts", tokens);
}

/* "top 88.1 ± 1.1 %" of one row. */
static void say_found(const downstream_state *s, int64_t row, const downstream_found *f, bool first,
                      char *out, size_t size)
{
    char word[ES_POLICY_ROOM], number[ES_SAY_ROOM], cost[ES_SAY_ROOM];
    const size_t used = strlen(out);
    downstream_word(s, row, word);
    if (s->lab.embed)
        snprintf(out + used, size - used, "%s%s %s (neighbours kept: %s %%)", first ? "" : ", ",
                 word, es_say_number(1.0 - f->cost.value, f->cost.se, number),
                 es_say_number(100.0 * f->recall.value, 100.0 * f->recall.se, cost));
    else
        snprintf(out + used, size - used, "%s%s %s %% (KL %s)", first ? "" : ", ", word,
                 es_say_number(100.0 * f->accuracy.value, 100.0 * f->accuracy.se, number),
                 es_say_number(f->cost.value, f->cost.se, cost));
}

static bool same_amount(const es_thinning *a, const es_thinning *b)
{
    return a->share == b->share && (a->share > 0.0 || a->spec.keys == b->spec.keys);
}

/* All policies at the amount of row `like`. */
static void tell_amount(const es_job *job, int64_t like, const downstream_found *found,
                        es_answer *a)
{
    const downstream_state *s = job->state;
    char list[1024] = "", keep[DOWNSTREAM_ROOM];
    bool first = true;
    for (int64_t r = 0; r < s->n_rows; r++)
        if (same_amount(&s->rows[r], &s->rows[like])) {
            say_found(s, r, &found[1 + r], first, list, sizeof list);
            first = false;
        }
    es_answer_add_finding(
        a, "With %s, %s by policy: %s.", downstream_say_keep(&s->rows[like], keep),
        s->lab.embed ? "the embedding's cosine with the full one is," : "it labels right,", list);
}

/* The row of the first policy whose share is nearest to an eighth, which is what the other studies
 * speak of; the first if none has a share. */
static int64_t middle_row(const downstream_state *s)
{
    int64_t best = 0;
    for (int64_t r = 0; r < s->n_rows; r++)
        if (s->rows[r].share > 0.0 &&
            fabs(log(8.0 * s->rows[r].share)) < fabs(log(8.0 * fmax(s->rows[best].share, 1e-9))))
            best = r;
    return best;
}

/* Points of accuracy that one may want to be sure of not losing. */
#define ENOUGH 2.0

/* Is the accuracy of this row, and of all rows of its policy with more keys, surely that near to
 * the full model's? All keys are no answer. */
static bool is_enough(const downstream_state *s, const downstream_found *found, int64_t row)
{
    for (int64_t r = 0; r < s->n_rows; r++)
        if (es_policy_same(&s->rows[r].spec, &s->rows[row].spec) &&
            found[1 + r].keys >= found[1 + row].keys && 100.0 * found[1 + r].lost.high > ENOUGH)
            return false;
    return s->rows[row].share < 1.0;
}

/* The fewest keys of each policy that are enough. */
static void tell_enough(const es_job *job, const downstream_found *found, es_answer *a)
{
    const downstream_state *s = job->state;
    char list[1024] = "", word[ES_POLICY_ROOM], keep[DOWNSTREAM_ROOM];
    for (int64_t r = 0; r < s->n_rows; r++) {
        const size_t used = strlen(list);
        bool least = is_enough(s, found, r);
        for (int64_t q = 0; q < s->n_rows && least; q++)
            least = !es_policy_same(&s->rows[q].spec, &s->rows[r].spec) ||
                    found[1 + q].keys >= found[1 + r].keys || !is_enough(s, found, q);
        if (least)
            snprintf(list + used, sizeof list - used, "%s%s down to %s", used ? ", " : "",
                     downstream_word(s, r, word), downstream_say_keep(&s->rows[r], keep));
    }
    if (*list)
        es_answer_add_finding(
            a, "With 95 %% confidence less than %.0f points of accuracy are lost by %s.", ENOUGH,
            list);
    else
        es_answer_add_finding(
            a,
            "Of none of these policies can it be said with 95 %% confidence that it "
            "loses less than %.0f points of accuracy.",
            ENOUGH);
}

static void tell_texts(const es_job *job, es_answer *a)
{
    const downstream_state *s = job->state;
    if (s->texts.cut)
        es_answer_add_finding(
            a,
            "%lld of %lld texts are longer than the model's %lld positions, and were "
            "cut there.",
            (long long)s->texts.cut, (long long)s->count, (long long)s->config->positions);
    if ((double)s->texts.ids / (double)s->count < 64.0 && !s->lab.embed)
        es_answer_add_finding(
            a,
            "Caution: the texts have %.3g tokens on average, so that 1/8 of the keys "
            "is a handful; --concat makes longer ones.",
            (double)s->texts.ids / (double)s->count);
}

/* ---- all of it ---- */

static void put_texts(const es_job *job, es_answer *a)
{
    const downstream_state *s = job->state;
    es_table *t = es_answer_table(a, &texts_table);
    const int64_t row = es_table_row(t);
    es_put(t, row, {"texts", (double)s->count}, {"tokens", (double)s->texts.ids / (double)s->count},
           {"longest", (double)s->texts.longest}, {"cut", (double)s->texts.cut},
           {"left_out", (double)s->texts.left_out});
    es_answer_text(a, "model", es_model_folder(s->model));
}

es_status downstream_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const downstream_params *p = job->params;
    downstream_state *s = job->state;
    es_table *t = es_answer_table(answer, &rows_table);
    downstream_found *found;
    ES_TRY(ES_JOB_NEW(job, found, 1 + s->n_rows, err));
    if (s->lab.embed) {
        ES_TRY(ES_JOB_NEW(job, s->neighbours, s->count, err));
        ES_TRY(find_nearest(job, 0, 0, s->neighbours, err));
    }
    for (int64_t i = 0; i < 1 + s->n_rows; i++) {
        const int64_t row = es_table_row(t);
        ES_TRY(downstream_measure(job, i, &found[i], err));
        downstream_put_setting(job, &s->settings[i], &found[i], t, row);
        downstream_put_cost(job, &found[i], t, row);
        es_table_count(t, row, "texts", s->count);
    }
    ES_TRY(downstream_correct(job, t, 1, "lost_p", err)); /* the first is the model as it is */
    tell_full(job, &found[0], answer);
    if (s->n_rows) {
        tell_amount(job, middle_row(s), found, answer);
        if (!s->lab.embed)
            tell_enough(job, found, answer);
    }
    if (p->strata)
        ES_TRY(downstream_put_strata(job, answer, err));
    if (p->ablate)
        ES_TRY(downstream_put_heads(job, answer, err));
    tell_texts(job, answer);
    put_texts(job, answer);
    return ES_OK;
}
