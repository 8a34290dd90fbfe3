/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c : Scaling Limits of Long-Context Transformers: keys on the sphere at, above and
 * below the critical inverse temperature; and, while many share the weight, bias, fluctuations and
 * backward heat, with the local exponent that says how long that lasts. */
#include <math.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/claims/claim_kit.h"
#include "experiments/heat/heat.h"
#include "experiments/regimes/regimes.h"
#include "random/experiment.h"
#include "stats/exponent.h"
#include "stats/special.h"
#include "tokens/tokens.h"

#define EXP_MINUS_GAMMA 0.56145948356688517 /* e to minus Euler's constant */

static const char derived[] = "derived: THEORY 6";
static const int64_t many = INT64_C(1000000000000);

/* n uniform keys at beta = b n^{1/alpha}: measured, exactly, and in the limit at this b. */
typedef struct cell {
    int64_t dim, n;
    double b;
} cell;

typedef struct place {
    es_keys keys;
    double alpha, beta, scaled; /* scaled: b' */
} place;

static es_status find_place(const cell *c, place *out, es_error *err)
{
    es_cap_exponent cap;
    *out = (place){.keys = {.dim = c->dim}};
    ES_TRY(es_keys_exponent(&out->keys, &cap, err));
    out->alpha = cap.alpha;
    out->beta = c->b * pow((double)c->n, 1.0 / cap.alpha);
    out->scaled = es_critical_scale(&cap, (double)c->n, out->beta);
    return ES_OK;
}

static es_status measure(const es_claim_opts *opts, const cell *c, const place *p,
                         int64_t replicates, es_regimes_row *out, es_error *err)
{
    const es_regimes_opts o = {
        .seed = opts->seed, .keys = &p->keys, .replicates = replicates, .exec = opts->exec};
    return es_regimes_run(&o, c->n, p->beta, out, err);
}

/* ---- the critical law ---- */

/* The second weight has no quadrature: its law is sampled, with an error of its own. */
static es_status second_weight(const es_claim_opts *opts, const place *p, int64_t replicates,
                               es_measured *out, es_error *err)
{
    es_regimes_draw *draws;
    double *weights = NULL;
    ES_TRY(ES_MEM_NEW(es_claim_budget(opts), draws, replicates, "draws of a claim", err));
    es_status status =
        ES_MEM_NEW(es_claim_budget(opts), weights, replicates, "draws of a claim", err);
    if (status == ES_OK)
        status =
            es_critical_sample(opts->seed, p->alpha, p->scaled, replicates, opts->exec, draws, err);
    for (int64_t r = 0; r < replicates && status == ES_OK; r++)
        weights[r] = draws[r].top[1];
    if (status == ES_OK)
        *out = es_measured_mean(weights, replicates);
    es_mem_free(es_claim_budget(opts), weights);
    es_mem_free(es_claim_budget(opts), draws);
    return status;
}

static es_status check_critical(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const cell cells[] = {{2, many, 0.1}, {3, many, 1.0}, {5, many, 1.0}, {5, many, 3.0}};
    const int64_t replicates = es_effort_pick(opts, 4000, 100000);
    for (int64_t i = 0; i < COUNT(cells); i++) {
        const cell *c = &cells[i];
        place p;
        es_weights limit;
        es_regimes_row row;
        es_measured second;
        ES_TRY(find_place(c, &p, err));
        ES_TRY(es_weights_critical(p.alpha, p.scaled, es_claim_budget(opts), &limit, err));
        ES_TRY(measure(opts, c, &p, replicates, &row, err));
        ES_TRY(second_weight(opts, &p, replicates, &second, err));
        /* allowance: the quadrature's. At n = 10^12 the sphere is flat as far as these keys see:
         * the limit is off by a part in beta, at most 1e-5. */
        es_evidence_equal(out, limit.top.val, limit.top.err + 1e-5, 0.1, row.top[0], replicates,
                          "largest weight, d = %d, b = %g, n = 10^12", (int)c->dim, c->b);
        es_evidence_equal(out, second.value, 1e-5, 0.1,
                          (es_measured){row.top[1].value, hypot(row.top[1].se, second.se)},
                          replicates, "second weight, d = %d, b = %g, n = 10^12", (int)c->dim,
                          c->b);
        es_evidence_equal(out, limit.squares.val, limit.squares.err + 1e-5, 0.1, row.squares,
                          replicates, "sum of squared weights, d = %d, b = %g, n = 10^12",
                          (int)c->dim, c->b);
    }
    es_finding_remark(
        out,
        "At beta = b n^(2/(d-1)) a few keys share the weight for ever: of 10^12 keys in d = 3 at b "
        "= 1 the nearest has %.3f (limit law %.3f), the second %.3f (%.3f).",
        out->evidence[3].measured, out->evidence[3].predicted, out->evidence[4].measured,
        out->evidence[4].predicted);
    return ES_OK;
}

