/* SPDX-License-Identifier: Apache-2.0 */
/* extremes.c : Token Sample Complexity of Attention where tokens are not averaged: the worst
 * query of a ball, infinite score scale, and tokens on the sphere. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/claims/claim_kit.h"
#include "limit/limit.h"
#include "random/experiment.h"
#include "tokens/tokens.h"

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
     "The leading term is right and low: {p0.4} for {m0.4} at n = 1e3, {p2.4} for {m2.4} at 1e9 "
     "and still {p3.4} for {m3.4} at 1e15; the next order, ln ln n/(4 ln n), hardly falls."},
    {{0}}};

/* ======== the sphere ======== */

enum { SPHERE_EXPERIMENT = ES_EXPERIMENT_CLAIMS + 2, SPHERE_DIM = 10 };

/* A diagonal head with singular values from 1/2 to 20: some directions averaged, some selected. */
static void make_head(double *A)
{
    for (int i = 0; i < SPHERE_DIM; i++)
        A[i * SPHERE_DIM + i] = 0.5 * pow(40.0, i / (SPHERE_DIM - 1.0));
}

/* Of column `at` of squared outputs (count, SPHERE_DIM), whose mean is 0 by symmetry. */
static es_measured mean_square(const double *squares, int64_t count, int at)
{
    const es_spread s = es_spread_of(squares + at, count, SPHERE_DIM);
    return (es_measured){s.mean, sqrt(s.squares) / (double)count};
}

static es_status gather_sphere(const es_claim_opts *opts, double *tokens, double *outputs,
                               int64_t count, es_finding *out, es_error *err)
{
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = SPHERE_DIM, .size = 1.0};
    const es_address at = {.seed = opts->seed, .experiment = SPHERE_EXPERIMENT};
    const es_view x = es_view_f64(tokens, count, SPHERE_DIM);
    double A[SPHERE_DIM * SPHERE_DIM] = {0}, mean[SPHERE_DIM], cov[SPHERE_DIM * SPHERE_DIM];
    const es_limit_head head = {.A = A};
    es_limit_accuracy accuracy;
    make_head(A);
    ES_TRY(es_tokens_fill(&law, &at, count, opts->exec, tokens, err));
    ES_TRY(es_limit_map(&law, &head, &x, opts->exec, outputs, NULL, NULL, err));
    ES_TRY(es_limit_moments(&law, &head, NULL, opts->exec, mean, cov, &accuracy, err));
    for (int64_t i = 0; i < count * SPHERE_DIM; i++)
        outputs[i] *= outputs[i];
    for (int i = 0; i < SPHERE_DIM; i += 3)
        es_evidence_equal(out, cov[i * SPHERE_DIM + i], accuracy.cov, 0.1 * cov[i * SPHERE_DIM + i],
                          mean_square(outputs, count, i), count,
                          "variance of the output along singular value %.2g, d = %d",
                          A[i * SPHERE_DIM + i], SPHERE_DIM);
    es_finding_remark(out,
                      "The covariance of the limit's outputs is an integral that quadrature "
                      "gives to %.0e; %lld random queries confirm it to %.1f %%.",
                      accuracy.cov, (long long)count,
                      100.0 * out->evidence[0].se / out->evidence[0].predicted);
    return ES_OK;
}

static es_status check_covariance(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    es_mem_limit *budget = es_claim_budget(opts);
    const int64_t count = es_effort_pick(opts, 100000, 1000000);
    double *tokens, *outputs = NULL;
    es_status status = ES_MEM_NEW_2D(budget, tokens, count, SPHERE_DIM, "tokens of a claim", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, outputs, count, SPHERE_DIM, "outputs of a claim", err);
    if (status == ES_OK)
        status = gather_sphere(opts, tokens, outputs, count, out, err);
    es_mem_free(budget, outputs);
    es_mem_free(budget, tokens);
    return status;
}

const es_claim_entry es_claims_sphere[] = {
    {{"sphere-covariance", "Token Sample Complexity of Attention, its code",
      "On the sphere the limit's outputs have a covariance that shares the head's singular "
      "vectors, with eigenvalues given by a Dirichlet integral",
      ES_CLAIM_PAPER},
     .gather = check_covariance},
    {{0}}};
