/* particles.c : tokens that move by their own attention: their density, mean and clusters
 * after every step (THEORY 6). A cell is a set of particles with all its steps. */
#include <math.h>
#include <stdio.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "experiments/heat/question.h"
#include "experiments/kit/answer_kit.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "tokens/tokens.h"

enum { TOKENS = ES_EXPERIMENT_HEAT + 2 }; /* address of random numbers */

/* Numbers of a bin of a set after a step; all but the density are the same in every bin. */
enum { DENSITY, LENGTH, CLUSTERS, LARGEST, NUMBERS };
static const char *const particle_numbers[] = {"density", "mean_length", "clusters", "largest"};

/* ---- a cell: all steps of a set ---- */

/* Steps come after one another, so they are one cell; its progress counts them. */
typedef struct walk {
    const es_exec *exec;
    int64_t step, steps;
} walk;

static bool walk_progress(void *user, double done, double total)
{
    const walk *w = user;
    const double part = total > 0.0 ? done / total : 0.0;
    return w->exec->progress && w->exec->progress(w->exec->progress_user,
                                                  (double)(w->step - 1) + part, (double)w->steps);
}

/* The first harmonic of the particles' density: what backward heat amplifies by exp((d-1) t)
 * (THEORY 6), and the one number of the flow that theory has in closed form. */
static double length_of_mean(const double *x, int64_t n, int64_t d)
{
    double norm2 = 0.0;
    for (int64_t c = 0; c < d; c++) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++)
            sum += x[i * d + c];
        norm2 += sum / (double)n * (sum / (double)n);
    }
    return sqrt(norm2);
}

/* What a step left of x, for every bin: out (bins, NUMBERS). */
static es_status look_at(const heat_params *p, const double *x, es_mem_limit *budget,
                         double *density, double *out, es_error *err)
{
    es_heat_clusters found;
    ES_TRY(es_heat_histogram(x, p->particles, p->dim, p->bins, density, err));
    ES_TRY(es_heat_clusters_of(x, p->particles, p->dim, p->cluster_angle, budget, &found, err));
    const double length = length_of_mean(x, p->particles, p->dim);
    for (int64_t b = 0; b < p->bins; b++, out += NUMBERS) {
        out[DENSITY] = density[b];
        out[LENGTH] = length;
        out[CLUSTERS] = (double)found.count;
        out[LARGEST] = (double)found.largest / (double)p->particles;
    }
    return ES_OK;
}

static es_status walk_all(const heat_params *p, const es_exec *exec, double *x, double *density,
                          double *out, es_error *err)
{
    walk w = {.exec = exec, .steps = p->steps};
    es_exec each = *exec;
    each.progress = walk_progress;
    each.progress_user = &w;
    for (w.step = 0; w.step <= p->steps; w.step++) {
        if (w.step > 0)
            ES_TRY(es_heat_step(x, p->particles, p->dim, p->step_beta, &each, err));
        ES_TRY(look_at(p, x, exec->budget, density, out + w.step * p->bins * NUMBERS, err));
    }
    return ES_OK;
}

static es_status run_particles(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    double *out = record;
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    const es_address at = {.seed = job->seed, .experiment = TOKENS, .cell = (uint64_t)cell};
    const int64_t numbers = p->particles * p->dim;
    double *x;
    ES_TRY(ES_MEM_NEW(exec->budget, x, numbers + p->bins, "particles", err));
    es_status status = es_tokens_fill(&s->law, &at, p->particles, exec, x, err);
    if (status == ES_OK)
        status = walk_all(p, exec, x, x + numbers, out, err);
    es_mem_free(exec->budget, x);
    return status;
}

/* Particles attend to themselves; clusters are few. */
static double set_flops(const heat_params *p)
{
    return (double)p->particles * (double)p->particles * (double)p->dim * 4.0 * (double)p->steps;
}

es_status heat_particle_stage(es_job *job, es_error *err)
{
    heat_params *p = job->params;
    if (isnan(p->cluster_angle))
        p->cluster_angle = fmin(1.0 / sqrt(p->step_beta), 3.141592653589793);
    return es_job_stage(
        job,
        &(es_stage){"particles", .phase = "moving particles", .noun = "sets of particles",
                    .cells = p->particles ? p->sets : 0, .rows = (p->steps + 1) * p->bins,
                    .cols = NUMBERS, .columns = particle_numbers, .reports_progress = true,
                    .flops = set_flops(p), .run = run_particles},
        err);
}

