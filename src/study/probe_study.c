/* probe_study.c : every head of a BERT checkpoint on real text: what is asked, limits and draws of
 * layers, and what the columns of the answer mean. They are filled in probe_summary.c. */
#include "study/probe_study.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "study/answer_kit.h"

static const char *const draw_choices[] = {"with", "without", "contiguous", NULL};
static const char *const protocol_choices[] = {"house", "paper", NULL};

#define FIELD(member) .field = offsetof(probe_params, member)
static const es_param params[] = {
    ES_POOL_PARAMS(probe_params, pool),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens that are drawn", FIELD(sizes), .min = 2,
     .max = 1e7, .increasing = true,
     .otherwise = "100..10000*7, at most half of the pool, or a tenth of it if contiguous",
     .unit = "tokens"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws", FIELD(replicates), .min = 2,
     .max = 65536, .standard = "8"},
    {"control", 0, ES_PARAM_WHOLE, "R",
     "draws of Gaussian tokens of the same covariance, to compare with; 0: none", FIELD(control),
     .min = 0, .max = 65536, .standard = "4"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "tokens of the pool whose outputs are compared",
     FIELD(queries), .min = 2, .max = 1e6, .standard = "1024", .unit = "tokens", .was = "queries"},
    {"exact-queries", 0, ES_PARAM_WHOLE, "M",
     "of them, those whose error for independent tokens is computed exactly", FIELD(exact),
     .min = 2, .max = 1e6, .standard = "64", .unit = "tokens"},
    {"draw", 0, ES_PARAM_CHOICE, "HOW",
     "tokens with or without replacement; contiguous: windows of the text, beside tokens with "
     "replacement",
     FIELD(draw), .choices = draw_choices, .standard = "with"},
    {"protocol", 0, ES_PARAM_CHOICE, "house|paper",
     "paper: also experiment 2 of Token Sample Complexity: n tokens of a passage attend over each "
     "other, heads concatenated; n is 64..384*10 unless given",
     FIELD(paper), .choices = protocol_choices, .standard = "house"},
    {0}};

/* ---- what was asked ---- */

/* Half of the pool at most: beyond that, draws without replacement have little left to differ
 * in, and those with replacement repeat themselves. A tenth for windows: the limit is the pool, and
 * a window that is a good part of it looks better than it is. */
static es_status complete(es_job *job, const probe_params *p, int64_t tokens, es_error *err)
{
    char text[64];
    if (p->sizes.count)
        return ES_OK;
    if (p->paper == 1)
        return es_params_set(job->given, "n", "64..384*10", err);
    const int64_t part = tokens / (p->draw == PROBE_CONTIGUOUS ? 10 : 2);
    const int64_t most = part < 10000 ? part : 10000;
    snprintf(text, sizeof text, "%d..%lld*7", most > 200 ? 100 : 4,
             (long long)(most < 16 ? 16 : most));
    return es_params_set(job->given, "n", text, err);
}

static es_status open_study(es_job *job, es_error *err)
{
    probe_params *p = job->params;
    probe_state *s = job->state;
    s->pools.scratch.fd = -1;
    s->window_stage = -1;
    if (p->control == 1)
        return es_refuse(err, "probe.control", "0, or 2 and more",
                         "one draw of Gaussian tokens has no standard error");
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    ES_TRY(complete(job, p, s->pools.cost.tokens, err));
    s->layers = s->pools.config->layers;
    s->heads = s->pools.config->heads;
    s->spec = (es_probe_spec){s->pools.model,
                              .sizes = p->sizes.counts,
                              .n_sizes = p->sizes.count,
                              .queries = p->queries < s->pools.cost.tokens ? p->queries
                                                                           : s->pools.cost.tokens,
                              .exact = p->exact,
                              .without_replacement = p->draw == PROBE_WITHOUT,
                              .seed = job->seed};
    if (p->draw == PROBE_CONTIGUOUS && p->sizes.counts[p->sizes.count - 1] > s->pools.cost.tokens)
        return es_refuse(err, "probe.window", "smaller n, or a larger pool",
                         "a context of %lld tokens from a pool of %lld",
                         (long long)p->sizes.counts[p->sizes.count - 1],
                         (long long)s->pools.cost.tokens);
    es_answer_text(job->answer, "draw", draw_choices[p->draw]);
    es_answer_text(job->answer, "protocol", protocol_choices[p->paper]);
    es_answer_count(job->answer, "queries", s->spec.queries);
    es_answer_count(job->answer, "exact_queries",
                    p->exact < s->spec.queries ? p->exact : s->spec.queries);
    es_answer_count(job->answer, "replicates", p->replicates);
    es_answer_count(job->answer, "control", p->control);
    return es_probe_cost_of(&s->spec, s->pools.cost.tokens, &s->cost, err);
}

