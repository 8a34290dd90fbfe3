/* What the queries and keys of a head say about convergence: its horizon, and, where the tokens
 * they come from are known, reach and coupling (THEORY.md section 2). */
#include <math.h>

#include "measure.h"

static const cli_column columns[] = {
    {"head", "head", "", .format = CLI_COUNT},
    {"horizon", "H", "", .format = CLI_REAL,
     .definition = "horizon b |Cov(q)^1/2 Cov(k)^1/2|, which is |S^1/2 A S^1/2| of the tokens that "
                   "queries and keys are made from"},
    {"horizon_unscaled", "H without b", "", .format = CLI_REAL, .hidden = true},
    {"frobenius", "F", "", .format = CLI_REAL,
     .definition = "Frobenius norm of the same matrix; F^2 is the mean variance of the scores of "
                   "queries around their mean"},
    {"score_sd", "score sd", "nats", .format = CLI_REAL,
     .definition = "root mean square over queries, as they are, of the standard deviation of their "
                   "scores over the keys, to compare with sqrt(2 ln n)"},
    {"rate_horizon", "1/(2(1+H^2))", "", .format = CLI_REAL,
     .definition = "the exponent that the horizon stands for"},
    {"horizon_one_sided", "one-sided H", "", .format = CLI_REAL, .definition = "|S^1/2 A|"},
    {"coupling", "coupling", "", .format = CLI_REAL,
     .definition = "Psi = reach x (one-sided H)^2, never below H^2"},
    {"rate_worst_case", "worst-case rate", "", .format = CLI_REAL, .definition = "1/(2(1+32 Psi))"},
    {"horizon_reason", "no H because", "", .format = CLI_TEXT},
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

static void put_horizon(const measure_job *job, const measure_horizon *h, json_t *row)
{
    const double b = job->opts.scales[0], H = b * h->horizon.val, one_sided = b * h->one_sided;
    const double coupling = job->reach.val * one_sided * one_sided;
    set(row, "horizon", H);
    set(row, "horizon_error", b * h->horizon.err);
    set(row, "horizon_unscaled", h->horizon.val);
    set(row, "frobenius", b * h->frobenius);
    set(row, "score_sd", b * h->score_sd);
    set(row, "rate_horizon", 0.5 / (1.0 + H * H));
    if (h->reason[0])
        json_object_set_new(row, "horizon_reason", json_string(h->reason));
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

es_status measure_heads(const measure_job *job, int64_t head, const json_t *rows, json_t *heads)
{
    measure_horizon h;
    const es_status status = measure_horizon_of(job, head, &h);
    if (status != ES_OK)
        return status;
    json_t *row = json_object();
    json_object_set_new(row, "head", json_integer(head));
    put_horizon(job, &h, row);
    put_attention(rows, head, job, row);
    json_array_append_new(heads, row);
    return ES_OK;
}

void measure_heads_answer(measure_job *job, json_t *heads)
{
    json_t *layer = json_object(), *layers = json_array();
    json_t *reason = NULL; /* of the first that has none */
    double largest = NAN;
    for (size_t i = json_array_size(heads); i-- > 0;) {
        const json_t *row = json_array_get(heads, i), *H = json_object_get(row, "horizon");
        largest = json_is_real(H) ? fmax(largest, json_real_value(H)) : largest;
        reason = json_is_real(H) ? reason : json_object_get(row, "horizon_reason");
    }
    json_object_set_new(layer, "layer", json_integer(0));
    if (job->o->tokens) {
        set(layer, "reach", job->reach.val);
        set(layer, "reach_error", job->reach.err);
        set(layer, "trace", job->trace);
    }
    set(layer, "horizon", largest);
    if (reason)
        json_object_set(layer, "horizon_reason", reason);
    json_object_set(layer, "heads", heads);
    json_array_append_new(layers, layer);
    json_object_set_new(job->session->answer, "layers", layers);
    json_object_set_new(job->session->answer, "heads", heads);
}
