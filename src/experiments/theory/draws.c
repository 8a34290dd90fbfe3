/* draws.c : attention over n keys drawn from one's own weights and values: exact errors
 * (draw_risk.h), and from which n on they are small. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/npy.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/theory/question.h"
#include "stats/average.h"
#include "store/npy.h"

/* Beside the n that were asked, 2^0 to 2^39, among which the n of --below is found. */
enum { POWERS = 40 };

/* A cell is a query. Its rows are the sizes; the last one is about its weights. */
enum { SQUARE, ERROR, BIAS, EMPTY, COLUMNS };
enum { ESS = SQUARE, TOP = ERROR, SAMPLING = BIAS, SPREAD2 = EMPTY };
static const char *const cell_columns[COLUMNS] = {"square", "error", "bias", "empty"};

/* ---- tables ---- */

static const es_column draw_columns[] = {
    {"n", "n", "keys", ES_FORMAT_COUNT},
    {"rms_error", "error", "", ES_FORMAT_REAL,
     "root mean square, over draws of n keys with replacement and over queries, of the distance "
     "between attention over the drawn keys and over all: exact"},
    {"rms_error_bound", "bound", "", ES_FORMAT_SHORT, "on the error of that number",
     .standing = ES_STANDING_NUMERICAL},
    {"relative", "relative", "", ES_FORMAT_REAL, "over the spread of the values"},
    {"large_n", "large n", "", ES_FORMAT_REAL,
     "sqrt(sampling / n), what the error tends to as n grows"},
    {"large_n_ratio", "error/large n", "", ES_FORMAT_SHORT},
    {"rate", "rate", "", ES_FORMAT_SHORT, "-d ln error / d ln n since the n before"},
    {"bias", "bias", "", ES_FORMAT_REAL,
     "length of the mean of that difference over draws, root mean square over queries"},
    {"empty", "empty", "", ES_FORMAT_SHORT,
     "probability that no drawn key has weight; the rest is given that one has"},
    {0}};
static const es_table_spec draw_table = {
    "draws", draw_columns,
    ES_VIEW("Attention over n keys drawn independently",
            "n rms_error relative large_n large_n_ratio rate bias empty"),
    .keys = "n"};

static const es_column weight_columns[] = {
    {"queries", "queries", "", ES_FORMAT_COUNT},
    {"keys", "keys", "", ES_FORMAT_COUNT},
    {"ess", "ESS", "keys", ES_FORMAT_REAL, "effective number, 1/sum w^2: median over queries"},
    {"ess_low", "ESS below 2", "share", ES_FORMAT_SHORT, "of queries"},
    {"top_weight", "top weight", "", ES_FORMAT_REAL, "median over queries"},
    {"top_high", "top weight above 1/2", "share", ES_FORMAT_SHORT, "of queries"},
    {"sampling", "sampling", "", ES_FORMAT_REAL,
     "n times the mean square error for large n: N sum w^2 |v - output|^2, mean over queries"},
    {"spread", "spread", "", ES_FORMAT_REAL,
     "of the values: root mean square distance from their mean"},
    {"below", "below", "", ES_FORMAT_SHORT, "a relative error"},
    {"tokens_below", "reached from", "keys", ES_FORMAT_REAL, "the n from which it is below that"},
    {0}};
static const es_table_spec weight_table = {"weights", weight_columns, ES_VIEW("Weights"),
                                           .record = true};

/* ---- input ---- */

bool theory_draws_asked(const theory_params *p) { return p->scores || p->weights || p->values; }

static es_status check_options(const theory_params *p, es_error *err)
{
    if (!p->values || !p->scores == !p->weights)
        return es_refuse(err, "theory.options", "--scores FILE --values FILE, or --weights", "%s",
                         p->values ? "either scores or weights are needed" : "values are missing");
    bool head = p->law.cov || p->law.dim || p->samples;
    for (size_t i = 0; i < sizeof p->head.file / sizeof *p->head.file; i++)
        head = head || p->head.file[i];
    if (head)
        return es_refuse(err, "theory.options", "ask twice",
                         "weights and values say it all; a covariance or a head is another "
                         "question");
    return ES_OK;
}

/* A matrix as it is: -inf is a score, too, and who uses the numbers says what he refuses. */
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

static es_status run_query(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    const theory_params *p = job->params;
    const theory_state *s = job->state;
    const es_view scores = es_view_rows(&s->scores.view, cell, 1);
    const int64_t count = p->n.count + POWERS;
    es_draw_risk *risks;
    es_draw_query about;
    ES_TRY(ES_MEM_NEW(exec->budget, risks, count, "errors", err));
    const es_status status = es_draw_risks(&scores, s->input, &s->values.view, s->sizes, count,
                                           exec, risks, &about, err);
    for (int64_t i = 0; i < count && status == ES_OK; i++, out += COLUMNS) {
        out[SQUARE] = risks[i].square.val;
        out[ERROR] = risks[i].square.err;
        out[BIAS] = risks[i].bias;
        out[EMPTY] = risks[i].empty;
    }
    if (status == ES_OK) {
        out[ESS] = about.ess;
        out[TOP] = about.top;
        out[SAMPLING] = about.sampling;
        out[SPREAD2] = about.spread2;
    } else if (err && err->row >= 0 && strncmp(err->rule, "draw.", 5) == 0) {
        err->row = cell; /* of the scores; values are named by their own rows */
    }
    es_mem_free(exec->budget, risks);
    return status;
}

