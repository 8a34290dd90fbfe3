/* heat_study.c : the drift of attention on the sphere, and what it does to a density. */
#include "study/heat_study.h"

#include <math.h>

#include <esscher/attend.h>
#include <esscher/experiment.h>
#include <esscher/random.h>
#include <esscher/tokens.h>

#include "base/error.h"

const char *const heat_keys[] = {"uniform", "vmf", "mixture", NULL};
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
        s->parts[j] = (es_law){.kind = p->keys == UNIFORM ? ES_LAW_SPHERE : ES_LAW_VMF,
                               .dim = p->dim,
                               .size = 1.0,
                               .concentration = p->kappa,
                               .direction = s->modes.data + j * p->dim};
    }
    s->law = p->keys == MIXTURE ? (es_law){.kind = ES_LAW_MIXTURE,
                                           .dim = p->dim,
                                           .parts = s->parts,
                                           .weights = s->weights,
                                           .n_parts = parts}
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

static const char *const particle_columns[] = {"density", "mean_length"};

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
                        &(es_stage){.name = "replicates",
                                    .phase = "drawing keys",
                                    .noun = "blocks of 16 replicates",
                                    .cells = (p->replicates + HEAT_BLOCK - 1) / HEAT_BLOCK,
                                    .rows = HEAT_BLOCK * p->beta.count,
                                    .cols = DRAW_NUMBERS,
                                    .columns = draw_columns,
                                    .tells = true,
                                    .flops = block_flops(p),
                                    .run = run_block},
                        err));
    return es_job_stage(job,
                        &(es_stage){.name = "particles",
                                    .phase = "moving particles",
                                    .noun = "sets of particles",
                                    .cells = p->particles ? 1 : 0,
                                    .rows = (p->steps + 1) * p->bins,
                                    .cols = HEAT_NUMBERS,
                                    .columns = particle_columns,
                                    .tells = true,
                                    .flops = particle_flops(p),
                                    .run = run_particles},
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
                                   threads * 4e6 + (double)plan.bytes + 16384.0};
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
    return es_heat_exact_of(&s->law, s->queries, p->queries, p->beta.reals, p->beta.count, s->exact,
                            err);
}

static const char *const examples[] = {
    "esscher heat", "esscher heat --dim 3 --key-law vmf --kappa 5 --beta 10..1e4*7",
    "esscher heat --particles 2000 --steps 40 --replicates 0",
    "esscher heat --dim 3 --particles 2000 --step-beta 30 --replicates 0 --out heat.run", NULL};

const es_study es_study_heat = {
    .name = "heat",
    .summary = "attention on the sphere as backward heat: drift along grad log density",
    .usage = "[options]",
    .about =
        "Keys of density f on the unit sphere: attention at inverse temperature beta moves a query "
        "along the sphere by (1/beta) grad log f, up to 1/beta^2. Measures that drift with n keys "
        "at uniform queries, sets beside it the exact one of infinitely many keys, which is the "
        "gradient of the smoothed density, and shows how fast it approaches backward heat.\n\n"
        "--particles lets tokens move by their own attention, all at once: each step runs the heat "
        "equation backwards for the time 1/beta and sharpens their density, until they are "
        "points. With --csv the table is then the density after every step.",
    .examples = examples,
    .params = params,
    .size = sizeof(heat_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "particles",
    .state = sizeof(heat_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = heat_summarise,
};
