/* SPDX-License-Identifier: Apache-2.0 */
/* duration.c : how long a run with a limit will take, for --dry-run.
 *
 * Operations and memory are counted; time is measured: a smaller attention of the same shape, one
 * limit and one prediction, each on one thread by that thread's CPU clock, which does not count
 * other programs. */
#include <math.h>
#include <time.h>

#include <esscher/attend.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/converge/converge.h"
#include "random/experiment.h"

static const double trial_flops = 8e10; /* one or two seconds */
enum { TRIALS = 2 };                    /* the best counts */

/* Returns the CPU time of this thread; wall-clock time would count other programs. */
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- attention ---- */

/* Shapes of a replicate, its sizes shrunk by a factor. */
typedef struct trial {
    int64_t k, dv, prefixes;
    int64_t *sizes;
    double *q, *v;
    es_exec exec;
} trial;

/* Makes a trial. Drops sizes that coincide after shrinking, because es_attend() needs increasing
 * ones. */
static es_status trial_new(es_job *job, double factor, trial *t, es_error *err)
{
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    *t = (trial){.k = es_head_key_dim(spec->head, spec->law->dim),
                 .dv = es_head_channels(spec->head, spec->law->dim),
                 .exec = job->exec};
    ES_TRY(ES_JOB_NEW(job, t->sizes, spec->n_sizes, err));
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        const int64_t n = (int64_t)fmax(2.0, factor * (double)spec->sizes[i]);
        if (t->prefixes == 0 || n > t->sizes[t->prefixes - 1])
            t->sizes[t->prefixes++] = n;
    }
    const int64_t n = t->sizes[t->prefixes - 1];
    ES_TRY(ES_JOB_NEW_2D(job, t->q, n, t->k, err));
    ES_TRY(ES_JOB_NEW_2D(job, t->v, n, t->dv, err));
    t->exec.threads = 1;
    return ES_OK;
}

/* Time and work of attention, measured or expected. */
typedef struct pace {
    double seconds, flops;
    double outputs; /* queries, summed over sizes: each adds a row to the moments */
} pace;

/* Returns the number of outputs of one replicate. */
static double outputs_of(const int64_t *sizes, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)sizes[i];
    return sum;
}

/* Runs attention once and measures its time. */
static es_status trial_run(es_job *job, trial *t, pace *out, es_error *err)
{
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    const int64_t n = t->sizes[t->prefixes - 1], sets = spec->n_scales * t->prefixes;
    const es_address at = {.seed = spec->seed, .experiment = ES_EXPERIMENT_BENCH};
    const es_view q = es_view_f64(t->q, n, t->k), v = es_view_f64(t->v, n, t->dv);
    const es_attend_opts opts = {
        spec->precision,      .scales = spec->scales,    .n_scales = spec->n_scales,
        .prefixes = t->sizes, .n_prefixes = t->prefixes, .self = true,
        .exec = &t->exec};
    es_moments *moments;
    ES_TRY(ES_JOB_NEW(job, moments, sets, err));
    const es_attend_out results = {.moments = moments};
    es_attend_plan plan = {0};
    es_status status = es_attend_plan_for(n, n, t->k, t->dv, &opts, true, &plan, err);
    if (status == ES_OK)
        status = es_normal_rows(&at, n, t->k, t->q, err);
    if (status == ES_OK)
        status = es_normal_rows(&at, n, t->dv, t->v, err);
    const double start = cpu_seconds();
    if (status == ES_OK)
        status = es_attend(&q, &q, &v, &opts, &results, err);
    *out = (pace){.seconds = cpu_seconds() - start,
                  .flops = plan.flops,
                  .outputs = outputs_of(t->sizes, t->prefixes)};
    for (int64_t i = 0; i < sets; i++)
        es_moments_free(&moments[i]);
    return status;
}

/* Returns the fastest of a few trials, because disturbances only add time. */
static es_status try_size(es_job *job, double factor, pace *best, es_error *err)
{
    trial t;
    ES_TRY(trial_new(job, factor, &t, err));
    best->seconds = (double)INFINITY;
    for (int i = 0; i < TRIALS; i++) {
        pace once;
        ES_TRY(trial_run(job, &t, &once, err));
        if (once.seconds < best->seconds)
            *best = once;
    }
    return ES_OK;
}

/* Extrapolates from two sizes, which separate the time that grows like n^2 from that like n. */
static es_status time_attention(es_job *job, double replicate_flops, pace *whole, es_error *err)
{
    const double factor = fmin(1.0, sqrt(trial_flops / replicate_flops));
    pace large, small;
    ES_TRY(try_size(job, factor, &large, err));
    ES_TRY(try_size(job, 0.5 * factor, &small, err));
    const double ratio = large.outputs / small.outputs;
    double per_flop = (large.seconds - ratio * small.seconds) / (large.flops - ratio * small.flops);
    double per_output = (small.seconds - per_flop * small.flops) / small.outputs;
    if (!(per_flop > 0.0) || !(per_output > 0.0)) { /* within the noise: assume n^2 alone */
        per_flop = large.seconds / large.flops;
        per_output = 0.0;
    }
    whole->seconds =
        (per_flop * whole->flops + per_output * whole->outputs) / (double)job->exec.threads;
    return ES_OK;
}

/* ---- the rest ---- */

/* Extrapolates the time of all limits from that of one scale. */
static es_status time_limits(const es_job *job, double *seconds, es_error *err)
{
    enum { FEW = 2048 }; /* points of an empirical law: its limit sums over all pairs */
    es_converge_spec one = ((const converge_state *)job->state)->spec;
    es_law law = *one.law;
    es_exec exec = job->exec;
    es_view few;
    double factor = (double)one.n_scales / (double)exec.threads;
    exec.threads = 1;
    one.exec = &exec;
    one.scales += one.n_scales / 2;
    one.n_scales = 1;
    one.reference = 0;
    if (law.points && law.points->rows > FEW) {
        const double ratio = (double)law.points->rows / FEW;
        few = es_view_rows(law.points, 0, FEW);
        law.points = &few;
        factor *= ratio * ratio;
    }
    one.law = &law;
    es_converge_limit *limit;
    const double start = cpu_seconds();
    const es_status status = es_converge_limit_new(&one, &limit, err);
    *seconds = factor * (cpu_seconds() - start);
    es_converge_limit_free(limit);
    return status;
}

/* Extrapolates the time of all predictions from one; they run one after the other. */
static es_status time_predictions(es_job *job, double *seconds, es_error *err)
{
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    converge_theory theory;
    es_predicted p;
    double sampling;
    const double start = cpu_seconds();
    ES_TRY(converge_theory_new(job, &theory, err));
    ES_TRY(converge_predict(job, &theory, spec->scales[spec->n_scales / 2],
                            spec->sizes[spec->n_sizes - 1], &p, &sampling, err));
    *seconds = (double)(spec->n_scales * spec->n_sizes) * (cpu_seconds() - start);
    return ES_OK;
}

es_status converge_duration(es_job *job, double flops, double replicate_flops, double *seconds,
                            es_error *err)
{
    const converge_params *p = job->params;
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    double limits = 0.0, predictions = 0.0;
    pace whole = {.flops = flops,
                  .outputs = (double)p->replicates * outputs_of(spec->sizes, spec->n_sizes) +
                             (double)spec->reference};
    ES_TRY(time_attention(job, replicate_flops, &whole, err));
    ES_TRY(time_limits(job, &limits, err));
    if (p->predict)
        ES_TRY(time_predictions(job, &predictions, err));
    *seconds = whole.seconds + limits + predictions;
    return ES_OK;
}
