/* question.c : the worst query of a ball, against the bound that holds for all of them at once.
 *
 * In order: what is asked, a replicate, what theory says of it (THEORY 3); then the answer: rows
 * and the rate in n for each R, the growth in R for each n, findings. Both fits
 * leave out the same saturated points. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/ball/ball.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/series.h"
#include "experiments/kit/setting_params.h"
#include "limit/limit.h"
#include "stats/average.h"

typedef struct ball_params {
    es_law_params law;
    es_head_params head;
    es_grid sizes, radii;
    int64_t replicates, starts;
} ball_params;

typedef struct ball_state {
    es_law_data law;
    es_head_data head;
    es_ball_spec spec;
    es_exec alone; /* what a replicate is given: one thread, silent */
    es_ball *ball;
    double h1;                   /* H1 = |S^{1/2} A| */
    es_ball_constant *constants; /* (radii) of the worst single query */
    es_num *sups;                /* (radii) of the supremum, in at most 2 dimensions; else NaN */
} ball_state;

/* Columns of a cell, whose rows are (sizes, radii). */
enum { BALL_SUP, BALL_RADIUS, BALL_COLUMNS };

#define FIELD(member) .field = offsetof(ball_params, member)
static const es_param params[] = {
    ES_LAW_PARAMS(ball_params, law, "gaussian"),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens", FIELD(sizes), .min = 1, .max = 0x1p30,
     .increasing = true, .default_value = "500..8000*5", .unit = "tokens"},
    {"radii", 0, ES_PARAM_REALS, "GRID", "radii R of the balls", FIELD(radii), .min = 1e-100,
     .max = 1e100, .increasing = true, .default_value = "0.5,0.75,1,1.25,1.5,2"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws of the tokens", FIELD(replicates),
     .min = 1, .max = 262144, .default_value = "32"},
    {"starts", 0, ES_PARAM_WHOLE, "M",
     "random starts of the search, beside those that the head and the longest tokens suggest",
     FIELD(starts), .min = 1, .max = 1e6, .default_value = "4"},
    ES_HEAD_PARAMS(ball_params, head, "identity"),
    {0}};

/* ---- replicates ---- */

static const char *const cell_columns[BALL_COLUMNS] = {
    [BALL_SUP] = "sup_error", [BALL_RADIUS] = "radius"};

/* One draw of the tokens: every n, a prefix of it, and every R. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, double *out,
                               es_error *err)
{
    const ball_state *s = job->state;
    (void)exec; /* the ball has s->alone */
    return es_ball_replicates(s->ball, cell, 1, (es_ball_cell *)(void *)out, err);
}
_Static_assert(sizeof(es_ball_cell) == BALL_COLUMNS * sizeof(double) &&
                   offsetof(es_ball_cell, radius) == BALL_RADIUS * sizeof(double),
               "a cell is its two numbers");

/* A search is one thread's work and replicates run side by side, so the ball is made once with
 * an exec of one silent thread: progress counts replicates, not steps of a search. */
static es_status open_study(es_job *job, es_error *err)
{
    ball_params *p = job->params;
    ball_state *s = job->state;
    int64_t dim;
    ES_TRY(es_head_dim(&p->head, &dim, err));
    if (dim == 0 && !es_law_params_speak(&p->law))
        p->law.dim = 2;
    ES_TRY(es_law_make(job, &p->law, dim, &s->law, err));
    ES_TRY(es_head_make(job, &p->head, s->law.law.dim, ES_HEAD_IDENTITY, false, &s->head, err));
    s->alone = job->exec;
    s->alone.threads = 1;
    s->alone.progress = NULL;
    s->spec = (es_ball_spec){&s->law.law,
                             .head = &s->head.head,
                             .sizes = p->sizes.counts,
                             .n_sizes = p->sizes.count,
                             .radii = p->radii.reals,
                             .n_radii = p->radii.count,
                             .starts = p->starts,
                             .seed = job->seed,
                             .exec = &s->alone};
    ES_TRY(es_ball_new(&s->spec, &s->ball, err));
    return es_job_stage(job,
                        &(es_stage){"replicate", .phase = "searching for the worst queries",
                                    .noun = "replicates", .cells = p->replicates,
                                    .rows = p->sizes.count * p->radii.count, .cols = BALL_COLUMNS,
                                    .columns = cell_columns, .one_thread_per_cell = true,
                                    .flops = es_ball_cost_of(s->ball).flops, .run = run_replicate},
                        err);
}

