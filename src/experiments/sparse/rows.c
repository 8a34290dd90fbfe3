/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : the tables `rows`, one row for each head and plan, and `per_query`.
 *
 * The error of a policy is y_S - y = N/Z over the kept keys S, and its mean square over the
 * policy's random keys is exact (THEORY 13); draws only check it. Errors are shown relative to
 * sqrt(sum w |v - y|^2), the spread of the values around the output by their weights: 1 means that
 * one value, drawn by its weight, would do as well. The first-order column is the delta method,
 * which fails for selective heads. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/sparse/sparse.h"
#include "stats/average.h"
#include "table/table.h"
#include "theory/key_weights.h"

/* ---- means of one head and one plan ---- */

/* Returns the stored numbers of a plan on one query: cells hold groups of queries, and in them all
 * plans. */
static const es_sparse_cell *cell_of(const es_job *job, int64_t place, int64_t context,
                                     int64_t query, int64_t plan)
{
    const sparse_state *s = job->state;
    const int64_t cell = (place * s->contexts + context) * s->groups + query / s->group;
    const es_sparse_cell *all = es_job_cell(job, 0, cell);
    return all + (query % s->group) * s->n_plans + plan;
}

/* Blocks whose scatter is the uncertainty: contexts, or the queries of a single one. Each has the
 * sums over its queries of two members of a cell. */
typedef struct blocks {
    int64_t count;
    double (*sums)[2];
} blocks;

/* Returns the ratio r = sum a / sum b over blocks and its standard error, from the residuals
 * a - r b. */
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

/* Members of a cell, by offset: the sums below take any of them. */
#define MEMBER(member) offsetof(es_sparse_cell, member)
#define ONE            SIZE_MAX /* no member: the number 1 */

/* Returns one number of a cell; ONE stands for 1, so that sums count queries. */
static double number_of(const es_sparse_cell *x, size_t member)
{
    return member == ONE ? 1.0 : *(const double *)(const void *)((const char *)x + member);
}

/* Returns the ratio of two sums over queries with its jackknife error. Contexts are the independent
 * units; with a single context its queries are, which is a weaker claim. */
static es_measured ratio(const es_job *job, int64_t place, int64_t plan, size_t above, size_t below,
                         blocks *b)
{
    const sparse_state *s = job->state;
    const bool by_query = s->contexts == 1;
    b->count = by_query ? s->queries : s->contexts;
    memset(b->sums, 0, (size_t)b->count * sizeof *b->sums);
    for (int64_t c = 0; c < s->contexts; c++)
        for (int64_t i = 0; i < s->queries; i++) {
            const es_sparse_cell *x = cell_of(job, place, c, i, plan);
            double *to = b->sums[by_query ? i : c];
            to[0] += number_of(x, above);
            to[1] += number_of(x, below);
        }
    return ratio_of(b);
}

/* Returns the mean of one number over queries and contexts. */
static double mean_of(const es_job *job, int64_t place, int64_t plan, size_t member, blocks *b)
{
    return ratio(job, place, plan, member, ONE, b).value;
}

/* Returns the median effective number of keys, 1/sum w^2, over all queries of a head. */
static double median_ess(const es_job *job, int64_t place, double *scratch)
{
    const sparse_state *s = job->state;
    int64_t count = 0;
    for (int64_t c = 0; c < s->contexts; c++)
        for (int64_t i = 0; i < s->queries; i++)
            scratch[count++] = cell_of(job, place, c, i, 0)->ess;
    es_sort_reals(scratch, count);
    return es_median_of(scratch, count);
}

/* Fills in what the row is about, but for `asked`, a text that belongs to a table. */
static void name_row(const sparse_state *s, int64_t place, int64_t plan, bool corrected,
                     sparse_row *r)
{
    const int64_t keys = sparse_keys(s, place, plan);
    r->name = (sparse_name){.layer = s->places[place].layer,
                            .head = s->places[place].head,
                            .policy = es_policy_name(sparse_spec_of(s, place, plan)->policy),
                            .correction = corrected ? "inverse" : "none",
                            .keys = keys ? keys : (int64_t)round(r->kept)};
    r->regime = es_regime_name(sparse_regime_of(r));
}

