/* esscher theory : what the papers predict from a covariance and the weights of a head. */
#include <math.h>
#include <stdlib.h>

#include <esscher/theory.h>

#include "answer.h"
#include "grid.h"
#include "talk.h"

enum { COV, WQ, WK, A, V, WV, FILES };

typedef struct theory_options {
    const char *paths[FILES];
    int64_t dim; /* 0: not given */
    double rho, tolerance;
    cli_grid n;
    int64_t samples;
} theory_options;

static const theory_options defaults = {.rho = NAN};

static const cli_option options[] = {
    {"cov", 0, CLI_STRING, "FILE", "covariance S of the tokens, .npy of shape (d, d)",
     .field = offsetof(theory_options, paths[COV])},
    {"dim", 0, CLI_WHOLE, "D", "instead of --cov: S = R I in D dimensions",
     .field = offsetof(theory_options, dim), .min = 1, .max = 4096},
    {"rho", 0, CLI_NUMBER, "R", "the variance R that goes with --dim (default: 1)",
     .field = offsetof(theory_options, rho), .min = 0.0, .max = 1e30},
    {"Wq", 0, CLI_STRING, "FILE", "query weights (k, d); with --Wk, A = Wk'Wq / sqrt(k)",
     .field = offsetof(theory_options, paths[WQ])},
    {"Wk", 0, CLI_STRING, "FILE", "key weights (k, d)",
     .field = offsetof(theory_options, paths[WK])},
    {"A", 0, CLI_STRING, "FILE", "instead of --Wq and --Wk: A (d, d) itself, scores are x'A'y",
     .field = offsetof(theory_options, paths[A])},
    {"tolerance", 0, CLI_NUMBER, "X",
     "eigenvalues of S down to -X times their mean count as 0 (default: rounding of f64; a "
     "covariance that was stored as f32 may need 1e-5)",
     .field = offsetof(theory_options, tolerance), .min = 0.0, .max = 0.1},
    {"V", 0, CLI_STRING, "FILE", "value weights (dv, d) (default: the identity)",
     .field = offsetof(theory_options, paths[V])},
    {"Wv", 0, CLI_STRING, "FILE", "the same under its other name",
     .field = offsetof(theory_options, paths[WV])},
    {"n", 0, CLI_COUNTS, "GRID", "predict the errors that n Gaussian tokens will show, for each n",
     .field = offsetof(theory_options, n), .min = 3, .max = 1e12},
    {"samples", 0, CLI_WHOLE, "N", "queries sampled for the prediction (default: 512)",
     .field = offsetof(theory_options, samples), .min = 16, .max = 4096},
    {0}};

/* ---- what people see ---- */

static const cli_column horizon_columns[] = {
    {"dim", "dimension d", "", .format = CLI_COUNT},
    {"head_dim", "head dimension k", "", .format = CLI_COUNT},
    {"reach", "reach", "", .format = CLI_REAL, .definition = "largest eigenvalue of S"},
    {"horizon_one_sided", "one-sided horizon", "", .format = CLI_REAL,
     .definition = "spectral norm of S^1/2 A"},
    {"horizon", "horizon H", "", .format = CLI_REAL,
     .definition = "spectral norm of M = S^1/2 A S^1/2; A includes the 1/sqrt(k) of the scores"},
    {"horizon_unscaled", "H without 1/sqrt(k)", "", .format = CLI_REAL,
     .definition = "what the papers' public code calls H"},
    {"coupling", "coupling", "", .format = CLI_REAL,
     .definition = "Psi = reach x (one-sided horizon)^2, never below H^2"},
    {"frobenius", "Frobenius norm F", "", .format = CLI_REAL,
     .definition = "of M; F^2 is the mean variance of a query's scores, to compare with 2 ln n"},
    {"rate_worst_case", "worst-case rate", "", .format = CLI_REAL,
     .definition = "1/(2(1 + 32 Psi)): error at most n^-rate"},
    {"rate_horizon", "horizon rate", "", .format = CLI_REAL, .definition = "1/(2(1 + H^2))"},
    {0}};
static const cli_table horizon_table = {
    .rows = "", .title = "Horizons", .columns = horizon_columns};