static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const ball_params *p = job->params;
    const ball_state *s = job->state;
    const es_ball_cost one = es_ball_cost_of(s->ball);
    const double d = (double)s->spec.law->dim, threads = (double)job->exec.threads;
    const double cells = (double)(p->replicates * s->spec.n_sizes * s->spec.n_radii);
    /* where the limit field is sampled: two covariances of up to 260 points, and draws */
    const double dv = s->spec.head->V ? (double)s->spec.head->V->rows : d;
    const double field = d <= 2.0 ? 8.0 * 260.0 * dv * (3.0 * 260.0 * dv + 512.0) : 0.0;
    (void)err;
    *out =
        (es_cost){.flops = (double)p->replicates * one.flops,
                  .output_bytes = cells * (double)sizeof(es_ball_cell),
                  /* the threads', and some (d, d) matrices of the limit and the head */
                  .work_bytes = threads * (double)one.bytes + (16.0 + 4.0 * threads) * 8.0 * d * d +
                                65536.0 + 16.0 * cells + field};
    return ES_OK;
}

/* ---- what theory says (THEORY 3) ---- */

static es_status begin(es_job *job, es_error *err)
{
    ball_state *s = job->state;
    const int64_t d = s->spec.law->dim, radii = s->spec.n_radii;
    double *A, *values, *vectors;
    ES_TRY(es_job_array(job, d, d, sizeof *A, &A, err));
    ES_TRY(es_job_array(job, d, 1, sizeof *values, &values, err));
    ES_TRY(es_job_array(job, d, d, sizeof *vectors, &vectors, err));
    ES_TRY(es_job_array(job, radii, 1, sizeof *s->constants, &s->constants, err));
    ES_TRY(es_job_array(job, radii, 1, sizeof *s->sups, &s->sups, err));
    ES_TRY(es_head_write(s->spec.head, d, A, NULL, err));
    ES_TRY(es_ball_directions(s->spec.law, A, job->exec.budget, values, vectors, err));
    s->h1 = values[0];
    ES_TRY(es_ball_predict(s->spec.law, s->spec.head, s->spec.radii, radii, job->exec.budget,
                           s->constants, err));
    for (int64_t r = 0; r < radii; r++)
        /* where the field is too wild to be sampled there is nothing to compare with */
        if (d > 2 || es_ball_sup(s->spec.law, s->spec.head, s->spec.radii[r], job->seed,
                                 job->exec.budget, &s->sups[r], NULL) != ES_OK)
            s->sups[r] = (es_num){(double)NAN, (double)NAN};
    return ES_OK;
}

static void close_study(es_job *job)
{
    ball_state *s = job->state;
    es_ball_free(s->ball);
}

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"radius", "R", "", ES_FORMAT_REAL, "queries are |x| <= R"},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"sup_error", "sup error", "", ES_FORMAT_REAL,
     "largest |Gamma_n(x) - Gamma(x)| with |x| <= R, mean over replicates",
     .error = "sup_error_se"},
    {"sup_error_median", "median", "", ES_FORMAT_SHORT, "the same, median over replicates"},
    {"scaled", "sqrt(n) sup", "", ES_FORMAT_REAL, "what the papers call C(R), measured",
     .error = "scaled_se"},
    {"predicted", "predicted", "", ES_FORMAT_REAL,
     "its limit for n to infinity, by sampling the limit field, in at most two dimensions",
     .error = "predicted_se", .standing = ES_STANDING_PROVED},
    {"scaled_rms", "rms", "", ES_FORMAT_SHORT,
     "the same as sqrt(n) sup, root of the mean square over replicates"},
    {"predicted_rms", "one query", "", ES_FORMAT_REAL,
     "largest sqrt(n) rms error of a single query of the ball for n to infinity, from the law: a "
     "lower bound of rms",
     .standing = ES_STANDING_PROVED},
    {"predicted_line", "line", "", ES_FORMAT_REAL,
     "(2/sqrt(pi)) e^(q^2/2) sqrt(1+q^2) sd, q = H1 R: Gaussian tokens on the line",
     .standing = ES_STANDING_HEURISTIC},
    {"maximiser_radius", "|x|", "", ES_FORMAT_SHORT,
     "where the largest error is, mean over replicates"},
    {"flag", "flag", "", ES_FORMAT_TEXT,
     "saturated: n is too small for this R, a few tokens carry the softmax; left out of the fits"},
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("Distance from the limit at the worst query of a ball",
            "radius n sup_error sup_error_median scaled predicted scaled_rms predicted_rms "
            "maximiser_radius flag",
            "Standard errors are over replicates. Sizes and radii of one replicate share tokens, "
            "so rows are dependent.",
            .only_with_full = true),
    .keys = "radius n"};