/* Draws of all kinds of the text's tokens at one place. */
static double draws_of(const probe_params *p)
{
    return (double)p->replicates * (p->draw == PROBE_CONTIGUOUS ? 2.0 : 1.0);
}

int64_t probe_places(const probe_state *s) { return s->pools.n_domains * s->layers; }

/* The pool is on disk; its checksums are in memory, and so are the model and all cells: of a limit
 * a covariance and the outputs of all queries, in f64. */
static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_pool_cost *pools = &s->pools.cost;
    const double places = (double)probe_places(s), hidden = (double)s->pools.config->hidden;
    const double points = (double)(s->heads * s->spec.n_sizes);
    const double R = draws_of(p), C = (double)p->control;
    const double limit = hidden * (1.0 + hidden + (double)s->spec.queries) + 16.0 * points;
    const double draws = R * PROBE_COLUMNS * (points + (double)s->spec.n_sizes);
    const double cells =
        8.0 * places * (limit + draws + C * PROBE_ERRORS * points + s->cost.exact_numbers);
    const es_probe_price sections = probe_sections_price(s), paper = probe_paper_price(job, s);
    /* a layer may still be open while one of these is at work */
    const double stages = (double)s->cost.bytes + fmax((double)sections.bytes, (double)paper.bytes);
    (void)err;
    *out = (es_cost){.flops = pools->flops +
                              places * (s->cost.limit_flops + s->cost.open_flops +
                                        s->cost.exact_flops + sections.flops + paper.flops +
                                        R * s->cost.replicate_flops + C * s->cost.control_flops),
                     .disk_bytes = pools->disk_bytes,
                     .output_bytes = 512.0 * places * points,
                     .work_bytes = (job->exec.budget ? (double)job->exec.budget->used : 0.0) +
                                   pools->held_bytes + fmax(stages, (double)pools->bytes) + cells};
    return ES_OK;
}

/* ---- layers ---- */

es_probe_spec probe_spec_at(const probe_state *s, int64_t place, const es_exec *exec)
{
    es_probe_spec spec = s->spec;
    spec.pool = s->pools.domains[place / s->layers].pool;
    spec.exec = exec;
    return spec;
}

es_status probe_open_layer(const es_job *job, int64_t place, bool draws_only, const es_exec *exec,
                           es_error *err)
{
    probe_state *s = job->state;
    s->exec = *exec;
    if (s->probe && s->place == place && s->spec.draws_only == draws_only)
        return ES_OK;
    es_probe_close(s->probe);
    s->probe = NULL;
    s->place = place;
    s->spec.draws_only = draws_only;
    const es_probe_spec spec = probe_spec_at(s, place, &s->exec);
    return es_probe_open(&spec, place % s->layers, es_job_cell(job, PROBE_LIMIT, place), &s->probe,
                         err);
}

static es_status run_limit(es_job *job, int64_t cell, const es_exec *exec, double *out,
                           es_error *err)
{
    const probe_state *s = job->state;
    const es_probe_spec spec = probe_spec_at(s, cell, exec);
    return es_probe_measure(&spec, cell % s->layers, out, err);
}

/* ---- draws ---- */

static void pack_errors(const es_probe_cell *cell, double *out)
{
    out[PROBE_MEAN] = cell->mean_error;
    out[PROBE_COV] = cell->cov_error;
    out[PROBE_MAP] = cell->map_error;
}

/* What a draw or a window has left in s->cells and s->joint. */
static void pack_draw(const probe_state *s, double *out)
{
    const int64_t sizes = s->spec.n_sizes, points = s->heads * sizes;
    for (int64_t i = 0; i < points; i++, out += PROBE_COLUMNS) {
        const es_probe_focus *f = &s->cells[i].focus;
        pack_errors(&s->cells[i], out);
        out[PROBE_COHERENCE] = (double)NAN;
        out[PROBE_FEW] = s->cells[i].few;
        out[PROBE_ESS] = f->ess;
        out[PROBE_ESS_LOW] = f->ess_low;
        out[PROBE_TOP] = f->top;
        out[PROBE_TOP_HIGH] = f->top_high;
    }
    for (int64_t i = 0; i < sizes; i++, out += PROBE_COLUMNS) {
        for (int column = 0; column < PROBE_COLUMNS; column++)
            out[column] = (double)NAN;
        out[PROBE_MAP] = s->joint[i].map_error;
        out[PROBE_COHERENCE] = s->joint[i].coherence;
    }
}