static const cli_column exponent_columns[] = {
    {"query_rms", "one query, RMS", "", .format = CLI_REAL,
     .definition = "root mean square over queries and tokens of one output's error"},
    {"mean_rms", "mean, RMS", "", .format = CLI_REAL,
     .definition = "error of the mean output over queries"},
    {"mean_abs", "mean, E|.|", "", .format = CLI_REAL,
     .definition = "the same, typical instead of root mean square"},
    {"cov_bias", "covariance, bias", "", .format = CLI_REAL,
     .definition = "of the covariance of outputs"},
    {0}};
static const cli_table exponent_table = {
    .rows = "exponents",
    .title = "Exponents: error ~ n^-exponent as n grows without bound, "
             "Gaussian tokens",
    .columns = exponent_columns};

static const cli_column prediction_columns[] = {
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"query_rms", "one query", "", .format = CLI_REAL,
     .definition = "root mean square error of one output; the tokens are the queries"},
    {"slope_query", "slope", "", .format = CLI_SHORT,
     .definition = "-d ln error / d ln n of the column before it, at this n"},
    {"mean_rms", "mean", "", .format = CLI_REAL,
     .definition = "root mean square error of the mean output over queries"},
    {"slope_mean", "slope ", "", .format = CLI_SHORT},
    {"cov_rms", "covariance", "", .format = CLI_REAL,
     .definition =
         "root mean square of the Frobenius norm of the error of the outputs' covariance"},
    {"slope_cov", "slope  ", "", .format = CLI_SHORT},
    {"mean_abs", "E|mean|", "", .format = CLI_REAL, .hidden = true},
    {"cov_bias", "bias", "", .format = CLI_REAL, .hidden = true},
    {"population_query_rms", "", "", .format = CLI_REAL, .hidden = true},
    {"population_mean_rms", "", "", .format = CLI_REAL, .hidden = true},
    {"population_mean_abs", "", "", .format = CLI_REAL, .hidden = true},
    {"population_cov_rms", "", "", .format = CLI_REAL, .hidden = true},
    {"population_cov_bias", "", "", .format = CLI_REAL, .hidden = true},
    {"sampling", "sampling", "", .format = CLI_SHORT,
     .definition = "relative standard error that sampled queries leave in mean or covariance"},
    {0}};
static const cli_table prediction_table = {
    .rows = "prediction",
    .title = "Prediction for n Gaussian tokens, no fitted constants",
    .columns = prediction_columns};

static const cli_table *const views[] = {&prediction_table, &horizon_table, &exponent_table, NULL};

/* ---- input ---- */

typedef struct theory_job {
    cli_session *session;
    const theory_options *o;
    es_array arrays[FILES];
    es_view views[FILES];
    double *identity; /* R I, where --dim asked for it */
    es_head head;
} theory_job;

static es_status fail_usage(const char *hint, const char *message, es_error *err)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "theory.options", hint, "%s", message);
}

static es_status check_options(const theory_options *o, es_error *err)
{
    if (!o->paths[COV] == !o->dim)
        return fail_usage("give --cov S.npy, or --dim D [--rho R]",
                          o->dim ? "--cov and --dim at once" : "no covariance", err);
    if (!isnan(o->rho) && !o->dim)
        return fail_usage("--rho belongs to --dim", "--rho without --dim", err);
    if (o->paths[A] ? o->paths[WQ] || o->paths[WK] : !o->paths[WQ] || !o->paths[WK])
        return fail_usage("give --A A.npy, or --Wq Wq.npy --Wk Wk.npy",
                          o->paths[A] ? "--A and --Wq or --Wk at once" : "no head", err);
    if (o->paths[V] && o->paths[WV])
        return fail_usage("they are one matrix", "--V and --Wv at once", err);
    if ((o->samples || o->paths[V] || o->paths[WV]) && !o->n.count)
        return fail_usage("add --n GRID", "--samples, --V and --Wv are for the prediction", err);
    return ES_OK;
}

/* Load one file as a matrix; a failure of the library's checks later names the role, so name the
 * file here where only its own content matters. */
