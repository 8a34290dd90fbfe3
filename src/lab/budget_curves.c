/* budget_curves.c : risks of the heads of a model by number of keys, policy by policy.
 *
 * The model runs as it is and shows each head. A head's keys are scored for all queries in turn, a
 * strip at a time, because policies may ask what earlier queries looked at; at the chosen queries
 * its risks are computed (policy_risk.h), with values v Wo_h' in place of v: the error then is that
 * of the layer's output. As |Wo_h u| = |G^1/2 u| with G = Wo_h' Wo_h, values keep the k channels
 * that they have. */
#include "lab/budget.h"

#include <math.h>
#include <string.h>

#include <esscher/experiment.h>
#include <esscher/linalg.h>
#include <esscher/policy_risk.h>

#include "base/error.h"
#include "base/memory.h"
#include "lab/budget_inside.h"
#include "linalg/dense.h"
#include "stats/average.h"

enum { STRIP = 64 };    /* queries whose scores are one product */
enum { OBSERVED = 32 }; /* queries of an observation window, if nobody says (policy.h) */

typedef struct work {
    const es_curves_spec *spec;
    const es_budget_block *block;
    const es_model_config *c;
    const es_curves *out;
    es_budget *budget;
    es_arena arena;
    int64_t *chosen;     /* (queries) positions, increasing */
    double *q, *k, *v;   /* (n, dk) of a head; q times the scale; v through the root of G */
    double *raw;         /* (n, dk) values as they are */
    double *scores;      /* (STRIP, n) */
    double *history;     /* (n) weight from the queries before */
    double *recent;      /* (span, n) of the last of them, one by one */
    double *observed;    /* (n) their sum */
    double *sorted;      /* (n) */
    double *gram, *root; /* (dk, dk) */
    int64_t span;
    es_wo_sum sum;
    es_choice choice;
    double *risk, *limit, *facts; /* of the head */
    es_status status;
} work;

int64_t es_late_begin(const es_model_config *config, int64_t n)
{
    return config->causal ? n / 2 : 0;
}

/* ---- memory ---- */

static es_status take(work *w, int64_t a, int64_t b, void *out, es_error *err)
{
    return es_arena_array(&w->arena, a, b, sizeof(double), "heads by keys", (void **)out, err);
}

static unsigned needs_of(const es_curves_spec *spec)
{
    unsigned needs = 0;
    for (int64_t p = 0; p < spec->n_policies; p++)
        needs |= es_policy_needs(spec->policies[p].policy);
    return needs;
}

static int64_t span_of(const es_curves_spec *spec, int64_t n)
{
    int64_t span = OBSERVED;
    for (int64_t p = 0; p < spec->n_policies; p++)
        if (es_policy_needs(spec->policies[p].policy) & ES_POLICY_OBSERVED &&
            spec->policies[p].span > 0)
            span = spec->policies[p].span;
    return span < n ? span : n;
}

static es_status work_new(work *w, es_error *err)
{
    const int64_t n = w->block->n, dk = w->c->head_dim;
    w->span = span_of(w->spec, n);
    ES_TRY(take(w, w->spec->queries, 1, &w->chosen, err));
    ES_TRY(take(w, n, dk, &w->q, err));
    ES_TRY(take(w, n, dk, &w->k, err));
    ES_TRY(take(w, n, dk, &w->v, err));
    ES_TRY(take(w, n, dk, &w->raw, err));
    ES_TRY(take(w, n, STRIP, &w->scores, err));
    ES_TRY(take(w, n, 1, &w->history, err));
    ES_TRY(take(w, n, w->span, &w->recent, err));
    ES_TRY(take(w, n, 1, &w->observed, err));
    ES_TRY(take(w, n, 1, &w->sorted, err));
    ES_TRY(take(w, dk, dk, &w->gram, err));
    ES_TRY(take(w, dk, dk, &w->root, err));
    return es_wo_sum_new(w->block->model, n, &w->arena, &w->sum, err);
}

