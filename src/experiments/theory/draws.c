/* SPDX-License-Identifier: Apache-2.0 */
/* draws.c : attention over n keys drawn from one's own weights and values: exact errors
 * (draw_risk.h), and from which n on they are small.
 *
 * Keys are drawn independently and uniformly from the N given ones. The mean square error over n
 * draws is one integral for every n (THEORY 13), because 1/Z^2 = int l e^{-lZ} dl turns the ratio
 * of two sums over the same draws into averages over single draws. For large n it is
 * N sum w^2 |v - y|^2 / n; the local exponent shows from which n on that holds. Nothing is
 * simulated, so the only error is that queries are a sample. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/npy.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/theory/theory.h"
#include "stats/average.h"
#include "store/npy.h"
#include "table/table.h"

/* Beside the n that were asked, 2^0 to 2^39, among which the n of --below is found. */
enum { POWERS = 40 };

/* A cell is a query: a record for each size, and a last one about its weights. */
typedef union draw_cell {
    struct {
        double square; /* mean square error, THEORY 13 */
        double error;  /* bound on the error of that number */
        double bias;   /* length of the mean error */
        double empty;  /* probability that no drawn key has weight */
    };
    struct { /* of the last record */
        double ess, top, sampling, spread2;
    };
} draw_cell;

static const es_cell_field draw_fields[] = {ES_FIELD(draw_cell, square),
                                            ES_FIELD(draw_cell, error),
                                            ES_FIELD(draw_cell, bias),
                                            ES_FIELD(draw_cell, empty),
                                            {0}};

/* ---- tables ---- */

typedef struct draw_row {
    int64_t n;
    double rms_error, rms_error_bound, relative, large_n, large_n_ratio, rate, bias, empty;
} draw_row;

static const es_column draw_columns[] = {
    ES_COL(draw_row, n, ES_FORMAT_COUNT, "n", "keys"),
    ES_COL(draw_row, rms_error, ES_FORMAT_REAL, "error", "",
           "root mean square, over draws of n keys with replacement and over queries, of the "
           "distance between attention over the drawn keys and over all: exact"),
    ES_COL(draw_row, rms_error_bound, ES_FORMAT_SHORT, "bound", "", "on the error of that number",
           .standing = ES_STANDING_NUMERICAL),
    ES_COL(draw_row, relative, ES_FORMAT_REAL, "relative", "", "over the spread of the values"),
    ES_COL(draw_row, large_n, ES_FORMAT_REAL, "large n", "",
           "`sqrt(sampling / n)`, what the error tends to as n grows"),
    ES_COL(draw_row, large_n_ratio, ES_FORMAT_SHORT, "error/large n", ""),
    ES_COL(draw_row, rate, ES_FORMAT_SHORT, "rate", "",
           "`-d ln error / d ln n` since the n before"),
    ES_COL(draw_row, bias, ES_FORMAT_REAL, "bias", "",
           "length of the mean of that difference over draws, root mean square over queries"),
    ES_COL(draw_row, empty, ES_FORMAT_SHORT, "empty", "",
           "probability that no drawn key has weight; the rest is given that one has"),
    {0}};
static const es_table_spec draw_table = {
    "draws", draw_columns,
    ES_VIEW("Attention over n keys drawn independently",
            "n rms_error relative large_n large_n_ratio rate bias empty"),
    ES_ROW(draw_row), .keys = "n"};

typedef struct weight_row {
    int64_t queries, keys;
    double ess, ess_low, top_weight, top_high, sampling, spread, below, tokens_below;
} weight_row;

static const es_column weight_columns[] = {
    ES_COL(weight_row, queries, ES_FORMAT_COUNT, "queries", ""),
    ES_COL(weight_row, keys, ES_FORMAT_COUNT, "keys", ""),
    ES_COL(weight_row, ess, ES_FORMAT_REAL, "ESS", "keys",
           "effective number, `1/sum w^2`: median over queries"),
    ES_COL(weight_row, ess_low, ES_FORMAT_SHORT, "ESS below 2", "share", "of queries"),
    ES_COL(weight_row, top_weight, ES_FORMAT_REAL, "top weight", "", "median over queries"),
    ES_COL(weight_row, top_high, ES_FORMAT_SHORT, "top weight above 1/2", "share", "of queries"),
    ES_COL(
        weight_row, sampling, ES_FORMAT_REAL, "sampling", "",
        "n times the mean square error for large n: `N sum w^2 |v - output|^2`, mean over queries"),
    ES_COL(weight_row, spread, ES_FORMAT_REAL, "spread", "",
           "of the values: root mean square distance from their mean"),
    ES_COL(weight_row, below, ES_FORMAT_SHORT, "below", "", "a relative error"),
    ES_COL(weight_row, tokens_below, ES_FORMAT_REAL, "reached from", "keys",
           "the n from which it is below that"),
    {0}};
