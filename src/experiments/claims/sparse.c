/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c : attention over some of the keys: what BigBird's random keys are worth with and
 * without a correction, when the largest weights are the keys to keep, and what cannot be beaten.
 * Token Sample Complexity of Attention runs BigBird and asks which schemes converge; THEORY 13
 * answers for any of them.
 *
 * Every claim runs `sparse` on contexts that are written to files, as the heads of one layer: row
 * h plans + p of its answer is policy p on context h. */
#include <math.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/claims/claim_kit.h"
#include "random/experiment.h"

enum { TOKENS = ES_EXPERIMENT_CLAIMS + 8, DIM = 8, MOST = 64 };

static const char derived[] = "derived: THEORY 13";

/* ---- contexts ---- */

/* Makes independent normals x (n, DIM) follow each other with correlation e^{-distance/reach}, in
 * place: as in a text, a window is then about its own surroundings. */
static void correlate(double *x, int64_t n, double reach)
{
    const double near = reach > 0.0 ? exp(-1.0 / reach) : 0.0, fresh = sqrt(1.0 - near * near);
    for (int64_t i = DIM; i < n * DIM; i++)
        x[i] = near * x[i - DIM] + fresh * x[i];
}

/* Draws the tokens of all contexts (count, n, DIM), and a query along the first axis for each
 * (count, DIM). */
static es_status draw_contexts(const es_claim_run *run, int64_t count, uint64_t seed, double *x,
                               double *queries, es_error *err)
{
    for (int64_t c = 0; c < count; c++) {
        const es_address at = {.seed = seed, .experiment = TOKENS, .cell = (uint64_t)c};
        double *tokens = x + c * run->tokens * DIM;
        ES_TRY(es_normal_rows(&at, run->tokens, DIM, tokens, err));
        correlate(tokens, run->tokens, run->reach);
        queries[c * DIM] = 1.0;
    }
    return ES_OK;
}

/* Writes n Gaussian tokens for each context, keys and values in one; a query in their middle, of
 * which the score scale is the standard deviation q of the scores; and its position. */