static const es_column fit_columns[] = {
    {"radius", "R", "", ES_FORMAT_REAL},
    {"rate", "rate", "", ES_FORMAT_REAL,
     "sup error ~ n^-rate, weighted fit; the error is that of the jackknife over replicates",
     .error = "rate_se"},
    {"rate_ci.0", "rate from", "", ES_FORMAT_REAL, "95 % interval, Student's t over replicates"},
    {"rate_ci.1", "rate to", "", ES_FORMAT_REAL},
    {"rate_p", "p", "", ES_FORMAT_SHORT, "of chi^2: is it a power law on this range?"},
    {"rate_expected", "expected", "", ES_FORMAT_SHORT, "C(R)/sqrt(n)",
     .standing = ES_STANDING_PROVED},
    {"used", "points", "", ES_FORMAT_COUNT, "that are not saturated"},
    {"reason", "reason", "", ES_FORMAT_TEXT, "why there is no rate"},
    {0}};
static const es_table_spec fits_table = {
    "fits", fit_columns, ES_VIEW("Rates in n", "radius rate rate_p rate_expected used reason"),
    .keys = "radius"};

static const es_column growth_columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"radii", "radii", "", ES_FORMAT_COUNT, "that are not saturated"},
    {"slope", "slope", "", ES_FORMAT_REAL,
     "of ln(sqrt(n) sup) on R^2, weighted fit; error as above", .error = "slope_se"},
    {"slope_ci.0", "slope from", "", ES_FORMAT_REAL, "95 % interval, Student's t over replicates"},
    {"slope_ci.1", "slope to", "", ES_FORMAT_REAL},
    {"slope_predicted", "predicted", "", ES_FORMAT_REAL,
     "slope of the predicted constants at the same radii, in at most two dimensions",
     .standing = ES_STANDING_PROVED},
    {"slope_one_query", "one query", "", ES_FORMAT_REAL,
     "slope of the constants of a single query at the same radii", .standing = ES_STANDING_PROVED},
    {"slope_sharp", "H1^2/2", "", ES_FORMAT_SHORT, "for large R, Gaussian tokens",
     .standing = ES_STANDING_PROVED},
    {"slope_bound", "H1^2", "", ES_FORMAT_SHORT, "exponent of the papers' bound",
     .standing = ES_STANDING_CITED},
    {"reason", "reason", "", ES_FORMAT_TEXT, "why there is no slope"},
    {0}};
static const es_table_spec growth_table = {
    "growth", growth_columns,
    ES_VIEW("Growth in R",
            "n radii slope slope_predicted slope_one_query slope_sharp slope_bound reason"),
    .keys = "n"};

/* ---- what was measured ---- */

/* What is being made. */
typedef struct summary_ctx {
    es_job *job;
    const ball_params *p;
    const ball_state *s;
    es_table *rows, *fits, *growth;
    double *column; /* (replicates) to work in */
} summary_ctx;