static es_status run_draw(es_job *job, int64_t cell, const es_exec *exec, double *out,
                          es_error *err)
{
    const int64_t R = ((const probe_params *)job->params)->replicates;
    const probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / R, true, exec, err));
    ES_TRY(es_probe_replicate(s->probe, cell % R, s->cells, s->joint, err));
    pack_draw(s, out);
    return ES_OK;
}

static es_status run_window(es_job *job, int64_t cell, const es_exec *exec, double *out,
                            es_error *err)
{
    const int64_t R = ((const probe_params *)job->params)->replicates;
    const probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / R, true, exec, err));
    ES_TRY(es_probe_window(s->probe, cell % R, R, s->cells, s->joint, err));
    pack_draw(s, out);
    return ES_OK;
}

static es_status run_control(es_job *job, int64_t cell, const es_exec *exec, double *out,
                             es_error *err)
{
    const int64_t C = ((const probe_params *)job->params)->control;
    probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / C, true, exec, err));
    ES_TRY(es_probe_control(s->probe, cell % C, s->cells, err));
    for (int64_t i = 0; i < s->heads * s->spec.n_sizes; i++)
        pack_errors(&s->cells[i], out + i * PROBE_ERRORS);
    return ES_OK;
}

/* ---- exact errors ---- */

static es_status run_exact(es_job *job, int64_t cell, const es_exec *exec, double *out,
                           es_error *err)
{
    const probe_state *s = job->state;
    const es_probe_spec spec = probe_spec_at(s, cell, exec);
    return es_probe_exact(&spec, cell % s->layers, es_job_cell(job, PROBE_LIMIT, cell), out, err);
}

/* ---- all together ---- */

static es_status add_stages(es_job *job, es_error *err)
{
    static const char *const number[] = {"number"};
    static const char *const columns[PROBE_COLUMNS] = {
        "mean_error", "cov_error",     "map_error",  "coherence",     "map_error_exact_few",
        "ess_median", "ess_below_two", "top_median", "top_above_half"};
    const probe_params *p = job->params;
    probe_state *s = job->state;
    const es_probe_spec spec = probe_spec_at(s, 0, &job->exec);
    const int64_t sizes = s->spec.n_sizes, points = s->heads * sizes;
    es_stage stage = {"limit",
                      .phase = "attending over the pool",
                      .noun = "layers",
                      .cells = probe_places(s),
                      .rows = es_probe_numbers(&spec),
                      .cols = 1,
                      .columns = number,
                      .tells = true,
                      .flops = s->cost.limit_flops,
                      .run = run_limit};
    ES_TRY(es_job_stage(job, &stage, err));
    stage = (es_stage){"draw",
                       .phase = "drawing tokens",
                       .noun = "draws",
                       .cells = probe_places(s) * p->replicates,
                       .rows = points + sizes,
                       .cols = PROBE_COLUMNS,
                       .columns = columns,
                       .tells = true,
                       .flops = s->cost.replicate_flops,
                       .run = run_draw};
    ES_TRY(es_job_stage(job, &stage, err));
    const es_stage draws = stage;
    stage = (es_stage){"control",
                       .phase = "drawing Gaussian tokens",
                       .noun = "draws of Gaussian tokens",
                       .cells = probe_places(s) * p->control,
                       .rows = points,
                       .cols = PROBE_ERRORS,
                       .columns = columns,
                       .tells = true,
                       .flops = s->cost.control_flops,
                       .run = run_control};
    ES_TRY(es_job_stage(job, &stage, err));
    stage = (es_stage){"exact",
                       .phase = "integrating over draws",
                       .noun = "layers",
                       .cells = probe_places(s),
                       .rows = es_probe_exact_numbers(&spec),
                       .cols = 1,
                       .columns = number,
                       .tells = true,
                       .flops = s->cost.exact_flops,
                       .run = run_exact};
    ES_TRY(es_job_stage(job, &stage, err));
    ES_TRY(probe_add_sections(job, err));
    ES_TRY(probe_add_paper(job, err));
    if (p->draw != PROBE_CONTIGUOUS)
        return ES_OK;
    s->window_stage = job->n_stages;
    stage = draws;
    stage.name = "window";
    stage.phase = "attending over windows of the text";
    stage.noun = "windows";
    stage.run = run_window;
    return es_job_stage(job, &stage, err);
}