/* Errors are relative to the spread: relative_error^2 = sum |y_S - y|^2 / sum spread^2, whose
 * standard error follows from that of the square by d sqrt(x) = dx / (2 sqrt(x)). */
static void average_row(const es_job *job, int64_t place, int64_t plan, double ess, blocks *b,
                        sparse_row *r)
{
    const sparse_state *s = job->state;
    const double queries = (double)(s->contexts * s->queries);
    r->mse = (es_measured){mean_of(job, place, plan, MEMBER(mse), b),
                           sqrt(mean_of(job, place, plan, MEMBER(mse_var), b) / queries)};
    r->mse_exact = ratio(job, place, plan, MEMBER(exact), ONE, b);
    r->mse_limit = mean_of(job, place, plan, MEMBER(limit), b);
    r->bias2 = mean_of(job, place, plan, MEMBER(bias2), b);
    r->variance = mean_of(job, place, plan, MEMBER(variance), b);
    r->first_order = mean_of(job, place, plan, MEMBER(first_order), b);
    r->z = r->mse.se > 0.0 ? (r->mse.value - r->mse_exact.value) / r->mse.se : es_unset_real();
    r->mass = mean_of(job, place, plan, MEMBER(mass), b);
    r->kept = mean_of(job, place, plan, MEMBER(kept), b);
    r->seen = mean_of(job, place, plan, MEMBER(n), b);
    r->share = r->kept / r->seen;
    r->empty = mean_of(job, place, plan, MEMBER(empty), b);
    r->spread2 = mean_of(job, place, plan, MEMBER(spread2), b);
    r->ess = ess;
    const es_measured square = ratio(job, place, plan, MEMBER(mse), MEMBER(spread2), b);
    r->relative_error.value = sqrt(square.value);
    r->relative_error.se = square.value > 0.0 ? square.se / (2.0 * r->relative_error.value) : 0.0;
    r->relative_limit = sqrt(r->mse_limit / r->spread2);
    r->over_limit = r->relative_error.value / r->relative_limit;
    name_row(s, place, plan, mean_of(job, place, plan, MEMBER(corrected), b) > 0.0, r);
}

es_status sparse_rows_make(es_job *job, sparse_row **out, es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t queries = s->contexts * s->queries;
    blocks b;
    double *scratch;
    ES_TRY(ES_JOB_NEW_2D(job, *out, s->n_places, s->n_plans, err));
    ES_TRY(ES_JOB_NEW(job, b.sums, queries, err));
    ES_TRY(ES_JOB_NEW(job, scratch, queries, err));
    for (int64_t i = 0; i < s->n_places; i++) {
        const double ess = median_ess(job, i, scratch);
        for (int64_t k = 0; k < s->n_plans; k++)
            average_row(job, i, k, ess, &b, *out + i * s->n_plans + k);
    }
    return ES_OK;
}

/* ---- rows ---- */

#define NAME_COLUMNS(row)                                                                          \
    ES_COL_KEY(row, name.layer, "layer", ES_FORMAT_COUNT, "layer", ""),                            \
        ES_COL_KEY(row, name.head, "head", ES_FORMAT_COUNT, "head", ""),                           \
        ES_COL_KEY(row, name.policy, "policy", ES_FORMAT_TEXT, "policy", ""),                      \
        ES_COL_KEY(row, name.correction, "correction", ES_FORMAT_TEXT, "correction", "",           \
                   "factor on the weights of random keys: none, or inverse to their probability"), \
        ES_COL_KEY(row, name.asked, "asked", ES_FORMAT_TEXT, "asked as", "",                       \
                   "the policy with its options"),                                                 \
        ES_COL_KEY(row, name.keys, "keys", ES_FORMAT_COUNT, "keys", "keys",                        \
                   "to keep, as asked; where parts decide, as many as are kept")

