/* SPDX-License-Identifier: Apache-2.0 */
/* context.c : what keeps tokens apart in a long context. Critical attention scaling in
 * long-context transformers: the score scale; Effective Long-Context Scaling of Foundation Models:
 * rotary positions. */
#include <math.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/claims/claim_kit.h"
#include "experiments/collapse/collapse.h"
#include "random/experiment.h"
#include "theory/rope.h"

/* ======== the score scale ======== */

enum { EXPERIMENT = ES_EXPERIMENT_CLAIMS + 6, MOST = 64 };

/* Score scales in units of gamma_c = 1/(1 - rho^), rho^ the replicate's own mean cosine. */
enum { HALF, BELOW, AT, ABOVE, BEYOND, TIMES };
static const double times[TIMES] = {0.5, 0.9, 1.0, 1.1, 1.5};

/* The paper's random model. */
typedef struct trial {
    int64_t n, dim, replicates; /* at most MOST */
    double rho;
    es_collapse_draw draws[MOST][TIMES];
} trial;

static es_status run(const es_claim_opts *opts, trial *t, es_error *err)
{
    es_collapse_opts how = {opts->seed, .experiment = EXPERIMENT, .dim = t->dim, .rows = -1,
                            .exec = opts->exec};
    for (int64_t r = 0; r < t->replicates; r++) {
        double beta[TIMES] = {0.0};
        how.tokens = 2; /* first only to learn rho^: numbers stand at addresses */
        ES_TRY(es_collapse_sample(&how, t->n, t->rho, beta, 1, r, 1, t->draws[r], err));
        for (int k = 0; k < TIMES; k++)
            beta[k] = times[k] * log((double)t->n) / (1.0 - t->draws[r][0].rho);
        how.tokens = 16;
        ES_TRY(es_collapse_sample(&how, t->n, t->rho, beta, TIMES, r, 1, t->draws[r], err));
    }
    return ES_OK;
}

/* One number of each replicate, averaged. */
static es_measured average(const trial *t, double (*number)(const es_collapse_draw *draws))
{
    double x[MOST];
    for (int64_t r = 0; r < t->replicates; r++)
        x[r] = number(t->draws[r]);
    return es_measured_mean(x, t->replicates);
}

static double log_odds(const es_collapse_draw *d)
{
    return log(d->self_weight) - log1p(-d->self_weight);
}
static double ratio_half(const es_collapse_draw *d) { return d[HALF].angle_ratio; }
static double ratio_beyond(const es_collapse_draw *d) { return d[BEYOND].angle_ratio; }
static double cosine(const es_collapse_draw *d) { return d[AT].cosine; }
static double critical_cosine(const es_collapse_draw *d)
{
    return 4.0 * d->rho / (1.0 + 3.0 * d->rho);
}
static double cosine_off(const es_collapse_draw *d) { return cosine(d) - critical_cosine(d); }

static double steepness(const es_collapse_draw *d)
{
    return (log_odds(&d[ABOVE]) - log_odds(&d[BELOW])) / (times[ABOVE] - times[BELOW]);
}

/* Where a token's weight on itself is one half. */
static double crossing(const es_collapse_draw *d)
{
    return times[BELOW] - log_odds(&d[BELOW]) / steepness(d);
}

/* kappa of the spread of cosines in finite dimension (THEORY.md 7). */
static double kappa(double rho) { return 1.0 + rho - 0.5 * rho * rho; }

/* ---- the threshold ---- */

static const double rhos[] = {0.3, 0.5, 0.8};

