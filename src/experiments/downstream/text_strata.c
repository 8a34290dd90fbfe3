/* SPDX-License-Identifier: Apache-2.0 */
/* text_strata.c : table "text_strata": thirds of the texts by the horizon of their own tokens.
 *
 * The public code of *Token Sample Complexity* divides examples like this. Another question is
 * which heads need many keys: strata.c. Texts of different thirds differ in more than their
 * horizon, such as their length, so the table has their mean number of tokens. */
#include <math.h>

#include "base/error.h"
#include "experiments/downstream/downstream.h"
#include "experiments/kit/answer_kit.h"
#include "stats/special.h"

/* A row: one policy and amount on a third of the texts. */
typedef struct text_stratum_row {
    downstream_asked asked;
    const char *stratum;
    int64_t texts;
    double tokens;
    double horizon_low, horizon_high, unscaled_low, unscaled_high;
    downstream_cost cost;
    es_measured excess;
    double excess_p;
} text_stratum_row;

static const es_column columns[] = {
    DOWNSTREAM_ASKED_COLUMNS(text_stratum_row),
    ES_COL(text_stratum_row, stratum, ES_FORMAT_TEXT, "texts", "",
           "the third of the texts with the smallest horizons (low), the middle third, the third "
           "with the largest (high)"),
    ES_COL_KEY(text_stratum_row, texts, "texts", ES_FORMAT_COUNT, "number", ""),
    ES_COL(text_stratum_row, tokens, ES_FORMAT_SHORT, "tokens", "tokens",
           "of a text, mean over the third"),
    ES_COL(text_stratum_row, horizon_low, ES_FORMAT_SHORT, "H from", "",
           "smallest and largest `|S^1/2 A S^1/2|` among them: S the covariance of a text's own "
           "tokens, A all heads of the layer as one, score scale included"),
    ES_COL(text_stratum_row, horizon_high, ES_FORMAT_SHORT, "to", ""),
    ES_COL(text_stratum_row, unscaled_low, ES_FORMAT_SHORT, "H unscaled from", "",
           "without the score scale `1/sqrt(k)`, as the papers' code reports it"),
    ES_COL(text_stratum_row, unscaled_high, ES_FORMAT_SHORT, "to", ""),
    DOWNSTREAM_COST_COLUMNS(text_stratum_row),
    ES_COL(text_stratum_row, excess, ES_FORMAT_REAL, "beyond low", "",
           "KL, or 1 - cosine, less that of the low third, which has other texts"),
    ES_COL(text_stratum_row, excess_p, ES_FORMAT_SHORT, "p", "",
           "p-value of no difference, Welch's t; corrected for all rows by Holm"),
    {0}};
static const es_table_spec text_strata_table = {
    "text_strata", columns,
    ES_VIEW("Thirds of the texts, by horizon",
            "policy keep keys_asked stratum tokens horizon_low horizon_high unscaled_low "
            "unscaled_high accuracy lost lost_p agreement kl cosine recall excess excess_p"),
    ES_ROW(text_stratum_row), .keys = "policy keep keys_asked stratum"};

/* What the rows are made of: memory of the job. */
typedef struct text_thirds {
    int *stratum;           /* (count) 0, 1, 2 of each text */
    double *horizons;       /* (count) unscaled */
    downstream_text *texts; /* (count) in one setting */
    downstream_text *of;    /* (count) those of one third */
    double *x;              /* (count) */
} text_thirds;

/* Divides the texts: ranks by counting those before each, equal horizons in their order. */
static void divide(const es_job *job, text_thirds *d)
{
    const downstream_state *s = job->state;
    for (int64_t i = 0; i < s->count; i++)
        d->horizons[i] = es_job_numbers(job, DOWNSTREAM_TEXT_HORIZONS, i / s->slice)[i % s->slice];
    for (int64_t i = 0; i < s->count; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < s->count; j++)
            before +=
                d->horizons[j] < d->horizons[i] || (d->horizons[j] == d->horizons[i] && j < i);
        d->stratum[i] = (int)(before * DOWNSTREAM_STRATA / s->count);
    }
}

/* Copies the texts of third k to d->of, and fills what is known about them. Returns how many. */
static int64_t choose_texts(const downstream_state *s, const text_thirds *d, int k,
                            text_stratum_row *r)
{
    static const char *const names[DOWNSTREAM_STRATA] = {"low", "middle", "high"};
    const double scale = 1.0 / s->config->score_divisor;
    r->stratum = names[k];
    r->texts = 0;
    r->tokens = 0.0;
    r->unscaled_low = INFINITY;
    r->unscaled_high = -INFINITY;
    for (int64_t i = 0; i < s->count; i++)
        if (d->stratum[i] == k) {
            d->of[r->texts++] = d->texts[i];
            r->tokens += (double)(s->texts.blocks.start[i + 1] - s->texts.blocks.start[i]);
            r->unscaled_low = fmin(r->unscaled_low, d->horizons[i]);
            r->unscaled_high = fmax(r->unscaled_high, d->horizons[i]);
        }
    r->tokens /= (double)r->texts;
    r->horizon_low = scale * r->unscaled_low;
    r->horizon_high = scale * r->unscaled_high;
    return r->texts;
}

