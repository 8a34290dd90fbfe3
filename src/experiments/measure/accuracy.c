/* SPDX-License-Identifier: Apache-2.0 */
/* accuracy.c : how accurate a run is, measured: some queries of each head in higher precision.
 *
 * f32 kernels are checked against the f64 engine, f64 kernels against the reference, on queries
 * spread evenly over the head, at the largest prefix and every scale. With --exclude-self these are
 * the first queries: a query's own key is found by its number, which a sample would change. */
#include <math.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/measure.h"

/* ---- the check ---- */

enum { ROWS = 32 }; /* more than the engine calls few, or others kernels would be judged */

/* The sampled queries of one head, and their outputs. */
typedef struct sample {
    int64_t rows, stride;
    double *ours, *theirs; /* outputs (S, rows, dv) */
    double *lse, *entropy; /* recomputed (S, rows) */
    es_view q, k, v;
    es_attend_opts opts;
    es_mask mask; /* that of the run, for these queries */
    int64_t places[ROWS];
    es_arena scratch; /* a few rows: not counted */
} sample;

/* Returns how many queries of a head to recompute. The reference takes about 5 ns per
 * multiplication: at most one second of it per head, and no query at all if a single one takes
 * longer than ten. */
static int64_t affordable_rows(const measure_state *s)
{
    if (s->opts.precision == ES_F32)
        return ROWS;
    const double one =
        (double)s->opts.prefixes[s->P - 1] * ((double)s->d + (double)s->S * (double)s->dv);
    if (one > 2e9)
        return 0;
    const double fits = 2e8 / one;
    return fits >= ROWS ? ROWS : fits >= 1.0 ? (int64_t)fits : 1;
}

void measure_check_plan(measure_state *s, size_t *bytes)
{
    const int64_t queries = measure_queries(s, s->P - 1), n = s->opts.prefixes[s->P - 1];
    const int64_t rows = affordable_rows(s);
    s->checked_rows = queries < rows ? queries : rows;
    *bytes = (size_t)(3 * n + 2 * s->d + s->dv) * sizeof(double);
    if (s->opts.precision == ES_F64 || s->checked_rows == 0)
        return;
    es_attend_opts opts = s->opts;
    opts.prefixes = NULL;
    opts.top_k = NULL;
    opts.self = opts.spread = false;
    opts.block = 0;
    es_attend_plan plan;
    es_error err;
    const es_dtype both[] = {ES_F32, ES_F64};
    for (int i = 0; i < 2; i++) {
        opts.precision = both[i];
        if (es_attend_plan_for(s->checked_rows, n, s->d, s->dv, &opts, false, &plan, &err) ==
                ES_OK &&
            plan.bytes > *bytes)
            *bytes = plan.bytes;
    }
}

/* Allocates numbers for a check. */
static es_status new_numbers(es_arena *scratch, int64_t count, double **out, es_error *err)
{
    ES_TRY(ES_ARENA_NEW(scratch, *out, count, "checks", err));
    return ES_OK;
}

/* Chooses the queries of a head and sets options for them alone. */
static es_status start_sample(const measure_state *s, int64_t head, const es_exec *exec, sample *c,
                              es_error *err)
{
    es_view views[3];
    measure_views(s, head, views);
    const int64_t n = s->opts.prefixes[s->P - 1], queries = measure_queries(s, s->P - 1);
    c->rows = s->checked_rows;
    c->stride = 1;
    if (!s->opts.exclude_self && c->rows > 1)
        c->stride = (queries - 1) / (c->rows - 1);
    c->q = views[MEASURE_Q];
    c->q.row_stride *= c->stride;
    c->q.rows = c->rows;
    c->k = es_view_rows(&views[MEASURE_K], 0, n);
    c->v = es_view_rows(&views[MEASURE_V], 0, n);
    c->opts = measure_opts_of(s, head);
    c->opts.prefixes = NULL;
    c->opts.top_k = NULL;
    c->opts.spread = false;
    c->opts.block = 0;
    c->opts.self = false; /* the tokens of a prefix see exactly the keys of the prefix */
    c->opts.exec = exec;
    c->mask = s->mask;
    for (int64_t i = 0; i < c->rows; i++)
        c->places[i] = i * c->stride + measure_shift(s);
    c->mask.positions = c->places;
    c->opts.mask = s->opts.mask ? &c->mask : NULL;
    const int64_t cells = s->S * c->rows;
    ES_TRY(new_numbers(&c->scratch, cells * s->dv, &c->ours, err));
    ES_TRY(new_numbers(&c->scratch, cells * s->dv, &c->theirs, err));
    ES_TRY(new_numbers(&c->scratch, cells, &c->lse, err));
    return new_numbers(&c->scratch, cells, &c->entropy, err);
}

/* Collects our outputs of the sampled rows: those of the run if it stored them, else the same
 * kernels once more on these rows. */
static es_status collect_ours(const measure_state *s, const es_attend_out *ours, sample *c,
                              es_error *err)
{
    if (!s->keeps_output) {
        const es_attend_out out = {.output = c->ours};
        return es_attend(&c->q, &c->k, &c->v, &c->opts, &out, err);
    }
    for (int64_t b = 0; b < s->S; b++) {
        const int64_t cell = b * s->P + s->P - 1;
        for (int64_t i = 0; i < c->rows; i++)
            for (int64_t j = 0; j < s->dv; j++)
                c->ours[(b * c->rows + i) * s->dv + j] =
                    ours->output[(cell * s->m + i * c->stride) * s->dv + j];
    }
    return ES_OK;
}

