/* probe_position_told.c : what the heads of a causal model do as their context grows, in sentences.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "study/answer_kit.h"
#include "study/probe_study.h"

typedef struct telling {
    const probe_state *s;
    const probe_positions *p;
    const probe_position_tables *t;
    es_answer *answer;
    double *room;           /* (rows of heads) */
    char last[ES_KEY_ROOM]; /* key of the effective context at the longest n */
} telling;

static const char *counted(const telling *t)
{
    return t->s->pools.n_domains > 1 ? "pairs of a head and a domain" : "heads";
}

static int64_t rows_of(const telling *t) { return es_table_rows(t->t->heads); }

static double median_of(const telling *t, const char *key)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows_of(t); i++) {
        t->room[count] = es_table_get(t->t->heads, i, key);
        count += isfinite(t->room[count]) ? 1 : 0;
    }
    es_sort_reals(t->room, count);
    return es_median_of(t->room, count);
}

/* "layer 3, head 5 on code" */
static const char *name_of(const telling *t, int64_t row, char out[ES_SAY_ROOM])
{
    const char *domain = es_table_get_text(t->t->heads, row, "domain");
    snprintf(out, ES_SAY_ROOM, "layer %.0f, head %.0f%s%.40s",
             es_table_get(t->t->heads, row, "layer"), es_table_get(t->t->heads, row, "head"),
             *domain ? " on " : "", domain);
    return out;
}

/* ---- classes ---- */

static void tell_kinds(const telling *t)
{
    const es_positions_grid *g = &t->p->grid;
    double of[PROBE_KINDS], unsure = 0.0;
    for (int kind = 0; kind < PROBE_KINDS; kind++) {
        of[kind] = es_table_get(t->t->kinds, kind, "heads");
        unsure += of[kind] - es_table_get(t->t->kinds, kind, "sure");
    }
    es_answer_tell(t->answer,
                   "Of %lld %s, at %lld to %lld keys: %.0f sink (half of the weight or more on the "
                   "first %d keys), %.0f local (on the last %d), %.0f averaging (over many), %.0f "
                   "retrieving (a few keys elsewhere); the class of %.0f is not sure (95 %% "
                   "intervals over %lld blocks of text).",
                   (long long)rows_of(t), counted(t),
                   (long long)(g->bins > 1 ? g->to[g->bins - 2] + 1 : 1),
                   (long long)g->to[g->bins - 1], of[PROBE_SINK], ES_POSITIONS_SINKS,
                   of[PROBE_LOCAL], ES_POSITIONS_LOCAL, of[PROBE_AVERAGING], of[PROBE_RETRIEVING],
                   unsure, (long long)t->p->blocks);
}

/* ---- effective context ---- */

static int64_t count_growth(const telling *t, probe_growth growth)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows_of(t); i++)
        count += strcmp(es_table_get_text(t->t->heads, i, "grows"), probe_growth_name(growth)) == 0;
    return count;
}

static int64_t row_of_most(const telling *t, const char *key)
{
    int64_t most = -1;
    for (int64_t i = 0; i < rows_of(t); i++) {
        const double x = es_table_get(t->t->heads, i, key);
        if (isfinite(x) && (most < 0 || x > es_table_get(t->t->heads, most, key)))
            most = i;
    }
    return most;
}

/* Whose context still grows, and by how much in the middle. */
static void tell_growth(const telling *t)
{
    es_answer_tell(t->answer,
                   "The effective context (the window that%s gives outputs within %.3g of their "
                   "spread) still grows at the longest n in %lld of %lld %s, "
                   "saturates in %lld, and of %lld the text is too short to say (95 %% interval of "
                   "d ln w / d ln n above or below %.1g); in the median the slope is %.2g, ± %.2g "
                   "for a head.",
                   t->p->spec.window ? "" : ", with the first 4 keys,", t->p->error,
                   (long long)count_growth(t, PROBE_GROWING), (long long)rows_of(t), counted(t),
                   (long long)count_growth(t, PROBE_SATURATED),
                   (long long)count_growth(t, PROBE_UNCLEAR), PROBE_GROWS, median_of(t, "growth"),
                   median_of(t, "growth_se"));
}

