/* probe_study.c : every head of a BERT checkpoint on real text: what is asked, limits and draws of
 * layers, and what the columns of the answer mean. They are filled in probe_summary.c. */
#include "study/probe_study.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "study/answer_kit.h"

static const char *const draw_choices[] = {"with", "without", NULL};

#define FIELD(member) .field = offsetof(probe_params, member)
static const es_param params[] = {
    ES_POOL_PARAMS(probe_params, pool),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens that are drawn", FIELD(sizes), .min = 2,
     .max = 1e7, .increasing = true, .otherwise = "100..10000*7, at most half of the pool",
     .unit = "tokens"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws", FIELD(replicates), .min = 2,
     .max = 65536, .standard = "8"},
    {"control", 0, ES_PARAM_WHOLE, "R",
     "draws of Gaussian tokens of the same covariance, to compare with; 0: none", FIELD(control),
     .min = 0, .max = 65536, .standard = "4"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "tokens of the pool whose outputs are compared",
     FIELD(queries), .min = 2, .max = 1e6, .standard = "1024", .unit = "tokens", .was = "queries"},
    {"draw", 0, ES_PARAM_CHOICE, "HOW", "tokens with or without replacement", FIELD(draw),
     .choices = draw_choices, .standard = "with"},
    {0}};

/* ---- what was asked ---- */

/* Half of the pool at most: beyond that, draws without replacement have little left to differ
 * in, and those with replacement repeat themselves. */
static es_status complete(es_job *job, const probe_params *p, int64_t tokens, es_error *err)
{
    char text[64];
    if (p->sizes.count)
        return ES_OK;
    const int64_t most = tokens / 2 < 10000 ? tokens / 2 : 10000;
    snprintf(text, sizeof text, "%d..%lld*7", most > 200 ? 100 : 4,
             (long long)(most < 16 ? 16 : most));
    return es_params_set(job->given, "n", text, err);
}

static es_status open_study(es_job *job, es_error *err)
{
    probe_params *p = job->params;
    probe_state *s = job->state;
    s->pools.scratch.fd = -1;
    if (p->control == 1)
        return es_refuse(err, "probe.control", "0, or 2 and more",
                         "one draw of Gaussian tokens has no standard error");
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    ES_TRY(complete(job, p, s->pools.cost.tokens, err));
    s->layers = s->pools.config->layers;
    s->heads = s->pools.config->heads;
    s->spec = (es_probe_spec){s->pools.model,
                              .sizes = p->sizes.counts,
                              .n_sizes = p->sizes.count,
                              .queries = p->queries < s->pools.cost.tokens ? p->queries
                                                                           : s->pools.cost.tokens,
                              .without_replacement = p->draw == 1,
                              .seed = job->seed};
    es_answer_text(job->answer, "draw", draw_choices[p->draw]);
    es_answer_count(job->answer, "queries", s->spec.queries);
    es_answer_count(job->answer, "replicates", p->replicates);
    es_answer_count(job->answer, "control", p->control);
    return es_probe_cost_of(&s->spec, s->pools.cost.tokens, &s->cost, err);
}

static int64_t places_of(const probe_state *s) { return s->pools.n_domains * s->layers; }

/* The pool is on disk; its checksums are in memory, and so are the model and all cells: of a limit
 * a covariance and the outputs of all queries, in f64. */
static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_pool_cost *pools = &s->pools.cost;
    const double places = (double)places_of(s), hidden = (double)s->pools.config->hidden;
    const double points = (double)(s->heads * s->spec.n_sizes);
    const double R = (double)p->replicates, C = (double)p->control;
    const double limit = hidden * (1.0 + hidden + (double)s->spec.queries) + 16.0 * points;
    const double draws = R * PROBE_COLUMNS * (points + (double)s->spec.n_sizes);
    const double cells = 8.0 * places * (limit + draws + C * PROBE_ERRORS * points);
    (void)err;
    *out = (es_cost){.flops = pools->flops +
                              places * (s->cost.limit_flops + s->cost.open_flops +
                                        R * s->cost.replicate_flops + C * s->cost.control_flops),
                     .disk_bytes = pools->disk_bytes,
                     .output_bytes = 512.0 * places * points,
                     .work_bytes = (job->exec.budget ? (double)job->exec.budget->used : 0.0) +
                                   pools->held_bytes +
                                   fmax((double)s->cost.bytes, (double)pools->bytes) + cells};
    return ES_OK;
}

/* ---- layers ---- */

