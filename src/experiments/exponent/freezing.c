/* SPDX-License-Identifier: Apache-2.0 */
/* freezing.c : at which beta attention over these keys stops averaging, and what the head does at
 * its own beta.
 *
 * The number of keys that share the weight defines the regime (key_weights.h). Over the keys at
 * hand it is measured at any beta, and the beta at which it passes a cut-off is solved on the
 * measurement. For another n it is the exact expectation for keys of this alpha and density
 * (theory/freezing.h, THEORY 6). */
#include <math.h>
#include <stdio.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/exponent/exponent.h"
#include "experiments/kit/answer_kit.h"
#include "stats/average.h"
#include "stats/special.h"
#include "theory/freezing.h"

/* ---- attention over the keys at hand ---- */

/* Returns the mean length of the rows, none of which is zero; with `unit` it also scales each row
 * to length 1. Dividing by the largest entry first keeps squares from overflowing. */
static double mean_length(es_matrix *x, bool unit)
{
    double mean = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double *row = x->data + i * x->cols, most = 0.0, sum = 0.0;
        for (int64_t c = 0; c < x->cols; c++)
            most = fmax(most, fabs(row[c]));
        for (int64_t c = 0; c < x->cols; c++)
            sum += row[c] / most * (row[c] / most);
        mean += most * sqrt(sum) / (double)x->rows;
        for (int64_t c = 0; c < x->cols && unit; c++)
            row[c] = row[c] / most / sqrt(sum);
    }
    return mean;
}

/* Attention of the queries over the keys: with --scale over the vectors with their lengths, so that
 * long keys weigh more; otherwise over unit vectors. */
typedef struct head {
    es_job *job;
    double lengths;        /* mean|q| mean|k|: a score is beta q.k / lengths */
    double *top, *squares; /* (count) of each query */
    double log_target;     /* of find_beta() */
    es_status status;      /* first failure inside a callback */
    es_error *err;
} head;

/* Weights at one beta: means over the queries, with standard errors. */
typedef struct head_weights {
    es_measured top, squares;
} head_weights;

/* Computes weights of all queries at beta, and their means. O(queries keys dim). */
static es_status measure(const head *h, double beta, head_weights *out)
{
    const exponent_state *s = h->job->state;
    const es_view all = s->self ? es_view_rows(&s->keys.view, 0, s->count) : s->queries.view;
    es_view values = s->keys.view; /* outputs are not used, so values have one column */
    values.cols = 1;
    const double scale = beta / h->lengths;
    const es_attend_opts opts = {ES_F64, .scales = &scale, .n_scales = 1, .exclude_self = s->self,
                                 .exec = &h->job->exec};
    const es_attend_out found = {.top_weight = h->top, .sum_squares = h->squares};
    ES_TRY(es_attend(&all, &s->keys.view, &values, &opts, &found, h->err));
    out->top = es_average_column(h->top, s->count, 1);
    out->squares = es_average_column(h->squares, s->count, 1);
    return ES_OK;
}

/* Returns ln(mean sum w^2) minus its target, for es_root(). */
static double over_target(const void *context, double log_beta)
{
    head *h = *(head *const *)context;
    head_weights w;
    if (h->status == ES_OK)
        h->status = measure(h, exp(log_beta), &w);
    return h->status == ES_OK ? log(w.squares.value) - h->log_target : (double)NAN;
}

/* Returns the beta at which the mean sum w^2 equals `target`; the search starts at `guess`. There
 * is one root because sum w^2 grows with beta for every query. NaN if it is beyond 1e15, as where
 * the two nearest keys are copies. The error is that of sum w^2 over its slope in beta. */
static es_measured find_beta(head *h, double target, double guess)
{
    const double within = 1e-4, wide = 0.05;
    head *const context = h;
    h->log_target = log(target);
    double at = log(guess), f = over_target(&context, at), last = at, step = 0.25;
    for (const bool below = f < 0.0; (f < 0.0) == below && fabs(at) < 34.5; step *= 1.5) {
        last = at;
        at += below ? step : -step;
        f = over_target(&context, at);
    }
    const double root = es_root(over_target, &context, fmin(at, last), fmax(at, last), within);
    head_weights w = {0};
    if (isnan(root))
        return (es_measured){(double)NAN, (double)NAN};
    const double slope =
        (over_target(&context, root + wide) - over_target(&context, root - wide)) / (2.0 * wide);
    if (h->status == ES_OK)
        h->status = measure(h, exp(root), &w);
    const double beta = exp(root);
    return (es_measured){.value = beta, .se = beta * w.squares.se / w.squares.value / slope};
}

