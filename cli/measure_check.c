/* How accurate the run was: some queries are computed again in another way.
 *
 * f32 kernels are checked against the f64 engine, f64 kernels against the reference, on queries
 * spread evenly over the head, at the largest prefix and every scale. (With --exclude-self on the
 * first queries: a query's own key is found by its number, which a sample would change.)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "talk.h"

static const cli_column columns[] = {
    {"rows", "rows checked", "per head", .format = CLI_COUNT},
    {"against", "against", "", .format = CLI_TEXT},
    {"output_relative_l2", "output error", "", .format = CLI_SHORT,
     .definition = "relative L2 error over the rows checked; the worst head and scale"},
    {"lse_abs", "lse error", "nats", .format = CLI_SHORT},
    {"entropy_abs", "entropy error", "nats", .format = CLI_SHORT},
    {0}};

const cli_table measure_accuracy_table = {
    .rows = "accuracy", .title = "Accuracy of this run", .columns = columns};

enum { ROWS = 16 };

/* The sample of one head and what was found for it. */
typedef struct sample {
    int64_t rows, stride;
    double *ours, *theirs; /* outputs (S, rows, dv) */
    double *lse, *entropy; /* of the judge (S, rows) */
    es_view q, k, v;
    es_attend_opts opts;
} sample;

static bool stop_if_asked(void *user, double done, double total)
{
    (void)user;
    (void)done;
    (void)total;
    return cli_interrupted();
}

/* The reference takes about 5 ns per multiplication; at most one second of it per head, and not a
 * single row if that takes longer than ten. */
static int64_t affordable_rows(const measure_job *job)
{
    if (job->opts.precision == ES_F32)
        return ROWS;
    const double one = (double)job->opts.prefixes[job->P - 1] *
                       ((double)job->d + (double)job->S * (double)job->dv);
    if (one > 2e9)
        return 0;
    const double fits = 2e8 / one;
    return fits >= ROWS ? ROWS : fits >= 1.0 ? (int64_t)fits : 1;
}

void measure_check_plan(measure_job *job, size_t *bytes)
{
    const int64_t queries = measure_queries(job, job->P - 1), n = job->opts.prefixes[job->P - 1];
    const int64_t rows = affordable_rows(job);
    job->checked_rows = queries < rows ? queries : rows;
    *bytes = (size_t)(2 * n + 2 * job->d + job->dv) * sizeof(double);
    if (job->opts.precision == ES_F64 || job->checked_rows == 0)
        return;
    es_attend_opts opts = job->opts;
    opts.prefixes = NULL;
    opts.top_k = NULL;
    opts.self = false;
    es_attend_plan plan;
    es_error err;
    const es_dtype both[] = {ES_F32, ES_F64};
    for (int i = 0; i < 2; i++) {
        opts.precision = both[i];
        if (es_attend_plan_for(job->checked_rows, n, job->d, job->dv, &opts, false, &plan, &err) ==
                ES_OK &&
            plan.bytes > *bytes)
            *bytes = plan.bytes;
    }
}

static void start_sample(const measure_job *job, int64_t head, const es_exec *exec, sample *s)
{
    es_view views[3];
    measure_views(job, head, views);
    const int64_t n = job->opts.prefixes[job->P - 1], queries = measure_queries(job, job->P - 1);
    *s = (sample){.rows = job->checked_rows, .stride = 1};
    if (!job->opts.exclude_self && s->rows > 1)
        s->stride = (queries - 1) / (s->rows - 1);
    s->q = views[MEASURE_Q];
    s->q.row_stride *= s->stride;
    s->q.rows = s->rows;
    s->k = es_view_rows(&views[MEASURE_K], 0, n);
    s->v = es_view_rows(&views[MEASURE_V], 0, n);
    s->opts = job->opts;
    s->opts.prefixes = NULL;
    s->opts.top_k = NULL;
    s->opts.self = false; /* the tokens of a prefix see exactly the keys of the prefix */
    s->opts.exec = exec;
    const size_t cells = (size_t)(job->S * s->rows);
    s->ours = cli_alloc_array(cells * (size_t)job->dv, sizeof(double));
    s->theirs = cli_alloc_array(cells * (size_t)job->dv, sizeof(double));
    s->lse = cli_alloc_array(cells, sizeof(double));
    s->entropy = cli_alloc_array(cells, sizeof(double));
}