static es_probe_spec spec_at(const probe_state *s, int64_t place, const es_exec *exec)
{
    es_probe_spec spec = s->spec;
    spec.pool = s->pools.domains[place / s->layers].pool;
    spec.exec = exec;
    return spec;
}

es_status probe_open_layer(const es_job *job, int64_t place, bool draws_only, const es_exec *exec,
                           es_error *err)
{
    probe_state *s = job->state;
    s->exec = *exec;
    if (s->probe && s->place == place && s->spec.draws_only == draws_only)
        return ES_OK;
    es_probe_close(s->probe);
    s->probe = NULL;
    s->place = place;
    s->spec.draws_only = draws_only;
    const es_probe_spec spec = spec_at(s, place, &s->exec);
    return es_probe_open(&spec, place % s->layers, es_job_cell(job, PROBE_LIMIT, place), &s->probe,
                         err);
}

static es_status run_limit(es_job *job, int64_t cell, const es_exec *exec, double *out,
                           es_error *err)
{
    const probe_state *s = job->state;
    const es_probe_spec spec = spec_at(s, cell, exec);
    return es_probe_measure(&spec, cell % s->layers, out, err);
}

/* ---- draws ---- */

static void pack_errors(const es_probe_cell *cell, double *out)
{
    out[PROBE_MEAN] = cell->mean_error;
    out[PROBE_COV] = cell->cov_error;
    out[PROBE_MAP] = cell->map_error;
}

static es_status run_draw(es_job *job, int64_t cell, const es_exec *exec, double *out,
                          es_error *err)
{
    const int64_t R = ((const probe_params *)job->params)->replicates;
    probe_state *s = job->state;
    const int64_t sizes = s->spec.n_sizes, points = s->heads * sizes;
    ES_TRY(probe_open_layer(job, cell / R, true, exec, err));
    ES_TRY(es_probe_replicate(s->probe, cell % R, s->cells, s->joint, err));
    for (int64_t i = 0; i < points; i++, out += PROBE_COLUMNS) {
        pack_errors(&s->cells[i], out);
        out[PROBE_COHERENCE] = (double)NAN;
    }
    for (int64_t i = 0; i < sizes; i++, out += PROBE_COLUMNS) {
        out[PROBE_MEAN] = out[PROBE_COV] = (double)NAN;
        out[PROBE_MAP] = s->joint[i].map_error;
        out[PROBE_COHERENCE] = s->joint[i].coherence;
    }
    return ES_OK;
}

static es_status run_control(es_job *job, int64_t cell, const es_exec *exec, double *out,
                             es_error *err)
{
    const int64_t C = ((const probe_params *)job->params)->control;
    probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / C, true, exec, err));
    ES_TRY(es_probe_control(s->probe, cell % C, s->cells, err));
    for (int64_t i = 0; i < s->heads * s->spec.n_sizes; i++)
        pack_errors(&s->cells[i], out + i * PROBE_ERRORS);
    return ES_OK;
}

/* ---- all together ---- */

static es_status add_stages(es_job *job, es_error *err)
{
    static const char *const number[] = {"number"};
    static const char *const columns[PROBE_COLUMNS] = {"mean_error", "cov_error", "map_error",
                                                       "coherence"};
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_probe_spec spec = spec_at(s, 0, &job->exec);
    const int64_t sizes = s->spec.n_sizes, points = s->heads * sizes;
    es_stage stage = {"limit",
                      .phase = "attending over the pool",
                      .noun = "layers",
                      .cells = places_of(s),
                      .rows = es_probe_numbers(&spec),
                      .cols = 1,
                      .columns = number,
                      .tells = true,
                      .flops = s->cost.limit_flops,
                      .run = run_limit};
    ES_TRY(es_job_stage(job, &stage, err));
    stage = (es_stage){"draw",
                       .phase = "drawing tokens",
                       .noun = "draws",
                       .cells = places_of(s) * p->replicates,
                       .rows = points + sizes,
                       .cols = PROBE_COLUMNS,
                       .columns = columns,
                       .tells = true,
                       .flops = s->cost.replicate_flops,
                       .run = run_draw};
    ES_TRY(es_job_stage(job, &stage, err));
    stage = (es_stage){"control",
                       .phase = "drawing Gaussian tokens",
                       .noun = "draws of Gaussian tokens",
                       .cells = places_of(s) * p->control,
                       .rows = points,
                       .cols = PROBE_ERRORS,
                       .columns = columns,
                       .tells = true,
                       .flops = s->cost.control_flops,
                       .run = run_control};
    return es_job_stage(job, &stage, err);
}

