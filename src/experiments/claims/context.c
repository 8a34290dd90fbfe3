/* SPDX-License-Identifier: Apache-2.0 */
/* context.c : what keeps tokens apart in a long context. Critical attention scaling in
 * long-context transformers: the score scale; Effective Long-Context Scaling of Foundation Models:
 * rotary positions. */
#include <math.h>

#include "experiments/claims/claim_kit.h"

/* ======== the score scale ======== */

enum { DIM = 1024 };

/* The paper's random model, score scales in units of 1/(1 - rho^), rho^ the replicate's own mean
 * cosine. */
#define MODEL "dim=1024 query-count=16 realised-rho "
#define RHOS  "rho=0.3,0.5,0.8 "

/* kappa of the spread of cosines in finite dimension (THEORY.md 7). */
static double kappa(double rho) { return 1.0 + rho - 0.5 * rho * rho; }

/* Cosine of outputs at gamma_c for n to infinity (THEORY 7). */
static double critical_cosine(double rho) { return 4.0 * rho / (1.0 + 3.0 * rho); }

/* ---- the threshold ---- */

/* Where a token's weight on itself is one half, in units of gamma_c. */
static es_measured crossing(const es_claim_row *at)
{
    const es_measured half = es_claim_measured(at, "gamma_half_measured");
    const double unit = es_claim_number(at, "gamma_c");
    return (es_measured){half.value / unit, half.se / unit};
}

/* Cosines spread in 1024 dimensions, which asks for more by kappa L/(2d); a heuristic, hence
 * twice. */
static double spread_of_cosines(const es_claim_row *at)
{
    return kappa(es_claim_number(at, "rho")) * log(es_claim_number(at, "n")) / DIM;
}

/* ---- at the threshold ---- */

/* The limit at the mean cosine that the model realised. Its error and that of the measured cosine
 * partly cancel, so that their sum of squares is an upper bound. */
static es_measured cosine_of_realised(const es_claim_row *at)
{
    const es_table *thresholds = es_answer_find(at->answers[at->run], "thresholds");
    const es_measured rho = es_ask_number(thresholds, at->row, "rho_realised");
    const double slope = 4.0 / ((1.0 + 3.0 * rho.value) * (1.0 + 3.0 * rho.value));
    return (es_measured){critical_cosine(rho.value), slope * rho.se};
}

/* Returns the limit at the rho of the law. */
static es_measured cosine_of_rho(const es_claim_row *at)
{
    return (es_measured){critical_cosine(es_claim_number(at, "rho")), 0.0};
}

/* Returns what 1024 dimensions change: by the own weight p at that d, and outputs stay apart by a
 * further beta (1-rho)/d = L/d. */
static double finite_dimension(const es_claim_row *at)
{
    const double rho = es_claim_number(at, "rho"), p = es_claim_number(at, "self_weight_dim");
    const double at_dim = rho / (p * p + (1.0 - p * p) * rho);
    return fabs(at_dim - critical_cosine(rho)) + log(es_claim_number(at, "n")) / DIM;
}

/* ---- the window ---- */

/* Log-odds B - L - kappa B^2/(2d) climb with L (1 - kappa L/d), a heuristic, hence twice; and a
 * mean over tokens is taken before the logarithm. */
static double width_allowed(const es_claim_row *at)
{
    return es_claim_number(at, "window") * (2.0 * spread_of_cosines(at) + 0.02);
}

/* ---- whose rho? ---- */

/* Returns ln(p/(1-p)) of the weight p of a token on itself, with its error. */
static es_measured log_odds(const es_table *rows, int64_t row)
{
    const es_measured p = es_ask_number(rows, row, "self_weight_measured");
    return (es_measured){log(p.value / (1.0 - p.value)), p.se / (p.value * (1.0 - p.value))};
}

#define BATCHES "n=1000|10000 rho=0.5 times=1 replicates=40|64 query-count=16 "

/* ln of the scatter of log-odds between batches at the rho of the law, of the run before, over that
 * at the rho of each batch. The logarithm of a standard deviation of R normals has a variance of
 * 1/(2(R-1)). */
