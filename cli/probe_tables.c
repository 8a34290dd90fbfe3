/* probe_tables.c : the answer of `esscher probe`, as tables. */
#include "probe.h"

#include "answer.h"

static const cli_column layer_columns[] = {
    {"domain", "domain", "", .format = CLI_TEXT},
    {"layer", "layer", "", .format = CLI_COUNT},
    {"reach", "reach", "", .format = CLI_REAL,
     .definition = "largest eigenvalue of the covariance of the layer's inputs"},
    {"trace", "trace", "", .format = CLI_REAL, .definition = "of that covariance"},
    {"participation", "directions", "", .format = CLI_SHORT,
     .definition = "trace^2 / |cov|_F^2: in how many directions tokens vary"},
    {"horizon", "largest H", "", .format = CLI_SHORT, .definition = "over the heads"},
    {"horizon_unscaled_all_heads", "H all heads", "", .format = CLI_SHORT,
     .definition =
         "of all heads as one and without 1/sqrt(k), as public code reports it; it has no "
         "meaning for several heads"},
    {"frozen", "frozen", "share", .format = CLI_SHORT,
     .definition = "of queries, over all heads: u = q/sqrt(2 ln n) above 1 at the largest n"},
    {"coherence", "coherence", "", .format = CLI_REAL, .error = "coherence_se",
     .definition =
         "squared error of the layer's attention output over the sum of its heads' own: 1 "
         "if heads err independently"},
    {"layer_error", "layer error", "", .format = CLI_REAL, .error = "layer_error_se",
     .definition = "root mean square error of that output at the largest n"},
    {0}};
const cli_table probe_layers_table = {
    .rows = "layers", .title = "Layers", .columns = layer_columns};

static const cli_column head_columns[] = {
    {"domain", "domain", "", .format = CLI_TEXT},
    {"layer", "layer", "", .format = CLI_COUNT},
    {"head", "head", "", .format = CLI_COUNT},
    {"horizon", "H", "", .format = CLI_SHORT, .definition = "two-sided horizon |S^1/2 A S^1/2|"},
    {"score_sd", "score sd", "nats", .format = CLI_SHORT,
     .definition =
         "root mean square over queries of q, the standard deviation of a query's scores"},
    {"frozen", "frozen", "share", .format = CLI_SHORT,
     .definition = "of queries with q > sqrt(2 ln n) at the largest n"},
    {"rate_mean", "mean rate", "", .format = CLI_REAL, .error = "rate_mean_se",
     .definition = "error ~ n^-rate; standard errors from a bootstrap over replicates"},
    {"rate_cov", "cov rate", "", .format = CLI_REAL, .error = "rate_cov_se"},
    {"rate_map", "map rate", "", .format = CLI_REAL, .error = "rate_map_se"},
    {"relative_error", "rel. error", "", .format = CLI_REAL, .error = "relative_error_se",
     .definition = "map error at the largest n over the spread of the head's outputs"},
    {"tokens_for_tenth", "10 % from", "tokens", .format = CLI_SHORT,
     .definition =
         "n from which that is below a tenth for tokens drawn independently, by the weights that "
         "queries give the pool's tokens; the JSON has its error"},
    {"thin", "thin", "share", .format = CLI_SHORT,
     .definition = "of queries for which fewer than 100 tokens of the pool count: for them the "
                   "pool is too small to tell, and 10 % is reached later than it says"},
    {0}};
const cli_table probe_heads_table = {
    .rows = "heads", .title = "Heads: convergence to the limit", .columns = head_columns};

static const cli_column weights_columns[] = {
    {"domain", "domain", "", .format = CLI_TEXT},
    {"layer", "layer", "", .format = CLI_COUNT},
    {"head", "head", "", .format = CLI_COUNT},
    {"frobenius", "F", "", .format = CLI_SHORT,
     .definition = "Frobenius norm of S^1/2 A S^1/2; F^2 is the mean of q^2 for Gaussian queries"},
    {"freezing", "u", "", .format = CLI_SHORT,
     .definition = "median over queries of q/sqrt(2 ln n) at the largest n; frozen above 1"},
    {"local_exponent", "alpha", "", .format = CLI_REAL, .error = "local_exponent_se",
     .definition = "local exponent: P(1 - cos(query, key) <= t) ~ c t^alpha, for keys less their "
                   "mean; twice it is in how many dimensions keys vary near a query"},
    {"beta", "beta", "", .format = CLI_SHORT,
     .definition = "inverse temperature |query| |key|/sqrt(k), root mean square"},
    {"beta_frozen", "freezes at", "", .format = CLI_SHORT,
     .definition = "the beta at which the nearest of n such keys takes over, at the largest n"},
    {"rate_mean_gaussian", "mean rate", "", .format = CLI_REAL, .error = "rate_mean_gaussian_se",
     .definition = "of Gaussian tokens of the same covariance, drawn and measured alike; so are "
                   "the next two"},
    {"rate_cov_gaussian", "cov rate", "", .format = CLI_REAL, .error = "rate_cov_gaussian_se"},
    {"rate_map_gaussian", "map rate", "", .format = CLI_REAL, .error = "rate_map_gaussian_se"},
    {"rate_map_predicted", "predicted", "", .format = CLI_SHORT,
     .definition = "that map rate from exact integrals, nothing drawn, nothing fitted"},
    {"rate_horizon", "1/(2(1+H^2))", "", .format = CLI_SHORT, .definition = "the paper's exponent"},
    {0}};