/* ---- three dimensions ---- */

static es_status check_dickman(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const cell cells[] = {{3, 100, 0.5}, {3, 1000000, 0.5}, {3, many, 0.5}};
    const int64_t replicates = es_effort_pick(opts, 4000, 400000);
    for (int64_t i = 0; i < COUNT(cells); i++) {
        place p;
        es_weights exact;
        es_regimes_row row;
        ES_TRY(find_place(&cells[i], &p, err));
        ES_TRY(es_weights_exact(&p.keys, cells[i].n, p.beta, es_claim_budget(opts), &exact, err));
        ES_TRY(measure(opts, &cells[i], &p, replicates, &row, err));
        /* allowance: n is not infinite, and the integral for n keys says what that is worth */
        es_evidence_equal(out, EXP_MINUS_GAMMA, fabs(exact.top.val - EXP_MINUS_GAMMA), 0.1,
                          row.top[0], replicates, "largest weight, d = 3, b = 1/2, n = %.0e",
                          (double)cells[i].n);
        es_evidence_equal(out, 1.0 - EXP_MINUS_GAMMA,
                          fabs(exact.squares.val - 1.0 + EXP_MINUS_GAMMA), 0.1, row.squares,
                          replicates, "sum of squared weights, d = 3, b = 1/2, n = %.0e",
                          (double)cells[i].n);
    }
    es_finding_remark(
        out,
        "In three dimensions caps have exact areas and a hundred keys are as good as 10^12: the "
        "largest weight is %.4f +- %.4f on average, e^-gamma = 0.5615.",
        out->evidence[0].measured, out->evidence[0].se);
    return ES_OK;
}

/* ---- n keys, not infinitely many ---- */

static es_status check_exact(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const cell cells[] = {
        {2, 100, 1.0}, {5, 100, 1.0}, {10, 10000, 10.0}, {50, 100, 10.0}, {50, 1000000, 30.0}};
    const int64_t replicates = es_effort_pick(opts, 4000, 100000);
    for (int64_t i = 0; i < COUNT(cells); i++) {
        const cell *c = &cells[i];
        place p;
        es_weights exact;
        es_regimes_row row;
        ES_TRY(find_place(c, &p, err));
        ES_TRY(es_weights_exact(&p.keys, c->n, p.beta, es_claim_budget(opts), &exact, err));
        ES_TRY(measure(opts, c, &p, replicates, &row, err));
        es_evidence_equal(out, exact.top.val, exact.top.err, 0.35 * exact.top.val, row.top[0],
                          replicates, "largest weight, d = %d, n = %.0e, b = %g", (int)c->dim,
                          (double)c->n, c->b);
        es_evidence_equal(out, exact.squares.val, exact.squares.err, 0.35 * exact.squares.val,
                          row.squares, replicates,
                          "sum of squared weights, d = %d, n = %.0e, b = %g", (int)c->dim,
                          (double)c->n, c->b);
        es_evidence_equal(out, exact.deficit.val, exact.deficit.err, 0.35 * exact.deficit.val,
                          row.deficit, replicates, "1 - <output, query>, d = %d, n = %.0e, b = %g",
                          (int)c->dim, (double)c->n, c->b);
    }
    es_finding_remark(out,
                      "For n keys, not infinitely many, one integral gives the averages in every "
                      "dimension: in d = 50 a million keys at b = 30 have a largest weight of "
                      "%.3f +- %.3f, the integral says %.3f.",
                      out->evidence[12].measured, out->evidence[12].se,
                      out->evidence[12].predicted);
    return ES_OK;
}

