/* SPDX-License-Identifier: Apache-2.0 */
/* extremes.c : Token Sample Complexity of Attention where tokens are not averaged: the worst
 * query of a ball, infinite score scale, and tokens on the sphere. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/claims/claim_kit.h"
#include "random/experiment.h"
#include "random/random.h"

/* ======== the worst query of a ball ======== */

/* One dimension, S = A = V = 1: H1 = 1, and the limit field can be sampled. e^{2 R^2} is at most
 * 0.05 n. */
#define BALL "dim=1 replicates=160|2000 "

/* The next order of the field, e^{2 R^2}/n at the smallest n. */
static double next_order_of_ball(const es_claim_row *at)
{
    const double R = es_claim_number(at, "radius");
    return exp(2.0 * R * R) / 1000.0;
}

const es_claim_entry es_claims_ball[] = {
    {{"ball-rate", es_paper_a,
      "The largest error over all queries |x| <= R falls like C(R)/sqrt(n)", ES_CLAIM_PAPER},
     {{"ball", BALL "n=1000,4000,16000 radii=0.4,1"}},
     {{"fits", "rate", "rate of the supremum over |x| <= {radius}, d = 1", .predicted = 0.5,
       .allowance = 0.01, .resolution = 0.25, .allow = next_order_of_ball}},
     "Even the worst query of a ball converges like 1/sqrt(n), as long as the ball is small for "
     "that n."},
    {{"ball-growth", es_paper_a, "C(R) grows with R at most like e^(R^2 |S^1/2 A|^2)",
      ES_CLAIM_PAPER},
     {{"ball", BALL "n=8000 radii=0.4,0.7,1,1.2"}},
     {{"growth", "slope", "growth of log sup in R^2 against the bound's H1^2, d = 1",
       ES_RELATION_AT_MOST, .expect = "slope_bound"},
      /* allowance: 4096 draws of the field, about 1 % of each constant */
      {"growth", "slope", "growth of log sup in R^2 against the limit field's own, d = 1",
       .expect = "slope_predicted", .allowance = 0.03, .resolution = 0.5}},
     "The bound e^(R^2 H1^2) is safe and pessimistic: the constant grows like e^({m0.2} R^2) here, "
     "as the limiting Gaussian field says ({p1.2}), towards half the bound's exponent."},
    {{0}}};

/* ======== infinite score scale ======== */

#define EXTREMES                                                                                   \
    {                                                                                              \
        "hardmax", "n=1e3,1e6,1e9 replicates=100000|1e7"                                           \
    }

/* What the leading term leaves out: with the hazard h^2 = b^2 + 2 and the quantile
 * b^2 = 2x - ln(4 pi x), x = ln n + gamma + ln(2)/2, of the second order in THEORY 5, the ratio of
 * the two is 1 + (ln ln n - 1.3)/(4 ln n). */
static double next_order(const es_claim_row *at)
{
    const double L = log(es_claim_number(at, "n"));
    return log(L) / (4.0 * L) * es_claim_number(at, "asymptotic");
}

#define LEADING .expect = "asymptotic", .resolution_part = 0.2, .allow = next_order

const es_claim_entry es_claims_hardmax[] = {
    {{"hardmax-exact", "derived: THEORY 5",
      "At infinite score scale in one dimension E|m_n| = E max|X| - E max X", ES_CLAIM_RESULT},
     {EXTREMES},
     {{"rows", "mean_abs", "E|mean output|, n = {n}", .expect = "exact", .resolution_part = 0.05}},
     "At infinite score scale a million times more tokens bring the error from {m0.3} to {m2.3}: "
     "no power law, whatever a plot over two decades suggests."},
    {{"hardmax-law", es_paper_a,
      "At infinite score scale the error falls only like 1/sqrt(log n): ln 4/(2 sqrt(2 ln n))",
      ES_CLAIM_PAPER,
      "A leading term, allowed to be off by the next order, ln ln n/(4 ln n): slack says how much "
      "of that is left"},
     {EXTREMES, {"hardmax", "n=1e15 replicates=2"}},
     {{"rows", "mean_abs", "E|mean output| against ln 4/(2 sqrt(2 ln n)), n = {n}", .run = 1,
       LEADING},
      {"rows", "exact", "the exact integral against it, n = {n}", .run = 2, .computed = true,
       LEADING}},
     "The leading term has the right form and is low: {p0.4} for {m0.4} at n = 1e3, {p2.4} for "
     "{m2.4} at 1e9 "
     "and still {p3.4} for {m3.4} at 1e15; the next order, ln ln n/(4 ln n), hardly falls."},
    {{0}}};

