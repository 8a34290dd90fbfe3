/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : what the papers predict from a covariance and the weights of a head.
 *
 * With S the covariance of tokens and A = Wk'Wq/sqrt(k), THEORY 2 defines reach |S|, one-sided
 * horizon H1 = |S^1/2 A|, coupling Psi = |S| H1^2 and horizon H = |S^1/2 A S^1/2|. Errors then fall
 * at least like n^-rate with 1/(2 (1 + 32 Psi)) <= 1/(2 (1 + Psi)) <= 1/(2 (1 + H^2)), since
 * H^2 <= Psi. The factor 1/sqrt(k) belongs into A; the value without it, which public code
 * reports as H, has a column of its own. --n adds the errors at finite n without a fitted constant
 * (THEORY 4.5): they depend on the mean of q^2, the squared Frobenius norm, not on H alone. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/theory/theory.h"
#include "theory/theory.h"

#define FIELD(member) .field = offsetof(theory_params, member)
static const es_param params[] = {
    {"cov", 0, ES_PARAM_FILE, "FILE", "covariance S of the tokens, .npy (d, d)", FIELD(law.cov)},
    ES_LAW_DIM_PARAM(theory_params, law),
    ES_LAW_RHO_PARAM(theory_params, law),
    ES_HEAD_FILE_PARAMS(theory_params, head, "the identity"),
    {"tolerance", 0, ES_PARAM_NUMBER, "X",
     "eigenvalues of S down to -X times their mean count as 0; a covariance that was stored as f32 "
     "may need 1e-5",
     FIELD(tolerance), .min = 0.0, .max = 0.1, .default_note = "rounding of f64"},
    {"n", 'n', ES_PARAM_COUNTS, "GRID",
     "predict the errors that n Gaussian tokens will show, for each n from 3 on; with --values, "
     "those of n keys drawn from the given ones",
     FIELD(n), .min = 1, .max = 1e12, .unit = "tokens",
     .default_note = "none; with --values 1..1000000*13"},
    {"samples", 0, ES_PARAM_WHOLE, "N", "queries sampled for the prediction", FIELD(samples),
     .min = 16, .max = 4096, .default_note = "512"},
    {"scores", 0, ES_PARAM_FILE, "FILE",
     "instead of a head: scores of keys, .npy (N) or (queries, N), with the score scale included; "
     "-inf for a masked key",
     FIELD(scores)},
    {"weights", 0, ES_PARAM_FILE, "FILE",
     "instead of --scores: attention weights, which need not sum to 1, .npy (N) or (queries, N)",
     FIELD(weights)},
    {"values", 0, ES_PARAM_FILE, "FILE", "values of these keys, .npy (N, dv)", FIELD(values)},
    {"below", 0, ES_PARAM_NUMBER, "X",
     "report the n from which on the error of drawn keys is below X times the spread of the values",
     FIELD(below), .min = 1e-6, .max = 1e3, .default_value = "0.1"},
    {0}};

/* ---- predictions, one for each n ---- */

/* A cell: the errors of THEORY 4.5 with the tokens as queries, with fresh queries of the tokens'
 * law, the error that sampled queries leave, and local slopes. */
typedef struct prediction_cell {
    double query_rms, mean_rms, mean_abs, cov_bias, cov_rms;
    double population_query_rms, population_mean_rms, population_mean_abs, population_cov_bias,
        population_cov_rms;
    double sampling, slope_query, slope_mean, slope_cov;
} prediction_cell;

#define CELL(member) ES_FIELD(prediction_cell, member)
static const es_cell_field prediction_fields[] = {CELL(query_rms),
                                                  CELL(mean_rms),
                                                  CELL(mean_abs),
                                                  CELL(cov_bias),
                                                  CELL(cov_rms),
                                                  CELL(population_query_rms),
                                                  CELL(population_mean_rms),
                                                  CELL(population_mean_abs),
                                                  CELL(population_cov_bias),
                                                  CELL(population_cov_rms),
                                                  CELL(sampling),
                                                  CELL(slope_query),
                                                  CELL(slope_mean),
                                                  CELL(slope_cov),
                                                  {0}};

typedef struct prediction_row {
    int64_t n;
    prediction_cell at;
} prediction_row;

