/* question.c : the drift of attention on the sphere, and what it does to a density (THEORY 6).
 *
 * In order: what is asked, the density of the keys, cells (sets of keys that a fixed crowd of
 * queries looks at), and the answer. Particles that move by their own attention are in
 * heat/particles.c. */
#include <math.h>
#include <stdio.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/format.h"
#include "driver/job.h"
#include "experiments/heat/question.h"
#include "experiments/kit/answer_kit.h"
#include "random/experiment.h"
#include "tokens/tokens.h"

enum { HEAT_BLOCK = 16 };       /* replicates of a cell */
enum { FINITE_BYTES = 300000 }; /* a thread of es_heat_finite_of() */

static const char *const heat_keys[] = {"uniform", "vmf", "mixture", NULL};

/* Addresses of random numbers; those of particles are in heat/particles.c. */
enum { KEYS = ES_EXPERIMENT_HEAT, QUERIES = ES_EXPERIMENT_HEAT + 1 };

#define FIELD(member) .field = offsetof(heat_params, member)
static const es_param params[] = {
    {"key-law", 0, ES_PARAM_CHOICE, "LAW",
     "density of the keys: uniform; vmf, around the first axis; mixture of vmf", FIELD(keys),
     .choices = heat_keys, .default_value = "mixture", .renamed_from = "keys"},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimensions; the sphere is S^(D-1), 2 is the circle",
     FIELD(dim), .min = 2, .max = ES_HEAT_MOST_DIM, .default_value = "2", .alias = "d"},
    {"kappa", 0, ES_PARAM_NUMBER, "K", "concentration of each mode", FIELD(kappa), .min = 0.0,
     .max = 1e6, .default_value = "2"},
    {"modes", 0, ES_PARAM_FILE, "FILE",
     "directions of the modes of a mixture, .npy (parts, d), of equal weight", FIELD(modes),
     .default_note = "the first axis with weight 0.6, and 120 degrees from it with 0.4"},
    {"beta", 0, ES_PARAM_REALS, "GRID", "inverse temperatures", FIELD(beta), .min = 1e-3,
     .max = 1e9, .increasing = true, .default_value = "10..1000*5"},
    {"n", 'n', ES_PARAM_WHOLE, "N", "keys of a replicate", FIELD(n), .min = 2, .max = 1e7,
     .default_value = "100000", .unit = "keys"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "uniform queries, the same for all", FIELD(queries),
     .min = 1, .max = 100000, .default_value = "16", .renamed_from = "queries"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R",
     "independent sets of keys; 0: infinitely many keys alone", FIELD(replicates), .min = 0,
     .max = 1e6, .default_value = "8"},
    {"particles", 0, ES_PARAM_WHOLE, "N",
     "also let N tokens of this law move by their own attention", FIELD(particles), .min = 1,
     .max = 1e6, .default_note = "none"},
    {"steps", 0, ES_PARAM_WHOLE, "S", "of the particles", FIELD(steps), .min = 1, .max = 1e5,
     .default_value = "20"},
    {"step-beta", 0, ES_PARAM_NUMBER, "B", "inverse temperature of the particles", FIELD(step_beta),
     .min = 1e-3, .max = 1e9, .default_value = "40"},
    {"particle-sets", 0, ES_PARAM_WHOLE, "R", "independent sets of particles", FIELD(sets),
     .min = 1, .max = 1e5, .default_value = "8"},
    {"cluster-angle", 0, ES_PARAM_NUMBER, "RAD",
     "clusters of particles are counted by members that are farther apart than this",
     FIELD(cluster_angle), .min = 1e-6, .max = 3.141592653589793,
     .default_note = "1/sqrt(step-beta)"},
    {"bins", 0, ES_PARAM_WHOLE, "N", "of the particles' density", FIELD(bins), .min = 1,
     .max = 10000, .default_value = "24"},
    {0}};

/* ---- the density ---- */

/* Two modes 120 degrees apart with unequal weights: no symmetry of the density makes a drift
 * vanish that should be seen. */