static es_status check_threshold(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    trial t = {.n = es_effort_pick(opts, 2000, 100000), .dim = 1024, .replicates = 5};
    const double L = log((double)t.n);
    for (int64_t i = 0; i < COUNT(rhos); i++) {
        t.rho = rhos[i];
        ES_TRY(run(opts, &t, err));
        /* allowance: cosines spread in 1024 dimensions, which asks for more by kappa L/(2d); a
         * heuristic, hence twice */
        es_evidence_equal(out, 1.0, kappa(t.rho) * L / (double)t.dim, 0.2, average(&t, crossing),
                          t.replicates,
                          "scale at which the own weight is 1/2, over 1/(1-rho), rho = %g", t.rho);
        es_evidence_at_most(out, 0.15, average(&t, ratio_half), t.replicates,
                            "angle ratio at half of that scale, rho = %g", t.rho);
        es_evidence_at_least(out, 0.85, average(&t, ratio_beyond), t.replicates,
                             "angle ratio at one and a half of it, rho = %g", t.rho);
    }
    es_finding_remark(
        out,
        "beta = ln n/(1-rho) divides collapse from identity: %d tokens at rho = 0.5 keep %.2f of "
        "their angle at half of it, %.3f at one and a half; they cross at %.3f +- %.3f of it.",
        (int)t.n, out->evidence[4].measured, out->evidence[5].measured, out->evidence[3].measured,
        out->evidence[3].se);
    return ES_OK;
}

/* ---- at the threshold ---- */

static es_status check_value(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    trial t = {.n = es_effort_pick(opts, 1000, 100000), .dim = 1024, .replicates = 8};
    const double L = log((double)t.n);
    for (int64_t i = 0; i < COUNT(rhos); i++) {
        t.rho = rhos[i];
        ES_TRY(run(opts, &t, err));
        const double limit = average(&t, critical_cosine).value;
        const double p = es_collapse_self_weight(t.n, t.rho, L / (1.0 - t.rho), t.dim);
        const double at_dim = t.rho / (p * p + (1.0 - p * p) * t.rho);
        /* allowance: 1024 dimensions, as p tells; outputs stay apart by a further beta (1-rho)/d =
         * L/d
         */
        es_evidence_equal(out, limit, fabs(at_dim - 4.0 * t.rho / (1.0 + 3.0 * t.rho)) + L / 1024.0,
                          0.1, (es_measured){average(&t, cosine).value, average(&t, cosine_off).se},
                          t.replicates, "cosine of outputs at gamma_c, rho = %g, n = %d", t.rho,
                          (int)t.n);
    }
    for (int64_t i = 0; i < COUNT(rhos); i++) {
        const int64_t n = INT64_C(1000000000000);
        const es_equiangular tokens = {
            .n = n, .rho = rhos[i], .beta = log((double)n) / (1.0 - rhos[i])};
        es_collapse exact;
        ES_TRY(es_collapse_exact(&tokens, &exact, err));
        /* allowance: p is 1/2 + 1/(4n), rounding of beta included */
        es_evidence_equal(out, 4.0 * rhos[i] / (1.0 + 3.0 * rhos[i]), 1e-11, 0.1,
                          (es_measured){exact.cosine, 0.0}, 0,
                          "cosine at gamma_c, exactly equal angles, rho = %g, n = 10^12", rhos[i]);
    }
    es_finding_remark(out,
                      "At gamma_c tokens come nearer and do not collapse: rho = 0.5 becomes %.3f "
                      "+- %.3f, 4 rho/(1+3 rho) says %.3f.",
                      out->evidence[1].measured, out->evidence[1].se, out->evidence[1].predicted);
    return ES_OK;
}

/* ---- the window ---- */

static es_status check_window(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const int64_t sizes[] = {64, 512, 4096};
    const double odds = 2.0 * log(9.0); /* log-odds climb by so much from p = 0.1 to 0.9 */
    trial t = {.dim = 1024, .replicates = es_effort_pick(opts, 6, MOST), .rho = 0.5};
    for (int64_t i = 0; i < COUNT(sizes); i++) {
        t.n = sizes[i];
        ES_TRY(run(opts, &t, err));
        const double L = log((double)t.n);
        const es_measured climb = average(&t, steepness);
        /* allowance: log-odds B - L - kappa B^2/(2d) climb with L (1 - kappa L/d), a heuristic,
         * hence twice; and a mean over tokens is taken before the logarithm */
        es_evidence_equal(
            out, odds / L, odds / L * (2.0 * kappa(t.rho) * L / (double)t.dim + 0.02),
            0.2 * odds / L,
            (es_measured){odds / climb.value, odds * climb.se / (climb.value * climb.value)},
            t.replicates, "width of the window in gamma/gamma_c, rho = %g, n = %d", t.rho,
            (int)t.n);
    }
    es_finding_remark(out,
                      "The transition is not sharp at contexts in use: from an own weight of 0.1 "
                      "to 0.9 gamma/gamma_c climbs by 4.4/ln n: %.2f at n = 64, %.2f at n = "
                      "4096; a million tokens would have 0.32.",
                      out->evidence[0].measured, out->evidence[2].measured);
    return ES_OK;
}

