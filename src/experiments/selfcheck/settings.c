/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c : intervals, p-values and verdicts that the program prints, each in a
 * setting where the truth is known, and small enough to be run hundreds of times. */
#include <math.h>
#include <stdio.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/selfcheck/question.h"
#include "random/experiment.h"
#include "random/random.h"
#include "store/file.h"

/* ---- files ---- */

/* Returns the address of a file's numbers; `which` is the number of the file in its setting. */
static es_address address_of(uint64_t seed, uint64_t which)
{
    return (es_address){.seed = seed, .experiment = ES_EXPERIMENT_SELFCHECK, .cell = which};
}

/* Writes random rows of the file number `which` of a setting. */
static es_status write_rows(const char *folder, const char *name, es_ask_draw draw, uint64_t seed,
                            uint64_t which, int64_t rows, int64_t cols, es_error *err)
{
    const es_address at = address_of(seed, which);
    return es_ask_write_rows(folder, name, draw, &at, rows, cols, NULL, err);
}

/* Keys that are uniform on S^8: alpha = 4. Queries are others. */
static es_status keys_on_a_sphere(const void *job, const char *folder, uint64_t seed, es_error *err)
{
    (void)job;
    ES_TRY(write_rows(folder, "a.npy", es_sphere_rows, seed, 0, 4000, 9, err));
    return write_rows(folder, "b.npy", es_sphere_rows, seed, 1, 64, 9, err);
}

/* Writes Gaussian tokens. */
static es_status gaussian_tokens(const void *job, const char *folder, uint64_t seed, es_error *err)
{
    (void)job;
    return write_rows(folder, "a.npy", es_normal_rows, seed, 0, 2000, 24, err);
}

/* loss = (300/context)^1/2 + 1.8 with normal errors of a known size. */
static es_status losses(const void *job, const char *folder, uint64_t seed, es_error *err)
{
    (void)job;
    char path[4200];
    double noise[12];
    const es_address at = address_of(seed, 0);
    ES_TRY(es_normal_rows(&at, 1, 12, noise, err));
    snprintf(path, sizeof path, "%s/a.csv", folder);
    FILE *f = fopen(path, "w");
    if (!f)
        return es_fail(err, ES_E_IO, "selfcheck.file", "", "%s cannot be written", path);
    fprintf(f, "context,loss,se\n");
    for (int i = 0; i < 12; i++) {
        const double context = 128.0 * (double)(1 << i);
        fprintf(f, "%.0f,%.17g,0.01\n", context, sqrt(300.0 / context) + 1.8 + 0.01 * noise[i]);
    }
    if (fclose(f) != 0)
        return es_fail(err, ES_E_IO, "selfcheck.file", "", "%s cannot be written", path);
    return ES_OK;
}

/* ---- pieces of a text ---- */

enum { PIECE = 2048, TO_PLAN = 8, TO_VERIFY = 24 }; /* bytes; pieces of either kind */

/* Pieces [from, to) of a permutation of all of them, one below the other, each from its first space
 * to its last, so that no character is cut. */
static es_status write_pieces(const char *path, const es_file *text, const es_permutation *order,
                              int64_t from, int64_t to, es_error *err)
{
    char piece[PIECE];
    FILE *f = fopen(path, "w");
    es_status status = ES_OK;
    if (!f)
        return es_fail(err, ES_E_IO, "selfcheck.file", "", "%s cannot be written", path);
    for (int64_t i = from; i < to && status == ES_OK; i++) {
        int64_t begin = 0, end = PIECE;
        status =
            es_file_read(text, (uint64_t)(es_permutation_at(order, i) * PIECE), piece, PIECE, err);
        while (status == ES_OK && begin < PIECE && piece[begin] != ' ')
            begin++;
        while (status == ES_OK && end > begin && piece[end - 1] != ' ')
            end--;
        if (status == ES_OK)
            fprintf(f, "%.*s\n", (int)(end - begin), piece + begin);
    }
    if (fclose(f) != 0 && status == ES_OK)
        status = es_fail(err, ES_E_IO, "selfcheck.file", "", "%s cannot be written", path);
    return status;
}

/* Two texts of pieces from all over the one that was given: what a plan is made from, and what it
 * meets. */