/* ---- far from critical ---- */

static es_status exact_at(const es_claim_opts *opts, const cell *c, const place *p, es_weights *out,
                          es_error *err)
{
    return es_weights_exact(&p->keys, c->n, p->beta, es_claim_budget(opts), out, err);
}

static es_status check_asymptotic(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const cell high[] = {{3, many, 10.0}, {5, many, 10.0}, {10, many, 100.0}};
    static const cell low[] = {{2, many, 0.003}, {3, many, 0.02}, {5, many, 0.1}};
    const int64_t replicates = es_effort_pick(opts, 20000, 2000000);
    place p;
    es_weights exact;
    es_regimes_row row;
    double top, squares;
    for (int64_t i = 0; i < COUNT(high); i++) {
        ES_TRY(find_place(&high[i], &p, err));
        ES_TRY(exact_at(opts, &high[i], &p, &exact, err));
        es_weights_supercritical(p.alpha, p.scaled, &top, &squares);
        ES_TRY(measure(opts, &high[i], &p, replicates, &row, err));
        /* allowance: terms beyond the leading one and n that is not infinite, which the integral
         * for n keys has */
        es_evidence_equal(out, 1.0 - top, fabs(exact.top.val - top) + exact.top.err,
                          0.5 * (1.0 - top), (es_measured){1.0 - row.top[0].value, row.top[0].se},
                          replicates,
                          "weight that the nearest key leaves to others, d = %d, b = %g",
                          (int)high[i].dim, high[i].b);
        es_evidence_equal(
            out, 1.0 - squares, fabs(exact.squares.val - squares) + exact.squares.err,
            0.5 * (1.0 - squares), (es_measured){1.0 - row.squares.value, row.squares.se},
            replicates, "1 - sum of squared weights, d = %d, b = %g", (int)high[i].dim, high[i].b);
    }
    for (int64_t i = 0; i < COUNT(low); i++) {
        ES_TRY(find_place(&low[i], &p, err));
        ES_TRY(exact_at(opts, &low[i], &p, &exact, err));
        squares = pow(2.0, -p.alpha) / es_critical_mean(p.alpha, p.scaled);
        ES_TRY(measure(opts, &low[i], &p, replicates / 10, &row, err));
        es_evidence_equal(out, squares, fabs(exact.squares.val - squares) + exact.squares.err,
                          0.25 * squares, row.squares, replicates / 10,
                          "sum of squared weights, d = %d, b = %g", (int)low[i].dim, low[i].b);
    }
    es_finding_remark(out,
                      "Above the critical scale the nearest key leaves others a weight like 1/b "
                      "(d = 5, b = 10: %.3f, law %.3f); below it sum w^2 falls like b^((d-1)/2) "
                      "(d = 3, b = 0.02: %.4f, law %.4f).",
                      out->evidence[2].measured, out->evidence[2].predicted,
                      out->evidence[7].measured, out->evidence[7].predicted);
    return ES_OK;
}

/* ---- the limit in high dimension ---- */

static es_status check_high(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const cell c = {50, 1000000, 30.0};
    const int64_t replicates = es_effort_pick(opts, 1000, 100000);
    place p;
    es_weights limit, exact;
    es_regimes_row row;
    ES_TRY(find_place(&c, &p, err));
    ES_TRY(es_weights_critical(p.alpha, p.scaled, es_claim_budget(opts), &limit, err));
    ES_TRY(es_weights_exact(&p.keys, c.n, p.beta, es_claim_budget(opts), &exact, err));
    ES_TRY(measure(opts, &c, &p, replicates, &row, err));
    es_evidence_equal(out, limit.top.val, limit.top.err, 0.1, row.top[0], replicates,
                      "largest weight, d = 50, b = 30, n = 10^6");
    es_evidence_equal(out, limit.squares.val, limit.squares.err, 0.1, row.squares, replicates,
                      "sum of squared weights, d = 50, b = 30, n = 10^6");
    es_finding_remark(out,
                      "In d = 50 no context is long enough for the limit: the largest weight of "
                      "10^6 keys is %.2f, not %.3f; the integral for n keys says %.2f. The limit "
                      "is within 5 %% from n = 10^%.0f on.",
                      row.top[0].value, limit.top.val, exact.top.val,
                      log10(es_critical_needs(&p.keys, (double)c.n, p.beta, 0.05)));
    return ES_OK;
}

