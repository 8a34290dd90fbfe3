/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c : one setting beside the full model, over all texts: the columns that the tables
 * share.
 *
 * Both runs see the same texts, so differences are paired. For labels the cost of a text is the
 * divergence sum p ln(p/q) of the labels' distribution, p with full attention; accuracies differ by
 * texts that were lost and gained, which McNemar's test compares. For embeddings the cost is
 * 1 - cosine, and recall counts queries whose nearest text stays the same. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/downstream/downstream.h"
#include "stats/average.h"
#include "stats/multiple.h"
#include "stats/proportion.h"
#include "stats/special.h"

/* ---- one text ---- */

/* Lists the answers of all texts in a setting. */
static es_status answers_of(const es_job *job, int64_t setting, int64_t draw, es_arena *arena,
                            const double *const **out, es_error *err)
{
    const downstream_state *s = job->state;
    const double **rows;
    ES_TRY(ES_ARENA_NEW(arena, rows, s->count, "answers", err));
    for (int64_t i = 0; i < s->count; i++)
        rows[i] = downstream_answer(job, setting, draw, i);
    *out = rows;
    return ES_OK;
}

es_status downstream_nearest(const es_job *job, int64_t setting, int64_t draw, bool by_full,
                             int64_t *nearest, es_error *err)
{
    const downstream_state *s = job->state;
    es_arena arena = {.budget = job->exec.budget};
    const double *const *rows, *const *others;
    es_exec quiet = job->exec;
    quiet.progress = NULL;
    es_status status = answers_of(job, setting, draw, &arena, &rows, err);
    if (status == ES_OK)
        status = answers_of(job, by_full ? 0 : setting, by_full ? 0 : draw, &arena, &others, err);
    if (status == ES_OK)
        status = es_nearest_rows(rows, others, s->count, s->outputs, &quiet, nearest, err);
    es_arena_free(&arena);
    return status;
}

/* Fills the share of draws in which a text keeps its neighbour. nearest (count) is scratch. */
static es_status count_kept(const es_job *job, int64_t setting, int64_t *nearest,
                            downstream_text *texts, es_error *err)
{
    const downstream_state *s = job->state;
    const int64_t draws = s->settings[setting].draws;
    for (int64_t d = 0; d < draws; d++)
        for (int by_full = 0; by_full < 2; by_full++) {
            ES_TRY(downstream_nearest(job, setting, d, by_full, nearest, err));
            for (int64_t i = 0; i < s->count; i++)
                *(by_full ? &texts[i].kept_queries : &texts[i].kept) +=
                    (double)(nearest[i] == s->neighbours[i]) / (double)draws;
        }
    return ES_OK;
}

/* Compares embeddings: cosine to full attention, and which nearest neighbours are still found. */
static es_status compare_embeddings(const es_job *job, int64_t setting, downstream_text *texts,
                                    es_error *err)
{
    const downstream_state *s = job->state;
    const int64_t draws = s->settings[setting].draws;
    int64_t *nearest;
    for (int64_t i = 0; i < s->count; i++) {
        double cosine = 0.0;
        for (int64_t d = 0; d < draws; d++)
            cosine += es_cosine(downstream_answer(job, 0, 0, i),
                                downstream_answer(job, setting, d, i), s->outputs);
        texts[i].cost = 1.0 - cosine / (double)draws;
    }
    ES_TRY(ES_MEM_NEW(job->exec.budget, nearest, s->count, "neighbours", err));
    const es_status status = count_kept(job, setting, nearest, texts, err);
    es_mem_free(job->exec.budget, nearest);
    return status;
}

/* Compares the labels of one text over all draws. */
static void compare_labels(const es_job *job, int64_t setting, int64_t i, downstream_text *out)
{
    const downstream_state *s = job->state;
    const int64_t draws = s->settings[setting].draws, label = s->texts.labels[i];
    const double *full = downstream_answer(job, 0, 0, i);
    const int64_t was = es_logits_best(full, s->outputs);
    int64_t right = 0, same = 0;
    double kl = 0.0;
    for (int64_t d = 0; d < draws; d++) {
        const double *now = downstream_answer(job, setting, d, i);
        const int64_t is = es_logits_best(now, s->outputs);
        kl += es_logits_kl(full, now, s->outputs);
        right += is == label;
        same += is == was;
    }
    const double n = (double)draws;
    *out = (downstream_text){was == label, (double)right / n, (double)same / n, kl / n, 0.0, 0.0};
}

es_status downstream_texts(const es_job *job, int64_t setting, downstream_text *texts,
                           es_error *err)
{
    const downstream_state *s = job->state;
    memset(texts, 0, (size_t)s->count * sizeof *texts);
    if (s->lab.embed)
        return compare_embeddings(job, setting, texts, err);
    for (int64_t i = 0; i < s->count; i++)
        compare_labels(job, setting, i, &texts[i]);
    return ES_OK;
}

