/* SPDX-License-Identifier: Apache-2.0 */
/* particles.c : the second question of `heat`: tokens that move by their own attention (THEORY 6).
 * A cell is a set of particles with all its steps; tables "particles", "steps" and "profile" show
 * density, mean and clusters after every step.
 *
 * While the density is smooth, its mean of degree 1 grows like exp((d-1) time), time counting
 * 1/beta for each step. Backward heat is unstable: waves of degree l grow fastest near l = sqrt(2
 * beta), and about as many clusters form [heuristic] (theory/heat_drift.h). */
#include <math.h>
#include <stdio.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "experiments/heat/heat.h"
#include "experiments/kit/answer_kit.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "tokens/tokens.h"

enum { TOKENS = ES_EXPERIMENT_HEAT + 2 }; /* address of random numbers */

/* One bin of a set after a step; all members but the density are the same in every bin. */
typedef struct particle_bin {
    double density, mean_length, clusters, largest;
} particle_bin;

static const es_cell_field bin_fields[] = {ES_FIELD(particle_bin, density),
                                           ES_FIELD(particle_bin, mean_length),
                                           ES_FIELD(particle_bin, clusters),
                                           ES_FIELD(particle_bin, largest),
                                           {0}};

/* ---- a cell: all steps of a set ---- */

/* Progress of a cell: steps follow one another, so all of them are one cell. */
typedef struct walk {
    const es_exec *exec;
    int64_t step, steps;
} walk;

/* Counts progress in steps: those finished plus the fraction of the running one. */
static bool walk_progress(void *user, double done, double total)
{
    const walk *w = user;
    const double part = total > 0.0 ? done / total : 0.0;
    return w->exec->progress && w->exec->progress(w->exec->progress_user,
                                                  (double)(w->step - 1) + part, (double)w->steps);
}

/* Returns the length of the mean of the particles. The mean is the first harmonic of their density,
 * which backward heat amplifies by exp((d-1) t) (THEORY 6): the one number that has a closed form.
 */
static double mean_length(const double *x, int64_t n, int64_t d)
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

/* Fills out (bins) after a step; density (bins) is scratch. */
static es_status measure(const heat_params *p, const double *x, es_mem_limit *budget,
                         double *density, particle_bin *out, es_error *err)
{
    es_heat_clusters found;
    ES_TRY(es_heat_histogram(x, p->particles, p->dim, p->bins, density, err));
    ES_TRY(es_heat_clusters_of(x, p->particles, p->dim, p->cluster_angle, budget, &found, err));
    const double length = mean_length(x, p->particles, p->dim);
    for (int64_t b = 0; b < p->bins; b++)
        out[b] = (particle_bin){.density = density[b],
                                .mean_length = length,
                                .clusters = (double)found.count,
                                .largest = (double)found.largest / (double)p->particles};
    return ES_OK;
}

/* Moves the particles through all steps and measures them after each, and before the first. */
static es_status walk_all(const heat_params *p, const es_exec *exec, double *x, double *density,
                          particle_bin *out, es_error *err)
{
    walk w = {.exec = exec, .steps = p->steps};
    es_exec each = *exec;
    each.progress = walk_progress;
    each.progress_user = &w;
    for (w.step = 0; w.step <= p->steps; w.step++) {
        if (w.step > 0)
            ES_TRY(es_heat_step(x, p->particles, p->dim, p->step_beta, &each, err));
        ES_TRY(measure(p, x, exec->budget, density, out + w.step * p->bins, err));
    }
    return ES_OK;
}

/* Computes a cell: draws one set of particles and moves it. */
static es_status run_particles(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    const es_address at = {.seed = job->seed, .experiment = TOKENS, .cell = (uint64_t)cell};
    const int64_t numbers = p->particles * p->dim;
    double *x;
    ES_TRY(ES_MEM_NEW(exec->budget, x, numbers + p->bins, "particles", err));
    es_status status = es_tokens_fill(&s->law, &at, p->particles, exec, x, err);
    if (status == ES_OK)
        status = walk_all(p, exec, x, x + numbers, record, err);
    es_mem_free(exec->budget, x);
    return status;
}

