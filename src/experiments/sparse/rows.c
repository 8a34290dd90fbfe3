/* rows.c : cells of queries become rows, one for each head and plan; and whether what was
 * measured agrees with what was computed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "stats/average.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/sparse/question.h"

/* ---- one head, one plan ---- */

static const es_sparse_cell *cell_of(const es_job *job, int64_t place, int64_t context,
                                     int64_t query, int64_t plan)
{
    const sparse_state *s = job->state;
    const int64_t cell = (place * s->contexts + context) * s->groups + query / s->group;
    const double *all = es_job_numbers(job, SPARSE_QUERIES, cell);
    return (const es_sparse_cell *)(const void *)(all + ((query % s->group) * s->n_plans + plan) *
                                                            SPARSE_NUMBERS);
}

/* Blocks whose scatter is the uncertainty: contexts, or the queries of a single one. Each has the
 * sums of two numbers over its queries. */
typedef struct blocks {
    int64_t count;
    double (*sums)[2];
} blocks;

/* The ratio of the two sums, and its standard error over blocks. */
static es_measured ratio_of(const blocks *b)
{
    double above = 0.0, below = 0.0, scatter = 0.0;
    for (int64_t i = 0; i < b->count; i++) {
        above += b->sums[i][0];
        below += b->sums[i][1];
    }
    const double ratio = above / below;
    for (int64_t i = 0; i < b->count; i++) {
        const double off = b->sums[i][0] - ratio * b->sums[i][1];
        scatter += off * off;
    }
    return (es_measured){ratio, es_block_se(scatter, below, b->count)};
}

/* What number of a cell goes above, and which below; -1: one. */
static void fill_blocks(const es_job *job, int64_t place, int64_t plan, int above, int below,
                        blocks *b)
{
    const sparse_state *s = job->state;
    const bool by_query = s->contexts == 1;
    b->count = by_query ? s->queries : s->contexts;
    memset(b->sums, 0, (size_t)b->count * sizeof *b->sums);
    for (int64_t c = 0; c < s->contexts; c++)
        for (int64_t i = 0; i < s->queries; i++) {
            const double *x = (const double *)(const void *)cell_of(job, place, c, i, plan);
            double *to = b->sums[by_query ? i : c];
            to[0] += x[above];
            to[1] += below < 0 ? 1.0 : x[below];
        }
}

#define NUMBER(member) ((int)(offsetof(es_sparse_cell, member) / sizeof(double)))

static double mean_of(const es_job *job, int64_t place, int64_t plan, int number, blocks *b)
{
    fill_blocks(job, place, plan, number, -1, b);
    return ratio_of(b).value;
}

static double median_ess(const es_job *job, int64_t place, double *room)
{
    const sparse_state *s = job->state;
    int64_t count = 0;
    for (int64_t c = 0; c < s->contexts; c++)
        for (int64_t i = 0; i < s->queries; i++)
            room[count++] = cell_of(job, place, c, i, 0)->ess;
    es_sort_reals(room, count);
    return es_median_of(room, count);
}

static void sum_up(const es_job *job, int64_t place, int64_t plan, blocks *b, sparse_row *out)
{
    const sparse_state *s = job->state;
    const double queries = (double)(s->contexts * s->queries);
    const struct {
        double *to;
        int number;
    } means[] = {{&out->mse, NUMBER(mse)},
                 {&out->limit, NUMBER(limit)},
                 {&out->bias2, NUMBER(bias2)},
                 {&out->variance, NUMBER(variance)},
                 {&out->first_order, NUMBER(first_order)},
                 {&out->mass, NUMBER(mass)},
                 {&out->kept, NUMBER(kept)},
                 {&out->empty, NUMBER(empty)},
                 {&out->corrected, NUMBER(corrected)},
                 {&out->spread2, NUMBER(spread2)},
                 {&out->n, NUMBER(n)}};
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        *means[i].to = mean_of(job, place, plan, means[i].number, b);
    out->mse_se = sqrt(mean_of(job, place, plan, NUMBER(mse_var), b) / queries);
    fill_blocks(job, place, plan, NUMBER(exact), -1, b);
    const es_measured exact = ratio_of(b);
    out->exact = exact.value;
    out->exact_se = exact.se;
    fill_blocks(job, place, plan, NUMBER(mse), NUMBER(spread2), b);
    const es_measured relative2 = ratio_of(b);
    out->relative = sqrt(relative2.value);
    out->relative_se = relative2.value > 0.0 ? relative2.se / (2.0 * out->relative) : 0.0;
}

