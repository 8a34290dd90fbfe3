/* ball_answer.c : from the suprema of all replicates to rows, rates in n and growth in R. */
#include "ball.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/fit.h>
#include <esscher/limit.h>

#include "answer.h"
#include "talk.h"

enum {
    RATES = ES_EXPERIMENT_BALL + 2,
    GROWTH = ES_EXPERIMENT_BALL + 3
}; /* experiments of the bootstraps */

/* A fit of one line: its errors (replicates, points), where they stand, and what is left out. */
typedef struct line {
    int64_t points;
    double *errors, *at;
    unsigned *flags;
    es_fit_summary *summary;
    es_rate rate;
    es_status status; /* of the fit: a refusal is an answer, too */
} line;

static line line_new(const ball_job *job, int64_t points)
{
    const size_t count = (size_t)points;
    return (line){.points = points,
                  .errors = cli_alloc_array((size_t)job->replicates * count, sizeof(double)),
                  .at = cli_alloc_array(count, sizeof(double)),
                  .flags = cli_alloc_array(count, sizeof(unsigned)),
                  .summary = cli_alloc_array(count, sizeof(es_fit_summary))};
}

static void line_free(line *l)
{
    free(l->errors);
    free(l->at);
    free(l->flags);
    free(l->summary);
}

static const es_ball_cell *cell(const ball_job *job, int64_t replicate, int64_t p, int64_t r)
{
    return &job->cells[(replicate * job->spec.n_sizes + p) * job->spec.n_radii + r];
}

/* @return : what must stop the run; l->status says whether there is a line. */
static es_status line_fit(const ball_job *job, line *l, uint16_t experiment, int64_t number,
                          es_error *err)
{
    const es_rate_opts opts = {.seed = job->spec.seed,
                               .experiment = experiment,
                               .cell = (uint64_t)number,
                               .exec = &job->session->exec};
    l->status = es_fit_replicates(l->errors, job->replicates, l->points, l->at, l->flags, &opts,
                                  l->summary, &l->rate, err);
    const bool stop =
        l->status == ES_E_INTERRUPTED || l->status == ES_E_LIMIT || l->status == ES_E_MEMORY;
    return stop ? l->status : ES_OK;
}

static unsigned flags_of(const ball_job *job, int64_t p, int64_t r)
{
    return es_ball_saturated(&job->constants[r], (double)job->spec.sizes[p])
               ? (unsigned)ES_FIT_SATURATED
               : 0u;
}

/* ---- rows, and the rate in n at one R ---- */

/* tr V S V' in one dimension, for the form of the papers; NaN elsewhere. */
static double line_variance(const ball_job *job)
{
    const es_law *law = job->spec.law;
    double variance = NAN, V = 1.0;
    if (law->kind != ES_LAW_GAUSSIAN || law->dim != 1 ||
        (job->spec.head->V && job->spec.head->V->rows != 1))
        return (double)NAN;
    if (job->spec.head->V)
        V = es_view_get(job->spec.head->V, 0, 0);
    es_limit_token_moments(law, &job->session->budget, NULL, &variance, NULL);
    return V * V * variance;
}

static json_t *make_row(const ball_job *job, int64_t p, int64_t r, const es_fit_summary *summary)
{
    const double root = sqrt((double)job->spec.sizes[p]), R = job->spec.radii[r];
    double squares = 0.0, radius = 0.0;
    for (int64_t i = 0; i < job->replicates; i++) {
        const es_ball_cell *c = cell(job, i, p, r);
        squares += c->sup * c->sup / (double)job->replicates;
        radius += c->radius / (double)job->replicates;
    }
    json_t *row = json_object();
    json_object_set_new(row, "radius", cli_real(R));
    json_object_set_new(row, "n", json_integer(job->spec.sizes[p]));
    json_object_set_new(row, "sup_error", cli_real(summary->mean));
    json_object_set_new(row, "sup_error_se", cli_real(summary->se));
    json_object_set_new(row, "sup_error_median", cli_real(summary->median));
    json_object_set_new(row, "scaled", cli_real(root * summary->mean));
    json_object_set_new(row, "scaled_se", cli_real(root * summary->se));
    json_object_set_new(row, "scaled_rms", cli_real(root * sqrt(squares)));
    json_object_set_new(row, "predicted_rms", cli_real(job->constants[r].rms));
    json_object_set_new(row, "predicted", cli_real(job->sups[r].val));
    json_object_set_new(row, "predicted_se", cli_real(job->sups[r].err));
    json_object_set_new(row, "predicted_line",
                        cli_real(es_ball_line(R * job->h1, line_variance(job))));
    json_object_set_new(row, "maximiser_radius", cli_real(radius));
    json_object_set_new(row, "flag", json_string(flags_of(job, p, r) ? "saturated" : ""));
    return row;
}