const es_claim_entry es_claims_regimes[] = {
    {{"critical-law", es_paper_b,
      "With keys uniform on the sphere and beta = b n^(2/(d-1)) the ordered weights tend to those "
      "of a Poisson process: attention selects a few keys, at random, however long the context",
      ES_CLAIM_PAPER},
     check_critical},
    {{"critical-dickman", derived,
      "In three dimensions at b = 1/2 the largest weight is e^-gamma on average, and the sum of "
      "squared weights 1 - e^-gamma",
      ES_CLAIM_RESULT},
     check_dickman},
    {{"far-from-critical", derived,
      "Above the critical scale the nearest key takes all but (a ln 2/b') Gamma(2 - 1/a), below it "
      "the sum of squared weights is 2^-a b'^a/Gamma(a+1), a = (d-1)/2",
      ES_CLAIM_RESULT},
     check_asymptotic},
    {{"weights-exact", derived,
      "For n keys in any dimension the averages of the largest weight, of the sum of squares and "
      "of the output are one-dimensional integrals",
      ES_CLAIM_RESULT},
     check_exact},
    {{"poisson-high-dim", "a reading of a limit for n to infinity; in no text that was available",
      "The critical law for n to infinity can be used at sizes of real heads: a million keys in 50 "
      "dimensions",
      ES_CLAIM_READING},
     check_high},
    {{0}, 0}};

/* ======== averages ======== */

enum {
    HEAT_QUERIES = ES_EXPERIMENT_CLAIMS + 3,
    HEAT_KEYS = ES_EXPERIMENT_CLAIMS + 4,
    NEAR_KEYS = ES_EXPERIMENT_CLAIMS + 5
};

/* ---- draws of a regime ---- */

typedef struct draws {
    es_regimes_draw *each; /* (count) */
    double *column;        /* (count) to work in */
    int64_t count;
    es_mem_limit *budget;
} draws;

static void free_draws(draws *d)
{
    es_mem_free(d->budget, d->column);
    es_mem_free(d->budget, d->each);
}

static es_status take_draws(const es_claim_opts *opts, const es_regimes_opts *how, int64_t n,
                            double beta, draws *out, es_error *err)
{
    *out = (draws){.count = how->replicates, .budget = es_claim_budget(opts)};
    ES_TRY(ES_MEM_NEW(out->budget, out->each, out->count, "draws of a claim", err));
    ES_TRY(ES_MEM_NEW(out->budget, out->column, out->count, "draws of a claim", err));
    return es_regimes_sample(how, n, beta, out->each, err);
}

/* ---- bias and fluctuations ---- */

typedef struct average_cell {
    int64_t dim, n;
    double beta;
} average_cell;

static const average_cell average_cells[] = {{3, 4000, 20.0}, {5, 12000, 20.0}, {10, 4000, 10.0}};
enum { AVERAGE_CELLS = COUNT(average_cells), AVERAGE_PIECES = 4 };

static es_measured mean_deficit(draws *d)
{
    for (int64_t r = 0; r < d->count; r++)
        d->column[r] = d->each[r].deficit;
    return es_measured_mean(d->column, d->count);
}

/* n times the variance of <output, q>, around its own mean. */
static es_measured radial_variance(draws *d, int64_t n)
{
    const double mean = mean_deficit(d).value;
    for (int64_t r = 0; r < d->count; r++)
        d->column[r] = (double)n * pow(d->each[r].deficit - mean, 2.0);
    return es_measured_mean(d->column, d->count);
}

/* n times the variance in one tangential direction, whose mean is 0. */
static es_measured tangential_variance(draws *d, int64_t n, int64_t dim)
{
    for (int64_t r = 0; r < d->count; r++)
        d->column[r] = (double)n / (double)(dim - 1) * pow(d->each[r].tangential, 2.0);
    return es_measured_mean(d->column, d->count);
}