static es_status begin(es_job *job, es_error *err)
{
    probe_state *s = job->state;
    ES_TRY(es_pools_build(job, &s->pools, err));
    ES_TRY(es_job_array(job, s->heads, s->spec.n_sizes, sizeof *s->cells, &s->cells, err));
    ES_TRY(es_job_array(job, s->spec.n_sizes, 1, sizeof *s->joint, &s->joint, err));
    return add_stages(job, err);
}

static void close_study(es_job *job)
{
    probe_state *s = job->state;
    es_probe_paper_close(s->paper);
    es_probe_close(s->probe);
    es_pools_close(&s->pools);
}

/* ---- columns: layers ---- */

static const es_column layer_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"reach", "reach", "", ES_FORMAT_REAL,
     "largest eigenvalue of the covariance of the layer's inputs"},
    {"reach_error", "reach error", "", ES_FORMAT_SHORT, "bound on the rounding in it"},
    {"trace", "trace", "", ES_FORMAT_REAL, "of that covariance"},
    {"participation", "directions", "", ES_FORMAT_SHORT,
     "trace^2 / |cov|_F^2: in how many directions tokens vary"},
    {"horizon", "largest H", "", ES_FORMAT_SHORT, "over the heads"},
    {"horizon_unscaled_all_heads", "H all heads", "", ES_FORMAT_SHORT,
     "of all heads as one and without 1/sqrt(k), as public code reports it; it has no meaning for "
     "several heads"},
    {"gaussian_frozen", "u > 1", "share", ES_FORMAT_SHORT,
     "of queries, over all heads: u = q/sqrt(2 ln n) above 1 at the largest n, where Gaussian "
     "tokens would freeze"},
    {"top_high", "top > 1/2", "share", ES_FORMAT_SHORT,
     "of queries, over all heads: one of n tokens has more than half of the weight, measured at "
     "the largest n"},
    {"coherence", "coherence", "", ES_FORMAT_REAL,
     "squared error of the layer's attention output over the sum of its heads' own: 1 if heads err "
     "independently",
     .error = "coherence_se"},
    {"layer_error", "layer error", "", ES_FORMAT_REAL,
     "root mean square error of that output at the largest n", .error = "layer_error_se"},
    {0}};
const es_table_spec probe_layers_table = {
    "layers", layer_columns,
    ES_VIEW("Layers", "domain layer reach trace participation horizon horizon_unscaled_all_heads "
                      "gaussian_frozen top_high coherence layer_error")};

/* ---- columns: heads ---- */

