/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c : the question about limits: parameters, cost, stages, and the order of its summary. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "table/table.h"

/* ---- parameters ---- */

enum { SIZES = 7 }; /* default points of --n */

/* Returns the share of the pool, as a divisor, that the default sizes go up to. Beyond half of it,
 * draws without replacement hardly differ and those with replacement repeat tokens. Windows have at
 * most a tenth: one that is a large part of the pool is close to its limit for that reason alone.
 */
static int64_t parts_of(const probe_params *p) { return p->draw == PROBE_CONTIGUOUS ? 10 : 2; }

/* Returns the largest default size of draws from a pool. */
static int64_t largest_size(const probe_params *p, int64_t tokens)
{
    const int64_t part = tokens / parts_of(p), most = p->paper == 1 ? 384 : 10000;
    return part < most ? part : most;
}

/* Completes --exact-queries and --n. 4 to 6 gives the three sizes that a rate needs. */
static es_status complete(es_job *job, const probe_params *p, int64_t tokens, es_error *err)
{
    char text[64];
    if (!p->exact) /* grids for more queries would take several walks through a streamed text */
        ES_TRY(es_params_set(job->given, "exact-queries", p->pool.stream ? "16" : "64", err));
    if (p->sizes.count)
        return ES_OK;
    if (p->paper == 1)
        return es_params_set(job->given, "n", "64..384*10", err);
    const int64_t parts = parts_of(p), most = largest_size(p, tokens);
    if (most < 6)
        return es_refuse(
            err, "probe.tokens", "more text, or --n GRID",
            "a pool of %lld tokens is too small to draw up to a %s of it; it needs %lld",
            (long long)tokens, parts == 2 ? "half" : "tenth", (long long)(6 * parts));
    snprintf(text, sizeof text, "%d..%lld*%d", most > 200 ? 100 : 4, (long long)most, SIZES);
    return es_params_set(job->given, "n", text, err);
}

/* A streamed pool stores only the rows that will be read. */
static es_status keep_rows(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    probe_state *s = job->state;
    s->wants = (es_probe_wants){.spec = &s->spec,
                                .replicates = p->replicates,
                                .windows = p->draw == PROBE_CONTIGUOUS ? p->replicates : 0,
                                .sections = s->pools.n_domains > 1,
                                .passages = p->paper == 1 ? PROBE_PASSAGES : 0};
    return p->pool.stream ? es_pools_keep(job, &s->pools, es_probe_keep, &s->wants, err) : ES_OK;
}

/* Completes the parameters and states them in the answer. */
static es_status open_limits(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    probe_state *s = job->state;
    ES_TRY(complete(job, p, s->pools.cost.tokens, err));
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
    es_answer_text(job->answer, "draw", probe_draws[p->draw]);
    es_answer_text(job->answer, "protocol", probe_protocols[p->paper]);
    es_answer_count(job->answer, "queries", s->spec.queries);
    es_answer_count(job->answer, "exact_queries",
                    p->exact < s->spec.queries ? p->exact : s->spec.queries);
    es_answer_count(job->answer, "replicates", p->replicates);
    es_answer_count(job->answer, "control", p->control);
    ES_TRY(keep_rows(job, err));
    return es_probe_cost_of(&s->spec, s->pools.cost.tokens, &s->cost, err);
}

/* ---- cost ---- */

/* Draws of all kinds of the text's tokens at one place. */
static double draws_of(const probe_params *p)
{
    return (double)p->replicates * (p->draw == PROBE_CONTIGUOUS ? 2.0 : 1.0);
}

int64_t probe_places(const probe_state *s) { return s->pools.n_domains * s->layers; }

/* Returns the size of the cell of a limit, which is on disk: a covariance and the outputs of all
 * queries. */
static double limit_bytes(const probe_state *s)
{
    const es_model_config *c = s->pools.config;
    const double H = (double)c->hidden, Q = (double)c->query_width, heads = (double)c->heads;
    return 8.0 * (H * (1.0 + H) + (double)s->spec.queries * (Q + heads) + 16.0 * heads);
}

/* Returns the memory of the other cells: stages are added in begin(), so that the driver does not
 * know them. */
static double cell_bytes(const es_job *job)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const double sizes = (double)s->spec.n_sizes, points = (double)s->heads * sizes;
    const double draws = draws_of(p) * (double)sizeof(es_probe_cell) * (points + sizes);
    const double control = (double)p->control * (double)sizeof(probe_control_cell) * points;
    return (double)probe_places(s) * (draws + control + 8.0 * s->cost.exact_numbers);
}

/* Returns the operations at all places with one text, sections and the paper's protocol apart. */
static double places_flops(const probe_params *p, const es_probe_cost *cost, double places)
{
    return places *
           (cost->limit_flops + cost->open_flops + cost->exact_flops +
            draws_of(p) * cost->replicate_flops + (double)p->control * cost->control_flops);
}

/* Returns the operations of a pool of `tokens` tokens, by its largest default size of draws. */
static double work_of(const es_job *job, const es_pools *pools, int64_t tokens, int64_t block)
{
    const probe_params *p = job->params;
    int64_t sizes[SIZES];
    es_probe_cost cost;
    (void)block;
    for (int i = 0; i < SIZES; i++)
        sizes[i] = largest_size(p, tokens) - SIZES + 1 + i;
    const es_probe_spec spec = {pools->model, .sizes = p->sizes.count ? p->sizes.counts : sizes,
                                .n_sizes = p->sizes.count ? p->sizes.count : SIZES,
                                .queries = p->queries < tokens ? p->queries : tokens,
                                .exact = p->exact};
    if (es_probe_cost_of(&spec, tokens, &cost, NULL) != ES_OK)
        return 0.0; /* open_limits() says why */
    return places_flops(p, &cost, (double)(pools->n_domains * pools->config->layers));
}

