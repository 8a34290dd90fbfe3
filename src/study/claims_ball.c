/* claims_ball.c : the worst query of a ball. */
#include <math.h>

#include <esscher/ball.h>

#include "base/error.h"
#include "study/claim_kit.h"
#include "study/series.h"

static const char paper_a[] = "Token Sample Complexity of Attention";

/* One dimension, S = A = V = 1: H1 = 1, and the limit field can be sampled. */
static const double one = 1.0;
static const int64_t sizes[] = {1000, 4000, 16000};
static const double radii[] = {0.4, 0.7, 1.0, 1.2}; /* e^{2 R^2} <= 0.05 n at the largest n */

enum { SIZES = COUNT(sizes), RADII = COUNT(radii) };

typedef struct trial {
    es_law law;
    es_view A;
    es_head head;
    int64_t replicates;
    es_ball_cell *cells; /* (replicates, sizes, radii) */
    es_arena arena;
} trial;

static es_status run(const es_claim_opts *opts, trial *t, es_error *err)
{
    *t = (trial){.law = {.kind = ES_LAW_GAUSSIAN, .dim = 1, .size = 1.0},
                 .A = es_view_f64(&one, 1, 1),
                 .replicates = es_effort_pick(opts, 160, 4000),
                 .arena = {.budget = es_claim_budget(opts)}};
    t->head = (es_head){.A = &t->A};
    const es_ball_spec spec = {.law = &t->law,
                               .head = &t->head,
                               .sizes = sizes,
                               .n_sizes = SIZES,
                               .radii = radii,
                               .n_radii = RADII,
                               .seed = opts->seed,
                               .exec = opts->exec};
    es_ball *ball;
    ES_TRY(es_arena_array(&t->arena, t->replicates, SIZES * RADII, sizeof *t->cells,
                          "suprema of a claim", (void **)&t->cells, err));
    ES_TRY(es_ball_new(&spec, &ball, err));
    const es_status status = es_ball_replicates(ball, 0, t->replicates, t->cells, err);
    es_ball_free(ball);
    return status;
}

static double sup_of(const trial *t, int64_t r, int64_t size, int64_t radius)
{
    return t->cells[(r * SIZES + size) * RADII + radius].sup;
}

/* ---- in n ---- */

static es_status gather_rate(const es_claim_opts *opts, trial *t, es_finding *out, es_error *err)
{
    es_series line;
    ES_TRY(es_series_new(&t->arena, t->replicates, SIZES, &line, err));
    for (int64_t k = 0; k < RADII; k += 2) {
        const es_rate_opts bootstrap = {.seed = opts->seed,
                                        .experiment = ES_EXPERIMENT_FIT,
                                        .cell = (uint64_t)k,
                                        .exec = opts->exec};
        for (int64_t i = 0; i < SIZES; i++) {
            line.at[i] = (double)sizes[i];
            for (int64_t r = 0; r < t->replicates; r++)
                line.errors[r * SIZES + i] = sup_of(t, r, i, k);
        }
        ES_TRY(es_series_fit(&line, &bootstrap, err));
        if (line.status != ES_OK)
            return es_fail(err, line.status, "claims.rate", "", "%s", line.reason);
        /* slack: the next order of the field, e^{2 R^2}/n at the smallest n */
        es_evidence_equal(out, 0.5, 0.01 + exp(2.0 * radii[k] * radii[k]) / line.at[0], 0.25,
                          (es_measured){line.rate.mean.rate, line.rate.se},
                          "rate of the supremum over |x| <= %.1f, d = 1", radii[k]);
    }
    es_finding_conclude(out, "Even the worst query of a ball converges like 1/sqrt(n), as long as "
                             "the ball is small for that n.");
    return ES_OK;
}

static es_status check_rate(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    trial t;
    es_status status = run(opts, &t, err);
    if (status == ES_OK)
        status = gather_rate(opts, &t, out, err);
    es_arena_free(&t.arena);
    return status;
}

/* ---- in R ---- */

/* Slope of log(y) on R^2, every radius weighs the same: means at four radii of the same replicates
 * are as good as equally sure. */
static double slope(const double *y)
{
    double squares[RADII], logs[RADII];
    for (int64_t k = 0; k < RADII; k++) {
        squares[k] = radii[k] * radii[k];
        logs[k] = log(y[k]);
    }
    return es_measured_slope(squares, logs, RADII).value;
}

/* Slope of the mean suprema at the largest n; its error by leaving replicates out one at a time. */
static es_measured measured_slope(const trial *t)
{
    const double R = (double)t->replicates;
    double sum[RADII] = {0.0}, mean[RADII], spread = 0.0;
    for (int64_t r = 0; r < t->replicates; r++)
        for (int64_t k = 0; k < RADII; k++)
            sum[k] += sup_of(t, r, SIZES - 1, k);
    const double all = slope(sum); /* factors do not change a slope of logarithms */
    for (int64_t r = 0; r < t->replicates; r++) {
        for (int64_t k = 0; k < RADII; k++)
            mean[k] = sum[k] - sup_of(t, r, SIZES - 1, k);
        spread += pow(slope(mean) - all, 2.0);
    }
    return (es_measured){all, sqrt(spread * (R - 1.0) / R)};
}

static es_status check_growth(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    trial t;
    double predicted[RADII];
    es_status status = run(opts, &t, err);
    for (int64_t k = 0; k < RADII && status == ES_OK; k++) {
        es_num sup;
        status = es_ball_sup(&t.law, &t.head, radii[k], opts->seed, t.arena.budget, &sup, err);
        predicted[k] = sup.val;
    }
    if (status == ES_OK) {
        const es_measured growth = measured_slope(&t);
        es_evidence_at_most(out, 1.0, growth,
                            "growth of log sup in R^2 against the bound's H1^2, d = 1");
        /* slack: 4096 draws of the field, about 1 % of each constant */
        es_evidence_equal(out, slope(predicted), 0.03, 0.5, growth,
                          "the same against the limit field's own");
        es_finding_conclude(
            out,
            "The bound e^(R^2 H1^2) is safe and pessimistic: the constant grows like "
            "e^(%.2f R^2) here, as the limiting Gaussian field says (%.2f), towards "
            "half the bound's exponent.",
            growth.value, slope(predicted));
    }
    es_arena_free(&t.arena);
    return status;
}

const es_claim_entry es_claims_ball[] = {
    {{"ball-rate", paper_a, "The largest error over all queries |x| <= R falls like C(R)/sqrt(n)",
      ES_VERDICT_HOLDS},
     check_rate},
    {{"ball-growth", paper_a, "C(R) grows with R at most like e^(R^2 |S^1/2 A|^2)",
      ES_VERDICT_HOLDS},
     check_growth},
    {{0}, 0}};