static const es_table_spec weight_table = {"weights", weight_columns, ES_VIEW("Weights"),
                                           ES_ROW(weight_row), .record = true};

/* ---- input ---- */

bool theory_draws_asked(const theory_params *p) { return p->scores || p->weights || p->values; }

/* Fails unless values and one of scores and weights are given, and nothing about a law. */
static es_status check_options(const theory_params *p, es_error *err)
{
    if (!p->values || !p->scores == !p->weights)
        return es_refuse(err, "theory.options", "--scores FILE --values FILE, or --weights", "%s",
                         p->values ? "either scores or weights are needed" : "values are missing");
    bool head = p->law.cov || p->law.dim || p->samples;
    for (size_t i = 0; i < sizeof p->head.file / sizeof *p->head.file; i++)
        head = head || p->head.file[i];
    if (head)
        return es_refuse(err, "theory.options", "run the command twice",
                         "--scores or --weights cannot be combined with a covariance or "
                         "a head");
    return ES_OK;
}

/* Reads a matrix as it is: -inf is a valid score, and the caller checks the numbers. */
static es_status read_matrix(es_job *job, const char *role, const char *path, es_matrix *out,
                             es_error *err)
{
    es_npy_info info;
    es_array array = {0};
    es_view view;
    ES_TRY(es_npy_inspect(path, &info, err));
    if (info.rank > 2)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "input.shape", "one matrix",
                            "the %s have %d dimensions", role, info.rank);
    ES_TRY(es_npy_load(path, job->exec.budget, &array, err));
    es_status status = es_array_view(&array, 0, &view, err);
    if (status == ES_OK && (view.rows < 1 || view.cols < 1))
        status = es_fail_file(err, ES_E_SHAPE, path, -1, "input.shape", "one row and one column",
                              "the %s are empty, (%lld, %lld)", role, (long long)view.rows,
                              (long long)view.cols);
    if (status == ES_OK)
        status = ES_JOB_NEW_2D(job, out->data, view.rows, view.cols, err);
    for (int64_t i = 0; status == ES_OK && i < view.rows; i++)
        es_view_read_row(&view, i, out->data + i * view.cols);
    if (status == ES_OK) {
        out->rows = view.rows;
        out->cols = view.cols;
        out->view = es_view_f64(out->data, out->rows, out->cols);
        es_answer_input(job->answer, role, path, info.rank, info.shape, info.descr);
    }
    es_array_free(&array);
    return status;
}

/* Computes the exact errors of one query at every size. */
static es_status run_query(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    draw_cell *out = record;
    const theory_params *p = job->params;
    const theory_state *s = job->state;
    const es_view scores = es_view_rows(&s->scores.view, cell, 1);
    const int64_t count = p->n.count + POWERS;
    es_draw_risk *risks;
    es_draw_query about;
    ES_TRY(ES_MEM_NEW(exec->budget, risks, count, "errors", err));
    const es_status status = es_draw_risks(&scores, s->input, &s->values.view, s->sizes, count,
                                           exec, risks, &about, err);
    for (int64_t i = 0; i < count && status == ES_OK; i++) {
        out[i].square = risks[i].square.val;
        out[i].error = risks[i].square.err;
        out[i].bias = risks[i].bias;
        out[i].empty = risks[i].empty;
    }
    if (status == ES_OK) {
        out[count].ess = about.ess;
        out[count].top = about.top;
        out[count].sampling = about.sampling;
        out[count].spread2 = about.spread2;
    } else if (err && err->row >= 0 && strncmp(err->rule, "draw.", 5) == 0) {
        err->row = cell; /* of the scores; values are named by their own rows */
    }
    es_mem_free(exec->budget, risks);
    return status;
}

