/* SPDX-License-Identifier: Apache-2.0 */
/* gaps.c : how the critical score scale of a row grows with the number of keys (THEORY 21): for
 * normal scores, for exponential ones, for bounded ones and for equal ones.
 *
 * Every claim runs `measure` on scores that are written to files. Query i of a head is unit vector
 * i, so that its scores are channel i of the keys: a head has 64 independent rows. */
#include <math.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/claims/claim_kit.h"
#include "random/experiment.h"
#include "theory/gap_count.h"

enum { SCORES = ES_EXPERIMENT_CLAIMS + 9, ROWS = 64, KEYS = 4096, FEW = KEYS / 16 };

/* ---- scores ---- */

static double exponential_score(double e) { return e; }
static double uniform_score(double e) { return -exp(-e); }

/* Replaces normal numbers x (count) by independent ones of another law. */
static void transform(double *x, int64_t count, es_gap_score score)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = score(-log(0.5 * erfc(x[i] / sqrt(2.0))));
}

/* Writes keys (heads, KEYS, ROWS) whose numbers are scores, and queries that read one channel each.
 */
static es_status write_files(const char *folder, int64_t heads, const double *keys, es_arena *arena,
                             es_error *err)
{
    double *queries;
    ES_TRY(ES_ARENA_NEW(arena, queries, heads * ROWS * ROWS, "queries of a claim", err));
    for (int64_t i = 0; i < heads * ROWS; i++)
        queries[i * ROWS + i % ROWS] = 1.0;
    ES_TRY(es_ask_write(folder, "a.npy", 3, (int64_t[]){heads, KEYS, ROWS}, keys, err));
    return es_ask_write(folder, "b.npy", 3, (int64_t[]){heads, ROWS, ROWS}, queries, err);
}

/* Writes independent scores; `score` NULL: normal ones. */
static es_status write_scores(const es_claim_source *of, const char *folder, uint64_t seed,
                              es_gap_score score, es_error *err)
{
    const int64_t heads = es_claim_tries(of) / ROWS, size = heads * KEYS * ROWS;
    const es_address at = {.seed = seed, .experiment = SCORES};
    es_arena arena = {.budget = es_claim_budget(of->opts)};
    double *keys;
    es_status status = ES_ARENA_NEW(&arena, keys, size, "scores of a claim", err);
    if (status == ES_OK)
        status = es_normal_rows(&at, heads * KEYS, ROWS, keys, err);
    if (status == ES_OK && score)
        transform(keys, size, score);
    if (status == ES_OK)
        status = write_files(folder, heads, keys, &arena, err);
    es_arena_free(&arena);
    return status;
}

static es_status normal_keys(const void *of, const char *folder, uint64_t seed, es_error *err)
{
    return write_scores(of, folder, seed, NULL, err);
}

static es_status exponential_keys(const void *of, const char *folder, uint64_t seed, es_error *err)
{
    return write_scores(of, folder, seed, exponential_score, err);
}

static es_status uniform_keys(const void *of, const char *folder, uint64_t seed, es_error *err)
{
    return write_scores(of, folder, seed, uniform_score, err);
}

/* The first score of every row is 0, all others are -1: nothing is drawn. */
static es_status equal_keys(const void *of, const char *folder, uint64_t seed, es_error *err)
{
    const int64_t heads = es_claim_tries(of) / ROWS;
    es_arena arena = {.budget = es_claim_budget(((const es_claim_source *)of)->opts)};
    double *keys;
    es_status status = ES_ARENA_NEW(&arena, keys, heads * KEYS * ROWS, "scores of a claim", err);
    (void)seed;
    for (int64_t i = 0; i < heads * KEYS * ROWS && status == ES_OK; i++)
        keys[i] = i / ROWS % KEYS ? -1.0 : 0.0;
    if (status == ES_OK)
        status = write_files(folder, heads, keys, &arena, err);
    es_arena_free(&arena);
    return status;
}

#define GAPS(keys, quick, paper)                                                                   \
    {                                                                                              \
        {                                                                                          \
            "measure", "q=@/b.npy k=@/a.npy v=@/a.npy scale=1", keys, .tries = { quick, paper }    \
        }                                                                                          \
    }

/* ---- powers of ln n ---- */

