#include "study/probe_classes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/key_weights.h>

#include "base/error.h"
#include "stats/average.h"
#include "stats/special.h"
#include "study/answer_kit.h"

/* ---- one head ---- */

static const struct {
    const char *name, *meaning;
} about[PROBE_CLASSES] = {{"averages", "100 or more tokens share the weight"},
                          {"sharp", "a few share it, or errors fall slowly"},
                          {"selects one", "one token has most of the weight"},
                          {"undecided", "more draws, or a rate, are needed to tell"}};

const char *probe_class_name(probe_class kind) { return about[kind].name; }

/* A rate whose interval reaches from 1/2 down to here says nothing about 1/2: of errors that fall
 * like n^-1/4, a hundred times the tokens would not halve them twice. */
#define TOO_SLOW 0.25

/* Half of the 95 % interval of the ESS, and the ESS of a head that averages. */
static double ess_within(const probe_signs *s)
{
    return es_student_quantile((double)s->draws - 1.0, 0.025) * s->ess_se;
}

static double ess_many(const probe_signs *s) { return 1.0 / es_averages_squares(s->n); }

probe_class probe_class_of(const probe_signs *s)
{
    const double low = s->ess - ess_within(s), high = s->ess + ess_within(s);
    const double few = 1.0 / es_frozen_squares(s->n), many = ess_many(s);
    if (high < few)
        return PROBE_SELECTS;
    if (!(low >= few)) /* NaN is undecided */
        return PROBE_UNDECIDED;
    if (high < many || s->rate_high < 0.5)
        return PROBE_SHARP;
    return low >= many && s->rate_low >= TOO_SLOW ? PROBE_AVERAGES : PROBE_UNDECIDED;
}

bool probe_wants_rate(const probe_signs *s)
{
    return !isfinite(s->rate_low) && s->ess - ess_within(s) >= ess_many(s);
}

const char *probe_advice(const probe_case *h, char out[PROBE_ADVICE_ROOM])
{
    char size[ES_SAY_ROOM];
    const bool thin = h->thin > PROBE_THIN;
    if (h->kind == PROBE_UNDECIDED && h->wants_rate)
        snprintf(out, PROBE_ADVICE_ROOM, "no rate: a wider range of n (--n)");
    else if (h->kind == PROBE_UNDECIDED)
        snprintf(out, PROBE_ADVICE_ROOM, "more draws (--replicates %lld)", 4LL * h->draws);
    else if (h->kind == PROBE_SELECTS)
        snprintf(out, PROBE_ADVICE_ROOM, "keep the largest weights; sampling will not do");
    else if (isnan(h->needs))
        snprintf(out, PROBE_ADVICE_ROOM, "any token will do: its outputs hardly differ");
    else if (h->kind == PROBE_SHARP)
        snprintf(out, PROBE_ADVICE_ROOM, "choose keys by weight (at random: %s%s)",
                 thin ? "over " : "", es_say_size(h->needs, size));
    else if (thin)
        snprintf(out, PROBE_ADVICE_ROOM, "needs more text (--pool %s)",
                 es_say_size(10.0 * (double)h->pool, size));
    else
        snprintf(out, PROBE_ADVICE_ROOM, "%s random keys give it within 10 %%",
                 es_say_size(h->needs, size));
    return out;
}

void probe_put_class(es_table *heads, int64_t row, double n, int64_t draws, int64_t pool)
{
    char text[PROBE_ADVICE_ROOM];
    const probe_signs signs = {n,
                               es_table_get(heads, row, "ess_n"),
                               es_table_get(heads, row, "ess_n_se"),
                               draws,
                               es_table_get(heads, row, "rate_map_ci.0"),
                               es_table_get(heads, row, "rate_map_ci.1")};
    const probe_case head = {probe_class_of(&signs),
                             probe_wants_rate(&signs),
                             es_table_get(heads, row, "thin"),
                             es_table_get(heads, row, "tokens_for_tenth"),
                             draws,
                             pool};
    es_table_text(heads, row, "class", probe_class_name(head.kind));
    es_table_text(heads, row, "advice", probe_advice(&head, text));
}

/* ---- tables ---- */

