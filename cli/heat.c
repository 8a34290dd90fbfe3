/* esscher heat : the drift of attention on the sphere, and what it does to a density. */
#include "heat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/random.h>

#include "answer.h"
#include "talk.h"

enum { UNIFORM, VMF, MIXTURE, BLOCK = 16, NUMBERS = 4 };

static const char *const keys_names[] = {"uniform", "vmf", "mixture", NULL};

static const heat_options defaults = {.keys = MIXTURE,
                                      .dim = 2,
                                      .n = 100000,
                                      .queries = 16,
                                      .replicates = 8,
                                      .steps = 20,
                                      .bins = 24,
                                      .kappa = 2.0,
                                      .step_beta = 40.0};

static const cli_option options[] = {
    {"keys", 0, CLI_CHOICE, "LAW",
     "density of the keys: uniform; vmf, around the first axis; mixture of vmf (default)",
     .field = offsetof(heat_options, keys), .choices = keys_names},
    {"dim", 'd', CLI_WHOLE, "D", "dimensions; the sphere is S^(D-1) (default: 2, the circle)",
     .field = offsetof(heat_options, dim), .min = 2, .max = 64},
    {"kappa", 0, CLI_NUMBER, "K", "concentration of each mode (default: 2)",
     .field = offsetof(heat_options, kappa), .min = 0.0, .max = 1e6},
    {"modes", 0, CLI_STRING, "FILE",
     "directions of the modes of a mixture, .npy (parts, d), of equal weight (default: the first "
     "axis with weight 0.6, and 120 degrees from it with 0.4)",
     .field = offsetof(heat_options, modes)},
    {"beta", 'b', CLI_REALS, "GRID", "inverse temperatures (default: 10..1000*5)",
     .field = offsetof(heat_options, beta), .min = 1e-3, .max = 1e9, .increasing = true},
    {"n", 'n', CLI_WHOLE, "N", "keys of a replicate (default: 100000)",
     .field = offsetof(heat_options, n), .min = 2, .max = 1e7},
    {"queries", 0, CLI_WHOLE, "M", "uniform queries, the same for all (default: 16)",
     .field = offsetof(heat_options, queries), .min = 1, .max = 100000},
    {"replicates", 'r', CLI_WHOLE, "R",
     "independent sets of keys; 0: infinitely many keys alone (default: 8)",
     .field = offsetof(heat_options, replicates), .min = 0, .max = 1e6},
    {"particles", 0, CLI_WHOLE, "N",
     "also let N tokens of this law move by their own attention (default: none)",
     .field = offsetof(heat_options, particles), .min = 1, .max = 1e6},
    {"steps", 0, CLI_WHOLE, "S", "of the particles (default: 20)",
     .field = offsetof(heat_options, steps), .min = 1, .max = 1e5},
    {"step-beta", 0, CLI_NUMBER, "B", "inverse temperature of the particles (default: 40)",
     .field = offsetof(heat_options, step_beta), .min = 1e-3, .max = 1e9},
    {"bins", 0, CLI_WHOLE, "N", "of the particles' density (default: 24)",
     .field = offsetof(heat_options, bins), .min = 1, .max = 10000},
    CLI_RUN_OPTIONS(heat_options, run),
    {0}};

/* ---- views ---- */