/* p of Kolmogorov's test that one tangential coordinate is N(0, variance/n). */
static double normality(draws *d, int64_t n, double variance)
{
    for (int64_t r = 0; r < d->count; r++)
        d->column[r] = d->each[r].one * sqrt((double)n / variance);
    return es_ks_normal(d->column, d->count).p;
}

static es_status gather_average(const es_claim_opts *opts, const average_cell *c, draws *d,
                                es_finding *out, es_error *err)
{
    const es_keys keys = {.dim = c->dim};
    const double leading = (double)(c->dim - 1) / (2.0 * c->beta);
    es_weights exact;
    es_average a;
    ES_TRY(es_weights_exact(&keys, c->n, c->beta, es_claim_budget(opts), &exact, err));
    ES_TRY(es_average_at(c->dim, c->beta, &a, err));
    /* allowance: 1/beta^2 and 1/n, which the integral for n keys has; of variances, the next order
     * is about one over the number of keys that share the weight */
    const double next = 4.0 * exact.squares.val;
    es_evidence_equal(out, leading, fabs(exact.deficit.val - leading), 0.2 * leading,
                      mean_deficit(d), d->count, "1 - <output, query>, d = %d, beta = %g, n = %d",
                      (int)c->dim, c->beta, (int)c->n);
    es_evidence_equal(out, a.tangential.val, next * a.tangential.val, 0.4 * a.tangential.val,
                      tangential_variance(d, c->n, c->dim), d->count,
                      "n times the variance in a tangential direction, d = %d", (int)c->dim);
    es_evidence_equal(out, a.radial.val, next * a.radial.val, 0.4 * a.radial.val,
                      radial_variance(d, c->n), d->count,
                      "n times the variance of <output, query>, d = %d", (int)c->dim);
    /* no standard error to test with: its share of the claim's level is the line itself */
    es_evidence_at_least(out, ES_CLAIM_LEVEL / (AVERAGE_PIECES * AVERAGE_CELLS),
                         (es_measured){normality(d, c->n, a.tangential.val), 0.0}, d->count,
                         "p-value that a tangential coordinate is Gaussian, d = %d", (int)c->dim);
    return ES_OK;
}

static es_status check_average(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    es_status status = ES_OK;
    for (int64_t i = 0; i < AVERAGE_CELLS && status == ES_OK; i++) {
        const average_cell *c = &average_cells[i];
        const es_keys keys = {.dim = c->dim};
        const es_regimes_opts how = {opts->seed, .method = ES_REGIMES_BRUTE, .keys = &keys,
                                     .replicates = es_effort_pick(opts, 1500, 20000),
                                     .exec = opts->exec};
        draws d;
        status = take_draws(opts, &how, c->n, c->beta, &d, err);
        if (status == ES_OK)
            status = gather_average(opts, c, &d, out, err);
        free_draws(&d);
    }
    es_finding_remark(out,
                      "While many keys share the weight the output is the query, shortened by "
                      "(d-1)/(2 beta), plus Gaussian noise of the predicted size: d = 3, beta = "
                      "20: %.4f (%.4f), n Var %.3f (%.3f) along the sphere, %.4f (%.4f) across.",
                      out->evidence[0].measured, out->evidence[0].predicted,
                      out->evidence[1].measured, out->evidence[1].predicted,
                      out->evidence[2].measured, out->evidence[2].predicted);
    return status;
}

/* ---- the radial identity ---- */

static es_status check_radial(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const int64_t dims[] = {3, 4, 5};
    static const double b[] = {0.3, 3.0};
    const int64_t n = INT64_C(1000000000000);
    es_status status = ES_OK;
    for (int64_t i = 0; i < COUNT(dims) * COUNT(b) && status == ES_OK; i++) {
        const es_keys keys = {.dim = dims[i / COUNT(b)]};
        const double a = 0.5 * (double)(keys.dim - 1);
        const double beta = b[i % COUNT(b)] * pow((double)n, 1.0 / a);
        const es_regimes_opts how = {opts->seed, .keys = &keys,
                                     .replicates = es_effort_pick(opts, 6000, 50000),
                                     .exec = opts->exec};
        draws d;
        status = take_draws(opts, &how, n, beta, &d, err);
        for (int64_t r = 0; r < d.count && status == ES_OK; r++)
            d.column[r] = beta * (d.each[r].deficit - 0.5 * pow(d.each[r].tangential, 2.0));
        if (status == ES_OK) /* allowance: the sphere's curvature, a part in beta */
            es_evidence_equal(out, a, 1e-4, 0.5 * a, es_measured_mean(d.column, d.count), d.count,
                              "beta E(1 - <out, q> - |tangential|^2/2), d = %d, b = %g",
                              (int)keys.dim, b[i % COUNT(b)]);
        free_draws(&d);
    }
    es_finding_remark(out,
                      "How far the output stays behind the query is tied to how far it strays "
                      "aside, at every temperature: the difference is (d-1)/2 in units of "
                      "1/beta; d = 5, b = 0.3: %.3f +- %.3f for 2.",
                      out->evidence[4].measured, out->evidence[4].se);
    return status;
}

