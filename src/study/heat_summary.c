/* heat_summary.c : what was drawn, beside what infinitely many keys give; particles step by step.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "study/answer_kit.h"
#include "study/heat_study.h"

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"beta", "beta", "", ES_FORMAT_SHORT, "inverse temperature: scores are beta <q, k>"},
    {"slope", "measured", "slope", ES_FORMAT_REAL,
     "slope: of beta times the drift on grad log f, over the queries; 1 is backward heat. n keys",
     .error = "slope_se"},
    {"slope_exact", "exact", "slope", ES_FORMAT_REAL,
     "infinitely many keys: grad log of the density smoothed by vMF(beta)"},
    {"error", "|beta drift - grad log f|", "exact", ES_FORMAT_SHORT,
     "root mean square over the queries, infinitely many keys"},
    {"rate", "rate", "", ES_FORMAT_SHORT, "its exponent in 1/beta, from one row to the next: 1"},
    {"radial", "radial", "", ES_FORMAT_REAL, "1 - <output, query>, n keys", .error = "radial_se"},
    {"radial_exact", "exact", "", ES_FORMAT_SHORT, "1 - <output, query>, infinitely many keys"},
    {"radial_leading", "(d-1)/(2 beta)", "", ES_FORMAT_SHORT, "its leading term"},
    {"noise", "noise", "", ES_FORMAT_SHORT,
     "root mean square of beta times (measured - exact drift)"},
    {"ess", "ESS", "keys", ES_FORMAT_SHORT,
     "how many keys a query sees: measured and exact differ by noise, and by a bias of order "
     "1/ESS"},
    {0}};
static const es_table_view row_views[] = {{"Drift of attention on the sphere"}, {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views};

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
     "what backward heat makes of it, exp((d-1) time), while the density is smooth"},
    {"highest", "highest", "", ES_FORMAT_SHORT,
     "density of the fullest bin, relative to the uniform law"},
    {0}};
static const es_table_view step_views[] = {{"Particles"}, {0}};
static const es_table_spec steps_table = {"steps", step_columns, step_views};

static const es_column profile_columns[] = {
    {"low", "from", "", ES_FORMAT_SHORT,
     "bin: angle in radians on the circle, cosine with the first axis elsewhere"},
    {"density", "step", "", ES_FORMAT_SHORT, .each = true},
    {0}};
static const es_table_view profile_views[] = {
    {"Density of the particles, relative to the uniform law"}, {0}};
static const es_table_spec profile_table = {"profile", profile_columns, profile_views};

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
               {"radial", rows[b].mean.radial}, {"radial_se", rows[b].se.radial},
               {"noise", sqrt(rows[b].mean.noise2)}, {"ess", rows[b].mean.ess});
    }
}

/* Standard errors between n keys and infinitely many. */
static double distance(const heat_state *s, const es_heat_row *rows, int64_t b)
{
    return fabs(rows[b].mean.slope - s->exact[b].slope) / rows[b].se.slope;
}

/* Backward heat is seen between two errors: beta must be large for the limit, and then a query sees
 * few keys. So: the slope where both together, squared, are smallest; and where a bias shows. */
static void tell_measured(es_answer *a, const heat_params *p, const heat_state *s,
                          const es_heat_row *rows)
{
    int64_t best = 0, biased = 0;
    double least = (double)INFINITY;
    char slope[ES_FORMAT_ROOM];
    for (int64_t b = 0; b < p->beta.count; b++) {
        const double off = s->exact[b].slope - 1.0, se = rows[b].se.slope;
        if (off * off + se * se < least) {
            least = off * off + se * se;
            best = b;
        }
        if (distance(s, rows, b) > distance(s, rows, biased))
            biased = b;
    }
    es_format_number(ES_FORMAT_REAL, rows[best].mean.slope, rows[best].se.slope, slope,
                     sizeof slope);
    es_answer_tell(
        a,
        "The slope of beta times the drift on grad log f is %s at beta = %.3g, with %lld "
        "keys; infinitely many give %.4g, backward heat is 1.",
        slope, p->beta.reals[best], (long long)p->n, s->exact[best].slope);
    if (distance(s, rows, biased) > 3.0)
        es_answer_tell(a,
                       "At beta = %.3g it is %.2g standard errors from that of infinitely many "
                       "keys: a query sees only %.3g keys there, and the bias is of order 1/ESS.",
                       p->beta.reals[biased], distance(s, rows, biased), rows[biased].mean.ess);
    else if (rows[0].se.slope > 0.0)
        es_answer_tell(a, "No bias shows: at every beta the slope agrees with that of infinitely "
                          "many keys within 3 standard errors.");
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

es_status heat_summarise(es_job *job, es_answer *answer, es_error *err)
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