static const cli_column columns[] = {
    {"beta", "beta", "", .format = CLI_SHORT},
    {"slope", "measured", "slope", .format = CLI_REAL, .error = "slope_se",
     .definition = "slope: of beta times the drift on grad log f, over the queries; 1 is backward "
                   "heat. n keys"},
    {"slope_se", "error of slope", "", .format = CLI_SHORT, .hidden = true},
    {"slope_exact", "exact", "slope", .format = CLI_REAL,
     .definition = "infinitely many keys: grad log of the density smoothed by vMF(beta)"},
    {"error", "|beta drift - grad log f|", "exact", .format = CLI_SHORT,
     .definition = "root mean square over the queries, infinitely many keys"},
    {"rate", "rate", "", .format = CLI_SHORT,
     .definition = "its exponent in 1/beta, from one row to the next: 1"},
    {"radial", "radial", "", .format = CLI_REAL, .error = "radial_se",
     .definition = "1 - <output, query>, n keys"},
    {"radial_se", "error of radial", "", .format = CLI_SHORT, .hidden = true},
    {"radial_exact", "exact", "", .format = CLI_SHORT},
    {"radial_leading", "(d-1)/(2 beta)", "", .format = CLI_SHORT},
    {"noise", "noise", "", .format = CLI_SHORT,
     .definition = "root mean square of beta times (measured - exact drift)"},
    {"ess", "ESS", "keys", .format = CLI_SHORT,
     .definition = "how many keys a query sees: measured and exact differ by noise, and by a bias "
                   "of order 1/ESS"},
    {0}};
static const cli_table table = {
    .rows = "rows", .title = "Drift of attention on the sphere", .columns = columns};
static const cli_table *const people[] = {&table, &heat_steps_table, &heat_profile_table, NULL};
static const cli_table *const views[] = {&table, &heat_particles_table, &heat_steps_table,
                                         &heat_profile_table, NULL};

static const cli_table *const particle_views[] = {&heat_particles_table, NULL};

/* ---- the density ---- */

static es_status read_modes(cli_session *session, const heat_options *o, heat_law *out,
                            es_error *err)
{
    const int64_t d = o->dim;
    if (o->modes && o->keys != MIXTURE)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "heat.options", "leave --modes or --keys out",
                        "--modes belongs to --keys mixture");
    if (o->modes)
        return cli_input_read(session, "modes", o->modes, -1, d, &out->modes, err);
    out->modes = (cli_input){cli_alloc_array((size_t)(2 * d), sizeof(double)), 2, d};
    memset(out->modes.data, 0, (size_t)(2 * d) * sizeof(double));
    out->modes.data[0] = 1.0;
    out->modes.data[d] = -0.5;
    out->modes.data[d + 1] = 0.8660254037844386;
    return ES_OK;
}

static es_status make_law(cli_session *session, const heat_options *o, heat_law *out, es_error *err)
{
    const es_status status = read_modes(session, o, out, err);
    if (status != ES_OK)
        return status;
    const int64_t parts = out->modes.rows;
    out->parts = cli_alloc_array((size_t)parts, sizeof *out->parts);
    out->weights = cli_alloc_array((size_t)parts, sizeof *out->weights);
    for (int64_t j = 0; j < parts; j++) {
        out->weights[j] = o->modes ? 1.0 : j ? 0.4 : 0.6;
        out->parts[j] = (es_law){.kind = o->keys == UNIFORM ? ES_LAW_SPHERE : ES_LAW_VMF,
                                 .dim = o->dim,
                                 .size = 1.0,
                                 .concentration = o->kappa,
                                 .direction = out->modes.data + j * o->dim};
    }
    out->law = o->keys == MIXTURE ? (es_law){.kind = ES_LAW_MIXTURE,
                                             .dim = o->dim,
                                             .parts = out->parts,
                                             .weights = out->weights,
                                             .n_parts = parts}
                                  : out->parts[0];
    return es_law_check(&out->law, err);
}

static void free_law(heat_law *law)
{
    free(law->parts);
    free(law->weights);
    cli_input_free(&law->modes);
}

/* ---- the drift ---- */

typedef struct heat_job {
    cli_session *session;
    const heat_options *o;
    const es_law *law;
    double *queries;      /* (queries, dim) */
    es_heat_draw *draws;  /* (blocks of BLOCK replicates, betas) */
    es_heat_row *rows;    /* (betas) */
    es_heat_exact *exact; /* (betas) */
} heat_job;