/* Returns the power of ln n by which the critical scale grows, mean over the rows of all heads. */
static es_measured power(const es_claim_row *at)
{
    const double heads = (double)es_table_rows(at->table);
    es_measured sum = {0};
    for (int64_t h = 0; h < es_table_rows(at->table); h++) {
        const es_measured of_head = es_ask_number(at->table, h, "growth");
        sum.value += of_head.value / heads;
        sum.se = hypot(sum.se, of_head.se / heads);
    }
    return sum;
}

/* Returns what (G3) predicts for scores of a law. */
static es_measured predicted(es_gap_score score)
{
    const double value =
        es_gap_power(es_gap_typical(score, FEW, ES_GAP_GROUP),
                     es_gap_typical(score, KEYS, ES_GAP_GROUP), (double)FEW, (double)KEYS);
    return (es_measured){value, 0.0};
}

static es_measured of_normal(const es_claim_row *at)
{
    (void)at;
    return predicted(es_gap_normal_score);
}

static es_measured of_exponential(const es_claim_row *at)
{
    (void)at;
    return predicted(exponential_score);
}

static es_measured of_uniform(const es_claim_row *at)
{
    (void)at;
    return predicted(uniform_score);
}

static es_measured log_of_keys(const es_claim_row *at)
{
    (void)at;
    return (es_measured){log((double)KEYS), 0.0};
}

/* (G3) ignores that the largest score varies. ln L then scatters by 0.36, and its mean may be off
 * by half of its variance. */
static double by_scatter(const es_claim_row *at)
{
    (void)at;
    return 0.5 * 0.36 * 0.36 / log(log((double)KEYS) / log((double)FEW));
}

#define POWER(of_law, label) "gaps", "growth", label, .row = 1, .measure = power, .predict = of_law

static const char source[] = "derived: THEORY 21 (G3), after 2605.12697";

const es_claim_entry es_claims_gaps[] = {
    {{"gaps-normal", source,
      "With normal scores the critical score scale of a row grows like a power of ln n that falls "
      "to 1/2: like the square root of ln n, not like ln n",
      ES_CLAIM_RESULT},
     GAPS(normal_keys, 1024, 8192),
     {{POWER(of_normal, "power of ln n from 256 to 4096 keys, normal scores"), .resolution = 0.25,
       .allow = by_scatter}},
     "From 256 to 4096 keys the critical scale of normal scores grows like (ln n)^{m0.2} (+- "
     "{s0.2}), typical scores predict {p0.2}; a factor ln n on scores is too much for them."},
    {{"gaps-exponential", source,
      "With an exponential tail of scores the critical score scale does not grow with n",
      ES_CLAIM_RESULT},
     GAPS(exponential_keys, 1024, 8192),
     {{POWER(of_exponential, "power of ln n from 256 to 4096 keys, exponential scores"),
       .resolution = 0.25, .allow = by_scatter}},
     "From 256 to 4096 keys the critical scale of exponential scores grows like (ln n)^{m0.2} (+- "
     "{s0.2}): such rows stay as selective without any factor on scores."},
    {{"gaps-bounded", source,
      "With bounded scores, uniform near their maximum, the critical score scale grows like n, "
      "faster than any power of ln n",
      ES_CLAIM_RESULT},
     GAPS(uniform_keys, 1024, 8192),
     {{POWER(of_uniform, "power of ln n from 256 to 4096 keys, uniform scores"),
       .resolution_part = 0.1}},
     "From 256 to 4096 keys, a factor 16, the critical scale of uniform scores grows like (ln "
     "n)^{m0.2} (+- {s0.2}); growth in proportion to n would be {p0.2}."},
    {{"gaps-equal",
      "derived: THEORY 21; equal gaps are those of tokens at equal angles, as in 2510.05554",
      "With all other scores equally far below the largest, the critical score scale is ln n over "
      "that distance for every n",
      ES_CLAIM_RESULT},
     GAPS(equal_keys, ROWS, ROWS),
     /* allowance: rounding of logarithms */
     {{"gaps", "median", "critical scale of 4096 keys, all gaps 1", .row = 1, .computed = true,
       .predict = log_of_keys, .allowance = 1e-12, .resolution = 0.1},
      {"gaps", "growth", "power of ln n from 256 to 4096 keys, all gaps 1", .row = 1,
       .computed = true, .predicted = 1.0, .allowance = 1e-12, .resolution = 0.1}},
     "Equal gaps ask for a factor ln n on scores: the critical scale is {m0.2} = ln 4096 and grows "
     "like (ln n)^{m1.2}."},
    {{0}}};