es_status heat_particle_cost(es_job *job, es_cost *out, es_error *err)
{
    const heat_params *p = job->params;
    const es_attend_opts opts = {.precision = ES_F64, .exec = &job->exec}; /* as es_heat_step() */
    const double N = (double)p->particles, d = (double)p->dim;
    const double bins = (double)((p->steps + 1) * p->bins);
    es_attend_plan plan;
    *out = (es_cost){0};
    if (!p->particles)
        return ES_OK;
    ES_TRY(
        es_attend_plan_for(p->particles, p->particles, p->dim, p->dim, &opts, false, &plan, err));
    *out = (es_cost){.flops = (double)p->sets * set_flops(p),
                     .output_bytes = 512.0 * bins,
                     .work_bytes =
                         8.0 * (2.0 * N * d + 2.0 * N + (double)p->bins) + (double)plan.bytes};
    return ES_OK;
}

/* ---- tables ---- */

static const es_column particle_columns[] = {
    {"step", "step", "", ES_FORMAT_COUNT},
    {"low", "low", "", ES_FORMAT_REAL,
     "begin of the bin: angle in radians on the circle, cosine with the first axis elsewhere"},
    {"high", "high", "", ES_FORMAT_REAL, "its end"},
    {"density", "density", "", ES_FORMAT_REAL,
     "of the particles of all sets, relative to the uniform law"},
    {0}};
static const es_table_spec particles_table = {"particles", particle_columns, NULL,
                                              .keys = "step low"};

static const es_column step_columns[] = {
    {"step", "step", "", ES_FORMAT_COUNT},
    {"time", "time", "", ES_FORMAT_SHORT, "of backward heat: step/beta"},
    {"clusters", "clusters", "", ES_FORMAT_REAL,
     "how many particles can be chosen, one after the other, that are farther apart than "
     "--cluster-angle; mean over sets",
     .error = "clusters_se"},
    {"largest", "largest", "", ES_FORMAT_REAL,
     "share of the particles that are nearest to the same one of these", .error = "largest_se"},
    {"mean_length", "|mean|", "", ES_FORMAT_REAL, "length of the mean of all particles",
     .error = "mean_length_se"},
    {"heat", "heat", "", ES_FORMAT_REAL,
     "what backward heat makes of it, exp((d-1) time), while the density is smooth",
     .standing = ES_STANDING_HEURISTIC},
    {"highest", "highest", "", ES_FORMAT_SHORT,
     "density of the fullest bin, relative to the uniform law"},
    {0}};
static const es_table_spec steps_table = {"steps", step_columns, ES_VIEW("Particles"),
                                          .keys = "step"};

static const es_column profile_columns[] = {
    {"low", "from", "", ES_FORMAT_SHORT,
     "bin: angle in radians on the circle, cosine with the first axis elsewhere"},
    {"density", "step", "", ES_FORMAT_SHORT, .each = true},
    {0}};
static const es_table_spec profile_table = {
    "profile", profile_columns,
    ES_VIEW("Density of the particles, relative to the uniform law", .only_with_full = true),
    .keys = "low"};

/* ---- the answer ---- */

static double edge(const heat_params *p, int64_t bin)
{
    const double at = (double)bin / (double)p->bins;
    return p->dim == 2 ? 3.141592653589793 * (2.0 * at - 1.0) : 2.0 * at - 1.0;
}

/* Steps whose density people see: the first, the last, and some between. */
static bool is_shown(const heat_params *p, int64_t step)
{
    return step == 0 || step == 1 || step == p->steps || step == p->steps / 4 ||
           step == p->steps / 2;
}

typedef struct flow {
    const heat_params *p;
    const double *cells; /* (sets, steps + 1, bins, NUMBERS) */
    es_table *particles, *steps, *profile;
} flow;

static es_measured mean_of(const flow *f, int64_t step, int64_t bin, int number)
{
    const heat_params *p = f->p;
    return es_average_column(f->cells + (step * p->bins + bin) * NUMBERS + number, p->sets,
                             (p->steps + 1) * p->bins * NUMBERS);
}

static double density_of(const flow *f, int64_t step, int64_t bin)
{
    return mean_of(f, step, bin, DENSITY).value;
}

/* The mean is a first harmonic, an eigenfunction of the Laplacian with eigenvalue -(d-1): heat run
 * backwards for the time t multiplies it by exp((d-1) t) (THEORY 6). A mean is at most 1 long. */
static double heat_of(const flow *f, int64_t step)
{
    const double heat = mean_of(f, 0, 0, LENGTH).value *
                        exp((double)(f->p->dim - 1) * ((double)step / f->p->step_beta));
    return heat <= 1.0 ? heat : (double)NAN;
}

static void put_step(const flow *f, int64_t step)
{
    const heat_params *p = f->p;
    const es_measured length = mean_of(f, step, 0, LENGTH), count = mean_of(f, step, 0, CLUSTERS),
                      largest = mean_of(f, step, 0, LARGEST);
    double highest = 0.0;
    for (int64_t b = 0; b < p->bins; b++) {
        const double density = density_of(f, step, b);
        const int64_t row = es_table_row(f->particles);
        highest = fmax(highest, density);
        es_put(f->particles, row, {"step", (double)step}, {"low", edge(p, b)},
               {"high", edge(p, b + 1)}, {"density", density});
    }
    const int64_t row = es_table_row(f->steps);
    es_put(f->steps, row, {"step", (double)step}, {"time", (double)step / p->step_beta},
           {"clusters", count.value}, {"clusters_se", count.se}, {"largest", largest.value},
           {"largest_se", largest.se}, {"mean_length", length.value}, {"mean_length_se", length.se},
           {"heat", heat_of(f, step)}, {"highest", highest});
}

