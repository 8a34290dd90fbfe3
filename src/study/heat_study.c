/* heat_study.c : the drift of attention on the sphere, and what it does to a density (THEORY 6).
 *
 * In order: what is asked, the density of the keys, two kinds of cells (sets of keys that a fixed
 * crowd of queries looks at, and particles that move by their own attention), and the answer. */
#include <math.h>
#include <stdio.h>

#include <esscher/attend.h>
#include <esscher/experiment.h>
#include <esscher/heat.h>
#include <esscher/random.h>
#include <esscher/tokens.h>

#include "base/error.h"
#include "driver/job.h"
#include "study/answer_kit.h"

typedef struct heat_params {
    int keys;
    const char *modes;
    int64_t dim, n, queries, replicates, particles, steps, bins;
    double kappa, step_beta;
    es_grid beta;
} heat_params;

enum { HEAT_REPLICATES, HEAT_PARTICLES };         /* stages */
enum { HEAT_BLOCK = 16 };                         /* replicates of a cell */
enum { FINITE_BYTES = 300000 };                   /* a thread of es_heat_finite_of() */
enum { HEAT_DENSITY, HEAT_LENGTH, HEAT_NUMBERS }; /* of a bin of the particles after a step */

typedef struct heat_state {
    es_law law; /* points into the rest */
    es_law *parts;
    double *weights;
    es_matrix modes;
    double *queries;        /* (queries, dim) */
    es_heat_exact *exact;   /* (betas) */
    es_heat_finite *finite; /* (betas) */
} heat_state;

static const char *const heat_keys[] = {"uniform", "vmf", "mixture", NULL};
enum { UNIFORM, VMF, MIXTURE };

/* Addresses of random numbers. */
enum {
    KEYS = ES_EXPERIMENT_HEAT,
    QUERIES = ES_EXPERIMENT_HEAT + 1,
    TOKENS = ES_EXPERIMENT_HEAT + 2
};

#define FIELD(member) .field = offsetof(heat_params, member)
static const es_param params[] = {
    {"key-law", 0, ES_PARAM_CHOICE, "LAW",
     "density of the keys: uniform; vmf, around the first axis; mixture of vmf", FIELD(keys),
     .choices = heat_keys, .standard = "mixture", .was = "keys"},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimensions; the sphere is S^(D-1), 2 is the circle",
     FIELD(dim), .min = 2, .max = ES_HEAT_MOST_DIM, .standard = "2", .alias = "d"},
    {"kappa", 0, ES_PARAM_NUMBER, "K", "concentration of each mode", FIELD(kappa), .min = 0.0,
     .max = 1e6, .standard = "2"},
    {"modes", 0, ES_PARAM_FILE, "FILE",
     "directions of the modes of a mixture, .npy (parts, d), of equal weight", FIELD(modes),
     .otherwise = "the first axis with weight 0.6, and 120 degrees from it with 0.4"},
    {"beta", 0, ES_PARAM_REALS, "GRID", "inverse temperatures", FIELD(beta), .min = 1e-3,
     .max = 1e9, .increasing = true, .standard = "10..1000*5"},
    {"n", 'n', ES_PARAM_WHOLE, "N", "keys of a replicate", FIELD(n), .min = 2, .max = 1e7,
     .standard = "100000", .unit = "keys"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "uniform queries, the same for all", FIELD(queries),
     .min = 1, .max = 100000, .standard = "16", .was = "queries"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R",
     "independent sets of keys; 0: infinitely many keys alone", FIELD(replicates), .min = 0,
     .max = 1e6, .standard = "8"},
    {"particles", 0, ES_PARAM_WHOLE, "N",
     "also let N tokens of this law move by their own attention", FIELD(particles), .min = 1,
     .max = 1e6, .otherwise = "none"},
    {"steps", 0, ES_PARAM_WHOLE, "S", "of the particles", FIELD(steps), .min = 1, .max = 1e5,
     .standard = "20"},
    {"step-beta", 0, ES_PARAM_NUMBER, "B", "inverse temperature of the particles", FIELD(step_beta),
     .min = 1e-3, .max = 1e9, .standard = "40"},
    {"bins", 0, ES_PARAM_WHOLE, "N", "of the particles' density", FIELD(bins), .min = 1,
     .max = 10000, .standard = "24"},
    {0}};

/* ---- the density ---- */

/* Two modes 120 degrees apart with unequal weights: no symmetry of the density makes a drift
 * vanish that should be seen. */
