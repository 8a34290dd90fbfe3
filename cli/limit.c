/* esscher limit : what a head does to infinitely many tokens. */
#include <esscher/limit.h>

#include <math.h>
#include <stdlib.h>

#include "answer.h"
#include "law_options.h"
#include "talk.h"

typedef struct limit_options {
    cli_law_options law;
    const char *A, *V, *x, *draws;
    bool moments;
} limit_options;

static const limit_options defaults = {.law = CLI_LAW_DEFAULTS};

static const cli_option options[] = {
    CLI_LAW_OPTIONS(limit_options, law),
    {"A", 0, CLI_STRING, "FILE",
     "score matrix, .npy (d, d), the score scale included: tokens y have score x'A'y (default: "
     "identity)",
     .field = offsetof(limit_options, A)},
    {"V", 0, CLI_STRING, "FILE", "value matrix, .npy (dv, d) (default: identity)",
     .field = offsetof(limit_options, V)},
    {"x", 0, CLI_STRING, "FILE", "queries, .npy (d) or (m, d)",
     .field = offsetof(limit_options, x)},
    {"moments", 0, CLI_FLAG, NULL,
     "mean and covariance of the output when the query is a token, too",
     .field = offsetof(limit_options, moments)},
    {"draws", 0, CLI_STRING, "FILE",
     "with --moments: independent draws from the law, .npy (n, d), for laws whose output moments "
     "have no closed form; the error is then a standard error",
     .field = offsetof(limit_options, draws)},
    {0}};

/* ---- what the answer looks like ---- */

static const cli_column row_columns[] = {
    {"row", "query", "", .format = CLI_COUNT},
    {"log_mgf", "K(Ax)", "nats", .format = CLI_REAL,
     .definition = "ln E exp<Ax, Y>, Y a token: n exp(K) is the softmax's sum over n tokens"},
    {"error", "error", "", .format = CLI_SHORT,
     .definition = "bound on the error of K and of the map, by rounding"},
    {"norm", "|map|", "", .format = CLI_REAL, .definition = "norm of the output V grad K(Ax)"},
    {"map", "map", "", .format = CLI_REAL, .each = "channels"},
    {0}};

static const cli_table rows_table = {
    .rows = "rows", .title = "Attention over infinitely many tokens", .columns = row_columns};

static const cli_column moment_columns[] = {{"channel", "channel", "", .format = CLI_COUNT},
                                            {"mean", "mean", "", .format = CLI_REAL},
                                            {"variance", "variance", "", .format = CLI_REAL},
                                            {0}};

static const cli_table moments_table = {.rows = "channel_moments",
                                        .title = "Output for a query that is itself a token",
                                        .columns = moment_columns,
                                        .note = "The full covariance is in the JSON (--json)."};

static const cli_column accuracy_columns[] = {
    {"method", "method", "", .format = CLI_TEXT},
    {"mean_error", "error of a mean", "", .format = CLI_SHORT},
    {"cov_error", "error of a covariance", "", .format = CLI_SHORT},
    {0}};

static const cli_table accuracy_table = {
    .rows = "accuracy",
    .title = "Accuracy",
    .columns = accuracy_columns,
    .note = "exact: rounding only; quadrature: change by the last refinement; sampled: largest "
            "standard\n  error over the draws."};

static const cli_table *const views[] = {&rows_table, &moments_table, &accuracy_table, NULL};

/* ---- one run ---- */

typedef struct limit_job {
    cli_session *session;
    const limit_options *o;
    cli_law law;
    cli_input A, V, x, draws;
    es_limit_head head;
    int64_t dv;
} limit_job;

static es_status read_inputs(limit_job *job, es_error *err)
{
    const limit_options *o = job->o;
    const char *const files[] = {o->x, o->A, o->V, o->draws};
    int64_t dim = 0;
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && dim == 0 && i < 4; i++)
        status = files[i] ? cli_input_cols(files[i], &dim, err) : ES_OK;
    if (status == ES_OK)
        status = cli_law_make(job->session, &o->law, dim, &job->law, err);
    const int64_t d = job->law.law.dim;
    if (status == ES_OK && o->A)
        status = cli_input_read(job->session, "A", o->A, d, d, &job->A, err);
    if (status == ES_OK && o->V)
        status = cli_input_read(job->session, "V", o->V, -1, d, &job->V, err);
    if (status == ES_OK && o->x)
        status = cli_input_read(job->session, "x", o->x, -1, d, &job->x, err);
    if (status == ES_OK && o->draws)
        status = cli_input_read(job->session, "draws", o->draws, -1, d, &job->draws, err);
    job->head = (es_limit_head){job->A.data, job->V.data, job->V.rows};
    job->dv = job->V.data ? job->V.rows : d;
    return status;
}

/* Keys of one query; for a single one they stand at the top level as well. */
static void put_query(json_t *to, const double *map, int64_t dv, es_num K, double error)
{
    double norm2 = 0.0;
    for (int64_t i = 0; i < dv; i++)
        norm2 += map[i] * map[i];
    json_object_set_new(to, "map", cli_reals(map, dv));
    json_object_set_new(to, "log_mgf", cli_real(K.val));
    json_object_set_new(to, "error", cli_real(fmax(K.err, error)));
    json_object_set_new(to, "norm", cli_real(sqrt(norm2)));
}

/* Channels that a table for people has room for. */
static void put_channels(limit_job *job)
{
    enum { ROOM = 8 };
    json_t *channels = json_array();
    for (int64_t i = 0; i < job->dv && job->dv <= ROOM; i++)
        json_array_append_new(channels, json_integer(i));
    json_object_set_new(job->session->answer, "channels", channels);
}