/* Cells are (sizes, radii, columns): one number of a replicate. */
static double number(const summary_ctx *m, int64_t replicate, int64_t p, int64_t r, int which)
{
    return es_job_cell(m->job, 0, replicate)[(p * m->s->spec.n_radii + r) * BALL_COLUMNS + which];
}

/* Beyond saturation the error is that of the nearest token, which is bounded: such points would
 * bend both fits down, towards a rate and a growth that the limit does not have. */
static unsigned flags_of(const summary_ctx *m, int64_t p, int64_t r)
{
    return es_ball_saturated(&m->s->constants[r], (double)m->s->spec.sizes[p])
               ? (unsigned)ES_FIT_SATURATED
               : 0u;
}

/* ---- rows, and the rate in n at one R ---- */

/* tr V S V' in one dimension, for the form of the papers; NaN elsewhere. */
static double line_variance(const summary_ctx *m)
{
    const es_law *law = m->s->spec.law;
    const es_view *V = m->s->spec.head->V;
    double variance = (double)NAN;
    if (law->kind != ES_LAW_GAUSSIAN || law->dim != 1 || (V && V->rows != 1))
        return (double)NAN;
    const double v = V ? es_view_get(V, 0, 0) : 1.0;
    es_limit_token_moments(law, m->job->exec.budget, NULL, &variance, NULL);
    return v * v * variance;
}

/* Column `which` of the cells at one n and R: (replicates). */
static const double *column_of(const summary_ctx *m, int64_t p, int64_t r, int which)
{
    for (int64_t i = 0; i < m->p->replicates; i++)
        m->column[i] = number(m, i, p, r, which);
    return m->column;
}

static void put_row(const summary_ctx *m, int64_t p, int64_t r, const es_fit_summary *x)
{
    const ball_state *s = m->s;
    const double root = sqrt((double)s->spec.sizes[p]), radius = s->spec.radii[r];
    const int64_t R = m->p->replicates;
    const int64_t row = es_table_row(m->rows);
    es_put(m->rows, row, {"radius", radius}, {"n", (double)s->spec.sizes[p]},
           {"sup_error", x->mean}, {"sup_error_se", x->se}, {"sup_error_median", x->median},
           {"scaled", root * x->mean}, {"scaled_se", root * x->se}, {"predicted", s->sups[r].val},
           {"predicted_se", s->sups[r].err},
           {"scaled_rms", root * es_measured_rms(column_of(m, p, r, BALL_SUP), R, 1).value},
           {"predicted_rms", s->constants[r].rms},
           {"predicted_line", es_ball_line(radius * s->h1, line_variance(m))},
           {"maximiser_radius", es_spread_of(column_of(m, p, r, BALL_RADIUS), R, 1).mean});
    es_table_text(m->rows, row, "flag", flags_of(m, p, r) ? "saturated" : "");
}

static es_status sum_up_radius(const summary_ctx *m, int64_t r, es_error *err)
{
    es_series l;
    ES_TRY(es_series_new(&m->job->arena, m->p->replicates, m->s->spec.n_sizes, &l, err));
    for (int64_t p = 0; p < l.points; p++) {
        l.at[p] = (double)m->s->spec.sizes[p];
        l.flags[p] = flags_of(m, p, r);
        for (int64_t i = 0; i < l.replicates; i++)
            l.errors[i * l.points + p] = number(m, i, p, r, BALL_SUP);
    }
    ES_TRY(es_series_fit(&l, err));
    for (int64_t p = 0; p < l.points; p++)
        put_row(m, p, r, &l.summary[p]);
    const bool good = l.status == ES_OK;
    const int64_t row = es_table_row(m->fits);
    es_put(m->fits, row, {"radius", m->s->spec.radii[r]},
           {"rate", good ? l.rate.mean.rate : (double)NAN},
           {"rate_se", good ? l.rate.se : (double)NAN},
           {"rate_ci.0", good ? l.rate.low : (double)NAN},
           {"rate_ci.1", good ? l.rate.high : (double)NAN},
           {"rate_p", good ? l.rate.power_p : (double)NAN}, {"rate_expected", 0.5},
           {"used", (double)(good ? l.rate.mean.used : 0)});
    es_table_text(m->fits, row, "reason", l.reason);
    return ES_OK;
}