static es_status read_modes(es_job *job, const heat_params *p, heat_state *s, es_error *err)
{
    const int64_t d = p->dim;
    if (p->modes && p->keys != HEAT_MIXTURE)
        return es_refuse(err, "heat.options", "leave --modes or --key-law out",
                         "--modes belongs to --key-law mixture");
    if (p->modes)
        return es_job_matrix(job, "modes", p->modes, -1, d, &s->modes, err);
    s->modes = (es_matrix){.rows = 2, .cols = d};
    ES_TRY(ES_JOB_NEW_2D(job, s->modes.data, 2, d, err));
    s->modes.data[0] = 1.0;
    s->modes.data[d] = -0.5;
    s->modes.data[d + 1] = 0.8660254037844386;
    return ES_OK;
}

static es_status make_law(es_job *job, const heat_params *p, heat_state *s, es_error *err)
{
    ES_TRY(read_modes(job, p, s, err));
    const int64_t parts = s->modes.rows;
    ES_TRY(ES_JOB_NEW(job, s->parts, parts, err));
    ES_TRY(ES_JOB_NEW(job, s->weights, parts, err));
    for (int64_t j = 0; j < parts; j++) {
        s->weights[j] = p->modes ? 1.0 : j ? 0.4 : 0.6;
        s->parts[j] = (es_law){p->keys == HEAT_UNIFORM ? ES_LAW_SPHERE : ES_LAW_VMF, .dim = p->dim,
                               .size = 1.0, .concentration = p->kappa,
                               .direction = s->modes.data + j * p->dim};
    }
    s->law = p->keys == HEAT_MIXTURE ? (es_law){ES_LAW_MIXTURE, .dim = p->dim, .parts = s->parts,
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
static es_status run_block(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    const es_heat_opts opts = {
        .law = &s->law, .seed = job->seed, .experiment = KEYS, .n = p->n, .exec = exec};
    const int64_t first = cell * HEAT_BLOCK, left = p->replicates - first;
    return es_heat_sample(&opts, s->queries, p->queries, p->beta.reals, p->beta.count, first,
                          left < HEAT_BLOCK ? left : HEAT_BLOCK, (es_heat_draw *)(void *)out, err);
}

/* ---- all of it ---- */

/* Scores of all queries, and for each beta weights and an output. */
static double block_flops(const heat_params *p)
{
    return (double)HEAT_BLOCK * (double)p->n * (double)p->queries * (double)p->dim *
           (2.0 + 2.0 * (double)p->beta.count);
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
                                    .columns = draw_columns, .reports_progress = true,
                                    .flops = block_flops(p), .run = run_block},
                        err));
    return heat_particle_stage(job, err);
}

static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const heat_params *p = job->params;
    const double n = (double)p->n, m = (double)p->queries, d = (double)p->dim;
    const double R = (double)p->replicates, B = (double)p->beta.count;
    es_cost particles;
    ES_TRY(heat_particle_cost(job, &particles, err));
    *out = (es_cost){.flops = R * block_flops(p) / HEAT_BLOCK + particles.flops,
                     .output_bytes = 512.0 * B + particles.output_bytes,
                     .work_bytes = 8.0 * B * m * (d + 5.0) + particles.work_bytes + 16384.0};
    if (p->replicates)
        out->thread_bytes = 8.0 * (2.0 * n * d + B * m * (d + 1.0)) + 4e6 + FINITE_BYTES;
    return ES_OK;
}

