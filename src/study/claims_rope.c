/* claims_rope.c : rotary positions, how far they let a query see. Sums of cosines are no random
 * numbers, but their terms turn so fast that head sizes serve as replicates. */
#include <math.h>

#include <esscher/rope.h>

#include "base/error.h"
#include "study/claim_kit.h"

enum { SIZES = 64, SMALLEST = 128, LARGE = 4096 };

static const char paper_d[] = "Effective Long-Context Scaling of Foundation Models";
static const double old_base = 10000.0, new_base = 500000.0;

/* s(D)/sqrt d, averaged over the head sizes 128, 130, ... 254. */
static es_measured mean_score(double base, double distance)
{
    double x[SIZES];
    for (int64_t i = 0; i < SIZES; i++) {
        const es_rope rope = {.dim = SMALLEST + 2 * i, .base = base};
        x[i] = es_rope_score(&rope, distance) / sqrt((double)rope.dim);
    }
    return es_measured_mean(x, SIZES);
}

static es_status check_decay(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const double bases[] = {1e4, 1e5, 5e5, 1e6};
    static const double parts[] = {0.03, 0.2, 1.0}; /* of D_0 */
    (void)opts, (void)err;
    for (int64_t i = 0; i < COUNT(bases); i++)
        for (int64_t k = 0; k < COUNT(parts); k++) {
            const es_rope rope = {.dim = SMALLEST, .base = bases[i]};
            const double D = round(parts[k] * es_rope_reach(&rope));
            /* slack: a sum is no integral; its first and last term count half too much */
            es_evidence_equal(out, es_rope_continuum(&rope, D) / sqrt(SMALLEST), 2.0 / SMALLEST,
                              0.1, mean_score(bases[i], D),
                              "score over sqrt d, base %.0e, %.0f tokens away (%g D_0)", bases[i],
                              D, parts[k]);
        }
    es_finding_conclude(out,
                        "On average the score of equal vectors falls with the logarithm of the "
                        "distance and vanishes at D_0 = 0.6165 base: %.0f tokens for base 10^4, "
                        "%.0f for 5 10^5 (measured there %.3f and %.3f of sqrt d).",
                        es_rope_reach(&(es_rope){.dim = SMALLEST, .base = old_base}),
                        es_rope_reach(&(es_rope){.dim = SMALLEST, .base = new_base}),
                        out->evidence[2].measured, out->evidence[8].measured);
    return ES_OK;
}

static es_status check_first(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    (void)opts, (void)err;
    const es_rope old = {.dim = SMALLEST, .base = old_base};
    const es_rope new = {.dim = SMALLEST, .base = new_base};
    const double ratio = new_base / old_base;
    const int64_t a = es_rope_first_negative(&old, (int64_t)(2.0 * es_rope_reach(&old)));
    const int64_t b = es_rope_first_negative(&new, (int64_t)(2.0 * es_rope_reach(&new)));
    /* slack: the zero of the sum is below that of the integral by ln(base)/d of itself */
    es_evidence_equal(
        out, ratio, ratio * log(ratio) / SMALLEST, ratio, (es_measured){(double)b / (double)a, 0.0},
        "first distance with a negative score, base 5e5 over base 1e4, d = %d", SMALLEST);
    es_finding_conclude(out,
                        "The sum swings around its mean by about 1, more than is left of it long "
                        "before D_0: with d = 128 a score first turns negative at %lld tokens for "
                        "base 10^4 and at %lld for 5 10^5, %.0f times as far, not 50.",
                        (long long)a, (long long)b, (double)b / (double)a);
    return ES_OK;
}

static es_status check_granularity(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const double bases[] = {10000.0, 500000.0};
    (void)opts, (void)err;
    for (int64_t i = 0; i < COUNT(bases); i++) {
        const es_rope rope = {.dim = LARGE, .base = bases[i]};
        /* slack: the sum's first term counts half too much */
        es_evidence_equal(out, 1.0 / log(bases[i]), sin(1.0) / LARGE, 0.1,
                          (es_measured){es_rope_granularity(&rope), 0.0},
                          "mean turn between neighbours, base %g, d = %d", bases[i], LARGE);
    }
    const es_rope small = {.dim = SMALLEST, .base = bases[0]};
    es_finding_conclude(
        out,
        "The sum tends to Si(1)/ln b = 0.946/ln b, so 1/ln b is 5.7 %% high; at "
        "d = 128 the sum is itself %.1f %% above its limit and 1/ln b happens to "
        "be near. That it falls like 1/ln b is right.",
        100.0 * (es_rope_granularity(&small) / es_rope_granularity_limit(&small) - 1.0));
    return ES_OK;
}

const es_claim_entry es_claims_rope[] = {
    {{"rope-decay", paper_d,
      "With rotary positions the score of two equal vectors falls with the logarithm of their "
      "distance, down to 0 at a distance proportional to the base",
      ES_VERDICT_HOLDS},
     check_decay},
    {{"rope-first-negative", "a reading of Effective Long-Context Scaling of Foundation Models",
      "A base 50 times as large keeps scores positive up to 50 times the distance",
      ES_VERDICT_FAILS},
     check_first},
    {{"rope-granularity", paper_d,
      "Neighbouring positions differ by 1/ln(base) in the mean over pairs, for many dimensions",
      ES_VERDICT_FAILS},
     check_granularity},
    {{0}, 0}};
