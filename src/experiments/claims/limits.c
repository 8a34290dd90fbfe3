/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c : Scaling Limits of Long-Context Transformers: keys on the sphere at, above and
 * below the critical inverse temperature; and, while many share the weight, bias, fluctuations and
 * backward heat, with the local exponent that says how long that lasts. */
#include <math.h>

#include "base/error.h"
#include "experiments/claims/claim_kit.h"
#include "random/experiment.h"
#include "random/random.h"
#include "theory/key_weights.h"

#define EXP_MINUS_GAMMA 0.56145948356688517 /* e to minus Euler's constant */

static const char derived[] = "derived: THEORY 6";

/* ======== weights ======== */

/* n uniform keys at beta = b n^{1/alpha}. At n = 10^12 the sphere is flat as far as the nearest
 * keys see: the limit is off by a part in beta, at most 1e-5. */
#define MANY "n=1e12 "

/* Weight that the nearest key leaves to the others, 1 - sum of squared weights, and the leading
 * terms of both above the critical scale. */
static es_measured rest_of_top(const es_claim_row *at)
{
    const es_measured top = es_claim_measured(at, "top_weight");
    return (es_measured){1.0 - top.value, top.se};
}

/* Returns 1 - sum of squared weights. */
static es_measured rest_of_squares(const es_claim_row *at)
{
    const es_measured squares = es_claim_measured(at, "inverse_ess");
    return (es_measured){1.0 - squares.value, squares.se};
}

/* Sets the leading terms of the two rests. */
static void leading_rests(const es_claim_row *at, double *top, double *squares)
{
    es_weights_supercritical(es_claim_number(at, "alpha"), es_claim_number(at, "scaled_b"), top,
                             squares);
    *top = 1.0 - *top;
    *squares = 1.0 - *squares;
}

/* Returns the leading term of the weight that the nearest key leaves. */
static es_measured leading_rest_of_top(const es_claim_row *at)
{
    double top, squares;
    leading_rests(at, &top, &squares);
    return (es_measured){top, 0.0};
}

/* Returns the leading term of 1 - sum of squared weights. */
static es_measured leading_rest_of_squares(const es_claim_row *at)
{
    double top, squares;
    leading_rests(at, &top, &squares);
    return (es_measured){squares, 0.0};
}

/* Terms beyond the leading one, and n that is not infinite: the integral for n keys has both. */
static double beyond_leading_top(const es_claim_row *at)
{
    return fabs(1.0 - es_claim_number(at, "top_weight_law") - leading_rest_of_top(at).value);
}

/* Returns the same for the sum of squares. */
static double beyond_leading_squares(const es_claim_row *at)
{
    return fabs(1.0 - es_claim_number(at, "inverse_ess_law") - leading_rest_of_squares(at).value);
}

/* Below the critical scale: 2^-alpha over the keys within reach. */
static es_measured leading_squares(const es_claim_row *at)
{
    const double alpha = es_claim_number(at, "alpha");
    return (es_measured){pow(2.0, -alpha) / es_claim_number(at, "keys_within_reach"), 0.0};
}

#define CRITICAL(key_, name, limit)                                                                \
    {                                                                                              \
        "rows", key_, name ", d = {dim}, b = {b}, n = {n}", .expect = limit, .allowance = 1e-5,    \
                                                            .resolution = 0.1                      \
    }
#define EXACT(key_, name)                                                                          \
    {                                                                                              \
        "rows", key_, name ", d = {dim}, n = {n}, b = {b}", .expect = key_ "_law",                 \
                                                            .resolution_part = 0.35                \
    }
/* Allowance: n is not infinite, and the integral for n keys says what that is worth. */
#define DICKMAN(key_, name, number)                                                                \
    {                                                                                              \
        "rows", key_, name ", d = 3, b = 1/2, n = {n}", .predicted = number, .near = key_ "_law",  \
                                                        .resolution = 0.1                          \
    }