static es_status begin(es_job *job, es_error *err)
{
    const heat_params *p = job->params;
    heat_state *s = job->state;
    const es_address at = {.seed = job->seed, .experiment = QUERIES};
    ES_TRY(ES_JOB_NEW_2D(job, s->queries, p->queries, p->dim, err));
    ES_TRY(ES_JOB_NEW(job, s->exact, p->beta.count, err));
    ES_TRY(es_sphere_rows(&at, p->queries, p->dim, s->queries, err));
    ES_TRY(ES_JOB_NEW(job, s->finite, p->beta.count, err));
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
     "what n keys give on average, exactly: above that of infinitely many by about 1/(2 ESS) at "
     "each query, so by what those do that are far from the keys",
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
    {"ess", "ESS", "keys", ES_FORMAT_SHORT, "how many keys a query sees, mean over queries"},
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns, ES_VIEW("Drift of attention on the sphere"), .keys = "beta"};

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
    es_answer_add_finding(
        a,
        "Because few keys share a weight the slope is biased by %+.2g at beta = %.3g, "
        "where 1/E sum w^2 is %.3g keys: %lld keys give %.4g on average, infinitely many "
        "%.4g.",
        s->finite[biased].slope - s->exact[biased].slope, p->beta.reals[biased],
        1.0 / s->finite[biased].squares, (long long)p->n, s->finite[biased].slope,
        s->exact[biased].slope);
    if (rows[far].se.slope > 0.0)
        es_answer_add_finding(a,
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
    es_answer_add_finding(
        a,
        "The slope of beta times the drift on grad log f is %s at beta = %.3g, with "
        "%lld keys; infinitely many give %.4g, backward heat is 1.",
        slope, p->beta.reals[best], (long long)p->n, s->exact[best].slope);
    tell_bias(a, p, s, rows);
}

static void tell_exact(es_answer *a, const heat_params *p, const heat_state *s)
{
    const int64_t last = p->beta.count - 1;
    if (isnan(s->exact[last].slope)) {
        es_answer_add_finding(
            a,
            "The density is uniform and nothing drifts: |beta drift| is %.2g with "
            "infinitely many keys.",
            s->exact[last].error);
        return;
    }
    es_answer_add_finding(
        a,
        "With infinitely many keys the slope of beta times the drift on grad log f is "
        "%.4g at beta = %.3g; backward heat is 1.",
        s->exact[last].slope, p->beta.reals[last]);
    if (last)
        es_answer_add_finding(
            a, "Its distance from grad log f falls like beta^-%.3g there; theory: -1.",
            rate_at(p, s, last));
}

/* ---- all of it ---- */

static es_status heat_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    es_heat_row *rows;
    ES_TRY(ES_JOB_NEW(job, rows, p->beta.count, err));
    if (p->replicates)
        es_heat_average((const es_heat_draw *)(const void *)job->cells[HEAT_REPLICATES],
                        p->replicates, p->beta.count, rows);
    put_rows(p, s, rows, es_answer_table(answer, &rows_table));
    es_answer_real(answer, "gradient", s->exact[0].size);
    if (p->replicates && !isnan(s->exact[0].slope))
        tell_measured(answer, p, s, rows);
    else
        tell_exact(answer, p, s);
    return p->particles ? heat_put_particles(job, answer, err) : ES_OK;
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher heat", "esscher heat --dim 3 --key-law vmf --kappa 5 --beta 10..1e4*7",
    "esscher heat --particles 2000 --steps 40 --replicates 0",
    "esscher heat --dim 3 --particles 2000 --step-beta 30 --replicates 0 --out heat.run", NULL};

const es_study es_study_heat = {
    "heat",
    .summary = "whether attention on the sphere follows backward heat flow: grad log density",
    .group = ES_GROUP_LAB,
    .usage = "[options]",
    .about =
        "Keys of density f on the unit sphere: attention at inverse temperature beta moves a "
        "query along the sphere by (1/beta) grad log f, up to 1/beta^2 [proved]. Measures that "
        "drift with n keys at uniform queries, sets beside it what n keys give on average and "
        "what infinitely many do, which is the gradient of the smoothed density [proved], and "
        "shows how fast it approaches backward heat.\n\n"
        "--particles lets tokens move by their own attention, all at once: each step runs the "
        "heat equation backwards for the time 1/beta and sharpens their density, until they "
        "are points; points merge, the later the farther apart [heuristic]. Clusters are "
        "counted after every step. With --csv the table is then the density after every step.",
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
