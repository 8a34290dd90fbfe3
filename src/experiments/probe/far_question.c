/* SPDX-License-Identifier: Apache-2.0 */
/* far_question.c : the question about far fields: pools of keys, stages and cost. */
#include "experiments/probe/far_question.h"

#include <math.h>

#include "base/error.h"
#include "base/threads.h"
#include "experiments/probe/question.h"
#include "model/model.h"

/* Queries of each n in a block, and keys of a stratum of (F2): with fewer first order is not enough
 * for (F3) in heads with few effective keys. */
enum { QUERIES = 8, ATOMS = 192 };

/* Keys of a pool: several times as many as a far field has; fewer if they take more than this. */
enum { POOL_KEYS = 8192, POOL_BLOCKS = 32 };
#define POOL_BYTES 0x1p28

/* Forecasts beyond this times the length are refused. */
enum { FARTHEST = 4 };

/* ---- sizes ---- */

/* Adds the length to the sizes of --n: forecasts of it are compared with what it was. */
static es_status add_length(es_far_spec *spec, es_error *err)
{
    if (spec->size[spec->sizes - 1] == spec->length)
        return ES_OK;
    if (spec->sizes == ES_FAR_MOST)
        return es_refuse(err, "far.sizes", "leave out one of them",
                         "--n has %d numbers, and --forecast adds the length of blocks",
                         ES_FAR_MOST);
    spec->size[spec->sizes++] = spec->length;
    return ES_OK;
}

/* Chooses n: those of --n, or the length, half of it, and so on. */
static es_status choose_sizes(const probe_params *p, es_far_spec *spec, es_error *err)
{
    const int64_t fewest = es_far_fewest(spec);
    if (spec->length < fewest)
        return es_refuse(err, "far.length", "longer blocks (--block), or a smaller --near",
                         "blocks of %lld tokens have no far field: with %lld sinks and %lld near "
                         "keys they need %lld tokens",
                         (long long)spec->length, (long long)spec->sinks, (long long)spec->near,
                         (long long)fewest);
    for (int64_t i = 0; i < p->sizes.count; i++) {
        const int64_t n = p->sizes.counts[i];
        if (n < fewest || n > spec->length || p->sizes.count > ES_FAR_MOST)
            return es_refuse(err, "far.sizes", "at most 16 numbers within these",
                             "--n %lld: contexts are from %lld to %lld tokens here", (long long)n,
                             (long long)fewest, (long long)spec->length);
        spec->size[spec->sizes++] = n;
    }
    if (spec->sizes)
        return p->forecast.count ? add_length(spec, err) : ES_OK;
    int64_t least = spec->length;
    while (least / 2 >= fewest && spec->sizes + 1 < 6) {
        least /= 2;
        spec->sizes++;
    }
    spec->sizes++;
    for (int64_t s = spec->sizes - 1, n = spec->length; s >= 0; s--, n /= 2)
        spec->size[s] = n;
    return ES_OK;
}

/* Takes the forecasts that are asked for. */
static es_status choose_targets(const probe_params *p, es_far_spec *spec, es_error *err)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const bool turns = c->rotary.width || c->rotary_local.width; /* else positions are learned */
    const int64_t positions = c->positions;
    if (p->forecast.count > ES_FAR_MOST)
        return es_refuse(err, "far.forecast", "fewer numbers", "--forecast has %lld numbers",
                         (long long)p->forecast.count);
    for (int64_t i = 0; i < p->forecast.count; i++) {
        const int64_t n = p->forecast.counts[i];
        if (n <= spec->length)
            return es_refuse(err, "far.forecast", "a larger number, or shorter blocks (--block)",
                             "--forecast %lld: blocks of %lld tokens were run", (long long)n,
                             (long long)spec->length);
        if (n > FARTHEST * spec->length)
            return es_fail(err, ES_E_ARGUMENT, "far.forecast",
                           "longer blocks (--block), a fourth of the forecast or more",
                           "--forecast %lld is more than %d times the longest blocks of %lld "
                           "tokens: queries change too much on the way",
                           (long long)n, FARTHEST, (long long)spec->length);
        if (!turns && n > positions)
            return es_fail(err, ES_E_ARGUMENT, "far.forecast", "a shorter forecast",
                           "--forecast %lld: the model has %lld learned positions, and none beyond",
                           (long long)n, (long long)positions);
        spec->target[spec->targets++] = n;
    }
    return ES_OK;
}

