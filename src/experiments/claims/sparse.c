/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c : attention over some of the keys: what BigBird's random keys are worth with and
 * without a correction, when the largest weights are the keys to keep, and what cannot be beaten.
 * Token Sample Complexity of Attention runs BigBird and asks which schemes converge; THEORY 13
 * answers for any of them. */
#include <math.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "experiments/claims/claim_kit.h"
#include "random/experiment.h"
#include "risk/policy_risk.h"

enum { TOKENS = ES_EXPERIMENT_CLAIMS + 8, DRAWS = ES_EXPERIMENT_CLAIMS + 9 };
enum { DIM = 8, MOST = 64 };

static const char derived[] = "derived: THEORY 13";

/* ---- a context ---- */

/* n Gaussian tokens, keys and values in one, and a query of size q along the first axis that stands
 * in their middle: scores are q times the first coordinate. Tokens follow each other with
 * correlation e^{-distance/reach}, as a text's do: a window is about its own place. */
typedef struct scene {
    int64_t n;
    double q, reach; /* reach 0: independent tokens */
} scene;

typedef struct context {
    es_mem_limit *budget;
    es_policy_query query;
    es_risk_query risk;
    double *scores, *values; /* (n), (n, DIM) */
} context;

static void context_free(context *c)
{
    es_risk_query_free(&c->risk, c->budget);
    es_mem_free(c->budget, c->scores);
    es_mem_free(c->budget, c->values);
    *c = (context){0};
}

/* In place, from independent normals. */
static void correlate(double *x, int64_t n, double reach)
{
    const double near = reach > 0.0 ? exp(-1.0 / reach) : 0.0, fresh = sqrt(1.0 - near * near);
    for (int64_t i = DIM; i < n * DIM; i++)
        x[i] = near * x[i - DIM] + fresh * x[i];
}

static es_status context_fill(const es_claim_opts *opts, const scene *s, int64_t replicate,
                              context *out, es_error *err)
{
    const es_address at = {.seed = opts->seed, .experiment = TOKENS, .cell = (uint64_t)replicate};
    ES_TRY(ES_MEM_NEW(out->budget, out->scores, s->n, "scores of a claim", err));
    ES_TRY(ES_MEM_NEW_2D(out->budget, out->values, s->n, DIM, "tokens of a claim", err));
    ES_TRY(es_normal_rows(&at, s->n, DIM, out->values, err));
    correlate(out->values, s->n, s->reach);
    for (int64_t j = 0; j < s->n; j++)
        out->scores[j] = s->q * out->values[j * DIM];
    const es_view values = es_view_f64(out->values, s->n, DIM);
    ES_TRY(es_risk_query_new(out->scores, s->n, &values, out->budget, &out->risk, err));
    out->query = (es_policy_query){
        .n = s->n, .position = s->n / 2, .scores = out->scores, .reach = out->risk.reach};
    return ES_OK;
}

static es_status context_new(const es_claim_opts *opts, const scene *s, int64_t replicate,
                             context *out, es_error *err)
{
    *out = (context){.budget = es_claim_budget(opts)};
    const es_status status = context_fill(opts, s, replicate, out, err);
    if (status != ES_OK)
        context_free(out);
    return status;
}

/* ---- what policies do to it ---- */

static es_policy_spec spec_of(const char *name, int64_t keys)
{
    es_policy_spec spec;
    es_policy_spec_init(&spec, es_policy_find(name));
    spec.keys = keys;
    return spec;
}

/* BigBird: 4 global tokens, 64 keys to each side, r draws. With replacement, which of so few is
 * nearly without, and takes one integral at any n. */
static es_policy_spec bigbird(int64_t r, es_correction correction)
{
    es_policy_spec spec = spec_of("bigbird", ES_POLICY_UNSET);
    spec.sinks = 4;
    spec.window = 64;
    spec.random = r;
    spec.correction = correction;
    spec.with_replacement = true;
    return spec;
}

static es_status risk_of(const context *c, const es_policy_spec *spec, es_policy_risk *out,
                         es_error *err)
{
    es_choice choice = {0};
    es_status status = es_policy_choose(spec, &c->query, c->budget, &choice, err);
    if (status == ES_OK)
        status = es_policy_risk_of(&c->risk, &choice, c->budget, out, err);
    es_choice_free(&choice);
    return status;
}

/* One number of each of `count` contexts of a scene, found side by side. */
typedef es_status (*number_fn)(const context *c, const void *what, int64_t replicate,
                               const es_claim_opts *opts, double *out, es_error *err);