/* Returns the larger of two errors, NaN if one is: unlike with fmax(), an error that is not a
 * number must not vanish behind one that is. */
static double worse(double a, double b) { return isnan(a) || a > b ? a : b; }

/* Stores the errors of the sample: relative L2 of outputs, largest of lse and entropy. */
static void compare_sample(const measure_state *s, const es_attend_out *ours, const sample *c,
                           double *cell)
{
    for (int64_t b = 0; b < s->S; b++) {
        const int64_t at = b * s->P + s->P - 1;
        measure_numbers *out = measure_at(s, cell, at);
        double error = 0.0, total = 0.0;
        for (int64_t i = b * c->rows * s->dv; i < (b + 1) * c->rows * s->dv; i++) {
            error += (c->ours[i] - c->theirs[i]) * (c->ours[i] - c->theirs[i]);
            total += c->theirs[i] * c->theirs[i];
        }
        out->check_output = error == 0.0 ? 0.0 : sqrt(error / total);
        for (int64_t i = 0; i < c->rows; i++) {
            const int64_t row = at * s->m + i * c->stride, judge = b * c->rows + i;
            out->check_lse = worse(fabs(ours->lse[row] - c->lse[judge]), out->check_lse);
            out->check_entropy =
                worse(fabs(ours->entropy[row] - c->entropy[judge]), out->check_entropy);
        }
    }
}

/* Recomputes the sample in higher precision and compares. */
static es_status judge_sample(const measure_state *s, int64_t head, const es_attend_out *ours,
                              const es_exec *exec, sample *c, double *cell, es_error *err)
{
    ES_TRY(start_sample(s, head, exec, c, err));
    ES_TRY(collect_ours(s, ours, c, err));
    const es_attend_out out = {.output = c->theirs, .lse = c->lse, .entropy = c->entropy};
    const bool engine = c->opts.precision == ES_F32;
    c->opts.precision = ES_F64;
    ES_TRY((engine ? es_attend : es_attend_reference)(&c->q, &c->k, &c->v, &c->opts, &out, err));
    compare_sample(s, ours, c, cell);
    return ES_OK;
}

es_status measure_check(const measure_state *s, int64_t head, const es_attend_out *ours,
                        const es_exec *exec, double *cell, es_error *err)
{
    es_exec again = *exec;
    es_exec given = *exec;
    sample c = {0};
    if (s->checked_rows == 0)
        return ES_OK;
    again.progress = measure_stop_only;
    again.progress_user = &given;
    const es_status status = judge_sample(s, head, ours, &again, &c, cell, err);
    es_arena_free(&c.scratch);
    return status;
}

/* ---- the table ---- */

/* A row of the table of accuracy: output of this precision against f64. */
typedef struct accuracy_row {
    int64_t rows;
    const char *against;
    double output_relative_l2, lse_abs, entropy_abs;
} accuracy_row;

static const es_column columns[] = {
    ES_COL(accuracy_row, rows, ES_FORMAT_COUNT, "rows checked", "per head"),
    ES_COL(accuracy_row, against, ES_FORMAT_TEXT, "against", ""),
    ES_COL(accuracy_row, output_relative_l2, ES_FORMAT_SHORT, "output error", "",
           "relative L2 error over the rows checked; the worst head and scale"),
    ES_COL(accuracy_row, lse_abs, ES_FORMAT_SHORT, "lse error", "nats"),
    ES_COL(accuracy_row, entropy_abs, ES_FORMAT_SHORT, "entropy error", "nats"),
    {0}};
static const es_table_spec accuracy_table = {
    "accuracy", columns, ES_VIEW("Accuracy of this run", .only_with_full = true),
    ES_ROW(accuracy_row), .record = true};

/* Stores the largest errors of all heads and scales; NaN if nothing was checked. */
static void find_worst(const es_job *job, accuracy_row *out)
{
    const measure_state *s = job->state;
    const double unknown = s->checked_rows ? 0.0 : (double)NAN;
    double output = 0.0, lse = 0.0, entropy = 0.0;
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t b = 0; b < s->S; b++) {
            const measure_numbers *x = measure_found(job, h, b * s->P + s->P - 1);
            output = worse(x->check_output, output);
            lse = worse(x->check_lse, lse);
            entropy = worse(x->check_entropy, entropy);
        }
    out->output_relative_l2 = output + unknown;
    out->lse_abs = lse + unknown;
    out->entropy_abs = entropy + unknown;
}

es_status measure_add_accuracy(const es_job *job, es_answer *answer, es_error *err)
{
    const measure_state *s = job->state;
    const bool f32 = s->opts.precision == ES_F32;
    accuracy_row *r = es_rows_add(es_answer_table(answer, &accuracy_table), accuracy_row);
    if (!r)
        return es_answer_status(answer, err);
    r->rows = s->checked_rows;
    r->against = !s->checked_rows ? "not checked: too long for the reference"
                 : f32            ? "f64 engine"
                                  : "f64 reference";
    find_worst(job, r);
    if (!s->checked_rows)
        return ES_OK;
    es_answer_add_finding(answer,
                          "%s right to %.2g (relative L2): %lld queries of each head were "
                          "computed again by the %s.",
                          s->p->compare ? "Esscher's own outputs (f64 engine) are" : "Outputs are",
                          r->output_relative_l2, (long long)s->checked_rows, r->against);
    if (f32 && !(r->output_relative_l2 <= 1e-4))
        es_log(ES_LOG_ERROR, "warning: outputs are off by %.2g (relative); use --precision f64",
               r->output_relative_l2);
    return ES_OK;
}