static es_status begin(es_job *job, es_error *err)
{
    probe_state *s = job->state;
    ES_TRY(es_pools_build(job, &s->pools, err));
    ES_TRY(es_job_array(job, s->heads, s->spec.n_sizes, sizeof *s->cells, &s->cells, err));
    ES_TRY(es_job_array(job, s->spec.n_sizes, 1, sizeof *s->joint, &s->joint, err));
    return add_stages(job, err);
}

static void close_study(es_job *job)
{
    probe_state *s = job->state;
    es_probe_close(s->probe);
    es_pools_close(&s->pools);
}

/* ---- columns: layers ---- */

static const es_column layer_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"reach", "reach", "", ES_FORMAT_REAL,
     "largest eigenvalue of the covariance of the layer's inputs"},
    {"reach_error", "reach error", "", ES_FORMAT_SHORT, "bound on the rounding in it"},
    {"trace", "trace", "", ES_FORMAT_REAL, "of that covariance"},
    {"participation", "directions", "", ES_FORMAT_SHORT,
     "trace^2 / |cov|_F^2: in how many directions tokens vary"},
    {"horizon", "largest H", "", ES_FORMAT_SHORT, "over the heads"},
    {"horizon_unscaled_all_heads", "H all heads", "", ES_FORMAT_SHORT,
     "of all heads as one and without 1/sqrt(k), as public code reports it; it has no meaning for "
     "several heads"},
    {"frozen", "frozen", "share", ES_FORMAT_SHORT,
     "of queries, over all heads: u = q/sqrt(2 ln n) above 1 at the largest n"},
    {"coherence", "coherence", "", ES_FORMAT_REAL,
     "squared error of the layer's attention output over the sum of its heads' own: 1 if heads err "
     "independently",
     .error = "coherence_se"},
    {"layer_error", "layer error", "", ES_FORMAT_REAL,
     "root mean square error of that output at the largest n", .error = "layer_error_se"},
    {0}};
const es_table_spec probe_layers_table = {
    "layers", layer_columns,
    ES_VIEW("Layers", "domain layer reach trace participation horizon horizon_unscaled_all_heads "
                      "frozen coherence layer_error")};

/* ---- columns: heads ---- */

/* A rate and what is said about it. */
#define RATE_COLUMNS(key, title, definition)                                                       \
    {key, title, "", ES_FORMAT_REAL, definition, .error = key "_se"},                              \
        {key "_ci.0", title " from", "", ES_FORMAT_REAL, "95 % interval, bootstrap"},              \
        {key "_ci.1", title " to", "", ES_FORMAT_REAL},                                            \
        {key "_p", title " p", "", ES_FORMAT_SHORT,                                                \
         "of chi^2: is it a power law on this range? It takes rows for independent"},              \
    {                                                                                              \
        key "_reason", title " reason", "", ES_FORMAT_TEXT, "why there is no rate"                 \
    }