typedef struct survey {
    const es_claim_opts *opts;
    const scene *scene;
    number_fn number;
    const void *what;
    double found[MOST];
} survey;

static es_status survey_one(void *survey_, int64_t replicate, int thread, es_error *err)
{
    survey *s = survey_;
    context c;
    (void)thread;
    ES_TRY(context_new(s->opts, s->scene, replicate, &c, err));
    const es_status status = s->number(&c, s->what, replicate, s->opts, &s->found[replicate], err);
    context_free(&c);
    return status;
}

static es_status survey_mean(const es_claim_opts *opts, const scene *where, number_fn number,
                             const void *what, int64_t count, es_measured *out, es_error *err)
{
    survey s = {.opts = opts, .scene = where, .number = number, .what = what};
    es_exec exec = opts->exec ? *opts->exec : (es_exec){0};
    exec.progress = NULL; /* claims report none inside themselves */
    ES_TRY(es_parallel_run(&exec, count, survey_one, &s, err));
    *out = es_measured_mean(s.found, count);
    return ES_OK;
}

/* ln of the root mean square error in units of the spread of the values. */
static es_status log_error(const context *c, const void *spec, int64_t replicate,
                           const es_claim_opts *opts, double *out, es_error *err)
{
    es_policy_risk risk;
    (void)replicate;
    (void)opts;
    ES_TRY(risk_of(c, spec, &risk, err));
    *out = 0.5 * log(risk.square.val / c->risk.spread2);
    return ES_OK;
}

/* ---- BigBird as published ---- */

static const double widths[] = {0.0, 0.5, 1.0};

/* Error at n = 1024 and 16384, from different contexts: how it changes, in octaves. */
static es_status octaves(const es_claim_opts *opts, double q, const es_policy_spec *spec,
                         int64_t count, es_measured *out, es_error *err)
{
    const scene small = {1024, q, 400.0}, large = {16384, q, 400.0};
    es_measured a, b;
    ES_TRY(survey_mean(opts, &small, log_error, spec, count, &a, err));
    ES_TRY(survey_mean(opts, &large, log_error, spec, count, &b, err));
    *out = (es_measured){(b.value - a.value) / log(2.0), hypot(a.se, b.se) / log(2.0)};
    return ES_OK;
}

static es_status check_published(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    const int64_t count = es_effort_pick(opts, 16, MOST);
    const es_policy_spec spec = bigbird(50, ES_CORRECTION_NONE);
    for (int64_t i = 0; i < COUNT(widths); i++) {
        es_measured m;
        ES_TRY(octaves(opts, widths[i], &spec, count, &m, err));
        es_evidence_at_most(out, 0.0, m, count,
                            "log2 of the error at n = 16384 over that at 1024, q = %g", widths[i]);
    }
    es_finding_remark(out,
                      "Window and random keys weigh alike, so the output stays an average of the "
                      "query's own neighbourhood: 16 times the context changes the error by 2^%.2f "
                      "+- %.2f, where as many more independent keys would make it 2^-2.",
                      out->evidence[0].measured, out->evidence[0].se);
    return ES_OK;
}

/* ---- and corrected ---- */

/* Squared bias as a share of the mean square error. */
static es_status bias_share(const context *c, const void *spec, int64_t replicate,
                            const es_claim_opts *opts, double *out, es_error *err)
{
    es_policy_risk risk;
    (void)replicate;
    (void)opts;
    ES_TRY(risk_of(c, spec, &risk, err));
    *out = risk.bias2 / risk.square.val;
    return ES_OK;
}

static es_status check_corrected(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    const int64_t count = es_effort_pick(opts, 16, MOST);
    const es_policy_spec few = bigbird(64, ES_CORRECTION_INVERSE),
                         many = bigbird(1024, ES_CORRECTION_INVERSE);
    for (int64_t i = 0; i < COUNT(widths); i++) {
        const scene s = {16384, widths[i], 400.0};
        es_measured a, b, share;
        ES_TRY(survey_mean(opts, &s, log_error, &few, count, &a, err));
        ES_TRY(survey_mean(opts, &s, log_error, &many, count, &b, err));
        ES_TRY(survey_mean(opts, &s, bias_share, &few, count, &share, err));
        /* allowance: a ratio of two sums over r draws is biased and skew by e^{q^2}/r */
        es_evidence_equal(
            out, 0.5, 0.5 * exp(widths[i] * widths[i]) / 64.0 + 0.01, 0.1,
            (es_measured){(a.value - b.value) / log(16.0), hypot(a.se, b.se) / log(16.0)}, count,
            "rate in r from 64 to 1024 random keys, q = %g", widths[i]);
        es_evidence_at_most(out, 0.05, share, count,
                            "share of the bias in the mean square error, r = 64, q = %g",
                            widths[i]);
    }
    es_finding_remark(out,
                      "With log(|R|/r) on the scores of random keys the bias is gone (%.1e of the "
                      "mean square error) and the error falls like r^-%.2f; at a fixed r it does "
                      "not fall with n, for r draws are all that is known of the rest.",
                      out->evidence[1].measured, out->evidence[0].measured);
    return ES_OK;
}

