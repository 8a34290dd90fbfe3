/* converge_views.c : what `esscher converge` shows people. */
#include "converge.h"

static const cli_column row_columns[] = {
    {"scale", "scale", "", .format = CLI_REAL, .definition = "factor on A = Wk'Wq/sqrt(k)"},
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"mean_error", "mean error", "", .format = CLI_REAL, .error = "mean_error_se",
     .definition = "|m_n - m|, mean over replicates"},
    {"cov_error", "cov error", "", .format = CLI_REAL, .error = "cov_error_se",
     .definition = "|C_n - C| in Frobenius norm"},
    {"cov_spectral_error", "spectral", "", .format = CLI_REAL, .error = "cov_spectral_error_se",
     .definition = "the same in spectral norm"},
    {"map_error", "map error", "", .format = CLI_REAL, .error = "map_error_se",
     .definition = "root mean square over queries of |Gamma_n(x) - Gamma(x)|"},
    {"flag", "flag", "", .format = CLI_TEXT,
     .definition = "errors that are left out of the fits: floor, they are rounding; reference, "
                   "more than a tenth of them is that of what is compared with"},
    {"mean_error_flag", "mean flag", "", .format = CLI_TEXT, .hidden = true},
    {"cov_error_flag", "cov flag", "", .format = CLI_TEXT, .hidden = true},
    {"cov_spectral_error_flag", "spectral flag", "", .format = CLI_TEXT, .hidden = true},
    {"map_error_flag", "map flag", "", .format = CLI_TEXT, .hidden = true},
    {0}};

const cli_table converge_rows_table = {
    .rows = "rows",
    .title = "Distance from the infinite-token limit",
    .columns = row_columns,
    .note = "Standard errors are over replicates. Sizes of one replicate are nested, so rows are "
            "dependent, unless --independent."};

static const cli_column fit_columns[] = {
    {"scale", "scale", "", .format = CLI_REAL},
    {"horizon", "H", "", .format = CLI_SHORT, .definition = "two-sided horizon |S^1/2 A S^1/2|"},
    {"frobenius", "F", "", .format = CLI_SHORT,
     .definition = "Frobenius norm of the same matrix: what decides at finite n"},
    {"rate_mean", "mean rate", "", .format = CLI_REAL, .error = "rate_mean_se",
     .definition = "error ~ n^-rate, weighted fit; the error is that of a bootstrap over "
                   "replicates, with --independent the fit's own"},
    {"predicted.rate_mean", "predicted", "", .format = CLI_SHORT,
     .definition = "the same fit, with the same weights, through the predicted errors"},
    {"rate_mean_p", "p", "", .format = CLI_SHORT,
     .definition = "of chi^2: is it a power law on this range? It takes rows for independent"},
    {"rate_cov", "cov rate", "", .format = CLI_REAL, .error = "rate_cov_se"},
    {"predicted.rate_cov", "predicted", "", .format = CLI_SHORT},
    {"rate_cov_p", "p", "", .format = CLI_SHORT},
    {"rate_map", "map rate", "", .format = CLI_REAL, .error = "rate_map_se"},
    {"predicted.rate_map", "predicted", "", .format = CLI_SHORT},
    {"rate_map_p", "p", "", .format = CLI_SHORT},
    {"rate_horizon", "1/(2(1+H^2))", "", .format = CLI_SHORT,
     .definition = "the paper's exponent, a bound for n to infinity"},
    {0}};

const cli_table converge_fits_table = {.rows = "fits", .title = "Rates", .columns = fit_columns};

static const cli_column reference_columns[] = {
    {"scale", "scale", "", .format = CLI_REAL},
    {"tokens", "tokens", "", .format = CLI_COUNT,
     .definition = "of the one sample whose moments stand for the limit's"},
    {"limit_mean_error", "mean off by", "", .format = CLI_SHORT,
     .definition = "its own distance from the limit, which is known"},
    {"limit_cov_error", "cov off by", "", .format = CLI_SHORT},
    {"rate_mean", "mean rate", "", .format = CLI_REAL, .error = "rate_mean_se",
     .definition = "what a fit through all rows says that takes the sample for the limit: not a "
                   "rate of convergence"},
    {"rate_cov", "cov rate", "", .format = CLI_REAL, .error = "rate_cov_se"},
    {"rate_cov_spectral", "spectral rate", "", .format = CLI_REAL, .error = "rate_cov_spectral_se"},
    {0}};

const cli_table converge_references_table = {
    .rows = "references", .title = "The reference sample", .columns = reference_columns};

static const cli_column prediction_columns[] = {
    {"scale", "scale", "", .format = CLI_REAL},
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"mean_error_rms", "mean error", "", .format = CLI_REAL, .error = "mean_error_rms_se",
     .definition = "root mean square over replicates, as predictions are; rare replicates decide "
                   "it where H is above 0.7"},
    {"predicted_mean_error_rms", "predicted", "", .format = CLI_SHORT,
     .definition = "without any fitted constant"},
    {"cov_error_rms", "cov error", "", .format = CLI_REAL, .error = "cov_error_rms_se"},
    {"predicted_cov_error", "predicted", "", .format = CLI_SHORT},
    {"map_error_rms", "map error", "", .format = CLI_REAL, .error = "map_error_rms_se"},
    {"predicted_map_error", "predicted", "", .format = CLI_SHORT},
    {"sampling", "sampling", "", .format = CLI_SHORT,
     .definition = "relative standard error that sampling of queries leaves in the predictions"},
    {0}};

const cli_table converge_predictions_table = {
    .rows = "predictions", .title = "Measured beside predicted", .columns = prediction_columns};
