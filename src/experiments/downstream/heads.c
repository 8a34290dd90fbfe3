/* heads.c : do heads with large horizons cost more? Thirds of the heads, thinned each by
 * itself, and heads one by one. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "stats/special.h"
#include "stats/spearman.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/downstream/question.h"

/* ---- tables ---- */

static const char *const names[DOWNSTREAM_STRATA] = {"fast", "middle", "slow"};

static const es_column strata_columns[] = {
    DOWNSTREAM_SETTING_COLUMNS,
    {"stratum", "stratum", "", ES_FORMAT_TEXT,
     "the heads that are thinned: the third with the smallest horizons (fast), the middle, the "
     "largest (slow)"},
    {"heads", "heads", "", ES_FORMAT_COUNT},
    {"horizon_low", "horizon from", "", ES_FORMAT_SHORT, "smallest and largest horizon among them"},
    {"horizon_high", "to", "", ES_FORMAT_SHORT},
    DOWNSTREAM_COST_COLUMNS,
    {"excess", "beyond fast", "", ES_FORMAT_REAL,
     "KL, or 1 - cosine, less that of the fast stratum on the same texts; mean over texts",
     .error = "excess_se"},
    {"excess_p", "p", "", ES_FORMAT_SHORT,
     "of no difference, Student's t over texts; for all rows together, by Holm"},
    {0}};
static const es_table_spec strata_table = {
    "strata", strata_columns,
    ES_VIEW(
        "A third of the heads thinned, by horizon",
        "policy keep keys_asked stratum horizon_low horizon_high accuracy lost lost_p agreement "
        "kl cosine recall excess excess_p"),
    .keys = "policy keep keys_asked stratum"};

static const es_column head_columns[] = {
    DOWNSTREAM_SETTING_COLUMNS,
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"horizon", "horizon", "", ES_FORMAT_SHORT,
     "|S^1/2 A S^1/2|, S the covariance of the layer's input over all tokens of the texts"},
    DOWNSTREAM_COST_COLUMNS,
    {0}};
static const es_table_spec heads_table = {
    "heads", head_columns,
    ES_VIEW("Heads thinned one by one",
            "policy keep keys_asked layer head horizon kl cosine agreement lost recall",
            .only_with_full = true),
    .keys = "policy keep keys_asked layer head"};

static const es_column rank_columns[] = {
    DOWNSTREAM_SETTING_COLUMNS,
    {"heads", "heads", "", ES_FORMAT_COUNT},
    {"spearman", "Spearman", "", ES_FORMAT_REAL,
     "between a head's horizon and what thinning it alone costs (KL, or 1 - cosine)"},
    {"spearman_ci.0", "from", "", ES_FORMAT_REAL,
     "95 % interval over heads, as if they were independent (Bonett and Wright)"},
    {"spearman_ci.1", "to", "", ES_FORMAT_REAL},
    {"spearman_p", "p", "", ES_FORMAT_SHORT, "of no relation, Student's t"},
    {"within", "inside layers", "", ES_FORMAT_REAL,
     "the same of ranks counted from the mean of their layer: horizons and costs both drift with "
     "depth"},
    {"within_ci.0", "from", "", ES_FORMAT_REAL},
    {"within_ci.1", "to", "", ES_FORMAT_REAL},
    {"within_p", "p", "", ES_FORMAT_SHORT},
    {0}};
static const es_table_spec ranks_table = {"ranks", rank_columns,
                                          ES_VIEW("Do heads with large horizons cost more?"),
                                          .keys = "policy keep keys_asked"};

/* ---- strata ---- */

/* Where settings of a kind begin: those of strata follow the rows, those of heads come last. */
static int64_t first_of_strata(const downstream_state *s) { return 1 + s->n_rows; }

static int64_t first_of_heads(const es_job *job)
{
    const downstream_params *p = job->params;
    const downstream_state *s = job->state;
    return 1 + s->n_rows * (1 + (p->strata ? DOWNSTREAM_STRATA : 0));
}

/* Differences of costs on the same texts. */
static es_status excess_of(es_job *job, const downstream_found *a, const downstream_found *b,
                           es_measured *out, double *p, es_error *err)
{
    const downstream_state *s = job->state;
    double *d;
    ES_TRY(ES_JOB_NEW(job, d, s->count, err));
    for (int64_t i = 0; i < s->count; i++)
        d[i] = a->texts[i] - b->texts[i];
    *out = es_measured_mean(d, s->count);
    *p = (double)NAN;
    if (out->se > 0.0)
        *p = fmin(1.0, 2.0 * es_student_tail((double)s->count - 1.0, fabs(out->value) / out->se));
    return ES_OK;
}

