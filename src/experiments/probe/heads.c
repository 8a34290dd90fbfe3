/* SPDX-License-Identifier: Apache-2.0 */
/* heads.c : the table heads: what weights, pool and draws say about each head.
 *
 * From the weights and the covariance S of the layer's input: horizons and the rates they stand
 * for (THEORY 2), per head a k x k problem, H = sqrt(lambda_max((Wq S Wq')(Wk S Wk')))/sqrt(k).
 * From the pool: the limit of each output, exact errors of n independent tokens (THEORY 13), and
 * the effective number of tokens. From draws: measured errors, which must agree with the exact
 * ones. Gaussian tokens of the same covariance are a control: where they differ, the covariance
 * alone does not describe the head, and u = q/sqrt(2 ln n) above 1 says that they would freeze. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"

/* ---- columns ---- */

static const es_column head_columns[] = {
    ES_COL(probe_head_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(probe_head_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(probe_head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(probe_head_row, class, ES_FORMAT_TEXT, "class", "",
           "by the 95 % interval of ESS at n: averaging, 100 or more (two thirds of n, if that is "
           "less); "
           "single-key, below 2; selective, between; undecided, the interval contains a cut-off"),
    ES_COL(probe_head_row, advice, ES_FORMAT_TEXT, "keys to keep", "", PROBE_KEYS_TO_KEEP),
    ES_COL(probe_head_row, random_error, ES_FORMAT_SHORT, "random", "",
           "error of an eighth of the keys, chosen at random, over the spread of values by their "
           "weights: exact, root mean square over 16 queries",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, top_error, ES_FORMAT_SHORT, "top", "",
           "error of as many keys of largest weight", .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, top_random_error, ES_FORMAT_SHORT, "top-random", "",
           "error of half as many keys of largest weight and half at random, corrected",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, critical_scale, ES_FORMAT_SHORT, "critical scale", "",
           PROBE_CRITICAL "; median over 16 queries over the same keys, up to 1024 of the pool",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, weight_least, ES_FORMAT_SHORT, "top weight, at least", "",
           "bound of a query's largest weight over these keys from the gaps between its scores, "
           "median over the queries",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, weight_most, ES_FORMAT_SHORT, "at most", "", "the bound from above",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, critical_power, ES_FORMAT_SHORT, "power of ln n", "",
           "by which the critical scale grows from a sixteenth of these keys to all, mean over "
           "queries; about 0.8 for normal scores at 1024 keys, 0 for exponential tails. None below "
           "128 keys"),
    ES_COL(
        probe_head_row, moves, ES_FORMAT_SHORT, "moves", "",
        "error of the head's part of the layer's output, after Wo, at the largest n, over the "
        "spread "
        "of the layer's inputs (the root of their trace); the order of the heads that matter most"),
    ES_COL(probe_head_row, horizon, ES_FORMAT_SHORT, "H", "",
           "two-sided horizon `|S^1/2 A S^1/2|`"),
    ES_COL(probe_head_row, horizon_error, ES_FORMAT_SHORT, "H error", "",
           "bound on the rounding in it"),
    ES_COL(probe_head_row, horizon_one_sided, ES_FORMAT_SHORT, "one-sided H", "",
           "`|S^1/2 A|`, the horizon of the key side"),
    ES_COL(probe_head_row, horizon_unscaled, ES_FORMAT_SHORT, "H unscaled", "",
           "H without the `1/sqrt(k)` in A, as the papers' code reports it"),
    ES_COL(probe_head_row, coupling, ES_FORMAT_SHORT, "Psi", "",
           "constant of the papers' worst-case exponent"),
    ES_COL(probe_head_row, frobenius, ES_FORMAT_SHORT, "F", "",
           "Frobenius norm of `S^1/2 A S^1/2`; `F^2` is the mean of `q^2` for Gaussian queries"),
    ES_COL(probe_head_row, score_sd, ES_FORMAT_SHORT, "score sd", "nats",
           "root mean square over queries of q, the standard deviation of a query's scores"),
    ES_COL(probe_head_row, freezing, ES_FORMAT_SHORT, "u", "",
           "median over queries of `q/sqrt(2 ln n)` at the largest n; above 1 Gaussian tokens "
           "would freeze",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_head_row, gaussian_frozen, ES_FORMAT_SHORT, "u > 1", "share",
           "of queries with `q > sqrt(2 ln n)` at the largest n: for them a few of n Gaussian "
           "tokens of the same covariance would have all the weight. What the text's tokens do: "
           "ESS, top weight"),
    ES_COL(probe_head_row, ess_pool, ES_FORMAT_SHORT, "ESS pool", "tokens",
           "effective number of tokens, `1/sum w^2`, of queries over the whole pool: median over "
           "queries"),
    ES_COL(probe_head_row, ess_pool_low, ES_FORMAT_SHORT, "ESS < 2", "share",
           "of queries whose effective number of tokens of the pool is below 2"),
    ES_COL(probe_head_row, top_pool, ES_FORMAT_SHORT, "top pool", "",
           "largest weight of a query over the whole pool: median over queries"),
    ES_COL(probe_head_row, top_pool_high, ES_FORMAT_SHORT, "top > 1/2", "share",
           "of queries that give one token of the pool more than half of the weight"),
    ES_COL(probe_head_row, ess_n, ES_FORMAT_SHORT, "ESS at n", "tokens",
           "effective number of the n tokens of a draw at the largest n: median over queries"),
    ES_COL(probe_head_row, ess_n_low, ES_FORMAT_SHORT, "ESS at n < 2", "share",
           "of queries, at the largest n"),
    ES_COL(probe_head_row, top_n, ES_FORMAT_SHORT, "top at n", "",
           "largest weight at the largest n: median over queries"),
    ES_COL(probe_head_row, top_n_high, ES_FORMAT_SHORT, "top at n > 1/2", "share",
           "of queries, at the largest n"),
    ES_COL(probe_head_row, local_exponent, ES_FORMAT_REAL, "alpha", "",
           "local exponent: `P(1 - cos(query, key) <= t) ~ c t^alpha`, for keys less their mean; "
           "twice it is the number of dimensions in which keys vary near a query"),
    ES_COL(probe_head_row, beta, ES_FORMAT_SHORT, "beta", "",
           "inverse temperature `|query| |key|/sqrt(k)`, root mean square"),
    ES_COL(probe_head_row, beta_frozen, ES_FORMAT_SHORT, "single-key from", "",
           "the `beta` from which on fewer than 2 of n keys share the weight (`E sum w^2 > 1/2`), "
           "at the largest n: exact for keys uniform on a sphere of this `alpha` and density, a "
           "model of others"),
    ES_RATE_COLUMNS(probe_head_row, rate_mean, "mean rate",
                    "error ~ n^-rate; standard errors from the jackknife over replicates"),
    ES_RATE_COLUMNS(probe_head_row, rate_cov, "cov rate", NULL),
    ES_RATE_COLUMNS(probe_head_row, rate_map, "map rate", NULL),
    ES_COL(probe_head_row, relative_error, ES_FORMAT_REAL, "rel. error", "",
           "map error at the largest n over the spread of the head's outputs"),
    ES_COL(probe_head_row, output_rms, ES_FORMAT_SHORT, "output spread", "",
           "root mean square distance of the limit's outputs from their mean"),
    ES_COL(
        probe_head_row, sampling, ES_FORMAT_SHORT, "sampling", "",
        "n times the squared map error once n is large, by the weights that queries give the pool",
        .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, sampling_error, ES_FORMAT_SHORT, "sampling error", "",
           "half of its difference between the halves of the pool"),
    ES_COL(probe_head_row, tokens_for_tenth_sign, ES_FORMAT_TEXT, "bound", "",
           "\">\": a lower bound, because thin is above 0.1; any: one token gives outputs within a "
           "tenth "
           "of their spread, so that no number is given"),
    ES_COL(
        probe_head_row, tokens_for_tenth, ES_FORMAT_REAL, "tokens for 10 % error", "tokens",
        "n from which the relative error is below a tenth for tokens drawn independently: where "
        "the "
        "exact curve falls to it. Its error is that of the queries and of the halves of the pool",
        .error = "tokens_for_tenth_error"),
    ES_COL(probe_head_row, tokens_for_tenth_queries, ES_FORMAT_SHORT, "10 % queries", "tokens",
           "standard error of that from the scatter of queries"),
    ES_COL(probe_head_row, tokens_for_tenth_pool, ES_FORMAT_SHORT, "10 % pool", "tokens",
           "half of its difference between the halves of the pool; its error is both together"),
    ES_COL(probe_head_row, thin, ES_FORMAT_SHORT, "thin", "share",
           "of queries that use fewer than 100 tokens of the pool (`1/sum w^2`): the pool cannot "
           "say what they would find in more text"),
    ES_COL(probe_head_row, mean_error_limit, ES_FORMAT_SHORT, "limit's mean error", "",
           "distance between the pool and its text, from its two halves"),
    ES_COL(probe_head_row, cov_error_limit, ES_FORMAT_SHORT, "limit's cov error", ""),
    ES_COL(probe_head_row, map_error_limit, ES_FORMAT_SHORT, "limit's map error", ""),
    ES_RATE_COLUMNS(
        probe_head_row, rate_mean_gaussian, "mean rate",
        "of Gaussian tokens of the same covariance, drawn and measured alike; so are the next two"),
    ES_RATE_COLUMNS(probe_head_row, rate_cov_gaussian, "cov rate", NULL),
    ES_RATE_COLUMNS(probe_head_row, rate_map_gaussian, "map rate", NULL),
    ES_COL(probe_head_row, rate_map_predicted, ES_FORMAT_SHORT, "predicted", "",
           "that map rate of Gaussian tokens from exact integrals, nothing is drawn",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, rate_map_exact, ES_FORMAT_SHORT, "exact rate", "",
           "map rate of the exact curve, which knows the pool's tokens, at the same n",
           .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, rate_horizon, ES_FORMAT_SHORT, "1/(2(1+H^2))", "",
           "the paper's exponent", .standing = ES_STANDING_CITED),
    ES_COL(probe_head_row, rate_worst_case, ES_FORMAT_SHORT, "1/(2(1+32 Psi))", "",
           "the exponent of the paper's first version", .standing = ES_STANDING_CITED),
    ES_COL(probe_head_row, rate_coupling, ES_FORMAT_SHORT, "1/(2(1+Psi))", "",
           "between its neighbours, since `H^2 <= Psi`", .standing = ES_STANDING_PROVED),
    ES_COL(probe_head_row, exponent_map, ES_FORMAT_SHORT, "map exponent", "",
           "of one output for n to infinity and Gaussian tokens",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(probe_head_row, exponent_mean, ES_FORMAT_SHORT, "mean exponent", "",
           "of the mean, likewise"),
    ES_COL(probe_head_row, entropy, ES_FORMAT_REAL, "entropy", "nats",
           "of attention in the text's own blocks; standard errors over blocks"),
    ES_COL(probe_head_row, top_mass, ES_FORMAT_REAL, "top weight", "",
           "largest weight of a query, mean over queries"),
    ES_COL(probe_head_row, ess, ES_FORMAT_REAL, "ESS", "keys",
           "effective number of keys, `1/sum w^2`, mean over queries"),
    ES_COL(probe_head_row, inverse_ess, ES_FORMAT_REAL, "sum w^2", "", "mean over queries"),
    ES_COL(probe_head_row, sink_first, ES_FORMAT_REAL, "on [CLS]", "",
           "weight on a block's first token, mean over the first blocks"),
    ES_COL(probe_head_row, sink_last, ES_FORMAT_REAL, "on [SEP]", "", "and on its last"),
    {0}};
static const es_table_view head_views[] = {
    {"Heads: convergence to the limit",
     "domain layer head class rate_map relative_error tokens_for_tenth_sign tokens_for_tenth thin "
     "rate_map_exact moves horizon score_sd rate_mean rate_cov",
     .only_with_full = true},
    {"Heads: how many tokens count",
     "domain layer head freezing gaussian_frozen ess_pool ess_pool_low "
     "top_pool top_pool_high ess_n ess_n_low "
     "top_n top_n_high critical_scale weight_least weight_most critical_power",
     .only_with_full = true},
    {"Heads: keys to keep",
     "domain layer head class ess_n rate_map_exact advice random_error top_error top_random_error",
     .only_with_full = true},
    {"Heads: Gaussian tokens of the same covariance",
     "domain layer head frobenius local_exponent beta beta_frozen rate_mean_gaussian "
     "rate_cov_gaussian rate_map_gaussian rate_map_predicted rate_horizon",
     .only_with_full = true},
    {"Heads: attention in the text's own blocks",
     "domain layer head entropy top_mass ess sink_first sink_last", .only_with_full = true},
    {0}};
const es_table_spec probe_heads_table = {"heads",
                                         head_columns,
                                         head_views,
                                         ES_ROW(probe_head_row),
                                         .inside = "layers",
                                         .link = "domain layer",
                                         .nested = "heads",
                                         .keys = "domain layer head"};

/* ---- one head ---- */

/* Horizons, exponents and the spread of scores, from weights and covariance. */
static es_status fill_weights(const probe_summary *m, es_error *err)
{
    const es_probe_head *a = &m->about;
    const es_horizons *h = &a->horizons;
    const es_probe_local *local = &m->local[m->head];
    probe_head_row *r = m->row;
    es_exponents e;
    ES_TRY(es_exponents_at(h->horizon.val, &e, err));
    r->horizon = h->horizon.val;
    r->horizon_error = h->horizon.err;
    r->horizon_one_sided = h->one_sided.val;
    r->horizon_unscaled = h->unscaled.val;
    r->coupling = h->coupling.val;
    r->frobenius = h->frobenius.val;
    r->rate_horizon = h->rate_horizon;
    r->rate_worst_case = h->rate_worst_case;
    r->rate_coupling = h->rate_coupling;
    r->exponent_map = e.query_rms;
    r->exponent_mean = e.mean_abs;
    r->score_sd = (es_measured){a->score_sd, a->score_sd_se};
    r->freezing = a->freezing;
    r->gaussian_frozen = (es_measured){a->gaussian_frozen, a->gaussian_frozen_se};
    r->local_exponent = (es_measured){local->exponent, local->exponent_se};
    r->beta = local->beta;
    r->beta_frozen = local->beta_frozen;
    return ES_OK;
}

/* The limit: its outputs, its own error, its variance, its sinks. */
static void fill_limit(const probe_summary *m)
{
    const es_probe_head *a = &m->about;
    probe_head_row *r = m->row;
    r->output_rms = a->output_rms;
    r->sampling = a->sampling;
    r->sampling_error = a->sampling_error;
    r->thin = a->thin;
    r->mean_error_limit = a->limit.mean_error;
    r->cov_error_limit = a->limit.cov_error;
    r->map_error_limit = a->limit.map_error;
    r->sink_first = (es_measured){a->sink_first, a->sink_first_se};
    r->sink_last = (es_measured){a->sink_last, a->sink_last_se};
}

/* The n from which the map error is a tenth of the outputs' spread. Below one token there is no
 * such n: the outputs hardly differ, and any token gives them. */
static es_status fill_tokens(const probe_summary *m, es_error *err)
{
    es_probe_need need = {0};
    const double none = (double)NAN;
    probe_head_row *r = m->row;
    if (m->about.output_rms > 0.0)
        ES_TRY(es_probe_tokens_required(m->s->probe, m->head, probe_exact_at(m),
                                        0.1 * m->about.output_rms, &need, err));
    const bool any = need.tokens < 1.0;
    if (any)
        need = (es_probe_need){none, none, none};
    r->tokens_for_tenth = (es_measured){need.tokens, hypot(need.queries_se, need.pool_error)};
    r->tokens_for_tenth_queries = need.queries_se;
    r->tokens_for_tenth_pool = need.pool_error;
    r->tokens_for_tenth_sign = any ? "any" : m->about.thin > PROBE_THIN ? ">" : "";
    return ES_OK;
}

/* How many tokens count: of the pool, and of the n of a draw. */
static void fill_focus(const probe_summary *m)
{
    const es_probe_focus *pool = &m->about.focus;
    const es_probe_focus *first =
        &probe_draw_at(m->job, PROBE_DRAW, m->place, 0, m->head, m->s->spec.n_sizes - 1)->focus;
    probe_head_row *r = m->row;
    r->ess_pool = pool->ess;
    r->ess_pool_low = pool->ess_low;
    r->top_pool = pool->top;
    r->top_pool_high = pool->top_high;
    r->ess_n = probe_drawn(m->job, &first->ess);
    r->ess_n_low = probe_drawn(m->job, &first->ess_low);
    r->top_n = probe_drawn(m->job, &first->top);
    r->top_n_high = probe_drawn(m->job, &first->top_high);
}

/* Attention in the text's own blocks. */
static es_status fill_blocks(const probe_summary *m, es_error *err)
{
    es_pool_context c;
    probe_head_row *r = m->row;
    ES_TRY(es_pool_context_of(m->s->pools.domains[m->place / m->s->layers].pool,
                              m->place % m->s->layers, m->head, &c, err));
    r->entropy = (es_measured){c.entropy, c.entropy_se};
    r->top_mass = (es_measured){c.top_weight, c.top_weight_se};
    r->ess = (es_measured){c.ess, c.ess_se};
    r->inverse_ess = (es_measured){c.sum_squares, c.sum_squares_se};
    return ES_OK;
}

es_status probe_describe_head(probe_summary *m, es_error *err)
{
    ES_TRY(es_probe_head_of(m->s->probe, m->head, &m->about, err));
    m->row = es_rows_add(m->heads, probe_head_row);
    if (!m->row)
        return es_answer_status(m->job->answer, err);
    m->row->domain = es_pools_domain(&m->s->pools, m->place / m->s->layers, m->heads);
    m->row->layer = m->place % m->s->layers;
    m->row->head = m->head;
    ES_TRY(probe_add_curve(m, err));
    ES_TRY(fill_weights(m, err));
    fill_limit(m);
    ES_TRY(probe_fill_curve(m, err));
    ES_TRY(fill_tokens(m, err));
    fill_focus(m);
    return fill_blocks(m, err);
}