static es_status load(theory_job *job, int which, es_error *err)
{
    static const char *const roles[] = {"cov", "Wq", "Wk", "A", "V", "Wv"};
    const char *path = job->o->paths[which];
    es_npy_info info;
    es_status status = es_npy_inspect(path, &info, err);
    if (status != ES_OK)
        return status;
    if (info.rank != 2)
        return cli_fail(err, ES_E_SHAPE, path, "theory.rank", "use shape (rows, columns)",
                        "a matrix has 2 dimensions, this has %d", info.rank);
    cli_answer_input(job->session, roles[which], path, &info);
    status = es_npy_load(path, &job->session->budget, &job->arrays[which], err);
    if (status == ES_OK)
        status = es_array_view(&job->arrays[which], 0, &job->views[which], err);
    es_scan scan;
    if (status == ES_OK && es_view_scan(&job->views[which], roles[which], &scan, err) != ES_OK) {
        const int64_t row = err->row, col = err->col;
        return cli_fail(err, ES_E_NONFINITE, path, "theory.finite", "remove or replace the value",
                        "row %lld, column %lld is not finite", (long long)row, (long long)col);
    }
    return status;
}

static es_status load_all(theory_job *job, es_error *err)
{
    const theory_options *o = job->o;
    es_status status = ES_OK;
    for (int i = 0; i < FILES && status == ES_OK; i++)
        status = o->paths[i] ? load(job, i, err) : ES_OK;
    if (status != ES_OK)
        return status;
    if (o->dim) {
        const size_t d = (size_t)o->dim;
        job->identity = cli_alloc_array(d * d, sizeof(double));
        for (size_t i = 0; i < d * d; i++)
            job->identity[i] = i % (d + 1) ? 0.0 : isnan(o->rho) ? 1.0 : o->rho;
        job->views[COV] = es_view_f64(job->identity, o->dim, o->dim);
    }
    if (o->paths[A])
        job->head.A = &job->views[A];
    else
        job->head = (es_head){.Wq = &job->views[WQ], .Wk = &job->views[WK]};
    if (o->paths[V] || o->paths[WV])
        job->head.V = &job->views[o->paths[V] ? V : WV];
    return ES_OK;
}

/* ---- answer ---- */

static void answer_horizons(theory_job *job, const es_horizons *h)
{
    json_t *errors = json_object(), *answer = job->session->answer;
    const struct {
        const char *key;
        es_num num;
    } numbers[] = {{"reach", h->reach},       {"horizon_one_sided", h->one_sided},
                   {"horizon", h->horizon},   {"horizon_unscaled", h->unscaled},
                   {"coupling", h->coupling}, {"frobenius", h->frobenius}};
    json_object_set_new(answer, "dim", json_integer(job->views[COV].rows));
    if (job->head.Wq)
        json_object_set_new(answer, "head_dim", json_integer(job->head.Wq->rows));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_object_set_new(answer, numbers[i].key, cli_real(numbers[i].num.val));
        json_object_set_new(errors, numbers[i].key, cli_real(numbers[i].num.err));
    }
    json_object_set_new(answer, "trace", cli_real(h->trace));
    json_object_set_new(answer, "rate_worst_case", cli_real(h->rate_worst_case));
    json_object_set_new(answer, "rate_horizon", cli_real(h->rate_horizon));
    json_object_set_new(answer, "errors", errors);
}

static es_status answer_exponents(theory_job *job, double horizon, es_error *err)
{
    es_exponents x;
    const es_status status = es_exponents_at(horizon, &x, err);
    if (status != ES_OK)
        return status;
    json_t *object = json_object();
    json_object_set_new(object, "paper", cli_real(x.paper));
    json_object_set_new(object, "query_rms", cli_real(x.query_rms));
    json_object_set_new(object, "mean_rms", cli_real(x.mean_rms));
    json_object_set_new(object, "mean_abs", cli_real(x.mean_abs));
    json_object_set_new(object, "cov_bias", cli_real(x.cov_bias));
    json_object_set_new(job->session->answer, "exponents", object);
    return ES_OK;
}

