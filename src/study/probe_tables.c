/* probe_tables.c : the columns of the answer of `probe`, and what they mean. */
#include "study/probe_study.h"

/* ---- layers ---- */

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
static const es_table_view layer_views[] = {
    {"Layers", "domain layer reach trace participation horizon horizon_unscaled_all_heads frozen "
               "coherence layer_error"},
    {0}};
const es_table_spec probe_layers_table = {"layers", layer_columns, layer_views};

/* ---- heads ---- */

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
     "the beta at which the nearest of n such keys takes over, at the largest n"},
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
    RATE_COLUMNS("rate_mean_gaussian", "mean rate",
                 "of Gaussian tokens of the same covariance, drawn and measured alike; so are the "
                 "next two"),
    RATE_COLUMNS("rate_cov_gaussian", "cov rate", NULL),
    RATE_COLUMNS("rate_map_gaussian", "map rate", NULL),
    {"rate_map_predicted", "predicted", "", ES_FORMAT_SHORT,
     "that map rate from exact integrals, nothing drawn"},
    {"rate_horizon", "1/(2(1+H^2))", "", ES_FORMAT_SHORT, "the paper's exponent"},
    {"rate_worst_case", "1/(2(1+32 Psi))", "", ES_FORMAT_SHORT,
     "the exponent of the paper's first version"},
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
    {"Heads: convergence to the limit",
     "domain layer head horizon score_sd frozen rate_mean rate_cov rate_map relative_error "
     "tokens_for_tenth thin"},
    {"Heads: freezing, and Gaussian tokens of the same covariance",
     "domain layer head frobenius freezing local_exponent beta beta_frozen rate_mean_gaussian "
     "rate_cov_gaussian rate_map_gaussian rate_map_predicted rate_horizon"},
    {"Heads: attention in the text's own blocks",
     "domain layer head entropy top_mass ess sink_first sink_last"},
    {0}};
const es_table_spec probe_heads_table = {
    "heads",          head_columns, head_views, .inside = "layers", .link = "domain layer",
    .nested = "heads"};

/* ---- curves ---- */

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
static const es_table_view row_views[] = {
    {"Distance from the pool's limit",
     "domain layer head n mean_error cov_error map_error map_error_sampling mean_error_gaussian "
     "cov_error_gaussian map_error_gaussian map_error_predicted map_error_flag"},
    {0}};
const es_table_spec probe_rows_table = {"rows", row_columns, row_views};

/* ---- domains ---- */

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
static const es_table_view difference_views[] = {{"Do domains differ?"}, {0}};
const es_table_spec probe_differences_table = {"differences", difference_columns, difference_views};
