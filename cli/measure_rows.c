/* Statistics over the queries of one head, as rows of the answer. */
#include <math.h>
#include <stdlib.h>

#include "measure.h"
#include "talk.h"

static const cli_column columns[] = {
    {"head", "head", "", .format = CLI_COUNT},
    {"scale", "scale", "", .format = CLI_REAL,
     .definition = "b of the weights w = exp(b q.k) / sum exp(b q.k)"},
    {"n", "n", "keys", .format = CLI_COUNT},
    {"queries", "queries", "", .format = CLI_COUNT},
    {"entropy", "entropy", "nats", .format = CLI_REAL,
     .definition = "-sum w ln w, mean over queries", .error = "entropy_se"},
    {"perplexity", "perplexity", "keys", .format = CLI_REAL,
     .definition = "exp(entropy), mean over queries", .error = "perplexity_se", .hidden = true},
    {"ess", "ESS", "keys", .format = CLI_REAL,
     .definition = "effective number of keys 1 / sum w^2, mean over queries", .error = "ess_se"},
    {"sum_squares", "sum w^2", "", .format = CLI_REAL,
     .definition = "participation: mean over queries", .error = "sum_squares_se", .hidden = true},
    {"top_weight", "top weight", "", .format = CLI_REAL,
     .definition = "largest weight, mean over queries", .error = "top_weight_se"},
    {"top_mass", "top", "mass", .format = CLI_REAL,
     .definition = "mass of the k largest weights, mean over queries", .error = "top_mass_se",
     .each = "top_k"},
    {"lse", "lse", "nats", .format = CLI_REAL, .definition = "ln sum exp(b q.k), mean over queries",
     .error = "lse_se"},
    {"output_mean_norm", "|mean output|", "", .format = CLI_REAL,
     .definition = "norm of the mean output over queries", .error = "output_mean_norm_se"},
    {"output_cov_trace", "tr cov", "", .format = CLI_REAL,
     .definition = "trace of the covariance of the outputs over queries (divisor: queries)"},
    {0}};

const cli_table measure_rows_table = {
    .rows = "rows",
    .title = "Attention weights and outputs",
    .columns = columns,
    .note =
        "A standard error is the spread over queries / sqrt(queries). The queries share one set "
        "of\n"
        "  keys: it says how well the mean over queries is known, not how other keys would do."};

static double same(double x) { return x; }
static double inverse(double x) { return 1.0 / x; }

/* Mean of f(x) and its standard error; x has `stride` doubles from one query to the next. */
static void mean_of(const double *x, int64_t count, int64_t stride, double (*f)(double),
                    double *mean, double *error)
{
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += f(x[i * stride]);
    *mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double off = f(x[i * stride]) - *mean;
        squares += off * off;
    }
    /* One query has no spread to estimate: NaN, which JSON shows as null. */
    *error = sqrt(squares / (double)(count - 1) / (double)count);
}

static void put_mean(json_t *row, const char *key, const char *error_key, const double *x,
                     int64_t count, double (*f)(double))
{
    double mean, error;
    mean_of(x, count, 1, f, &mean, &error);
    json_object_set_new(row, key, cli_real(mean));
    json_object_set_new(row, error_key, cli_real(error));
}

static void put_top_mass(json_t *row, const double *mass, int64_t count, int64_t K)
{
    json_t *means = json_array(), *errors = json_array();
    for (int64_t i = 0; i < K; i++) {
        double mean, error;
        mean_of(mass + i, count, K, same, &mean, &error);
        json_array_append_new(means, cli_real(mean));
        json_array_append_new(errors, cli_real(error));
    }
    json_object_set_new(row, "top_mass", means);
    json_object_set_new(row, "top_mass_se", errors);
}

/* Norm of the mean output with its error to first order, |grad|^2 = u' C u / queries for
 * u = mean / |mean|; trace of the covariance; both in full with --moments. */
static void put_moments(json_t *row, const es_moments *moments, bool full)
{
    const int64_t d = moments->dim;
    double *cov = cli_alloc_array((size_t)(d * d), sizeof *cov);
    es_moments_covariance(moments, 0, cov);
    double norm2 = 0.0, trace = 0.0, spread = 0.0;
    for (int64_t i = 0; i < d; i++) {
        norm2 += moments->mean[i] * moments->mean[i];
        trace += cov[i * d + i];
        for (int64_t j = 0; j < d; j++)
            spread += moments->mean[i] * cov[i * d + j] * moments->mean[j];
    }
    const double error = sqrt(fmax(spread, 0.0) / norm2 / (double)(moments->count - 1));
    json_object_set_new(row, "output_mean_norm", cli_real(sqrt(norm2)));
    json_object_set_new(row, "output_mean_norm_se", cli_real(error));
    json_object_set_new(row, "output_cov_trace", cli_real(trace));
    if (full) {
        json_object_set_new(row, "mean", cli_reals(moments->mean, d));
        json_object_set_new(row, "cov", cli_matrix(cov, d, d));
    }
    free(cov);
}

static json_t *make_row(const measure_job *job, int64_t head, int64_t s, int64_t p)
{
    const es_attend_out *out = &job->out;
    const int64_t cell = s * job->P + p, at = cell * job->m, count = measure_queries(job, p);
    json_t *row = json_object();
    json_object_set_new(row, "head", json_integer(head));
    json_object_set_new(row, "scale", cli_real(job->opts.scales[s]));
    json_object_set_new(row, "n", json_integer(job->opts.prefixes[p]));
    json_object_set_new(row, "queries", json_integer(count));
    put_mean(row, "entropy", "entropy_se", out->entropy + at, count, same);
    put_mean(row, "perplexity", "perplexity_se", out->entropy + at, count, exp);
    put_mean(row, "ess", "ess_se", out->sum_squares + at, count, inverse);
    put_mean(row, "sum_squares", "sum_squares_se", out->sum_squares + at, count, same);
    put_mean(row, "top_weight", "top_weight_se", out->top_weight + at, count, same);
    put_mean(row, "lse", "lse_se", out->lse + at, count, same);
    if (job->K)
        put_top_mass(row, out->top_mass + at * job->K, count, job->K);
    put_moments(row, &out->moments[cell], job->o->moments);
    return row;
}

void measure_rows(const measure_job *job, int64_t head, json_t *rows)
{
    for (int64_t s = 0; s < job->S; s++)
        for (int64_t p = 0; p < job->P; p++)
            json_array_append_new(rows, make_row(job, head, s, p));
}