static void free_sample(sample *s)
{
    free(s->ours);
    free(s->theirs);
    free(s->lse);
    free(s->entropy);
}

/* Our outputs of the sampled rows: those of the run where it kept them, else the same kernels once
 * more on these rows. */
static es_status collect_ours(const measure_job *job, sample *s, es_error *err)
{
    if (!job->keeps_output) {
        const es_attend_out out = {.output = s->ours};
        return es_attend(&s->q, &s->k, &s->v, &s->opts, &out, err);
    }
    for (int64_t b = 0; b < job->S; b++) {
        const int64_t cell = b * job->P + job->P - 1;
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t c = 0; c < job->dv; c++)
                s->ours[(b * s->rows + i) * job->dv + c] =
                    job->out.output[(cell * job->m + i * s->stride) * job->dv + c];
    }
    return ES_OK;
}

/* The larger of two errors. Unlike fmax() it keeps a NaN: an error that is not a number must not
 * vanish behind one that is. */
static double worse(double a, double b) { return isnan(a) || a > b ? a : b; }

static void compare_sample(measure_job *job, const sample *s)
{
    for (int64_t b = 0; b < job->S; b++) {
        const int64_t cell = (b * job->P + job->P - 1) * job->m;
        double error = 0.0, total = 0.0;
        for (int64_t i = b * s->rows * job->dv; i < (b + 1) * s->rows * job->dv; i++) {
            error += (s->ours[i] - s->theirs[i]) * (s->ours[i] - s->theirs[i]);
            total += s->theirs[i] * s->theirs[i];
        }
        const double relative = error == 0.0 ? 0.0 : sqrt(error / total);
        job->worst_output = worse(relative, job->worst_output);
        for (int64_t i = 0; i < s->rows; i++) {
            const int64_t ours = cell + i * s->stride, judge = b * s->rows + i;
            job->worst_lse = worse(fabs(job->out.lse[ours] - s->lse[judge]), job->worst_lse);
            job->worst_entropy =
                worse(fabs(job->out.entropy[ours] - s->entropy[judge]), job->worst_entropy);
        }
    }
}

es_status measure_check(measure_job *job, int64_t head, es_error *err)
{
    if (job->checked_rows == 0)
        return ES_OK;
    es_exec exec = job->session->exec;
    exec.progress = stop_if_asked;
    sample s;
    start_sample(job, head, &exec, &s);
    es_status status = collect_ours(job, &s, err);
    if (status == ES_OK) {
        const es_attend_out out = {.output = s.theirs, .lse = s.lse, .entropy = s.entropy};
        const bool engine = s.opts.precision == ES_F32;
        s.opts.precision = ES_F64;
        status = (engine ? es_attend : es_attend_reference)(&s.q, &s.k, &s.v, &s.opts, &out, err);
    }
    if (status == ES_OK)
        compare_sample(job, &s);
    free_sample(&s);
    return status;
}

void measure_check_answer(measure_job *job)
{
    const bool f32 = job->opts.precision == ES_F32;
    json_t *accuracy = json_object();
    json_object_set_new(accuracy, "rows", json_integer(job->checked_rows));
    json_object_set_new(accuracy, "against",
                        json_string(!job->checked_rows ? "not checked: too long for the reference"
                                    : f32              ? "f64 engine"
                                                       : "f64 reference"));
    const double unknown = job->checked_rows ? 0.0 : (double)NAN;
    json_object_set_new(accuracy, "output_relative_l2", cli_real(job->worst_output + unknown));
    json_object_set_new(accuracy, "lse_abs", cli_real(job->worst_lse + unknown));
    json_object_set_new(accuracy, "entropy_abs", cli_real(job->worst_entropy + unknown));
    json_object_set_new(job->session->answer, "accuracy", accuracy);
    if (f32 && !(job->worst_output <= 1e-4))
        fprintf(stderr,
                "esscher measure: warning: outputs are off by %.2g (relative); use --precision "
                "f64\n",
                job->worst_output);
}