static es_status read_modes(es_job *job, const heat_params *p, heat_state *s, es_error *err)
{
    const int64_t d = p->dim;
    if (p->modes && p->keys != MIXTURE)
        return es_refuse(err, "heat.options", "leave --modes or --key-law out",
                         "--modes belongs to --key-law mixture");
    if (p->modes)
        return es_job_matrix(job, "modes", p->modes, -1, d, &s->modes, err);
    s->modes = (es_matrix){.rows = 2, .cols = d};
    ES_TRY(es_job_array(job, 2, d, sizeof(double), &s->modes.data, err));
    s->modes.data[0] = 1.0;
    s->modes.data[d] = -0.5;
    s->modes.data[d + 1] = 0.8660254037844386;
    return ES_OK;
}

static es_status make_law(es_job *job, const heat_params *p, heat_state *s, es_error *err)
{
    ES_TRY(read_modes(job, p, s, err));
    const int64_t parts = s->modes.rows;
    ES_TRY(es_job_array(job, parts, 1, sizeof *s->parts, &s->parts, err));
    ES_TRY(es_job_array(job, parts, 1, sizeof *s->weights, &s->weights, err));
    for (int64_t j = 0; j < parts; j++) {
        s->weights[j] = p->modes ? 1.0 : j ? 0.4 : 0.6;
        s->parts[j] =
            (es_law){p->keys == UNIFORM ? ES_LAW_SPHERE : ES_LAW_VMF, .dim = p->dim, .size = 1.0,
                     .concentration = p->kappa, .direction = s->modes.data + j * p->dim};
    }
    s->law = p->keys == MIXTURE ? (es_law){ES_LAW_MIXTURE, .dim = p->dim, .parts = s->parts,
                                           .weights = s->weights, .n_parts = parts}
                                : s->parts[0];
    return es_law_check(&s->law, err);
}

/* ---- cells: sets of keys ---- */

static const char *const draw_columns[] = {"slope", "radial", "noise2", "ess"};
enum { DRAW_NUMBERS = 4 };
_Static_assert(sizeof(es_heat_draw) == DRAW_NUMBERS * sizeof(double), "a draw is its numbers");

/* A block of replicates, which its threads share; the last one may be shorter, and ends in zeros.
 */
static es_status run_block(es_job *job, int64_t cell, const es_exec *exec, double *out,
                           es_error *err)
{
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    const es_heat_opts opts = {
        .law = &s->law, .seed = job->seed, .experiment = KEYS, .n = p->n, .exec = exec};
    const int64_t first = cell * HEAT_BLOCK, left = p->replicates - first;
    return es_heat_sample(&opts, s->queries, p->queries, p->beta.reals, p->beta.count, first,
                          left < HEAT_BLOCK ? left : HEAT_BLOCK, (es_heat_draw *)(void *)out, err);
}

/* ---- a cell: all steps of the particles ---- */

static const char *const particle_numbers[] = {"density", "mean_length"};

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

static es_status run_particles(es_job *job, int64_t cell, const es_exec *exec, double *out,
                               es_error *err)
{
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    const es_address at = {.seed = job->seed, .experiment = TOKENS};
    walk w = {.exec = exec, .steps = p->steps};
    es_exec each = *exec;
    double *x, *density;
    (void)cell;
    each.progress = walk_progress;
    each.progress_user = &w;
    ES_TRY(es_job_array(job, p->particles, p->dim, sizeof *x, &x, err));
    ES_TRY(es_job_array(job, p->bins, 1, sizeof *density, &density, err));
    ES_TRY(es_tokens_fill(&s->law, &at, p->particles, exec, x, err));
    for (w.step = 0; w.step <= p->steps; w.step++) {
        if (w.step > 0)
            ES_TRY(es_heat_step(x, p->particles, p->dim, p->step_beta, &each, err));
        ES_TRY(es_heat_histogram(x, p->particles, p->dim, p->bins, density, err));
        const double length = length_of_mean(x, p->particles, p->dim);
        for (int64_t b = 0; b < p->bins; b++, out += HEAT_NUMBERS) {
            out[HEAT_DENSITY] = density[b];
            out[HEAT_LENGTH] = length;
        }
    }
    return ES_OK;
}

/* ---- all of it ---- */

/* Scores of all queries, and for each beta weights and an output; particles attend to themselves.
 */
static double block_flops(const heat_params *p)
{
    return (double)HEAT_BLOCK * (double)p->n * (double)p->queries * (double)p->dim *
           (2.0 + 2.0 * (double)p->beta.count);
}

