/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c : one setting beside the full model, over all texts: the columns that the tables
 * share.
 *
 * Both runs see the same texts, so differences are paired. For labels the cost of a text is the
 * divergence sum p ln(p/q) of the labels' distribution, p with full attention; accuracies differ by
 * texts that were lost and gained, which McNemar's test compares. For embeddings the cost is
 * 1 - cosine, and recall counts queries whose nearest text stays the same. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/downstream/downstream.h"
#include "stats/average.h"
#include "stats/multiple.h"
#include "stats/proportion.h"
#include "stats/special.h"

/* Returns a proportion with its standard error. */
static es_measured share(const es_proportion *p) { return (es_measured){p->value, p->se}; }

/* ---- embeddings ---- */

/* Lists the answers of all texts in a setting. */
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

es_status downstream_nearest(const es_job *job, int64_t setting, int64_t among, int64_t *nearest,
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

/* Returns in *out the share of texts that have the same neighbour as for the full model. */
static es_status count_kept(const es_job *job, int64_t setting, int64_t among, es_proportion *out,
                            es_error *err)
{
    const downstream_state *s = job->state;
    int64_t *nearest, kept = 0;
    ES_TRY(ES_MEM_NEW(job->exec.budget, nearest, s->count, "neighbours", err));
    const es_status status = downstream_nearest(job, setting, among, nearest, err);
    for (int64_t i = 0; i < s->count && status == ES_OK; i++)
        kept += nearest[i] == s->neighbours[i];
    *out = es_proportion_of(kept, s->count);
    es_mem_free(job->exec.budget, nearest);
    return status;
}

/* Compares embeddings: cosine to full attention, and which nearest neighbours are still found. */
static es_status compare_embeddings(const es_job *job, int64_t setting, downstream_cost *out,
                                    double *costs, es_error *err)
{
    const downstream_state *s = job->state;
    es_proportion all, query;
    for (int64_t i = 0; i < s->count; i++)
        costs[i] = 1.0 - es_cosine(downstream_answer(job, 0, i), downstream_answer(job, setting, i),
                                   s->outputs);
    ES_TRY(count_kept(job, setting, setting, &all, err));
    ES_TRY(count_kept(job, setting, 0, &query, err));
    out->per_text = es_measured_mean(costs, s->count);
    out->cosine = (es_measured){1.0 - out->per_text.value, out->per_text.se};
    out->recall = share(&all);
    out->recall_low = all.low;
    out->recall_high = all.high;
    out->recall_query = share(&query);
    return ES_OK;
}

/* ---- labels ---- */

/* Fills the KL divergence and its 95 % interval, which ends at 0. */
static void fill_kl(const es_measured *kl, int64_t texts, downstream_cost *out)
{
    const double half = kl->se * es_student_quantile((double)texts - 1.0, 0.025);
    out->per_text = out->kl = *kl;
    out->kl_low = fmax(0.0, kl->value - half);
    out->kl_high = kl->value + half;
}

/* Compares labels: accuracy, agreement with full attention, and texts lost and gained, by which
 * McNemar's test decides. */
static void compare_labels(const es_job *job, int64_t setting, downstream_cost *out, double *costs)
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
    const es_proportion accuracy = es_proportion_of(right, s->count),
                        agreement = es_proportion_of(same, s->count);
    const es_change change = es_change_of(lost, gained, s->count);
    const es_measured kl = es_measured_mean(costs, s->count);
    out->accuracy = share(&accuracy);
    out->accuracy_low = accuracy.low;
    out->accuracy_high = accuracy.high;
    out->lost = (es_measured){change.value, change.se};
    out->lost_low = change.low;
    out->lost_high = change.high;
    out->lost_p = change.p;
    out->agreement = share(&agreement);
    fill_kl(&kl, s->count, out);
}

/* ---- rows ---- */

es_status downstream_compare(es_job *job, int64_t setting, downstream_cost *out, double *costs,
                             es_error *err)
{
    const downstream_state *s = job->state;
    if (s->lab.embed)
        return compare_embeddings(job, setting, out, costs, err);
    compare_labels(job, setting, out, costs);
    return ES_OK;
}

double downstream_keys(const es_job *job, int64_t setting)
{
    const downstream_state *s = job->state;
    double keys = 0.0;
    for (int64_t i = 0; i < s->count; i++)
        keys += downstream_answer(job, setting, i)[s->outputs];
    return keys / (double)s->count;
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
    if (!t->cache)
        out->policy = es_table_format(table, "%s", downstream_word(s, row, word));
    else if (t->cache->unit.evict.policy)
        out->policy = es_table_format(table, "%s", es_cache_policy(t->cache, name));
    if (t->share > 0.0)
        out->keep = t->share;
    else if (t->spec.keys != ES_POLICY_UNSET)
        out->keys_asked = t->spec.keys;
}

es_status downstream_correct(es_job *job, double *const *p, int64_t count, es_error *err)
{
    double *corrected;
    ES_TRY(ES_JOB_NEW(job, corrected, count, err));
    for (int64_t i = 0; i < count; i++)
        corrected[i] = *p[i];
    ES_TRY(es_holm(corrected, count, corrected, err));
    for (int64_t i = 0; i < count; i++)
        if (!isnan(corrected[i]))
            *p[i] = corrected[i];
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
    return t->cache  ? cache_word(t->cache, out)
           : t->plan ? es_plan_word(s->plan_path, out)
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
