/* cells.c : attention of one head: statistics over its queries, and how accurate they are.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/measure/oracle.h"

/* clang-format off */
const char *const measure_names[MEASURE_NUMBERS] = {
    "entropy", "entropy_se", "perplexity", "perplexity_se", "ess", "ess_se", "sum_squares",
    "sum_squares_se", "top_weight", "top_weight_se", "lse", "lse_se", "output_mean_norm",
    "output_mean_norm_se", "output_cov_trace", "check_output", "check_lse", "check_entropy",
    "compare_error", "compare_total", "compare_max_abs", "compare_max_ulps", "compare_worst",
    "compare_worst_row", "compare_nonfinite", "compare_largest", "compare_ratio",
    "compare_expected", "compare_expected_row", "compare_beyond", "compare_allowed", "error_bar",
    "error_bar_independent", "design_effect", "error_bar_relative", "error_bar_t", "error_bar_told"};
/* clang-format on */

bool measure_stop(const es_exec *exec)
{
    return exec->progress && exec->progress(exec->progress_user, 1.0, 1.0);
}

/* ---- accuracy ----
 * f32 kernels are checked against the f64 engine, f64 kernels against the reference, on queries
 * spread evenly over the head, at the largest prefix and every scale. (With --exclude-self on the
 * first queries: a query's own key is found by its number, which a sample would change.) */

enum { ROWS = 32 }; /* more than the engine calls few, or others kernels would be judged */

/* The sample of one head and what was found for it. */
typedef struct sample {
    int64_t rows, stride;
    double *ours, *theirs; /* outputs (S, rows, dv) */
    double *lse, *entropy; /* of the judge (S, rows) */
    es_view q, k, v;
    es_attend_opts opts;
    es_mask mask; /* that of the run, for these queries */
    int64_t places[ROWS];
    es_arena scratch; /* a few rows: not counted */
} sample;

/* The head is done as far as progress goes; to stop is still possible. */
bool measure_stop_only(void *user, double done, double total)
{
    (void)done;
    (void)total;
    return measure_stop(user);
}

/* The reference takes about 5 ns per multiplication; at most one second of it per head, and not a
 * single row if that takes longer than ten. */
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

static es_status room_for_check(es_arena *scratch, int64_t count, double **out, es_error *err)
{
    ES_TRY(ES_ARENA_NEW(scratch, *out, count, "checks", err));
    return ES_OK;
}

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
    c->opts = s->opts;
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
    ES_TRY(room_for_check(&c->scratch, cells * s->dv, &c->ours, err));
    ES_TRY(room_for_check(&c->scratch, cells * s->dv, &c->theirs, err));
    ES_TRY(room_for_check(&c->scratch, cells, &c->lse, err));
    return room_for_check(&c->scratch, cells, &c->entropy, err);
}

/* Our outputs of the sampled rows: those of the run where it kept them, else the same kernels once
 * more on these rows. */
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

/* The larger of two errors. Unlike fmax() it keeps a NaN: an error that is not a number must not
 * vanish behind one that is. */
double measure_worse(double a, double b) { return isnan(a) || a > b ? a : b; }

static void compare_sample(const measure_state *s, const es_attend_out *ours, const sample *c,
                           double *cell)
{
    for (int64_t b = 0; b < s->S; b++) {
        const int64_t at = b * s->P + s->P - 1;
        double *out = cell + at * s->numbers, error = 0.0, total = 0.0;
        for (int64_t i = b * c->rows * s->dv; i < (b + 1) * c->rows * s->dv; i++) {
            error += (c->ours[i] - c->theirs[i]) * (c->ours[i] - c->theirs[i]);
            total += c->theirs[i] * c->theirs[i];
        }
        out[MEASURE_CHECK_OUTPUT] = error == 0.0 ? 0.0 : sqrt(error / total);
        for (int64_t i = 0; i < c->rows; i++) {
            const int64_t row = at * s->m + i * c->stride, judge = b * c->rows + i;
            out[MEASURE_CHECK_LSE] =
                measure_worse(fabs(ours->lse[row] - c->lse[judge]), out[MEASURE_CHECK_LSE]);
            out[MEASURE_CHECK_ENTROPY] = measure_worse(fabs(ours->entropy[row] - c->entropy[judge]),
                                                       out[MEASURE_CHECK_ENTROPY]);
        }
    }
}

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

static es_status measure_check(const measure_state *s, int64_t head, const es_attend_out *ours,
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

/* ---- statistics over queries ---- */

static double same(double x) { return x; }
static double inverse(double x) { return 1.0 / x; }

/* Mean of f(x) and its standard error; x has `stride` doubles from one query to the next. */
static void mean_of(const double *x, int64_t count, int64_t stride, double (*f)(double),
                    double *mean, double *error)
{
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += f(x[i * stride]);
    *mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double off = f(x[i * stride]) - *mean;
        squares += off * off;
    }
    /* One query has no spread to estimate: NaN. */
    *error = sqrt(squares / (double)(count - 1) / (double)count);
}

/* Norm of the mean output with its error to first order, |grad|^2 = u' C u / queries for
 * u = mean / |mean|; trace of the covariance; both in full with --moments. */