static double particle_flops(const heat_params *p)
{
    return (double)p->particles * (double)p->particles * (double)p->dim * 4.0 * (double)p->steps;
}

static es_status open_study(es_job *job, es_error *err)
{
    const heat_params *p = job->params;
    ES_TRY(make_law(job, p, job->state, err));
    es_answer_count(job->answer, "dim", p->dim);
    es_answer_text(job->answer, "keys", heat_keys[p->keys]);
    es_answer_real(job->answer, "kappa", p->kappa);
    es_answer_count(job->answer, "n", p->n);
    es_answer_count(job->answer, "replicates", p->replicates);
    ES_TRY(es_job_stage(job,
                        &(es_stage){"replicates", .phase = "drawing keys",
                                    .noun = "blocks of 16 replicates",
                                    .cells = (p->replicates + HEAT_BLOCK - 1) / HEAT_BLOCK,
                                    .rows = HEAT_BLOCK * p->beta.count, .cols = DRAW_NUMBERS,
                                    .columns = draw_columns, .tells = true, .flops = block_flops(p),
                                    .run = run_block},
                        err));
    return es_job_stage(job,
                        &(es_stage){"particles", .phase = "moving particles",
                                    .noun = "sets of particles", .cells = p->particles ? 1 : 0,
                                    .rows = (p->steps + 1) * p->bins, .cols = HEAT_NUMBERS,
                                    .columns = particle_numbers, .tells = true,
                                    .flops = particle_flops(p), .run = run_particles},
                        err);
}

static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const heat_params *p = job->params;
    const double n = (double)p->n, m = (double)p->queries, d = (double)p->dim;
    const double R = (double)p->replicates, B = (double)p->beta.count, N = (double)p->particles;
    const double threads = fmin((double)job->exec.threads, fmin(R, HEAT_BLOCK));
    const double bins = N > 0.0 ? (double)((p->steps + 1) * p->bins) : 0.0;
    const es_attend_opts opts = {.precision = ES_F64, .exec = &job->exec}; /* as es_heat_step() */
    es_attend_plan plan = {0};
    if (p->particles)
        ES_TRY(es_attend_plan_for(p->particles, p->particles, p->dim, p->dim, &opts, false, &plan,
                                  err));
    *out = (es_cost){.flops = R * block_flops(p) / HEAT_BLOCK + particle_flops(p),
                     .output_bytes = 512.0 * B + 512.0 * bins,
                     .work_bytes = 8.0 * (threads * (2.0 * n * d + B * m * (d + 1.0)) +
                                          (R + HEAT_BLOCK) * B * 4.0 + B * m * d + 2.0 * N * d +
                                          HEAT_NUMBERS * bins + (double)p->bins) +
                                   (R > 0.0 ? FINITE_BYTES * (double)job->exec.threads : 0.0) +
                                   40.0 * B * m + threads * 4e6 + (double)plan.bytes + 16384.0};
    return ES_OK;
}

