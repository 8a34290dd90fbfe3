/* question.c : what the papers predict from a covariance and the weights of a head. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/theory/question.h"
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
     "instead of a head: scores of keys, .npy (N) or (queries, N), scaled as the softmax takes "
     "them; -inf for a key that is masked",
     FIELD(scores)},
    {"weights", 0, ES_PARAM_FILE, "FILE", "or their weights, of any sum, .npy (N) or (queries, N)",
     FIELD(weights)},
    {"values", 0, ES_PARAM_FILE, "FILE", "values of these keys, .npy (N, dv)", FIELD(values)},
    {"below", 0, ES_PARAM_NUMBER, "X",
     "from which n the error of drawn keys is below X times the spread of the values", FIELD(below),
     .min = 1e-6, .max = 1e3, .default_value = "0.1"},
    {0}};

/* ---- tables ---- */

static const es_column prediction_columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"query_rms", "one query", "", ES_FORMAT_REAL,
     "root mean square error of one output; the tokens are the queries",
     .standing = ES_STANDING_PROVED},
    {"slope_query", "slope", "", ES_FORMAT_SHORT,
     "-d ln error / d ln n of the column before it, at this n", .standing = ES_STANDING_PROVED},
    {"mean_rms", "mean", "", ES_FORMAT_REAL,
     "root mean square error of the mean output over queries", .standing = ES_STANDING_HEURISTIC},
    {"slope_mean", "slope ", "", ES_FORMAT_SHORT, .standing = ES_STANDING_HEURISTIC},
    {"cov_rms", "covariance", "", ES_FORMAT_REAL,
     "root mean square of the Frobenius norm of the error of the outputs' covariance",
     .standing = ES_STANDING_HEURISTIC},
    {"slope_cov", "slope  ", "", ES_FORMAT_SHORT, .standing = ES_STANDING_HEURISTIC},
    {"mean_abs", "E|mean|", "", ES_FORMAT_REAL,
     "expected error of the mean output, as if it were Gaussian",
     .standing = ES_STANDING_HEURISTIC},
    {"cov_bias", "bias", "", ES_FORMAT_REAL,
     "norm of the expected error of the covariance, with the sign of its trace",
     .standing = ES_STANDING_HEURISTIC},
    {"population_query_rms", "one fresh query", "", ES_FORMAT_REAL,
     "as one query, for queries that are no tokens; likewise below",
     .standing = ES_STANDING_PROVED},
    {"population_mean_rms", "mean, fresh queries", "", ES_FORMAT_REAL,
     .standing = ES_STANDING_HEURISTIC},
    {"population_mean_abs", "E|mean|, fresh queries", "", ES_FORMAT_REAL,
     .standing = ES_STANDING_HEURISTIC},
    {"population_cov_rms", "covariance, fresh queries", "", ES_FORMAT_REAL,
     .standing = ES_STANDING_HEURISTIC},
    {"population_cov_bias", "bias, fresh queries", "", ES_FORMAT_REAL,
     .standing = ES_STANDING_HEURISTIC},
    {"sampling", "sampling", "", ES_FORMAT_SHORT,
     "relative standard error that sampled queries leave in mean or covariance"},
    {0}};
static const es_table_spec prediction_table = {
    "prediction", prediction_columns,
    ES_VIEW("Prediction for n Gaussian tokens",
            "n query_rms slope_query mean_rms slope_mean cov_rms slope_cov sampling",
            "From S and the head alone; queries are sampled."),
    .keys = "n"};