/* ---- the largest weights ---- */

enum { KEYS = 4096, KEPT = 128 };

/* ln of top-k's error over that of as many keys at random. */
static es_status log_top(const context *c, const void *what, int64_t replicate,
                         const es_claim_opts *opts, double *out, es_error *err)
{
    const es_policy_spec top = spec_of("top", KEPT);
    es_policy_spec drawn = spec_of("random", KEPT);
    es_policy_risk a, b;
    (void)what;
    (void)replicate;
    (void)opts;
    drawn.with_replacement = true;
    ES_TRY(risk_of(c, &top, &a, err));
    ES_TRY(risk_of(c, &drawn, &b, err));
    *out = 0.5 * log(a.square.val / b.square.val);
    return ES_OK;
}

static es_status compare_top(const es_claim_opts *opts, double q, es_measured *out, int64_t *count,
                             es_error *err)
{
    const scene s = {KEYS, q, 0.0};
    *count = es_effort_pick(opts, 12, MOST);
    return survey_mean(opts, &s, log_top, NULL, *count, out, err);
}

static es_status check_regime(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const double averages[] = {0.25, 0.5, 1.0}, selects[] = {3.0, 4.0};
    es_measured m;
    int64_t count;
    for (int64_t i = 0; i < COUNT(averages); i++) {
        ES_TRY(compare_top(opts, averages[i], &m, &count, err));
        es_evidence_at_least(out, 0.0, m, count,
                             "ln of top-k's error over random's, about %.0f of 4096 keys in use",
                             KEYS * exp(-averages[i] * averages[i]));
    }
    for (int64_t i = 0; i < COUNT(selects); i++) {
        ES_TRY(compare_top(opts, selects[i], &m, &count, err));
        es_evidence_at_most(out, 0.0, m, count,
                            "ln of top-k's error over random's, a few keys in use, q = %g",
                            selects[i]);
    }
    es_finding_remark(out,
                      "128 of 4096 keys: while weights spread over many more than are kept, random "
                      "keys win (by %.1f at q = 0.5); once a few hold the weight, the largest do.",
                      exp(out->evidence[1].measured));
    return ES_OK;
}

/* ---- exactly ---- */

/* Mean square error over `draws` outcomes, over the integral's. */
typedef struct simulation {
    es_policy_spec spec;
    int64_t draws;
} simulation;

static es_status add_outcome(const context *c, const es_choice *choice, const es_address *at,
                             es_kept *kept, double *sum, es_error *err)
{
    double y[DIM];
    ES_TRY(es_choice_draw(choice, at, kept, err));
    ES_TRY(es_kept_output(&c->risk, kept, y, err));
    for (int k = 0; k < DIM; k++)
        *sum += (y[k] - c->risk.output[k]) * (y[k] - c->risk.output[k]);
    return ES_OK;
}

static es_status simulated_ratio(const context *c, const void *what, int64_t replicate,
                                 const es_claim_opts *opts, double *out, es_error *err)
{
    const simulation *s = what;
    es_choice choice = {0};
    es_kept kept = {0};
    es_policy_risk risk;
    double sum = 0.0;
    es_status status = es_policy_choose(&s->spec, &c->query, c->budget, &choice, err);
    if (status == ES_OK)
        status = es_policy_risk_of(&c->risk, &choice, c->budget, &risk, err);
    for (int64_t i = 0; i < s->draws && status == ES_OK; i++) {
        const es_address at = {
            .seed = opts->seed, .experiment = DRAWS, .cell = (uint64_t)(replicate * s->draws + i)};
        status = add_outcome(c, &choice, &at, &kept, &sum, err);
    }
    es_kept_free(&kept);
    es_choice_free(&choice);
    if (status == ES_OK)
        *out = sum / (double)s->draws / risk.square.val;
    return status;
}

