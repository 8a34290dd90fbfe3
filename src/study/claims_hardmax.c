/* claims_hardmax.c : infinite score scale, where convergence is logarithmic. */
#include <math.h>

#include <esscher/experiment.h>
#include <esscher/hardmax.h>

#include "base/error.h"
#include "study/claim_kit.h"

enum { EXPERIMENT = ES_EXPERIMENT_CLAIMS + 1, SIZES = 3 };
static const int64_t sizes[SIZES] = {1000, 1000000, 1000000000};

static es_status simulate(const es_claim_opts *opts, es_hardmax_row rows[SIZES], es_error *err)
{
    const es_hardmax_opts hardmax = {.seed = opts->seed,
                                     .experiment = EXPERIMENT,
                                     .replicates = es_effort_pick(opts, 100000, 10000000),
                                     .exec = opts->exec};
    return es_hardmax_run(&hardmax, sizes, SIZES, rows, err);
}

static es_status check_exact(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    es_hardmax_row rows[SIZES];
    ES_TRY(simulate(opts, rows, err));
    for (int i = 0; i < SIZES; i++) {
        es_num exact;
        ES_TRY(es_hardmax_exact(ES_HARDMAX_POPULATION, sizes[i], 1.0, &exact, err));
        es_evidence_equal(out, exact.val, exact.err, 0.05 * exact.val,
                          (es_measured){rows[i].mean_abs, rows[i].mean_abs_se},
                          "E|mean output|, n = 1e%.0f", log10((double)sizes[i]));
    }
    es_finding_conclude(out,
                        "At infinite score scale a million times more tokens bring the error from "
                        "%.3f to %.3f: no power law, whatever a plot over two decades suggests.",
                        rows[0].mean_abs, rows[SIZES - 1].mean_abs);
    return ES_OK;
}

static es_status check_leading(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    es_hardmax_row rows[SIZES];
    ES_TRY(simulate(opts, rows, err));
    for (int i = 0; i < SIZES; i++) {
        const double leading = es_hardmax_leading(sizes[i], 1.0);
        /* the next term is of relative order 1/ln n, with a constant near 1/4 */
        es_evidence_equal(out, leading, leading / (2.0 * log((double)sizes[i])), 0.2 * leading,
                          (es_measured){rows[i].mean_abs, rows[i].mean_abs_se},
                          "E|mean output| against ln 4/(2 sqrt(2 ln n)), n = 1e%.0f",
                          log10((double)sizes[i]));
    }
    es_finding_conclude(out,
                        "The leading term is right and low: by %.1f %% at n = 1e3, still %.1f %% "
                        "at 1e9.",
                        100.0 * (1.0 - es_hardmax_leading(sizes[0], 1.0) / rows[0].mean_abs),
                        100.0 * (1.0 - es_hardmax_leading(sizes[2], 1.0) / rows[2].mean_abs));
    return ES_OK;
}

const es_claim_entry es_claims_hardmax[] = {
    {{"hardmax-exact", "derived from Token Sample Complexity of Attention",
      "At infinite score scale in one dimension E|m_n| = E max|X| - E max X", ES_VERDICT_HOLDS},
     check_exact},
    {{"hardmax-law", "Token Sample Complexity of Attention",
      "At infinite score scale the error falls only like 1/sqrt(log n): ln 4/(2 sqrt(2 ln n))",
      ES_VERDICT_HOLDS},
     check_leading},
    {{0}, 0}};