static es_measured scatter(const es_claim_row *at)
{
    const es_table *nominal = es_answer_find(at->answers[at->run - 1], "rows");
    return (es_measured){log(log_odds(nominal, at->row).se / log_odds(at->table, at->row).se),
                         sqrt(1.0 / ((double)at->tries - 1.0))};
}

#define WHOSE(dim, number)                                                                         \
    {                                                                                              \
        "rows", "self_weight_measured",                                                            \
            "ln(scatter between batches at the law's rho / at their own), d = " #dim,              \
            .predicted = 0.0, .resolution = 1.0, .run = number, .measure = scatter                 \
    }

const es_claim_entry es_claims_collapse[] = {
    {{"collapse-threshold", es_paper_c,
      "Tokens of mutual cosine rho under scores scaled by gamma ln n collapse to one direction for "
      "gamma below 1/(1-rho), and each sees itself alone above",
      ES_CLAIM_PAPER},
     {{"collapse", MODEL RHOS "n=2000|100000 times=0.5,0.9,1.1,1.5 replicates=5"}},
     {{"thresholds", "gamma_half_measured",
       "scale at which the own weight is 1/2, over 1/(1-rho), rho = {rho}", .predicted = 1.0,
       .resolution = 0.2, .measure = crossing, .allow = spread_of_cosines},
      {"rows", "angle_ratio_measured", "angle ratio at half of that scale, rho = {rho}",
       ES_RELATION_AT_MOST, 0.15, .where = "times", .from = 0.4, .to = 0.6},
      {"rows", "angle_ratio_measured", "angle ratio at one and a half of it, rho = {rho}",
       ES_RELATION_AT_LEAST, 0.85, .where = "times", .from = 1.4, .to = 1.6}},
     "beta = ln n/(1-rho) divides collapse from identity: tokens at rho = 0.5 keep {m4.2} of their "
     "angle at half of it, {m7.3} at one and a half; they cross at {m1.3} +- {s1.3} of it."},
    {{"collapse-critical", es_paper_c,
      "At gamma = 1/(1-rho) outputs have cosine 4 rho/(1 + 3 rho) for n to infinity",
      ES_CLAIM_PAPER},
     {{"collapse", MODEL RHOS "n=1000|100000 times=1 replicates=8"},
      {"collapse", RHOS "n=1e12 times=1 replicates=0"}},
     {{"rows", "cosine_measured", "cosine of outputs at gamma_c, rho = {rho}, n = {n}", .run = 1,
       .resolution = 0.1, .predict = cosine_of_realised, .allow = finite_dimension},
      /* allowance: p is 1/2 + 1/(4n), rounding of beta included */
      {"rows", "cosine", "cosine at gamma_c, exactly equal angles, rho = {rho}, n = {n}", .run = 2,
       .computed = true, .allowance = 1e-11, .resolution = 0.1, .predict = cosine_of_rho}},
     "At gamma_c tokens come nearer and do not collapse: rho = 0.5 becomes {m1.3} +- {s1.3}, 4 "
     "rho/(1+3 rho) says {p1.3}."},
    {{"collapse-window", "derived: THEORY 7",
      "At finite n the transition has a relative width of 4.4/ln n in gamma", ES_CLAIM_RESULT},
     {{"collapse", MODEL "n=64,512,4096 rho=0.5 times=0.9,1.1 replicates=6|64"}},
     {{"thresholds", "window_measured",
       "width of the window in gamma/gamma_c, rho = {rho}, n = {n}", .expect = "window",
       .resolution_part = 0.2, .allow = width_allowed}},
     "The transition is not sharp at contexts in use: from an own weight of 0.1 to 0.9 "
     "gamma/gamma_c climbs by 4.4/ln n: {m0.2} at n = 64, {m2.2} at n = 4096; a million tokens "
     "would have 0.32."},
    {{"collapse-nominal-rho", "a threshold with the rho of the law; no available text states it",
      "In the random model the threshold is 1/(1-rho) with the rho of the law: batches differ by "
      "noise only",
      ES_CLAIM_ASSUMPTION},
     {{"collapse", BATCHES "dim=64"},
      {"collapse", BATCHES "dim=64 realised-rho"},
      {"collapse", BATCHES "dim=256"},
      {"collapse", BATCHES "dim=256 realised-rho"}},
     {WHOSE(64, 2), WHOSE(256, 4)},
     "Each batch has the threshold of its own mean cosine rho^: at the beta of the law's rho the "
     "weights of tokens on themselves scatter more between batches, by a factor e^{m0.1} in d = "
     "64. Plot against 1/(1-rho^)."},
    {{0}}};