static es_status answer_radius(const ball_job *job, int64_t r, json_t *rows, json_t *fits,
                               es_error *err)
{
    line l = line_new(job, job->spec.n_sizes);
    for (int64_t p = 0; p < l.points; p++) {
        l.at[p] = (double)job->spec.sizes[p];
        l.flags[p] = flags_of(job, p, r);
        for (int64_t i = 0; i < job->replicates; i++)
            l.errors[i * l.points + p] = cell(job, i, p, r)->sup;
    }
    const es_status status = line_fit(job, &l, RATES, r, err);
    for (int64_t p = 0; p < l.points && status == ES_OK; p++)
        json_array_append_new(rows, make_row(job, p, r, &l.summary[p]));
    json_t *fit = json_object();
    const bool good = l.status == ES_OK;
    const double interval[2] = {good ? l.rate.low : NAN, good ? l.rate.high : NAN};
    json_object_set_new(fit, "radius", cli_real(job->spec.radii[r]));
    json_object_set_new(fit, "rate", cli_real(good ? l.rate.mean.rate : (double)NAN));
    json_object_set_new(fit, "rate_ci", cli_reals(interval, 2));
    json_object_set_new(fit, "rate_se",
                        cli_real((interval[1] - interval[0]) / (2.0 * 1.959963984540054)));
    json_object_set_new(fit, "rate_p", cli_real(good ? l.rate.mean.p_value : (double)NAN));
    json_object_set_new(fit, "rate_expected", cli_real(0.5));
    json_object_set_new(fit, "used", json_integer(good ? l.rate.mean.used : 0));
    json_object_set_new(fit, "reason", json_string(good ? "" : err->message));
    json_array_append_new(fits, fit);
    line_free(&l);
    return status;
}

/* ---- growth in R at one n ---- */

/* ln(sqrt(n) E sup) against R^2 is the line of fit.h with "n" = exp(8 R^2/Rmax^2), which no radius
 * takes beyond the range of numbers; a rate there is -slope Rmax^2/8. */
static double unit_of(const ball_job *job)
{
    const double most = job->spec.radii[job->spec.n_radii - 1];
    return 8.0 / (most * most);
}

/* The slope that constants (radii) have at the same radii, with the same weights; NaN if one of
 * them is. */
static double slope_of(const ball_job *job, const line *l, const double *constants)
{
    es_fit_point *points = cli_alloc_array((size_t)l->points, sizeof *points);
    es_fit fit;
    for (int64_t r = 0; r < l->points; r++) {
        const double constant = constants[r];
        points[r] = (es_fit_point){.n = l->at[r],
                                   .error = constant,
                                   .se = constant * l->summary[r].se / l->summary[r].mean,
                                   .flags = l->flags[r]};
        if (!isfinite(points[r].se)) /* of a single replicate */
            points[r].se = constant;
    }
    const es_status status = es_fit_power(points, l->points, &fit, NULL);
    free(points);
    return status == ES_OK ? -fit.rate * unit_of(job) : (double)NAN;
}

static void put_predicted(const ball_job *job, const line *l, json_t *row)
{
    double *constants = cli_alloc_array((size_t)l->points, sizeof *constants);
    const bool good = l->status == ES_OK;
    for (int64_t r = 0; r < l->points; r++)
        constants[r] = job->sups[r].val;
    json_object_set_new(row, "slope_predicted",
                        cli_real(good ? slope_of(job, l, constants) : (double)NAN));
    for (int64_t r = 0; r < l->points; r++)
        constants[r] = job->constants[r].rms;
    json_object_set_new(row, "slope_one_query",
                        cli_real(good ? slope_of(job, l, constants) : (double)NAN));
    free(constants);
}

static es_status answer_size(const ball_job *job, int64_t p, json_t *growth, es_error *err)
{
    const double unit = unit_of(job), h2 = job->h1 * job->h1;
    line l = line_new(job, job->spec.n_radii);
    for (int64_t r = 0; r < l.points; r++) {
        l.at[r] = exp(unit * job->spec.radii[r] * job->spec.radii[r]);
        l.flags[r] = flags_of(job, p, r);
        for (int64_t i = 0; i < job->replicates; i++)
            l.errors[i * l.points + r] = sqrt((double)job->spec.sizes[p]) * cell(job, i, p, r)->sup;
    }
    const es_status status = line_fit(job, &l, GROWTH, p, err);
    const bool good = l.status == ES_OK, gaussian = job->spec.law->kind == ES_LAW_GAUSSIAN;
    const double interval[2] = {good ? -l.rate.high * unit : NAN, good ? -l.rate.low * unit : NAN};
    json_t *row = json_object();
    json_object_set_new(row, "n", json_integer(job->spec.sizes[p]));
    json_object_set_new(row, "radii", json_integer(good ? l.rate.mean.used : 0));
    json_object_set_new(row, "slope", cli_real(good ? -l.rate.mean.rate * unit : (double)NAN));
    json_object_set_new(row, "slope_ci", cli_reals(interval, 2));
    json_object_set_new(row, "slope_se",
                        cli_real((interval[1] - interval[0]) / (2.0 * 1.959963984540054)));
    put_predicted(job, &l, row);
    json_object_set_new(row, "slope_sharp", cli_real(gaussian ? 0.5 * h2 : (double)NAN));
    json_object_set_new(row, "slope_bound", cli_real(h2));
    json_object_set_new(row, "reason", json_string(good ? "" : err->message));
    json_array_append_new(growth, row);
    line_free(&l);
    return status;
}