/* Reads texts again, in blocks of another length, or another text. */
static es_status read_blocks(const es_job *job, const es_domain *domain, int64_t length,
                             int64_t tokens, es_blocks *out, es_error *err)
{
    const probe_state *s = job->state;
    es_pool_params asked = *s->pools.asked;
    es_pools pools = s->pools;
    es_domain one = *domain;
    asked.block = length;
    asked.tokens = tokens;
    pools.asked = &asked;
    pools.domains = &one;
    pools.n_domains = 1;
    return es_pools_blocks(&pools, 0, job->exec.budget, out, err);
}

/* Reads the text of --other-text. */
static es_status read_other(const es_job *job, const char *path, probe_far *far, es_error *err)
{
    const es_domain other = {.texts = {.count = 1, .at = {path}}};
    const probe_state *s = job->state;
    if (!path)
        return ES_OK;
    if (s->pools.n_parts)
        return es_refuse(err, "far.other", "leave out --mix",
                         "--other-text does not go with --mix");
    ES_TRY(read_blocks(job, &other, far->spec.length, 0, &far->other_text, err));
    if (probe_count_full(&far->other_text, far->spec.length) < 1)
        return es_fail(err, ES_E_EMPTY, "far.other", "a longer text",
                       "--other-text has no block of %lld tokens", (long long)far->spec.length);
    return ES_OK;
}

/* Chooses how many of some blocks a pool has, and how many keys of each. */
static void size_pool(const es_model_config *c, const es_far_spec *spec, int64_t blocks,
                      int64_t *pool_blocks, int64_t *pool_rows)
{
    const double key = 8.0 * (double)(c->layers * c->kv_heads * c->head_dim);
    const int64_t most = spec->length - spec->sinks;
    const int64_t keys = (int64_t)fmin(POOL_KEYS, fmax(POOL_BYTES / key, 256.0));
    *pool_blocks = blocks < POOL_BLOCKS ? blocks : POOL_BLOCKS;
    *pool_rows = (keys + *pool_blocks - 1) / *pool_blocks;
    *pool_rows = *pool_rows < most ? *pool_rows : most;
}

/* Reads the texts in blocks as long as the longest forecast. */
static es_status read_verify(es_job *job, probe_far *far, es_error *err)
{
    const probe_state *s = job->state;
    const int64_t longest = far->spec.target[far->spec.targets - 1];
    if (longest > s->pools.config->positions)
        return es_refuse(err, "far.verify", "a shorter forecast, or no --verify",
                         "--verify: the model reads %lld tokens at a time, at most",
                         (long long)s->pools.config->positions);
    far->verify = far->spec;
    far->verify.seed = far->spec.seed + 1; /* other places, other draws */
    far->verify.no_draws = true;
    far->verify.length = longest;
    far->verify.sizes = far->spec.targets;
    far->verify.targets = 0;
    for (int64_t t = 0; t < far->spec.targets; t++)
        far->verify.size[t] = far->spec.target[t];
    ES_TRY(ES_JOB_NEW(job, far->verify_texts, s->pools.n_domains, err));
    far->verify_blocks = s->positions.blocks;
    for (int64_t d = 0; d < s->pools.n_domains; d++, far->n_verify++) {
        ES_TRY(read_blocks(job, &s->pools.domains[d], longest, s->pools.asked->tokens,
                           &far->verify_texts[d], err));
        const int64_t full = probe_count_full(&far->verify_texts[d], longest);
        far->verify_blocks = full < far->verify_blocks ? full : far->verify_blocks;
    }
    if (far->verify_blocks < 2)
        return es_fail(err, ES_E_EMPTY, "far.verify", "more text (--pool), or no --verify",
                       "there are no two blocks of %lld tokens in every domain",
                       (long long)longest);
    if (!far->verify.no_exact)
        size_pool(s->pools.config, &far->verify, far->verify_blocks, &far->verify_pool_blocks,
                  &far->verify_pool_rows);
    far->verify_cost =
        es_far_cost_of(&far->verify, false, far->verify_pool_blocks * far->verify_pool_rows);
    return ES_OK;
}