static es_status pieces_of_text(const void *job, const char *folder, uint64_t seed, es_error *err)
{
    const selfcheck_params *p = ((const es_job *)job)->params;
    const char *path = p->pool.texts.count ? p->pool.texts.at[0] : NULL;
    char to[4200];
    es_permutation order;
    es_file text;
    if (!path)
        return es_refuse(err, "selfcheck.text", "give it with --text",
                         "plans and forecasts are checked on pieces of a text, and there is none");
    ES_TRY(es_file_open(path, &text, err));
    const int64_t pieces = (int64_t)(text.size / PIECE);
    es_status status = ES_OK;
    if (pieces < TO_PLAN + TO_VERIFY)
        status = es_fail_file(err, ES_E_EMPTY, path, -1, "selfcheck.text", "bring a longer text",
                              "the text has %lld pieces of %d bytes, and %d are needed",
                              (long long)pieces, PIECE, TO_PLAN + TO_VERIFY);
    const es_address at = address_of(seed, 0);
    if (status == ES_OK)
        status = es_permutation_init(&at, pieces, &order, err);
    snprintf(to, sizeof to, "%s/a.txt", folder);
    if (status == ES_OK)
        status = write_pieces(to, &text, &order, 0, TO_PLAN, err);
    snprintf(to, sizeof to, "%s/b.txt", folder);
    if (status == ES_OK)
        status = write_pieces(to, &text, &order, TO_PLAN, TO_PLAN + TO_VERIFY, err);
    es_file_close(&text);
    return status;
}

/* ---- figures ---- */

#define INTERVAL(t, k, ...)                                                                        \
    {                                                                                              \
        ES_FIGURE_INTERVAL, t, k, __VA_ARGS__                                                      \
    }
#define ERROR_OF(t, k, ...)                                                                        \
    {                                                                                              \
        ES_FIGURE_ERROR, t, k, __VA_ARGS__                                                         \
    }
#define P_OF(t, k)                                                                                 \
    {                                                                                              \
        ES_FIGURE_P, t, k                                                                          \
    }
#define VERDICT(t, k, words)                                                                       \
    {                                                                                              \
        ES_FIGURE_VERDICT, t, k, .name = words, .wrong = words                                     \
    }

/* A claim that is true, at quick effort; its level is far below 5 %. `wrong` is what its group
 * calls one that fails. */
#define CLAIM(id, wrong)                                                                           \
    {                                                                                              \
        "claims." id, "a claim that is true", "claims", "only=" id, .figures = {                   \
            VERDICT("claims", "verdict", wrong)                                                    \
        }                                                                                          \
    }

/* Rates of one law and head; the truth is what 32 replicates give on average over seeds, so that a
 * bias of few replicates counts against them. */
#define RATES(like_setting)                                                                        \
    {                                                                                              \
        INTERVAL("fits", "rate_mean", .like = like_setting),                                       \
            INTERVAL("fits", "rate_cov", .like = like_setting),                                    \
            INTERVAL("fits", "rate_map", .like = like_setting),                                    \
            INTERVAL("fits", "rate_cov_spectral", .like = like_setting)                            \
    }
#define HEADS(like_setting)                                                                        \
    {                                                                                              \
        INTERVAL("heads", "rate_mean", .like = like_setting),                                      \
            INTERVAL("heads", "rate_cov", .like = like_setting),                                   \
            INTERVAL("heads", "rate_map", .like = like_setting)                                    \
    }
#define CONVERGE "dim=6 head=identity scales=0.7 n=64..1024*5 queries=population replicates="

/* At a scale of 0 attention is the mean of the tokens, whose error falls like n^-1/2 exactly. */
#define MEANS "dim=6 head=identity scales=1e-6 n=64..1024*5 replicates="
#define EXACT_POWER                                                                                \
    {                                                                                              \
        INTERVAL("fits", "rate_mean", .truth = 0.5), INTERVAL("fits", "rate_map", .truth = 0.5),   \
            P_OF("fits", "rate_mean_p"), P_OF("fits", "rate_map_p")                                \
    }

/* Plans of caches, and their costs: KL of the next token, errors of layers and of states. */
#define PLANS                                                                                      \
    "model=% text=@/a.txt verify=@/b.txt context=128 blocks=8 verify-blocks=24 "                   \
    "kv-type=f16,q8_0,q4_0 "
#define COSTS                                                                                      \
    {                                                                                              \
        ERROR_OF("predicted", "kl", .exact_table = "verified", .exact = "kl", .exact_se = "kl_se", \
                 .freedom = TO_PLAN - 1),                                                          \
            ERROR_OF("layers", "predicted", .exact = "verified", .exact_se = "verified_se",        \
                     .freedom = TO_PLAN - 1),                                                      \
            ERROR_OF("layers", "state_predicted", .exact = "state_verified",                       \
                     .exact_se = "state_verified_se", .freedom = TO_PLAN - 1)                      \
    }