/* ---- whose rho? ---- */

/* Slope of log-odds on rho^ over replicates at one beta, over beta, and its standard error. */
static es_measured regress(const es_collapse_draw *d, int64_t count, double beta)
{
    double rho[MOST], odds[MOST];
    for (int64_t r = 0; r < count; r++) {
        rho[r] = d[r].rho;
        odds[r] = log_odds(&d[r]);
    }
    const es_measured slope = es_measured_slope(rho, odds, count);
    return (es_measured){slope.value / beta, slope.se / beta};
}

static es_status check_nominal(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const int64_t dims[] = {64, 256};
    const double rho = 0.5;
    const int64_t n = es_effort_pick(opts, 1000, 10000), count = es_effort_pick(opts, 40, MOST);
    const double beta = log((double)n) / (1.0 - rho);
    double lowest = 1.0, highest = 0.0;
    for (int64_t i = 0; i < COUNT(dims); i++) {
        es_collapse_draw draws[MOST];
        const es_collapse_opts how = {opts->seed,     .experiment = EXPERIMENT,
                                      .dim = dims[i], .tokens = 16,
                                      .rows = -1,     .exec = opts->exec};
        ES_TRY(es_collapse_sample(&how, n, rho, &beta, 1, 0, count, draws, err));
        es_evidence_equal(out, 0.0, 0.0, 0.5, regress(draws, count, beta), count,
                          "own log-odds against a batch's mean cosine, over beta, d = %d",
                          (int)dims[i]);
        for (int64_t r = 0; r < count && i == 0; r++) {
            lowest = fmin(lowest, draws[r].self_weight);
            highest = fmax(highest, draws[r].self_weight);
        }
    }
    es_finding_remark(out,
                      "Each batch has the threshold of its own mean cosine rho^: at the same "
                      "beta, in d = 64, a token's weight on itself ranges from %.2f to %.2f "
                      "between batches. Plot against 1/(1-rho^).",
                      lowest, highest);
    return ES_OK;
}

const es_claim_entry es_claims_collapse[] = {
    {{"collapse-threshold", es_paper_c,
      "Tokens of mutual cosine rho under scores scaled by gamma ln n collapse to one direction for "
      "gamma below 1/(1-rho), and each sees itself alone above",
      ES_CLAIM_PAPER},
     check_threshold},
    {{"collapse-critical", es_paper_c,
      "At gamma = 1/(1-rho) outputs have cosine 4 rho/(1 + 3 rho) for n to infinity",
      ES_CLAIM_PAPER},
     check_value},
    {{"collapse-window", "derived: THEORY 7",
      "At finite n the transition has a relative width of 4.4/ln n in gamma", ES_CLAIM_RESULT},
     check_window},
    {{"collapse-nominal-rho", "a reading of a threshold; in no text that was available",
      "In the random model the threshold is 1/(1-rho) with the rho of the law: batches differ by "
      "noise only",
      ES_CLAIM_READING},
     check_nominal},
    {{0}, 0}};

/* ======== rotary positions ======== */

enum { PLACES = ES_EXPERIMENT_CLAIMS + 7, SIZES = 64, SMALLEST = 128, LARGE = 4096 };

static const double old_base = 10000.0, new_base = 500000.0;

/* The sum swings around the integral, and swings are no random numbers; but places are. Every draw
 * has a head size of 128, 130, ... 254 and a distance within a factor e^{1/2} of D of its own, and
 * knows nothing of the others, so that their mean has a standard error. What the integral itself
 * changes between D and the draw's distance is taken off. */
static double score_near(double base, double distance, const double place[2])
{
    const es_rope rope = {.dim = SMALLEST + 2 * (int64_t)(place[0] * SIZES), .base = base};
    const double near = distance * exp(place[1] - 0.5);
    return (es_rope_score(&rope, near) - es_rope_continuum(&rope, near) +
            es_rope_continuum(&rope, distance)) /
           sqrt((double)rope.dim);
}