/* ---- the table of rows ---- */

static const es_column row_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"policy", "policy", "", ES_FORMAT_TEXT},
    {"correction", "correction", "", ES_FORMAT_TEXT,
     "of weights of keys that are kept by chance: none, or inverse: over their probability"},
    {"asked", "asked as", "", ES_FORMAT_TEXT, "the policy with what else was said of it"},
    {"keys", "keys", "keys", ES_FORMAT_COUNT,
     "to keep, as asked; where parts decide, as many as are kept"},
    {"kept", "kept", "keys", ES_FORMAT_SHORT, "that are kept, expected, mean over queries"},
    {"seen", "seen", "keys", ES_FORMAT_SHORT, "that a query sees, mean over queries"},
    {"share", "share kept", "", ES_FORMAT_SHORT, "kept over seen"},
    {"relative_error", "rel. error", "spreads", ES_FORMAT_REAL,
     "sqrt(mse / mean of sum w |v - y|^2): error in spreads of the values around the output, by "
     "their weights; standard error over contexts, or over queries of a single one",
     .error = "relative_error_se"},
    {"relative_limit", "limit", "spreads", ES_FORMAT_REAL,
     "the same of mse_limit: no unbiased policy that keeps as many keys independently does better, "
     "to first order; a biased one may",
     .standing = ES_STANDING_HEURISTIC},
    {"over_limit", "over limit", "", ES_FORMAT_SHORT, "relative error over the limit's",
     .standing = ES_STANDING_HEURISTIC},
    {"mass", "mass", "", ES_FORMAT_REAL, "share of the weights that is kept, expected",
     .standing = ES_STANDING_PROVED},
    {"mse", "mse", "", ES_FORMAT_REAL,
     "|y_S - y|^2, mean over queries and draws; standard error of the draws alone, 0 where nothing "
     "is left to chance",
     .error = "mse_se"},
    {"mse_exact", "exact", "", ES_FORMAT_REAL,
     "its expectation, by integration; standard error over contexts, or queries of one",
     .error = "mse_exact_se", .standing = ES_STANDING_PROVED},
    {"mse_limit", "mse limit", "", ES_FORMAT_REAL,
     "the smallest of any unbiased policy that keeps as many keys, each on its own, to first order",
     .standing = ES_STANDING_HEURISTIC},
    {"bias2", "bias^2", "", ES_FORMAT_REAL, "|E y_S - y|^2, mean over queries",
     .standing = ES_STANDING_PROVED},
    {"variance", "variance", "", ES_FORMAT_REAL, "the rest of the exact error",
     .standing = ES_STANDING_PROVED},
    {"first_order", "first order", "", ES_FORMAT_REAL, "the form of the exact error for many keys",
     .standing = ES_STANDING_HEURISTIC},
    {"z", "z", "errors", ES_FORMAT_SHORT, "mse less exact, in standard errors of the draws"},
    {"empty", "empty", "", ES_FORMAT_SHORT, "probability that nothing is kept: left out of errors"},
    {"spread2", "spread^2", "", ES_FORMAT_REAL, "sum w |v - y|^2, mean over queries"},
    {"ess", "ESS", "keys", ES_FORMAT_SHORT,
     "effective number of keys, 1/sum w^2, of the median query over all keys"},
    {"regime", "regime", "", ES_FORMAT_TEXT,
     "by that: averaging from 100 keys on (two thirds of the context, if that is less), single-key "
     "below 2, selective between"},
    {0}};
/* Where tables of heads have the answer, the rows are for those who ask for everything. */
#define ROW_VIEW                                                                                   \
    "layer head asked keys kept share relative_error relative_limit over_limit mass mse "          \
    "mse_exact "                                                                                   \
    "bias2 "                                                                                       \
    "variance"
static const es_table_view row_views[] = {
    {"What each policy does", ROW_VIEW},
    {"Policies, head by head", ROW_VIEW, .only_with_full = true},
    {0}};
static const char *const alone[] = {"What each policy does", NULL}, *const beside[] = {
                                                                        "Policies, head by head",
                                                                        NULL};
static const es_table_spec rows_table = {"rows", row_columns, row_views,
                                         .keys = "layer head asked keys"};

