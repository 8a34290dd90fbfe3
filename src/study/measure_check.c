/* measure_check.c : how accurate the run was: some queries are computed again in another way.
 *
 * f32 kernels are checked against the f64 engine, f64 kernels against the reference, on queries
 * spread evenly over the head, at the largest prefix and every scale. (With --exclude-self on the
 * first queries: a query's own key is found by its number, which a sample would change.)
 */
#include <math.h>

#include "base/error.h"
#include "study/measure_study.h"

enum { ROWS = 16 };

/* The sample of one head and what was found for it. */
typedef struct sample {
    int64_t rows, stride;
    double *ours, *theirs; /* outputs (S, rows, dv) */
    double *lse, *entropy; /* of the judge (S, rows) */
    es_view q, k, v;
    es_attend_opts opts;
    es_arena scratch; /* a few rows: not counted */
} sample;

/* The head is done as far as progress goes; to stop is still possible. */
static bool stop_if_asked(void *user, double done, double total)
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
    *bytes = (size_t)(2 * n + 2 * s->d + s->dv) * sizeof(double);
    if (s->opts.precision == ES_F64 || s->checked_rows == 0)
        return;
    es_attend_opts opts = s->opts;
    opts.prefixes = NULL;
    opts.top_k = NULL;
    opts.self = false;
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

static es_status room_for(es_arena *scratch, int64_t count, double **out, es_error *err)
{
    void *memory;
    ES_TRY(es_arena_array(scratch, count, 1, sizeof(double), "checks", &memory, err));
    *out = memory;
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
    c->opts.self = false; /* the tokens of a prefix see exactly the keys of the prefix */
    c->opts.exec = exec;
    const int64_t cells = s->S * c->rows;
    ES_TRY(room_for(&c->scratch, cells * s->dv, &c->ours, err));
    ES_TRY(room_for(&c->scratch, cells * s->dv, &c->theirs, err));
    ES_TRY(room_for(&c->scratch, cells, &c->lse, err));
    return room_for(&c->scratch, cells, &c->entropy, err);
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

static es_status judge(const measure_state *s, int64_t head, const es_attend_out *ours,
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
    again.progress = stop_if_asked;
    again.progress_user = &given;
    const es_status status = judge(s, head, ours, &again, &c, cell, err);
    es_arena_free(&c.scratch);
    return status;
}