/* Returns the operations of a set. Particles attend to each other; counting clusters is cheap,
 * because there are few. */
static double set_flops(const heat_params *p)
{
    return (double)p->particles * (double)p->particles * (double)p->dim * 4.0 * (double)p->steps;
}

/* Adds the stage: a cell moves one set of particles through all steps and counts them in bins. */
static es_status open_particles(es_job *job, es_error *err)
{
    const heat_params *p = job->params;
    return es_job_stage(job,
                        &(es_stage){"particles", .phase = "moving particles",
                                    .noun = "sets of particles", .cells = p->sets,
                                    .rows = (p->steps + 1) * p->bins,
                                    ES_RECORD(particle_bin, bin_fields), .reports_progress = true,
                                    .flops = set_flops(p), .run = run_particles},
                        err);
}

/* Returns the cost of all sets; attention of particles over particles dominates. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const heat_params *p = job->params;
    const es_attend_opts opts = {.precision = ES_F64, .exec = &job->exec}; /* as es_heat_step() */
    const double N = (double)p->particles, d = (double)p->dim;
    const double bins = (double)((p->steps + 1) * p->bins);
    es_attend_plan plan;
    ES_TRY(
        es_attend_plan_for(p->particles, p->particles, p->dim, p->dim, &opts, false, &plan, err));
    *out = (es_cost){.flops = (double)p->sets * set_flops(p),
                     .output_bytes = 512.0 * bins,
                     .work_bytes =
                         8.0 * (2.0 * N * d + 2.0 * N + (double)p->bins) + (double)plan.bytes};
    return ES_OK;
}

/* ---- averages over the sets ---- */

/* What the functions that fill rows share. */
typedef struct flow {
    const heat_params *p;
    const particle_bin *cells; /* (sets, steps + 1, bins) */
    es_table *particles, *steps, *profile;
} flow;

/* Returns the bin of the first set after a step. */
static const particle_bin *bin_at(const flow *f, int64_t step, int64_t bin)
{
    return f->cells + step * f->p->bins + bin;
}

/* Averages a member of a bin over the sets; `first` points to that of the first set. */
static es_measured over_sets(const flow *f, const double *first)
{
    const int64_t numbers = (int64_t)(sizeof(particle_bin) / sizeof(double));
    return es_average_column(first, f->p->sets, (f->p->steps + 1) * f->p->bins * numbers);
}

/* Returns the density of a bin after a step, mean over the sets. */
static double density_at(const flow *f, int64_t step, int64_t bin)
{
    return over_sets(f, &bin_at(f, step, bin)->density).value;
}

/* Returns the lower edge of a bin: an angle on the circle, a cosine elsewhere. */
static double bin_edge(const heat_params *p, int64_t bin)
{
    const double at = (double)bin / (double)p->bins;
    return p->dim == 2 ? 3.141592653589793 * (2.0 * at - 1.0) : 2.0 * at - 1.0;
}

/* ---- density after every step ---- */

/* A row of the histogram of one step. */
typedef struct density_row {
    int64_t step;
    double low, high, density;
} density_row;

static const es_column density_columns[] = {
    ES_COL(density_row, step, ES_FORMAT_COUNT, "step", ""),
    ES_COL(
        density_row, low, ES_FORMAT_REAL, "low", "",
        "start of the bin: angle in radians on the circle, cosine with the first axis elsewhere"),
    ES_COL(density_row, high, ES_FORMAT_REAL, "high", "", "end of the bin"),
    ES_COL(density_row, density, ES_FORMAT_REAL, "density", "",
           "of the particles of all sets, relative to the uniform law"),
    {0}};
static const es_table_spec particles_table = {"particles", density_columns, NULL,
                                              ES_ROW(density_row), .keys = "step low"};

/* Adds the density after a step, and returns its largest value. */
static double add_density(const flow *f, int64_t step)
{
    double highest = 0.0;
    for (int64_t b = 0; b < f->p->bins; b++) {
        const double density = density_at(f, step, b);
        density_row *r = es_rows_add(f->particles, density_row);
        highest = fmax(highest, density);
        if (r)
            *r = (density_row){step, bin_edge(f->p, b), bin_edge(f->p, b + 1), density};
    }
    return highest;
}