es_status ball_answer(const ball_job *job, es_error *err)
{
    json_t *answer = job->session->answer;
    json_t *rows = json_array(), *fits = json_array(), *growth = json_array();
    es_status status = ES_OK;
    json_object_set_new(answer, "replicates", json_integer(job->replicates));
    json_object_set_new(answer, "horizon_one_sided", cli_real(job->h1));
    json_object_set_new(answer, "rows", rows);
    json_object_set_new(answer, "fits", fits);
    json_object_set_new(answer, "growth", growth);
    for (int64_t r = 0; r < job->spec.n_radii && status == ES_OK; r++)
        status = answer_radius(job, r, rows, fits, err);
    for (int64_t p = 0; p < job->spec.n_sizes && status == ES_OK; p++)
        status = answer_size(job, p, growth, err);
    return status;
}

/* ---- views ---- */

static const cli_column row_columns[] = {
    {"radius", "R", "", .format = CLI_REAL},
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"sup_error", "sup error", "", .format = CLI_REAL, .error = "sup_error_se",
     .definition = "largest |Gamma_n(x) - Gamma(x)| with |x| <= R, mean over replicates"},
    {"sup_error_median", "median", "", .format = CLI_REAL},
    {"scaled", "sqrt(n) sup", "", .format = CLI_REAL, .error = "scaled_se",
     .definition = "what the papers call C(R), measured"},
    {"predicted", "predicted", "", .format = CLI_REAL, .error = "predicted_se",
     .definition = "its limit for n to infinity, by sampling the limit field, in at most two "
                   "dimensions"},
    {"scaled_rms", "rms", "", .format = CLI_REAL,
     .definition = "the same as sqrt(n) sup, root of the mean square over replicates"},
    {"predicted_rms", "one query", "", .format = CLI_REAL,
     .definition =
         "largest sqrt(n) rms error of a single query of the ball for n to infinity, from "
         "the law: a lower bound of rms"},
    {"predicted_line", "line", "", .format = CLI_REAL, .hidden = true,
     .definition = "(2/sqrt(pi)) e^(q^2/2) sqrt(1+q^2) sd, q = H1 R: Gaussian tokens on the line"},
    {"maximiser_radius", "|x|", "", .format = CLI_SHORT,
     .definition = "where the largest error is, mean over replicates"},
    {"flag", "flag", "", .format = CLI_TEXT,
     .definition = "saturated: n is too small for this R, a few tokens carry the softmax; left out "
                   "of the fits"},
    {0}};

const cli_table ball_rows_table = {
    .rows = "rows",
    .title = "Distance from the limit at the worst query of a ball",
    .columns = row_columns,
    .note =
        "Standard errors are over replicates. Sizes and radii of one replicate share tokens, so "
        "rows are dependent."};

static const cli_column fit_columns[] = {
    {"radius", "R", "", .format = CLI_REAL},
    {"rate", "rate", "", .format = CLI_REAL, .error = "rate_se",
     .definition = "sup error ~ n^-rate, weighted fit; the error is that of a bootstrap over "
                   "replicates"},
    {"rate_p", "p", "", .format = CLI_SHORT,
     .definition = "of chi^2: is it a power law on this range?"},
    {"rate_expected", "expected", "", .format = CLI_SHORT, .definition = "C(R)/sqrt(n)"},
    {"used", "points", "", .format = CLI_COUNT, .definition = "that are not saturated"},
    {"reason", "", "", .format = CLI_TEXT},
    {0}};

const cli_table ball_fits_table = {.rows = "fits", .title = "Rates in n", .columns = fit_columns};

static const cli_column growth_columns[] = {
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"radii", "radii", "", .format = CLI_COUNT, .definition = "that are not saturated"},
    {"slope", "slope", "", .format = CLI_REAL, .error = "slope_se",
     .definition = "of ln(sqrt(n) sup) on R^2, weighted fit; error as above"},
    {"slope_predicted", "predicted", "", .format = CLI_REAL,
     .definition = "slope of the predicted constants at the same radii, in at most two dimensions"},
    {"slope_one_query", "one query", "", .format = CLI_REAL,
     .definition = "slope of the constants of a single query at the same radii"},
    {"slope_sharp", "H1^2/2", "", .format = CLI_SHORT,
     .definition = "for large R, Gaussian tokens"},
    {"slope_bound", "H1^2", "", .format = CLI_SHORT, .definition = "exponent of the papers' bound"},
    {"reason", "", "", .format = CLI_TEXT},
    {0}};

const cli_table ball_growth_table = {
    .rows = "growth", .title = "Growth in R", .columns = growth_columns};