/* ---- backward heat ---- */

enum { QUERIES = 48, HEAT_MOST = 8, FEWEST = 30 };
static const double betas[] = {10.0, 40.0, 160.0};

/* Half of the keys around one direction, half around another: a density with two modes. */
typedef struct two_modes {
    double direction[2][HEAT_MOST], weights[2];
    es_law parts[2], law;
} two_modes;

static void make_modes(int64_t dim, two_modes *m)
{
    *m = (two_modes){.direction = {{1.0}, {-0.6, 0.8}}, .weights = {0.6, 0.4}};
    for (int i = 0; i < 2; i++)
        m->parts[i] = (es_law){ES_LAW_VMF, .dim = dim, .size = 1.0, .concentration = 2.0,
                               .direction = m->direction[i]};
    m->law = (es_law){
        .kind = ES_LAW_MIXTURE, .dim = dim, .parts = m->parts, .weights = m->weights, .n_parts = 2};
}

static es_status gather_heat(const es_claim_opts *opts, int64_t dim, int64_t replicates,
                             es_heat_draw *sample, es_finding *out, es_error *err)
{
    const es_address at = {.seed = opts->seed, .experiment = HEAT_QUERIES};
    double queries[QUERIES * HEAT_MOST];
    es_heat_exact exact[COUNT(betas)];
    es_heat_row rows[COUNT(betas)];
    two_modes modes;
    make_modes(dim, &modes);
    const es_heat_opts how = {&modes.law, .seed = opts->seed, .experiment = HEAT_KEYS,
                              .n = es_effort_pick(opts, 20000, 1000000), .exec = opts->exec};
    ES_TRY(es_sphere_rows(&at, QUERIES, dim, queries, err));
    ES_TRY(es_heat_exact_of(&modes.law, queries, QUERIES, betas, COUNT(betas), exact, err));
    ES_TRY(es_heat_sample(&how, queries, QUERIES, betas, COUNT(betas), 0, replicates, sample, err));
    es_heat_average(sample, replicates, COUNT(betas), rows);
    for (int64_t i = 0; i < COUNT(betas); i++) {
        const es_measured slope = {rows[i].mean.slope, rows[i].se.slope};
        if (rows[i].mean.ess < FEWEST)
            continue; /* no longer an average: not what the claim is about */
        /* allowance: the bias of a ratio of sums over so few keys */
        es_evidence_equal(out, exact[i].slope, 2.0 / rows[i].mean.ess, 0.4, slope, replicates,
                          "beta drift over grad log density, d = %d, beta = %g", (int)dim,
                          betas[i]);
    }
    const double rate = log(exact[1].error / exact[2].error) / log(betas[2] / betas[1]);
    es_evidence_equal(out, 1.0, (double)dim / betas[1], 0.5, (es_measured){rate, 0.0}, 0,
                      "power of 1/beta by which the drift differs from the gradient, d = %d",
                      (int)dim);
    return ES_OK;
}

