/* SPDX-License-Identifier: Apache-2.0 */
/* drift.c : the first question of `heat`: how attention over n keys moves a query along the sphere,
 * beside what n keys give on average and what infinitely many do (THEORY 6). A cell is a block of
 * replicates; table "rows" has a row for each beta.
 *
 * For keys of density f on the sphere the output at query q is q plus (1/beta) grad log f_beta,
 * with f_beta the density smoothed by a von Mises-Fisher kernel of concentration beta: one step of
 * the heat equation backwards. The slope of beta times the drift on grad log f is therefore 1 up to
 * 1/beta. With n keys it is smaller, because few keys are near the query; that value is an
 * integral over their distance (theory/heat_finite.h), not a fit. */
#include <math.h>

#include "base/error.h"
#include "experiments/heat/heat.h"
#include "experiments/kit/answer_kit.h"
#include "random/experiment.h"
#include "random/random.h"

enum { BLOCK = 16 };            /* replicates of a cell */
enum { FINITE_BYTES = 300000 }; /* memory of a thread in es_heat_finite_of() */

/* Addresses of random numbers; those of particles are in particles.c. */
enum { KEYS = ES_EXPERIMENT_HEAT, QUERIES = ES_EXPERIMENT_HEAT + 1 };

/* ---- cells ---- */

static const es_cell_field draw_fields[] = {ES_FIELD(es_heat_draw, slope),
                                            ES_FIELD(es_heat_draw, radial),
                                            ES_FIELD(es_heat_draw, noise2),
                                            ES_FIELD(es_heat_draw, ess),
                                            {0}};

/* Computes a block of replicates (BLOCK, betas); a shorter last block ends in zeros. */
static es_status run_block(es_job *job, int64_t cell, const es_exec *exec, void *records,
                           es_error *err)
{
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    const es_heat_opts opts = {
        .law = &s->law, .seed = job->seed, .experiment = KEYS, .n = p->n, .exec = exec};
    const int64_t first = cell * BLOCK, left = p->replicates - first;
    return es_heat_sample(&opts, s->queries, p->queries, p->beta.reals, p->beta.count, first,
                          left < BLOCK ? left : BLOCK, records, err);
}

/* Returns the operations of a block: scores of all queries, and for each beta weights and an
 * output. */
static double block_flops(const heat_params *p)
{
    return (double)BLOCK * (double)p->n * (double)p->queries * (double)p->dim *
           (2.0 + 2.0 * (double)p->beta.count);
}

/* Adds the stage: a cell draws keys for 16 replicates at every beta. */
static es_status open_drift(es_job *job, es_error *err)
{
    const heat_params *p = job->params;
    return es_job_stage(
        job,
        &(es_stage){"replicates", .phase = "drawing keys", .noun = "blocks of 16 replicates",
                    .cells = (p->replicates + BLOCK - 1) / BLOCK, .rows = BLOCK * p->beta.count,
                    ES_RECORD(es_heat_draw, draw_fields), .reports_progress = true,
                    .flops = block_flops(p), .run = run_block},
        err);
}

/* States the memory of a thread: the keys of a replicate and the outputs of all betas. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const heat_params *p = job->params;
    const double n = (double)p->n, m = (double)p->queries, d = (double)p->dim;
    const double R = (double)p->replicates, B = (double)p->beta.count;
    (void)err;
    *out = (es_cost){.flops = R * block_flops(p) / BLOCK,
                     .output_bytes = 512.0 * B,
                     .work_bytes = 8.0 * B * m * (d + 5.0) + 16384.0};
    if (p->replicates)
        out->thread_bytes = 8.0 * (2.0 * n * d + B * m * (d + 1.0)) + 4e6 + FINITE_BYTES;
    return ES_OK;
}

/* Draws the queries, and computes what infinitely many keys and n keys on average do to them. */
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

/* ---- rows ---- */

/* One beta. Without replicates only what infinitely many keys do is known. */
typedef struct drift_row {
    double beta;
    es_measured slope;
    double slope_finite, slope_exact, error, rate;
    es_measured radial;
    double radial_finite, radial_exact, radial_leading, noise, ess;
} drift_row;

