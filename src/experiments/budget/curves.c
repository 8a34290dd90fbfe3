/* SPDX-License-Identifier: Apache-2.0 */
/* curves.c : risks of the heads of a model by number of keys, policy by policy.
 *
 * The full model runs and passes each head to a callback. Heads that share keys and values are
 * processed together, because they keep one set of keys, chosen by their common weights as in the
 * forward pass (model.h); after the last head of a layer threads process one such group each.
 * Scores are computed for all queries in order, a strip at a time, since policies may use the
 * weights of earlier queries. At the chosen queries the risks of each head are computed
 * (policy_risk.h) with values v Wo_h' in place of v, which gives the error of the layer's output.
 * Because |Wo_h u| = |G^1/2 u| with G = Wo_h' Wo_h, G^1/2 v has as few channels as v. */
#include "experiments/budget/budget.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/budget/inside.h"
#include "linalg/dense.h"
#include "linalg/linalg.h"
#include "model/sparse_head.h"
#include "policy/policy.h"
#include "random/experiment.h"
#include "random/random.h"
#include "risk/policy_risk.h"
#include "stats/average.h"
#include "stats/weigh.h"

enum { STRIP = 64 }; /* queries whose scores are one product */

/* Relative error of the integrals over random choices. Blocks of text differ by hundreds of times
 * as much. */
static const double TOLERANCE = 1e-4;

/* One key-value head of a block and the heads that share it. */
typedef struct work {
    const es_curves_spec *spec;
    const es_token_block *block;
    const es_model_config *c;
    const es_curves *out;
    es_mem_limit *budget;
    int64_t size;        /* heads that share keys and values */
    int64_t *chosen;     /* (queries) positions, increasing */
    double *q;           /* (size, n, dk) times the scale */
    double *v;           /* (size, n, dk) values through the root of G of each head */
    double *k;           /* (n, dk) */
    double *raw;         /* (n, dk) values as they are */
    double *scores;      /* (size, STRIP, n) */
    double *history;     /* (n) weight from the queries before, of all heads */
    double *recent;      /* (span, n) of the last of them, one by one */
    double *observed;    /* (n) their sum */
    double *joint;       /* (n) ln of the heads' mean weight of the present query */
    double *reach;       /* (n) what goes with it (sparse_head.c) */
    double *sorted;      /* (n) */
    double *gram, *root; /* (dk, dk) */
    int64_t span;
    es_group group;
    es_choice choice;
    es_risk_query *query;  /* (size) of the present position */
    int64_t first;         /* head of all, the first of the group */
    es_past past;          /* keys that queries of its layer see */
    int64_t asking;        /* number of the present query among those chosen */
    es_branch branch;      /* of its layer */
    double *wo, *turned;   /* (size, H, dk) of the heads, (dk, H) J Wo of one; NULL: as outputs */
    const double *sinks;   /* (size) logits of the heads' sinks; -inf: none */
    const double *outputs; /* (L, queries, H) of the block; NULL: no norm follows Wo */
    const es_policy_spec *policies; /* (n_policies) of its layer */
    const int64_t *keys;            /* (n_keys) likewise */
} work;

/* A block: the layer that was shown last, and a group of its heads for each thread. */
typedef struct block_work {
    const es_curves *out;
    es_exec exec; /* threads that have a group each */
    es_arena arena;
    es_model_seen *seen; /* (heads) of the layer */
    double *sinks;       /* (heads) likewise, logits of their sinks; -inf: none */
    double *outputs;     /* (L, queries, H) of attention, after Wo; NULL: no norm follows it */
    es_wo_sum layer;
    work *works; /* (threads) */
} block_work;

/* ---- memory ---- */

/* Returns what all policies together need: scores, past attention, observed attention. */
static unsigned needs_of(const es_curves_spec *spec)
{
    unsigned needs = 0;
    for (int64_t p = 0; p < spec->n_policies; p++)
        needs |= es_policy_inputs(spec->policies[p].policy);
    return needs;
}

/* Returns the queries of the observation window, at most all of the block. */
static int64_t span_of(const es_curves_spec *spec, int64_t n)
{
    int64_t span = ES_POLICY_SPAN;
    for (int64_t p = 0; p < spec->n_policies; p++)
        if (es_policy_inputs(spec->policies[p].policy) & ES_POLICY_OBSERVED &&
            spec->policies[p].span > 0)
            span = spec->policies[p].span;
    return span < n ? span : n;
}

