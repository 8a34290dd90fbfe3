/* What the queries and keys of a head say about convergence: its horizon, and, where the tokens
 * they come from are known, reach and coupling (THEORY.md section 2). */
#include <math.h>
#include <stdlib.h>

#include <esscher/linalg.h>
#include <esscher/theory.h>

#include "measure.h"
#include "talk.h"

static const cli_column columns[] = {
    {"head", "head", "", .format = CLI_COUNT},
    {"horizon", "H", "", .format = CLI_REAL,
     .definition = "horizon b |Cov(q)^1/2 Cov(k)^1/2|, which is |S^1/2 A S^1/2| of the tokens that "
                   "queries and keys are made from"},
    {"horizon_unscaled", "H without b", "", .format = CLI_REAL, .hidden = true},
    {"frobenius", "F", "", .format = CLI_REAL,
     .definition = "Frobenius norm of the same matrix; F^2 is the mean variance of a query's "
                   "scores, to compare with 2 ln n"},
    {"rate_horizon", "1/(2(1+H^2))", "", .format = CLI_REAL,
     .definition = "the exponent that the horizon stands for"},
    {"horizon_one_sided", "one-sided H", "", .format = CLI_REAL, .definition = "|S^1/2 A|"},
    {"coupling", "coupling", "", .format = CLI_REAL,
     .definition = "Psi = reach x (one-sided H)^2, never below H^2"},
    {"rate_worst_case", "worst-case rate", "", .format = CLI_REAL, .definition = "1/(2(1+32 Psi))"},
    {0}};
const cli_table measure_heads_table = {
    .rows = "heads",
    .title = "Heads: horizons",
    .columns = columns,
    .note = "Covariances are those of the rows given (divisor: their number), the score scale b is "
            "the first one."};

static void set(json_t *row, const char *key, double x)
{
    json_object_set_new(row, key, cli_real(x));
}

/* ---- from queries and keys alone ---- */

/* S = diag(Cov(q), Cov(k)) is a covariance of pairs y = (q, k), of which Wq = (I 0) takes the query
 * and Wk = (0 I) the key: Wq S Wq' and Wk S Wk', all that a horizon looks at, are those of the
 * tokens the pair was made from. */
static es_status of_pairs(const measure_job *job, const es_view *q, const es_view *k,
                          es_horizons *out, es_error *err)
{
    const int64_t d = q->cols, D = 2 * d;
    double *part = cli_alloc_array((size_t)(d * d), sizeof *part);
    double *cov = cli_alloc_array((size_t)(D * D), sizeof *cov);
    double *take = cli_alloc_array((size_t)(2 * d * D), sizeof *take);
    const es_view *const sides[] = {q, k};
    es_exec exec = job->session->exec;
    exec.progress = NULL;
    es_status status = ES_OK;
    for (int64_t i = 0; i < D * D; i++)
        cov[i] = 0.0;
    for (int64_t i = 0; i < 2 * d * D; i++)
        take[i] = i / D == i % D ? 1.0 : 0.0; /* rows of (I 0), then of (0 I) */
    for (int64_t side = 0; side < 2 && status == ES_OK; side++) {
        status = es_cov_estimate(sides[side], false, &exec, NULL, part, err);
        for (int64_t i = 0; i < d * d; i++)
            cov[(side * d + i / d) * D + side * d + i % d] = part[i];
    }
    const es_view S = es_view_f64(cov, D, D), wq = es_view_f64(take, d, D),
                  wk = es_view_f64(take + d * D, d, D);
    const es_head head = {.Wq = &wq, .Wk = &wk};
    if (status == ES_OK)
        status = es_horizons_of(&S, 0.0, &head, &job->session->budget, out, err);
    free(part);
    free(cov);
    free(take);
    return status;
}

/* ---- from tokens ---- */

static es_status of_tokens(const measure_job *job, int64_t head, es_horizons *out, es_error *err)
{
    const measure_tokens *t = &job->tokens;
    const int64_t d = t->info.shape[1];
    const es_view S = es_view_f64(t->cov, d, d);
    es_view wq, wk;
    double *identity = NULL;
    if (job->o->weights[MEASURE_Q]) {
        es_array_view(&t->weights[MEASURE_Q], head, &wq, err);
        es_array_view(&t->weights[MEASURE_K], head / (job->heads / job->kv_heads), &wk, err);
    } else {
        identity = cli_alloc_array((size_t)(d * d), sizeof *identity);
        for (int64_t i = 0; i < d * d; i++)
            identity[i] = i % (d + 1) ? 0.0 : 1.0;
        wq = wk = es_view_f64(identity, d, d);
    }
    const es_head both = {.Wq = &wq, .Wk = &wk};
    const es_status status = es_horizons_of(&S, 0.0, &both, &job->session->budget, out, err);
    free(identity);
    return status;
}