/* Fills the difference to the low third: other texts, so the two means are independent. Welch and
 * Satterthwaite's degrees of freedom. */
static void fill_excess(const text_stratum_row *low, text_stratum_row *r)
{
    const es_measured *a = &low->cost.per_text, *b = &r->cost.per_text;
    const double va = a->se * a->se, vb = b->se * b->se, v = va + vb;
    r->excess = (es_measured){b->value - a->value, sqrt(v)};
    r->excess_p = (double)NAN;
    if (v > 0.0) {
        const double freedom =
            v * v / (va * va / ((double)low->texts - 1.0) + vb * vb / ((double)r->texts - 1.0));
        r->excess_p =
            fmin(1.0, 2.0 * es_student_tail(freedom, fabs(r->excess.value) / r->excess.se));
    }
}

/* Adds the thirds of one setting. */
static es_status add_thirds(es_job *job, int64_t setting, const text_thirds *d, es_table *t,
                            es_error *err)
{
    const downstream_state *s = job->state;
    const int64_t draws = s->settings[setting].draws;
    text_stratum_row low = {0};
    ES_TRY(downstream_texts(job, setting, d->texts, err));
    for (int k = 0; k < DOWNSTREAM_STRATA; k++) {
        text_stratum_row *row = es_rows_add(t, text_stratum_row);
        if (!row)
            return es_answer_status(job->answer, err);
        downstream_fill_asked(job, setting, t, &row->asked);
        const int64_t count = choose_texts(s, d, k, row);
        downstream_sum_up(job, draws, d->of, count, d->x, &row->cost);
        if (k && setting)
            fill_excess(&low, row);
        low = k ? low : *row;
    }
    return ES_OK;
}

/* Compares the thirds with the largest and the smallest horizons at one policy and amount. */
static void report_thirds(const es_job *job, int64_t row, const text_stratum_row *rows,
                          es_answer *a)
{
    const downstream_state *s = job->state;
    const text_stratum_row *low = &rows[0], *high = &rows[DOWNSTREAM_STRATA - 1];
    char where[DOWNSTREAM_SIZE], more[ES_SAY_SIZE];
    const char *verdict = !(high->excess_p < 0.05)   ? "are not shown to lose more or less than"
                          : high->excess.value > 0.0 ? "lose more than"
                                                     : "lose less than";
    es_answer_add_finding(a,
                          "By %s, texts of %.3g tokens with the largest horizons %s texts of %.3g "
                          "tokens with the smallest: %s differs by %s (p = %.2g).",
                          downstream_say_row(s, row, where), high->tokens, verdict, low->tokens,
                          s->lab.embed ? "1 - cosine" : "KL",
                          es_say_number(high->excess.value, high->excess.se, more), high->excess_p);
}

es_status downstream_put_text_strata(es_job *job, es_answer *answer, es_error *err)
{
    const downstream_state *s = job->state;
    es_table *t = es_answer_table(answer, &text_strata_table);
    text_thirds d;
    ES_TRY(ES_JOB_NEW(job, d.stratum, s->count, err));
    ES_TRY(ES_JOB_NEW(job, d.horizons, s->count, err));
    ES_TRY(ES_JOB_NEW(job, d.texts, s->count, err));
    ES_TRY(ES_JOB_NEW(job, d.of, s->count, err));
    ES_TRY(ES_JOB_NEW(job, d.x, s->count, err));
    divide(job, &d);
    for (int64_t i = 0; i < 1 + s->n_rows; i++)
        ES_TRY(add_thirds(job, i, &d, t, err));
    text_stratum_row *rows = es_rows(t, text_stratum_row) + DOWNSTREAM_STRATA; /* of policies */
    const int64_t count = s->n_rows * DOWNSTREAM_STRATA;
    ES_TRY(DOWNSTREAM_CORRECT(job, rows, text_stratum_row, excess_p, count, err));
    ES_TRY(DOWNSTREAM_CORRECT(job, rows, text_stratum_row, cost.lost_p, count, err));
    if (s->n_rows)
        report_thirds(job, downstream_middle(s), rows + downstream_middle(s) * DOWNSTREAM_STRATA,
                      answer);
    return ES_OK;
}