double es_curves_bytes(const es_model_config *c, int64_t n)
{
    const double N = (double)n, k = (double)c->head_dim;
    /* a head, its strip, what was observed, a query's risk; and the layer's sum */
    return 8.0 * N * (8.0 * k + STRIP + 8.0 * OBSERVED + 64.0) + 32.0 * k * k +
           es_wo_sum_bytes(c, n) + 1e6;
}

/* ---- which queries ---- */

/* One at a random place of each stretch, the same for all heads. */
static es_status choose_queries(work *w, es_error *err)
{
    const int64_t n = w->block->n, Q = w->spec->queries, from = es_late_begin(w->c, n);
    if (Q < 1 || Q > n - from)
        return es_fail(err, ES_E_RANGE, "budget.queries", "fewer queries, or longer blocks",
                       "%lld queries among %lld late positions", (long long)Q,
                       (long long)(n - from));
    for (int64_t i = 0; i < Q; i++) {
        const es_address at = {.seed = w->block->seed,
                               .experiment = ES_BUDGET_QUERIES,
                               .cell = (uint64_t)w->block->number,
                               .token = (uint64_t)i};
        const int64_t low = from + (n - from) * i / Q, high = from + (n - from) * (i + 1) / Q;
        w->chosen[i] = low + (int64_t)(es_uniform_at(&at) * (double)(high - low));
    }
    return ES_OK;
}

/* ---- one head's matrices ---- */

/* G = Wo' Wo and its root. */
static es_status weigh_head(work *w, const es_model_seen *seen, es_error *err)
{
    const int64_t dk = w->c->head_dim, H = w->c->hidden;
    const double *wo = w->sum.wo; /* (H, dk) */
    const es_view gram = es_view_f64(w->gram, dk, dk);
    (void)seen;
    memset(w->gram, 0, (size_t)(dk * dk) * sizeof(double));
    for (int64_t r = 0; r < H; r++)
        for (int64_t i = 0; i < dk; i++)
            for (int64_t j = 0; j < dk; j++)
                w->gram[i * dk + j] += wo[r * dk + i] * wo[r * dk + j];
    return es_sym_sqrt(&gram, 0.0, w->budget, w->root, NULL, err);
}

static void read_head(work *w, const es_model_seen *seen)
{
    const int64_t n = w->block->n, dk = w->c->head_dim;
    for (int64_t i = 0; i < n; i++) {
        es_view_read_row(&seen->q, i, w->q + i * dk);
        es_view_read_row(&seen->k, i, w->k + i * dk);
        es_view_read_row(&seen->v, i, w->raw + i * dk);
    }
    for (int64_t i = 0; i < n * dk; i++)
        w->q[i] *= seen->scale;
    memset(w->v, 0, (size_t)(n * dk) * sizeof(double));
    es_blas_enter();
    es_gemm_add(ES_F64, n, dk, dk, w->raw, w->root, w->v); /* the root is symmetric */
    es_blas_leave();
}

/* ---- one query ---- */

/* Keys that query i may see: [begin, end). */
static int64_t seen_begin(const work *w, int64_t i)
{
    const int64_t window = w->c->window;
    return w->c->causal && window && i + 1 > window ? i + 1 - window : 0;
}

static int64_t seen_end(const work *w, int64_t i) { return w->c->causal ? i + 1 : w->block->n; }

/* The number of keys that hold a share of the weight. */
static double keys_of_mass(work *w, const double *weights, int64_t n)
{
    double sum = 0.0;
    int64_t count = 0;
    memcpy(w->sorted, weights, (size_t)n * sizeof(double));
    es_sort_reals(w->sorted, n);
    while (count < n && sum < ES_BUDGET_MASS)
        sum += w->sorted[n - ++count];
    return (double)count;
}