static const es_column head_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"horizon", "H", "", ES_FORMAT_SHORT, "two-sided horizon |S^1/2 A S^1/2|"},
    {"horizon_error", "H error", "", ES_FORMAT_SHORT, "bound on the rounding in it"},
    {"horizon_one_sided", "one-sided H", "", ES_FORMAT_SHORT, "|A S|, the horizon of the key side"},
    {"horizon_unscaled", "H unscaled", "", ES_FORMAT_SHORT,
     "H without the 1/sqrt(k) in A, as the papers' code reports it"},
    {"coupling", "Psi", "", ES_FORMAT_SHORT, "constant of the papers' worst-case exponent"},
    {"frobenius", "F", "", ES_FORMAT_SHORT,
     "Frobenius norm of S^1/2 A S^1/2; F^2 is the mean of q^2 for Gaussian queries"},
    {"score_sd", "score sd", "nats", ES_FORMAT_SHORT,
     "root mean square over queries of q, the standard deviation of a query's scores",
     .error = "score_sd_se"},
    {"freezing", "u", "", ES_FORMAT_SHORT,
     "median over queries of q/sqrt(2 ln n) at the largest n; frozen above 1"},
    {"frozen", "frozen", "share", ES_FORMAT_SHORT,
     "of queries with q > sqrt(2 ln n) at the largest n", .error = "frozen_se"},
    {"local_exponent", "alpha", "", ES_FORMAT_REAL,
     "local exponent: P(1 - cos(query, key) <= t) ~ c t^alpha, for keys less their mean; twice it "
     "is in how many dimensions keys vary near a query",
     .error = "local_exponent_se"},
    {"beta", "beta", "", ES_FORMAT_SHORT,
     "inverse temperature |query| |key|/sqrt(k), root mean square"},
    {"beta_frozen", "freezes at", "", ES_FORMAT_SHORT,
     "the beta from which on fewer than 2 of n keys share the weight (E sum w^2 > 1/2), at the "
     "largest n: exact for keys uniform on a sphere of this alpha and density, a model of others"},
    RATE_COLUMNS("rate_mean", "mean rate",
                 "error ~ n^-rate; standard errors from a bootstrap over replicates"),
    RATE_COLUMNS("rate_cov", "cov rate", NULL),
    RATE_COLUMNS("rate_map", "map rate", NULL),
    {"relative_error", "rel. error", "", ES_FORMAT_REAL,
     "map error at the largest n over the spread of the head's outputs",
     .error = "relative_error_se"},
    {"output_rms", "output spread", "", ES_FORMAT_SHORT,
     "root mean square distance of the limit's outputs from their mean"},
    {"sampling", "sampling", "", ES_FORMAT_SHORT,
     "n times the squared map error once n is large, by the weights that queries give the pool"},
    {"sampling_error", "sampling error", "", ES_FORMAT_SHORT,
     "half of its difference between the halves of the pool"},
    {"tokens_for_tenth", "10 % from", "tokens", ES_FORMAT_SHORT,
     "n from which the relative error is below a tenth for tokens drawn independently, by the "
     "weights that queries give the pool's tokens; CSV and JSON have its error"},
    {"tokens_for_tenth_error", "10 % error", "tokens", ES_FORMAT_SHORT,
     "half of its difference between the halves of the pool"},
    {"thin", "thin", "share", ES_FORMAT_SHORT,
     "of queries for which fewer than 100 tokens of the pool count: for them the pool is too small "
     "to tell, and 10 % is reached later than it says"},
    {"mean_error_limit", "limit's mean error", "", ES_FORMAT_SHORT,
     "distance between the pool and its text, from its two halves"},
    {"cov_error_limit", "limit's cov error", "", ES_FORMAT_SHORT},
    {"map_error_limit", "limit's map error", "", ES_FORMAT_SHORT},
    RATE_COLUMNS(
        "rate_mean_gaussian", "mean rate",
        "of Gaussian tokens of the same covariance, drawn and measured alike; so are the next two"),
    RATE_COLUMNS("rate_cov_gaussian", "cov rate", NULL),
    RATE_COLUMNS("rate_map_gaussian", "map rate", NULL),
    {"rate_map_predicted", "predicted", "", ES_FORMAT_SHORT,
     "that map rate from exact integrals, nothing drawn"},
    {"rate_horizon", "1/(2(1+H^2))", "", ES_FORMAT_SHORT, "the paper's exponent"},
    {"rate_worst_case", "1/(2(1+32 Psi))", "", ES_FORMAT_SHORT,
     "the exponent of the paper's first version"},
    {"rate_coupling", "1/(2(1+Psi))", "", ES_FORMAT_SHORT,
     "between its neighbours (proved, since H^2 <= Psi)"},
    {"exponent_map", "map exponent", "", ES_FORMAT_SHORT,
     "of one output for n to infinity and Gaussian tokens, heuristic"},
    {"exponent_mean", "mean exponent", "", ES_FORMAT_SHORT, "of the mean, likewise"},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL,
     "of attention in the text's own blocks; standard errors over blocks", .error = "entropy_se"},
    {"top_mass", "top weight", "", ES_FORMAT_REAL, "largest weight of a query, mean over queries",
     .error = "top_mass_se"},
    {"ess", "ESS", "keys", ES_FORMAT_REAL, "effective number of keys, 1/sum w^2, mean over queries",
     .error = "ess_se"},
    {"inverse_ess", "sum w^2", "", ES_FORMAT_REAL, "mean over queries", .error = "inverse_ess_se"},
    {"sink_first", "on [CLS]", "", ES_FORMAT_REAL,
     "weight on a block's first token, mean over the first blocks", .error = "sink_first_se"},
    {"sink_last", "on [SEP]", "", ES_FORMAT_REAL, "and on its last", .error = "sink_last_se"},
    {0}};
static const es_table_view head_views[] = {
    {"Heads: convergence to the limit", "domain layer head horizon score_sd frozen rate_mean "
                                        "rate_cov rate_map relative_error tokens_for_tenth thin"},
    {"Heads: freezing, and Gaussian tokens of the same covariance",
     "domain layer head frobenius freezing local_exponent beta beta_frozen rate_mean_gaussian "
     "rate_cov_gaussian rate_map_gaussian rate_map_predicted rate_horizon"},
    {"Heads: attention in the text's own blocks",
     "domain layer head entropy top_mass ess sink_first sink_last"},
    {0}};