static void put_range(const downstream_state *s, const double *horizons, const int *strata, int t,
                      es_table *table, int64_t row)
{
    double low = INFINITY, high = -INFINITY, count = 0.0;
    for (int64_t h = 0; h < s->heads; h++)
        if (strata[h] == t) {
            low = fmin(low, horizons[h]);
            high = fmax(high, horizons[h]);
            count += 1.0;
        }
    es_table_text(table, row, "stratum", names[t]);
    es_put(table, row, {"heads", count}, {"horizon_low", low}, {"horizon_high", high});
}

/* Row `row` of the policies: its strata begin at row `at` of the table, whose p-values are those
 * for all rows together; f (DOWNSTREAM_STRATA) is what they cost. */
static void tell_strata(const es_job *job, int64_t row, const downstream_found *f,
                        const es_table *t, int64_t at, es_answer *a)
{
    const downstream_state *s = job->state;
    const int64_t last = at + DOWNSTREAM_STRATA - 1;
    const double excess = es_table_get(t, last, "excess"), p = es_table_get(t, last, "excess_p");
    char where[DOWNSTREAM_ROOM], slow[ES_SAY_ROOM], fast[ES_SAY_ROOM], more[ES_SAY_ROOM],
        lost[ES_SAY_ROOM], less[ES_SAY_ROOM];
    const downstream_found *x = &f[DOWNSTREAM_STRATA - 1];
    es_say_number(x->cost.value, x->cost.se, slow);
    es_say_number(f->cost.value, f->cost.se, fast);
    es_say_number(excess, es_table_get(t, last, "excess_se"), more);
    downstream_say_row(s, row, where);
    if (s->lab.embed) {
        es_answer_add_finding(
            a,
            "By %s, thinning only the third of the heads with the largest horizons "
            "moves embeddings by 1 - cosine = %s, the smallest %s: %s more (p = %.2g).",
            where, slow, fast, more, p);
        return;
    }
    es_say_number(100.0 * x->lost.value, 100.0 * x->lost.se, lost);
    es_say_number(100.0 * f->lost.value, 100.0 * f->lost.se, less);
    es_answer_add_finding(
        a,
        "By %s, thinning only the third of the heads with the largest horizons costs "
        "KL %s and %s points of accuracy (p = %.2g), the smallest %s and %s (p = %.2g): "
        "slow heads %s (KL larger by %s, p = %.2g).",
        where, slow, lost, es_table_get(t, last, "lost_p"), fast, less,
        es_table_get(t, at, "lost_p"),
        !(p < 0.05)    ? "cost the same as far as these texts can tell"
        : excess > 0.0 ? "cost more"
                       : "cost less",
        more, p);
}

static es_status put_row_strata(es_job *job, int64_t r, const double *horizons, const int *strata,
                                downstream_found *f, es_table *t, es_error *err)
{
    const downstream_state *s = job->state;
    es_measured excess;
    double p;
    for (int k = 0; k < DOWNSTREAM_STRATA; k++) {
        const int64_t at = first_of_strata(s) + r * DOWNSTREAM_STRATA + k, row = es_table_row(t);
        ES_TRY(downstream_measure(job, at, &f[k], err));
        downstream_put_setting(job, &s->settings[at], &f[k], t, row);
        put_range(s, horizons, strata, k, t, row);
        downstream_put_cost(job, &f[k], t, row);
        if (k == 0)
            continue;
        ES_TRY(excess_of(job, &f[k], &f[0], &excess, &p, err));
        es_put(t, row, {"excess", excess.value}, {"excess_se", excess.se}, {"excess_p", p});
    }
    return ES_OK;
}

es_status downstream_put_strata(es_job *job, es_answer *answer, es_error *err)
{
    const downstream_state *s = job->state;
    const double *horizons = es_job_numbers(job, DOWNSTREAM_HORIZONS, 0);
    es_table *t = es_answer_table(answer, &strata_table);
    int *strata;
    downstream_found *f; /* (n_rows, DOWNSTREAM_STRATA) */
    ES_TRY(ES_JOB_NEW(job, strata, s->heads, err));
    ES_TRY(ES_JOB_NEW_2D(job, f, s->n_rows, DOWNSTREAM_STRATA, err));
    downstream_stratum(s, horizons, strata);
    for (int64_t r = 0; r < s->n_rows; r++)
        ES_TRY(put_row_strata(job, r, horizons, strata, f + r * DOWNSTREAM_STRATA, t, err));
    ES_TRY(downstream_correct(job, t, 0, "excess_p", err));
    ES_TRY(downstream_correct(job, t, 0, "lost_p", err));
    for (int64_t r = 0; r < s->n_rows; r++)
        tell_strata(job, r, f + r * DOWNSTREAM_STRATA, t, r * DOWNSTREAM_STRATA, answer);
    return ES_OK;
}

