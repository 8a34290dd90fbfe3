/* tables.c : what the columns of layers, heads and curves mean. */
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/classes.h"
#include "experiments/probe/question.h"

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
    {"gaussian_frozen", "u > 1", "share", ES_FORMAT_SHORT,
     "of queries, over all heads: u = q/sqrt(2 ln n) above 1 at the largest n, where Gaussian "
     "tokens would freeze"},
    {"top_high", "top > 1/2", "share", ES_FORMAT_SHORT,
     "of queries, over all heads: one of n tokens has more than half of the weight, measured at "
     "the largest n"},
    {"coherence", "coherence", "", ES_FORMAT_REAL,
     "squared error of the layer's attention output over the sum of its heads' own: 1 if heads err "
     "independently",
     .error = "coherence_se"},
    {"layer_error", "layer error", "", ES_FORMAT_REAL,
     "root mean square error of that output at the largest n", .error = "layer_error_se"},
    {0}};
const es_table_spec probe_layers_table = {
    "layers", layer_columns,
    ES_VIEW("Layers",
            "domain layer reach trace participation horizon horizon_unscaled_all_heads "
            "gaussian_frozen top_high coherence layer_error",
            .only_with_full = true),
    .keys = "domain layer"};

/* ---- columns: heads ---- */

static const es_column head_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"class", "class", "", ES_FORMAT_TEXT,
     "by the 95 % interval of ESS at n: averaging, 100 or more (two thirds of n, if that is less); "
     "single-key, below 2; selective, between; undecided, the interval contains a cut-off"},
    {"advice", "keys to keep", "", ES_FORMAT_TEXT, PROBE_KEYS_TO_KEEP},
    {"random_error", "random", "", ES_FORMAT_SHORT,
     "error of random keys, an eighth of all, over the spread of values by their weights: exact, "
     "root mean square over 16 queries",
     .standing = ES_STANDING_PROVED},
    {"top_error", "top", "", ES_FORMAT_SHORT, "of as many keys of largest weight",
     .standing = ES_STANDING_PROVED},
    {"top_random_error", "top-random", "", ES_FORMAT_SHORT,
     "of half as many of largest weight and half at random, corrected",
     .standing = ES_STANDING_PROVED},
    {"moves", "moves", "", ES_FORMAT_SHORT,
     "error of the head's part of the layer's output, after Wo, at the largest n, over the spread "
     "of the layer's inputs (the root of their trace); the order of the heads that matter most",
     .error = "moves_se"},
    {"horizon", "H", "", ES_FORMAT_SHORT, "two-sided horizon |S^1/2 A S^1/2|"},
    {"horizon_error", "H error", "", ES_FORMAT_SHORT, "bound on the rounding in it"},
    {"horizon_one_sided", "one-sided H", "", ES_FORMAT_SHORT,
     "|S^1/2 A|, the horizon of the key side"},
    {"horizon_unscaled", "H unscaled", "", ES_FORMAT_SHORT,
     "H without the 1/sqrt(k) in A, as the papers' code reports it"},
    {"coupling", "Psi", "", ES_FORMAT_SHORT, "constant of the papers' worst-case exponent"},
    {"frobenius", "F", "", ES_FORMAT_SHORT,
     "Frobenius norm of S^1/2 A S^1/2; F^2 is the mean of q^2 for Gaussian queries"},
    {"score_sd", "score sd", "nats", ES_FORMAT_SHORT,
     "root mean square over queries of q, the standard deviation of a query's scores",
     .error = "score_sd_se"},
    {"freezing", "u", "", ES_FORMAT_SHORT,
     "median over queries of q/sqrt(2 ln n) at the largest n; above 1 Gaussian tokens would freeze",
     .standing = ES_STANDING_HEURISTIC},
    {"gaussian_frozen", "u > 1", "share", ES_FORMAT_SHORT,
     "of queries with q > sqrt(2 ln n) at the largest n: for them a few of n Gaussian tokens of "
     "the same covariance would have all the weight. What the text's tokens do: ESS, top weight",
     .error = "gaussian_frozen_se"},
    {"ess_pool", "ESS pool", "tokens", ES_FORMAT_SHORT,
     "effective number of tokens, 1/sum w^2, of queries over the whole pool: median over queries"},
    {"ess_pool_low", "ESS < 2", "share", ES_FORMAT_SHORT,
     "of queries whose effective number of tokens of the pool is below 2"},
    {"top_pool", "top pool", "", ES_FORMAT_SHORT,
     "largest weight of a query over the whole pool: median over queries"},
    {"top_pool_high", "top > 1/2", "share", ES_FORMAT_SHORT,
     "of queries that give one token of the pool more than half of the weight"},
    {"ess_n", "ESS at n", "tokens", ES_FORMAT_SHORT,
     "effective number of the n tokens of a draw at the largest n: median over queries",
     .error = "ess_n_se"},
    {"ess_n_low", "ESS at n < 2", "share", ES_FORMAT_SHORT, "of queries, at the largest n",
     .error = "ess_n_low_se"},
    {"top_n", "top at n", "", ES_FORMAT_SHORT,
     "largest weight at the largest n: median over queries", .error = "top_n_se"},
    {"top_n_high", "top at n > 1/2", "share", ES_FORMAT_SHORT, "of queries, at the largest n",
     .error = "top_n_high_se"},
    {"local_exponent", "alpha", "", ES_FORMAT_REAL,
     "local exponent: P(1 - cos(query, key) <= t) ~ c t^alpha, for keys less their mean; twice it "
     "is in how many dimensions keys vary near a query",
     .error = "local_exponent_se"},
    {"beta", "beta", "", ES_FORMAT_SHORT,
     "inverse temperature |query| |key|/sqrt(k), root mean square"},
    {"beta_frozen", "single-key from", "", ES_FORMAT_SHORT,
     "the beta from which on fewer than 2 of n keys share the weight (E sum w^2 > 1/2), at the "
     "largest n: exact for keys uniform on a sphere of this alpha and density, a model of others"},
    PROBE_RATE_COLUMNS("rate_mean", "mean rate",
                       "error ~ n^-rate; standard errors from the jackknife over replicates"),
    PROBE_RATE_COLUMNS("rate_cov", "cov rate", NULL),
    PROBE_RATE_COLUMNS("rate_map", "map rate", NULL),
    {"relative_error", "rel. error", "", ES_FORMAT_REAL,
     "map error at the largest n over the spread of the head's outputs",
     .error = "relative_error_se"},
    {"output_rms", "output spread", "", ES_FORMAT_SHORT,
     "root mean square distance of the limit's outputs from their mean"},
    {"sampling", "sampling", "", ES_FORMAT_SHORT,
     "n times the squared map error once n is large, by the weights that queries give the pool",
     .standing = ES_STANDING_PROVED},
    {"sampling_error", "sampling error", "", ES_FORMAT_SHORT,
     "half of its difference between the halves of the pool"},
    {"tokens_for_tenth_sign", "bound", "", ES_FORMAT_TEXT,
     "\">\": thin is above 0.1, and 10 % is likely to be reached later than it says; any: one "
     "token gives outputs within a tenth of their spread, so that no number is given"},
    {"tokens_for_tenth", "tokens for 10 % error", "tokens", ES_FORMAT_REAL,
     "n from which the relative error is below a tenth for tokens drawn independently: where the "
     "exact curve falls to it. Its error is that of the queries and of the halves of the pool",
     .error = "tokens_for_tenth_error"},
    {"tokens_for_tenth_queries", "10 % queries", "tokens", ES_FORMAT_SHORT,
     "standard error of that from the scatter of queries"},
    {"tokens_for_tenth_pool", "10 % pool", "tokens", ES_FORMAT_SHORT,
     "half of its difference between the halves of the pool; its error is both together"},
    {"thin", "thin", "share", ES_FORMAT_SHORT,
     "of queries for which fewer than 100 tokens of the pool count (1/sum w^2): what they would "
     "find in more text the pool cannot tell"},
    {"mean_error_limit", "limit's mean error", "", ES_FORMAT_SHORT,
     "distance between the pool and its text, from its two halves"},
    {"cov_error_limit", "limit's cov error", "", ES_FORMAT_SHORT},
    {"map_error_limit", "limit's map error", "", ES_FORMAT_SHORT},
    PROBE_RATE_COLUMNS(
        "rate_mean_gaussian", "mean rate",
        "of Gaussian tokens of the same covariance, drawn and measured alike; so are the next two"),
    PROBE_RATE_COLUMNS("rate_cov_gaussian", "cov rate", NULL),
    PROBE_RATE_COLUMNS("rate_map_gaussian", "map rate", NULL),
    {"rate_map_predicted", "predicted", "", ES_FORMAT_SHORT,
     "that map rate of Gaussian tokens from exact integrals, nothing drawn",
     .standing = ES_STANDING_PROVED},
    {"rate_map_exact", "exact rate", "", ES_FORMAT_SHORT,
     "map rate of the exact curve, which knows the pool's tokens, at the same n",
     .standing = ES_STANDING_PROVED},
    {"rate_horizon", "1/(2(1+H^2))", "", ES_FORMAT_SHORT, "the paper's exponent",
     .standing = ES_STANDING_CITED},
    {"rate_worst_case", "1/(2(1+32 Psi))", "", ES_FORMAT_SHORT,
     "the exponent of the paper's first version", .standing = ES_STANDING_CITED},
    {"rate_coupling", "1/(2(1+Psi))", "", ES_FORMAT_SHORT,
     "between its neighbours, since H^2 <= Psi", .standing = ES_STANDING_PROVED},
    {"exponent_map", "map exponent", "", ES_FORMAT_SHORT,
     "of one output for n to infinity and Gaussian tokens", .standing = ES_STANDING_HEURISTIC},
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
     "domain layer head class rate_map relative_error tokens_for_tenth_sign tokens_for_tenth thin "
     "rate_map_exact moves horizon score_sd rate_mean rate_cov",
     .only_with_full = true},
    {"Heads: how many tokens count",
     "domain layer head freezing gaussian_frozen ess_pool ess_pool_low "
     "top_pool top_pool_high ess_n ess_n_low "
     "top_n top_n_high",
     .only_with_full = true},
    {"Heads: keys to keep",
     "domain layer head class ess_n rate_map_exact advice random_error top_error top_random_error",
     .only_with_full = true},
    {"Heads: Gaussian tokens of the same covariance",
     "domain layer head frobenius local_exponent beta beta_frozen rate_mean_gaussian "
     "rate_cov_gaussian rate_map_gaussian rate_map_predicted rate_horizon",
     .only_with_full = true},
    {"Heads: attention in the text's own blocks",
     "domain layer head entropy top_mass ess sink_first sink_last", .only_with_full = true},
    {0}};