static const es_column horizon_columns[] = {
    {"dim", "dimension d", "", ES_FORMAT_COUNT},
    {"head_dim", "head dimension k", "", ES_FORMAT_COUNT},
    {"reach", "reach", "", ES_FORMAT_REAL, "largest eigenvalue of S"},
    {"horizon_one_sided", "one-sided horizon", "", ES_FORMAT_REAL, "spectral norm of S^1/2 A"},
    {"horizon", "horizon H", "", ES_FORMAT_REAL,
     "spectral norm of M = S^1/2 A S^1/2; A includes the 1/sqrt(k) of the scores"},
    {"horizon_unscaled", "H without 1/sqrt(k)", "", ES_FORMAT_REAL,
     "what the papers' public code calls H"},
    {"coupling", "coupling", "", ES_FORMAT_REAL,
     "Psi = reach x (one-sided horizon)^2, never below H^2"},
    {"frobenius", "Frobenius norm F", "", ES_FORMAT_REAL,
     "of M; F^2 is the mean variance of a query's scores, to compare with 2 ln n"},
    {"trace", "trace", "", ES_FORMAT_REAL, "of M: what a token adds to its own score"},
    {"rate_worst_case", "worst-case rate", "", ES_FORMAT_REAL,
     "1/(2(1 + 32 Psi)): error at most n^-rate, of the paper's first version",
     .standing = ES_STANDING_CITED},
    {"rate_coupling", "coupling rate", "", ES_FORMAT_REAL,
     "1/(2(1 + Psi)): between the other two, since H^2 <= Psi, so a bound wherever the horizon "
     "rate is one",
     .standing = ES_STANDING_PROVED},
    {"rate_horizon", "horizon rate", "", ES_FORMAT_REAL, "1/(2(1 + H^2)): the paper's later bound",
     .standing = ES_STANDING_CITED},
    {0}};
static const es_table_spec horizon_table = {
    "horizons", horizon_columns,
    ES_VIEW("Horizons", "dim head_dim reach horizon_one_sided horizon horizon_unscaled coupling "
                        "frobenius rate_worst_case rate_coupling rate_horizon"),
    .record = true};

/* Bounds on rounding, not standard errors: they stand by themselves, under the same keys. */
static const es_table_spec error_table = {"errors", horizon_columns, NULL, .record = true};

static const es_column exponent_columns[] = {
    {"paper", "horizon rate", "", ES_FORMAT_REAL, "1/(2(1 + H^2))", .standing = ES_STANDING_CITED},
    {"query_rms", "one query, RMS", "", ES_FORMAT_REAL,
     "root mean square over queries and tokens of one output's error",
     .standing = ES_STANDING_HEURISTIC},
    {"mean_rms", "mean, RMS", "", ES_FORMAT_REAL, "error of the mean output over queries",
     .standing = ES_STANDING_HEURISTIC},
    {"mean_abs", "mean, E|.|", "", ES_FORMAT_REAL, "the same, typical instead of root mean square",
     .standing = ES_STANDING_HEURISTIC},
    {"cov_bias", "covariance, bias", "", ES_FORMAT_REAL, "of the covariance of outputs",
     .standing = ES_STANDING_HEURISTIC},
    {0}};
static const es_table_spec exponent_table = {
    "exponents", exponent_columns,
    ES_VIEW(
        "Exponents: error ~ n^-exponent as n grows without bound, Gaussian tokens",
        "query_rms mean_rms mean_abs cov_bias",
        "Heuristic, from large deviations; exact integrals up to n = 1e16 agree within 2 % where "
        "the approach is not logarithmic."),
    .record = true};

/* ---- predictions, one for each n ---- */

enum { SELF = 0, POPULATION = 5, SAMPLING = 10, SLOPE_QUERY, SLOPE_MEAN, SLOPE_COV, COLUMNS };
/* clang-format off */
static const char *const cell_columns[COLUMNS] = {
    "query_rms", "mean_rms", "mean_abs", "cov_bias", "cov_rms", "population_query_rms",
    "population_mean_rms", "population_mean_abs", "population_cov_bias", "population_cov_rms",
    "sampling", "slope_query", "slope_mean", "slope_cov"};
/* clang-format on */

/* In the order of cell_columns, for tokens as queries and for fresh ones alike. */
static void pack_predicted(const es_predicted *p, double *out)
{
    out[0] = p->query_rms;
    out[1] = p->mean_rms;
    out[2] = p->mean_abs;
    out[3] = p->cov_bias;
    out[4] = p->cov_rms;
}

/* A matrix that is no covariance can only be that of --cov. */
static es_status blame(const theory_params *p, es_status status, es_error *err)
{
    const bool matrix = status != ES_OK && strncmp(err->rule, "linalg.", 7) == 0;
    return matrix ? es_blame_file(status, p->law.cov, err) : status;
}