static json_t *prediction_row(double n, const es_prediction *p, const es_prediction *slope)
{
    json_t *row = json_object();
    json_object_set_new(row, "n", json_integer((json_int_t)n));
    json_object_set_new(row, "query_rms", cli_real(p->self.query_rms));
    json_object_set_new(row, "slope_query", cli_real(slope->self.query_rms));
    json_object_set_new(row, "mean_rms", cli_real(p->self.mean_rms));
    json_object_set_new(row, "slope_mean", cli_real(slope->self.mean_rms));
    json_object_set_new(row, "cov_rms", cli_real(p->self.cov_rms));
    json_object_set_new(row, "slope_cov", cli_real(slope->self.cov_rms));
    json_object_set_new(row, "mean_abs", cli_real(p->self.mean_abs));
    json_object_set_new(row, "cov_bias", cli_real(p->self.cov_bias));
    json_object_set_new(row, "population_query_rms", cli_real(p->population.query_rms));
    json_object_set_new(row, "population_mean_rms", cli_real(p->population.mean_rms));
    json_object_set_new(row, "population_mean_abs", cli_real(p->population.mean_abs));
    json_object_set_new(row, "population_cov_rms", cli_real(p->population.cov_rms));
    json_object_set_new(row, "population_cov_bias", cli_real(p->population.cov_bias));
    json_object_set_new(row, "sampling", cli_real(p->sampling));
    return row;
}

static es_status answer_prediction(theory_job *job, es_error *err)
{
    const es_predict_opts opts = {.samples = job->o->samples, .seed = job->session->common.seed};
    const cli_grid *grid = &job->o->n;
    json_t *rows = json_array();
    es_status status = ES_OK;
    for (int64_t i = 0; i < grid->count && status == ES_OK; i++) {
        es_prediction p, slope;
        const double n = (double)grid->counts[i];
        status = es_predict_general(&job->views[COV], job->o->tolerance, &job->head, n, &opts,
                                    &job->session->budget, &p, &slope, err);
        if (status == ES_OK)
            json_array_append_new(rows, prediction_row(n, &p, &slope));
        if (status == ES_OK &&
            cli_progress_tell(&job->session->progress, (double)(i + 1), (double)grid->count))
            status = ES_E_INTERRUPTED;
    }
    if (grid->count)
        json_object_set(job->session->answer, "prediction", rows);
    json_decref(rows);
    return status;
}

static es_status compute(theory_job *job, es_error *err)
{
    es_horizons h;
    es_status status = es_horizons_of(&job->views[COV], job->o->tolerance, &job->head,
                                      &job->session->budget, &h, err);
    if (status != ES_OK)
        return status;
    answer_horizons(job, &h);
    status = answer_exponents(job, h.horizon.val, err);
    return status == ES_OK ? answer_prediction(job, err) : status;
}

static es_status run(cli_session *session, void *opts, es_error *err)
{
    theory_job job = {.session = session, .o = opts};
    session->budget.limit = (size_t)session->common.max_memory;
    es_status status = check_options(job.o, err);
    if (status == ES_OK)
        status = load_all(&job, err);
    if (status == ES_OK)
        status = compute(&job, err);
    for (int i = 0; i < FILES; i++)
        es_array_free(&job.arrays[i]);
    free(job.identity);
    return status;
}

static const char *const examples[] = {
    "esscher theory --cov S.npy --Wq Wq.npy --Wk Wk.npy",
    "esscher theory --dim 50 --rho 0.1 --A A.npy --json",
    "esscher theory --cov S.npy --Wq Wq.npy --Wk Wk.npy --Wv Wv.npy --n 1e3..3e4*4", NULL};

const cli_command cli_theory = {
    .name = "theory",
    .summary = "horizons, rates and predicted errors from a covariance and a head's weights",
    .usage = "(--cov S.npy | --dim D) (--Wq Wq.npy --Wk Wk.npy | --A A.npy) [options]",
    .about =
        "Says, without running attention, how fast a head's output on n tokens approaches its "
        "limit: the norms that the papers' theorems are stated in, and the exponents of n "
        "that follow for Gaussian tokens. With --n also the errors that an experiment on n tokens "
        "will measure, and their local slopes, which at any n one can afford differ from the "
        "exponents. Scores are x'A'y with the 1/sqrt(k) inside A.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_MEMORY | CLI_TAKES_PROGRESS | CLI_TAKES_SEED,
    .defaults = &defaults,
    .size = sizeof(theory_options),
    .views = views,
    .run = run,
};