/* ---- means over texts ---- */

/* Copies one member of all texts to x. */
static void gather(const downstream_text *texts, int64_t count, size_t member, double *x)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = *(const double *)((const char *)&texts[i] + member);
}

/* Returns half of the 95 % interval, Student's t over texts. */
static double half_of(const es_measured *m, int64_t texts)
{
    return m->se * es_student_quantile((double)texts - 1.0, 0.025);
}

/* Returns a share of texts in *m, and its interval, from the shares x (count) of draws. With one
 * draw each is 0 or 1. */
static void fill_share(int64_t draws, const double *x, int64_t count, es_measured *m, double *low,
                       double *high)
{
    *m = es_measured_mean(x, count);
    *low = fmax(0.0, m->value - half_of(m, count));
    *high = fmin(1.0, m->value + half_of(m, count));
    if (draws > 1)
        return;
    const es_proportion p = es_proportion_of((int64_t)rint(m->value * (double)count), count);
    *m = (es_measured){p.value, p.se};
    *low = p.low;
    *high = p.high;
}

/* Fills the paired difference of accuracies: of one draw from the texts lost and gained, by which
 * McNemar's test decides; of several from each text's difference, by Student's t. */
static void fill_lost(int64_t draws, const downstream_text *texts, int64_t count, double *x,
                      downstream_cost *out)
{
    int64_t lost = 0, gained = 0;
    for (int64_t i = 0; i < count; i++) {
        x[i] = (double)texts[i].was - texts[i].right;
        lost += x[i] > 0.0;
        gained += x[i] < 0.0;
    }
    if (draws == 1) {
        const es_change change = es_change_of(lost, gained, count);
        out->lost = (es_measured){change.value, change.se};
        out->lost_low = change.low;
        out->lost_high = change.high;
        out->lost_p = change.p;
        return;
    }
    out->lost = es_measured_mean(x, count);
    out->lost_low = out->lost.value - half_of(&out->lost, count);
    out->lost_high = out->lost.value + half_of(&out->lost, count);
    out->lost_p = out->lost.se > 0.0
                      ? fmin(1.0, 2.0 * es_student_tail((double)count - 1.0,
                                                        fabs(out->lost.value) / out->lost.se))
                      : 1.0;
}

/* Fills the columns of labels. */
static void sum_up_labels(int64_t draws, const downstream_text *texts, int64_t count, double *x,
                          downstream_cost *out)
{
    double low, high;
    gather(texts, count, offsetof(downstream_text, right), x);
    fill_share(draws, x, count, &out->accuracy, &out->accuracy_low, &out->accuracy_high);
    gather(texts, count, offsetof(downstream_text, same), x);
    fill_share(draws, x, count, &out->agreement, &low, &high);
    fill_lost(draws, texts, count, x, out);
    out->kl = out->per_text;
    out->kl_low = fmax(0.0, out->kl.value - half_of(&out->kl, count));
    out->kl_high = out->kl.value + half_of(&out->kl, count);
}

/* Fills the columns of embeddings. */
static void sum_up_embeddings(int64_t draws, const downstream_text *texts, int64_t count, double *x,
                              downstream_cost *out)
{
    double low, high;
    out->cosine = (es_measured){1.0 - out->per_text.value, out->per_text.se};
    gather(texts, count, offsetof(downstream_text, kept), x);
    fill_share(draws, x, count, &out->recall, &out->recall_low, &out->recall_high);
    gather(texts, count, offsetof(downstream_text, kept_queries), x);
    fill_share(draws, x, count, &out->recall_query, &low, &high);
}

void downstream_sum_up(const es_job *job, int64_t draws, const downstream_text *texts,
                       int64_t count, double *x, downstream_cost *out)
{
    const downstream_state *s = job->state;
    gather(texts, count, offsetof(downstream_text, cost), x);
    out->per_text = es_measured_mean(x, count);
    if (s->lab.embed)
        sum_up_embeddings(draws, texts, count, x, out);
    else
        sum_up_labels(draws, texts, count, x, out);
}

/* ---- rows ---- */

es_status downstream_compare(es_job *job, int64_t setting, downstream_cost *out, double *costs,
                             es_error *err)
{
    const downstream_state *s = job->state;
    downstream_text *texts;
    ES_TRY(ES_MEM_NEW(job->exec.budget, texts, s->count, "costs of texts", err));
    const es_status status = downstream_texts(job, setting, texts, err);
    if (status == ES_OK) {
        downstream_sum_up(job, s->settings[setting].draws, texts, s->count, costs, out);
        gather(texts, s->count, offsetof(downstream_text, cost), costs);
    }
    es_mem_free(job->exec.budget, texts);
    return status;
}

double downstream_keys(const es_job *job, int64_t setting)
{
    const downstream_state *s = job->state;
    double keys = 0.0;
    const int64_t draws = s->settings[setting].draws;
    for (int64_t d = 0; d < draws; d++)
        for (int64_t i = 0; i < s->count; i++)
            keys += downstream_answer(job, setting, d, i)[s->outputs];
    return keys / (double)(s->count * draws);
}