static const es_column row_columns[] = {
    NAME_COLUMNS(sparse_row),
    ES_COL(sparse_row, kept, ES_FORMAT_SHORT, "kept", "keys",
           "expected number of keys kept, mean over queries"),
    ES_COL(sparse_row, seen, ES_FORMAT_SHORT, "seen", "keys",
           "keys that a query sees, mean over queries"),
    ES_COL(sparse_row, share, ES_FORMAT_SHORT, "share kept", "", "kept over seen"),
    ES_COL(
        sparse_row, relative_error, ES_FORMAT_REAL, "rel. error", "spreads",
        "`sqrt(mse / mean of sum w |v - y|^2)`: error in spreads of the values around the output, "
        "by their weights; standard error over contexts, or over queries of a single one"),
    ES_COL(sparse_row, relative_limit, ES_FORMAT_REAL, "limit", "spreads",
           "the same for mse_limit: no unbiased policy that keeps as many keys independently does "
           "better, to first order; a biased one may",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(sparse_row, over_limit, ES_FORMAT_SHORT, "over limit", "",
           "relative error over the limit's", .standing = ES_STANDING_HEURISTIC),
    ES_COL(sparse_row, mass, ES_FORMAT_REAL, "mass", "",
           "expected share of the weights that is kept", .standing = ES_STANDING_PROVED),
    ES_COL(sparse_row, mse, ES_FORMAT_REAL, "mse", "",
           "`|y_S - y|^2`, mean over queries and draws; standard error of the draws alone, 0 for a "
           "policy without random keys"),
    ES_COL(sparse_row, mse_exact, ES_FORMAT_REAL, "exact", "",
           "its expectation, by integration; standard error over contexts, or queries of one",
           .standing = ES_STANDING_PROVED),
    ES_COL(sparse_row, mse_limit, ES_FORMAT_REAL, "mse limit", "",
           "the smallest of any unbiased policy that keeps as many keys independently, to first "
           "order",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(sparse_row, bias2, ES_FORMAT_REAL, "bias^2", "", "`|E y_S - y|^2`, mean over queries",
           .standing = ES_STANDING_PROVED),
    ES_COL(sparse_row, variance, ES_FORMAT_REAL, "variance", "", "exact error less `bias^2`",
           .standing = ES_STANDING_PROVED),
    ES_COL(sparse_row, first_order, ES_FORMAT_REAL, "first order", "",
           "form of the exact error for many keys", .standing = ES_STANDING_HEURISTIC),
    ES_COL(sparse_row, z, ES_FORMAT_SHORT, "z", "errors",
           "mse less exact, in standard errors of the draws"),
    ES_COL(sparse_row, empty, ES_FORMAT_SHORT, "empty", "",
           "probability that no key is kept; such draws are left out of errors"),
    ES_COL(sparse_row, spread2, ES_FORMAT_REAL, "spread^2", "",
           "`sum w |v - y|^2`, mean over queries"),
    ES_COL(sparse_row, ess, ES_FORMAT_SHORT, "ESS", "keys",
           "effective number of keys, `1/sum w^2`, of the median query over all keys"),
    ES_COL(sparse_row, regime, ES_FORMAT_TEXT, "regime", "",
           "by ESS: averaging from 100 keys on (two thirds of the context, if that is less), "
           "single-key below 2, selective between"),
    {0}};

/* Rows are only shown with --full where tables of heads have the answer. */
#define ROW_VIEW                                                                                   \
    "layer head asked keys kept share relative_error relative_limit over_limit mass mse "          \
    "mse_exact bias2 variance"
static const char *const alone[] = {"What each policy does", NULL};
static const char *const beside_heads[] = {"Policies, head by head", NULL};
static const es_table_view row_views[] = {
    {"What each policy does", ROW_VIEW},
    {"Policies, head by head", ROW_VIEW, .only_with_full = true},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views, ES_ROW(sparse_row),
                                         .keys = "layer head asked keys"};

/* ---- per_query ---- */

typedef struct query_row {
    sparse_name name;
    int64_t context, query;
    es_measured mse;
    double mse_exact, mse_limit, mass, kept, spread2, ess;
} query_row;

static const es_column query_columns[] = {
    NAME_COLUMNS(query_row),
    ES_COL(query_row, context, ES_FORMAT_COUNT, "context", "", "number of the context"),
    ES_COL(query_row, query, ES_FORMAT_COUNT, "query", "",
           "its row among the queries of the context"),
    ES_COL(query_row, mse, ES_FORMAT_REAL, "mse", "", "mean over draws"),
    ES_COL(query_row, mse_exact, ES_FORMAT_REAL, "exact", "", "its expectation, by integration",
           .standing = ES_STANDING_PROVED),
    ES_COL(query_row, mse_limit, ES_FORMAT_REAL, "limit", "",
           "of unbiased policies, to first order", .standing = ES_STANDING_HEURISTIC),
    ES_COL(query_row, mass, ES_FORMAT_REAL, "mass", "", "expected share of the weights kept",
           .standing = ES_STANDING_PROVED),
    ES_COL(query_row, kept, ES_FORMAT_SHORT, "kept", "keys", "expected number of keys kept"),
    ES_COL(query_row, spread2, ES_FORMAT_REAL, "spread^2", "", "`sum w |v - y|^2`"),
    ES_COL(query_row, ess, ES_FORMAT_SHORT, "ESS", "keys", "`1/sum w^2` over all keys"),
    {0}};
static const es_table_spec queries_table = {
    "per_query",         query_columns,       ES_VIEW("Query by query", .only_with_full = true),
    ES_ROW(query_row),   .inside = "rows",    .link = "layer head asked keys",
    .nested = "queries", .only_inside = true, .keys = "layer head asked keys context query"};

/* Adds one row for each query, for --full and files. */
static es_status add_queries(const es_job *job, int64_t place, int64_t plan,
                             const sparse_name *name, es_table *t, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    for (int64_t c = 0; c < s->contexts; c++)
        for (int64_t i = 0; i < s->queries; i++) {
            const es_sparse_cell *x = cell_of(job, place, c, i, plan);
            query_row *r = es_rows_add(t, query_row);
            if (!r)
                return es_answer_status(answer, err);
            *r = (query_row){.name = *name,
                             .context = c,
                             .query = s->which[c * s->queries + i],
                             .mse = {x->mse, sqrt(x->mse_var)},
                             .mse_exact = x->exact,
                             .mse_limit = x->limit,
                             .mass = x->mass,
                             .kept = x->kept,
                             .spread2 = x->spread2,
                             .ess = x->ess};
        }
    return ES_OK;
}

es_status sparse_put_rows(es_job *job, const sparse_row *rows, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    es_table *t = es_answer_table(answer, &rows_table);
    es_table_show(t, es_answer_find(answer, "heads") ? beside_heads : alone);
    es_table *queries = s->p->per_query ? es_answer_table(answer, &queries_table) : NULL;
    for (int64_t i = 0; i < s->n_places; i++)
        for (int64_t k = 0; k < s->n_plans; k++) {
            char word[ES_POLICY_SIZE];
            sparse_row *r = es_rows_add(t, sparse_row);
            if (!r)
                return es_answer_status(answer, err);
            *r = rows[i * s->n_plans + k];
            r->name.asked = es_table_format(t, "%s", sparse_asked(s, i, k, word));
            if (queries)
                ES_TRY(add_queries(job, i, k, &r->name, queries, answer, err));
        }
    return ES_OK;
}