static es_status begin(es_job *job, es_error *err)
{
    const heat_params *p = job->params;
    heat_state *s = job->state;
    const es_address at = {.seed = job->seed, .experiment = QUERIES};
    ES_TRY(es_job_array(job, p->queries, p->dim, sizeof *s->queries, &s->queries, err));
    ES_TRY(es_job_array(job, p->beta.count, 1, sizeof *s->exact, &s->exact, err));
    ES_TRY(es_sphere_rows(&at, p->queries, p->dim, s->queries, err));
    ES_TRY(es_job_array(job, p->beta.count, 1, sizeof *s->finite, &s->finite, err));
    if (p->replicates)
        ES_TRY(es_heat_finite_of(&s->law, s->queries, p->queries, p->beta.reals, p->beta.count,
                                 p->n, &job->exec, s->finite, err));
    return es_heat_exact_of(&s->law, s->queries, p->queries, p->beta.reals, p->beta.count, s->exact,
                            err);
}

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"beta", "beta", "", ES_FORMAT_SHORT, "inverse temperature: scores are beta <q, k>"},
    {"slope", "measured", "slope", ES_FORMAT_REAL,
     "slope: of beta times the drift on grad log f, over the queries; 1 is backward heat. n keys",
     .error = "slope_se"},
    {"slope_finite", "n keys", "slope", ES_FORMAT_REAL,
     "what n keys give on average, exactly: above that of infinitely many by about 1/(2 ESS) of it",
     .standing = ES_STANDING_PROVED},
    {"slope_exact", "exact", "slope", ES_FORMAT_REAL,
     "infinitely many keys: grad log of the density smoothed by vMF(beta)",
     .standing = ES_STANDING_PROVED},
    {"error", "|beta drift - grad log f|", "exact", ES_FORMAT_SHORT,
     "root mean square over the queries, infinitely many keys", .standing = ES_STANDING_PROVED},
    {"rate", "rate", "", ES_FORMAT_SHORT, "its exponent in 1/beta, from one row to the next: 1",
     .standing = ES_STANDING_PROVED},
    {"radial", "radial", "", ES_FORMAT_REAL, "1 - <output, query>, n keys", .error = "radial_se"},
    {"radial_finite", "n keys", "", ES_FORMAT_SHORT, "its expectation, exactly",
     .standing = ES_STANDING_PROVED},
    {"radial_exact", "exact", "", ES_FORMAT_SHORT, "1 - <output, query>, infinitely many keys",
     .standing = ES_STANDING_PROVED},
    {"radial_leading", "(d-1)/(2 beta)", "", ES_FORMAT_SHORT, "its leading term",
     .standing = ES_STANDING_PROVED},
    {"noise", "noise", "", ES_FORMAT_SHORT,
     "root mean square of beta times (measured - exact drift)"},
    {"ess", "ESS", "keys", ES_FORMAT_SHORT,
     "how many keys a query sees: measured and exact differ by noise, and by a bias of order "
     "1/ESS"},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns,
                                         ES_VIEW("Drift of attention on the sphere")};

static const es_column particle_columns[] = {
    {"step", "step", "", ES_FORMAT_COUNT},
    {"low", "low", "", ES_FORMAT_REAL,
     "begin of the bin: angle in radians on the circle, cosine with the first axis elsewhere"},
    {"high", "high", "", ES_FORMAT_REAL, "its end"},
    {"density", "density", "", ES_FORMAT_REAL, "of the particles, relative to the uniform law"},
    {0}};
static const es_table_spec particles_table = {"particles", particle_columns, NULL};

static const es_column step_columns[] = {
    {"step", "step", "", ES_FORMAT_COUNT},
    {"time", "time", "", ES_FORMAT_SHORT, "of backward heat: step/beta"},
    {"mean_length", "|mean|", "", ES_FORMAT_REAL, "length of the mean of all particles"},
    {"heat", "heat", "", ES_FORMAT_REAL,
     "what backward heat makes of it, exp((d-1) time), while the density is smooth",
     .standing = ES_STANDING_HEURISTIC},
    {"highest", "highest", "", ES_FORMAT_SHORT,
     "density of the fullest bin, relative to the uniform law"},
    {0}};
static const es_table_spec steps_table = {"steps", step_columns, ES_VIEW("Particles")};

static const es_column profile_columns[] = {
    {"low", "from", "", ES_FORMAT_SHORT,
     "bin: angle in radians on the circle, cosine with the first axis elsewhere"},
    {"density", "step", "", ES_FORMAT_SHORT, .each = true},
    {0}};
static const es_table_spec profile_table = {
    "profile", profile_columns, ES_VIEW("Density of the particles, relative to the uniform law")};

/* ---- the drift ---- */

/* Exponent of the exact error from one beta to the next; the smoothing of f changes log f by the
 * order 1/beta (THEORY 6), so it is 1. */
static double rate_at(const heat_params *p, const heat_state *s, int64_t b)
{
    return b ? log(s->exact[b - 1].error / s->exact[b].error) /
                   log(p->beta.reals[b] / p->beta.reals[b - 1])
             : (double)NAN;
}

static void put_rows(const heat_params *p, const heat_state *s, const es_heat_row *rows,
                     es_table *t)
{
    for (int64_t b = 0; b < p->beta.count; b++) {
        const es_heat_exact *e = &s->exact[b];
        const int64_t row = es_table_row(t);
        es_put(t, row, {"beta", p->beta.reals[b]}, {"slope_exact", e->slope}, {"error", e->error},
               {"rate", rate_at(p, s, b)}, {"radial_exact", e->radial},
               {"radial_leading", 0.5 * (double)(p->dim - 1) / p->beta.reals[b]});
        if (!p->replicates)
            continue;
        es_put(t, row, {"slope", rows[b].mean.slope}, {"slope_se", rows[b].se.slope},
               {"slope_finite", s->finite[b].slope}, {"radial_finite", s->finite[b].radial},
               {"radial", rows[b].mean.radial}, {"radial_se", rows[b].se.radial},
               {"noise", sqrt(rows[b].mean.noise2)}, {"ess", rows[b].mean.ess});
    }
}