/* Opens the question: reads weights or scores, and values. */
static es_status open_draws(es_job *job, es_error *err)
{
    theory_params *p = job->params;
    theory_state *s = job->state;
    ES_TRY(check_options(p, err));
    s->input = p->weights ? ES_DRAW_WEIGHTS : ES_DRAW_SCORES;
    ES_TRY(read_matrix(job, p->weights ? "weights" : "scores", p->weights ? p->weights : p->scores,
                       &s->scores, err));
    ES_TRY(read_matrix(job, "values", p->values, &s->values, err));
    if (s->values.rows == 1 && s->values.cols == s->scores.cols) { /* one channel */
        s->values.rows = s->values.cols;
        s->values.cols = 1;
        s->values.view = es_view_f64(s->values.data, s->values.rows, 1);
    }
    if (!p->n.count)
        ES_TRY(es_params_set(job->given, "n", "1..1000000*13", err));
    ES_TRY(ES_JOB_NEW(job, s->sizes, p->n.count + POWERS, err));
    memcpy(s->sizes, p->n.counts, (size_t)p->n.count * sizeof *s->sizes);
    for (int i = 0; i < POWERS; i++)
        s->sizes[p->n.count + i] = INT64_C(1) << i;
    return es_job_stage(job,
                        &(es_stage){"draws", .phase = "integrating over draws", .noun = "queries",
                                    .cells = s->scores.rows, .rows = p->n.count + POWERS + 1,
                                    ES_RECORD(draw_cell, draw_fields), .one_thread_per_cell = true,
                                    .flops = 400.0 * (double)(s->values.rows * s->values.cols),
                                    .run = run_query},
                        err);
}

/* ---- rows ---- */

/* Means over the queries of record number i of their cells. */
typedef struct draw_means {
    double square, error, bias2, empty;
} draw_means;

/* Returns means over queries of the exact errors at size i. */
static draw_means means_at(const es_job *job, int64_t i)
{
    const int64_t m = ((const theory_state *)job->state)->scores.rows;
    draw_means sum = {0};
    for (int64_t q = 0; q < m; q++) {
        const draw_cell *x = (const draw_cell *)es_job_cell(job, 0, q) + i;
        sum.square += x->square / (double)m;
        sum.error += x->error / (double)m;
        sum.bias2 += x->bias * x->bias / (double)m;
        sum.empty += x->empty / (double)m;
    }
    return sum;
}

/* The last record of a query. */
static const draw_cell *about_query(const es_job *job, int64_t q)
{
    const theory_params *p = job->params;
    return (const draw_cell *)es_job_cell(job, 0, q) + p->n.count + POWERS;
}

/* Returns N sum w^2 |v - y|^2, mean over queries: n times the mean square error for large n. */
static double mean_sampling(const es_job *job)
{
    const int64_t m = ((const theory_state *)job->state)->scores.rows;
    double sum = 0.0;
    for (int64_t q = 0; q < m; q++)
        sum += about_query(job, q)->sampling / (double)m;
    return sum;
}

/* Returns the root of the total variance of the values, the unit of errors. */
static double spread_of(const es_matrix *values)
{
    double sum = 0.0;
    for (int64_t l = 0; l < values->cols; l++) {
        const es_spread x = es_spread_of(values->data + l, values->rows, values->cols);
        sum += x.squares / (double)values->rows;
    }
    return sqrt(sum);
}

/* Where the curve falls to `square`: a line in logarithms between powers of two, 1/n beyond. */
static double crossing(const es_job *job, int64_t first, double square)
{
    double low = means_at(job, first).square;
    if (low <= square)
        return 1.0;
    for (int i = 1; i < POWERS; i++) {
        const double high = means_at(job, first + i).square;
        if (high <= square)
            return ldexp(pow(2.0, log(low / square) / log(low / high)), i - 1);
        low = high;
    }
    return ldexp(low / square, POWERS - 1);
}