/* Forecasts of heads from pieces of a text, as found in longer blocks of them. Errors of heads are
 * pooled by layers, so that those of quiet heads are too large. */
#define FORECAST "model=% text=@/b.txt block=128 near=16 pool=2048 verify forecast="
#define FORECASTS                                                                                  \
    {                                                                                              \
        FORECAST_OF("entropy"), FORECAST_OF("ess"), FORECAST_OF("far_mass"),                       \
            FORECAST_OF("sink_mass"), FORECAST_OF("local_mass"), FORECAST_OF("top_weight"),        \
            FORECAST_OF("context")                                                                 \
    }
#define FORECAST_OF(key)                                                                           \
    {                                                                                              \
        ES_FIGURE_BOUND, "forecast", key, .exact = key "_measured", .exact_se = key "_measured_se" \
    }

const es_setting es_settings[] = {
    {"converge.4", "rates of a head, 4 replicates, nested sizes", "converge", CONVERGE "4",
     .figures = RATES("converge.32")},
    {"converge.8", "the same, 8 replicates", "converge", CONVERGE "8",
     .figures = RATES("converge.32")},
    {"converge.32", "the same, 32 replicates", "converge", CONVERGE "32",
     .figures = RATES("converge.32")},
    {"mean.4", "means of tokens, which follow a power law exactly; 4 replicates", "converge",
     MEANS "4", .figures = EXACT_POWER},
    {"mean.8", "the same, 8 replicates", "converge", MEANS "8", .figures = EXACT_POWER},
    {"mean.32", "the same, 32 replicates", "converge", MEANS "32", .figures = EXACT_POWER},
    {"ball.16", "the supremum over a ball, d = 1, 16 replicates", "ball",
     "dim=1 n=500..4000*4 radii=0.5,1 replicates=16",
     .figures = {INTERVAL("fits", "rate", .like = "ball.16"), P_OF("fits", "rate_p")}},
    {"hardmax", "the mean of the largest of n, against its exact law", "hardmax",
     "n=10,1000,100000 replicates=400",
     .figures = {ERROR_OF("rows", "mean_abs", .exact = "exact", .freedom = 399)}},
    {"regimes", "weights of n keys on a sphere, against exact integrals", "regimes",
     "dim=5 n=1000 b=0.1,1,10 replicates=200",
     .figures = {ERROR_OF("rows", "top_weight", .exact = "top_weight_law", .freedom = 199),
                 ERROR_OF("rows", "inverse_ess", .exact = "inverse_ess_law", .freedom = 199),
                 ERROR_OF("rows", "entropy", .exact = "entropy_law", .freedom = 199),
                 ERROR_OF("rows", "deficit", .exact = "deficit_law", .freedom = 199),
                 ERROR_OF("rows", "tangential", .exact = "tangential_law", .freedom = 199)}},
    {"regimes.normal", "is the fluctuation of averaging attention called normal?", "regimes",
     "dim=5 n=4000 beta=1 replicates=200", .figures = {P_OF("rows", "normal_p")}},
    {"sink", "weight of a sink, against its exact mean", "sink",
     "n=100 spread=0.5,2 offset=-2,0,2 replicates=200",
     .figures = {ERROR_OF("rows", "weight", .exact = "weight_exact", .freedom = 199)}},
    {"heat", "slope of the drift of infinitely many keys", "heat",
     "dim=2 beta=10,30 n=4000 replicates=16",
     .figures = {ERROR_OF("rows", "slope", .exact = "slope_exact", .freedom = 15)}},
    {"collapse", "weights, ESS and angles of tokens that merge", "collapse",
     "n=200 dim=64 rho=0.3 replicates=16 query-count=32",
     .figures = {ERROR_OF("rows", "self_weight_measured", .freedom = 15, .like = "collapse"),
                 ERROR_OF("rows", "ess_measured", .freedom = 15, .like = "collapse"),
                 ERROR_OF("rows", "angle_ratio_measured", .freedom = 15, .like = "collapse")}},
    {"exponent", "local exponent of keys that are uniform on S^8", "exponent",
     "keys=@/a.npy query=@/b.npy", keys_on_a_sphere,
     .figures = {ERROR_OF("estimates", "alpha", .row = 1, .truth = 4.0, .freedom = 63)}},
    {"context-fit", "a curve of loss against context with known errors", "context-fit",
     "file=@/a.csv", losses,
     .figures = {INTERVAL("intervals", "value", .name = "beta", .low = "low", .high = "high",
                          .row = 1, .truth = 0.5),
                 INTERVAL("intervals", "value", .name = "gamma", .low = "low", .high = "high",
                          .row = 2, .truth = 1.8)}},
    {"tails", "directions of tokens that are Gaussian", "tails", "tokens=@/a.npy control=32",
     gaussian_tokens,
     .figures = {VERDICT("rows", "verdict", "heavier than Gaussian"),
                 VERDICT("rows", "verdict", "lighter than Gaussian")}},
    CLAIM("rope-decay", "contradicted"),
    CLAIM("local-exponent", "contradicted"),
    CLAIM("sphere-covariance", "contradicted"),
    CLAIM("critical-dickman", "not confirmed"),
    CLAIM("gaussian-mean", "not confirmed"),
    {"bars.independent", "channels of outputs over one context of independent keys", "measure",
     .figures = {INTERVAL("queries", "output")}, .direct = es_direct_bars},
    {"bars.dependent", "the same, keys autocorrelated over some ten tokens", "measure",
     .figures = {INTERVAL("queries", "output")}, .direct = es_direct_bars, .dependent = true},
    {"budget.ideal", "errors of an ideal plan from 8 pieces of a text, as found on 24 others",
     "budget",
     "model=% text=@/a.txt verify=@/b.txt context=128 blocks=8 verify-blocks=24 ratio=0.25 "
     "evict=ideal policy=stream,heavy,observe",
     pieces_of_text,
     .figures = {ERROR_OF("layers", "predicted", .exact = "verified", .exact_se = "verified_se",
                          .freedom = TO_PLAN - 1),
                 ERROR_OF("layers", "state_predicted", .exact = "state_verified",
                          .exact_se = "state_verified_se", .freedom = TO_PLAN - 1),
                 ERROR_OF("layers", "computed", .exact = "verified", .exact_se = "verified_se",
                          .freedom = TO_PLAN - 1)},
     .needs_model = true},
    {"loss.8", "loss of a text from 8 blocks, one of each eighth, against all of its blocks",
     "loss", .figures = {INTERVAL("settings", "nll")}, .direct = es_direct_losses,
     .needs_model = true, .needs_decoder = true, .replicates = 8},
    {"loss.16", "the same, 16 blocks", "loss", .figures = {INTERVAL("settings", "nll")},
     .direct = es_direct_losses, .needs_model = true, .needs_decoder = true, .replicates = 16},
    {"probe.4", "rates of heads on real text, 4 draws", "probe", .figures = HEADS("probe.32"),
     .direct = es_direct_rates, .needs_model = true, .replicates = 4},
    {"probe.8", "the same, 8 draws", "probe", .figures = HEADS("probe.32"),
     .direct = es_direct_rates, .needs_model = true, .replicates = 8},
    {"probe.32", "the same, 32 draws", "probe", .figures = HEADS("probe.32"),
     .direct = es_direct_rates, .needs_model = true, .replicates = 32},
    {"probe.control.4", "rates of Gaussian tokens in their place, 4 draws", "probe",
     .figures = HEADS("probe.control.16"), .direct = es_direct_rates, .control = true,
     .needs_model = true, .replicates = 4},
    {"probe.control.16", "the same, 16 draws", "probe", .figures = HEADS("probe.control.16"),
     .direct = es_direct_rates, .control = true, .needs_model = true, .replicates = 16},
    {"budget.prompt", "costs of a cache's plan from 8 pieces of a text, as found on 24 others",
     "budget", PLANS "evict=prompt ratio=0.25 policy=stream,h2o,snapkv", pieces_of_text,
     .figures = COSTS, .needs_model = true, .needs_decoder = true},
    {"budget.decode", "the same, a key dropped after each token", "budget",
     PLANS "evict=decode ratio=0.25 policy=stream,h2o", pieces_of_text, .figures = COSTS,
     .needs_model = true, .needs_decoder = true},
    {"budget.none", "the same, numbers rounded and no key dropped", "budget",
     PLANS "evict=none ratio=0.3", pieces_of_text, .figures = COSTS, .needs_model = true,
     .needs_decoder = true},
    {"forecast.2", "heads at twice the longest blocks, as found when these are run", "probe",
     FORECAST "256", pieces_of_text, .figures = FORECASTS, .needs_model = true,
     .needs_decoder = true},
    {"forecast.4", "the same, four times", "probe", FORECAST "512", pieces_of_text,
     .figures = FORECASTS, .needs_model = true, .needs_decoder = true},
};
const int64_t es_settings_count = sizeof es_settings / sizeof es_settings[0];
