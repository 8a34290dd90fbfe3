/* measure_cells.c : attention of one head, and the statistics over its queries. */
#include <math.h>

#include "base/error.h"
#include "study/measure_study.h"

const char *const measure_names[MEASURE_NUMBERS] = {"entropy",
                                                    "entropy_se",
                                                    "perplexity",
                                                    "perplexity_se",
                                                    "ess",
                                                    "ess_se",
                                                    "sum_squares",
                                                    "sum_squares_se",
                                                    "top_weight",
                                                    "top_weight_se",
                                                    "lse",
                                                    "lse_se",
                                                    "output_mean_norm",
                                                    "output_mean_norm_se",
                                                    "output_cov_trace",
                                                    "check_output",
                                                    "check_lse",
                                                    "check_entropy",
                                                    "compare_error",
                                                    "compare_total",
                                                    "compare_max_abs",
                                                    "compare_max_ulps",
                                                    "compare_worst",
                                                    "compare_worst_row",
                                                    "compare_nonfinite"};

bool measure_stop(const es_exec *exec)
{
    return exec->progress && exec->progress(exec->progress_user, 1.0, 1.0);
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
    const struct {
        void *to;
        int64_t a, b;
        size_t element;
    } pieces[] = {{&out->lse, each, 1, sizeof(double)},
                  {&out->entropy, each, 1, sizeof(double)},
                  {&out->top_weight, each, 1, sizeof(double)},
                  {&out->top_index, each, 1, sizeof(int64_t)},
                  {&out->sum_squares, each, 1, sizeof(double)},
                  {&out->moments, cells, 1, sizeof(es_moments)},
                  {cov, s->dv, s->dv, sizeof(double)},
                  {s->K ? &out->top_mass : NULL, each, s->K, sizeof(double)},
                  {s->keeps_output ? &out->output : NULL, each, s->dv, sizeof(double)}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (pieces[i].to)
            ES_TRY(es_arena_array(scratch, pieces[i].a, pieces[i].b, pieces[i].element,
                                  "statistics of a head", pieces[i].to, err));
    return ES_OK;
}

static es_status attend(measure_state *s, int64_t head, const es_exec *exec, es_arena *scratch,
                        double *cell, es_error *err)
{
    es_attend_out out = {0};
    es_attend_opts opts = s->opts;
    es_view v[3];
    double *cov;
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
        ES_TRY(measure_compare(s, head, out.output, cell, err));
    measure_files_head(s, head, &out);
    return ES_OK;
}

es_status measure_head(es_job *job, int64_t head, const es_exec *exec, double *out, es_error *err)
{
    es_arena scratch = {0};
    const es_status status = attend(job->state, head, exec, &scratch, out, err);
    es_arena_free(&scratch);
    return status;
}