#define COL(member, ...) ES_COL_KEY(prediction_row, at.member, #member, __VA_ARGS__)
static const es_column prediction_columns[] = {
    ES_COL(prediction_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    COL(query_rms, ES_FORMAT_REAL, "one query", "",
        "root mean square error of one output; the tokens are the queries",
        .standing = ES_STANDING_PROVED),
    COL(slope_query, ES_FORMAT_SHORT, "slope", "",
        "-d ln error / d ln n of the column before it, at this n", .standing = ES_STANDING_PROVED),
    COL(mean_rms, ES_FORMAT_REAL, "mean", "",
        "root mean square error of the mean output over queries",
        .standing = ES_STANDING_HEURISTIC),
    COL(slope_mean, ES_FORMAT_SHORT, "slope ", "", .standing = ES_STANDING_HEURISTIC),
    COL(cov_rms, ES_FORMAT_REAL, "covariance", "",
        "root mean square of the Frobenius norm of the error of the outputs' covariance",
        .standing = ES_STANDING_HEURISTIC),
    COL(slope_cov, ES_FORMAT_SHORT, "slope  ", "", .standing = ES_STANDING_HEURISTIC),
    COL(mean_abs, ES_FORMAT_REAL, "E|mean|", "",
        "expected error of the mean output, as if it were Gaussian",
        .standing = ES_STANDING_HEURISTIC),
    COL(cov_bias, ES_FORMAT_REAL, "bias", "",
        "norm of the expected error of the covariance, with the sign of its trace",
        .standing = ES_STANDING_HEURISTIC),
    COL(population_query_rms, ES_FORMAT_REAL, "one fresh query", "",
        "as one query, for queries that are no tokens; likewise below",
        .standing = ES_STANDING_PROVED),
    COL(population_mean_rms, ES_FORMAT_REAL, "mean, fresh queries", "",
        .standing = ES_STANDING_HEURISTIC),
    COL(population_mean_abs, ES_FORMAT_REAL, "E|mean|, fresh queries", "",
        .standing = ES_STANDING_HEURISTIC),
    COL(population_cov_rms, ES_FORMAT_REAL, "covariance, fresh queries", "",
        .standing = ES_STANDING_HEURISTIC),
    COL(population_cov_bias, ES_FORMAT_REAL, "bias, fresh queries", "",
        .standing = ES_STANDING_HEURISTIC),
    COL(sampling, ES_FORMAT_SHORT, "sampling", "",
        "relative standard error that sampled queries leave in mean or covariance"),
    {0}};
static const es_table_spec prediction_table = {
    "prediction", prediction_columns,
    ES_VIEW("Prediction for n Gaussian tokens",
            "n query_rms slope_query mean_rms slope_mean cov_rms slope_cov sampling",
            "From S and the head alone; queries are sampled."),
    ES_ROW(prediction_row), .keys = "n"};

/* A matrix that is no covariance can only be that of --cov. */
static es_status blame(const theory_params *p, es_status status, es_error *err)
{
    const bool matrix = status != ES_OK && strncmp(err->rule, "linalg.", 7) == 0;
    return matrix ? es_blame_file(status, p->law.cov, err) : status;
}

/* THEORY 4.5: bias exact, variance to first order of an ANOVA, queries sampled from the seed. */
static es_status run_prediction(es_job *job, int64_t cell, const es_exec *exec, void *out,
                                es_error *err)
{
    const theory_params *p = job->params;
    const theory_state *s = job->state;
    const es_predict_opts opts = {.samples = p->samples, .seed = job->seed};
    es_prediction value, slope;
    ES_TRY(blame(p,
                 es_predict_general(&s->cov.view, p->tolerance, &s->head.head,
                                    (double)p->n.counts[cell], &opts, exec->budget, &value, &slope,
                                    err),
                 err));
    const es_predicted *self = &value.self, *fresh = &value.population;
    *(prediction_cell *)out = (prediction_cell){.query_rms = self->query_rms,
                                                .mean_rms = self->mean_rms,
                                                .mean_abs = self->mean_abs,
                                                .cov_bias = self->cov_bias,
                                                .cov_rms = self->cov_rms,
                                                .population_query_rms = fresh->query_rms,
                                                .population_mean_rms = fresh->mean_rms,
                                                .population_mean_abs = fresh->mean_abs,
                                                .population_cov_bias = fresh->cov_bias,
                                                .population_cov_rms = fresh->cov_rms,
                                                .sampling = value.sampling,
                                                .slope_query = slope.self.query_rms,
                                                .slope_mean = slope.self.mean_rms,
                                                .slope_cov = slope.self.cov_rms};
    return ES_OK;
}

/* Adds the predictions of the horizon at each n. */
static es_status add_predictions(const es_job *job, es_answer *a, es_error *err)
{
    const es_grid *n = &((const theory_params *)job->params)->n;
    es_table *t = es_answer_table(a, &prediction_table);
    for (int64_t i = 0; i < n->count; i++) {
        const prediction_cell *found = es_job_cell(job, 0, i);
        prediction_row *r = es_rows_add(t, prediction_row);
        if (!r)
            return es_answer_status(a, err);
        *r = (prediction_row){n->counts[i], *found};
    }
    return ES_OK;
}

/* ---- horizons ---- */

typedef struct horizon_row {
    int64_t dim, head_dim;
    double reach, horizon_one_sided, horizon, horizon_unscaled, coupling, frobenius, trace,
        rate_worst_case, rate_coupling, rate_horizon;
} horizon_row;

static const es_column horizon_columns[] = {
    ES_COL(horizon_row, dim, ES_FORMAT_COUNT, "dimension d", ""),
    ES_COL(horizon_row, head_dim, ES_FORMAT_COUNT, "head dimension k", ""),
    ES_COL(horizon_row, reach, ES_FORMAT_REAL, "reach", "", "largest eigenvalue of S"),
    ES_COL(horizon_row, horizon_one_sided, ES_FORMAT_REAL, "one-sided horizon", "",
           "spectral norm of `S^1/2 A`"),
    ES_COL(horizon_row, horizon, ES_FORMAT_REAL, "horizon H", "",
           "spectral norm of `M = S^1/2 A S^1/2`; A includes the `1/sqrt(k)` of the scores"),
    ES_COL(horizon_row, horizon_unscaled, ES_FORMAT_REAL, "H without 1/sqrt(k)", "",
           "what the papers' public code calls H"),
    ES_COL(horizon_row, coupling, ES_FORMAT_REAL, "coupling", "",
           "`Psi` = reach x (one-sided horizon)^2, never below `H^2`"),
    ES_COL(horizon_row, frobenius, ES_FORMAT_REAL, "Frobenius norm F", "",
           "of M; `F^2` is the mean variance of a query's scores, to compare with `2 ln n`"),
    ES_COL(horizon_row, trace, ES_FORMAT_REAL, "trace", "",
           "of M: what a token adds to its own score"),
    ES_COL(horizon_row, rate_worst_case, ES_FORMAT_REAL, "worst-case rate", "",
           "`1/(2(1 + 32 Psi))`: error at most `n^-rate`, of the paper's first version",
           .standing = ES_STANDING_CITED),
    ES_COL(horizon_row, rate_coupling, ES_FORMAT_REAL, "coupling rate", "",
           "`1/(2(1 + Psi))`: between the other two, since `H^2 <= Psi`, so a bound wherever the "
           "horizon rate is one",
           .standing = ES_STANDING_PROVED),
    ES_COL(horizon_row, rate_horizon, ES_FORMAT_REAL, "horizon rate", "",
           "`1/(2(1 + H^2))`: the paper's later bound", .standing = ES_STANDING_CITED),
    {0}};
static const es_table_spec horizon_table = {
    "horizons", horizon_columns,
    ES_VIEW("Horizons", "dim head_dim reach horizon_one_sided horizon horizon_unscaled coupling "
                        "frobenius rate_worst_case rate_coupling rate_horizon"),
    ES_ROW(horizon_row), .record = true};

/* Bounds on rounding, not standard errors, under the same keys. */
static const es_table_spec error_table = {"errors", horizon_columns, NULL, ES_ROW(horizon_row),
                                          .record = true};

/* Repeats every number of the table's only row as a single result at the top level of JSON. */
static void repeat_as_results(es_answer *a, const es_table *t)
{
    es_table_column c;
    for (int64_t j = 0; es_table_column_at(t, j, &c); j++)
        if (c.format == ES_FORMAT_COUNT)
            es_answer_count(a, c.key, (int64_t)es_column_real(&c, 0));
        else
            es_answer_real(a, c.key, es_column_real(&c, 0));
}

/* THEORY 2. A query x ~ N(0, S) has scores of variance q^2 = |S^1/2 A x|^2 = |M g|^2, M = S^1/2 A
 * S^1/2 and g standard normal: H = |M| bounds how fast q grows with |g|, F^2 = |M|_F^2 = E q^2. The
 * coupling |S| |S^1/2 A|^2 >= H^2 is what the worst case is stated in. */
static es_status add_horizons(const theory_state *s, const es_horizons *h, es_answer *a,
                              es_error *err)
{
    es_table *values = es_answer_table(a, &horizon_table),
             *errors = es_answer_table(a, &error_table);
    horizon_row *v = es_rows_add(values, horizon_row), *e = es_rows_add(errors, horizon_row);
    if (!v || !e)
        return es_answer_status(a, err);
    v->dim = s->cov.rows;
    if (s->head.head.Wq)
        v->head_dim = s->head.head.Wq->rows;
    v->reach = h->reach.val, e->reach = h->reach.err;
    v->horizon_one_sided = h->one_sided.val, e->horizon_one_sided = h->one_sided.err;
    v->horizon = h->horizon.val, e->horizon = h->horizon.err;
    v->horizon_unscaled = h->unscaled.val, e->horizon_unscaled = h->unscaled.err;
    v->coupling = h->coupling.val, e->coupling = h->coupling.err;
    v->frobenius = h->frobenius.val, e->frobenius = h->frobenius.err;
    v->trace = h->trace;
    v->rate_worst_case = h->rate_worst_case;
    v->rate_coupling = h->rate_coupling;
    v->rate_horizon = h->rate_horizon;
    repeat_as_results(a, values);
    return ES_OK;
}

/* ---- exponents ---- */

typedef struct exponent_row {
    double paper, query_rms, mean_rms, mean_abs, cov_bias;
} exponent_row;

static const es_column exponent_columns[] = {
    ES_COL(exponent_row, paper, ES_FORMAT_REAL, "horizon rate", "", "`1/(2(1 + H^2))`",
           .standing = ES_STANDING_CITED),
    ES_COL(exponent_row, query_rms, ES_FORMAT_REAL, "one query, RMS", "",
           "root mean square over queries and tokens of one output's error",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(exponent_row, mean_rms, ES_FORMAT_REAL, "mean, RMS", "",
           "error of the mean output over queries", .standing = ES_STANDING_HEURISTIC),
    ES_COL(exponent_row, mean_abs, ES_FORMAT_REAL, "mean, E|.|", "",
           "the same, typical instead of root mean square", .standing = ES_STANDING_HEURISTIC),
    ES_COL(exponent_row, cov_bias, ES_FORMAT_REAL, "covariance, bias", "",
           "of the covariance of outputs", .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec exponent_table = {
    "exponents", exponent_columns,
    ES_VIEW(
        "Exponents: error ~ n^-exponent as n grows without bound, Gaussian tokens",
        "query_rms mean_rms mean_abs cov_bias",
        "Heuristic, from large deviations; exact integrals up to n = 1e16 agree within 2 % where "
        "the approach is not logarithmic."),
    ES_ROW(exponent_row), .record = true};

/* THEORY 4.4, heuristic: a query with q^2 = 2 u^2 ln n has a mean square error n^-2r(u) (4.3) and a
 * density exp(-q^2/2H^2) = n^(-u^2/H^2); the u with the least sum of the two exponents wins the
 * average over queries, which leaves exponents of H alone. */
static es_status add_exponents(const es_exponents *x, es_answer *a, es_error *err)
{
    exponent_row *r = es_rows_add(es_answer_table(a, &exponent_table), exponent_row);
    if (!r)
        return es_answer_status(a, err);
    *r = (exponent_row){x->paper, x->query_rms, x->mean_rms, x->mean_abs, x->cov_bias};
    return ES_OK;
}

/* ---- the question ---- */

/* Opens the question of a head and a covariance. */
static es_status open_horizons(es_job *job, es_error *err)
{
    theory_params *p = job->params;
    theory_state *s = job->state;
    if ((p->samples || p->head.file[ES_HEAD_WV]) && !p->n.count)
        return es_refuse(err, "theory.options", "add --n GRID",
                         "--samples and --Wv are for the prediction");
    p->tolerance = isnan(p->tolerance) ? 0.0 : p->tolerance;
    ES_TRY(es_law_cov(job, &p->law, &s->cov, err));
    ES_TRY(es_head_make(job, &p->head, s->cov.rows, ES_HEAD_REQUIRED, false, &s->head, err));
    const double samples = p->samples ? (double)p->samples : 512.0;
    return es_job_stage(
        job,
        &(es_stage){
            "prediction", .phase = "predicting", .noun = "predictions", .cells = p->n.count,
            .rows = 1, ES_RECORD(prediction_cell, prediction_fields), .one_thread_per_cell = true,
            .flops = samples * samples * (4000.0 + (double)s->cov.rows), .run = run_prediction},
        err);
}

/* ---- findings ---- */

/* Reports the rates as n grows without bound, then the errors at the largest n that was asked. */
static void report(const es_job *job, const es_horizons *h, const es_exponents *x, es_answer *a)
{
    const es_grid *n = &((const theory_params *)job->params)->n;
    es_answer_add_finding(
        a,
        "The horizon, which decides the rate, is H = %.6g (within %.1g). As n grows "
        "without bound, the error of one output falls like n^-%.3g and that of "
        "the mean output like n^-%.3g; the papers prove n^-%.3g or faster for both.",
        h->horizon.val, h->horizon.err, x->query_rms, x->mean_rms, x->paper);
    if (n->count == 0)
        return;
    const prediction_cell *last = es_job_cell(job, 0, n->count - 1);
    es_answer_add_finding(a,
                          "At n = %.8g the root mean square error is %.4g for one output and %.4g "
                          "for the mean; there they fall like n^-%.3g and n^-%.3g.",
                          n->reals[n->count - 1], last->query_rms, last->mean_rms,
                          last->slope_query, last->slope_mean);
}

/* Fills horizons and exponents, and predictions at --n. */
static es_status summarise_horizons(es_job *job, es_answer *answer, es_error *err)
{
    const theory_params *p = job->params;
    const theory_state *s = job->state;
    es_horizons h;
    es_exponents x;
    ES_TRY(blame(
        p, es_horizons_of(&s->cov.view, p->tolerance, &s->head.head, job->exec.budget, &h, err),
        err));
    ES_TRY(es_exponents_at(h.horizon.val, &x, err));
    if (p->n.count)
        ES_TRY(add_predictions(job, answer, err));
    ES_TRY(add_horizons(s, &h, answer, err));
    ES_TRY(add_exponents(&x, answer, err));
    report(job, &h, &x, answer);
    return ES_OK;
}

/* ---- which question a run asks ---- */

static const theory_question theory_horizons = {open_horizons, summarise_horizons};

/* Chooses the question: a head and a covariance, or given scores or weights. */
static es_status open_study(es_job *job, es_error *err)
{
    theory_state *s = job->state;
    s->question = theory_draws_asked(job->params) ? &theory_draws : &theory_horizons;
    return s->question->open(job, err);
}

/* Summarises the chosen question. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const theory_state *s = job->state;
    return s->question->summarise(job, answer, err);
}

static const char *const examples[] = {
    "esscher theory --cov S.npy --Wq Wq.npy --Wk Wk.npy",
    "esscher theory --dim 50 --rho 0.1 --A A.npy --json",
    "esscher theory --cov S.npy --Wq Wq.npy --Wk Wk.npy --Wv Wv.npy --n 1e3..3e4*4",
    "esscher theory --scores scores.npy --values v.npy --n 64,512,4096", NULL};

const es_study es_study_theory = {
    "theory",
    .summary = "which convergence rate and error the theory predicts from your statistics",
    .group = ES_GROUP_LAB,
    .main_options = "cov dim Wq Wk A n scores weights values",
    .usage =
        "(--cov S.npy | --dim D) (--Wq Wq.npy --Wk Wk.npy | --A A.npy) [options], or (--scores "
        "S.npy | --weights W.npy) --values V.npy [options]",
    .about =
        "Says, without running attention, how fast a head's output on n tokens approaches its "
        "limit. The papers' theorems use norms of the head and of the tokens' covariance S "
        "[cited]. The main one is the horizon H, the spectral norm of S^1/2 A S^1/2, for scores "
        "<Ax, y> with the 1/sqrt(k) inside A: the larger H, the slower the convergence. Gives "
        "these "
        "norms and the exponents of n that follow for Gaussian tokens [heuristic]. With --n also "
        "the errors that an experiment on n tokens will "
        "measure (of one output [proved], of mean and covariance to first order in one token "
        "[heuristic]), and their local slopes, which at any n one can afford differ from the "
        "exponents.\n\n"
        "With --scores or --weights, and --values: the error of attention over n of these keys, "
        "drawn independently with replacement, against attention over all of them. No law is "
        "assumed and nothing is drawn: one integral for each query, exact for every n [proved].",
    .examples = examples,
    .params = params,
    .size = sizeof(theory_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
    .keeps_nothing = true,
    .state = sizeof(theory_state),
    .open = open_study,
    .summarise = summarise};