es_status probe_far_open(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    probe_state *s = job->state;
    probe_far *far = &s->far;
    far->stage = far->verify_stage = -1;
    far->spec = (es_far_spec){.model = s->pools.model,
                              .length = s->positions.spec.length,
                              .sinks = p->sinks,
                              .near = p->near,
                              .queries = QUERIES,
                              .atoms = ATOMS,
                              .no_exact = s->also_far, /* beside positions, weights are enough */
                              .seed = job->seed};
    if (s->positions.blocks < 2)
        return es_fail(err, ES_E_EMPTY, "far.blocks", "more text, or shorter blocks (--block)",
                       "the text has one block of %lld tokens: far keys come from other blocks, so "
                       "that two are needed",
                       (long long)far->spec.length);
    ES_TRY(choose_sizes(p, &far->spec, err));
    ES_TRY(choose_targets(p, &far->spec, err));
    ES_TRY(read_other(job, p->other_text, far, err));
    if (p->verify && !far->spec.targets)
        return es_refuse(err, "far.verify", "add --forecast N", "--verify has nothing to verify");
    if (p->verify)
        ES_TRY(read_verify(job, far, err));
    size_pool(s->pools.config, &far->spec, s->positions.blocks, &far->pool_blocks, &far->pool_rows);
    far->error = p->error;
    far->cost =
        es_far_cost_of(&far->spec, far->other_text.count > 0, far->pool_blocks * far->pool_rows);
    return ES_OK;
}

void probe_far_close(probe_far *far)
{
    for (int64_t d = 0; d < far->n_pools; d++)
        es_far_pool_free(&far->pools[d]);
    for (int64_t d = 0; d < far->n_verify_pools; d++)
        es_far_pool_free(&far->verify_pools[d]);
    for (int64_t d = 0; d < far->n_verify; d++)
        es_blocks_free(&far->verify_texts[d]);
    if (far->other_text.count)
        es_blocks_free(&far->other_text);
    es_far_pool_free(&far->other);
}

/* ---- cost ---- */

/* Returns the operations of running the model over blocks of some length. */
static double run_flops(const probe_state *s, int64_t length, double blocks)
{
    const es_model_cost pass =
        es_model_cost_of(s->pools.config, es_model_precision(s->pools.model), length, 1, false);
    return blocks > 0.0 ? blocks * es_model_work(&pass) : 0.0;
}

/* Returns the operations of building all pools. */
static double pool_flops(const probe_state *s)
{
    const probe_far *far = &s->far;
    const double pools = (double)s->pools.n_domains + (far->other_text.count ? 1.0 : 0.0);
    return run_flops(s, far->spec.length, pools * (double)far->pool_blocks) +
           run_flops(s, far->verify.length, (double)(far->n_verify * far->verify_pool_blocks));
}