static const es_column columns[] = {
    ES_COL(drift_row, beta, ES_FORMAT_SHORT, "beta", "",
           "inverse temperature: scores are `beta <q, k>`"),
    ES_COL(
        drift_row, slope, ES_FORMAT_REAL, "measured", "slope",
        "slope of `beta` x drift against grad log f, over the queries; 1 is backward heat. n keys "
        "are drawn from the density f"),
    ES_COL(drift_row, slope_finite, ES_FORMAT_REAL, "n keys", "slope",
           "exact expectation for n keys: above that of infinitely many by about 1/(2 ESS) at "
           "each query, mostly at queries far from the keys",
           .standing = ES_STANDING_PROVED),
    ES_COL(drift_row, slope_exact, ES_FORMAT_REAL, "exact", "slope",
           "infinitely many keys: grad log of the density smoothed by vMF(beta)",
           .standing = ES_STANDING_PROVED),
    ES_COL(drift_row, error, ES_FORMAT_SHORT, "|beta drift - grad log f|", "exact",
           "root mean square over the queries, infinitely many keys",
           .standing = ES_STANDING_PROVED),
    ES_COL(drift_row, rate, ES_FORMAT_SHORT, "rate", "",
           "exponent of this distance in 1/beta, from one row to the next: 1",
           .standing = ES_STANDING_PROVED),
    ES_COL(drift_row, radial, ES_FORMAT_REAL, "radial", "", "`1 - <output, query>`, n keys"),
    ES_COL(drift_row, radial_finite, ES_FORMAT_SHORT, "n keys", "",
           "exact expectation of radial for n keys", .standing = ES_STANDING_PROVED),
    ES_COL(drift_row, radial_exact, ES_FORMAT_SHORT, "exact", "",
           "`1 - <output, query>`, infinitely many keys", .standing = ES_STANDING_PROVED),
    ES_COL(drift_row, radial_leading, ES_FORMAT_SHORT, "(d-1)/(2 beta)", "",
           "leading term of radial", .standing = ES_STANDING_PROVED),
    ES_COL(drift_row, noise, ES_FORMAT_SHORT, "noise", "",
           "root mean square of `beta` times (measured - exact drift)"),
    ES_COL(drift_row, ess, ES_FORMAT_SHORT, "ESS", "keys",
           "number of keys that share the weight of a query, mean over queries"),
    {0}};
static const es_table_spec rows_table = {"rows", columns,
                                         ES_VIEW("Drift of attention on the sphere"),
                                         ES_ROW(drift_row), .keys = "beta"};

/* Returns the exponent of the exact error from one beta to the next. Smoothing changes log f by the
 * order 1/beta (THEORY 6), so it tends to 1. */
static double rate_at(const heat_params *p, const heat_state *s, int64_t b)
{
    return b ? log(s->exact[b - 1].error / s->exact[b].error) /
                   log(p->beta.reals[b] / p->beta.reals[b - 1])
             : (double)NAN;
}

/* Copies measured drift and its value for finitely many keys to a row. */
static void fill_measured(const es_heat_row *from, const es_heat_finite *finite, drift_row *r)
{
    r->slope = (es_measured){from->mean.slope, from->se.slope};
    r->slope_finite = finite->slope;
    r->radial = (es_measured){from->mean.radial, from->se.radial};
    r->radial_finite = finite->radial;
    r->noise = sqrt(from->mean.noise2);
    r->ess = from->mean.ess;
}

/* Averages the replicates and fills a row for each beta. */
static es_status fill_rows(es_job *job, es_table *t, es_error *err)
{
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    es_heat_row *averages;
    ES_TRY(ES_JOB_NEW(job, averages, p->beta.count, err));
    if (p->replicates) /* cells follow one another without gaps: (replicates, betas) */
        es_heat_average(es_job_cell(job, HEAT_REPLICATES, 0), p->replicates, p->beta.count,
                        averages);
    for (int64_t b = 0; b < p->beta.count; b++) {
        drift_row *r = es_rows_add(t, drift_row);
        if (!r)
            return es_answer_status(job->answer, err);
        r->beta = p->beta.reals[b];
        r->slope_exact = s->exact[b].slope;
        r->error = s->exact[b].error;
        r->rate = rate_at(p, s, b);
        r->radial_exact = s->exact[b].radial;
        r->radial_leading = 0.5 * (double)(p->dim - 1) / r->beta;
        if (p->replicates)
            fill_measured(&averages[b], &s->finite[b], r);
    }
    return ES_OK;
}