static const es_column head_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"horizon", "H", "", ES_FORMAT_SHORT, "two-sided horizon |S^1/2 A S^1/2|"},
    {"horizon_error", "H error", "", ES_FORMAT_SHORT, "bound on the rounding in it"},
    {"horizon_one_sided", "one-sided H", "", ES_FORMAT_SHORT,
     "|S^1/2 A|, the horizon of the key side"},
    {"horizon_unscaled", "H unscaled", "", ES_FORMAT_SHORT,
     "H without the 1/sqrt(k) in A, as the papers' code reports it"},
    {"coupling", "Psi", "", ES_FORMAT_SHORT, "constant of the papers' worst-case exponent"},
    {"frobenius", "F", "", ES_FORMAT_SHORT,
     "Frobenius norm of S^1/2 A S^1/2; F^2 is the mean of q^2 for Gaussian queries"},
    {"score_sd", "score sd", "nats", ES_FORMAT_SHORT,
     "root mean square over queries of q, the standard deviation of a query's scores",
     .error = "score_sd_se"},
    {"freezing", "u", "", ES_FORMAT_SHORT,
     "median over queries of q/sqrt(2 ln n) at the largest n; above 1 Gaussian tokens would freeze",
     .standing = ES_STANDING_HEURISTIC},
    {"gaussian_frozen", "u > 1", "share", ES_FORMAT_SHORT,
     "of queries with q > sqrt(2 ln n) at the largest n: for them a few of n Gaussian tokens of "
     "the same covariance would have all the weight. What the text's tokens do: ESS, top weight",
     .error = "gaussian_frozen_se"},
    {"ess_pool", "ESS pool", "tokens", ES_FORMAT_SHORT,
     "effective number of tokens, 1/sum w^2, of queries over the whole pool: median over queries"},
    {"ess_pool_low", "ESS < 2", "share", ES_FORMAT_SHORT,
     "of queries whose effective number of tokens of the pool is below 2"},
    {"top_pool", "top pool", "", ES_FORMAT_SHORT,
     "largest weight of a query over the whole pool: median over queries"},
    {"top_pool_high", "top > 1/2", "share", ES_FORMAT_SHORT,
     "of queries that give one token of the pool more than half of the weight"},
    {"ess_n", "ESS at n", "tokens", ES_FORMAT_SHORT,
     "effective number of the n tokens of a draw at the largest n: median over queries",
     .error = "ess_n_se"},
    {"ess_n_low", "ESS at n < 2", "share", ES_FORMAT_SHORT, "of queries, at the largest n",
     .error = "ess_n_low_se"},
    {"top_n", "top at n", "", ES_FORMAT_SHORT,
     "largest weight at the largest n: median over queries", .error = "top_n_se"},
    {"top_n_high", "top at n > 1/2", "share", ES_FORMAT_SHORT, "of queries, at the largest n",
     .error = "top_n_high_se"},
    {"local_exponent", "alpha", "", ES_FORMAT_REAL,
     "local exponent: P(1 - cos(query, key) <= t) ~ c t^alpha, for keys less their mean; twice it "
     "is in how many dimensions keys vary near a query",
     .error = "local_exponent_se"},
    {"beta", "beta", "", ES_FORMAT_SHORT,
     "inverse temperature |query| |key|/sqrt(k), root mean square"},
    {"beta_frozen", "freezes at", "", ES_FORMAT_SHORT,
     "the beta from which on fewer than 2 of n keys share the weight (E sum w^2 > 1/2), at the "
     "largest n: exact for keys uniform on a sphere of this alpha and density, a model of others"},
    PROBE_RATE_COLUMNS("rate_mean", "mean rate",
                       "error ~ n^-rate; standard errors from the jackknife over replicates"),
    PROBE_RATE_COLUMNS("rate_cov", "cov rate", NULL),
    PROBE_RATE_COLUMNS("rate_map", "map rate", NULL),
    {"relative_error", "rel. error", "", ES_FORMAT_REAL,
     "map error at the largest n over the spread of the head's outputs",
     .error = "relative_error_se"},
    {"output_rms", "output spread", "", ES_FORMAT_SHORT,
     "root mean square distance of the limit's outputs from their mean"},
    {"sampling", "sampling", "", ES_FORMAT_SHORT,
     "n times the squared map error once n is large, by the weights that queries give the pool",
     .standing = ES_STANDING_PROVED},
    {"sampling_error", "sampling error", "", ES_FORMAT_SHORT,
     "half of its difference between the halves of the pool"},
    {"tokens_for_tenth_sign", "", "", ES_FORMAT_TEXT,
     "\">\": thin is above 0.1, and 10 % is likely to be reached later than it says"},
    {"tokens_for_tenth", "10 % from", "tokens", ES_FORMAT_SHORT,
     "n from which the relative error is below a tenth for tokens drawn independently: where the "
     "exact curve falls to it",
     .error = "tokens_for_tenth_error"},
    {"tokens_for_tenth_queries", "10 % queries", "tokens", ES_FORMAT_SHORT,
     "standard error of that from the scatter of queries"},
    {"tokens_for_tenth_pool", "10 % pool", "tokens", ES_FORMAT_SHORT,
     "half of its difference between the halves of the pool; its error is both together"},
    {"thin", "thin", "share", ES_FORMAT_SHORT,
     "of queries for which fewer than 100 tokens of the pool count (1/sum w^2): what they would "
     "find in more text the pool cannot tell"},
    {"mean_error_limit", "limit's mean error", "", ES_FORMAT_SHORT,
     "distance between the pool and its text, from its two halves"},
    {"cov_error_limit", "limit's cov error", "", ES_FORMAT_SHORT},
    {"map_error_limit", "limit's map error", "", ES_FORMAT_SHORT},
    PROBE_RATE_COLUMNS(
        "rate_mean_gaussian", "mean rate",
        "of Gaussian tokens of the same covariance, drawn and measured alike; so are the next two"),
    PROBE_RATE_COLUMNS("rate_cov_gaussian", "cov rate", NULL),
    PROBE_RATE_COLUMNS("rate_map_gaussian", "map rate", NULL),
    {"rate_map_predicted", "predicted", "", ES_FORMAT_SHORT,
     "that map rate of Gaussian tokens from exact integrals, nothing drawn",
     .standing = ES_STANDING_PROVED},
    {"rate_map_exact", "exact rate", "", ES_FORMAT_SHORT,
     "map rate of the exact curve, which knows the pool's tokens, at the same n",
     .standing = ES_STANDING_PROVED},
    {"rate_horizon", "1/(2(1+H^2))", "", ES_FORMAT_SHORT, "the paper's exponent",
     .standing = ES_STANDING_CITED},
    {"rate_worst_case", "1/(2(1+32 Psi))", "", ES_FORMAT_SHORT,
     "the exponent of the paper's first version", .standing = ES_STANDING_CITED},
    {"rate_coupling", "1/(2(1+Psi))", "", ES_FORMAT_SHORT,
     "between its neighbours, since H^2 <= Psi", .standing = ES_STANDING_PROVED},
    {"exponent_map", "map exponent", "", ES_FORMAT_SHORT,
     "of one output for n to infinity and Gaussian tokens", .standing = ES_STANDING_HEURISTIC},
    {"exponent_mean", "mean exponent", "", ES_FORMAT_SHORT, "of the mean, likewise"},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL,
     "of attention in the text's own blocks; standard errors over blocks", .error = "entropy_se"},
    {"top_mass", "top weight", "", ES_FORMAT_REAL, "largest weight of a query, mean over queries",
     .error = "top_mass_se"},
    {"ess", "ESS", "keys", ES_FORMAT_REAL, "effective number of keys, 1/sum w^2, mean over queries",
     .error = "ess_se"},
    {"inverse_ess", "sum w^2", "", ES_FORMAT_REAL, "mean over queries", .error = "inverse_ess_se"},
    {"sink_first", "on [CLS]", "", ES_FORMAT_REAL,
     "weight on a block's first token, mean over the first blocks", .error = "sink_first_se"},
    {"sink_last", "on [SEP]", "", ES_FORMAT_REAL, "and on its last", .error = "sink_last_se"},
    {0}};