static void put_profile(const flow *f, const int64_t *shown, int64_t count)
{
    for (int64_t b = 0; b < f->p->bins; b++) {
        const int64_t row = es_table_row(f->profile);
        es_table_real(f->profile, row, "low", edge(f->p, b));
        for (int64_t i = 0; i < count; i++)
            es_put_at(f->profile, row, "density", i, density_of(f, shown[i], b));
    }
}

static void tell_mean(es_answer *a, const flow *f)
{
    const int64_t last = f->p->steps;
    int64_t smooth = 0; /* the last step at which heat has a value */
    while (smooth < last && !isnan(heat_of(f, smooth + 1)))
        smooth++;
    es_answer_add_finding(
        a,
        "At time %.3g the mean of %lld particles has length %.3g, where backward heat "
        "makes %.3g of it; after all %lld steps it is %.3g, and the fullest bin holds "
        "%.3g times what the uniform law would.",
        (double)smooth / f->p->step_beta, (long long)f->p->particles,
        mean_of(f, smooth, 0, LENGTH).value, heat_of(f, smooth), (long long)last,
        mean_of(f, last, 0, LENGTH).value, es_table_get(f->steps, last, "highest"));
}

/* Did every set end with one cluster? Then since when. */
static int64_t step_of_one(const flow *f)
{
    int64_t step = f->p->steps + 1;
    while (step > 0 && mean_of(f, step - 1, 0, CLUSTERS).value == 1.0)
        step--;
    return step;
}

static void tell_clusters(es_answer *a, const flow *f)
{
    const heat_params *p = f->p;
    const int64_t at[3] = {0, (p->steps + 3) / 4, p->steps}, one = step_of_one(f);
    char said[3][ES_SAY_ROOM];
    for (int i = 0; i < 3; i++) {
        const es_measured count = mean_of(f, at[i], 0, CLUSTERS);
        es_say_number(count.value, count.se, said[i]);
    }
    es_answer_add_finding(
        a,
        "From %lld particles, mean of %lld sets: %s clusters at first, %s at step "
        "%lld, %s at step %lld, counted at an angle of %.3g; the largest then holds "
        "%.3g %% of the particles.",
        (long long)p->particles, (long long)p->sets, said[0], said[1], (long long)at[1], said[2],
        (long long)at[2], p->cluster_angle, 100.0 * mean_of(f, p->steps, 0, LARGEST).value);
    if (one <= p->steps && one > 0)
        es_answer_add_finding(a, "All sets are one cluster from step %lld, time %.3g, on.",
                              (long long)one, (double)one / p->step_beta);
}

/* Waves that grow out of a uniform density; another has its own. */
static es_status tell_waves(es_answer *a, const heat_params *p, es_error *err)
{
    int64_t degree;
    if (p->keys != HEAT_UNIFORM || p->step_beta > ES_HEAT_MOST_FASTEST)
        return ES_OK;
    ES_TRY(es_heat_fastest(p->dim, p->step_beta, &degree, NULL, err));
    es_answer_count(a, "fastest_degree", degree);
    es_answer_add_finding(
        a, "Out of a uniform density harmonics of degree %lld grow fastest%s [heuristic].",
        (long long)degree, p->dim == 2 ? ": about so many clusters should be seen first" : "");
    return ES_OK;
}

es_status heat_put_particles(es_job *job, es_answer *a, es_error *err)
{
    const heat_params *p = job->params;
    int64_t shown[5], count = 0; /* at most as many as is_shown() names */
    double labels[5];
    flow f = {.p = p, .cells = job->cells[HEAT_PARTICLES]};
    es_answer_real(a, "step_beta", p->step_beta);
    es_answer_real(a, "cluster_angle", p->cluster_angle);
    es_answer_count(a, "particle_sets", p->sets);
    f.particles = es_answer_table(a, &particles_table);
    f.steps = es_answer_table(a, &steps_table);
    f.profile = es_answer_table(a, &profile_table);
    for (int64_t step = 0; step <= p->steps; step++) {
        put_step(&f, step);
        if (!is_shown(p, step))
            continue;
        labels[count] = (double)step;
        shown[count++] = step;
    }
    es_answer_counts(a, "shown", shown, count);
    ES_TRY(es_put_each(job, f.profile, "density", labels, count, err));
    put_profile(&f, shown, count);
    tell_mean(a, &f);
    tell_clusters(a, &f);
    return tell_waves(a, p, err);
}