/* Allocates what a norm after Wo takes: Wo as it is, and J Wo of a head. */
static es_status wo_new(work *w, es_arena *arena, es_error *err)
{
    const int64_t H = w->c->hidden, dk = w->c->head_dim;
    ES_TRY(ES_ARENA_NEW_2D(arena, w->wo, w->size * H, dk, "Wo", err));
    return ES_ARENA_NEW_2D(arena, w->turned, dk, H, "Wo", err);
}

/* Allocates the memory for one key-value head and its queries. */
static es_status work_new(work *w, es_arena *arena, es_error *err)
{
    const int64_t n = w->block->n, dk = w->c->head_dim;
    w->span = span_of(w->spec, n);
    w->size = w->c->heads / w->c->kv_heads;
    ES_TRY(ES_ARENA_NEW(arena, w->query, w->size, "queries", err));
    ES_TRY(ES_ARENA_NEW(arena, w->chosen, w->spec->queries, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->q, w->size * n, dk, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->k, n, dk, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->v, w->size * n, dk, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->raw, n, dk, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->scores, w->size * n, STRIP, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW(arena, w->history, n, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->recent, n, w->span, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW(arena, w->observed, n, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW(arena, w->joint, n, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW(arena, w->reach, n, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW(arena, w->sorted, n, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->gram, dk, dk, "heads by keys", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->root, dk, dk, "heads by keys", err));
    ES_TRY(es_group_new(w->c, arena, &w->group, err));
    if (w->outputs)
        ES_TRY(wo_new(w, arena, err));
    return es_branch_new(w->block->model, arena, &w->branch, err);
}

double es_curves_bytes(const es_model_config *c, int64_t n, int threads)
{
    const double N = (double)n, k = (double)c->head_dim, size = (double)(c->heads / c->kv_heads);
    /* heads, their strips, what was observed, a query's risks */
    const double group =
        8.0 * N * (4.0 * k + size * (4.0 * k + STRIP + 8.0) + 8.0 * ES_POLICY_SPAN + 64.0) +
        es_group_bytes(c) + 32.0 * k * k + 1e6;
    return fmin(threads, (double)c->kv_heads) * group + es_wo_sum_bytes(c, n - es_late_begin(c, n));
}

/* ---- which queries ---- */

es_status es_curves_queries(const es_token_block *block, int64_t Q, int64_t *out, es_error *err)
{
    const int64_t n = block->n, from = es_block_late(block);
    if (Q < 1 || Q > n - from)
        return es_fail(err, ES_E_RANGE, "budget.queries", "fewer queries, or longer blocks",
                       "%lld queries among %lld late positions", (long long)Q,
                       (long long)(n - from));
    for (int64_t i = 0; i < Q; i++) {
        const es_address at = {.seed = block->seed,
                               .experiment = ES_BUDGET_QUERIES,
                               .cell = (uint64_t)block->number,
                               .token = (uint64_t)i};
        const int64_t low = from + (n - from) * i / Q, high = from + (n - from) * (i + 1) / Q;
        out[i] = low + (int64_t)(es_uniform_at(&at) * (double)(high - low));
    }
    return ES_OK;
}

/* ---- one head's matrices ---- */

/* Computes G = Wo' Wo and its symmetric square root. */
static es_status weigh_head(work *w, int64_t g, es_error *err)
{
    const int64_t dk = w->c->head_dim, H = w->c->hidden;
    const double *wo = w->group.wo + g * H * dk;
    const es_view gram = es_view_f64(w->gram, dk, dk);
    memset(w->gram, 0, (size_t)(dk * dk) * sizeof(double));
    for (int64_t r = 0; r < H; r++)
        for (int64_t i = 0; i < dk; i++)
            for (int64_t j = 0; j < dk; j++)
                w->gram[i * dk + j] += wo[r * dk + i] * wo[r * dk + j];
    return es_sym_sqrt(&gram, 0.0, w->budget, w->root, NULL, err);
}

/* Multiplies `count` values from `first` on by the root of head g. */
static void weigh_values(work *w, int64_t g, int64_t first, int64_t count)
{
    const int64_t dk = w->c->head_dim;
    double *v = w->v + (g * w->block->n + first) * dk;
    memset(v, 0, (size_t)(count * dk) * sizeof(double));
    es_blas_enter();
    es_gemm_add(ES_F64, count, dk, dk, w->raw + first * dk, w->root, v); /* it is symmetric */
    es_blas_leave();
}

/* Weighs head g by J Wo, where a norm follows Wo: J depends on the query's output (branch.c). */
static es_status weigh_branch(work *w, int64_t g, es_error *err)
{
    const int64_t dk = w->c->head_dim, H = w->c->hidden;
    const int64_t layer = w->first / w->c->heads;
    const double *a = w->outputs + (layer * w->spec->queries + w->asking) * H;
    const es_view gram = es_view_f64(w->gram, dk, dk);
    double *wo = w->group.wo + g * H * dk;
    es_branch_slope(&w->branch, a, w->wo + g * H * dk, dk, wo);
    for (int64_t r = 0; r < H; r++)
        for (int64_t d = 0; d < dk; d++)
            w->turned[d * H + r] = wo[r * dk + d];
    memset(w->gram, 0, (size_t)(dk * dk) * sizeof(double));
    es_blas_enter();
    es_gemm_add(ES_F64, dk, dk, H, w->turned, w->turned, w->gram);
    es_blas_leave();
    return es_sym_sqrt(&gram, 0.0, w->budget, w->root, NULL, err);
}

/* Copies the matrices of head g of its group; all heads of a group have the same keys and values.
 */
static void read_head(work *w, const es_model_seen *seen, int64_t g)
{
    const int64_t n = w->block->n, dk = w->c->head_dim;
    double *q = w->q + g * n * dk;
    for (int64_t i = 0; i < n; i++) {
        es_view_read_row(&seen->q, i, q + i * dk);
        es_view_read_row(&seen->k, i, w->k + i * dk);
        es_view_read_row(&seen->v, i, w->raw + i * dk);
    }
    for (int64_t i = 0; i < n * dk; i++)
        q[i] *= seen->scale;
    if (!w->outputs)
        weigh_values(w, g, 0, n);
}

/* Returns the scores of head g, `into` numbers into its strip. */
static double *scores_of(const work *w, int64_t g, int64_t into)
{
    return w->scores + g * STRIP * w->block->n + into;
}

/* ---- one query ---- */

/* Returns the number of keys that hold a share of the weight, a sink's apart. */
static double keys_of_mass(work *w, const es_risk_query *query)
{
    const int64_t n = query->n - query->sink;
    const double *weights = query->weights, rest = query->sink ? weights[n] : 0.0;
    const double most = ES_BUDGET_MASS * (1.0 - rest);
    double sum = 0.0;
    int64_t count = 0;
    memcpy(w->sorted, weights, (size_t)n * sizeof(double));
    es_sort_reals(w->sorted, n);
    while (count < n && sum < most)
        sum += w->sorted[n - ++count];
    return (double)count;
}

/* Adds the facts of a query that sees the keys from `begin` on. */
static void add_facts(work *w, int64_t g, int64_t begin)
{
    const es_risk_query *query = &w->query[g];
    const double share = 1.0 / (double)w->spec->queries;
    double *facts = w->out->facts + (w->first + g) * ES_FACTS;
    double squares = 0.0, sinks = 0.0;
    for (int64_t j = 0; j < query->n; j++)
        squares += query->weights[j] * query->weights[j];
    for (int64_t j = 0; begin + j < ES_BUDGET_SINKS && j < query->n - query->sink; j++)
        sinks += query->weights[j];
    facts[ES_FACT_ESS] += share / squares;
    facts[ES_FACT_SINKS] += share * sinks;
    facts[ES_FACT_KEYS_95] += share * keys_of_mass(w, query);
    facts[ES_FACT_SPREAD] += share * query->spread2;
}

/* ---- risks ---- */

/* Sets the common weights of the heads as sparse_head.c does, except that the cost of a key is
 * known here: |sum_g Wo_g w_gj u_gj|. A single head uses its own weights. */
static void join(work *w, int64_t begin, es_policy_query *asked)
{
    const int64_t n = asked->n;
    es_group *group = &w->group;
    asked->reach = w->query[0].reach;
    if (w->size == 1)
        return;
    es_group_begin(group, w->raw + begin * w->c->head_dim, w->query);
    for (int64_t first = 0; first < n; first += ES_GROUP_CHUNK) {
        const int64_t rows = n - first < ES_GROUP_CHUNK ? n - first : ES_GROUP_CHUNK;
        for (int64_t g = 0; g < w->size; g++)
            for (int64_t r = 0; r < rows; r++)
                es_group_put(group, g, r, first + r, w->query[g].weights[first + r], NULL);
        es_group_apply(group, rows);
        for (int64_t r = 0; r < rows; r++) {
            double mean = 0.0;
            for (int64_t g = 0; g < w->size; g++)
                mean += w->query[g].weights[first + r] / (double)w->size;
            w->joint[first + r] = log(mean);
            w->reach[first + r] = mean > 0.0 ? sqrt(group->together[r]) / mean : 0.0;
        }
    }
    asked->scores = w->joint;
    asked->reach = w->reach;
}

/* Replaces draws without replacement by independent retention, which takes a tenth of the work. */
static void retain_each(es_choice *choice)
{
    if (choice->chance != ES_CHANCE_WITHOUT || choice->draws >= choice->rest_count)
        return;
    const double p = (double)choice->draws / (double)choice->rest_count;
    for (int64_t i = 0; i < choice->rest_count; i++) {
        choice->kept[i] = p;
        choice->factors[i] = choice->factor;
    }
    choice->chance = ES_CHANCE_EACH;
}

/* Computes the risk of a choice. If no chosen key has weight in f64, the output would still be one
 * of their values: uses the distance of a key from the output. */
static es_status risk_of(work *w, const es_risk_query *query, double *out, es_error *err)
{
    es_policy_risk risk = {0};
    const es_status status =
        es_policy_risk_near(query, &w->choice, TOLERANCE, w->budget, &risk, err);
    *out = status == ES_E_EMPTY ? query->spread2 : risk.square.val;
    return status == ES_E_EMPTY ? ES_OK : status;
}

/* Returns true if the risk is computed at this number of keys. Random policies are computed at
 * every other number, the first and the last two included; at the last, all keys, only draws with
 * replacement take time. */
static bool is_asked(const es_curves_spec *spec, int64_t policy, int64_t at)
{
    return !(es_policy_inputs(spec->policies[policy].policy) & ES_POLICY_CHANCE) || at == 0 ||
           at == spec->n_keys - 1 || (spec->n_keys - at) % 2 == 0;
}

/* Returns where the risks of head g of the group are stored. */
static double *risk_at(const work *w, int64_t g, int64_t policy, int64_t m)
{
    const es_curves_spec *spec = w->spec;
    return w->out->risk + ((w->first + g) * spec->n_policies + policy) * spec->n_keys + m;
}

/* Adds the risks of all heads of the group under one policy with keys[m] keys, chosen once. */
static es_status add_risks(work *w, const es_policy_query *asked, int64_t policy, int64_t m,
                           es_error *err)
{
    const double share = 1.0 / (double)w->spec->queries;
    es_policy_spec own = w->policies[policy];
    own.keys = w->keys[m];
    es_policy_spec_fit(&own, w->c->causal);
    const bool known = is_asked(w->spec, policy, m);
    const bool some = known && (own.keys < asked->n || own.with_replacement);
    double sum = known ? 0.0 : (double)NAN, ratio = 1.0;
    if (some) {
        ES_TRY(es_policy_choose(&own, asked, w->budget, &w->choice, err));
        retain_each(&w->choice);
        ratio = w->size > 1 ? es_group_ratio(&w->group, &w->choice) : 1.0;
    }
    for (int64_t g = 0; g < w->size; g++) {
        double value = known ? 0.0 : (double)NAN;
        if (some)
            ES_TRY(risk_of(w, &w->query[g], &value, err));
        *risk_at(w, g, policy, m) += share * value;
        sum += value;
    }
    w->out->group[(w->first / w->size * w->spec->n_policies + policy) * w->spec->n_keys + m] +=
        share * ratio * sum;
    return ES_OK;
}

/* Returns the first-order risk of keys kept independently: sum (1/p - 1) |w u|^2. */
static double variance_of(const es_choice *choice, const es_risk_query *query)
{
    double sum = 0.0;
    for (int64_t i = 0; i < choice->rest_count; i++) {
        const int64_t j = choice->rest[i];
        const double cost = query->weights[j] * query->reach[j];
        sum += (1.0 / choice->kept[i] - 1.0) * cost * cost;
    }
    return sum;
}

/* Adds the limits of a group's heads, which share their probabilities p. The least total cost, sum
 * (1/p - 1) a^2 with a = mean weight times reach, is divided in proportion to the heads' variances.
 */
static es_status add_limits(work *w, const es_policy_query *asked, int64_t m, es_error *err)
{
    const double share = 1.0 / (double)w->spec->queries;
    es_policy_spec best;
    double value, sum = 0.0, all = 0.0;
    es_policy_spec_init(&best, es_policy_find("limit"));
    best.keys = w->keys[m];
    if (best.keys >= asked->n)
        return ES_OK;
    double *to = w->out->limit + w->first * w->spec->n_keys + m;
    if (w->size == 1) {
        ES_TRY(es_policy_limit(w->query, (double)best.keys, w->budget, &value, NULL, err));
        *to += share * value;
        return ES_OK;
    }
    ES_TRY(es_policy_choose(&best, asked, w->budget, &w->choice, err));
    for (int64_t i = 0; i < w->choice.rest_count; i++) {
        const int64_t j = w->choice.rest[i];
        const double a = exp(w->joint[j]) * w->reach[j];
        all += (1.0 / w->choice.kept[i] - 1.0) * a * a;
    }
    for (int64_t g = 0; g < w->size; g++)
        sum += variance_of(&w->choice, &w->query[g]);
    for (int64_t g = 0; g < w->size && sum > 0.0; g++)
        to[g * w->spec->n_keys] += share * all * variance_of(&w->choice, &w->query[g]) / sum;
    return ES_OK;
}

/* Adds risks and lower bounds of a query at every number of keys. */
static es_status add_all(work *w, const es_policy_query *asked, es_error *err)
{
    for (int64_t m = 0; m < w->spec->n_keys; m++) {
        ES_TRY(add_limits(w, asked, m, err));
        for (int64_t p = 0; p < w->spec->n_policies; p++)
            ES_TRY(add_risks(w, asked, p, m, err));
    }
    return ES_OK;
}

/* Sums the attention of the last `span` queries, which observing policies rank keys by. */
static void observe(work *w, int64_t i)
{
    const int64_t n = w->block->n;
    memset(w->observed, 0, (size_t)n * sizeof(double));
    for (int64_t r = i > w->span ? i - w->span : 0; r < i; r++)
        for (int64_t j = 0; j < n; j++)
            w->observed[j] += w->recent[r % w->span * n + j];
}

/* Adds all risks at position i, whose scores are `into` numbers into the strips. */
static es_status ask_query(work *w, int64_t i, int64_t into, es_error *err)
{
    const int64_t begin = es_past_begin(w->past, i), dk = w->c->head_dim;
    const int64_t n = es_past_end(w->past, i, w->block->n) - begin;
    es_policy_query asked = {.n = n,
                             .position = i - begin,
                             .causal = w->c->causal,
                             .scores = scores_of(w, 0, into) + begin,
                             .history = w->history + begin,
                             .observed = w->observed + begin};
    es_status status = ES_OK;
    observe(w, i);
    for (int64_t g = 0; g < w->size && status == ES_OK; g++) {
        if (w->outputs) {
            status = weigh_branch(w, g, err);
            weigh_values(w, g, begin, n);
        }
        if (status != ES_OK)
            break;
        const es_view values = es_view_f64(w->v + (g * w->block->n + begin) * dk, n, dk);
        status = es_risk_query_with_sink(scores_of(w, g, into) + begin, n, &values, w->sinks[g],
                                         w->budget, &w->query[g], err);
        if (status == ES_OK)
            add_facts(w, g, begin);
    }
    if (status == ES_OK) {
        join(w, begin, &asked);
        status = add_all(w, &asked, err);
    }
    for (int64_t g = 0; g < w->size; g++)
        es_risk_query_free(&w->query[g], w->budget);
    return status;
}

/* ---- all queries of a group ---- */

/* Adds the weights of query i of head g to row (n). */
static void add_weights(const work *w, int64_t i, int64_t g, const double *scores, double *row)
{
    const int64_t begin = es_past_begin(w->past, i);
    const int64_t end = es_past_end(w->past, i, w->block->n);
    es_weigh_beside(w->sinks[g], scores + begin, end - begin, w->sorted + begin);
    for (int64_t j = begin; j < end; j++)
        row[j] += w->sorted[j];
}

/* Stores the weights of query i for later queries: in a ring of the last `span` rows, and in the
 * sum over all. */
static void remember(work *w, int64_t i, int64_t into)
{
    const int64_t n = w->block->n;
    double *row = w->recent + i % w->span * n;
    memset(row, 0, (size_t)n * sizeof(double));
    for (int64_t g = 0; g < w->size; g++)
        add_weights(w, i, g, scores_of(w, g, into), row);
    for (int64_t j = 0; j < n; j++)
        w->history[j] += row[j];
}

/* Computes scores of a strip of queries by one product per head; scores of all queries at once
 * would take n^2 numbers. */
static void score_strip(work *w, int64_t first, int64_t count, int64_t keys)
{
    const int64_t n = w->block->n, dk = w->c->head_dim;
    es_blas_enter();
    for (int64_t g = 0; g < w->size; g++) {
        memset(scores_of(w, g, 0), 0, (size_t)(count * keys) * sizeof(double));
        es_gemm_add(ES_F64, count, keys, dk, w->q + (g * n + first) * dk, w->k, scores_of(w, g, 0));
        es_cap_scores(w->c->score_cap, count * keys, scores_of(w, g, 0));
    }
    es_blas_leave();
}

/* Goes through the queries of a group in order. Strips without a chosen query are skipped unless a
 * policy uses past attention. */
static es_status walk_queries(work *w, es_error *err)
{
    const int64_t n = w->block->n, Q = w->spec->queries;
    const bool past = needs_of(w->spec) & (ES_POLICY_HISTORY | ES_POLICY_OBSERVED);
    int64_t next = 0;
    memset(w->history, 0, (size_t)n * sizeof(double));
    for (int64_t first = 0; first < n && next < Q; first += STRIP) {
        const int64_t count = n - first < STRIP ? n - first : STRIP;
        const int64_t keys = w->c->causal ? first + count : n;
        if (!past && w->chosen[next] >= first + count)
            continue;
        score_strip(w, first, count, keys);
        for (int64_t i = first; i < first + count && next < Q; i++) {
            for (; next < Q && w->chosen[next] == i; next++) {
                w->asking = next;
                ES_TRY(ask_query(w, i, (i - first) * keys, err));
            }
            if (past)
                remember(w, i, (i - first) * keys);
        }
    }
    return ES_OK;
}

/* ---- all heads ---- */

/* Sets the sums of risks of a head to 0. */
static void clear(const work *w, int64_t head)
{
    const es_curves_spec *spec = w->spec;
    const int64_t risks = spec->n_policies * spec->n_keys;
    memset(w->out->risk + head * risks, 0, (size_t)risks * sizeof(double));
    memset(w->out->limit + head * spec->n_keys, 0, (size_t)spec->n_keys * sizeof(double));
    memset(w->out->facts + head * ES_FACTS, 0, ES_FACTS * sizeof(double));
    memset(w->out->group + head / w->size * risks, 0, (size_t)risks * sizeof(double));
}

/* Stores Wo of head g, times the branch's factor; before a norm as it is. */
static void read_wo(work *w, const es_model_seen *seen, int64_t g)
{
    const int64_t H = w->c->hidden, dk = w->c->head_dim;
    double *to = (w->outputs ? w->wo : w->group.wo) + g * H * dk;
    for (int64_t r = 0; r < H; r++)
        es_view_read_row(&seen->wo, r, to + r * dk);
    for (int64_t i = 0; i < H * dk && !w->outputs && w->branch.factor != 1.0; i++)
        to[i] *= w->branch.factor;
}

/* Sets what all heads of the group have in common; `seen` is the first of them. */
static void begin_group(const block_work *all, work *w, const es_model_seen *seen)
{
    const int64_t row = w->spec->by_layer ? seen->layer : 0;
    w->first = seen->layer * w->c->heads + seen->head;
    w->past = es_past_of(w->c, seen->layer);
    w->sinks = all->sinks + seen->head;
    w->policies = w->spec->policies + row * w->spec->n_policies;
    w->keys = w->spec->keys + row * w->spec->n_keys;
    es_branch_at(&w->branch, seen->layer);
}

/* Computes the curves of group `unit` of the layer. */
static es_status run_group(void *block, int64_t unit, int thread, es_error *err)
{
    const block_work *all = block;
    work *w = &all->works[thread];
    const es_model_seen *seen = all->seen + unit * w->size;
    begin_group(all, w, seen);
    for (int64_t g = 0; g < w->size; g++) {
        clear(w, w->first + g);
        read_wo(w, &seen[g], g);
        if (!w->outputs)
            ES_TRY(weigh_head(w, g, err));
        read_head(w, &seen[g], g);
    }
    return walk_queries(w, err);
}

/* Receives a head of the forward pass; when the last head of a layer is there, the curves of all
 * its groups are computed. */
static es_status see_head(void *context, const es_model_seen *seen, es_error *err)
{
    block_work *all = context;
    const es_model_config *c = all->works[0].c;
    es_wo_sum_add(&all->layer, seen);
    all->seen[seen->head] = *seen;
    all->sinks[seen->head] = *seen->sink; /* which is not valid after the call */
    if (seen->head < c->heads - 1)
        return ES_OK;
    all->out->spread2[seen->layer] = es_wo_sum_spread2(&all->layer);
    return es_parallel_run(&all->exec, c->kv_heads, run_group, all, err);
}

/* Allocates the works of all threads, with the same queries, and what they share. */
static es_status block_new(block_work *all, const work *first, es_error *err)
{
    const int threads = all->exec.threads;
    const es_model *model = first->block->model;
    const int64_t outputs = first->c->layers * first->spec->queries;
    ES_TRY(ES_ARENA_NEW(&all->arena, all->works, threads, "threads", err));
    ES_TRY(ES_ARENA_NEW(&all->arena, all->seen, first->c->heads, "heads", err));
    ES_TRY(ES_ARENA_NEW(&all->arena, all->sinks, first->c->heads, "sinks", err));
    ES_TRY(es_wo_sum_new(first->block, &all->arena, &all->layer, err));
    if (es_branch_norms(model))
        ES_TRY(ES_ARENA_NEW_2D(&all->arena, all->outputs, outputs, first->c->hidden,
                               "outputs of layers", err));
    for (int t = 0; t < threads; t++) {
        all->works[t] = *first;
        all->works[t].outputs = all->outputs;
        ES_TRY(work_new(&all->works[t], &all->arena, err));
        ES_TRY(es_curves_queries(first->block, first->spec->queries, all->works[t].chosen, err));
    }
    return ES_OK;
}

/* Receives a head of the first pass: stores outputs of its layer at the chosen queries. */
static es_status see_output(void *context, const es_model_seen *seen, es_error *err)
{
    block_work *all = context;
    const work *w = &all->works[0];
    const int64_t Q = w->spec->queries, H = w->c->hidden;
    (void)err;
    es_wo_sum_add(&all->layer, seen);
    for (int64_t i = 0; i < Q && seen->head == w->c->heads - 1; i++)
        memcpy(all->outputs + (seen->layer * Q + i) * H,
               all->layer.rows + (w->chosen[i] - all->layer.from) * H, (size_t)H * sizeof(double));
    return ES_OK;
}

/* Runs the block: once for the outputs that a norm after Wo is of, and once for the curves. */
static es_status run_passes(block_work *all, const es_exec *exec, es_error *err)
{
    const es_token_block *block = all->works[0].block;
    es_model_visit visit = {.head = see_output, .context = all};
    const es_model_block b = {.ids = block->ids, .n = block->n, .visit = &visit};
    if (all->outputs) {
        all->layer.plain = true;
        ES_TRY(es_model_forward(block->model, &b, 1, exec, err));
        all->layer.plain = false;
    }
    visit.head = see_head;
    return es_model_forward(block->model, &b, 1, exec, err);
}

es_status es_curves_block(const es_curves_spec *spec, const es_token_block *block,
                          const es_exec *exec, const es_curves *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(block->model);
    es_mem_limit *budget = exec ? exec->budget : NULL;
    const work first = {.spec = spec, .block = block, .c = c, .out = out, .budget = budget};
    block_work all = {.out = out,
                      .exec = {.threads = es_parallel_threads(exec, c->kv_heads), .budget = budget},
                      .arena = {.budget = budget}};
    es_status status = block_new(&all, &first, err);
    if (status == ES_OK)
        status = run_passes(&all, exec, err);
    for (int t = 0; all.works && t < all.exec.threads; t++)
        es_choice_free(&all.works[t].choice);
    es_arena_free(&all.arena);
    return status;
}