const es_claim_entry es_claims_regimes[] = {
    {{"critical-law", es_paper_b,
      "With keys uniform on the sphere and beta = b n^(2/(d-1)) the ordered weights tend to those "
      "of a Poisson process: attention selects a few keys, at random, however long the context",
      ES_CLAIM_PAPER},
     {{"regimes", MANY "dim=3,5 b=1 replicates=4000|100000"},
      {"regimes", MANY "dim=2 b=0.1 replicates=4000|100000"},
      {"regimes", MANY "dim=5 b=3 replicates=4000|100000"}},
     {CRITICAL("top_weight", "largest weight", "top_weight_limit"),
      CRITICAL("ordered.1", "second weight", "ordered_limit.1"),
      CRITICAL("inverse_ess", "sum of squared weights", "inverse_ess_limit")},
     "At beta = b n^(2/(d-1)) a few keys share the weight for ever: of 10^12 keys in d = 3 at b = "
     "1 the nearest has {m0.3} (limit law {p0.3}), the second {m2.3} ({p2.3})."},
    {{"critical-dickman", derived,
      "In three dimensions at b = 1/2 the largest weight is e^-gamma on average, and the sum of "
      "squared weights 1 - e^-gamma",
      ES_CLAIM_RESULT},
     {{"regimes", "dim=3 n=100,1e6,1e12 b=0.5 replicates=4000|400000"}},
     {DICKMAN("top_weight", "largest weight", EXP_MINUS_GAMMA),
      DICKMAN("inverse_ess", "sum of squared weights", 1.0 - EXP_MINUS_GAMMA)},
     "In three dimensions caps have exact areas and a hundred keys are as good as 10^12: the "
     "largest weight is {m0.4} +- {s0.4} on average, e^-gamma = 0.5615."},
    {{"far-from-critical", derived,
      "Above the critical scale the nearest key takes all but (a ln 2/b') Gamma(2 - 1/a), below it "
      "the sum of squared weights is 2^-a b'^a/Gamma(a+1), a = (d-1)/2",
      ES_CLAIM_RESULT},
     {{"regimes", MANY "dim=3,5 b=10 replicates=20000|2e6"},
      {"regimes", MANY "dim=10 b=100 replicates=20000|2e6"},
      {"regimes", MANY "dim=2 b=0.003 replicates=2000|200000"},
      {"regimes", MANY "dim=3 b=0.02 replicates=2000|200000"},
      {"regimes", MANY "dim=5 b=0.1 replicates=2000|200000"}},
     {{"rows", "top_weight", "weight that the nearest key leaves to others, d = {dim}, b = {b}",
       .where = "b", .from = 1.0, .to = 1e9, .resolution_part = 0.5, .measure = rest_of_top,
       .predict = leading_rest_of_top, .allow = beyond_leading_top},
      {"rows", "inverse_ess", "1 - sum of squared weights, d = {dim}, b = {b}", .where = "b",
       .from = 1.0, .to = 1e9, .resolution_part = 0.5, .measure = rest_of_squares,
       .predict = leading_rest_of_squares, .allow = beyond_leading_squares},
      {"rows", "inverse_ess", "sum of squared weights, d = {dim}, b = {b}", .where = "b",
       .from = 0.0, .to = 1.0, .resolution_part = 0.25, .predict = leading_squares,
       .near = "inverse_ess_law"}},
     "Above the critical scale the nearest key leaves others a weight like 1/b (d = 5, b = 10: "
     "{m1.3}, law {p1.3}); below it sum w^2 falls like b^((d-1)/2) (d = 3, b = 0.02: {m7.4}, law "
     "{p7.4})."},
    {{"weights-exact", derived,
      "For n keys in any dimension the averages of the largest weight, of the sum of squares and "
      "of the output are one-dimensional integrals",
      ES_CLAIM_RESULT},
     {{"regimes", "dim=50 n=1e6 b=30 replicates=4000|100000"},
      {"regimes", "dim=2,5 n=100 b=1 replicates=4000|100000"},
      {"regimes", "dim=10 n=1e4 b=10 replicates=4000|100000"},
      {"regimes", "dim=50 n=100 b=10 replicates=4000|100000"}},
     {EXACT("top_weight", "largest weight"), EXACT("inverse_ess", "sum of squared weights"),
      EXACT("deficit", "1 - <output, query>")},
     "For n keys, not infinitely many, one integral gives the averages in every dimension: in d = "
     "50 a million keys at b = 30 have a largest weight of {m0.3} +- {s0.3}, the integral says "
     "{p0.3}."},
    {{"poisson-high-dim",
      "a limit for n to infinity, taken at finite n; no available text states it",
      "The critical law for n to infinity can be used at sizes of real heads: a million keys in 50 "
      "dimensions",
      ES_CLAIM_ASSUMPTION},
     {{"regimes", "dim=50 n=1e6 b=30 replicates=1000|100000"}},
     {{"rows", "top_weight", "largest weight, d = 50, b = 30, n = 10^6",
       .expect = "top_weight_limit", .resolution = 0.1},
      {"rows", "inverse_ess", "sum of squared weights, d = 50, b = 30, n = 10^6",
       .expect = "inverse_ess_limit", .resolution = 0.1}},
     "In d = 50 no context is long enough for the limit: the largest weight of 10^6 keys is "
     "{m0.2}, not {p0.3}. The limit would need some 10^60 keys."},
    {{0}}};