/* THEORY 4.5: bias exact, variance to first order of an ANOVA, queries sampled from the seed. */
static es_status run_prediction(es_job *job, int64_t cell, const es_exec *exec, double *out,
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
    pack_predicted(&value.self, out + SELF);
    pack_predicted(&value.population, out + POPULATION);
    out[SAMPLING] = value.sampling;
    out[SLOPE_QUERY] = slope.self.query_rms;
    out[SLOPE_MEAN] = slope.self.mean_rms;
    out[SLOPE_COV] = slope.self.cov_rms;
    return ES_OK;
}

static es_status open_study(es_job *job, es_error *err)
{
    theory_params *p = job->params;
    theory_state *s = job->state;
    if (theory_draws_asked(p))
        return theory_draws_open(job, err);
    if ((p->samples || p->head.file[ES_HEAD_WV]) && !p->n.count)
        return es_refuse(err, "theory.options", "add --n GRID",
                         "--samples and --Wv are for the prediction");
    p->tolerance = isnan(p->tolerance) ? 0.0 : p->tolerance;
    ES_TRY(es_law_cov(job, &p->law, &s->cov, err));
    ES_TRY(es_head_make(job, &p->head, s->cov.rows, ES_HEAD_REQUIRED, false, &s->head, err));
    const double samples = p->samples ? (double)p->samples : 512.0;
    return es_job_stage(job,
                        &(es_stage){"prediction", .phase = "predicting", .noun = "predictions",
                                    .cells = p->n.count, .rows = 1, .cols = COLUMNS,
                                    .columns = cell_columns, .one_thread_per_cell = true,
                                    .flops = samples * samples * (4000.0 + (double)s->cov.rows),
                                    .run = run_prediction},
                        err);
}

/* ---- what it says ---- */

static void put_predictions(const es_job *job, es_answer *a)
{
    const es_grid *n = &((const theory_params *)job->params)->n;
    es_table *t = es_answer_table(a, &prediction_table);
    for (int64_t i = 0; i < n->count; i++) {
        const double *cell = es_job_cell(job, 0, i);
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "n", n->counts[i]);
        for (int k = 0; k < COLUMNS; k++)
            es_table_real(t, row, cell_columns[k], cell[k]);
    }
}

/* A number of the table of horizons; results stand at the top level, too. */
static void put_number(es_answer *a, const char *key, double value)
{
    es_answer_real(a, key, value);
    es_table_real(es_answer_table(a, &horizon_table), 0, key, value);
}

static void put_count(es_answer *a, const char *key, int64_t value)
{
    es_answer_count(a, key, value);
    es_table_count(es_answer_table(a, &horizon_table), 0, key, value);
}

/* THEORY 2. A query x ~ N(0, S) has scores of variance q^2 = |S^1/2 A x|^2 = |M g|^2, M = S^1/2 A
 * S^1/2 and g standard normal: H = |M| bounds how fast q grows with |g|, F^2 = |M|_F^2 = E q^2. The
 * coupling |S| |S^1/2 A|^2 >= H^2 is what the worst case is stated in. */
static void put_horizons(const theory_state *s, const es_horizons *h, es_answer *a)
{
    const struct {
        const char *key;
        es_num num;
    } numbers[] = {{"reach", h->reach},       {"horizon_one_sided", h->one_sided},
                   {"horizon", h->horizon},   {"horizon_unscaled", h->unscaled},
                   {"coupling", h->coupling}, {"frobenius", h->frobenius}};
    es_table_row(es_answer_table(a, &horizon_table));
    es_table *errors = es_answer_table(a, &error_table);
    es_table_row(errors);
    put_count(a, "dim", s->cov.rows);
    if (s->head.head.Wq)
        put_count(a, "head_dim", s->head.head.Wq->rows);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        put_number(a, numbers[i].key, numbers[i].num.val);
        es_table_real(errors, 0, numbers[i].key, numbers[i].num.err);
    }
    put_number(a, "trace", h->trace);
    put_number(a, "rate_worst_case", h->rate_worst_case);
    put_number(a, "rate_coupling", h->rate_coupling);
    put_number(a, "rate_horizon", h->rate_horizon);
}