/* Standard errors between what was measured and what n keys give on average. */
static double distance(const heat_state *s, const es_heat_row *rows, int64_t b)
{
    return fabs(rows[b].mean.slope - s->finite[b].slope) / rows[b].se.slope;
}

/* What finitely many keys do to the slope, where they do it most; and whether the measurement
 * agrees, over all beta. */
static void tell_bias(es_answer *a, const heat_params *p, const heat_state *s,
                      const es_heat_row *rows)
{
    int64_t biased = 0, far = 0;
    for (int64_t b = 1; b < p->beta.count; b++) {
        const double bias = s->finite[b].slope - s->exact[b].slope;
        if (fabs(bias) > fabs(s->finite[biased].slope - s->exact[biased].slope))
            biased = b;
        if (distance(s, rows, b) > distance(s, rows, far))
            far = b;
    }
    if (isnan(s->finite[biased].slope))
        return;
    es_answer_tell(
        a,
        "Because few keys share a weight the slope is biased by %+.2g at beta = %.3g, "
        "where 1/E sum w^2 is %.3g keys: %lld keys give %.4g on average, infinitely many "
        "%.4g.",
        s->finite[biased].slope - s->exact[biased].slope, p->beta.reals[biased],
        1.0 / s->finite[biased].squares, (long long)p->n, s->finite[biased].slope,
        s->exact[biased].slope);
    if (rows[far].se.slope > 0.0)
        es_answer_tell(a,
                       "The measured slopes are at most %.2g standard errors from those "
                       "averages.",
                       distance(s, rows, far));
}

/* Backward heat is seen between two errors: beta must be large for the limit, and then a query sees
 * few keys. So: the slope where both together, squared, are smallest. */
static void tell_measured(es_answer *a, const heat_params *p, const heat_state *s,
                          const es_heat_row *rows)
{
    int64_t best = 0;
    double least = (double)INFINITY;
    char slope[ES_FORMAT_ROOM];
    for (int64_t b = 0; b < p->beta.count; b++) {
        const double off = s->exact[b].slope - 1.0, se = rows[b].se.slope;
        if (off * off + se * se < least) {
            least = off * off + se * se;
            best = b;
        }
    }
    es_format_number(ES_FORMAT_REAL, rows[best].mean.slope, rows[best].se.slope, slope,
                     sizeof slope);
    es_answer_tell(a,
                   "The slope of beta times the drift on grad log f is %s at beta = %.3g, with "
                   "%lld keys; infinitely many give %.4g, backward heat is 1.",
                   slope, p->beta.reals[best], (long long)p->n, s->exact[best].slope);
    tell_bias(a, p, s, rows);
}

static void tell_exact(es_answer *a, const heat_params *p, const heat_state *s)
{
    const int64_t last = p->beta.count - 1;
    if (isnan(s->exact[last].slope)) {
        es_answer_tell(a,
                       "The density is uniform and nothing drifts: |beta drift| is %.2g with "
                       "infinitely many keys.",
                       s->exact[last].error);
        return;
    }
    es_answer_tell(a,
                   "With infinitely many keys the slope of beta times the drift on grad log f is "
                   "%.4g at beta = %.3g; backward heat is 1.",
                   s->exact[last].slope, p->beta.reals[last]);
    if (last)
        es_answer_tell(a, "Its distance from grad log f falls like beta^-%.3g there; theory: -1.",
                       rate_at(p, s, last));
}

/* ---- particles ---- */

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
    const double *cell; /* (steps + 1, bins, HEAT_NUMBERS) */
    es_table *particles, *steps, *profile;
} flow;

static const double *bin_of(const flow *f, int64_t step, int64_t bin)
{
    return f->cell + (step * f->p->bins + bin) * HEAT_NUMBERS;
}

/* The mean is a first harmonic, an eigenfunction of the Laplacian with eigenvalue -(d-1): heat run
 * backwards for the time t multiplies it by exp((d-1) t) (THEORY 6). A mean is at most 1 long. */
static double heat_of(const flow *f, int64_t step)
{
    const double heat = bin_of(f, 0, 0)[HEAT_LENGTH] *
                        exp((double)(f->p->dim - 1) * ((double)step / f->p->step_beta));
    return heat <= 1.0 ? heat : (double)NAN;
}