static es_status check_exact(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const char *const names[] = {"random", "retention", "bigbird", "top-random", "limit"};
    static const int64_t keys[] = {16, 64};
    const int64_t count = es_effort_pick(opts, 16, MOST);
    const scene s = {512, 1.5, 50.0};
    for (int64_t i = 0; i < COUNT(names) * COUNT(keys); i++) {
        const simulation how = {spec_of(names[i / COUNT(keys)], keys[i % COUNT(keys)]),
                                es_effort_pick(opts, 400, 4000)};
        es_measured m;
        ES_TRY(survey_mean(opts, &s, simulated_ratio, &how, count, &m, err));
        es_evidence_equal(out, 1.0, 1e-6, 0.1, m, count,
                          "simulated over exact mean square error, %s, %d of 512 keys",
                          names[i / COUNT(keys)], (int)keys[i % COUNT(keys)]);
    }
    es_finding_remark(out, "No expansion in the number of keys, no law of tokens: the weights and "
                           "values of one context are all that the integral needs.");
    return ES_OK;
}

/* ---- the limit ---- */

/* ln of a policy's exact mean square error over the smallest there can be, to first order. */
static es_status above_limit(const context *c, const void *what, int64_t replicate,
                             const es_claim_opts *opts, double *out, es_error *err)
{
    const es_policy_spec *spec = what;
    es_policy_risk risk;
    double limit;
    (void)replicate;
    (void)opts;
    ES_TRY(risk_of(c, spec, &risk, err));
    ES_TRY(es_policy_limit(&c->risk, (double)spec->keys, c->budget, &limit, NULL, err));
    *out = log(risk.square.val / limit);
    return ES_OK;
}

static es_status check_limit(const es_claim_opts *opts, es_finding *out, es_error *err)
{
    static const double q[] = {0.5, 1.0, 2.0};
    const int64_t count = es_effort_pick(opts, 8, MOST);
    for (int64_t i = 0; i < COUNT(q); i++) {
        const scene s = {2048, q[i], 0.0};
        es_policy_spec own = spec_of("limit", 512), each = spec_of("retention", 512);
        es_measured m;
        each.correction = ES_CORRECTION_INVERSE;
        ES_TRY(survey_mean(opts, &s, above_limit, &own, count, &m, err));
        /* allowance: the first order leaves out what is smaller by the number of keys that share
         * the weight: 512 are kept */
        es_evidence_equal(out, 0.0, 0.02, 0.1, m, count,
                          "ln of the best rule's mean square error over the limit, q = %g", q[i]);
        ES_TRY(survey_mean(opts, &s, above_limit, &each, count, &m, err));
        es_evidence_at_least(out, 0.0, m, count,
                             "ln of that of equal chances, corrected, over the limit, q = %g",
                             q[i]);
    }
    es_finding_remark(out,
                      "Keeping key j with a probability in proportion to w_j |v_j - y| reaches the "
                      "limit (%.3f of it at q = 1, 512 of 2048 keys); equal chances cost %.1f "
                      "times as much there, %.0f times at q = 2.",
                      exp(out->evidence[2].measured), exp(out->evidence[3].measured),
                      exp(out->evidence[5].measured));
    return ES_OK;
}

const es_claim_entry es_claims_sparse[] = {
    {{"bigbird-published", "an expectation of fixed sparse patterns; in no text that was available",
      "A window and a fixed number of random keys, as BigBird publishes them, come closer to full "
      "attention as the context grows",
      ES_CLAIM_READING,
      "Gaussian tokens with correlations over 400 places, 4 + 129 sure keys and 50 draws: of "
      "tokens without order a window is a sample like any other"},
     .gather = check_published},
    {{"bigbird-corrected", derived,
      "With log(|R|/r) added to the scores of its r random keys BigBird is unbiased up to 1/r, and "
      "its error falls like 1/sqrt(r)",
      ES_CLAIM_RESULT, "r far below the number of keys; at a fixed r the error stays"},
     .gather = check_corrected},
    {{"regime-decides", derived,
      "Random keys beat the largest weights while the effective number of keys is far above the "
      "number kept, and lose once it is far below",
      ES_CLAIM_RESULT, "Gaussian tokens, whose values vary with their scores"},
     .gather = check_regime},
    {{"sparse-exact", derived,
      "The mean square error of attention over keys that chance has kept is one integral, exact "
      "for every number of keys and every context",
      ES_CLAIM_RESULT, NULL},
     .gather = check_exact},
    {{"sparse-limit", derived,
      "To first order no unbiased rule that keeps each key on its own, m on average, has a mean "
      "square "
      "error below (sum w|u|)^2/m, sure keys taken out; the rule that keeps key j with probability "
      "tau w_j|u_j| reaches it",
      ES_CLAIM_RESULT,
      "A bound to first order: of so few keys that their weights vary much a ratio's error is not "
      "its first order"},
     .gather = check_limit},
    {{0}}};