static int64_t blocks_of(const heat_options *o) { return (o->replicates + BLOCK - 1) / BLOCK; }

/* Replicates in blocks: a block is a cell of the run file, and its threads share its replicates. */
static es_status measure(heat_job *job, cli_run_file *file, es_error *err)
{
    static const char *const names[] = {"slope", "radial", "noise2", "ess"};
    const heat_options *o = job->o;
    const int64_t betas = o->beta.count, blocks = blocks_of(o);
    const es_heat_opts opts = {.law = job->law,
                               .seed = job->session->common.seed,
                               .experiment = HEAT_KEYS,
                               .n = o->n,
                               .exec = &job->session->exec};
    int64_t stage;
    es_status status =
        cli_run_stage(file, "replicates", BLOCK * betas, NUMBERS, names, &stage, err);
    job->session->progress.parts = (double)blocks;
    for (int64_t b = 0; b < blocks && status == ES_OK; b++) {
        es_heat_draw *draws = job->draws + b * BLOCK * betas;
        const int64_t left = o->replicates - b * BLOCK;
        bool done = false;
        job->session->progress.part = (double)b;
        status = cli_run_find(file, stage, b, (double *)draws, &done, err);
        if (status == ES_OK && !done) {
            status = es_heat_sample(&opts, job->queries, o->queries, o->beta.reals, betas,
                                    b * BLOCK, left < BLOCK ? left : BLOCK, draws, err);
            if (status == ES_OK)
                status = cli_run_keep(file, stage, b, (const double *)draws, err);
        }
        if (status == ES_E_INTERRUPTED)
            return cli_run_interrupted(file, b * BLOCK, o->replicates, "replicates", err);
    }
    if (status == ES_OK)
        es_heat_average(job->draws, o->replicates, betas, job->rows);
    return status;
}

static void put_rows(const heat_job *job)
{
    const heat_options *o = job->o;
    json_t *list = json_array();
    for (int64_t b = 0; b < o->beta.count; b++) {
        const es_heat_exact *e = &job->exact[b];
        const double beta = o->beta.reals[b];
        json_t *row = json_object();
        json_object_set_new(row, "beta", cli_real(beta));
        json_object_set_new(row, "slope_exact", cli_real(e->slope));
        json_object_set_new(row, "error", cli_real(e->error));
        json_object_set_new(
            row, "rate",
            cli_real(b ? log(job->exact[b - 1].error / e->error) / log(beta / o->beta.reals[b - 1])
                       : (double)NAN));
        json_object_set_new(row, "radial_exact", cli_real(e->radial));
        json_object_set_new(row, "radial_leading", cli_real(0.5 * (double)(o->dim - 1) / beta));
        if (o->replicates) {
            const es_heat_row *r = &job->rows[b];
            json_object_set_new(row, "slope", cli_real(r->mean.slope));
            json_object_set_new(row, "slope_se", cli_real(r->se.slope));
            json_object_set_new(row, "radial", cli_real(r->mean.radial));
            json_object_set_new(row, "radial_se", cli_real(r->se.radial));
            json_object_set_new(row, "noise", cli_real(sqrt(r->mean.noise2)));
            json_object_set_new(row, "ess", cli_real(r->mean.ess));
        }
        json_array_append_new(list, row);
    }
    json_object_set_new(job->session->answer, "rows", list);
    json_object_set_new(job->session->answer, "gradient", cli_real(job->exact[0].size));
}