static void put_moments(const measure_state *s, const es_moments *moments, double *cov, double *out)
{
    const int64_t d = moments->dim;
    es_moments_covariance(moments, 0, cov);
    double norm2 = 0.0, trace = 0.0, spread = 0.0;
    for (int64_t i = 0; i < d; i++) {
        norm2 += moments->mean[i] * moments->mean[i];
        trace += cov[i * d + i];
        for (int64_t j = 0; j < d; j++)
            spread += moments->mean[i] * cov[i * d + j] * moments->mean[j];
    }
    out[MEASURE_MEAN_NORM] = sqrt(norm2);
    out[MEASURE_MEAN_NORM_SE] = sqrt(fmax(spread, 0.0) / norm2 / (double)(moments->count - 1));
    out[MEASURE_TRACE] = trace;
    double *full = out + MEASURE_NUMBERS + 2 * s->K;
    for (int64_t i = 0; s->p->moments && i < d; i++)
        full[i] = moments->mean[i];
    for (int64_t i = 0; s->p->moments && i < d * d; i++)
        full[d + i] = cov[i];
}

/* Row `at` of the cell: scale at / P, prefix at % P. ESS and perplexity are means of 1/sum w^2 and
 * exp(entropy) over queries, not these functions of means: a few queries that see everything would
 * vanish in the latter (Jensen). */
static void put_row(const measure_state *s, const es_attend_out *o, int64_t at, double *cov,
                    double *out)
{
    const int64_t count = measure_queries(s, at % s->P), first = at * s->m;
    const struct {
        int to;
        const double *x;
        double (*f)(double);
    } means[] = {
        {MEASURE_ENTROPY, o->entropy, same},       {MEASURE_PERPLEXITY, o->entropy, exp},
        {MEASURE_ESS, o->sum_squares, inverse},    {MEASURE_SUM_SQUARES, o->sum_squares, same},
        {MEASURE_TOP_WEIGHT, o->top_weight, same}, {MEASURE_LSE, o->lse, same}};
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        mean_of(means[i].x + first, count, 1, means[i].f, &out[means[i].to], &out[means[i].to + 1]);
    for (int64_t k = 0; k < s->K; k++)
        mean_of(o->top_mass + first * s->K + k, count, s->K, same, &out[MEASURE_NUMBERS + k],
                &out[MEASURE_NUMBERS + s->K + k]);
    put_moments(s, &o->moments[at], cov, out);
}

/* ---- a head ---- */

/* Results of es_attend() for one head, in memory that the cost counts as results. */
static es_status make_room(const measure_state *s, es_arena *scratch, es_attend_out *out,
                           double **cov, es_error *err)
{
    const int64_t cells = s->S * s->P, each = cells * s->m;
    const char *what = "statistics of a head";
    ES_TRY(ES_ARENA_NEW(scratch, out->lse, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->entropy, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->top_weight, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->top_index, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->sum_squares, each, what, err));
    ES_TRY(ES_ARENA_NEW(scratch, out->moments, cells, what, err));
    ES_TRY(ES_ARENA_NEW_2D(scratch, *cov, s->dv, s->dv, what, err));
    if (s->K)
        ES_TRY(ES_ARENA_NEW_2D(scratch, out->top_mass, each, s->K, what, err));
    if (s->opts.spread)
        ES_TRY(ES_ARENA_NEW(scratch, out->spread2, each, what, err));
    if (s->p->block) {
        ES_TRY(ES_ARENA_NEW_2D(scratch, out->block_powers, each, 3, what, err));
        ES_TRY(ES_ARENA_NEW_2D(scratch, out->block_spread2, each, s->dv, what, err));
    }
    if (s->keeps_output)
        ES_TRY(ES_ARENA_NEW_2D(scratch, out->output, each, s->dv, what, err));
    return ES_OK;
}

static es_status attend(measure_state *s, int64_t head, const es_exec *exec, es_arena *scratch,
                        double *cell, es_error *err)
{
    es_attend_out out = {0};
    es_attend_opts opts = s->opts;
    es_view v[3];
    double *cov, *bars;
    opts.exec = exec;
    ES_TRY(make_room(s, scratch, &out, &cov, err));
    measure_views(s, head, v);
    ES_TRY(es_attend(&v[MEASURE_Q], &v[MEASURE_K], &v[MEASURE_V], &opts, &out, err));
    for (int64_t at = 0; at < s->S * s->P; at++) {
        put_row(s, &out, at, cov, cell + at * s->numbers);
        es_moments_free(&out.moments[at]);
    }
    ES_TRY(measure_check(s, head, &out, exec, cell, err));
    if (s->p->compare)
        compare_head(s, head, &out, cell);
    ES_TRY(measure_bars(s, &out, scratch, cell, &bars, err));
    measure_files_head(s, head, &out, bars);
    return ES_OK;
}

es_status measure_head(es_job *job, int64_t head, const es_exec *exec, void *record, es_error *err)
{
    double *out = record;
    es_arena scratch = {0};
    const es_status status = attend(job->state, head, exec, &scratch, out, err);
    es_arena_free(&scratch);
    return status;
}