/* ======== the sphere ======== */

enum { SPHERE_EXPERIMENT = ES_EXPERIMENT_CLAIMS + 2, SPHERE_DIM = 10 };

/* Writes a diagonal head with singular values from 1/2 to 20, so that some directions are averaged
 * and some selected, and random queries on the sphere. */
static es_status head_and_queries(const void *source, const char *folder, uint64_t seed,
                                  es_error *err)
{
    const es_claim_source *of = source;
    const es_address at = {.seed = seed, .experiment = SPHERE_EXPERIMENT};
    double A[SPHERE_DIM * SPHERE_DIM] = {0};
    for (int i = 0; i < SPHERE_DIM; i++)
        A[i * SPHERE_DIM + i] = 0.5 * pow(40.0, i / (SPHERE_DIM - 1.0));
    ES_TRY(es_ask_write(folder, "a.npy", 2, (int64_t[]){SPHERE_DIM, SPHERE_DIM}, A, err));
    return es_ask_write_rows(folder, "b.npy", es_sphere_rows, &at, es_claim_tries(of), SPHERE_DIM,
                             es_claim_budget(of->opts), err);
}

/* Returns the mean square over queries of one channel of the output, whose mean is 0 by symmetry.
 */
static es_measured channel_variance(const es_claim_row *at)
{
    const es_table *queries = es_answer_find(at->answers[at->run], "rows");
    const int64_t count = es_table_rows(queries);
    char key[16];
    double sum = 0.0, squares = 0.0;
    snprintf(key, sizeof key, "map.%.0f", es_claim_number(at, "channel"));
    for (int64_t i = 0; i < count; i++) {
        const double x = es_table_get(queries, i, key);
        sum += x * x;
        squares += x * x * x * x;
    }
    const double mean = sum / (double)count;
    return (es_measured){mean, sqrt((squares / (double)count - mean * mean) / (double)count)};
}

/* Returns the error of the quadrature. */
static double error_of_moments(const es_claim_row *at)
{
    return es_ask_number(es_answer_find(at->answers[at->run], "accuracy"), 0, "cov_error").value;
}

#define CHANNEL(number, size)                                                                      \
    {                                                                                              \
        "channel_moments", "variance",                                                             \
            "variance of the output along singular value " size ", d = 10",                        \
            .expect = "variance", .resolution_part = 0.1, .row = number,                           \
            .measure = channel_variance, .allow = error_of_moments                                 \
    }

const es_claim_entry es_claims_sphere[] = {
    {{"sphere-covariance", "Token Sample Complexity of Attention, its code",
      "On the sphere the limit's outputs have a covariance that shares the head's singular "
      "vectors, with eigenvalues given by a Dirichlet integral",
      ES_CLAIM_PAPER},
     {{"limit", "law=sphere dim=10 A=@/a.npy x=@/b.npy moments", head_and_queries,
       .tries = {100000, 1000000}}},
     {CHANNEL(1, "0.5"), CHANNEL(4, "1.7"), CHANNEL(7, "5.8"), CHANNEL(10, "20")},
     "The covariance of the limit's outputs is an integral, and random queries confirm it: along "
     "singular value 0.5 the variance is {m0.6} +- {s0.6}, the integral gives {p0.6}."},
    {{0}}};