/* Adds the row about the weights and finds from which n on the error is below --below. */
static es_status add_weights(es_job *job, double spread, es_answer *a, weight_row **out,
                             es_error *err)
{
    const theory_params *p = job->params;
    const theory_state *s = job->state;
    const int64_t m = s->scores.rows;
    double low = 0.0, high = 0.0, *ess, *top;
    ES_TRY(ES_JOB_NEW(job, ess, m, err));
    ES_TRY(ES_JOB_NEW(job, top, m, err));
    for (int64_t q = 0; q < m; q++) {
        const draw_cell *about = about_query(job, q);
        ess[q] = about->ess;
        top[q] = about->top;
        low += about->ess < 2.0 ? 1.0 / (double)m : 0.0;
        high += about->top > 0.5 ? 1.0 / (double)m : 0.0;
    }
    es_sort_reals(ess, m);
    es_sort_reals(top, m);
    weight_row *r = es_rows_add(es_answer_table(a, &weight_table), weight_row);
    if (!r)
        return es_answer_status(a, err);
    *r = (weight_row){.queries = m,
                      .keys = s->values.rows,
                      .ess = es_median_of(ess, m),
                      .ess_low = low,
                      .top_weight = es_median_of(top, m),
                      .top_high = high,
                      .sampling = mean_sampling(job),
                      .spread = spread,
                      .below = p->below,
                      .tokens_below = 1.0};
    if (spread > 0.0)
        r->tokens_below = crossing(job, p->n.count, pow(p->below * spread, 2.0));
    *out = r;
    return ES_OK;
}

/* Adds the exact error at each n, its local slope, and what it tends to. */
static es_status add_draws(const es_job *job, double spread, es_answer *a, es_error *err)
{
    const theory_params *p = job->params;
    es_table *t = es_answer_table(a, &draw_table);
    const double sampling = mean_sampling(job);
    double before = (double)NAN;
    for (int64_t i = 0; i < p->n.count; i++) {
        const double n = (double)p->n.counts[i];
        const draw_means mean = means_at(job, i);
        draw_row *r = es_rows_add(t, draw_row);
        if (!r)
            return es_answer_status(a, err);
        r->n = p->n.counts[i];
        r->rms_error = sqrt(mean.square);
        r->rms_error_bound =
            r->rms_error > 0.0 ? mean.error / r->rms_error / 2.0 : sqrt(mean.error);
        r->relative = r->rms_error / spread;
        r->large_n = sqrt(sampling / n);
        r->large_n_ratio = r->rms_error / r->large_n;
        r->bias = sqrt(mean.bias2);
        r->empty = mean.empty;
        r->rate =
            i ? -log(r->rms_error / before) / log(n / (double)p->n.counts[i - 1]) : (double)NAN;
        before = r->rms_error;
    }
    return ES_OK;
}

/* ---- findings ---- */

/* Adds the finding from which n on attention over drawn keys is close enough. */
static void report_draws(const es_job *job, const weight_row *w, es_answer *a)
{
    const theory_params *p = job->params;
    char from[ES_SAY_SIZE + 16], size[ES_SAY_SIZE];
    snprintf(from, sizeof from, w->tokens_below > 1.0 ? "from n = %s on" : "for any n",
             es_say_size(w->tokens_below, size));
    es_answer_add_finding(
        a,
        "Attention over n independent draws of the %lld keys, which may repeat, "
        "differs from attention over all of them by less than %.3g of the values' spread %s "
        "(root mean square, exact).",
        (long long)w->keys, p->below, from);
    const double large = w->sampling / pow(p->below * w->spread, 2.0);
    if (w->spread > 0.0 && large >= 1.0) /* fewer than one key is no number of keys */
        es_answer_add_finding(a, "The approximation for large n gives n = %s.",
                              es_say_size(large, size));
    if (w->tokens_below > 100.0 * (double)w->keys)
        es_answer_add_finding(a,
                              "Caution: that is more than 100 times the %lld keys given. It counts "
                              "draws of the same keys, not tokens of a longer context.",
                              (long long)w->keys);
}

/* Fills the errors at every n. */
static es_status summarise_draws(es_job *job, es_answer *answer, es_error *err)
{
    const theory_state *s = job->state;
    const double spread = spread_of(&s->values);
    weight_row *weights = NULL;
    ES_TRY(add_draws(job, spread, answer, err));
    ES_TRY(add_weights(job, spread, answer, &weights, err));
    report_draws(job, weights, answer);
    return ES_OK;
}

const theory_question theory_draws = {open_draws, summarise_draws};