const es_table_spec probe_heads_table = {
    "heads",          head_columns, head_views, .inside = "layers", .link = "domain layer",
    .nested = "heads"};

/* ---- columns: curves ---- */

static const es_column row_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"mean_error", "mean error", "", ES_FORMAT_REAL,
     "|m_n - m| of the head's outputs, mean over replicates", .error = "mean_error_se"},
    {"cov_error", "cov error", "", ES_FORMAT_REAL, "|C_n - C| in Frobenius norm",
     .error = "cov_error_se"},
    {"map_error", "map error", "", ES_FORMAT_REAL, "root mean square over queries",
     .error = "map_error_se"},
    {"relative_error", "relative", "", ES_FORMAT_REAL, "map error over the spread of the outputs",
     .error = "relative_error_se"},
    {"map_error_sampling", "sampling", "", ES_FORMAT_SHORT,
     "the map error expected for large n from the weights that queries give the pool's tokens"},
    {"mean_error_gaussian", "Gaussian mean", "", ES_FORMAT_SHORT,
     "the same error of Gaussian tokens of the same covariance, drawn, and the same queries",
     .error = "mean_error_gaussian_se"},
    {"cov_error_gaussian", "cov", "", ES_FORMAT_SHORT, .error = "cov_error_gaussian_se"},
    {"map_error_gaussian", "map", "", ES_FORMAT_SHORT, .error = "map_error_gaussian_se"},
    {"map_error_predicted", "predicted", "", ES_FORMAT_SHORT,
     "that map error from exact integrals, nothing drawn"},
    {"mean_error_flag", "mean flag", "", ES_FORMAT_TEXT, "as that of the map error"},
    {"cov_error_flag", "cov flag", "", ES_FORMAT_TEXT, "likewise"},
    {"map_error_flag", "flag", "", ES_FORMAT_TEXT,
     "pool: the distance between the pool and its text, from its two halves, is above a tenth of "
     "this; the rate is that of the pool. Left out of the fit: floor, rounding; reference, drawn "
     "without replacement from too small a pool"},
    {0}};
const es_table_spec probe_rows_table = {
    "rows", row_columns,
    ES_VIEW(
        "Distance from the pool's limit",
        "domain layer head n mean_error cov_error map_error map_error_sampling mean_error_gaussian "
        "cov_error_gaussian map_error_gaussian map_error_predicted map_error_flag")};

/* ---- columns: domains ---- */

static const es_column difference_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"against", "against", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"ratio", "ratio", "", ES_FORMAT_REAL, "of relative map errors at the largest n",
     .error = "ratio_se"},
    {"z", "z", "errors", ES_FORMAT_SHORT},
    {"p", "p", "", ES_FORMAT_SHORT, "two-sided, times the number of rows"},
    {"differs", "differs", "", ES_FORMAT_TEXT, "p below 0.01"},
    {0}};
const es_table_spec probe_differences_table = {"differences", difference_columns,
                                               ES_VIEW("Do domains differ?")};

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher probe --model models/minilm --text alice.txt",
    "esscher probe --model models/minilm --text alice.txt --pool 20480 --json",
    "esscher probe --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher probe --model models/minilm --text wiki.txt --pool 1000000 --n 1e3..1e5*12 --pool-dir "
    "pool --out probe.run",
    NULL};

const es_study es_study_probe = {
    "probe",
    .summary = "every head of a BERT checkpoint on real text: horizons, freezing, convergence",
    .usage = "--model MODEL --text FILE [options]",
    .about =
        "Runs text through the model and keeps what every layer is given: the pool, a sample of "
        "real tokens. Attention of some of them over the whole pool stands for infinitely many "
        "tokens; attention over n tokens drawn from the pool is measured against it, head by head, "
        "with rates, their intervals, and the pool's own error. Beside it: horizons and the "
        "exponents they predict, how many tokens a head needs, how many queries are frozen, what "
        "Gaussian tokens of the same covariance would do, entropy and sinks of attention in the "
        "text's own blocks, and how independently the heads of a layer err.\n\n"
        "The pool is on disk; with --pool-dir it is kept, and building it can be killed and goes "
        "on. Layers and heads count from 0.",
    .examples = examples,
    .params = params,
    .size = sizeof(probe_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(probe_state),
    .open = open_study,
    .cost = cost_of,
    .begin = begin,
    .summarise = probe_summarise,
    .close = close_study};