void probe_far_price(const es_job *job, es_cost *out)
{
    const probe_state *s = job->state;
    const probe_far *far = &s->far;
    const es_model_config *c = s->pools.config;
    const double threads = job->exec.threads ? job->exec.threads : es_threads_available();
    const double blocks = (double)(s->positions.n_domains * s->positions.blocks);
    const double more = (double)(s->positions.n_domains * far->verify_blocks);
    const double heads = (double)(s->layers * s->heads), cell = (double)sizeof(es_far_cell);
    const double pools = (double)s->pools.n_domains + (far->other_text.count ? 1.0 : 0.0);
    const double keys = pools * (double)(far->pool_blocks * far->pool_rows) +
                        (double)(far->n_verify * far->verify_pool_blocks * far->verify_pool_rows);
    out->flops += blocks * far->cost.flops + more * far->verify_cost.flops + pool_flops(s);
    out->begin_flops += pool_flops(s);
    out->work_bytes += threads * fmax(far->cost.bytes, far->verify_cost.bytes) +
                       keys * 8.0 * (double)(c->layers * c->kv_heads * c->head_dim) +
                       heads * cell * (double)es_far_rows(&far->spec) * (blocks + more + threads);
}

/* ---- stages ---- */

static const es_cell_field fields[] = {ES_FIELD_LIST(es_far_cell, real),
                                       ES_FIELD_LIST(es_far_cell, real_window),
                                       ES_FIELD_LIST(es_far_cell, drawn_window),
                                       ES_FIELD_LIST(es_far_cell, drawn),
                                       ES_FIELD_LIST(es_far_cell, other),
                                       ES_FIELD(es_far_cell, exact),
                                       ES_FIELD(es_far_cell, exact_bias),
                                       ES_FIELD(es_far_cell, sampling),
                                       ES_FIELD_LIST(es_far_cell, exact_part),
                                       ES_FIELD_LIST(es_far_cell, bias_part),
                                       ES_FIELD(es_far_cell, gaussian),
                                       ES_FIELD(es_far_cell, pool_error),
                                       ES_FIELD_LIST(es_far_cell, apart),
                                       ES_FIELD_LIST(es_far_cell, apart_other),
                                       ES_FIELD(es_far_cell, spread),
                                       ES_FIELD(es_far_cell, q_norm),
                                       ES_FIELD(es_far_cell, k_norm),
                                       ES_FIELD(es_far_cell, q_cos),
                                       ES_FIELD(es_far_cell, k_cos),
                                       {0}};

/* The description of a pool: `count` blocks of a text, the first of which has the number `first`;
 * -1: of another text, from which no query comes. */
typedef struct wanted {
    const es_blocks *text;
    const es_far_spec *spec;
    int64_t first, count;
    int64_t blocks, rows; /* of the pool, at most */
} wanted;

/* Builds one pool from blocks taken evenly. */
static es_status build_pool(es_job *job, const wanted *w, es_far_pool *out, es_error *err)
{
    const int32_t *ids[ES_FAR_BLOCKS];
    int64_t source[ES_FAR_BLOCKS];
    const int64_t blocks = w->count < w->blocks ? w->count : w->blocks;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t block = (2 * i + 1) * w->count / (2 * blocks);
        ids[i] = probe_block_ids(w->text, w->spec->length, block);
        source[i] = w->first < 0 ? -1 : w->first + block;
    }
    const es_far_build build = {.model = w->spec->model,
                                .ids = ids,
                                .source = source,
                                .blocks = blocks,
                                .rows = w->rows,
                                .length = w->spec->length,
                                .sinks = w->spec->sinks,
                                .seed = w->spec->seed,
                                .cell = (uint64_t)(w->first + 1)};
    return es_far_pool_build(&build, &job->exec, out, err);
}

/* Builds the pools of the blocks that verify forecasts. */
static es_status build_verify_pools(es_job *job, probe_far *far, es_error *err)
{
    if (!far->verify_pool_blocks)
        return ES_OK;
    ES_TRY(ES_JOB_NEW(job, far->verify_pools, far->n_verify, err));
    for (int64_t d = 0; d < far->n_verify; d++, far->n_verify_pools++) {
        const wanted w = {&far->verify_texts[d],   &far->verify,
                          d * far->verify_blocks,  far->verify_blocks,
                          far->verify_pool_blocks, far->verify_pool_rows};
        ES_TRY(build_pool(job, &w, &far->verify_pools[d], err));
    }
    return ES_OK;
}