static const es_table_view head_views[] = {
    {"Heads: convergence to the limit",
     "domain layer head horizon score_sd rate_mean rate_cov rate_map rate_map_exact relative_error "
     "tokens_for_tenth_sign tokens_for_tenth thin"},
    {"Heads: how many tokens count",
     "domain layer head freezing gaussian_frozen ess_pool ess_pool_low "
     "top_pool top_pool_high ess_n ess_n_low "
     "top_n top_n_high"},
    {"Heads: Gaussian tokens of the same covariance",
     "domain layer head frobenius local_exponent beta beta_frozen rate_mean_gaussian "
     "rate_cov_gaussian rate_map_gaussian rate_map_predicted rate_horizon"},
    {"Heads: attention in the text's own blocks",
     "domain layer head entropy top_mass ess sink_first sink_last"},
    {0}};
const es_table_spec probe_heads_table = {
    "heads",          head_columns, head_views, .inside = "layers", .link = "domain layer",
    .nested = "heads"};

/* ---- columns: curves ---- */

static const es_column row_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"mean_error", "mean error", "", ES_FORMAT_REAL,
     "|m_n - m| of the head's outputs, mean over replicates", .error = "mean_error_se"},
    {"cov_error", "cov error", "", ES_FORMAT_REAL, "|C_n - C| in Frobenius norm",
     .error = "cov_error_se"},
    {"map_error", "map error", "", ES_FORMAT_REAL, "root mean square over queries",
     .error = "map_error_se"},
    {"relative_error", "relative", "", ES_FORMAT_REAL, "map error over the spread of the outputs",
     .error = "relative_error_se"},
    {"map_error_exact", "exact", "", ES_FORMAT_REAL,
     "the map error expected for independent tokens, exact for every n, from the weights that "
     "queries give the pool's tokens, nothing drawn; its error is by how much the queries that are "
     "computed may miss all. Without replacement times the square root of (N - n)/(N - 1)",
     .error = "map_error_exact_se", .standing = ES_STANDING_PROVED},
    {"map_error_exact_pool", "exact, pool", "", ES_FORMAT_SHORT,
     "half of its difference between the halves of the pool", .standing = ES_STANDING_NUMERICAL},
    {"exact_ratio", "measured/exact", "", ES_FORMAT_REAL,
     "root mean square of the measured map error of the very queries whose error is computed, over "
     "that; its error is that of the draws",
     .error = "exact_ratio_se", .standing = ES_STANDING_PROVED},
    {"map_error_sampling", "sampling", "", ES_FORMAT_SHORT,
     "the form of the exact map error for large n", .standing = ES_STANDING_PROVED},
    {"ess", "ESS", "tokens", ES_FORMAT_SHORT,
     "effective number of the n tokens, 1/sum w^2: median over queries, mean over replicates",
     .error = "ess_se"},
    {"top_weight", "top weight", "", ES_FORMAT_SHORT, "largest weight, likewise",
     .error = "top_weight_se"},
    {"mean_error_gaussian", "Gaussian mean", "", ES_FORMAT_SHORT,
     "the same error of Gaussian tokens of the same covariance, drawn, and the same queries",
     .error = "mean_error_gaussian_se"},
    {"cov_error_gaussian", "cov", "", ES_FORMAT_SHORT, .error = "cov_error_gaussian_se"},
    {"map_error_gaussian", "map", "", ES_FORMAT_SHORT, .error = "map_error_gaussian_se"},
    {"map_error_predicted", "predicted", "", ES_FORMAT_SHORT,
     "that map error of Gaussian tokens from exact integrals, nothing drawn",
     .standing = ES_STANDING_PROVED},
    {"mean_error_flag", "mean flag", "", ES_FORMAT_TEXT, "as that of the map error"},
    {"cov_error_flag", "cov flag", "", ES_FORMAT_TEXT, "likewise"},
    {"map_error_flag", "flag", "", ES_FORMAT_TEXT,
     "pool: the distance between the pool and its text, from its two halves, is above a tenth of "
     "this; the rate is that of the pool. Left out of the fit: floor, rounding; reference, drawn "
     "without replacement from too small a pool"},
    {0}};
