/* claims_sphere.c : tokens on the sphere. */
#include <math.h>

#include <esscher/experiment.h>
#include <esscher/limit.h>
#include <esscher/linalg.h>
#include <esscher/tokens.h>

#include "base/error.h"
#include "base/memory.h"
#include "study/claim_kit.h"

enum { EXPERIMENT = ES_EXPERIMENT_CLAIMS + 2, DIM = 10 };

/* A diagonal head with singular values from 1/2 to 20: some directions averaged, some selected. */
static void make_head(double *A)
{
    for (int i = 0; i < DIM; i++)
        A[i * DIM + i] = 0.5 * pow(40.0, i / (DIM - 1.0));
}

/* Of column `at` of squared outputs (count, DIM), whose mean is 0 by symmetry. */
static es_measured mean_square(const double *squares, int64_t count, int at)
{
    const es_spread s = es_spread_of(squares + at, count, DIM);
    return (es_measured){s.mean, sqrt(s.squares) / (double)count};
}

static es_status gather(const es_claim_opts *opts, double *tokens, double *outputs, int64_t count,
                        es_finding *out, es_error *err)
{
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = DIM, .size = 1.0};
    const es_address at = {.seed = opts->seed, .experiment = EXPERIMENT};
    const es_view x = es_view_f64(tokens, count, DIM);
    double A[DIM * DIM] = {0}, mean[DIM], cov[DIM * DIM];
    const es_limit_head head = {.A = A};
    es_limit_accuracy accuracy;
    make_head(A);
    ES_TRY(es_tokens_fill(&law, &at, count, opts->exec, tokens, err));
    ES_TRY(es_limit_map(&law, &head, &x, opts->exec, outputs, NULL, NULL, err));
    ES_TRY(es_limit_moments(&law, &head, NULL, opts->exec, mean, cov, &accuracy, err));
    for (int64_t i = 0; i < count * DIM; i++)
        outputs[i] *= outputs[i];
    for (int i = 0; i < DIM; i += 3)
        es_evidence_equal(out, cov[i * DIM + i], accuracy.cov, 0.1 * cov[i * DIM + i],
                          mean_square(outputs, count, i),
                          "variance of the output along singular value %.2g, d = %d",
                          A[i * DIM + i], DIM);
    es_finding_conclude(
        out,
        "The covariance of the limit's outputs is an integral that quadrature gives "
        "to %.0e; %lld random queries confirm it to %.1f %%.",
        accuracy.cov, (long long)count, 100.0 * out->evidence[0].se / out->evidence[0].predicted);
    return ES_OK;
}

static es_status check_covariance(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    es_budget *budget = es_claim_budget(opts);
    const int64_t count = es_effort_pick(opts, 100000, 1000000);
    double *tokens, *outputs = NULL;
    es_status status = es_mem_array(budget, count, DIM, sizeof(double), "tokens of a claim",
                                    (void **)&tokens, err);
    if (status == ES_OK)
        status = es_mem_array(budget, count, DIM, sizeof(double), "outputs of a claim",
                              (void **)&outputs, err);
    if (status == ES_OK)
        status = gather(opts, tokens, outputs, count, out, err);
    es_mem_free(budget, outputs);
    es_mem_free(budget, tokens);
    return status;
}

const es_claim_entry es_claims_sphere[] = {
    {{"sphere-covariance", "Token Sample Complexity of Attention, its code",
      "On the sphere the limit's outputs have a covariance that shares the head's singular "
      "vectors, "
      "with eigenvalues given by a Dirichlet integral",
      ES_VERDICT_HOLDS},
     check_covariance},
    {{0}, 0}};