/* ======== averages ======== */

/* ---- bias and fluctuations ---- */

enum { AVERAGE_PIECES = 12 };

/* Returns (d-1)/(2 beta). */
static es_measured leading_bias(const es_claim_row *at)
{
    return (es_measured){(es_claim_number(at, "dim") - 1.0) / (2.0 * es_claim_number(at, "beta")),
                         0.0};
}

/* A p-value has no standard error: its share of the claim's level is the line itself. */
static es_measured tangential_p(const es_claim_row *at)
{
    return (es_measured){es_claim_number(at, "normal_tangential_p"), 0.0};
}

/* The next order of a variance is about one over the number of keys that share the weight. */
static double next_of_along(const es_claim_row *at)
{
    return 4.0 / es_claim_number(at, "ess_law") * es_claim_number(at, "along_variance_law");
}

/* Returns the same for a tangential direction. */
static double next_of_across(const es_claim_row *at)
{
    return 4.0 / es_claim_number(at, "ess_law") * es_claim_number(at, "across_variance_law");
}

#define VARIANCE(which, name, next)                                                                \
    {                                                                                              \
        "outputs", which "_variance", "n times the variance " name ", d = {dim}",                  \
            .expect = which "_variance_law", .resolution_part = 0.4, .allow = next,                \
            .tries = "replicates"                                                                  \
    }
/* All keys are drawn. Values V, here the identity, have the study measure outputs as vectors, too.
 */
#define BRUTE(dim_, rest)                                                                          \
    {                                                                                              \
        "regimes", "brute replicates=1500|20000 Wv=@/a.npy dim=" #dim_ " " rest, identity_values,  \
            .dim = dim_                                                                            \
    }

/* Writes the identity as the values V. */
static es_status identity_values(const void *source, const char *folder, uint64_t seed,
                                 es_error *err)
{
    enum { MOST = 16 };
    const int64_t dim = ((const es_claim_source *)source)->run->dim;
    double values[MOST * MOST] = {0};
    (void)seed;
    for (int64_t i = 0; i < dim; i++)
        values[i * dim + i] = 1.0;
    return es_ask_write(folder, "a.npy", 2, (int64_t[]){dim, dim}, values, err);
}

/* ---- the radial identity ---- */

/* Returns (d-1)/2. */
static es_measured half_of_sphere(const es_claim_row *at)
{
    return (es_measured){0.5 * (es_claim_number(at, "dim") - 1.0), 0.0};
}

/* ---- backward heat ---- */

enum { FEWEST = 30 }; /* keys that share the weight: below it is no average */

#define HEAT(dim)                                                                                  \
    {                                                                                              \
        "heat", "dim=" #dim " beta=10,40,160 n=20000|1000000 query-count=48 replicates=16"         \
    }
/* Allowance: n keys are not infinitely many, and their exact expectation is known. */
#define DRIFT(dim, number)                                                                         \
    {                                                                                              \
        "rows", "slope", "beta drift over grad log density, d = " #dim ", beta = {beta}",          \
            .expect = "slope_exact", .near = "slope_finite", .resolution = 0.4, .run = number,     \
            .where = "ess", .from = FEWEST, .to = 1e9                                              \
    }
#define POWER(dim, number)                                                                         \
    {                                                                                              \
        "rows", "rate", "power of 1/beta by which the drift differs from the gradient, d = " #dim, \
            .predicted = 1.0, .allowance = dim / 40.0, .resolution = 0.5, .run = number,           \
            .computed = true, .where = "beta", .from = 100.0, .to = 1e9                            \
    }

/* ---- the local exponent ---- */

enum { NEAR_KEYS = ES_EXPERIMENT_CLAIMS + 5, QUERIES = 48 };

/* Returns the number of keys in the files. */
static int64_t keys_of(const es_claim_opts *opts)
{
    return opts->effort == ES_EFFORT_PAPER ? 1000000 : 10000;
}

/* Writes keys and queries that are uniform on the sphere. */
static es_status keys_on_sphere(const void *source, const char *folder, uint64_t seed,
                                es_error *err)
{
    const es_claim_source *of = source;
    const uint64_t cell = 2 * (uint64_t)of->run->dim;
    const es_address keys = {.seed = seed, .experiment = NEAR_KEYS, .cell = cell},
                     queries = {.seed = seed, .experiment = NEAR_KEYS, .cell = cell + 1};
    ES_TRY(es_ask_write_rows(folder, "a.npy", es_sphere_rows, &keys, keys_of(of->opts),
                             of->run->dim, es_claim_budget(of->opts), err));
    return es_ask_write_rows(folder, "b.npy", es_sphere_rows, &queries, QUERIES, of->run->dim, NULL,
                             err);
}