static const es_column query_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"policy", "policy", "", ES_FORMAT_TEXT},
    {"correction", "correction", "", ES_FORMAT_TEXT},
    {"asked", "asked as", "", ES_FORMAT_TEXT},
    {"keys", "keys", "keys", ES_FORMAT_COUNT},
    {"context", "context", "", ES_FORMAT_COUNT, "number of the context"},
    {"query", "query", "", ES_FORMAT_COUNT, "its row among the queries of the context"},
    {"mse", "mse", "", ES_FORMAT_REAL, "mean over draws", .error = "mse_se"},
    {"mse_exact", "exact", "", ES_FORMAT_REAL, "its expectation, by integration",
     .standing = ES_STANDING_PROVED},
    {"mse_limit", "limit", "", ES_FORMAT_REAL, "of unbiased policies, to first order",
     .standing = ES_STANDING_HEURISTIC},
    {"mass", "mass", "", ES_FORMAT_REAL, "that is kept, expected", .standing = ES_STANDING_PROVED},
    {"kept", "kept", "keys", ES_FORMAT_SHORT, "keys, expected"},
    {"spread2", "spread^2", "", ES_FORMAT_REAL, "sum w |v - y|^2"},
    {"ess", "ESS", "keys", ES_FORMAT_SHORT, "1/sum w^2 over all keys"},
    {0}};
static const es_table_spec queries_table = {"per_query",
                                            query_columns,
                                            ES_VIEW("Query by query", .only_with_full = true),
                                            .inside = "rows",
                                            .link = "layer head asked keys",
                                            .nested = "queries",
                                            .only_inside = true,
                                            .keys = "layer head asked keys context query"};

/* What a row and its queries are about. */
static void name_row(const sparse_state *s, int64_t place, int64_t plan, const sparse_row *r,
                     es_table *t, int64_t row)
{
    char word[ES_POLICY_ROOM];
    const int64_t asked = sparse_keys(s, place, plan);
    es_table_count(t, row, "layer", s->places[place].layer);
    es_table_count(t, row, "head", s->places[place].head);
    es_table_text(t, row, "policy", es_policy_name(sparse_spec_of(s, place, plan)->policy));
    es_table_text(t, row, "correction", r->corrected > 0.0 ? "inverse" : "none");
    es_table_text(t, row, "asked", sparse_asked(s, place, plan, word));
    es_table_count(t, row, "keys", asked ? asked : (int64_t)round(r->kept));
}

static void put_row(const sparse_state *s, int64_t place, int64_t plan, const sparse_row *r,
                    double ess, es_table *t)
{
    const int64_t row = es_table_row(t);
    const double limit = sqrt(r->limit / r->spread2);
    name_row(s, place, plan, r, t, row);
    es_put(t, row, {"kept", r->kept}, {"seen", r->n}, {"share", r->kept / r->n},
           {"relative_error", r->relative}, {"relative_error_se", r->relative_se},
           {"relative_limit", limit}, {"over_limit", r->relative / limit}, {"mass", r->mass},
           {"mse", r->mse}, {"mse_se", r->mse_se}, {"mse_exact", r->exact},
           {"mse_exact_se", r->exact_se}, {"mse_limit", r->limit}, {"bias2", r->bias2},
           {"variance", r->variance}, {"first_order", r->first_order}, {"empty", r->empty},
           {"spread2", r->spread2}, {"ess", ess});
    if (r->mse_se > 0.0)
        es_table_real(t, row, "z", (r->mse - r->exact) / r->mse_se);
    es_table_text(t, row, "regime", sparse_regime(r));
}

static void put_queries(const es_job *job, int64_t place, int64_t plan, const sparse_row *r,
                        es_table *t)
{
    const sparse_state *s = job->state;
    for (int64_t c = 0; c < s->contexts; c++)
        for (int64_t i = 0; i < s->queries; i++) {
            const es_sparse_cell *x = cell_of(job, place, c, i, plan);
            const int64_t row = es_table_row(t);
            name_row(s, place, plan, r, t, row);
            es_table_count(t, row, "context", c);
            es_table_count(t, row, "query", s->which[c * s->queries + i]);
            es_put(t, row, {"mse", x->mse}, {"mse_se", sqrt(x->mse_var)}, {"mse_exact", x->exact},
                   {"mse_limit", x->limit}, {"mass", x->mass}, {"kept", x->kept},
                   {"spread2", x->spread2}, {"ess", x->ess});
        }
}