static es_status contexts(const void *source, const char *folder, uint64_t seed, es_error *err)
{
    const es_claim_source *of = source;
    const int64_t count = es_claim_tries(of), n = of->run->tokens;
    const double middle = (double)(n / 2);
    es_arena arena = {.budget = es_claim_budget(of->opts)};
    double *x, *queries;
    es_status status = ES_ARENA_NEW(&arena, x, count * n * DIM, "tokens of a claim", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW(&arena, queries, count * DIM, "queries of a claim", err);
    if (status == ES_OK)
        status = draw_contexts(of->run, count, seed, x, queries, err);
    if (status == ES_OK)
        status = es_ask_write(folder, "a.npy", 3, (int64_t[]){count, n, DIM}, x, err);
    if (status == ES_OK)
        status = es_ask_write(folder, "b.npy", 3, (int64_t[]){count, 1, DIM}, queries, err);
    if (status == ES_OK)
        status = es_ask_write(folder, "c.npy", 1, (int64_t[]){1}, &middle, err);
    es_arena_free(&arena);
    return status;
}

/* `scale` is q. Draws of the study are few where its integrals are the answer. */
#define SPARSE(scale, rest, n, distance, quick, paper)                                             \
    {                                                                                              \
        "sparse", "q=@/b.npy k=@/a.npy v=@/a.npy positions=@/c.npy scale=" scale " " rest,         \
            contexts, .tokens = (n), .reach = (distance), .tries = {                               \
                quick,                                                                             \
                paper                                                                              \
            }                                                                                      \
    }
#define INTEGRALS "simulations=2 "

/* ---- means over contexts ---- */

/* Returns the mean over contexts of a number of a row, at the policy of this row. */
static es_measured over_contexts(const es_claim_row *at, double (*number)(const es_claim_row *at))
{
    const int64_t plans = es_table_rows(at->table) / at->tries;
    double found[MOST];
    for (int64_t c = 0; c < at->tries; c++) {
        es_claim_row row = *at;
        row.row += c * plans;
        found[c] = number(&row);
    }
    return es_measured_mean(found, at->tries);
}

/* Returns ln of the root mean square error in spreads of the values. */
static double log_error(const es_claim_row *at)
{
    return 0.5 * log(es_claim_number(at, "mse_exact") / es_claim_number(at, "spread2"));
}

/* Returns the row of the next policy on the same context. */
static es_claim_row next_plan(const es_claim_row *at)
{
    es_claim_row next = *at;
    next.row++;
    return next;
}

/* ---- BigBird ---- */

/* Returns log2 of the error over that of the run before. */
static double octave(const es_claim_row *at)
{
    es_claim_row before = *at;
    before.table = es_answer_find(at->answers[at->run - 1], "rows");
    return (log_error(at) - log_error(&before)) / log(2.0);
}

/* Returns the rate in r from 64 random keys to 1024, the next row. */
static double rate_in_r(const es_claim_row *at)
{
    const es_claim_row many = next_plan(at);
    return (log_error(at) - log_error(&many)) / log(16.0);
}

/* Returns the squared bias as a share of the mean square error. */
static double bias_share(const es_claim_row *at)
{
    return es_claim_number(at, "bias2") / es_claim_number(at, "mse_exact");
}

/* Return the means over contexts. */
static es_measured octaves(const es_claim_row *at) { return over_contexts(at, octave); }
static es_measured rates_in_r(const es_claim_row *at) { return over_contexts(at, rate_in_r); }
static es_measured bias_shares(const es_claim_row *at) { return over_contexts(at, bias_share); }

/* 4 global tokens, 64 keys to each side, r draws. With replacement: of few draws that is nearly
 * without, and takes one integral at any n. */
#define BIGBIRD         "policy=bigbird window=64 sinks=4 with-replacement " INTEGRALS
#define PUBLISHED(q, n) SPARSE(q, BIGBIRD "random=50 correction=none", n, 400.0, 16, MOST)
#define CORRECTED(q)    /* r = 64 and 1024 beside 133 sure keys */                                 \
    SPARSE(q, BIGBIRD "keys=197,1157 correction=inverse", 16384, 400.0, 16, MOST)

#define GROWTH(q, number)                                                                          \
    {                                                                                              \
        "rows", "mse_exact", "log2 of the error at n = 16384 over that at 1024, q = " q,           \
            ES_RELATION_AT_MOST, 0.0, .run = number, .row = 1, .measure = octaves                  \
    }
/* Allowance: a ratio of two sums over r draws is biased and skew by e^{q^2}/r. */
#define RATE(q, number, exp_q2)                                                                    \
    {                                                                                              \
        "rows", "mse_exact", "rate in r from 64 to 1024 random keys, q = " q,                      \
            .predicted = 0.5, .allowance = 0.5 * (exp_q2) / 64.0 + 0.01, .resolution = 0.1,        \
            .run = number, .row = 1, .measure = rates_in_r                                         \
    }
#define SHARE(q, number)                                                                           \
    {                                                                                              \
        "rows", "bias2", "share of the bias in the mean square error, r = 64, q = " q,             \
            ES_RELATION_AT_MOST, 0.05, .run = number, .row = 1, .measure = bias_shares             \
    }

/* ---- the largest weights ---- */

/* Returns ln of the error over that of the next policy. */
static double log_ratio(const es_claim_row *at)
{
    const es_claim_row other = next_plan(at);
    return log_error(at) - log_error(&other);
}

/* Returns its mean over contexts. */
static es_measured log_ratios(const es_claim_row *at) { return over_contexts(at, log_ratio); }

#define TOP_OR_RANDOM(q)                                                                           \
    SPARSE(q, "policy=top,random+with keys=128 " INTEGRALS, 4096, 0.0, 12, MOST)
/* e^{-q^2} of the keys share the weight. */
#define AVERAGES(number, keys)                                                                     \
    {                                                                                              \
        "rows", "mse_exact",                                                                       \
            "ln of top-k's error over random's, about " keys " of 4096 keys used",                 \
            ES_RELATION_AT_LEAST, 0.0, .run = number, .row = 1, .measure = log_ratios              \
    }
#define SELECTS(number, q)                                                                         \
    {                                                                                              \
        "rows", "mse_exact", "ln of top-k's error over random's, a few keys used, q = " q,         \
            ES_RELATION_AT_MOST, 0.0, .run = number, .row = 1, .measure = log_ratios               \
    }

/* ---- exact errors, and the limit ---- */

/* Returns the mean square error over draws, over the integral's. */
static double simulated_ratio(const es_claim_row *at)
{
    return es_claim_number(at, "mse") / es_claim_number(at, "mse_exact");
}

/* Returns ln of the exact mean square error over the smallest there can be, to first order. */
static double log_above_limit(const es_claim_row *at)
{
    return log(es_claim_number(at, "mse_exact") / es_claim_number(at, "mse_limit"));
}

/* Return the means over contexts. */
static es_measured simulated_ratios(const es_claim_row *at)
{
    return over_contexts(at, simulated_ratio);
}
static es_measured logs_above_limit(const es_claim_row *at)
{
    return over_contexts(at, log_above_limit);
}

#define DRAWN(policy)                                                                              \
    SPARSE("1.5", "keys=16,64 simulations=400|4000 policy=" policy, 512, 50.0, 16, MOST)
#define SIMULATED(number, policy)                                                                  \
    {                                                                                              \
        "rows", "mse", "simulated over exact mean square error, " policy ", {keys} of 512 keys",   \
            .predicted = 1.0, .allowance = 1e-6, .resolution = 0.1, .run = number,                 \
            .where = "head", .from = 0.0, .to = 0.0, .measure = simulated_ratios                   \
    }
#define BEST_AND_EQUAL(q)                                                                          \
    SPARSE(q, "policy=limit,retention+inverse keys=512 " INTEGRALS, 2048, 0.0, 8, MOST)
/* Allowance: the first order leaves out what is smaller by the number of keys that share the
 * weight, and 512 are kept. */
#define BEST(q, number)                                                                            \
    {                                                                                              \
        "rows", "mse_exact", "ln of the best rule's mean square error over the limit, q = " q,     \
            .predicted = 0.0, .allowance = 0.02, .resolution = 0.1, .run = number, .row = 1,       \
            .measure = logs_above_limit                                                            \
    }
#define EQUAL_CHANCES(q, number)                                                                   \
    {                                                                                              \
        "rows", "mse_exact", "ln of that of equal chances, corrected, over the limit, q = " q,     \
            ES_RELATION_AT_LEAST, 0.0, .run = number, .row = 2, .measure = logs_above_limit        \
    }

const es_claim_entry es_claims_sparse[] = {
    {{"bigbird-published", "an expectation of fixed sparse patterns; no available text states it",
      "A window and a fixed number of random keys, as BigBird publishes them, come closer to full "
      "attention as the context grows",
      ES_CLAIM_ASSUMPTION,
      "Gaussian tokens with correlations over 400 places, 4 + 129 sure keys and 50 draws: of "
      "tokens without order a window is a sample like any other"},
     {PUBLISHED("0", 1024), PUBLISHED("0", 16384), PUBLISHED("0.5", 1024), PUBLISHED("0.5", 16384),
      PUBLISHED("1", 1024), PUBLISHED("1", 16384)},
     {GROWTH("0", 2), GROWTH("0.5", 4), GROWTH("1", 6)},
     "Window and random keys weigh alike, so the output stays an average of the query's own "
     "neighbourhood: 16 times the context changes the error by 2^{m0.2} +- {s0.2}, where as many "
     "more independent keys would make it 2^-2."},
    {{"bigbird-corrected", derived,
      "With log(|R|/r) added to the scores of its r random keys BigBird is unbiased up to 1/r, and "
      "its error falls like 1/sqrt(r)",
      ES_CLAIM_RESULT, "r far below the number of keys; at a fixed r the error stays"},
     {CORRECTED("0"), CORRECTED("0.5"), CORRECTED("1")},
     {RATE("0", 1, 1.0), SHARE("0", 1), RATE("0.5", 2, 1.2840254), SHARE("0.5", 2),
      RATE("1", 3, 2.7182818), SHARE("1", 3)},
     "With log(|R|/r) on the scores of random keys the bias is {m5.4} of the mean square error at "
     "q = 1 and less below, and the error falls like r^-{m0.2}; at a fixed r it does not fall with "
     "n, for r draws are all that is known of the rest."},
    {{"regime-decides", derived,
      "Random keys beat the largest weights while the effective number of keys is far above the "
      "number kept, and lose once it is far below",
      ES_CLAIM_RESULT, "Gaussian tokens, whose values vary with their scores"},
     {TOP_OR_RANDOM("0.25"), TOP_OR_RANDOM("0.5"), TOP_OR_RANDOM("1"), TOP_OR_RANDOM("3"),
      TOP_OR_RANDOM("4")},
     {AVERAGES(1, "3848"), AVERAGES(2, "3190"), AVERAGES(3, "1507"), SELECTS(4, "3"),
      SELECTS(5, "4")},
     "128 of 4096 keys: while weights spread over many more than are kept, random keys win (by "
     "{x1.1} at q = 0.5); once a few hold the weight, the largest do."},
    {{"sparse-exact", derived,
      "The mean square error of attention over keys that chance has kept is one integral, exact "
      "for every number of keys and every context",
      ES_CLAIM_RESULT, NULL},
     {DRAWN("random"), DRAWN("retention"), DRAWN("bigbird"), DRAWN("top-random"), DRAWN("limit")},
     {SIMULATED(1, "random"), SIMULATED(2, "retention"), SIMULATED(3, "bigbird"),
      SIMULATED(4, "top-random"), SIMULATED(5, "limit")},
     "No expansion in the number of keys, no law of tokens: the weights and values of one context "
     "are all that the integral needs."},
    {{"sparse-limit", derived,
      "To first order no unbiased rule that keeps each key on its own, m on average, has a mean "
      "square error below (sum w|u|)^2/m, sure keys taken out; the rule that keeps key j with "
      "probability tau w_j|u_j| reaches it",
      ES_CLAIM_RESULT,
      "A bound to first order, which is no bound where few keys are kept and their weights vary "
      "much"},
     {BEST_AND_EQUAL("0.5"), BEST_AND_EQUAL("1"), BEST_AND_EQUAL("2")},
     {BEST("0.5", 1), EQUAL_CHANCES("0.5", 1), BEST("1", 2), EQUAL_CHANCES("1", 2), BEST("2", 3),
      EQUAL_CHANCES("2", 3)},
     "Keeping key j with a probability in proportion to w_j |v_j - y| reaches the limit ({x2.3} of "
     "it at q = 1, 512 of 2048 keys); equal chances cost {x3.1} times as much there, {x5.0} times "
     "at q = 2."},
    {{0}}};