/* Of order 1/k, the bias of a maximum likelihood estimate from the k = sqrt(n) nearest keys. */
static double bias_of_exponent(const es_claim_row *at)
{
    return 2.0 * es_claim_number(at, "alpha") / sqrt((double)keys_of(at->opts));
}

#define NEAREST(dim_)                                                                              \
    {                                                                                              \
        "exponent", "keys=@/a.npy query=@/b.npy n=10000", keys_on_sphere, .dim = dim_, .tries = {  \
            QUERIES,                                                                               \
            QUERIES                                                                                \
        }                                                                                          \
    }
#define ALPHA(dim_, number, alpha)                                                                 \
    {                                                                                              \
        "estimates", "alpha", "local exponent from the nearest keys, d = " #dim_,                  \
            .predicted = alpha, .resolution = 0.25 * alpha, .row = 1, .run = number,               \
            .allow = bias_of_exponent                                                              \
    }

const es_claim_entry es_claims_average[] = {
    {{"subcritical-average", es_paper_b,
      "Below the critical scale the output is the query minus a bias of (d-1)/(2 beta), with "
      "Gaussian fluctuations of order 1/sqrt(n) whose covariance is known",
      ES_CLAIM_PAPER},
     {BRUTE(3, "n=4000 beta=20"), BRUTE(5, "n=6000 beta=20"), BRUTE(10, "n=4000 beta=10")},
     {/* allowance: 1/beta^2 and 1/n, which the integral for n keys has */
      {"rows", "deficit", "1 - <output, query>, d = {dim}, beta = {beta}, n = {n}",
       .predict = leading_bias, .near = "deficit_law", .resolution_part = 0.2},
      {"rows", "normal_tangential_p", "p-value that a tangential coordinate is Gaussian, d = {dim}",
       ES_RELATION_AT_LEAST, ES_CLAIM_LEVEL / AVERAGE_PIECES, .measure = tangential_p},
      VARIANCE("along", "of <output, query>", next_of_along),
      VARIANCE("across", "in a tangential direction", next_of_across)},
     "While many keys share the weight the output is the query, shortened by (d-1)/(2 beta), plus "
     "Gaussian noise of the predicted size: d = 3, beta = 20: {m0.4} ({p0.4}), n Var {m3.3} "
     "({p3.3}) along the sphere, {m2.4} ({p2.4}) across."},
    {{"radial-identity", derived,
      "At the critical scale beta E(1 - <output, q>) = (d-1)/2 + beta E|tangential part|^2/2",
      ES_CLAIM_RESULT},
     {{"regimes", MANY "dim=3,4,5 b=0.3,3 replicates=4000|50000"}},
     /* allowance: the sphere's curvature, a part in beta */
     {{"rows", "radial", "beta E(1 - <out, q> - |tangential|^2/2), d = {dim}, b = {b}",
       .allowance = 1e-4, .resolution_part = 0.5, .predict = half_of_sphere}},
     "How far the output stays behind the query is tied to how far it strays aside, at every "
     "temperature: the difference is (d-1)/2 in units of 1/beta; d = 5, b = 0.3: {m4.3} +- {s4.3} "
     "for 2."},
    {{"backward-heat", es_paper_b,
      "On keys of density f attention drifts by (1/beta) grad log f, a step of the heat equation "
      "run backwards: f smoothed over 1/sqrt(beta) stands for f, which differs by 1/beta",
      ES_CLAIM_PAPER},
     {HEAT(2), HEAT(3), HEAT(8)},
     {DRIFT(2, 1), DRIFT(3, 2), DRIFT(8, 3), POWER(2, 1), POWER(3, 2), POWER(8, 3)},
     "Attention moves a query up the log-density of the keys: on the circle beta times the drift "
     "is {m0.3}, {m1.3}, {m2.3} of the gradient at beta = 10, 40, 160, and what is missing falls "
     "like 1/beta."},
    {{"local-exponent", es_paper_b,
      "The exponent alpha of P(1 - cos <= t) ~ c t^alpha, which sets the critical scale, can be "
      "read off the nearest keys",
      ES_CLAIM_PAPER},
     {NEAREST(2), NEAREST(3), NEAREST(5), NEAREST(8)},
     {ALPHA(2, 1, 0.5), ALPHA(3, 2, 1.0), ALPHA(5, 3, 2.0), ALPHA(8, 4, 3.5)},
     "The nearest keys tell the exponent that sets the critical scale n^(1/alpha): d = 3: {m1.3} "
     "+- {s1.3} for 1, d = 8: {m3.2} +- {s3.2} for 3.5."},
    {{0}}};