static es_status answer_map(limit_job *job, es_error *err)
{
    const int64_t m = job->x.rows, dv = job->dv;
    double *out = cli_alloc_array((size_t)(m * dv), sizeof *out);
    double *error = cli_alloc_array((size_t)m, sizeof *error);
    es_num *K = cli_alloc_array((size_t)m, sizeof *K);
    const es_view x = es_view_f64(job->x.data, m, job->x.cols);
    const es_status status =
        es_limit_map(&job->law.law, &job->head, &x, &job->session->exec, out, K, error, err);
    if (status == ES_OK) {
        json_t *rows = json_array();
        for (int64_t i = 0; i < m; i++) {
            json_t *row = json_object();
            json_object_set_new(row, "row", json_integer(i));
            put_query(row, out + i * dv, dv, K[i], error[i]);
            json_array_append_new(rows, row);
        }
        if (m == 1)
            put_query(job->session->answer, out, dv, K[0], error[0]);
        put_channels(job);
        json_object_set_new(job->session->answer, "rows", rows);
    }
    free(out);
    free(error);
    free(K);
    return status;
}

static void put_moments(limit_job *job, const double *mean, const double *cov,
                        const es_limit_accuracy *accuracy)
{
    json_t *answer = job->session->answer, *list = json_array(), *how = json_object();
    for (int64_t i = 0; i < job->dv; i++) {
        json_t *row = json_object();
        json_object_set_new(row, "channel", json_integer(i));
        json_object_set_new(row, "mean", cli_real(mean[i]));
        json_object_set_new(row, "variance", cli_real(cov[i * job->dv + i]));
        json_array_append_new(list, row);
    }
    json_object_set_new(how, "method", json_string(es_limit_method_name(accuracy->method)));
    json_object_set_new(how, "mean_error", cli_real(accuracy->mean));
    json_object_set_new(how, "cov_error", cli_real(accuracy->cov));
    json_object_set_new(answer, "mean", cli_reals(mean, job->dv));
    json_object_set_new(answer, "cov", cli_matrix(cov, job->dv, job->dv));
    json_object_set_new(answer, job->x.rows == 1 ? "moments_error" : "error",
                        cli_real(fmax(accuracy->mean, accuracy->cov)));
    json_object_set_new(answer, "channel_moments", list);
    json_object_set_new(answer, "accuracy", how);
}

static es_status answer_moments(limit_job *job, es_error *err)
{
    const size_t dv = (size_t)job->dv;
    double *mean = cli_alloc_array(dv, sizeof *mean), *cov = cli_alloc_array(dv * dv, sizeof *cov);
    es_limit_accuracy accuracy;
    const es_view draws = es_view_f64(job->draws.data, job->draws.rows, job->draws.cols);
    const es_status status =
        es_limit_moments(&job->law.law, &job->head, job->draws.data ? &draws : NULL,
                         &job->session->exec, mean, cov, &accuracy, err);
    if (status == ES_OK)
        put_moments(job, mean, cov, &accuracy);
    if (status == ES_E_UNSUPPORTED) /* it was the user who left --draws out */
        snprintf(err->hint, sizeof err->hint, "give draws from the law with --draws FILE");
    free(mean);
    free(cov);
    return status == ES_E_UNSUPPORTED ? (err->code = ES_E_ARGUMENT) : status;
}

static es_status run(cli_session *session, void *opts, es_error *err)
{
    limit_job job = {.session = session, .o = opts};
    if (!job.o->x && !job.o->moments)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "limit.options",
                        "esscher limit --law sphere --x x.npy", "--x or --moments is needed");
    if (job.o->draws && !job.o->moments)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "limit.options", "", "--draws without --moments");
    if (session->common.max_memory > 0)
        session->budget.limit = (size_t)session->common.max_memory;
    es_status status = read_inputs(&job, err);
    if (status == ES_OK && job.o->x)
        status = answer_map(&job, err);
    if (status == ES_OK && job.o->moments)
        status = answer_moments(&job, err);
    cli_law_free(&job.law);
    cli_input_free(&job.A);
    cli_input_free(&job.V);
    cli_input_free(&job.x);
    cli_input_free(&job.draws);
    return status;
}

static const char *const examples[] = {
    "esscher limit --law sphere --x x.npy --A A.npy --json",
    "esscher limit --law gaussian --cov S.npy --A A.npy --V V.npy --moments",
    "esscher limit --law cube --A A.npy --moments --draws points.npy", NULL};

const cli_command cli_limit = {
    .name = "limit",
    .summary = "the closed-form limit of attention over infinitely many tokens",
    .usage = "--law LAW (--x x.npy | --moments) [options]",
    .about =
        "Evaluates Gamma(x) = V grad K(Ax), what softmax attention with score matrix A and "
        "value matrix V gives for query x when the number of tokens goes to infinity; K is the "
        "log-MGF of the law of the tokens. Every number comes with its error.\n\n"
        "--moments gives mean and covariance of Gamma(X) for a query X that is itself a token: "
        "in closed form for gaussian and empirical, by quadrature for sphere and ball around "
        "0 and for every law in one dimension; other laws need --draws. Laplace and student "
        "have no such moments, and student no limit at all.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_MEMORY | CLI_TAKES_PROGRESS,
    .defaults = &defaults,
    .size = sizeof(limit_options),
    .views = views,
    .run = run,
};