/* ---- does it agree? ---- */

static const es_column agreement_columns[] = {
    {"policy", "policy", "", ES_FORMAT_TEXT},
    {"keys", "keys", "keys", ES_FORMAT_COUNT},
    {"heads", "heads", "", ES_FORMAT_COUNT},
    {"ratio", "measured/exact", "", ES_FORMAT_REAL, "of mean square errors, mean over heads",
     .error = "ratio_se"},
    {"z_rms", "z", "errors", ES_FORMAT_SHORT,
     "root mean square over heads of (measured - exact) in standard errors: near 1 if they agree"},
    {"first_order_ratio", "first order/exact", "", ES_FORMAT_SHORT, "median over heads",
     .standing = ES_STANDING_HEURISTIC},
    {"first_order_low", "lowest", "", ES_FORMAT_SHORT, "of that ratio"},
    {"first_order_high", "highest", "", ES_FORMAT_SHORT, "likewise"},
    {0}};
static const es_table_spec agreement_table = {
    "agreement", agreement_columns,
    ES_VIEW("Exact errors against simulation, where chance decides", NULL,
            "The exact error is an integral, the measured one a mean over draws; they share no "
            "code.",
            .only_with_full = true),
    .keys = "policy keys"};

static void agree_on(const sparse_state *s, const sparse_row *rows, int64_t plan, double *room,
                     es_table *t)
{
    double ratio = 0.0, ratio_se = 0.0, z2 = 0.0;
    int64_t heads = 0;
    int64_t known = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        const sparse_row *r = &rows[i * s->n_plans + plan];
        if (!(r->mse_se > 0.0 && r->exact > 0.0))
            continue;
        const double z = (r->mse - r->exact) / r->mse_se;
        ratio += r->mse / r->exact;
        ratio_se = hypot(ratio_se, r->mse_se / r->exact);
        z2 += z * z;
        heads++;
        if (isfinite(r->first_order))
            room[known++] = r->first_order / r->exact;
    }
    if (heads == 0)
        return;
    const double count = (double)heads;
    const int64_t row = es_table_row(t);
    es_sort_reals(room, known);
    es_table_text(t, row, "policy", s->plans[plan].word);
    es_table_count(t, row, "keys",
                   s->plans[plan].keys ? s->plans[plan].keys : (int64_t)round(rows[plan].kept));
    es_table_count(t, row, "heads", heads);
    es_put(t, row, {"ratio", ratio / count}, {"ratio_se", ratio_se / count},
           {"z_rms", sqrt(z2 / count)});
    if (known > 0)
        es_put(t, row, {"first_order_ratio", es_median_of(room, known)},
               {"first_order_low", room[0]}, {"first_order_high", room[known - 1]});
}

/* Without positions there are no windows, and what is made of one keeps less than it is asked to:
 * it is then compared with policies that keep more. The worst is named. */
static void caution_positions(const sparse_state *s, const sparse_row *rows, es_answer *answer)
{
    int64_t worst = -1;
    double least = 0.9; /* of what was asked for; chance may be a little short */
    if (s->source != SPARSE_FILES || s->p->positions || s->m == s->n)
        return;
    for (int64_t k = 0; k < s->n_plans; k++)
        if (s->plans[k].keys > 0 && rows[k].kept < least * (double)s->plans[k].keys) {
            least = rows[k].kept / (double)s->plans[k].keys;
            worst = k;
        }
    if (worst >= 0)
        es_answer_add_finding(
            answer,
            "Caution: queries have no positions, and without one there is no window: %s "
            "keeps %.3g of %lld keys; see --positions.",
            s->plans[worst].word, rows[worst].kept, (long long)s->plans[worst].keys);
}

/* Returns the medians over heads of a plan's error and of its standard error; NaN if no head has a
 * spread. */
static es_measured median_of(const sparse_state *s, const sparse_row *rows, int64_t plan,
                             double *room)
{
    es_measured out;
    double *const to[2] = {&out.value, &out.se};
    for (int which = 0; which < 2; which++) {
        int64_t count = 0;
        for (int64_t i = 0; i < s->n_places; i++) {
            const sparse_row *r = &rows[i * s->n_plans + plan];
            if (sparse_has_spread(r))
                room[count++] = which ? r->relative_se : sqrt(sparse_error2(r) / r->spread2);
        }
        es_sort_reals(room, count);
        *to[which] = es_median_of(room, count);
    }
    return out;
}