const es_table_spec probe_rows_table = {
    "rows", row_columns,
    ES_VIEW("Distance from the pool's limit",
            "domain layer head n mean_error cov_error map_error map_error_exact exact_ratio "
            "mean_error_gaussian cov_error_gaussian map_error_gaussian map_error_predicted "
            "map_error_flag")};

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher probe --model models/minilm --text alice.txt",
    "esscher probe --model models/minilm --text alice.txt --pool 20480 --json",
    "esscher probe --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher probe --model models/minilm --text wiki.txt --pool 1000000 --n 1e3..1e5*12 --pool-dir "
    "pool --out probe.run",
    "esscher probe --model models/minilm --text wiki.txt --draw contiguous --n 64,256,1024,4096 "
    "--replicates 16",
    NULL};

const es_study es_study_probe = {
    "probe",
    .summary = "every head of a BERT checkpoint on real text: horizons, freezing, convergence",
    .usage = "--model MODEL --text FILE [options]",
    .about =
        "Runs text through the model and keeps what every layer is given: the pool, a sample of "
        "real tokens. Attention of some of them over the whole pool stands for infinitely many "
        "tokens; attention over n tokens drawn from the pool is measured against it, head by head, "
        "with rates, their intervals, and the pool's own error. Beside it: the exact error of n "
        "independent tokens by the weights that queries give the pool [proved], and how many "
        "tokens a head needs; horizons and the exponents they stand for [cited, heuristic]; how "
        "many tokens count, and what Gaussian tokens of the same covariance would do; entropy and "
        "sinks of attention in the text's own "
        "blocks; how independently the heads of a layer err.\n\n"
        "Tokens of a context are not drawn independently. --draw contiguous also attends over "
        "windows of the text and gives the design effect, the mean square error of windows over "
        "that of independent tokens, and how many independent tokens a context is worth; "
        "--shuffle tells what of it is the order of words, sentences or blocks.\n\n"
        "The pool is on disk; with --pool-dir it is kept, and building it can be killed and goes "
        "on. Layers and heads count from 0.",
    .examples = examples,
    .params = params,
    .size = sizeof(probe_params),
    .takes = ES_TAKES_HEADS | ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(probe_state),
    .open = open_study,
    .cost = cost_of,
    .begin = begin,
    .summarise = probe_summarise,
    .close = close_study};