const es_table_spec probe_heads_table = {"heads",
                                         head_columns,
                                         head_views,
                                         .inside = "layers",
                                         .link = "domain layer",
                                         .nested = "heads",
                                         .keys = "domain layer head"};

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
    {"map_error_exact", "exact", "", ES_FORMAT_REAL,
     "the map error expected for independent tokens, exact for every n, from the weights that "
     "queries give the pool's tokens, nothing drawn; its error is by how much the queries that are "
     "computed may miss all. Without replacement times the square root of (N - n)/(N - 1)",
     .error = "map_error_exact_se", .standing = ES_STANDING_PROVED},
    {"map_error_exact_pool", "exact, pool", "", ES_FORMAT_SHORT,
     "half of its difference between the halves of the pool", .standing = ES_STANDING_NUMERICAL},
    {"exact_ratio", "measured/exact", "", ES_FORMAT_REAL,
     "root mean square of the measured map error of the very queries whose error is computed, over "
     "that; its error is that of the draws",
     .error = "exact_ratio_se", .standing = ES_STANDING_PROVED},
    {"map_error_sampling", "sampling", "", ES_FORMAT_SHORT,
     "the form of the exact map error for large n", .standing = ES_STANDING_PROVED},
    {"ess", "ESS", "tokens", ES_FORMAT_SHORT,
     "effective number of the n tokens, 1/sum w^2: median over queries, mean over replicates",
     .error = "ess_se"},
    {"top_weight", "top weight", "", ES_FORMAT_SHORT, "largest weight, likewise",
     .error = "top_weight_se"},
    {"mean_error_gaussian", "Gaussian mean", "", ES_FORMAT_SHORT,
     "the same error of Gaussian tokens of the same covariance, drawn, and the same queries",
     .error = "mean_error_gaussian_se"},
    {"cov_error_gaussian", "cov", "", ES_FORMAT_SHORT, .error = "cov_error_gaussian_se"},
    {"map_error_gaussian", "map", "", ES_FORMAT_SHORT, .error = "map_error_gaussian_se"},
    {"map_error_predicted", "predicted", "", ES_FORMAT_SHORT,
     "that map error of Gaussian tokens from exact integrals, nothing drawn",
     .standing = ES_STANDING_PROVED},
    {"mean_error_flag", "mean flag", "", ES_FORMAT_TEXT, "as that of the map error"},
    {"cov_error_flag", "cov flag", "", ES_FORMAT_TEXT, "likewise"},
    {"map_error_flag", "flag", "", ES_FORMAT_TEXT,
     "pool: the distance between the pool and its text, from its two halves, is above a tenth of "
     "this; the rate is that of the pool. Left out of the fit: floor, rounding; reference, drawn "
     "without replacement from too small a pool"},
    {0}};
const es_table_spec probe_rows_table = {
    "rows", row_columns,
    ES_VIEW("Distance from the pool's limit",
            "domain layer head n mean_error cov_error map_error map_error_exact exact_ratio "
            "mean_error_gaussian cov_error_gaussian map_error_gaussian map_error_predicted "
            "map_error_flag",
            .only_with_full = true),
    .keys = "domain layer head n"};