/* ---- heads one by one ---- */

/* Pairs that Spearman's correlation is of. */
typedef struct pairs {
    double *horizon, *cost;
    int64_t *layer;
} pairs;

static void put_ranks(const es_spearman *all, const es_spearman *within, es_table *t, int64_t row)
{
    es_put(t, row, {"heads", (double)all->count}, {"spearman", all->value},
           {"spearman_ci.0", all->low}, {"spearman_ci.1", all->high}, {"spearman_p", all->p},
           {"within", within->value}, {"within_ci.0", within->low}, {"within_ci.1", within->high},
           {"within_p", within->p});
}

static void tell_ranks(const es_job *job, int64_t r, const es_spearman *all,
                       const es_spearman *within, es_answer *a)
{
    const downstream_state *s = job->state;
    char where[DOWNSTREAM_ROOM], inside[ES_SAY_ROOM] = "";
    downstream_say_row(s, r, where);
    if (s->only < 0 && isfinite(within->value))
        snprintf(inside, sizeof inside, "; inside layers %.2f (%.2f to %.2f), p = %.2g",
                 within->value, within->low, within->high, within->p);
    if (isfinite(all->value))
        es_answer_add_finding(
            a,
            "Over %lld heads thinned one by one by %s, Spearman's correlation of a "
            "head's horizon with what that costs is %.2f (95 %% interval %.2f to %.2f, "
            "p = %.2g)%s.",
            (long long)all->count, where, all->value, all->low, all->high, all->p, inside);
}

/* Row r: every head in scope, and the correlation over them. */
static es_status put_row_heads(es_job *job, int64_t r, const double *horizons, const pairs *x,
                               es_table *t, es_answer *answer, es_error *err)
{
    const downstream_state *s = job->state;
    es_table *ranks = es_answer_table(answer, &ranks_table);
    downstream_found f;
    es_spearman all, within;
    for (int64_t i = 0; i < s->in_scope; i++) {
        const int64_t at = first_of_heads(job) + r * s->in_scope + i, row = es_table_row(t);
        const int64_t head = s->settings[at].head;
        ES_TRY(downstream_measure(job, at, &f, err));
        downstream_put_setting(job, &s->settings[at], &f, t, row);
        es_put(t, row, {"layer", (double)(head / s->config->heads)},
               {"head", (double)(head % s->config->heads)}, {"horizon", horizons[head]});
        downstream_put_cost(job, &f, t, row);
        x->horizon[i] = horizons[head];
        x->cost[i] = f.cost.value;
        x->layer[i] = head / s->config->heads;
    }
    ES_TRY(es_spearman_of(x->horizon, x->cost, NULL, s->in_scope, job->exec.budget, &all, err));
    ES_TRY(
        es_spearman_of(x->horizon, x->cost, x->layer, s->in_scope, job->exec.budget, &within, err));
    const int64_t row = es_table_row(ranks);
    downstream_put_setting(job, &s->settings[1 + r], &f, ranks, row);
    put_ranks(&all, &within, ranks, row);
    tell_ranks(job, r, &all, &within, answer);
    return ES_OK;
}

es_status downstream_put_heads(es_job *job, es_answer *answer, es_error *err)
{
    const downstream_state *s = job->state;
    const double *horizons = es_job_numbers(job, DOWNSTREAM_HORIZONS, 0);
    es_table *ranks = es_answer_table(answer, &ranks_table); /* before the heads, for people */
    es_table *t = es_answer_table(answer, &heads_table);
    pairs x;
    (void)ranks;
    ES_TRY(ES_JOB_NEW(job, x.horizon, s->in_scope, err));
    ES_TRY(ES_JOB_NEW(job, x.cost, s->in_scope, err));
    ES_TRY(ES_JOB_NEW(job, x.layer, s->in_scope, err));
    for (int64_t r = 0; r < s->n_rows; r++)
        ES_TRY(put_row_heads(job, r, horizons, &x, t, answer, err));
    return downstream_correct(job, t, 0, "lost_p", err);
}