/* ---- growth in R at one n ---- */

/* ln(sqrt(n) E sup) against R^2 is the line of fit.h with "n" = exp(8 R^2/Rmax^2), which no radius
 * takes beyond the range of numbers; a rate there is -slope Rmax^2/8. */
static double unit_of(const summary_ctx *m)
{
    const double most = m->s->spec.radii[m->s->spec.n_radii - 1];
    return 8.0 / (most * most);
}

/* The slope that constants (radii) would have shown: each as uncertain, relative to itself, as what
 * was measured there. NaN if one of them is. */
static es_status put_slope(const summary_ctx *m, const es_series *l, int64_t row, const char *key,
                           const double *constants, es_error *err)
{
    double *se;
    ES_TRY(es_job_array(m->job, l->points, 1, sizeof *se, &se, err));
    for (int64_t r = 0; r < l->points; r++) {
        se[r] = constants[r] * l->summary[r].se / l->summary[r].mean;
        if (!isfinite(se[r])) /* of a single replicate */
            se[r] = constants[r];
    }
    es_table_real(m->growth, row, key,
                  l->status == ES_OK ? -es_series_rate_with(l, constants, se) * unit_of(m)
                                     : (double)NAN);
    return ES_OK;
}

static es_status put_predicted(const summary_ctx *m, const es_series *l, int64_t row, es_error *err)
{
    double *constants;
    ES_TRY(es_job_array(m->job, l->points, 1, sizeof *constants, &constants, err));
    for (int64_t r = 0; r < l->points; r++)
        constants[r] = m->s->sups[r].val;
    ES_TRY(put_slope(m, l, row, "slope_predicted", constants, err));
    for (int64_t r = 0; r < l->points; r++)
        constants[r] = m->s->constants[r].rms;
    return put_slope(m, l, row, "slope_one_query", constants, err);
}

static es_status sum_up_size(const summary_ctx *m, int64_t p, es_error *err)
{
    const double unit = unit_of(m), h2 = m->s->h1 * m->s->h1;
    es_series l;
    ES_TRY(es_series_new(&m->job->arena, m->p->replicates, m->s->spec.n_radii, &l, err));
    for (int64_t r = 0; r < l.points; r++) {
        l.at[r] = exp(unit * m->s->spec.radii[r] * m->s->spec.radii[r]);
        l.flags[r] = flags_of(m, p, r);
        for (int64_t i = 0; i < l.replicates; i++)
            l.errors[i * l.points + r] =
                sqrt((double)m->s->spec.sizes[p]) * number(m, i, p, r, BALL_SUP);
    }
    ES_TRY(es_series_fit(&l, err));
    const bool good = l.status == ES_OK;
    const double low = good ? -l.rate.high * unit : (double)NAN;
    const double high = good ? -l.rate.low * unit : (double)NAN;
    const int64_t row = es_table_row(m->growth);
    es_put(m->growth, row, {"n", (double)m->s->spec.sizes[p]},
           {"radii", (double)(good ? l.rate.mean.used : 0)},
           {"slope", good ? -l.rate.mean.rate * unit : (double)NAN},
           {"slope_se", good ? l.rate.se * unit : (double)NAN}, {"slope_ci.0", low},
           {"slope_ci.1", high},
           {"slope_sharp", m->s->spec.law->kind == ES_LAW_GAUSSIAN ? 0.5 * h2 : (double)NAN},
           {"slope_bound", h2});
    es_table_text(m->growth, row, "reason", l.reason);
    return put_predicted(m, &l, row, err);
}

/* ---- findings ---- */

/* The rate at the largest ball that has one. */
static void tell_rate(es_answer *a, const es_table *fits)
{
    char power[ES_SAY_ROOM];
    int64_t row = es_table_rows(fits) - 1;
    while (row >= 0 && !isfinite(es_table_get(fits, row, "rate")))
        row--;
    if (row >= 0)
        es_answer_add_finding(
            a,
            "The error of the worst query with |x| <= %.3g falls like %s; the papers' "
            "rate, for large n, is n^-0.5.",
            es_table_get(fits, row, "radius"),
            es_say_power(es_table_get(fits, row, "rate"), es_table_get(fits, row, "rate_se"),
                         power));
}