/* Builds the pools of all domains, of the other text, and of blocks that verify forecasts. */
static es_status build_pools(es_job *job, es_error *err)
{
    probe_state *s = job->state;
    probe_far *far = &s->far;
    const int64_t blocks = s->positions.blocks;
    es_job_phase(job, "collecting far keys", pool_flops(s));
    ES_TRY(ES_JOB_NEW(job, far->pools, s->pools.n_domains, err));
    for (int64_t d = 0; d < s->pools.n_domains; d++, far->n_pools++) {
        const wanted w = {&s->positions.texts[d], &far->spec,    d * blocks, blocks,
                          far->pool_blocks,       far->pool_rows};
        ES_TRY(build_pool(job, &w, &far->pools[d], err));
    }
    ES_TRY(build_verify_pools(job, far, err));
    if (!far->other_text.count)
        return ES_OK;
    const int64_t full = probe_count_full(&far->other_text, far->spec.length);
    const wanted w = {&far->other_text, &far->spec, -1, full, far->pool_blocks, far->pool_rows};
    return build_pool(job, &w, &far->other, err);
}

/* Cell: one block of text, all heads of all layers. */
static es_status run_block(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err)
{
    const probe_state *s = job->state;
    const probe_far *far = &s->far;
    const int64_t blocks = s->positions.blocks, d = cell / blocks;
    const es_far_text text = {
        .ids = probe_block_ids(&s->positions.texts[d], far->spec.length, cell % blocks),
        .number = cell,
        .pool = &far->pools[d],
        .other = far->other_text.count ? &far->other : NULL};
    return es_far_block(&far->spec, &text, exec, out, err);
}

/* Cell: one block as long as the longest forecast. */
static es_status run_verify(es_job *job, int64_t cell, const es_exec *exec, void *out,
                            es_error *err)
{
    const probe_state *s = job->state;
    const probe_far *far = &s->far;
    const int64_t d = cell / far->verify_blocks;
    const es_far_text text = {.ids = probe_block_ids(&far->verify_texts[d], far->verify.length,
                                                     cell % far->verify_blocks),
                              .number = cell,
                              .pool = far->verify_pools ? &far->verify_pools[d] : NULL};
    return es_far_block(&far->verify, &text, exec, out, err);
}

es_status probe_far_begin(es_job *job, es_error *err)
{
    probe_state *s = job->state;
    probe_far *far = &s->far;
    const int64_t heads = s->layers * s->heads;
    const es_stage stage = {"far",
                            .phase = "replacing far keys",
                            .noun = "blocks of text",
                            .cells = s->positions.n_domains * s->positions.blocks,
                            .rows = heads * es_far_rows(&far->spec),
                            ES_RECORD(es_far_cell, fields),
                            .one_thread_per_cell = true,
                            .flops = far->cost.flops,
                            .run = run_block};
    const es_stage verify = {"far_verify",
                             .phase = "running the forecast lengths",
                             .noun = "blocks of text",
                             .cells = s->positions.n_domains * far->verify_blocks,
                             .rows = heads * es_far_rows(&far->verify),
                             ES_RECORD(es_far_cell, fields),
                             .one_thread_per_cell = true,
                             .flops = far->verify_cost.flops,
                             .run = run_verify};
    ES_TRY(build_pools(job, err));
    far->stage = job->n_stages;
    ES_TRY(es_job_stage(job, &stage, err));
    if (!far->n_verify)
        return ES_OK;
    far->verify_stage = job->n_stages;
    return es_job_stage(job, &verify, err);
}

/* ---- numbers of cells ---- */

const es_far_cell *probe_far_cell(const probe_far_head *h, int64_t b, int64_t row)
{
    const es_far_cell *cells = es_job_cell(h->job, h->far->stage, h->first + b);
    return cells + h->at * es_far_rows(&h->far->spec) + row;
}