/* ---- answer ---- */

/* The horizons stand for b = 1/sqrt(k); the run may have another scale. */
static void put_horizons(const measure_job *job, const es_horizons *h, json_t *row)
{
    const double b = job->opts.scales[0], factor = b * sqrt((double)job->d);
    const double H = h->unscaled.val * b, one_sided = h->one_sided.val * factor;
    const double coupling = h->coupling.val * factor * factor;
    set(row, "horizon", H);
    set(row, "horizon_error", h->unscaled.err * b);
    set(row, "horizon_unscaled", h->unscaled.val);
    set(row, "frobenius", h->frobenius.val * factor);
    set(row, "rate_horizon", 0.5 / (1.0 + H * H));
    if (!job->o->tokens)
        return;
    set(row, "horizon_one_sided", one_sided);
    set(row, "coupling", coupling);
    set(row, "rate_worst_case", 0.5 / (1.0 + 32.0 * coupling));
}

/* What stands in the rows about this head: the first scale, the longest prefix. */
static void put_attention(const json_t *rows, int64_t head, const measure_job *job, json_t *row)
{
    static const char *const keys[][2] = {{"n", "n"},
                                          {"entropy", "entropy"},
                                          {"entropy_se", "entropy_se"},
                                          {"top_mass", "top_weight"},
                                          {"top_mass_se", "top_weight_se"},
                                          {"ess", "ess"},
                                          {"ess_se", "ess_se"}};
    const json_t *from = json_array_get(rows, (size_t)(head * job->S * job->P + job->P - 1));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_object_set(row, keys[i][0], json_object_get(from, keys[i][1]));
}

/* A horizon is beside what was asked for: where it cannot be had, because there is one query alone
 * or numbers are too large to be squared, attention is reported without it. */
static void find_horizons(const measure_job *job, int64_t head, es_horizons *out)
{
    const es_num none = {NAN, NAN};
    es_view v[3];
    es_error why;
    es_status status = ES_E_EMPTY;
    measure_views(job, head, v);
    if (v[MEASURE_Q].rows > 1 && v[MEASURE_K].rows > 1 && measure_has_horizons(job))
        status = job->o->tokens ? of_tokens(job, head, out, &why)
                                : of_pairs(job, &v[MEASURE_Q], &v[MEASURE_K], out, &why);
    if (status != ES_OK)
        *out = (es_horizons){.reach = none,
                             .one_sided = none,
                             .unscaled = none,
                             .coupling = none,
                             .frobenius = none};
}

void measure_heads(measure_job *job, int64_t head, const json_t *rows, json_t *heads)
{
    es_horizons h;
    find_horizons(job, head, &h);
    json_t *row = json_object();
    json_object_set_new(row, "head", json_integer(head));
    put_horizons(job, &h, row);
    put_attention(rows, head, job, row);
    json_array_append_new(heads, row);
    job->reach = h.reach;
}

void measure_heads_answer(measure_job *job, json_t *heads)
{
    json_t *layer = json_object(), *layers = json_array();
    double largest = NAN, trace = 0.0;
    for (size_t i = 0; i < json_array_size(heads); i++) {
        const json_t *H = json_object_get(json_array_get(heads, i), "horizon");
        largest = json_is_real(H) ? fmax(largest, json_real_value(H)) : largest;
    }
    json_object_set_new(layer, "layer", json_integer(0));
    if (job->o->tokens) {
        const int64_t d = job->tokens.info.shape[1];
        for (int64_t i = 0; i < d; i++)
            trace += job->tokens.cov[i * d + i];
        set(layer, "reach", job->reach.val);
        set(layer, "reach_error", job->reach.err);
        set(layer, "trace", trace);
    }
    set(layer, "horizon", largest);
    json_object_set(layer, "heads", heads);
    json_array_append_new(layers, layer);
    json_object_set_new(job->session->answer, "layers", layers);
    json_object_set_new(job->session->answer, "heads", heads);
}