/* The pool is on disk; its checksums are in memory (held_bytes). */
static void price_limits(const es_job *job, es_cost *out)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_pool_cost *pools = &s->pools.cost;
    const double places = (double)probe_places(s);
    const double points = (double)(s->heads * s->spec.n_sizes);
    const es_probe_price sections = probe_sections_price(s), paper = probe_paper_price(job, s);
    const es_probe_price walks = probe_walks_price(job, s);
    const double again = s->pools.n_domains > 1 /* for sections */
                             ? pools->flops * probe_forwards(s, 1, probe_sections_group(job))
                             : 0.0;
    /* a layer may still be open while one of these is at work */
    const double stages =
        (double)s->cost.bytes + (double)walks.bytes +
        fmax((double)probe_sections_group(job) * (double)sections.bytes, (double)paper.bytes);
    *out = (es_cost){
        .flops = pools->flops + walks.flops + again + places_flops(p, &s->cost, places) +
                 places * (sections.flops + paper.flops),
        .disk_bytes = pools->disk_bytes + places * limit_bytes(s),
        .output_bytes = 512.0 * places * points,
        .work_bytes = pools->held_bytes + fmax(stages, (double)pools->bytes) + cell_bytes(job)};
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
    const int64_t numbers = es_probe_numbers(&spec);
    double *limit;
    ES_TRY(ES_MEM_NEW(exec->budget, limit, numbers, "the limit of a layer", err));
    es_status status = es_job_read(job, PROBE_LIMIT, place, 0, numbers, exec, limit, err);
    if (status == ES_OK)
        status = es_probe_open(&spec, place % s->layers, limit, &s->probe, err);
    es_mem_free(exec->budget, limit);
    return status;
}

/* ---- stages ---- */

/* Builds the pools and adds the stages in the order of their enum. */
static es_status begin_limits(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    probe_state *s = job->state;
    ES_TRY(es_pools_build(job, &s->pools, err));
    ES_TRY(ES_JOB_NEW_2D(job, s->cells, s->heads, s->spec.n_sizes, err));
    ES_TRY(ES_JOB_NEW(job, s->joint, s->spec.n_sizes, err));
    ES_TRY(probe_add_limit(job, err));
    ES_TRY(probe_add_draws(job, false, err));
    ES_TRY(probe_add_control(job, err));
    ES_TRY(probe_add_exact(job, err));
    ES_TRY(probe_add_sections(job, err));
    ES_TRY(probe_add_paper(job, err));
    if (p->draw != PROBE_CONTIGUOUS)
        return ES_OK;
    s->window_stage = job->n_stages;
    return probe_add_draws(job, true, err);
}

/* ---- summary ---- */

/* Tables stand in the answer in the order in which they are made here: what people see first. */
static es_status summarise_heads(es_job *job, es_answer *answer, es_error *err)
{
    probe_summary m = {.job = job, .p = job->params, .s = job->state};
    es_table *classes = es_answer_table(answer, &probe_classes_table);
    es_table *matter = es_answer_table(answer, &probe_matter_table);
    m.layers = es_answer_table(answer, &probe_layers_table);
    m.heads = es_answer_table(answer, &probe_heads_table);
    es_table *differences =
        m.s->pools.n_domains > 1 ? es_answer_table(answer, &probe_differences_table) : NULL;
    m.curves = es_answer_table(answer, &probe_curves_table);
    es_job_phase(job, "describing heads", (double)probe_places(m.s) * m.s->cost.open_flops);
    ES_TRY(probe_describe_layers(&m, err));
    ES_TRY(probe_sum_up_classes(job, m.heads, probe_largest_n(m.s), classes, matter, err));
    ES_TRY(probe_add_head_findings(job, m.heads, classes, answer, err));
    if (differences)
        ES_TRY(probe_compare_domains(job, differences, answer, err));
    if (m.s->window_stage >= 0)
        ES_TRY(probe_put_contexts(job, m.heads, answer, err));
    ES_TRY(probe_sum_up_paper(job, answer, err));
    return probe_caution(job, m.heads, answer, err);
}

/* Summarises the limits. For a model whose queries and keys have positions the findings begin with
 * the words that positions were removed. */
static es_status summarise_limits(es_job *job, es_answer *answer, es_error *err)
{
    const es_model_config *config = ((const probe_state *)job->state)->pools.config;
    if (config->causal || config->rotary.width)
        es_answer_qualify(answer, "Without positions, so not as the model runs: ");
    ES_TRY(summarise_heads(job, answer, err));
    if (config->causal)
        es_answer_add_finding(answer, "Caution: with positions these heads behave otherwise; see "
                                      "--look positions and --look limit.");
    else if (config->rotary.width)
        es_answer_add_finding(answer, "Caution: with rotary positions and windows these heads "
                                      "behave otherwise.");
    es_answer_qualify(answer, NULL);
    return ES_OK;
}

const probe_question probe_limits_question = {open_limits, price_limits, begin_limits,
                                              summarise_limits, work_of};