double probe_far_mean_draw(const double *draws, es_far_stat stat)
{
    double sum = 0.0;
    for (int d = 0; d < ES_FAR_PARTS; d++)
        sum += draws[d * ES_FAR_STATS + (int)stat];
    return sum / ES_FAR_PARTS;
}

es_measured probe_far_real(const probe_far_head *h, int64_t row, es_far_stat stat)
{
    for (int64_t b = 0; b < h->blocks; b++)
        h->scratch[b] = probe_far_cell(h, b, row)->real[stat];
    return es_average_column(h->scratch, h->blocks, 1);
}

probe_over_heads probe_over(const double *values, int64_t count)
{
    const es_spread s = es_spread_of(values, count, 1);
    const double n = (double)count;
    return (probe_over_heads){s.mean, count > 1 ? sqrt(s.squares / (n - 1.0)) : (double)NAN,
                              sqrt(s.mean * s.mean + s.squares / n)};
}

/* ---- summary ---- */

/* Lists all heads of all domains. */
static es_status list_heads(probe_far_summary *m, es_table *names, es_error *err)
{
    const probe_state *s = m->job->state;
    const int64_t heads = s->layers * s->heads, blocks = s->positions.blocks;
    double *scratch;
    m->count = s->pools.n_domains * heads;
    ES_TRY(ES_JOB_NEW(m->job, m->heads, m->count, err));
    ES_TRY(ES_JOB_NEW(m->job, m->values, m->count, err));
    ES_TRY(ES_JOB_NEW_2D(m->job, scratch, 2, blocks, err));
    for (int64_t i = 0; i < m->count; i++)
        m->heads[i] = (probe_far_head){.job = m->job,
                                       .far = m->far,
                                       .domain = i / heads,
                                       .layer = i % heads / s->heads,
                                       .head = i % s->heads,
                                       .at = i % heads,
                                       .heads = heads,
                                       .first = i / heads * blocks,
                                       .blocks = blocks,
                                       .name = es_pools_domain(&s->pools, i / heads, names),
                                       .scratch = scratch,
                                       .more = scratch + blocks};
    return ES_OK;
}

es_status probe_far_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    probe_far_summary m = {.job = job, .answer = answer, .far = &s->far};
    const es_table_spec *first = s->also_far      ? &probe_forecast_table
                                 : s->limits_only ? &probe_far_classes_table
                                                  : &probe_exchange_summary_table;
    ES_TRY(list_heads(&m, es_answer_table(answer, first), err));
    es_answer_count(answer, "far_blocks", s->positions.blocks);
    es_answer_count(answer, "far_length", s->far.spec.length);
    es_answer_count(answer, "far_pool", s->far.pool_blocks * s->far.pool_rows);
    if (!s->also_far && !s->limits_only)
        ES_TRY(probe_far_put_exchange(&m, err));
    if (!s->also_far)
        ES_TRY(probe_far_put_rows(&m, err));
    if (s->limits_only)
        return ES_OK;
    ES_TRY(probe_far_put_forecast(&m, err));
    return probe_far_put_drift(&m, err);
}

/* ---- --look far ---- */

/* Opens the texts as the question about positions does. */
static es_status open_far(es_job *job, es_error *err)
{
    ES_TRY(probe_positions_question.open(job, err));
    return probe_far_open(job, err);
}

/* Returns the cost of far fields alone. */
static void price_far(const es_job *job, es_cost *out)
{
    *out = (es_cost){0};
    probe_far_price(job, out);
}

/* Returns the operations of all blocks of such a length, without running the model over them. */
static double work_of(const es_job *job, const es_pools *pools, int64_t tokens, int64_t block)
{
    return probe_positions_question.work(job, pools, tokens, block);
}

const probe_question probe_far_question = {open_far, price_far, probe_far_begin,
                                           probe_far_summarise, work_of};