/* ---- steps ---- */

/* A row of the table of steps: clusters, and the mean beside backward heat's prediction. */
typedef struct step_row {
    int64_t step;
    double time;
    es_measured clusters, largest, mean_length;
    double heat, highest;
} step_row;

static const es_column step_columns[] = {
    ES_COL(step_row, step, ES_FORMAT_COUNT, "step", ""),
    ES_COL(step_row, time, ES_FORMAT_SHORT, "time", "", "of backward heat: step/beta"),
    ES_COL(step_row, clusters, ES_FORMAT_REAL, "clusters", "",
           "particles chosen one after the other, each farther than --cluster-angle from those "
           "before; mean over sets"),
    ES_COL(step_row, largest, ES_FORMAT_REAL, "largest", "",
           "share of the particles in the largest cluster"),
    ES_COL(step_row, mean_length, ES_FORMAT_REAL, "|mean|", "",
           "length of the mean of all particles"),
    ES_COL(step_row, heat, ES_FORMAT_REAL, "heat", "",
           "`|mean|` after backward heat: that of step 0 times `exp((d-1) time)`, while the "
           "density is smooth",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(step_row, highest, ES_FORMAT_SHORT, "highest", "",
           "density of the fullest bin, relative to the uniform law"),
    {0}};
static const es_table_spec steps_table = {"steps", step_columns, ES_VIEW("Particles"),
                                          ES_ROW(step_row), .keys = "step"};

/* Returns the length of the mean after backward heat. The mean is a first harmonic, an
 * eigenfunction of the Laplacian with eigenvalue -(d-1): heat run backwards for the time t
 * multiplies it by exp((d-1) t) (THEORY 6). NaN where that is above 1, the largest length a mean
 * can have. */
static double heat_at(const flow *f, int64_t step)
{
    const double heat = over_sets(f, &bin_at(f, 0, 0)->mean_length).value *
                        exp((double)(f->p->dim - 1) * ((double)step / f->p->step_beta));
    return heat <= 1.0 ? heat : (double)NAN;
}

/* Adds a step to both tables; its highest density comes from the bins. */
static void add_step(const flow *f, int64_t step)
{
    const particle_bin *first = bin_at(f, step, 0);
    const double highest = add_density(f, step);
    step_row *r = es_rows_add(f->steps, step_row);
    if (r)
        *r = (step_row){.step = step,
                        .time = (double)step / f->p->step_beta,
                        .clusters = over_sets(f, &first->clusters),
                        .largest = over_sets(f, &first->largest),
                        .mean_length = over_sets(f, &first->mean_length),
                        .heat = heat_at(f, step),
                        .highest = highest};
}

/* ---- profile: density at some steps ---- */

/* A row of the profile: densities of one bin over the steps. */
typedef struct profile_row {
    double low, *density; /* one density for each step shown */
} profile_row;

static const es_column profile_columns[] = {
    ES_COL(profile_row, low, ES_FORMAT_SHORT, "from", "",
           "bin: angle in radians on the circle, cosine with the first axis elsewhere"),
    ES_COL(profile_row, density, ES_FORMAT_SHORT, "step", ""),
    {0}};
static const es_table_spec profile_table = {
    "profile", profile_columns,
    ES_VIEW("Density of the particles, relative to the uniform law", .only_with_full = true),
    ES_ROW(profile_row), .keys = "low"};

enum { MOST_SHOWN = 5 };

/* Chooses the steps of the profile: the first two, the last, and two between. */
static int64_t choose_steps(const heat_params *p, int64_t shown[MOST_SHOWN])
{
    int64_t count = 0;
    for (int64_t step = 0; step <= p->steps; step++)
        if (step <= 1 || step == p->steps || step == p->steps / 4 || step == p->steps / 2)
            shown[count++] = step;
    return count;
}

/* Fills the density at the chosen steps, one column each. */
static es_status fill_profile(es_job *job, const flow *f, es_answer *a, es_error *err)
{
    int64_t shown[MOST_SHOWN];
    double labels[MOST_SHOWN];
    const int64_t count = choose_steps(f->p, shown);
    for (int64_t i = 0; i < count; i++)
        labels[i] = (double)shown[i];
    es_answer_counts(a, "shown", shown, count);
    ES_TRY(es_label_columns(job, f->profile, "density", labels, count, err));
    for (int64_t b = 0; b < f->p->bins; b++) {
        profile_row *r = es_rows_add(f->profile, profile_row);
        if (!r)
            return es_answer_status(a, err);
        r->low = bin_edge(f->p, b);
        for (int64_t i = 0; i < count; i++)
            r->density[i] = density_at(f, shown[i], b);
    }
    return ES_OK;
}

/* ---- findings ---- */

/* Reports the mean at the last step for which backward heat predicts one. */
static void report_mean(es_answer *a, const step_row *rows, int64_t last)
{
    const step_row *r = rows;
    char length[ES_SAY_SIZE];
    while (r < rows + last && !isnan(r[1].heat))
        r++;
    es_answer_add_finding(
        a,
        "The mean of the particles has length %s at time %.3g (steps/beta); backward heat predicts "
        "%.3g, and nothing later. It assumes a smooth density, not clusters [heuristic].",
        es_say_number(r->mean_length.value, r->mean_length.se, length), r->time, r->heat);
}

/* Reports clusters at the start and at the end, and since when every set is one cluster. */
static void report_clusters(es_answer *a, const heat_params *p, const step_row *rows)
{
    const step_row *last = &rows[p->steps];
    int64_t one = p->steps + 1;
    char start[ES_SAY_SIZE], end[ES_SAY_SIZE], since[80] = "";
    while (one > 0 && rows[one - 1].clusters.value == 1.0)
        one--;
    if (one <= p->steps && one > 0)
        snprintf(since, sizeof since, "; all sets are one cluster from step %lld on",
                 (long long)one);
    es_answer_add_finding(a,
                          "%lld particles go from %s clusters to %s in %lld steps (mean of %lld "
                          "sets)%s.",
                          (long long)p->particles,
                          es_say_number(rows->clusters.value, rows->clusters.se, start),
                          es_say_number(last->clusters.value, last->clusters.se, end),
                          (long long)p->steps, (long long)p->sets, since);
}

/* Reports the harmonic that grows fastest out of a uniform density. */
static es_status report_waves(es_answer *a, const heat_params *p, es_error *err)
{
    int64_t degree;
    ES_TRY(es_heat_fastest(p->dim, p->step_beta, &degree, NULL, err));
    es_answer_count(a, "fastest_degree", degree);
    es_answer_add_finding(
        a, "From a uniform density waves of degree %lld grow fastest%s [heuristic].",
        (long long)degree, p->dim == 2 ? ": about as many clusters form first" : "");
    return ES_OK;
}

/* Fills the tables of particles: steps, clusters and profile of the density. */
static es_status summarise(es_job *job, es_answer *a, es_error *err)
{
    const heat_params *p = job->params;
    flow f = {.p = p, .cells = es_job_cell(job, HEAT_PARTICLES, 0)};
    es_answer_real(a, "step_beta", p->step_beta);
    es_answer_real(a, "cluster_angle", p->cluster_angle);
    es_answer_count(a, "particle_sets", p->sets);
    f.particles = es_answer_table(a, &particles_table);
    f.steps = es_answer_table(a, &steps_table);
    f.profile = es_answer_table(a, &profile_table);
    for (int64_t step = 0; step <= p->steps; step++)
        add_step(&f, step);
    ES_TRY(fill_profile(job, &f, a, err));
    ES_TRY(es_answer_status(a, err));
    const step_row *rows = es_rows(f.steps, step_row);
    report_clusters(a, p, rows);
    if (p->keys == HEAT_UNIFORM && p->step_beta <= ES_HEAT_MOST_FASTEST)
        return report_waves(a, p, err); /* the mean of a uniform density is noise */
    report_mean(a, rows, p->steps);
    return ES_OK;
}

const heat_question heat_particles = {open_particles, cost, NULL, summarise};