static void add_facts(work *w, const es_risk_query *query)
{
    const double share = 1.0 / (double)w->spec->queries;
    double squares = 0.0, sinks = 0.0;
    for (int64_t j = 0; j < query->n; j++)
        squares += query->weights[j] * query->weights[j];
    for (int64_t j = 0; j < ES_BUDGET_SINKS && j < query->n; j++)
        sinks += query->weights[j];
    w->facts[ES_FACT_ESS] += share / squares;
    w->facts[ES_FACT_SINKS] += share * sinks;
    w->facts[ES_FACT_NEED] += share * keys_of_mass(w, query->weights, query->n);
    w->facts[ES_FACT_SPREAD] += share * query->spread2;
}

/* Draws without replacement as independent retention, a tenth of the work. */
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

/* The risk of what the spec keeps. Where none of it has weight in f64, attention would still be
 * somewhere among it: a key's distance from the output stands for that. */
static es_status risk_of(work *w, const es_policy_spec *spec, const es_policy_query *asked,
                         const es_risk_query *query, double *out, es_error *err)
{
    es_policy_risk risk;
    ES_TRY(es_policy_choose(spec, asked, w->budget, &w->choice, err));
    retain_each(&w->choice);
    const es_status status = es_policy_risk_of(query, &w->choice, w->budget, &risk, err);
    *out = status == ES_E_EMPTY ? query->spread2 : risk.square.val;
    return status == ES_E_EMPTY ? ES_OK : status;
}

/* Chance is asked at every other number of keys, the last included. */
static bool is_asked(const es_curves_spec *spec, int64_t policy, int64_t at)
{
    return !(es_policy_needs(spec->policies[policy].policy) & ES_POLICY_CHANCE) ||
           (spec->n_keys - 1 - at) % 2 == 0 || at == 0;
}

static es_status add_risks(work *w, const es_policy_query *asked, const es_risk_query *query,
                           es_error *err)
{
    const es_curves_spec *spec = w->spec;
    const double share = 1.0 / (double)spec->queries;
    for (int64_t m = 0; m < spec->n_keys; m++) {
        double value = 0.0;
        if (spec->keys[m] < query->n)
            ES_TRY(es_policy_limit(query, (double)spec->keys[m], w->budget, &value, NULL, err));
        w->limit[m] += share * value;
        for (int64_t p = 0; p < spec->n_policies; p++) {
            es_policy_spec own = spec->policies[p];
            double *to = &w->risk[p * spec->n_keys + m];
            own.keys = spec->keys[m];
            value = 0.0;
            if (!is_asked(spec, p, m))
                value = (double)NAN;
            else if (own.keys < query->n)
                ES_TRY(risk_of(w, &own, asked, query, &value, err));
            *to += share * value;
        }
    }
    return ES_OK;
}

static void observe(work *w, int64_t i)
{
    const int64_t n = w->block->n;
    memset(w->observed, 0, (size_t)n * sizeof(double));
    for (int64_t r = i > w->span ? i - w->span : 0; r < i; r++)
        for (int64_t j = 0; j < n; j++)
            w->observed[j] += w->recent[r % w->span * n + j];
}

static es_status ask_query(work *w, int64_t i, const double *scores, es_error *err)
{
    const int64_t begin = seen_begin(w, i), n = seen_end(w, i) - begin, dk = w->c->head_dim;
    const es_view values = es_view_f64(w->v + begin * dk, n, dk);
    es_risk_query query;
    observe(w, i);
    ES_TRY(es_risk_query_new(scores + begin, n, &values, w->budget, &query, err));
    const es_policy_query asked = {.n = n,
                                   .position = i - begin,
                                   .causal = w->c->causal,
                                   .scores = scores + begin,
                                   .reach = query.reach,
                                   .history = w->history + begin,
                                   .observed = w->observed + begin};
    add_facts(w, &query);
    const es_status status = add_risks(w, &asked, &query, err);
    es_risk_query_free(&query, w->budget);
    return status;
}