static es_status drift(heat_job *job, cli_run_file *file, es_error *err)
{
    const heat_options *o = job->o;
    const size_t betas = (size_t)o->beta.count;
    const es_address at = {.seed = job->session->common.seed, .experiment = HEAT_QUERIES};
    job->queries = cli_alloc_array((size_t)(o->queries * o->dim), sizeof(double));
    job->draws = calloc((size_t)(blocks_of(o) * BLOCK) * betas + 1, sizeof *job->draws);
    job->rows = cli_alloc_array(betas, sizeof *job->rows);
    job->exact = cli_alloc_array(betas, sizeof *job->exact);
    es_status status = es_sphere_rows(&at, o->queries, o->dim, job->queries, err);
    if (status == ES_OK && !job->draws)
        status = cli_fail(err, ES_E_MEMORY, NULL, "heat.memory", "ask for fewer replicates",
                          "there is no memory for the replicates");
    if (status == ES_OK)
        status = es_heat_exact_of(job->law, job->queries, o->queries, o->beta.reals, o->beta.count,
                                  job->exact, err);
    if (status == ES_OK && o->replicates)
        status = measure(job, file, err);
    if (status == ES_OK)
        put_rows(job);
    free(job->queries);
    free(job->draws);
    free(job->rows);
    free(job->exact);
    return status;
}

/* ---- all of it ---- */

static cli_cost estimate(const cli_session *session, const heat_options *o)
{
    const double n = (double)o->n, m = (double)o->queries, d = (double)o->dim;
    const double R = (double)o->replicates, B = (double)o->beta.count, N = (double)o->particles;
    const double threads = fmin((double)session->exec.threads, fmin(R, BLOCK));
    return (cli_cost){.flops = R * n * m * d * (2.0 + 2.0 * B) + N * N * d * 4.0 * (double)o->steps,
                      .output_bytes =
                          512.0 * B + (N > 0.0 ? 512.0 * (double)(o->steps * o->bins) : 0.0),
                      .work_bytes = 8.0 * (threads * (2.0 * n * d + B * m * (d + 1.0)) +
                                           (R + BLOCK) * B * 4.0 + B * m * d + 2.0 * N * d) +
                                    threads * 4e6};
}

static es_status compute(cli_session *session, heat_options *o, const es_law *law, es_error *err)
{
    heat_job job = {.session = session, .o = o, .law = law};
    cli_run_file file;
    es_status status = cli_run_open(session, o, &o->run, &file, err);
    if (status != ES_OK)
        return status;
    json_object_set_new(session->answer, "dim", json_integer(o->dim));
    json_object_set_new(session->answer, "keys", json_string(keys_names[o->keys]));
    json_object_set_new(session->answer, "kappa", cli_real(o->kappa));
    json_object_set_new(session->answer, "n", json_integer(o->n));
    json_object_set_new(session->answer, "replicates", json_integer(o->replicates));
    status = drift(&job, &file, err);
    if (status == ES_OK && o->particles)
        status = heat_particles(session, o, law, err);
    session->views = o->particles && session->common.csv ? particle_views : people;
    return cli_run_close(&file, session, status, err);
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    heat_options *o = given;
    const cli_grid_rule rule = {.min = 1e-3, .max = 1e9, .increasing = true};
    char why[64];
    if (!o->beta.count)
        cli_grid_parse("10..1000*5", false, &rule, &o->beta, why, (int)sizeof why);
    heat_law law = {0};
    const cli_cost cost = estimate(session, o);
    es_status status = cli_cost_admit(session, &cost, err);
    if (status == ES_OK)
        status = make_law(session, o, &law, err);
    if (status == ES_OK)
        status = compute(session, o, &law.law, err);
    free_law(&law);
    return status;
}

static const char *const examples[] = {
    "esscher heat", "esscher heat --dim 3 --keys vmf --kappa 5 --beta 10..1e4*7",
    "esscher heat --particles 2000 --steps 40 --replicates 0",
    "esscher heat --dim 3 --particles 2000 --step-beta 30 --replicates 0 --out heat.run", NULL};

const cli_command cli_heat = {
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
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA | CLI_TAKES_SEED |
              CLI_TAKES_MEMORY | CLI_TAKES_PROGRESS,
    .defaults = &defaults,
    .size = sizeof(heat_options),
    .views = views,
    .run = run,
};