const char *sparse_say_seen(const sparse_state *s, double kept, char out[ES_SAY_ROOM])
{
    char keys[64];
    const double percent = 100.0 * kept / s->mean_seen;
    if (s->seen[0] == s->seen[1])
        snprintf(keys, sizeof keys, "%lld keys", (long long)s->seen[0]);
    else
        snprintf(keys, sizeof keys, "the %lld to %lld keys that a query sees",
                 (long long)s->seen[0], (long long)s->seen[1]);
    snprintf(out, ES_SAY_ROOM, "%s (%.3g %%)", keys, percent);
    return out;
}

/* Says what a policy does whose parts say how many keys it keeps: of several, the best. */
static void tell_plans(const sparse_state *s, const sparse_row *rows, double *room,
                       es_answer *answer)
{
    char seen[ES_SAY_ROOM], error[ES_SAY_ROOM];
    int64_t best = -1, count = 0;
    es_measured least = {(double)NAN, (double)NAN};
    for (int64_t k = 0; k < s->n_plans; k++) {
        const es_measured off = median_of(s, rows, k, room);
        if (s->plans[k].keys || isnan(off.value))
            continue;
        count++;
        if (best < 0 || off.value < least.value) {
            best = k;
            least = off;
        }
    }
    if (best < 0)
        return;
    double kept = 0.0;
    bool ideal = false;
    for (int64_t i = 0; i < s->n_places; i++) {
        kept += rows[i * s->n_plans + best].kept / (double)s->n_places;
        ideal = ideal || !es_policy_rolls(sparse_spec_of(s, i, best));
    }
    es_answer_add_finding(answer,
                          "%s keeps %.3g of %s%s; %s output is off by %s of the spread of its "
                          "values.%s",
                          s->plans[best].word, kept, sparse_say_seen(s, kept, seen),
                          count > 1 ? ", best of the policies with a fixed size" : "",
                          s->n_places > 1 ? "the median head's" : "the head's",
                          es_say_number(least.value, least.se, error),
                          ideal ? " Ideal: keys are chosen anew for every query." : "");
}

/* Says what these errors are often taken for. */
static void tell_meaning(es_answer *answer)
{
    es_answer_add_finding(answer,
                          "The error of a head's output is not the error of the model: depth, loss "
                          "and downstream measure that.");
}

/* ---- all of it ---- */

static es_status make_rows(es_job *job, sparse_row **rows, es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t queries = s->contexts * s->queries;
    blocks b;
    double *room;
    ES_TRY(ES_JOB_NEW_2D(job, *rows, s->n_places, s->n_plans, err));
    ES_TRY(ES_JOB_NEW(job, b.sums, queries, err));
    ES_TRY(ES_JOB_NEW(job, room, queries, err));
    for (int64_t i = 0; i < s->n_places; i++) {
        const double ess = median_ess(job, i, room);
        for (int64_t k = 0; k < s->n_plans; k++) {
            sum_up(job, i, k, &b, *rows + i * s->n_plans + k);
            (*rows)[i * s->n_plans + k].ess = ess;
        }
    }
    return ES_OK;
}

es_status sparse_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    sparse_row *rows;
    double *room;
    ES_TRY(make_rows(job, &rows, err));
    ES_TRY(ES_JOB_NEW(job, room, s->n_places, err));
    ES_TRY(sparse_put_heads(job, rows, answer, err));
    tell_plans(s, rows, room, answer);
    tell_meaning(answer);
    es_table *t = es_answer_table(answer, &rows_table);
    es_table_show(t, es_answer_find(answer, "heads") ? beside : alone);
    es_table *q = s->p->per_query ? es_answer_table(answer, &queries_table) : NULL;
    for (int64_t i = 0; i < s->n_places; i++)
        for (int64_t k = 0; k < s->n_plans; k++) {
            const sparse_row *r = &rows[i * s->n_plans + k];
            put_row(s, i, k, r, r->ess, t);
            if (q)
                put_queries(job, i, k, r, q);
        }
    es_table *agreed = es_answer_table(answer, &agreement_table);
    for (int64_t k = 0; k < s->n_plans; k++)
        agree_on(s, rows, k, room, agreed);
    caution_positions(s, rows, answer);
    if (s->source == SPARSE_MODEL)
        es_pools_caution(&s->pools, answer);
    return es_answer_status(answer, err);
}