/* ---- all queries of a head ---- */

/* Query i has given its weights to the keys that it saw. */
static void remember(work *w, int64_t i, const double *scores)
{
    const int64_t n = w->block->n, begin = seen_begin(w, i), end = seen_end(w, i);
    double *row = w->recent + i % w->span * n, most = -(double)INFINITY, sum = 0.0;
    memset(row, 0, (size_t)n * sizeof(double));
    for (int64_t j = begin; j < end; j++)
        most = fmax(most, scores[j]);
    for (int64_t j = begin; j < end; j++)
        sum += row[j] = exp(scores[j] - most);
    for (int64_t j = begin; j < end; j++) {
        row[j] /= sum;
        w->history[j] += row[j];
    }
}

static es_status walk_queries(work *w, es_error *err)
{
    const int64_t n = w->block->n, dk = w->c->head_dim, Q = w->spec->queries;
    const bool past = needs_of(w->spec) & (ES_POLICY_HISTORY | ES_POLICY_OBSERVED);
    int64_t next = 0;
    memset(w->history, 0, (size_t)n * sizeof(double));
    for (int64_t first = 0; first < n && next < Q; first += STRIP) {
        const int64_t count = n - first < STRIP ? n - first : STRIP;
        const int64_t keys = w->c->causal ? first + count : n;
        if (!past && w->chosen[next] >= first + count)
            continue;
        memset(w->scores, 0, (size_t)(count * keys) * sizeof(double));
        es_blas_enter();
        es_gemm_add(ES_F64, count, keys, dk, w->q + first * dk, w->k, w->scores);
        es_blas_leave();
        for (int64_t i = first; i < first + count && next < Q; i++) {
            const double *scores = w->scores + (i - first) * keys;
            for (; next < Q && w->chosen[next] == i; next++)
                ES_TRY(ask_query(w, i, scores, err));
            if (past)
                remember(w, i, scores);
        }
    }
    return ES_OK;
}

/* ---- all heads ---- */

static es_status see_head(void *context, const es_model_seen *seen, es_error *err)
{
    work *w = context;
    const es_curves_spec *spec = w->spec;
    const int64_t at = seen->layer * w->c->heads + seen->head;
    w->risk = w->out->risk + at * spec->n_policies * spec->n_keys;
    w->limit = w->out->limit + at * spec->n_keys;
    w->facts = w->out->facts + at * ES_FACTS;
    memset(w->risk, 0, (size_t)(spec->n_policies * spec->n_keys) * sizeof(double));
    memset(w->limit, 0, (size_t)spec->n_keys * sizeof(double));
    memset(w->facts, 0, ES_FACTS * sizeof(double));
    ES_TRY(es_wo_sum_add(&w->sum, seen, err));
    if (seen->head == w->c->heads - 1)
        w->out->spread2[seen->layer] = es_wo_sum_spread2(&w->sum);
    ES_TRY(weigh_head(w, seen, err));
    read_head(w, seen);
    return walk_queries(w, err);
}

es_status es_curves_block(const es_curves_spec *spec, const es_budget_block *block,
                          const es_exec *exec, const es_curves *out, es_error *err)
{
    work w = {.spec = spec,
              .block = block,
              .c = es_model_config_of(block->model),
              .out = out,
              .budget = exec ? exec->budget : NULL,
              .arena = {.budget = exec ? exec->budget : NULL}};
    const es_model_visit visit = {.head = see_head, .context = &w};
    const es_model_block b = {.ids = block->ids, .n = block->n, .visit = &visit};
    es_status status = work_new(&w, err);
    if (status == ES_OK)
        status = choose_queries(&w, err);
    if (status == ES_OK)
        status = es_model_forward(block->model, &b, 1, exec, err);
    es_choice_free(&w.choice);
    es_arena_free(&w.arena);
    return status;
}