/* `places` (count, 2) and `scores` (count) are to work in. */
static es_status mean_score(const es_claim_opts *opts, uint64_t cell, double base, double distance,
                            int64_t count, double *places, double *scores, es_measured *out,
                            es_error *err)
{
    const es_address at = {.seed = opts->seed, .experiment = PLACES, .cell = cell};
    ES_TRY(es_uniform_rows(&at, count, 2, places, err));
    for (int64_t i = 0; i < count; i++)
        scores[i] = score_near(base, distance, places + 2 * i);
    *out = es_measured_mean(scores, count);
    return ES_OK;
}

static es_status gather_decay(const es_claim_opts *opts, int64_t count, double *work,
                              es_finding *out, es_error *err)
{
    static const double bases[] = {1e4, 1e5, 5e5, 1e6};
    static const double parts[] = {0.03, 0.2, 1.0}; /* of D_0 */
    for (int64_t i = 0; i < COUNT(bases) * COUNT(parts); i++) {
        const double base = bases[i / COUNT(parts)], part = parts[i % COUNT(parts)];
        const es_rope rope = {.dim = SMALLEST, .base = base};
        const double D = round(part * es_rope_reach(&rope));
        es_measured score;
        ES_TRY(mean_score(opts, (uint64_t)i, base, D, count, work, work + 2 * count, &score, err));
        /* allowance: a sum is no integral; its slowest pair counts half too little, 1/d at most */
        es_evidence_equal(out, es_rope_continuum(&rope, D) / sqrt(SMALLEST), 1.0 / SMALLEST, 0.1,
                          score, count, "score over sqrt d, base %.0e, near %.0f tokens (%g D_0)",
                          base, D, part);
    }
    return ES_OK;
}

static es_status check_decay(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    const int64_t count = es_effort_pick(opts, 1000, 20000);
    double *work;
    ES_TRY(ES_MEM_NEW_2D(es_claim_budget(opts), work, count, 3, "places of a claim", err));
    const es_status status = gather_decay(opts, count, work, out, err);
    es_mem_free(es_claim_budget(opts), work);
    ES_TRY(status);
    es_finding_remark(out,
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
    /* allowance: the zero of the sum is below that of the integral by ln(base)/d of itself */
    es_evidence_equal(
        out, ratio, ratio * log(ratio) / SMALLEST, ratio, (es_measured){(double)b / (double)a, 0.0},
        0, "first distance with a negative score, base 5e5 over base 1e4, d = %d", SMALLEST);
    es_finding_remark(out,
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
        /* allowance: the sum's first term counts half too much */
        es_evidence_equal(out, 1.0 / log(bases[i]), sin(1.0) / LARGE, 0.1,
                          (es_measured){es_rope_granularity(&rope), 0.0}, 0,
                          "mean turn between neighbours, base %g, d = %d", bases[i], LARGE);
    }
    const es_rope small = {.dim = SMALLEST, .base = bases[0]};
    es_finding_remark(
        out,
        "The sum tends to Si(1)/ln b = 0.946/ln b, so 1/ln b is 5.7 %% high; at d = 128 the sum is "
        "itself %.1f %% above its limit and 1/ln b happens to be near. That it falls like 1/ln b "
        "is right.",
        100.0 * (es_rope_granularity(&small) / es_rope_granularity_limit(&small) - 1.0));
    return ES_OK;
}

const es_claim_entry es_claims_rope[] = {
    {{"rope-decay", es_paper_d,
      "With rotary positions the score of two equal vectors falls with the logarithm of their "
      "distance, down to 0 at a distance proportional to the base",
      ES_CLAIM_PAPER},
     check_decay},
    {{"rope-first-negative",
      "a reading of the mean over many dimensions; in no text that was available",
      "The distance up to which scores of equal vectors stay positive grows in proportion to the "
      "base",
      ES_CLAIM_READING, "One head size, d = 128, and two bases"},
     check_first},
    {{"rope-granularity", "a rounding in reading notes; the paper's own text was not at hand",
      "The mean turn between neighbouring positions tends to 1/ln(base) for many dimensions",
      ES_CLAIM_READING},
     check_granularity},
    {{0}, 0}};