es_status theory_draws_open(es_job *job, es_error *err)
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
    return es_job_stage(
        job,
        &(es_stage){"draws", .phase = "integrating over draws", .noun = "queries",
                    .cells = s->scores.rows, .rows = p->n.count + POWERS + 1, .cols = COLUMNS,
                    .columns = cell_columns, .one_thread_per_cell = true,
                    .flops = 400.0 * (double)(s->values.rows * s->values.cols), .run = run_query},
        err);
}

/* ---- what it says ---- */

/* Mean over queries of a column at row i, or of its square. */
static double mean_at(const es_job *job, int64_t i, int column, bool squared)
{
    const int64_t m = ((const theory_state *)job->state)->scores.rows;
    double sum = 0.0;
    for (int64_t q = 0; q < m; q++) {
        const double x = es_job_numbers(job, 0, q)[i * COLUMNS + column];
        sum += (squared ? x * x : x) / (double)m;
    }
    return sum;
}

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
    double low = mean_at(job, first, SQUARE, false);
    if (low <= square)
        return 1.0;
    for (int i = 1; i < POWERS; i++) {
        const double high = mean_at(job, first + i, SQUARE, false);
        if (high <= square)
            return ldexp(pow(2.0, log(low / square) / log(low / high)), i - 1);
        low = high;
    }
    return ldexp(low / square, POWERS - 1);
}

static es_status put_weights(es_job *job, double spread, es_answer *a, es_error *err)
{
    const theory_params *p = job->params;
    const theory_state *s = job->state;
    const int64_t m = s->scores.rows, last = p->n.count + POWERS;
    es_table *t = es_answer_table(a, &weight_table);
    double low = 0.0, high = 0.0, *room = NULL;
    ES_TRY(ES_JOB_NEW_2D(job, room, 2, m, err));
    for (int64_t q = 0; q < m; q++) {
        const double *about = es_job_numbers(job, 0, q) + last * COLUMNS;
        room[q] = about[ESS];
        room[m + q] = about[TOP];
        low += about[ESS] < 2.0 ? 1.0 / (double)m : 0.0;
        high += about[TOP] > 0.5 ? 1.0 / (double)m : 0.0;
    }
    es_sort_reals(room, m);
    es_sort_reals(room + m, m);
    const double tokens =
        spread > 0.0 ? crossing(job, p->n.count, pow(p->below * spread, 2.0)) : 1.0;
    es_table_row(t);
    es_table_count(t, 0, "queries", m);
    es_table_count(t, 0, "keys", s->values.rows);
    es_put(t, 0, {"ess", es_median_of(room, m)}, {"ess_low", low},
           {"top_weight", es_median_of(room + m, m)}, {"top_high", high},
           {"sampling", mean_at(job, last, SAMPLING, false)}, {"spread", spread},
           {"below", p->below}, {"tokens_below", tokens});
    return ES_OK;
}

static void put_draws(const es_job *job, double spread, es_answer *a)
{
    const theory_params *p = job->params;
    es_table *t = es_answer_table(a, &draw_table);
    const double sampling = mean_at(job, p->n.count + POWERS, SAMPLING, false);
    double before = (double)NAN;
    for (int64_t i = 0; i < p->n.count; i++) {
        const double n = (double)p->n.counts[i], square = mean_at(job, i, SQUARE, false);
        const double error = sqrt(square), large = sqrt(sampling / n);
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "n", p->n.counts[i]);
        es_put(t, row, {"rms_error", error},
               {"rms_error_bound", error > 0.0 ? mean_at(job, i, ERROR, false) / error / 2.0
                                               : sqrt(mean_at(job, i, ERROR, false))},
               {"relative", error / spread}, {"large_n", large}, {"large_n_ratio", error / large},
               {"bias", sqrt(mean_at(job, i, BIAS, true))},
               {"empty", mean_at(job, i, EMPTY, false)});
        es_table_real(t, row, "rate",
                      i ? -log(error / before) / log(n / (double)p->n.counts[i - 1]) : (double)NAN);
        before = error;
    }
}

static void tell_draws(const es_job *job, const es_table *weights, es_answer *a)
{
    const theory_params *p = job->params;
    const double keys = es_table_get(weights, 0, "keys"),
                 spread = es_table_get(weights, 0, "spread");
    const double tokens = es_table_get(weights, 0, "tokens_below");
    const double large = es_table_get(weights, 0, "sampling") / pow(p->below * spread, 2.0);
    char from[ES_SAY_ROOM + 16], size[ES_SAY_ROOM], form[ES_SAY_ROOM + 48] = "";
    snprintf(from, sizeof from, tokens > 1.0 ? "from n = %s on" : "for any n",
             es_say_size(tokens, size));
    if (spread > 0.0 && large >= 1.0) /* fewer than one key is no number of keys */
        snprintf(form, sizeof form, ", and the form for large n would say n = %s",
                 es_say_size(large, size));
    es_answer_add_finding(
        a,
        "Attention over n of the %.0f keys, drawn independently, misses attention over "
        "all of them by less than %.3g of the values' spread %s (root mean square, "
        "exact); %.4g keys count in the median over %.0f queries%s.",
        keys, p->below, from, es_table_get(weights, 0, "ess"), es_table_get(weights, 0, "queries"),
        form);
    if (tokens > 100.0 * keys)
        es_answer_add_finding(
            a,
            "Caution: that is more than 100 times the %.0f keys there are: so many draws "
            "of the same keys, not a context that long.",
            keys);
}

es_status theory_draws_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const theory_state *s = job->state;
    const double spread = spread_of(&s->values);
    put_draws(job, spread, answer);
    ES_TRY(put_weights(job, spread, answer, err));
    tell_draws(job, es_answer_find(answer, "weights"), answer);
    return ES_OK;
}