/* Returns 1/squares, with the same relative error. */
static es_measured inverse(es_measured squares)
{
    const double ess = 1.0 / squares.value;
    return (es_measured){ess, ess * squares.se / squares.value};
}

/* ---- regimes by n ---- */

/* A row of the table of freezing: the beta at which n keys freeze, measured or by the law of round
 * keys. */
typedef struct freezing_row {
    int64_t n;
    const char *source;
    es_measured averages, frozen, ess;
    double top_weight;
    const char *verdict;
} freezing_row;

static const es_column freezing_columns[] = {
    ES_COL(freezing_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(freezing_row, source, ES_FORMAT_TEXT, "from", "",
           "these keys: measured over them, mean over queries. law: exact expectation for n keys "
           "that are uniform on a sphere of `2 alpha` dimensions and as dense near a query as "
           "these; proved for such keys, a model of others"),
    ES_COL(freezing_row, averages, ES_FORMAT_REAL, "averaging below", "beta",
           "largest beta at which 100 keys or more share the weight: `1/(mean sum w^2)` >= 100, or "
           "two thirds of n keys if that is fewer"),
    ES_COL(freezing_row, frozen, ES_FORMAT_REAL, "single-key from", "beta",
           "freezing scale: from this beta on fewer than 2 keys share the weight, mean `sum w^2 > "
           "1/2`, and the nearest has more than half of it on average"),
    ES_COL(freezing_row, ess, ES_FORMAT_REAL, "ESS as it runs", "keys",
           "`1/(mean sum w^2)` at --beta or --scale: keys that share the weight"),
    ES_COL(freezing_row, top_weight, ES_FORMAT_SHORT, "largest weight", "",
           "mean, at --beta or --scale"),
    ES_COL(freezing_row, verdict, ES_FORMAT_TEXT, "as it runs", "",
           "averaging, selective or single-key: by this ESS, with the cut-offs 100 and 2"),
    {0}};
const es_table_spec exponent_freezing_table = {
    "freezing", freezing_columns,
    ES_VIEW("Averaging, selective, single-key", NULL,
            "Errors of these keys come from the scatter between queries, errors of the law from "
            "those of alpha and of the density. Numbers of the law are left out if, for the "
            "number of keys at hand, they differ from the measurement by more than a quarter and "
            "four errors: the keys then do not resemble a sphere as far out as the weight "
            "reaches."),
    ES_ROW(freezing_row), .keys = "n source"};

/* Fills what n keys do at the beta of the head. */
static void fill_weights(freezing_row *r, double n, double top, es_measured squares)
{
    es_regime_finding found;
    const es_measured ess = inverse(squares);
    if (!(ess.value < 1.01 * n)) /* the law puts more keys near a query than there are */
        return;
    r->ess = ess;
    r->top_weight = top;
    es_regime_of(n, top, squares.value, &found);
    r->verdict = es_regime_name(found.regime);
}

/* What these keys show, and which numbers of the law agree with it for as many keys. */
typedef struct comparison {
    es_measured averages, frozen, squares;
    bool law_averages, law_frozen, law_weights;
} comparison;

/* Adds the row of the keys at hand. The law gives the search its first guess. */
static es_status add_measured(head *h, double beta, const es_scales *law, es_table *t,
                              comparison *out)
{
    const exponent_state *s = h->job->state;
    const double n = (double)(s->keys.rows - s->self);
    out->frozen = find_beta(h, es_frozen_squares(n), isfinite(law->frozen) ? law->frozen : 10.0);
    out->averages =
        find_beta(h, es_averages_squares(n), isfinite(law->averages) ? law->averages : 1.0);
    ES_TRY(h->status);
    freezing_row *r = es_rows_add(t, freezing_row);
    if (!r)
        return ES_OK; /* es_answer_status() reports it */
    r->n = s->keys.rows;
    r->source = "these keys";
    r->averages = out->averages;
    r->frozen = out->frozen;
    if (isnan(beta))
        return ES_OK;
    head_weights w;
    ES_TRY(measure(h, beta, &w));
    out->squares = w.squares;
    fill_weights(r, n, w.top.value, w.squares);
    return ES_OK;
}

/* Returns whether the law is within a quarter of the measurement plus four standard errors. One
 * query has no error and decides nothing; a measurement of NaN agrees with no law. */
static bool agrees(es_measured measured, double law, int64_t queries)
{
    const double allowed = log(1.25) + 4.0 * measured.se / measured.value;
    return queries == 1 || fabs(log(law / measured.value)) <= allowed;
}

/* Decides which numbers of the law may be shown: those that agree with the measurement for n
 * keys. */
static es_status compare_law(es_job *job, const es_exponent *e, double n, double beta,
                             const es_scales *law, comparison *c, es_error *err)
{
    const int64_t queries = ((const exponent_state *)job->state)->count;
    es_local_weights w;
    c->law_averages = agrees(c->averages, law->averages, queries);
    c->law_frozen = agrees(c->frozen, law->frozen, queries);
    if (isnan(beta))
        return ES_OK;
    ES_TRY(es_exponent_weights(e, n, beta, job->exec.budget, &w, err));
    c->law_weights = agrees(c->squares, w.squares, queries);
    return ES_OK;
}

/* Adds a row of the law for n keys, without the numbers that failed the comparison. */
static es_status add_law(es_job *job, const es_exponent *e, double n, double beta,
                         const comparison *c, es_table *t, es_error *err)
{
    es_scales at, log_se;
    es_local_weights w;
    ES_TRY(es_exponent_scales(e, n, job->exec.budget, &at, &log_se, err));
    freezing_row *r = es_rows_add(t, freezing_row);
    if (!r)
        return ES_OK;
    r->n = (int64_t)n;
    r->source = "law";
    if (c->law_averages)
        r->averages = (es_measured){at.averages, at.averages * log_se.averages};
    if (c->law_frozen)
        r->frozen = (es_measured){at.frozen, at.frozen * log_se.frozen};
    if (isnan(beta) || !c->law_weights)
        return ES_OK;
    ES_TRY(es_exponent_weights(e, n, beta, job->exec.budget, &w, err));
    fill_weights(r, n, w.top, (es_measured){.value = w.squares, .se = w.squares * w.log_se});
    return ES_OK;
}

/* Adds a row for these keys; then rows of the law for --n, or for 1, 10 and 100 times as many. */
static es_status fill_rows(head *h, const es_exponent *e, double beta, es_table *t, comparison *c)
{
    es_job *job = h->job;
    const es_grid *grid = &((const exponent_params *)job->params)->n;
    const double keys = (double)((const exponent_state *)job->state)->keys.rows;
    es_scales law;
    ES_TRY(es_exponent_scales(e, keys, job->exec.budget, &law, NULL, h->err));
    ES_TRY(add_measured(h, beta, &law, t, c));
    ES_TRY(compare_law(job, e, keys, beta, &law, c, h->err));
    for (int64_t i = 0; i < (grid->count ? grid->count : 3); i++)
        ES_TRY(add_law(job, e, grid->count ? grid->reals[i] : keys * pow(10.0, (int)i), beta, c, t,
                       h->err));
    return ES_OK;
}

/* Warns if rows of the law need the exponent closer to a query than any key was seen. */
static void report_extrapolation(const es_grid *n, double keys, es_answer *a)
{
    const double most = n->count ? n->reals[n->count - 1] : keys;
    if (most > 100.0 * keys)
        es_answer_add_finding(a,
                              "Caution: n = %.8g is more than 100 times the %.0f keys; the law is "
                              "extrapolated to distances at which there was no key.",
                              most, keys);
}

/* ---- the head at its own beta ---- */

/* The row about the given --beta or --scale. */
typedef struct run_row {
    double beta;
    es_measured top_weight, ess;
    double tokens;
    const char *statement;
} run_row;

static const es_column run_columns[] = {
    ES_COL(run_row, beta, ES_FORMAT_REAL, "beta", ""),
    ES_COL(run_row, top_weight, ES_FORMAT_REAL, "largest weight", "",
           "of a query over these keys, mean over queries"),
    ES_COL(run_row, ess, ES_FORMAT_REAL, "ESS", "keys",
           "1/(mean over queries of the sum of squared weights)"),
    ES_COL(run_row, tokens, ES_FORMAT_SHORT, "single-key up to", "tokens",
           "largest number of tokens of the law over which attention is single-key at this beta; "
           "0: none from 3 on"),
    ES_COL(run_row, statement, ES_FORMAT_TEXT, "in words", ""),
    {0}};
const es_table_spec exponent_run_table = {"runs", run_columns,
                                          ES_VIEW("As it runs", .only_with_full = true),
                                          ES_ROW(run_row), .record = true};

/* Fills the record of the head at its beta; tokens is NaN if the law does not hold for these
 * keys. */
static es_status fill_run(head *h, const es_exponent *e, double beta, bool law,
                          const char *statement, es_answer *a)
{
    head_weights w;
    double tokens = (double)NAN;
    ES_TRY(measure(h, beta, &w));
    if (law)
        ES_TRY(es_exponent_tokens(e, beta, h->job->exec.budget, &tokens, h->err));
    es_table *t = es_answer_table(a, &exponent_run_table);
    run_row *r = es_rows_add(t, run_row);
    if (r)
        *r =
            (run_row){beta, w.top, inverse(w.squares), tokens, es_table_format(t, "%s", statement)};
    return ES_OK;
}

/* Writes "from beta = 57.1 (± 4 %) on". */
static void say_frozen(const es_measured *frozen, char *out, size_t size)
{
    if (isnan(frozen->value))
        snprintf(out, size, "at no beta, because the nearest keys are copies");
    else if (isnan(frozen->se))
        snprintf(out, size, "from beta = %.3g on", frozen->value);
    else
        snprintf(out, size, "from beta = %.3g (± %.2g %%) on", frozen->value,
                 100.0 * frozen->se / frozen->value);
}

/* Writes "75.7 keys share" or "1 key has". */
static const char *say_sharing(double ess, char out[ES_SAY_SIZE])
{
    char size[ES_SAY_SIZE];
    es_say_size(ess < 1.005 ? 1.0 : ess, size);
    snprintf(out, ES_SAY_SIZE, "%.40s key%s", size, ess < 1.005 ? " has" : "s share");
    return out;
}

/* Without --beta and --scale the head has no beta: reports the whole range. */
static void report_range(const exponent_state *s, const comparison *c, es_answer *a)
{
    char from[96];
    say_frozen(&c->frozen, from, sizeof from);
    es_answer_add_finding(
        a,
        "With scores beta times cosine, attention over these %lld keys is averaging "
        "(100 keys or more share the weight) below beta = %.3g and single-key "
        "(fewer than 2 share it) %s.",
        (long long)s->keys.rows, c->averages.value, from);
}

/* Reports what the head does at its beta. The same words are the statement of the record. */
static es_status report_run(head *h, const es_exponent *e, double beta, bool unit,
                            const freezing_row *r, const comparison *c, es_answer *a)
{
    char from[96], statement[400], value[ES_SAY_SIZE], keys[ES_SAY_SIZE];
    say_frozen(&c->frozen, from, sizeof from);
    snprintf(statement, sizeof statement,
             "at beta = %s, %s the weight of these %lld keys, and the largest weight is %.3g; "
             "attention is single-key %s",
             es_say_size(beta, value), say_sharing(r->ess.value, keys), (long long)r->n,
             r->top_weight, from);
    es_answer_add_finding(
        a, "A%s.%s", statement + 1,
        unit ? " This takes all vectors as equally long; --scale uses their lengths." : "");
    return fill_run(h, e, beta, c->law_frozen, statement, a);
}

es_status exponent_fill_freezing(es_job *job, const es_exponent *e, es_answer *a, es_error *err)
{
    const exponent_params *p = job->params;
    exponent_state *s = job->state;
    const bool unit = isnan(p->scale);
    const double of_keys = mean_length(&s->keys, unit), of_queries = mean_length(&s->queries, unit);
    const double lengths = of_keys * (s->self ? of_keys : of_queries);
    const double beta = unit ? p->beta : p->scale * lengths;
    head h = {.job = job, .lengths = unit ? 1.0 : lengths, .err = err};
    es_table *t = es_answer_table(a, &exponent_freezing_table);
    comparison c = {0};
    ES_TRY(ES_JOB_NEW(job, h.top, s->count, err));
    ES_TRY(ES_JOB_NEW(job, h.squares, s->count, err));
    ES_TRY(fill_rows(&h, e, beta, t, &c));
    ES_TRY(es_answer_status(a, err));
    if (isnan(beta))
        report_range(s, &c, a);
    else
        ES_TRY(report_run(&h, e, beta, unit, es_rows(t, freezing_row), &c, a));
    report_extrapolation(&p->n, (double)s->keys.rows, a);
    return es_answer_status(a, err);
}