const cli_table probe_weights_table = {
    .rows = "heads",
    .title = "Heads: freezing, and Gaussian tokens of the same covariance",
    .columns = weights_columns};

static const cli_column context_columns[] = {
    {"domain", "domain", "", .format = CLI_TEXT},
    {"layer", "layer", "", .format = CLI_COUNT},
    {"head", "head", "", .format = CLI_COUNT},
    {"entropy", "entropy", "nats", .format = CLI_REAL, .error = "entropy_se",
     .definition = "of attention in the text's own blocks; standard errors over blocks"},
    {"top_mass", "top weight", "", .format = CLI_REAL, .error = "top_mass_se"},
    {"ess", "ESS", "keys", .format = CLI_REAL, .error = "ess_se",
     .definition = "effective number of keys, 1/sum w^2, mean over queries"},
    {"sink_first", "on [CLS]", "", .format = CLI_REAL, .error = "sink_first_se",
     .definition = "weight on a block's first token, mean over the first blocks"},
    {"sink_last", "on [SEP]", "", .format = CLI_REAL, .error = "sink_last_se",
     .definition = "and on its last"},
    {0}};
const cli_table probe_context_table = {.rows = "heads",
                                       .title = "Heads: attention in the text's own blocks",
                                       .columns = context_columns};

static const cli_column row_columns[] = {
    {"domain", "domain", "", .format = CLI_TEXT},
    {"layer", "layer", "", .format = CLI_COUNT},
    {"head", "head", "", .format = CLI_COUNT},
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"mean_error", "mean error", "", .format = CLI_REAL, .error = "mean_error_se",
     .definition = "|m_n - m| of the head's outputs, mean over replicates"},
    {"cov_error", "cov error", "", .format = CLI_REAL, .error = "cov_error_se",
     .definition = "|C_n - C| in Frobenius norm"},
    {"map_error", "map error", "", .format = CLI_REAL, .error = "map_error_se",
     .definition = "root mean square over queries"},
    {"map_error_sampling", "sampling", "", .format = CLI_SHORT,
     .definition = "the map error expected for large n from the weights that queries give the "
                   "pool's tokens"},
    {"mean_error_gaussian", "Gaussian mean", "", .format = CLI_SHORT,
     .definition = "the same error of Gaussian tokens of the same covariance, drawn, and the same "
                   "queries"},
    {"cov_error_gaussian", "cov", "", .format = CLI_SHORT},
    {"map_error_gaussian", "map", "", .format = CLI_SHORT},
    {"map_error_predicted", "predicted", "", .format = CLI_SHORT,
     .definition = "that map error from exact integrals, nothing drawn"},
    {"map_error_flag", "flag", "", .format = CLI_TEXT,
     .definition =
         "pool: the distance between the pool and its text, from its two halves, is above "
         "a tenth of this; the rate is that of the pool. Left out of the fit: floor, "
         "rounding; reference, drawn without replacement from too small a pool"},
    {0}};
const cli_table probe_rows_table = {
    .rows = "rows", .title = "Distance from the pool's limit", .columns = row_columns};

static const cli_column domain_columns[] = {
    {"domain", "domain", "", .format = CLI_TEXT},
    {"against", "against", "", .format = CLI_TEXT},
    {"layer", "layer", "", .format = CLI_COUNT},
    {"head", "head", "", .format = CLI_COUNT},
    {"ratio", "ratio", "", .format = CLI_REAL, .error = "ratio_se",
     .definition = "of relative map errors at the largest n"},
    {"z", "z", "errors", .format = CLI_SHORT},
    {"p", "p", "", .format = CLI_SHORT, .definition = "two-sided, times the number of rows"},
    {"differs", "differs", "", .format = CLI_TEXT, .definition = "p below 0.01"},
    {0}};
const cli_table probe_domains_table = {
    .rows = "differences", .title = "Do domains differ?", .columns = domain_columns};