/* THEORY 4.4, heuristic: a query with q^2 = 2 u^2 ln n has a mean square error n^-2r(u) (4.3) and a
 * density exp(-q^2/2H^2) = n^(-u^2/H^2); the u with the least sum of the two exponents wins the
 * average over queries, which leaves exponents of H alone. */
static void put_exponents(const es_exponents *x, es_answer *a)
{
    es_table *t = es_answer_table(a, &exponent_table);
    es_table_row(t);
    es_put(t, 0, {"paper", x->paper}, {"query_rms", x->query_rms}, {"mean_rms", x->mean_rms},
           {"mean_abs", x->mean_abs}, {"cov_bias", x->cov_bias});
}

static void tell(const es_job *job, const es_horizons *h, const es_exponents *x, es_answer *a)
{
    const es_grid *n = &((const theory_params *)job->params)->n;
    es_answer_add_finding(
        a,
        "The horizon is H = %.6g (within %.1g; reach %.4g, coupling %.4g, F = %.4g): as n grows "
        "without bound the root mean square error of one output falls like n^-%.3g and that of the "
        "mean output like n^-%.3g, typically n^-%.3g; the papers prove n^-%.3g.",
        h->horizon.val, h->horizon.err, h->reach.val, h->coupling.val, h->frobenius.val,
        x->query_rms, x->mean_rms, x->mean_abs, x->paper);
    if (n->count == 0)
        return;
    const double *cell = es_job_cell(job, 0, n->count - 1);
    es_answer_add_finding(
        a,
        "At n = %.8g it will be %.4g for one output and %.4g for the mean, both root "
        "mean squares, falling there like n^-%.3g and n^-%.3g; sampled queries leave "
        "%.2g %% in the mean or the covariance.",
        n->reals[n->count - 1], cell[SELF], cell[SELF + 1], cell[SLOPE_QUERY], cell[SLOPE_MEAN],
        100.0 * cell[SAMPLING]);
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const theory_params *p = job->params;
    const theory_state *s = job->state;
    es_horizons h;
    es_exponents x;
    if (theory_draws_asked(p))
        return theory_draws_summarise(job, answer, err);
    ES_TRY(blame(
        p, es_horizons_of(&s->cov.view, p->tolerance, &s->head.head, job->exec.budget, &h, err),
        err));
    ES_TRY(es_exponents_at(h.horizon.val, &x, err));
    if (p->n.count)
        put_predictions(job, answer);
    put_horizons(s, &h, answer);
    put_exponents(&x, answer);
    tell(job, &h, &x, answer);
    return ES_OK;
}

static const char *const examples[] = {
    "esscher theory --cov S.npy --Wq Wq.npy --Wk Wk.npy",
    "esscher theory --dim 50 --rho 0.1 --A A.npy --json",
    "esscher theory --cov S.npy --Wq Wq.npy --Wk Wk.npy --Wv Wv.npy --n 1e3..3e4*4",
    "esscher theory --scores scores.npy --values v.npy --n 64,512,4096", NULL};

const es_study es_study_theory = {
    "theory",
    .summary = "which horizon, rate and error the theory predicts from your statistics",
    .group = ES_GROUP_LAB,
    .main_options = "cov dim Wq Wk A n scores weights values",
    .usage =
        "(--cov S.npy | --dim D) (--Wq Wq.npy --Wk Wk.npy | --A A.npy) [options], or (--scores "
        "S.npy | --weights W.npy) --values V.npy [options]",
    .about =
        "Says, without running attention, how fast a head's output on n tokens approaches its "
        "limit: the norms that the papers' theorems are stated in [cited], and the exponents of n "
        "that follow for Gaussian tokens [heuristic]. With --n also the errors that an experiment "
        "on n tokens will measure (of one output [proved], of mean and covariance to first order "
        "in one token [heuristic]), and their local slopes, which at any n one can afford differ "
        "from the exponents. Scores are x'A'y with the 1/sqrt(k) inside A.\n\n"
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