static const es_column class_columns[] = {
    {"class", "class", "", ES_FORMAT_TEXT},
    {"heads", "heads", "", ES_FORMAT_COUNT, "how many; where there are domains, of each"},
    {"rate_map", "rate", "", ES_FORMAT_SHORT, "of their map errors, n^-rate: median over heads"},
    {"ess_n", "ESS", "tokens", ES_FORMAT_SHORT,
     "effective number of tokens, 1/sum w^2, of the median query at the largest n: median over "
     "heads"},
    {"meaning", "which means", "", ES_FORMAT_TEXT},
    {0}};
const es_table_spec probe_classes_table = {
    "classes", class_columns,
    ES_VIEW("Heads by class", NULL,
            "averages: ESS at the largest n is at least 100 (two thirds of n, if that is less), "
            "and the 95 % interval of the rate reaches 1/2 and stays above 1/4; selects one: ESS "
            "below 2; sharp: between, or the interval is below 1/2; undecided: 95 % intervals, "
            "over draws, leave it open"),
    .keys = "class"};

static const es_column matter_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"class", "class", "", ES_FORMAT_TEXT},
    {"advice", "what to do", "", ES_FORMAT_TEXT},
    {"moves", "moves", "", ES_FORMAT_SHORT,
     "by how much the head's error at the largest n moves the layer's output, over the spread of "
     "the layer's inputs",
     .error = "moves_se"},
    {"relative_error", "rel. error", "", ES_FORMAT_SHORT,
     "of the head's own output, over the spread of those", .error = "relative_error_se"},
    {"rate_map", "rate", "", ES_FORMAT_REAL, "of that error, n^-rate", .error = "rate_map_se"},
    {"ess_n", "ESS", "tokens", ES_FORMAT_SHORT, "effective number of the n tokens",
     .error = "ess_n_se"},
    {0}};
const es_table_spec probe_matter_table = {
    "matter_most", matter_columns,
    ES_VIEW("The ten heads that matter most", NULL,
            "Those with the largest `moves`, in its order. Random keys: how many of the whole "
            "pool, drawn independently, give the output within a tenth of its spread; tokens in a "
            "row are worth fewer (--draw contiguous)"),
    .keys = "domain layer head"};

/* ---- all heads ---- */

static void put_class(const es_table *heads, probe_class kind, double *room, es_table *to)
{
    static const char *const keys[] = {"rate_map", "ess_n"};
    const char *name = probe_class_name(kind);
    const int64_t row = es_table_row(to);
    int64_t members = 0;
    es_table_text(to, row, "class", name);
    es_table_text(to, row, "meaning", about[kind].meaning);
    for (int k = 0; k < 2; k++) {
        int64_t count = 0;
        members = 0;
        for (int64_t i = 0; i < es_table_rows(heads); i++) {
            if (strcmp(es_table_get_text(heads, i, "class"), name) != 0)
                continue;
            members++;
            room[count] = es_table_get(heads, i, keys[k]);
            count += isfinite(room[count]);
        }
        es_sort_reals(room, count);
        es_table_real(to, row, keys[k], count ? es_median_of(room, count) : (double)NAN);
    }
    es_table_count(to, row, "heads", members);
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

static void put_matter(const es_table *heads, int64_t from, es_table *to)
{
    static const char *const texts[] = {"class", "advice"};
    static const char *const numbers[] = {
        "layer",    "head",        "moves", "moves_se", "relative_error", "relative_error_se",
        "rate_map", "rate_map_se", "ess_n", "ess_n_se"};
    const int64_t row = es_table_row(to);
    const char *domain = es_table_get_text(heads, from, "domain");
    if (*domain)
        es_table_text(to, row, "domain", domain);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        es_table_text(to, row, texts[i], es_table_get_text(heads, from, texts[i]));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        es_table_real(to, row, numbers[i], es_table_get(heads, from, numbers[i]));
}

es_status probe_sum_up_classes(es_job *job, const es_table *heads, es_table *classes,
                               es_table *matter, es_error *err)
{
    const int64_t rows = es_table_rows(heads);
    double *room;
    ES_TRY(es_job_array(job, rows, 1, sizeof *room, &room, err));
    for (int kind = 0; kind < PROBE_CLASSES; kind++)
        put_class(heads, (probe_class)kind, room, classes);
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