/* ======== rotary positions ======== */

/* The sum over d/2 cosines swings around the integral with a standard deviation of at most 1: five
 * of them, over sqrt d, are 0.02 in 65536 dimensions. */
#define SWING 0.02
#define DECAY(base, near, far, zero)                                                               \
    {                                                                                              \
        "rope", "dim=65536 search=0 base=" #base " distance=" #near "," #far "," #zero             \
    }

/* Returns the score of two equal vectors over sqrt d, d = 65536. */
static es_measured score_of_unit(const es_claim_row *at)
{
    return (es_measured){es_claim_number(at, "score") / 256.0, 0.0};
}

/* Returns the same for infinitely many dimensions. */
static es_measured continuum_of_unit(const es_claim_row *at)
{
    return (es_measured){es_claim_number(at, "continuum") / 256.0, 0.0};
}

/* A column of this base over that of the base before. */
static es_measured ratio_of_negative(const es_claim_row *at)
{
    return (es_measured){es_claim_number(at, "first_negative") /
                             es_ask_number(at->table, at->row - 1, "first_negative").value,
                         0.0};
}

/* Returns 1/ln(base). */
static es_measured inverse_log(const es_claim_row *at)
{
    return (es_measured){1.0 / log(es_claim_number(at, "base")), 0.0};
}

const es_claim_entry es_claims_rope[] = {
    {{"rope-decay", es_paper_d,
      "With rotary positions the score of two equal vectors falls with the logarithm of their "
      "distance, down to 0 at a distance proportional to the base",
      ES_CLAIM_PAPER},
     /* 0.03, 0.2 and 1 of D_0 = 0.6165 base */
     {DECAY(1e4, 185, 1233, 6166), DECAY(1e5, 1850, 12330, 61650), DECAY(5e5, 9248, 61650, 308252),
      DECAY(1e6, 18495, 123301, 616504)},
     {{"rows", "score", "score over sqrt d, base {base}, at {distance} tokens", .allowance = SWING,
       .resolution = 0.1, .computed = true, .measure = score_of_unit,
       .predict = continuum_of_unit}},
     "The score of equal vectors falls with the logarithm of the distance and vanishes at D_0 = "
     "0.6165 base: 6166 tokens for base 10^4, 308252 for 5 10^5."},
    {{"rope-first-negative",
      "the mean over many dimensions, taken at one; no available text states it",
      "The distance up to which scores of equal vectors stay positive grows in proportion to the "
      "base",
      ES_CLAIM_ASSUMPTION, "One head size, d = 128, and two bases"},
     {{"rope", "dim=128 base=1e4,5e5 search=600000 distance=1"}},
     /* allowance: the zero of the sum is below that of the integral by ln(base)/d of itself */
     {{"embeddings", "first_negative",
       "first distance with a negative score, base 5e5 over base 1e4, d = 128", .predicted = 50.0,
       .allowance = 1.53, .resolution = 50.0, .row = 2, .computed = true,
       .measure = ratio_of_negative}},
     "The sum swings around its mean by about 1, more than is left of it long before D_0: with d = "
     "128 a score first turns negative {m0.0} times as far for base 5 10^5 as for 10^4, not 50."},
    {{"rope-granularity", "a rounding in notes on the paper, whose own text was not available",
      "The mean turn between neighbouring positions tends to 1/ln(base) for many dimensions",
      ES_CLAIM_ASSUMPTION},
     {{"rope", "dim=4096 base=1e4,5e5 search=0 distance=1"}},
     /* allowance: the sum's first term counts half too much, sin(1)/d */
     {{"embeddings", "granularity", "mean turn between neighbours, base {base}, d = 4096",
       .allowance = 2.1e-4, .resolution = 0.1, .computed = true, .predict = inverse_log}},
     "The sum tends to Si(1)/ln b = 0.946/ln b, so 1/ln b is 5.7 % high. That it falls like 1/ln b "
     "is right."},
    {{0}}};