void downstream_fill_asked(const es_job *job, int64_t setting, es_table *table,
                           downstream_asked *out)
{
    const downstream_state *s = job->state;
    const int64_t row = s->settings[setting].row;
    char word[DOWNSTREAM_SIZE], name[ES_CACHE_SIZE];
    out->keys = downstream_keys(job, setting);
    if (row < 0) {
        out->policy = "full";
        out->keep = 1.0;
        return;
    }
    const es_thinning *t = &s->rows[row];
    if (s->config->causal)
        es_cache_cells_fill(&out->cache, t->cache, table);
    if (t->cache && t->cache->mode == ES_EVICT_PROMPT && !t->half)
        out->cache.prompt = t->cache->prompt;
    if (!t->cache || t->cache->units)
        out->policy = es_table_format(table, "%s", downstream_word(s, row, word));
    else if (t->cache->unit.evict.policy)
        out->policy = es_table_format(table, "%s", es_cache_policy(t->cache, name));
    if (t->share > 0.0)
        out->keep = t->share;
    else if (t->spec.keys != ES_POLICY_UNSET)
        out->keys_asked = t->spec.keys;
}

es_status downstream_correct(es_job *job, void *rows, size_t size, size_t member, int64_t count,
                             es_error *err)
{
    double *p;
    ES_TRY(ES_JOB_NEW(job, p, count, err));
    for (int64_t i = 0; i < count; i++)
        p[i] = *(const double *)((const char *)rows + (size_t)i * size + member);
    ES_TRY(es_holm(p, count, p, err));
    for (int64_t i = 0; i < count; i++)
        if (!isnan(p[i]))
            *(double *)((char *)rows + (size_t)i * size + member) = p[i];
    return ES_OK;
}

/* ---- words ---- */

/* Writes "h2o", "q4_0", or "h2o in q4_0". */
static const char *cache_word(const es_cache_setting *cache, char out[DOWNSTREAM_SIZE])
{
    const bool evicts = cache->unit.evict.policy, rounds = cache->unit.k.type || cache->unit.v.type;
    char policy[ES_CACHE_SIZE], types[ES_CACHE_SIZE];
    snprintf(out, DOWNSTREAM_SIZE, "%.64s%s%.48s", evicts ? es_cache_policy(cache, policy) : "",
             evicts && rounds ? " in " : "", rounds ? es_cache_types(cache, types) : "");
    return out;
}

const char *downstream_word(const downstream_state *s, int64_t row, char out[DOWNSTREAM_SIZE])
{
    const es_thinning *t = &s->rows[row];
    return s->plan    ? es_plan_word(s->plan_path, out)
           : t->cache ? cache_word(t->cache, out)
                      : es_policy_word(&t->spec, out);
}

/* Writes "1/8 of the keys" if the share is one over a whole number, else the share itself. */
const char *downstream_say_keep(const es_thinning *t, char out[DOWNSTREAM_SIZE])
{
    const double one_by = t->share > 0.0 ? 1.0 / t->share : 0.0;
    const char *keys =
        t->cache && t->cache->mode == ES_EVICT_PROMPT ? "the prompt's keys" : "the keys";
    if (t->plan)
        snprintf(out, DOWNSTREAM_SIZE, "%.3g %% of the keys of %lld tokens",
                 100.0 * t->plan->keys_kept / t->plan->keys_all, (long long)t->plan->context);
    else if (t->cache && t->cache->units)
        snprintf(out, DOWNSTREAM_SIZE, "%.4g keys per head on average", t->cache->keys);
    else if (one_by == 1.0 || downstream_only_rounds(t))
        snprintf(out, DOWNSTREAM_SIZE, "all of %s", keys);
    else if (t->share > 0.0 && fabs(one_by - floor(one_by + 0.5)) < 1e-9)
        snprintf(out, DOWNSTREAM_SIZE, "1/%.0f of %s", one_by, keys);
    else if (t->share > 0.0)
        snprintf(out, DOWNSTREAM_SIZE, "%.3g of %s", t->share, keys);
    else if (t->spec.keys != ES_POLICY_UNSET)
        snprintf(out, DOWNSTREAM_SIZE, "%lld keys", (long long)t->spec.keys);
    else
        snprintf(out, DOWNSTREAM_SIZE, "the keys of its parts");
    return out;
}

const char *downstream_say_row(const downstream_state *s, int64_t row, char out[DOWNSTREAM_SIZE])
{
    char word[DOWNSTREAM_SIZE], keep[DOWNSTREAM_SIZE];
    snprintf(out, DOWNSTREAM_SIZE, "%.40s at %.60s", downstream_word(s, row, word),
             downstream_say_keep(&s->rows[row], keep));
    return out;
}