static void put_step(const flow *f, int64_t step)
{
    const heat_params *p = f->p;
    double highest = 0.0;
    for (int64_t b = 0; b < p->bins; b++) {
        const double density = bin_of(f, step, b)[HEAT_DENSITY];
        const int64_t row = es_table_row(f->particles);
        highest = fmax(highest, density);
        es_put(f->particles, row, {"step", (double)step}, {"low", edge(p, b)},
               {"high", edge(p, b + 1)}, {"density", density});
    }
    const int64_t row = es_table_row(f->steps);
    es_put(f->steps, row, {"step", (double)step}, {"time", (double)step / p->step_beta},
           {"mean_length", bin_of(f, step, 0)[HEAT_LENGTH]}, {"heat", heat_of(f, step)},
           {"highest", highest});
}

static void put_profile(const flow *f, const int64_t *shown, int64_t count)
{
    for (int64_t b = 0; b < f->p->bins; b++) {
        const int64_t row = es_table_row(f->profile);
        es_table_real(f->profile, row, "low", edge(f->p, b));
        for (int64_t i = 0; i < count; i++)
            es_put_at(f->profile, row, "density", i, bin_of(f, shown[i], b)[HEAT_DENSITY]);
    }
}

static void tell_particles(es_answer *a, const flow *f)
{
    const int64_t last = f->p->steps;
    int64_t smooth = 0; /* the last step at which heat has a value */
    while (smooth < last && !isnan(heat_of(f, smooth + 1)))
        smooth++;
    es_answer_tell(a,
                   "At time %.3g the mean of %lld particles has length %.3g, where backward heat "
                   "makes %.3g of it; after all %lld steps it is %.3g, and the fullest bin holds "
                   "%.3g times what the uniform law would.",
                   (double)smooth / f->p->step_beta, (long long)f->p->particles,
                   bin_of(f, smooth, 0)[HEAT_LENGTH], heat_of(f, smooth), (long long)last,
                   bin_of(f, last, 0)[HEAT_LENGTH], es_table_get(f->steps, last, "highest"));
}

static es_status put_particles(es_job *job, es_answer *a, es_error *err)
{
    const heat_params *p = job->params;
    int64_t shown[5], count = 0; /* at most as many as is_shown() names */
    double labels[5];
    flow f = {.p = p, .cell = es_job_cell(job, HEAT_PARTICLES, 0)};
    es_answer_real(a, "step_beta", p->step_beta);
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
    tell_particles(a, &f);
    return ES_OK;
}

/* ---- all of it ---- */

static es_status heat_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    es_heat_row *rows;
    ES_TRY(es_job_array(job, p->beta.count, 1, sizeof *rows, &rows, err));
    if (p->replicates)
        es_heat_average((const es_heat_draw *)(const void *)job->cells[HEAT_REPLICATES],
                        p->replicates, p->beta.count, rows);
    put_rows(p, s, rows, es_answer_table(answer, &rows_table));
    es_answer_real(answer, "gradient", s->exact[0].size);
    if (p->replicates && !isnan(s->exact[0].slope))
        tell_measured(answer, p, s, rows);
    else
        tell_exact(answer, p, s);
    return p->particles ? put_particles(job, answer, err) : ES_OK;
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher heat", "esscher heat --dim 3 --key-law vmf --kappa 5 --beta 10..1e4*7",
    "esscher heat --particles 2000 --steps 40 --replicates 0",
    "esscher heat --dim 3 --particles 2000 --step-beta 30 --replicates 0 --out heat.run", NULL};

const es_study es_study_heat = {
    "heat",
    .summary = "attention on the sphere as backward heat: drift along grad log density",
    .usage = "[options]",
    .about =
        "Keys of density f on the unit sphere: attention at inverse temperature beta moves a query "
        "along the sphere by (1/beta) grad log f, up to 1/beta^2. Measures that drift with n keys "
        "at uniform queries, sets beside it the exact one of infinitely many keys, which is the "
        "gradient of the smoothed density, and shows how fast it approaches backward heat.\n\n"
        "--particles lets tokens move by their own attention, all at once: each step runs the heat "
        "equation backwards for the time 1/beta and sharpens their density, until they are points. "
        "With --csv the table is then the density after every step.",
    .examples = examples,
    .params = params,
    .size = sizeof(heat_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "particles",
    .state = sizeof(heat_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = heat_summarise};