static es_status check_heat(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const int64_t dims[] = {2, 3, 8};
    const int64_t replicates = 16;
    es_heat_draw *sample;
    ES_TRY(ES_MEM_NEW_2D(es_claim_budget(opts), sample, replicates, COUNT(betas),
                         "draws of a claim", err));
    es_status status = ES_OK;
    for (int64_t i = 0; i < COUNT(dims) && status == ES_OK; i++)
        status = gather_heat(opts, dims[i], replicates, sample, out, err);
    es_mem_free(es_claim_budget(opts), sample);
    es_finding_remark(out,
                      "Attention moves a query up the log-density of the keys: on the circle "
                      "beta times the drift is %.3f, %.3f, %.3f of the gradient at beta = 10, "
                      "40, 160, and what is missing falls like 1/beta.",
                      out->evidence[0].measured, out->evidence[1].measured,
                      out->evidence[2].measured);
    return status;
}

/* ---- the local exponent ---- */

enum { SETS = 48 };

static es_status gather_exponent(const es_claim_opts *opts, int64_t dim, double *keys, double *gaps,
                                 int64_t n, es_measured *out, es_error *err)
{
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = dim, .size = 1.0};
    const es_view view = es_view_f64(keys, n, dim);
    const double query[HEAT_MOST] = {1.0};
    double alpha[SETS];
    for (int64_t s = 0; s < SETS; s++) {
        const es_address at = {
            .seed = opts->seed, .experiment = NEAR_KEYS, .cell = (uint64_t)(dim * SETS + s)};
        es_exponent e;
        ES_TRY(es_tokens_fill(&law, &at, n, opts->exec, keys, err));
        ES_TRY(es_exponent_gaps(&view, query, gaps, err));
        ES_TRY(es_exponent_estimate(gaps, n, 0, &e, err));
        alpha[s] = e.alpha;
    }
    *out = es_measured_mean(alpha, SETS);
    return ES_OK;
}

static es_status check_exponent(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const int64_t dims[] = {2, 3, 5, 8};
    const int64_t n = es_effort_pick(opts, 10000, 1000000);
    double *keys, *gaps = NULL;
    es_status status =
        ES_MEM_NEW_2D(es_claim_budget(opts), keys, n, HEAT_MOST, "keys of a claim", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(es_claim_budget(opts), gaps, n, "keys of a claim", err);
    for (int64_t i = 0; i < COUNT(dims) && status == ES_OK; i++) {
        es_measured alpha;
        const double true_alpha = 0.5 * (double)(dims[i] - 1);
        status = gather_exponent(opts, dims[i], keys, gaps, n, &alpha, err);
        /* allowance: of order 1/k, the bias of a maximum likelihood estimate */
        if (status == ES_OK)
            es_evidence_equal(
                out, true_alpha, 2.0 * true_alpha / sqrt((double)n), 0.25 * true_alpha, alpha, SETS,
                "local exponent from the nearest of %d keys, d = %d", (int)n, (int)dims[i]);
    }
    es_mem_free(es_claim_budget(opts), gaps);
    es_mem_free(es_claim_budget(opts), keys);
    es_finding_remark(out,
                      "The nearest of %d keys tell the exponent that sets the critical scale "
                      "n^(1/alpha): d = 3: %.3f +- %.3f for 1, d = 8: %.2f +- %.2f for 3.5.",
                      (int)n, out->evidence[1].measured, out->evidence[1].se,
                      out->evidence[3].measured, out->evidence[3].se);
    return status;
}

const es_claim_entry es_claims_average[] = {
    {{"subcritical-average", es_paper_b,
      "Below the critical scale the output is the query minus a bias of (d-1)/(2 beta), with "
      "Gaussian fluctuations of order 1/sqrt(n) whose covariance is known",
      ES_CLAIM_PAPER},
     check_average},
    {{"radial-identity", derived,
      "At the critical scale beta E(1 - <output, q>) = (d-1)/2 + beta E|tangential part|^2/2",
      ES_CLAIM_RESULT},
     check_radial},
    {{"backward-heat", es_paper_b,
      "On keys of density f attention drifts by (1/beta) grad log f, a step of the heat equation "
      "run backwards: f smoothed over 1/sqrt(beta) stands for f, which differs by 1/beta",
      ES_CLAIM_PAPER},
     check_heat},
    {{"local-exponent", es_paper_b,
      "The exponent alpha of P(1 - cos <= t) ~ c t^alpha, which sets the critical scale, can be "
      "read off the nearest keys",
      ES_CLAIM_PAPER},
     check_exponent},
    {{0}, 0}};