static void tell_growth(es_answer *a, const es_table *growth)
{
    char size[ES_SAY_ROOM], slope[ES_SAY_ROOM], predicted[ES_SAY_ROOM] = "",
                                                sharp[ES_SAY_ROOM] = "";
    const int64_t row = es_table_rows(growth) - 1;
    const double measured = es_table_get(growth, row, "slope");
    if (!isfinite(measured))
        return;
    if (isfinite(es_table_get(growth, row, "slope_predicted")))
        snprintf(predicted, sizeof predicted, " (%.3g is predicted for these radii)",
                 es_table_get(growth, row, "slope_predicted"));
    if (isfinite(es_table_get(growth, row, "slope_sharp")))
        snprintf(sharp, sizeof sharp, ", the sharp constant of Gaussian tokens by %.3g",
                 es_table_get(growth, row, "slope_sharp"));
    es_answer_add_finding(
        a,
        "At n = %s the logarithm of the worst error on a ball grows by %s per unit of "
        "R^2%s; for large R the papers' bound grows by %.3g%s.",
        es_say_size(es_table_get(growth, row, "n"), size),
        es_say_number(measured, es_table_get(growth, row, "slope_se"), slope), predicted,
        es_table_get(growth, row, "slope_bound"), sharp);
}

static es_status ball_summarise(es_job *job, es_answer *answer, es_error *err)
{
    summary_ctx m = {.job = job, .p = job->params, .s = job->state};
    ES_TRY(es_job_array(job, m.p->replicates, 1, sizeof *m.column, &m.column, err));
    m.rows = es_answer_table(answer, &rows_table);
    m.fits = es_answer_table(answer, &fits_table);
    m.growth = es_answer_table(answer, &growth_table);
    es_answer_count(answer, "replicates", m.p->replicates);
    es_answer_real(answer, "horizon_one_sided", m.s->h1);
    for (int64_t r = 0; r < m.s->spec.n_radii; r++)
        ES_TRY(sum_up_radius(&m, r, err));
    for (int64_t p = 0; p < m.s->spec.n_sizes; p++)
        ES_TRY(sum_up_size(&m, p, err));
    tell_rate(answer, m.fits);
    tell_growth(answer, m.growth);
    return ES_OK;
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher ball", "esscher ball --law sphere --dim 3 --radii 1,4,16,64",
    "esscher ball --dim 1 --radii 0.5,1,1.5 --n 1000..64000*4 --replicates 200",
    "esscher ball --A A.npy --Wv V.npy --cov S.npy --n 1e4,1e5 --out ball.run", NULL};

const es_study es_study_ball = {
    "ball",
    .summary = "the largest error over all queries with |x| <= R: uniform convergence",
    .group = ES_GROUP_LAB,
    .main_options = "law dim n radii replicates head A",
    .usage = "[options]",
    .about =
        "Draws tokens from a law and looks for the query in the ball |x| <= R at which "
        "attention over the first n of them is farthest from its limit, for every n and R. The "
        "papers bound that distance by C(R)/sqrt(n), with C(R) growing like exp(R^2 H1^2), H1 "
        "= |S^1/2 A| [cited]. Beside what is measured stand the constant that follows from the "
        "law (for Gaussian tokens it grows with half that exponent, for bounded ones like a "
        "power or not at all) [proved], the rate in n, and the growth in R^2.\n\n"
        "Where R is so large that n tokens hardly hold one of those that make the variance "
        "(Gaussian tokens: exp(2 R^2 H1^2) > 0.05 n), the distance stops growing; such points "
        "are flagged as saturated and left out of the fits. The search is an ascent from many "
        "starts: in high dimension what it finds is a lower bound.\n\n"
        "Grids are numbers, lists 0.5,1,2 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .params = params,
    .size = sizeof(ball_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
    .csv = "rows",
    .state = sizeof(ball_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = ball_summarise,
    .close = close_study};