static void tell_contexts(const telling *t)
{
    const int64_t most = row_of_most(t, t->last);
    const int64_t first = probe_octave_bin(&t->p->grid, PROBE_OCTAVES - 1);
    char name[ES_SAY_ROOM], key[ES_KEY_ROOM], number[ES_SAY_ROOM];
    if (most < 0 || first < 0)
        return;
    snprintf(key, sizeof key, "effective_context_se.%d", PROBE_OCTAVES - 1);
    es_answer_tell(t->answer,
                   "It is %.3g keys at n = %lld and %.3g at n = %lld in the median of %s; %s needs "
                   "most, %s of %lld.",
                   median_of(t, "effective_context.0"), (long long)t->p->grid.to[first],
                   median_of(t, t->last), (long long)t->p->spec.length, counted(t),
                   name_of(t, most, name),
                   es_say_number(es_table_get(t->t->heads, most, t->last),
                                 es_table_get(t->t->heads, most, key), number),
                   (long long)t->p->spec.length);
}

/* ---- scores ---- */

static void tell_scores(const telling *t)
{
    const int64_t most = row_of_most(t, "frozen");
    char name[ES_SAY_ROOM], share[ES_SAY_ROOM], name_sd[ES_SAY_ROOM];
    if (most < 0)
        return;
    es_answer_tell(t->answer,
                   "One key has the weight of a query (ESS < 2) in %.2g of queries in the median "
                   "of %s at the longest n, most often in %s: %s; scores spread by %s nats there, "
                   "u = %.2g of the freezing spread.",
                   median_of(t, "frozen"), counted(t), name_of(t, most, name),
                   es_say_number(es_table_get(t->t->heads, most, "frozen"),
                                 es_table_get(t->t->heads, most, "frozen_se"), share),
                   es_say_number(es_table_get(t->t->heads, most, "score_sd"),
                                 es_table_get(t->t->heads, most, "score_sd_se"), name_sd),
                   es_table_get(t->t->heads, most, "freezing"));
}

/* What the rotation does, where the model has one. */
static void tell_rotation(const telling *t)
{
    const double decay = median_of(t, "decay"), plain = median_of(t, "decay_plain");
    if (!isfinite(decay) || !isfinite(plain) || decay == plain)
        return;
    es_answer_tell(t->answer,
                   "From the key next to a query to the farthest half of the text the mean score "
                   "falls by %.2g nats in the median of %s (± %.2g for a head), %.2g without the "
                   "rotation by positions; horizons are %.3g with it and %.3g without.",
                   decay, counted(t), median_of(t, "decay_se"), plain,
                   median_of(t, "horizon_rotary"), median_of(t, "horizon_plain"));
}

/* ---- what should not be believed ---- */

/* Twice what errors that fall like 1/w^(1/2) would give. */
#define PLATEAU 5.0

static void caution_plateaus(const telling *t)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows_of(t); i++)
        count += es_table_get(t->t->heads, i, "sensitivity") > PLATEAU;
    if (count)
        es_answer_tell(t->answer,
                       "Caution: of %lld of %lld %s errors hardly fall over a wide range of "
                       "windows near the longest n: their effective contexts, and how fast these "
                       "grow, hang on the error that is asked for (--error %.3g).",
                       (long long)count, (long long)rows_of(t), counted(t), t->p->error);
}

static void caution(const telling *t)
{
    caution_plateaus(t);
    if (t->s->pools.config->head_norms)
        es_answer_tell(t->answer,
                       "Caution: heads of this model norm their queries and keys, so that scores "
                       "are no x'A'y: there are no horizons of weights and no limit without "
                       "positions, only what queries and keys themselves say.");
    if (t->p->blocks < 4)
        es_answer_tell(
            t->answer,
            "Caution: %lld block%s of %lld tokens: errors over blocks %s; take more text "
            "(--pool), or shorter blocks (--block).",
            (long long)t->p->blocks, t->p->blocks > 1 ? "s" : "", (long long)t->p->spec.length,
            t->p->blocks > 1 ? "are themselves uncertain" : "are not known");
    if (t->p->spec.length < 4 * ES_POSITIONS_LOCAL)
        es_answer_tell(t->answer,
                       "Caution: blocks of %lld tokens are hardly longer than the last %d keys: "
                       "what is local cannot be told from the rest.",
                       (long long)t->p->spec.length, ES_POSITIONS_LOCAL);
}

es_status probe_positions_tell(es_job *job, const probe_position_tables *tables, es_answer *answer,
                               es_error *err)
{
    const probe_state *s = job->state;
    telling t = {.s = s, .p = &s->positions, .t = tables, .answer = answer};
    ES_TRY(es_job_array(job, es_table_rows(tables->heads), 1, sizeof *t.room, &t.room, err));
    snprintf(t.last, sizeof t.last, "effective_context.%d", PROBE_OCTAVES - 1);
    tell_kinds(&t);
    tell_growth(&t);
    tell_contexts(&t);
    tell_scores(&t);
    tell_rotation(&t);
    caution(&t);
    return ES_OK;
}