/* ---- findings ---- */

/* Backward heat is visible between two errors: beta must be large for the limit, but then a query
 * sees few keys. Reports the slope at the beta where the two together, squared, are smallest. */
static void report_slope(es_answer *a, const drift_row *rows, int64_t count, int64_t n)
{
    const drift_row *best = rows;
    double least = (double)INFINITY;
    char slope[ES_SAY_SIZE];
    for (const drift_row *r = rows; r < rows + count; r++) {
        const double off = r->slope_exact - 1.0, square = off * off + r->slope.se * r->slope.se;
        if (square < least) {
            least = square;
            best = r;
        }
    }
    es_answer_add_finding(
        a,
        "With %lld keys of density f and score scale beta = %.3g, attention moves a "
        "query by %s times (1/beta) grad log f (slope over the queries); "
        "infinitely many keys give %.4g, backward heat 1.",
        (long long)n, best->beta, es_say_number(best->slope.value, best->slope.se, slope),
        best->slope_exact);
}

/* Returns how many standard errors the measured slope is from its expectation for n keys. */
static double distance(const drift_row *r)
{
    return fabs(r->slope.value - r->slope_finite) / r->slope.se;
}

/* Reports the effect of finitely many keys at the beta where it is largest, and whether the
 * measurement agrees with the expectation at every beta. */
static void report_bias(es_answer *a, const drift_row *rows, int64_t count, int64_t n)
{
    const drift_row *biased = rows, *far = rows;
    for (const drift_row *r = rows + 1; r < rows + count; r++) {
        if (fabs(r->slope_finite - r->slope_exact) >
            fabs(biased->slope_finite - biased->slope_exact))
            biased = r;
        if (distance(r) > distance(far))
            far = r;
    }
    if (isnan(biased->slope_finite))
        return;
    es_answer_add_finding(a,
                          "Finitely many keys bias the slope by %+.2g at beta = %.3g: %lld keys "
                          "give %.4g on average, infinitely many %.4g.",
                          biased->slope_finite - biased->slope_exact, biased->beta, (long long)n,
                          biased->slope_finite, biased->slope_exact);
    if (far->slope.se > 0.0)
        es_answer_add_finding(
            a,
            "Measured slopes differ from the exact expectation for n keys by at most %.2g "
            "standard errors.",
            distance(far));
}

/* Reports the slope of infinitely many keys at the largest beta. */
static void report_exact(es_answer *a, const drift_row *last)
{
    if (isnan(last->slope_exact))
        es_answer_add_finding(a,
                              "The density is uniform, so there is no drift: |beta drift| is %.2g "
                              "with infinitely many keys.",
                              last->error);
    else
        es_answer_add_finding(
            a,
            "With infinitely many keys of density f and score scale beta = %.3g, attention moves a "
            "query by %.4g times (1/beta) grad log f (slope over the queries); backward heat gives "
            "1.",
            last->beta, last->slope_exact);
}

/* Reports how fast beta times the drift approaches grad log f; theory: error of order 1/beta
 * (THEORY 6). */
static void report_rate(es_answer *a, const drift_row *last)
{
    if (!isnan(last->slope_exact) && !isnan(last->rate))
        es_answer_add_finding(
            a, "The distance from grad log f falls like beta^-%.3g there; theory: beta^-1.",
            last->rate);
}

/* Reports one finding, and further ones if this is the only question of the run. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const heat_params *p = job->params;
    const heat_state *s = job->state;
    const int64_t count = p->beta.count;
    es_table *t = es_answer_table(answer, &rows_table);
    ES_TRY(fill_rows(job, t, err));
    es_answer_real(answer, "gradient", s->exact[0].size);
    const drift_row *rows = es_rows(t, drift_row);
    if (p->replicates && !isnan(rows[0].slope_exact)) {
        report_slope(answer, rows, count, p->n);
        if (s->n_questions == 1)
            report_bias(answer, rows, count, p->n);
    } else {
        report_exact(answer, &rows[count - 1]);
        if (s->n_questions == 1)
            report_rate(answer, &rows[count - 1]);
    }
    return ES_OK;
}

const heat_question heat_drift = {open_drift, cost, begin, summarise};
